"""How many Python functions a small network calls: `python calls.py [-v]` prints the number for the
network, its gradients, and the optimizer's step; `-v` lists the functions.

The time of a program that is traced again in each step grows with these numbers, which, other than
times, are the same on every machine. A first step, which compiles, is not counted.
"""

import sys
from collections import Counter
from collections.abc import Callable

import drjit as dr
import drjit.nn as nn
from drjit.auto.ad import Array2f, Float32, TensorXf
from drjit.opt import Adam


def calls(part: Callable[[], object]) -> Counter[str]:
    """The Python functions that run while a part of the program does, and how often."""
    found: Counter[str] = Counter()

    def note(frame, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            file = code.co_filename.rpartition("drjit/")[2]
            found[f"{file}:{code.co_firstlineno} {code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        part()
    finally:
        sys.setprofile(None)
    return found


def parts() -> dict[str, Callable[[], None]]:
    """The parts of a training step: two hidden layers of 32 features, one output."""
    layers = [nn.Linear(-1, 32), nn.ReLU(), nn.Linear(-1, 32), nn.ReLU(), nn.Linear(-1, 1)]
    net = nn.Sequential(*layers).alloc(TensorXf, 2, rng=dr.rng(seed=0))
    net = nn.pack(net, layout="training")
    optimizer = Adam(lr=1e-3)
    optimizer.update(net)
    x = Array2f(dr.linspace(Float32, 0, 1, 1000), dr.linspace(Float32, 1, 0, 1000))
    dr.make_opaque(x)
    net.update(optimizer)
    loss: list[Float32] = []

    def forward() -> None:
        (y,) = net(nn.CoopVec(x))
        loss[:] = [dr.mean(dr.square(y - x[0] * x[1]))]

    def backward() -> None:
        dr.backward(loss.pop())

    def update() -> None:
        optimizer.step()
        net.update(optimizer)

    return {"network and loss": forward, "gradients": backward, "optimizer": update}


def main() -> None:
    step = parts()
    for _ in range(4):
        for part in step.values():
            part()
    total = 0
    for name, part in step.items():
        found = calls(part)
        total += found.total()
        print(f"{found.total():5d}  {name}")
        for function, count in found.most_common() if "-v" in sys.argv else ():
            print(f"{count:10d}  {function}")
    print(f"{total:5d}  in all")


if __name__ == "__main__":
    main()

"""What an installed wheel must be able to do, with nothing but the packages it requires."""

from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import drjit as dr
from drjit import nn
from drjit.__main__ import main as run_demo
from drjit.auto.ad import Array2f, Float, TensorXf, UInt
from drjit.opt import Adam
from drjit.reporting.page import html


@dr.syntax
def collatz(n: UInt) -> UInt:
    steps = UInt(0)
    while n > 1:
        n = dr.select(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    return steps


def trained(steps: int) -> float:
    """The loss of a small network after some steps."""
    rng = dr.rng(seed=0)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(-1, 1)).alloc(TensorXf, rng=rng)
    net = nn.pack(net, layout="training")
    opt = Adam(lr=0.02, params=net)
    loss = Float(0)
    for _ in range(steps):
        net.update(opt)
        p = rng.random(Array2f, (2, 1024))
        (y,) = net(nn.CoopVec(p))
        loss = dr.mean(dr.square(y - p.x * p.y))
        dr.backward(loss)
        opt.step()
    return loss[0]


def main() -> None:
    assert "site-packages" in Path(dr.__file__).parts, dr.__file__
    assert version("drjit-numba") == dr.__version__
    assert files("drjit").joinpath("llvm", "ad.pyi").is_file()
    assert files("drjit_examples").joinpath("portrait.jpg").is_file()
    assert "views.timeline" in html({})
    assert run_demo(["demo"]) == 0
    assert not any(map(find_spec, ("pytest", "imageio", "matplotlib", "torch")))
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    dr.backward(dr.sin(x * x))
    assert dr.allclose(x.grad, [1.0806, -2.61457, -5.46678])
    assert list(collatz(UInt(1, 6, 27))) == [0, 8, 111]
    assert trained(200) < 0.005
    print(f"drjit-numba {dr.__version__} works as installed.")


if __name__ == "__main__":
    main()

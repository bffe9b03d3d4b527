"""The smallest training loop: a network with biases learns a colour gradient."""

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array3f16, Float16, TensorXf16
from drjit.opt import Adam
from drjit_examples.common import Options, Progress, start


def main() -> None:
    options = Options(__doc__)
    options.number("--iterations", 500, "steps of the training")
    arguments = options.parse()

    rng = dr.rng(seed=0)
    net = nn.Sequential(
        nn.Linear(-1, 32, bias=False),
        nn.ReLU(),
        nn.Linear(-1, -1),
        nn.ReLU(),
        nn.Linear(-1, 3, bias=False),
        nn.Tanh(),
    )
    net = nn.pack(net.alloc(TensorXf16, 2, rng=rng), layout="training")

    optimizer = Adam(lr=5e-3)
    optimizer.update(net)

    progress = Progress(arguments.iterations)
    error = Float16(0)
    for step in progress:
        net.update(optimizer)
        x, y = rng.random(Float16, 4096), rng.random(Float16, 4096)
        reference = Array3f16(x, y, x * y)
        found = Array3f16(net(nn.CoopVec(x, y)))
        loss = dr.mean(dr.square(reference - found))
        dr.backward(loss)
        error = dr.mean(dr.detach(loss))
        dr.schedule(error)
        optimizer.step()
        if step % 100 == 0:
            progress.show(error=f"{error[0]:.5f}")
    print(f"{progress.done} steps: mean square error {error[0]:.5f}")


if __name__ == "__main__":
    start(main)

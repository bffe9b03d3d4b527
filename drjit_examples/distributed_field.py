"""A network that learns a picture in several processes, each with its share.

    torchrun --nproc-per-node 2 -m drjit_examples.distributed_field
    mpiexec -n 2 python -m drjit_examples.distributed_field

The loss is that of one process, to rounding. With a checkpoint, on a disk that all processes share,
a training that was stopped in any way goes on where it was.
"""

from pathlib import Path
from typing import Any

import drjit as dr
from drjit import distributed, nn
from drjit.auto.ad import PCG32, Array2f, Array3f, Float32, Texture2f, UInt32, UInt64
from drjit.opt import Adam
from drjit_examples.common import PORTRAIT, Options, start
from drjit_examples.neural_field import load, make_network


def main() -> None:
    options = Options(__doc__)
    options.number("--iterations", 200, "steps of the training")
    options.number("--size", 256, "positions per row and column")
    options.add_argument(
        "--checkpoint", type=Path, help="file to save the state to, and go on from"
    )
    options.number("--every", 50, "steps between two checkpoints")
    arguments = options.parse()

    distributed.init()
    first = distributed.rank() == 0
    count, rest = divmod(arguments.size**2, distributed.world_size())
    if rest:
        options.error("the positions cannot be divided equally among the processes")
    texture = Texture2f(load(str(PORTRAIT)))
    net, _ = make_network("tri", half=False, rng=dr.rng(seed=0))
    adam = Adam(lr=1e-3)
    adam.update(net)
    opt = distributed.DataParallel(adam)
    state: dict[str, Any] = {"opt": opt, "step": 0}
    if arguments.checkpoint is not None and arguments.checkpoint.exists():
        state = dr.load(arguments.checkpoint, state)
        if first:
            print(f"{arguments.checkpoint}: continues after step {state['step']}")
    distributed.barrier()

    start = distributed.rank() * count
    cell = dr.arange(UInt32, count) + start
    corner = Array2f(cell % arguments.size, cell // arguments.size)
    for step in range(state["step"], arguments.iterations):
        net["net.weights"] = opt["net.weights"]
        # Every position has its own sequence of random numbers, whichever process it is in.
        state_at = dr.opaque(UInt64, (step << 32) + start)
        random = PCG32(count, state_at, UInt64(start))
        p = (corner + Array2f(random.next_float32(), random.next_float32())) / arguments.size
        difference = texture.eval(p) - Array3f(net(nn.CoopVec(p)))
        loss = dr.mean(dr.squared_norm(difference))
        dr.backward(loss)
        if (step + 1) % arguments.every == 0 or step + 1 == arguments.iterations:
            shared = distributed.all_reduce(Float32(dr.detach(loss)))
            if first:
                print(f"step {step + 1}: loss {shared[0] / distributed.world_size():.6f}")
        opt.step()
        state["step"] = step + 1
        if first and arguments.checkpoint is not None and (step + 1) % arguments.every == 0:
            dr.save(arguments.checkpoint, state)
    distributed.barrier()


if __name__ == "__main__":
    start(main)

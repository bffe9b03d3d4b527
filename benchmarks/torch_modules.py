"""A hash grid and a network as a module of `drjit.interop.torch`, beside the same in PyTorch, eager
and compiled.

    python benchmarks/torch_modules.py [--positions N] [--threads N] [--rounds N] [--device D]

Prints milliseconds, the least of all rounds: of the values alone, and of values and the gradients
of all parameters. All take turns in one process. The grid has two dimensions and ten levels; the
network, two hidden layers of 64. PyTorch compiles where it finds a C++ compiler.
"""

import argparse
import math
import time
from collections.abc import Callable

import torch

import drjit as dr
from drjit.interop.torch import NetworkWithInputEncoding

LEVELS, WIDTH, TABLE, BASE, FACTOR = 10, 2, 1 << 16, 16, 1.5
ENCODING = {
    "otype": "HashGrid", "n_levels": LEVELS, "n_features_per_level": WIDTH,
    "log2_hashmap_size": 16, "base_resolution": BASE, "per_level_scale": FACTOR,
}  # fmt: skip
NETWORK = {"otype": "FullyFusedMLP", "n_neurons": 64, "n_hidden_layers": 2}


class Plain(torch.nn.Module):
    """The same values by operations of PyTorch, as one would write them there: a table for each
    level, of which the four corners are looked up at once, and a matrix for each layer."""

    def __init__(self, params: torch.Tensor) -> None:
        super().__init__()
        self.levels: list[tuple[float, int, bool]] = []
        sizes = []
        for level in range(LEVELS):
            scale = BASE * FACTOR**level - 1
            resolution = math.ceil(scale) + 1
            size = min(resolution**2, TABLE)
            sizes.append(size + size % WIDTH)
            self.levels.append((scale, resolution, resolution**2 > TABLE))
        shapes = [*[(size, WIDTH) for size in sizes], (64, LEVELS * WIDTH), (64, 64), (3, 64)]
        parts = params.detach()[: sum(map(math.prod, shapes))].split([*map(math.prod, shapes)])
        made = [p.clone().view(shape) for p, shape in zip(parts, shapes, strict=True)]
        self.tables = torch.nn.ParameterList(made[:LEVELS])
        self.matrices = torch.nn.ParameterList(made[LEVELS:])
        self.register_buffer("corners", torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = []
        for (scale, resolution, hashed), table in zip(self.levels, self.tables, strict=True):
            q = x * scale + 0.5
            t = q - q.floor()
            a, b = (q.long()[:, None] + self.corners).unbind(-1)
            number = a ^ (b * 2654435761 & 0xFFFFFFFF) if hashed else a + b * resolution
            shares = torch.where(self.corners > 0, t[:, None], 1 - t[:, None])
            weights = shares[..., :1] * shares[..., 1:]
            features.append((weights * table[number % len(table)]).sum(1))
        h = torch.cat(features, 1)
        for k, matrix in enumerate(self.matrices):
            h = torch.nn.functional.linear(h, matrix)
            h = torch.relu(h) if k < 2 else h
        return h


def measured(
    runs: dict[str, Callable[[], object]], rounds: int, finish: Callable[[], None]
) -> dict[str, float]:
    """The least time of each in milliseconds, taking turns."""
    best = dict.fromkeys(runs, math.inf)
    for turn in range(rounds + 3):  # the first ones compile
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            finish()
            if turn >= 3:
                best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", type=int, nargs="*", default=[1024, 16384, 262144])
    parser.add_argument("--threads", type=int, default=dr.thread_count())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    dr.set_thread_count(arguments.threads)
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)

    def finish() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    fused = NetworkWithInputEncoding(2, 3, ENCODING, NETWORK)
    with torch.no_grad():
        fused.params.uniform_(-0.3, 0.3)
    plain = Plain(fused.params)
    half = NetworkWithInputEncoding(2, 3, ENCODING, NETWORK, dtype=torch.float16)
    half.load_state_dict(fused.state_dict())
    models = {"fused": fused, "fused, half": half, "eager": plain}
    models = {name: model.to(device) for name, model in models.items()}
    compiled = torch.compile(models["eager"])
    try:
        compiled(torch.rand(16, 2, device=device)).sum().backward()
        models["compiled"] = compiled
    except Exception as error:
        print(f"PyTorch cannot compile here: {str(error).splitlines()[0]}")
    print(f"{arguments.threads} threads, {device}; milliseconds")
    print(f"{'positions':>10} {'':20}" + "".join(f"{name:>14}" for name in models))
    for n in arguments.positions:
        x, seed = torch.rand(n, 2, device=device), torch.rand(n, 3, device=device)
        with torch.no_grad():
            wanted = plain(x)
            error = float((fused(x) - wanted).abs().max() / wanted.abs().max())
        assert error < 1e-4, f"the two differ by {error}"

        def values(model: torch.nn.Module) -> None:
            with torch.no_grad():
                model(x)  # noqa: B023

        def gradients(model: torch.nn.Module) -> None:
            y = model(x)  # noqa: B023
            torch.autograd.grad(y, [*model.parameters()], seed.to(y.dtype))  # noqa: B023

        for label, step in (("forward", values), ("forward and backward", gradients)):
            runs = {name: (lambda m=m, step=step: step(m)) for name, m in models.items()}
            found = measured(runs, arguments.rounds, finish)
            print(f"{n:>10} {label:20}" + "".join(f"{t:>14.2f}" for t in found.values()))


if __name__ == "__main__":
    main()

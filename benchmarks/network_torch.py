"""The training step of network.py in PyTorch: `python network_torch.py NAME THREADS`."""

import sys
import time
from collections.abc import Callable

import torch
from torch.nn import functional

RES = 256
SLOPE = 0.01


def trainer(autocast: bool) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(64, 64)] * 3 + [(3, 64)]
    weights = [
        ((torch.rand(s, generator=generator) * 2 - 1) * 0.2).requires_grad_() for s in shapes
    ]
    opt = torch.optim.Adam(weights, lr=1e-3)
    t = (torch.arange(128) + 0.5) / 128
    y, x = torch.meshgrid(t, t, indexing="ij")
    channels = [0.5 + 0.4 * torch.sin(9 * x * y), 0.5 + 0.4 * torch.cos(7 * y), x * (1 - y)]
    picture = torch.stack(channels)[None]
    scale = torch.tensor([2.0**k for k in range(16)])
    shift = torch.tensor([0.2 * k for k in range(16)])
    grid = torch.stack(torch.meshgrid(torch.arange(RES), torch.arange(RES), indexing="xy"))

    def encode(p: torch.Tensor) -> torch.Tensor:
        angle = torch.addcmul(shift, p[:, :, None], scale)
        both = torch.stack([angle, angle + 0.25], -1)
        waves = 1 - 4 * (both - torch.round(both)).abs()
        return waves.permute(1, 0, 2, 3).reshape(-1, 64)

    def network(h: torch.Tensor) -> torch.Tensor:
        for w in weights[:-1]:
            h = functional.leaky_relu(functional.linear(h, w), SLOPE)
        return torch.exp(functional.linear(h, weights[-1]))

    def step() -> None:
        p = (grid.reshape(2, -1) + torch.rand((2, RES * RES))) / RES
        where = (2 * p.T - 1).reshape(1, 1, -1, 2)
        wanted = functional.grid_sample(picture, where, align_corners=False)[0, :, 0].T
        if autocast:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = network(encode(p)).float()
        else:
            found = network(encode(p))
        loss = ((found - wanted) ** 2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()

    return step


def best(step: Callable[[], None], seconds: float = 1.5) -> float:
    for _ in range(4):
        step()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


if __name__ == "__main__":
    name, threads = sys.argv[1:3]
    torch.set_num_threads(int(threads))
    print(best(trainer(name == "step_bf16")))

"""A hash grid and a fused network that PyTorch's Adam trains on a photograph.

Encoding, network and their derivatives are a kernel each, of Dr.Jit; everything else is PyTorch,
which has to be installed. picture_hash_grid is the same without it.
"""

import sys
from importlib import import_module
from math import log10
from typing import Any

import imageio.v3 as iio
import numpy as np

from drjit_examples.common import PORTRAIT, Options, Panel, Progress, start, write_panels

# As for tiny-cuda-nn: ten grids, each half as fine again as the one before.
ENCODING = {"otype": "HashGrid", "n_levels": 10, "log2_hashmap_size": 16, "per_level_scale": 1.5}
NETWORK = {"otype": "FullyFusedMLP", "n_neurons": 32, "n_hidden_layers": 2}


def installed(name: str) -> Any:
    """A module of PyTorch, or one that needs it."""
    try:
        return import_module(name)
    except ImportError:
        sys.exit("This example needs PyTorch: pip install torch")


def main() -> None:
    options = Options(__doc__, output="torch_field.png")
    options.number("--iterations", 300, "steps of the training", low=0)
    options.number("--positions", 65536, "random positions in each step")
    options.add_argument("--device", default="cpu", help="cpu, or cuda for an NVIDIA GPU")
    arguments = options.parse()

    torch, modules = installed("torch"), installed("drjit.interop.torch")
    device = torch.device(arguments.device)
    torch.manual_seed(0)
    picture = torch.from_numpy(iio.imread(PORTRAIT).astype(np.float32) / 255).to(device)
    height, width, _ = picture.shape

    model = modules.NetworkWithInputEncoding(2, 3, ENCODING, NETWORK).to(device)
    print(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    # Colours between pixels are interpolated. The axes there: batch, channel, row, column.
    pixels = picture.permute(2, 0, 1)[None]
    progress = Progress(arguments.iterations)
    for step in progress:
        p = torch.rand(arguments.positions, 2, device=device)
        where = (2 * p - 1)[None, None]
        wanted = torch.nn.functional.grid_sample(pixels, where, align_corners=False)[0, :, 0].T
        loss = torch.nn.functional.mse_loss(model(p), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            progress.show(PSNR=f"{-10 * log10(loss.item()):.2f} dB")

    y, x = ((torch.arange(n, device=device) + 0.5) / n for n in (height, width))
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)
    with torch.no_grad():
        learnt = model(grid.reshape(-1, 2)).reshape(picture.shape)
    quality = -10 * log10(torch.mean((learnt - picture) ** 2).item())
    panels = [Panel("photograph", picture.cpu().numpy()), Panel("network", learnt.cpu().numpy())]
    write_panels(arguments.output, panels, columns=2, size=width)
    print(f"PSNR {quality:.2f} dB.")


if __name__ == "__main__":
    start(main)

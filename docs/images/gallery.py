"""Makes `gallery.jpg`, the picture of README.md, from what examples write.

python docs/images/gallery.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
TILE = 240
# An example, its options, and parts of its picture: left, upper, right and lower edge as fractions.
TILES = [
    ("neural_field", [], (0.5, 0.02, 1, 0.873)),
    ("path_tracing", ["--size", "480", "--samples", "256"], (0, 0, 1, 1)),
    ("mandelbrot", ["--size", "480"], (0, 0, 1, 1)),
    ("neural_shape", ["--size", "480"], (0, 0, 1, 1)),
    ("cornell_box", ["--size", "240"], (0, 0, 0.5, 1)),
    ("cornell_box", ["--size", "240"], (0.5, 0, 1, 1)),
    ("sphere_tracing", ["--size", "480"], (0.51, 0.03, 0.98, 0.97)),
    ("reaction_diffusion", ["--size", "240"], (0, 0, 1, 1)),
]


def tile(example: str, options: list[str], part: tuple, folder: Path) -> Image.Image:
    """The part of an example's picture, after running it."""
    output = folder / f"{example}.png"
    if not output.exists():
        command = [sys.executable, "-m", "drjit", "demo", example, *options, "--output", output]
        subprocess.run(command, check=True)
    picture = Image.open(output).convert("RGB")
    edges = [f * n for f, n in zip(part, picture.size * 2, strict=True)]
    return picture.crop(tuple(map(round, edges))).resize((TILE, TILE), Image.Resampling.LANCZOS)


def main() -> None:
    columns = 4
    whole = Image.new("RGB", (columns * TILE, len(TILES) // columns * TILE))
    with tempfile.TemporaryDirectory() as folder:
        for k, given in enumerate(TILES):
            whole.paste(tile(*given, Path(folder)), (k % columns * TILE, k // columns * TILE))
    whole.save(HERE / "gallery.jpg", quality=85, optimize=True)


if __name__ == "__main__":
    main()

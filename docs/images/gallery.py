"""Makes `gallery.jpg`, the picture of README.md, from what examples write.

python docs/images/gallery.py [FOLDER]: pictures that the folder has are not made again
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
TILE = 240
# An example, and the square of its picture that is shown: its centre and side, as fractions of the
# width, and the number of the picture if it is an animation.
TILES = [
    ("path_tracing", (0.6, 0.333), 0.667, 0),
    ("neural_shape", (0.5, 0.52), 0.96, 0),
    ("caustic", (0.474, 0.178), 0.29, 0),
    ("fluid", (0.752, 0.249), 0.495, 17),
    ("gaussian_splatting", (0.25, 0.835), 0.48, 0),
    ("cornell_box", (0.2175, 0.272), 0.42, 0),
    ("cornell_box", (0.656, 0.272), 0.42, 0),
    ("neural_field", (0.76, 0.24), 0.44, 0),
    ("soft_body", (0.745, 0.82), 0.485, 0),
    ("mandelbrot", (0.5, 0.5), 1.0, 0),
    ("sphere_tracing", (0.656, 0.272), 0.42, 0),
    ("reaction_diffusion", (0.5, 0.5), 0.7, 0),
]
COLUMNS = 4


def tile(
    example: str, centre: tuple[float, float], side: float, number: int, folder: Path
) -> Image.Image:
    """The part of an example's picture, after running it."""
    output = folder / f"{example}.{'gif' if number else 'png'}"
    if not output.exists():
        command = [sys.executable, "-m", "drjit", "demo", example, "--output", output]
        subprocess.run(command, check=True)
    picture = Image.open(output)
    picture.seek(number)
    edges = [picture.width * (c + s * side / 2) for s in (-1, 1) for c in centre]
    part = picture.convert("RGB").crop(tuple(map(round, edges)))
    return part.resize((TILE, TILE), Image.Resampling.LANCZOS)


def main() -> None:
    whole = Image.new("RGB", (COLUMNS * TILE, len(TILES) // COLUMNS * TILE))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        for k, given in enumerate(TILES):
            whole.paste(tile(*given, folder), (k % COLUMNS * TILE, k // COLUMNS * TILE))
    whole.save(HERE / "gallery.jpg", quality=74, optimize=True)


if __name__ == "__main__":
    main()

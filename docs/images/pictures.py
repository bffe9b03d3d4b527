"""Makes the pictures of the gallery from what examples write: `examples/NAME.jpg` in full, and
`examples/cards/NAME.jpg`, the part of it that a card shows.

python docs/images/pictures.py FOLDER [NAME ...]

What an example has written to FOLDER, as NAME.png or NAME.gif, is taken from there; otherwise it is
run with what is preset, which takes some minutes for all of them.
"""

import io
import subprocess
import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent / "examples"
LARGEST = 38 * 1024  # bytes of a picture; an animation may have half as much again
FULL, CARD, MOVING = (960, 640), (320, 200), (400, 300)
FRAMES = 24
# Which part of a picture a card shows: left, upper, right and lower edge as fractions.
PARTS: dict[str, tuple[float, float, float, float]] = {
    "caustic": (0.318, 0.07, 0.627, 0.60),
    "cornell_box": (0, 0.13, 0.42, 0.89),
    "fluid": (0, 0, 1, 1),
    "gaussian_splatting": (0.05, 0.62, 0.45, 0.95),
    "mandelbrot": (0, 0, 1, 1),
    "neural_field": (0.5, 0.05, 1, 0.6),
    "neural_shape": (0, 0, 1, 1),
    "newton_fractal": (0, 0, 1, 1),
    "path_tracing": (0, 0, 1, 1),
    "picture_hash_grid": (0.64, 0.18, 0.88, 0.5),
    "reaction_diffusion": (0, 0, 1, 1),
    "soft_body": (0, 0.53, 1, 0.985),
    "sphere_tracing": (0.5, 0.12, 0.9, 0.92),
    "texture_filtering": (0, 0, 1, 0.36),
    "tomography": (0.5, 0.55, 1, 0.97),
}


def written(name: str, folder: Path) -> Path:
    """Returns what an example has written, after running it if there is nothing."""
    found = [folder / f"{name}.{ending}" for ending in ("gif", "png")]
    file = next((file for file in found if file.exists()), None)
    if file is None:
        file = found[name != "fluid"]
        command = [sys.executable, "-m", "drjit", "demo", name, "--output", str(file)]
        subprocess.run(command, check=True)
    return file


def cropped(picture: Image.Image, part: tuple[float, float, float, float]) -> Image.Image:
    """Returns the middle of a part, with the proportions of a card."""
    left, upper, right, lower = (
        f * n for f, n in zip(part, (*picture.size, *picture.size), strict=True)
    )
    width = min(right - left, (lower - upper) * CARD[0] / CARD[1])
    height = width * CARD[1] / CARD[0]
    x, y = (left + right) / 2, (upper + lower) / 2
    box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return picture.resize(CARD, Image.Resampling.LANCZOS, box)


def save(picture: Image.Image, file: Path, largest: int, rest: list[Image.Image]) -> None:
    """Writes a picture, or an animation, with the best quality that is small enough."""
    kind = "WEBP" if rest else "JPEG"
    options = {"save_all": True, "append_images": rest, "duration": 80, "loop": 0} if rest else {}
    for quality in range(88, 0, -4):
        data = io.BytesIO()
        picture.save(data, kind, quality=quality, optimize=True, **options)
        if data.tell() <= largest:
            break
    file.write_bytes(data.getvalue())
    print(f"{file.name}: {picture.size[0]} x {picture.size[1]}, {data.tell() >> 10} KiB, {quality}")


def make(name: str, folder: Path) -> None:
    """Makes the pictures of an example."""
    with Image.open(written(name, folder)) as picture:
        frames = getattr(picture, "n_frames", 1)
        if frames > 1:
            images = []
            for k in range(0, frames, -(-frames // FRAMES)):
                picture.seek(k)
                images.append(picture.convert("RGB"))
                images[-1].thumbnail(MOVING, Image.Resampling.LANCZOS)
            save(images[0], HERE / f"{name}.webp", LARGEST * 3 // 2, images[1:])
            return
        whole = picture.convert("RGB")
    part = cropped(whole, PARTS[name])
    whole.thumbnail(FULL, Image.Resampling.LANCZOS)
    save(whole, HERE / f"{name}.jpg", LARGEST, [])
    save(part, HERE / "cards" / f"{name}.jpg", LARGEST // 4, [])


if __name__ == "__main__":
    (HERE / "cards").mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or PARTS:
        make(name, Path(sys.argv[1]))

"""`picture`: arrays of pixels as pictures, which notebooks show."""

import struct
import zlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...array.base import type_label
from ...array.interop import host_array
from ...jit.lazy import np
from ..conversion import is_array

if TYPE_CHECKING:
    from ...array.kinds import Initial

_KINDS = {1: 0, 3: 2, 4: 6}  # PNG's numbers of grey, colour, colour with opacity
_NOT_A_NUMBER = (255, 0, 255)


class Picture:
    """Pixels as 8 bit numbers. Notebooks display it; `png` holds the bytes of a file in the format
    PNG, which `save` writes, and `shape` height, width and channels."""

    def __init__(self, pixels: np.ndarray) -> None:
        self._pixels = pixels
        self.shape = pixels.shape

    def __repr__(self) -> str:
        height, width, channels = self.shape
        kind = {1: "grey", 3: "colour", 4: "colour with opacity"}[channels]
        return f"<picture of {width} × {height} pixels, {kind}: .save('x.png') writes it>"

    @cached_property
    def png(self) -> bytes:
        """The contents of a file in the format PNG."""
        height, width, channels = self.shape
        header = struct.pack(">IIBBBBB", width, height, 8, _KINDS[channels], 0, 0, 0)
        rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with a filter: none
        rows[:, 1:] = self._pixels.reshape(height, -1)
        chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*c) for c in chunks)

    def _repr_png_(self) -> bytes:
        return self.png

    def numpy(self) -> np.ndarray:
        """Returns the pixels as an array of 8 bit numbers (height, width, channels)."""
        return self._pixels

    def save(self, filename: str | Path) -> Path:
        """Writes a file in the format PNG, to whose name `.png` is added if it has no ending.

        Raises:
            ValueError: the name has another ending.
        """
        path = Path(filename)
        path = path if path.suffix else path.with_suffix(".png")
        if path.suffix.lower() != ".png":
            raise ValueError(
                f"a picture is saved in the format PNG, so the name of its file ends with .png, "
                f"not {path.suffix}: {filename}"
            )
        path.write_bytes(self.png)
        return path


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def picture(
    pixels: "Initial",
    shape: tuple[int, int] | None = None,
    *,
    low: float = 0.0,
    high: float = 1.0,
    srgb: bool = True,
    zoom: int = 1,
) -> Picture:
    """Returns pixels as a picture that notebooks show, and that `save` writes to a file.

    `pixels` is a tensor, or an array of NumPy or another framework, of height × width, or height ×
    width × channels: one (grey), three (linear red, green, blue), or four (with opacity). Flat and
    nested arrays such as `Float` or `Array3f` have a pixel per lane, row by row, and need the
    `shape` (height, width). Values from `low` to `high` are shown from dark to bright, others
    like the nearest of these; NaNs are magenta. With `srgb`, floating point values are light, which
    is encoded by the curve of sRGB; without, they are shown as they are. 8 bit integers are shown
    as they are, masks as black and white. Each pixel becomes a square of `zoom` × `zoom`.

    Evaluates the array.

    Raises:
        TypeError: `pixels` is not an array.
        ValueError: it has no such shape, or `zoom` or the range are not positive.

    >>> dr.picture(dr.linspace(Float, 0, 1, 12), (3, 4))
    <picture of 4 × 3 pixels, grey: .save('x.png') writes it>
    >>> dr.picture(dr.ones(TensorXf, (2, 2, 3)), zoom=8).shape
    (16, 16, 3)
    """
    values = _pixels(pixels, shape)
    if not high > low:
        raise ValueError(f"dr.picture(): 'high' ({high}) must be greater than 'low' ({low})")
    if zoom != int(zoom) or zoom < 1:
        raise ValueError(f"dr.picture(): 'zoom' must be a positive integer, not {zoom}")
    if values.dtype != np.uint8:
        values = _bytes(values, low, high, srgb and values.dtype.kind == "f")
    return Picture(values.repeat(int(zoom), 0).repeat(int(zoom), 1))


def _pixels(pixels: Any, shape: tuple[int, int] | None) -> np.ndarray:
    """Returns pixels as a NumPy array of height × width × channels."""
    if is_array(pixels):
        values = np.asarray(pixels.numpy())
        if pixels._kind != "tensor" and values.ndim > 1:
            values = np.moveaxis(values, 0, -1)  # components are channels
    else:
        try:
            values = host_array(pixels)
        except TypeError:
            raise TypeError(
                f"dr.picture(): expected an array of pixels, got {type_label(pixels)}"
            ) from None
    if values.dtype.kind not in "fiub":
        raise TypeError(f"dr.picture(): {values.dtype} values cannot be shown as pixels")
    found = values.shape
    if shape is not None:
        height, width = shape
        if height * width != int(np.prod(found[:-1] if values.ndim > 1 else found)):
            shown = " × ".join(map(str, found))
            raise ValueError(
                f"dr.picture(): {height} × {width} pixels do not fit an array of {shown} "
                "values (pixels × channels)"
            )
        values = values.reshape(height, width, -1)
    elif values.ndim == 2 and (not is_array(pixels) or pixels._kind == "tensor"):
        values = values[:, :, None]
    if values.ndim != 3 or values.shape[2] not in _KINDS or 0 in values.shape:
        hint = "" if shape else "; the height and width of other arrays are given by 'shape'"
        raise ValueError(
            f"dr.picture(): pixels have the shape (height, width) or (height, width, channels), "
            f"with 1, 3 or 4 channels, not {found}{hint}"
        )
    return values


def _bytes(values: np.ndarray, low: float, high: float, srgb: bool) -> np.ndarray:
    """Returns values as 8 bit numbers; opacity is not light, so that no curve applies to it."""
    if values.dtype.kind == "b":
        low, high = 0, 1
    x = (values.astype(np.float64) - low) / (high - low)
    missing = np.isnan(x).any(axis=2)
    x = np.nan_to_num(x, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1)
    if srgb:
        light = x[:, :, :3]
        curve = 1.055 * np.maximum(light, 0.0031308) ** (1 / 2.4) - 0.055
        x[:, :, :3] = np.where(light <= 0.0031308, 12.92 * light, curve)
    result = (x * 255 + 0.5).astype(np.uint8)
    if missing.any():
        result = np.repeat(result, 3, axis=2) if result.shape[2] == 1 else result
        result[missing, :3] = _NOT_A_NUMBER
        result[missing, 3:] = 255
    return result

"""The format `.safetensors`: a header in JSON, then the arrays one after the other. The package of
that name writes it."""

import functools
import json
from typing import IO, Any

from ...jit.lazy import np
from .array_format import (
    MOST_AXES,
    Arrays,
    Contents,
    Facts,
    StoredArray,
    array_of,
    bytes_of,
    damage,
    expecting,
    parsed,
    short,
)

_LENGTH = 8  # bytes of the header's size, at the start
_LONGEST = 100_000_000  # bytes of the header, as in the package
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip


def write(file: IO[bytes], arrays: Arrays, facts: Facts, what: str) -> None:
    """Writes a file."""
    try:
        from safetensors.numpy import save
    except ImportError:
        raise ImportError(
            f"{what}: files of the format .safetensors need the package 'safetensors', which is "
            "not installed. The format .npz needs none."
        ) from None
    contiguous = {key: np.ascontiguousarray(a).reshape(a.shape) for key, a in arrays.items()}
    file.write(save(contiguous, {"drjit": json.dumps(facts)} if facts else None))


def read(file: IO[bytes], size: int, what: str) -> Contents:
    """Returns the contents of a file of a size."""
    length = int.from_bytes(file.read(_LENGTH), "little")
    start = _LENGTH + length
    if length > _LONGEST or start > size:
        most = min(_LONGEST, size - _LENGTH)
        raise damage(what, f"a header of at most {most} bytes", length)
    header = parsed(file.read(length), f"{what}: the header")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or not all(type(v) is str for v in metadata.values()):
        raise damage(f"{what}: '__metadata__'", "names and texts", short(metadata))
    places = sorted([(*_place(header[name], f"{what}: {name!r}"), name) for name in header])
    end = 0
    for first, last, name in places:
        if first != end:
            raise damage(f"{what}: {name!r}", f"data from byte {end}", f"from byte {first}")
        end = last
    if start + end != size:
        raise damage(what, f"{size - start} bytes of arrays", f"{end} according to the header")

    def array(name: str) -> StoredArray:
        where, row = f"{what}: {name!r}", header[name]
        if row["dtype"] not in _TYPES:
            raise damage(where, f"one of the types {', '.join(_TYPES)}", short(row["dtype"]))
        dtype, shape = np.dtype(_TYPES[row["dtype"]]), tuple(row["shape"])
        needed = bytes_of(dtype, shape)
        first, last = row["data_offsets"]
        if last - first != needed:
            raise damage(where, f"{needed} bytes for {dtype} of shape {shape}", last - first)

        def values() -> np.ndarray:
            with expecting("an array", where):
                file.seek(start + first)
                return array_of(file, dtype, shape, where)

        return StoredArray(dtype, shape, values)

    def facts() -> Facts:
        return parsed(metadata["drjit"], f"{what}: 'drjit'") if "drjit" in metadata else {}

    return Contents({name: functools.partial(array, name) for name in header}, facts)


def _place(row: Any, where: str) -> tuple[int, int]:
    """Returns where an array begins and ends, after having checked its description."""
    if type(row) is not dict or row.keys() != {"dtype", "shape", "data_offsets"}:
        raise damage(where, "'dtype', 'shape' and 'data_offsets'", short(row))
    shape, place = row["shape"], row["data_offsets"]
    if type(row["dtype"]) is not str or not _are_sizes(shape) or len(shape) > MOST_AXES:
        raise damage(where, f"a type, and a shape of at most {MOST_AXES} dimensions", short(row))
    if not _are_sizes(place) or len(place) != 2 or place[0] > place[1]:
        raise damage(where, "data_offsets: where it begins and ends", short(place))
    return place[0], place[1]


def _are_sizes(value: Any) -> bool:
    return type(value) is list and all(type(n) is int and 0 <= n < 1 << 63 for n in value)

"""Gathers and scatters for arrays of `drjit.scalar`, which are lists of Python numbers."""

from math import prod
from typing import Any

from ...array.show import inner
from ...jit.ir.node import normalize
from ...jit.ir.op import REDUCTIONS
from ...jit.lazy import np
from .. import conversion
from ..conversion import assemble, flat_class, is_array, label, nested


def _positions(index: Any, what: str) -> list[int]:
    if is_array(index) and index._kind != "tensor" and index.__meta__.is_jit:
        raise TypeError(f"{what}(): the index is of type {label(index)}, which does not fit")
    if is_array(index):
        index = index._array._components if index._kind == "tensor" else index._components
    return [int(i) for i in np.atleast_1d(np.asarray(index)).astype(np.int64).reshape(-1)]


def _flags(active: Any, count: int, what: str) -> list[bool]:
    if active is None or isinstance(active, (str, bytes)):
        raise TypeError(
            f"{what}(): 'active' is of type {label(active)}; expected a bool or a sequence of bools"
        )
    values = (
        active._components if is_array(active) else np.atleast_1d(np.asarray(active, bool)).tolist()
    )
    return list(values) * count if len(values) == 1 else list(values)


def _checked(i: int, size: int, what: str) -> int:
    if not 0 <= i < size:
        raise IndexError(f"{what}: index {i} is out of bounds for an array of size {size}")
    return i


def gather(dtype: type, source: Any, index: Any, active: Any, shape: Any) -> Any:
    """Reads entries of a one-dimensional array; see `drjit.gather`."""
    what = "dr.gather"
    if (
        source.__meta__.is_jit
        or source._dtype is not dtype._dtype
        or not conversion.is_flat(type(source))
    ):
        raise TypeError(
            f"{what}({label(dtype)}): the source is of type {label(source)}; expected "
            f"{label(flat_class(dtype))}"
        )
    positions, data = _positions(index, what), source._components
    enabled = _flags(active, len(positions), what)
    single = len(data) == 1  # broadcast to every index
    zero = source._dtype.scalar(0).item()
    if conversion.is_flat(dtype):
        return nested(
            dtype,
            [
                data[0 if single else _checked(i, len(data), what)] if on else zero
                for i, on in zip(positions, enabled, strict=True)
            ],
        )
    if len(positions) != 1:
        raise TypeError(f"{what}({label(dtype)}): expected one index, got {len(positions)}")
    dims = dtype.__meta__.dims if shape is None else tuple(shape)
    count = prod(dims)
    if single or not enabled[0]:
        entries = [data[0] if enabled[0] else zero] * count
    else:
        first = _checked(positions[0], len(data) // count, what) * count
        entries = data[first : first + count]
    return assemble(dtype, entries, dims)


def scatter(reduce: str, target: Any, value: Any, index: Any, active: Any, what: str) -> None:
    """Writes to, or combines with, entries of a one-dimensional array; see `drjit.scatter`."""
    data, dtype = target._components, target._dtype
    if not conversion.is_flat(type(target)):
        raise TypeError(f"{what}(): the target is of type {label(target)}, not one-dimensional")
    positions = _positions(index, what)
    leaves = list(inner(value)) if is_array(value) else None
    per_index = 1
    if leaves is not None and not conversion.is_flat(type(value)) and len(positions) == 1:
        per_index = len(leaves)
    values = list(inner(type(target)(leaves if leaves is not None else value)))
    enabled = _flags(active, len(positions), what)
    limit = len(data) // per_index
    positions = [
        _checked(i, limit, what) if on else i for i, on in zip(positions, enabled, strict=True)
    ]
    if per_index == 1 and len(values) == 1:
        values = values * len(positions)
    where = [i * per_index + j for i in positions for j in range(per_index)]
    if len(values) != len(where):
        raise RuntimeError(f"{what}(): {len(values)} values for {len(where)} indices")
    combine = REDUCTIONS[reduce].python if reduce else None
    for k, (i, v) in enumerate(zip(where, values, strict=True)):
        if enabled[k // per_index]:
            data[i] = v if combine is None else normalize(dtype, combine(data[i], v))

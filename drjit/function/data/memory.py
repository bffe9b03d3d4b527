"""Gathers, scatters, and atomic operations.

Every index is checked. An index that is out of bounds reads 0 and writes nothing, and raises an
IndexError no later than the next synchronization.
"""

from math import prod
from typing import TYPE_CHECKING, Any

from ...array import leaf, leaf_access, signatures
from ...array.base import ArrayBase, IncompatibleError
from ...array.meta import DYNAMIC
from ...array.pytree import is_container, map_tree, paired_leaves
from ...array.show import innermost
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.ir.node import normalize
from ...jit.ir.op import ReduceMode, ReduceOp
from ...jit.lazy import np
from ...jit.trace.access import Access, is_idle
from .. import conversion
from ..conversion import T, access_to, is_array, is_array_class, label, nested, tensor

if TYPE_CHECKING:
    from ...array.kinds import Active, Convertible, Index
    from ...array.promotion import PyTree
    from ...array.signatures import LeafT


REDUCTIONS = {r: r.name.lower() for r in ReduceOp if r is not ReduceOp.Identity}
_REFUSED = {(k, t) for k, o in op.REDUCTIONS.items() for t in dt.ALL if not o.accepts(t)}
_AUTO, _PERMUTE = ReduceMode.Auto, ReduceMode.Permute  # looking these up takes long


# Gather


def gather(
    dtype: type[T],
    source: "ArrayBase | PyTree",
    index: "Index",
    active: "Active" = True,
    mode: ReduceMode = ReduceMode.Auto,
    shape: tuple[int, ...] | None = None,
) -> T:
    """Returns the entries of `source` at the positions `index`, and 0 where `active` is false.

    `source` is a one-dimensional array. If `dtype` is its class, the result has one entry per
    index. If `dtype` is a nested class with `k` innermost components, such as `Array3f`, the result
    takes the `k` consecutive entries starting at `index * k`. A nested source, or a PyTree, is read
    component by component, with components of one entry broadcast; a tensor is read by flat index.
    A class of dynamic size needs a `shape`, such as (2, n). `mode` concerns the adjoint only.

    Raises:
        IndexError: an index is out of bounds: immediately if it is constant, otherwise at the next
            synchronization.
        TypeError: `dtype` does not match the type of `source`, or index or mask has the wrong type.
        RuntimeError: index and mask differ in size.

    >>> from drjit.llvm import Float, Array2f, UInt
    >>> dr.gather(Float, Float(1, 2, 3, 4), UInt(3, 0))
    [4, 1]
    >>> dr.gather(Array2f, Float(1, 2, 3, 4), UInt(1, 0))
    [[3, 4],
     [1, 2]]
    """
    what = "dr.gather"
    if type(source) is dtype and getattr(dtype, "_kind", "") == "leaf":
        return leaf_access.gather(source, access_to(dtype, index, active, what, mode))
    if not isinstance(source, ArrayBase) and is_container(source):
        if dtype is not type(source):
            raise TypeError(
                f"{what}(): unsupported dtype {label(dtype)}, the source is of type {label(source)}"
            )
        return map_tree(
            lambda s: gather(type(s), s, index, active, mode=mode) if is_array(s) else s,
            source,
            what=what,
        )
    return _gather_array(dtype, source, index, active, mode, shape)


def _gather_array(
    dtype: Any, source: Any, index: Any, active: Any, mode: ReduceMode, shape: Any
) -> Any:
    """Gathers from an array, to a type that is perhaps not its own."""
    what = "dr.gather"
    if not is_array_class(dtype) or not is_array(source):
        wrong = dtype if not is_array_class(dtype) else type(source)
        raise TypeError(
            f"{what}({label(dtype)}, {label(source)}): unsupported dtype or source. 'dtype' must "
            f"be an array type and 'source' an array of one dimension, {label(wrong)} is neither"
        )
    if dtype._kind == "tensor":
        return _gather_tensor(dtype, source, index, active, shape, mode)
    if source._kind == "tensor":
        source = source._array
    if not dtype.__meta__.is_jit:
        return _gather_numbers(dtype, source, index, active, shape)
    if source._kind == "nested":
        return _gather_components(dtype, source, index, active, mode)
    if dtype.__meta__.namespace != source.__meta__.namespace or dtype._dtype is not source._dtype:
        raise TypeError(
            f"{what}({label(dtype)}): unsupported dtype, a {label(source)} has entries of another "
            f"type. Gather as {label(source)}, or a nested type of it, and convert the result."
        )
    if dtype._kind == "leaf":
        return gather(dtype, source, index, active, mode=mode)  # the storage of a tensor
    dims = _result_dims(dtype, shape, what)
    if isinstance(index, ArrayBase) and index._kind == "nested":
        return _gather_components(dtype, source, index, active, mode)
    at = access_to(dtype, index, active, what, mode, packet=prod(dims))
    return conversion.assemble(dtype, leaf_access.gather_packet(source, at), dims)


def _result_dims(dtype: type, shape: Any, what: str) -> tuple[int, ...]:
    """Returns the level sizes of a nested result."""
    dims = dtype.__meta__.dims
    if shape is None:
        if DYNAMIC in dims:
            raise RuntimeError(
                f"{what}(): the type {label(dtype)} has a dynamic size; give a 'shape' such as "
                "(2, n)"
            )
        return dims
    if not isinstance(shape, (tuple, list)):
        raise RuntimeError(f"{what}(): 'shape' must be a tuple of ints, not {shape!r}")
    sizes = tuple(shape[:-1])
    if len(shape) != len(dims) + 1 or not conversion.fits(dims, sizes):
        raise RuntimeError(f"{what}(): the shape {tuple(shape)} does not fit {label(dtype)}")
    return sizes


def _gather_components(dtype: type, source: Any, index: Any, active: Any, mode: Any) -> Any:
    """Gathers component by component, for a nested source or index."""
    sources = source._components if source._kind == "nested" else None
    indices = index._components if is_array(index) and index._kind == "nested" else None
    if sources is not None and dtype is not type(source):
        raise TypeError(
            f"dr.gather({label(dtype)}): the source is of type {label(source)}; a nested source "
            "is read component by component, which gives its own type"
        )
    count = len(source._components if sources is not None else index._components)
    if (indices is not None and len(indices) != count) or dtype._size not in (None, count):
        raise TypeError(
            f"dr.gather({label(dtype)}): index of type {label(index)} has the wrong number of "
            f"components; expected one index for all, or {dtype._size} components"
        )
    if sources is not None and indices is None and dtype.Value._kind == "leaf":
        at = access_to(dtype, index, active, "dr.gather", mode)
        return nested(dtype, [leaf_access.gather(s, at) for s in sources])
    rows = zip(sources or [source] * count, indices or [index] * count, strict=True)
    return nested(dtype, [gather(dtype.Value, s, i, active, mode=mode) for s, i in rows])


def _gather_tensor(dtype: type, source: Any, index: Any, active: Any, shape: Any, mode: Any) -> Any:
    """Gathers from the storage of a tensor, or from a flat array, and returns a tensor with the
    shape of the index."""
    storage = source._array if source._kind == "tensor" else source
    entries = gather(dtype.Array, storage, index, active, mode=mode)
    size = len(entries)
    if shape is None:
        shape = index._shape if is_array(index) and index._kind == "tensor" else (size,)
    if prod(shape) != size:
        raise RuntimeError(f"dr.gather(): {size} entries do not make a tensor of shape {shape}")
    return tensor(dtype, entries, tuple(shape))


# Scatter


def scatter(
    target: "ArrayBase | PyTree",
    value: "Convertible | PyTree",
    index: "Index",
    active: "Active" = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Writes `value` to the entries `index` of `target` where `active` is true.

    `value` is converted to the element type of `target`. A nested value with `k` innermost
    components is written to `k` consecutive entries of a one-dimensional target, starting at `index
    * k`. A nested target, or a PyTree, is written component by component, and a tensor by flat
    index. If an index occurs twice in one call, either value may be written; later calls overwrite
    earlier ones. Other arrays keep their contents.

    Raises:
        IndexError: an index is out of bounds: immediately if it is constant, otherwise at the next
            synchronization.
        TypeError: the target is not an array, or value, index or mask has the wrong type.
        RuntimeError: value, index and mask differ in size.

    >>> from drjit.llvm import Float, UInt
    >>> a = Float(1, 2, 3)
    >>> dr.scatter(a, Float(10, 20), UInt(2, 0))
    >>> a
    [20, 2, 10]
    """
    _scatter("", target, value, index, active, _AUTO, "dr.scatter")


def scatter_reduce(
    op: ReduceOp,
    target: "ArrayBase | PyTree",
    value: "Convertible | PyTree",
    index: "Index",
    active: "Active" = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Atomically combines `value` with the entries `index` of `target` by `op`, where `active` is
    true.

    Arguments are as for `scatter`. `mode` determines how conflicts are resolved: `Direct` and
    `Local` use atomic operations, and `Expand` uses a private copy per thread, which is faster for
    small targets; `Auto` chooses. With `NoConflicts`, the caller promises that no index occurs
    twice.

    Raises:
        IndexError, TypeError, RuntimeError: as for `scatter`, or the element type does not support
            the operation.

    >>> from drjit.llvm import Float, UInt
    >>> a = Float(1, 2, 3)
    >>> dr.scatter_reduce(dr.ReduceOp.Max, a, Float(10, 20), UInt(2, 2))
    >>> a
    [1, 2, 20]
    """
    if op is ReduceOp.Identity:
        scatter(target, value, index, active, mode)
        return
    if op not in REDUCTIONS:
        raise TypeError(f"dr.scatter_reduce(): 'op' must be a dr.ReduceOp, not {op!r}")
    _scatter(REDUCTIONS[op], target, value, index, active, mode, "dr.scatter_reduce")


def scatter_add(
    target: "ArrayBase | PyTree",
    value: "Convertible | PyTree",
    index: "Index",
    active: "Active" = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Atomically adds `value` to the entries `index` of `target`: `scatter_reduce` with
    `ReduceOp.Add`.

    >>> from drjit.llvm import Float, UInt
    >>> a = Float(0, 0)
    >>> dr.scatter_add(a, 1, UInt(0, 1, 1))
    >>> a
    [1, 2]
    """
    _scatter("add", target, value, index, active, mode, "dr.scatter_reduce")


def _scatter(
    reduce: str, target: Any, value: Any, index: Any, active: Any, mode: ReduceMode, what: str
) -> None:
    if mode is _PERMUTE:
        raise RuntimeError(
            f"{what}(): ReduceMode.Permute is for gathers and scatters without a reduction; use "
            "ReduceMode.NoConflicts"
        )
    cls: Any = type(target)
    kind = getattr(cls, "_kind", "")
    if kind != "leaf" and not is_array(target):
        if not is_container(target):
            raise TypeError(
                f"{what}(): the target is of type {label(target)}; expected an array, or a tree of "
                "them"
            )
        for t, v in list(paired_leaves(target, value, what)):  # check that all of them match first
            _scatter(reduce, t, v, index, active, mode, what)
        return
    if type(value) is not cls or kind != "leaf":
        if value is None or isinstance(value, (str, bytes, dict)):
            raise IncompatibleError(
                f"{what}(): a value of type {label(value)} cannot go into a {label(target)}"
            )
        if kind == "tensor":
            target = target._array
            cls = type(target)
        if getattr(value, "_kind", None) == "tensor":
            value = value._array
    if reduce and (reduce, cls._dtype) in _REFUSED:
        raise RuntimeError(
            f"{what}(): the operation '{reduce}' is not defined for the entries of a {label(cls)}"
        )
    if kind != "leaf":
        if not cls.__meta__.is_jit:
            _scatter_numbers(reduce, target, value, index, active, what)
            return
        if cls._kind == "nested":
            _scatter_components(reduce, target, value, index, active, mode, what)
            return
    values = [value] if type(value) is cls else _values(cls, value)
    at = access_to(cls, index, active, what, mode, reduce, len(values))
    if not leaf_access.scatter(target, values, at):
        _check_empty(what, values, value, at, index)


def _check_empty(what: str, values: list, value: Any, at: Access, index: Any) -> None:
    """Raises a RuntimeError if nothing is written because one of the operands is empty, and another
    an array of size 1. The `values` were converted from `value`."""
    rows = [(v._node, v if is_array(value) else value) for v in values]
    rows.append((at.index, index))
    if at.mask.size == 0:
        rows.append((at.mask, None))
    leaf.check_empty(what, *zip(*rows, strict=True))


def _values(cls: type, value: Any) -> list[Any]:
    """Returns the innermost components of a value, converted to a traced array class."""
    if is_array(value) and value._kind == "nested" and value.__meta__.is_jit:
        return [cls(v) for v in innermost(value)]
    return [value if type(value) is cls else cls(value)]


def _scatter_components(
    reduce: str, target: Any, value: Any, index: Any, active: Any, mode: ReduceMode, what: str
) -> None:
    """Scatters to a nested array. All components are checked before the first is written."""
    cls = type(target)
    dims = conversion.dims_of(target, what)
    if type(value) is not cls:
        value = related_value(target, value)
    places = list(innermost(target))
    width = conversion.width_of(places, what, cls)
    for place in places:
        if place._node.size != width:
            place._assign(leaf.resize(place, width))
    values = list(innermost(value))
    if len(values) != len(places):
        raise TypeError(
            f"{what}(): a value of type {label(value)} with {len(values)} components cannot go "
            f"into a {label(cls)} with {len(places)}"
        )
    if is_array(index) and index._kind == "nested":
        accesses = [access_to(cls, i, active, what, mode, reduce) for i in innermost(index)]
        if len(accesses) != len(places):
            raise TypeError(
                f"{what}(): an index of type {label(index)} does not go with a target of type "
                f"{label(cls)} (shape {(*dims, width)})"
            )
    else:
        accesses = [access_to(cls, index, active, what, mode, reduce)] * len(places)
    for v, at in zip(values, accesses, strict=True):
        if is_idle([v._node], at, width):  # raises what a scatter would raise
            _check_empty(what, [v], value, at, index)
    for place, v, at in zip(places, values, accesses, strict=True):
        leaf_access.scatter(place, [v], at)


def related_value(target: Any, value: Any) -> Any:
    """Converts a value to an array like `target`; numbers and one-dimensional arrays are broadcast
    to every component."""
    cls = type(target)
    if (is_array(value) and value._kind == "leaf") or isinstance(value, (bool, int, float)):
        entry = cls._leaf(value)
        return conversion.map_leaves(target, lambda _: entry)
    return cls(value)


# Atomics


def _atomic_target(target: Any, what: str) -> type:
    if is_array(target) and target._kind == "leaf":
        return type(target)
    raise RuntimeError(
        f"{what}(): the target is of type {label(target)}; expected a one-dimensional traced array"
    )


def _one_value(cls: type, value: Any, what: str) -> Any:
    if isinstance(value, (str, bytes)):
        text = f"{what}(): a value of type {label(value)} cannot go into a {label(cls)}"
        raise IncompatibleError(text)
    values = _values(cls, value)
    if len(values) != 1:
        raise TypeError(
            f"{what}(): a value of type {label(value)} has {len(values)} components; an entry of "
            f"{label(cls)} takes one"
        )
    return values[0]


def scatter_inc(target: "LeafT", index: "Index", active: "Active" = True) -> "LeafT":
    """Atomically adds 1 to the entries `index` of an integer array and returns the
    previous values.

    If several lanes increment the same entry, each gets a different value, so the results can serve
    as distinct positions. Inactive lanes get 0.

    Raises:
        IndexError: an index is out of bounds.
        RuntimeError: the target is not a one-dimensional integer array.

    >>> from drjit.llvm import UInt
    >>> counter = UInt(5)
    >>> sorted(dr.scatter_inc(counter, UInt(0, 0, 0))), counter
    ([5, 6, 7], [8])
    """
    what = "dr.scatter_inc"
    cls = _atomic_target(target, what)
    if not cls._dtype.is_int:
        raise RuntimeError(f"{what}(): the target is of type {label(cls)}; expected integers")
    return leaf_access.atomic(op.scatter_inc, target, [], access_to(cls, index, active, what))


def scatter_exch(
    target: "LeafT", value: "Convertible", index: "Index", active: "Active" = True
) -> "LeafT":
    """Atomically replaces the entries `index` of `target` by `value` and returns the previous
    values, or 0 for inactive lanes.

    Raises:
        IndexError: an index is out of bounds.
        RuntimeError: the target is not a one-dimensional traced array.

    >>> from drjit.llvm import Float, UInt
    >>> a = Float(1, 2, 3)
    >>> dr.scatter_exch(a, 9, UInt(1)), a
    ([2], [1, 9, 3])
    """
    what = "dr.scatter_exch"
    cls = _atomic_target(target, what)
    new = _one_value(cls, value, what)
    at = access_to(cls, index, active, what)
    old = leaf_access.atomic(op.scatter_exch, target, [new], at)
    if not old._node.size:
        _check_empty(what, [new], value, at, index)
    return old


@signatures.exchange
def scatter_cas(
    target: Any, compare: Any, value: Any, index: "Index", active: "Active" = True
) -> tuple[Any, Any]:
    """Atomically replaces those entries `index` of `target` that equal `compare`, bit by bit, by
    `value`.

    Returns the previous values (0 for inactive lanes) and a mask of the lanes whose entry was
    replaced.

    Raises:
        IndexError: an index is out of bounds.
        RuntimeError: the target is not a one-dimensional traced array.

    >>> from drjit.llvm import UInt
    >>> a = UInt(1, 2, 3)
    >>> dr.scatter_cas(a, 2, 7, UInt(0, 1)), a
    (([1, 2], [False, True]), [1, 7, 3])
    """
    what = "dr.scatter_cas"
    cls = _atomic_target(target, what)
    expected, new = _one_value(cls, compare, what), _one_value(cls, value, what)
    at = access_to(cls, index, active, what)
    old = leaf_access.atomic(op.scatter_cas, target, [expected, new], at)
    if not old._node.size:
        _check_empty(what, [expected], compare, at, index)
        _check_empty(what, [new], value, at, index)
    bits = cls
    if cls._dtype.is_float and cls._dtype is not dt.f16:
        bits = conversion.with_dtype(cls, dt.u32 if cls._dtype is dt.f32 else dt.u64)
    same = leaf.apply(op.eq, *[leaf.bitcast(bits, v) for v in (old, expected)])
    return old, leaf.apply(op.and_, leaf.wrap(type(same), at.mask), same)


# Arrays of `drjit.scalar`, which are lists of Python numbers


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


def _check_bounds(positions: list[int], enabled: list[bool], size: int, what: str) -> None:
    for i, on in zip(positions, enabled, strict=True):
        if on and not 0 <= i < size:
            raise IndexError(f"{what}: index {i} is out of bounds for an array of size {size}")


def _gather_numbers(dtype: type, source: Any, index: Any, active: Any, shape: Any) -> Any:
    """Reads entries of a one-dimensional array; see `drjit.gather`."""
    what = "dr.gather"
    fits = source._dtype is dtype._dtype and conversion.is_flat(type(source))
    if source.__meta__.is_jit or not fits:
        raise TypeError(
            f"{what}({label(dtype)}): the source is of type {label(source)}; expected "
            f"{label(conversion.flat_class(dtype))}"
        )
    positions, data = _positions(index, what), source._components
    enabled = _flags(active, len(positions), what)
    single = len(data) == 1  # broadcast to every index
    zero = source._dtype.scalar(0).item()
    if conversion.is_flat(dtype):
        dims, count = (), 1
    elif len(positions) == 1:
        dims = dtype.__meta__.dims if shape is None else tuple(shape)
        count = prod(dims)
    else:
        raise TypeError(f"{what}({label(dtype)}): expected one index, got {len(positions)}")
    if not single:
        _check_bounds(positions, enabled, len(data) // count, what)
    entries = [
        data[0 if single else i * count + j] if on else zero
        for i, on in zip(positions, enabled, strict=True)
        for j in range(count)
    ]
    return conversion.assemble(dtype, entries, dims) if dims else nested(dtype, entries)


def _scatter_numbers(
    reduce: str, target: Any, value: Any, index: Any, active: Any, what: str
) -> None:
    """Writes to, or combines with, entries of a one-dimensional array; see `drjit.scatter`."""
    data, dtype = target._components, target._dtype
    if not conversion.is_flat(type(target)):
        raise TypeError(f"{what}(): the target is of type {label(target)}, not one-dimensional")
    positions = _positions(index, what)
    leaves = list(innermost(value)) if is_array(value) else None
    per_index = 1
    if leaves is not None and not conversion.is_flat(type(value)) and len(positions) == 1:
        per_index = len(leaves)
    values = list(innermost(type(target)(leaves if leaves is not None else value)))
    enabled = _flags(active, len(positions), what)
    _check_bounds(positions, enabled, len(data) // per_index, what)
    if per_index == 1 and len(values) == 1:
        values = values * len(positions)
    where = [i * per_index + j for i in positions for j in range(per_index)]
    if len(values) != len(where):
        raise RuntimeError(f"{what}(): {len(values)} values for {len(where)} indices")
    combine = op.REDUCTIONS[reduce].python if reduce else None
    for k, (i, v) in enumerate(zip(where, values, strict=True)):
        if enabled[k // per_index]:
            data[i] = v if combine is None else normalize(dtype, combine(data[i], v))

"""Prefix reductions (scans) along axes, and reductions and scans of blocks. They run in separate
launches and evaluate their argument."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

from ...array import leaf, leaf_access
from ...array.pytree import is_container, map_tree
from ...array.tensor import permuted, permuted_back
from ...jit.ir.dtype import DType
from ...jit.ir.node import normalize
from ...jit.ir.op import ReduceOp, select, starting_value
from ...jit.run import freeze_size
from ...jit.trace.access import Access
from ...jit.tuples import NamedTuple
from .. import conversion
from ..conversion import T, UserCall, broadcast_components, is_array, label, nested, tensor
from ..signature import explains_misuse
from .reduce import RULES, ReductionRule, axes_of, check_mode, combine, fold, reduction


class Scan(NamedTuple):
    """A scan: whether it excludes the entry itself, and whether it runs from the end."""

    rule: ReductionRule
    exclusive: bool
    reverse: bool

    def of_leaf(self, value: Any, run: int) -> Any:
        """Scans a traced array, as a whole or within runs."""
        if self.reverse:
            value = leaf_access.reverse(value, run)
        result = leaf_access.prefix(self.rule.key, value, self.exclusive, run)
        return leaf_access.reverse(result, run) if self.reverse else result

    def of_numbers(self, dtype: DType, entries: list) -> list:
        """Scans entries of a `drjit.scalar` array."""
        start = starting_value(self.rule.key, dtype)
        return [normalize(dtype, v) for v in self.of_list(entries, start)]

    def of_list(self, entries: list, start: Any) -> list:
        """Scans a list; `start` is the reduction of no entries."""
        if self.reverse:
            return self._replace(reverse=False).of_list(entries[::-1], start)[::-1]
        result = [*accumulate(entries, partial(combine, self.rule))]
        return [start, *result[:-1]][: len(result)] if self.exclusive else result


def prefix_reduce(
    op: ReduceOp,
    value: T,
    axis: int | Sequence[int] | None = 0,
    exclusive: bool = True,
    reverse: bool = False,
) -> T:
    """Returns the prefix reduction along an axis, or along several in turn: entry i is the
    reduction of entries 0 to i-1.

    `exclusive=False` includes entry i itself; `reverse` runs from the end. Works along the entries
    of arrays and lists, the components of nested arrays, and the axes of tensors. Evaluates the
    array.

    Raises:
        RuntimeError: an axis is out of bounds, or the operation is not defined for the type.
        TypeError: the value is not a sequence.

    >>> from drjit.llvm import Float
    >>> dr.prefix_reduce(dr.ReduceOp.Mul, Float(2, 3, 4))
    [1, 2, 6]
    """
    key = reduction("dr.prefix_reduce", op)
    return _prefix(Scan(RULES[key], exclusive, reverse), value, axis, "dr.prefix_reduce")


@explains_misuse
def cumsum(value: T, axis: int | Sequence[int] | None = 0, reverse: bool = False) -> T:
    """Returns cumulative sums along an axis, including the entry itself; see `prefix_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.cumsum(Float(1, 2, 3))
    [1, 3, 6]
    """
    return _prefix(Scan(RULES["add"], False, reverse), value, axis, "dr.cumsum")


def prefix_sum(value: T, axis: int | Sequence[int] | None = 0, reverse: bool = False) -> T:
    """Returns cumulative sums along an axis, excluding the entry itself; see `prefix_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.prefix_sum(Float(1, 2, 3))
    [0, 1, 3]
    """
    return _prefix(Scan(RULES["add"], True, reverse), value, axis, "dr.prefix_sum")


def _prefix(scan: Scan, value: Any, axis: Any, name: str) -> Any:
    what = UserCall(name, value)
    if is_array(value):
        if value._dtype.is_mask:
            raise RuntimeError(f"{what}: the operation is not defined for masks")
        _check_supported(scan.rule, value, what)
        ndim = value.ndim
    elif isinstance(value, (list, tuple)):
        ndim = 1
    else:
        raise TypeError(f"{what}: expected an array or a sequence")
    if axis is None or axis is Ellipsis:
        raise TypeError(f"{what}: 'axis' must be an int or a tuple of ints")
    for a in axes_of(axis, ndim, (0,), what):
        value = _prefix_axis(scan, value, a, what)
    return value


def _check_supported(rule: ReductionRule, value: Any, what: UserCall) -> None:
    if not rule.op.accepts(value._dtype):
        raise RuntimeError(f"{what}: the operation is not defined for {value._dtype.name}")


def _prefix_axis(scan: Scan, value: Any, axis: int, what: UserCall) -> Any:
    cls = type(value)
    if not is_array(value):
        return cls(scan.of_list(list(value), scan.rule.starting_value))
    if value._kind == "leaf":
        return scan.of_leaf(value, 0)
    if value._kind == "tensor":
        return _prefix_tensor(scan, value, axis, what)
    if axis > 0:
        if value.__meta__.is_jit:
            value = broadcast_components(value)
        return nested(cls, [_prefix_axis(scan, c, axis - 1, what) for c in value._components])
    if not conversion.is_array_class(cls.Value):
        return nested(cls, scan.of_numbers(value._dtype, value._components))
    start = cls.Value(starting_value(scan.rule.key, value._dtype))
    return nested(cls, scan.of_list(value._components, start))


def _prefix_tensor(scan: Scan, value: Any, axis: int, what: UserCall) -> Any:
    cls, shape, array = type(value), value._shape, value._array
    n = shape[axis]
    if prod(shape) == 0:
        return value
    order = [*(a for a in range(len(shape)) if a != axis), axis]
    moved = permuted(array, shape, order, str(what))
    if array._kind == "nested":
        found = _of_runs(lambda run: scan.of_numbers(array._dtype, run), moved, n)
    else:
        found = scan.of_leaf(moved, n)
    return tensor(cls, permuted_back(found, shape, order, str(what)), shape)


def _of_runs(f: Callable[[list], list], array: Any, size: int) -> Any:
    """Applies a function of lists to the entries of a `drjit.scalar` array, run by run."""
    runs = [array._components[k : k + size] for k in range(0, len(array._components), size)]
    return nested(type(array), [v for run in runs for v in f(run)])


# Blocks


def _block_size(block_size: Any, what: UserCall) -> int:
    expected = f"{what}: 'block_size' must be a positive int, not"
    size = conversion.integer(block_size, expected)
    if size < 0:
        raise TypeError(f"{expected} {block_size!r}")
    if size == 0:
        raise RuntimeError(f"{what}: 'block_size' must not be 0")
    return size


def _each_flat(f: Callable[[Any], Any], value: Any, what: UserCall) -> Any:
    """Applies a function to the one-dimensional arrays of a PyTree; tensors become one-dimensional,
    with the length of the result."""
    if is_container(value):
        return map_tree(lambda v: _each_flat(f, v, what), value)
    if not is_array(value):
        return value
    flat = value._array if value._kind == "tensor" else value
    if value._dtype.is_mask or not (value.__meta__.is_jit or conversion.is_flat(type(flat))):
        raise RuntimeError(f"{what}: not defined for {label(value)}")
    if value._kind == "tensor":
        found = f(flat)
        n = len(found)
        return tensor(type(value), found, value._shape if n == len(flat) else (n,))
    if not value.__meta__.is_jit:
        return f(value)
    return conversion.map_leaves(
        broadcast_components(value) if value._kind == "nested" else value, f
    )


def _check_block(rule: ReductionRule, value: Any, size: int, what: UserCall) -> None:
    n = len(value)
    if size > n > 1 and value.__meta__.is_jit:  # a single entry is a block that ends early
        raise RuntimeError(f"{what}: 'block_size' is {size}, but the array has only {n} entries")
    _check_supported(rule, value, what)


def block_reduce(op: ReduceOp, value: T, block_size: int, mode: str | None = None) -> T:
    """Reduces each run of `block_size` entries; the last run may be shorter. Evaluates the array.

    Nested arrays and PyTrees are reduced component by component; tensors are reduced by flat index
    to a one-dimensional tensor.

    Raises:
        RuntimeError: `block_size` is 0 or exceeds the size, or the operation is not defined for the
            type.

    >>> from drjit.llvm import Float
    >>> dr.block_reduce(dr.ReduceOp.Add, Float(1, 2, 3, 4, 5), 2)
    [3, 7, 5]
    """
    what = UserCall("dr.block_reduce", value)
    check_mode(mode, what)
    rule, size = RULES[reduction("dr.block_reduce", op)], _block_size(block_size, what)

    def one(v: Any) -> Any:
        _check_block(rule, v, size, what)
        if v._kind == "nested":
            total = partial(fold, rule.combine)
            return _of_runs(lambda run: [normalize(v._dtype, total(run))], v, size)
        n, cls = v._node.size, type(v)
        if n % size:
            # Pad the last run with neutral elements.
            index = conversion.lanes(cls, freeze_size.parts(n, size) * size)
            inside = index < n
            fill = leaf.literal(cls, starting_value(rule.key, cls._dtype))
            at = Access(index._node, inside._node)
            v = leaf.apply(select, inside, leaf_access.gather(v, at), fill)
        return leaf_access.block_reduce(rule.key, v, size)

    return _each_flat(one, value, what)


def block_sum(value: T, block_size: int, mode: str | None = None) -> T:
    """Returns the sum of each run of `block_size` entries; see `block_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.block_sum(Float(1, 2, 3, 4), 2)
    [3, 7]
    """
    return block_reduce(ReduceOp.Add, value, block_size, mode)


def block_prefix_reduce(
    op: ReduceOp, value: T, block_size: int, exclusive: bool = True, reverse: bool = False
) -> T:
    """Returns the prefix reductions within each run of `block_size` entries; see `prefix_reduce`.

    Raises:
        RuntimeError: `block_size` is 0 or exceeds the size, or the operation is not defined for the
            type.

    >>> from drjit.llvm import Float
    >>> dr.block_prefix_reduce(dr.ReduceOp.Add, Float(1, 2, 3, 4), 2)
    [0, 1, 0, 3]
    """
    what = UserCall("dr.block_prefix_reduce", value)
    scan = Scan(RULES[reduction("dr.block_prefix_reduce", op)], exclusive, reverse)
    size = _block_size(block_size, what)

    def one(v: Any) -> Any:
        _check_block(scan.rule, v, size, what)
        if v._kind == "nested":
            return _of_runs(partial(scan.of_numbers, v._dtype), v, size)
        return scan.of_leaf(v, size)

    return _each_flat(one, value, what)


def block_prefix_sum(value: T, block_size: int, exclusive: bool = True, reverse: bool = False) -> T:
    """Returns the prefix sums within each run of `block_size` entries; see `prefix_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.block_prefix_sum(Float(1, 2, 3, 4), 2, exclusive=False)
    [1, 3, 3, 7]
    """
    return block_prefix_reduce(ReduceOp.Add, value, block_size, exclusive, reverse)

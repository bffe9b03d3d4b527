"""Prefix reductions (scans) along axes, and reductions and scans of blocks. They are launches of
their own, and evaluate their argument."""

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..array import leaf, leaf_access
from ..array.elementwise import elementwise
from ..array.pytree import is_container, map_tree
from ..jit import freeze_size
from ..jit import op as ops
from ..jit.node import normalize
from ..jit.op import ReduceOp
from . import parts
from .memory import supports
from .parts import is_array, is_flat, label, map_leaves, nested, permuted, spread, tensor
from .reduce import RULES, Rule, axes_of, check_mode, combine, fold, identity, reduction


def prefix_reduce(
    op: ReduceOp, value: Any, axis: Any = 0, exclusive: bool = True, reverse: bool = False
) -> Any:
    """The running reductions along an axis, or several one after the other: entry i is the
    reduction of entries 0 to i-1.

    `exclusive=False` includes entry i itself; `reverse` runs from the end. Works along the entries
    of arrays and lists, the components of nested arrays, and axes of tensors. Evaluates the array.

    Raises:
        RuntimeError: an axis is out of bounds, or the operation is not defined for the type.
        TypeError: the value is not a sequence.

    >>> from drjit.llvm import Float
    >>> dr.prefix_reduce(dr.ReduceOp.Mul, Float(2, 3, 4))
    [1, 2, 6]
    """
    rule = RULES[reduction("dr.prefix_reduce", op)]
    return _prefix(rule, value, axis, exclusive, reverse, "dr.prefix_reduce")


def cumsum(value: Any, axis: Any = 0, reverse: bool = False) -> Any:
    """The running sums along an axis, each with its own entry; see `prefix_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.cumsum(Float(1, 2, 3))
    [1, 3, 6]
    """
    return _prefix(RULES["add"], value, axis, False, reverse, "dr.cumsum")


def prefix_sum(value: Any, axis: Any = 0, reverse: bool = False) -> Any:
    """The running sums along an axis, each without its own entry; see `prefix_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.prefix_sum(Float(1, 2, 3))
    [0, 1, 3]
    """
    return _prefix(RULES["add"], value, axis, True, reverse, "dr.prefix_sum")


def _prefix(rule: Rule, value: Any, axis: Any, exclusive: bool, reverse: bool, name: str) -> Any:
    what = f"{name}(<{label(value)}>)"
    if is_array(value):
        if value._dtype.is_mask:
            raise RuntimeError(f"{what}: the operation is not defined for masks")
        if not supports(rule.key, value._dtype):
            raise RuntimeError(f"{what}: the operation is not defined for {value._dtype.name}")
        if value._kind == "tensor":
            ndim = len(value._shape)
        else:
            ndim = len(value.__meta__.dims) + value.__meta__.is_jit
    elif isinstance(value, (list, tuple)):
        ndim = 1
    else:
        raise TypeError(f"{what}: expected an array or a sequence")
    if axis is None or axis is Ellipsis:
        raise TypeError(f"{what}: 'axis' must be an int or a tuple of ints")
    for a in axes_of(axis, ndim, (0,), what):
        value = _prefix_axis(rule, value, a, exclusive, reverse, what)
    return value


def _prefix_axis(
    rule: Rule, value: Any, axis: int, exclusive: bool, reverse: bool, what: str
) -> Any:
    if not is_array(value):
        return type(value)(_running(rule, list(value), exclusive, reverse, rule.identity))
    if value._kind == "leaf":
        return _prefix_leaf(rule, value, 0, exclusive, reverse, what)
    if value._kind == "tensor":
        return _prefix_tensor(rule, value, axis, exclusive, reverse, what)
    if axis > 0:
        if value.__meta__.is_jit:
            value = spread(value)
        return nested(
            type(value),
            [_prefix_axis(rule, c, axis - 1, exclusive, reverse, what) for c in value._c],
        )
    first = type(value).Value
    if not parts.is_array_class(first):
        return nested(type(value), _running_numbers(rule, value, value._c, exclusive, reverse))
    start = first(identity(rule, value._dtype))
    return nested(type(value), _running(rule, list(value._c), exclusive, reverse, start))


def _running_numbers(rule: Rule, array: Any, entries: list, exclusive: bool, reverse: bool) -> list:
    """The running reductions of entries of an array of `drjit.scalar`."""
    dtype = array._dtype
    found = _running(rule, list(entries), exclusive, reverse, identity(rule, dtype))
    return [normalize(dtype, v) for v in found]


def _running(rule: Rule, entries: list, exclusive: bool, reverse: bool, start: Any) -> list:
    """The running reductions of a list."""
    if reverse:
        return _running(rule, entries[::-1], exclusive, False, start)[::-1]
    found = []
    total = None
    for v in entries:
        if exclusive:
            found.append(start if total is None else total)
        total = v if total is None else combine(rule, total, v)
        if not exclusive:
            found.append(total)
    return found


def _reversed(value: Any, run: int, what: str) -> Any:
    """Every run of entries back to front; the last one may be shorter."""
    n = value._n.size
    if n <= 1 or (value._n.is_literal and value._a is None):
        return value
    index = parts.lanes(type(value), n)
    if run >= n:
        return parts.pick(value, (n - 1) - index, what)
    first = (index // run) * run
    last = elementwise(ops.minimum, first + (run - 1), n - 1)
    return parts.pick(value, first + last - index, what)


def _prefix_leaf(
    rule: Rule, value: Any, run: int, exclusive: bool, reverse: bool, what: str
) -> Any:
    """Running reductions of a traced array, over all entries or within runs."""
    span = run or value._n.size
    if reverse:
        value = _reversed(value, span, what)
    found = leaf_access.prefix(rule.key, value, exclusive, run)
    return _reversed(found, span, what) if reverse else found


def _prefix_tensor(
    rule: Rule, value: Any, axis: int, exclusive: bool, reverse: bool, what: str
) -> Any:
    cls, shape, array = type(value), value._shape, value._array
    n = shape[axis]
    if prod(shape) == 0:
        return value
    if array._kind == "nested":
        entries = np.empty(len(array._c), object)
        entries[:] = array._c
        moved = np.moveaxis(entries.reshape(shape), axis, -1).copy()
        for row in moved.reshape(-1, n):
            row[:] = _running_numbers(rule, array, row.tolist(), exclusive, reverse)
        flat = np.moveaxis(moved, -1, axis).ravel().tolist()
        return tensor(cls, nested(type(array), flat), shape)
    order = [*(a for a in range(len(shape)) if a != axis), axis]
    moved = permuted(array, shape, order, what)
    found = _prefix_leaf(rule, moved, n, exclusive, reverse, what)
    back = [order.index(a) for a in range(len(shape))]
    return tensor(cls, permuted(found, [shape[a] for a in order], back, what), shape)


# Blocks


def _block_size(block_size: Any, what: str) -> int:
    try:
        size = operator.index(block_size)
    except TypeError:
        size = -1
    if size < 0:
        raise TypeError(f"{what}: 'block_size' must be a positive int, not {block_size!r}")
    if size == 0:
        raise RuntimeError(f"{what}: 'block_size' must not be 0")
    return size


def _each_flat(f: Callable[[Any], Any], value: Any, what: str) -> Any:
    """Applies a function to the one-dimensional arrays of a tree; tensors become as long as the
    result."""
    if is_container(value):
        return map_tree(lambda v: _each_flat(f, v, what), value)
    if not is_array(value):
        return value
    flat = value._array if value._kind == "tensor" else value
    if value._dtype.is_mask or not (value.__meta__.is_jit or is_flat(type(flat))):
        raise RuntimeError(f"{what}: not defined for {label(value)}")
    if value._kind == "tensor":
        found = f(flat)
        n = len(found)
        return tensor(type(value), found, value._shape if n == len(flat) else (n,))
    if not value.__meta__.is_jit:
        return f(value)
    return map_leaves(spread(value) if value._kind == "nested" else value, f)


def _check_block(rule: Rule, value: Any, size: int, what: str) -> None:
    n = len(value)
    if size > n > 1 and value.__meta__.is_jit:  # one entry is a block that ends early
        raise RuntimeError(f"{what}: 'block_size' is {size}, but the array has only {n} entries")
    if not supports(rule.key, value._dtype):
        raise RuntimeError(f"{what}: the operation is not defined for {value._dtype.name}")


def _runs(array: Any, size: int) -> list[list]:
    """The entries of an array of `drjit.scalar` in runs."""
    return [array._c[k : k + size] for k in range(0, len(array._c), size)]


def block_reduce(op: ReduceOp, value: Any, block_size: int, mode: str | None = None) -> Any:
    """The reduction of each run of `block_size` entries; the last run may be shorter. Evaluates the
    array.

    Nested arrays and PyTrees are reduced component by component, tensors by their flat index, to a
    tensor of one dimension.

    Raises:
        RuntimeError: `block_size` is 0 or exceeds the size, or the operation is not defined for the
            type.

    >>> from drjit.llvm import Float
    >>> dr.block_reduce(dr.ReduceOp.Add, Float(1, 2, 3, 4, 5), 2)
    [3, 7, 5]
    """
    what = f"dr.block_reduce(<{label(value)}>)"
    check_mode(mode, what)
    rule, size = RULES[reduction("dr.block_reduce", op)], _block_size(block_size, what)

    def one(v: Any) -> Any:
        _check_block(rule, v, size, what)
        if v._kind == "nested":
            totals = [fold(rule.combine, run) for run in _runs(v, size)]
            return nested(type(v), [normalize(v._dtype, total) for total in totals])
        n, cls = v._n.size, type(v)
        if n % size:
            # Neutral elements fill up the last run.
            index = parts.lanes(cls, freeze_size.parts(n, size) * size)
            inside = index < n
            fill = leaf.literal(cls, identity(rule, cls._dtype))
            v = leaf.apply(ops.select, inside, leaf_access.gather(v, index, inside), fill)
        return leaf_access.block_reduce(rule.key, v, size)

    return _each_flat(one, value, what)


def block_sum(value: Any, block_size: int, mode: str | None = None) -> Any:
    """The sum of each run of `block_size` entries; see `block_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.block_sum(Float(1, 2, 3, 4), 2)
    [3, 7]
    """
    return block_reduce(ReduceOp.Add, value, block_size, mode)


def block_prefix_reduce(
    op: ReduceOp, value: Any, block_size: int, exclusive: bool = True, reverse: bool = False
) -> Any:
    """The running reductions within each run of `block_size` entries; see `prefix_reduce`.

    Raises:
        RuntimeError: `block_size` is 0 or exceeds the size, or the operation is not defined for the
            type.

    >>> from drjit.llvm import Float
    >>> dr.block_prefix_reduce(dr.ReduceOp.Add, Float(1, 2, 3, 4), 2)
    [0, 1, 0, 3]
    """
    what = f"dr.block_prefix_reduce(<{label(value)}>)"
    rule, size = RULES[reduction("dr.block_prefix_reduce", op)], _block_size(block_size, what)

    def one(v: Any) -> Any:
        _check_block(rule, v, size, what)
        if v._kind == "nested":
            rows = [_running_numbers(rule, v, run, exclusive, reverse) for run in _runs(v, size)]
            return nested(type(v), [x for row in rows for x in row])
        return _prefix_leaf(rule, v, size, exclusive, reverse, what)

    return _each_flat(one, value, what)


def block_prefix_sum(
    value: Any, block_size: int, exclusive: bool = True, reverse: bool = False
) -> Any:
    """The running sums within each run of `block_size` entries; see `prefix_reduce`.

    >>> from drjit.llvm import Float
    >>> dr.block_prefix_sum(Float(1, 2, 3, 4), 2, exclusive=False)
    [1, 3, 3, 7]
    """
    return block_prefix_reduce(ReduceOp.Add, value, block_size, exclusive, reverse)


__all__ = [
    "block_prefix_reduce", "block_prefix_sum", "block_reduce", "block_sum", "cumsum",
    "prefix_reduce", "prefix_sum",
]  # fmt: skip

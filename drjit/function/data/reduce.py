"""Reductions along axes, and statistics that are computed by them.

A reduction of a one-dimensional traced array is itself traced: it returns an array with one entry,
and nothing is evaluated. In nested arrays, axis 0 are the components, and the last axis the lanes;
lanes with one entry count as broadcast.
"""

import builtins
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from functools import reduce as fold
from math import prod as product
from typing import Any

from ...array import foreign_names, leaf, leaf_access, signatures
from ...array.base import ArrayBase, IncompatibleError, KernelValue
from ...array.elementwise import elementwise
from ...array.show import common_width, innermost
from ...jit.ir import dtype as dt
from ...jit.ir import node as ir
from ...jit.ir import op as ops
from ...jit.ir.op import ReduceOp
from ...jit.lazy import np
from ...jit.tuples import NamedTuple
from .. import conversion
from ..conversion import UserCall, broadcast_components, is_array, label, nested, tensor
from ..signature import explains_misuse
from .memory import REDUCTIONS


def _extreme(op: ops.Op) -> Callable[[Any, Any], Any]:
    """Returns the smaller or larger of two values. If one is NaN, returns the other; if `b` is an
    array, it must not be NaN."""
    wins = operator.lt if op is ops.minimum else operator.gt

    def chosen(a: Any, b: Any) -> Any:
        if is_array(a) or is_array(b):
            return elementwise(op, a, b, name=f"dr.{op.name[:3]}")
        result = a if wins(a, b) or b != b else b
        return float(result) if isinstance(a, float) or isinstance(b, float) else result

    return chosen


class ReductionRule(NamedTuple):
    """A reduction: the operation on traced arrays, on two values, and its result for no entries."""

    key: str
    combine: Callable[[Any, Any], Any]
    op: ops.Op
    starting_value: Any


def _rule(key: str, o: ops.Op) -> ReductionRule:
    combine = _extreme(o) if key in ("min", "max") else o.python
    return ReductionRule(
        key, combine, o, ops.starting_value(key, dt.f64 if o.accepts(dt.f64) else dt.mask)
    )


RULES = {key: _rule(key, o) for key, o in ops.REDUCTIONS.items()}


def check_mode(mode: Any, what: str | UserCall) -> None:
    if mode not in (None, "symbolic", "evaluated"):
        raise RuntimeError(f"{what}: 'mode' must be 'symbolic', 'evaluated' or None, not {mode!r}")


def axes_of(
    axis: Any, ndim: int, default: tuple[int, ...], what: str | UserCall
) -> tuple[int, ...]:
    """Returns the axes to reduce, counted from the front, without duplicates and in increasing
    order."""
    if axis is Ellipsis:
        return default
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    for a in axes:
        if type(a) is not int and not isinstance(a, (int, np.integer)):
            raise RuntimeError(
                f"{what}: 'axis' must be an int, a tuple of ints, None or ..., not {axis!r}"
            )
    return tuple(sorted({_reduced_axis(int(a), ndim, what) for a in axes}))


def _reduced_axis(axis: int, ndim: int, what: str | UserCall) -> int:
    if not -ndim <= axis < ndim:
        raise RuntimeError(f"{what}: out-of-bounds axis {axis} of an array of {ndim} dimensions")
    return axis % ndim


# Reductions along axes


def reduce_axes(key: str, value: Any, axis: Any, mode: Any, keepdims: bool, name: str) -> Any:
    """Reduces any kind of value."""
    rule = RULES[key]
    if axis is Ellipsis and mode is None and is_array(value) and rule.op.accepts(value._dtype):
        if value._kind == "leaf":
            return leaf_access.reduce_all(key, value)
        if value._kind == "nested" and value._components and not keepdims:
            return _total(rule, value._components)
    what = UserCall(name, value)
    check_mode(mode, what)
    if isinstance(value, KernelValue) and axis in (0, (0,), Ellipsis):
        return value._reduce(key)
    if isinstance(value, KernelValue) or not is_array(value):
        return _reduce_python(rule, value, axis, mode, keepdims, name)
    if not rule.op.accepts(value._dtype):
        raise RuntimeError(
            f"{what}: the reduction is not defined for entries of type {value._dtype.name}"
        )
    if value._kind == "tensor":
        ndim = len(value._shape)
        axes = axes_of(axis, ndim, tuple(range(ndim)), what)
        return _reduce_tensor(rule, value, axes, keepdims)
    ndim = len(value.__meta__.dims) + value.__meta__.is_jit
    axes = axes_of(axis, ndim, (0,), what)
    if (keepdims and axes not in ((), (ndim - 1,))) or (keepdims and not value.__meta__.is_jit):
        raise RuntimeError(
            f"{what}: keepdims=True is for tensors, and for the last axis of arrays, whose size is "
            f"dynamic; here the axes are {axes} of {ndim}"
        )
    if axes and axes[-1] == ndim - 1 and value.__meta__.is_jit and value._kind == "nested":
        value = broadcast_components(value)
    return _reduce_nested(rule, value, axes)


def _reduce_nested(rule: ReductionRule, value: Any, axes: Sequence[int]) -> Any:
    """Reduces an array along axes counted from its first component axis."""
    if not axes:
        return value
    if value._kind == "leaf":
        return leaf_access.reduce_all(rule.key, value)
    below = [a - 1 for a in axes if a > 0]
    cls = type(value)
    if axes[0] != 0:
        reduced = [_reduce_nested(rule, c, below) for c in value._components]
        return nested(_rebuilt(cls, reduced), reduced)
    if not value._components:
        start = ops.starting_value(rule.key, cls._dtype)
        return cls.Value(start) if value.__meta__.is_jit else ir.normalize(cls._dtype, start)
    total = _total(rule, value._components)
    return _reduce_nested(rule, total, below) if is_array(total) else total


def combine(rule: ReductionRule, a: Any, b: Any) -> Any:
    """Performs one step of a reduction of components."""
    return elementwise(rule.op, a, b) if is_array(a) or is_array(b) else rule.combine(a, b)


def _total(rule: ReductionRule, values: Sequence[Any]) -> Any:
    """Reduces components or Python values. `min` and `max` ignore NaN."""
    first, *rest = values
    if rule.key in ("min", "max"):
        if is_array(first) and first._dtype.is_float:
            first = combine(rule, first, rule.starting_value)
        return fold(lambda total, v: rule.combine(v, total), rest, first)
    return fold(rule.combine, rest, first)


def _rebuilt(cls: type, components: Sequence[Any]) -> type:
    """Returns the class of a nested array like `cls` after its components have changed."""
    if not components or type(components[0]) is cls.Value:
        return cls
    dims = cls.__meta__.dims
    first = components[0]
    inner_dims = first.__meta__.dims if is_array(first) else ()
    return conversion.related(cls, kind="vector", dims=(dims[0], *inner_dims))


def _reduce_python(
    rule: ReductionRule, value: Any, axis: Any, mode: Any, keepdims: bool, name: str
) -> Any:
    """Reduces a Python number or iterable."""
    what = f"{name}(<{label(value)}>)"
    if keepdims:
        raise RuntimeError(f"{what}: keepdims=True is for arrays and tensors only")
    logical = name in ("dr.all", "dr.any", "dr.none")
    is_bool = isinstance(value, (bool, np.bool_))
    if is_bool if logical else isinstance(value, (int, float, np.number)) and not is_bool:
        return value
    if value is None or not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        expected = "a bool" if logical else "a number"
        raise (TypeError if value is None else RuntimeError)(
            f"{what}: expected an array, {expected}, or an iterable of them"
        )
    if axis not in (0, None, Ellipsis) and axis != (0,):
        raise RuntimeError(f"{what}: 'axis' must be 0 or None for Python iterables, not {axis!r}")
    items = list(value)
    if axis is None:
        items = [
            reduce_axes(rule.key, v, None, mode, keepdims, name)
            if is_array(v) or isinstance(v, (list, tuple))
            else v
            for v in items
        ]
    if not items:
        return rule.starting_value
    try:
        return _total(rule, items)
    except TypeError as error:
        raise IncompatibleError(f"{what}: the entries do not go together: {error}") from error


# Tensors


def _reduce_tensor(rule: ReductionRule, value: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Reduces a tensor: each run of adjacent axes in turn, the last run first. No data is moved."""
    cls, shape, array = type(value), value._shape, value._array
    if not axes:
        return value
    count, outer, result, runs = _layout(shape, axes, keepdims)
    if array._kind == "nested":
        reduced = _reduce_entries(rule, array, shape, axes, outer)
    elif outer == 0 or count == 0:
        reduced = leaf.literal(type(array), ops.starting_value(rule.key, cls._dtype), outer)
    elif outer == 1:
        reduced = leaf_access.reduce_all(rule.key, array)
    else:
        reduced = _reduce_runs(rule.key, array, runs)
    return tensor(cls, reduced, result)


@lru_cache(512)
def _layout(
    shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool
) -> tuple[int, int, tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Returns the layout of a reduction: how many entries become one, the number and shape of the
    results, and the rows and columns of the matrices to reduce one after the other."""
    count = product([shape[a] for a in axes])
    outer = product([n for a, n in enumerate(shape) if a not in axes])
    result = [1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes]
    long = [a for a in axes if shape[a] > 1]
    runs, sizes = [], list(shape)
    for start in reversed([a for a in long if a - 1 not in long]):
        end = start
        while end in long:
            end += 1
        runs.append((product(sizes[start:end]), product(sizes[end:])))
        sizes[start:end] = [1] * (end - start)
    return count, outer, tuple(result), tuple(runs)


def _reduce_runs(key: str, array: Any, runs: tuple[tuple[int, int], ...]) -> Any:
    cls = type(array)
    if len(runs) > 1 and cls._dtype is dt.f16 and key in ("add", "mul"):
        # Rounded once, at the end.
        array = conversion.flat_class(cls, dt.f32)(array)
    for rows, columns in runs:
        if columns == 1:
            array = leaf_access.block_reduce(key, array, rows)
        else:
            array = leaf_access.reduce_rows(key, array, rows, columns)
    return array if type(array) is cls else cls(array)


def _reduce_entries(
    rule: ReductionRule, array: Any, shape: tuple, axes: tuple[int, ...], outer: int
) -> Any:
    """Reduces the storage of a `drjit.scalar` tensor to `outer` entries."""
    dtype = array._dtype
    if not array._components:
        return nested(
            type(array), [ir.normalize(dtype, ops.starting_value(rule.key, dtype))] * outer
        )
    moved = np.moveaxis(conversion.host_entries(array, shape), axes, range(-len(axes), 0))
    rows = moved.reshape(-1, product(shape[a] for a in axes))
    return nested(type(array), [ir.normalize(dtype, fold(rule.combine, r)) for r in rows])


# Public reductions


def reduction(name: str, op: Any) -> str:
    """Returns the key of a reduction.

    Raises:
        TypeError: it is not a `ReduceOp`.
        RuntimeError: it is `ReduceOp.Identity`.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}(): 'op' must be a ReduceOp such as dr.ReduceOp.Add, not {op!r}")
    if op not in REDUCTIONS:
        raise RuntimeError(f"{name}(): {op} is not a reduction")
    return REDUCTIONS[op]


@signatures.reduction_by
def reduce(
    op: ReduceOp, value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Reduces `value` by `op` along one or several axes.

    Without `axis`, tensors are reduced along all axes and everything else along axis 0: a
    one-dimensional array to one entry, a nested array to a combination of its components. `None`
    means all axes and a tuple several; negative axes count from the end. A Python number is
    returned as it is, and iterables are folded. An empty axis yields the neutral element. `float16`
    sums accumulate in `float32`. `keepdims` keeps reduced axes of tensors with size 1. `mode`
    ('symbolic', 'evaluated' or None) is a hint.

    Raises:
        RuntimeError: an axis is out of bounds, or the operation is not defined for the type.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.reduce(dr.ReduceOp.Max, Float(1, 3, 2))
    [3]
    >>> dr.reduce(dr.ReduceOp.Add, Array2f([1, 2], [3, 4]), axis=1)
    [[3, 7]]
    """
    key = reduction("dr.reduce", op)
    if key in ("and", "or") and isinstance(value, (bool, np.bool_)):
        return value
    return reduce_axes(key, value, axis, mode, keepdims, "dr.reduce")


@signatures.reduction
@foreign_names.hinted
def sum(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, **unknown: Any
) -> Any:
    """Returns the sum along axes; see `reduce`.

    >>> from drjit.llvm import Array2f
    >>> dr.sum(Array2f([1, 2], [3, 4])), dr.sum(Array2f([1, 2], [3, 4]), axis=None), dr.sum([1, 2])
    ([4, 6], [10], 3)
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.sum", unknown)
    return reduce_axes("add", value, axis, mode, keepdims, "dr.sum")


@signatures.reduction
@foreign_names.hinted
def prod(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, **unknown: Any
) -> Any:
    """Returns the product along axes; see `reduce`.

    >>> from drjit.llvm import Float
    >>> dr.prod(Float(1, 2, 3, 4))
    [24]
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.prod", unknown)
    return reduce_axes("mul", value, axis, mode, keepdims, "dr.prod")


@signatures.reduction
@foreign_names.hinted
def min(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, **unknown: Any
) -> Any:
    """Returns the minimum along axes; see `reduce`.

    >>> from drjit.llvm import Float
    >>> dr.min(Float(3, 1, 2))
    [1]
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.min", unknown)
    return reduce_axes("min", value, axis, mode, keepdims, "dr.min")


@signatures.reduction
@foreign_names.hinted
def max(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, **unknown: Any
) -> Any:
    """Returns the maximum along axes; see `reduce`.

    >>> from drjit.llvm import Float
    >>> dr.max(Float(3, 1, 2))
    [3]
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.max", unknown)
    return reduce_axes("max", value, axis, mode, keepdims, "dr.max")


def _refuse_integers(value: Any, name: str, result: str) -> None:
    """Raises a TypeError for integer arrays, whose result would not be an integer."""
    meta = value.__meta__
    if value._dtype.is_int and (meta.is_jit or meta.kind == "tensor" or len(meta.dims) > 1):
        raise TypeError(
            f"{name}(<{label(value)}>): the {result} of integers is no integer; convert to "
            f"{label(conversion.with_dtype(type(value), dt.f32))} first"
        )


@signatures.reduction
@foreign_names.hinted
def mean(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, **unknown: Any
) -> Any:
    """Returns the mean along axes: the sum times the reciprocal of the number of entries; see
    `reduce`. NaN if there are none.

    Raises:
        TypeError: the array holds integers.

    >>> from drjit.llvm import Float
    >>> dr.mean(Float(1, 2, 6)), dr.mean([1, 2])
    ([3], 1.5)
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.mean", unknown)
    name = "dr.mean"
    if not isinstance(value, ArrayBase):
        if isinstance(value, Iterable) and not isinstance(value, (list, tuple)):
            value = list(value)
        total = reduce_axes("add", value, axis, mode, keepdims, name)
        n = len(value) if isinstance(value, (list, tuple)) else 1
        if axis is None and n and is_array(total):
            n *= common_width([v for e in value if is_array(e) for v in innermost(e)]) or 1
        return _scaled(total, n) if is_array(total) else total / n if n else float("nan")
    _refuse_integers(value, name, "mean")
    if value._dtype is dt.f16 and value.__meta__.is_jit:  # sums may overflow where this does not
        return conversion.in_single(lambda v: mean(v, axis, mode, keepdims), value)
    total = reduce_axes("add", value, axis, mode, keepdims, name)
    return _scaled(total, _reduced_count(value, axis, name))


def _reduced_count(value: Any, axis: Any, name: str) -> int:
    """Returns how many entries of an array are reduced to one."""
    if value._kind == "leaf":
        return 1 if axis == () else value._node.size
    shape = conversion.shape_of(value, name)
    default = tuple(range(len(shape))) if value._kind == "tensor" else (0,)
    return product(shape[a] for a in axes_of(axis, len(shape), default, name))


def _scaled(total: Any, n: int) -> Any:
    """Divides a sum by the number of its terms."""

    def quotient(v: Any, cls: Any) -> Any:
        if not isinstance(v, ArrayBase):
            return v / n if n else float("nan")
        if v._node.op is ir.LITERAL or n == 0:
            return leaf.apply(ops.div, v, leaf.literal(cls, n))
        rounded = ir.ROUNDED[cls._dtype]
        return v * rounded(1 / rounded(n))

    if not isinstance(total, ArrayBase) or total._kind == "leaf":
        return quotient(total, type(total))
    return conversion.converted(total, type(total), quotient)


@signatures.deviation
@explains_misuse
def var(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0
) -> Any:
    """Returns the variance along axes: the mean of the squared distances from the mean; with
    `ddof`, their sum divided by the number of entries minus `ddof`. Axes are as in `reduce`.

    Raises:
        TypeError: the array holds integers.
        RuntimeError: an axis is out of bounds.

    >>> from drjit.llvm import Float
    >>> dr.var(Float(1, 3)), dr.var([1, 3], ddof=1)
    ([1], 2.0)
    """
    if not isinstance(value, ArrayBase):
        if isinstance(value, Iterable):
            value = list(value)
            if builtins.any(is_array(v) for v in value):
                center = mean(value, axis, mode)
                squares = [(v - center) * (v - center) for v in value]
                return _scaled(sum(squares, axis, mode), builtins.max(len(value) - ddof, 0))
        else:
            value = [value]
        center = mean(value)
        total = sum([(v - center) ** 2 for v in value])
        n = len(value) - ddof
        return total / n if n > 0 else float("nan") if total == 0 else float("inf")
    _refuse_integers(value, "dr.var", "variance")
    if value._dtype is dt.f16 and value.__meta__.is_jit:
        return conversion.in_single(lambda v: var(v, axis, mode, keepdims, ddof), value)
    off = value
    if 0 not in value.shape:  # what has no entries has no mean
        off = value - mean(value, axis, mode, value._kind == "tensor")
    squares = sum(elementwise(ops.mul, off, off, name="dr.var"), axis, mode, keepdims)
    return _scaled(squares, builtins.max(_reduced_count(value, axis, "dr.var") - ddof, 0))


@signatures.deviation
@explains_misuse
def std(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0
) -> Any:
    """Returns the standard deviation along axes, the square root of the variance; see `var`.

    >>> from drjit.llvm import Float
    >>> dr.std(Float(1, 3))
    [1]
    """
    if is_array(value):
        _refuse_integers(value, "dr.std", "standard deviation")
    found = var(value, axis, mode, keepdims, ddof)
    return elementwise(ops.sqrt, found, name="dr.std") if is_array(found) else found**0.5


def _logical(key: str, value: Any, axis: Any, keepdims: bool, name: str) -> Any:
    if is_array(value) and not value._dtype.is_mask:
        raise RuntimeError(
            f"{name}(<{label(value)}>): expected a mask such as {label(value.Mask)}; compare first"
        )
    return reduce_axes(key, value, axis, None, keepdims, name)


@signatures.logical
@foreign_names.hinted
def all(value: Any, axis: Any = ..., keepdims: bool = False, **unknown: Any) -> Any:
    """Returns whether all entries along axes are true; see `reduce`.

    >>> from drjit.llvm import Bool
    >>> dr.all(Bool(True, False)), dr.all([True, True])
    ([False], True)
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.all", unknown)
    return _logical("and", value, axis, keepdims, "dr.all")


@signatures.logical
@foreign_names.hinted
def any(value: Any, axis: Any = ..., keepdims: bool = False, **unknown: Any) -> Any:
    """Returns whether any entry along axes is true; see `reduce`.

    >>> from drjit.llvm import Bool
    >>> dr.any(Bool(True, False))
    [True]
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.any", unknown)
    return _logical("or", value, axis, keepdims, "dr.any")


@signatures.logical
@foreign_names.hinted
def none(value: Any, axis: Any = ..., keepdims: bool = False, **unknown: Any) -> Any:
    """Returns whether no entry along axes is true; see `reduce`.

    >>> from drjit.llvm import Bool
    >>> dr.none(Bool(True, False))
    [False]
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.none", unknown)
    found = _logical("or", value, axis, keepdims, "dr.none")
    return ~found if is_array(found) else not found


@signatures.counted
@foreign_names.hinted
def count(value: Any, axis: Any = ..., keepdims: bool = False, **unknown: Any) -> Any:
    """Returns the number of true entries along axes, as an unsigned integer; see `reduce`.

    >>> from drjit.llvm import Bool
    >>> dr.count(Bool(True, False, True))
    [2]
    """
    if unknown:
        raise foreign_names.unexpected_argument("dr.count", unknown)
    name = "dr.count"
    if is_array(value):
        if not value._dtype.is_mask:
            raise RuntimeError(f"{name}(<{label(value)}>): expected a mask")
        return reduce_axes("add", _ones(value), axis, None, keepdims, name)
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise RuntimeError(f"{name}(<{label(value)}>): expected a mask, or an iterable of masks")
    ones = [_ones(v) if is_array(v) else count(v) for v in value]
    return reduce_axes("add", ones, axis, None, keepdims, name)


def _ones(mask: Any) -> Any:
    """Returns 1 where a mask is true and 0 elsewhere, as unsigned integers."""
    cls = conversion.with_dtype(type(mask), dt.u32)
    return conversion.converted(mask, cls, lambda v, c: leaf.cast(c, v) if is_array(v) else int(v))


@signatures.folding
def _nested_form(name: str) -> Callable[[Any], Any]:
    along = {"sum": sum, "prod": prod, "min": min, "max": max, "all": all, "any": any, "none": none}

    def over_all(arg: Any, /) -> Any:
        return along[name](arg, axis=None)

    over_all.__name__ = over_all.__qualname__ = f"{name}_nested"
    over_all.__doc__ = f"`{name}` over all axes: `{name}(arg, axis=None)`."
    return over_all


sum_nested, prod_nested, min_nested, max_nested = map(_nested_form, ("sum", "prod", "min", "max"))
all_nested, any_nested, none_nested = map(_nested_form, ("all", "any", "none"))

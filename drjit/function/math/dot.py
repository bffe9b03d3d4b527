"""Dot products and norms, composed of element-wise products and sums."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from ...array import leaf_access, signatures
from ...array.base import ArrayBase, KernelValue
from ...array.elementwise import elementwise
from ...array.inline import RECORDERS
from ...array.promote import promote
from ...jit.ir import op as ops
from ...jit.ir.node import normalize
from ..conversion import is_array, is_flat, label, nested
from ..data.reduce import reduce_axes, sum

_FMA = RECORDERS[ops.fma]


@signatures.product
def dot(arg0: Any, arg1: Any, /) -> Any:
    """Returns the sum along axis 0 of the products of entries or components.

    Components are summed with one rounding per term (`fma`). Complex numbers, quaternions and
    matrices are treated as arrays of their components.

    Raises:
        RuntimeError: the operands differ in size, or are both numbers.

    >>> from drjit.llvm import Array3f, Float
    >>> dr.dot(Array3f(1, 2, 3), Array3f(4, 5, 6)), dr.dot(Float(1, 2), Float(3, 4))
    ([32], [11])
    """
    cls = type(arg0)
    form = _form(cls) if cls is type(arg1) else ""
    if form == "leaf":
        return leaf_access.reduce_all("add", elementwise(ops.mul, arg0, arg1, name="dr.dot"))
    if form == "vector" and len(arg0._components) == len(arg1._components) > 0:
        return _dot_terms(arg0._components, arg1._components)
    what = f"dr.dot(<{label(arg0)}>, <{label(arg1)}>)"
    if isinstance(arg0, KernelValue) or isinstance(arg1, KernelValue):
        if not _feature_by_feature(arg0, arg1):
            return sum(elementwise(ops.mul, arg0, arg1, name="dr.dot"))
        arg0, arg1 = list(arg0), list(arg1)
    if not is_array(arg0) and not is_array(arg1):
        if not isinstance(arg0, Iterable) or not isinstance(arg1, Iterable):
            raise RuntimeError(f"{what}: expected arrays, or sequences of the same length")
        a, b = list(arg0), list(arg1)
        if len(a) != len(b):
            raise RuntimeError(f"{what}: the operands have {len(a)} and {len(b)} entries")
        return _dot_terms(a, b)
    if _have_parts(arg0, arg1) and (arg0._kind != arg1._kind or arg0.ndim != arg1.ndim):
        a, b = list(_plain(arg0)), list(_plain(arg1))
        if len(a) == len(b) > 0:
            return _dot_terms(a, b)
    try:
        a, b = promote(_plain(arg0), _plain(arg1))
    except RuntimeError as error:
        raise RuntimeError(f"{what}: {error}") from None
    if a._dtype.is_mask:
        raise RuntimeError(f"{what}: the operation is not defined for masks")
    if a._kind == "leaf":
        return sum(elementwise(ops.mul, a, b, name="dr.dot"))
    if a._kind == "tensor":
        return sum(elementwise(ops.mul, a, b, name="dr.dot"), axis=0)
    if len(a._components) != len(b._components):
        raise RuntimeError(
            f"{what}: the operands have {len(a._components)} and {len(b._components)} components"
        )
    if not a._components:
        return reduce_axes("add", a, 0, None, False, "dr.dot")
    found = _dot_terms(a._components, b._components)
    return normalize(a._dtype, found) if is_flat(type(a)) else found


@cache
def _form(cls: type) -> str:
    """Returns what values of a class are, if they are of the most frequent kinds of operands: a
    traced numeric array of one dimension (`leaf`) or `vector`."""
    if not issubclass(cls, ArrayBase):
        return ""
    meta = cls.__meta__
    if not meta.is_jit or meta.dtype.is_mask:
        return ""
    return meta.kind if meta.kind in ("leaf", "vector") else ""


def _feature_by_feature(arg0: Any, arg1: Any) -> bool:
    """Returns whether one operand is a cooperative vector and the other has the same length but is
    not accepted by element-wise operations: it has another precision or is not a cooperative
    vector.
    """
    if isinstance(arg0, KernelValue) and isinstance(arg1, KernelValue):
        return arg0._dtype is not arg1._dtype
    other = arg1 if isinstance(arg0, KernelValue) else arg0
    return other._kind != "leaf" if is_array(other) else isinstance(other, Iterable)


def _have_parts(*values: Any) -> bool:
    """Returns whether the entries along axis 0 are themselves arrays."""
    return all(is_array(v) and v._kind != "leaf" for v in values)


def _plain(value: Any) -> Any:
    """Returns a matrix, complex number or quaternion as an array of its components."""
    if is_array(value) and value._kind == "nested" and value.__meta__.kind != "vector":
        return nested(type(value).Array, [_plain(c) for c in value._components])
    return value


def _dot_terms(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Returns the sum of products of components."""
    if not a:
        return 0
    pairs = zip(a, b, strict=True)
    x, y = next(pairs)
    total = x * y
    for x, y in pairs:
        found = _FMA[type(total)](x, y, total)
        if found is None:
            fused = is_array(total) and total._dtype.is_float
            found = elementwise(ops.fma, x, y, total, name="dr.dot") if fused else total + x * y
        total = found
    return total


@signatures.product
def abs_dot(arg0: Any, arg1: Any, /) -> Any:
    """Returns the absolute value of `dot`.

    >>> from drjit.llvm import Array2f
    >>> dr.abs_dot(Array2f(1, 2), Array2f(-3, 1))
    [1]
    """
    found = dot(arg0, arg1)
    return elementwise(ops.abs, found, name="dr.abs_dot") if is_array(found) else abs(found)


@signatures.reduction
def squared_norm(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Returns the sum of squares along axes; see `reduce`. If a tensor is left with axes of size 1
    only, its shape is `()`, unless `keepdims` is set.

    >>> from drjit.llvm import Array2f
    >>> dr.squared_norm(Array2f(3, 4))
    [25]
    """
    if not is_array(value):
        if isinstance(value, (int, float)):
            return value * value
        return dot(value, value)
    if value._kind == "nested" and axis is Ellipsis and not keepdims:
        return dot(value, value)
    value = _plain(value)
    squares = elementwise(ops.mul, value, value, name="dr.squared_norm")
    found = reduce_axes("add", squares, axis, mode, keepdims, "dr.squared_norm")
    if not keepdims and found._kind == "tensor" and all(n == 1 for n in found._shape):
        found._shape = ()
    return found


@signatures.reduction
def norm(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Returns the Euclidean norm along axes, the square root of `squared_norm`.

    Raises:
        RuntimeError: the array holds integers.

    >>> from drjit.llvm import Array2f
    >>> dr.norm(Array2f(3, 4)), dr.norm([3, 4])
    ([5], 5.0)
    """
    found = squared_norm(value, axis, mode, keepdims)
    if is_array(found):
        return elementwise(ops.sqrt, found, name="dr.norm")
    return found**0.5

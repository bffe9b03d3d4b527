"""Array creation: constants, ranges, arrays like others, and opaque values, which are not part of
the program text."""

import operator
from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from ...array import leaf, signatures
from ...array.inline import RECORDERS
from ...array.meta import DYNAMIC
from ...array.pytree import is_container, leaf_arrays, make_struct, map_tree, struct_fields
from ...array.show import common_width
from ...jit.ir import dtype as dt
from ...jit.ir import node, op
from ...jit.run import freeze_size
from .. import conversion
from ..conversion import T, is_array, is_array_class, is_flat, label, nested, tensor
from ..evaluation import copy, make_opaque
from ..signature import explains_misuse

if TYPE_CHECKING:
    from ...array.kinds import Convertible, Sizes
    from ...array.promotion import PyTree
    from ...array.signatures import FlatT
Fill = Callable[[Any, Any, int | None, str], Any]
"""Creates an array of a one-dimensional class from a value and a size; for Python types, and with
size None for the entries of a `drjit.scalar` class, a number. The last argument is the name of the
function that the user called."""


def _build(dtype: Any, shape: Any, fill: Fill, value: Any, what: str) -> Any:
    """Creates an array, structure or number of type `dtype`."""
    if not isinstance(dtype, type):
        raise TypeError(f"{what}(): 'dtype' must be a type, not {dtype!r}")
    sizes = conversion.size_tuple(shape, what)
    if is_array_class(dtype):
        return _array(dtype, sizes, fill, value, what)
    fields = struct_fields(dtype)
    if fields is not None:
        own = type(value) is dtype
        values = [
            _build(kind, shape, fill, getattr(value, name) if own else value, what)
            for name, kind in fields.items()
        ]
        return make_struct(dtype, fields, values)
    if dtype in (bool, int, float):
        return fill(dtype, value, 1, what)
    if value in (None, 0):
        return dtype()
    try:
        return dtype(value)
    except (TypeError, ValueError):
        raise RuntimeError(f"{what}(): cannot make a {label(dtype)} of {value!r}") from None


def shape_mismatch(dtype: type, sizes: Any, what: str) -> RuntimeError:
    """Returns the error to raise for a shape that arrays of a type do not have."""
    shape = dtype.__meta__.shape
    shown = ", ".join("n" if n == DYNAMIC else str(n) for n in shape)
    return RuntimeError(
        f'{what}: could not construct output: the provided "shape" and "dtype" parameters are '
        f"incompatible. The shape is {sizes!r}; a {label(dtype)} takes a number of lanes, or a "
        f"shape of the form ({shown}{',' if len(shape) == 1 else ''})."
    )


def _array(dtype: Any, sizes: Any, fill: Fill, value: Any, what: str) -> Any:
    if dtype._kind == "tensor":
        shape = sizes if isinstance(sizes, tuple) else (sizes,)
        return tensor(dtype, _array(dtype.Array, (prod(shape),), fill, value, what), shape)
    dims, traced = dtype.__meta__.dims, dtype.__meta__.is_jit
    if isinstance(sizes, tuple):
        if len(sizes) != len(dims) + traced:
            raise shape_mismatch(dtype, sizes, f"{what}()")
        shape, width = sizes[: len(dims)], sizes[-1] if traced else 1
    else:
        dynamic = 1 if traced else sizes
        shape, width = tuple(dynamic if d == DYNAMIC else d for d in dims), sizes
    if dims != shape and not conversion.fits(dims, shape):
        raise shape_mismatch(dtype, sizes, f"{what}()")
    return _nested(dtype, shape, width, fill, value, what)


def _nested(dtype: Any, shape: tuple, width: int, fill: Fill, value: Any, what: str) -> Any:
    if not is_array_class(dtype) or dtype._kind == "leaf":
        return fill(dtype, value, width, what)
    count, kind = shape[0], dtype.__meta__.kind
    if isinstance(value, (list, tuple)) or (is_array(value) and value._kind == "nested"):
        values = list(value)
        if len(values) != count:
            raise RuntimeError(
                f"{what}({label(dtype)}): Input has the wrong size (expected {count} elements, got "
                f"{len(values)})."
            )
    elif isinstance(value, complex) and kind == "complex":
        values = [value.real, value.imag]
    elif kind in ("complex", "quaternion"):
        values = [0] * count
        values[0 if kind == "complex" else -1] = value
    else:
        values = [value] * count
    if not is_array_class(dtype.Value):
        return nested(dtype, [fill(dtype, v, None, what) for v in values])
    return nested(dtype, [_nested(dtype.Value, shape[1:], width, fill, v, what) for v in values])


def _constant(cls: Any, value: Any, size: int | None, what: str) -> Any:
    """A `Fill` whose value is a number or a one-dimensional array."""
    if cls in (bool, int, float):
        return cls(value)
    if is_array(value):
        if size is not None and value._kind == "leaf" and value._node.size in (1, size):
            return leaf.resize(cls(value), size)
    elif isinstance(value, (bool, int, float)) or hasattr(value, "__index__"):
        dtype = cls._dtype
        number = node.normalize(dtype, value)
        if not dtype.is_int or number == value:
            return number if size is None else leaf.literal(cls, number, size)
    raise RuntimeError(f"{what}(): {value!r} is not a value for the entries of {label(cls)}")


def _undefined(cls: Any, value: Any, size: int | None, what: str) -> Any:
    """A `Fill` that leaves memory uninitialized."""
    if size is None or cls in (bool, int, float):
        return _constant(cls, 0, size, what)
    node.check_size(size)
    return conversion.unwritten(cls, size)


class _Constants(dict[Any, Callable[[Any, int], Any]]):
    """Functions that create an array of a class from a number and a number of lanes: for traced
    classes whose components are all equal to the number, and whose shape is known. For any other
    class or number, they return the number."""

    def __missing__(self, cls: Any) -> Callable[[Any, int], Any]:
        result: Any = _no_constant
        if not is_array_class(cls) or "__meta__" not in vars(cls):
            return result  # classes of the program, which must not be kept alive
        if cls._kind == "leaf":
            result = leaf.constant_maker(cls)
        elif cls._size and cls.__meta__.kind in ("vector", "matrix") and cls.__meta__.is_jit:
            result = _shared_constant(cls)
        self[cls] = result
        return result


def _shared_constant(cls: Any) -> Callable[[Any, int], Any]:
    """Returns such a function for nested arrays, whose leaves share one literal."""
    literal, of_node = node.literal_converter(cls._dtype), _repeated(cls)

    def constant(number: Any, size: int) -> Any:
        n = literal(number, size)
        return number if n is None else of_node(n)

    return constant


def _repeated(cls: Any) -> Callable[[node.Node], Any]:
    """Returns a function that creates a nested array whose leaves are all equal to a node."""
    inner, count = cls.Value, cls._size
    part = partial(leaf.wrap, inner) if inner is cls._leaf else _repeated(inner)
    return lambda n: nested(cls, [part(n) for _ in range(count)])


def _no_constant(number: Any, size: int) -> Any:
    return number


_CONSTANTS = _Constants()


def _filled(dtype: Any, value: Any, shape: Any, what: str) -> Any:
    """Creates an array, structure or number of type `dtype` that is filled with a value."""
    if type(shape) is int and 0 <= shape <= node.MAX_SIZE and isinstance(dtype, type):
        result = _CONSTANTS[dtype](value, shape)
        if result is not value:
            return result
    return _build(dtype, shape, _constant, value, what)


@explains_misuse
def full(dtype: type[T], value: "Convertible | PyTree", shape: "Sizes" = 1) -> T:
    """Returns an array of type `dtype` filled with `value`, traced as a constant.

    `shape` is the number of lanes, or a tuple: (n,) for one-dimensional arrays, (3, n) for
    `Array3f`, anything for tensors. A sequence is distributed over the components of a nested type;
    complex numbers and quaternions take it as the real part. Structures are filled field by field,
    and Python types yield numbers.

    Raises:
        RuntimeError: the shape does not match the type, or the value does not match the entries.
        TypeError: `dtype` is not a type, or `shape` is not a shape.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.full(Float, 1.5, 3), dr.full(Array2f, [1, 2])
    ([1.5, 1.5, 1.5], [[1, 2]])
    """
    return _filled(dtype, value, shape, "dr.full")


@explains_misuse
def zeros(dtype: type[T], shape: "Sizes" = 1) -> T:
    """Returns an array of type `dtype` filled with 0; see `full`.

    >>> from drjit.llvm import Float
    >>> dr.zeros(Float, 2)
    [0, 0]
    """
    return _filled(dtype, 0, shape, "dr.zeros")


@explains_misuse
def ones(dtype: type[T], shape: "Sizes" = 1) -> T:
    """Returns an array of type `dtype` filled with 1 (for complex numbers and quaternions, the
    number 1); see `full`.

    >>> from drjit.llvm import Float
    >>> dr.ones(Float, 2)
    [1, 1]
    """
    return _filled(dtype, 1, shape, "dr.ones")


@explains_misuse
def empty(dtype: type[T], shape: "Sizes" = 1) -> T:
    """Returns an array of type `dtype` with undefined contents, to be filled by scatters; see
    `full`.

    >>> from drjit.llvm import Float
    >>> len(dr.empty(Float, 3))
    3
    """
    return _build(dtype, shape, _undefined, 0, "dr.empty")


def _like(arg: Any, make: Callable[[Any, Any], Any], number: Any, what: str) -> Any:
    """Returns `make(dtype, shape)` for the type and shape of a value; for PyTrees, leaf by leaf."""
    if is_container(arg):
        return map_tree(lambda v: _like(v, make, number, what), arg)
    if is_array(arg):
        kind = type(arg)
        known = _CONSTANTS[kind] is not _no_constant  # whose shape is its width
        width = common_width(leaf_arrays(arg)) if known else None
        return make(kind, conversion.shape_of(arg, what) if width is None else width)
    if isinstance(arg, (bool, int, float)):
        return type(arg)(number)
    raise conversion.unexpected(what, "an array, a number, or a tree of them", arg)


def zeros_like(arg: T, /) -> T:
    """Returns zeros with the type and shape of `arg`, an array, number or PyTree.

    >>> from drjit.llvm import Float
    >>> dr.zeros_like([Float(1, 2), 5])
    [[0, 0], 0]
    """
    return _like(arg, zeros, 0, "dr.zeros_like")


def ones_like(arg: T, /) -> T:
    """Returns ones with the type and shape of `arg`, an array, number or PyTree.

    >>> from drjit.llvm import Float
    >>> dr.ones_like(Float(5, 6))
    [1, 1]
    """
    return _like(arg, ones, 1, "dr.ones_like")


def empty_like(arg: T, /) -> T:
    """Returns undefined contents with the type and shape of `arg`, an array, number or PyTree.

    >>> from drjit.llvm import Float
    >>> len(dr.empty_like(Float(5, 6)))
    2
    """
    return _like(arg, empty, 0, "dr.empty_like")


def identity(dtype: type[T], size: "Sizes" = 1) -> T:
    """Returns the multiplicative identity: identity matrices, and ones for everything else.

    Raises:
        RuntimeError: `size` does not match the type.

    >>> from drjit.llvm import Matrix2f
    >>> dr.identity(Matrix2f)
    [[[1, 0],
      [0, 1]]]
    """
    if not is_array_class(dtype) or dtype.__meta__.kind != "matrix":
        return ones(dtype, size)
    n, one, zero = dtype.__meta__.dims[0], 1, 0
    if len(dtype.__meta__.dims) > 2:
        one, zero = ones(dtype.Value.Value), zeros(dtype.Value.Value)
    rows = [[one if i == j else zero for j in range(n)] for i in range(n)]
    return _build(dtype, size, _constant, rows, "dr.identity")


# Ranges


def _range_class(dtype: Any, what: str) -> Any:
    """Returns the one-dimensional class in which a range is computed."""
    if not is_array_class(dtype):
        raise TypeError(f"{what}(): 'dtype' must be an array type, not {dtype!r}")
    if dtype._kind != "tensor" and not is_flat(dtype):
        raise TypeError(
            f"{what}(): {label(dtype)} is not one-dimensional; expected a type such as "
            f"{label(conversion.flat_class(dtype))}, or a tensor"
        )
    return dtype.Array if dtype._kind == "tensor" else dtype


@signatures.ranged
@explains_misuse
def arange(
    dtype: type[Any],
    start: int | None = None,
    stop: int | None = None,
    step: int = 1,
    *,
    size: int | None = None,
) -> Any:
    """Returns the integers 0 ... size-1, when called as `arange(dtype, size)`; or `start`, `start +
    step`, ... below `stop`.

    Raises:
        RuntimeError: `stop` lies on the wrong side of `start`, or `size` is negative.
        TypeError: the type is not one-dimensional and arithmetic, or an argument is not an integer.
        ValueError: `step` is 0.

    >>> from drjit.llvm import Float, Int
    >>> dr.arange(Float, 3), dr.arange(Int, 5, 0, -2)
    ([0, 1, 2], [5, 3, 1])
    """
    what = "dr.arange"
    cls = _range_class(dtype, what)
    t = cls._dtype
    if t.is_mask:
        raise TypeError(f"{what}({label(dtype)}): the type must be arithmetic")
    if stop is None:
        start, stop = 0, size if start is None else start
    try:
        first, last, by = map(operator.index, (start, stop, step))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{what}(): expected integers, either a size or start, stop and step; got "
            f"start={start!r}, stop={stop!r}, step={step!r}"
        ) from None
    if by == 0:
        raise ValueError(f"{what}(): 'step' must not be 0")
    if (last - first) * by < 0:
        raise RuntimeError(
            f"{what}(): the size cannot be negative (start={first}, stop={last}, step={by})"
        )
    count = freeze_size.parts(last - first, by)
    if t.is_int and not t.is_signed and (first < 0 or by < 0):
        raise TypeError(f"{what}({label(dtype)}): start={first}, step={by} in an unsigned type")
    return _progression(dtype, cls, first, by, count)


def _progression(dtype: Any, cls: Any, start: Any, step: Any, count: int) -> Any:
    """Returns equally spaced numbers, computed in a one-dimensional class."""
    if not cls.__meta__.is_jit:
        result = nested(cls, [node.normalize(cls._dtype, start + step * k) for k in range(count)])
    else:
        result = leaf.lane(cls, count)
        if (start, step) != (0, 1):
            t = cls._dtype
            if t.is_float:
                fma = RECORDERS[op.fma][cls]
                result = fma(result, node.normalize(t, step), node.normalize(t, start))
            else:
                scale, offset = leaf.literal(cls, step), leaf.literal(cls, start)
                result = leaf.apply(op.add, leaf.apply(op.mul, result, scale), offset)
    target = dtype.Array if dtype._kind == "tensor" else dtype
    if type(result) is not target:
        result = leaf.cast(target, result)
    return result if target is dtype else tensor(dtype, result, (count,))


@explains_misuse
def linspace(
    dtype: "type[FlatT]", start: float, stop: float, num: int, endpoint: bool = True
) -> "FlatT":
    """Returns `num` equally spaced values from `start` to `stop`, which is the last one unless
    `endpoint` is false.

    Raises:
        TypeError: the type is not one-dimensional and floating point, or an argument is not a
            number.

    >>> from drjit.llvm import Float
    >>> dr.linspace(Float, 0, 1, 5)
    [0, 0.25, 0.5, 0.75, 1]
    """
    what = "dr.linspace"
    cls = _range_class(dtype, what)
    t = cls._dtype
    if not t.is_float:
        raise TypeError(f"{what}({label(dtype)}): the type must be a floating point type")
    try:
        num = operator.index(num)
        if is_array(start) or is_array(stop):
            raise TypeError
        first, last = float(start), float(stop)
    except (TypeError, ValueError):
        raise TypeError(
            f"{what}(): expected numbers, got start={start!r}, stop={stop!r}, num={num!r}"
        ) from None
    if num < 0:
        raise TypeError(f"{what}(): 'num' must not be negative, got {num}")
    gaps = num - 1 if endpoint else num
    step = (last - first) / gaps if gaps > 0 else 0.0
    # Lanes and steps in half precision would be too coarse.
    wide = conversion.with_dtype(cls, dt.f32) if t is dt.f16 and cls.__meta__.is_jit else cls
    return _progression(dtype, wide, first, step, num)


# Opaque values


_MISSING = object()


@signatures.evaluated
def opaque(
    dtype: Any = _MISSING, value: Any = _MISSING, shape: Any = 1, *, arg: Any = _MISSING
) -> Any:
    """Returns an evaluated array: to a kernel its value is data, not part of the program, so other
    values need no other kernel.

    `opaque(arg)` returns a copy of an array or PyTree; `opaque(dtype, value, shape)` creates the
    same as `full`.

    Raises:
        RuntimeError, TypeError: as `full`.

    >>> from drjit.llvm import Float
    >>> dr.opaque(Float, 3, 2), dr.opaque(Float(1))
    ([3, 3], [1])
    """
    dtype = arg if dtype is _MISSING else dtype
    if dtype is _MISSING:
        raise TypeError("dr.opaque(): expected an array or PyTree, or dr.opaque(dtype, value)")
    if value is not _MISSING:
        result = _filled(dtype, value, shape, "dr.opaque")
    elif isinstance(dtype, type):
        raise RuntimeError(
            "dr.opaque(): expected an array, tensor, or PyTree, but received a type object, "
            f"{label(dtype)}, without a value. Did you mean dr.opaque(dtype, value, shape)?"
        )
    else:
        result = copy(dtype)
    make_opaque(result)
    return result


@signatures.width
def opaque_width(arg: Any, /) -> Any:
    """Returns the number of lanes of an array or PyTree as an opaque unsigned integer.

    Raises:
        RuntimeError: arrays of the PyTree differ in size.
        TypeError: the PyTree contains no traced array.

    >>> from drjit.llvm import Float
    >>> dr.opaque_width(Float(1, 2, 3))
    [3]
    """
    found = [a for a in leaf_arrays(arg) if a._kind == "leaf"]
    if not found:
        raise TypeError(f"dr.opaque_width(): a {label(arg)} has no traced arrays")
    width = common_width(found)
    if width is None:
        sizes = ", ".join(str(a._node.size) for a in found)
        raise RuntimeError(f"dr.opaque_width(): the arrays have different sizes ({sizes})")
    return opaque(conversion.flat_class(type(found[0]), dt.u32), width)

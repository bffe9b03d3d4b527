"""Promotion: the common type of values of different types, and implicit conversion to it.

The common element type is the later one in the order Bool, Int8, UInt8, Int, UInt, Int64, UInt64,
Float16, Float, Float64. A Python number takes the array's type, except that an `int` promotes Bool
to Int, and a `float` promotes integers to Float. Combined with traced types, `drjit.scalar` types
become traced; combined with differentiable types, those become differentiable.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..jit.ir import dtype as dt
from ..jit.lazy import np
from . import leaf, signatures, table
from .base import ArrayBase, IncompatibleError, OperandError, listed, nested, type_label
from .meta import BACKENDS, DYNAMIC, SPECIAL

_RANK = {"scalar": 0, "llvm": 1, "llvm.ad": 2, "cuda": 1, "cuda.ad": 2}
# The common classes of arguments that need no conversion to operands, by their types.
_common: dict[tuple, Any] = {}
_NUMBERS = (bool, int, float)

_WIDER = {dt.i16: dt.i32, dt.u16: dt.u32}  # for element types without array types


class Incompatible(RuntimeError):
    """The types are incompatible."""


def number_type(cls: type) -> Any:
    """Returns `bool`, `int` or `float` for Python and NumPy number types, otherwise None."""
    if cls in _NUMBERS:
        return cls
    if issubclass(cls, ArrayBase):  # which is faster to tell
        return None
    for python, numpy in zip(_NUMBERS, (np.bool_, np.integer, np.floating), strict=True):
        if issubclass(cls, (python, numpy)):
            return python
    return None


@cache
def join(types: tuple) -> Any:
    """Returns the common class of array and number types.

    Raises:
        RuntimeError: there is none.
    """
    metas = [cls.__meta__ for cls in types if issubclass(cls, ArrayBase)]
    numbers = [number_type(cls) for cls in types if not issubclass(cls, ArrayBase)]
    if None in numbers:
        cls = next(c for c in types if not issubclass(c, ArrayBase) and number_type(c) is None)
        raise Incompatible(
            f"unsupported operand type {type_label(cls)}: an array, a Python number, or something "
            "that converts to an array is needed"
        )
    if not metas:
        return max(numbers, key=_NUMBERS.index)
    dtype = _join_dtypes([m.dtype for m in metas], numbers)
    namespace = max((m.namespace for m in metas), key=lambda n: _RANK[n])
    for m in metas:
        if m.is_jit and m.backend is not BACKENDS[namespace.partition(".")[0]]:
            raise Incompatible(
                f"Incompatible arguments. Arrays of different backends do not mix: {_labels(types)}"
            )
    kind, dims = _join_shapes(metas, types)
    return table.find(namespace, kind, dtype, dims)


def _join_dtypes(dtypes: list[dt.DType], numbers: list[type]) -> dt.DType:
    dtype = max(dtypes, key=lambda t: t.order)
    if float in numbers and not dtype.is_float:
        return dt.f32
    if int in numbers and dtype.is_mask:
        return dt.i32
    return dtype


def _join_shapes(metas: list, types: tuple) -> tuple[str, tuple[int, ...]]:
    kinds = {m.kind for m in metas}
    if "tensor" in kinds:
        for m in metas:
            flat = m.namespace == "scalar" and m.kind == "vector" and len(m.dims) == 1
            if m.kind not in ("tensor", "leaf") and not flat:
                raise Incompatible(
                    "Incompatible arguments. Tensors only mix with tensors, one-dimensional arrays "
                    f"and numbers: {_labels(types)}"
                )
        return "tensor", ()
    special = [m for m in metas if m.kind in SPECIAL]
    if special:
        kind, dims = special[0].kind, max((m.dims for m in special), key=len)
        for m in metas:
            plain = m.kind == "leaf" or (m.kind == "vector" and m.dims == dims and kind != "matrix")
            if not plain and (m.kind, m.dims) != (kind, dims[: len(m.dims)]):
                raise Incompatible(
                    f"Incompatible arguments. These types do not go together: {_labels(types)}"
                )
        return kind, dims
    depth = max(len(m.dims) for m in metas)
    # An array with fewer levels is broadcast to every component, or its components to theirs.
    for order in (-1, 1):
        joined = _levels([m.dims[::order] for m in metas], depth)
        if joined is not None:
            return ("vector" if depth else "leaf"), joined[::order]
    raise Incompatible(
        f"Incompatible arguments. Arrays of different sizes do not go together: {_labels(types)}"
    )


def _levels(shapes: list[tuple[int, ...]], depth: int) -> tuple[int, ...] | None:
    """Returns the sizes of all levels, counted from the end where the shapes are aligned."""
    joined: list[int] = []
    for level in range(depth):
        sizes = {dims[level] for dims in shapes if len(dims) > level}
        if len(sizes) > 1 and DYNAMIC not in sizes:
            return None
        joined.append(DYNAMIC if DYNAMIC in sizes else sizes.pop())
    return tuple(joined)


def _labels(types: tuple) -> str:
    return ", ".join(type_label(t) for t in types)


def operand(arg: Any, arrays: list) -> tuple[Any, tuple]:
    """Returns a value as an operand, and the types it contributes: sequences and NumPy arrays
    contribute the types of their entries and are converted later."""
    cls = type(arg)
    if isinstance(arg, ArrayBase) or cls in _NUMBERS:
        return arg, (cls,)
    if isinstance(arg, (list, tuple)):
        found: set = set(nesting(arg, arrays))
        for entry in arg:
            found.update(operand(entry, arrays)[1])
        return arg, tuple(sorted(found, key=str))
    number = number_type(cls)
    if number is not None:
        return number(arg), (number,)
    if isinstance(arg, np.ndarray):
        if arg.ndim == 0:
            return operand(arg.item(), arrays)
        return arg, (_numpy_type(arg, arrays), *nesting(arg, arrays))
    raise Incompatible(
        f"Encountered an unsupported argument of type '{type_label(cls)}' (must be a Dr.Jit array "
        "or a type that can be converted into one)"
    )


def nesting(arg: Any, arrays: list) -> tuple[Any, ...]:
    """Returns a type with the shape of a nested sequence, or of a NumPy array with several axes.
    Its element type is mask, to which any other type is preferred.
    """
    traced = [a for a in arrays if a._namespace != "scalar"]
    if not traced or any(a.__meta__.kind in ("tensor", *SPECIAL) for a in arrays):
        return ()
    dims = _sizes(arg)
    namespace = max((a._namespace for a in traced), key=lambda n: _RANK[n])
    if not dims:
        return ()
    dims = tuple([n if n <= 4 else DYNAMIC for n in dims])
    try:
        return (table.find(namespace, "vector", dt.mask, dims),)
    except RuntimeError:
        return ()


def _sizes(arg: Any) -> tuple[int, ...]:
    """Returns the sizes of the levels of an operand, excluding lanes."""
    if isinstance(arg, ArrayBase):
        return arg.__meta__.dims if arg.__meta__.is_jit else ()
    if isinstance(arg, np.ndarray):
        return arg.shape[:-1]
    if not isinstance(arg, (list, tuple)) or all(number_type(type(v)) is not None for v in arg):
        return ()
    return (len(arg), *max((_sizes(v) for v in arg), key=len))


def _numpy_type(arg: np.ndarray, arrays: list) -> type:
    """Returns the one-dimensional type of a NumPy array's entries; if combined with arrays of
    `drjit.scalar`, whose entries are Python numbers, a type like theirs.
    """
    if arg.dtype.kind not in "biuf":
        raise Incompatible(f"unsupported operand: a NumPy array of type {arg.dtype}")
    dtype = dt.types_by_numpy().get(arg.dtype.newbyteorder("="), dt.f64)
    dtype = _WIDER.get(dtype, dtype)
    namespace = max((a._namespace for a in arrays), key=lambda n: _RANK[n], default="scalar")
    if namespace == "scalar" and arrays:
        try:
            return table.related(type(arrays[0]), dtype=dtype)
        except RuntimeError:  # a matrix, whose entries are floating point numbers
            pass
    return table.find(namespace, "leaf", dtype)


def resolve(args: tuple) -> tuple[Any, list]:
    """Returns the common class of the arguments, and the arguments as operands (see `operand`)."""
    given = tuple([type(a) for a in args])
    cls = _common.get(given)
    if cls is not None:
        return cls, list(args)
    arrays = [a for a in args if isinstance(a, ArrayBase)]
    operands, types = [], []
    for arg in args:
        value, contributed = operand(arg, arrays)
        operands.append(value)
        types.extend(contributed)
    cls = join(tuple(types))
    if not arrays and any(isinstance(a, (list, tuple, np.ndarray)) for a in args):
        raise Incompatible("at least one operand has to be an array or a number")
    operands = traced(cls, operands)
    if tuple(types) == given == tuple([type(v) for v in operands]):
        _common[given] = cls
    return cls, operands


def traced(cls: Any, operands: list) -> list:
    """Returns the operands of an expression of a class. If that is one of traced arrays, those of
    `drjit.scalar`, whose entries are Python numbers, become traced ones of the same element
    type."""
    if getattr(cls, "_namespace", "scalar") == "scalar" or cls._kind == "tensor":
        return operands
    return [_as_traced(cls, v) for v in operands]


def _as_traced(cls: Any, operand: Any) -> Any:
    if not isinstance(operand, ArrayBase) or operand._namespace != "scalar":
        return operand
    meta = operand.__meta__
    # Its entries go to the outermost level of an array that has more of them.
    dims = cls.__meta__.dims if meta.kind == cls.__meta__.kind == "vector" else meta.dims
    return table.find(cls._namespace, meta.kind, meta.dtype, dims)(operand)


def convert(cls: Any, value: Any) -> Any:
    """Implicitly converts an operand to the class; a value of the class is returned unchanged.

    Raises:
        RuntimeError: a Python integer is out of range.
    """
    kind = type(value)
    if kind is cls:
        return value
    if getattr(cls, "_kind", None) == "leaf":
        if kind in _NUMBERS:
            check_range(cls, value)
            return leaf.literal(cls, value)
        if getattr(value, "_kind", None) == "leaf":
            return leaf.cast(cls, value)
    elif kind in _NUMBERS and issubclass(cls, ArrayBase):
        check_range(cls, value)
    try:
        return cls(value)
    except TypeError as problem:
        if isinstance(problem, RuntimeError):
            raise
        raise Incompatible(
            f"Could not promote type '{type_label(value)}' to '{type_label(cls)}'. {problem}"
        ) from problem


def check_range(cls: Any, value: Any) -> None:
    """Raises a RuntimeError if a Python integer does not fit into the element type."""
    dtype = cls._dtype
    if type(value) is int and dtype.is_int and not dtype.low <= value <= dtype.high:
        raise Incompatible(
            f"Could not promote type 'int': the number {value} does not fit into {type_label(cls)} "
            f"({dtype.low} to {dtype.high}); convert the array to a wider type first"
        )


@signatures.joint_type
def expr_t(*args: Any) -> Any:
    """Returns the type that values of the given types (or types of the given values) have in an
    expression. Sequences and NumPy arrays contribute the types of their entries. None counts as an
    unsigned integer, and only goes together with one-dimensional arrays and numbers.

    >>> import drjit as dr
    >>> dr.expr_t(dr.llvm.Int, dr.llvm.Array3f, float)
    <class 'drjit.llvm.Array3f'>
    >>> dr.expr_t(dr.llvm.Int, [1.5, 2])
    <class 'drjit.llvm.Float'>

    Raises:
        TypeError: the types are incompatible.
    """
    given = tuple([a if isinstance(a, type) else type(a) for a in args])
    if not given or (len(args) == 1 and args[0] is None):
        return None
    if given.count(given[0]) == len(given):
        return given[0]
    arrays = [a for a in args if issubclass(a if isinstance(a, type) else type(a), ArrayBase)]
    types: tuple = ()
    try:
        for a, cls in zip(args, given, strict=True):
            if isinstance(a, (list, tuple, np.ndarray)):
                types += operand(_present(a), arrays)[1]
            elif a is not None:
                types += (cls,)
        joined = join(types)
        return joined if not _has_none(args) else join((joined, _none_type(joined)))
    except RuntimeError as error:
        shown = listed([f'"{type_label(t)}"' for t in given])
        raise OperandError(f"drjit.expr_t(): incompatible types {shown}: {error}") from None


def _has_none(entries: Any) -> bool:
    return any(v is None or (isinstance(v, (list, tuple)) and _has_none(v)) for v in entries)


def _none_type(cls: Any) -> Any:
    """Returns the type that None counts as together with values of a class."""
    if not issubclass(cls, ArrayBase):
        return int
    if cls._kind != "leaf":
        raise Incompatible(f"None does not go together with {type_label(cls)}")
    return table.find(cls._namespace, "leaf", dt.u32)


def _present(entries: Any) -> Any:
    """Returns a sequence without the entries that are None."""
    if isinstance(entries, np.ndarray):
        return entries
    return [_present(v) if isinstance(v, (list, tuple)) else v for v in entries if v is not None]


def promote(*args: Any, name: str = "") -> list:
    """Converts the arguments of the function `name` to their common type.

    Raises:
        IncompatibleError: there is no common type.
    """
    first = type(args[0])
    if issubclass(first, ArrayBase) and all(type(a) is first for a in args):
        return list(args)
    try:
        cls, operands = resolve(args)
        return match_empty(operands, [convert(cls, value) for value in operands])
    except Incompatible as problem:
        raise IncompatibleError(f"{name}(): {problem}" if name else str(problem)) from None


def match_empty(given: Sequence[Any], values: list) -> list:
    """Returns converted operands. If an array among them is empty, so are those that were `given`
    as numbers, because a number goes with arrays of any size."""
    if not any(map(_is_empty, values)):
        return values
    return [_emptied(v) if number_type(type(g)) else v for v, g in zip(values, given, strict=True)]


def _is_empty(value: Any) -> bool:
    """Returns whether an array has a component without entries."""
    kind = getattr(value, "_kind", None)
    if kind == "nested":
        return any(map(_is_empty, value._components))
    return kind == "leaf" and value._node.size == 0


def _emptied(value: Any) -> Any:
    """Returns a constant without its entries."""
    if value._kind == "leaf":
        return leaf.resize(value, 0)
    if value._kind == "nested":
        return nested(type(value), map(_emptied, value._components))
    return value

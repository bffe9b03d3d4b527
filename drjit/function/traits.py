"""Questions about types, `*_v`, and types derived from others, `*_t`. All take a type or a value.

Types and values that are no arrays get the answer that fits Python numbers: `mask_t(1.0)` is
`bool`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..array import pytree, show, table
from ..array.base import ArrayBase, KernelValue, type_label
from ..array.meta import DYNAMIC, ArrayMeta
from ..array.namespace import choose
from ..array.promote import expr_t
from ..jit import dtype as dt
from ..jit import freeze_size
from ..jit.backend import JitBackend
from ..jit.dtype import DType, VarType


def _class(arg: Any) -> Any:
    return arg if isinstance(arg, type) else type(arg)


def _meta(arg: Any) -> ArrayMeta | None:
    cls = _class(arg)
    return cls.__meta__ if issubclass(cls, ArrayBase) and cls is not ArrayBase else None


def _array_meta(arg: Any, name: str) -> ArrayMeta:
    meta = _meta(arg)
    if meta is None:
        raise TypeError(f"dr.{name}(): expected an array or an array type, got {type_label(arg)}")
    return meta


# Questions

_ARRAYS: dict[str, tuple[str, Callable[[ArrayMeta], Any], Any]] = {
    "is_jit_v": (
        "Whether operations on the type are traced and compiled.",
        lambda m: m.is_jit,
        False,
    ),
    "is_diff_v": ("Whether the type can carry derivatives.", lambda m: m.is_diff, False),
    "is_tensor_v": ("Whether it is a tensor type.", lambda m: m.kind == "tensor", False),
    "is_complex_v": (
        "Whether it is a type of complex numbers.",
        lambda m: m.kind == "complex",
        False,
    ),
    "is_quaternion_v": (
        "Whether it is a type of quaternions.",
        lambda m: m.kind == "quaternion",
        False,
    ),
    "is_matrix_v": ("Whether it is a matrix type.", lambda m: m.kind == "matrix", False),
    "is_vector_v": (
        "Whether it is a type of vectors, also nested ones.",
        lambda m: m.kind == "vector",
        False,
    ),
    "is_special_v": (
        "Whether it is a matrix, complex or quaternion type, with a product of its own.",
        lambda m: m.kind in ("matrix", "complex", "quaternion"),
        False,
    ),
    "is_dynamic_v": (
        "Whether the number of entries is not part of the type.",
        lambda m: m.kind == "tensor" or m.is_jit or DYNAMIC in m.dims,
        False,
    ),
    "is_half_v": ("Whether entries are of half precision.", lambda m: m.dtype is dt.f16, False),
    "depth_v": (
        "The number of dimensions, lanes included; 0 for tensors and numbers.",
        lambda m: 0 if m.kind == "tensor" else len(m.dims) + m.is_jit,
        0,
    ),
    "backend_v": ("The backend of the type.", lambda m: m.backend, JitBackend.Invalid),
    "type_v": (
        "The element type as a `VarType`; `Void` if it is no array.",
        lambda m: m.dtype.var_type,
        VarType.Void,
    ),
    "size_v": (
        "The number of components, -1 if it is not part of the type; 1 for numbers, 0 for tensors.",
        lambda m: 0 if m.kind == "tensor" else (m.dims or m.shape)[0],
        1,
    ),
}
_ENTRIES: dict[str, tuple[str, Callable[[DType], bool], tuple[type, ...]]] = {
    "is_mask_v": ("Whether entries are bool.", lambda t: t.is_mask, (bool,)),
    "is_float_v": ("Whether entries are floating-point numbers.", lambda t: t.is_float, (float,)),
    "is_integral_v": ("Whether entries are integers.", lambda t: t.is_int, (int,)),
    "is_arithmetic_v": (
        "Whether entries are numbers, not bool.",
        lambda t: t.is_arithmetic,
        (int, float),
    ),
    "is_signed_v": ("Whether entries can be negative.", lambda t: t.is_signed, (int, float)),
    "is_unsigned_v": ("Whether entries cannot be negative.", lambda t: not t.is_signed, (bool,)),
}


def _about_arrays(name: str, doc: str, of: Callable[[ArrayMeta], Any], otherwise: Any) -> Callable:
    def trait(arg: Any, /) -> Any:
        meta = _meta(arg)
        return otherwise if meta is None else of(meta)

    return _named(trait, name, doc)


def _about_entries(name: str, doc: str, of: Callable[[DType], bool], python: tuple) -> Callable:
    def trait(arg: Any, /) -> bool:
        meta = _meta(arg)
        return _class(arg) in python if meta is None else of(meta.dtype)

    return _named(trait, name, doc)


def _named(function: Callable, name: str, doc: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


for _name, _row in _ARRAYS.items():
    globals()[_name] = _about_arrays(_name, *_row)
for _name, _row in _ENTRIES.items():
    globals()[_name] = _about_entries(_name, *_row)


def is_array_v(arg: Any) -> bool:
    """Whether it is an array or an array type."""
    return issubclass(_class(arg), ArrayBase)


def is_struct_v(arg: Any, /) -> bool:
    """Whether it is a dataclass or a class with `DRJIT_STRUCT`, whose fields are traversed."""
    return pytree.struct_fields(_class(arg)) is not None


def itemsize_v(arg: Any, /) -> int:
    """The size of an entry in bytes.

    Raises:
        TypeError: it is no array.
    """
    return _array_meta(arg, "itemsize_v").dtype.itemsize


# Derived types


def value_t(arg: Any, /) -> Any:
    """The type of the components; of the entries for one-dimensional arrays and tensors.

    >>> import drjit as dr
    >>> dr.value_t(dr.llvm.Array3f), dr.value_t(dr.llvm.Float)
    (<class 'drjit.llvm.Float'>, <class 'float'>)
    """
    return _class(arg).Value if is_array_v(arg) else _class(arg)


def mask_t(arg: Any, /) -> Any:
    """The type that comparisons give."""
    return _class(arg).Mask if is_array_v(arg) else bool


def array_t(arg: Any, /) -> Any:
    """The plain array type of the same shape: `Array33f` for `Matrix3f`, the type of the storage
    for tensors.
    """
    return _class(arg).Array if is_array_v(arg) else _class(arg)


def scalar_t(arg: Any, /) -> type:
    """The Python type of an entry."""
    meta = _meta(arg)
    return _class(arg) if meta is None else table.python_type(meta.dtype)


def leaf_t(arg: Any, /) -> Any:
    """The innermost array type: `Float` for `Matrix3f`."""
    cls = _class(arg)
    while issubclass(cls, ArrayBase):
        inner = cls.Array if cls._kind == "tensor" else cls.Value
        if cls._kind == "leaf":
            break
        if not issubclass(inner, ArrayBase):
            return cls.Array
        cls = inner
    return cls


def replace_type_t(arg0: Any, arg1: VarType, /) -> Any:
    """The type with another element type.

    Raises:
        RuntimeError: there is no such type.
    """
    meta = _meta(arg0)
    if meta is None:
        return _class(arg0)
    if arg1 not in dt.BY_VAR_TYPE:
        raise RuntimeError(f"dr.replace_type_t(): there are no arrays of {arg1}")
    return table.like(_class(arg0), dt.BY_VAR_TYPE[arg1])


_SHAPED = ("array", "matrix", "complex", "quaternion")


def replace_shape_t(arg0: Any, arg1: Sequence[int], arg2: Any = None) -> Any:
    """The type with another shape (lanes last, -1 for sizes that are not part of the type).

    `arg2` names the kind of the type: `"array"`, `"matrix"`, `"complex"` or `"quaternion"`; that of
    the type itself if it is None, so that tensor types stay as they are. A matrix is as wide as
    high.

    Raises:
        RuntimeError: there is no such type, or no such kind.

    >>> from drjit.llvm import Float
    >>> dr.replace_shape_t(Float, (2, 2, -1), "matrix")
    <class 'drjit.llvm.Matrix2f'>
    """
    meta = _meta(arg0)
    if meta is None or (meta.kind == "tensor" and arg2 is None):
        return _class(arg0)
    if arg2 is not None and arg2 not in _SHAPED:
        raise RuntimeError(
            f"dr.replace_shape_t(): expected one of {', '.join(_SHAPED)} as the kind, got {arg2!r}"
        )
    dims = tuple(arg1)
    if not dims and not meta.is_jit:
        return table.python_type(meta.dtype)
    if not dims:
        raise RuntimeError("dr.replace_shape_t(): an array has at least one dimension")
    dims = dims[:-1] if meta.is_jit else dims
    kind = arg2 or (meta.kind if meta.kind != "leaf" else "array")
    kind = "vector" if kind == "array" else kind
    if kind == "matrix" and dims:
        n = dims[0]
        dims = (n, n, *dims[2:])
    elif arg2 is None and len(dims) != len(meta.dims):
        kind = "vector"
    return table.find(meta.namespace, kind if dims else "leaf", meta.dtype, dims)


def tensor_t(arg: Any, /) -> Any:
    """The tensor type of the same elements; None if it is no array."""
    meta = _meta(arg)
    return None if meta is None else table.find(meta.namespace, "tensor", meta.dtype)


def matrix_t(arg: Any, /) -> Any:
    """The matrix type for a vector, a square array or a matrix type; None if there is none."""
    meta = _meta(arg)
    if meta is None or not meta.dims or meta.kind not in ("vector", "matrix"):
        return None
    n = meta.dims[0]
    dims = (n, n, *meta.dims[2:])
    try:
        return table.find(meta.namespace, "matrix", meta.dtype, dims)
    except RuntimeError:
        return None


_SAME_SIZE = {
    "uint": {1: VarType.UInt8, 2: VarType.UInt16, 4: VarType.UInt32, 8: VarType.UInt64},
    "int": {1: VarType.Int8, 2: VarType.Int16, 4: VarType.Int32, 8: VarType.Int64},
    "float": {2: VarType.Float16, 4: VarType.Float32, 8: VarType.Float64},
}


def _sized(kind: str) -> Callable:
    def derived(arg: Any, /) -> Any:
        meta = _array_meta(arg, f"{kind}_array_t")
        found = _SAME_SIZE[kind].get(meta.dtype.itemsize)
        if found is None:
            raise TypeError(
                f"dr.{kind}_array_t(): there is no {kind} type of the size of {meta.dtype.name}"
            )
        return replace_type_t(arg, found)

    shown = {"uint": "unsigned integers", "int": "signed integers", "float": "floats"}[kind]
    return _named(
        derived, f"{kind}_array_t", f"The type with {shown} of the same size as elements."
    )


def _element(name: str) -> Callable:
    t = dt.BY_NAME[name]
    python = table.python_type(t)

    def derived(arg: Any) -> Any:
        return replace_type_t(arg, t.var_type) if is_array_v(arg) else python

    return _named(
        derived,
        f"{name}_array_t",
        f"The type with {name} elements; `{python.__name__}` for numbers.",
    )


for _name in ("uint", "int", "float"):
    globals()[f"{_name}_array_t"] = _sized(_name)
for _t in (dt.i8, dt.u8, dt.i32, dt.u32, dt.i64, dt.u64, dt.f16, dt.f32, dt.f64):
    globals()[f"{_t.name}_array_t"] = _element(_t.name)


def reinterpret_array_t(arg0: Any, arg1: VarType, /) -> Any:
    """The type that `reinterpret_array` gives for another element type; a Python type for numbers.

    Raises:
        RuntimeError: there is no such type.
    """
    if is_array_v(arg0):
        return replace_type_t(arg0, arg1)
    return table.python_type(dt.BY_VAR_TYPE.get(arg1, dt.i32))


def diff_array_t(arg: Any, /) -> Any:
    """The type with derivatives; the type itself where there is none."""
    meta = _meta(arg)
    if meta is None or not meta.is_jit or meta.is_diff:
        return _class(arg)
    return table.move(_class(arg), f"{meta.namespace}.ad")


def detached_t(arg: Any, /) -> Any:
    """The type without derivatives."""
    meta = _meta(arg)
    return (
        table.move(_class(arg), meta.namespace.removesuffix(".ad"))
        if meta and meta.is_diff
        else _class(arg)
    )


# Sizes of values


def shape(arg: Any) -> tuple[int, ...]:
    """The sizes of all dimensions of an array or of a nest of sequences, lanes last.

    Raises:
        RecursionError: the nest is too deep, or contains itself.
        RuntimeError: it is ragged.
    """
    try:
        return freeze_size.shape(_shape(arg))
    except RecursionError:
        raise pytree.too_deep() from None


def _shape(arg: Any) -> tuple[int, ...]:
    if isinstance(arg, ArrayBase):
        return arg.shape
    if arg is None or isinstance(arg, (dict, set)):
        raise TypeError(f"dr.shape(): expected an array, a sequence or a number, got {arg!r}")
    if isinstance(arg, (str, bytes, type)) or not hasattr(arg, "__len__"):
        return ()
    if hasattr(arg, "shape"):
        return tuple(arg.shape)
    inner = [_shape(v) for v in arg]
    if len({len(s) for s in inner}) > 1:
        raise RuntimeError(f"dr.shape(): ragged, entries have the shapes {sorted(set(inner))}")
    sizes = [set(axis) - {1} for axis in zip(*inner, strict=True)]
    if any(len(n) > 1 for n in sizes):
        raise RuntimeError(f"dr.shape(): ragged, entries have the shapes {sorted(set(inner))}")
    return (len(arg), *(n.pop() if n else 1 for n in sizes))


def width(*args: Any) -> int:
    """The number of lanes of arrays and PyTrees, of which some may have a single one.

    Raises:
        RuntimeError: they differ in size.
    """
    sizes = [_width(leaf) for arg in args for leaf in pytree.leaves(arg)]
    if not sizes:
        return 0
    wide = set(sizes) - {1}
    if len(wide) > 1:
        raise RuntimeError(f"dr.width(): arrays have different sizes {sorted(wide)}")
    return freeze_size.tracked(wide.pop() if wide else 1)


def _width(value: Any) -> int:
    if isinstance(value, KernelValue):
        return value._n.size
    if not isinstance(value, ArrayBase):
        return 1
    if value._kind == "leaf":
        return value._n.size
    if value._kind == "tensor":
        return _width(value._array)
    if value._namespace == "scalar":
        return len(value._c)
    found = show.common_width(list(show.inner(value)))
    if found is None:
        raise RuntimeError(
            f"dr.width(): {type_label(value)} is ragged, its components differ in size"
        )
    return found


# The backend of drjit.auto


def set_backend(arg: str | JitBackend, /) -> None:
    """Chooses what `drjit.auto` stands for: `llvm`, `cuda` or `scalar`.

    Raises:
        RuntimeError: there is no such backend.
        TypeError: not a name.
    """
    name = arg.name.lower() if isinstance(arg, JitBackend) else arg
    if not isinstance(name, str):
        raise TypeError(f"dr.set_backend(): expected a name or a JitBackend, got {type_label(arg)}")
    name = "scalar" if name == "invalid" else name
    if name not in ("llvm", "cuda", "scalar"):
        raise RuntimeError(f"dr.set_backend({arg!r}): expected 'llvm', 'cuda' or 'scalar'")
    choose(name)


def __getattr__(name: str) -> Any:
    # Tells type checkers that names are made at run time, by the tables above.
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    *_ARRAYS,
    *_ENTRIES,
    *(f"{n}_array_t" for n in ("uint", "int", "float")),
    *(
        f"{t.name}_array_t"
        for t in (dt.i8, dt.u8, dt.i32, dt.u32, dt.i64, dt.u64, dt.f16, dt.f32, dt.f64)
    ),
    "array_t",
    "detached_t",
    "diff_array_t",
    "expr_t",
    "is_array_v",
    "is_struct_v",
    "itemsize_v",
    "leaf_t",
    "mask_t",
    "matrix_t",
    "reinterpret_array_t",
    "replace_shape_t",
    "replace_type_t",
    "scalar_t",
    "set_backend",
    "shape",
    "tensor_t",
    "value_t",
    "width",
]

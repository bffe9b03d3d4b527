"""Type traits, `*_v`, and types derived from others, `*_t`. All accept a type or a value.

Types and values that are not arrays are treated like Python numbers: `mask_t(1.0)` is `bool`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...array import pytree, show, signatures, table
from ...array.base import ArrayBase, KernelValue, listed, type_label
from ...array.meta import DYNAMIC, SPECIAL, ArrayMeta
from ...array.promote import expr_t as expr_t
from ...jit.backend import JitBackend
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType, VarType
from ...jit.run import freeze_size


def _class(arg: Any) -> Any:
    return arg if isinstance(arg, type) else type(arg)


def _meta(arg: Any) -> ArrayMeta | None:
    cls = _class(arg)
    return cls.__meta__ if issubclass(cls, ArrayBase) and cls is not ArrayBase else None


def _about(arg: Any, question: Callable[[ArrayMeta], Any], otherwise: Any) -> Any:
    """Answers a question about an array type; returns `otherwise` for other types."""
    meta = _meta(arg)
    return otherwise if meta is None else question(meta)


def _array_meta(arg: Any, name: str) -> ArrayMeta:
    meta = _meta(arg)
    if meta is None:
        raise TypeError(f"dr.{name}(): expected an array or an array type, got {type_label(arg)}")
    return meta


# Questions


def is_jit_v(arg: object, /) -> bool:
    """Returns whether operations on the type are traced and compiled."""
    return _about(arg, lambda m: m.is_jit, False)


def is_diff_v(arg: object, /) -> bool:
    """Returns whether the type can carry derivatives."""
    return _about(arg, lambda m: m.is_diff, False)


def is_tensor_v(arg: object, /) -> bool:
    """Returns whether it is a tensor type."""
    return _about(arg, lambda m: m.kind == "tensor", False)


def is_complex_v(arg: object, /) -> bool:
    """Returns whether it is a complex type."""
    return _about(arg, lambda m: m.kind == "complex", False)


def is_quaternion_v(arg: object, /) -> bool:
    """Returns whether it is a quaternion type."""
    return _about(arg, lambda m: m.kind == "quaternion", False)


def is_matrix_v(arg: object, /) -> bool:
    """Returns whether it is a matrix type."""
    return _about(arg, lambda m: m.kind == "matrix", False)


def is_vector_v(arg: object, /) -> bool:
    """Returns whether it is a vector type, possibly nested."""
    return _about(arg, lambda m: m.kind == "vector", False)


def is_special_v(arg: object, /) -> bool:
    """Returns whether it is a matrix, complex or quaternion type, which has its own product."""
    return _about(arg, lambda m: m.kind in SPECIAL, False)


def is_dynamic_v(arg: object, /) -> bool:
    """Returns whether the number of entries is not part of the type."""
    return _about(arg, lambda m: m.kind == "tensor" or m.is_jit or DYNAMIC in m.dims, False)


def is_half_v(arg: object, /) -> bool:
    """Returns whether entries have half precision."""
    return _about(arg, lambda m: m.dtype is dt.f16, False)


def depth_v(arg: object, /) -> int:
    """Returns the number of dimensions, including lanes; 0 for tensors and numbers."""
    return _about(arg, lambda m: 0 if m.kind == "tensor" else len(m.dims) + m.is_jit, 0)


def backend_v(arg: object, /) -> JitBackend:
    """Returns the backend of the type."""
    return _about(arg, lambda m: m.backend, JitBackend.Invalid)


def type_v(arg: object, /) -> VarType:
    """Returns the element type as a `VarType`; `Void` if it is not an array."""
    return _about(arg, lambda m: m.dtype.var_type, VarType.Void)


def size_v(arg: object, /) -> int:
    """Returns the number of components, or -1 if it is not part of the type; 1 for numbers, 0 for
    tensors."""
    return _about(arg, lambda m: 0 if m.kind == "tensor" else (m.dims or m.shape)[0], 1)


def is_mask_v(arg: object, /) -> bool:
    """Returns whether entries are bool."""
    return _about(arg, lambda m: m.dtype.is_mask, _class(arg) is bool)


def is_float_v(arg: object, /) -> bool:
    """Returns whether entries are floating point numbers."""
    return _about(arg, lambda m: m.dtype.is_float, _class(arg) is float)


def is_integral_v(arg: object, /) -> bool:
    """Returns whether entries are integers."""
    return _about(arg, lambda m: m.dtype.is_int, _class(arg) is int)


def is_arithmetic_v(arg: object, /) -> bool:
    """Returns whether entries are numbers, not bool."""
    return _about(arg, lambda m: m.dtype.is_arithmetic, _class(arg) in (int, float))


def is_signed_v(arg: object, /) -> bool:
    """Returns whether entries can be negative."""
    return _about(arg, lambda m: m.dtype.is_signed, _class(arg) in (int, float))


def is_unsigned_v(arg: object, /) -> bool:
    """Returns whether entries cannot be negative."""
    return _about(arg, lambda m: not m.dtype.is_signed, _class(arg) is bool)


def is_array_v(arg: object) -> bool:
    """Returns whether it is an array or an array type."""
    return issubclass(_class(arg), ArrayBase)


def is_struct_v(arg: object, /) -> bool:
    """Returns whether it is a dataclass or a class with `DRJIT_STRUCT`, whose fields are
    traversed."""
    return pytree.struct_fields(_class(arg)) is not None


def itemsize_v(arg: object, /) -> int:
    """Returns the size of an entry in bytes.

    Raises:
        TypeError: it is not an array.
    """
    return _array_meta(arg, "itemsize_v").dtype.itemsize


# Derived types


@signatures.component_type
def value_t(arg: Any, /) -> Any:
    """Returns the type of the components; for one-dimensional arrays and tensors, the type of the
    entries.

    >>> import drjit as dr
    >>> dr.value_t(dr.llvm.Array3f), dr.value_t(dr.llvm.Float)
    (<class 'drjit.llvm.Float'>, <class 'float'>)
    """
    return _class(arg).Value if is_array_v(arg) else _class(arg)


@signatures.mask_type
def mask_t(arg: Any, /) -> Any:
    """Returns the type of comparison results."""
    return _class(arg).Mask if is_array_v(arg) else bool


@signatures.plain_type
def array_t(arg: Any, /) -> Any:
    """Returns the plain array type of the same shape: `Array33f` for `Matrix3f`, and for tensors
    the type of the storage.
    """
    return _class(arg).Array if is_array_v(arg) else _class(arg)


def scalar_t(arg: object, /) -> type:
    """Returns the Python type of an entry."""
    meta = _meta(arg)
    return _class(arg) if meta is None else table.python_type(meta.dtype)


@signatures.leaf_type
def leaf_t(arg: Any, /) -> Any:
    """Returns the innermost array type: `Float` for `Matrix3f`."""
    cls = _class(arg)
    while issubclass(cls, ArrayBase):
        inner = cls.Array if cls._kind == "tensor" else cls.Value
        if cls._kind == "leaf":
            break
        if not issubclass(inner, ArrayBase):
            return cls.Array
        cls = inner
    return cls


@signatures.replaced_type
def replace_type_t(arg0: Any, arg1: VarType, /) -> Any:
    """Returns the type with another element type.

    Raises:
        RuntimeError: there is no such type.
    """
    meta = _meta(arg0)
    if meta is None:
        return _class(arg0)
    if arg1 not in dt.BY_VAR_TYPE:
        raise RuntimeError(f"dr.replace_type_t(): there are no arrays of {arg1}")
    return table.related(_class(arg0), dtype=dt.BY_VAR_TYPE[arg1])


_SHAPED = ("array", "matrix", "complex", "quaternion")


def replace_shape_t(
    arg0: object,
    arg1: Sequence[int],
    arg2: Literal["array", "matrix", "complex", "quaternion"] | None = None,
) -> type[Any]:
    """Returns the type with another shape (lanes last, -1 for sizes that are not part of the type).

    `arg2` names the kind of the new type: `"array"`, `"matrix"`, `"complex"` or `"quaternion"`. If
    it is None, the kind does not change, so tensor types stay as they are. Matrices must be square.

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


@signatures.tensor_type
def tensor_t(arg: Any, /) -> Any:
    """Returns the tensor type with the same element type; None if it is not an array."""
    meta = _meta(arg)
    return None if meta is None else table.find(meta.namespace, "tensor", meta.dtype)


@signatures.matrix_type
def matrix_t(arg: Any, /) -> Any:
    """Returns the matrix type for a vector, a square array or a matrix type; None if there is
    none."""
    meta = _meta(arg)
    if meta is None or not meta.dims or meta.kind not in ("vector", "matrix"):
        return None
    n = meta.dims[0]
    dims = (n, n, *meta.dims[2:])
    try:
        return table.find(meta.namespace, "matrix", meta.dtype, dims)
    except RuntimeError:
        return None


def _sized(kind: str, shown: str) -> Callable[..., Any]:
    """Creates functions such as `uint_array_t`."""
    name = f"{kind}_array_t"

    def derived(arg: Any, /) -> Any:
        dtype = _array_meta(arg, name).dtype
        found = dt.BY_NAME.get(f"{kind}{8 * dtype.itemsize}")
        if found is None:
            raise TypeError(f"dr.{name}(): there is no {kind} type of the size of {dtype.name}")
        return table.related(_class(arg), dtype=found)

    return _named(derived, name, f"Returns the type whose elements are {shown} of the same size.")


def _element(t: DType) -> Callable[..., Any]:
    """Creates functions such as `float32_array_t`."""
    python = table.python_type(t)

    def derived(arg: Any) -> Any:
        return table.related(_class(arg), dtype=t) if is_array_v(arg) else python

    doc = f"Returns the type with {t.name} elements; `{python.__name__}` for numbers."
    return _named(derived, f"{t.name}_array_t", doc)


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


uint_array_t = signatures.uint_type(_sized("uint", "unsigned integers"))
int_array_t = signatures.int_type(_sized("int", "signed integers"))
float_array_t = signatures.float_type(_sized("float", "floats"))
int8_array_t = signatures.int8_type(_element(dt.i8))
uint8_array_t = signatures.uint8_type(_element(dt.u8))
int32_array_t = signatures.int32_type(_element(dt.i32))
uint32_array_t = signatures.uint32_type(_element(dt.u32))
int64_array_t = signatures.int64_type(_element(dt.i64))
uint64_array_t = signatures.uint64_type(_element(dt.u64))
float16_array_t = signatures.float16_type(_element(dt.f16))
float32_array_t = signatures.float32_type(_element(dt.f32))
float64_array_t = signatures.float64_type(_element(dt.f64))


@signatures.replaced_type
def reinterpret_array_t(arg0: Any, arg1: VarType, /) -> Any:
    """Returns the type that `reinterpret_array` returns for another element type; for numbers, a
    Python type.

    Raises:
        RuntimeError: there is no such type.
    """
    if is_array_v(arg0):
        return replace_type_t(arg0, arg1)
    return table.python_type(dt.BY_VAR_TYPE.get(arg1, dt.i32))


@signatures.tracked_type
def diff_array_t(arg: Any, /) -> Any:
    """Returns the differentiable counterpart of the type, or the type itself if there is none."""
    meta = _meta(arg)
    if meta is None or not meta.is_jit or meta.is_diff:
        return _class(arg)
    return table.related(_class(arg), namespace=f"{meta.namespace}.ad")


@signatures.detached_type
def detached_t(arg: Any, /) -> Any:
    """Returns the non-differentiable counterpart of the type."""
    meta = _meta(arg)
    if meta is None or not meta.is_diff:
        return _class(arg)
    return table.related(_class(arg), namespace=meta.namespace.removesuffix(".ad"))


# Sizes of values


def shape(arg: object) -> tuple[int, ...]:
    """Returns the sizes of all dimensions of an array or of nested sequences, lanes last.

    Raises:
        RecursionError: the sequences are nested too deeply, or contain themselves.
        RuntimeError: the array or sequence is ragged.
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
    sizes = [set(axis) - {1} for axis in zip(*inner, strict=False)]
    if len({len(s) for s in inner}) > 1 or any(len(n) > 1 for n in sizes):
        raise RuntimeError(
            "dr.shape(): the input is ragged (it does not have a consistent size): entries have "
            f"the shapes {listed(sorted(set(inner)))}"
        )
    return (len(arg), *(n.pop() if n else 1 for n in sizes))


def width(*args: object) -> int:
    """Returns the common number of lanes of arrays and PyTrees; those with a single lane are
    ignored.

    Raises:
        RuntimeError: they differ in size.
    """
    sizes = [_width(leaf) for arg in args for leaf in pytree.leaves(arg)]
    if not sizes:
        return 0
    wide = set(sizes) - {1}
    if len(wide) > 1:
        raise RuntimeError(
            "dr.width(): the input is ragged (it does not have a consistent size): there are "
            f"arrays of the sizes {listed(sorted(wide))}"
        )
    return freeze_size.tracked(wide.pop() if wide else 1)


def _width(value: Any) -> int:
    if not isinstance(value, (ArrayBase, KernelValue)):
        return 1
    if isinstance(value, ArrayBase) and value._namespace == "scalar":
        return len(value._array._components if value._kind == "tensor" else value._components)
    result = show.common_width(pytree.leaf_arrays(value))
    if result is None:
        raise show.ragged(value, "dr.width()")
    return result


# The backend of drjit.auto


def set_backend(arg: str | JitBackend, /) -> None:
    """Chooses the backend behind `drjit.auto`: `llvm`, `cuda` or `scalar`. By default, it is `cuda`
    if there is a GPU, and `llvm` otherwise.

    Raises:
        RuntimeError: there is no such backend.
        TypeError: the argument is not a name.
    """
    name = arg.name.lower() if isinstance(arg, JitBackend) else arg
    if not isinstance(name, str):
        raise TypeError(f"dr.set_backend(): expected a name or a JitBackend, got {type_label(arg)}")
    name = "scalar" if name == "invalid" else name
    if name not in ("llvm", "cuda", "scalar"):
        raise RuntimeError(f"dr.set_backend({arg!r}): expected 'llvm', 'cuda' or 'scalar'")
    table.set_auto_namespace(name)

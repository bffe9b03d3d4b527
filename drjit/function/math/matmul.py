"""Matrix products of tensors of any rank. Importing this module adds the operator `@` to
tensors."""

from functools import lru_cache
from math import prod
from typing import Any

from ...array import leaf_access, operators, signatures
from ...array.base import IncompatibleError, KernelValue
from ...array.promote import convert, number_type, promote
from ...array.tensor import broadcast_shape
from ...jit.ir import dtype as dt
from ...jit.lazy import np
from ...jit.primitives.matmul import REMEMBERED, ProductLayout, layout
from ..conversion import UserCall, as_tensor, is_array, is_flat, label, tensor, with_dtype
from .vector import dot


@signatures.matrix_product
def matmul(A: Any, B: Any, At: bool = False, Bt: bool = False) -> Any:
    """Returns the matrix product `A @ B`, where `At` and `Bt` transpose the respective operand
    first.

    Tensors follow NumPy's rules: the last two axes are the matrices, and the preceding axes are
    broadcast. A one-dimensional tensor is a row on the left and a column on the right, and its axis
    is removed from the result. `float16` products accumulate in `float32`. Other arrays are
    multiplied according to their types: two matrices, a matrix and a vector, or two vectors, which
    yield a number. A number scales the other operand.

    Raises:
        ValueError: the sizes are incompatible.
        TypeError: there is no product of operands of these types.
        RuntimeError, TypeError: the operands are integers (an exception of both types).

    >>> from drjit.llvm import TensorXf
    >>> matmul(TensorXf([[1, 2], [3, 4]]), TensorXf([1, 1]))
    [3, 7]
    """
    what = UserCall("dr.matmul", A, B)
    if type(A) is type(B) and is_array(A) and A._kind == "tensor":
        return _product(A, B, bool(At), bool(Bt), what)
    if _has_tensors(A, B, what):
        return _product(*_operands(A, B, what), bool(At), bool(Bt), what)
    if all(is_array(x) and is_flat(type(x)) for x in (A, B)) and not (At or Bt):
        return dot(A, B)
    factors = [_transposed(x, what) if flag else x for x, flag in ((A, At), (B, Bt))]
    scales = any(number_type(type(x)) is not None for x in (A, B))
    return factors[0] * factors[1] if scales else factors[0] @ factors[1]


def _has_tensors(a: Any, b: Any, what: UserCall) -> bool:
    """Returns whether operands are multiplied as tensors: one is a tensor, and neither is a
    number."""
    if isinstance(a, KernelValue) or isinstance(b, KernelValue):
        raise TypeError(
            f"{what}: products with a cooperative vector need a packed matrix on the left, as in "
            "'nn.pack(A) @ x'"
        )
    if any(number_type(type(x)) is not None for x in (a, b)):
        return False
    return any(is_array(x) and x._kind == "tensor" for x in (a, b))


def _transposed(value: Any, what: UserCall) -> Any:
    if not is_array(value) or value._kind == "leaf":
        raise ValueError(f"{what}: {label(value)} cannot be transposed")
    return value.mT


def _operands(a: Any, b: Any, what: UserCall) -> tuple[Any, Any]:
    """Converts the operands to tensors of one type; their shapes do not change."""
    found = []
    for x in (a, b):
        if is_array(x) and x._kind == "nested" and not is_flat(type(x)):
            raise TypeError(f"{what}: a tensor and a nested array have no product")
        if is_array(x):
            x = as_tensor(x)
        else:
            other = type(b if x is a else a)
            other = other if other._dtype.is_float else with_dtype(other, dt.f64)
            try:
                x = other(x)
            except TypeError as error:
                raise TypeError(f"{what}: {error}") from None
        found.append(x)
    cls = type(promote(*[type(x)() for x in found])[0])
    a, b = (tensor(cls, convert(cls.Array, x._array), x._shape) for x in found)
    return a, b


def _product(a: Any, b: Any, at: bool, bt: bool, what: UserCall) -> Any:
    if not a._dtype.is_float:
        raise IncompatibleError(
            f"{what}: unsupported element type '{a._dtype.name}'. Products of matrices exist for "
            "Float16, Float32, and Float64; convert the operands first"
        )
    shapes = shape_a, shape_b = a._shape, b._shape
    single = len(shape_a) <= 2 and len(shape_b) <= 2
    few = single or prod(shape_a[:-2]) * prod(shape_b[:-2]) <= REMEMBERED
    try:
        result, layout = (_layout if few else _layout.__wrapped__)(*shapes, at, bt)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    if a._array._kind == "nested":
        return tensor(type(a), _on_host(a, b, at, bt), result)
    return tensor(type(a), leaf_access.matmul(a._array, b._array, layout), result)


@lru_cache(256)
def _layout(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], at: bool, bt: bool
) -> tuple[tuple[int, ...], ProductLayout]:
    """Returns the shape of a product, and the layout of the matrices in memory."""
    for shape, flag, name in ((shape_a, at, "A"), (shape_b, bt, "B")):
        if not shape:
            raise ValueError(
                f"0-D (scalar) tensor inputs are not supported. {name} has the shape (), use * "
                "instead"
            )
        if flag and len(shape) == 1:
            raise ValueError(
                f"{name}t=True is invalid for a 1-D '{name}' operand. Its shape is {shape}"
            )
    matrix_a, matrix_b = _as_matrices(shape_a, shape_b)
    m, k = matrix_a[:-3:-1] if at else matrix_a[-2:]
    k_of_b, n = matrix_b[:-3:-1] if bt else matrix_b[-2:]
    if k != k_of_b:
        raise ValueError(
            f"shape mismatch: A has K={k} (At={at}), B has K={k_of_b} (Bt={bt}). The inner sizes "
            f"differ: A of shape {shape_a}{' transposed' * at} has {k} columns, B of shape "
            f"{shape_b}{' transposed' * bt} has {k_of_b} rows"
        )
    lead_a, lead_b = matrix_a[:-2], matrix_b[:-2]
    try:
        lead = broadcast_shape([lead_a, lead_b]) if lead_a or lead_b else ()
    except RuntimeError:
        pairs = enumerate(zip(lead_a[::-1], lead_b[::-1], strict=False))
        axis, n, m = next((i, x, y) for i, (x, y) in pairs if x != y and 1 not in (x, y))
        raise ValueError(
            f"cannot broadcast batch prefixes of A and B along dim {axis} (got {n} vs {m}). These "
            f"are {lead_a} and {lead_b}, and their axes are counted from the end"
        ) from None
    rows = () if len(shape_a) == 1 else (m,)
    columns = () if len(shape_b) == 1 else (n,)
    result = (*lead, *rows, *columns)
    if not at and prod(lead_b) == 1 and prod(lead_a) > 1:
        # A single matrix on the right: all rows of the left operand belong to one product.
        m, lead, lead_a, lead_b = m * prod(lead), (), (), ()
    starts = [_starts(lead_a, lead, m * k), _starts(lead_b, lead, k * n)]
    return result, layout((m, n, k), (at, bt), np.stack(starts, axis=1))


def _as_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Returns the shapes, with vectors replaced by a row on the left and a column on the right."""
    return (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b


def _starts(own: tuple[int, ...], lead: tuple[int, ...], area: int) -> np.ndarray:
    """Returns the offset of each product's matrix in the storage."""
    first = np.arange(prod(own), dtype=np.int64).reshape(own) * area
    return np.broadcast_to(first, lead).ravel()


def _on_host(a: Any, b: Any, at: bool, bt: bool) -> Any:
    shape_a, shape_b = _as_matrices(a._shape, b._shape)
    wide = np.float64 if a._dtype is dt.f64 else np.float32
    x = np.array(a._array._components, wide).reshape(shape_a)
    y = np.array(b._array._components, wide).reshape(shape_b)
    x, y = x.swapaxes(-1, -2) if at else x, y.swapaxes(-1, -2) if bt else y
    with np.errstate(all="ignore"):
        return type(a._array)(np.matmul(x, y).ravel().tolist())


operators.matmul["tensor"] = matmul

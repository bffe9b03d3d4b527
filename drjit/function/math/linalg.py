"""Small matrices: determinant, inverse, trace, diagonal, Frobenius norm, and polar decomposition,
all lane by lane."""

from functools import partial, reduce
from operator import add
from typing import Any, TypeVar

from ...array import signatures
from ...array.base import ArrayBase
from ...array.elementwise import elementwise
from ...array.special import (
    determinant,
    dot,
    fma,
    from_rows,
    inverse_of,
    kind_of,
    of_components,
    of_rows,
    repeated,
    rows_of,
)
from ...array.table import like
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ..arguments import integer, unexpected
from ..conversion import related
from ..kernel_loop import kernel_loop
from .arithmetic import rcp

T = TypeVar("T", bound=Any)

_div, _sqrt = partial(elementwise, op.div), partial(elementwise, op.sqrt)


def check_matrix(value: Any, what: str) -> None:
    """Raises a TypeError if the value is not a matrix."""
    if kind_of(value) != "matrix":
        raise unexpected(what, "a matrix such as drjit.llvm.Matrix3f", value, "got")


@signatures.matrix_scalar
def det(arg: Any, /) -> Any:
    """Returns the determinant of a matrix.

    Raises:
        TypeError: the argument is not a matrix.

    >>> dr.det(Matrix2f([[1, 2], [3, 4]]))
    [-2]
    """
    check_matrix(arg, "dr.det")
    rows = rows_of(arg)
    return repeated(_determinant, [c for row in rows for c in row], len(rows))[0]


def _determinant(components: list, n: int) -> list:
    return [determinant([components[k : k + n] for k in range(0, n * n, n)])]


@signatures.elementary
def inverse(arg: Any, /) -> Any:
    """Returns the inverse of a matrix, complex number or quaternion, or 1/x of anything else. The
    inverse of a singular matrix contains infinities and NaN.

    Raises:
        TypeError, RuntimeError: the argument is not a floating-point number or array.

    >>> dr.inverse(Matrix2f([[1, 2], [3, 4]]))
    [[[-2, 1],
      [1.5, -0.5]]]
    """
    return rcp(arg)


@signatures.matrix_scalar
def trace(arg: Any, /) -> Any:
    """Returns the sum of the diagonal of a matrix.

    Raises:
        TypeError: the argument is not a matrix.

    >>> dr.trace(Matrix2f([[1, 2], [3, 4]]))
    [5]
    """
    check_matrix(arg, "dr.trace")
    return reduce(add, [row[i] for i, row in enumerate(rows_of(arg))])


@signatures.diagonal
def diag(arg: Any, /) -> Any:
    """Returns the diagonal of a matrix as a vector, or the matrix with the given diagonal, a vector
    of 2 to 4 components.

    Raises:
        TypeError: the argument is neither.

    >>> dr.diag(Matrix2f([[1, 2], [3, 4]]))
    [[1, 4]]
    >>> dr.diag(Array2f(1, 2))
    [[[1, 0],
      [0, 2]]]
    """
    if kind_of(arg) == "matrix":
        vector = related(type(arg), kind="vector", dims=arg.__meta__.dims[1:])
        return of_components(vector, [row[i] for i, row in enumerate(rows_of(arg))])
    fits = kind_of(arg) == "vector" and arg._dtype.is_float
    if not fits or arg.__meta__.dims not in ((2,), (3,), (4,)):
        expected = "a matrix, or a vector of 2 to 4 floating-point components"
        raise unexpected("dr.diag", expected, arg, "got")
    (n,) = arg.__meta__.dims
    cls = related(type(arg), kind="matrix", dims=(n, n))
    zero = 0.0 if cls._namespace == "scalar" else cls._leaf(0)
    return from_rows(
        cls, [[c if i == j else zero for j in range(n)] for i, c in enumerate(arg._components)]
    )


@signatures.matrix_scalar
def frob(arg: Any, /) -> Any:
    """Returns the squared Frobenius norm of a matrix: the sum of the squares of its entries.

    Raises:
        TypeError: the argument is not a matrix.

    >>> dr.frob(Matrix2f([[1, 2], [3, 4]]))
    [30]
    """
    check_matrix(arg, "dr.frob")
    components = [c for row in rows_of(arg) for c in row]
    return dot(components, components)


@signatures.factors
def polar_decomp(arg: Any, it: int = 10) -> tuple[Any, Any]:
    """Decomposes a square matrix into a product QP of an orthogonal matrix Q and a symmetric
    positive definite matrix P (polar decomposition).

    Takes `it` steps of the scaled Newton iteration of N. J. Higham, "Computing the Polar
    Decomposition - with Applications" (1986): `X ← (γX + X⁻ᵀ/γ) / 2`, where γ² is the ratio of the
    Frobenius norms of X⁻¹ and X. The results for a singular matrix are NaN.

    Raises:
        TypeError: the argument is not a matrix, or `it` is not an integer.
        RuntimeError: `it` is negative.

    >>> q, p = dr.polar_decomp(Matrix2f([[0, -3], [2, 0]]))
    >>> q
    [[[0, -1],
      [1, 0]]]
    >>> p
    [[[2, 0],
      [0, 3]]]
    """
    what = "dr.polar_decomp"
    check_matrix(arg, what)
    if arg.__meta__.dims[0] != len(arg._components[0]._components):
        raise unexpected(what, "a square matrix", arg, "got")
    steps = integer(it, f"{what}(): 'it' must be an integer, got")
    if steps < 0:
        raise RuntimeError(f"{what}(): 'it' must not be negative, got {it}")
    cls = type(arg)
    if cls._dtype is dt.f16:  # the squares of the norms exceed its range
        q, p = polar_decomp(like(cls, dt.f32)(arg), steps)
        return cls(q), cls(p)
    n = len(arg._components)
    components = [c for row in rows_of(arg) for c in row]
    q = _orthogonal(components, n, steps)
    p = repeated(_transposed_product, [*q, *components], n)
    return of_rows(cls, q, n), of_rows(cls, p, n)


def _transposed_product(operands: list, n: int) -> list:
    """Returns the components of the product of a matrix's transpose and another matrix."""
    a, b = operands[: n * n], operands[n * n :]
    return [dot(a[i::n], b[j::n]) for i in range(n) for j in range(n)]


def _orthogonal(q: list, n: int, steps: int) -> list:
    """Returns the orthogonal factor of a matrix."""
    leaf = type(q[0])
    if not (issubclass(leaf, ArrayBase) and leaf._kind == "leaf") or any(
        type(c) is not leaf or c._var is not None for c in q
    ):
        for _ in range(steps):
            q = _newton_step(q, n)
        return q

    def body(k: Any, *x: Any) -> list:
        return [k + 1, *repeated(_newton_step, x, n)]

    return kernel_loop([like(leaf, dt.u32)(0), *q], lambda k, *_: k < steps, body)[1:]


def _newton_step(q: list, n: int) -> list:
    x = inverse_of(q, n)
    scale = _sqrt(_sqrt(_div(dot(x, x), dot(q, q))))
    a, b = 0.5 * scale, _div(0.5, scale)
    transposed = [x[j * n + i] for i in range(n) for j in range(n)]
    return [fma(u, a, v * b) for u, v in zip(q, transposed, strict=True)]

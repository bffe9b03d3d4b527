"""Small matrices, and rotations as quaternions, matrices and Euler angles, all lane by lane:
determinants, inverses, decompositions, interpolation.

Quaternions are xi + yj + zk + w and rotate column vectors: `R v = q v q⁻¹`. Rotations and their
signs follow the right-hand rule.
"""

import math
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from ...array import signatures, special
from ...array.base import ArrayBase, type_label
from ...array.elementwise import elementwise
from ...array.promote import promote
from ...array.special import dot, from_rows, kind_of, of_components, rows_of, traced_once
from ...jit.ir import op
from ..conversion import T, in_single, integer, is_array_class, related, unexpected
from ..kernel_loop import repeated
from .arithmetic import copysign, fma, mulsign, rcp, select
from .transcendental import atan2, sincos, sqrt
from .vector import cross_product

if TYPE_CHECKING:
    from ...array.kinds import Quaternion, Sequences, Untyped


divided, root, _gt = (partial(elementwise, o) for o in (op.div, op.sqrt, op.gt))


def check_matrix(value: Any, what: str) -> None:
    """Raises a TypeError if the value is not a matrix."""
    if kind_of(value) != "matrix":
        raise unexpected(what, "a matrix such as drjit.llvm.Matrix3f", value, "got")


def check_square(value: Any, what: str) -> None:
    """Raises a TypeError if the value is not a square matrix."""
    check_matrix(value, what)
    if len(value) != len(value._components[0]._components):
        raise unexpected(what, "a square matrix", value, "got")


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
    return traced_once(_determinant, [c for row in rows for c in row], len(rows))[0]


def _determinant(components: list, n: int) -> list:
    return [special.determinant([components[k : k + n] for k in range(0, n * n, n)])]


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
    zero = _component(cls, 0)
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
    check_square(arg, what)
    steps = integer(it, f"{what}(): 'it' must be an integer, got")
    if steps < 0:
        raise RuntimeError(f"{what}(): 'it' must not be negative, got {it}")
    return in_single(_polar_decomp, arg, steps)  # the squares of the norms exceed half precision


def _polar_decomp(arg: Any, steps: int) -> tuple[Any, Any]:
    n, components = len(arg), [c for row in rows_of(arg) for c in row]
    q = repeated(steps, _newton_step, components, n)
    p = traced_once(_transposed_product, [*q, *components], n)
    return special.of_rows(type(arg), q, n), special.of_rows(type(arg), p, n)


def _transposed_product(operands: list, n: int) -> list:
    """Returns the components of the product of a matrix's transpose and another matrix."""
    a, b = operands[: n * n], operands[n * n :]
    return [dot(a[i::n], b[j::n]) for i in range(n) for j in range(n)]


def _newton_step(q: list, n: int) -> list:
    x = special.inverse_of(q, n)
    scale = root(root(divided(dot(x, x), dot(q, q))))
    a, b = 0.5 * scale, divided(0.5, scale)
    transposed = [x[j * n + i] for i in range(n) for j in range(n)]
    return [special.fma(u, a, v * b) for u, v in zip(q, transposed, strict=True)]


# If half the distance of the pitch from a right angle is below this, the other two Euler angles
# cannot be told apart.
_NEAR = {"float16": 2e-2, "float32": 1.6e-4, "float64": 1.6e-4}


def _related(a: Any, kind: str, *dims: int) -> Any:
    """Returns the class with the same namespace and element type, but another kind and shape."""
    return related(type(a), kind=kind, dims=dims)


def _check_quaternion(value: Any, what: str) -> None:
    if kind_of(value) != "quaternion":
        raise unexpected(what, "a quaternion", value, "got")


def _as_vector(value: Any, cls: Any, what: str) -> Any:
    """Converts a value to a vector of the class; arrays of other kinds are rejected."""
    _components(value, cls._size, what)
    return value if type(value) is cls else cls(value)


def _components(value: Any, count: int, what: str) -> list[Any]:
    """Returns the components of a vector, or of a sequence; others are rejected."""
    if isinstance(value, ArrayBase):
        meta = value.__meta__
        if meta.kind != "vector" or len(meta.dims) != 1 or len(value._components) != count:
            raise unexpected(what, f"a vector of {count} components", value, "got")
        return [*value._components]
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise TypeError(f"{what}(): expected a vector of {count} components, got {value!r}")
    return [*value]


def _check_scalar(value: Any, name: str, what: str) -> None:
    if not special.is_scalar(value):
        raise TypeError(
            f"{what}(): '{name}' must be a number or a one-dimensional array, "
            f"got {type_label(value)}"
        )


def quat_to_matrix(dtype: type[T], q: "Quaternion[Any, Any, Any, Any, Any] | Untyped") -> T:
    """Returns the rotation matrix of a unit quaternion, as a matrix type with 3 or 4 rows; with 4,
    it is the matrix of an affine transformation.

    Raises:
        TypeError: `q` is not a quaternion, or `dtype` is not a matrix type of the same element type
            with 3 or 4 rows.

    >>> dr.quat_to_matrix(Matrix3f, Quaternion4f(0, 0, 1, 0))
    [[[-1, 0, 0],
      [0, -1, 0],
      [0, 0, 1]]]
    """
    what = "dr.quat_to_matrix"
    _check_quaternion(q, what)
    allowed = [_related(q, "matrix", n, n) for n in (3, 4)]
    if dtype not in allowed:
        names = " or ".join(type_label(c) for c in allowed)
        raise TypeError(f"{what}(): 'dtype' must be {names}, got {type_label(dtype)}")
    x, y, z, w = q._components
    x2, y2, z2 = x * 2, y * 2, z * 2
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, yz, xz = x * y2, y * z2, x * z2
    xw, yw, zw = x2 * w, y2 * w, z2 * w
    rows = [
        [1 - (yy + zz), xy - zw, xz + yw],
        [xy + zw, 1 - (xx + zz), yz - xw],
        [xz - yw, yz + xw, 1 - (xx + yy)],
    ]
    return from_rows(dtype, rows if dtype is allowed[0] else _affine(rows, dtype, (0, 0, 0)))


def _affine(rows: list[list], cls: Any, offset: Any) -> list[list]:
    """Returns the rows of the matrix of an affine transformation."""
    full = [[*row, _component(cls, c)] for row, c in zip(rows, offset, strict=True)]
    return [*full, [_component(cls, c) for c in (0, 0, 0, 1)]]


@signatures.from_matrix
def matrix_to_quat(arg: Any, /) -> Any:
    """Returns the unit quaternion of a rotation matrix with 3 rows, or of the upper left part of a
    matrix with 4.

    Of the four ways to compute it, this uses the one that divides by the largest number (S. W.
    Shepperd, "Quaternion from Rotation Matrix", 1978).

    Raises:
        TypeError: the argument is not a matrix with 3 or 4 rows.

    >>> dr.matrix_to_quat(Matrix3f([[0, -1, 0], [1, 0, 0], [0, 0, 1]]))
    [0.707107k+0.707107]
    """
    what = "dr.matrix_to_quat"
    check_matrix(arg, what)
    if arg.__meta__.dims not in ((3, 3), (4, 4)):
        raise unexpected(what, "a matrix with 3 or 4 rows", arg, "got")
    (a, b, c), (d, e, f), (g, h, i) = (row[:3] for row in rows_of(arg)[:3])
    # Row k is 4 q_k (x, y, z, w), whose k-th entry is the square of 2 q_k.
    ways = [
        [1 + a - e - i, b + d, c + g, h - f],
        [b + d, 1 - a + e - i, f + h, c - g],
        [c + g, f + h, 1 - a - e + i, d - b],
        [h - f, c - g, d - b, 1 + a + e + i],
    ]
    best, square = ways[3], ways[3][3]
    for k in range(3):
        better = _gt(ways[k][k], square)
        best = [select(better, u, v) for u, v in zip(ways[k], best, strict=True)]
        square = select(better, ways[k][k], square)
    factor = divided(0.5, sqrt(square))
    return of_components(_related(arg, "quaternion", 4), [v * factor for v in best])


@signatures.to_angles
def quat_to_euler(arg: Any, /) -> Any:
    """Returns the angles in radians by which a rotation turns around the x, then the y, then the z
    axis of a fixed frame.

    The second angle is in [-π/2, π/2]. Near the ends of that range, only the sum or difference of
    the other two is determined, and the third is 0. Formulas: E. Bernardes and S. Viollet,
    "Quaternion to Euler Angles Conversion: A Direct, General and Computationally Efficient Method"
    (2022).

    Raises:
        TypeError: the argument is not a quaternion.

    >>> dr.quat_to_euler(dr.rotate(Quaternion4f, Array3f(0, 0, 1), 0.5))
    [[0, 0, 0.5]]
    """
    _check_quaternion(arg, "dr.quat_to_euler")
    x, y, z, w = arg._components
    a, b, c, d = w - y, x + z, w + y, z - x
    low, high = sqrt(fma(a, a, b * b)), sqrt(fma(c, c, d * d))
    pitch = 2 * atan2(high, low) - math.pi / 2
    half_sum, half_difference = atan2(b, a), atan2(d, c)
    near = _NEAR[arg._dtype.name]
    up, down = _gt(high * near, low), _gt(low * near, high)
    half_sum, half_difference = (
        select(up, -half_difference, half_sum),
        select(down, -half_sum, half_difference),
    )
    angles = [_wrapped(half_sum - half_difference), pitch, _wrapped(half_sum + half_difference)]
    return of_components(_related(arg, "vector", 3), angles)


def _wrapped(angle: Any) -> Any:
    """Wraps an angle in [-2π, 2π] to [-π, π]."""
    up = select(_gt(-math.pi, angle), angle + 2 * math.pi, angle)
    return select(_gt(angle, math.pi), angle - 2 * math.pi, up)


@signatures.from_angles
def euler_to_quat(arg: Any, /) -> Any:
    """Returns the rotation by the given angles in radians, first around the x, then the y, then the
    z axis of a fixed frame.

    Raises:
        TypeError: the argument is not a vector of three components, or one of masks.

    >>> dr.euler_to_quat(Array3f(0, 0, 1))
    [0.479426k+0.877583]
    """
    what = "dr.euler_to_quat"
    if isinstance(arg, (list, tuple)) and len(arg) == 3:
        arg = _vector_of(arg)
    if not isinstance(arg, ArrayBase) or arg._dtype.is_mask:
        raise unexpected(what, "three angles", arg, "got")
    if not arg._dtype.is_float:
        arg = promote(arg, 0.0)[0]
    arg = _as_vector(arg, _related(arg, "vector", 3), what)
    (sx, cx), (sy, cy), (sz, cz) = (sincos(c * 0.5) for c in arg._components)
    parts = [
        fma(sx * cy, cz, -(cx * sy * sz)),
        fma(cx * sy, cz, sx * cy * sz),
        fma(cx * cy, sz, -(sx * sy * cz)),
        fma(cx * cy, cz, sx * sy * sz),
    ]
    return of_components(_related(arg, "quaternion", 4), parts)


def _vector_of(values: Any) -> Any:
    """Returns a vector of the type to which its components promote; numbers alone yield one of
    `drjit.scalar`."""
    from ...scalar import Array3f

    if not any(isinstance(v, ArrayBase) for v in values):
        return Array3f(*values)
    return _related(promote(*values, 0.0)[0], "vector", 3)(*values)


@signatures.interpolation
def slerp(a: Any, b: Any, t: Any) -> Any:
    """Interpolates between rotations along the shorter path and at constant speed: returns `a` for
    t = 0, and `b` or -b for t = 1.

    Follows the great circle through `a` and `b` (K. Shoemake, "Animating Rotation with Quaternion
    Curves", 1985), in the form `a cos(tθ) + c sin(tθ)` with the unit vector `c` normal to `a`,
    which is accurate for nearby rotations as well.

    Raises:
        TypeError: `a` or `b` is not a quaternion, or `t` is neither a number nor a one-dimensional
            array.

    >>> dr.slerp(Quaternion4f(0, 0, 0, 1), Quaternion4f(1, 0, 0, 0), 0.5)
    [0.707107i+0.707107]
    """
    what = "dr.slerp"
    for q in (a, b):
        _check_quaternion(q, what)
    _check_scalar(t, "t", what)
    a, b = promote(a, b, name=what)
    p, q = a._components, b._components
    cosine = dot(p, q)
    q = [mulsign(v, cosine) for v in q]
    cosine = mulsign(cosine, cosine)
    normal = [fma(-u, cosine, v) for u, v in zip(p, q, strict=True)]
    square = dot(normal, normal)
    there = _gt(square, 0.0)
    sine = sqrt(select(there, square, 1.0))
    angle = select(there, atan2(sine, cosine), 0.0)
    s, c = sincos(angle * t)
    s = divided(s, sine)
    return _like_parts(type(a), [fma(u, c, v * s) for u, v in zip(p, normal, strict=True)])


def _like_parts(cls: Any, parts: list) -> Any:
    """Returns an array of a class, or of its counterpart for components of another type."""
    first = parts[0]
    if isinstance(first, ArrayBase) and type(first) is not cls._leaf:
        cls = _related(first, cls.__meta__.kind, *cls.__meta__.dims)
    return of_components(cls, parts)


def rotate(dtype: type[T], axis: "ArrayBase | Sequences", angle: float | ArrayBase) -> T:
    """Returns the quaternion of a rotation by an angle in radians around an axis of length 1.

    Raises:
        TypeError: `dtype` is not a quaternion type, `axis` does not have three components, or is of
            another namespace or a wider type.

    >>> dr.rotate(Quaternion4f, Array3f(0, 0, 1), 1)
    [0.479426k+0.877583]
    """
    what = "dr.rotate"
    if not is_array_class(dtype) or dtype.__meta__.kind != "quaternion":
        raise TypeError(f"{what}(): 'dtype' must be a quaternion type, got {type_label(dtype)}")
    _check_scalar(angle, "angle", what)
    vector = related(dtype, kind="vector", dims=(3,))
    if isinstance(axis, ArrayBase):
        is_wider = axis._dtype.is_float and axis._dtype.itemsize > dtype._dtype.itemsize
        if axis._namespace != dtype._namespace or is_wider:
            raise TypeError(
                f"{what}(): 'axis' must be a {type_label(vector)}, got {type_label(axis)}"
            )
    along = _as_vector(axis, vector, what)
    s, c = sincos(angle * 0.5)
    parts = [*[v * s for v in along._components], c]
    return of_components(dtype, [_component(dtype, part) for part in parts])


def _component(cls: Any, value: Any) -> Any:
    """Returns a component of a class for an array or a number."""
    if cls.__meta__.namespace == "scalar":
        return float(value)
    return value if type(value) is cls._leaf else cls._leaf(value)


@signatures.rotation
def quat_apply(arg0: Any, arg1: Any, /) -> Any:
    """Rotates a vector by a quaternion: returns the vector part of `q v q̄`, which is scaled by
    `|q|²` if `q` does not have length 1.

    Raises:
        TypeError: the arguments are not a quaternion and a vector of three components.

    >>> dr.quat_apply(Quaternion4f(0, 0, 1, 0), Array3f(1, 2, 3))
    [[-1, -2, 3]]
    """
    what = "dr.quat_apply"
    _check_quaternion(arg0, what)
    *u, w = arg0._components
    v = _components(arg1, 3, what)
    across = cross_product(u, v)
    along = 2 * dot(u, v)
    keep = fma(w, w, -dot(u, u))
    turn = 2 * w
    parts = [fma(across[k], turn, fma(u[k], along, v[k] * keep)) for k in range(3)]
    return _like_parts(_related(arg0, "vector", 3), parts)


@signatures.decomposition
def transform_decompose(a: Any, it: int = 10) -> tuple[Any, Any, Any]:
    """Decomposes an affine transformation into a symmetric scaling matrix, followed by a rotation
    (a quaternion) and a translation.

    Follows K. Shoemake and T. Duff, "Matrix Animation and Polar Decomposition" (1992): the factors
    of `polar_decomp`, with the sign of the orthogonal one flipped if needed to make it a rotation.

    Raises:
        TypeError: the argument is not a matrix with 4 rows, or `it` is not an integer.
        RuntimeError: `it` is negative.

    >>> m = Matrix4f([[2, 0, 0, 5], [0, 3, 0, 6], [0, 0, 4, 7], [0, 0, 0, 1]])
    >>> dr.transform_decompose(m)[1:]
    ([1], [[5, 6, 7]])
    """
    what = "dr.transform_decompose"
    check_matrix(a, what)
    if a.__meta__.dims != (4, 4):
        raise unexpected(what, "a matrix with 4 rows", a, "got")
    rows = rows_of(a)
    small = _related(a, "matrix", 3, 3)
    q, p = polar_decomp(from_rows(small, [row[:3] for row in rows[:3]]), it)
    sign = copysign(1.0, det(q))
    offset = of_components(_related(a, "vector", 3), [row[3] for row in rows[:3]])
    return p * sign, matrix_to_quat(q * sign), offset


@signatures.composition
def transform_compose(s: Any, q: Any, t: Any, /) -> Any:
    """Returns the affine transformation that scales by a matrix with 3 rows, rotates by a
    quaternion, and translates; the inverse of `transform_decompose`.

    Raises:
        TypeError: the arguments are not a matrix with 3 rows, a quaternion, and a vector of three
            components, of the same element type.

    >>> dr.transform_compose(Matrix3f(2), Quaternion4f(0, 0, 0, 1), Array3f(1, 2, 3))
    [[[2, 0, 0, 1],
      [0, 2, 0, 2],
      [0, 0, 2, 3],
      [0, 0, 0, 1]]]
    """
    what = "dr.transform_compose"
    check_matrix(s, what)
    _check_quaternion(q, what)
    if s.__meta__.dims != (3, 3):
        raise unexpected(what, "a scaling matrix with 3 rows", s, "got")
    if q._dtype is not s._dtype:
        raise TypeError(f"{what}(): {type_label(s)} and {type_label(q)} differ in element type")
    product = quat_to_matrix(_related(q, "matrix", 3, 3), q) @ s
    t = _as_vector(t, _related(product, "vector", 3), what)
    cls = _related(product, "matrix", 4, 4)
    return from_rows(cls, _affine(rows_of(product), cls, t._components))

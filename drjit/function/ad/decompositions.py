"""Decompositions of small matrices and systems of linear equations, lane by lane, without branches.

Eigenvalues and singular values come from a fixed number of sweeps of Jacobi rotations, of which no
derivatives are recorded. These are of two steps of an iteration that refines such a result, and
whose limit has the derivatives that are wanted: as it converges quadratically, the first step has
the first derivatives, the second one also those of order two and three.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import Any

from ...array import pytree
from ...array.base import type_label
from ...array.promote import resolve
from ...array.special import dot, fma, kind_of, of_components, of_rows, rows_of, traced_once
from ..conversion import T, in_single, related, unexpected
from ..kernel_loop import repeated
from ..math.arithmetic import abs, copysign, maximum, select
from ..math.linalg import check_square, divided, root
from .grad import detach, replace_grad

Rows = list[list[Any]]
"""The components of a matrix, row by row."""

_SWEEPS = {2: 2, 3: 6, 4: 8}
_EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}


def cholesky(arg: T, /) -> T:
    """Returns the lower triangular matrix L with a positive diagonal for which L Lᵀ is the given
    symmetric, positive definite matrix.

    Decomposes the symmetric part, (A + Aᵀ)/2, so that gradients are symmetric. Where this is not
    positive definite, entries are NaN. `float16` is computed in `float32`.

    Raises:
        TypeError: the argument is not a square matrix.

    >>> dr.cholesky(Matrix2f([[4, 2], [2, 5]]))
    [[[2, 0],
      [1, 2]]]
    """
    check_square(arg, "dr.cholesky")
    return in_single(_cholesky, arg)


def _cholesky(a: Any) -> Any:
    n = len(a)
    return of_rows(type(a), traced_once(_lower, _joined(rows_of(_symmetric(a))), n), n)


def _lower(entries: Sequence[Any], n: int) -> list:
    """Returns the entries of the triangular factor."""
    rows, zero = _rows(entries, n), type(entries[0])(0)
    for k in range(n):
        _clear_below(rows, k)
        size = root(rows[k][k])
        rows[k] = [zero] * k + [divided(c, size) for c in rows[k][k:]]
    return _joined([*zip(*rows, strict=True)])


def solve(a: Any, b: T, /) -> T:
    """Returns the solution x of the linear equations a x = b, for a square matrix `a` and a vector
    or a matrix `b` with as many rows, by elimination with partial pivoting.

    It is more accurate than a product with `inverse(a)`. Entries are infinite or NaN where `a` is
    singular. `float16` is computed in `float32`.

    Raises:
        TypeError: `a` is not a square matrix, or `b` is neither a vector nor a matrix of its size
            and element type.

    >>> dr.solve(Matrix2f([[0, 2], [1, 1]]), Array2f(4, 5))
    [[3, 2]]
    """
    check_square(a, "dr.solve")
    fits = kind_of(b) in ("vector", "matrix") and len(b) == len(a) and b._dtype is a._dtype
    if not fits or b.__meta__.dims[1:] not in ((), a.__meta__.dims[1:]):
        expected = f"a vector or matrix of {len(a)} rows that goes with {type_label(a)}"
        raise unexpected("dr.solve", expected, b, "got")
    return in_single(_solve, a, b)


def _solve(a: Any, b: Any) -> Any:
    n, is_matrix = len(a), kind_of(b) == "matrix"
    cls, _ = resolve((a if is_matrix else a._components[0], b))
    sides = rows_of(b) if is_matrix else [[c] for c in b._components]
    rows = [row + side for row, side in zip(rows_of(a), sides, strict=True)]
    found = traced_once(_eliminated, _joined(rows), n)
    return of_rows(cls, found, n) if is_matrix else of_components(cls, found)


def _eliminated(entries: Sequence[Any], n: int) -> list:
    """Returns the solutions for a matrix with right-hand sides beside it, row by row."""
    rows = _rows(entries, len(entries) // n)
    for k in range(n):
        for i in range(k + 1, n):
            rows[k], rows[i] = _exchanged(abs(rows[i][k]) > abs(rows[k][k]), rows[k], rows[i])
        _clear_below(rows, k)
    solved: Rows = []
    for k in reversed(range(n)):
        rest = rows[k][n:]
        for factor, x in zip(rows[k][k + 1 : n], solved, strict=True):
            rest = _less(rest, factor, x)
        solved.insert(0, [divided(r, rows[k][k]) for r in rest])
    return _joined(solved)


def eigh(arg: T, /) -> tuple[Any, T]:
    """Returns the eigenvalues of a symmetric matrix, a vector in increasing order, and a matrix
    whose columns are eigenvectors of length 1: A = V diag(w) Vᵀ.

    Decomposes the symmetric part, (A + Aᵀ)/2, by a fixed number of sweeps of cyclic Jacobi
    rotations (Golub and Van Loan, "Matrix Computations", section 8.5). The signs of eigenvectors
    are arbitrary. `float16` is computed in `float32`.

    Derivatives up to the third are those of the iteration of Ogita and Aishima, "Iterative
    refinement for symmetric eigenvalue decomposition" (2018). Those of eigenvectors do not exist
    where eigenvalues are equal to rounding: there, vectors do not turn within the space of these.
    Derivatives of eigenvalues are then the diagonal of Vᵀ dA V, and the derivative of whatever does
    not depend on the choice of the vectors, such as a sum of equal eigenvalues, is right.

    Raises:
        TypeError: the argument is not a square matrix.

    >>> w, v = dr.eigh(Matrix2f([[2, 1], [1, 2]]))
    >>> w
    [[1, 3]]
    >>> dr.allclose(v @ dr.diag(w) @ v.T, [[2, 1], [1, 2]])
    [True]
    """
    check_square(arg, "dr.eigh")
    return in_single(_eigh, arg)


def _eigh(arg: Any) -> tuple[Any, Any]:
    a, n = _symmetric(arg), len(arg)
    columns, scale = _swept(a, symmetric=True)
    columns = _ordered([[x[k], *x[n:]] for k, x in enumerate(columns)])
    v = _of_columns(type(arg), [x[1:] for x in columns])
    v, w, _ = _tracked(a, v, [x[0] * scale for x in columns], v)
    return _vector(arg, w), v


def svd(arg: T, /) -> tuple[T, Any, T]:
    """Returns the singular value decomposition of a square matrix: orthogonal matrices U and Vᵀ,
    and between them the singular values, a vector in decreasing order, with A = U diag(s) Vᵀ.

    Takes a fixed number of sweeps of one-sided Jacobi rotations (Golub and Van Loan, "Matrix
    Computations", section 8.6), which find small singular values as accurately as large ones. The
    signs of pairs of singular vectors are arbitrary. `float16` is computed in `float32`.

    Derivatives up to the third are those of the iteration of Ogita and Aishima, "Iterative
    refinement for singular value decomposition based on matrix multiplication" (2020). Where
    singular values are equal to rounding, those of the vectors do not exist: there, left and right
    vectors turn within the space of these only against each other, by half the angle each. The
    derivative of whatever does not depend on the choice of the vectors, such as the rotation U Vᵀ,
    is right. A singular value of 0 has the derivative uᵀ dA v.

    Raises:
        TypeError: the argument is not a square matrix.

    >>> u, s, vt = dr.svd(Matrix2f([[0, 2], [-3, 0]]))
    >>> s
    [[3, 2]]
    >>> dr.allclose(u @ dr.diag(s) @ vt, [[0, 2], [-3, 0]])
    [True]
    """
    check_square(arg, "dr.svd")
    return in_single(_svd, arg)


def _svd(a: Any) -> tuple[Any, Any, Any]:
    n, cls = len(a), type(a)
    columns, scale = _swept(a, symmetric=False)
    columns = _ordered([[-root(dot(x[:n], x[:n])), *x] for x in columns])
    sizes = [-x[0] for x in columns]
    u = _of_columns(cls, _normalized([x[1 : n + 1] for x in columns], sizes))
    v = _of_columns(cls, [x[n + 1 :] for x in columns])
    u, s, v = _tracked(a, u, [x * scale for x in sizes], v)
    return u, _vector(a, s), v.T


def _normalized(columns: Rows, sizes: list) -> Rows:
    """Returns orthogonal columns divided by their sizes; those of size 0 are replaced by ones that
    complete a basis, each along the longest projection of an axis onto what is left."""
    n, found = len(columns), []
    rest = [[float(i == j) for j in range(n)] for i in range(n)]  # the matrix of that projection
    for x, size in zip(columns, sizes, strict=True):
        axes = [[row[j], *row] for j, row in enumerate(rest)]  # after the square of the length
        square, *other = reduce(lambda a, b: _selected(b[0] > a[0], b, a), axes)
        # Scaled, sizes are those of 1; the squares of others are too small for single precision.
        empty = size <= 1e-18
        other = [divided(c, root(square)) for c in other]
        unit = _selected(empty, other, [divided(c, select(empty, 1.0, size)) for c in x])
        rest = [_less(r, a, unit) for a, r in zip(unit, rest, strict=True)]
        found.append(unit)
    return found


# Jacobi rotations


def _swept(m: Any, symmetric: bool) -> tuple[Rows, Any]:
    """Returns the columns of a matrix after sweeps of rotations, each followed by that of the
    product of the rotations, and what they are to be multiplied by. A symmetric matrix has become
    diagonal, and the columns of others orthogonal."""
    n, entries = len(m), _joined(rows_of(detach(m)))
    largest = reduce(maximum, map(abs, entries))
    scale = select(largest == 0, 1.0, largest)
    units = rows_of(type(m)(1))
    columns = [[divided(c, scale) for c in entries[k::n]] + units[k] for k in range(n)]
    return _rows(repeated(_SWEEPS[n], _sweep, _joined(columns), n, symmetric), 2 * n), scale


def _sweep(state: Sequence[Any], n: int, symmetric: bool) -> list:
    """Rotates every pair of columns, and the rows of a symmetric matrix as well."""
    columns = _rows(state, 2 * n)
    for p, q in combinations(range(n), 2):
        x, y = columns[p], columns[q]
        if symmetric:
            a, b, off = x[p], y[q], y[p]
        else:
            a, b, off = (dot(v[:n], w[:n]) for v, w in ((x, x), (y, y), (x, y)))
        t, c, s = _rotation(b - a, 2 * off)
        columns[p], columns[q] = x, y = _turned(x, y, c, s)
        if symmetric:
            for k, column in enumerate(columns):  # the rows as well
                column[p], column[q] = x[k], y[k]
            x[p], y[q] = fma(-t, off, a), fma(t, off, b)
            x[q] = y[p] = type(off)(0)
    return _joined(columns)


def _rotation(difference: Any, twice: Any) -> tuple[Any, Any, Any]:
    """Returns tangent, cosine and sine of the angle that makes two axes those of a quadratic form,
    from the difference of its diagonal entries and twice the entry beside them."""
    below = abs(difference) + root(fma(difference, difference, twice * twice))
    t = select(below == 0, 0.0, divided(twice, below)) * copysign(1.0, difference)
    c = divided(1.0, root(fma(t, t, 1.0)))
    return t, c, t * c


def _turned(x: list, y: list, c: Any, s: Any) -> tuple[list, list]:
    pairs = [*zip(x, y, strict=True)]
    return [fma(c, a, -s * b) for a, b in pairs], [fma(s, a, c * b) for a, b in pairs]


# Derivatives


def _tracked(a: Any, u: Any, s: list, v: Any) -> tuple[Any, list, Any]:
    """Returns the parts of a decomposition u diag(s) vᵀ with derivatives, if those of `a` are
    tracked."""
    if not any(x._diff and x._var is not None for x in pytree.leaf_arrays(a)):
        return u, s, v
    # The difference up to which values count as equal.
    gap = maximum(abs(s[0]), abs(s[-1])) * (16 * _EPSILON[a._dtype.name])
    found = u, s, v
    for _ in range(2):
        found = _refined(a, found[0], found[2], s, gap)
    return replace_grad((u, s, v), found)


def _refined(a: Any, u: Any, v: Any, s: list, gap: Any) -> tuple[Any, list, Any]:
    """Returns the parts of a decomposition near `u`, `s` and `v` after a step of the iteration for
    singular values, or, if `u` is `v`, of that for eigenvalues, which is a special case."""
    unit, n = type(u)(1), len(s)
    r, q, t = map(rows_of, (unit - u.T @ u, unit - v.T @ v, u.T @ (a @ v)))
    values = [divided(t[i][i], 1 - 0.5 * (r[i][i] + q[i][i])) for i in range(n)]

    def entry(i: int, j: int) -> tuple[Any, Any]:
        """How much of vector i is added to vector j, on the left and on the right."""
        if i == j:
            return 0.5 * r[i][i], 0.5 * q[i][i]
        x, y = fma(values[j], r[i][j], t[i][j]), fma(values[j], q[i][j], t[j][i])
        apart = abs(s[j] - s[i]) > gap
        change = divided(x + y, select(apart, values[j] - values[i], 1.0))
        together = select(apart, change, 0.5 * (r[i][j] + q[i][j]))
        if u is v:
            return 0.5 * together, 0.5 * together
        apart = s[j] + s[i] > gap
        change = divided(x - y, select(apart, values[j] + values[i], 1.0))
        against = select(apart, change, 0.5 * (r[i][j] - q[i][j]))
        return 0.5 * (together + against), 0.5 * (together - against)

    changes = zip(*[entry(i, j) for i in range(n) for j in range(n)], strict=True)
    left, right = (of_rows(type(u), entries, n) for entries in changes)
    refined = u + u @ left
    return refined, values, refined if u is v else v + v @ right


# What they share


def _clear_below(rows: Rows, k: int) -> None:
    """Subtracts multiples of row k from those below, so that these begin with zeros."""
    for i in range(k + 1, len(rows)):
        rows[i] = _less(rows[i], divided(rows[i][k], rows[k][k]), rows[k])


def _less(x: list, factor: Any, y: list) -> list:
    """Returns x - factor * y."""
    return [fma(-factor, b, a) for a, b in zip(x, y, strict=True)]


def _joined(rows: Sequence) -> list:
    return [c for row in rows for c in row]


def _rows(entries: Sequence[Any], n: int) -> Rows:
    return [list(entries[k : k + n]) for k in range(0, len(entries), n)]


def _of_columns(cls: Any, columns: Rows) -> Any:
    return of_rows(cls, _joined([*zip(*columns, strict=True)]), len(columns))


def _vector(a: Any, components: list) -> Any:
    return of_components(related(type(a), kind="vector", dims=a.__meta__.dims[1:]), components)


def _symmetric(m: Any) -> Any:
    return 0.5 * m + 0.5 * m.T


def _selected(mask: Any, x: list, y: list) -> list:
    return [select(mask, a, b) for a, b in zip(x, y, strict=True)]


def _exchanged(mask: Any, x: list, y: list) -> tuple[list, list]:
    """Returns two rows, exchanged where the mask is true."""
    return _selected(mask, y, x), _selected(mask, x, y)


def _ordered(rows: Rows) -> Rows:
    """Sorts rows by their first entries."""
    for last in range(len(rows) - 1, 0, -1):
        for k in range(last):
            a, b = rows[k : k + 2]
            rows[k : k + 2] = _exchanged(a[0] > b[0], a, b)
    return rows

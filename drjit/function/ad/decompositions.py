"""Decompositions of small matrices and systems of linear equations, lane by lane, without branches.

Eigenvalues and singular values come from a fixed number of sweeps of Jacobi rotations, of which no
derivatives are recorded. These are of two steps of an iteration that refines such a result, and
whose limit has the derivatives that are wanted: as it converges quadratically, the first step has
the first derivatives, the second one also those of order two and three.
"""

from collections.abc import Callable
from typing import Any

from ...array import pytree
from ...array.base import ArrayBase, type_label
from ...array.special import dot, fma, from_rows, kind_of, of_components, rows_of, traced_once
from ...jit.ir import dtype as dt
from ..conversion import T, related, unexpected
from ..kernel_loop import kernel_loop
from ..math.arithmetic import abs, copysign, maximum, select
from ..math.linalg import check_matrix, divided, root
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
    return _in_single(_cholesky, "dr.cholesky", arg)


def _cholesky(a: Any) -> Any:
    n = len(a)
    flat = iter(traced_once(_lower, [c for row in _symmetric(rows_of(a)) for c in row], n))
    zero = _number(a, 0)
    rows = [[next(flat) if j <= i else zero for j in range(n)] for i in range(n)]
    return from_rows(type(a), rows)


def _lower(a: list, n: int) -> list:
    """Returns the entries of the triangular factor, row by row."""
    rows: Rows = []
    for i in range(n):
        row: list[Any] = []
        for j in range(i + 1):
            rest = a[i * n + j]
            for x, y in zip(row, rows[j] if j < i else row, strict=False):
                rest = fma(-x, y, rest)
            row.append(root(rest) if i == j else divided(rest, rows[j][j]))
        rows.append(row)
    return [c for row in rows for c in row]


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
    what = "dr.solve"
    check_matrix(a, what)
    fits = kind_of(b) in ("vector", "matrix") and len(b) == len(a) and b._dtype is a._dtype
    if not fits or b.__meta__.dims[1:] not in ((), a.__meta__.dims[1:]):
        n, name = len(a), type_label(a)
        raise unexpected(what, f"a vector or matrix of {n} rows that goes with {name}", b, "got")
    return _in_single(_solve, what, a, b)


def _solve(a: Any, b: Any) -> Any:
    n = len(a)
    sides = rows_of(b) if kind_of(b) == "matrix" else [[c] for c in b._components]
    m = len(sides[0])
    rows = [[*row, *side] for row, side in zip(rows_of(a), sides, strict=True)]
    flat = [c for row in rows for c in row]
    found = (
        traced_once(_eliminated, flat, n) if len({*map(type, flat)}) == 1 else _eliminated(flat, n)
    )
    cls = type(b)
    first = found[0]
    if isinstance(first, ArrayBase) and first._namespace != cls._namespace:
        cls = related(cls, namespace=first._namespace)
    if m == 1:
        return of_components(cls, found)
    return from_rows(cls, [found[k : k + m] for k in range(0, n * m, m)])


def _eliminated(flat: list, n: int) -> list:
    """Returns the solutions for a matrix with right-hand sides beside it, row by row."""
    width = len(flat) // n
    rows = [list(flat[k : k + width]) for k in range(0, len(flat), width)]
    for k in range(n):
        for i in range(k + 1, n):
            swapped = abs(rows[i][k]) > abs(rows[k][k])
            pairs = list(zip(rows[i], rows[k], strict=True))
            rows[k] = [select(swapped, x, y) for x, y in pairs]
            rows[i] = [select(swapped, y, x) for x, y in pairs]
        for i in range(k + 1, n):
            factor = -divided(rows[i][k], rows[k][k])
            for j in range(k + 1, width):
                rows[i][j] = fma(factor, rows[k][j], rows[i][j])
    solved: Rows = []
    for k in reversed(range(n)):
        rest = rows[k][n:]
        for i, x in zip(range(n - 1, k, -1), solved, strict=True):
            rest = [fma(-rows[k][i], v, r) for v, r in zip(x, rest, strict=True)]
        solved.append([divided(r, rows[k][k]) for r in rest])
    return [c for row in reversed(solved) for c in row]


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
    return _in_single(_eigh, "dr.eigh", arg)


def _eigh(arg: Any) -> tuple[Any, Any]:
    a = _symmetric(rows_of(arg))
    n = len(a)
    plain = detach(a)
    scale = _scale(plain)
    state = [divided(c, scale) for row in plain for c in row] + _identity(arg, n)
    state = list(_swept(_rotated, state, n))
    values, v = state[: n * n : n + 1], _rows(state[n * n :], n)
    values, columns = _ordered(values, _transposed(v), descending=False)
    w, v = [c * scale for c in values], _transposed(columns)
    if _tracks(a):
        gap = _gap(w)
        values, vectors = w, v
        for _ in range(2):
            values, vectors = _refined_eigh(a, vectors, w, gap)
        w, v = replace_grad((w, v), (values, vectors))
    return _vector(arg, w), from_rows(type(arg), v)


def _rotated(state: list, n: int) -> list:
    """Returns a symmetric matrix and the product of rotations after a sweep."""
    a, v = _rows(state[: n * n], n), _rows(state[n * n :], n)
    for p in range(n):
        for q in range(p + 1, n):
            off = a[p][q]
            t, c, s = _rotation(a[q][q] - a[p][p], 2 * off)
            a[p][p], a[q][q] = fma(-t, off, a[p][p]), fma(t, off, a[q][q])
            a[p][q] = a[q][p] = type(off)(0)
            for r in {*range(n)} - {p, q}:
                x, y = a[r][p], a[r][q]
                a[r][p] = a[p][r] = fma(c, x, -s * y)
                a[r][q] = a[q][r] = fma(s, x, c * y)
            for row in v:
                row[p], row[q] = fma(c, row[p], -s * row[q]), fma(s, row[p], c * row[q])
    return [c for row in (*a, *v) for c in row]


def _rotation(difference: Any, twice: Any) -> tuple[Any, Any, Any]:
    """Returns tangent, cosine and sine of the angle that makes two axes those of a quadratic form,
    from the difference of its diagonal entries and twice the entry beside them."""
    below = abs(difference) + root(fma(difference, difference, twice * twice))
    t = select(below == 0, 0.0, divided(twice, below)) * copysign(1.0, difference)
    c = divided(1.0, root(fma(t, t, 1.0)))
    return t, c, t * c


def _refined_eigh(a: Rows, v: Rows, w: list, gap: Any) -> tuple[list, Rows]:
    n = len(a)
    transposed = _transposed(v)
    r = _defect(transposed)
    s = _product(transposed, _product(a, v))
    values = [divided(s[i][i], 1 - r[i][i]) for i in range(n)]

    def entry(i: int, j: int) -> Any:
        apart = abs(w[j] - w[i]) > gap
        change = divided(
            fma(values[j], r[i][j], s[i][j]), select(apart, values[j] - values[i], 1.0)
        )
        return select(apart, change, 0.5 * r[i][j])

    change = [[entry(i, j) if i != j else 0.5 * r[i][i] for j in range(n)] for i in range(n)]
    return values, _sum(v, _product(v, change))


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
    return _in_single(_svd, "dr.svd", arg)


def _svd(arg: Any) -> tuple[Any, Any, Any]:
    a = rows_of(arg)
    n = len(a)
    plain = detach(a)
    scale = _scale(plain)
    state = [divided(c, scale) for row in _transposed(plain) for c in row] + _identity(arg, n)
    state = list(_swept(_made_orthogonal, state, n))
    columns = _rows(state, n)
    sizes = [root(dot(x, x)) for x in columns[:n]]
    sizes, columns = _ordered(
        sizes, [x + y for x, y in zip(columns[:n], columns[n:], strict=True)], True
    )
    s = [x * scale for x in sizes]
    u = _transposed(_normalized([x[:n] for x in columns], sizes))
    v = _transposed([x[n:] for x in columns])
    if _tracks(a):
        gap = _gap(s)
        values, left, right = s, u, v
        for _ in range(2):
            values, left, right = _refined_svd(a, left, right, s, gap)
        u, s, v = replace_grad((u, s, v), (left, values, right))
    return from_rows(type(arg), u), _vector(arg, s), from_rows(type(arg), _transposed(v))


def _made_orthogonal(state: list, n: int) -> list:
    """Returns the columns of a matrix, and those of the product of rotations, after a sweep."""
    columns = _rows(state, n)
    columns = [x + y for x, y in zip(columns[:n], columns[n:], strict=True)]
    for p in range(n):
        for q in range(p + 1, n):
            x, y = columns[p][:n], columns[q][:n]
            _, c, s = _rotation(dot(y, y) - dot(x, x), 2 * dot(x, y))
            pairs = list(zip(columns[p], columns[q], strict=True))
            columns[p] = [fma(c, x, -s * y) for x, y in pairs]
            columns[q] = [fma(s, x, c * y) for x, y in pairs]
    return [c for x in columns for c in x[:n]] + [c for x in columns for c in x[n:]]


def _normalized(columns: Rows, sizes: list) -> Rows:
    """Returns orthogonal columns divided by their sizes; those of size 0 are replaced by ones that
    complete a basis, each from the axis that is farthest from those before it."""
    found: Rows = []
    n = len(columns)
    for x, size in zip(columns, sizes, strict=True):
        best, place, along = 1.0 - sum(u[0] * u[0] for u in found), size * 0, [u[0] for u in found]
        for j in range(1, n):
            left = 1.0 - sum(u[j] * u[j] for u in found)
            farther = left > best
            best, place = select(farther, left, best), select(farther, float(j), place)
            along = [select(farther, u[j], w) for u, w in zip(found, along, strict=True)]
        other = [select(place == float(j), 1.0, 0.0) for j in range(n)]
        for u, w in zip(found, along, strict=True):
            other = [c - w * d for c, d in zip(other, u, strict=True)]
        length = root(dot(other, other))
        # Scaled, sizes are those of 1; the squares of others are too small for single precision.
        empty = size <= 1e-18
        found.append(
            [
                select(empty, divided(d, length), divided(c, select(empty, 1.0, size)))
                for c, d in zip(x, other, strict=True)
            ]
        )
    return found


def _refined_svd(a: Rows, u: Rows, v: Rows, s: list, gap: Any) -> tuple[list, Rows, Rows]:
    n = len(a)
    ut, vt = _transposed(u), _transposed(v)
    r, q, t = _defect(ut), _defect(vt), _product(ut, _product(a, v))
    values = [divided(t[i][i], 1 - 0.5 * (r[i][i] + q[i][i])) for i in range(n)]

    def entry(i: int, j: int) -> tuple[Any, Any]:
        if i == j:
            return 0.5 * r[i][i], 0.5 * q[i][i]
        x, y = fma(values[j], r[i][j], t[i][j]), fma(values[j], q[i][j], t[j][i])
        positive, apart = s[i] + s[j] > gap, abs(s[j] - s[i]) > gap
        against = divided(x - y, select(positive, values[i] + values[j], 1.0))
        against = select(positive, against, 0.5 * (r[i][j] - q[i][j]))
        together = divided(x + y, select(apart, values[j] - values[i], 1.0))
        together = select(apart, together, 0.5 * (r[i][j] + q[i][j]))
        return 0.5 * (together + against), 0.5 * (together - against)

    changes = [[entry(i, j) for j in range(n)] for i in range(n)]
    left, right = ([[pair[k] for pair in row] for row in changes] for k in (0, 1))
    return values, _sum(u, _product(u, left)), _sum(v, _product(v, right))


# What they share


def _in_single(f: Callable, what: str, a: Any, *others: Any) -> Any:
    """Applies a function to a square matrix and other arrays; half precision becomes single."""
    check_matrix(a, what)
    if len(a) != len(a._components[0]._components):
        raise unexpected(what, "a square matrix", a, "got")
    if a._dtype is not dt.f16:
        return f(a, *others)
    found = f(*[related(type(x), dtype=dt.f32)(x) for x in (a, *others)])
    return pytree.map_tree(lambda x: related(type(x), dtype=dt.f16)(x), found)


def _rows(flat: list, n: int) -> Rows:
    return [list(flat[k : k + n]) for k in range(0, len(flat), n)]


def _transposed(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


def _symmetric(a: Rows) -> Rows:
    pairs = [zip(row, column, strict=True) for row, column in zip(a, _transposed(a), strict=True)]
    return [[x if x is y else 0.5 * (x + y) for x, y in row] for row in pairs]


def _product(a: Rows, b: Rows) -> Rows:
    return [[dot(row, column) for column in _transposed(b)] for row in a]


def _sum(a: Rows, b: Rows) -> Rows:
    return [[x + y for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]


def _defect(transposed: Rows) -> Rows:
    """Returns the identity minus the products of columns."""
    return [
        [float(i == j) - dot(x, y) for j, y in enumerate(transposed)]
        for i, x in enumerate(transposed)
    ]


def _number(like: Any, value: float) -> Any:
    """Returns an entry for a matrix."""
    kind = type(rows_of(like)[0][0])
    return kind(value)


def _identity(a: Any, n: int) -> list:
    return [_number(a, float(i == j)) for i in range(n) for j in range(n)]


def _vector(a: Any, components: list) -> Any:
    cls = related(type(a), kind="vector", dims=a.__meta__.dims[1:])
    return of_components(cls, components)


def _tracks(a: Rows) -> bool:
    return any(x._diff and x._var is not None for x in pytree.leaf_arrays(a))


def _scale(a: Rows) -> Any:
    """Returns the largest absolute entry, or 1 if all are 0."""
    largest = abs(a[0][0])
    for x in [c for row in a for c in row][1:]:
        largest = maximum(largest, abs(x))
    return select(largest == 0, 1.0, largest)


def _gap(values: list) -> Any:
    """Returns the difference up to which eigenvalues or singular values count as equal."""
    epsilon = _EPSILON[getattr(values[0], "_dtype", dt.f64).name]
    return maximum(abs(values[0]), abs(values[-1])) * (16 * epsilon)


def _ordered(values: list, vectors: Rows, descending: bool) -> tuple[list, Rows]:
    """Sorts values, and vectors along with them."""
    rows = [[x, *v] for x, v in zip(values, vectors, strict=True)]
    for last in range(len(rows) - 1, 0, -1):
        for k in range(last):
            a, b = rows[k : k + 2]
            swapped = a[0] < b[0] if descending else a[0] > b[0]
            pairs = list(zip(a, b, strict=True))
            rows[k] = [select(swapped, y, x) for x, y in pairs]
            rows[k + 1] = [select(swapped, x, y) for x, y in pairs]
    return [row[0] for row in rows], [row[1:] for row in rows]


def _swept(sweep: Callable, state: list, n: int) -> list:
    """Returns a state after the sweeps that a matrix of `n` rows needs."""
    cls = type(state[0])
    if not issubclass(cls, ArrayBase) or cls._kind != "leaf":
        for _ in range(_SWEEPS[n]):
            state = sweep(state, n)
        return state

    def body(k: Any, *x: Any) -> list:
        return [k + 1, *traced_once(sweep, x, n)]

    return kernel_loop([related(cls, dtype=dt.u32)(0), *state], lambda k, *_: k < _SWEEPS[n], body)[
        1:
    ]

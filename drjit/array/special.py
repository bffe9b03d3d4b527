"""Products of special arrays: matrices here, complex numbers and quaternions by the formulas that
`register` was given.

A formula takes and gives tuples of components.
"""

from collections.abc import Callable
from typing import Any

from ..jit import op
from . import table
from .base import ArrayBase, type_label
from .elementwise import elementwise
from .leaf import new
from .meta import DYNAMIC
from .promote import Incompatible, convert, number_type, resolve

SPECIAL = ("complex", "quaternion", "matrix")
formulas: dict[tuple[str, str], Callable] = {}


def register(kind: str, **functions: Callable) -> None:
    """Sets formulas of a kind: `mul`, `div` and `power` of two tuples of components, `rcp` of one,
    `abs` to one component.
    """
    for name, function in functions.items():
        formulas[kind, name] = function


def is_special(value: Any) -> bool:
    """Whether a value is a complex number, a quaternion or a matrix."""
    return isinstance(value, ArrayBase) and value.__meta__.kind in SPECIAL


def of_components(cls: Any, components: Any) -> Any:
    """An array of the class that takes over components; numbers of `drjit.scalar` are rounded to
    the element type.
    """
    if not issubclass(cls.Value, ArrayBase):
        return cls(list(components))
    r = new(cls)
    r._c = list(components)
    return r


def _is_scalar(value: Any) -> bool:
    return number_type(type(value)) is not None or (
        isinstance(value, ArrayBase) and value._kind == "leaf"
    )


def scale(factor: Any, value: Any, combine: Callable) -> Any:
    """Each component of a special array combined with a scalar."""
    cls, operands = resolve((value, factor))
    value = convert(cls, operands[0])
    return of_components(cls, [_each(c, operands[1], combine) for c in value._c])


def _each(component: Any, factor: Any, combine: Callable) -> Any:
    if isinstance(component, ArrayBase) and component._kind == "nested":
        return of_components(type(component), [_each(c, factor, combine) for c in component._c])
    return combine(component, factor)


def product(a: Any, b: Any) -> Any:
    """`a * b` where one is special.

    Raises:
        RuntimeError: the types do not go together.
    """
    if _is_scalar(b):
        return scale(b, a, lambda c, s: c * s)
    if _is_scalar(a):
        return scale(a, b, lambda c, s: s * c)
    if "matrix" in (_kind(a), _kind(b)):
        return matrix_product(a, b)
    cls, a, b = _both(a, b)
    return of_components(cls, formulas[cls.__meta__.kind, "mul"](tuple(a._c), tuple(b._c)))


def quotient(a: Any, b: Any) -> Any:
    """`a / b` where one is special.

    Raises:
        RuntimeError: the types do not go together.
    """
    if _is_scalar(b):
        return scale(b, a, lambda c, s: c / s)
    kind = _kind(b)
    if _is_scalar(a):
        return scale(a, reciprocal(b), lambda c, s: s * c)
    if kind == "matrix":
        return matrix_product(a, reciprocal(b))
    if _kind(a) == "matrix":
        raise Incompatible(f"cannot divide {type_label(a)} by {type_label(b)}")
    cls, a, b = _both(a, b)
    return of_components(cls, formulas[cls.__meta__.kind, "div"](tuple(a._c), tuple(b._c)))


def reciprocal(a: Any) -> Any:
    """`1 / a`: the inverse."""
    cls = type(a)
    if cls.__meta__.kind == "matrix":
        return of_components(cls, [of_components(cls.Value, row) for row in _inverse(_rows(a))])
    return of_components(cls, formulas[cls.__meta__.kind, "rcp"](tuple(a._c)))


def power(a: Any, b: Any) -> Any:
    """`a ** b` where one is complex or a quaternion and the exponent is no integer."""
    cls, a, b = _both(a, b)
    if cls.__meta__.kind == "matrix":
        raise Incompatible("matrices only have integer powers")
    return of_components(cls, formulas[cls.__meta__.kind, "power"](tuple(a._c), tuple(b._c)))


def _kind(value: Any) -> str:
    return value.__meta__.kind if isinstance(value, ArrayBase) else ""


def _both(a: Any, b: Any) -> tuple[Any, Any, Any]:
    cls, operands = resolve((a, b))
    return cls, *[convert(cls, v) for v in operands]


def _rows(a: Any) -> list[list]:
    return [list(row._c) for row in a._c]


def _dot(a: Any, b: Any) -> Any:
    total = None
    for x, y in zip(a, b, strict=True):
        term = x * y
        total = term if total is None else total + term
    return total


def matrix_product(a: Any, b: Any) -> Any:
    """The product of two matrices, of a matrix and a column vector, or of a row vector and a
    matrix.

    Raises:
        RuntimeError: the types or sizes do not go together.
    """
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        other: Any = b if isinstance(a, (list, tuple)) else a
        size = other._size
        vector = table.find(other._namespace, "vector", other._dtype, (size,))
        a, b = (vector(v) if isinstance(v, (list, tuple)) else v for v in (a, b))
    ka, kb = _kind(a), _kind(b)
    if ka == kb == "matrix":
        cls, a, b = _both(a, b)
        columns = list(zip(*_rows(b), strict=True))
        rows = [[_dot(row, column) for column in columns] for row in _rows(a)]
        return of_components(cls, [of_components(cls.Value, row) for row in rows])
    matrix, vector = (a, b) if ka == "matrix" else (b, a)
    sizes = getattr(vector, "__meta__", None)
    if (
        _kind(vector) != "vector"
        or sizes is None
        or sizes.dims not in ((matrix._size,), (DYNAMIC,))
    ):
        raise Incompatible(
            f"cannot multiply {type_label(a)} and {type_label(b)}: a matrix goes with a matrix "
            "or a vector of its size"
        )
    if len(vector._c) != matrix._size:
        raise Incompatible(f"a matrix of {matrix._size} rows times {len(vector._c)} components")
    rows = _rows(matrix)
    if matrix is b:
        rows = [list(column) for column in zip(*rows, strict=True)]
    components = [_dot(row, vector._c) for row in rows]
    cls, _ = resolve((matrix._c[0], vector))
    return of_components(cls, components)


def _inverse(m: list[list]) -> list[list]:
    """The inverse by cofactors, over the determinant expanded along the first row (Laplace)."""
    n = len(m)
    if n == 1:
        return [[elementwise(op.div, 1.0, m[0][0])]]
    cofactors = [[_cofactor(m, i, j) for j in range(n)] for i in range(n)]
    determinant = _dot(m[0], cofactors[0])
    r = elementwise(op.div, 1.0, determinant)
    return [[cofactors[j][i] * r for j in range(n)] for i in range(n)]


def determinant(m: list[list]) -> Any:
    """The determinant of rows of components."""
    if len(m) == 1:
        return m[0][0]
    if len(m) == 2:
        return m[0][0] * m[1][1] - m[0][1] * m[1][0]
    return _dot(m[0], [_cofactor(m, 0, j) for j in range(len(m))])


def _cofactor(m: list[list], i: int, j: int) -> Any:
    minor = [[e for c, e in enumerate(row) if c != j] for r, row in enumerate(m) if r != i]
    value = determinant(minor)
    return value if (i + j) % 2 == 0 else -value

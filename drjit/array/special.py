"""Products of special arrays: matrices here, complex numbers and quaternions by formulas passed to
`register`.

A formula maps tuples of components to tuples of components.
"""

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..jit import flags
from ..jit.ir import op
from ..jit.ir.node import Node
from ..jit.trace.template import Template
from . import leaf, table
from .base import ArrayBase, type_label
from .elementwise import elementwise
from .inline import RECORDERS
from .leaf import new, wrap
from .meta import DYNAMIC, SPECIAL
from .promote import Incompatible, convert, number_type, resolve

formulas: dict[tuple[str, str], Callable] = {}


def register(kind: str, **functions: Callable) -> None:
    """Registers formulas of a kind: `mul`, `div` and `power` of two tuples of components, others of
    one; `abs` returns one component.
    """
    for name, function in functions.items():
        formulas[kind, name] = function


def kind_of(value: Any) -> str:
    """Returns the kind of an array; empty for other values."""
    return value.__meta__.kind if isinstance(value, ArrayBase) else ""


def is_special(value: Any) -> bool:
    """Returns whether a value is a complex number, a quaternion or a matrix."""
    return kind_of(value) in SPECIAL


def by_formula(name: str, value: Any) -> Any:
    """Returns the named function of a complex number or quaternion, or None if the value is neither
    or has no such function.
    """
    if not isinstance(value, ArrayBase):
        return None
    formula = formulas.get((value.__meta__.kind, name))
    return None if formula is None else type(value)(*formula(tuple(value._components)))


def of_components(cls: Any, components: Any) -> Any:
    """Returns an array of the class that takes over components; numbers of `drjit.scalar` are
    rounded to the element type.
    """
    if not issubclass(cls.Value, ArrayBase):
        return cls(list(components))
    r = new(cls)
    r._components = list(components)
    return r


def of_rows(cls: Any, components: Any, n: int) -> Any:
    """Returns a matrix of the class from its components in row-major order, with `n` per row."""
    return from_rows(cls, [components[k : k + n] for k in range(0, len(components), n)])


def is_scalar(value: Any) -> bool:
    """Returns whether a value is a number or a one-dimensional array."""
    return number_type(type(value)) is not None or (
        isinstance(value, ArrayBase) and value._kind == "leaf"
    )


def combine_with_scalar(factor: Any, value: Any, combine: Callable) -> Any:
    """Combines each component of a special array with a scalar."""
    cls, operands = resolve((value, factor))
    value = convert(cls, operands[0])
    return of_components(cls, [_each(c, operands[1], combine) for c in value._components])


def _each(component: Any, factor: Any, combine: Callable) -> Any:
    if isinstance(component, ArrayBase) and component._kind == "nested":
        return of_components(
            type(component), [_each(c, factor, combine) for c in component._components]
        )
    return combine(component, factor)


def product(a: Any, b: Any) -> Any:
    """Returns `a * b` if one of them is special.

    Raises:
        RuntimeError: the types are incompatible.
    """
    if is_scalar(b):
        return combine_with_scalar(b, a, operator.mul)
    if is_scalar(a):
        return combine_with_scalar(a, b, lambda c, s: s * c)
    if "matrix" in (kind_of(a), kind_of(b)):
        return matrix_product(a, b)
    return _combined("mul", a, b)


def quotient(a: Any, b: Any) -> Any:
    """Returns `a / b` if one of them is special.

    Raises:
        RuntimeError: the types are incompatible.
    """
    if is_scalar(b):
        return combine_with_scalar(b, a, _divided)
    kind = kind_of(b)
    if is_scalar(a):
        inverse = reciprocal(b)
        return (
            inverse
            if type(a) in (int, float) and a == 1
            else combine_with_scalar(a, inverse, operator.mul)
        )
    if kind == "matrix":
        return matrix_product(a, reciprocal(b))
    if kind_of(a) == "matrix":
        raise Incompatible(f"cannot divide {type_label(a)} by {type_label(b)}")
    return _combined("div", a, b)


def _divided(component: Any, divisor: Any) -> Any:
    """Returns the quotient of two numbers, infinite or NaN for 0, or of arrays."""
    is_python = isinstance(component, float)
    return elementwise(op.div, component, divisor) if is_python else component / divisor


def reciprocal(a: Any) -> Any:
    """Returns `1 / a`: the inverse."""
    cls = type(a)
    if cls.__meta__.kind == "matrix":
        n = cls._size
        found = traced_once(inverse_of, [c for row in a._components for c in row._components], n)
        return of_rows(cls, found, n)
    return of_components(cls, formulas[cls.__meta__.kind, "rcp"](tuple(a._components)))


def power(a: Any, b: Any) -> Any:
    """Returns `a ** b` if one is complex or a quaternion and the exponent is not an integer."""
    return _combined("power", a, b)


def _combined(name: str, a: Any, b: Any) -> Any:
    """Applies the named formula to operands of one kind, converted to their common class."""
    cls, a, b = _both(a, b)
    formula = formulas.get((cls.__meta__.kind, name))
    if formula is None:
        raise Incompatible("matrices only have integer powers")
    return of_components(cls, formula(tuple(a._components), tuple(b._components)))


def _both(a: Any, b: Any) -> tuple[Any, Any, Any]:
    cls, operands = resolve((a, b))
    return cls, *[convert(cls, v) for v in operands]


def rows_of(a: Any) -> list[list]:
    """The components of a matrix by rows."""
    return [list(row._components) for row in a._components]


def from_rows(cls: Any, rows: Any) -> Any:
    """A matrix of the class from components by rows."""
    return of_components(cls, [of_components(cls.Value, row) for row in rows])


def fma(a: Any, b: Any, c: Any) -> Any:
    """Returns `a * b + c` for components, rounded once if they are traced."""
    kind = type(a)
    if kind is type(b) and kind is type(c) and isinstance(a, ArrayBase) and a._kind == "leaf":
        found = _FMA[kind](a, b, c)
        return leaf.apply(op.fma, a, b, c) if found is None else found
    return a * b + c


_FMA = RECORDERS[op.fma]


def dot(a: Any, b: Any) -> Any:
    """Returns the sum of the products of components."""
    terms = zip(a, b, strict=True)
    x, y = next(terms)
    total = x * y
    for x, y in terms:
        total = fma(x, y, total)
    return total


# Functions composed of many operations on one-dimensional arrays, such as a matrix inverse, are
# traced once. Their trace is then instantiated for other arrays.


def traced_once(function: Callable, arrays: Sequence[Any], *args: Any) -> Sequence[Any]:
    """Evaluates `function(arrays, *args)`, which takes and returns arrays or numbers of one class,
    and is traced only once. It must do nothing but arithmetic, whatever the arrays contain, and
    `args` must be hashable.
    """
    cls = type(arrays[0])
    if not flags.current & 1 and issubclass(cls, ArrayBase) and cls._kind == "leaf":
        for a in arrays:
            if type(a) is not cls or a._var is not None:
                break
        else:
            template, classes = _template(function, cls, len(arrays), args)
            nodes = template((), [a._node for a in arrays])
            if nodes is not None:
                return [*map(wrap, classes, nodes)]
    return function(arrays, *args)


@lru_cache(maxsize=256)
def _template(function: Callable, cls: Any, count: int, args: tuple) -> tuple[Template, list[Any]]:
    """Returns the template of a function, and the classes of its results."""
    classes: list[Any] = []

    def trace(_: list[Node], lanes: list[Node]) -> list[Node]:
        found = function([wrap(cls, n) for n in lanes], *args)
        classes.extend(map(type, found))
        return [a._node for a in found]

    return Template(trace, (), [cls._dtype] * count), classes


def matrix_product(a: Any, b: Any) -> Any:
    """Returns the product of two matrices, of a matrix and a column vector, or of a row vector and
    a matrix.

    Raises:
        RuntimeError: the types or sizes are incompatible.
    """
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        other: Any = b if isinstance(a, (list, tuple)) else a
        vector = table.find(other._namespace, "vector", other._dtype, (other._size,))
        a, b = (vector(v) if isinstance(v, (list, tuple)) else v for v in (a, b))
    ka, kb = kind_of(a), kind_of(b)
    if ka == kb == "matrix":
        cls, a, b = _both(a, b)
        n = len(a._components)
        operands = [c for m in (a, b) for row in m._components for c in row._components]
        return of_rows(cls, traced_once(_products, operands, n), len(b._components[0]._components))
    matrix, vector = (a, b) if ka == "matrix" else (b, a)
    sizes = getattr(vector, "__meta__", None)
    if (
        kind_of(vector) != "vector"
        or sizes is None
        or sizes.dims not in ((matrix._size,), (DYNAMIC,))
    ):
        raise Incompatible(
            f"cannot multiply {type_label(a)} and {type_label(b)}: a matrix goes with a matrix "
            "or a vector of its size"
        )
    if len(vector._components) != matrix._size:
        raise Incompatible(
            f"a matrix of {matrix._size} rows times {len(vector._components)} components"
        )
    cls, _ = resolve((matrix._components[0], vector))
    rows: Any = [row._components for row in matrix._components]
    if matrix is b:
        rows = zip(*rows, strict=True)
    operands = [*(c for row in rows for c in row), *convert(cls, vector)._components]
    return of_components(cls, traced_once(_times_vector, operands, matrix._size))


def _times_vector(operands: list, n: int) -> list:
    """Returns the components of the product of a matrix with `n` columns and a vector."""
    vector = operands[-n:]
    return [dot(operands[k : k + n], vector) for k in range(0, len(operands) - n, n)]


def _products(operands: list, n: int) -> list:
    """Returns the components of the product of two matrices with `n` rows."""
    half = len(operands) // 2
    m = half // n
    rows = [operands[k : k + m] for k in range(0, half, m)]
    columns = [operands[half + k :: m] for k in range(m)]
    return [dot(row, column) for row in rows for column in columns]


def inverse_of(components: list, n: int) -> list:
    """Returns the inverse: cofactors over the determinant."""
    m = [components[k : k + n] for k in range(0, n * n, n)]
    if n == 1:
        return [elementwise(op.div, 1.0, m[0][0])]
    if n == 4:
        upper, lower = _minors(m[0], m[1]), _minors(m[2], m[3])
        cofactors = [[_cofactor4(m, upper, lower, i, j) for j in range(4)] for i in range(4)]
        total = _determinant4(upper, lower)
    else:
        cofactors = [[_cofactor(m, i, j) for j in range(n)] for i in range(n)]
        total = dot(m[0], cofactors[0])
    r = elementwise(op.div, 1.0, total)
    return [cofactors[j][i] * r for i in range(n) for j in range(n)]


# Matrices with four rows: Laplace expansion by minors of the upper and the lower two rows.

_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
Minors = dict[tuple[int, int], Any]


def _minors(x: list, y: list) -> Minors:
    """Returns the determinants of all pairs of columns of two rows; (j, i) has the opposite sign of
    (i, j)."""
    found = {}
    for i, j in _PAIRS:
        found[i, j] = value = dot((x[i], -x[j]), (y[j], y[i]))
        found[j, i] = -value
    return found


def _determinant4(upper: Minors, lower: Minors) -> Any:
    others = ((2, 3), (3, 1), (1, 2), (0, 3), (2, 0), (0, 1))
    return dot([upper[pair] for pair in _PAIRS], [lower[pair] for pair in others])


def _cofactor4(m: list[list], upper: Minors, lower: Minors, i: int, j: int) -> Any:
    """Returns the determinant without row i and column j, from the remaining row of its half and
    the minors of the other half."""
    a, b, c = (k for k in range(4) if k != j)
    row, minors = (m[1 - i], lower) if i < 2 else (m[5 - i], upper)
    if (i + j) % 2:
        b, c = c, b
    return dot((row[a], row[b], row[c]), (minors[b, c], minors[c, a], minors[a, b]))


def determinant(m: list[list]) -> Any:
    """Returns the determinant, given rows of components."""
    if len(m) == 1:
        return m[0][0]
    if len(m) == 2:
        (a, b), (c, d) = m
        return dot((a, -b), (d, c))
    if len(m) == 4:
        return _determinant4(_minors(m[0], m[1]), _minors(m[2], m[3]))
    return dot(m[0], [_cofactor(m, 0, j) for j in range(len(m))])


def _cofactor(m: list[list], i: int, j: int) -> Any:
    minor = [[e for c, e in enumerate(row) if c != j] for r, row in enumerate(m) if r != i]
    value = determinant(minor)
    return value if (i + j) % 2 == 0 else -value

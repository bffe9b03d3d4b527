"""Sums of products of tensors in Einstein's notation, by products of matrices where possible."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

from ...array.base import type_label
from ...array.promote import convert, promote
from ...array.tensor import transposed
from ...jit.ir import dtype as dt
from .. import conversion
from ..conversion import is_array, is_flat, tensor, with_dtype
from ..data.reduce import sum as total
from ..data.reorder import reshaped
from .matmul import matmul

WHAT = "dr.einsum"


def einsum(subscripts: str, /, *operands: Any) -> Any:
    """Returns the sum of products of tensors that a formula such as `"ij,jk->ik"` describes, as
    `numpy.einsum` does.

    Each letter names an axis: operands are multiplied along axes of the same name, and summed along
    those that the result does not name. A letter that occurs twice in an operand takes its
    diagonal; `...` stands for any number of axes, which are broadcast, as are axes of size 1.
    Without `->`, the result has `...` and the letters that occur once, in alphabetical order.
    Operands are tensors of one or several types, or one-dimensional arrays; the result is a tensor.

    Two operands at a time become a product of matrices (`matmul`), first those with the smallest
    product. Sums of `float16` are accumulated in `float32`. Integers are multiplied entry by entry,
    and then summed.

    Raises:
        ValueError: the formula is malformed, or does not fit the operands' shapes.
        TypeError: an operand is neither a tensor nor a one-dimensional array of numbers.

    >>> a, b = TensorXf([[1, 2], [3, 4]]), TensorXf([5, 6])
    >>> dr.einsum("ij,j->i", a, b)
    [17, 39]
    >>> dr.einsum("ii", a), dr.einsum("ji", a)
    (5, [[1, 3],
     [2, 4]])
    >>> dr.einsum("...i,i->...", dr.ones(TensorXf, (2, 3, 2)), b).shape
    (2, 3)
    """
    tensors = _operands(operands)
    shapes = tuple([t._shape for t in tensors])
    if not isinstance(subscripts, str):
        raise TypeError(f"{WHAT}(): the formula must be a string, not {type_label(subscripts)}")
    try:
        labels, result = _parsed(subscripts, tuple(map(len, shapes)))
        sizes = _sizes(labels, shapes)
    except ValueError as error:
        raise ValueError(f"{WHAT}({subscripts!r}): {error}; the shapes are {shapes}") from None
    cls = type(tensors[0])
    if cls._dtype is dt.f16 and not _is_matrix_product(labels, result):
        # Rounded once, at the end.
        tensors = [with_dtype(cls, dt.f32)(t) for t in tensors]
    factors = [_plain(t, axes, sizes) for t, axes in zip(tensors, labels, strict=True)]
    while len(factors) > 1:
        i, j = _smallest([axes for _, axes in factors], result, sizes)
        b, a = factors.pop(j), factors.pop(i)
        rest = {*result}.union(*[axes for _, axes in factors])
        a, b = _summed(a, rest.union(b[1])), _summed(b, rest.union(a[1]))
        factors.insert(i, _product(a, b, rest))
    found, axes = _summed(factors[0], {*result})
    found = transposed(found, [axes.index(x) for x in result], WHAT)
    return found if type(found) is cls else cls(found)


Labels: TypeAlias = tuple[str | int, ...]
"""Names of axes: letters, and for those that dots stand for, their places from the end."""
Factor: TypeAlias = tuple[Any, Labels]


def _operands(given: tuple) -> list[Any]:
    """Returns tensors of one type."""
    found = []
    for x in given:
        flat = is_array(x) and (x._kind == "tensor" or is_flat(type(x)))
        if not flat or x._dtype.is_mask:
            raise conversion.unexpected(WHAT, "tensors or one-dimensional arrays of numbers", x)
        found.append(conversion.as_tensor(x))
    if not found:
        raise ValueError(f"{WHAT}(): no operands were given")
    cls = type(promote(*[type(x)() for x in found], name=WHAT)[0])
    return [tensor(cls, convert(cls.Array, x._array), x._shape) for x in found]


@lru_cache(256)
def _parsed(formula: str, ranks: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """Returns the names of the axes of each operand and of the result."""
    given, arrow, result = formula.replace(" ", "").partition("->")
    terms = given.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"it names {len(terms)} operands, but {len(ranks)} are given")
    labels = [_term(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    used = [x for axes in labels for x in axes]
    dots = sorted({x for x in used if isinstance(x, int)})
    if not arrow:
        return labels, (
            *dots,
            *sorted(x for x in used if isinstance(x, str) and used.count(x) == 1),
        )
    named = _term(result, len(result.replace("...", "")) + len(dots) * ("..." in result))
    for x in named:
        if x not in used or named.count(x) > 1:
            problem = "occurs twice in the result" if x in used else "occurs in no operand"
            raise ValueError(f"{x!r} {problem}")
    return labels, named


def _term(text: str, rank: int) -> Labels:
    first, dots, last = text.partition("...")
    letters = first + last
    if letters and not (letters.isascii() and letters.isalpha()):
        raise ValueError(f"{text!r} is no sequence of letters with at most one '...'")
    others = rank - len(letters)
    if others < 0 or (others and not dots):
        raise ValueError(f"{text!r} names {len(letters)} axes of an operand that has {rank}")
    return (*first, *range(-others, 0), *last)


def _sizes(labels: Sequence[Labels], shapes: Sequence[tuple[int, ...]]) -> dict[str | int, int]:
    sizes: dict[str | int, int] = {}
    for axes, shape in zip(labels, shapes, strict=True):
        for x, n in zip(axes, shape, strict=True):
            known = sizes.setdefault(x, n)
            if known != n and 1 not in (known, n):
                name = repr(x) if isinstance(x, str) else f"number {x} of '...'"
                raise ValueError(f"the axis {name} has the sizes {known} and {n}")
            sizes[x] = n if known == 1 else known
    return sizes


def _is_matrix_product(labels: Sequence[Labels], result: Labels) -> bool:
    a, b, *more = map(set, [*labels, ()])
    return len(more) == 1 and bool((a & b).difference(result)) and set() < a ^ b <= {*result}


def _plain(t: Any, axes: Labels, sizes: dict[str | int, int]) -> Factor:
    """Returns an operand without axes to broadcast, and with diagonals in place of names that occur
    twice."""
    kept = [a for a, x in enumerate(axes) if t._shape[a] == sizes[x]]
    t, axes = reshaped(t, [t._shape[a] for a in kept]), tuple([axes[a] for a in kept])
    for x in {x for x in axes if axes.count(x) > 1}:
        while axes.count(x) > 1:
            n = sizes[x]
            pair = [a for a, y in enumerate(axes) if y == x][:2]
            rest = [a for a in range(len(axes)) if a not in pair]
            t = transposed(t, [*pair, *rest], WHAT)
            t = reshaped(t, (n * n, *t._shape[2:]))[:: n + 1]
            axes = (x, *[axes[a] for a in rest])
    return t, axes


def _summed(factor: Factor, kept: set) -> Factor:
    """Returns a factor summed over the axes that are not kept."""
    t, axes = factor
    gone = tuple([a for a, x in enumerate(axes) if x not in kept])
    return (total(t, axis=gone), tuple([x for x in axes if x in kept])) if gone else factor


def _smallest(
    factors: Sequence[Labels], result: Labels, sizes: dict[str | int, int]
) -> tuple[int, int]:
    """Returns which two factors have the product with the fewest entries."""

    def entries(pair: tuple[int, int]) -> int:
        others = {*result}.union(*[f for k, f in enumerate(factors) if k not in pair])
        return prod(sizes[x] for x in others.intersection(factors[pair[0]] + factors[pair[1]]))

    return min(combinations(range(len(factors)), 2), key=entries)


def _product(a: Factor, b: Factor, kept: set) -> Factor:
    """Returns the product of two factors, summed over common axes that are not kept."""
    (x, of_x), (y, of_y) = a, b
    batch = [n for n in of_x if n in of_y and n in kept]
    inner = [n for n in of_x if n in of_y and n not in kept]
    rows, columns = [n for n in of_x if n not in of_y], [n for n in of_y if n not in of_x]
    if inner and (rows or columns) and x._dtype.is_float:
        x, at = _matrices(a, batch, rows, inner)
        y, bt = _matrices(b, batch, inner, columns)
        found = matmul(x, y, at, bt)
    else:
        x, y = _ordered(a, batch, rows, (), inner), _ordered(b, batch, (), columns, inner)
        found = total(x * y, axis=-1)
    size = dict(zip(of_x + of_y, a[0]._shape + b[0]._shape, strict=True))
    axes = (*batch, *rows, *columns)
    return reshaped(found, [size[n] for n in axes]), axes


def _ordered(factor: Factor, batch: Sequence, *groups: Sequence) -> Any:
    """Returns a tensor whose first axes are those of the batch, followed by one for each group."""
    t, axes = factor
    size = dict(zip(axes, t._shape, strict=True))
    t = transposed(t, [axes.index(x) for x in (*batch, *[x for g in groups for x in g])], WHAT)
    return reshaped(t, [*[size[x] for x in batch], *[prod(size[x] for x in g) for g in groups]])


def _matrices(factor: Factor, batch: list, rows: list, columns: list) -> tuple[Any, bool]:
    """Returns a tensor of matrices, and whether they are transposed, if it is stored like that."""
    swapped = factor[1] == (*batch, *columns, *rows) and bool(rows)
    groups = (columns, rows) if swapped else (rows, columns)
    return _ordered(factor, batch, *groups), swapped

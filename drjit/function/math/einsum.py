"""Sums of products of tensors in Einstein's notation, by products of matrices where possible."""

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain, combinations
from math import prod
from typing import Any, TypeAlias

from ...array.base import type_label
from ...array.promote import promote
from ...array.tensor import transposed
from .. import conversion
from ..conversion import flat_index, in_single, is_array, is_flat, places, take_entries, tensor
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

    computed = partial(_contracted, labels, result, sizes)
    if _is_matrix_product(labels, result):
        return computed(*tensors)
    return in_single(computed, *tensors)  # half precision is rounded once, at the end


Labels: TypeAlias = tuple[str | int, ...]
"""Names of axes: letters, and for those that dots stand for, their places from the end."""
Sizes: TypeAlias = dict[str | int, int]
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
    return promote(*found, name=WHAT)


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
        once = sorted(x for x in {*used} - {*dots} if used.count(x) == 1)
        return labels, (*dots, *once)
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


def _sizes(labels: Sequence[Labels], shapes: Sequence[tuple[int, ...]]) -> Sizes:
    sizes: Sizes = {}
    for axes, shape in zip(labels, shapes, strict=True):
        for x, n in zip(axes, shape, strict=True):
            known = sizes.setdefault(x, n)
            if known != n and 1 not in (known, n):
                name = repr(x) if isinstance(x, str) else f"number {x} of '...'"
                raise ValueError(f"the axis {name} has the sizes {known} and {n}")
            sizes[x] = n if known == 1 else known
    return sizes


def _is_matrix_product(labels: Sequence[Labels], result: Labels) -> bool:
    if len(labels) != 2:
        return False
    a, b = map(set, labels)
    return bool((a & b).difference(result)) and set() < a ^ b <= {*result}


def _contracted(labels: Sequence[Labels], result: Labels, sizes: Sizes, *tensors: Any) -> Any:
    """Returns the sum of products, of two tensors at a time."""
    factors = [_plain(t, axes, sizes) for t, axes in zip(tensors, labels, strict=True)]
    while len(factors) > 1:
        i, j = _smallest([axes for _, axes in factors], result, sizes)
        b, a = factors.pop(j), factors.pop(i)
        rest = {*result}.union(*[axes for _, axes in factors])
        a, b = _summed(a, rest.union(b[1])), _summed(b, rest.union(a[1]))
        factors.insert(i, _product(a, b, rest, sizes))
    return _grouped(_summed(factors[0], {*result}), sizes, result)


def _plain(t: Any, axes: Labels, sizes: Sizes) -> Factor:
    """Returns an operand without axes to broadcast, and with diagonals in place of names that occur
    twice."""
    kept = [x for x, n in zip(axes, t._shape, strict=True) if n == sizes[x]]
    names = tuple(dict.fromkeys(kept))
    shape = [sizes[x] for x in names]
    if len(kept) == len(names):
        return reshaped(t, shape), names

    def index(i: Any) -> Any:
        place = dict(zip(names, places(i, shape), strict=True))
        return flat_index([place.get(x, 0) for x in axes], t._shape)

    return tensor(type(t), take_entries(t._array, prod(shape), index, WHAT), tuple(shape)), names


def _summed(factor: Factor, kept: set) -> Factor:
    """Returns a factor summed over the axes that are not kept."""
    t, axes = factor
    gone = tuple([a for a, x in enumerate(axes) if x not in kept])
    return (total(t, axis=gone), tuple([x for x in axes if x in kept])) if gone else factor


def _smallest(factors: Sequence[Labels], result: Labels, sizes: Sizes) -> tuple[int, int]:
    """Returns which two factors have the product with the fewest entries."""

    def entries(pair: tuple[int, int]) -> int:
        others = {*result}.union(*[f for k, f in enumerate(factors) if k not in pair])
        return prod(sizes[x] for x in others.intersection(factors[pair[0]] + factors[pair[1]]))

    return min(combinations(range(len(factors)), 2), key=entries)


def _product(a: Factor, b: Factor, kept: set, sizes: Sizes) -> Factor:
    """Returns the product of two factors, summed over common axes that are not kept."""
    of_a, of_b = a[1], b[1]
    batch = [n for n in of_a if n in of_b and n in kept]
    inner = [n for n in of_a if n in of_b and n not in kept]
    rows, columns = [n for n in of_a if n not in of_b], [n for n in of_b if n not in of_a]
    if inner and (rows or columns) and a[0]._dtype.is_float:
        # Matrices stay transposed if they are stored like that.
        at = bool(rows) and of_a == (*batch, *inner, *rows)
        bt = of_b == (*batch, *columns, *inner)
        x = _grouped(a, sizes, batch, *((inner, rows) if at else (rows, inner)))
        y = _grouped(b, sizes, batch, *((columns, inner) if bt else (inner, columns)))
        found = matmul(x, y, at, bt)
    else:
        x = _grouped(a, sizes, batch, rows, (), inner)
        y = _grouped(b, sizes, batch, (), columns, inner)
        found = total(x * y, axis=-1)
    axes = (*batch, *rows, *columns)
    return reshaped(found, [sizes[n] for n in axes]), axes


def _grouped(factor: Factor, sizes: Sizes, first: Sequence, *groups: Sequence) -> Any:
    """Returns a tensor whose first axes have these names, followed by one for each group."""
    t, axes = factor
    t = transposed(t, [axes.index(x) for x in (*first, *chain(*groups))], WHAT)
    return reshaped(t, [*[sizes[x] for x in first], *[prod(sizes[x] for x in g) for g in groups]])

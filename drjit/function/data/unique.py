"""The distinct entries of an array."""

from typing import Any

from ...jit.ir import dtype as dt
from ..conversion import flat_class, is_array, is_flat, tensor, tensor_class, unexpected
from .create import arange, zeros
from .layout import compress
from .memory import gather, scatter
from .scan import cumsum
from .shape import concat
from .sorting import argsort


def unique(
    value: Any,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Returns the distinct entries of a one-dimensional array or a tensor in increasing order, as
    `numpy.unique` does: a one-dimensional array or tensor.

    On request, a tuple with it also has, as 32-bit unsigned integers, the position of each distinct
    entry's first occurrence among all entries (`return_index`), the position of each entry among
    the distinct ones, in the shape of the argument (`return_inverse`), and how often each occurs
    (`return_counts`). NaN is larger than every number, and equal to itself. Gradients reach the
    first occurrences.

    How many entries there are depends on values, so this evaluates the argument: it cannot be part
    of a symbolic loop or branch.

    Raises:
        TypeError: the argument is neither a tensor nor a one-dimensional array.

    >>> dr.unique(Float(3, 1, 3, 2))
    [1, 2, 3]
    >>> dr.unique(UInt(7, 5, 7), return_index=True, return_inverse=True, return_counts=True)
    ([5, 7], [1, 0], [1, 0, 1], [1, 2])
    """
    what = "dr.unique"
    if not is_array(value) or not (value._kind == "tensor" or is_flat(type(value))):
        raise unexpected(what, "a tensor or a one-dimensional array", value)
    flat = value._array if value._kind == "tensor" else value
    cls, index_cls, n = type(flat), flat_class(type(flat), dt.u32), len(flat)

    def shaped(x: Any, shape: tuple[int, ...] | None = None) -> Any:
        return x if flat is value else tensor(tensor_class(type(x)), x, shape or (len(x),))

    order, place = argsort(flat), arange(index_cls, n)
    entries = gather(cls, flat, order)
    before = gather(cls, entries, place - index_cls(place > 0))
    equal = (entries == before) | ((entries != entries) & (before != before))
    first = (place == 0) | ~equal
    starts = compress(first)
    found = [shaped(gather(cls, entries, starts))]
    if return_index:
        found.append(shaped(gather(index_cls, order, starts)))
    if return_inverse:
        inverse = zeros(index_cls, n)
        scatter(inverse, cumsum(index_cls(first)) - 1, order)
        found.append(shaped(inverse, value.shape))
    if return_counts:
        bounds = concat([starts, index_cls(n)])
        found.append(shaped(bounds[1:] - bounds[:-1]))
    return tuple(found) if len(found) > 1 else found[0]

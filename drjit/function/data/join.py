"""Stacking and splitting of tensors along an axis."""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...array import signatures
from ...array.promote import promote
from ...jit.lazy import np
from ..arguments import integer, unexpected
from ..conversion import as_tensor, is_array, normalized_axis
from .reorder import expand_dims, reshaped, tensor_argument
from .shape import concat_tensors

if TYPE_CHECKING:
    from ...array.signatures import TensorT


def _tensors(arrays: Any, what: str) -> list[Any]:
    """Converts the arguments to tensors of one type."""
    if not isinstance(arrays, (list, tuple)):
        raise unexpected(what, "a sequence of tensors", arrays)
    if not arrays:
        raise RuntimeError(f"{what}(): at least one tensor is needed")
    found = []
    for a in arrays:
        if not is_array(a):
            raise unexpected(what, "tensors or arrays", a)
        found.append(as_tensor(a))
    classes = [type(a) for a in found]
    if len(set(classes)) > 1:
        # Promotion broadcasts nothing here: empty tensors are only used for their type.
        cls = type(promote(*[c() for c in classes])[0])
        found = [cls(a) for a in found]
    return found


@signatures.stacking_along
def stack(arrays: Sequence[Any], /, axis: int = 0) -> Any:
    """Joins tensors of the same shape along a new axis. Other arrays are first converted to
    tensors.

    Raises:
        RuntimeError: there are none, or the axis is out of bounds.
        TypeError: an argument is not an array, or shapes differ.

    >>> from drjit.llvm import TensorXf
    >>> stack([TensorXf([1, 2]), TensorXf([3, 4])], axis=1)
    [[1, 3],
     [2, 4]]
    """
    what = "dr.stack"
    found = _tensors(arrays, what)
    shape = found[0]._shape
    for number, a in enumerate(found):
        if a._shape != shape:
            raise TypeError(
                f"{what}(): all inputs must have the same shape, but tensor {number} has "
                f"{a._shape} and tensor 0 has {shape}"
            )
    place = normalized_axis(operator.index(axis), len(shape) + 1, f"{what}()")
    return concat_tensors([expand_dims(a, place) for a in found], place, what)


def _at_least(ndim: int, a: Any) -> Any:
    """Returns a tensor with at least `ndim` dimensions, like NumPy's `atleast_1d`, `atleast_2d` and
    `atleast_3d`."""
    shape = a._shape
    if ndim == 3 and len(shape) in (1, 2):
        return reshaped(a, (*(1,) * (2 - len(shape)), *shape, 1))
    return reshaped(a, (1,) * (ndim - len(shape)) + shape) if len(shape) < ndim else a


@signatures.stacking
def vstack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the first axis; one-dimensional ones are rows.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.

    >>> from drjit.llvm import Float
    >>> vstack([Float(1, 2), Float(3, 4)])
    [[1, 2],
     [3, 4]]
    """
    what = "dr.vstack"
    return concat_tensors([_at_least(2, a) for a in _tensors(arrays, what)], 0, what)


row_stack = vstack


@signatures.stacking
def hstack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the second axis, or one-dimensional ones along their only axis.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.
    """
    what = "dr.hstack"
    found = [_at_least(1, a) for a in _tensors(arrays, what)]
    return concat_tensors(found, 0 if len(found[0]._shape) == 1 else 1, what)


@signatures.stacking
def column_stack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the second axis; one-dimensional ones are columns.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.
    """
    what = "dr.column_stack"
    found = []
    for a in _tensors(arrays, what):
        a = _at_least(1, a)
        found.append(expand_dims(a, 1) if len(a._shape) == 1 else a)
    return concat_tensors(found, 1, what)


@signatures.stacking
def dstack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the third axis, which is added if missing; one-dimensional ones are rows.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.
    """
    what = "dr.dstack"
    return concat_tensors([_at_least(3, a) for a in _tensors(arrays, what)], 2, what)


# Splitting


def _pieces(value: Any, ends: Sequence[int | None], axis: int) -> list[Any]:
    """Returns the tensors between consecutive positions along an axis."""
    lead = (slice(None),) * axis
    starts = [0, *ends[:-1]]
    return [value[(*lead, slice(a, b))] for a, b in zip(starts, ends, strict=True)]


def _sections(count: Any, what: str) -> int:
    n = integer(count, f"{what}(): expected a number of parts or a list of positions, not")
    if n <= 0:
        raise ValueError(f"{what}(): the number of parts must be positive, got {n}")
    return n


def split(
    value: "TensorT", indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> "list[TensorT]":
    """Splits a tensor along an axis into equal parts, or at the given positions.

    Raises:
        TypeError: the value is not a tensor.
        RuntimeError: it cannot be cut into that many equal parts, or the axis is out of bounds.
        ValueError: the number of parts is not positive.

    >>> from drjit.llvm import TensorXf
    >>> split(TensorXf([1, 2, 3, 4]), [1, 3])
    [[1], [2, 3], [4]]
    """
    what = "dr.split"
    place, n = _axis_of(value, axis, what)
    if isinstance(indices_or_sections, (list, tuple)):
        expected = f"{what}(): expected a number of parts or a list of positions, not"
        return _pieces(value, [*[integer(i, expected) for i in indices_or_sections], None], place)
    count = _sections(indices_or_sections, what)
    if n % count:
        raise RuntimeError(
            f"{what}(): axis {place} of size {n} cannot be equally split into {count} parts; "
            "dr.array_split() makes parts of different sizes"
        )
    return array_split(value, count, place)


def array_split(
    value: "TensorT", sections: int | Sequence[int], /, axis: int = 0
) -> "list[TensorT]":
    """Splits a tensor along an axis into a number of parts, the first of which may be longer by
    one.

    Raises:
        TypeError: the value is not a tensor.
        RuntimeError: the axis is out of bounds.
        ValueError: the number of parts is not positive.
    """
    what = "dr.array_split"
    place, n = _axis_of(value, axis, what)
    if isinstance(sections, (list, tuple)):
        return split(value, sections, place)
    count = _sections(sections, what)
    sizes = [n // count + (k < n % count) for k in range(count)]
    return _pieces(value, np.cumsum(sizes).tolist(), place)


def _axis_of(value: Any, axis: int, what: str) -> tuple[int, int]:
    shape = tensor_argument(value, what)._shape
    place = normalized_axis(operator.index(axis), len(shape), f"{what}()")
    return place, shape[place]

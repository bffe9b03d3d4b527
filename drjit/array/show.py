"""Arrays as text, the implementation of `repr`; and the shapes of arrays, which it is based on.

Only the entries shown are read. Lanes come first: an array of 3D vectors is printed vector by
vector, although it is stored component by component.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir.node import Node
from ..jit.ir.scope import recording
from ..jit.run import launch, schedule, stages
from ..jit.text.structure import is_open
from .base import ArrayBase, listed, type_label

LIMIT = 20
_EDGE = 3  # entries shown at either end of a truncated axis
_UNITS = {"complex": ("", "j"), "quaternion": ("i", "j", "k", "")}

Cell = Callable[[tuple[int, ...]], Any]


def is_array(value: Any) -> bool:
    """Returns whether a value is a Dr.Jit array of any kind."""
    return isinstance(value, ArrayBase)


def array_repr(value: Any, limit: int = LIMIT) -> str:
    """Returns an array as text; the middle of an axis with more than `limit` entries is omitted
    (never, if negative).

    Evaluates the array.

    Raises:
        RuntimeError: it is a value of a loop, branch or call that is being recorded.
    """
    if recording() and value.__meta__.is_jit and any(is_open(a._node) for a in _leaves(value)):
        raise stages.symbolic(_name_of(value))
    if value._kind == "tensor":
        return _text(value._shape, flat_cell(value._array, value._shape), 0, limit)
    shape = component_shape(value)
    if shape is None:
        return "[ragged array]"
    meta = value.__meta__
    units = _UNITS.get(meta.kind)
    leaves, places = list(innermost(value)), product(*map(range, shape))
    text = entry_text(value._dtype)
    if meta.is_jit:
        lanes = common_width(leaves)
        if lanes is None:
            return "[ragged array]"
        shape = (lanes, *shape)
        leaves = [*map(reader, evaluated(leaves))]
    parts = dict(zip(places, leaves, strict=True))

    def cell(index: tuple[int, ...]) -> str:
        return text(parts[index[1:]](index[0]) if meta.is_jit else parts[index])

    if units is None:
        return _text(shape, cell, 0, limit)

    def number(index: tuple[int, ...]) -> str:
        return _sum_text([cell((*index, k)) for k in range(len(units))], units)

    return _text(shape[:-1], number, 0, limit, ",\n ")


def _leaves(value: Any) -> list[Any]:
    return [value._array] if value._kind == "tensor" else list(innermost(value))


def _name_of(value: Any) -> str:
    """Returns the name by which the program that prints an array refers to it."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("drjit."):
        frame = frame.f_back
    return next((name for name, v in frame.f_locals.items() if v is value), "x")


def ragged(value: Any, what: str) -> RuntimeError:
    """Returns the error to raise for an array whose components differ in size."""
    parts = innermost(value) if value.__meta__.is_jit else value._components
    sizes = [p._node.size if p._kind == "leaf" else len(p._components) for p in parts]
    return RuntimeError(
        f"{what}: the input is ragged (it does not have a consistent size): the components of a "
        f"{type_label(value)} have the sizes {listed(sizes)}"
    )


def component_shape(value: Any) -> tuple[int, ...] | None:
    """Returns the numbers of components of a nested array by level, or None if they vary."""
    if not is_array(value) or value._kind == "leaf":
        return ()
    parts = value._components
    if value.Value is value._leaf:
        return (len(parts),)
    shapes = {component_shape(c) for c in parts}
    if len(shapes) > 1 or None in shapes:
        return None
    below = shapes.pop() if shapes else ()
    return (len(parts), *(below or ()))


def innermost(value: Any) -> Iterator[Any]:
    """Yields the innermost components of a nested array: leaf arrays, or numbers in
    `drjit.scalar`."""
    if not is_array(value) or value._kind == "leaf":
        yield value
    elif value.Value is value._leaf:
        yield from value._components
    else:
        for c in value._components:
            yield from innermost(c)


def common_width(leaves: Sequence[Any]) -> int | None:
    """Returns the common number of lanes of leaf arrays, where single lanes are broadcast; None if
    they disagree."""
    widths = {leaf._node.size for leaf in leaves}
    widths = widths - {1} or widths
    return None if len(widths) > 1 else widths.pop() if widths else 0


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Returns the sizes of all dimensions of an array, lanes last; None if components differ in
    size."""
    if value._kind == "tensor":
        return value._shape
    if value._kind == "leaf":
        return (value._node.size,)
    sizes = component_shape(value)
    if sizes is None or not value.__meta__.is_jit:
        return sizes
    lanes = common_width(list(innermost(value)))
    return None if lanes is None else (*sizes, lanes)


def reader(n: Node) -> Callable[[int], Any]:
    """Returns a function that reads entries of an evaluated value as Python numbers; a single entry
    is broadcast."""
    if n.is_literal:
        return lambda _: n.data
    data = launch.entries(n.dtype, n.size, n.data)
    if n.size == 1:
        return lambda _: data[0]
    return data.__getitem__


def evaluated(leaves: Sequence[Any]) -> list[Node]:
    """Returns the nodes of leaf arrays after evaluating them."""
    nodes = [leaf._node for leaf in leaves]
    schedule.complete(nodes, leaves[0]._device if leaves else None)
    return nodes


def flat_cell(array: Any, shape: tuple[int, ...]) -> Cell:
    """Returns the cell function of a tensor: entries of its flat array in row-major order."""
    text = entry_text(array._dtype)
    is_leaf = array._kind == "leaf"
    read = reader(evaluated([array])[0]) if is_leaf else array._components.__getitem__
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    return lambda index: text(read(sum(i * s for i, s in zip(index, strides, strict=True))))


def entry_text(dtype: dt.DType) -> Callable[[Any], str]:
    return number_text if dtype.is_float else str


def number_text(x: float) -> str:
    """Formats a floating point number with up to six significant digits."""
    return f"{x:g}"


def _sum_text(parts: list[str], units: tuple[str, ...]) -> str:
    """Formats `1+2j` from its parts, omitting those that are zero."""
    text = ""
    for part, unit in zip(parts, units, strict=True):
        if part not in ("0", "-0"):
            sign = "+" if text and not part.startswith("-") else ""
            text += sign + part + unit
    return text or "0"


def _text(
    shape: tuple[int, ...],
    cell: Cell,
    depth: int,
    limit: int,
    separator: str = "",
    index: tuple = (),
) -> str:
    """Formats nested brackets over the axes of `shape`; `separator` separates innermost entries."""
    if not shape:
        return cell(index)
    n, *rest = shape
    between = ",\n" + " " * (depth + 1) if len(shape) > 1 or separator else ", "
    whole = limit < 0 or n <= max(limit, 2 * _EDGE)
    shown = [*range(n)] if whole else [*range(_EDGE), *range(n - _EDGE, n)]
    places = [(*index, i) for i in shown]
    entries = [_text(tuple(rest), cell, depth + 1, limit, separator, at) for at in places]
    if not whole:
        entries.insert(_EDGE, f".. {n - len(shown)} skipped ..")
    return "[" + between.join(entries) + "]"

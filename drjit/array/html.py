"""Arrays as small tables, which notebooks show: a row for each lane, a column for each component.
Only the entries shown are read."""

from collections.abc import Callable, Sequence
from html import escape
from itertools import product
from math import prod
from typing import Any

from ..jit.ir.scope import recording
from ..jit.text.structure import is_open
from . import show
from .base import type_label

_ROWS, _COLUMNS = 10, 12  # that are shown
_EDGE = 4  # of more, so many at either end
_PARTS = {"complex": ("real", "imag"), "quaternion": ("i", "j", "k", "real")}

# Legible on light and on dark pages, because a page does not tell which it is.
_CELL = "border:0;padding:0 .7em;text-align:right;background:none;color:inherit"
_FIRST = f"{_CELL};opacity:.6;font-weight:normal;border-right:1px solid #8886"
_HEAD = f"{_CELL};opacity:.6;font-weight:normal;border-bottom:1px solid #8886"
_BAD = f"{_CELL};color:#d0402f"
_TABLE = (
    "border-collapse:collapse;margin:.3em 0;border:0;font:13px monospace;background:none;"
    "color:inherit;width:auto"
)


def array_html(value: Any) -> str | None:
    """Returns an array as a table, or None if it has no regular shape, or is a value of a loop,
    branch or call that is being recorded. Evaluates the array."""
    is_tensor, meta = value._kind == "tensor", value.__meta__
    leaves = [value._array] if is_tensor else [*show.innermost(value)]
    if meta.is_jit and recording() and any(is_open(a._node) for a in leaves):
        return None
    shape = show.shape_of(value)
    if shape is None:
        return None
    if is_tensor:
        rows, columns, cell = _of_tensor(value, shape)
        names: Sequence[Any] = range(columns)
        if len(shape) < 2:
            names = [""]
    else:
        rows, names, cell = _of_components(value, leaves)
    sizes = " × ".join([f"{n:,}" for n in shape]) or "a single entry"
    title = f"<b>{escape(type_label(value))}</b>, {sizes}"
    if value._diff and any(getattr(a, "_var", None) is not None for a in leaves):
        title += ", with derivatives"
    body = _table(rows, names, cell) if rows and names else ""
    more = f", as {rows:,} × {len(names):,}" if is_tensor and len(shape) > 2 else ""
    return f'<div style="overflow-x:auto">{title}{more}{body}</div>'


Cell = Callable[[int, int], str]


def _of_tensor(value: Any, shape: tuple[int, ...]) -> tuple[int, int, Cell]:
    """Returns the rows, the columns and the entries of a tensor: all axes but the last are rows."""
    columns = shape[-1] if len(shape) > 1 else 1
    rows = prod(shape) // columns if columns else 0
    read = show.flat_cell(value._array, (rows, columns))
    return rows, columns, lambda i, j: read((i, j))


def _of_components(value: Any, leaves: list[Any]) -> tuple[int, Sequence[Any], Cell]:
    """Returns the same of other arrays, with the names of columns."""
    meta = value.__meta__
    sizes: Sequence[int] = show.component_shape(value) or ()
    text = show.entry_text(value._dtype)
    if not meta.is_jit:
        columns = sizes[1] if len(sizes) > 1 else 1
        names = range(columns) if len(sizes) > 1 else [""]
        return len(leaves) // columns, names, lambda i, j: text(leaves[i * columns + j])
    if len(sizes) == 1:
        parts = "xyzw" if sizes[0] <= 4 else range(sizes[0])
        names = _PARTS.get(meta.kind, parts)[: sizes[0]]
    else:
        names = [", ".join(map(str, place)) for place in product(*map(range, sizes))] or [""]
    read = [*map(show.reader, show.evaluated(leaves))]
    return show.common_width(leaves) or 0, names, lambda i, j: text(read[j](i))


def _some(count: int, limit: int) -> list[int | None]:
    """Returns the numbers of the entries to be shown, with None for those left out."""
    if count <= limit:
        return [*range(count)]
    return [*range(_EDGE), None, *range(count - _EDGE, count)]


def _table(rows: int, names: Sequence[Any], cell: Cell) -> str:
    across = _some(len(names), _COLUMNS)
    head = [f'<th style="{_HEAD}">{"…" if j is None else names[j]}</th>' for j in across]
    lines = [] if [*names] == [""] else [f'<tr><th style="{_HEAD}"></th>{"".join(head)}</tr>']
    for i in _some(rows, _ROWS):
        first = f'<th style="{_FIRST}">{"⋮" if i is None else f"{i:,}"}</th>'
        cells = []
        for j in across:
            text = "⋮" if i is None else "…" if j is None else escape(cell(i, j))
            bad = text.lstrip("-") in ("nan", "inf")
            cells.append(f'<td style="{_BAD if bad else _CELL}">{text}</td>')
        lines.append(f"<tr style='background:none'>{first}{''.join(cells)}</tr>")
    return f'<table style="{_TABLE}">{"".join(lines)}</table>'

"""A small layered layout of graphs, as SVG: nodes in layers by their distance from what depends on
nothing, ordered so that few edges cross (K. Sugiyama, S. Tagawa, M. Toda: Methods for visual
understanding of hierarchical system structures, 1981).
"""

from collections.abc import Hashable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

_LETTER, _LINE, _PAD = 7.3, 16.0, 7.0  # the size of text in a monospaced font, the space around it
_GAP, _LAYER_GAP = 18.0, 34.0  # between neighbours of a layer, and between layers
_SWEEPS = 12
_FONT = "font-family='monospace' font-size='12'"


class Box(NamedTuple):
    """What is shown of a node: rows of cells, and the colour behind them."""

    rows: Sequence[Sequence[str]]
    color: str

    @property
    def width(self) -> float:
        cells = max(len(row) * (max(map(len, row)) * _LETTER + 2 * _PAD) for row in self.rows)
        return max(cells, 40.0)

    @property
    def height(self) -> float:
        return len(self.rows) * (_LINE + 4)


class _Place:
    """A node, or (without a box) a bend of an edge that passes a layer."""

    __slots__ = ("above", "below", "box", "height", "layer", "order", "x", "y")

    def __init__(self, box: Box | None, layer: int) -> None:
        self.box, self.layer = box, layer
        self.above: list[_Place] = []
        self.below: list[_Place] = []
        self.order, self.x, self.y = 0.0, 0.0, 0.0
        self.height = box.height if box is not None else 0.0  # of a bend: that of its layer

    @property
    def width(self) -> float:
        return self.box.width if self.box is not None else 8.0


def layers(nodes: Sequence[Hashable], edges: Sequence[tuple]) -> dict:
    """Returns the layer of each node: one below the lowest node that it depends on. Nodes that
    depend on nothing are right above the first one that depends on them.

    Nodes come after those they depend on; edges lead to the dependent node.
    """
    before: dict = {n: [] for n in nodes}
    after: dict = {n: [] for n in nodes}
    for a, b, *_ in edges:
        before[b].append(a)
        after[a].append(b)
    result: dict = {}
    for n in nodes:
        result[n] = max((result[a] + 1 for a in before[n] if a in result), default=0)
    for n in nodes:
        if not before[n] and after[n]:
            result[n] = min(result[b] for b in after[n]) - 1
    return result


def svg(
    boxes: Mapping[Any, Box],
    edges: Sequence[tuple],
    legend: Sequence[tuple[str, str]] = (),
    forward: bool = True,
) -> str:
    """Returns a drawing of nodes, given after those they depend on, and of edges (from, to, text),
    whose arrows point to the dependent node or, unless `forward`, away from it.

    `legend` has pairs of a text and a colour.
    """
    rows, routes = _arranged(boxes, edges)
    places = [p for row in rows for p in row]
    top = 40.0 if legend else 8.0
    width, height = _extent(places)
    height += top
    end = "end" if forward else "start"
    parts = [_route(path, text, end) for path, text in routes]
    parts += [_shown(p) for p in places if p.box is not None]
    shown_legend, legend_width = _legend(legend)
    width = max(width, legend_width)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}' {_FONT}><defs><marker id='drjit-arrow' "
        "viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' "
        "orient='auto-start-reverse'>"
        f"<path d='M0,0L8,4L0,8z' fill='#888'/></marker></defs>{shown_legend}"
        f"<g transform='translate(0 {top:.0f})'>{''.join(parts)}</g></svg>"
    )


def layout(
    boxes: Mapping[Any, Box], edges: Sequence[tuple]
) -> tuple[float, float, dict[Any, tuple[float, float, float, float]], list[str]]:
    """Returns the width and height of the drawing that `svg` makes, for others to draw: the left,
    top, width and height of each node's box, and the curve of each edge as the path of an SVG.
    """
    rows, routes = _arranged(boxes, edges)
    places = [p for row in rows for p in row]
    place = {id(p.box): p for p in places}
    ends = {n: place[id(box)] for n, box in boxes.items()}
    shown = {n: (p.x - p.width / 2, p.y, p.width, p.height) for n, p in ends.items()}
    return *_extent(places), shown, [_curve(path) for path, _ in routes]


def _extent(places: Sequence[_Place]) -> tuple[float, float]:
    width = max((p.x + p.width / 2 for p in places), default=0.0)
    return width + 8, max((p.y + p.height for p in places), default=0.0) + 8


def _arranged(boxes: Mapping, edges: Sequence[tuple]) -> tuple[list[list[_Place]], list]:
    """Returns the places of each layer, with positions, and the places that each edge passes."""
    rows, routes = _rows(boxes, edges)
    _order(rows)
    _set_heights(rows)
    for _ in range(_SWEEPS):
        for row in rows:
            _pull(row, True)
        for row in reversed(rows):
            _pull(row, False)
    for row in rows:
        _pull(row, True)
    places = [p for row in rows for p in row]
    left = min((p.x - p.width / 2 for p in places), default=0.0)
    for p in places:
        p.x -= left - 8
    return rows, routes


def _rows(boxes: Mapping, edges: Sequence[tuple]) -> tuple[list[list[_Place]], list]:
    """Returns the places of each layer, and the places that each edge passes, with its text."""
    level = layers(list(boxes), edges)
    rows: list[list[_Place]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    place = {n: _Place(box, level[n]) for n, box in boxes.items()}
    for p in place.values():
        rows[p.layer].append(p)
    bends: dict[tuple, _Place] = {}
    routes = []
    for a, b, text in edges:
        path = [place[a]]
        for k in range(level[a] + 1, level[b]):  # edges from one node share their bends
            bend = bends.get((a, k))
            if bend is None:
                bend = bends[a, k] = _Place(None, k)
                rows[k].append(bend)
            path.append(bend)
        path.append(place[b])
        for one, other in pairwise(path):
            if other not in one.below:
                one.below.append(other)
                other.above.append(one)
        routes.append((path, text))
    return rows, routes


def _order(rows: list[list[_Place]]) -> None:
    """Orders each layer by the mean position of its neighbours above and below, in turn."""
    for row in rows:
        for k, p in enumerate(row):
            p.order = float(k)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            for p in row:
                near = p.above if down else p.below
                if near:
                    p.order = sum(q.order for q in near) / len(near)
            row.sort(key=lambda p: p.order)
            for k, p in enumerate(row):
                p.order = k - (len(row) - 1) / 2


def _set_heights(rows: list[list[_Place]]) -> None:
    y = 0.0
    for row in rows:
        height = max((p.height for p in row), default=0.0)
        x = 0.0
        for p in row:
            p.height = p.height if p.box is not None else height
            p.x, p.y = x + p.width / 2, y + (height - p.height) / 2
            x += p.width + _GAP
        y += height + _LAYER_GAP


def _pull(row: list[_Place], down: bool) -> None:
    """Moves the places of a layer towards their neighbours, as far as their order allows: runs of
    places that would overlap move together."""
    runs: list[tuple[float, list[_Place], float]] = []  # position of the first, places, width
    for p in row:
        near = p.above if down else p.below
        wish = sum(q.x for q in near) / len(near) if near else p.x
        start, members, width = wish - p.width / 2, [p], p.width
        while runs and runs[-1][0] + runs[-1][2] + _GAP > start:
            before, others, extent = runs.pop()
            n, m = len(others), len(members)
            start = (before * n + (start - extent - _GAP) * m) / (n + m)
            members, width = others + members, extent + _GAP + width
        runs.append((start, members, width))
    for start, members, _ in runs:
        for p in members:
            p.x = start + p.width / 2
            start += p.width + _GAP


def _curve(path: list[_Place]) -> str:
    """An edge as a smooth curve through its bends."""
    parts = [f"M{path[0].x:.1f},{path[0].y + path[0].height:.1f}"]
    for p, q in pairwise(path):
        middle = (p.y + p.height + q.y) / 2
        parts.append(f"C{p.x:.1f},{middle:.1f} {q.x:.1f},{middle:.1f} {q.x:.1f},{q.y:.1f}")
        if q.box is None:
            parts.append(f"V{q.y + q.height:.1f}")  # straight through the layer
    return " ".join(parts)


def _route(path: list[_Place], text: str, end: str) -> str:
    """An edge with an arrow at its start or end, and a text."""
    arrow = f"marker-{end}='url(#drjit-arrow)'"
    shown = f"<path d='{_curve(path)}' fill='none' stroke='#888' {arrow}/>"
    if text:
        before, last = path[-2:]
        shown += (
            f"<text x='{last.x + (before.x - last.x) * 0.25 + 4:.1f}' "
            f"y='{last.y - 9:.1f}' fill='#888' font-size='10'>{escape(text)}</text>"
        )
    return shown


def _shown(p: _Place) -> str:
    box = p.box
    assert box is not None
    left, y = p.x - box.width / 2, p.y
    parts = [
        f"<rect x='{left:.1f}' y='{y:.1f}' width='{box.width:.1f}' height='{box.height:.1f}' "
        f"rx='4' fill='{box.color}' stroke='#888'/>"
    ]
    for number, row in enumerate(box.rows):
        for k, cell in enumerate(row):
            x = left + box.width * (k + 0.5) / len(row)
            weight = " font-weight='bold'" if number == 0 else ""
            parts.append(
                f"<text x='{x:.1f}' y='{y + 14:.1f}' text-anchor='middle' fill='#222'{weight}>"
                f"{escape(cell)}</text>"
            )
        y += _LINE + 4
    return "".join(parts)


def _legend(legend: Sequence[tuple[str, str]]) -> tuple[str, float]:
    """Returns a row of coloured texts, and its width."""
    x, parts = 8.0, []
    for text, color in legend:
        width = len(text) * _LETTER + 2 * _PAD
        parts.append(
            f"<rect x='{x:.1f}' y='6' width='{width:.1f}' height='20' rx='10' fill='{color}'/>"
            f"<text x='{x + width / 2:.1f}' y='20' text-anchor='middle' fill='#222'>"
            f"{escape(text)}</text>"
        )
        x += width + 8
    return "".join(parts), x

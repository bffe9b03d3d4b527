"""The common part of drawings of both graphs, of traced values and of derivatives."""

import importlib
import tempfile
import webbrowser
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from . import layered

Colors = Mapping[str, tuple[str, str]]
Rows = Sequence[Sequence[str]]

MAX_NODES = 1000
"""The number of nodes, the newest, that a picture has at most."""

# What X11, and so the DOT language, calls these colours.
_HEX = {
    "gray90": "#e5e5e5", "wheat": "#f5deb3", "lightblue2": "#b2dfee", "salmon": "#fa8072",
    "yellowgreen": "#9acd32",
}  # fmt: skip
_OF_THE_PACKAGE = ("render", "pipe", "unflatten", "format", "engine", "encoding", "lines")


class Drawing:
    """A graph. Its text in the DOT language is `source`, which `str` also returns. Notebooks
    display it as a picture, which needs no other package; `view` opens the picture, and `save`
    writes either.

    Other attributes, such as `render`, `pipe` and `engine`, are those of a graph of the package
    `graphviz`, if it is installed.
    """

    def __init__(
        self, source: str, boxes: dict[int, layered.Box], edges: list, legend: list, forward: bool
    ) -> None:
        self.source = source
        self._boxes, self._edges, self._legend, self._forward = boxes, edges, legend, forward

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"<drawing of a graph with {len(self._boxes)} nodes: .view() shows it>"

    @cached_property
    def svg(self) -> str:
        """The picture, as SVG."""
        boxes, legend = self._boxes, self._legend
        left_out = len(boxes) - MAX_NODES
        if left_out > 0:
            boxes = {n: boxes[n] for n in sorted(boxes)[left_out:]}
            legend = [*legend, (f"{left_out:,} older ones are not shown", "white")]
        edges = [e for e in self._edges if e[0] in boxes and e[1] in boxes]
        return layered.svg(boxes, edges, legend, self._forward)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, filename: str | Path) -> Path:
        """Writes the picture, if the name ends with `.svg`, or the text."""
        path = Path(filename)
        path.write_text(self.svg if path.suffix == ".svg" else self.source, encoding="utf-8")
        return path

    def view(self) -> str:
        """Opens the picture in a browser. Returns the name of its file."""
        path = self.save(Path(tempfile.mkdtemp(prefix="drjit-")) / "graph.svg")
        webbrowser.open(path.as_uri())
        return str(path)

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_THE_PACKAGE:
            raise AttributeError(f"a drawing of a graph has no attribute '{name}'")
        try:
            package = importlib.import_module("graphviz")
        except ModuleNotFoundError:
            raise AttributeError(
                f"'{name}' is an attribute of graphs of the package 'graphviz', which is not "
                "installed (pip install graphviz). Without it, .view() shows the graph, and "
                ".save() writes it."
            ) from None
        return getattr(package.Source(self.source), name)


def label_row(name: str) -> list[str]:
    """Returns the row of a node that shows its label."""
    return [f'Label: "{name}"']


def _escaped(cell: str) -> str:
    """Returns a text as part of a record in the DOT language, in a string of that language."""
    return "".join("\\" + c if c in '\\"{}|<>' else c for c in cell)


def _record(rows: Rows) -> str:
    """Returns the rows of a node in the DOT language."""
    cells = ["|".join(map(_escaped, row)) for row in rows]
    return "|".join(f"{{{c}}}" if len(row) > 1 else c for c, row in zip(cells, rows, strict=True))


def _edges(target: Any) -> list[tuple[int, int, str]]:
    """Returns the edges from the dependences of a node (None for those not shown), numbered if
    there are several."""
    sources = [(number, s) for number, s in enumerate(target.deps, 1) if s is not None]
    several = len(sources) > 1
    return [(s.serial, target.serial, str(k) if several else "") for k, s in sources]


def _legend(used: Sequence[tuple[str, str]]) -> list[str]:
    """Returns the box that explains the colours in use, or nothing if there are none."""
    if not used:
        return []
    lines = ["    subgraph cluster_legend {", '        label="Legend";']
    for number, (text, color) in enumerate(used):
        lines.append(f'        l{number} [style=filled fillcolor={color} label="{text}"];')
    return [*lines, "    }"]


def printed(lines: list[str], as_string: bool) -> str | None:
    """Returns the lines as a string, or prints them."""
    text = "\n".join(lines)
    if as_string:
        return text
    print(text)
    return None


def draw_graph(
    nodes: Iterable[tuple[Any, str, Rows]], colors: Colors, forward: bool, as_string: bool
) -> Any:
    """Returns a graph as text in the DOT language, or as a `Drawing`.

    Each of the `nodes`, in order of creation, comes with its kind and the rows of its text;
    `colors` maps kinds to a description and a colour. Edges lead to the dependent node or, unless
    `forward`, away from it.
    """
    lines = [
        "digraph {",
        f"    rankdir={'TB' if forward else 'BT'};",
        f'    graph [{"dpi=50 " * forward}fontname="monospace"];',
        '    node [shape=record fontname="monospace"];',
        '    edge [fontname="monospace"];',
    ]
    edges: list[tuple[int, int, str]] = []
    kinds, boxes = set(), {}
    for node, kind, rows in nodes:
        color = colors[kind][1] if kind in colors else ""
        style = f" fillcolor={color} style=filled" if color else ""
        lines.append(f'    {node.serial} [label="{{{_record(rows)}}}"{style}];')
        edges += _edges(node)
        kinds.add(kind)
        boxes[node.serial] = layered.Box(rows, _HEX.get(color, "#ffffff"))
    edges = [e for e in edges if e[0] in boxes]
    for a, b, text in edges:
        shown = f' [label=" {text}"]' if text else ""
        lines.append(f"    {a} -> {b}{shown};" if forward else f"    {b} -> {a}{shown};")
    used = [colors[kind] for kind in sorted(kinds & set(colors))]
    text = "\n".join([*lines, *_legend(used), "}"]) + "\n"
    if as_string:
        return text
    legend = [(description, _HEX[color]) for description, color in used]
    return Drawing(text, boxes, edges, legend, forward)

"""The common part of drawings of both graphs, of traced values and of derivatives."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

Colors = Mapping[str, tuple[str, str]]


class MissingPackage(ModuleNotFoundError, TypeError):
    """A drawing needs a package that is not installed. The error has both types, because programs
    expect one or the other.
    """


def labeled(name: str) -> str:
    """Returns the part of a node's text that shows its label."""
    escaped = "".join("\\" + c if c in '\\"{}|<>' else c for c in name)
    return f'Label: \\"{escaped}\\"'


def _edges(target: Any, forward: bool) -> list[str]:
    """Returns the edges between a node and its dependences (None for those not shown), numbered if
    there are several; `forward` edges lead to the node."""
    several = sum(s is not None for s in target.deps) > 1
    found = []
    for number, s in enumerate(target.deps, 1):
        if s is not None:
            ends = (s.serial, target.serial) if forward else (target.serial, s.serial)
            shown = f' [label=" {number}"]' if several else ""
            found.append(f"    {ends[0]} -> {ends[1]}{shown};")
    return found


def _legend(kinds: Iterable[str], colors: Colors) -> list[str]:
    """Returns the box that explains the colours in use, or nothing if there are none."""
    used = sorted(set(kinds) & set(colors))
    if not used:
        return []
    lines = ["    subgraph cluster_legend {", '        label="Legend";']
    for number, kind in enumerate(used):
        text, color = colors[kind]
        lines.append(f'        l{number} [style=filled fillcolor={color} label="{text}"];')
    return [*lines, "    }"]


def printed(lines: list[str], as_string: bool) -> str | None:
    """Returns the lines as a string, or prints them."""
    text = "\n".join(lines)
    if as_string:
        return text
    print(text)
    return None


def picture(
    name: str, nodes: Iterable[tuple[Any, str, str]], colors: Colors, forward: bool, as_string: bool
) -> Any:
    """Returns a graph as text in the DOT language, or as an object that notebooks display.

    Each of the `nodes` comes with its kind and its text; `colors` maps kinds to a description and a
    colour. Edges lead to the dependent node or, unless `forward`, away from it. `name` is the
    function that the user called. Raises MissingPackage if an object is requested and the package
    is not installed.
    """
    lines = [
        "digraph {",
        f"    rankdir={'TB' if forward else 'BT'};",
        f'    graph [{"dpi=50 " * forward}fontname="monospace"];',
        '    node [shape=record fontname="monospace"];',
        '    edge [fontname="monospace"];',
    ]
    edges, kinds = [], []
    for node, kind, text in nodes:
        style = f" fillcolor={colors[kind][1]} style=filled" if kind in colors else ""
        lines.append(f'    {node.serial} [label="{{{text}}}"{style}];')
        edges += _edges(node, forward)
        kinds.append(kind)
    text = "\n".join([*lines, *edges, *_legend(kinds, colors), "}"]) + "\n"
    if as_string:
        return text
    try:
        package = importlib.import_module("graphviz")
    except ModuleNotFoundError:
        raise MissingPackage(
            f"{name}() shows graphs by the package 'graphviz' (pip install graphviz); "
            f"{name}(as_string=True) gives the text without it."
        ) from None
    return package.Source(text)

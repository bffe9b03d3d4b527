"""What the pictures of both graphs share: those of traced values and those of derivatives."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

Colors = Mapping[str, tuple[str, str]]


class MissingPackage(ModuleNotFoundError, TypeError):
    """A picture that needs a package which is not installed; an error of either kind, as programs
    expect the one or the other.
    """


def labeled(name: str) -> str:
    """The part of a node's text that shows its label."""
    escaped = "".join("\\" + c if c in '\\"{}|<>' else c for c in name)
    return f'Label: \\"{escaped}\\"'


def _edges(target: Any, forward: bool) -> list[str]:
    """The edges between a node and what it depends on (None where that is not shown), numbered if
    there are several; `forward` ones lead to the node."""
    several = sum(s is not None for s in target.deps) > 1
    found = []
    for number, s in enumerate(target.deps, 1):
        if s is not None:
            ends = (s.serial, target.serial) if forward else (target.serial, s.serial)
            shown = f' [label=" {number}"]' if several else ""
            found.append(f"    {ends[0]} -> {ends[1]}{shown};")
    return found


def _legend(kinds: Iterable[str], colors: Colors) -> list[str]:
    """The box that explains the colours in use; nothing if there are none."""
    used = sorted(set(kinds) & set(colors))
    if not used:
        return []
    lines = ["    subgraph cluster_legend {", '        label="Legend";']
    for number, kind in enumerate(used):
        text, color = colors[kind]
        lines.append(f'        l{number} [style=filled fillcolor={color} label="{text}"];')
    return [*lines, "    }"]


def printed(lines: list[str], as_string: bool) -> str | None:
    """The lines as a string; or prints them."""
    text = "\n".join(lines)
    if as_string:
        return text
    print(text)
    return None


def picture(
    name: str, nodes: Iterable[tuple[Any, str, str]], colors: Colors, forward: bool, as_string: bool
) -> Any:
    """A graph as text in the DOT language, or as an object that notebooks show.

    Each of the `nodes` comes with its kind and its text, `colors` has a description and a colour
    for kinds. Edges lead to the node that depends on the other, or, unless `forward`, from it.
    `name` is what the user called. Raises MissingPackage if an object is wanted and the package is
    not installed.
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

"""What the pictures of both graphs share: those of traced values and those of derivatives."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class MissingPackage(ModuleNotFoundError, TypeError):
    """A picture that needs a package which is not installed; an error of either kind, as programs
    expect the one or the other.
    """


def escape(name: str) -> str:
    """A name as it may stand in a label."""
    return "".join("\\" + c if c in '\\"{}|<>' else c for c in name)


def styled(kind: str, colors: Mapping[str, tuple[str, str]]) -> str:
    """The attributes that give a node the colour of its kind, if that has one.

    `colors` has a description and a colour for each kind.
    """
    return f" fillcolor={colors[kind][1]} style=filled" if kind in colors else ""


def edges(sources: Sequence[Any], target: Any, forward: bool) -> list[str]:
    """The edges between a node and what it depends on (None where that is not shown), numbered if
    there are several; `forward` ones lead to the node."""
    several = sum(s is not None for s in sources) > 1
    found = []
    for number, s in enumerate(sources, 1):
        if s is not None:
            ends = (s.serial, target.serial) if forward else (target.serial, s.serial)
            shown = f' [label=" {number}"]' if several else ""
            found.append(f"    {ends[0]} -> {ends[1]}{shown};")
    return found


def legend(kinds: Iterable[str], colors: Mapping[str, tuple[str, str]]) -> list[str]:
    """The box that explains the colours in use; nothing if there are none."""
    used = sorted({k for k in kinds if k in colors})
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


def picture(lines: list[str], as_string: bool, name: str) -> Any:
    """The finished text in the DOT language, or an object that notebooks show.

    `name` is what the user called. Raises MissingPackage if an object is wanted and the
    package is not installed.
    """
    text = "\n".join([*lines, "}"]) + "\n"
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

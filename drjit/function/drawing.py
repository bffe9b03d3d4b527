"""What the pictures of both graphs share: those of traced values and those of derivatives."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any


class MissingPackage(ModuleNotFoundError, TypeError):
    """A picture that needs a package which is not installed; an error of either kind, as programs
    expect the one or the other.
    """


def escape(name: str) -> str:
    """A name as it may stand in a label."""
    return "".join("\\" + c if c in '\\"{}|<>' else c for c in name)


def legend(kinds: Iterable[str], colors: Mapping[str, tuple[str, str]]) -> list[str]:
    """The box that explains the colours in use; nothing if there are none.

    `colors` has a description and a colour for each kind.
    """
    used = sorted(set(kinds))
    if not used:
        return []
    lines = ["    subgraph cluster_legend {", '        label="Legend";']
    for number, kind in enumerate(used):
        text, color = colors[kind]
        lines.append(f'        l{number} [style=filled fillcolor={color} label="{text}"];')
    return [*lines, "    }"]


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

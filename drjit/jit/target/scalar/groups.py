"""Statements of a kernel in the order in which an exported function runs them.

A kernel without vectors is one loop over its lanes. One with vectors goes through its lanes in
tiles: every group of statements is a loop over the lanes of the tile, and values that pass from one
group to another wait in small arrays.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

LANES = 0


class Group:
    """Statements in one loop over the lanes of a tile; with `count`, for each of that many features
    in an outer loop. `reads` are the names whose values come from outside, `writes` those that it
    assigns. A loop with library functions that have rare `cases` is repeated for tiles with one, so
    it contains no statements that may run only `once`."""

    def __init__(self, count: int = LANES) -> None:
        self.count = count
        self.lines: list[str] = []
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.cases = self.once = False

    def accepts(self, count: int, cases: bool, once: bool) -> bool:
        """Whether a statement can be in the loop."""
        return self.count == count and not (self.cases and once) and not (self.once and cases)

    def read(self, names: Any) -> None:
        """Notes names that the next statement reads."""
        for name in names:
            if name not in self.writes:
                self.reads[name] = None

    def write(self, names: Any) -> None:
        """Notes names that a statement has assigned."""
        self.writes.update(dict.fromkeys(names))


class TileStatement(NamedTuple):
    """Statements on a whole tile, and the names that they read as arrays."""

    lines: list[str]
    reads: tuple[str, ...]


class MaskedBlock:
    """The body of a branch or loop on a tile, whose head tests a mask."""

    def __init__(self, head: str, mask: str) -> None:
        self.head, self.mask = head, mask
        self.parts: list[Any] = []


def names_in_arrays(parts: list[Any]) -> set[str]:
    """Returns the names that wait in arrays."""
    found: set[str] = set()
    for part in parts:
        if isinstance(part, Group | TileStatement):
            found.update(part.reads)
        else:
            found.add(part.mask)
            found |= names_in_arrays(part.parts)
    return found


class TileNames(NamedTuple):
    """The names of values that wait in `arrays`; which are `masks`, and which are `vectors`, of
    which `uniform` ones have one entry per feature. `repeat` makes a function of a loop with rare
    cases, and returns its calls."""

    arrays: set[str]
    masks: set[str]
    vectors: dict[str, Any]
    uniform: set[str]
    repeat: Callable[[list[str]], list[str]]


def render(parts: list[Any], names: TileNames, indent: str) -> list[str]:
    """Returns the text of a tile's parts."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, TileStatement):
            lines += [indent + line for line in part.lines]
        elif isinstance(part, MaskedBlock):
            lines.append(f"{indent}{part.head}")
            lines += render(part.parts, names, indent + "    ")
        elif part.cases:
            lines += [indent + line for line in names.repeat(_loop(part, names, ""))]
        else:
            lines += _loop(part, names, indent)
    return lines


def _loop(group: Group, known: TileNames, indent: str) -> list[str]:
    names, masks, vectors, uniform, _ = known
    lines, inner = [], indent + "    "
    if group.count:
        lines.append(f"{indent}for f in range({group.count}):")
        indent, inner = inner, inner + "    "
    lines.append(f"{indent}for k in range(m):")
    if not group.count:
        lines.append(f"{inner}i = base + u64(k)")

    def place(name: str) -> str:
        if name in uniform:
            return f"{name}_[f]"
        return f"{name}_[f, k]" if name in vectors else f"{name}_[k]"

    loaded = [n for n in group.reads if n in names and (group.count or n not in vectors)]
    lines += [f"{inner}{n} = {place(n)}{' != 0' if n in masks else ''}" for n in loaded]
    lines += [inner + line for line in group.lines]
    stored = [n for n in group.writes if n in names and (group.count or n not in vectors)]
    lines += [f"{inner}{place(n)} = {n}" for n in stored]
    return lines

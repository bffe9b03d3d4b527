"""Names that users give to values, and the source lines that traced them; both appear in graphs,
and in the kernel texts that people see.

Lines are recorded in debug mode, and while a report meets new kernels, because asking Python for
them at every traced operation is slow.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from .. import flags
from . import op
from .location import Location, line_of, user_location
from .nesting import RegionOperands
from .node import Node

labels: WeakKeyDictionary[Node, str] = WeakKeyDictionary()
locations: WeakKeyDictionary[Any, Location] = WeakKeyDictionary()
"""The user's source lines that traced values and recorded variables, in debug mode."""
noted: WeakKeyDictionary[Any, Location] = WeakKeyDictionary()
"""The same while a report meets new kernels, apart from those: nothing else may depend on it."""


on_note: Callable[[Any], None] | None = None
"""What else a report notes of these."""


def note_location(thing: Any) -> None:
    table = locations if flags.current & flags.JitFlag.Debug else noted
    table[thing] = user_location()
    if on_note is not None:
        on_note(thing)


def place_of(thing: Any) -> Location:
    """Returns the line that traced a value or recorded a variable, if that was noted."""
    return locations.get(thing) or noted.get(thing, ())


flags.on_creation_in_debug_mode(Node, note_location)


class Note(str):
    """What a kernel text that people see says about a value: a comment, and the `name` that the
    program has for it."""

    name: str

    def __new__(cls, comment: str, name: str = "") -> "Note":
        made = super().__new__(cls, comment)
        made.name = name
        return made


def names(nodes: Iterable[Node]) -> dict[Node, str]:
    """Returns the names that the program has for some nodes: those of the variables of loops, and
    labels."""
    found: dict[Node, str] = {}
    for n in nodes:
        if n.op is op.loop and n.data.names is not None:
            found.update(zip(RegionOperands(n).inside[0], n.data.names(), strict=False))
    if labels:
        found |= {n: labels[n] for n in nodes if n in labels and n not in found}
    return found


def notes(nodes: Sequence[Node]) -> dict[Node, str]:
    """Returns the `Note`s on nodes, whose comments are `file.py:5 a**2 [label]`."""
    given = names(nodes)
    found: dict[Node, str] = {}
    if not given and not locations:
        return found
    import linecache  # slow to import, and only needed in debug mode

    for n in nodes:
        parts = []
        location = locations.get(n)
        if location:
            file, number = location[0].co_filename, line_of(location)
            text = linecache.getline(file, number).strip()
            parts.append(f"{file.rpartition('/')[2]}:{number}  {text}".rstrip())
        if n in labels:
            parts.append(f"[{labels[n]}]")
        if parts or n in given:
            found[n] = Note(" ".join(" ".join(parts).split()), given.get(n, ""))  # one line
    return found

"""Names that users give to values, and the source lines that traced them; both appear as comments
in kernel text and in graphs.

Lines are recorded in debug mode, and while a report meets new kernels, because asking Python for
them at every traced operation is slow.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from .. import flags
from .location import Location, line_of, user_location
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


def comments(nodes: list[Node]) -> dict[Node, str]:
    """Returns the comment on each node's statement: `file.py:5 a**2 [label]`."""
    texts: dict[Node, str] = {}
    if not labels and not locations:
        return texts
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
        if parts:
            texts[n] = " ".join(" ".join(parts).split())  # comments are single-line
    return texts

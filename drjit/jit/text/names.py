"""The names that a program has for values, in the texts of kernels that people see: those of loop
variables, and labels. What is compiled and cached does not have them, so programs that differ in
names alone share their kernels.
"""

import keyword
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import flags
from ..ir import label
from ..ir.node import Node
from . import structure
from .program import Program, build
from .source import Scopes, rendered

_TOKEN = re.compile(r"'[^']*'|#.*|[^\W\d]\w*")
_LONGEST = 40
_left_out: list[object] = []  # an object for each `without_names`


@contextmanager
def without_names() -> Iterator[None]:
    """Leaves names out, for whoever adds others to a text."""
    _left_out.append(None)
    try:
        yield
    finally:
        _left_out.pop()


def wish(name: str) -> str:
    """Returns a name of the program's, such as `ray.o.x`, as a name in a text; nothing if there is
    none.

    >>> wish("ray.o.x"), wish("state[0]"), wish("2nd"), wish("<>")
    ('ray_o_x', 'state_0', '_2nd', '')
    """
    found = re.sub(r"\W+", "_", name).strip("_")[:_LONGEST]
    return f"_{found}" if found[:1].isdigit() else found


def chosen(text: str, scopes: Scopes) -> Scopes:
    """Returns the names that a text can have in place of its own. None is a word of the language or
    the name of something else."""
    from ..target.language import NAMES, REFUSED

    taken = {*NAMES, *REFUSED, *keyword.kwlist, *_TOKEN.findall(text)}
    found: Scopes = {}
    for function, wishes in scopes.items():
        own, used = found.setdefault(function, {}), set(taken)
        for name, wanted in wishes.items():
            if base := wish(wanted):
                new, k = base, 0
                while new in used:
                    k += 1
                    new = f"{base}_{k}"
                used.add(new)
                own[name] = new
    return found


def renamed(text: str, names: Scopes) -> str:
    """Returns a text with these names."""
    if not any(names.values()):
        return text
    lines, own = [], names["kernel"]
    for line in text.split("\n"):
        if line.startswith("def "):
            own = names.get(line[4:].partition("(")[0], {})
        lines.append(_TOKEN.sub(lambda m: own.get(m[0], m[0]), line))  # noqa: B023
    return "\n".join(lines)


def shown(program: Program, notes: Sequence[str] = ()) -> str:
    """Returns the text of a program with the comments and the names in notes on its instructions,
    or else in their labels."""
    text, scopes = rendered(program, notes)
    return renamed(text, chosen(text, scopes)) if not _left_out else text


def without_labels(program: Program) -> Program:
    """Returns a program as it is compiled."""
    return program._replace(instrs=tuple([i._replace(label="") for i in program.instrs]))


def text_of(kernel: Any, roots: Sequence[Node]) -> str:
    """Returns the text of the kernel of some nodes with names, and labels as comments."""
    graph = structure.ProgramGraph([*roots])
    # In debug mode, the text of the kernel has all that already.
    if flags.current & 1 or not (label.labels or label.locations or graph.blocks):
        return kernel.text
    nodes, _ = structure.canonicalize(graph, roots, again=True)
    notes = label.notes(nodes)
    if not notes:
        return kernel.text
    built = build(nodes, [*roots], notes)._replace(streams=kernel.program.streams)
    plain = without_labels(built)
    if rendered(plain)[0] != kernel.text:
        return kernel.text
    return shown(plain, [i.label for i in built.instrs])

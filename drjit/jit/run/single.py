"""Programs of a single lane that are one kernel, as text with everything it takes. Functions of
numbers consist of these."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ..ir import op
from ..ir.node import BUFFER, Node, make
from ..text import program, source, structure
from . import schedule
from .launch import await_data, layout_of


class SingleKernel(NamedTuple):
    """The text of a kernel, the words of its parameter block, and the positions in it of the
    addresses that a caller fills in: those of some inputs (None if the kernel does not depend on
    one) and of the outputs. `held` are the nodes whose data it reads."""

    text: str
    words: list[int]
    inputs: list[int | None]
    outputs: list[int]
    held: list[Node]


def kernel(roots: Sequence[Node], given: Sequence[Node]) -> SingleKernel:
    """Returns the kernel that computes nodes of one entry from `given` ones. Memory that the kernel
    reads, and that does not depend on these, is evaluated first.

    Raises:
        RuntimeError: there is no such kernel.
    """
    _evaluate_others(roots, given)
    roots = [make(op.copy, n.dtype, 1, (n,)) for n in roots]
    graph = structure.ProgramGraph(roots)
    if graph.effects():
        raise RuntimeError("it writes to arrays")
    ordered, passed = structure.canonicalize(graph, roots)
    built = program.build(ordered, roots)
    inputs, literals, checks = [
        found if taken is None else [found[k] for k in taken]
        for found, taken in zip((graph.inputs, graph.literals, graph.checks), passed, strict=True)
    ]
    place = {n: 1 + k for k, n in enumerate(inputs)}
    held = [n for n in inputs if n not in given]
    # A single lane reads no packets: memory of NumPy's serves wherever it is.
    values = [0 if n in given else n.data.address or n.data.origin for n in inputs]
    values += [n.data for n in literals]
    values += [c.data[0] for c in checks]
    values += [0] * len(roots)
    for n in held:
        await_data(n.data)
    block = struct.pack("<" + layout_of(built), 0, *values)
    words = list(struct.unpack(f"<{built.words}q", block))
    return SingleKernel(
        source.render(built),
        words,
        [place.get(n) for n in given],
        [o.param for o in built.outputs],
        held,
    )


def _evaluate_others(roots: Sequence[Node], given: Sequence[Node]) -> None:
    """Evaluates memory that is read and sums over lanes, if they do not depend on the given nodes.

    Raises:
        RuntimeError: one of them does.
    """
    needed: dict[Node, None] = {}
    for n in structure.ProgramGraph([*roots]).noted:
        if n.op is op.reduce:
            needed[n] = None
        elif n.op.reads:
            needed.update(dict.fromkeys([d for d in n.deps[n.op.reads] if d.op is not BUFFER]))
    for n in needed:
        if not set(given).isdisjoint(structure.ProgramGraph([n]).inputs):
            raise RuntimeError("it reads from an array that it computes, or sums one up")
    schedule.evaluate([*needed])

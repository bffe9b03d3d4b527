"""Small launches that follow each other in a frozen function, as one call of native code."""

import ctypes
import struct
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Any

from .. import flags, log, substitutes
from ..device import size_class
from ..ir.node import next_serial
from ..native import objects
from ..run.launch import layout_of
from . import kernel, memory, runtime, variants

PlanRecord = objects.layout(objects.PlanRecord)
_OFTEN = 64  # calls before it is worth a record for native code


def can_join(step: Any) -> bool:
    """Returns whether a launch can be part of a sequence: one that runs in the calling thread and
    needs nothing besides its operands and its results."""
    k = step.kernel
    work = step.size * k.cost
    private = any(mode == "expand" for *_, mode in step.effects)
    return not (step.checks or private or k.loops or work >= kernel.INLINE_WORK)


class LaunchSequence:
    """Launches `steps`, which are of the kind `drjit.jit.run.freeze.Launch`, for a list of values;
    the results with the numbers `kept` are entered there.

    The parameter blocks stay where they are: a launch only writes addresses of values to them. What
    nothing needs afterwards is in memory of the sequence, because no other job runs meanwhile.
    """

    def __init__(self, steps: Sequence[Any], kept: Collection[int]) -> None:
        self._steps = [(step.kernel, step.size) for step in steps]
        self._words: list[Any] = []  # of all blocks, with 0 for addresses
        self._addresses: list[tuple[int, int]] = []  # words, and the values that are there
        self._offsets: list[tuple[int, int]] = []  # words, and where they are in own memory
        self._made: dict[int, tuple[Any, int, int]] = {}  # type, lanes and bytes of results
        self._bytes = 0
        inside: dict[int, int] = {}  # where values are in own memory
        for step in steps:
            self._words.append(0)  # there is no record of errors
            self._operands(step.inputs, inside)
            self._words += [value for _, value in step.literals]
            self._operands([k for k, *_ in step.effects], inside)
            self._results(step, kept, inside)
        self._read = [*dict.fromkeys([k for _, k in self._addresses if k not in self._made])]
        self._calls = 0
        self._record: Any = None  # of native code
        self._owned: Any = None  # what it refers to
        self._known: Any = None
        self.control: Any = None  # that of the launcher when native code was bound
        self.replay: Any = None

    def _operands(self, numbers: Sequence[int], inside: dict[int, int]) -> None:
        for k in numbers:
            if k in inside:
                self._offsets.append((len(self._words), inside[k]))
            else:
                self._addresses.append((len(self._words), k))
            self._words.append(0)

    def _results(self, step: Any, kept: Collection[int], inside: dict[int, int]) -> None:
        results = [o for o in step.outputs if o is not None]
        k = step.kernel
        for place, nbytes in enumerate(k.buffer_sizes(step.size)):
            is_result = k.output_places is None or place in k.output_places
            number, t, reduced = results.pop(0) if is_result else (-1, None, False)
            if number in kept:
                self._made[number] = t, 1 if reduced else step.size, nbytes
            else:
                inside[number] = self._bytes
                self._bytes += size_class(nbytes) + memory.PADDING
            self._operands([number], inside)

    def __call__(self, values: list) -> bool:
        """Returns whether it was possible; if not, nothing has happened."""
        if not self.is_ready() or flags.current & kernel.SLOW or runtime.unfinished:
            return False
        if log.level >= 3 or variants.pinned in variants.INTERPRETED:
            return False
        if runtime.control() is not self.control:
            self.bind()
        made = self.replay(*[values[k] for k in self._read])
        if made is False:
            return False
        for number, n in zip(self._made, made, strict=True):
            values[number] = n
        return True

    def statements(self, known: Callable[[object], str], refused: str) -> list[str]:
        """Returns a call as statements of Python that read the values `v0`, `v1`, ... and assign
        those with the numbers `kept`; `known` gives an object a name, and the statement `refused`
        leaves them if a call would return False. The sequence is ready."""
        f, r, g, c = map(known, (flags, runtime, log, variants))
        watched = f"{f}.current & {kernel.SLOW} or {r}.unfinished or {g}.level >= 3"
        s, made = known(self), "".join([f"v{v}, " for v in self._made])
        return [
            f"if {watched} or {c}.pinned == 'numpy': {refused}",
            f"if {r}.control() is not {s}.control: {s}.bind()",
            f"made = {s}.replay({', '.join([f'v{v}' for v in self._read])})",
            f"if made is False: {refused}",
            *([f"{made}= made"] if made else []),
        ]

    def bind(self) -> None:
        """Binds native code to the current control block of the launcher."""
        self.control = runtime.control()
        self.replay = self._known.bound("replay", self._record)

    def __del__(self) -> None:
        if self._record is not None:
            for k, _ in self._steps:
                k.records.remove(self._record)
                k.counted += self._record.launches

    def is_ready(self) -> bool:
        """Returns whether native code can perform the launches; makes what that needs once all
        kernels are compiled."""
        if self._record is not None:
            return True
        self._calls += 1
        if self._calls < _OFTEN:
            return False
        if any(not k.address or size > k.inline_lanes for k, size in self._steps):
            return False
        substitutes.milestone -= substitutes.LAUNCH * len(self._steps)
        substitutes.look(next_serial())
        if substitutes.plans is None or len(self._made) > objects.OUTPUTS:
            return False
        self._prepare(substitutes.plans)
        return True

    def _prepare(self, known: Any) -> None:
        """Makes the record for native code."""
        layout = struct.Struct("<" + "".join([layout_of(k.program) for k, _ in self._steps]))
        own = memory.allocate(self._bytes)
        for word, offset in self._offsets:
            self._words[word] = own.address + offset
        block = ctypes.create_string_buffer(layout.pack(*self._words), layout.size)
        start = ctypes.addressof(block)
        read = {k: 8 * place for place, k in enumerate(self._read)}
        made = {k: 8 * place for place, k in enumerate(self._made)}
        operands: list[int] = []
        links: list[int] = []
        for word, k in self._addresses:
            if k in made:
                links += (start + 8 * word, made[k], 0)
            else:
                operands += (start + 8 * word, read[k], objects.IS_BUFFER)
        steps: list[int] = []
        for k, size in self._steps:
            length = 8 * k.program.words
            steps += (k.entry_address, start, length, size, 0, len(made))
            start += length
        lanes = [n for _, n, _ in self._made.values()]
        types = [t for t, *_ in self._made.values()]
        results = [id(x) for pair in zip(types, lanes, strict=True) for x in pair]
        rows = (operands, links, steps, results)
        tables = [array("q", [*row, 0]) for row in rows]
        tables.append(known.rooms([nbytes for *_, nbytes in self._made.values()]))
        given, linked, todo, kinds, rooms = [t.buffer_info()[0] for t in tables]
        counts = len(self._steps), len(made)
        report = array("q", [0])
        self._record = PlanRecord(
            given, linked, todo, *counts, 0, rooms, report.buffer_info()[0], objects.IS_SMALL,
            0, 0, 0, kinds,
        )  # fmt: skip
        self._known, self._owned = known, (own, block, lanes, tables, report)
        for k, _ in self._steps:
            k.records.append(self._record)
        self.bind()

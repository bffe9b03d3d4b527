"""Small launches that follow each other in a frozen function, as one call of native code."""

import ctypes
import struct
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Any

from .. import flags, log
from ..device import size_class
from ..ir.node import BUFFER, Node, buffer, next_serial
from ..native import objects
from ..run.launch import layout_of
from . import kernel, memory, runtime

_OFTEN = 256  # calls that take as long as importing `programs` does


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
        self._room = [size_class(nbytes) for *_, nbytes in self._made.values()]
        self._address = 0  # of the table that native code reads
        self._owned: Any = None
        self._calls = 0
        self._record: Any = None  # of native code, with everything that it refers to
        self.seen: Any = None  # `runtime.repeat` when native code was bound

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
        for place, nbytes in enumerate(k.room_for(step.size)):
            is_result = k.passed is None or place in k.passed
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
        if log.level >= 3 or kernel.tier in kernel.INTERPRETED:
            return False
        if runtime.repeat is not self.seen:
            self.bind()
        made = self.replay(*[values[k] for k in self._read])
        if made is not False:
            for number, n in zip(self._made, made, strict=True):
                values[number] = n
            return True
        words = []
        for k in self._read:
            b = values[k].data
            if b.source is not None:
                return False
            words.append(b.address or b.copy_for_launch())
        buffers = memory.allocate_all(self._room)
        for b in buffers:
            words.append(b.address)
        if not runtime.repeat(self._address, *words):
            return False
        for k, _ in self._steps:
            k.counted += 1
        for (number, (t, lanes, _)), b in zip(self._made.items(), buffers):  # noqa: B905
            values[number] = buffer(t, lanes, b)
        return True

    def statements(self, known: Callable[[object], str], refused: str) -> list[str]:
        """Returns a call as statements of Python that read the values `v0`, `v1`, ... and assign
        those with the numbers `kept`; `known` gives an object a name, and the statement `refused`
        leaves them if a call would return False. The sequence is ready."""
        f, r, g, k = map(known, (flags, runtime, log, kernel))
        watched = f"{f}.current & {kernel.SLOW} or {r}.unfinished or {g}.level >= 3"
        s, made = known(self), "".join([f"v{v}, " for v in self._made])
        steps = self._steps_in_python(known, refused, r)
        return [
            f"if {watched} or {k}.tier == 'numpy': {refused}",
            f"if {r}.repeat is not {s}.seen: {s}.bind()",
            f"made = {s}.replay({', '.join([f'v{v}' for v in self._read])})",
            "if made is False:",
            *["    " + line for line in steps],
            *(["else:", f"    {made}= made"] if made else []),
        ]

    def _steps_in_python(self, known: Callable[[object], str], refused: str, r: str) -> list[str]:
        """Returns the same statements without `replay`."""
        lines = []
        for v in self._read:
            lines += [f"b{v} = v{v}.data", f"if b{v}.source is not None: {refused}"]
        names = "".join([f"b{v}, " for v in self._made])
        if names:
            lines.append(f"{names}= {known(memory)}.allocate_all({known(self._room)})")
        words = [f"b{v}.address or b{v}.copy_for_launch()" for v in self._read]
        words += [f"b{v}.address" for v in self._made]
        call = ", ".join([known(self._address), *words])
        lines.append(f"if not {r}.repeat({call}): {refused}")
        lines += [f"{known(k)}.counted += 1" for k, _ in self._steps]
        for v, (t, lanes, _) in self._made.items():  # as by `make`, without a call for each
            parts = ("op", known(BUFFER)), ("dtype", known(t)), ("size", lanes), ("data", f"b{v}")
            more = ("deps", "()"), ("mark", None), ("serial", f"{known(next_serial)}()")
            lines.append(f"v{v} = {known(Node)}()")
            lines += [f"v{v}.{name} = {value}" for name, value in (*parts, *more)]
        return lines

    def replay(self, *_: Node) -> Any:
        """Performs the launches for the nodes that they read, and returns the nodes of the results;
        or returns False, and nothing has happened. Native code takes the place of this method."""
        self._calls += 1
        if self._calls < _OFTEN:
            return False
        from . import programs

        found = programs.known()
        if found is not None and len(self._made) <= objects.OUTPUTS:
            results = [*self._made.values()]
            self._record = *found.sequence(self._address, len(self._read), results), found
            for k, _ in self._steps:
                k.records.append(self._record[0])
            self.bind()
        return False

    def bind(self) -> None:
        """Binds native code to the current control block of the launcher."""
        self.seen = runtime.repeat
        if self._record is not None:
            record, _, known = self._record
            self.__dict__["replay"] = known.bound("replay", record)

    def __del__(self) -> None:
        if self._record is not None:
            for k, _ in self._steps:
                k.records.remove(self._record[0])
                k.counted += self._record[0].launches

    def is_ready(self) -> bool:
        """Returns whether all kernels are compiled; makes what native code needs once they are."""
        if self._address:
            return True
        if any(size > k.few for k, size in self._steps):
            return False
        layout = struct.Struct("<" + "".join([layout_of(k.program) for k, _ in self._steps]))
        own = memory.allocate(self._bytes)
        for word, offset in self._offsets:
            self._words[word] = own.address + offset
        block = ctypes.create_string_buffer(layout.pack(*self._words), layout.size)
        start = ctypes.addressof(block)
        argument = {k: 8 + 8 * place for place, k in enumerate((*self._read, *self._made))}
        table: list[int] = []
        for word, k in self._addresses:
            table += (start + 8 * word, argument[k])
        table += (0, 0)
        code = [k.loaded for k, _ in self._steps]  # others may take their place at any time
        for form, (k, size) in zip(code, self._steps, strict=True):
            table += (form.kernel, form.finish, k.entry.times, start, size)
            start += 8 * k.program.words
        table += (0,) * 5
        # `Patch` and `JobEntry` records; an array of ctypes would be of a new type,
        # which only the collector of cycles frees
        words = array("q", table)
        self._owned = own, block, words, code
        self._address = words.buffer_info()[0]
        return True

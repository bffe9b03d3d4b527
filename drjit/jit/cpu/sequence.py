"""Small launches that follow each other in a frozen function, as one call of native code."""

import struct
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from .. import flags, log
from ..device import size_class
from ..ir.node import BUFFER, Node, next_serial
from ..run.launch import layout_of
from . import kernel, memory, runtime


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

    The parameter blocks follow each other in one block, whose words are numbers known beforehand,
    addresses of values, and addresses of new buffers. What nothing needs afterwards is in memory of
    the sequence, because no other job runs meanwhile.
    """

    def __init__(self, steps: Sequence[Any], kept: Collection[int]) -> None:
        self._kernels = [step.kernel for step in steps]
        self._sizes = [step.size for step in steps]
        known: list[Any] = [0]  # the first word of a block: there is no record of errors
        read: dict[int, int] = {}  # the places of values
        made: dict[int, tuple[int, int]] = {}  # the words of results
        self._room: list[int] = []
        self._made: list[tuple[int, Any, int, int]] = []
        self._inside: list[tuple[int, int]] = []  # places of words, and offsets in own memory
        self._bytes = 0
        words: list[tuple[int, int]] = []  # known, read or new, and the place there

        def operand(k: int) -> tuple[int, int]:
            return made[k] if k in made else (1, read.setdefault(k, len(read)))

        for step in steps:
            words.append((0, 0))
            words += [operand(k) for k in step.inputs]
            for _, value in step.literals:
                words.append((0, len(known)))
                known.append(value)
            words += [operand(k) for k, *_ in step.effects]
            results = [o for o in step.outputs if o is not None]
            for place, nbytes in enumerate(step.kernel.room_for(step.size)):
                is_result = step.kernel.passed is None or place in step.kernel.passed
                number, t, reduced = results.pop(0) if is_result else (-1, None, False)
                if number in kept:
                    self._made.append((number, t, 1 if reduced else step.size, len(self._room)))
                    words.append((2, len(self._room)))
                    self._room.append(nbytes)
                else:
                    words.append((0, len(known)))
                    self._inside.append((len(known), self._bytes))
                    known.append(0)
                    self._bytes += size_class(nbytes) + memory.PADDING
                made[number] = words[-1]
        starts = (0, len(known), len(known) + len(read))
        self._known, self._read = known, [*read]
        self._pick = itemgetter(*[starts[kind] + place for kind, place in words])
        layouts = [layout_of(k.program) for k in self._kernels]
        self._places = [struct.calcsize("<" + "".join(layouts[:n])) for n in range(len(layouts))]
        self._pack = struct.Struct("<" + "".join(layouts)).pack
        self._table: Any = None
        self._address = 0
        self._memory: Any = None

    def __call__(self, values: list) -> bool:
        """Returns whether it was possible; if not, nothing has happened."""
        if not self._address and not self._prepare():
            return False
        if flags.current & kernel.SLOW or runtime.unfinished or log.level >= 3:
            return False
        if kernel.tier == "numpy":
            return False
        words = [*self._known]
        for k in self._read:
            b = values[k].data
            if b.source is not None:
                return False
            words.append(b.address)
        buffers = memory.allocate_all(self._room)
        for b in buffers:
            words.append(b.address)
        if not runtime.start(self._address, self._pack(*self._pick(words)), 0):
            return False
        for k in self._kernels:
            k.launches += 1
        for number, t, lanes, place in self._made:
            values[number] = n = Node()  # as by `make`, without a call for each
            n.op = BUFFER
            n.dtype = t
            n.size = lanes
            n.deps = ()
            n.data = buffers[place]
            n.mark = None
            n.serial = next_serial()
        return True

    def _prepare(self) -> bool:
        """Makes the table of what native code runs, once all kernels are compiled."""
        steps = [*zip(self._kernels, self._sizes, self._places, strict=True)]
        if any(size > k.few for k, size, _ in steps):
            return False
        rows = [
            (k.entry.kernel, k.entry.finish, k.entry.times, place, size) for k, size, place in steps
        ]
        self._table = np.array([*rows, (0,) * 5], np.int64)  # of `Entry`; the last one is the end
        self._memory = memory.allocate(self._bytes)
        for place, offset in self._inside:
            self._known[place] = self._memory.address + offset
        self._address = self._table.ctypes.data
        return True

"""Known programs of plain arithmetic on few lanes, which native code evaluates: it finds out from
the nodes which program they are, fills the parameter block, and launches the kernel.

A program becomes known when it has been launched twice, in a process that launches many. The code
(`drjit.jit.native`) reads and writes objects of Python's where this interpreter has their fields;
if that cannot be found out, no programs become known.
"""

import ctypes
import itertools
import sys
import types
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from .. import log
from ..device import size_class
from ..ir import dtype as dt
from ..ir import op
from ..ir.node import Node
from ..native import loader, objects
from ..run import schedule
from ..target import foreign
from ..text.structure import TYPE_AND_DATA
from . import background, kernel, memory, runtime

# Further launches of small kernels after which the native code is loaded, if the disk cache has it,
# and after which it is compiled, which takes as long as 20,000 launches save.
OFTEN, MANY = 256, 2048
MOST = 2048  # programs known, and programs met once

Scan, Record, LaunchRecord, KnownPlan, Finalizer = map(
    objects.layout,
    (objects.Scan, objects.Record, objects.LaunchRecord, objects.KnownPlan, objects.Finalizer),
)
_finalizer: Any = Finalizer()
foreign.symbols["drjit_finalizer"] = ctypes.addressof(_finalizer)
# Windows has no table of far addresses, through which the code refers to its data elsewhere.
_FINALIZES = sys.platform != "win32"
_FINALIZED = {
    "other": memory.Buffer.__del__, "runtime": vars(runtime), "submitted": sys.intern("submitted"),
}  # fmt: skip


def install_finalizer(function: int) -> None:
    """Has buffers freed by native code."""
    name = sys.intern("__del__")
    known = vars(types.GeneratorType).get(name)
    found = objects.memory_of(known)
    if len(found) != 7 or found[2:4] != [id(types.GeneratorType), id(name)]:
        return
    objects.fill(_finalizer, **_FINALIZED)
    _finalizer.usage = ctypes.addressof(memory.usage)
    # The last buffers are freed when nothing else is left.
    for thing in (_finalizer, _FINALIZED, memory.usage, memory.Buffer):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    setattr(memory.Buffer, name, loader.slot_wrapper(memory.Buffer, found[5], function))


def set_plain(s: Any) -> None:
    """Writes the table in which `is_plain` finds element-wise operations."""
    for o in op.TABLE.values():
        if o.plain:
            k = id(o) >> 4
            while s.plain[k % len(s.plain)]:
                k += 1
            s.plain[k % len(s.plain)] = id(o)


def _buffer() -> memory.Buffer:
    """Returns a buffer without memory."""
    made = object.__new__(memory.Buffer)
    made._block = nothing = object.__new__(memory.Block)
    nothing.free, nothing.owner = None, None
    return made


objects.samples[objects.Buffer] = _buffer
objects.samples[objects.Block] = lambda: object.__new__(memory.Block)
objects.samples[objects.Effect] = lambda: object.__new__(schedule.Effect)


_NAMES = "again", "examine", "again_plan", "examine_plan"
_EXPORTED = *_NAMES, "replay", "perform_plan", *["finalize"] * _FINALIZES


def loaded(compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the code's functions; nothing if it does not fit to the interpreter,
    or is not in the disk cache and this `compiles` nothing."""
    if not objects.are_known():
        return {}
    modules = "programs plans finalizer" if _FINALIZES else "programs plans"
    return loader.addresses(modules, _EXPORTED, compiles)


class KnownPrograms:
    """The programs that native code knows, and its scratch memory."""

    def __init__(self, places: dict[str, int]) -> None:
        self._places = places
        self._memory = bytearray(ctypes.sizeof(Scan) + 64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.scan: Any = Scan.from_address(address + -address % 64)
        s = self.scan
        objects.fill(s, buffer_type=memory.Buffer)
        set_plain(s)
        s.usage = ctypes.addressof(memory.usage)
        self._control: Any = None
        self._functions: list[Any] = [_nothing] * len(_NAMES)
        self._again: Any = _nothing  # the first of them, which is called most
        self._plans: dict[int, list] = {}  # by address of the record, with what finds them
        self._records: list[Any] = []  # kernels, records, and what these refer to
        self._met: set[bytes] = set()

    def forget(self) -> None:
        """Forgets all programs."""
        for made, record, *_ in self._records:
            made.records.remove(record)
            made.counted += record.launches
        self._records.clear()
        self._met.clear()
        self._plans.clear()
        for heads in (self.scan.heads, self.scan.plans):
            ctypes.memset(ctypes.addressof(heads), 0, ctypes.sizeof(heads))

    def _bind(self) -> None:
        """Binds the functions to the launcher's control block, which may be a new one."""
        self._control = control = runtime.control()
        self._functions = [_nothing] * len(_NAMES)
        if control is not None:
            owner = ctypes.addressof(control), ctypes.addressof(self.scan)
            self._functions = [loader.bound(name, self._places[name], *owner) for name in _NAMES]
        self._again = self._functions[0]

    def _is_busy(self) -> bool:
        """Returns whether evaluations have to take the general way."""
        if runtime.unfinished or log.level >= 3 or kernel.tier in kernel.INTERPRETED:
            return True
        if runtime.control() is not self._control:
            self._bind()
        return False

    def sequence(self, table: int, reads: int, results: Sequence[tuple[Any, int, int]]) -> Any:
        """Returns the record of a sequence with a table and numbers of operands and results, which
        have a type, a number of lanes and a size in bytes; and everything that it refers to."""
        lanes = [n for _, n, _ in results]
        rooms = rooms_for([nbytes for *_, nbytes in results])
        made = array(
            "q", [id(x) for (t, *_), n in zip(results, lanes, strict=True) for x in (t, n)]
        )
        places = [a.buffer_info()[0] for a in (rooms, made)]
        return LaunchRecord(table, reads, len(results), *places, 0), (lanes, rooms, made)

    def bound(self, name: str, record: Any) -> Callable[..., Any]:
        """Returns the function with a name, in `program_code` or `plan_code`, for a record."""
        control = runtime.control()
        if control is None:
            return _nothing
        owner = [ctypes.addressof(x) for x in (control, self.scan, record)]
        return loader.bound(name, self._places[name], *owner)

    def again(self, roots: list[Node]) -> bool:
        """Evaluates nodes if their program is known and nothing is queued; returns whether it has
        done so."""
        if not self._records or self._is_busy():
            return False
        return self._again(roots)

    def again_plan(self, roots: list[Node]) -> Any:
        """Evaluates nodes if their plan is known and nothing is queued. Returns None if it has not,
        or the plan and whether it was performed to the end: if not, an index was out of bounds, and
        the list now has all nodes in traversal order."""
        if not self._plans or self._is_busy():
            return None
        done = self._functions[2](roots)
        return None if done is False else (self._plans[self.scan.plan][0], done)

    def learn_plan(self, plan: Any, record: Any, roots: list[Node], order: list[Node]) -> None:
        """Makes a plan known that is about to be performed. The words of the key name objects,
        which are kept."""
        s = self.scan
        if self._is_busy() or not self._functions[3](roots) or s.plan:
            return
        if [s.order[k] for k in range(s.visited)] != [id(n) for n in order]:
            return
        if len(self._plans) >= MOST:
            self.forget()
        named: list[Any] = [(n.op, n.dtype) for n in order]
        for n in order:
            if n.op.effect:
                named.append((n.data.dtype, n.data.reduce, n.data.mode))
            elif n.op.code >> 8 & 15 == TYPE_AND_DATA:
                named.append(n.data)
        words = array("q", ctypes.string_at(ctypes.addressof(s.key), 8 * s.length))
        sizes = array("q", [*itertools.chain(*plan.sizes), 0])
        place = (s.hash & (1 << 64) - 1) >> 40 & len(s.plans) - 1
        known = KnownPlan(
            s.plans[place], s.hash, s.length, words.buffer_info()[0], ctypes.addressof(record),
            sizes.buffer_info()[0], len(plan.sizes),
        )  # fmt: skip
        kept = self._plans.setdefault(ctypes.addressof(record), [plan])
        kept.append((known, words, sizes, named))
        s.plans[place] = ctypes.addressof(known)

    def learn(self, made: kernel.CpuKernel, roots: list[Node], graph: Any, passed: Any) -> None:
        """Notes a program that a kernel is about to evaluate; the second time, it becomes known."""
        s, inputs, literals = self.scan, graph.inputs, graph.literals
        if runtime.control() is not self._control:
            self._bind()
        s.length = 0
        if self._functions[1](roots) or not s.length:
            return
        key = ctypes.string_at(ctypes.addressof(s.key), 8 * s.length)
        if key not in self._met:
            if len(self._met) >= MOST:
                self._met.clear()
            self._met.add(key)
            return
        if s.inputs_met != len(inputs) or s.literals_met != len(literals):
            return
        if any(s.inputs[k] != n.data.address for k, n in enumerate(inputs)):
            return
        taken, given, _ = passed
        taken = range(len(inputs)) if taken is None else taken
        given = range(len(literals)) if given is None else given
        if 1 + len(taken) + len(given) + s.outputs > len(s.block):
            return
        picks: list[int] = []
        for k in given:
            t, value = literals[k].dtype.element, literals[k].data
            if t is dt.f16 or (type(value) is float) is not t.is_float:
                return
            picks += (k, t is dt.f32)
        if len(self._records) >= MOST:
            self.forget()
        self._add(made, key, taken, picks, graph.plain_key())

    def _add(
        self, made: Any, key: bytes, taken: Sequence[int], picks: list[int], named: tuple
    ) -> None:
        """Adds a record. The words of the key name objects, which are also in `named`."""
        s = self.scan
        tables = [array("q", [*v, 0]) for v in (taken, picks)]
        tables.append(rooms_for(made.room_for(s.size)))
        words = array("q", key)
        order, choice, places = [t.buffer_info()[0] for t in tables]
        place = (s.hash & (1 << 64) - 1) >> 40 & len(s.heads) - 1
        record = Record(
            s.heads[place], s.hash, s.length, words.buffer_info()[0], made.entry_address, 0,
            len(taken), len(picks) // 2, order, choice, places,
        )  # fmt: skip
        made.records.append(record)
        self._records.append((made, record, tables, words, named))
        s.heads[place] = ctypes.addressof(record)


def rooms_for(sizes: Sequence[int]) -> array:
    """Returns `Room` records for numbers of bytes."""
    rooms: list[int] = []
    capacities = [size_class(nbytes) for nbytes in sizes]
    for capacity in capacities:
        rooms += (id(memory.pool(capacity)), capacity, capacities.count(capacity), 0)
    return array("q", [*rooms, 0])


def _nothing(*_: Any) -> bool:
    return False


_known: KnownPrograms | None = None
_coming: Any = None
_seen = 0


def learn(made: kernel.CpuKernel, roots: list[Node], graph: Any, passed: Any) -> None:
    """Takes note of a program; see `Kernel.learn`."""
    found = known()
    if found is not None:
        found.learn(made, roots, graph, passed)


def known(launches: int = 1) -> KnownPrograms | None:
    """Returns what knows the programs, if the native code is there; counts launches until then.
    Where it has to be compiled, this happens in the background."""
    global _known, _coming, _seen
    if _known is not None:
        return _known
    before = _seen
    _seen += launches
    if before // OFTEN == _seen // OFTEN:
        return None
    places: dict[str, int] = {}
    if before < OFTEN:
        places = loaded(compiles=False)
    elif _coming is None:
        _coming = background.submit(loaded) if _seen >= MANY else None
    elif _coming.done():
        places = _coming.result()
    if places:
        _known = KnownPrograms(places)
        if _FINALIZES:
            install_finalizer(places["finalize"])
        schedule.again, schedule.forget_again = _known.again, _known.forget
    return _known

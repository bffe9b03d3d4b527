"""Plans as native code has them (`native/plans.py`).

Native code finds the plan of an evaluation from its nodes, and performs it, once Python has
performed it twice, in processes that trace enough for that code to be loaded. It reads and writes
fields of Python's objects where this interpreter has them; if that cannot be found out, there is no
native code. If all kernels are small, it performs the launches at once, and turns the nodes into
buffers. Otherwise, and while something is queued, it only finds the plan, allocates results and
writes parameter blocks; Python queues the launches.
"""

import ctypes
import itertools
import sys
import types
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import collector, log, substitutes
from ..device import Device, size_class
from ..ir import dtype as dt
from ..ir.node import BUFFER, Node
from ..native import division, loader, objects
from ..native.objects import (
    IS_BUFFER,
    IS_CHECK,
    IS_DOUBLE,
    IS_INTEGER,
    IS_QUEUED,
    IS_SINGLE,
    IS_SIZE,
    IS_SMALL,
    IS_TARGET,
    SPARES,
)
from ..run import pending, schedule
from ..run.launch import ErrorRecord, checked, link
from ..run.plan import MOST_SIZES, Plan, taker
from ..target import foreign
from ..text.structure import ELEMENTWISE, WITH_DATA
from . import kernel, memory, runtime, variants

PlanRecord = objects.layout(objects.PlanRecord)
_KINDS = {dt.f32: IS_SINGLE, dt.f64: IS_DOUBLE}
_LATER = 64  # calls between two checks of whether to optimize kernels
MOST = 2048  # plans that are known

ScanHead, KnownPlan, Finalizer = map(
    objects.layout, (objects.ScanHead, objects.KnownPlan, objects.Finalizer)
)
_finalizer: Any = Finalizer()
foreign.symbols["drjit_finalizer"] = ctypes.addressof(_finalizer)
# Windows has no table of far addresses, through which the code refers to its data elsewhere.
FINALIZES = sys.platform != "win32"
_FINALIZED = {
    "other": memory.Buffer.__del__, "runtime": vars(runtime), "submitted": sys.intern("submitted"),
}  # fmt: skip


MODULES = "plans walker finalizer" if FINALIZES else "plans walker"
OBJECTS = [
    objects.Node, objects.Op, objects.DType, objects.BlockData, objects.Buffer, objects.Block,
    objects.Effect,
]  # fmt: skip


def fits() -> bool:
    """Returns whether the interpreter has what this code needs."""
    return True


def exported() -> list[str]:
    """Returns the names of the functions that the code exports."""
    names = ["repeat_plan", "examine_plan", "replay", "perform_plan", "collect_nodes", "remake"]
    return names + ["finalize"] * FINALIZES


def definitions() -> dict[str, str]:
    """Returns definitions of exported functions that are not in the modules; see
    `loader.addresses`."""
    return {}


def install(places: dict[str, int]) -> None:
    """Lets native code traverse programs, perform plans, and free buffers."""
    substitutes.plans = plans = KnownPrograms(places)
    substitutes.collect_nodes, substitutes.remake = plans.collect_nodes, plans.remake
    substitutes.perform, substitutes.forget = perform, plans.forget
    if FINALIZES:
        install_finalizer(places["finalize"])


def perform(plan: Plan, roots: Sequence[Node], order: list[Node]) -> int:
    """Performs the launches of a plan, if native code can; see `substitutes.perform`."""
    lanes = roots[0].size if plan.is_for_any_size else 0
    made = plan.native.get(lanes, 0)
    if type(made) is int:
        if len(plan.native) > MOST_SIZES:
            plan.native.clear()
        plan.native[lanes] = made = made + 1
        # If some kernels are not compiled yet, they may be later.
        if made & (made - 1) == 0:
            ways = _ways(plan.launches, lanes, len(order))
            # Large arrays often have another size each time.
            if ways & IS_SMALL or (ways and made > 1):
                plan.native[lanes] = LaunchPlan(substitutes.plans, plan, lanes, len(order), ways)
        return 0
    return made.perform(roots, order)


def _ways(launches: Sequence[tuple], lanes: int, length: int) -> int:
    """Returns whether the calling thread can run all kernels (`IS_SMALL`), and whether they can be
    queued (`IS_QUEUED`), as bits; 0 if some are not compiled, or native code does not support their
    operands. The launches take nodes from lists of a given `length`."""
    ways, results, computed, checked = IS_SMALL | IS_QUEUED, 0, set(), set()
    for made, size, roots, _, _, checks, _ in launches:
        if type(made) is not kernel.CpuKernel or not made.address:
            return 0
        used = made.program
        private = [t for t, mode in used.effects if mode == "expand"]
        if (size or lanes) > made.inline_lanes or any(t.accumulator is not t for t in private):
            ways &= IS_QUEUED
        if private:  # which need memory for each launch
            ways &= IS_SMALL
        if dt.f16 in used.literals:
            return 0
        results += len(made.buffers)
        computed.update(roots(range(length)))
        checked.update(checks(range(length)))
    # A check that is a result becomes a buffer, and can no longer say where it is.
    return ways if results <= objects.OUTPUTS and computed.isdisjoint(checked) else 0


def _bytes_of_partials(made: kernel.CpuKernel, lanes: int, queued: int) -> int:
    """Returns the bytes of the partial results of a reduction, one for each block."""
    blocks = 1
    if queued:  # for any number of threads
        blocks += min(lanes // 64, lanes * made.cost // division.BLOCK_WORK)
    return 8 * blocks


def _operands(launch: tuple, length: int) -> Iterator[tuple[int, int]]:
    """Returns the words of the parameter block before those of the outputs: for each, the position
    of the node that it depends on, and how."""
    made, _, _, *parts = launch
    inputs, literals, checks, targets = [part(range(length)) for part in parts]
    yield from [(k, IS_BUFFER) for k in inputs]
    for k, t in zip(literals, made.program.literals, strict=True):
        yield k, _KINDS.get(t, IS_INTEGER)
    yield from [(k, IS_CHECK) for k in checks]
    for k, (_, mode) in zip(targets, made.program.effects, strict=True):
        yield k, IS_TARGET
        if mode == "expand":  # a single thread needs no private copy
            yield from ((k, IS_TARGET), (k, IS_SIZE))


def install_finalizer(function: int) -> None:
    """Has buffers freed by native code."""
    name = sys.intern("__del__")
    slot = vars(types.GeneratorType).get(name)
    words = objects.memory_of(slot)
    if len(words) != 7 or words[2:4] != [id(types.GeneratorType), id(name)]:
        return
    objects.fill(_finalizer, **_FINALIZED)
    _finalizer.usage = ctypes.addressof(memory.usage)
    # The last buffers are freed when nothing else is left.
    for thing in (_finalizer, _FINALIZED, memory.usage, memory.Buffer):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    setattr(memory.Buffer, name, loader.slot_wrapper(memory.Buffer, words[5], function))


def _sample_buffer() -> memory.Buffer:
    """Returns a buffer without memory."""
    buffer = object.__new__(memory.Buffer)
    buffer._block = nothing = object.__new__(memory.Block)
    nothing.free, nothing.owner = None, None
    return buffer


objects.samples[objects.Buffer] = _sample_buffer
objects.samples[objects.Block] = lambda: object.__new__(memory.Block)
objects.samples[objects.Effect] = lambda: object.__new__(pending.Effect)


_native_memory: list[Any] = []  # memory that native code uses


class KnownPrograms:
    """The plans that native code knows, and the scratch memory of that code."""

    def __init__(self, places: dict[str, int]) -> None:
        self._places = places
        # Few programs touch all of it.
        own, address = memory.from_system(objects.size_of(objects.Scan))
        self.scan: Any = ScanHead.from_address(address)
        objects.fill(self.scan, buffer_type=memory.Buffer)
        self.scan.usage = ctypes.addressof(memory.usage)
        positions = [*range(objects.POSITIONS)]
        self.scan.positions = objects.word_at(id(positions) + objects.LIST)
        _native_memory.extend((own, positions))
        walks = "collect_nodes", "remake"
        self.collect_nodes, self.remake = [loader.bound(f, places[f], address) for f in walks]
        self._control: Any = None
        self.at_work = False
        """Whether native code has just said in its scratch memory what is left to do. Meanwhile,
        evaluations by finalizers take the general way."""
        self._repeat: Callable[..., Any] = runtime.not_loaded
        self._examine: Callable[..., Any] = runtime.not_loaded
        # By the address of what native code finds: the `plans.LaunchPlan`, and what that refers to.
        self._known: dict[int, tuple] = {}

    def forget(self) -> None:
        """Forgets all plans."""
        self._known.clear()
        heads = self.scan.plans
        ctypes.memset(ctypes.addressof(heads), 0, ctypes.sizeof(heads))

    def bound(self, name: str, *records: Any) -> Callable[..., Any]:
        """Returns native code as a function of Python, for the launcher's control block."""
        control = runtime.control()
        if control is None:
            return runtime.not_loaded
        owner = [ctypes.addressof(x) for x in (control, self.scan, *records)]
        return loader.bound(name, self._places[name], *owner)

    def is_busy(self) -> bool:
        """Returns whether evaluations have to take the general way."""
        if self.at_work or log.level >= 3 or variants.pinned in variants.INTERPRETED:
            return True
        if runtime.unfinished:
            runtime.prune_complete()
        if runtime.control() is not self._control:  # there may be a new one
            self._control = runtime.control()
            self._repeat, self._examine = map(self.bound, ("repeat_plan", "examine_plan"))
        return False

    def repeat(self, roots: list[Node], device: Device | None) -> bool:
        """Evaluates nodes if their plan is known; returns whether it did. See
        `substitutes.repeat`."""
        if not self._known or self.is_busy():
            return False
        order: list[Any] = []
        self.at_work = True
        try:
            done: bool | None = self._repeat(roots, order)
            if done is not None:
                return done
            plan = self._known[self.scan.plan][0]
            if self.scan.queued:
                plan.queue(order)
                return True
            plan.optimize_hot_kernels()
            if self.scan.failed:  # an index was out of bounds
                schedule.launch_all(plan.launches[plan.finish_before_error(order) :], order)
            else:
                for n in roots:
                    if n.op.effect or n.op.block:
                        schedule.finish_effect(n)
            return True
        finally:
            self.at_work = False

    def learn(self, plan: Any, record: Any, roots: list[Node], order: list[Node]) -> None:
        """Makes a plan known that is about to be performed, given its `plans.LaunchPlan` and the
        record for native code. The key contains addresses of objects, which are kept alive."""
        with collector.paused():
            self._learn(plan, record, roots, order)

    def _learn(self, plan: Any, record: Any, roots: list[Node], order: list[Node]) -> None:
        s = self.scan
        if self.is_busy() or not self._examine(roots) or s.plan:
            return
        if [s.order[k] for k in range(s.visited)] != [id(n) for n in order]:
            return
        if len(self._known) >= MOST:
            self.forget()
        named: list[Any] = []
        for n in order:
            if n.op.effect:
                named.append((n.data.dtype, n.data.reduce, n.data.mode))
            elif n.op.code >> 8 & 15 in (ELEMENTWISE, *WITH_DATA):
                named.append(n.data)
        words = array("q", ctypes.string_at(ctypes.addressof(s.key), 8 * s.length))
        sizes = array("q", [*itertools.chain(*plan.sizes), 0])
        place = (s.hash & (1 << 64) - 1) >> 40 & len(s.plans) - 1
        known = KnownPlan(
            s.plans[place], s.hash, s.length, words.buffer_info()[0], ctypes.addressof(record),
            sizes.buffer_info()[0], len(plan.sizes),
        )  # fmt: skip
        self._known[ctypes.addressof(known)] = plan, known, words, sizes, named
        s.plans[place] = ctypes.addressof(known)
        substitutes.repeat = self.repeat


class Launches:
    """Launches as native code performs them: their parameter blocks, and tables of what to write to
    the words of these. Values have positions: operands are found at `places`, or are results of
    earlier launches, of which those that are `kept` are returned.

    The parameter blocks are made once, and so is the memory of partial results of reductions, and
    of results that nothing needs afterwards: no other job runs meanwhile.
    """

    def __init__(
        self, known: KnownPrograms, function: str, kernels: Sequence[kernel.CpuKernel],
        ways: int,
    ) -> None:  # fmt: skip
        self._known, self._function, self._ways = known, function, ways
        self.kernels = kernels
        self.number: dict[int, int] = {}  # of a result, by its position
        self._words = array("q", [0] * sum([k.program.words for k in kernels]))
        self._operands: list[int] = []
        self._links: list[int] = []
        self._steps: list[int] = []
        self._nbytes: list[int] = []  # of the results
        self.record: Any = None
        self._inside: dict[int | None, int] = {}  # addresses of results that are not returned
        self._owned: list[Any] = []
        self._at = 0

    def _place(self) -> int:
        """Returns the address of the next word."""
        self._at += 1
        return self._words.buffer_info()[0] + 8 * (self._at - 1)

    def add(
        self, lanes: int, operands: Iterable[Any], results: Iterable[int],
        places: Mapping[int, int] | range, kept: Container[int],
    ) -> None:  # fmt: skip
        """Adds the launch of the next kernel: its operands are positions with a kind (`IS_BUFFER`
        and so on), or literals that stay the same."""
        used = self.kernels[len(self._steps) // 6]
        first, start, results = self._at, self._place(), iter(results)
        words = [0] * used.program.words
        for operand in operands:
            k, kind = operand if type(operand) is tuple else (None, 0)
            place = self._place()
            if k in self.number:
                self._links += (place, 8 * self.number[k], 0)
            elif k is None or k in self._inside:
                words[self._at - first - 1] = operand if k is None else self._inside[k]
            else:
                self._operands += (place, 8 * places[k], kind)
        for (kind, _), nbytes in zip(used.buffers, used.buffer_sizes(lanes), strict=True):
            place, k = self._place(), None if kind == "partial" else next(results)
            if k is not None and k in kept:
                self._links += (place, 8 * len(self.number), 0)
                self.number[k] = len(self.number)
                self._nbytes.append(nbytes)
            else:
                if k is None:
                    nbytes = _bytes_of_partials(used, lanes, self._ways & IS_QUEUED)
                self._owned.append(own := memory.allocate(nbytes))
                words[self._at - first - 1] = self._inside[k] = own.address
        self._words[first : self._at] = array("q", used.pack(*words))
        nbytes, checks = 8 * (self._at - first), used.program.checks > 0
        self._steps += (used.entry_address, start, nbytes, lanes, checks, len(self.number))

    def finish(self, positions: Iterable[int] = (), made: Iterable[int] = ()) -> None:
        """Makes the record for native code, once all launches are there; see `PlanRecord`."""
        sizes = [*map(size_class, self._nbytes)]
        rooms = [x for n in sizes for x in (id(memory.pool(n)), n, sizes.count(n), 0)]
        rows = self._operands, self._links, self._steps, positions, made, rooms
        tables = [array("q", [*row, 0]) for row in rows]
        given, linked, steps, places, results, free = [t.buffer_info()[0] for t in tables]
        self.report = memory.Buffer.device.error_words()
        counts = len(self.kernels), len(self.number)
        self.record = PlanRecord(
            given, linked, steps, *counts, places, free, self.report.address, self._ways,
            0, 0, 0, results,
        )  # fmt: skip
        self._owned += tables
        for k in self.kernels:
            k.records.append(self.record)
        self.bind()

    def __del__(self) -> None:
        if self.record is not None:
            for k in self.kernels:
                k.records.remove(self.record)
                k.counted += self.record.launches

    def bind(self) -> None:
        """Binds native code to the current control block of the launcher. From then on, `replay`
        performs the launches."""
        self.control = runtime.control()
        self.replay = self._known.bound(self._function, self.record)


class LaunchPlan(Launches):
    """The launches of a plan, for nodes in lists of `length`, in the `ways` that are possible
    (`IS_SMALL`, `IS_QUEUED`). A plan for any size becomes one for a number of `lanes`. Launches
    that are queued get copies of the parameter blocks.

    `replay` performs the launches for a list of nodes. It returns True; or False, if that is not
    possible now; or None, if an index was out of bounds in the last kernel that it launched, or if
    Python is to queue the launches.
    """

    def __init__(
        self, known: KnownPrograms, plan: Plan, lanes: int, length: int, ways: int
    ) -> None:
        self.launches = launches = plan.launches  # rather than the plan, which refers to this
        super().__init__(known, "perform_plan", [k for k, *_ in launches], ways)
        order = range(length)
        self._length, self.calls, self.sizes = length, 0, plan.sizes
        if plan.is_for_any_size:
            self.sizes = [(k, lanes) for k in launches[0][2](order)]
        self._lanes = [size or lanes for _, size, *_ in launches]
        effects: list[int] = []
        for launch, n in zip(launches, self._lanes, strict=True):
            made, _, roots, *_ = launch
            values: list[int] = []
            for k, (kind, _) in zip(roots(order), made.outputs, strict=True):
                (effects if kind == "effect" else values).append(k)
            self.add(n, _operands(launch, length), values, order, order)
        self._effects = taker(effects)
        # The number of each result of a launch, None for effects.
        self._numbers = [[self.number.get(k) for k in v[2](order)] for v in launches]
        self._has_checks = any(k.program.checks for k in self.kernels)
        self.finish(positions=[8 * k for k in self.number])

    def bind(self) -> None:
        super().bind()
        self._blocks = [
            kernel.block_for(n * k.cost, n) for k, n in zip(self.kernels, self._lanes, strict=True)
        ]

    def perform(self, roots: Sequence[Node], order: list[Any]) -> int:
        """Performs the launches, given the nodes to be evaluated and all nodes; returns how many it
        performed. Lets native code find the plan from now on, where it can."""
        if self._known.is_busy():
            return 0
        if runtime.control() is not self.control:
            self.bind()
        if self.calls & (self.calls - 1) == 0 and self.record.results <= SPARES:
            self._known.learn(self, self.record, [*roots], order)
        self.calls += 1
        self._known.at_work = True
        try:
            done = self.replay(order)
            if done:
                self.optimize_hot_kernels()
                for n in self._effects(order):
                    schedule.finish_effect(n)
            elif done is None and self._known.scan.queued:
                self.queue(order)
            else:
                return 0 if done is False else self.finish_before_error(order)
            return len(self.launches)
        finally:
            self._known.at_work = False

    def queue(self, order: list[Any]) -> None:
        """Queues the launches. `order` has all nodes, and behind them the results and the parameter
        blocks that native code has made."""
        if runtime.control() is not self.control:
            self.bind()
        self.optimize_hot_kernels()
        made = order[self._length :]
        del order[self._length :]
        given = made[self.record.results :]
        for (k, _, *parts), size, block, words, numbers in zip(
            self.launches, self._lanes, self._blocks, given, self._numbers, strict=True
        ):
            roots, inputs, _, checks, targets = parts
            for n in targets(order):
                n.data.buffer.origin  # noqa: B018 (takes note that foreign memory is written)
            record = stop = None
            if k.program.checks:
                record = ErrorRecord(k.device, checked(checks(order)))
                words = record.address.to_bytes(8, sys.byteorder) + words[8:]
            elif k.loops:  # there is nothing to check, but Ctrl-C ends loops by the last word
                stop = array("q", bytes(48))
                words = stop.buffer_info()[0].to_bytes(8, sys.byteorder) + words[8:]
            runtime.launch(
                k.entry, words, size, block, False, (k, self, record, stop),
                record and record.check, k.entry.times, k.clock.last or runtime.UNKNOWN_NS,
            )  # fmt: skip
            outputs = [None if r is None else made[r] for r in numbers]
            if self._has_checks:  # of which later launches must know
                link(
                    [n.data for n in inputs(order)], outputs,
                    [n.data.buffer for n in targets(order)], record,
                )  # fmt: skip
            schedule.finish_all(roots(order), outputs)

    def optimize_hot_kernels(self) -> None:
        """Has the optimized variants compiled of kernels that run baselines, if that pays."""
        now = self.record.launches % _LATER == 0
        for k in self.kernels:
            if k.is_baseline and (now or k.clock.total * 1e-9 > variants.HOT_SECONDS):
                variants.optimize_if_hot(k)

    def finish_before_error(self, order: list[Node]) -> int:
        """Does what remains to be done for the launches up to the one in which an index was out of
        bounds; returns their number."""
        done = self.record.done
        report, self.report = self.report, memory.Buffer.device.error_words()
        self.record.report = self.report.address
        for k, (made, _, *parts) in enumerate(self.launches[:done]):
            roots, inputs, literals, checks, targets = [part(order) for part in parts]
            made.counted += 1
            outputs = [n.data for n in roots if n.op is BUFFER]
            if k == done - 1:
                operands = inputs, literals, checks, [n.data for n in targets]
                made.record_failure(report, operands, outputs)
            for n in roots:
                if n.op is not BUFFER:
                    schedule.finish_effect(n)
        return done

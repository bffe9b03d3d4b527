"""Plans as native code has them (`native/plans.py`). Where all kernels are small, it performs the
launches at once, and turns the nodes into buffers. Otherwise, and while something is queued, it
finds the plan, allocates results and writes parameter blocks, and Python queues the launches.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from .. import log, substitutes
from ..device import size_class
from ..ir import dtype as dt
from ..ir.node import BUFFER, Node
from ..native import objects
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
from ..run import schedule
from ..run.launch import ErrorRecord, checked, link
from ..run.plan import MOST_SIZES, Plan, taker
from . import kernel, memory, programs, runtime, variants

PlanRecord = objects.layout(objects.PlanRecord)
_KINDS = {dt.f32: IS_SINGLE, dt.f64: IS_DOUBLE}
_LATER = 64  # calls after which kernels are asked whether to optimize them


MODULES = "plans walker finalizer" if programs.FINALIZES else "plans walker"
OBJECTS = [
    objects.Node, objects.Op, objects.DType, objects.OpenRegion, objects.Buffer, objects.Block,
    objects.Effect,
]  # fmt: skip


def fits() -> bool:
    """Returns whether the interpreter has what this code needs."""
    return True


def exported() -> list[str]:
    """Returns the names of the code's functions."""
    names = ["repeat_plan", "examine_plan", "replay", "perform_plan", "collect_nodes", "remake"]
    return names + ["finalize"] * programs.FINALIZES


def definitions() -> dict[str, str]:
    """Returns those of them that the modules do not have, see `loader.addresses`."""
    return {}


def install(places: dict[str, int]) -> None:
    """Has native code go through programs, perform plans, and free buffers."""
    substitutes.plans = known = programs.KnownPrograms(places)
    substitutes.collect_nodes, substitutes.remake = known.collect_nodes, known.remake
    substitutes.perform, substitutes.forget = perform, known.forget
    if programs.FINALIZES:
        programs.install_finalizer(places["finalize"])


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
    if log.level >= 3 or variants.pinned in variants.INTERPRETED:
        return 0
    if runtime.unfinished:
        runtime.tidy()
    if runtime.control() is not made.control:
        made.bind()
    if made.calls & (made.calls - 1) == 0:
        made.learn(roots, order)
    made.calls += 1
    done = made.replay(order)
    if done:
        made.look()
        made.finish_effects(order)
        return len(plan.launches)
    if done is None:
        return made.go_on(order)
    return 0


def _ways(launches: Sequence[tuple], lanes: int, length: int) -> int:
    """Returns whether the calling thread can run the machine code of all kernels (`IS_SMALL`),
    whether they can be queued (`IS_QUEUED`), and 0 where native code does not know what they take.
    The launches take nodes from lists of a length."""
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
    # What a check says about itself is lost where it is a result.
    return ways if results <= objects.OUTPUTS and computed.isdisjoint(checked) else 0


def _partial_bytes(made: kernel.CpuKernel, lanes: int, queued: int) -> int:
    """Returns the bytes of the partial results of a reduction, one for each block."""
    blocks = 1
    if queued:  # for any number of threads
        blocks += min(lanes // 64, lanes * made.cost // kernel.BLOCK_WORK)
    return size_class(8 * blocks) + memory.PADDING


def _operands(launch: tuple, length: int) -> Iterator[tuple[int, int]]:
    """Returns the positions of the nodes that the words of the parameter block before those of the
    outputs depend on, and how."""
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


class _ParameterBlocks:
    """The parameter blocks of launches that take nodes from lists of `length`, and tables that say
    what is to be written to their words. Partial results of reductions are in memory from `address`
    on."""

    def __init__(self, nwords: int, length: int, address: int) -> None:
        self.words = array("q", [0] * nwords)
        self.operands: list[int] = []
        self.links: list[int] = []
        self.steps: list[int] = []
        self.effects: list[int] = []
        self.number: dict[int, int] = {}  # of a result, by the position of the node
        self.nbytes: list[int] = []  # of the results
        self._at, self._length, self._address = 0, length, address

    def _place(self) -> int:
        """Returns the address of the next word."""
        self._at += 1
        return self.words.buffer_info()[0] + 8 * (self._at - 1)

    def add(self, launch: tuple, lanes: int, partial: int) -> None:
        """Adds a launch, whose partial results have `partial` bytes each."""
        made, _, roots, *_ = launch
        number, first, start = self.number, self._at, self._place()
        for k, kind in _operands(launch, self._length):
            if k in number:
                self.links += (self._place(), 8 * number[k], 0)
            else:
                self.operands += (self._place(), 8 * k, kind)
        values = []
        for k, (kind, _) in zip(roots(range(self._length)), made.outputs, strict=True):
            (self.effects if kind == "effect" else values).append(k)
        for (kind, _), nbytes in zip(made.buffers, made.buffer_sizes(lanes), strict=True):
            if kind == "partial":
                self.words[self._at] = self._address
                self._at += 1
                self._address += partial
            else:
                k = values.pop(0)
                number[k] = len(number)
                self.nbytes.append(nbytes)
                self.links += (self._place(), 8 * number[k], 0)
        nbytes, checks = 8 * (self._at - first), made.program.checks > 0
        self.steps += (made.entry_address, start, nbytes, lanes, checks, len(number))


class LaunchPlan:
    """The launches of a plan, for nodes in lists of `length`, in the `ways` that are possible. A
    plan for any size is performed for one number of `lanes`.

    The parameter blocks stay where they are, and launches that are queued get copies. Partial
    results stay as well, because no other job runs meanwhile.
    """

    def __init__(
        self, known: programs.KnownPrograms, plan: Plan, lanes: int, length: int, ways: int
    ) -> None:
        self._known, launches = known, plan.launches
        self._length = length
        self.launches = launches  # rather than the plan, which refers to this
        self.sizes = plan.sizes
        if plan.is_for_any_size:
            self.sizes = [(k, lanes) for k in launches[0][2](range(length))]
        self._kernels: list[kernel.CpuKernel] = [made for made, *_ in launches]
        self.calls = 0
        self._lanes = [size or lanes for _, size, *_ in launches]
        pairs = [*zip(self._kernels, self._lanes, strict=True)]
        partials = [_partial_bytes(k, n, ways & IS_QUEUED) for k, n in pairs]
        count = [[kind for kind, _ in k.buffers].count("partial") for k in self._kernels]
        nbytes = sum([n * c for n, c in zip(partials, count, strict=True)])
        own, address = memory.from_system(nbytes + memory.ALIGNMENT)
        nwords = sum([k.program.words for k in self._kernels])
        blocks = _ParameterBlocks(nwords, length, address + -address % memory.ALIGNMENT)
        for launch, n, partial in zip(launches, self._lanes, partials, strict=True):
            blocks.add(launch, n, partial)
        self._effects, number = taker(blocks.effects), blocks.number
        # Of what a launch computes, None for effects.
        self._numbers = [[number.get(k) for k in v[2](range(length))] for v in launches]
        self._has_checks = any(k.program.checks for k in self._kernels)
        self._report = memory.Buffer.device.error_words()
        rows = blocks.operands, blocks.links, blocks.steps, [8 * k for k in number]
        tables = [array("q", [*row, 0]) for row in rows]
        tables.append(programs.rooms_for(blocks.nbytes))
        given, made, todo, places, rooms = [t.buffer_info()[0] for t in tables]
        counts = len(launches), len(number)
        self._record = PlanRecord(
            given, made, todo, *counts, places, rooms, self._report.address, ways, 0, 0, 0, 0
        )
        self._owned = own, blocks.words, tables
        for k in self._kernels:
            k.records.append(self._record)
        self.bind()

    def __del__(self) -> None:
        for k in self._kernels:
            k.records.remove(self._record)
            k.counted += self._record.launches

    def bind(self) -> None:
        """Binds native code to the current control block of the launcher. From then on, `replay`
        performs the launches for a list of nodes, and returns True; or False, if that is not
        possible now; or None, if an index was out of bounds in the last kernel that it launched, or
        if they are to be queued."""
        self.control = runtime.control()
        self.replay = self._known.bound("perform_plan", self._record)
        self._blocks = [
            kernel.block_for(n * k.cost, n) for k, n in zip(self._kernels, self._lanes, strict=True)
        ]

    def go_on(self, order: list[Any]) -> int:
        """Does what native code has left to do; returns the number of launches that there are."""
        if self._known.scan.queued:
            self.queue(order)
            return len(self.launches)
        return self.fail(order)

    def queue(self, order: list[Any]) -> None:
        """Queues the launches, given all nodes, and behind them what native code has made for that:
        the results and the parameter blocks."""
        if runtime.control() is not self.control:
            self.bind()
        self.look()
        made = order[self._length :]
        del order[self._length :]
        given = made[self._record.results :]
        for (k, _, *parts), size, block, words, numbers in zip(
            self.launches, self._lanes, self._blocks, given, self._numbers, strict=True
        ):
            roots, inputs, _, checks, targets = parts
            for n in targets(order):
                n.data.buffer.origin  # noqa: B018 (takes note that foreign memory is written)
            if k.is_baseline and k.clock.total * 1e-9 > variants.HOT:
                variants.optimize_if_hot(k)
            record = stop = None
            if k.program.checks:
                record = ErrorRecord(k.device, checked(checks(order)))
                words = record.address.to_bytes(8, sys.byteorder) + words[8:]
            elif k.loops:  # there is nothing to check, but Ctrl-C ends them by the last word
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

    def learn(self, roots: Sequence[Node], order: list[Node]) -> None:
        """Has native code find the plan from now on, where it can."""
        if self._record.results <= SPARES:
            self._known.learn(self, self._record, [*roots], order)

    def look(self) -> None:
        """Has baselines of kernels replaced if it is time."""
        if self._record.launches % _LATER == 0:
            for k in self._kernels:
                if k.is_baseline:
                    variants.optimize_if_hot(k)

    def finish_effects(self, order: Sequence[Node]) -> None:
        """Completes the side effects, given the nodes in traversal order."""
        for n in self._effects(order):
            schedule.finish_effect(n)

    def fail(self, order: list[Node]) -> int:
        """Sees to the launches until one in which an index was out of bounds; returns their
        number."""
        done = self._record.done
        report, self._report = self._report, memory.Buffer.device.error_words()
        self._record.report = self._report.address
        for k, (made, _, *parts) in enumerate(self.launches[:done]):
            roots, inputs, _, checks, targets = [part(order) for part in parts]
            made.counted += 1
            outputs = [n.data for n in roots if n.op is BUFFER]
            if k == done - 1:
                made.fail(report, inputs, outputs, checks, [e.data for e in targets])
            for n in roots:
                if n.op is not BUFFER:
                    schedule.finish_effect(n)
        return done

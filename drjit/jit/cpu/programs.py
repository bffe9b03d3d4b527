"""The plans that native code knows, and its scratch memory.

Native code (`drjit.jit.native`) finds the plan of an evaluation from its nodes, and performs it,
once Python has performed it twice, in processes that trace enough for that code to be loaded. It
reads and writes fields of Python's objects where this interpreter has them; if that cannot be found
out, there is no native code.
"""

import ctypes
import itertools
import sys
import types
from array import array
from collections.abc import Callable
from typing import Any

from .. import collector, log, substitutes
from ..device import Device
from ..ir.node import Node
from ..native import loader, objects
from ..run import pending, schedule
from ..target import foreign
from ..text.structure import ELEMENTWISE, WITH_DATA
from . import memory, runtime, variants

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

"""Frozen functions: `freeze` wraps a function whose body is traced once. All launches are recorded,
and later calls repeat them for other inputs.
"""

import weakref
from collections.abc import Callable, Sequence
from functools import update_wrapper
from types import MethodType
from typing import Any

from ...ad import graph
from ...array.base import ArrayBase, type_label
from ...array.signatures import freezing
from ...function.ad.propagate import ADContextManager, ADScope
from ...function.signature import importable_name
from ...jit import flags, log, progress
from ...jit.backend import JitBackend
from ...jit.device import Device, find
from ...jit.ir.node import BUFFER, LITERAL, Node
from ...jit.ir.scope import innermost
from ...jit.run import events, schedule
from ...jit.run.freeze import Recorder, Recording, Replay, SizeChanged, active
from ...jit.run.freeze_size import plain
from ...jit.trace.access import WriteTarget
from ...jit.tuples import NamedTuple
from ..region.state import call
from .explain import reason
from .fast_path import Check, MatchedInputs, fast_path
from .layout import InputLayout, evaluated_layout, free_variables, nodes_in
from .recordings import Family, Structure
from .result import Snapshot, replay_writer, reproduce

# All flags but those for what happens besides the computation.
_IMPORTANT = ~int(
    flags.JitFlag.KernelHistory
    | flags.JitFlag.LaunchBlocking
    | flags.JitFlag.PrintIR
    | flags.JitFlag.FreezingScope
    | flags.JitFlag.Progress
    | flags.JitFlag.FullTraceback
    | flags.JitFlag.Record
)
_FREEZING, _RECORDING = int(flags.JitFlag.KernelFreezing), int(flags.JitFlag.FreezingScope)


_REPLAYS = 2  # before a fast path is created
_FAST_PATHS = 4  # are kept at most


class _FastPath(NamedTuple):
    """A recording, and a `check` that tells whether inputs match it, and where possible performs
    the call as well (see `fast_path`). It is not `final` if that may still become possible. `data`
    are the numbers of the literals that are data."""

    names: Any
    flags: int
    check: Check
    final: bool
    family: Family
    sizes: tuple[int, ...]
    replay: Replay
    data: list[int]


class FrozenFunction:
    """A function with its recordings, called with a tree of inputs.

    At most `limit` recordings are kept, the most recently used ones (-1: all). After `warn_after`
    of them, each further one causes a warning (-1: none). With `auto_opaque`, a literal becomes
    data when its value changes; otherwise, all literals are data from the start.
    """

    __module__ = "drjit.detail"
    _by_identity = True
    n_recordings = 0  # how often it has been recorded since it was created or cleared

    def __init__(
        self,
        arg0: Callable[[Any], Any],
        arg1: int,
        arg2: int,
        arg3: JitBackend,
        arg4: bool,
        /,
    ) -> None:
        self._function = arg0
        self._limit, self._warn_after, self._backend, self._auto_opaque = arg1, arg2, arg3, arg4
        self._what = f"dr.freeze({getattr(arg0, '__qualname__', 'function')})"
        self.clear()

    def clear(self) -> None:
        """Forgets all recordings."""
        self._structures: dict[tuple, Structure] = {}
        self._fast_paths: list[_FastPath] = []  # the last one first
        self.n_recordings = 0

    @property
    def n_cached_recordings(self) -> int:
        """The number of recordings that are kept."""
        return sum(map(len, self._families()))

    def _families(self) -> list[Family]:
        return [f for s in self._structures.values() for f in s.families.values()]

    def __call__(self, arg: dict, /) -> Any:
        """Calls the function, or replays its recording for matching inputs."""
        return self.call(arg, None, (arg,))

    def _run(self, tree: Any) -> Any:
        """Calls the function directly."""
        return self._function(tree)

    def _implicit(self, tree: Any) -> list[Any]:
        """Returns further inputs, which the function reads without receiving them as arguments."""
        return []

    def call(self, tree: Any, names: Any, inputs: Sequence[Any]) -> Any:
        """The same for a tree that consists of `inputs` with `names`."""
        now = flags.current
        if not (now & _FREEZING and self._limit) or innermost() is not None:
            return self._run(tree)
        if now & _RECORDING and active() is not None:
            return self._run(tree)
        implicit = self._implicit(tree)
        if self._fast_paths and (not graph.scopes or graph.scope() is None):
            found = self._call_fast(names, now & _IMPORTANT, inputs, implicit)
            if found is not None:
                return found[0]
        layout = evaluated_layout(self._what, names, inputs, implicit)
        if self._backend is not JitBackend.Invalid:
            self._check_backend(layout)
        sizes = tuple(layout.sizes)
        family, data = self._family(layout)
        with schedule.lock:
            ready = family.find(sizes)
        if ready is not None:
            ready.uses += 1
            if ready.uses == _REPLAYS and graph.scope() is None:
                replay = None if data else replay_writer(ready, layout.objects)
                check = fast_path(layout, inputs, implicit, set(data), replay)
                if check is not None:
                    final, important = ready.at_once is not None, now & _IMPORTANT
                    row = _FastPath(names, important, check, final, family, sizes, ready, data)
                    self._fast_paths = [row, *self._fast_paths[: _FAST_PATHS - 1]]
            found = _replayed(ready, layout, data, family)
            if found is not None:
                return found[0]
        if (sink := events.sink) is not None:
            sink.frozen(reason(self._what, self._structures, family, sizes, self.n_recordings))
        self._prepare(layout, data)
        with progress.Task(f"recording {self._what}"):
            recording, result = self._recorded(tree, (inputs, implicit), layout)
        self._keep(family, recording, implicit, self._implicit(tree))
        return result

    def _call_with(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The same for arguments as functions of Python take them."""
        inputs = (*args, *kwargs.values()) if kwargs else args
        return self.call((args, kwargs), (len(args), *kwargs), inputs)

    def _call_fast(
        self, names: Any, important: int, inputs: Sequence[Any], implicit: Sequence[Any]
    ) -> tuple | None:
        """Performs a call if a fast path finds that a recording matches, and returns a tuple with
        its result; otherwise, returns None."""
        for s in self._fast_paths:
            if s.names == names and s.flags == important and s.family.has(s.sizes, s.replay):
                found = s.check(inputs, implicit)
                if found is None:
                    continue
                if isinstance(found, tuple):
                    return found
                if not s.final and s.replay.at_once is not None:
                    self._fast_paths = [t for t in self._fast_paths if t is not s]
                    s.replay.uses = _REPLAYS - 1  # for a new one
                    return None
                return _replayed(s.replay, found, s.data, s.family)
        return None

    def _check_backend(self, layout: InputLayout) -> None:
        """Raises if inputs belong to another backend than the requested one, or if that is not
        available."""
        arrays = [a for a in layout.objects if isinstance(a, ArrayBase) and a._kind == "leaf"]
        for found in {a._namespace.partition(".")[0] for a in arrays}:
            if found != self._backend.name.lower():
                raise RuntimeError(
                    f"{self._what}: backend mismatch, an input is of the backend {found}, but "
                    f"the function was frozen with backend={self._backend}"
                )
        if find(self._backend) is None:
            raise RuntimeError(f"{self._what}: the backend {self._backend} is not available")

    def _family(self, layout: InputLayout) -> tuple[Family, list[int]]:
        """Returns the recordings that the inputs may match, and the numbers of the input literals
        that are data."""
        key = layout.key
        key.append(flags.current & _IMPORTANT)
        if graph.scope() is not None:
            variables = [v for v in layout.objects if isinstance(v, graph.Var)]
            seen = [graph.visible(v) is not None for v in variables]
            key.append((graph.suspends_inputs(), *seen))
        literals, data = layout.literals, []
        while True:
            values = [repr(layout.nodes[k].data) for k, _ in literals]
            found = self._structure(key, values)
            if values != found.last:
                self._note_changes(found, values)
            changing = found.changing.copy()  # another thread may add to it
            if not changing:
                break
            # From here on, as if they were already data.
            for j in changing:
                number, place = literals[j]
                key[place] = number
                data.append(number)
            literals = [v for j, v in enumerate(literals) if j not in changing]
        return found.families.setdefault(tuple(values), Family()), data

    def _structure(self, key: list[Any], values: list[str]) -> Structure:
        """Returns the recordings for a key."""
        found = self._structures.get(tuple(key))
        if found is None:
            changing = set() if self._auto_opaque else set(range(len(values)))
            found = self._structures.setdefault(tuple(key), Structure(values, changing))
        return found

    def _note_changes(self, found: Structure, values: list[str]) -> None:
        """Turns literals that differ from the previous call's into data."""
        changed = {j for j, v in enumerate(values) if v != found.last[j]} - found.changing
        if changed:
            pairs = ", ".join([f"{found.last[j]} to {values[j]}" for j in sorted(changed)])
            text = "%s: literals that have changed (from %s) are data from now on"
            log.log(log.LogLevel.Info, text, self._what, pairs)
            found.changing |= changed
        found.last = values

    def _prepare(self, layout: InputLayout, data: list[int]) -> None:
        """Turns literals among the inputs into data."""
        for k in data:
            n = layout.nodes[k]
            layout.nodes[k] = n = _as_data(n, layout.holders[k]) if n.op is LITERAL else n
            for holder, name in layout.holders[k]:
                setattr(holder, name, n)

    def _recorded(self, tree: Any, inputs: Any, layout: InputLayout) -> tuple[Recording | str, Any]:
        """Returns a recording of a call, or the reason why there is none, and the result."""
        schedule.evaluate([])  # side effects that are not part of the function
        snapshot = Snapshot(layout, self._what)
        buffers = [n.data if n.op is BUFFER else None for n in layout.nodes]
        layout.nodes = []  # owned by the arrays alone: otherwise unused values are overwritten
        recorder = Recorder(buffers, self._what)
        del buffers
        with ADContextManager(ADScope.Isolate, ()):
            try:
                recorder.start()
                result = plain(call(self._what, self._run, tree))
                schedule.evaluate(snapshot.nodes() + nodes_in(result, inputs))
                inner = graph.scope()
                waiting = list(inner.postponed) if inner is not None else []
                outcome = snapshot.outcome(recorder, result, waiting)
            finally:
                recorder.stop()
        if recorder.discarded is not None:
            return recorder.discarded, result
        return recorder.recording(tuple(layout.sizes), outcome), result

    def _keep(
        self, family: Family, recording: Recording | str, old: Sequence[Any], new: Sequence[Any]
    ) -> None:
        """Adds a recording, if it can be replayed."""
        if any(a is not b for a, b in zip(old, new, strict=False)) or len(old) != len(new):
            recording = (
                "it binds a variable outside of it, or an attribute that 'state_fn' returns, to a "
                "new array; a PyTree could be changed"
            )
        if isinstance(recording, str):
            self.n_recordings += 1
            log.log_once(f"{self._what} is traced in every call: %s.", recording)
        else:
            with schedule.lock:
                self.n_recordings += family.add(recording)
                self._evict()
        if 0 <= self._warn_after < self.n_recordings:
            log.log(
                log.LogLevel.Warn,
                "%s has been recorded %d times, which costs more than calling the function as it "
                "is. Are there Python numbers or sizes that change from call to call? Numbers can "
                "be given as arrays, such as dr.opaque(Float, x).",
                self._what,
                self.n_recordings,
            )

    def _evict(self) -> None:
        """Drops the least recently used recordings until the limit is satisfied."""
        if self._limit < 0:
            return
        left = self._families()
        while sum(map(len, left)) > self._limit:
            min([f for f in left if len(f)], key=lambda f: f.last_use).drop_oldest()
        for key, structure in list(self._structures.items()):
            structure.families = {k: f for k, f in structure.families.items() if len(f)}
            if not structure.families and not structure.changing:
                del self._structures[key]


def _as_data(n: Node, holders: list[tuple[Any, str]]) -> Node:
    """Returns a literal as a buffer on the device of the arrays that hold it."""
    found = (o._device for o, _ in holders if isinstance(o, ArrayBase))
    device: Device | None = next(found, None)
    return (schedule.materialize if n.size > schedule.FEW else schedule.filled)(n, device)


def _replayed(
    replay: Replay, layout: InputLayout | MatchedInputs, data: list[int], family: Family
) -> tuple | None:
    """Returns a tuple with the result of a recorded call for other inputs, of which the literals
    with the numbers `data` are data, and applies its changes to these. Returns None, and forgets
    the recording, if it turns out not to match."""
    recording = replay.recording
    for k in data:
        layout.nodes[k] = _as_data(layout.nodes[k], layout.holders[k])
    for k in recording.written:
        _own(layout, k)
    outcome = recording.outcome
    try:
        values = replay(layout.nodes)
    except SizeChanged:
        with schedule.lock:
            family.drop(recording.sizes)
        return None
    result = reproduce(outcome, layout.objects, [*layout.objects], values)
    if outcome.waiting:
        waiting = [layout.objects[k] for k in outcome.waiting]
        inside = [v for v in waiting if v.rule is not None]
        if inside:
            with ADContextManager(ADScope.Isolate, ()):
                scope: Any = graph.scope()
                scope.postponed.update(dict.fromkeys(inside))
                arrays = (o._device for o in layout.objects if isinstance(o, ArrayBase))
                scope.device = next(arrays, None)
    return (result,)


def _own(layout: InputLayout | MatchedInputs, k: int) -> None:
    """Drops other references to a value that will be written to, so that only its arrays own it."""
    nodes, holders = layout.nodes, layout.holders[k]
    witness = weakref.ref(nodes[k])
    held = WriteTarget(nodes[k])
    nodes[k] = None
    for o, name in holders:
        setattr(o, name, None)
    n = None
    try:
        n = held.own()
    finally:
        n = n or witness()
        for o, name in holders:
            setattr(o, name, n)
    nodes[k] = n


class Frozen(FrozenFunction):
    """A function made by `freeze`, which takes the positional and named arguments of the original
    function `f`. Unless it is `enabled`, it just calls `f`."""

    def __init__(
        self, f: Callable, state_fn: Callable | None, enabled: bool, *options: Any
    ) -> None:
        update_wrapper(self, f)
        super().__init__(f, *options)
        self.f, self.enabled, self._state_fn = f, enabled, state_fn
        self._free_variables = free_variables(f)

    def __reduce__(self) -> Any:
        """A frozen function is pickled without its recordings."""
        options = self._limit, self._warn_after, self._backend, self._auto_opaque
        return importable_name(self) or (Frozen, (self.f, self._state_fn, self.enabled, *options))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.enabled:
            return self.f(*args, **kwargs)
        return self._call_with(args, kwargs)

    def _run(self, tree: tuple[tuple, dict]) -> Any:
        args, kwargs = tree
        return self.f(*args, **kwargs)

    def _implicit(self, tree: tuple[tuple, dict]) -> list[Any]:
        found = self._free_variables()
        if self._state_fn is not None:
            args, kwargs = tree
            state = self._state_fn(*args, **kwargs)
            found += state if isinstance(state, (list, tuple)) else [state]
        return found

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


@freezing
def freeze(
    f: Any = None,
    *,
    state_fn: Callable[..., Any] | None = None,
    limit: int | None = None,
    warn_after: int = 10,
    backend: JitBackend | None = None,
    auto_opaque: bool = True,
    enabled: bool = True,
) -> Any:
    """Decorator of functions whose body is traced once: later calls only launch the kernels again,
    with other arrays as input. That takes a fraction of the time of tracing.

    >>> @dr.freeze
    ... def f(x, y):
    ...     return dr.sin(x) + y
    >>> for n in (2, 3):
    ...     print(f(dr.zeros(Float, n), dr.arange(Float, n)))
    [0, 1]
    [0, 1, 2]
    >>> f.n_recordings
    1

    A recording is reused for inputs of the same structure: PyTrees of the same types, arrays of
    equal sizes and identical arrays at the same places, equal Python values, and the same arrays
    being differentiable. Otherwise, the function is traced again. This also happens at the first
    call with arrays of another size; see docs/freezing.md.

    The inputs are the arguments, variables outside the function that its code refers to by name,
    and the result of `state_fn`, which is called with the arguments. Changes to inputs, such as
    scatters, assignments to attributes and gradients, are replayed as well. Gradients propagate to
    the inputs, but not from the result: the function is isolated, as if within `isolate_grad`.

    Arguments:
        limit: the number of recordings to keep, the most recently used ones; None means all, and
            with 0 the function is called directly.
        warn_after: after this number of recordings, each further one causes a warning.
        backend: the backend that all inputs must belong to; None means any.
        auto_opaque: a literal that differs from the previous call's becomes data. Otherwise, all
            literals are data from the first call on.
        enabled: False calls the function directly. This is also an attribute;
            `JitFlag.KernelFreezing` is a switch for all functions.

    The result has the attributes `n_recordings` and `n_cached_recordings`, and the method `clear`.

    Raises:
        RuntimeError: the function reads the contents of an array, or uses one that is not an input;
            or an input belongs to another backend, or `backend` is not available. Exceptions raised
            by the function while it is being recorded are also of this type, with the original as
            their cause.
        TypeError: an input or a result is an object that is neither a PyTree nor hashable.
    """
    if not callable(f) and f is not None:
        raise TypeError(f"dr.freeze(): expected a function, got {type_label(f)}")

    def decorator(f: Callable) -> Frozen:
        most = -1 if limit is None else limit
        only = JitBackend.Invalid if backend is None else backend
        return Frozen(f, state_fn, enabled, most, warn_after, only, auto_opaque)

    return decorator if f is None else decorator(f)


def freeze_discard(arg0: JitBackend, arg1: str, /) -> None:
    """Declares that the call of a frozen function that is being recorded cannot be replayed, for
    the given reason: the call continues, but its recording is not kept. Has no effect otherwise.

    >>> dr.detail.freeze_discard(dr.JitBackend.LLVM, "it asks a sensor")
    """
    recorder = active()
    if recorder is not None:
        recorder.discarded = arg1

"""Recordings of launches: kernels and operations that comprise several launches, with the origin of
their operands. A recording is replayed for other buffers without any tracing.

Values of a recording have numbers: first its inputs, then constants and what its steps compute. The
recorder takes the place of `launch.run`; operations that launch kernel texts of their own go
through `operation`. Each thread may have a recorder, without holding any lock: what it records is
code of the program.
"""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from functools import wraps
from itertools import groupby
from typing import Any

from .. import collector, flags
from ..device import Buffer, Device, Kernel, Operands, current
from ..flags import JitFlag
from ..ir import dtype as dt
from ..ir import op
from ..ir.dtype import DType
from ..ir.node import AFTER, BUFFER, LITERAL, Node, buffer, make
from ..ir.scope import using
from ..tuples import NamedTuple
from . import events, freeze_size, history, launch, pending, schedule

_recorders: dict[int, "Recorder"] = {}  # by the threads that are recording
_plain: Callable = launch.run  # `launch.run` as it is while no thread records


class ValueNumber(int):
    """The number of a value in a recording, as distinct from a size."""


class RecordedLaunch(NamedTuple):
    """A launch of a kernel. `effects` are its targets: value, element type, size, operation and
    mode. `outputs` has the value and element type of every buffer that it creates, and whether that
    is a reduction, with a single entry; None for an effect."""

    kernel: Kernel
    size: int
    inputs: tuple[ValueNumber, ...]
    literals: tuple[tuple[DType, Any], ...]
    checks: tuple[tuple[tuple, DType], ...]
    effects: tuple[tuple[ValueNumber, DType, int, str, str], ...]
    outputs: tuple[tuple[ValueNumber, DType, bool] | None, ...]

    def bind(self) -> Callable[[list], None]:
        """Returns a function that performs the launch for a list of values."""
        size, inputs, effects, outputs = self.size, self.inputs, self.effects, self.outputs
        literals = [make(LITERAL, t, 1, (), value) for t, value in self.literals]
        checks = [
            make(op.in_bounds, dt.mask, 1, (make(LITERAL, t, 1, (), 0),), data)
            for data, t in self.checks
        ]
        made = [None if o is None else (o[0], o[1], 1 if o[2] else size) for o in outputs]
        launched, target = self.kernel, pending.Effect

        def step(values: list) -> None:
            targets = [target(values[k].data, t, n, r, mode) for k, t, n, r, mode in effects]
            given = [values[k] for k in inputs]
            found = launch.run(launched, size, (given, literals, checks, targets))
            for o, memory in zip(made, found, strict=True):
                if o is not None:
                    number, t, lanes = o
                    values[number] = buffer(t, lanes, memory)

        return launched.repeated(self, step)

    @property
    def read(self) -> list[int]:
        return [*self.inputs, *[e[0] for e in self.effects]]

    @property
    def results(self) -> list[ValueNumber]:
        return [o[0] for o in self.outputs if o is not None]


class RecordedOperation(NamedTuple):
    """A function of evaluated nodes that performs its own launches. `sizes` are those of its
    results where they depend on the contents of its operands, and `device` is where it computes
    with constants alone."""

    function: Callable
    arguments: tuple[Any, ...]
    results: tuple[ValueNumber, ...]
    sizes: tuple[int, ...] | None
    device: Device | None = None

    def bind(self) -> Callable[[list], None]:
        function, arguments, results, sizes, device = self

        def step(values: list) -> None:
            given = [values[a] if type(a) is ValueNumber else _argument(a) for a in arguments]
            with using(device):
                found = _evaluated(function(*given))
            if sizes is not None and tuple([n.size for n in found]) != sizes:
                raise SizeChanged
            for number, n in zip(results, found, strict=True):
                values[number] = n

        return step

    @property
    def read(self) -> list[int]:
        return [a for a in self.arguments if type(a) is ValueNumber]


Step = RecordedLaunch | RecordedOperation


class Literal(NamedTuple):
    """A literal among the arguments of an operation, or left behind by a recorded call."""

    dtype: DType
    value: Any
    size: int


class SizeChanged(Exception):
    """A data-dependent size is incompatible with the subsequent steps."""


class Recording(NamedTuple):
    """The launches of a call. `written` are inputs that it writes to in place, `sizes` the sizes of
    its inputs other than 0 and 1, and `uses` how it uses them. `outcome` describes what it leaves
    behind."""

    steps: tuple[Step, ...]
    count: int
    constants: tuple[tuple[int, Node], ...]
    written: tuple[int, ...]
    sizes: tuple[int, ...]
    uses: freeze_size.Uses
    outcome: Any


def _joins(step: Step) -> Any:
    """Returns the device if it can perform a step together with its neighbours of the same device;
    or an object that no other step has."""
    device = step.kernel.device if isinstance(step, RecordedLaunch) else None
    return device if device is not None and device.can_join(step) else object()


def unused_values(steps: Sequence[Step], kept: set[int]) -> list[list[int]]:
    """Returns the values that are not needed after each step, so that the next ones can reuse their
    memory: all but those with the numbers `kept`, after their last use."""
    last: dict[int, int] = {}
    for k, step in enumerate(steps):
        last.update(dict.fromkeys([*step.read, *step.results], k))
    unused: list[list[int]] = [[] for _ in steps]
    for number, k in last.items():
        if number not in kept:
            unused[k].append(number)
    return unused


class Replay:
    """A recording ready to run, whose outcome needs the values with the numbers `kept`."""

    __slots__ = ("_groups", "recording", "uses")

    def __init__(self, recording: Recording, kept: set[int]) -> None:
        self.recording = recording
        self.uses = 0  # counted by whoever runs it
        unused = unused_values(recording.steps, kept)
        # Groups: a function that may perform all steps at once, or None, and the steps, each with
        # the numbers of the values that are no longer needed after it.
        self._groups: list[tuple[Any, list[tuple[Callable[[list], None], list[int]]]]] = []
        end = 0
        for device, group in groupby(recording.steps, _joins):
            steps = [*group]
            rows = [(step.bind(), unused[end + k]) for k, step in enumerate(steps)]
            end += len(steps)
            sequence = None
            if isinstance(device, Device):
                later = {k for step in recording.steps[end:] for k in step.read}
                sequence = device.sequence(steps, kept | later)
            self._groups.append((sequence, rows))

    @property
    def at_once(self) -> Any:
        """The function that performs all launches at once, if there is one and it is ready; see
        `Device.sequence`."""
        sequence: Any = self._groups[0][0] if len(self._groups) == 1 else None
        return sequence if sequence is not None and sequence.is_ready() else None

    def __call__(self, inputs: list[Node | None]) -> list[Any]:
        """Launches everything and returns all values that are kept.

        Raises:
            SizeChanged: a size does not fit. Nothing visible has changed.
        """
        values = inputs + [None] * (self.recording.count - len(inputs))
        for number, constant in self.recording.constants:
            values[number] = constant
        watched, sink = flags.current & history.OBSERVED, events.sink
        start = None if sink is None else sink.begin()
        if watched:
            history.now.mode = "Replayed"
        try:
            with schedule.lock:
                for sequence, steps in self._groups:
                    at_once = sequence is not None and sequence(values)
                    for step, numbers in steps:
                        if not at_once:
                            step(values)
                        for number in numbers:
                            values[number] = None
        finally:
            if watched:
                history.now.mode = "Inactive"
            if sink is not None:
                sink.end("schedule", start, text="a frozen function is replayed")
        schedule.catch_up()
        return values


def _collect_numbers(value: Any, found: set[int]) -> None:
    """Adds the plain integers and the sizes of literals in nested tuples to a set."""
    if type(value) is Literal:
        found.add(value.size)
    elif isinstance(value, tuple):
        for v in value:
            _collect_numbers(v, found)
    elif type(value) is int:
        found.add(value)


class _Changed:
    """Changed objects that may have existed before the call: constant arrays, and objects whose
    state consists of arrays."""

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}  # have no weak references
        self._others: dict[int, weakref.ref] = {}

    def add(self, owner: Any) -> None:
        """Adds an object."""
        if hasattr(owner, "__weakref__"):
            self._others[id(owner)] = weakref.ref(owner)
        else:
            self._arrays[id(owner)] = owner

    def left(self, inputs: Container[int]) -> list[Any]:
        """Returns those that somebody still refers to, except for those with the given ids."""
        arrays = [*self._arrays.values(), object()]
        *counts, alone = map(sys.getrefcount, arrays)
        found = [a for a, n in zip(arrays, counts, strict=False) if n > alone + 1]
        found += [o for refer in self._others.values() if (o := refer()) is not None]
        return [o for o in found if id(o) not in inputs]


class Recorder:
    """Records this thread's launches between `start` and `stop`, beginning with values `inputs`,
    some of which may be None."""

    def __init__(self, inputs: Sequence[Buffer | None], what: str) -> None:
        self.what = what
        self.steps: list[Step] = []
        self.constants: list[tuple[int, Node]] = []
        self.count = len(inputs)
        self.written: set[int] = set()
        self.discarded: str | None = None
        """Why the recording cannot be replayed, if so."""
        self._changed = _Changed()
        self._uses = freeze_size.Uses()
        self._inputs = self.count
        self.paused = False
        """Whether launches and reads are those of an operation that is recorded as a whole."""
        self._thread = threading.get_ident()
        self._pause = collector.paused()
        self._first = make(LITERAL, dt.mask, 1, (), True).serial
        # Memory of an array may be freed, and another array may be placed there.
        self._known: dict[int, tuple[weakref.ref, ValueNumber]] = {}
        for k, b in enumerate(inputs):
            if b is not None:
                self._remember(b, ValueNumber(k))

    # ---- Being the recorder of a thread

    def start(self) -> None:
        """Starts recording what this thread does. The collector calls no finalizers meanwhile, as
        what they launch is not part of the recording."""
        self._pause.__enter__()
        _recorders[self._thread] = self
        self._resume()
        history.now.mode = "Recorded"
        _install()

    def stop(self) -> None:
        """Stops recording."""
        _recorders.pop(self._thread, None)
        self._suspend()
        history.now.mode = "Inactive"
        _install()
        self._pause.__exit__()

    def _resume(self) -> None:
        self.paused = False
        freeze_size.uses[self._thread] = self._uses

    def _suspend(self) -> None:
        self.paused = True
        freeze_size.uses.pop(self._thread, None)

    def recording(self, sizes: tuple[int, ...], outcome: Any) -> Recording:
        """Returns the recording of a call with inputs of these sizes and this outcome."""
        known = {0, 1, *sizes}
        return Recording(
            tuple([self._without_sizes(k, known, outcome) for k in range(len(self.steps))]),
            self.count,
            tuple(self.constants),
            tuple(sorted(self.written)),
            sizes,
            self._uses,
            outcome,
        )

    def _without_sizes(self, k: int, known: set[int], outcome: Any) -> Step:
        """Returns a step, without the sizes of its results if nothing depends on them: no other
        step reads these results, the function has not asked for their sizes, and all that follows
        has the `known` sizes of the inputs. With 0 or 1 entries, code might have been different."""
        step = self.steps[k]
        if isinstance(step, RecordedLaunch) or step.sizes is None:
            return step
        later = self.steps[k + 1 :]
        if not {*step.results}.isdisjoint(number for s in later for number in s.read):
            return step
        found: set[int] = set()
        for s in later:
            if isinstance(s, RecordedLaunch):
                found.update([s.size, *[e[2] for e in s.effects]])
            else:
                _collect_numbers(s.arguments, found)
        _collect_numbers(outcome, found)
        depends = not (found | self._uses.seen | {0, 1}).isdisjoint(step.sizes)
        return step if depends or not found <= known else step._replace(sizes=None)

    # ---- Values

    def slot(self, n: Node) -> ValueNumber:
        """Returns the number of an evaluated node; data created by the recorded code itself is a
        constant.

        Raises:
            RuntimeError: the data existed before, but is not an input.
        """
        known = self._find(n.data)
        if known is not None:
            return known
        if n.serial < self._first and n.size and n not in permanent:
            raise self.not_an_input("uses", n)
        return self._constant(n)

    def not_an_input(self, verb: str, v: Any) -> RuntimeError:
        """Returns the error for something that existed before the call but is not an input: a node,
        a variable, or an object with arrays."""
        is_array = hasattr(v, "dtype")
        what = f"array ({v.dtype.name}, {v.size} entries)" if is_array else type(v).__qualname__
        lost = "tell whether it has changed" if verb == "uses" else "do the same"
        return RuntimeError(
            f"{self.what}: the function {verb} an {what} that was there before it was called but "
            f"is not among its inputs, so that a later call could not {lost}. Pass it as an "
            "argument, make the object that holds it a PyTree (a data class, or a class with "
            "DRJIT_STRUCT), or return it from 'state_fn'."
        )

    def refuse_old_values(self, nodes: list[Node]) -> None:
        """Raises if values are computed from data by operations that existed before the call."""
        for n in nodes:
            old = n.serial < self._first and n.op is not AFTER
            if old and any(d.op is BUFFER or d.op is AFTER for d in n.deps):
                raise self.not_an_input("uses", n)

    def note_change(self, owner: Any, n: Node | None) -> None:
        """Raises if what is about to change is no input, or notes it to find out later."""
        if n is not None and n.serial >= self._first:
            return
        if n is not None and (n.op is BUFFER or n.op is AFTER):
            if n.size and self._find(n.data) is None:
                raise self.not_an_input("changes", n)
        elif owner is not None:
            self._changed.add(owner)

    def refuse_changes(self, inputs: Container[int]) -> None:
        """Raises if something has changed that is still in use, but is not among the inputs, whose
        ids are given."""
        if self._changed.left(inputs):
            gc.collect()  # what only refers to itself
            for o in self._changed.left(inputs):
                raise self.not_an_input("changes", getattr(o, "_node", o))

    def _constant(self, n: Node) -> ValueNumber:
        number = self._result(n.data)
        self.constants.append((number, n))
        return number

    def _find(self, b: Buffer) -> ValueNumber | None:
        found = self._known.get(id(b))
        return found[1] if found is not None and found[0]() is b else None

    def _remember(self, b: Buffer, number: ValueNumber) -> None:
        self._known[id(b)] = weakref.ref(b), number

    def _result(self, b: Buffer) -> ValueNumber:
        """Returns the number of a new value."""
        number = ValueNumber(self.count)
        self.count += 1
        self._remember(b, number)
        return number

    def _target(self, e: Any) -> tuple[ValueNumber, DType, int, str, str]:
        known = self._find(e.buffer)
        if known is None:
            # Host memory: every replay starts with a copy of its current contents.
            nbytes = e.dtype.itemsize * e.size
            source = self._constant(buffer(e.dtype, e.size, e.buffer.device.copy(e.buffer, nbytes)))
            known = self._result(e.buffer)
            self.steps.append(RecordedOperation(_duplicate, (source, nbytes), (known,), None))
        elif known < self._inputs:
            self.written.add(known)
        return (known, e.dtype, e.size, e.reduce, e.mode)

    # ---- Steps

    def record(self, launched: Any, size: int, operands: Operands) -> list[Buffer | None]:
        """Takes the place of `launch.run`."""
        inputs, literals, checks, targets = operands
        read = tuple([self.slot(n) for n in inputs])
        effects = tuple([self._target(e) for e in targets])
        made = self._launch(launched, size, operands)
        outputs: list[tuple[ValueNumber, DType, bool] | None] = []
        for o, b in zip(launched.program.outputs, made, strict=True):
            outputs.append(b and (self._result(b), o.dtype, o.kind == "reduce"))
        constants = tuple([(n.dtype, n.data) for n in literals])
        bounds = tuple([(c.data, c.deps[0].dtype) for c in checks])
        self.steps.append(
            RecordedLaunch(launched, size, read, constants, bounds, effects, tuple(outputs))
        )
        return made

    def _launch(self, launched: Any, size: int, operands: Operands) -> list[Buffer | None]:
        return _plain(launched, size, operands)

    def operation(self, function: Callable, arguments: tuple, sized_by_data: bool) -> Any:
        """Calls a function and records the call."""
        for a in arguments:
            if isinstance(a, Node) and a.op is not LITERAL:
                schedule.materialize(a)
        given = tuple([self._given(a) for a in arguments])
        before = _launches_of_texts()
        self._suspend()
        try:
            result = function(*arguments)
            found = _evaluated(result)
        finally:
            self._resume()
        used = [k for k, count in _launches_of_texts().items() if count != before.get(k, 0)]
        note_kernels(function, used)
        known = [self._find(n.data) for n in found]
        numbers = [
            self._result(n.data) if number is None else number
            for n, number in zip(found, known, strict=True)
        ]
        sizes = tuple([n.size for n in found]) if sized_by_data else None
        if sized_by_data:
            self._depends_on_data()
        self.steps.append(RecordedOperation(function, given, tuple(numbers), sizes, current()))
        return tuple(found) if isinstance(result, tuple) else found[0]

    def bound(self, n: Node) -> int:
        """Returns the largest entry of an array, and records a check that later ones are not
        larger."""
        self._depends_on_data()
        self._suspend()
        try:
            found = _largest(n)
        finally:
            self._resume()
        self.steps.append(RecordedOperation(_check_bound, (self.slot(n), found), (), ()))
        return found

    def _depends_on_data(self) -> None:
        """Notes that a replay may turn out not to fit, which must not be after it has changed an
        input."""
        if self.written:
            self.discarded = "it writes to an input before a size is known that depends on data"

    def _given(self, a: Any) -> Any:
        if not isinstance(a, Node):
            return a
        return Literal(a.dtype, a.data, a.size) if a.op is LITERAL else self.slot(a)

    def refuse_read(self) -> None:
        """Raises an error, as the contents of arrays are not known to a recording."""
        raise RuntimeError(
            f"{self.what}: the recorded function reads the contents of an array (by converting "
            "it to a Python number, a NumPy array or text, or as the condition of an evaluated "
            "loop). What it does with them could not be repeated for other inputs. Keep such "
            "steps outside of the function, use dr.select() and symbolic loops, or return the "
            "array."
        )


def _install() -> None:
    """Redirects launches and reads to this module as long as any thread is recording."""
    global _plain
    if launch.run is not _run:
        _plain = launch.run
    scope = int(JitFlag.FreezingScope)
    # Python lets no other thread run in between.
    if _recorders:
        launch.run, launch.on_read, schedule.on_collect = _run, _read, _collect
        flags.current |= scope
    else:
        launch.run, launch.on_read, schedule.on_collect = _plain, None, None
        flags.current &= ~scope
    launch.on_change = _change if _recorders else None
    flags.notify_debug_switches()


def _at_work() -> Recorder | None:
    """Returns the recorder of this thread, unless it is paused."""
    recorder = _recorders.get(threading.get_ident())
    return None if recorder is None or recorder.paused else recorder


def _run(kernel: Kernel, size: int, operands: Operands) -> list[Buffer | None]:
    """Takes the place of `launch.run`."""
    recorder = _at_work()
    run = _plain if recorder is None else recorder.record
    return run(kernel, size, operands)


def _read() -> None:
    """Takes the place of `launch.on_read`."""
    if (recorder := _at_work()) is not None:
        recorder.refuse_read()


def _collect(nodes: list[Node]) -> None:
    """Takes the place of `schedule.on_collect`."""
    if (recorder := _at_work()) is not None:
        recorder.refuse_old_values(nodes)


def _change(owner: Any, n: Node | None) -> None:
    """Takes the place of `launch.on_change`."""
    if (recorder := active()) is not None:
        recorder.note_change(owner, n)


permanent: "weakref.WeakSet[Node]" = weakref.WeakSet()
"""Tables that the library creates only once: constants wherever they occur."""


def active() -> Recorder | None:
    """Returns the recorder of this thread, if it is recording."""
    return _recorders.get(threading.get_ident()) if _recorders else None


def largest(n: Node) -> int:
    """Returns the largest entry of an evaluated integer array (0 if there is none), as a bound for
    memory to be allocated."""
    recorder = active()
    return _largest(n) if recorder is None or recorder.paused else recorder.bound(n)


def _largest(n: Node) -> int:
    numbers = launch.to_numpy(n.dtype, n.size, n.data)
    return int(numbers.max()) if numbers.size else 0


operations: dict[str, Callable] = {}
"""The functions of recorded operations, by module and name."""


def _named(function: Any) -> Any:
    operations[f"{function.__module__}:{function.__qualname__}"] = function
    return function


def operation(function: Callable | None = None, *, sized_by_data: bool = False) -> Any:
    """Decorator of functions of nodes (and of numbers and the like) that launch kernel texts: while
    a recording is open, the call itself is recorded. `sized_by_data` says that the size of the
    result depends on the contents of arrays.
    """
    if function is None:
        return lambda f: operation(f, sized_by_data=sized_by_data)
    _named(function)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        recorder = active()
        if recorder is None or recorder.paused:
            return function(*arguments)
        return recorder.operation(function, arguments, sized_by_data)

    return call


@operation
def _allocated(size: int, dtype: DType, device: Device) -> Node:
    return buffer(dtype, size, device.allocate_for(dtype, size))


def uninitialized(dtype: DType, size: int, device: Device | None = None) -> Node:
    """A buffer with undefined contents on a device, by default the current one."""
    return _allocated(size, dtype, device or current())


kernels_of_operations: dict[Callable, dict[tuple[Device, str], Kernel]] = {}
"""The kernels that recorded operations have launched, by their texts, which no program has made:
one for each, however often `dr.flush_kernel_cache` has made room for another."""


def note_kernels(function: Callable, kernels: Iterable[Kernel]) -> None:
    """Takes note of kernels that an operation has launched."""
    found = kernels_of_operations.setdefault(function, {})
    found.update({(k.device, k.text): k for k in kernels})


def _launches_of_texts() -> dict[Kernel, int]:
    return {k: k.launches for k in current().kernels() if k.program is None}


def _argument(a: Any) -> Any:
    return make(LITERAL, a.dtype, a.size, (), a.value) if type(a) is Literal else a


def _evaluated(result: Any) -> list[Node]:
    """Returns the results of an operation as buffers."""
    found = list(result) if isinstance(result, tuple) else [result]
    if any(n.op is not BUFFER for n in found):
        schedule.evaluate(found)
    return [n if n.op is BUFFER else schedule.materialize(n) for n in found]


@_named
def _duplicate(source: Node, nbytes: int) -> Node:
    """Returns a copy of a constant, for a step that writes to it."""
    return buffer(source.dtype, source.size, source.data.device.copy(source.data, nbytes))


@_named
def _check_bound(n: Node, bound: int) -> tuple[()]:
    """Checks that no entry of an array is larger than in the recording."""
    if _largest(n) > bound:
        raise SizeChanged
    return ()

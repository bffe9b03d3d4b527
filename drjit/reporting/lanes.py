"""Values of a few lanes of a launch, statement by statement: what `dr.report(lanes=...)` shows.

The text of a kernel runs once more, on NumPy, for these lanes alone, and each statement is followed
by a note of what it computed. Loads and gathers read the buffers of the launch; nothing is written
to memory. Where lanes depend on what others write, all of them run, on copies.
"""

import ast
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from ..array.base import ArrayBase
from ..jit.device import Operands, elements
from ..jit.ir.dtype import VECTOR_BLOCK
from ..jit.lazy import np
from ..jit.parsing import syntax_tree
from ..jit.run.launch import as_python
from ..jit.target.language import PRIMITIVES
from .steps import EFFECTS, READS, RETURNING, Full, Steps, noted

MOST_LANES = 64
MOST_KERNELS = 24
MOST_STEPS = 20_000
_MOST_VALUES = 250_000  # of all steps and lanes
_MOST_TOGETHER = 1 << 20  # lanes of a launch in which they depend on each other
_MOST_COPIED = 1 << 26  # bytes of memory that such a launch writes to
_TRIES = 3  # to find the lane that a NaN in memory is from
_AT_ONCE = 1 << 16  # lanes among which one with a NaN is looked for


def chosen(lanes: Any) -> tuple[str, list[int]]:
    """Returns how lanes are chosen, and which: numbers, a mask, or "nan" for the first one that has
    a NaN.

    Raises:
        ValueError: they are none of these, or too many.
    """
    what = "dr.report(lanes=...)"
    if isinstance(lanes, str) and lanes == "nan":
        return "first NaN", []
    given = np.asarray(lanes.numpy() if isinstance(lanes, ArrayBase) else lanes)
    if given.ndim > 1 or given.dtype.kind not in "biu":
        raise ValueError(f"{what}: expected lane numbers, a mask, or 'nan', not {lanes!r}")
    if given.dtype.kind == "b":
        return "by mask", np.flatnonzero(given)[:MOST_LANES].tolist()
    found = np.unique(given).tolist()
    if not 0 < len(found) <= MOST_LANES or found[0] < 0:
        raise ValueError(f"{what}: expected 1 to {MOST_LANES} lanes, numbered from 0 on")
    return "by index", found


class LaneRecorder:
    """Records lanes of the launches of a program: of one launch of each kernel, with the number
    `launch`, or of the first one that made a NaN."""

    def __init__(self, lanes: Any, launch: int = 0) -> None:
        self.how, self.lanes = chosen(lanes)
        self.launch = launch
        self.records: list[tuple[Any, dict[str, Any], Steps]] = []  # of kernels
        self.notes: list[str] = []
        self._counts: dict[Any, int] = {}
        self._steps = self._values = 0
        self._busy = False
        self._in_vain: dict[Any, int] = {}
        self._text = cache(_Text)  # of a kernel

    def launching(
        self, kernel: Any, size: int, operands: Operands
    ) -> Callable[[Sequence[Any]], None] | None:
        """Is called before a launch; returns what is to be called after it, with its outputs."""
        number = self._counts.get(kernel, 0)
        self._counts[kernel] = number + 1
        is_full = len(self.records) >= MOST_KERNELS or self._steps >= MOST_STEPS
        if kernel.program is None or self._busy or is_full:
            return None
        if self.how == "first NaN":
            if self.records:
                return None
            made = self._guarded(kernel, self._before, kernel, size, operands)
            given = kernel, size, operands, number
            return made and partial(self._guarded, kernel, self._look, made, *given)
        if number == self.launch and self.lanes and self.lanes[-1] < size:
            self._guarded(kernel, self._record, kernel, size, operands, number)
        return None

    def _guarded(self, kernel: Any, function: Callable, *arguments: Any) -> Any:
        """Calls a function for which no program may fail or be recorded."""
        self._busy = True
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except Exception as error:
            self.notes.append(
                f"the lanes of kernel {kernel.name[:9]} could not be recorded "
                f"({type(error).__name__}: {error})"
            )
            return None
        finally:
            self._busy = False

    def _record(self, kernel: Any, size: int, operands: Operands, number: int) -> None:
        self._add(_Launch(self._text(kernel), size, operands), number, self.lanes)

    def _before(self, kernel: Any, size: int, operands: Operands) -> Callable[[], "_Launch"]:
        """Returns what makes the launch after it has taken place. If that overwrites what it reads,
        copies are made now."""
        made = cache(partial(_Launch, self._text(kernel), size, operands))
        inputs, _, _, targets = operands
        written = {id(e.buffer) for e in targets}
        if self._text(kernel).together or any(id(n.data) in written for n in inputs):
            made()
        return made

    def _add(self, launch: "_Launch", number: int, lanes: list[int]) -> None:
        """Records lanes of a launch."""
        left = min(MOST_STEPS - self._steps, (_MOST_VALUES - self._values) // len(lanes))
        if self.how != "first NaN":  # several kernels share what there is
            left = min(left, max(MOST_STEPS // 4, MOST_STEPS // MOST_KERNELS))
        if launch.is_too_large or left <= 0:
            self.notes.append(
                f"the lanes of kernel {launch.kernel.name[:9]} are not recorded: they depend on "
                f"what all {launch.size:,} lanes write"
                if left > 0
                else "some lanes are left out: there are too many"
            )
            return
        steps = Steps(lanes, launch.size * launch.together, left, self.how == "first NaN")
        launch.run(steps)
        if steps.dropped:
            which = "first" if steps.keeps_last else "last"
            self.notes.append(
                f"the {which} steps of the lanes of kernel {launch.kernel.name[:9]} are left out: "
                f"there are more than {left:,}"
            )
        self._steps += len(steps.rows)
        self._values += len(steps.rows) * len(lanes)
        row = {"launch": number, "size": launch.size, "lanes": lanes, "chosen": self.how}
        self.records.append((launch.kernel, row, steps))

    def _look(
        self, made: Callable[[], "_Launch"], kernel: Any, size: int, operands: Operands,
        number: int, outputs: Sequence[Any],
    ) -> None:  # fmt: skip
        """Records the first lane that has a NaN, if there is one."""
        kernel.device.drain()
        lane = _nan_in(kernel, size, outputs)
        tries = self._in_vain.get(kernel, 0)
        if lane is None and tries < _TRIES and _nan_inside(kernel, operands[3], outputs):
            lane = None if made().is_too_large else made().contributor()
            self._in_vain[kernel] = tries + (lane is None)
        if lane is not None:
            self._add(made(), number, [lane])

    def data(self, numbers: dict[Any, int]) -> list[dict[str, Any]]:
        """Returns the records, given the numbers of kernels, as simple objects."""
        return [
            {"kernel": numbers[kernel], **row, "steps": steps.plain(), "origins": steps.origins()}
            for kernel, row, steps in self.records
            if kernel in numbers
        ]


# ---- One launch


def _nan_in(kernel: Any, size: int, outputs: Sequence[Any]) -> int | None:
    """Returns the first lane that has stored a NaN."""
    found = []
    for o, memory in zip(kernel.program.outputs, outputs, strict=True):
        t = o.dtype
        if o.kind == "store" and t.is_float:
            bad = np.isnan(kernel.device.download(memory, t, elements(t, size)))
            if t.is_vector:
                bad = bad.reshape(-1, t.count, VECTOR_BLOCK).any(axis=1).ravel()
            if bad[:size].any():
                found.append(int(np.argmax(bad)))
    return min(found, default=None)


def _nan_inside(kernel: Any, targets: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Returns whether a sum over lanes, or an array that was written to, has a NaN."""
    rows = zip(kernel.program.outputs, outputs, strict=True)
    memory = [(o.dtype, 1, b) for o, b in rows if o.kind == "reduce"]
    memory += [(e.dtype, e.size, e.buffer) for e in targets]
    return any(
        bool(np.isnan(kernel.device.download(b, t, elements(t, n))).any())
        for t, n, b in memory
        if t.is_float
    )


class _Lanes:
    """Some lanes of a launch, in place of `LaneRange`."""

    def __init__(self, index: Any) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"lanes {self.index.tolist()}"


def _load_vector(t: Any, count: int, buffer: Any, i: _Lanes) -> Any:
    blocks = buffer.reshape(-1, count, VECTOR_BLOCK).swapaxes(0, 1)
    return blocks[:, i.index // VECTOR_BLOCK, i.index % VECTOR_BLOCK]


_OF_SOME_LANES: dict[str, Callable] = {
    "lane": lambda i: i.index.astype(np.uint32),
    "active": lambda i: np.ones(len(i.index), np.bool_),
    "load": lambda t, buffer, i: buffer[i.index],
    "load_vector": _load_vector,
    **dict.fromkeys(EFFECTS, lambda *arguments: None),  # nothing is written
}


class _Text:
    """The text of a kernel, and whether lanes depend on what others write (`together`).

    Raises:
        ValueError: lanes cannot run by themselves.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.tree = kernel, syntax_tree(kernel.text)
        calls = [n for n in ast.walk(self.tree) if isinstance(n, ast.Call)]
        called = {getattr(n.func, "id", "") for n in calls}
        if strange := called & PRIMITIVES.keys():
            raise ValueError(f"{min(strange)}() is of all lanes")
        read, written = [
            {_word(n) for n in calls if getattr(n.func, "id", "") in names}
            for names in (READS, EFFECTS)
        ]
        self.together = bool(called & RETURNING or (read - {None}) & written)


class _Launch:
    """A launch of a kernel, with everything that it reads."""

    def __init__(self, text: _Text, size: int, operands: Operands) -> None:
        self.kernel, self.tree, self.together = text.kernel, text.tree, text.together
        self.size, kernel = size, text.kernel
        device, (*_, targets) = kernel.device, operands
        device.drain()
        nbytes = sum([elements(e.dtype, e.size) * e.dtype.itemsize for e in targets])
        self.is_too_large = self.together and (size > _MOST_TOGETHER or nbytes > _MOST_COPIED)
        changed = {id(e.buffer) for e in targets}
        self._written: set[int] = set()

        def given(t: Any, n: int, b: Any) -> Any:
            values = device.download(b, t, n)
            overwritten = id(b) in changed and values.nbytes <= _MOST_COPIED
            return values.copy() if overwritten else values

        def changing(e: Any) -> Any:
            if not self.together or self.is_too_large:
                return None
            memory = device.download(e.buffer, e.dtype, elements(e.dtype, e.size)).copy()
            self._written.add(id(memory))
            return memory

        none: Any = (None, None)
        self.p, _ = as_python(
            kernel.program, size, operands, None, given, changing, lambda t, n: none
        )

    def run(self, steps: "Steps") -> None:
        """Runs the lanes, and has each statement noted."""
        names = self._namespace() | steps.functions()
        code = compile(noted(self.tree), self.kernel.name, "exec")
        exec(code, names)
        index = np.arange(self.size) if self.together else np.array(steps.lanes)
        try:
            names.pop("kernel")(_Lanes(index), self._parameters())
        except Full:
            steps.dropped = True

    def _parameters(self) -> list[Any]:
        """Returns the parameters of a run, with memory of its own for what it writes to."""
        own = [x.copy() if id(x) in self._written else x for x in self.p[1:]]
        return [np.zeros(6, np.int64), *own]

    def _namespace(self) -> dict[str, Any]:
        from ..jit.target import numpy as target

        names = {**target.namespace, **_OF_SOME_LANES}
        if self.together:
            names |= {k: target.namespace[k] for k in EFFECTS if k.startswith("scatter")}
        return names

    def contributor(self) -> int | None:
        """Returns the first lane that contributed a NaN to a sum or an array."""
        names = self._namespace()
        found: list[Any] = []

        def wrapped(place: int, mask: int | None, function: Callable) -> Callable:
            def effect(*arguments: Any) -> Any:
                values = arguments[place : None if place > 0 else place % len(arguments) + 1]
                on = True if mask is None else arguments[mask]
                found.extend([(x, on) for x in values])
                return function(*arguments)

            return effect

        for name, (place, mask) in EFFECTS.items():
            names[name] = wrapped(place, mask, names[name])
        exec(compile(self.tree, self.kernel.name, "exec"), names)
        function = names.pop("kernel")
        for first in range(0, self.size, self.size if self.together else _AT_ONCE):
            last = self.size if self.together else min(first + _AT_ONCE, self.size)
            found.clear()
            function(_Lanes(np.arange(first, last)), self._parameters())
            lanes = [_first_nan(x, mask, last - first) for x, mask in found]
            if lanes := [lane for lane in lanes if lane is not None]:
                return first + min(lanes)
        return None


def _first_nan(x: Any, mask: Any, count: int) -> int | None:
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return None
    bad = np.isnan(x)
    bad = np.broadcast_to(bad.any(axis=0) if bad.ndim == 2 else bad, count) & mask
    return int(np.argmax(bad)) if bad.any() else None


def _word(call: ast.Call) -> int | None:
    """Returns the word of the memory that a call reads or writes to."""
    for argument in call.args:
        if isinstance(argument, ast.Subscript) and isinstance(argument.slice, ast.Constant):
            return int(str(argument.slice.value))
    return None

"""`dr.export` of a frozen function to an object file, for programs in C and C++ without Python.

Each family of recordings (those that differ in sizes only) becomes a C function with a structure
for its arguments (`interface.py`), which tries its recordings one after the other. A recording
becomes a function of native code (`driver.py`) that does what a replay does: checks sizes,
allocates memory, launches kernels in blocks of lanes, by threads of its own where that pays
(`jit/cpu/exported.py`), and copies results. Kernels are compiled from the texts of the
recording, by the same translator and for the same number of lanes as at home, so that results have
the same bits; together with the drivers they are one module of LLVM. Captured arrays are constants
of it. Its one variable is a pool of threads; it calls the C library and the system only.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...jit.cpu import exported, variants
from ...jit.ir.dtype import DType
from ...jit.ir.node import BUFFER
from ...jit.run import schedule
from ...jit.run.freeze import Literal, RecordedLaunch, Recording
from ..freeze.frozen import FrozenFunction
from ..freeze.layout import InputLayout
from ..freeze.saved import SavedFunction
from . import targets
from .driver import Driver, Module
from .interface import (
    KEYWORDS,
    CannotExport,
    Field,
    Inputs,
    Outcome,
    header,
    identifier,
    parameters,
)
from .operations import OTHER_SIZES


class Outdated(CannotExport):
    """A recording does not belong to what the function captures now."""


class Function:
    """A C function for recordings that differ in sizes. `fields` are the arrays of its structure by
    their place in it, `size_fields` what says how many entries they have."""

    def __init__(
        self, key: Sequence[Any], names: Sequence[str], captured: Sequence[Any],
        literals: Sequence[str],
        recordings: Sequence[tuple[Recording, Sequence[tuple], Sequence[tuple]]],
    ) -> None:  # fmt: skip
        self.name = ""
        self.inputs = Inputs(key, names)
        self.contract = bool(self.inputs.flags & variants.FAST_MATH)
        self._outcomes = [Outcome(self.inputs, r.outcome) for r, *_ in recordings]
        self._recordings = recordings
        own = self.inputs.own_values
        rows = self.inputs.values
        numbers = zip([k for k, v in enumerate(rows) if v.is_literal], literals, strict=True)
        same = [n.dtype for n in captured] == [v.dtype for v in rows[own:]]
        if not same or any(k >= own and repr(captured[k - own].data) != x for k, x in numbers):
            raise Outdated(
                "captured arrays that are also arguments, or that others have taken the place of "
                "since the recording"
            )
        self.captured = dict(enumerate(captured, own))
        self.fields: list[Field] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.changed: set[str] = set()
        self._names: dict[str, str] = {}  # in C, by those of the interface
        self._places: dict[str, int] = {}  # words of the structure
        self._sized: dict[str, tuple[str, ...]] = {}
        self._size_of: dict[int, str] = {}  # where sizes are found
        self._declare()
        rows = self.inputs.values[:own]
        shown = [self._names[v.name] for v in rows if not v.is_literal]
        self.title = f"The recording for the arguments {', '.join(shown) or '(none)'}."
        if literals := [v.name for v in rows if v.is_literal]:
            self.title += f" Numbers of its own: {', '.join(literals)}."

    def _declare(self) -> None:
        taken: set[str] = set()
        word = 1
        own = self.inputs.own_values
        for number, v in enumerate(self.inputs.values):
            if number >= own:
                if v.size >= 0:
                    self._size_of[v.size] = str(self.captured[number].size)
                continue
            if not v.is_literal:
                word = self._field(v.name, v.dtype, ("size",) if v.size >= 0 else (), taken, word)
                if v.size >= 0:
                    self._size_of.setdefault(v.size, f"s{v.size}")
        for v in self.inputs.values:
            if v.is_literal and v.size >= 0 and v.size not in self._size_of:
                raise CannotExport(
                    "literals of many entries among its arguments: make them data first, with "
                    "dr.make_opaque()"
                )
        written = {v for r, *_ in self._recordings for v in r.written}
        self.changed |= {
            self._names[v.name] for k, v in enumerate(self.inputs.values[:own]) if k in written
        }
        for outcome in self._outcomes:
            for name, _, t in (*outcome.results, *outcome.changes):
                known = self._names.get(name)
                if known is None:
                    single = all(
                        is_single(self.inputs, r, o, name)
                        for (r, *_), o in zip(self._recordings, self._outcomes, strict=True)
                    )
                    sizes = () if single else ("capacity", "size")
                    word = self._field(name, t, sizes, taken, word)
                elif not any(f == Field(known, t) for f in self.fields):
                    raise CannotExport(f"results of several types ({name})")
                self.changed.add(self._names[name])
        for name, shape in self.inputs.shapes.items():
            if name in self._names and shape:
                self.shapes[self._names[name]] = shape

    def _field(
        self, name: str, t: DType, sizes: tuple[str, ...], taken: set[str], word: int
    ) -> int:
        made = self._names[name] = identifier(name, taken)
        self.fields.append(Field(made, t))
        self._places[made] = word
        self._sized[made] = tuple([identifier(f"{made}_{what}", taken) for what in sizes])
        return word + 1 + len(sizes)

    def size_fields(self, name: str) -> tuple[str, ...]:
        """Returns the fields with the number of entries of an array."""
        return self._sized[name]

    # ---- For drivers

    def size(self, which: int) -> str:
        """Returns a size of the inputs, as an expression."""
        return self._size_of[which] if which >= 0 else "0" if which == -1 else "1"

    def address(self, name: str) -> str:
        """Returns the variable with the address of an array."""
        return f"x{self._places[self._names[name]]}"

    @property
    def size_lines(self) -> list[str]:
        """Reads the structure."""
        lines = [f"x{k} = word(a + {8 * k})" for k in self._places.values()]
        seen = set()
        for v in self.inputs.values[: self.inputs.own_values]:
            if v.size >= 0 and v.size not in seen and not v.is_literal:
                seen.add(v.size)
                if self._size_of[v.size] == f"s{v.size}":
                    place = self._places[self._names[v.name]]
                    lines.append(f"s{v.size} = word(a + {8 * (place + 1)})")
        return lines

    def room_for(self, name: str, n: str, changes: bool) -> list[str]:
        """Returns the lines that check the room for an array of `n` entries."""
        field = self._names[name]
        sizes, place = self._sized[field], 8 * (self._places[field] + 1)
        if len(sizes) < 2:  # of an argument that is changed
            if not sizes:
                return [f"if {n} != 1:", f"    return {OTHER_SIZES}"]
            return [f"if {n} != word(a + {place}):", f"    return {self._fault(field, 'changes')}"]
        return [
            f"put(a + {place + 8}, {n})",
            f"if word(a + {place}) < {n}:",
            f"    return {self._fault(field, 'room')}",
        ]

    def _fault(self, field: str, what: str) -> int:
        texts = {
            "null": f"{field} is a null pointer",
            "room": f"{field}_capacity is less than the result needs: see {field}_size",
            "changes": f"the function changes the number of entries of {field}",
            "few": f"{field}_size must be 2 or more: with fewer entries, other things are computed",
            "shape": f"{field}_size is no multiple of the sizes of its other axes",
        }
        return self.module.message(f"{self.name}: {texts.get(what, what)}")

    # ---- The C function

    def text(self, module: Module) -> str:
        """Returns the functions for the recordings, and the one that calls them."""
        self.module = module
        texts, calls = [], []
        for k, ((r, fixed, even), outcome) in enumerate(
            zip(self._recordings, self._outcomes, strict=True)
        ):
            driver = Driver(self, module, r, outcome)
            for which, n in fixed:
                driver.checks += [f"if {self.size(which)} != {n}:", f"    return {OTHER_SIZES}"]
            for n, length in even:
                number = driver.number(n)
                driver.late_checks += [
                    f"if {number} // {length} * {length} != {number}:", f"    return {OTHER_SIZES}",
                ]  # fmt: skip
            own = f"{self.name}_recording{k}"
            texts.append(driver.text(own))
            calls += [
                f"if result == {OTHER_SIZES}:",
                f'    result = call("i64(i64)", external("{own}"), given)',
            ]
        lines = [*self._checks(), f"result = {OTHER_SIZES}", *calls]
        lines += [
            f"if result == {OTHER_SIZES}:",
            f"    return {self._other_sizes()}",
            "return result",
        ]
        body = ["a: Word = given", *self.size_lines, *lines]
        texts.append("\n".join([f"def {self.name}(given):", *["    " + line for line in body]]))
        return "\n".join(texts)

    def _checks(self) -> list[str]:
        lines, seen = [], {k: "" for k, s in self._size_of.items() if not s.startswith("s")}
        for field in self.fields:
            lines.append(f"if x{self._places[field.name]} == 0:")
            lines.append(f"    return {self._fault(field.name, 'null')}")
        for v in self.inputs.values[: self.inputs.own_values]:
            if v.is_literal or v.size < 0:
                continue
            field = self._names[v.name]
            size = f"word(a + {8 * (self._places[field] + 1)})"
            shape = self.shapes.get(field)
            if v.size in seen:
                other = f"{seen[v.size]}_size" if seen[v.size] else self._size_of[v.size]
                lines.append(f"if {size} != {self._size_of[v.size]}:")
                lines.append(f"    return {self._fault(field, f'{field}_size must be {other}')}")
            else:
                seen[v.size] = field
                lines += [f"if {size} < 2:", f"    return {self._fault(field, 'few')}"]
            if shape:
                count = 1
                for n in shape:
                    count *= n
                lines.append(f"if {size} // {count} * {count} != {size}:")
                lines.append(f"    return {self._fault(field, 'shape')}")
        return lines

    def _other_sizes(self) -> int:
        known = []
        rows = [v for v in self.inputs.values[: self.inputs.own_values] if not v.is_literal]
        names = {v.size: self._names[v.name] for v in reversed(rows)}
        for r, fixed, _ in self._recordings:
            rows = fixed or ([] if len(self._recordings) == 1 else [*enumerate(r.sizes)])
            shown = [f"{names[k]}_size = {n}" for k, n in rows if k in names]
            known.append(", ".join(shown))
        known = [k for k in known if k]
        why = f": there are recordings for {' or '.join(known)}" if known else ""
        return self._fault("", f"no recording has these sizes{why}")


def is_single(inputs: Inputs, r: Recording, outcome: Outcome, name: str) -> bool:
    """Returns whether a result or change has one entry, or does not occur."""
    known = {k: v.size == -2 for k, v in enumerate(inputs.values)}
    known |= {k: n.size == 1 for k, n in r.constants}
    for step in r.steps:
        if isinstance(step, RecordedLaunch):
            known |= {o[0]: o[2] or step.size == 1 for o in step.outputs if o is not None}
    values = [value for n, value, _ in (*outcome.results, *outcome.changes) if n == name]
    return all(v.size == 1 if isinstance(v, Literal) else known.get(v, False) for v in values)


def export_object(
    function: Any, path: str | os.PathLike[str], name: str | None, target: str | None, what: str
) -> Path:
    """Writes the object file and the header of a frozen function; returns the path of the first."""
    if not isinstance(function, FrozenFunction):
        raise TypeError(
            f"{what}: an object file is made of a frozen function, which has been called with all "
            "that it is to accept: f = dr.freeze(function), then f(...), then dr.export(f, path)"
        )
    path = Path(path)
    name = name or path.name.partition(".")[0]
    if not (name.isidentifier() and name.isascii()) or name in KEYWORDS | exported.LIBRARY.keys():
        raise ValueError(f"{what}: {name!r} is not a name in C: give another one as 'name'")
    machine = targets.machine(target, what)
    try:
        functions = _functions(function, name, what)
        module = Module()
        texts = [f.text(module) for f in functions]
        code = targets.object_code(module, texts, [f.name for f in functions], name, machine, what)
    except CannotExport as error:
        raise RuntimeError(f"{what}: object files cannot have {error}") from None
    title = f"What {getattr(function, '__name__', 'a function')} computes."
    path.write_bytes(code)
    text = header(functions, name, title, machine.title, path.name)
    path.with_suffix(".h").write_text(text, encoding="utf-8")
    return path


def _functions(function: FrozenFunction, name: str, what: str) -> list[Function]:
    if getattr(function, "_state_fn", None) is not None:
        raise CannotExport("a state_fn: let the function take that state as arguments")
    with schedule.lock:
        rows = [
            (key, values, [
                *[(g.recording, g.fixed, g.even) for g in family.general],
                *[(r, tuple(enumerate(r.sizes)), ()) for r in family.recorded.values()],
            ])
            for key, s in function._structures.items() for values, family in s.families.items()
        ]  # fmt: skip
    rows = [row for row in rows if row[-1]]
    if not rows:
        raise RuntimeError(f"{what}: the function has not been recorded: call it first")
    layout = InputLayout(None, (), function._implicit(((), {})))
    schedule.evaluate([n for n in layout.nodes if n.op is not BUFFER])
    made: list[Function] = []
    errors: list[Outdated] = []
    for key, values, recordings in rows:
        if isinstance(function, SavedFunction):
            key = tuple(map(function.reader.value, json.loads(key[0])))
        names = _names(function, key[0], what)
        try:
            made.append(Function(key, names, layout.nodes, values, recordings))
        except Outdated as error:
            errors.append(error)
    if not made:
        raise errors[0]
    for k, f in enumerate(made):
        f.name = name if len(made) == 1 else f"{name}_{k + 1}"
    return made


def _names(function: Any, given: Any, what: str) -> list[str]:
    """Returns names for the arguments of a recording."""
    if given is None:
        return ["arguments"]
    count, *keywords = given
    return [*parameters(getattr(function, "f", object()), count, what), *keywords]

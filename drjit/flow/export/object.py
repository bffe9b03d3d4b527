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
from math import prod
from pathlib import Path
from typing import Any

from ...jit.cpu import exported, variants
from ..freeze.frozen import FrozenFunction
from ..freeze.layout import nodes_in
from ..freeze.recordings import GeneralRecording
from ..freeze.saved import SavedFunction, recordings_of
from . import targets
from .driver import Driver, Module
from .interface import KEYWORDS, CannotExport, Field, Inputs, header, identifier, parameters
from .operations import OTHER_SIZES, returned_if, under


class Function:
    """A C function for recordings that differ in sizes. `fields` are the arrays of its structure by
    their names in `inputs`, and `sizes` those of the inputs, as expressions."""

    def __init__(
        self, name: str, module: Module, inputs: Inputs, captured: Sequence[Any],
        recordings: Sequence[GeneralRecording],
    ) -> None:  # fmt: skip
        self.name, self.module, self.inputs = name, module, inputs
        self.contract = bool(inputs.flags & variants.FAST_MATH)
        self.captured = dict(enumerate(captured, inputs.own_values))
        self._drivers = [Driver(self, r) for r in recordings]
        self.fields: dict[str, Field] = {}
        self._declare()
        self._first: dict[int, Field] = {}  # the arguments that have a size
        for v in inputs.arguments:
            if v.size >= 0:
                self._first.setdefault(v.size, self.fields[v.name])
        own = zip(inputs.values[inputs.own_values :], captured, strict=True)
        self.sizes = {-1: "0", -2: "1", **{k: f"s{k}" for k in self._first}}
        self.sizes |= {v.size: str(n.size) for v, n in own}
        if any(v.is_literal and v.size not in self.sizes for v in inputs.values):
            raise CannotExport(
                "literals of many entries among its arguments: make them data first, with "
                "dr.make_opaque()"
            )
        # What reads the structure.
        self.reads = [f"{f.address} = word(a + {8 * f.place})" for f in self.fields.values()]
        self.reads += [
            f"s{k} = {f.entries}" for k, f in self._first.items() if self.sizes[k] == f"s{k}"
        ]

    def _declare(self) -> None:
        """Makes the fields: arguments, then results and gradients."""
        rows: dict[str, tuple[Any, tuple[str, ...]]] = {
            v.name: (v.dtype, ("size",) if v.size >= 0 else ()) for v in self.inputs.arguments
        }
        changed = {self.inputs.values[k].name for d in self._drivers for k in d.recording.written}
        many = {name for d in self._drivers for name in d.many}
        for driver in self._drivers:
            for name, _, t in driver.outcome.rows:
                sizes = ("capacity", "size") if name in many else ()
                known, _ = rows.setdefault(name, (t, sizes))
                if known is not t:
                    raise CannotExport(f"results of several types ({identifier(name, set())})")
                changed.add(name)
        taken: set[str] = set()
        place = 1
        for name, (t, sizes) in rows.items():
            own, shape = identifier(name, taken), self.inputs.shapes.get(name, ())
            sizes = tuple([identifier(f"{own}_{what}", taken) for what in sizes])
            self.fields[name] = Field(own, t, place, sizes, shape, name in changed)
            place += 1 + len(sizes)

    @property
    def title(self) -> str:
        """What the header says of it."""
        shown = [self.fields[v.name].name for v in self.inputs.arguments]
        title = f"The recording for the arguments {', '.join(shown) or '(none)'}."
        rows = self.inputs.values[: self.inputs.own_values]
        if literals := [identifier(v.name, set()) for v in rows if v.is_literal]:
            title += f" Numbers of its own: {', '.join(literals)}."
        return title

    # ---- Checks

    def message(self, text: str) -> int:
        """Returns the number of a message."""
        return self.module.message(f"{self.name}: {text}")

    def refused_if(self, test: str, text: str) -> list[str]:
        """Returns the lines that end a call with a message if something is true."""
        return returned_if(test, self.message(text))

    def room_for(self, name: str, n: str) -> list[str]:
        """Returns the lines that check the room for an array of `n` entries."""
        field = self.fields[name]
        match field.sizes:
            case capacity, size:
                text = f"{capacity} is less than the result needs: see {size}"
                put = f"put(a + {8 * (field.place + 2)}, {n})"
                return [put, *self.refused_if(f"{field.entries} < {n}", text)]
            case (_,):  # an argument that is changed
                text = f"the function changes the number of entries of {field.name}"
                return self.refused_if(f"{n} != {field.entries}", text)
        return returned_if(f"{n} != 1")

    def _checks(self) -> list[str]:
        """Returns the lines that check arguments, whatever the recording."""
        lines: list[str] = []
        for field in self.fields.values():
            lines += self.refused_if(f"{field.address} == 0", f"{field.name} is a null pointer")
        for v in self.inputs.arguments:
            if v.size < 0:
                continue
            field, first, known = self.fields[v.name], self._first[v.size], self.sizes[v.size]
            (size,), n = field.sizes, field.entries
            if field is first and not known.isdecimal():
                few = f"{size} must be 2 or more: with fewer entries, other things are computed"
                lines += self.refused_if(f"{n} < 2", few)
            else:
                other = known if known.isdecimal() else first.sizes[0]
                lines += self.refused_if(f"{n} != {known}", f"{size} must be {other}")
            if field.shape:
                rest = f"{n} // {prod(field.shape)} * {prod(field.shape)}"
                why = f"{size} is no multiple of the sizes of its other axes"
                lines += self.refused_if(f"{rest} != {n}", why)
        return lines

    def _other_sizes(self) -> int:
        """Returns the number of the message that no recording has the sizes of a call."""
        known = []
        for recording, fixed, _ in [d.general for d in self._drivers]:
            rows = fixed or (enumerate(recording.sizes) if len(self._drivers) > 1 else ())
            found = [f"{self._first[k].sizes[0]} = {n}" for k, n in rows if k in self._first]
            known += [", ".join(found)] if found else []
        why = f": there are recordings for {' or '.join(known)}" if known else ""
        return self.message(f"no recording has these sizes{why}")

    # ---- The C function

    def text(self) -> str:
        """Returns the functions for the recordings, and the one that calls them."""
        texts, calls = [], []
        for k, driver in enumerate(self._drivers):
            own = f"{self.name}_recording{k}"
            texts.append(driver.text(own))
            call = f'result = call("i64(i64)", external("{own}"), given)'
            calls += under(f"if result == {OTHER_SIZES}:", [call])
        body = [
            "a: Word = given", *self.reads, *self._checks(), f"result = {OTHER_SIZES}", *calls,
            *returned_if(f"result == {OTHER_SIZES}", self._other_sizes()), "return result",
        ]  # fmt: skip
        return "\n".join([*texts, *under(f"def {self.name}(given):", body)])


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
        module = Module()
        functions = _functions(function, module, name, what)
        texts = [f.text() for f in functions]
        code = targets.object_code(module, texts, [f.name for f in functions], name, machine)
    except CannotExport as error:
        raise RuntimeError(f"{what}: object files cannot have {error}") from None
    title = f"What {getattr(function, '__name__', 'a function')} computes."
    path.write_bytes(code)
    text = header(functions, name, title, f"{machine.triple}, {machine.name}", path.name)
    path.with_suffix(".h").write_text(text, encoding="utf-8")
    return path


def _functions(function: FrozenFunction, module: Module, name: str, what: str) -> list[Function]:
    if getattr(function, "_state_fn", None) is not None:
        raise CannotExport("a state_fn: let the function take that state as arguments")
    structures, implicit = recordings_of(function, what)
    captured = nodes_in(implicit)
    found = []
    for row in structures:
        key = row["key"]
        if isinstance(function, SavedFunction):
            key = tuple(map(function.reader.value, json.loads(key[0])))
        for literals, tied, general in row["families"]:
            inputs = Inputs(key, _names(function, key[0], what))
            if _is_current(inputs, captured, literals):
                tied = [GeneralRecording(r, (*enumerate(r.sizes),), ()) for r in tied]
                found.append((inputs, captured, [*general, *tied]))
    if not found:
        raise CannotExport(
            "captured arrays that are also arguments, or that others have taken the place of "
            "since the recording"
        )
    names = [name] if len(found) == 1 else [f"{name}_{k + 1}" for k in range(len(found))]
    return [Function(own, module, *row) for own, row in zip(names, found, strict=True)]


def _is_current(inputs: Inputs, captured: Sequence[Any], literals: Sequence[str]) -> bool:
    """Returns whether recordings for inputs belong to what the function captures now."""
    own = inputs.own_values
    numbers = zip([k for k, v in enumerate(inputs.values) if v.is_literal], literals, strict=True)
    same = [n.dtype for n in captured] == [v.dtype for v in inputs.values[own:]]
    return same and all(repr(captured[k - own].data) == x for k, x in numbers if k >= own)


def _names(function: Any, given: Any, what: str) -> list[str]:
    """Returns names for the arguments of a recording."""
    if given is None:
        return ["arguments"]
    count, *keywords = given
    # A keyword may be what an argument without a name is called here.
    named = [f"{keyword}=" for keyword in keywords]
    return [*parameters(getattr(function, "f", object()), count, what), *named]

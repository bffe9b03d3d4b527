"""Frozen functions in files: `dr.save` writes the recordings of one, with its kernels and the
arrays that it reads without receiving them as arguments, and `dr.load` makes a function of such a
file that repeats them, without tracing and without the program that wrote it.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ...function.exchange import kernel_pack
from ...jit import flags, log, processor
from ...jit.backend import JitBackend
from ...jit.cpu import launcher, variants
from ...jit.cpu.kernel import CompiledCode, for_text
from ...jit.ir.node import BUFFER
from ...jit.lazy import np
from ...jit.run import cache, schedule
from ...jit.target import foreign
from ...jit.text.user.reading import Source
from ...jit.text.user.text import read
from .explain import differences
from .frozen import Frozen, FrozenFunction
from .layout import InputLayout, nodes_in
from .recordings import Family, GeneralRecording, Structure
from .stored import Reader, Writer

VERSION = 1
_COMPILING = int(flags.JitFlag.FastMath | flags.JitFlag.NumbaCompiler)


class SavedFunction(FrozenFunction):
    """A function that repeats the recordings of a file. It keeps what it reads or changes besides
    its arguments in the arrays of `state`."""

    def __init__(
        self, name: str, structures: dict[tuple, Structure], reader: Reader, state: list[Any]
    ) -> None:
        super().__init__(self._untraced, -1, -1, JitBackend.Invalid, True)
        self.__name__ = self.__qualname__ = name
        self._what, self._structures, self._state = name, structures, state
        self.reader = reader

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call_with(args, kwargs)

    def __repr__(self) -> str:
        return f"<frozen function {self.__name__}, from a file>"

    def _untraced(self, tree: Any) -> Any:
        raise RuntimeError(
            f"{self._what}: a function from a file repeats its launches and cannot be traced: "
            "neither in symbolic loops and calls, nor in other frozen functions, nor without "
            "JitFlag.KernelFreezing"
        )

    def _implicit(self, tree: Any) -> list[Any]:
        return self._state

    def _structure(self, key: list[Any], values: list[str]) -> Structure:
        try:
            found = self._structures.get((json.dumps(Writer().texts(key)),))
        except TypeError as error:
            raise TypeError(f"{self._what}: no file has recordings for {error}") from None
        # Constants may be data in the recording.
        return Structure(values, {*range(len(values))}) if found is None else found

    def _note_changes(self, found: Structure, values: list[str]) -> None:
        pass  # constants are what they were in the recording

    def _recorded(self, tree: Any, inputs: Any, layout: InputLayout) -> Any:
        w = Writer()
        mine = w.texts(layout.key)
        known = self._structures.get((json.dumps(mine),))
        if known is None:
            r = Reader(self.reader.arrays, w.classes | self.reader.classes)  # for both
            others = [json.loads(key) for (key,) in self._structures]
            why = min([differences(r.value(mine), r.value(key)) for key in others], key=len)[0]
        elif [repr(layout.nodes[k].data) for k, _ in layout.literals] != known.last:
            why = "numbers in its arguments differ"
        else:
            why = "its arrays have other sizes"
        why = why.partition(", and")[0].replace(" before", " in the file")
        raise TypeError(
            f"{self._what}: the file has no recording for these arguments: {why}. Before it is "
            "saved, a function has to be called with arguments of the same types and structure, "
            "and with arrays of two sizes if they may have others"
        )


# ---- Writing


def described(
    function: Frozen | SavedFunction, what: str, targets: Sequence[str] = ()
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Returns the arrays of a file for a frozen function, and its facts. There is machine code for
    this machine, and for the `targets`.

    Raises:
        RuntimeError: there is nothing to save, or a loaded function could not do the same.
        ValueError: there is no machine code of the function for a target.
        TypeError: the function refers to objects that cannot be saved.
    """
    if getattr(function, "_state_fn", None) is not None:
        raise RuntimeError(
            f"{what}: a function with 'state_fn' cannot be saved: let it take that state as "
            "arguments"
        )
    w = Writer()
    if isinstance(function, SavedFunction):
        w.classes |= function.reader.classes
    structures, implicit = recordings_of(function, what)
    try:
        for row in structures:
            key = row["key"]  # a text already, in a function from a file
            row["key"] = json.loads(key[0]) if type(key[0]) is str else w.texts(key)
            row["families"] = [_family(w, *family) for family in row["families"]]
        state = [*map(w.object, implicit)]
    except TypeError as error:
        raise TypeError(f"{what}: it depends on {error}, which cannot be saved") from None
    kernels = [[k.device.backend.name, k.text, *w.texts((k.program, k.work))] for k in w.kernels]
    facts = {
        "name": getattr(function, "__name__", "function"), "structures": structures, "state": state,
        "kernels": kernels, "classes": w.classes,
        "machines": {d.backend.name: _machine(d) for d in {k.device for k in w.all_kernels}},
        "texts": [[k.text, k.pack.__self__.size // 8, k.cost] for k in w.texts_of_operations],
        **_part(w, [_own_code(w, k) for k in w.all_kernels], launcher.machine_code()),
        "targets": [_for_target(name, w, what) for name in targets],
    }  # fmt: skip
    return w.arrays, {"function": VERSION, **facts, "digest": digest(w.arrays, facts)}


def recordings_of(function: Any, what: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """Returns the recordings of a frozen function by the structure of its inputs and the values of
    literals; and what it reads besides its arguments, which has been evaluated.

    Raises:
        RuntimeError: there are none.
    """
    with schedule.lock:  # under which nothing waits
        structures: list[dict[str, Any]] = [
            {"key": key, "last": s.last, "changing": sorted(s.changing), "families": [
                (values, [*f.recorded.values()], [*f.general])
                for values, f in s.families.items() if len(f)
            ]}
            for key, s in function._structures.items() if any(map(len, s.families.values()))
        ]  # fmt: skip
    if not structures:
        raise RuntimeError(f"{what}: the function has not been recorded: call it first")
    implicit = function._implicit(((), {}))
    schedule.evaluate([n for n in nodes_in(implicit) if n.op is not BUFFER])
    return structures, implicit


def digest(arrays: Sequence[np.ndarray], facts: dict[str, Any]) -> str:
    """Returns a hash of the contents of a file: what is damaged is never run."""
    state = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16)
    for a in arrays:
        state.update(f"{a.dtype.str} {a.shape}".encode())
        state.update(a.tobytes())
    return state.hexdigest()


def _machine(device: Any) -> list[str]:
    """Returns what the machine code of kernels of a device depends on."""
    made_by = kernel_pack.machine() if device.on_host else device.image_facts()
    return [*map(str, made_by), *_made_by()]


def _made_by() -> list[str]:
    """Returns what all machine code depends on."""
    return [kernel_pack.contents_of_package(), str(int(flags.current & _COMPILING))]


def _part(w: Writer, code: list[list[Any]], start: bytes | None) -> dict[str, Any]:
    """Returns the part of a file with the machine code of all kernels for a machine, and with the
    code that starts those of the processor. That of a kernel has a row for each packet width, or
    setting: whether there is a finish function, and the number of the code."""
    return {"code": code, "launcher": None if start is None else w.bytes(start)}


def _own_code(w: Writer, kernel: Any) -> list[Any]:
    """Returns the machine code of a kernel for this machine."""
    if kernel.device.on_host:
        variant = variants.optimized(kernel, variants.compiler_options())
        if cache.get(variant.key) is None:
            kernel.compiled(variant, variants.compiler_options())
        keys = {variant.lanes: variant.key}
    else:
        keys = {setting: kernel.key_of(setting)[0] for setting in kernel.codes}
    found = [(which, cache.get(key)) for which, key in keys.items()]
    return [(which, e.has_finish, w.bytes(e.code)) for which, e in found if e is not None]


def _code_for(w: Writer, kernel: Any, target: Any) -> list[Any]:
    """Returns the machine code of a kernel for GPUs of a compute capability, or for the processor
    that this thread compiles for."""
    if not kernel.device.on_host:
        settings = [*kernel.codes] or [flags.current & kernel.flag_mask]  # it may not have run yet
        found = [(setting, *kernel.code_for_capability(target, setting)) for setting in settings]
        return [(*row, w.bytes(code)) for *row, code in found]
    from ...jit.target import simd

    lanes, contract = simd.packet_lanes(kernel.text), bool(flags.current & flags.JitFlag.FastMath)
    made = simd.compile(kernel.text, kernel.name, lanes, contract, by_numba=False)
    return [(lanes, made.has_finish, w.bytes(made.code))]


def _for_target(name: str, w: Writer, what: str) -> dict[str, Any]:
    """Returns the machine code for a processor, by its name in LLVM, or for GPUs of a compute
    capability, and what that needs."""
    on_host = not name.startswith("sm_")
    try:
        target: Any = processor.named(name) if on_host else _capability(name)
    except ValueError as error:
        raise ValueError(f"{what}: targets: {error}") from None
    kernels = {k for k in w.all_kernels if k.device.on_host is on_host}
    if not kernels:
        kind = "processor" if on_host else "GPU"
        raise ValueError(f"{what}: targets: {name!r} is a {kind}, and none runs the function")
    if on_host and any(f"{other}(" in k.text for k in kernels for other in [*foreign.functions]):
        raise ValueError(f"{what}: targets: Numba has compiled functions for this processor alone")
    with processor.compiling_for(target) if on_host else nullcontext():
        code = [_code_for(w, k, target) if k in kernels else [] for k in w.all_kernels]
        start = launcher.code_for_chosen() if on_host else None
    needs = [sys.platform, target.architecture, *target.features] if on_host else ["cuda", *target]
    return {"needs": needs, "made": _made_by(), **_part(w, code, start)}


def _capability(name: str) -> tuple[int, int]:
    """Returns the compute capability of a target."""
    from ...jit.target.cuda import nvptx

    names = {f"sm_{number}": divmod(number, 10) for number in nvptx.CAPABILITIES}
    if name not in names:
        raise ValueError(f"no GPU is {name!r}. Expected one of {', '.join(names)}")
    return names[name]


def _use_machine_code(kernel: Any, which: int, has_finish: bool, code: bytes) -> None:
    if not kernel.device.on_host:
        cache.put(kernel.key_of(which)[0], kernel.text, code, has_finish)
    elif not kernel.address:
        from ...jit.target.image import Loaded

        key = variants.key_of(kernel.text, variants.compiler_options(), which)
        try:
            image = Loaded(code, kernel.name, has_finish)
        except (ImportError, OSError) as error:  # there is no linker, or another library of C
            text = "kernel %s: the machine code in the file cannot be used (%s)"
            log.log(log.LogLevel.Warn, text, kernel.name, error)
            return
        kernel.adopt(CompiledCode(image, "disk", variants.Variant(key, which), 0.0))


def _family(w: Writer, values: tuple, recorded: list, general: list) -> list[Any]:
    wider = [[w.recording(g.recording), *w.texts(g[1:])] for g in general]
    return [[*values], [*map(w.recording, recorded)], wider]


# ---- Reading


def loaded(
    arrays: list[np.ndarray], facts: dict[str, Any], trusted: bool, what: str
) -> SavedFunction:
    """Returns the function of a file, whose machine code is used if it is `trusted`.

    Raises:
        ValueError, KeyError and others: the file is damaged.
    """
    if facts.pop("digest") != digest(arrays, facts):
        raise ValueError("its contents differ from what was written")
    r = Reader(arrays, facts["classes"])
    for number, (backend, text, layout, work) in enumerate(facts["kernels"]):
        if not trusted:  # the rules that kernels of users have to follow
            lines = text.splitlines()
            read(Source(f"kernel {number}", what, 0, lines, 0, read.__code__, {}.__getitem__))
        r.kernels.append(r.device(backend).kernel(text, *r.value([layout, work])))
    if trusted:
        r.texts_of_operations = [for_text(*row) for row in facts["texts"]]
        for device in {k.device for k in (*r.kernels, *r.texts_of_operations)}:
            if (found := _fitting(facts, device)) is not None:
                _use(found, device, r)
    structures: dict[tuple, Structure] = {}
    for row in facts["structures"]:
        made = Structure(row["last"], set(row["changing"]))
        for values, recorded, general in row["families"]:
            f = made.families[tuple(values)] = Family()
            f.recorded = {one.sizes: one for one in map(r.recording, recorded)}
            f.general = [GeneralRecording(r.recording(t), *r.value(more)) for t, *more in general]
        structures[(json.dumps(row["key"]),)] = made
    return SavedFunction(facts["name"], structures, r, [*map(r.object, facts["state"])])


def _fitting(facts: dict[str, Any], device: Any) -> dict[str, Any] | None:
    """Returns the part of a file with the best machine code for a device, None if there is none."""
    if facts["machines"][device.backend.name] == _machine(device):
        return facts
    found = [t for t in facts.get("targets", ()) if t["made"] == _made_by() and _runs(t, device)]
    return max(found, key=lambda t: ("avx512f" in t["needs"], len(t["needs"])), default=None)


def _runs(target: dict[str, Any], device: Any) -> bool:
    system, *needs = target["needs"]
    if not device.on_host:
        return bool(system == "cuda" and needs == [*device.capability])
    return system == sys.platform and processor.runs(needs[0], needs[1:])


def _use(found: dict[str, Any], device: Any, r: Reader) -> None:
    """Has kernels of a device run the machine code of a part of a file."""
    kernels = *r.kernels, *r.texts_of_operations
    for k, rows in zip(kernels, found["code"], strict=True):
        if k.device is device:
            for which, has_finish, code in rows:
                _use_machine_code(k, which, has_finish, r.arrays[code].tobytes())
    if device.on_host and found["launcher"] is not None:
        key, present = launcher.cached()
        if present is None:
            cache.put(key, "launcher", r.arrays[found["launcher"]].tobytes(), False)

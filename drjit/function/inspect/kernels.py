"""Inspection of the compiler: the text of kernels, the launch history, and a table of all kernels.

Times are in milliseconds, as everywhere in the public interface.
"""

import enum
import inspect
import io
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from ...array.pytree import leaf_arrays
from ...jit.device import devices
from ...jit.enumeration import Named
from ...jit.flags import JitFlag, scoped_set_flag
from ...jit.run import history, schedule
from . import html


class KernelType(Named, enum.Enum):
    """The purpose of a kernel; `JIT` stands for traced operations."""

    JIT = 0
    BlockReduce = 1
    BlockPrefixReduce = 2
    Dot = 3
    BatchedGemm = 4
    Compress = 5
    MkPerm = 6
    Memcpy = 7
    Memset = 8
    Poke = 9
    Aggregate = 10
    LLVMHostFunc = 11


class KernelRecordingMode(Named, enum.Enum):
    """Whether a launch was recorded or replayed by a frozen function."""

    Inactive = 0
    Recorded = 1
    Replayed = 2


def _seconds(launch: history.Launch) -> float:
    if isinstance(launch.time, float):
        return launch.time
    launch.kernel.device.drain()
    return launch.time.last * 1e-9


def _entry(launches: list[history.Launch]) -> dict[str, Any]:
    """Returns the history entry of a kernel made from a program, or of an operation that may
    comprise several kernels."""
    launch, whole = launches[0], launches[0].whole
    kernels = [v.kernel for v in launches]
    program = kernels[0].program
    made = [v for v in launches if v.first and v.tier == "compiled"]
    filled = KernelType.Memset if kernels[0].fills else KernelType.JIT
    disk = all(v.state == "disk" for v in launches)
    entry = {
        "backend": kernels[0].device.backend,
        "type": KernelType[whole.kind] if whole else filled,
        "hash": kernels[-1].name.rpartition("k")[2],
        "ir": io.StringIO(text := "\n".join(dict.fromkeys(k.text for k in kernels))),
        "source": text,
        "tier": launch.tier,
        "uses_optix": 0,
        "cache_hit": int(disk or not any(v.first for v in launches)),
        "cache_disk": int(disk),
        "recording_mode": KernelRecordingMode[launch.mode],
        "size": whole.size if whole else launch.size,
        "input_count": len(program.inputs) if program else 1,
        "output_count": sum(o.kind != "effect" for o in program.outputs) if program else 1,
    }
    if program is not None:
        entry["operation_count"] = kernels[0].operations
        entry["codegen_time"] = launch.rendering * 1e3
    entry["backend_time"] = sum(v.kernel.seconds for v in made) * 1e3
    entry["execution_time"] = sum(map(_seconds, launches)) * 1e3
    return entry


def kernel_history(types: Sequence[KernelType] = ()) -> list[dict[str, Any]]:
    """Returns the kernels launched since the last call while `JitFlag.KernelHistory` was on; waits
    for them.

    `types` restricts the list. Entries are dictionaries: `source` is the kernel's text (`ir` the
    same as a file), `tier` is `python`, `numpy` or `compiled`, and `size` the number of lanes.
    `cache_hit` says that nothing had to be compiled, `cache_disk` that the code came from the disk
    cache.
    `codegen_time`, `backend_time` and `execution_time` are the times for generating the text,
    compiling or loading, and running. `recording_mode` says whether a frozen function recorded or
    replayed the launch. `input_count` and `output_count` are numbers of arrays. A block reduction,
    compression or similar operation is a single entry, whose size is that of its input.

    >>> with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
    ...     dr.eval(dr.arange(Float, 1000) + 1)
    ...     entry, = dr.kernel_history()
    True
    >>> entry["size"], entry["type"]
    (1000, KernelType.JIT)
    """
    if isinstance(types, KernelType) or not all(isinstance(t, KernelType) for t in types):
        raise TypeError(f"dr.kernel_history(): expected a sequence of KernelType, got {types!r}")
    entries = [_entry(launches) for launches in history.take()]
    return [e for e in entries if not types or e["type"] in types]


def kernel_history_clear() -> None:
    """Forgets the kernels launched so far."""
    history.take()


class KernelSource(str):
    """The text of kernels. Notebooks show it with colours and, where the lines that traced its
    statements are known, beside these."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html.source_table(self)


def kernel_source(*values: object) -> KernelSource:
    """Returns the text of the kernels that evaluating these values and all pending side effects
    would run.

    Nothing is evaluated. A value without a kernel, because it is already evaluated or a constant,
    is named in a comment. If the first argument is a function, it is called with the others, and
    the text is that of its results; each statement then names the line that traced it, as those
    of values traced in debug mode do.

    The result is a string, which notebooks show with colours, and with these lines beside the
    kernel's.

    >>> print(dr.kernel_source(dr.arange(Float, 1000) + 2))
    def kernel(i, p):
        v0 = lane(i)
        v1 = f32(v0)
        c0 = literal(f32, p[1])
        v2 = v1 + c0
        store(f32, p[2], i, v2)
    <BLANKLINE>
    >>> print(dr.kernel_source(lambda x: x * x, dr.opaque(Float, 1, 1000)))
    def kernel(i, p):
        x0 = load(f32, p[1], i)
        v0 = x0 * x0  # ...
        store(f32, p[2], i, v0)
    <BLANKLINE>
    """
    function = _function(values[0]) if values else None
    if function is None:
        return _source(values)
    with scoped_set_flag(JitFlag.Debug):  # so that values know their lines
        return _source((function(*values[1:]),))


def _function(value: Any) -> Callable | None:
    """Returns what is called for a value: nothing for arrays and PyTrees, networks among them. A
    frozen function evaluates its results, the function in it does not."""
    plain = inspect.isfunction(value) or inspect.ismethod(value) or inspect.isbuiltin(value)
    return value if plain else getattr(value, "__wrapped__", None)


def _source(values: Any) -> KernelSource:
    arrays = [a for a in leaf_arrays(values) if a._kind == "leaf"]
    nodes = [a._node for a in arrays]
    texts = []
    for n in nodes:
        if n.is_literal:
            texts.append(f"# {n.dtype}, {n.size} entries: the constant {n.data}, no kernel\n")
        elif n.is_evaluated:
            texts.append(f"# {n.dtype}, {n.size} entries: already evaluated, no kernel\n")
    texts += [k.text for k in schedule.preview(nodes, arrays[-1]._device if arrays else None)]
    return KernelSource("\n".join(texts))


class KernelInfo(NamedTuple):
    """A row of `kernels`; `time` is the total over all launches, extrapolated from those
    measured."""

    name: str
    tier: str
    launches: int
    time: float
    compile_time: float
    statements: int
    bytes: int
    source: str


class KernelTable(list[KernelInfo]):
    """Kernels and their cost; prints as a table, which in notebooks has bars, and the texts beneath
    the names."""

    def __repr__(self) -> str:
        total, _ = self._totals()
        titles = (
            "kernel",
            "tier",
            "launches",
            "time [ms]",
            "",
            "compile [ms]",
            "statements",
            "bytes",
        )
        rows = [
            (
                r.name, r.tier, f"{r.launches:,}", f"{r.time:,.3f}", _blocks(r.time, total),
                f"{r.compile_time:,.1f}", f"{r.statements:,}", f"{r.bytes:,}",
            )
            for r in self
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if k in (0, 4) else cell.rjust(w)
                for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [titles, *rows]
        )

    def _repr_html_(self) -> str:
        total, compiling = self._totals()
        titles = "kernel", "tier", "time [ms]", "compile [ms]", "launches", "statements"
        rows = []
        for r in self:
            text = "\n".join(map(html.coloured, r.source.splitlines()))
            name = f"<details><summary>{escape(r.name)}</summary><pre>{text}</pre></details>"
            compiled = html.bar(r.compile_time / compiling, second=True, width=8)
            rows.append(
                (
                    name, r.tier, f"{html.bar(r.time / total)} {r.time:,.3f}",
                    f"{compiled} {r.compile_time:,.1f}", f"{r.launches:,}", f"{r.statements:,}",
                )
            )  # fmt: skip
        return html.page(html.table(titles, rows, left=2))

    def _totals(self) -> tuple[float, float]:
        """Returns the time of all launches and that of compiling, but never 0."""
        return sum(r.time for r in self) or 1.0, sum(r.compile_time for r in self) or 1.0


_BAR = 16  # characters


def _blocks(time: float, total: float) -> str:
    """Returns a bar for a part of the total time, in steps of half a character."""
    halves = round(2 * _BAR * time / total)
    return "█" * (halves // 2) + "▌" * (halves % 2)


def kernels() -> KernelTable:
    """Returns all kernels that ran in this process, with their number of launches, tier, and time,
    most expensive first; waits for pending ones.

    The list prints as a table with a bar for each kernel's part of the time.

    >>> dr.eval(dr.arange(Float, 1000) * 3)
    True
    >>> table = dr.kernels()
    >>> table[0].launches > 0, any("store" in k.source for k in table)
    (True, True)
    """
    for device in devices():
        device.sync()
    rows = [
        KernelInfo(
            k.name, k.tier, k.launches, k.mean_time * k.launches * 1e3, k.seconds * 1e3,
            k.statements, len(k.text), k.text,
        )
        for device in devices() for k in device.kernels() if k.launches
    ]  # fmt: skip
    return KernelTable(sorted(rows, key=lambda row: -row.time))


def flush_kernel_cache() -> None:
    """Drops all kernels from memory; waits for pending ones. Kernels on disk remain, in the folder
    that `python -m drjit doctor` shows."""
    for device in devices():
        device.forget_kernels()
    with schedule.lock:
        schedule.forget_kernels()

"""Inspection of the compiler: the text of kernels, the launch history, and a table of all kernels.

Times are in milliseconds, as everywhere in the public interface.
"""

import enum
import inspect
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from ...array.pytree import leaf_arrays
from ...jit.device import devices
from ...jit.enumeration import Named
from ...jit.flags import JitFlag, scoped_set_flag
from ...jit.run import history, schedule


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
        "ir": io.StringIO(text := "\n".join(dict.fromkeys(v.text for v in launches))),
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
    cache. `codegen_time`, `backend_time` and `execution_time` are the times for generating the
    text, compiling or loading, and running. `recording_mode` says whether a frozen function
    recorded or replayed the launch. `input_count` and `output_count` are numbers of arrays. A block
    reduction, compression or similar operation is a single entry, whose size is that of its input.

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
        return _source_table(self)


def kernel_source(*values: object) -> KernelSource:
    """Returns the text of the kernels that evaluating these values and all pending side effects
    would run.

    Nothing is evaluated. A value without a kernel, because it is already evaluated or a constant,
    is named in a comment. If the first argument is a function, it is called with the others, and
    the text is that of its results; each statement then names the line that traced it, as those
    of values traced in debug mode do.

    Loop variables and values with labels have their names, those of components and members such as
    `position_x`; kernels that run are the same without. `i` and `p` mean something else in kernels,
    so variables of these names are `i_1` and `p_1`.

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
    device = arrays[-1]._device if arrays else None
    texts += [text for _, text in schedule.preview(nodes, device)]
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

    _TITLES = "kernel", "tier", "launches", "time [ms]", "compile [ms]", "statements", "bytes"

    def _rows(self) -> list[list[str]]:
        return [
            [
                r.name, r.tier, f"{r.launches:,}", f"{r.time:,.3f}", f"{r.compile_time:,.1f}",
                f"{r.statements:,}", f"{r.bytes:,}",
            ]
            for r in self
        ]  # fmt: skip

    def __repr__(self) -> str:
        total, _ = self._totals()
        bars = ["", *[_blocks(r.time, total) for r in self]]
        rows = [self._TITLES, *self._rows()]
        rows = [[*row[:4], blocks, *row[4:]] for row, blocks in zip(rows, bars, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if k in (0, 4) else cell.rjust(w)
                for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        total, compiling = self._totals()
        rows = self._rows()
        for r, row in zip(self, rows, strict=True):
            text = "\n".join(map(coloured, r.source.splitlines()))
            row[0] = f"<details><summary>{escape(r.name)}</summary><pre>{text}</pre></details>"
            row[3] = f"{_html_bar(r.time / total)} {row[3]}"
            row[4] = f"{_html_bar(r.compile_time / compiling, second=True, width=8)} {row[4]}"
        return _page(_html_table(self._TITLES, rows, left=2))

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


# The style of what notebooks show. Its colours are legible on light and on dark pages, because a
# page does not tell which it is; text has the colour of the page.
_RULES = {
    "": "overflow-x:auto;font-size:13px",
    "table": "border-collapse:collapse;margin:0;border:0;background:none;color:inherit;"
    "font-size:inherit;width:auto",
    "table tr": "background:none;border:0",
    "table td": "border:0;padding:0 .8em 0 0;text-align:left;vertical-align:top;white-space:pre;"
    "line-height:1.5;max-width:none",
    "table th": "border:0;padding:0 .8em 0 0;text-align:left;white-space:pre",
    "table .n": "text-align:right",
    "code": "font-family:monospace;background:none;border:0;padding:0;color:inherit;"
    "font-size:inherit;white-space:pre",
    "table td.u": "padding-right:1.5em;border-right:2px solid #8886",
    "table td.c": "padding-left:1em;font-family:monospace",
    "table tr.g td": "background:#8881",
    "pre": "font-size:inherit;background:none;color:inherit;border:0;padding:0",
    "details pre": "margin:.3em 0 .3em 1em",
    "summary": "cursor:pointer",
    ".b": "display:inline-block;height:.75em;min-width:1px;background:#2f7fd0",
    ".b2": "background:#d08a2f",
    # Of code: comments, keywords, calls, types, numbers, strings.
    ".f": "color:#7a7a7a",
    ".k": "color:#b0489b",
    ".o": "color:#2f7fd0",
    ".t": "color:#2a8a78",
    ".d": "color:#b5651d",
    ".s": "color:#5f8a1f",
}
_STYLE = f"<style>{''.join(f'.drjit {k}{{{v}}}' for k, v in _RULES.items())}</style>"

# Of a line, without what spans several; written so that JavaScript reads it as well.
TOKEN = re.compile(
    r"(?P<f>#.*)|(?P<s>'[^']*'|\"[^\"]*\")|(?P<k>\b(?:def|while|for|if|else|return|in|and|or|not|"
    r"True|False|None|import|from|with|as|lambda|break|continue|pass)\b)|"
    r"(?P<t>\b(?:[uif](?:8|16|32|64)|mask)\b)|"
    r"(?P<d>(?<![\w.])(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?)\b)|(?P<o>\b\w+(?=\())"
)
_NOTED = re.compile(r"^(.*?)  # (\S+):(\d+) ?(.*)$")
_CELL = re.compile(r"\d+\.py|<(?:stdin|ipython-input.*)>")


def _page(content: str) -> str:
    """Returns an element of a page with its style."""
    return f'{_STYLE}<div class="drjit">{content}</div>'


def coloured(code: str) -> str:
    """Returns a line of Python or of a kernel, as HTML."""
    parts, end = [], 0
    for found in TOKEN.finditer(code):
        parts.append(escape(code[end : found.start()], quote=False))
        parts.append(f'<span class="{found.lastgroup}">{escape(found[0], quote=False)}</span>')
        end = found.end()
    return "".join([*parts, escape(code[end:], quote=False)])


def _noted(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the lines of a kernel without the comments that say where they come from, and what
    these say: a file, a line, and the text there."""
    for line in text.splitlines():
        found = _NOTED.match(line)
        yield (found[1], found.groups()[1:]) if found else (line, ("", "", ""))


def _source_table(text: str) -> str:
    """Returns a kernel beside the user's lines that its comments name."""
    lines = list(_noted(text))
    if not any(place[1] for _, place in lines):
        body = "\n".join(coloured(line) for line, _ in lines)
        return _page(f"<pre><code>{body}</code></pre>")
    rows, shaded = [], False
    for place, run in groupby(lines, lambda row: row[1]):
        code = [line for line, _ in run]
        shaded = bool(place[1]) and not shaded
        kind = ' class="g"' if shaded else ""
        first = f'<td class="u" rowspan="{len(code)}">{_user_line(*place)}</td>'
        for line in code:
            rows.append(f'<tr{kind}>{first}<td class="c">{coloured(line)}</td></tr>')
            first = ""
    return _page(f"<table>{''.join(rows)}</table>")


def _user_line(file: str, line: str, text: str) -> str:
    if not line:
        return ""
    place = f"line {line}" if _CELL.fullmatch(file) else f"{file}:{line}"
    return f'<span class="f">{escape(place)}</span>  <code>{coloured(text)}</code>'


def _html_table(titles: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Returns a table of cells in HTML; numbers, all but the first `left` columns, end on the
    right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = [' class="n"' if k >= left else "" for k in range(len(cells))]
        parts = zip(kinds, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for kind, cell in parts)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', titles)}</thead><tbody>{body}</tbody></table>"


def _html_bar(part: float, second: bool = False, width: float = 12) -> str:
    """Returns a bar whose length is a part of `width` (in em)."""
    kind = "b b2" if second else "b"
    return f'<span class="{kind}" style="width:{max(part, 0) * width:.2f}em"></span>'

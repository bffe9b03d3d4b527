"""`dr.report`: a program, its kernels, its machine and its time in one dictionary, which is saved
as a page or as a trace. What it is made of is noted by `recorder`.
"""

import json
import linecache
import os
import platform
import re
import shlex
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import drjit

from ..array.base import ArrayBase
from ..jit import processor
from ..jit.cpu import runtime
from ..jit.ir.location import line_of
from . import page, recorder, trace, why
from .lanes import LaneRecorder

VERSION = 1
MOST_KERNELS = 500
_TEXT_BYTES = 1 << 20  # of kernel texts
_WHOLE_FILE = 4_000  # lines of a file that is taken as it is
_MOST_SIZES = 16
_OURS = re.compile(r"\.<locals>\._(while|if)_\w+")  # functions that `dr.syntax` makes
_SHOWN = 5  # kernels in `__repr__`


def report(
    lanes: str | Iterable[int] | ArrayBase | None = None,
    launch: int = 0,
    gradients: bool = False,
) -> "Report":
    """Records what a program does within a `with` statement: tracing, compiling, waiting, what
    each thread does for each kernel, memory, and the lines of the program that led to all that.

    The report is shown by notebooks, and can be saved: `save("run.html")` makes a page that needs
    nothing else, `save("run.json")` a trace for https://ui.perfetto.dev. It is there as well if the
    statement was left by an exception. `python -m drjit report PROGRAM` records a whole program.

    Recording takes a few percent of the time, or half of it where launches are tiny, and changes no
    result. Programs should be recorded as they usually run, so without `JitFlag.KernelHistory` or
    debug mode.

    With `lanes`, it also has all values of some lanes, statement by statement: up to 64 numbers of
    lanes, a mask (of whose lanes it takes the first 64), or `"nan"`. Of each kernel, that is the
    launch with the number `launch`, if it has these lanes; for `"nan"`, the first launch that made
    a NaN, which is tested after each launch, and the lane of that. The values are those of NumPy,
    on which these lanes run once more: the last bits may differ from those of machine code.

    With `gradients`, the norms of gradients are computed for the first traversals of each line when
    the report ends; until then these gradients are kept.

    Raises:
        RuntimeError: another report is being recorded.
        ValueError: the lanes are none of these.

    >>> with dr.report() as r:
    ...     dr.eval(dr.arange(Float, 1000) + 1)
    True
    >>> [kernel["launches"] for kernel in r.data()["kernels"]]
    [1]
    """
    return Report(lanes, launch, gradients)


class Report:
    """What happened between `start` and `stop`, or in a `with` statement; see `report`."""

    def __init__(self, lanes: Any = None, launch: int = 0, gradients: bool = False) -> None:
        self._lanes = None if lanes is None else LaneRecorder(lanes, launch)
        self._gradients = gradients
        self._recorder: recorder.Recorder | None = None
        self._data: dict[str, Any] | None = None
        self._writer: _Writer | None = None  # until there are costs and listings as well
        self._process = 0

    def start(self) -> "Report":
        """Begins to record, for the first and only time.

        Raises:
            RuntimeError: a report is being recorded, or this one was recorded before.
        """
        if self._recorder is not None:
            raise RuntimeError("dr.report(): this report was recorded before. Make another one.")
        self._recorder, self._process = recorder.start(self._gradients), os.getpid()
        self._recorder.lanes = self._lanes
        return self

    def stop(self, error: BaseException | None = None) -> None:
        """Ends the recording; `error` is what the program was ended by."""
        r = self._recorder
        if r is None or self._data is not None:
            return
        # In a child, a fork has ended it.
        try:
            r.finish(wait=not (isinstance(error, KeyboardInterrupt) or r.is_child))
        finally:
            recorder.stop(r)
            if error is None:
                r.derivatives.norms()
            self._writer = _Writer(r, error)
            self._data = self._writer.data()
            r.kernels.clear()
            r.before.clear()

    def __enter__(self) -> "Report":
        return self.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop(error)

    def data(self) -> dict[str, Any]:
        """Returns everything as a dictionary of simple objects. The first call compiles the kernels
        that cost most once more, for their listings, and the very first one on a machine measures
        its limits.

        Raises:
            RuntimeError: the recording has not ended.
        """
        data = self._recorded()
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.complete(data)
        return data

    def _recorded(self) -> dict[str, Any]:
        if self._data is None:
            raise RuntimeError(
                "dr.report(): there is nothing yet. Leave the `with` statement, or call stop()."
            )
        return self._data

    def save(self, path: str | os.PathLike) -> None:
        """Writes a page (`.html`) or a trace for https://ui.perfetto.dev (`.json`). In a process
        forked from the one that was recorded, nothing is written.

        Raises:
            ValueError: the name ends otherwise.
        """
        data, to = self._recorded(), checked_name(path)
        if os.getpid() != self._process:
            return
        if to.suffix == ".json":
            text = json.dumps(trace.chrome(data))
        else:
            text = page.html(self.data())
        to.write_text(text, encoding="utf-8")

    def why(self) -> str:
        """Returns for each kernel that was new, or compiled, what it differs in from the nearest
        one that existed."""
        return why.text(self.data())

    def __repr__(self) -> str:
        if self._data is None:
            return f"<drjit report, {'recording' if self._recorder else 'not recorded'}>"
        return "\n".join(_summary(self._data))

    def _repr_html_(self) -> str | None:
        if self._data is None:
            return None
        text = escape(page.html(self.data()))
        return f'<iframe srcdoc="{text}" style="width: 100%; height: 800px; border: 0"></iframe>'


def checked_name(path: str | os.PathLike) -> Path:
    """Returns the path under which a report can be saved.

    Raises:
        ValueError: the name ends with something else.
    """
    to = Path(path)
    if to.suffix not in (".html", ".json"):
        raise ValueError(f"dr.report(): a report is saved as .html or .json, not {to.name!r}.")
    return to


def _summary(data: dict[str, Any]) -> list[str]:
    """Returns a few lines on where the time went."""
    totals: Counter[str] = Counter()
    for kind, thread, start, end, *_ in data["events"]:
        if kind != "kernel" and (kind != "wait" or data["threads"][thread] == "main"):
            totals[kind] += end - start
    kernels, seconds = data["kernels"], data["program"]["seconds"]
    whole = {
        "in kernels": sum([k["seconds"] for k in kernels]),
        "compiling": totals["compile"] * 1e-6,
        "waiting": totals["wait"] * 1e-6,
        "tracing": totals["trace"] * 1e-6,
    }
    parts = ", ".join([f"{_time(t)} {name}" for name, t in whole.items()])
    rows = [f"{data['program']['command']}: {_time(seconds)}, {data['program']['ended']}", parts]
    costly = sorted([k for k in kernels if k["launches"]], key=lambda k: -k["seconds"])
    for k in costly[:_SHOWN]:
        times = "once" if k["launches"] == 1 else f"{k['launches']:,} times"
        rows.append(f"  {_time(k['seconds']):>9}  {times:>13}  {k['title']}  ({k['name'][:9]})")
    if len(costly) > _SHOWN:
        rest = sum([k["seconds"] for k in costly[_SHOWN:]])
        rows.append(f"  {_time(rest):>9}  {len(costly) - _SHOWN} other kernels")
    return rows + [f"note: {note}" for note in data["program"]["notes"]]


def _command() -> str:
    """Returns what was called."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    notebook = program == "ipykernel_launcher.py"
    return "notebook" if notebook else shlex.join(sys.argv) if program else "python"


def _shown(path: str) -> str:
    """Returns the name of a file; for a cell of a notebook, which is one, its number there."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda path: None)(path)
    return " ".join(named) if named else path


def _time(seconds: float) -> str:
    """Formats a duration."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.0f} µs"


class _Writer:
    """Makes the dictionary of what was recorded."""

    def __init__(self, recorded: recorder.Recorder, error: BaseException | None) -> None:
        self.recorded, self.error = recorded, error
        self.notes: list[str] = []
        self.met: list[recorder.Met] = []
        self._numbers: dict[tuple, int] = {("", 0, ""): 0}
        self.codes: dict[str, list[Any]] = {}
        self.by_location = [self.place(location) for location in recorded.locations]
        self.places = [[*row] for row in self._numbers]
        self.threads: list[str] = []
        self._rows: dict[Any, int] = {}

    def data(self) -> dict[str, Any]:
        r = self.recorded
        met = sorted(r.kernels.values(), key=lambda k: -(k.seconds + k.compile_seconds))
        if len(met) > MOST_KERNELS:
            self.notes.append(
                f"{len(met):,} kernels were met, of which the {MOST_KERNELS} that cost most are "
                "listed"
            )
            del met[MOST_KERNELS:]
        self.met = met
        kernels = [self.kernel(k) for k in met]
        self._drop_texts(kernels)
        events = self.events(met)
        memory = [[self.time(t), n] for t, n in r.memory]
        lanes = r.lanes.data({k.kernel: i for i, k in enumerate(met)}) if r.lanes else []
        self.notes += r.lanes.notes if r.lanes else []
        graphs, lost = self.derivatives()
        reasons = why.Why(r, self.by_location, self.places).rows(met, self.time)
        files = {_shown(path): lines for path, lines in self.files().items()}
        places = [[_shown(path), *rest] for path, *rest in self.places]
        return {
            "version": VERSION, "program": self.program(), "files": files,
            "places": places, "threads": self.threads, "events": events, "memory": memory,
            "kernels": kernels, "machine": {}, "why": reasons, "lanes": lanes,
            "derivatives": graphs, "lost": lost,
        }  # fmt: skip

    def time(self, seconds: float) -> float:
        """Returns a time of `perf_counter` in microseconds since the beginning."""
        return round(max(seconds - self.recorded.started, 0) * 1e6, 1)

    # ---- The program

    def program(self) -> dict[str, Any]:
        r, error = self.recorded, self.error
        ended, text = "completed", ""
        if isinstance(error, SystemExit):
            if error.code not in (None, 0):
                self.notes.append(f"the program ended with sys.exit({error.code!r})")
        elif error is not None:
            ended = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            text = "".join(traceback.format_exception(error))
        if r.merged:
            self.notes.append(
                f"{r.merged:,} short events were joined with others of their kind beside them"
            )
        if r.lost:
            self.notes.append(f"{r.lost:,} launches had not ended")
        if r.unread:
            self.notes.append(f"the lines of {r.unread} kernels could not be found")
        if r.is_child:
            self.notes.append("this is a forked process: the report ends with the fork")
        elif r.forks:
            self.notes.append("the program forked: what its children did is not here")
        return {
            "command": _command(),
            "argv": list(sys.argv), "python": platform.python_version(), "drjit": drjit.__version__,
            "platform": platform.platform(), "device": self.device(),
            "threads": runtime.thread_count(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(r.date)),
            "seconds": round(r.ended - r.started, 6), "ended": ended, "error": text,
            "notes": self.notes,
        }  # fmt: skip

    def device(self) -> str:
        """Returns the devices that kernels ran on, in words."""
        used = dict.fromkeys([k.device for k in self.recorded.kernels])
        found = []
        for d in used:
            if not d.on_host:
                if d.driver.emulated:
                    self.notes.append("the GPU was emulated, so its times say nothing about one")
                name = "emulated" if d.driver.emulated else d.name
                found.append(f"{d.backend.name} ({name})")
        if len(found) == len(used) and found:
            return ", ".join(found)
        width = processor.REGISTERS[processor.register_bytes()]
        threads = runtime.thread_count()
        return ", ".join([f"LLVM ({threads} thread{'s' * (threads != 1)}, {width})", *found])

    # ---- Places

    def place(self, location: tuple) -> int:
        """Returns the number of the line of a location."""
        if not location:
            return 0
        code = location[0]
        function = _OURS.sub("", code.co_qualname).replace(".<locals>", "")
        row = code.co_filename, line_of(location), function
        self.codes.setdefault(code.co_filename, []).append(code)
        return self._numbers.setdefault(row, len(self._numbers))

    def files(self) -> dict[str, list[str]]:
        """Returns the lines of the files; of long ones, those of the functions that matter."""
        found = {}
        for path, codes in self.codes.items():
            lines = [line.rstrip("\n") for line in linecache.getlines(path)]
            if len(lines) >= _WHOLE_FILE:
                kept = {n for c in codes for *_, n in c.co_lines() if n}
                kept |= {n for path_, n, _ in self.places if path_ == path}
                lines = [line if n in kept else "" for n, line in enumerate(lines, 1)]
            found[path] = lines
        return found

    # ---- Kernels

    def kernel(self, met: recorder.Met) -> dict[str, Any]:
        k, text = met.kernel, met.text
        places = [self.by_location[p] for p in met.places] if met.places else [0] * len(text)
        return {
            "name": k.name, "title": self.title(met), "tier": k.tier,
            "device": k.device.backend.name, "state": k.state, "launches": met.launches,
            "sizes": [[n, c] for n, c in met.sizes.most_common(_MOST_SIZES)],
            "modes": dict(met.modes),
            "seconds": round(met.seconds, 9), "compile_seconds": round(met.compile_seconds, 6),
            "text": text, "places": places, "names": met.names,
        }  # fmt: skip

    def complete(self, data: dict[str, Any]) -> None:
        """Adds what takes a while: what kernels cost, for which the machine is measured, and
        listings."""
        from . import cost, listing, machine

        for entry, met in zip(data["kernels"], self.met, strict=True):
            device = met.kernel.device
            limits = machine.limits() if device.on_host else machine.of_gpu(device)
            cost.describe(entry, met.kernel.text, met.sizes, limits)
            data["machine"] = data["machine"] or limits
        listing.describe(data["kernels"], [met.kernel for met in self.met], self.notes)

    def title(self, met: recorder.Met) -> str:
        """Returns a short name: where it was launched most often, or the operation."""
        where = met.where.most_common(1)
        path, line, function = self.places[self.by_location[where[0][0]] if where else 0]
        name = function.rpartition(".")[2]
        parts = [f"{os.path.basename(_shown(path))}:{line}"] if path else []
        parts += [name] if name not in ("", "<module>") else []
        parts += [met.whole] if met.whole else []
        return " ".join(parts) or met.kernel.name[:9]

    def _drop_texts(self, kernels: list[dict[str, Any]]) -> None:
        """Keeps the texts of the kernels that cost most."""
        left, dropped = _TEXT_BYTES, 0
        for k in kernels:
            left -= sum([len(line) + 8 for line in k["text"]])
            if left < 0:
                k["text"], k["places"], k["names"] = [], [], {}
                dropped += 1
        if dropped:
            self.notes.append(f"the texts of {dropped} kernels that cost little are left out")

    # ---- Derivatives

    def derivatives(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Returns the traversals, and where gradients were lost."""
        found, numbers = self.recorded.derivatives, self.by_location
        for row in found.rows:
            row["time"] = self.time(row["time"])
            for part in (row, *row["variables"]):
                part["place"] = numbers[part["place"]]
        if found.left_out:
            self.notes.append(f"{found.left_out:,} traversals of derivatives are not shown")
        return found.rows, found.lost_rows(numbers)

    # ---- Events

    def events(self, met: list[recorder.Met]) -> list[list]:
        found = [recorder.Event._make(row) for row in self.recorded.events]
        self._name_threads(found)
        refs = {k.number: ref for ref, k in enumerate(met)}
        rows = []
        for e in found:
            place, ref = self.by_location[e.place], refs.get(e.kernel, -1)
            if ref >= 0 and not place and met[ref].where:  # compiled by a thread of ours
                place = self.by_location[met[ref].where.most_common(1)[0][0]]
            row = self._rows[e.thread]
            start, end = self.time(e.start), self.time(e.end)
            rows.append([e.kind, row, start, end, place, ref, _text(e)])
        return sorted(rows, key=lambda row: (row[2], -row[3]))

    def _name_threads(self, found: list[recorder.Event]) -> None:
        """Gives rows to threads: those of the program, those that compile, workers, GPUs."""
        names: dict[Any, str] = {t: name for t, name in self.recorded.threads.items() if name}
        compilers = [t for t, name in self.recorded.threads.items() if not name]
        names |= {t: f"compiler {k}" for k, t in enumerate(compilers, 1)}
        others = {str(e.thread) for e in found if e.thread not in names}
        workers = {t for t in others if t.startswith("worker ")}
        if workers:  # idle ones as well
            workers |= {f"worker {k}" for k in range(1, runtime.thread_count() + 1)}
        names |= {t: t for t in sorted(workers, key=lambda t: int(t.split()[1]))}
        names |= {t: f"GPU ({t})" for t in sorted(others - workers)}
        self.threads = [*names.values()]
        self._rows = {t: k for k, t in enumerate(names)}


def _text(e: recorder.Event) -> str:
    """Returns what there is to say about an event."""
    busy = f"busy {_time(e.busy)}" if e.busy and e.busy < 0.95 * (e.end - e.start) else ""
    joined = f"{e.count:,} events" if e.count > 1 else ""
    return ", ".join([part for part in (e.text, joined, busy) if part])

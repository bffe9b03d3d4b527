"""Progress of long work of the library itself: compilations, recordings, gradient checks.

Nothing is shown for work of less than `DELAY` seconds, nor where nobody watches: progress appears
in terminals and notebooks, elsewhere only with `DRJIT_PROGRESS=1`. One thread shows all tasks that
are under way, and the work itself only counts; the thread exists while there are tasks.
"""

import _thread
import contextlib
import sys
import threading
import time
from typing import Any

from . import flags, locks, log
from .flags import JitFlag

DELAY = 2.0  # seconds
PERIOD = 0.25

CLOSING = 1.0
"""Seconds that the end of the last task waits for the display to be gone."""

_running: list["Task"] = []
_shown: list[tuple[threading.Event, threading.Lock]] = []
"""For the thread that shows tasks: the event that ends it, and a lock that it releases then."""


class Task:
    """A piece of work, as a context; `what` says what is done, `total` how many `unit`s there are,
    if that is known. The work adds to `done`. Tasks of the main thread are shown, and those of
    other threads if they are `awaited`."""

    __slots__ = ("awaited", "done", "start", "total", "unit", "what")

    def __init__(
        self, what: str, total: int | None = None, unit: str = "", awaited: bool = False
    ) -> None:
        self.what, self.total, self.unit, self.awaited = what, total, unit, awaited
        self.done = 0

    def __enter__(self) -> "Task":
        if not flags.current & JitFlag.Progress:
            return self
        if not self.awaited and threading.get_ident() != threading.main_thread().ident:
            return self
        self.start = time.perf_counter()
        _running.append(self)
        if not _shown and not _begin():
            _running.remove(self)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ValueError):
            _running.remove(self)
        if not _running:
            _end()
            if _running and not _shown:  # a task that has begun meanwhile relied on the display
                _begin()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    @property
    def text(self) -> str:
        """What is done, how far it is if that is known, and how long it has taken."""
        count = f": {self.done:,} of {self.total:,} {self.unit}" if self.total else ""
        minutes, seconds = divmod(int(self.seconds), 60)
        return f"{self.what}{count}, {minutes}:{seconds:02d}"


def compiling(kernel: Any, awaited: bool = False) -> Task:
    """Returns the task of compiling a kernel. LLVM's progress is unknown, so the size of the kernel
    is shown."""
    what = f"compiling kernel {kernel.name} ({kernel.statements:,} statements)"
    return Task(what, awaited=awaited)


def _begin() -> bool:
    """Starts the thread that shows tasks; returns whether somebody watches."""
    display = _display()
    if display is None:
        return False
    over, gone = threading.Event(), threading.Lock()
    gone.acquire()
    _shown.append((over, gone))
    try:
        # Not a thread of `threading`, for which this one would wait until it has begun.
        _thread.start_new_thread(_report, (over, gone, display))
    except RuntimeError:  # the process is ending, or has reached its limit of threads
        _shown.remove((over, gone))
        return False
    return True


def _end() -> None:
    while _shown:
        with contextlib.suppress(IndexError):
            over, gone = _shown.pop()
            over.set()
            gone.acquire(timeout=CLOSING)


def _report(over: threading.Event, gone: threading.Lock, display: "_Lines") -> None:
    """Shows the running tasks until they are over."""
    try:
        if not over.wait(DELAY):
            while True:
                tasks = _running[:]
                if tasks:
                    display.show(tasks)
                if over.wait(PERIOD):
                    break
            display.close()
    except Exception:  # a terminal or notebook that is gone does not end the work
        return
    finally:
        gone.release()


def _forget(in_child: bool) -> None:
    if in_child:
        _shown.clear()


locks.resume_hooks.append(_forget)


def _display() -> "_Lines | None":
    """Returns where progress is shown, or None."""
    if _in_notebook():
        return _Notebook()
    if sys.stderr is None or getattr(sys.stderr, "closed", False):
        return None
    if getattr(sys.stderr, "isatty", bool)():
        return _Bar()
    return _Lines() if flags.progress == "1" else None


def _in_notebook() -> bool:
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get is not None and getattr(get(), "kernel", None) is not None


def _joined(tasks: list[Task]) -> str:
    return " · ".join(t.text for t in tasks)


class _Lines:
    """Progress as lines, for files: one whenever twice as much time has passed as at the last."""

    next = 0.0

    def show(self, tasks: list[Task]) -> None:
        if tasks[0].seconds >= self.next:
            self.next = 2 * tasks[0].seconds
            log.write(f"drjit: {_joined(tasks)}\n")

    def close(self) -> None:
        """Removes what is shown, where that is possible."""


class _Bar(_Lines):
    """Progress in a terminal: a bar of tqdm for the outermost task, or a line without it."""

    bar: Any = None
    shown: Task | None = None

    def show(self, tasks: list[Task]) -> None:
        if self.shown is not tasks[0]:
            self.close()
            self.bar, self.shown = _bar(tasks[0]), tasks[0]
        if self.bar is None:
            sys.stderr.write(f"\r\x1b[K{_joined(tasks)}")
            sys.stderr.flush()
            return
        self.bar.n = tasks[0].done
        self.bar.set_postfix_str(_joined(tasks[1:]), refresh=False)
        self.bar.refresh()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _bar(task: Task) -> Any:
    """Returns a bar of tqdm for a task that has already begun; None if tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None

    class Bar(tqdm):
        monitor_interval = 0  # no thread that outlives the task

    shown: dict[str, Any] = {"leave": False, "dynamic_ncols": True, "delay": 1e-9}
    if not task.total:
        shown["bar_format"] = "{desc}: {elapsed}{postfix}"
    bar = Bar(desc=task.what, total=task.total, unit=f" {task.unit}", **shown)
    bar.start_t -= task.seconds
    return bar


class _Notebook(_Lines):
    """Progress in a notebook: an element that disappears at the end."""

    handle: Any = None

    def show(self, tasks: list[Task]) -> None:
        self._update(_joined(tasks), "".join(map(_element, tasks)))

    def close(self) -> None:
        if self.handle is not None:
            self._update("", "")

    def _update(self, text: str, html: str) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        data = {"text/plain": text, "text/html": html}
        if self.handle is None:
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)


def _element(task: Task) -> str:
    from html import escape

    share = f' value="{task.done}" max="{task.total}"' if task.total else ""
    return f"<div><progress{share}></progress> {escape(task.text)}</div>"

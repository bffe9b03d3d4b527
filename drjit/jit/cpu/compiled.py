"""The compiled forms of a kernel: which there are, when they are made, by whom, and the change to
another one while launches go on.

Threads of `background` compile while the program goes on, whose launches are queued before their
kernel is there. What is made first may be a form that is compiled sooner than the best one, which
follows once it pays. The disk cache keeps all of them.
"""

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import flags, log, processor, progress
from ..device import Kernel
from ..flags import JitFlag
from ..run import cache
from ..target import library, packet_width
from ..tuples import NamedTuple
from . import background, runtime
from .launcher import JobEntry, Times

# A kernel with a loop is first compiled with narrow packets, which takes half the time; and any
# kernel with little work, without LLVM's work on fast code. Once launches have taken HOT seconds,
# or there were OFTEN of them, the best form is compiled.
HOT = 30e-3
OFTEN = 1000
QUICK = "-quick"  # what the key in the disk cache ends with

# Work below this many lane-operations runs in the calling thread: handing it over costs more.
INLINE_WORK = 300_000

# Plain numbers: testing for an enumeration member takes ten times as long.
SLOW = int(JitFlag.Debug | JitFlag.LaunchBlocking | JitFlag.KernelHistory)
"""Flags under which launches take the general way, and wait for their kernels."""
_FAST, NUMBA = int(JitFlag.FastMath), int(JitFlag.NumbaCompiler)

_Entries = JobEntry * 2  # the second one is the end
seconds = 0.0
"""How long compiling has taken in this process."""


class Form(NamedTuple):
    """A compiled form: its key in the disk cache, the packet width, and the level of LLVM's code
    generation, if the text does not decide."""

    key: str
    lanes: int
    level: int | None = None


class Made(NamedTuple):
    """A form in memory: where it is from, whether there may be a better one, and the seconds that
    it took."""

    loaded: Any
    state: str
    provisional: bool
    seconds: float


class CompiledKernel(Kernel):
    """A kernel with its compiled form, once there is one."""

    __slots__ = (
        "clock", "coming", "cost", "entry", "entry_address", "failed", "few", "found", "loaded",
        "provisional", "stored",
    )  # fmt: skip

    def __init__(self, cost: int, *facts: Any) -> None:
        super().__init__(*facts)
        self.cost = cost  # lane-operations of a lane
        self.loaded: Any = None
        self.few = 0  # how many lanes the calling thread computes, once it is compiled
        self.provisional = False  # whether a better form than the compiled one may pay
        self.coming: background.Task | None = None  # what another thread compiles
        self.failed = False  # whether it could not
        self.stored: bool | None = None  # see is_stored
        self.found: Any = None  # the form and its entry, between that query and the launch
        self.clock = Times()  # of compiled launches, written by the workers
        entries = _Entries()
        self.entry, self.entry_address = entries[0], ctypes.addressof(entries)
        self.entry.times = ctypes.addressof(self.clock)

    @property
    def address(self) -> int:
        """Where the compiled form is, or 0."""
        return self.entry.kernel

    def is_stored(self) -> bool:
        """Whether the disk cache had a compiled form on the first query."""
        if self.stored is None:
            for f in self._forms(options_now(), True):
                entry = cache.get(f.key)
                if entry is not None:
                    self.found = f, entry
                    break
            self.stored = self.found is not None
        return self.stored

    def _best(self, options: int) -> Form:
        """Returns the best form, which takes a while to find out: processes note it for others."""
        what = cache.compiler(), options
        if self.form is not None and self.form[:2] == what:
            return Form(*self.form[2:])
        lanes = packet_width.packet_lanes(self.text)
        best = Form(key_of(self.text, options, lanes), lanes)
        if not options & NUMBA:  # whose version counts as well
            self.form = *what, best.key, best.lanes
        return best

    def _forms(self, options: int, little: bool) -> list[Form]:
        """Returns the forms that may serve, the best one first."""
        forms = [self._best(options)]
        if options & NUMBA:  # which compiles in the caller
            return forms
        if self.loops:
            lanes = packet_width.default_lanes()
            if lanes < forms[0].lanes:
                forms.append(Form(key_of(self.text, options, lanes), lanes))
        if little:
            last = forms[-1]
            forms.append(Form(last.key + QUICK, last.lanes, 0))
        return forms

    def compile(self, little: bool, pays: bool = False) -> None:
        """Has a form compiled for a launch, with much or `little` work, unless there is one or is
        about to be; or loads what the disk cache has. Has a better form compiled if it is time, or
        `pays` because several processes run the kernel.

        Raises:
            KernelError: the text violates the rules of the language.
        """
        if self.address:
            if self.coming is None and self.deserves_better():
                self.submit_best()
            return
        options, watched = options_now(), bool(flags.current & SLOW)
        # Numba is not made for several threads, nor for forks meanwhile: it imports and logs.
        by_caller = options & NUMBA or runtime.thread_count() == 1
        waits = watched or by_caller or self.failed
        coming = self.coming
        self.made_at = self.made_at or self.launches
        if coming is not None:
            coming.wait() if waits else coming.hurry()
            if not waits or self.address:
                return
        forms = self._forms(options, little and not watched)
        found = self._from_disk(forms)
        if found is None:
            compiled = partial(self._compiled, forms, options)
            if not waits and self._submit(compiled, urgent=True):
                return
            found = compiled()
        self._adopt(found)
        if found.state == "disk" and found.provisional and pays:
            self.submit_best()

    def deserves_better(self) -> bool:
        """Returns whether the best form is worth the time to compile it."""
        return self.clock.total * 1e-9 > HOT or self.launches - self.made_at > OFTEN

    def submit_best(self) -> None:
        """Has the best form compiled when threads have nothing else to do."""
        options = options_now()
        if not self.failed and not options & NUMBA:
            best = self._forms(options, False)[:1]
            self._submit(lambda: self._from_disk(best) or self._compiled(best, options))

    def _submit(self, made: Callable[[], Made], urgent: bool = False) -> bool:
        """Has another thread make a form; returns whether that was possible."""
        library.prepare(self.text)
        # Known before it begins, as it takes note itself that it is over.
        self.coming = task = background.Task(partial(self._make, made))
        if background.take(task, runtime.thread_count(), urgent):
            return True
        self.coming = None
        return False

    def _make(self, made: Callable[[], Made]) -> None:
        try:
            found = made()
        except BaseException as error:
            # In this order: whoever launches it now looks for this afterwards.
            self.failed, self.provisional, self.coming = True, False, None
            if not self.address:
                runtime.fail(self.entry, error)
            return
        self._adopt(found)

    def _adopt(self, made: Made) -> None:
        """Has launches run a form from now on, also those that have waited for it."""
        before = self.loaded
        self.loaded, self.state, self.provisional, self.seconds = made
        runtime.open_jobs(self.entry, self.loaded.kernel, self.loaded.finish)
        # Only now: freeing it lets other threads run, which launch what the entry says.
        if before is not None:
            runtime.retain(before)  # queued launches may still run it
        self.note_few()
        self.coming = None
        self.tell_of_code()

    def note_few(self) -> None:
        """Lets the calling thread run small launches, now that there is a compiled form. Whoever
        launches first does this, as the thread that compiles may wait for its turn."""
        if not self.loops:
            self.few = (INLINE_WORK - 1) // max(self.cost, 1)

    def _from_disk(self, forms: list[Form]) -> Made | None:
        """Returns the first of some forms that the disk cache has."""
        from ..target.image import Loaded

        start = time.perf_counter()
        found, self.found = self.found, None
        first = forms.index(found[0]) if found and found[0] in forms else 0
        for f in forms[first:]:
            entry = found[1] if found and f == found[0] else cache.get(f.key)
            if entry is None:
                continue
            try:
                loaded = Loaded(entry.code, self.name, entry.has_finish)
            except Exception as error:  # a damaged entry is compiled again
                log.log(log.LogLevel.Warn, "cache entry %s cannot be loaded (%s)", f.key, error)
                continue
            return Made(loaded, "disk", f is not forms[0], time.perf_counter() - start)
        return None

    def _compiled(self, forms: list[Form], options: int) -> Made:
        """Compiles the last of some forms."""
        global seconds
        from ..target import simd
        from ..target.image import Loaded

        start, spent = time.perf_counter(), time.thread_time()
        f, contract, by_numba = forms[-1], bool(options & _FAST), bool(options & NUMBA)
        with progress.compiling(self, not self.address):
            code = simd.compile(
                self.text, self.name, f.lanes, contract, by_numba=by_numba, level=f.level
            )
        loaded = Loaded(code.code, self.name, code.has_finish)
        cache.put(f.key, self.text, code.code, code.has_finish)
        seconds += time.thread_time() - spent
        return Made(loaded, "memory", len(forms) > 1, time.perf_counter() - start)


def options_now() -> int:
    """Returns the flags that determine how a text is compiled."""
    return flags.current & (_FAST | NUMBA)


def key_of(text: str, options: int, lanes: int) -> str:
    """Returns the key of a compiled form in the disk cache."""
    route = ("numba", processor.version_file("numba")) if options & NUMBA else ()
    return cache.digest(text, bool(options & _FAST), lanes, *route)

"""The machine code of a kernel: who compiles it, and the change to a better variant while launches
go on.

Threads of `background` compile while the program goes on, whose launches are queued before their
kernel is there. What is compiled first may be a baseline; the optimized variant follows once it
pays (see `variants`). The disk cache keeps all of them.
"""

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import flags, log, progress
from ..device import Kernel
from ..flags import JitFlag
from ..run import cache
from ..target import library
from ..tuples import NamedTuple
from . import background, runtime, variants
from .launcher import JobEntry, Times
from .variants import Variant

# Plain numbers: testing for an enumeration member takes ten times as long.
SLOW = int(JitFlag.Debug | JitFlag.LaunchBlocking | JitFlag.KernelHistory)
"""Flags under which launches take the general way, and wait for their kernels."""

_Entries = JobEntry * 2  # the second one is the end


class CompiledCode(NamedTuple):
    """A compiled variant in memory: where it is from, whether it is a baseline, and the seconds
    that it took to compile or load."""

    loaded: Any
    state: str
    is_baseline: bool
    seconds: float


class CompiledKernel(Kernel):
    """A kernel with its machine code, once there is some."""

    __slots__ = (
        "cached", "clock", "cost", "entry", "entry_address", "failed", "is_baseline", "loaded",
        "query", "task",
    )  # fmt: skip

    def __init__(self, cost: int, *facts: Any) -> None:
        super().__init__(*facts)
        self.cost = cost  # lane-operations of a lane
        self.loaded: Any = None  # the code that launches run
        self.is_baseline = False  # whether that is a baseline
        self.task: background.Task | None = None  # in which another thread compiles
        self.failed = False  # whether it could not
        self.cached: bool | None = None  # see is_cached
        self.query: Any = None  # the variant and its entry, between that query and the launch
        self.clock = Times()  # of compiled launches, written by the workers
        entries = _Entries()
        self.entry, self.entry_address = entries[0], ctypes.addressof(entries)
        self.entry.times = ctypes.addressof(self.clock)

    @property
    def address(self) -> int:
        """Where the machine code is, or 0."""
        return self.entry.kernel

    def is_cached(self) -> bool:
        """Whether the disk cache had a compiled variant on the first query."""
        if self.cached is None:
            for variant in variants.candidates(self, variants.compiler_options(), True):
                entry = cache.get(variant.key)
                if entry is not None:
                    self.query = variant, entry
                    break
            self.cached = self.query is not None
        return self.cached

    def compile(self, work: int) -> None:
        """Loads machine code for a launch of so many lane-operations from the disk cache, or has it
        compiled, unless there is some or is about to be. A baseline from the disk cache, which an
        earlier process has run as well, is replaced if launches are long.

        Raises:
            KernelError: the text violates the rules of the language.
        """
        if self.address:
            return
        options, watched = variants.compiler_options(), bool(flags.current & SLOW)
        # Numba is not made for several threads, nor for forks meanwhile: it imports and logs.
        by_caller = options & variants.NUMBA or runtime.thread_count() == 1
        waits = watched or by_caller or self.failed
        task = self.task
        self.compiled_at = self.compiled_at or self.launches
        if task is not None:
            task.wait() if waits else task.hurry()
            if not waits or self.address:
                return
        unoptimized = not watched and variants.has_little_work(self, work)
        candidates = variants.candidates(self, options, unoptimized)
        code = self._from_disk(candidates)
        if code is None:
            compiled = partial(self._compiled, candidates[-1], options)
            if not waits and self._submit(compiled, urgent=True):
                return
            code = compiled()
        self._adopt(code)
        if code.state == "disk" and code.is_baseline and variants.has_long_work(self, work):
            self.submit_optimized()

    def submit_optimized(self) -> None:
        """Has the optimized variant compiled once threads have nothing else to do."""
        options = variants.compiler_options()
        if not self.failed and not options & variants.NUMBA:
            best = variants.optimized(self, options)
            self._submit(lambda: self._from_disk([best]) or self._compiled(best, options))

    def _submit(self, work: Callable[[], CompiledCode], urgent: bool = False) -> bool:
        """Has another thread compile or load code; returns whether that was possible."""
        library.prepare(self.text)
        # Known before it begins, as it takes note itself that it is over.
        self.task = task = background.Task(partial(self._run, work))
        if background.take(task, runtime.thread_count(), urgent):
            return True
        self.task = None
        return False

    def _run(self, work: Callable[[], CompiledCode]) -> None:
        try:
            code = work()
        except BaseException as error:
            # In this order: whoever launches it now looks for this afterwards.
            self.failed, self.is_baseline, self.task = True, False, None
            if not self.address:
                runtime.fail(self.entry, error)
            return
        self._adopt(code)

    def _adopt(self, code: CompiledCode) -> None:
        """Has launches run code from now on, also those that have waited for it."""
        before = self.loaded  # freed at the end: that lets other threads run, which may launch it
        runtime.open_jobs(self.entry, code.loaded.kernel, code.loaded.finish)
        self.loaded, self.state, self.is_baseline, self.seconds = code
        if before is not None:
            runtime.retain(before)  # queued launches may still run it
        self.task = None
        self.tell_of_code()

    def _from_disk(self, candidates: list[Variant]) -> CompiledCode | None:
        """Loads the first of some variants that the disk cache has."""
        from ..target.image import Loaded

        start = time.perf_counter()
        query, self.query = self.query, None
        first = candidates.index(query[0]) if query and query[0] in candidates else 0
        for variant in candidates[first:]:
            entry = query[1] if query and variant == query[0] else cache.get(variant.key)
            if entry is None:
                continue
            try:
                loaded = Loaded(entry.code, self.name, entry.has_finish)
            except Exception as error:  # a damaged entry is compiled again
                log.log(
                    log.LogLevel.Warn, "cache entry %s cannot be loaded (%s)", variant.key, error
                )
                continue
            seconds = time.perf_counter() - start
            return CompiledCode(loaded, "disk", variant.is_baseline, seconds)
        return None

    def _compiled(self, variant: Variant, options: int) -> CompiledCode:
        """Compiles a variant."""
        from ..target import simd
        from ..target.image import Loaded

        start, spent = time.perf_counter(), time.thread_time()
        contract, by_numba = bool(options & variants.FAST_MATH), bool(options & variants.NUMBA)
        with progress.compiling(self, not self.address):
            code = simd.compile(
                self.text, self.name, variant.lanes, contract, by_numba=by_numba,
                level=variant.level,
            )  # fmt: skip
        loaded = Loaded(code.code, self.name, code.has_finish)
        cache.put(variant.key, self.text, code.code, code.has_finish)
        variants.compile_seconds += time.thread_time() - spent
        seconds = time.perf_counter() - start
        return CompiledCode(loaded, "memory", variant.is_baseline, seconds)

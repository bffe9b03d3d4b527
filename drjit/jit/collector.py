"""Keeps Python's cyclic garbage collector from looking for garbage where there is none.

The package's own objects live until the process ends. A recorded body or a traversal creates
thousands of objects that stay alive until the program is evaluated and are then freed at once. A
collection before that would scan all of them and free nothing: the collector's threshold is raised
while tracing, and restored once arrays in reference cycles may hold too much memory.

Finalizers, which are code of the program, run wherever the collector does. It is paused where they
must not run: in threads of the package, in imports, while some tables change or a new program is
planned, which numbers nodes, and while a body or a function is recorded, of which they would become
a part. A pause changes the threshold, so that the program is free to disable and enable the
collector.
"""

import atexit
import gc
import sys
from _thread import get_ident
from collections.abc import Iterator
from itertools import chain, starmap
from typing import Any
from weakref import ref

FEW = 20_000  # objects of a process that has imported NumPy, but has computed nothing
# More than the objects that Python 3.12 hides during a collection, since they are immortal. A
# program that hides objects hides at least the five thousand that any process has.
_IMMORTAL = 2_000
DEFERRED_THRESHOLD = 10_000  # number of young objects that triggers a collection while deferred
# Modules whose finalizers are written in Python, where they can be seen.
_KNOWN = sys.stdlib_module_names - {"_dbm", "_gdbm", "_sqlite3"} | {"drjit", "llvmlite", "numpy"}
_BINARY = (".so", ".pyd")
_RELEASING = ("drjit.", "llvmlite.")  # whose finalizers release memory only
PAUSED = 1 << 30  # the threshold while it is paused: never reached, and no program has it
program_threshold: int | None = None
"""The program's own threshold, while ours is in force: see `defer`."""
pauses: set[Any] = set()
"""The reasons for which the collector is paused, or weak references to them."""
_before = 700  # the threshold before the pause
_hides_finalizers: bool | None = None  # whether `hide_objects` has; None if it has hidden nothing


class _Marker:
    """An object created after what `hide_objects` has hidden."""


_later = _Marker()


def hide_objects(before: list[type]) -> None:
    """Hides all objects from the collector. `before` are the classes of those from before the
    package was imported: if there are many, some may become garbage that only the collector finds,
    so all objects go to the oldest generation instead, which it examines last."""
    global _hides_finalizers, _later
    if gc.get_freeze_count() > _IMMORTAL:  # by the program
        return
    if len(before) <= FEW:
        _hides_finalizers = _some_have_finalizers(before)
    gc.freeze()
    if _hides_finalizers is None:
        gc.unfreeze()
    _later = _Marker()


@atexit.register
def _end() -> None:
    """Hides all objects, or none, at the end of the process. Python runs the collector three times
    then, which takes as long as a small program, to find cycles whose objects have something to do
    before they die, such as files. Without such objects, it need not search."""
    others = [m for n, m in tuple(sys.modules.items()) if n.partition(".")[0] not in _KNOWN]
    files = [str(getattr(m, "__dict__", {}).get("__file__")) for m in others]
    binary = [name for name in files if name.endswith(_BINARY)]
    if not (binary or _hides_finalizers or _some_have_finalizers([*map(type, every_object())])):
        gc.freeze()
    elif _hides_finalizers is not None:
        gc.unfreeze()


def _some_have_finalizers(classes: list[type]) -> bool:
    """Returns whether some objects, given their classes, have a finalizer, except those that only
    release memory, and the standard streams, which Python takes care of."""
    finalized = {c for c in {*classes} if hasattr(c, "__del__")}
    finalized = {c for c in finalized if not str(c.__module__).startswith(_RELEASING)}
    streams = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
    buffers = [getattr(s, "buffer", None) for s in streams]
    usual = {id(s): s for s in [*streams, *buffers, *(getattr(b, "raw", None) for b in buffers)]}
    there = usual.keys() & {*map(id, every_object())}
    known = [type(usual[k]) for k in there]
    return any(classes.count(c) > known.count(c) for c in finalized)


def every_object() -> Iterator:
    """Returns an iterator over the objects of the process, but for those that are hidden.

    It must be exhausted by one call that runs no Python code, so that no other thread runs: until
    then it refers to all objects, maybe to a tuple that `tuple` is filling in another thread, which
    fails if anything else refers to the tuple when it is full."""
    return chain.from_iterable(starmap(gc.get_objects, ((),)))


def objects_of(cls: type) -> list:
    """Returns the objects of a class of Python's, perhaps without those that `hide_objects` has
    hidden. Those that the program has frozen since are among them, and stay frozen."""
    found = gc.get_referrers(cls, _Marker)  # an object refers to its class
    if not any(o is _later for o in found):
        with paused():
            gc.unfreeze()
            found = gc.get_referrers(cls, _Marker)
            gc.freeze()
    return [o for o in found if type(o) is cls]


def pause(reason: Any) -> None:
    """Pauses the collector until all reasons for that are gone. If the program disables it
    meanwhile, it stays disabled."""
    pauses.add(reason)
    pause_again()


def pause_again() -> None:
    """Pauses the collector again if the program has set a threshold meanwhile."""
    global _before
    if pauses:
        young, middle, old = gc.get_threshold()
        if young and young != PAUSED:
            _before = young
            gc.set_threshold(PAUSED, middle, old)


def end_pause(reason: Any) -> None:
    """Withdraws a reason for a pause, which ends with the last one."""
    pauses.discard(reason)
    if not pauses:
        _restore()


def _restore() -> None:
    """Ends the pause if there is no reason left."""
    young, middle, old = gc.get_threshold()
    before = _before
    # Python lets no other thread run between the test and the call.
    if young == PAUSED and not pauses:
        gc.set_threshold(before, middle, old)


class paused:
    """Pauses the collector in a block of statements. `catch_up` does nothing there either."""

    __slots__ = ("__weakref__", "_reason", "thread")

    def __enter__(self) -> None:
        global _before
        self.thread = get_ident()
        # An interrupt may end `__exit__` before its first statement. Then, this object dies.
        self._reason = ref(self, pauses.discard)
        pauses.add(self._reason)
        young, middle, old = gc.get_threshold()  # as in `pause_again`
        if young != PAUSED and young:
            _before = young
            gc.set_threshold(PAUSED, middle, old)

    def __exit__(self, *_: object) -> None:
        end_pause(getattr(self, "_reason", None))


def catch_up() -> None:
    """Collects in this thread, if a collection was due while the collector was paused."""
    if pauses and gc.isenabled() and get_ident() not in _pausing_threads():
        young, middle, _ = gc.get_threshold()
        count, older, _ = gc.get_count()
        if young == PAUSED and count > _before:
            gc.collect(1 if older > middle else 0)


def _pausing_threads() -> set[int | None]:
    """Returns which threads are in blocks of statements with a pause."""
    found = [reason() for reason in pauses.copy() if type(reason) is ref]
    return {getattr(p, "thread", None) for p in found}


def defer() -> None:
    """Raises the threshold of the young generation until `resume`. If the program sets a threshold
    or disables the collector in the meantime, its setting wins."""
    global program_threshold
    if not pauses:
        _restore()  # an interrupt may have ended the last call of it
    young, *older = gc.get_threshold()
    # Another thread may have paused it meanwhile, but not between the test and the call.
    if 0 < young < DEFERRED_THRESHOLD and not pauses:
        program_threshold = young
        gc.set_threshold(DEFERRED_THRESHOLD, *older)


def resume() -> None:
    """Restores the program's own threshold."""
    global program_threshold, _before
    if program_threshold is not None:
        own, program_threshold = program_threshold, None
        young, *older = gc.get_threshold()
        if young == DEFERRED_THRESHOLD and not pauses:
            gc.set_threshold(own, *older)
        elif _before == DEFERRED_THRESHOLD:
            _before = own

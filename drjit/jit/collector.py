"""Keeps Python's cyclic garbage collector from looking for garbage where there is none.

What the package consists of stays until the process ends. A recorded body or a traversal creates
thousands of objects that stay alive until the program is evaluated and are then freed at once. A
collection before that would scan all of them and free nothing: the collector's threshold is raised
while tracing, and restored once memory held by arrays in reference cycles runs short.

Finalizers, which are code of the program, run wherever the collector does. It is paused where they
must not: in threads of the package, in imports, and while some tables change. The threshold is what
pauses it, so that the program is free to disable and enable it.
"""

import atexit
import gc
import sys
from _thread import get_ident
from typing import Any

FEW = 20_000  # objects of a process that has imported NumPy, but has computed nothing
# Objects that a collection of Python 3.12 hides, since they are immortal. A program that hides some
# itself hides at least what any process has, five thousand.
_IMMORTAL = 2_000
MOST = 10_000  # number of young objects that triggers a collection while deferred
# Modules whose objects have their finalizers in Python, where these can be seen.
_KNOWN = sys.stdlib_module_names - {"_dbm", "_gdbm", "_sqlite3"} | {"drjit", "llvmlite", "numpy"}
_BINARY = (".so", ".pyd")
_RELEASING = ("drjit.", "llvmlite.")  # whose finalizers release memory only
PAUSED = 1 << 30  # the threshold while it is paused: never reached, and no program has it
usual: int | None = None
"""The threshold of the program, while ours is in force: see `defer`."""
pauses: list[Any] = []
"""The reasons for which it is paused."""
_before = 700  # the threshold before it was
closed: set[int] = set()
"""Threads in which `catch_up` does nothing."""
_hides_finalizers: bool | None = None  # whether `settle` has; None if it has hidden nothing
_later: list = []  # made after what `settle` has hidden


def settle(before: list) -> None:
    """Hides all objects from the collector, given those from `before` the package was imported.
    Where there were more than a few, some may become garbage that only the collector finds; there,
    all go to the oldest generation, which is looked at last."""
    global _hides_finalizers, _later
    if gc.get_freeze_count() > _IMMORTAL:  # by the program
        return
    gc.freeze()
    if len(before) <= FEW:
        _hides_finalizers = _some_have_finalizers(before)
    else:
        gc.unfreeze()
    _later = []


@atexit.register
def _end() -> None:
    """Hides all objects, or none, at the end of the process. There, Python has the collector look
    at them three times, which takes as long as a small program, to find cycles whose objects have
    something to do before they die, such as files. Without such objects, it need not look."""
    others = [m for n, m in tuple(sys.modules.items()) if n.partition(".")[0] not in _KNOWN]
    files = [str(getattr(m, "__dict__", {}).get("__file__")) for m in others]
    binary = [name for name in files if name.endswith(_BINARY)]
    if not (binary or _hides_finalizers or _some_have_finalizers(gc.get_objects())):
        gc.freeze()
    elif _hides_finalizers is not None:
        gc.unfreeze()


def _some_have_finalizers(objects: list) -> bool:
    """Returns whether some objects have a finalizer, but for those that only release memory, and
    the standard streams, which Python sees to."""
    classes = {c for c in set(map(type, objects)) if hasattr(c, "__del__")}
    classes = {c for c in classes if not str(c.__module__).startswith(_RELEASING)}
    streams = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
    buffers = [getattr(s, "buffer", None) for s in streams]
    usual = {id(s) for s in [*streams, *buffers, *(getattr(b, "raw", None) for b in buffers)]}
    return any(id(o) not in usual for o in objects if type(o) in classes)


def objects() -> list:
    """Returns the objects of the process; what `settle` has hidden need not be among them. What the
    program has frozen since is, and stays frozen."""
    found = gc.get_objects()
    if any(o is _later for o in found):
        return found
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found


def pause(reason: Any) -> None:
    """Pauses the collector, until all reasons for that are gone. If the program disables it, that
    counts."""
    pauses.append(reason)
    insist()


def insist() -> None:
    """Pauses the collector again if the program has set a threshold meanwhile."""
    global _before
    if pauses:
        young, middle, old = gc.get_threshold()
        if young and young != PAUSED:
            _before = young
            gc.set_threshold(PAUSED, middle, old)


def go_on(reason: Any) -> None:
    """Takes back a reason for a pause."""
    try:  # noqa: SIM105 (where there is no memory left, `contextlib.suppress` would fail)
        pauses.remove(reason)
    except ValueError:
        pass
    _restore()


def _restore() -> None:
    """Ends the pause if there is no reason left."""
    young, middle, old = gc.get_threshold()
    before = _before
    # Python lets no other thread run between the test and the call.
    if young == PAUSED and not pauses:
        gc.set_threshold(before, middle, old)


class paused:
    """Pauses the collector in a block of statements."""

    def __enter__(self) -> None:
        try:
            pause(self)
        except BaseException:  # an interrupt
            go_on(self)
            raise

    def __exit__(self, *_: object) -> None:
        go_on(self)


def catch_up() -> None:
    """Collects in this thread what would have been collected, had the collector not been paused."""
    if pauses and gc.isenabled() and get_ident() not in closed:
        young, middle, _ = gc.get_threshold()
        count, older, _ = gc.get_count()
        if young == PAUSED and count > _before:
            gc.collect(1 if older > middle else 0)


def defer() -> None:
    """Raises the threshold of the young generation until `resume`. If the program sets a threshold
    or disables the collector in the meantime, its setting wins."""
    global usual
    if not pauses:
        _restore()  # after an interrupt in there
    young, *older = gc.get_threshold()
    # Another thread may have paused it meanwhile, but not between the test and the call.
    if 0 < young < MOST and not pauses:
        usual = young
        gc.set_threshold(MOST, *older)


def resume() -> None:
    """Restores the program's own threshold."""
    global usual, _before
    if usual is not None:
        own, usual = usual, None
        young, *older = gc.get_threshold()
        if young == MOST and not pauses:
            gc.set_threshold(own, *older)
        elif _before == MOST:
            _before = own

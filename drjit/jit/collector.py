"""Keeps Python's cyclic garbage collector from looking for garbage where there is none.

What the package consists of stays until the process ends. A recorded body or a traversal creates
thousands of objects that stay alive until the program is evaluated and are then freed at once. A
collection before that would scan all of them and free nothing: the collector's threshold is raised
while tracing, and restored once memory held by arrays in reference cycles runs short.
"""

import gc

FEW = 20_000  # objects of a process that has imported NumPy, but has computed nothing
MOST = 10_000  # number of young objects that triggers a collection while deferred
_usual: int | None = None  # the program's threshold while ours is in force
permanent = 0
"""The number of objects that `settle` has hidden from the collector."""


def settle(before: int) -> None:
    """Hides all objects from the collector, given how many there were `before` the package was
    imported: at the end of a process, it would take as long to look at them as a small program
    takes to start. Where there were more than a few, some may become garbage that only the
    collector finds; there, all go to the oldest generation, which is looked at last."""
    global permanent
    if gc.get_freeze_count():  # by the program
        return
    gc.freeze()
    if before > FEW:
        gc.unfreeze()
    permanent = gc.get_freeze_count()


def defer() -> None:
    """Raises the threshold of the young generation until `resume`. If the program sets a threshold
    or disables the collector in the meantime, its setting wins."""
    global _usual
    young, *older = gc.get_threshold()
    if 0 < young < MOST:
        _usual = young
        gc.set_threshold(MOST, *older)


def resume() -> None:
    """Restores the program's own threshold."""
    global _usual
    if _usual is not None:
        young, *older = gc.get_threshold()
        if young == MOST:
            gc.set_threshold(_usual, *older)
        _usual = None

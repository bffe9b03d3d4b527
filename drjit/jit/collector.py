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
_later: list = []  # made after what `settle` has hidden


def settle(before: int) -> None:
    """Hides all objects from the collector, given how many there were `before` the package was
    imported: at the end of a process, it would take as long to look at them as a small program
    takes to start. Where there were more than a few, some may become garbage that only the
    collector finds; there, all go to the oldest generation, which is looked at last."""
    global _later
    if gc.get_freeze_count():  # by the program
        return
    gc.freeze()
    if before > FEW:
        gc.unfreeze()
    _later = []


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

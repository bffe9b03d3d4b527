"""Defers Python's cyclic garbage collector while programs are traced.

A recorded body or a traversal creates thousands of objects that stay alive until the program is
evaluated and are then freed at once. A collection before that would scan all of them and free
nothing. The collector's threshold is therefore raised while tracing, and restored once memory held
by arrays in reference cycles runs short.
"""

import gc

MOST = 10_000  # number of young objects that triggers a collection while deferred
_usual: int | None = None  # the program's threshold while ours is in force


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

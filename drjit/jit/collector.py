"""The collector of reference cycles, which leaves young objects alone while programs are traced.

A recorded body or a traversal makes thousands of objects that are needed until the program has been
evaluated, and then are freed at once. The collector would look at each of them and find nothing. So
it lets more of them live, until memory runs short that arrays in cycles may hold.
"""

import gc

MOST = 10_000  # young objects at which it collects meanwhile
_usual: int | None = None  # the program's threshold, while that is not in force


def defer() -> None:
    """Lets more young objects live until `resume`. A threshold that the program sets meanwhile, and
    a collector that it disables, stay as they are."""
    global _usual
    young, *older = gc.get_threshold()
    if 0 < young < MOST:
        _usual = young
        gc.set_threshold(MOST, *older)


def resume() -> None:
    """Brings the program's own threshold back."""
    global _usual
    if _usual is not None:
        young, *older = gc.get_threshold()
        if young == MOST:
            gc.set_threshold(_usual, *older)
        _usual = None

"""Counted references to Python's objects, for code whose structure begins with `objects.Api`."""

from .language import Word, call, inline, put, word
from .objects import Api


@inline
def hold(api: Api, x: Word) -> Word:
    """Counts another reference to an object, and returns the object."""
    call("void(ptr)", api.incref, x)
    return x


def replace(api: Api, place: Word, x: Word) -> Word:
    """Replaces the object at an address, such as that of a field. The destructor of the old one may
    run."""
    before = word(place)
    put(place, hold(api, x))
    call("void(ptr)", api.decref, before)

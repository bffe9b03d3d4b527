"""Counted references to objects of Python's, for code whose structure begins with `objects.Api`."""

from .language import Word, call, inline, put, word
from .objects import Api


@inline
def hold(api: Api, x: Word) -> Word:
    """Counts another reference to an object, and gives it."""
    call("void(ptr)", api.incref, x)
    return x


def replace(api: Api, place: Word, x: Word) -> Word:
    """Turns the object at an address, such as that of a field, into another one. The destructor of
    the one before may run."""
    before = word(place)
    put(place, hold(api, x))
    call("void(ptr)", api.decref, before)

"""Compiled code of functions that the package generates, such as operators and rules of
derivatives, and of functions into which others are inlined (`expanded`). One entry of the disk
cache has the code of all earlier processes, since compiling takes most of the time of generating a
function.
"""

import atexit
import functools
import marshal
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from . import cache

_MOST = 1000  # texts in the entry: some may be those of another version of the package
_added = False
F = TypeVar("F", bound=Callable)


def compiled(text: str) -> types.CodeType:
    """Returns the compiled code of a text, for `exec`."""
    return _code(_hash(text).digest(), lambda: text, "<string>")


def _hash(text: str) -> Any:
    return cache.blake2b(text.encode(), digest_size=16)


def _code(key: bytes, source: Callable[[], Any], file: str) -> types.CodeType:
    """Returns the code with a key, compiled from a text or a syntax tree if there is none."""
    global _added
    codes = _codes()
    if key in codes:
        return marshal.loads(codes[key])
    code = compile(source(), file, "exec")
    codes[key], _added = marshal.dumps(code), True
    return code


def part(function: F) -> F:
    """Marks a function to be inlined, see `expanded`."""
    return function


def expanded(function: Any, **known: bool) -> Any:
    """Returns a faster version of `function`, which takes one parameter and returns a function. In
    what that returns, attributes of the parameter are read once, into variables; calls of the
    module's `part`s are inlined; and an `if` on an attribute that is `known` is replaced by the
    branch that is taken.

    A part is called either in an assignment to several variables, and then ends with the `return`
    of as many variables, which are renamed to those; or in a `return`, and then has returns of its
    own. Its arguments are expressions without side effects, which replace its parameters; its other
    variables become those of the caller. Without expansion, parts work as ordinary functions.
    """
    module = dict(vars(sys.modules[function.__module__]))
    exec(_expansion(function, known), module)
    return module[function.__name__]


def prepare(functions: Iterable[Any], **known: bool) -> None:
    """Compiles functions that the cache lacks, so that `expanded` imports nothing: for callers that
    will hold a lock."""
    for function in functions:
        if _key(function, known) not in _codes():
            _expansion(function, known)


def _expansion(function: Any, known: dict[str, bool]) -> types.CodeType:
    file = function.__globals__["__file__"]

    def tree() -> Any:
        from .expansion import expansion  # not if the code is in the cache

        return expansion(_text(file)[0], file, function.__name__, known)

    return _code(_key(function, known), tree, file)


def _key(function: Any, known: dict[str, bool]) -> bytes:
    key = _text(function.__globals__["__file__"])[1].copy()
    key.update(f"{function.__name__} {known}".encode())
    return key.digest()


@functools.cache
def _text(file: str) -> tuple[str, Any]:
    """Returns the text of a file, and a hash of what its expansion depends on."""
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    expander = os.stat(os.path.join(os.path.dirname(__file__), "expansion.py")).st_mtime_ns
    return text, _hash(f"{file}\n{expander}\n{text}\n")


def _name() -> str:
    return cache.digest("", "generated", sys.version, sys.flags.optimize, machine=False)


@functools.cache
def _codes() -> dict[bytes, bytes]:
    entry = cache.get(_name())
    if entry is None:
        return {}
    codes = marshal.loads(entry.code)
    return codes if len(codes) < _MOST else {}


@atexit.register
def _keep() -> None:
    """Keeps the code of new texts for later processes."""
    if _added and os.path.isdir(cache.folder() or ""):
        cache.put(_name(), "", marshal.dumps(_codes()), False)

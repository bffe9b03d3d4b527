"""Functions that the package generates, such as operators and rules of derivatives, as Python has
compiled them, and functions whose parts stand in place of their calls. One entry of the disk cache
has those of all earlier processes: compiling takes most of the time in which a function is
generated.
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

_MOST = 1000  # texts that are kept: some may be those of another version of the package
_added = False
F = TypeVar("F", bound=Callable)


def compiled(text: str) -> types.CodeType:
    """Returns the code of a text, to be executed."""
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
    """Has a function stand in place of its calls, see `expanded`."""
    return function


def expanded(function: Any, **known: bool) -> Any:
    """Returns a function of a module that makes a function, which works without looking up what
    does not change. In it, the attributes of the parameter of the first one are variables; calls of
    `part`s of the module are replaced by what these do; and of `if` with an attribute that is
    `known`, there is only what then happens.

    A part is called by an assignment of several variables, and then ends with the `return` of
    variables, for which those assigned to stand; or by a `return`, and then returns in its own way.
    Its parameters stand for expressions without effects, that parameter for itself; its other
    variables are those of its caller. Called as the functions that they are, parts do the same.
    """
    module = dict(vars(sys.modules[function.__module__]))
    exec(_expansion(function, known), module)
    return module[function.__name__]


def prepare(functions: Iterable[Any], **known: bool) -> None:
    """Compiles functions that the cache does not have, so that `expanded` imports nothing: for
    callers that hold a lock then."""
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

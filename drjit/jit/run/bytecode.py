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
from collections.abc import Callable
from typing import Any, TypeVar

from . import cache

_MOST = 1000  # texts that are kept: some may be those of another version of the package
_added = False
F = TypeVar("F", bound=Callable)


def compiled(text: str, tree: Callable[[], Any] | None = None) -> types.CodeType:
    """Returns the code of a text, to be executed, or of the syntax tree that is made of the text.
    Such a text begins with the name of its file."""
    global _added
    codes, key = _codes(), cache.blake2b(text.encode(), digest_size=16).digest()
    if key in codes:
        return marshal.loads(codes[key])
    file = text.partition("\n")[0] if tree else "<string>"
    code = compile(tree() if tree else text, file, "exec")
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
    file, name = module["__file__"], function.__name__
    with open(file, encoding="utf-8") as opened:
        text = opened.read()

    def tree() -> Any:
        from .expansion import expansion  # not if the code is in the cache

        return expansion(text, file, name, known)

    expander = os.stat(os.path.join(os.path.dirname(__file__), "expansion.py")).st_mtime_ns
    exec(compiled(f"{file}\n{name} {known} {expander}\n{text}", tree), module)
    return module[name]


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

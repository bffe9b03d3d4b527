"""Functions that the package generates, such as operators and rules of derivatives, as Python has
compiled them. One entry of the disk cache has those of all earlier processes: compiling takes most
of the time in which a function is generated.
"""

import atexit
import functools
import marshal
import os
import sys
import types

from . import cache

_MOST = 1000  # texts that are kept: some may be those of another version of the package
_added = False


def compiled(text: str) -> types.CodeType:
    """Returns the code of a text, to be executed."""
    global _added
    codes, key = _codes(), cache.blake2b(text.encode(), digest_size=16).digest()
    if key in codes:
        return marshal.loads(codes[key])
    code = compile(text, "<string>", "exec")
    codes[key], _added = marshal.dumps(code), True
    return code


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

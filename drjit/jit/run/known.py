"""Programs of earlier processes, in the disk cache by their structure: the text of the kernel, and
what launches need to know about the program. A program that is found there is neither built nor
rendered again, which takes longer than to load the machine code.
"""

import functools
import sys
from _pickle import dumps, loads  # `pickle` also imports the same in Python
from typing import Any

from .. import log
from ..device import Device, Kernel
from ..target.foreign import ForeignFunction
from ..text.structure import KernelArguments
from . import cache
from .plan import Plan


def name_of(key: tuple, device: Device) -> str:
    """Returns the key in the disk cache of the program that has a structure's key; nothing if only
    this process can know it."""
    if not device.keeps_programs:
        return ""
    words = [part for part in key if type(part) is bytes]
    rows = [part for part in key if type(part) is not bytes]
    for part in rows:
        if type(part) is ForeignFunction:  # whose name does not say what it computes
            return ""
    text = repr(rows)
    # Whatever prints as `<... at 0x...>` is an object of this process.
    return "" if "<" in text else cache.digest(text, *words, _facts(), machine=False)


@functools.cache
def _facts() -> str:
    """Returns what the text of a program depends on besides its structure, as a hash."""
    return cache.digest(sys.version, cache.files_in(cache.COMPILER), machine=False)


def find(name: str, device: Device) -> tuple[Kernel, KernelArguments] | None:
    """Returns the kernel of a program and what it takes, if the disk cache has them."""
    entry = cache.get(name)
    if entry is None:
        return None
    try:
        program, work, passed, bytecode, variant = loads(entry.code)
        made: Any = device
        found = made.kernel(entry.text, program, work)
        found.bytecode, found.variant = found.bytecode or bytecode, found.variant or variant
    except Exception as error:  # a damaged entry is made again
        log.log(log.LogLevel.Warn, "cache entry %s cannot be used (%s)", name, error)
        return None
    return found, passed


def keep(name: str, plan: Plan) -> None:
    """Adds the text and the program of a kernel that has been launched, and what that takes, to the
    disk cache."""
    made: Any = plan.launches[0][0]
    code = dumps((made.program, made.work, plan.passed, made.bytecode, made.variant), -1)
    cache.put(name, made.text, code, False)

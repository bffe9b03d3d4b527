"""Programs of earlier processes, in the disk cache by their structure: the text of the kernel, and
what launches need to know about the program. A program that is found there is neither built nor
rendered again, which takes longer than to load the machine code.
"""

import functools
import marshal
import sys
from itertools import chain
from typing import Any

from .. import log
from ..device import Device, Kernel
from ..ir import dtype as dt
from ..target.foreign import ForeignFunction
from ..text.program import Output, Program, Work
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
        program, work, taken, bytecode, variant = marshal.loads(entry.code)
        made: Any = device
        found = made.kernel(entry.text, _program(*program), Work(*work))
        found.bytecode, found.variant = found.bytecode or bytecode, found.variant or variant
    except Exception as error:  # a damaged entry is made again
        log.log(log.LogLevel.Warn, "cache entry %s cannot be used (%s)", name, error)
        return None
    return found, KernelArguments(*taken)


def keep(name: str, plan: Plan) -> None:
    """Adds the text and the program of a kernel that has been launched, and what that takes, to the
    disk cache."""
    made, taken = plan.launches[0][0], plan.passed
    program = made.program
    row = (
        [(o.kind, o.dtype.name, o.value, o.param) for o in program.outputs],
        [t.name for t in program.inputs],
        [t.name for t in program.literals],
        program.checks,
        [(t.name, mode) for t, mode in program.effects],
        program.words,
        program.streams,
    )
    code = marshal.dumps((row, tuple(made.work), tuple(taken), made.bytecode, made.variant))
    cache.put(name, made.text, code, False)


def _program(
    outputs: list, inputs: list, literals: list, checks: int, effects: list, *more: Any
) -> Program:
    """Returns a program without its instructions."""
    words, streams = more
    rows = [name for _, name, *_ in outputs], inputs, literals, [name for name, _ in effects]
    types = {name: dt.by_name(name) for name in {*chain(*rows)}}
    return Program(
        (),
        tuple([Output(kind, types[name], *rest) for kind, name, *rest in outputs]),
        tuple([types[name] for name in inputs]),
        tuple([types[name] for name in literals]),
        checks,
        tuple([(types[name], mode) for name, mode in effects]),
        words,
        streams=streams,
    )

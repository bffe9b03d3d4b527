"""The destructor of buffers."""

from .language import Word, address, call, external, put, room, word
from .objects import OWNER, TYPE, Block, Buffer, Finalizer, Usage
from .references import replace


def finalize(buffer: Buffer) -> Word:
    """Returns a buffer's memory to its pool; for memory without one, calls `Buffer.__del__` as it
    is in Python. This may run anywhere, even while an exception is being handled."""
    f: Finalizer = external("drjit_finalizer")
    block: Block = buffer._block
    if block == 0:
        return 0
    free = block.free
    if free == 0:
        return 0
    if word(free + TYPE) != f.method_type:
        error = room(3)
        argument = room(1)
        call("void(ptr, ptr, ptr)", f.fetch, error, error + 8, error + 16)
        put(argument, buffer)
        done = call("i64(ptr, ptr, i64, ptr)", f.call, f.other, argument, 1, 0)
        if done == 0:
            call("void(ptr)", f.report, buffer)
        call("void(ptr)", f.decref, done)
        call("void(ptr, ptr, ptr)", f.restore, word(error), word(error + 8), word(error + 16))
        return 0
    usage: Usage = f.usage
    usage.in_use = usage.in_use - call("i64(ptr)", f.integer, block.capacity)
    ticket = call("i64(ptr, ptr)", f.find, f.runtime, f.submitted)
    if ticket != 0:
        replace(f, address(block.ticket), ticket)
    if call("i32(ptr, ptr)", f.append, word(free + OWNER), block) != 0:
        call("void(ptr)", f.report, buffer)
    return 0

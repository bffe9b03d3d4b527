"""A radix sort from the lowest digit up, each pass stable, its work shared by all threads.

A pass counts how often each digit occurs in each block of lanes, `finish` turns counts into
positions, and a second launch moves keys there (D. E. Knuth, The Art of Computer Programming 3,
section 5.2.5).
"""

from ..device import Buffer
from ..ir import dtype as dt
from ..ir.dtype import DType
from . import kernel, runtime
from .memory import allocate_for

_COUNT = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    radix_count(p[2], i, x0, p[3])
"""
_MOVE = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    radix_move(p[2], i, x0, p[3], p[4], x0)
"""
_MOVE_PAIRS = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    x1 = load(u32, p[5], i)
    radix_move(p[2], i, x0, p[3], p[4], x0, p[6], x1)
"""
_DIGIT = 11
_ENTRIES = (1 << _DIGIT) + 1  # as in target/simd/radix.py
# Lanes below which one thread is faster than several with tables of their own.
_ONE_BLOCK = 1 << 15


def sort(
    t: DType, n: int, keys: Buffer, payload: Buffer | None, bits: int
) -> tuple[Buffer, Buffer | None]:
    blocks = min(2 * runtime.thread_count(), -(-n // _ONE_BLOCK))
    block = -(-n // (blocks * 64)) * 64
    entries = -(-n // block) * _ENTRIES
    count = kernel.for_text(_COUNT.format(t=t.code), 4, 8)
    text = _MOVE if payload is None else _MOVE_PAIRS
    move = kernel.for_text(text.format(t=t.code), 5 if payload is None else 7, 16)
    on_numpy = count.prefers_numpy(8 * n)
    for shift in range(0, bits, _DIGIT):
        source, table = (keys, t, n), (_zeros(entries), dt.u32, entries)
        kernel.run_text(count, n, [source, table, shift], block, on_numpy)
        keys = allocate_for(t, n)
        arguments = [source, table, shift, (keys, t, n)]
        if payload is not None:
            carried, payload = payload, allocate_for(dt.u32, n)
            arguments += [(carried, dt.u32, n), (payload, dt.u32, n)]
        kernel.run_text(move, n, arguments, block, on_numpy)
    return keys, payload


def _zeros(count: int) -> Buffer:
    made = allocate_for(dt.u32, count, host=True)
    made.fill(dt.u32, count, 0)
    return made

"""A radix sort from the lowest digit up, each pass stable, its work shared by all threads.

A pass counts how often each digit occurs in each block of lanes, `finish` turns counts into
positions, and a second launch moves keys there (D. E. Knuth, The Art of Computer Programming 3,
section 5.2.5).
"""

from collections.abc import Iterator, Sequence

from ..device import Buffer
from ..ir import dtype as dt
from ..ir.dtype import DType
from . import kernel, runtime
from .kernel import text_of
from .memory import allocate_for

_LOAD, _LOAD_PAYLOAD = "x0 = load({t}, p[1], i)", "x1 = load(u32, p[5], i)"
_COUNT = text_of(_LOAD, "radix_count(p[2], i, x0, p[3])")
_MOVE = text_of(_LOAD, "radix_move(p[2], i, x0, p[3], p[4], x0)")
_MOVE_PAIRS = text_of(_LOAD, _LOAD_PAYLOAD, "radix_move(p[2], i, x0, p[3], p[4], x0, p[6], x1)")
# The last pass needs no keys, and a key of 32 bits moves with its payload as one word, which takes
# two thirds of the time of two stores to different places.
_MOVE_PAYLOAD = text_of(_LOAD, _LOAD_PAYLOAD, "radix_move(p[2], i, x0, p[3], p[4], x1)")
_JOIN = text_of(
    _LOAD,
    _LOAD_PAYLOAD,
    "v0 = u64(x0)",
    "v1 = shl(v0, 32)",
    "v2 = u64(x1)",
    "v3 = v1 | v2",
    "radix_move(p[2], i, x0, p[3], p[4], v3)",
)
_MOVE_LOW = text_of(_LOAD, "v0 = u32(x0)", "radix_move(p[2], i, x0, p[3], p[4], v0)")
_DIGIT = 11
_ENTRIES = (1 << _DIGIT) + 1  # as in target/simd/radix.py
# Lanes below which one thread is faster than several with tables of their own.
_ONE_BLOCK = 1 << 15


def sort(t: DType, n: int, keys: Buffer, payload: Buffer | None, bits: int) -> Buffer:
    blocks = min(2 * runtime.thread_count(), -(-n // _ONE_BLOCK))
    block = -(-n // (blocks * 64)) * 64
    entries = -(-n // block) * _ENTRIES
    on_numpy = None
    columns = [(keys, t, n)] if payload is None else [(keys, t, n), (payload, dt.u32, n)]
    for text, key, shift, results in _passes(t, payload is not None, bits):
        table = _zeros(entries), dt.u32, entries
        count, counted = _COUNT.format(t=key.code), [columns[0], table, shift]
        on_numpy = kernel.run_text(count, 8, n, counted, block, 8 * n, on_numpy=on_numpy)
        moved = [(allocate_for(r, n), r, n) for r in results]
        arguments = [*counted, moved[0]]
        if "p[5]" in text:
            arguments += [columns[1], *moved[1:]]
        kernel.run_text(text.format(t=key.code), 16, n, arguments, block, on_numpy=on_numpy)
        columns = moved
    return columns[0][0]


def _passes(
    t: DType, has_payload: bool, bits: int
) -> Iterator[tuple[str, DType, int, Sequence[DType]]]:
    """Yields the kernel of each pass, the type of its keys, where their digit begins, and the types
    of what it moves."""
    *shifts, last = range(0, bits, _DIGIT)
    if not has_payload:
        for shift in (*shifts, last):
            yield _MOVE, t, shift, (t,)
    elif t.bits > 32 or not shifts:
        for shift in shifts:
            yield _MOVE_PAIRS, t, shift, (t, dt.u32)
        yield _MOVE_PAYLOAD, t, last, (dt.u32,)
    else:
        yield _JOIN, t, 0, (dt.u64,)
        for shift in shifts[1:]:
            yield _MOVE, dt.u64, 32 + shift, (dt.u64,)
        yield _MOVE_LOW, dt.u64, 32 + last, (dt.u32,)


def _zeros(count: int) -> Buffer:
    table = allocate_for(dt.u32, count, host=True)
    table.fill(dt.u32, count, 0)
    return table

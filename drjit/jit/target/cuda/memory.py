"""Lanes and memory, one lane at a time: loads, stores, gathers, scatters, bounds."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...device import STOP_WORD
from ..simd.conversion import first_element, from_memory, to_memory
from ..simd.elementwise import least
from ..simd.interpolation import in_turn, operands
from ..simd.ir import BYTES, MEMORY, Function, Operand
from ..simd.loops import address, when
from ..simd.memory import cleared, element_address, gather_lanes, safe_index
from ..simd.module import table_constant
from ..simd.translate import Translator
from .calls import CALLS, statement

# Iterations of loops between two looks at whether to stop: the word is in the host's memory, which
# serves few reads at a time. So many take milliseconds, and the host waits for `GRACE_SECONDS`
# before it stops loops.
_LOOK = 4096

WIDEST = 16
"""Bytes of the widest access."""


@contextmanager
def inside(t: Any) -> Iterator[None]:
    """Code for the lanes below the end of the range."""
    if not t.f.warps:
        yield
        return
    with when(t.f, t.f.scalar("mask", t.active())):
        yield


def _alignment(f: Function, code: str) -> int:
    """Returns that of a packet: buffers begin at a multiple of the widest access."""
    return min(f.lanes * BYTES[code], WIDEST)


def loaded(f: Function, code: str, place: str) -> str:
    """Loads the elements of a packet."""
    x = f.op(f"load {f.types.memory[code]}, ptr {place}, align {_alignment(f, code)}")
    return from_memory(f, code, x)


def stored(f: Function, code: str, x: str, place: str) -> None:
    """Stores the elements of a packet."""
    value = to_memory(f, code, x)
    f.do(f"store {f.types.memory[code]} {value}, ptr {place}, align {_alignment(f, code)}")


@statement("type pointer lane_range")
def load(t: Translator, code: str, base: str) -> Operand:
    """`load(T, p[k], i)`."""
    return code, loaded(t.f, code, address(t.f, code, base, t.f.position()))


@statement("type pointer lane_range operand")
def store(t: Translator, code: str, base: str, x: str) -> None:
    """`store(T, p[k], i, x)`."""
    with inside(t):
        stored(t.f, code, x, address(t.f, code, base, "%i"))


# The caches of a GPU do not read what is written as a whole.
CALLS["stream"] = CALLS["store"]


@statement("node node index node mask")
def in_bounds(t: Any, p: ast.expr, site: ast.expr, x: Operand, n: ast.expr, mask: str) -> Operand:
    """`in_bounds(p[0], site, x, p[n], m)`: the report is a cold block, claimed atomically.

    The claim has the scope of the GPU. All threads that race for the word are on it: the host
    clears the record before the launch and reads it afterwards, and both are ordered with the
    launch (PTX ISA, memory consistency model). The scope of the system, which includes the host,
    would ask for atomic operations across the bus, which many machines do not have.
    """
    f, (code, index) = t.f, x
    # In a function, the words begin at an offset.
    place = n.slice if type(n) is ast.Subscript and type(n.slice) is ast.BinOp else None
    word = f.word_here(t.whole(place)) if place is not None else t.word(n)
    words, masks = f.vector["u64"], f.vector["mask"]
    if code == "u32":
        index = f.op(f"zext {f.vector[code]} {index} to {words}")
    below = f.op(f"icmp ult {words} {index}, {f.splat('u64', word)}")
    result = f.op(f"and {masks} {mask}, {below}")
    bad = f.op(f"xor {masks} {mask}, {result}")
    with when(f, f.in_thread(bad), weights=", !prof !1"):
        one, lane = _first(f, bad, index)
        record = t.pointer(p)
        claim = f.op(f"cmpxchg ptr {record}, i64 0, i64 1{f.scope} monotonic monotonic")
        with when(f, f.op(f"extractvalue {{i64, i1}} {claim}, 1")):
            for k, value in enumerate((t.whole(site), one, word, lane), 1):
                f.do(f"store i64 {value}, ptr {address(f, 'u64', record, k)}")
    return "mask", result


def _first(f: Any, mask: str, index: str) -> tuple[str, str]:
    """Returns the index of the first lane of a mask, and the number of that lane."""
    last, words = f.lanes - 1, f.vector["u64"]
    one, lane = f.op(f"extractelement {words} {index}, i32 {last}"), f"{last}"
    for k in reversed(range(last)):
        here = f.op(f"extractelement {f.vector['mask']} {mask}, i32 {k}")
        x = f.op(f"extractelement {words} {index}, i32 {k}")
        one = f.op(f"select i1 {here}, i64 {x}, i64 {one}")
        lane = f.op(f"select i1 {here}, i64 {k}, i64 {lane}")
    return one, f.op(f"add i64 %i, {lane}") if last else "%i"


@statement("pointer mask")
def going(t: Any, record: str, mask: str) -> Operand:
    """`going(p[0], m)`: the mask, or no lane once the launch has been told to stop. Threads of a
    whole warp look in the same round; one does it for all."""
    f, kind = t.f, t.f.vector["mask"]
    count = f.once("%looks", "alloca i32")
    if "store i32 0, ptr %looks" not in f.prologue:
        f.prologue.append("store i32 0, ptr %looks")
    number = f.op(f"add i32 {f.op(f'load i32, ptr {count}')}, 1")
    f.do(f"store i32 {number}, ptr {count}")
    looks = f.op(f"icmp eq i32 {f.op(f'and i32 {number}, {_LOOK - 1}')}, 0")
    with when(f, looks, [(kind, mask)], weights=", !prof !1") as values:
        if f.warps:
            with when(f, (t.c.lane == 0).name, [("i1", "false")]) as found:
                found[0] = _is_told(f, record)
            told = f.vote("any", found[0])
        else:
            told = _is_told(f, record)
        values[0] = f.op(f"select i1 {told}, {kind} zeroinitializer, {kind} {mask}")
    return "mask", values[0]


def _is_told(f: Function, record: str) -> str:
    """Returns whether the host has told the launch to stop."""
    word = f.op(f"load volatile i64, ptr {address(f, 'u64', record, STOP_WORD)}")
    return f.op(f"icmp ne i64 {word}, 0")


# ------------------------------------------------------------------------------ gathers, scatters


def lane_address(f: Any, element: str, base: str, index: Operand) -> str:
    """Returns the address of the lane's element."""
    code, x = index
    return element_address(f, element, base, code, f.scalar(code, x))


@statement("type pointer index mask integer")
def gather_packet(
    t: Translator, code: str, base: str, index: Operand, mask: str, count: int
) -> tuple[Operand, ...]:
    """`gather_packet(T, p[k], x, m, c)`."""
    values = _record(t.f, code, base, index, mask, count)
    return tuple((code, v) for v in cleared(t.f, code, values, mask))


def _words(code: str, count: int) -> int:
    """Returns the number of components of a record that are accessed together: buffers begin at a
    multiple of the widest access."""
    most = WIDEST // BYTES[code]
    return next(k for k in (8, 4, 2, 1) if k <= most and count % k == 0)


def _record(f: Any, code: str, base: str, index: Operand, mask: str, count: int) -> list[str]:
    """Loads the components of the lane's record."""
    place = lane_address(f, f"[{count} x {MEMORY[code]}]", base, safe_index(f, index, mask))
    together, values = _words(code, count), []
    row = f"<{together} x {MEMORY[code]}>"
    for first in range(0, count, together):
        at = address(f, code, place, first)
        x = f.op(f"load {row}, ptr {at}, align {together * BYTES[code]}")
        for k in range(together):
            one = f.op(f"extractelement {row} {x}, i32 {k}")
            one = f.op(f"insertelement {f.types.memory[code]} poison, {MEMORY[code]} {one}, i32 0")
            values.append(from_memory(f, code, one))
    return values


@statement("type pointer mask integer *node")
def gather_weighted(
    t: Translator, code: str, base: str, mask: str, count: int, *taps: ast.expr
) -> tuple[Operand, ...]:
    """`gather_weighted(T, p[k], m, c, x0, w0, x1, w1, ...)`."""
    indices, weights = operands(t, code, taps)
    rows = (_record(t.f, code, base, x, mask, count) for x in indices)
    sums = in_turn(t, code, rows, weights)
    return tuple((code, v) for v in cleared(t.f, code, sums, mask))


@statement("type pointer operand index mask")
def scatter(t: Any, code: str, base: str, value: str, index: Operand, mask: str) -> None:
    """`scatter(T, p[k], v, x, m)`."""
    f = t.f
    with when(f, f.scalar("mask", mask)):
        stored(f, code, value, lane_address(f, MEMORY[code], base, index))


@statement("type pointer index mask *operand")
def scatter_packet(t: Any, code: str, base: str, index: Operand, mask: str, *values: str) -> None:
    """`scatter_packet(T, p[k], x, m, v0, v1, ...)`."""
    f, count = t.f, len(values)
    together = _words(code, count)
    row = f"<{together} x {MEMORY[code]}>"
    with when(f, f.scalar("mask", mask)):
        place = lane_address(f, f"[{count} x {MEMORY[code]}]", base, index)
        for first in range(0, count, together):
            x = "poison"
            for k, value in enumerate(values[first : first + together]):
                one = first_element(f, code, value)
                x = f.op(f"insertelement {row} {x}, {MEMORY[code]} {one}, i32 {k}")
            at = address(f, code, place, first)
            f.do(f"store {row} {x}, ptr {at}, align {together * BYTES[code]}")


# ------------------------------------------------------------------------------------------ tables


@statement("node typed")
def table(t: Any, name: ast.expr, index: Operand) -> Operand:
    """`table(NAME, x)`; an index beyond the end reads the last element."""
    f, (code, symbol, number), (kind, x) = (
        t.f,
        table_constant(t, name, "internal addrspace(1)"),
        index,
    )
    x = least(f, kind, x, number)
    base = f"addrspacecast (ptr addrspace(1) {symbol} to ptr)"
    return code, gather_lanes(f, code, base, (kind, x))

"""Counting loops in LLVM IR, and vectors whose width does not follow from the packet: what
statements that are loops of their own are built from.
"""

from collections.abc import Callable, Sequence

from . import llvm
from .ir import BITS, FLOATS, MEMORY, Function

Carried = tuple[str, str]  # a type and a value


def width(code: str) -> int:
    """The elements of a type that one register holds."""
    return llvm.register_bytes() * 8 // max(BITS[code], 8)


def vector(code: str, lanes: int) -> str:
    """The type of a vector of elements as they lie in memory."""
    return f"<{lanes} x {MEMORY[code]}>"


def suffix(code: str, lanes: int) -> str:
    """What the names of intrinsics end in for a vector."""
    return f"v{lanes}{'f' if code in FLOATS else 'i'}{max(BITS[code], 8)}"


def loop(
    f: Function,
    start: str,
    end: str,
    step: str,
    carried: Sequence[Carried],
    body: Callable[[str, list[str]], Sequence[str]],
) -> list[str]:
    """A loop over `start, start + step, ...` below `end` that carries values; gives the last ones.

    `body` gets the position and the values, and gives the values of the next round.
    """
    origin, head, inside, done = f.block, f.new_block(), f.new_block(), f.new_block()
    f.do(f"br label %{head}")
    f.start(head)
    line = len(f.lines)
    position = f.op("")
    values = [f.op("") for _ in carried]
    f.branch(f.op(f"icmp slt i64 {position}, {end}"), inside, done)
    f.start(inside)
    after = list(body(position, values))
    following = f.op(f"add nsw i64 {position}, {step}")
    rounds = [("i64", start, position, following)]
    for (kind, first), value, last in zip(carried, values, after, strict=True):
        rounds.append((kind, first, value, last))
    for k, (kind, first, value, last) in enumerate(rounds):
        f.lines[line + k] = f"{value} = phi {kind} [{first}, %{origin}], [{last}, %{f.block}]"
    f.do(f"br label %{head}")
    f.start(done)
    return values


def choose(
    f: Function,
    condition: str,
    yes: Callable[[], Sequence[str] | None],
    no: Callable[[], Sequence[str] | None] | None = None,
    kinds: Sequence[str] = (),
) -> list[str]:
    """One of two pieces of code, and the values, of the given types, that it gives."""
    first, second, done = f.new_block(), f.new_block(), f.new_block()
    f.branch(condition, first, second)
    ends = []
    for block, piece in ((first, yes), (second, no)):
        f.start(block)
        values = piece() if piece is not None else None
        ends.append((values or (), f.block))
        f.do(f"br label %{done}")
    f.start(done)
    (ours, here), (theirs, there) = ends
    return [
        f.op(f"phi {kind} [{x}, %{here}], [{y}, %{there}]")
        for kind, x, y in zip(kinds, ours, theirs, strict=True)
    ]


def numbers(f: Function, name: str, table: str, names: Sequence[str]) -> dict[str, str]:
    """The first numbers of a table, loaded in the entry block; `name` tells it from others."""
    found = {}
    for position, entry in enumerate(names):
        place = f.once(f"%{name}.{entry}.p", f"getelementptr i64, ptr {table}, i64 {position}")
        found[entry] = f.once(f"%{name}.{entry}", f"load i64, ptr {place}")
    return found


def cast(f: Function, lanes: int, x: str, source: str, target: str) -> str:
    """A vector of floats in another type, rounded to it if it is narrower."""
    if source == target:
        return x
    how = "fpext" if BITS[source] < BITS[target] else "fptrunc"
    return f.op(f"{how} {vector(source, lanes)} {x} to {vector(target, lanes)}")


def address(f: Function, code: str, base: str, *offsets: str) -> str:
    """The address of an element at the sum of some offsets, in elements."""
    for offset in offsets:
        if offset != "0":
            base = f.op(f"getelementptr {MEMORY[code]}, ptr {base}, i64 {offset}")
    return base


def splat(f: Function, kind: str, lanes: int, x: str) -> str:
    """A scalar of an IR type in all lanes of a vector."""
    v = f"<{lanes} x {kind}>"
    one = f.op(f"insertelement {v} poison, {kind} {x}, i32 0")
    return f.op(f"shufflevector {v} {one}, {v} poison, <{lanes} x i32> zeroinitializer")


def below(f: Function, count: str, lanes: int) -> str:
    """The mask of the lanes whose number is below a count, which may be negative or large."""
    limit = f.op(f"call i64 @llvm.smin.i64(i64 {count}, i64 {lanes})")
    limit = splat(f, "i32", lanes, f.op(f"trunc i64 {limit} to i32"))
    iota = ", ".join([f"i32 {k}" for k in range(lanes)])
    return f.op(f"icmp slt <{lanes} x i32> <{iota}>, {limit}")


def load(f: Function, code: str, lanes: int, place: str, mask: str = "") -> str:
    """Consecutive elements as they lie in memory; 0 where a mask is false."""
    kind, align = vector(code, lanes), max(BITS[code], 8) // 8
    if not mask:
        return f.op(f"load {kind}, ptr {place}, align {align}")
    where = f"ptr align {align} {place}, <{lanes} x i1> {mask}, {kind} zeroinitializer"
    return f.op(f"call {kind} @llvm.masked.load.{suffix(code, lanes)}.p0({where})")


def store(f: Function, code: str, lanes: int, x: str, place: str, mask: str = "") -> None:
    """Stores consecutive elements, where a mask is true."""
    kind, align = vector(code, lanes), max(BITS[code], 8) // 8
    if not mask:
        f.do(f"store {kind} {x}, ptr {place}, align {align}")
        return
    where = f"ptr align {align} {place}, <{lanes} x i1> {mask}"
    f.do(f"call void @llvm.masked.store.{suffix(code, lanes)}.p0({kind} {x}, {where})")

"""Control flow in LLVM IR, and vectors whose width is independent of the packet: the building
blocks of statements with loops of their own.

A loop or branch is a context: the code emitted within is its body. Values that a body replaces are
in a list, from which the body takes them and in which it stores their replacements; after the
context, the list holds the final values.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...ir.dtype import VECTOR_BLOCK
from .conversion import first_element, from_memory, to_memory
from .ir import BYTES, FLOATS, MEMORY, Function, Operand

Carried = tuple[str, str]  # a type and a value


def vector(code: str, lanes: int) -> str:
    """Returns the type of a vector of elements in their memory representation."""
    return f"<{lanes} x {MEMORY[code]}>"


def suffix(code: str, lanes: int) -> str:
    """Returns the suffix of intrinsics for a vector."""
    return f"v{lanes}{'f' if code in FLOATS else 'i'}{8 * BYTES[code]}"


@contextmanager
def loop(
    f: Function, start: object, end: object, step: object, carried: Sequence[Carried] = ()
) -> Iterator[tuple[str, list[str]]]:
    """A loop over `start, start + step, ...` below `end`: yields the position and carried
    values."""
    counted: list[Carried] = [("i64", str(start)), *carried]
    with during(f, lambda names: f.op(f"icmp slt i64 {names[0]}, {end}"), counted) as found:
        position, *values = found
        yield position, values
        found[:] = [f.op(f"add nsw i64 {position}, {step}"), *values]
    values[:] = found[1:]


@contextmanager
def during(
    f: Function, condition: Callable[[list[str]], str], carried: Sequence[Carried]
) -> Iterator[list[str]]:
    """A loop that runs while a condition on the carried values is true: yields these values."""
    origin, head, inside, done = f.block, f.new_block(), f.new_block(), f.new_block()
    f.do(f"br label %{head}")
    f.start(head)
    line = len(f.lines)
    names = [f.op("") for _ in carried]
    f.branch(condition(names), inside, done)
    f.start(inside)
    values = list(names)
    yield values
    for name, (kind, x), y in zip(names, carried, values, strict=True):
        f.lines[line] = f"{name} = phi {kind} [{x}, %{origin}], [{y}, %{f.block}]"
        line += 1
    f.do(f"br label %{head}")
    f.start(done)
    values[:] = names


@contextmanager
def when(
    f: Function, condition: str, carried: Sequence[Carried] = (), *, weights: str = ""
) -> Iterator[list[str]]:
    """Code that runs only if a condition is true."""
    origin, inside, done = f.block, f.new_block(), f.new_block()
    f.branch(condition, inside, done, weights=weights)
    f.start(inside)
    values = [x for _, x in carried]
    yield values
    end = f.block
    f.do(f"br label %{done}")
    f.start(done)
    values[:] = [
        f.op(f"phi {kind} [{x}, %{origin}], [{y}, %{end}]")
        for (kind, x), y in zip(carried, values, strict=True)
    ]


def choose(
    f: Function,
    condition: str,
    yes: Callable[[], Sequence[str] | None],
    no: Callable[[], Sequence[str] | None],
    kinds: Sequence[str] = (),
) -> list[str]:
    """Emits two alternatives, and returns their results, which have the given types."""
    first, second, done = f.new_block(), f.new_block(), f.new_block()
    f.branch(condition, first, second)
    ends = []
    for block, piece in ((first, yes), (second, no)):
        f.start(block)
        ends.append((piece() or (), f.block))
        f.do(f"br label %{done}")
    f.start(done)
    (ours, here), (theirs, there) = ends
    return [
        f.op(f"phi {kind} [{x}, %{here}], [{y}, %{there}]")
        for kind, x, y in zip(kinds, ours, theirs, strict=True)
    ]


@contextmanager
def each_bit(
    f: Function, bits: str, carried: Sequence[Carried] = ()
) -> Iterator[tuple[str, list[str]]]:
    """A loop over the set bits of an integer with one bit per lane, lowest first: yields the number
    of the bit and carried values.
    """
    kind, line = f"i{f.lanes}", 0
    before = [(kind, bits), *carried]
    with when(f, f.op(f"icmp ne {kind} {bits}, 0"), carried) as values:
        origin, inside, done = f.block, f.new_block(), f.new_block()
        f.do(f"br label %{inside}")
        f.start(inside)
        line = len(f.lines)
        left, *names = [f.op("") for _ in before]
        place = f.op(f"call {kind} @llvm.cttz.{kind}({kind} {left}, i1 true)")
        values[:] = names
        yield f.widened(place), values
        below = f.op(f"add {kind} {left}, -1")
        rest = f.op(f"and {kind} {left}, {below}")
        for name, (of, x), y in zip([left, *names], before, [rest, *values], strict=True):
            f.lines[line] = f"{name} = phi {of} [{x}, %{origin}], [{y}, %{f.block}]"
            line += 1
        f.branch(f.op(f"icmp ne {kind} {rest}, 0"), inside, done)
        f.start(done)


@contextmanager
def each_lane(
    f: Function, mask: str, operands: Sequence[Operand], result: str | None = None
) -> Iterator[tuple[list[str], list[str]]]:
    """A loop over the lanes of a mask in order: yields their elements of some operands, and a list
    for the element of the result, which contains the result vector after the loop. The thread of a
    GPU has a branch instead.
    """
    found: list[str] = []
    if f.machine.is_gpu:
        initial = [(MEMORY[result], "0")] if result else []
        with when(f, f.bits(mask), initial) as values:
            yield [first_element(f, code, x) for code, x in operands], found
            values[:] = found
        if result:
            (x,) = values
            packet = f"insertelement {f.types.memory[result]} poison, {MEMORY[result]} {x}, i32 0"
            found[:] = [from_memory(f, result, f.op(packet))]
        return
    slots = []
    for k, (code, x) in enumerate(operands):
        slots.append(f.slot(code, k))
        f.do(f"store {f.types.memory[code]} {to_memory(f, code, x)}, ptr {slots[-1]}")
    results = f.slot(result, len(operands)) if result else ""
    if result:
        f.do(f"store {f.types.memory[result]} zeroinitializer, ptr {results}")
    with each_bit(f, f.bits(mask)) as (place, _):
        elements = []
        for (code, _), slot in zip(operands, slots, strict=True):
            elements.append(f.op(f"load {MEMORY[code]}, ptr {address(f, code, slot, place)}"))
        yield elements, found
        if result:
            f.do(f"store {MEMORY[result]} {found[0]}, ptr {address(f, result, results, place)}")
    if result:
        found[:] = [from_memory(f, result, f.op(f"load {f.types.memory[result]}, ptr {results}"))]


def least(f: Function, x: str, y: object) -> str:
    """Returns the smaller of two signed 64-bit numbers."""
    return f.op(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})")


def address(f: Function, code: str, base: str, *offsets: object) -> str:
    """Returns the address of an element at the sum of some offsets, in elements."""
    for offset in offsets:
        if str(offset) != "0":
            base = f.op(f"getelementptr {MEMORY[code]}, ptr {base}, i64 {offset}")
    return base


def splat(f: Function, kind: str, lanes: int, x: str) -> str:
    """Broadcasts a scalar of an IR type to all lanes of a vector."""
    v = f"<{lanes} x {kind}>"
    one = f.op(f"insertelement {v} poison, {kind} {x}, i32 0")
    return f.op(f"shufflevector {v} {one}, {v} poison, <{lanes} x i32> zeroinitializer")


def load(f: Function, code: str, lanes: int, place: str, mask: str = "") -> str:
    """Loads consecutive elements in their memory representation; 0 where a mask is false."""
    kind = vector(code, lanes)
    if not mask:
        return f.op(f"load {kind}, ptr {place}, align {BYTES[code]}")
    where = f"ptr align {BYTES[code]} {place}, <{lanes} x i1> {mask}, {kind} zeroinitializer"
    return f.op(f"call {kind} @llvm.masked.load.{suffix(code, lanes)}.p0({where})")


def load_splat(f: Function, code: str, lanes: int, place: str) -> str:
    """Loads one element and broadcasts it to a vector."""
    x = f.op(f"load {MEMORY[code]}, ptr {place}, align {BYTES[code]}")
    return splat(f, MEMORY[code], lanes, x)


def store(f: Function, code: str, lanes: int, x: str, place: str, mask: str = "") -> None:
    """Stores consecutive elements, where a mask is true."""
    kind = vector(code, lanes)
    if not mask:
        f.do(f"store {kind} {x}, ptr {place}, align {BYTES[code]}")
        return
    where = f"ptr align {BYTES[code]} {place}, <{lanes} x i1> {mask}"
    f.do(f"call void @llvm.masked.store.{suffix(code, lanes)}.p0({kind} {x}, {where})")


def fma(f: Function, code: str, lanes: int, x: str, y: str, z: str) -> str:
    """`x * y + z`, rounded once."""
    kind = vector(code, lanes)
    operands = f"{kind} {x}, {kind} {y}, {kind} {z}"
    return f.op(f"call {kind} @llvm.fma.{suffix(code, lanes)}({operands})")


def concatenated(f: Function, element: str, lanes: int, parts: list[str]) -> str:
    """Concatenates vectors, whose number is a power of two."""
    while len(parts) > 1:
        kind = f"<{lanes} x {element}>"
        lanes *= 2
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.shuffle(kind, a, b, range(lanes)) for a, b in pairs]
    return parts[0]


def first_row(f: Function, code: str, count: int, base: str) -> str:
    """Returns the address of the first feature of the lanes, in blocks with one row per feature."""
    i = f.position()
    block, inside = f.op(f"and i64 {i}, {-VECTOR_BLOCK}"), f.op(f"and i64 {i}, {VECTOR_BLOCK - 1}")
    at = f.op(f"add i64 {f.op(f'mul i64 {block}, {count}')}, {inside}")
    return address(f, code, base, at)

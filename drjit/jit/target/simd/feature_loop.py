"""Vectors in memory, and the loop over their features that element-wise operations run in."""

from collections.abc import Callable, Sequence
from typing import Any

from . import elementwise, llvm
from .ir import BITS, SCALAR, Function, Value, constant
from .loops import loop

# What features are held as.
HELD = {"f16": "f32", "f32": "f32", "f64": "f64", "mask": "mask"}
# Registers of a value that the loop over the features works on at a time.
_IN_FLIGHT = 4


class Slot:
    """Stack memory for the rows of a vector."""

    __slots__ = ("name", "size")

    def __init__(self, name: str, size: int):
        self.name, self.size = name, size


class Vector:
    """A vector: element type, number of features, and either the operation that it waits for or
    the memory that it lies in.
    """

    __slots__ = ("code", "count", "op", "slot")

    def __init__(self, code: str, count: int, op: "Operation | None" = None):
        self.code, self.count, self.op = code, count, op
        self.slot: Slot | None = None


class Operation:
    """An element-wise operation that was put off: what emits it for a feature, its operands
    (vectors, or registers that are the same for all features) and results, and whether it calls a
    function.
    """

    __slots__ = ("emit", "is_call", "operands", "results")

    def __init__(self, emit: Callable[..., Any], operands: Sequence[Any], *, is_call: bool = False):
        self.emit, self.operands, self.is_call = emit, operands, is_call
        self.results: list[Vector] = []


def spelled(v: Vector) -> Value:
    """A vector as an operand; its type is spelled `f16x64`."""
    return f"{v.code}x{v.count}", v  # type: ignore[return-value]


def row_type(code: str, lanes: int) -> str:
    """How a feature of all lanes lies in memory: masks as the bits of an integer."""
    return f"i{lanes}" if code == "mask" else f"<{lanes} x {SCALAR[HELD[code]]}>"


def row_bytes(code: str, lanes: int) -> int:
    """The size of a row."""
    return max(BITS[HELD[code]] * lanes // 8, 1)


def rounded(f: Function, x: str) -> str:
    """`f32` rounded to `f16`."""
    return elementwise.widen(f, elementwise.narrow(f, x))


def align(code: str, lanes: int) -> int:
    """The alignment of rows."""
    return min(row_bytes(code, lanes), 64)


def load_row(f: Function, code: str, place: str) -> str:
    """A feature of all lanes, as it is held."""
    x = f.op(f"load {row_type(code, f.lanes)}, ptr {place}, align {align(code, f.lanes)}")
    return f.op(f"bitcast i{f.lanes} {x} to {f.vector['mask']}") if code == "mask" else x


def store_row(f: Function, code: str, x: str, place: str) -> None:
    """Stores a feature of all lanes."""
    if code == "mask":
        x = f.bits(x)
    f.do(f"store {row_type(code, f.lanes)} {x}, ptr {place}, align {align(code, f.lanes)}")


def features(
    f: Function,
    count: int,
    operations: list[Operation],
    stored: list[Vector],
    total: Vector | None = None,
) -> str:
    """The loop over the features; the sum over those of one vector, if asked for."""
    widest = max([BITS[HELD[v.code]] for o in operations for v in o.results] or [32])
    registers = max(f.lanes * widest // (8 * llvm.register_bytes()), 1)
    # A function of the library has enough to do for the processor, and is inlined if there are few
    # calls.
    together = 1 if any(o.is_call for o in operations) else max(_IN_FLIGHT // registers, 1)
    held = HELD[total.code] if total else ""
    kind = f.vector[held] if total else ""

    def some(first: str, number: int, sums: list[str]) -> list[str]:
        reader = [_Row(f, first, u) for u in range(number)]
        for operation in operations:
            for row in reader:
                row.emit(operation)
        for v in stored:
            for row in reader:
                row.store(v)
        if total is None:
            return []
        terms = [
            f.op(f"fadd {kind} {s}, {row.read(total)}")
            for s, row in zip(sums, reader, strict=False)
        ]
        return terms + sums[number:]

    start = [f"splat ({SCALAR[held]} {constant(held, 0)})"] * together if total else []
    whole = count // together * together
    if whole > together:
        carried = [(kind, s) for s in start]
        start = loop(f, "0", str(whole), str(together), carried, lambda k, s: some(k, together, s))
    else:
        whole = 0
    for first in range(whole, count, together):
        start = some(str(first), min(together, count - first), start)
    if total is None:
        return ""
    while len(start) > 1:
        a, b, *rest = start
        start = [*rest, f.op(f"fadd {kind} {a}, {b}")]
    return start[0]


class _Row:
    """One feature within the loop over the features: the registers that hold values of it."""

    def __init__(self, f: Function, first: str, offset: int):
        self.f, self.first, self.offset = f, first, offset
        self.registers: dict[Vector, str] = {}

    def address(self, v: Vector) -> str:
        f, kind = self.f, row_type(v.code, self.f.lanes)
        place = v.slot.name  # type: ignore[union-attr]
        if self.first != "0":
            place = f.op(f"getelementptr {kind}, ptr {place}, i64 {self.first}")
        if self.offset:
            place = f.op(f"getelementptr {kind}, ptr {place}, i64 {self.offset}")
        return place

    def read(self, v: Vector | str) -> str:
        if type(v) is not Vector:
            return v  # type: ignore[return-value]
        if v not in self.registers:
            self.registers[v] = load_row(self.f, v.code, self.address(v))
        return self.registers[v]

    def emit(self, operation: Operation) -> None:
        found = operation.emit(self.f, *[self.read(v) for v in operation.operands])
        results = operation.results
        several = found if len(results) > 1 else [found]
        self.registers.update(zip(results, several, strict=True))

    def store(self, v: Vector) -> None:
        store_row(self.f, v.code, self.registers[v], self.address(v))

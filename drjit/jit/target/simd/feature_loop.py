"""Vectors in memory, and the loop over their features that element-wise operations run in."""

from collections.abc import Callable, Sequence
from typing import Any

from . import elementwise, llvm
from .ir import BITS, BYTES, SCALAR, Function, Value, constant
from .loops import loop

# What features are held as.
HELD = {code: code for code in SCALAR} | {"f16": "f32"}
# What they lie in memory as, where that differs: indexed access needs elements of 32 or 64 bits.
_WIDE = {code: "u32" for code, bits in BITS.items() if bits < 32 and code != "f16"}
# Registers of a value that the loop over the features works on at a time.
_IN_FLIGHT = 4


class Slot:
    """Stack memory for the rows of a vector; for its features alone if these are `uniform`, the
    same for all lanes of all packets."""

    __slots__ = ("name", "size", "uniform")

    def __init__(self, name: str, size: int, *, uniform: bool = False):
        self.name, self.size, self.uniform = name, size, uniform


class Vector:
    """A vector: element type, number of features, and either the operation that it waits for or
    the memory that it lies in, where a row stands for `run` features.
    """

    __slots__ = ("code", "count", "op", "run", "slot")

    def __init__(self, code: str, count: int, op: "Operation | None" = None):
        self.code, self.count, self.op = code, count, op
        self.slot: Slot | None = None
        self.run = 1


class Operation:
    """An element-wise operation that was put off: what emits it for a feature, its operands
    (vectors, or registers that are the same for all features) and results, and whether it calls a
    function.
    """

    __slots__ = ("emit", "is_call", "operands", "results")

    def __init__(
        self,
        emit: Callable[..., Any],
        operands: Sequence[Any],
        *,
        is_call: bool = False,
    ):
        self.emit, self.operands, self.is_call = emit, operands, is_call
        self.results: list[Vector] = []


class Product(Operation):
    """A product that was put off, and that can go on with each feature while it is in registers:
    `rows(f, use)` computes it and calls `use(first, registers)` with the features from `first` on;
    `call(f, place)` only stores it. Its operand is a vector that it reads as a whole.
    """

    __slots__ = ("call", "rows")

    def __init__(self, rows: Callable[..., None], call: Callable[..., None], operand: Vector):
        super().__init__(rows, (operand,))
        self.rows, self.call = rows, call


def spelled(v: Vector) -> Value:
    """A vector as an operand; its type is spelled `f16x64`."""
    return f"{v.code}x{v.count}", v  # type: ignore[return-value]


def row_code(code: str) -> str:
    """The type of features in memory: integers of less than 32 bits, and masks, have 32."""
    return _WIDE.get(code, HELD[code])


def row_type(code: str, lanes: int) -> str:
    """How a feature of all lanes lies in memory."""
    return f"<{lanes} x {SCALAR[row_code(code)]}>"


def row_bytes(code: str, lanes: int) -> int:
    """The size of a row."""
    return BITS[row_code(code)] * lanes // 8


def rounded(f: Function, x: str) -> str:
    """`f32` rounded to `f16`."""
    return elementwise.widen(f, elementwise.narrow(f, x))


def align(code: str, lanes: int) -> int:
    """The alignment of rows."""
    return min(row_bytes(code, lanes), 64)


def from_row(f: Function, code: str, x: str) -> str:
    """A feature as it is held, from what lies in memory."""
    if code not in _WIDE:
        return x
    return f.op(f"trunc {row_type(code, f.lanes)} {x} to {f.vector[code]}")


def to_row(f: Function, code: str, x: str) -> str:
    """A feature as it lies in memory."""
    if code not in _WIDE:
        return x
    return f.op(f"zext {f.vector[code]} {x} to {row_type(code, f.lanes)}")


def load_row(f: Function, code: str, place: str) -> str:
    """A feature of all lanes, as it is held."""
    kind = row_type(code, f.lanes)
    return from_row(f, code, f.op(f"load {kind}, ptr {place}, align {align(code, f.lanes)}"))


def load_uniform(f: Function, code: str, place: str) -> str:
    """A feature that is the same for all lanes, as it is held."""
    kind = row_code(code)
    x = f.splat(kind, f.op(f"load {SCALAR[kind]}, ptr {place}, align {BYTES[kind]}"))
    return from_row(f, code, x)


def store_row(f: Function, code: str, x: str, place: str) -> None:
    """Stores a feature of all lanes."""
    x = to_row(f, code, x)
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
        start = loop(
            f,
            "0",
            str(whole),
            str(together),
            carried,
            lambda k, s: some(k, together, s),
        )
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


def following(
    f: Function, product: Product, operations: list[Operation], stored: list[Vector]
) -> None:
    """A product, and the element-wise operations that go on with it."""
    (result,) = product.results

    def use(first: str, registers: list[str]) -> None:
        for offset, x in enumerate(registers):
            row = _Row(f, first, offset)
            row.registers[result] = x
            for operation in operations:
                if operation is not product:
                    row.emit(operation)
            for v in stored:
                row.store(v)

    product.rows(f, use)


class _Row:
    """One feature within the loop over the features: the registers that hold values of it."""

    def __init__(self, f: Function, first: str, offset: int):
        self.f, self.first, self.offset = f, first, offset
        self.registers: dict[Vector, str] = {}

    def address(self, v: Vector) -> str:
        f, slot = self.f, v.slot
        kind = SCALAR[row_code(v.code)] if slot.uniform else row_type(v.code, f.lanes)  # type: ignore
        place = slot.name  # type: ignore[union-attr]
        if v.run > 1:
            if self.first.isdigit():
                row = str((int(self.first) + self.offset) // v.run)
            else:
                row = f.op(f"add nuw i64 {self.first}, {self.offset}")
                row = f.op(f"udiv i64 {row}, {v.run}")
            return f.op(f"getelementptr {kind}, ptr {place}, i64 {row}")
        if self.first != "0":
            place = f.op(f"getelementptr {kind}, ptr {place}, i64 {self.first}")
        if self.offset:
            place = f.op(f"getelementptr {kind}, ptr {place}, i64 {self.offset}")
        return place

    def read(self, v: Vector | str) -> str:
        if type(v) is not Vector:
            return v  # type: ignore[return-value]
        if v not in self.registers:
            load = load_uniform if v.slot.uniform else load_row  # type: ignore[union-attr]
            self.registers[v] = load(self.f, v.code, self.address(v))
        return self.registers[v]

    def emit(self, operation: Operation) -> None:
        found = operation.emit(self.f, *[self.read(v) for v in operation.operands])
        results = operation.results
        several = found if len(results) > 1 else [found]
        self.registers.update(zip(results, several, strict=True))

    def store(self, v: Vector) -> None:
        store_row(self.f, v.code, self.registers[v], self.address(v))

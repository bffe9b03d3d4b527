"""The loop over the features of vectors that element-wise operations run in."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from . import elementwise, llvm
from .ir import BITS, BYTES, SCALAR, Function, Value, constant
from .loops import loop
from .vector_memory import HELD, WIDE, Vector, row_bytes, row_code, row_type

# Registers of a value that the loop over the features works on at a time.
_IN_FLIGHT = 4


class Register(NamedTuple):
    """An operand that is the same for all features: its type, as features are held, and its name
    or the constant that it is.
    """

    code: str
    name: str


class Operation:
    """An element-wise operation that was put off: what emits it for a feature, what tells it from
    others, its operands and results, and whether it calls a function.
    """

    __slots__ = ("emit", "is_call", "kind", "operands", "results")

    def __init__(
        self,
        emit: Callable[..., Any],
        kind: Hashable,
        operands: Sequence[Vector | Register],
        *,
        is_call: bool = False,
    ):
        self.emit, self.kind, self.operands, self.is_call = emit, kind, operands, is_call
        self.results: list[Vector] = []


class Product(Operation):
    """A product that was put off, and that can go on with each feature while it is in registers:
    `emit(f, pointers, use)` computes it and calls `use(first, registers)` with the features from
    `first` on. Its operand is a vector that it reads as a whole, at one of the pointers.
    """

    __slots__ = ("pointers",)

    def __init__(
        self, emit: Callable[..., None], kind: Hashable, operand: Vector, pointers: Sequence[str]
    ):
        super().__init__(emit, kind, (operand,))
        self.pointers = pointers


def spelled(v: Vector) -> Value:
    """A vector as an operand; its type is spelled `f16x64`."""
    return f"{v.code}x{v.count}", v  # type: ignore[return-value]


def rounded(f: Function, x: str) -> str:
    """`f32` rounded to `f16`."""
    return elementwise.widen(f, elementwise.narrow(f, x))


def align(code: str, lanes: int) -> int:
    """The alignment of rows."""
    return min(row_bytes(code, lanes), 64)


def from_row(f: Function, code: str, x: str) -> str:
    """A feature as it is held, from what lies in memory."""
    if code not in WIDE:
        return x
    return f.op(f"trunc {row_type(code, f.lanes)} {x} to {f.vector[code]}")


def to_row(f: Function, code: str, x: str) -> str:
    """A feature as it lies in memory."""
    if code not in WIDE:
        return x
    return f.op(f"zext {f.vector[code]} {x} to {row_type(code, f.lanes)}")


def row_address(f: Function, code: str, place: str, k: object) -> str:
    """Where a feature lies in a vector."""
    if str(k) == "0":
        return place
    return f.op(f"getelementptr {row_type(code, f.lanes)}, ptr {place}, i64 {k}")


def to_held(f: Function, code: str, x: str) -> str:
    """A scalar as features are held."""
    return elementwise.widen(f, x) if code == "f16" else x


def from_held(f: Function, code: str, x: str) -> str:
    """A feature as a scalar."""
    return elementwise.narrow(f, x) if code == "f16" else x


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
    names: Mapping[str, str],
    count: int,
    operations: Sequence[Operation],
    stored: Sequence[Vector],
    total: Vector | None = None,
) -> str:
    """The loop over the features; the sum over those of one vector, if asked for. The names are
    those of slots and registers in this function.
    """
    widest = max([BITS[HELD[v.code]] for o in operations for v in o.results] or [32])
    registers = max(f.lanes * widest // (8 * llvm.register_bytes()), 1)
    # A function of the library has enough to do for the processor, and is inlined if there are few
    # calls.
    together = 1 if any(o.is_call for o in operations) else max(_IN_FLIGHT // registers, 1)
    held = HELD[total.code] if total else ""
    kind = f.vector[held] if total else ""

    def some(first: str, number: int, sums: list[str]) -> None:
        reader = [_Row(f, names, first, u) for u in range(number)]
        for operation in operations:
            for row in reader:
                row.emit(operation)
        for v in stored:
            for row in reader:
                row.store(v)
        if total is not None:
            for k, row in enumerate(reader):
                sums[k] = f.op(f"fadd {kind} {sums[k]}, {row.read(total)}")

    sums = [f"splat ({SCALAR[held]} {constant(held, 0)})"] * together if total else []
    whole = count // together * together
    if whole > together:
        with loop(f, 0, whole, together, [(kind, s) for s in sums]) as (k, sums):
            some(k, together, sums)
    else:
        whole = 0
    for first in range(whole, count, together):
        some(str(first), min(together, count - first), sums)
    while len(sums) > 1:
        a, b, *rest = sums
        sums = [*rest, f.op(f"fadd {kind} {a}, {b}")]
    return sums[0] if total else ""


def following(
    f: Function,
    names: Mapping[str, str],
    product: Product,
    operations: Sequence[Operation],
    stored: Sequence[Vector],
) -> None:
    """A product, and the element-wise operations that go on with it."""
    (result,) = product.results

    def use(first: str, registers: list[str]) -> None:
        for offset, x in enumerate(registers):
            row = _Row(f, names, first, offset)
            row.registers[result] = x
            for operation in operations:
                row.emit(operation)
            for v in stored:
                row.store(v)

    product.emit(f, [names[p] for p in product.pointers], use)


class _Row:
    """One feature within the loop over the features: the registers that hold values of it."""

    def __init__(self, f: Function, names: Mapping[str, str], first: str, offset: int):
        self.f, self.names, self.first, self.offset = f, names, first, offset
        self.registers: dict[Vector, str] = {}

    def address(self, v: Vector) -> str:
        f, slot = self.f, v.slot
        kind = SCALAR[row_code(v.code)] if slot.uniform else row_type(v.code, f.lanes)  # type: ignore
        place = self.names[slot.name]  # type: ignore[union-attr]
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

    def read(self, v: Vector | Register) -> str:
        if isinstance(v, Register):
            return self.names.get(v.name, v.name)
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

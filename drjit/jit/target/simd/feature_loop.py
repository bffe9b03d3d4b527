"""Loops over the features of vectors, which execute element-wise operations. They are routines of
the module that receive the addresses of their vectors.

Loops of the same operations, such as those of a network's layers, share one routine, so compile
time grows with the number of distinct loops.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ...tuples import NamedTuple
from . import elementwise
from .ir import BITS, BYTES, SCALAR, Function, Operand, constant
from .loops import loop
from .module import Module
from .vector_memory import HELD, WIDE, FeatureVector, row_bytes, row_code, row_type

# Memory without aliases: vectors have separate slots, and kernels do not write to matrices that
# they read.
_POINTER = "ptr noalias"
# Registers per value in the loop over features.
_IN_FLIGHT = 4


class Register(NamedTuple):
    """An operand that is the same for all features: its type, as features are held, and its name or
    constant value.
    """

    code: str
    name: str


class Operation:
    """A deferred element-wise operation: its emitter for a feature, its identity, its operands and
    results, and whether it calls a function.

    One with `pointers` is a product, which can continue with each feature while it is in registers:
    `emit(f, pointers, use)` computes it and calls `use(first, registers)` with the features from
    `first` on. Its operand is a vector that it reads as a whole, at one of the pointers.
    """

    __slots__ = ("emit", "is_call", "kind", "operands", "pointers", "results")

    def __init__(
        self,
        emit: Callable[..., Any],
        kind: Hashable,
        operands: Sequence[FeatureVector | Register],
        *,
        is_call: bool = False,
        pointers: Sequence[str] = (),
    ):
        self.emit, self.kind, self.operands, self.is_call = emit, kind, operands, is_call
        self.pointers = pointers
        self.results: list[FeatureVector] = []


def spelled(v: FeatureVector) -> Operand:
    """Returns a vector as an operand; its type is spelled `f16x64`."""
    return f"{v.code}x{v.count}", v  # type: ignore[return-value]


def rounded(f: Function, x: str) -> str:
    """Rounds `f32` to `f16`."""
    return elementwise.widen(f, elementwise.narrow(f, x))


def align(code: str, lanes: int) -> int:
    """Returns the alignment of rows."""
    return min(row_bytes(code, lanes), 64)


def from_row(f: Function, code: str, x: str) -> str:
    """Converts a feature from its memory to its register representation."""
    if code not in WIDE:
        return x
    return f.op(f"trunc {row_type(code, f.lanes)} {x} to {f.vector[code]}")


def to_row(f: Function, code: str, x: str) -> str:
    """Converts a feature from its register to its memory representation."""
    if code not in WIDE:
        return x
    return f.op(f"zext {f.vector[code]} {x} to {row_type(code, f.lanes)}")


def row_address(f: Function, code: str, place: str, k: object) -> str:
    """Returns the address of a feature of a vector."""
    if str(k) == "0":
        return place
    return f.op(f"getelementptr {row_type(code, f.lanes)}, ptr {place}, i64 {k}")


def to_held(f: Function, code: str, x: str) -> str:
    """Converts a scalar to the register representation of features."""
    return elementwise.widen(f, x) if code == "f16" else x


def from_held(f: Function, code: str, x: str) -> str:
    """Converts a feature to a scalar."""
    return elementwise.narrow(f, x) if code == "f16" else x


def load_row(f: Function, code: str, place: str) -> str:
    """Loads a feature of all lanes."""
    kind = row_type(code, f.lanes)
    return from_row(f, code, f.op(f"load {kind}, ptr {place}, align {align(code, f.lanes)}"))


def load_uniform(f: Function, code: str, place: str) -> str:
    """Loads a feature that is the same for all lanes."""
    kind = row_code(code)
    x = f.splat(kind, f.op(f"load {SCALAR[kind]}, ptr {place}, align {BYTES[kind]}"))
    return from_row(f, code, x)


def store_row(f: Function, code: str, x: str, place: str) -> None:
    """Stores a feature of all lanes."""
    x = to_row(f, code, x)
    f.do(f"store {row_type(code, f.lanes)} {x}, ptr {place}, align {align(code, f.lanes)}")


def _features(
    f: Function,
    names: Mapping[str, str],
    count: int,
    operations: Sequence[Operation],
    stored: Sequence[FeatureVector],
    total: FeatureVector | None = None,
) -> str:
    """Emits the loop over the features, and the sum over those of one vector, if requested. The
    names are those of slots and registers in this function.
    """
    widest = max([BITS[HELD[v.code]] for o in operations for v in o.results] or [32])
    registers = max(f.lanes * widest // (8 * f.machine.register_bytes), 1)
    # A library function keeps the processor busy by itself, and is inlined if there are few calls.
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


def _following(
    f: Function,
    names: Mapping[str, str],
    product: Operation,
    operations: Sequence[Operation],
    stored: Sequence[FeatureVector],
) -> None:
    """Emits a product, and the element-wise operations that continue with it."""
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
    """One feature within the loop over the features: the registers that hold its values."""

    def __init__(self, f: Function, names: Mapping[str, str], first: str, offset: int):
        self.f, self.names, self.first, self.offset = f, names, first, offset
        self.registers: dict[FeatureVector, str] = {}

    def address(self, v: FeatureVector) -> str:
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

    def read(self, v: FeatureVector | Register) -> str:
        if isinstance(v, Register):
            return self.names.get(v.name, v.name)
        if v not in self.registers:
            load = load_uniform if v.slot.uniform else load_row  # type: ignore[union-attr]
            self.registers[v] = load(self.f, v.code, self.address(v))
        x = self.registers[v]
        if x in self.f.uses:
            self.f.uses[x] += 1
        return x

    def emit(self, operation: Operation) -> None:
        found = operation.emit(self.f, *[self.read(v) for v in operation.operands])
        results = operation.results
        several = found if len(results) > 1 else [found]
        self.registers.update(zip(results, several, strict=True))

    def store(self, v: FeatureVector) -> None:
        store_row(self.f, v.code, self.read(v), self.address(v))


class _Arguments:
    """The arguments of a routine, and the spelling of its operands: equal routines have equal
    spellings."""

    def __init__(self, f: Function):
        self.f = f
        self.names: dict[str, str] = {}  # names in the routine, by name in the kernel
        self.types: list[str] = []
        self.computed: dict[FeatureVector, int] = {}

    def local(self, kind: str, name: str) -> str:
        """Returns the name of an argument in the routine."""
        if name not in self.names:
            self.names[name] = f"%{len(self.types)}"
            self.types.append(kind)
        return self.names[name]

    def place(self, v: FeatureVector) -> str:
        """Returns the address of a vector."""
        return self.local(_POINTER, v.slot.name)  # type: ignore[union-attr]

    def operand(self, v: FeatureVector | Register) -> Hashable:
        """Returns the spelling of an operand: a constant, an argument, or a value that the routine
        computes."""
        if isinstance(v, Register):
            constant = not v.name.startswith("%")
            return v.name if constant else self.local(self.f.vector[v.code], v.name)
        if v in self.computed:
            return self.computed[v]
        return self.place(v), v.code, v.run, v.slot.uniform  # type: ignore[union-attr]

    def computes(self, operation: Operation) -> None:
        """Makes the results of an operation available to subsequent ones."""
        for v in operation.results:
            self.computed[v] = len(self.computed)


def run(
    module: Module,
    f: Function,
    operations: Sequence[Operation],
    stored: Sequence[FeatureVector],
    count: int,
    total: FeatureVector | None = None,
) -> str:
    """Calls the routine of a loop over `count` features, and returns the sum over those of one
    vector if requested. If one of the operations is a product, the others continue with it.
    """
    product = next((o for o in operations if o.pointers), None)
    others = [o for o in operations if o is not product]
    given = _Arguments(f)
    key: list[Hashable] = [count]
    if product is not None:
        key += [product.kind, *[given.local(_POINTER, p) for p in product.pointers]]
        given.computes(product)
    for operation in others:
        key += [operation.kind, *[given.operand(v) for v in operation.operands]]
        given.computes(operation)
    key += [(given.computed[v], v.code, given.place(v)) for v in stored]
    if total is not None:
        key.append((given.operand(total), total.code))

    def emit(g: Function) -> str:
        if product is None:
            return _features(g, given.names, count, others, stored, total)
        _following(g, given.names, product, others, stored)
        return ""

    kind = f.vector[HELD[total.code]] if total is not None else "void"
    name = "features" if product is None else "matvec"
    symbol = module.routine(name, given.types, emit, kind, tuple(key))
    types = [t.removesuffix(" noalias") for t in given.types]
    arguments = ", ".join([f"{t} {x}" for t, x in zip(types, given.names, strict=True)])
    call = f"call fastcc {kind} {symbol}({arguments})"
    if total is not None:
        return f.op(call)
    f.do(call)
    return ""

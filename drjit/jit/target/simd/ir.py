"""LLVM IR as text: the spelling of types and constants, and the function under construction.

Text is several times faster to build than llvmlite's IR objects, and LLVM parses it at about 1 us
per line. This module depends on nothing.
"""

import struct
from collections.abc import Sequence
from functools import cache

from ...tuples import NamedTuple

# Element types in registers, and in memory (where a mask is a byte with the value 0 or 1).
_INTEGERS = {f"{sign}{bits}": f"i{bits}" for bits in (8, 16, 32, 64) for sign in "iu"}
SCALAR = {"mask": "i1"} | _INTEGERS | {"f16": "half", "f32": "float", "f64": "double"}
MEMORY = SCALAR | {"mask": "i8"}
BITS = {code: 1 if code == "mask" else int(code[1:]) for code in SCALAR}
BYTES = {code: max(bits // 8, 1) for code, bits in BITS.items()}
FLOATS = frozenset({"f16", "f32", "f64"})
INTEGERS = frozenset(_INTEGERS)
SIGNED = frozenset({code for code in INTEGERS if code[0] == "i"})
UNSIGNED = INTEGERS - SIGNED

# An operand of an instruction: the code of its element type and its spelling in IR. A number
# without a type has the code NUMBER. (Those of `values` are objects with operators instead.)
Operand = tuple[str, str]
NUMBER = "number"
# Where a product or sum was emitted, the block and the number of the line, and its two operands.
NotedOperation = tuple[str, int, str, str]


class KernelError(Exception):
    """A kernel text violates the rules of the language; the message has the line and its text."""


def constant(code: str, number: float) -> str:
    """Returns the spelling of a number as a scalar constant.

    >>> constant("f32", 1), constant("u8", 255), constant("mask", True)
    ('0x3FF0000000000000', '-1', 'true')
    """
    if code == "mask":
        return "true" if number else "false"
    if code == "f16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', _saturated('e', number)))[0]:04X}"
    if code == "f32":
        number = struct.unpack("<f", struct.pack("<f", _saturated("f", number)))[0]
    if code in FLOATS:
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if number != int(number):
        raise KernelError(f"{number} is no {code}")
    bits = BITS[code]
    number = int(number) & ((1 << bits) - 1)
    return str(number - (1 << bits) if number >> (bits - 1) else number)


def _saturated(kind: str, number: float) -> float:
    try:
        struct.pack(kind, number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return number


class Types:
    """The spelling of types for a number of lanes."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.vector = {code: f"<{lanes} x {scalar}>" for code, scalar in SCALAR.items()}
        self.memory = {code: f"<{lanes} x {scalar}>" for code, scalar in MEMORY.items()}
        # The suffix of an intrinsic's name.
        self.suffix = {
            code: f"v{lanes}{'f' if code in FLOATS else 'i'}{BITS[code]}" for code in SCALAR
        }
        self.iota = ", ".join(f"i32 {lane}" for lane in range(lanes))


class Machine(NamedTuple):
    """What code is generated for: the size in bytes of the widest vector register, and whether
    there are instructions for masked gathers and scatters."""

    register_bytes: int
    has_gathers: bool

    @property
    def is_gpu(self) -> bool:
        """Whether the code is that of a GPU's thread, whose registers have up to 64 bits."""
        return self.register_bytes == 8

    @property
    def registers(self) -> int:
        """The number of vector registers: 16 with AVX2, 32 with AVX-512 and NEON."""
        return 16 if self.register_bytes == 32 else 32

    @property
    def accumulators(self) -> int:
        """The number of registers for the sums of a product; the others are for its operands."""
        return self.registers * 3 // 4

    @property
    def literals(self) -> int:
        """The number of registers for literals, besides those of eight values in flight. With more
        of them, LLVM would order instructions such that one waits for the other, in order to have
        fewer values at a time."""
        return (self.registers - 8) * 3 // 4


@cache
def types(lanes: int) -> Types:
    """Returns the types for a number of lanes."""
    return Types(lanes)


class Function:
    """A function under construction: its lines, its variables, and the block to which lines are
    appended.

    Unnamed results are numbered in the order of the text, as LLVM requires. `head` collects the
    contents of the entry block: loads from the parameter block, splats, stack slots.
    """

    scope = ""
    """Which threads atomic operations concern, unless all of the system."""

    def __init__(self, machine: Machine, lanes: int, first_number: int = 0):
        self.machine = machine
        self.types = types(lanes)
        self.lanes = lanes
        self.vector = self.types.vector
        self.zeros = f"<{lanes} x i32> zeroinitializer"  # the places of a broadcast
        self.head: dict[str, str] = {}
        self.prologue: list[str] = []  # instructions of the entry block after that
        self.lines: list[str] = []
        self.number = first_number
        self.block = "entry"
        self.begun = 0  # number of lines before the block
        self.blocks = 0
        self.variables: dict[str, Operand] = {}
        self.hoisting = False
        # Addresses that take the place of others in a packet that ends beyond the last lane.
        self.tails: dict[str, str] = {}
        # Products by their names, how often each is used, and the sums and differences of products,
        # with names and types (see `contraction`).
        self.products: dict[str, NotedOperation] = {}
        self.uses: dict[str, int] = {}
        self.sums: list[tuple[str, str, bool, NotedOperation]] = []

    def op(self, text: str) -> str:
        """Appends an instruction with a result and returns the result's name."""
        if self.hoisting:
            name = f"%u{len(self.head)}"
            self.head[name] = text
            return name
        name = f"%{self.number}"
        self.number += 1
        self.lines.append(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(text)

    def once(self, name: str, text: str) -> str:
        """Computes a named value once, in the entry block."""
        self.head.setdefault(name, text)
        return name

    def new_block(self) -> str:
        """Returns a new name for a block."""
        self.blocks += 1
        return f"b{self.blocks}"

    def start(self, block: str) -> None:
        """Starts a block; the previous one must have ended with a branch."""
        self.lines.append(f"{block}:")
        self.block, self.begun = block, len(self.lines)

    def branch(self, condition: str, yes: str, no: str, *, weights: str = "") -> None:
        """Ends a block with a conditional branch."""
        self.lines.append(f"br i1 {condition}, label %{yes}, label %{no}{weights}")

    def shuffle(self, kind: str, x: str, y: str, places: Sequence[object]) -> str:
        """Returns the elements at some positions of two vectors of an IR type."""
        which = ", ".join([f"i32 {place}" for place in places])
        operands = f"{kind} {x}, {kind} {y}, <{len(places)} x i32> <{which}>"
        return self.op(f"shufflevector {operands}")

    def splat(self, code: str, scalar: str) -> str:
        """Broadcasts a scalar of the current block to all lanes."""
        vector, element = self.vector[code], SCALAR[code]
        one = self.op(f"insertelement {vector} poison, {element} {scalar}, i32 0")
        return self.op(f"shufflevector {vector} {one}, {vector} poison, {self.zeros}")

    def literal_here(self, code: str, index: object) -> str:
        """Broadcasts the number in a word of the parameter block, loaded at its use. (A program has
        hundreds, so the lines are written at once.)"""
        vector, element, n = self.vector[code], SCALAR[code], self.number
        self.number = n + 4
        self.lines += (
            f"%{n} = getelementptr i64, ptr %p, i64 {index}",
            f"%{n + 1} = load {element}, ptr %{n}, align 8",
            f"%{n + 2} = insertelement {vector} poison, {element} %{n + 1}, i32 0",
            f"%{n + 3} = shufflevector {vector} %{n + 2}, {vector} poison, {self.zeros}",
        )
        return f"%{n + 3}"

    def splat_once(self, name: str, code: str, scalar: str) -> str:
        """Broadcasts a scalar of the entry block to all lanes, in the entry block."""
        vector, element = self.vector[code], SCALAR[code]
        one = self.once(f"{name}.0", f"insertelement {vector} poison, {element} {scalar}, i32 0")
        return self.once(name, f"shufflevector {vector} {one}, {vector} poison, {self.zeros}")

    def stored_once(self, name: str, code: str, index: int) -> str:
        """Reads a vector in stack memory, which the entry block fills with the number in a word of
        the parameter block."""
        lanes, element = (
            min(self.lanes, 8 * self.machine.register_bytes // BITS[code]),
            SCALAR[code],
        )
        vector, slot = f"<{lanes} x {element}>", f"{name}.slot"
        if slot not in self.head:
            self.once(slot, f"alloca {vector}, align {self.machine.register_bytes}")
            self.prologue += [
                f"{name}.m = load {element}, ptr {self.word_address(index)}, align 8",
                f"{name}.0 = insertelement {vector} poison, {element} {name}.m, i32 0",
                f"{name} = shufflevector {vector} {name}.0, {vector} poison, "
                f"<{lanes} x i32> zeroinitializer",
                f"store {vector} {name}, ptr {slot}",
            ]
        x, times = self.op(f"load {vector}, ptr {slot}"), self.lanes // lanes
        return x if times == 1 else self.shuffle(vector, x, x, [*range(lanes)] * times)

    def select(self, code: str, mask: str, x: str, y: str = "zeroinitializer") -> str:
        """Returns `x` in the lanes of a mask, and `y` in the others."""
        kind = self.vector[code]
        return self.op(f"select {self.vector['mask']} {mask}, {kind} {x}, {kind} {y}")

    def constant(self, code: str, number: float) -> str:
        """Returns a number in all lanes."""
        return f"splat ({SCALAR[code]} {constant(code, number)})"

    def bits(self, mask: str) -> str:
        """Returns the mask as an integer with one bit per lane."""
        return self.op(f"bitcast {self.vector['mask']} {mask} to i{self.lanes}")

    def widened(self, bits: str) -> str:
        """Extends an integer with one bit per lane to 64 bits."""
        return bits if self.lanes == 64 else self.op(f"zext i{self.lanes} {bits} to i64")

    def any(self, mask: str) -> str:
        """Returns whether a mask is true in any lane."""
        return self.op(f"icmp ne i{self.lanes} {self.bits(mask)}, 0")

    def at_packet(self, base: str) -> str:
        """Returns the address to which the lanes of this packet are relative: that of a buffer, or
        of its last entries elsewhere, with room for a whole packet."""
        tail = self.tails.get(base)
        return base if tail is None else self.op(f"select i1 %beyond, ptr {tail}, ptr {base}")

    def position(self) -> str:
        """Returns the number of the first lane to load for."""
        return "%i"

    def word_address(self, index: int) -> str:
        """Returns the address of a word of the parameter block."""
        return self.once(f"%a{index}", f"getelementptr i64, ptr %p, i64 {index}")

    def word(self, index: int) -> str:
        """Returns a word of the parameter block, loaded in the entry block."""
        load = f"load i64, ptr {self.word_address(index)}, !invariant.load !0"
        return self.once(f"%w{index}", load)

    def word_here(self, index: object) -> str:
        """Returns a word of the parameter block, loaded at its use. Large programs have hundreds of
        these; held in registers from the entry block on, they would make compilation quadratic."""
        address = self.word_address_here(index)
        return self.op(f"load i64, ptr {address}, !invariant.load !0")

    def word_address_here(self, index: object) -> str:
        """Returns the address of a word of the parameter block, computed at its use."""
        return self.op(f"getelementptr i64, ptr %p, i64 {index}")

    def pointer(self, index: int) -> str:
        """Returns the address stored in a word of the parameter block."""
        return self.once(f"%p{index}", f"inttoptr i64 {self.word(index)} to ptr")

    def slot(self, code: str, index: int) -> str:
        """Returns stack memory for a vector: the `index`-th of its type."""
        return self.once(
            f"%slot.{MEMORY[code]}.{index}", f"alloca {self.types.memory[code]}, align 64"
        )

    def result_type(self, codes: Sequence[str], lanes: int | None = None) -> str:
        """Returns the return type of a module function with such results."""
        kinds = [types(lanes or self.lanes).vector[code] for code in codes]
        return "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"

    def give(self, values: Sequence[Operand]) -> str:
        """Ends the function with its results and returns their type."""
        kind = self.result_type([code for code, _ in values])
        self.do(f"ret {kind} {self.combined(values)}")
        return kind

    def combined(self, values: Sequence[Operand]) -> str:
        """Returns the results of a function as one value."""
        if len(values) < 2:
            return values[0][1] if values else ""
        kind, result = self.result_type([code for code, _ in values]), "poison"
        for k, (code, x) in enumerate(values):
            result = self.op(f"insertvalue {kind} {result}, {self.vector[code]} {x}, {k}")
        return result

    def call(
        self, symbol: str, arguments: Sequence[str], codes: Sequence[str], lanes: int | None = None
    ) -> list[Operand]:
        """Calls a function of the module and returns its results, which have these types."""
        kind = self.result_type(codes, lanes)
        call = f"call fastcc {kind} {symbol}({', '.join(arguments)})"
        if not codes:
            self.do(call)
            return []
        result = self.op(call)
        if len(codes) == 1:
            return [(codes[0], result)]
        return [(c, self.op(f"extractvalue {kind} {result}, {k}")) for k, c in enumerate(codes)]

    def text(self) -> str:
        """Returns the body: the entry block, then everything else."""
        head = "\n".join([f"{name} = {text}" for name, text in self.head.items()])
        return "\n".join(["entry:", head, *self.prologue, *self.lines])

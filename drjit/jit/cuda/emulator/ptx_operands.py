"""Operands of instructions: registers, constants, addresses; the types in which registers are kept;
and where variables are in memory.

A register holds bits, but NumPy's arrays have types. Each register gets a home, the type in which
its instructions use it most often, so that most of them need no `view`.
"""

import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import numeric
from .errors import PTXSyntaxError
from .forms import PAIRS, width
from .parse import SIZES, PtxFunction, PtxProgram, PtxVariable, split_operands

SCOPE = {name: x for name, x in vars(numeric).items() if not name.startswith("_")}
"""The names in generated code: functions of `numeric`, and types."""
SCOPE["false"] = np.zeros(1, bool)

# Registers must not have these names: those above, the parameters of a block's function, constants
# such as `u32_7`, and the registers for return addresses.
_RESERVED = set(keyword.kwlist) | set(SCOPE) | {"R", "m", "place", "back", "caller", "print"}
_PATTERN = re.compile(r"(?:[uif]\d+|pred)_|_|\d")


@dataclass(slots=True)
class PtxOperand:
    """`kind` is one of reg, integer, float, symbol, address, box, vector, pair, not, sink, list.

    `name` of a register is its Python name; `value` is a number or the offset of an address;
    `parts` are the operands in a vector, or the base of an address.
    """

    kind: str
    name: str = ""
    value: int = 0
    parts: tuple["PtxOperand", ...] = ()


SINK = PtxOperand("sink")
# Registers of the hardware, of 32 bits; the machine provides their values.
SPECIAL = {
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *(f"%lanemask_{name}" for name in ("eq", "le", "lt", "ge", "gt")),
    "%laneid",
}

# For types of operands: the type for which they vote (see `Symbols.vote`), and its size.
_VOTES = {f"{kind}{size}": (f"{kind}{size}", size) for kind in "iuf" for size in (16, 32, 64)}
_VOTES |= {pair: (word, int(word[1:])) for pair, (_, word) in PAIRS.items()}
_VOTES |= {f"{kind}>{wide}": _VOTES[kind] for kind, wide in (
    ("u16", "u32"), ("u32", "u64"), ("i16", "i32"), ("i32", "i64"))}  # fmt: skip
_NUMBERED = re.compile(r"(.*?)(\d+)$")
_ADDRESS = re.compile(r"([%\w$.]+)\s*(?:\+\s*(-?\w+)|(-\s*\w+))?$")


def python_name(name: str) -> str:
    """The name of a register as an identifier."""
    text = name.lstrip("%").replace("$", "_").replace(".", "_")
    return f"{text}_" if text in _RESERVED else f"r_{text}" if _PATTERN.match(text) else text


def integer(text: str) -> int:
    return int(text.rstrip("U"), 0)


class Symbols:
    """What the names in a function mean: its registers, and symbols."""

    def __init__(self, program: PtxProgram, function: PtxFunction):
        self.program, self.function = program, function
        self.cache: dict[str, PtxOperand] = {"_": SINK}
        self.widths: dict[str, int] = {}  # of registers by Python name; 1 of predicates
        self.shown: dict[str, str] = {}  # names in the text by Python name
        self.votes: dict[str, dict[str, int]] = {}
        self.special: dict[str, str] = {}  # of special registers, by Python name
        self.home: dict[str, str] = {}

    def operand(self, text: str) -> PtxOperand:
        """An operand, from its text. Raises `PTXSyntaxError` for an unknown name."""
        operand = self.cache.get(text)
        if operand is None:
            operand = self.cache[text] = self._operand(text)
        return operand

    def _operand(self, text: str) -> PtxOperand:
        first = text[0]
        if first == "[":
            return self._address(text[1:-1].strip())
        if first == "{":
            parts = split_operands(text[1:-1].strip())
            return PtxOperand("vector", parts=tuple(self.operand(p) for p in parts))
        if first == "(":
            parts = split_operands(text[1:-1].strip())
            return PtxOperand("list", parts=tuple(PtxOperand("symbol", p) for p in parts))
        if first == "!":
            return PtxOperand("not", parts=(self.operand(text[1:].strip()),))
        if "|" in text:
            return PtxOperand("pair", parts=tuple(self.operand(p.strip()) for p in text.split("|")))
        if first.isdigit() or first == "-":
            return _number(text)
        if register := self.register(text):
            return register
        name, _, offset = text.partition("+")
        return PtxOperand("symbol", name.strip(), integer(offset.strip()) if offset else 0)

    def _address(self, text: str) -> PtxOperand:
        if text.endswith("}"):  # of a map, and the position in the tensor
            return PtxOperand("box", parts=tuple(map(self.operand, split_operands(text))))
        m = _ADDRESS.match(text)
        if m is None:
            raise PTXSyntaxError(f"the address [{text}] is not understood")
        offset = m[2] or m[3]
        value = integer(offset.replace(" ", "")) if offset else 0
        return PtxOperand("address", value=value, parts=(self.operand(m[1]),))

    def register(self, text: str) -> PtxOperand | None:
        """A declared or special register; None for other names."""
        kind = self.function.registers.get(text)
        if kind is None:
            m = _NUMBERED.match(text)
            kind = self.function.prefixes.get(m[1]) if m else None
        if kind is None:
            if text in SPECIAL:
                name = self._unused(text)
                self.special[name] = text
                self.widths[name] = 32
                self.home[name] = "u32"
                return PtxOperand("reg", name)
            if text == "%CC":
                return self._new("%CC", 1)
            if text.startswith("%"):
                raise PTXSyntaxError(f"the register {text} is not declared")
            return None
        return self._new(text, 1 if kind == "pred" else SIZES[kind] * 8)

    def _new(self, text: str, bits: int) -> PtxOperand:
        name = self._unused(text)
        self.widths[name] = bits
        self.shown[name] = text
        self.votes[name] = {}
        return PtxOperand("reg", name)

    def _unused(self, text: str) -> str:
        """A Python name for a register that no other register has."""
        name = python_name(text)
        while name in self.widths:
            name += "_"
        return name

    def vote(self, operand: PtxOperand, kind: str, weight: int) -> None:
        """Notes that an operand is used as a type; words of pairs count as unsigned integers."""
        size = _VOTES.get(kind)
        if size is None:
            return
        for name in (operand.name,) if operand.kind == "reg" else registers(operand):
            votes = self.votes.get(name)
            if votes is not None and self.widths[name] == size[1]:
                votes[size[0]] = votes.get(size[0], 0) + weight

    def settle(self) -> None:
        """Decides about the home of each register: its most frequent type."""
        for name, votes in self.votes.items():
            bits = self.widths[name]
            if bits == 1:
                self.home[name] = "pred"
            else:
                self.home[name] = max(votes, key=votes.__getitem__) if votes else f"u{bits}"


def registers(operand: PtxOperand) -> list[str]:
    """Python names of the registers in an operand."""
    if operand.kind == "reg":
        return [operand.name]
    return [name for part in operand.parts for name in registers(part)]


def flatten(operand: PtxOperand) -> tuple[PtxOperand, ...]:
    """The elements of a vector or of a pair, or the operand itself."""
    return operand.parts if operand.kind in ("vector", "pair") else (operand,)


def _number(text: str) -> PtxOperand:
    prefix = text[:2]
    if prefix in ("0f", "0F") and len(text) == 10:
        return PtxOperand("float", "f32", int(text[2:], 16))
    if prefix in ("0d", "0D") and len(text) == 18:
        return PtxOperand("float", "f64", int(text[2:], 16))
    if "." in text or ("e" in text and "x" not in text):
        return PtxOperand("float", "f64", int(np.array(float(text)).view(np.uint64)))
    try:
        return PtxOperand("integer", value=integer(text))
    except ValueError:
        raise PTXSyntaxError(f"{text} is not a number") from None


class Constants:
    """Numbers in a kernel, as arrays of one element with names such as `u32_7`."""

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}

    def name(self, kind: str, bits: int) -> str:
        """The name of a constant of a type, given its bits."""
        if kind == "pred":
            self.values[f"pred_{int(bool(bits))}"] = np.array([bool(bits)])
            return f"pred_{int(bool(bits))}"
        size = int(kind[1:])
        bits &= (1 << size) - 1
        name = f"{kind}_{bits}" if bits < 10000 and kind[0] != "f" else f"{kind}_0x{bits:x}"
        if name not in self.values:
            array: Any = np.array([bits], f"u{size // 8}").view(f"{kind[0]}{size // 8}")
            array.flags.writeable = False
            self.values[name] = array
        return name


def convert_float(operand: PtxOperand, kind: str) -> int:
    """The bits of a floating-point constant, in the type that an instruction reads."""
    if width(kind) == 32 and operand.name == "f64":
        number = np.array([operand.value], np.uint64).view(np.float64)
        return int(number.astype(np.float32).view(np.uint32)[0])
    if width(kind) == 64 and operand.name == "f32":
        number = np.array([operand.value], np.uint32).view(np.float32)
        return int(number.astype(np.float64).view(np.uint64)[0])
    return operand.value


# ---- where variables are


@dataclass(slots=True)
class MemoryLayout:
    """Where an entry point's variables are: offsets in shared and local memory."""

    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    windows: bool = False  # are there addresses of shared or local memory without a space?

    def add_local(self, name: str, variable: PtxVariable) -> None:
        """Gives a local variable of a function its offset, under a name."""
        self.local[name] = at = round_up(self.local_bytes, variable.alignment)
        self.local_bytes = at + variable.nbytes

    def add_shared(self, variable: PtxVariable) -> None:
        """Gives a shared variable its offset; the one without a size comes after all others."""
        if variable.name in self.shared:
            return
        if variable.external and not variable.nbytes:
            self.shared[variable.name] = -variable.alignment
            return
        self.shared[variable.name] = at = round_up(self.shared_bytes, variable.alignment)
        self.shared_bytes = at + variable.nbytes

    def finish(self) -> None:
        """Places dynamic shared memory behind all static variables."""
        dynamic = [-offset for offset in self.shared.values() if offset < 0]
        self.shared_bytes = round_up(self.shared_bytes, max([16, *dynamic]) if dynamic else 1)
        for name, offset in self.shared.items():
            if offset < 0:
                self.shared[name] = self.shared_bytes


def offsets(variables: Iterable[PtxVariable]) -> tuple[dict[str, int], int]:
    """Offsets of parameters of an entry point by name, and the number of bytes of all."""
    at = 0
    by_name: dict[str, int] = {}
    for variable in variables:
        by_name[variable.name] = at = round_up(at, variable.alignment)
        at += variable.nbytes
    return by_name, at


def round_up(at: int, alignment: int) -> int:
    """The next multiple of an alignment."""
    return -(-at // alignment) * alignment

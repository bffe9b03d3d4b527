"""What an instruction does, as a row of data: `form("add.rn.ftz.f32")`.

A `Form` says how each operand is read (as which type) and gives the Python expression of each
result. The expressions are what the generated code of a kernel consists of; functions in them are
those of `numeric`, `integer` and `convert`, or methods of the machine `m`. Forms of memory and
control flow have no expression: `kind` names the function that generates their code.

Types are those of NumPy by their size in bits (u32, i32, f32, ...), "pred", and some with a
meaning:

* x16, x32, x64: an integer of which the sign does not matter, in the signedness of the result;
* b16, b32, b64: bits that are only moved, in the type of the result;
* u32>u64 and its like: read as the first type, and widened to the second; shift: an amount;
* f16x2, u16x2, i16x2, f32x2: words as rows of two numbers;
* address: an operand in brackets; u32* and its like: all elements of a vector.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from drjit.jit.cuda.emulator.errors import UnknownInstruction


@dataclass(slots=True)
class Form:
    """How the operands of an instruction are read, and the expressions of its results."""

    results: tuple[str, ...]
    sources: tuple[str, ...]
    texts: tuple[str, ...] = ()
    # The results may be NaN with a payload: see `numeric.canonical`.
    arithmetic: bool = False
    kind: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    # Operands that are not written: the carry flag.
    hidden_results: tuple[str, ...] = ()
    hidden_sources: tuple[str, ...] = ()
    # How many of the leading operands are written to.
    destinations: int = 1

    @property
    def tuple_size(self) -> int:
        """The least number of values if the expression gives a tuple of them; 0 if it does not."""
        several = len(self.results) > 1 or self.sources[:1] in (("u32*",), ("address",))
        return len(self.results) if self.kind == "warp" and several else 0

    @property
    def uses_place(self) -> bool:
        """Whether an expression is of a method of the machine for the threads that execute."""
        return any("(place" in text for text in self.texts)


Rule = Callable[[list[str]], Form]
F = TypeVar("F", bound=Rule)
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[F], F]:
    """Registers a function from the qualifiers of an instruction (what follows its name, which
    comes first) to its form."""

    def register(function: F) -> F:
        for name in names:
            RULES[name] = function
        return function

    return register


@lru_cache(maxsize=4096)
def form(opcode: str) -> Form:
    """The form of an instruction with all its qualifiers. Raises `UnknownInstruction`."""
    q = opcode.split(".")
    if q[0] not in RULES and q[0] not in EXPRESSIONS:
        raise UnknownInstruction(f"unknown instruction {opcode}")
    try:
        return RULES[q[0]](q) if q[0] in RULES else _expression(q, *EXPRESSIONS[q[0]])
    except (KeyError, IndexError, ValueError):
        raise UnknownInstruction(f"unknown variant of an instruction: {opcode}") from None


# Instructions that are one expression, with the types of their result and operands. T stands for
# the type of the instruction, X for that with or without a sign.
EXPRESSIONS = {
    "and": ("X", "X X", "{0} & {1}"),
    "or": ("X", "X X", "{0} | {1}"),
    "xor": ("X", "X X", "{0} ^ {1}"),
    "not": ("X", "X", "~{0}"),
    # NumPy, like PTX, shifts by more than the width as if bit by bit.
    "shl": ("X", "X shift", "{0} << {1}"),
    "shr": ("T", "T shift", "{0} >> {1}"),
    "rem": ("T", "T T", "remainder({0}, {1})"),
    "popc": ("u32", "T", "np.bitwise_count({0}).astype(u32)"),
    "clz": ("u32", "T", "lzcnt({0}).astype(u32)"),
    "brev": ("T", "T", "brev({0})"),
    "bfe": ("T", "T u32 u32", "extract_field({0}, {1}, {2})"),
    "bfi": ("T", "T T u32 u32", "insert_field({0}, {1}, {2}, {3})"),
    "copysign": ("T", "T T", "np.copysign({1}, {0})"),
    "prmt": ("u32", "u32 u32 u32", "permute({0}, {1}, {2})"),
    "lop3": ("u32", "u32 u32 u32 number", "logic3({0}, {1}, {2}, {3})"),
}


def _expression(q: list[str], result: str, sources: str, text: str) -> Form:
    if len(q) > 2:
        raise KeyError
    types = {"T": code(q[-1]), "X": free(q[-1])}
    kinds = [types.get(name, name) for name in (result, *sources.split())]
    return Form((kinds[0],), tuple(kinds[1:]), (text,))


def code(name: str) -> str:
    """The type in which an operand is read: "s32" becomes "i32", "b32" "u32"."""
    if name[0] == "b" and name[1:].isdigit():
        return "u" + name[1:]
    if name[0] == "s" and name[1:2].isdigit():
        return "i" + name[1:]
    if name in _KNOWN:
        return name
    raise KeyError(name)


def free(name: str) -> str:
    """The same for an operation that treats signed and unsigned numbers alike."""
    kind = code(name)
    return "x" + kind[1:] if kind[0] in "iu" and "x" not in kind else kind


def is_float(kind: str) -> bool:
    return kind[0] == "f"


_KNOWN = {
    "u8", "u16", "u32", "u64", "f16", "f32", "f64", "f16x2", "u16x2", "f32x2",
    "i16x2", "pred",
}  # fmt: skip

# Types of pairs: of their halves, and of the words.
PAIRS = {
    "f16x2": ("f16", "u32"),
    "u16x2": ("u16", "u32"),
    "i16x2": ("i16", "u32"),
    "f32x2": ("f32", "u64"),
}


def width(kind: str) -> int:
    """The size of a register that holds an operand of a type, in bits; 1 of a predicate."""
    if kind == "pred":
        return 1
    if kind in PAIRS:
        return int(PAIRS[kind][1][1:])
    return int(kind[1:])


def half_of(kind: str) -> str:
    """The type that is computed with: of pairs, that of their halves."""
    return PAIRS[kind][0] if kind in PAIRS else kind

"""What an instruction does, as a row of data: `form("add.rn.ftz.f32")`.

A `Form` says how each operand is read (as which type) and gives the Python expression of each
result. The expressions are what the generated code of a kernel consists of; functions in them are
those of `numeric`, `integer` and `convert`. Forms of memory, control flow and warps have no
expression: `kind` names the function that generates their code.

Types are those of NumPy by their size in bits (u32, i32, f32, ...), "pred", and some with a
meaning:

* x16, x32, x64: an integer of which the sign does not matter, in the signedness of the result;
* b16, b32, b64: bits that are only moved, in the type of the result;
* u32>u64 and its like: read as the first type, and widened to the second; shift: an amount;
* f16x2, bf16x2, u16x2, i16x2, f32x2: words as rows of two numbers; bf16: float32 after widening;
* address: an operand in brackets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

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


Rule = Callable[[list[str]], Form]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a function from the qualifiers of an instruction (what follows its name, which
    comes first) to its form."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


@lru_cache(maxsize=4096)
def form(opcode: str) -> Form:
    """The form of an instruction with all its qualifiers. Raises `UnknownInstruction`."""
    name, *qualifiers = opcode.split(".")
    function = RULES.get(name)
    if function is None:
        raise UnknownInstruction(f"unknown instruction {opcode}")
    try:
        return function([name, *qualifiers])
    except (KeyError, IndexError, ValueError):
        raise UnknownInstruction(f"unknown variant of an instruction: {opcode}") from None


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
    return kind[0] == "f" or kind.startswith("bf")


_KNOWN = {
    "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bf16", "f16x2", "bf16x2", "u16x2", "f32x2",
    "i16x2", "pred",
}  # fmt: skip

# Types of pairs: of their halves, and of the words.
PAIRS = {
    "f16x2": ("f16", "u32"),
    "bf16x2": ("bf16", "u32"),
    "u16x2": ("u16", "u32"),
    "i16x2": ("i16", "u32"),
    "f32x2": ("f32", "u64"),
}


def width(kind: str) -> int:
    """The size of a register that holds an operand of a type, in bits; 1 of a predicate."""
    if kind == "pred":
        return 1
    if kind == "bf16":
        return 16
    if kind in PAIRS:
        return int(PAIRS[kind][1][1:])
    return int(kind[1:])


def half_of(kind: str) -> str:
    """The type that is computed with: of pairs, that of their halves."""
    return PAIRS[kind][0] if kind in PAIRS else kind

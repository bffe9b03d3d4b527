"""What is known about a user's kernel text while it is read: where it is from, its words, checks
and lines so far, and the values of its expressions."""

import ast
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir import op
from ...ir.dtype import DType
from ...tuples import NamedTuple
from ..program import Instr
from .words import KINDS, WITHOUT_ARRAYS, Check, TextWord

if TYPE_CHECKING:
    from .statements import FunctionReader


class Source(NamedTuple):
    """Where a text is from: the name of its kernel, its file, the number of the line before it, its
    lines and their indentation, and the code that messages about launches name. `constant` looks
    up a number that the text refers to by name, or raises KeyError."""

    title: str
    file: str
    above: int
    lines: list[str]
    indent: int
    code: Any
    constant: Callable[[str], Any]

    def error(self, message: str, node: Any) -> SyntaxError:
        """Returns the error for a part of the text."""
        number = node.lineno
        text, statement = self.lines[number - 1], self.statement(number).removesuffix(":")
        column = node.col_offset + self.indent + 1
        place = (self.file, self.above + number, column, " " * self.indent + text + "\n")
        return SyntaxError(f"{statement}: {message}", place)

    def statement(self, number: int) -> str:
        """Returns a line without its comment."""
        return self.lines[number - 1].partition("  #")[0].strip()


class BoundedIndex(NamedTuple):
    """An index that is within the bounds of a check where a mask holds."""

    index: str
    version: int
    check: Check


ACTIVE: Any = BoundedIndex("", 0, None)  # type: ignore[arg-type]
"""What a mask implies that has no lanes beyond the end of the launch. The values of those lanes are
arbitrary, so accesses to memory, loops and calls need such a mask."""


class Expression(NamedTuple):
    """An expression in the new text, or a variable: its text; its types, none for a number without
    one; whether it is `simple` enough to be an operand; its `number`; whether it is a signed
    integer reinterpreted as unsigned; what a mask `implies`; and, for the number of an exception,
    the function that raised it."""

    text: str
    types: tuple[DType, ...] = ()
    simple: bool = False
    number: Any = None
    signed: bool = False
    implies: frozenset[BoundedIndex] = frozenset()
    raised: Any = None
    literal: int = 0  # the word that it loads as a whole
    each: tuple[frozenset[BoundedIndex], ...] = ()  # what each of several masks implies
    version: int = 0  # the number of a variable's assignment


class Line(NamedTuple):
    """A line of the new text: its depth, its text, with words numbered as in the user's text, and
    the number of the user's line that it is from."""

    depth: int
    text: str
    number: int


class Reading:
    """What has been read of a text: its lines, its words, its checks, each in a word of its own,
    and instructions of which only the cost matters."""

    def __init__(self, source: Source, parameters: Sequence[str] | None) -> None:
        self.source = source
        # The words by name, if the text gives them names.
        self.named = {name: k for k, name in enumerate(parameters or (), 1)}
        self.words: dict[int, TextWord] = {}
        self.checks: dict[int, Check] = {}
        self.relative: set[int] = set()
        self.instrs: list[Instr] = []
        self.functions: dict[str, FunctionReader] = {}
        self.lines: list[Line] = []
        self.has_vectors = False
        self.next_word = 1 << 20  # beyond those of the text
        self.taken: set[str] = set()
        self.count = 0

    def fresh(self) -> str:
        """Returns a name that does not occur in the text."""
        while True:
            name = f"t{self.count}"
            self.count += 1
            if name not in self.taken:
                return name

    def new_check(self, check: Check) -> int:
        """Returns a word for another check."""
        self.next_word += 1
        self.checks[self.next_word] = check
        return self.next_word

    def claim(self, node: ast.expr, k: int, kind: str, dtype: DType, where: str) -> TextWord:
        """Returns word `k`, which a statement uses.

        Raises:
            SyntaxError: another statement uses it as something else.
        """
        if k == 0:
            raise self.source.error("p[0] is the error record: parameters begin at p[1]", node)
        code = dtype.element.code
        if dtype.element in WITHOUT_ARRAYS and kind not in ("number", "count", "hidden"):
            raise self.source.error(
                f"there are no arrays of {code}: convert from or to another type, as in "
                f"{code}(load({code[0]}32, ...))",
                node,
            )
        name = {v: name for name, v in self.named.items()}.get(k, f"p[{k}]")
        word = self.words.get(k)
        if word is None:
            word = self.words[k] = TextWord(kind, dtype, where, name if self.named else f"p{k}")
        elif kind != word.kind or kind in ("store", "reduced"):
            again = " again" if kind == word.kind else ""
            raise self.source.error(
                f"{name} is {KINDS[kind]}{again}, but in {word.where} it is "
                f"{KINDS[word.kind]}; a word has one purpose",
                node,
            )
        elif dtype is not word.dtype:
            raise self.source.error(
                f"{name} has the element type {dtype.code}, but in {word.where} it has "
                f"{word.dtype.code}",
                node,
            )
        return word


def spelling(x: float) -> str:
    """Returns a number as kernel text spells it."""
    return repr(x).replace("inf", "1e999") if isinstance(x, float) and math.isinf(x) else repr(x)


def instruction(o: op.Op, t: DType, rounds: int, data: Any = None) -> Instr:
    """Returns an instruction of which only the cost matters."""
    return Instr(o, t, (), data, 0, "", rounds)

"""Translation of calls in kernel text: one function per name, and the parsing of arguments."""

import ast
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from .ir import BITS, NUMBER, Function, Value

if TYPE_CHECKING:
    from .translate import Translator

# Translators of calls whose arguments are not all plain operands.
CALLS: dict[str, Callable] = {}
# Translators of several consecutive statements that access elements of 32 bits or more at one
# index, by function.
RUNS: dict[str, Callable] = {}
# Minimum number of consecutive accesses with the same index for which testing for adjacent elements
# pays off.
FEWEST = 3


def statement(kinds: str, calls: dict[str, Callable] = CALLS) -> Callable[[Callable], Callable]:
    """Registers a function as the translator of calls with its name. It receives the translator and
    the arguments, parsed according to the listed kinds: methods of `Translator`, or `operand`,
    which has the type that a preceding argument names. A star precedes the kind of all further
    arguments; the lanes are omitted. Arguments are not checked: what writes a text, or reads that
    of a user, has seen to it.
    """
    *names, last = kinds.split()
    more = last.removeprefix("*") if last.startswith("*") else None
    names += [last] if more is None else []
    alone = more is None and not {"operand", "lane_range"} & {*names}

    def register(function: Callable) -> Callable:
        def translated(t: "Translator", *nodes: ast.expr) -> Any:
            if alone and len(nodes) == len(names):  # no argument depends on another
                return function(t, *[getattr(t, kind)(e) for kind, e in zip(names, nodes)])  # noqa: B905
            return function(t, *t.arguments(names, more, nodes))

        calls[function.__name__] = translated
        return function

    return register


def given(name: str) -> str:
    """Returns the IR name of a parameter of a function in the text."""
    return f"%given.{name}"


def grouped(statements: Iterable[ast.stmt]) -> list[list[Any]]:
    """Groups consecutive statements that `RUNS` translates together."""
    found: list[list[Any]] = []
    for place, statements_there in groupby(statements, _place):
        run = [*statements_there]
        found += [run] if place and len(run) >= FEWEST else [[s] for s in run]
    return found


def _place(s: ast.stmt) -> tuple[str, ...] | None:
    """Returns what the statements of a run have in common: the function, index and mask."""
    call = getattr(s, "value", None)
    if type(call) is not ast.Call or type(call.func) is not ast.Name or call.func.id not in RUNS:
        return None
    kind, x, m = call.args[0], *call.args[-2:]
    if type(kind) is ast.Name and BITS.get(kind.id, 0) >= 32:
        return call.func.id, ast.unparse(x), ast.unparse(m)
    return None


class Arguments:
    """Parses arguments: the part of a translator that statements depend on."""

    f: Function
    has_many_words: bool

    def expr(self, e: ast.expr) -> Any:
        """Translates an expression with one result, several, or none."""
        raise NotImplementedError

    def arguments(self, kinds: list[str], more: str | None, nodes: Sequence[ast.expr]) -> list[Any]:
        """Returns the arguments of a call, each parsed by the method that its kind names; all
        further ones have the same kind, if they are allowed."""
        if more is not None:
            kinds = kinds + [more] * (len(nodes) - len(kinds))
        code = ""
        values: list[Any] = []
        for kind, e in zip(kinds, nodes, strict=True):
            if kind == "operand":
                values.append(self.typed(e, code)[1])
            elif kind != "lane_range":
                values.append(getattr(self, kind)(e))
                code = values[-1] if kind == "type" else code
        return values

    def node(self, e: ast.expr) -> ast.expr:
        """An argument that the statement itself examines."""
        return e

    def type(self, e: Any) -> str:
        """An argument that names an element type."""
        return e.id

    def typed(self, e: ast.expr, code: str = "") -> Value:
        """A typed argument: a number takes the given type, which anything else has."""
        value = self.expr(e)
        return (code, self.f.constant(code, value[1])) if value[0] == NUMBER else value

    index = typed  # unsigned

    def mask(self, e: ast.expr) -> str:
        """An argument that is a mask."""
        return self.typed(e, "mask")[1]

    def parameter(self, e: Any) -> int:
        """An argument `p[k]`: its index."""
        return e.slice.value

    def word(self, e: ast.expr) -> str:
        """The word that is an argument `p[k]`."""
        f, k = self.f, self.parameter(e)
        return f.word_here(k) if self.has_many_words else f.word(k)

    def pointer(self, e: ast.expr) -> str:
        """The address that an argument `p[k]` holds."""
        f, k = self.f, self.parameter(e)
        if self.has_many_words:
            return f.op(f"inttoptr i64 {f.word_here(k)} to ptr")
        return f.pointer(k)

    def spelled(self, e: Any) -> Any:
        """An argument that the text spells out."""
        return e.value

    integer = text = flag = reduction = spelled

    def whole(self, e: ast.expr) -> str:
        """An argument that is an integer for all lanes: a constant, or `s + 1` where `s` is a
        parameter of the function.
        """
        if type(e) is ast.BinOp and type(e.op) is ast.Add and type(e.left) is ast.Name:
            return self.f.op(f"add i64 {given(e.left.id)}, {self.integer(e.right)}")
        return str(self.integer(e))

"""Translation of calls in kernel text: one function per name, and the parsing of arguments."""

import ast
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ...ir.dtype import BY_CODE
from ...ir.op import REDUCTIONS
from .ir import BITS, NUMBER, SCALAR, Function, KernelError, Value

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
    arguments; the lanes are checked and omitted.
    """
    *names, last = kinds.split()
    more = last.removeprefix("*") if last.startswith("*") else None
    names += [last] if more is None else []
    alone = more is None and not {"operand", "reduction", "lane_range"} & {*names}

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
    is_kernel: bool
    has_many_words: bool

    def expr(self, e: ast.expr) -> Any:
        """Translates an expression with one result, several, or none."""
        raise NotImplementedError

    def arguments(self, kinds: list[str], more: str | None, nodes: Sequence[ast.expr]) -> list[Any]:
        """Returns the arguments of a call, each parsed by the method that its kind names; all
        further ones have the same kind, if they are allowed."""
        if more is not None:
            kinds = kinds + [more] * (len(nodes) - len(kinds))
        if len(kinds) != len(nodes):
            raise KernelError(f"{len(kinds)} arguments expected")
        code: str | None = None
        values: list[Any] = []
        for kind, e in zip(kinds, nodes, strict=True):
            if kind == "operand":
                values.append(self.typed(e, code)[1])
                continue
            value = getattr(self, kind)(e)
            if kind == "type":
                code = value
            elif kind == "reduction" and (
                value not in REDUCTIONS or not REDUCTIONS[value].accepts(BY_CODE[code or ""])
            ):
                raise KernelError(f"a reduction '{value}' of {code} does not exist")
            if kind != "lane_range":
                values.append(value)
        return values

    def node(self, e: ast.expr) -> ast.expr:
        """An argument that the statement itself examines."""
        return e

    def type(self, e: ast.expr) -> str:
        """An argument that names an element type."""
        if type(e) is not ast.Name or e.id not in SCALAR:
            raise KernelError(f"{ast.unparse(e)} is not an element type")
        return e.id

    def typed(self, e: ast.expr, code: str | None = None) -> Value:
        """A typed argument: a number takes the given type; anything else must have it."""
        value = self.expr(e)
        if value is None or type(value[0]) is tuple:
            raise KernelError("one value expected")
        if value[0] == NUMBER:
            if code is None:
                raise KernelError(f"{ast.unparse(e)} has no type")
            return code, self.f.constant(code, value[1])
        if code is not None and value[0] != code:
            raise KernelError(f"{ast.unparse(e)} is {value[0]}, not {code}")
        return value

    def mask(self, e: ast.expr) -> str:
        """An argument that is a mask."""
        return self.typed(e, "mask")[1]

    def parameter(self, e: ast.expr) -> int:
        """An argument `p[k]`: its index."""
        if (
            type(e) is ast.Subscript
            and type(e.value) is ast.Name
            and e.value.id == "p"
            and type(e.slice) is ast.Constant
            and type(e.slice.value) is int
            and self.is_kernel
        ):
            return e.slice.value
        raise KernelError(f"{ast.unparse(e)} is not a word of the parameter block")

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

    def index(self, e: ast.expr) -> Value:
        """An argument that is an unsigned index."""
        value = self.typed(e, None)
        if value[0] not in ("u32", "u64"):
            raise KernelError(f"{ast.unparse(e)} is {value[0]}, not an index (u32 or u64)")
        return value

    def integer(self, e: ast.expr) -> int:
        """An argument that is a constant integer."""
        if type(e) is ast.Constant and type(e.value) is int:
            return e.value
        raise KernelError(f"{ast.unparse(e)} is not a constant integer")

    def whole(self, e: ast.expr) -> str:
        """An argument that is an integer for all lanes: a constant, or `s + 1` where `s` is a
        parameter of the function.
        """
        if type(e) is ast.BinOp and type(e.op) is ast.Add and type(e.left) is ast.Name:
            return self.f.op(f"add i64 {given(e.left.id)}, {self.integer(e.right)}")
        return str(self.integer(e))

    def text(self, e: ast.expr) -> str:
        """An argument that is a string."""
        if type(e) is ast.Constant and type(e.value) is str:
            return e.value
        raise KernelError(f"{ast.unparse(e)} is not a string")

    reduction = text  # the name of an operation defined for the preceding type

    def flag(self, e: ast.expr) -> bool:
        """An argument that is `True` or `False`."""
        if type(e) is ast.Constant and type(e.value) is bool:
            return e.value
        raise KernelError(f"{ast.unparse(e)} is neither True nor False")

    def lane_range(self, e: ast.expr) -> None:
        """The argument `i`."""
        if type(e) is not ast.Name or e.id != "i" or not self.is_kernel:
            raise KernelError(f"{ast.unparse(e)} is not the lanes of the packet, i")

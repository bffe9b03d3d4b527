"""Calls in kernel text: the functions that translate them, by name, and runs of calls."""

import ast
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from .ir import BITS

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
    arguments; the lanes are omitted. Arguments are not checked here: whatever writes a text, or
    reads a user's, has done so.
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


def parameter_name(name: str) -> str:
    """Returns the IR name of a parameter of a function in the text."""
    return f"%given.{name}"


def grouped(statements: Iterable[ast.stmt]) -> list[list[Any]]:
    """Groups consecutive statements that `RUNS` translates together."""
    groups: list[list[Any]] = []
    for key, consecutive in groupby(statements, _run_key):
        run = [*consecutive]
        groups += [run] if key and len(run) >= FEWEST else [[s] for s in run]
    return groups


def _run_key(s: ast.stmt) -> tuple[str, ...] | None:
    """Returns what the statements of a run have in common: the function, index and mask."""
    call = getattr(s, "value", None)
    if type(call) is not ast.Call:
        return None
    function, args = cast("ast.Name", call.func), call.args
    if function.id in RUNS and BITS[cast("ast.Name", args[0]).id] >= 32:
        return function.id, *map(ast.unparse, args[-2:])
    return None

"""Liveness of values in kernel text: finds last uses, after which the memory of vectors is free."""

import ast
from collections.abc import Iterator

from ..language import STATEMENTS, target_names


def vector_names(statements: list[ast.stmt], known: set[str] | None = None) -> set[str]:
    """Returns the names that stand for vectors, including those in `known`."""
    names = set() if known is None else known
    for s in statements:
        if isinstance(s, ast.If | ast.While):
            vector_names(s.body, names)
        elif type(s) is ast.Assign and _is_vector(s.value, names):
            names.update(target_names(s))
    return names


def _is_vector(e: ast.expr, names: set[str]) -> bool:
    if type(e) is ast.Call and type(e.func) is ast.Name:
        statement = STATEMENTS.get(e.func.id)
        if statement is not None:
            return statement.result == "V"
    return any(name in names for name in _names(e))


def _names(e: ast.AST) -> Iterator[str]:
    """Yields the names in an expression, except functions, constants and `p`."""
    waiting = [e]
    while waiting:
        e = waiting.pop()
        kind = type(e)
        if kind is ast.Name:
            yield e.id  # type: ignore[attr-defined]
        elif kind is ast.Call:
            waiting += e.args  # type: ignore[attr-defined]
        elif kind is not ast.Constant and kind is not ast.Subscript:
            waiting += ast.iter_child_nodes(e)


def last_uses(statements: list[ast.stmt], names: set[str]) -> dict[int, list[str]]:
    """Returns for each statement (by `id`) the names that are not needed after it.

    A name that a loop needs lives as long as the loop.
    """
    result: dict[int, list[str]] = {}
    _before(statements, set(), names, result)
    return result


def most_alive(body: list[ast.stmt]) -> int:
    """Returns how many values are needed at one time, at most, in a body without control flow."""
    names = [target_names(s) if type(s) is ast.Assign else () for s in body]
    over = last_uses(body, {name for some in names for name in some})
    alive = most = 0
    for s, some in zip(body, names, strict=True):
        alive += len(some)
        most = max(most, alive)
        alive -= len(over.get(id(s), ()))
    return most


def _before(
    body: list[ast.stmt], live: set[str], names: set[str], over: dict[int, list[str]] | None
) -> set[str]:
    """Returns the names needed before a body, given those needed after it. `over` collects the
    names that each statement is the last to use."""
    live = set(live)
    for s in reversed(body):
        if type(s) is ast.While:
            again = live | _before(s.body, live, names, None)
            _before(s.body, again, names, over)
            if over is not None:
                over[id(s)] = sorted(again - live)
            live = again
        elif type(s) is ast.If:
            live |= _before(s.body, live, names, over)
        elif isinstance(s, ast.Assign | ast.Expr):
            defined = set(target_names(s)) & names if type(s) is ast.Assign else set()
            used = names.intersection(_names(s.value))
            ended = (defined | used) - live
            if over is not None and ended:
                over[id(s)] = sorted(ended)
            live = (live - defined) | used
    return live

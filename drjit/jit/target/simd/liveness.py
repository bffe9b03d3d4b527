"""Where the vectors of a kernel text are last used: the memory that they lie in is free from there
on.
"""

import ast
from collections.abc import Iterator

# Calls that give a vector whatever they are given, and calls that never do.
_MAKES = frozenset({"vector", "splat", "matvec", "put"})
_ENDS = frozenset({"feature", "take", "total"})


def vector_names(statements: list[ast.stmt]) -> set[str]:
    """The names that stand for vectors."""
    names: set[str] = set()

    def visit(body: list[ast.stmt]) -> None:
        for s in body:
            if isinstance(s, ast.If | ast.While):
                visit(s.body)
            elif type(s) is ast.Assign and _is_vector(s.value, names):
                names.update(targets(s))

    visit(statements)
    return names


def _is_vector(e: ast.expr, names: set[str]) -> bool:
    if type(e) is ast.Call and type(e.func) is ast.Name:
        if e.func.id in _MAKES:
            return True
        if e.func.id in _ENDS:
            return False
    return any(name in names for name in _names(e))


def _names(e: ast.expr) -> Iterator[str]:
    """The names in an expression, those of functions and of `p` included."""
    for node in ast.walk(e):
        if type(node) is ast.Name:
            yield node.id


def targets(s: ast.Assign) -> list[str]:
    """The names that an assignment gives a value."""
    (target,) = s.targets
    nodes = target.elts if type(target) is ast.Tuple else [target]
    return [node.id for node in nodes if type(node) is ast.Name]


def last_uses(statements: list[ast.stmt], names: set[str]) -> dict[int, list[str]]:
    """For statements (by `id`) those of the names that nothing needs after them.

    A name that a loop needs lives as long as the loop does.
    """
    result: dict[int, list[str]] = {}

    def before(body: list[ast.stmt], live: set[str], note: bool) -> set[str]:
        """The names that are needed before a body, given those that are needed after it."""
        live = set(live)
        for s in reversed(body):
            if type(s) is ast.While:
                again = live | before(s.body, live, False)
                before(s.body, again, note)
                if note:
                    result[id(s)] = sorted(again - live)
                live = again
            elif type(s) is ast.If:
                live |= before(s.body, live, note)
            elif isinstance(s, ast.Assign | ast.Expr):
                given = set(targets(s)) & names if type(s) is ast.Assign else set()
                used = names.intersection(_names(s.value))
                over = (given | used) - live
                if note and over:
                    result[id(s)] = sorted(over)
                live = (live - given) | used
        return live

    before(statements, set(), True)
    return result

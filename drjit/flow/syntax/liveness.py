"""Liveness analysis: which names the statements of a function read and write, and which variables
are live.

A variable is live if its value may still be read before it is overwritten. The analysis walks the
statements of one function backwards. Where details are unknown, as for exceptions, it assumes that
anything can happen.
"""

import ast
from collections.abc import Iterable
from typing import Any

Names = frozenset[str]
NONE: Names = frozenset()

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def parameters(args: ast.arguments) -> list[str]:
    """Returns the names of a function's parameters."""
    found = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return found + [a.arg for a in (args.vararg, args.kwarg) if a is not None]


class _Uses(ast.NodeVisitor):
    """The names that an expression or simple statement reads and writes; `augmented` are those
    changed by in-place operators, `bound` those assigned in other ways."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.augmented: set[str] = set()
        self.bound: set[str] = set()

    @property
    def writes(self) -> set[str]:
        return self.augmented | self.bound

    def visit_all(self, nodes: Iterable[Any]) -> "_Uses":
        for n in nodes:
            if n is not None:
                self.visit(n)
        return self

    def visit_Name(self, node: ast.Name) -> None:
        (self.reads if isinstance(node.ctx, ast.Load) else self.bound).add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.reads.add(node.target.id)
            self.augmented.add(node.target.id)
        else:
            self.visit(node.target)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.target)
            self.visit(node.value)

    def visit_alias(self, node: ast.alias) -> None:
        self.bound.add((node.asname or node.name).partition(".")[0])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # type: ignore[assignment]

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.bound.add(node.rest)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: Any) -> None:
        self.bound.add(node.name)
        self.visit_all([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults])
        self._inner(node.body, parameters(node.args))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        self._inner([node.body], parameters(node.args))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        self.visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._inner(node.body, [])

    def _comprehension(self, node: Any) -> None:
        inner = _Uses()
        inner.generic_visit(node)
        targets = _Uses()
        for g in node.generators:
            targets.visit(g.target)
        self.reads |= inner.reads - targets.writes
        self.bound |= inner.writes - targets.writes  # by assignment expressions

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _inner(self, body: list, own: Iterable[str]) -> None:
        """Adds the names that a nested function or class takes from outside."""
        inner = _Uses()
        declared: set[str] = set()
        for s in body:
            inner.visit(s)
            for n in ast.walk(s):
                if isinstance(n, (ast.Nonlocal, ast.Global)):
                    declared.update(n.names)
        self.reads |= (inner.reads - inner.writes - set(own)) | (inner.reads & declared)
        self.reads |= inner.writes & declared


def reads(*nodes: Any) -> Names:
    """Returns the names that expressions or statements read."""
    return frozenset(uses(nodes).reads)


def writes(*nodes: Any) -> Names:
    """Returns the names that expressions or statements assign or delete."""
    return frozenset(uses(nodes).writes)


def uses(nodes: Iterable[Any]) -> _Uses:
    """Returns the names that expressions or statements read and write."""
    return _Uses().visit_all(nodes)


def all_writes(body: Iterable[ast.stmt]) -> Names:
    """Returns the names that statements assign, including nested ones."""
    found = uses(body).writes
    for s in body:
        for n in ast.walk(s):
            if isinstance(n, ast.ExceptHandler) and n.name:
                found.add(n.name)
    return frozenset(found)


class Live:
    """Live variables, from the last statement of a function to the first.

    `after[s]` are those after a loop or branch `s`; `entry[s]` are those at the test of a loop, or
    at the beginning of either side of a branch.
    """

    def __init__(self, body: list[ast.stmt]) -> None:
        self.after: dict[ast.stmt, Names] = {}
        self.entry: dict[ast.stmt, Names] = {}
        self._always: Names = NONE  # what exception handlers may read
        self._break: Names = NONE
        self._continue: Names = NONE
        self.start = self.block(body, NONE)

    def block(self, body: Iterable[ast.stmt], live: Names) -> Names:
        """Returns the names live before statements, given those live after them."""
        for s in reversed(list(body)):
            live = self.statement(s, live) | self._always
        return live

    def statement(self, s: ast.stmt, live: Names) -> Names:
        """Returns the names live before a statement."""
        match s:
            case ast.If():
                self.after[s] = live
                self.entry[s] = inner = self.block(s.body, live) | self.block(s.orelse, live)
                return reads(s.test) | (inner - writes(s.test))
            case ast.While() | ast.For() | ast.AsyncFor():
                return self._loop(s, live)
            case ast.Try():
                return self._try(s, live)
            case ast.With() | ast.AsyncWith():
                inner = self.block(s.body, live)
                return reads(*s.items) | (inner - writes(*s.items))
            case ast.Match():
                found = live
                for c in s.cases:
                    inner = self.block(c.body, live) | reads(c.guard, c.pattern)
                    found |= inner - writes(c.pattern)
                return found | reads(s.subject)
            case ast.Return() | ast.Raise():
                return reads(s)
            case ast.Break():
                return self._break
            case ast.Continue():
                return self._continue
            case _:
                return reads(s) | (live - writes(s))

    def _loop(self, s: Any, live: Names) -> Names:
        self.after[s] = live
        before = self._break, self._continue
        behind = self.block(s.orelse, live)
        is_while = isinstance(s, ast.While)
        needs, gives = (reads(s.test), writes(s.test)) if is_while else (NONE, writes(s.target))
        entry = needs | behind
        while True:
            self._break, self._continue = live, entry
            inner = self.block(s.body, entry)
            found = needs | behind | ((inner | behind) - gives if is_while else inner - gives)
            if found <= entry:
                break
            entry |= found
        self._break, self._continue = before
        self.entry[s] = entry
        return entry if is_while else entry | reads(s.iter)

    def _try(self, s: Any, live: Names) -> Names:
        always = self._always
        behind = self.block(s.finalbody, live)
        self._always |= behind if s.finalbody else NONE
        handlers = NONE
        for h in s.handlers:
            own = frozenset([h.name]) if h.name else NONE
            handlers |= (self.block(h.body, behind) - own) | reads(h.type)
        other = self.block(s.orelse, behind)
        self._always |= handlers
        inner = self.block(s.body, other)
        self._always = always
        return inner | handlers

"""Inlines parts of functions, see `bytecode.expanded`."""

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..parsing import syntax_tree


def expansion(text: str, file: str, name: str, known: dict[str, bool]) -> ast.Module:
    """Returns the syntax tree of a module that consists of one function, expanded."""
    functions = _functions(text, file)
    parts = {f.name: f for f in functions.values() if "part" in map(_name, f.decorator_list)}
    copy = _Copy(functions[name].args.args[0].arg, parts, known)
    made: ast.FunctionDef = copy.of(functions[name], {})
    lines = [f"{copy.this}_{k} = {copy.this}.{k}" for k in copy.attributes]
    made.body = syntax_tree("\n".join(lines)).body + made.body
    return ast.Module([made], [])


@lru_cache(1)
def _functions(text: str, file: str) -> dict[str, ast.FunctionDef]:
    return {s.name: s for s in syntax_tree(text, file).body if isinstance(s, ast.FunctionDef)}


Names = Mapping[str, ast.expr]
"""The expressions that replace names in a part."""


class _Copy:
    """Copies a function and inlines its parts; `attributes` are those of `this` that it uses."""

    def __init__(
        self, this: str, parts: dict[str, ast.FunctionDef], known: dict[str, bool]
    ) -> None:
        self.this, self.parts, self.known = this, parts, known
        self.attributes: dict[str, None] = {}

    def of(self, node: Any, names: Names) -> Any:
        """Returns the copy of a syntax node, a list of them, or another value."""
        if isinstance(node, list):
            if node and isinstance(node[0], ast.stmt):
                return self.statements(node, names)
            return [self.of(x, names) for x in node]
        if not isinstance(node, ast.AST):
            return node
        if isinstance(node, ast.Name) and node.id in names:
            other = names[node.id]
            if not isinstance(other, ast.Name):
                return other
            made: ast.AST = ast.Name(other.id, node.ctx)
        elif attribute := self.attribute(node):
            self.attributes[attribute] = None
            made = ast.Name(f"{self.this}_{attribute}", node.ctx)  # type: ignore[attr-defined]
        else:
            made = type(node)(**{k: self.of(x, names) for k, x in ast.iter_fields(node)})
        return ast.copy_location(made, node)

    def attribute(self, node: ast.AST) -> str:
        """Returns the name of the attribute of `this` that a node is; nothing for other nodes."""
        if isinstance(node, ast.Attribute) and _name(node.value) == self.this:
            return node.attr
        return ""

    def statements(self, body: Sequence[ast.stmt], names: Names) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for s in body:
            value = getattr(s, "value", None)
            if isinstance(value, ast.Call) and _name(value.func) in self.parts:
                found += self.part(s, value, names)
            elif isinstance(s, ast.If) and self.attribute(s.test) in self.known:
                branch = s.body if self.known[self.attribute(s.test)] else s.orelse
                found += self.statements(branch, names)
            elif not (isinstance(s, ast.Assign) and self.is_ignored(s, names)):
                found.append(self.of(s, names))
        return found

    def is_ignored(self, s: ast.Assign, names: Names) -> bool:
        """Returns whether a part assigns to a variable that is replaced by `_`."""
        return _name(names.get(_name(s.targets[0]), s)) == "_"

    def part(self, s: ast.stmt, call: ast.Call, names: Names) -> list[ast.stmt]:
        """Returns the statements of the part that a statement calls."""
        part = self.parts[_name(call.func)]
        body = part.body[ast.get_docstring(part) is not None :]
        inside = [self.of(x, names) for x in call.args]
        stands = dict(zip([a.arg for a in part.args.args], inside, strict=True))
        if isinstance(s, ast.Assign):
            *body, end = body
            results, targets = end.value.elts, s.targets[0].elts  # type: ignore[attr-defined]
            stands |= {v.id: self.of(x, names) for v, x in zip(results, targets, strict=True)}
        return self.statements(body, stands)


def _name(e: ast.AST) -> str:
    return e.id if isinstance(e, ast.Name) else ""

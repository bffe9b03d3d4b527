"""Statements of a kernel text on one lane, as an exported function has them, and the functions that
branches share.
"""

# Statements have the forms of the language, so that syntax trees are not examined further.
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false

import ast
import re
from collections.abc import Sequence
from typing import Any

from ..language import target_names
from ..simd.parse import functions
from .expressions import FLOATS, CannotExport, Fragment, NameScope
from .module import ExportedModule, assignment
from .statements import EFFECTS, MEMORY, SEVERAL, WHOLE, Fold

_WORD = re.compile(r"\bp\[(\d+)\]")
_COMMENT = re.compile(r"  # (.*)$")


class LaneWriter:
    """Writes the statements of one kernel text."""

    def __init__(
        self, module: ExportedModule, name: str, text: str, first_check: int, checks: int
    ) -> None:
        self.module, self.name, self.first_check, self.checks = module, name, first_check, checks
        definitions = {s.name: s for s in functions(text)}
        self.kernel = definitions.pop("kernel")
        self.bodies = definitions
        self.comments = {
            number: found[1]
            for number, line in enumerate(text.splitlines(), 1)
            if (found := _COMMENT.search(line))
        }
        self.has_checks = "in_bounds(" in text
        self.words = sorted({int(k) for k in _WORD.findall(text)} - {0})
        self.vectors: dict[str, tuple[str, int]] = {}
        self.uniform: list[str] = []
        self.constant_names: set[str] = set()
        self.uniform_vectors: set[str] = set()
        self.whole_names = {
            a.id
            for n in ast.walk(self.kernel)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in WHOLE
            for a in n.args
            if isinstance(a, ast.Name)
        }
        self.reductions: list[Fold] = []
        self.copies: dict[int, Fold] = {}
        self.matrices: list[tuple[int, int, int]] = []
        self.scratch: set[int] = set()
        self.sequential = False
        self.parts: list[Any] = []
        self.open: list[list[Any]] = [self.parts]
        self.scope = self.new_scope({})
        self.body_results: dict[str, tuple[str, ...]] = {}
        self.last_comment = ""

    # ---- Statements of a lane

    def comment(self, s: Any) -> list[str]:
        """Returns the comment of a statement, unless it is that of the previous one."""
        found = self.comments.get(s.lineno)
        if not found or found == self.last_comment:
            return []
        self.last_comment = found
        return [f"# {found}"]

    def lines(self, statements: list[Any]) -> list[str]:
        """Returns the text of statements for one lane."""
        found: list[str] = []
        for s in statements:
            if is_idle(s):
                continue
            found += self.comment(s)
            made = self.statement(s)
            found += [*self.scope.pending(), *made]
        return found

    def statement(self, s: Any) -> list[str]:
        """Returns the text of a statement for one lane."""
        if isinstance(s, ast.While | ast.If):
            test = self.scope.expr(s.test.args[0]).text
            word = "while" if isinstance(s, ast.While) else "if"
            return [f"{word} {test}:", *[f"    {line}" for line in self.lines(s.body)]]
        if isinstance(s, ast.Return):
            parts = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
            values = [self.scope.expr(e) for e in parts]
            self.returned = tuple([v.code for v in values])
            return [f"return {', '.join([v.text for v in values])}"]
        if isinstance(s, ast.Assign):
            return self.assigned(s)
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            return self.effect(s.value.func.id, s.value.args)
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant):
            return []
        raise CannotExport(ast.unparse(s))

    def assigned(self, s: Any) -> list[str]:
        """Returns the text of an assignment."""
        if isinstance(s.value, ast.Call):
            name = s.value.func.id
            if name in SEVERAL:
                return SEVERAL[name](self, target_names(s), s.value.args)
        if isinstance(s.value, ast.Tuple):
            values = [self.scope.expr(e) for e in s.value.elts]
            self.scope.codes.update(zip(target_names(s), [v.code for v in values], strict=True))
            return [f"{', '.join(target_names(s))} = {', '.join([v.text for v in values])}"]
        return [assignment(self.scope, s)]

    def number(self, e: Any) -> int:
        """The number of a word."""
        return e.slice.value

    def word(self, e: Any) -> str:
        """The parameter of a word."""
        return f"p{self.number(e)}"

    def new_scope(self, codes: dict[str, str]) -> NameScope:
        """Returns a scope for expressions of the kernel."""
        scope = NameScope(self.module, codes)
        scope.own = {
            name: (lambda args, rule=rule, scope=scope: rule(self, scope, args))
            for name, rule in MEMORY.items()
        }
        for name in self.bodies:
            scope.own[name] = lambda args, name=name, scope=scope: self.call(name, scope, args)
        return scope

    def element(self, code: str, array: str, at: str) -> str:
        """Returns the value of an element in memory."""
        text = f"{array}[{at}]"
        return f"{self.module.use('from_half')}({text})" if code == "f16" else text

    def put(self, code: str, array: str, at: str, value: Fragment) -> str:
        """Returns the assignment of an element in memory."""
        text = self.scope.typed(value, code).text
        if code == "f16" and not self.is_private(array):
            text = f"{self.module.use('to_half')}({text})"
        return f"{array}[{at}] = {text}"

    def is_private(self, array: str) -> bool:
        """Whether a parameter is a private copy, whose halves are single-precision numbers."""
        return array[1:].isdecimal() and int(array[1:]) in self.copies

    def is_check(self, word: int) -> bool:
        """Whether a word is the size of a bounds check."""
        return self.first_check <= word < self.first_check + self.checks

    def is_float_sum(self, r: Fold) -> bool:
        """Whether a reduction is a sum of floating-point numbers, made in double precision."""
        return r.op == "add" and r.code in FLOATS

    def note_copies(self, op: str, code: str, k: int, args: Sequence[Any]) -> None:
        """Notes a target with private copies; the words of these follow its own."""
        self.copies[k] = Fold(op, code, k)
        words = [self.number(a) for a in args if _is_word(a)]
        at = words.index(k)
        self.scratch.update(words[at + 1 : at + 3])

    # ---- Functions shared by branches

    def call(self, name: str, scope: NameScope, args: list[Any]) -> Fragment:
        """Calls a body of the text."""
        definition = self.bodies[name]
        own = [a.arg for a in definition.args.args[2:]]
        values = [
            Fragment("i64", ast.unparse(a), True) if n in ("s", "n") and annotation_of(d) == "int"
            else scope.expr(a)
            for n, d, a in zip(own, definition.args.args[2:], args[2:], strict=True)
        ]  # fmt: skip
        if name not in self.body_results:
            self.body_results[name] = self.body(definition)
        results = self.body_results[name]
        texts = ", ".join(["i", *self.parameters(), *[v.text for v in values]])
        text = f"{self.name}_{name}({texts})"
        if len(results) == 1:
            return Fragment(results[0], text, True)
        return Fragment("", text, True, several=results)

    def parameters(self) -> list[str]:
        """Returns what all functions of the kernel take of the parameter block."""
        words = [k for k in self.words if not self.is_check(k)]
        return (["error", "sizes"] if self.has_checks else []) + [f"p{k}" for k in words]

    def body(self, definition: ast.FunctionDef) -> tuple[str, ...]:
        """Writes a body of the text; returns its result types."""
        before = self.scope, self.last_comment
        parameters = definition.args.args[2:]
        codes = {a.arg: annotation_of(a) for a in parameters}
        self.scope = self.new_scope({n: c for n, c in codes.items() if c != "int"})
        self.returned: tuple[str, ...] = ()
        self.last_comment = ""
        lines = self.lines(definition.body)
        self.scope, self.last_comment = before
        names = ", ".join(["i", *self.parameters(), *codes])
        text = "\n".join([f"    {line}" for line in lines])
        self.module.use("helper")
        head = f"@helper\ndef {self.name}_{definition.name}({names}):"
        self.module.kernels.append(f"{head}\n{text}")
        return self.returned

    # ---- Effects

    def effect(self, name: str, args: list[Any]) -> list[str]:
        """Returns the text of a call for its effect."""
        rule = EFFECTS.get(name)
        if rule is None:
            results = self.scope.own[name](args) if name in self.bodies else None
            if results is None:
                raise CannotExport(f"{name}() has no scalar form")
            return [results.text]
        return rule(self, args)


def annotation_of(a: ast.arg) -> str:
    return a.annotation.id


def is_idle(s: Any) -> bool:
    """Whether a statement does nothing for a single lane, as `m = going(p, m)`."""
    call = isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and s.value
    return bool(call) and call.func.id == "going" and target_names(s) == [call.args[1].id]


def _is_word(e: Any) -> bool:
    return isinstance(e, ast.Subscript)

"""Statements of a kernel text that a user wrote, and functions of such a text."""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...ir import dtype as dt
from ...ir import op
from ...ir.dtype import BY_CODE, DType
from ...ir.nesting import ASSUMED_ITERATIONS
from ...target import language
from ...target.language import assigned
from ..program import Instr, Loop
from .expressions import ExpressionReader
from .reading import ACTIVE, Expression, Reading, instruction
from .words import Check

_SOME_LOOP = Loop((), (), (), 0, 0, (), 0, ())


class StatementReader(ExpressionReader):
    """Reads the statements of one function."""

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Reads a sequence of statements."""
        for k, s in enumerate(statements):
            self.statement = s
            rule = _STATEMENTS.get(type(s))
            if rule is None:
                hint = language.INSTEAD.get(
                    type(s), f"{type(s).__name__.lower()} is not part of the language"
                )
                raise self.error(hint)
            if type(s) is ast.Return and (k + 1 < len(statements) or self.depth > 1):
                raise self.error("return belongs at the end of a function")
            rule(self, s)

    def assign(self, s: ast.Assign) -> None:
        """`name = expression`, `a, b = expressions`."""
        if len(s.targets) > 1:
            raise self.error("one assignment a statement")
        (target,) = s.targets
        names = [self.name(e) for e in (target.elts if type(target) is ast.Tuple else [target])]  # type: ignore[attr-defined]
        if type(s.value) is ast.Tuple:
            values = [self.whole(self.operand(e)) for e in s.value.elts]
            if len(values) != len(names):
                raise self.error(f"{len(names)} names for {len(values)} values")
            if len(set(names)) < len(names):
                raise self.error("a name occurs twice")
            self.emit(f"{', '.join(names)} = {', '.join([v.text for v in values])}")
            for name, v in zip(names, values, strict=True):
                self.set(name, v, v.types[0])
            return
        value = self.value(s.value)
        if value.simple:
            value = self.whole(value)
        if len(value.types) != len(names):
            count = len(value.types)
            raise self.error(f"{count} value{'' if count == 1 else 's'} for {len(names)} names")
        self.emit(f"{', '.join(names)} = {value.text}")
        for k, (name, t) in enumerate(zip(names, value.types, strict=True)):
            self.set(name, value._replace(implies=value.each[k]) if value.each else value, t)
        if value.raised is not None:  # the last result is the number of an exception
            last = self.scope[names[-1]]
            self.scope[names[-1]] = last._replace(raised=value.raised)
        word = self.reading.words.get(value.literal)
        if word is not None and not self.reading.named and word.name == f"p{value.literal}":
            others = {w.name for w in self.reading.words.values()}
            word.name = names[0] if names[0] not in others else word.name

    def augmented(self, s: ast.AugAssign) -> None:
        """`name += expression`."""
        name = ast.copy_location(ast.Name(self.name(s.target), ast.Load()), s.target)
        value = ast.copy_location(ast.BinOp(name, s.op, s.value), s)
        self.assign(ast.copy_location(ast.Assign([s.target], value), s))

    def name(self, e: ast.expr) -> str:
        """Returns a name to be assigned."""
        if type(e) is not ast.Name:
            raise self.error("assignments are to names", e)
        if e.id in language.NAMES or e.id in self.reading.named or e.id in self.reading.functions:
            raise self.error(f"the name {e.id} has a meaning already", e)
        return e.id

    def effect(self, s: ast.Expr) -> None:
        """A call for its effect, or a docstring."""
        if type(s.value) is ast.Constant and type(s.value.value) is str:
            return
        if type(s.value) is not ast.Call:
            raise self.error("the statement has no effect")
        self.emit(self.value(s.value).text)

    def leave(self, s: ast.Return) -> None:
        """`return` at the end of a function."""
        if self.is_kernel:
            raise self.error("a kernel returns nothing: results are what it stores")
        if s.value is None:
            return
        nodes = s.value.elts if type(s.value) is ast.Tuple else [s.value]
        values = [self.operand(e, named=True) for e in nodes]
        self.results = tuple([v.types[0] for v in values])
        self.implied = tuple([v.implies & {ACTIVE} for v in values])
        if any(t.is_vector for t in self.results):
            raise self.error("functions return no vectors")
        self.emit(f"return {', '.join([v.text for v in values])}")

    def branch(self, s: ast.If) -> None:
        """`if any_lane(m):`."""
        if s.orelse:
            raise self.error("else is not part of the language: invert the mask by ~")
        call, mask = self.test(s.test, "if")
        self.emit(f"if {call}({self.typed(self.operand(mask), dt.mask).text}):")
        with self.block(s, 1):
            self.body(s.body)

    def loop(self, s: ast.While) -> None:
        """`while any_lane(m):`, with the statement that lets Ctrl-C end it."""
        if s.orelse:
            raise self.error("else is not part of the language")
        call, mask = self.test(s.test, "while")
        names = assigned(s.body)
        if not any(type(n) is ast.Name and n.id in names for n in ast.walk(mask)):
            raise self.error("the loop never ends: its body does not change the test")
        test = self.typed(self.operand(mask, named=True), dt.mask).text
        self.restrict(test)
        inside = [name for name in names if name in self.scope]
        for name in inside:  # of what is known before the loop, later iterations know only this
            self.version += 1
            v = self.scope[name]
            self.scope[name] = v._replace(
                version=self.version, implies=v.implies & {ACTIVE}, raised=None
            )
        restricted = [name for name in inside if self.scope[name].implies]
        self.emit(f"while {call}({test}):")
        self.instrs.append(instruction(op.loop, dt.mask, self.rounds, _SOME_LOOP))
        with self.block(s, ASSUMED_ITERATIONS):
            self.body(s.body)
            self.statement = s
            if type(mask) is not ast.Name:
                value = self.value(mask)
                self.typed(value, dt.mask)
                self.emit(f"{test} = {value.text}")
                self.set(test, value, dt.mask)
            for name in dict.fromkeys([*restricted, test]):
                self.restrict(name)
            if not self.lines[-1].text.startswith(f"{test} = going("):
                self.emit(f"{test} = going(p[0], {test})")

    def test(self, e: ast.expr, what: str) -> tuple[str, ast.expr]:
        """Returns the function and the argument of the test of a branch or loop."""
        match e:
            case ast.Call(ast.Name("any_lane" | "all_lanes" as name), [mask]):
                return name, mask
        raise self.error(f"the test is any_lane(m) or all_lanes(m): `{what} any_lane(m):`", e)

    @contextmanager
    def block(self, s: ast.If | ast.While, rounds: int) -> Iterator[None]:
        """Reads a body: a variable that it assigns must keep its type, or exists only in the
        body."""
        around = dict(self.scope)
        self.depth += 1
        self.rounds *= rounds
        first = len(self.lines)
        yield
        self.statement = s
        if len(self.lines) == first:
            raise self.error("the body is empty")
        self.depth -= 1
        self.rounds //= rounds
        for name in assigned(s.body):
            old, new = around.get(name), self.scope.pop(name, None)
            if old is None:
                self.gone[name] = s.lineno
            elif new is not None:
                if new.types != old.types:
                    (before,), (after,) = old.types, new.types
                    raise self.error(
                        f"{name} has the type {before.code} before the block and {after.code} "
                        "after it"
                    )
                implies = old.implies & new.implies & {ACTIVE}
                self.set(name, Expression("", implies=implies), *old.types)


class FunctionReader(StatementReader):
    """Reads a function of the text when it is first called."""

    is_kernel = False

    def __init__(self, reading: Reading, definition: ast.FunctionDef) -> None:
        super().__init__(reading)
        self.definition, self.title = definition, definition.name
        self.parameters: dict[str, DType] = {}
        self.numbers: tuple[str, ...] = ()
        self.checks: list[tuple[int, Check]] = []  # by the distance from the first word
        self.inner: list[tuple[int, FunctionReader]] = []
        self.own_instrs: list[Instr] = []
        self.restricted_masks: set[str] = set()  # parameters that have only lanes of the launch
        self.state = "new"
        self.head = ""
        self.signature()

    def signature(self) -> None:
        """Reads the parameters: those of a kernel, two numbers if the function has checks of its
        own, and typed ones."""
        d = self.statement = self.definition
        if self.title in language.NAMES or self.title in language.REFUSED:
            raise self.error(f"the name {self.title} has a meaning already")
        a = d.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs or d.decorator_list:
            raise self.error("functions have plain parameters: def f(i, p, x: f32):")
        own = [*a.args]
        for name in ("i", "p"):
            if own and own[0].arg == name:
                del own[0]
        texts = ["i", "p"]
        for one in own:
            code = ast.unparse(one.annotation) if one.annotation is not None else ""
            if code == "int" and not self.parameters:
                self.numbers += (one.arg,)
            elif code in BY_CODE and one.arg not in language.NAMES:
                self.parameters[one.arg] = BY_CODE[code]
                self.scope[one.arg] = Expression(one.arg, (BY_CODE[code],), True)
            else:
                raise self.error(f"the parameter {one.arg} needs an element type: {one.arg}: f32")
            texts.append(f"{one.arg}: {code}")
        if len(self.numbers) not in (0, 2):
            raise self.error("functions with checks have two numbers: s: int, n: int")
        self.head = f"def {self.title}({', '.join(texts)}):"

    def read_for(self, caller: ExpressionReader, values: Sequence[Expression], e: ast.expr) -> None:
        """Reads the body, unless it has been read; `values` are the arguments of the call."""
        if self.state == "open":
            raise caller.error(f"{self.title} calls itself", e)
        if self.state == "new":
            self.state = "open"
            self.instrs = self.own_instrs
            for name, v in zip(self.parameters, values, strict=True):
                if ACTIVE in v.implies:
                    self.restricted_masks.add(name)
                    self.scope[name] = self.scope[name]._replace(implies=v.implies & {ACTIVE})
            self.body(self.definition.body)
            self.state = "read"

    def check_numbers(
        self, function: "FunctionReader", site: ast.expr, word: ast.expr, e: ast.expr
    ) -> list[str]:
        j = self.distance(word, 1, e)
        self.inner.append((j, function))
        return [f"{self.numbers[0]} + {j}", f"{self.numbers[1]} + {j}"]

    def distance(self, word: ast.expr, which: int, e: ast.expr) -> int:
        """Returns the constant of an argument `n + 1`."""
        match word:
            case ast.BinOp(ast.Name(name), ast.Add(), right) if name in self.numbers[which:][:1]:
                return self.integer(right, e)
        raise self.error(f"{ast.unparse(word)} does not count from a number of the function", e)

    def checks_from(self, first: int) -> Iterator[tuple[int, Check]]:
        """Yields the words of the checks of a call, which begin at the word `first`, and the
        checks."""
        for j, check in self.checks:
            yield first + j, check
        for j, function in self.inner:
            yield from function.checks_from(first + j)


_STATEMENTS: dict[type, Callable] = {
    ast.Assign: StatementReader.assign,
    ast.AugAssign: StatementReader.augmented,
    ast.Expr: StatementReader.effect,
    ast.Return: StatementReader.leave,
    ast.If: StatementReader.branch,
    ast.While: StatementReader.loop,
    ast.Pass: lambda reader, s: None,
}

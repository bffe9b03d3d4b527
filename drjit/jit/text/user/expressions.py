"""Expressions of a kernel text that a user wrote: their types, and statements of one operation each
that compute them.
"""

import ast
import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir import dtype as dt
from ...ir import op
from ...ir.dtype import BY_CODE, DType
from ...target import foreign, language
from .accesses import CallText
from .reading import ACTIVE, BoundedIndex, Expression, Line, Reading, instruction, spelling

if TYPE_CHECKING:
    from .statements import FunctionReader


class ExpressionReader:
    """Reads the expressions of one function."""

    is_kernel = True

    def __init__(self, reading: Reading) -> None:
        self.reading, self.source = reading, reading.source
        self.scope: dict[str, Expression] = {}
        self.gone: dict[str, int] = {}  # variables of bodies that have ended, with a line of these
        self.lines: list[Line] = []
        self.depth, self.rounds, self.version = 1, 1, 0
        self.statement: ast.stmt = ast.Pass()
        self.results: tuple[DType, ...] = ()
        self.implied: tuple[frozenset[BoundedIndex], ...] = ()
        self.instrs = reading.instrs

    def error(self, message: str, node: ast.AST | None = None) -> SyntaxError:
        """Returns the error for the current statement."""
        return self.source.error(message, node if hasattr(node, "lineno") else self.statement)

    @property
    def where(self) -> str:
        number = self.statement.lineno
        return f"line {self.source.above + number} ({self.source.statement(number)})"

    def emit(self, text: str) -> None:
        """Writes a statement."""
        self.lines.append(Line(self.depth, text, self.statement.lineno))

    def set(self, name: str, value: Expression, dtype: DType) -> None:
        """Assigns a variable."""
        self.version += 1
        implies = value.implies if dtype is dt.mask else frozenset()
        self.scope[name] = Expression(
            name, (dtype,), True, None, value.signed, implies, version=self.version
        )
        self.gone.pop(name, None)

    def whole(self, value: Expression) -> Expression:
        """Returns an operand that can be assigned to a variable."""
        if value.number is not None and not value.types:
            raise self.error(f"{value.text} has no type: write f32({value.text}), for example")
        if value.text in ("True", "False"):
            return value._replace(text=f"mask({int(bool(value.number))})")
        return value

    def restrict(self, name: str) -> None:
        """Restricts a mask to lanes of the launch, unless it is known to be."""
        mask = self.scope[name]
        if ACTIVE not in mask.implies:
            self.emit(f"{name} = {name} & {self.active().text}")
            self.set(name, mask._replace(implies=mask.implies | {ACTIVE}), dt.mask)

    def restricted(self, mask: Expression) -> Expression:
        """Returns a mask restricted to lanes of the launch."""
        if ACTIVE in mask.implies:
            return mask
        lanes = self.active()
        if mask.text == "True":
            return lanes
        if mask.number is not None:
            return self.assigned_operand(self.whole(mask)._replace(implies=frozenset((ACTIVE,))))
        text = f"{mask.text} & {lanes.text}"
        return self.assigned_operand(Expression(text, (dt.mask,), implies=mask.implies | {ACTIVE}))

    def active(self) -> Expression:
        """Returns the mask of all lanes of the launch."""
        return self.assigned_operand(
            Expression("active(i)", (dt.mask,), implies=frozenset((ACTIVE,)))
        )

    # ---- Expressions

    def operand(self, e: ast.expr, named: bool = False) -> Expression:
        """Returns a value as a name or a number, or always as a name if it is to be `named`; nested
        expressions become statements of their own."""
        value = self.value(e)
        if value.simple and not (named and value.number is not None):
            return value
        value = self.whole(value)
        if len(value.types) != 1:
            raise self.error(f"one value expected, not {len(value.types)}", e)
        return self.assigned_operand(value)

    def typed(self, value: Expression, dtype: DType, e: ast.expr | None = None) -> Expression:
        """Returns a value of a type, which a number takes."""
        if not value.types and value.number is not None:
            return self.spelled(value, dtype, e)
        if value.types != (dtype,):
            codes = ", ".join([t.code for t in value.types]) or "nothing"
            raise self.error(f"{value.text} is {codes}, not {dtype.code}", e)
        return value

    def spelled(self, value: Expression, dtype: DType, e: ast.expr | None = None) -> Expression:
        """Returns a number spelled as one of an element type."""
        x, t = value.number, dtype.element
        fits = not t.is_mask and (t.is_float or (x == int(x) and t.low <= x <= t.high))
        if not fits:
            raise self.error(f"{value.text} is no {t.code}", e)
        return value._replace(text=spelling(x if t.is_float else int(x)), types=(t,))

    def value(self, e: ast.expr) -> Expression:
        """Reads an expression."""
        rule = _EXPRESSIONS.get(type(e))
        if rule is None:
            kind = type(getattr(e, "op", e))
            hint = language.INSTEAD.get(kind) or language.INSTEAD.get(type(e))
            raise self.error(hint or f"{ast.unparse(e)} is not part of the language", e)
        return rule(self, e)

    def read_name(self, e: ast.Name) -> Expression:
        """A variable, or a number of the program around the text."""
        name = e.id
        if name in self.scope:
            return self.scope[name]
        if name in self.reading.named:
            raise self.error(
                f"{name} is a parameter: load(f32, {name}, i) reads it as an array, and "
                f"literal(f32, {name}) as a number",
                e,
            )
        if name in self.gone:
            raise self.error(
                f"{name} is assigned only in the body in line "
                f"{self.source.above + self.gone[name]}: assign it before as well",
                e,
            )
        if name in language.NAMES:
            raise self.error(f"{name} stands for no value here", e)
        try:
            number = self.source.constant(name)
        except KeyError:
            close = difflib.get_close_matches(name, self.scope, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise self.error(f"the name {name} is undefined{hint}", e) from None
        if type(number) not in (bool, int, float):
            raise self.error(
                f"{name} is a {type(number).__name__} outside of the kernel; only numbers become "
                "constants, anything else is a parameter",
                e,
            )
        return self.constant(number, e)

    def constant(self, x: Any, e: ast.expr) -> Expression:
        """A number, `True` or `False`."""
        if type(x) is bool:
            return Expression(str(x), (dt.mask,), True, x)
        if type(x) not in (int, float) or x != x:
            raise self.error(f"{x!r} is not a number of the language", e)
        return Expression(spelling(x), (), True, x)

    def operator(self, e: ast.Compare | ast.UnaryOp | ast.BinOp) -> Expression:
        """An infix or prefix operator, or a comparison."""
        kind: type
        if isinstance(e, ast.Compare):
            if len(e.ops) > 1:
                raise self.error("comparisons do not chain: combine them by &", e)
            kind, nodes = type(e.ops[0]), [e.left, e.comparators[0]]
        elif isinstance(e, ast.UnaryOp):
            kind, nodes = type(e.op), [e.operand]
        else:
            kind, nodes = type(e.op), [e.left, e.right]
        if kind not in language.OPERATORS:
            raise self.error(
                language.INSTEAD.get(kind, f"{ast.unparse(e)} is not part of the language"), e
            )
        return self.elementwise(language.OPERATORS[kind], [self.operand(n) for n in nodes], e)

    def elementwise(self, o: op.Op, values: list[Expression], e: ast.expr) -> Expression:
        """An element-wise operation."""
        numbers = [v.number for v in values]
        if all(not v.types for v in values):
            folded = _folded(o, numbers)
            if folded is not None:
                return self.constant(folded, e)
        if any(len(v.types) > 1 for v in values):
            raise self.error("one value expected", e)
        try:
            t = language.operand_type(o, [v.types[0] if v.types else None for v in values])
        except TypeError as error:
            raise self.error(str(error), e) from None
        first, given = values[0], values[o is op.select :]
        if o.kind == "call" and o in (op.select, op.minimum, op.maximum):
            given = [
                v if v.types else v._replace(text=f"{t.element.code}({self.spelled(v, t, e).text})")
                for v in given
            ]
        else:
            given = [v if v.types else self.spelled(v, t, e) for v in given]
        if o.kind == "prefix" and given[0].number is not None:  # Python would invert a number
            given = [self.assigned_operand(self.whole(given[0]))]
        texts = [v.text for v in ([first, *given] if o is op.select else given)]
        t = language.result_type(o, t)
        self.instrs.append(instruction(o, t, self.rounds))
        implies: frozenset[BoundedIndex] = frozenset()
        if o is op.and_:
            implies = values[0].implies | values[1].implies
        elif o in (op.or_, op.xor, op.select):
            implies = given[0].implies & given[1].implies & {ACTIVE}
        if o.kind == "call":
            return Expression(f"{o.text}({', '.join(texts)})", (t,), implies=implies)
        text = f" {o.text} ".join(texts) if o.kind == "infix" else f"{o.text}{texts[0]}"
        return Expression(text, (t,), implies=implies)

    def assigned_operand(self, value: Expression) -> Expression:
        """Assigns a value to a new variable, and returns that as an operand."""
        name = self.reading.fresh()
        self.emit(f"{name} = {value.text}")
        self.set(name, value, value.types[0])
        return self.scope[name]

    def call(self, e: ast.Call) -> Expression:
        """`f(x, ...)`."""
        if (
            type(e.func) is not ast.Name
            or e.keywords
            or any(type(a) is ast.Starred for a in e.args)
        ):
            raise self.error("only plain calls are part of the language", e)
        name = e.func.id
        statement = language.STATEMENTS.get(name)
        if statement is not None:
            return CallText(self, statement, e).value()
        if name in language.CALLABLE:
            return self.elementwise(language.CALLABLE[name], [self.operand(a) for a in e.args], e)
        if name in BY_CODE:
            return self.conversion(BY_CODE[name], e)
        if name == "sincos" and len(e.args) == 1:
            x = self.elementwise(op.sin, [self.operand(e.args[0])], e)
            return x._replace(text="sincos" + x.text.removeprefix("sin"), types=x.types * 2)
        if name in self.reading.functions:
            return self.function_call(self.reading.functions[name], e)
        if name in foreign.functions:
            return self.foreign_call(foreign.functions[name], e)
        if name in language.REFUSED:
            raise self.error(f"{name}() {language.REFUSED[name]}", e)
        known = [*language.STATEMENTS, *language.CALLABLE, *BY_CODE, *self.reading.functions]
        close = difflib.get_close_matches(name, known, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise self.error(f"the function {name} is unknown{hint}", e)

    def conversion(self, t: DType, e: ast.Call) -> Expression:
        """`T(x)`."""
        if len(e.args) != 1:
            raise self.error(f"{t.code} takes 1 operand, not {len(e.args)}", e)
        value = self.operand(e.args[0])
        if not value.types:
            x = value.number
            if t.is_int and x != int(x):
                raise self.error(f"{value.text} is no {t.code}", e)
            return Expression(f"{t.code}({value.text})", (t,))
        self.instrs.append(instruction(op.cast, t, self.rounds))
        return Expression(f"{t.code}({value.text})", language.result_types(t.code, value.types))

    def foreign_call(self, function: Any, e: ast.Call) -> Expression:
        """A call of a function that another compiler made."""
        codes = (*function.arguments, "mask")
        if len(e.args) != len(codes):
            raise self.error(f"{function.name} takes {', '.join(codes)}", e)
        pairs = zip(e.args, codes, strict=True)
        values = [self.typed(self.operand(a), BY_CODE[code], a) for a, code in pairs]
        values[-1] = self.restricted(values[-1])
        types = tuple([BY_CODE[code] for code in function.returned])
        self.instrs.append(instruction(op.foreign, types[0], self.rounds, function))
        text = f"{function.name}({', '.join([v.text for v in values])})"
        return Expression(text, types, raised=function if function.errors else None)

    def function_call(self, function: "FunctionReader", e: ast.Call) -> Expression:
        """A call of a function of the text."""
        args = [*e.args]
        for own in ("i", "p"):
            if args and type(args[0]) is ast.Name and args[0].id == own:
                del args[0]
        numbers, own = args[: len(function.numbers)], args[len(function.numbers) :]
        types = function.parameters
        if len(numbers) < len(function.numbers) or len(own) != len(types):
            codes = [f"{name}: int" for name in function.numbers]
            codes += [f"{name}: {t.code}" for name, t in types.items()]
            raise self.error(
                f"{function.title} takes ({', '.join(codes)}), not {len(args)} arguments", e
            )
        pairs = zip(own, types.values(), strict=True)
        values = [self.typed(self.operand(a), t, a) for a, t in pairs]
        function.read_for(self, values, e)
        for k, name in enumerate(types):
            if name in function.restricted_masks:
                values[k] = self.restricted(values[k])
        given = ["i", "p"]
        if numbers:
            given += self.check_numbers(function, numbers[0], numbers[1], e)
        for i in function.own_instrs:
            self.instrs.append(i._replace(rounds=i.rounds * self.rounds))
        text = f"{function.title}({', '.join([*given, *[v.text for v in values]])})"
        return Expression(text, function.results, each=function.implied)

    def check_numbers(
        self, function: "FunctionReader", site: ast.expr, word: ast.expr, e: ast.expr
    ) -> list[str]:
        """Returns the first check and the first word of a call in a kernel, and gives the
        function's checks the words from there on."""
        k = self.integer(word, e)
        self.integer(site, e)
        for j, check in function.checks_from(0):
            at = k + j
            self.reading.relative.add(at)
            other = self.reading.checks.get(at)
            if other is not None and other is not check:
                raise self.error(f"p[{at}] belongs to several checks", e)
            self.reading.checks[at] = check
        return [f"<site:{k}>", f"<word:{k}>"]

    def integer(self, e: ast.expr, at: ast.expr) -> int:
        """Returns an argument that is a constant integer of at least 0."""
        if type(e) is ast.Name and e.id not in self.scope:
            try:
                number = self.source.constant(e.id)
            except KeyError:
                number = None
            if type(number) is int and number >= 0:
                return number
        if type(e) is ast.Constant and type(e.value) is int:
            return e.value
        raise self.error(f"{ast.unparse(e)} is not a constant integer", at)


def _folded(o: op.Op, numbers: Sequence[Any]) -> Any:
    """Returns the result of an operator on numbers without a type; None if there is none."""
    if o not in (op.neg, op.add, op.sub, op.mul, op.div) or (o is op.div and numbers[1] == 0):
        return None
    try:
        return o.python(*numbers)
    except OverflowError:
        return None


_EXPRESSIONS: dict[type, Callable] = {
    ast.Name: ExpressionReader.read_name,
    ast.Constant: lambda reader, e: reader.constant(e.value, e),
    ast.BinOp: ExpressionReader.operator,
    ast.UnaryOp: ExpressionReader.operator,
    ast.Compare: ExpressionReader.operator,
    ast.Call: ExpressionReader.call,
}

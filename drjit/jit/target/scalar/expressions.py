"""Expressions of the kernel language as scalar Python with the types that Numba needs: it promotes
sums of integers to 64 bits, so results are converted back. Half-precision numbers are rounded
single-precision numbers.
"""

import ast
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ...ir.dtype import BY_CODE, DType
from ...ir.op import TABLE
from .. import library
from ..language import OPERATORS
from ..simd.ir import FLOATS, INTEGERS, NUMBER

if TYPE_CHECKING:
    from .module import ExportedModule

NARROW = INTEGERS - {"i64", "u64"}
WIDE = {"i": "i64", "u": "u64"}


class Fragment(NamedTuple):
    """A value in the text: its type, or those of `several` values. With `is_name`, it needs no
    brackets. A `number` that takes its type from other operands has no text. With `cases`, the text
    has one more value: whether there has been a rare case so far."""

    code: str
    text: str = ""
    is_name: bool = False
    number: Any = None
    several: tuple[str, ...] = ()
    cases: bool = False

    @property
    def inner(self) -> str:
        """The text as an operand."""
        return self.text if self.is_name else f"({self.text})"


class CannotExport(NotImplementedError):
    """A statement that has no scalar form."""


@cache
def has_cases(name: str) -> bool:
    """Whether a library function, or one that it calls, has rare cases."""
    definitions = library.definitions()
    called = {
        n.func.id
        for n in ast.walk(definitions[name])
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    return "any_lane" in called or any(has_cases(c) for c in called & definitions.keys())


def constant(code: str, number: Any) -> str:
    """Returns a number of a type."""
    if code == "mask":
        return repr(bool(number))
    if code in FLOATS:
        number = float(BY_CODE[code].scalar(number)) if code == "f16" else float(number)
        text = repr(number) if np.isfinite(number) else f"np.{abs(number)}"
        if number < 0 and not np.isfinite(number):
            text = f"-{text}"
        return f"f32({text})" if code != "f64" else f"({text})" if text[0] == "-" else text
    t = BY_CODE[code]
    number = (int(number) - t.low) % (t.high - t.low + 1) + t.low
    return f"{code}({hex(number) if number > 0xFFFF else number})"


def value_type(code: str) -> str:
    """Returns the type in which values are computed."""
    return {"f16": "f32", "mask": "np.bool_"}.get(code, code)


class NameScope:
    """The names of a function with their types, and what its expressions become.

    A library function with rare cases (for which it tests with `any_lane`) computes them only if
    its argument `full` is true. Its argument `rare` says whether there has been one before, and its
    last result whether there is one now. If `cases` is true, the text has variables of these names.
    """

    def __init__(
        self, module: "ExportedModule", codes: dict[str, str], is_library: bool = False
    ) -> None:
        self.module, self.codes, self.is_library = module, codes, is_library
        self.renamed: dict[str, str] = {}
        self.own: dict[str, Callable[[list[ast.expr]], Fragment]] = {}
        self.cases = False
        self._pending: list[str] = []
        self._made = 0

    def expr(self, e: ast.expr) -> Fragment:
        """Returns an expression with one value."""
        found = self.value(e)
        if len(found.several) > 1 or (found.several and not found.cases):
            raise CannotExport(f"{ast.unparse(e)} has several values")
        return self.separate(found)[0] if found.cases else found

    def separate(self, v: Fragment) -> list[Fragment]:
        """Returns the values of a call, for which variables are assigned ahead of the statement."""
        made = [Fragment(code, f"value{self._made + k}", True) for k, code in enumerate(v.several)]
        self._made += len(made)
        names = [m.text for m in made] + ["rare"] * v.cases
        self._pending.append(f"{', '.join(names)} = {v.text}")
        return made

    def pending(self) -> list[str]:
        """Returns the assignments that have to precede a statement, once."""
        found, self._pending = self._pending, []
        return found

    def value(self, e: ast.expr) -> Fragment:
        """Returns an expression."""
        if isinstance(e, ast.Name):
            return self._name(e.id)
        if isinstance(e, ast.Constant):
            if isinstance(e.value, bool):
                return Fragment("mask", repr(e.value), True)
            return Fragment(NUMBER, repr(e.value), number=e.value)
        if isinstance(e, ast.UnaryOp):
            return self._unary(e)
        if isinstance(e, ast.BinOp | ast.Compare):
            left = e.left
            right = e.right if isinstance(e, ast.BinOp) else e.comparators[0]
            operation = e.op if isinstance(e, ast.BinOp) else e.ops[0]
            return self._binary(OPERATORS[type(operation)].name, self.expr(left), self.expr(right))
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
            return self._call(e.func.id, e.args)
        raise CannotExport(ast.unparse(e))

    def typed(self, v: Fragment, code: str) -> Fragment:
        """Gives a number a type."""
        return Fragment(code, constant(code, v.number), True) if v.code == NUMBER else v

    def unified(self, values: list[Fragment]) -> list[Fragment]:
        """Returns operands of one type: numbers take the type of the others."""
        code = next((v.code for v in values if v.code != NUMBER), NUMBER)
        return values if code == NUMBER else [self.typed(v, code) for v in values]

    def _name(self, name: str) -> Fragment:
        code = self.codes.get(name)
        if code is not None:
            return Fragment(code, self.renamed.get(name, name), True)
        if self.is_library:
            return Fragment(NUMBER, name, number=library.constant(name))
        raise CannotExport(f"the name {name} is unknown")

    def wrapped(self, code: str, text: str) -> Fragment:
        """Rounds or converts the result of an operation to its type."""
        if code in NARROW or code == "u64":
            return Fragment(code, f"{code}({text})", True)
        if code == "f16":
            return Fragment(code, f"{self.module.use('half')}({text})", True)
        return Fragment(code, text)

    def _unary(self, e: ast.UnaryOp) -> Fragment:
        name, x = OPERATORS[type(e.op)].name, self.expr(e.operand)
        if x.code == NUMBER:
            return Fragment(NUMBER, number=-x.number if name == "neg" else x.number)
        if name == "neg":
            text = f"-{x.inner}"
            return Fragment(x.code, text) if x.code in FLOATS else self.wrapped(x.code, text)
        if x.code == "mask":
            return Fragment(x.code, f"not {x.inner}")
        return self.wrapped(x.code, f"~{x.inner}")

    def _binary(self, name: str, x: Fragment, y: Fragment) -> Fragment:
        if x.code == y.code == NUMBER:
            return Fragment(NUMBER, number=TABLE[name].python(x.number, y.number))
        x, y = self.unified([x, y])
        symbol = TABLE[name].text
        if TABLE[name].result == "mask":
            return Fragment("mask", f"{x.inner} {symbol} {y.inner}")
        if x.code == "mask" and name == "xor":
            symbol = "!="
        return self.wrapped(x.code, f"{x.inner} {symbol} {y.inner}")

    def _call(self, name: str, args: list[ast.expr]) -> Fragment:
        if name in self.own:
            return self.own[name](args)
        if name in BY_CODE:
            return self.convert(name, self.expr(args[0]))
        if name == "bitcast":
            return self.bitcast(args[0].id, self.expr(args[1]))  # type: ignore[attr-defined]
        if name == "table":
            return self._table(args[0].id, self.expr(args[1]))  # type: ignore[attr-defined]
        if name == "polynomial":
            return self._polynomial(self.expr(args[0]), args[1].id)  # type: ignore[attr-defined]
        if self.is_library and name in library.definitions():
            return self._library(name, [self.expr(a) for a in args])
        values = [self.expr(a) for a in args]
        if name == "select":
            m, x, y = values
            x, y = self.unified([x, y])
            if x.code == NUMBER:  # as wide as what it meets later cannot be known here
                x, y = self.typed(x, "f64"), self.typed(y, "f64")
            return Fragment(x.code, f"{x.inner} if {m.inner} else {y.inner}")
        if name in ("shl", "shr"):
            return self._shift(name, values)
        values = self.unified(values)
        code = values[0].code
        rule = _CALLS.get(name)
        if rule is not None:
            return rule(self, code, values)
        if name in library.names:
            return self._elementary(name, code, values)
        raise CannotExport(f"{name}() has no scalar form")

    def _elementary(self, name: str, code: str, values: list[Fragment]) -> Fragment:
        """A call of a library function from a kernel."""
        wide = "f32" if code == "f16" else code
        found = self._library(f"{name}_{wide}", [v._replace(code=wide) for v in values])
        if code != "f16":
            return found
        parts = self.separate(found) if found.several else [found]
        halves = [self.wrapped(code, v.text) for v in parts]
        if len(halves) == 1:
            return halves[0]
        return Fragment("", ", ".join([v.text for v in halves]), several=(code,) * len(halves))

    def _library(self, name: str, values: list[Fragment]) -> Fragment:
        values = [self.typed(v, name.rpartition("_")[2]) for v in self.unified(values)]
        function, results = self.module.library_function(name, tuple([v.code for v in values]))
        arguments, cases = [v.text for v in values], has_cases(name) and self.cases
        if cases:
            arguments += ["full", "rare"]
        elif has_cases(name):
            function = self.module.unconditional(function, len(arguments), len(results))
        text = f"{function}({', '.join(arguments)})"
        if len(results) > 1 or cases:
            return Fragment("", text, several=tuple(results), cases=cases)
        return Fragment(results[0], text, True)

    def _table(self, name: str, x: Fragment) -> Fragment:
        numbers, code = library.table(name), name.rpartition("_")[2]
        rows = ", ".join([repr(n) for n in numbers])
        self.module.add(name, f"{name} = np.array(({rows}), {code})")
        return Fragment(code, f"{name}[min({x.text}, {x.code}({len(numbers) - 1}))]", True)

    def _polynomial(self, x: Fragment, name: str) -> Fragment:
        rows = ", ".join([repr(float(c)) for c in library.table(name)])
        self.module.add(name, f"{name} = ({rows})")
        text = f"{self.module.use('polynomial')}({x.text}, {name})"
        return Fragment(x.code, text, True)

    def _shift(self, name: str, values: list[Fragment]) -> Fragment:
        x, y = values
        t = BY_CODE[x.code]
        symbol = "<<" if name == "shl" else ">>"
        if y.code == NUMBER:
            if not 0 <= y.number < t.bits:
                if name == "shl" or not t.is_signed:
                    return self.typed(Fragment(NUMBER, number=0), x.code)
                y = Fragment(NUMBER, number=t.bits - 1)
            count = constant(WIDE[x.code[0]], y.number)
            return self.wrapped(x.code, f"{x.inner} {symbol} {count}")
        helper = self.module.use("shift_left" if name == "shl" else "shift_right")
        return self.wrapped(x.code, f"{helper}({x.text}, {y.text}, {t.bits})")

    def convert(self, code: str, x: Fragment) -> Fragment:
        """Converts a value to a type."""
        source = x.code
        if source == NUMBER:
            if code in INTEGERS and isinstance(x.number, float):
                t = BY_CODE[code]
                return Fragment(code, constant(code, min(max(x.number, t.low), t.high)), True)
            return self.typed(x, code)
        if source == code:
            return x
        if code == "mask":
            return Fragment("mask", f"{x.inner} != {constant(source, 0)}")
        if code in INTEGERS:
            if source in FLOATS:
                return Fragment(code, f"{_conversion(self.module, BY_CODE[code])}({x.text})", True)
            return Fragment(code, f"{code}({x.text})", True)
        if code == "f16":
            if source == "f64":
                return Fragment(code, f"{self.module.use('half_of_double')}({x.text})", True)
            text = x.text if source == "f32" else f"f32({x.text})"
            return self.wrapped(code, text)
        if code == "f32" and source == "f16":
            return x._replace(code=code)
        return Fragment(code, f"{code}({x.text})", True)

    def bitcast(self, code: str, x: Fragment) -> Fragment:
        """The bits of a value as another type."""
        if x.code == NUMBER or x.code == code:
            return self.typed(x, code)
        if code == "mask" or x.code == "mask":
            return self.convert(code, x)
        if code == "f16":
            return Fragment(code, f"{self.module.use('from_half')}(u16({x.text}))", True)
        if x.code == "f16":
            bits = f"{self.module.use('to_half')}({x.text})"
            return Fragment(code, bits if code == "u16" else f"{code}({bits})", True)
        if code in INTEGERS and x.code in INTEGERS:
            return Fragment(code, f"{code}({x.text})", True)
        return Fragment(code, f"{self.module.use('bitcast')}({code}, {x.text})", True)


Rule: TypeAlias = Callable[[NameScope, str, list[Fragment]], Fragment]


def _conversion(module: "ExportedModule", t: DType) -> str:
    """Adds the conversion of floating-point numbers to an integer type, which saturates."""
    above, below = repr(float(t.high + 1)), repr(float(t.low))
    text = f'''@{module.use("helper")}
def to_{t.code}(x):
    """A number without its fraction, or the nearest there is; 0 for NaN."""
    if x != x:
        return {t.code}(0)
    if x >= {above}:
        return {t.code}({hex(t.high)})
    if x <= {below}:
        return {t.code}({t.low})
    return {t.code}(x)
'''
    return module.add(f"to_{t.code}", text.rstrip())


def _function(name: str, exact: bool = False) -> Rule:
    """Returns the rule for a function of NumPy or of the prelude, whose result is rounded unless it
    is `exact`."""

    def rule(scope: NameScope, code: str, values: list[Fragment]) -> Fragment:
        function = name if name.startswith("np.") else scope.module.use(name)
        text = f"{function}({', '.join([v.text for v in values])})"
        found = Fragment(code, text) if exact else scope.wrapped(code, text)
        return found._replace(is_name=True)

    return rule


def _extremum(name: str, symbol: str) -> Rule:
    def rule(scope: NameScope, code: str, values: list[Fragment]) -> Fragment:
        x, y = values
        if x.is_name and y.is_name:
            return Fragment(code, f"{x.text} if {x.text} {symbol} {y.text} else {y.text}")
        return Fragment(code, f"{scope.module.use(name)}({x.text}, {y.text})", True)

    return rule


def _abs(scope: NameScope, code: str, values: list[Fragment]) -> Fragment:
    text = f"abs({values[0].text})"
    if code[0] == "u":
        return values[0]
    return Fragment(code, text, True) if code in FLOATS else Fragment(code, f"{code}({text})", True)


def _quotient(name: str) -> Rule:
    def rule(scope: NameScope, code: str, values: list[Fragment]) -> Fragment:
        helper = name if code[0] == "i" else f"unsigned_{name}"
        return _function(helper)(scope, code, values)

    return rule


_CALLS: dict[str, Rule] = {
    "abs": _abs, "sqrt": _function("np.sqrt"), "floor": _function("np.floor", True),
    "ceil": _function("np.ceil", True), "trunc": _function("np.trunc", True),
    "round": _function("np.rint", True), "minimum": _extremum("minimum", "<"),
    "maximum": _extremum("maximum", ">"), "quotient": _quotient("quotient"),
    "remainder": _quotient("remainder"), "mul_hi": _function("mul_hi", True),
    # The product of two halves is exact in single precision.
    **{name: _function(name) for name in ("fma", "popcnt", "lzcnt", "tzcnt", "brev")},
}  # fmt: skip

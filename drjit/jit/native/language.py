"""The language of native code: functions on 64-bit words, written as modules of Python, which are
translated to LLVM IR.

A variable is a word: a number, or an address. If it is annotated with a structure of `objects`, or
assigned from something whose structure is known (an entry of an array, a call of a function that
returns one, another variable), it is the address of such a structure: `job.done` is a field of it,
and `c.jobs[k]` the address of an entry of an array, whose length is a power of two, and whose index
wraps around. `x[k] = y` writes a word behind an address that is a variable.

There are assignments, `if`, `while`, `for` over a `range` of one or two limits (its variable must
not be used after the loop), `break`, `return` and calls of other functions; comparisons are signed.
Names of numbers and functions mean what they mean in the module, including those of modules that it
imports (`objects.TYPE`). The functions below are operations of the language. Python never calls
these, nor any module of native code except `division`, unless to step through it
(tests/support/native_stepping.py).
"""

import ast
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any, Literal, TypeVar, get_args

from ..parsing import syntax_tree
from . import objects

Word = Any
"""A number or an address, of 64 bits."""
F = TypeVar("F", bound=Callable)
NULL: Any = 0
"""No address."""

Order = Literal["monotonic", "acquire", "release", "acq_rel", "seq_cst"]
"""The orders of atomic operations."""


def inline(function: F) -> F:
    """Makes a function part of its callers."""
    return function


def word(address: Word) -> Word:
    """Returns the word at an address."""


def put(address: Word, x: Word) -> None:
    """Writes a word to an address."""


def room(words: int) -> Word:
    """Returns the address of some words on the stack, always the same for one call in the text."""


def rounded(bits: Word) -> Word:
    """Rounds a double, given by its bits, to a float, and returns the bits of that."""


def number_f64(n: Word, inverted: Word) -> Word:
    """Returns the bits of a number as a double, or those of its reciprocal."""


def address(field: Word) -> Word:
    """Returns the address of a field."""


def external(name: str) -> Word:
    """Returns the address that `foreign.symbols` has for a name."""


def call(kind: str, function: Word, *values: Word) -> Word:
    """Calls a C function by its address; the type is one such as `i32(ptr, i64)`."""


def library(name: str, *values: Word) -> Word:
    """Calls a C function by its name in the module's `LIBRARY`, which has its type."""


def load(field: Word, order: Order) -> Word:
    """Reads a field atomically."""


def store(field: Word, x: Word, order: Order) -> None:
    """Writes a field atomically."""


def add(field: Word, x: Word, order: Order) -> Word:
    """Adds to a field atomically; returns its old value."""


def xchg(field: Word, x: Word, order: Order) -> Word:
    """Writes a field atomically; returns its old value."""


def cas(field: Word, old: Word, new: Word, success: Order, failure: Order) -> Word:
    """Writes a field atomically if it has the value `old`; returns whether it had."""


_WORD = ast.Constant(8)  # bytes
_BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "udiv", ast.BitAnd: "and",
    ast.BitOr: "or", ast.LShift: "shl", ast.RShift: "lshr",
}  # fmt: skip
_COMPARISONS: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
}  # fmt: skip


def module_text(
    functions: Iterable[FunctionType], more: Sequence[tuple[str, ModuleType]] = ()
) -> str:
    """Returns the text of an LLVM module that exports some functions, and contains all that they
    call. `more` are texts that define further exported functions, each with the module in which its
    names have a meaning."""
    symbols = _Symbols({f: f.__name__ for f in functions})
    exported, texts, externals = {*symbols}, {}, set()
    todo = [*symbols]
    for text, home in more:
        for found in syntax_tree(text).body:
            f = Translation(found, home, symbols)  # type: ignore[arg-type]
            texts[f.definition.name] = f.text(f.definition.name)
            externals |= f.externals
            todo += f.callees
    while todo:
        function = todo.pop()
        name = symbols[function]
        if name not in texts:
            f = Translation(*definition(function), symbols)
            texts[name] = f.text(name, "" if function in exported else "internal ")
            externals |= f.externals
            todo += f.callees
    heads = [f"@{name} = external global i64" for name in sorted(externals)]
    return "\n".join([*heads, *[texts[name] for name in sorted(texts)]])


class _Symbols(dict[FunctionType, str]):
    """The names of functions in the code. Functions that are not exported get the name of their
    module as a prefix, since several modules may have functions of one name."""

    def __missing__(self, function: FunctionType) -> str:
        name = self[function] = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        return name


_definitions: dict[str, dict[int, ast.FunctionDef]] = {}  # by the first line


def definition(function: FunctionType) -> tuple[ast.FunctionDef, ModuleType]:
    """Returns the syntax tree of a function, and its module."""
    home = sys.modules[function.__module__]
    if function.__module__ not in _definitions:
        with open(str(home.__file__), encoding="utf-8") as file:
            tree = syntax_tree(file.read(), str(home.__file__))
        _definitions[function.__module__] = {
            min(e.lineno for e in (f, *f.decorator_list)): f
            for f in ast.walk(tree)
            if isinstance(f, ast.FunctionDef)
        }
    return _definitions[function.__module__][function.__code__.co_firstlineno], home


class Translation:
    """The translation of one function. Variables are on the stack, from which LLVM moves them to
    registers."""

    def __init__(
        self, definition: ast.FunctionDef, home: ModuleType, symbols: dict[FunctionType, str]
    ) -> None:
        self.definition, self.home, self.symbols = definition, home, symbols
        self.head: dict[str, str] = {}  # contents of the stack
        self.lines: list[str] = []
        self.number = 0
        self.loops: list[str] = []  # the ends of enclosing loops
        self.structures: dict[str, type] = {}  # of variables
        self.externals: set[str] = set()
        self.callees: list[FunctionType] = []

    def text(self, name: str, linkage: str = "") -> str:
        """Returns the definition under a name."""
        arguments = self.definition.args.args
        for a in arguments:
            self.note(a.arg, self.annotated(a.annotation))
            self.do(f"store i64 %{a.arg}, ptr {self.variable(a.arg)}")
        self.body(self.definition.body)
        self.do("ret i64 0")
        head = [f"{name} = alloca {kind}" for name, kind in self.head.items()]
        parameters = ", ".join([f"i64 %{a.arg}" for a in arguments])
        inlined = " alwaysinline" * bool(self.definition.decorator_list)
        lines = [f"define {linkage}i64 @{name}({parameters}){inlined} {{"]
        return "\n".join([*lines, *head, *self.lines, "}"])

    # ---- Lines

    def op(self, text: str) -> str:
        self.number += 1
        self.lines.append(f"%.{self.number} = {text}")
        return f"%.{self.number}"

    def do(self, text: str) -> None:
        self.lines.append(text)

    def block(self) -> str:
        self.number += 1
        return f"b.{self.number}"

    def leave(self, text: str) -> None:
        """Ends a block; subsequent code is unreachable unless a block begins."""
        self.lines += [text, f"{self.block()}:"]

    def variable(self, name: str) -> str:
        self.head[f"%{name}.v"] = "i64"
        return f"%{name}.v"

    # ---- Structures

    def meaning(self, e: ast.expr | None, home: ModuleType | None = None) -> Any:
        """Returns what a name stands for in the module, or another one: a number, a function, a
        structure. None for other expressions."""
        names = vars(home or self.home)
        match e:
            case ast.Name(id=name):
                return names.get(name, {"min": min, "max": max}.get(name))
            case ast.Attribute(value=ast.Name(id=of), attr=name):
                module = names.get(of)
                return getattr(module, name, None) if isinstance(module, ModuleType) else None
        return None

    def annotated(self, annotation: ast.expr | None, home: ModuleType | None = None) -> type | None:
        """Returns the structure that an annotation names, if it does."""
        kind = self.meaning(annotation, home)
        return kind if isinstance(kind, type) and objects.is_structure(kind) else None

    def note(self, name: str, kind: type | None) -> None:
        if kind is not None:
            self.structures[name] = kind

    def structure(self, e: ast.expr) -> type | None:
        """Returns the structure at the address that an expression gives, if it is known."""
        match e:
            case ast.Name(id=name):
                return self.structures.get(name)
            case ast.Subscript(value=ast.Attribute() as of):
                return objects.entry(self.of(of.value), of.attr)
            case ast.Call(func=ast.Name(id=name) as f) if name not in self.structures:
                function = self.meaning(f)
                if isinstance(function, FunctionType) and function.__module__ != __name__:
                    tree, home = definition(function)
                    return self.annotated(tree.returns, home)
        return None

    def of(self, e: ast.expr) -> type:
        found = self.structure(e)
        if found is None:
            raise SyntaxError(f"{ast.unparse(e)} in {self.definition.name}: of which structure?")
        return found

    def address(self, e: ast.expr) -> str:
        """Translates the address of a field."""
        if not isinstance(e, ast.Attribute):
            raise SyntaxError(f"{ast.unparse(e)} is no field")
        base = self.op(f"inttoptr i64 {self.value(e.value)} to ptr")
        offset = objects.offset(self.of(e.value), e.attr)
        return self.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    # ---- Statements

    def body(self, statements: list[ast.stmt]) -> None:
        for s in statements:
            match s:
                case ast.Assign(targets=[ast.Name(id=name)], value=e):
                    self.assign(name, e, self.structure(e))
                case ast.AnnAssign(
                    target=ast.Name(id=name), annotation=kind, value=ast.expr() as e
                ):
                    self.assign(name, e, self.annotated(kind))
                case ast.Assign(targets=[ast.Subscript(value=ast.Name() as at, slice=k)], value=e):
                    self.on_put(ast.BinOp(at, ast.Add(), ast.BinOp(k, ast.Mult(), _WORD)), e)
                case ast.Assign(targets=[field], value=e):
                    value = self.value(e)
                    self.do(f"store i64 {value}, ptr {self.address(field)}")
                case ast.Expr(value=ast.Constant(value=str())):
                    pass
                case ast.Expr(value=e):
                    self.value(e)
                case ast.Return(value=ast.expr() as e):
                    self.leave(f"ret i64 {self.value(e)}")
                case ast.Break():
                    self.leave(f"br label %{self.loops[-1]}")
                case ast.If(test=test, body=body, orelse=orelse):
                    self.choice(test, body, orelse)
                case ast.While(test=test, body=body):
                    self.loop(test, body)
                case ast.For(
                    target=ast.Name(id=name),
                    iter=ast.Call(func=ast.Name(id="range"), args=[_] | [_, _] as limits),
                    body=body,
                ):
                    self.count(name, limits, body)
                case _:
                    raise SyntaxError(ast.unparse(s))

    def assign(self, name: str, e: ast.expr, kind: type | None) -> None:
        value = self.value(e)
        self.note(name, kind)
        self.do(f"store i64 {value}, ptr {self.variable(name)}")

    def choice(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        yes, no, done = self.block(), self.block(), self.block()
        self.do(f"br i1 {self.test(test)}, label %{yes}, label %{no}")
        for block, inside in ((yes, body), (no, orelse)):
            self.do(f"{block}:")
            self.body(inside)
            self.do(f"br label %{done}")
        self.do(f"{done}:")

    def count(self, name: str, limits: list[ast.expr], body: list[ast.stmt]) -> None:
        """Translates a loop over numbers."""
        first, last = [ast.Constant(0), *limits][-2:]
        number, end = ast.Name(name), ast.Name(f"{name}.{len(self.head)}")
        self.assign(end.id, last, None)
        self.assign(name, first, None)
        following = ast.Assign([number], ast.BinOp(number, ast.Add(), ast.Constant(1)))
        self.loop(ast.Compare(number, [ast.Lt()], [end]), [*body, following])

    def loop(self, test: ast.expr, body: list[ast.stmt]) -> None:
        head, inside, done = self.block(), self.block(), self.block()
        self.lines += [f"br label %{head}", f"{head}:"]
        self.do(f"br i1 {self.test(test)}, label %{inside}, label %{done}")
        self.do(f"{inside}:")
        self.loops.append(done)
        self.body(body)
        self.loops.pop()
        self.lines += [f"br label %{head}", f"{done}:"]

    # ---- Expressions

    def test(self, e: ast.expr) -> str:
        """Translates a condition to `i1`."""
        match e:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as relation], comparators=[of]):
                x, *ys = [self.value(e) for e in (left, *of.elts)]  # type: ignore[attr-defined]
                result = self.op(f"icmp eq i64 {x}, {ys[0]}")
                for y in ys[1:]:
                    result = self.op(f"or i1 {result}, {self.op(f'icmp eq i64 {x}, {y}')}")
                inverted = isinstance(relation, ast.NotIn)
                return self.op(f"xor i1 {result}, true") if inverted else result
            case ast.Compare(left=left, ops=[relation], comparators=[right]):
                x, y = self.value(left), self.value(right)
                return self.op(f"icmp {_COMPARISONS[type(relation)]} i64 {x}, {y}")
            case ast.BoolOp(op=op, values=values):
                return self.either(values, isinstance(op, ast.Or))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.op(f"xor i1 {self.test(operand)}, true")
        return self.op(f"icmp ne i64 {self.value(e)}, 0")

    def either(self, values: list[ast.expr], wanted: bool) -> str:
        """Translates `or`, or `and` if false is `wanted`: conditions behind the first one that has
        that value are not evaluated."""
        place = f"%test.{len(self.head)}"
        self.head[place] = "i1"
        done = self.block()
        for k, e in enumerate(values):
            result = self.test(e)
            self.do(f"store i1 {result}, ptr {place}")
            if k < len(values) - 1:
                more = self.block()
                yes, no = (done, more) if wanted else (more, done)
                self.lines += [f"br i1 {result}, label %{yes}, label %{no}", f"{more}:"]
        self.lines += [f"br label %{done}", f"{done}:"]
        return self.op(f"load i1, ptr {place}")

    def value(self, e: ast.expr) -> str:
        """Translates an expression to `i64`."""
        match e:
            case ast.Constant(value=int() as number):
                return str(int(number))
            case ast.Name(id=name) if f"%{name}.v" in self.head:
                return self.op(f"load i64, ptr %{name}.v")
            case ast.Name() | ast.Attribute() if isinstance(number := self.meaning(e), int):
                return str(int(number))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.op(f"sub i64 0, {self.value(operand)}")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                x, y = self.value(left), self.value(right)
                return self.op(f"{_BINARY[type(op)]} i64 {x}, {y}")
            case ast.Attribute():
                return self.op(f"load i64, ptr {self.address(e)}")
            case ast.Subscript(value=ast.Attribute() as of, slice=index):
                return self.place(of, index)
            case ast.Call(func=ast.Name() as function, args=args):
                return self.call(function, args)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self.op(f"zext i1 {self.test(e)} to i64")
        raise SyntaxError(ast.unparse(e))

    def place(self, of: ast.Attribute, index: ast.expr) -> str:
        """Translates the address of an entry of an array."""
        size, length = objects.array_size(self.of(of.value), of.attr)
        place = self.op(f"and i64 {self.value(index)}, {length - 1}")
        place = self.op(f"mul i64 {place}, {size}")
        start = self.op(f"ptrtoint ptr {self.address(of)} to i64")
        return self.op(f"add i64 {start}, {place}")

    def call(self, called: ast.Name, args: list[ast.expr]) -> str:
        """Translates a call: of an operation of the language, or of another function."""
        name, function = called.id, self.meaning(called)
        if function in (min, max):
            return self.op(f"call i64 @llvm.s{name}.i64({self.values(args)})")
        if function.__module__ != __name__:
            self.callees.append(function)
            return self.op(f"call i64 @{self.symbols[function]}({self.values(args)})")
        if name in _ATOMIC:
            orders = [
                str(a.value) for a in args if isinstance(a, ast.Constant) and a.value in _ORDERS
            ]
            return self.atomic(name, args[: len(args) - len(orders)], " ".join(orders))
        return getattr(self, f"on_{name}")(*args)

    def values(self, args: list[ast.expr]) -> str:
        return ", ".join([f"i64 {self.value(a)}" for a in args])

    def atomic(self, name: str, args: list[ast.expr], order: str) -> str:
        place = self.address(args[0])
        values = [self.value(a) for a in args[1:]]
        match name:
            case "load":
                return self.op(f"load atomic i64, ptr {place} {order}, align 8")
            case "store":
                self.do(f"store atomic i64 {values[0]}, ptr {place} {order}, align 8")
                return "0"
            case "cas":
                pair = self.op(f"cmpxchg ptr {place}, i64 {values[0]}, i64 {values[1]} {order}")
                return self.op(f"zext i1 {self.op(f'extractvalue {{i64, i1}} {pair}, 1')} to i64")
        return self.op(f"atomicrmw {name} ptr {place}, i64 {values[0]} {order}")

    def pointer(self, e: ast.expr) -> str:
        return self.op(f"inttoptr i64 {self.value(e)} to ptr")

    def on_word(self, address: ast.expr) -> str:
        return self.op(f"load i64, ptr {self.pointer(address)}")

    def on_put(self, address: ast.expr, x: ast.expr) -> str:
        value = self.value(x)
        self.do(f"store i64 {value}, ptr {self.pointer(address)}")
        return "0"

    def on_room(self, words: ast.expr) -> str:
        place = f"%room.{len(self.head)}"
        self.head[place] = f"[{ast.unparse(words)} x i64]"
        return self.op(f"ptrtoint ptr {place} to i64")

    def on_address(self, field: ast.expr) -> str:
        return self.op(f"ptrtoint ptr {self.address(field)} to i64")

    def on_rounded(self, bits: ast.expr) -> str:
        double = self.op(f"bitcast i64 {self.value(bits)} to double")
        single = self.op(f"fptrunc double {double} to float")
        return self.op(f"zext i32 {self.op(f'bitcast float {single} to i32')} to i64")

    def on_number_f64(self, n: ast.expr, inverted: ast.expr) -> str:
        double = self.op(f"sitofp i64 {self.value(n)} to double")
        inverse = self.op(f"fdiv double 1.0, {double}")
        found = self.op(f"select i1 {self.test(inverted)}, double {inverse}, double {double}")
        return self.op(f"bitcast double {found} to i64")

    def on_external(self, name: ast.expr) -> str:
        symbol = ast.literal_eval(name)
        self.externals.add(symbol)
        return self.op(f"ptrtoint ptr @{symbol} to i64")

    def on_call(self, kind: ast.expr, function: ast.expr, *args: ast.expr) -> str:
        return self.called(ast.literal_eval(kind), self.value(function), args)

    def on_library(self, name: ast.expr, *args: ast.expr) -> str:
        return self.called(self.home.LIBRARY[ast.literal_eval(name)], self.on_external(name), args)

    def called(self, kind: str, address: str, args: Sequence[ast.expr]) -> str:
        """Translates the call of a C function of some type."""
        result, _, rest = kind.partition("(")
        arguments = []
        for of, x in zip(rest.removesuffix(")").split(", "), map(self.value, args), strict=False):
            how = {"i32": f"trunc i64 {x} to i32", "ptr": f"inttoptr i64 {x} to ptr"}.get(of)
            arguments.append(f"{of} {self.op(how) if how else x}")
        f = self.op(f"inttoptr i64 {address} to ptr")
        text = f"call {result} {f}({', '.join(arguments)})"
        if result == "void":
            self.do(text)
            return "0"
        value = self.op(text)
        return value if result == "i64" else self.op(f"sext {result} {value} to i64")


_ORDERS = get_args(Order)
_ATOMIC = frozenset({"load", "store", "add", "xchg", "cas"})

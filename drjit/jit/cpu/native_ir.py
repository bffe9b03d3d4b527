"""Translates functions on 64-bit integers, written as Python, to LLVM IR; the launcher's own code
is such a text (`native_code.py`).

The language has assignments, `if`, `while`, `break` and `return`; all conditions of an `and` or
`or` are evaluated. A name stands for a number or an address. `job.done` is a field of the structure
associated with that name, and `c.jobs[k]` the address of an array element, whose index wraps
around. Functions that take a field receive its address; those marked `@inline` become part of their
callers.
"""

import ast
import ctypes
from typing import Any

from ..parsing import syntax_tree

_BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "udiv", ast.BitAnd: "and",
    ast.BitOr: "or", ast.LShift: "shl", ast.RShift: "lshr", ast.Mult: "mul",
}  # fmt: skip
_COMPARISONS: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
}  # fmt: skip


def module_text(
    source: str,
    structures: dict[str, type[ctypes.Structure]],
    constants: dict[str, int],
    exported: frozenset[str],
) -> str:
    """Returns the LLVM module of some functions; names in `structures` are addresses of
    structures."""
    functions = [
        _Function(f, structures, constants)
        for f in syntax_tree(source).body
        if isinstance(f, ast.FunctionDef)
    ]
    texts = [f.text("" if f.definition.name in exported else "internal ") for f in functions]
    externals = sorted(set().union(*[f.externals for f in functions]))
    return "\n".join([*[f"@{name} = external global i64" for name in externals], *texts])


class _Function:
    """One function: variables are on the stack, from where LLVM moves them to registers."""

    def __init__(self, definition: ast.FunctionDef, structures: dict, constants: dict):
        self.definition, self.structures, self.constants = definition, structures, constants
        self.head: dict[str, str] = {}  # contents of the stack
        self.lines: list[str] = []
        self.number = 0
        self.loops: list[str] = []  # the ends of enclosing loops
        self.externals: set[str] = set()

    def text(self, linkage: str) -> str:
        """Returns the definition."""
        names = [a.arg for a in self.definition.args.args]
        for name in names:
            self.do(f"store i64 %{name}, ptr {self.variable(name)}")
        self.body(self.definition.body)
        self.do("ret i64 0")
        head = [f"{name} = alloca {kind}" for name, kind in self.head.items()]
        parameters = ", ".join([f"i64 %{name}" for name in names])
        name = self.definition.name
        inline = " alwaysinline" * bool(self.definition.decorator_list)
        lines = [f"define {linkage}i64 @{name}({parameters}){inline} {{"]
        lines += [*head, *self.lines, "}"]
        return "\n".join(lines)

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

    def body(self, statements: list[ast.stmt]) -> None:
        for s in statements:
            match s:
                case ast.Assign(targets=[ast.Name(id=name)], value=e):
                    value = self.value(e)
                    self.do(f"store i64 {value}, ptr {self.variable(name)}")
                case ast.Assign(targets=[field], value=e):
                    value = self.value(e)
                    self.do(f"store i64 {value}, ptr {self.address(field)}")
                case ast.Expr(value=e):
                    self.value(e)
                case ast.Return(value=ast.expr() as e):
                    self.leave(f"ret i64 {self.value(e)}")
                case ast.Break():
                    self.leave(f"br label %{self.loops[-1]}")
                case ast.If(test=test, body=body, orelse=orelse):
                    yes, no, done = self.block(), self.block(), self.block()
                    self.do(f"br i1 {self.test(test)}, label %{yes}, label %{no}")
                    for block, inside in ((yes, body), (no, orelse)):
                        self.do(f"{block}:")
                        self.body(inside)
                        self.do(f"br label %{done}")
                    self.do(f"{done}:")
                case ast.While(test=test, body=body):
                    head, inside, done = self.block(), self.block(), self.block()
                    self.lines += [f"br label %{head}", f"{head}:"]
                    self.do(f"br i1 {self.test(test)}, label %{inside}, label %{done}")
                    self.do(f"{inside}:")
                    self.loops.append(done)
                    self.body(body)
                    self.loops.pop()
                    self.lines += [f"br label %{head}", f"{done}:"]
                case _:
                    raise SyntaxError(ast.unparse(s))

    def test(self, e: ast.expr) -> str:
        """Translates a condition to `i1`."""
        match e:
            case ast.Compare(left=left, ops=[relation], comparators=[right]):
                x, y = self.value(left), self.value(right)
                return self.op(f"icmp {_COMPARISONS[type(relation)]} i64 {x}, {y}")
            case ast.BoolOp(op=op, values=[first, *others]):
                result = self.test(first)
                for other in others:
                    how = "and" if isinstance(op, ast.And) else "or"
                    result = self.op(f"{how} i1 {result}, {self.test(other)}")
                return result
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.op(f"xor i1 {self.test(operand)}, true")
        return self.op(f"icmp ne i64 {self.value(e)}, 0")

    def value(self, e: ast.expr) -> str:
        """Translates an expression to `i64`."""
        match e:
            case ast.Constant(value=number):
                return str(number)
            case ast.Name(id=name) if name in self.constants:
                return str(self.constants[name])
            case ast.Name(id=name):
                return self.op(f"load i64, ptr {self.variable(name)}")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.op(f"sub i64 0, {self.value(operand)}")
            case ast.BinOp(left=left, op=op, right=right):
                x, y = self.value(left), self.value(right)
                return self.op(f"{_BINARY[type(op)]} i64 {x}, {y}")
            case ast.Attribute():
                return self.op(f"load i64, ptr {self.address(e)}")
            case ast.Subscript(value=ast.Attribute() as of, slice=index):
                array: Any = self.array(of)
                place = self.op(f"and i64 {self.value(index)}, {array._length_ - 1}")
                place = self.op(f"mul i64 {place}, {ctypes.sizeof(array._type_)}")
                start = self.op(f"ptrtoint ptr {self.address(of)} to i64")
                return self.op(f"add i64 {start}, {place}")
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.call(name, args)
        return self.op(f"zext i1 {self.test(e)} to i64")

    def structure(self, e: ast.expr) -> Any:
        """Returns the type of the structure at an address."""
        if isinstance(e, ast.Subscript) and isinstance(e.value, ast.Attribute):
            return self.array(e.value)._type_
        return self.structures[ast.unparse(e)]

    def array(self, e: ast.Attribute) -> Any:
        """Returns the type of an array field."""
        return dict(self.structure(e.value)._fields_)[e.attr]

    def address(self, e: ast.expr) -> str:
        """Translates the address of a field."""
        if not isinstance(e, ast.Attribute):
            raise SyntaxError(f"{ast.unparse(e)} is no field")
        offset = getattr(self.structure(e.value), e.attr).offset
        base = self.op(f"inttoptr i64 {self.value(e.value)} to ptr")
        return self.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def call(self, name: str, args: list[ast.expr]) -> str:
        """Translates a call: of atomic operations and the like, or of a function of the module."""
        orders = [a.id for a in args if isinstance(a, ast.Name) and a.id in _ORDERS]
        order = " ".join(orders)
        if orders:
            place = self.address(args[0])
            values = [self.value(a) for a in args[1 : len(args) - len(orders)]]
            x = values[0] if values else ""
            if name == "load":
                return self.op(f"load atomic i64, ptr {place} {order}, align 8")
            if name == "store":
                self.do(f"store atomic i64 {x}, ptr {place} {order}, align 8")
                return "0"
            if name == "cas":
                pair = self.op(f"cmpxchg ptr {place}, i64 {x}, i64 {values[1]} {order}")
                return self.op(f"zext i1 {self.op(f'extractvalue {{i64, i1}} {pair}, 1')} to i64")
            return self.op(f"atomicrmw {name} ptr {place}, i64 {x} {order}")
        if name == "room":  # words of the stack
            place = f"%room.{len(self.head)}"
            self.head[place] = f"[{ast.unparse(args[0])} x i64]"
            return self.op(f"ptrtoint ptr {place} to i64")
        if name == "word":  # the contents of an address
            return self.op(f"load i64, ptr {self.op(f'inttoptr i64 {self.value(args[0])} to ptr')}")
        if name == "rounded":  # the bits of a double as those of a float
            double = self.op(f"bitcast i64 {self.value(args[0])} to double")
            single = self.op(f"fptrunc double {double} to float")
            return self.op(f"zext i32 {self.op(f'bitcast float {single} to i32')} to i64")
        if name == "external":  # the address that `foreign.symbols` has for a name
            symbol = ast.literal_eval(args[0])
            self.externals.add(symbol)
            return self.op(f"ptrtoint ptr @{symbol} to i64")
        if name == "call":  # a C function, by its address
            return self.foreign(ast.literal_eval(args[0]), *[self.value(a) for a in args[1:]])
        values = ", ".join([f"i64 {self.value(a)}" for a in args])
        if name in ("min", "max"):
            name = f"llvm.s{name}.i64"
        return self.op(f"call i64 @{name}({values})")

    def foreign(self, kind: str, function: str, *values: str) -> str:
        """Translates the call of a function with a type such as `i32(ptr, i64)`."""
        result, _, rest = kind.partition("(")
        arguments = []
        for of, x in zip(rest.removesuffix(")").split(", "), values, strict=False):
            how = {"i32": f"trunc i64 {x} to i32", "ptr": f"inttoptr i64 {x} to ptr"}.get(of)
            arguments.append(f"{of} {self.op(how) if how else x}")
        f = self.op(f"inttoptr i64 {function} to ptr")
        call = f"call {result} {f}({', '.join(arguments)})"
        if result == "void":
            self.do(call)
            return "0"
        value = self.op(call)
        return value if result == "i64" else self.op(f"sext {result} {value} to i64")


_ORDERS = frozenset({"monotonic", "acquire", "release", "acq_rel", "seq_cst"})

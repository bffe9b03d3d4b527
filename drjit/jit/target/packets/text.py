"""From a function of a kernel's text to Numba's representation of it, with types.

Numba's own way from bytecode to this, and its inference of types, take ten times as long.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numba.core import ir, types
from numba.core.bytecode import FunctionIdentity
from numba.core.typing.templates import signature

from ..language import target_names
from ..simd.arguments import grouped
from ..simd.ir import SCALAR, KernelError
from ..simd.translate import Translator
from . import operations
from .operations import ConstantType, FunctionType, operation, packet


class LoweringStep(ir.Stmt):
    """A statement that is a function of the lowering, with the variables that it assigns."""

    def __init__(self, loc: Any, run: Callable, targets: Sequence[str]):
        self.loc, self.run, self.targets = loc, run, targets

    def __repr__(self) -> str:
        return "a function of the lowering"


class Typed(NamedTuple):
    """A function in Numba's representation: the types of its variables and calls, the result, and
    the statement of each line."""

    function: ir.FunctionIR
    variables: dict[str, Any]
    calls: dict[Any, Any]
    statements: dict[int, ast.stmt]


class NumbaReader:
    """Reads a function, statement by statement."""

    def __init__(self, t: Translator, definition: ast.FunctionDef):
        self.t, self.definition = t, definition
        self.loc = ir.Loc("kernel text", 1)
        self.scope = ir.Scope(None, self.loc)
        self.blocks: dict[int, ir.Block] = {}
        self.types: dict[str, Any] = {}  # of Numba's variables
        self.calls: dict[Any, Any] = {}
        self.signatures: dict[tuple, Any] = {}  # by the types, which live as long
        self.names: dict[str, ir.Var] = {}  # the variables of the text that exist here
        self.functions: dict[Any, ir.Var] = {}
        self.statements: dict[int, ast.stmt] = {}
        self.temporaries = 0
        self.block = self.open()
        self.has_vectors = hasattr(t, "survey")

    # ------------------------------------------------------------------------- Numba's statements

    def open(self) -> ir.Block:
        """Begins a block, whose number is that of its place in the text."""
        self.block = self.blocks[len(self.blocks)] = ir.Block(self.scope, self.loc)
        return self.block

    def label(self) -> int:
        """Returns the number of the current block."""
        return len(self.blocks) - 1

    def variable(self, name: str, kind: Any) -> ir.Var:
        """Returns a variable of Numba. A name of the text that changes its type has several."""
        known = self.types.setdefault(name, kind)
        if known is not kind and known != kind:
            name = f"{name}.{len(self.types)}"
            self.types[name] = kind
        return ir.Var(self.scope, name, self.loc)

    def assign(self, value: Any, kind: Any, name: str = "") -> ir.Var:
        """Assigns a value to a variable, or to a new one."""
        if not name:
            self.temporaries += 1
            name = f"${self.temporaries}"
        target = self.variable(name, kind)
        self.block.append(ir.Assign(value, target, self.loc))
        return target

    def call(self, e: Any, args: Sequence[ir.Var], name: str = "") -> ir.Var:
        """Assigns the result of a call or of an operator."""
        if type(e) is ast.Call:
            operation = e.func.id  # type: ignore[attr-defined]
            value = ir.Expr.call(self.function(operation), args, (), self.loc)
        else:
            symbol = e.ops[0] if type(e) is ast.Compare else e.op
            function, operation = operations.SYMBOLS[type(symbol)]
            if len(args) == 2:
                value = ir.Expr.binop(function, args[0], args[1], self.loc)
            else:
                value = ir.Expr.unary(function, args[0], self.loc)
        kinds = [self.types[a.name] for a in args]
        key = operation, *map(id, kinds)
        known = self.signatures.get(key)
        if known is None:
            result = operations.result_type(self.t, operation, kinds)
            known = self.signatures[key] = signature(result, *kinds)
        self.calls[value] = known
        return self.assign(value, known.return_type, name)

    def function(self, name: str) -> ir.Var:
        """Returns the variable of an operation or an element type."""
        found = self.functions.get(name)
        if found is None:
            known = operation(name)
            if known is None and name not in self.t.module.bodies:
                raise KernelError(f"the function {name} is unknown")
            kind = known or FunctionType(name)
            found = self.functions[name] = ir.Var(self.scope, f"${name}", self.loc)
            self.types[found.name] = kind
            value = ir.Global(name, kind.typing_key, self.loc)
            self.blocks[0].body.insert(0, ir.Assign(value, found, self.loc))
        return found

    # --------------------------------------------------------------------------------- expressions

    def value(self, e: Any, name: str = "") -> ir.Var:
        """Assigns the value of an expression to a variable of the text, or to a new one."""
        kind = type(e)
        if kind is ast.Name:
            found = self.operand(e)
            return found if not name else self.assign(found, self.types[found.name], name)
        if kind is ast.Call and type(e.func) is ast.Name and not e.keywords:
            operands = e.args
        elif kind is ast.Compare and len(e.ops) == 1:
            operands = e.left, e.comparators[0]
        elif kind is ast.BinOp and not self.is_constant(e):
            operands = e.left, e.right
        elif kind is ast.UnaryOp and not self.is_constant(e):
            operands = (e.operand,)
        else:
            return self.spelled(e, name)
        return self.call(e, [self.operand(a) for a in operands], name)

    def is_constant(self, e: ast.expr) -> bool:
        """Whether an expression consists of numbers, or is a number of a word."""
        if type(e) is ast.BinOp:
            return self.is_constant(e.left) and self.is_constant(e.right)
        if type(e) is ast.UnaryOp:
            return self.is_constant(e.operand)
        if type(e) is ast.Name:
            return self.types.get(e.id) is operations.WORD
        return type(e) is ast.Constant and type(e.value) in (int, float)

    def spelled(self, e: ast.expr, name: str = "") -> ir.Var:
        """Assigns what the text spells out."""
        if type(e) is ast.Subscript:
            kind: Any = operations.WORD
        elif type(e) is ast.Constant and type(e.value) is bool:
            kind = packet("mask", self.t.f.lanes) if name else ConstantType(e)
        else:
            kind = ConstantType(e)
        return self.assign(ir.Const(e, self.loc), kind, name)

    def operand(self, e: ast.expr) -> ir.Var:
        """Returns an argument."""
        if type(e) is ast.Name:
            found = self.names.get(e.id)
            if found is not None:
                return found
            if e.id in SCALAR:
                return self.function(e.id)
            raise KernelError(f"the name {e.id} is unknown")
        return self.value(e)

    # ---------------------------------------------------------------------------------- statements

    def read(self) -> Typed:
        """Reads the whole function."""
        t, d = self.t, self.definition
        for k, a in enumerate(d.args.args):
            kind: Any = (operations.LANES, operations.PARAMETERS)[k] if k < 2 else None
            if kind is None:
                code = ast.unparse(a.annotation)  # type: ignore[arg-type]
                kind = packet(code, t.f.lanes) if code in SCALAR else operations.WORD
            self.types[f"arg.{a.arg}"] = kind
            self.names[a.arg] = self.assign(ir.Arg(a.arg, k, self.loc), kind, a.arg)
        self.body(d.body)
        if not self.block.body or type(self.block.body[-1]) is not ir.Return:
            self.leave(())
        arguments = [a.arg for a in d.args.args]
        identity: Any = FunctionIdentity.from_function(_stub(d.name, tuple(arguments)))
        function = ir.FunctionIR(
            self.blocks, False, identity, self.loc, {}, len(arguments), arguments
        )
        return Typed(function, self.types, self.calls, self.statements)

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Reads a sequence of statements."""
        for group in grouped(statements) if self.t.has_runs else zip(statements):
            s = group[0]
            self.loc = self.loc.with_lineno(s.lineno)
            self.statements[s.lineno] = s
            try:
                if len(group) > 1:
                    self.run(group)
                else:
                    _READERS[type(s)](self, s)
            except KernelError as error:
                raise self.t.located(error, s) from None
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                problem = KernelError(f"cannot be translated ({type(error).__name__}: {error})")
                raise self.t.located(problem, s) from error

    def mark(self, run: Callable, targets: Sequence[str] = ()) -> None:
        """Appends a statement that is a function of the lowering."""
        self.block.append(LoweringStep(self.loc, run, targets))

    def around(self, s: ast.stmt, read: Callable[[], None]) -> None:
        """Reads a statement, whose beginning and end matter to vectors."""
        if not self.has_vectors:
            read()
            return
        self.mark(lambda lower: lower.t.begin(s))
        read()
        self.mark(lambda lower: lower.t.end(s))

    def assignment(self, s: ast.Assign) -> None:
        """`name = expression` or `a, b = call(...)`."""
        (target,) = s.targets
        self.around(s, lambda: self.assigned(target, s.value))

    def assigned(self, target: Any, e: Any) -> None:
        """Assigns an expression to one name or to several."""
        if type(target) is ast.Name:
            self.names[target.id] = self.value(e, target.id)
            return
        nodes: list[Any] = target.elts  # type: ignore[attr-defined]
        values: list[ir.Var] = []
        if type(e) is ast.Tuple:
            values = [self.value(v) for v in e.elts]
            kinds = [self.types[v.name] for v in values]
        else:
            values = [self.value(e)]
            kinds = [*self.types[values[0].name]]
        if type(e) is ast.Tuple:  # all at once: names may trade places
            made = [self.variable(n.id, kind) for n, kind in zip(nodes, kinds, strict=True)]
            sources, names = [v.name for v in values], [v.name for v in made]
            self.mark(lambda lower: lower.assign_together(sources, names), names)
        else:
            made = []
            for k, (node, kind) in enumerate(zip(nodes, kinds, strict=True)):
                item = ir.Expr.static_getitem(values[0], k, None, self.loc)
                made.append(self.assign(item, kind, node.id))
        self.names |= {node.id: v for node, v in zip(nodes, made, strict=True)}

    def effect(self, s: ast.Expr) -> None:
        """A call for its effect, or a docstring."""
        if type(s.value) is not ast.Constant:
            self.around(s, lambda: self.value(s.value) and None)

    def leave(self, s: Any) -> None:
        """`return`."""
        values: list[ir.Var] = []
        if type(s) is ast.Return:
            nodes: list[Any] = s.value.elts if type(s.value) is ast.Tuple else [s.value]
            values = [self.operand(node) for node in nodes]
        self.mark(lambda lower: lower.leave([v.name for v in values]))
        nothing = self.assign(ir.Const(None, self.loc), types.none)
        self.block.append(ir.Return(nothing, self.loc))

    def branch(self, s: ast.If) -> None:
        """`if any_lane(m):`."""
        before = self.enter(s)
        condition, origin = self.value(s.test), self.block
        inside = self.nested(s)
        body = self.block
        self.open()
        origin.append(ir.Branch(condition, inside, self.label(), self.loc))
        body.append(ir.Jump(self.label(), self.loc))
        self.names = before

    def loop(self, s: ast.While) -> None:
        """`while any_lane(m):`."""
        before = self.enter(s)
        origin = self.block
        self.open()
        head, start = self.block, self.label()
        origin.append(ir.Jump(start, self.loc))
        condition = self.value(s.test)
        inside = self.nested(s)
        self.block.append(ir.Jump(start, self.loc))
        self.open()
        head.append(ir.Branch(condition, inside, self.label(), self.loc))
        self.names = before

    def enter(self, s: Any) -> dict[str, ir.Var]:
        """Begins a branch or loop. Returns the variables that exist after it."""
        if self.has_vectors:
            self.mark(lambda lower: lower.t.enter(s.body))
        return dict(self.names)

    def nested(self, s: Any) -> int:
        """Reads a body in blocks of its own and returns the number of the first."""
        self.open()
        first = self.label()
        self.mark(lambda lower: lower.deeper(1))
        self.body(s.body)
        if self.has_vectors:
            self.mark(lambda lower: lower.t.leave_body())
        self.mark(lambda lower: lower.deeper(-1))
        return first

    def run(self, group: Sequence[Any]) -> None:
        """Reads statements that the front end translates together, as one of Numba's."""
        kinds = {}
        calls: list[Any] = [s.value for s in group]
        for s, call in zip(group, calls, strict=True):
            for e in call.args:
                if type(e) is ast.Name:
                    self.operand(e)
            if type(s) is ast.Assign:
                kinds[target_names(s)[0]] = packet(call.args[0].id, self.t.f.lanes)
        named = {e.id for call in calls for e in call.args if type(e) is ast.Name}
        used = {n: self.names[n].name for n in named if n in self.names}
        results = {name: self.variable(name, kind) for name, kind in kinds.items()}
        places = {n: v.name for n, v in results.items()}
        self.mark(lambda lower: lower.run(group, used, places), list(places.values()))
        self.names |= results


def _stub(name: str, arguments: tuple[str, ...]) -> Callable:
    """Returns a function with the name and the arguments of one of the text."""
    scope: dict[str, Any] = {"__name__": "kernel"}
    exec(f"def {name}({', '.join(arguments)}): pass", scope)
    return scope[name]


_READERS: dict[type, Callable] = {
    ast.Assign: NumbaReader.assignment,
    ast.Expr: NumbaReader.effect,
    ast.Return: NumbaReader.leave,
    ast.If: NumbaReader.branch,
    ast.While: NumbaReader.loop,
}

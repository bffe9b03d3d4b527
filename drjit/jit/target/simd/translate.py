"""Translates kernel text to the text of an LLVM module: parses with `ast`, infers types forward,
and emits SSA form directly.

Structured `if` and `while` statements get phis for the variables that their bodies assign. Library
functions are emitted once per module and type.
"""

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.op import TABLE
from .. import foreign, library
from ..language import OPERATORS, assigned
from . import contraction, elementwise
from .arguments import CALLS, FEWEST, RUNS, grouped, parameter_name, statement
from .conversion import convert, reinterpret
from .foreign import call as foreign_call
from .ir import NUMBER, SCALAR, Function, KernelError, Operand

if TYPE_CHECKING:
    from .module import Module

ACTIVE = "%active"  # the mask of the lanes below the end of the range
# The parameters of a function of the text: those of its kernel, and the first lane of the packet.
LANES = "ptr %p, i64 %i, i64 %end, i64 %block, i64 %thread"

# The names of the operations that operators stand for.
_NAMES = {kind: o.name for kind, o in OPERATORS.items()}
CALLABLE = frozenset([name for name in elementwise.TABLE if TABLE[name].kind == "call"])

# A kernel whose text refers to more parameter words than this also reads the others at their use:
# held in registers from the entry block on, they would be spilled and make compilation quadratic.
WORDS_IN_REGISTERS = 256

# Number of lines after which a block is split: instruction selection takes time quadratic in the
# length of a block.
BLOCK_LINES = 1000
# Number of statements from which on the body of a loop is long.
LONG_BODY = 100

LATER = 8  # statements that run one packet later: each has its code twice


class Carried:
    """A value carried by the packet loop: its name, its type, and its values before and after a
    packet and after a pause.
    """

    def __init__(self, name: str, kind: str, start: str):
        self.name, self.kind, self.start, self.end = name, kind, start, start
        self.resumed: str | None = None  # None: as after the packet


class Deferred(str):
    """A literal that is read at its use: the number of its parameter word."""

    __slots__ = ()


class Translator:
    """Translates the statements of one function."""

    # The translators of calls whose arguments are not all plain operands, by name.
    calls = CALLS
    # How operations are emitted.
    row_of = staticmethod(contraction.row)

    def __init__(
        self, module: "Module", f: Function, source: str, *, is_kernel: bool, depth: int = 0
    ):
        self.module, self.f = module, f
        self.is_kernel = is_kernel
        self.contract = module.contract and is_kernel
        # More literals than registers for them: each is a memory operand where it is used.
        self.crowded = source.count("literal(") > f.machine.literals
        self.has_many_words = source.count("p[") > WORDS_IN_REGISTERS
        self.has_runs = any(source.count(f"{name}(") >= FEWEST for name in RUNS)
        self.rows: dict[tuple[str, str], elementwise.Row] = {}
        self.depth = self.top = depth
        self.result: tuple[Operand, ...] = ()
        # Reductions over all lanes, in the order of the text (see `reduction`), and the values
        # carried by the packet loop.
        self.reductions: list = []
        # Code for sums, run after a number of packets and after the last one.
        self.pauses: list[Callable[[], None]] = []
        # Code that runs after the last packet.
        self.endings: list[Callable[[], None]] = []
        self.expansions: list = []
        self.finishers: list[Callable[[Function], None]] = []
        self.carried: list[Carried] = []
        self.previous: dict[Operand, Carried] = {}  # which hold values until the next packet
        self.needs_active = False
        self.splits = 0  # number of blocks split because of their length

    def carry(self, kind: str, start: str) -> "Carried":
        """Creates a value that the packet loop carries from one packet to the next."""
        carried = Carried(f"%carried{len(self.carried)}", kind, start)
        self.carried.append(carried)
        return carried

    def one_packet_later(self, values: list[Operand], emit: Callable[..., None]) -> None:
        """Emits code for the values of the previous packet and, after the last packet, for those of
        this: meanwhile, prefetched memory arrives. A mask among the values is empty at first. A
        program that does this often spends enough time on a packet: further code is for the
        packet's own values."""
        if len(self.endings) == LATER:
            emit(*[x for _, x in values])
            return
        for value in values:
            if value not in self.previous:
                self.previous[value] = self.carry(self.f.vector[value[0]], "zeroinitializer")
                self.previous[value].end = value[1]
        emit(*[self.previous[value].name for value in values])
        self.endings.append(lambda: emit(*[x for _, x in values]))

    def active(self) -> str:
        """Returns the mask of the lanes below the end of the range."""
        self.needs_active = True
        return ACTIVE

    # ------------------------------------------------------------------------------ statements

    def body(self, statements: list[ast.stmt]) -> None:
        """Translates a sequence of statements."""
        f = self.f
        for first, *more in grouped(statements) if self.has_runs else zip(statements):
            if len(f.lines) - f.begun > BLOCK_LINES and self.is_kernel:
                self.split_block()
            try:
                if more:
                    name = first.value.func.id  # type: ignore[attr-defined]
                    RUNS[name](self, [first, *more])
                else:
                    self.statement(first)
            except KernelError as error:
                if hasattr(error, "line"):
                    raise
                raise self.located(error, first) from None
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                problem = KernelError(f"cannot be translated ({type(error).__name__}: {error})")
                raise self.located(problem, first) from error

    def split_block(self) -> None:
        """Splits a long block. The condition is never true, which LLVM cannot know, or it would
        merge the blocks again: the first word is the address of the error record, or zero. It is
        loaded before the first block, because a volatile load waits for all loads of its block,
        and selecting instructions would take a fifth longer; on a GPU it would occupy registers.
        """
        f = self.f
        self.splits += 1
        following = f.new_block()
        load = "load volatile i64, ptr %p"
        word = f.once("%never.word", load) if f.lanes > 1 else f.op(load)
        never = f.op(f"icmp eq i64 {word}, {self.splits}")
        f.branch(never, "never", following, weights=", !prof !1")
        f.start(following)
        self.module.has_splits = True

    def statement(self, s: ast.stmt) -> None:
        """Translates one statement."""
        STATEMENTS[type(s)](self, s)

    def located(self, error: KernelError, statement: ast.stmt) -> KernelError:
        located = KernelError(f"line {statement.lineno}: {ast.unparse(statement)}: {error}")
        located.line = statement.lineno  # type: ignore[attr-defined]
        return located

    def assign(self, s: ast.Assign) -> None:
        """`name = expression` or `a, b = call(...)`."""
        (target,) = s.targets
        value = EXPRESSIONS.get(type(s.value), Translator.expr)(self, s.value)
        if type(target) is ast.Name:
            self.f.variables[target.id] = value
            return
        for name, one in zip(target.elts, value, strict=True):  # type: ignore[attr-defined]
            self.f.variables[name.id] = one

    def effect(self, s: ast.Expr) -> None:
        """Translates a call for its effect (or a docstring)."""
        if type(s.value) is not ast.Constant:
            self.expr(s.value)

    def leave(self, s: ast.Return) -> None:
        """Translates `return` at the end of a function."""
        nodes: Any = s.value.elts if type(s.value) is ast.Tuple else [s.value]
        self.result = tuple(self.typed(node) for node in nodes)

    def branch(self, s: ast.If) -> None:
        """`if any_lane(m):`."""
        f, variables = self.f, self.f.variables
        condition = self.test(s.test)
        names = self.enter(s.body)
        before = {name: variables[name] for name in names if name in variables}
        origin, inside, done = f.block, f.new_block(), f.new_block()
        # The library branches for rare arguments only.
        f.branch(condition, inside, done, weights="" if self.is_kernel else ", !prof !1")
        f.start(inside)
        self.nested(s.body)
        self.leave_body()
        end = f.block
        f.do(f"br label %{done}")
        f.start(done)
        for name in names:
            if name not in before or name not in variables:
                variables.pop(name, None)
                continue
            (code, old), (now, new) = before[name], variables[name]
            if code == NUMBER or code != now:
                # Unused after the branch.
                del variables[name]
            elif new != old:
                parts = zip(
                    self.registers(before[name]), self.registers(variables[name]), strict=True
                )
                phis = [
                    f.op(f"phi {kind} [{x}, %{end}], [{y}, %{origin}]")
                    for (kind, y), (_, x) in parts
                ]
                variables[name] = self.of_registers(before[name], phis)

    def loop(self, s: ast.While) -> None:
        """`while any_lane(m):`."""
        f, variables = self.f, self.f.variables
        names = self.enter(s.body)
        origin, head, inside, done = f.block, f.new_block(), f.new_block(), f.new_block()
        f.do(f"br label %{head}")
        f.start(head)
        phis = {}
        for name in names:
            if name in variables:
                start = variables[name]
                line, parts = len(f.lines), self.registers(start)
                results = [f.op("") for _ in parts]
                phis[name] = start, parts, line, results
                variables[name] = self.of_registers(start, results)
        checked = self.last_check(s)
        if checked:
            self.assign(s.body[-1])  # type: ignore[arg-type]
        going = {name: variables[name] for name in checked}
        f.branch(self.test(s.test), inside, done)
        f.start(inside)
        self.nested(s.body[:-1] if checked else s.body)
        if checked:
            # No code, but loads stay before it, where products and sums are fused with them.
            f.do("call void @llvm.sideeffect()")
        self.leave_body()
        end = f.block
        f.do(f"br label %{head}")
        for name in names:
            if name not in phis:
                variables.pop(name, None)
                continue
            start, parts, line, results = phis[name]
            if name in variables:
                after = self.registers(variables[name])
            else:  # a vector that is not needed after the body
                after = [(kind, "poison") for kind, _ in parts]
            for result, (kind, x), (_, y) in zip(results, parts, after, strict=True):
                f.lines[line] = f"{result} = phi {kind} [{x}, %{origin}], [{y}, %{end}]"
                line += 1
            variables[name] = self.of_registers(start, results)
        variables |= going
        f.start(done)

    def last_check(self, s: ast.While) -> list[str]:
        """Returns the mask of a loop `while any_lane(m):` if its body is long and ends with
        `m = going(p[0], m)`. This is translated before the test, in a block of its own: as in
        `split_block`, the body then takes less time. A short loop would be up to 2% slower.
        """
        match s.test, s.body[-1]:
            case (
                ast.Call(func=ast.Name(id="any_lane"), args=[ast.Name(id=tested)]),
                ast.Assign([ast.Name(id=name)], ast.Call(ast.Name("going"), [_, ast.Name(mask)])),
            ) if self.f.lanes > 1 and len(s.body) > LONG_BODY and tested == name == mask:
                return [name]
        return []

    def registers(self, value: Operand) -> list[tuple[str, str]]:
        """Returns the registers of a value, each with its type: a phi merges one."""
        code, x = value
        if x in self.f.uses:
            self.f.uses[x] += 1
        return [(self.f.vector[code], x)]

    def of_registers(self, like: Operand, registers: list[str]) -> Operand:
        """Returns the value in other registers, with the type of an existing one."""
        return like[0], registers[0]

    def enter(self, statements: list[ast.stmt]) -> list[str]:
        """Returns the names that a body assigns, before it is translated: those that need phis."""
        return assigned(statements)

    def leave_body(self) -> None:
        """At the end of a body, drops variables that have no phis."""

    def nested(self, statements: list[ast.stmt]) -> None:
        """Translates the body of a branch or loop."""
        self.depth += 1
        self.body(statements)
        self.depth -= 1

    def test(self, e: Any) -> str:
        """Translates the condition of a branch or loop to `i1`."""
        mask = self.mask(e.args[0])
        if e.func.id == "any_lane":
            return self.f.any(mask)
        return self.f.op(f"icmp eq i{self.f.lanes} {self.f.bits(mask)}, -1")

    # ------------------------------------------------------------------------------- arguments

    def arguments(self, kinds: list[str], more: str | None, nodes: Sequence[ast.expr]) -> list[Any]:
        """Returns the arguments of a call, each parsed by the method that its kind names; all
        further ones have the same kind, if they are allowed."""
        if more is not None:
            kinds = kinds + [more] * (len(nodes) - len(kinds))
        code = ""
        values: list[Any] = []
        for kind, e in zip(kinds, nodes, strict=True):
            if kind == "operand":
                values.append(self.typed(e, code)[1])
            elif kind != "lane_range":
                values.append(getattr(self, kind)(e))
                code = values[-1] if kind == "type" else code
        return values

    def node(self, e: ast.expr) -> ast.expr:
        """An argument that the statement itself examines."""
        return e

    def type(self, e: Any) -> str:
        """An argument that names an element type."""
        return e.id

    def typed(self, e: ast.expr, code: str = "") -> Operand:
        """A typed argument: a number takes the given type, which anything else has."""
        value = self.expr(e)
        return (code, self.f.constant(code, value[1])) if value[0] == NUMBER else value

    index = typed  # unsigned

    def mask(self, e: ast.expr) -> str:
        """An argument that is a mask."""
        return self.typed(e, "mask")[1]

    def parameter(self, e: Any) -> int:
        """An argument `p[k]`: its index."""
        return e.slice.value

    def word(self, e: ast.expr) -> str:
        """The word that is an argument `p[k]`."""
        f, k = self.f, self.parameter(e)
        return f.word_here(k) if self.has_many_words else f.word(k)

    def pointer(self, e: ast.expr) -> str:
        """The address that an argument `p[k]` holds."""
        f, k = self.f, self.parameter(e)
        if self.has_many_words:
            return f.op(f"inttoptr i64 {f.word_here(k)} to ptr")
        return f.pointer(k)

    def spelled(self, e: Any) -> Any:
        """An argument that the text spells out."""
        return e.value

    integer = text = flag = reduction = spelled

    def whole(self, e: ast.expr) -> str:
        """An argument that is an integer for all lanes: a constant, or `s + 1` where `s` is a
        parameter of the function.
        """
        if type(e) is ast.BinOp and type(e.op) is ast.Add and type(e.left) is ast.Name:
            return self.f.op(f"add i64 {parameter_name(e.left.id)}, {self.integer(e.right)}")
        return str(self.integer(e))

    # ----------------------------------------------------------------------------- expressions

    def expr(self, e: ast.expr) -> Any:
        """Translates an expression with one result, several, or none."""
        return EXPRESSIONS[type(e)](self, e)

    def name(self, e: ast.Name) -> Operand:
        """A variable, or a constant of the library."""
        f = self.f
        value = f.variables.get(e.id)
        if value is not None:
            code, x = value
            if type(x) is not Deferred:
                if x in f.uses:
                    f.uses[x] += 1
                return value
            return code, self.literal_here(code, int(x))
        return NUMBER, library.constant(e.id)  # type: ignore[return-value]

    def literal_here(self, code: str, k: int) -> str:
        """Reads a literal for all lanes. Instructions of AVX-512 broadcast a number in memory
        themselves; those of AVX2 read vectors, which the entry block prepares."""
        f = self.f
        if f.machine.register_bytes != 32 or self.depth or self.has_many_words or f.lanes == 1:
            return f.literal_here(code, k)
        return f.stored_once(f"%l{k}.{code}", code, k)

    def number(self, e: ast.Constant) -> Operand:
        """A number, `True` or `False`."""
        if type(e.value) is bool:
            return "mask", self.f.constant("mask", e.value)
        return NUMBER, e.value  # type: ignore[return-value]

    def binary(self, e: ast.BinOp) -> Operand:
        """`x + y` and its like."""
        left, right, rules, other = e.left, e.right, EXPRESSIONS, Translator.expr
        x = rules.get(type(left), other)(self, left)
        y = rules.get(type(right), other)(self, right)
        return self.apply(_NAMES[type(e.op)], [x, y])

    def compare(self, e: ast.Compare) -> Operand:
        """`x < y` and its like."""
        operands = [self.expr(e.left), self.expr(e.comparators[0])]
        return self.apply(_NAMES[type(e.ops[0])], operands)

    def unary(self, e: ast.UnaryOp) -> Operand:
        """`-x` and `~x`."""
        return self.apply(_NAMES[type(e.op)], [self.expr(e.operand)])

    def computed(self, emit: Callable[..., str], code: str, *operands: str) -> str:
        """Emits an operation, outside the packet loop if it is loop-invariant."""
        f = self.f
        head = f.head
        for x in operands:
            if x not in head and x[0] != "s":  # as in splat
                return emit(f, code, *operands)
        f.hoisting = True
        result = emit(f, code, *operands)
        f.hoisting = False
        return result

    def row(self, name: str, code: str) -> elementwise.Row:
        """Returns the row of an operation for an element type."""
        row = self.rows.get((name, code))
        if row is None:
            row = self.rows[name, code] = self.row_of(name, code, self.f.lanes, self.contract)
        return row

    def call(self, e: Any) -> Any:
        """`f(x, ...)`."""
        name, args = e.func.id, e.args
        if name in CALLABLE:
            return self.apply(name, [self.expr(a) for a in args])
        special = self.calls.get(name)
        if special is not None:
            return special(self, *args)
        if name in self.module.bodies:
            return body_call(self, name, args)
        if name in SCALAR:
            (arg,) = args
            return self.conversion(name, self.expr(arg))
        if name in foreign.functions:
            return one_or_several(
                foreign_call(self, foreign.functions[name], [self.typed(a) for a in args])
            )
        return self.library_call(name, [self.expr(a) for a in args])

    def apply(self, name: str, values: list[Operand]) -> Operand:
        """Translates an element-wise operation with a name. Numbers without a type are folded."""
        code = values[0][0]
        for v in values:
            if v[0] != code:
                values = self.unified(values)
                code = values[0][0]
                break
        operands = [v[1] for v in values]
        if code == NUMBER:
            return NUMBER, TABLE[name].python(*operands)
        row = self.rows.get((name, code)) or self.row(name, code)
        return row.result, self.computed(row.emit, code, *operands)

    def library_call(self, name: str, values: list[Operand]) -> Any:
        """Translates a call of a library function. Private ones, with a leading underscore, are
        translated in place."""
        if name.startswith("_") and not self.is_kernel:
            base, code = name.rsplit("_", 1)
            definition = library.function(self.module.chosen(base, code), code)
            return one_or_several(results_of(self.module, self.f, definition, values, self.depth))
        warm = self.is_kernel or not self.depth
        return self.module.call(self.f, name, values, warm=warm)

    def conversion(self, to: str, value: Operand) -> Operand:
        """`T(x)`, a constant if `x` is a number."""
        code, x = value
        if code == NUMBER:
            return to, self.f.constant(to, x)  # type: ignore[arg-type]
        return to, self.computed(lambda f, source, y: convert(f, to, source, y), code, x)

    def bitcast(self, to: str, value: Operand) -> Operand:
        """`bitcast(T, x)`."""
        code, x = value
        return to, self.computed(lambda f, source, y: reinterpret(f, to, source, y), code, x)

    def select(self, m: Operand, x: Operand, y: Operand) -> Operand:
        """`select(m, x, y)`."""
        (code, a), (_, b) = self.unified((x, y))
        return code, self.f.select(code, m[1], a, b)

    def unified(self, values: Any) -> list[Operand]:
        """Returns operands of one type: numbers take the type of the others."""
        code = next((v[0] for v in values if v[0] != NUMBER), NUMBER)
        return [
            (code, self.f.constant(code, x) if kind == NUMBER != code else x) for kind, x in values
        ]

    def several(self, e: ast.Tuple) -> tuple[Operand, ...]:
        """`x, y`, for an assignment to several names."""
        return tuple(self.typed(node) for node in e.elts)


def results_of(
    module: "Module",
    f: Function,
    definition: ast.FunctionDef,
    values: Sequence[Operand],
    depth: int = 0,
) -> tuple[Operand, ...]:
    """Returns the results of a library function, translated for some arguments."""
    names = [a.arg for a in definition.args.args]
    inner = module.translator(module, f, "", is_kernel=False, depth=depth)
    around, f.variables = f.variables, dict(zip(names, values, strict=True))
    inner.body(definition.body)
    f.variables = around
    return inner.result


def body_call(t: Translator, name: str, args: list[ast.expr]) -> Any:
    """`body0(i, p, x, ...)`: a function of the kernel's text, translated on its first call.

    Its parameters are those of a kernel and the current lanes, followed by its own.
    """
    f = t.f
    codes, results = t.module.bodies[name](t)
    operands = [LANES]
    for a, code in zip(args[2:], codes, strict=True):
        if code == "int":
            operands.append(f"i64 {t.whole(a)}")
        else:
            operands.append(f"{f.vector[code]} {t.typed(a, code)[1]}")
    return one_or_several(f.call(f'@"{name}"', operands, results))


def one_or_several(values: Sequence[Operand]) -> Any:
    """Returns the results of a call as the value of an expression: one, several, or none."""
    return values[0] if len(values) == 1 else tuple(values) or None


STATEMENTS: dict[type, Callable] = {
    ast.Assign: Translator.assign,
    ast.Expr: Translator.effect,
    ast.Return: Translator.leave,
    ast.If: Translator.branch,
    ast.While: Translator.loop,
}
EXPRESSIONS: dict[type, Callable] = {
    ast.Name: Translator.name,
    ast.Constant: Translator.number,
    ast.BinOp: Translator.binary,
    ast.Compare: Translator.compare,
    ast.UnaryOp: Translator.unary,
    ast.Call: Translator.call,
    ast.Tuple: Translator.several,
}
statement("type typed")(Translator.bitcast)


@statement("typed expr expr")
def select(t: Translator, m: Operand, x: Operand, y: Operand) -> Operand:
    """`select(m, x, y)`."""
    return t.select(m, x, y)

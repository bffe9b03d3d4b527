"""The common state of the functions of one LLVM module: settings, library functions, tables.

A library function is defined once per combination of argument types.
"""

import ast
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from .. import library
from ..foreign import ForeignFunction
from . import contraction
from .arguments import statement
from .elementwise import narrow, widen
from .ir import NUMBER, SCALAR, Function, Machine, Operand, constant
from .loops import concatenated
from .memory import gather_wide
from .translate import Translator, one_or_several, results_of

# If inlining every library call would add more lines than this, the calls stay calls: compile time
# over speed.
INLINE_LIMIT = 500
# The same for each loop over features; loops over few features, for which a call is relatively
# expensive, are this short.
INLINE_LOOP_LIMIT = 100
# Number of lanes of functions called in cold branches.
COLD_LANES = 8


def _translate(t: Translator, definition: ast.FunctionDef) -> None:
    t.body(definition.body)


class Module:
    """The common state of the functions of one module: its settings, library functions and
    tables."""

    # The translator of library functions.
    translator: type[Translator] = Translator
    # How many lines inlined library functions may add.
    inline_limit = INLINE_LIMIT

    def __init__(self, machine: Machine, lanes: int, contract: bool):
        self.machine, self.lanes, self.contract = machine, lanes, contract
        # Result types of library functions, by symbol.
        self.functions: dict[str, tuple[str, ...]] = {}
        # Symbol, text up to the attributes, body, lines.
        self.definitions: list[tuple[str, str, str, int]] = []
        # The number of calls of each function, and the functions that are called outside cold
        # branches.
        self.calls: dict[str, int] = {}
        self.warm: set[str] = set()
        self.globals: dict[str, str] = {}
        # Functions of the kernel's text: the translator for the first call, which returns the types
        # of parameters and results.
        self.bodies: dict[str, Callable] = {}
        # How the body of a function of the kernel's text is translated: by default, by the
        # translator.
        self.translate: Callable[[Translator, ast.FunctionDef], None] = _translate
        self.has_splits = False  # whether long blocks were split
        # The text of each function of the kernel's text and of each routine for statements with
        # loops of their own, by symbol. The symbols of the routines, and the number of calls of
        # loops.
        self.routines: dict[str, tuple[str, str]] = {}
        self.symbols: dict[Hashable, str] = {}
        self.uses: dict[str, int] = {}
        # The text of functions that another compiler made, and what these declare.
        self.foreign_functions: dict[str, str] = {}
        self.vectorizes = False  # whether LLVM is to compute several lanes of a loop at once
        self.declarations: dict[str, None] = {}

    def new_function(self, lanes: int, first_number: int = 0) -> Function:
        """Returns a new function of the module."""
        return Function(self.machine, lanes, first_number)

    def call(self, f: Function, name: str, values: list[Operand], *, warm: bool) -> Any:
        """Emits a call of a library function, on a warm path or in a rare branch; `f16` goes
        through `f32`.
        """
        code = next(v[0] for v in values if v[0] != NUMBER)
        name = self.chosen(name, code)
        # Numbers take the type of the first typed argument.
        values = [(code, f.constant(code, x)) if k == NUMBER else (k, x) for k, x in values]  # type: ignore[arg-type]
        if values[0][0] == "f16":
            wide = [("f32", widen(f, x)) for _, x in values]
            result = _emit_call(self, f, name, wide, warm)
            if type(result[0]) is tuple:
                return tuple(("f16", narrow(f, x)) for _, x in result)
            return "f16", narrow(f, result[1])
        return _emit_call(self, f, name, values, warm)

    def chosen(self, name: str, code: str) -> str:
        """Returns the library function that is called in place of one, for an element type."""
        return name

    def foreign(self, function: ForeignFunction) -> str:
        """Returns the symbol of a function that another compiler made, which becomes part of the
        module."""
        lines = function.ir.split("\n")
        declared = dict.fromkeys([line for line in lines if line.startswith("declare ")])
        self.declarations |= declared
        self.foreign_functions[function.name] = "\n".join([x for x in lines if x not in declared])
        return f'@"{function.name}"'

    def text(self, exported: list[str]) -> str:
        """Returns the whole module."""
        warm = [d for d in self.definitions if d[0] in self.warm]
        added = sum(lines * self.calls[symbol] for symbol, _, _, lines in warm)
        how = "alwaysinline" if added <= self.inline_limit else "noinline"
        definitions = [
            f"{head} #{1 if symbol in self.warm else 2} {{\n{body}\n}}"
            for symbol, head, body, _ in self.definitions
        ]
        # LLVM may leave the stack unaligned when it spills registers, and spills that cross cache
        # lines take several times as long. Tasks need the frame pointer register.
        aligned = f"alignstack={self.machine.register_bytes} " if self.lanes > 1 else ""
        attributes = (
            f'attributes #0 = {{ {aligned}nounwind "prefer-vector-width"="512" }}',
            f"attributes #1 = {{ {how} {aligned}nounwind }}",
            "attributes #2 = { noinline cold nounwind }",
            'attributes #3 = { noinline nounwind "prefer-vector-width"="512" }',
            'attributes #4 = { alwaysinline nounwind "prefer-vector-width"="512" }',
            "!0 = !{}",
            '!1 = !{!"branch_weights", i32 1, i32 1000000}',
            "!2 = !{i32 1}",
        )
        routines = []
        for symbol, (head, body) in self.routines.items():
            added = (self.uses.get(symbol, math.inf) - 1) * body.count("\n")
            how = 4 if added <= INLINE_LOOP_LIMIT else 3
            routines.append(f"{head} #{how} {{\n{body}\n}}")
        others = (*self.declarations, *self.foreign_functions.values())
        parts = self.globals.values(), others, definitions, routines, exported, attributes
        return "\n".join([line for part in parts for line in part] + [""])

    def routine(
        self,
        name: str,
        parameters: Sequence[str],
        emit: Callable[[Function], str | None],
        kind: str = "void",
        key: Hashable = None,
    ) -> str:
        """Returns the symbol of a function, which `emit(f)` writes on first use, returning the
        function's result if there is one. The key distinguishes functions with the same name."""
        symbol = self.symbols.get((name, key))
        if symbol is None:
            number = "" if key is None else f".{len(self.symbols)}"
            symbol = self.symbols[name, key] = f'@"{name}{number}"'
            f = self.new_function(self.lanes, len(parameters))
            result = emit(f)
            f.do(f"ret {kind} {result}" if result else "ret void")
            contraction.fuse(f)
            head = f"define internal fastcc {kind} {symbol}({', '.join(parameters)})"
            self.routines[symbol] = head, f.text()
        if key is not None:
            self.uses[symbol] = self.uses.get(symbol, 0) + 1
        return symbol


def library_symbol(
    module: Module, name: str, codes: tuple[str, ...], lanes: int
) -> tuple[str, tuple[str, ...]]:
    """Returns the symbol of a library function for some argument types and a number of lanes, and
    its result types. The function is defined on first use."""
    base, _, suffix = name.rpartition("_")
    if not base or suffix not in SCALAR:
        base, suffix = name, codes[0]
    symbol = ".".join((f"{base}_{suffix}", *codes, str(lanes)))
    if symbol not in module.functions:
        definition = library.function(base, suffix)
        f = module.new_function(lanes, len(codes))
        values = [(code, f"%{k}") for k, code in enumerate(codes)]
        _finish(module, symbol, f, codes, results_of(module, f, definition, values))
    return symbol, module.functions[symbol]


def _emit_call(module: Module, f: Function, name: str, values: list[Operand], warm: bool) -> Any:
    """Emits a call, and at the first one the definition.

    Functions that are called in cold branches are defined for a few lanes, and called for one part
    of the lanes after the other: they make up most of the code, but hardly ever run.
    """
    codes = tuple([code for code, _ in values])
    if warm or f.lanes <= COLD_LANES:
        symbol, _ = library_symbol(module, name, codes, f.lanes)
    else:
        symbol = _by_parts(module, name, codes, f.lanes)
    module.calls[symbol] += 1
    if warm:
        module.warm.add(symbol)
    operands = [f"{f.vector[code]} {x}" for code, x in values]
    return one_or_several(f.call(f'@"{symbol}"', operands, module.functions[symbol]))


def _by_parts(module: Module, name: str, codes: tuple[str, ...], lanes: int) -> str:
    """Returns the symbol of a library function that computes `COLD_LANES` lanes at a time."""
    part, results = library_symbol(module, name, codes, COLD_LANES)
    symbol = f"{part}.{lanes}"
    if symbol in module.functions:
        return symbol
    f = module.new_function(lanes, len(codes))
    found = []
    for first in range(0, lanes, COLD_LANES):
        places, operands = range(first, first + COLD_LANES), []
        for k, code in enumerate(codes):
            x = f.shuffle(f.vector[code], f"%{k}", "poison", places)
            operands.append(f"<{COLD_LANES} x {SCALAR[code]}> {x}")
        found.append(f.call(f'@"{part}"', operands, results, COLD_LANES))
    joined = []
    for code, row in zip(results, zip(*found, strict=True), strict=True):
        joined.append((code, concatenated(f, SCALAR[code], COLD_LANES, [x for _, x in row])))
    _finish(module, symbol, f, codes, joined)
    return symbol


def table_constant(t: Any, name: Any, storage: str) -> tuple[str, str, int]:
    """Returns the element type of a table of the library, the constant of the module that holds it,
    and the number of its last element."""
    code = name.id.rpartition("_")[2]
    values = library.table(name.id)
    element = SCALAR[code]
    elements = ", ".join([f"{element} {constant(code, v)}" for v in values])
    symbol = f"@table.{name.id}"
    array = f"[{len(values)} x {element}] [{elements}]"
    t.module.globals[symbol] = f"{symbol} = {storage} constant {array}, align 64"
    return code, symbol, len(values) - 1


@statement("node typed")
def table(t: Translator, name: ast.expr, index: Operand) -> Operand:
    """`table(NAME, x)`; an index beyond the end reads the last element."""
    f, (code, symbol, number), (kind, x) = (
        t.f,
        table_constant(t, name, "private unnamed_addr"),
        index,
    )
    last = f.constant(kind, number)
    vector = f.vector[kind]
    x = f.op(f"call {vector} @llvm.umin.{f.types.suffix[kind]}({vector} {x}, {vector} {last})")
    return code, gather_wide(f, code, symbol, (kind, x), "splat (i1 true)", "poison")


@statement("expr node")
def polynomial(t: Translator, x: Operand, name: Any) -> Operand:
    """`polynomial(x, NAME)`, by Horner's rule."""
    first, second, *others = library.table(name.id)
    total: Any = t.apply("fma", [x, (NUMBER, first), (NUMBER, second)])
    for c in others:
        total = t.apply("fma", [total, x, (NUMBER, c)])
    return total


def _finish(
    module: Module, symbol: str, f: Function, codes: tuple[str, ...], values: Sequence[Operand]
) -> None:
    """Ends a library function with its results."""
    parameters = ", ".join(f.vector[code] for code in codes)
    head = f'define internal fastcc {f.give(values)} @"{symbol}"({parameters})'
    module.functions[symbol] = tuple([code for code, _ in values])
    module.calls[symbol] = 0
    module.definitions.append((symbol, head, f.text(), len(f.lines)))

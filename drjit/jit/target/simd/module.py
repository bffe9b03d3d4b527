"""What the functions of one LLVM module share: settings, library functions, tables.

A library function is defined once for each combination of argument types.
"""

import ast
from collections.abc import Callable
from typing import Any, Protocol

from .elementwise import narrow, widen
from .ir import BITS, NUMBER, SCALAR, Function, KernelError, Value, constant
from .translate import CALLS, Translator

# Above this many lines that inlining every library call would add, the calls stay calls: compile
# time over speed.
INLINE_LIMIT = 500


class Library(Protocol):
    """Where the definitions of library functions come from."""

    def function(self, name: str, code: str) -> ast.FunctionDef: ...
    def constant(self, name: str) -> float | int: ...
    def table(self, name: str) -> tuple: ...


class Module:
    """What the functions of one module share: its settings, library functions and tables."""

    def __init__(self, lanes: int, contract: bool, library: Library):
        self.lanes, self.contract, self.library = lanes, contract, library
        self.functions: dict[str, tuple[tuple[str, ...], str]] = {}
        # Symbol, text up to the attributes, body, lines.
        self.definitions: list[tuple[str, str, str, int]] = []
        # How often functions are called, and those of them that are called outside of cold
        # branches.
        self.calls: dict[str, int] = {}
        self.warm: set[str] = set()
        self.globals: dict[str, str] = {}
        # Functions of the kernel's text: what translates one for its first call, and gives the
        # types of its parameters and results.
        self.bodies: dict[str, Callable] = {}
        self.parted = False  # whether long blocks were parted
        # Functions that statements with loops of their own call: the text of each.
        self.routines: dict[str, str] = {}

    def call(self, t: Translator, name: str, values: list[Value]) -> Any:
        """A call of a library function; `f16` goes through `f32`."""
        values = _arguments(t, values)
        if not values:
            raise KernelError(f"the function {name} is unknown")
        if values[0][0] == "f16" and not name.endswith("_f16"):
            wide = [("f32", widen(t.f, x)) for _, x in values]
            result = _emit_call(t, name, wide)
            if type(result[0]) is tuple:
                return tuple(("f16", narrow(t.f, x)) for _, x in result)
            return "f16", narrow(t.f, result[1])
        return _emit_call(t, name, values)

    def text(self, exported: list[str]) -> str:
        """The whole module."""
        warm = [d for d in self.definitions if d[0] in self.warm]
        added = sum(lines * self.calls[symbol] for symbol, _, _, lines in warm)
        how = "alwaysinline" if added <= INLINE_LIMIT else "noinline"
        definitions = [
            f"{head} #{1 if symbol in self.warm else 2} {{\n{body}\n}}"
            for symbol, head, body, _ in self.definitions
        ]
        attributes = (
            'attributes #0 = { nounwind "prefer-vector-width"="512" }',
            f"attributes #1 = {{ {how} nounwind }}",
            "attributes #2 = { noinline cold nounwind }",
            'attributes #3 = { noinline nounwind "prefer-vector-width"="512" }',
            "!0 = !{}",
            '!1 = !{!"branch_weights", i32 1, i32 1000000}',
            "!2 = !{i32 1}",
        )
        parts = self.globals.values(), definitions, self.routines.values(), exported, attributes
        return "\n".join([line for part in parts for line in part] + [""])

    def routine(self, name: str, parameters: tuple[str, ...], emit: Callable) -> str:
        """The symbol of a function without a result, which `emit(f)` writes when it is first
        needed.
        """
        symbol = f'@"{name}"'
        if symbol not in self.routines:
            f = Function(self.lanes, len(parameters))
            emit(f)
            f.do("ret void")
            head = f"define internal fastcc void {symbol}({', '.join(parameters)}) #3"
            self.routines[symbol] = f"{head} {{\n{f.text()}\n}}"
        return symbol


def _arguments(t: Translator, values: list) -> list[Value]:
    """Arguments: numbers take the type of the first argument that has one."""
    code = next((v[0] for v in values if v[0] != NUMBER), None)
    if code is None:
        return []
    return [(code, t.f.constant(code, x)) if k == NUMBER else (k, x) for k, x in values]


def declare(module: Module, name: str, codes: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """A library function for the types of its arguments: its symbol, and the types of its results.
    It is defined if it has not been before.
    """
    base, _, suffix = name.rpartition("_")
    if not base or suffix not in SCALAR:
        base, suffix = name, codes[0]
    symbol = ".".join((f"{base}_{suffix}", *codes))
    if symbol not in module.functions:
        try:
            definition = module.library.function(base, suffix)
        except KeyError:
            raise KernelError(f"the function {name} is unknown for {suffix}") from None
        define(module, symbol, definition, codes)
    return symbol, module.functions[symbol][0]


def _emit_call(t: Translator, name: str, values: list[Value]) -> Any:
    """The call instruction, and the definition if it is the first."""
    f, module = t.f, t.module
    symbol, _ = declare(module, name, tuple(code for code, _ in values))
    module.calls[symbol] += 1
    if t.is_kernel or not t.depth:
        module.warm.add(symbol)
    results, signature = module.functions[symbol]
    operands = ", ".join([f"{f.vector[code]} {x}" for code, x in values])
    result = f.op(f'call fastcc {signature} @"{symbol}"({operands})')
    if len(results) == 1:
        return results[0], result
    return tuple(
        (code, f.op(f"extractvalue {signature} {result}, {k}")) for k, code in enumerate(results)
    )


def table(t: Translator, name: ast.expr, index: ast.expr) -> Value:
    """`table(NAME, x)`; an index beyond the end reads the last element."""
    if type(name) is not ast.Name or name.id.rpartition("_")[2] not in SCALAR:
        raise KernelError(f"{ast.unparse(name)} is not the name of a table")
    f, code = t.f, name.id.rpartition("_")[2]
    values = t.module.library.table(name.id)
    element = SCALAR[code]
    elements = ", ".join([f"{element} {constant(code, v)}" for v in values])
    symbol = f"@table.{name.id}"
    array = f"[{len(values)} x {element}] [{elements}]"
    t.module.globals[symbol] = f"{symbol} = private unnamed_addr constant {array}, align 64"
    kind, x = t.typed(index)
    last = f.constant(kind, len(values) - 1)
    vector = f.vector[kind]
    x = f.op(f"call {vector} @llvm.umin.{f.types.suffix[kind]}({vector} {x}, {vector} {last})")
    addresses = f.op(f"getelementptr {element}, ptr {symbol}, {vector} {x}")
    suffix = f"{f.types.suffix[code]}.v{f.lanes}p0"
    where = f"<{f.lanes} x ptr> align {BITS[code] // 8} {addresses}"
    everywhere = f"{f.vector['mask']} splat (i1 true), {f.vector[code]} poison"
    gather = f"call {f.vector[code]} @llvm.masked.gather.{suffix}({where}, {everywhere})"
    return code, f.op(gather)


def define(
    module: Module, symbol: str, definition: ast.FunctionDef, codes: tuple[str, ...]
) -> None:
    """Translates a library function for the types of its arguments."""
    f = Function(module.lanes, len(codes))
    arguments = [a.arg for a in definition.args.args]
    if len(arguments) != len(codes):
        raise KernelError(f"{definition.name} takes {len(arguments)} arguments")
    for k, (name, code) in enumerate(zip(arguments, codes, strict=True)):
        f.variables[name] = code, f"%{k}"
    inner = Translator(module, f, "", is_kernel=False)
    try:
        inner.body(definition.body)
    except KernelError as error:
        raise KernelError(f"in the library function {definition.name}, {error}") from None
    results = tuple(code for code, _ in inner.result)
    if not results:
        raise KernelError(f"{definition.name} returns nothing")
    signature = f.vector[results[0]]
    result = inner.result[0][1]
    if len(results) > 1:
        signature = "{" + ", ".join(f.vector[code] for code in results) + "}"
        result = "poison"
        for k, (code, x) in enumerate(inner.result):
            result = f.op(f"insertvalue {signature} {result}, {f.vector[code]} {x}, {k}")
    f.do(f"ret {signature} {result}")
    parameters = ", ".join(f.vector[code] for code in codes)
    head = f'define internal fastcc {signature} @"{symbol}"({parameters})'
    module.functions[symbol] = results, signature
    module.calls[symbol] = 0
    module.definitions.append((symbol, head, f.text(), len(f.lines)))


CALLS["table"] = table

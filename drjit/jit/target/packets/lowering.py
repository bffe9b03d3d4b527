"""Lowers a function of a kernel's text with Numba: its control flow, and through the registered
operations everything else.
"""

import ast
from collections import Counter
from typing import Any

from numba.core import ir, types
from numba.core.codegen import CodeLibrary
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.typed_passes import BaseNativeLowering

from ..simd.arguments import RUNS
from ..simd.ir import KernelError
from ..simd.translate import BLOCK_LINES, Translator
from ..simd.vector import VectorTranslator
from .operations import WORD, FeaturesType, Packet, TextValue, emitter, text_value
from .text import LoweringStep, NumbaReader


class TextLibrary(CodeLibrary):
    """Numba's library for the code of a function: its text becomes a part of the kernel's
    module."""

    def add_ir_module(self, ir_module: Any) -> None: ...
    def add_linking_library(self, library: Any) -> None: ...
    def finalize(self) -> None: ...
    def get_function(self, name: str) -> Any: ...
    def get_llvm_str(self) -> str:
        return ""

    def get_asm_str(self) -> str:
        return ""


class PacketLower(Lower):
    """Numba's lowering, where variables that are assigned in several blocks are in memory, and
    all others are values. Its output are lines of the translator's function.
    """

    t: Translator
    statements: dict[int, ast.stmt]

    def init(self) -> None:
        self.values: dict[str, Any] = {}
        self.slots: dict[str, str] = {}
        self.implementations: dict[Any, Any] = {}

    def lower_normal_function(self, fndesc: Any) -> None:
        """Lowers the blocks; the loop over packets takes the place of Numba's entry."""
        self.setup_function(fndesc)
        setattr(self.builder, "translator", self.t)  # noqa: B010
        self.keep_in_memory()
        for offset in self.blocks:
            self.blkmap[offset] = self.function.append_basic_block(f"B{offset}")
        self.t.f.do(f"br label {self.blkmap[self.firstblk].get_reference()}")
        for offset, block in self.blocks.items():
            self.builder.position_at_end(self.blkmap[offset])
            self.t.f.start(self.blkmap[offset].get_reference()[1:])
            self.lower_block(block)

    def pre_block(self, block: Any) -> None: ...
    def post_block(self, block: Any) -> None: ...

    def lower_block(self, block: Any) -> None:
        """Lowers the statements of a block."""
        t, f = self.t, self.t.f
        instructions: list[Any] = self.builder.block.instructions  # type: ignore
        for s in block.body:
            self.loc = s.loc
            if len(f.lines) - f.begun > BLOCK_LINES and t.is_kernel:
                t.split_block()
            try:
                self.lower_inst(s)
            except KernelError as error:
                problem: Any = t.located(
                    error, self.statements.get(s.loc.line, ast.Pass(lineno=s.loc.line))
                )
                problem.message = str(problem)  # without what Numba adds
                raise problem from None
            if instructions:
                f.lines += map(str, instructions)
                instructions.clear()

    def lower_inst(self, inst: Any) -> None:
        """Lowers a statement."""
        kind = type(inst)
        if kind is ir.Assign:
            name = inst.target.name
            self.storevar(self.lower_assign(self.typeof(name), inst), name)
        elif kind is LoweringStep:
            inst.run(self)
        elif kind is not ir.Return and kind is not ir.Del:
            super().lower_inst(inst)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """Returns the value that a statement assigns."""
        value = inst.value
        kind = type(value)
        if kind is ir.Expr:
            return self.lower_expr(ty, value)
        if kind is ir.Var:
            return self._copy(value.name, ty)
        if kind is ir.Arg:
            if type(ty) is Packet:
                return text_value(self.t.f.variables[value.name], ty)
            return TextValue(None, node=ast.Name(value.name))
        if kind is ir.Const:
            return self._constant(value.value, ty)
        return TextValue(None)

    def _constant(self, value: Any, ty: Any) -> TextValue:
        if type(ty) is Packet:
            return text_value(self.t.number(value), ty)
        node = value if isinstance(value, ast.expr) else ast.Constant(value)
        return TextValue(None, node=node)

    def _copy(self, name: str, ty: Any) -> TextValue:
        x = self.loadvar(name)
        if type(ty) is Packet or type(ty) is FeaturesType:
            return text_value(self.t.f.variables[name], ty)
        return TextValue(x.value, x.type, x.node)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Returns the value of an expression."""
        op = expr.op
        if op == "static_getitem":
            if resty is WORD:
                return TextValue(None, node=ast.Subscript(ast.Name("p"), ast.Constant(expr.index)))
            return text_value(self.loadvar(expr.value.name).value[expr.index], resty)
        if op == "call":
            function, args = self.typeof(expr.func.name).typing_key, expr.args
        elif op == "binop":
            function, args = expr.fn, (expr.lhs, expr.rhs)
        else:
            function, args = expr.fn, (expr.value,)
        sig = self.fndesc.calltypes[expr]
        values = [self.loadvar(a.name) for a in args]
        if type(function) is str:  # of the text
            return emitter(function, False)(self.context, self.builder, sig, values)
        implementation = self.implementations.get((function, id(sig)))
        if implementation is None:
            implementation = self.context.get_function(function, sig)
            self.implementations[function, id(sig)] = implementation
        return implementation(self.builder, values)

    # ----------------------------------------------------------------------------------- variables

    def loadvar(self, name: str) -> Any:
        """Returns the value of a variable."""
        slot = self.slots.get(name)
        x = self.values[name]
        if slot is not None:
            f = self.t.f
            code = self.typeof(name).code
            f.variables[name] = code, f.op(f"load {f.vector[code]}, ptr {slot}")
        return x

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        """Assigns a value to a variable."""
        kind = self.typeof(name)
        if type(kind) is Packet or type(kind) is FeaturesType:
            value.name = name
            self.t.f.variables[name] = value.value
        self.values[name] = value
        if name in self.slots:
            self._store(name)

    def _store(self, name: str) -> None:
        f = self.t.f
        code, x = self.t.name(ast.Name(name))
        f.do(f"store {f.vector[code]} {x}, ptr {self.slots[name]}")

    def keep_in_memory(self) -> None:
        """Gives memory to the packets that are assigned in several places: of a loop, or of
        branches."""
        count: Counter[str] = Counter()
        for block in self.blocks.values():
            for s in block.body:
                if type(s) is ir.Assign:
                    count[s.target.name] += 1
                elif type(s) is LoweringStep:
                    count.update(s.targets)
        f = self.t.f
        for name, times in count.items():
            packet = self.typeof(name)
            if times > 1 and type(packet) is Packet:
                place = f"%in.memory.{len(self.slots)}"
                self.slots[name] = f.once(place, f"alloca {f.vector[packet.code]}")

    # ------------------------------------------------------------------- statements of the language

    def deeper(self, by: int) -> None:
        """Steps or ends the body of a branch or loop."""
        self.t.depth += by

    def leave(self, names: list[str]) -> None:
        """Ends a function of the text with its results."""
        for name in names:
            self.loadvar(name)
        self.t.result = tuple([self.t.typed(ast.Name(name)) for name in names])

    def assign_together(self, sources: list[str], targets: list[str]) -> None:
        """Assigns several variables to others at once."""
        loaded = [self.loadvar(name) for name in sources]
        values = [self.t.f.variables.get(name) for name in sources]
        for value, x, name in zip(values, loaded, targets, strict=True):
            self.storevar(
                TextValue(x.value, x.type, x.node)
                if value is None
                else text_value(value, self.typeof(name)),
                name,
            )

    def run(self, group: list[Any], used: dict[str, str], results: dict[str, str]) -> None:
        """Translates statements that belong together."""
        for name, source in used.items():
            self.loadvar(source)
            if name != source:
                self.t.f.variables[name] = self.t.f.variables[source]
        RUNS[group[0].value.func.id](self.t, group)
        for name, target in results.items():
            self.storevar(text_value(self.t.f.variables[name], self.typeof(target)), target)


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(BaseNativeLowering):
    """The pass that lowers."""

    _name = "packet_lowering"
    state: Any = None

    def run_pass(self, state: Any) -> bool:
        self.state = state
        return super().run_pass(state)

    @property
    def lowering_class(self) -> Any:
        """Numba's lowering with the translator of the function."""
        kind = type("Lower", (PacketLower,), {})
        kind.t, kind.statements = self.state.translator, self.state.statements
        return kind


class Pipeline(CompilerBase):
    """Numba's compiler for a function whose types are known."""

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("packets")
        passes.add_pass(Lowering, "lowers packets")
        passes.finalize()
        return [passes]


def body(t: Translator, definition: ast.FunctionDef) -> None:
    """Translates a function of a kernel's text, as `Translator.body` does."""
    if isinstance(t, VectorTranslator) and not t.depth:
        t.survey(definition.body)
    typed = NumbaReader(t, definition).read()
    kinds = [typed.variables[f"arg.{a.arg}"] for a in definition.args.args]
    numba: Any = cpu_target
    typing, context = numba.typing_context, numba.target_context
    library, flags = TextLibrary(context.codegen(), definition.name), Flags()
    for name in ("no_compile", "no_cpython_wrapper", "no_cfunc_wrapper"):
        setattr(flags, name, True)
    pipeline: Any = Pipeline(typing, context, library, tuple(kinds), types.none, flags, {})
    pipeline.state.update(translator=t, statements=typed.statements)
    pipeline.state.update(typemap=typed.variables, calltypes=typed.calls)
    try:
        pipeline.compile_ir(typed.function)
    except KernelError as error:
        error.args = (getattr(error, "message", str(error)),)
        raise

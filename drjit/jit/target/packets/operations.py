"""What makes the values and names of the kernel language known to Numba: types, one rule for the
types of results, and one for translation, which asks the front end of the SIMD target.

Numba's IR builder has the translator of the function being compiled as its attribute `translator`.
"""

import ast
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir as llvm
from numba.core import types
from numba.core.datamodel import models
from numba.core.registry import cpu_target
from numba.extending import lower_builtin, register_model

from ...ir.dtype import BY_CODE, vector
from .. import foreign, language
from .. import numpy as numpy_target
from ..simd.ir import BITS, NUMBER, KernelError, Operand
from ..simd.translate import Translator

_LLVM = {"f16": llvm.HalfType(), "f32": llvm.FloatType(), "f64": llvm.DoubleType()}


class OperandType(types.Type):
    """A type of operands: of packets, vectors, and constants."""


class Packet(OperandType):
    """One element of a type for each lane; that of `mask` is a bit."""

    def __init__(self, code: str, lanes: int):
        self.code, self.lanes = code, lanes
        self.llvm = llvm.VectorType(_LLVM.get(code) or llvm.IntType(BITS[code]), lanes)
        super().__init__(name=f"{code}x{lanes}")


class FeaturesType(OperandType):
    """A vector: a number of packets. Its statements are deferred and its memory is shared, so it is
    known while compiling only."""

    def __init__(self, code: str, count: int, lanes: int):
        self.code, self.count, self.lanes = code, count, lanes
        super().__init__(name=f"vector({code}x{lanes}, {count})")


class ConstantType(OperandType):
    """An argument that the text spells out: a number, a string, or a sum of numbers of words."""

    def __init__(self, node: ast.expr):
        self.node = node
        super().__init__(name=f"constant({ast.unparse(node)})")


class PlaceType(types.Type):
    """The type of the lanes of a packet, of the parameter block, or of a word of that, with an
    expression that has it."""

    def __init__(self, name: str, node: ast.expr):
        self.node = node
        super().__init__(name=name)


class FunctionType(types.Opaque):
    """A name of the language, or that of a function of the text."""

    def __init__(self, key: Any):
        self.typing_key = key
        self.node = ast.Name(getattr(key, "__name__", key))
        super().__init__(name=f"function {key}")


packet = cache(Packet)
LANES, PARAMETERS = PlaceType("lanes", ast.Name("i")), PlaceType("parameters", ast.Name("p"))
WORD = PlaceType("word", ast.Subscript(ast.Name("p"), ast.Constant(0)))

for _kind in (FeaturesType, ConstantType, PlaceType):
    register_model(_kind)(models.OpaqueModel)


@register_model(Packet)
class _PacketModel(models.PrimitiveModel):
    def __init__(self, manager: Any, packet: Packet):
        super().__init__(manager, packet, packet.llvm)


TESTS = ("any_lane", "all_lanes")
# The operations of the operators in a text, and the operators as Numba knows them.
SYMBOLS = {kind: (o.python, o.name) for kind, o in language.OPERATORS.items()}


class TextValue:
    """A value that is known while compiling: one or several operands of the front end, or an
    argument that the text spells out. To Numba's IR builder, it is an operand."""

    __slots__ = ("name", "node", "type", "value")

    def __init__(self, value: Any, type: Any = None, node: ast.expr | None = None):
        self.value, self.type, self.node = value, type, node
        self.name = ""

    def get_reference(self) -> str:
        """Returns how LLVM spells the operand."""
        return self.value[1]


# ------------------------------------------------------------------------------------------ types


def result_type(t: Translator, name: str, kinds: Sequence[Any]) -> Any:
    """Returns the type of an operation's result for the types of its arguments.

    Raises KernelError if there is none.
    """
    if name in TESTS:
        return types.boolean
    if name in t.module.bodies:
        found = [BY_CODE[code] for code in t.module.bodies[name](t)[1]]
    elif name in foreign.functions:
        found = [BY_CODE[code] for code in foreign.functions[name].returned]
    else:
        try:
            found = language.result_types(name, [_argument_type(kind) for kind in kinds])
        except TypeError as error:
            raise KernelError(str(error)) from None
    lanes = t.f.lanes
    results = [
        FeaturesType(r.element.code, r.count, lanes) if r.is_vector else packet(r.code, lanes)
        for r in found
    ]
    return results[0] if len(results) == 1 else types.Tuple(results) if results else types.none


def _argument_type(kind: Any) -> Any:
    """Returns an argument as the rules of the language take it."""
    if type(kind) is FeaturesType:
        return vector(BY_CODE[kind.code], kind.count)
    if type(kind) is Packet:
        return BY_CODE[kind.code]
    node = getattr(kind, "node", None)
    if type(node) is ast.Name:
        return BY_CODE.get(node.id)
    return getattr(node, "value", None)


# ----------------------------------------------------------------------------------- translation


def _argument(kind: Any, x: Any) -> ast.expr:
    """Returns an argument as the front end reads it: a variable, what the text spells out, or what
    the type says."""
    return ast.Name(x.name) if x.name else x.node or kind.node


_BIT = llvm.IntType(1)


def text_value(value: Any, kind: Any) -> TextValue:
    """Returns a value of the front end as one of Numba's."""
    if type(kind) is Packet:
        return TextValue(value, kind.llvm)
    return TextValue(value, _BIT if kind is types.boolean else None)


def emitter(name: str, is_operator: bool) -> Callable:
    """Returns the function that translates a call, or an operator."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> TextValue:
        t: Translator = builder.translator
        nodes = [_argument(kind, x) for kind, x in zip(sig.args, args, strict=True)]
        value: Operand | tuple[Operand, ...] | None
        if is_operator:
            value = t.apply(name, [t.expr(node) for node in nodes])
        elif name in TESTS:
            value = NUMBER, t.test(ast.Call(ast.Name(name), nodes, []))
        else:
            value = t.call(ast.Call(ast.Name(name), nodes, []))
        return text_value(value, sig.return_type)

    return emit


operations: dict[str, FunctionType] = {}
"""The types by which Numba knows the names of the language."""


def operation(name: str) -> FunctionType | None:
    """Returns the type of a name of the language, None if it is none."""
    if name not in operations and name in foreign.functions:  # made after this module
        _register(name)
        context: Any = cpu_target.target_context
        context.refresh()
    return operations.get(name)


def _register(name: str) -> None:
    key = type(name, (), {})  # Numba wants an object that stands for the name
    operations[name] = FunctionType(key)
    lower_builtin(key, types.VarArg(types.Any))(emitter(name, False))


for _name in numpy_target.namespace:
    _register(_name)
for _o in language.OPERATORS.values():
    lower_builtin(_o.python, *[OperandType] * _o.arity)(emitter(_o.name, True))

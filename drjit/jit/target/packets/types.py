"""Types of Numba for the values of the kernel language."""

import ast
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.extending import register_model

from ..simd.ir import BITS

_LLVM = {"f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType()}


class OperandType(types.Type):
    """A type of operands: of packets, vectors, and constants."""


class Packet(OperandType):
    """One element of a type for each lane; that of `mask` is a bit."""

    def __init__(self, code: str, lanes: int):
        self.code, self.lanes = code, lanes
        self.llvm = ir.VectorType(_LLVM.get(code) or ir.IntType(BITS[code]), lanes)
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

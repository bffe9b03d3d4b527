"""Statements on vectors of features: in registers, or, if a vector is long or indices select its
features, in memory of the thread, as on the processor.
"""

import ast
from collections.abc import Sequence
from typing import Any

from ...ir.dtype import VECTOR_BLOCK
from ..simd.conversion import convert
from ..simd.feature_loop import spelled
from ..simd.ir import Operand
from ..simd.loops import address, first_row
from ..simd.reduction import accumulator
from ..simd.translate import Deferred
from . import fragments, pairs
from .calls import in_registers
from .features import FeatureTranslator, GpuVector, Pending, Scalar, size
from .function import GpuFunction
from .memory import inside, loaded, stored
from .plan import FRAGMENTS, OWN


class GpuVectorTranslator(FeatureTranslator):
    """Translates a kernel that contains vectors."""

    def delivered(self, v: GpuVector) -> Operand:
        """Returns a vector as the value of a statement, in memory if that is where the variable
        is."""
        return spelled(self.spilled(v)) if self.plan.in_memory(self.target) else v.value

    def name(self, e: ast.Name) -> Operand:
        """A variable. Literals that are read at their use are the same for all lanes."""
        value = self.f.variables.get(e.id)
        found = super().name(e)
        if value is not None and type(value[1]) is Deferred:
            self.uniform.add(found[1])
        return found


@in_registers("type *operand", vector=-1)
def vector(t: Any, code: str, *parts: str) -> Operand | object:
    """`vector(T, x0, x1, ...)`."""
    return t.of_scalars(code, parts).value


@in_registers("type integer operand", vector=-1)
def splat(t: Any, code: str, count: int, x: str) -> Operand | object:
    """`splat(T, n, x)`."""
    form = t.plan.form(t.target)
    v = GpuVector(code, count, form, [""] * size(count, form))
    v.op = Pending(lambda f, x: x, [Scalar(code, x)])
    v.op.results.append(v)
    return v.value


@in_registers("node integer", vector=0)
def feature(t: Any, e: ast.expr, k: int) -> Operand | object:
    """`feature(v, k)`."""
    v: GpuVector = t.expr(e)[1]
    if v.form == FRAGMENTS and not v.forms.get(OWN, [""] * v.count)[k // 2]:
        others = t.plan.wanted.get(getattr(e, "id", ""), ())
        fragments.unpack(t, v, sorted({j // 8 for j in (*others, k) if j < v.count}))
    return v.code, t.feature_of(v, k)


def _is(f: GpuFunction, index: str, k: int) -> str:
    return f.op(f"icmp eq {f.vector['u32']} {index}, {f.constant('u32', k)}")


@in_registers("node node mask", vector=0)
def take(t: Any, e: ast.expr, x: ast.expr, mask: str) -> Operand | object:
    """`take(v, x, m)`."""
    v: GpuVector = t.expr(e)[1]
    f, index = t.f, t.typed(x, "u32")[1]
    result = t.feature_of(v, 0)
    for k in range(1, v.count):
        result = f.select(v.code, _is(f, index, k), t.feature_of(v, k), result)
    return v.code, f.select(v.code, mask, result)


@in_registers("node node node mask", vector=0)
def put(t: Any, e: ast.expr, x: ast.expr, y: ast.expr, mask: str) -> Operand | object:
    """`put(v, x, y, m)`."""
    v: GpuVector = t.expr(e)[1]
    f, value = t.f, t.typed(y, v.code)[1]
    constant = t.integer(x) if type(x) is ast.Constant else None
    places: Sequence[int] = range(v.count)
    if constant is not None:
        places = (constant,)
    index = t.typed(x, "u32")[1] if constant is None else ""
    registers = t.all_registers(v, OWN)
    for k in places:
        here = mask
        if index:
            here = f.op(f"and {f.vector['mask']} {_is(f, index, k)}, {mask}")
        one = f.select(v.code, here, value, t.feature_of(v, k))
        registers[k // 2] = pairs.replaced(f, v.code, registers[k // 2], k % 2, one)
    return t.delivered(GpuVector(v.code, v.count, OWN, registers))


@in_registers("node", vector=0)
def total(t: Any, e: ast.expr) -> Operand | object:
    """`total(v)`."""
    v: GpuVector = t.expr(e)[1]
    f, acc = t.f, accumulator(v.code)
    if v.form == OWN or v.code == "f64":
        result = "zeroinitializer"
        for k in range(v.count):
            x = convert(f, acc, v.code, t.feature_of(v, k))
            result = f.op(f"fadd {f.vector[acc]} {result}, {x}")
    else:
        result = f.packet(acc, fragments.totals(t, v).name)
    return v.code, convert(f, v.code, acc, result)


# ------------------------------------------------------------------------------------------ buffers


@in_registers("type integer pointer lane_range", vector=-1)
def load_vector(t: Any, code: str, count: int, base: str) -> Operand | object:
    """`load_vector(T, n, p[k], i)`."""
    return t.of_scalars(code, _read(t, code, count, first_row(t.f, code, count, base))).value


@in_registers("type integer pointer", vector=-1)
def broadcast_vector(t: Any, code: str, count: int, base: str) -> Operand | object:
    """`broadcast_vector(T, n, p[k])`."""
    return t.of_scalars(code, _read(t, code, count, base)).value


def _read(t: Any, code: str, count: int, start: str) -> list[str]:
    f = t.f
    return [loaded(f, code, address(f, code, start, k * VECTOR_BLOCK)) for k in range(count)]


@in_registers("type integer pointer lane_range node", vector=4)
def store_vector(t: Any, code: str, count: int, base: str, e: ast.expr) -> object:
    """`store_vector(T, n, p[k], i, v)`."""
    v = t.features(e)
    f, parts = t.f, [t.feature_of(v, k) for k in range(count)]
    with inside(t):
        start = first_row(f, code, count, base)
        for k, x in enumerate(parts):
            stored(f, code, x, address(f, code, start, k * VECTOR_BLOCK))
    return None

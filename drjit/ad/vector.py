"""Derivatives of vectors: conversion from and to scalars, sums of features, products with matrices,
and the sums over lanes that are the gradients of those products.

As in `memory_rules`, each function creates the primal node and, if an operand has a variable,
records one. Element-wise operations on vectors have the same rules as those on scalars.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir import node, op
from ..jit.ir.node import LITERAL, Node
from ..jit.ir.scope import active
from ..jit.trace import feature_vectors as vector
from ..jit.trace.access import Access, WriteTarget
from . import memory_rules
from .algebra import RECORDED, operands
from .graph import Value, Var, as_value, take_gradient
from .memory_rules import (
    LaneRule,
    LinearOp,
    ManyResults,
    OneResult,
    broadcast_to,
    gather,
    recorded_value,
    reduce,
)

# Vectors from scalars, and scalars from vectors


class _Pack(LaneRule):
    name = "coopvec_pack"
    lanewise = True
    keeps_inputs = masks = False

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        zero = Value(node.literal(v.dtype.element, 0))
        return pack([t or zero for t in tangents])

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        for k, d in enumerate(v.deps):
            if d is not None:
                sink.add(k, feature(g, k), v.size)


def pack(parts: Sequence[Value], what: str = "vector") -> Value:
    """Makes a vector from scalars."""
    nodes, variables = zip(*parts, strict=True)
    return recorded_value(PACK, vector.vector(nodes, what), (), variables)


def splat(count: int, a: Value) -> Value:
    """Makes a vector whose features all equal the same scalar."""
    return recorded_value(SPLAT, node.splat(count, a.node), (), (a.var,))


def total(a: Value) -> Value:
    """Returns the sum over features."""
    return recorded_value(TOTAL, vector.total(a.node), (), (a.var,))


SPLAT = LinearOp("coopvec_splat", lambda v, t: splat(v.dtype.count, t), lambda v, g: total(g))
TOTAL = LinearOp("coopvec_sum", lambda v, t: total(t), lambda v, g: splat(v.deps[0].dtype.count, g))


class _Unpack(ManyResults):
    """All features of a vector."""

    name = "coopvec_unpack"
    keeps_inputs = masks = False

    def count(self, v: Var) -> int:
        return v.deps[0].dtype.count

    def part(self, v: Var, k: int, tangent: Value) -> Value:
        return feature(tangent, k)

    def whole(self, v: Var, found: dict[int, Value], sink: Any) -> None:
        t = v.deps[0].dtype
        if len(found) < t.count:
            sink.masking = True
            found = dict.fromkeys(range(t.count), Value(node.literal(t.element, 0))) | found
        sink.add(0, pack([*map(found.__getitem__, range(t.count))]), v.size)


def unpack(a: Value, numbers: Sequence[int] | None = None) -> list[Value]:
    """Returns features of a vector as scalars: all, or those with the given numbers."""
    numbers = range(a.node.dtype.count) if numbers is None else numbers
    found: list[Value] = []
    whole = None
    for k in numbers:
        n = vector.feature(a.node, k)
        if not found and a.var is not None:
            whole = recorded_value(UNPACK, n, (), (a.var,), ({},)).var
        found.append(recorded_value(FEATURE, n, (), (whole,), k))
    return found


def feature(a: Value, k: int) -> Value:
    """Returns feature `k` of a vector."""
    return unpack(a, [k])[0]


class _Take(LaneRule):
    """The feature of each lane at an index. `inputs` are the index and the mask."""

    lanewise = True
    name = "local_read"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        index, mask = v.inputs
        return take(tangents[0], index, mask)

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        index, mask = v.inputs
        sink.add(0, put(Value(node.literal(v.deps[0].dtype, 0)), index, g, _here(mask)), v.size)


def take(a: Value, index: Node, mask: Node, what: str = "") -> Value:
    """Returns the feature of each lane at an index, 0 where the mask is false."""
    return recorded_value(TAKE, vector.take(a.node, index, mask, what), (index, mask), (a.var,))


class _Put(LaneRule):
    """Operands: the vector before, and the feature. `inputs` are the index and the mask."""

    lanewise = True
    name = "local_write"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        index, mask = v.inputs
        of_a, of_x = tangents
        of_a = of_a or Value(node.literal(v.dtype, 0))
        of_x = of_x or Value(node.literal(v.dtype.element, 0))
        return put(of_a, index, of_x, _here(mask))

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        index, mask = v.inputs
        if v.deps[0] is not None:
            zero = Value(node.literal(v.dtype.element, 0))
            sink.add(0, put(g, index, zero, _here(mask)), v.size)
        if v.deps[1] is not None:
            sink.add(1, take(g, index, mask), v.size)


def put(a: Value, index: Node, x: Value, mask: Node, what: str = "") -> Value:
    """Replaces the feature at the index of each lane where the mask is true."""
    n = vector.put(a.node, index, x.node, mask, what)
    return recorded_value(PUT, n, (index, mask), (a.var, x.var))


def _here(mask: Node) -> Node:
    """Restricts a mask to the code that is being traced: nothing else may be written."""
    return node.apply(op.and_, mask, active())


def sum_lanes(a: Value) -> Value:
    """Returns the vector of sums over all lanes."""
    if a.var is None:
        return Value(vector.sum_lanes(a.node))
    return pack([reduce("add", part) for part in unpack(a)])


# Products with matrices


LaneSum = tuple[vector.Matrix, tuple[Value, ...], Node | None]
"""What is summed over lanes, or those of a mask, and added to a matrix in a buffer: a vector, or
the outer product of two."""


class _Matvec(LaneRule):
    """Operands: the buffer of the matrix, the vector, and the buffer of the bias, if any. `data`
    has the `Matrix` of both buffers."""

    name = "coopvec_matvec"
    lanewise = True
    masks = False

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        a, x, *_ = operands(v)
        of_a, of_x, *of_bias = [
            None if t is None else broadcast_to(t, n.size) if not n.dtype.is_vector else t
            for t, n in zip(tangents, v.inputs, strict=True)
        ]
        matrix, bias = v.data
        extra = (of_bias[0], bias) if of_bias and of_bias[0] is not None else (None, None)
        terms = []
        if of_x is not None:
            terms.append(matvec(a, matrix, of_x, *extra))
        if of_a is not None:
            terms.append(matvec(of_a, matrix, x, *(extra if not terms else (None, None))))
        if not terms and extra[0] is not None:
            terms.append(load(extra[0], extra[1]))
        if not terms:
            return None
        return terms[0] if len(terms) == 1 else RECORDED.add(*terms)

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        if sink.keep:
            a, x, *_ = operands(v)
        else:
            a, x, *_ = map(as_value, zip(v.inputs, repeat(None)))
            if x.node.op in vector.SCALAR:
                x = as_value((vector.dense(x.node), None))
            if g.node.op in vector.SCALAR:
                g = as_value((vector.dense(g.node), None))
        matrix, bias = v.data
        (of_a, of_x, *of_bias), sums = v.deps, []
        if of_a is not None:
            if not matrix.reversible:
                raise RuntimeError(
                    "drjit.nn.matvec(): the gradient of a matrix in the layout 'inference' is not "
                    "available in reverse mode. Use nn.pack(..., layout='training')."
                )
            factors = (x, g) if matrix.transposed else (g, x)
            # Where no gradient arrives, the other vector may have any value.
            some = _nonzero(g.node) if sink.masking else None
            sums.append((matrix, factors, some))
        if of_bias and of_bias[0] is not None:
            if sums and of_bias[0] is not of_a:
                _add_to_gradient(sink, 0, sums)
                sums = []
            # A single entry represents all lanes.
            all_lanes = broadcast_to(g, v.size) if g.node.size == 1 else g
            sums.append((bias, (all_lanes,), None))
        if sums:
            _add_to_gradient(sink, 0 if sums[0][0] is matrix else 2, sums)
        # Last, so that what the layer was given is not needed for longer than that.
        if of_x is not None:
            sink.add(1, matvec(a, matrix.transpose, g), v.size)


def _nonzero(g: Node) -> Node:
    """Returns where a vector has a nonzero feature."""
    if g.op in vector.SCALAR:
        g = vector.dense(g)
    size = vector.total(node.make(op.abs, g.dtype, g.size, (g,)))
    return node.make(op.ne, dt.mask, g.size, (size, node.CONSTANTS[size.dtype, 0]))


def matvec(
    a: Value,
    matrix: vector.Matrix,
    x: Value,
    b: Value | None = None,
    bias: vector.Matrix | None = None,
    what: str = "nn.matvec",
) -> Value:
    """Multiplies a matrix in a buffer, or its transpose, with a vector and adds a bias."""
    n = vector.matvec(a.node, matrix, x.node, what, b and b.node, bias)
    inputs, deps = zip(a, x, strict=True) if b is None else zip(a, x, b, strict=True)
    tracked = MATVEC.record(n, inputs, deps, (matrix, bias)) if any(deps) else None
    return as_value((n, tracked))


def load(b: Value, bias: vector.Matrix) -> Value:
    """Returns a bias as a vector."""
    parts = []
    for k in range(bias.rows):
        index = node.literal(dt.u32, bias.offset + k)
        parts.append(gather(b, Access(index, what="nn.matvec", inside=True)))
    return pack(parts)


class _AddLanes(LaneRule):
    """Operands: the buffer before, and one or two vectors. `data` is the `Matrix` that they are
    added to, and the mask of the lanes that count, or None."""

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        _, *factors = operands(v)
        of_target, *of_factors = tangents
        result = broadcast_to(of_target or Value(node.literal(v.dtype, 0)), v.size)
        for i, t in enumerate(of_factors):
            if t is not None:
                t = broadcast_to(t, factors[i].node.size)
                changed = [*factors[:i], t, *factors[i + 1 :]]
                result = add_lanes(result, (v.data[0], tuple(changed), v.data[1]))
        return result

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        _, *factors = operands(v)
        matrix, some = v.data
        if v.deps[0] is not None:
            sink.add(0, g)
        lanes, g = max([f.node.size for f in factors]), broadcast_to(g, v.size)
        for i, d in enumerate(v.deps[1:]):
            if d is None:
                continue
            if len(factors) == 1:
                sink.add(1, load(g, matrix), lanes)
                continue
            c = matvec(g, matrix._replace(transposed=i == 1), factors[1 - i])
            if some is not None:
                zero = Value(node.literal(c.node.dtype, 0))
                c = RECORDED.select(Value(node.splat(c.node.dtype.count, some)), c, zero)
            sink.add(i + 1, c, lanes)


def _add_to_gradient(sink: Any, i: int, sums: list[LaneSum]) -> None:
    """Adds sums to matrices in the gradient of operand `i`, in place if nothing else holds it."""
    d = sink.target(i)
    if d is None:
        return
    if sink.keep:
        for added in sums:
            d.grad, d.grad_var = add_lanes(memory_rules.broadcast_gradient(d), added)
        return
    found = []
    for matrix, factors, some in sums:
        nodes, _ = zip(*factors, strict=True)
        found.append((matrix, nodes, some))
    d.grad = vector.add_lanes(take_gradient(d), found, GRADIENT)


def add_lanes(target: Value, added: LaneSum) -> Value:
    """Returns, as a separate value, the buffer after a sum has been added to a matrix in it."""
    before, (matrix, factors, some) = target.node, added
    copied = node.make(op.copy, before.dtype, before.size, (before,))
    nodes, variables = zip(*factors, strict=True)
    nodes = tuple(map(vector.dense, nodes))
    taken = WriteTarget(before if before.op is LITERAL else copied)
    n = vector.add_lanes(taken, [(matrix, nodes, some)], GRADIENT)
    rule = OUTER if len(factors) == 2 else ACCUMULATE
    return recorded_value(rule, n, (before, *nodes), (target.var, *variables), (matrix, some))


GRADIENT = "gradient of drjit.nn.matvec"
PACK, UNPACK, FEATURE = _Pack(), _Unpack(), OneResult("coopvec_feature", masks=False)
TAKE, PUT = _Take(), _Put()
MATVEC = _Matvec()
OUTER, ACCUMULATE = _AddLanes("coopvec_outer"), _AddLanes("coopvec_accumulate")

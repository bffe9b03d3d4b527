"""Derivatives of vectors: conversion from and to scalars, sums of features, products with matrices,
and the sums over lanes that are the gradients of those products.

As in `lanes`, each function creates the primal node and, if an operand has a variable, records one.
Element-wise operations on vectors have the same rules as those on scalars.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..jit.ir import dtype as dt
from ..jit.ir import node, op
from ..jit.ir.node import LITERAL, Node
from ..jit.ir.scope import active
from ..jit.trace import feature_vectors as vector
from ..jit.trace.access import Access, Replacement
from ..jit.trace.feature_vectors import MatrixLayout
from .algebra import RECORDED, operands
from .graph import Value, Var
from .lanes import LaneRule, _value, full, gather, reduce

# Vectors from scalars, and scalars from vectors


class _Pack(LaneRule):
    name = "coopvec_pack"
    keeps_inputs = False
    masks = False

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        zero = Value(node.literal(v.dtype.element, 0))
        return pack([t or zero for t in tangents])

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        for k, d in enumerate(v.deps):
            if d is not None:
                sink.add(k, feature(g, k), v.size)


def pack(parts: Sequence[Value], what: str = "vector") -> Value:
    """Makes a vector from scalars."""
    n = vector.vector([p.node for p in parts], what)
    return _value(PACK, n, (), tuple([p.var for p in parts]))


class _Linear(LaneRule):
    """A linear operation with one operand: `apply` applies it to a tangent, `transpose` applies its
    transpose to a gradient; both take the variable first."""

    keeps_inputs = False
    masks = False

    def __init__(
        self,
        name: str,
        apply: Callable[[Var, Value], Value],
        transpose: Callable[[Var, Value], Value],
    ) -> None:
        super().__init__(name)
        self._apply, self._transpose = apply, transpose

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        return self._apply(v, tangents[0])

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        sink.add(0, self._transpose(v, g), v.size)


def splat(count: int, a: Value) -> Value:
    """Makes a vector whose features all equal the same scalar."""
    return _value(SPLAT, vector.splat(count, a.node), (), (a.var,))


def total(a: Value) -> Value:
    """Returns the sum over features."""
    return _value(TOTAL, vector.total(a.node), (), (a.var,))


SPLAT = _Linear("coopvec_splat", lambda v, t: splat(v.dtype.count, t), lambda v, g: total(g))
TOTAL = _Linear("coopvec_sum", lambda v, t: total(t), lambda v, g: splat(v.deps[0].dtype.count, g))


class _Unpack(LaneRule):
    """All features of a vector. Its variable has no gradient of its own: it passes on the gradients
    of all features at once. `data` is a dictionary of the gradients received so far."""

    name = "coopvec_unpack"
    always = True
    keeps_inputs = False
    masks = False

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        return None

    def backward(self, v: Var, g: Value | None, sink: Any) -> None:
        found = dict(v.data)
        v.data.clear()
        if found:
            t = v.deps[0].dtype
            zero = Value(node.literal(t.element, 0))
            sink.masking = sink.masking or len(found) < t.count
            sink.add(0, pack([found.get(k, zero) for k in range(t.count)]), v.size)

    def reset(self, v: Var) -> None:
        v.data.clear()


class _Feature(LaneRule):
    """A feature of an unpacked vector; `data` is its number."""

    name = "coopvec_feature"
    always = True
    keeps_inputs = False
    masks = False

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        source = v.deps[0].deps[0]
        if source is None or source.grad is None:
            return None
        return feature(Value(source.grad, source.grad_var), v.data)

    def backward(self, v: Var, g: Value | None, sink: Any) -> None:
        if g is not None:
            v.deps[0].data[v.data] = g
            sink.mark(v.deps[0])


def unpack(a: Value, numbers: Sequence[int] | None = None) -> list[Value]:
    """Returns features of a vector as scalars: all, or those with the given numbers."""
    numbers = range(a.node.dtype.count) if numbers is None else numbers
    nodes = [vector.feature(a.node, k) for k in numbers]
    whole = _value(UNPACK, nodes[0], (), (a.var,), {}).var if nodes else None
    return [_value(FEATURE, n, (), (whole,), k) for n, k in zip(nodes, numbers, strict=True)]


def feature(a: Value, k: int) -> Value:
    """Returns feature `k` of a vector."""
    return unpack(a, [k])[0]


class _Take(LaneRule):
    """The feature of each lane at an index. `inputs` are the index and the mask."""

    name = "local_read"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        index, mask = v.inputs
        return take(tangents[0], index, mask)

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        index, mask = v.inputs
        zero = Value(node.literal(v.deps[0].dtype, 0))
        sink.add(0, put(zero, index, g, _here(mask)), v.size)


def take(a: Value, index: Node, mask: Node, what: str = "") -> Value:
    """Returns the feature of each lane at an index, 0 where the mask is false."""
    n = vector.take(a.node, index, mask, what)
    return _value(TAKE, n, (index, mask), (a.var,))


class _Put(LaneRule):
    """Operands: the vector before, and the feature. `inputs` are the index and the mask."""

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
    return _value(PUT, n, (index, mask), (a.var, x.var))


def _here(mask: Node) -> Node:
    """Restricts a mask to the code that is being traced: nothing else may be written."""
    return node.apply(op.and_, mask, active())


def sum_lanes(a: Value) -> Value:
    """Returns the vector of sums over all lanes."""
    if a.var is None:
        return Value(vector.sum_lanes(a.node))
    return pack([reduce("add", part) for part in unpack(a)])


# Products with matrices


class Matrix(NamedTuple):
    """A matrix or bias in a buffer: `at` is its position, a literal node, and `reversible` says
    whether its gradient may be requested."""

    at: Node
    layout: MatrixLayout
    transposed: bool = False
    reversible: bool = True


class _Matvec(LaneRule):
    """Operands: the buffer of the matrix, the vector, and the buffer of the bias, if any. `data`
    has the `Matrix` of both buffers."""

    name = "coopvec_matvec"
    masks = False

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        a, x, *_ = operands(v)
        of_a, of_x, *of_bias = [
            None if t is None else full(t, n.size) if not n.dtype.is_vector else t
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
        a, x, *_ = operands(v)
        matrix, bias = v.data
        if v.deps[0] is not None:
            if not matrix.reversible:
                raise RuntimeError(
                    "drjit.nn.matvec(): the gradient of a matrix in the layout 'inference' is not "
                    "available in reverse mode. Use nn.pack(..., layout='training')."
                )
            y, z = (x, g) if matrix.transposed else (g, x)
            # Where no gradient arrives, the other vector may have any value.
            some = _nonzero(g.node) if sink.masking else None
            sink.update(
                0,
                lambda target: _add_outer(target, matrix, y.node, z.node, some),
                lambda target: outer(target, matrix, y, z, some),
            )
        if v.deps[1] is not None:
            turned = matrix._replace(transposed=not matrix.transposed)
            sink.add(1, matvec(a, turned, g), v.size)
        if len(v.deps) > 2 and v.deps[2] is not None:
            # A single entry represents all lanes.
            whole = full(g, v.size)
            sink.update(
                2,
                lambda target: vector.accumulate(target, bias.at, whole.node, _GRADIENT),
                lambda target: accumulate(target, bias, whole),
            )


_GRADIENT = "gradient of drjit.nn.matvec"


def _nonzero(g: Node) -> Node:
    """Returns where a vector has a nonzero feature."""
    size = vector.total(node.apply(op.abs, g))
    return node.apply(op.ne, size, node.literal(size.dtype, 0))


def _add_outer(target: Replacement, matrix: Matrix, y: Node, x: Node, some: Node | None) -> Node:
    return vector.outer(target, matrix.at, matrix.layout, y, x, _GRADIENT, some)


def matvec(
    a: Value,
    matrix: Matrix,
    x: Value,
    b: Value | None = None,
    bias: Matrix | None = None,
    what: str = "nn.matvec",
) -> Value:
    """Multiplies a matrix in a buffer, or its transpose, with a vector and adds a bias."""
    operands = [a, x]
    of_bias: tuple = ()
    if b is not None and bias is not None:
        operands.append(b)
        of_bias = (b.node, bias.at)
    layout, transposed = matrix.layout, matrix.transposed
    n = vector.matvec(a.node, matrix.at, layout, transposed, x.node, *of_bias, what=what)
    inputs = tuple([o.node for o in operands])
    return _value(MATVEC, n, inputs, tuple([o.var for o in operands]), (matrix, bias))


def load(b: Value, bias: Matrix) -> Value:
    """Returns a bias as a vector."""
    first = int(bias.at.data)
    parts = []
    for k in range(bias.layout.rows):
        index = node.literal(dt.u32, first + k)
        parts.append(gather(b, Access(index, what="nn.matvec", inside=True)))
    return pack(parts)


class _Outer(LaneRule):
    """Operands: the buffer before, and two vectors. `data` is the `Matrix` that they are added to,
    and the mask of the lanes that count, or None."""

    name = "coopvec_outer"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        of_target, of_y, of_x = tangents
        _, y, x = operands(v)
        matrix, some = v.data
        zero = Value(node.literal(v.dtype, 0))
        result = full(of_target or zero, v.size)
        if of_y is not None:
            result = outer(result, matrix, full(of_y, y.node.size), x, some)
        if of_x is not None:
            result = outer(result, matrix, y, full(of_x, x.node.size), some)
        return result

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        _, y, x = operands(v)
        matrix, some = v.data
        lanes = max(y.node.size, x.node.size)
        if v.deps[0] is not None:
            sink.add(0, g)
        for i, other, transposed in ((1, x, False), (2, y, True)):
            if v.deps[i] is not None:
                c = matvec(full(g, v.size), matrix._replace(transposed=transposed), other)
                if some is not None:
                    zero = Value(node.literal(c.node.dtype, 0))
                    mask = Value(vector.splat(c.node.dtype.count, some))
                    c = RECORDED.select(mask, c, zero)
                sink.add(i, c, lanes)


def outer(target: Value, matrix: Matrix, y: Value, x: Value, some: Node | None = None) -> Value:
    """Returns, as a separate value, the buffer after the outer products of two vectors, summed over
    lanes (only those of the mask `some`, if given), have been added to a matrix in it."""
    n = _add_outer(_copied(target.node), matrix, y.node, x.node, some)
    inputs = (target.node, y.node, x.node)
    return _value(OUTER, n, inputs, (target.var, y.var, x.var), (matrix, some))


def _copied(n: Node) -> Replacement:
    """Returns a separate target, initialized with the values of a buffer."""
    return Replacement(n if n.op is LITERAL else node.make(op.copy, n.dtype, n.size, (n,)))


class _Accumulate(LaneRule):
    """Operands: the buffer before, and a vector. `data` is the `Matrix` of the bias that it is
    added to."""

    name = "coopvec_accumulate"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        of_target, of_y = tangents
        zero = Value(node.literal(v.dtype, 0))
        result = full(of_target or zero, v.size)
        if of_y is None:
            return result
        return accumulate(result, v.data, full(of_y, v.inputs[1].size))

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        g = full(g, v.size)
        if v.deps[0] is not None:
            sink.add(0, g)
        if v.deps[1] is not None:
            sink.add(1, load(g, v.data), v.inputs[1].size)


def accumulate(target: Value, bias: Matrix, y: Value) -> Value:
    """Returns the buffer after a vector, summed over lanes, has been added to a bias in it; see
    `outer`."""
    n = vector.accumulate(_copied(target.node), bias.at, y.node, _GRADIENT)
    return _value(ACCUMULATE, n, (target.node, y.node), (target.var, y.var), bias)


PACK, UNPACK, FEATURE = _Pack(), _Unpack(), _Feature()
TAKE, PUT = _Take(), _Put()
MATVEC, OUTER, ACCUMULATE = _Matvec(), _Outer(), _Accumulate()

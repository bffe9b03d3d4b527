"""Vectors: values with many features per lane, each a single node regardless of the number of
features.

A vector is made from scalars (`vector`, `splat`), passes through element-wise operations and matrix
products, and is reduced to scalars (`feature`, `total`) or to sums over lanes that are added to a
buffer (`outer`, `accumulate`). Vectors exist within kernels only, except in a loop that runs one
kernel per iteration, which passes them from one kernel to the next.
"""

import weakref
from collections.abc import Callable, Sequence
from itertools import chain

from ..ir import dtype as dt
from ..ir import node, op
from ..ir.node import BUFFER, LITERAL, SPLAT, Node, broadcast_size, combine, literal, make
from ..ir.scope import ACTIVE, active, innermost
from ..run import freeze, pending, schedule
from ..tuples import NamedTuple
from .access import WriteTarget, reduce_all, refuse_written

VECTOR, FEATURE, RESULT = op.vector, op.feature, op.result
SCALAR = frozenset((LITERAL, SPLAT))
"""The operations that make vectors whose features all equal one scalar."""


class Matrix(NamedTuple):
    """A matrix, or a vector of one column, in a buffer: element (r, c) is entry `offset + r *
    stride + c`, and `at` the offset as an operand, a parameter of kernels. Products use its
    transpose if it is `transposed`; `reversible` says whether its gradient may be requested."""

    offset: int
    rows: int
    columns: int
    stride: int
    transposed: bool
    reversible: bool
    at: Node

    @property
    def transpose(self) -> "Matrix":
        """The transpose."""
        return tuple.__new__(Matrix, (*self[:4], not self[4], *self[5:]))


def matrix(
    offset: int, rows: int, columns: int, stride: int, transposed: bool = False,
    reversible: bool = True,
) -> Matrix:  # fmt: skip
    """Describes a matrix. All operations on it share the operand `at`, and thus one parameter."""
    at = make(LITERAL, dt.i64, 1, (), offset)
    return Matrix(offset, rows, columns, stride, transposed, reversible, at)


def vector(parts: Sequence[Node], what: str = "vector") -> Node:
    """Makes a vector from scalars of the same element type.

    Raises:
        RuntimeError: the parts have incompatible sizes.
    """
    first = parts[0]
    count, size = len(parts), broadcast_size(tuple(parts), what)
    if len({*parts}) == 1:
        return node.splat(count, first)
    if first.op is LITERAL and all(
        p.op is LITERAL and _is_same_number(p.data, first.data) for p in parts
    ):
        return literal(dt.VECTORS[first.dtype, count], first.data, size)
    deps = first.deps  # read before the op: another thread may be evaluating the node
    if first.op is FEATURE and deps:
        whole = deps[0]
        # A result of a side effect is available feature by feature once the effect has happened.
        if whole.op is not RESULT and whole.dtype.count == count and whole.size == size:
            features = [(p.op, p.deps, p.data) for p in parts]
            if features == [(FEATURE, (whole,), k) for k in range(count)]:
                return whole
    dtype, distinct = dt.VECTORS[first.dtype, count], dict.fromkeys(parts)
    if len(distinct) > count // 2:
        return make(VECTOR, dtype, size, tuple(parts))
    # Traversals of operands meet each of them once; the data says which features they are.
    place = {n: k for k, n in enumerate(distinct)}
    return make(VECTOR, dtype, size, tuple(distinct), tuple([place[p] for p in parts]))


def _is_same_number(a: float, b: float) -> bool:
    # Zeros of different sign are different values.
    return a == b and (a != 0 or str(a) == str(b))


def feature(v: Node, k: int) -> Node:
    """Returns feature `k` of a vector."""
    if v.op is LITERAL:
        return literal(v.dtype.element, v.data, v.size)
    if v.op is SPLAT:
        return v.deps[0]
    if v.op is VECTOR:
        deps = v.deps
        part = deps[v.data[k] if v.data else k if len(deps) > 1 else 0]
        if part.size == v.size or part.op is LITERAL:
            return node.resize(part, v.size)
    return make(FEATURE, v.dtype.element, v.size, (v,), k)


def dense(v: Node) -> Node:
    """Returns the vector in the form that kernel text needs outside of element-wise operations,
    whose literal and splat operands are scalars."""
    if v.op not in SCALAR:
        return v
    return make(VECTOR, v.dtype, v.size, (feature(v, 0),))


def total(v: Node) -> Node:
    """Returns the sum over features; halves accumulate in single precision."""
    t, count = v.dtype.element, v.dtype.count
    if v.op is LITERAL or v.op is SPLAT:
        wide = t.accumulator
        times = literal(wide, count)
        return node.cast(t, combine(op.mul, (node.cast(wide, feature(v, 0)), times)))
    return feature(v, 0) if count == 1 else make(op.total, t, v.size, (v,))


def take(v: Node, index: Node, mask: Node, what: str = "take") -> Node:
    """Returns each lane's feature at a `u32` index, which must be in bounds where the mask is true;
    0 elsewhere."""
    size = broadcast_size((v, index, mask), what)
    if index.op is not LITERAL and v.op is not LITERAL and v.op is not SPLAT:
        return make(op.take, v.dtype.element, size, (v, index, mask))
    picked = feature(v, index.data if index.op is LITERAL else 0)
    if mask is ACTIVE:
        return node.resize(picked, size)
    return combine(op.select, (mask, picked, literal(picked.dtype, 0, size)))


def put(v: Node, index: Node, value: Node, mask: Node, what: str = "put") -> Node:
    """Replaces the feature at each lane's `u32` index, where the mask is true and the index in
    bounds."""
    size = broadcast_size((v, index, value, mask), what)
    if mask.op is LITERAL and not mask.data:
        return node.resize(v, size)
    if index.op is not LITERAL:
        return make(op.put, v.dtype, size, (dense(v), index, value, mask))
    k, count = index.data, v.dtype.count
    if v.op not in _SEPARATE or count > FEW:
        return make(op.put, v.dtype, size, (dense(v), value, mask), k)
    parts = [feature(v, j) for j in range(count)]
    if mask is not ACTIVE:
        value = combine(op.select, (mask, value, parts[k]))
    parts[k] = node.resize(value, size)
    return vector(parts, what)


_SEPARATE = frozenset((LITERAL, SPLAT, VECTOR))  # vectors whose features are separate values
FEW = 16
"""Up to this number of features, a vector is rebuilt when one of them changes."""


def sum_lanes(v: Node) -> Node:
    """Returns the vector of sums over all lanes."""
    if v.op is SPLAT:
        return node.splat(v.dtype.count, reduce_all("add", v.deps[0]))
    return vector([reduce_all("add", feature(v, k)) for k in range(v.dtype.count)])


# The matrices of products are evaluated and converted before the kernel that reads them. All
# products with a buffer share one conversion. It lives as long as the buffer if that was evaluated
# before, and otherwise as long as something refers to it.
_sources: weakref.WeakKeyDictionary[Node, Callable[[], Node | None]] = weakref.WeakKeyDictionary()


def _source(a: Node, t: dt.DType, what: str) -> Node:
    """Returns a buffer in the form needed for products with vectors of an element type."""
    if a.op is not BUFFER:
        refuse_written(a, what)
    wide = t.accumulator
    if a.dtype is wide and a.op is not LITERAL:
        return a
    reference = _sources.get(a)
    converted = reference() if reference is not None else None
    # Freezing must record how a source is computed.
    if converted is None or (converted.op is BUFFER and freeze.active() is not None):
        nested, recording = innermost() is not None, freeze.active() is not None
        converted = node.cast(wide, a)
        if converted.op is LITERAL:
            converted = make(op.copy, wide, a.size, (converted,))
        if a.op is BUFFER and not nested and not recording:
            schedule.evaluate_alone(converted)
            _sources[a] = lambda: converted
        else:
            _sources[a] = weakref.ref(converted)
    return converted


def matvec(
    a: Node, matrix: Matrix, x: Node, what: str, b: Node | None = None, bias: Matrix | None = None
) -> Node:
    """Multiplies a matrix in the buffer `a` with a vector and adds a bias in the buffer `b`."""
    t = x.dtype.element
    source = _source(a, t, what)
    operands = [source, matrix.at, dense(x) if x.op in SCALAR else x]
    if b is not None and bias is not None:
        operands += [source if b is a else _source(b, t, what), bias.at]
    count = matrix.columns if matrix.transposed else matrix.rows
    return make(op.matvec, dt.VECTORS[t, count], x.size, tuple(operands), matrix[1:5])


def add_lanes(
    target: WriteTarget, sums: Sequence[tuple[Matrix, Sequence[Node], Node | None]], what: str
) -> Node:
    """Adds vectors, or outer products of two, summed over the same lanes, to matrices in a buffer.
    Each sum has the matrix, the one or two factors, which are `dense`, and the mask of the lanes
    that count or None for all. Returns the node that stands for the buffer from then on."""
    operands, here = [], active()
    for _, factors, some in sums:
        mask = here
        if some is not None:
            mask = make(op.and_, dt.mask, max(some.size, here.size), (some, here))
        operands.append((*factors, mask))
    lanes = broadcast_size(tuple(chain.from_iterable(operands)), what)
    with schedule.lock:  # in between, another thread must not evaluate the target
        buffer, order = target.claim()
        for (place, factors, _), deps in zip(sums, operands, strict=True):
            is_outer = len(factors) == 2
            effect = pending.Effect(buffer, target.dtype, target.size, "add", "expand")
            effect.shape = place[1:4] if is_outer else place[1:2]
            kind = op.outer if is_outer else op.accumulate
            after = pending.add(kind, (place.at, *deps), lanes, effect, order)
            order = after.deps
        return after

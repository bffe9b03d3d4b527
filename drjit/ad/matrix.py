"""Derivatives of matrix products, and of sums over rows of matrices.

As in `memory_rules`, each function creates the primal node and, if an operand has a variable,
records one.
"""

from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir import node, op
from ..jit.lazy import np
from ..jit.primitives import collective
from ..jit.primitives import matmul as product
from ..jit.run import launch
from ..jit.trace.access import Access
from .algebra import RECORDED, operands
from .graph import Value, Var
from .memory_rules import LaneRule, LinearOp, broadcast_to, gather, recorded_value


class _Product(LaneRule):
    """`data` is the layout, and the sizes of the operands."""

    name = "matmul"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        layout, sizes = v.data
        a, b = operands(v)
        total = None
        for i, t in enumerate(tangents):
            if t is not None:
                t = broadcast_to(t, sizes[i])
                term = matmul(t, b, layout) if i == 0 else matmul(a, t, layout)
                total = term if total is None else RECORDED.add(total, term)
        return total

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        layout = v.data[0]
        (m, n, k), (at, bt), offsets = layout.sizes, layout.transposed, layout.offsets
        a, b = operands(v)
        g = broadcast_to(g, v.size)
        of_g = np.arange(len(offsets), dtype=np.int64) * (m * n)
        of_a, of_b = offsets[:, 0], offsets[:, 1]

        def times(x: Value, y: Value, sizes: Any, flags: Any, of_x: Any, of_y: Any) -> Value:
            offsets = np.stack([of_x, of_y], axis=1)
            return matmul(x, y, product.layout(sizes, flags, offsets))

        # In the layout of the operand: g @ b' or its transpose, a' @ g or its transpose.
        if v.deps[0] is not None:
            if at:
                d = times(b, g, (k, m, n), (bt, True), of_b, of_g)
            else:
                d = times(g, b, (m, k, n), (False, not bt), of_g, of_b)
            self._pass_on(v, 0, d, m * k, of_a, sink)
        if v.deps[1] is not None:
            if bt:
                d = times(g, a, (n, k, m), (True, at), of_g, of_a)
            else:
                d = times(a, g, (k, n, m), (not at, False), of_a, of_g)
            self._pass_on(v, 1, d, k * n, of_b, sink)

    @staticmethod
    def _pass_on(v: Var, i: int, d: Value, area: int, offsets: np.ndarray, sink: Any) -> None:
        """Passes on the gradients of the matrices of a batch, which operands may share."""
        count = len(offsets)
        if count * area == v.data[1][i] and (offsets == np.arange(count) * area).all():
            sink.add(i, d)
            return
        if (offsets == offsets[0]).all() and area == v.data[1][i]:
            sink.add(i, sum_rows(d, count, area))
            return
        lane, width = node.lane(count * area), node.literal(dt.u32, area)
        start = node.buffer(dt.u32, count, launch.from_numpy(dt.u32, offsets))
        batch = node.apply(op.quotient, lane, width)
        first = gather(Value(start), Access(batch)).node
        index = node.apply(op.add, first, node.apply(op.remainder, lane, width))
        sink.scatter_add(i, [d], Access(index, inside=True, reduce="add"))


def matmul(a: Value, b: Value, layout: product.ProductLayout) -> Value:
    """Returns products of matrices."""
    n = product.matmul(a.node, b.node, layout)
    sizes = (a.node.size, b.node.size)
    return recorded_value(PRODUCT, n, (a.node, b.node), (a.var, b.var), (layout, sizes))


def _repeat_rows(v: Var, g: Value) -> Value:
    """The transpose of `sum_rows`: each sum for all entries of its column."""
    rows, columns, size = v.data
    lane, width = node.lane(size), node.literal(dt.u32, columns)
    index = node.apply(op.remainder, lane, width)
    if size > rows * columns:
        matrix = node.apply(op.quotient, lane, node.literal(dt.u32, rows * columns))
        index = node.apply(op.add, index, node.apply(op.mul, matrix, width))
    return gather(broadcast_to(g, v.size), Access(index))


def sum_rows(a: Value, rows: int, columns: int) -> Value:
    """Returns the sums along the columns of matrices."""
    n = collective.reduce_rows("add", a.node, rows, columns)
    if n is a.node:
        return a
    return recorded_value(SUM_ROWS, n, (), (a.var,), (rows, columns, a.node.size))


PRODUCT = _Product()
SUM_ROWS = LinearOp(
    "reduce_rows", lambda v, t: sum_rows(broadcast_to(t, v.data[2]), *v.data[:2]), _repeat_rows
)
"""Its data are the number of rows and columns of each matrix, and the size of the operand."""

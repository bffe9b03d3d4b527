"""Products of matrices and batches of them, a primitive of the device that holds these."""

from functools import lru_cache
from math import prod
from typing import Any

from ..device import common
from ..ir.node import Node, buffer, literal
from ..lazy import np
from ..run import schedule
from ..run.freeze import operation
from ..run.history import one_operation

# Layouts of batches with up to so many matrices are remembered, and how devices divide them.
REMEMBERED = 64


class ProductLayout:
    """Products of `m` by `k` and `k` by `n` matrices, one after the other, and how they lie in
    memory: `sizes` are `m`, `n` and `k`, transposed operands are stored as `k` by `m`, or `n` by
    `k`, and a row of `offsets` says where the operands of a product start. In `plans`, devices
    remember how they divide the products.
    """

    __slots__ = ("offsets", "plans", "sizes", "transposed")

    def __init__(
        self, sizes: tuple[int, int, int], transposed: tuple[bool, bool], offsets: np.ndarray
    ) -> None:
        self.sizes = sizes
        self.transposed = transposed
        self.offsets = offsets
        self.plans: dict[Any, Any] = {}

    def flipped(self) -> "ProductLayout":
        """The layout of the transposed products, with the operands swapped."""
        (m, n, k), (at, bt) = self.sizes, self.transposed
        return layout((n, m, k), (not bt, not at), self.offsets[:, ::-1])


@lru_cache(256)
def _remembered(
    sizes: tuple[int, int, int], transposed: tuple[bool, bool], offsets: bytes
) -> ProductLayout:
    return ProductLayout(sizes, transposed, np.frombuffer(offsets, np.int64).reshape(-1, 2))


def layout(
    sizes: tuple[int, int, int], transposed: tuple[bool, bool], offsets: np.ndarray
) -> ProductLayout:
    """Returns the layout of products; equal layouts of few matrices are the same object."""
    if len(offsets) > REMEMBERED:
        return ProductLayout(sizes, transposed, offsets)
    return _remembered(sizes, transposed, offsets.tobytes())


@operation
@one_operation("BatchedGemm", lambda a, b, layout: prod(layout.sizes[:2]) * len(layout.offsets))
def matmul(a: Node, b: Node, layout: ProductLayout) -> Node:
    """Returns the products of a batch of matrices."""
    t = a.dtype
    m, n, k = layout.sizes
    size = m * n * len(layout.offsets)
    if size == 0 or k == 0:
        return literal(t, 0, size)
    if n == 1 and m > 1:
        # The result has the same layout either way; a single row needs no padding.
        return matmul(b, a, layout.flipped())
    x, y = schedule.materialize(a).data, schedule.materialize(b).data
    return buffer(t, size, common(x, y).matmul(t, (x, a.size), (y, b.size), layout))

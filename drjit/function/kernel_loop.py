"""Loops over one-dimensional arrays that become part of a kernel and record no derivatives."""

from collections.abc import Callable, Iterable
from typing import Any

from ..array import leaf
from ..jit.ir.node import Node
from ..jit.trace import record


def kernel_loop(
    state: Iterable[Any], cond: Callable[..., Any], body: Callable[..., Iterable[Any]]
) -> list[Any]:
    """Returns the final state of a loop: `body(*state)` updates the traced arrays as long as the
    mask `cond(*state)` is true."""
    start = list(state)

    def arrays(nodes: list[Node]) -> list[Any]:
        return [leaf.wrap(type(a), n) for a, n in zip(start, nodes, strict=True)]

    return arrays(
        record.loop(
            [a._node for a in start],
            lambda nodes: cond(*arrays(nodes))._node,
            lambda nodes: [a._node for a in body(*arrays(nodes))],
        )
    )

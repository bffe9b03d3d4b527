"""Loops over one-dimensional arrays that become part of a kernel and record no derivatives."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..array import leaf
from ..array.special import traced_once
from ..jit.ir import dtype as dt
from ..jit.ir.node import Node
from ..jit.trace import record
from .conversion import is_array, related


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


def repeated(steps: int, f: Callable[..., Sequence[Any]], state: Sequence[Any], *args: Any) -> list:
    """Returns `state` after `steps` steps `state = f(state, *args)`, in a loop if these are traced
    arrays of one class without derivatives. `f` and `args` are those of `traced_once`."""
    cls = type(state[0])
    traced = is_array(state[0]) and cls._kind == "leaf"
    if not traced or any(type(a) is not cls or a._var is not None for a in state):
        for _ in range(steps):
            state = f(state, *args)
        return list(state)
    return kernel_loop(
        [related(cls, dtype=dt.u32)(0), *state],
        lambda k, *_: k < steps,
        lambda k, *x: [k + 1, *traced_once(f, x, *args)],
    )[1:]

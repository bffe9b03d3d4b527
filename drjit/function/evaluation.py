"""When things are computed: scheduling, evaluation, waiting, and copies."""

import weakref
from collections import deque
from typing import Any

from ..ad import lanes
from ..array import leaf
from ..array.base import ArrayBase
from ..array.pytree import ROLES, leaf_arrays, map_tree
from ..jit.ir.node import BUFFER, LITERAL, Node
from ..jit.run import runtime
from ..jit.run import schedule as scheduler

# Weak: what nobody holds any more need not be computed.
_scheduled: deque[weakref.ref[Node]] = deque()


def _nodes(args: tuple) -> list[Node]:
    """Nodes of all traced arrays in the arguments."""
    nodes = []
    for arg in args:
        if ROLES.get(type(arg)) == "leaf":
            nodes.append(arg._node)
        else:
            nodes += [a._node for a in _traced((arg,))]
    return nodes


def _traced(args: tuple, opaque: bool = False) -> list[Any]:
    """The one-dimensional arrays in the arguments, to be evaluated, or made `opaque`.

    Raises:
        RuntimeError: there is a value among them that exists within kernels only.
    """
    found = []
    for arg in args:
        for a in leaf_arrays(arg):
            if a._kind == "leaf":
                found.append(a)
            else:
                found += [part for part in a._unpacked(opaque) if part._kind == "leaf"]
    return found


def schedule(*args: Any) -> bool:
    """Marks the arrays of the arguments (arrays, PyTrees) for the next evaluation, which computes
    all of them together.

    Returns whether one of them still has to be computed.

    >>> from drjit.llvm import Float
    >>> a = Float(1, 2) + 1
    >>> dr.schedule(a), dr.eval(), dr.schedule(a)
    (True, True, False)
    """
    waiting = [n for n in _nodes(args) if n.op is not BUFFER and n.op is not LITERAL]
    _scheduled.extend([weakref.ref(n) for n in waiting])
    return bool(waiting)


def eval(*args: Any) -> bool:
    """Computes the arrays of the arguments (arrays, PyTrees), all that is scheduled, and all
    pending side effects.

    Work is queued; reading a result waits for it. Constants stay constants. Returns whether there
    was anything to do.

    Raises:
        IndexError: an index of work done so far was out of bounds.

    >>> from drjit.llvm import Float
    >>> a = Float(1, 2) + 1
    >>> dr.eval(a), dr.eval(a)
    (True, False)
    """
    nodes = _nodes(args)
    return evaluate(nodes) if _scheduled else scheduler.evaluate(nodes)


def evaluate(nodes: list[Node]) -> bool:
    """Computes nodes, vectors as a whole, and what else `eval` does."""
    taken = []
    while _scheduled:
        try:
            taken.append(_scheduled.popleft())
        except IndexError:  # another thread was faster
            break
    try:
        if taken:
            nodes += [n for r in taken if (n := r()) is not None]
        return scheduler.evaluate(nodes)
    except BaseException:
        _scheduled.extendleft(reversed(taken))
        raise


def make_opaque(*args: Any) -> None:
    """Evaluates the arrays of the arguments in place, constants included: they become data, and no
    part of programs any more.

    >>> from drjit.llvm import Float
    >>> a = Float(1)
    >>> dr.make_opaque(a)
    >>> a.state.name
    'Evaluated'
    """
    arrays = _traced(args, opaque=True)
    for a in arrays:
        if a._node.is_literal:
            a._node = scheduler.as_data(a._node)
    scheduler.evaluate([a._node for a in arrays])


def copy(arg: Any, /) -> Any:
    """A copy of a PyTree with new arrays: in-place changes of the one do not show in the other.
    Memory is shared until then, and so are derivatives: a copy is the same variable.

    >>> from drjit.llvm import Float
    >>> a = Float(1, 2)
    >>> b = dr.copy(a)
    >>> b += 1
    >>> a, b
    ([1, 2], [2, 3])
    """
    return map_tree(lambda v: type(v)(v) if isinstance(v, ArrayBase) else v, arg, what="dr.copy")


def separate(value: Any) -> Any:
    """A number or array as a variable of its own: results of which others are made keep their
    gradients in forward mode as well."""
    if not isinstance(value, ArrayBase):
        return value
    made = type(value)(value)
    for a in leaf_arrays(made):
        if a._var is not None:
            a._var = lanes.copy(leaf.value(a)).var
    return made


def sync_thread() -> None:
    """Waits for all queued work.

    Raises:
        IndexError: an index in that work was out of bounds.
    """
    runtime.sync()


def flush_thread() -> None:
    """Submits queued work. Work is submitted at once, so that there is nothing to do."""


def thread_count() -> int:
    """The number of threads that kernels run on."""
    return runtime.thread_count()


def set_thread_count(arg: int, /) -> None:
    """Sets the number of threads that kernels run on, from the next launch on."""
    runtime.set_thread_count(arg)


__all__ = [
    "copy", "eval", "flush_thread", "make_opaque", "schedule", "set_thread_count",
    "sync_thread", "thread_count",
]  # fmt: skip

"""Evaluation: scheduling, evaluating, waiting, and copies."""

import weakref
from collections import deque
from typing import Any, TypeVar

from ..ad import memory_rules
from ..array import leaf
from ..array.base import ArrayBase
from ..array.pytree import ROLES, leaf_arrays, map_tree
from ..jit.cpu import runtime
from ..jit.device import Device, devices
from ..jit.ir.node import BUFFER, LITERAL, Node
from ..jit.run import schedule as scheduler

T = TypeVar("T", bound=Any)

# Weak references: nodes that nothing else holds need not be computed.
_scheduled: deque[weakref.ref[Node]] = deque()


def _nodes(args: tuple) -> tuple[list[Node], Device | None]:
    """Nodes of all traced arrays in the arguments, and the device of the last one."""
    if len(args) == 1 and type(args[0]) in (list, tuple):
        (args,) = args
    nodes, last = [], None
    for arg in args:
        if ROLES.get(type(arg)) == "leaf":
            nodes.append(arg._node)
            last = arg
        elif arg is not None:
            for a in _traced((arg,)):
                nodes.append(a._node)
                last = a
    return nodes, None if last is None else last._device


def _traced(args: tuple, opaque: bool = False) -> list[Any]:
    """Returns the one-dimensional arrays in the arguments, to be evaluated or made `opaque`.

    Raises:
        RuntimeError: one of the values exists within kernels only.
    """
    result = []
    for arg in args:
        for a in leaf_arrays(arg):
            if a._kind == "leaf":
                result.append(a)
            else:
                result += [part for part in a._unpacked(opaque) if part._kind == "leaf"]
    return result


def schedule(*args: object) -> bool:
    """Marks the arrays in the arguments (arrays, PyTrees) for the next evaluation, which computes
    all of them together.

    Returns whether any of them has yet to be computed.

    >>> from drjit.llvm import Float
    >>> a = Float(1, 2) + 1
    >>> dr.schedule(a), dr.eval(), dr.schedule(a)
    (True, True, False)
    """
    waiting = False
    for n in _nodes(args)[0]:
        if n.op is not BUFFER and n.op is not LITERAL:
            _scheduled.append(weakref.ref(n))
            waiting = True
    return waiting


def eval(*args: object) -> bool:
    """Evaluates the arrays in the arguments (arrays, PyTrees), all scheduled arrays, and all
    pending side effects.

    Work is queued asynchronously; reading a result waits for it. Constants stay constants. Returns
    whether there was anything to do.

    Raises:
        IndexError: an index was out of bounds in work completed so far.

    >>> from drjit.llvm import Float
    >>> a = Float(1, 2) + 1
    >>> dr.eval(a), dr.eval(a)
    (True, False)
    """
    arg: Any = args[0] if len(args) == 1 else None
    if ROLES.get(type(arg)) == "leaf":
        nodes, device = [arg._node], arg._device
    else:
        nodes, device = _nodes(args)
    return (evaluate if _scheduled else scheduler.evaluate)(nodes, device)


def evaluate(nodes: list[Node], device: Device | None = None) -> bool:
    """Evaluates nodes, vectors as a whole, and everything else that `eval` evaluates."""
    taken = []
    while _scheduled:
        try:
            taken.append(_scheduled.popleft())
        except IndexError:  # another thread was faster
            break
    try:
        if taken:
            nodes += [n for r in taken if (n := r()) is not None]
        return scheduler.evaluate(nodes, device)
    except BaseException:
        _scheduled.extendleft(reversed(taken))
        raise


def make_opaque(*args: object) -> None:
    """Evaluates the arrays in the arguments in place, including constants, which become data and
    are no longer part of programs.

    >>> from drjit.llvm import Float
    >>> a = Float(1)
    >>> dr.make_opaque(a)
    >>> a.state.name
    'Evaluated'
    """
    arrays = _traced(args, opaque=True)
    for a in arrays:
        if a._node.op is LITERAL:
            a._node = scheduler.as_data(a._node, a._device)
    scheduler.evaluate([a._node for a in arrays], arrays[-1]._device if arrays else None)


def copy(arg: T, /) -> T:
    """Returns a copy of a PyTree with new arrays: in-place changes of one do not affect the other.
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
    """Returns a number or array with its own variable, so that results that other results are
    computed from keep their gradients in forward mode as well."""
    if not isinstance(value, ArrayBase):
        return value
    result = type(value)(value)
    for a in leaf_arrays(result):
        if a._var is not None:
            a._var = memory_rules.copy(leaf.value(a)).var
    return result


def sync_thread() -> None:
    """Waits for all queued work.

    Raises:
        IndexError: an index in that work was out of bounds.
    """
    for device in devices():
        device.sync()


def flush_thread() -> None:
    """Submits queued work. Work is submitted immediately, so there is nothing to do."""


def thread_count() -> int:
    """Returns the number of threads that run kernels."""
    return runtime.thread_count()


def set_thread_count(arg: int, /) -> None:
    """Sets the number of threads that run kernels, starting with the next launch."""
    runtime.set_thread_count(arg)

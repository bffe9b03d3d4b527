"""The algebras in which rules compute: on nodes, or on values that are themselves recorded, so that
derivatives can be differentiated again."""

import threading
from collections.abc import Callable
from itertools import repeat
from typing import Any

from ..jit.ir import node, op
from ..jit.ir.dtype import DType
from ..jit.ir.node import LITERAL, Node, combine, make
from ..jit.ir.op import Op
from .graph import Value, Var, as_value, lose, recorder, visible
from .rules import RULES, Algebra

_RECORDERS = {op_: recorder(rule) for op_, rule in RULES.items()}


def _select_recorder(record: Callable[..., Var | None]) -> Callable[..., Var | None]:
    """Adapts the recorder of a select: where the result is an operand itself, no new variable is
    created."""

    def recorded(n: Node, inputs: tuple[Node, ...], deps: tuple[Var | None, ...]) -> Var | None:
        mask, a, b = inputs
        if deps[1] is deps[2]:
            if n is a:
                return visible(deps[1])
        elif mask.op is LITERAL:
            chosen, v = (a, deps[1]) if mask.data else (b, deps[2])
            if n is chosen:
                return visible(v)
        return record(n, inputs, deps)

    return recorded


_RECORDERS[op.select] = _select_recorder(_RECORDERS[op.select])


def element_recorder(op_: Op, dtype: DType) -> tuple[Any, Any]:
    """Returns the rule of an element-wise operation with results of type `dtype`, and the function
    that creates its variables; None if its derivative is 0."""
    return (RULES.get(op_), _RECORDERS.get(op_)) if dtype.is_float else (None, None)


def record(op_: Op, n: Node, inputs: tuple[Node, ...], deps: tuple[Var | None, ...]) -> Var | None:
    """Creates the variable of the value `n` of an element-wise operation. Returns None if it does
    not depend on a differentiable input."""
    recorded = _RECORDERS.get(op_)
    if recorded is None:
        lose("constant", op_.name)
        return None
    return recorded(n, inputs, deps)


class Plain(Algebra):
    """Arithmetic on nodes."""

    def __call__(self, op_: Op, *nodes: Node) -> Node:
        return combine(op_, nodes)

    def mul(self, a: Node, b: Node) -> Node:
        if a is node.CONSTANTS[b.dtype, 1] and b.op is not LITERAL:
            return b  # what `combine` returns, faster: traversals start with such a gradient
        return combine(op.mul, (a, b))

    def number(self, like: Node, value: float) -> Node:
        return node.CONSTANTS[like.dtype, value]


class Recorded(Algebra):
    """Arithmetic on values with variables."""

    def __call__(self, op_: Op, *values: Value) -> Value:
        nodes, deps = zip(*values, strict=True)
        n = combine(op_, nodes)
        return as_value((n, record(op_, n, nodes, deps) if any(deps) else None))

    def number(self, like: Value, value: float) -> Value:
        return Value(node.literal(like.node.dtype, value))


class _State(threading.local):
    keep_graph = False


_state = _State()


def keep_graph() -> bool:
    """Returns whether this thread's current traversal records derivatives of derivatives."""
    return _state.keep_graph


def operands(v: Var) -> list[Value]:
    """Returns the operands of a variable that stores them as its inputs; they are tracked if
    derivatives of derivatives are recorded."""
    deps = v.deps if _state.keep_graph else repeat(None, len(v.deps))
    return [*map(as_value, zip(v.inputs, deps, strict=True))]


def set_keep_graph(on: bool) -> bool:
    """Switches recording during traversals on or off; returns the previous state."""
    before, _state.keep_graph = _state.keep_graph, on
    return before


PLAIN = Plain()
RECORDED = Recorded()


def checked(op_: Op, *values: Value) -> Value:
    """Applies an element-wise operation to values of any element types.

    Raises:
        RuntimeError: operands have incompatible sizes.
        TypeError: the operation does not accept the element type, or operand types differ.
    """
    node.check_types(op_, tuple([v.node for v in values]))
    return RECORDED(op_, *values)


def guard(o: Any, g: Any) -> tuple[Any, Any]:
    """Returns a mask that is true where a gradient is 0, as in masked-out lanes, and that 0. The
    product with a derivative, which may be infinite, is `o.select(*guard(o, g), product)`."""
    zero = o.number(g, 0)
    return o(op.eq, g, zero), zero


class Guards:
    """Like `guard`, for nodes with an entry per lane. The result is created once for consecutive
    operations that pass on the same gradient."""

    __slots__ = ("_gradient", "_guard")

    def __init__(self) -> None:
        self._gradient: Node | None = None
        self._guard: tuple = ()

    def __call__(self, g: Node) -> tuple:
        if g is not self._gradient:
            self._gradient, zero = g, node.CONSTANTS[g.dtype, 0]
            self._guard = make(op.eq, g.dtype.mask_type, g.size, (g, zero)), zero
        return self._guard

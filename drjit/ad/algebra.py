"""The algebras in which rules compute: on nodes, or on values that are themselves recorded, so that
derivatives can be differentiated again."""

import threading
from collections.abc import Callable
from itertools import repeat
from typing import Any

from ..jit.ir import node, op
from ..jit.ir.dtype import DType
from ..jit.ir.node import LITERAL, Node, combine, make, next_serial
from ..jit.ir.op import Op
from .graph import Value, Var, as_value, recorder, visible
from .rules import RULES

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
    return None if recorded is None else recorded(n, inputs, deps)


def _fast(op_: Op) -> Any:
    multiplies = op_ is op.mul

    def compute(a: Node, b: Node) -> Node:
        size, dtype = a.size, a.dtype
        if a.op is LITERAL or size != b.size or b.op is LITERAL or dtype.is_vector:
            if multiplies and a.op is LITERAL and a.data == 1 and size == 1 and b.op is not LITERAL:
                return b  # the gradient where a traversal starts
            return combine(op_, (a, b))
        n = Node()
        n.op = op_
        n.dtype = dtype
        n.size = size
        n.deps = (a, b)
        n.data = n.mark = None
        n.serial = next_serial()
        return n

    return staticmethod(compute)


_SELECT, _NEG, _EQ = op.select, op.neg, op.eq


class Plain:
    """Arithmetic on nodes: `o(op.sin, x)`, and names for the operations most used in rules."""

    add, sub, mul, div = _fast(op.add), _fast(op.sub), _fast(op.mul), _fast(op.div)

    @staticmethod
    def __call__(op_: Op, a: Node, *rest: Node) -> Node:
        if rest or a.op is LITERAL or op_.involution or a.dtype.is_vector:
            return combine(op_, (a, *rest))
        n = Node()
        n.op = op_
        n.dtype = a.dtype
        n.size = a.size
        n.deps = (a,)
        n.data = n.mark = None
        n.serial = next_serial()
        return n

    @staticmethod
    def neg(a: Node) -> Node:
        if a.op is LITERAL or a.op is _NEG or a.dtype.is_vector:
            return combine(_NEG, (a,))
        return make(_NEG, a.dtype, a.size, (a,))

    @staticmethod
    def select(m: Node, a: Node, b: Node) -> Node:
        size = m.size
        if (
            m.op is LITERAL
            or a is b
            or (a.size != size and a.size != 1)
            or (b.size != size and b.size != 1)
            or m.dtype.is_vector
        ):
            return combine(_SELECT, (m, a, b))
        n = Node()
        n.op = _SELECT
        n.dtype = a.dtype
        n.size = size
        n.deps = (m, a, b)
        n.data = n.mark = None
        n.serial = next_serial()
        return n

    @staticmethod
    def number(like: Node, value: float) -> Node:
        """Returns a constant of the element type of `like`."""
        return node.CONSTANTS[like.dtype, value]


def _named(op_: Op) -> Callable[..., Value]:
    def compute(self: Any, *values: Value) -> Value:
        return self(op_, *values)

    return compute


class Tracked:
    """Arithmetic on values with variables."""

    def __call__(self, op_: Op, *values: Value) -> Value:
        nodes, deps = zip(*values, strict=True)
        n = combine(op_, nodes)
        return as_value((n, record(op_, n, nodes, deps) if any(deps) else None))

    add, sub, mul, div = _named(op.add), _named(op.sub), _named(op.mul), _named(op.div)
    neg, select = _named(op.neg), _named(op.select)

    @staticmethod
    def number(like: Value, value: float) -> Value:
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
RECORDED = Tracked()


def checked(op_: Op, *values: Value) -> Value:
    """Applies an element-wise operation to values of any element types.

    Raises:
        RuntimeError: operands have incompatible sizes.
        TypeError: the operation does not accept the element type, or operand types differ.
    """
    node.check_types(op_, tuple([v.node for v in values]))
    return RECORDED(op_, *values)


def guard(o: Any, g: Any) -> tuple[Any, Any]:
    """Returns a mask of where a gradient is 0, as in masked-out lanes, and the 0 that is the
    product there with a derivative, which may be infinite: `o.select(*guard(o, g), product)`."""
    zero = o.number(g, 0)
    return o(op.eq, g, zero), zero


class Guards:
    """The same on nodes, created once for consecutive operations that pass on the same gradient.
    Gradients that are constants other than 0 need no guard."""

    __slots__ = ("_found", "_gradient")

    def __init__(self) -> None:
        self._gradient: Node | None = None
        self._found: tuple = ()

    def __call__(self, g: Node) -> tuple:
        if g is not self._gradient:
            self._gradient = g
            if g.op is LITERAL or g.dtype.is_vector:
                self._found = () if g.op is LITERAL and g.data else guard(PLAIN, g)
            else:
                zero = node.CONSTANTS[g.dtype, 0]
                self._found = make(_EQ, g.dtype.mask_type, g.size, (g, zero)), zero
        return self._found

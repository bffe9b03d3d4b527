"""Traversals of the graph of derivatives: tangents from inputs to results, gradients from results to inputs.

`enqueue` collects the variables that a traversal will visit, `traverse` visits them in the order of creation, or the opposite one, so that the order in
which gradients are added up never changes. Visited edges are freed on the way unless the flags say otherwise.
"""

import enum
from typing import Any

from ..jit import access, node, op
from ..jit.access import Target
from ..jit.node import LITERAL, Node
from . import lanes
from .algebra import PLAIN, RECORDED, set_keep_graph
from .graph import Value, Var, living, scopes


class ADMode(enum.Enum):
    """Direction of a traversal."""

    Primal = 0
    Forward = 1
    Backward = 2


class ADFlag(enum.IntEnum):
    """What a traversal clears, and whether it may do nothing."""

    ClearNone = 0
    ClearEdges = 1
    ClearInput = 2
    ClearInterior = 4
    ClearVertices = 6
    AllowNoGrad = 8
    Default = 7
    # Beyond the reference: gradients stay part of the graph and can be differentiated again.
    KeepGraph = 16


_queue: dict[Var, None] = {}


def enqueue(mode: ADMode, seeds: list[Var]) -> None:
    """Adds the variables that a traversal from `seeds` visits: those that depend on them, or those that they depend on."""
    first = scopes[-1].isolate_from if scopes else 0
    if mode is ADMode.Forward:
        reached = {v for v in seeds if v.serial >= first}
        _queue.update(dict.fromkeys(reached))
        if not reached:
            return
        start = min(v.serial for v in reached)
        for v in living():
            if v.serial > start and v not in reached and not reached.isdisjoint(v.deps):
                reached.add(v)
                _queue[v] = None
        return
    stack = [v for v in seeds if v.serial >= first]
    seen = set(stack)
    while stack:
        v = stack.pop()
        _queue[v] = None
        for d in v.deps:
            if d is not None and d not in seen:
                seen.add(d)
                if d.serial >= first:
                    stack.append(d)


def pending() -> bool:
    """Whether anything is enqueued."""
    return bool(_queue)


def traverse(mode: ADMode, flags: int = ADFlag.Default) -> None:
    """Visits everything that is enqueued."""
    variables = sorted(_queue, key=_serial)
    _queue.clear()
    if not variables:
        return
    keep = bool(flags & ADFlag.KeepGraph)
    if keep:
        flags = flags & ~ADFlag.ClearEdges
    before = set_keep_graph(keep)
    try:
        if mode is ADMode.Backward:
            _backward(variables, flags, Give(keep))
        else:
            _forward(variables, flags, Give(keep))
    finally:
        set_keep_graph(before)


def _serial(v: Var) -> int:
    return v.serial


def _backward(variables: list[Var], flags: int, give: "Give") -> None:
    reached = {d for v in variables for d in v.deps if d is not None}
    while variables:
        v = variables.pop()
        rule = v.rule
        if rule is None:
            continue
        if v.grad is not None or not rule.elementwise:
            _give(v, rule, give)
        if flags & (ADFlag.ClearInterior if v in reached else ADFlag.ClearInput):
            v.grad = v.grad_var = None
        if flags & ADFlag.ClearEdges:
            _cut(v)


def _give(v: Var, rule: Any, give: "Give") -> None:
    """Passes the gradient of a variable on to those that it depends on."""
    give.var = v
    if not rule.elementwise:
        if v.grad is not None or rule.always:
            rule.backward(v, None if v.grad is None else Value(v.grad, v.grad_var), give)
        return
    g, y, inputs, o = give.operands(v, v.grad, v.grad_var)
    guard = rule.guarded and v.grad is not None and v.grad.op is not LITERAL
    for d, partial in zip(v.deps, rule.partials, strict=True):
        if d is not None and partial is not None:
            c = partial(o, g, y, *inputs)
            give.accumulate(d, _guarded(o, g, c) if guard else c)


def _guarded(o: Any, g: Any, c: Any) -> Any:
    """The product of a gradient with a derivative that may be infinite: 0 where the gradient is, as in lanes that were masked out."""
    zero = o.number(g, 0)
    return o.select(o(op.eq, g, zero), zero, c)


def _cut(v: Var) -> None:
    v.deps, v.inputs, v.result, v.rule = (), (), None, None
    v.data = None


def _forward(variables: list[Var], flags: int, give: "Give") -> None:
    members = set(variables)
    sources = {d for v in variables for d in v.deps if d is not None and d in members}
    for v in variables:
        rule = v.rule
        if rule is None:
            continue
        give.var = v
        if not rule.elementwise:
            tangents = [
                None if d is None or d.grad is None else Value(d.grad, d.grad_var) for d in v.deps
            ]
            if any(t is not None for t in tangents) or rule.always:
                t = rule.forward(v, tangents)
                if t is not None:
                    give.accumulate(v, t if give.keep else t.node)
            continue
        for d, partial in zip(v.deps, rule.partials, strict=True):
            if d is None or d.grad is None or partial is None:
                continue
            t, y, inputs, o = give.operands(v, d.grad, d.grad_var)
            c = partial(o, t, y, *inputs)
            guard = rule.guarded and d.grad.op is not LITERAL
            give.accumulate(v, _guarded(o, t, c) if guard else c)
    for v in variables:
        if v in sources:
            entered = any(d in members for d in v.deps)
            if flags & (ADFlag.ClearInterior if entered else ADFlag.ClearInput):
                v.grad = v.grad_var = None
    if flags & ADFlag.ClearEdges:
        for v in variables:
            _cut(v)


class Give:
    """Where a traversal puts gradients: on nodes, or on recorded values if the graph is kept."""

    __slots__ = ("keep", "var")

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.var: Any = None

    def operands(self, v: Var, grad: Node | None, grad_var: Var | None) -> tuple[Any, Any, Any, Any]:
        """The gradient, result and inputs of a variable in the algebra of this traversal, and the algebra."""
        if not self.keep:
            return grad, v.result, v.inputs, PLAIN
        inputs = [Value(n, d) for n, d in zip(v.inputs, v.deps, strict=False)]
        result = None if v.result is None else Value(v.result, v)
        return Value(grad, grad_var), result, inputs, RECORDED  # type: ignore[arg-type]

    def add(self, i: int, value: Value) -> None:
        """Adds to the gradient of operand `i` of the current variable."""
        d = self.var.deps[i]
        if d is not None:
            self.accumulate(d, value if self.keep else value.node)

    def accumulate(self, v: Var, c: Any) -> None:
        """Adds a contribution to a gradient: summed over lanes if the variable has one entry, as that was broadcast."""
        if not self.keep:
            if c.size != v.size and v.size == 1:
                c = access.reduce_all("add", c)
            v.grad = c if v.grad is None else PLAIN.add(v.grad, c)
        else:
            if c.node.size != v.size and v.size == 1:
                c = lanes.reduce("add", c)
            if v.grad is not None:
                c = RECORDED.add(Value(v.grad, v.grad_var), c)
            v.grad, v.grad_var = c
        if scopes and v.serial < scopes[-1].isolate_from:
            scopes[-1].postponed.append(v)

    def scatter_add(self, i: int, value: Value, index: Node, mask: Node) -> None:
        """Adds entries to the gradient of operand `i`, in place where nobody else holds it."""
        d = self.var.deps[i]
        if d is None:
            return
        if self.keep:
            zero = Value(node.literal(d.dtype, 0, d.size))
            target = zero if d.grad is None else lanes.full(Value(d.grad, d.grad_var), d.size)
            d.grad, d.grad_var = lanes.scatter("add", target, value, index, mask)
            return
        held = [node.literal(d.dtype, 0, d.size) if d.grad is None else node.resize(d.grad, d.size)]
        d.grad = None
        target = Target(held.pop())
        lanes_ = max(value.node.size, index.size, mask.size)
        mode = access.reduce_mode(op.ReduceMode.Auto, target, lanes_)
        after = access.scatter(
            op.scatter_reduce, target, [value.node], index, mask, "gradient of dr.gather", "add", mode
        )
        d.grad = node.literal(d.dtype, 0) if after is None else after

"""Where the gradients of a traversal arrive: what is added to the gradient of a variable, also if
that has one entry, or belongs to a body that is being recorded.
"""

from collections.abc import Callable, Set
from typing import Any

from ..jit import flags as jit_flags
from ..jit.flags import JitFlag
from ..jit.ir.node import LITERAL, SPLAT, Node, literal
from ..jit.ir.scope import ACTIVE, active, recording, region
from ..jit.lazy import np
from ..jit.run import launch, schedule
from ..jit.trace import access
from . import memory_rules
from .algebra import PLAIN, RECORDED, Guards, guard
from .graph import (
    ADFlag,
    Value,
    Var,
    as_value,
    location_note,
    scatter_gradient,
    scope,
    scopes,
    title,
)
from .rules import pass_through

# Numbers, because members of an enumeration are slow to access.
_CLEAR_INPUT, _CLEAR_INTERIOR = int(ADFlag.ClearInput), int(ADFlag.ClearInterior)
_DEBUG, _TRAPS = int(JitFlag.Debug), int(JitFlag.TrapNaN | JitFlag.TrapInf)


class GradientSink:
    """Accumulates the gradients of a traversal: as nodes, or as recorded values if the graph is
    kept.

    `masked` are variables whose gradient may be 0 in some lanes because an operation passes nothing
    on there, so products must be guarded against turning it into NaN.

    A reverse traversal `clears` all gradients behind it, or those that `flags` say: of variables
    among the `interior`, or of others. The edges of those `kept` stay in any case.
    """

    clears: bool
    flags: int
    observed = False
    interior: Set[Var]

    def __init__(self, keep: bool, members: set[Var] | None) -> None:
        self.keep, self.members = keep, members
        inner = scope() if scopes else None
        first = self.first = 0 if inner is None else inner.isolate_from
        self.inner = inner if first else None
        self.var: Any = None
        self.masked: set[Var] = set()
        self.kept: set[Var] = set()
        self.masking = False
        self.recording = recording()
        now = jit_flags.current
        self.trap = bool(now & _DEBUG and now & _TRAPS)
        outer: Any = self.inner.outer_gradients if self.inner and self.recording else None
        self.outer = outer
        # Contributions are nodes that are only added up.
        self.plain = not (keep or self.trap or (outer and outer.atomic))

    def begin(self, variables: list[Var]) -> None:
        """Prepares a traversal within a body: gradients of inputs of a body being recorded are
        handed over, and those of code that is restricted to some lanes count in these lanes
        only."""
        if self.recording:
            outer: Any = self.outer
            for v in variables if outer and outer.aliases else ():
                if v in outer.aliases:
                    outer.share(v)
        elif active() is not ACTIVE:
            for v in variables:
                if v.grad is not None and v.rule not in (None, memory_rules.SCATTER):
                    g = Value(v.grad, v.grad_var)
                    v.grad, v.grad_var = restricted = in_active_lanes(v, g)
                    if restricted is not g:
                        self.masked.add(v)

    def visit(self, v: Var, rule: Any) -> None:
        """Passes the gradient of a variable on, and clears it: the general case."""
        g = v.grad
        self.var = v
        if rule.elementwise:
            if g is not None:
                self._pass_on(v, rule)
        elif g is not None or rule.always:
            self.masking = rule.masks or v in self.masked
            given = None if g is None else as_value((g, v.grad_var))
            if v.size == 1 and not (rule.lanewise or self.recording or given is None):
                given = _total(given, 1)
            rule.backward(v, given, self)
            self.masking = False
        self.clear(v, rule)

    def clear(self, v: Var, rule: Any) -> None:
        """Clears the gradient of a visited variable if the flags say so."""
        if not self.clears:
            which = _CLEAR_INTERIOR if v in self.interior else _CLEAR_INPUT
            if v.serial < self.first or not self.flags & which:
                return
        if rule.keeps_gradient:
            rule.defer_clearing(v)
        else:
            v.grad = v.grad_var = None

    def observe(self, look: Callable[[Var], None]) -> None:
        """Has a function look at each variable before its gradient is cleared."""
        clear, self.observed = self.clear, True

        def look_and_clear(v: Var, rule: Any) -> None:
            look(v)
            clear(v, rule)

        self.clear = look_and_clear  # type: ignore[method-assign]

    def takes(self, v: Var) -> bool:
        """Returns whether the traversal visits a variable."""
        return self.members is None or v in self.members

    def _pass_on(self, v: Var, rule: Any) -> None:
        """Passes the gradient of an element-wise operation's result on to its operands."""
        self.masking = rule.masks or v in self.masked
        guarded = rule.guarded or (self.masking and rule.product)
        for i, d in enumerate(v.deps):
            if d is not None and rule.partials[i] is not None and self.takes(d):
                self.accumulate(d, self._product(v, i, v.grad, v.grad_var, guarded), v.size)
        self.masking = False

    def push(self, v: Var, i: int) -> None:
        """Adds to the tangent of an element-wise operation's result what comes from an operand."""
        d, rule = v.deps[i], v.rule
        if rule.partials[i] is not None:
            c = self._product(v, i, d.grad, d.grad_var, rule.guarded)
            if self.plain and (self.recording or v.size != 1):
                v.grad = c if v.grad is None else PLAIN.add(v.grad, c)
            else:
                self.accumulate(v, c, 1)

    def _product(self, v: Var, i: int, g: Any, grad_var: Var | None, guarded: bool) -> Any:
        """Returns the product of a gradient with the derivative for operand `i`, in the algebra of
        this traversal."""
        y, inputs, o = v.result, v.inputs, PLAIN
        if self.keep:
            inputs = [Value(n, d) for n, d in zip(v.inputs, v.deps, strict=False)]
            y, g, o = None if y is None else Value(y, v), Value(g, grad_var), RECORDED
        partial = v.rule.partials[i]
        c = partial(o, g, y, *inputs)
        return o.select(*guard(o, g), c) if guarded and partial is not pass_through else c

    def add(self, i: int, value: Value, lanes: int = 1) -> None:
        """Adds to the gradient of operand `i` of the current variable."""
        d = self.var.deps[i]
        if d is not None and self.takes(d):
            self.accumulate(d, value if self.keep else value.node, lanes)

    def accumulate(self, v: Var, c: Any, lanes: int) -> None:
        """Adds a contribution, which represents a number of lanes, to a gradient. It is summed if
        the variable has one entry, which was broadcast. In code that runs for several lanes, it
        counts for the lane that executes it; the sum is computed where it leaves that code."""
        if self.masking:
            self.masked.add(v)
        if self.trap:
            self._check(c.node if self.keep else c)
        if self.outer is not None and self.outer.takes(v):
            self.outer.add(v, c.node if self.keep else c)
            return
        if v.size == 1:
            total = summed_contribution(v, c if self.keep else as_value((c, None)), lanes)
            c = total if self.keep else total.node
        if not self.keep:
            v.grad = c if v.grad is None else PLAIN.add(v.grad, c)
        else:
            before = None if v.grad is None else Value(v.grad, v.grad_var)
            v.grad, v.grad_var = c if before is None else RECORDED.add(before, c)

    def mark(self, v: Var) -> None:
        """Notes a contribution to the gradient of a variable from an operation that masks lanes."""
        if self.masking:
            self.masked.add(v)

    def target(self, i: int) -> Var | None:
        """Returns the variable whose gradient receives the side effects for operand `i`."""
        d = self.var.deps[i]
        if d is None or not self.takes(d):
            return None
        self.mark(d)
        return d if self.outer is None else self.outer[d]

    def scatter_add(self, i: int, values: list[Value], at: access.Access) -> None:
        """Adds records of values to the gradient of operand `i`, in place if nothing else holds
        it."""
        for value in values if self.trap else ():
            self._check(value.node)
        d = self.target(i)
        if d is None:
            return
        nodes = [v.node for v in values]
        if self.keep:
            if access.is_idle(nodes, at, d.size):
                return
            for value, one in zip(values, at.entries(d.size), strict=True):
                d.grad, d.grad_var = memory_rules.scatter(
                    memory_rules.broadcast_gradient(d), value, one
                )
            return
        scatter_gradient(d, nodes, at)

    def _check(self, contribution: Node) -> None:
        """Evaluates a contribution to a gradient, computed by the rule of the current variable.

        Raises:
            FloatingPointError: it contains a NaN or an infinity, and the corresponding trap is set.
        """
        v, before = self.var, jit_flags.current
        if v is None or v.rule is None:
            return
        jit_flags.current &= ~_TRAPS  # of the kernels, which know less about the origin
        try:
            values = _entries(contribution)
        finally:
            jit_flags.current = before
        for bit, test, what in (
            (JitFlag.TrapNaN, np.isnan, "nan"),
            (JitFlag.TrapInf, np.isinf, "inf"),
        ):
            bad = test(values) if before & bit else np.zeros(1, bool)
            if bad.any():
                lane = int(np.argmax(bad))
                raise FloatingPointError(
                    f"the derivative of '{title(v)}'{location_note(v)} is {what} in lane {lane}"
                )


def _entries(n: Node) -> np.ndarray:
    if n.op is LITERAL:
        return np.full(1, n.data, n.dtype.numpy)
    if n.dtype.is_vector:
        from ..jit.trace.feature_vectors import feature  # most programs have no vectors

        features = [feature(n, k) for k in range(n.dtype.count)]
        return np.maximum.reduce(np.broadcast_arrays(*[np.abs(_entries(f)) for f in features]))
    schedule.evaluate([n])
    return launch.to_numpy(n.dtype, n.size, n.data)


def in_active_lanes(v: Var, g: Value) -> Value:
    """Returns a gradient that is 0 in the lanes that do not execute the current code; the same one
    if the variable is an array that does not have those lanes."""
    mask = active()
    if len({g.node.size, v.size, mask.size} - {1}) > 1:
        return g
    return RECORDED.select(Value(mask), g, Value(literal(v.dtype, 0)))


def lane_sum(a: Value) -> Value:
    """Returns the sum over all lanes, also of vectors."""
    if a.node.dtype.is_vector:
        from .vector import sum_lanes  # most programs have no vectors

        return sum_lanes(a)
    return memory_rules.reduce("add", a)


def summed_contribution(v: Var, c: Value, lanes: int = 1) -> Value:
    """Returns what a contribution, which represents a number of lanes, adds to the gradient of a
    variable of one entry: the sum over the lanes, unless the variable stands for a value in each of
    the lanes that execute the current code, or the code around it. Then it also has a gradient in
    each of them."""
    if recording():
        return c
    code, serial = region(), v.serial
    if code is None or v.rule is memory_rules.SCATTER:  # what has been written is there only once
        return _total(c, lanes)
    if serial >= code.begin:
        return c
    while (around := code.around) is not None:
        if code.index is not None:
            count, size = code.index.size, code.size
            if count != size and c.node.size in (1, count):
                at = access.Access(code.index, what="gradient", inside=True)
                zero = Value(literal(v.dtype, 0, size))
                c = memory_rules.scatter(zero, memory_rules.broadcast_to(c, count), at)
        if serial >= around.begin:
            return c
        code = around
    return _total(c, lanes)


def _total(c: Value, lanes: int) -> Value:
    """Returns the sum of a contribution over its lanes, or the multiple of a contribution that
    represents several lanes."""
    if c.node.size != 1:
        return lane_sum(c)
    return c if lanes == 1 else RECORDED.mul(c, RECORDED.number(c, lanes))


def sweep(variables: list[Var], sink: Any) -> None:
    """Visits variables, last one first, like `GradientSink.visit`, but without calls where
    gradients are full."""
    masked, general, clears, v = sink.masked, sink.visit, sink.clears, None
    guard = Guards()
    try:
        for v in reversed(variables):
            rule, g, size = v.rule, v.grad, v.size
            if rule is None:
                continue
            if g is None or g.size != size or (o := g.op) is LITERAL or o is SPLAT:
                general(v, rule)
                continue
            if (run := rule.direct) is not None:
                run(v, g, sink, guard, True if masked and v in masked else rule.masks)
            elif rule.elementwise or rule.keeps_gradient:
                general(v, rule)
                continue
            else:
                sink.var = v
                sink.masking = rule.masks or v in masked
                rule.backward(v, as_value((g, v.grad_var)), sink)
                sink.masking = False
            if clears:
                v.grad = v.grad_var = None
            else:
                sink.clear(v, rule)
    except BaseException:
        sink.var = v
        raise

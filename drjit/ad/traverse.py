"""Traversals of the derivative graph: tangents propagate from inputs to results, gradients from
results to inputs.

`enqueue` collects the variables to be visited; `traverse` visits them in order of creation, or in
the opposite order, so that gradients are always accumulated in the same order. Unless the flags say
otherwise, edges are freed at the end: a traversal that fails can be repeated.
"""

import enum
import threading
from collections.abc import Iterable, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import Any

from ..jit import collector, locks
from ..jit import flags as jit_flags
from ..jit.device import Device, current, using
from ..jit.enumeration import Named
from ..jit.flags import JitFlag
from ..jit.ir import node, op
from ..jit.ir.node import LITERAL, Node
from ..jit.ir.scope import ACTIVE, active, recording
from ..jit.ir.scope import region as lane_region
from ..jit.locks import catch_up, due, is_held, lock
from ..jit.native import functions as native
from ..jit.trace import access
from ..jit.trace.access import Access
from . import (
    completion,
    generated,
    lanes,
    steps,
)
from .algebra import PLAIN, RECORDED, Guards, guard, keep_graph, set_keep_graph
from .graph import (
    OUTSIDE,
    GradScope,
    Value,
    Var,
    as_value,
    living,
    scatter_gradient,
    scope,
    scopes,
    title,
    where,
)
from .rules import same
from .scatter_target import Propagation


class ADMode(Named, enum.Enum):
    """The direction of a traversal."""

    __hash__ = object.__hash__  # that of enumerations takes a call of a Python function
    Primal = 0
    Forward = 1
    Backward = 2


class ADFlag(Named, enum.IntEnum):
    """What a traversal clears, and whether it may have nothing to do."""

    ClearNone = 0
    ClearEdges = 1
    ClearInput = 2
    ClearInterior = 4
    ClearVertices = 6
    AllowNoGrad = 8
    Default = 7
    # Not in the reference: gradients stay part of the graph and can be differentiated again.
    KeepGraph = 16


# Numbers, because members of an enumeration are slow to access.
_CLEAR_EDGES, _CLEAR_INPUT = int(ADFlag.ClearEdges), int(ADFlag.ClearInput)
_CLEAR_INTERIOR, _CLEAR_VERTICES = int(ADFlag.ClearInterior), int(ADFlag.ClearVertices)
_KEEP_GRAPH, _DEBUG = int(ADFlag.KeepGraph), int(JitFlag.Debug)
_TRAPS = int(JitFlag.TrapNaN | JitFlag.TrapInf)


class _Queue:
    """A thread's queue: variables, whether each was created before the one ahead of it, the
    directions in which they were collected, the device on which the first ones are, variables
    from before the boundary of a scope that were reached along edges, and the traversals of what
    a body has written. Variables in it have its `mark`."""

    __slots__ = ("device", "mark", "modes", "outside", "sorted", "variables", "written")

    def __init__(self) -> None:
        self.variables: list[Var] = []
        self.sorted = False
        self.mark = object()
        self.modes: set[ADMode] = set()
        self.device: Device | None = None
        self.outside: dict[Var, None] = {}
        self.written: list[Propagation] = []

    def add(self, found: Iterable[Var]) -> None:
        """Adds variables that it does not have yet."""
        for v in found:
            if v.mark is not self.mark:
                v.mark = self.mark
                self.variables.append(v)


class _Thread(threading.local):
    """The queue of a thread, and whether its current traversal frees the edges that it visits."""

    def __init__(self) -> None:
        self.queue = _Queue()
        self.frees = False


_thread = _Thread()
_serial = attrgetter("serial")
_NEVER = 1 << 64
_NONE: frozenset[Var] = frozenset()


def enqueue(mode: ADMode, seeds: list[Var], since: int = 0, device: Device | None = None) -> None:
    """Adds the variables that a traversal from `seeds` visits: those that depend on them, with
    serial numbers from `since` on, or those that they depend on. `device` is where they are, and
    constants for their derivatives should be.

    A variable that other threads have marked meanwhile may be there twice, as an input, or what
    lasts: their gradients are passed on by the first visit.
    """
    queue = _thread.queue
    if queue.device is None:
        queue.device = device
    queue.modes.add(mode)
    inner = scope() if scopes else None
    first = 0 if inner is None else inner.isolate_from
    if mode is ADMode.Forward:
        queue.sorted = False
        reached = set(seeds)
        queue.add(seeds)
        start = max(min((v.serial for v in reached), default=0), since - 1)
        for v in living() if reached else ():
            if v.serial > start and not reached.isdisjoint(v.deps):
                reached.add(v)
                queue.add((v,))
                if v.serial < first:
                    queue.outside[v] = None
        return
    if first:
        queue.outside.update(dict.fromkeys([v for v in seeds if v.serial < first]))
        seeds = [v for v in seeds if v.serial >= first]
        if inner is not None and inner.outer_gradients and inner.outer_gradients.written:
            written = Propagation(seeds)
            queue.written.append(written)
            seeds += written.scatters
    before, mark = queue.variables, queue.mark
    queue.variables = found = []
    queue.add(seeds)
    alone = not before and len(found) == 1
    try:
        if first:
            in_order = _collect(found, mark, first, queue.outside)
        else:
            in_order = (native.collect_variables or _collect)(found, mark)
    except BaseException:  # such as an interrupt: what was reached has the mark
        queue.variables, queue.mark, queue.sorted = [], object(), False
        queue.add(before)
        raise
    queue.sorted = alone and in_order
    if before:
        queue.variables = before + found


def _collect(
    found: list[Var], mark: object, first: int = 0, outside: dict[Var, None] | None = None
) -> bool:
    """Appends the variables that those in a list depend on, unless they have the mark, which they
    get; those from before the serial number `first` are added to `outside`. Returns whether each
    is older than the one before."""
    in_order, last = True, found[0].serial if found else 0
    for v in found:  # the list grows during iteration
        for d in v.deps:
            if d is not None and d.mark is not mark:
                serial = d.serial
                if serial < first and outside is not None:
                    outside[d] = None
                    continue
                d.mark = mark
                found.append(d)
                if serial > last:
                    in_order = False
                last = serial
    return in_order


def _cut_all(variables: list[Var]) -> None:
    """Frees the edges of variables."""
    for v in variables:
        v.deps = v.inputs = ()
        v.result = v.rule = v.data = None


def traverse(
    mode: ADMode, flags: int = ADFlag.Default, seeds: Sequence[Var] = (), anew: bool = False
) -> None:
    """Visits all enqueued variables. The gradients of `seeds` are set to 1 before, if that is to be
    done `anew`, or if there are none.

    Raises:
        FloatingPointError: a trap is set, and a derivative is not finite.
        RuntimeError: tangents would have to pass through computations from before an isolating
            scope.
    """
    queue, _thread.queue = _thread.queue, _Queue()
    variables = queue.variables
    variables.reverse()  # almost in order then
    if not queue.sorted:
        variables.sort(key=_serial)
    if not variables and not queue.outside:
        return
    with lock:  # variables may be those of other threads as well
        before = locks.traversals
        try:
            locks.traversals = before + 1
            if seeds:
                _start(seeds, anew)
            for written in queue.written:
                written.begin()
            if queue.device is None or queue.device is current():
                _traverse(mode, flags, variables, queue.modes, queue.outside)
            else:
                with using(queue.device):
                    _traverse(mode, flags, variables, queue.modes, queue.outside)
        except BaseException:
            if not is_held():  # an interrupt where it was given up
                lock.acquire()
            raise
        finally:
            locks.traversals = before
            for written in queue.written:
                written.end(bool(flags & _CLEAR_INPUT))
    if due:
        catch_up()


def _start(seeds: Sequence[Var], anew: bool) -> None:
    if anew or not any(_has_gradient(v) for v in seeds):
        inner = scope() or OUTSIDE
        arguments = inner.arguments
        for v in seeds:
            if not (v in arguments and v in inner.postponed):  # by what other lanes execute
                v.grad = v.grad_var = None
        for v in seeds:  # a variable may occur several times
            one = node.CONSTANTS[v.dtype, 1]
            if v in arguments:
                one = node.apply(op.select, active(), one, node.literal(v.dtype, 0))
                if v.size == 1:
                    one = arriving(v, Value(one)).node
            v.grad = one if v.grad is None else PLAIN.add(v.grad, one)


def _has_gradient(v: Var) -> bool:
    """Returns whether a gradient other than a constant 0 has been set for a variable."""
    return v.grad is not None and not (v.grad.op is LITERAL and not v.grad.data)


def _traverse(
    mode: ADMode, flags: int, variables: list[Var], modes: set[ADMode], outside: dict[Var, None]
) -> None:
    keep = bool(flags & _KEEP_GRAPH)
    if keep:
        flags = flags & ~_CLEAR_EDGES
    members = None if len(modes) == 1 and mode in modes else set(variables)
    sink = GradientSink(keep, members)
    first = sink.first
    if mode is ADMode.Forward:
        _check_outside(outside)
    if first:
        outside.update(dict.fromkeys([v for v in variables if v.serial < first]))
    before, frees = keep_graph(), _thread.frees
    if before is not keep:
        set_keep_graph(keep)
    _thread.frees = bool(flags & _CLEAR_EDGES) and members is None
    collector.defer()
    try:
        if mode is ADMode.Backward:
            if first:
                variables = [v for v in variables if v.serial >= first]
                sink.begin(variables)
            clears = flags & _CLEAR_VERTICES
            interior = _used() if clears not in (0, _CLEAR_VERTICES) else _NONE
            for part in completion.parts(variables, keep, not first and members is None):
                _backward(part, flags, interior, sink)
            if sink.inner is not None:
                _postpone(sink.inner, outside, members)
            if flags & _CLEAR_EDGES:
                kept = sink.kept
                _cut([v for v in variables if v not in kept] if kept else variables, members)
        else:
            _forward([*outside, *[v for v in variables if v.serial >= first]], flags, sink)
    except BaseException as error:
        _fail(error, variables, sink)
        last = sink.var if mode is ADMode.Backward else None
        for v in variables:
            # The variables visited by a reverse traversal keep what the flags do not clear.
            if v.rule is not None and (last is None or v.serial <= last.serial):
                v.grad = v.grad_var = None
        raise
    finally:
        if before is not keep:
            set_keep_graph(before)
        _thread.frees = frees


def frees() -> bool:
    """Returns whether the variables visited by the current traversal are no longer needed."""
    return _thread.frees


def visit(mode: ADMode, variables: list[Var], keep: bool = False) -> None:
    """Visits the variables of a recorded body, given in order, without clearing anything. To `keep`
    the graph is to record what this computes."""
    sink = GradientSink(keep, None)
    before = set_keep_graph(keep)
    try:
        if mode is ADMode.Backward:
            _backward(variables, 0, _NONE, sink)
        else:
            _forward(variables, 0, sink)
    except BaseException as error:
        _fail(error, variables, sink)
        raise
    finally:
        set_keep_graph(before)


def _fail(error: BaseException, variables: list[Var], sink: "GradientSink") -> None:
    """Adds the differentiated operation to an error, and discards data that pending operations had
    received from others."""
    v = sink.var
    if v is not None and v.rule is not None:
        error.add_note(f"This was the derivative of '{title(v)}'{where(v)}.")
    for v in variables:
        if v.rule is not None and v.rule.always:
            v.rule.reset(v)


def _check_outside(outside: dict[Var, None]) -> None:
    """Raises if tangents would have to pass through variables from before an isolating scope."""
    for v in outside:
        if v.rule is not None:
            raise RuntimeError(
                f"a tangent was to be propagated to the result of '{title(v)}'{where(v)}, which "
                "lies outside of the current dr.isolate_grad() scope, or of the body of a symbolic "
                "loop, branch or call. Propagate it before that begins."
            )


def _postpone(inner: GradScope, outside: dict[Var, None], members: set[Var] | None) -> None:
    """Records the variables from which a traversal must be continued outside a scope."""
    inner.device, outer = current(), inner.outer_gradients
    begin = inner.isolate_from if outer and outer.atomic else _NEVER
    for v in outside:
        if (g := v.grad) is None:
            continue
        if g.serial >= begin and g.op is not LITERAL:  # a value of the body that is recorded
            v.grad = v.grad_var = None
            outer.add(v, g)
        elif members is None:
            inner.postponed[v] = None
        elif not members.isdisjoint(v.deps):
            inner.postponed.setdefault(v, members)


def _backward(variables: list[Var], flags: int, interior: Set[Var], sink: "GradientSink") -> None:
    """Visits variables, last one first; the `interior` ones have dependents."""
    sink.flags, sink.interior = flags & _CLEAR_VERTICES, interior
    sink.clears = sink.flags == _CLEAR_VERTICES and not sink.first and not sink.keep
    if sink.plain and sink.members is None:
        generated.sweep()(variables, sink, Guards())
        return
    for v in reversed(variables):
        if v.rule is not None:
            sink.visit(v, v.rule)


def _used() -> set[Var]:
    """Returns the variables that others depend on."""
    return {d for v in living() for d in v.deps if d is not None}


def _partials(v: Var, rule: Any, sink: "GradientSink") -> None:
    """Passes the gradient of an element-wise operation's result on to its operands: the general
    case."""
    masking = sink.masking = rule.masks or v in sink.masked
    guarded = rule.guarded or (masking and rule.product)
    g, y, inputs, o = v.grad, v.result, v.inputs, PLAIN
    if sink.plain and sink.members is None and not masking and not guarded:
        _unguarded(v, rule, g, sink)
        return
    if sink.keep:
        g, y, inputs, o = sink.operands(v, g, v.grad_var)
    zeros = None
    for d, partial in zip(v.deps, rule.partials, strict=True):
        if d is None or partial is None or not (sink.members is None or d in sink.members):
            continue
        if partial is same:
            c = g
        else:
            c = partial(o, g, y, *inputs)
            if guarded:
                zeros = zeros or guard(o, g)
                c = o.select(*zeros, c)
        sink.accumulate(d, c, v.size)
    sink.masking = False


def _unguarded(v: Var, rule: Any, g: Any, sink: "GradientSink") -> None:
    """The same for a gradient that is not 0 in some lanes only, in a traversal of plain nodes."""
    size, y, inputs = v.size, v.result, v.inputs
    for d, partial in zip(v.deps, rule.partials):  # noqa: B905
        if d is None or partial is None:
            continue
        c = g if partial is same else partial(PLAIN, g, y, *inputs)
        if d.size != size or c.size != size:
            sink.accumulate(d, c, size)
        else:
            d.grad = c if d.grad is None else PLAIN.add(d.grad, c)


def _cut(variables: list[Var], members: set[Var] | None) -> None:
    """Frees the edges of variables, or those to the members of a traversal."""
    if members is None:
        (native.cut or _cut_all)(variables)
        return
    for v in variables:
        if any(d is not None and d not in members for d in v.deps):
            v.deps = tuple([None if d in members else d for d in v.deps])
        else:
            v.deps = v.inputs = ()
            v.result = v.rule = v.data = None


def _forward(variables: list[Var], flags: int, sink: "GradientSink") -> None:
    """Visits variables, first one first. This loop runs for every edge."""
    members, first, keep = set(variables), sink.first, sink.keep
    plain, recording, lasting = sink.plain, sink.recording, []
    for v in chain.from_iterable(steps.parts(variables, False, keep)):
        rule = v.rule
        if rule is None or v.serial < first:
            continue
        if not rule.elementwise:
            if rule.lasts:
                lasting.append(v)
            if members.isdisjoint(v.deps):
                continue
            if rule.lasts:  # the tangent of an earlier traversal
                v.grad = v.grad_var = None
            sink.var = v
            tangents = [
                None if d is None or d.grad is None or d not in members
                else Value(d.grad, d.grad_var)
                for d in v.deps
            ]  # fmt: skip
            if any(t is not None for t in tangents) or rule.always:
                t = rule.forward(v, tangents)
                if t is not None:
                    sink.accumulate(v, t if sink.keep else t.node, 1)
            continue
        if plain and rule.tangent is not None and (recording or v.size != 1):
            sink.var = v
            rule.tangent(v, members)
            continue
        for d, partial in zip(v.deps, rule.partials, strict=True):
            if d is None or (g := d.grad) is None or partial is None or d not in members:
                continue
            sink.var = v
            t, y, inputs, o = g, v.result, v.inputs, PLAIN
            if keep:
                t, y, inputs, o = sink.operands(v, g, d.grad_var)
            c = partial(o, t, y, *inputs)
            if rule.guarded and (g.op is not LITERAL or not g.data):
                c = o.select(*guard(o, t), c)
            sink.accumulate(v, c, 1)
    if flags & _CLEAR_VERTICES:
        sources = {d for v in variables for d in v.deps if d is not None and d in members}
    else:
        sources = set()
    for v in variables if sources else ():
        cleared = flags & (_CLEAR_INTERIOR if any(v.deps) else _CLEAR_INPUT)
        if cleared and v in sources and v.serial >= sink.first:
            v.grad = v.grad_var = None
    if flags & _CLEAR_EDGES:
        kept = {*lasting}
        _cut([v for v in variables if v.serial >= sink.first and v not in kept], members)


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
        # From this serial number on, variables of size 1 have gradients of each lane.
        region = lane_region()
        self.own = 0 if self.recording else _NEVER if region is None else region.begin
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
        elif (mask := active()) is not ACTIVE:
            for v in variables:
                if v.grad is not None and v.rule not in (None, lanes.SCATTER):
                    self._restrict(v, mask)

    def visit(self, v: Var, rule: Any) -> None:
        """Passes the gradient of a variable on, and clears it: the general case."""
        g = v.grad
        self.var = v
        if rule.elementwise:
            if g is not None:
                _partials(v, rule, self)
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
            rule.clears(v)
        else:
            v.grad = v.grad_var = None

    def takes(self, v: Var) -> bool:
        """Returns whether the traversal visits a variable."""
        return self.members is None or v in self.members

    def operands(self, v: Var, grad: Any, grad_var: Var | None) -> tuple[Any, Any, Any, Any]:
        """Returns the gradient, result and inputs of a variable in the algebra of this traversal,
        and the algebra."""
        if not self.keep:
            return grad, v.result, v.inputs, PLAIN
        inputs = [Value(n, d) for n, d in zip(v.inputs, v.deps, strict=False)]
        result = None if v.result is None else Value(v.result, v)
        return Value(grad, grad_var), result, inputs, RECORDED

    def add(self, i: int, value: Value, lanes_: int = 1) -> None:
        """Adds to the gradient of operand `i` of the current variable."""
        d = self.var.deps[i]
        if d is not None and (self.members is None or d in self.members):
            self.accumulate(d, value if self.keep else value.node, lanes_)

    def accumulate(self, v: Var, c: Any, lanes_: int) -> None:
        """Adds a contribution, which represents a number of lanes, to a gradient. It is summed if
        the variable has one entry, which was broadcast. In code that runs for several lanes, it
        counts for the lane that executes it; the sum is computed where it leaves that code."""
        if self.plain and (
            v.size != 1
            or (v.serial >= self.own and v.rule is not lanes.SCATTER)
            or (c.size == 1 and lanes_ == 1)
        ):
            v.grad = c if v.grad is None else PLAIN.add(v.grad, c)
            if self.masking:
                self.masked.add(v)
            return
        if self.trap:
            self._check(c.node if self.keep else c)
        if self.outer is not None and self.outer.takes(v):
            self.outer.add(v, c.node if self.keep else c)
            self.mark(v)
            return
        if v.size == 1:
            c = arriving(v, c, lanes_) if self.keep else arriving(v, as_value((c, None)), lanes_)[0]
        if not self.keep:
            v.grad = c if v.grad is None else PLAIN.add(v.grad, c)
        else:
            if v.grad is not None:
                c = RECORDED.add(Value(v.grad, v.grad_var), c)
            v.grad, v.grad_var = c
        if self.masking:  # as `mark`, here without a call
            self.masked.add(v)

    def _restrict(self, v: Var, mask: Node) -> None:
        """Sets a gradient to 0 in the lanes that do not execute the code that propagates it."""
        g, zero = Value(v.grad, v.grad_var), Value(node.literal(v.dtype, 0))  # type: ignore[arg-type]
        if len({g.node.size, v.size, mask.size} - {1}) > 1:
            return  # of an array that does not have those lanes
        v.grad, v.grad_var = RECORDED.select(Value(mask), g, zero)
        self.masked.add(v)

    def mark(self, v: Var) -> None:
        """Records what must follow a contribution to the gradient of a variable."""
        if self.masking:
            self.masked.add(v)

    def target(self, i: int) -> Var | None:
        """Returns the variable whose gradient receives the side effects for operand `i`."""
        d = self.var.deps[i]
        if d is None or (self.members is not None and d not in self.members):
            return None
        if self.masking:
            self.masked.add(d)
        return d if self.outer is None else self.outer[d]

    def scatter_add(self, i: int, values: list[Value], at: Access) -> None:
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
                d.grad, d.grad_var = lanes.scatter(lanes.full_gradient(d), value, one)
            return
        scatter_gradient(d, nodes, at)

    def _check(self, contribution: Node) -> None:
        from .trap import check

        check(self.var, contribution)


def lane_sum(a: Value) -> Value:
    """Returns the sum over all lanes, also of vectors."""
    if a.node.dtype.is_vector:
        from .vector import sum_lanes  # most programs have no vectors

        return sum_lanes(a)
    return lanes.reduce("add", a)


def arriving(v: Var, c: Value, lanes_: int = 1) -> Value:
    """Returns what a contribution, which represents a number of lanes, adds to the gradient of a
    variable of one entry. That is their sum, unless the variable has a gradient in each of them:
    because it stands for a value of each of the lanes that execute the current code, or the code
    around that."""
    if recording():
        return c
    region, serial = lane_region(), v.serial
    if region is None or v.rule is lanes.SCATTER:  # what has been written is there only once
        return _total(c, lanes_)
    if serial >= region.begin:
        return c
    while (around := region.around) is not None:
        if region.index is not None:
            count, size = region.index.size, region.size
            if count != size and c.node.size in (1, count):
                at = Access(region.index, what="gradient", inside=True)
                zero = Value(node.literal(v.dtype, 0, size))
                c = lanes.scatter(zero, lanes.full(c, count), at)
        if serial >= around.begin:
            return c
        region = around
    return _total(c, lanes_)


def _total(c: Value, lanes_: int) -> Value:
    """Returns the sum of a contribution over its lanes, or the multiple of a contribution that
    represents several lanes."""
    if c.node.size != 1:
        return lane_sum(c)
    return c if lanes_ == 1 else RECORDED.mul(c, RECORDED.number(c, lanes_))


def finish_isolation(inner: GradScope) -> None:
    """Continues the traversals that stopped at the boundary of a scope that has been left."""
    outer = scope()
    first = 0 if outer is None else outer.isolate_from
    full = []
    for v, members in inner.postponed.items():
        if v.serial < first:
            if outer is not None:
                outer.postponed[v], outer.device = members, inner.device
        elif members is None:
            full.append(v)
        else:
            before = [m for m in members if m.serial < inner.isolate_from]
            _thread.queue.add(before)
            _thread.queue.sorted = False
            _thread.queue.modes.add(ADMode.Forward)
    enqueue(ADMode.Backward, full, device=inner.device)
    traverse(ADMode.Backward, _CLEAR_VERTICES)

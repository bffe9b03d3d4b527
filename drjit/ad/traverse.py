"""Traversals of the derivative graph: tangents propagate from inputs to results, gradients from
results to inputs.

`enqueue` collects the variables to be visited; `traverse` visits them in order of creation, or in
the opposite order, so that gradients are always accumulated in the same order. Unless the flags say
otherwise, edges are freed at the end: a traversal that fails can be repeated.
"""

import threading
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import Any

from ..jit import collector, locks
from ..jit import substitutes as native
from ..jit.device import Device, current
from ..jit.ir import node
from ..jit.ir.scope import using
from ..jit.locks import catch_up, due, is_held, lock
from ..jit.run import events
from . import generated, graph, segments
from .algebra import PLAIN, set_keep_graph
from .graph import (
    ADFlag,
    ADMode,
    GradScope,
    Value,
    Var,
    live_variables,
    location_note,
    scope,
    scopes,
    title,
)
from .rules import Rule
from .scatter_target import Propagation
from .sink import GradientSink, in_active_lanes, summed_contribution, sweep

# Numbers, because members of an enumeration are slow to access.
_CLEAR_EDGES, _CLEAR_INPUT = int(ADFlag.ClearEdges), int(ADFlag.ClearInput)
_CLEAR_INTERIOR, _CLEAR_VERTICES = int(ADFlag.ClearInterior), int(ADFlag.ClearVertices)
_KEEP_GRAPH = int(ADFlag.KeepGraph)


class _Queue:
    """A thread's queue: variables, whether they are `sorted`, newest first, the directions in which
    they were collected, the device of the first ones, variables `outside` the current scope that
    were reached along edges, and the traversals of what a body has written. Variables in it have
    its `mark`."""

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
    """The queue of a thread."""

    def __init__(self) -> None:
        self.queue = _Queue()


_thread = _Thread()
_NEVER = 1 << 64
_NONE: frozenset[Var] = frozenset()


def propagate(
    mode: ADMode, seeds: list[Var], flags: int = ADFlag.Default, since: int = 0,
    device: Device | None = None, anew: bool | None = None, along: ADMode | None = None,
) -> None:  # fmt: skip
    """Enqueues what a traversal from `seeds` visits, or what one in the direction `along` does, and
    visits it. What a finalizer differentiates meanwhile does not come between. With `anew`, the
    gradients of `seeds` are set to 1 before; if it is False, only where there are none."""
    queue, _thread.queue = _thread.queue, _Queue()
    try:
        _add(queue, along or mode, seeds, since, device)
    except BaseException:
        _thread.queue = queue
        raise
    _visit_queue(queue, mode, flags, seeds if anew is not None else (), bool(anew))


def enqueue(mode: ADMode, seeds: list[Var], device: Device | None = None) -> None:
    """Adds the variables that a traversal from `seeds` visits to the queue of this thread."""
    _add(_thread.queue, mode, seeds, 0, device)


def _add(queue: _Queue, mode: ADMode, seeds: list[Var], since: int, device: Device | None) -> None:
    """Adds the variables that a traversal from `seeds` visits: those that depend on them, with
    serial numbers from `since` on, or those that they depend on. `device` is where they are, and
    constants for their derivatives should be.

    An input, or a variable that lasts, may be enqueued twice if another thread has marked it in the
    meantime; the first visit passes its gradient on.
    """
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
        for v in live_variables() if reached else ():
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


def traverse(mode: ADMode, flags: int = ADFlag.Default) -> None:
    """Visits all enqueued variables.

    Raises:
        FloatingPointError: a trap is set, and a derivative is not finite.
        RuntimeError: tangents would have to pass through computations from before an isolating
            scope.
    """
    queue, _thread.queue = _thread.queue, _Queue()
    _visit_queue(queue, mode, flags)


def _visit_queue(
    queue: _Queue, mode: ADMode, flags: int, seeds: Sequence[Var] = (), anew: bool = False
) -> None:
    """Visits the variables of a queue; see `propagate`."""
    variables = queue.variables
    variables.reverse()  # almost in order then
    if not queue.sorted:
        variables.sort(key=attrgetter("serial"))
    if not variables and not queue.outside:
        return
    sink = events.sink
    start = None if sink is None else sink.begin()
    with lock:  # variables may be those of other threads as well
        before = locks.traversals
        try:
            locks.traversals = before + 1
            if seeds:
                _set_seeds(seeds, anew)
            for written in queue.written:
                written.begin()
            look = None if sink is None else sink.traversal(mode.name, variables)
            if queue.device is None or queue.device is current():
                _traverse(mode, flags, variables, queue.modes, queue.outside, look)
            else:
                with using(queue.device):
                    _traverse(mode, flags, variables, queue.modes, queue.outside, look)
        except BaseException:
            if not is_held():  # an interrupt where it was given up
                lock.acquire()
            raise
        finally:
            locks.traversals = before
            for written in queue.written:
                written.end(bool(flags & _CLEAR_INPUT))
            if sink is not None:
                sink.end("traverse", start, text=f"{mode.name}, {len(variables)} variables")
    if due:
        catch_up()


def _set_seeds(seeds: Sequence[Var], anew: bool) -> None:
    found = [v.grad for v in seeds if v.grad is not None]
    if anew or all(g.op is node.LITERAL and not g.data for g in found):
        inner = scope() or graph.OUTSIDE
        arguments = inner.arguments
        for v in seeds:
            if not (v in arguments and v in inner.postponed):  # by what other lanes execute
                v.grad = v.grad_var = None
        for v in seeds:  # a variable may occur several times
            one = node.CONSTANTS[v.dtype, 1]
            if v in arguments:
                g = in_active_lanes(v, Value(one))
                one = (summed_contribution(v, g) if v.size == 1 else g).node
            v.grad = one if v.grad is None else PLAIN.add(v.grad, one)


def _traverse(
    mode: ADMode, flags: int, variables: list[Var], modes: set[ADMode], outside: dict[Var, None],
    look: Callable[[Var], None] | None,
) -> None:  # fmt: skip
    keep = bool(flags & _KEEP_GRAPH)
    if keep:
        flags = flags & ~_CLEAR_EDGES
    members = None if len(modes) == 1 and mode in modes else set(variables)
    sink = GradientSink(keep, members)
    first = sink.first
    if look is not None:
        sink.observe(look)
    if mode is ADMode.Forward:
        _check_outside(outside)
    if first:
        outside.update(dict.fromkeys([v for v in variables if v.serial < first]))
    before = set_keep_graph(keep)
    collector.defer()
    try:
        if mode is ADMode.Backward:
            if first:
                variables = [v for v in variables if v.serial >= first]
                sink.begin(variables)
            clears = flags & _CLEAR_VERTICES
            interior = _with_dependents() if clears not in (0, _CLEAR_VERTICES) else _NONE
            if segments.divides:
                whole = not first and members is None
                for segment in segments.segments(variables, True, keep, whole):
                    _backward(segment, flags, interior, sink)
            else:
                _backward(variables, flags, interior, sink)
            if sink.inner is not None:
                _postpone(sink.inner, outside, members)
            if flags & _CLEAR_EDGES:
                kept = sink.kept
                _cut_edges([v for v in variables if v not in kept] if kept else variables, members)
        else:
            _forward([*outside, *[v for v in variables if v.serial >= first]], flags, sink)
        if look is not None:
            for v in variables:
                look(v)
    except BaseException as error:
        _fail(error, variables, sink)
        last = sink.var if mode is ADMode.Backward else None
        for v in variables:
            # The variables visited by a reverse traversal keep what the flags do not clear.
            if v.rule is not None and (last is None or v.serial <= last.serial):
                v.grad = v.grad_var = None
        raise
    finally:
        set_keep_graph(before)


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


def _fail(error: BaseException, variables: list[Var], sink: GradientSink) -> None:
    """Adds the differentiated operation to an error, and discards data that pending operations had
    received from others."""
    v = sink.var
    if v is not None and v.rule is not None:
        error.add_note(f"This was the derivative of '{title(v)}'{location_note(v)}.")
    for v in variables:
        if v.rule is not None and v.rule.always:
            v.rule.reset(v)


def _check_outside(outside: dict[Var, None]) -> None:
    """Raises if tangents would have to pass through variables from before an isolating scope."""
    for v in outside:
        if v.rule is not None:
            raise RuntimeError(
                f"a tangent was to be propagated to the result of '{title(v)}'{location_note(v)}, "
                "which lies outside of the current dr.isolate_grad() scope, or of the body of a "
                "symbolic loop, branch or call. Propagate it before that begins."
            )


def _postpone(inner: GradScope, outside: dict[Var, None], members: set[Var] | None) -> None:
    """Records the variables from which a traversal must be continued outside a scope."""
    inner.device, outer = current(), inner.outer_gradients
    begin = inner.isolate_from if outer and outer.atomic else _NEVER
    for v in outside:
        if (g := v.grad) is None:
            continue
        if g.serial >= begin and g.op is not node.LITERAL:  # a value of the body that is recorded
            v.grad = v.grad_var = None
            outer.add(v, g)
        elif members is None:
            inner.postponed[v] = None
        elif not members.isdisjoint(v.deps):
            inner.postponed.setdefault(v, members)


def _backward(variables: list[Var], flags: int, interior: Set[Var], sink: GradientSink) -> None:
    """Visits variables, last one first; the `interior` ones have dependents."""
    sink.flags, sink.interior = flags & _CLEAR_VERTICES, interior
    ends = not (sink.first or sink.keep or sink.observed)
    sink.clears = sink.flags == _CLEAR_VERTICES and ends
    if sink.plain and sink.members is None:
        sweep(variables, sink)
        return
    for v in reversed(variables):
        if v.rule is not None:
            sink.visit(v, v.rule)


def _with_dependents() -> set[Var]:
    """Returns the variables that others depend on."""
    return {d for v in live_variables() for d in v.deps if d is not None}


def _cut_edges(variables: list[Var], members: set[Var] | None) -> None:
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


def _forward(variables: list[Var], flags: int, sink: GradientSink) -> None:
    """Visits variables, first one first."""
    members, first, lasting = set(variables), sink.first, []
    divided = segments.divides
    parts = segments.segments(variables, False, sink.keep) if divided else (variables,)
    for v in chain.from_iterable(parts):
        rule = v.rule
        if rule is None or v.serial < first:
            continue
        if not rule.elementwise:
            if rule.lasts:
                lasting.append(v)
            if not members.isdisjoint(v.deps):
                _push(v, rule, members, sink)
        elif sink.plain and (sink.recording or v.size != 1):
            sink.var = v
            rule.tangent(v, members, sink)
        else:
            sink.var = v
            for i, d in enumerate(v.deps):
                if d is not None and d.grad is not None and d in members:
                    sink.push(v, i)
    if flags & _CLEAR_VERTICES:
        _clear_sources(variables, members, flags, first)
    if flags & _CLEAR_EDGES:
        kept = {*lasting}
        _cut_edges([v for v in variables if v.serial >= first and v not in kept], members)


def _push(v: Var, rule: Any, members: set[Var], sink: GradientSink) -> None:
    """Computes the tangent of a variable from those of its operands."""
    if rule.lasts:  # the tangent of an earlier traversal
        v.grad = v.grad_var = None
    sink.var = v
    tangents = [
        None if d is None or d.grad is None or d not in members else Value(d.grad, d.grad_var)
        for d in v.deps
    ]
    if any(t is not None for t in tangents) or rule.always:
        t = rule.forward(v, tangents)
        if t is not None:
            sink.accumulate(v, t if sink.keep else t.node, 1)


def _clear_sources(variables: list[Var], members: set[Var], flags: int, first: int) -> None:
    """Clears the tangents that others were computed from, as the flags say."""
    sources = {d for v in variables for d in v.deps if d is not None and d in members}
    for v in variables if sources else ():
        cleared = flags & (_CLEAR_INTERIOR if any(v.deps) else _CLEAR_INPUT)
        if cleared and v in sources and v.serial >= first:
            v.grad = v.grad_var = None


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
            _thread.queue.add([m for m in members if m.serial < inner.isolate_from])
            _thread.queue.sorted = False
            _thread.queue.modes.add(ADMode.Forward)
    propagate(ADMode.Backward, full, _CLEAR_VERTICES, device=inner.device)


Rule.compilers.update(direct=generated.direct, tangent=generated.tangent)

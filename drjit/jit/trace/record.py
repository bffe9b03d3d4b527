"""Symbolic recording: the bodies of loops and branches are traced once, with placeholder nodes for
their state or arguments.

A loop or branch is a node. Its operands are its inputs, the nodes that stand for them inside, and
the results of its bodies. Dependences determine which nodes belong to a body, so work that does not
depend on the state is done once, outside (`program.build`).
"""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import Any

from .. import collector
from ..ir import dtype as dt
from ..ir import node as ir
from ..ir import op
from ..ir.effects import afters, count_effects, undo
from ..ir.location import user_location
from ..ir.nesting import RegionOperands
from ..ir.node import AFTER, LITERAL, Node, broadcast_size, combine, literal, make, next_serial
from ..ir.scope import ACTIVE, WRITTEN, BlockData, Scope, active, innermost, stack
from ..ir.scope import recording as recording
from ..run import pending, schedule
from ..target.foreign import ForeignFunction
from . import sharing

Body = Callable[[list[Node]], list[Node]]
STATE = op.state


def loop(
    state: Sequence[Node],
    cond: Callable[[list[Node]], Node],
    body: Body,
    label: str = "",
    names: Callable[[], list[str]] | None = None,
) -> list[Node]:
    """Records `while cond(*state): state = body(*state)` for every lane and returns the final
    state. `names` returns what the program calls that.

    Lanes leave the loop one by one. An exception in `cond` or `body` undoes the recording.

    Raises:
        RuntimeError: sizes are incompatible, or `cond` has side effects.
        TypeError: `cond` does not return a mask, or the types returned by `body` differ from those
            of its arguments.
    """
    what = f"loop '{label}'" if label else "symbolic loop"
    outer, depth = _enclosing()
    size = broadcast_size((*state, outer), what)
    inside = [make(STATE, n.dtype, size, (), depth) for n in state]
    live = make(STATE, dt.mask, size, (), depth)
    if collector.program_threshold is None:
        collector.defer()
    scope = Scope(live, depth)
    scope.repeats = True
    with _recorded([scope]) as opened:
        opened.append(scope)
        test = cond(list(inside))
        if not test.dtype.is_mask:
            raise TypeError(f"{what}: the condition is {test.dtype.name}, not a mask")
        if scope.effects:
            raise RuntimeError(f"{what}: the condition has a side effect")
        results = body(list(inside))
        _check_types(what, "state", state, results)
        if scope.afters:
            _check_written(what, scope, (test, *results, *scope.effects), live)
        size = broadcast_size((*inside, outer, test, *results), what)
        size = _size_with(size, scope.effects, what)
    counts = (len(state), len(scope.effects))
    deps = (*state, *inside, live, outer, test, *results, *scope.effects)
    node = make(op.loop, dt.mask, size, deps, BlockData(counts, depth, None, names))
    found = [
        before if r is n else _result(node, n.dtype, k)
        for k, (before, n, r) in enumerate(zip(state, inside, results, strict=True))
    ]
    _close(node, scope)
    return found


def condition_inputs(test: Node, state: list[Node]) -> set[Node]:
    """Returns the variables of a loop, among its `state`, from which the condition is computed
    element by element; none if it depends on anything else, such as memory."""
    reached = {test}
    waiting, first = [test], min((n.serial for n in state), default=0)
    while waiting:
        n = waiting.pop()
        if n.op is not STATE and n.op is not LITERAL and not n.op.elementwise:
            return set()
        for d in n.deps:
            if d.serial >= first and d not in reached:
                reached.add(d)
                waiting.append(d)
    return reached.intersection(state)


def extend(node: Node, start: list[Node], step: Body) -> list[Node] | None:
    """Adds variables to a recorded loop that has not run yet. `step` advances them and may have
    side effects. Returns their final values, or None if the loop has run, if it belongs to an open
    recording, or if the new variables depend on its results.
    """
    # Another thread, or a finalizer, may evaluate the loop.
    with schedule.lock, collector.paused():
        if stack() or not _is_pending(node):
            return None
        parts, block = RegionOperands(node), node.data
        count, effects = block.counts
        with reopened(parts.live, block.depth + 1) as scope:
            scope.repeats = True
            inside = [make(op.state, n.dtype, node.size, (), block.depth + 1) for n in start]
            after = step(list(inside))
            new = [*start, *inside, *after, *scope.effects]
            size = broadcast_size((node, *new), "loop")
        # Side effects that have happened in the meantime may have needed the loop.
        if size != node.size or not _is_pending(node) or not move_before(node, new):
            _undo([scope])
            return None
        inputs = (*parts.inputs, *start, *parts.inside[0], *inside)
        results = (*parts.results[0], *after, *parts.effects[0], *scope.effects)
        node.deps = (*inputs, parts.live, parts.outer, parts.test, *results)
        block.counts = (count + len(start), effects + len(scope.effects))
        found = [_result(node, n.dtype, k) for k, n in enumerate(start, count)]
        _close(node, scope, effects > 0)
        return found


def _is_pending(node: Node) -> bool:
    """Returns whether results of a loop have yet to be computed."""
    if node.op is not op.loop:  # another thread has run it
        return False
    return any((v := reference()) and v.op is op.result for reference in node.data.values)


def move_before(node: Node, roots: list[Node]) -> bool:
    """Moves what `roots` depend on, and was created after `node`, ahead of it, by giving it smaller
    serial numbers. Returns whether that was possible: it is not if they depend on the node or wait
    for side effects."""
    since = node.serial
    moved = [n for n in dict.fromkeys(roots) if n.serial > since]
    seen = set(moved)
    last = since - 1  # earlier nodes, which may also have been made for this one
    for n in moved:  # the list grows during iteration
        if n.op is AFTER:
            return False
        for d in n.deps:
            if d.serial > since:
                if d not in seen:
                    seen.add(d)
                    moved.append(d)
            elif d is node:
                return False
            elif d.serial > last:
                last = d.serial
    step = (since - last) / (len(moved) + 1)
    if step < 4 * math.ulp(since):
        return False
    for k, n in enumerate(sorted(moved, key=attrgetter("serial")), 1):
        n.serial = last + k * step  # type: ignore[assignment]
    return True


def branches(
    masks: Sequence[Node], bodies: Sequence[Body], args: Sequence[Node], label: str = ""
) -> list[Node]:
    """Records the bodies one after the other, each for the lanes of its mask. Returns the results,
    which are 0 where no mask is true.

    Raises:
        RuntimeError: sizes are incompatible.
        TypeError: the bodies return different numbers or types of results.
    """
    what = f"branch '{label}'" if label else "symbolic branch"
    outer, depth = _enclosing()
    size = broadcast_size((*masks, *args, outer), what)
    masks = [combine(op.and_, (m, outer)) for m in masks]
    inside: list[Node] = []
    outcomes: list[list[Node]] = []
    scopes: list[Scope] = []
    effects: list[Node] = []
    start = next_serial()
    if collector.program_threshold is None:
        collector.defer()
    with _recorded(scopes) as opened:
        count = len(opened)
        for mask, body in zip(masks, bodies, strict=True):
            names = [make(STATE, n.dtype, size, (), depth) for n in args]
            scope = Scope(mask if mask.op is not LITERAL or not mask.data else outer, depth)
            scopes.append(scope)
            opened.append(scope)
            results = body(names)
            if scope.afters:
                first = names[0] if names else None
                _check_written(what, scope, (*results, *scope.effects), first)
            if outcomes:
                _check_types(what, "result", outcomes[0], results)
            size = _size_with(size, (*results, *scope.effects), what)
            effects += scope.effects
            del opened[count:]
            inside += names
            outcomes.append(results)
    shared = None
    if len(masks) == 1 and not effects:
        shareable = sharing.share(inside, outcomes[0], start, depth)
        if shareable is not None:
            shared, more, outcomes[0] = shareable
            args, inside = [*args, *more], shared.inside
    first = outcomes[0]
    inner = tuple([len(s.effects) for s in scopes]) if effects else (0,) * len(scopes)
    counts = (len(args), len(first), inner)
    deps = (*args, *inside, *masks, *chain.from_iterable(outcomes), *effects)
    node = make(op.branch, dt.mask, size, deps, BlockData(counts, depth, shared))
    merged = Scope(outer, depth)
    merged.effects, merged.afters = effects, [a for s in scopes for a in s.afters]
    found = [_result(node, n.dtype, k) for k, n in enumerate(first)]
    _close(node, merged)
    return found


def foreign_call(function: ForeignFunction, arguments: Sequence[Node]) -> list[Node]:
    """Returns the results of a function for the active lanes, and 0 for the others. If a lane
    raises an exception, so does reading what depends on the results.

    Raises:
        RuntimeError: the arguments have incompatible sizes.
    """
    codes = [dt.BY_CODE[code] for code in function.returned]
    lanes = broadcast_size(tuple(arguments), f"{function.title}()") if arguments else 1
    mask = active()
    if lanes == 0 or (mask.op is LITERAL and not mask.data):
        return [literal(t, 0, lanes) for t in codes[: len(function.results)]]
    size = mask.size if lanes == 1 else lanes
    called = make(op.foreign, codes[0], size, (*arguments, mask), function)
    results = [make(op.component, t, size, (called,), k) for k, t in enumerate(codes)]
    if not function.errors:
        return results
    # The number of an exception is reported like an index of an array with one entry.
    *results, number = results
    data = (1, function, user_location(), False, 1, 1)
    passed = make(op.in_bounds, dt.mask, size, (number, mask), data)
    return [ir.apply(op.select, passed, r, literal(r.dtype, 0)) for r in results]


def _enclosing() -> tuple[Node, int]:
    """Returns the mask of the lanes that execute a loop or branch recorded here, and its depth."""
    scope = innermost()
    return (ACTIVE, 1) if scope is None else (scope.mask, scope.depth + 1)


@contextmanager
def _recorded(scopes: list[Scope]) -> Iterator[list[Scope]]:
    """Provides this thread's stack of scopes, onto which the caller puts `scopes`; an exception
    undoes what these have recorded. The collector calls no finalizers meanwhile, as what they
    compute is not part of the recording."""
    opened = stack()
    count = len(opened)
    with collector.paused():
        try:
            yield opened
        except BaseException:
            del opened[count:]
            _undo(scopes)
            raise
        del opened[count:]


@contextmanager
def reopened(mask: Node, depth: int) -> Iterator[Scope]:
    """Opens another recording inside a body that has already been recorded. Its side effects happen
    only if they are passed on to another recording (`substitute`)."""
    scope = Scope(mask, depth)
    with _recorded([scope]) as opened:
        opened.append(scope)
        yield scope


def discard(targets: Sequence[Node]) -> None:
    """Undoes the pending side effects that some target nodes wait for."""
    with schedule.lock:
        waiting = [t for t in targets if t.op is AFTER]
        dropped = {t.deps[0] for t in waiting}
        pending.effects[:] = [e for e in pending.effects if e not in dropped]
        undo(dropped, waiting)


def discard_writes(memory: Sequence[Any]) -> None:
    """Undoes the pending side effects that write to the given buffers."""
    with schedule.lock:
        effects = [e for e in pending.effects if e.op.effect]
        written = [e for e in effects if any(e.data.buffer is m for m in memory)]
        discard([a for e in written for a in afters(e)])


def _result(node: Node, dtype: dt.DType, number: int) -> Node:
    result = make(op.result, dtype, node.size, (node,), number)
    if dtype.is_vector and count_effects(node):
        # Side effects happen once, so values tied to them must be stored, and a vector cannot be.
        parts = [
            make(op.feature, dtype.element, node.size, (result,), k) for k in range(dtype.count)
        ]
        node.data.values += [weakref.ref(part) for part in parts]
        return make(op.vector, dtype, node.size, tuple(parts))
    node.data.values.append(weakref.ref(result))
    return result


def _check_types(what: str, noun: str, before: Sequence[Node], results: list[Node]) -> None:
    if len(results) != len(before):
        raise TypeError(f"{what}: {len(before)} {noun} variables became {len(results)}")
    for k, (n, r) in enumerate(zip(before, results, strict=True)):
        if r.dtype is not n.dtype:
            raise TypeError(
                f"{what}: {noun} variable {k} is {n.dtype.name} first and {r.dtype.name} then"
            )


def _check_written(what: str, scope: Scope, roots: Sequence[Node], first: Node | None) -> None:
    """Raises a RuntimeError if a value depends on the contents of an array after a scatter in the
    same recording, whose nodes come after `first`.
    """
    own = {after for reference in scope.afters if (after := reference()) is not None}
    if not own:
        return
    # A node that depends on this one comes after it, or was checked in a nested recording, at whose
    # end it received a later serial number.
    start = max(min([n.serial for n in own]), 0 if first is None else first.serial)
    pending = [n for n in roots if n.serial >= start]
    seen = set(pending)
    for n in pending:  # the list grows during iteration
        if n in own:
            raise RuntimeError(f"{what}: {WRITTEN}")
        for d in n.deps:
            if d.serial >= start and d not in seen:
                seen.add(d)
                pending.append(d)


def _size_with(size: int, nodes: Sequence[Node], what: str) -> int:
    """Returns the number of lanes of a block whose results or side effects may have more lanes than
    its state."""
    for n in nodes:
        if n.size != size and (n.size != 1 or not size):
            return broadcast_size((make(LITERAL, dt.mask, size), *nodes), what)
    return size


def _close(node: Node, scope: Scope, listed: bool = False) -> None:
    """Passes on the side effects of a recording: its node, which has its results already, becomes a
    single side effect of the enclosing scope, where it may already be `listed`. From now on,
    another thread or a finalizer may evaluate it."""
    if not scope.effects:
        return
    with schedule.lock:
        for reference in scope.afters:
            after = reference()
            if after is not None:
                after.deps = (node,)
                after.serial = next_serial()
        around = stack()
        if around:
            around[-1].effects.append(node)
            around[-1].afters += scope.afters
        elif not listed:
            pending.effects.append(node)


def _undo(scopes: list[Scope]) -> None:
    """Restores the targets of the side effects in some scopes."""
    targets = [after for s in scopes for reference in s.afters if (after := reference())]
    undo([e for s in scopes for e in s.effects], targets)
    for scope in scopes:
        scope.effects, scope.afters = [], []

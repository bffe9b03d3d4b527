"""From pending values to kernel launches: grouping by size and order, common subexpressions, and
the structural key of a program.

Evaluation collects the graph below the requested values and the pending side effects, splits it
into stages (a value that needs a finished buffer, such as the result of a reduction or a scatter's
target, waits for the previous stage), and runs each stage size by size. The graph traversal also
produces a key, so a known program, or a whole known evaluation, is found by one dictionary look-up.
"""

import time
import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from .. import collector, flags, locks
from .. import substitutes as native
from ..device import Buffer, Device, DeviceMismatch, Kernel, current, mismatch
from ..ir import label, op
from ..ir.effects import afters, block_effects, old_values, undo, without_escaped
from ..ir.node import AFTER, BUFFER, LITERAL, Node, buffer, make
from ..ir.scope import ACTIVE, WRITTEN, BlockData
from ..text import program, source, structure
from . import events, history, launch, pending, stages
from . import plan as plans
from .plan import Launch, Plan

lock = locks.lock
observers: list[tuple[Any, Callable[[], None]]] = []
"""Samples of future kernels (see `print`), and callbacks for when they have been launched."""

on_collect: Callable[[list[Node]], None] | None = None
"""Called with the nodes of an evaluation before it is carried out; set by `freeze`."""

_serial, _id, _size = attrgetter("serial"), attrgetter("id"), attrgetter("size")
_settled: dict[tuple, Kernel] = {}
"""Kernels by the structure of programs in which inputs come in the order of their use."""
STREAM_BYTES = 1 << 24  # results of a kernel from this size on bypass the caches
STREAM_LANES = STREAM_BYTES >> 13  # no kernel below this size can have such results
LARGE = 512  # programs with this many operands defer the garbage collector
FEW = 1 << 14  # the host writes fewer entries faster than a kernel
# Where `preview` collects kernels and their texts.
_preview: list[tuple[Kernel, str]] | None = None

_REDUCE, _STATE = op.reduce, op.state
# The node of an effect's target becomes a buffer along with the effect, which is pending or belongs
# to an open recording.
_NOT_COMPUTED = frozenset((BUFFER, LITERAL, AFTER))
# These have no single value to keep. An observer needs to know of every launch.
_WATCHED = int(flags.JitFlag.Debug | flags.JitFlag.KernelHistory | flags.JitFlag.FreezingScope)
_HISTORY = int(flags.JitFlag.KernelHistory)
_APART = _WATCHED | int(flags.JitFlag.LaunchBlocking | flags.JitFlag.Record)


def evaluate(roots: list[Node], device: Device | None = None) -> bool:
    """Launches kernels for the given nodes and all pending side effects. Returns whether there was
    anything to do.

    Afterwards every root is a buffer (its data may still be on the way). Literals stay literals:
    `materialize` turns one into a buffer. What is computed from constants alone is computed on the
    `device`, or the current one.
    """
    for n in roots:
        if n.op is not BUFFER and n.op is not LITERAL:
            if n.serial > native.milestone:
                native.look(n.serial)
            break
    else:
        if not pending.effects:
            return False
    with lock:
        if pending.effects and _evaluate_effects(roots, device):
            pass
        elif not (native.repeat and _is_plain() and native.repeat(roots, device)):
            for n in roots:
                if n.op in _NOT_COMPUTED:
                    roots = [n for n in roots if n.op not in _NOT_COMPUTED]
                    break
            if not roots:
                return False
            (_in_order if events.sink is None else _evaluate)(roots, device)
    if observers:
        _observe()
    if locks.due or collector.pauses:
        catch_up()
    return True


def _is_plain() -> bool:
    """Returns whether nothing asks for launches to be seen one by one."""
    return not (observers or flags.current & _APART)


def catch_up() -> None:
    """Does what evaluations put off: waits until devices have not too much to do, once nothing is
    held, and collects garbage that threads of the package must not collect."""
    collector.catch_up()
    locks.catch_up()


def _evaluate_effects(roots: list[Node], device: Device | None) -> bool:
    """Launches kernels for some nodes and all pending side effects, if there are any that can be
    seen. Finalizers do not see those that are no longer pending, and not done yet."""
    with collector.paused():
        if not pending.drop_unseen():
            return False
        effects = pending.effects[:]
        pending.effects.clear()
        try:
            every = [n for n in roots if n.op not in _NOT_COMPUTED]
            every += effects + _old_values(effects)
            if not (native.repeat and _is_plain() and native.repeat(every, device)):
                _evaluate(every, device)
        except BaseException as error:
            left = [e for e in effects if e.op.effect or e.op.block]
            if isinstance(error, DeviceMismatch):  # what would raise again is given up
                given_up = [e for e in left if _mixes(e)]
                undo(given_up, [a for e in left for a in afters(e)])
                for e in given_up:
                    _finish(e, None)
                left = [e for e in left if e.op is not BUFFER]
            pending.effects[:0] = without_escaped(
                left, {e: structure.ProgramGraph([e]).ordered() for e in left}
            )
            raise
    return True


def _observe() -> None:
    """Calls the observers of kernels that were launched."""
    with lock:
        complete = [o for o in observers if o[0].is_complete]
        observers[:] = [o for o in observers if not o[0].is_complete]
    for _, then in complete:
        then()


def forget_kernels() -> None:
    """Forgets the kernels of all structures."""
    plans.forget()
    _settled.clear()
    if native.forget is not None:
        native.forget()


def preview(roots: list[Node], device: Device | None = None) -> list[tuple[Kernel, str]]:
    """Returns the kernels that `evaluate` would launch for these nodes and all pending side
    effects, and their texts as people see them, without launching them.
    """
    global _preview
    with lock, collector.paused():
        copies: dict[Node, Node] = {}
        tables: Any = label.labels, label.locations
        pending.drop_unseen()
        effects = pending.effects[:]
        values = _old_values(effects)
        every = list(dict.fromkeys(roots + effects + values))
        every, graph = stages.with_companions(every, structure.ProgramGraph(every))
        for n in graph.ordered():
            copy = copies[n] = make(
                n.op, n.dtype, n.size, tuple([copies[d] for d in n.deps]), n.data
            )
            if n.op.effect:
                e = n.data
                copy.data = pending.Effect(e.buffer, e.dtype, e.size, e.reduce, e.mode)
                copy.data.shape = e.shape
                copy.data.order = tuple([copies[o] for o in e.order if o in copies])
            elif n.op.block:
                block = n.data
                copy.data = BlockData(block.counts, block.depth, block.shared, block.names)
            label.locations.pop(copy, None)  # the line that asks for the text
            for table in tables:
                if n in table:
                    table[copy] = table[n]
        for n, copy in copies.items():
            if n.op.effect:
                targets = [copies[a] for a in afters(n) if a in copies]
                copy.data.afters = [weakref.ref(a) for a in targets]
        wanted = [n for n in every if n.op not in _NOT_COMPUTED]
        _preview = []
        try:
            _evaluate([copies[n] for n in wanted], device)
            return _preview
        finally:
            _preview = None


def complete(nodes: list[Node], device: Device | None = None) -> None:
    """Evaluates nodes whose data the host is about to read.

    Raises:
        RuntimeError: an open recording writes to one of them.
    """
    evaluate(nodes, device)
    for n in nodes:
        if n.op is AFTER:
            raise RuntimeError(WRITTEN)


def materialize(node: Node, device: Device | None = None) -> Node:
    """The node as a buffer; a literal becomes a new node with memory of its own on a device (see
    `evaluate`), while pending side effects, which it has nothing to do with, remain pending."""
    if node.op is not LITERAL:
        if node.op is not BUFFER or pending.effects or observers:
            complete([node], device)
        return node
    found = as_data(node, device)
    if found.op is not BUFFER:
        evaluate_alone(found)
    return found


def as_data(literal: Node, device: Device | None = None) -> Node:
    """Returns a literal as a buffer filled by the host, or as a node to be evaluated."""
    if literal.size > FEW or flags.current & _WATCHED:
        return make(op.copy, literal.dtype, literal.size, (literal,), device or current())
    return filled(literal, device)


def filled(literal: Node, device: Device | None = None) -> Node:
    """Returns a literal as a buffer filled by the host."""
    t, size = literal.dtype, literal.size
    return buffer(t, size, (device or current()).filled(t, size, literal.data))


def evaluate_alone(node: Node) -> None:
    """Launches a kernel for a node that does not depend on pending side effects."""
    with lock:
        _evaluate([node], None)


def _old_values(roots: list[Node]) -> list[Node]:
    """Returns the values tied to side effects, which cannot be recomputed: live old values of
    atomic updates, and the results of loops and branches."""
    values: list[Any] = []
    for n in roots:
        if n.op.block:
            values += n.data.values
        elif n.op.effect and n.data.value is not None:
            values.append(n.data.value)
    return [v for value in values if (v := value()) is not None and v.op is not BUFFER]


def _evaluate(roots: list[Node], device: Device | None) -> None:
    """Launches kernels for nodes, among which there may be side effects."""
    if events.sink is None or _preview is not None:
        _in_order(roots, device)
    else:
        events.timed("schedule", _in_order, roots, device)


def _in_order(roots: list[Node], device: Device | None, is_new: bool = False) -> None:
    """Splits an evaluation into launches, one after the other. With `is_new`, the collector is
    paused, so that nobody else numbers these nodes, or evaluates some of them."""
    if len(roots) > 1:
        roots = list(dict.fromkeys(roots))
    graph = structure.ProgramGraph(roots)
    if ACTIVE.mark is graph.mark and ACTIVE in roots:  # shared by all programs
        raise RuntimeError("the lanes of a kernel were to be evaluated outside of one")
    if graph.blocks:
        roots, graph = stages.with_companions(roots, graph)
    if on_collect is not None and not is_new:
        on_collect(graph.order)
    waits = None
    if graph.noted:
        waits = next((n for n in graph.noted if n.op is _REDUCE or stages.waits(n)), None)
    if waits is not None or (len(roots) > 1 and len({*map(_size, roots)}) > 1):
        _in_stages(roots, graph, waits, device, is_new)
    elif roots:
        _in_one(roots[0].size, roots, graph, device, is_new)


def _anew(roots: list[Node], device: Device | None) -> None:
    """Plans an evaluation, of which a finalizer may have evaluated a part, and launches it."""
    with collector.paused():
        left = [n for n in roots if n.op is not BUFFER]
        if left:
            _in_order(left, device, True)


def _in_stages(
    roots: list[Node], graph: structure.ProgramGraph, waits: Node | None, device: Device | None,
    is_new: bool,
) -> None:  # fmt: skip
    """Launches kernels for nodes of several sizes, or of which one `waits` for others."""
    is_long = len(graph.order) > stages.SHORT and stages.is_long(graph)
    key = None if is_long else _key_of(graph, device)
    plan = None if key is None else plans.find(key, graph.order, False)
    if plan is not None:
        launch_all(plan.launches, graph.order, plan, roots)
        return
    if not is_new:
        return _anew(roots, device)
    reduced = [n.deps[0] for n in graph.noted if n.op is _REDUCE]
    watched = [(n, n.size) for n in (*graph.noted, *reduced)]
    found = [roots]
    if waits is not None:
        found = stages.find(roots, *graph.split(), [n for n in graph.noted if stages.waits(n)])
    done: list[Launch | None] = []
    for size, group in [row for stage in found for row in _by_lanes(stage)]:
        left = [n for n in group if n.op is not BUFFER]
        if left:
            _in_one(size, left, structure.ProgramGraph(left), device, True, done)
    if key is not None and None not in done:
        _keep([v for v in done if v], watched, graph.order, key)


def _keep(
    launches: list[Launch], watched: list[tuple[Node, int]], order: list[Node], key: tuple
) -> None:
    """Keeps the plan of an evaluation of several launches."""
    place = dict(zip(order, range(len(order)), strict=True))
    sizes = watched + [(n, n.size) for v in launches for n in v.roots]
    rows = [(v.kernel, v.lanes, *[[place[n] for n in part] for part in v[2:]]) for v in launches]
    _make_room(len(order))
    plans.add(key, Plan(rows, [*{place[n]: size for n, size in sizes}.items()]))


def launch_all(
    launches: Sequence[tuple], order: list[Node], plan: Plan | None = None,
    roots: Sequence[Node] = (),
) -> None:  # fmt: skip
    """Performs launches of a plan: nodes become buffers. Native code may take over if these are all
    launches of a `plan`, and given the nodes to be evaluated (`roots`)."""
    if native.perform is None:
        native.milestone -= native.LAUNCH
    elif plan is not None and not flags.current & _APART and _preview is None:
        launches = launches[native.perform(plan, roots, order) :]
    sink, keeps_history = events.sink, flags.current & _HISTORY
    for made, lanes, a, b, c, d, e in launches:
        computed, targets = a(order), e(order)
        effects = [n.data for n in targets] if targets else ()
        operands = b(order), c(order), d(order), effects
        if sink is not None and _preview is None:
            sink.meet(made, computed)
        if keeps_history:
            history.now.text = made, shown_text(made, computed)
        if _preview is not None:
            _preview.append((made, shown_text(made, computed)))
            outputs = [made.device.allocate(0) if _has_value(n) else None for n in computed]
        elif effects and made.can_be_interrupted:
            # Updates take effect one by one, and those made must count as made.
            with launch.interrupts_postponed():
                outputs = launch.run(made, lanes or computed[0].size, operands)
                finish_all(computed, outputs)
            continue
        else:
            outputs = launch.run(made, lanes or computed[0].size, operands)
        for n, memory in zip(computed, outputs):  # noqa: B905
            if memory is None:
                finish_effect(n)
            else:
                n.data = memory  # as in _finish
                n.op = BUFFER
                n.deps = ()


def shown_text(made: Kernel, roots: Sequence[Node]) -> str:
    """Returns the text of the kernel of some nodes as people see it."""
    from ..text import names

    return names.text_of(made, roots)


def _key_of(graph: structure.ProgramGraph, device: Device | None) -> tuple | None:
    """Returns the key that determines the launches of an evaluation, except for sizes; None if they
    must not be repeated, because the kernel texts refer to these nodes."""
    if graph.open or flags.current & 1:
        return None
    effects = graph.effects()
    orders = []
    for n in effects:
        for before in n.data.order:
            if before.op is not BUFFER:
                if before.mark is not graph.mark:
                    return None
                orders.append((n.id, before.id))
    return graph.key(device or current(), effects, *orders)


def _by_lanes(roots: list[Node]) -> list[tuple[int, list[Node]]]:
    """Groups the roots by the number of lanes, which a kernel has in common."""
    groups: dict[int, list[Node]] = {}
    for n in roots:
        lanes = n.deps[0].size if n.op is _REDUCE else n.size
        groups.setdefault(lanes, []).append(n)
    return [*groups.items()]


def _in_one(
    size: int, roots: list[Node], graph: structure.ProgramGraph, device: Device | None,
    is_new: bool = True, done: list[Launch | None] | None = None,
) -> None:  # fmt: skip
    """Launches a kernel for nodes of `size` lanes, where `graph` is everything below them and
    nothing waits for anything else; or several, if it would be very long. Adds them to what is
    `done`, with None for those that a plan cannot have."""
    if size == 0:
        _finish_empty(roots, graph, device)
        if done is not None:
            done.append(None)
        return
    if graph.open:
        raise stages.symbolic()
    if len(graph.order) > stages.SHORT and stages.is_long(graph):
        first = stages.first_part(graph, roots)
        if first:
            return _in_parts(size, first, roots, device, done) if is_new else _anew(roots, device)
    streams = size >= STREAM_LANES and _streams(size, roots)
    reduces = False
    if graph.noted or flags.current & 1:
        key = _key_of(graph, device)
        reduces = any(n.op is _REDUCE for n in roots)
    else:
        key = (*graph.parts, device or current())
    if streams and key is not None:
        key = (*key, True)
    plan = None if key is None else plans.find(key, graph.order, not reduces)
    name = ""
    if plan is None:
        if not is_new:
            return _anew(roots, device)
        devices = graph.devices()
        if len(devices) > 1:
            _on_devices(size, roots, device)
            if done is not None:
                done.append(None)
            return
        at = next(iter(devices), device or current())
        plan, name = _planned(size, roots, graph, key, streams, at)
    launch_all(plan.launches, graph.order, plan, roots)
    if name:
        plans.save(name, plan)
    if done is not None:
        made, lanes, *parts = plan.launches[0]
        nodes = [part(graph.order) for part in parts]
        done.append(Launch(made, lanes or nodes[0][0].size, *nodes))


def _in_parts(
    size: int, first: list[Node], roots: list[Node], device: Device | None,
    done: list[Launch | None] | None,
) -> None:  # fmt: skip
    """Launches kernels for some nodes, and then for roots, which depend on them."""
    for lanes, group in _by_lanes(first):
        _in_one(lanes, group, structure.ProgramGraph(group), device, True, done)
    left = [n for n in roots if n.op is not BUFFER]
    if left:
        _in_one(size, left, structure.ProgramGraph(left), device, True, done)


def _finish_empty(roots: list[Node], graph: structure.ProgramGraph, device: Device | None) -> None:
    """Completes nodes without lanes."""
    empty = next(iter(graph.devices()), device or current()).allocate(0)
    for n in roots:
        if n.op.effect or n.op.block:
            finish_effect(n)
        else:
            _finish(n, empty)


def _planned(
    size: int, roots: list[Node], graph: structure.ProgramGraph, key: tuple | None, streams: bool,
    at: Device,
) -> tuple[Plan, str]:  # fmt: skip
    """Returns the plan of a new program, and the name under which the disk cache is to keep it once
    it has been launched; no name if it has it, or cannot."""
    targets = graph.writers()
    if targets:
        # The text, which identifies kernels, does not show the positions of effects among the
        # roots.
        roots = sorted(roots, key=_has_value, reverse=True)
    every = roots, graph.inputs, graph.literals, graph.checks, targets
    places = [[n.id for n in part] for part in every]
    reduced = [n.deps[0].id for n in roots if n.op is _REDUCE]
    _make_room(0 if key is None else 2 * len(graph.order))
    comments = label.notes(graph.ordered()) if flags.current & 1 else None
    name = "" if key is None else plans.name_of(key, at)
    known = plans.load(name, at) if name else None
    made, passed = known or _settle(graph, roots, streams, at, comments)
    for k, chosen in enumerate(passed, 1):
        if chosen is not None:
            places[k] = [places[k][c] for c in chosen]
    if reduced:
        plan = Plan([(made, size, *places)], [(k, size) for k in reduced])
    else:
        plan = Plan([(made, 0, *places)], ())
    plan.passed = passed
    if key is not None:  # other programs of this structure get a text of their own
        plans.add(key, plan)
    return plan, "" if known else name


def _on_devices(size: int, roots: list[Node], device: Device | None) -> None:
    """Launches the kernels of several devices.

    Raises:
        DeviceMismatch: one value depends on data of several devices.
    """
    groups: dict[Device | None, list[Node]] = {}
    for n in roots:
        devices = structure.ProgramGraph([n]).devices()
        if len(devices) > 1:
            raise mismatch(devices)
        groups.setdefault(devices.pop() if devices else device, []).append(n)
    for group in groups.values():
        _in_one(size, group, structure.ProgramGraph(group), device)


def _mixes(n: Node) -> bool:
    """Whether a node depends on data of several devices."""
    return len(structure.ProgramGraph([n]).devices()) > 1


def _settle(
    graph: structure.ProgramGraph,
    roots: list[Node],
    streams: bool,
    device: Device,
    comments: dict[Node, str] | None,
) -> tuple[Kernel, structure.KernelArguments]:
    """Returns the kernel of a new program, which without `comments` may have the structure of
    another one, and its arguments."""
    if len(graph.order) > LARGE:
        collector.defer()
    ordered, passed = structure.canonicalize(graph, roots)
    settled = (device, streams, *map(_id, roots))
    made = _settled.get(settled) if comments is None else None
    if made is None:
        made = _kernel_for(ordered, roots, comments, streams, device)
        if comments is None:
            _settled[settled] = made
    return made, passed


def _make_room(more: int) -> None:
    """Forgets known programs if their keys, with `more` entries, become too large."""
    if plans.is_crowded(more):
        structure.forget()
        forget_kernels()


def finish_all(roots: Sequence[Node], outputs: Sequence[Buffer | None]) -> None:
    """Turns the nodes that a launch has computed into buffers."""
    for n, memory in zip(roots, outputs):  # noqa: B905
        if memory is None:
            finish_effect(n)
        else:
            n.data = memory  # as in _finish
            n.op = BUFFER
            n.deps = ()


def _has_value(n: Node) -> bool:
    return not (n.op.effect or n.op.block)


def _streams(size: int, roots: list[Node]) -> bool:
    """Returns whether results are so large that they bypass the caches."""
    values = [n.dtype.itemsize for n in roots if n.op is not op.reduce and _has_value(n)]
    return size * sum(values) >= STREAM_BYTES


def _kernel_for(
    nodes: list[Node],
    roots: list[Node],
    comments: dict[Node, str] | None,
    streams: bool,
    device: Device,
) -> Kernel:
    """Returns the kernel of a newly generated text. `comments` are added to the statements of
    nodes; with `streams`, results bypass the caches.
    """
    start = time.perf_counter()
    built = program.build(nodes, roots, comments)._replace(streams=streams)
    if flags.current & flags.JitFlag.Debug:
        program.check(built)
    if comments:
        from ..text import names

        text = names.shown(built)
    else:
        text = source.render(built)
    found = device.kernel(text, built)
    if not found.launches:
        found.rendering = time.perf_counter() - start
    return found


def _finish(n: Node, memory: Buffer | None) -> None:
    """Turns a node whose kernel has been launched into a buffer."""
    # In this order, because other threads look at the node: whoever sees a buffer sees its memory.
    n.data = memory
    n.op = BUFFER
    n.deps = ()


def finish_effect(n: Node) -> None:
    """Completes an effect whose kernel has been launched, and releases the nodes that waited for
    it."""
    waiting = afters(n)
    if n.op.block:
        for value in old_values(block_effects(n)):
            leaked = value()
            if leaked is not None:  # defined only where the update took place, which is over
                leaked.op, leaked.deps, leaked.data = _STATE, (), None
    _finish(n, None)
    for after in waiting:
        _finish(after, after.data)

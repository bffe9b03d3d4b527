"""Finds and performs plans; `cpu.plans` makes the records."""

from . import objects
from .language import NULL, Word, call, put, room, rounded, word
from .launcher import is_idle, run_entries
from .references import hold
from .results import ROOM, drop_operands, finish_node, has_room, prepare, taken
from .scan import hashed, is_equal, plan_key

_STRUCTURES = objects.Operand, objects.Step, objects.SizeOf, objects.Result
OPERAND, STEP, SIZES, RESULT = map(objects.size_of, _STRUCTURES)
OFTEN = 63  # a mask: every 64th time, Python checks whether better kernels would pay


def write_operands(s: objects.Scan, operand: objects.Operand, items: Word) -> Word:
    """Writes operands to the parameter blocks, given the nodes at `items`; returns 0 if one is not
    what the plan expects."""
    while operand.place != 0:
        node: objects.Node = word(items + operand.position)
        data = node.data
        kind = operand.kind
        if kind == objects.IS_TARGET:
            effect: objects.Effect = data
            data = effect.buffer
            kind = objects.IS_BUFFER
        if kind == objects.IS_SIZE:
            effect = data
            data = effect.size
        if kind == objects.IS_CHECK:
            data = word(data + objects.ITEMS)
        if kind == objects.IS_BUFFER:
            buffer: objects.Buffer = data
            if word(buffer + objects.TYPE) != s.buffer_type:
                return 0
            if buffer.source != s.none:
                return 0
            data = buffer.address
        single = word(data + objects.TYPE) == s.float_type
        if single != (kind in (objects.IS_SINGLE, objects.IS_DOUBLE)):
            return 0
        if single:
            x = word(data + objects.NUMBER)
            if kind == objects.IS_SINGLE:
                x = rounded(x)
        else:
            x = call("i64(ptr)", s.unsigned, data)
        put(operand.place, x)
        operand = operand + OPERAND
    return 1


def finish_results(s: objects.Scan, plan: objects.PlanRecord, items: Word, made: Word) -> Word:
    """Turns the nodes of the finished results into buffers, and frees the memory of the others.
    When operands are dropped, other code may run and overwrite `items`, and a result may be
    all that keeps another one alive."""
    nodes = room(64)
    count = plan.finished
    for k in range(count):
        node: objects.Node = word(items + word(plan.positions + 8 * k))
        put(nodes + 8 * k, hold(s, node))
        finish_node(s, node, word(made + 8 * k))
    for k in range(count, plan.results):
        call("void(ptr)", s.decref, word(made + 8 * k))
    for k in range(count):
        node = word(nodes + 8 * k)
        drop_operands(s, node)
        call("void(ptr)", s.decref, node)


def is_prepared(c: objects.Control, s: objects.Scan, plan: objects.PlanRecord, items: Word) -> Word:
    """How the launches of a plan can be performed now (`IS_SMALL`, `IS_QUEUED`), or 0 if they
    cannot. If they can, the operands that depend on nodes have been written."""
    way = plan.ways & objects.IS_QUEUED
    if plan.ways & objects.IS_SMALL and is_idle(c):
        way = objects.IS_SMALL
    if way and has_room(plan.rooms, plan.results) and plan.results <= s.spares_left:
        return way * write_operands(s, plan.operands, items)
    return 0


def take_results(s: objects.Scan, plan: objects.PlanRecord, made: Word) -> Word:
    """Creates the buffers of the results, and writes their addresses to the parameter blocks."""
    for k in range(plan.results):
        put(made + 8 * k, taken(s, plan.rooms + ROOM * k))
    usage: objects.Usage = s.usage
    usage.peak = max(usage.peak, usage.in_use)
    operand: objects.Operand = plan.links
    while operand.place != 0:
        buffer: objects.Buffer = word(made + operand.position)
        put(operand.place, call("i64(ptr)", s.unsigned, buffer.address))
        operand = operand + OPERAND


def launch_plan(c: objects.Control, s: objects.Scan, plan: objects.PlanRecord, made: Word) -> Word:
    """Performs the launches; returns whether no index was out of bounds. If one was, nothing is
    launched after that kernel. `plan.done` and `plan.finished` are the numbers of launches and
    results so far."""
    take_results(s, plan, made)
    k = 0
    failed = 0
    while k < plan.count and failed == 0:
        step: objects.Step = plan.steps + STEP * k
        put(step.block, step.checks * plan.report)
        run_entries(c, step.entry, step.block, step.size)
        plan.finished = step.results
        failed = word(plan.report)
        k = k + 1
    plan.done = k
    plan.launches = plan.launches + (failed == 0)
    return failed == 0


def hand_over(s: objects.Scan, plan: objects.PlanRecord, nodes: Word, made: Word) -> Word:
    """Appends the results of a plan, and a copy of each parameter block, to the list of its nodes,
    for Python to queue the launches; returns whether there was memory for that."""
    take_results(s, plan, made)
    failed = 0
    for k in range(plan.results):
        failed = failed | call("i32(ptr, ptr)", s.append, nodes, word(made + 8 * k))
        call("void(ptr)", s.decref, word(made + 8 * k))
    k = 0
    while k < plan.count and failed == 0:
        step: objects.Step = plan.steps + STEP * k
        put(step.block, 0)
        copied = call("i64(ptr, i64)", s.bytes, step.block, step.length)
        if copied == 0:
            return 0
        failed = call("i32(ptr, ptr)", s.append, nodes, copied)
        call("void(ptr)", s.decref, copied)
        k = k + 1
    plan.launches = plan.launches + (failed == 0)
    return failed == 0


def has_sizes(s: objects.Scan, known: objects.KnownPlan) -> Word:
    """Whether the nodes at the positions in a table have the sizes there."""
    size: objects.SizeOf = known.sizes
    for _ in range(known.count):
        node: objects.Node = word(s.order[size.position])
        if call("i64(ptr)", s.integer, node.size) != size.lanes:
            return 0
        size = size + SIZES
    return 1


def find_plan(s: objects.Scan, length: Word) -> objects.KnownPlan:
    """The plan of the evaluation in `s.key` and `s.order`, or 0."""
    h = hashed(s, length)
    s.hash = h
    known: objects.KnownPlan = word(s.plans[h >> 40])
    while known != 0:
        same = known.hash == h and known.length == length and is_equal(s, known.key, length)
        if same and has_sizes(s, known):
            return known
        known = known.next
    return NULL


def outcome(c: objects.Control, s: objects.Scan, done: Word) -> Word:
    """True if all is `done`, or None."""
    if done:
        return call("i64(i64)", c.truth, 1)
    return hold(s, s.none)


def perform_plan(self: Word, arguments: Word, count: Word) -> Word:
    """Called by Python with the list of nodes in the order of their traversal. Returns True if all
    kernels of a plan were launched, False if none was, and None if an index was out of bounds, or
    if Python is to queue them (`s.queued`)."""
    c: objects.Control = word(self + objects.CONTENTS)
    s: objects.Scan = word(self + objects.CONTENTS + 8)
    plan: objects.PlanRecord = word(self + objects.CONTENTS + 16)
    items = word(word(arguments) + objects.LIST)
    made = room(64)
    if prepare(s, plan.results) == 0:
        return 0
    way = is_prepared(c, s, plan, items)
    if way == 0:
        return call("i64(i64)", c.truth, 0)
    s.queued = way == objects.IS_QUEUED
    if way == objects.IS_QUEUED:
        if hand_over(s, plan, word(arguments), made) == 0:
            return 0
        return outcome(c, s, 0)
    good = launch_plan(c, s, plan, made)
    launched = plan.done
    finish_results(s, plan, items, made)
    plan.done = launched  # again, as destructors may have evaluated the same
    s.queued = 0
    return outcome(c, s, good)


def repeat_plan(self: Word, arguments: Word, count: Word) -> Word:
    """Called by Python with the list of nodes to be evaluated and an empty list. Returns True if it
    has found their plan and performed it, False if not, and None if Python has something left to
    do: for effects, now and then to check for better kernels, if an index was out of bounds
    (`s.failed`), and if the kernels are to be queued (`s.queued`). In the last two cases, the
    second list gets all nodes. `s.plan` is the plan that was found."""
    c: objects.Control = word(self + objects.CONTENTS)
    s: objects.Scan = word(self + objects.CONTENTS + 8)
    roots = word(arguments)
    nodes = word(arguments + 8)
    made = room(64)
    if prepare(s, objects.SPARES) == 0:
        return 0
    length = plan_key(s, roots)
    known: objects.KnownPlan = NULL
    if length > 0:
        known = find_plan(s, length)
    s.plan = known
    if known == 0:
        return call("i64(i64)", c.truth, 0)
    plan: objects.PlanRecord = known.plan
    way = is_prepared(c, s, plan, s.order[0])
    if way == 0:
        return call("i64(i64)", c.truth, 0)
    s.queued = way == objects.IS_QUEUED
    if way == objects.IS_QUEUED:
        if append_nodes(s, nodes) == 0 or hand_over(s, plan, nodes, made) == 0:
            return 0
        return outcome(c, s, 0)
    good = launch_plan(c, s, plan, made)
    done = good and s.effects_met == 0 and plan.launches & OFTEN != 0
    if good == 0:
        append_nodes(s, nodes)
    launched = plan.done
    finish_results(s, plan, s.order[0], made)
    # Again, as destructors may have evaluated something.
    plan.done = launched
    s.plan = known
    s.failed = good == 0
    s.queued = 0
    return outcome(c, s, done)


def append_nodes(s: objects.Scan, nodes: Word) -> Word:
    """Appends the nodes of an evaluation to a list, in the order of their traversal; returns
    whether there was memory for that."""
    for k in range(s.visited):
        if call("i32(ptr, ptr)", s.append, nodes, word(s.order[k])) != 0:
            return 0
    return 1


def examine_plan(self: Word, arguments: Word, count: Word) -> Word:
    """Called by Python: returns whether this code could find a plan for an evaluation. `s.length`
    is the number of words in `s.key`, and `s.plan` the plan if it is known already."""
    c: objects.Control = word(self + objects.CONTENTS)
    s: objects.Scan = word(self + objects.CONTENTS + 8)
    s.plan = 0
    s.length = plan_key(s, word(arguments))
    if s.length > 0:
        s.plan = find_plan(s, s.length)
    return call("i64(i64)", c.truth, s.length > 0)


def new_nodes(s: objects.Scan, count: Word) -> Word:
    """Creates a tuple of nodes without contents; returns 0 if there is no memory."""
    found = call("i64(i64)", s.tuple, count)
    k = 0
    while k < count and found != 0:
        node = call("i64(ptr, i64)", s.allocate, s.node_type, 0)
        put(found + objects.ITEMS + 8 * k, node)
        if node == 0:
            call("void(ptr)", s.decref, found)
            return 0
        k = k + 1
    return found


def become_buffer(
    s: objects.Scan, node: objects.Node, result: objects.Result, buffer: Word
) -> Word:
    """Turns a node without contents into a buffer, given its data."""
    node.op = hold(s, s.buffer)
    node.dtype = hold(s, result.dtype)
    node.size = hold(s, result.lanes)
    node.deps = hold(s, s.empty)
    node.mark = hold(s, s.none)
    node.data = buffer
    node.serial = call("i64(ptr)", s.next, s.serials)


def replay(self: Word, arguments: Word, count: Word) -> Word:
    """Called by Python with the nodes that launches of a frozen function read. Returns the tuple of
    their results, or False if they cannot be performed now."""
    c: objects.Control = word(self + objects.CONTENTS)
    s: objects.Scan = word(self + objects.CONTENTS + 8)
    plan: objects.PlanRecord = word(self + objects.CONTENTS + 16)
    made = room(64)
    # The garbage collector may run, and leave something queued.
    found = new_nodes(s, plan.results)
    if found == 0:
        return 0
    if prepare(s, plan.results) == 0:
        call("void(ptr)", s.decref, found)
        return 0
    if is_prepared(c, s, plan, arguments) == 0:
        call("void(ptr)", s.decref, found)
        return call("i64(i64)", c.truth, 0)
    launch_plan(c, s, plan, made)
    for k in range(plan.results):
        place = found + objects.ITEMS + 8 * k
        become_buffer(s, word(place), plan.made + RESULT * k, word(made + 8 * k))
    return found

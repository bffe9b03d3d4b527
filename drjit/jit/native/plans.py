"""Performs the launches of an evaluation that is planned; `cpu.plans` makes the records."""

from .language import NULL, Word, call, put, room, rounded, word
from .launcher import is_idle, run_entries
from .objects import (
    CONTENTS,
    IS_BUFFER,
    IS_CHECK,
    IS_DOUBLE,
    IS_SINGLE,
    IS_SIZE,
    IS_TARGET,
    ITEMS,
    LIST,
    NUMBER,
    OUTPUTS,
    SIZE,
    SPARES,
    TYPE,
    Buffer,
    Control,
    Effect,
    KnownPlan,
    Node,
    Operand,
    PlanRecord,
    Scan,
    SizeOf,
    Step,
    Usage,
    size_of,
)
from .programs import (
    ROOM,
    drop_operands,
    finish_node,
    has_room,
    hashed,
    is_equal,
    prepare,
    scan_nodes,
    taken,
)
from .special import push

OPERAND, STEP, SIZES = size_of(Operand), size_of(Step), size_of(SizeOf)


def write_operands(s: Scan, operand: Operand, items: Word) -> Word:
    """Writes to the parameter blocks what the nodes at `items` say; gives 0 if one says something
    else than the plan expects."""
    while operand.place != 0:
        node: Node = word(items + operand.position)
        data = node.data
        kind = operand.kind
        if kind == IS_TARGET:
            effect: Effect = data
            data = effect.buffer
            kind = IS_BUFFER
        if kind == IS_SIZE:
            effect = data
            data = effect.size
        if kind == IS_CHECK:
            data = word(data + ITEMS)
        if kind == IS_BUFFER:
            buffer: Buffer = data
            if word(buffer + TYPE) != s.buffer_type:
                return 0
            if buffer.source != s.none:
                return 0
            data = buffer.address
        single = word(data + TYPE) == s.float_type
        if single != (kind in (IS_SINGLE, IS_DOUBLE)):
            return 0
        if single:
            x = word(data + NUMBER)
            if kind == IS_SINGLE:
                x = rounded(x)
        else:
            x = call("i64(ptr)", s.unsigned, data)
        put(operand.place, x)
        operand = operand + OPERAND
    return 1


def finish_results(s: Scan, plan: PlanRecord, items: Word, made: Word) -> Word:
    """Turns the nodes of the results that there are into buffers, and frees those of the others.
    Other code may run when operands are dropped, and so overwrite `items`, and one result may be
    all that holds another one."""
    nodes = room(64)
    count = plan.finished
    results = plan.results
    k = 0
    while k < count:
        node: Node = word(items + word(plan.positions + 8 * k))
        put(nodes + 8 * k, node)
        call("void(ptr)", s.incref, node)
        finish_node(s, node, word(made + 8 * k))
        k = k + 1
    while k < results:
        call("void(ptr)", s.decref, word(made + 8 * k))
        k = k + 1
    k = 0
    while k < count:
        node = word(nodes + 8 * k)
        drop_operands(s, node)
        call("void(ptr)", s.decref, node)
        k = k + 1


def is_prepared(c: Control, s: Scan, plan: PlanRecord, items: Word) -> Word:
    """Whether the launches of a plan can be performed now, of which the words of the parameter
    blocks that nodes determine are written then."""
    if is_idle(c) and has_room(plan.rooms, plan.results) and plan.results <= s.spares_left:
        return write_operands(s, plan.operands, items)
    return 0


def launch_plan(c: Control, s: Scan, plan: PlanRecord, made: Word) -> Word:
    """Gives whether no index was out of bounds. If one was, nothing is launched after that kernel;
    `plan.done` and `plan.finished` are the numbers of launches and results that there are."""
    k = 0
    while k < plan.results:
        put(made + 8 * k, taken(s, plan.rooms + ROOM * k))
        k = k + 1
    usage: Usage = s.usage
    usage.peak = max(usage.peak, usage.in_use)
    operand: Operand = plan.links
    while operand.place != 0:
        buffer: Buffer = word(made + operand.position)
        put(operand.place, call("i64(ptr)", s.unsigned, buffer.address))
        operand = operand + OPERAND
    k = 0
    failed = 0
    while k < plan.count and failed == 0:
        step: Step = plan.steps + STEP * k
        put(step.block, step.checks * plan.report)
        run_entries(c, step.entry, step.block, step.size)
        plan.finished = step.results
        failed = word(plan.report)
        k = k + 1
    plan.done = k
    plan.launches = plan.launches + (failed == 0)
    return failed == 0


def scan_plan(s: Scan, roots: Word) -> Word:
    """Writes what an evaluation consists of to `s.key`, except for sizes, and the nodes in the
    order of their traversal to `s.order`; gives the number of words, or 0 if there is no plan for
    it."""
    s.stamp = s.stamp + 1
    s.inputs_met = 0
    s.literals_met = 0
    s.effects_met = 0
    last = word(roots + SIZE)
    if last > OUTPUTS:
        return 0
    k = 0
    while k < last:
        put(s.order[k], word(word(roots + LIST) + 8 * k))
        k = k + 1
    return scan_nodes(s, last, push(s, 0, last), 1)


def has_sizes(s: Scan, known: KnownPlan) -> Word:
    """Whether the nodes at the positions in a table have the sizes there."""
    size: SizeOf = known.sizes
    k = 0
    while k < known.count:
        node: Node = word(s.order[size.position])
        if call("i64(ptr)", s.integer, node.size) != size.lanes:
            return 0
        size = size + SIZES
        k = k + 1
    return 1


def find_plan(s: Scan, length: Word) -> PlanRecord:
    """The plan of the evaluation in `s.key` and `s.order`, or 0."""
    h = hashed(s, length)
    s.hash = h
    known: KnownPlan = word(s.plans[h >> 40])
    while known != 0:
        same = known.hash == h and known.length == length and is_equal(s, known.key, length)
        if same and has_sizes(s, known):
            return known.plan
        known = known.next
    return NULL


def outcome(c: Control, s: Scan, good: Word) -> Word:
    """True, or None if launches are not `good`."""
    if good:
        return call("i64(i64)", c.truth, 1)
    call("void(ptr)", s.incref, s.none)
    return s.none


def perform_plan(self: Word, arguments: Word, count: Word) -> Word:
    """Functions of Python: True if all kernels of a plan were launched, False if none was, and None
    if an index was out of bounds. The argument is the list of nodes in the order of their
    traversal."""
    c: Control = word(self + CONTENTS)
    s: Scan = word(self + CONTENTS + 8)
    plan: PlanRecord = word(self + CONTENTS + 16)
    items = word(word(arguments) + LIST)
    made = room(64)
    if prepare(s, plan.results) == 0:
        return 0
    if is_prepared(c, s, plan, items):
        good = launch_plan(c, s, plan, made)
        finish_results(s, plan, items, made)
        return outcome(c, s, good)
    return call("i64(i64)", c.truth, 0)


def again_plan(self: Word, arguments: Word, count: Word) -> Word:
    """Finds the plan first, of which `s.plan` is the record; the argument is the list of nodes to
    be evaluated. If an index was out of bounds, it becomes that of all nodes."""
    c: Control = word(self + CONTENTS)
    s: Scan = word(self + CONTENTS + 8)
    roots = word(arguments)
    made = room(64)
    if prepare(s, SPARES) == 0:
        return 0
    length = 0
    if is_idle(c):
        length = scan_plan(s, roots)
    plan: PlanRecord = NULL
    if length > 0:
        plan = find_plan(s, length)
    s.plan = plan
    if plan != 0 and is_prepared(c, s, plan, s.order[0]):
        good = launch_plan(c, s, plan, made)
        if good == 0:
            k = word(roots + SIZE)
            while k < s.visited:
                call("i32(ptr, ptr)", s.append, roots, word(s.order[k]))
                k = k + 1
        finish_results(s, plan, s.order[0], made)
        return outcome(c, s, good)
    return call("i64(i64)", c.truth, 0)


def examine_plan(self: Word, arguments: Word, count: Word) -> Word:
    """Gives whether an evaluation can have a plan that this code finds. `s.length` is the number of
    words in `s.key`, and `s.plan` the plan that is known."""
    c: Control = word(self + CONTENTS)
    s: Scan = word(self + CONTENTS + 8)
    s.plan = 0
    s.length = scan_plan(s, word(arguments))
    if s.length > 0:
        s.plan = find_plan(s, s.length)
    return call("i64(i64)", c.truth, s.length > 0)

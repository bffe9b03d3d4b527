"""The code that performs the launches of an `EvaluationPlan`; `plans.py` makes the records. It is
compiled with that in `program_code.py`; the two use functions of each other."""

import ctypes
from typing import Any

from ..text.structure import BODIES, IS_STATE, NOTHING, TYPE_AND_DATA, TYPE_ONLY

_word = ctypes.c_int64


class Operand(ctypes.Structure):
    """A word of a parameter block: its place, the position in bytes of the node that determines it,
    and how."""

    _fields_ = [(name, _word) for name in ("place", "position", "kind")]


class Step(ctypes.Structure):
    """A launch: the `JobEntry` and the parameter block, the number of lanes, whether there are
    bounds checks, and the number of results so far."""

    _fields_ = [(name, _word) for name in ("entry", "block", "size", "checks", "results")]


class PlanRecord(ctypes.Structure):
    """Addresses of the operands of all launches, of those among them that are results, by their
    number, of the launches, and of the positions and the memory of the results; the words for
    errors; how many kernels were launched last and results made, and how often it was performed."""

    _fields_ = [
        (name, _word)
        for name in (
            "operands", "links", "steps", "count", "results", "positions", "rooms", "report",
            "done", "finished", "launches",
        )
    ]  # fmt: skip


class SizeOf(ctypes.Structure):
    """The number of lanes that the node at a position has to have."""

    _fields_ = [("position", _word), ("lanes", _word)]


class KnownPlan(ctypes.Structure):
    """A plan that is found by the key of an evaluation, which has a hash and a number of words, and
    by sizes; and the next one with such a hash."""

    _fields_ = [
        (name, _word) for name in ("next", "hash", "length", "key", "plan", "sizes", "count")
    ]


IS_INTEGER, IS_SINGLE, IS_DOUBLE, IS_BUFFER, IS_CHECK, IS_TARGET, IS_SIZE = range(7)
STRUCTURES: dict[str, Any] = {
    "plan": PlanRecord, "step": Step, "operand": Operand, "known": KnownPlan, "size": SizeOf,
}  # fmt: skip
SPARES = 16  # results of the largest plan that is found without Python
CONSTANTS = {
    "IS_SINGLE": IS_SINGLE, "IS_DOUBLE": IS_DOUBLE, "IS_BUFFER": IS_BUFFER, "IS_CHECK": IS_CHECK,
    "IS_TARGET": IS_TARGET, "IS_SIZE": IS_SIZE, "OPERAND": ctypes.sizeof(Operand),
    "IS_STATE": IS_STATE, "BODIES": BODIES, "NOTHING": NOTHING, "TYPE_AND_DATA": TYPE_AND_DATA,
    "TYPE_ONLY": TYPE_ONLY, "STEP": ctypes.sizeof(Step),
    "SIZES": ctypes.sizeof(SizeOf), "SPARES": SPARES,
}  # fmt: skip

CODE = """
# Writes to the parameter blocks what the nodes at `items` say; gives 0 if one says something else
# than the plan expects.
def write_operands(s, operand, items):
    while operand.place != 0:
        node = word(items + operand.position)
        data = node.data
        kind = operand.kind
        if kind == IS_TARGET:
            effect = data
            data = effect.buffer
            kind = IS_BUFFER
        if kind == IS_SIZE:
            effect = data
            data = effect.size
        if kind == IS_CHECK:
            data = word(data + ITEMS)
        if kind == IS_BUFFER:
            buffer = data
            if word(buffer + TYPE) != s.buffer_type:
                return 0
            if buffer.source != s.none:
                return 0
            data = buffer.address
        single = word(data + TYPE) == s.float_type
        if single != (kind == IS_SINGLE or kind == IS_DOUBLE):
            return 0
        if single:
            x = word(data + NUMBER)
            if kind == IS_SINGLE:
                x = rounded(x)
        else:
            x = call("i64(ptr)", s.unsigned, data)
        slot = operand.place
        slot.value = x
        operand = operand + OPERAND
    return 1

# Turns the nodes of the results that there are into buffers, and frees those of the others. Other
# code may run when operands are dropped, and so overwrite `items`, and one result may be all that
# holds another one.
def finish_results(s, plan, items, made):
    nodes = room(64)
    count = plan.finished
    results = plan.results
    k = 0
    while k < count:
        slot = nodes + 8 * k
        slot.value = word(items + word(plan.positions + 8 * k))
        call("void(ptr)", s.incref, slot.value)
        finish_node(s, slot.value, word(made + 8 * k))
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

# Whether the launches of a plan can be performed now, of which the words of the parameter blocks
# that nodes determine are written then.
def is_prepared(c, s, plan, items):
    if is_idle(c) and has_room(plan.rooms, plan.results) and plan.results <= s.spares_left:
        return write_operands(s, plan.operands, items)
    return 0

# Gives whether no index was out of bounds. If one was, nothing is launched after that kernel;
# `plan.done` and `plan.finished` are the numbers of launches and results that there are.
def launch_plan(c, s, plan, made):
    k = 0
    while k < plan.results:
        slot = made + 8 * k
        slot.value = taken(s, plan.rooms + ROOM * k)
        k = k + 1
    usage = s.usage
    usage.peak = max(usage.peak, usage.in_use)
    operand = plan.links
    while operand.place != 0:
        buffer = word(made + operand.position)
        slot = operand.place
        slot.value = call("i64(ptr)", s.unsigned, buffer.address)
        operand = operand + OPERAND
    k = 0
    failed = 0
    while k < plan.count and failed == 0:
        step = plan.steps + STEP * k
        slot = step.block
        slot.value = step.checks * plan.report
        run_entries(c, step.entry, step.block, step.size)
        plan.finished = step.results
        failed = word(plan.report)
        k = k + 1
    plan.done = k
    plan.launches = plan.launches + (failed == 0)
    return failed == 0

# Adds the effect of a node to the key; gives the new length, or 0 if there are several, or it
# has to wait for another one.
def push_effect(s, node, length):
    effect = node.data
    s.effects_met = s.effects_met + 1
    if s.effects_met > 1 or effect.shape != s.empty:
        return 0
    if word(effect.buffer + TYPE) != s.buffer_type:
        return 0
    k = 0
    while k < word(effect.order + SIZE):
        before = word(effect.order + ITEMS + 8 * k)
        if before.op != s.buffer:
            return 0
        k = k + 1
    return push(s, push(s, push(s, length, effect.dtype), effect.reduce), effect.mode)

# Adds an operation that is not element-wise; gives the new length, or 0 for loops, branches, and
# what is inside of them.
def push_special(s, node, length):
    op = node.op
    kind = call("i64(ptr)", s.integer, op.code) >> 8 & 15
    if kind == IS_STATE or kind == BODIES:
        return 0
    length = push(s, push(s, length, op), word(node.deps + SIZE))
    if kind == TYPE_AND_DATA or kind == TYPE_ONLY:
        length = push(s, length, node.dtype)
    if kind == TYPE_AND_DATA:
        data = node.data
        number = data != s.none
        if number:
            number = 1 + (word(data + TYPE) != s.int_type)
        length = push(s, length, number)
        if number == 1:
            data = call("i64(ptr)", s.unsigned, data)
        length = push(s, length, data)
    if kind == NOTHING:
        length = push_effect(s, node, length)
    return length

# Writes what an evaluation consists of to `s.key`, except for sizes, and the nodes in the order of
# their traversal to `s.order`; gives the number of words, or 0 if there is no plan for it.
def scan_plan(s, roots):
    s.stamp = s.stamp + 1
    s.inputs_met = 0
    s.literals_met = 0
    s.effects_met = 0
    last = word(roots + SIZE)
    if last > OUTPUTS:
        return 0
    k = 0
    while k < last:
        slot = s.order[k]
        slot.value = word(word(roots + LIST) + 8 * k)
        k = k + 1
    return scan_nodes(s, last, push(s, 0, last), 1)

# Whether the nodes at the positions in a table have the sizes there.
def has_sizes(s, known):
    size = known.sizes
    k = 0
    while k < known.count:
        slot = s.order[size.position]
        node = slot.value
        if call("i64(ptr)", s.integer, node.size) != size.lanes:
            return 0
        size = size + SIZES
        k = k + 1
    return 1

# The plan of the evaluation in `s.key` and `s.order`, or 0.
def find_plan(s, length):
    h = hashed(s, length)
    s.hash = h
    slot = s.plans[h >> 40]
    known = slot.value
    while known != 0:
        if known.hash == h and known.length == length:
            if is_equal(s, known.key, length):
                if has_sizes(s, known):
                    return known.plan
        known = known.next
    return 0

# True, or None if launches are not `good`.
def outcome(c, s, good):
    if good:
        return call("i64(i64)", c.truth, 1)
    call("void(ptr)", s.incref, s.none)
    return s.none

# Functions of Python: True if all kernels of a plan were launched, False if none was, and None if
# an index was out of bounds. The argument is the list of nodes in the order of their traversal.
def perform_plan(self, arguments, count):
    c = word(self + CONTENTS)
    s = word(self + CONTENTS + 8)
    plan = word(self + CONTENTS + 16)
    items = word(word(arguments) + LIST)
    made = room(64)
    if prepare(s, plan.results) == 0:
        return 0
    if is_prepared(c, s, plan, items):
        good = launch_plan(c, s, plan, made)
        finish_results(s, plan, items, made)
        return outcome(c, s, good)
    return call("i64(i64)", c.truth, 0)

# Finds the plan first, of which `s.plan` is the record; the argument is the list of nodes to be
# evaluated. If an index was out of bounds, it becomes that of all nodes.
def again_plan(self, arguments, count):
    c = word(self + CONTENTS)
    s = word(self + CONTENTS + 8)
    roots = word(arguments)
    made = room(64)
    if prepare(s, SPARES) == 0:
        return 0
    length = 0
    if is_idle(c):
        length = scan_plan(s, roots)
    plan = 0
    if length > 0:
        plan = find_plan(s, length)
    s.plan = plan
    if plan != 0:
        if is_prepared(c, s, plan, s.order[0]):
            good = launch_plan(c, s, plan, made)
            if good == 0:
                k = word(roots + SIZE)
                while k < s.visited:
                    slot = s.order[k]
                    call("i32(ptr, ptr)", s.append, roots, slot.value)
                    k = k + 1
            finish_results(s, plan, s.order[0], made)
            return outcome(c, s, good)
    return call("i64(i64)", c.truth, 0)

# Gives whether an evaluation can have a plan that this code finds. `s.length` is the number of
# words in `s.key`, and `s.plan` the plan that is known.
def examine_plan(self, arguments, count):
    c = word(self + CONTENTS)
    s = word(self + CONTENTS + 8)
    s.plan = 0
    s.length = scan_plan(s, word(arguments))
    if s.length > 0:
        s.plan = find_plan(s, s.length)
    return call("i64(i64)", c.truth, s.length > 0)
"""

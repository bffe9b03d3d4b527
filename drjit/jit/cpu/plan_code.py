"""The code that performs the launches of an `EvaluationPlan`; `plans.py` makes the records. It is
compiled with that in `program_code.py`, whose functions it uses."""

import ctypes
from typing import Any

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
    errors; how many kernels were launched last, and how often it was performed."""

    _fields_ = [
        (name, _word)
        for name in (
            "operands", "links", "steps", "count", "results", "positions", "rooms", "report",
            "done", "launches",
        )
    ]  # fmt: skip


IS_INTEGER, IS_SINGLE, IS_DOUBLE, IS_BUFFER, IS_CHECK, IS_TARGET, IS_SIZE = range(7)
STRUCTURES: dict[str, Any] = {"plan": PlanRecord, "step": Step, "operand": Operand}
CONSTANTS = {
    "IS_SINGLE": IS_SINGLE, "IS_DOUBLE": IS_DOUBLE, "IS_BUFFER": IS_BUFFER, "IS_CHECK": IS_CHECK,
    "IS_TARGET": IS_TARGET, "IS_SIZE": IS_SIZE, "OPERAND": ctypes.sizeof(Operand),
    "STEP": ctypes.sizeof(Step),
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

# Turns the nodes of the first results into buffers, and frees those of the others.
def finish_results(s, plan, items, made, count):
    k = 0
    while k < count:
        slot = s.order[k]
        slot.value = word(items + word(plan.positions + 8 * k))
        k = k + 1
    s.outputs = count
    finish_nodes(s, made)
    k = 0
    while k < count:
        drop_operands(s, word(items + word(plan.positions + 8 * k)))
        k = k + 1
    while k < plan.results:
        call("void(ptr)", s.decref, word(made + 8 * k))
        k = k + 1

# Gives whether no index was out of bounds. If one was, nothing is launched after that kernel;
# `plan.done` says how many were.
def launch_plan(c, s, plan, items):
    made = room(64)
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
    count = 0
    failed = 0
    while k < plan.count and failed == 0:
        step = plan.steps + STEP * k
        slot = step.block
        slot.value = step.checks * plan.report
        run_entries(c, step.entry, step.block, step.size)
        count = step.results
        failed = word(plan.report)
        k = k + 1
    plan.done = k
    plan.launches = plan.launches + (failed == 0)
    finish_results(s, plan, items, made, count)
    return failed == 0

# A function of Python, whose argument is the list of nodes in the order of their traversal: True if
# all kernels were launched, False if none was, and None if an index was out of bounds.
def perform_plan(self, arguments, count):
    c = word(self + CONTENTS)
    s = word(self + CONTENTS + 8)
    plan = word(self + CONTENTS + 16)
    items = word(word(arguments) + LIST)
    if prepare(s, plan.results) == 0:
        return 0
    if is_idle(c) and has_room(plan.rooms, plan.results):
        if write_operands(s, plan.operands, items):
            if launch_plan(c, s, plan, items):
                return call("i64(i64)", c.truth, 1)
            call("void(ptr)", s.incref, s.none)
            return s.none
    return call("i64(i64)", c.truth, 0)
"""

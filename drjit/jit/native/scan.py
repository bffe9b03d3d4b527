"""Goes through the nodes of an evaluation, and writes down what it consists of. Nothing changes,
and no code of Python's runs.
"""

from ..text.structure import BODIES, IS_STATE, NOTHING, TYPE_AND_DATA, TYPE_ONLY
from .language import Word, call, put, word
from .objects import (
    INPUTS,
    ITEMS,
    LIST,
    LITERALS,
    LOOPS,
    NUMBER,
    OUTPUTS,
    REFERENT,
    SIZE,
    TYPE,
    VISITS,
    WORDS,
    Buffer,
    Effect,
    Node,
    Op,
    OpenRegion,
    Scan,
)

FACTOR = 0x1E3779B97F4A7C15


def is_plain(s: Scan, x: Word) -> Word:
    """Whether an operation is element-wise."""
    k = x >> 4
    while 1:
        found = word(s.plain[k])
        if found == x:
            return 1
        if found == 0:
            return 0
        k = k + 1


def met(s: Scan, x: Word, number: Word) -> Word:
    """The number of a node if it was met before in this scan; otherwise, notes `number` and gives
    -1."""
    k = x >> 4
    while 1:
        cell = s.cells[k]
        if cell.stamp != s.stamp:
            cell.stamp = s.stamp
            cell.object = x
            cell.number = number
            return -1
        if cell.object == x:
            return cell.number
        k = k + 1


def push(s: Scan, length: Word, x: Word) -> Word:
    put(s.key[length], x)
    return length + 1


def push_operands(s: Scan, node: Node, last: Word) -> Word:
    """Adds the operands of a node to the order of the traversal; gives its new length."""
    items = node.deps + ITEMS
    count = word(node.deps + SIZE)
    k = 0
    while k < count:
        put(s.order[last + k], word(items + 8 * k))
        k = k + 1
    return last + count


def push_literal(s: Scan, node: Node, length: Word) -> Word:
    """Adds a literal to the key, or the number of an equal one; gives the new length, or 0 for a
    number that is compared in other ways."""
    data = node.data
    kind = word(data + TYPE)
    single = kind == s.float_type
    if single:
        bits = word(data + NUMBER)
        if (bits >> 52) & 2047 == 2047:
            return 0
    else:
        if kind != s.int_type and kind != s.bool_type:
            return 0
        bits = call("i64(ptr)", s.unsigned, data)
    k = 0
    while k < s.literals_met:
        literal = s.literals[k]
        if literal.dtype == node.dtype and literal.bits == bits:
            return push(s, length, 2 * literal.number + 1)
        k = k + 1
    if k == LITERALS:
        return 0
    literal = s.literals[k]
    literal.dtype = node.dtype
    literal.bits = bits
    literal.number = length
    s.literals_met = k + 1
    length = push(s, length, node.op)
    return push(s, length, node.dtype + single)


def push_buffer(s: Scan, node: Node, length: Word) -> Word:
    """Adds data in memory; gives the new length, or 0 where it belongs to another device or may
    have errors."""
    buffer: Buffer = node.data
    if word(buffer + TYPE) != s.buffer_type or s.inputs_met == INPUTS:
        return 0
    if buffer.source != s.none:
        return 0
    put(s.inputs[s.inputs_met], call("i64(ptr)", s.unsigned, buffer.address))
    s.inputs_met = s.inputs_met + 1
    length = push(s, length, node.op)
    alone = call("i64(ptr)", s.integer, node.size) == 1
    return push(s, length, node.dtype + alone)


def push_operation(s: Scan, node: Node, length: Word) -> Word:
    """Adds an operation; gives the new length, or 0 where its data are compared in other ways."""
    length = push(s, length, node.op)
    if word(node.deps + SIZE) != 1:
        return length
    length = push(s, length, node.dtype)
    data = node.data
    if data == s.none:
        return push(s, length, 0)
    if word(data + TYPE) != s.int_type:
        return 0
    length = push(s, length, 1)
    return push(s, length, call("i64(ptr)", s.unsigned, data))


def push_effect(s: Scan, node: Node, length: Word) -> Word:
    """Adds the effect of a node to the key; gives the new length, or 0 if there are several, or it
    has to wait for another one."""
    effect: Effect = node.data
    s.effects_met = s.effects_met + 1
    if s.effects_met > 1 or effect.shape != s.empty:
        return 0
    if word(effect.buffer + TYPE) != s.buffer_type:
        return 0
    k = 0
    while k < word(effect.order + SIZE):
        before: Node = word(effect.order + ITEMS + 8 * k)
        if before.op != s.buffer:
            return 0
        k = k + 1
    return push(s, push(s, push(s, length, effect.dtype), effect.reduce), effect.mode)


def push_region(s: Scan, node: Node, length: Word) -> Word:
    """Adds what a loop or branch has besides its operands: two numbers, of which the first one is
    that of its variables, and for a branch one for each body. Gives the new length, or 0 if a body
    belongs to other calls as well."""
    region: OpenRegion = node.data
    if region.shared != s.none or s.loops_met == LOOPS:
        return 0
    counts = region.counts + ITEMS
    variables = call("i64(ptr)", s.integer, word(counts))
    depth = call("i64(ptr)", s.integer, region.depth)
    if depth == 1 and word(region.counts + SIZE) == 2:
        put(s.loops[s.loops_met], node)
        s.loops_met = s.loops_met + 1
    length = push(s, push(s, length, depth), variables)
    length = push(s, length, call("i64(ptr)", s.integer, word(counts + 8)))
    states = variables + 1
    if word(region.counts + SIZE) == 3:  # a branch
        bodies = word(counts + 16)
        if word(bodies + SIZE) > 8:
            return 0
        states = variables * word(bodies + SIZE)
        k = 0
        while k < word(bodies + SIZE):
            length = push(s, length, call("i64(ptr)", s.integer, word(bodies + ITEMS + 8 * k)))
            k = k + 1
    s.open = s.open - states
    return length


def is_complete(s: Scan) -> Word:
    """Whether nothing is left to compute of the outermost loops that were met, which would run
    again for it, and none is still being recorded."""
    k = 0
    while k < s.loops_met:
        node: Node = word(s.loops[k])
        region: OpenRegion = node.data
        values = word(region.values + LIST)
        last = values + 8 * word(region.values + SIZE)
        while values < last:
            value: Node = word(word(values) + REFERENT)
            if value != s.none and value.op != s.buffer and met(s, value, 0) < 0:
                return 0
            values = values + 8
        k = k + 1
    return s.open == 0


def push_special(s: Scan, node: Node, length: Word) -> Word:
    """Adds an operation that is not element-wise; gives the new length, or 0 if it cannot be
    compared by words."""
    op: Op = node.op
    kind = call("i64(ptr)", s.integer, op.code) >> 8 & 15
    length = push(s, push(s, length, op), word(node.deps + SIZE))
    if kind == BODIES:
        return push_region(s, node, length)
    if kind in (TYPE_AND_DATA, TYPE_ONLY, IS_STATE):
        length = push(s, length, node.dtype)
    s.open = s.open + (kind == IS_STATE)
    if kind in (TYPE_AND_DATA, IS_STATE):
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


def scan_nodes(s: Scan, last: Word, length: Word) -> Word:
    """Adds the nodes in `s.order`, of which there are `last` so far, and their operands to the key
    after `length` words; gives the number of words then."""
    outputs = last
    k = 0
    while k < last:
        if length > WORDS - 16:
            return 0
        node: Node = word(s.order[k])
        number = met(s, node, length)
        if number >= 0:
            if k < outputs:
                return 0
            length = push(s, length, 2 * number + 1)
        elif node.op == s.literal:
            length = push_literal(s, node, length)
        elif node.op == s.buffer:
            length = push_buffer(s, node, length)
        elif last + word(node.deps + SIZE) > VISITS:
            return 0
        else:
            last = push_operands(s, node, last)
            if is_plain(s, node.op):
                length = push_operation(s, node, length)
            else:
                length = push_special(s, node, length)
        if length == 0:
            return 0
        k = k + 1
    s.visited = last
    return length


def scan_plan(s: Scan, roots: Word) -> Word:
    """Writes what an evaluation consists of to `s.key`, except for sizes, and the nodes in the
    order of their traversal to `s.order`; gives the number of words, or 0 if there is no plan for
    it."""
    s.stamp = s.stamp + 1
    s.inputs_met = 0
    s.literals_met = 0
    s.effects_met = 0
    s.loops_met = 0
    s.open = 0
    count = word(roots + SIZE)
    items = word(roots + LIST)
    if count > OUTPUTS:
        return 0
    last = 0
    k = 0
    while k < count:
        node: Node = word(items + 8 * k)
        if node.op not in (s.literal, s.buffer):
            put(s.order[last], node)
            last = last + 1
        k = k + 1
    length = scan_nodes(s, last, push(s, 0, last))
    if last == 0 or (s.inputs_met == 0 and s.effects_met == 0):  # which may be for another device
        return 0
    if length != 0 and is_complete(s) == 0:
        return 0
    return length


def hashed(s: Scan, length: Word) -> Word:
    h = length
    k = 0
    while k < length:
        h = (h + word(s.key[k])) * FACTOR
        h = h + (h >> 32)
        k = k + 1
    return h


def is_equal(s: Scan, place: Word, length: Word) -> Word:
    k = 0
    while k < length:
        if word(s.key[k]) != word(place + 8 * k):
            return 0
        k = k + 1
    return 1

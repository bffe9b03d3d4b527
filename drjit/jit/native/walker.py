"""Goes through the nodes of a program for `structure.ProgramGraph`, and makes those of a
`Template`: what takes Python 0.2 us for each operand takes this a tenth.
"""

from ..text.structure import (
    BODIES,
    CHECK,
    IS_BUFFER,
    IS_LITERAL,
    IS_STATE,
    PLAIN,
    TYPE_AND_DATA,
    TYPE_ONLY,
)
from .language import Word, call, put, word
from .objects import (
    CONTENTS,
    DIGIT,
    ITEMS,
    KEY_WORDS,
    LARGEST_DIGIT,
    LIST,
    MOST_LITERALS,
    NUMBER,
    NUMBERS,
    SIZE,
    TYPE,
    DType,
    Node,
    Op,
    Walk,
    offset,
)

FACTOR, FRACTION = 0x1E3779B97F4A7C15, (1 << 52) - 1
MARK, ID = offset(Node, "mark"), offset(Node, "id")


def hold(s: Walk, x: Word) -> Word:
    call("void(ptr)", s.incref, x)
    return x


def push(s: Walk, x: Word) -> Word:
    put(s.key[s.length], x)
    s.length = s.length + 1


def append(s: Walk, items: Word, x: Word) -> Word:
    if call("i32(ptr, ptr)", s.append, items, x) != 0:
        s.failed = 1


def replace(place: Word, x: Word, s: Walk) -> Word:
    """Turns an attribute of a node, given by its address, into another object."""
    before = word(place)
    put(place, x)
    call("void(ptr)", s.decref, before)


def small(x: Word) -> Word:
    """The value of a Python number that is neither negative nor large."""
    return word(x + DIGIT) & LARGEST_DIGIT


def settle(s: Walk, node: Node, position: Word) -> Word:
    """Notes the position of a node, or of the first one that equals it."""
    if position < NUMBERS:
        x = hold(s, word(s.numbers + 8 * position))
    else:
        x = call("i64(i64)", s.number, position)
        if x == 0:
            s.failed = 1
    replace(node + ID, x, s)


def first_equal(s: Walk, node: Node, position: Word) -> Word:
    """The position of the first literal that equals this one, which it is if there is none; -1 for
    what is compared in other ways."""
    data = node.data
    kind = word(data + TYPE)
    if kind == s.float_type:
        bits = word(data + NUMBER)
        if (bits >> 52) & 2047 == 2047 and bits & FRACTION != 0:
            return -1
    else:
        if kind != s.int_type and kind != s.bool_type:
            return -1
        bits = call("i64(ptr)", s.unsigned, data)
    k = ((bits + node.dtype) * FACTOR) >> 40
    while 1:
        literal = s.literals[k]
        if literal.stamp != s.stamp:
            literal.stamp = s.stamp
            literal.dtype = node.dtype
            literal.bits = bits
            literal.number = position
            s.literals_met = s.literals_met + 1
            return position
        if literal.dtype == node.dtype and literal.bits == bits:
            return literal.number
        k = k + 1


def add_operands(s: Walk, order: Word, node: Node) -> Word:
    items = node.deps + ITEMS
    count = word(node.deps + SIZE)
    k = 0
    while k < count:
        append(s, order, word(items + 8 * k))
        k = k + 1
    return count


def push_data(s: Walk, rows: Word, data: Word) -> Word:
    """What is no number among the data of nodes is added to `rows`."""
    if data == s.none:
        push(s, 0)
    else:
        if word(data + TYPE) == s.int_type:
            push(s, 1)
            push(s, call("i64(ptr)", s.unsigned, data))
        else:
            push(s, 2)
            append(s, rows, data)


def type_of(s: Walk, node: Node) -> Word:
    dtype: DType = node.dtype
    return small(dtype.number) << 9


def is_in_memory(s: Walk, node: Node, reads: Word) -> Word:
    """Whether the operands that an operation reads as memory, one for each bit, are there."""
    items = node.deps + ITEMS
    count = word(node.deps + SIZE)
    k = 0
    while k < count:
        operand: Node = word(items + 8 * k)
        if reads >> k & 1 and operand.op != s.buffer:
            return 0
        k = k + 1
    return reads != 0


def add_special(s: Walk, arguments: Word, node: Node, start: Word, code: Word) -> Word:
    """A node that is neither plain arithmetic nor a literal or a buffer."""
    kind = code >> 8 & 15
    if kind in (TYPE_AND_DATA, IS_STATE, TYPE_ONLY):
        start = start + type_of(s, node)
    push(s, start)
    push(s, add_operands(s, word(arguments), node))
    if code >> 12 & 1 and is_in_memory(s, node, code >> 16) == 0:
        append(s, word(arguments + 24), node)
    if kind == CHECK:
        append(s, word(arguments + 32), node)
    if kind in (IS_STATE, BODIES):
        append(s, word(arguments + 40), node)
    if kind in (TYPE_AND_DATA, IS_STATE):
        push_data(s, word(arguments + 48), node.data)


def visit(s: Walk, arguments: Word, node: Node, position: Word) -> Word:
    """Goes through a node that was not visited before; gives 0 where Python has to."""
    op: Op = node.op
    code = small(op.code)
    kind = code >> 8 & 15
    start = 2 * (code & 255)
    if kind == IS_LITERAL:
        first = first_equal(s, node, position)
        if first < 0 or s.literals_met > MOST_LITERALS:
            return 0
        settle(s, node, first)
        if first == position:
            append(s, word(arguments + 16), node)
            push(s, start + type_of(s, node))
        else:
            push(s, 2 * first + 1)
        return 1
    settle(s, node, position)
    if kind == PLAIN:
        if word(node.deps + SIZE) == 1:
            push(s, start + type_of(s, node))
            push_data(s, word(arguments + 48), node.data)
        else:
            push(s, start)
        add_operands(s, word(arguments), node)
    else:
        if kind == IS_BUFFER:
            append(s, word(arguments + 8), node)
            alone = call("i64(ptr)", s.integer, node.size) == 1
            push(s, start + type_of(s, node) + (alone << 48))
        else:
            add_special(s, arguments, node, start, code)
    return 1


def collect_nodes(self: Word, arguments: Word, count: Word) -> Word:
    """A function of Python, in which no code of Python's runs: what `ProgramGraph._visit` is, or
    None where Python has to do this."""
    s: Walk = word(self + CONTENTS)
    order = word(arguments)
    mark = word(arguments + 56)
    k = call("i64(ptr)", s.integer, word(arguments + 64))
    if k == 0:
        s.stamp = s.stamp + 1
        s.literals_met = 0
        s.owner = mark
    if s.owner != mark:
        return hold(s, s.none)
    s.length = 0
    s.failed = 0
    push(s, word(order + SIZE) - k)
    while k < word(order + SIZE):
        node: Node = word(word(order + LIST) + 8 * k)
        if node.mark == mark:
            push(s, 2 * small(node.id) + 1)
        else:
            replace(node + MARK, hold(s, mark), s)
            if visit(s, arguments, node, k) == 0 or s.length > KEY_WORDS - 8:
                return hold(s, s.none)
        if s.failed:
            return 0
        k = k + 1
    return call("i64(ptr, i64)", s.bytes, s.key[0], 8 * s.length)


def operands(s: Walk, values: Word, place: Word, length: Word) -> Word:
    """A tuple of values at positions."""
    made = call("i64(i64)", s.tuple, length)
    k = 0
    while made != 0 and k < length:
        put(made + ITEMS + 8 * k, hold(s, word(word(values + LIST) + 8 * word(place + 8 * k))))
        k = k + 1
    return made


def remake(self: Word, arguments: Word, count: Word) -> Word:
    """A function of Python. Arguments: the list of values, the number of lanes, and the steps of
    the template as bytes: operation, type and data of a node, the number of its operands, and their
    positions among the values. Adds the nodes. The garbage collector may run code of Python's."""
    s: Walk = word(self + CONTENTS)
    values = word(arguments)
    steps = word(arguments + 16)
    at = steps + CONTENTS
    end = at + word(steps + SIZE)
    while at < end:
        node: Node = call("i64(ptr, i64)", s.allocate, s.node_type, 0)
        if node == 0:
            return 0
        node.op = hold(s, word(at))
        node.dtype = hold(s, word(at + 8))
        node.data = hold(s, word(at + 16))
        node.size = hold(s, word(arguments + 8))
        node.mark = hold(s, s.none)
        node.serial = call("i64(ptr)", s.next, s.serials)
        length = word(at + 24)
        node.deps = operands(s, values, at + 32, length)
        failed = node.serial == 0 or node.deps == 0
        if failed == 0:
            failed = call("i32(ptr, ptr)", s.append, values, node)
        call("void(ptr)", s.decref, node)
        if failed:
            return 0
        at = at + 32 + 8 * length
    return hold(s, s.none)

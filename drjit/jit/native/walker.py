"""Traverses the nodes of a program, for `structure.ProgramGraph` and for plans (`scan`), and
creates those of a `Template`: in a tenth of the 0.2 us that Python takes for each operand.
"""

from ..text import structure
from . import objects
from .language import Word, address, call, put, word
from .references import hold, replace

FACTOR, FRACTION = 0x1E3779B97F4A7C15, (1 << 52) - 1
LARGEST_POSITION = (1 << 20) - 1


def push(s: objects.Scan, x: Word) -> Word:
    put(s.key[s.length], x)
    s.length = s.length + 1


def note(s: objects.Scan, number: Word, x: Word) -> Word:
    """Notes something for one of the lists of a graph (`INPUTS`, ...)."""
    entry = s.noted[s.notes]
    entry.list = number
    entry.thing = x
    s.notes = s.notes + 1


def append(s: objects.Scan, items: Word, x: Word) -> Word:
    if call("i32(ptr, ptr)", s.append, items, x) != 0:
        s.failed = 1


def small(x: Word) -> Word:
    """The value of a Python number that is neither negative nor large."""
    return word(x + objects.DIGIT) & objects.LARGEST_DIGIT


def cell_of(s: objects.Scan, node: Word) -> objects.NodeCell:
    """The cell of a node in the table of nodes met in this walk, or the free cell where it
    belongs."""
    k = node >> 4
    while 1:
        cell = s.cells[k]
        if cell.state >> 20 != s.stamp or cell.object == node:
            return cell
        k = k + 1


def is_met(s: objects.Scan, node: Word) -> Word:
    """Whether this walk has met a node."""
    cell = cell_of(s, node)
    return cell.state >> 20 == s.stamp


def position_of(s: objects.Scan, node: Word) -> Word:
    """The position of a node that was met, or of the first one that equals it."""
    cell = cell_of(s, node)
    return cell.state & LARGEST_POSITION


def settle(s: objects.Scan, node: objects.Node) -> Word:
    """Marks a node that was met, and notes its position in it."""
    position = position_of(s, node)
    if position < objects.POSITIONS:
        x = hold(s, word(s.positions + 8 * position))
    else:
        x = call("i64(i64)", s.number, position)
        if x == 0:
            s.failed = 1
            return 0
    before = node.id
    node.id = x
    call("void(ptr)", s.decref, before)
    replace(s, address(node.mark), s.mark)


def first_equal(s: objects.Scan, node: objects.Node, position: Word) -> Word:
    """The position of the first literal that equals this one, which may be this one itself; -1 for
    values that Python has to compare."""
    data = node.data
    kind = word(data + objects.TYPE)
    if kind == s.float_type:
        bits = word(data + objects.NUMBER)
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


def add_operands(s: objects.Scan, node: objects.Node) -> Word:
    items = node.deps + objects.ITEMS
    count = word(node.deps + objects.SIZE)
    for k in range(count):
        put(s.order[s.visited + k], word(items + 8 * k))
    s.visited = s.visited + count
    return count


def push_data(s: objects.Scan, data: Word) -> Word:
    """Adds the data of a node to the key; data that are not numbers are noted."""
    if data == s.none:
        push(s, 0)
    else:
        if word(data + objects.TYPE) == s.int_type:
            push(s, 1)
            push(s, call("i64(ptr)", s.unsigned, data))
        else:
            push(s, 2)
            note(s, objects.ROWS, data)


def type_of(s: objects.Scan, node: objects.Node) -> Word:
    dtype: objects.DType = node.dtype
    return small(dtype.number) << 9


def is_in_memory(s: objects.Scan, node: objects.Node, reads: Word) -> Word:
    """Whether the operands that an operation reads as memory (the bits of `reads`) are buffers."""
    items = node.deps + objects.ITEMS
    count = word(node.deps + objects.SIZE)
    for k in range(count):
        operand: objects.Node = word(items + 8 * k)
        if reads >> k & 1 and operand.op != s.buffer:
            return 0
    return reads != 0


def kind_of(node: objects.Node) -> Word:
    """What identifies a node besides its operation and its operands (see `structure`)."""
    op: objects.Op = node.op
    return small(op.code) >> 8 & 15


def add_special(s: objects.Scan, node: objects.Node, start: Word, code: Word) -> Word:
    """Adds a node to the key that is neither plain arithmetic nor a literal or a buffer."""
    kind = code >> 8 & 15
    if kind in (structure.TYPE_AND_DATA, structure.IS_STATE, structure.TYPE_ONLY):
        start = start + type_of(s, node)
    push(s, start)
    push(s, add_operands(s, node))
    if code >> 12 & 1 and is_in_memory(s, node, code >> 16) == 0:
        note(s, objects.NOTED, node)
    if kind == structure.CHECK:
        note(s, objects.CHECKS, node)
    if kind in (structure.IS_STATE, structure.BODIES):
        note(s, objects.REGIONS, node)
    if kind in (structure.TYPE_AND_DATA, structure.IS_STATE):
        push_data(s, node.data)


def visit(s: objects.Scan, node: objects.Node, position: Word, cell: objects.NodeCell) -> Word:
    """Adds a node that was not met before to the key, and its operands to the order; returns 0
    where Python has to do this."""
    op: objects.Op = node.op
    code = small(op.code)
    kind = code >> 8 & 15
    start = 2 * (code & 255)
    if kind == structure.IS_LITERAL:
        first = first_equal(s, node, position)
        if first < 0 or s.literals_met > objects.MOST_LITERALS:
            return 0
        if first == position:
            note(s, objects.LITERALS, node)
            push(s, start + type_of(s, node))
        else:
            cell.state = s.stamp << 20 | first
            push(s, 2 * first + 1)
        return 1
    if s.visited + word(node.deps + objects.SIZE) > objects.VISITS:
        return 0
    if kind == structure.ELEMENTWISE:
        if word(node.deps + objects.SIZE) == 1:
            push(s, start + type_of(s, node))
            push_data(s, node.data)
        else:
            push(s, start)
        add_operands(s, node)
    else:
        if kind == structure.IS_BUFFER:
            note(s, objects.INPUTS, node)
            alone = call("i64(ptr)", s.integer, node.size) == 1
            push(s, start + type_of(s, node) + (alone << 48))
        else:
            add_special(s, node, start, code)
    return 1


def begin(s: objects.Scan) -> Word:
    """Begins a walk."""
    s.stamp = s.stamp + 1
    s.visited = 0
    s.notes = 0
    s.literals_met = 0
    s.length = 0


def walk(s: objects.Scan, k: Word, most: Word) -> Word:
    """Visits the nodes in `s.order` from position `k` on, and adds those that they depend on. Their
    key is appended to `s.key`, up to `most` words. Returns 0 where Python has to do this."""
    while k < s.visited:
        node: objects.Node = word(s.order[k])
        cell = cell_of(s, node)
        if cell.state >> 20 == s.stamp:
            push(s, 2 * (cell.state & LARGEST_POSITION) + 1)
        else:
            cell.object = node
            cell.state = s.stamp << 20 | k
            if visit(s, node, k, cell) == 0:
                return 0
        if s.length > most - 8 or s.notes > objects.NOTES - 8:
            return 0
        k = k + 1
    return 1


def collect_nodes(self: Word, arguments: Word, count: Word) -> Word:
    """Called by Python in place of `structure.collect_nodes`; returns None where Python has to do
    this. No Python code runs inside."""
    s: objects.Scan = word(self + objects.CONTENTS)
    order = word(arguments)
    last = word(order + objects.SIZE)
    if last > objects.VISITS:
        return hold(s, s.none)
    begin(s)
    s.mark = word(arguments + 56)
    while s.visited < last:
        put(s.order[s.visited], word(word(order + objects.LIST) + 8 * s.visited))
        s.visited = s.visited + 1
    s.failed = 0
    push(s, last)
    if walk(s, 0, objects.KEY_WORDS) == 0:
        return hold(s, s.none)
    for n in range(last, s.visited):
        append(s, order, word(s.order[n]))
    for n in range(s.visited):
        node: objects.Node = word(s.order[n])
        if node.mark != s.mark:
            settle(s, node)
    for n in range(s.notes):
        entry = s.noted[n]
        append(s, word(arguments + 8 * entry.list), entry.thing)
    if s.failed:
        return 0
    return call("i64(ptr, i64)", s.bytes, s.key[0], 8 * s.length)


def operands(s: objects.Scan, values: Word, place: Word, length: Word) -> Word:
    """A tuple of values at positions."""
    made = call("i64(i64)", s.tuple, length)
    k = 0
    while made != 0 and k < length:
        put(
            made + objects.ITEMS + 8 * k,
            hold(s, word(word(values + objects.LIST) + 8 * word(place + 8 * k))),
        )
        k = k + 1
    return made


def remake(self: Word, arguments: Word, count: Word) -> Word:
    """Called by Python: appends the nodes of a template to a list of values. The arguments are the
    list, the number of lanes, and the steps of the template as bytes: operation, type and data of a
    node, the number of its operands, and their positions in the list. The garbage collector may run
    Python code."""
    s: objects.Scan = word(self + objects.CONTENTS)
    values = word(arguments)
    steps = word(arguments + 16)
    at = steps + objects.CONTENTS
    end = at + word(steps + objects.SIZE)
    while at < end:
        node: objects.Node = call("i64(ptr, i64)", s.allocate, s.node_type, 0)
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

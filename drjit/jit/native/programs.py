"""Evaluates known programs: goes through the nodes, finds the program by what it consists of, and
launches its kernel. Another `evaluate` for programs of plain arithmetic on few lanes, which are
over before Python's would have begun. Until a kernel is launched nothing has changed, and no code
of Python's runs.
"""

from .language import NULL, Word, call, put, room, rounded, word
from .launcher import PATCH, is_idle, run_entries
from .objects import (
    CONTENTS,
    INPUTS,
    ITEMS,
    LIST,
    LITERALS,
    NUMBER,
    OUTPUTS,
    SIZE,
    TYPE,
    VISITS,
    WORDS,
    Block,
    Buffer,
    Control,
    LaunchRecord,
    Node,
    Patch,
    Pick,
    Record,
    Result,
    Room,
    Scan,
    Usage,
    size_of,
)
from .special import push, push_special

ROOM, PICK, RESULT = size_of(Room), size_of(Pick), size_of(Result)
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


def begin_scan(s: Scan, roots: Word) -> Word:
    """Collects the nodes to be computed; gives their number, or 0 if some are not plain or of
    another size than the others."""
    s.stamp = s.stamp + 1
    s.inputs_met = 0
    s.literals_met = 0
    count = word(roots + SIZE)
    items = word(roots + LIST)
    if count > OUTPUTS:
        return 0
    found = 0
    k = 0
    while k < count:
        node: Node = word(items + 8 * k)
        if is_plain(s, node.op):
            size = call("i64(ptr)", s.integer, node.size)
            if found == 0:
                s.size = size
            if size != s.size:
                return 0
            put(s.order[found], node)
            found = found + 1
        else:
            if node.op != s.literal and node.op != s.buffer:
                return 0
        k = k + 1
    s.outputs = found
    return found


def scan(s: Scan, roots: Word) -> Word:
    """Writes what the program consists of to `s.key`; gives the number of words, or 0 if it has
    anything but plain operations, literals and data, or is large."""
    last = begin_scan(s, roots)
    if last == 0:
        return 0
    return scan_nodes(s, last, push(s, push(s, 0, last), s.size), 0)


def scan_nodes(s: Scan, last: Word, length: Word, special: Word) -> Word:
    """Adds the nodes in `s.order`, of which there are `last` so far, and their operands to the key
    after `length` words; gives the number of words then. `special` says whether there may be
    operations that are not element-wise."""
    outputs = last
    k = 0
    while k < last:
        if last > VISITS - 8 or length > WORDS - 16:
            return 0
        node: Node = word(s.order[k])
        number = met(s, node, length)
        if number >= 0:
            if k < outputs:
                return 0
            length = push(s, length, 2 * number + 1)
        else:
            if node.op == s.literal:
                length = push_literal(s, node, length)
            else:
                if node.op == s.buffer:
                    length = push_buffer(s, node, length)
                else:
                    plain = is_plain(s, node.op)
                    if plain | special == 0 or word(node.deps + SIZE) > 8:
                        return 0
                    last = push_operands(s, node, last)
                    if plain:
                        length = push_operation(s, node, length)
                    else:
                        length = push_special(s, node, length)
            if length == 0:
                return 0
        k = k + 1
    s.visited = last
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


def find(s: Scan, length: Word) -> Record:
    """The record of the program in `s.key`, or 0."""
    h = hashed(s, length)
    s.hash = h
    record: Record = word(s.heads[h >> 40])
    while record != 0:
        if record.hash == h and record.length == length and is_equal(s, record.key, length):
            return record
        record = record.next
    return NULL


def has_room(rooms: Word, count: Word) -> Word:
    """Whether the pools have memory for all results."""
    k = 0
    while k < count:
        room: Room = rooms + ROOM * k
        if word(room.pool + SIZE) < room.needed:
            return 0
        k = k + 1
    return 1


def fill(s: Scan, record: Record) -> Word:
    """Writes the words of inputs and literals to the parameter block; gives the number of words."""
    put(s.block[0], 0)
    k = 0
    while k < record.inputs:
        x = word(s.inputs[word(record.input_order + 8 * k)])
        k = k + 1
        put(s.block[k], x)
    at = k + 1
    k = 0
    while k < record.literals:
        pick: Pick = record.literal_order + PICK * k
        literal = s.literals[pick.index]
        x = literal.bits
        if pick.rounds:
            x = rounded(x)
        put(s.block[at + k], x)
        k = k + 1
    return at + k


def taken(s: Scan, room: Room) -> Buffer:
    """Takes memory from a pool for a buffer that is ready; gives the buffer."""
    pool = room.pool
    last = word(pool + SIZE) - 1
    put(pool + SIZE, last)
    block: Block = word(word(pool + LIST) + 8 * last)
    s.spares_left = s.spares_left - 1
    buffer: Buffer = word(s.spares[s.spares_left])
    buffer._block = block
    buffer.address = block.address
    buffer.source = s.none
    call("void(ptr)", s.incref, block.address)
    call("void(ptr)", s.incref, s.none)
    put(s.usage, word(s.usage) + room.capacity)
    return buffer


def finish_node(s: Scan, node: Node, buffer: Buffer) -> Word:
    """Turns a node into a buffer that is there."""
    data = node.data
    o = node.op
    node.data = buffer
    node.op = s.buffer
    call("void(ptr)", s.incref, s.buffer)
    call("void(ptr)", s.decref, data)
    call("void(ptr)", s.decref, o)


def drop_operands(s: Scan, node: Node) -> Word:
    """Drops the operands of a node that has become a buffer. Destructors may run."""
    deps = node.deps
    if node.op == s.buffer and deps != s.empty:
        node.deps = s.empty
        call("void(ptr)", s.incref, s.empty)
        call("void(ptr)", s.decref, deps)


def fire(c: Control, s: Scan, record: Record, roots: Word) -> Word:
    at = fill(s, record)
    made = room(64)
    k = 0
    while k < s.outputs:
        buffer: Buffer = taken(s, record.rooms + ROOM * k)
        put(made + 8 * k, buffer)
        put(s.block[at + k], call("i64(ptr)", s.unsigned, buffer.address))
        k = k + 1
    usage: Usage = s.usage
    usage.peak = max(usage.peak, usage.in_use)
    record.launches = record.launches + 1
    block = s.block[0]
    run_entries(c, record.entry, block, s.size)
    k = 0
    while k < s.outputs:
        finish_node(s, word(s.order[k]), word(made + 8 * k))
        k = k + 1
    count = word(roots + SIZE)
    k = 0
    while k < count:
        drop_operands(s, word(word(roots + LIST) + 8 * k))
        k = k + 1


def prepare(s: Scan, count: Word) -> Word:
    """Makes new buffers without memory, so that there are `count`. The garbage collector may run,
    and code that evaluates in it, so that there may be one more."""
    if count > OUTPUTS:
        return 1
    while s.spares_left < count:
        x = call("i64(ptr, i64)", s.allocate, s.buffer_type, 0)
        if x == 0:
            return 0
        put(s.spares[s.spares_left], x)
        s.spares_left = s.spares_left + 1
    return 1


def new_nodes(s: Scan, count: Word) -> Word:
    """Makes a tuple of nodes without contents, or gives 0."""
    found = call("i64(i64)", s.tuple, count)
    k = 0
    while k < count and found != 0:
        node = call("i64(ptr, i64)", s.allocate, s.node_type, 0)
        put(found + ITEMS + 8 * k, node)
        if node == 0:
            call("void(ptr)", s.decref, found)
            return 0
        k = k + 1
    return found


def can_replay(c: Control, s: Scan, q: LaunchRecord, arguments: Word) -> Word:
    """Whether the launches of a sequence can be performed now for the nodes at `arguments`."""
    k = 0
    while k < q.reads:
        node: Node = word(arguments + 8 * k)
        buffer: Buffer = node.data
        if word(buffer + TYPE) != s.buffer_type:
            return 0
        if buffer.source != s.none:
            return 0
        k = k + 1
    return has_room(q.rooms, q.results) and is_idle(c)


def become_buffer(s: Scan, node: Node, result: Result, buffer: Buffer) -> Word:
    node.op = s.buffer
    node.dtype = result.dtype
    node.size = result.lanes
    node.deps = s.empty
    node.mark = s.none
    call("void(ptr)", s.incref, s.buffer)
    call("void(ptr)", s.incref, result.dtype)
    call("void(ptr)", s.incref, result.lanes)
    call("void(ptr)", s.incref, s.empty)
    call("void(ptr)", s.incref, s.none)
    node.data = buffer
    node.serial = call("i64(ptr)", s.next, s.serials)


def perform(c: Control, s: Scan, q: LaunchRecord, arguments: Word, found: Word) -> Word:
    """Turns new nodes into the results, and launches."""
    k = 0
    while k < q.results:
        buffer: Buffer = taken(s, q.rooms + ROOM * k)
        become_buffer(s, word(found + ITEMS + 8 * k), q.made + RESULT * k, buffer)
        k = k + 1
    usage: Usage = s.usage
    usage.peak = max(usage.peak, usage.in_use)
    q.launches = q.launches + 1
    patch: Patch = q.table
    while patch.place != 0:
        place = arguments + patch.argument - 8
        if patch.argument > 8 * q.reads:
            place = found + ITEMS + patch.argument - 8 - 8 * q.reads
        node: Node = word(place)
        buffer = node.data
        put(patch.place, call("i64(ptr)", s.unsigned, buffer.address))
        patch = patch + PATCH
    run_entries(c, patch + PATCH, 0, 0)


# Functions of Python; see `start`. The argument of the last two is a list of nodes.


def replay(self: Word, arguments: Word, count: Word) -> Word:
    """Performs a sequence of launches, of which the arguments are the nodes that it reads; gives
    the nodes of its results, or False."""
    c: Control = word(self + CONTENTS)
    s: Scan = word(self + CONTENTS + 8)
    q: LaunchRecord = word(self + CONTENTS + 16)
    if can_replay(c, s, q, arguments) == 0:
        return call("i64(i64)", c.truth, 0)
    # The garbage collector may run, and may have left something queued, or too little room.
    found = new_nodes(s, q.results)
    if found == 0:
        return 0
    if prepare(s, q.results) == 0:
        call("void(ptr)", s.decref, found)
        return 0
    if can_replay(c, s, q, arguments) == 0:
        call("void(ptr)", s.decref, found)
        return call("i64(i64)", c.truth, 0)
    perform(c, s, q, arguments, found)
    return found


def again(self: Word, arguments: Word, count: Word) -> Word:
    """Evaluates the nodes and gives True, if their program is known and nothing is queued."""
    c: Control = word(self + CONTENTS)
    s: Scan = word(self + CONTENTS + 8)
    roots = word(arguments)
    if prepare(s, word(roots + SIZE)) == 0:
        return 0
    done = 0
    if is_idle(c):
        length = scan(s, roots)
        if length > 0:
            record: Record = find(s, length)
            if record != 0 and has_room(record.rooms, s.outputs):
                fire(c, s, record, roots)
                done = 1
    return call("i64(i64)", c.truth, done)


def examine(self: Word, arguments: Word, count: Word) -> Word:
    """Gives the number of words in `s.key`, or 0, and whether the program is known."""
    c: Control = word(self + CONTENTS)
    s: Scan = word(self + CONTENTS + 8)
    s.length = scan(s, word(arguments))
    known = 0
    if s.length > 0:
        known = find(s, s.length) != 0
    return call("i64(i64)", c.truth, known)

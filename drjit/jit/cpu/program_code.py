"""The code that evaluates known programs: it goes through the nodes, finds the program by what it
consists of, and launches its kernel. Another `evaluate` for programs of plain arithmetic on few
lanes, which are over before Python's would have begun. `replay` does what `LaunchSequence` does.

It is written in the language of `native_ir.py`; `programs.py` has the structures and the data, and
decides which programs are known. Until a kernel is launched nothing has changed, and no code of
Python's runs.
"""

IS_PLAIN = """
# Whether an operation is element-wise.
def is_plain(s, x):
    k = x >> 4
    while 1:
        slot = s.plain[k]
        if slot.value == x:
            return 1
        if slot.value == 0:
            return 0
        k = k + 1
"""

FINALIZE = """
# The destructor of buffers: memory goes back to its pool. `Buffer.__del__` in Python sees to other
# memory. It may run anywhere, also while an exception is handled.
def finalize(buffer):
    f = external("drjit_finalizer")
    block = buffer._block
    if block == 0:
        return 0
    free = block.free
    if free == 0:
        return 0
    if word(free + TYPE) != f.method_type:
        error = room(3)
        argument = room(1)
        call("void(ptr, ptr, ptr)", f.fetch, error, error + 8, error + 16)
        slot = argument
        slot.value = buffer
        done = call("i64(ptr, ptr, i64, ptr)", f.call, f.other, argument, 1, 0)
        if done == 0:
            call("void(ptr)", f.report, buffer)
        call("void(ptr)", f.decref, done)
        call("void(ptr, ptr, ptr)", f.restore, word(error), word(error + 8), word(error + 16))
        return 0
    usage = f.usage
    usage.in_use = usage.in_use - call("i64(ptr)", f.integer, block.capacity)
    ticket = call("i64(ptr, ptr)", f.find, f.runtime, f.submitted)
    if ticket != 0:
        before = block.ticket
        block.ticket = ticket
        call("void(ptr)", f.incref, ticket)
        call("void(ptr)", f.decref, before)
    if call("i32(ptr, ptr)", f.append, word(free + OWNER), block) != 0:
        call("void(ptr)", f.report, buffer)
    return 0
"""

CODE = """
# The number of a node if it was met before in this scan; otherwise, notes `number` and gives -1.
def met(s, x, number):
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

def push(s, length, x):
    slot = s.key[length]
    slot.value = x
    return length + 1

# Adds the operands of a node to the order of the traversal; gives its new length.
def push_operands(s, node, last):
    items = node.deps + ITEMS
    count = word(node.deps + SIZE)
    k = 0
    while k < count:
        slot = s.order[last + k]
        slot.value = word(items + 8 * k)
        k = k + 1
    return last + count

# Adds a literal to the key, or the number of an equal one; gives the new length, or 0 for a number
# that is compared in other ways.
def push_literal(s, node, length):
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

# Adds data in memory; gives the new length, or 0 where it belongs to another device or may have
# errors.
def push_buffer(s, node, length):
    buffer = node.data
    if word(buffer + TYPE) != s.buffer_type or s.inputs_met == INPUTS:
        return 0
    if buffer.source != s.none:
        return 0
    slot = s.inputs[s.inputs_met]
    slot.value = call("i64(ptr)", s.unsigned, buffer.address)
    s.inputs_met = s.inputs_met + 1
    length = push(s, length, node.op)
    alone = call("i64(ptr)", s.integer, node.size) == 1
    return push(s, length, node.dtype + alone)

# Adds an operation; gives the new length, or 0 where its data are compared in other ways.
def push_operation(s, node, length):
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

# Collects the nodes to be computed; gives their number, or 0 if some are not plain or of another
# size than the others.
def begin_scan(s, roots):
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
        node = word(items + 8 * k)
        if is_plain(s, node.op):
            size = call("i64(ptr)", s.integer, node.size)
            if found == 0:
                s.size = size
            if size != s.size:
                return 0
            slot = s.order[found]
            slot.value = node
            found = found + 1
        else:
            if node.op != s.literal and node.op != s.buffer:
                return 0
        k = k + 1
    s.outputs = found
    return found

# Writes what the program consists of to `s.key`; gives the number of words, or 0 if it has anything
# but plain operations, literals and data, or is large.
def scan(s, roots):
    last = begin_scan(s, roots)
    if last == 0:
        return 0
    return scan_nodes(s, last, push(s, push(s, 0, last), s.size), 0)

# Adds the nodes in `s.order`, of which there are `last` so far, and their operands to the key after
# `length` words; gives the number of words then. `special` says whether there may be operations
# that are not element-wise.
def scan_nodes(s, last, length, special):
    outputs = last
    k = 0
    while k < last:
        if last > VISITS - 8 or length > WORDS - 16:
            return 0
        slot = s.order[k]
        node = slot.value
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

def hashed(s, length):
    h = length
    k = 0
    while k < length:
        slot = s.key[k]
        h = (h + slot.value) * FACTOR
        h = h + (h >> 32)
        k = k + 1
    return h

def is_equal(s, place, length):
    k = 0
    while k < length:
        slot = s.key[k]
        if slot.value != word(place + 8 * k):
            return 0
        k = k + 1
    return 1

# The record of the program in `s.key`, or 0.
def find(s, length):
    h = hashed(s, length)
    s.hash = h
    slot = s.heads[h >> 40]
    record = slot.value
    while record != 0:
        if record.hash == h and record.length == length:
            if is_equal(s, record.key, length):
                return record
        record = record.next
    return 0

# Whether the pools have memory for all results.
def has_room(rooms, count):
    k = 0
    while k < count:
        room = rooms + ROOM * k
        if word(room.pool + SIZE) < room.needed:
            return 0
        k = k + 1
    return 1

# Writes the words of inputs and literals to the parameter block; gives the number of words.
def fill(s, record):
    slot = s.block[0]
    slot.value = 0
    k = 0
    while k < record.inputs:
        slot = s.inputs[word(record.input_order + 8 * k)]
        x = slot.value
        k = k + 1
        slot = s.block[k]
        slot.value = x
    at = k + 1
    k = 0
    while k < record.literals:
        pick = record.literal_order + PICK * k
        literal = s.literals[pick.index]
        x = literal.bits
        if pick.rounds:
            x = rounded(x)
        slot = s.block[at + k]
        slot.value = x
        k = k + 1
    return at + k

# Takes memory from a pool for a buffer that is ready; gives the buffer.
def taken(s, room):
    pool = room.pool
    slot = pool + SIZE
    last = slot.value - 1
    slot.value = last
    block = word(word(pool + LIST) + 8 * last)
    s.spares_left = s.spares_left - 1
    slot = s.spares[s.spares_left]
    buffer = slot.value
    buffer._block = block
    buffer.address = block.address
    buffer.source = s.none
    call("void(ptr)", s.incref, block.address)
    call("void(ptr)", s.incref, s.none)
    slot = s.usage
    slot.value = slot.value + room.capacity
    return buffer

# Turns a node into a buffer that is there.
def finish_node(s, node, buffer):
    data = node.data
    o = node.op
    node.data = buffer
    node.op = s.buffer
    call("void(ptr)", s.incref, s.buffer)
    call("void(ptr)", s.decref, data)
    call("void(ptr)", s.decref, o)

# Drops the operands of a node that has become a buffer. Destructors may run.
def drop_operands(s, node):
    deps = node.deps
    if node.op == s.buffer and deps != s.empty:
        node.deps = s.empty
        call("void(ptr)", s.incref, s.empty)
        call("void(ptr)", s.decref, deps)

def fire(c, s, record, roots):
    at = fill(s, record)
    made = room(64)
    k = 0
    while k < s.outputs:
        buffer = taken(s, record.rooms + ROOM * k)
        slot = made + 8 * k
        slot.value = buffer
        slot = s.block[at + k]
        slot.value = call("i64(ptr)", s.unsigned, buffer.address)
        k = k + 1
    usage = s.usage
    usage.peak = max(usage.peak, usage.in_use)
    record.launches = record.launches + 1
    block = s.block[0]
    run_entries(c, record.entry, block, s.size)
    k = 0
    while k < s.outputs:
        slot = s.order[k]
        finish_node(s, slot.value, word(made + 8 * k))
        k = k + 1
    count = word(roots + SIZE)
    k = 0
    while k < count:
        drop_operands(s, word(word(roots + LIST) + 8 * k))
        k = k + 1

# Makes new buffers without memory, so that there are `count`. The garbage collector may run, and
# code that evaluates in it, so that there may be one more.
def prepare(s, count):
    if count > OUTPUTS:
        return 1
    while s.spares_left < count:
        x = call("i64(ptr, i64)", s.allocate, s.buffer_type, 0)
        if x == 0:
            return 0
        slot = s.spares[s.spares_left]
        slot.value = x
        s.spares_left = s.spares_left + 1
    return 1

# Makes a tuple of nodes without contents, or gives 0.
def new_nodes(s, count):
    found = call("i64(i64)", s.tuple, count)
    k = 0
    while k < count and found != 0:
        slot = found + ITEMS + 8 * k
        slot.value = call("i64(ptr, i64)", s.allocate, s.node_type, 0)
        if slot.value == 0:
            call("void(ptr)", s.decref, found)
            return 0
        k = k + 1
    return found

# Whether the launches of a sequence can be performed now for the nodes at `arguments`.
def can_replay(c, s, q, arguments):
    k = 0
    while k < q.reads:
        node = word(arguments + 8 * k)
        buffer = node.data
        if word(buffer + TYPE) != s.buffer_type:
            return 0
        if buffer.source != s.none:
            return 0
        k = k + 1
    return has_room(q.rooms, q.results) and is_idle(c)

def become_buffer(s, node, result, buffer):
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

# Turns new nodes into the results, and launches.
def perform(c, s, q, arguments, found):
    k = 0
    while k < q.results:
        buffer = taken(s, q.rooms + ROOM * k)
        become_buffer(s, word(found + ITEMS + 8 * k), q.made + RESULT * k, buffer)
        k = k + 1
    usage = s.usage
    usage.peak = max(usage.peak, usage.in_use)
    q.launches = q.launches + 1
    patch = q.table
    while patch.place != 0:
        place = arguments + patch.argument - 8
        if patch.argument > 8 * q.reads:
            place = found + ITEMS + patch.argument - 8 - 8 * q.reads
        node = word(place)
        buffer = node.data
        slot = patch.place
        slot.value = call("i64(ptr)", s.unsigned, buffer.address)
        patch = patch + PATCH
    run_entries(c, patch + PATCH, 0, 0)

# Functions of Python; see `start`. The argument of the last two is a list of nodes.

# Performs a sequence of launches, of which the arguments are the nodes that it reads; gives the
# nodes of its results, or False.
def replay(self, arguments, count):
    c = word(self + CONTENTS)
    s = word(self + CONTENTS + 8)
    q = word(self + CONTENTS + 16)
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

# Evaluates the nodes and gives True, if their program is known and nothing is queued.
def again(self, arguments, count):
    c = word(self + CONTENTS)
    s = word(self + CONTENTS + 8)
    roots = word(arguments)
    if prepare(s, word(roots + SIZE)) == 0:
        return 0
    done = 0
    if is_idle(c):
        length = scan(s, roots)
        if length > 0:
            record = find(s, length)
            if record != 0:
                if has_room(record.rooms, s.outputs):
                    fire(c, s, record, roots)
                    done = 1
    return call("i64(i64)", c.truth, done)

# Gives the number of words in `s.key`, or 0, and whether the program is known.
def examine(self, arguments, count):
    c = word(self + CONTENTS)
    s = word(self + CONTENTS + 8)
    s.length = scan(s, word(arguments))
    known = 0
    if s.length > 0:
        known = find(s, s.length) != 0
    return call("i64(i64)", c.truth, known)
"""

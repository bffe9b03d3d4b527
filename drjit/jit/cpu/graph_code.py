"""The code that goes through the nodes of a program for `structure.ProgramGraph`, in place of
`ProgramGraph.add`: what takes Python 0.2 us for each operand takes this a tenth.

It is written in the language of `native_ir.py`; `graphs.py` has the structures and the data. No
code of Python's runs in the meantime.
"""

CODE = """
def is_plain(s, x):
    k = x >> 4
    while 1:
        slot = s.plain[k]
        if slot.value == x:
            return 1
        if slot.value == 0:
            return 0
        k = k + 1

def push(s, x):
    slot = s.key[s.length]
    slot.value = x
    s.length = s.length + 1

def append(s, items, x):
    if call("i32(ptr, ptr)", s.append, items, x) != 0:
        s.failed = 1

# Turns an attribute of a node, given by its address, into another object.
def replace(place, x, s):
    slot = place
    before = slot.value
    slot.value = x
    call("void(ptr)", s.decref, before)

# Notes the position of a node, or of the first one that equals it.
def settle(s, node, position):
    x = call("i64(i64)", s.number, position)
    if x == 0:
        s.failed = 1
    replace(node + ID, x, s)

# The position of the first literal that equals this one, which it is if there is none; -1 for what
# is compared in other ways.
def first_equal(s, node, position):
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

def add_operands(s, order, node):
    items = node.deps + ITEMS
    count = word(node.deps + SIZE)
    k = 0
    while k < count:
        append(s, order, word(items + 8 * k))
        k = k + 1
    return count

# Adds the row of an operation.
def add_plain(s, order, rows, node):
    push(s, node.op)
    if add_operands(s, order, node) == 1:
        push(s, node.dtype)
        data = node.data
        if data == s.none:
            push(s, 0)
        else:
            if word(data + TYPE) == s.int_type:
                push(s, 1)
                push(s, call("i64(ptr)", s.unsigned, data))
            else:
                push(s, 2)
                append(s, rows, data)

# Goes through a node that was not visited before; gives 0 where Python has to.
def visit(s, arguments, node, position):
    order = word(arguments)
    if is_plain(s, node.op):
        settle(s, node, position)
        add_plain(s, order, word(arguments + 32), node)
        return 1
    if node.op == s.literal:
        first = first_equal(s, node, position)
        if first < 0 or s.literals_met > LITERALS:
            return 0
        settle(s, node, first)
        if first == position:
            append(s, word(arguments + 16), node)
            push(s, node.op)
            push(s, node.dtype)
        else:
            push(s, 2 * first + 1)
        return 1
    settle(s, node, position)
    push(s, node.op)
    if node.op == s.buffer:
        if word(node.data + TYPE) != s.buffer_type:
            return 0
        append(s, word(arguments + 8), node)
        push(s, node.dtype + (call("i64(ptr)", s.integer, node.size) == 1))
    else:
        push(s, add_operands(s, order, node))
        append(s, word(arguments + 24), node)
    return 1

# A function of Python. Arguments: lists, which are `order`, with the roots from a position on,
# `inputs`, `literals`, other nodes that are not plain, and data that belong to the key; the mark,
# and the position. Gives the rest of the key as bytes, or None where Python has to do this.
def collect(self, arguments, count):
    s = word(self + CONTENTS)
    order = word(arguments)
    mark = word(arguments + 40)
    k = call("i64(ptr)", s.integer, word(arguments + 48))
    if k == 0:
        s.stamp = s.stamp + 1
        s.literals_met = 0
        s.owner = mark
    if s.owner != mark:
        call("void(ptr)", s.incref, s.none)
        return s.none
    s.length = 0
    s.failed = 0
    push(s, word(order + SIZE) - k)
    while k < word(order + SIZE):
        node = word(word(order + LIST) + 8 * k)
        if node.mark == mark:
            push(s, 2 * call("i64(ptr)", s.integer, node.id) + 1)
        else:
            call("void(ptr)", s.incref, mark)
            replace(node + MARK, mark, s)
            if visit(s, arguments, node, k) == 0 or s.length > WORDS - 8:
                call("void(ptr)", s.incref, s.none)
                return s.none
        if s.failed:
            return 0
        k = k + 1
    return call("i64(ptr, i64)", s.bytes, s.key[0], 8 * s.length)
"""

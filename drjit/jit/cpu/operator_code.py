"""The code of the operators of arrays: it makes the array and the node of an operation on plain
operands, as the functions of `drjit.array.inline` do, and calls these for any others.

It is written in the language of `native_ir.py`; `drjit.array.native_operators` has the structures
and the data. Allocating memory may run the garbage collector, and so any code, and may fail: before
that, it counts references to what it uses afterwards.
"""

from collections.abc import Sequence

from .object_code import OBJECTS
from .traversal_code import LOOPS

CODE = """
# The literal with as many entries as `like` that an operation gives for numbers, at `arguments`; 0
# if it has to be computed in other ways.
def folded(o, record, like, arguments, count):
    if record.fold == 0:
        return 0
    size = incref(o, like.size)
    value = call("i64(ptr, ptr, i64, ptr)", o.call, record.fold, arguments, count, 0)
    if value == 0 or value == o.none:
        call("void(ptr)", o.decref, size)
        return failed(o, value)
    node = new_node(o, o.literal, record.out, size, incref(o, o.empty), value)
    call("void(ptr)", o.decref, size)
    if node == 0:
        return 0
    return array_of(o, record, node, incref(o, o.none))

# The same for two operands, whose data are counted meanwhile.
def folded_pair(o, record, like, first, second):
    arguments = room(2)
    slot = arguments
    slot.value = incref(o, first)
    slot = arguments + 8
    slot.value = incref(o, second)
    made = folded(o, record, like, arguments, 2)
    call("void(ptr)", o.decref, first)
    call("void(ptr)", o.decref, second)
    return made

# The same for three nodes, of which the first one is a literal.
def folded_three(o, record, a, b, c):
    if b.op != o.literal or c.op != o.literal:
        return 0
    arguments = room(3)
    slot = arguments
    slot.value = a.data
    slot = arguments + 8
    slot.value = b.data
    slot = arguments + 16
    slot.value = c.data
    return folded(o, record, a, arguments, 3)

def of_one(o, record, x):
    a = node_of(o, record, x)
    if a == 0:
        return 0
    if a.op == o.literal:
        if variable(o, record, x) != o.none:
            return 0
        arguments = room(1)
        data = incref(o, a.data)
        slot = arguments
        slot.value = data
        made = folded(o, record, a, arguments, 1)
        call("void(ptr)", o.decref, data)
        return made
    if a.op == record.inverse:
        return 0
    return new_array(o, record, a, 0, variable(o, record, x), 0, a)

# Whether a literal has one entry, a number that does not simplify the operation.
def is_ordinary(o, record, node, numbers, zero):
    if node.size != o.one or numbers == 0 or record.in_code != 0:
        return 0
    if zero != 0:
        if node.data == o.zero:
            return 1
        if word(node.data + TYPE) == o.float_type:
            if word(node.data + NUMBER) << 1 == 0:
                return 1
    value = call("i64(ptr, ptr)", o.item, numbers, node.data)
    call("void(ptr)", o.decref, value)
    return value != 0 and value != o.none

def of_arrays(o, record, x, y):
    a = node_of(o, record, x)
    b = node_of(o, record, y)
    if a == 0 or b == 0:
        return 0
    like = a
    if a.op == o.literal or b.op == o.literal:
        if a.op == b.op:
            if a.size != b.size or variable(o, record, x) != o.none:
                return 0
            if variable(o, record, y) != o.none:
                return 0
            return folded_pair(o, record, a, a.data, b.data)
        incref(o, a)
        incref(o, b)
        if a.op == o.literal:
            like = b
        if like.size == o.zero:
            call("void(ptr)", o.decref, a)
            call("void(ptr)", o.decref, b)
            return 0
        if a.op == o.literal:
            ordinary = is_ordinary(o, record, a, record.first_numbers, record.first_zero)
        else:
            ordinary = is_ordinary(o, record, b, record.numbers, record.zero)
        same = a == word(x + record.node) and b == word(y + record.node)
        call("void(ptr)", o.decref, a)
        call("void(ptr)", o.decref, b)
        if ordinary == 0 or same == 0:
            return 0
    else:
        if a.size != b.size:
            if a.size == o.one and b.size != o.zero:
                like = b
            else:
                if b.size != o.one or a.size == o.zero:
                    if call("i64(ptr)", o.integer, a.size) != call("i64(ptr)", o.integer, b.size):
                        return 0
    return new_array(o, record, a, b, variable(o, record, x), variable(o, record, y), like)

# The operation on the literal `a`, which is counted, and a number.
def of_numbers(o, record, a, number, reflected, numbers, zero):
    value = converted(o, record, number, numbers, zero)
    if value == 0:
        return 0
    if reflected:
        made = folded_pair(o, record, a, value, a.data)
    else:
        made = folded_pair(o, record, a, a.data, value)
    call("void(ptr)", o.decref, value)
    return made

# The operation on a node, which is counted, and a number that becomes part of the code.
def of_code(o, record, a, number):
    value = converted(o, record, number, record.numbers, 0)
    if value == 0:
        return 0
    deps = new_tuple(o, incref(o, a), 0, 0)
    if deps == 0:
        return failed(o, value)
    node = new_node(o, record.op, record.out, a.size, deps, value)
    if node == 0:
        return 0
    return array_of(o, record, node, incref(o, o.none))

# The operation on an array and a number, which come in reverse order if `reflected`.
def of_number(o, record, x, number, reflected):
    a = node_of(o, record, x)
    numbers = record.numbers
    zero = record.zero
    if reflected:
        numbers = record.first_numbers
        zero = record.first_zero
    if a == 0 or numbers == 0:
        return 0
    u = variable(o, record, x)
    if (a.op == o.literal or record.in_code) and u != o.none:
        return 0
    incref(o, a)
    incref(o, u)
    made = 0
    if a.op == o.literal:
        if a.size == o.one:
            made = of_numbers(o, record, a, number, reflected, numbers, zero)
    else:
        if record.in_code:
            made = of_code(o, record, a, number)
        else:
            b = new_literal(o, record, number, numbers, zero)
            if b != 0:
                if reflected:
                    made = new_array(o, record, b, a, o.none, u, a)
                else:
                    made = new_array(o, record, a, b, u, o.none, a)
                call("void(ptr)", o.decref, b)
    call("void(ptr)", o.decref, u)
    call("void(ptr)", o.decref, a)
    return made

# One of the operands `y` and `z` of an operation on three: a node that is counted, with as many
# entries as `like` or one for all, or 0.
def operand(o, record, x, like):
    if word(x + TYPE) != record.type:
        if record.numbers == 0:
            return 0
        return new_literal(o, record, x, record.numbers, record.zero)
    node = node_of(o, record, x)
    if node == 0:
        return 0
    broadcast = node.size == o.one and like.size != o.zero
    if node.size != like.size and broadcast == 0:
        if call("i64(ptr)", o.integer, node.size) != call("i64(ptr)", o.integer, like.size):
            return 0
    return incref(o, node)

# The variable of such an operand.
@inline
def variable_of_operand(o, record, x):
    if word(x + TYPE) != record.type:
        return o.none
    return variable(o, record, x)

# The operation on three operands, of which `x` is an array of the class `record.first`.
def of_three(o, record, x, y, z):
    if word(x + TYPE) != record.first:
        return 0
    a = word(x + record.first_node)
    u = o.none
    if record.first == record.type:
        a = node_of(o, record, x)
        u = variable(o, record, x)
    if a == 0 or o.off != 0:
        return 0
    # Making a literal runs code, so what is read before is counted before.
    incref(o, a)
    incref(o, u)
    b = operand(o, record, y, a)
    v = incref(o, variable_of_operand(o, record, y))
    c = 0
    if b != 0:
        c = operand(o, record, z, a)
    w = incref(o, variable_of_operand(o, record, z))
    tracked = u != o.none or v != o.none or w != o.none
    tape = 0
    if tracked:
        tape = tape_of(o)
    other = c == 0 or (b == c and record.inverse != 0) or (tracked and tape == 0)
    if other or a.op == o.literal:
        made = 0
        if other == 0 and tracked == 0:
            made = folded_three(o, record, a, b, c)
        call("void(ptr)", o.decref, w)
        call("void(ptr)", o.decref, c)
        call("void(ptr)", o.decref, v)
        call("void(ptr)", o.decref, b)
        call("void(ptr)", o.decref, u)
        call("void(ptr)", o.decref, a)
        return made
    variables = u
    if tracked:
        variables = new_tuple(o, u, v, w)
        if variables == 0:
            call("void(ptr)", o.decref, c)
            call("void(ptr)", o.decref, b)
            return failed(o, a)
    else:
        call("void(ptr)", o.decref, v)
        call("void(ptr)", o.decref, w)
    deps = new_tuple(o, a, b, c)
    if deps == 0:
        return failed(o, variables)
    return finished(o, record, deps, variables, tape, a)

# Calls a function of Python unless there was an error; `y` and `z` are 0 if it takes fewer
# arguments.
def general(o, function, x, y, z):
    if call("i64()", o.error):
        return 0
    arguments = room(3)
    slot = arguments
    slot.value = x
    slot = arguments + 8
    slot.value = y
    slot = arguments + 16
    slot.value = z
    count = 1 + (y != 0) + (z != 0)
    return call("i64(ptr, ptr, i64, ptr)", o.call, function, arguments, count, 0)

def forward(o, record, x, y):
    if word(y + TYPE) == record.type:
        made = of_arrays(o, record, x, y)
    else:
        made = of_number(o, record, x, y, 0)
    if made == 0:
        return general(o, record.forward, x, y, 0)
    return made

@inline
def backward(o, record, x, y):
    made = of_number(o, record, y, x, 1)
    if made == 0:
        return general(o, record.backward, y, x, 0)
    return made

# An operator of Python's.
def binary(number, x, y):
    o = external("drjit_operators")
    record = record_of(o, word(x + TYPE), number)
    if record != 0:
        return forward(o, record, x, y)
    if word(x + TYPE) == o.float_type or word(x + TYPE) == o.int_type:
        record = record_of(o, word(y + TYPE), number)
        if record != 0:
            return backward(o, record, x, y)
    slot = o.others[number]
    return general(o, slot.value, x, y, 0)

def unary(number, x):
    o = external("drjit_operators")
    made = 0
    record = record_of(o, word(x + TYPE), number)
    if record == 0:
        slot = o.others[number]
        return general(o, slot.value, x, 0, 0)
    made = of_one(o, record, x)
    if made == 0:
        return general(o, record.forward, x, 0, 0)
    return made

@inline
def compare(x, y, relation):
    return binary(relation & 7, x, y)

def take_over(o, x, made, place):
    slot = made + place
    after = incref(o, slot.value)
    slot = x + place
    before = slot.value
    slot.value = after
    call("void(ptr)", o.decref, before)

# An operator in place: what it computes becomes the value of the array, unless it is of another
# class.
def in_place(number, x, y):
    o = external("drjit_operators")
    record = record_of(o, word(x + TYPE), number)
    if record == 0 or o.off != 0:
        slot = o.others[OTHERS + number]
        return general(o, slot.value, x, y, 0)
    made = forward(o, record, x, y)
    if made == 0:
        return 0
    if word(made + TYPE) != record.type:
        return made
    take_over(o, x, made, record.node)
    if record.var != 0:
        take_over(o, x, made, record.var)
    call("void(ptr)", o.decref, made)
    return incref(o, x)

# Functions of Python for an operation and the class of one of their arguments.
def recorded_unary(self, arguments, count):
    o = external("drjit_operators")
    record = word(self + CONTENTS)
    made = of_one(o, record, word(arguments))
    if made == 0:
        return general(o, record.forward, word(arguments), 0, 0)
    return made

def recorded_binary(self, arguments, count):
    o = external("drjit_operators")
    record = word(self + CONTENTS)
    x = word(arguments)
    if word(x + TYPE) == record.type:
        return forward(o, record, x, word(arguments + 8))
    return backward(o, record, x, word(arguments + 8))

def recorded_ternary(self, arguments, count):
    o = external("drjit_operators")
    record = word(self + CONTENTS)
    x = word(arguments)
    y = word(arguments + 8)
    z = word(arguments + 16)
    made = of_three(o, record, x, y, z)
    if made == 0:
        return general(o, record.forward, x, y, z)
    return made
"""


def source(binary: Sequence[str], unary: Sequence[str], first: int) -> str:
    """Returns the code with a function for each of these operations, numbered from `first` on, and
    one in place for each binary one; those before it are comparisons, as Python numbers them."""
    rows = [(f"op_{name}", "x, y", f"binary({first + k}") for k, name in enumerate(binary)]
    rows += [(f"in_place_{name}", "x, y", f"in_place({first + k}") for k, name in enumerate(binary)]
    first += len(binary)
    rows += [(f"op_{name}", "x", f"unary({first + k}") for k, name in enumerate(unary)]
    made = [f"\ndef {name}({xs}):\n    return {call}, {xs})\n" for name, xs, call in rows]
    return OBJECTS + CODE + LOOPS + "".join(made)

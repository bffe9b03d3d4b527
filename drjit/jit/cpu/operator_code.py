"""The code of the operators of arrays: it makes the array and the node of an operation on plain
operands, as the functions of `drjit.array.inline` do, and calls these for any others.

It is written in the language of `native_ir.py`; `drjit.array.native_operators` has the structures
and the data. Allocating memory may run the garbage collector, and so any code, and may fail: before
that, it counts references to what it uses afterwards.
"""

from collections.abc import Sequence

CODE = """
# The record of an operation for a class, or 0.
@inline
def record_of(o, type, number):
    k = type >> 4
    while 1:
        cell = o.cells[k]
        if cell.object == type:
            record = cell.records + RECORD * number
            if record.op == 0:
                return 0
            return record
        if cell.object == 0:
            return 0
        k = k + 1

@inline
def incref(o, x):
    call("void(ptr)", o.incref, x)
    return x

# Gives up after an error, and drops what was made.
def failed(o, x):
    call("void(ptr)", o.decref, x)
    return 0

# The node of an array, or 0.
@inline
def node_of(o, record, x):
    node = word(x + record.node)
    if node == 0 or o.off != 0:
        return 0
    if record.var != 0:
        if word(x + record.var) == 0:
            return 0
    return node

# The variable of an array, or None where the operation has no derivative.
@inline
def variable(o, record, x):
    if record.var == 0 or record.rule == 0:
        return o.none
    return word(x + record.var)

# The list to which new variables of a body are added, 1 if there is none, or 0 where variables are
# made in other ways: where some are suspended, and for forward traversals.
def tape_of(o):
    if call("i64(ptr)", o.entries, o.scopes) != 0:
        key = call("i64(i64)", o.unsigned, call("i64()", o.thread))
        if key == 0:
            return 0
        stack = call("i64(ptr, ptr)", o.find, o.scopes, key)
        call("void(ptr)", o.decref, key)
        if stack != 0:
            scope = word(word(stack + LIST) + 8 * (word(stack + SIZE) - 1))
            if scope.all != o.false or call("i64(ptr)", o.members, scope.variables) != 0:
                return 0
            if scope.tape != o.none:
                return scope.tape
    return word(o.taped + SIZE) == 0

# A tuple that takes over one, two or three objects; 0 if there is no memory.
def new_tuple(o, a, b, c):
    made = call("i64(i64)", o.tuple, 1 + (b != 0) + (c != 0))
    if made == 0:
        call("void(ptr)", o.decref, c)
        call("void(ptr)", o.decref, b)
        return failed(o, a)
    slot = made + ITEMS
    slot.value = a
    if b != 0:
        slot = made + ITEMS + 8
        slot.value = b
    if c != 0:
        slot = made + ITEMS + 16
        slot.value = c
    return made

# A new node, which takes over `deps` and `data`; 0 if there is no memory.
@inline
def new_node(o, op, dtype, size, deps, data):
    node = call("i64(ptr, i64)", o.allocate, o.node_type, 0)
    if node == 0:
        call("void(ptr)", o.decref, data)
        return failed(o, deps)
    node.op = incref(o, op)
    node.dtype = incref(o, dtype)
    node.size = incref(o, size)
    node.deps = deps
    node.data = data
    node.mark = incref(o, o.none)
    node.serial = call("i64(ptr)", o.next, o.serials)
    if node.serial == 0:
        return failed(o, node)
    return node

# A new literal for a Python number, or 0 if it may simplify the operation or is of another type.
def new_literal(o, record, x):
    is_zero = x == o.zero
    if word(x + TYPE) != o.int_type:
        if word(x + TYPE) != o.float_type or record.floats == 0:
            return 0
        is_zero = word(x + NUMBER) == 0
    if is_zero:
        if record.zero == 0:
            return 0
        value = incref(o, record.zero)
    else:
        value = call("i64(ptr, ptr)", o.item, record.numbers, x)
        if value == 0 or value == o.none:
            return failed(o, value)
    return new_node(o, o.literal, record.dtype, o.one, incref(o, o.empty), value)

# The variable of a node, which takes over the variables of its operands and is added to a tape; 0
# if there is no memory.
def new_var(o, record, node, variables, tape):
    kind = o.var_type
    if tape != 1:
        kind = o.inner_type
    var = call("i64(ptr, i64)", o.allocate, kind, 0)
    if var == 0:
        return failed(o, variables)
    var.deps = variables
    var.rule = incref(o, record.rule)
    var.dtype = incref(o, record.out)
    var.size = incref(o, node.size)
    var.serial = incref(o, node.serial)
    var.inputs = o.empty
    if record.keeps_inputs:
        var.inputs = node.deps
    incref(o, var.inputs)
    var.result = o.none
    if record.keeps_result:
        var.result = node
    incref(o, var.result)
    var.data = incref(o, o.none)
    var.grad = incref(o, o.none)
    var.grad_var = incref(o, o.none)
    var.mark = incref(o, o.none)
    if tape != 1:
        if call("i32(ptr, ptr)", o.append, tape, var) != 0:
            return failed(o, var)
    return var

# The array of an operation whose node and variable take over the tuples `deps` and `variables`, or
# None; 0 if there is no memory.
def finished(o, record, deps, variables, tape, like):
    var = variables
    node = new_node(o, record.op, record.out, like.size, deps, incref(o, o.none))
    if node == 0:
        return failed(o, var)
    if tape != 0:
        var = new_var(o, record, node, variables, tape)
        if var == 0:
            return failed(o, node)
    x = call("i64(ptr, i64)", o.allocate, record.result, 0)
    if x == 0:
        call("void(ptr)", o.decref, var)
        return failed(o, node)
    slot = x + record.result_node
    slot.value = node
    if record.result_var == 0:
        call("void(ptr)", o.decref, var)
        return x
    slot = x + record.result_var
    slot.value = var
    return x

# The array of the operation on the nodes `a` and `b` with the variables `u` and `v`; `b` and `v`
# are 0 if there is one operand. It has as many entries as `like`. 0 if this is left to others.
def new_array(o, record, a, b, u, v, like):
    tape = 0
    variables = o.none
    if u != o.none or (v != 0 and v != o.none):
        tape = tape_of(o)
        if tape == 0:
            return 0
        incref(o, u)
        incref(o, v)
    incref(o, a)
    incref(o, b)
    if tape != 0:
        variables = new_tuple(o, u, v, 0)
        if variables == 0:
            call("void(ptr)", o.decref, b)
            return failed(o, a)
    else:
        incref(o, variables)
    deps = new_tuple(o, a, b, 0)
    if deps == 0:
        return failed(o, variables)
    return finished(o, record, deps, variables, tape, like)

def of_one(o, record, x):
    a = node_of(o, record, x)
    if a == 0:
        return 0
    if a.op == o.literal or a.op == record.inverse:
        return 0
    return new_array(o, record, a, 0, variable(o, record, x), 0, a)

# Whether a literal has one entry, a number that does not simplify the operation.
def is_ordinary(o, record, node):
    if node.size != o.one or record.numbers == 0:
        return 0
    if record.zero != 0:
        if node.data == o.zero:
            return 1
        if word(node.data + TYPE) == o.float_type:
            if word(node.data + NUMBER) << 1 == 0:
                return 1
    value = call("i64(ptr, ptr)", o.item, record.numbers, node.data)
    call("void(ptr)", o.decref, value)
    return value != 0 and value != o.none

def of_arrays(o, record, x, y):
    a = node_of(o, record, x)
    b = node_of(o, record, y)
    if a == 0 or b == 0:
        return 0
    like = a
    if a.op == o.literal or b.op == o.literal:
        number = b
        if a.op == o.literal:
            number = a
            like = b
        if like.op == o.literal:
            return 0
        incref(o, a)
        incref(o, b)
        ordinary = is_ordinary(o, record, number)
        same = a == word(x + record.node) and b == word(y + record.node)
        call("void(ptr)", o.decref, a)
        call("void(ptr)", o.decref, b)
        if ordinary == 0 or same == 0:
            return 0
    else:
        if a.size != b.size:
            if call("i64(ptr)", o.integer, a.size) != call("i64(ptr)", o.integer, b.size):
                return 0
    return new_array(o, record, a, b, variable(o, record, x), variable(o, record, y), like)

# The operation on an array and a number, which come in reverse order if `reflected`.
def of_number(o, record, x, number, reflected):
    a = node_of(o, record, x)
    if a == 0 or record.numbers == 0:
        return 0
    if a.op == o.literal:
        return 0
    incref(o, a)
    u = incref(o, variable(o, record, x))
    made = 0
    b = new_literal(o, record, number)
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
# entries as `like` or the same one for all, or 0.
def operand(o, record, x, like):
    if word(x + TYPE) != record.type:
        if record.numbers == 0:
            return 0
        return new_literal(o, record, x)
    node = node_of(o, record, x)
    if node == 0:
        return 0
    if node.size != like.size and (node.op != o.literal or node.size != o.one):
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
    if a.op == o.literal:
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
    if c == 0 or (b == c and record.inverse != 0) or (tracked and tape == 0):
        call("void(ptr)", o.decref, w)
        call("void(ptr)", o.decref, c)
        call("void(ptr)", o.decref, v)
        call("void(ptr)", o.decref, b)
        call("void(ptr)", o.decref, u)
        return failed(o, a)
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
    if record == 0:
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

# The loops of `drjit.ad.traverse` over variables.

# Appends the variables that those in a list depend on, unless they have the mark, which they get;
# gives whether each is older than the one before.
def collect(self, arguments, count):
    o = external("drjit_operators")
    found = word(arguments)
    mark = word(arguments + 8)
    in_order = 1
    last = LOW << 30
    k = 0
    while k < word(found + SIZE):
        v = word(word(found + LIST) + 8 * k)
        if k == 0:
            last = call("i64(ptr)", o.integer, v.serial)
        item = v.deps + ITEMS
        end = item + 8 * word(v.deps + SIZE)
        while item < end:
            d = word(item)
            item = item + 8
            if d != o.none:
                if d.mark != mark:
                    before = d.mark
                    d.mark = incref(o, mark)
                    call("void(ptr)", o.decref, before)
                    if call("i32(ptr, ptr)", o.append, found, d) < 0:
                        return 0
                    serial = call("i64(ptr)", o.integer, d.serial)
                    if serial > last:
                        in_order = 0
                    last = serial
        k = k + 1
    return call("i64(i64)", o.truth, in_order)

@inline
def replaced(o, before, after):
    incref(o, after)
    call("void(ptr)", o.decref, before)

# Frees the edges of the variables in a list. Destructors may run.
def cut(self, arguments, count):
    o = external("drjit_operators")
    variables = word(arguments)
    k = 0
    while k < word(variables + SIZE):
        v = word(word(variables + LIST) + 8 * k)
        before = v.deps
        v.deps = o.empty
        replaced(o, before, o.empty)
        before = v.inputs
        v.inputs = o.empty
        replaced(o, before, o.empty)
        before = v.result
        v.result = o.none
        replaced(o, before, o.none)
        before = v.rule
        v.rule = o.none
        replaced(o, before, o.none)
        before = v.data
        v.data = o.none
        replaced(o, before, o.none)
        k = k + 1
    return incref(o, o.none)
"""


def source(binary: Sequence[str], unary: Sequence[str], first: int) -> str:
    """Returns the code with a function for each of these operations, numbered from `first` on, and
    one in place for each binary one; those before it are comparisons, as Python numbers them."""
    rows = [(f"op_{name}", "x, y", f"binary({first + k}") for k, name in enumerate(binary)]
    rows += [(f"in_place_{name}", "x, y", f"in_place({first + k}") for k, name in enumerate(binary)]
    first += len(binary)
    rows += [(f"op_{name}", "x", f"unary({first + k}") for k, name in enumerate(unary)]
    made = [f"\ndef {name}({xs}):\n    return {call}, {xs})\n" for name, xs, call in rows]
    return CODE + "".join(made)

"""The operators of arrays. They create the array and the node of an operation on plain operands, as
the functions of `drjit.array.recorders` do, and call those functions for any other operands.
"""

from .language import NULL, Word, call, external, inline, put, room, word
from .objects import CONTENTS, NUMBER, OTHERS, TYPE, Node, OperatorRecord, Operators
from .references import hold, replace
from .tracing import (
    array_of,
    converted,
    failed,
    finished,
    new_array,
    new_literal,
    new_node,
    new_tuple,
    node_of,
    record_of,
    tape_of,
    variable,
)


def folded(o: Operators, record: OperatorRecord, like: Node, arguments: Word, count: Word) -> Word:
    """The literal, with as many entries as `like`, that results from an operation on the numbers at
    `arguments`; 0 if Python has to compute it."""
    if record.fold == 0:
        return 0
    size = hold(o, like.size)
    value = call("i64(ptr, ptr, i64, ptr)", o.call, record.fold, arguments, count, 0)
    if value == 0 or value == o.none:
        call("void(ptr)", o.decref, size)
        return failed(o, value)
    node: Node = new_node(o, o.literal, record.out, size, hold(o, o.empty), value)
    call("void(ptr)", o.decref, size)
    if node == 0:
        return 0
    return array_of(o, record, node, hold(o, o.none))


def folded_pair(
    o: Operators, record: OperatorRecord, like: Node, first: Word, second: Word
) -> Word:
    """The same for two operands, whose data are held meanwhile."""
    arguments = room(2)
    put(arguments, hold(o, first))
    put(arguments + 8, hold(o, second))
    made = folded(o, record, like, arguments, 2)
    call("void(ptr)", o.decref, first)
    call("void(ptr)", o.decref, second)
    return made


def folded_three(o: Operators, record: OperatorRecord, a: Node, b: Node, c: Node) -> Word:
    """The same for three nodes, of which the first one is a literal."""
    if b.op != o.literal or c.op != o.literal:
        return 0
    arguments = room(3)
    put(arguments, a.data)
    put(arguments + 8, b.data)
    put(arguments + 16, c.data)
    return folded(o, record, a, arguments, 3)


def of_one(o: Operators, record: OperatorRecord, x: Word) -> Word:
    a: Node = node_of(o, record, x)
    if a == 0:
        return 0
    if a.op == o.literal:
        if variable(o, record, x) != o.none:
            return 0
        arguments = room(1)
        data = hold(o, a.data)
        put(arguments, data)
        made = folded(o, record, a, arguments, 1)
        call("void(ptr)", o.decref, data)
        return made
    if a.op == record.involution:
        return 0
    return new_array(o, record, a, NULL, variable(o, record, x), NULL, a)


def is_ordinary(
    o: Operators, record: OperatorRecord, node: Node, numbers: Word, zero: Word
) -> Word:
    """Whether a literal has a single entry, which does not simplify the operation."""
    if node.size != o.one or numbers == 0 or record.in_code != 0:
        return 0
    if zero != 0:
        if node.data == o.zero:
            return 1
        if word(node.data + TYPE) == o.float_type and word(node.data + NUMBER) << 1 == 0:
            return 1
    value = call("i64(ptr, ptr)", o.item, numbers, node.data)
    call("void(ptr)", o.decref, value)
    return value != 0 and value != o.none


def is_equal(o: Operators, x: Word, y: Word) -> Word:
    """Whether two numbers of Python's are equal."""
    return call("i64(ptr)", o.integer, x) == call("i64(ptr)", o.integer, y)


def of_arrays(o: Operators, record: OperatorRecord, x: Word, y: Word) -> Word:
    a: Node = node_of(o, record, x)
    b: Node = node_of(o, record, y)
    if a == 0 or b == 0:
        return 0
    like: Node = a
    if a.op == o.literal or b.op == o.literal:
        if a.op == b.op:
            if a.size != b.size or variable(o, record, x) != o.none:
                return 0
            if variable(o, record, y) != o.none:
                return 0
            return folded_pair(o, record, a, a.data, b.data)
        hold(o, a)
        hold(o, b)
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
        if a == b and record.idempotent:
            return 0
        if a.size != b.size:
            if a.size == o.one and b.size != o.zero:
                like = b
            else:
                broadcast = b.size == o.one and a.size != o.zero
                if not (broadcast or is_equal(o, a.size, b.size)):
                    return 0
    return new_array(o, record, a, b, variable(o, record, x), variable(o, record, y), like)


def of_numbers(
    o: Operators,
    record: OperatorRecord,
    a: Node,
    number: Word,
    reflected: Word,
    numbers: Word,
    zero: Word,
) -> Word:
    """The operation on the literal `a`, to which the caller holds a reference, and a number."""
    value = converted(o, record, number, numbers, zero)
    if value == 0:
        return 0
    if reflected:
        made = folded_pair(o, record, a, value, a.data)
    else:
        made = folded_pair(o, record, a, a.data, value)
    call("void(ptr)", o.decref, value)
    return made


def of_code(o: Operators, record: OperatorRecord, a: Node, number: Word) -> Word:
    """The operation on a node, to which the caller holds a reference, and a number that becomes
    part of the code."""
    value = converted(o, record, number, record.numbers, 0)
    if value == 0:
        return 0
    deps = new_tuple(o, hold(o, a), 0, 0)
    if deps == 0:
        return failed(o, value)
    node: Node = new_node(o, record.op, record.out, a.size, deps, value)
    if node == 0:
        return 0
    return array_of(o, record, node, hold(o, o.none))


def of_number(o: Operators, record: OperatorRecord, x: Word, number: Word, reflected: Word) -> Word:
    """The operation on an array and a number, which come in reverse order if `reflected`."""
    a: Node = node_of(o, record, x)
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
    hold(o, a)
    hold(o, u)
    made = 0
    if a.op == o.literal:
        if a.size == o.one:
            made = of_numbers(o, record, a, number, reflected, numbers, zero)
    else:
        if record.in_code:
            made = of_code(o, record, a, number)
        else:
            b: Node = new_literal(o, record, number, numbers, zero)
            if b != 0:
                if reflected:
                    made = new_array(o, record, b, a, o.none, u, a)
                else:
                    made = new_array(o, record, a, b, u, o.none, a)
                call("void(ptr)", o.decref, b)
    call("void(ptr)", o.decref, u)
    call("void(ptr)", o.decref, a)
    return made


def operand(o: Operators, record: OperatorRecord, x: Word, like: Node) -> Node:
    """The node of operand `y` or `z` of an operation on three, as a new reference, with as many
    entries as `like` or a single one; or 0."""
    if word(x + TYPE) != record.type:
        if record.numbers == 0:
            return NULL
        return new_literal(o, record, x, record.numbers, record.zero)
    node: Node = node_of(o, record, x)
    if node == 0:
        return NULL
    broadcast = node.size == o.one and like.size != o.zero
    if not (node.size == like.size or broadcast or is_equal(o, node.size, like.size)):
        return NULL
    return hold(o, node)


@inline
def variable_of_operand(o: Operators, record: OperatorRecord, x: Word) -> Word:
    """The variable of such an operand."""
    if word(x + TYPE) != record.type:
        return o.none
    return variable(o, record, x)


def of_three(o: Operators, record: OperatorRecord, x: Word, y: Word, z: Word) -> Word:
    """The operation on three operands, of which `x` is an array of the class `record.first`."""
    if word(x + TYPE) != record.first:
        return 0
    a: Node = word(x + record.first_node)
    u = o.none
    if record.first == record.type:
        a = node_of(o, record, x)
        u = variable(o, record, x)
    if a == 0 or o.off != 0:
        return 0
    # Creating a literal runs code, so what was read before gets a counted reference first.
    hold(o, a)
    hold(o, u)
    b: Node = operand(o, record, y, a)
    v = hold(o, variable_of_operand(o, record, y))
    c: Node = NULL
    if b != 0:
        c = operand(o, record, z, a)
    w = hold(o, variable_of_operand(o, record, z))
    tracked = u != o.none or v != o.none or w != o.none
    tape = 0
    if tracked:
        tape = tape_of(o)
    other = c == 0 or (b == c and record.idempotent) or (tracked and tape == 0)
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


def general(o: Operators, function: Word, x: Word, y: Word, z: Word) -> Word:
    """Calls a function of Python unless there was an error; `y` and `z` are 0 if it takes fewer
    arguments."""
    if call("i64()", o.error):
        return 0
    arguments = room(3)
    put(arguments, x)
    put(arguments + 8, y)
    put(arguments + 16, z)
    count = 1 + (y != 0) + (z != 0)
    return call("i64(ptr, ptr, i64, ptr)", o.call, function, arguments, count, 0)


def forward(o: Operators, record: OperatorRecord, x: Word, y: Word) -> Word:
    if word(y + TYPE) == record.type:
        made = of_arrays(o, record, x, y)
    else:
        made = of_number(o, record, x, y, 0)
    if made == 0:
        return general(o, record.forward, x, y, 0)
    return made


@inline
def backward(o: Operators, record: OperatorRecord, x: Word, y: Word) -> Word:
    made = of_number(o, record, y, x, 1)
    if made == 0:
        return general(o, record.backward, y, x, 0)
    return made


def binary(number: Word, x: Word, y: Word) -> Word:
    """A binary operator of Python."""
    o: Operators = external("drjit_operators")
    record: OperatorRecord = record_of(o, word(x + TYPE), number)
    if record != 0:
        return forward(o, record, x, y)
    if word(x + TYPE) == o.float_type or word(x + TYPE) == o.int_type:
        record = record_of(o, word(y + TYPE), number)
        if record != 0:
            return backward(o, record, x, y)
    return general(o, word(o.others[number]), x, y, 0)


def unary(number: Word, x: Word) -> Word:
    o: Operators = external("drjit_operators")
    made = 0
    record: OperatorRecord = record_of(o, word(x + TYPE), number)
    if record == 0:
        return general(o, word(o.others[number]), x, 0, 0)
    made = of_one(o, record, x)
    if made == 0:
        return general(o, record.forward, x, 0, 0)
    return made


@inline
def compare(x: Word, y: Word, relation: Word) -> Word:
    return binary(relation & 7, x, y)


def in_place(number: Word, x: Word, y: Word) -> Word:
    """An in-place operator: its result becomes the value of the array, unless it is of another
    class."""
    o: Operators = external("drjit_operators")
    record: OperatorRecord = record_of(o, word(x + TYPE), number)
    if record == 0 or o.off != 0:
        return general(o, word(o.others[OTHERS + number]), x, y, 0)
    made = forward(o, record, x, y)
    if made == 0:
        return 0
    if word(made + TYPE) != record.type:
        return made
    replace(o, x + record.node, word(made + record.node))
    if record.var != 0:
        replace(o, x + record.var, word(made + record.var))
    call("void(ptr)", o.decref, made)
    return hold(o, x)


def recorded_unary(self: Word, arguments: Word, count: Word) -> Word:
    """Called by Python in place of a recorder, for an operation and the class of an argument."""
    o: Operators = external("drjit_operators")
    record: OperatorRecord = word(self + CONTENTS)
    made = of_one(o, record, word(arguments))
    if made == 0:
        return general(o, record.forward, word(arguments), 0, 0)
    return made


def recorded_binary(self: Word, arguments: Word, count: Word) -> Word:
    o: Operators = external("drjit_operators")
    record: OperatorRecord = word(self + CONTENTS)
    x = word(arguments)
    if word(x + TYPE) == record.type:
        return forward(o, record, x, word(arguments + 8))
    return backward(o, record, x, word(arguments + 8))


def recorded_ternary(self: Word, arguments: Word, count: Word) -> Word:
    o: Operators = external("drjit_operators")
    record: OperatorRecord = word(self + CONTENTS)
    x = word(arguments)
    y = word(arguments + 8)
    z = word(arguments + 16)
    made = of_three(o, record, x, y, z)
    if made == 0:
        return general(o, record.forward, x, y, z)
    return made

"""Creates nodes, variables and arrays for `operators`. Allocating memory may run the garbage
collector, and thus any code, and may fail: whatever is used afterwards gets a counted reference
before.
"""

from . import objects
from .language import NULL, Word, call, inline, put, word
from .objects import GradScope, Node, OperatorRecord, Operators, Var, size_of
from .references import hold

RECORD = size_of(OperatorRecord)


@inline
def record_of(o: Operators, type: Word, number: Word) -> OperatorRecord:
    """The record of an operation for a class, or 0."""
    k = type >> 4
    while 1:
        cell = o.cells[k]
        if cell.object == type:
            record: OperatorRecord = cell.records + RECORD * number
            if record.op == 0:
                return NULL
            return record
        if cell.object == 0:
            return NULL
        k = k + 1


def failed(o: Operators, x: Word) -> Word:
    """Drops an object after an error; returns 0."""
    call("void(ptr)", o.decref, x)
    return 0


@inline
def node_of(o: Operators, record: OperatorRecord, x: Word) -> Node:
    """The node of an array, or 0."""
    node: Node = word(x + record.node)
    if node == 0 or o.off != 0:
        return NULL
    if record.var != 0 and word(x + record.var) == 0:
        return NULL
    return node


@inline
def variable(o: Operators, record: OperatorRecord, x: Word) -> Word:
    """The variable of an array, or None where the operation has no derivative."""
    if record.var == 0 or record.rule == 0:
        return o.none
    return word(x + record.var)


def tape_of(o: Operators) -> Word:
    """The list to which new variables of a body are added; 1 if there is none; 0 where Python has
    to create variables: where derivatives are suspended, and for forward traversals."""
    if call("i64(ptr)", o.entries, o.scopes) != 0:
        key = call("i64(i64)", o.from_unsigned, call("i64()", o.thread))
        if key == 0:
            return 0
        stack = call("i64(ptr, ptr)", o.find, o.scopes, key)
        call("void(ptr)", o.decref, key)
        if stack != 0:
            last = word(stack + objects.SIZE) - 1
            scope: GradScope = word(word(stack + objects.LIST) + 8 * last)
            if scope.all != o.false or call("i64(ptr)", o.members, scope.variables) != 0:
                return 0
            if scope.tape != o.none:
                return scope.tape
    return word(o.taped + objects.SIZE) == 0


def new_tuple(o: Operators, a: Word, b: Word, c: Word) -> Word:
    """A tuple that takes over one, two or three objects; 0 if there is no memory."""
    made = call("i64(i64)", o.tuple, 1 + (b != 0) + (c != 0))
    if made == 0:
        call("void(ptr)", o.decref, c)
        call("void(ptr)", o.decref, b)
        return failed(o, a)
    put(made + objects.ITEMS, a)
    if b != 0:
        put(made + objects.ITEMS + 8, b)
    if c != 0:
        put(made + objects.ITEMS + 16, c)
    return made


@inline
def new_node(o: Operators, op: Word, dtype: Word, size: Word, deps: Word, data: Word) -> Node:
    """A new node, which takes over `deps` and `data`; 0 if there is no memory."""
    node: Node = call("i64(ptr, i64)", o.allocate, o.node_type, 0)
    if node == 0:
        call("void(ptr)", o.decref, data)
        return failed(o, deps)
    node.op = hold(o, op)
    node.dtype = hold(o, dtype)
    node.size = hold(o, size)
    node.deps = deps
    node.data = data
    node.mark = hold(o, o.none)
    node.serial = call("i64(ptr)", o.next, o.serials)
    if node.serial == 0:
        return failed(o, node)
    return node


def converted(o: Operators, record: OperatorRecord, x: Word, numbers: Word, zero: Word) -> Word:
    """A Python number converted to the type of a class; 0 if it may simplify the operation or is of
    another type. The table `numbers` has all others but zero, for which `zero` stands, if not 0."""
    is_zero = x == o.zero
    if word(x + objects.TYPE) != o.int_type:
        if word(x + objects.TYPE) != o.float_type or record.floats == 0:
            return 0
        is_zero = word(x + objects.NUMBER) == 0
    if is_zero:
        return hold(o, zero)
    value = call("i64(ptr, ptr)", o.item, numbers, x)
    if value == 0 or value == o.none:
        return failed(o, value)
    return value


def new_literal(o: Operators, record: OperatorRecord, x: Word, numbers: Word, zero: Word) -> Node:
    """A new literal for a Python number, or 0."""
    value = converted(o, record, x, numbers, zero)
    if value == 0:
        return NULL
    return new_node(o, o.literal, record.dtype, o.one, hold(o, o.empty), value)


def new_var(o: Operators, record: OperatorRecord, node: Node, variables: Word, tape: Word) -> Var:
    """A new variable for a node, which takes over the tuple of its operands' variables and is added
    to a tape; 0 if there is no memory."""
    kind = o.var_type
    if tape != 1:
        kind = o.inner_type
    var: Var = call("i64(ptr, i64)", o.allocate, kind, 0)
    if var == 0:
        return failed(o, variables)
    var.deps = variables
    var.rule = hold(o, record.rule)
    var.dtype = hold(o, record.out)
    var.size = hold(o, node.size)
    var.serial = hold(o, node.serial)
    var.inputs = o.empty
    if record.keeps_inputs:
        var.inputs = node.deps
    hold(o, var.inputs)
    var.result = o.none
    if record.keeps_result:
        var.result = node
    hold(o, var.result)
    var.data = hold(o, o.none)
    var.grad = hold(o, o.none)
    var.grad_var = hold(o, o.none)
    var.mark = hold(o, o.none)
    if tape != 1 and call("i32(ptr, ptr)", o.append, tape, var) != 0:
        return failed(o, var)
    return var


def finished(
    o: Operators, record: OperatorRecord, deps: Word, variables: Word, tape: Word, like: Node
) -> Word:
    """The array of an operation, whose node takes over the tuple `deps`, and whose variable, if
    any, the tuple `variables`; 0 if there is no memory."""
    var: Var = variables
    node: Node = new_node(o, record.op, record.out, like.size, deps, hold(o, o.none))
    if node == 0:
        return failed(o, var)
    if tape != 0:
        var = new_var(o, record, node, variables, tape)
        if var == 0:
            return failed(o, node)
    return array_of(o, record, node, var)


def array_of(o: Operators, record: OperatorRecord, node: Node, var: Var) -> Word:
    """A new array, which takes over its node and its variable or None; 0 if there is no memory."""
    x = call("i64(ptr, i64)", o.allocate, record.result, 0)
    if x == 0:
        call("void(ptr)", o.decref, var)
        return failed(o, node)
    put(x + record.result_node, node)
    if record.result_var == 0:
        call("void(ptr)", o.decref, var)
        return x
    put(x + record.result_var, var)
    return x


def new_array(
    o: Operators, record: OperatorRecord, a: Node, b: Node, u: Word, v: Var, like: Node
) -> Word:
    """The array of the operation on the nodes `a` and `b` with the variables `u` and `v`; `b` and
    `v` are 0 if there is one operand. It has as many entries as `like`. Returns 0 where Python has
    to do this."""
    tape = 0
    variables = o.none
    if u != o.none or (v != 0 and v != o.none):
        tape = tape_of(o)
        if tape == 0:
            return 0
        hold(o, u)
        hold(o, v)
    hold(o, a)
    hold(o, b)
    if tape != 0:
        variables = new_tuple(o, u, v, 0)
        if variables == 0:
            call("void(ptr)", o.decref, b)
            return failed(o, a)
    else:
        hold(o, variables)
    deps = new_tuple(o, a, b, 0)
    if deps == 0:
        return failed(o, variables)
    return finished(o, record, deps, variables, tape, like)

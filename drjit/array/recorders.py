"""The functions that record an element-wise operation on arrays of one class, and numbers: they
make the array, the node and the variable themselves.

They run for each operation of a program, so they are compiled for each class, with `part`s in place
of their calls, and without looking up what `this` says of the operation (`bytecode.expanded`).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from ..ad.algebra import element_recorder
from ..ad.graph import Var, add_to_tape, lose, scopes, taped
from ..jit import frames
from ..jit.ir import node
from ..jit.ir import op as ops
from ..jit.ir.node import LITERAL, Node, serials
from ..jit.run import bytecode
from ..jit.run.bytecode import expanded, part
from .leaf import combine_nodes, new


class Operation:
    """An operation on arrays of a class `cls`, which makes arrays of `result`. `general` is called
    for operands that are something else."""

    def __init__(self, op_: ops.Op, cls: Any, result: Any, general: Callable) -> None:
        self.op, self.cls, self.result, self.general = op_, cls, result, general
        self.diff, self.mask, self.name = cls._diff, cls.Mask, op_.name
        self.dtype, self.out = cls._dtype, result._dtype
        self.fold: Any = node.folder(op_, self.out)
        self.kinds, self.rounded, self.zero = node.numbers(self.dtype)
        self.rule, self.record = rule, _ = element_recorder(op_, self.out)
        self.keeps_inputs = rule is not None and rule.keeps_inputs
        self.keeps_result = rule is not None and rule.keeps_result
        self.special = ops.special_numbers(op_, self.dtype)
        self.special_first = self.special if op_.commutative else ()
        self.in_code, self.idempotent = op_.in_code, op_.idempotent
        self.involution = op_ if op_.involution else None


def recorder(form: Callable, op_: ops.Op, cls: Any, result: Any, general: Callable) -> Callable:
    """Returns the function of a form that records an operation."""
    return _expanded(form, cls._diff)(Operation(op_, cls, result, general))


_expanded = cache(lambda form, diff: frames.guard_inner(expanded(form, diff=diff)))


@cache
def prepare() -> None:
    """Makes what the operators of classes need, which are built while a lock is held."""
    for diff in (False, True):
        bytecode.prepare((unary, array_first, number_first), diff=diff)


@part
def array(this: Operation, a: Any) -> tuple:
    x = a._node
    if this.diff:
        v = a._var
    else:
        v = None
    return x, v


@part
def operand(this: Operation, a: Any) -> tuple:
    """An array of the class or a number; None for anything else."""
    v = None
    if type(a) is this.cls:
        x = a._node
        if this.diff:
            v = a._var
    else:
        x, v = number(this, a)
    return x, v


@part
def number(this: Operation, a: Any) -> tuple:
    """A literal (see `node.literal_converter`); None for what is no number of the class."""
    x: Any = None
    v = None
    if type(a) in this.kinds:
        number_ = this.rounded(a) if a else this.zero(a)
        if number_ is not None:
            x = Node()
            x.op = LITERAL
            x.dtype = this.dtype
            x.size = 1
            x.deps = ()
            x.data = number_
            x.mark = None
            x.serial = next(serials)
    return x, v


@part
def recorded(
    this: Operation,
    o: ops.Op,
    data: Any,
    size: int,
    deps: tuple,
    nodes: tuple,
    untracked: bool,
    variables: tuple,
) -> Any:
    """The array of a new node: of the operation, or of a literal with data."""
    r: Any = new(this.result)
    r._node = n = Node()
    n.op = o
    n.dtype = this.out
    n.size = size
    n.deps = deps
    n.data = data
    n.mark = None
    n.serial = next(serials)
    if this.diff:
        if untracked:
            r._var = None
        elif this.record is None:
            r._var = None
            lose("constant", this.name)
        elif scopes:
            r._var = this.record(n, nodes, variables)
        else:
            r._var = v = Var()
            v.rule = this.rule
            v.deps = variables
            v.dtype = this.out
            v.size = size
            v.inputs = nodes if this.keeps_inputs else ()
            v.result = n if this.keeps_result else None
            v.data = v.grad = v.grad_var = v.mark = None
            v.serial = n.serial
            if taped:
                add_to_tape(v)
    return r


@part
def simplified(
    this: Operation, nodes: tuple, variables: tuple, operands: tuple, arguments: tuple
) -> Any:
    """The array of an operation that may simplify, or whose operands do not fit together."""
    try:
        return combine_nodes(this.result, this.op, nodes, variables, operands)
    except RuntimeError:
        return this.general(*arguments)


def unary(this: Operation) -> Callable[..., Any]:
    """Of an array."""

    def operator(self: Any) -> Any:
        o, data = this.op, None
        x0, v0 = array(this, self)
        deps = nodes = (x0,)
        size = x0.size
        made_by = x0.op
        plain = made_by is not this.involution
        if made_by is LITERAL:
            if this.fold is not None:
                deps, o, data = (), LITERAL, this.fold(x0.data)
            plain = data is not None
        if plain:
            return recorded(this, o, data, size, deps, nodes, v0 is None, (v0,))
        return simplified(this, nodes, (v0,), (self,), (self,))

    return operator


def array_first(this: Operation) -> Callable[..., Any]:
    """Of an array, and an array or a number."""

    def operator(self: Any, other: Any) -> Any:
        o, data = this.op, None
        x0, v0 = array(this, self)
        x1, v1 = operand(this, other)
        if x1 is None:
            return this.general(self, other)
        deps = nodes = (x0, x1)
        size = x0.size
        if x1.op is LITERAL:
            if x0.op is not LITERAL:
                plain = x1.size == 1 and size and x1.data not in this.special
                if this.in_code and plain:
                    deps, data = (x0,), x1.data
            else:
                if this.fold is not None and x1.size == size:
                    deps, o, data = (), LITERAL, this.fold(x0.data, x1.data)
                plain = data is not None
        elif x0.op is LITERAL:
            plain, size = size == 1 and x1.size and x0.data not in this.special_first, x1.size
        elif (width := x1.size) != size:
            plain = (size == 1 and width != 0) or (width == 1 and size != 0)
            if plain and size == 1:
                size = width
        else:
            plain = x0 is not x1 or not this.idempotent
        if plain:
            return recorded(this, o, data, size, deps, nodes, v0 is None and v1 is None, (v0, v1))
        return simplified(this, nodes, (v0, v1), (self, other), (self, other))

    return operator


def number_first(this: Operation) -> Callable[..., Any]:
    """Of an array, and a number that is the first operand."""

    def operator(self: Any, other: Any) -> Any:
        o, data = this.op, None
        x0, v0 = number(this, other)
        if x0 is None:
            return this.general(self, other)
        x1, v1 = array(this, self)
        deps = nodes = (x0, x1)
        size = x1.size
        if x1.op is LITERAL:
            if this.fold is not None:
                deps, o, data = (), LITERAL, this.fold(x0.data, x1.data)
            plain = data is not None
        else:
            plain = x0.data not in this.special_first
        if plain:
            return recorded(this, o, data, size, deps, nodes, v1 is None, (v0, v1))
        return simplified(this, nodes, (v0, v1), (other, self), (self, other))

    return operator


@part
def of_three(this: Operation, x0: Any, v0: Any, a: Any, b: Any, c: Any) -> Any:
    x1, v1 = operand(this, b)
    x2, v2 = operand(this, c)
    if x1 is None or x2 is None:
        return this.general(a, b, c)
    o, data = this.op, None
    deps = nodes = (x0, x1, x2)
    size = x0.size
    width, width2 = x1.size, x2.size
    plain = x1 is not x2 or not this.idempotent
    if x0.op is LITERAL and (this.idempotent or x1.op is x2.op is LITERAL):
        if (
            plain
            and this.fold is not None
            and x1.op is x2.op is LITERAL
            and (width == size or (width == 1 and size))
            and (width2 == size or (width2 == 1 and size))
        ):
            deps, o, data = (), LITERAL, this.fold(x0.data, x1.data, x2.data)
        plain = data is not None
    elif width != size or width2 != size:
        if size == 1:
            size = width2 if width == 1 else width
        if not size or (width != size and width != 1) or (width2 != size and width2 != 1):
            plain = False
    if plain:
        return recorded(
            this, o, data, size, deps, nodes, v1 is None and v2 is None and v0 is None, (v0, v1, v2)
        )
    return simplified(this, nodes, (v0, v1, v2), (a, b, c), (a, b, c))


def ternary(this: Operation) -> Callable[..., Any]:
    """Of arrays and numbers."""

    def operator(a: Any, b: Any, c: Any) -> Any:
        x0, v0 = operand(this, a)
        if x0 is None:
            return this.general(a, b, c)
        return of_three(this, x0, v0, a, b, c)

    return operator


def select(this: Operation) -> Callable[..., Any]:
    """Of a mask, and arrays or numbers."""

    def operator(a: Any, b: Any, c: Any) -> Any:
        if type(a) is not this.mask:
            return this.general(a, b, c)
        x0 = a._node
        return of_three(this, x0, None, a, b, c)

    return operator

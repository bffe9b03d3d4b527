"""Traced values. A `Node` is an operation on other nodes, a literal, or a buffer with evaluated
data.

Nodes are immutable except that evaluation turns them into buffers and drops their operands. They
form an acyclic graph and are freed by reference counting. Operations on literals are folded
immediately, as kernels compute them.
"""

import struct
from collections.abc import Callable
from functools import cache
from itertools import count
from math import copysign
from typing import Any

from ..device import Device, current
from . import dtype as dt
from . import op
from .dtype import DType
from .folding import NORMALIZE, ROUNDED, folder
from .folding import normalize as normalize
from .op import Op

serials = count(1)
next_serial = serials.__next__
"""Returns the serial number of a new node. Generated code uses `serials` itself, which is
faster."""


class Node:
    """A traced value: `size` lanes of type `dtype`.

    `data` is the Python number of a literal, the `Buffer` of a buffer or of an `after`, or the
    static metadata of an operation. `serial` increases with creation, so operands have smaller
    numbers. `mark` and `id` are scratch fields of the scheduler.
    """

    __slots__ = ("__weakref__", "data", "deps", "dtype", "id", "mark", "op", "serial", "size")

    op: Op
    dtype: DType
    size: int
    deps: tuple["Node", ...]
    data: Any
    serial: int
    mark: object
    id: int

    @property
    def is_literal(self) -> bool:
        return self.op is LITERAL

    @property
    def is_evaluated(self) -> bool:
        return self.op is BUFFER

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype}[{self.size}]>"


LITERAL, BUFFER, AFTER, SPLAT = op.literal, op.buffer, op.after, op.splat
_CAST = op.cast
MAX_SIZE = (1 << 32) - 1  # lane indices have 32 bits


def make(op_: Op, dtype: DType, size: int, deps: tuple[Node, ...] = (), data: Any = None) -> Node:
    """Creates a node as given, without folding or checks."""
    n = Node()
    n.op = op_
    n.dtype = dtype
    n.size = size
    n.deps = deps
    n.data = data
    n.serial = next_serial()
    n.mark = None
    return n


def literal(dtype: DType, value: Any, size: int = 1) -> Node:
    """Creates a constant. The value is converted as in kernels: integers wrap, floats round to the
    type.

    Raises:
        RuntimeError: the size exceeds `MAX_SIZE`.
    """
    if size > MAX_SIZE:
        check_size(size)
    return make(LITERAL, dtype, size, (), NORMALIZE[dtype.element](value))


@cache
def literal_converter(dtype: DType) -> Callable[..., Node | None]:
    """Returns a function that converts a Python number to a literal, by default of size 1, or
    returns None if arrays of this type do not accept the number as is. It runs for every number in
    a program, so it must be fast."""
    kinds, rounded, zero = numbers(dtype)

    def convert(value: Any, size: int = 1) -> Node | None:
        if type(value) not in kinds:
            return None
        data = rounded(value) if value else zero(value)
        if data is None:
            return None
        n = Node()
        n.op = LITERAL
        n.dtype = dtype
        n.size = size
        n.deps = ()
        n.data = data
        n.mark = None
        n.serial = next_serial()
        return n

    return convert


@cache
def numbers(dtype: DType) -> tuple[tuple[type, ...], Callable[..., Any], Callable[..., Any]]:
    """Returns the types of the Python numbers that arrays accept as they are, and functions that
    convert one to the data of a literal: one for numbers other than 0, which returns None for those
    out of range, and one for 0."""
    if dtype.is_float:
        return (float, int), ROUNDED[dtype.element], float
    low, high = dtype.low, dtype.high
    kind = bool if dtype.is_mask else int
    return (kind,), lambda value: value if low <= value <= high else None, kind


class _Constants(dict[tuple[DType, float], Node]):
    def __missing__(self, key: tuple[DType, float]) -> Node:
        node = self[key] = literal(*key)
        return node


CONSTANTS = _Constants(
    {(t, v): make(LITERAL, t, 1, (), f(v)) for t, f in NORMALIZE.items() for v in (0, 1)}
)
"""Literals of size 1 by type and value, for values that the package itself chooses, so that nodes
may be shared. Numbers in user programs must not share nodes: kernels would then depend on which of
them happen to be equal. Initially, it holds the constants that derivatives use most."""
shared = frozenset(CONSTANTS.values())


def check_size(size: int) -> None:
    """Raises a RuntimeError for an array with more than `MAX_SIZE` entries."""
    if size > MAX_SIZE:
        raise RuntimeError(f"an array cannot have {size:,} entries: the limit is {MAX_SIZE:,}")


def buffer(dtype: DType, size: int, memory: Any) -> Node:
    """Creates a node for evaluated data."""
    check_size(size)
    return make(BUFFER, dtype, size, (), memory)


def lane(size: int, device: Device | None = None) -> Node:
    """The lane indices 0 ... size-1, in `u32`, on a device (by default the current one)."""
    check_size(size)
    return literal(dt.u32, 0) if size == 1 else make(op.lane, dt.u32, size, (), device or current())


class SizeError(RuntimeError):
    """Operands have different sizes, none of which can be broadcast."""


MIXTURE = "operation that mixes symbolic"
"""How a `SizeError` describes operands some of which depend on symbolic values."""


def broadcast_size(nodes: tuple[Node, ...], what: str) -> int:
    """Returns the common size of operands; `what` names the operation in the error.

    Raises:
        RuntimeError: sizes differ and neither is 1.
    """
    size = 1
    for n in nodes:
        s = n.size
        if s != size and s != 1:
            if size != 1:
                sizes = ", ".join(str(m.size) for m in nodes)
                mixed = ""
                if _is_symbolic(nodes):
                    mixed = (
                        f" This is an {MIXTURE} values, of the body of a loop, branch or call, "
                        "with an array of another size than that has lanes; such an array can be "
                        "accessed by dr.gather() there."
                    )
                raise SizeError(
                    f"{what}: operands have incompatible sizes ({sizes}). "
                    f"Sizes must agree; an operand of size 1 is broadcast.{mixed}"
                )
            size = s
    return size


def _is_symbolic(nodes: tuple[Node, ...]) -> bool:
    """Returns whether a node depends on symbolic loop state or arguments."""
    seen = list(nodes)
    known = set(seen)
    for n in seen:  # the list grows during iteration
        if n.op.name == "state":
            return True
        more = [d for d in n.deps if d not in known]
        known.update(more)
        seen += more
    return False


def apply(op_: Op, *deps: Node) -> Node:
    """Applies an element-wise operation of the table, folding and simplifying where possible.

    Raises:
        RuntimeError: operands have incompatible sizes.
        TypeError: the operation does not accept the element type, or operand types differ.
    """
    check_types(op_, deps)
    return combine(op_, deps)


def combine(op_: Op, deps: tuple[Node, ...]) -> Node:
    """Like `apply`, for operands whose element types are known to be valid."""
    a = deps[0]
    size, dtype = a.size, a.dtype
    literals = 0
    for d in deps:
        if d.op is LITERAL:
            literals += 1
        if d.size != size:
            if size == 1:
                size = d.size
            elif d.size != 1:
                size = broadcast_size(deps, op_.name)  # raises with the reason
    if op_.result != "same":
        dtype = dtype.mask_type if op_.result == "mask" else deps[1].dtype
    if literals:
        if literals == len(deps):
            return make(LITERAL, dtype, size, (), evaluate_literal(op_, dtype, deps))
        rule = WITH_LITERAL.get(op_)
    else:
        rule = SIMPLIFY.get(op_)
    if dtype.is_vector:
        for d in deps:
            if d.op is not SPLAT and d.op is not LITERAL:
                break
        else:
            return splat(dtype.count, combine(op_, tuple([_feature(d) for d in deps])))
    if rule is not None:
        simpler = rule(size, *deps)
        if simpler is not None:
            return simpler
    return make(op_, dtype, size, deps)


def splat(count: int, a: Node) -> Node:
    """Creates a vector whose features all equal the same scalar."""
    dtype = dt.VECTORS[a.dtype, count]
    if a.op is LITERAL:
        return literal(dtype, a.data, a.size)
    return make(SPLAT, dtype, a.size, (a,))


def _feature(a: Node) -> Node:
    """Returns the scalar that all features of a splat or literal equal."""
    return a.deps[0] if a.op is SPLAT else literal(a.dtype.element, a.data, a.size)


def check_types(op_: Op, deps: tuple[Node, ...]) -> None:
    """Raises a TypeError if the operation does not accept the element type, or operand types
    differ."""
    a = deps[0].dtype
    if a.kind not in op_.domain:
        raise TypeError(f"{op_.name}: unsupported element type {a.name}")
    first = 1 if op_.result == "second" else 0
    for d in deps[first + 1 :]:
        if d.dtype is not deps[first].dtype:
            names = ", ".join(d.dtype.name for d in deps)
            raise TypeError(f"{op_.name}: operands have different element types ({names})")


def cast(dtype: DType, a: Node) -> Node:
    """Converts to another element type; the kernel language defines out-of-range values."""
    if a.dtype is dtype:
        return a
    if a.op is LITERAL:
        value, to = a.data, dtype.element
        # Normalizing is enough where integers wrap or a number is rounded at most once, but not,
        # for example, where a large integer becomes a float.
        if type(value) is float:
            same = to.is_float
        else:
            same = to.is_int or abs(value) <= 1 << 24
        if not same:
            from ..target import number

            value = number.convert(to, a.dtype.element, value)
        return literal(dtype, value, a.size)
    if a.op is SPLAT:
        return splat(dtype.count, cast(dtype.element, a.deps[0]))
    return make(_CAST, dtype, a.size, (a,))


def bitcast(dtype: DType, a: Node) -> Node:
    """Reinterprets the bits as another element type of the same size.

    Raises:
        TypeError: the types differ in size, or one of them is a mask.
    """
    if a.dtype is dtype:
        return a
    if a.dtype.itemsize != dtype.itemsize or a.dtype.is_mask or dtype.is_mask:
        raise TypeError(f"cannot reinterpret {a.dtype.name} as {dtype.name}: sizes differ")
    if a.op is LITERAL:
        before, after = dt.FORMATS[a.dtype.element], dt.FORMATS[dtype.element]
        (bits,) = struct.unpack(after, struct.pack(before, a.data))
        return literal(dtype, bits, a.size)
    deps = a.deps  # read before the op: another thread may be evaluating the node
    if a.op is op.bitcast:
        return bitcast(dtype, deps[0])
    return make(op.bitcast, dtype, a.size, (a,))


def resize(a: Node, size: int) -> Node:
    """Broadcasts a node of size 1 to another size."""
    if a.size == size:
        return a
    if a.op is LITERAL:
        return literal(a.dtype, a.data, size)
    return make(op.select, a.dtype, size, (literal(dt.mask, True, size), a, a))


def evaluate_literal(op_: Op, dtype: DType, deps: tuple[Node, ...]) -> Any:
    """Evaluates an operation on literals as kernels do."""
    fold = folder(op_, dtype.element)
    values = tuple([d.data for d in deps])
    if fold is not None:
        value = fold(*values)
        if value is not None:
            return value
    from ..target import number  # the math library, which few programs need for literals

    return number.evaluate(op_, deps[op_.result == "second"].dtype.element, values)


# A rule for an identity of the table of operations returns a simpler node of the given size, or
# None.


def _same_size(size: int, a: Node) -> Node | None:
    return a if a.size == size else None


def _with_number(op_: Op) -> Callable[[int, Node, Node], Node | None]:
    """Rule for an operation with a neutral or absorbing number, or whose second operand becomes
    part of the code if it is constant."""
    commutative, in_code = op_.commutative, op_.in_code

    def rule(size: int, a: Node, b: Node) -> Node | None:
        if b.op is not LITERAL:
            if not commutative:
                return None
            a, b = b, a
        value = b.data
        neutral, absorbing = op.special_numbers(op_, b.dtype)
        if value == neutral and (value or copysign(1, value) == copysign(1, neutral)):
            return a if a.size == size else None
        if value == absorbing:
            return literal(a.dtype, value, size)
        if in_code and a.size == size:
            return make(op_, a.dtype, size, (a,), value)
        return None

    return rule


def _same_values(size: int, *deps: Node) -> Node | None:
    """Rule for an idempotent operation."""
    return _same_size(size, deps[-1]) if deps[-2] is deps[-1] else None


def _select(size: int, m: Node, a: Node, b: Node) -> Node | None:
    """Rule for a select with a literal."""
    if m.op is not LITERAL:
        return _same_values(size, a, b)
    chosen = a if m.data else b
    # Keep the select around a broadcast non-literal: it determines the size of the value.
    if chosen.op is LITERAL:
        return literal(chosen.dtype, chosen.data, size)
    return _same_size(size, chosen)


def _twice(op_: Op) -> Callable[[int, Node], Node | None]:
    """Rule for an operation that is its own inverse."""

    def rule(size: int, a: Node) -> Node | None:
        deps = a.deps  # read before the op: another thread may be evaluating the node
        return deps[0] if a.op is op_ else None

    return rule


SIMPLIFY: dict[Op, Callable[..., Node | None]] = {
    **{o: _twice(o) for o in op.TABLE.values() if o.involution},
    **{o: _same_values for o in op.TABLE.values() if o.idempotent},
}
"""Identities for operands that are not literals."""
WITH_LITERAL: dict[Op, Callable[..., Node | None]] = {
    op.select: _select,
    **{
        o: _with_number(o)
        for o in op.TABLE.values()
        if o.in_code or o.neutral is not None or o.absorbing is not None
    },
}
"""Identities with a literal operand."""

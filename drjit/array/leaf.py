"""Operations on traced one-dimensional arrays. All recording on such arrays passes through here (or
through the generated operators), which is why derivatives are recorded here as well.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from ..ad import algebra, memory_rules
from ..ad.graph import Value, Var, as_value, lose
from ..jit.device import Device, current
from ..jit.ir import node
from ..jit.ir.node import BUFFER, LITERAL, Node
from ..jit.ir.op import Op
from ..jit.ir.scope import nothing_runs
from ..jit.lazy import np
from ..jit.run import launch, schedule
from ..jit.run.freeze import uninitialized

new = object.__new__


def wrap(cls: type, n: Node) -> Any:
    """Returns an array of the class for a node, without derivative."""
    array = new(cls)
    array._node = n
    if cls._diff:
        array._var = None
    return array


def apply(op_: Op, *args: Any) -> Any:
    """Applies an element-wise operation to arrays of the same class (except for the mask of a
    select).

    Raises:
        RuntimeError: the sizes are incompatible.
        TypeError: the operation does not accept the element type.
    """
    cls = type(args[0])
    if op_.result == "mask":
        cls = cls.Mask
    elif op_.result == "second":
        cls = type(args[1])
    nodes = tuple([a._node for a in args])
    node.check_types(op_, nodes)
    return combine_nodes(cls, op_, nodes, tuple([a._var for a in args]), ())


def combine_nodes(
    cls: Any, op_: Op, nodes: tuple[Node, ...], variables: tuple, given: Sequence[Any]
) -> Any:
    """Applies the operation to nodes of valid element types and their variables, and returns an
    array of the class. `given` are the operands as the user gave them, or empty.
    """
    result = new(cls)
    result._node = n = node.combine(op_, nodes)
    if not n.size:
        check_empty(op_.name, nodes, given)
    if cls._diff:
        result._var = algebra.record(op_, n, nodes, variables) if any(variables) else None
    return result


def check_empty(what: str, nodes: Sequence[Node], given: Sequence[Any] = ()) -> None:
    """Checks for an empty operand combined with an array of size 1: the empty one was never
    initialized, unless a function is called for no lanes. Numbers go with any array; without the
    operands as they were `given`, constants are taken for numbers.

    Raises:
        RuntimeError: there is such an operand.
    """
    if given:
        arrays = [n for n, a in zip(nodes, given, strict=True) if hasattr(a, "_node")]
    else:
        arrays = [n for n in nodes if n.op is not LITERAL]
    if 1 in [n.size for n in arrays] and 0 in [n.size for n in nodes] and not nothing_runs():
        sizes = ", ".join(str(n.size) for n in nodes)
        raise node.SizeError(
            f"{what}: operands have incompatible sizes ({sizes}). One of them is empty, was it "
            "never initialized?"
        )


# Without calls of Python functions, because there are many arrays.
_node_and_var = attrgetter("_node", "_var")


def value(a: Any) -> Value:
    """Returns the traced value of an array with its variable in the derivative graph."""
    return as_value(_node_and_var(a))


def values(arrays: Iterable[Any]) -> list[Value]:
    """Returns the traced values of arrays."""
    return [*map(as_value, map(_node_and_var, arrays))]


def assign(array: Any, v: Value) -> None:
    """Sets the contents of an array."""
    array._node = v.node
    if array._diff:
        array._var = v.var


def from_value(cls: type, v: Value) -> Any:
    """Returns an array of the class for a traced value."""
    array = new(cls)
    array._node = v.node
    if cls._diff:
        array._var = v.var
    return array


def literal(cls: type, value: Any, size: int = 1) -> Any:
    """Returns a constant array; the value is converted as in kernels."""
    return wrap(cls, node.literal(cls._dtype, value, size))


def constant_maker(cls: Any) -> Callable[..., Any]:
    """Returns a function that converts a Python number to an array of the class, by default of size
    1. Values that the class does not accept are returned unchanged."""
    made, diff = node.literal_converter(cls._dtype), cls._diff

    def array(value: Any, size: int = 1) -> Any:
        n = made(value, size)
        if n is None:
            return value
        r = new(cls)
        r._node = n
        if diff:
            r._var = None
        return r

    return array


def cast(cls: type, a: Any) -> Any:
    """Converts to the element type of another class."""
    if a._var is None:
        return wrap(cls, node.cast(cls._dtype, a._node))
    if not (cls._dtype.is_float and cls._diff):
        lose("type" if cls._dtype.is_float else "integer")
    return from_value(cls, memory_rules.cast(cls._dtype, value(a)))


def bitcast(cls: type, a: Any) -> Any:
    """Reinterprets the bits as another element type of the same size."""
    return wrap(cls, node.bitcast(cls._dtype, a._node))


def unwritten(cls: Any, size: int) -> Any:
    """Returns an array with undefined contents, for a scatter that writes every entry."""
    t = cls._dtype
    if size == 0 or t.is_mask:
        return literal(cls, 0, size)
    return wrap(cls, uninitialized(t, size, cls._device))


def lane(cls: Any, size: int) -> Any:
    """Returns 0 ... size-1."""
    return wrap(cls, node.cast(cls._dtype, node.lane(size, cls._device)))


def resize(a: Any, size: int) -> Any:
    """Broadcasts an array of size 1 to another size. The result is another array in any case."""
    if a._node.size != size:
        return from_value(type(a), memory_rules.broadcast_to(value(a), size))
    copy: Any = wrap(type(a), a._node)
    if a._var is not None:
        copy._var = a._var
    return copy


def host(a: Any) -> np.ndarray:
    """Returns the entries as a NumPy array, to be read while `a` is alive; evaluates and waits."""
    n = a._node
    if n.op is LITERAL:
        return np.full(n.size, n.data, n.dtype.numpy)
    if n.op is not BUFFER:
        schedule.complete([n], a._device)
    return launch.to_numpy(n.dtype, n.size, n.data)


def entries(a: Any) -> Any:
    """Returns the entries as a sequence of Python numbers, to be read while `a` is alive; evaluates
    and waits."""
    n = a._node
    if n.op is LITERAL:
        return [n.data] * n.size
    if n.op is not BUFFER:
        schedule.complete([n], a._device)
    return launch.entries(n.dtype, n.size, n.data)


def any_set(n: Node, device: Device | None = None) -> bool:
    """Returns whether any entry of a mask is set; evaluates and waits."""
    if n.op is not LITERAL and n.op is not BUFFER:
        schedule.complete([n], device)
    if n.op is LITERAL:
        return bool(n.data) and n.size > 0
    return True in bytes(launch.entries(n.dtype, n.size, n.data))


def from_numbers(cls: Any, values: Sequence) -> Any:
    """Returns an array of numbers that the element type has, or of floats, which are rounded to it.

    Raises:
        OverflowError: the type cannot represent one of them.
    """
    data = (cls._device or current()).upload_numbers(cls._dtype, values)
    return wrap(cls, node.buffer(cls._dtype, len(values), data))


def from_numpy(cls: Any, values: np.ndarray, copy: bool = False) -> Any:
    """Returns an array with the entries of a one-dimensional NumPy array, converted as in C. Memory
    is shared if possible.
    """
    dtype, size = cls._dtype, values.size
    if size == 0:
        return literal(cls, 0, 0)
    if values.dtype != dtype.numpy:
        with np.errstate(invalid="ignore", over="ignore"):
            values = values.astype(dtype.numpy)
    to = cls._device or current()
    buffer = None if copy else to.adopt(values)
    if buffer is None:
        buffer = to.upload(values)
    return wrap(cls, node.buffer(dtype, size, buffer))


# Numbers that stand for traced values: programs that decompose a PyTree of arrays pass on numbers
# in place of its values, and look up the values by them as long as these exist. The upper half of
# a number identifies the variable in the derivative graph, the lower 32 bits the traced value.

_nodes: WeakValueDictionary[int, Node] = WeakValueDictionary()
_vars: WeakValueDictionary[int, Var] = WeakValueDictionary()
_HALF = 32


def number_of_node(n: Node) -> int:
    """Returns the number of a traced value; 0 if it is empty."""
    if not n.size:
        return 0
    _nodes[n.serial] = n
    return n.serial


def number_of_var(v: Var | None) -> int:
    """Returns the number of a variable in the derivative graph; 0 for none."""
    if v is None:
        return 0
    _vars[v.serial] = v
    return v.serial


def number_of(array: Any) -> int:
    """Returns the number of a one-dimensional traced array's value, including derivatives."""
    return number_of_var(array._var) << _HALF | number_of_node(array._node)


def find_number(number: int) -> Value | None:
    """Returns the value with a number; None for an empty array.

    Raises:
        RuntimeError: no value has the number, or the value no longer exists.
    """
    low = number & ((1 << _HALF) - 1)
    high = number >> _HALF
    if number == 0:
        return None
    node, var = _nodes.get(low), _vars.get(high) if high > 0 else None
    if node is None or (high and var is None):
        raise RuntimeError(
            f"there is no variable with the index {number}. A variable exists as long as an array "
            "holds it, or an IndexVector."
        )
    return Value(node, var)

"""Numbers that stand for traced values: programs that take a tree of arrays apart pass its values
on as numbers, and the values are found by them for as long as they exist.

A number has the place in the graph of derivatives in its upper half and the traced value in its
lower 32 bits.
"""

from typing import Any
from weakref import WeakValueDictionary

from ..ad.graph import Value, Var
from ..jit.ir.node import Node

_nodes: WeakValueDictionary[int, Node] = WeakValueDictionary()
_vars: WeakValueDictionary[int, Var] = WeakValueDictionary()
_HALF = 32


def number_of_node(n: Node) -> int:
    """The number of a traced value; 0 if it is empty."""
    if not n.size:
        return 0
    _nodes[n.serial] = n
    return n.serial


def number_of_var(v: Var | None) -> int:
    """The number of a place in the graph of derivatives; 0 for none."""
    if v is None:
        return 0
    _vars[v.serial] = v
    return v.serial


def number(array: Any) -> int:
    """The number of the value of a one-dimensional traced array, derivatives included."""
    return number_of_var(array._var) << _HALF | number_of_node(array._node)


def find(number: int) -> Value | None:
    """The value of a number; None for an empty array.

    Raises:
        RuntimeError: no value has the number, or no longer.
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

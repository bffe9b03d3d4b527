"""Numbers that stand for traced values: programs that decompose a PyTree of arrays pass its values
on as numbers, and look the values up by them as long as they exist.

The upper half of a number identifies the variable in the derivative graph, the lower 32 bits the
traced value.
"""

from typing import Any
from weakref import WeakValueDictionary

from ..ad.graph import Value, Var
from ..jit.ir.node import Node

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


def number(array: Any) -> int:
    """Returns the number of a one-dimensional traced array's value, including derivatives."""
    return number_of_var(array._var) << _HALF | number_of_node(array._node)


def find(number: int) -> Value | None:
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

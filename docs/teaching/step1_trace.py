"""Step 1, trace: arrays that record what is done to them, instead of doing it."""

from collections.abc import Callable
from typing import Any

import numpy as np


class Node:
    """What a value is computed from: an operation and its operands. `data` is the array of a
    `data` node, and the number of a `number` node. `size` is the number of entries, or 1."""

    def __init__(self, op: str, *operands: "Node", data: Any = None, size: int = 1) -> None:
        self.op, self.operands, self.data = op, operands, data
        self.size = max([size, *[n.size for n in operands]])
        if any(n.size not in (1, self.size) for n in operands):
            sizes = ", ".join(str(n.size) for n in operands)
            raise ValueError(f"{op}: arrays of sizes {sizes} do not go together")

    def __repr__(self) -> str:
        operands = ", ".join(map(repr, self.operands))
        if self.op == "number":
            return f"{self.data:g}"
        return f"{self.op}({operands})" if self.operands else f"{self.op}[{self.size}]"


class Array:
    """An array as a user sees it: a node, and operators that make further nodes."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, Node):
            self.node = value
        elif np.ndim(value) == 0:
            self.node = Node("number", data=float(value))
        else:
            data = np.array(value, np.float64)
            self.node = Node("data", data=data, size=data.size)

    def __repr__(self) -> str:
        return f"<{self.node!r}>"


def record(op: str, *operands: Any) -> Array:
    """Makes the node of an operation; numbers become nodes as well."""
    nodes = [a.node if isinstance(a, Array) else Array(a).node for a in operands]
    return Array(Node(op, *nodes))


def operator(op: str, swapped: bool = False) -> Callable[[Array, Any], Array]:
    return lambda a, b: record(op, b, a) if swapped else record(op, a, b)


OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "lt": "<", "gt": ">"}
for _name, _symbol in OPERATORS.items():
    setattr(Array, f"__{_name}__", operator(_symbol))
    setattr(Array, f"__r{_name}__", operator(_symbol, swapped=True))


def function(op: str) -> Callable[..., Array]:
    return lambda *operands: record(op, *operands)


sin, cos, exp, log, sqrt = map(function, ("sin", "cos", "exp", "log", "sqrt"))
select = function("select")  # select(mask, a, b): entries of a where the mask holds, else of b


def arange(size: int) -> Array:
    """The entries 0, 1, 2, ...; nothing has to be stored for them."""
    return Array(Node("index", size=size))


if __name__ == "__main__":
    x = Array([0.1, 0.2, 0.3])
    print(sin(x) + sin(2 * x) / 2)

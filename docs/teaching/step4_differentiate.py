"""Step 4, differentiate: go through the nodes backwards, and record derivatives like any other
computation. They are arrays, become kernels, and can be differentiated again."""

from collections.abc import Callable

from step1_trace import Array, Node, cos, exp, select, sin, sqrt

# What reaches the operands if g reaches the result y. None: nothing does.
RULES: dict[str, Callable[..., tuple]] = {
    "+": lambda g, y, a, b: (g, g),
    "-": lambda g, y, a, b: (g, 0 - g),
    "*": lambda g, y, a, b: (g * b, g * a),
    "/": lambda g, y, a, b: (g / b, 0 - g * y / b),
    "sin": lambda g, y, x: (g * cos(x),),
    "cos": lambda g, y, x: (0 - g * sin(x),),
    "exp": lambda g, y, x: (g * exp(x),),
    "log": lambda g, y, x: (g / x,),
    "sqrt": lambda g, y, x: (g / (2 * sqrt(x)),),
    "select": lambda g, y, m, a, b: (None, select(m, g, 0), select(m, 0, g)),
    "<": lambda g, y, a, b: (None, None),
    ">": lambda g, y, a, b: (None, None),
}


def below(root: Node) -> list[Node]:
    """Returns a node and all that it depends on, operands before what uses them."""
    found: dict[Node, None] = {}
    todo = [(root, False)]
    while todo:
        node, done = todo.pop()
        if done:
            found[node] = None
        elif node not in found:
            todo.append((node, True))
            todo += [(n, False) for n in node.operands]
    return list(found)


def gradient(y: Array, *xs: Array) -> list[Array]:
    """Returns the derivatives of each entry of y with respect to the entries of xs that have the
    same position."""
    received: dict[Node, Array] = {y.node: Array(1.0)}
    for node in reversed(below(y.node)):
        g = received.get(node)
        if g is None or not node.operands:
            continue
        operands = [Array(n) for n in node.operands]
        for n, part in zip(node.operands, RULES[node.op](g, Array(node), *operands), strict=True):
            if part is not None:
                received[n] = received[n] + part if n in received else part
    return [received.get(x.node, Array(0.0)) for x in xs]


if __name__ == "__main__":
    from step1_trace import Array, sin
    from step3_run import numpy_machine

    x = Array([0, 1, 2])
    print(numpy_machine.numpy(*gradient(sin(x) * x, x)))

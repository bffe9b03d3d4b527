"""Step 2, text: from nodes to a function that one can read."""

from typing import Any

from step1_trace import OPERATORS, Array, Node

INFIX = set(OPERATORS.values())


class Writer:
    """Writes a statement for each node. Two nodes with the same statement become one: there is no
    reason to compute `sin(v0)` twice. What a kernel takes is in `parameters`, arrays and numbers;
    the text has only their positions, so that other numbers lead to the same text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = "    "
        self.parameters: list[Any] = []
        self.names: dict[Node, str] = {}  # what stands for a node
        self.known: dict[str, str] = {}  # the name of an expression
        self.count = 0

    def new_name(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def parameter(self, value: Any) -> str:
        """Adds a parameter, unless it is one already; returns how the text refers to it."""
        for k, known in enumerate(self.parameters):
            if known is value:
                return f"p[{k}]"
        self.parameters.append(value)
        return f"p[{len(self.parameters) - 1}]"

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def name(self, node: Node) -> str:
        """Returns the name of a node's value, after the statements that compute it."""
        if node not in self.names:
            self.names[node] = self.statement(node)
        return self.names[node]

    def statement(self, node: Node) -> str:
        text = self.expression(node)
        if text not in self.known:
            self.known[text] = self.new_name()
            self.line(f"{self.known[text]} = {text}")
        return self.known[text]

    def expression(self, node: Node) -> str:
        if node.op == "data":
            return f"load({self.parameter(node.data)}, i)"
        if node.op == "number":
            return f"number({self.parameter(node.data)})"
        if node.op == "index":
            return "index(i)"
        names = [self.name(n) for n in node.operands]
        if node.op in INFIX:
            return f"{names[0]} {node.op} {names[1]}"
        return f"{node.op}({', '.join(names)})"


def kernel_source(*arrays: Array, writer: Writer | None = None) -> tuple[str, list[Any]]:
    """Returns the text of a function that computes arrays, and its parameters: what it takes,
    and None for each array that it fills."""
    w = writer or Writer()
    names = [w.name(a.node) for a in arrays]
    for k, name in enumerate(names):
        w.line(f"store(p[{len(w.parameters) + k}], i, {name})")
    text = "\n".join(["def kernel(i, p):", *w.lines]) + "\n"
    return text, [*w.parameters, *[None for _ in arrays]]


if __name__ == "__main__":
    from step1_trace import Array, sin

    x = Array([0.1, 0.2, 0.3])
    print(kernel_source(sin(x) * x + sin(x) / 2)[0])

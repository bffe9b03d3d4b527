"""Step 6, a loop: recorded once, run as often as each entry needs."""

from collections.abc import Callable, Sequence

from step1_trace import Array, Node
from step2_text import Writer
from step3_run import Machine, on_numpy
from step4_differentiate import below
from step5_vectorise import on_numba


def while_loop(
    state: Sequence[Array], condition: Callable[..., Array], body: Callable[..., Sequence[Array]]
) -> list[Array]:
    """Repeats `state = body(*state)` for each entry while `condition(*state)` holds.

    Both functions run once, with arrays that stand for the state inside of the loop.
    """
    inside = [Node("state", size=a.node.size) for a in state]
    arrays = [Array(n) for n in inside]
    test, after = condition(*arrays), body(*arrays)
    size = max(a.node.size for a in (test, *after))
    loop = Node("loop", *[a.node for a in state], size=size)
    loop.data = (inside, test.node, [a.node for a in after])
    results = []
    for k in range(len(state)):
        result = Node("result", loop)
        result.data = k
        results.append(Array(result))
    return results


class LoopWriter(Writer):
    """Writes loops as well. A name that stands for a state is assigned again in each iteration;
    entries that are done keep their values, until all entries of the block are."""

    def statement(self, node: Node) -> str:
        if node.op == "result":
            self.name(node.operands[0])
            return self.names[node.operands[0].data[0][node.data]]
        return self.loop(node) if node.op == "loop" else super().statement(node)

    def loop(self, loop: Node) -> str:
        inside, test, after = loop.data
        for n in self.constant(test, *after):
            self.name(n)  # before the loop: computed once
        starts = [self.name(n) for n in loop.operands]
        for n, start in zip(inside, starts, strict=True):
            self.names[n] = self.new_name()
            self.line(f"{self.names[n]} = {start}")
        before, outer = dict(self.known), self.indent
        self.line("while True:")
        self.indent += "    "
        mask = self.name(test)
        self.line(f"if not any_lane({mask}):")
        self.line("    break")
        values = [self.name(n) for n in after]
        states = [self.names[n] for n in inside]
        chosen = [f"select({mask}, {v}, {s})" for v, s in zip(values, states, strict=True)]
        self.line(f"{', '.join(states)} = {', '.join(chosen)}")
        self.indent, self.known = outer, before  # what is known in the loop ends with it
        return "loop"

    def constant(self, *roots: Node) -> list[Node]:
        """Returns the nodes of a loop that do not depend on its state."""
        varies: set[Node] = set()
        nodes = [n for root in roots for n in below(root)]
        for n in nodes:
            if n.op == "state" or not varies.isdisjoint(n.operands):
                varies.add(n)
        return [n for n in nodes if n not in varies]


numpy_machine = Machine(on_numpy, LoopWriter)
numba_machine = Machine(on_numba, LoopWriter)


if __name__ == "__main__":
    start = [Array([6, 7, 27]), Array(0.0)]
    halved = while_loop(start, lambda n, k: n > 1, lambda n, k: (n / 2, k + 1))
    print(numba_machine.numpy(halved[1]))

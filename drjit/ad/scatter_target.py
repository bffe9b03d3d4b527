"""Scatters of differentiable values in bodies that are being recorded.

The targets of a body belong to the enclosing code and are not per-lane values. In the graph of the
body, a scatter has a variable that nothing depends on. In derivatives of the body, the tangents or
the gradient of a target have memory of their own, which these variables access at the entries of
the scatters: tangents are scattered in the same way, gradients are gathered, and a scatter that
replaces entries removes their gradient.
"""

from collections.abc import Iterable
from typing import Any

from ..jit.ir import node, op
from ..jit.ir.node import LITERAL, Node, broadcast_size
from ..jit.run import pending, schedule
from ..jit.trace.access import Access, WriteTarget, gather, is_idle, scatter
from . import graph
from .algebra import keep_graph
from .graph import Value, Var
from .memory_rules import LaneRule

_WHAT = "derivative of dr.scatter"
LINEAR = {"", "add"}
"""The reductions that are differentiable within bodies: none, and the sum."""


class GradMemory:
    """The storage of a target's gradient or tangents: `nodes` contains the node, or is empty if
    there is none. `kinds` are the reductions with which bodies write to the target. While the body
    propagates the gradient itself, its node is not `private`, and must not be written to."""

    __slots__ = ("kinds", "nodes", "private")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.private = True
        self.kinds: set[str] = set()


class ScatterTarget:
    """A target of scatters in a body: the array, the variable that stands for it in the graph of
    the body, and the variables of the scatters."""

    __slots__ = ("array", "memory", "scatters", "var")

    def __init__(self, array: Any) -> None:
        self.array, self.memory = array, GradMemory()
        self.var = graph.new_slot(array._node)
        self.scatters: list[Var] = []


def target_of(target: Any) -> ScatterTarget:
    """Returns the target for an array in the body that is being traced."""
    outer_gradients = graph.outer_gradients()
    found = outer_gradients.written.get(id(target))
    if found is None:
        found = outer_gradients.written[id(target)] = ScatterTarget(target)
    return found


def variable(array: Any) -> Var | None:
    """Returns the variable that stands for an array if the body that is being traced has scattered
    differentiable values to it."""
    outer_gradients = graph.outer_gradients()
    found = outer_gradients and outer_gradients.written.get(id(array))
    return found.var if found and found.scatters else None


class Propagation:
    """A traversal within the body that is being traced, from some of the variables `seeds`, which
    stand for arrays that the body has written to: their gradients are those of what it wrote."""

    def __init__(self, seeds: Iterable[Var]) -> None:
        outer_gradients, seeds = graph.outer_gradients(), set(seeds)
        target_of = outer_gradients.written.values() if outer_gradients else ()
        self.targets: list[ScatterTarget] = [w for w in target_of if w.var in seeds and w.scatters]
        self.scatters = [v for w in self.targets for v in w.scatters]  # what it has to visit

    def begin(self) -> None:
        """Makes the gradients those that the scatters read."""
        for w in self.targets:
            if len(w.scatters) > 1 and w.memory.kinds != {"add"}:
                raise RuntimeError(
                    "the gradient of an array that the body of a symbolic loop, branch or call "
                    "has written to several times, not by dr.scatter_add alone, was to be "
                    "propagated from within the body. Propagate it outside of it, or use "
                    "mode='evaluated'."
                )
            g = node.literal(w.var.dtype, 0) if w.var.grad is None else w.var.grad
            w.memory.nodes, w.memory.private = [node.resize(g, w.var.size)], False
        for v in self.scatters:
            v.grad = node.literal(v.dtype, 0)  # includes variables of inner bodies

    def end(self, clear: bool) -> None:
        """Ends the traversal; the gradients are no longer needed if they are to be cleared."""
        for w in self.targets:
            w.memory.nodes, w.memory.private = [], True
            for v in w.scatters:
                v.grad = None
            if clear:
                w.var.grad = w.var.grad_var = None


def take_targets() -> list[ScatterTarget]:
    """Removes and returns the targets of the body that has just been traced, in the order of their
    first scatters."""
    outer_gradients = graph.outer_gradients()
    found = [*outer_gradients.written.values()]
    outer_gradients.written.clear()
    return found


def record(kind: str, target: Any, value: Value, at: Access) -> Var | None:
    """Records that the body being traced scatters a value, by a reduction ('' for none) or an
    atomic operation. Returns its variable."""
    found = target_of(target)
    deps = (found.var, value.var)
    v = SCATTER.record(value.node, (at.index, at.mask), deps, (kind, found.memory))
    if v is not None:
        found.scatters.append(v)
        found.memory.kinds.add(kind)
    return v


def private_copy(n: Node, size: int) -> Node:
    """Returns a copy of the entries in memory that nothing else uses."""
    if n.op is LITERAL:
        return schedule.materialize(node.literal(n.dtype, n.data, size))
    copy = node.make(op.copy, n.dtype, size, (node.resize(n, size),))
    schedule.evaluate([copy])
    return copy


class _MaskedScatter(LaneRule):
    """Operands: the target, and the value. `data` is how it is written, and the memory of the
    target's derivatives."""

    name = "scatter"
    always = True

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        (kind, memory), (index, mask) = v.data, v.inputs
        _check(kind)
        if not memory.nodes:
            raise RuntimeError(
                "the tangents of an array that the body of a symbolic loop, branch or call writes "
                "to were to be propagated from within the body. Propagate them outside of it, or "
                "use mode='evaluated'."
            )
        if tangents[1] is None and kind == "add":
            return None
        value = tangents[1].node if tangents[1] else node.literal(v.dtype, 0)
        _write(memory, value, Access(index, mask, _WHAT, reduce=kind))
        return None

    def backward(self, v: Var, g: Value | None, sink: Any) -> None:
        (kind, memory), (index, mask) = v.data, v.inputs
        if g is None and not memory.nodes:
            return
        _check(kind)
        if kind == "add" or not memory.private:
            n = gather(memory.nodes[0], Access(index, mask, "gradient of dr.scatter_add"))
        else:
            n = _write(
                memory, node.literal(v.dtype, 0), Access(index, mask, _WHAT), op.scatter_exch
            )
        sink.add(1, Value(n))


def _check(kind: str) -> None:
    if kind not in LINEAR:
        raise RuntimeError(
            f"derivatives of {_name(kind)} within a symbolic loop, branch or call are not "
            "available, only those of dr.scatter and dr.scatter_add. Use mode='evaluated', or "
            "dr.detach() on what is written and on its target."
        )
    if keep_graph():
        raise RuntimeError(
            "ADFlag.KeepGraph: scatters within a symbolic loop, branch or call have no second "
            "derivatives. Use mode='evaluated'."
        )


def _name(kind: str) -> str:
    return f"dr.{kind}" if kind.startswith("scatter") else f"dr.scatter_reduce ('{kind}')"


def _write(memory: GradMemory, value: Node, at: Access, kind: op.Op | None = None) -> Node:
    """Writes to the memory, and returns the previous values if the operation does."""
    if is_idle([value], at, memory.nodes[0].size):
        return node.literal(value.dtype, 0, broadcast_size((value, at.index, at.mask), at.what))
    after = scatter(WriteTarget(memory.nodes.pop()), [value], at, kind)
    if after is None:
        raise RuntimeError(f"{at.what}: nothing was written")
    memory.nodes.append(after)
    return value if kind is None else pending.old_value(after, value.dtype)


SCATTER = _MaskedScatter()

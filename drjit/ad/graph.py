"""The graph of derivatives. A `Var` stands beside a traced value that depends on a differentiable input and remembers how it was made.

Variables refer to those that they were computed from, so the graph is freed by reference counting from the results; forward traversals find dependents
through a list of weak references in the order of creation.
"""

import weakref
from itertools import count
from typing import Any, NamedTuple

from ..jit.dtype import DType
from ..jit.node import Node

next_serial = count(1).__next__


class Value(NamedTuple):
    """A traced value with its place in the graph, or without one."""

    node: Node
    var: "Var | None" = None


class Var:
    """A differentiable value: `rule` and `deps` say how it depends on others, `inputs` and `result` are primal nodes that the rule needs.

    `grad` is the gradient accumulated so far: a node, or None for zero; `grad_var` is its own variable where the graph is kept for higher derivatives.
    An input of the program has no rule.
    """

    __slots__ = (
        "__weakref__", "data", "deps", "dtype", "grad", "grad_var", "inputs", "result", "rule", "serial", "size",
    )  # fmt: skip

    rule: Any
    deps: tuple["Var | None", ...]
    inputs: tuple[Node, ...]
    result: Node | None
    data: Any
    dtype: DType
    size: int
    grad: Node | None
    grad_var: "Var | None"
    serial: int

    def __repr__(self) -> str:
        name = self.rule.name if self.rule is not None else "input"
        return f"<{name} {self.dtype}[{self.size}]>"


# Variables in order of creation, for forward traversals. Entries of freed ones go when the list has doubled.
_tape: list["weakref.ref[Var]"] = []
_tape_limit = 1 << 14
_ref = weakref.ref


def new_var(
    rule: Any,
    n: Node,
    inputs: tuple[Node, ...],
    deps: tuple[Var | None, ...],
    data: Any = None,
) -> Var:
    """A variable for the value `n`, made by `rule` from `inputs` whose variables are `deps`."""
    v = Var()
    v.rule, v.deps, v.data = rule, deps, data
    v.dtype, v.size = n.dtype, n.size
    v.inputs = inputs if rule.keeps_inputs else ()
    v.result = n if rule.keeps_result else None
    v.grad = v.grad_var = None
    v.serial = next_serial()
    _tape.append(_ref(v))
    if len(_tape) > _tape_limit:
        _compact()
    return v


def new_input(n: Node) -> Var:
    """A variable for a differentiable input."""
    v = Var()
    v.rule = v.result = v.data = v.grad = v.grad_var = None
    v.deps = v.inputs = ()
    v.dtype, v.size = n.dtype, n.size
    v.serial = next_serial()
    _tape.append(_ref(v))
    return v


def _compact() -> None:
    global _tape_limit
    _tape[:] = [r for r in _tape if r() is not None]
    _tape_limit = max(1 << 14, 2 * len(_tape))


def living() -> list[Var]:
    """All variables that exist, in order of creation."""
    _compact()
    found = [r() for r in _tape]
    return sorted([v for v in found if v is not None], key=lambda v: v.serial)


# Scopes: whether operations record, and where traversals stop.


class Scope:
    """What `suspend_grad`, `resume_grad` and `isolate_grad` set up: `complement` says whether `only` are the variables that are suspended or the ones not."""

    __slots__ = ("all", "isolate_from", "postponed", "variables")

    def __init__(self, all_: bool, variables: frozenset[int], isolate_from: int = 0) -> None:
        # all: derivatives are off but for `variables`; otherwise on but for `variables`
        self.all, self.variables, self.isolate_from = all_, variables, isolate_from
        self.postponed: list[tuple[Any, Var]] = []

    def hides(self, v: Var) -> bool:
        """Whether the variable takes no part in the recording."""
        return (v.serial in self.variables) != self.all


scopes: list[Scope] = []


def visible(v: Var | None) -> Var | None:
    """The variable, or None if a scope suspends it."""
    if v is None or not scopes or not scopes[-1].hides(v):
        return v
    return None


def suspended() -> bool:
    """Whether new inputs would not be differentiable."""
    return bool(scopes) and scopes[-1].all and not scopes[-1].variables

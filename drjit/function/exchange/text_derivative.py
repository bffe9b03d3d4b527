"""Derivatives of kernel texts, which functions of the user's compute."""

from collections.abc import Callable
from typing import Any

from ...ad.graph import Var
from ...array import leaf
from ...array.base import ArrayBase, IncompatibleError, type_label
from ...jit import locks
from ...jit.ir import dtype as dt
from ...jit.ir import node as ir
from ...jit.ir.node import Node
from ...jit.trace.access import reduce_all
from ...jit.tuples import NamedTuple
from ..ad.custom import ValueOp, weighted_sum


class Rules(NamedTuple):
    """What computes derivatives: partial derivatives of each lane, gradients of the arguments, and
    tangents of the results. None is unknown."""

    derivative: Callable | None = None
    backward: Callable | None = None
    forward: Callable | None = None


UNKNOWN = Rules()


class KernelCall(NamedTuple):
    """A call of a kernel: its name, its arguments without their derivatives, the places of float
    arrays among them, the classes of these, and the variables of those that have one (by place);
    for each float result its class, its size, and whether lanes are summed up in it."""

    title: str
    args: tuple
    places: list[int]
    classes: list[Any]
    variables: dict[int, Var]
    results: list[tuple[Any, int, bool]]


class Derivatives(ValueOp):
    """A call in the graph of derivatives. The user's functions are called when derivatives are
    wanted, once for each traversal."""

    def __init__(self, call: KernelCall, rules: Rules) -> None:
        self.call, self.rules = call, rules

    def name(self) -> str:
        return self.call.title

    def forward(self) -> None:
        call, rules = self.call, self.rules
        own = dict(zip(call.variables, self.gradients(self.arguments), strict=True))
        tangents = [
            own[k] if k in own else ir.literal(t._dtype, 0, call.args[k]._node.size)
            for k, t in zip(call.places, call.classes, strict=True)
        ]
        if rules.forward is not None:
            given = [leaf.wrap(t, n) for t, n in zip(call.classes, tangents, strict=True)]
            made = self._made("forward", rules.forward, given, len(call.results), "results")
            found = [
                ir.literal(t._dtype, 0, size) if m is None else m
                for m, (t, size, _) in zip(made, call.results, strict=True)
            ]
        else:
            found = []
            for (t, _, summed), row in zip(call.results, self._partials("forward"), strict=True):
                total = weighted_sum(row, tangents, t._dtype)
                found.append(reduce_all("add", total) if summed else total)
        self.accumulate(self.results, found[: len(self.results)])

    def backward(self) -> None:
        call, rules = self.call, self.rules
        gradients = self.gradients(self.results)[: len(call.results)]
        if rules.backward is not None:
            pairs = zip(call.results, gradients, strict=True)
            given = [leaf.wrap(t, g) for (t, _, _), g in pairs]
            found = self._made("backward", rules.backward, given, len(call.places), "arguments")
        else:
            columns = list(zip(*self._partials("backward"), strict=True))
            found = [
                weighted_sum(columns[j], gradients, t._dtype) if k in call.variables else None
                for j, (k, t) in enumerate(zip(call.places, call.classes, strict=True))
            ]
        at = dict(zip(call.variables, self.arguments, strict=True))
        pairs = [(at[k], n) for k, n in zip(call.places, found, strict=True) if k in at]
        pairs = [(v, n) for v, n in pairs if n is not None]
        self.accumulate([v for v, _ in pairs], [n for _, n in pairs])

    def _partials(self, wanted: str) -> list[list[Node]]:
        """Returns the partial derivatives of each result by each array."""
        call, rules = self.call, self.rules
        if rules.derivative is None:
            other = next((n for n in ("backward", "forward") if getattr(rules, n)), None)
            known = f" in this direction: {other}= is given" if other else ""
            raise RuntimeError(
                f"dr.kernel: the derivatives of {call.title}() are unknown{known}. Pass "
                f"derivative=..., a function or kernel of the same arguments that returns the "
                f"partial derivatives of each lane, or {wanted}=..., or detach the arguments. "
                "Arrays that the kernel changes need a dr.CustomOp"
            )
        count, rows = len(call.places), len(call.results)
        flat = self._made("derivative", rules.derivative, [], rows * count, "partial derivatives")
        flat = [
            ir.literal(call.classes[k % count]._dtype, 0) if n is None else n
            for k, n in enumerate(flat)
        ]
        return [flat[r * count : (r + 1) * count] for r in range(rows)]

    def _made(
        self, what: str, function: Callable, more: list, count: int, of: str
    ) -> list[Node | None]:
        """Calls a function of the user's; returns the nodes of its results.

        Raises:
            TypeError: there are more or fewer of them than there should be, or others than arrays
                and numbers.
        """
        call = self.call
        with locks.given_up():
            found = _flat(function(*call.args, *more))
        title = f"dr.kernel: {what}= of {call.title}()"
        if len(found) != count:
            arrays = f"{len(call.places)} arrays of floats among its arguments"
            results = f"{len(call.results)} results of floats"
            raise TypeError(
                f"{title} returned {len(found)} values; expected {count} {of}: it has {arrays}, "
                f"and {results}"
            )
        sizes = {1, *[size for _, size, _ in call.results]}
        sizes |= {call.args[k]._node.size for k in call.places}
        return [_node(x, title, sizes) for x in found]


def _flat(value: Any) -> list:
    if isinstance(value, tuple | list):
        return [x for v in value for x in _flat(v)]
    return [value]


def _node(x: Any, title: str, sizes: set[int]) -> Node | None:
    if x is None:
        return None
    if type(x) in (bool, int, float):
        return ir.literal(dt.f64, float(x))
    if not (isinstance(x, ArrayBase) and type(x)._kind == "leaf" and hasattr(x, "_node")):
        raise TypeError(f"{title} returned a {type_label(x)}; expected arrays, numbers, or None")
    if x._node.size not in sizes:
        raise IncompatibleError(
            f"{title} returned an array of size {x._node.size}; arguments and results have the "
            f"sizes {', '.join(map(str, sorted(sizes - {1})))}"
        )
    return x._node

"""What traversals of the derivative graph visited, and where gradients were lost.

Nodes of gradients are kept only if norms are asked for: these are computed when the report ends,
from the nodes alone, so that no kernel of the program changes.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..ad import memory_rules
from ..ad.algebra import PLAIN
from ..ad.graph import Value, Var, labels
from ..jit.ir import dtype, node
from ..jit.ir.label import place_of
from ..jit.ir.scope import recording
from ..jit.run import launch, schedule
from ..jit.run.freeze import active

MOST_OF_A_LINE = 3  # traversals
MOST = 30
MOST_VARIABLES = 500
_AT_ONCE = 64  # norms that one evaluation computes

_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
_STEPS = {"floor", "ceil", "round", "trunc"}
_TEXTS = {
    "detached": (
        "dr.detach() returns values without derivatives. Use the array itself where "
        "gradients should pass"
    ),
    "disabled": (
        "dr.disable_grad() cut an array off from what it was computed from. Leave it out "
        "where gradients should pass"
    ),
    "suspended": (
        "operations and gradients within dr.suspend_grad() count for constants. Move them "
        "out, or put them into dr.resume_grad()"
    ),
    "integer": (
        "integers have no derivatives. Stay in floating point, or pass gradients around the"
        " conversion with dr.replace_grad()"
    ),
    "type": (
        "this type of arrays has no derivatives. Use the type of the same name in "
        "drjit.llvm.ad, drjit.cuda.ad or drjit.auto.ad"
    ),
    "comparison": (
        "comparisons have no derivatives: gradients pass through the values of dr.select() "
        "and of branches, not through their condition"
    ),
    "rounding": (
        "`{}` is constant between its steps, so its derivative is zero. "
        "dr.replace_grad(dr.{}(x), x) passes gradients through"
    ),
    "constant": ("`{}` has no derivative, or one that is zero, so its results count for constants"),
    "NumPy": (
        "what NumPy computes has no derivatives. Compute it with Dr.Jit, or wrap the "
        "function in dr.wrap() or dr.custom()"
    ),
    "not enabled": (
        "the gradient of an array was read that is not tracked, so it is zero. Call "
        "dr.enable_grad() before computing with it"
    ),
    "not reached": (
        "the gradient of an array was read, and is zero: no traversal has reached it, as "
        "nothing that depends on it was differentiated, or it was lost on the way, see the "
        "other lines"
    ),
}
"""What is said of each kind of loss; `{}` is the operation."""


class Derivatives:
    """What a recorder notes of them. `gradients` says whether norms are computed."""

    def __init__(self, gradients: bool) -> None:
        self.gradients = gradients
        self.rows: list[dict[str, Any]] = []
        self.left_out = 0
        self.inputs: dict[int, list[tuple[float, int]]] = {}
        self._of_lines: Counter[int] = Counter()
        self._lost: Counter[tuple[str, str, int]] = Counter()
        self._kept: list[tuple[dict, node.Node, int]] = []

    # ---- While it records

    def lost(self, kind: str, what: str, place: int) -> None:
        """Takes note of a gradient that goes no further."""
        if what in _COMPARISONS:
            kind, what = "comparison", ""
        elif what in _STEPS:
            kind = "rounding"
        self._lost[kind, what, place] += 1

    def traversal(
        self, mode: str, variables: list[Var], place: int, of: Callable[[Any], int]
    ) -> Callable[[Var], None] | None:
        """Takes note of variables that are about to be visited; `of` numbers places. The first
        traversals of each line are kept."""
        now = time.perf_counter()
        inputs = sum([v.rule is None for v in variables])
        known = self.inputs.setdefault(place, [])
        if not known or known[-1][1] != inputs:
            known.append((now, inputs))
        self._of_lines[place] += 1
        if self._of_lines[place] > MOST_OF_A_LINE or len(self.rows) >= MOST:
            self.left_out += 1
            return None
        shown = variables[-MOST_VARIABLES:] if mode == "Backward" else variables[:MOST_VARIABLES]
        numbers = {v: k for k, v in enumerate(shown)}
        rows = [
            {
                "id": k, "op": v.rule.name if v.rule is not None else "input", "size": v.size,
                "type": v.dtype.code, "place": of(place_of(v)), "label": labels.get(v, ""),
                "norm": None, "visited": v.grad is not None, "root": v.grad is not None,
                "leaf": v.rule is None,
            } for v, k in numbers.items()
        ]  # fmt: skip
        edges = _visit(mode, shown, numbers, rows)
        self.rows.append(
            {
                "place": place, "time": now, "direction": mode.lower(), "variables": rows,
                "edges": edges, "left_out": len(variables) - len(shown),
            }
        )  # fmt: skip
        if not self.gradients or recording() or active() is not None:
            return None
        seen: set[int] = set()

        def look(v: Var) -> None:
            k = numbers.get(v, -1)
            if k >= 0 and k not in seen and v.grad is not None:
                seen.add(k)
                self._kept.append((rows[k], v.grad, v.size))

        return look

    # ---- At its end

    def norms(self) -> None:
        """Computes the norms of the gradients that were kept."""
        kept, self._kept = self._kept, []
        for first in range(0, len(kept), _AT_ONCE):
            found = []
            for row, g, size in kept[first : first + _AT_ONCE]:
                if g.dtype.is_vector:
                    continue
                if g.dtype.itemsize < 4:
                    g = node.cast(dtype.BY_NAME["float32"], g)
                square = PLAIN.mul(g, g)
                if square.size > 1:
                    square = memory_rules.reduce("add", Value(square)).node
                found.append((row, square, size if g.size == 1 else 1))
            schedule.evaluate([n for _, n, _ in found if n.op is not node.LITERAL])
            for row, n, times in found:
                literal = n.op is node.LITERAL
                value = n.data if literal else launch.to_numpy(n.dtype, n.size, n.data)[0]
                norm = math.sqrt(float(value) * times)
                if math.isfinite(norm):
                    row["norm"] = norm
                else:
                    row["not_finite"] = True

    def lost_rows(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Returns where gradients were lost, given the numbers of the recorder's places."""
        counts: Counter[tuple[str, int, str]] = Counter()
        for (kind, what, place), n in self._lost.items():
            counts[kind, numbers[place], _TEXTS[kind].format(what, what)] += n
        return [
            {"kind": kind, "place": place, "count": n, "text": text}
            for (kind, place, text), n in counts.items()
        ]


def _visit(
    mode: str, variables: list[Var], numbers: dict[Var, int], rows: list[dict[str, Any]]
) -> list[list[int]]:
    """Returns the edges, from operands to results, in the order in which a gradient or tangent
    passes them; -1 for those where there is none. Marks what it reaches."""
    backward, order = mode == "Backward", 0
    edges = []
    for v in reversed(variables) if backward else variables:
        result = numbers[v]
        for d in v.deps:
            operand = numbers.get(d, -1) if d is not None else -1
            if operand < 0:
                continue
            source, target = (result, operand) if backward else (operand, result)
            passes = rows[source]["visited"]
            edges.append([operand, result, order if passes else -1])
            order += passes
            rows[target]["visited"] |= passes
    return edges

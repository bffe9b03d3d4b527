"""Weighted sums of records that lanes read in several places, as computed by the filters of
textures and hash grids. Where the weights are constants, the derivative graph has one variable for
all places.
"""

from collections.abc import Iterable
from typing import Any

from ..jit import flags
from ..jit.ir import node, op
from ..jit.ir.dtype import DType
from ..jit.ir.node import LITERAL, Node
from ..jit.ir.scope import recording
from ..jit.trace import access
from .algebra import PLAIN, RECORDED, guard
from .graph import Value, Var, as_value
from .memory_rules import ManyResults, OneResult, broadcast_to, cast, gather, recorded_value

_DEBUG = int(flags.JitFlag.Debug)


class _WeightedSum(ManyResults):
    """The inputs are index, mask and weight of each place. The data are also the numbers of entries
    of the source and of a record, and the mode of the scatter-reduction for gradients."""

    name = "gather_packet"

    def count(self, v: Var) -> int:
        return v.data[2]

    def part(self, v: Var, k: int, tangent: Value) -> Value:
        _, size, count, _ = v.data
        source, total = broadcast_to(tangent, size), None
        for index, mask, weight in _places(v):
            place = access.entry(index, count, k) if count > 1 else index
            at = access.Access(place, mask, "derivative of dr.gather", inside=True)
            term = RECORDED.mul(cast(weight.dtype, gather(source, at)), Value(weight))
            total = term if total is None else RECORDED.add(term, total)
        return total  # type: ignore[return-value]

    def whole(self, v: Var, found: dict[int, Value], sink: Any) -> None:
        _, _, count, mode = v.data
        source, plain = v.deps[0].dtype, not sink.keep
        o: Any = PLAIN if plain else RECORDED
        gradients: dict[int, Any] = {j: g.node if plain else g for j, g in found.items()}
        zeros: dict[int, tuple] = {}
        values = dict.fromkeys(range(count), Value(node.literal(source, 0)))
        for index, mask, weight in reversed(_places(v)):
            terms: dict[int, Any] = {}
            for j, g in gradients.items():
                term = o.mul(g, weight if plain else Value(weight))
                if v in sink.masked:
                    zeros[j] = zeros.get(j) or guard(o, g)
                    term = o.select(*zeros[j], term)
                terms[j] = Value(term) if plain else term
            for j, term in terms.items():
                values[j] = cast(source, term)
            at = access.Access(index, mask, "gradient of dr.gather", count, True, mode, "add")
            sink.scatter_add(0, [*values.values()], at)


def _places(v: Var) -> list[tuple[Node, Node, Node]]:
    inputs = iter(v.inputs)
    return [*zip(inputs, inputs, inputs, strict=True)]


WEIGHTED_SUM, SUM = _WeightedSum(), OneResult("fma", masks=False)


def weighted_sum(
    source: Value, dtype: DType, places: Iterable[tuple[access.Access, Node | None]]
) -> list[Value] | None:
    """Returns the weighted sums of the entries of records, converted to the type of the weights.
    Places are consumed one by one; a weight is None if its derivative is tracked.

    Returns None where operations on the entries have to be recorded one by one.
    """
    n, sums, inputs, at = source.node, [], [], None
    if recording() or flags.current & _DEBUG or n.size == 1 or n.op is LITERAL:
        return None
    for at, weight in places:
        count = at.packet
        if weight is None or weight.dtype is not dtype or weight.op is LITERAL:
            return None
        if count > 1 and not access.can_gather_packets(n, count):
            return None
        index, mask, size = at.bounds(n.size)
        if mask.op is LITERAL or size != weight.size or not size:
            return None
        values = [node.cast(dtype, entry) for entry in access.gather_packet(n, at)]
        if sums:
            pairs = zip(values, sums, strict=True)
            sums = [node.make(op.fma, dtype, size, (weight, v, s)) for v, s in pairs]
        else:
            sums = [PLAIN.mul(weight, v) for v in values]
        inputs += (index, mask, weight)
    if at is None:
        return None
    data = {}, n.size, at.packet, at.mode
    whole = recorded_value(WEIGHTED_SUM, sums[0], tuple(inputs), (source.var,), data).var
    if whole is None:
        return [as_value((s, None)) for s in sums]
    return [as_value((s, SUM.record(s, (), (whole,), j))) for j, s in enumerate(sums)]

"""Derivatives of operations that move entries between lanes: gathers, scatters, reductions, scans,
casts.

Each function creates the primal node and, if an operand has a variable, records one. The rules
express both directions by the same functions, which allows derivatives of any order.
"""

from collections.abc import Callable
from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir import node, op
from ..jit.ir.node import LITERAL, Node
from ..jit.ir.scope import ACTIVE, recording
from ..jit.primitives import collective
from ..jit.run import schedule
from ..jit.trace import access
from ..jit.trace.access import Access, WriteTarget
from .algebra import RECORDED, keep_graph, operands
from .graph import Value, Var, as_value, recorder


class LaneRule:
    """The derivative rule of an operation that is not element-wise.

    `forward(v, tangents)` returns the tangent of the result of `v`, given those of its operands
    (None: zero). `backward(v, g, sink)` passes gradients on by `sink.add(i, value)` or
    `sink.scatter_add(i, values, access)`. The gradient may have one entry that stands for all.
    A rule that `masks` passes nothing on in some lanes. Some are `always` called, even without a
    gradient. No traversal frees the edges of one that `lasts`.

    The gradient of a result of size 1 may have an entry for each lane that executes the code
    (`scope.LaneRegion`). Rules that are `lanewise` receive it as it is, others receive the sum.
    """

    elementwise = always = lasts = lanewise = False
    keeps_inputs = masks = True
    keeps_gradient = keeps_result = False
    direct = None
    name = ""

    def __init__(self, name: str = "") -> None:
        self.name = name or self.name
        self.record = recorder(self)

    def visit_primals(self, v: Var, add: Callable[[Node], Any]) -> None:
        """Calls `add` with each primal value that derivatives need."""
        for n in v.inputs:
            add(n)
        if v.result is not None:
            add(v.result)

    def reset(self, v: Var) -> None:
        """Discards data that a failed traversal has left in the operation."""


class LinearOp(LaneRule):
    """A linear operation with one operand: `apply` applies it to a tangent, `transpose` applies its
    transpose to a gradient; both take the variable first."""

    keeps_inputs = masks = False
    lanewise = True

    def __init__(
        self,
        name: str,
        apply: Callable[[Var, Value], Value],
        transpose: Callable[[Var, Value], Value],
    ) -> None:
        super().__init__(name)
        self._apply, self._transpose = apply, transpose

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        return self._apply(v, tangents[0])

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        sink.add(0, self._transpose(v, g), v.size)


class ManyResults(LaneRule):
    """An operation with several results, each of which is a `OneResult`. Its variable has no
    gradient of its own: `whole(v, found, sink)` passes on those of its `count(v)` results at once,
    some of which may be missing; `part(v, k, tangent)` is the tangent of result `k`, given that of
    the operand. The first item of its data is a dictionary of the gradients that results have
    received so far."""

    always = lanewise = True
    whole: Callable[..., None]
    count: Callable[[Var], int]

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        return None

    def backward(self, v: Var, g: Value | None, sink: Any) -> None:
        found = dict(v.data[0])
        v.data[0].clear()
        if len(found) < self.count(v):
            sink.kept.add(v)  # for a later traversal from the others
        if found:
            self.whole(v, found, sink)

    def reset(self, v: Var) -> None:
        v.data[0].clear()


class OneResult(LaneRule):
    """One of the results of `ManyResults`; `data` is its number."""

    always = lanewise = True
    keeps_inputs = False

    def __init__(self, name: str, masks: bool) -> None:
        super().__init__(name)
        self.masks = masks

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        of = v.deps[0]
        source = of.deps[0]
        if source is None or source.grad is None:
            return None
        return of.rule.part(of, v.data, Value(source.grad, source.grad_var))

    def backward(self, v: Var, g: Value | None, sink: Any) -> None:
        if g is not None:
            v.deps[0].data[0][v.data] = g
            sink.mark(v.deps[0])


def recorded_value(rule: LaneRule, n: Node, inputs: tuple, deps: tuple, data: Any = None) -> Value:
    tracked = any(deps) and n.dtype.is_float
    return as_value((n, rule.record(n, inputs, deps, data) if tracked else None))


def _select(m: Node, a: Value, b: Value) -> Value:
    return RECORDED.select(Value(m), a, b)


# Casts


def cast(dtype: dt.DType, a: Value) -> Value:
    """Converts to another element type."""
    n = node.cast(dtype, a.node)
    tracked = a.var is not None and dtype.is_float
    return as_value((n, CAST.record(n, (), (a.var,)) if tracked else None))


# Gathers


def _access_of(v: Var, reduce: str = "") -> Access:
    """Returns what a gather or scatter accessed, for an access in its derivative."""
    index, mask, *_ = v.inputs
    return Access(index, mask, f"derivative of dr.{v.rule.name}", inside=True, reduce=reduce)


class _Gather(LaneRule):
    """`data` is the number of entries of the source, and the mode of the scatter-reduction for
    gradients."""

    name = "gather"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        return gather(broadcast_to(tangents[0], v.data[0]), _access_of(v))

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        (index, mask), mode = v.inputs, v.data[1]
        at = Access(index, mask, "gradient of dr.gather", 1, True, mode, "add")
        sink.scatter_add(0, [g], at)


def gather(source: Value, at: Access) -> Value:
    """Returns entries of `source`. The mode of the access is that of the scatter-reduction that
    passes gradients on."""
    if source.node.size == 1:
        _, mask, lanes = at.first().bounds(1)
        read = source if mask is ACTIVE else _select(mask, source, RECORDED.number(source, 0))
        return broadcast_to(read, lanes)
    return record_gather(source, at, access.gather(source.node, at))


def record_gather(source: Value, at: Access, n: Node) -> Value:
    """Records that the entries `n` were read from `source`."""
    if source.var is None or not n.dtype.is_float:
        return as_value((n, None))
    size = source.node.size
    index, mask, _ = at.bounds(size)
    return as_value((n, GATHER.record(n, (index, mask), (source.var,), (size, at.mode))))


class _Packet(ManyResults):
    """A gather of records. Its data are also the numbers of source entries and of components, and
    the mode of the scatter-reduction for gradients."""

    name = "gather_packet"

    def count(self, v: Var) -> int:
        return v.data[2]

    def part(self, v: Var, k: int, tangent: Value) -> Value:
        (_, size, count, _), (index, mask) = v.data, v.inputs
        at = Access(access.entry(index, count, k), mask, "derivative of dr.gather", inside=True)
        return gather(broadcast_to(tangent, size), at)

    def whole(self, v: Var, found: dict[int, Value], sink: Any) -> None:
        (_, _, count, mode), (index, mask) = v.data, v.inputs
        if len(found) < count:
            found = dict.fromkeys(range(count), Value(node.literal(v.dtype, 0))) | found
        values = [found[j] for j in range(count)]
        at = Access(index, mask, "gradient of dr.gather", count, True, mode, "add")
        sink.scatter_add(0, values, at)


def gather_packet(source: Value, at: Access) -> list[Value]:
    """Returns the entries of records; see `gather`."""
    n, count = source.node, at.packet
    if n.size == 1:
        return [gather(source, at) for _ in range(count)]
    if not access.can_gather_packets(n, count):
        return [gather(source, one) for one in at.entries(n.size)]
    nodes = access.gather_packet(n, at)
    index, mask, _ = at.bounds(n.size)
    data = {}, n.size, count, at.mode
    packet = recorded_value(PACKET, nodes[0], (index, mask), (source.var,), data).var
    if packet is None:
        return [*map(Value, nodes)]
    return [as_value((c, COMPONENT.record(c, (), (packet,), j))) for j, c in enumerate(nodes)]


def broadcast_to(a: Value, size: int) -> Value:
    """Broadcasts a value of size 1 to another size."""
    if a.node.size == size:
        return a
    return recorded_value(BROADCAST, node.resize(a.node, size), (), (a.var,))


def broadcast_gradient(d: Var) -> Value:
    """Returns the gradient of a variable, with an entry for each of the variable's entries, as a
    recorded value."""
    zero = node.literal(d.dtype, 0, d.size)
    return Value(zero) if d.grad is None else broadcast_to(Value(d.grad, d.grad_var), d.size)


def copy(a: Value) -> Value:
    """Returns the same value with its own variable, and hence its own gradient."""
    return recorded_value(COPY, a.node, (), (a.var,))


# Scatters


class _Scatter(LaneRule):
    """Operands: the target before, and the value. `data` is the reduction, or '' for a plain
    scatter, and the number of writing lanes, which may exceed the number of entries of index and
    mask."""

    name = "scatter"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        at, reduce = _access_of(v), v.data[0]
        target, value = tangents
        zero = Value(node.literal(v.dtype, 0))
        target = broadcast_to(target or zero, v.size)
        if reduce in ("", "min", "max"):
            if reduce:  # one of the values that equal the result
                chosen = node.apply(op.and_, at.mask, self._winners(v)[1])
                at = Access(at.index, chosen, at.what, inside=True)
            if value is not None and v.grad is not None:  # replaces former tangents as well
                v.grad, v.grad_var = scatter(
                    broadcast_to(Value(v.grad, v.grad_var), v.size), zero, at
                )
            return scatter(target, value or zero, at)
        if reduce == "mul":
            target = RECORDED.mul(target, self._others(v, 0))
            value = value and RECORDED.mul(value, self._others(v, 1))
        if value is None:
            return target
        # One entry may stand for many lanes, of which each adds its own.
        return scatter(target, _per_lane(value, v), _access_of(v, "add"))

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        reduce, lanes = v.data
        zero = RECORDED.number(g, 0)
        if v.deps[1] is not None:
            at = _access_of(v)
            # Of a constant, nothing is read: the scatter reports what is out of bounds.
            if g.node.op is LITERAL and at.mask.op is op.in_bounds:
                at = Access(at.index, at.mask.deps[1], at.what, inside=True)
            value = gather(broadcast_to(g, v.size), at)
            if reduce == "mul":
                value = RECORDED.mul(value, self._others(v, 1))
            elif reduce in ("min", "max"):
                value = _select(self._winners(v)[1], value, zero)
            sink.add(1, value, lanes if reduce in ("add", "mul") else 1)
        if v.deps[0] is not None:
            target = g
            if reduce == "":
                target = scatter(broadcast_to(g, v.size), zero, _access_of(v))
            elif reduce == "mul":
                target = RECORDED.mul(g, self._others(v, 0))
            elif reduce in ("min", "max"):
                target = _select(self._winners(v)[0], g, zero)
            sink.add(0, target)

    def _winners(self, v: Var) -> tuple[Node, Node]:
        """Returns masks of where the target's old entry, and a lane's value, became the result of
        the reduction."""
        target, value, result = v.inputs[2:]
        there = access.gather(result, _access_of(v))
        return node.apply(op.eq, target, result), node.apply(op.eq, value, there)

    def _others(self, v: Var, which: int) -> Value:
        """Returns the product of all other factors of an entry, correct even if factors are 0."""
        deps = v.deps if keep_graph() else (None, None)
        target, value = [Value(n, d) for n, d in zip(v.inputs[2:4], deps, strict=True)]
        own, own_zero = _split(target)
        factors, zeros = [_per_lane(x, v) for x in _split(value)]
        product = scatter(own, factors, _access_of(v, "mul"))
        count = scatter(own_zero, zeros, _access_of(v, "add"))
        if which == 1:
            product, count = gather(product, _access_of(v)), gather(count, _access_of(v))
            own, own_zero = factors, zeros
        others = RECORDED.div(product, own)
        return _select(RECORDED(op.eq, count, own_zero).node, others, RECORDED.number(own, 0))


def _per_lane(value: Value, v: Var) -> Value:
    """Returns what the lanes of a scatter write, even if neither index nor mask has an entry for
    each of them."""
    lanes, (index, mask, *_) = v.data[1], v.inputs
    return value if lanes in (index.size, mask.size) else broadcast_to(value, lanes)


def _split(x: Value) -> tuple[Value, Value]:
    """Returns factors with zeros replaced by 1, and the number of zeros."""
    one, zero = RECORDED.number(x, 1), RECORDED.number(x, 0)
    is_zero = node.apply(op.eq, x.node, zero.node)
    return _select(is_zero, one, x), _select(is_zero, one, zero)


def scatter(target: Value, value: Value, at: Access) -> Value:
    """Returns the target after a scatter, as a separate value."""
    n = target.node
    if n.op is LITERAL:
        # Not evaluated with what is pending, such as the scatters of other tangents.
        taken = WriteTarget(schedule.materialize(n))
    else:
        taken = WriteTarget(node.make(op.copy, n.dtype, n.size, (n,)))
    after = access.scatter(taken, [value.node], at)
    return record_scatter(target, value, at, n if after is None else after)


def record_scatter(target: Value, value: Value, at: Access, n: Node) -> Value:
    """Records the value `n` of a target after a scatter."""
    lanes = access.writing_lanes(value.node, at)
    inputs = at.bounds(target.node.size)[:2]
    if at.reduce not in ("", "add"):
        inputs += (target.node, value.node, n)
    return recorded_value(SCATTER, n, inputs, (target.var, value.var), (at.reduce, lanes))


# Reductions of all lanes, and of runs


class _Reduce(LaneRule):
    """`data` is the reduction and the length of a run, or 0."""

    name = "reduce"
    keeps_result = lanewise = True

    def __init__(self, masks: bool) -> None:
        super().__init__()
        self.masks = masks

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        reduction, run = v.data
        t = broadcast_to(tangents[0], v.inputs[0].size)
        if reduction != "add":
            t = RECORDED.mul(t, self._weights(v))
        return reduce("add", t, run)

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        reduction, run = v.data
        size = v.inputs[0].size
        if v.size == 1 != size:
            if recording():  # each lane would add to all entries
                raise RuntimeError(
                    "the gradient of a reduction to one entry in a symbolic loop, branch or call: "
                    "the lanes share its result. Compute it before, or use mode='evaluated'."
                )
            if g.node.size != 1:
                g = reduce("add", g)
        if reduction != "add":
            g = RECORDED.mul(spread(g, size, run), self._weights(v))
        elif g.node.size > 1:
            g = spread(g, size, run)
        sink.add(0, g)

    def _weights(self, v: Var) -> Value:
        """Returns the derivative of the result with respect to each entry."""
        reduction, run = v.data
        x = Value(v.inputs[0], v.deps[0] if keep_graph() else None)
        y = spread(Value(v.result, v if keep_graph() else None), x.node.size, run)
        one, zero = RECORDED.number(x, 1), RECORDED.number(x, 0)
        if reduction in ("min", "max"):
            return _select(node.apply(op.eq, x.node, y.node), one, zero)
        # Composed of products only, so that it can be differentiated even if factors are 0.
        before = prefix("mul", x, True, run)
        return RECORDED.mul(before, reverse(prefix("mul", reverse(x, run), True, run), run))


def reduce(reduction: str, a: Value, run: int = 0) -> Value:
    """Reduces all lanes (`run` 0), or runs of that many lanes."""
    n = a.node
    r = collective.block_reduce(reduction, n, run) if run else access.reduce_all(reduction, n)
    if r is n:
        return a if run else with_own_variable(a)
    rule = EXTREMUM if reduction in ("min", "max") else REDUCE
    return recorded_value(rule, r, (n,), (a.var,), (reduction, run))


def with_own_variable(a: Value) -> Value:
    """Returns a single lane as a variable of its own, with gradients of its own: the result of an
    operation that had nothing to do."""
    if a.var is None or a.node.size != 1:
        return a
    return recorded_value(REDUCE, a.node, (a.node,), (a.var,), ("add", 0))


def spread(a: Value, size: int, run: int) -> Value:
    """The transpose of `reduce`: broadcasts each entry to all lanes of its run."""
    if not run or a.node.size == 1:
        return broadcast_to(a, size)
    return gather(a, Access(node.apply(op.quotient, node.lane(size), node.literal(dt.u32, run))))


class _Prefix(LaneRule):
    """`data` is the reduction, whether it is exclusive, and the length of a run."""

    name = "prefix_reduce"

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        reduction, exclusive, run = v.data
        t = broadcast_to(tangents[0], v.size)
        if reduction == "add":
            return prefix("add", t, exclusive, run)
        if reduction == "mul":
            (x,) = operands(v)
            found = recurrence(x, RECORDED.mul(t, prefix("mul", x, True, run)), run)
            return _shifted(found, -1, run) if exclusive else found
        return gather(t, Access(*self._source(v)))

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        reduction, exclusive, run = v.data
        g = broadcast_to(g, v.size)
        if reduction == "add":
            sink.add(0, reverse(prefix("add", reverse(g, run), exclusive, run), run))
        elif reduction == "mul":
            (x,) = operands(v)
            following = reverse(_shifted(x, 1, run), run)
            g = reverse(_shifted(g, 1, run) if exclusive else g, run)
            after = reverse(recurrence(following, g, run), run)
            sink.add(0, RECORDED.mul(prefix("mul", x, True, run), after))
        else:
            sink.scatter_add(0, [g], Access(*self._source(v), inside=True, reduce="add"))

    def _source(self, v: Var) -> tuple[Node, Node]:
        """Returns the lane whose entry became the running minimum or maximum, and whether there is
        one."""
        reduction, exclusive, run = v.data
        x = v.inputs[0]
        lane = node.lane(x.size)
        inclusive = collective.prefix(reduction, x, False, run)
        zero = node.literal(dt.u32, 0)
        own = node.apply(op.select, node.apply(op.eq, x, inclusive), lane, zero)
        index = collective.prefix("max", own, False, run)
        valid = node.literal(dt.mask, True, x.size)
        if exclusive:
            position = node.apply(op.remainder, lane, node.literal(dt.u32, run or x.size))
            valid = node.apply(op.gt, position, zero)
            before = node.apply(op.sub, lane, node.literal(dt.u32, 1))
            index = access.gather(index, Access(before, valid))
        return index, valid


def prefix(reduction: str, a: Value, exclusive: bool, run: int = 0) -> Value:
    """Returns the prefix reduction of all lanes, or within runs."""
    n = collective.prefix(reduction, a.node, exclusive, run)
    if n is a.node:
        return with_own_variable(a)
    return recorded_value(PREFIX, n, (a.node,), (a.var,), (reduction, exclusive, run))


def reverse(a: Value, run: int = 0) -> Value:
    """Returns the entries in reverse order, within runs of `run` lanes if that is not 0."""
    size = a.node.size
    if size <= 1 or (a.node.op is LITERAL and a.var is None):
        return with_own_variable(a)
    # The numbers are constant or equal to the size, so that frozen functions can adapt them.
    place, end = node.lane(size), node.literal(dt.u32, size)
    if run:
        lane, place = place, node.apply(op.remainder, place, node.literal(dt.u32, run))
        following = node.apply(op.add, node.apply(op.sub, lane, place), node.literal(dt.u32, run))
        end = node.apply(op.minimum, following, end)  # the last run may be shorter
    index = node.apply(op.sub, end, node.apply(op.add, place, node.literal(dt.u32, 1)))
    return gather(a, Access(index))


def recurrence(a: Value, b: Value, run: int) -> Value:
    """Returns `s[i] = a[i] * s[i - 1] + b[i]`, starting at 0, over all lanes or within runs. It
    takes a logarithmic number of steps, each of which combines twice as many entries, and no
    divisions."""
    size = a.node.size
    step = 1
    while step < (run or size):
        earlier, factors = _shifted(b, -step, run), _shifted(a, -step, run)
        b, a = RECORDED(op.fma, a, earlier, b), RECORDED.mul(a, factors)
        step *= 2
    return b


def _shifted(a: Value, offset: int, run: int) -> Value:
    """Returns the entries `offset` lanes further; 0 where these are in another run."""
    size = a.node.size
    lane = node.lane(size)
    position = node.apply(op.remainder, lane, node.literal(dt.u32, run or size))
    where = node.apply(op.add, position, node.literal(dt.u32, offset))  # negative ones wrap
    index = node.apply(op.add, lane, node.literal(dt.u32, offset))
    valid = node.apply(op.lt, where, node.literal(dt.u32, run or size))
    if run:  # the last of which may be shorter
        valid = node.apply(op.and_, valid, node.apply(op.lt, index, node.literal(dt.u32, size)))
    return gather(a, Access(index, valid))


CAST = LinearOp("cast", lambda v, t: cast(v.dtype, t), lambda v, g: cast(v.deps[0].dtype, g))
BROADCAST, COPY = [LinearOp(name, lambda v, t: t, lambda v, g: g) for name in ("broadcast", "copy")]
GATHER, PACKET, COMPONENT = _Gather(), _Packet(), OneResult("component", masks=True)
SCATTER, PREFIX = _Scatter(), _Prefix()
REDUCE, EXTREMUM = _Reduce(masks=False), _Reduce(masks=True)

"""The structure of evaluation: which kernels are launched, in what order, and what stays intact."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import helpers
import numpy as np
import pytest
from helpers import ALLOCATE, ALLOCATOR, DEVICE, allocate_by, growth, in_cycles, watch_launches

from drjit.jit import flags, substitutes
from drjit.jit.cpu import memory, variants
from drjit.jit.device import Buffer
from drjit.jit.flags import JitFlag
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node as ir
from drjit.jit.ir import op
from drjit.jit.ir.dtype import DType
from drjit.jit.ir.node import Node
from drjit.jit.ir.op import ReduceMode
from drjit.jit.ir.scope import ACTIVE
from drjit.jit.run import pending, plan, schedule, stages
from drjit.jit.text import program, structure
from drjit.jit.trace import access, record
from drjit.jit.trace.access import Access

pytestmark = pytest.mark.usefixtures("computing_nodes")

MODES = ReduceMode.Direct, ReduceMode.Expand, ReduceMode.NoConflicts


def opaque(values: object, t: DType = dt.f32) -> Node:
    return helpers.opaque(t, values)


def ramp(size: int, t: DType = dt.f32) -> Node:
    return opaque(np.arange(size), t)


def number(value: object, t: DType = dt.f32, size: int = 1) -> Node:
    return ir.literal(t, value, size)


def add(a: Node, b: Node) -> Node:
    return ir.apply(op.add, a, b)


def mul(a: Node, b: Node) -> Node:
    return ir.apply(op.mul, a, b)


def values(n: Node) -> list:
    """The values of a node, as a list."""
    return helpers.results([n])[0].tolist()


class Array:
    """What an array class does with its node, as far as scatters are concerned."""

    def __init__(self, node: Node) -> None:
        self.node: Node | None = node

    def scatter(
        self, operands: list[Node], index: Node, kind: op.Op | None = None, **how: Any
    ) -> Node | None:
        at = Access(index, what="scatter", **how)
        node, self.node = self.node, None
        witness = weakref.ref(node)
        target = access.WriteTarget(node)
        del node
        after = None
        try:
            after = access.scatter(target, operands, at, kind)
        finally:
            self.node = witness() if after is None else after
        return after


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """No effect of one test waits for another."""
    schedule.evaluate([])
    yield
    pending.effects.clear()


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Text and size of the kernels that run, in order."""
    return watch_launches(monkeypatch, lambda found, size: (found.text, size))


# Grouping


def test_outputs_of_equal_size_share_a_kernel(tier: str, launches: list) -> None:
    x = ramp(5)
    a, b, c = add(x, x), mul(x, x), ir.cast(dt.i32, x)
    assert schedule.evaluate([a, b, c])
    assert [size for _, size in launches] == [5]
    assert [n.is_evaluated for n in (a, b, c)] == [True] * 3
    assert (values(a)[4], values(b)[4], values(c)[4]) == (8, 16, 4)
    assert not schedule.evaluate([a, b, c])
    assert len(launches) == 1


def test_groups_by_size(tier: str, launches: list) -> None:
    roots = [add(x, x) for x in (ramp(5), ramp(1), ramp(5), ramp(9), ramp(1))]
    schedule.evaluate(roots)
    assert sorted(size for _, size in launches) == [1, 5, 9]
    assert [values(n)[-1] for n in roots] == [8, 0, 8, 16, 0]


def test_evaluated_nodes_drop_their_operands(tier: str) -> None:
    x = ramp(4)
    inner = add(x, x)
    witness = weakref.ref(inner)
    outer = mul(inner, inner)
    del inner
    schedule.evaluate([outer])
    assert witness() is None
    assert outer.deps == ()
    assert values(outer) == [0, 4, 16, 36]


def test_uniform_values_in_a_larger_kernel(tier: str, launches: list) -> None:
    x, u = ramp(6), opaque([3.0])
    uniform = add(mul(u, u), number(1))
    assert uniform.size == 1
    y = add(x, uniform)
    assert values(y) == [10, 11, 12, 13, 14, 15]
    assert [size for _, size in launches] == [6]
    assert "broadcast(f32" in launches[0][0]
    resized = ir.resize(uniform, 4)
    assert values(resized) == [10] * 4


def test_size_zero(tier: str, launches: list) -> None:
    x = ramp(0)
    y = add(x, number(1))
    z = ir.apply(op.sin, y)
    assert values(z) == []
    assert values(access.reduce_all("add", z)) == [0]
    assert values(access.gather(ramp(3), Access(ir.lane(0)))) == []
    assert values(access.gather(ramp(0), Access(number(0, dt.u32, 0)))) == []
    target = Array(ramp(3))
    assert target.scatter([y], ir.lane(0)) is None
    assert values(target.node) == [0, 1, 2]
    assert not launches


def test_common_subexpressions(tier: str, launches: list) -> None:
    x = ramp(4)
    two = number(2)
    a = ir.apply(op.sin, mul(x, two))
    b = ir.apply(op.sin, mul(x, two))
    schedule.evaluate([a, b])
    ((text, _),) = launches
    assert text.count("sin(") == 1
    assert text.count(" * ") == 1
    assert values(a) == values(b)


def test_many_outputs(tier: str, launches: list) -> None:
    x = ramp(3)
    roots = [add(x, opaque([k])) for k in range(500)]
    schedule.evaluate(roots)
    assert len(launches) == 1
    assert all(values(n) == [k, k + 1, k + 2] for k, n in enumerate(roots))


# Stages


def test_reduction_is_fused_with_its_operand(tier: str, launches: list) -> None:
    x = ramp(1000)
    y = mul(x, x)
    total, top = access.reduce_all("add", y), access.reduce_all("max", y)
    schedule.evaluate([total, top, y])
    assert [size for _, size in launches] == [1000]
    assert values(total) == [332833500.0] or abs(values(total)[0] - 332833500) < 100
    assert values(top) == [998001]
    assert values(y)[3] == 9


@pytest.mark.parametrize("order", [[0], [1], [0, 1], [1, 0], [2, 1, 0], [2, 0], [0, 2, 1]])
def test_a_reduction_that_other_values_use(tier: str, order: list[int], launches: list) -> None:
    """Whatever the order in which results are asked for."""
    x = ramp(4)
    total = access.reduce_all("add", x)
    nodes = [total, mul(x, total), add(total, number(1))]
    schedule.evaluate([nodes[k] for k in order])
    assert values(nodes[0]) == [6]
    assert values(nodes[1]) == [0, 6, 12, 18]
    assert values(nodes[2]) == [7]
    texts = [text for text, _ in launches]
    assert sum("reduce(" in text for text in texts) == 1


def test_reductions_of_reductions(tier: str) -> None:
    x = ramp(8)
    mean = mul(access.reduce_all("add", x), number(1 / 8))
    centred = ir.apply(op.sub, x, mean)
    variance = access.reduce_all("add", mul(centred, centred))
    y = mul(centred, variance)
    assert values(y) == [k * 42.0 for k in np.arange(8) - 3.5]


def test_gather_from_an_unevaluated_source(tier: str, launches: list) -> None:
    x = ramp(4)
    source = mul(x, x)
    index = opaque([3, 0, 2, 2, 1], dt.u32)
    y = add(access.gather(source, Access(index)), number(1))
    assert values(y) == [10, 1, 5, 5, 2]
    assert [size for _, size in launches] == [4, 5]
    assert source.is_evaluated


def test_gather_from_a_source_that_is_also_computed_with(tier: str) -> None:
    x = ramp(4)
    source = add(x, number(1))
    reverse = opaque([3, 2, 1, 0], dt.u32)
    y = mul(source, access.gather(source, Access(reverse)))
    assert values(y) == [4, 6, 6, 4]
    assert values(source) == [1, 2, 3, 4]


def test_gathered_packets(tier: str) -> None:
    index = opaque([1, 0], dt.u8)
    for source in (ramp(6), opaque(np.arange(6)), add(ramp(6), number(0, size=6))):
        parts = access.gather_packet(source, Access(index, packet=3))
        schedule.evaluate(parts)
        assert [values(p) for p in parts] == [[3, 0], [4, 1], [5, 2]]


def test_gathered_packet_where_the_index_would_wrap(tier: str) -> None:
    """The product of index and packet size is not that of the index type."""
    index = opaque([100, 255], dt.u8)
    parts = access.gather_packet(ramp(1025), Access(index, packet=4))
    assert [values(p) for p in parts] == [[400, 1020], [401, 1021], [402, 1022], [403, 1023]]


def test_scatter_then_read(tier: str, launches: list) -> None:
    target = Array(ramp(5))
    target.scatter([opaque([10.0, 20.0])], opaque([1, 3], dt.u32))
    y = add(target.node, number(1))
    assert values(y) == [1, 11, 3, 21, 5]
    assert [size for _, size in launches] == [2, 5]
    assert values(target.node) == [0, 10, 2, 20, 4]
    assert len(launches) == 2


def test_scatter_of_what_the_target_holds(tier: str) -> None:
    """The values are those before the scatter."""
    target = Array(ramp(4))
    shifted = access.gather(target.node, Access(opaque([1, 2, 3, 0], dt.u32)))
    target.scatter([shifted], ir.lane(4))
    del shifted
    assert values(target.node) == [1, 2, 3, 0]


def test_overlapping_scatters_happen_in_order(tier: str) -> None:
    target = Array(ramp(4))
    for k in range(5):
        target.scatter([number(10 * k, size=2)], opaque([k % 3, 3], dt.u32))
    assert values(target.node) == [30, 40, 20, 40]


def test_scatters_and_reads_in_turns(tier: str) -> None:
    """A value read between two scatters is that between them."""
    target = Array(ramp(3))
    index = opaque([0], dt.u32)
    seen = []
    for k in range(4):
        target.scatter([opaque([k * 1.0])], index)
        seen.append(mul(target.node, number(1.5)))
    schedule.evaluate([target.node, *seen])
    assert [values(n)[0] for n in seen] == [0, 1.5, 3, 4.5]
    assert values(target.node) == [3, 1, 2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("t", [dt.f32, dt.i64, dt.f16], ids=str)
def test_scatter_reductions_add_up(tier: str, mode: ReduceMode, t: DType) -> None:
    target = Array(ramp(8, t))
    index = ir.apply(op.and_, ir.lane(8), number(7, dt.u32))
    for k in range(3):
        how = {"reduce": "add", "mode": mode}
        target.scatter([number(k + 1, t, 8)], index, **how)
    assert values(target.node) == [k + 6 for k in range(8)]


def test_scatter_reductions_share_a_kernel_unless_they_assume_no_conflicts(
    tier: str, launches: list
) -> None:
    for mode, kernels in zip(MODES, (1, 1, 2), strict=True):
        target = Array(ramp(64))
        forward = ir.lane(64)
        backward = ir.apply(op.sub, number(63, dt.u32), forward)
        for index in (forward, backward):
            how = {"reduce": "add", "mode": mode}
            target.scatter([number(1, size=64)], index, **how)
        launches.clear()
        assert values(target.node) == [k + 2 for k in range(64)]
        assert len(launches) == kernels, mode


def test_different_updates_of_one_target_keep_their_order(tier: str) -> None:
    target = Array(ramp(2))
    zero = number(0, dt.u32, 1)
    target.scatter([number(5)], zero, reduce="add")
    target.scatter([number(3)], zero, reduce="mul")
    target.scatter([number(7)], number(1, dt.u32))
    target.scatter([number(2)], zero, reduce="add")
    assert values(target.node) == [17, 7]


# Atomics that give old values


@pytest.mark.parametrize("order", [[0], [1], [2], [2, 1], [1, 2, 0]])
def test_scatter_inc_happens_once(tier: str, order: list[int]) -> None:
    """However many kernels of whatever sizes use the old values."""
    counter = Array(ramp(3, dt.u32))
    after = counter.scatter([], opaque([0, 0, 2, 0], dt.u32), op.scatter_inc)
    old = pending.old_value(after, dt.u32)
    del after
    uses = [add(old, number(1, dt.u32)), access.reduce_all("add", old)]
    uses.append(access.gather(old, Access(opaque([0, 1, 2, 3, 2], dt.u32))))
    schedule.evaluate([uses[k] for k in order])
    assert values(counter.node) == [3, 1, 3]
    assert sorted(values(old)) == [0, 1, 2, 2]
    assert values(old)[2] == 2
    assert sorted(values(uses[0])) == [1, 2, 3, 3]
    assert values(uses[1]) == [5]
    assert values(uses[2]) == [values(old)[k] for k in (0, 1, 2, 3, 2)]
    assert values(counter.node) == [3, 1, 3]


def test_old_values_are_used_in_the_kernel_that_takes_them(tier: str, launches: list) -> None:
    counter = Array(ramp(3, dt.u32))
    after = counter.scatter([], opaque([0, 0, 2, 0], dt.u32), op.scatter_inc)
    y = add(pending.old_value(after, dt.u32), number(10, dt.u32))
    del after
    assert sorted(values(y)) == [10, 11, 12, 12]
    assert len(launches) == 1


@pytest.mark.parametrize("use_first", [False, True])
def test_scatter_inc_of_one_lane_in_a_larger_kernel(tier: str, use_first: bool) -> None:
    counter = Array(opaque([5], dt.u32))
    after = counter.scatter([], number(0, dt.u32), op.scatter_inc)
    old = pending.old_value(after, dt.u32)
    del after
    y = add(ir.lane(40), old)
    if use_first:
        assert values(y) == list(range(5, 45))
    else:
        schedule.evaluate([])
    assert values(old) == [5]
    assert values(counter.node) == [6]
    assert values(y) == list(range(5, 45))


def test_old_values_that_nobody_holds(tier: str, launches: list) -> None:
    counter = Array(opaque([5], dt.u32))
    counter.scatter([], number(0, dt.u32), op.scatter_inc)
    assert values(counter.node) == [6]
    assert "store(" not in launches[0][0]


def test_a_scatter_that_nobody_can_see_does_not_happen(tier: str, launches: list) -> None:
    target = Array(ramp(4))
    target.scatter([ramp(3)], ir.lane(3))
    del target
    x = add(ramp(5), number(1))
    schedule.evaluate([x])
    assert [size for _, size in launches] == [5]


# In place, or a copy


def address(n: Node) -> int:
    return n.data.address


def test_scatter_in_place(tier: str) -> None:
    target = Array(ramp(4))
    where = address(target.node)
    target.scatter([number(9)], number(2, dt.u32))
    assert values(target.node) == [0, 1, 9, 3]
    assert address(target.node) == where


def test_scatter_into_a_shared_node_copies(tier: str) -> None:
    target = Array(ramp(4))
    other = target.node
    target.scatter([number(9)], number(2, dt.u32))
    assert values(target.node) == [0, 1, 9, 3]
    assert values(other) == [0, 1, 2, 3]


def test_scatter_leaves_unevaluated_dependents_alone(tier: str) -> None:
    target = Array(ramp(4))
    dependent = add(target.node, number(1))
    target.scatter([number(9)], number(2, dt.u32))
    assert values(target.node) == [0, 1, 9, 3]
    assert values(dependent) == [1, 2, 3, 4]


def test_scatter_leaves_exported_views_alone(tier: str) -> None:
    target = Array(ramp(4))
    view = DEVICE.view(target.node.data, dt.f32, 4)
    target.scatter([number(9)], number(2, dt.u32))
    assert values(target.node) == [0, 1, 9, 3]
    assert view.tolist() == [0, 1, 2, 3]
    where = address(target.node)
    del view
    target.scatter([number(8)], number(0, dt.u32))
    assert values(target.node) == [8, 1, 9, 3]
    assert address(target.node) == where


@pytest.mark.processor
def test_scatter_into_foreign_memory_copies(tier: str) -> None:
    foreign = np.zeros(4096, np.uint8)[:2048].view(np.float32)
    buffer = memory.adopt(foreign)
    if buffer is None:
        pytest.skip("this array cannot be adopted")
    target = Array(ir.buffer(dt.f32, foreign.size, buffer))
    target.scatter([number(9)], number(2, dt.u32))
    assert values(target.node)[:4] == [0, 0, 9, 0]
    assert not foreign.any()


@pytest.mark.parametrize("make", [lambda: number(1, size=3), lambda: mul(ramp(3), ramp(3))])
def test_scatter_into_what_is_not_evaluated(tier: str, make: Callable[[], Node]) -> None:
    target = Array(make())
    other = target.node
    before = values(make())
    target.scatter([number(9)], number(1, dt.u32))
    assert values(target.node) == [before[0], 9, before[2]]
    assert values(other) == before


def test_a_target_cannot_be_taken_twice() -> None:
    target = access.WriteTarget(ramp(2))
    target.own()
    with pytest.raises(RuntimeError, match="taken twice"):
        target.own()


# Literals


def test_literals_never_make_a_new_kernel(tier: str, launches: list) -> None:
    x, k = ramp(4), opaque(np.arange(4), dt.i32)
    results = []
    known = 0
    for step in range(1, 9):
        y = mul(add(x, number(step * 0.1)), number(-step * 1e3))
        z = ir.apply(op.sub, mul(k, number(step + 2, dt.i32)), number(step, dt.i32))
        schedule.evaluate([y, z])
        results.append(values(z))
        known = known or len(plan._plans)
        assert np.allclose(values(y), (np.arange(4) + step * 0.1) * -step * 1e3, rtol=1e-5)
    assert results == [[j * (step + 2) - step for j in range(4)] for step in range(1, 9)]
    assert len({text for text, _ in launches}) == 1
    assert len(plan._plans) == known


def test_equal_literals_are_one_parameter(tier: str, launches: list) -> None:
    x = ramp(4)
    y = add(mul(x, number(3.5)), mul(x, number(3.5)))
    found = [mul(y, number(v)) for v in (3.5, 0.0, -0.0)]
    schedule.evaluate(found)
    assert [str(values(n)[1]) for n in found] == ["24.5", "0.0", "-0.0"]
    assert launches[0][0].count("literal(") == 3  # the two zeros are not equal
    assert launches[0][0].count(" * ") == 4


def test_literals_that_are_equal_by_chance_cost_one_more_kernel(tier: str, launches: list) -> None:
    x = ramp(4)
    for step in range(12):
        y = add(mul(add(x, number(3)), number(step)), add(number(7), mul(x, number(7))))
        schedule.evaluate([y])
        assert values(y) == [(k + 3) * step + 7 + 7 * k for k in range(4)]
    assert len({text for text, _ in launches[2:]}) == 1  # of 3 and 7 as well
    assert len({text for text, _ in launches}) == 2  # x * 1 is x


def test_a_structure_with_equal_literals_first(tier: str, launches: list) -> None:
    x = ramp(4)
    for a, b, c in ((5, 5, 5), (5, 5, 6), (5, 6, 5), (6, 6, 6), (5, 6, 7)):
        y = add(mul(add(x, number(a)), number(b)), number(c))
        schedule.evaluate([y])
        assert values(y) == [(k + a) * b + c for k in range(4)]
    texts = [text.count("literal(") for text, _ in launches]
    assert texts == [1, 2, 3, 1, 3] and len({text for text, _ in launches}) == 3


def test_the_age_of_inputs_makes_no_new_kernel(tier: str, launches: list) -> None:
    """A state that is replaced in every step is older than a table at first, and newer then."""
    state, table = ramp(4), ramp(4)
    expected = np.arange(4.0)
    for _ in range(3):
        state = ir.apply(op.sub, mul(add(state, number(2)), number(3)), table)
        schedule.evaluate([state])
        expected = (expected + 2) * 3 - np.arange(4)
        assert values(state) == list(expected)
    assert len({text for text, _ in launches}) == 1


def test_a_program_that_is_known_is_not_numbered_again(
    tier: str, launches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order it is traced: the key of a program follows from how its nodes depend on
    each other."""
    x = ramp(4)

    def traced(first: bool) -> Node:
        y = mul(x, x) if first else None
        z = add(mul(x, number(2)), number(3))
        return ir.apply(op.sub, y or mul(x, x), z)

    n = traced(True)
    assert values(n) == [k * k - 2 * k - 3 for k in range(4)]
    monkeypatch.setattr(structure, "canonicalize", None)
    n = traced(False)
    assert values(n) == [k * k - 2 * k - 3 for k in range(4)]
    assert launches[0][0] == launches[1][0]


def test_known_programs_may_be_forgotten(
    tier: str, launches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.forget_kernels()
    monkeypatch.setattr(plan, "MOST_KEYS", 0)
    x = ramp(4)
    for _ in range(3):
        for k in range(1, 4):
            n = x
            for _ in range(k):
                n = add(n, number(k))
            assert values(n) == [i + k * k for i in range(4)]
        assert len(plan._plans) == 1
    assert len({text for text, _ in launches}) == 3


def test_launches_that_wait_for_each_other_are_planned_once(
    tier: str, launches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each pattern of sizes: those that are equal by chance are launched together."""

    def check(n: int, m: int) -> int:
        launches.clear()
        x = ramp(n)
        total = access.reduce_all("add", mul(x, x))
        y, z = add(mul(ramp(m), total), number(1)), mul(x, total)
        schedule.evaluate([y, z])
        squares = sum(k * k for k in range(n))
        assert values(y) == [k * squares + 1 for k in range(m)]
        assert values(z) == [k * squares for k in range(n)]
        return len(launches)

    sizes = {(4, 6): 3, (4, 4): 2, (6, 4): 3, (4, 1): 3, (0, 4): 1}
    for (n, m), count in (*sizes.items(), *sizes.items()):
        assert check(n, m) == count
    assert check(4, 6) == 3
    monkeypatch.setattr(stages, "find", None)
    for (n, m), count in sizes.items():  # none of them is planned again because of another one
        assert n == 0 or check(n, m) == count


def test_a_kernel_for_all_results_serves_while_they_have_one_size(
    tier: str, launches: list
) -> None:
    schedule.forget_kernels()
    for n, m in [(4, 4), (4, 6), (5, 5), (6, 4), (4, 4)]:
        launches.clear()
        y, z = mul(ramp(n), number(0.375)), add(ramp(m), number(2.5))
        schedule.evaluate([y, z])
        assert values(y) == [k * 0.375 for k in range(n)]
        assert values(z) == [k + 2.5 for k in range(m)]
        assert len(launches) == 1 + (n != m)


def test_the_plans_of_the_sizes_that_were_used_last_are_kept(
    tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.forget_kernels()
    monkeypatch.setattr(plan, "MOST_SIZES", 3)
    made = []
    find = stages.find
    monkeypatch.setattr(stages, "find", lambda *parts: made.append(1) or find(*parts))

    def plans(n: int) -> int:
        """How many plans are made for a program with arrays of n entries."""
        made.clear()
        x = mul(ramp(n), number(0.625))
        y = mul(x, access.reduce_all("add", add(x, number(1.5))))
        schedule.evaluate([y])
        return len(made)

    assert [plans(n) for n in (5, 6, 7, 5, 8)] == [1, 1, 1, 0, 1]  # which drops that of 6
    assert [plans(n) for n in (5, 7, 8, 6)] == [0, 0, 0, 1]
    assert max(map(len, plan._plans.values())) == 3


def test_a_plan_keeps_the_order_of_side_effects(tier: str) -> None:
    """Of two scatters into one array the second one has the last word; those into two arrays are
    one kernel, which is no plan for the others."""
    for same in (False, True, False, True):
        first = Array(ir.literal(dt.f32, 0, 64))
        second = first if same else Array(ir.literal(dt.f32, 0, 64))
        lane = ir.lane(64)
        first.scatter([number(1)], mul(lane, number(0, dt.u32)))
        second.scatter([number(2)], lane)
        both = [first.node] if same else [first.node, second.node]
        total = access.reduce_all("add", second.node)  # which waits
        schedule.evaluate([*both, total])
        assert values(second.node) == [2] * 64 and values(total) == [128]
        assert same or values(first.node) == [1] + [0] * 63


def test_known_programs_keep_no_memory(tier: str) -> None:
    target = Array(ramp(4))
    target.scatter([number(1)], ir.lane(4), reduce="add")
    assert values(access.reduce_all("add", mul(target.node, target.node))) == [30]
    memory_of = weakref.ref(target.node.data)
    del target
    assert memory_of() is None


def test_programs_that_differ_in_static_data_alone(tier: str) -> None:
    x = ramp(8, dt.u32)
    for k in (5, 7, 5):
        n = ir.apply(op.remainder, x, number(k, dt.u32))
        assert values(n) == [i % k for i in range(8)]


def test_a_literal_of_a_branch_that_others_use_too(tier: str) -> None:
    """Only what one body alone uses is computed there."""
    x = ramp(4)

    def body(value: float) -> record.Body:
        return lambda nodes: [mul(nodes[0], number(value))]

    mask = ir.apply(op.lt, x, number(2))
    bodies = [body(3.5), body(2.5)]
    (chosen,) = record.branches([mask, ir.apply(op.not_, mask)], bodies, [x])
    y = add(chosen, number(3.5))
    assert values(y) == [3.5, 7, 8.5, 11]


def test_sizes_never_make_a_new_kernel(tier: str, launches: list) -> None:
    for size in (2, 3, 17, 64, 65, 1000):
        source = ramp(size + 1)
        y = access.gather(source, Access(ir.apply(op.add, ir.lane(size), number(1, dt.u32))))
        total = access.reduce_all("max", y)
        schedule.evaluate([y, total])
        assert values(y) == list(range(1, size + 1))
        assert values(total) == [size]
    assert len({text for text, _ in launches}) == 1


def test_loops_over_steps_compile_once(launches: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "pinned", "compiled")
    x = ramp(3)
    known = len(DEVICE.kernels())
    for step in range(1, 20):
        x = ir.apply(op.fma, x, number(step * 0.1), number(step, size=1))
        schedule.evaluate([x])
    assert len(DEVICE.kernels()) <= known + 1
    assert len({text for text, _ in launches}) == 1


# Errors


class Failure(Exception):
    pass


@pytest.mark.parametrize("fail_at", [1, 2, 3, 4])
def test_a_failed_allocation_leaves_everything_intact(
    tier: str, fail_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Array(ramp(4))
    target.scatter([number(1, size=4)], ir.lane(4), reduce="add")
    x = ramp(5)
    total = access.reduce_all("add", add(x, number(1)))
    y = mul(x, total)
    z = add(target.node, number(1))
    count = 0
    allocate = getattr(ALLOCATOR, ALLOCATE)

    def failing(*arguments: object, **options: object) -> Buffer:
        nonlocal count
        count += 1
        if count == fail_at:
            raise Failure
        return allocate(*arguments, **options)

    with monkeypatch.context() as patch:
        allocate_by(patch, failing)
        try:
            schedule.evaluate([y, z])
        except Failure:
            assert not (y.is_evaluated and z.is_evaluated)
        else:
            assert count < fail_at
    assert values(target.node) == [1, 2, 3, 4]
    assert values(z) == [2, 3, 4, 5]
    assert values(total) == [15]
    assert values(y) == [0, 15, 30, 45, 60]
    assert values(target.node) == [1, 2, 3, 4]


def test_a_failed_scatter_leaves_the_target(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Array(mul(ramp(3), ramp(3)))

    def failing(*_: object, **__: object) -> None:
        raise Failure

    with monkeypatch.context() as patch:
        allocate_by(patch, failing)
        with pytest.raises(Failure):
            target.scatter([number(9)], number(1, dt.u32))
    assert values(target.node) == [0, 1, 4]
    with pytest.raises(IndexError, match="index 3 is out of bounds for an array of size 3"):
        target.scatter([number(9)], number(3, dt.u32))
    assert values(target.node) == [0, 1, 4]


def test_an_index_beyond_the_end_is_reported_once(tier: str) -> None:
    source, index = ramp(3), opaque([0, 7, -1, 2], dt.i32)
    y = access.gather(source, Access(index, what="gather()"))
    schedule.evaluate([y])
    with pytest.raises(IndexError, match=r"gather\(\): index (7|-1) is out of .* 3 \(lane [12]"):
        DEVICE.sync()
    assert values(y) == [0, 0, 0, 2]


# Long programs


@pytest.mark.parametrize("uniform", [False, True])
def test_a_long_chain(
    tier: str, uniform: bool, launches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No recursion anywhere, not even when the graph is freed; several kernels."""
    monkeypatch.setattr(stages, "LONGEST", 6000)
    monkeypatch.setattr(stages, "SHORT", 0)
    x = opaque([1.0]) if uniform else ramp(3)
    y, length = x, 32_000
    one = opaque([1.0])
    for _ in range(length):
        y = add(y, one)
    z = y if not uniform else add(y, number(0, size=3))
    schedule.evaluate([z])
    assert values(z) == [1 + length] * 3 if uniform else [length, length + 1, length + 2]
    assert len(launches) > 5
    assert max(text.count("\n") for text, _ in launches) <= stages.LONGEST + 2


def test_a_program_of_8_000_operations_is_one_kernel(tier: str, launches: list) -> None:
    y, one = ramp(3), opaque([1.0])
    for _ in range(8_000):
        y = add(y, one)
    schedule.evaluate([y])
    assert values(y) == [8_000, 8_001, 8_002]
    assert len(launches) == 1


def test_a_long_chain_is_freed_without_recursion() -> None:
    y = x = ramp(3)
    for _ in range(50_000):
        y = add(y, x)
    witness = weakref.ref(y)
    del y
    assert witness() is None


def test_a_long_program_with_many_values_alive(tier: str) -> None:
    x = ramp(3)
    alive = [add(x, opaque([k])) for k in range(40)]
    for step in range(200):
        alive = [add(a, b) if step % 2 else mul(a, number(0.5)) for a, b in
                 zip(alive, alive[1:] + alive[:1], strict=True)]  # fmt: skip
    schedule.evaluate(alive)
    assert abs(sum(values(n)[0] for n in alive) - sum(range(40))) < 1e-2


def test_more_outputs_than_a_kernel_takes(
    tier: str, launches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "LONGEST", 300)
    monkeypatch.setattr(stages, "SHORT", 0)
    x = ramp(3)
    roots = [add(x, opaque([k])) for k in range(stages.LONGEST)]
    target = Array(ramp(3))
    target.scatter([roots[7]], ir.lane(3))
    schedule.evaluate(roots)
    assert len(launches) > 1
    assert max(text.count("\n") for text, _ in launches) <= 2 * stages.LONGEST
    assert values(target.node) == [7, 8, 9]
    assert all(values(roots[k]) == [k, k + 1, k + 2] for k in range(0, stages.LONGEST, 97))


def test_several_launches_of_which_one_is_cut(
    tier: str, launches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one launch finishes early, another one wants."""
    monkeypatch.setattr(stages, "LONGEST", 200)
    monkeypatch.setattr(stages, "SHORT", 0)
    shared = add(opaque([1]), opaque([2]))
    roots = [add(ramp(3), mul(shared, opaque([k]))) for k in range(stages.LONGEST)]
    total = access.reduce_all("add", roots[0])
    last = add(total, roots[1])
    schedule.evaluate([*roots, shared, last])
    assert len(launches) > 3
    assert values(shared) == [3]
    assert values(last) == [6, 7, 8]
    assert all(values(n) == [3 * k + i for i in range(3)] for k, n in enumerate(roots))


@pytest.mark.parametrize(
    ("dtype", "value"), [(dt.u64, 2**64 - 1), (dt.i8, -3), (dt.mask, True), (dt.f16, 0.5)]
)
def test_few_entries_of_a_literal_become_data_without_a_kernel(
    tier: str, launches: list, dtype: DType, value: float
) -> None:
    literal = ir.literal(dtype, value, 3)
    found = schedule.materialize(literal)
    assert found is not literal
    assert values(found) == [value] * 3
    assert not launches
    assert values(schedule.materialize(ir.literal(dtype, value, schedule.FEW + 1))) == (
        [value] * (schedule.FEW + 1)
    )
    assert len(launches) == 1


# Threads


def test_two_threads_trace_and_evaluate(tier: str) -> None:
    """With nodes of their own, and with shared ones that each may evaluate first."""
    x = ramp(64, dt.i64)
    errors: list[BaseException] = []
    shared = [[mul(x, number(k, dt.i64)), None] for k in range(60)]
    for pair in shared:
        pair[1] = ir.apply(op.neg, add(pair[0], x))
    gate = threading.Barrier(2)

    def work(seed: int) -> None:
        try:
            gate.wait()
            for k, (inner, outer) in enumerate(shared):
                own = add(ir.apply(op.neg, outer), mul(inner, number(seed, dt.i64)))
                want = [j * (k + 1) + j * k * seed for j in range(64)]
                assert values(own) == want
                first, second = (inner, outer) if seed % 2 else (outer, inner)
                schedule.evaluate([first])
                schedule.evaluate([second])
                total = access.reduce_all("add", inner)
                assert values(total) == [2016 * k]
                counter = Array(ramp(4, dt.i64))
                how = {"reduce": "add"}
                counter.scatter([own], number(seed, dt.u32), **how)
                assert values(counter.node)[seed] == seed + sum(want)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (2, 3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors, errors


# What evaluation leaves behind


def step(x: Node, target: Array) -> Node:
    y = mul(add(x, number(0.25)), number(0.5))
    total = access.reduce_all("add", y)
    target.scatter([y], ir.lane(4), reduce="add")
    after = target.scatter([number(0.0, size=4)], ir.lane(4), reduce="add")
    del after
    result = add(y, mul(total, number(1e-9)))
    schedule.evaluate([result])
    return result


def test_nothing_grows_over_many_evaluations(tier: str) -> None:
    x, target = ramp(4), Array(ramp(4))

    def run(n: int = 200) -> None:
        nonlocal x
        for _ in range(n):
            x = step(x, target)
        DEVICE.sync()

    run(50)
    in_use = DEVICE.memory_statistics()["in_use"]
    events = 0 if DEVICE.on_host else 250  # of markers, which are used again
    assert growth(run) < 20 + events
    assert DEVICE.memory_statistics()["in_use"] - in_use < 4096


def test_no_reference_cycles(tier: str) -> None:

    def work() -> None:
        x, target = ramp(4), Array(ramp(4))
        for _ in range(3):
            x = step(x, target)
        counter = Array(ramp(4, dt.u32))
        after = counter.scatter([], ir.lane(4), op.scatter_inc)
        old = pending.old_value(after, dt.u32)
        del after
        schedule.preview([old, add(x, x)])
        dropped = Array(ramp(4))
        dropped.scatter([x], ir.lane(4))
        del dropped
        values(old)
        DEVICE.sync()

    work()
    gc.collect()
    gc.disable()
    try:
        work()
        assert in_cycles() == []
    finally:
        gc.enable()


def test_what_is_done_at_a_milestone_may_evaluate(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []

    def reach(serial: int) -> float:
        reached.append(serial)
        assert values(add(ramp(2), number(1))) == [1, 2]
        return serial + 1000

    monkeypatch.setattr(substitutes, "warm_up", reach)
    monkeypatch.setattr(substitutes, "milestone", 0)
    x = add(ramp(3), number(1))
    assert values(x) == [1, 2, 3]
    assert reached == [x.serial] and x.serial + 900 < substitutes.milestone <= x.serial + 1000


# Large results, and long programs


@pytest.mark.processor
def test_large_results_bypass_the_caches(launches: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size was when the program was new."""
    monkeypatch.setattr(schedule, "STREAM_BYTES", 4 * 2000)
    monkeypatch.setattr(schedule, "STREAM_LANES", 100)
    schedule.forget_kernels()
    for n in (10, 1999, 2000, 5000, 1999, 2000):
        assert values(mul(ramp(n), number(0.8125)))[:3] == [0, 0.8125, 1.625]
    streams = ["stream(" in text for text, _ in launches]
    assert streams == [False, False, True, True, False, True]


def test_a_long_program_is_cut_where_the_fewest_values_are_needed(
    tier: str, launches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "LONGEST", 16)
    monkeypatch.setattr(stages, "SHORT", 0)
    x = y = ramp(3)
    for k in range(1, 12):
        a, b = add(mul(x, x), y), mul(x, y)
        x, y = (add(a, b), number(k)) if k == 4 else (a, b)
    schedule.evaluate([x])
    assert "store(" in launches[0][0] and launches[0][0].count("store(") == 1


# Preview


def test_preview_launches_nothing_and_shows_what_runs(tier: str, launches: list) -> None:
    target, counter = Array(ramp(4)), Array(ramp(4, dt.u32))
    target.scatter([number(3.0, size=2)], opaque([1, 2], dt.u32))
    after = counter.scatter([], ir.lane(4), op.scatter_inc)
    old = pending.old_value(after, dt.u32)
    del after
    x = ramp(6)
    total = access.reduce_all("add", mul(x, x))
    y = add(mul(x, total), access.gather(target.node, Access(number(1, dt.u32))))
    for roots in ([y], [y, total, target.node]):
        texts = [text for _, text in schedule.preview(roots)]
        assert not launches
        assert not y.is_evaluated and not total.is_evaluated and not old.is_evaluated
        assert len(pending.effects) == 2
    schedule.evaluate([y, total, target.node])
    assert [text for text, _ in launches] == texts
    assert values(y) == [3, 58, 113, 168, 223, 278]
    assert values(target.node) == [0, 3, 3, 3]
    assert values(counter.node) == [1, 2, 3, 4]
    assert values(old) == [0, 1, 2, 3]


def test_preview_keeps_the_order_of_side_effects(tier: str, launches: list) -> None:
    target = Array(ramp(4))
    target.scatter([number(1.0)], opaque([1, 2, 3], dt.u32))
    target.scatter([number(2.0)], opaque([3, 2, 0], dt.u32))
    shown = [text for _, text in schedule.preview([])]
    assert values(target.node) == [2, 1, 2, 2]
    assert len(shown) == 2 and [text for text, _ in launches] == shown


def test_preview_shows_old_values_that_are_stored(tier: str, launches: list) -> None:
    counter = Array(ramp(4, dt.u32))
    after = counter.scatter([], ir.lane(4), op.scatter_inc)
    old = pending.old_value(after, dt.u32)
    del after
    shown = [text for _, text in schedule.preview([])]
    schedule.evaluate([])
    assert [text for text, _ in launches] == shown
    assert values(old) == [0, 1, 2, 3]


def test_preview_shows_the_comments_of_debug_mode(launches: list) -> None:
    with flags.scoped_set_flag(JitFlag.Debug):
        y = mul(ramp(3), ramp(3))
        shown = [text for _, text in schedule.preview([y])]
        schedule.evaluate([y])
    assert [text for text, _ in launches] == shown
    assert "test_schedule.py:" in shown[0]


def test_programs_of_random_graphs_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`program.check` accepts what `build` makes."""
    checked = []
    build = program.build

    def checking(*arguments: object) -> program.Program:
        made = build(*arguments)
        program.check(made)
        checked.append(made)
        return made

    monkeypatch.setattr(program, "build", checking)
    rng = np.random.default_rng(5)
    for _ in range(20):
        nodes = [ramp(7), opaque([2.0]), number(3.0)]
        for _ in range(15):
            a, b = (nodes[k] for k in rng.integers(0, len(nodes), 2))
            row = (op.add, op.mul, op.minimum, op.sub)[rng.integers(4)]
            nodes.append(ir.apply(row, a, b))
        nodes.append(access.reduce_all("add", nodes[-1]))
        schedule.evaluate(nodes[3:])
    assert len(checked) >= 10


def test_the_lanes_of_a_kernel_have_no_value_outside():
    with pytest.raises(RuntimeError, match="outside of one"):
        schedule.evaluate([ACTIVE])

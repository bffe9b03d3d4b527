"""Symbolic loops and branches at the level of nodes: what they compute, what becomes of their side
effects, what is hoisted out of them, and that exceptions undo a recording."""

import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import drjit as dr
from drjit.jit.cpu import launcher, runtime
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node, op
from drjit.jit.ir.node import Node
from drjit.jit.run import launch, pending, schedule
from drjit.jit.trace import access, record
from drjit.jit.trace.access import Access, WriteTarget

pytestmark = pytest.mark.usefixtures("computing_nodes")

SIZES = (0, 1, 15, 17, 1000)


def array(values) -> Node:
    values = np.asarray(values)
    dtype = dt.types_by_numpy()[values.dtype]
    return node.buffer(dtype, values.size, launch.from_numpy(dtype, values))


def host(n: Node) -> np.ndarray:
    if n.op is op.literal:
        return np.full(n.size, n.data, n.dtype.numpy)
    schedule.evaluate([n])
    return launch.to_numpy(n.dtype, n.size, n.data).copy()


def f32(value: float) -> Node:
    return node.literal(dt.f32, value)


def u32(value: int) -> Node:
    return node.literal(dt.u32, value)


def add(a: Node, b: Node) -> Node:
    return node.apply(op.add, a, b)


def mul(a: Node, b: Node) -> Node:
    return node.apply(op.mul, a, b)


def less(a: Node, b: Node) -> Node:
    return node.apply(op.lt, a, b)


def text(*roots: Node) -> str:
    ((_, found),) = schedule.preview(list(roots))
    return found


@pytest.mark.parametrize("size", SIZES)
def test_every_lane_runs_as_often_as_its_condition_says(size, tier) -> None:
    x = np.linspace(0, 30, size).astype(np.float32)
    y, count = record.loop(
        [array(x), u32(0)],
        lambda s: less(s[0], f32(20)),
        lambda s: [add(mul(s[0], f32(1.5)), f32(1)), add(s[1], u32(1))],
    )
    want, rounds = x.copy(), np.zeros(size, np.uint32)
    while (live := want < 20).any():
        want = np.where(live, want * np.float32(1.5) + np.float32(1), want)
        rounds += live
    assert np.allclose(host(y), want, rtol=1e-6)
    assert np.array_equal(host(count), rounds[: count.size])


def test_variables_that_swap(tier) -> None:
    a, b, c, n = record.loop(
        [array(np.float32([1, 2])), f32(5), f32(7), u32(0)],
        lambda s: less(s[3], array(np.uint32([1, 2]))),
        lambda s: [s[1], s[0], add(s[2], s[0]), add(s[3], u32(1))],
    )
    assert host(a).tolist() == [5, 2]
    assert host(b).tolist() == [1, 5]
    assert host(c).tolist() == [8, 14]
    assert host(n).tolist() == [1, 2]


def test_what_does_not_change_and_what_nobody_needs_is_left_out() -> None:
    x, k = array(np.float32([1, 2, 3])), array(np.float32([3, 4, 5]))
    unused = f32(0)

    def body(s: list[Node]) -> list[Node]:
        fixed = node.apply(op.sin, s[1])  # of a state that does not change
        return [add(s[0], fixed), s[1], node.apply(op.cos, s[2])]

    y, kept = record.loop([x, k, unused], lambda s: less(s[0], f32(9)), body)[:2]
    assert kept is k
    written = text(y)
    head, _, inside = written.partition("while")
    assert "sin(" in head and "sin(" not in inside
    assert "cos(" not in written


def test_a_loop_in_a_loop(tier) -> None:
    n = 17

    def outer(s: list[Node]) -> list[Node]:
        _, total = record.loop(
            [u32(0), s[1]],
            lambda t: less(t[0], s[0]),
            lambda t: [add(t[0], u32(1)), add(t[1], mul(t[0], s[0]))],
        )
        return [add(s[0], u32(1)), total]

    limit = array(np.arange(n, dtype=np.uint32))
    _, total = record.loop([u32(0), u32(0)], lambda s: less(s[0], limit), outer)
    want = [sum(i * j for i in range(m) for j in range(i)) for m in range(n)]
    assert host(total).tolist() == want


def test_a_branch_skips_what_no_lane_needs_and_merges_the_rest(tier) -> None:
    x = np.arange(17, dtype=np.float32)
    masks = [array(x < 5), array((x >= 5) & (x < 9))]
    bodies = [
        lambda a: [mul(a[0], f32(2)), a[0]],
        lambda a: [node.apply(op.neg, a[0]), f32(3)],
    ]
    p, q = record.branches(masks, bodies, [array(x)])
    assert host(p).tolist() == np.where(x < 5, 2 * x, np.where(x < 9, -x, 0)).tolist()
    assert host(q).tolist() == np.where(x < 5, x, np.where(x < 9, 3, 0)).tolist()
    assert text(record.branches(masks, bodies, [array(x)])[0]).count("if any_lane(") == 2


def test_side_effects_happen_once_for_the_lanes_that_are_there(tier) -> None:
    n = 20
    target = array(np.zeros(8, np.uint32))

    def body(s: list[Node]) -> list[Node]:
        nonlocal target
        taken = WriteTarget(target)
        target = None
        target = access.scatter(taken, [u32(1)], Access(s[0], what="test", reduce="add"))
        return [add(s[0], u32(1))]

    limit = array(np.arange(n, dtype=np.uint32) % 7)
    (rounds,) = record.loop([u32(0)], lambda s: less(s[0], limit), body)
    assert len(pending.effects) == 1
    want = np.zeros(8, np.uint32)
    for m in np.arange(n) % 7:
        want[:m] += 1
    assert host(add(target_of(target), u32(0))).tolist() == want.tolist()
    assert host(rounds).tolist() == (np.arange(n) % 7).tolist()  # kept by the same kernel
    assert not pending.effects


def target_of(n: Node) -> Node:
    return access.gather(n, Access(node.lane(n.size)))


def test_a_scatter_before_and_after_a_loop_keep_their_order(tier) -> None:
    target = array(np.zeros(1, np.float32))

    def put(value: Node) -> None:
        nonlocal target
        taken = WriteTarget(target)
        target = None
        target = access.scatter(taken, [value], Access(u32(0), what="test"))

    put(f32(1))

    def body(s: list[Node]) -> list[Node]:
        put(add(s[0], f32(10)))
        return [add(s[0], f32(1))]

    record.loop([f32(0)], lambda s: less(s[0], f32(3)), body)
    assert host(target_of(target)).tolist() == [12]
    record.loop([f32(0)], lambda s: less(s[0], f32(5)), body)
    put(f32(-1))
    assert host(target_of(target)).tolist() == [-1]


def test_an_index_is_checked_only_in_lanes_that_are_in_the_loop(tier) -> None:
    source = array(np.arange(5, dtype=np.float32))

    def body(s: list[Node]) -> list[Node]:
        return [add(s[0], u32(1)), add(s[1], access.gather(source, Access(s[0])))]

    limit = array(np.uint32([0, 3, 5]))
    _, total = record.loop([u32(0), f32(0)], lambda s: less(s[0], limit), body)
    assert host(total).tolist() == [0, 3, 10]
    _, total = record.loop([u32(0), f32(0)], lambda s: less(s[0], array(np.uint32([6, 1]))), body)
    with pytest.raises(IndexError, match=r"index 5 is out of bounds"):
        host(total)


def test_a_loop_of_one_lane_runs_once_for_those_who_use_its_result(tier) -> None:
    (total,) = record.loop([f32(0)], lambda s: less(s[0], f32(10)), lambda s: [add(s[0], f32(3))])
    wide = add(array(np.arange(40, dtype=np.float32)), total)
    assert len(schedule.preview([wide])) == 2
    assert host(wide).tolist() == (np.arange(40) + 12).tolist()


def test_what_is_only_summed_up_is_not_stored() -> None:
    x = array(np.float32([1, 2, 3]))
    body = lambda s: [add(s[0], f32(1)), mul(s[1], f32(2))]  # noqa: E731
    y, z = record.loop([x, x], lambda s: less(s[0], f32(5)), body)
    total = access.reduce_all("add", z)
    del z
    written = text(y)
    assert written.count("store(") == written.count("reduce(") == 1
    assert host(y).tolist() == [5, 5, 5] and host(total).tolist() == [16 + 16 + 12]


def test_a_literal_in_a_loop_is_a_parameter() -> None:
    def run(limit: float, step: float) -> str:
        x = array(np.float32([1, 2, 3]))
        (y,) = record.loop([x], lambda s: less(s[0], f32(limit)), lambda s: [add(s[0], f32(step))])
        return text(y)

    assert run(10, 0.5) == run(11, 0.25)


def test_an_exception_undoes_the_recording() -> None:
    target = array(np.zeros(4, np.float32))
    before = target.data

    def body(s: list[Node]) -> list[Node]:
        nonlocal target
        taken = WriteTarget(target)
        target = None
        target = access.scatter(taken, [f32(1)], Access(s[0], what="test"))
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        record.loop([u32(0)], lambda s: less(s[0], u32(3)), body)
    assert not record.recording()
    assert not pending.effects
    assert target.op is op.buffer and target.data is before
    with pytest.raises(ValueError, match="stop"):
        record.branches([less(node.lane(4), u32(2))], [body], [u32(0)])
    assert not record.recording()
    assert host(target_of(target)).tolist() == [0, 0, 0, 0]


def test_values_of_a_recording_can_neither_be_evaluated_nor_leave_it() -> None:
    leaked: list[Node] = []

    def body(s: list[Node]) -> list[Node]:
        leaked.append(mul(s[0], f32(2)))
        return [add(s[0], f32(1))]

    (y,) = record.loop([array(np.float32([1, 2]))], lambda s: less(s[0], f32(9)), body)
    with pytest.raises(RuntimeError, match="symbolic loop"):
        host(leaked[0])
    with pytest.raises(RuntimeError, match="used outside"):
        host(add(leaked[0], y))
    with pytest.raises(RuntimeError, match="that is being recorded was to be evaluated"):
        record.loop(
            [array(np.float32([1, 2]))],
            lambda s: less(s[0], f32(9)),
            lambda s: [f32(host(s[0])[0])],
        )
    assert not record.recording()


def test_what_is_evaluated_inside_but_known_outside_is_fine(tier) -> None:
    x = array(np.float32([1, 2]))

    def body(s: list[Node]) -> list[Node]:
        known = add(x, x)
        assert host(known).tolist() == [2, 4]
        return [add(s[0], known)]

    (y,) = record.loop([f32(0)], lambda s: less(s[0], f32(8)), body)
    assert host(y).tolist() == [8, 8]


@pytest.mark.parametrize(
    ("state", "result", "message"),
    [
        ([f32(0)], [], "1 state variables became 0"),
        ([f32(0)], [u32(1)], "state variable 0 is float32 first and uint32 then"),
    ],
)
def test_a_body_must_give_what_it_gets(state, result, message) -> None:
    with pytest.raises(TypeError, match=message):
        record.loop(state, lambda s: less(s[0], f32(1)), lambda s: result)
    assert not record.recording()


def test_a_condition_must_be_a_mask() -> None:
    with pytest.raises(TypeError, match="the condition is float32"):
        record.loop([f32(0)], lambda s: s[0], lambda s: s)


def test_reading_what_the_same_loop_writes_is_refused() -> None:
    target = array(np.zeros(4, np.float32))

    def body(s: list[Node]) -> list[Node]:
        nonlocal target
        taken = WriteTarget(target)
        target = None
        target = access.scatter(taken, [f32(1)], Access(s[0], what="test"))
        access.gather(target, Access(s[0], what="dr.gather"))
        return [add(s[0], u32(1))]

    with pytest.raises(
        RuntimeError, match=r"dr\.gather: an array is written to and read in the same"
    ):
        record.loop([u32(0)], lambda s: less(s[0], u32(3)), body)


def endless() -> Node:
    x = array(np.float32([1, 2]))
    (y,) = record.loop(
        [x], lambda s: less(f32(0), s[0]), lambda s: [add(mul(s[0], f32(0.5)), f32(1))]
    )
    return y


@pytest.mark.processor
def test_an_interrupt_ends_an_endless_loop(tier, monkeypatch) -> None:
    monkeypatch.setattr("drjit.jit.device.GRACE_SECONDS", 0.2)
    before = runtime.submitted

    def interrupt() -> None:
        if tier == "compiled":  # until the kernel runs, and the program waits for it
            while runtime.submitted == before or runtime.first_closed():
                time.sleep(0.01)
            while len(runtime._seats) == launcher.WAITERS:
                time.sleep(0.01)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    y = endless()
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        host(y)
    thread.join()
    if tier == "compiled":
        assert "Loops of running kernels were stopped" in caught.value.__notes__[0]
    assert host(mul(array(np.float32([2])), f32(3))).tolist() == [6]


def test_debug_mode_limits_the_rounds_of_a_loop(monkeypatch) -> None:
    monkeypatch.setattr("drjit.jit.debug.loop_limit", 50)
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        with pytest.raises(RuntimeError, match=r"run 50 rounds, and 2 of 2 lanes .* while any_lan"):
            host(endless())
        y = record.loop([u32(0)], lambda s: less(s[0], u32(50)), lambda s: [add(s[0], u32(1))])
        assert host(y[0]).tolist() == [50]


def test_nothing_keeps_a_loop_alive() -> None:
    x = array(np.float32([1, 2]))
    (y,) = record.loop([x], lambda s: less(s[0], f32(9)), lambda s: [add(s[0], f32(1))])
    loop = weakref.ref(y.deps[0])
    gc.disable()
    try:
        del y
        assert loop() is None
    finally:
        gc.enable()


def test_a_loop_with_side_effects_that_has_run_gets_no_more_variables(tier):
    held = [schedule.materialize(node.literal(dt.u32, 0, 1))]

    def body(nodes):
        taken, one = WriteTarget(held.pop()), u32(1)
        held.append(access.scatter(taken, [one], Access(u32(0), reduce="add")))
        return [add(nodes[0], u32(1))]

    (count,) = record.loop([array(np.zeros(3, np.uint32))], lambda n: less(n[0], u32(4)), body)
    block = count.deps[0]
    schedule.evaluate([count])  # as another thread may do at any time
    assert record.extend(block, [u32(0)], lambda nodes: nodes) is None
    assert list(host(held[0])) == [12] and list(host(count)) == [4, 4, 4]

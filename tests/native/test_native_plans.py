"""Evaluations of several small kernels that were planned before are performed by native code. They
give what others give, and leave nothing behind that others do not."""

import weakref
from collections import deque

import numpy as np
import pytest
from helpers import growth, settle
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.jit import substitutes
from drjit.jit.cpu import kernel, memory, plans, runtime, variants, warm_up
from drjit.jit.run import plan as plan_table
from drjit.jit.run import schedule
from drjit.llvm import Float, Float16, Float64, Int, UInt

pytestmark = pytest.mark.skipif(not warm_up.places(plans), reason="other layout of objects")


class Taken(list):
    """The numbers of launches that native code has performed at once; `found` is that of the plans
    that it has found by itself."""

    found = 0


@pytest.fixture
def taken(monkeypatch):
    known, seen = plans.KnownPrograms(warm_up.places(plans)), Taken()
    launch_all, first, find = schedule.launch_all, [], known.repeat
    known.repeat = lambda *call: repeat(*call)

    def perform(plan, roots, order):
        done = plans.perform(plan, roots, order)
        if done:
            seen.append(done)
        return done

    def launch(launches, order, *given):
        made = known._known.get(known.scan.plan)
        first.append(len(made[0].launches) - len(launches) if made else 0)
        launch_all(launches, order, *given)

    def repeat(roots, device):
        first.clear()
        performed = find(roots, device)
        if performed:
            seen.found += 1
            count = len(known._known[known.scan.plan][0].launches)
            seen.append(first[0] if first else count)
        return performed

    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(substitutes, "plans", known)
    monkeypatch.setattr(substitutes, "perform", perform)
    monkeypatch.setattr(schedule, "launch_all", launch)
    monkeypatch.setattr(substitutes, "repeat", None)
    monkeypatch.setattr(substitutes, "forget", known.forget)
    schedule.forget_kernels()  # and plans
    yield seen
    schedule.forget_kernels()


def data(cls, size, start=1):
    values = np.arange(start, start + size) % 100
    return cls(values.tolist())  # NumPy's memory may end at the end of a page


@pytest.mark.parametrize("size", [1, 17, 1000])
@pytest.mark.parametrize("cls", [Float, Float64, Int, UInt, dr.llvm.Int64, dr.llvm.Int8])
def test_reductions_and_scatters_of_all_types(cls, size, taken):
    x = data(cls, size)
    index = data(UInt, size, 0) % 7
    a, place = x.numpy(), index.numpy()
    with np.errstate(over="ignore"):
        for k in range(10):
            target, one = dr.zeros(cls, 7), cls(k + 2)
            dr.scatter_add(target, x * one, index)
            y = target * 2 + one
            last = dr.max(y)
            dr.eval(target, y, last)
            wanted = np.zeros(7, a.dtype)
            np.add.at(wanted, place, (a * a.dtype.type(k + 2)).astype(a.dtype))
            assert target.numpy().tolist() == wanted.tolist()
            after = (wanted * a.dtype.type(2) + a.dtype.type(k + 2)).astype(a.dtype)
            assert y.numpy().tolist() == after.tolist()
            assert last.numpy().tolist() == [after.max()]
            dr.sync_thread()
    assert len(taken) >= 6 and taken.found >= 4


def test_numbers_of_all_kinds(taken):
    x, d, n, m = data(Float, 9), data(Float64, 9), data(Int, 9), data(UInt, 9) > 4
    numbers = [0.5, 1e-45, float("inf"), 3, 3.25, -7, 1e300, float("nan")]
    for k, number in enumerate([*numbers, *numbers]):
        y = dr.sum(x) + number
        z = dr.sum(d) * number
        i = dr.sum(n) - (k + 1)
        b = dr.select(m | (dr.sum(x) > 44 + k % 2), y, number)
        dr.eval(y, z, i, b)
        with np.errstate(over="ignore"):
            single = np.float32(number)
        np.testing.assert_array_equal(y.numpy(), np.float32([45 + single]))
        np.testing.assert_array_equal(z.numpy(), [45 * number])
        assert i.numpy().tolist() == [44 - k]
        wanted = np.where((np.arange(9) > 3) | (k % 2 == 0), y.numpy(), single)
        np.testing.assert_array_equal(b.numpy(), wanted)
    assert len(taken) >= 12 and taken.found >= 6


def test_a_target_that_is_written_read_and_written_again(taken):
    x, index = data(Float, 40), data(UInt, 40, 0) % 5
    for k in range(8):
        target = dr.full(Float, k, 5)
        dr.scatter_add(target, x, index)
        before = dr.gather(Float, target, index)
        dr.scatter_reduce(dr.ReduceOp.Max, target, before * 2, UInt(4 - index))
        total = dr.sum(target)
        dr.eval(before, target, total)
        sums = k + x.numpy().reshape(-1, 5).sum(0)
        assert before.numpy().tolist() == np.tile(sums, 8).tolist()
        assert target.numpy().tolist() == np.maximum(sums, 2 * sums[::-1]).tolist()
        assert total.numpy() == target.numpy().sum()
    assert len(taken) >= 5


def test_an_index_out_of_bounds_in_one_of_the_kernels(taken, monkeypatch):
    """What comes after it is computed in the general way, and what depends on it raises the
    error."""
    x, index = data(Float, 6), UInt(0, 1, 2, 5)

    def run(bad):
        total = dr.sum(x)
        at = dr.select(total > 0, index + UInt(0, 0, bad, 0), 0)
        y = dr.gather(Float, x, at) * total
        target = dr.zeros(Float, 3)
        dr.scatter_add(target, y, index % 3)
        z = dr.sum(y) + 1
        dr.eval(total, y, z, target)
        found = [total.numpy().tolist()]
        for value in (y, z, target):
            try:
                found.append(value.numpy().tolist())
            except IndexError as error:
                found.append(str(error))
        try:
            dr.sync_thread()
        except IndexError as error:
            found.append(str(error))
        return found, y.numpy().tolist(), z.numpy().tolist(), target.numpy().tolist()

    bad = [0] * 6 + [70, 0, 70, 71] + [0] * 3
    found = [run(k) for k in bad]
    performed = len(taken)
    assert performed >= 6 and len({*taken}) == 2  # the last kernel does not follow
    monkeypatch.setattr(substitutes, "perform", None)
    assert found == [run(k) for k in bad]
    assert "dr.gather: index 72 is out of bounds for an array of size 6 (lane 2; " in str(found[6])


def test_a_check_that_is_a_result_itself(taken):
    """The places in a tensor, and whether they are within its bounds, are computed first."""
    t = dr.llvm.TensorXf(Float(range(6)), (2, 3))
    for k in (0, 1, 0, 1, 0, 1, 0, 1, 5, 0, 7):
        if k < 2:
            assert t[UInt(0, k)].numpy().tolist()[1] == [3 * k, 3 * k + 1, 3 * k + 2]
        else:
            with pytest.raises(IndexError, match=f"index {k} is out of bounds for .* size 2"):
                t[UInt(0, k)].numpy()


def test_finalizers_evaluate_where_operands_are_dropped(taken):
    """Where an index was out of bounds, what is left to do belongs to the evaluation around: while
    that is at work, finalizers take the general way."""
    x, other, seen, nested = data(Float, 6), data(Float, 5), [], []

    def evaluates():
        at_work, before, z = substitutes.plans.at_work, taken.found, other * 3 + 1
        dr.eval(z)
        nested.append((at_work, taken.found - before))
        seen.append(z.numpy().tolist())

    for _ in range(8):
        assert (other * 3 + 1).numpy()[0] == 4
    errors = 0
    for bad in [0] * 8 + [70, 0, 70, 71, 0]:
        total, inner = dr.sum(x), dr.gather(Float, x, UInt(0, 1, bad, 3))
        z = dr.sum(inner * total) + 1
        weakref.finalize(inner._node, evaluates)
        del inner
        dr.eval(z)
        try:
            assert z.numpy().tolist() == [(1 + 2 + 1 + 4) * 21 + 1]
            assert not bad
        except IndexError:
            assert bad
            errors += 1
        assert total.numpy().tolist() == [21]
    dr.sync_thread()
    assert errors == 3 and (True, 0) in nested and (True, 1) not in nested
    assert seen == [[4, 7, 10, 13, 16]] * 13


def test_what_is_left_to_the_general_way(taken):
    half, x = data(Float16, 6), data(Float, 6)
    failed = dr.gather(Float, x, UInt(0, 1, 2, 3, 4, 99))
    dr.eval(failed)
    for k in range(6):
        y = dr.sum(half) + Float16(k + 0.5)
        w = dr.sum(failed) + x
        dr.eval(y)
        dr.eval(w)
        assert y.numpy().tolist() == [21.5 + k]
    assert not taken
    with pytest.raises(IndexError):
        w.numpy()


LARGE = [1 << 18, (1 << 20) + 17]


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("cls", [Float, Float64, Int, UInt, dr.llvm.Int64, dr.llvm.Int8])
def test_large_launches_are_found_and_queued(cls, size, taken):
    x, y = data(cls, size), data(cls, size, 7)
    a, b = x.numpy(), y.numpy()
    for k in range(8):
        u, v, m = x * cls(k + 2) + y, y - x, x < y
        dr.eval(u, v, m)  # while the last ones are still under way
        np.testing.assert_array_equal(u.numpy(), a * a.dtype.type(k + 2) + b)
        np.testing.assert_array_equal(v.numpy(), b - a)
        np.testing.assert_array_equal(m.numpy(), a < b)
    assert taken.found >= 4


@pytest.mark.parametrize("size", LARGE)
def test_large_launches_that_wait_for_each_other(size, taken):
    x = data(Float64, size)
    a = x.numpy()
    queued = deque(maxlen=2)
    for k in range(12):
        total = dr.sum(x * (k + 1))
        y = x / total
        most = dr.max(y)
        dr.eval(y, most)
        if len(queued) == 2:
            n, total_then, then, most_then = queued[0]
            np.testing.assert_allclose(total_then.numpy(), [a.sum() * (n + 1)])
            np.testing.assert_allclose(then.numpy(), a / (a.sum() * (n + 1)))
            np.testing.assert_allclose(most_then.numpy(), [a.max() / (a.sum() * (n + 1))])
        queued.append((k, total, y, most))
        del total, y, most
    assert taken.found >= 4


def test_large_scatters(taken):
    size = 1 << 20
    index = dr.arange(UInt, size) * 7 % size  # a permutation
    x = data(Float, size)
    a, place = x.numpy(), index.numpy()
    dr.eval(index)
    memory_of_numpy = np.zeros(size, np.float32)
    for k in range(8):
        target, shared = dr.zeros(Float, size), Float(memory_of_numpy)
        dr.eval(target)
        dr.scatter_add(target, x, index, mode=dr.ReduceMode.Direct)  # also for a single thread
        dr.scatter(shared, x + k, index)
        dr.eval(target, shared)
        wanted = np.zeros(size, np.float32)
        wanted[place] = a
        np.testing.assert_array_equal(target.numpy(), wanted)
        wanted[place] = a + k
        np.testing.assert_array_equal(shared.numpy(), wanted)
    assert len(taken) >= 5


@pytest.mark.parametrize("size", LARGE)
def test_large_launches_with_an_index_out_of_bounds(size, taken):
    x, bad, errors = data(Float, size), [0] * 8 + [size, 0, size + 1, 0], 0
    index = dr.arange(UInt, size)
    dr.eval(index)
    for k, more in enumerate(bad):
        y = dr.gather(Float, x, index + more * (index == 3)) + k
        total = dr.sum(y)
        z = y + total
        dr.eval(y, z)
        try:
            z.numpy()  # which is computed from what failed
            assert not more
        except IndexError as error:
            assert f"index {3 + more} is out of bounds" in str(error)
            errors += 1
        wanted = x.numpy() + np.float32(k)
        if more:
            wanted[3] = k
        np.testing.assert_array_equal(y.numpy(), wanted)
        dr.sync_thread()
    assert errors == 2 and len(taken) >= 4


def test_large_loops(taken):
    x = data(Float, 1 << 18)
    a = x.numpy()

    @dr.syntax
    def halved(v, n):
        i = UInt(0)
        while i < n:
            v = v * 0.5
            i += 1
        return v

    for k in range(8):
        y = halved(x, UInt(k + 1))
        dr.eval(y)
        np.testing.assert_array_equal(y.numpy(), a * np.float32(0.5 ** (k + 1)))
    assert len(taken) >= 4


def test_small_launches_behind_large_ones(taken):
    x, large = data(Float, 40), data(Float, 1 << 22)
    for k in range(12):
        y = dr.sqrt(dr.sin(large) + 2)
        z = dr.sum(x) + k
        dr.eval(y)
        dr.eval(z)
        del y
        assert (z + k).numpy().tolist() == [820 + 2 * k]
    assert taken.found >= 12


def test_large_launches_with_another_number_of_threads(taken):
    x, count = data(Float, 1 << 20), dr.thread_count()
    wanted = np.float32(x.numpy().sum(dtype=np.float64))
    try:
        for n in (1, 3, 2, count):
            dr.set_thread_count(n)
            before = taken.found
            for _ in range(5):
                total = dr.sum(x)
                y = total + x
                dr.eval(total, y)
                np.testing.assert_allclose(total.numpy(), [wanted], rtol=1e-5)
                assert y.numpy()[3] == np.float32(total.numpy()[0] + 4)
            assert taken.found > before
    finally:
        dr.set_thread_count(count)


def test_an_interrupt_leaves_what_was_not_queued(taken, monkeypatch):
    x, index = data(Float, 1 << 18), dr.arange(UInt, 1 << 18)
    target, real = dr.zeros(Float, 1 << 18), runtime.launch
    dr.eval(target, index)
    calls = interrupted = 0

    def launch(*call):
        nonlocal calls
        calls += 1
        if calls == interrupted:
            raise KeyboardInterrupt
        return real(*call)

    for k in range(12):
        calls, interrupted = 0, k % 4  # the first or the second launch, or none
        dr.scatter_add(target, x, index, mode=dr.ReduceMode.Direct)
        y = dr.sum(x) + k
        monkeypatch.setattr(runtime, "launch", launch)
        try:
            dr.eval(y, target)
            assert interrupted == 0 or calls < interrupted
        except KeyboardInterrupt:
            dr.eval(y, target)
        monkeypatch.setattr(runtime, "launch", real)
        assert target.numpy()[:4].tolist() == [(k + 1) * v for v in range(1, 5)]
        assert y.numpy()[0] == pytest.approx(x.numpy().sum(dtype=np.float64) + k, 1e-5)
    assert len(taken) >= 4


def test_memory_of_large_launches_returns(taken):
    x = data(Float, 1 << 18)

    def step():
        y = dr.sum(x) * x
        dr.eval(y)
        return y

    for _ in range(10):
        step()
        dr.sync_thread()
    settle()
    before, launches, found = memory.statistics(), counted(), taken.found
    for _ in range(50):
        step()
    dr.sync_thread()
    settle()
    assert taken.found - found >= 45
    assert counted() - launches == 100
    assert memory.statistics()["in_use"] == before["in_use"]
    y = step()
    alive = weakref.ref(y._node.data)
    del y
    assert alive() is None


def test_flags_that_watch_launches(taken):
    x = data(Float, 5)
    for _ in range(6):
        dr.eval(dr.sum(x) * x)
        dr.sync_thread()
    before = len(taken)
    assert before >= 3
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.eval(dr.sum(x) * x)
        assert len(dr.kernel_history()) == 2
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        assert (dr.sum(x) * x).numpy().tolist() == [15, 30, 45, 60, 75]
    assert len(taken) == before


def test_a_frozen_function_records_launches(taken):
    x = data(Float, 5)

    @dr.freeze
    def scaled(v):
        return dr.sum(v) * v

    for _ in range(6):
        dr.eval(dr.sum(x) * x)
    for k in range(6):
        y = scaled(x + k)
        assert y.numpy()[0] == (15 + 5 * k) * (1 + k)
    assert scaled.n_recordings == 1


def test_queued_work_comes_first(taken):
    large = dr.zeros(Float, 1 << 21)
    dr.make_opaque(large)
    for k in range(8):
        y = dr.sin(large) + k
        dr.eval(y)
        z = dr.gather(Float, y, UInt(5, 1 << 20)) * 2
        total = dr.sum(z) + z
        dr.eval(z, total)
        assert total.numpy().tolist() == [6 * k] * 2


def test_memory_returns_and_launches_are_counted(taken):
    x, index = data(Float, 64), data(UInt, 64, 0) % 8
    records = sum(len(k.records) for k in kernel.kernels())

    def step():
        target = dr.zeros(Float, 8)
        dr.scatter_add(target, x, index)
        y = dr.sum(target) * x
        dr.eval(y, target)
        return y

    for _ in range(10):
        step()
        dr.sync_thread()
    settle()
    before, launches = memory.statistics(), counted()
    performed = len(taken)
    assert growth(lambda: [None for _ in range(200) if not step()._node]) < 20
    steps = len(taken) - performed
    assert memory.statistics() == before
    assert counted() - launches == 3 * steps and steps >= 200
    y = step()
    alive = weakref.ref(y._node.data)
    del y
    assert alive() is None
    count = counted()
    schedule.forget_kernels()
    assert counted() == count
    assert sum(len(k.records) for k in kernel.kernels()) == records


def counted():
    return sum(k.launches for k in kernel.kernels())


def test_another_number_of_threads(taken):
    x, count = data(Float, 5), dr.thread_count()
    try:
        for n in (1, 3, count):
            dr.set_thread_count(n)
            before = len(taken)
            for _ in range(5):
                y = dr.sum(x) * x
                dr.eval(y)
                dr.eval(x + 0.5)
                assert y.numpy()[4] == 75
            assert len(taken) > before
    finally:
        dr.set_thread_count(count)


def test_better_forms_are_asked_for(taken, monkeypatch):
    asked = []
    monkeypatch.setattr(variants, "should_optimize", lambda k: asked.append(k))
    x = data(Float, 5)
    for _ in range(6):
        dr.eval(dr.sum(x) * x)
        dr.sync_thread()
    every = [p for found in plan_table._plans.values() for p in found]
    (plan,) = [p for p in every if len(p.launches) == 2]
    for k in plan.native[0].kernels:
        k.is_baseline = True
    asked.clear()
    for _ in range(2 * plans._LATER):
        dr.eval(dr.sum(x) * x)
    assert len(asked) == 4 and len({*asked}) == 2


# ---- Loops and branches


def counted_down(v, n, more=None):
    """A loop with a branch, and another loop within it."""

    def body(i, v):
        def inner(j, v):
            return j + 1, v * 0.5 + j

        v = dr.if_stmt((v, i), v > 3, lambda v, i: v - i, lambda v, i: v + 1)
        _, v = dr.while_loop((UInt(0), v), lambda j, v: j < i % 3, inner)
        if more is not None:
            dr.scatter_add(more, v, i % 5, mode=dr.ReduceMode.Direct)
        return i + 1, v

    return dr.while_loop((UInt(0), v), lambda i, v: i < n, body)


@pytest.mark.parametrize("size", [1, 17, 1000, 70_000])
def test_loops_and_branches(size, taken):
    x = data(Float, size)
    a = x.numpy()
    for k in range(10):
        i, y = counted_down(x + k, dr.opaque(UInt, k % 4))
        dr.eval(i, y)
        wanted = a + np.float32(k)
        for n in range(k % 4):
            wanted = np.where(wanted > 3, wanted - np.float32(n), wanted + 1)
            for j in range(n % 3):
                wanted = wanted * np.float32(0.5) + np.float32(j)
        np.testing.assert_array_equal(y.numpy(), wanted)
        assert i.numpy().tolist() == [k % 4] * len(i)
        dr.sync_thread()
    assert taken.found >= 4


def test_updates_within_loops_happen_once(taken):
    x, target = data(Float, 64), dr.zeros(Float, 5)
    wanted = np.zeros(5)
    for k in range(12):
        n = 1 + k % 3
        _, y = counted_down(x, UInt(n), target)
        before = target + 0
        dr.eval(y, target)
        v = x.numpy()
        for step in range(n):
            v = np.where(v > 3, v - step, v + 1)
            for j in range(step % 3):
                v = v * 0.5 + j
            wanted[step % 5] += v.sum(dtype=np.float64)
        np.testing.assert_allclose(y.numpy(), v, rtol=1e-6)
        np.testing.assert_allclose(target.numpy(), wanted, rtol=1e-5)
        del before
    assert taken
    performed, x, counts = len(taken), data(UInt, 4, 0), dr.zeros(UInt, 4)
    for k in range(12):  # a branch, which the calling thread runs, as the only effect

        def add(x):
            dr.scatter_add(counts, UInt(1), x)
            return x

        dr.if_stmt((x,), x < 2, add, lambda x: x)
        assert counts.numpy().tolist() == [k + 1, k + 1, 0, 0]
    assert len(taken) - performed >= 4


def test_all_results_of_a_loop_are_computed_at_once(taken):
    """Also one that nothing has asked for yet: the loop must not run again for it."""
    x = data(Float, 300)
    for k in range(8):
        i, y = counted_down(x, UInt(3))
        late = i * 2 if k % 2 else None
        dr.eval(y)
        assert i._node.op.name == "buffer"
        assert i.numpy().tolist() == [3] * len(i)
        assert late is None or late.numpy().tolist() == [6] * len(late)
        del i, y, late
        y = counted_down(x, UInt(3))[1]
        dr.eval(y)
        del y
        dr.sync_thread()
    assert taken.found >= 3


def test_calls_of_recorded_functions(taken):
    x, which = data(Float, 200), data(UInt, 200) % 2
    dr.eval(which)
    odd = which.numpy() == 1
    for k in range(8):
        y = dr.switch(which, [lambda v: v + 1, lambda v: v * 2], x + k)
        dr.eval(y)
        a = x.numpy() + np.float32(k)
        np.testing.assert_array_equal(y.numpy(), np.where(odd, a * 2, a + 1))


class Generator:
    """Programs of a few statements, by the numbers of `choices`."""

    def __init__(self, choices):
        self.choices = iter(choices)

    def pick(self, values):
        return values[next(self.choices, 0) % len(values)]

    def value(self, values, k):
        a, b = self.pick(values), self.pick(values)
        kind = self.pick(["plus", "times", "least", "select", "loop", "branch", "sum", "gather"])
        if kind == "loop":
            n = UInt(self.pick([1, 2, 3]))
            return dr.while_loop(
                (UInt(0), a), lambda i, v: i < n, lambda i, v: (i + 1, v * 0.25 + b)
            )[1]
        if kind == "branch":
            return dr.if_stmt((a, b), a > b, lambda a, b: a - b, lambda a, b: a + k)
        if kind == "sum":
            return a + dr.sum(b)
        if kind == "gather":
            return dr.gather(Float, self.memory, UInt(dr.abs(a)) % 7) + b
        if kind == "select":
            return dr.select(a < b + k, a, b)
        return {"plus": a + b * k, "times": a * (b + 1), "least": dr.minimum(a, b)}[kind]

    def run(self, x, memory, k):
        self.memory, values = memory, [x, x * 0.5 + k]
        for _ in range(5):
            values.append(self.value(values, k))
        target = dr.zeros(Float, 7)
        if self.pick([False, True]):
            dr.scatter_add(target, values[-1], UInt(dr.abs(x)) % 7, mode=dr.ReduceMode.Direct)
        return [*values[-2:], target]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 999), max_size=30), st.sampled_from([1, 16, 17, 1000, 40_000]))
def test_generated_programs_give_what_python_gives(taken, choices, size):
    """On arrays of another size each second time, so that plans for both are there."""
    memory = data(Float, 7)
    results = []
    for native in (False, True):
        found = []
        with pytest.MonkeyPatch.context() as patch:
            if not native:
                patch.setattr(substitutes, "repeat", None)
                patch.setattr(substitutes, "perform", None)
            for k in range(10):
                x = data(Float, size + k % 2 * 3)
                values = Generator(choices).run(x, memory, k % 5 + 0.5)
                dr.eval(values)
                found.append([v.numpy() for v in values])
        results.append(found)
    for one, other in zip(*results, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-5)

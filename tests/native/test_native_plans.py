"""Evaluations of several small kernels that were planned before are performed by native code. They
give what others give, and leave nothing behind that others do not."""

import weakref

import numpy as np
import pytest
from helpers import growth, settle

import drjit as dr
from drjit.jit import substitutes
from drjit.jit.cpu import kernel, memory, plans, programs, variants, warm_up
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
    known, seen = programs.KnownPrograms(warm_up.places(plans)), Taken()
    launch_all, first, find = schedule.launch_all, [], known.repeat
    known.repeat = lambda *call: repeat(*call)

    def perform(plan, roots, order):
        done = plans.perform(plan, roots, order)
        if done:
            seen.append(done)
        return done

    def launch(launches, order):
        made = known._known.get(known.scan.plan)
        first.append(len(made[0].launches) - len(launches) if made else 0)
        launch_all(launches, order)

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
    """Where an index was out of bounds, what is left to do belongs to the evaluation around."""
    x, other, seen, nested = data(Float, 6), data(Float, 5), [], []

    def evaluates():
        before, z = taken.found, other * 3 + 1
        dr.eval(z)
        nested.append(taken.found - before)
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
    assert errors == 3 and sum(nested) > 8
    assert seen == [[4, 7, 10, 13, 16]] * 13


def test_what_is_left_to_the_general_way(taken):
    half, large, x = data(Float16, 6), data(Float, 1 << 20), data(Float, 6)
    failed = dr.gather(Float, x, UInt(0, 1, 2, 3, 4, 99))
    dr.eval(failed)
    for k in range(6):
        y = dr.sum(half) + Float16(k + 0.5)
        z = dr.sum(large) * (k + 1)
        w = dr.sum(failed) + x
        dr.eval(y)
        dr.eval(z)
        dr.eval(w)
        assert y.numpy().tolist() == [21.5 + k]
        assert abs(z.numpy()[0] / (large.numpy().sum(dtype=np.float64) * (k + 1)) - 1) < 1e-5
    assert not taken
    with pytest.raises(IndexError):
        w.numpy()


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
    for k in plan.native[0]._kernels:
        k.is_baseline = True
    asked.clear()
    for _ in range(2 * plans._LATER):
        dr.eval(dr.sum(x) * x)
    assert len(asked) == 4 and len({*asked}) == 2

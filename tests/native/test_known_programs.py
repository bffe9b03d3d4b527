"""Small programs that were evaluated before are evaluated by native code. They give what others
give, and leave nothing behind that others do not."""

import contextlib
import os
import threading

import numpy as np
import pytest
from helpers import growth, settle

import drjit as dr
from drjit.jit import substitutes
from drjit.jit.cpu import kernel, memory, plans, variants, warm_up
from drjit.jit.native import objects
from drjit.jit.run import schedule
from drjit.llvm import Bool, Float, Float16, Float64, Int, UInt, UInt64
from drjit.llvm.ad import Float as ADFloat

pytestmark = pytest.mark.skipif(not warm_up.places(plans), reason="other layout of objects")


@pytest.fixture
def taken(monkeypatch):
    """The numbers of nodes that native code has evaluated."""
    known, found = plans.KnownPrograms(warm_up.places(plans)), []
    find = known.repeat

    def repeat(roots, device):
        done = find(roots, device)
        if done:
            found.append(len(roots))
        return done

    known.repeat = repeat
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(substitutes, "plans", known)
    monkeypatch.setattr(substitutes, "repeat", None)
    monkeypatch.setattr(substitutes, "perform", plans.perform)
    monkeypatch.setattr(substitutes, "forget", known.forget)
    schedule.forget_kernels()
    yield found
    known.forget()


def evaluated(make, times=8):
    """The results of a program, evaluated again and again."""
    found = []
    for k in range(times):
        values = make(k)
        dr.eval(values)
        found.append([np.array(v) for v in values])
    return found


def data(cls, size, start=1):
    values = np.arange(start, start + size) % 100
    return cls(values.tolist())  # NumPy's memory may end at the end of a page


TYPES = [Float, Float64, Int, UInt, UInt64, dr.llvm.Int64, dr.llvm.Int8]


@pytest.mark.parametrize("size", [1, 15, 17, 64, 1000])
@pytest.mark.parametrize("cls", TYPES)
def test_all_types_and_sizes(cls, size, taken):
    x, y = data(cls, size), data(cls, size, 7)
    a, b = x.numpy(), y.numpy()
    for k, (u, v, m) in enumerate(evaluated(lambda k: (x * (k + 3) + y, y - x, x < y))):
        assert u.dtype == v.dtype == a.dtype and m.dtype == np.bool_
        assert u.tolist() == (a * a.dtype.type(k + 3) + b).tolist()
        assert v.tolist() == (b - a).tolist() and m.tolist() == (a < b).tolist()
    assert len(taken) >= 3 and set(taken) == {3}


def test_numbers_of_all_kinds(taken):
    x, f = data(UInt64, 3), data(Float, 3)
    for k in range(6):
        big = (1 << 64) - 1 - k
        y, z = x ^ UInt64(big), f * -0.0 if k % 2 else f * 0.0
        d, m = Float64(f) * (0.1 + k), (f > 1.5 + k) | Bool(k % 2 == 0, True, False)
        dr.eval(y, z, d, m)
        assert y.numpy().tolist() == [int(v) ^ big for v in x.numpy()]
        assert np.signbit(z.numpy()).tolist() == [k % 2 == 1] * 3
        assert d.numpy().tolist() == [float(v) * (0.1 + k) for v in f.numpy()]
    assert taken


def test_equal_numbers_that_become_different(taken):
    x = data(Float, 4)
    for a, b in (*[(2, 2)] * 5, *[(3, 5)] * 5, (3, 3), (0.5, 7)):
        y = x * a + b
        dr.eval(y)
        assert y.numpy().tolist() == (x.numpy() * a + b).tolist()
    assert len(taken) >= 4


def test_programs_that_differ_in_little(taken):
    x, y, one = data(Float, 4), data(Float, 4, 5), dr.opaque(Float, 3)
    makers = (
        lambda: x + y * x, lambda: y + x * y, lambda: x + y * y, lambda: x * y + x,
        lambda: (x + y) * x, lambda: x + x, lambda: x * x, lambda: x + one, lambda: dr.sqrt(x),
        lambda: dr.rsqrt(x), lambda: Int(x), lambda: UInt(x), lambda: Float64(x),
        lambda: UInt(x) << 3, lambda: UInt(x) << 4, lambda: UInt(x) // 3, lambda: UInt(x) // 5,
        lambda: -x, lambda: dr.select(x < y, x, 3), lambda: dr.select(y < x, x, 3),
    )  # fmt: skip
    wanted = [m().numpy().tolist() for m in makers]
    for _ in range(8):
        found = []
        for m in makers:
            value = m()
            dr.eval(value)
            found.append(value.numpy().tolist())
        assert found == wanted
    assert len(taken) >= 4 * len(makers)


def test_several_results_some_of_which_are_there(taken):
    x = data(Float, 5)
    for twice in [False] * 8 + [True] * 4:
        y = x + 1
        z, number = y * 2, Float(7)
        dr.eval(x, y, z, number, *[z] * twice)
        assert number.state == dr.VarState.Literal
        assert z.numpy().tolist() == [4, 6, 8, 10, 12] and y.numpy()[0] == 2
    dr.eval(x)
    assert not dr.eval(x, number)
    assert taken == [4] * 5  # a node twice is left to the general way


def test_what_is_left_to_the_general_way(taken):
    x, half = data(Float, 6), data(Float16, 6)
    failed = dr.gather(Float, x, UInt(0, 1, 2, 3, 4, 99))
    for _ in range(4):
        y = failed * 2
        dr.eval(y)
        assert (half * 1.5).numpy().tolist() == [1.5, 3, 4.5, 6, 7.5, 9]
        assert dr.sum(x * 2).numpy().tolist() == [42]
        assert dr.gather(Float, x, UInt(5, 0)).numpy().tolist() == [6, 1]
        assert dr.arange(UInt, 3).numpy().tolist() == [0, 1, 2]
        many = x
        for k in range(300):
            many = many + k * 0.5
        assert many.numpy()[0] == 1 + 0.5 * 299 * 150
        z = ADFloat(x)
        dr.enable_grad(z)
        dr.backward(z * z)
        assert dr.grad(z).numpy().tolist() == [2, 4, 6, 8, 10, 12]
    with pytest.raises(IndexError):
        y.numpy()
    with pytest.raises(IndexError):
        dr.sync_thread()


def test_flags_that_watch_launches(taken):
    x = data(Float, 3)
    for _ in range(5):
        dr.eval(x + 2)
    before = len(taken)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.eval(x + 2)
        assert len(dr.kernel_history()) == 1
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        assert (x + 2).numpy().tolist() == [3, 4, 5]
    assert len(taken) == before


def test_results_are_written_to_alone(taken):
    x = data(Float, 4)
    for _ in range(5):
        y = x * 3
        dr.eval(y)
        dr.sync_thread()
        z = Float(y)
        dr.scatter(z, Float(100), UInt(1))
        w = z + y
        dr.eval(w)
        assert y.numpy().tolist() == [3, 6, 9, 12] and w.numpy()[1] == 106
        assert x.numpy().tolist() == [1, 2, 3, 4]
    assert taken


def test_queued_work_comes_first(taken):
    x, large = data(Float, 8), dr.zeros(Float, 1 << 22)
    dr.make_opaque(large)
    for k in range(8):
        y = dr.sin(large) + k  # the other threads compute it
        dr.eval(y)
        z = dr.gather(Float, y, UInt(5, 1 << 21)) * 2
        dr.eval(z)
        w = z + 1
        dr.eval(w, x * 2)
        assert w.numpy().tolist() == [2 * k + 1] * 2


def test_memory_returns(taken):
    x = data(Float, 64)

    def step():
        y, z = x * 2 + 1, x - 3
        dr.eval(y, z)
        with contextlib.suppress(RuntimeError):
            dr.eval(z + dr.zeros(Float, 65))

    for _ in range(10):
        step()
    dr.sync_thread()
    settle()
    before = memory.statistics()
    assert growth(lambda: [step() for _ in range(500)] and None) < 20
    assert memory.statistics() == before
    assert len(taken) > 1990  # those before it are for learning
    memory.clear_statistics()
    y, z = x * 2 + 1, x - 3
    dr.eval(y, z)
    assert memory.malloc_watermark() == before["in_use"] + 2 * 256


def test_launches_are_counted(taken):
    schedule.forget_kernels()
    x = data(Float, 9)
    before = sum(k.launches for k in kernel.kernels())
    for _ in range(20):
        dr.eval(x * 1.25 - 8)
        dr.sync_thread()  # the first launch waits for its kernel
    assert sum(k.launches for k in kernel.kernels()) == before + 20
    schedule.forget_kernels()
    assert sum(k.launches for k in kernel.kernels()) == before + 20
    dr.eval(x * 1.25 - 8)
    assert len(taken) in (17, 18)  # another test may have had the kernel compiled


def test_more_programs_than_are_kept(taken, monkeypatch):
    monkeypatch.setattr(plans, "MOST", 3)
    for _ in range(3):
        for size in range(1, 12):
            x = data(Float, size)
            for _ in range(4):
                y = x * 2 + size
                dr.eval(y)
                assert y.numpy().tolist() == (x.numpy() * 2 + size).tolist()
    known = substitutes.plans
    assert known is not None and 0 < len(known._known) <= 3
    assert taken


def test_threads(taken):
    wrong = []

    def work(k):
        x = data(Float, 32, k)
        for j in range(200):
            y, z = x * j + k, x - j
            dr.eval(y, z)
            if y.numpy()[3] != (3 + k) * j + k or z.numpy()[31] != (31 + k) % 100 - j:
                wrong.append((k, j))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and taken


def test_another_number_of_threads(taken):
    x, count = data(Float, 5), dr.thread_count()
    try:
        for n in (1, 3, count):
            dr.set_thread_count(n)
            before = len(taken)
            for _ in range(4):
                y = x + 0.25
                dr.eval(y, dr.sum(x))
                dr.eval(x + 0.5)
                assert y.numpy()[4] == 5.25
            assert len(taken) > before
    finally:
        dr.set_thread_count(count)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child(taken):
    x = data(Float, 5)
    for _ in range(4):
        dr.eval(x * 2.5)
    child = os.fork()
    if not child:
        good = 1
        try:
            for _ in range(4):
                good &= (x * 2.5).numpy().tolist() == [2.5, 5, 7.5, 10, 12.5]
                large = dr.sin(dr.arange(Float, 1 << 21)) + x[1]
                dr.eval(large)
                good &= (x + large[0]).numpy().tolist() == [3, 4, 5, 6, 7]
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (x * 2.5).numpy()[0] == 2.5


def test_the_layout_of_objects_is_checked(monkeypatch):
    monkeypatch.setattr(objects, "word_at", lambda address: 0)
    assert not warm_up.places(plans)

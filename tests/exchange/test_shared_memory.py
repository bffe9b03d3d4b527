"""Arrays that share their memory with NumPy's, wherever that memory is: what either side writes the
other one sees, and nothing beyond the end is touched.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import shared_memory

import drjit as dr
from drjit.llvm import ad
from drjit.llvm.ad import Array3f, Bool, Float, Float16, Float64, TensorXf, UInt, UInt64

pytestmark = pytest.mark.processor

_PROGRAM = Path(__file__).parents[1] / "support" / "shared_memory.py"
_AT_END = shared_memory.PAGE  # the first byte that is not the array's is the next page's


def ending_at(values, place):
    """Returns a copy of values that ends so many bytes after the beginning of a page."""
    values = np.ascontiguousarray(values)
    room = np.zeros(values.nbytes + 3 * shared_memory.PAGE, np.uint8)
    end = -room.ctypes.data % shared_memory.PAGE + values.nbytes // 4096 * 4096 + 4096 + place
    # From a piece of memory, which does not tell of what it is one.
    made = np.frombuffer(room.data[end - values.nbytes : end], values.dtype).reshape(values.shape)
    made[...] = values
    return made


PLACES = [16, 1000, _AT_END - 260, _AT_END - 252, _AT_END - 8, _AT_END]


def runs(how, *names):
    """In a process of its own, which an access would end."""
    env = {"DRJIT_TIER": "compiled" if how in ("avx2", "numba") else how}
    env |= {"DRJIT_TARGET_CPU": "haswell"} if how == "avx2" else {}
    env |= {"DRJIT_COMPILER": "numba"} if how == "numba" else {}
    path = os.pathsep.join([str(_PROGRAM.parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-X", "faulthandler", str(_PROGRAM), *names]
    env = os.environ | env | {"PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


protects = pytest.mark.skipif(sys.platform == "win32", reason="protects memory with mprotect")


@protects
@pytest.mark.parametrize("where", [(), ("near",)], ids=["at the end", "near the end"])
@pytest.mark.parametrize("how", ["numpy", "compiled"])
def test_nothing_beyond_the_end_is_touched(how, where):
    runs(how, *where, "few", "others", "native", *["loops"] * (how == "compiled"))


@protects
@pytest.mark.sweep
@pytest.mark.parametrize("name", [*shared_memory.LEAVES, "others", "native", "loops"])
@pytest.mark.parametrize("where", [(), ("near",)], ids=["at the end", "near the end"])
@pytest.mark.parametrize("how", ["numpy", "python", "compiled", "avx2", "numba"])
def test_nothing_beyond_the_end_is_touched_for_any_size_and_type(how, where, name):
    runs(how, *where, name)


@pytest.mark.parametrize(
    ("cls", "part"),
    [(Bool, 63), (Float16, 126), (Float, 252), (Float64, 248), (UInt64, 504)],
    ids=["bool", "half", "single", "double", "64-bit integer"],
)
def test_few_arrays_are_copied_for_each_launch(cls, part):
    """Those that end within so many bytes of the end of a page."""
    values = np.zeros(5, dr.zeros(cls, 1).numpy().dtype)
    places = range(8, _AT_END + 1, 8)
    copied = [place for place in places if not cls(ending_at(values, place))._node.data.address]
    assert copied == [place for place in places if place > _AT_END - part]


def test_a_function_of_numbers_reads_a_table_wherever_it_is():
    a = ending_at(np.arange(8.0), _AT_END)
    table = ad.Float64(a)

    @dr.wrap("numba", "drjit")
    def pick(x: float) -> float:
        return dr.gather(ad.Float64, table, ad.UInt(x)) * 2

    assert pick(3.0) == 6
    a[7] = 50
    dr.eval(table + 1)
    dr.eval(dr.zeros(ad.Float64, 8) + 1)
    assert pick(7.0) == 100


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
def test_a_later_write_of_numpy_is_seen_wherever_the_array_is(n, place, tier):
    a = ending_at(np.zeros(n, np.float32), place)
    x, t = Float(a), TensorXf(a)
    assert np.shares_memory(x.numpy(), a) and np.shares_memory(t.numpy(), a)
    for value in (1, 2):
        a[n - 1] = value
        y, u = x + 1, t + 1
        dr.eval(y, u)
        assert y[n - 1] == u[n - 1] == value + 1
        assert x[n - 1] == value and (n == 1 or y[0] == 1)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_written_by_entry_is_seen_by_numpy(place, tier):
    a = ending_at(np.zeros((4, 2), np.float32), place)
    x = Float(a.reshape(-1))
    dr.scatter(x, Float(5, 6), UInt(0, 7))
    dr.eval(x)
    dr.sync_thread()
    assert a[0, 0] == 5 and a[3, 1] == 6
    x[1] = 7
    assert a[0, 1] == 7
    a[1, 0] = 8
    assert list(x[0:4]) == [5, 7, 8, 0]
    t = TensorXf(a)
    t[2] = 3
    dr.eval(t)
    dr.sync_thread()
    assert list(a[2]) == [3, 3] and list(t[3]) == [0, 6]
    for mode in (dr.ReduceMode.Direct, dr.ReduceMode.NoConflicts):
        dr.scatter_reduce(dr.ReduceOp.Add, x, Float(1), UInt(7), mode=mode)
    dr.eval(x)
    dr.sync_thread()
    assert a[3, 1] == 8


@pytest.mark.parametrize("place", PLACES)
def test_what_makes_a_new_array_leaves_that_of_numpy_alone(place, tier):
    a = ending_at(np.arange(6, dtype=np.float32), place)
    x = Float(a)
    other = Float(x)
    dr.scatter(x, Float(9), UInt(0))  # which `other` is not to see
    assert other[0] == 0 == a[0] and x[0] == 9
    y = Float(a)
    y += 1
    dr.eval(y)
    z = Float(a)
    dr.scatter_add(z, Float(1), UInt(1, 1, 1))
    assert y[0] == 1 and z[1] == 4
    gradient = Float(a)
    v = Float(1, 2, 3, 4, 5, 6)
    dr.enable_grad(v)
    dr.set_grad(v, gradient)
    del gradient
    dr.backward(dr.gather(Float, v, UInt(0, 0)))
    assert v.grad[0] == 2
    np.testing.assert_array_equal(a, np.arange(6))


def test_memory_that_cannot_be_shared_is_copied():
    a = np.arange(8, dtype=np.float32)
    read_only = a.copy()
    read_only.flags.writeable = False
    x = Float(read_only)
    x[0] = 9
    dr.scatter(x, Float(8), UInt(1))
    assert list(x[0:3]) == [9, 8, 2] and list(read_only[:2]) == [0, 1]
    for source in ((a[:4] * 2).astype(">f4"), np.arange(0.0, 8.0, 2.0), a[::2]):
        y = Float(source)
        source[0] = 77
        assert list(y) == [0, 2, 4, 6]


def test_unaligned_memory_is_shared_as_well(tier):
    raw = np.zeros(4 * 20 + 1, np.uint8)
    a = raw[1:].view(np.float32)
    x = Float(a)
    for value in (3, 4):
        a[19] = value
        assert (x + 1)[19] == value + 1 and x[19] == value


def test_other_sources_are_shared_as_well():
    a = np.zeros(3, np.float32)
    x, y = Float(a.data), Array3f(np.zeros((3, 4), np.float32))
    a[1] = 5
    assert (x + 1)[1] == 6
    dr.scatter(x, Float(2), UInt(0))
    dr.eval(x)
    dr.sync_thread()
    assert a[0] == 2 and dr.all(y == 0, axis=None)
    b = np.zeros((3, 4), np.float32)
    y = Array3f(b)
    b[2, 3] = 7
    assert y.z[3] == 7 and (y + 1).z[3] == 8


@pytest.mark.parametrize("place", PLACES)
def test_a_frozen_function_reads_what_numpy_wrote_last(place, tier):
    a = ending_at(np.zeros(5, np.float32), place)
    f, x = dr.freeze(lambda x: x * 2 + 1), Float(a)
    for value in range(6):
        a[4] = value
        assert f(x)[4] == 2 * value + 1


def test_reading_is_in_order_with_writes_of_queued_kernels(tier):
    a = ending_at(np.zeros(40_000, np.float32), _AT_END)
    x, index = Float(a), dr.arange(UInt, 40_000)
    for k in range(5):
        more = x + 1
        dr.eval(more)
        dr.scatter(x, more, index)
        y = x * 2
        dr.eval(y)
        assert y[39_999] == 2 * (k + 1) == 2 * a[39_999]


def test_numbers_without_axes_are_copied():
    a = np.array(3, np.float32)
    x = ad.Float(a)
    a[()] = 4
    assert list(x) == [3]

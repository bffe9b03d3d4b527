"""Local memory against a NumPy array with a row for each lane."""

from dataclasses import dataclass

import numpy as np
import pytest
from helpers import entries, named

import drjit as dr
from drjit import scalar
from drjit.llvm.ad import (
    Array3f,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    Matrix2f,
    TensorXf,
    UInt,
    UInt8,
)

pytestmark = pytest.mark.usefixtures("tier")
SIZES = [0, 1, 15, 17, 1000]


@dataclass
class Point:
    position: Array3f
    hits: UInt


def contents(local, n):
    found = entries([local[k] for k in range(len(local))])
    return np.stack([np.broadcast_to(a, n) for a in found])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("size", [1, 2, 5, 8, 33])
@pytest.mark.compiled_every(7)
def test_reads_and_writes(n, size):
    rng = np.random.default_rng(n + size)
    fixed = np.random.default_rng(size)  # the same for any number of lanes, as kernels know them
    local, model = dr.alloc_local(Float, size), np.zeros((size, n), np.float32)
    lanes = np.arange(n)
    for _ in range(4):
        index, value = rng.integers(0, size, n), rng.normal(size=n).astype(np.float32)
        active = rng.integers(0, 2, n).astype(bool)
        local.write(Float(value), UInt(index), Bool(active))
        model[index[active], lanes[active]] = value[active]
        at = int(fixed.integers(0, size))
        local[at] = local[at] + 1
        model[at] += 1
        found = local.read(UInt(rng_index := rng.integers(0, size, n)), Bool(active))
        np.testing.assert_array_equal(found.numpy(), np.where(active, model[rng_index, lanes], 0))
    np.testing.assert_array_equal(contents(local, n), model)


def test_initial_value_and_copies():
    local = dr.alloc_local(UInt, 3, UInt(7, 8))
    other = dr.Local(local)
    local[1] = 5
    other[UInt(0, 2)] = UInt(1)
    assert [v.numpy().tolist() for v in (local[0], local[1], local[2])] == [[7, 8], [5, 5], [7, 8]]
    assert other[0].numpy().tolist() == [1, 8] and other[2].numpy().tolist() == [7, 1]
    assert dr.alloc_local(Float, 2)[0] == 0
    value = local[0]
    value += 1
    assert local[0].numpy().tolist() == [7, 8]
    assert (len(local), repr(local)) == (3, named("Local[drjit.llvm.ad.UInt, 3]"))
    assert [len(v) for v in local] == [2, 2, 2]
    assert type(local).__module__ == "drjit" and dr.Local is type(local)


@pytest.mark.parametrize("index", [Int(1, 0), Int64(1, 0), UInt(1, 0), [1, 0]])
def test_types_of_an_index(index):
    local = dr.alloc_local(Float, 2)
    local[index] = 3
    assert [local[k].numpy().tolist() for k in range(2)] == [[0, 3], [3, 0]]


def test_trees():
    local = dr.alloc_local(Point, 3)
    local[UInt(2, 0)] = Point(Array3f([1, 2], 3, 4), UInt(5, 6))
    found = local[UInt(2, 1)]
    assert type(found) is Point
    assert found.position.numpy().tolist() == [[1, 0], [3, 0], [4, 0]]
    assert found.hits.numpy().tolist() == [5, 0]
    pair = dr.alloc_local(tuple, 2, (Float(1, 2), Matrix2f(1)))
    assert pair[UInt(1, 0)][0].numpy().tolist() == [1, 2]
    vectors = dr.alloc_local(ArrayXf, 2, ArrayXf([1, 2]))
    vectors[UInt(1)] = ArrayXf([3, 4])
    assert vectors[1].numpy().tolist() == [[3], [4]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_as_the_state_of_a_loop(mode):
    n, size = 17, 4
    lane = dr.arange(UInt, n)

    def body(i, local):
        local[(i + lane) % size] = local[i % size] + i
        return i + 1, local

    _, local = dr.while_loop(
        (UInt(0), dr.alloc_local(UInt, size)), lambda i, local: i < lane % 7, body, mode=mode
    )
    model = np.zeros((size, n), int)
    for k in range(n):
        for j in range(k % 7):
            model[(j + k) % size, k] = model[j % size, k] + j
    np.testing.assert_array_equal(contents(local, n), model)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_as_the_argument_of_functions(mode):
    def first(local, x):
        local[0] = x
        return local

    def second(local, x):
        local.write(2 * x, UInt(x) % 2)
        return local

    before = dr.alloc_local(Float, 2)
    after = dr.switch(UInt(0, 1, 1), [first, second], before, Float(1, 2, 3), mode=mode)
    assert isinstance(after, dr.Local)
    np.testing.assert_array_equal(contents(after, 3), [[1, 4, 0], [0, 0, 6]])
    np.testing.assert_array_equal(contents(before, 1), [[0], [0]])


def test_in_a_branch():
    def write(local):
        local[UInt(0)] = Float(1)
        return local

    local = dr.if_stmt((dr.alloc_local(Float, 2),), Bool(True, False), write, lambda local: local)
    np.testing.assert_array_equal(contents(local, 2), [[1, 0], [0, 0]])


def test_evaluation():
    local = dr.alloc_local(Float, 2, Float(1, 2) + 1)
    dr.eval(local)
    assert local[0].state is dr.VarState.Evaluated
    local[UInt(1, 0)] = 7
    assert local[UInt(0, 0)].numpy().tolist() == [2, 7]


def test_derivatives():
    x, y = Float64(2, 3, 5), Float64(1, 2, 3)
    dr.enable_grad(x, y)
    local = dr.alloc_local(Float64, 3, y * y)
    local[UInt(0, 1, 1)] = x * x
    result = local[UInt(0, 1, 2)] * local[UInt(2, 1, 1)]
    dr.backward(result)
    # Lane 0: x^2 y^2. Lane 1: x^4. Lane 2: y^2 x^2.
    np.testing.assert_allclose(x.grad.numpy(), [4, 4 * 27, 9 * 10])
    np.testing.assert_allclose(y.grad.numpy(), [8, 0, 6 * 25])


def test_index_out_of_bounds():
    local = dr.alloc_local(Float, 3, Float(1, 2))
    for index in (3, -1):
        with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
            local[index]
        with pytest.raises(IndexError, match=r"dr\.Local\.write\(\): index"):
            local[index] = 1
    with pytest.raises(IndexError, match=r"dr\.Local\.read: index 3 is out of bounds"):
        dr.eval(local[UInt(3, 0)])
        dr.sync_thread()
    with pytest.raises(IndexError, match=r"dr\.Local\.write: index -1 is out of bounds"):
        local[Int(-1, 0)] = 9
        dr.eval(local)
        dr.sync_thread()
    np.testing.assert_array_equal(contents(local, 2), [[1, 9], [1, 2], [1, 2]])
    local[UInt(2, 5)] = 9  # out of bounds, but not active
    with dr.scoped_set_flag(dr.JitFlag.BoundsChecks, False):
        local.write(Float(0), UInt(5), False)
    with pytest.raises(IndexError, match="has no entries"):
        dr.alloc_local(Float, 0)[UInt(0)]


def test_inactive_lanes_may_be_out_of_bounds():
    local = dr.alloc_local(Float, 2, Float(1, 2))
    mask = Bool(True, False)
    assert local.read(UInt(1, 9), mask).numpy().tolist() == [1, 0]
    local.write(Float(5), UInt(1, 9), mask)
    np.testing.assert_array_equal(contents(local, 2), [[1, 2], [5, 2]])
    assert local.read(0, False).numpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((Float, -1), TypeError, "'size' is -1"),
        ((Float, 2.0), TypeError, r"'size' is 2\.0"),
        ((Float, 65537), RuntimeError, "the limit is 65536"),
        (("Float", 1), TypeError, "'dtype' is 'Float'"),
        ((float, 1), TypeError, "not contain any Jit-tracked arrays"),
        ((scalar.Array3f, 1), TypeError, "not contain any Jit-tracked arrays"),
        ((tuple, 1, (1, 2)), TypeError, "not contain any Jit-tracked arrays"),
        ((TensorXf, 1), RuntimeError, "tensors"),
        ((TensorXf, 1, TensorXf([1])), RuntimeError, "tensors"),
        ((ArrayXf, 1), RuntimeError, "dynamic size"),
        ((list, 1), RuntimeError, "dynamic size"),
        ((Float, 1, 1.0), TypeError, r"'value' is of type float; expected drjit\.llvm\.ad\.Float"),
        ((Point, 1, Point(Float(1), UInt(1))), TypeError, "field 'position'"),
    ],
)
def test_what_cannot_be_allocated(arguments, error, message):
    with pytest.raises(error, match=message):
        dr.alloc_local(*arguments)


def test_what_cannot_be_accessed():
    local = dr.alloc_local(Float, 2, Float(1, 2))
    for index in (Float(0, 1), 1.0, "0", None):
        with pytest.raises(TypeError, match="index"):
            local[index]
    with pytest.raises(TypeError, match=r"'active' is of type NoneType"):
        local.read(UInt(0), None)
    with pytest.raises(TypeError, match="a value of type str cannot be stored"):
        local[0] = "1"
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        local[0] = Float(1, 2, 3)
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        local[UInt(0, 1, 1)]
    with pytest.raises(TypeError, match="local memory to copy"):
        dr.Local(Float(1))
    np.testing.assert_array_equal(contents(local, 2), [[1, 2], [1, 2]])


def test_key_of_reorder_threads():
    value = {"a": Float(1, 2)}
    found = dr.reorder_threads(UInt(1, 0), 1, value)
    assert found["a"] is not value["a"] and found["a"].numpy().tolist() == [1, 2]
    for key, argument, error in (
        (1, value, TypeError),
        (Int(1), value, RuntimeError),
        (Float(1), value, RuntimeError),
        (UInt(1), 3, RuntimeError),
    ):
        with pytest.raises(error, match="reorder_threads"):
            dr.reorder_threads(key, 1, argument)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_derivatives_through_a_loop(mode):
    x = Float64(0.5, 1.5, 2.5)
    dr.enable_grad(x)
    lane = dr.arange(UInt, 3)

    def body(i, local):
        local[(i + 1 + lane) % 3] = local[i % 3] * x + local[lane % 3]
        return i + 1, local

    local = dr.alloc_local(Float64, 3, x * x)
    local = dr.while_loop(
        (UInt(0, 0, 0), local), lambda i, local: i < 3, body, mode=mode, max_iterations=3
    )[1]
    dr.backward(local[UInt(2, 0, 1)])

    def model(x, lane):
        rows = [x * x] * 3
        for i in range(3):
            rows[(i + 1 + lane) % 3] = rows[i % 3] * x + rows[lane % 3]
        return rows[(2, 0, 1)[lane]]

    h = 1e-100  # derivatives by a complex step
    expected = [model(v + 1j * h, k).imag / h for k, v in enumerate([0.5, 1.5, 2.5])]
    np.testing.assert_allclose(x.grad.numpy(), expected)


def filled(effect=None):
    """Local memory that a loop of one lane has filled."""
    memory = dr.alloc_local(Float, 4)

    def body(k, memory):
        memory[k] = Float(k)
        if effect is not None:
            dr.scatter_add(effect, Float(1), UInt(0))
        return k + 1, memory

    return dr.while_loop((UInt(0), memory), lambda k, _: k < 4, body)


def test_many_lanes_read_what_a_loop_of_one_lane_has_filled():
    count, memory = filled()
    lane = dr.arange(UInt, 6)
    _, total, _ = dr.while_loop(
        (UInt(0), Float(0), memory),
        lambda k, total, memory: k < 4,
        lambda k, total, memory: (k + 1, total + memory[k] * Float(lane), memory),
    )
    np.testing.assert_array_equal(total, 6 * np.arange(6))
    np.testing.assert_array_equal(memory[lane & 3], [0, 1, 2, 3, 0, 1])
    assert count == 4


def test_a_loop_of_one_lane_does_not_scatter_once_more_for_others():
    target = dr.zeros(Float, 1)
    _, memory = filled(target)
    value = memory[dr.arange(UInt, 6) & 3]
    with pytest.raises(RuntimeError, match="which more lanes read: give the condition"):
        dr.eval(value)
    del value
    assert target == 4


def test_a_loop_whose_local_memory_is_held_is_summed_over():
    lane = dr.arange(UInt, 20)
    memory = dr.alloc_local(UInt, 4)

    def body(k, n, memory):
        memory[k & 3] = lane + k
        return k + 1, n + memory[k & 3], memory

    k, n, memory = dr.while_loop((UInt(0), UInt(0), memory), lambda k, n, memory: k < lane, body)
    lanes = np.arange(20)
    assert dr.sum(n) == (lanes * lanes + lanes * (lanes - 1) // 2).sum()
    np.testing.assert_array_equal(k, lanes)
    assert memory[0][19] == 19 + 16


@pytest.mark.parametrize("count", [1, 3, 9, 20])
@pytest.mark.parametrize("kind", [Bool, UInt8, Int64, Float16, Float, Float64])
@pytest.mark.compiled_every(5)
def test_loops_in_evaluated_mode_keep_memory_of_any_type(kind: type, count: int) -> None:
    for n in (1, 17, 64, 130):
        i = dr.arange(UInt, n)
        memory = dr.alloc_local(kind, count)
        memory[0] = i % 2 == 0 if kind is Bool else kind(i + 1)

        def body(memory, i, k, count=count):
            value = memory[(i + k) % count]
            memory[(i + k * 3) % count] = ~value if kind is Bool else value + kind(2)
            return memory, i, k + 1

        limit = i % 4 + 1 if n > 1 else UInt(3)
        state = memory, i, UInt(0)
        going = lambda m, i, k, limit=limit: k < limit  # noqa: E731
        memory = dr.while_loop(state, going, body, mode="evaluated")[0]
        found = np.array(entries([memory[j] for j in range(count)])) * np.ones(n)
        want = np.zeros((count, n))
        want[0] = np.arange(n) % 2 == 0 if kind is Bool else np.arange(n) + 1
        for lane in range(n):
            for k in range(lane % 4 + 1 if n > 1 else 3):
                value = want[(lane + k) % count, lane]
                want[(lane + k * 3) % count, lane] = 1 - value if kind is Bool else value + 2
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("size", [1, 2, 17])
def test_what_is_the_same_in_all_entries_survives_an_evaluated_loop(tier, size):
    """It is one number in the kernel, and memory for each lane between the iterations."""
    lane = dr.arange(UInt, 15)

    def body(i, memory, copy):
        return i + 1, memory, dr.Local(memory)

    state = UInt(0), dr.alloc_local(UInt, size, value=UInt(3)), dr.alloc_local(UInt, size)
    found = dr.while_loop(state, lambda i, *_: i < lane % 3, body, mode="evaluated")
    for k in range(size):
        np.testing.assert_array_equal(found[1][k] + dr.zeros(UInt, 15), 3)
        np.testing.assert_array_equal(found[2][k], np.where(lane.numpy() % 3 > 0, 3, 0))

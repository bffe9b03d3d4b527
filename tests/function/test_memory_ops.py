"""Gathers, scatters, atomics and layouts: values, sizes, masks, aliasing, order, and errors."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from helpers import DEVICE, launched
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.jit.run import stages
from drjit.llvm import (
    Array2f,
    Array3f,
    Array3u,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    Matrix2f,
    Matrix4f,
    TensorXf,
    TensorXu,
    UInt,
    UInt8,
    UInt64,
)

LEAVES = ("Bool", "Int8", "UInt8", "Int", "UInt", "Int64", "UInt64", "Float16", "Float", "Float64")
SIZES = (1, 15, 17, 1000)
REDUCTIONS = {
    dr.ReduceOp.Add: np.add,
    dr.ReduceOp.Mul: np.multiply,
    dr.ReduceOp.Min: np.minimum,
    dr.ReduceOp.Max: np.maximum,
    dr.ReduceOp.And: np.bitwise_and,
    dr.ReduceOp.Or: np.bitwise_or,
}
every_leaf = pytest.mark.parametrize("cls", LEAVES, indirect=True)


@pytest.fixture
def cls(request):
    return getattr(dr.llvm, request.param)


def numbers(cls, size, seed=0):
    """Small random numbers of the element type, without rounding errors in sums."""
    rng = np.random.default_rng(seed)
    if cls is Bool:
        return rng.random(size) < 0.5
    return rng.integers(0, 20, size).astype(cls(1).numpy().dtype)


def supports(op, cls):
    logical = op in (dr.ReduceOp.And, dr.ReduceOp.Or)
    return cls.Value is not float if logical else cls is not Bool


# ------------------------------------------------------------------------------ gather


@every_leaf
def test_gather_matches_numpy_for_every_size(cls, tier):
    rng = np.random.default_rng(1)
    for size in SIZES:
        source = numbers(cls, size)
        for count in (0, 1, 16, 33):
            index = rng.integers(0, size, count)
            active = rng.random(count) < 0.6
            result = dr.gather(cls, cls(source), UInt(index), Bool(active))
            assert type(result) is cls
            expected = np.where(active, source[index], 0).astype(source.dtype)
            np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("index_type", ["UInt8", "Int8", "UInt", "Int", "UInt64", "Int64"])
def test_every_integer_type_is_an_index(index_type, tier):
    index = getattr(dr.llvm, index_type)([5, 0, 3])
    assert list(dr.gather(Float, dr.arange(Float, 6), index)) == [5, 0, 3]


@pytest.mark.parametrize("index", [[5, 0], (5, 0), np.array([5, 0]), range(5, -1, -5)])
def test_sequences_are_indices(index):
    assert list(dr.gather(Float, dr.arange(Float, 6), index)) == [5, 0]


def test_gather_at_a_number_gives_one_entry():
    assert list(dr.gather(Int, Int(4, 5, 6), 2)) == [6]


@pytest.mark.parametrize(
    "index", [Float(1), True, Bool(True), 1.5, [True], np.array([1.5]), TensorXf([1]), np.int8(1)]
)
def test_numbers_of_other_types_are_converted_to_indices(index, tier):
    assert list(dr.gather(Float, Float(1, 2), index)) == [2]
    target = Float(1, 2)
    dr.scatter(target, 5, index)
    assert list(target) == [1, 5]


@pytest.mark.parametrize("index", ["1", None, [0.5], [UInt(1), 2], [[1], [1, 2]], dr])
def test_other_indices_are_refused(index):
    with pytest.raises(TypeError, match=r"dr\.gather.*index"):
        dr.gather(Float, Float(1, 2), index)


def test_gather_reads_packets(tier):
    source = np.arange(24, dtype=np.float32)
    index = UInt(3, 0, 2)
    np.testing.assert_array_equal(
        dr.gather(Array3f, Float(source), index).numpy(), source.reshape(8, 3)[[3, 0, 2]].T
    )
    np.testing.assert_array_equal(
        dr.gather(Matrix2f, Float(source), index).numpy(),
        np.moveaxis(source.reshape(6, 2, 2)[[3, 0, 2]], 0, -1),
    )
    np.testing.assert_array_equal(
        dr.gather(ArrayXf, Float(source), index, shape=(6, 3)).numpy(),
        source.reshape(4, 6)[[3, 0, 2]].T,
    )
    assert str(dr.gather(Complex2f, Float(source), 1)) == "[2+3j]"
    assert list(dr.gather(Matrix4f, Float(source), 0)[3, 3]) == [15]


@every_leaf
def test_packets_of_every_type(cls, tier):
    source = numbers(cls, 60)
    array3 = getattr(dr.llvm, f"Array3{dr.array.meta.SUFFIX[cls._dtype]}")
    index = np.array([7, 0, 19, 3])
    got = dr.gather(array3, cls(source), UInt(index), Bool(True, True, False, True)).numpy()
    expected = source.reshape(20, 3)[index].T.copy()
    expected[:, 2] = 0
    np.testing.assert_array_equal(got, expected)
    target = cls(np.zeros(60, source.dtype))
    dr.scatter(target, array3(*source[:12].reshape(3, 4)), UInt(index))
    back = np.zeros((20, 3), source.dtype)
    back[index] = source[:12].reshape(3, 4).T
    np.testing.assert_array_equal(target.numpy(), back.ravel())


@pytest.mark.parametrize("size", [7, 8])
def test_records_that_do_not_fill_the_source(size, tier):
    source = dr.arange(Float, size)
    assert dr.gather(Array3f, source, UInt(1)).numpy().ravel().tolist() == [3, 4, 5]
    with pytest.raises(IndexError, match="holds 2 packets of 3 entries"):
        dr.eval(dr.gather(Array3f, source, dr.opaque(UInt, 2)))
        dr.sync_thread()


def test_multiples_of_an_index_do_not_wrap(tier):
    """Three times this index is 2 in 32 bits."""
    source = dr.arange(Float, 7)
    with pytest.raises(IndexError):
        dr.gather(Array3f, source, dr.opaque(UInt, 1431655766)).numpy()
    assert list(dr.gather(Array3f, dr.arange(Float, 304), UInt8(100)).z) == [302]


def test_nested_sources_are_read_by_component(tier):
    source = Array3f([1, 2], [3, 4], 5)
    assert dr.gather(Array3f, source, UInt(1, 0)).numpy().tolist() == [[2, 1], [4, 3], [5, 5]]
    by_component = dr.gather(Array3f, source, Array3u(1, 0, 0))
    assert by_component.numpy().ravel().tolist() == [2, 3, 5]


def test_trees_and_tensors_are_read():
    @dataclass
    class Pair:
        a: Float
        b: Int

    pair = dr.gather(Pair, Pair(Float(1, 2), Int(3, 4)), UInt(1))
    assert (list(pair.a), list(pair.b)) == ([2], [4])
    assert [list(v) for v in dr.gather(list, [Float(1, 2), Int(3, 4)], 0)] == [[1], [3]]
    assert list(dr.gather(dict, {"x": Float(1, 2)}, 1)["x"]) == [2]
    tensor = TensorXf(np.arange(6).reshape(2, 3))
    assert list(dr.gather(Float, tensor, UInt(5))) == [5]
    assert dr.gather(TensorXf, tensor, TensorXu([[0, 4]])).numpy().tolist() == [[0, 4]]


@every_leaf
def test_one_entry_and_constants_are_read_by_every_index(cls, tier):
    index, active = UInt(0, 9, 5), Bool(True, False, True)
    one = cls(numbers(cls, 1, seed=3))
    value = one.numpy().item()
    evaluated = cls(one)
    dr.make_opaque(evaluated)
    computed = evaluated & True if cls is Bool else evaluated + 0
    for source in (one, evaluated, computed, dr.full(cls, value, 7), cls(value)):
        assert dr.gather(cls, source, index).numpy().tolist() == [value] * 3
        assert dr.gather(cls, source, 100).numpy().tolist() == [value]
        got = dr.gather(cls, source, index, active)
        assert got.numpy().tolist() == [value, 0, value]
        assert len(dr.gather(cls, source, UInt())) == 0
    array3 = getattr(dr.llvm, f"Array3{dr.array.meta.SUFFIX[cls._dtype]}")
    got = dr.gather(array3, evaluated, index, active).numpy()
    np.testing.assert_array_equal(got, np.array([[value, 0, value]] * 3))


def test_components_and_leaves_of_one_entry_are_read_by_every_index(tier):
    got = dr.gather(Array2f, Array2f(Float(1, 2, 3), 7), UInt(2, 0, 2))
    np.testing.assert_array_equal(got.numpy(), [[3, 1, 3], [7, 7, 7]])
    got = dr.gather(dict, {"a": Float(1, 2, 3), "b": Float([4])}, UInt(2, 0))
    assert list(got["a"]) == [3, 1] and list(got["b"]) == [4, 4]
    packet = dr.gather(Array2f, Float([4]), UInt(2, 0))
    packet.x += 1  # the components are arrays of their own
    np.testing.assert_array_equal(packet.numpy(), [[5, 5], [4, 4]])
    source = dr.scalar.ArrayXf(7)
    assert list(dr.gather(dr.scalar.ArrayXf, source, [0, 5], [True, False])) == [7, 0]
    assert list(dr.gather(dr.scalar.Array2f, source, 3)) == [7, 7]


@pytest.mark.parametrize("symbolic", [True, False])
def test_one_entry_is_read_in_loops(symbolic, tier):
    source = dr.opaque(Float, 3)
    mode = "symbolic" if symbolic else "evaluated"
    _, total = dr.while_loop(
        (UInt(0, 1, 2), dr.zeros(Float, 3)),
        lambda i, total: i < 4,
        lambda i, total: (i + 1, total + dr.gather(Float, source, i)),
        mode=mode,
    )
    assert list(total) == [12, 9, 6]


@pytest.mark.parametrize("packet", [False, True])
def test_a_recording_knows_one_entry_from_several(packet, tier):
    cls = Array2f if packet else Float
    count = 2 if packet else 1
    frozen = dr.freeze(lambda x, i: dr.gather(cls, x, i))
    for n in (1, 4, 1, 2, 8):
        x, i = dr.arange(Float, n) + 10, UInt(0, max(n // count - 1, 0), 0)
        dr.make_opaque(x, i)
        entries = np.broadcast_to(x.numpy(), max(n, count)).reshape(-1, count)
        got = np.atleast_2d(frozen(x, i).numpy()).T
        np.testing.assert_array_equal(got, entries[i.numpy()])
    assert frozen.n_recordings <= 3


@pytest.mark.parametrize("packet", [False, True])
def test_the_gradient_of_one_entry_comes_from_all_lanes(packet, tier):
    weights = dr.llvm.ad.Float(1, 2, 3)
    index, active = dr.llvm.ad.UInt(0, 5, 2), dr.llvm.ad.Bool(True, False, True)
    cls = dr.llvm.ad.Array3f if packet else dr.llvm.ad.Float
    source = dr.llvm.ad.Float([7])
    dr.enable_grad(source)
    got = dr.gather(cls, source, index, active)
    dr.backward(got * weights)
    assert list(source.grad) == [12 if packet else 4]
    dr.clear_grad(source)
    got = dr.gather(cls, source, index, active)
    dr.set_grad(source, 2)
    dr.forward_to(got)
    want = [2, 0, 2]
    np.testing.assert_array_equal(dr.grad(got).numpy(), [want] * 3 if packet else want)


def test_gather_of_scalar_arrays():
    source = dr.scalar.ArrayXf(1, 2, 3, 4)
    assert list(dr.gather(dr.scalar.ArrayXf, source, [3, 0])) == [4, 1]
    assert list(dr.gather(dr.scalar.Array2f, source, 1)) == [3, 4]
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        dr.gather(dr.scalar.ArrayXf, source, 4)


def test_gather_refuses_types_that_do_not_go_together():
    with pytest.raises(TypeError, match=r"drjit\.llvm\.Int.*drjit\.llvm\.Float"):
        dr.gather(Int, Float(1, 2), UInt(0))
    with pytest.raises(TypeError, match="'source'"):
        dr.gather(Float, 5, UInt(0))
    for shape in (None, 2, (2,), (2, 3, 4)):
        with pytest.raises(RuntimeError, match="shape"):
            dr.gather(ArrayXf, Float(1, 2), UInt(0), shape=shape)
    with pytest.raises(RuntimeError, match=r"sizes \(?3, 2|3, 2"):
        dr.gather(Float, Float(1, 2, 3), UInt(0, 1, 2), Bool(True, False))


class Falsy:
    def __bool__(self):
        return False


MASKS = [
    (dr.ReduceMode.NoConflicts, [True, True]),
    (dr.ReduceMode.Auto, [True, True]),  # a member with the value 0
    (object(), [True, True]),
    (Falsy(), [False, False]),
    (0.5, [True, True]),
    (0, [False, False]),
    (UInt(1, 0), [True, False]),
    (Int(-1, 0), [True, False]),
    (Float(0, 0.5), [False, True]),
    (TensorXf([1, 0]), [True, False]),
    (np.array([0, 3]), [False, True]),
    ((True, False), [True, False]),
    (dr.scalar.ArrayXb(True, False), [True, False]),
]


@pytest.mark.parametrize(("active", "want"), MASKS, ids=range(len(MASKS)))
def test_what_an_active_argument_may_be(active, want, tier):
    index = UInt(0, 1)
    assert list(dr.gather(Float, Float(5, 6, 7), index, active)) == [
        v * on for v, on in zip((5, 6), want, strict=True)
    ]
    written = [9 if on else v for v, on in zip((5, 6), want, strict=True)]
    target = Float(5, 6)
    dr.scatter(target, 9, index, active)
    assert list(target) == written
    target = Float(5, 6)
    dr.scatter_exch(target, 9, index, active)
    assert list(target) == written
    target = Float(0, 0)
    dr.scatter_add(target, 1, index, active)
    assert list(target) == want
    target = UInt(0, 0)
    dr.scatter_inc(target, index, active)
    assert list(target) == want


@pytest.mark.parametrize("active", [None, "yes", [1, 0], {"a": 1}, Array2f(1, 0)])
def test_what_an_active_argument_may_not_be(active):
    target, index = UInt(1, 2), UInt(0, 1)
    for call in (
        lambda: dr.gather(UInt, target, index, active),
        lambda: dr.scatter(target, 5, index, active),
        lambda: dr.scatter_reduce(dr.ReduceOp.Max, target, 5, index, active),
        lambda: dr.scatter_inc(target, index, active),
        lambda: dr.scatter_cas(target, 1, 5, index, active),
    ):
        with pytest.raises(TypeError, match="'active' is of type"):
            call()
    assert list(target) == [1, 2]
    if active is None:
        with pytest.raises(TypeError, match="'active' is of type"):
            dr.gather(dr.scalar.ArrayXf, dr.scalar.ArrayXf(1), 0, active)


# ------------------------------------------------------------------------------ bounds


@pytest.mark.parametrize("index", [-1, 3, 1 << 31, 1 << 40, -(1 << 40)])
def test_constant_indices_are_checked_at_once(index):
    target = Float(1, 2, 3)
    for access in (
        lambda: dr.gather(Float, target, index),
        lambda: dr.scatter(target, 5, index),
        lambda: dr.scatter_add(target, 5, index),
        lambda: dr.scatter_exch(target, 5, index),
    ):
        with pytest.raises(
            IndexError, match=f"index {index} is out of bounds for an array of size 3"
        ):
            access()
    assert list(target) == [1, 2, 3]


@pytest.mark.parametrize("index_type", [Int, UInt, Int64, UInt64])
def test_out_of_bounds_names_the_line_and_harms_nothing(index_type, tier):
    bad = -1 if index_type in (Int, Int64) else 7
    index = index_type([0, bad, 2])
    source = Float(1, 2, 3)
    gathered = dr.gather(Float, source, index)  # this very line
    with pytest.raises(IndexError) as caught:
        dr.eval(gathered)
        dr.sync_thread()
    message = str(caught.value)
    assert re.search(
        rf"dr\.gather: index {bad} .* size 3 .*lane 1.*{re.escape(__file__)}:\d+", message
    )
    assert list(gathered) == [1, 0, 3]
    target = Float(1, 2, 3)
    dr.scatter(target, Float(10, 20, 30), index)
    with pytest.raises(IndexError, match=r"dr\.scatter"):
        dr.eval()
        dr.sync_thread()
    assert list(target) == [10, 2, 30]
    assert list(source) == [1, 2, 3]


def test_indices_of_inactive_lanes_may_be_anything(tier):
    index, active = UInt(0, 100), Bool(True, False)
    assert list(dr.gather(Float, Float(1, 2), index, active)) == [1, 0]
    target = Float(1, 2)
    dr.scatter(target, 9, index, active)
    assert list(target) == [9, 2]


def test_empty_arrays():
    empty = Float()
    assert len(dr.gather(Float, empty, UInt())) == 0
    assert len(dr.gather(Array3f, Float(1, 2, 3), UInt()).x) == 0
    with pytest.raises(IndexError, match="size 0"):
        dr.gather(Float, empty, 0)
    dr.scatter(empty, 1, UInt())
    dr.scatter_add(empty, Float(), UInt())
    target = Float(1, 2)
    dr.scatter(target, Float(), UInt())
    assert list(target) == [1, 2]
    assert len(dr.scatter_inc(UInt(0), UInt())) == 0


# ------------------------------------------------------------------------------ scatter


@every_leaf
def test_scatter_matches_numpy(cls, tier):
    rng = np.random.default_rng(2)
    for size in SIZES:
        before, values = numbers(cls, size), numbers(cls, size, 1)
        index = rng.permutation(size)
        active = rng.random(size) < 0.6
        target = cls(before.copy())
        dr.scatter(target, cls(values), UInt(index), Bool(active))
        expected = before.copy()
        expected[index[active]] = values[active]
        np.testing.assert_array_equal(target.numpy(), expected)


@pytest.mark.parametrize("op", REDUCTIONS)
@every_leaf
@pytest.mark.compiled_every(4)
def test_scatter_reduce_matches_numpy(op, cls, tier):
    if not supports(op, cls):
        with pytest.raises(RuntimeError, match="not defined"):
            dr.scatter_reduce(op, cls(1), cls(1), 0)
        return
    rng = np.random.default_rng(3)
    for size in (1, 17, 1000):
        before = numbers(cls, 16)
        values = np.ones(size, before.dtype) if op is dr.ReduceOp.Mul else numbers(cls, size, 1)
        index = rng.integers(0, 16, size)
        active = rng.random(size) < 0.6
        target = cls(before.copy())
        dr.scatter_reduce(op, target, cls(values), UInt(index), Bool(active))
        expected = before.astype(np.float64) if cls is Float16 else before.copy()
        REDUCTIONS[op].at(expected, index[active], values[active])
        np.testing.assert_array_equal(target.numpy(), expected.astype(before.dtype))


@pytest.mark.parametrize("mode", ["Auto", "Direct", "Local", "Expand"])
@pytest.mark.parametrize("op", [dr.ReduceOp.Min, dr.ReduceOp.Max])
@pytest.mark.parametrize("cls", [Float16, Float, Float64])
def test_nan_in_memory_gives_way_to_numbers(cls, op, mode, tier):
    nan, function = np.nan, np.fmin if op is dr.ReduceOp.Min else np.fmax
    before = np.array([nan, 1, nan, 1, nan, nan], cls(0).numpy().dtype)
    target = cls(before)
    index = np.tile([0, 1, 2, 3, 5], 60)
    values = np.tile(np.array([2, nan, nan, 2, 3], before.dtype), 60)
    active = np.ones(300, bool)
    active[4::5] = False
    values[150:155] = -np.inf, nan, nan, np.inf, 1
    dr.scatter_reduce(op, target, cls(values), UInt(index), Bool(active), mode=dr.ReduceMode[mode])
    expected = before.copy()
    function.at(expected, index[active], values[active])
    np.testing.assert_array_equal(target.numpy(), expected)


@pytest.mark.parametrize("mode", ["Auto", "Direct", "Local", "Expand"])
def test_modes_agree(mode, tier):
    target = dr.zeros(Float, 3)
    index = dr.arange(UInt, 1000) % 3
    dr.scatter_add(target, dr.arange(Float, 1000), index, mode=dr.ReduceMode[mode])
    values = np.arange(1000)
    assert list(target) == [values[k::3].sum() for k in range(3)]


def test_no_conflicts_mode(tier):
    target = Float(1, 2, 3)
    dr.scatter_add(target, Float(10, 20), UInt(2, 0), mode=dr.ReduceMode.NoConflicts)
    assert list(target) == [21, 2, 13]
    with pytest.raises(RuntimeError, match="NoConflicts"):
        dr.scatter_add(target, 1, 0, mode=dr.ReduceMode.Permute)


def test_values_are_converted_and_spread(tier):
    target = Float(1, 2, 3)
    dr.scatter(target, Int(7), UInt(0))
    dr.scatter(target, Float64(8, 9), UInt(1, 2))
    assert list(target) == [7, 8, 9]
    whole = Int(1, 2, 3)
    dr.scatter(whole, 8.7, UInt(1, 2))
    assert list(whole) == [1, 8, 8]
    nested = Array3f([1, 2], [3, 4], 5)
    dr.scatter(nested, Array3f(7, 8, 9), UInt(1))
    assert nested.numpy().tolist() == [[1, 7], [3, 8], [5, 9]]
    dr.scatter(nested, 0, UInt(0))
    assert nested.numpy().tolist() == [[0, 7], [0, 8], [0, 9]]
    dr.scatter_add(nested, Array3f(1, 2, 3), UInt(1, 1))
    assert nested.numpy().tolist() == [[0, 9], [0, 12], [0, 15]]
    tensor = TensorXf(np.zeros((2, 3)))
    dr.scatter(tensor, TensorXf([5, 6]), TensorXu([4, 0]))
    assert tensor.numpy().tolist() == [[6, 0, 0], [0, 5, 0]]
    scalars = dr.scalar.ArrayXf(1, 2, 3, 4)
    dr.scatter(scalars, dr.scalar.Array2f(5, 6), 1)
    dr.scatter_add(scalars, 1, [0, 0])
    assert list(scalars) == [3, 2, 5, 6]


def test_trees_are_written():
    tree = {"a": [Float(1, 2)], "b": Int(3, 4)}
    dr.scatter(tree, {"a": [Float(9)], "b": 8}, UInt(1))
    assert list(tree["a"][0]) == [1, 9] and list(tree["b"]) == [3, 8]
    with pytest.raises(TypeError, match="different lengths"):
        dr.scatter([Float(1)], [Float(1), Float(2)], 0)


class NeedsArguments:
    DRJIT_STRUCT = {"x": Float, "y": Float}  # noqa: RUF012

    def __init__(self, x, y):
        self.x, self.y = x, y


def test_structures_are_written_in_place(tier):
    target = NeedsArguments(Float(1, 2, 3), Float(4, 5, 6))
    x = target.x
    dr.scatter(target, NeedsArguments(Float(9), 8), UInt(1))
    assert target.x is x
    assert list(target.x) == [1, 9, 3] and list(target.y) == [4, 8, 6]
    dr.scatter_add(target, NeedsArguments(1, Float(2)), UInt(0, 0))
    assert list(target.x) == [3, 9, 3] and list(target.y) == [8, 8, 6]


@pytest.mark.parametrize("value", ["a", {}, None, b"a"])
def test_what_cannot_be_written_is_an_error_of_either_kind(value):
    x, y = Float(1, 2), Float(3, 4)
    for error in (TypeError, RuntimeError):
        with pytest.raises(error, match=r"cannot go into a drjit\..*Float"):
            dr.scatter((x, y), (5, value), UInt(0))
    assert list(y) == [3, 4]


def test_sequences_are_written_where_a_tree_has_arrays(tier):
    target = (Float(1, 2, 3), {"a": Int(4, 5, 6)})
    dr.scatter(target, (1, {"a": [2, 3]}), UInt(1, 2))
    assert list(target[0]) == [1, 1, 1] and list(target[1]["a"]) == [4, 2, 3]
    dr.scatter_add(target, (np.array([1, 2]), {"a": (7, 8)}), UInt(1, 2))
    assert list(target[0]) == [1, 2, 3] and list(target[1]["a"]) == [4, 9, 11]
    for value in (5, [1, {"a": 2}], (1,), (1, {"b": 2})):
        with pytest.raises((TypeError, RuntimeError), match=r"dr\.scatter"):
            dr.scatter(target, value, UInt(0))
    assert list(target[0]) == [1, 2, 3] and list(target[1]["a"]) == [4, 9, 11]


def test_scatter_refuses_what_cannot_be_written():
    target = Float(1, 2, 3)
    for value in (None, "x", {}, object()):
        with pytest.raises(TypeError):
            dr.scatter(target, value, 0)
    with pytest.raises(TypeError, match="target"):
        dr.scatter(5, 1, 0)
    with pytest.raises(RuntimeError, match="2, 3"):
        dr.scatter(target, Float(1, 2), UInt(0, 1, 2))
    assert list(target) == [1, 2, 3]


def test_a_failing_component_leaves_all_components_alone():
    target = Array3f([1, 2], [3, 4], [5, 6])
    with pytest.raises(IndexError):
        dr.scatter(target, 0, Array3u(0, 1, 2))
    assert target.numpy().tolist() == [[1, 2], [3, 4], [5, 6]]


# ------------------------------------------------------------------------------ aliasing and order


def test_arrays_that_share_memory_change_separately(tier):
    a = Float(1, 2, 3)
    b = Float(a)
    c = dr.copy([a])[0]
    dr.scatter(a, 9, UInt(1))
    assert (list(a), list(b), list(c)) == ([1, 9, 3], [1, 2, 3], [1, 2, 3])


def test_two_names_of_one_array_change_together():
    a = Float(1, 2, 3)
    b = a
    dr.scatter(a, 9, UInt(1))
    assert list(b) == [1, 9, 3]


def test_numpy_views_keep_the_old_values(tier):
    a = Float(1, 2, 3)
    view = a.numpy()
    dr.scatter(a, 9, UInt(1))
    assert view.tolist() == [1, 2, 3] and list(a) == [1, 9, 3]


def test_unevaluated_values_see_what_was_there_before(tier):
    a = Float(1, 2, 3)
    before = a + 1
    gathered = dr.gather(Float, a, UInt(1))
    dr.scatter(a, 9, UInt(1))
    after = a + 1
    assert list(before) == [2, 3, 4]
    assert list(gathered) == [2]
    assert list(after) == [2, 10, 4]


def test_scatter_from_the_target_itself(tier):
    a = Float(1, 2, 3, 4)
    dr.scatter(a, a, UInt(3, 2, 1, 0))
    assert list(a) == [4, 3, 2, 1]
    dr.scatter(a, a * 2, dr.gather(UInt, UInt(1, 2, 3, 0), dr.arange(UInt, 4)))
    assert list(a) == [2, 8, 6, 4]


def test_pending_scatters_run_in_order(tier):
    a = dr.zeros(Float, 4)
    dr.scatter(a, 1, UInt(0, 1, 2))
    dr.scatter(a, 2, UInt(1, 2))
    dr.scatter_add(a, 10, UInt(2, 2))
    dr.scatter(a, 5, UInt(0))
    read = dr.gather(Float, a, UInt(2, 0))
    dr.scatter_add(a, 1, UInt(2))
    dr.eval(read, a)
    assert list(read) == [22, 5]
    assert list(a) == [5, 2, 23, 0]


def test_scatter_within_a_function_of_many_targets(tier):
    targets = [dr.zeros(Float, 17) for _ in range(4)]
    for k, t in enumerate(targets):
        dr.scatter(t, dr.arange(Float, 17) * k, dr.arange(UInt, 17))
    dr.eval()
    for k, t in enumerate(targets):
        np.testing.assert_array_equal(t.numpy(), np.arange(17) * k)


# ------------------------------------------------------------------------------ atomics


@pytest.mark.parametrize("name", ["UInt", "Int", "UInt64", "Int64"])
def test_increments_give_distinct_positions(name, tier):
    counter = getattr(dr.llvm, name)([5, 0])
    old = dr.scatter_inc(counter, dr.zeros(UInt, 1000), dr.arange(UInt, 1000) % 2 == 0)
    dr.eval(old, counter)
    got = old.numpy()
    assert sorted(got[::2]) == list(range(5, 505))
    assert (got[1::2] == 0).all()
    assert list(counter) == [505, 0]


@pytest.mark.parametrize("name", [n for n in LEAVES if n != "Bool"])
def test_exchange(name, tier):
    kind = getattr(dr.llvm, name)
    target = kind([1, 2, 3])
    old = dr.scatter_exch(target, kind([7, 8]), UInt(2, 0), Bool(True, False))
    assert list(old) == [3, 0] and list(target) == [1, 2, 7]


@pytest.mark.parametrize("name", ["UInt", "Int64", "Float", "Float64"])
def test_compare_and_swap(name, tier):
    kind = getattr(dr.llvm, name)
    target = kind([1, 2, 3])
    old, swapped = dr.scatter_cas(
        target, kind([2, 9, 1]), kind([7, 8, 9]), UInt(1, 2, 0), Bool(True, True, False)
    )
    assert list(old) == [2, 3, 0] and list(swapped) == [True, False, False]
    assert list(target) == [1, 7, 3]


def test_atomics_refuse_other_targets():
    for call in (
        lambda: dr.scatter_inc(Float(0), 0),
        lambda: dr.scatter_inc(5, 0),
        lambda: dr.scatter_exch(Array2f(1, 2), 1, 0),
        lambda: dr.scatter_cas(TensorXf([1]), 1, 2, 0),
    ):
        with pytest.raises(RuntimeError, match="target"):
            call()
    with pytest.raises(TypeError, match="2 components"):
        dr.scatter_exch(Float(1), Array2f(1, 2), 0)


# ------------------------------------------------------------------------------ layouts


@pytest.mark.parametrize("width", [0, 1, 17])
def test_ravel_and_unravel_are_inverse(width, tier):
    values = np.arange(3 * width, dtype=np.float32).reshape(3, width)
    array = Array3f(values) if width else Array3f()
    for order in "ACF":
        flat = dr.ravel(array, order)
        np.testing.assert_array_equal(
            flat.numpy(), values.ravel(order="C" if order == "C" else "F")
        )
        np.testing.assert_array_equal(dr.unravel(Array3f, flat, order).numpy(), values)


def test_layout_of_matrices(tier):
    matrix = Matrix2f([1, 5], [2, 6], [3, 7], [4, 8])
    assert list(dr.ravel(matrix)) == [1, 3, 2, 4, 5, 7, 6, 8]
    assert list(dr.ravel(matrix, "C")) == [1, 5, 2, 6, 3, 7, 4, 8]
    for order in "ACF":
        np.testing.assert_array_equal(
            dr.unravel(Matrix2f, dr.ravel(matrix, order), order).numpy(), matrix.numpy()
        )


def test_ravel_of_other_things():
    assert list(dr.ravel(Array3f([1, 2], 3, 4))) == [1, 3, 4, 2, 3, 4]
    assert list(dr.ravel(dr.scalar.Matrix2f(1, 2, 3, 4))) == [1, 3, 2, 4]
    assert list(dr.ravel([[1, 2], [3, 4]])) == [1, 3, 2, 4]
    assert dr.ravel(5) == 5
    assert list(dr.ravel(TensorXf([[1, 2], [3, 4]]))) == [1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="ragged"):
        dr.ravel(Array3f([1, 2], [1, 2, 3], 1))
    with pytest.raises(RuntimeError, match="order"):
        dr.ravel(Array3f(1), "X")
    with pytest.raises(RuntimeError, match="3 entries are not divisible among 2"):
        dr.unravel(Array2f, Float(1, 2, 3))
    with pytest.raises(TypeError):
        dr.unravel(TensorXf, Float(1))


def test_slice():
    assert dr.slice(Float(5, 6, 7), 1) == 6.0
    assert type(dr.slice(Array3f([1, 2], 3, 4), 1)) is dr.scalar.Array3f
    assert list(dr.slice(Array3f([1, 2], 3, 4), 1)) == [2, 3, 4]
    assert dr.slice(Array3f([1, 2], 3, 4), UInt(1, 1)).numpy().tolist() == [[2, 2], [3, 3], [4, 4]]
    assert dr.slice((Float(1, 2), 5, "x"), 1) == (2.0, 5, "x")
    for index in ([1, 0], (1, 0), np.array([1, 0])):
        assert list(dr.slice(Float(1, 2, 3), index)) == [2, 1]
        tree = dr.slice({"a": Array2f([1, 2], [3, 4])}, index)
        assert tree["a"].numpy().tolist() == [[2, 1], [4, 3]]
        assert list(dr.slice(dr.scalar.ArrayXf(1, 2), index)) == [2, 1]
    # What has no lanes stays as it is.
    for value in (TensorXf([[1, 2], [3, 4]]), dr.scalar.Array3f(1, 2, 3), 5):
        assert dr.slice(value, 1) is value and dr.slice(value, UInt(1, 0)) is value
    with pytest.raises(IndexError):
        dr.slice(Float(1, 2), 2)


@pytest.mark.parametrize("size", [0, 1, 15, 17, 1000, 50_000])
def test_compress(size, tier):
    mask = np.random.default_rng(4).random(size) < 0.3
    found = dr.compress(Bool(mask))
    assert type(found) is UInt
    np.testing.assert_array_equal(found.numpy(), np.flatnonzero(mask))


def test_compress_of_constants_and_other_things():
    assert list(dr.compress(dr.full(Bool, True, 3))) == [0, 1, 2]
    assert len(dr.compress(dr.full(Bool, False, 3))) == 0
    assert list(dr.compress(dr.scalar.ArrayXb(True, False, True))) == [0, 2]
    with pytest.raises(RuntimeError, match="one-dimensional mask"):
        dr.compress(Float(1))


def test_reinterpret(tier):
    values = np.array([1.5, -0.0, np.inf], np.float32)
    bits = dr.reinterpret_array(UInt, Float(values))
    np.testing.assert_array_equal(bits.numpy(), values.view(np.uint32))
    np.testing.assert_array_equal(dr.reinterpret_array(Float, bits).numpy(), values)
    assert list(dr.reinterpret_array(dr.scalar.Array2u, dr.scalar.Array2f(1, 0))) == [0x3F800000, 0]
    with pytest.raises(RuntimeError, match="size"):
        dr.reinterpret_array(UInt64, Float(1))
    with pytest.raises(RuntimeError, match="shape"):
        dr.reinterpret_array(UInt, Array2f(1))


@pytest.mark.parametrize("size", [0, 1, 2, 15, 16, 17, 1000])
def test_binary_search_matches_searchsorted(size, tier):
    table = np.sort(np.random.default_rng(5).random(size).astype(np.float32))
    wanted = np.random.default_rng(6).random(100).astype(np.float32)
    source, x = Float(table), Float(wanted)
    found = dr.binary_search(UInt(0), UInt(size), lambda i: dr.gather(Float, source, i) < x)
    expected = np.searchsorted(table, wanted)
    np.testing.assert_array_equal(np.broadcast_to(found.numpy(), 100), expected)
    dr.sync_thread()  # no index was out of bounds


def test_binary_search_of_numbers():
    assert dr.binary_search(0, 10, lambda i: i < 5) == 5
    assert dr.binary_search(0, 10, lambda i: True) == 10
    assert dr.binary_search(3, 3, lambda i: True) == 3
    assert list(dr.binary_search(0, 100, lambda i: i < UInt(3, 50))) == [3, 50]


# ------------------------------------------------------------------------------ random programs

STEP = st.tuples(
    st.sampled_from(["scatter", "add", "gather", "copy", "compute", "eval", "scatter_own"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 99),
)


@settings(max_examples=150)
@given(steps=st.lists(STEP, max_size=12), compiled=st.booleans())
def test_random_programs_match_numpy(steps, compiled):
    """Three arrays share memory, are written, read, and computed from one another in any order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drjit.jit.cpu.variants.pinned", "compiled" if compiled else "numpy")
        arrays = [Int([1, 2, 3, 4, 5]) for _ in range(3)]
        models = [np.array([1, 2, 3, 4, 5], np.int32) for _ in range(3)]
        for kind, a, b, number in steps:
            index = np.random.default_rng(number).permutation(5)[:3]
            if kind == "scatter":
                dr.scatter(arrays[a], number, UInt(index))
                models[a] = models[a].copy()
                models[a][index] = number
            elif kind == "add":
                dr.scatter_add(arrays[a], dr.gather(Int, arrays[b], UInt(index)), UInt(index))
                models[a], read = models[a].copy(), models[b][index]
                models[a][index] += read
            elif kind == "gather":
                order = np.random.default_rng(number).permutation(5)
                arrays[a] = dr.gather(Int, arrays[b], UInt(order))
                models[a] = models[b][order]
            elif kind == "copy":
                arrays[a], models[a] = Int(arrays[b]), models[b]
            elif kind == "compute":
                arrays[a] = arrays[a] * 3 + dr.max(arrays[b]) + number
                models[a] = models[a] * np.int32(3) + models[b].max() + np.int32(number)
            elif kind == "eval":
                dr.eval(arrays[a])
            else:
                dr.scatter(arrays[a], arrays[a] + arrays[b], UInt(0, 4, 1, 3, 2))
                values = models[a] + models[b]
                models[a] = values[[0, 2, 4, 3, 1]]
        dr.eval(arrays)
        for array, model in zip(arrays, models, strict=True):
            np.testing.assert_array_equal(array.numpy(), model)


def test_a_target_of_its_own_is_written_in_place(tier):
    """A copy for every scatter would cost a pass over the target."""
    flat, tree = Float(range(100)), [Int(range(100))]
    nested, tensor = Array3f(1, 2, 3) + Float(range(100)), TensorXf(np.ones((10, 10))) + 1
    dr.make_opaque(flat, nested, tensor, tree)
    leaves = [flat, nested.x, nested.y, nested.z, tensor.array, tree[0]]
    before = [v._node.data.address for v in leaves]
    dr.scatter(flat, 1, UInt(1, 2))
    dr.scatter(flat, Array2f(1, 2), UInt(1, 2))
    dr.scatter_add(flat, 1, UInt(3))
    dr.eval(dr.scatter_exch(flat, 1, UInt(3)))
    dr.scatter(nested, Array3f(1, 2, 3), UInt(4))
    dr.scatter(tensor, 5, UInt(3))
    dr.scatter(tree, [5], UInt(3))
    dr.eval(leaves)
    assert [v._node.data.address for v in leaves] == before


@pytest.mark.parametrize("mode", ["Auto", "Direct", "Local", "Expand"])
@pytest.mark.parametrize("cls", [Float16, Float, Float64])
def test_sums_of_negative_zeros_are_negative(cls, mode, tier):
    """With any number of threads, each of which may add to a copy of its own."""
    threads = dr.thread_count()
    dr.set_thread_count(3)
    try:
        for size in (3, 500_000 if DEVICE.on_host else 5000):
            target = cls(np.full(3, -0.0))
            index = dr.arange(UInt, size) % 2
            values, how = dr.opaque(cls, -0.0, size), getattr(dr.ReduceMode, mode)
            dr.scatter_reduce(dr.ReduceOp.Add, target, values, index, mode=how)
            assert np.signbit(target.numpy()).all()
    finally:
        dr.set_thread_count(threads)


def test_errors_name_the_line_of_a_long_function():
    lines = ["def f(a, index):", *["    b = 1"] * 400, "    return ("]
    lines += ["        dr.gather(", "            Float, a, index))"]
    names = {"dr": dr, "Float": Float, "__name__": "long"}
    exec(compile("\n".join(lines), "long.py", "exec"), names)
    y = names["f"](Float(1, 2, 3), UInt(0, 7))
    with pytest.raises(IndexError, match=r"at long\.py:403 in f\)"):
        y.numpy()


# Many accesses: a kernel has so many only, as compiling takes longer and longer.


def written_parts(count: int) -> Float:
    return dr.concat([Float(k) + dr.arange(Float, 3) for k in range(count)])


def test_many_scatters_are_several_kernels():
    got = {}
    entries = launched(lambda: got.setdefault("y", written_parts(300)), dr.KernelType.JIT)
    scatters = [e["source"].count("scatter(") for e in entries]
    assert sum(scatters) == 300 and max(scatters) <= 256
    assert len(entries) <= 4
    # No part writes values for later ones: each computes what it needs.
    assert all("store(" not in e["source"] for e in entries)
    want = np.arange(300)[:, None] + np.arange(3)
    np.testing.assert_array_equal(got["y"].numpy().reshape(300, 3), want)


def test_many_gathers_are_several_kernels(monkeypatch):
    monkeypatch.setattr(stages, "MOST_CHECKS", 50)
    monkeypatch.setattr(stages, "SHORT", 0)
    index = dr.opaque(UInt, 1, 4) + dr.arange(UInt, 4)
    tables = [Float(np.arange(8) * k) for k in range(200)]
    got = {}

    def run() -> Float:
        return got.setdefault("y", sum([dr.gather(Float, t, index) for t in tables], Float(0)))

    entries = launched(run, dr.KernelType.JIT)
    gathers = [e["source"].count(" gather(") for e in entries]
    assert sum(gathers) == 200 and max(gathers) <= 50
    np.testing.assert_array_equal(got["y"].numpy(), np.arange(1, 5) * sum(range(200)))


def counted(steps: int) -> tuple:
    """Old values of atomic updates, which later updates of other arrays take."""
    counter, last, total = dr.zeros(UInt, 2), dr.zeros(UInt, 4), dr.zeros(UInt, 4)
    lane = dr.arange(UInt, 4)
    found = []
    for k in range(steps):
        place = dr.scatter_inc(counter, lane & 1)
        dr.scatter_add(total, place * (k + 1), lane)
        before = dr.scatter_exch(last, lane + k, lane)
        found.append(before + 1)
    return dr.sum(total), counter, last, found


def test_old_values_stay_with_their_updates_in_many_kernels(monkeypatch):
    want = counted(40)
    dr.eval(want)
    monkeypatch.setattr(stages, "MOST_CHECKS", 24)
    monkeypatch.setattr(stages, "SHORT", 0)
    got = {}
    assert len(launched(lambda: got.setdefault("all", counted(40)))) >= 12
    got = got["all"]
    for a, b in zip((*want[1:3], *want[3]), (*got[1:3], *got[3]), strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())
    # Whichever lane counts first: both lanes of an entry have been given 2 * k and 2 * k + 1.
    assert got[0][0] == want[0][0] == sum(2 * (4 * k + 1) * (k + 1) for k in range(40))
    np.testing.assert_array_equal(got[2].numpy(), np.arange(4) + 39)
    assert [f.numpy().tolist() for f in got[3][1:]] == [[*range(k, k + 4)] for k in range(1, 40)]

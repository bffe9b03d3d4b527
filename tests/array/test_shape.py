"""Grids, repetition, concatenation, reversal and reshaping against NumPy."""

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array2f,
    Array3f,
    ArrayXf,
    Bool,
    Float,
    Int,
    Matrix2f,
    TensorXf,
    TensorXu,
    UInt,
)

SHAPES = [(4,), (2, 3), (3, 1, 2), (2, 3, 4)]


def values_of(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(2, 3), (1, 4), (3, 0), (2, 3, 4), (2, 1, 2, 3)])
def test_meshgrid(sizes, indexing, tier):
    axes = [np.arange(n, dtype=np.float32) + 10 * k for k, n in enumerate(sizes)]
    got = dr.meshgrid(*[Float(a) for a in axes], indexing=indexing)
    for a, b in zip(got, np.meshgrid(*axes, indexing=indexing), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.ravel())


def test_meshgrid_of_other_things():
    assert dr.meshgrid() == () and list(dr.meshgrid(Float(1, 2))) == [1, 2]
    x, y = dr.meshgrid(dr.scalar.ArrayXf(1, 2), dr.scalar.ArrayXf(3, 4))
    assert list(x) == [1, 2, 1, 2] and list(y) == [3, 3, 4, 4]
    for arguments in ((Float(1), 3), (Array3f(1),) * 2, (Float(1), Int(1))):
        with pytest.raises(TypeError, match=r"dr\.meshgrid"):
            dr.meshgrid(*arguments)
    with pytest.raises(ValueError, match="'indexing'"):
        dr.meshgrid(Float(1), indexing="kk")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_repeat_and_tile(count, tier):
    for size in (0, 1, 17):
        values = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(
            dr.repeat(Float(values), count).numpy(), np.repeat(values, count)
        )
        np.testing.assert_array_equal(dr.tile(Float(values), count).numpy(), np.tile(values, count))
    nested = Array3f([1, 2], [3, 4], 5)
    np.testing.assert_array_equal(
        dr.repeat(nested, count).numpy(), np.repeat(nested.numpy(), count, 1)
    )
    np.testing.assert_array_equal(
        dr.tile(nested, count).numpy(), np.tile(nested.numpy(), (1, count))
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_repeat_and_tile_of_tensors(shape, tier):
    values = values_of(shape)
    for axis in (None, *range(len(shape)), -1):
        expected = np.repeat(values, 3, axis)
        np.testing.assert_array_equal(dr.repeat(TensorXf(values), 3, axis).numpy(), expected)
    counts = np.array([2, 0, 1, 3])[: shape[0]]
    got = dr.repeat(TensorXf(values), UInt(counts), 0)
    np.testing.assert_array_equal(got.numpy(), np.repeat(values, counts, 0))
    for reps in (2, (2,), (2, 1), (2, 3), (2, 1, 3), (0, 2), (2, 1, 1, 2)):
        np.testing.assert_array_equal(
            dr.tile(TensorXf(values), reps).numpy(), np.tile(values, reps)
        )


@pytest.mark.parametrize("counts", [[1, 2], [0, 3], [3, 0], [0, 0], [0, 2, 0, 0, 1, 0]])
def test_repeat_with_a_count_for_each(counts, tier):
    values = np.arange(len(counts), dtype=np.float32)
    got = dr.repeat(Float(values), UInt(counts))
    np.testing.assert_array_equal(got.numpy(), np.repeat(values, counts))
    scalar = dr.repeat(dr.scalar.ArrayXf(values), dr.scalar.ArrayXu(*counts))
    assert list(scalar) == np.repeat(values, counts).tolist()


@pytest.mark.parametrize("made", [list, tuple, np.array, Int, TensorXu], ids=lambda f: f.__name__)
def test_counts_and_places_in_sequences(made: Any, tier: str) -> None:
    """Numbers of repetitions, places and sizes are in whatever holds integers."""
    values, counts = np.float32([1, 2, 3]), [2, 0, 1]
    expected = np.repeat(values, counts)
    np.testing.assert_array_equal(dr.repeat(Float(values), made(counts)).numpy(), expected)
    t = TensorXf(np.arange(6, dtype=np.float32).reshape(2, 3))
    found = dr.repeat(t, made(counts), axis=1)
    np.testing.assert_array_equal(found.numpy(), np.repeat(t.numpy(), counts, 1))
    found = dr.tile(t, made([2, 1]))
    np.testing.assert_array_equal(found.numpy(), np.tile(t.numpy(), (2, 1)))
    for split in (dr.split, dr.array_split):
        assert [part.shape for part in split(t, made([1, 2]), axis=1)] == [(2, 1)] * 3
    assert dr.zeros(TensorXf, made([2, 3])).shape == (2, 3)
    assert dr.zeros(Array2f, made([2, 3])).shape == (2, 3)
    assert dr.expand_dims(TensorXf([1, 2]), made([0, 2])).shape == (1, 2, 1)
    assert dr.reshape(t, made([3, 2])).shape == (3, 2)
    assert dr.rng(1).random(TensorXf, made([3, 2])).shape == (3, 2)


def test_repeat_and_tile_of_other_things():
    assert dr.repeat([Float(1, 2), 5], 2)[1] == 5
    assert [list(v) for v in dr.tile((Float(1, 2), Int(3)), 2)] == [[1, 2, 1, 2], [3, 3]]
    assert dr.tile(Float(1, 2), (2, 2)).numpy().tolist() == [[1, 2, 1, 2]] * 2
    assert list(dr.tile(dr.scalar.ArrayXf(1, 2), 2)) == [1, 2, 1, 2]
    assert dr.tile(Matrix2f(1, 2, 3, 4), 2).shape == (2, 2, 2)
    with pytest.raises(ValueError, match="negative"):
        dr.repeat(Float(1), -1)
    with pytest.raises(ValueError, match="negative"):
        dr.tile(Float(1), (-1,))
    with pytest.raises(RuntimeError, match="1 entries, but there are 2"):
        dr.repeat(Float(1, 2), UInt(2))
    with pytest.raises(RuntimeError, match="axis 2"):
        dr.repeat(TensorXf([[1]]), 2, axis=2)
    with pytest.raises(TypeError):
        dr.repeat(Float(1, 2), 1.5)
    for counts in ([0.5, 1], np.array([[1, 2]]), "ab", Float(1, 2)):
        with pytest.raises(TypeError, match="'repeats' must be an int or an integer array"):
            dr.repeat(Float(1, 2), counts)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        dr.repeat(Float(1, 2), [2, -1])
    with pytest.raises(RuntimeError, match="'repeats' has 1 entries, but there are 2"):
        dr.repeat(Float(1, 2), [2])
    with pytest.raises(TypeError):
        dr.tile(Array3f(1), (2, 2))


def test_concat(tier):
    parts = [np.arange(n, dtype=np.float32) + n for n in (3, 0, 1, 17)]
    np.testing.assert_array_equal(
        dr.concat([Float(p) for p in parts]).numpy(), np.concatenate(parts)
    )
    assert list(dr.concat((Bool(True), Bool(False, True)))) == [True, False, True]
    assert list(dr.concat([Float(1, 2)])) == [1, 2] and len(dr.concat([Float(), Float()])) == 0
    a, b = values_of((2, 3, 2)), values_of((2, 3, 4)) + 100
    np.testing.assert_array_equal(
        dr.concat([TensorXf(a), TensorXf(b)], axis=2).numpy(), np.concatenate([a, b], 2)
    )
    for axis in (0, 1, -1):
        got = dr.concat([TensorXf(a), TensorXf(a + 50)], axis=axis).numpy()
        np.testing.assert_array_equal(got, np.concatenate([a, a + 50], axis))
    flat = dr.concat([TensorXf(a), TensorXf(b)], axis=None)
    assert type(flat) is Float and len(flat) == 36
    nested = Array3f(1, [2, 3], 4)
    flat = dr.concat([nested, nested], axis=None)
    assert list(flat) == 2 * list(dr.ravel(nested)) == 2 * [1, 2, 4, 1, 3, 4]
    got = dr.concat([Array3f([1, 2], 3, 4), Array3f(5, 6, 7)], axis=1)
    assert got.numpy().tolist() == [[1, 2, 5], [3, 3, 6], [4, 4, 7]]
    assert dr.concat([ArrayXf([1, 2], [3, 4]), ArrayXf([5, 6])]).shape == (4, 2)
    assert list(dr.concat([dr.scalar.ArrayXf(1), dr.scalar.ArrayXf(2, 3)])) == [1, 2, 3]


def test_a_concatenation_does_not_change_its_parts():
    a = Float(1, 2)
    joined = dr.concat([a, Float(3)])
    dr.scatter(joined, 9, UInt(0))
    assert list(a) == [1, 2] and list(joined) == [9, 2, 3]
    assert dr.concat([a]) is a


@pytest.mark.parametrize(
    "arrays, axis, error",
    [
        ([], 0, RuntimeError),
        ([Float(1), Int(1)], 0, TypeError),
        ([Float(1), 3], 0, TypeError),
        ([[1, 2], [3]], 0, TypeError),
        (Float(1), 0, TypeError),
        ([Float(1), Float(2)], 1, RuntimeError),
        ([Array3f(1), Array3f(2)], 0, RuntimeError),
        ([TensorXf([[1]]), TensorXf([[1, 2]])], 0, TypeError),
        ([TensorXf([[1]]), TensorXf([1])], 0, TypeError),
        ([TensorXf([[1]]), TensorXf([1])], 1, TypeError),
    ],
)
def test_concat_refuses(arrays, axis, error):
    with pytest.raises(error, match=r"dr\.concat"):
        dr.concat(arrays, axis=axis)


@pytest.mark.parametrize("shape", SHAPES)
def test_reverse(shape, tier):
    values = values_of(shape)
    for axis in (*range(len(shape)), -1, tuple(range(len(shape)))):
        got = dr.reverse(TensorXf(values), axis)
        np.testing.assert_array_equal(got.numpy(), np.flip(values, axis))
    assert dr.reverse(Float(values.ravel())).numpy().tolist() == values.ravel()[::-1].tolist()


def test_reverse_of_other_things():
    array = Array2f([1, 2], [3, 4])
    assert dr.reverse(array).numpy().tolist() == [[3, 4], [1, 2]]
    assert dr.reverse(array, 1).numpy().tolist() == [[2, 1], [4, 3]]
    assert dr.reverse(array, (0, 1)).numpy().tolist() == [[4, 3], [2, 1]]
    assert dr.reverse([1, 2]) == [2, 1] and dr.reverse((1, 2)) == (2, 1)
    assert list(dr.reverse(dr.scalar.Array3f(1, 2, 3))) == [3, 2, 1]
    assert len(dr.reverse(Float())) == 0 and list(dr.reverse(Float(5))) == [5]
    with pytest.raises(RuntimeError, match="axis 1"):
        dr.reverse(Float(1, 2), 1)
    with pytest.raises(TypeError):
        dr.reverse(5)


def test_reshape_of_tensors():
    values = values_of((2, 3))
    for shape in ((3, 2), 6, -1, (-1, 2), (1, 6, 1), (6, -1)):
        np.testing.assert_array_equal(
            dr.reshape(TensorXf(values), shape).numpy(), values.reshape(shape)
        )
    assert dr.reshape(TensorXf, Float(1, 2, 3, 4), (2, -1)).shape == (2, 2)
    assert dr.reshape(TensorXf, [1, 2, 3, 4], (2, 2)).numpy().tolist() == [[1, 2], [3, 4]]
    assert dr.reshape(dr.zeros(TensorXf, (2, 0)), (0, 5)).shape == (0, 5)


@pytest.mark.parametrize("order", ["A", "C", "F"])
def test_reshape_between_types(order, tier):
    values = np.arange(6, dtype=np.float32)
    numpy_order = "C" if order == "C" else "F"
    nested = dr.reshape(Array3f, Float(values), (3, -1), order=order)
    np.testing.assert_array_equal(nested.numpy(), values.reshape((3, 2), order=numpy_order))
    np.testing.assert_array_equal(dr.reshape(Float, nested, 6, order=order).numpy(), values)
    other = dr.reshape(Array2f, nested, (2, 3), order=order)
    np.testing.assert_array_equal(other.numpy(), values.reshape((2, 3), order=numpy_order))
    assert dr.reshape(ArrayXf, Float(values), (-1, 2), order=order).shape == (3, 2)
    assert type(dr.reshape(Int, Float(values), 6)) is Int


@pytest.mark.parametrize("order", ["A", "C", "F"])
@pytest.mark.parametrize("array", [Matrix2f(1, 2, 3, 4), dr.scalar.Matrix2f(1, 2, 3, 4)])
def test_reshape_to_the_same_shape_keeps_entries_in_place(array, order):
    tensor = getattr(dr, array.__module__.partition(".")[2]).TensorXf
    same = dr.reshape(tensor, array, array.shape, order=order)
    assert type(same) is tensor and same.numpy().ravel().tolist() == [1, 2, 3, 4]
    assert same.shape == array.shape


def test_reshape_of_a_number_has_the_type():
    assert dr.reshape(TensorXf, 3, (1, 1)).shape == (1, 1)
    assert type(dr.reshape(Float, 3, -1)) is Float


def test_reshape_shrinks_and_maps():
    assert list(dr.reshape(Float, Float(1, 2, 3), 2, shrink=True)) == [1, 2]
    assert [list(v) for v in dr.reshape([Float(1, 2), Float(3, 4)], 2)] == [[1, 2], [3, 4]]
    assert dr.reshape(5, 1) == 5
    array = Array2f([1, 2], [3, 4])
    assert dr.reshape(array, (2, 2), "C").numpy().tolist() == [[1, 2], [3, 4]]
    assert dr.reshape(value=array, shape=(2, -1)).numpy().tolist() == [[1, 2], [3, 4]]
    assert [list(v) for v in dr.reshape([Float(1, 2, 3)], 2, shrink=True)] == [[1, 2]]
    # An int is the number of lanes.
    a = Array2f([1, 2, 3], [4, 5, 6])
    for got in (dr.reshape(Array2f, a, 2, shrink=True), dr.reshape([a], 2, shrink=True)[0]):
        assert type(got) is Array2f and got.numpy().tolist() == [[1, 2], [4, 5]]
    assert dr.reshape(a, 3, shrink=True).numpy().tolist() == a.numpy().tolist()
    assert dr.reshape(a, 0, shrink=True).shape == (2, 0)
    assert dr.reshape(Matrix2f(a, a), (1,), shrink=True).shape == (2, 2, 1)
    assert list(a.x) == [1, 2, 3]
    with pytest.raises(RuntimeError, match=r"sizes differ|mismatched array sizes"):
        dr.reshape(a, 4, shrink=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: dr.reshape(TensorXf(values_of((2, 3))), (4, 2)),
        lambda: dr.reshape(TensorXf(values_of((2, 3))), (-1, -1)),
        lambda: dr.reshape(TensorXf(values_of((2, 3))), (-1, 4)),
        lambda: dr.reshape(TensorXf(values_of((2, 3))), (3, 2), order="F"),
        lambda: dr.reshape(Float, Float(1, 2, 3), 2),
        lambda: dr.reshape(Float, Float(1), 3),
        lambda: dr.reshape(Float(1, 2), (2, 1)),
        lambda: dr.reshape(Array2f, Float(values_of(6)), (3, 2)),
    ],
)
def test_reshape_refuses(call):
    with pytest.raises(RuntimeError, match=r"dr\.reshape"):
        call()


def test_concat_tensors_with_constant_and_empty_parts(tier):
    a = values_of((2, 3))
    parts = [dr.full(TensorXf, 7, (1, 3)), TensorXf(a), dr.zeros(TensorXf, (0, 3))]
    expected = np.concatenate([np.full((1, 3), 7), a])
    np.testing.assert_array_equal(dr.concat(parts).numpy(), expected)


def test_ravel_of_one_component_is_an_array_of_its_own(tier):
    a = dr.llvm.Array1f(Float(1, 2))
    b = dr.ravel(a)
    b += 1
    assert list(a.x) == [1, 2] and list(b) == [2, 3]

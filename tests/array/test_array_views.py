"""Arrays of `drjit.scalar` and NumPy arrays that share their memory, results that are the argument
itself, and objects that stand for numbers and masks.
"""

import enum

import numpy as np
import pytest

import drjit as dr
import drjit.scalar as S
from drjit.llvm import Array2b, Array3f, Bool, Float, Int, Matrix2f, TensorXf, UInt


@pytest.mark.parametrize(
    "array",
    [
        S.ArrayXf(1, 2, 3, 4),
        S.Array4f64(1, 2, 3, 4),
        S.Array4i(1, 2, 3, 4),
        S.Array4f16(1, 2, 3, 4),
        S.Quaternion4f(1, 2, 3, 4),
        S.Matrix2f(1, 2, 3, 4),
        S.Array22f([1, 2], [3, 4]),
        S.Matrix34f(*[S.Array4f(i) for i in range(9)]),
        S.TensorXf([[1, 2], [3, 4]]),
        S.TensorXu([[1, 2], [3, 4]]),
    ],
    ids=lambda a: type(a).__name__,
)
def test_a_scalar_array_is_seen_through_numpy_in_both_directions(array):
    view = array.numpy()
    assert np.shares_memory(view, np.asarray(array))
    view[...] = 0
    view.flat[1] = 7
    before = view.copy()
    np.testing.assert_array_equal((array + 0).numpy(), before)
    assert view.flat[1] == 7
    array += array
    np.testing.assert_array_equal(view, 2 * before)
    copied = type(array)(array)
    view[...] = 1
    np.testing.assert_array_equal(copied.numpy(), 2 * before)
    assert np.shares_memory(array.numpy(), view)


def test_rows_share_the_memory_as_well():
    array = S.Array22f([1, 2], [3, 4])
    row, view = array[1], array.numpy()
    view[1, 0] = 9
    assert list(row) == [9, 4]
    row[1] = 8
    assert view.tolist() == [[1, 2], [9, 8]]
    array[0, 0] = 5
    assert view.tolist() == [[5, 2], [9, 8]]


def test_masks_and_complex_numbers_share_memory():
    mask = S.Array3b(True, False, True)
    mask.numpy()[1] = True
    assert list(mask) == [True, True, True] and type(mask[1]) is bool
    z = S.Complex2f(1, 2)
    view = z.numpy()
    assert view.shape == () and view == 1 + 2j
    view[...] = 3 - 1j
    assert (z.real, z.imag) == (3, -1)


def test_an_array_that_changes_its_size_leaves_the_view():
    array = S.ArrayXf(1, 2)
    view = array.numpy()
    array += S.ArrayXf(1, 1)
    assert view.tolist() == [2, 3]
    array = S.ArrayXf(1)
    view = array.numpy()
    array += S.ArrayXf(1, 2, 3)
    assert list(array) == [2, 3, 4] and view.tolist() == [1]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: +a,
        lambda a: a[:],
        lambda a: dr.tile(a, 1),
        lambda a: dr.repeat(a, 1),
        lambda a: dr.concat([a]),
        lambda a: dr.reshape(type(a), a, a.shape),
        lambda a: dr.reshape(type(a), a, -1),
        lambda a: dr.unravel(type(a), a),
        lambda a: dr.ravel(a),
        lambda a: dr.reinterpret_array(type(a), a),
    ],
)
@pytest.mark.parametrize("make", [lambda: Float(1, 2, 3), lambda: S.ArrayXf(1, 2, 3)])
def test_what_changes_nothing_gives_the_argument(change, make):
    array = make()
    assert change(array) is array
    change(array)[1] = 7
    assert list(array) == [1, 7, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.T,
        lambda t: t.mT,
        lambda t: dr.transpose(t),
        lambda t: dr.moveaxis(t, 0, 1),
        lambda t: t[...],
        lambda t: TensorXf(t),
        lambda t: TensorXf(t.array, (2, 1)),
    ],
)
def test_a_tensor_made_of_another_does_not_share_its_entries(change):
    t = TensorXf([[1, 2]])
    other = change(t)
    other[0] = 9
    assert t.array.numpy().tolist() == [1, 2]


class Colour(enum.Enum):
    RED = 0


class Nothing:
    def __bool__(self):
        return False


def test_a_mask_is_the_truth_of_an_object():
    assert [repr(Bool(v)) for v in (object(), Colour.RED, dr.ReduceMode.Auto, int, len)] == [
        "[True]"
    ] * 5
    assert repr(Bool(Nothing())) == "[False]"
    assert repr(Array2b(Colour.RED)) == "[[True, True]]"
    assert repr(S.Array2b(Nothing())) == "[False, False]"
    for text in ("a", "True"):
        with pytest.raises(TypeError):
            Bool(text)


def test_objects_that_convert_to_numbers():
    class Index:
        def __index__(self):
            return 3

    class Real:
        def __float__(self):
            return 2.5

    class Entries:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return i + 5

    assert repr([Float(Index()), Float(Real()), Int(Index()), Float(Entries())]) == (
        "[[3], [2.5], [3], [5, 6]]"
    )
    assert repr(Array3f(Index())) == "[[3, 3, 3]]"
    with pytest.raises(TypeError):
        Int(Real())


def test_errors_are_of_every_kind_that_handlers_look_for():
    for kind in (IndexError, TypeError, RuntimeError):
        for call in (
            lambda: Float(1, 2)[2],
            lambda: TensorXf([1, 2])[2],
            lambda: S.TensorXf([1, 2])[2],
            lambda: dr.slice_index(UInt, (2,), (2,)),
            lambda: dr.slice_index(UInt, (2,), (0, 0)),
        ):
            with pytest.raises(kind):
                call()
    for kind in (TypeError, RuntimeError):
        with pytest.raises(kind):
            dr.slice_index(UInt, (2,), ("x",))
        with pytest.raises(kind):
            dr.slice_index(Float, (2,), (0,))
    for kind in (TypeError, RuntimeError, AttributeError):
        with pytest.raises(kind):
            Matrix2f(1).imag = 5


EMPTY_BESIDE_ONE = {
    "a + b": lambda a, b: a + b,
    "b * a": lambda a, b: b * a,
    "a < b": lambda a, b: a < b,
    "fma": lambda a, b: dr.fma(a, b, 1),
    "maximum": lambda a, b: dr.maximum(b, a),
    "select": lambda a, b: dr.select(b > 0, a, 1),
    "in place": lambda a, b: a.__iadd__(b),
    "of vectors": lambda a, b: Array3f(a, a, a) + Array3f(b, b, b),
    "of element types": lambda a, b: a + Int(b),
}


@pytest.mark.parametrize("name", EMPTY_BESIDE_ONE)
def test_an_array_that_was_never_initialized_does_not_pass(tier, name):
    operation = EMPTY_BESIDE_ONE[name]
    for one in (dr.opaque(Float, 5), Float(5)):
        with pytest.raises(RuntimeError, match=r"incompatible sizes.*empty"):
            operation(Float(), one)


def test_tensors_without_entries_broadcast():
    row = dr.opaque(TensorXf, 1, (1, 3))
    assert (dr.zeros(TensorXf, (0, 3)) + row).shape == (0, 3)


@pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError])
def test_tensors_without_a_product_are_every_error(kind):
    with pytest.raises(kind, match=r"unsupported operand type\(s\).*inner sizes differ"):
        _ = TensorXf([[1, 2], [3, 4]]) @ TensorXf([[1, 2, 3]])

"""Reading and writing entries, components, and swizzles."""

import copy
import gc

import numpy as np
import pytest
from helpers import in_cycles

import drjit as dr
from drjit.llvm import (
    Array1f,
    Array2f,
    Array3b,
    Array3f,
    Array3i,
    Array4f,
    Array22f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    Matrix2f,
    TensorXf,
    TensorXi,
    TensorXu,
    UInt,
    UInt64,
)

S = dr.scalar


def shown(value: object) -> tuple[str, str]:
    return type(value).__name__, repr(value)


@pytest.mark.parametrize(
    ("array", "entry"),
    [
        (Float(1, 2), 2.0),
        (Int(1, -2), -2),
        (Bool(True, False), False),
        (Float16(1, 0.1), 0.0999755859375),
    ],
)
def test_an_entry_is_a_python_number(array: object, entry: object, tier: str) -> None:
    assert array[1] == entry and type(array[1]) is type(entry)
    assert array[-1] == entry
    assert array[np.int64(1)] == entry


def test_an_unevaluated_entry_is_evaluated(tier: str) -> None:
    x = Float(1, 2, 3) * 2
    assert x[2] == 6.0
    assert (Float(3) + Float(1, 1))[0] == 4.0


def test_an_array_of_one_entry_stands_for_any_size() -> None:
    assert Float(5)[3] == Float(5)[-2] == 5.0
    x = Float(5)
    with pytest.raises(IndexError, match=r"entry 1 .* size 1\b"):
        x[1] = 0
    assert repr(x) == "[5]"


@pytest.mark.parametrize(
    ("array", "i", "size"), [(Float(1, 2, 3), 3, 3), (Float(1, 2), -3, 2), (Float(), 0, 0)]
)
def test_out_of_bounds_names_entry_and_size(array: Float, i: int, size: int) -> None:
    at = i + size if i < 0 else i
    with pytest.raises(IndexError, match=rf"Float.*entry {at} .*size {size}\)\."):
        array[i]
    with pytest.raises(IndexError, match=rf"Float.*entry {at} .*size {size}\)\."):
        array[i] = 1


@pytest.mark.parametrize("key", [True, None, ..., [0, 1], 1.0, "x", Float(0), np.array([0, 1])])
def test_keys_that_are_refused(key: object) -> None:
    with pytest.raises(TypeError, match=r"drjit\.llvm\.Float\.__getitem__"):
        Float(1, 2, 3)[key]
    with pytest.raises(TypeError, match=r"drjit\.llvm\.Float\.__setitem__"):
        Float(1, 2, 3)[key] = 1


SLICES = [
    slice(1, 3), slice(None, None, 2), slice(None), slice(5, None), slice(None, -1),
    slice(None, None, -1), slice(3, 0, -2), slice(-2, None),
]  # fmt: skip


@pytest.mark.parametrize("key", SLICES, ids=str)
def test_slices_are_those_of_numpy(key: slice, tier: str) -> None:
    data = np.array([1, 2, 3, 4, 5], np.float32)
    np.testing.assert_array_equal(Float(data)[key].numpy(), data[key])
    array, expected = Float(data), data.copy()
    array[key] = 9
    expected[key] = 9
    np.testing.assert_array_equal(array.numpy(), expected)
    values = np.arange(len(data[key]), dtype=np.float32)
    array[key] = values
    expected[key] = values
    np.testing.assert_array_equal(array.numpy(), expected)


@pytest.mark.parametrize(
    "index", [UInt(2, 0), Int(2, 0), Int64(2, 0), UInt64(2, 0), Int(-1, -3), TensorXu([2, 0])]
)
def test_index_arrays(index: object, tier: str) -> None:
    x = Float(1, 2, 3)
    assert shown(x[index]) == ("Float", "[3, 1]")
    x[index] = Float(7, 8)
    assert shown(x) == ("Float", "[8, 2, 7]")
    x[index] = 0
    assert shown(x) == ("Float", "[0, 2, 0]")


def test_index_arrays_are_checked(tier: str) -> None:
    with pytest.raises(IndexError, match=r"index 7 .* size 3"):
        repr(Float(1, 2, 3)[UInt(0, 7)])
    x = Float(1, 2, 3)
    with pytest.raises(TypeError, match="3 values to 2 entries"):
        x[UInt(0, 1)] = Float(1, 2, 3)
    assert repr(x) == "[1, 2, 3]"


def test_entries_are_assigned_in_place(tier: str) -> None:
    a = Float(1, 2, 3)
    same, other, old = a, Float(a), a + 0.5
    a[0] = 9
    a[-1] = True
    assert repr(a) == repr(same) == "[9, 2, 1]"
    assert repr(other) == "[1, 2, 3]"
    assert repr(old) == "[1.5, 2.5, 3.5]"


def test_assigning_many_entries_launches_nothing(tier: str) -> None:
    x = dr.zeros(Int, 1000)
    for i in range(1000):
        x[i] = i
    np.testing.assert_array_equal(x.numpy(), np.arange(1000))


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (Float(1, 2), Float(9)), (Float(1, 2), "x"), (Float(1, 2), None), (Int(1, 2), 1.5),
        (Int(1, 2), 2**40), (UInt(1, 2), -1), (Bool(True, True), 0),
    ],
)  # fmt: skip
def test_entries_take_fitting_numbers_only(array: object, value: object) -> None:
    before = repr(array)
    with pytest.raises(TypeError, match="could not initialize"):
        array[0] = value
    assert repr(array) == before


def test_masked_assignment_selects(tier: str) -> None:
    a = Float(1, 2, 3)
    a[a > 1] = a * 10
    assert repr(a) == "[1, 20, 30]"
    a[Bool(True, False, True)] = 0
    assert repr(a) == "[0, 20, 0]"
    one = Float(1)
    one[Bool(True, False)] = 9
    assert repr(one) == "[9, 1]"
    b = Array3f(1, 2, 3)
    component = b.x
    b[Bool(True, False)] = 9
    assert repr(b) == "[[9, 9, 9],\n [1, 2, 3]]"
    assert repr(component) == "[9, 1]"
    b[Array3b(True, False, True)] = 7
    assert repr(b) == "[[7, 9, 7],\n [7, 2, 7]]"
    s = S.Array3f(1, 2, 3)
    s[s > 1] = 9
    assert repr(s) == "[1, 9, 9]"


def test_reading_through_a_mask_copies() -> None:
    a = Float(1, 2, 3)
    b = a[a > 1]
    a[a > 1] = 0
    assert repr(b) == "[1, 2, 3]"


@pytest.mark.parametrize("value", [1.5, Float64(1.5)])
def test_a_masked_assignment_keeps_the_type(value: object) -> None:
    a = Int(1, 2, 3)
    with pytest.raises(TypeError, match="cannot change the type"):
        a[a > 1] = value
    assert repr(a) == "[1, 2, 3]"


def test_components_are_shared() -> None:
    a = Array3f(1, 2, 3)
    x = a[0]
    x += 1
    assert repr(a) == "[[2, 2, 3]]"
    a.x = 9
    assert repr(x) == "[9]"
    f = Float(1)
    b = Array3f(f, f, f)
    b.x += 1
    assert repr(f) == "[1]" and repr(b) == "[[2, 1, 1]]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9, "[[9, 2, 3]]"), (Float(8, 9), "[[8, 2, 3],\n [9, 2, 3]]"), (Int(8), "[[8, 2, 3]]"),
        (Float64(8.5), "[[8.5, 2, 3]]"),
    ],
)  # fmt: skip
def test_component_assignment(value: object, text: str) -> None:
    a = Array3f(1, 2, 3)
    a[-3] = value
    assert repr(a) == text


@pytest.mark.parametrize(
    ("array", "value"), [(Array3f(1), "x"), (Array3f(1), Array3f(1)), (Array3i(1), 1.5)]
)
def test_component_assignment_refuses(array: object, value: object) -> None:
    with pytest.raises(TypeError, match="could not initialize"):
        array[0] = value
    with pytest.raises(IndexError, match=r"entry 3 .* size 3"):
        array[3] = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda: Array3f(1, 2, 3)[0:2], ("Array2f", "[[1, 2]]")),
        (lambda: Array3f(1, 2, 3)[::-1], ("Array3f", "[[3, 2, 1]]")),
        (lambda: Array3f(1, 2, 3)[3:], ("Array0f", "[]")),
        (lambda: ArrayXf([1, 2], [3, 4])[1:], ("Array1f", "[[3],\n [4]]")),
        (lambda: Array3f([1, 2], 3, 4)[0, 1], ("float", "2.0")),
        (lambda: Array22f([1, 2], [3, 4])[0, 1], ("Float", "[2]")),
        (lambda: Array22f([1, 2], [3, 4])[1, 0, 0], ("float", "3.0")),
        (lambda: Matrix2f(1, 2, 3, 4)[1], ("Array2f", "[[3, 4]]")),
        (lambda: Complex2f(1, 2)[1], ("Float", "[2]")),
        (lambda: S.Array3f(1, 2, 3)[0:2], ("Array2f", "[1, 2]")),
        (lambda: S.Array3f(1, 2, 3)[-1], ("float", "3.0")),
    ],
)
def test_components_and_slices_of_them(value: object, expected: tuple[str, str]) -> None:
    assert shown(value()) == expected


def test_there_is_no_matrix_of_one_row() -> None:
    with pytest.raises(TypeError, match="Matrix2f"):
        Matrix2f(1, 2, 3, 4)[0:1]


def test_slices_of_components_are_assigned() -> None:
    a = Array3f(1, 2, 3)
    a[0:2] = 7
    assert repr(a) == "[[7, 7, 3]]"
    a[::2] = [8, Float(9)]
    assert repr(a) == "[[8, 7, 9]]"
    a[::-1] = a
    assert repr(a) == "[[9, 7, 8]]"
    with pytest.raises(TypeError, match="3 values cannot go to 2 components"):
        a[0:2] = Array3f(1, 2, 3)


def test_several_keys_apply_in_turn() -> None:
    m = Matrix2f(1, 2, 3, 4)
    m[0, 1] = 9
    m[1][0] = 8
    assert repr(m) == "[[[1, 9],\n  [8, 4]]]"
    m[0, 1] = Float(5, 6)
    assert repr(m) == "[[[1, 5],\n  [8, 4]],\n [[1, 6],\n  [8, 4]]]"
    a = Array3f([1, 2], 3, 4)
    a[0, 1] = 9
    assert repr(a) == "[[1, 3, 4],\n [9, 3, 4]]"


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (Array3f(1, 2, 3), "xy", ("Array2f", "[[1, 2]]")),
        (Array3f(1, 2, 3), "zyx", ("Array3f", "[[3, 2, 1]]")),
        (Array3f(1, 2, 3), "xx", ("Array2f", "[[1, 1]]")),
        (Array3f(1, 2, 3), "xyzxy", ("ArrayXf", "[[1, 2, 3, 1, 2]]")),
        (Array4f(1, 2, 3, 4), "wzyx", ("Array4f", "[[4, 3, 2, 1]]")),
        (Array22f([1, 2], [3, 4]), "yx", ("Array22f", "[[[3, 4],\n  [1, 2]]]")),
        (S.Array3f(1, 2, 3), "xz", ("Array2f", "[1, 3]")),
    ],
)
def test_swizzles_are_read(value: object, name: str, expected: tuple[str, str]) -> None:
    assert shown(getattr(value, name)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9, "[[9, 9, 3]]"), (Array2f(8, 9), "[[8, 9, 3]]"),
        (Float(8, 9), "[[8, 8, 3],\n [9, 9, 3]]"), ((8, 9), "[[8, 8, 3],\n [9, 9, 3]]"),
    ],
)  # fmt: skip
def test_swizzles_are_assigned(value: object, text: str) -> None:
    a = Array3f(1, 2, 3)
    a.xy = value
    assert repr(a) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("xx", 9, "[[9, 2, 3]]"), ("zz", Float(8, 9), "[[1, 2, 8],\n [1, 2, 9]]"),
        ("xx", Array2f(8, 9), "[[9, 2, 3]]"), ("xyzz", Array4f(6, 7, 8, 9), "[[6, 7, 9]]"),
    ],
)  # fmt: skip
def test_of_what_goes_to_one_component_the_last_stays(name: str, value: object, text: str) -> None:
    a = Array3f(1, 2, 3)
    setattr(a, name, value)
    assert repr(a) == text
    with pytest.raises(IndexError, match="Mismatched sizes in swizzle assignment"):
        setattr(a, name, ArrayXf(*range(7)))
    assert repr(a) == text


def test_swizzles_may_exchange_components() -> None:
    a = Array3f(1, 2, 3)
    a.xy = a.yx
    a.xz += 1
    assert repr(a) == "[[3, 1, 4]]"
    part = a.xy
    part.x = 0
    assert repr(a) == "[[3, 1, 4]]"
    with pytest.raises(IndexError, match="3 components to 2"):
        a.xy = Array3f(8, 9, 10)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Array3f(1), "xw"), (Array3f(1), "xyq"), (ArrayXf([1], [2]), "xy"), (Complex2f(1), "yx"),
        (Float(1), "xy"), (TensorXf([1]), "xy"),
    ],
)  # fmt: skip
def test_swizzles_that_do_not_exist(value: object, name: str) -> None:
    assert not hasattr(value, name)
    with pytest.raises(AttributeError, match=f"'{type(value).__name__}' object has no attribute"):
        getattr(value, name)
    with pytest.raises(AttributeError):
        setattr(value, name, 1)


def test_iteration() -> None:
    assert list(Float(1, 2)) == [1.0, 2.0] and list(Bool(True)) == [True]
    assert [shown(c) for c in Array2f(1, 2)] == [("Float", "[1]"), ("Float", "[2]")]
    assert list(S.ArrayXf(1, 2)) == [1.0, 2.0]
    assert [shown(t) for t in TensorXf([[1, 2], [3, 4]])] == [
        ("TensorXf", "[1, 2]"),
        ("TensorXf", "[3, 4]"),
    ]


@pytest.mark.parametrize("value", [Float(5), TensorXf(5), TensorXf([[5]]), S.TensorXf([5])])
def test_item(value: object) -> None:
    assert value.item() == 5.0


@pytest.mark.parametrize("value", [Float(1, 2), Float(), Array3f(1)])
def test_item_needs_a_single_entry(value: object) -> None:
    with pytest.raises(RuntimeError, match="only convert arrays of length 1"):
        value.item()


DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
TENSOR_KEYS = [
    0, -1, (1, 2), (0, 1, 2), np.s_[:, 1], np.s_[:, ::2], np.s_[::-1, :, ::-2], np.s_[..., 1],
    np.s_[0, ..., 1:3], None, np.s_[:, None, 1], np.s_[..., None], (), np.s_[1:1], np.s_[0, :, :0],
]  # fmt: skip


@pytest.mark.parametrize("namespace", [dr.llvm, S], ids=["llvm", "scalar"])
@pytest.mark.parametrize("key", TENSOR_KEYS, ids=str)
def test_tensor_keys_are_those_of_numpy(key: object, namespace: object) -> None:
    t = namespace.TensorXf(DATA.copy())  # into which the test writes
    np.testing.assert_array_equal(t[key].numpy(), DATA[key])
    assert t[key].shape == DATA[key].shape
    expected = DATA.copy()
    t[key] = 7
    expected[key] = 7
    np.testing.assert_array_equal(t.numpy(), expected)
    values = np.arange(DATA[key].size, dtype=np.float32).reshape(DATA[key].shape)
    t[key] = namespace.TensorXf(values)
    expected[key] = values
    np.testing.assert_array_equal(t.numpy(), expected)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (UInt(1, 0, 1), DATA[[1, 0, 1]]),
        ((slice(None), UInt(2, 0)), DATA[:, [2, 0]]),
        ((UInt(1, 0), UInt(2, 0)), DATA[[1, 0], [2, 0]]),
        ((UInt(0, 1), slice(None), UInt(2, 3)), DATA[[0, 1], :, [2, 3]]),
        ((slice(None), UInt(0, 1), UInt(2, 3)), DATA[:, [0, 1], [2, 3]]),
        ((Int(-1), 0), DATA[[-1], 0]),
        ((TensorXi([1, 0]), -1), DATA[[1, 0], -1]),
        ((slice(None), None, UInt(0, 2)), DATA[:, None, [0, 2]]),
        ((None, UInt(0, 1), slice(None), UInt(2, 3)), DATA[None, [0, 1], :, [2, 3]]),
        ((slice(None), UInt(0, 1), None, UInt(2, 3)), DATA[:, [0, 1], None, [2, 3]]),
    ],
    ids=str,
)
def test_index_arrays_of_tensors(key: object, expected: np.ndarray, tier: str) -> None:
    np.testing.assert_array_equal(TensorXf(DATA)[key].numpy(), expected)


def test_tensor_assignment_broadcasts() -> None:
    t = TensorXf(DATA.copy())
    t[:, 1] = TensorXf([[1, 2, 3, 4]])
    t[0, 0] = Float(5, 6, 7, 8)
    t[t > 20] = 0
    assert repr(t[:, 0:2]) == (
        "[[[5, 6, 7, 8],\n  [1, 2, 3, 4]],\n [[12, 13, 14, 15],\n  [1, 2, 3, 4]]]"
    )
    assert repr(t[1, 2]) == "[20, 0, 0, 0]"


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (2, IndexError, "index 2 is out of bounds for axis 0 with size 2"),
        ((0, 0, 0, 0), IndexError, "too many indices, 4 for a tensor of 3 dimensions"),
        ((..., ...), IndexError, "multiple ellipses"),
        ([0.5, 1], TypeError, "list"),
        ([[0], [0, 1]], TypeError, "list"),
        (
            (..., [True, False]),
            IndexError,
            r"mask of shape \(2,\) does not fit axes of shape \(4,\)",
        ),
        (1.0, TypeError, "float"),
        (True, TypeError, "bool"),
    ],
)
def test_tensor_keys_that_are_refused(key: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        TensorXf(DATA)[key]
    with pytest.raises(error, match=text):
        TensorXf(DATA)[key] = 0


def test_tensor_values_that_do_not_fit() -> None:
    t = TensorXf(DATA)
    with pytest.raises(TypeError, match=r"\(2,\).*\(3, 4\)"):
        t[0] = TensorXf([1, 2])
    with pytest.raises(TypeError, match="5 values to 12 entries"):
        t[0] = Float(1, 2, 3, 4, 5)
    with pytest.raises(TypeError, match=r"\(4, 1\) does not fit entries of shape \(4,\)"):
        t[0, 0] = TensorXf([[1], [2], [3], [4]])
    np.testing.assert_array_equal(t.numpy(), DATA)


def test_indexing_leaves_no_cycles() -> None:
    def body() -> None:
        a = Array3f([1, 2], 3, 4)
        a.xy = a.yx
        a[a > 1] = 0
        a[1][1] = 5
        assert repr(copy.copy(a)[0:2]) == "[[0, 1],\n [0, 5]]"

    body()
    gc.collect()
    body()
    assert in_cycles() == []


def test_width_one_slices() -> None:
    assert shown(Float(1, 2, 3)[1:2]) == ("Float", "[2]")
    assert shown(Array3f(1, 2, 3)[0:1]) == ("Array1f", "[[1]]")
    assert shown(Array1f(3)[0]) == ("Float", "[3]")

"""Exchange with NumPy, the array protocols, and pickle."""

import array as standard_array
import copy
import gc
import importlib.util
import pickle

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array2f,
    Array3b,
    Array3f,
    Array22f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    Int64,
    Matrix2f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    UInt,
    UInt8,
    UInt64,
)

S = dr.scalar
LEAVES = [Bool, Int8, UInt8, Int, UInt, Int64, UInt64, Float16, Float, Float64]
NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("cls", LEAVES, ids=lambda c: c.__name__)
def test_element_types_convert_as_numpy_converts(cls: type, dtype: str) -> None:
    data = np.array([0, 1, 3, 100], dtype)
    made = cls(data)
    assert type(made) is cls
    expected = data.astype(made.numpy().dtype)
    np.testing.assert_array_equal(made.numpy(), expected)
    np.testing.assert_array_equal(cls(data.astype(data.dtype.newbyteorder())).numpy(), expected)


def test_conversion_of_what_does_not_fit() -> None:
    assert repr(UInt8(np.array([300, -1]))) == "[44, 255]"
    assert repr(Int(np.array([1.7, -1.7]))) == "[1, -1]"
    assert repr(Float16(np.array([1e6]))) == "[inf]"
    assert repr(Int(np.array([np.nan, 1e20, -1e20]))) == repr(Int(Float(np.nan, 1e20, -1e20)))


@pytest.mark.parametrize(
    "view", [np.s_[:], np.s_[::2], np.s_[::-1], np.s_[3:3], np.s_[1:], np.s_[-2:]], ids=str
)
def test_strides_and_offsets(view: slice, tier: str) -> None:
    data = np.arange(7, dtype=np.float32)[view]
    np.testing.assert_array_equal(Float(data).numpy(), data)
    np.testing.assert_array_equal((Float(data) + 1).numpy(), data + 1)
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(Array3f(matrix[:, view]).numpy(), matrix[:, view])
    np.testing.assert_array_equal(TensorXf(matrix[view].T).numpy(), matrix[view].T)


@pytest.mark.parametrize(
    ("cls", "shape"),
    [
        (Array3f, (3, 5)), (ArrayXf, (4, 2)), (Array22f, (2, 2, 3)), (Matrix2f, (2, 2, 3)),
        (Quaternion4f, (4, 2)), (Array3f, (3, 0)), (TensorXf, (2, 3, 4)), (TensorXf, ()),
        (TensorXf, (0, 3)), (S.Array3f, (3,)), (S.Matrix2f, (2, 2)), (S.ArrayXf, (5,)),
        (S.TensorXf, (2, 2)), (S.Quaternion4f, (4,)),
    ],
)  # fmt: skip
def test_shapes_both_ways(cls: type, shape: tuple[int, ...]) -> None:
    data = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    made = cls(data)
    result = made.numpy()
    assert result.dtype == np.float32 and result.flags.c_contiguous
    assert result.shape == shape
    np.testing.assert_array_equal(result, data)
    np.testing.assert_array_equal(cls(np.asfortranarray(data)).numpy(), data)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: Array3f(np.arange(3)), [[0], [1], [2]]),
        (lambda: ArrayXf(np.arange(3)), [[0], [1], [2]]),
        (lambda: Matrix2f(np.arange(4).reshape(2, 2)), [[[0], [1]], [[2], [3]]]),
        (lambda: Array3f(np.array(5)), [[5], [5], [5]]),
        (lambda: Float(np.array(5.0)), [5]),
        (lambda: Array3f(np.float32(2)), [[2], [2], [2]]),
        (lambda: S.Array3f(np.array(3)), [3, 3, 3]),
        (lambda: Array3f([1, 2], 3, 4), [[1, 2], [3, 3], [4, 4]]),
        (lambda: Array3f(1, 2, 3) * 2, [[2], [4], [6]]),
    ],
)
def test_missing_lanes_and_broadcasting(made: object, expected: list) -> None:
    np.testing.assert_array_equal(made().numpy(), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("cls", "shape", "text"),
    [
        (Float, (2, 2), r"shape=\(\*\), .* \(2, 2\)"),
        (Array3f, (2, 3), r"shape=\(3, \*\), .* \(2, 3\) .*transpose"),
        (Array3f, (4,), r"shape=\(3, \*\), .* \(4,\)"),
        (Array3f, (3, 2, 2), r"shape=\(3, \*\), .* \(3, 2, 2\)"),
        (Matrix2f, (4,), r"shape=\(2, 2, \*\), .* \(4,\)"),
        (Complex2f, (2, 2), r"shape=\(\*\), dtype=complex64.* \(2, 2\)"),
        (S.Array3f, (1, 3), r"shape=\(3\), .* \(1, 3\)"),
    ],
)
def test_wrong_shapes_name_the_right_one(cls: type, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        cls(np.zeros(shape))


@pytest.mark.parametrize(
    "data",
    [np.array([1], object), np.array(["a"]), np.array([1j]), np.array(["2020"], "datetime64[D]")],
)
def test_other_element_types_are_refused(data: np.ndarray) -> None:
    for cls in (Float, TensorXf):
        with pytest.raises(TypeError, match=cls.__name__):
            cls(data)


def test_complex_numbers() -> None:
    data = np.array([1 + 2j, 3 - 4j])
    made = Complex2f(data)
    assert repr(made) == "[1+2j,\n 3-4j]"
    assert made.numpy().dtype == np.complex64
    np.testing.assert_array_equal(made.numpy(), data)
    np.testing.assert_array_equal(Complex2f(np.array([1.0, 2.0])).numpy(), [1, 2])
    np.testing.assert_array_equal(Complex2f(np.complex64(3j)).numpy(), [3j])
    assert dr.llvm.Complex2f64(data).numpy().dtype == np.complex128
    assert S.Complex2f(1, 2).numpy().shape == () and S.Complex2f(1, 2).numpy() == 1 + 2j


@pytest.mark.processor
@pytest.mark.parametrize("made", [Float, TensorXf])
def test_memory_is_shared_with_numpy(made: type, tier: str) -> None:
    a = made(np.array([1, 2, 3])) + 0.5
    view = a.numpy()
    assert view.flags.writeable
    view[0] = 9
    assert repr(a) == "[9, 2.5, 3.5]"
    np.asarray(a)[1] = 8
    assert repr(a) == "[9, 8, 3.5]"
    np.array(a)[2] = 7
    assert repr(a) == "[9, 8, 3.5]"


@pytest.mark.processor
def test_a_literal_gets_memory_of_its_own() -> None:
    a = dr.zeros(Float, 3)
    b = Float(a)
    a.numpy()[0] = 9
    assert repr(a) == "[9, 0, 0]" and repr(b) == "[0, 0, 0]"


def test_writes_do_not_change_what_was_given_out(tier: str) -> None:
    a = Float(1, 2, 3) + 0
    view = a.numpy()
    dr.scatter(a, Float(9), UInt(0))
    a[1] = 8
    assert repr(a) == "[9, 8, 3]"
    np.testing.assert_array_equal(view, [1, 2, 3])


@pytest.mark.processor
def test_a_view_outlives_the_array() -> None:
    a = Float(1, 2, 3) + 0
    part = a.numpy()[1:]
    del a
    others = [Float(np.full(3, i, np.float32)) + 1 for i in range(20)]
    dr.eval(others)
    np.testing.assert_array_equal(part, [2, 3])
    a = Float(1, 2) + 0
    view = a.numpy()
    buffer = a._node.data
    assert buffer.views == 1
    del view
    gc.collect()
    assert buffer.views == 0


def aligned(n: int) -> np.ndarray:
    """Zeros whose memory can be shared: not at the end of a page."""
    raw = np.zeros(4 * n + 8192, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + 4 * n].view(np.float32)


@pytest.mark.processor
def test_numpy_memory_is_shared_unless_it_is_read_only(tier: str) -> None:
    data = aligned(3)
    a = Float(data)
    data[0] = 5
    assert repr(a) == "[5, 0, 0]"
    a[1] = 6
    dr.scatter(a, Float(7), UInt(2))
    assert repr(a) == "[5, 6, 7]"
    np.testing.assert_array_equal(data, [5, 6, 7])
    frozen = aligned(2)
    frozen.flags.writeable = False
    b = Float(frozen)
    assert not b.numpy().flags.writeable
    b[0] = 1
    assert repr(b) == "[1, 0]" and not frozen.any()


def test_nested_arrays_are_copied() -> None:
    a = Array3f([1, 2], 3, 4)
    a.numpy()[0, 0] = 9
    assert repr(a) == "[[1, 3, 4],\n [2, 3, 4]]"


def test_components_of_different_sizes() -> None:
    with pytest.raises(RuntimeError, match=r"Array2f.numpy\(\): .* sizes 2 and 3"):
        Array2f(Float(1, 2), Float(1, 2, 3)).numpy()


def test_array_protocol() -> None:
    x = Float(1, 2)
    assert np.array(x, dtype=np.float64).dtype == np.float64
    assert x.__array__("f2").dtype == np.float16
    assert np.shares_memory(np.array(x, copy=False), x.numpy()) == x._device.on_host
    assert not np.shares_memory(x.__array__(copy=True), x.numpy())
    # Without sharing where that is impossible.
    assert np.array(x, dtype=np.float64, copy=False).tolist() == [1, 2]
    assert np.array(Array3f(1, 2, 3), copy=False).tolist() == [[1], [2], [3]]
    assert isinstance(np.sin(x), np.ndarray)
    assert np.array([x, x]).shape == (2, 2)


def test_memoryview() -> None:
    assert Float(1, 2).memview().tolist() == [1.0, 2.0]
    assert Bool(True, False).memview().tolist() == [True, False]
    assert Float16(1).memview().format == "e"
    assert TensorXf([[1, 2]]).memview().shape == (1, 2)
    view = Int(1, 2).memview()
    view[0] = 7
    assert view.tolist() == [7, 2]


@pytest.mark.processor
@pytest.mark.parametrize(
    "value",
    [Float(1, 2), Float16(1, 2), Array3f([1, 2], 3, 4), TensorXf([[1, 2]]), Bool(True, False)],
)
def test_dlpack(value: object) -> None:
    np.testing.assert_array_equal(np.from_dlpack(value), value.numpy())
    assert value.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="stream"):
        value.__dlpack__(stream=1)


class OnlyDLPack:
    def __init__(self, data: np.ndarray) -> None:
        self._data = data

    def __dlpack__(self, **arguments: object) -> object:
        return self._data.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()


class OnlyArrayInterface:
    def __init__(self, data: np.ndarray) -> None:
        self._data = data
        self.__array_interface__ = data.__array_interface__


class OnlyArray:
    def __init__(self, data: np.ndarray) -> None:
        self._data = data

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self._data


@pytest.mark.parametrize("wrapper", [OnlyDLPack, OnlyArrayInterface, OnlyArray, memoryview])
def test_construction_from_protocols(wrapper: type) -> None:
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert repr(Array3f(wrapper(data))) == "[[0, 2, 4],\n [1, 3, 5]]"
    assert repr(Float(wrapper(data[0]))) == "[0, 1]"
    assert TensorXf(wrapper(data)).shape == (3, 2)


def test_construction_from_buffers() -> None:
    assert repr(UInt8(b"abcd")) == "[97, 98, 99, 100]"
    assert repr(UInt8(bytearray(b"ab"))) == "[97, 98]"
    assert repr(Int(standard_array.array("i", [1, 2]))) == "[1, 2]"
    assert repr(Float(standard_array.array("d", [1, 2]))) == "[1, 2]"


@pytest.mark.parametrize(("name", "library"), [("torch", "PyTorch"), ("jax", "JAX")])
def test_other_libraries_are_optional(name: str, library: str) -> None:
    if importlib.util.find_spec(name):
        np.testing.assert_array_equal(np.asarray(getattr(Float(1, 2), name)()), [1, 2])
    else:
        with pytest.raises(
            ImportError, match=rf"Float\.{name}\(\): {library} .*pip install {name}"
        ):
            getattr(Float(1, 2), name)()


VALUES = [
    Float(1, 2),
    Float16(1.5, -2),
    Bool(True, False),
    UInt64(2**64 - 1),
    Float(),
    Array3f([1, 2], 3, 4),
    Array3f(),
    Array3b(True, False, True),
    ArrayXf(),
    ArrayXf([1, 2], [3, 4]),
    Matrix2f([1, 2], 3, 4, 5),
    Complex2f([1, 2], 3),
    Quaternion4f(1, 2, 3, 4),
    TensorXf([[1, 2]]),
    TensorXf(3),
    TensorXb([True]),
    S.Array3f(1, 2, 3),
    S.Matrix2f(1, 2, 3, 4),
    S.TensorXf([[1], [2]]),
    dr.llvm.ad.Float(1, 2),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickle(value: object, protocol: int) -> None:
    restored = pickle.loads(pickle.dumps(value, protocol))
    assert type(restored) is type(value)
    assert repr(restored) == repr(value)
    assert restored.numpy().shape == value.numpy().shape


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_copies_are_independent(value: object) -> None:
    text = repr(value)
    for duplicate in (copy.copy(value), copy.deepcopy(value)):
        assert type(duplicate) is type(value) and repr(duplicate) == text
    if isinstance(value, Float) and len(value):
        duplicate[0] = 9
        assert repr(value) == text


@pytest.mark.parametrize("state", [3, (), ((3,), b"1"), ("x", b"")])
def test_a_wrong_state_is_refused(state: object) -> None:
    a = Float(1, 2)
    with pytest.raises(TypeError, match="not a pickled state"):
        a.__setstate__(state)
    assert repr(a) == "[1, 2]"


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("module", [dr.llvm, dr.llvm.ad])
def test_complex_numbers_of_a_tensor_have_their_parts_in_its_last_axis(module, flip):
    for n in (1, 2, 3, 17):
        values = np.random.default_rng(n).random((n, 2)).astype(np.float32)
        made = module.Complex2f(module.TensorXf(values), flip_axes=flip)
        np.testing.assert_array_equal(made.numpy(), values[:, 0] + 1j * values[:, 1])
    with pytest.raises(TypeError):
        module.Complex2f(module.TensorXf(np.zeros((2, 3), np.float32)), flip_axes=flip)


@pytest.mark.parametrize("flip", [False, True])
def test_a_complex_number_from_a_tensor(flip):
    assert S.Complex2f(S.TensorXf([1, 2]), flip_axes=flip).numpy() == 1 + 2j
    assert S.Complex2f64(S.TensorXf([1, 2]), flip_axes=flip).numpy() == 1 + 2j
    with pytest.raises(TypeError):
        S.Complex2f(S.TensorXf([[1, 2]]), flip_axes=flip)


def test_gradients_reach_the_tensor_of_complex_numbers():
    t = dr.llvm.ad.TensorXf([[1, 2], [5, 6], [7, 8]])
    dr.enable_grad(t)
    z = dr.llvm.ad.Complex2f(t)
    dr.backward(z.real * dr.llvm.ad.Float(1, 2, 3) + z.imag * 10)
    assert t.grad.numpy().tolist() == [[1, 10], [2, 10], [3, 10]]

"""Reductions, norms, scans and blocks: every element type, axes, empty arrays, laziness, errors."""

import functools
import math

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array0f,
    Array2f,
    Array3b,
    Array3f,
    Array3i,
    Array33f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    Matrix2f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt,
    UInt8,
)

NUMBERS = ("Int8", "UInt8", "Int", "UInt", "Int64", "UInt64", "Float16", "Float", "Float64")
SIZES = (1, 15, 17, 1000)
OPS = {
    "sum": (dr.ReduceOp.Add, np.add),
    "prod": (dr.ReduceOp.Mul, np.multiply),
    "min": (dr.ReduceOp.Min, np.minimum),
    "max": (dr.ReduceOp.Max, np.maximum),
}
every_number = pytest.mark.parametrize("cls", NUMBERS, indirect=True)


@pytest.fixture
def cls(request):
    return getattr(dr.llvm, request.param)


def numbers(cls, size, name="sum"):
    """Random numbers whose sums, or products, are exact in the element type."""
    rng = np.random.default_rng(size)
    kind = cls(1).numpy().dtype
    if name == "prod":
        return np.where(rng.random(size) < 5 / size, 2, 1).astype(kind)
    return rng.integers(0, 5 if cls is Float16 else 20, size).astype(kind)


def reduce_numpy(ufunc, values, axis=0):
    kind = np.float64 if values.dtype.kind == "f" else values.dtype
    return ufunc.reduce(values.astype(kind), axis=axis, dtype=kind).astype(values.dtype)


# ------------------------------------------------------------------------------ one dimension


@pytest.mark.parametrize("name", OPS)
@every_number
def test_reductions_of_every_type(name, cls, tier):
    op, ufunc = OPS[name]
    for size in SIZES:
        values = numbers(cls, size, name)
        for result in (getattr(dr, name)(cls(values)), dr.reduce(op, cls(values))):
            assert type(result) is cls
            np.testing.assert_array_equal(result.numpy(), [reduce_numpy(ufunc, values)])


@pytest.mark.parametrize("cls", ["UInt8", "Int", "UInt64"], indirect=True)
def test_bitwise_reductions(cls, tier):
    values = numbers(cls, 17) | 64
    assert dr.reduce(dr.ReduceOp.And, cls(values))[0] == np.bitwise_and.reduce(values)
    assert dr.reduce(dr.ReduceOp.Or, cls(values))[0] == np.bitwise_or.reduce(values)


@pytest.mark.parametrize("size", SIZES)
def test_masks(size, tier):
    rng = np.random.default_rng(size)
    for share in (0, 0.5, 1):
        mask = rng.random(size) < share
        assert dr.all(Bool(mask))[0] == mask.all()
        assert dr.any(Bool(mask))[0] == mask.any()
        assert dr.none(Bool(mask))[0] == (not mask.any())
        assert dr.count(Bool(mask))[0] == mask.sum()
        assert type(dr.all(Bool(mask))) is Bool and type(dr.count(Bool(mask))) is UInt


def test_empty_arrays_give_the_neutral_element():
    assert list(dr.sum(Float())) == [0] and list(dr.prod(Float())) == [1]
    assert list(dr.min(Float())) == [np.inf] and list(dr.max(Float())) == [-np.inf]
    assert list(dr.min(Int())) == [2**31 - 1] and list(dr.max(Int())) == [-(2**31)]
    assert list(dr.max(UInt())) == [0] and list(dr.min(UInt8())) == [255]
    assert np.isnan(dr.mean(Float())[0])
    assert list(dr.all(Bool())) == [True] and list(dr.any(Bool())) == [False]
    assert len(dr.sum(Array3f())) == 0
    assert list(dr.sum(Array0f())) == [0] and list(dr.max(ArrayXf())) == [-np.inf]
    assert dr.sum(TensorXf()).numpy() == 0
    assert dr.max(dr.zeros(TensorXf, (2, 0)), axis=1).numpy().tolist() == [-np.inf] * 2
    assert dr.sum(dr.zeros(TensorXf, (2, 0)), axis=0).shape == (0,)


def test_half_precision_sums_are_accumulated_in_single_precision(tier):
    assert list(dr.sum(Float16(np.ones(3000)))) == [3000]
    assert list(dr.sum(Float16(np.full(100, 1000.0)))) == [np.inf]
    assert list(dr.sum(dr.full(Float16, 0.125, 1 << 17))) == [16384]
    assert list(dr.mean(Float16(np.full(3000, 1000.0)))) == [1000]


def test_integers_wrap(tier):
    assert list(dr.sum(UInt8([200, 100]))) == [44]
    assert list(dr.sum(Int8([100, 100]))) == [-56]


def test_reductions_are_traced():
    values = dr.arange(Float, 100) + 1
    total = dr.sum(values)
    mean, top = dr.mean(values), dr.max(values)
    assert values.state == total.state == dr.VarState.Unevaluated
    assert dr.all(values > 0).state == dr.VarState.Unevaluated
    assert dr.sum(dr.full(Float, 2, 5)).state == dr.VarState.Literal
    dr.eval(total, mean, top, values)
    assert (list(total), list(mean), list(top)) == ([5050], [50.5], [100])


def test_a_reduction_can_be_used_at_once(tier):
    values = dr.arange(Float, 1024)
    centred = values - dr.mean(values)
    assert list(dr.sum(centred)) == [0]
    np.testing.assert_allclose(dr.mean(centred * centred).numpy(), [np.var(np.arange(1024))], 1e-6)


def summands(name, size, dtype):
    generator = np.random.default_rng(0)
    make = {
        "same": lambda: np.full(size, 0.1),
        "squares": lambda: np.arange(float(size)) ** 2,
        "uniform": lambda: generator.random(size),
        "normal": lambda: generator.normal(size=size),
    }
    return make[name]().astype(dtype)


@functools.cache
def exact_sum(name, size, dtype):
    """The sum of numbers, and that of their magnitudes."""
    values = summands(name, size, dtype)
    return math.fsum(values.tolist()), float(np.sum(np.abs(values), dtype=np.longdouble))


def sums(kind, values):
    """A sum over all lanes, of evaluated ones and of others, over a run, and over two columns of
    which the second is the negative of the first."""
    columns = dr.tensor_t(kind)(np.stack([values, -values], axis=1))
    return [
        dr.sum(kind(values))[0],
        dr.sum(kind(values) * 1)[0],
        dr.block_sum(kind(values), len(values))[0],
        dr.sum(columns, axis=0).array[0],
    ]


def rounds_like_pairwise(kind, name, size):
    dtype = np.float32 if kind is Float else np.float64
    values, (total, magnitude) = summands(name, size, dtype), exact_sum(name, size, dtype)
    bound = 3 * np.finfo(dtype).eps * magnitude
    return [abs(found - total) <= bound for found in sums(kind, values)] == [True] * 4


@pytest.mark.parametrize("kind", [Float, Float64])
@pytest.mark.parametrize("size", [17, 1000, 1024, 99_000, 1_100_000])
@pytest.mark.parametrize("name", ["same", "squares", "uniform", "normal"])
def test_sums_round_no_more_than_pairwise_ones(name, size, kind, tier):
    """Whatever their length and the lanes of a packet: over all lanes, runs and columns."""
    assert rounds_like_pairwise(kind, name, size)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sums_round_no_more_with_few_threads(threads, tier):
    """Each of which adds more terms."""
    before = dr.thread_count()
    dr.set_thread_count(threads)
    try:
        assert rounds_like_pairwise(Float, "same", 3_000_000)
    finally:
        dr.set_thread_count(before)


@pytest.mark.parametrize("kind", [Float, Float64])
@pytest.mark.parametrize("size", [20, 1000, 400_000])
def test_sums_of_infinities_and_negative_zeros(size, kind, tier):
    values, inf = np.ones(size), np.inf
    values[size // 3] = inf
    assert sums(kind, values) == [inf] * 4
    values[-1] = inf
    assert sums(kind, -values) == [-inf] * 4
    values[-2] = -inf
    assert np.isnan(sums(kind, values)).all()
    big = np.finfo(np.float32 if kind is Float else np.float64).max
    assert sums(kind, np.full(size, big)) == [inf] * 4
    assert sums(kind, np.where(np.arange(size) % 128 < 2, big, 0)) == [inf] * 4
    assert np.signbit(sums(kind, np.full(size, -0.0))).all()
    assert sums(kind, np.resize([1.0, -1.0], size)) == [0] * 4


def test_the_mean_is_the_sum_times_a_rounded_reciprocal():
    ones = dr.opaque(Float, 1, 41)
    expected = np.float32(1) / np.float32(41) * np.float32(41)
    assert expected != 1 and dr.mean(ones)[0] == expected


def test_large_sum_of_the_manual():
    a = dr.linspace(Float, 0, 1, 1_000_000)
    assert str(dr.mean(dr.sin(a**2))) == "[0.310268]"


# ------------------------------------------------------------------------------ axes


@pytest.mark.parametrize("name", OPS)
def test_axes_of_nested_arrays(name, tier):
    values = np.arange(1, 13, dtype=np.float32).reshape(3, 4) / 4
    f, array = getattr(dr, name), Array3f(values)
    ufunc = OPS[name][1]
    for axis in (0, 1, -1, -2):
        got = f(array, axis=axis)
        assert type(got) is (Float if axis in (0, -2) else Array3f)
        expected = reduce_numpy(ufunc, values, axis)
        np.testing.assert_allclose(got.numpy().ravel(), expected.ravel(), 1e-6)
    for axis in (None, (0, 1), (1, 0), (-1, 0, 0)):
        np.testing.assert_allclose(
            f(array, axis).numpy(), [reduce_numpy(ufunc, values.ravel())], 1e-6
        )
    np.testing.assert_array_equal(f(array).numpy(), f(array, axis=0).numpy())
    np.testing.assert_array_equal(f(array, axis=()).numpy(), values)
    np.testing.assert_array_equal(
        getattr(dr, f"{name}_nested")(array).numpy(), f(array, None).numpy()
    )


def test_types_that_remain():
    matrix = Matrix2f(1, 2, 3, 4)
    assert type(dr.sum(matrix)) is Array2f and dr.sum(matrix).numpy().ravel().tolist() == [4, 6]
    assert type(dr.sum(matrix, 1)) is Array2f and dr.sum(matrix, 1).numpy().ravel().tolist() == [
        3,
        7,
    ]
    assert type(dr.sum(matrix, 2)) is Matrix2f and list(dr.sum(matrix, (0, 1))) == [10]
    assert type(dr.sum(Complex2f([1, 2], [3, 4]), 1)) is Complex2f
    assert list(dr.sum(Quaternion4f(1, 2, 3, 4))) == [10] and list(dr.prod(Complex2f(1, 2))) == [2]
    assert dr.sum(Array33f(1), 1).numpy().ravel().tolist() == [3, 3, 3]


def test_components_of_one_entry_count_as_broadcast():
    array = Array3f([1, 2], 3, 4)
    assert dr.sum(array, axis=0).numpy().tolist() == [8, 9]
    assert dr.sum(array, axis=1).numpy().ravel().tolist() == array.numpy().sum(1).tolist()
    assert dr.mean(array, axis=None)[0] == pytest.approx(array.numpy().mean())


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 1, 17), (2, 3, 4, 5)])
def test_axes_of_tensors(name, shape, tier):
    rng = np.random.default_rng(0)
    values = rng.integers(1, 4, shape).astype(np.float64)
    tensor = dr.llvm.TensorXf64(values)
    ufunc = OPS[name][1]
    every = tuple(range(len(shape)))
    for axis in (*every, -1, (), every, (0, len(shape) - 1)):
        for keepdims in (False, True):
            got = getattr(dr, name)(tensor, axis=axis, keepdims=keepdims)
            where = tuple({axis}) if isinstance(axis, int) else tuple(set(axis))
            expected = ufunc.reduce(values, axis=where, keepdims=keepdims)
            assert type(got) is dr.llvm.TensorXf64 and got.shape == expected.shape
            np.testing.assert_allclose(got.numpy(), expected)
    assert getattr(dr, name)(tensor).shape == ()


def test_tensors_of_other_types(tier):
    mask = np.array([[True, False, True], [True, True, True]])
    assert dr.all(TensorXb(mask), axis=1).numpy().tolist() == [False, True]
    assert dr.any(TensorXb(mask), axis=0).numpy().tolist() == [True] * 3
    assert dr.count(TensorXb(mask), axis=1).numpy().tolist() == [2, 3]
    assert dr.sum(TensorXi(np.arange(6).reshape(2, 3)), 0).numpy().tolist() == [3, 5, 7]
    assert dr.sum(dr.scalar.TensorXf([[1, 2], [3, 4]]), 1).numpy().tolist() == [3, 7]
    assert dr.mean(TensorXf([[1, 2], [3, 5]]), 1).numpy().tolist() == [1.5, 4]


def test_python_values():
    assert dr.sum(5) == 5 and dr.max(5.5) == 5.5 and dr.mean(5) == 5
    assert dr.sum([1, 2, 3]) == 6 and dr.prod((2, 3)) == 6 and dr.sum(x for x in [1, 2]) == 3
    assert dr.sum([]) == 0 and dr.prod([]) == 1 and dr.max([]) == -np.inf and dr.min([1, 2]) == 1
    assert dr.mean([1, 2, 6]) == 3
    assert list(dr.sum([Float(1, 2), Int(3, 4)])) == [4, 6]
    assert list(dr.sum([Float(1, 2), Float(3, 4)], axis=None)) == [10]
    assert dr.all([True, False]) is False and dr.any([True, False]) is True and dr.none([]) is True
    assert list(dr.all([Bool(True, False), True])) == [True, False]
    assert dr.count([True, False, True]) == 2 and dr.count(True) == 1
    scalar = dr.scalar.Array3f(1, 2, 3)
    assert dr.sum(scalar) == 6 and dr.max(scalar) == 3 and dr.mean(scalar) == 2
    assert dr.sum(dr.scalar.Matrix2f(1, 2, 3, 4), axis=None) == 10
    assert list(dr.sum(dr.scalar.Matrix2f(1, 2, 3, 4), axis=1)) == [3, 7]
    assert dr.all(dr.scalar.Array3b(True)) is True and dr.count(dr.scalar.Array3b(True)) == 3


def test_masks_of_nested_arrays():
    mask = Array3b([True, False], True, True)
    assert list(dr.all(mask)) == [True, False]
    assert list(dr.all(mask, axis=None)) == [False]
    assert dr.all(mask, axis=1).numpy().ravel().tolist() == [False, True, True]
    assert list(dr.count(mask)) == [3, 2] and list(dr.count(mask, axis=None)) == [5]
    assert list(dr.all_nested(Array3f(1) == Array3f(1))) == [True]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: dr.sum(Float(1, 2), axis=1), "out-of-bounds axis 1 of an array of 1 dim"),
        (lambda: dr.sum(Array3f(1), axis=-3), "axis -3"),
        (lambda: dr.sum(Array3f(1), axis="x"), "'axis'"),
        (lambda: dr.sum(Array3f(1), axis=1.5), "'axis'"),
        (lambda: dr.sum(Array3f(1), keepdims=True), "keepdims=True"),
        (lambda: dr.sum([1.0, 2.0], keepdims=True), "keepdims=True"),
        (lambda: dr.max(5, keepdims=True), "keepdims=True"),
        (lambda: dr.all((True, "hello")), "bool.*str"),
        (lambda: dr.none((False, "hello")), "bool.*str"),
        (lambda: dr.sum([1, None]), "int.*NoneType"),
        (lambda: dr.min([1, "a"]), "str.*int"),
        (lambda: dr.sum(Float(1), mode="other"), "'mode'"),
        (lambda: dr.sum(Bool(True)), r"dr\.sum\(<drjit\.llvm\.Bool>\)"),
        (lambda: dr.all(Float(1)), "expected a mask"),
        (lambda: dr.count(Float(1)), "expected a mask"),
        (lambda: dr.sum(True), "expected"),
        (lambda: dr.all(1), "expected"),
        (lambda: dr.sum([1], axis=1), "'axis' must be 0 or None"),
        (lambda: dr.reduce(dr.ReduceOp.And, Float(1)), "not defined"),
        (lambda: dr.reduce(dr.ReduceOp.Identity, Float(1)), "not a reduction"),
        (lambda: dr.dot(Float(1, 2), Float(1, 2, 3)), "2.*3|sizes"),
        (lambda: dr.dot(Array3f(1), Array2f(1)), r"dr\.dot"),
        (lambda: dr.dot([1, 2], [1]), "2 and 1"),
        (lambda: dr.dot(1, 2), "expected"),
        (lambda: dr.norm(Int(3, 4)), r"dr\.norm"),
        (lambda: dr.cumsum(Bool(True)), "masks"),
        (lambda: dr.cumsum(TensorXf([1]), axis=1), "axis 1"),
        (lambda: dr.block_sum(Float(1, 2), 0), "'block_size'"),
        (lambda: dr.block_sum(Float(1, 2), 3), "only 2 entries"),
    ],
)
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_the_mean_of_integers_is_refused():
    with pytest.raises(TypeError, match=r"convert to drjit\.llvm\.Float first"):
        dr.mean(Int(1, 2))
    with pytest.raises(TypeError):
        dr.cumsum(5)
    with pytest.raises(TypeError):
        dr.sum(None)


# ------------------------------------------------------------------------------ products and norms


@pytest.mark.parametrize(
    "shape, axis, expected",
    [((1, 5), 1, ()), ((5, 1), 0, ()), ((1, 5), 0, (5,)), ((2, 3), 1, (2,)), ((1, 1), 0, ()),
     ((1, 1, 1, 5), -1, ()), ((1, 2, 1, 3), (1, 3), ()), ((1, 2, 1, 3), 3, (1, 2, 1)),
     ((2, 3), None, ()), ((1, 1), (), ())],
)  # fmt: skip
@pytest.mark.parametrize("f", [dr.norm, dr.squared_norm])
def test_norms_of_single_vectors_have_no_axes(f, shape, axis, expected):
    value = TensorXf(dr.arange(Float, int(np.prod(shape))), shape)
    found = f(value, axis=axis)
    assert found.shape == expected
    squares = np.sum(value.numpy() ** 2, axis=axis).reshape(expected)
    wanted = squares if f is dr.squared_norm else np.sqrt(squares)
    np.testing.assert_allclose(found.numpy(), wanted, 1e-6)
    axes = axis if isinstance(axis, tuple) else range(len(shape)) if axis is None else (axis,)
    kept = tuple(1 if k in {a % len(shape) for a in axes} else n for k, n in enumerate(shape))
    assert f(value, axis=axis, keepdims=True).shape == kept


def test_dot_and_norms(tier):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 17)).astype(np.float32)
    np.testing.assert_allclose(dr.dot(Array3f(a), Array3f(b)).numpy(), (a * b).sum(0), 1e-6)
    np.testing.assert_allclose(dr.abs_dot(Array3f(a), -Array3f(b)).numpy(), (a * b).sum(0), 1e-6)
    np.testing.assert_allclose(dr.norm(Array3f(a)).numpy(), np.linalg.norm(a, axis=0), 1e-6)
    np.testing.assert_allclose(
        dr.norm(Array3f(a), axis=1).numpy()[:, 0], np.linalg.norm(a, axis=1), 1e-6
    )
    np.testing.assert_allclose(dr.dot(Float(a[0]), Float(b[0])).numpy(), [a[0] @ b[0]], 1e-6)
    np.testing.assert_allclose(dr.squared_norm(Float(a[0])).numpy(), [a[0] @ a[0]], 1e-6)
    tensor = TensorXf(a)
    np.testing.assert_allclose(dr.norm(tensor).numpy(), np.linalg.norm(a), 1e-6)
    np.testing.assert_allclose(
        dr.norm(tensor, axis=1, keepdims=True).numpy(),
        np.linalg.norm(a, axis=1, keepdims=True),
        1e-6,
    )


@pytest.mark.parametrize("namespace", [dr.llvm, dr.llvm.ad, dr.scalar])
def test_norms_along_axes(namespace):
    """Arrays of any kind become numbers along their last axis."""
    for value in (namespace.Array3f(1, 2, 2), namespace.ArrayXf(1, 2, 2)):
        for axis in (0, None, ...):
            assert np.ravel(dr.norm(value, axis)).tolist() == [3]
            assert np.ravel(dr.squared_norm(value, axis)).tolist() == [9]
    matrix = namespace.Matrix2f(1, 2, 2, 4)
    assert np.ravel(dr.norm(matrix, axis=None)).tolist() == [5]


def test_arrays_without_entries_are_normalized(tier):
    for cls in (Float, Float16, Array3f):
        assert dr.width(dr.normalize(dr.zeros(cls, 0))) == 0


@pytest.mark.parametrize("dtype", [Float16, Float, Float64])
@pytest.mark.parametrize("function", [dr.mean, dr.var, dr.std])
def test_axes_that_are_arrays_are_refused(function, dtype):
    with pytest.raises(RuntimeError, match="'axis' must be an int"):
        function(dtype(1, 2), Float(1))


@pytest.mark.parametrize("namespace", [dr.llvm, dr.llvm.ad, dr.scalar])
def test_dot_of_arrays_of_different_depth(namespace):
    """The entries along axis 0 are the terms."""
    a, m = namespace.Array2f(1, 2), namespace.Matrix2f(1, 2, 3, 4)
    t = namespace.TensorXf([[1, 2], [3, 4]])
    for x, y in ((a, m), (m, a), (a, t), (t, a)):
        assert np.ravel(dr.dot(x, y)).tolist() == [7, 10]
    with pytest.raises(RuntimeError, match=r"dr\.dot"):
        dr.dot(namespace.Array3f(1), m)


def test_dot_rounds_once_a_term():
    x = np.array([0.1, 0.7, 0.3], np.float32)
    exact = np.float32(x[0] * x[0])
    for v in x[1:]:
        exact = np.float32(float(v) * float(v) + float(exact))
    assert dr.squared_norm(Array3f(*[Float(float(v)) for v in x]))[0] == exact


def test_products_of_other_types():
    assert list(dr.dot(Array3i(1, 2, 3), Array3i(4, 5, 6))) == [32]
    assert list(dr.dot(Int(1, 2), Float(3, 4))) == [11]
    assert list(dr.dot(Array3f(1, 2, 3), 2)) == [12] and list(
        dr.dot(Array3f(1, 2, 3), Float(2))
    ) == [12]
    assert dr.dot([1, 2], [3, 4]) == 11 and dr.norm([3, 4]) == 5 and dr.norm(-5.5) == 5.5
    assert dr.dot(dr.scalar.Array3f(1, 2, 3), dr.scalar.Array3f(1, 2, 3)) == 14
    assert list(dr.dot(Complex2f(1, 2), Complex2f(3, 4))) == [11]
    assert list(dr.squared_norm(Quaternion4f(1, 2, 3, 4))) == [30] and list(
        dr.norm(Complex2f(3, 4))
    ) == [5]
    assert dr.dot(Matrix2f(1, 2, 3, 4), Matrix2f(1, 2, 3, 4)).numpy().ravel().tolist() == [10, 20]
    assert dr.squared_norm(Matrix2f(1, 2, 3, 4)).numpy().ravel().tolist() == [10, 20]


# ------------------------------------------------------------------------------ scans


def scan_numpy(ufunc, values, exclusive, reverse, identity):
    rows = values[::-1] if reverse else values
    kind = np.float64 if values.dtype.kind == "f" else values.dtype
    found = ufunc.accumulate(rows.astype(kind), dtype=kind)
    if exclusive and len(found):
        found = np.concatenate([np.array([identity], kind), found[:-1]])
    return (found[::-1] if reverse else found).astype(values.dtype)


@pytest.mark.parametrize("reverse", [False, True])
@every_number
def test_running_sums(cls, reverse, tier):
    for size in (0, *SIZES, 40_000):
        values = (numbers(cls, size) if size else numbers(cls, 1)[:0]) % (2 if size > 1000 else 20)
        if cls is Float16:
            values = values % 2 if size <= 1000 else values * 0
        for f, exclusive in ((dr.cumsum, False), (dr.prefix_sum, True)):
            got = f(cls(values), reverse=reverse)
            assert type(got) is cls
            np.testing.assert_array_equal(
                got.numpy(), scan_numpy(np.add, values, exclusive, reverse, 0)
            )


@pytest.mark.parametrize("name, identity", [("prod", 1), ("min", 2**31 - 1), ("max", -(2**31))])
def test_other_prefix_reductions(name, identity, tier):
    op, ufunc = OPS[name]
    values = numbers(Int, 100, name)
    for exclusive in (False, True):
        for reverse in (False, True):
            got = dr.prefix_reduce(op, Int(values), exclusive=exclusive, reverse=reverse)
            expected = scan_numpy(ufunc, values, exclusive, reverse, identity)
            np.testing.assert_array_equal(got.numpy(), expected)


def test_scans_along_axes(tier):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (0, 1, 2, -1):
        got = dr.cumsum(TensorXf(values), axis=axis)
        np.testing.assert_array_equal(got.numpy(), values.cumsum(axis))
        back = dr.cumsum(TensorXf(values), axis=axis, reverse=True).numpy()
        np.testing.assert_array_equal(back, np.flip(np.flip(values, axis).cumsum(axis), axis))
    got = dr.cumsum(TensorXf(values), axis=(0, 2)).numpy()
    np.testing.assert_array_equal(got, values.cumsum(0).cumsum(2))
    nested = Array3f(values[0])
    np.testing.assert_array_equal(dr.cumsum(nested).numpy(), values[0].cumsum(0))
    np.testing.assert_array_equal(dr.cumsum(nested, axis=1).numpy(), values[0].cumsum(1))
    assert dr.prefix_sum(nested).numpy()[0].tolist() == [0] * 4
    assert dr.cumsum([1, 2, 3]) == [1, 3, 6] and dr.prefix_sum((1, 2, 3)) == (0, 1, 3)
    assert list(dr.prefix_sum(dr.scalar.Array3f(1, 2, 3))) == [0, 1, 3]
    assert dr.cumsum(dr.scalar.TensorXf([[1, 2], [3, 4]]), 1).numpy().tolist() == [[1, 3], [3, 7]]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 16, 100])
@pytest.mark.parametrize("name", OPS)
def test_blocks(name, block, tier):
    op, ufunc = OPS[name]
    for size in (100, 1008):
        values = numbers(Int, size, name)
        starts = range(0, size, block)
        got = dr.block_reduce(op, Int(values), block)
        assert got.numpy().tolist() == [ufunc.reduce(values[s : s + block]) for s in starts]
        for exclusive, reverse in ((False, False), (True, True)):
            got = dr.block_prefix_reduce(op, Int(values), block, exclusive, reverse)
            identity = {"sum": 0, "prod": 1, "min": 2**31 - 1, "max": -(2**31)}[name]
            expected = [
                scan_numpy(ufunc, values[s : s + block], exclusive, reverse, identity)
                for s in starts
            ]
            np.testing.assert_array_equal(got.numpy(), np.concatenate(expected))


def test_blocks_of_other_things(tier):
    values = np.arange(12, dtype=np.float32)
    assert dr.block_sum(TensorXf(values.reshape(2, 6)), 3).numpy().tolist() == [3, 12, 21, 30]
    assert dr.block_prefix_sum(TensorXf(values.reshape(2, 6)), 6).shape == (2, 6)
    assert dr.block_sum(Array3f([1, 2], [3, 4], 5), 2).numpy().ravel().tolist() == [3, 7, 10]
    assert [list(v) for v in dr.block_sum([Float(1, 2)], 2)] == [[3]]
    assert len(dr.block_sum(Float(), 2)) == 0
    assert list(dr.block_sum(Float64(values), 12)) == [66]
    assert list(dr.block_sum(Float16(np.ones(4096)), 4096)) == [4096]


@pytest.mark.parametrize("block", [2, 5, 70])
def test_running_sums_of_negative_zeros_stay_negative(block, tier):
    """Only the 0 that an exclusive sum starts with is positive."""
    x = Float(np.full(75, -0.0))
    assert np.signbit(dr.block_prefix_sum(x, block, exclusive=False).numpy()).all()
    first = np.arange(75) % block == 0
    exclusive = dr.block_prefix_sum(x, block).numpy()
    assert not np.signbit(exclusive[first]).any() and (exclusive == 0).all()


def test_minimum_and_maximum_ignore_nan(tier):
    nan = float("nan")
    values = np.arange(100, dtype=np.float32)
    values[[0, 50, 99]] = nan
    assert list(dr.max(Float(values))) == [98] and list(dr.min(Float(values))) == [1]
    for a, b in ((1, nan), (nan, 1)):
        assert list(dr.max(Array2f(a, b))) == [1] == list(dr.min(Array2f(a, b)))
        assert list(dr.max(dr.opaque(Array2f, [a, b]))) == [1]
        assert dr.max([a, b]) == 1 == dr.min(dr.scalar.Array2f(a, b))


SCALARS = [
    ("ArrayXi8", np.int8, [100, 100, 7]), ("ArrayXu8", np.uint8, [200, 200, 3]),
    ("ArrayXi", np.int32, [2**31 - 1, 5, 3]), ("ArrayXu64", np.uint64, [2**64 - 1, 5, 3]),
    ("ArrayXf", np.float32, [3e38, 3e38, 1]), ("TensorXi8", np.int8, [100, 100, 7]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "values"), SCALARS)
def test_scans_and_products_of_scalars_stay_in_their_type(name, dtype, values):
    x, a = getattr(dr.scalar, name)(values), np.array(values, dtype)
    with np.errstate(all="ignore"):
        sums = np.cumsum(a, dtype=dtype)
        squares = np.sum(a * a, dtype=dtype)
        totals = np.array([a[0] + a[1], a[2]])
        before = np.array([0, a[0], 0], dtype)
    np.testing.assert_array_equal(dr.cumsum(x).numpy(), sums)
    np.testing.assert_array_equal(dr.cumsum(x, reverse=True).numpy()[0], sums[-1])
    np.testing.assert_array_equal(dr.block_sum(x, 2).numpy(), totals)
    np.testing.assert_array_equal(dr.block_prefix_sum(x, 2).numpy(), before)
    assert np.ravel(dr.squared_norm(x))[0] == squares == np.ravel(dr.dot(x, x))[0]


def test_a_block_may_be_longer_than_one_entry_and_scalar_arrays(tier):
    assert list(dr.block_sum(Float(7), 3)) == [7]
    assert list(dr.block_prefix_sum(Float(7), 3, exclusive=False)) == [7]
    assert dr.block_sum(Array3f(1, 2, 3), 3).numpy().tolist() == [[1], [2], [3]]
    assert list(dr.block_sum(dr.scalar.ArrayXf(7, 8), 4)) == [15]
    assert list(dr.block_prefix_sum(dr.scalar.ArrayXf(7, 8), 4)) == [0, 7]


def test_blocks_of_scalars():
    x = dr.scalar.ArrayXf(1, 2, 3, 4, 5)
    assert list(dr.block_reduce(dr.ReduceOp.Max, x, 2)) == [2, 4, 5]
    assert list(dr.block_prefix_reduce(dr.ReduceOp.Mul, x, 3, False, True)) == [6, 6, 3, 20, 5]
    assert len(dr.block_sum(dr.scalar.ArrayXf(), 2)) == 0
    assert dr.block_sum(dr.scalar.TensorXf([[1, 2], [3, 4]]), 2).numpy().tolist() == [3, 7]
    assert list(dr.block_sum(x, 9)) == [15]
    for other in (dr.scalar.Array3f(1, 2, 3), dr.scalar.ArrayXb(True)):
        with pytest.raises(RuntimeError, match="not defined for"):
            dr.block_sum(other, 1)
    with pytest.raises(TypeError, match="mean of integers"):
        dr.mean(dr.scalar.TensorXi([1, 2]))


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_statistics_of_integers_are_refused_under_their_own_names(name):
    with pytest.raises(
        TypeError, match=rf"^dr\.{name}\(<drjit.llvm.TensorXi>\): the .* of integers"
    ):
        getattr(dr, name)(TensorXi([1, 2]))


# Enough rows to be reduced in chunks: odd columns, several matrices, several strips.
@pytest.mark.parametrize("shape", [(3001, 101), (3, 2500, 37), (70, 9001), (40000, 8)], ids=str)
@pytest.mark.parametrize("name", OPS)
@every_number
def test_chunks_of_rows_are_joined(name, cls, shape, tier):
    _, ufunc = OPS[name]
    values = numbers(cls, np.prod(shape), name).reshape(shape)
    axis = len(shape) - 2
    result = getattr(dr, name)(dr.tensor_t(cls)(values), axis=axis)
    with np.errstate(over="ignore"):
        want = reduce_numpy(ufunc, values, axis)
    np.testing.assert_array_equal(result.numpy(), want)

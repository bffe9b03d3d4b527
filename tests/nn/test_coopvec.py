"""Cooperative vectors and matrix views: values against NumPy, conversions, kernels, errors."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from helpers import launched, named, uniform

import drjit as dr
from drjit import nn
from drjit.ad.graph import Value
from drjit.array import inline
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node, op
from drjit.jit.trace import feature_vectors, record
from drjit.jit.trace.feature_vectors import matvec
from drjit.llvm import Float as PlainFloat
from drjit.llvm.ad import (
    Array2f,
    Array3f,
    Array3f16,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Matrix2f,
    TensorXf,
    TensorXf16,
    TensorXf64,
    UInt,
)

TYPES = {
    np.float16: (Float16, TensorXf16, 2e-3),
    np.float32: (Float, TensorXf, 2e-6),
    np.float64: (Float64, TensorXf64, 1e-14),
}
SIZES = (1, 15, 17, 1000)


def rand(shape, seed=0, dtype=np.float32):
    return uniform(shape, seed, dtype)


def vector(values):
    """A cooperative vector with rows of an array as features."""
    cls = TYPES[values.dtype.type][0]
    return nn.CoopVec(*[cls(row) for row in values])


def features(v):
    """The features of a cooperative vector as rows of a NumPy array."""
    parts = list(v)
    dr.eval(parts)
    return np.stack([x.numpy() for x in parts])


# ---- Types of vectors


def test_types_of_vectors_are_objects_of_their_own():
    t = dt.vector(dt.f16, 64)
    assert (t.code, t.name, t.count, t.element) == ("f16x64", "float16x64", 64, dt.f16)
    assert t is dt.vector(dt.f16, 64)
    assert t is not dt.vector(dt.f16, 63)
    assert t.mask_type is dt.vector(dt.mask, 64)
    assert t.is_float
    assert not t.is_mask
    assert pickle.loads(pickle.dumps(t)) is t
    assert dt.vector(dt.f16, 1) is not dt.f16
    assert (dt.f16.element, dt.f16.count, dt.f16.mask_type) == (dt.f16, 1, dt.mask)


# ---- Construction and unpacking


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((Float([1, 2]), Float(3), 4), [[1, 2], [3, 3], [4, 4]]),
        ((Array3f([1, 2], 3, 4), 5.5), [[1, 2], [3, 3], [4, 4], [5.5, 5.5]]),
        (({"a": Float(1, 2), "b": [Float(3), 4]},), [[1, 2], [3, 3], [4, 4]]),
        ((7, Float(1, 2)), [[7, 7], [1, 2]]),
        ((Complex2f(1, 2), Matrix2f(1, 2, 3, 4)), [[1], [2], [1], [2], [3], [4]]),
        ((TensorXf([[1, 2, 3], [4, 5, 6]]),), [[1, 2, 3], [4, 5, 6]]),
        ((TensorXf([1, 2]),), [[1], [2]]),
        ((Float(1), np.float32(2), Int(3, 4)), [[1, 1], [2, 2], [3, 4]]),
        ((ArrayXf([1, 2], 3), dr.scalar.Array2f(4, 5)), [[1, 2], [3, 3], [4, 4], [5, 5]]),
    ],
    ids=str,
)
def test_construction(args, expected, tier):
    v = nn.CoopVec(*args)
    assert v.type is Float
    assert len(v) == len(expected)
    assert repr(v) == named(f"drjit.nn.CoopVec[drjit.llvm.ad.Float, shape={np.shape(expected)}]")
    np.testing.assert_array_equal(features(v + 0), expected)
    # As a part of another one.
    np.testing.assert_array_equal(features(nn.CoopVec(v, v) + 0), expected * 2)


def test_the_first_array_determines_the_type():
    assert nn.CoopVec(Float16(1), Float(2)).type is Float16
    assert nn.CoopVec(Float(1), Float16(2)).type is Float
    assert nn.CoopVec(PlainFloat(1), 2).type is PlainFloat
    assert nn.CoopVec(PlainFloat(1), Float16(2)).type is Float  # derivatives are not lost
    assert nn.CoopVec[Float16] is not None  # in annotations


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_keep_the_data_and_derivatives(duplicate, tier):
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    v = duplicate(nn.CoopVec(x * x, 4))
    a, b = v
    assert (a.numpy().tolist(), b.numpy().tolist()) == ([1, 4, 9], [4, 4, 4])
    dr.backward(a)
    assert x.grad.numpy().tolist() == [2, 4, 6]


def test_a_copy_outlives_the_original():
    x = Float(np.full(1000, 7))
    tree = copy.deepcopy([nn.CoopVec(x, 1)])
    address = weakref.ref(x._node.data)
    del x
    gc.collect()
    assert address() is not None  # the memory that the copy reads
    del tree
    gc.collect()
    assert address() is None


def test_vectors_cannot_be_pickled():
    with pytest.raises(TypeError, match=r"CoopVec\[.*cannot be pickled.*Unpack it"):
        pickle.dumps(nn.CoopVec(Float(1), 2))


def test_conversion_to_arrays(tier):
    v = nn.CoopVec(Float16([1, 2, 3]), 2, Float16(0.1)) + 0
    assert repr(Array3f16(v)) == repr(Array3f16([1, 2, 3], 2, Float16(0.1)))
    assert type(Array3f(v).x) is Float
    assert dr.allclose(Array3f(*v), Array3f([1, 2, 3], 2, 0.1), atol=1e-4)
    np.testing.assert_array_equal(TensorXf16(v).numpy()[:2], [[1, 2, 3], [2, 2, 2]])
    x, *rest = v
    assert len(rest) == 2
    assert repr(x) == "[1, 2, 3]"
    with pytest.raises(TypeError, match="expected 2 elements, got 3"):
        Array2f(v)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((), RuntimeError, "cannot be empty"),
        (([], {}), RuntimeError, "cannot be empty"),
        ((1, 2.0), TypeError, "at least one one-dimensional array"),
        ((Int(1), 2**40), TypeError, "Could not promote type 'int': the number 1099511627776"),
        ((UInt(1), -1), RuntimeError, "Could not promote type 'int': the number -1"),
        ((Bool(True),), TypeError, "features are numbers.*drjit.llvm.ad.Bool"),
        ((Float(1), "x"), TypeError, "cannot convert a value of type str"),
        ((Float(1), None), TypeError, "NoneType"),
        ((Float(1, 2), Float(1, 2, 3)), RuntimeError, r"CoopVec\(\): .*sizes \(2, 3\)"),
        ((TensorXf(np.zeros((2, 2, 2), np.float32)),), TypeError, r"\(2, 2, 2\)"),
    ],
    ids=str,
)
def test_construction_from_the_wrong_things(args, error, message):
    with pytest.raises(error, match=message):
        nn.CoopVec(*args)


def test_sizes():
    v = nn.CoopVec(Float(1, 2, 3), 2)
    assert (len(v), dr.width(v), dr.width([v, Float(1)])) == (2, 3, 3)
    assert bool(v)
    assert {v: 1}[v] == 1


def test_there_is_no_indexing():
    v = nn.CoopVec(Float(1), 2)
    with pytest.raises(TypeError, match=r"no indexing.*Unpack"):
        v[0]
    with pytest.raises(TypeError, match="no indexing"):
        v[0] = 1


def test_vectors_cannot_be_evaluated():
    v = nn.CoopVec(Float(1, 2), 2)
    for function in (dr.eval, dr.schedule, dr.make_opaque):
        with pytest.raises(RuntimeError, match=r"CoopVec\[.*cannot be evaluated.*Unpack"):
            function({"v": v})
    assert dr.eval(list(v * 2))


# ---- Element-wise operations


UNARY = {
    name: getattr(dr, name)
    for name in (
        "abs", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "sin", "cos", "tan",
        "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "floor", "ceil", "round",
        "trunc", "square", "rcp", "rsqrt", "sign", "isnan", "isinf", "isfinite",
    )
} | {"neg": lambda x: -x, "abs()": abs, "clip": lambda x: dr.clip(x, -0.5, 0.5)}  # fmt: skip
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "minimum": dr.minimum,
    "maximum": dr.maximum,
    "atan2": dr.atan2,
    "fma": lambda a, b: dr.fma(a, b, a),
    "fma_number": lambda a, b: dr.fma(a, 2, b),
    "lerp": lambda a, b: dr.lerp(a, b, 0.25),
    "select": lambda a, b: dr.select(a < b, a, b),
    "select_ge": lambda a, b: dr.select(a >= b, 1, a * b),
    "select_eq": lambda a, b: dr.select(a == b, 1, a + b),
    "select_ne": lambda a, b: dr.select(a != b, a - b, 1),
}


def check_same(pairs):
    """Arrays that have to be equal in type and value; one kernel computes them all."""
    pairs = [(x, y) for found, expected in pairs for x, y in zip(found, expected, strict=True)]
    dr.eval(pairs)
    for found, expected in pairs:
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", TYPES)
def test_unary_functions_are_those_of_each_feature(dtype, tier):
    values = rand((3, 17), 1, dtype)
    values[0, :3] = 0, np.nan, np.inf
    rows = [TYPES[dtype][0](row) for row in values]
    v = nn.CoopVec(rows)
    check_same([(function(v), map(function, rows)) for function in UNARY.values()])


@pytest.mark.parametrize("dtype", TYPES)
def test_binary_functions_are_those_of_each_feature(dtype, tier):
    cls = TYPES[dtype][0]
    a = [cls(row) for row in rand((3, 17), 1, dtype)]
    b = [cls(row) for row in rand((3, 17), 2, dtype)]
    b[2] = cls(a[2])
    v, w = nn.CoopVec(a), nn.CoopVec(b)
    for function in BINARY.values():
        pairs = [(function(v, w), map(function, a, b))]
        for other in (b[0], 0.25):
            pairs.append((function(v, other), [function(x, other) for x in a]))
            pairs.append((function(other, v), [function(other, x) for x in a]))
        check_same(pairs)


def test_steps(tier):
    v = nn.CoopVec(Float16(1, 2), 2, 3)
    assert features(dr.step(v, 2)).tolist() == [[0, 1], [1, 1], [1, 1]]
    assert features(dr.step(2, v)).tolist() == [[1, 1], [1, 1], [0, 0]]
    assert dr.step(v, v).type is Float16


def test_a_mask_of_lanes_selects_whole_vectors(tier):
    a, b = rand((3, 17), 1), rand((3, 17), 2)
    mask = np.arange(17) % 3 == 0
    found = features(dr.select(Bool(mask), vector(a), vector(b)))
    np.testing.assert_array_equal(found, np.where(mask, a, b))
    np.testing.assert_array_equal(
        features(dr.select(Bool(mask), vector(a), 2)), np.where(mask, a, 2)
    )
    np.testing.assert_array_equal(features(dr.select(True, vector(a), vector(b))), a)


def test_arrays_of_another_precision_become_features(tier):
    v = nn.CoopVec(Float16(1, 2), 3) + Float(0.1)
    assert v.type is Float16
    expected = np.float16([[1, 2], [3, 3]]) + np.float16(0.1)
    np.testing.assert_array_equal(features(v), expected)
    assert (Float(0.1) + nn.CoopVec(Float16(1, 2), 3)).type is Float16


@pytest.mark.parametrize("dtype", TYPES)
def test_reductions_over_features(dtype, tier):
    cls, _, tolerance = TYPES[dtype]
    values = rand((17, 5), 3, dtype)
    v = vector(values)
    exact = values.astype(np.float64)
    for found, expected in (
        (dr.sum(v), exact.sum(0)),
        (dr.mean(v), exact.mean(0)),
        (dr.dot(v, v), (exact**2).sum(0)),
        (dr.dot(v, 2), 2 * exact.sum(0)),
        (dr.squared_norm(v), (exact**2).sum(0)),
        (dr.norm(v), np.sqrt((exact**2).sum(0))),
        (dr.min(v), exact.min(0)),
        (dr.max(v), exact.max(0)),
    ):
        assert type(found) is cls
        np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=2 * tolerance)
    np.testing.assert_allclose(dr.prod(v).numpy(), exact.prod(0), rtol=17 * tolerance, atol=1e-6)
    np.testing.assert_array_equal(dr.any(v > 0.9).numpy(), (values > 0.9).any(0))
    np.testing.assert_array_equal(dr.all(v > -0.9).numpy(), (values > -0.9).all(0))


def test_sums_of_halves_accumulate_in_single_precision(tier):
    # In half precision, 2048 + 1 is 2048.
    v = nn.CoopVec(Float16(2048, 2048), [Float16(1, 1)] * 64)
    assert dr.sum(v).numpy().tolist() == [2112, 2112]
    assert dr.sum(nn.CoopVec([Float16(40, 40.03)] * 3)).numpy().tolist() == [120, 120.125]


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (lambda v: v + nn.CoopVec(Float(1), 2), RuntimeError, r"different lengths.*\(3 and 2\)"),
        (lambda v: v + nn.cast(v, Float16), RuntimeError, "float32 and float16.*nn.cast"),
        (lambda v: v + Array3f(1, 2, 3), TypeError, "Array3f does not go together"),
        (lambda v: v + "a", TypeError, "unsupported operand of type str"),
        (lambda v: dr.maximum(v, Float(1, 2)), RuntimeError, r"dr.maximum\(\): .*sizes"),
        (lambda v: dr.select(v < 1, 0, 1), TypeError, "cooperative vector"),
        (lambda v: dr.all(v), TypeError, "not defined"),
    ],
)
def test_operands_that_do_not_fit(expression, error, message):
    with pytest.raises(error, match=message):
        expression(nn.CoopVec(Float(1, 2, 3), 2, 3))


def test_casts(tier):
    values = rand((3, 17), 5)
    half = nn.cast(vector(values), Float16)
    assert (half.type, nn.cast(half, TensorXf).type) == (Float16, Float)
    np.testing.assert_array_equal(features(half), values.astype(np.float16))
    np.testing.assert_array_equal(features(nn.cast(half, Float64)), values.astype(np.float16))
    for arg, to, message in (
        (half, Bool, "an array type of numbers such as Float16, got drjit.llvm.ad.Bool"),
        (half, 3, "an array type of numbers such as Float16, got 3"),
        (Float(1), Float16, "expected a cooperative vector, got drjit.llvm.ad.Float"),
    ):
        with pytest.raises(TypeError, match=message):
            nn.cast(arg, to)


# ---- Products


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 1), (1, 3), (17, 3), (3, 17), (64, 64)])
@pytest.mark.compiled_every(5)
def test_products_of_matrices_and_vectors(rows, columns, dtype, tier):
    _, tensor, tolerance = TYPES[dtype]
    a, b, c = rand((rows, columns), 1, dtype), rand(rows, 2, dtype), rand(columns, 3, dtype)
    A, Bias, C = nn.pack(tensor(a), tensor(b), tensor(c))
    for size in SIZES:
        x, y = rand((columns, size), 4, dtype), rand((rows, size), 5, dtype)
        exact, exact_y = x.astype(np.float64), y.astype(np.float64)
        for found, expected in (
            (A @ vector(x), a @ exact),
            (nn.matvec(A, vector(x), Bias), a @ exact + b[:, None]),
            (A.T @ vector(y), a.T @ exact_y),
            (nn.matvec(A, vector(y), C, transpose=True), a.T @ exact_y + c[:, None]),
            (nn.matvec(A.T, vector(x), None, True), a @ exact),
        ):
            assert found.type is TYPES[dtype][0]
            error = np.abs(features(found) - expected).max()
            assert error <= tolerance * (1 + np.abs(expected).max())


def test_no_lanes(tier):
    A, b = nn.pack(TensorXf(rand((3, 2))), TensorXf(rand(3)))
    v = nn.matvec(A, nn.CoopVec(Float(), Float()), b)
    assert repr(v) == named("drjit.nn.CoopVec[drjit.llvm.ad.Float, shape=(3, 0)]")
    assert [len(x) for x in dr.tanh(v)] == [0, 0, 0]
    assert len(dr.sum(v)) == 0


@pytest.mark.parametrize("opaque", [False, True])
def test_vectors_that_are_the_same_for_all_lanes(opaque, tier):
    a = rand((3, 2))
    A = nn.pack(TensorXf(a))
    x, y = Float(0.5), Float(0.25)
    if opaque:
        dr.make_opaque(x, y)
    v = A @ nn.CoopVec(x, y)
    np.testing.assert_allclose(features(v), a @ [[0.5], [0.25]], rtol=1e-6)
    lanes = Float(1, 2, 3)
    found = features(v * lanes + nn.CoopVec(lanes, x, 1))
    expected = a @ [[0.5], [0.25]] * [1, 2, 3] + [[1, 2, 3], [0.5] * 3, [1] * 3]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(dr.sum(nn.CoopVec(x, y))) == 1


def test_literals_and_scalars_as_vectors(tier):
    a = rand((3, 4))
    A = nn.pack(TensorXf(a))
    ones = nn.CoopVec([Float(1)] * 4)
    np.testing.assert_allclose(features(A @ ones), a.sum(1)[:, None], rtol=1e-6)
    x = Float(rand(17, 7))
    same_features = nn.CoopVec([x] * 4)
    expected = a.sum(1)[:, None] * x.numpy()
    np.testing.assert_allclose(features(A @ same_features), expected, rtol=1e-5, atol=1e-6)
    found = features(A @ (dr.exp(same_features * 2) - 1))
    expected = a.sum(1)[:, None] * (np.exp(2 * x.numpy()) - 1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert dr.allclose(dr.sum(same_features + same_features), 8 * x)


def test_rounding_of_halves(tier):
    """Every element-wise operation rounds; a product accumulates in single precision."""
    x = Float16(2048)
    dr.make_opaque(x)
    a, b, c = nn.CoopVec(x + 0, 3, -2048) + nn.CoopVec(Float16(1), 1, 1)
    assert [v.numpy().item() for v in (a, b, c)] == [2048, 4, -2048 + 1]
    A = nn.pack(TensorXf16([[1, 1, 1]]))
    (y,) = A @ nn.CoopVec(x, 1, -2047)
    assert y.numpy().item() == 2


def test_matrices_may_be_literals_or_unevaluated(tier):
    x = vector(rand((3, 5)))
    A = nn.pack(dr.ones(TensorXf16, (2, 3)))
    v = A @ nn.cast(x, Float16)
    np.testing.assert_allclose(features(v), [features(x).sum(0)] * 2, atol=5e-3)
    weights = dr.arange(Float, 6) * 2
    A = nn.view(TensorXf(weights, (2, 3)))
    expected = 2 * np.arange(6).reshape(2, 3) @ features(x)
    np.testing.assert_allclose(features(A @ x), expected, rtol=1e-5, atol=1e-5)


def test_slices_of_matrices_are_multiplied(tier):
    a = rand((6, 5))
    A = nn.view(TensorXf(a))
    x = rand((3, 17), 1)
    for view, expected in ((A[:, 1:4], a[:, 1:4]), (A[1:6:2, 2:], a[1:6:2, 2:])):
        found = features(view @ vector(x))
        np.testing.assert_allclose(found, expected @ x, rtol=1e-5, atol=1e-6)
    y = rand((6, 17), 2)
    found = features(A[:, 1:4].T @ vector(y))
    np.testing.assert_allclose(found, a[:, 1:4].T @ y, rtol=1e-5, atol=1e-6)


def test_a_vector_may_go_into_several_kernels(tier):
    a = rand((3, 2))
    A = nn.pack(TensorXf(a))
    x, y = Float(rand(17, 1)), Float(rand(17, 2))
    v = A @ nn.CoopVec(x, y)
    first = dr.sum(v)
    dr.eval(first)
    # A second kernel, and one that waits for a reduction of the first.
    scaled = v * dr.sum(first)
    expected = a @ np.stack([x.numpy(), y.numpy()])
    np.testing.assert_allclose(features(scaled), expected * expected.sum(), rtol=1e-4, atol=1e-5)


def test_a_program_longer_than_a_kernel(monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    x = Float(rand(5))
    total = x
    for k in range(2500):
        v = nn.CoopVec(total, x) * (1 + k % 3)
        total = dr.sum(v) * 0.25
    expected = total_of = x.numpy().astype(np.float64)
    for k in range(2500):
        total_of = (total_of + expected) * (1 + k % 3) * 0.25
    np.testing.assert_allclose(total.numpy(), total_of, rtol=1e-5)


# ---- Kernels


def test_a_network_is_one_kernel_with_one_statement_a_product(tier):
    A, b, C = nn.pack(TensorXf16(rand((8, 2))), TensorXf16(rand(8)), TensorXf16(rand((3, 8))))
    x = Float16(rand(100, 1))
    dr.eval(A.buffer, x)

    def run():
        v = nn.matvec(A, nn.CoopVec(x, 1), b)
        dr.eval(Array3f16(C @ dr.maximum(v, 0)))

    history = launched(run)
    # The weights become single precision once, for all layers.
    assert [h["size"] for h in history] == [8 * 2 + 8 + 3 * 8, 100]
    text = history[1]["source"]
    assert "matvec(f16, p[2], p[4], 8, 2, 2, False, v0, p[2], p[5])" in text
    assert "matvec(f16, p[2], p[7], 3, 8, 8, False, v2)" in text
    assert text.count("\n") == 14


def test_numbers_and_positions_are_no_part_of_the_text():
    buffer = Float(rand(100))
    dr.eval(buffer)
    x, y = Float(rand(17, 1)), Float(rand(17, 2))
    texts = set()
    for k in range(5):
        A = nn.view(buffer)
        A.shape, A.stride, A.offset = (2, 2), 2, 3 * k
        texts.add(dr.kernel_source(*(A @ (nn.CoopVec(x, y) * (k + 2)))))
    assert len(texts) == 1


def test_showing_the_source_changes_nothing(tier):
    A = nn.pack(TensorXf16(rand((3, 2))))
    v = A @ nn.CoopVec(Float16(rand(17, 1)), 1)
    parts = list(v)
    assert "matvec" in dr.kernel_source(*parts)
    assert dr.eval(parts)


def layers(count, matrix):
    """A recorded loop that multiplies a vector by a matrix as often as a number says."""
    A = nn.view(TensorXf(matrix))
    whole = feature_vectors.matrix(0, 2, 2, 2)

    def go_on(state):
        return node.apply(op.lt, state[0], node.cast(dt.u32, count))

    def body(state):
        i, v = state
        return [
            node.apply(op.add, i, node.literal(dt.u32, 1)),
            matvec(A.buffer._node, whole, v, "matvec"),
        ]

    return lambda v: record.loop([node.literal(dt.u32, 0), v._node], go_on, body)[1]


@pytest.mark.parametrize("start", ["array", "uniform", "literal", "splat"])
def test_vectors_are_states_of_recorded_loops(start, tier):
    matrix = np.float32([[0.9, -0.1], [0.1, 0.9]])
    counts = np.arange(17) % 5
    x = Float(rand(17, 1))
    v = {
        "array": lambda: nn.CoopVec(x, 0.5),
        "uniform": lambda: nn.CoopVec(Float(0.25), 0.5),
        "literal": lambda: nn.CoopVec(Float(0.25), 0.25),
        "splat": lambda: nn.CoopVec(x, x),
    }[start]()
    expected = np.broadcast_to(features(v + 0), (2, 17)).copy()
    for k in range(17):
        expected[:, k] = np.linalg.matrix_power(matrix, counts[k]) @ expected[:, k]
    result = layers(UInt(counts)._node, matrix)(v)
    found = nn.CoopVec(Float(0), 0)._with(Value(result))
    np.testing.assert_allclose(features(found), expected, rtol=1e-5, atol=1e-6)


def test_vectors_are_results_of_recorded_branches(tier):
    values = rand((2, 17), 1)
    v, mask = vector(values), Bool(np.arange(17) % 3 == 0)
    double = lambda args: [node.apply(op.add, args[0], args[0])]  # noqa: E731
    one = lambda args: [node.literal(args[0].dtype, 1)]  # noqa: E731
    (result,) = record.branches([mask._node, (~mask)._node], [double, one], [v._node])
    found = features(v._with(Value(result)))
    np.testing.assert_allclose(found, np.where(mask.numpy(), 2 * values, 1))


# ---- Views


def test_views_of_arrays():
    A = nn.view(TensorXf16([[1, 2, 3], [4, 5, 6]]))
    assert repr(A) == named(
        "drjit.nn.MatrixView[\n"
        "    dtype=VarType.Float16,\n"
        '    layout="row_major",\n'
        "    shape=(2, 3),\n"
        "    stride=3,\n"
        "    offset=0\n"
        "    size=6\n"
        "    buffer=<drjit.llvm.ad.Float16 instance>\n"
        "]"
    )
    b = nn.view(Float(1, 2, 3))
    assert (b.shape, b.stride, b.size, b.dtype) == ((3, 1), 1, 3, dr.VarType.Float32)
    assert (A.T.transpose, A.T.T.transpose, A.T.shape) == (True, False, (2, 3))
    assert A.T.buffer is A.buffer


@pytest.mark.parametrize(
    ("key", "shape", "offset", "stride", "size"),
    [
        (0, (1, 3), 0, 3, 3),
        (-1, (1, 3), 3, 3, 3),
        ((0, 0), (1, 1), 0, 3, 1),
        ((slice(None), 1), (2, 1), 1, 3, 4),
        ((slice(0, 1), slice(1, 3)), (1, 2), 1, 3, 2),
        (slice(0, 5), (2, 3), 0, 3, 6),
        (slice(None, None, 2), (1, 3), 0, 6, 3),
    ],
    ids=str,
)
def test_slices_of_views(key, shape, offset, stride, size):
    a = np.float32([[1, 2, 3], [4, 5, 6]])
    A = nn.view(TensorXf(a))[key]
    assert (A.shape, A.offset, A.stride, A.size) == (shape, offset, stride, size)
    np.testing.assert_array_equal(TensorXf(A).numpy(), a[key].reshape(shape))
    np.testing.assert_array_equal(TensorXf(A.T).numpy(), a[key].reshape(shape).T)
    np.testing.assert_array_equal(TensorXf(nn.unpack(nn.pack(A))).numpy(), a[key].reshape(shape))


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (5, IndexError, "index 5 is out of bounds for 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for 3"),
        ("a", TypeError, "got str"),
        ((0, 1, 2), TypeError, "one or two indices, got 3"),
        (slice(1, 1), RuntimeError, "no entry is left"),
        ((0, slice(None, None, 2)), RuntimeError, "consecutive"),
        (slice(None, None, -1), RuntimeError, "increasing"),
    ],
    ids=str,
)
def test_slices_that_are_no_views(key, error, message):
    with pytest.raises(error, match=message):
        nn.view(TensorXf([[1, 2, 3], [4, 5, 6]]))[key]


@pytest.mark.parametrize(
    ("arg", "error", "message"),
    [
        (TensorXf(np.zeros((2, 2, 2), np.float32)), RuntimeError, r"1 or 2 dim.*\(2, 2, 2\)"),
        (dr.zeros(TensorXf, (0, 3)), RuntimeError, "without entries"),
        (Array3f(1, 2, 3), TypeError, "Array3f"),
        ([1, 2], TypeError, "list"),
    ],
    ids=str,
)
def test_what_has_no_view(arg, error, message):
    with pytest.raises(error, match=rf"nn.view\(\): .*{message}"):
        nn.view(arg)


def test_packing(tier):
    a, b, c = rand((2, 3), 1), rand(2, 2), rand((3, 2), 3)
    tree = {"A": TensorXf(a), "more": (TensorXf(b), 3), "C": nn.view(TensorXf(c))}
    packed, other = nn.pack(tree, [Float(1, 2)], layout="training")
    A, (B, number), C, (D,) = packed["A"], packed["more"], packed["C"], other
    assert number == 3
    assert [v.offset for v in (A, B, C, D)] == [0, 6, 8, 14]
    assert [v.layout for v in (A, B, C, D)] == ["training", "row_major", "training", "row_major"]
    assert all(v.buffer is A.buffer for v in (B, C, D))
    expected = np.concatenate([a.ravel(), b, c.ravel(), [1, 2]])
    np.testing.assert_array_equal(A.buffer.numpy(), expected)
    np.testing.assert_array_equal(TensorXf(nn.unpack(packed)["C"]).numpy(), c)
    again = nn.pack(C)
    assert (again.layout, again.offset) == ("inference", 0)
    np.testing.assert_array_equal(again.buffer.numpy(), c.ravel())
    assert nn.pack() == ()
    assert nn.pack(3) == 3
    assert repr(nn.unpack(TensorXf([1, 2]))) == "[1, 2]"


def test_a_packed_matrix_is_a_copy():
    a = TensorXf([[1, 2], [3, 4]])
    A = nn.pack(a)
    A.buffer[0] = 7
    assert a.array[0] == 1


def test_packing_of_the_wrong_things():
    A = TensorXf16([[1, 2], [3, 4]])
    with pytest.raises(TypeError, match=r"same element type, got .*Float and .*Float16"):
        nn.pack(A, TensorXf([1, 2]))
    with pytest.raises(RuntimeError, match="'layout' must be 'inference' or 'training', not 'x'"):
        nn.pack(A, layout="x")
    with pytest.raises(TypeError, match=r"nn.pack\(\): unsupported input .*Array3f"):
        nn.pack([Array3f(1, 2, 3)])
    packed = nn.pack(A)
    with pytest.raises(RuntimeError, match="layout 'inference' cannot be sliced"):
        packed[0]
    with pytest.raises(TypeError, match=r"TensorXf16\(\): .*nn.unpack\(\)"):
        TensorXf16(packed)


def test_the_layout_may_follow_a_single_tree():
    A, net = TensorXf16([[1, 2], [3, 4]]), nn.Sequential(nn.Linear(2, 3)).alloc(TensorXf16)
    assert [v.layout for v in nn.pack([A], "training")] == ["training"]
    assert isinstance(nn.pack(net, "training"), nn.Sequential)
    with pytest.raises(RuntimeError, match="'layout' must be 'inference' or 'training', not 'x'"):
        nn.pack(net, "x")
    assert nn.pack(A, 3, "training")[1:] == (3, "training"), "data next to several trees"


def test_views_are_trees():
    A = nn.pack(TensorXf16([[1, 2], [3, 4]]), layout="training")
    B = dr.copy(A)
    assert (B.layout, B.shape, repr(B.buffer)) == ("training", (2, 2), "[1, 2, 3, 4]")
    dr.make_opaque(B)
    assert set(nn.MatrixView.DRJIT_STRUCT) == {
        "layout", "buffer", "dtype", "shape", "offset", "size", "stride", "transpose"
    }  # fmt: skip


def test_products_of_the_wrong_things():
    A, b = nn.pack(TensorXf([[1, 2, 3], [4, 5, 6]]), TensorXf([1, 2]))
    x, y = nn.CoopVec(Float(1, 2), 3, 4), nn.CoopVec(Float(1, 2), 3)
    for call, error, message in (
        (lambda: A @ y, RuntimeError, "2x3 matrix by a vector of 2 features"),
        (lambda: A.T @ x, RuntimeError, "transpose of a 2x3 matrix by a vector of 3"),
        (lambda: nn.matvec(A, x, A), RuntimeError, r"vector of 2 entries.*shape \(2, 3\)"),
        (lambda: nn.matvec(A, y, b, True), RuntimeError, "vector of 3 entries"),
        (lambda: A @ nn.cast(x, Float16), RuntimeError, "'A' .* float32.* float16.*nn.cast"),
        (lambda: nn.matvec(TensorXf([[1, 2]]), y), TypeError, r"'A' .*\(1, 2\).*A = nn.pack\(A"),
        (lambda: nn.matvec(A, x, TensorXf([1, 2])), TypeError, r"'b' .*b = nn.pack\(b"),
        (lambda: nn.matvec(A, Array3f(1, 2, 3)), TypeError, "'x' must be a cooperative vector"),
        (lambda: A @ Array3f(1, 2, 3), TypeError, "MatrixView"),
        (lambda: nn.matvec(nn.MatrixView(), x), RuntimeError, "NoneType"),
    ):
        with pytest.raises(error, match=message):
            call()
    # The same errors also count as errors of type.
    with pytest.raises(TypeError):
        A @ y


@pytest.mark.parametrize(
    ("field", "value"), [("offset", 1), ("offset", -1), ("shape", (3, 3)), ("stride", 2)]
)
def test_views_beyond_their_buffer_are_refused(field, value):
    A = nn.view(TensorXf([[1, 2, 3], [4, 5, 6]]))
    setattr(A, field, value)
    with pytest.raises(RuntimeError, match="does not lie within its buffer of 6 entries"):
        A @ nn.CoopVec(Float(1), 2, 3)
    with pytest.raises(RuntimeError, match="does not lie within"):
        nn.pack(A)


def test_fields_of_views_are_checked():
    A = nn.MatrixView()
    with pytest.raises(RuntimeError, match="one of inference, training, row_major, got 'x'"):
        A.layout = "x"
    A.buffer, A.offset, A.shape = Float(1, 2), "x", (1, 1)
    with pytest.raises(TypeError, match="no integers"):
        A @ nn.CoopVec(Float(1))


def test_derivatives_are_a_matter_of_all_operands():
    plain = nn.pack(dr.llvm.TensorXf([[1, 2]]))
    assert (plain @ nn.CoopVec(Float(1), 2)).type is Float
    assert (nn.pack(TensorXf([[1, 2]])) @ nn.CoopVec(PlainFloat(1), 2)).type is Float
    assert (plain @ nn.CoopVec(PlainFloat(1), 2)).type is PlainFloat


def test_lanes_and_gathers_with_features(tier):
    """A feature that is the same for all lanes is a scalar again."""
    source = Float(rand(10))
    v = nn.CoopVec(Float(3), 5) + 1
    index, _ = v
    found = dr.gather(Float, source, UInt(index) + dr.arange(UInt, 3))
    np.testing.assert_array_equal(found.numpy(), source.numpy()[4:7])


def test_numpy_numbers_and_other_sequences_beside_vectors(tier):
    v = nn.CoopVec(Float(1, 2), 3)
    for found, expected in (
        (np.float32(3) - v, [[2, 1], [0, 0]]),
        (np.float64(2) * v, [[2, 4], [6, 6]]),
    ):
        assert isinstance(found, nn.CoopVec)
        assert [list(x) for x in found] == expected
    assert list(dr.dot([1, 2], v)) == list(dr.dot(v, Array2f(1, 2))) == [7, 8]
    assert list(dr.dot(v, nn.cast(v, Float16))) == [10, 13]
    with pytest.raises(RuntimeError, match="2 and 3 entries"):
        dr.dot(v, [1, 2, 3])


def test_layouts_of_the_features(tier):
    v = nn.CoopVec(Float(1, 2), 3)
    assert list(dr.ravel(v)) == [1, 3, 2, 3]
    assert list(dr.ravel(v, order="C")) == [1, 2, 3, 3]
    np.testing.assert_array_equal(dr.reshape(TensorXf, v, (1, 4)), [[1, 2, 3, 3]])


def test_matrices_that_are_not_packed(tier):
    v = nn.CoopVec(Float(1, 2), 3)
    for product in (lambda: TensorXf([[1, 2]]) @ v, lambda: v @ TensorXf([[1], [2]])):
        with pytest.raises(TypeError, match=r"need a packed matrix on the left, as in 'nn.pack"):
            product()


def test_features_come_from_iterables():
    found = nn.CoopVec((Float(i) for i in range(2)), map(Float, [3, 4]), {"a": Float(5)}.values())
    assert [v[0] for v in found] == [0, 1, 3, 4, 5]
    assert [v[0] for v in nn.CoopVec(Float(i) for i in range(3))] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        nn.CoopVec(x for x in ())
    for error in (TypeError, RuntimeError):
        with pytest.raises(error, match="cannot convert a value of type str"):
            nn.CoopVec(Float(1), "ab")


# ---- Integers


@pytest.mark.parametrize("name", ["Int8", "UInt8", "Int", "UInt", "Int64", "UInt64"])
@pytest.mark.parametrize("size", [1, 17])
@pytest.mark.compiled_every(5)
def test_integer_features(name, size, tier):
    cls = getattr(dr.llvm.ad, name)
    a, b = np.random.default_rng(size).integers(0, 100, (2, 3, size)).astype(cls(0).numpy().dtype)
    v, w = (nn.CoopVec(*[cls(row) for row in x]) for x in (a, b))
    assert v.type is cls
    assert repr(v) == named(f"drjit.nn.CoopVec[drjit.llvm.ad.{name}, shape=(3, {size})]")
    with np.errstate(over="ignore"):
        cases = [
            (v + w, a + b), (v - w, a - b), (v * w, a * b), (7 - v * 2, 7 - a * 2),
            (v + cls(b[0]), a + b[0]), (dr.fma(v, w, 3), a * b + 3), (dr.abs(v), a),
            (dr.maximum(v, w), np.maximum(a, b)), (dr.minimum(v, 5), np.minimum(a, 5)),
            (dr.clip(v, 20, w), np.minimum(np.maximum(a, 20), b)),
            (dr.step(v, w), a >= b), (dr.select(v < w, v, 5), np.where(a < b, a, 5)),
            (v + 1.75, a + 1), (nn.CoopVec(cls(1), 2.5, Float(3.5)) * v, a * [[1], [2], [3]]),
        ]  # fmt: skip
    for found, expected in cases:
        np.testing.assert_array_equal(features(found), expected.astype(a.dtype))
    np.testing.assert_array_equal(dr.sum(v).numpy(), a.sum(0, dtype=a.dtype))
    np.testing.assert_array_equal(features(nn.cast(v, Float)), a.astype(np.float32))
    halves = nn.CoopVec(*[Float(row + 0.5) for row in a])
    np.testing.assert_array_equal(features(nn.cast(halves, cls)), a)


def test_integer_features_in_a_loop(tier):
    v = dr.while_loop(
        (nn.CoopVec(UInt(1, 2), 3), UInt(0, 2)), lambda v, i: i < 3, lambda v, i: (v + v, i + 1)
    )[0]
    np.testing.assert_array_equal(features(v), [[8, 4], [24, 6]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: v / 2, "not supported for drjit.nn.CoopVec.*Int, shape"),
        (lambda v: dr.exp2(v), r"dr.exp2\(\): operation not supported"),
        (lambda v: dr.tanh(v), r"dr.tanh\(\): operation not supported"),
        (lambda v: v * 2**40, "the number 1099511627776 does not fit"),
        (lambda v: v + nn.CoopVec(Float(1), 2), "features of different types.*int32 and float32"),
        (lambda v: nn.matvec(nn.pack(TensorXf([[1, 2]])), v), "entries of type float32"),
    ],
)
def test_what_integer_features_do_not_have(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(nn.CoopVec(Int(1, 2), 3))


def test_functions_keep_their_short_way_when_operators_become_native(monkeypatch):
    monkeypatch.setattr(inline, "_native", inline._native)
    inline.use_native(lambda op_, cls, function: function)
    assert nn.CoopVec in inline.RECORDERS[op.fma]

"""Construction of arrays and their operators, against NumPy."""

import math
import operator
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from helpers import ELEMENTWISE

import drjit as dr
from drjit.array import leaf
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import label
from drjit.jit.ir import op as ops

L, S, A = dr.llvm, dr.scalar, dr.llvm.ad

LEAVES = {
    "Bool": np.bool_, "Int8": np.int8, "UInt8": np.uint8, "Int": np.int32, "UInt": np.uint32,
    "Int64": np.int64, "UInt64": np.uint64, "Float16": np.float16, "Float": np.float32,
    "Float64": np.float64,
}  # fmt: skip
FLOATS = ("Float16", "Float", "Float64")
INTEGERS = tuple(n for n in LEAVES if "Int" in n)


def samples(dtype: type, n: int = 37, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype is np.bool_:
        return rng.random(n) < 0.5
    if np.issubdtype(dtype, np.floating):
        values = (rng.standard_normal(n) * 8).astype(dtype)
        values[:4] = [0.0, -0.0, np.inf, np.nan]
        return values
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, n, dtype, endpoint=True)
    values[:4] = [info.min, info.max, 0, 1]
    return values


def truncated(f):
    """Integer division as in C, 0 for a divisor of 0."""

    def apply(a, b):
        wide = [[int(x), int(y)] for x, y in zip(a, b, strict=True)]
        return np.array([f(x, y) for x, y in wide], object)

    return apply


def _quotient(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: int, y: int) -> int:
    return 0 if y == 0 else x - y * _quotient(x, y)


def same(array, expected) -> None:
    values = array.numpy()
    expected = np.broadcast_to(expected, values.shape)
    np.testing.assert_array_equal(values, expected)
    if values.dtype.kind == "f":
        zero = values == 0
        np.testing.assert_array_equal(np.signbit(values[zero]), np.signbit(expected[zero]))


ARITHMETIC = (operator.add, operator.sub, operator.mul)
COMPARISONS = (
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
)  # fmt: skip
BITWISE = (operator.and_, operator.or_, operator.xor)


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("namespace", ["llvm", "llvm.ad"])
def test_binary_operators_agree_with_numpy(tier, name, namespace) -> None:
    dtype = LEAVES[name]
    cls = getattr(A if namespace == "llvm.ad" else L, name)
    x, y = samples(dtype, seed=1), np.roll(samples(dtype, seed=2), 7)
    a, b = cls(x), cls(y)
    operators = list(COMPARISONS)
    operators += ARITHMETIC if name != "Bool" else ()
    operators += [operator.truediv] if name in FLOATS else BITWISE
    pairs = []
    with np.errstate(all="ignore"):
        for f in operators:
            result = f(a, b)
            assert type(result) is (cls.Mask if f in COMPARISONS else cls)
            pairs.append((result, f(x, y)))
            for scalar in (dtype(1), dtype(0)):
                pairs.append((f(a, scalar.item()), f(x, scalar)))
                if f not in COMPARISONS:
                    pairs.append((f(scalar.item(), a), f(scalar, x)))
        if name in INTEGERS:
            info = np.iinfo(dtype)
            for f, reference in ((operator.floordiv, _quotient), (operator.mod, _remainder)):
                expected = truncated(reference)(x, y)
                wrapped = (expected & (2**info.bits - 1)).astype(np.uint64).astype(dtype)
                pairs.append((f(a, b), wrapped))
        dr.eval([result for result, _ in pairs])  # in one kernel
    for result, expected in pairs:
        same(result, expected)


@pytest.mark.parametrize("name", LEAVES)
def test_unary_operators_agree_with_numpy(tier, name) -> None:
    dtype = LEAVES[name]
    x = samples(dtype)
    a = getattr(L, name)(x)
    same(+a, x)
    if name != "Bool":
        same(-a, -x)
        same(abs(a), np.abs(x))
    if name not in FLOATS:
        same(~a, ~x)


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_agree_with_numpy(tier, name) -> None:
    dtype = LEAVES[name]
    x, bits = samples(dtype), np.iinfo(dtype).bits
    a = getattr(L, name)(x)
    for count in (0, 1, bits - 1):
        same(a << count, x << dtype(count))
        same(a >> count, x >> dtype(count))
    same(a << bits, np.zeros_like(x))
    same(a >> bits, np.where(x < 0, -1, 0).astype(dtype))


def test_every_op_of_the_table_is_reachable() -> None:
    """An op gives the same on literals and on arrays."""
    values = {"b": True, "i": 3, "f": 0.5}
    classes = {"b": L.Bool, "i": L.Int, "f": L.Float}
    checked = 0
    for name in ELEMENTWISE:
        o = ops.TABLE[name]
        if o.result == "static":
            continue
        for kind in o.domain:
            literals = [classes[kind](values[kind])] * o.arity
            if o.result == "second":
                literals[1:] = [L.Float(0.5), L.Float(0.25)]
            arrays = [leaf.from_numpy(type(v), np.full(3, v[0], v._dtype.numpy)) for v in literals]
            expected, found = leaf.apply(o, *literals), leaf.apply(o, *arrays)
            assert type(found) is type(expected)
            np.testing.assert_allclose(found.numpy(), expected[0], rtol=1e-6)
            checked += 1
    assert checked > 60


def test_power(tier) -> None:
    x = np.array([0.5, 1.5, 2.0], np.float32)
    a = L.Float(x)
    for n in (0, 1, 2, 3, 7, -1, -3, 2.0):
        np.testing.assert_allclose((a**n).numpy(), x.astype(np.float64) ** n, rtol=1e-6)
    np.testing.assert_allclose((a**0.5).numpy(), np.sqrt(x), rtol=1e-6)
    np.testing.assert_allclose((a ** L.Float(1, 2, 3)).numpy(), x ** np.array([1, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose((2**a).numpy(), 2.0**x, rtol=1e-6)
    assert list(L.Int(2, -3) ** 3) == [8, -27]
    assert list(L.Int(3) ** 40) == [689956897]
    same(L.Float(-2, -0.5) ** 3, [-8, -0.125])
    with pytest.raises(RuntimeError, match="no negative powers"):
        L.Int(2) ** -1
    with pytest.raises(RuntimeError, match="convert the base to float"):
        L.Int(2) ** L.Int(2)
    assert (a**0).shape == (3,)


# Construction


@pytest.mark.parametrize("name", LEAVES)
def test_construction_from_numpy_of_any_type(name) -> None:
    for source in (np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64, np.bool_):
        values = np.array([0, 1, 3], source)
        same(getattr(L, name)(values), values.astype(LEAVES[name]))
    assert len(getattr(L, name)(np.zeros(0))) == 0
    assert getattr(L, name)(np.array(1)).shape == (1,)


LEAF_CASES = [
    (lambda: L.Float(), []),
    (lambda: L.Float(2), [2]),
    (lambda: L.Float(1, True, 2.5), [1, 1, 2.5]),
    (lambda: L.Float([1, 2]), [1, 2]),
    (lambda: L.Float(()), []),
    (lambda: L.Float(range(3)), [0, 1, 2]),
    (lambda: L.Float(i / 2 for i in range(3)), [0, 0.5, 1]),
    (lambda: L.Float(np.float64(1.5)), [1.5]),
    (lambda: L.Float(np.arange(4.0)[::-2]), [3, 1]),
    (lambda: L.Float(L.UInt(1, 2)), [1, 2]),
    (lambda: L.Float(A.Float(1, 2)), [1, 2]),
    (lambda: A.Float(L.Float(1, 2)), [1, 2]),
    (lambda: L.Float(S.Array3i(1, 2, 3)), [1, 2, 3]),
    (lambda: L.Float(L.TensorXi([1, 2, 3])), [1, 2, 3]),
    (lambda: L.Float(1e39), [np.inf]),
    (lambda: L.Float16(65520), [np.inf]),
    (lambda: L.Int(-1.9), [-1]),
    (lambda: L.Int(L.Float(1.7, -1.7, 2.5, -0.5)), [1, -1, 2, 0]),
    (lambda: L.Int(L.Float(1e10, -1e10, np.nan)), [2**31 - 1, -(2**31), 0]),
    (lambda: L.Int8(L.Int(127, 128, 256)), [127, -128, 0]),
    (lambda: L.UInt(L.Int(-1)), [2**32 - 1]),
    (lambda: L.UInt64(2**64 - 1), [2**64 - 1]),
    (lambda: L.Int64([-(2**63), 5]), [-(2**63), 5]),
    (lambda: L.UInt64(2**60 + 1, 3), [2**60 + 1, 3]),
    (lambda: L.Bool(2), [True]),
    (lambda: L.Bool(L.Float(0, 0.5, np.nan)), [False, True, True]),
]


@pytest.mark.parametrize(("make", "expected"), LEAF_CASES)
def test_construction_of_one_dimensional_arrays(make, expected) -> None:
    array = make()
    assert list(array) == expected
    assert len(array) == len(expected)


ERRORS = [
    (lambda: L.UInt(-1), "-1 is out of range"),
    (lambda: L.Int8([1, 128]), "128 is out of range"),
    (lambda: L.Int(2**31), "out of range"),
    (lambda: L.Int(np.nan), "no integer value"),
    (lambda: L.Int([1, 2.5]), "may not contain a float"),
    (lambda: L.Bool([1, 0]), "may only contain bool"),
    (lambda: L.Float("12"), "drjit.llvm.Float.*str"),
    (lambda: L.Float(None), "NoneType"),
    (lambda: L.Float([1, None]), "entry 1 is of type NoneType"),
    (lambda: L.Float([[1, 2], [3, 4]]), "entry 0 is of type list"),
    (lambda: L.Float(L.Float(1), 2), "entry 0 is of type drjit.llvm.Float"),
    (lambda: L.Float(L.Array3f(1)), "several components"),
    (lambda: L.Float(L.TensorXf([[1]])), "2 dimensions, 1 is needed"),
    (lambda: L.Float(np.zeros((2, 2))), r"\(2, 2\)"),
    (lambda: L.Float(np.array(["x"])), "drjit.llvm.Float"),
    (lambda: L.Float(x=1), "Unknown keyword argument 'x'"),
    (lambda: L.TensorXf([1], x=1), r"^drjit.llvm.TensorXf\(\) got an unexpected keyword .*'x'"),
    (lambda: L.TensorXf([1], (1,), False, 2), r"^drjit.llvm.TensorXf\(\) takes from 0 to 3"),
    (lambda: L.Array3f(1, 2), "expected 3 elements, got 2"),
    (lambda: L.Array3f([1, 2, 3, 4]), "expected 3 elements, got 4"),
    (lambda: L.Array3f(L.Array2f(1)), "expected 3 elements, got 2"),
    (lambda: L.Array3f(np.zeros((2, 3))), "transpose"),
    (lambda: L.Array3u(-1, 2, 3), "-1 is out of range"),
    (lambda: L.Array3i(1.5, 2, 3), "1.5"),
    (lambda: L.Array3f(None), "NoneType"),
    (lambda: L.Matrix2f(1, 2, 3), r"expected 2 elements, got 3\)\. .* 2 rows, or 4 entries"),
    (lambda: L.Matrix2f(L.Array2f(1, 2)), "a number, 2 rows, or 4 entries"),
    (lambda: L.Quaternion4f(1, 2), "expected 4 elements, got 2"),
    (lambda: L.TensorXf([[1, 2], [3]]), "ragged"),
    (
        lambda: L.TensorXf(L.Float(1, 2, 3), (2, 2)),
        r"\(got 3, expected 4\), they do not fill the shape \(2, 2\)",
    ),
    (lambda: L.TensorXf([1, 2], [2]), "tuple of sizes"),
    (lambda: L.TensorXf(None), "NoneType"),
    (lambda: S.Array3f(1, 2), "drjit.scalar.Array3f.*expected 3 elements, got 2"),
    (lambda: S.Array3u8(300), "300 is out of range"),
]


@pytest.mark.parametrize(("make", "message"), ERRORS)
def test_construction_errors_say_what_is_wrong(make, message) -> None:
    with pytest.raises(TypeError, match=message):
        make()


NESTED = [
    (lambda: L.Array3f(2), [[2], [2], [2]]),
    (lambda: L.Array3f(1, 2, 3), [[1], [2], [3]]),
    (lambda: L.Array3f([1, 2], 3, [4]), [[1, 2], [3, 3], [4, 4]]),
    (lambda: L.Array3f(L.Float(1, 2)), [[1, 2]] * 3),
    (lambda: L.Array3f(i for i in range(3)), [[0], [1], [2]]),
    (lambda: L.Array3f(L.Array3i(1, 2, 3)), [[1], [2], [3]]),
    (lambda: L.Array3i(L.Array3f(1.7, -1.7, 2.5)), [[1], [-1], [2]]),
    (lambda: L.Array3f(np.arange(6).reshape(3, 2)), [[0, 1], [2, 3], [4, 5]]),
    (lambda: L.Array3f(np.arange(3)), [[0], [1], [2]]),
    (lambda: L.Array3f(np.array(5)), [[5]] * 3),
    (lambda: L.Array3f(L.TensorXf(np.arange(6).reshape(3, 2))), [[0, 1], [2, 3], [4, 5]]),
    (lambda: L.Array3f(L.ArrayXf(1, 2, 3)), [[1], [2], [3]]),
    (lambda: L.ArrayXf([1, 2], [3, 4]), [[1, 2], [3, 4]]),
    (lambda: L.ArrayXf(1), [[1]]),
    (lambda: L.ArrayXf(L.Float(1, 2)), [[1, 2]]),
    (lambda: L.Array22f([1, 2], [3, 4]), [[[1], [2]], [[3], [4]]]),
    (lambda: L.Array22f(1, 2), [[[1], [1]], [[2], [2]]]),
    (lambda: L.Matrix2f(2), [[[2], [0]], [[0], [2]]]),
    (lambda: L.Matrix2f(1, 2, 3, 4), [[[1], [2]], [[3], [4]]]),
    (lambda: L.Matrix2f([1, 2], [3, 4]), [[[1], [2]], [[3], [4]]]),
    (lambda: L.Matrix2f([1, 2, 3, 4]), [[[1], [2]], [[3], [4]]]),
    (lambda: L.Matrix2f(np.arange(4).reshape(2, 2)), [[[0], [1]], [[2], [3]]]),
    (lambda: L.Matrix2f(L.Matrix3f(*range(9))), [[[0], [1]], [[3], [4]]]),
    (lambda: L.Matrix3f(L.Matrix2f(2)), np.diag([2, 2, 1])[..., None]),
    (lambda: L.Array22f(L.Matrix2f(1, 2, 3, 4)), [[[1], [2]], [[3], [4]]]),
    (lambda: L.Matrix41f(3), (np.eye(4) * 3)[:, :, None, None]),
    (lambda: L.Quaternion4f(2), [[0], [0], [0], [2]]),
    (lambda: L.TensorXf(3), 3),
    (lambda: L.TensorXf([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (lambda: L.TensorXf([1, 2, 3, 4], (2, 2)), [[1, 2], [3, 4]]),
    (lambda: L.TensorXf(np.arange(6.0).reshape(2, 3).T), [[0, 3], [1, 4], [2, 5]]),
    (lambda: L.TensorXf(L.Array3f([1, 2], [3, 4], 5)), [[1, 2], [3, 4], [5, 5]]),
    (lambda: L.TensorXf([L.Float(1, 2), L.Float(3, 4)]), [[1, 2], [3, 4]]),
    (lambda: L.TensorXi(L.TensorXf([1.7, -1.7])), [1, -1]),
    (lambda: S.Array3f(1), [1, 1, 1]),
    (lambda: S.Array3f(np.arange(3)), [0, 1, 2]),
    (lambda: S.Array2f(0.1, 1e40), [np.float32(0.1), np.inf]),
    (lambda: S.Matrix2f(1, 2, 3, 4), [[1, 2], [3, 4]]),
    (lambda: S.TensorXf([1, 2]), [1, 2]),
]


@pytest.mark.parametrize(("make", "expected"), NESTED)
def test_construction_of_nested_arrays(make, expected) -> None:
    same(make(), expected)


def test_complex_numbers_from_python_and_numpy() -> None:
    same(L.Complex2f(1 + 2j), [1 + 2j])
    same(L.Complex2f(3), [3])
    same(L.Complex2f(np.array([1 + 2j, 3 + 4j])), [1 + 2j, 3 + 4j])
    same(L.Complex2f([1, 2], [3, 4]), [1 + 3j, 2 + 4j])


def test_an_array_made_from_another_shares_its_value_and_changes_on_its_own() -> None:
    a = L.Float([1, 2])
    b = L.Float(a)
    assert a.index == b.index
    b += 1
    assert list(a) == [1, 2] and list(b) == [2, 3]


# In-place


@pytest.mark.parametrize(
    "make", [lambda: L.Float(1, 2), lambda: A.Array3f(1), lambda: L.TensorXf([1, 2])]
)
def test_in_place_operators_keep_the_object(make) -> None:
    a = make()
    b = a
    expected = ((make() + 1) * 2 - 3) / 4
    a += 1
    a *= 2
    a -= 3
    a /= 4
    assert a is b
    same(b, expected.numpy())


def test_in_place_operators_change_the_type_where_they_have_to() -> None:
    a = b = L.Int(1)
    a += 1.5
    assert type(a) is L.Float and type(b) is L.Int
    same(a, [2.5])
    m = L.Matrix2f(1, 2, 3, 4)
    m @= m
    same(m, [[[7], [10]], [[15], [22]]])


def test_components_are_views() -> None:
    a = L.Array3f(1)
    x = a.x
    x += 1
    same(a, [[2], [1], [1]])
    a += 1
    same(x, [3])
    a.x = 7
    same(x, [7])
    t = L.TensorXf([1, 2])
    flat = t.array
    t += 1
    same(flat, [2, 3])


def test_swizzles() -> None:
    a = L.Array3f(1, 2, 3)
    same(a.zyx, [[3], [2], [1]])
    same(a.xx, [[1], [1]])
    a.xy = a.yx
    same(a, [[2], [1], [3]])
    for name in ("w", "xw", "foo"):
        with pytest.raises(AttributeError, match=name):
            getattr(a, name)
    with pytest.raises(AttributeError):
        a.foo = 1


# Special arrays


def test_matrix_products(tier) -> None:
    rng = np.random.default_rng(3)
    for cls, n in ((L.Matrix2f64, 2), (L.Matrix3f64, 3), (L.Matrix4f64, 4), (S.Matrix3f64, 3)):
        lanes = (5,) if cls is not S.Matrix3f64 else ()
        x, y, v = (rng.standard_normal((*s, *lanes)) for s in ((n, n), (n, n), (n,)))
        a, b = cls(x), cls(y)
        u = dr.array_t(cls).Value(v)
        product = np.einsum("ij...,jk...->ik...", x, y)
        np.testing.assert_allclose((a * b).numpy(), product, rtol=1e-12)
        np.testing.assert_allclose((a @ b).numpy(), product, rtol=1e-12)
        np.testing.assert_allclose((a @ u).numpy(), np.einsum("ij...,j...->i...", x, v), rtol=1e-12)
        np.testing.assert_allclose((u @ a).numpy(), np.einsum("i...,ij...->j...", v, x), rtol=1e-12)
        inverse = np.moveaxis(np.linalg.inv(np.moveaxis(x, (0, 1), (-2, -1))), (-2, -1), (0, 1))
        np.testing.assert_allclose((1 / a).numpy(), inverse, rtol=1e-9)
        square = np.einsum("ij...,jk...->ik...", x, x)
        np.testing.assert_allclose((a**2).numpy(), square, rtol=1e-12)
        np.testing.assert_allclose((a * 2).numpy(), x * 2, rtol=1e-12)
        identity = np.eye(n).reshape(n, n, *(1 for _ in lanes))
        np.testing.assert_allclose((a + 3).numpy(), x + 3 * identity, rtol=1e-12)
        np.testing.assert_allclose(a.T.numpy(), np.swapaxes(x, 0, 1))


def test_complex_and_quaternion_products(tier) -> None:
    x, y = np.array([1 + 2j, -3 + 0.5j]), np.array([3 + 4j, 0.25 - 1j])
    a, b = L.Complex2f64(x), L.Complex2f64(y)
    for f in (operator.add, operator.sub, operator.mul, operator.truediv):
        np.testing.assert_allclose(f(a, b).numpy(), f(x, y), rtol=1e-12)
        np.testing.assert_allclose(f(a, 2.0).numpy(), f(x, 2.0), rtol=1e-12)
        np.testing.assert_allclose(f(2.0, a).numpy(), f(2.0, x), rtol=1e-12)
    np.testing.assert_allclose(abs(a).numpy(), abs(x), rtol=1e-12)
    np.testing.assert_allclose((a**3).numpy(), x**3, rtol=1e-12)
    np.testing.assert_allclose((a**b).numpy(), x**y, rtol=1e-10)
    p, q = L.Quaternion4f(1, 2, 3, 4), L.Quaternion4f(5, 6, 7, 8)
    same(p * q, [[24], [48], [48], [-6]])
    np.testing.assert_allclose((p * (1 / p)).numpy(), [[0], [0], [0], [1]], atol=1e-6)
    same(p + 1, [[1], [2], [3], [5]])
    assert type(a == b) is L.Array2b
    for special in (a, p, L.Matrix2f(1)):
        with pytest.raises(RuntimeError, match="no order"):
            _ = special < 1


def test_tensors_broadcast_as_in_numpy(tier) -> None:
    shapes = [((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 1)), ((), (2, 2)), ((2, 0), (1, 1))]
    for s, t in shapes:
        x = np.arange(np.prod(s, dtype=int), dtype=np.float32).reshape(s)
        y = np.arange(np.prod(t, dtype=int), dtype=np.float32).reshape(t) + 5
        result = L.TensorXf(x) * L.TensorXf(y)
        assert result.shape == (x * y).shape
        same(result, x * y)
    same(L.TensorXf([[1, 2], [3, 4]]) + L.Float(10, 20), [[11, 22], [13, 24]])
    with pytest.raises(RuntimeError, match=r"incompatible shapes: \(2,\) and \(3,\)"):
        L.TensorXf([1, 2]) + L.TensorXf([1, 2, 3])


# Sizes and protocols


def test_sizes(tier) -> None:
    same(L.Float(1, 2, 3) + L.Float(1), [2, 3, 4])
    assert (L.Float() + 1).shape == (0,)
    assert (L.Float() + L.Float()).shape == (0,)
    with pytest.raises(RuntimeError, match=r"Float.__add__\(\): .*incompatible sizes \(2, 3\)"):
        L.Float(1, 2) + L.Float(1, 2, 3)
    with pytest.raises(RuntimeError, match=r"incompatible sizes \(2, 3\)"):
        L.Array3f(L.Float(1, 2)) * L.Float(1, 2, 3)
    with pytest.raises(RuntimeError, match="3 and 2"):
        L.ArrayXf(1, 2, 3) + L.ArrayXf(1, 2)


def test_truth_is_that_of_a_single_mask() -> None:
    assert bool(L.Bool(True)) and not bool(L.Int(1) == 2) and bool(L.TensorXb([True]))
    with pytest.raises(TypeError, match="implicit conversion to 'bool'"):
        bool(L.Float(1))
    for mask in (L.Bool(True, True), L.Bool(), L.Array3b(True)):
        with pytest.raises(RuntimeError, match=r"dr\.any\(\) or dr\.all\(\)"):
            bool(mask)


def test_python_protocols() -> None:
    a = L.Array3f(1, 2, 3)
    x, _, z = a
    assert x[0] == 1 and z[0] == 3
    assert 2 in L.Float(1, 2) and 5 not in L.Float(1, 2)
    assert list(L.Int(1, 2)) == [1, 2] and all(type(v) is int for v in L.Int(1, 2))
    assert len(L.TensorXf([[1, 2]])) == 1 and len(L.TensorXf(1)) == 0
    assert {a: 1}[a] == 1
    assert L.Float(1.5).item() == 1.5
    with pytest.raises(RuntimeError, match="arrays of length 1"):
        L.Float(1, 2).item()
    assert sum([L.Float(1), L.Float(2)])[0] == 3


def test_states() -> None:
    a = L.Float([1, 2])
    states = dr.VarState
    assert L.Float().state is states.Invalid
    assert L.Float(1).state is states.Literal
    assert a.state is states.Evaluated
    assert (a + 1).state is states.Unevaluated
    assert L.Array3f(1, a, 3).state is states.Mixed
    assert S.Array3f(1).state is states.Invalid


def test_labels() -> None:
    a = L.Float([1, 2]) + 1
    assert a.label is None
    a.label = "a"
    assert a.label == "a"
    assert L.Float(a).label == "a"
    assert (a + 1).label is None


def test_numbers_that_float32_rounds_do_so_in_both_paths() -> None:
    a = L.Float([1.0, 2.0])
    for value in (0.1, 1e-46, 16777217, 1e39, -1e39, float("nan")):
        with np.errstate(over="ignore"):
            same(a * value, np.array([1, 2], np.float32) * np.float32(value))


def test_debug_mode_sees_every_operation(monkeypatch) -> None:
    monkeypatch.setattr(label, "locations", seen := WeakKeyDictionary())
    a, b = L.Float([1, 2]), L.Float([3, 4])
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        c = (a + b) * 2 < -a
    d = c & (a < b)
    names = [n.op.name for n in seen]
    assert d._node not in seen and all(line for _, line in seen.values())
    assert [n for n in names if n != "literal"] == ["add", "mul", "neg", "lt"]
    assert c._node.dtype is dt.mask


def test_subclasses_of_arrays() -> None:
    class Color(L.Array3f):
        pass

    red = Color(1, 0, 0)
    same(red * 2, [[2], [0], [0]])
    same(red + L.Array3f(1), [[2], [1], [1]])
    assert type(red + red) is L.Array3f


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_are_rounded_alike_each_time(name: str) -> None:
    cls, exact = getattr(A, name), LEAVES[name]
    x = cls([1, 2])
    for _ in range(2):
        for value in (0.1, -0.1, 0.0, -0.0, 0, 3, 1 << 60, 1e-60, -1e-60, 1e300, math.nan):
            with np.errstate(over="ignore"):
                expected = exact(value)
            for found in (cls(value), x * 0 + value, cls(-0.0) + value, cls([value])):
                got = found.numpy()[-1]
                assert np.array_equal(got, expected, equal_nan=True)
            assert np.signbit(cls(value).numpy()[0]) == np.signbit(expected)

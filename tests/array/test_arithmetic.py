"""Element-wise functions that are not transcendental: selection, extrema, signs, products, powers,
roundings, and bit operations.
"""

import enum
import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drjit as dr
from drjit.llvm import (
    Array3b,
    Array3f,
    Array3i,
    Array3u,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    Int64,
    Matrix2f,
    TensorXb,
    TensorXf,
    UInt,
    UInt64,
)

inf, nan = math.inf, math.nan


def same(got, cls, want):
    """The type and the values of a result; NaN equals NaN and signs of zeros count."""
    assert type(got) is cls
    if hasattr(got, "numpy"):
        got = got.numpy()
    want = np.broadcast_to(
        np.asarray(want, got.dtype if hasattr(got, "dtype") else None), np.shape(got)
    )
    np.testing.assert_array_equal(got, want)
    if np.asarray(got).dtype.kind == "f":
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


class Number(enum.IntEnum):
    ONE = 1


# ---- Selection


SELECTIONS = [
    ((Bool(True, False), 1, 2), Int, [1, 2]),
    ((Bool(True, False), 1, 2.5), Float, [1, 2.5]),
    ((Bool(True, False), Float(1), Int(2)), Float, [1, 2]),
    ((Bool(True, False), Bool(True), False), Bool, [True, False]),
    ((True, 1, 2.5), int, 1),
    ((False, "a", "b"), str, "b"),
    ((True, Float(1), Int(2)), Float, [1]),
    ((True, Float(1), Float64(2)), Float64, [1]),
    ((Array3b(True, False, True), Float(1), Array3f(2)), Array3f, [[1], [2], [1]]),
    ((Bool(True, False), Array3f(1), 0), Array3f, [[1, 0]] * 3),
    ((Array3b(True, False, True), 1, 0), Array3i, [[1], [0], [1]]),
    ((TensorXb([True, False]), TensorXf([1, 2]), 0), TensorXf, [1, 0]),
    ((TensorXb([True, False]), Float(1), 2), TensorXf, [1, 2]),
    (([True, False], Float(1), Float(2)), Float, [1, 2]),
    (((True, False), 1, Float(2)), Float, [1, 2]),
    ((np.array([True, False]), Float(1), 2), Float, [1, 2]),
    ((np.bool_(False), Float(1), 2), Float, [2]),
    (([True, False, True], Array3f(1), 0), Array3f, [[1], [0], [1]]),
    (([True, False], TensorXf([[1, 2], [3, 4]]), 0), TensorXf, [[1, 0], [3, 0]]),
    (([True, False], Int(1, 2), 2.5), Float, [1, 2.5]),
    ((UInt(1, 0), Float(1), Float(2)), Float, [1, 2]),
    ((Int(1, 0, -1), Int(1), Int(2)), Int, [1, 2, 1]),
    ((UInt(1, 0), 1, 2), UInt, [1, 2]),
    ((UInt64(1, 0), UInt(1), 2), UInt64, [1, 2]),
    ((Array3u(1, 0, 2), Float(1), 2), Array3f, [[1], [2], [1]]),
    ((Bool(True, False), [2, 3], 0), Int, [2, 0]),
    ((Bool(True, False), 0, np.array([2.0, 3.0])), Float64, [0, 3]),
    ((Bool(True, False), [Float(1), 2, 3], 0), Array3f, [[1, 0], [2, 0], [3, 0]]),
    ((Bool(True, False), 0, [Float(1), 2, 3]), Array3f, [[0, 1], [0, 2], [0, 3]]),
    ((Bool(True, False), [Float(1), 2, 3], (4, 5, 6)), Array3f, [[1, 4], [2, 5], [3, 6]]),
]


@pytest.mark.parametrize(("args", "cls", "want"), SELECTIONS, ids=range(len(SELECTIONS)))
def test_select(args, cls, want, tier):
    got = dr.select(*args)
    if cls in (int, str):
        assert type(got) is cls and got == want
    else:
        same(got, cls, want)


def test_select_goes_through_trees():
    mask = Bool(True, False)
    got = dr.select(
        mask, [Float(1), (Int(2), {"a": Float(5)})], [Float(3), (Int(4), {"a": Float(6)})]
    )
    same(got[0], Float, [1, 3])
    same(got[1][0], Int, [2, 4])
    same(got[1][1]["a"], Float, [5, 6])
    assert dr.select(mask, None, None) is None
    got = dr.select(mask, [Float(1), 7, "same"], [Float(2), 7, "same"])
    same(got[0], Float, [1, 2])
    assert got[1:] == [7, "same"]


def test_select_of_special_arrays():
    got = dr.select(Bool(True, False), Complex2f(1, 2), 0)
    same(got.real, Float, [1, 0])
    same(got.imag, Float, [2, 0])
    got = dr.select(Bool(True, False), Matrix2f(1), Matrix2f(2))
    same(got[0][0], Float, [1, 2])


def test_select_refuses_what_does_not_go_together():
    mask = Bool(True, False)
    with pytest.raises(TypeError, match=r"dr\.select.*different keys"):
        dr.select(mask, {"a": Float(1)}, {"b": Float(1)})
    with pytest.raises(TypeError, match=r"dr\.select.*different lengths"):
        dr.select(mask, [Float(1)], [Float(1), Float(2)])
    with pytest.raises(RuntimeError, match=r"dr\.select.*mask, not int"):
        dr.select(1, Float(1), Float(2))
    for condition in (1, 1.0, None, "a", [True, False], np.array([True])):
        with pytest.raises(TypeError, match=r"dr\.select.*expected a mask or a bool"):
            dr.select(condition, 1, 2)
    with pytest.raises(RuntimeError, match=r"dr\.select.*Could not promote type list"):
        dr.select([1, 0], Float(1), 2)
    for value in ("a", object(), Number.ONE, None):
        with pytest.raises(RuntimeError, match="incompatible objects with an unknown type"):
            dr.select(mask, value, 2)
    with pytest.raises(RuntimeError, match=r"dr\.select.*sizes"):
        dr.select(Bool(True, False, True), Float(1, 2), 0)


# ---- Extrema

A = np.float32([1, nan, 0.5, nan, -3, inf])
B = np.float32([nan, 1, 2, nan, -4, 5])


@pytest.mark.parametrize("name", ["minimum", "maximum", "fmin", "fmax"])
@pytest.mark.parametrize("cls", [Float16, Float, Float64])
def test_extrema_treat_nan_as_numpy_does(name, cls, tier):
    want = getattr(np, name)(A, B)
    same(getattr(dr, name)(cls(A), cls(B)), cls, want)
    for a, b, w in zip(A.tolist(), B.tolist(), want.tolist(), strict=True):
        function = getattr(dr, name)
        same(function(cls(a), b), cls, w)
        same(function(a, cls(b)), cls, w)
        got = function(a, b)
        assert type(got) is float and (got == w or w != w != got == got or (w != w and got != got))


@pytest.mark.parametrize("name", ["minimum", "maximum", "fmin", "fmax"])
def test_extrema_promote(name):
    function = getattr(dr, name)
    numpy = getattr(np, name)
    same(function(Int(-1, 5), 3), Int, numpy([-1, 5], 3))
    same(function(UInt(1, 5), Int(3)), UInt, numpy([1, 5], 3))
    same(function(Int(1, 5), 3.5), Float, numpy([1, 5], 3.5))
    same(function(Array3f(1, 2, 3), Float(2)), Array3f, numpy([[1], [2], [3]], 2))
    same(function(TensorXf([1, 5]), 3), TensorXf, numpy([1, 5], 3))
    assert function(1, 2) in (1, 2) and type(function(1, 2)) is int
    assert type(function(1, 2.5)) is float
    with pytest.raises(RuntimeError, match="not supported"):
        function(Bool(True), Bool(False))
    with pytest.raises(TypeError, match=rf"dr\.{name}\(\)"):
        function("a", "b")


def test_clip():
    same(dr.clip(Float(-1, 0.5, 2, nan), 0, 1), Float, [0, 0.5, 1, nan])
    same(dr.clip(value=Int(5), min=0, max=2.5), Float, [2.5])
    same(dr.clip(Float(5), 3, 1), Float, [1])
    same(dr.clamp(Array3f(-1, 0.5, 2), 0, 1), Array3f, [[0], [0.5], [1]])
    assert (dr.clip(5, 0, 3), dr.clip(5.5, 0, 3)) == (3, 3.0)


# ---- Products and powers


def test_fma_rounds_once(tier):
    a = np.float32(1 + 2**-12)
    same(dr.fma(Float(a), Float(a), -1), Float, np.float32(float(a) * float(a) - 1))
    same(dr.fma(Int(2), 3, 4), Int, [10])
    same(dr.fma(Int(2), Float(3), 4), Float, [10])
    same(dr.fma(Bool(True), 1, 1), Int, [2])
    same(dr.fma(Array3f(1, 2, 3), Float(2), 1), Array3f, [[3], [5], [7]])
    got = dr.fma(Complex2f(1, 2), Complex2f(0, 1), 1)
    assert (got.real[0], got.imag[0]) == (-1, 1)
    assert dr.fma(2, 3, 4) == 10 and type(dr.fma(2, 3, 4)) is int
    assert dr.fma(2.0, 3, 4) == 10.0 and type(dr.fma(2.0, 3, 4)) is float
    with pytest.raises(RuntimeError, match=r"dr\.fma\(\): operation not supported"):
        dr.fma(Bool(True), True, True)


def test_lerp_meets_its_ends_exactly(tier):
    a, b = np.float32([0.1, -7, 1e8]), np.float32([0.3, 1e-3, 3])
    same(dr.lerp(Float(a), Float(b), 0), Float, a)
    same(dr.lerp(Float(a), Float(b), 1), Float, b)
    same(dr.lerp(Float(0), Float(10), 0.25), Float, [2.5])
    same(dr.lerp(Int(1), Int(5), 0.5), Float, [3])
    same(dr.lerp(Int(1), Int(5), 1), Int, [5])
    assert dr.lerp(1, 2, 0.5) == 1.5


def test_squares_and_reciprocals(tier):
    same(dr.square(Float(1, -3)), Float, [1, 9])
    same(dr.square(Int(-3)), Int, [9])
    assert (dr.square(3), dr.sqr(2.5)) == (9, 6.25)
    same(dr.rcp(Float(2, 0.0, -0.0, inf)), Float, [0.5, inf, -inf, 0])
    same(dr.rsqrt(Float(4, 0, -1)), Float, [0.5, inf, nan])
    assert (dr.rcp(4), dr.rcp(-0.0), dr.rsqrt(4)) == (0.25, -inf, 0.5)
    got = dr.square(Matrix2f(1, 2, 3, 4))
    assert [got[i][j][0] for i in (0, 1) for j in (0, 1)] == [7, 10, 15, 22]
    got = dr.rcp(Matrix2f(1, 2, 3, 4))
    np.testing.assert_allclose([got[i][j][0] for i in (0, 1) for j in (0, 1)], [-2, 1, 1.5, -0.5])
    for function in (dr.rcp, dr.rsqrt):
        with pytest.raises(RuntimeError, match="operation not supported"):
            function(Int(2))


def test_interpolation_by_name():
    assert dr.lerp(a=0, b=2, t=0.5) == 1
    same(dr.lerp(Float(0), b=Float(2), t=0.25), Float, [0.5])
    angle = dr.unit_angle(a=Array3f(1, 0, 0), b=Array3f(0, 1, 0))
    np.testing.assert_allclose(angle.numpy(), [math.pi / 2], rtol=1e-6)


def test_hypot_neither_overflows_nor_underflows(tier):
    a = np.float32([3, 1e30, 0, inf, nan, 1e-30, -5])
    b = np.float32([4, 1e30, 0, 1, 2, 1e-30, 12])
    np.testing.assert_allclose(dr.hypot(Float(a), Float(b)).numpy(), np.hypot(a, b), rtol=3e-7)
    assert dr.hypot(3, 4) == 5.0
    for error in (TypeError, RuntimeError):
        with pytest.raises(error, match=r"dr\.hypot"):
            dr.hypot(Int(3), Int(4))
    assert dr.hypot(1e300, 1e300) == pytest.approx(math.hypot(1e300, 1e300), rel=1e-15)
    same(dr.hypot(Array3f(3, 1, 0), 0), Array3f, [[3], [1], [0]])


POWERS = [
    (Float(-2, 3), 2, Float, [4, 9]),
    (Float(-2), 3, Float, [-8]),
    (Float(2, 5), 0, Float, [1, 1]),
    (Float(2), -3, Float, [0.125]),
    (Float(-2), 2.0, Float, [4]),
    (Int(2, 3), 5, Int, [32, 243]),
    (Int(3), 40, Int, [689956897]),
    (Float(4), 0.5, Float, [2]),
    (Float(2), Float(3), Float, [8]),
    (Float(2), Int(3), Float, [8]),
    (2, Float(3), Float, [8]),
    (2, Int(3), Float, [8]),
    (Array3f(1, 2, 3), 2, Array3f, [[1], [4], [9]]),
    (Float16(2), 3, Float16, [8]),
    (Float(0), -1, Float, [inf]),
]


@pytest.mark.parametrize(("base", "exponent", "cls", "want"), POWERS, ids=range(len(POWERS)))
def test_power(base, exponent, cls, want, tier):
    for got in (dr.power(base, exponent), base**exponent):
        assert type(got) is cls
        np.testing.assert_allclose(got.numpy(), np.broadcast_to(want, got.numpy().shape), rtol=1e-6)


def test_power_of_numbers():
    assert dr.power(2, 3) == 8.0 and type(dr.power(2, 3)) is float
    assert (dr.power(2, -1), dr.power(0, -1), dr.power(10, 400)) == (0.5, inf, inf)
    assert math.isnan(dr.power(-8.0, 1 / 3))


@pytest.mark.parametrize(("base", "exponent"), [(Int(2), -1), (Int(2), Int(2))])
def test_powers_that_are_no_integers(base, exponent):
    with pytest.raises(RuntimeError, match=r"Int\.__pow__\(\): an integer"):
        dr.power(base, exponent)


# ---- Signs


def test_signs(tier):
    same(dr.sign(Float(-2, 0, -0.0, 3, nan)), Float, [-1, 1, 1, 1, -1])
    same(dr.sign(Int(-5, 0, 5)), Int, [-1, 1, 1])
    same(dr.copysign(Float(1, -1, 2, 0), Float(-0.0, 2, -3, -1)), Float, [-1, 1, -2, -0.0])
    same(dr.copysign(Int(3, -3), Int(-4, 0)), Int, [-3, 3])
    same(dr.copysign(1, Float(-2)), Float, [-1])
    same(dr.copysign(Float(1), Float64(-2)), Float64, [-1])
    same(dr.mulsign(Float(1, -1, 2), Float(-0.0, 2, -3)), Float, [1, -1, -2])
    same(dr.mulsign(Int(3, -3), Int(-4, 0)), Int, [-3, -3])
    same(dr.abs(Float(-0.0, -2, nan)), Float, [0, 2, nan])
    same(dr.abs(Int(-(2**31), -5)), Int, [-(2**31), 5])
    same(abs(UInt(3)), UInt, [3])


def test_signs_of_numbers():
    assert (dr.sign(-3), dr.sign(0), dr.sign(-2.5), dr.sign(-0.0)) == (-1, 1, -1.0, 1.0)
    assert (dr.copysign(1, -2), dr.copysign(-3, 0), dr.copysign(2, -0.0)) == (-1, 3, -2.0)
    assert (dr.mulsign(1, -2), dr.mulsign(1.5, -2.0), dr.mulsign(5, 0)) == (-1, -1.5, 5)
    assert (dr.abs(-3), dr.abs(-3.5), dr.abs(True)) == (3, 3.5, 1)


def test_step():
    same(dr.step(Float(1, 2, 3), 2), Int, [0, 1, 1])
    same(dr.step(0.5, Float(0, 1)), Int, [1, 0])
    same(dr.step(Array3f(1, 2, 3), Float(2)), Array3i, [[0], [1], [1]])
    with pytest.raises(TypeError, match=r"dr\.step\(\)"):
        dr.step(0.5, 1.0)


# ---- Rounding and classification


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("cls", [Float16, Float, Float64])
def test_rounding(name, cls, tier):
    x = np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 1.25, inf, nan], np.float32)
    same(getattr(dr, name)(cls(x)), cls, getattr(np, name)(x))
    for value in (-0.5, 2.5, 3, inf, 1e300):
        got = getattr(dr, name)(value)
        assert type(got) is float
        same(np.float64(got), np.float64, getattr(np, name)(float(value)))
    with pytest.raises(RuntimeError, match="operation not supported"):
        getattr(dr, name)(Int(3))


def test_classification(tier):
    x = np.float32([1, nan, inf, -inf])
    for name in ("isnan", "isinf", "isfinite"):
        same(getattr(dr, name)(Float(x)), Bool, getattr(np, name)(x))
        same(
            getattr(dr, name)(Array3f(1, nan, inf)), Array3b, getattr(np, name)([[1], [nan], [inf]])
        )
        assert [getattr(dr, name)(float(v)) for v in x] == getattr(np, name)(x).tolist()
    same(dr.isnan(Int(3)), Bool, [False])
    same(dr.isfinite(Int(3)), Bool, [True])
    assert dr.isfinite(2) is True and dr.isnan(1) is False


# ---- Bits


@pytest.mark.parametrize("cls", [Int8, Int, UInt, Int64, UInt64])
def test_bits(cls, tier):
    bits = cls.__meta__.dtype.bits
    words = [0, 1, 5, 8, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1]
    signed = cls.__meta__.dtype.is_signed
    values = [w - (1 << bits) if signed and w >> (bits - 1) else w for w in words]

    def low(word):
        return (word & -word).bit_length() - 1 if word else bits

    same(dr.popcnt(cls(values)), cls, [w.bit_count() for w in words])
    same(dr.lzcnt(cls(values)), cls, [bits - w.bit_length() for w in words])
    same(dr.tzcnt(cls(values)), cls, [low(w) for w in words])
    reverse = [int(f"{w:0{bits}b}"[::-1], 2) for w in words]
    reverse = [w - (1 << bits) if signed and w >> (bits - 1) else w for w in reverse]
    same(dr.brev(cls(values)), cls, reverse)
    same(dr.log2i(cls(values[1:])), cls, [w.bit_length() - 1 for w in words[1:]])


@pytest.mark.parametrize("cls", [Int8, Int, UInt, Int64, UInt64])
def test_bits_beside_constants(cls, tier):
    """Also those of which none or all are set."""
    x = cls(range(6))
    a = x.numpy()
    largest = 2 ** (cls.__meta__.dtype.bits - cls.__meta__.dtype.is_signed) - 1
    for k in (0, 1, 2, largest, -1 if cls.__meta__.dtype.is_signed else 4):
        b = a.dtype.type(k)
        for y in (k, cls(k), dr.full(cls, k, 6)):
            for found, expected in (
                (x & y, a & b), (y & x, a & b), (x | y, a | b), (y | x, a | b), (x ^ y, a ^ b),
            ):  # fmt: skip
                same(found, cls, expected)


def test_bits_of_numbers():
    assert (dr.popcnt(255), dr.lzcnt(1), dr.lzcnt(0), dr.tzcnt(8), dr.tzcnt(0)) == (
        8,
        31,
        32,
        3,
        32,
    )
    assert (dr.brev(1), dr.log2i(9), dr.log2i(0)) == (1 << 31, 3, -1)
    for name in ("popcnt", "lzcnt", "tzcnt", "brev", "log2i"):
        for value in (-1, 1 << 32, 1.5, "x"):
            with pytest.raises(TypeError, match="32"):
                getattr(dr, name)(value)
        with pytest.raises(RuntimeError, match="operation not supported"):
            getattr(dr, name)(Float(1))


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_wide_products(a, b):
    product = a * b
    same(dr.mul_wide(Int(a), Int(b)), Int64, [product])
    same(dr.mul_hi(Int(a), Int(b)), Int, [product >> 32])
    ua, ub = a & 0xFFFFFFFF, b & 0xFFFFFFFF
    same(dr.mul_wide(UInt(ua), UInt(ub)), UInt64, np.uint64(ua * ub))
    same(dr.mul_hi(UInt(ua), UInt(ub)), UInt, [ua * ub >> 32])
    same(
        dr.mul_hi(UInt64(ua << 31), UInt64(ub << 31)),
        UInt64,
        np.uint64((ua << 31) * (ub << 31) >> 64),
    )


def test_wide_products_of_numbers_and_nested_arrays():
    assert (dr.mul_hi(2**31, 4), dr.mul_hi(-1, 5), dr.mul_wide(2**31, 4)) == (2, -1, 2**33)
    got = dr.mul_wide(Array3u(2**31), 4)
    assert type(got).__name__ == "Array3u64"
    assert got[2][0] == 2**33
    with pytest.raises(TypeError, match="32-bit"):
        dr.mul_wide(2**32, 1)
    with pytest.raises(RuntimeError, match="32-bit"):
        dr.mul_wide(UInt64(1), UInt64(1))


# ---- Guarded functions and angles


def test_guarded_functions(tier):
    same(dr.safe_sqrt(Float(-1, 4, nan)), Float, [0, 2, nan])
    np.testing.assert_allclose(
        dr.safe_asin(Float(2, -2)).numpy(), [math.pi / 2, -math.pi / 2], rtol=1e-6
    )
    np.testing.assert_allclose(dr.safe_acos(Float(2, -2)).numpy(), [0, math.pi], rtol=1e-6)
    assert (dr.safe_sqrt(-3), dr.safe_asin(3.0), dr.safe_acos(3)) == (0.0, math.pi / 2, 0.0)


def test_angles():
    assert (dr.deg2rad(180), dr.rad2deg(math.pi)) == (math.pi, 180.0)
    np.testing.assert_allclose(dr.rad2deg(Float(1)).numpy(), [math.degrees(1)], rtol=1e-6)
    assert type(dr.rad2deg(Int(2))) is Float
    assert type(dr.deg2rad(Float64(2))) is Float64


def test_errors_of_lerp_name_it():
    with pytest.raises(RuntimeError, match=r"^dr\.lerp\(\): "):
        dr.lerp(Float(1), "a", 2)


# ---- Constants, and arrays beside them

_NUMBERS = (
    0.0, -0.0, 1.0, -3.0, 0.1, 1 / 3, 7e-46, 1.4e-45, 1.17549435e-38, 3.4e38, 5e-324, 1e-310,
    6e-8, 65504.0, math.inf, -math.inf, math.nan,
)  # fmt: skip


@pytest.mark.parametrize("cls", [Float16, Float, Float64])
def test_constants_are_folded_as_numpy_rounds(cls):
    scalar = {Float16: np.float16, Float: np.float32, Float64: np.float64}[cls]
    with np.errstate(all="ignore"):
        values = [scalar(v) for v in _NUMBERS]
        for a in values:
            _same_bits(dr.sqrt(cls(float(a))), np.sqrt(a))
            for b in values:
                x, y = cls(float(a)), cls(float(b))
                for found, expected in ((x / y, a / b), (x * y, a * b), (x + y, a + b)):
                    _same_bits(found, expected)


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-70, 30),
)
def test_folded_fused_multiply_adds_are_rounded_once(a, b, exponent):
    for c in (math.ldexp(1, exponent), math.ldexp(-1.5, exponent), -a):
        c = float(np.float32(c))
        x, y, z = Float(a), Float(b), Float(c)
        folded = dr.fma(x, y, z)
        assert folded.state == dr.VarState.Literal
        dr.make_opaque(x, y, z)
        np.testing.assert_array_equal(folded.numpy(), dr.fma(x, y, z).numpy())


def _same_bits(found, expected):
    assert found._node.is_literal
    value = found.numpy()[0]
    assert value.dtype == expected.dtype
    assert value.tobytes() == expected.tobytes() or (np.isnan(value) and np.isnan(expected))


_CLASSES = [Bool, Int8, Int, UInt, Int64, UInt64, Float16, Float, Float64]
_INTEGERS = (
    0, 1, -1, 127, 300, 2049, 65519, 65520, 70000, 1 << 24, (1 << 24) + 1, (1 << 53) + 1,
    (1 << 31) - 1, -(1 << 31), (1 << 32) - 1, (1 << 60) + (1 << 36) + 1, (1 << 63) - 1, -(1 << 63),
    (1 << 64) - 1,
)  # fmt: skip


@pytest.mark.parametrize("source", _CLASSES)
def test_constants_are_converted_as_data(source):
    values = [True, False] if source is Bool else _NUMBERS
    if source._dtype.is_int:
        info = np.iinfo(source._dtype.numpy)
        values = [v for v in _INTEGERS if info.min <= v <= info.max]
    for value in values:
        constant, data = source(value), dr.opaque(source, value)
        for target in _CLASSES:
            _same_bits(target(constant), target(data).numpy()[0])


@given(st.floats(width=32), st.floats(width=32))
def test_constant_quotients_are_rounded_once(a, b):
    with np.errstate(all="ignore"):
        _same_bits(Float(a) / Float(b), np.float32(a) / np.float32(b))
        _same_bits(dr.sqrt(Float(a)), np.sqrt(np.float32(a)))


@pytest.mark.parametrize("place", range(3))
def test_a_constant_of_more_entries_gives_its_size(place):
    for of_mask in (False, True):
        values = [dr.opaque(Float, v) for v in (3, 4, 5)]
        values[place] = dr.full(Float, 2, 4)
        function = dr.fma
        if of_mask:
            function = dr.select
            values[0] = dr.full(Bool, True, 4) if place == 0 else dr.opaque(Bool, True)
        a, b, c = [v.numpy()[0] for v in values]
        expected = (b if a else c) if of_mask else a * b + c
        assert list(function(*values)) == [expected] * 4


def test_operations_of_subclasses_and_mixtures_go_the_general_way():
    class Mine(Float):
        pass

    x = Mine(1, 4)
    assert list(dr.sqrt(x)) == [1, 2]
    assert list(dr.fma(x, x, Float(1))) == [2, 17]
    assert list(dr.select(x > 2, x, 0)) == [0, 4]
    found = dr.fma(Array3f(1, 2, 3), Float(2, 3), 1)
    assert [list(c) for c in found] == [[3, 4], [5, 7], [7, 10]]
    with pytest.raises(RuntimeError, match=r"dr\.fma\(\): operands have incompatible sizes"):
        dr.fma(Float(1, 2), Float(1, 2, 3), 1)
    with pytest.raises(RuntimeError, match=r"dr\.select\(\): operands have incompatible sizes"):
        dr.select(Bool(True, False), Float(1, 2, 3), 1)


# ---- Numbers beside arrays


NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, 1 + 1e-12, 1e-60, -1e-60, 1e300, inf, nan, 0, 1, 3]


@pytest.mark.parametrize("cls", [Float16, Float, Float64, dr.llvm.ad.Float])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_a_number_is_rounded_to_the_type_before_an_operation_simplifies(cls, name: str):
    values = np.array([-0.0, 0.0, 2.5, -inf, nan], cls(0).numpy().dtype)
    x = cls(values)
    dr.make_opaque(x)
    apply = getattr(operator, name)
    with np.errstate(all="ignore"):
        for _ in range(2):  # a number is known the second time
            for number in NUMBERS:
                rounded = values.dtype.type(number)
                same(apply(x, number), cls, apply(values, rounded))
                same(apply(number, x), cls, apply(rounded, values))

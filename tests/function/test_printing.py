"""What arrays look like as text."""

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
    Matrix2f,
    Matrix34f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt,
    UInt8,
    UInt64,
)

NAN, INF = float("nan"), float("inf")


def lanes(n: int) -> Float:
    return Float(np.arange(n, dtype=np.float32))


def case(text: str, value: object) -> object:
    return pytest.param(value, text, id=text.replace("\n", " ")[:40])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        case("[0.1]", Float(0.1)),
        case("[0.333333]", Float(1 / 3)),
        case("[1e-05, 0.0001]", Float(1e-5, 1e-4)),
        case("[123456, 1.23457e+06]", Float(123456, 1234567)),
        case("[100000, 1e+06, 1e+07]", Float(1e5, 1e6, 1e7)),
        case("[1.5e-08, 3.40282e+38, 1.4013e-45]", Float(1.5e-8, 3.4028235e38, 1e-45)),
        case("[-0, 0]", Float(-0.0, 0.0)),
        case("[nan, inf, -inf]", Float(NAN, INF, -INF)),
        case("[0.333333, 1e+300, 1e-300]", Float64(1 / 3, 1e300, 1e-300)),
        case("[0.333252, 65504, 5.96046e-08]", Float16(1 / 3, 65504, 6e-8)),
        case("[2048]", Float16(2049)),
        case("[-5, 7]", Int(-5, 7)),
        case("[200, 5]", UInt8(200, 5)),
        case("[18446744073709551615]", UInt64(2**64 - 1)),
        case("[True, False]", Bool(True, False)),
        case("[]", Float()),
    ],
)
def test_entries(value: object, text: str, tier: str) -> None:
    assert repr(value) == text
    assert str(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        case("[[1, 2, 3]]", Array3f(1, 2, 3)),
        case("[[1, 3, 5],\n [2, 4, 6]]", Array3f([1, 2], [3, 4], [5, 6])),
        case("[[1, 3, 4],\n [2, 3, 4]]", Array3f([1, 2], 3, 4)),
        case("[[True, False, True]]", Array3b(True, False, True)),
        case("[[[1, 2],\n  [3, 4]]]", Array22f([[1, 2], [3, 4]])),
        case(
            "[[[1, 2],\n  [3, 4]],\n [[5, 6],\n  [7, 8]]]",
            Matrix2f([[[1, 5], [2, 6]], [[3, 7], [4, 8]]]),
        ),
        case(
            "[[[[1, 1, 1, 1],\n   [0, 0, 0, 0],\n   [0, 0, 0, 0]],\n"
            "  [[0, 0, 0, 0],\n   [1, 1, 1, 1],\n   [0, 0, 0, 0]],\n"
            "  [[0, 0, 0, 0],\n   [0, 0, 0, 0],\n   [1, 1, 1, 1]]]]",
            Matrix34f(1),
        ),
        case("[]", Array3f()),
        case("[]", ArrayXf()),
        case("[[1]]", ArrayXf(1)),
        case("[[1, 3, 5],\n [2, 4, 6]]", ArrayXf([1, 2], [3, 4], [5, 6])),
        case("[ragged array]", Array2f(Float(1, 2), Float(1, 2, 3))),
    ],
)
def test_nested_arrays_lane_by_lane(value: object, text: str) -> None:
    assert repr(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        case("[1+2j]", Complex2f(1, 2)),
        case("[1-2j]", Complex2f(1, -2)),
        case("[1j]", Complex2f(0, 1)),
        case("[0]", Complex2f(-0.0, 0)),
        case("[nan+infj]", Complex2f(NAN, INF)),
        case("[1e-07+1e+10j]", Complex2f(1e-7, 1e10)),
        case("[1+3j,\n 2+4j]", Complex2f([1, 2], [3, 4])),
        case("[1i+2j+3k+4]", Quaternion4f(1, 2, 3, 4)),
        case("[-1i-2j-3k-4]", Quaternion4f(-1, -2, -3, -4)),
        case("[1j-1k]", Quaternion4f(0, 1, -1, 0)),
        case("[1]", Quaternion4f(0, 0, 0, 1)),
        case("[1i+3,\n 2i+4]", Quaternion4f([1, 2], 0, 0, [3, 4])),
    ],
)
def test_complex_numbers_and_quaternions(value: object, text: str) -> None:
    assert repr(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        case("1.5", TensorXf(1.5)),
        case("[1.5]", TensorXf([1.5])),
        case("[[1, 2],\n [3, 4]]", TensorXf([[1, 2], [3, 4]])),
        case("[[[0, 1],\n  [2, 3]],\n [[4, 5],\n  [6, 7]]]", TensorXf(lanes(8), (2, 2, 2))),
        case("[]", TensorXf([])),
        case("[]", TensorXf(Float(), (0, 3))),
        case("[[],\n [],\n []]", TensorXf(Float(), (3, 0))),
        case("[True]", TensorXb([True])),
        case("[[-1]]", TensorXi([[-1]])),
    ],
)
def test_tensors(value: object, text: str) -> None:
    assert repr(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        case("1+2j", dr.scalar.Complex2f(1, 2)),
        case("1i+2j+3k+4", dr.scalar.Quaternion4f(1, 2, 3, 4)),
        case("[[1, 2],\n [3, 4]]", dr.scalar.Matrix2f(1, 2, 3, 4)),
        case("[0.1, 1e-09, 2]", dr.scalar.Array3f(0.1, 1e-9, 2)),
        case("[True, True, True]", dr.scalar.Array3b(True)),
        case("[0, 1, 2, .. 24 skipped .., 27, 28, 29]", dr.scalar.ArrayXf(*range(30))),
        case("[[1, 2]]", dr.scalar.TensorXf([[1, 2]])),
    ],
)
def test_scalar_namespace_has_no_lanes(value: object, text: str) -> None:
    assert repr(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        case("[" + ", ".join(map(str, range(20))) + "]", lanes(20)),
        case("[0, 1, 2, .. 15 skipped .., 18, 19, 20]", lanes(21)),
        case("[0, 1, 2, .. 999994 skipped .., 999997, 999998, 999999]", UInt(np.arange(10**6))),
        case(
            "[[0, 1],\n [1, 1],\n [2, 1],\n .. 15 skipped ..,\n [18, 1],\n [19, 1],\n [20, 1]]",
            Array2f(lanes(21), 1),
        ),
        case("[[0, 1, 2, .. 19 skipped .., 22, 23, 24]]", ArrayXf(*[Float(i) for i in range(25)])),
        case(
            "[1j,\n 1+1j,\n 2+1j,\n .. 24 skipped ..,\n 27+1j,\n 28+1j,\n 29+1j]",
            Complex2f(lanes(30), 1),
        ),
        case(
            "[[0, 1, 2, .. 24 skipped .., 27, 28, 29],\n"
            " [30, 31, 32, .. 24 skipped .., 57, 58, 59]]",
            TensorXf(lanes(60), (2, 30)),
        ),
    ],
)
def test_the_middle_of_long_axes_is_left_out(value: object, text: str) -> None:
    assert repr(value) == text


def test_printing_evaluates(tier: str) -> None:
    x = Float(1, 2, 3) * 2
    assert x.state is not dr.VarState.Evaluated
    assert repr(x + Float(0, 0, 1)) == "[2, 4, 7]"
    assert repr(x) == "[2, 4, 6]"
    assert x.state is dr.VarState.Evaluated


def test_printing_sees_pending_scatters(tier: str) -> None:
    x = Float(1, 2, 3)
    dr.scatter(x, Float(9), UInt(1))
    assert repr(x) == "[1, 9, 3]"

"""Arrays of one entry as numbers of Python."""

import math
import operator

import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import Array3f, Bool, Complex2f, Float, Float16, Float64, Int, TensorXf, UInt64, ad


@pytest.mark.parametrize("cls", [Float, Float16, Float64, ad.Float, ad.Float64])
@pytest.mark.parametrize("value", [1.5, -2.5, 0.0, 3.0])
@pytest.mark.parametrize("evaluated", [False, True])
def test_floats(cls, value, evaluated):
    x = dr.opaque(cls, value) if evaluated else cls(value)
    assert float(x) == value and int(x) == int(value) and complex(x) == value
    assert type(float(x)) is float and type(int(x)) is int
    assert round(x) == round(value) and round(x, 0) == round(value, 0)
    assert math.floor(x) == math.floor(value) and math.ceil(x) == math.ceil(value)
    assert math.trunc(x) == math.trunc(value) and math.cos(x) == math.cos(value)
    assert f"{x:.3f}|{x:>8}" == f"{value:.3f}|{value:>8}"
    assert "%.2e" % x == "%.2e" % value  # noqa: UP031
    with pytest.raises(TypeError):
        operator.index(x)
    with pytest.raises(TypeError):
        range(x)


@pytest.mark.parametrize("cls", [Int, UInt64, llvm.Int8, llvm.UInt8, ad.UInt])
def test_integers(cls):
    x = dr.opaque(cls, 3) + 1
    assert float(x) == 4 and int(x) == operator.index(x) == round(x) == 4
    assert [*range(x)] == [0, 1, 2, 3] and "abcdef"[x] == "e" and "abcdef"[x:] == "ef"
    assert f"{x:03d}, {x:x}" == "004, 4"
    assert (x == 4) and not (x < 4)


def test_masks_tensors_and_others():
    assert float(Bool(True)) == 1 and int(Bool(False)) == 0
    assert float(TensorXf([2.5], (1, 1))) == 2.5 and int(llvm.TensorXu(7)) == 7
    assert [1, 2, 3][llvm.TensorXu([1], (1,))] == 2
    assert complex(Complex2f(1, 2)) == 1 + 2j and complex(scalar.Complex2f(1, 2)) == 1 + 2j
    assert f"{Float(1, 2)}" == "[1, 2]" and f"{Array3f(1)}" == str(Array3f(1))
    x = ad.Float(2)
    dr.enable_grad(x)
    assert float(x * x) == 4


MORE = [Float(), Float(1, 2), Array3f(1), TensorXf([1, 2]), Complex2f(1)]


@pytest.mark.parametrize("value", MORE)
@pytest.mark.parametrize("convert", [float, int, round, math.floor, "{:.2f}".format])
def test_more_entries(value, convert):
    with pytest.raises(TypeError, match=r"only an array of one entry is a number, and the shape"):
        convert(value)


def test_one_entry_of_a_component():
    with pytest.raises(TypeError, match=r"is a number, and this one has a component. Use x\[0\]."):
        float(dr.llvm.Array1f(1))
    assert float(dr.llvm.Array1f(1)[0]) == 1


def test_values_of_kernels_are_no_numbers_yet():
    def body(i):
        float(i)
        return (i + 1,)

    with pytest.raises(RuntimeError, match="symbolic"):
        dr.while_loop((Float(0),), lambda i: i < 3, body)

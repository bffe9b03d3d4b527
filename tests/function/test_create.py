"""Creation of arrays: shapes of every type, ranges against NumPy, arrays like others, opaque
values.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array3f,
    Array33f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Matrix2f,
    Matrix3f,
    Quaternion4f,
    TensorXf,
    TensorXi,
    UInt,
    UInt8,
)

LEAVES = ("Bool", "Int8", "UInt8", "Int", "UInt", "Int64", "UInt64", "Float16", "Float", "Float64")


@dataclass
class Pair:
    a: Float
    b: Array3f


class Struct:
    DRJIT_STRUCT = {"a": Float, "b": Pair}  # noqa: RUF012

    def __init__(self):
        self.a = Float()
        self.b = None


@pytest.mark.parametrize("name", LEAVES)
def test_constants_of_every_type(name, tier):
    cls = getattr(dr.llvm, name)
    for size in (0, 1, 17):
        for made, value in (
            (dr.zeros(cls, size), 0),
            (dr.ones(cls, size), 1),
            (dr.full(cls, 1, (size,)), 1),
        ):
            assert type(made) is cls
            np.testing.assert_array_equal(made.numpy(), np.full(size, value, made.numpy().dtype))


@pytest.mark.parametrize(
    "dtype, shape, expected",
    [
        (Array3f, 1, (3, 1)),
        (Array3f, 2, (3, 2)),
        (Array3f, (3, 2), (3, 2)),
        (Array3f, [3, 0], (3, 0)),
        (ArrayXf, 2, (1, 2)),
        (ArrayXf, (2, 3), (2, 3)),
        (Matrix2f, 2, (2, 2, 2)),
        (Matrix2f, (2, 2, 5), (2, 2, 5)),
        (Array33f, 2, (3, 3, 2)),
        (dr.llvm.Matrix34f, 2, (3, 3, 4, 2)),
        (TensorXf, 3, (3,)),
        (TensorXf, (), ()),
        (TensorXf, (2, 0), (2, 0)),
        (TensorXi, (2, 3), (2, 3)),
        (dr.scalar.Array3f, 1, (3,)),
        (dr.scalar.ArrayXf, 4, (4,)),
        (dr.scalar.Matrix2f, (2, 2), (2, 2)),
        (dr.scalar.TensorXf, (2, 3), (2, 3)),
    ],
)
def test_shapes(dtype, shape, expected):
    for make in (dr.zeros, dr.ones, dr.empty, lambda d, s: dr.full(d, 2, s)):
        made = make(dtype, shape)
        assert type(made) is dtype and made.shape == expected
    assert (dr.full(dtype, 2, shape).numpy() == 2).all()


@pytest.mark.parametrize(
    "dtype, shape",
    [
        (Float, (2, 3)),
        (Array3f, (2, 2)),
        (ArrayXf, (2,)),
        (Matrix2f, (2, 2)),
        (dr.scalar.Array3f, (2,)),
    ],
)
def test_shapes_that_do_not_fit(dtype, shape):
    with pytest.raises(RuntimeError, match="shape"):
        dr.zeros(dtype, shape)


@pytest.mark.parametrize("shape", [-1, 2.0, (2, -1), "3", None])
def test_shapes_that_are_none(shape):
    with pytest.raises(TypeError, match=r"dr\.zeros\(\): 'shape'"):
        dr.zeros(TensorXf, shape)
    with pytest.raises(TypeError, match="'dtype'"):
        dr.zeros(5)


def test_numbers_of_algebras():
    assert str(dr.ones(Complex2f)) == "[1]" and str(dr.full(Complex2f, 1 + 2j)) == "[1+2j]"
    assert str(dr.full(Quaternion4f, 2)) == "[2]"
    assert str(dr.full(Quaternion4f, [1, 2, 3, 4])) == "[1i+2j+3k+4]"
    assert (dr.ones(Matrix2f).numpy() == 1).all()
    assert dr.full(Matrix2f, [[1, 2], [3, 4]], 2).numpy()[:, :, 1].tolist() == [[1, 2], [3, 4]]
    assert dr.full(Array3f, [1, 2, 3], 2).numpy().tolist() == [[1, 1], [2, 2], [3, 3]]
    for size in (1, 3):
        expected = np.repeat(np.eye(3)[:, :, None], size, 2)
        np.testing.assert_array_equal(dr.identity(Matrix3f, size).numpy(), expected)
    assert str(dr.identity(Quaternion4f)) == "[1]" and dr.identity(int) == 1
    assert dr.identity(dr.scalar.Matrix2f).numpy().tolist() == [[1, 0], [0, 1]]
    assert dr.identity(dr.llvm.Matrix44f).shape == (4, 4, 4, 1)


def test_python_types():
    assert dr.zeros(int) == 0 and dr.ones(float, 3) == 1.0 and dr.full(int, 5.5) == 5
    assert dr.zeros(bool) is False and dr.ones(bool) is True
    assert dr.zeros(str) == "" and dr.zeros(list) == []
    with pytest.raises(RuntimeError, match="list"):
        dr.full(list, 3)


def test_structures():
    made = dr.ones(Struct, 2)
    assert list(made.a) == [1, 1] and made.b.b.shape == (3, 2)
    pair = dr.full(Pair, Pair(Float(3), Array3f(1, 2, 3)), 2)
    assert list(pair.a) == [3, 3] and pair.b.numpy().tolist() == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize("value", [1.5, -1, 2**40, "x", None, [1, 2], Float(1, 2)])
def test_values_that_do_not_fit(value):
    with pytest.raises(RuntimeError, match=r"dr\.full"):
        dr.full(UInt, value, 3)


def test_like():
    tree = {"a": [Float(1, 2), 5], "b": Array3f([1, 2], 3, 4)}
    zero, one = dr.zeros_like(tree), dr.ones_like(tree)
    assert list(zero["a"][0]) == [0, 0] and zero["a"][1] == 0 and (zero["b"].numpy() == 0).all()
    assert zero["b"].shape == (3, 2) and (one["b"].numpy() == 1).all()
    assert dr.empty_like(TensorXf(np.zeros((2, 3)))).shape == (2, 3)
    assert type(dr.zeros_like(Bool(True))) is Bool and str(dr.ones_like(Complex2f(5))) == "[1]"
    assert list(dr.zeros_like(dr.scalar.Array3f(1, 2, 3))) == [0, 0, 0]
    for other in (None, "x"):
        with pytest.raises(TypeError):
            dr.zeros_like(other)


@pytest.mark.parametrize("cls", [Float, Matrix2f, list])
def test_an_opaque_type_needs_a_value(cls):
    with pytest.raises(RuntimeError, match=r"dr\.opaque.*received a type object"):
        dr.opaque(cls)


def test_what_is_opaque_may_be_named():
    assert list(dr.opaque(arg=Float(1, 2))) == [1, 2]
    assert list(dr.opaque(dtype=Float, value=3, shape=2)) == [3, 3]
    with pytest.raises(TypeError, match=r"dr\.opaque"):
        dr.opaque()


def test_constants_take_no_memory_until_opaque():
    a = dr.zeros(Float, 5)
    assert a.state == dr.VarState.Literal
    b = dr.opaque(a)
    assert a.state == dr.VarState.Literal and b.state == dr.VarState.Evaluated
    assert list(b) == [0] * 5
    assert list(dr.opaque(Float, 3, 2)) == [3, 3] and dr.opaque(5) == 5
    assert dr.opaque([Float(3), 5])[0].state == dr.VarState.Evaluated
    width = dr.opaque_width([Array3f([1, 2], 3, 4), 7])
    assert type(width) is UInt and list(width) == [2] and width.state == dr.VarState.Evaluated
    with pytest.raises(RuntimeError, match=r"different sizes \(3, 2\)"):
        dr.opaque_width([Float(1, 2, 3), Float(1, 2)])
    with pytest.raises(TypeError):
        dr.opaque_width("x")


# ------------------------------------------------------------------------------ ranges


@pytest.mark.parametrize("name", LEAVES[1:])
def test_arange(name, tier):
    cls = getattr(dr.llvm, name)
    kind = cls(1).numpy().dtype
    for arguments in ((0,), (1,), (17,), (3, 20), (2, 100, 7), (0, 7, 3), (5, 5)):
        np.testing.assert_array_equal(
            dr.arange(cls, *arguments).numpy(), np.arange(*arguments).astype(kind)
        )
    if cls._dtype.is_signed:
        np.testing.assert_array_equal(
            dr.arange(cls, 5, -9, -2).numpy(), np.arange(5, -9, -2).astype(kind)
        )


def test_components_of_constants_change_separately():
    for p in (dr.zeros(Array3f, 3), dr.full(Array3f, 0, 3), Array3f(0), dr.zeros(Matrix3f, 3)[0]):
        dr.scatter(p.x, Float(1), UInt(0))
        p.y += 2
        dr.make_opaque(p.z)
        assert (p.x[0], p.y[0], p.z[0]) == (1, 2, 0) and p.z.state is dr.VarState.Evaluated
    rows = dr.ones(Matrix3f, 2)
    rows[0, 1] = 5
    np.testing.assert_array_equal(rows.numpy()[:, :, 0], [[1, 5, 1], [1, 1, 1], [1, 1, 1]])


def test_arange_of_other_types():
    assert dr.arange(TensorXf, 3).shape == (3,)
    assert list(dr.arange(dr.scalar.ArrayXf, 1, 4)) == [1, 2, 3]
    assert list(dr.arange(UInt8, 300))[-2:] == [42, 43]
    assert list(dr.arange(Int, 2**31 - 2, 2**31)) == [2**31 - 2, 2**31 - 1]
    assert list(dr.arange(dtype=Float, start=1, stop=3)) == [1, 2] and list(
        dr.arange(Float, size=2)
    ) == [0, 1]
    for dtype in (Bool, Array3f, ArrayXf, Complex2f, int):
        with pytest.raises(TypeError, match=r"dr\.arange"):
            dr.arange(dtype, 3)
    for arguments in ((0, 1, 0.25), (0.5, 3), ("3",), (3, None, 1.0)):
        with pytest.raises(TypeError, match="integers"):
            dr.arange(Float, *arguments)
    with pytest.raises(TypeError, match="unsigned"):
        dr.arange(UInt, 3, 0, -1)
    with pytest.raises(RuntimeError, match="negative"):
        dr.arange(Float, 4, 1)
    with pytest.raises(ValueError, match="'step'"):
        dr.arange(Int, 0, 10, 0)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("cls, bound", [(Float16, 1e-3), (Float, 2e-7), (Float64, 4e-16)])
def test_linspace(cls, bound, endpoint, tier):
    for start, stop in ((0, 1), (0.1, 3.7), (2, -2)):
        for num in (0, 2, 5, 11, 1000):
            got = dr.linspace(cls, start, stop, num, endpoint)
            expected = np.linspace(start, stop, num, endpoint)
            assert np.abs(got.numpy() - expected).max(initial=0) <= bound * max(
                abs(start), abs(stop)
            )
    assert list(dr.linspace(cls, 5, 7, 1)) == [5]


def test_linspace_rounds_as_one_product_and_sum():
    step = np.float32((3.7 - 0.1) / 10)
    got = dr.linspace(Float, 0.1, 3.7, 11).numpy()
    expected = [np.float32(float(step) * i + float(np.float32(0.1))) for i in range(11)]
    assert got.tolist() == [float(v) for v in expected]


def test_linspace_of_other_types():
    assert dr.linspace(TensorXf, 0, 1, 3).numpy().tolist() == [0, 0.5, 1]
    assert list(dr.linspace(dr.scalar.ArrayXf, 0, 1, 3)) == [0, 0.5, 1]
    assert len(dr.linspace(Float16, 0, 1, 100_000)) == 100_000
    assert dr.linspace(Float16, 0, 1, 100_000).numpy()[-1] == 1
    for call in (
        lambda: dr.linspace(Int, 0, 1, 3),
        lambda: dr.linspace(Array3f, 0, 1, 3),
        lambda: dr.linspace(Float, Float(0), 1, 3),
        lambda: dr.linspace(Float, 0, 1, -1),
        lambda: dr.linspace(Float, 0, 1, 2.0),
    ):
        with pytest.raises(TypeError, match=r"dr\.linspace"):
            call()

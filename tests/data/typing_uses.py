"""Types that an editor knows: tests/test_stubs.py has this file checked. It is not run."""

from typing import assert_type

import drjit as dr
from drjit.auto.ad import (
    Array2b,
    Array2f,
    Array3b,
    Array3f,
    Array3f64,
    Array3i,
    Array33f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float64,
    Int,
    Matrix3f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt,
)

assert_type(Float(1) + 1, Float)
assert_type(1 + Float(1), Float)
assert_type(Float(1) * 1.5, Float)
assert_type(Int(1) + 1, Int)
assert_type(Int(1) + 1.5, Float)
assert_type(1.5 * Int(1), Float)
assert_type(Int(1) + Float(1), Float)
assert_type(Float(1) + Int(1), Float)
assert_type(Bool(True) + 1, Int)
assert_type(Bool(True) * Float(1), Float)
assert_type(Array3f(1) * Float(1), Array3f)
assert_type(Float(1) * Array3f(1), Array3f)
assert_type(Float(1) * Array3i(1), Array3f)
assert_type(Array3i(1) * Float(1), Array3f)
assert_type(Array3i(1) * 2.5, Array3f)
assert_type(Array3f(1) * Float64(1), Array3f64)
assert_type(Array3f(1) - Array3i(1), Array3f)
assert_type(Array3i(1) - Array3f(1), Array3f)
assert_type(Array3f(1) - [1, 2, 3], Array3f)
assert_type(Float(1) < 2, Bool)
assert_type(Float(1) > 2, Bool)
assert_type(Int(1) == 2, Bool)
assert_type(Float(1) == Array3f(2), Array3b)
assert_type(Array3f(1) < Int(2), Array3b)
assert_type((Float(1) < 2) & (Int(1) > 3), Bool)
assert_type(~(Float(1) < 2), Bool)
assert_type(Matrix3f(1) @ Array3f(1), Array3f)
assert_type(Matrix3f(1) * Array3f(1), Array3f)
assert_type(Matrix3f(1) @ Matrix3f(1), Matrix3f)
assert_type(2 * Matrix3f(1), Matrix3f)
assert_type(Float(2) * Matrix3f(1), Matrix3f)
assert_type(Matrix3f(1)[0], Array3f)
assert_type(Matrix3f(1)[0, 1], Float)
assert_type(Complex2f(1) * Float(1), Complex2f)
assert_type(Complex2f(1).real, Float)
assert_type(Complex2f(1) == 1, Array2b)
assert_type(Quaternion4f(1).imag, Array3f)
assert_type(Quaternion4f(1).x, Float)
assert_type(TensorXf([1]) + 1, TensorXf)
assert_type(TensorXi([1]) * 1.5, TensorXf)
assert_type(TensorXf([1]) * Float(1), TensorXf)
assert_type(TensorXf([1])[0, :], TensorXf)
assert_type(TensorXf([1]).array, Float)
assert_type(TensorXf([1]) > 0, TensorXb)
assert_type(Array3f(1).x, Float)
assert_type(Array3f(1).xy, Array2f)
assert_type(Array2f(1).xxy, Array3f)
assert_type(Array33f(1) * Array3f(1), Array33f)
assert_type(Array3f(1) * ArrayXf(1), ArrayXf)
assert_type(Float(1)[0], float)
assert_type(Float(1)[UInt(0)], Float)
assert_type(Float(1)[1:2], Float)
assert_type(Array3f.Value(1), Float)
assert_type(Float.Mask(1), Bool)
assert_type(-Float(1), Float)
assert_type(abs(Float(1)), Float)
assert_type(Float(1) ** 2, Float)
assert_type(2 ** Float(1), Float)
assert_type(Int(1) // 2, Int)
assert_type(Int(1) << UInt(2), UInt)
assert_type(Float(1) & Bool(True), Float)
assert_type(Array3f(1).shape, tuple[int, ...])
assert_type(Float(1).grad, Float)
x = Float(1)
x += 1
x *= Float(2)
assert_type(x, Float)
v = Array3f(1, 2, 3)
v.x += 1
v.x = 2
v.xy = v.yx
v[0] = 2
a, b, c = v
assert_type(a, Float)
assert_type(dr.sin(Float(1)), Float)
assert_type(dr.sqrt(Array3f(1)), Array3f)
assert_type(dr.floor(TensorXf([1])), TensorXf)
assert_type(dr.square(Array3f(1)), Array3f)
assert_type(dr.normalize(Array3f(1)), Array3f)
assert_type(dr.inverse(Matrix3f(1)), Matrix3f)
assert_type(dr.zeros(Float, 3), Float)
assert_type(dr.zeros(Array3f.Value), Float)
assert_type(dr.arange(UInt, 3), UInt)
assert_type(dr.zeros_like(v), Array3f)
assert_type(dr.gather(Array3f, x, UInt(0)), Array3f)
assert_type(dr.unravel(Array3f, x), Array3f)
assert_type(dr.detach(v), Array3f)
assert_type(dr.grad(v), Array3f)
assert_type(dr.cumsum(x), Float)
assert_type(dr.sum(x), Float)
assert_type(dr.sum(v), Float)
assert_type(dr.max(Array33f(1)), Array3f)
assert_type(dr.sum(Array33f(1), axis=None), Float)
assert_type(dr.sum(TensorXf([1]), axis=0), TensorXf)


@dr.freeze
def frozen(x: Float, n: int) -> Array3f:
    return Array3f(x * n, 1, 2)


@dr.func
def called(x: Float) -> Float:
    return x + 1


@dr.syntax
def counted(x: Float) -> Float:
    while dr.hint(x < 10, max_iterations=20):
        x += 1
    return x


assert_type(frozen(x, 2), Array3f)
assert_type(called(x), Float)
assert_type(counted(x), Float)

assert_type(dr.maximum(x, 1.5), Float)
assert_type(dr.maximum(1, x), Float)
assert_type(dr.minimum(Int(1), x), Float)
assert_type(dr.minimum(Int(1), 1.5), Float)
assert_type(dr.minimum(1.5, Int(1)), Float)
assert_type(dr.fmax(x, v), Array3f)
assert_type(dr.hypot(v, x), Array3f)
assert_type(dr.atan2(x, Float64(1)), Float64)
assert_type(dr.maximum(TensorXf([1]), 2), TensorXf)
assert_type(dr.maximum(1.0, 2.0), float)
assert_type(dr.select(x > 0, x, 0), Float)
assert_type(dr.select(x > 0, 0, x), Float)
assert_type(dr.select(x > 0, v, 0), Array3f)
assert_type(dr.select(x > 0, Int(1), x), Float)
assert_type(dr.fma(x, 2, 1), Float)
assert_type(dr.fma(v, x, v), Array3f)
assert_type(dr.fma(x, v, 0.5), Array3f)
assert_type(dr.lerp(x, 1, 0.5), Float)
assert_type(dr.lerp(v, v, x), Array3f)
assert_type(dr.lerp(0.0, 1.0, x), Float)
assert_type(dr.clip(v, 0, 1), Array3f)
assert_type(dr.dot(v, v), Float)
assert_type(dr.norm(v), Float)
assert_type(dr.squared_norm(v), Float)
assert_type(dr.mean(x), Float)

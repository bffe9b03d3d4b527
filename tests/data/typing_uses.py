"""Types that an editor knows: tests/package/test_stubs.py has this file checked. It is not run."""

from typing import Any, assert_type

import drjit as dr
from drjit import cuda, dda, nn, scalar
from drjit.array.textures import Channels
from drjit.auto.ad import (
    PCG32,
    Array2b,
    Array2f,
    Array3b,
    Array3f,
    Array3f64,
    Array3i,
    Array3u,
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
    Matrix4f,
    Quaternion4f,
    Quaternion4f64,
    TensorXb,
    TensorXf,
    TensorXi,
    TensorXu,
    Texture2f,
    UInt,
    UInt64,
)
from drjit.opt import Adam

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
i, u = Int(1), UInt(1)
assert_type(dr.minimum(x, x), Float)
assert_type(dr.minimum(x, 2), Float)
assert_type(dr.minimum(2, x), Float)
assert_type(dr.minimum(i, 2.5), Float)
assert_type(dr.minimum(2.5, i), Float)
assert_type(dr.maximum(i, x), Float)
assert_type(dr.maximum(Array3i(1), x), Array3f)
assert_type(dr.maximum(x, Array3i(1)), Array3f)
assert_type(dr.maximum(v, Float64(1)), Array3f64)
assert_type(dr.maximum(Float64(1), v), Array3f64)
assert_type(dr.maximum(v, [1, 2, 3]), Array3f)
assert_type(dr.maximum(TensorXf([1]), x), TensorXf)
assert_type(dr.maximum(1, 2), int)
assert_type(dr.maximum(1, 2.0), float)
assert_type(dr.fmin(x, 2), Float)
assert_type(dr.copysign(x, v), Array3f)
assert_type(dr.power(x, 2), Float)
assert_type(dr.atan2(x, 1), Float)
assert_type(dr.hypot(x, v), Array3f)
assert_type(dr.clip(x, 0, 1), Float)
assert_type(dr.clip(v, x, 1), Array3f)
assert_type(dr.clip(x, min=0, max=1), Float)
assert_type(dr.clip(i, 0, 1), Int)
assert_type(dr.clip(i, 0, 1.5), Float)
assert_type(dr.lerp(v, v, x), Array3f)
assert_type(dr.lerp(0, 1, x), Float)
assert_type(dr.lerp(0, v, x), Array3f)
assert_type(dr.fma(x, 2, v), Array3f)
assert_type(dr.select(x < 1, x, 0), Float)
assert_type(dr.select(x < 1, 1, 0), Int)
assert_type(dr.select(x < 1, 1.0, 0), Float)
assert_type(dr.select(x < 1, v, 0), Array3f)
assert_type(dr.select(x < 1, 0, v), Array3f)
assert_type(dr.select(v < 1, x, 0), Array3f)
assert_type(dr.select(v < 1, 1.0, 0.0), Array3f)
assert_type(dr.select(v < 1, v, x), Array3f)
assert_type(dr.select(x < 1, i, x), Float)
assert_type(dr.select(x < 1, x, i), Float)
assert_type(dr.select(True, x, i), Float)
assert_type(dr.select(x < 1, x > 0, False), Bool)
assert_type(dr.select(v < 1, x > 0, False), Array3b)
assert_type(dr.select(TensorXf([1]) > 0, 1.0, 0.0), TensorXf)
assert_type(dr.select(x < 1, [x, x], [x, x]), list[Float])
assert_type(dr.select(x < 1, (x, v), (x, v)), tuple[Float, Array3f])
assert_type(dr.select(i, x, 1), Float)
assert_type(dr.step(x, 1), Int)
assert_type(dr.step(v, 1), Array3i)
assert_type(dr.isnan(v), Array3b)
assert_type(dr.isnan(1.0), bool)
assert_type(dr.isnan(Complex2f(1)), Array2b)
assert_type(dr.abs(v), Array3f)
assert_type(dr.abs(Complex2f(1)), Float)
assert_type(dr.abs(-1), int)
assert_type(dr.sign(i), Int)
assert_type(dr.sincos(v), tuple[Array3f, Array3f])
assert_type(dr.sin(1), float)
assert_type(dr.popcnt(u), UInt)
assert_type(dr.real(Complex2f(1)), Float)
assert_type(dr.imag(Quaternion4f(1)), Array3f)
assert_type(dr.dot(v, v), Float)
assert_type(dr.dot(v, Array3i(1)), Float)
assert_type(dr.dot(Array3i(1), v), Float)
assert_type(dr.dot(v, [1, 2, 3]), Float)
assert_type(dr.dot(x, x), Float)
assert_type(dr.dot(TensorXf([1]), TensorXf([1])), TensorXf)
assert_type(dr.norm(v), Float)
assert_type(dr.squared_norm(v), Float)
assert_type(dr.cross(v, v), Array3f)
assert_type(dr.det(Matrix3f(1)), Float)
assert_type(dr.diag(Matrix3f(1)), Array3f)
assert_type(dr.matmul(Matrix3f(1), v), Array3f)
assert_type(dr.matmul(Matrix3f(1), Matrix3f(2)), Matrix3f)
assert_type(dr.matmul(TensorXf([1]), TensorXf([2])), TensorXf)
assert_type(dr.unit_angle(v, v), Float)
assert_type(dr.mean(v), Float)
assert_type(dr.std(x, ddof=1), Float)
assert_type(dr.sum(v, axis=-1), Array3f)
assert_type(dr.sum(v, axis=0), Float)
assert_type(dr.sum([x, x]), Float)
assert_type(dr.sum_nested(v), Float)
assert_type(dr.all(v > 0), Bool)
assert_type(dr.all(x > 0), Bool)
assert_type(dr.all(Array33f(1) > 0, axis=None), Bool)
assert_type(dr.all(TensorXf([1]) > 0), TensorXb)
assert_type(dr.any([True, False]), bool)
assert_type(dr.count(x > 0), UInt)
assert_type(dr.count(v > 0), UInt)
assert_type(dr.count(Array33f(1) > 0), Array3u)
assert_type(dr.count(v > 0, axis=None), UInt)
assert_type(dr.count(v > 0, axis=-1), Array3u)
assert_type(dr.compress(x > 0), UInt)
assert_type(dr.ravel(v), Float)
assert_type(dr.ravel(TensorXf([1])), Float)
assert_type(dr.argmax(x), UInt)
assert_type(dr.argsort(v), Array3u)
assert_type(dr.argsort(TensorXf([1])), TensorXu)
assert_type(dr.median(x), Float)
assert_type(dr.value_t(v), type[Float])
assert_type(dr.value_t(Array33f), type[Array3f])
assert_type(dr.value_t(Float), type[float])
assert_type(dr.leaf_t(Array33f), type[Float])
assert_type(dr.leaf_t(Float), type[Float])
assert_type(dr.mask_t(v), type[Array3b])
assert_type(dr.mask_t(TensorXf), type[TensorXb])
assert_type(dr.array_t(TensorXf), type[Float])
assert_type(dr.array_t(Matrix3f), type[Array33f])
assert_type(dr.uint32_array_t(Array3f), type[Array3u])
assert_type(dr.float64_array_t(v), type[Array3f64])
assert_type(dr.grad([x, x]), list[Float])
assert_type(dr.detach((x, v)), tuple[Float, Array3f])


def general(a: dr.ArrayT, b: dr.ArrayBase) -> dr.ArrayT:
    c = dr.minimum(b, 2) + dr.select(b > 0, b, 0) + dr.dot(b, b) + dr.sum(b)
    assert_type(c, Any)
    return dr.sin(a)


features = nn.CoopVec(x, 2)
assert_type(features, nn.CoopVec[Float])
assert_type(nn.CoopVec(v, 2), nn.CoopVec[Float])
assert_type(features * 2 + x, nn.CoopVec[Float])
assert_type(dr.maximum(features, 0), nn.CoopVec[Float])
assert_type(dr.exp(features), nn.CoopVec[Float])
assert_type(nn.ReLU()(features), nn.CoopVec[Float])
assert_type(nn.Linear(2, 3)(TensorXf([1])), TensorXf)
assert_type(nn.Sequential(nn.Linear(2, 3)).alloc(TensorXf), nn.Sequential)
assert_type(nn.Sequential(nn.Linear(2, 3))(features), nn.CoopVec[Any])
assert_type(nn.cast(features, Float16), nn.CoopVec[Float16])
for feature in features:
    assert_type(feature, Float)
opt = Adam(1e-3, {"x": x})
y: Float = opt["x"]
opt["v"] = v
names: list[str] = list(opt)
assert_type(dr.rng(1).random(TensorXf, (2, 3)), TensorXf)
looped = dr.while_loop((UInt(0), x > 0), lambda i, b: i < 2, lambda i, b: (i + 1, b))
assert_type(looped, tuple[UInt, Bool])
assert_type(dr.if_stmt((x,), x > 0, lambda x: x + 1, lambda x: x), Float)
assert_type(dr.sort(x), Float)
assert_type(dr.tile(x, 2), Float)
assert_type(dr.resample(x, (4,)), Float)


@dr.wrap(source="torch", target="drjit")
def wrapped(x: TensorXf) -> TensorXf:
    return x


assert_type(wrapped(TensorXf([1])), TensorXf)
assert_type(dr.nn.ReLU()(x), Float)


@dr.freeze
def frozen_once(x: Float, n: int = 1) -> Float:
    return x * n


@dr.freeze(limit=3)
def frozen_twice(x: Float) -> tuple[Float, Float]:
    return x, x


class Simulation:
    @dr.freeze
    def step(self, x: Float) -> Float:
        return x


assert_type(frozen_once(x, n=2), Float)
assert_type(frozen_once.n_recordings, int)
assert_type(frozen_twice(x), tuple[Float, Float])
assert_type(Simulation().step(x), Float)
assert_type(Simulation().step.n_cached_recordings, int)
assert_type(dr.forward_to(v), Array3f)
assert_type(dr.backward_to(x, v), tuple[Float, Array3f])
assert_type(dr.concat([x, x]), Float)
assert_type(dr.opaque(Array3f, 1), Array3f)
assert_type(dr.opaque(x), Float)
assert_type(dr.reshape(Array3f, x, (3, 2)), Array3f)
assert_type(dr.meshgrid(x, x), tuple[Float, Float])
assert_type(dr.load("state.npz", {"x": x}), dict[str, Float])
assert_type(dr.load("state.npz"), Any)
assert_type(PCG32().next_float32(), Float)
assert_type(PCG32().next_float(Float64), Float64)
assert_type(PCG32().next_uint32_bounded(7), UInt)
assert_type(Texture2f(TensorXf([1])).tensor(), TensorXf)

assert_type(nn.pack(nn.Sequential(nn.Linear(2, 3))), nn.Sequential)


def unknown(value: Any) -> None:
    """What is not known of an argument is not known of the result."""
    assert_type(dr.sin(value), Any)
    assert_type(dr.clip(value, 0, 1), Any)
    assert_type(dr.minimum(value, 2), Any)
    assert_type(dr.select(x > 0, value, 1), Any)
    assert_type(dr.isnan(value), Any)


assert_type(dr.minimum(1, 2.5), float)
assert_type(dr.atan2(1, 2), float)
assert_type(dr.abs(-1), int)

q, t, m = Quaternion4f(1), TensorXf([1]), Matrix3f(1)
assert_type(dr.allclose(v, 1), Bool)
assert_type(dr.allclose(1, x), Bool)
assert_type(dr.allclose(t, x), TensorXb)
assert_type(dr.allclose(scalar.Array3f(1), 1), bool)
assert_type(dr.allclose([1, 2], (1, 2)), bool)
assert_type(dr.stack([x, x], axis=1), TensorXf)
assert_type(dr.vstack([v, v]), TensorXf)
assert_type(dr.hstack((t, t)), TensorXf)
assert_type(dr.split(t, 2), list[TensorXf])
assert_type(dr.slice(x), float)
assert_type(dr.slice(v, 1), scalar.Array3f)
assert_type(dr.slice([x, x]), list[float])
assert_type(dr.slice(v, [0, 1]), Array3f)
assert_type(dr.slice(t), TensorXf)
assert_type(dr.tensor_t(v), type[TensorXf])
assert_type(dr.matrix_t(Array3f), type[Matrix3f])
assert_type(dr.detached_t(Float), type[dr.llvm.Float])
assert_type(dr.diff_array_t(dr.llvm.Array3f), type[dr.llvm.ad.Array3f])
assert_type(dr.int_array_t(Float), type[Int])
assert_type(dr.uint_array_t(v), type[Array3u])
assert_type(dr.float_array_t(Int), type[Float])
assert_type(dr.replace_type_t(Array3f, dr.VarType.Float64), type[Array3f64])
assert_type(dr.replace_type_t(v, dr.VarType.Bool), type[Array3b])
assert_type(dr.expr_t(Int, Array3f), type[Array3f])
assert_type(dr.mul_wide(u, 2), UInt64)
assert_type(dr.sphdir(x, 1.0), Array3f)
assert_type(dr.euler_to_quat(v), Quaternion4f)
assert_type(dr.quat_to_euler(q), Array3f)
assert_type(dr.matrix_to_quat(m), Quaternion4f)
assert_type(dr.quat_apply(q, v), Array3f)
assert_type(dr.slerp(q, q, 0.5), Quaternion4f)
assert_type(dr.slerp(q, Quaternion4f64(1), x), Quaternion4f64)
assert_type(dr.polar_decomp(m), tuple[Matrix3f, Matrix3f])
assert_type(dr.transform_decompose(Matrix4f(1)), tuple[Matrix3f, Quaternion4f, Array3f])
assert_type(dr.transform_compose(m, q, v), Matrix4f)
assert_type(dr.sh_eval(v, 2), list[Float])
assert_type(dr.opaque_width(v), UInt)
assert_type(dr.opaque_width(t), UInt)
assert_type(dr.scatter_inc(u, u), UInt)
assert_type(dr.scatter_exch(x, 1, u), Float)
assert_type(dr.scatter_cas(x, 1, 2, u), tuple[Float, Bool])
assert_type(dr.migrate(x, dr.JitBackend.CUDA), cuda.ad.Float)
assert_type(dr.migrate({"x": x}, dr.JitBackend.LLVM), dict[str, Float])
assert_type(dr.binary_search(UInt(0), UInt(9), lambda k: k < 3), UInt)
assert_type(dr.reduce(dr.ReduceOp.Max, v), Float)
assert_type(dr.reduce(dr.ReduceOp.Max, t, axis=0), TensorXf)
assert_type(dr.upsample(t, scale_factor=[2]), TensorXf)
assert_type(dr.reshape(t, (2, -1)), TensorXf)
assert_type(dr.alloc_local(Array3f, 3)[0], Array3f)
assert_type(dr.graphviz(as_string=True), str)
assert_type(dr.cross(Array3i(1), v), Array3f)
assert_type(dda.integrate(v, v, 1.0, v, v, t), Float)
assert_type(nn.pack(t), nn.MatrixView)
texel = Texture2f(t).eval(Array2f(1))
assert_type(texel, Channels[Float])
assert_type(texel.y, Float)
assert_type(Texture2f(t).eval_cubic_hessian(Array2f(1))[2], list[Matrix2f])
gradients = Texture2f(t).eval_cubic_grad(Array2f(1))
assert_type(gradients, tuple[Channels[Any], list[Array2f]])


def shaded(colour: Array3f) -> Array3f:
    return colour * Texture2f(t).eval(Array2f(1))


assert_type(shaded(texel), Array3f)


def visit(
    total: Float, cell: Array3u, enter: Array3f, leave: Array3f, active: Bool
) -> tuple[Float, Bool]:
    return total + leave.x - enter.x, active


assert_type(dda.dda(v, v, 1.0, [2, 2, 2], v, v, visit, x), Float)

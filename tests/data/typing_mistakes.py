"""Mistakes that type checkers report: one on every line that ends with `# wrong`, and on no other.
tests/package/test_stubs.py has this file checked. It is not run.
"""

# ruff: noqa: B015, B018

import drjit as dr
from drjit import dda, distributed, nn
from drjit.auto.ad import (
    PCG32,
    Array2f,
    Array3f,
    Array33f,
    Bool,
    Complex2f,
    Float,
    Int,
    Matrix3f,
    Quaternion4f,
    TensorXf,
    Texture2f,
    UInt,
)
from drjit.opt import SGD, Adam

Float(1).lenght  # wrong
Array3f(1).q  # wrong
Array2f(1).z  # wrong
Float(1).x  # wrong
Array2f(1).xyz  # wrong
Complex2f(1).x  # wrong
Array3f(1) + Array2f(1)  # wrong
Array3f(1) * Matrix3f(1)  # wrong
Float(1) + "x"  # wrong
Float(1) // 2  # wrong
Float(1) | Float(2)  # wrong
Bool(True) + Bool(True)  # wrong
Int(1) / Int(2)  # wrong
Matrix3f(1) @ Array2f(1)  # wrong
Matrix3f(1) < 1  # wrong
Complex2f(1) > Complex2f(2)  # wrong
TensorXf([1]) + Array3f(1)  # wrong
Array3f(1, 2)  # wrong
TensorXf([1], (1,), 2)  # wrong


def shifted(x: Float) -> Int:
    return x + 1  # wrong


first: Float = Int(1) + 1  # wrong
second: Int = Int(1) + 1.5  # wrong
third: Array2f = Array3f(1).xyz  # wrong
fourth: Float = Array3f(1) > 0  # wrong
shifted(Array3f(1))  # wrong
fifth: Array3f = dr.zeros(Float, 3)  # wrong
sixth: Array3f = dr.sin(Float(1))  # wrong
seventh: Array3f = dr.sum(Array3f(1))  # wrong


@dr.syntax
def doubled(x: Float) -> Float:
    return 2 * x


doubled("x")  # wrong
x, v, i = Float(1), Array3f(1), Int(1)
dr.minimum(v, Array2f(1))  # wrong
dr.minimum(x, "1")  # wrong
dr.minimum(x)  # wrong
dr.sin("x")  # wrong
dr.sin(i)  # wrong
dr.sin(x > 0)  # wrong
dr.popcnt(x)  # wrong
dr.select(x, x, x)  # wrong
dr.select(x > 0, v, Array2f(1))  # wrong
dr.select(x > 0, x, "0")  # wrong
dr.clip(x, 0)  # wrong
dr.clip(v, Array2f(1), 1)  # wrong
dr.lerp(v, Array2f(1), 0.5)  # wrong
dr.dot(v, Array2f(1))  # wrong
dr.cross(v, Array2f(1))  # wrong
dr.all(x)  # wrong
dr.any(v)  # wrong
dr.count(x)  # wrong
dr.compress(x)  # wrong
dr.sine(x)  # wrong
dr.sum(x, axsi=0)  # wrong
dr.sum("x", axis="y")  # wrong
eighth: Array3f = dr.dot(v, v)  # wrong
ninth: Float = dr.minimum(x, v)  # wrong
tenth: Int = dr.select(x > 0, x, 0)  # wrong
nn.Linear(2, 3).aloc(TensorXf)  # wrong
eleventh: Int = dr.rng().random(Float, 3)  # wrong
twelfth: TensorXf = nn.ReLU()(nn.CoopVec(x))  # wrong
Adam(0.1, {"x": x}).stop()  # wrong

mask: Bool = v > 0  # wrong
mask = x  # wrong
dr.gather(Float, x, x)  # wrong
dr.gather(Array3f, x, 0.5)  # wrong
dr.gather("Float", x, i)  # wrong
g1: Int = dr.gather(Float, x, i)  # wrong
dr.gather(Float, x, i, active=x)  # wrong
dr.scatter(x, x, x)  # wrong
dr.scatter(x, 1)  # wrong
dr.scatter_add(x, 1, 0.5)  # wrong
Adam(0.1, {"x": 1.0})  # wrong
Adam(0.1, [x])  # wrong
opt = Adam(0.1, {"x": x})
opt["x"] = "y"  # wrong
opt[1] = x  # wrong
opt.step(eval="yes")  # wrong
opt.set_learning_rate(1, 2, 3)  # wrong
nn.Linear("a", 3)  # wrong
nn.Sequential(3)  # wrong
nn.Linear(2, 3).alloc()  # wrong


@dr.freeze
def frozen(x: Float, y: Float) -> Float:
    return x + y


frozen(x)  # wrong
frozen(x, "y")  # wrong
f2: Int = frozen(x, x)  # wrong
frozen.n_records  # wrong
frozen.clear(1)  # wrong


@dr.freeze(limit="all")  # wrong
def frozen2(x: Float) -> Float:
    return x


class C:
    @dr.freeze
    def step(self, x: Float) -> Float:
        return x


C().step("x")  # wrong
C().step(x, x)  # wrong
C().step.n_recordings
distributed.all_reduce(x, op="median")  # wrong
distributed.all_reduce()  # wrong
r: Int = distributed.all_reduce(x)  # wrong
distributed.broadcast(x, root="a")  # wrong
distributed.rank(1)  # wrong
distributed.allreduce(x)  # wrong
PCG32().next_float33()  # wrong
p1: Int = PCG32().next_float32()  # wrong
PCG32().next_uint32_bounded()  # wrong
Texture2f(TensorXf([1])).evaluate(v)  # wrong
t1: Float = Texture2f(TensorXf([1])).tensor()  # wrong
dr.llvm.Flaot  # wrong
dr.nn.Linaer  # wrong
dr.JitFlag.Debgu  # wrong
dr.set_flag("Debug", True)  # wrong
dr.zeros(3)  # wrong
dr.linspace(Float, 0)  # wrong
dr.full(Float)  # wrong
dr.while_loop((x,), lambda x: x > 0)  # wrong
dr.while_loop(x, lambda x: x > 0, lambda x: (x,))  # wrong
dr.if_stmt((x,), x > 0, lambda x: x)  # wrong
dr.switch(UInt(0))  # wrong
dr.backward()  # wrong
dr.backward(x, flags="x")  # wrong
dr.enable_grad(x, y=1)  # wrong
dr.sort(x, axis="a")  # wrong
dr.reduce("sum", x)  # wrong
dr.block_reduce(dr.ReduceOp.Add, x)  # wrong
dr.block_sum(x, "2")  # wrong
dr.allclose(x)  # wrong
dr.matmul(Matrix3f(1), Array2f(1))  # wrong
dr.rng().normal(Float)  # wrong
dr.save(1, {})  # wrong
dr.load()  # wrong
dr.kernel(1)  # wrong
dr.thread_count(1)  # wrong
dr.convolve(x)  # wrong
dr.shape(x, 1)  # wrong
dr.hint(x > 0, max_iteration=3)  # wrong
dr.custom(3, x)  # wrong
dr.detach(x, 1, 2)  # wrong
dr.set_grad(x)  # wrong
dr.repeat(x)  # wrong
dr.concat(x)  # wrong
dr.take(x)  # wrong
dr.fma(x, x)  # wrong
dr.dot_product(x, x)  # wrong
u, b, m, t = UInt(1), Bool(True), Matrix3f(1), TensorXf([1])
x[x > 0] = "text"  # wrong
nn.pack(Float)  # wrong
Texture2f(t, wrap_mode="repeat")  # wrong
Texture2f(wrap_mode="repeat")  # wrong
dr.zeros(Float, "3")  # wrong
dr.arange(Float)  # wrong
dr.rng(seed="a")  # wrong
dr.meshgrid(x, x, indexing="ji")  # wrong
dr.cumsum(x, axis=0.5)  # wrong
dr.zeros(dtype=Float, size=3)  # wrong
dr.full(Float, "1", 3)  # wrong
dr.arange(Float, "3")  # wrong
dr.arange(Array3f, 3)  # wrong
dr.linspace(Array3f, 0, 1, 3)  # wrong
dr.gather(x, Float, u)  # wrong
dr.gather(Float, x)  # wrong
dr.scatter(x, u, x)  # wrong
dr.scatter(target=x, source=x, index=u)  # wrong
dr.scatter_add(Float, x, u)  # wrong
dr.scatter_reduce("add", x, x, u)  # wrong
dr.scatter_reduce(x, x, u)  # wrong
dr.scatter_inc(v, u)  # wrong
dr.scatter_cas(x, 1, u)  # wrong
dr.reduce(dr.ReduceMode.Auto, x)  # wrong
dr.prefix_sum(x, exclusive=True)  # wrong
dr.block_reduce("add", x, 2)  # wrong
x[0.5]  # wrong
x["a"]  # wrong
v[1.5] = 1  # wrong
v.x = "1"  # wrong
v["x"] = 1  # wrong
Float("1")  # wrong
Array3f("a", "b", "c")  # wrong
Array3f(x=1, y=2, z=3)  # wrong
m @ t  # wrong
v @ m  # wrong
t @ m  # wrong
dr.freeze(3)  # wrong
dr.syntax(3)  # wrong
dr.syntax(fast=True)  # wrong
dr.func(3)  # wrong
dr.wrap("torch")  # wrong
dr.wrap(source="torch")  # wrong
dr.kernel(text="def f")  # wrong
nn.Linear("3")  # wrong
nn.Linear(2, 3, biases=True)  # wrong
nn.Linear(2, 3)(x, x)  # wrong
nn.Sequential([nn.Linear(2, 3)])  # wrong
nn.Sequential(nn.Linear)  # wrong
nn.Linear(2, 3).alloc(3)  # wrong
nn.LeakyReLU("0.1")  # wrong
Adam(lr="0.1")  # wrong
Adam(0.1, params=[x])  # wrong
Adam(learning_rate=0.1)  # wrong
Adam(0.1, beta=0.9)  # wrong
SGD(0.1, momentum="0.9")  # wrong
Adam(0.1, {"x": x}).step(1)  # wrong
opt["x"] = 1.0  # wrong
opt.update(x)  # wrong
dr.mask_t()  # wrong
dr.select(x, 1, 0)  # wrong
dr.select(b, x)  # wrong
dr.matmul(v, m)  # wrong
dr.quat_apply(v, Quaternion4f(1))  # wrong
dr.slerp(v, v, 0.5)  # wrong
dr.quat_to_matrix(Quaternion4f(1))  # wrong
dr.rotate(Quaternion4f, v)  # wrong
dr.euler_to_quat(x)  # wrong
dr.matrix_to_quat(Array33f(1))  # wrong
dr.sphdir(v, v)  # wrong
dr.stack(x, x)  # wrong
dr.stack([1, 2])  # wrong
dr.concat(x, x)  # wrong
dr.split(x, 2)  # wrong
dr.mul_wide(x, x)  # wrong
dr.upsample(t, 2)  # wrong
dr.compress(u)  # wrong
dr.binary_search(0.0, 1.0, lambda i: True)  # wrong
dr.allclose(x, "1")  # wrong
dr.assert_true(b, 3)  # wrong
dr.migrate(x, "cuda")  # wrong
dr.replace_type_t(Float, "float32")  # wrong
dr.int_array_t(Complex2f)  # wrong
dr.set_flag(dr.JitFlag.Debug, "on")  # wrong
dr.scoped_set_flag("Debug")  # wrong
dr.backward(x, retain_graph=True)  # wrong
dr.enable_grad(grad=x)  # wrong
dr.set_grad(x, 1, 2)  # wrong
dr.while_loop((x,), lambda x: x < 3)  # wrong
dr.while_loop(state=(x,), cond=lambda x: x < 3, body=lambda x: (x,), mode=3)  # wrong
dr.if_stmt((x,), b, lambda x: x, lambda x, y: x)  # wrong
dr.switch(0.5, [lambda x: x], x)  # wrong
dr.dispatch(x, lambda s: s)  # wrong
dr.alloc_local(3, Float)  # wrong
dr.alloc_local(Float, 3)["a"]  # wrong
dr.custom(dr.CustomOp())  # wrong
Texture2f(t).eval("p")  # wrong
Texture2f(t).eval(Array2f(1), active=x)  # wrong
Texture2f([1, 2], "3")  # wrong
dda.integrate(v, v, 1, v, v, v)  # wrong
PCG32(size="3")  # wrong
dr.rng(method="pcg")  # wrong
dr.rng().random(Float)  # wrong
dr.rng().uniform(Float, "3")  # wrong
dr.save({"x": x}, "state.npz")  # wrong
dr.hint(b, mode=3)  # wrong
dr.minimum(x, x, x)  # wrong
dr.sum(x, axis="x")  # wrong
dr.sum(v, dim=0)  # wrong
dr.mean(x, axis=0.5)  # wrong
dr.reshape(TensorXf, t, "3")  # wrong
dr.reshape(t)  # wrong
dr.take(t, 0.5)  # wrong
dr.repeat(x, 2.5)  # wrong
dr.tile(x, 2.5)  # wrong
dr.transpose(t, 1)  # wrong
dr.moveaxis(t, "a", "b")  # wrong
dr.sort(x, reverse=True)  # wrong
dr.argmax(x, axis="a")  # wrong
dr.convolve(t, 3)  # wrong
dr.resample(t, 3)  # wrong
dr.resample(t, [3], filter=3)  # wrong
dr.thread_count("4")  # wrong
dr.set_thread_count("4")  # wrong
dr.log_level(3)  # wrong
dr.set_log_level("loud")  # wrong
dr.shape()  # wrong
dr.width(axis=0)  # wrong
dr.fma(x, x, "y")  # wrong
dr.float32_array_t()  # wrong
dr.opaque(Float)  # wrong
dr.detach(x, True, 3)  # wrong
dr.cross(v, x)  # wrong
dr.normalize(3, 4)  # wrong
texture: Int = Texture2f(t).eval(v)[0]  # wrong
channel: Array2f = Texture2f(t).eval(v).x  # wrong
stacked: Array2f = dr.stack([x, x])  # wrong
close: Bool = dr.allclose(t, t)  # wrong
rotated: Quaternion4f = dr.quat_apply(Quaternion4f(1), v)  # wrong
angles: Array3f = dr.euler_to_quat(v)  # wrong
wide: UInt = dr.mul_wide(u, u)  # wrong
lane: Float = dr.slice(x, 0)  # wrong
previous: Float = dr.scatter_inc(u, u)  # wrong
exchanged: UInt = dr.scatter_cas(u, 1, 2, u)  # wrong
reduced: Array3f = dr.reduce(dr.ReduceOp.Add, v)  # wrong
line: Array3f = dda.integrate(v, v, 1, v, v, t)  # wrong
cells: UInt = dr.alloc_local(Float, 3)[0]  # wrong
tensor: type[Float] = dr.tensor_t(Array3f)  # wrong
doubles: Array3f = dr.replace_type_t(Array3f, dr.VarType.Float64)(1)  # wrong
there: Float = dr.migrate(x, dr.JitBackend.CUDA)  # wrong
packed: TensorXf = nn.pack(t)  # wrong

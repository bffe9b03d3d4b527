"""Mistakes that type checkers report: one on every line that ends with `# wrong`, and on no other.
tests/test_stubs.py has this file checked. It is not run.
"""

# ruff: noqa: B015, B018

import drjit as dr
from drjit import distributed, nn
from drjit.auto.ad import (
    PCG32,
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Int,
    Matrix3f,
    TensorXf,
    Texture2f,
    UInt,
)
from drjit.opt import Adam

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
dr.dda  # wrong

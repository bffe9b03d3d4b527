"""Mistakes that type checkers report: one on every line that ends with `# wrong`, and on no other.
tests/test_stubs.py has this file checked. It is not run.
"""

# ruff: noqa: B015, B018

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array2f, Array3f, Bool, Complex2f, Float, Int, Matrix3f, TensorXf
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

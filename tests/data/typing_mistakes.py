"""Mistakes that type checkers report: one on every line that ends with `# wrong`, and on no other.
tests/test_stubs.py has this file checked. It is not run.
"""

# ruff: noqa: B015, B018

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Bool, Complex2f, Float, Int, Matrix3f, TensorXf

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

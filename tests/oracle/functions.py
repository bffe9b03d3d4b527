# ruff: noqa: RUF012, E501, F401, F403, F405
"""Creation functions, select, minimum and other elementary functions."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from dataclasses import dataclass

from _cases import cases

import drjit as dr
from drjit.llvm import *
from drjit.llvm import ad


class Struct:
    """A structure described by DRJIT_STRUCT."""

    DRJIT_STRUCT = {"a": Float, "b": Array2i}

    def __init__(self):
        self.a = Float()
        self.b = Array2i()

    def __repr__(self):
        return f"Struct({self.a}, {self.b})"


@dataclass
class Data:
    """A structure described by annotations."""

    a: Float = 0
    b: int = 3
    c: str = "x"


cases(
    """
## creation
dr.zeros(Float)
dr.zeros(Float, 3)
dr.zeros(Float, 0)
dr.zeros(Float, -1)
dr.zeros(Float, (3,))
dr.zeros(Float, [3])
dr.zeros(Float, (2, 3))
dr.zeros(Float, shape=2)
dr.zeros(Float, 2.0)
dr.zeros(Array3f)
dr.zeros(Array3f, 2)
dr.zeros(Array3f, (3, 2))
dr.zeros(Array3f, (2, 2))
dr.zeros(ArrayXf)
dr.zeros(ArrayXf, 2)
dr.zeros(ArrayXf, (2, 3))
dr.zeros(Matrix2f)
dr.zeros(Matrix2f, 2)
dr.ones(Matrix2f)
dr.ones(Complex2f)
dr.ones(Quaternion4f)
dr.full(Matrix2f, 3)
dr.full(Complex2f, 3)
dr.zeros(TensorXf)
dr.zeros(TensorXf, 3)
dr.zeros(TensorXf, (2, 3))
dr.zeros(TensorXf, ())
dr.zeros(TensorXf, (2, 0)).shape
dr.zeros(int)
dr.zeros(float), dr.zeros(bool), dr.ones(int), dr.ones(bool), dr.ones(float), dr.full(int, 5)
dr.zeros(float, 3)
dr.zeros(str)
dr.zeros(list)
dr.zeros(None)
dr.zeros(Float(1))
dr.zeros(Bool, 2), dr.ones(Bool, 2)
dr.zeros(Struct, 2)
dr.zeros(Data, 2)
dr.ones(Struct, 2)
dr.full(Struct, 1, 2)
dr.zeros(dr.scalar.Array3f), dr.zeros(dr.scalar.ArrayXf, 2)
dr.ones(Float, 2), dr.ones(Int), dr.ones(Array3f, 2)
dr.full(Float, 1.5, 2)
dr.full(Float, 3)
dr.full(Int, 1.5)
dr.full(UInt, -1)
dr.full(Array3f, 2, 2)
dr.full(Array3f, [1, 2, 3])
dr.full(Array3f, Float(1, 2))
dr.full(TensorXf, 2, (2, 2))
dr.full(Float, "x")
dr.full(Bool, 1, 2)
dr.empty(Float, 3).shape, dr.empty(Array3f, 2).shape, dr.empty(TensorXf, (2, 3)).shape, type(dr.empty(int))
dr.zeros_like(Float(1, 2)), dr.ones_like(Array3f([1, 2], 3, 4)), dr.zeros_like(TensorXf([[1, 2]])), dr.zeros_like(5), dr.ones_like(5.5)
dr.empty_like(Float(1, 2)).shape
dr.opaque(Float, 3).state, dr.opaque(Float, 3, 2)
dr.zeros(Float, 3).state, Float(1).state, Float(1, 2).state, (Float(1, 2) + 1).state, dr.arange(Float, 3).state
dr.identity(Matrix2f), dr.identity(Matrix2f, 2), dr.identity(Float), dr.identity(Complex2f), dr.identity(Quaternion4f)
dr.identity(int)
## ranges
dr.arange(Float, 3)
dr.arange(Int, 0)
dr.arange(Float, 1)
dr.arange(Float, 1, 4)
dr.arange(Float, 4, 1)
dr.arange(Float, 0, 5, 2)
dr.arange(Float, 5, 0, -2)
dr.arange(Float, 0, 1, 0.25)
dr.arange(Float, 0.5, 3)
dr.arange(Int, -3, 3)
dr.arange(UInt, 3, 0, -1)
dr.arange(UInt, -1)
dr.arange(Bool, 2)
dr.arange(Array3f, 2)
dr.arange(ArrayXf, 2)
dr.arange(TensorXf, 3)
dr.arange(int, 3)
dr.arange(Float, size=3)
dr.arange(dtype=Float, start=1, stop=3)
dr.arange(Float16, 3)
dr.arange(dr.scalar.ArrayXf, 3)
dr.arange(Complex2f, 3)
dr.linspace(Float, 0, 1, 5)
dr.linspace(Float, 0, 1, 5, endpoint=False)
dr.linspace(Float, 0, 1, 0)
dr.linspace(Float, 2, 3, 2)
dr.linspace(Float, 1, 0, 3)
dr.linspace(Int, 0, 10, 3)
dr.linspace(TensorXf, 0, 1, 3)
dr.linspace(Array3f, 0, 1, 3)
dr.linspace(Float64, 0, 1, 3)
dr.linspace(Float, 0, 1)
dr.linspace(Float, Float(0), 1, 3)
dr.linspace(dtype=Float, start=-1, stop=1, num=3)
## select
dr.select(Bool(True, False), 1, 2)
dr.select(Bool(True, False), 1, 2.5)
dr.select(Bool(True, False), Float(1), 2)
dr.select(Bool(True, False), Float(1), Int(2))
dr.select(Bool(True, False), Int(1), 2.5)
dr.select(True, 1, 2)
dr.select(True, Float(1), Int(2))
dr.select(False, "a", "b")
dr.select(True, Float(1), "b")
dr.select(Bool(True), "a", "b")
dr.select(Array3b(True, False, True), Float(1), Array3f(2))
dr.select(Bool(True, False), Array3f(1), Array3f(2))
dr.select(Bool(True, False), Array3f(1), 0)
dr.select(Array3b(True, False, True), 1, 0)
dr.select(Array3b(True, False, True), 1.5, 0)
dr.select(Bool(True, False), [Float(1), Int(2)], [Float(3), Int(4)])
dr.select(Bool(True, False), {"a": Float(1)}, {"a": Float(2)})
dr.select(Bool(True, False), {"a": Float(1)}, {"b": Float(2)})
dr.select(Bool(True, False), [Float(1)], [Float(1), Float(2)])
dr.select(1, Float(1), Float(2))
dr.select(Bool(True, False), Matrix2f(1), Matrix2f(2))
dr.select(Bool(True, False), Complex2f(1, 2), 0)
dr.select(Bool(True, False), TensorXf([1, 2]), TensorXf([3, 4]))
dr.select(TensorXb([True, False]), TensorXf([1, 2]), 0)
dr.select(Bool(True), Float(1), None)
dr.select(Bool(True, False), Bool(True), False)
## minimum, maximum
dr.minimum(Float(1), Float(float("nan"))), dr.minimum(Float(float("nan")), Float(1))
dr.maximum(Float(1), Float(float("nan"))), dr.maximum(Float(float("nan")), Float(1))
dr.fmin(Float(1, float("nan")), Float(float("nan"), 1))
dr.fmax(Float(1, float("nan")), Float(float("nan"), 1))
dr.minimum(1, 2), dr.minimum(1, 2.5), dr.maximum(1.5, 1), dr.minimum(True, False)
dr.minimum(float("nan"), 1.0), dr.minimum(1.0, float("nan")), dr.maximum(float("nan"), 1.0), dr.maximum(1.0, float("nan"))
dr.fmin(1, 2), dr.fmin(1.0, float("nan")), dr.fmax(float("nan"), 1.0), dr.fmin(1, 2.5)
dr.minimum(Float(5), 3)
dr.minimum(Int(5), 3.5)
dr.minimum(Array3f(1, 2, 3), Float(2))
dr.minimum(Bool(True), Bool(False))
dr.minimum("a", "b")
dr.minimum([Float(1)], [Float(2)])
dr.minimum(Complex2f(1), Complex2f(2))
dr.minimum(TensorXf(5), 3)
dr.clip(Float(-1), 0, 1)
dr.clip(5, 0, 3), dr.clip(5.5, 0, 3), dr.clip(Float(5), Float(0), 3)
dr.clip(Int(5), 0, 2.5)
dr.clip(Float(5), 3, 1)
dr.clip(value=Float(5), min=0, max=1)
dr.clamp(Float(5), 0, 1)
dr.clip(Array3f(-1, 0.5, 2), 0, 1)
dr.step(Float(0.5), Float(0, 0.5, 1)), dr.step(0.5, Float(0, 1))
## ternary and sign
dr.fma(2, 3, 4), dr.fma(2.0, 3, 4), dr.fma(Float(2), 3, 4), dr.fma(Int(2), 3, 4), dr.fma(Int(2), Float(3), 4)
dr.fma(Array3f(1, 2, 3), Float(2), 1), dr.fma(Matrix2f(1, 2, 3, 4), Matrix2f(1), Matrix2f(1)), dr.fma(Complex2f(1, 2), Complex2f(0, 1), 1)
dr.fma(Bool(True), 1, 1)
dr.lerp(Float(0), Float(10), 0.25), dr.lerp(0.0, 10.0, 0.25), dr.lerp(0, 10, 0.25), dr.lerp(Int(0), Int(10), Float(0.25))
dr.sign(Float(-2, 0, -0.0, 3, float("nan"))), dr.sign(Int(-2, 0, 3)), dr.sign(-2), dr.sign(0), dr.sign(-0.0), dr.sign(2.5)
dr.copysign(Float(1, 2), Float(-1, 1))
dr.copysign(1, -2), dr.copysign(1.0, -2.0)
dr.copysign(Float(3), -0.0)
dr.copysign(-3.0, Float(1))
dr.mulsign(Float(1, 2), Float(-1, -0.0)), dr.mulsign(1, -2), dr.mulsign(1.5, -2.0), dr.mulsign(Int(1), Int(-2)), dr.mulsign(Int(5), 0)
dr.step(0.5, 1.0)
dr.hypot(Float(3), Float(4)), dr.hypot(3.0, 4.0), dr.hypot(3, 4), dr.hypot(Float(1e30), Float(1e30)), dr.hypot(Float(float("inf")), 1)
dr.square(3), dr.square(Float(3)), dr.square(Int(3)), dr.square(Matrix2f(1, 2, 3, 4)), dr.square(Complex2f(0, 1)), dr.sqr(2)
dr.rcp(4), dr.rcp(4.0), dr.rcp(Float(4)), dr.rcp(Matrix2f(1, 2, 3, 4))
dr.rcp(Int(4))
dr.rsqrt(4), dr.rsqrt(Float(4, 0, -1))
""",
    globals(),
)

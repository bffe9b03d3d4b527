# ruff: noqa: E501, F401, F403, F405
"""Conversions between sRGB, linear RGB and Oklab."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
import drjit.scalar as s
from drjit.llvm import *
from drjit.llvm import ad

X = Float(-1, -0.5, -0.001, 0, 0.001, 0.0031308, 0.01, 0.04045, 0.2, 0.5, 1, 1.5, 3)
T = TensorXf([[0.1, 0.5, 0.9], [0, 1, 0.25]])
T4 = TensorXf([[0.1, 0.5, 0.9, 0.3], [0, 1, 0.25, 2]])

cases(
    """
## transfer curve
dr.srgb_to_linear(X), dr.linear_to_srgb(X), dr.srgb_to_linear(X, False), dr.linear_to_srgb(X, clip=False)
dr.srgb_to_linear(0.5), dr.linear_to_srgb(0.5), dr.srgb_to_linear(-0.5, False), dr.linear_to_srgb(2.0), dr.linear_to_srgb(2.0, False)
dr.srgb_to_linear(T), dr.linear_to_srgb(T), dr.srgb_to_linear(Array3f(0.1, 0.5, 2)), dr.linear_to_srgb(s.Array3f(0.1, 0.5, 2))
dr.linear_to_srgb(Float64(0.1, 0.5)), dr.linear_to_srgb(ad.Float(0.1, 0.5))
dr.srgb_to_linear(1), dr.linear_to_srgb(0)
## Oklab
dr.linear_srgb_to_oklab(T), dr.oklab_to_linear_srgb(dr.linear_srgb_to_oklab(T))
dr.linear_srgb_to_oklab(T4), dr.oklab_to_linear_srgb(T4)
dr.linear_srgb_to_oklab(Array3f(0.1, 0.5, 0.9)), dr.oklab_to_linear_srgb(Array3f(0.5, 0.1, -0.1)), dr.linear_srgb_to_oklab(Array4f(0.1, 0.5, 0.9, 0.3))
dr.linear_srgb_to_oklab(s.Array3f(0.1, 0.5, 0.9)), dr.linear_srgb_to_oklab(Array3f64(0.1, 0.5, 0.9))
dr.linear_srgb_to_oklab(Array3f(-0.1, -0.5, 0.2)), dr.linear_srgb_to_oklab(Array3f(2, 3, 4)), dr.linear_srgb_to_oklab(Array3f(0))
dr.linear_srgb_to_oklab(TensorXf([[0.1, 0.5, 0.9], [1, 1, 1]]))
## bad input
dr.srgb_to_linear(Int(1))
dr.srgb_to_linear(Bool(True))
dr.srgb_to_linear("x")
""",
    globals(),
)

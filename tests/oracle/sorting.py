# ruff: noqa: E501, F401, F403, F405
"""Sorting, positions of extremes, medians."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *

T = TensorXf(dr.arange(Float, 6), (2, 3))
C = TensorXf(dr.arange(Float, 24), (2, 3, 4))
nan = float("nan")
X = TensorXf([[3, 1, 2], [9, nan, 7]])

cases(
    """
## sort
dr.sort(Float(3, 1, 2)), dr.sort(Float()), dr.sort(Bool(True, False)), dr.sort(Int(3, -1, 2)), dr.sort(UInt(3, 0, 4294967295))
dr.sort(Float64(3, -1e300, 2)), dr.sort(Float16(3, -1, 2)), dr.sort(Int64(3, -1, 1 << 40)), dr.sort(UInt64(3, 1 << 63))
dr.sort(Float(3, nan, 1, 2)), dr.sort(Float(3, nan, 1, 2), descending=True), dr.sort(Float(float('inf'), nan, float('-inf')))
dr.sort(X), dr.sort(X, axis=0), dr.sort(TensorXf([])), dr.sort(TensorXi([3, 1]))
dr.sort(X, axis=2)
dr.sort(X, axis=None)
dr.sort([3, 1, 2])
## argsort
dr.argsort(Float(3, 1, 2, 1)), dr.argsort(Float(3, 1, 2, 1), descending=True), dr.argsort(X, axis=0), dr.argsort(X)
## extremes
dr.argmin(Float(3, 1, 2)), dr.argmax(X), dr.argmax(X, axis=0), dr.argmin(X, axis=1, keepdims=True)
dr.argmin(Float(nan, 1)), dr.argmax(Float(1, nan)), dr.argmax(Float(2, 5, 5)), dr.argmin(Int(3, -1, -1))
dr.argmin(TensorXf([[1, 2], [0, 1]])), dr.argmin(TensorXf([[1, 2], [0, 1]]), keepdims=True)
dr.argmin(Array3f(3, 1, 2))
## median
dr.median(Float(3, 1, 2)), dr.median(Float(3, 1, 2, 10)), dr.median(Int(3, 1, 2, 10))
dr.median(X), dr.median(X, axis=None), dr.median(X, axis=0, keepdims=True)
dr.median(Float(3, 1, 2, 10), return_index=True), dr.median(Float(3, nan, 2, 10), return_index=True), dr.median(X, axis=(0, 1), return_index=True)
dr.median(C, axis=(0, 2), return_index=True), dr.median(C, axis=1)
dr.median(Float())
""",
    globals(),
)

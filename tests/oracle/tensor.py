# ruff: noqa: E501, F401, F403, F405
"""Tensors: keys, axes, joining, reductions, matrix products."""

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
## construction
TensorXf(Array3f([1, 2], [3, 4], [5, 6]), flip_axes=True)
TensorXf(Matrix2f(1, 2, 3, 4), flip_axes=True).shape
TensorXf(dr.arange(Float, 6), (2, 3), flip_axes=True)
TensorXf(np.arange(6).reshape(2, 3), flip_axes=True)
Array3f(TensorXf([[1, 2, 3], [3, 4, 5]]), flip_axes=True)
## keys
T[UInt(0, 1), :, None].shape, T[None, UInt(0, 1), UInt(2, 1)], T[:, UInt(0, 2, 1)]
C[1, :, ::-2], C[..., 1], C[UInt(1, 0), 1:, 0]
dr.slice_index(UInt, (3, 4), (slice(None), 1))
dr.slice_index(UInt, (3, 4), (slice(None, None, -1), 1))
dr.slice_index(TensorXf, (3, 4), (slice(None), 1))
dr.slice_index(Int, (3, 4), (1,))
## order of axes
dr.moveaxis(C, 0, -1), dr.moveaxis(C, (0, 1), (1, 0)).shape
dr.moveaxis(T, 0, (1, 0))
dr.moveaxis(T, 2, 0)
dr.moveaxis(Array3f(1, 2, 3), 0, 0)
dr.transpose(T), dr.transpose(TensorXf([1, 2])), dr.transpose(T, (0, 1)), dr.transpose(C, (2, 0, 1))
dr.transpose(T, (0, 0))
dr.transpose(Array2f(1, 2))
dr.swapaxes(T, 0, 1), dr.swapaxes(C, 0, -1).shape
dr.swapaxes(T, 0, 2)
dr.expand_dims(T, 0), dr.expand_dims(T, (0, 2)).shape, dr.expand_dims(T, -1).shape
dr.expand_dims(T, 5)
dr.expand_dims(Float(1, 2), 0)
dr.squeeze(TensorXf([[1, 2]])), dr.squeeze(TensorXf([[1, 2]]), 0), dr.squeeze(T)
dr.squeeze(TensorXf([[1, 2]]), 1)
dr.squeeze(Float(1))
T.T, T.mT, C.mT
TensorXf([1, 2]).T
TensorXf([1, 2]).mT
C.T
## joining
dr.stack([T, T]), dr.stack([T, T], axis=1), dr.stack([T, T], axis=-1)
dr.stack([Float(1, 2), Float(3, 4)])
dr.stack([TensorXf([1, 2]), TensorXf([3])])
dr.stack([])
dr.stack([T, T], axis=5)
dr.vstack([Float(1, 2), Float(3, 4)]), dr.vstack([T, T]).shape
dr.vstack([])
dr.hstack([Float(1, 2), Float(3, 4)]), dr.hstack([T, T])
dr.hstack([1])
dr.column_stack([TensorXf([1, 2]), TensorXf([3, 4])]), dr.column_stack([T, T]).shape
dr.dstack([TensorXf([1, 2]), TensorXf([3, 4])]), dr.dstack([T, T]).shape
dr.concat([T, T]), dr.concat([T, T], axis=1), dr.concat([T, T], axis=None)
## splitting
dr.split(TensorXf([1, 2, 3, 4]), 2), dr.split(TensorXf([1, 2, 3, 4]), [1, 3]), dr.split(T, 3, axis=1)
dr.split(TensorXf([1, 2, 3, 4]), 3)
dr.split(Float(1, 2, 3, 4), 2)
dr.array_split(TensorXf([1, 2, 3, 4]), 3), dr.array_split(T, 2, axis=1)
dr.array_split(Float(1, 2, 3), 2)
## entries
dr.take(T, 1), dr.take(T, UInt(1, 0, 0), axis=1), dr.take(T, UInt(1, 0), axis=-1)
dr.take_interp(T, 0.25), dr.take_interp(TensorXf([1, 2, 4]), 1.5), dr.take_interp(TensorXf([1, 2, 4]), Float(0.5, 1.5, 7, 2))
## reductions
dr.sum(C, axis=0), dr.sum(C, axis=1), dr.sum(C, axis=(0, 2)), dr.max(C, axis=(1, 2)), dr.min(C, axis=-2, keepdims=True)
dr.sum(T, axis=2)
dr.sum(T, axis=())
dr.cumsum(T, 1), dr.cumsum(T, 0), dr.prefix_sum(T, axis=-1)
dr.var(T), dr.var(T, axis=1, keepdims=True), dr.std(T, axis=0), dr.std(T, axis=0, ddof=1), dr.std(T, keepdims=True), dr.var([1, 2, 4]), dr.var(Float(1, 2, 4))
dr.var(Array3f([1, 2], [3, 4], [5, 9]), axis=1)
dr.var(Int(1, 2, 3))
## matrix products
T @ T.T, T @ TensorXf([1, 1, 1]), TensorXf([1, 2]) @ T, TensorXf([1, 2]) @ TensorXf([3, 4])
dr.matmul(T, T, At=True), dr.matmul(T, T, Bt=True), dr.matmul(TensorXf64(T), TensorXf64(T), Bt=True), dr.matmul(TensorXf16(T), TensorXf16(T), Bt=True)
dr.matmul(T, T)
dr.matmul(TensorXf([1]), TensorXf([1]), At=True)
dr.matmul(T, 2)
TensorXi([[1, 2]]) @ TensorXi([[1], [2]])
(dr.ones(TensorXf, (5, 2, 3)) @ dr.ones(TensorXf, (3, 4))).shape, (dr.ones(TensorXf, (5, 1, 2, 3)) @ dr.ones(TensorXf, (6, 3, 4))).shape
dr.zeros(TensorXf, (2, 0)) @ dr.zeros(TensorXf, (0, 3)), dr.matmul(TensorXf([]), TensorXf([]))
C @ dr.moveaxis(C, 2, 1)
dr.matmul(Matrix2f(1, 2, 3, 4), Matrix2f(1, 2, 3, 4)), dr.matmul(Matrix2f(1, 2, 3, 4), Array2f(1, 2))
""",
    globals(),
)

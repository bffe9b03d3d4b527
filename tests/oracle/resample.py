# ruff: noqa: E731, E501, F401, F403, F405
"""Resampling, convolution, and upsampling."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
import drjit.scalar as s
from drjit.llvm import *
from drjit.llvm import ad

X = Float(1, 4, 2, 8, 5, 7)
T = TensorXf(dr.arange(Float, 24) ** 2, (2, 3, 4))
tent = lambda x: max(0, 1 - abs(x))
skew = lambda x: x + 10

cases(
    """
## resample
dr.resample(X, (3,)), dr.resample(X, [12]), dr.resample(X, 4)
dr.resample(X, (6,)), dr.resample(X, (6,), 'gaussian')
dr.resample(X, (12,), 'box'), dr.resample(X, (4,), 'box'), dr.resample(X, (12,), 'linear'), dr.resample(X, (4,), 'linear')
dr.resample(X, (12,), 'hamming'), dr.resample(X, (4,), 'hamming'), dr.resample(X, (12,), 'cubic'), dr.resample(X, (4,), 'cubic')
dr.resample(X, (12,), 'lanczos'), dr.resample(X, (4,), 'lanczos'), dr.resample(X, (12,), 'gaussian'), dr.resample(X, (4,), 'gaussian')
dr.resample(X, (9,), boundary='zero'), dr.resample(X, (9,), boundary='nearest'), dr.resample(X, (9,), boundary='wrap'), dr.resample(X, (9,), boundary='reflect'), dr.resample(X, (9,), boundary='mirror')
dr.resample(X, (3,), 'lanczos', boundary='wrap'), dr.resample(X, (3,), 'lanczos', boundary='reflect'), dr.resample(X, (3,), 'lanczos', boundary='mirror'), dr.resample(X, (3,), 'lanczos', boundary='nearest')
dr.resample(X, (9,), tent, 1), dr.resample(X, (3,), tent, 1.0), dr.resample(X, (9,), skew, 1.5), dr.resample(X, (6,), skew, 1.5)
dr.resample(X, (9,), mode='symbolic'), dr.resample(X, (9,), mode='evaluated')
dr.resample(X, (1,)), dr.resample(Float(3), (4,))
dr.resample(T, (2, 3, 4)).shape, dr.resample(T, (4, 3, 2)), dr.resample(T, (1, 1, 1), 'box'), dr.resample(T, (2, 5, 4), 'lanczos')
dr.resample(TensorXf64(T), (4, 3, 2)), dr.resample(s.TensorXf(T.numpy()), (4, 3, 2)), dr.resample(ad.TensorXf(T), (4, 3, 2))
dr.resample(s.ArrayXf(1, 2, 3), (6,)), dr.resample(Float64(1, 2, 3), (6,)), dr.resample(Float16(1, 2, 3), (6,)), dr.resample(ad.Float(1, 2, 3), (6,))
type(dr.resample(X, (3,)))
## bad input to resample
dr.resample(X, (3, 3))
dr.resample(X, ())
dr.resample(T, (3, 3))
dr.resample(X, (0,))
dr.resample(X, (-1,))
dr.resample(X, (2.5,))
dr.resample(Float(), (3,))
dr.resample(TensorXf(0, (0, 3)), (2, 3))
dr.resample(TensorXf(dr.zeros(Float, 0), (0, 3)), (0, 3))
dr.resample(X, (3,), 'foo')
dr.resample(X, (3,), 'cubic', 2)
dr.resample(X, (3,), tent)
dr.resample(X, (3,), tent, 0)
dr.resample(X, (3,), tent, -1)
dr.resample(X, (3,), boundary='foo')
dr.resample(X, (3,), mode='foo')
dr.resample(X, (3,), [1, 2, 1])
dr.resample(X, (3,), None)
## convolve
dr.convolve(X, [1, 2, 3]), dr.convolve(X, [1, 2, 3, 4]), dr.convolve(X, (1, 0, -1)), dr.convolve(X, [2]), dr.convolve(X, list(range(9)))
dr.convolve(X, [1, 2, 3], boundary='nearest'), dr.convolve(X, [1, 2, 3], boundary='wrap'), dr.convolve(X, [1, 2, 3], boundary='reflect'), dr.convolve(X, [1, 2, 3], boundary='mirror')
dr.convolve(X, list(range(17)), boundary='nearest'), dr.convolve(X, list(range(17)), boundary='wrap'), dr.convolve(X, list(range(17)), boundary='reflect'), dr.convolve(X, list(range(17)), boundary='mirror')
dr.convolve(X, [1, 2, 3], normalize=True), dr.convolve(X, [1, 2, 3], boundary='wrap', normalize=True), dr.convolve(X, 'gaussian', 2, normalize=True), dr.convolve(X, 'gaussian', 2)
dr.convolve(X, 'box', 2), dr.convolve(X, 'box', 3), dr.convolve(X, 'linear', 2), dr.convolve(X, 'hamming', 2.5), dr.convolve(X, 'cubic', 1.5), dr.convolve(X, 'lanczos', 3), dr.convolve(X, 'gaussian', 0.5), dr.convolve(X, 'gaussian')
dr.convolve(X, tent, 1), dr.convolve(X, skew, 1), dr.convolve(X, skew, 2.5), dr.convolve(X, skew, 0.5)
dr.convolve(T, [1, 2, 1]), dr.convolve(T, [1, 2, 1], axis=0), dr.convolve(T, [1, 2, 1], axis=-1), dr.convolve(T, [1, 2, 1], axis=(0, 2)), dr.convolve(T, [1, 2, 1], axis=())
dr.convolve(T, 'gaussian', 2, axis=1, normalize=True, boundary='mirror')
dr.convolve(s.ArrayXf(1, 2, 3), [1, 2, 3]), dr.convolve(s.TensorXf64([[1, 2], [3, 4]]), [1, 2, 3]), dr.convolve(Float16(1, 2, 3), [1, 2, 3]), dr.convolve(ad.Float(1, 2, 3), [1, 2, 3]), dr.convolve(Float64(1, 2, 3), [1, 2, 3])
dr.convolve(X, Float(1, 2, 3))
dr.convolve(X, np.array([1, 2, 3]))
dr.convolve(X, [1, 2, 3], mode='symbolic')
dr.convolve(X, [1, -1, 0], normalize=True)
## bad input to convolve
dr.convolve(X, [])
dr.convolve(X, [1, 2, 3], 2)
dr.convolve(X, tent)
dr.convolve(X, tent, 0)
dr.convolve(X, tent, -1)
dr.convolve(X, 'gaussian', 0)
dr.convolve(X, 'gaussian', -1)
dr.convolve(X, 'foo')
dr.convolve(X, 'gaussian', boundary='foo')
dr.convolve(Float(), [1, 2])
dr.convolve(TensorXf(dr.zeros(Float, 0), (0, 3)), [1, 2])
dr.convolve(X, 5)
dr.convolve(X, None)
dr.convolve(X, [1, 2], mode='foo')
dr.convolve(TensorXf(3), [1, 2])
## upsample
dr.upsample(T, (4, 3, 8)), dr.upsample(T, scale_factor=(1, 2, 1)), dr.upsample(TensorXi([1, 2]), (4,)), dr.upsample(T, [4, 6, 8]).shape
dr.upsample(T, (4, 3))
dr.upsample(T, scale_factor=(2, 2))
dr.upsample(T, (3, 3, 4))
dr.upsample(T, (1, 3, 4))
dr.upsample(T, scale_factor=(1.5, 1, 1))
dr.upsample(T, scale_factor=(0, 1, 1))
dr.upsample(T, scale_factor=(-1, 1, 1))
dr.upsample(T)
dr.upsample(T, (4, 3, 8), (2, 1, 2))
dr.upsample(Float(1, 2), (4,))
dr.upsample([1, 2], (4,))
dr.upsample(T, 4)
dr.upsample(T, scale_factor=2)
dr.upsample(s.TensorXf([[1, 2], [3, 4]]), (4, 2))
dr.upsample(TensorXf(3), ())
""",
    globals(),
)

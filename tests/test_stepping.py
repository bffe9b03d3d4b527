"""Statements with loops of their own, step by step on NumPy: without memory of the kernel's, where
reads beyond the end are errors, and with any width of registers.
"""

import numpy as np
import pytest
from helpers import uniform

from drjit.jit.target.simd import matmul
from drjit.jit.target.simd.stepping import Stepping


@pytest.mark.parametrize("register_bytes", [32, 64])
@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=["", "Bt", "At", "At Bt"])
@pytest.mark.parametrize(
    ("m", "n", "k", "rows"), [(1, 9, 21, 1), (3, 17, 33, 4), (13, 19, 40, 8)]
)
def test_a_matrix_product(m, n, k, rows, flags, register_bytes):
    a, b = uniform((m, k), 1), uniform((k, n), 2)
    operands = [
        np.ascontiguousarray(x.T if flag else x).ravel()
        for x, flag in zip((a, b), flags, strict=True)
    ]
    result, depth = np.full(m * n, np.nan), 16
    sizes = np.array([m, n, k, m, n, 1, 1, 0, 0, 0])
    scratch = np.zeros((n + 128) * depth + 8 * (depth + 16) + (m + 8) * (n + 128))
    matmul.run_task(
        Stepping(register_bytes), "f64", rows, n, depth, *operands, result, sizes, scratch, *flags
    )
    np.testing.assert_allclose(result.reshape(m, n), a @ b, rtol=1e-12, atol=1e-14)

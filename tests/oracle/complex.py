# ruff: noqa: E501, F401, F403
"""Functions of complex numbers, quaternions and matrices.

The reference needs an LLVM newer than 15 for `minimum`, `maximum` and `atan2` (DRJIT_LIBLLVM_PATH). Left out is where it aborts, loses values
(exp of a real quaternion), or refuses what has an obvious meaning.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *

nan, inf = float("nan"), float("inf")

FUNCTIONS = [
    "sqrt",
    "exp",
    "exp2",
    "log",
    "log2",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "rcp",
    "rsqrt",
    "abs",
    "cbrt",
    "sincos",
    "sincosh",
    "conj",
    "real",
    "imag",
    "arg",
    "square",
    "normalize",
    "norm",
    "erf",
    "floor",
    "sign",
    "isnan",
    "rad2deg",
    "safe_sqrt",
    "round",
    "safe_asin",
]
for value in [
    "Complex2f(0.3, 0.7)",
    "Complex2f(-0.3, -0.7)",
    "Complex2f(-4, 0)",
    "Quaternion4f(0.1, 0.2, 0.3, 0.4)",
    "Matrix2f(0.5, 0.25, 0.75, 0.1)",
]:
    cases(
        "\n".join(
            f"dr.{name}({value})"
            for name in FUNCTIONS
            if (name, value)
            not in [
                ("rsqrt", "Complex2f(-4, 0)"),
                ("asin", "Complex2f(-4, 0)"),
                ("acos", "Complex2f(-4, 0)"),
                ("safe_asin", "Complex2f(-4, 0)"),
            ]
        ),
        globals(),
    )

# ruff: noqa: E501, F401, F403
"""Mathematical functions: argument types and special values."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases, error_name

import drjit as dr
from drjit.llvm import *

UNARY = [
    "sqrt",
    "cbrt",
    "rcp",
    "rsqrt",
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
    "erf",
    "erfinv",
    "lgamma",
    "round",
    "floor",
    "ceil",
    "trunc",
    "abs",
    "square",
    "sign",
    "safe_sqrt",
    "safe_asin",
    "safe_acos",
    "rad2deg",
    "deg2rad",
    "isnan",
    "isinf",
    "isfinite",
    "popcnt",
    "lzcnt",
    "tzcnt",
    "brev",
    "log2i",
    "norm",
    "squared_norm",
    "normalize",
    "sincos",
    "sincosh",
    "real",
    "imag",
    "conj",
    "arg",
    "detach",
]
ARGUMENTS = [
    "Float(0.5)",
    "Int(5)",
    "Bool(True)",
    "5",
    "0.5",
    "True",
    "Array3f(0.5)",
    "Array3i(5)",
    "TensorXf([0.5])",
    "Complex2f(0.5, 1)",
    "Matrix2f(2)",
    "Quaternion4f(0.5)",
    "[Float(0.5)]",
    "'x'",
    "0.5j",
    "Float16(0.5)",
    "dr.scalar.Array3f(0.5)",
    "np.float32(0.5)",
    "UInt64(5)",
    "None",
    "np.ones(2)",
]

# What one of the two does not support, or answers with a wrong type (docs/differences.md).
DIFFERENT = {
    "numbers": (
        "arg",
        "imag",
        "norm",
        "normalize",
        "sign",
        "squared_norm",
        "real",
        "detach",
        "square",
    ),
    "half": ("arg",),
    "pairs": ("abs_dot", "dot", "unit_angle", "cross", "hypot", "mul_hi"),
}


def outcome(name, text):
    """Returns the result's type name, or the exception's."""
    try:
        out = getattr(dr, name)(eval(text))
    except Exception as error:
        return "!" + error_name(error)
    if isinstance(out, (tuple, list)):
        return f"{type(out).__name__}[{type(out[0]).__name__}]"
    return type(out).__name__


for text in ARGUMENTS:
    groups = {}
    plain = text[:1] in "0123456789TN['n" or text in ("UInt64(5)", "Bool(True)")
    left_out = DIFFERENT["numbers"] if plain else DIFFERENT["half"] if "16" in text else ()
    for name in (n for n in UNARY if n not in left_out):
        groups.setdefault(outcome(name, text), []).append(name)
    print(text, " ".join(f"{kind}: {','.join(names)}" for kind, names in groups.items()), sep="  ")
BINARY = [
    "minimum",
    "maximum",
    "fmin",
    "fmax",
    "atan2",
    "mulsign",
    "power",
    "hypot",
    "mul_hi",
    "mul_wide",
    "dot",
    "abs_dot",
    "cross",
    "step",
    "unit_angle",
]
PAIRS = [
    "Float(1), Float(2)",
    "Float(1), 2",
    "1, 2",
    "1.5, 2.5",
    "1, 2.5",
    "Int(1), Int(2)",
    "Int(1), 2",
    "UInt(1), Int(2)",
    "Array3f(1), Array3f(2)",
    "Array3f(1), Float(2)",
    "Array3f(1), 2",
    "Array3i(1), Array3i(2)",
    "Float(1), Float64(2)",
    "[1.0, 2.0], [3.0, 4.0]",
    "TensorXf([1]), TensorXf([2])",
    "UInt64(1), UInt64(2)",
    "Bool(True), Bool(True)",
]
for text in PAIRS:
    groups = {}
    plain = "Array3f(1), A" not in text
    for name in (n for n in BINARY if not plain or n not in DIFFERENT["pairs"]):
        try:
            kind = type(getattr(dr, name)(*eval(f"({text})"))).__name__
        except Exception as error:
            kind = "!" + error_name(error)
        groups.setdefault(kind, []).append(name)
    print(text, " ".join(f"{kind}: {','.join(names)}" for kind, names in groups.items()), sep="  ")
cases(
    """
## values
dr.round(Float(0.5, 1.5, 2.5, -0.5)), dr.round(2.5), dr.round(3)
dr.round(Int(3))
dr.floor(Float(-1.5)), dr.floor(1.5), dr.floor(3), dr.trunc(-1.5), dr.ceil(1.2)
dr.sin(Int(1))
dr.sin("x")
dr.sin([1.0])
dr.sin((Float(0), Float(1)))
dr.sin({"a": Float(0)})
dr.sqrt(Float(-1, 0, 4)), dr.sqrt(4), dr.log(0.0), dr.log(Float(0))
dr.sqrt(-1.0)
dr.sqrt(Complex2f(-1, 0)), dr.exp(Complex2f(0, 3.14159274)), dr.log(Complex2f(-1, 0)), dr.sin(Complex2f(1, 1)), dr.sqrt(Matrix2f(4))
dr.log(Quaternion4f(0, 0, 1, 0)), dr.rcp(Quaternion4f(1, 2, 3, 4))
dr.popcnt(UInt(255)), dr.popcnt(Int(-1)), dr.popcnt(255), dr.lzcnt(UInt(0)), dr.lzcnt(UInt(1)), dr.lzcnt(1)
dr.tzcnt(UInt(0)), dr.tzcnt(UInt(8)), dr.tzcnt(8), dr.tzcnt(0), dr.brev(UInt(1)), dr.brev(1), dr.brev(UInt64(1)), dr.lzcnt(UInt64(1))
dr.log2i(UInt(8)), dr.log2i(UInt(9)), dr.log2i(UInt(0)), dr.log2i(9), dr.log2i(Int(9))
dr.mul_hi(UInt(2**31), UInt(4)), dr.mul_hi(Int(-1), Int(5)), dr.mul_hi(2**31, 4)
dr.mul_hi(2**63, 4)
dr.popcnt(-1)
dr.mul_wide(UInt(2**31), UInt(4)), dr.mul_wide(Int(-1), Int(5)), dr.mul_wide(2**31, 4)
dr.mul_wide(UInt64(2**63), UInt64(4))
dr.isnan(Float(1, float("nan"))), dr.isinf(Float(1, float("inf"), -float("inf"))), dr.isfinite(Float(1, float("nan"), float("inf")))
dr.isnan(1.0), dr.isnan(1), dr.isinf(float("inf")), dr.isfinite(2)
dr.safe_sqrt(Float(-1)), dr.safe_asin(Float(2)), dr.safe_acos(Float(-2)), dr.safe_sqrt(-1.0)
dr.sincos(Float(1)), dr.sincos(1.0), dr.sincosh(Float(1))
dr.rad2deg(Float(1)), dr.deg2rad(180), dr.rad2deg(Float64(1)), dr.deg2rad(Float(180))
dr.norm(Array3f(1, 2, 2)), dr.norm(Float(3, 4)), dr.norm([3.0, 4.0]), dr.norm(TensorXf([3, 4])), dr.norm(Complex2f(3, 4)), dr.norm(Quaternion4f(1, 1, 1, 1)), dr.norm(Matrix2f(1, 2, 3, 4))
dr.squared_norm(Array3f(1, 2, 2)), dr.squared_norm(Float(3, 4)), dr.squared_norm(Array3i(1, 2, 2))
dr.normalize(Array3f(3, 0, 4)), dr.normalize(Quaternion4f(0, 0, 0, 2)), dr.normalize(Array3f(0))
dr.normalize(Float(3, 4))
dr.dot(Array3f(1, 2, 3), Array3f(1, 1, 1)), dr.dot(Float(1, 2), Float(3, 4)), dr.dot([1, 2], [3, 4]), dr.dot(Array3i(1, 2, 3), Array3f(1))
dr.dot(Array3f(1), Array2f(1))
dr.dot(Float(1, 2), Float(1, 2, 3))
dr.dot(TensorXf([1, 2]), TensorXf([3, 4]))
dr.dot(Quaternion4f(1, 2, 3, 4), Quaternion4f(1, 2, 3, 4)), dr.dot(Complex2f(1, 2), Complex2f(3, 4))
dr.dot(1, 2)
dr.abs_dot(Array3f(-1, 0, 0), Array3f(1, 0, 0))
dr.cross(Array3f(1, 0, 0), Array3f(0, 1, 0))
dr.conj(Complex2f(1, 2)), dr.conj(Quaternion4f(1, 2, 3, 4)), dr.conj(Float(1)), dr.real(1 + 2j), dr.imag(1 + 2j), dr.real(3), dr.imag(3)
dr.arg(Complex2f(0, 1)), dr.arg(1j), dr.arg(Float(-1)), dr.imag(Quaternion4f(1, 2, 3, 4)), dr.real(Quaternion4f(1, 2, 3, 4))
dr.det(Matrix2f(1, 2, 3, 4)), dr.trace(Matrix2f(1, 2, 3, 4)), dr.diag(Matrix2f(1, 2, 3, 4)), dr.diag(Array2f(1, 2)), dr.frob(Matrix2f(1, 2, 3, 4))
dr.rcp(Matrix2f(1, 2, 3, 4)), dr.inverse(Matrix3f(2))
dr.inverse(Float(2))
dr.matmul(Matrix2f(1, 2, 3, 4), Array2f(1, 2))
dr.quat_to_matrix(Matrix3f, Quaternion4f(0, 0, 0, 1)), dr.matrix_to_quat(Matrix3f(1)), dr.quat_to_euler(Quaternion4f(0, 0, 0, 1)), dr.euler_to_quat(Array3f(0))
dr.rotate(Quaternion4f, Array3f(0, 0, 1), 1.5), dr.slerp(Quaternion4f(0, 0, 0, 1), Quaternion4f(0, 0, 1, 0), 0.5), dr.quat_apply(Quaternion4f(0, 0, 1, 0), Array3f(1, 2, 3))
dr.all_nested(Array3b(True, False, True)), dr.any_nested(Array3b(False)), dr.sum_nested(Array3f([1, 2], 3, 4)), dr.none_nested(Array3b(False)), dr.max_nested(Array3f(1, 2, 3)), dr.prod_nested(Array3f(1, 2, 3)), dr.min_nested(5)
dr.sphdir(Float(0), Float(0)), dr.unit_angle(Array3f(1, 0, 0), Array3f(0, 1, 0))
dr.erf(0.5), dr.erfinv(0.5), dr.lgamma(3.5), dr.cbrt(8.0), dr.cbrt(Float(-8)), dr.exp2(3), dr.log2(8.0)
dr.atan2(Float(1), Float(0)), dr.atan2(Float(0), Float(-1)), dr.atan2(1, 1), dr.atan2(1.0, Float(1))
dr.polar_decomp(Matrix3f(2))
dr.srgb_to_linear(Float(0.5)), dr.linear_to_srgb(Float(0.5))
""",
    globals(),
)

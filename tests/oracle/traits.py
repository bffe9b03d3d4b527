# ruff: noqa: RUF012, E501, F403, F405
"""Type traits, shapes and constants of types."""

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


@dataclass
class Data:
    """A structure described by annotations."""

    a: Float
    b: int


ONE = [
    "value_t",
    "scalar_t",
    "mask_t",
    "array_t",
    "leaf_t",
    "detached_t",
    "diff_array_t",
    "tensor_t",
    "matrix_t",
    "int_array_t",
    "uint_array_t",
    "float_array_t",
    "int8_array_t",
    "uint8_array_t",
    "int32_array_t",
    "uint32_array_t",
    "int64_array_t",
    "uint64_array_t",
    "float16_array_t",
    "float32_array_t",
    "float64_array_t",
    "size_v",
    "depth_v",
    "itemsize_v",
    "type_v",
    "backend_v",
]
FLAGS = [
    "is_array_v",
    "is_jit_v",
    "is_dynamic_v",
    "is_tensor_v",
    "is_complex_v",
    "is_quaternion_v",
    "is_matrix_v",
    "is_special_v",
    "is_vector_v",
    "is_mask_v",
    "is_float_v",
    "is_half_v",
    "is_arithmetic_v",
    "is_integral_v",
    "is_signed_v",
    "is_unsigned_v",
    "is_diff_v",
    "is_struct_v",
]
SUBJECTS = {
    "Float": Float,
    "Int": Int,
    "Bool": Bool,
    "Float16": Float16,
    "UInt8": UInt8,
    "Array3f": Array3f,
    "Array3b": Array3b,
    "ArrayXf": ArrayXf,
    "Array22f": Array22f,
    "Matrix3f": Matrix3f,
    "Complex2f": Complex2f,
    "Quaternion4f": Quaternion4f,
    "TensorXf": TensorXf,
    "TensorXi": TensorXi,
    "ad.Float": ad.Float,
    "ad.Int": ad.Int,
    "ad.Array3f": ad.Array3f,
    "ad.TensorXf": ad.TensorXf,
    "s.Array3f": dr.scalar.Array3f,
    "s.ArrayXf": dr.scalar.ArrayXf,
    "s.TensorXf": dr.scalar.TensorXf,
    "s.Matrix3f": dr.scalar.Matrix3f,
    "float": float,
    "int": int,
    "bool": bool,
    "str": str,
    "list": list,
    "1": 1,
    "1.5": 1.5,
    "True": True,
    "'x'": "x",
    "1j": 1j,
    "[Float]": [Float(1)],
    "value Array3f(1)": Array3f(1),
    "value Float(1)": Float(1),
    "Struct": Struct,
    "Struct()": Struct(),
    "np.ndarray": np.ndarray,
    "np.float32(1)": np.float32(1),
    "JitBackend": dr.JitBackend,
}


def short(value):
    """Returns a type's name without its module prefix, or the value's representation."""
    if isinstance(value, type):
        module = value.__module__.removeprefix("drjit.").removeprefix("llvm").removeprefix(".")
        return (module + "." if module not in ("", "builtins") else "") + value.__name__
    return str(value)


def call(name, *args):
    """Calls a function of the package and returns its result's short name, or the exception's."""
    try:
        return short(getattr(dr, name)(*args))
    except Exception as error:
        return "!" + type(error).__name__


for key, subject in SUBJECTS.items():
    print(key, " ".join(f"{name}={call(name, subject)}" for name in ONE))
    flags = [
        name
        for name in FLAGS
        if name != "is_half_v" or (isinstance(subject, type) and subject is not float)
    ]
    print(
        key,
        "is:",
        " ".join(
            name[3:-2] if call(name, subject) == "True" else f"{name}={call(name, subject)}"
            for name in flags
            if call(name, subject) != "False"
        ),
    )
for key in ("Float", "Array3f", "Matrix3f", "TensorXf", "Complex2f", "float", "int", "Bool", "1"):
    print(
        "replace_type_t",
        key,
        " ".join(f"{v.name}={call('replace_type_t', SUBJECTS[key], v)}" for v in dr.VarType),
    )
    print(
        "reinterpret_array_t",
        key,
        " ".join(f"{v.name}={call('reinterpret_array_t', SUBJECTS[key], v)}" for v in dr.VarType),
    )
for key in (
    "Float",
    "Float16",
    "Float64",
    "Array3f",
    "Array3f64",
    "float",
    "int",
    "Int",
    "UInt8",
    "TensorXf",
    "ad.Float",
    "1.5",
):
    print(
        key,
        " ".join(
            f"{name}={call(name, SUBJECTS.get(key, getattr(ad, key, None) or globals().get(key)))}"
            for name in ("epsilon", "one_minus_epsilon", "recip_overflow", "smallest", "largest")
        ),
    )
cases(
    """
dr.replace_shape_t(Float, (3,))
dr.replace_shape_t(Array3f, (2,))
dr.replace_shape_t(Array3f, (2, 2))
dr.replace_shape_t(Array3f, ())
dr.replace_shape_t(Matrix3f, (2, 2))
dr.replace_shape_t(Array3f, (7,))
dr.replace_shape_t(Float, ())
dr.replace_shape_t(dr.scalar.Array3f, (2,))
dr.expr_t(Float, Float64)
dr.expr_t(Float, Int)
dr.expr_t(Float, int)
dr.expr_t(Int, float)
dr.expr_t(Int, 1.5)
dr.expr_t(Float(1), Array3f)
dr.expr_t(Array3f, Float64)
dr.expr_t(Array3f, Array2f)
dr.expr_t(int, float)
dr.expr_t(bool, int)
dr.expr_t(Float)
dr.expr_t(float)
dr.expr_t()
dr.expr_t(Bool, Bool)
dr.expr_t(Float, ad.Float)
dr.expr_t(Float, str)
dr.expr_t(str, str)
dr.expr_t(list, list)
dr.expr_t(TensorXf, Float64)
dr.expr_t(Matrix3f, Array3f)
dr.expr_t(Float, UInt, Array2f, ad.Int)
dr.shape(Float(1, 2)), dr.shape(1), dr.shape(1.5), dr.shape([1, 2])
dr.shape([[1, 2], [3, 4]])
dr.shape([[1, 2], [3]])
dr.shape(None)
dr.shape(np.zeros((2, 3)))
dr.shape(Array3f([1, 2], 3, 4)), dr.shape(TensorXf([[1]])), dr.shape([Float(1, 2), Float(3)])
dr.shape({"a": 1})
dr.shape(Float)
dr.width(Float(1, 2)), dr.width(1), dr.width(Array3f([1, 2], 3, 4)), dr.width([Float(1), Float(1, 2)])
dr.width(Float(1, 2), Float(1))
dr.width(Float(1, 2), Float(1, 2, 3))
dr.width({"a": Float(1, 2)}), dr.width("x"), dr.width(None), dr.width()
dr.width(TensorXf([[1, 2], [3, 4]]))
dr.width(Array3f(Float(1, 2), Float(1, 2, 3), 1))
dr.width(dr.scalar.Array3f(1)), dr.width(dr.scalar.ArrayXf(1, 2))
dr.width(Float())
str(Float.__meta__)
str(Array3f.__meta__)
str(TensorXf.__meta__)
str(ad.ArrayXf.__meta__)
str(dr.scalar.Array3f.__meta__)
str(Matrix3f(1).__meta__)
Float.Name
Float.Type, Float.Shape, Float.Size
Array3f.IsMatrix
dr.is_array_v(Float, 1)
dr.backend_v([Float(1)]), dr.backend_v({"a": Float(1)})
dr.is_jit_v(Float(1)), dr.is_jit_v([Float(1)])
dr.leaf_t({"a": Array3f(1)}), dr.leaf_t([Float(1), Int(1)])
dr.array_t([Float(1)])
dr.detached_t(ad.Float), dr.detached_t(Float), dr.detached_t(float), dr.detached_t(ad.Array3f(1)), dr.detached_t([ad.Float])
dr.diff_array_t(Float), dr.diff_array_t(ad.Float), dr.diff_array_t(float), dr.diff_array_t(dr.scalar.Array3f)
dr.diff_array_t(Array3f(1, 2, 3))
dr.diff_array_t([Float(1)])
""",
    globals(),
)

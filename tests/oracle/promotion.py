# ruff: noqa: E501, F403, F405
"""Result types of binary operators."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import itertools
import operator

import drjit as dr
from drjit.llvm import *
from drjit.llvm import ad

OPERATORS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
    "lt",
    "eq",
]
ELEMENTS = [Bool, Int8, UInt8, Int, UInt, Int64, UInt64, Float16, Float, Float64]


def result(name, a, b):
    """Returns the result's type name, or `unsupported`: which kind of error it is, is not compared."""
    try:
        out = getattr(operator, name)(a, b)
    except (RuntimeError, TypeError):
        return "unsupported"
    module = type(out).__module__.removeprefix("drjit.").removeprefix("llvm").removeprefix(".")
    return (module + "." if module not in ("", "builtins") else "") + type(out).__name__


def differs(name, x, y):
    """Whether the two implementations differ on purpose: docs/differences.md says how."""
    kinds = {x.removeprefix("ad.").removeprefix("s."), y.removeprefix("ad.").removeprefix("s.")}
    special = {"Matrix3f", "Matrix3f64", "Complex2f", "Quaternion4f"}
    nested = special | {"Array2f", "Array3f", "Array3f64", "ArrayXf"}
    if {"s.Array3f", "s.ArrayXf", "s.TensorXf"} & {x, y} and any(
        "TensorX" in k or k == "Float64" for k in kinds
    ):
        return True
    if (
        name == "truediv"
        and kinds & {"Int", "Bool", "TensorXi"}
        and kinds & (nested | {"Float", "Float64"})
    ):
        return True
    if (
        name in ("mul", "truediv")
        and kinds & special
        and kinds & {"list", "tuple", "np(3)", "True", "ArrayXf"}
    ):
        return True
    if name in ("truediv", "itruediv", "ipow") and "Matrix" in x:
        return kinds & {"Array3f", "Array3f64"} or (name == "ipow" and y == "Float")
    return name == "imatmul" and "Matrix" not in x and y != "list"


def grouped(label, names, a, b):
    """Prints the operators grouped by what they return."""
    groups = {}
    for name in names:
        if differs(name, *label.split(" ")):
            continue
        groups.setdefault(result(name, a, b), []).append(name.strip("_"))
    print(label, " ".join(f"{kind}:{','.join(ops)}" for kind, ops in groups.items()), sep="  ")


print("# pairs of 1-D element types")
for left, right in itertools.product(ELEMENTS, ELEMENTS):
    grouped(f"{left.__name__} {right.__name__}", OPERATORS, left(1), right(1))
print("# with Python values, right and left")
PYTHON = [True, 1, -1, 300, 2**31, 2**40, 1.5, 1j, None, "x", [1], (1,)]
for element, value in itertools.product(ELEMENTS, PYTHON):
    grouped(f"{element.__name__} {value!r}", OPERATORS, element(1), value)
for element, value in itertools.product(ELEMENTS, [True, 1, 1.5]):
    names = (
        OPERATORS if element is not Bool or value != 1.5 else [n for n in OPERATORS if n != "and_"]
    )
    grouped(f"{value!r} {element.__name__}", names, value, element(1))
print("# NumPy values")
for element, value in itertools.product(
    (Int, Float), (np.int32(1), np.int64(1), np.bool_(True), np.ones(1, np.float32))
):
    names = OPERATORS[:4] if element is Float else OPERATORS[:3]
    grouped(f"{element.__name__} {type(value).__name__}/{value.dtype}", names, element(1), value)
    grouped(
        f"{type(value).__name__}/{value.dtype} {element.__name__}", OPERATORS[:4], value, element(1)
    )
print("# nested and special")
SHORT = ["add", "mul", "truediv", "lt", "eq", "and_"]
s = dr.scalar
VALUES = {
    "Float": Float(1),
    "Float64": Float64(1),
    "Int": Int(1),
    "Bool": Bool(True),
    "Array3f": Array3f(1),
    "Array3f64": Array3f64(1),
    "Array3i": Array3i(1),
    "Array3b": Array3b(True),
    "Array2f": Array2f(1),
    "ArrayXf": ArrayXf([1], [1], [1]),
    "Matrix3f": Matrix3f(1),
    "Matrix3f64": Matrix3f64(1),
    "Complex2f": Complex2f(1),
    "Quaternion4f": Quaternion4f(1),
    "TensorXf": TensorXf([1]),
    "TensorXf64": TensorXf64([1]),
    "TensorXi": TensorXi([1]),
    "TensorXf(3,1)": TensorXf(Float(1, 2, 3), (3, 1)),
    "s.Array3f": s.Array3f(1),
    "s.ArrayXf": s.ArrayXf(1),
    "s.Matrix3f": s.Matrix3f(1),
    "s.TensorXf": s.TensorXf([1]),
    "s.Complex2f": s.Complex2f(1),
    "ad.Float": ad.Float(1),
    "ad.Int": ad.Int(1),
    "ad.Array3f": ad.Array3f(1),
    "ad.Matrix3f": ad.Matrix3f(1),
    "ad.TensorXf": ad.TensorXf([1]),
    "1": 1,
    "1.5": 1.5,
    "1j": 1j,
    "True": True,
    "list": [1, 2, 3],
    "tuple": (1, 2, 3),
    "np(3)": np.ones(3, np.float32),
}
for (x, a), (y, b) in itertools.product(VALUES.items(), VALUES.items()):
    if isinstance(a, dr.ArrayBase) or isinstance(b, dr.ArrayBase):
        # the reference aborts for & between a float array and a mask of incompatible shapes
        crashes = "Array3b" in (x, y) or not isinstance(a, dr.ArrayBase)
        grouped(f"{x} {y}", SHORT[:-1] if crashes else SHORT, a, b)
print("# matrix products")
for x, y in [
    ("Matrix3f", "Matrix3f"),
    ("Matrix3f", "Matrix3f64"),
    ("Matrix3f", "Array3f"),
    ("Array3f", "Matrix3f"),
    ("Matrix3f", "Float"),
    ("Float", "Matrix3f"),
    ("Matrix3f", "1"),
    ("Array3f", "Array3f"),
    ("Matrix3f", "Array2f"),
    ("Complex2f", "Complex2f"),
    ("s.Matrix3f", "s.Array3f"),
    ("Matrix3f", "s.Matrix3f"),
    ("Quaternion4f", "Quaternion4f"),
]:
    grouped(f"{x} {y}", ["matmul"], VALUES[x], VALUES[y])
print("# in-place")
for x, y in [
    ("Float", "Float64"),
    ("Float64", "Float"),
    ("Int", "Float"),
    ("Int", "1.5"),
    ("Float", "Int"),
    ("Float", "1"),
    ("Float", "Array3f"),
    ("Array3f", "Float"),
    ("Array3f", "Float64"),
    ("Array3f", "Array3f64"),
    ("Bool", "Int"),
    ("Float", "ad.Float"),
    ("ad.Float", "Float"),
    ("Matrix3f", "Array3f"),
    ("Matrix3f", "Float"),
    ("TensorXf", "TensorXf64"),
    ("TensorXf", "Float"),
    ("Float", "TensorXf"),
    ("Complex2f", "1j"),
    ("Int", "True"),
    ("Array3i", "Array3f"),
    ("Int", "Int"),
    ("Array3f", "list"),
]:
    a, b = VALUES[x], VALUES[y]
    grouped(
        f"{x} {y}",
        [
            "iadd",
            "isub",
            "imul",
            "itruediv",
            "ifloordiv",
            "imod",
            "ipow",
            "iand",
            "ilshift",
            "imatmul",
        ],
        type(a)(a),
        b,
    )
for x in ["Float", "Array3f", "TensorXf"]:
    a = VALUES[x]
    a = type(a)(a)
    b = a
    b += 1
    print(x, "in-place keeps the object:", a is b)

# ruff: noqa: F401, F403
"""Semantics of operators, comparisons and Python protocols."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *

cases(
    """
## integer division and remainder
Int([7, -7, 7, -7] * 8) // Int([2, 2, -2, -2] * 8)
Int([7, -7, 7, -7] * 8) % Int([2, 2, -2, -2] * 8)
Int(7, -7) // 2
Int(7, -7) % 2
Int(7, -7) // -2
Int(7, -7) % -2
Int(7, -7) % 4
Int(7, -7) // 4
Int(7, -7) // 3
Int(7, -7) % 3
Int(7, -7) // 1
Int(7, -7) // -1
UInt(7, 8) // 3
UInt(7, 8) % 3
UInt([7, 8] * 16) // UInt([3, 5] * 16)
7 // Int([2, -2] * 16)
7 % Int([4, -4] * 16)
Int(4) / 2
Int(4) / 2.0
4 / Int(2)
Float(7) // 2
Float(7) % 2
Int8(-128) // Int8(3)
Int64(-7) // 2
Array3i(7, -7, 8) // 2
Array3i(7, -7, 8) % Array3i(2, 2, 3)
divmod(Int(7), 2)
Float(7, -7) / 2
Float(1, -1, 0) / 0
1 / Float(0, -0.0, 4)
Float(1, 0) / Float(0, 0)
## arithmetic wrapping
Int(2**31 - 1) + 1
UInt(0) - 1
UInt8(200) + UInt8(100)
Int8(100) * 2
-UInt(1)
-Int(-2**31)
-Bool(True)
+Bool(True)
+Int(3)
+UInt(3)
-Float(0)
abs(Int(-3, 3))
abs(Int(-2**31))
abs(UInt(3))
abs(Bool(True))
abs(Float(-1.5, float("nan")))
abs(Array3f(-1, 2, -3))
abs(Complex2f(3, 4))
abs(Matrix2f(-1, 2, -3, 4))
dr.abs(-3), dr.abs(-1.5)
dr.abs(True)
## power
Int(2, 3) ** 2
Int(2) ** 0
Int(2) ** -1
Int(2, 3) ** Int(2, 2)
UInt(2) ** 10
Int(2) ** 2.0
Int(2) ** 0.5
Int(2) ** Float(2)
Float(2) ** 2
Float(2) ** 0
Float(2) ** -1
Float(2) ** -3
Float(2) ** 0.5
Float(2) ** Int(3)
Float(-2) ** 3
Float(-2) ** 2.0
Float(0) ** 0
Float(0) ** -1
Float(2) ** Float(3)
2 ** Float(3)
2.0 ** Float(3)
2 ** Int(3)
Float(2) ** True
Array3f(1, 2, 3) ** 2
Array3f(1, 2, 3) ** 0.5
Array3f(1, 2, 3) ** Array3f(2)
Array3f(1, 2, 3) ** Float(2)
TensorXf([1, 2, 3]) ** 2
Complex2f(0, 1) ** 2
Complex2f(0, 1) ** Complex2f(0, 1)
Complex2f(0, 1) ** 0.5
2 ** Complex2f(0, 1)
Quaternion4f(0, 0, 1, 0) ** 2
pow(Float(2), 3)
dr.power(2, 3)
dr.power(2, -1)
dr.power(2.0, 3)
dr.power(2, 0.5)
dr.power(-8.0, 1/3)
dr.power(Float(2), 3)
dr.power(2, Float(3))
dr.power(2.0, 0.5)
dr.power(Int(2), -1)
Float(2) ** 100
Int(3) ** 40
Float16(2) ** 3
## shifts
Int(1) << 31
Int(-8) >> 1
Int(-8) >> 40
UInt(2**31) >> 31
UInt(8) >> UInt(1, 2)
UInt8(255) << 1
Int64(1) << 40
1 << Int(3)
Int(8) >> True
Int(8) << 1.0
Bool(True) << Bool(True)
Float(1) << 1
Int(1) << Int64(3)
## bitwise
~Bool(True, False)
~Int(0, 5)
~UInt(0)
~Float(1)
~Array3b(True, False, True)
Int(6) & 3, Int(6) | 1, Int(6) ^ 3
Bool(True) & True, Bool(True) | False, Bool(True) ^ True
True & Bool(True), False | Bool(True), True ^ Bool(True)
Bool(True) & 1
1 & Bool(True)
Bool(True) & Int(6)
Int(6) & Bool(True)
Int(6) | Bool(True)
Float(6) & Bool(True, False)
Float(6) & Float(3)
Float(6) | Float(3)
Float(6) & True
Float(6) & 3
Float(6) ^ Bool(True)
Array3f(1, 2, 3) & Array3b(True, False, True)
Array3f(1, 2, 3) & Bool(True, False)
Array3i(1, 2, 3) & 2
Complex2f(1, 2) & Bool(True, False)
Bool(True) + Bool(True)
Bool(True) + 1
Bool(True) * 2.0
Bool(True) - Int(3)
Bool(True) < Bool(False)
Bool(True) == 1
Bool(True) == Int(1)
## comparisons
Float(1, 2, 3) < 2
Float(1, 2, 3) == Float(1, 0, 3)
Float(1, 2) == Int(1, 2)
1 < Float(1, 2)
Float(float("nan")) == Float(float("nan"))
Float(float("nan")) != Float(float("nan"))
Float(1) == None
Float(1) != None
Float(1) == "x"
Float(1) == "1"
Float(1) == object()
Float(1) in [Float(1)]
Array3f(1, 2, 3) < 2
Array3f(1, 2, 3) == Array3f(1, 0, 3)
Array3f(1, 2, 3) == [1, 2, 3]
Array3f(1, 2, 3) == Float(1, 2)
Matrix2f(1) == Matrix2f(1)
Matrix2f(1) < 1
Complex2f(1, 2) == Complex2f(1, 2)
Complex2f(1, 2) == 1
Complex2f(1, 2) == 1 + 2j
Complex2f(1, 2) < 1
Quaternion4f(1) == Quaternion4f(1)
TensorXf([1, 2]) == TensorXf([1, 3])
TensorXf([1, 2]) < 2
Int(-1) < UInt(1)
Int(16777217) == Float(16777216)
## size rules
Float(1, 2) + Float(1, 2, 3)
Float(1, 2) + Float()
Float(1, 2) + Float(1)
Float([1, 2]) < Float(1, 2, 3)
dr.select(Bool(True, False), Float(1, 2, 3), 0)
dr.fma(Float(1, 2), Float(1, 2, 3), 1)
dr.gather(Float, Float(1, 2, 3), UInt(0, 1), Bool(True, True, False))
Array3f(Float(1, 2), Float(1, 2, 3), 0) + 1
Float(1, 2) + Array3f(Float(1, 2, 3), 0, 0)
## Python protocols
bool(Float(1))
bool(Float(0))
bool(Float(1, 2))
bool(Bool(True))
bool(Bool(True, True))
bool(Bool())
bool(Array3f(1))
bool(Array3b(True))
bool(Array1b(True))
bool(Int(1))
bool(Int(1) == 1)
bool(TensorXb(True))
bool(TensorXb([True]))
bool(TensorXf([1]))
bool(dr.scalar.Array3b(True))
if Bool(True): x = 1
int(Int(1, 2))
float(Float(1, 2))
float(Array3f(1))
len(Float(1, 2))
len(Float())
len(Array3f(1))
len(Matrix3f(1))
len(ArrayXf([1], [2]))
len(TensorXf([[1, 2]]))
len(TensorXf(1))
list(Float(1, 2))
list(Array3f(1, 2, 3))
list(Int(1, 2))
list(Bool(True))
list(Matrix2f(1, 2, 3, 4))
list(Complex2f(1, 2))
list(TensorXf([1, 2]))
list(TensorXf([[1, 2], [3, 4]]))
x, y, z = Array3f(1, 2, 3); (x, y, z)
a, b = Float(1, 2); (a, b)
2 in Float(1, 2)
2 in Array3f(1, 2, 3)
isinstance(hash(Float(1)), int)
{Float(1): 1} != {}
isinstance(hash(Array3f(1)), int)
list(reversed(Float(1, 2)))
sum([Float(1), Float(2)])
sum(Float(1, 2))
max(Float(1), Float(2))
sorted([Float(2), Float(1)])
Float(1).__class__
Float(1).foo
a = Float(1); a.foo = 1
a = Array3f(1); a.foo = 1
Float(1)()
import copy; copy.copy(Float(1, 2))
import copy; copy.deepcopy(Array3f(1, 2, 3))
import pickle; pickle.loads(pickle.dumps(Float(1, 2)))
import pickle; pickle.loads(pickle.dumps(Array3f(1, 2, 3)))
import pickle; pickle.loads(pickle.dumps(TensorXf([[1, 2]])))
import pickle; pickle.loads(pickle.dumps(Matrix2f(1)))
a = Float(1, 2); b = Float(a); b += 1; (a, b)
a = Float(1, 2); b = a; b += 1; (a, b, a is b)
a = Int(1); b = a; b += 1.5; (a, b)
a = Float(1); a += Float64(2); a
a = Int(5); a //= 2; a
a = Int(5); a /= 2; a
a = Float(5); a //= 2; a
a = Bool(True); a &= Bool(False); a
a = Array3f(1); b = a; b += 1; (a, b, a is b)
a = Array3f(1); b = a.x; b += 1; (a, b)
a = Array3f(1); a.x += 1; a
a = Array3f(1); a *= Float(1, 2); a
a = Array3f(1); b = Array3f(a); b.x = 5; (a, b)
a = Float(1); a += Array3f(1, 2, 3); a
a = TensorXf([1, 2]); b = a; b += 1; (a, b)
a = Matrix2f(1, 2, 3, 4); a *= 2; a
a = Matrix2f(1, 2, 3, 4); a @= a; a
## products of special types
Matrix2f(1, 2, 3, 4) @ Matrix2f(1, 2, 3, 4)
Matrix2f(1, 2, 3, 4) * Matrix2f(1, 2, 3, 4)
Matrix2f(1, 2, 3, 4) @ Array2f(1, 2)
Array2f(1, 2) @ Matrix2f(1, 2, 3, 4)
Matrix2f(1, 2, 3, 4) * Array2f(1, 2)
Array2f(1, 2) * Matrix2f(1, 2, 3, 4)
Matrix2f(1, 2, 3, 4) * 2
2 * Matrix2f(1, 2, 3, 4)
Matrix2f(1, 2, 3, 4) + 1
Matrix2f(1, 2, 3, 4) + Float(1, 2)
Matrix2f(1, 2, 3, 4) / 2
Matrix2f(1, 2, 3, 4) / Matrix2f(1, 2, 3, 4)
1 / Matrix2f(1, 2, 3, 4)
-Matrix2f(1, 2, 3, 4)
Complex2f(1, 2) * Complex2f(3, 4)
Complex2f(1, 2) * 2
Complex2f(1, 2) + 1
Complex2f(1, 2) / Complex2f(3, 4)
1 / Complex2f(3, 4)
Complex2f(1, 2) * 2j
Complex2f(1, 2) + 2j
Complex2f(1, 2) * Float(1, 2)
Quaternion4f(1, 2, 3, 4) * Quaternion4f(5, 6, 7, 8)
Quaternion4f(1, 2, 3, 4) + 1
Quaternion4f(1, 2, 3, 4) * 2
1 / Quaternion4f(1, 2, 3, 4)
Quaternion4f(1, 2, 3, 4) / Quaternion4f(5, 6, 7, 8)
TensorXf([[1, 2], [3, 4]]) @ TensorXf([[1, 2], [3, 4]])
TensorXf([[1, 2], [3, 4]]) @ TensorXf([1, 2])
TensorXf([1, 2]) @ TensorXf([1, 2])
TensorXf([[1, 2], [3, 4]]) + TensorXf([10, 20])
TensorXf([[1, 2], [3, 4]]) + TensorXf([[10], [20]])
TensorXf([1, 2]) + TensorXf([1, 2, 3])
TensorXf([[1, 2], [3, 4]]) + Float(10)
TensorXf([[1, 2], [3, 4]]) + Float(10, 20)
TensorXf([[1, 2], [3, 4]]) + Float(10, 20, 30)
TensorXf([1, 2]) * 2.5
TensorXi([1, 2]) * 2.5
TensorXf(5) + TensorXf([1, 2])
TensorXf([[1], [2]]) * TensorXf([[1, 2]])
""",
    globals(),
)

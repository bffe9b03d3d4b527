# ruff: noqa: E501, F401, F403, F405
"""Matrices, rotations, and spherical harmonics."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
import drjit.scalar as s
from drjit.llvm import *
from drjit.llvm import ad

M2 = Matrix2f([[1, 2], [3, 4]])
M3 = Matrix3f([[1, 2, 3], [0, 4, 5], [1, 0, 6]])
M4 = Matrix4f([[2, 1, 0, 5], [0, 3, 1, 6], [1, 0, 4, 7], [0, 0, 0, 1]])
N2 = dr.gather(Matrix2f, dr.arange(Float, 12) ** 2, dr.arange(UInt, 3))
Q = dr.normalize(Quaternion4f(1, 2, 3, 4))
SQ = s.Quaternion4f(0.18257418, 0.36514837, 0.54772257, 0.73029673)

cases(
    """
## determinant, inverse
dr.det(M2), dr.det(M3), dr.det(M4), dr.det(N2)
dr.det(Matrix2f(0)), dr.det(Matrix3f16(2)), dr.det(Matrix4f64(2))
dr.det(s.Matrix2f(2)), dr.det(s.Matrix3f64([[1, 2, 3], [0, 4, 5], [1, 0, 6]]))
dr.det(ad.Matrix3f(2))
dr.inverse(M2), dr.inverse(M3), dr.inverse(M4)
dr.inverse(Matrix2f(0))
dr.inverse(Matrix3f([[1, 2, 3], [2, 4, 6], [1, 0, 1]]))
dr.inverse(2.0), dr.inverse(Float(2)), dr.inverse(Complex2f(0, 1)), dr.inverse(Quaternion4f(0, 0, 1, 1))
dr.inverse(Array22f([[1, 2], [3, 4]]))
dr.inverse(s.Matrix2f([[1, 2], [3, 4]])), dr.inverse(s.Matrix2f(0))
dr.inverse(Matrix2f16([[1, 2], [3, 4]]))
dr.rcp(M2)
dr.inverse("x")
dr.inverse(Int(2))
## trace, diag, frob
dr.trace(M2), dr.trace(M4), dr.trace(N2), dr.trace(s.Matrix2f(2))
dr.diag(M3), type(dr.diag(M3))
dr.diag(Array3f(1, 2, 3))
dr.diag(Array2f(1, 2)), dr.diag(Array4f(1, 2, 3, 4)), dr.diag(s.Array3f(1, 2, 3)), dr.diag(s.Matrix2f(3))
dr.diag(Array22f([[1, 2], [3, 4]]))
dr.diag(Matrix44f(1)), type(dr.diag(Matrix44f(1)))
M3.T, M3.mT
dr.frob(M2), dr.frob(M4), dr.frob(N2), dr.frob(s.Matrix2f(2))
dr.frob(Matrix44f(1))
dr.det(Matrix44f(2)), type(dr.det(Matrix44f(2)))
dr.trace(Matrix44f(2))
dr.inverse(Matrix44f(2))
dr.identity(Matrix44f)
dr.identity(Matrix34f)
dr.identity(Matrix3f, 2)
## polar decomposition
dr.polar_decomp(M3)
dr.polar_decomp(M2)
dr.polar_decomp(M4)
dr.polar_decomp(s.Matrix3f([[1, 2, 3], [0, 4, 5], [1, 0, 6]]))
dr.polar_decomp(Matrix3f64([[1, 2, 3], [0, 4, 5], [1, 0, 6]]), 20)
dr.polar_decomp(M3, it=0)
dr.polar_decomp(Matrix2f([[1, 0], [0, -1]]))
dr.polar_decomp(M3, -1)
## transformations
dr.transform_decompose(M4)
dr.transform_decompose(s.Matrix4f([[2, 1, 0, 5], [0, 3, 1, 6], [1, 0, 4, 7], [0, 0, 0, 1]]))
dr.transform_decompose(Matrix4f([[-1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 1]]))
dr.transform_decompose(Matrix4f64(2))
dr.transform_compose(M3, Q, Array3f(1, 2, 3))
dr.transform_compose(*dr.transform_decompose(M4))
dr.transform_compose(s.Matrix3f(2), SQ, s.Array3f(1, 2, 3))
dr.transform_compose(M3, Q, [1, 2, 3])
dr.transform_compose(Matrix3f64(2), Quaternion4f64(0, 0, 0, 1), Array3f64(1, 2, 3))
## quaternions and rotations
dr.quat_to_matrix(Matrix3f, Q), dr.quat_to_matrix(Matrix4f, Q)
dr.quat_to_matrix(Matrix3f, Quaternion4f(1, 2, 3, 4))
dr.quat_to_matrix(Quaternion4f(1, 2, 3, 4))
dr.quat_to_matrix(s.Matrix3f, SQ), dr.quat_to_matrix(s.Matrix4f, SQ)
dr.quat_to_matrix(Matrix2f, Q)
dr.quat_to_matrix(Float, Q)
dr.quat_to_matrix(Matrix3f, Array4f(0, 0, 0, 1))
dr.quat_to_matrix(Matrix3f64, Q)
dr.matrix_to_quat(dr.quat_to_matrix(Matrix3f, Q)), dr.matrix_to_quat(dr.quat_to_matrix(Matrix4f, Q))
dr.matrix_to_quat(Matrix3f([[1, 0, 0], [0, -1, 0], [0, 0, -1]]))
dr.matrix_to_quat(Matrix3f([[-1, 0, 0], [0, 1, 0], [0, 0, -1]]))
dr.matrix_to_quat(Matrix3f([[-1, 0, 0], [0, -1, 0], [0, 0, 1]]))
dr.matrix_to_quat(Matrix3f(1)), dr.matrix_to_quat(s.Matrix3f64(1)), dr.matrix_to_quat(Matrix4f64(1))
dr.matrix_to_quat(Matrix3f(2)), dr.matrix_to_quat(M3)
dr.matrix_to_quat(dr.quat_to_matrix(Matrix3f, dr.normalize(Quaternion4f([-1, -1, 1, 5], [-2, 2, -5, 1], [-3, 1, 1, -1], [-4, 0.5, -0.5, -0.2]))))
dr.matrix_to_quat(M2)
dr.quat_to_euler(Q), dr.quat_to_euler(SQ), dr.quat_to_euler(Quaternion4f64(0, 0, 0, 1))
dr.euler_to_quat(Array3f(0.1, 0.2, 0.3)), dr.euler_to_quat(s.Array3f(0.1, 0.2, 0.3)), dr.euler_to_quat(Array3f64(1, 2, 3))
dr.euler_to_quat(Array2f(1, 2))
dr.euler_to_quat([1, 2, 3])
dr.slerp(Quaternion4f(0, 0, 0, 1), Q, 0.25), dr.slerp(Quaternion4f(0, 0, 0, 1), Q, Float(0, 0.5, 1))
dr.slerp(Quaternion4f(0, 0, 0, 1), -Q, 0.25)
dr.slerp(Q, Q, 0.5), dr.slerp(Q, -Q, 0.5)
dr.slerp(Quaternion4f(0, 0, 0, 1), Quaternion4f(1, 0, 0, 0), 0.5)
dr.slerp(SQ, s.Quaternion4f(0, 0, 0, 1), 0.25)
dr.slerp(Quaternion4f(0, 0, 0, 2), Quaternion4f(2, 0, 0, 0), 0.5)
dr.slerp(Quaternion4f64(0, 0, 0, 1), Quaternion4f64(1, 0, 0, 0), 2)
dr.rotate(Quaternion4f, Array3f(0, 0, 1), 1.0), dr.rotate(Quaternion4f, Array3f(0, 0, 1), Float(1, 2))
dr.rotate(s.Quaternion4f, s.Array3f(0, 0, 1), 1.0), dr.rotate(Quaternion4f64, Array3f64(0, 1, 0), 1)
dr.rotate(Quaternion4f, Array3f(0, 0, 2), 1.0)
dr.rotate(Matrix3f, Array3f(0, 0, 1), 1.0)
dr.rotate(Matrix4f, Array3f(0, 0, 1), 1.0)
dr.rotate(Array3f, Array3f(0, 0, 1), 1.0)
dr.rotate(Quaternion4f, axis=Array3f(0, 0, 1), angle=1.0)
dr.quat_apply(Q, Array3f(1, 2, 3)), dr.quat_apply(SQ, s.Array3f(1, 2, 3))
dr.quat_apply(Quaternion4f(1, 2, 3, 4), Array3f(1, 2, 3))
dr.quat_apply(Q, Array2f(1, 2))
dr.quat_apply(Array3f(1, 2, 3), Q)
dr.quat_apply(Quaternion4f64(0, 0, 1, 1), Array3f64(1, 2, 3))
## spherical harmonics
dr.sh_eval(Array3f(0.6, 0, 0.8), 0)
dr.sh_eval(dr.normalize(Array3f(0.1, -0.7, 0.4)), 3)
dr.sh_eval(dr.normalize(Array3f([0.1, 2], -0.7, 0.4)), 9)
dr.sh_eval(dr.normalize(s.Array3f(0.1, -0.7, 0.4)), 2)
dr.sh_eval(Array3f(0.6, 0, 0.8), -1)
dr.sh_eval(Array3f(0.6, 0, 0.8), 1.0)
dr.sh_eval([0.6, 0, 0.8], 1)
dr.sh_eval(Array3f64(0.6, 0, 0.8), 1)
dr.sh_eval(Array3f16(0.6, 0, 0.8), 1)
dr.sh_eval(TensorXf([0.6, 0, 0.8]), 1)
## angles
dr.unit_angle(Array3f(1, 0, 0), Array3f(0, 1, 0)), dr.unit_angle(Array3f(1, 0, 0), Array3f(-1, 0, 0)), dr.unit_angle(s.Array3f(1, 0, 0), s.Array3f(0, 1, 0))
""",
    globals(),
)

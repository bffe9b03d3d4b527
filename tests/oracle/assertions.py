# ruff: noqa: E501, F403
"""Assertions with the Debug flag."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *

dr.set_flag(dr.JitFlag.Debug, True)
cases(
    """
dr.assert_true(Bool(True)), dr.assert_true(True), dr.assert_false(False), dr.assert_equal(Float(1, 2), Float(1, 2)), dr.assert_equal(1, 1)
dr.assert_true(Bool(True, False))
dr.assert_true(False)
dr.assert_true(Bool(False), "bad {}", Float(1))
dr.assert_true(Bool(True, False), "bad {v}", v=Float(1, 2))
dr.assert_false(Bool(True))
dr.assert_false(True, "no")
dr.assert_equal(Float(1, 2), Float(1, 3))
dr.assert_equal(Float(1, 2), Float(1, 3), "values differ")
dr.assert_equal(1, 2)
dr.assert_true(Float(1))
dr.assert_equal([Float(1)], [Float(1)])
dr.assert_equal(Array3f(1), Array3f(1))
""",
    globals(),
)

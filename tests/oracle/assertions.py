# ruff: noqa: E501
"""Assertions with the Debug flag; every case runs in a process of its own."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import isolated

HEADER = "import drjit as dr\nfrom drjit.llvm import *"
isolated(
    """
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_true(Bool(True)), dr.assert_true(True), dr.assert_false(False), dr.assert_equal(Float(1, 2), Float(1, 2)), dr.assert_equal(1, 1)
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_true(Bool(True, False))
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_true(False)
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_true(Bool(False), "bad {}", Float(1))
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_true(Bool(True, False), "bad {v}", v=Float(1, 2))
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_false(Bool(True))
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_false(True, "no")
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_equal(Float(1, 2), Float(1, 3))
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_equal(Float(1, 2), Float(1, 3), "values differ")
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_equal(1, 2)
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_true(Float(1))
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_equal([Float(1)], [Float(1)])
dr.set_flag(dr.JitFlag.Debug, True); dr.assert_equal(Array3f(1), Array3f(1))
""",
    HEADER,
)

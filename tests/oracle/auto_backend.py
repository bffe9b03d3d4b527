# ruff: noqa: F401, F403
"""Selection of namespaces, flags and log levels."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *
from drjit.llvm import ad

cases(
    """
## PCG32 and other backends
dr.auto.Float
dr.set_backend("llvm"); dr.auto.Float, dr.auto.ad.Array3f
dr.set_backend(dr.JitBackend.LLVM); dr.auto.Float
dr.set_backend("x")
dr.set_backend("cuda"); dr.auto.Float
dr.set_backend(None)
dr.set_backend("llvm"); from drjit.auto import Float as F; F
from drjit.auto.ad import Array3f as A; A
dr.auto.NoSuch
dr.has_backend("llvm")
sorted(n for n in dir(dr.auto) if not n.startswith("_"))[:5]
dr.scalar.ad
dr.llvm.Array0f, dr.llvm.ArrayXu64
dr.llvm.NoSuch
dr.scalar.Float16, dr.scalar.UInt64
dr.scalar.Bool(1), dr.scalar.Int(1.7)
dr.sin(1), dr.scalar.Array2f(1) + 1
dr.detail.llvm_version() is not None
dr.thread_count() >= 1
dr.flag(dr.JitFlag.SymbolicLoops), dr.flag(dr.JitFlag.Debug), dr.flag(dr.JitFlag.KernelHistory)
dr.JitFlag.Default
dr.JitFlag.Debug | dr.JitFlag.SymbolicLoops
dr.VarType.Float32, dr.VarType.Bool.value
dr.ReduceOp.Add, dr.ReduceMode.Auto
dr.log_level()
dr.set_log_level(dr.LogLevel.Error); dr.log_level()
dr.set_log_level(3); dr.log_level()
dr.set_log_level(0); dr.log_level()
dr.LogLevel.Info < dr.LogLevel.Warn
dr.expand_threshold()
with dr.scoped_set_flag(dr.JitFlag.Debug, True): x = dr.flag(dr.JitFlag.Debug)
dr.newaxis, dr.e, dr.nan
""",
    globals(),
)

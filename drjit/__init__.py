"""Array programs traced into kernels: the public names, by theme."""

import importlib as _importlib
from types import ModuleType as _ModuleType
from typing import Any as _Any

from . import auto, cuda, detail, llvm, scalar
from .array.annotations import *
from .array.base import ArrayBase
from .array.meta import DYNAMIC as Dynamic
from .array.meta import VarState
from .flow.branch import if_stmt
from .flow.call import switch
from .flow.dispatch import dispatch, reorder_threads
from .flow.freeze import freeze
from .flow.func import func
from .flow.instance import InstanceArray, instance_t
from .flow.local import Local, alloc_local
from .flow.loop import while_loop
from .flow.syntax import hint, syntax
from .function.arithmetic import *
from .function.asserts import allclose, assert_allclose, assert_equal, assert_false, assert_true
from .function.backend import *
from .function.check_grad import check_grad
from .function.color import *
from .function.complex import arg, conj, imag, real
from .function.constants import *
from .function.create import *
from .function.custom import CustomOp, custom
from .function.dot import *
from .function.evaluation import copy, eval, flush_thread, make_opaque, schedule, sync_thread
from .function.format import format, print
from .function.geometry import cross, normalize, sphdir, unit_angle
from .function.grad import *
from .function.join import *
from .function.kernels import *
from .function.layout import *
from .function.linalg import det, diag, frob, inverse, polar_decomp, trace
from .function.math import *
from .function.memory import *
from .function.product import matmul
from .function.profiling import *
from .function.propagate import *
from .function.protocols import *
from .function.reduce import *
from .function.reorder import *
from .function.resample import *
from .function.reshape import reshape
from .function.scan import *
from .function.scopes import isolate_grad, resume_grad, suspend_grad
from .function.sh import sh_eval
from .function.shape import *
from .function.sorting import *
from .function.statistics import std, var
from .function.traits import *
from .function.transform import *
from .function.whos import *
from .function.whos_ad import graphviz_ad, whos_ad
from .function.wrap import wrap, wrap_ad
from .jit.backend import JitBackend
from .jit.dtype import VarType
from .jit.flags import JitFlag, flag, scoped_set_flag, set_flag
from .jit.log import LogLevel, log_level, set_log_level
from .jit.op import ReduceMode, ReduceOp
from .jit.runtime import set_thread_count, thread_count
from .random import rng
from .texture import *

__version__ = "0.1.0"

_NAMESPACES = (auto, cuda, detail, llvm, scalar)

__all__ = sorted(  # all of the above
    name
    for name, value in globals().items()
    if name[0] != "_" and (value in _NAMESPACES or not isinstance(value, _ModuleType))
)


# Imported where they are used, so that `import drjit` stays quick.
_LAZY = ("ast", "hashgrid", "interop", "nn", "opt")


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

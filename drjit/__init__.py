"""Array programs traced into kernels: the public names, grouped by topic."""

# ruff: noqa: E402

import gc as _gc
import importlib as _importlib
import typing as _typing
from types import ModuleType as _Module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# None of what is made here is garbage, but looking for it would take a tenth of the time.
_collects = _gc.isenabled()
_gc.disable()

from . import auto as auto
from . import cuda as cuda
from . import llvm as llvm
from . import scalar as scalar
from ._names import MODULES as _MODULES
from ._names import OPERATIONS as _OPERATIONS
from ._names import TYPES as _TYPES
from .array import table as _table
from .array.base import ArrayBase as ArrayBase
from .array.meta import DYNAMIC as Dynamic
from .array.meta import VarState as VarState
from .jit.backend import JitBackend as JitBackend
from .jit.flags import JitFlag as JitFlag
from .jit.flags import flag as flag
from .jit.flags import scoped_set_flag as scoped_set_flag
from .jit.flags import set_flag as set_flag
from .jit.ir.dtype import VarType as VarType
from .jit.ir.op import ReduceMode as ReduceMode
from .jit.ir.op import ReduceOp as ReduceOp
from .jit.log import LogLevel as LogLevel
from .jit.log import log_level as log_level
from .jit.log import set_log_level as set_log_level

if _TYPE_CHECKING:
    from . import detail as detail
    from . import hashgrid as hashgrid
    from . import interop as interop
    from . import nn as nn
    from . import opt as opt
    from . import random as random
    from . import texture as texture
    from .array.annotations import *
    from .flow.call.branch import if_stmt as if_stmt
    from .flow.call.dispatch import dispatch as dispatch
    from .flow.call.dispatch import reorder_threads as reorder_threads
    from .flow.call.func import func as func
    from .flow.call.instance import InstanceArray as InstanceArray
    from .flow.call.instance import instance_t as instance_t
    from .flow.call.switch import switch as switch
    from .flow.export.export import export as export
    from .flow.freeze.frozen import freeze as freeze
    from .flow.loop.while_loop import while_loop as while_loop
    from .flow.region.local import Local as Local
    from .flow.region.local import alloc_local as alloc_local
    from .flow.syntax.decorator import hint as hint
    from .flow.syntax.decorator import syntax as syntax
    from .function.ad.check_grad import check_grad as check_grad
    from .function.ad.custom import CustomOp as CustomOp
    from .function.ad.custom import custom as custom
    from .function.ad.grad import *
    from .function.ad.propagate import *
    from .function.ad.scopes import isolate_grad as isolate_grad
    from .function.ad.scopes import resume_grad as resume_grad
    from .function.ad.scopes import suspend_grad as suspend_grad
    from .function.data.create import *
    from .function.data.join import *
    from .function.data.layout import *
    from .function.data.memory import *
    from .function.data.reduce import *
    from .function.data.reorder import *
    from .function.data.reshape import reshape as reshape
    from .function.data.scan import *
    from .function.data.shape import *
    from .function.data.sorting import *
    from .function.evaluation import copy as copy
    from .function.evaluation import eval as eval
    from .function.evaluation import flush_thread as flush_thread
    from .function.evaluation import make_opaque as make_opaque
    from .function.evaluation import schedule as schedule
    from .function.evaluation import sync_thread as sync_thread
    from .function.exchange.migrate import migrate as migrate
    from .function.exchange.save import load as load
    from .function.exchange.save import save as save
    from .function.exchange.text_kernel import kernel as kernel
    from .function.exchange.wrap import wrap as wrap
    from .function.exchange.wrap import wrap_ad as wrap_ad
    from .function.inspect.asserts import allclose as allclose
    from .function.inspect.asserts import assert_allclose as assert_allclose
    from .function.inspect.asserts import assert_equal as assert_equal
    from .function.inspect.asserts import assert_false as assert_false
    from .function.inspect.asserts import assert_true as assert_true
    from .function.inspect.backend import *
    from .function.inspect.format import format as format
    from .function.inspect.format import print as print
    from .function.inspect.kernels import *
    from .function.inspect.picture import picture as picture
    from .function.inspect.profiling import *
    from .function.inspect.traits import *
    from .function.inspect.whos import *
    from .function.inspect.whos_ad import graphviz_ad as graphviz_ad
    from .function.inspect.whos_ad import whos_ad as whos_ad
    from .function.math.arithmetic import *
    from .function.math.color import *
    from .function.math.complex import arg as arg
    from .function.math.complex import conj as conj
    from .function.math.complex import imag as imag
    from .function.math.complex import real as real
    from .function.math.constants import *
    from .function.math.dot import *
    from .function.math.geometry import cross as cross
    from .function.math.geometry import normalize as normalize
    from .function.math.geometry import sphdir as sphdir
    from .function.math.geometry import unit_angle as unit_angle
    from .function.math.linalg import det as det
    from .function.math.linalg import diag as diag
    from .function.math.linalg import frob as frob
    from .function.math.linalg import inverse as inverse
    from .function.math.linalg import polar_decomp as polar_decomp
    from .function.math.linalg import trace as trace
    from .function.math.matmul import matmul as matmul
    from .function.math.sh import sh_eval as sh_eval
    from .function.math.statistics import mean as mean
    from .function.math.statistics import std as std
    from .function.math.statistics import var as var
    from .function.math.transcendental import *
    from .function.math.transform import *
    from .function.protocols import *
    from .function.signal.resample import *
    from .jit.cpu.runtime import set_thread_count as set_thread_count
    from .jit.cpu.runtime import thread_count as thread_count
    from .random import rng as rng
    from .texture import *

__version__ = "0.1.0"

__all__ = sorted(
    {name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _Module)}
    | {"auto", "cuda", "detail", "llvm", "scalar"}
    | _MODULES.keys()
)

# Modules that are imported on first use.
_LAZY = ("ast", "detail", "hashgrid", "interop", "nn", "opt", "random", "texture")


if not _typing.TYPE_CHECKING:  # which would otherwise accept any name

    def __getattr__(name: str) -> _Any:
        if name in _MODULES:
            module = _importlib.import_module(f".{_MODULES[name]}", __name__)
            found = globals()[name] = getattr(module, name)
            return found
        if name in _LAZY:
            return _importlib.import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})


def _type(name: str) -> _Any:
    """Returns the function that gives a type of a namespace, whose module replaces it."""

    def find(namespace: str) -> _Any:
        _importlib.import_module(f".{_TYPES[name]}", __name__)
        return _table.extras[name](namespace)

    return find


def _complete(cls: _Any) -> None:
    """Imports what defines operations of a new class of arrays."""
    for module in ("function.ad.grad", *_OPERATIONS.get(cls.__meta__.kind, ())):
        _importlib.import_module(f".{module}", __name__)


_table.extras.update({name: _type(name) for name in _TYPES})
_table.finishers.append(_complete)

if not _gc.get_freeze_count():
    _gc.freeze()
    _gc.unfreeze()  # to the oldest generation, which is looked at last
if _collects:
    _gc.enable()

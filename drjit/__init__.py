"""Array programs traced into kernels: the public names, grouped by topic."""

# ruff: noqa: E402

import gc as _gc
import importlib as _importlib
from types import ModuleType as _Module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# None of what is made here is garbage, but looking for it would take a tenth of the time.
_collects = _gc.isenabled()
_gc.disable()

from . import auto, cuda, llvm, scalar
from ._names import MODULES as _MODULES
from ._names import OPERATIONS as _OPERATIONS
from ._names import TYPES as _TYPES
from .array import table as _table
from .array.base import ArrayBase
from .array.meta import DYNAMIC as Dynamic
from .array.meta import VarState
from .jit.backend import JitBackend
from .jit.flags import JitFlag, flag, scoped_set_flag, set_flag
from .jit.ir.dtype import VarType
from .jit.ir.op import ReduceMode, ReduceOp
from .jit.log import LogLevel, log_level, set_log_level

if _TYPE_CHECKING:
    from .array.annotations import *
    from .flow.call.branch import if_stmt
    from .flow.call.dispatch import dispatch, reorder_threads
    from .flow.call.func import func
    from .flow.call.instance import InstanceArray, instance_t
    from .flow.call.switch import switch
    from .flow.export.export import export
    from .flow.freeze.frozen import freeze
    from .flow.loop.while_loop import while_loop
    from .flow.region.local import Local, alloc_local
    from .flow.syntax.decorator import hint, syntax
    from .function.ad.check_grad import check_grad
    from .function.ad.custom import CustomOp, custom
    from .function.ad.grad import *
    from .function.ad.propagate import *
    from .function.ad.scopes import isolate_grad, resume_grad, suspend_grad
    from .function.data.create import *
    from .function.data.join import *
    from .function.data.layout import *
    from .function.data.memory import *
    from .function.data.reduce import *
    from .function.data.reorder import *
    from .function.data.reshape import reshape
    from .function.data.scan import *
    from .function.data.shape import *
    from .function.data.sorting import *
    from .function.evaluation import copy, eval, flush_thread, make_opaque, schedule, sync_thread
    from .function.exchange.migrate import migrate
    from .function.exchange.save import load, save
    from .function.exchange.text_kernel import kernel
    from .function.exchange.wrap import wrap, wrap_ad
    from .function.inspect.asserts import (
        allclose,
        assert_allclose,
        assert_equal,
        assert_false,
        assert_true,
    )
    from .function.inspect.backend import *
    from .function.inspect.format import format, print
    from .function.inspect.kernels import *
    from .function.inspect.profiling import *
    from .function.inspect.traits import *
    from .function.inspect.whos import *
    from .function.inspect.whos_ad import graphviz_ad, whos_ad
    from .function.math.arithmetic import *
    from .function.math.color import *
    from .function.math.complex import arg, conj, imag, real
    from .function.math.constants import *
    from .function.math.dot import *
    from .function.math.geometry import cross, normalize, sphdir, unit_angle
    from .function.math.linalg import det, diag, frob, inverse, polar_decomp, trace
    from .function.math.matmul import matmul
    from .function.math.sh import sh_eval
    from .function.math.statistics import mean, std, var
    from .function.math.transcendental import *
    from .function.math.transform import *
    from .function.protocols import *
    from .function.signal.resample import *
    from .jit.cpu.runtime import set_thread_count, thread_count
    from .random import rng
    from .texture import *

__version__ = "0.1.0"

__all__ = sorted(
    {name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _Module)}
    | {"auto", "cuda", "detail", "llvm", "scalar"}
    | _MODULES.keys()
)

# Modules that are imported on first use.
_LAZY = ("ast", "detail", "hashgrid", "interop", "nn", "opt", "random", "texture")


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

"""Details of values and of the compiler, for libraries built on this package. Most programs need
none of them.
"""

import threading
from collections.abc import Callable
from types import GeneratorType
from typing import Any, TypeVar, cast

from .array import interop, leaf, pytree, table
from .array.base import ArrayBase, type_label
from .array.meta import VarState
from .flow.call.instance import clear_registry as clear_registry
from .flow.freeze.frozen import FrozenFunction as FrozenFunction
from .flow.freeze.frozen import freeze_discard as freeze_discard
from .flow.region.variables import IndexVector as IndexVector
from .flow.region.variables import VariableTracker as VariableTracker
from .flow.region.variables import check_compatibility as check_compatibility
from .flow.region.variables import collect_indices as collect_indices
from .flow.region.variables import new_grad as new_grad
from .flow.region.variables import traverse_py_cb_ro as traverse_py_cb_ro
from .flow.region.variables import traverse_py_cb_rw as traverse_py_cb_rw
from .flow.region.variables import update_indices as update_indices
from .function.ad.custom import IntrusiveBase as IntrusiveBase
from .function.ad.propagate import ADContextManager as ADContextManager
from .function.ad.propagate import ADScope as ADScope
from .function.ad.propagate import NullContextManager as NullContextManager
from .function.data.memory import gather
from .function.data.sorting import argsort
from .function.signal.resampler import Resampler as Resampler
from .jit.backend import JitBackend
from .jit.device import devices, find
from .jit.ir import dtype as dt
from .jit.ir.op import REDUCTIONS, ReduceOp, starting_value
from .jit.lazy import np

T = TypeVar("T", bound=Any)
_HOST = 1  # according to DLPack
_leak_warnings = False
_last_number = 0  # of a scope
_numbering = threading.Lock()
_scope = threading.local()

dr_iterator = GeneratorType
"""The type of iterators over arrays."""


class TraversableBase(IntrusiveBase):
    """Base class of C++ extension objects that list their own variables. There are none here: a
    class takes part by `DRJIT_STRUCT` or as a data class.

    Raises:
        TypeError: it is instantiated.
    """

    def __init__(self) -> None:
        raise TypeError(
            f"{type_label(self)}: objects of TraversableBase come from C++ extensions. "
            "Make the class a data class, or give it a table DRJIT_STRUCT of its fields."
        )


class scoped_rtld_deepbind(NullContextManager):
    """Context manager around the import of C++ extensions. It does nothing, because this package
    has no shared libraries whose symbols could clash.
    """


def any_symbolic(arg: object, /) -> bool:
    """Returns whether a PyTree contains a value of a loop, branch or call that is being recorded.

    >>> dr.detail.any_symbolic([Float(1), 2])
    False
    """
    return any(a.state is VarState.Symbolic for a in pytree.leaf_arrays(arg) if a._kind == "leaf")


def llvm_version() -> tuple[int, int, int]:
    """Returns the version of LLVM that compiles kernels.

    >>> dr.detail.llvm_version() >= (14, 0, 0)
    True
    """
    from llvmlite import binding

    major, minor, patch = binding.llvm_version_info
    return major, minor, patch


def cuda_version() -> tuple[int, int]:
    """Returns the version of CUDA that the driver supports, such as (12, 4), or (0, 0) if the
    backend is not available.

    >>> dr.detail.cuda_version() >= (0, 0)
    True
    """
    device: Any = find(JitBackend.CUDA)
    version = 0 if device is None else device.driver.version()
    return version // 1000, version % 1000 // 10


def cuda_compute_capability() -> int:
    """Returns the compute capability of the GPU: 90 for 9.0.

    Raises:
        RuntimeError: the backend is not available.
    """
    _check_backend("cuda_compute_capability", JitBackend.CUDA)
    device: Any = find(JitBackend.CUDA)
    major, minor = device.capability
    return 10 * major + minor


def _check_backend(what: str, backend: JitBackend) -> None:
    if find(backend) is None:
        raise RuntimeError(f"drjit.detail.{what}(): the backend {backend!r} is not available")


def scope(backend: JitBackend) -> int:
    """Returns the number of this thread's scope. Threads are isolated from each other without
    scopes, so scopes only mark places in a program.

    Raises:
        RuntimeError: the backend is not available.

    >>> before = dr.detail.scope(dr.JitBackend.LLVM)
    >>> dr.detail.new_scope(dr.JitBackend.LLVM) > before
    True
    """
    _check_backend("scope", backend)
    return getattr(_scope, "number", 0)


def set_scope(backend: JitBackend, scope: int) -> None:
    """Sets the value that `scope` returns.

    Raises:
        RuntimeError: the backend is not available.
    """
    _check_backend("set_scope", backend)
    _scope.number = scope


def new_scope(backend: JitBackend) -> int:
    """Sets this thread's scope to a new number and returns it.

    Raises:
        RuntimeError: the backend is not available.
    """
    return advance_scope(backend, 1)


def advance_scope(backend: JitBackend, n: int) -> int:
    """Equivalent to `n` calls of `new_scope`.

    Raises:
        RuntimeError: the backend is not available.
        TypeError: `n` is not an integer of 32 bits.
    """
    global _last_number
    number = scope(backend)
    if type(n) is not int or not 0 <= n < 1 << 32:
        raise TypeError(f"advance_scope(): 'n' must be an integer from 0 to {2**32 - 1}, not {n!r}")
    if n:
        with _numbering:
            number = _last_number = _last_number + n
        set_scope(backend, number)
    return number


def block_mkperm(values: T, block_size: int, bucket_count: int) -> T:
    """Returns the positions that sort each block of `block_size` entries, which are numbers below
    `bucket_count`. Equal entries keep their order. The last block may be shorter.

    Raises:
        TypeError: the argument is not an array of type `UInt32`.
        RuntimeError: the size of a block or the number of buckets is not positive.
        ValueError: an entry is not less than `bucket_count`.

    >>> dr.detail.block_mkperm(UInt([2, 0, 1, 0, 1, 2]), block_size=3, bucket_count=4)
    [1, 2, 0, 3, 4, 5]
    """
    what = "drjit.detail.block_mkperm()"
    cls: Any = type(values)
    if not isinstance(values, ArrayBase) or cls._kind != "leaf" or cls._dtype is not dt.u32:
        raise TypeError(f"{what}: expected an array of type UInt32, not {type_label(values)}")
    if block_size < 1 or bucket_count < 1:
        raise RuntimeError(
            f"{what}: block_size ({block_size}) and bucket_count ({bucket_count}) must be positive"
        )
    if len(values) == 0:
        return cls()
    largest = int(leaf.host(values).max())
    if largest >= bucket_count:
        raise ValueError(f"{what}: entry {largest} is not less than bucket_count ({bucket_count})")
    order = argsort(values)
    return gather(cls, order, argsort(order // block_size))


def trace_func(frame: object, event: object, arg: object = None) -> Callable[..., Any]:
    """A function for `sys.settrace` that does nothing: debug mode knows where a program traces an
    operation without it.

    >>> dr.detail.trace_func(None, "line") is dr.detail.trace_func
    True
    """
    return trace_func


def launch_stats() -> tuple[int, int, int]:
    """Returns the number of launches, of launches whose kernel already existed, and of kernels
    loaded from the disk cache.

    >>> launches, hits, loads = dr.detail.launch_stats()
    >>> launches >= hits
    True
    """
    found = [k for d in devices() for k in d.kernels() if k.launches]
    launches = sum(k.launches for k in found)
    return launches, launches - len(found), sum(1 for k in found if k.state == "disk")


def malloc_watermark(backend: JitBackend = JitBackend.LLVM) -> int:
    """Returns the peak number of bytes of a backend in use since the start or since
    `malloc_clear_statistics`.

    >>> dr.detail.malloc_watermark(dr.JitBackend.LLVM) >= 0
    True
    """
    return sum(d.memory_statistics()["peak"] for d in devices() if d.backend is backend)


def malloc_clear_statistics() -> None:
    """Resets the watermarks to the current usage.

    >>> dr.detail.malloc_clear_statistics()
    """
    for device in devices():
        device.clear_memory_statistics()


def reduce_identity(dtype: type[T], op: ReduceOp, size: int = 1, /) -> T:
    """Returns an array filled with the initial value of a reduction.

    Raises:
        TypeError: the type is not a one-dimensional array type, or does not support the operation.

    >>> dr.detail.reduce_identity(Float, dr.ReduceOp.Min)
    [inf]
    """
    what = f"drjit.detail.reduce_identity({type_label(dtype)}, {op.name})"
    if not (isinstance(dtype, type) and issubclass(dtype, ArrayBase) and dtype._kind == "leaf"):
        raise TypeError(f"{what}: expected the type of a one-dimensional array")
    element = dtype._dtype
    reduction = op.name.lower()
    if op is ReduceOp.Identity or not REDUCTIONS[reduction].accepts(element):
        raise TypeError(f"{what}: the operation is not defined for {element.name}")
    return leaf.literal(dtype, starting_value(reduction, element), size)


def can_scatter_reduce(arg0: type, arg1: ReduceOp, /) -> bool:
    """Returns whether `dr.scatter_reduce` supports an operation for targets of a type.

    >>> [dr.detail.can_scatter_reduce(t, dr.ReduceOp.And) for t in (Int, Float)]
    [True, False]
    """
    return arg1 is ReduceOp.Identity or REDUCTIONS[arg1.name.lower()].accepts(arg0._dtype)


def import_tensor(tensor: object, ad: bool = False) -> Any:
    """Converts an array of another library to a tensor of `drjit.llvm` (with `ad`: `drjit.llvm.ad`)
    with the same element type and shape, or of `drjit.cuda` if it is on a GPU.

    Raises:
        TypeError: the argument is not an array, or there are no tensors of its element type.

    >>> dr.detail.import_tensor(np.zeros((1, 2), np.float32))
    [[0, 0]]
    """
    suffix = ".ad" if ad else ""
    what = "drjit.detail.import_tensor()"
    where = getattr(tensor, "__dlpack_device__", None)
    if hasattr(tensor, "__cuda_array_interface__") or (where and where()[0] != _HOST):
        found = (device := find(JitBackend.CUDA)) and device.import_array(tensor, what)
        if found:
            return interop.to_tensor(table.find(f"cuda{suffix}", "leaf", found.dtype), found)
    try:
        source = tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(cast(Any, tensor))
    except AttributeError:
        raise TypeError(f"{what}: {type_label(tensor)} offers no array (__dlpack__)") from None
    element = dt.types_by_numpy().get(source.dtype)
    if element is None:
        raise TypeError(f"{what}: unsupported element type {source.dtype}")
    return table.find(f"llvm{suffix}", "tensor", element)(source)


def reset(arg: T, /) -> T:
    """Returns the PyTree with its arrays replaced by empty ones.

    >>> dr.detail.reset([Float(1, 2), 3])
    [[], 3]
    """
    return pytree.map_tree(lambda v: type(v)() if isinstance(v, ArrayBase) else v, arg)


def leak_warnings() -> bool:
    """Returns whether warnings about leaked values are enabled. Python's reference counting frees
    all values, so there are no leaks to report.
    """
    return _leak_warnings


def set_leak_warnings(arg: bool, /) -> None:
    """Sets the value that `leak_warnings` returns.

    >>> dr.detail.set_leak_warnings(False); dr.detail.leak_warnings()
    False
    """
    global _leak_warnings
    _leak_warnings = bool(arg)

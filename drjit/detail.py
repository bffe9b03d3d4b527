"""Facts about values and the compiler that libraries on top of this package ask for. Most programs
need none of it.
"""

from typing import Any

import numpy as np

from .array import leaf, pytree, table
from .array.base import ArrayBase, type_label
from .array.meta import VarState
from .flow.instance import clear_registry as clear_registry
from .function.resampler import Resampler as Resampler
from .jit import dtype as dt
from .jit import kernel, memory
from .jit.backend import JitBackend
from .jit.op import ReduceOp

_leak_warnings = False


def any_symbolic(arg: Any, /) -> bool:
    """Whether a tree holds a value of a loop, branch or call that is being recorded.

    >>> dr.detail.any_symbolic([Float(1), 2])
    False
    """
    return any(a.state is VarState.Symbolic for a in pytree.leaf_arrays(arg) if a._kind == "leaf")


def llvm_version() -> tuple[int, int, int]:
    """The version of LLVM that compiles kernels.

    >>> dr.detail.llvm_version() >= (14, 0, 0)
    True
    """
    from llvmlite import binding

    major, minor, patch = binding.llvm_version_info
    return major, minor, patch


def cuda_version() -> tuple[int, int]:
    """The version of the CUDA driver, (0, 0) where there is none.

    >>> dr.detail.cuda_version()
    (0, 0)
    """
    return (0, 0)


def launch_stats() -> tuple[int, int, int]:
    """The number of launches, of those whose kernel was there already, and of kernels that came
    from the disk.

    >>> launches, hits, loads = dr.detail.launch_stats()
    >>> launches >= hits
    True
    """
    found = [k for k in kernel.kernels() if k.launches]
    launches = sum(k.launches for k in found)
    return launches, launches - len(found), sum(1 for k in found if k.state == "disk")


def malloc_watermark(backend: JitBackend = JitBackend.LLVM) -> int:
    """The highest number of bytes in use at a time, since the start or `malloc_clear_statistics`.

    >>> dr.detail.malloc_watermark(dr.JitBackend.LLVM) >= 0
    True
    """
    return memory.malloc_watermark() if backend is JitBackend.LLVM else 0


def malloc_clear_statistics() -> None:
    """Sets the watermark to what is in use now.

    >>> dr.detail.malloc_clear_statistics()
    """
    memory.clear_statistics()


def reduce_identity(dtype: Any, op: ReduceOp, size: int = 1, /) -> Any:
    """An array with the value from which a reduction starts.

    Raises:
        TypeError: not a one-dimensional array type, or the operation is not defined for it.

    >>> dr.detail.reduce_identity(Float, dr.ReduceOp.Min)
    [inf]
    """
    what = f"drjit.detail.reduce_identity({type_label(dtype)}, {op.name})"
    if not (isinstance(dtype, type) and issubclass(dtype, ArrayBase) and dtype._kind == "leaf"):
        raise TypeError(f"{what}: expected the type of a one-dimensional array")
    element = dtype._dtype
    bitwise = op in (ReduceOp.And, ReduceOp.Or)
    if (
        op is ReduceOp.Identity
        or (element.is_mask and not bitwise)
        or (element.is_float and bitwise)
    ):
        raise TypeError(f"{what}: the operation is not defined for {element.name}")
    return leaf.literal(dtype, kernel.identity(element, op.name.lower()).item(), size)


def can_scatter_reduce(arg0: type, arg1: ReduceOp, /) -> bool:
    """Whether `dr.scatter_reduce` supports an operation on targets of a type.

    >>> [dr.detail.can_scatter_reduce(t, dr.ReduceOp.And) for t in (Int, Float)]
    [True, False]
    """
    element = arg0._dtype
    if arg1 in (ReduceOp.And, ReduceOp.Or):
        return not element.is_float
    return arg1 is ReduceOp.Identity or not element.is_mask


def import_tensor(tensor: Any, ad: bool = False) -> Any:
    """An array of another library as a tensor of `drjit.llvm` (with `ad`: `drjit.llvm.ad`) with the
    same element type and shape.

    Raises:
        TypeError: not an array, or of an element type that there are no tensors for.

    >>> dr.detail.import_tensor(np.zeros((1, 2), np.float32))
    [[0, 0]]
    """
    try:
        source = tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(tensor)
    except AttributeError:
        raise TypeError(
            f"drjit.detail.import_tensor(): {type_label(tensor)} offers no array (__dlpack__)"
        ) from None
    element = dt.BY_NUMPY.get(source.dtype)
    if element is None:
        raise TypeError(f"drjit.detail.import_tensor(): unsupported element type {source.dtype}")
    return table.find("llvm.ad" if ad else "llvm", "tensor", element)(source)


def reset(arg: Any, /) -> Any:
    """The tree with empty arrays in place of its arrays.

    >>> dr.detail.reset([Float(1, 2), 3])
    [[], 3]
    """
    return pytree.map_tree(lambda v: type(v)() if isinstance(v, ArrayBase) else v, arg)


def leak_warnings() -> bool:
    """Whether warnings about leaked values are on. Values are freed by Python's reference counting,
    so there are none to report.
    """
    return _leak_warnings


def set_leak_warnings(arg: bool, /) -> None:
    """Sets what `leak_warnings` gives.

    >>> dr.detail.set_leak_warnings(False); dr.detail.leak_warnings()
    False
    """
    global _leak_warnings
    _leak_warnings = bool(arg)

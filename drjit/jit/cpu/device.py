"""The processor as a device; see `drjit.jit.device`."""

# Functions of modules are its methods.
# pyright: reportAssignmentType=false

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from .. import substitutes
from ..backend import JitBackend
from ..device import Buffer, Device, elements
from ..ir.dtype import DType
from ..lazy import np
from . import kernel, memory, primitives, runtime, sequence


class Cpu(Device):
    """The processor: memory of the process, worker threads, the variants of kernels."""

    backend = JitBackend.LLVM
    on_host = True
    allocate = staticmethod(memory.allocate)
    adopt = staticmethod(memory.adopt)
    kernels = staticmethod(kernel.kernels)
    forget_kernels = staticmethod(kernel.forget)
    kernel = staticmethod(kernel.for_program)
    keeps_programs = True
    threads = staticmethod(runtime.thread_count)
    drain = staticmethod(runtime.drain)
    entry = staticmethod(memory.Buffer.entry)
    entries = staticmethod(memory.Buffer.entries)
    put = staticmethod(memory.Buffer.put)
    sync = staticmethod(runtime.sync)
    forget_error = staticmethod(runtime.forget_error)
    event = runtime.Event
    flush_memory = staticmethod(memory.flush_malloc_cache)
    memory_statistics = staticmethod(memory.statistics)
    clear_memory_statistics = staticmethod(memory.clear_statistics)
    prefix = staticmethod(primitives.prefix)
    block_reduce = staticmethod(primitives.block_reduce)
    reduce_rows = staticmethod(primitives.reduce_rows)
    compress = staticmethod(primitives.compress)
    sort = staticmethod(primitives.sort)
    matmul = staticmethod(primitives.matmul)
    can_join = staticmethod(sequence.can_join)
    sequence = sequence.LaunchSequence

    def __repr__(self) -> str:
        return "Cpu"  # part of the keys of programs in the disk cache

    def upload(self, values: np.ndarray) -> Buffer:
        buffer = memory.allocate(values.nbytes, host=True)
        buffer.array(values.dtype, values.size)[:] = values
        return buffer

    def upload_numbers(self, dtype: DType, values: Sequence) -> Buffer:
        buffer = memory.allocate(dtype.itemsize * len(values), host=True)
        try:
            buffer.write(dtype, values)
        except (OverflowError, struct.error):  # beyond the range: infinite, or an error of NumPy's
            return super().upload_numbers(dtype, values)
        return buffer

    def filled(self, dtype: DType, size: int, value: Any) -> Buffer:
        buffer = memory.allocate_for(dtype, size, host=True)
        buffer.fill(dtype, elements(dtype, size), value)
        return buffer

    def copy(self, buffer: memory.Buffer, nbytes: int) -> Buffer:
        copy = memory.allocate(nbytes, host=True)
        ctypes.memmove(copy.address, buffer.origin, nbytes)
        return copy

    def download(self, buffer: memory.Buffer, dtype: DType, size: int) -> np.ndarray:
        return buffer.array(dtype.numpy, size)

    def view(self, buffer: memory.Buffer, dtype: DType, size: int) -> np.ndarray:
        return buffer.view(dtype.numpy, size)


def _warm_up(nodes: int) -> float:
    from . import warm_up

    return warm_up.advance(nodes)


substitutes.modules["drjit.jit.cpu.plans"] = substitutes.FIRST
substitutes.warm_up = _warm_up
CPU = memory.Buffer.device = Cpu()

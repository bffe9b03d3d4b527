"""A GPU as a device."""

import os
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from ..backend import JitBackend
from ..device import Buffer, Device, ErrorWords, Kernel, elements
from ..ir.dtype import DType
from . import exchange
from .driver import DeviceAttribute, Driver, capability_of
from .memory import CudaBuffer, Pool, pattern_of
from .pinned import Records, Staging
from .runtime import Queue, event_of

_SEED = 1 << 16  # bytes of a pattern that are uploaded to fill memory


def _elsewhere(module: str, name: str) -> Callable[..., Any]:
    """Returns a method that calls a function of a module, imported on first use, with the device as
    its first argument."""

    def method(self: "Cuda", *arguments: Any, **options: Any) -> Any:
        return getattr(import_module(f".{module}", __package__), name)(self, *arguments, **options)

    return method


class Cuda(Device):
    """A GPU: its memory, a stream, kernels made from PTX.

    `driver`, `queue`, `pool` and `staging` are what kernels and primitives use. `capability` is
    the compute capability, `multiprocessors` their number, `shared_limit` the bytes of shared
    memory that a block may have, and `has_warpgroups` whether products of halves may use `wgmma`.
    """

    backend = JitBackend.CUDA
    sums_in_place = True

    def __init__(self, driver: Driver, ordinal: int = 0, limit: int | None = None) -> None:
        self.driver, self.ordinal = driver, ordinal
        self.name = driver.device_name(ordinal)
        kind = exchange.dlpack.EMULATED if driver.emulated else exchange.dlpack.CUDA
        self.dlpack_device = (kind, ordinal)
        self.capability = capability_of(driver, ordinal)
        attribute = driver.device_attribute
        self.multiprocessors = attribute(ordinal, DeviceAttribute.MULTIPROCESSORS)
        self.shared_limit = attribute(ordinal, DeviceAttribute.MAX_SHARED_PER_BLOCK_OPTIN)
        # No GPU has run these kernels so far.
        wanted = os.environ.get("DRJIT_CUDA_WGMMA") == "1"
        self.has_warpgroups = wanted and self.capability == (9, 0)
        driver.open(ordinal)
        self.queue = Queue(driver)
        self.pool = Pool(self, self.queue, limit)
        self.staging = Staging(self.queue)
        self.event = event_of(self.queue)
        self.records = Records(self.queue)
        self.kernel_table: dict[Any, Kernel] = {}

    @cached_property
    def counter(self) -> int:
        """The address of a `u32` with which the blocks of a launch are counted: zero between
        launches."""
        address = self.driver.allocate(4)
        self.queue.fill(address, 0, 4, 1)
        return address

    # ---- Memory

    def allocate(self, nbytes: int) -> CudaBuffer:
        return self.pool.allocate(nbytes)

    def upload(self, values: np.ndarray) -> CudaBuffer:
        buffer = self.pool.allocate(values.nbytes)
        self.staging.upload(np.ascontiguousarray(values), buffer.address)
        return buffer

    def filled(self, dtype: DType, size: int, value: Any) -> CudaBuffer:
        return self.filled_with_pattern(
            pattern_of(dtype, value), dtype.itemsize * elements(dtype, size)
        )

    def filled_with_pattern(self, pattern: bytes, nbytes: int) -> CudaBuffer:
        """Returns a buffer that is filled with a pattern of 1, 2, 4 or 8 bytes."""
        buffer, width = self.pool.allocate(nbytes), len(pattern)
        if width == 8:
            self._fill_with_pattern(buffer.address, pattern, nbytes)
        elif nbytes:
            bits = int.from_bytes(pattern, "little")
            self.queue.fill(buffer.address, bits, width, nbytes // width)
        return buffer

    def _fill_with_pattern(self, address: int, pattern: bytes, nbytes: int) -> None:
        """Fills memory with a pattern, of which each copy doubles the length."""
        done = min(nbytes, _SEED)
        seed = np.frombuffer(pattern * (done // len(pattern)), np.uint8)
        self.staging.upload(seed, address)
        while done < nbytes:
            n = min(done, nbytes - done)
            self.queue.copy(address + done, address, n)
            done += n

    def copy(self, buffer: Buffer, nbytes: int) -> CudaBuffer:
        copy = self.pool.allocate(nbytes)
        if nbytes:
            self.queue.copy(copy.address, buffer.address, nbytes)
        return copy

    def download(self, buffer: Buffer, dtype: DType, size: int) -> np.ndarray:
        values = np.empty(size, dtype.numpy)
        self.staging.download(buffer.address, values)
        return values

    def view(self, buffer: Buffer, dtype: DType, size: int) -> np.ndarray:
        return self.download(buffer, dtype, size)

    def put(self, buffer: Buffer, dtype: DType, at: int, value: float) -> None:
        entry = np.full(1, value, dtype.numpy)
        self.staging.upload(entry, buffer.address + at * dtype.itemsize)

    def write(self, buffer: Buffer, values: np.ndarray) -> None:
        """Replaces the first entries of a buffer."""
        self.staging.upload(np.ascontiguousarray(values), buffer.address)

    import_array = _elsewhere("exchange", "import_array")
    dlpack = _elsewhere("exchange", "export_capsule")
    export = _elsewhere("exchange", "Export")

    def error_words(self) -> ErrorWords:
        return self.records.words()

    def flush_memory(self) -> None:
        self.pool.flush()

    def clear_memory_statistics(self) -> None:
        self.pool.clear_statistics()

    def memory_statistics(self) -> dict[str, int]:
        pool = self.pool
        return {
            "in_use": pool.in_use, "peak": pool.peak, "pooled": pool.pooled, "hits": pool.hits,
            "misses": pool.misses,
        }  # fmt: skip

    # ---- Kernels: `drjit.jit.cuda.kernel` makes them, and keeps them in `made`

    kernel = _elsewhere("kernel", "for_program")

    assemble = _elsewhere("assembler", "assemble")
    image_facts = _elsewhere("assembler", "image_facts")

    def kernels(self) -> list[Kernel]:
        return [*self.kernel_table.values()]

    def forget_kernels(self) -> None:
        self.queue.drain()
        self.kernel_table.clear()

    # ---- Order

    def drain(self) -> None:
        self.queue.drain()

    def sync(self) -> None:
        self.queue.sync()

    def forget_error(self, error: BaseException) -> bool:
        return self.queue.errors.forget(error)

    # ---- Primitives: functions of `drjit.jit.cuda.primitives`, with the device first

    prefix = _elsewhere("primitives", "prefix")
    block_reduce = _elsewhere("primitives", "block_reduce")
    reduce_rows = _elsewhere("primitives", "reduce_rows")
    compress = _elsewhere("primitives", "compress")
    sort = _elsewhere("primitives", "sort")
    matmul = _elsewhere("primitives", "matmul")

"""The engines that move data between processes: `torch.distributed`, and MPI through `mpi4py`.

An operation takes one-dimensional data, a NumPy array or for PyTorch a tensor, and begins at once;
it returns a function that waits for the result.
"""

import atexit
import contextlib
import os
import sys
import time
import traceback
from array import array
from collections.abc import Callable
from copy import copy
from datetime import timedelta
from typing import Any

import numpy as np

from ..array import interop, leaf
from ..jit import log
from ..jit.ir.op import ReduceOp

Wait = Callable[[], Any]

# Reductions of these types are computed in others: all engines have them, and halves do not
# overflow. Unsigned integers have the same bits, except for their order.
WIDER = {"float16": "float32", "int16": "int32", "uint16": "int32", "bool": "uint8"}
SIGNED = {"uint32": "int32", "uint64": "int64"}


class DistributedError(RuntimeError):
    """An operation that involves several processes has failed, commonly because one of them has
    ended."""


class Engine:
    """The only process of a program that runs alone."""

    title = "one process"
    rank, size = 0, 1
    threads = True
    """Whether operations may be carried out in several threads."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout

    def data(self, x: Any) -> Any:
        """Returns the entries of a one-dimensional array, in memory that is shared if possible."""
        return interop.components(leaf.wrap(type(x), x._node))

    def from_numpy(self, values: np.ndarray) -> Any:
        """Returns data with the entries of a NumPy array, likewise."""
        return values

    def array(self, cls: Any, data: Any) -> Any:
        """Returns an array with the given entries, likewise."""
        return leaf.from_numpy(cls, data)

    def separate_channel(self) -> "Engine":
        """Returns an engine whose operations do not mix with those of this one, so that they may be
        called in another order."""
        return self

    def joined(self, data: list) -> Any:
        return np.concatenate(data)

    def cast(self, data: Any, name: str) -> Any:
        return data.astype(name)

    def bits(self, data: Any, name: str) -> Any:
        return data.view(name)

    def copy(self, data: Any) -> Any:
        return data.copy()

    def start(self, name: str, data: Any, option: Any) -> Wait:
        """Begins one of the operations `all_reduce`, `reduce`, `broadcast`, `all_gather` and
        `reduce_scatter`; the option is a `ReduceOp`, or the rank of the root."""
        return lambda: data

    def barrier(self) -> None:
        pass

    def failed(self, name: str, reason: object) -> DistributedError:
        return DistributedError(
            f"drjit.distributed.{name}(): process {self.rank} of {self.size} could not complete "
            f"the operation with {self.title}. Another process has ended, carries out another "
            f"operation, or did not arrive within {self.timeout:g} s ({reason})"
        )

    def reduce(self, name: str, data: Any, op: ReduceOp) -> Wait:
        """Begins a reduction of entries of any type."""
        kind = str(data.dtype).rpartition(".")[2]
        if name == "reduce":
            return self.start(name, self.copy(data), op)
        given = data
        ordered = op in (ReduceOp.Min, ReduceOp.Max) and kind in SIGNED
        if kind in WIDER:
            given = self.cast(data, WIDER[kind])
        elif kind in SIGNED:
            given = self.bits(data, SIGNED[kind])
        flip = -(2 ** (int(kind[4:]) - 1)) if ordered else 0
        if ordered:
            given = given ^ flip
        wait = self.start(name, given if ordered or kind in WIDER else self.copy(given), op)

        def done() -> Any:
            found = wait()
            found = found ^ flip if ordered else found
            if kind in WIDER:
                return self.cast(found, kind)
            return self.bits(found, kind) if kind in SIGNED else found

        return done


class TorchEngine(Engine):
    """`torch.distributed`: gloo for arrays of the processor, NCCL for those of GPUs."""

    title = "torch.distributed"

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        try:
            import torch  # pyright: ignore[reportMissingImports]
            import torch.distributed as dist  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise _missing("torch", "PyTorch", "torchrun --nproc-per-node 2 program.py") from None
        self.torch, self.dist = torch, dist
        self.gpu = torch.cuda.is_available()
        if not dist.is_initialized():
            absent = [k for k in ("RANK", "WORLD_SIZE", "MASTER_ADDR") if k not in os.environ]
            if absent:
                raise RuntimeError(
                    f"drjit.distributed.init('torch'): the environment lacks {', '.join(absent)}; "
                    "start the program by torchrun --nproc-per-node 2 program.py"
                )
            backend = "cpu:gloo,cuda:nccl" if self.gpu and dist.is_nccl_available() else "gloo"
            dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
            atexit.register(_quietly, dist.destroy_process_group)
        self.gpu = self.gpu and "nccl" in str(dist.get_backend_config())
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.group: Any = None  # of all processes

    def data(self, x: Any) -> Any:
        if self.gpu and interop.dlpack_device(x)[0] == 2:
            return self.torch.from_dlpack(leaf.wrap(type(x), x._node))
        return self.from_numpy(super().data(x))

    def from_numpy(self, values: np.ndarray) -> Any:
        return self.torch.from_numpy(values if values.flags.writeable else values.copy())

    def separate_channel(self) -> Engine:
        found = copy(self)
        found.group = self.dist.new_group(timeout=timedelta(seconds=self.timeout))
        return found

    def joined(self, data: list) -> Any:
        return self.torch.cat(data)

    def array(self, cls: Any, data: Any) -> Any:
        if data.device.type == "cpu":
            return leaf.from_numpy(cls, data.numpy())
        return interop.from_object(cls, data)

    def cast(self, data: Any, name: str) -> Any:
        return data.to(getattr(self.torch, name))

    def bits(self, data: Any, name: str) -> Any:
        return data.view(getattr(self.torch, name))

    def copy(self, data: Any) -> Any:
        return data.clone()

    def start(self, name: str, data: Any, option: Any) -> Wait:
        dist, found = self.dist, data
        options: Any = {"group": self.group, "async_op": True}
        names = {"Add": "SUM", "Mul": "PRODUCT", "And": "BAND", "Or": "BOR"}
        if isinstance(option, ReduceOp):
            op = getattr(dist.ReduceOp, names.get(option.name, option.name.upper()))
        try:
            if name == "all_reduce":
                work = dist.all_reduce(data, op, **options)
            elif name == "reduce":
                work = dist.reduce(data, option, **options)
            elif name == "broadcast":
                found = self.bits(data, "uint8").clone()
                work = dist.broadcast(found, option, **options)
            elif name == "all_gather":
                raw = self.bits(data, "uint8")
                found = raw.new_empty(raw.numel() * self.size)
                gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
                work = gather(found, raw, **options)
            else:
                found = data.new_empty(data.numel() // self.size)
                scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
                work = scatter(found, data, op, **options)
        except RuntimeError as error:
            raise self.failed(name, error) from error

        def wait() -> Any:
            try:
                work.wait()  # pyright: ignore[reportOptionalMemberAccess]
            except RuntimeError as error:
                raise self.failed(name, error) from error
            return found.view(data.dtype)

        return wait

    def barrier(self) -> None:
        try:
            self.dist.barrier(self.group)
        except RuntimeError as error:
            raise self.failed("barrier", error) from error


def wait_until_read(stream: Any, seconds: float = 2.0) -> None:
    """Waits until what was written to a stream has left its pipe.

    `mpiexec` passes on what its processes write, and drops what it has not read of it when one of
    them ends all.
    """
    end = time.monotonic() + seconds
    with contextlib.suppress(AttributeError, ImportError, OSError, ValueError):  # no pipe
        stream.flush()
        from fcntl import ioctl
        from termios import FIONREAD

        unread = array("i", [0])
        while ioctl(stream.fileno(), FIONREAD, unread) == 0 and unread[0]:
            if time.monotonic() > end:
                return
            time.sleep(0.01)
        time.sleep(0.1)


class MpiEngine(Engine):
    """MPI, through mpi4py."""

    title = "mpi4py"

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        try:
            from mpi4py import MPI  # pyright: ignore[reportMissingImports]
        except (ImportError, RuntimeError):
            start = "mpiexec -n 2 python program.py"
            raise _missing("mpi4py", "mpi4py or a library of MPI", start, "mpi4py mpich") from None
        self.mpi, self.comm = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        if self.size > 1:
            sys.excepthook = self._abort

    def separate_channel(self) -> Engine:
        found = copy(self)
        found.comm = self.comm.Dup()
        return found

    def _abort(self, kind: Any, error: Any, trace: Any) -> None:
        """Ends all processes after an exception in one, which they would wait for otherwise."""
        log.write("".join(traceback.format_exception(kind, error, trace)))
        log.write(f"Process {self.rank} of {self.size} ends all others.\n")
        wait_until_read(sys.stderr)
        self.comm.Abort(1)

    def start(self, name: str, data: Any, option: Any) -> Wait:
        comm, found = self.comm, data
        names = {"Add": "SUM", "Mul": "PROD", "And": "BAND", "Or": "BOR"}
        if isinstance(option, ReduceOp):
            op = getattr(self.mpi, names.get(option.name, option.name.upper()))
        if name == "all_reduce":
            found = np.empty_like(data)
            request = comm.Iallreduce(data, found, op)
        elif name == "reduce":
            found = np.empty_like(data)
            request = comm.Ireduce(data, found, self.mpi.SUM, option)
        elif name == "broadcast":
            found = data.view(f"u{data.itemsize}").copy()
            request = comm.Ibcast(found, option)
        elif name == "all_gather":
            raw = data.view(f"u{data.itemsize}")
            found = np.empty(raw.size * self.size, raw.dtype)
            request = comm.Iallgather(raw, found)
        else:
            found = np.empty(data.size // self.size, data.dtype)
            request = comm.Ireduce_scatter_block(data, found, op)

        def wait() -> Any:
            self._complete(name, request)
            return found.view(data.dtype)

        return wait

    def _complete(self, name: str, request: Any) -> None:
        end, pause = time.monotonic() + self.timeout, 0.0
        while not request.Test():
            if time.monotonic() > end:
                raise self.failed(name, "timeout")
            time.sleep(pause)
            pause = min(pause + 1e-6, 1e-3)

    def barrier(self) -> None:
        self._complete("barrier", self.comm.Ibarrier())


def _missing(package: str, title: str, start: str, needed: str = "") -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"drjit.distributed.init({package!r}): {title} is not installed. Install it with "
        f"`pip install {needed or package}`, and start the program by `{start}`."
    )


def _quietly(function: Callable) -> None:
    with contextlib.suppress(Exception):  # other processes may have ended already
        function()


ENGINES = {"torch": TorchEngine, "mpi4py": MpiEngine}


def detected() -> str | None:
    """Returns the engine of the program that started this process, if there is one."""
    if "torch.distributed" in sys.modules and sys.modules["torch.distributed"].is_initialized():
        return "torch"
    if "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ:
        return "torch"
    if any(k in os.environ for k in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")):
        return "mpi4py"
    return None

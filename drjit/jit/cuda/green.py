"""Parts of a GPU: green contexts, which have some of its multiprocessors to themselves."""

import contextlib
import ctypes
import sys
from ctypes import byref, c_uint, c_void_p
from typing import Any

from .driver import CudaError

_MULTIPROCESSORS = 1  # CU_DEV_RESOURCE_TYPE_SM
_DEFAULT_STREAM = 1  # CU_GREEN_CTX_DEFAULT_STREAM
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_SINCE = 12040  # the version of CUDA that has green contexts


class _Resource(ctypes.Structure):
    """CUdevResource, of which only the number of multiprocessors is known here."""

    _fields_ = (
        ("type", c_uint), ("_padding", ctypes.c_ubyte * 92), ("count", c_uint),
        ("_more", ctypes.c_ubyte * 44),
    )  # fmt: skip


class Partition:
    """At least `wanted` multiprocessors of a device: their number `count`, a `stream` that runs on
    them, its green context `context`, and as `rest` the context of the others, None if there are no
    others.

    Raises:
        RuntimeError: there are not that many, or the driver is too old.
    """

    stream = context = 0
    rest: int | None = None

    def __init__(self, device: Any, wanted: int, what: str) -> None:
        self.driver, self._contexts = device.driver, []
        version = self.driver.version()
        if version < _SINCE:
            raise RuntimeError(
                f"{what}: parts of a GPU need a driver for CUDA 12.4 or later, and this one is for "
                f"CUDA {version // 1000}.{version % 1000 // 10}. Install driver 550 or later from "
                "https://www.nvidia.com/drivers."
            )
        there = device.multiprocessors
        if not 0 < wanted <= there:
            raise RuntimeError(
                f"{what}: {wanted} multiprocessors are asked for, and {device.name} has {there}"
            )
        try:
            self._divide(device.ordinal, wanted)
        except CudaError as error:
            self.close()
            raise RuntimeError(
                f"{what}: the driver cannot give {wanted} of {there} multiprocessors ({error})"
            ) from error

    def _divide(self, ordinal: int, wanted: int) -> None:
        call, number = self.driver.call_optional, self.driver.handle(ordinal)
        whole, part, others, groups = _Resource(), _Resource(), _Resource(), c_uint(1)
        call("cuDeviceGetDevResource", number, byref(whole), _MULTIPROCESSORS)
        call(
            "cuDevSmResourceSplitByCount", byref(part), byref(groups), byref(whole), byref(others),
            0, wanted,
        )  # fmt: skip
        self.count = part.count
        if groups.value != 1 or part.count < wanted:
            raise CudaError(
                "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", f"it has {part.count}",
                "cuDevSmResourceSplitByCount", 914,
            )  # fmt: skip
        self.context, stream = self._context(number, part), c_void_p()
        call("cuGreenCtxStreamCreate", byref(stream), self.context, _NON_BLOCKING, 0)
        self.stream = stream.value or 0
        if others.count:
            rest = c_void_p()
            call("cuCtxFromGreenCtx", byref(rest), self._context(number, others))
            self.rest = rest.value

    def _context(self, number: int, resource: _Resource) -> int:
        description, context = c_void_p(), c_void_p()
        self.driver.call_optional(
            "cuDevResourceGenerateDesc", byref(description), byref(resource), 1
        )
        self.driver.call_optional(
            "cuGreenCtxCreate", byref(context), description, number, _DEFAULT_STREAM
        )
        self._contexts.append(context.value or 0)
        return self._contexts[-1]

    def close(self) -> None:
        """Gives the multiprocessors back when the work of the stream has ended."""
        with contextlib.suppress(RuntimeError):  # after a fork, or a failed launch
            if self.stream:
                self.driver.synchronize(self.stream)
                self.driver.destroy_stream(self.stream)
            for context in self._contexts:
                self.driver.call_optional("cuGreenCtxDestroy", context)
        self.stream, self._contexts = 0, []

    def __del__(self, _finalizing: Any = sys.is_finalizing) -> None:
        if not _finalizing() and hasattr(self, "_contexts"):
            self.close()

"""How the GPU of a machine is found. The modules that use a GPU are imported only if there is one:
most processes that look for one find none.
"""

import os
import re
from typing import TYPE_CHECKING

from ..device import DeviceUnavailable
from .library import open_library

if TYPE_CHECKING:
    from .device import Cuda
    from .driver import Driver


def discover() -> "Cuda":
    """Returns the GPU of this machine: the first one that `CUDA_VISIBLE_DEVICES` shows, or an
    emulated one if `DRJIT_CUDA` is `emulated`, or with its compute capability, `emulated:8.6`.

    Raises:
        DeviceUnavailable: there is none, or `DRJIT_CUDA` is `off`; the text says what is missing.
    """
    wish = os.environ.get("DRJIT_CUDA", "")
    if wish == "off":
        raise DeviceUnavailable("the environment variable DRJIT_CUDA=off disables it.")
    if emulated := re.fullmatch(r"emulated(?::(\d+)\.(\d))?", wish):
        from .device import Cuda
        from .emulated import EmulatedDriver

        major, minor = emulated.groups()
        driver = EmulatedDriver((int(major), int(minor))) if major else EmulatedDriver()
        check(driver)
        return Cuda(driver)
    if wish:
        raise DeviceUnavailable(
            f"DRJIT_CUDA={wish!r}: expected 'off', 'emulated', 'emulated:8.6' for a compute "
            "capability, or no such variable."
        )
    open_library()
    from .driver import CudaError
    from .libcuda import LibCuda

    try:
        driver = LibCuda()
        check(driver)
        from .device import Cuda

        return Cuda(driver)
    except CudaError as error:
        raise DeviceUnavailable(f"the NVIDIA driver reports {error}.") from error


def check(driver: "Driver", ordinal: int = 0) -> None:
    """Checks that a device can run kernels, and that they can be compiled.

    Raises:
        DeviceUnavailable: it cannot; the text says what is missing.
    """
    from .driver import OLDEST_CAPABILITY, OLDEST_CUDA, capability_of

    _check_version(driver, min(OLDEST_CUDA))
    if driver.device_count() <= ordinal:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hint = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
        raise DeviceUnavailable(f"the NVIDIA driver finds no GPU{hint}.")
    capability = capability_of(driver, ordinal)
    if capability < OLDEST_CAPABILITY:
        raise DeviceUnavailable(
            f"the GPU {driver.device_name(ordinal)} has compute capability "
            f"{capability[0]}.{capability[1]}, and 7.0 (Volta) is required."
        )
    check_llvm()
    from ..target.cuda import nvptx

    _check_version(driver, nvptx.version(capability), " for compute capability {}.{}", *capability)


def check_llvm() -> None:
    """Checks that LLVM can make PTX.

    Raises:
        DeviceUnavailable: it cannot; the text says how to get one that can.
    """
    try:
        from ..target.cuda import nvptx
    except ImportError as error:
        raise DeviceUnavailable(
            f"llvmlite cannot be imported ({error}). Install it: pip install llvmlite."
        ) from None
    nvptx.check()


def _check_version(driver: "Driver", ptx: int, why: str = "", *numbers: int) -> None:
    """Raises unless a driver knows a version of PTX, which is required for a reason."""
    from .driver import OLDEST_CUDA

    version, (oldest, number) = driver.version(), OLDEST_CUDA[ptx]
    if version < oldest:
        raise DeviceUnavailable(
            f"the NVIDIA driver supports CUDA {_dotted(version)}, and {_dotted(oldest)} is "
            f"required{why.format(*numbers)}. Install driver {number} or later from "
            "https://www.nvidia.com/drivers."
        )


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"

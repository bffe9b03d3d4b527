"""How the GPU of a machine is found. The modules that use a GPU are imported only if there is one:
most processes that look for one find none.
"""

import os
from typing import TYPE_CHECKING

from ..device import DeviceUnavailable
from .library import open_library

if TYPE_CHECKING:
    from .device import Cuda
    from .driver import Driver


def discover() -> "Cuda":
    """Returns the GPU of this machine: the first one that `CUDA_VISIBLE_DEVICES` shows, or an
    emulated one if `DRJIT_CUDA` is `emulated`.

    Raises:
        DeviceUnavailable: there is none, or `DRJIT_CUDA` is `off`; the text says what is missing.
    """
    wish = os.environ.get("DRJIT_CUDA", "")
    if wish == "off":
        raise DeviceUnavailable("the environment variable DRJIT_CUDA=off disables it.")
    if wish == "emulated":
        from .device import Cuda
        from .emulated import EmulatedDriver

        return Cuda(EmulatedDriver())
    if wish:
        raise DeviceUnavailable(
            f"DRJIT_CUDA={wish!r}: expected 'off' or 'emulated', or no such variable."
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
    from .driver import OLDEST_CAPABILITY, capability_of

    _check_version(driver, OLDEST_CAPABILITY)
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
    _check_version(driver, capability)
    check_llvm()


def check_llvm() -> None:
    """Checks that LLVM can make PTX.

    Raises:
        DeviceUnavailable: it cannot; the text says how to get one that can.
    """
    from llvmlite import binding

    binding.initialize_all_targets()
    try:
        binding.Target.from_triple("nvptx64-nvidia-cuda")
    except RuntimeError:
        raise DeviceUnavailable(
            "llvmlite was built without the target NVPTX. Install the one from PyPI: "
            "pip install --force-reinstall llvmlite."
        ) from None


def _check_version(driver: "Driver", capability: tuple[int, int]) -> None:
    """Raises unless a driver is new enough for GPUs of a compute capability."""
    from .driver import OLDEST_CAPABILITY, OLDEST_DRIVERS

    version = driver.version()
    floor = max(c for c in OLDEST_DRIVERS if c <= capability)
    oldest, number = OLDEST_DRIVERS[floor]
    if version < oldest:
        since = "" if floor == OLDEST_CAPABILITY else " for compute capability {}.{}".format(*floor)
        raise DeviceUnavailable(
            f"the NVIDIA driver supports CUDA {_dotted(version)}, and {_dotted(oldest)} is "
            f"required{since}. Install driver {number} or later from "
            "https://www.nvidia.com/drivers."
        )


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"

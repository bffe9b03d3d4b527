"""The library that comes with the driver of NVIDIA GPUs. Processes that do not find it import
nothing else about the driver.
"""

import ctypes
import sys
from typing import Any

from ..device import DeviceUnavailable

NAME = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def open_library() -> Any:
    """Returns the library.

    Raises:
        DeviceUnavailable: there is none.
    """
    try:
        return ctypes.CDLL(NAME)
    except OSError as error:
        raise DeviceUnavailable(
            f"there is no NVIDIA driver: {NAME} cannot be loaded ({error}). Install the driver for "
            "the GPU from https://www.nvidia.com/drivers; on Linux, packages of the distribution "
            "have it too, and in containers the NVIDIA container toolkit passes it on."
        ) from None

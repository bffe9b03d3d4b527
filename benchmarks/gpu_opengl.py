"""A context of OpenGL by EGL, without a window, for `gpu_tries.py`."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

import numpy as np

_DEVICE = 0x313F  # EGL_PLATFORM_DEVICE_EXT
_OPENGL = 0x30A2  # EGL_OPENGL_API
_RENDERABLE = (0x3040, 8, 0x3038)  # EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE
_ARRAY_BUFFER, _DYNAMIC_DRAW, _RENDERER = 0x8892, 0x88E8, 0x1F01


class OpenGL:
    """A context, current in this thread: that of NVIDIA's `renderer`, if EGL has it.

    Raises:
        OSError: there is no EGL, or it has no OpenGL.
    """

    def __init__(self) -> None:
        self._egl: Any = ctypes.CDLL("libEGL.so.1")
        self._egl.eglGetProcAddress.restype = c_void_p
        devices, count = (c_void_p * 16)(), c_int()
        query = self._function("eglQueryDevicesEXT", c_uint, c_int, c_void_p, POINTER(c_int))
        query(16, devices, byref(count))
        found = [self._make_current(device) for device in devices[: count.value]]
        renderers = {name: make for name, make in found if make}
        if not renderers:
            raise OSError(f"none of the {count.value} devices of EGL has OpenGL")
        self.renderer = next((n for n in renderers if "NVIDIA" in n), next(iter(renderers)))
        renderers[self.renderer]()

    def _function(self, name: str, result: Any, *types: Any) -> Any:
        place = self._egl.eglGetProcAddress(name.encode())
        if not place:
            raise OSError(f"EGL has no function {name}")
        return CFUNCTYPE(result, *types)(place)

    def _make_current(self, device: int) -> tuple[str, Any]:
        """Returns what renders on a device of EGL, and a function that makes its context current;
        None if there is no OpenGL."""
        call = self._function
        display = call("eglGetPlatformDisplayEXT", c_void_p, c_uint, c_void_p, c_void_p)(
            _DEVICE, device, None
        )
        bind = call("eglBindAPI", c_uint, c_uint)
        if not call("eglInitialize", c_uint, *[c_void_p] * 3)(display, None, None):
            return "", None
        wanted, config, count = (c_int * 3)(*_RENDERABLE), c_void_p(), c_int()
        choose = call("eglChooseConfig", c_uint, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
        choose(display, wanted, byref(config), 1, byref(count))
        create = call("eglCreateContext", *[c_void_p] * 5)
        if not bind(_OPENGL) or not (context := create(display, config, None, None)):
            return "", None
        use = call("eglMakeCurrent", c_uint, *[c_void_p] * 4)
        if not use(display, None, None, context):
            return "", None
        name = call("glGetString", c_char_p, c_uint)(_RENDERER) or b""
        return name.decode(), lambda: bind(_OPENGL) and use(display, None, None, context)

    def buffer(self, nbytes: int) -> int:
        """Returns the number of a new buffer."""
        number = c_uint()
        self._function("glGenBuffers", None, c_int, c_void_p)(1, byref(number))
        self._function("glBindBuffer", None, c_uint, c_uint)(_ARRAY_BUFFER, number)
        data = self._function("glBufferData", None, c_uint, c_size_t, c_void_p, c_uint)
        data(_ARRAY_BUFFER, nbytes, None, _DYNAMIC_DRAW)
        return number.value

    def contents(self, number: int, size: int) -> np.ndarray:
        """Returns the floats in a buffer."""
        values = np.empty(size, np.float32)
        self._function("glBindBuffer", None, c_uint, c_uint)(_ARRAY_BUFFER, number)
        read = self._function("glGetBufferSubData", None, c_uint, c_size_t, c_size_t, c_void_p)
        read(_ARRAY_BUFFER, 0, values.nbytes, values.ctypes.data)
        return values

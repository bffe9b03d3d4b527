"""Object files of `dr.export`, linked to a library and called through ctypes."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_LINKERS = ("ld", "cc", "gcc", "clang")
_LIBRARIES = {"ld": [], "cc": ["-lm", "-lpthread"]}
_STRUCTURE = re.compile(r"typedef struct \w+ \{(.*?)\} (\w+)_arguments;", re.DOTALL)
_FIELD = re.compile(r"(?:const )?(\w[\w ]*?) (\*?)(\w+);")
_TYPES = {
    "float": "f4", "double": "f8", "int": "i4", "unsigned int": "u4", "long long": "i8",
    "unsigned long long": "u8", "short": "i2", "unsigned short": "u2", "signed char": "i1",
    "unsigned char": "u1",
}  # fmt: skip


class Linked:
    """The functions of an object file, which take arrays by the names of fields."""

    def __init__(self, path: Path) -> None:
        if sys.platform != "linux":
            pytest.skip("the memory behind arrays is guarded on Linux only")
        linker = next(filter(shutil.which, _LINKERS), None)
        if linker is None:
            pytest.skip("no linker")
        library = path.with_suffix(".so")
        command = [linker, "-shared", "-o", str(library), str(path)]
        subprocess.run([*command, *_LIBRARIES.get(linker, _LIBRARIES["cc"])], check=True)
        self.header = path.with_suffix(".h").read_text()
        self.name = path.name.partition(".")[0]
        self._library = ctypes.CDLL(str(library))
        message = self._library[f"{self.name}_message"]
        message.restype = ctypes.c_char_p
        self.message = message
        self.structures = {name: body for body, name in _STRUCTURE.findall(self.header)}

    def fields(self, name: str) -> list[tuple[str, str]]:
        """Returns the fields of a function's structure: the names, and NumPy's for the types of
        arrays, nothing for sizes."""
        found = re.sub(r"/\*.*?\*/", "", self.structures[name])
        return [(field, _TYPES[t] if star else "") for t, star, field in _FIELD.findall(found)]

    def __call__(self, name: str = "", threads: int = 1, **given: Any) -> dict[str, np.ndarray]:
        """Calls a function; results are arrays, by their names. `given` has arguments, and the
        capacities of results."""
        name = name or self.name
        fields = self.fields(name)
        cls = type(
            "A", (ctypes.Structure,), {"_fields_": [(f, ctypes.c_size_t) for f, _ in fields]}
        )
        arguments, arrays = cls(threads=threads), {}
        for field, t in fields[1:]:
            if not t:
                continue
            value = given.get(field)
            capacity = given.get(f"{field}_capacity")
            if value is None:
                value = np.zeros(capacity if capacity is not None else 1, t)
            value = np.asarray(value).ravel()
            value = value.view("u2") if t == "u2" and value.dtype == "f2" else value.astype(t)
            a = arrays[field] = _guarded(value)
            setattr(arguments, field, a.ctypes.data)
            for what, n in (
                ("size", a.size if capacity is None else 0),
                ("capacity", capacity or 0),
            ):
                if hasattr(arguments, f"{field}_{what}"):
                    setattr(arguments, f"{field}_{what}", n)
        code = self._library[name](ctypes.byref(arguments))
        if code:
            raise RuntimeError(self.message(code).decode())
        made = {}
        for field, a in arrays.items():
            made[field] = a[: getattr(arguments, f"{field}_size", a.size)].copy()
        return made


_kept: list[Any] = []  # memory that may not be read is never freed


def _guarded(a: np.ndarray) -> np.ndarray:
    """Returns a copy of an array that ends where a page ends that may not be read."""
    import mmap

    page = mmap.PAGESIZE
    length = -(-max(a.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, length + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _protect = ctypes.CDLL(None).mprotect
    _protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    assert _protect(start + length, page, 0) == 0
    _kept.append(memory)
    made = np.ndarray(a.size, a.dtype, memory, length - a.nbytes)
    made[:] = a
    return made

"""Functions of the driver that kernels may call: `vprintf` and `__assertfail`."""

import re

import numpy as np

from drjit.jit.cuda.emulator.access import get_bytes
from drjit.jit.cuda.emulator.errors import Fault, TrapExecuted
from drjit.jit.cuda.emulator.machine import ThreadChunk

_SPECIFICATION = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?([diouxXeEfgGcspn%])")


class DeviceMachine(ThreadChunk):
    """A machine with these functions."""

    def external(self, name: str, place: np.ndarray, arguments: list[np.ndarray]) -> np.ndarray:
        """Calls a function; its result as rows of four bytes."""
        rows = [np.broadcast_to(a, (len(place), a.shape[1])) for a in arguments]
        if name == "__assertfail":
            message, file, line = (get_bytes(r, 0, t) for r, t in zip(
                rows, (np.uint64, np.uint64, np.uint32), strict=False))  # fmt: skip
            text = self.string(int(message[0]))
            where = f"{self.string(int(file[0]))}:{int(line[0])}"
            raise Fault(TrapExecuted, f"assertion failed: {text} ({where})", 0)
        formats, values = (get_bytes(r, 0, np.uint64) for r in rows[:2])
        for k in range(len(place)):
            print(self.formatted(self.string(int(formats[k])), int(values[k]), k), end="")
        return np.zeros((1, 4), np.uint8)

    def string(self, address: int) -> str:
        """The text at an address, up to its final zero."""
        found = bytearray()
        while True:
            self.memory.check(np.array([address], np.uint64), 1, "read")
            byte = int(self.memory.view(address, 1)[0])
            if byte == 0:
                return found.decode(errors="replace")
            found.append(byte)
            address += 1

    def formatted(self, text: str, address: int, lane: int) -> str:
        """`printf`: values are read from memory, each at a multiple of its size."""
        place = self.R["place"] if self.here is None else self.R["place"][self.here]
        at = address

        def next_value(m: re.Match[str]) -> str:
            nonlocal at
            kind = m[1]
            if kind == "%":
                return "%"
            wide = kind in "eEfgGsp" or "l" in m[0] or any(c in m[0] for c in "zjt")
            size = 8 if wide else 4
            at = -(-at // size) * size
            dtype = np.float64 if kind in "eEfgG" else np.int64 if wide else np.int32
            pointer = np.array([at], np.uint64)
            value = self.load_in("", place[lane : lane + 1], pointer, 0, dtype)[0]
            at += size
            if kind == "s":
                return self.string(int(value))
            if kind == "p":
                return f"{int(value):#x}"
            if kind in "uoxX":
                value = int(value) & ((1 << 8 * size) - 1)
                kind = "d" if kind == "u" else kind
            specification = re.sub(r"hh|h|ll|l|z|j|t", "", m[0])[:-1] + (
                "d" if kind == "i" else kind
            )
            number = float(value) if dtype is np.float64 else int(value)
            return specification % (chr(int(value)) if kind == "c" else number)

        return _SPECIFICATION.sub(next_value, text)

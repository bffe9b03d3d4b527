"""Stands for the interpreter of PTX in tests of what is above it. An image is Python source, and
its functions, called with the memory and the parameters, are kernels."""

import ctypes
import struct
from types import SimpleNamespace

import numpy as np


class EmulatorError(Exception):
    """A launch that failed."""


class Memory:
    def __init__(self, limit=None):
        self.limit, self.used = limit, 0
        self.blocks = {}

    def allocate(self, nbytes, name=""):
        if self.limit is not None and self.used + nbytes > self.limit:
            raise MemoryError
        base = np.full(nbytes + 256, 0xA5, np.uint8)  # no zeros that tests could rely on
        address = -(-base.ctypes.data // 256) * 256
        self.blocks[address] = base, nbytes
        self.used += nbytes
        return address

    def release(self, address):
        base, nbytes = self.blocks.pop(address)
        base[:] = 0xEE
        self.used -= nbytes

    def adopt(self, address, nbytes, owner):
        self.blocks[address] = owner, 0

    def view(self, address, nbytes):
        kind = ctypes.c_uint8 * nbytes
        return np.frombuffer(kind.from_address(address), np.uint8)


class Entry:
    shared_bytes = 16

    def __init__(self, function, memory):
        self.function, self.memory = function, memory
        self.parameter_bytes = 8 * function.__code__.co_argcount - 8

    def launch(self, grid, block, parameters, shared=0, conflicts=True):
        words = struct.unpack(f"<{len(parameters) // 8}q", parameters)
        self.function(self.memory, *words)


class Module:
    def __init__(self, text, memory):
        names = {"EmulatorError": EmulatorError, "np": np}
        try:
            exec(text, names)
        except SyntaxError as error:
            raise EmulatorError(str(error)) from None
        self.entries = {k: Entry(v, memory) for k, v in names.items() if hasattr(v, "__code__")}


stub = SimpleNamespace(Memory=Memory, Module=Module, EmulatorError=EmulatorError)

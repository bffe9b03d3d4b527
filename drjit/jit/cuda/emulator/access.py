"""Loads, stores and atomic operations in global memory, and parameters.

Generated code calls these with the register of a base address and an offset. Where all threads use
one address, both address and result have one element. `where` is a predicate: other threads do not
take part.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.atomics import update
from drjit.jit.cuda.emulator.errors import Fault, TrapExecuted
from drjit.jit.cuda.emulator.memory import Memory, flat, flat_index
from drjit.jit.cuda.emulator.threads import Shape, Threads, spread

u8, u16, u32, u64, i64 = np.uint8, np.uint16, np.uint32, np.uint64, np.int64


def moved(address: np.ndarray, offset: int) -> np.ndarray:
    """Addresses as uint64, plus an offset."""
    if address.dtype != u64:
        address = address.astype(u64)
    return address + u64(offset & 0xFFFFFFFFFFFFFFFF) if offset else address


def chosen(where: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The positions where a predicate holds, and the elements of arrays there."""
    lanes = np.flatnonzero(where)
    return lanes, [a if len(a) == 1 else a[lanes] for a in arrays]


def filled(
    parts: Iterable[tuple[np.ndarray, Callable[[], Any]]], n: int, dtype: Any, count: int
) -> Any:
    """Elements for `n` threads, which a function loads for each part of the lanes; 0 for others."""
    out = np.zeros((count, n), dtype)
    for lanes, load in parts:
        if len(lanes):
            with Among(lanes):
                out[:, lanes] = load()
    return out[0] if count == 1 else tuple(out)


def taken(array: Any, index: np.ndarray) -> Any:
    """Elements of an array, or a tuple with those of each column."""
    found = array[index]
    return found if found.ndim == 1 else tuple(np.ascontiguousarray(found.T))


def put(array: Any, index: np.ndarray, rows: tuple[np.ndarray, ...]) -> None:
    """Writes elements, or one to each column; of several for one index, the last one prevails."""
    values = rows[0] if len(rows) == 1 else np.stack(np.broadcast_arrays(*rows), 1)
    array[index] = values if len(index) > 1 else values[-1:]


class Accesses(Threads):
    """A chunk of threads with access to global memory."""

    def __init__(
        self, memory: Memory, parameters: np.ndarray, grid: Shape, block: Shape, first: int,
        blocks: int, dynamic: int,
    ):  # fmt: skip
        super().__init__(grid, block, first, blocks, dynamic)
        self.memory = memory
        self.parameters = parameters
        self.parameters_address = np.array([parameters.ctypes.data], u64)
        self.addresses: dict[str, int] = {}

    def address(self, name: str) -> np.ndarray:
        """The address of a variable, or the number that stands for a function."""
        return np.array([self.addresses[name]], u64)

    def parameter(self, offset: int, dtype: Any) -> np.ndarray:
        """A parameter of the kernel."""
        return self.parameters[offset : offset + dtype().itemsize].view(dtype)

    # ---- loads and stores

    def load(
        self, base: np.ndarray, offset: int, dtype: Any, count: int = 1, where: Any = None
    ) -> Any:
        """Elements at addresses; a tuple of `count` arrays of consecutive ones."""
        address = moved(base, offset)
        if where is not None:
            return self._load_where(address, dtype, count, where)
        size = dtype().itemsize * count
        self.memory.check(address, size, "read")
        return taken(flat(dtype, count), flat_index(address, size))

    def _load_where(self, address: np.ndarray, dtype: Any, count: int, where: np.ndarray) -> Any:
        lanes, (some,) = chosen(where, address)
        if len(where) == 1 or len(lanes) == len(where):
            if len(lanes):
                return self.load(address, 0, dtype, count)
            zeros = np.zeros(1, dtype)
            return zeros if count == 1 else (zeros,) * count
        part = lanes, lambda: self.load(some, 0, dtype, count)
        return filled([part], len(where), dtype, count)

    def store(self, base: np.ndarray, offset: int, values: Any, where: Any = None) -> None:
        """Writes elements, or tuples of consecutive ones. Of several threads that write to one
        address, the last one prevails."""
        address = moved(base, offset)
        rows = values if type(values) is tuple else (values,)
        if where is not None:
            lanes, (some, *rest) = chosen(where, address, *rows)
            if not len(lanes):
                return
            if len(where) > 1:
                with Among(lanes):
                    self.store(some, 0, tuple(rest))
                return
        size = rows[0].itemsize * len(rows)
        self.memory.check(address, size, "write")
        self.memory.writes += 1
        put(flat(rows[0].dtype.type, len(rows)), flat_index(address, size), rows)

    # ---- atomic operations

    def atomic(
        self, place: np.ndarray, space: str, base: np.ndarray, offset: int, operation: str,
        values: tuple[np.ndarray, ...], returns: bool, where: Any,
    ) -> Any:  # fmt: skip
        """Reads, changes and writes, one thread after the other. The old values, if wanted."""
        n = len(place)
        lanes = None
        if where is not None:
            if not np.count_nonzero(where):
                return np.zeros(1, values[0].dtype)
            if len(where) > 1:
                lanes = np.flatnonzero(where)
                place = place[lanes]
                base, *rest = (a if len(a) == 1 else a[lanes] for a in (base, *values))
                values = tuple(rest)
        with Among(lanes):
            address = self.effective(space, place, base, offset, values[0].itemsize)
        address = spread(address, len(place))
        values = tuple(spread(v, len(place)) for v in values)
        index = flat_index(address, values[0].itemsize)
        memory = flat(values[0].dtype.type)
        old, changed = update(memory, index, operation, values, returns)
        self.memory.writes += changed
        if lanes is None or not returns:
            return old
        out = np.zeros(n, old.dtype)
        out[lanes] = old
        return out

    def effective(
        self, space: str, place: np.ndarray, base: np.ndarray, offset: int, size: int
    ) -> np.ndarray:
        """The real addresses of an atomic operation."""
        address = moved(base, offset)
        self.memory.check(address, size, "atomic access")
        return address

    def trap(self, place: np.ndarray) -> None:
        raise Fault(TrapExecuted, "the kernel executed trap", 0)


class Among:
    """Positions of a fault among some of the threads become those among all."""

    def __init__(self, lanes: np.ndarray | None):
        self.lanes = lanes

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, fault: Any, trace: Any) -> None:
        if isinstance(fault, Fault) and self.lanes is not None and fault.lane is not None:
            fault.lane = int(self.lanes[fault.lane])


# ---- parameters of calls: rows of bytes


def put_bytes(rows: np.ndarray, size: int, offset: int, value: np.ndarray) -> np.ndarray:
    """Parameters of a call (one row of `size` bytes per thread) with a value put in."""
    part = np.ascontiguousarray(value).view(u8).reshape(-1, value.itemsize)
    if value.itemsize == size:
        return part
    result = np.empty((max(len(rows), len(part)), size), u8)
    result[:] = rows
    result[:, offset : offset + value.itemsize] = part
    return result


def get_bytes(rows: np.ndarray, offset: int, dtype: Any) -> np.ndarray:
    """A value in the parameters of a call."""
    part = rows[:, offset : offset + dtype().itemsize]
    return np.ascontiguousarray(part).view(dtype).reshape(-1)

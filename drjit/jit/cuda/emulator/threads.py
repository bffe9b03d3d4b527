"""Who is who: the threads of some blocks of a grid, and the values of their special registers.

A chunk of blocks runs at a time. A thread's place is its warp (counted through the chunk) times 32
plus its lane, so that warps are found even where blocks are not a multiple of 32 threads.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.errors import coordinates

u32, i64 = np.uint32, np.int64
Shape = tuple[int, int, int]


@lru_cache(maxsize=64)
def places(threads: int, blocks: int) -> np.ndarray:
    """The places of the threads of `blocks` blocks."""
    warps = -(-threads // 32)
    one = np.arange(threads, dtype=i64)
    all_blocks = np.arange(blocks, dtype=i64)[:, None] * (warps * 32) + one
    result = all_blocks.reshape(-1)
    result.flags.writeable = False
    return result


@lru_cache(maxsize=64)
def _thread_index(block: Shape, blocks: int, axis: int) -> np.ndarray:
    if block[axis] == 1:
        return np.zeros(1, u32)
    linear = np.arange(block[0] * block[1] * block[2], dtype=u32)
    inner = int(np.prod(block[:axis], dtype=int))
    one = linear // u32(inner) % u32(block[axis])
    result = np.tile(one, blocks)
    result.flags.writeable = False
    return result


@lru_cache(maxsize=64)
def _block_index(grid: Shape, axis: int, first: int, blocks: int, threads: int) -> np.ndarray:
    if grid[axis] == 1:
        return np.zeros(1, u32)
    numbers = np.arange(first, first + blocks, dtype=i64)
    inner = int(np.prod(grid[:axis], dtype=int))
    index = (numbers // inner % grid[axis]).astype(u32)
    result = index if blocks == 1 else np.repeat(index, threads)
    result.flags.writeable = False
    return result


@lru_cache(maxsize=64)
def _of_places(kind: str, threads: int, blocks: int) -> np.ndarray:
    place = places(threads, blocks)
    lane = (place & 31).astype(u32)
    if kind == "laneid":
        return lane
    bit = u32(1) << lane
    return {
        "eq": bit, "lt": bit - u32(1), "le": bit | (bit - u32(1)),
        "gt": ~(bit | (bit - u32(1))), "ge": ~(bit - u32(1)),
    }[kind[9:]]  # fmt: skip


def spread(a: np.ndarray, n: int) -> np.ndarray:
    """The values of `n` threads, given for each of them or one for all. Not to be written to."""
    return a if a.shape == (n,) else np.broadcast_to(a, (n,))


class Threads:
    """The threads of a chunk: `blocks` blocks of a grid, from the number `first`."""

    def __init__(self, grid: Shape, block: Shape, first: int, blocks: int):
        self.grid, self.block = grid, block
        self.first, self.blocks_here = first, blocks
        self.threads = block[0] * block[1] * block[2]
        self.warps_per_block = -(-self.threads // 32)
        self.all_places = places(self.threads, blocks)
        # Positions among all threads of those that execute now; None: all of them.
        self.here: np.ndarray | None = None

    def special(self, name: str) -> np.ndarray:
        """The value of a special register for all threads."""
        kind, _, axis = name[1:].partition(".")
        k = "xyz".find(axis) if axis else 0
        if kind in ("ntid", "nctaid"):
            return np.array([(self.block if kind == "ntid" else self.grid)[k]], u32)
        if kind == "tid":
            return _thread_index(self.block, self.blocks_here, k)
        if kind == "ctaid":
            return _block_index(self.grid, k, self.first, self.blocks_here, self.threads)
        return _of_places(kind, self.threads, self.blocks_here)

    def block_of(self, place: np.ndarray) -> Any:
        """The number of a place's block in this chunk; 0 if there is one block only."""
        if self.blocks_here == 1:
            return 0
        return (place >> 5) // self.warps_per_block

    def coordinates_of(self, place: int) -> tuple[int, int]:
        """The linear number of a place's block in the grid, and of its thread in the block."""
        size = self.warps_per_block * 32
        return self.first + place // size, place % size

    def name_of(self, place: int) -> str:
        """A thread, for messages."""
        block, thread = self.coordinates_of(place)
        return f"thread {coordinates(thread, self.block)} of block {coordinates(block, self.grid)}"

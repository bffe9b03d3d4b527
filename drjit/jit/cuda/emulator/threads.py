"""Who is who: the threads of some blocks of a grid, and the values of their special registers.

A chunk of blocks runs at a time. A thread's place is its warp (counted through the chunk) times 32
plus its lane, so that warps are found even where blocks are not a multiple of 32 threads.
"""

import math
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.errors import coordinates

u32, i64 = np.uint32, np.int64
Shape = tuple[int, int, int]


def spread(a: np.ndarray, n: int) -> np.ndarray:
    """The values of `n` threads, given for each of them or one for all. Not to be written to."""
    return a if a.shape == (n,) else np.broadcast_to(a, (n,))


class Threads:
    """The threads of a chunk: `blocks` blocks of a grid, from the number `first`."""

    def __init__(self, grid: Shape, block: Shape, first: int, blocks: int):
        self.grid, self.block = grid, block
        self.first, self.blocks_here = first, blocks
        self.threads = math.prod(block)
        self.warps_per_block = -(-self.threads // 32)
        # Each thread's number in its block, the number of the block in the grid, and the place.
        self.inner = np.tile(np.arange(self.threads), blocks)
        self.outer = np.repeat(np.arange(blocks), self.threads) + first
        self.all_places = (self.outer - first) * (self.warps_per_block * 32) + self.inner
        # Positions among all threads of those that execute now; None: all of them.
        self.here: np.ndarray | None = None

    def special(self, name: str) -> np.ndarray:
        """The value of a special register for all threads."""
        kind, _, axis = name[1:].partition(".")
        k = "xyz".find(axis) if axis else 0
        if kind in ("ntid", "nctaid"):
            return np.array([(self.block if kind == "ntid" else self.grid)[k]], u32)
        if kind in ("tid", "ctaid"):
            inside = kind == "tid"
            number, shape = (self.inner, self.block) if inside else (self.outer, self.grid)
            is_same = shape[k] == 1 or (not inside and self.blocks_here == 1)
            number = number[:1] if is_same else number
            return (number // math.prod(shape[:k]) % shape[k]).astype(u32)
        lane = (self.all_places & 31).astype(u32)
        if kind == "laneid":
            return lane
        bit = u32(1) << lane
        masks = {"eq": bit, "lt": bit - u32(1), "gt": ~(bit | (bit - u32(1)))}
        return {**masks, "le": ~masks["gt"], "ge": ~masks["lt"]}[kind.removeprefix("lanemask_")]

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

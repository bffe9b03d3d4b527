"""How a compiled kernel is launched."""

from typing import NamedTuple

THREADS = 256
"""Threads in a block."""
EACH = 8
"""Blocks for each multiprocessor in a launch in which threads stride over the lanes."""


class Compiled(NamedTuple):
    """A compiled kernel: its code (PTX), the name of its entry, and how it is launched.

    The entry takes the parameter block by value, or its address if it is not `by_value`; then the
    number of lanes as 64 bits, and the address of a 32-bit counter, which is zero before and
    afterwards. Each block has `threads` threads. If the kernel `strides`, any number of blocks
    does all lanes, best `each` on every multiprocessor; otherwise there is a thread for each lane.
    `finish` is the name of an entry with the same parameters to launch afterwards, by any number of
    blocks, or empty. `shared` is the size in bytes of the dynamic shared memory.
    """

    code: str
    entry: str
    by_value: bool
    strides: bool
    finish: str
    threads: int = THREADS
    shared: int = 0
    each: int = EACH

"""How work is divided among threads: plain arithmetic on numbers that are not negative, which
Python calls (`jit/cpu/kernel.py`, `jit/cpu/primitives.py`), and object files contain
(`jit/cpu/exported.py`). Tables are lists here, and addresses there.
"""

from typing import Any

# Less work than this, in lane-operations, runs in the calling thread: handing it over costs more.
INLINE_WORK = 300_000
BLOCK_WORK = 60_000
BLOCKS_PER_THREAD = 16
# Private copies of the targets of scatter-reductions have at most this many bytes in one launch; if
# threads would need more, there are fewer blocks, each with a copy. See also `access.EXPAND_BYTES`.
COPIES_BYTES = 1 << 28
# Below this number of lanes, one thread is faster than several that wait for each other.
ONE_BLOCK = 65536
# Above this number of elements, a block reduction with few results is divided further.
DIVIDED = 1 << 18
# Bytes of accumulators that stay in the first-level cache, and the fewest rows of a task.
STRIP, SHORTEST = 1 << 14, 16
# The most rows of a tile. Tiles have multiples of so many rows and columns, those of register
# tiles.
TILE_ROWS, ROW_STEP, COLUMN_STEP = 528, 24, 64
# Columns that a packed block of B, or of sums, may have beyond those of its tile: those of the
# widest register tile.
PAD = 128
# Rows of A's packed panel, and the gap between them (see target/simd/packing.py).
PANEL, GAP = 8, 16


def parts_of(n: int, size: int) -> int:
    """Returns the number of parts of a size, of which the last one may be smaller."""
    return (n + size - 1) // size


def rounded_up(n: int, step: int) -> int:
    return (n + step - 1) // step * step


def choose(test: int, x: int, y: int) -> int:
    """Returns `x` if a test holds, or else `y`."""
    if test:
        return x
    return y


def block_for(work: int, size: int, threads: int) -> int:
    """Returns the lanes of a block: whole packets, and a single block if the calling thread does
    the work."""
    if work < INLINE_WORK:
        return (size + 63) // 64 * 64
    blocks = max(1, min(threads * BLOCKS_PER_THREAD, work // BLOCK_WORK))
    return parts_of(size, blocks * 64) * 64


def block_with_copies(block: int, size: int, threads: int, nbytes: int) -> int:
    """Returns the lanes of a block if each has private copies of `nbytes` bytes."""
    most = max(COPIES_BYTES // nbytes, 1)
    if most < threads:
        return max(block, parts_of(size, most * 64) * 64)
    return block


def copies_for(block: int, size: int, threads: int) -> int:
    """Returns the number of private copies."""
    return max(min(threads, parts_of(size, block)), 1)


def lanes_of_block(size: int, multiple: int, threads: int) -> int:
    """Returns the number of lanes per block for launches that must agree on it."""
    return max(parts_of(size, 4 * threads * multiple), parts_of(ONE_BLOCK, multiple)) * multiple


def pieces(run: int, size: int, threads: int) -> int:
    """Returns the number of equal pieces into which to divide a run, so that there are packets of
    results for every thread."""
    if run == 1 or size < DIVIDED:
        return 1
    wanted = 64 * threads * run // size
    while wanted > 1:
        if run // wanted * wanted == run:
            return wanted
        wanted = wanted - 1
    return 1


def row_plan(table: Any, matrices: int, rows: int, columns: int, threads: int, width: int) -> int:
    """Writes how rows are reduced to a table of 7 words for the kernel: the sizes, rows of a task
    and their number, columns of a strip and their number. Returns the number of tasks."""
    strip = min(rounded_up(columns, 64), STRIP // width)
    strips = parts_of(columns, strip)
    tasks = matrices * strips
    wanted = 1
    if matrices * rows * columns >= DIVIDED:
        wanted = 4 * threads
    chunk = max(parts_of(rows * tasks, wanted), min(rows, SHORTEST))
    chunk = min(rows, rounded_up(chunk, 8))
    table[0] = matrices
    table[1] = rows
    table[2] = columns
    table[3] = chunk
    table[4] = parts_of(rows, chunk)
    table[5] = strip
    table[6] = strips
    return tasks * parts_of(rows, chunk)


def piece_size(size: int, largest: int, step: int, parts: int) -> int:
    """Returns the size of roughly equal pieces: at least `parts` of them, unless they become too
    small."""
    return (
        parts_of(size, max(parts_of(size, largest), min(parts, parts_of(size, step))) * step) * step
    )


def tile_plan(
    table: Any, m: int, n: int, k: int, count: int, threads: int, depth: int, columns: int
) -> int:
    """Writes how `count` products of matrices are divided to a table of 8 words for the kernel: the
    sizes, rows and columns of a tile and their numbers, and the entries of memory that a thread
    needs, for blocks of B of `depth` rows and tiles of at most `columns`. Returns the number of
    tasks."""
    # Threads get several tiles each, unless they would be smaller than what they need to pay off.
    wanted = 1
    if m * n * k > 1 << 18:
        wanted = parts_of(4 * threads, count)
    down = parts_of(m, piece_size(m, TILE_ROWS, ROW_STEP, 1))
    nb = piece_size(n, columns, COLUMN_STEP, parts_of(wanted, down))
    across = parts_of(n, nb)
    mb = piece_size(m, TILE_ROWS, ROW_STEP, parts_of(wanted, across))
    down = parts_of(m, mb)
    space = (nb + PAD) * depth + PANEL * (depth + GAP)
    if k > depth:
        space = space + (mb + PANEL) * (nb + PAD)
    table[0] = m
    table[1] = n
    table[2] = k
    table[3] = mb
    table[4] = nb
    table[5] = down
    table[6] = across
    table[7] = space
    return count * down * across

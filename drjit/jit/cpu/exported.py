"""What the code of exported object files shares (`flow/export/object.py`): launches of kernels in
blocks of lanes, by the calling thread or several, and the plans of primitives, as in `jit/cpu`.

A launch starts its threads and waits for them: nothing is left between calls, and no state is
shared by callers. The text of a driver has functions `drjit_*` that name those of its system.
"""

from ..native import objects
from ..native.language import Word, add, call, external, inverse, number, put, room, rounded, word
from . import kernel, primitives

# The work of each thread, in lane-operations, at least: starting one takes a tenth of that time.
WORK_PER_THREAD = 1_000_000
THREADS = 256  # at most

# The functions of the C library and the system, with types in which addresses are words.
LIBRARY = {
    "malloc": "i64(i64)", "free": "void(i64)", "memcpy": "void(i64, i64, i64)",
    "pthread_create": "i32(i64, i64, i64, i64)", "pthread_join": "i32(i64, i64)",
    "pthread_attr_init": "i32(i64)", "pthread_attr_setstacksize": "i32(i64, i64)",
    "pthread_attr_destroy": "i32(i64)", "CreateThread": "i64(i64, i64, i64, i64, i32, i64)",
    "WaitForSingleObject": "i32(i64, i32)", "CloseHandle": "i32(i64)",
}  # fmt: skip
STACK = 8 << 20  # bytes of a thread's: kernels with vectors need up to half of that


def allocate(nbytes: Word) -> Word:
    return call("i64(i64)", external("malloc"), nbytes)


def release(memory: Word) -> Word:
    call("void(i64)", external("free"), memory)


def copy(to: Word, source: Word, nbytes: Word) -> Word:
    call("void(i64, i64, i64)", external("memcpy"), to, source, nbytes)


def begin_posix(place: Word, s: objects.Shared) -> Word:
    """Starts a thread that runs `share`, and returns whether that was possible; its handle goes to
    a place."""
    a = room(16)  # more than any system's attributes need
    call("i32(i64)", external("pthread_attr_init"), a)
    call("i32(i64, i64)", external("pthread_attr_setstacksize"), a, STACK)
    failed = call(
        "i32(i64, i64, i64, i64)", external("pthread_create"), place, a, external("drjit_share"), s
    )
    call("i32(i64)", external("pthread_attr_destroy"), a)
    return failed == 0


def end_posix(thread: Word) -> Word:
    call("i32(i64, i64)", external("pthread_join"), thread, 0)


def begin_windows(place: Word, s: objects.Shared) -> Word:
    """The same; the stack size is that of reserved memory."""
    handle = call(
        "i64(i64, i64, i64, i64, i32, i64)", external("CreateThread"), 0, STACK,
        external("drjit_share"), s, 65536, 0,
    )  # fmt: skip
    put(place, handle)
    return handle != 0


def end_windows(thread: Word) -> Word:
    call("i32(i64, i32)", external("WaitForSingleObject"), thread, -1)
    call("i32(i64)", external("CloseHandle"), thread)


def number_f64(n: Word, inverted: Word) -> Word:
    """Returns the bits of a number of entries, or of its reciprocal."""
    if inverted:
        return inverse(number(n))
    return number(n)


def number_f32(n: Word, inverted: Word) -> Word:
    return rounded(number_f64(n, inverted))


def rounded_up(n: Word, step: Word) -> Word:
    return (n + step - 1) // step * step


def choose(test: Word, x: Word, y: Word) -> Word:
    if test:
        return x
    return y


def block_for(work: Word, size: Word, threads: Word) -> Word:
    """Returns the lanes of a block; see `kernel.block_for`."""
    if work < kernel.INLINE_WORK:
        return rounded_up(size, 64)
    blocks = max(1, min(threads * kernel.BLOCKS_PER_THREAD, work // kernel.BLOCK_WORK))
    return rounded_up(size, blocks * 64) // blocks


def block_with_copies(block: Word, size: Word, threads: Word, nbytes: Word) -> Word:
    """Returns the lanes of a block if each has private copies of `nbytes` bytes."""
    most = max(kernel.COPIES_BYTES // nbytes, 1)
    if most < threads:
        return max(block, rounded_up(size, most * 64) // most)
    return block


def copies_for(block: Word, size: Word, threads: Word) -> Word:
    return max(min(threads, (size + block - 1) // block), 1)


def lanes_of_block(size: Word, multiple: Word, threads: Word) -> Word:
    """Returns the lanes per block for launches that must agree on it."""
    count = 4 * threads * multiple
    least = (primitives._ONE_BLOCK + multiple - 1) // multiple
    return max((size + count - 1) // count, least) * multiple


def run_block(s: objects.Shared, b: Word, thread: Word) -> Word:
    begin = b * s.block
    end = min(begin + s.block, s.size)
    place = thread
    if s.blocks <= s.copies:
        place = b
    if begin < end:
        call("void(ptr, i64, i64, i64, i64)", s.kernel, s.params, begin, end, b, place)


def share(s: objects.Shared) -> Word:
    """What each thread of a launch runs: blocks, until none is left."""
    thread = add(s.entered, 1, "seq_cst")
    while 1:
        b = add(s.next, 1, "seq_cst")
        if b >= s.blocks:
            return 0
        run_block(s, b, thread)


def share_out(s: objects.Shared, count: Word) -> Word:
    handles = room(256)
    started = 0
    while started < count - 1:
        place = handles + 8 * started
        if call("i64(i64, i64)", external("drjit_begin_thread"), place, s) == 0:
            count = 0
        else:
            started = started + 1
    share(s)
    for k in range(started):
        call("i64(i64)", external("drjit_end_thread"), word(handles + 8 * k))


def launch(
    function: Word, finish: Word, params: Word, size: Word, block: Word, copies: Word,
    threads: Word, work: Word,
) -> Word:  # fmt: skip
    s: objects.Shared = room(8)
    s.kernel = function
    s.params = params
    s.size = size
    s.block = block
    s.blocks = max((size + block - 1) // block, 1)
    s.copies = copies
    s.next = 0
    s.entered = 0
    count = min(min(threads, s.blocks), work // WORK_PER_THREAD)
    if count > 1:
        share_out(s, count)
    else:
        for b in range(s.blocks):
            run_block(s, b, 0)
    if finish != 0:
        call("void(ptr, i64, i64)", finish, params, s.blocks, copies)


def fill(address: Word, nbytes: Word, pattern: Word) -> Word:
    """Fills memory, up to the next whole word, with a pattern of 8 bytes."""
    for k in range((nbytes + 7) // 8):
        put(address + 8 * k, pattern)


# ---- Plans of primitives


def pieces(run: Word, size: Word, threads: Word) -> Word:
    """Returns the number of pieces of a run; see `primitives._pieces`."""
    if run == 1 or size < primitives._DIVIDED:
        return 1
    wanted = 64 * threads * run // size
    while wanted > 1:
        if run // wanted * wanted == run:
            return wanted
        wanted = wanted - 1
    return 1


def row_plan(
    table: Word, matrices: Word, rows: Word, columns: Word, threads: Word, width: Word
) -> Word:
    """Writes the table of a reduction of rows, and returns the number of tasks."""
    size = matrices * rows * columns
    strip = min(rounded_up(columns, 64), primitives._STRIP // width)
    strips = (columns + strip - 1) // strip
    tasks = matrices * strips
    wanted = 1
    if size >= primitives._DIVIDED:
        wanted = 4 * threads
    chunk = max((rows * tasks + wanted - 1) // wanted, min(rows, primitives._SHORTEST))
    chunk = min(rows, rounded_up(chunk, 8))
    chunks = (rows + chunk - 1) // chunk
    put(table, matrices)
    put(table + 8, rows)
    put(table + 16, columns)
    put(table + 24, chunk)
    put(table + 32, chunks)
    put(table + 40, strip)
    put(table + 48, strips)
    return tasks * chunks


def piece_size(size: Word, largest: Word, step: Word, parts: Word) -> Word:
    """Returns the size of roughly equal pieces; see `primitives._piece_size`."""
    count = max((size + largest - 1) // largest, min(parts, (size + step - 1) // step))
    return rounded_up(size, count * step) // count


def tile_plan(
    table: Word, m: Word, n: Word, k: Word, count: Word, threads: Word, depth: Word, columns: Word
) -> Word:
    """Writes the sizes of a product of matrices; see `primitives._plan_tiles`. Returns the number
    of tasks."""
    wanted = 1
    if m * n * k > 1 << 18:
        wanted = (4 * threads + count - 1) // count
    mb = piece_size(m, 528, 24, 1)
    tiles_m = (m + mb - 1) // mb
    nb = piece_size(n, columns, 64, (wanted + tiles_m - 1) // tiles_m)
    tiles_n = (n + nb - 1) // nb
    if tiles_m * tiles_n < wanted:
        mb = piece_size(m, 528, 24, (wanted + tiles_n - 1) // tiles_n)
        tiles_m = (m + mb - 1) // mb
    space = (nb + 128) * depth + 8 * (depth + 16)
    if k > depth:
        space = space + (mb + 8) * (nb + 128)
    put(table, m)
    put(table + 8, n)
    put(table + 16, k)
    put(table + 24, mb)
    put(table + 32, nb)
    put(table + 40, tiles_m)
    put(table + 48, tiles_n)
    put(table + 56, space)
    return count * tiles_m * tiles_n

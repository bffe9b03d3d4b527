"""What the code of exported object files shares (`flow/export/object.py`): launches of kernels in
blocks of lanes, by the calling thread or several; `division` says into which.

The threads wait in a pool, the variable `drjit_pool` of the object file, until `end_threads`. A
launch that wants several is in the pool's list while its caller computes: they take part in it, and
the caller waits for those that did. So nothing depends on how many there are, or come in time.
"""

from ..native import objects
from ..native.division import *  # noqa: F403  # for the texts of drivers
from ..native.language import (
    Word,
    add,
    address,
    call,
    cas,
    external,
    library,
    load,
    number_f64,
    put,
    room,
    rounded,
    word,
)

# The work of each thread, in lane-operations, at least: some 20 us, so that two threads take less
# time than one, even if one of them sleeps, which wakes in 15 us.
WORK_PER_THREAD = 1_000_000
THREADS, STACK = 256, 8 << 20  # at most; bytes of each: kernels with vectors need half of that
SPINS = 100_000  # looks for whether there is work, or it is done, before a thread sleeps: 30 us

# The functions of the C library and the system, with types in which addresses are words.
LIBRARY = {
    "malloc": "i64(i64)", "free": "void(i64)", "memcpy": "void(i64, i64, i64)", "getpid": "i32()",
    "pthread_create": "i32(i64, i64, i64, i64)", "pthread_attr_setstacksize": "i32(i64, i64)",
    "pthread_attr_init": "i32(i64)", "pthread_attr_destroy": "i32(i64)",
    "pthread_mutex_init": "i32(i64, i64)", "pthread_cond_init": "i32(i64, i64)",
    "pthread_mutex_lock": "i32(i64)", "pthread_mutex_unlock": "i32(i64)", "CloseHandle": "i32(i64)",
    "pthread_cond_signal": "i32(i64)", "pthread_cond_broadcast": "i32(i64)",
    "pthread_cond_wait": "i32(i64, i64)", "SleepConditionVariableSRW": "i32(i64, i64, i32, i32)",
    "pthread_join": "i32(i64, i64)", "WaitForSingleObject": "i32(i64, i32)",
    "CreateThread": "i64(i64, i64, i64, i64, i32, i64)",
}  # fmt: skip
# Those that Windows has for them, with the same parameters.
WINDOWS = {
    "getpid": "GetCurrentProcessId", "pthread_mutex_unlock": "ReleaseSRWLockExclusive",
    "pthread_mutex_lock": "AcquireSRWLockExclusive", "pthread_cond_signal": "WakeConditionVariable",
    "pthread_cond_broadcast": "WakeAllConditionVariable",
}  # fmt: skip


def copy(to: Word, source: Word, nbytes: Word) -> Word:
    library("memcpy", to, source, nbytes)


# ---- The pool of threads


def begin(place: Word, pool: objects.Pool) -> Word:
    """Starts a thread, and returns whether that was possible; its handle goes to a place."""
    if word(external("drjit_windows")):  # where the stack size is that of reserved memory
        place[0] = library("CreateThread", 0, STACK, external("drjit_work"), pool, 65536, 0)
        return word(place) != 0
    a = room(16)  # more than any system's attributes need
    library("pthread_attr_init", a)
    library("pthread_attr_setstacksize", a, STACK)
    failed = library("pthread_create", place, a, external("drjit_work"), pool)
    library("pthread_attr_destroy", a)
    return failed == 0


def join(thread: Word) -> Word:
    if word(external("drjit_windows")):
        library("WaitForSingleObject", thread, -1)
        library("CloseHandle", thread)
    else:
        library("pthread_join", thread, 0)


def wait(cell: objects.Cell, condition: Word, pool: objects.Pool) -> Word:
    """Gives up the lock until a word changes, of which the condition tells those that sleep."""
    old = cell.word
    unlock(pool)
    for _ in range(SPINS):
        if load(cell.word, "acquire") != old:
            break
    lock(pool)
    if cell.word == old:
        if word(external("drjit_windows")):
            library("SleepConditionVariableSRW", condition, address(pool.lock), -1, 0)
        else:
            library("pthread_cond_wait", condition, address(pool.lock))


def lock(pool: objects.Pool) -> Word:
    library("pthread_mutex_lock", address(pool.lock))


def unlock(pool: objects.Pool) -> Word:
    library("pthread_mutex_unlock", address(pool.lock))


def locked_pool() -> objects.Pool:
    """Returns the pool, whose lock the caller has then. A process that was forked has none of the
    threads, and whatever state the lock was in: its pool is a new one, as that of the first call is
    (on Windows, one of zeros)."""
    pool: objects.Pool = external("drjit_pool")
    own = library("getpid")
    while load(pool.process, "acquire") != own:
        seen = pool.process
        # The negative number is that of a process in which a thread is here.
        if seen not in (own, -own) and cas(pool.process, seen, -own, "acq_rel", "acquire"):
            if not word(external("drjit_windows")):
                library("pthread_mutex_init", address(pool.lock), 0)
                library("pthread_cond_init", address(pool.work), 0)
                library("pthread_cond_init", address(pool.done), 0)
            fill(address(pool.launches), 24, 0)  # `workers` and `asked` as well
            cas(pool.process, -own, own, "release", "monotonic")
    lock(pool)
    return pool


def work(pool: objects.Pool) -> Word:
    """What each thread of the pool runs: shares of launches that want one more."""
    lock(pool)
    while pool.asked >= 0:
        s: objects.Shared = pool.launches
        while s != 0 and s.wanted == 0:
            s = s.link
        if s == 0:
            wait(address(pool.asked), address(pool.work), pool)
        else:
            s.wanted = s.wanted - 1
            s.inside = s.inside + 1
            unlock(pool)
            share(s)
            lock(pool)
            s.inside = s.inside - 1
            if s.inside == 0:
                library("pthread_cond_broadcast", address(pool.done))
    unlock(pool)


def share_out(s: objects.Shared, count: Word) -> Word:
    pool: objects.Pool = locked_pool()
    while pool.workers < count - 1 and begin(pool.handles[pool.workers], pool):
        pool.workers = pool.workers + 1
    s.wanted = count - 1
    s.link = pool.launches
    pool.launches = s
    pool.asked = pool.asked + 1
    unlock(pool)
    for _ in range(count - 1):
        library("pthread_cond_signal", address(pool.work))
    share(s)
    lock(pool)
    place = address(pool.launches)
    while word(place) != s:
        before: objects.Shared = word(place)
        place = address(before.link)
    put(place, s.link)
    while s.inside:
        wait(address(s.inside), address(pool.done), pool)
    unlock(pool)


def end_threads() -> Word:
    pool: objects.Pool = locked_pool()
    pool.asked = -1
    library("pthread_cond_broadcast", address(pool.work))
    unlock(pool)
    for k in range(pool.workers):
        join(word(pool.handles[k]))
    pool.process = 0


# ---- Launches


def number_f32(n: Word, inverted: Word) -> Word:
    """The same as a float."""
    return rounded(number_f64(n, inverted))


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


def launch(
    function: Word, finish: Word, params: Word, size: Word, block: Word, copies: Word,
    threads: Word, work: Word,
) -> Word:  # fmt: skip
    s: objects.Shared = room(11)
    s.kernel = function
    s.params = params
    s.size = size
    s.block = block
    s.blocks = max((size + block - 1) // block, 1)
    s.copies = copies
    fill(address(s.next), 32, 0)  # `entered`, `wanted` and `inside` as well
    count = min(min(threads, s.blocks), work // WORK_PER_THREAD)
    if count > 1:
        share_out(s, count)
    else:
        for b in range(s.blocks):
            run_block(s, b, 0)
    if finish != 0:
        call("void(ptr, i64, i64)", finish, params, s.blocks, copies)


def fill(place: Word, nbytes: Word, pattern: Word) -> Word:
    """Fills memory, up to the next whole word, with a pattern of 8 bytes."""
    for k in range((nbytes + 7) // 8):
        place[k] = pattern

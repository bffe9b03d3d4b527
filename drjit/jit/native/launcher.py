"""The code of the launcher: workers, waiters, and the functions that queue or run a job.

A block is claimed by a compare-and-swap on `claim`, which also holds the ticket: if a worker was
delayed while the slot of its job was reused for another one, it sees a different ticket and claims
nothing. No wake-up is lost: a thread that parks first publishes `state`, then looks for work again;
a thread with work first publishes it, then looks at the states.
"""

import sys

from . import objects
from .language import Word, add, call, cas, load, room, store, word, xchg

LOW = (1 << 32) - 1
ENTRY = objects.size_of(objects.JobEntry)
SHARE = objects.size_of(objects.Share)
CLOCK = 8 if sys.platform == "darwin" else 1

if sys.platform == "win32":

    def now(c: objects.Control) -> Word:
        """QueryPerformanceCounter counts ticks, commonly of 100 nanoseconds."""
        time = room(1)
        call("i32(ptr)", c.clock, time)
        return word(time) * c.tick

else:

    def now(c: objects.Control) -> Word:
        """The clock of time.perf_counter_ns: CLOCK_MONOTONIC, on macOS CLOCK_UPTIME_RAW."""
        time = room(2)
        call("i32(i32, ptr)", c.clock, CLOCK, time)
        return word(time) * 1000000000 + word(time + 8)


def relax(c: objects.Control) -> Word:
    call("i32()", c.relax)


def park(c: objects.Control, seat: objects.Seat, microseconds: Word) -> Word:
    return call("i32(ptr, i64, i32)", c.acquire, seat.lock, microseconds, 0) == 1


def unpark(c: objects.Control, seat: objects.Seat) -> Word:
    call("void(ptr)", c.release, seat.lock)


def wake(c: objects.Control, count: Word) -> Word:
    """Wakes up to `count` parked workers."""
    if load(c.parked, "seq_cst") > 0:
        for k in range(c.workers):
            seat = c.seats[k]
            if count > 0 and cas(seat.state, 1, 0, "seq_cst", "seq_cst"):
                unpark(c, seat)
                count = count - 1


def claimable(c: objects.Control) -> Word:
    """Unclaimed blocks of the job that may run now."""
    done = load(c.completed, "seq_cst")
    if done < load(c.submitted, "seq_cst"):
        claim = load(c.jobs[done + 1].claim, "seq_cst")
        if claim >> 32 == (done + 1) & LOW:
            return claim & LOW
    return 0


def recruit(c: objects.Control, me: Word) -> Word:
    """Wakes workers if the spinning ones (and the caller, with `me` = 1) are too few for the blocks
    at hand; woken workers wake further ones."""
    left = claimable(c)
    few = min(left - load(c.spinning, "seq_cst") - me, 2)
    if few > 0:
        wake(c, few)


def notify(c: objects.Control, ticket: Word) -> Word:
    """Wakes the waiters whose ticket is complete."""
    if load(c.waiting, "seq_cst") > 0:
        for k in range(objects.WAITERS):
            seat = c.waiters[k]
            state = load(seat.state, "seq_cst")
            due = state != 0 and state <= ticket
            if due and cas(seat.state, state, 0, "seq_cst", "seq_cst"):
                unpark(c, seat)


def begun(c: objects.Control, times: objects.Times) -> Word:
    if times != 0:
        times.start = now(c)


def ended(c: objects.Control, times: objects.Times) -> Word:
    """Notes the times of a job whose blocks have all been run. The thread with the first block may
    have been held up before it noted the start: another one has begun earlier then."""
    if times != 0:
        if times.shares != 0:
            for k in range(c.workers + 1):
                share: objects.Share = share_of(times, k)
                first = share.first
                if first != 0 and first < times.start:
                    times.start = first
        times.end = now(c)
        times.last = times.end - times.start
        times.total = times.total + times.last
        times.launches = times.launches + 1
        whole: objects.Times = times.whole
        if whole != 0:
            whole.last = times.last
            whole.total = whole.total + times.last
            whole.launches = whole.launches + 1


def share_of(times: objects.Times, thread: Word) -> Word:
    """Where a thread notes what it does of a launch; 0 if nobody wants to know."""
    share = 0
    if times != 0:
        share = times.shares
        if share != 0:
            share = share + thread * SHARE
    return share


def run_block(kernel: Word, params: Word, size: Word, block: Word, b: Word, thread: Word) -> Word:
    begin = b * block
    end = min(begin + block, size)
    if begin < end and kernel != 0:
        call("void(i64, i64, i64, i64, i64)", kernel, params, begin, end, b, thread)


def run_noted(
    c: objects.Control,
    share: objects.Share,
    kernel: Word,
    params: Word,
    size: Word,
    block: Word,
    b: Word,
    thread: Word,
) -> Word:
    """Runs a block, and notes how long it took where there is a share."""
    if share == 0:
        run_block(kernel, params, size, block, b, thread)
    else:
        start = now(c)
        run_block(kernel, params, size, block, b, thread)
        if share.first == 0:
            share.first = start
        share.last = now(c)
        share.busy = share.busy + share.last - start


def run_finish(finish: Word, params: Word, size: Word, blocks: Word, threads: Word) -> Word:
    if finish != 0:
        if size <= 0:
            blocks = 0
        call("void(i64, i64, i64)", finish, params, blocks, threads)


def take(c: objects.Control, ticket: Word, thread: Word, spins: Word) -> Word:
    """Runs blocks of a job until none is left. `spins` says whether this worker counts as spinning;
    returns whether it still does. The job's `threads` is the number of its private copies: one per
    thread or, if there are no more blocks than copies, one per block."""
    job = c.jobs[ticket]
    while 1:
        claim = load(job.claim, "acquire")
        left = claim & LOW
        stop = load(c.stop, "monotonic")
        if claim >> 32 != ticket & LOW or left == 0 or stop != 0:
            return spins
        # Read before the block is claimed: afterwards, the slot may be given to another job.
        kernel = load(job.kernel, "monotonic")
        finish = load(job.finish, "monotonic")
        params = load(job.params, "monotonic")
        size = load(job.size, "monotonic")
        block = load(job.block, "monotonic")
        blocks = load(job.blocks, "monotonic")
        threads = load(job.threads, "monotonic")
        times: objects.Times = load(job.times, "monotonic")
        if cas(job.claim, claim, claim - 1, "acq_rel", "acquire"):
            if spins:
                add(c.spinning, -1, "seq_cst")
                recruit(c, 0)
                spins = 0
            b = blocks - left
            if b <= 0:
                begun(c, times)
            place = thread
            if blocks <= threads:
                place = b
            share = share_of(times, thread)
            run_noted(c, share, kernel, params, size, block, b, place)
            if add(job.done, 1, "acq_rel") + 1 == blocks:
                run_finish(finish, params, size, blocks, threads)
                ended(c, times)
                store(c.completed, ticket, "seq_cst")
                notify(c, ticket)
                if load(c.submitted, "seq_cst") > ticket:
                    recruit(c, 1)


def rest(c: objects.Control, seat: objects.Seat) -> Word:
    add(c.parked, 1, "seq_cst")
    xchg(seat.state, 1, "seq_cst")
    add(c.spinning, -1, "seq_cst")
    woken = 0
    stop = load(c.stop, "seq_cst")
    if stop | claimable(c):
        woken = cas(seat.state, 1, 0, "seq_cst", "seq_cst")
    if not woken:
        park(c, seat, -1)
    add(c.parked, -1, "seq_cst")


def work(c: objects.Control) -> Word:
    """What a worker's thread runs: it takes the next seat, if one is left."""
    thread = add(c.entered, 1, "seq_cst")
    if thread < c.workers:
        attend(c, thread)
    add(c.left, 1, "seq_cst")


def attend(c: objects.Control, thread: Word) -> Word:
    """The life of a worker: run blocks, spin a little, park."""
    seat = c.seats[thread]
    while 1:
        add(c.spinning, 1, "seq_cst")
        deadline = now(c) + c.spin
        spins = 1
        while spins:
            if load(c.stop, "seq_cst") != 0:
                add(c.spinning, -1, "seq_cst")
                return 0
            if claimable(c):
                spins = take(c, load(c.completed, "acquire") + 1, thread, 1)
            if spins:
                if now(c) < deadline:
                    relax(c)
                else:
                    rest(c, seat)
                    spins = 0


def post(
    c: objects.Control,
    entry: objects.JobEntry,
    params: Word,
    size: Word,
    block: Word,
    threads: Word,
    times: objects.Times,
    ticket: Word,
) -> Word:
    """Queues a job and returns its `ticket`, which must be the next one: 0 if the ring is full, -1
    if another job has got that ticket meanwhile. The functions are those of `entry`, if there is
    one. If that has no kernel yet, the job is closed: none of its blocks can be claimed before
    somebody opens it, and the jobs behind it wait as for any other. Callers hold the GIL, as do
    those of `open_jobs`, so that every closed job is opened."""
    before = load(c.submitted, "monotonic")
    if before + 1 != ticket:
        return -1
    if before - load(c.completed, "acquire") >= objects.JOBS:
        return 0
    job = c.jobs[ticket]
    blocks = max((size + block - 1) // block, 1)
    ready = blocks
    closed = 0
    kernel = 0
    finish = 0
    if entry != 0:
        kernel = entry.kernel
        finish = entry.finish
        if kernel == 0:
            ready = 0
            closed = entry
    store(job.kernel, kernel, "monotonic")
    store(job.finish, finish, "monotonic")
    store(job.params, params, "monotonic")
    store(job.size, size, "monotonic")
    store(job.block, block, "monotonic")
    store(job.blocks, blocks, "monotonic")
    store(job.threads, threads, "monotonic")
    store(job.times, times, "monotonic")
    store(job.closed, closed, "monotonic")
    store(job.done, 0, "monotonic")
    store(job.claim, ticket << 32 | ready, "release")
    store(c.submitted, ticket, "seq_cst")
    recruit(c, 0)
    return ticket


def open_jobs(c: objects.Control, entry: objects.JobEntry, kernel: Word, finish: Word) -> Word:
    """Sets the functions of an entry, and opens its closed jobs. Without a kernel, these do
    nothing."""
    if kernel != 0:
        entry.kernel = kernel
        entry.finish = finish
    first = load(c.completed, "acquire") + 1
    for ticket in range(first, load(c.submitted, "monotonic") + 1):
        job = c.jobs[ticket]
        if load(job.closed, "monotonic") == entry:
            store(job.closed, 0, "monotonic")
            store(job.kernel, kernel, "monotonic")
            store(job.finish, finish, "monotonic")
            store(job.claim, ticket << 32 | load(job.blocks, "monotonic"), "seq_cst")
            recruit(c, 0)


def first_closed(c: objects.Control) -> Word:
    """Returns the ticket of the first closed job, or 0."""
    first = load(c.completed, "acquire") + 1
    for ticket in range(first, load(c.submitted, "monotonic") + 1):
        job = c.jobs[ticket]
        if load(job.closed, "monotonic") != 0:
            return ticket
    return 0


def run(
    c: objects.Control,
    kernel: Word,
    finish: Word,
    params: Word,
    size: Word,
    block: Word,
    threads: Word,
    times: objects.Times,
) -> Word:
    """Runs a job in the calling thread. Python has seen that the jobs before it are complete, but
    without the memory order that this thread needs to see their results."""
    load(c.completed, "acquire")
    begun(c, times)
    share = share_of(times, c.workers)
    b = 0
    while 1:
        run_noted(c, share, kernel, params, size, block, b, 0)
        b = b + 1
        if b * block >= size:
            break
    run_finish(finish, params, size, b, threads)
    ended(c, times)


def is_idle(c: objects.Control) -> Word:
    return load(c.completed, "acquire") == load(c.submitted, "monotonic")


def run_entries(c: objects.Control, entry: objects.JobEntry, params: Word, lanes: Word) -> Word:
    """Runs the jobs of `JobEntry` records, up to the first one without a kernel, in the calling
    thread, each as a single block. The records' offsets of parameter blocks count from `params`,
    and `lanes` is the number of lanes where a record has none."""
    while entry.kernel != 0:
        size = max(entry.size, lanes)
        place = params + entry.params
        run(c, entry.kernel, entry.finish, place, size, size, 1, entry.times)
        entry = entry + ENTRY


# Functions that Python calls: `self` is a bytes object with the address of the control block,
# `arguments` the address of the `count` arguments.


def start(self: Word, arguments: Word, count: Word) -> Word:
    """Runs jobs in the calling thread, if nothing is queued; returns whether it did. The arguments
    are the address of `JobEntry` records, the bytes of parameter blocks, and the number of
    lanes."""
    c: objects.Control = word(self + objects.CONTENTS)
    idle = is_idle(c)
    if idle:
        entry: objects.JobEntry = call("i64(ptr)", c.integer, word(arguments))
        lanes = call("i64(ptr)", c.integer, word(arguments + 16))
        run_entries(c, entry, word(arguments + 8) + objects.CONTENTS, lanes)
    return call("i64(i64)", c.truth, idle)


def wait_for(c: objects.Control, ticket: Word, waiter: Word, microseconds: Word) -> Word:
    """Waits for a ticket, for at most about `microseconds`; returns 1 when it is complete."""
    seat = c.waiters[waiter]
    deadline = now(c) + c.spin
    while load(c.completed, "acquire") < ticket:
        if now(c) < deadline:
            relax(c)
        else:
            return wait_parked(c, seat, ticket, microseconds)
    return 1


def wait_parked(c: objects.Control, seat: objects.Seat, ticket: Word, microseconds: Word) -> Word:
    add(c.waiting, 1, "seq_cst")
    xchg(seat.state, ticket, "seq_cst")
    woken = 0
    if load(c.completed, "seq_cst") < ticket:
        woken = park(c, seat, microseconds)
    # Nobody wakes this thread any more, or somebody is about to.
    if not (woken or cas(seat.state, ticket, 0, "seq_cst", "seq_cst")):
        park(c, seat, -1)
    add(c.waiting, -1, "seq_cst")
    return load(c.completed, "acquire") >= ticket


def halt(c: objects.Control) -> Word:
    """Tells the workers to leave, between two blocks."""
    store(c.stop, 1, "seq_cst")
    wake(c, objects.WORKERS)

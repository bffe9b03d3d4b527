"""The launcher's code runs as Python, in threads: each block of each job is run once."""

import ctypes
import doctest
import threading
from collections import Counter

import native_stepping

from drjit.jit.cpu import launcher

KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)
FINISH = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)


def test_the_example():
    names = {"control_of": launcher.new_control, "ctypes": ctypes}
    assert doctest.testmod(native_stepping, extraglobs=names).failed == 0


def test_jobs_run_in_order_and_each_block_once():
    code = native_stepping.functions()
    control = launcher.new_control(2, 5, 1_000_000)
    c, seen, times = ctypes.addressof(control), [], launcher.Times()
    kernel = KERNEL(lambda params, begin, end, block, thread: seen.append((params, begin, end)))
    finish = FINISH(lambda params, blocks, threads: seen.append((params, "finish", blocks)))
    entry = launcher.JobEntry()
    entry.kernel, entry.finish = (ctypes.cast(f, ctypes.c_void_p).value for f in (kernel, finish))
    workers = [threading.Thread(target=code.work, args=(c,), daemon=True) for _ in range(3)]
    for worker in workers:
        worker.start()
    for number in range(3):
        job = (ctypes.addressof(entry), number, 95, 10, 2, ctypes.addressof(times))
        assert code.post(c, *job, 5 + number) == -1  # the ticket of another one
        ticket = code.post(c, *job, 6 + number)
        assert ticket == 6 + number
    assert code.wait_for(c, ticket, 0, 10_000_000)
    code.halt(c)
    for worker in workers:
        worker.join(10)
        assert not worker.is_alive()
    assert (control.entered, control.left) == (3, 3)  # the third left at once
    blocks = [(begin, min(begin + 10, 95)) for begin in range(0, 95, 10)]
    for number in range(3):
        assert [s[0] for s in seen].index(number) == 11 * number
        own = Counter(s[1:] for s in seen if s[0] == number)
        assert own == Counter([*blocks, ("finish", 10)])
        assert seen[11 * number + 10] == (number, "finish", 10)
    assert times.launches == 3 and control.completed == 8


def test_what_each_thread_does_of_a_job():
    code = native_stepping.functions()
    control, clock = launcher.new_control(2, 0, 1_000_000), launcher.Times()
    c, seen = ctypes.addressof(control), []
    kernel = KERNEL(lambda params, begin, end, block, thread: seen.append(thread))
    entry = launcher.JobEntry()
    entry.kernel = ctypes.cast(kernel, ctypes.c_void_p).value
    e = ctypes.addressof(entry)
    workers = [threading.Thread(target=code.work, args=(c,), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    times = [launcher.OwnTimes(ctypes.addressof(clock), 2) for _ in range(3)]
    for number, own in enumerate(times[:2], 1):
        assert code.post(c, e, 0, 1000, 10, 2, ctypes.addressof(own), number) == number
        assert code.wait_for(c, number, 0, 10_000_000)
    code.run(c, entry.kernel, 0, 0, 25, 10, 2, ctypes.addressof(times[2]))
    code.halt(c)
    for worker in workers:
        worker.join(10)
    for own in times:
        worked = [p for p in own.parts if p.first]
        assert own.start <= min(p.first for p in worked)
        assert own.end >= max(p.last for p in worked)
        assert all(0 < p.busy <= p.last - p.first for p in worked)
        assert own.launches == 1 and own.last == own.end - own.start
    assert [bool(p.first) for p in times[2].parts] == [False, False, True]
    assert not times[0].parts[2].first and not times[1].parts[2].first
    assert clock.launches == 3 and clock.total == sum(own.last for own in times)
    assert clock.last == times[2].last and len(seen) == 203


def test_a_job_in_the_calling_thread():
    code = native_stepping.functions()
    control = launcher.new_control(1, 0, 1000)
    seen = []
    kernel = KERNEL(lambda params, begin, end, block, thread: seen.append((begin, end, block)))
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    code.run(ctypes.addressof(control), address, 0, 0, 25, 10, 1, 0)
    assert seen == [(0, 10, 0), (10, 20, 1), (20, 25, 2)]


def test_a_closed_job_is_claimed_once_it_is_open():
    code = native_stepping.functions()
    control = launcher.new_control(1, 0, 1000)
    c, seen = ctypes.addressof(control), []
    kernel = KERNEL(lambda params, begin, end, block, thread: seen.append((params, begin, end)))
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    entry, other, compiled = (launcher.JobEntry() for _ in range(3))
    e, o = ctypes.addressof(entry), ctypes.addressof(other)
    compiled.kernel = address
    assert code.first_closed(c) == 0
    assert code.post(c, e, 7, 25, 10, 1, 0, 1) == 1
    assert code.post(c, ctypes.addressof(compiled), 8, 25, 10, 1, 0, 2) == 2
    assert code.post(c, o, 9, 25, 10, 1, 0, 3) == 3
    assert code.post(c, e, 10, 25, 10, 1, 0, 4) == 4
    assert code.claimable(c) == 0 and code.take(c, 1, 0, 0) == 0 and not seen
    assert code.first_closed(c) == 1
    code.open_jobs(c, e, address, 0)
    assert code.first_closed(c) == 3 and entry.kernel == address and not other.kernel
    assert code.claimable(c) == 3
    code.take(c, 1, 0, 0)
    assert control.completed == 1 and code.claimable(c) == 3
    code.take(c, 2, 0, 0)
    places = [(0, 10), (10, 20), (20, 25)]
    assert seen == [(params, *p) for params in (7, 8) for p in places]
    code.open_jobs(c, o, 0, 0)  # it could not be compiled
    code.take(c, 3, 0, 0)
    code.take(c, 4, 0, 0)
    assert control.completed == 4 and [s[0] for s in seen[6:]] == [10] * 3

"""A program for `test_concurrency`: what a finalizer may do happens at every call that the package
makes, one after the other, while the program computes; both get what they would get alone.

Python runs the collector, other threads and handlers of signals between any two calls, but a test
that waits for it sees few of these places. Its arguments are the distance between the calls in
question, and the number of the first one.
"""

import faulthandler
import gc
import os
import sys
import time
from itertools import count, cycle

import drjit as dr
from drjit.jit import collector
from drjit.llvm.ad import Float, UInt

STEP, FIRST = map(int, sys.argv[1:])
LIMIT = 500
faulthandler.dump_traceback_later(LIMIT, exit=True)
PACKAGE = os.path.dirname(dr.__file__)
N = 1000
x0 = dr.arange(Float, N) + 1
dr.make_opaque(x0)
kept = []  # what finalizers leave behind for a while


def check(found, want, what):
    found, want = [*found], [*want]
    close = [abs(f - w) <= 1e-3 * max(1, abs(w)) for f, w in zip(found, want, strict=True)]
    assert all(close), f"{what}: {found} instead of {want}"


@dr.freeze
def frozen(x):
    return x * 3 + dr.sum(x)


@dr.freeze
def updates(t, x):
    dr.scatter_add(t, x, dr.arange(UInt, dr.width(x)) % 3)
    return x * 2


def data(k, n):
    return dr.full(Float, k, n) + dr.opaque(Float, 0)


# ---- What finalizers do


def evaluates():
    check(dr.sum(x0 * 0.5), [0.25 * N * (N + 1)], "sum")


def scatters():
    t = dr.zeros(Float, 3)
    dr.scatter_add(t, Float(1), dr.arange(UInt, 30) % 3)
    check(t, [10] * 3, "scatter")


def differentiates():
    x = Float(2, 3)
    dr.enable_grad(x)
    dr.backward(dr.sum(x * x * x))
    check(x.grad, [12, 27], "gradient")


def freezes():
    check(frozen(data(2, 8)), [22] * 8, "frozen")


def prints():
    assert str(Float(1, 2) + 0) == "[1, 2]"


def loops():
    found = dr.while_loop((UInt(0, 1, 2),), lambda i: i < 10, lambda i: (i + 1,))
    check(found[0], [10] * 3, "loop")


def schedules():
    y = x0 * 7
    dr.schedule(y)
    kept.append(y)


def leaves_an_effect():
    t = dr.zeros(Float, 4)
    dr.scatter(t, Float(5), UInt(2))
    kept.append(t)


def collects():
    gc.collect()


FINALIZERS = cycle([
    evaluates, scatters, differentiates, freezes, prints, loops, schedules, leaves_an_effect,
    collects,
])  # fmt: skip


# ---- What the program does, for a number


def a_known_program(k):
    a = x0 * float(k) + 1.0
    b = dr.sin(x0 * 0) + a
    dr.eval(a, b)
    check((a[1], b[2]), (2 * k + 1, 3 * k + 1), "two values")


def a_new_program(k):
    y, want = x0, 1.0
    for i in range(6):
        y, want = (y * 0.5 + i, want * 0.5 + i) if k >> i & 1 else (y + x0 * i, want + i)
    check((y[0],), (want,), "chain")


def side_effects(k):
    t, i = dr.zeros(Float, 5), dr.arange(UInt, N) % 5
    dr.scatter_add(t, x0, i)
    dr.scatter(t, Float(k), UInt(4))
    before = t * 2
    dr.scatter_add(t, Float(1), UInt(0))
    total = dr.sum(t)
    want = [sum(range(1 + r, N + 1, 5)) for r in range(4)] + [k]
    check(before, [2 * w for w in want], "before")
    want[0] += 1
    check(t, want, "target")
    check(total, [sum(want)], "total")


def gradients(k):
    x = x0 * 1
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.gather(Float, x * x * float(k), UInt(1, 1, 2))))
    g = x.grad
    check((g[0], g[1], g[2]), (0, 8 * k, 6 * k), "gradient")


def tangents(k):
    x = Float(k)
    dr.enable_grad(x)
    y = x * x * x0
    dr.forward(x)
    check((dr.grad(y)[1],), (4 * k,), "tangent")


def replays(k):
    check(frozen(data(k, 16)), [19 * k] * 16, "frozen")
    t = dr.zeros(Float, 3)
    check(updates(t, data(k, 9)), [2 * k] * 9, "frozen result")
    check(t, [3 * k] * 3, "frozen target")


def recordings(k):
    def f(t, x):
        dr.scatter_add(t, x, dr.arange(UInt, dr.width(x)) % 3)
        return x * 2 + dr.sum(x)

    again = dr.freeze(f)
    for _ in range(2):
        t = dr.zeros(Float, 3)
        check(again(t, data(k, 9)), [11 * k] * 9, "recorded result")
        check(t, [3 * k] * 3, "recorded target")


def symbolic_loops(k):
    x, t = Float(1, 2, 3), dr.zeros(Float, 2)
    dr.enable_grad(x)

    def body(i, y):
        dr.scatter_add(t, dr.detach(y), i & 1)
        return i + 1, y * x

    _, y = dr.while_loop((UInt(0, 0, 0), x * 1), lambda i, y: i < 3, body)
    check(y, [1, 16, 81], "loop")
    check(t, [6 + 36, 14], "target of a loop")
    dr.backward(dr.sum(y))
    check(x.grad, [4, 32, 108], "gradient of a loop")


def calls(k):
    x = Float(1, 2, 3, 4)
    dr.enable_grad(x)
    y = dr.switch(UInt(0, 1, 0, 1), [lambda x: x * x, lambda x: x * x * x], x)
    dr.backward(dr.sum(y))
    check(y, [1, 8, 9, 64], "call")
    check(x.grad, [2, 12, 6, 48], "gradient of a call")


def branches(k):
    a = dr.arange(Float, 8) * float(k)
    found = dr.if_stmt((a,), a < 4 * k, lambda a: a + 1, lambda a: a - 1)
    check(found, [j * k + (1 if j < 4 else -1) for j in range(8)], "branch")


def several_kernels(k):
    a = x0 * float(k)
    b = a / dr.sum(a)
    largest, sums = dr.max(b), dr.cumsum(b)
    dr.eval(b, largest, sums)
    check((largest[0], sums[N - 1]), (2 / (N + 1), 1), "stages")


def conversions(k):
    assert str(dr.arange(Float, 3) * k) == f"[0, {k}, {2 * k}]"
    a = (x0 * k).numpy()
    b = Float(a)
    b += 1
    check((a[0], a[10], b[0]), (k, 11 * k, k + 1), "arrays of NumPy")


PROGRAMS = [
    a_known_program, a_new_program, side_effects, gradients, tangents, replays, recordings,
    symbolic_loops, calls, branches, several_kernels, conversions,
]  # fmt: skip


def perform(program, k, number, finalizer):
    """Runs a program, and the finalizer at the call with a number; returns where that was, if the
    program makes so many calls, and whether the collector was paused there each time."""
    place, paused = None, False

    def at_a_call(frame, event, argument):
        nonlocal number, place, paused
        file = frame.f_code.co_filename
        if event in ("call", "c_return") and file.startswith(PACKAGE):
            number -= 1
            if number < 0:
                paused = bool(collector.pauses)
                if not paused:
                    sys.setprofile(None)
                    place = f"{file[len(PACKAGE) + 1 :]}:{frame.f_lineno}"
                    finalizer()

    sys.setprofile(at_a_call)
    try:
        program(k)
    except BaseException as error:
        error.add_note(f"{program.__name__}({k}), {finalizer.__name__}() at {place}")
        raise
    finally:
        sys.setprofile(None)
    return place, paused


for program in PROGRAMS:
    for k in (1, 2, 3):
        program(k)
places = 0
for program in PROGRAMS:
    for number in count(FIRST, STEP):
        finalizer = next(FINALIZERS)
        for _ in range(5):
            place, paused = perform(program, number % 29 + 1, number, finalizer)
            if place or not paused:
                break
            time.sleep(0.05)  # another thread writes or compiles
        del kept[:-3]
        if place is None:
            break
        places += 1
print("ok", places)

"""A program for `test_concurrency`: threads trace new kernels, while finalizers of reference cycles
evaluate, differentiate, print, and call frozen functions wherever the collector happens to run.

Its arguments are the seconds for which it runs, how many more it may take before it is stuck, and
how many children it makes meanwhile, which compute as well.
"""

import faulthandler
import gc
import os
import signal
import sys
import threading
import time

import drjit as dr
from drjit.llvm.ad import Float, UInt

SECONDS, LIMIT, CHILDREN = map(int, sys.argv[1:])
THREADS = 4
faulthandler.dump_traceback_later(SECONDS + LIMIT, exit=True)
errors: list[str] = []
counts = {"kernels": 0, "finalizers": 0}


def note(unraisable):
    errors.append(f"{unraisable.object}: {unraisable.exc_value!r}")


sys.unraisablehook = note


@dr.freeze
def frozen(x):
    return x * 3 + dr.sum(x)


def check(found, want, what):
    if abs(found - want) > 1e-3 * max(1, abs(want)):
        errors.append(f"{what}: {found} instead of {want}")


class Evaluates:
    def act(self):
        check(dr.sum(self.x * 0.5)[0], self.n * 0.5 * self.k, "sum")


class Differentiates:
    def act(self):
        x = dr.detach(self.x)
        dr.enable_grad(x)
        dr.backward(dr.sum(x * x * x))
        check(x.grad[0], 3 * self.k**2, "derivative")


class Scatters:
    def act(self):
        target = dr.zeros(Float, 3)
        dr.scatter_add(target, self.x, dr.arange(UInt, self.n) % 3)
        check(dr.sum(target)[0], self.n * self.k, "scatter")


class Prints:
    def act(self):
        check(float(str(self.x[:3]).strip("[]").split(",")[0]), self.k, "print")


class Freezes:
    def act(self):
        check(frozen(self.x)[0], 3 * self.k + self.n * self.k, "frozen")


def finalized(kind):
    def __init__(self, n, k):
        self.n, self.k, self.me = n, k, self
        self.x = dr.full(Float, k, n) + dr.opaque(Float, 0)

    def __del__(self):
        counts["finalizers"] += 1
        self.act()

    return type(kind.__name__, (kind,), {"__init__": __init__, "__del__": __del__})


KINDS = [finalized(c) for c in (Evaluates, Differentiates, Scatters, Prints, Freezes)]


def work(number):
    try:
        k = 0
        while time.monotonic() < end:
            k += 1
            for j, kind in enumerate(KINDS):
                kind(64 + (k + j) % 5, number + 1)
            many = k % 3 == number == 0  # so much that launches wait for the queue
            x = y = dr.arange(Float, 400_000 if many else 100 + number)
            want = 7.0
            for i in range(k % 41 + 5):  # a new kernel most of the time
                if (k >> i % 11) & 1:
                    y, want = y * 0.5 + float(number), want * 0.5 + number
                else:
                    y, want = y + x * float(k % 11), want + 7.0 * (k % 11)
            check(y[7], want, "value")
            counts["kernels"] += 1
            if k % 5 == 0:
                check(frozen(dr.full(Float, k, 16) + dr.opaque(Float, 0))[0], 19 * k, "frozen")
            if k % 7 == 0:
                z = dr.full(Float, 2, 10)
                dr.enable_grad(z)
                dr.backward(dr.sin(z * float(k)) * y[0])
    except BaseException as error:
        errors.append(repr(error))
        raise


gc.set_threshold(10)
end = time.monotonic() + SECONDS
threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
for t in threads:
    t.start()
for number in range(CHILDREN):
    time.sleep(SECONDS / (CHILDREN + 1))
    if time.monotonic() > end:
        break
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        found = [dr.sum(dr.arange(Float, 100) * float(number) + j)[0] for j in (0, 1, 2)]
        os._exit(0 if found == [4950 * number + 100 * j for j in (0, 1, 2)] else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        errors.append(f"a child ended with {status}")
for t in threads:
    t.join()
gc.set_threshold(700)
dr.sync_thread()
print(*errors[:20], sep="\n", file=sys.stderr)
print("ok" if not errors and min(counts.values()) > 10 else f"failed {len(errors)}", counts)

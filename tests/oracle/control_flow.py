# ruff: noqa: E501, F403, F405
"""Loops, branches, and functions with `@dr.syntax`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from dataclasses import dataclass
from typing import ClassVar

from _cases import cases

import drjit as dr
from drjit.llvm.ad import *

NAN = float("nan")


@dataclass
class P:
    """A structure."""

    x: Float = 0
    k: int = 0


class S:
    """A structure with a table."""

    DRJIT_STRUCT: ClassVar = {"a": Float, "b": UInt}

    def __init__(self):
        self.a, self.b = Float(0), UInt(0)


def i5():
    return UInt(0, 1, 2, 3, 4)


def W(state, cond, body, **k):
    """The result in all modes."""
    found = []
    for mode in (None, "evaluated", "symbolic"):
        s = dr.copy(state)
        found.append(dr.while_loop(s, cond, body, mode=mode, **k))
    return found


def I(args, cond, a, b, **k):  # noqa: E743
    """The result in all modes."""
    return [
        dr.if_stmt(dr.copy(args), cond, a, b, mode=m, **k) for m in (None, "evaluated", "symbolic")
    ]


def grads(f, *values):
    """The value, gradients in reverse mode, and tangents, in both modes."""
    found = []
    for mode in ("evaluated", "symbolic"):
        x = [Float(v) for v in values]
        dr.enable_grad(x)
        y = f(mode, *x)
        found.append(dr.detach(y))
        dr.backward(y)
        found.append(dr.grad(x))
        x = [Float(v) for v in values]
        dr.enable_grad(x)
        y = f(mode, *x)
        dr.set_grad(x, 1)
        found.append(dr.forward_to(y))
    return found


@dr.syntax
def collatz(n):
    k = UInt(0)
    while n > 1:
        if n & 1 == 0:
            n = n >> 1
        else:
            n = 3 * n + 1
        k += 1
    return k


@dr.syntax
def chain(n):
    if n < 2:
        y = n + 1
    elif n < 4:
        z = n * 2
        y = z + 1
    else:
        y = n * 10
    return y


@dr.syntax
def nested(n):
    total, i = UInt(0), UInt(0)
    while i < n:
        j = UInt(0)
        while j < i:
            if (i + j) % 2 == 0:
                total += j
            j += 1
        i += 1
    return total, i


@dr.syntax
def hinted(n, mode, label):
    while dr.hint(n < 7, mode=mode, label=label, strict=False):
        n += 1
    return n


@dr.syntax
def scalars(n):
    if dr.hint(n is None, mode="scalar"):
        return 0
    while dr.hint(n < 5, mode="scalar"):
        n += 1
        if dr.hint(n == 3, mode="scalar"):
            break
    return n


@dr.syntax
def entries(n):
    a, b = Array2f(0), [Float(0)]
    while n < 5:
        a.x += 1
        a[1] += 2
        b[0] += 1
        n += 1
    return a, b


@dr.syntax
def over_range(n, m):
    y = UInt(0)
    for i in range(m):
        if n > i:
            y += i
    for x in [n, n + 1]:
        y += x
    return y, i


@dr.syntax
def one_branch(n):
    if n < 3:
        y = n
    return y


@dr.syntax
def series(x, n):
    y, i = Float(0), UInt(0)
    while dr.hint(i < n, max_iterations=-1):
        y += dr.sin(x * Float(i))
        i += 1
    return y


@dr.syntax
def histogram(n):
    h, i = dr.zeros(UInt, 6), UInt(0)
    while i < n:
        dr.scatter_add(h, UInt(1), i)
        i += 1
    return h


cases(
    """
## while_loop
W((i5(),), lambda i: i < 3, lambda i: (i + 1,))
W((UInt(0, 1), Float(2)), lambda i, x: i < 3, lambda i, x: (i + 1, x * 2))
W((UInt(0, 1), Float(1), Float(2)), lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a))
W((UInt(0, 1), 5, "a", None, NAN), lambda i, *_: i < 3, lambda i, *r: (i + 1, *r))
W((UInt(0, 1), Float(1, 2, 3)), lambda i, x: i < 3, lambda i, x: (i + 1, x))
W((UInt(0, 1), [Float(1), {"a": UInt(5)}]), lambda i, x: i < 3, lambda i, x: (i + 1, [x[0] * 2, {"a": x[1]["a"] + 1}]))
W((UInt(0, 1), P(Float(1), 3)), lambda i, p: i < 3, lambda i, p: (i + 1, P(p.x * 2, p.k)))[1][1].x
W((UInt(0, 1), ArrayXf([1, 2], [3, 4])), lambda i, x: i < 3, lambda i, x: (i + 1, x * 2))
W((UInt(0, 1, 2, 3), TensorXf([1, 2, 3, 4], (2, 2))), lambda i, x: i < 3, lambda i, x: (i + 1, x * 2))
W((TensorXf([1, 2, 3, 4], (2, 2)),), lambda x: x < 5, lambda x: (x * 2,))
W((UInt(5),), lambda i: i < 3, lambda i: (i + 1,))
dr.while_loop((0,), lambda i: i < 3, lambda i: (i + 1,))
dr.while_loop((UInt(0),), lambda i: i < 3, lambda i: (i + 1,), mode="scalar")
dr.while_loop((UInt(0, 1),), lambda i: i < 3, lambda i: (i + 1,), mode="scalar")
dr.while_loop((0,), lambda i: i < 3, lambda i: (i + 1,), mode="evaluated")
dr.while_loop((0,), lambda i: i < 3, lambda i: (i + 1,), mode="symbolic")
dr.while_loop((0,), lambda i: i < 3, lambda i: (i + 1,), mode="other")
dr.while_loop((i5(), i5()), lambda i, n: i < n, lambda i, n: (i + 1, n), ("i", "n"), "loop", "evaluated", True, False, 7)
dr.while_loop((UInt(0, 1),), lambda i: i < 30, lambda i: (i + 1,), max_iterations=3)
dr.while_loop((UInt(0, 1),), lambda i: i < 30, lambda i: (i + 1,), max_iterations=-2)
dr.while_loop([UInt(0)], lambda i: i < 3, lambda i: (i + 1,))
dr.while_loop((UInt(0),), lambda i: i < 3, lambda i: i + 1)
dr.while_loop((UInt(0),), lambda i: i < 3, lambda i: [i + 1])
dr.while_loop((UInt(0),), lambda i: i < 3, lambda i: (i, i))
dr.while_loop((UInt(0),), lambda i: i, lambda i: (i + 1,))
dr.while_loop((UInt(0),), lambda i: None, lambda i: (i + 1,))
dr.while_loop((Array2f(0, 1),), lambda i: i < 3, lambda i: (i + 1,))
dr.while_loop((UInt(0),), lambda i: i < 3, lambda i: (Float(i + 1),))
dr.while_loop((UInt(0), 0), lambda i, x: i < 3, lambda i, x: (i + 1, x + 1))
dr.while_loop((UInt(0), 0.0), lambda i, x: i < 3, lambda i, x: (i + 1, x + Float(1)))
dr.while_loop((UInt(0), 0.0), lambda i, x: i < 3, lambda i, x: (i + 1, x + Float(1)), strict=False)
dr.while_loop((UInt(0), Float(0)), lambda i, x: i < 3, lambda i, x: (i + 1, 1.0))
dr.while_loop((UInt(0), [Float(0)]), lambda i, x: i < 3, lambda i, x: (i + 1, (Float(0),)))
dr.while_loop((UInt(0), [Float(0)]), lambda i, x: i < 3, lambda i, x: (i + 1, [Float(0), Float(0)]))
dr.while_loop((UInt(0), None), lambda i, x: i < 3, lambda i, x: (i + 1, Float(0)))
dr.while_loop((UInt(0, 1), Float()), lambda i, x: i < 3, lambda i, x: (i + 1, x))
dr.while_loop((UInt(0, 1), P(Float(1), 3)), lambda i, p: i < 3, lambda i, p: (i + 1, P(p.x, p.k + 1)))
dr.while_loop((UInt(0, 1), 0), lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), mode="evaluated", strict=False)
dr.while_loop((UInt(0, 1), 0), lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), mode="symbolic", strict=False)
dr.while_loop((UInt(0, 1), 0), lambda i, x: i < 3, lambda i, x: (i + 1, x), labels=("i",))

## in-place changes
x = [Float(1)]; r = dr.while_loop((UInt(0), x), lambda i, x: i < 3, lambda i, x: (i + 1, [x[0] * 2])); x, r[1]
x = UInt(0, 1); r = dr.while_loop((x,), lambda i: i < 3, lambda i: (i.__iadd__(1),)); x, r, r[0] is x
x = Float(1, 2); r = dr.while_loop((UInt(0), x, x), lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a + 1, b + 2)); x, r

## if_stmt
I((i5(),), i5() < 3, lambda i: i + 10, lambda i: i)
I((i5(), Float(3)), i5() < 3, lambda i, x: (x, i), lambda i, x: (Float(i), i))
I((i5(),), i5() < 3, lambda i: Float(1), lambda i: Float(2))
I((Float(1, 2, 3), i5()), i5() < 2, lambda f, i: f, lambda f, i: f)
I((UInt(1, 2),), Bool(True), lambda i: i + 1, lambda i: i + 2)
I((UInt(1, 2),), Bool(True, False), lambda i: {"a": [i]}, lambda i: {"a": [i * 2]})
I((UInt(1, 2),), Bool(True, False), lambda i: None, lambda i: None)
I((UInt(1, 2),), Bool(True, False), lambda i: 5, lambda i: 5)
I((TensorXf([1, 2, 3, 4], (2, 2)),), TensorXb([True, False, True, False], (2, 2)), lambda x: x + 1, lambda x: x * 10)
I((P(Float(1, 2), 3),), Bool(True, False), lambda p: P(p.x + 1, p.k), lambda p: p)[0].x
dr.if_stmt((1,), True, lambda i: i + 10, lambda i: i - 10)
dr.if_stmt((1,), False, lambda i: i + 10, lambda i: i - 10)
dr.if_stmt((1,), True, lambda i: i + 10, lambda i: i - 10, mode="symbolic")
dr.if_stmt((1,), True, lambda i: i, lambda i: i, mode="other")
dr.if_stmt((UInt(1),), UInt(1) < 3, lambda i: i + 10, lambda i: i, mode="scalar")
dr.if_stmt((i5(),), i5() < 3, lambda i: i, lambda i: i, mode="scalar")
dr.if_stmt([i5()], i5() < 3, lambda i: i, lambda i: i)
dr.if_stmt((i5(),), i5(), lambda i: i, lambda i: i)
dr.if_stmt((i5(),), [True], lambda i: i, lambda i: i)
dr.if_stmt((i5(),), Array2f(1) > 0, lambda i: i, lambda i: i)
dr.if_stmt((i5(),), i5() < 3, lambda i: i, lambda i: Float(i))
dr.if_stmt((i5(),), i5() < 3, lambda i: 1, lambda i: i)
dr.if_stmt((i5(),), i5() < 3, lambda i: 1, lambda i: i, strict=False)
dr.if_stmt((i5(),), i5() < 3, lambda i: 1, lambda i: 2)
dr.if_stmt((i5(),), i5() < 3, lambda i: 1, lambda i: 2, strict=False)
dr.if_stmt((i5(),), i5() < 3, lambda i: (i,), lambda i: (i, i))
dr.if_stmt((i5(),), i5() < 3, lambda i: Float(1, 2), lambda i: Float(2, 3))
dr.if_stmt((i5(),), i5() < 3, lambda i: Float(1, 2), lambda i: Float(2, 3, 4))
dr.if_stmt((i5(), Float()), i5() < 3, lambda i, x: i, lambda i, x: i)
dr.if_stmt((i5(),), i5() < 3, lambda i: Float(), lambda i: Float(1))
dr.if_stmt((i5(),), i5() < 3, lambda i: i, lambda i: i, ("a", "b"))
dr.if_stmt((i5(),), i5() < 3, lambda i: i, lambda i: i, (), ("a",))
dr.if_stmt((i5(),), i5() < 3, lambda i: (i, i), lambda i: (i, i), ("a",), ("a", "b"))
a = dr.zeros(UInt, 5); r = I((i5(),), i5() < 2, lambda i: (dr.scatter_add(a, i + 1, i), i)[1], lambda i: i); a
x = [i5()]; r = dr.if_stmt((x,), i5() < 2, lambda x: [x[0] + 1], lambda x: x); x, r

## syntax
collatz(UInt(1, 2, 3, 7, 27)), collatz(7)
chain(UInt(0, 1, 2, 3, 4, 5)), chain(1), chain(3), chain(9)
nested(UInt(0, 1, 5, 9)), nested(5)
entries(UInt(1, 4, 7))
over_range(UInt(0, 1, 5), 3)
over_range(UInt(0, 1, 5), UInt(3, 4))
scalars(None), scalars(1), scalars(4)
scalars(UInt(1)), scalars(UInt(4))
scalars(UInt(1, 2))
hinted(UInt(1, 9), "evaluated", "loop"), hinted(UInt(1, 9), "symbolic", None), hinted(UInt(1, 9), None, "x")
hinted(UInt(1, 9), "other", None)
one_branch(UInt(1, 5))
histogram(UInt(0, 3, 5))
dr.hint(5), dr.hint(5, mode="scalar", max_iterations=3, label="a", strict=False, include=[1], exclude=[2])
dr.hint(5, speed=3)
collatz.__name__, collatz.__doc__

## derivatives
grads(lambda m, x: dr.while_loop((UInt(0), Float(1), x), lambda i, y, x: i < 3, lambda i, y, x: (i + 1, y * x, x), mode=m, max_iterations=5)[1], [1, 2, 3])
grads(lambda m, x: dr.while_loop((UInt(0), Float(0), x), lambda i, y, x: i < 3, lambda i, y, x: (i + 1, y + x * x * Float(i), x), mode=m, max_iterations=-1)[1], [1, 2, 3])
grads(lambda m, x: dr.while_loop((UInt(0), Float(0)), lambda i, y: i < 3, lambda i, y: (i + 1, y + x * Float(i)), mode=m, max_iterations=-1)[1], [1, 2, 3])
grads(lambda m, x: dr.while_loop((UInt(0), x), lambda i, x: x < 20, lambda i, x: (i + 1, x * x + 1), mode=m, max_iterations=9)[1], [0.5, 1, 2])
grads(lambda m, x, y: dr.while_loop((UInt(0), x, y), lambda i, x, y: i < 3, lambda i, x, y: (i + 1, y, x * y), mode=m, max_iterations=9)[2], [1, 2], [3, 4])
grads(lambda m, x: dr.if_stmt((x,), x > 1.5, lambda x: x * x, lambda x: x * 3, mode=m), [1, 2, 3])
grads(lambda m, x: dr.if_stmt((), x > 1.5, lambda: x * x, lambda: x * 3, mode=m), [1, 2, 3])
grads(lambda m, x: dr.if_stmt((x,), x > 0, lambda x: dr.sqrt(x), lambda x: x * 3, mode=m), [0, 4, 9])
grads(lambda m, x: series(x, 5), [1, 2, 3])
x = Float(1, 2); dr.enable_grad(x); y = dr.while_loop((UInt(0), x), lambda i, x: i < 3, lambda i, x: (i + 1, x * x), max_iterations=-1)[1]; dr.backward(y)
""",
    globals(),
)

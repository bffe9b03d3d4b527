# ruff: noqa: B007, B023, E731, E741, F401, F403, F405, RUF012
"""What programs rely on: gradients, loops, branches, frozen functions, and optimizers."""

import os
import sys
import warnings

import numpy as np

import drjit as dr

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contextlib
import dataclasses
import functools
import io

from _cases import check

import drjit.nn as nn
import drjit.opt as opt
from drjit.llvm import ad
from drjit.llvm.ad import *

warnings.simplefilter("ignore")

F = Float


def en(*a):
    dr.enable_grad(*a)
    return a[0] if len(a) == 1 else a


def default_gradients(k):
    a, b = en(F(1, 2), F(3, 4))
    v = Array2f(a * 2, b * 3)
    if k == 1:
        dr.set_grad(v.x, 0)
    if k == 2:
        dr.set_grad(v.x, 5)
    if k == 3:
        dr.set_grad(v, dr.zeros(Array2f, 2))
    if k == 4:
        g = dr.opaque(Float, 0, 2)
        dr.set_grad(v, Array2f(g, g))
    dr.backward_from(v)
    return a.grad, b.grad


for k in range(5):
    check(f"default gradients {k}", lambda: default_gradients(k))


def gradients_within_bodies(mode, kind, how):
    x = en(F(0.0, 1, 2, 3, 4) if kind != "one" else F(1))
    y = x * 2

    def tr(y):
        z = y * 2
        if how == "backward":
            dr.backward(z)
        elif how == "from":
            dr.backward_from(z)
        return y

    i = dr.arange(UInt, 5)
    if kind in ("if", "one"):
        dr.if_stmt((y,), i < 2, tr, lambda y: y, mode=mode)
    elif kind == "both":

        def tf(y):
            dr.backward(y * 3)
            return y

        dr.if_stmt((y,), i < 2, tr, tf, mode=mode)
    elif kind == "loop":
        dr.while_loop((UInt(0), y), lambda i, y: i < 2, lambda i, y: (i + 1, tr(y)), mode=mode)
    elif kind == "gather":

        def tg(y):
            dr.backward(dr.gather(F, y, i) * 2)
            return y

        def tg2(y):
            dr.backward(dr.gather(F, y, i) * 3)
            return y

        dr.if_stmt((y,), i < 2, tg, tg2, mode=mode)
    return x.grad


for mode in ("symbolic", "evaluated"):
    for kind in ("if", "one", "loop", "both", "gather"):
        for how in ("backward", "from"):
            check(
                f"gradients within bodies {mode} {kind} {how}",
                lambda: gradients_within_bodies(mode, kind, how),
            )


def shared_components(k):
    a = en(F(1))
    b = en(F(2))
    if k == 0:
        dr.backward(Array3f(a))
        return a.grad
    if k == 1:
        dr.set_grad(Array3f(b, b, b), Array3f(1, 2, 3))
        return b.grad
    if k == 2:
        dr.forward(Array3f(a))
        return a.grad
    if k == 3:
        dr.backward(Matrix2f(a))
        return a.grad
    if k == 4:
        v = Array3f(a)
        dr.set_grad(v, Array3f(1, 2, 3))
        dr.backward_from(v)
        return a.grad
    if k == 5:
        dr.accum_grad(Array3f(b, b, b), Array3f(1, 2, 3))
        return b.grad


for k in range(6):
    check(f"shared components {k}", lambda: shared_components(k))


def widened_tensors(mode, sh, k):
    z = dr.full(TensorXf, 2, sh)
    c = dr.arange(UInt, 7) < 3
    if k == "if":
        return (lambda r: (r.shape, r))(
            dr.if_stmt((z,), c, lambda z: z + 1, lambda z: z - 1, mode=mode)
        )
    return (lambda r: (r.shape, r))(
        dr.while_loop(
            (dr.arange(UInt, 7), z), lambda i, z: i < 3, lambda i, z: (i + 1, z * 2), mode=mode
        )[1]
    )


for mode in ("symbolic", "evaluated"):
    for sh in ((), (1,), (7,), (1, 1)):
        for k in ("if", "loop"):
            check(f"widened tensors {mode} {sh} {k}", lambda: widened_tensors(mode, sh, k))


class S:
    DRJIT_STRUCT = {"a": Float, "b": Float}

    def __init__(self, a=None, b=None):
        self.a, self.b = a, b


def entries_bound_in_branches(mode, k, which=3):
    z = F(5)
    l = {"list": [z, F(0)], "dict": {0: z, 1: F(0)}, "same": [z, z]}[k]

    def tb(l):
        if which & 1:
            l[0] = l[0] + 1
        return l

    def fb(l):
        if which & 2:
            l[0] = l[0] - 1
        return l

    dr.if_stmt((l,), Bool(True, False), tb, fb, mode=mode)
    return l, z


for mode in ("symbolic", "evaluated"):
    for k in ("list", "dict", "same"):
        for w in (1, 2, 3):
            check(
                f"entries bound in branches {mode} {k} {w}",
                lambda: entries_bound_in_branches(mode, k, w),
            )


@dr.syntax
def of_in_place_operators(x, c):
    if c:
        x -= 1
    return 0


@dr.syntax
def in_place_operators_again(x, c):
    if c:
        x[0] -= 1
    return 0


@dr.syntax
def in_place_operators_in_a_loop(x, i):
    while i < 3:
        x += 1
        i += 1
    return 0


def run7(f, x, *a):
    f(x, *a)
    return x


for mk in (
    lambda: F(1, 2),
    lambda: Array2f([1, 2], [3, 4]),
    lambda: TensorXf([1, 2]),
    lambda: Int(1, 2),
):
    check(
        f"in-place operators {type(mk()).__name__}",
        lambda: run7(of_in_place_operators, mk(), Bool(True, False)),
    )
check(
    "in-place operators b",
    lambda: run7(in_place_operators_again, Array2f([1, 2], 3), Bool(True, False)),
)
check("in-place operators c", lambda: run7(in_place_operators_in_a_loop, F(1, 2), UInt(0, 1)))


def of_isolate_grad(k):
    a = en(F(2))
    dr.set_grad(a, 1)
    o = a * 2
    with dr.isolate_grad():
        b = (a if k == 0 else o) * a if k != 2 else o * 3
        r = dr.forward_to(b)
    return r


for k in range(3):
    check(f"isolate_grad {k}", lambda: of_isolate_grad(k))


class Op(dr.CustomOp):
    def eval(self, x, v):
        self.x, self.v = x, v
        return x * v

    def forward(self):
        Op.seen = dr.grad_enabled(self.v)
        self.set_grad_out(self.grad_in("x") * self.v + self.x * self.grad_in("v"))

    def backward(self):
        Op.seen = dr.grad_enabled(self.v)
        g = self.grad_out()
        self.set_grad_in("x", g * self.v)
        self.set_grad_in("v", g * self.x)


def suspended_custom_operations(mode):
    x, v = en(F(2), F(3))
    with dr.suspend_grad(v):
        y = dr.custom(Op, x, v)
    if mode:
        dr.backward(y)
        return x.grad, v.grad
    dr.set_grad(x, 1)
    dr.set_grad(v, 1)
    dr.forward_to(y)
    return y.grad


check("suspended custom operations b", lambda: suspended_custom_operations(1))
check("suspended custom operations f", lambda: suspended_custom_operations(0))


def repeated_tangents(add):
    x = en(F(1))
    t_ = dr.zeros(F, 1)
    out = []
    (dr.scatter_add if add else dr.scatter)(t_, x * 1, UInt(0))
    for _ in range(2):
        dr.set_grad(x, 1)
        dr.forward_from(x, dr.ADFlag.ClearVertices)
        out.append(str(t_.grad))
    return out


check("repeated tangents ", lambda: repeated_tangents(0))
check("repeated tangents add", lambda: repeated_tangents(1))


def tangents_of_extrema(op, v):
    x, y = en(F(v), F(1.0))
    dr.set_grad(x, F(10.0, 100, 1000))
    dr.set_grad(y, F(0.1))
    tg = F(y)
    dr.scatter_reduce(op, tg, x, UInt(0, 0, 0))
    dr.forward_to(tg)
    return tg, tg.grad


for v in ([1.5, 2, 2], [2.0, 2, 2], [0.5, 0.75, 0.5]):
    for op in (dr.ReduceOp.Max, dr.ReduceOp.Min):
        check(f"tangents of extrema {op} {v}", lambda: tangents_of_extrema(op, v))


def of_resume_grad():
    a, d = en(F(1)), F(1)
    with dr.suspend_grad():
        with dr.resume_grad(a):
            dr.enable_grad(d)
            i = dr.grad_enabled(d)
    return i, dr.grad_enabled(d)


check("resume_grad ", of_resume_grad)


@dr.syntax
def of_hint(i):
    while dr.hint(i < 3, compress=True):
        i += 1
    return i


check("hint ", lambda: of_hint(UInt(0, 5)))
check("Dynamic ", lambda: dr.Dynamic)


def flags_within_recordings(flag, outer, inner):
    with dr.scoped_set_flag(flag, True):

        def body(i, x):
            with dr.scoped_set_flag(flag, False):
                if inner == "loop":
                    x = dr.while_loop((x,), lambda x: x < 10, lambda x: (x + 3,))[0]
                elif inner == "if":
                    x = dr.if_stmt((x,), x > 3, lambda x: x + 1, lambda x: x + 2)
                else:
                    x = dr.switch(UInt(x) & 1, [lambda x: x + 1, lambda x: x + 2], x)
            return i + 1, x

        return dr.while_loop((UInt(0), F(1, 5)), lambda i, x: i < 2, body)[1]


for fl, inner in (
    ("SymbolicLoops", "loop"),
    ("SymbolicConditionals", "if"),
    ("SymbolicCalls", "call"),
):
    check(
        f"flags within recordings {fl}",
        lambda: flags_within_recordings(getattr(dr.JitFlag, fl), "", inner),
    )


@dr.syntax
def targets_in_loops(i, tgt):
    while i < 3:
        dr.scatter_add(tgt, F(1), UInt(0, 1, 2) * i)
        i += 1
    return i, tgt


check("targets in loops ", lambda: targets_in_loops(UInt(0), dr.zeros(F, 5)))
check("cooperative vectors of iterables ", lambda: list(nn.CoopVec(F(i) for i in range(3))))
check("cooperative vectors of iterables m", lambda: list(nn.CoopVec(map(F, [1, 2]))))


def flags_by_position(f, *a):
    x = en(F(2))
    y = x * x
    if f == "f":
        dr.set_grad(x, 1)
        return dr.forward_to(y, *a)
    dr.set_grad(y, 1)
    return dr.backward_to(x, *a)


for f in "fb":
    check(f"flags by position {f}", lambda: flags_by_position(f, dr.ADFlag.Default))
    check(f"flags by position {f} 2", lambda: flags_by_position(f, F(1), dr.ADFlag.Default))
    check(f"flags by position {f}3", lambda: flags_by_position(f, F(1)))


class Op2(dr.CustomOp):
    def eval(self, *args, **kwargs):
        self.k = list(kwargs)
        return args[0] * kwargs["u"]

    def forward(self):
        self.set_grad_out(self.grad_in("args")[0] + self.grad_in("kwargs")["u"])

    def backward(self):
        self.set_grad_in("args", (self.grad_out() * 2,))
        self.set_grad_in("kwargs", {"u": self.grad_out() * 3})


def arguments_of_custom_operations(m):
    x, u = en(F(2), F(3))
    y = dr.custom(Op2, x, u=u)
    if m:
        dr.backward(y)
        return x.grad, u.grad
    dr.set_grad(x, 5)
    dr.set_grad(u, 7)
    return dr.forward_to(y)


check("arguments of custom operations ", lambda: arguments_of_custom_operations(0))
check("arguments of custom operations b", lambda: arguments_of_custom_operations(1))
for a in (
    "F(1,2), [[1,2]]",
    "F(1,2), ([1,2],)",
    "F(1,2), [F(1,2)]",
    "F(1,2), np.array([[1.,2]])",
    "[1,2], [[1,2]]",
    "[1,2],[[1,2],[1,2]]",
    "F(1,2), [[1,3]]",
):
    check("allclose " + a, lambda: eval(f"dr.allclose({a})"))


def state_of_optimizers(o, n=1):
    o["x"] = F(1, 2)
    for _ in range(n):
        dr.backward(dr.sum(o["x"] * F(1, 2)))
        o.step()
    st = o.state["x"]
    return len(st), [type(x).__name__ for x in st], str(st[0]), str(st[2]), str(st[3])


check("state of optimizers adam", lambda: state_of_optimizers(opt.Adam(lr=0.1)))
check("state of optimizers sgd", lambda: state_of_optimizers(opt.SGD(lr=0.1, momentum=0.9)))
check("state of optimizers rms", lambda: state_of_optimizers(opt.RMSProp(lr=0.1)))


class MyOpt(opt.Optimizer):
    def __init__(self):
        super().__init__(0.1)

    def _reset(self, key, value, promoted):
        self.state[key] = value, promoted, None, None

    def _step(self, cache, value, grad, lr, extra):
        return value - lr * grad, extra


check("own optimizers ", lambda: state_of_optimizers(MyOpt()))
check("wrap ", lambda: dr.wrap(source="drjit", target="torch")(lambda x: x) is not None)


def deco(f):
    @functools.wraps(f)
    def g(*a):
        return f(*a)

    return g


@dr.syntax
@deco
def of_decorators(x):
    if x > 1:
        x = x + 1
    return x


check("decorators ", lambda: of_decorators(F(0, 2)))
for f in ("backward_to", "forward_to"):
    check(f"traversals from numbers {f}", lambda: getattr(dr, f)(1.0))
    check(
        f"traversals from numbers {f} a",
        lambda: getattr(dr, f)(1.0, flags=dr.ADFlag.Default | dr.ADFlag.AllowNoGrad),
    )


class N:
    DRJIT_STRUCT = {"a": Float}

    def __init__(self, a):
        self.a = a


check("frozen results ", lambda: dr.freeze(lambda x: N(x))(F(1)))
check("indices out of range l", lambda: dr.alloc_local(F, 2)[2])
check("replace_grad b", lambda: dr.replace_grad(1.0, UInt(1)))
check("frozen backend ", lambda: dr.freeze(lambda x: x, backend=dr.JitBackend.CUDA)(F(1)))


def containers_of_a_loop():
    st = ([F(1)], (F(2),), UInt(0))
    r = dr.while_loop(st, lambda a, b, i: i < 3, lambda a, b, i: (a, b, i + 1))
    return r[0] is st[0], r[1] is st[1], r[0][0] is st[0][0]


check("containers of a loop ", containers_of_a_loop)


def of_kernel_history(k):
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        x = dr.opaque(F, 1, 64)
        f = dr.freeze(lambda x: x + 1)
        dr.kernel_history_clear()
        if k == "freeze":
            [f(x) for _ in range(2)]
        if k == "sum":
            dr.eval(dr.sum(x))
        if k == "compress":
            dr.compress(x > 0)
        if k == "bsum":
            dr.eval(dr.block_sum(x, 8))
        return [
            (
                str(e["type"]),
                e["size"],
                e.get("input_count"),
                e.get("output_count"),
                str(e.get("recording_mode")),
            )
            for e in dr.kernel_history()
        ]


for k in ("freeze", "compress", "bsum"):
    check(f"kernel_history {k}", lambda: of_kernel_history(k))


def assigned_parameters():
    n = nn.Sequential(nn.Linear(2, 1)).alloc(TensorXf)
    w = TensorXf([[1, 2]])
    n["layers.0.weights"] = w
    return n.layers[0].weights is w


check("assigned parameters ", assigned_parameters)


def of_literals(k):
    if k == 0:
        return dr.while_loop((UInt(0), F(3)), lambda i, x: i < 3, lambda i, x: (i + 1, F(3)))[
            1
        ].state
    if k == 1:
        return dr.switch(UInt(0, 1), [lambda: F(3), lambda: F(3)]).state
    if k == 2:
        a = dr.opaque(F, 1, 2)
        r = dr.switch(UInt(0, 1), [lambda a: a, lambda a: a], a)
        return r is a, r.index == a.index
    if k == 3:
        with dr.scoped_set_flag(dr.JitFlag.OptimizeLoops, False):
            return dr.while_loop((UInt(0), F(3)), lambda i, x: i < 3, lambda i, x: (i + 1, F(3)))[
                1
            ].state
    with dr.scoped_set_flag(dr.JitFlag.OptimizeCalls, False):
        return dr.switch(UInt(0, 1), [lambda: F(3), lambda: F(3)]).state


for k in range(5):
    check(f"literals {k}", lambda: of_literals(k))


def loops_without_rounds():
    x = dr.opaque(F, 1, 2)
    r = dr.while_loop((x,), lambda x: Bool(False), lambda x: (x + 1,))[0]
    return r is x, r.index == x.index, r.state


check("loops without rounds ", loops_without_rounds)


def nrec(f, *calls, **kw):
    g = dr.freeze(f, **kw)
    out = []
    for c in calls:
        out.append(str(g(*c)).replace("\n", " "))
    return g.n_recordings, g.n_cached_recordings, out


o = lambda n: dr.arange(F, n) + dr.opaque(F, 0)
check(
    "sizes in frozen functions w",
    lambda: nrec(
        lambda x, y: x + dr.gather(F, y, dr.arange(UInt, dr.width(x)) % dr.width(y)),
        (o(4), o(2)),
        (o(6), o(2)),
        (o(8), o(2)),
    ),
)
check(
    "sizes in frozen functions sh",
    lambda: nrec(
        lambda t: t * t.shape[1],
        (TensorXf(o(4), (2, 2)),),
        (TensorXf(o(6), (3, 2)),),
        (TensorXf(o(8), (4, 2)),),
    ),
)
check(
    "sizes in frozen functions len",
    lambda: nrec(lambda x, y: x * len(y), (o(4), o(2)), (o(6), o(2))),
)


def frozen_literals():
    c = F(2)
    return nrec(lambda x: x * c, (o(4),), (o(4),), (o(4),), auto_opaque=False)


check("frozen literals ", frozen_literals)


def frozen_steps(o_):
    o_["x"] = F(1, 2)

    def fs(opt_, g):
        dr.set_grad(opt_["x"], g)
        opt_.step()

    f = dr.freeze(fs)
    for k in range(4):
        f(o_, dr.opaque(F, 1, 2))
    return f.n_recordings, o_["x"]


for k, m in {
    "sgd": lambda: opt.SGD(lr=0.1),
    "mom": lambda: opt.SGD(lr=0.1, momentum=0.9),
    "rms": lambda: opt.RMSProp(lr=0.1),
    "adam": lambda: opt.Adam(lr=0.1),
}.items():
    check(f"frozen steps {k}", lambda: frozen_steps(m()))
check("frozen without room ", lambda: nrec(lambda x: x + 1, (o(2),), (o(3),), limit=0))
check(
    "frozen blocks ",
    lambda: nrec(lambda x: dr.block_sum(x, 2), *[(o(n),) for n in (4, 6, 8, 10)])[:2],
)

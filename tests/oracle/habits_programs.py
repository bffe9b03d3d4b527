# ruff: noqa: B023, E501, E741, F401, F403, F405, F841, RUF012, SIM905
"""What programs rely on: attributes, masks of any kind, own optimizers, and exceptions."""

import os
import sys
import warnings

import numpy as np

import drjit as dr

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contextlib
import dataclasses
import enum
import io

from _cases import check

import drjit.nn as nn
import drjit.opt as opt
import drjit.scalar as s
from drjit.llvm import ad
from drjit.llvm.ad import *

warnings.simplefilter("ignore")

F = Float


class S:
    DRJIT_STRUCT = {"a": Float, "b": Float}

    def __init__(self, a=None, b=None):
        self.a, self.b = a, b


def one(s_):
    s_.a = F(2)
    return s_


def two(s_):
    s_.b = F(2)
    return s_


def both(s_):
    s_.a = F(2)
    s_.b = F(3)
    return s_


def of_attributes_bound_in_branches(mode, f, same):
    z = F(5)
    x = S(z, z if same else F(0))
    dr.if_stmt((x,), Bool(True, False), f, lambda x: x, mode=mode)
    return x.a, x.b, z


for mode in ("symbolic", "evaluated"):
    for f in (one, two, both):
        for same in (0, 1):
            check(
                f"attributes bound in branches {mode} {f.__name__} {same}",
                lambda: of_attributes_bound_in_branches(mode, f, same),
            )


def attributes_bound_in_branches_of_a_list(mode):
    z = F(5)
    l = [z, z]

    def f(l):
        l[0] = F(2)
        return l

    dr.if_stmt((l,), Bool(True, False), f, lambda x: x, mode=mode)
    return l, z


@dr.syntax
def attributes_bound_in_branches_and_variables(z, c):
    s_ = S(z, z)
    if c:
        s_.a = F(2)
    return s_.a, s_.b, z


for m in ("symbolic", "evaluated"):
    check(f"attributes bound in branches l {m}", lambda: attributes_bound_in_branches_of_a_list(m))
check(
    "attributes bound in branches v",
    lambda: attributes_bound_in_branches_and_variables(F(5), Bool(True, False)),
)


def of_loops_as_sums():
    x, y = F(3), F(2)
    dr.enable_grad(x)
    r = dr.while_loop(
        (y, UInt(0)), lambda y, i: i < 2, lambda y, i: (y * x, i + 1), max_iterations=-1
    )[0]
    dr.backward(r)
    return r, x.grad


check("loops as sums ", of_loops_as_sums)


def loops_as_sums_again():
    x, y = F(3), F(2)
    dr.enable_grad(x, y)
    r = dr.while_loop(
        (y, UInt(0)), lambda y, i: i < 2, lambda y, i: (y * x, i + 1), max_iterations=-1
    )[0]
    dr.backward(r)
    return r, x.grad, y.grad


check("loops as sums b", loops_as_sums_again)
for e in (
    "ArrayXf([[1,2,3]])[1]",
    "Array1f(7)[3]",
    "s.ArrayXf([5])[2]",
    "Float(7)[-3]",
    "TensorXf([7])[3]",
    "s.Array1f(7)[2]",
    "Bool(True)[5]",
):
    check("one entry " + e, lambda: eval(e))


class E(enum.Enum):
    A = 0
    B = 1


def masks_of_any_kind(a):
    x = dr.zeros(F, 2)
    dr.scatter(x, F(5), UInt(0, 1), a)
    return x


for n, a in {
    "mode": dr.ReduceMode.NoConflicts,
    "int": UInt(1, 0),
    "float": F(0, 2),
    "1": 1,
    "0": 0,
    "E": E.A,
    "None": None,
    "obj": object(),
    "str": "abc",
    "list": [True, False],
    "[]": [],
    "dict": {},
    "1.5": 1.5,
    "np": np.array([True, False]),
}.items():
    check("masks of any kind " + n, lambda: masks_of_any_kind(a))
    check("masks of any kind g " + n, lambda: dr.gather(F, F(1, 2), UInt(0, 1), a))
    check("masks of any kind B " + n, lambda: Bool(a) if n not in ("float",) else 0)
    check("masks of any kind A " + n, lambda: Array2b(a) if n not in ("dict",) else 0)
for n in "Dynamic AnyArray T Ts Local".split():
    check("names " + n, lambda: hasattr(dr, n))
check("names L", lambda: str(dr.Local[F]))
for n in "GLInterop green_context register_gl_buffer register_gl_texture unregister_cuda_resource map_graphics_resource_ptr map_graphics_resource_array unmap_graphics_resource memcpy_2d_to_array_async".split():
    check("names " + n, lambda: hasattr(dr.cuda, n))
check("names nn", lambda: nn.hashgrid is dr.hashgrid)


class My(opt.Optimizer):
    def __init__(self, lr, params=None):
        self.mine = 1
        super().__init__(lr, params)

    def _reset(self, key, value, promoted):
        self.state[key] = (value, promoted, None, "x")
        self.mine += 1

    def step(self):
        for k, (v, p, lr, e) in self.state.items():
            self.state[k] = (type(v)(dr.detach(v) - (lr or self.lr) * dr.grad(v)), p, lr, e)


def own_optimizers():
    o = My(0.5)
    o["x"] = F(1, 2)
    x = o["x"]
    dr.backward(dr.sum(x * x))
    o.step()
    return o["x"], list(o), o.mine, o.lr, o.mask_updates, o.promote_fp16, o.state["x"][3]


check("own optimizers ", own_optimizers)
check("own optimizers base", lambda: opt.Optimizer(0.1) is not None)
for e in (
    "dr.gather(F, F([7]), UInt(0, 5))",
    "dr.gather(Array2f, Array2f(1, 2), UInt(0, 5))",
    "dr.gather(F, dr.opaque(F, 7), UInt(0, 5))",
    "dr.gather(F, F(7), UInt(0, 5), Bool(True, False))",
    "dr.gather(Array2f, F([7]), UInt(0,5))",
    "dr.gather([F, F], [F([7]), F([1,2])], UInt(0,1))",
):
    check("gather from one entry " + e, lambda: eval(e))


def gather_from_one_entry_gradients():
    x = F([7])
    dr.enable_grad(x)
    y = dr.gather(F, x, UInt(0, 5))
    dr.backward(y)
    return x.grad


check("gather from one entry g", gather_from_one_entry_gradients)
check("select a", lambda: dr.select([True, False], F(1), F(2)))
check("select b", lambda: dr.select(Int(1, 0), F(1), F(2)))
check("select c", lambda: dr.select((True, False), F(1), 2))


def print_to_another_output():
    a = io.StringIO()
    x = dr.arange(F, 2) + 1
    with contextlib.redirect_stdout(a):
        dr.while_loop(
            (UInt(0),),
            lambda i: i < 1,
            lambda i: (dr.print("{}", i, mode="symbolic"), (i + 1,))[1],
            mode="symbolic",
        )
    dr.eval()
    return a.getvalue()


check("print to another output ", print_to_another_output)


def of_gather_and_scatter_in_a_loop(mode):
    x = dr.arange(F, 4) + 0.0
    i = UInt(0)

    def body(i, x):
        v = dr.gather(F, x, i)
        dr.scatter(x, v + 1, i + 1)
        return i + 1, x

    return dr.while_loop((i, x), lambda i, x: i < 3, body, mode=mode)[1], x


for m in ("symbolic", "evaluated"):
    check("gather and scatter in a loop " + m, lambda: of_gather_and_scatter_in_a_loop(m))


def gather_and_scatter_in_a_loop_again(mode):
    x = dr.arange(F, 4) + 0.0

    def body(i):
        v = dr.gather(F, x, i)
        dr.scatter(x, v + 1, i + 1)
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 3, body, mode=mode)
    return x


for m in ("symbolic", "evaluated"):
    check("gather and scatter in a loop b " + m, lambda: gather_and_scatter_in_a_loop_again(m))


def raising(k, mode):
    def f(*a):
        raise KeyError("mine")

    if k == "if":
        return dr.if_stmt((F(1, 2),), Bool(True, False), f, lambda x: x, mode=mode)
    if k == "loop":
        return dr.while_loop((UInt(0),), lambda i: i < 2, f, mode=mode)
    return dr.switch(UInt(0, 1), [f, lambda x: x], F(1, 2), mode=mode)


for k in ("if", "loop", "call"):
    for m in ("symbolic", "evaluated"):
        check(f"exceptions of bodies {k} {m}", lambda: raising(k, m))

        def cause():
            try:
                raising(k, m)
            except Exception as e:
                return isinstance(e, RuntimeError), type(e.__cause__ or e.__context__).__name__

        check(f"causes of exceptions {k} {m}", cause)
check("sizes 0 and 1 b", lambda: F() + dr.opaque(F, 1))
check("sizes 0 and 1 d", lambda: F() * F(1, 2))


def of_assertions(k, mode, ok):
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):

        def body(i):
            dr.assert_true(i < (5 if ok else 1)) if k == "t" else dr.assert_equal(
                i, i
            ) if k == "e" else dr.assert_false(i > (5 if ok else 0))
            return (i + 1,)

        r = dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, mode=mode)[0]
        dr.eval(r)
        return r


for k in "tfe":
    for m in ("symbolic", "evaluated"):
        for ok in (1, 0):
            check(f"assertions {k} {m} {ok}", lambda: of_assertions(k, m, ok))

# ruff: noqa: B023, C408, E731, F401, F403, F405, RUF012
"""What programs rely on: masks, nesting, views, sizes, and types of arrays."""

import os
import sys
import warnings

import numpy as np

import drjit as dr

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contextlib
import dataclasses
import io
import re

from _cases import check

import drjit.scalar as s
from drjit.llvm import *
from drjit.llvm import ad

warnings.simplefilter("ignore")


def loop_rng():
    rng = dr.rng(seed=0)
    return dr.while_loop(
        (UInt(0), Float(0)), lambda i, x: i < 3, lambda i, x: (i + 1, x + rng.random(Float, 1))
    )[1]


check("generator in a loop ", loop_rng)


def bytes_of_textures(srgb, v, cls="Texture2f8u"):
    T = getattr(dr.llvm, cls, None)
    tex = (
        T([2, 2], 4, writable=True, srgb=srgb)
        if False
        else T([1, 1], 4, True, srgb=srgb, writable=True)
    )
    tex.write(Array2u(0, 0), [Float(v)] * 4)
    return tex.value() if hasattr(tex, "value") else tex.tensor()


for v in (0.5, 1.0, 200.0, -1.0, float("nan"), 0.25):
    for srgb in (False, True):
        check(f"bytes of textures {v} {srgb}", lambda: bytes_of_textures(srgb, v))
N = np.arange(9).reshape(3, 3).astype(np.float32)
N2 = np.arange(4).reshape(2, 2).astype(np.float32)
N32 = np.arange(6).reshape(2, 3).astype(np.float32)
for n, f in {
    "Array2f": lambda: Array2f(N2, flip_axes=True),
    "ArrayXf": lambda: ArrayXf(N32, flip_axes=True),
    "Array2i": lambda: Array2i(N2.astype(int), flip_axes=True),
    "Array3f": lambda: Array3f(N32, flip_axes=True),
    "Array3f T": lambda: Array3f(N32.T, flip_axes=True),
    "Matrix": lambda: s.Matrix2f(N2, flip_axes=True),
    "Array22f": lambda: Array22f(N2.reshape(2, 2, 1), flip_axes=True),
    "Matrix2f": lambda: Matrix2f(np.arange(8.0).reshape(2, 2, 2), flip_axes=True),
    "dt": lambda: Array2f(N2.astype(np.float64), flip_axes=True),
    "Tens": lambda: TensorXf(N32, flip_axes=True),
}.items():
    check("flip_axes " + n, f)
for e in (
    "Int(7,7) & [True, False]",
    "Float(7,7) & [True, False]",
    "Int(7,7) & (True, False)",
    "Int(7,7) & np.array([True, False])",
    "Float(7,7) & np.array([True, False])",
    "TensorXf([7,7]) & [True, False]",
    "TensorXi([7,7]) & np.array([True,False])",
    "Array2f(7,7) & [True, False]",
    "s.Array2f(7,7) & [True, False]",
    "s.Array2i(7,7) & np.array([True, False])",
    "Array2i(7,7) & np.array([True, False])",
    "s.ArrayXf(7,7)&[True,False]",
    "Float(7) | [True]",
):
    check("masks by operator " + e, lambda: eval(e))


def iand(a, m):
    a &= m
    return a


for e in ("Int(7,7)", "Float(7,7)", "TensorXf([7,7])", "Array2f(7,7)", "s.Array2i(7,7)"):
    check("masks by operator &= " + e, lambda: iand(eval(e), [True, False]))


def seed(f, setz=None):
    x = ad.Float(1, 2)
    dr.enable_grad(x)
    y = x * x
    if f == "b":
        if setz is not None:
            dr.set_grad(y, setz)
        dr.backward_from(y)
        return x.grad
    if setz is not None:
        dr.set_grad(x, setz)
    dr.forward_from(x)
    return dr.grad(y)


for f in "bf":
    for z in (None, 0, ad.Float(0), ad.Float(0, 0), 2, ad.Float(3, 0)):
        check(f"default gradients {f} {z}", lambda: seed(f, z))


def print_in_evaluated_code(mode, what):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if what == "loop":
            dr.while_loop(
                (UInt(0), dr.arange(UInt, 4)),
                lambda i, n: i < n,
                lambda i, n: (
                    dr.print(
                        "i={i} n={n}",
                        i=i,
                        n=n,
                        active=n > 1,
                        **({} if mode is None else {"mode": mode}),
                    ),
                    (i + 1, n),
                )[1],
                mode="evaluated",
            )
        else:
            dr.if_stmt(
                (dr.arange(UInt, 4),),
                Bool(True, False, True, False),
                lambda n: (dr.print("t {}", n, active=n > 1), n)[1],
                lambda n: (dr.print("f {}", n, active=n > 1), n)[1],
                mode="evaluated",
            )
        dr.eval()
    return out.getvalue()


for m in (None, "evaluated", "evaluate"):
    check(f"print in evaluated code {m}", lambda: print_in_evaluated_code(m, "loop"))
check("print in evaluated code if", lambda: print_in_evaluated_code(None, "if"))


def of_views(T, v):
    x = T(v)
    a = x.numpy()
    a.flat[0] = 9
    b = np.array(x, copy=False)
    b.flat[-1] = 8
    return x


for T, v in (
    (s.Array3f, [1, 2, 3]),
    (s.Matrix2f, [[1, 2], [3, 4]]),
    (s.TensorXf, [[1, 2]]),
    (s.ArrayXf, [1, 2, 3]),
    (s.Array3i, [1, 2, 3]),
    (s.Complex2f, [1, 2]),
    (s.Array3b, [True, True, True]),
):
    check(f"views {T.__name__}", lambda: of_views(T, v))
for n, x in {
    "F": Float(1, 2, 3),
    "s": s.ArrayXf(1, 2, 3),
    "T": TensorXf([1, 2]),
    "A": Array2f(1, 2),
}.items():
    for k, f in {
        "tile": lambda x: dr.tile(x, 1),
        "repeat": lambda x: dr.repeat(x, 1),
        "unravel": lambda x: dr.unravel(type(x), x),
        "reshape": lambda x: dr.reshape(type(x), x, x.shape),
        "ravel": lambda x: dr.ravel(x),
    }.items():
        check(f"same object {n} {k}", lambda: f(x) is x)
for sh in ((1, 1, 1, 5), (1, 5), (5,), (2, 5), (1, 1)):
    for ax in (None, 0, -1, (0, -1) if len(sh) > 1 else 0):
        for fn in ("norm", "squared_norm", "sum"):
            check(
                f"norms {sh} {ax} {fn}",
                lambda: (lambda r: (getattr(r, "shape", None), r))(
                    getattr(dr, fn)(dr.full(TensorXf, 2, sh), axis=ax)
                ),
            )
p = lambda: s.PCG32()
check("double precision a", lambda: repr(p().next_float(float)))
check("double precision n", lambda: repr(p().next_float_normal(float)))
check("double precision r", lambda: repr(dr.rng().random(float, 1)))
for i in (0, 1, -1):
    check(f"slice {i}", lambda: dr.slice(TensorXf([[1, 2], [3, 4]]), i))
check(
    "Dynamic ",
    lambda: (
        dr.Dynamic,
        dr.size_v(Float),
        dr.size_v(Array3f),
        dr.size_v(TensorXf),
        dr.size_v(ArrayXf),
    ),
)


class S:
    DRJIT_STRUCT = {"a": Float, "b": Array2f}

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __repr__(self):
        return f"S({self.a}, {self.b})".replace("\n", "")


def structures_as_targets(add):
    x = S(Float(1, 2), Array2f([1, 2], [3, 4]))
    (dr.scatter_add if add else dr.scatter)(x, S(Float(9), Array2f(8, 7)), UInt(1))
    return x


check("structures as targets ", lambda: structures_as_targets(0))
check("structures as targets b", lambda: structures_as_targets(1))
check("structures as targets g", lambda: dr.gather(S, S(Float(1, 2), Array2f(1, 2)), UInt(1)))
check("structures as targets d", lambda: dr.detach(S(Float(1, 2), Array2f(1, 2))))


def sequences_as_values(add, v):
    x, y = dr.zeros(Float, 3), dr.zeros(Float, 3)
    (dr.scatter_add if add else dr.scatter)((x, y), v, UInt(0, 1))
    return x, y


for add in (0, 1):
    for v in (
        (1, [2, 3]),
        (1, (2, 3)),
        ([1, 2], [3, 4]),
        (Float(1), [2, 3]),
        (1, np.array([2.0, 3])),
        (1, "a"),
        (1,),
    ):
        check(f"sequences as values {add} {v}", lambda: sequences_as_values(add, v))
for b, c in (
    ("Array34f", "Array3f"),
    ("Array43f", "Array4f"),
    ("Matrix34f", "Matrix3f"),
    ("Matrix41f", "Matrix4f"),
):
    B, C = getattr(s, b), getattr(s, c)
    for o in (
        "x + y",
        "y + x",
        "x * y",
        "y * x",
        "x == y",
        "x @ y",
        "dr.fma(x, y, 1)",
        "dr.fma(1, x, y)",
        "dr.maximum(x, y)",
        "dr.maximum(y, x)",
        "dr.minimum(x,y)",
        "dr.minimum(y,x)",
        "dr.select(x > y, x, y)",
        "dr.select(y > 1, y, x)",
        "x - y",
        "y / x",
        "x < y",
        "dr.clip(x, y, 3)",
    ):
        check(f"nesting {b} {c} {o}", lambda: eval(o, dict(dr=dr, s=s, x=B(2), y=C(3))))
for m in ("[True, False]", "(True, False)", "np.array([True, False])"):
    for v in (
        "Float(1), Float(2)",
        "Float(1), 2",
        "1, 2.5",
        "Array2f(1,2), Array2f(3,4)",
        "TensorXf([1,2]), 0",
        "[Float(1), Float(2)], 0",
        "Float(1,2), Float(3,4)",
    ):
        check(f"select {m} {v}", lambda: eval(f"dr.select({m}, {v})"))
check("select s", lambda: dr.select(Bool(True, False), [Float(1), Float(2)], 0))
check("select s2", lambda: dr.select(Bool(True, False), 0, [Float(1), Float(2)]))
check("select s3", lambda: dr.select(True, [Float(1), Float(2)], 0))
for f in ("minimum", "maximum"):
    for v in (
        "[1, 5], s.ArrayXf(3, 2)",
        "np.array([1., 5]), s.ArrayXf(3,2)",
        "s.ArrayXf(3,2), [1,5]",
        "(1,5), s.Array2f(3,2)",
        "[1,5], s.Array2i(3,2)",
        "[1,5], Int(3,2)",
        "Int(3,2), [1,5]",
        "np.array([1,5]), Int(3,2)",
    ):
        check(f"extrema {f} {v}", lambda: eval(f"dr.{f}({v})"))
check("extrema clip", lambda: dr.clip([1, 5], s.ArrayXf(3, 2), 4))
check("extrema clip2", lambda: dr.clip(np.array([1.0, 5]), s.ArrayXf(3, 2), 4))
for x in (
    "Float(1,2,3)",
    "Array3f([1,2,3],4,5)",
    "[Float(1,2,3), Int(4,5,6)]",
    "{'a': Float(1,2,3)}",
    "s.ArrayXf(1,2,3)",
    "ArrayXf([1,2,3],[4,5,6])",
):
    for i in ("[1, 2]", "(1, 2)", "UInt(1, 2)", "1", "np.array([1,2])", "range(2)", "[]"):
        check(f"slice by a list {x} {i}", lambda: eval(f"dr.slice({x}, {i})"))
for x in (
    "s.ArrayXf(42)",
    "s.Array1f(42)",
    "s.Array2f(1,2)",
    "Float(42)",
    "Float(1,2)",
    "TensorXf([42])",
    "TensorXf(42)",
    "Array1f(42)",
    "s.TensorXf([42])",
    "s.ArrayXi(42)",
    "Bool(True)",
):
    check(f"item {x}", lambda: eval(x).item())


def seti(x, i, v):
    x[i] = v
    return x


for x, i in (
    ("s.ArrayXf(1,2,3,4)", "s.ArrayXu(1,3)"),
    ("s.ArrayXi(1,2,3,4)", "s.ArrayXi(-1,0)"),
    ("Float(1,2,3,4)", "UInt(1,3)"),
    ("Float(1,2,3,4)", "Int(-1,0)"),
    ("s.ArrayXf(1,2,3,4)", "s.ArrayXf(1)"),
):
    check(f"index arrays {x}[{i}]", lambda: eval(f"{x}[{i}]"))
    check(f"index arrays {x}[{i}]=", lambda: eval(f"seti({x}, {i}, 9)"))
for x in (
    "dr.zeros(ArrayXf)",
    "ArrayXf(1)",
    "s.ArrayXf(1)",
    "Float(5)",
    "ArrayXf([[1,2,3]])",
    "Array1f(7)",
    "TensorXf([5])",
    "Float([7])",
):
    for i in (0, 3, -3, -1):
        check(f"arrays of one entry {x} {i}", lambda: eval(x)[i])
        check(f"arrays of one entry {x} {i}=", lambda: seti(eval(x), i, 2))
v = Float(*range(10))
for a in (
    "Array2f, v, 5, shrink=True",
    "Array2f, v, (2,5), shrink=True",
    "Array2f, v, 3, shrink=True",
    "Array2f, v, 7, shrink=True",
    "Array2f, v, 5",
    "Array2f, v, (2,-1)",
    "Float, v, 4, shrink=True",
    "Array3f, v, 3, shrink=True",
):
    check("reshape " + a, lambda: eval(f"dr.reshape({a})"))
for a in (
    "[1,1], 1",
    "[[1,1],[1,1]], 1",
    "1, [1,1]",
    "[1,2], 1",
    "(1,1), 1.0",
    "[Float(1), Float(1)], 1",
    "[1, [1,1]], 1",
):
    check("allclose " + a, lambda: eval(f"dr.allclose({a})"))
    check("allclose as " + a, lambda: eval(f"dr.assert_allclose({a})"))
for a in (
    "[1,2,3]",
    "(1,2,3,4)",
    "5",
    "5.0",
    "[1,2,3], return_index=True",
    "5, return_index=True",
    "[]",
    "[3,1,2], axis=0",
    "[[1,2],[3,4]]",
    "Float(3,1,2)",
    "Float(3,1,2), return_index=True",
):
    check("median " + a, lambda: eval(f"dr.median({a})"))
for T in (
    "Array0f",
    "s.Array0f",
    "Array00f",
    "ArrayXf",
    "s.ArrayXf",
    "TensorXf",
    "Float",
    "Array3f",
    "s.Array3f",
    "Matrix2f",
    "ad.Array0f",
    "Array3b",
):
    check(
        "depth " + T,
        lambda: (dr.depth_v(eval(T)), dr.size_v(eval(T)), dr.value_t(eval(T)).__name__),
    )
for T in (
    "Array0f",
    "Array3f",
    "s.Array3f",
    "TensorXf",
    "Matrix2f",
    "Float",
    "ad.Complex2f",
    "Bool",
):
    check(
        "descriptors " + T,
        lambda: (type(eval(T).__meta__).__mro__[-2].__name__, str(eval(T).__meta__)),
    )
check("descriptors re", lambda: bool(re.search("llvm", Float.__meta__)))
check(
    "descriptors v", lambda: len([k for k, x in vars(dr.llvm).items() if isinstance(x, type)]) > 100
)


def sa(x, n, v):
    setattr(x, n, v)
    return x


for x in ("Float(1)", "Array2f(1,2)", "TensorXf([1])", "Matrix2f(1)", "Complex2f(1,2)"):
    for n in ("real", "imag"):
        check(f"complex parts {x} {n}", lambda: sa(eval(x), n, 5))
check("matmul ", lambda: dr.matmul(TensorXi([[1]]), TensorXi([[1]])))
check("matmul @", lambda: TensorXi([[1]]) @ TensorXi([[1]]))
for a in (
    "TensorXf, (2,3), (5,)",
    "TensorXf, (2,3), (0,0,0)",
    "TensorXf, (2,3), ('a',)",
    "Float, (2,3), (0,)",
    "UInt, (2,3), (5,0)",
    "UInt, (2,3), (0,0,0)",
    "UInt, (2,3), ('a',)",
    "UInt, (2,3), (1,slice(None))",
    "UInt, (2,3), (1.5,)",
):
    check("slice_index " + a, lambda: eval(f"dr.slice_index({a})"))
for a in ("(True, 'hello')", "[True, None]", "(True, False)", "[]", "(True, [True, 'x'])"):
    check("all and any " + a, lambda: dr.all(eval(a)))
    check("all and any any " + a, lambda: dr.any(eval(a)))
for a in (
    "dr.opaque(Float)",
    "Array2b(None, None)",
    "dr.sum([1.0, 2.0], keepdims=True)",
    "dr.select(Bool(True), True, False)",
    "Bool([None])",
    "Array2b([None, None])",
):
    check("refused " + a, lambda: eval(a))

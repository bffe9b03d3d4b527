"""Functions have the same results, bit by bit, whatever computes them: compiled kernels, kernels
that Python runs, and folding, also with the flags of a new process, which let compiled kernels fuse
products and sums of the program. The library's own formulas say themselves what is fused.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import UNARY

import drjit as dr
from drjit import llvm
from drjit.jit.cpu import variants

pytestmark = pytest.mark.processor

SPECIAL = [0.0, -0.0, 1.0, -0.7, 0.999, 3.3, math.inf, -math.inf, math.nan, 5e-324, 1e-310, 1.7e308]
SPECIAL += [1e-45, -1e-40, 3e38, 100.7]
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "minimum": dr.minimum, "maximum": dr.maximum, "fmin": dr.fmin, "fmax": dr.fmax,
    "hypot": dr.hypot, "atan2": dr.atan2, "power": dr.power, "copysign": dr.copysign,
    "mulsign": dr.mulsign,
    "lerp": lambda a, b: dr.lerp(a, b, 0.3), "fma": lambda a, b: dr.fma(a, b, 0.7),
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "clip": lambda a, b: dr.clip(a, b, 1.5),
}  # fmt: skip
COMPLEX = [
    "abs",
    "arg",
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "rcp",
    "rsqrt",
    "exp2",
    "log2",
    "expm1",
    "log1p",
    "square",
]


def types(name: str) -> tuple[Any, ...]:
    suffix = "64" if name == "f64" else ""
    names = f"Float{suffix}", *[f"{n}f{suffix}" for n in ("Complex2", "Array3", "Quaternion4",
                                                          "Matrix4", "Matrix2")]  # fmt: skip
    return tuple([getattr(llvm, n) for n in names])


def operands(cls: Any) -> tuple[Any, Any, Any]:
    pairs = [(x, y) for x in SPECIAL for y in SPECIAL]
    pairs += [*np.random.default_rng(1).normal(0, 2, (200, 2))]
    one, two = zip(*pairs, strict=True)
    return cls(np.array(one)), cls(np.array(two)), cls(np.array(SPECIAL))


def of_one(cls: Any, a: Any, b: Any, u: Any) -> dict:
    return {n: getattr(dr, n)(a) for n in UNARY}


def of_two(cls: Any, a: Any, b: Any, u: Any) -> dict:
    found = {}
    for n, f in BINARY.items():
        found[n] = f(a, b)
        for v in SPECIAL:
            found[n, v, "number right"], found[n, v, "number left"] = f(u, v), f(v, u)
            found[n, v, "constant right"], found[n, v, "constant left"] = f(u, cls(v)), f(cls(v), u)
    return found


def composed(name: str, a: Any, b: Any) -> dict:
    _, Complex, Vector, Quaternion, Matrix4, Matrix2 = types(name)
    c, d, v, w = Complex(a, b), Complex(b, a + 1), Vector(a, b, a + b), Vector(b, a, 1)
    p, q = Quaternion(a, b, 1, 2), Quaternion(b, 0.3, a, 1)
    m = Matrix4(a, 1, 2, 3, b, 1, a, 0, 2, b, 1, a, 0.3, 1, 0, b)
    n = Matrix2(a, b, b, a + 0.3)
    found = {n: getattr(dr, n)(c) for n in COMPLEX}
    found |= {"c*c": c * d, "c/c": c / d, "c**c": c**d, "v.v": dr.dot(v, w), "|v|": dr.norm(v)}
    found |= {"v x w": dr.cross(v, w), "v/|v|": dr.normalize(v), "q*q": p * q, "q/q": p / q}
    found |= {f"q {n}": getattr(dr, n)(p) for n in ["abs", "exp", "log", "sqrt", "rcp"]}
    found |= {"det": dr.det(m), "det 2": dr.det(n), "inverse": dr.rcp(n), "m*m": m @ m}
    found |= {"sh": dr.sh_eval(v, 3), "to euler": dr.quat_to_euler(p), "slerp": dr.slerp(p, q, 0.3)}
    return found


def entries(found: dict) -> dict:
    dr.eval(found)
    return {k: [np.array(v) for v in leaves(x)] for k, x in found.items()}


def leaves(value: Any) -> list:
    if isinstance(value, list) or dr.depth_v(value) > 1:
        return [e for v in value for e in leaves(v)]
    return [value]


def differing(x: np.ndarray, y: np.ndarray) -> bool:
    bits = np.uint64 if x.dtype == np.float64 else np.uint32
    return bool(((x.view(bits) != y.view(bits)) & ~(np.isnan(x) & np.isnan(y))).any())


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("made", ["of_one", "of_two", "composed"])
def test_tiers_agree_to_the_last_bit(name: str, made: str, monkeypatch: pytest.MonkeyPatch):
    assert dr.flag(dr.JitFlag.FastMath)
    cls = types(name)[0]
    a, b, u = operands(cls)
    found = {}
    for tier in ("numpy", "compiled"):
        dr.flush_kernel_cache()
        monkeypatch.setattr(variants, "pinned", tier)
        found[tier] = entries(
            composed(name, a, b) if made == "composed" else globals()[made](cls, a, b, u)
        )
    dr.flush_kernel_cache()
    wrong = [
        k for k, v in found["numpy"].items()
        if any(map(differing, v, found["compiled"][k]))
    ]  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_folding_agrees_with_kernels(name: str, tier: str):
    cls = types(name)[0]
    u = cls(np.array(SPECIAL))
    for n in UNARY:
        f = getattr(dr, n)
        want = np.array([f(cls(v))[0] for v in SPECIAL], u.numpy().dtype)
        assert not differing(f(u).numpy(), want), n
    for n, f in BINARY.items():
        for v in SPECIAL:
            found = [[f(u, cls(v)), f(cls(v), u)]]
            if n not in (
                "lerp",
                "mulsign",
            ):  # the number's type counts
                found.append([f(u, v), f(v, u)])
            dr.eval(found)
            folded = [(f(cls(x), cls(v))[0], f(cls(v), cls(x))[0]) for x in SPECIAL]
            for right, left in found:
                for k, got in enumerate((right, left)):
                    want = np.array([row[k] for row in folded], u.numpy().dtype)
                    assert not differing(got.numpy(), want), (n, v, k)

"""Conversions (`cvt`) of the PTX emulator against rational arithmetic."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ptx_cases import Case, bits, canonical, check, finite, floats, rounded, values, wrap
from test_cuda_emulator_float import flushed, half
from test_cuda_emulator_integer import clamped

INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
ROUND = {
    "rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil,
}  # fmt: skip


def register(kind: str) -> str:
    return f"{kind[0]}16" if kind[1:] == "8" else kind


def near(kind: str) -> list[Any]:
    """Numbers near the limits of integers, and near halfway between two."""
    numbers = [k + d for k in (0, 1, 2, -1, -2, 127, -128, 255, 32767, -32768, 65535)
               for d in (-0.75, -0.5, 0.0, 0.25, 0.5)]  # fmt: skip
    limits = [s * 2.0**k for k in (31, 32, 63, 64) for s in (1, -1)]
    dtype = np.dtype(f"f{bits(kind) // 8}")
    with np.errstate(all="ignore"):
        edges = np.array(limits).astype(dtype)
        around = [np.nextafter(edges, dtype.type(s)) for s in (-np.inf, np.inf)]
        found = np.concatenate([np.array(numbers).astype(dtype), edges, *around])
    return [*floats(kind), *found.tolist()]


def to_integer(x: float, source: str, kind: str, mode: str) -> int:
    if x != x:
        wide = source == "f64" or bits(kind) == 64
        return wrap(1 << bits(kind) - 1, kind) if wide else 0
    if math.isinf(x):
        return clamped((1 << 99) if x > 0 else -(1 << 99), kind)
    return clamped(ROUND[mode](x), kind)


def to_integers() -> list[Case]:
    cases = []
    for a in ("f16", "f32", "f64"):
        for d in INTEGERS:
            for mode in ROUND:
                for ftz in ("", ".ftz") if a == "f32" else ("",):

                    def reference(x: Any, a=a, d=d, mode=mode, ftz=ftz) -> int:
                        x = float(x)
                        return to_integer(flushed(x, a) if ftz else x, a, d, mode)

                    text = f"cvt.{mode}{ftz}.{d}.{a} {{d}}, {{a}};"
                    cases.append(Case(text, a, register(d), reference, [near(a)]))
    return cases


def from_integers() -> list[Case]:
    cases = []
    for a in INTEGERS:
        inputs = [values(register(a))]
        if bits(a) == 64:  # halfway cases of all sizes
            places = [(1 << 60) + (1 << k) + e for k in range(2, 59, 3) for e in (-1, 0, 1)]
            inputs = [[*inputs[0], *places]]
        elif bits(a) == 32:
            inputs = [[*inputs[0], *((1 << 30) + (1 << k) + e for k in range(2, 29, 3)
                                     for e in (-1, 0, 1))]]  # fmt: skip
        for d in ("f16", "f32", "f64"):

            def reference(x: int, a=a, d=d) -> Any:
                if bits(a) == 8:
                    x = x & 255 if a == "u8" else (x & 255) - (256 if x & 128 else 0)
                return canonical(rounded(Fraction(x), d), d)

            text = f"cvt.rn.{d}.{a} {{d}}, {{a}};"
            cases.append(Case(text, register(a), d, reference, inputs))
    return cases


def narrowed(x: float, kind: str, mode: str = "rn") -> float:
    return rounded(Fraction(x), kind, mode, math.copysign(1, x) < 0) if finite(x) else x


def between_floats() -> list[Case]:
    cases = []

    def add(text: str, a: str, d: str, f: Any, relu: bool = False) -> None:
        def reference(x: Any) -> Any:
            r = narrowed(f(float(x)), d)
            if relu:
                r = r if r != r else max(r, 0.0) + 0.0
            return canonical(r, d)

        inputs = [*near(a)]
        if a == "f32":  # halfway between two of the smaller types
            inputs += (1 + np.arange(16) * 2.0**-12).tolist() + (1 + np.arange(16) / 512).tolist()
            inputs += [65519.0, 65520.0, 2.0**-25, 2.0**-25 + 2.0**-40, 6e-5, 3.3895e38]
        cases.append(Case(text + " {d}, {a};", a, d, reference, [inputs]))

    same = lambda x: x  # noqa: E731
    add("cvt.rn.f32.f64", "f64", "f32", same)
    add("cvt.rn.f16.f32", "f32", "f16", same)
    add("cvt.rn.relu.f16.f32", "f32", "f16", same, relu=True)
    add("cvt.rn.f16.f64", "f64", "f16", same)
    add("cvt.f32.f16", "f16", "f32", same)
    add("cvt.f64.f16", "f16", "f64", same)
    add("cvt.f64.f32", "f32", "f64", same)
    add("cvt.ftz.f64.f32", "f32", "f64", lambda x: flushed(x, "f32"))
    for mode, f in ROUND.items():
        for kind in ("f16", "f32", "f64"):
            add(f"cvt.{mode}.{kind}.{kind}", kind, kind,
                lambda x, f=f: math.copysign(f(x), x) if finite(x) else x)  # fmt: skip
    sat = lambda x: 0.0 if x != x else min(max(x, 0.0), 1.0) + 0.0  # noqa: E731
    add("cvt.sat.f32.f32", "f32", "f32", sat)
    add("cvt.rn.sat.f32.f64", "f64", "f32", lambda x: narrowed(sat(x), "f32"))
    add("cvt.rn.sat.f16.f32", "f32", "f16", sat)
    flushing = lambda x: flushed(narrowed(x, "f32"), "f32")  # noqa: E731
    add("cvt.rn.ftz.f32.f64", "f64", "f32", flushing)
    add("cvt.rn.ftz.f16.f32", "f32", "f16", lambda x: flushed(x, "f32"))
    return cases


def others() -> list[Case]:
    cases = []
    ties = [1 + k * 2.0**-12 for k in range(16)] + [-1 - 2.0**-11, 1e-42, 3.4028e38]

    def tf32(x: Any) -> int:
        return int(np.array(canonical(narrowed(float(x), "tf32", "rna"), "f32")).view("u4"))

    inputs = [[x for x in floats("f32") + ties if x == x]]
    cases.append(Case("cvt.rna.tf32.f32 {d}, {a};", "f32", "b32", tf32, inputs))
    for relu in ("", ".relu"):

        def pair(a: Any, b: Any, relu: str = relu) -> int:
            words = []
            for x in (b, a):  # the first operand is the upper half
                r = narrowed(float(x), "f16")
                if relu:
                    r = r if r != r else max(r, 0.0) + 0.0
                words.append(int(canonical(r, "f16").view("u2")))
            return words[0] | words[1] << 16

        text = f"cvt.rn{relu}.f16x2.f32 {{d}}, {{a}}, {{b}};"
        cases.append(Case(text, "f32 f32", "f16x2", pair))
    return cases


GROUPS = [to_integers, from_integers, between_floats, others]
CASES = [case for group in GROUPS for case in group()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conversion(case: Case):
    check(case)


def test_halves_of_words():
    assert half(0x3C00_0000, 1) == 1.0

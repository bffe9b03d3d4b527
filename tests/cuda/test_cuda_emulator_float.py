"""Floating-point instructions of the PTX emulator against rational arithmetic."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ptx_cases import DIGITS, NUMPY, Case, canonical, check, finite, floats, rounded, values

F = Fraction
TINY = {"f16": 2.0**-14, "f32": 2.0**-126, "f64": 2.0**-1022}
PLAIN = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "fma": lambda a, b, c: a * b + c,
}  # fmt: skip


def flushed(x: float, kind: str) -> float:
    return math.copysign(0.0, x) if abs(x) < TINY[kind] else x


def exactly(name: str, kind: str, *operands: float) -> float:
    """An operation, rounded once; special values as NumPy has them."""
    plain = PLAIN[name](*(np.float64(x) for x in operands))
    if not finite(*operands) or (name == "div" and operands[1] == 0):
        return float(plain)
    exact = PLAIN[name](*map(F, operands))
    negative = math.copysign(1, plain) < 0
    if exact == 0 and name in ("add", "sub", "fma"):
        first = operands[0] * operands[1] if name == "fma" else operands[0]
        second = -operands[1] if name == "sub" else operands[-1]
        if name == "fma" and first == 0 and operands[0] * operands[1] == 0:
            first = math.copysign(
                0.0, math.copysign(1, operands[0]) * math.copysign(1, operands[1])
            )
        signs = math.copysign(1, first), math.copysign(1, second)
        negative = signs == (-1, -1)
    elif exact == 0:
        negative = math.copysign(1, operands[0]) * math.copysign(1, operands[1]) < 0
    return rounded(exact, kind, "rn", negative)


def modified(f: Callable[..., float], kind: str, ftz: bool = False, sat: bool = False,
             relu: bool = False) -> Callable[..., Any]:  # fmt: skip
    """A function of numbers of a type, with the modifiers of an instruction."""

    def reference(*operands: Any) -> Any:
        numbers = [float(x) for x in operands]
        if ftz:
            numbers = [flushed(x, kind) for x in numbers]
        r = f(*numbers)
        if ftz:
            r = flushed(r, kind)
        if sat:
            r = 0.0 if r != r else min(max(r, 0.0), 1.0) + 0.0
        if relu:
            r = r if r != r else max(r, 0.0) + 0.0
        return canonical(r, kind)

    return reference


def pairwise(f: Callable[..., Any], kind: str) -> Callable[..., int]:
    """The same for two numbers in a word."""
    size = 32 if kind == "f32" else 16
    mask = (1 << size) - 1

    def both(*words: int) -> int:
        total = 0
        for k in range(2):
            parts = [w >> size * k & mask for w in words]
            r = f(*(np.array(x, f"u{size // 8}").view(NUMPY[kind])[()] for x in parts))
            total |= int(np.array(r, NUMPY[kind]).view(f"u{size // 8}")) << size * k
        return total

    return both


def inputs(kind: str, count: int) -> list[list[Any]]:
    """Columns of operands, fewer if there are three."""
    step = {1: 1, 2: 1, 3: 3}[count]
    return [values(kind)[k % step :: step] for k in range(count)]


def case(name: str, kind: str, count: int, f: Callable[..., float], mode: str = "",
         suffix: str = "", target: str = "sm_90") -> Case:  # fmt: skip
    """The instruction `name.mode.suffix.kind` for numbers or for pairs of them."""
    flags = {flag: flag in suffix.split(".") for flag in ("ftz", "sat", "relu")}
    base = kind.removesuffix("x2")
    reference = modified(f, base, **flags)
    if kind.endswith("x2"):
        reference = pairwise(reference, base)
    letters = ", ".join("{" + x + "}" for x in "abc"[:count])
    dots = "".join(f".{part}" for part in (mode, *suffix.split(".")) if part)
    return Case(f"{name}{dots}.{kind} {{d}}, {letters};", " ".join([kind] * count), kind, reference,
                inputs(kind, count), target=target)  # fmt: skip


def basic() -> list[Case]:
    cases = []
    for name, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):

        def exact(kind: str, name: str = name) -> Callable[..., float]:
            return lambda *x: exactly(name, kind, *x)

        for kind in ("f32", "f16", "f16x2"):
            for suffix in ("", "ftz", "sat", "ftz.sat"):
                base = exact(kind.removesuffix("x2"))
                cases.append(case(name, kind, count, base, "rn", suffix))
        cases.append(case(name, "f64", count, exact("f64"), "rn"))
        if name != "mul":  # halves and a float
            kinds = ["f16"] * (count - 1) + ["f32"]
            letters = "{a}, {b}, {c}"[: 5 * count - 2]
            columns = [values(kind)[:: 1 + 2 * (count == 3)] for kind in kinds]
            text = f"{name}.rn.f32.f16 {{d}}, {letters};"
            f = modified(exact("f32"), "f32")
            cases.append(Case(text, " ".join(kinds), "f32", f, columns, target="sm_100"))
        for suffix in ("", "ftz"):
            pair = case(name, "f32x2", count, exact("f32"), "rn", suffix, target="sm_100")
            cases.append(pair)
    for kind in ("f16", "f16x2"):
        cases.append(case("fma", kind, 3, lambda *x: exactly("fma", "f16", *x), "rn", "relu"))
    return cases


def root(x: float, kind: str) -> float:
    if not finite(x) or x <= 0:
        return float(np.sqrt(np.float64(x)))
    # A rational number that is closer to the root than any number of the type.
    scale = 1 << 1300
    square = F(x) * scale * scale
    whole = math.isqrt(square.numerator // square.denominator)
    exact = F(whole, scale)
    if exact * exact != F(x):
        exact += F(1, 2 * scale)
    return rounded(exact, kind)


def quotients() -> list[Case]:
    cases = []
    for kind in ("f32", "f64"):
        for suffix in ("", "ftz") if kind == "f32" else ("",):
            divide = lambda a, b, k=kind: exactly("div", k, a, b)  # noqa: E731
            invert = lambda a, k=kind: exactly("div", k, 1.0, a)  # noqa: E731
            square = lambda a, k=kind: root(a, k)  # noqa: E731
            cases += [
                case("div", kind, 2, divide, "rn", suffix),
                case("rcp", kind, 1, invert, "rn", suffix),
                case("sqrt", kind, 1, square, "rn", suffix),
            ]
    divide = lambda a, b: exactly("div", "f32", a, b)  # noqa: E731
    cases.append(case("div", "f32", 2, divide, "full"))

    def approximate(a: float, b: float) -> float:
        if 2.0**126 < abs(b) < math.inf:
            return (
                math.nan if math.isinf(a) or a != a else math.copysign(0, a) * math.copysign(1, b)
            )
        return exactly("div", "f32", a, b)

    cases.append(case("div", "f32", 2, approximate, "approx"))
    return cases


def least(a: float, b: float, sign: int) -> float:
    if a != a or b != b:
        return b if a != a else a
    if a == b == 0:
        return a if (math.copysign(1, a) * sign <= math.copysign(1, b) * sign) else b
    return a if a * sign < b * sign else b


def extremes() -> list[Case]:
    cases = []
    for name, sign in (("min", 1), ("max", -1)):

        def plain(a: float, b: float, sign: int = sign) -> float:
            return least(a, b, sign)

        def strict(a: float, b: float, sign: int = sign) -> float:
            return math.nan if a != a or b != b else least(a, b, sign)

        def of_three(a: float, b: float, c: float, sign: int = sign) -> float:
            return least(least(a, b, sign), c, sign)

        for kind in ("f32", "f64", "f16", "f16x2"):
            cases.append(case(name, kind, 2, plain))
            if kind != "f64":
                cases.append(case(name, kind, 2, strict, "", "NaN"))
        for kind in ("f32", "f16", "f16x2"):
            cases.append(case(name, kind, 2, plain, "", "ftz"))
        cases.append(case(name, "f32", 3, of_three, target="sm_100"))
        cases.append(
            case(
                name,
                "f32",
                3,
                lambda a, b, c, f=of_three: math.nan if a != a or b != b or c != c else f(a, b, c),
                "NaN",
                target="sm_100",
            )
        )
    return cases


def signs() -> list[Case]:
    cases = []
    for kind in ("f32", "f64", "f16", "f16x2"):
        cases.append(case("neg", kind, 1, lambda a: -a))
        cases.append(case("abs", kind, 1, abs))
    for kind in ("f32", "f16", "f16x2"):
        cases.append(case("neg", kind, 1, lambda a: -a, "", "ftz"))
        cases.append(case("abs", kind, 1, abs, "", "ftz"))
    for kind in ("f32", "f64"):
        word = f"u{np.dtype(NUMPY[kind]).itemsize}"

        def copied(a: Any, b: Any, word: str = word) -> Any:
            n = np.dtype(word).itemsize * 8 - 1
            x, y = (int(np.array(v).view(word)) for v in (a, b))
            return np.array((x >> n << n) | (y & (1 << n) - 1), word).view(np.array(a).dtype)[()]

        cases.append(Case(f"copysign.{kind} {{d}}, {{a}}, {{b}};", f"{kind} {kind}", kind, copied))
    return cases


APPROXIMATE = {
    "sin": np.sin, "cos": np.cos, "ex2": np.exp2, "lg2": np.log2, "tanh": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt, "rcp": lambda x: 1 / x,
}  # fmt: skip


def functions() -> list[Case]:
    cases = []
    for name, f in APPROXIMATE.items():

        def reference(x: float, f: Any = f, name: str = name) -> float:
            return float(np.float32(f(np.float64(x))))

        for suffix in ("", "ftz") if name != "tanh" else ("",):
            cases.append(case(name, "f32", 1, reference, "approx", suffix))
    half = lambda f: lambda x: float(np.float16(f(np.float64(x))))  # noqa: E731
    for kind in ("f16", "f16x2"):
        cases.append(case("ex2", kind, 1, half(np.exp2), "approx"))
        cases.append(case("tanh", kind, 1, half(np.tanh), "approx"))

    cases.append(case("rsqrt", "f64", 1, lambda x: float(1 / np.sqrt(np.float64(x))), "approx"))
    return cases


RELATIONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def comparisons() -> list[Case]:
    cases = []
    table: dict[str, Callable[[float, float], bool]] = {}
    for name, f in RELATIONS.items():
        table[name] = lambda a, b, f=f: a == a and b == b and f(a, b)
        table[name + "u"] = lambda a, b, f=f: a != a or b != b or f(a, b)
    table["num"] = lambda a, b: a == a and b == b
    table["nan"] = lambda a, b: a != a or b != b
    for name, f in table.items():
        for kind in ("f32", "f64", "f16"):
            two = f"{kind} {kind}"
            text = f"setp.{name}.{kind} {{d}}, {{a}}, {{b}};"
            reference = lambda a, b, f=f: int(f(float(a), float(b)))  # noqa: E731
            cases.append(Case(text, two, "pred", reference))
        cases.append(Case(f"set.{name}.u32.f32 {{d}}, {{a}}, {{b}};", "f32 f32", "u32",
                          lambda a, b, f=f: -int(f(a, b))))  # fmt: skip
        for k in range(2):
            pair = "{d}|%p2" if k == 0 else "%p2|{d}"
            cases.append(Case(
                f"setp.{name}.f16x2 {pair}, {{a}}, {{b}};", "f16x2 f16x2", "pred",
                lambda a, b, f=f, k=k: int(f(half(a, k), half(b, k)))))  # fmt: skip
        cases.append(Case(
            f"set.{name}.u32.f16x2 {{d}}, {{a}}, {{b}};", "f16x2 f16x2", "u32",
            lambda a, b, f=f: sum(0xFFFF * int(f(half(a, k), half(b, k))) << 16 * k
                                  for k in range(2))))  # fmt: skip
    flush = lambda a, b: int(flushed(a, "f32") == flushed(b, "f32"))  # noqa: E731
    cases.append(Case("setp.eq.ftz.f32 {d}, {a}, {b};", "f32 f32", "pred", flush))
    for kind in ("f32", "f64"):
        cases.append(Case(f"testp.infinite.{kind} {{d}}, {{a}};", kind, "pred",
                          lambda x: int(math.isinf(float(x)))))  # fmt: skip
    return cases


def half(word: int, k: int) -> float:
    return float(np.array(word >> 16 * k & 0xFFFF, "u2").view("f2"))


GROUPS = [basic, quotients, extremes, signs, functions, comparisons]
CASES = [case for group in GROUPS for case in group()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_instruction(case: Case):
    check(case)


def hard_products(kind: str, n: int) -> list[np.ndarray]:
    """Operands of fma whose exact result is near a number halfway between two others."""
    rng = np.random.default_rng(5)
    digits, least_exponent, _ = DIGITS[kind]
    dtype = NUMPY[kind]
    a, b = ((1 + rng.random(n)).astype(dtype) for _ in range(2))
    exact = [F(float(x)) * F(float(y)) for x, y in zip(a, b, strict=True)]
    scale = 2.0 ** rng.integers(-digits - 4, digits + 4, n)
    c = [rounded(-e + F(float(s)) / 3, kind) for e, s in zip(exact, scale, strict=True)]
    tiny = (rng.choice([-1, 1], n) * 2.0 ** rng.integers(least_exponent // 2, 2, n)).astype(dtype)
    ones = (1 + rng.integers(0, 4, n) * 2.0 ** (1 - digits)).astype(dtype)
    halves = (2.0 ** -rng.integers(1, 3, n) * 2.0 ** (1 - digits)).astype(dtype)
    columns = [(a, b, np.array(c, dtype)), (a, b, tiny), (ones, halves, tiny), (tiny, ones, ones)]
    return [np.concatenate([column[k] for column in columns]) for k in range(3)]


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_fused_products_are_rounded_once(kind: str):
    columns = hard_products(kind, 300)
    rows = list(zip(*columns, strict=True))
    f = modified(lambda *x: exactly("fma", kind, *x), kind)
    arrays = Case(f"fma.rn.{kind} {{d}}, {{a}}, {{b}}, {{c}};", f"{kind} {kind} {kind}", kind, f)
    arrays.inputs = rows  # type: ignore[assignment]
    assert any(f(*row) != row[0] * row[1] + row[2] for row in rows), (
        "rounding twice makes no difference here"
    )
    check(arrays)


def test_nan_of_arithmetic_is_the_one_of_the_hardware():
    """But a NaN that is only moved keeps its bits."""
    payload = [np.array([0xFFC12345], "u4").view("f4")[0]]
    moved = Case("mov.b32 {d}, {a};", "f32", "b32", lambda a: 0xFFC12345, [payload])
    added = Case("add.f32 {d}, {a}, 0f3F800000;", "f32", "b32", lambda a: 0x7FFFFFFF, [payload])
    selected = Case(
        "{{ .reg .f32 t; .reg .pred q; add.f32 t, {a}, {a}; setp.nan.f32 q, t, t;\n"
        "selp.f32 {d}, t, {a}, q; }}",
        "f32",
        "b32",
        lambda a: 0x7FFFFFFF,
        [payload],
    )
    for c in (moved, added, selected):
        check(c)


def test_numbers_in_a_text():
    for text, want in (("0f40490FDB", 0x40490FDB), ("1.5", 0x3FC00000), ("0.1", 0x3DCCCCCD)):
        check(Case(f"mov.f32 {{d}}, {text};", "f32", "b32", lambda a, w=want: w, [[0.0]]))
    check(Case("mov.f64 {d}, 0d400921FB54442D18;", "f64", "f64", lambda a: math.pi, [[0.0]]))
    check(Case("add.f64 {d}, {a}, 1e-3;", "f64", "f64", lambda a: a + 1e-3, [floats("f64")[:4]]))

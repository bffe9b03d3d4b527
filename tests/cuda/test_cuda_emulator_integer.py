"""Integer and bit instructions of the PTX emulator against Python's integers."""

import pytest
from ptx_cases import Case, bits, check, values, wrap

SIGNED, UNSIGNED = ("s16", "s32", "s64"), ("u16", "u32", "u64")
ALL = SIGNED + UNSIGNED


def signed(x: int, n: int) -> int:
    x &= (1 << n) - 1
    return x - (1 << n) if x >> n - 1 else x


def divided(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * divided(a, b)


def clamped(x: int, kind: str) -> int:
    n = bits(kind)
    low, high = (-(1 << n - 1), (1 << n - 1) - 1) if kind[0] == "s" else (0, (1 << n) - 1)
    return max(low, min(high, x))


def wide(kind: str) -> str:
    return f"{kind[0]}{bits(kind) * 2}"


def arithmetic() -> list[Case]:
    cases = []
    for t in ALL:
        n = bits(t)
        two = f"{t} {t}"
        cases += [
            Case(f"add.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a + b),
            Case(f"sub.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a - b),
            Case(f"mul.lo.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a * b),
            Case(f"mul.hi.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b, n=n: a * b >> n),
            Case(f"div.{t} {{d}}, {{a}}, {{b}};", two, t, divided),
            Case(f"rem.{t} {{d}}, {{a}}, {{b}};", two, t, remainder),
            Case(f"min.{t} {{d}}, {{a}}, {{b}};", two, t, min),
            Case(f"max.{t} {{d}}, {{a}}, {{b}};", two, t, max),
            Case(f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};", f"{two} {t}", t,
                 lambda a, b, c: a * b + c),
            Case(f"mad.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};", f"{two} {t}", t,
                 lambda a, b, c, n=n: (a * b >> n) + c),
        ]  # fmt: skip
        if n < 64:
            cases += [
                Case(f"mul.wide.{t} {{d}}, {{a}}, {{b}};", two, wide(t), lambda a, b: a * b),
                Case(f"mad.wide.{t} {{d}}, {{a}}, {{b}}, {{c}};", f"{two} {wide(t)}", wide(t),
                     lambda a, b, c: a * b + c),
            ]  # fmt: skip
    for t in SIGNED:
        cases += [
            Case(f"abs.{t} {{d}}, {{a}};", t, t, abs),
            Case(f"neg.{t} {{d}}, {{a}};", t, t, lambda a: -a),
        ]
    cases += [
        Case("add.sat.s32 {d}, {a}, {b};", "s32 s32", "s32", lambda a, b: clamped(a + b, "s32")),
        Case("sub.sat.s32 {d}, {a}, {b};", "s32 s32", "s32", lambda a, b: clamped(a - b, "s32")),
        Case("mul.wide.u32 {d}, {a}, 4000000000;", "u32", "u64", lambda a: a * 4000000000),
        Case("mul.wide.s32 {d}, {a}, -3;", "s32", "s64", lambda a: a * -3),
        Case("add.s32 {d}, {a}, -2147483648;", "s32", "s32", lambda a: a - (1 << 31)),
        Case("add.u64 {d}, {a}, 0x123456789a;", "u64", "u64", lambda a: a + 0x123456789A),
        Case("add.u32 {d}, {a}, 4294967295U;", "u32", "u32", lambda a: a - 1),
        Case("add.u32 {d}, {a}, 0b101;", "u32", "u32", lambda a: a + 5),
        Case("min.relu.s32 {d}, {a}, {b};", "s32 s32", "s32", lambda a, b: max(0, min(a, b))),
        Case("max.relu.s32 {d}, {a}, {b};", "s32 s32", "s32", lambda a, b: max(0, a, b)),
    ]  # fmt: skip
    return cases


def halves(function):
    def both(*words: int) -> int:
        low, high = (function(*(w >> s & 0xFFFF for w in words)) & 0xFFFF for s in (0, 16))
        return low | high << 16

    return both


def pairs() -> list[Case]:
    """Two 16-bit integers in a word, since sm_90."""
    cases = []
    for t in ("u16x2", "s16x2"):

        def value(x: int, t: str = t) -> int:
            return signed(x, 16) if t[0] == "s" else x

        for name, f in (("min", min), ("max", max), ("add", lambda a, b: a + b)):
            reference = halves(lambda a, b, f=f, value=value: f(value(a), value(b)))
            text = f"{name}.{t} {{d}}, {{a}}, {{b}};"
            inputs = [[a | b << 16 for a, b in zip(v, v[::-1], strict=True)]
                      for v in [[x & 0xFFFF for x in values("u16")]] * 2]  # fmt: skip
            cases.append(Case(text, f"{t} {t}", t, reference, inputs))
    return cases


def logic() -> list[Case]:
    cases = []
    for t in ("b16", "b32", "b64"):
        n = bits(t)
        ones = (1 << n) - 1
        two = f"{t} {t}"
        amounts = [0, 1, 5, n - 1, n, n + 1, 255, 1 << 31, (1 << 32) - 1]
        u, s = t.replace("b", "u"), t.replace("b", "s")
        cases += [
            Case(f"and.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a & b),
            Case(f"or.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a | b),
            Case(f"xor.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a ^ b),
            Case(f"not.{t} {{d}}, {{a}};", t, t, lambda a: ~a),
            Case(f"shl.{t} {{d}}, {{a}}, {{b}};", f"{t} u32", t,
                 lambda a, b, n=n: a << b if b < n else 0, [values(t), amounts]),
            Case(f"shr.{u} {{d}}, {{a}}, {{b}};", f"{u} u32", u,
                 lambda a, b, n=n: a >> min(b, n), [values(u), amounts]),
            Case(f"shr.{s} {{d}}, {{a}}, {{b}};", f"{s} u32", s,
                 lambda a, b, n=n: a >> min(b, n), [values(s), amounts]),
            Case(f"shl.{t} {{d}}, {{a}}, 3;", t, t, lambda a: a << 3),
            Case(f"shr.{s} {{d}}, {{a}}, {n + 9};", s, s, lambda a: -1 if a < 0 else 0),
            Case(f"shl.{t} {{d}}, {{a}}, {n};", t, t, lambda a, ones=ones: 0),
        ]  # fmt: skip
    for name, f in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b),
                    ("xor", lambda a, b: a ^ b)):  # fmt: skip
        cases.append(Case(f"{name}.pred {{d}}, {{a}}, {{b}};", "pred pred", "pred", f))
    cases.append(Case("not.pred {d}, {a};", "pred", "pred", lambda a: 1 - a))
    cases.append(Case("mov.pred {d}, {a};", "pred", "pred", lambda a: a))
    cases.append(Case("xor.pred {d}, {a}, 1;", "pred", "pred", lambda a: 1 - a))
    for table in (0x00, 0x80, 0xFE, 0x96, 0xF8, 0xEA, 0xE0, 0xA8, 0xCA, 0x78, 0x6A, 0x1D, 0xFF):

        def reference(a: int, b: int, c: int, table: int = table) -> int:
            places = ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1 for k in range(32))
            return sum((table >> place & 1) << k for k, place in enumerate(places))

        inputs = [[0, 0xFFFFFFFF, 0x12345678, 0xF0F0A5A5]] * 3
        cases.append(Case(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table:#x};", "b32 b32 b32", "b32",
                          reference, inputs))  # fmt: skip
    return cases


def field_of(a: int, pos: int, length: int, kind: str) -> int:
    n = bits(kind)
    a &= (1 << n) - 1
    pos, length = pos & 255, length & 255
    if length == 0:
        return 0
    sign = (a >> min(pos + length - 1, n - 1) & 1) if kind[0] == "s" else 0
    return sum((a >> pos + i & 1 if i < length and pos + i < n else sign) << i for i in range(n))


def inserted(a: int, b: int, pos: int, length: int, n: int) -> int:
    pos, length = pos & 255, length & 255
    for i in range(length):
        if pos + i < n:
            b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
    return b


def leading(a: int, n: int) -> int:
    return n - a.bit_length()


def permuted(a: int, b: int, c: int) -> int:
    octets = (a | b << 32).to_bytes(8, "little")
    result = 0
    for k in range(4):
        s = c >> 4 * k & 15
        octet = octets[s & 7]
        result |= (255 * (octet >> 7) if s & 8 else octet) << 8 * k
    return result


def bit_fields() -> list[Case]:
    cases = []
    places = [0, 1, 5, 16, 31, 32, 33, 63, 64, 100, 255, 256, 300]
    for t in ("u32", "s32", "u64", "s64"):
        cases.append(
            Case(
                f"bfe.{t} {{d}}, {{a}}, {{b}}, {{c}};",
                f"{t} u32 u32",
                t,
                lambda a, b, c, t=t: field_of(a, b, c, t),
                [values(t), places, places],
            )
        )
    for t in ("b32", "b64"):
        n = bits(t)
        cases += [
            Case(f"bfi.{t} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", f"{t} {t} u32 u32", t,
                 lambda a, b, c, e, n=n: inserted(a, b, c, e, n),
                 [values(t)[::3], values(t)[::2], places, places]),
            Case(f"popc.{t} {{d}}, {{a}};", t, "u32", lambda a: a.bit_count()),
            Case(f"clz.{t} {{d}}, {{a}};", t, "u32", lambda a, n=n: leading(a, n)),
            Case(f"brev.{t} {{d}}, {{a}};", t, t,
                 lambda a, n=n: int(format(a, f"0{n}b")[::-1], 2)),
        ]  # fmt: skip
    for mode in ("clamp", "wrap"):

        def length(c: int, mode: str = mode) -> int:
            return min(c, 32) if mode == "clamp" else c & 31

        for side in ("l", "r"):

            def shifted(a: int, b: int, c: int, length=length, side: str = side) -> int:
                pair = b << 32 | a
                return pair << length(c) >> 32 if side == "l" else pair >> length(c)

            cases.append(
                Case(
                    f"shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};",
                    "u32 u32 u32",
                    "u32",
                    shifted,
                    [values("u32"), values("u32"), places],
                )
            )
    words = [0x03020100, 0x81FF7F80, 0xDEADBEEF]
    selectors = [0x3210, 0x7654, 0x5410, 0xBA98, 0xFEDC, 0x0123, 0x8421, 1, 2, 3]
    cases.append(Case("prmt.b32 {d}, {a}, {b}, {c};", "b32 b32 b32", "b32", permuted,
                      [words, words, selectors]))  # fmt: skip
    return cases


COMPARISONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def selections() -> list[Case]:
    cases = []
    for t in ALL:
        for name, f in COMPARISONS.items():
            text = f"setp.{name}.{t} {{d}}, {{a}}, {{b}};"
            cases.append(Case(text, f"{t} {t}", "pred", lambda a, b, f=f: int(f(a, b))))
        if t[0] == "u":
            for name, other in _UNSIGNED.items():
                text = f"setp.{name}.{t} {{d}}, {{a}}, {{b}};"
                f = COMPARISONS[other]
                cases.append(Case(text, f"{t} {t}", "pred", lambda a, b, f=f: int(f(a, b))))
    for t in ("b16", "b32", "b64"):
        cases.append(Case(f"setp.eq.{t} {{d}}, {{a}}, {{b}};", f"{t} {t}", "pred",
                          lambda a, b: int(a == b)))  # fmt: skip
        cases.append(Case(f"selp.{t} {{d}}, {{a}}, {{b}}, {{c}};", f"{t} {t} pred", t,
                          lambda a, b, c: a if c else b))  # fmt: skip
        cases.append(Case(f"mov.{t} {{d}}, {{a}};", t, t, lambda a: a))
    cases += [
        Case("setp.ge.u32 {d}|_, {a}, {b};", "u32 u32", "pred", lambda a, b: int(a >= b)),
        Case("set.gt.u32.s16 {d}, {a}, {b};", "s16 s16", "u32", lambda a, b: -int(a > b)),
        Case("set.gt.s32.u64 {d}, {a}, {b};", "u64 u64", "s32", lambda a, b: -int(a > b)),
        Case("mov.b32 {d}, {{{a}, {b}}};", "b16 b16", "b32", lambda a, b: a | b << 16),
        Case("mov.b64 {d}, {{{a}, {b}}};", "b32 b32", "b64", lambda a, b: a | b << 32),
        Case("mov.b64 {d}, {{{a}, {b}, {b}, {a}}};", "b16 b16", "b64",
             lambda a, b: a | b << 16 | b << 32 | a << 48),
        Case("mov.b32 {{%rs1, {d}}}, {a};", "b32", "b16", lambda a: a >> 16),
        Case("mov.b32 {{{d}, _}}, {a};", "b32", "b16", lambda a: a),
        Case("mov.b64 {{_, {d}}}, {a};", "b64", "b32", lambda a: a >> 32),
        Case("mov.b64 {{%rs1, %rs2, {d}, %rs3}}, {a};", "b64", "b16", lambda a: a >> 32),
        Case("mov.b32 {d}, 0xdeadbeef;", "b32", "b32", lambda a: 0xDEADBEEF),
    ]  # fmt: skip
    return cases


def conversions() -> list[Case]:
    cases = []
    kinds = ("s8", "u8", *SIGNED, *UNSIGNED)
    for a in kinds:
        for d in kinds:
            # The result of a conversion to 8 bits is extended in its register.
            register = f"{d[0]}16" if d[1:] == "8" else d
            source = f"{a[0]}16" if a[1:] == "8" else a
            cases.append(Case(f"cvt.{d}.{a} {{d}}, {{a}};", source, register,
                              lambda x, a=a, d=d: wrap(wrap(x, a), d)))  # fmt: skip
            (low, high), (least, most) = limits(a), limits(d)
            if low < least or high > most:
                cases.append(Case(f"cvt.sat.{d}.{a} {{d}}, {{a}};", source, register,
                                  lambda x, a=a, d=d: clamped(wrap(x, a), d)))  # fmt: skip
    cases += [
        Case("cvt.u64.u16 {d}, {a};", "u32", "u64", lambda a: a & 0xFFFF),
        Case("cvt.s32.s8 {d}, {a};", "b64", "s32", lambda a: signed(a, 8)),
    ]
    return cases


def limits(kind: str) -> tuple[int, int]:
    return clamped(-(1 << 99), kind), clamped(1 << 99, kind)


def carries() -> list[Case]:
    """Sums of 128 bits, of words and carries."""
    cases = []
    for t, n in (("u32", 32), ("u64", 64), ("s32", 32)):
        mask = (1 << n) - 1
        four = f"{t} {t} {t} {t}"
        few = [values(t)[k::5] for k in range(4)]

        def total(low, high, low2, high2, sign, n=n, mask=mask):
            a = (low & mask) | (high & mask) << n
            b = (low2 & mask) | (high2 & mask) << n
            return (a + sign * b) >> n

        cases += [
            Case(f"add.cc.{t} {{d}}, {{a}}, {{c}};\n addc.{t} {{d}}, {{b}}, {{e}};", four, t,
                 lambda a, b, c, e, f=total: f(a, b, c, e, 1), few),
            Case(f"sub.cc.{t} {{d}}, {{a}}, {{c}};\n subc.{t} {{d}}, {{b}}, {{e}};", four, t,
                 lambda a, b, c, e, f=total: f(a, b, c, e, -1), few),
        ]  # fmt: skip
        three = f"add.cc.{t} {{d}}, {{a}}, {{b}};\n addc.cc.{t} {{d}}, {{c}}, {{c}};\n"
        cases.append(
            Case(
                f"{three} addc.{t} {{d}}, {{e}}, 0;",
                four,
                t,
                lambda a, b, c, e, n=n, mask=mask: (
                    (e & mask) + ((((a & mask) + (b & mask) >> n) + 2 * (c & mask)) >> n)
                ),
                few,
            )
        )
    return cases


GROUPS = [arithmetic, pairs, logic, bit_fields, selections, conversions, carries]
CASES = [case for group in GROUPS for case in group()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_instruction(case: Case):
    check(case)

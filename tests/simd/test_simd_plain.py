"""Kernels in which LLVM finds little to combine: fewer passes give the same."""

import random

import numpy as np
import pytest
from test_simd import call, made

from drjit.jit.target import simd
from drjit.jit.target.simd import kernel, translate

LITERALS = 30  # more than stay in registers
OUTPUT = 3 + LITERALS


def operations(choose: random.Random, values: list[str], count: int) -> list[str]:
    """Lines of products, sums, differences and fused multiply-adds."""
    lines = []
    for k in range(count):
        a, b, c = (choose.choice(values[-8:]) for _ in range(3))
        d = f"c{choose.randrange(LITERALS)}" if choose.random() < 0.5 else c
        forms = [f"{a} * {d}", f"{d} + {a}", f"{a} - {b}", f"fma({a}, {b}, {d})", f"abs({a})"]
        forms += [f"-{a}", f"{d} * 0.5", f"{a} / {d}", f"{d} * {d}", f"select(m, {a}, {d})"]
        lines.append(f"v{k} = {choose.choice(forms)}")
        values = [*values, f"v{k}"]
    return lines


def text_of(seed: int, code: str, *, loop: bool) -> str:
    """A kernel, or one that repeats the operations while a condition holds."""
    choose = random.Random(seed)
    lines = [f"c{k} = literal({code}, p[{3 + k}])" for k in range(LITERALS)]
    lines += [f"x0 = load({code}, p[1], i)", f"x1 = load({code}, p[2], i)", "m = x0 < x1"]
    if loop:
        lines += ["v90 = active(i)", "v91 = x0", "v92 = x1", "v93 = v91 < c0", "v90 = v90 & v93"]
        lines.append("v95 = x0")
        body = operations(choose, ["v91", "v92", "x0"], 50)
        body += ["v91 = select(v90, v49, v91)", "v92 = select(v90, v48, v92)", "v94 = v91 < c1"]
        body += ["v96 = v95 + 1", "v95 = select(v90, v96, v95)", "v97 = v95 < 9"]
        body += ["v90 = v90 & v94", "v90 = v90 & v97", "v90 = going(p[0], v90)"]
        lines += ["while any_lane(v90):", *["    " + s for s in body]]
    else:
        lines += [*operations(choose, ["x0", "x1"], 50), "v91 = v49 + v48"]
    lines.append(f"store({code}, p[{OUTPUT}], i, v91)")
    return "def kernel(i, p):\n" + "".join([f"    {line}\n" for line in lines])


def results(text: str, code: str) -> bytes:
    kind = np.float32 if code == "f32" else np.float64
    rng = np.random.default_rng(0)
    x, y, out = *rng.uniform(0.5, 2, (2, 100)).astype(kind), np.zeros(100, kind)
    literals = rng.uniform(0.5, 1.5, LITERALS).astype(kind)
    words = [np.zeros(6, np.int64), x, y, *literals, out]
    call(text, words, 100, simd.packet_lanes(text), contract=True)
    assert out.any()
    return out.tobytes()


@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_fewer_passes_give_the_same(code, loop, seed, monkeypatch) -> None:
    text = text_of(seed, code, loop=loop)
    assert kernel.module_text(text, "k", 16, True).plain
    quick = results(text, code)
    monkeypatch.setattr(kernel, "_is_plain", lambda text: False)
    made.cache_clear()
    assert results(text, code) == quick


def test_a_long_body_gives_the_same_with_its_check_before_the_test(monkeypatch) -> None:
    text = text_of(7, "f32", loop=True)
    short = results(text, "f32")
    monkeypatch.setattr(translate, "LONG_BODY", 10)
    made.cache_clear()
    assert results(text, "f32") == short
    module = kernel.module_text(text, "k", 16, True)
    assert module.ir.index("load volatile") < module.ir.index("fm")


@pytest.mark.parametrize("statements", [1, translate.LONG_BODY + 1])
def test_an_endless_loop_ends_when_it_is_told_to_stop(statements: int) -> None:
    body = "        v1 = v1 + x0\n" * statements
    text = (
        "def kernel(i, p):\n    x0 = load(u32, p[1], i)\n    v0 = active(i)\n    v1 = x0\n"
        f"    while any_lane(v0):\n{body}        v0 = going(p[0], v0)\n"
        "    store(u32, p[2], i, v1)\n"
    )
    record, out = np.array([0, 0, 0, 0, 0, 1]), np.zeros(20, np.uint32)
    call(text, [record, np.ones(20, np.uint32), out], 20, 16)
    assert set(out) <= {1, 1 + statements}


CALLS = """def kernel(i, p):
    x0 = load(f32, p[1], i)
    x1 = load(f32, p[2], i)
    v0 = sin(x0)
    v1 = u32(x0 * 100.0)
    v2 = remainder(v1, u32(7))
    v3 = minimum(x1, f32(v2))
    v4 = select(v3 < v0, v3, -v0)
    v5 = v3 * v4
    v6 = v5 - exp(x1)
    v7 = floor(x1)
    m = v7 > 0
    if any_lane(m):
        v6 = select(m, v6 * v6, v6)
    store(f32, p[33], i, v6)
"""


def test_uncombined_instructions_give_the_same(monkeypatch) -> None:
    assert kernel.module_text(CALLS, "k", 16, True).uncombined
    quick = results(CALLS, "f32")
    monkeypatch.setattr(kernel, "_is_combined", lambda text: True)
    made.cache_clear()
    assert results(CALLS, "f32") == quick


@pytest.mark.parametrize(
    ("line", "combined"),
    [
        ("v1 = sin(x0)", False),
        ("v1 = f32(x0)", False),
        ("v1 = x0\n    v2 = load(f16, p[1], i)", True),
        ("v1 = x0\n    v2 = load(u64, p[1], i)", True),
        ("v1 = scan(f32, 'add', p[2], i, x0, True)", True),
    ],
)
def test_other_statements_need_passes(line: str, combined: bool) -> None:
    text = (
        "def kernel(i, p):\n    c0 = literal(f32, p[3])\n    c1 = literal(f32, p[4])\n"
        "    x0 = load(f32, p[1], i)\n    x1 = load(f32, p[2], i)\n    v0 = x0 < x1\n    {}\n"
        "    store(f32, p[5], i, v1)\n"
    )
    assert kernel._is_plain(text.format("v1 = x0 * c0"))
    assert not kernel._is_plain(text.format(line))
    assert kernel._is_combined(text.format(line)) == combined

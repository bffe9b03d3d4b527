"""Memory of the PTX emulator: accesses of all kinds and sizes, atomic operations, and faults."""

import re
import struct

import numpy as np
import pytest
from ptx_cases import HEAD, kernel, pack, run

from drjit.jit.cuda.emulator import EmulatorError, Memory, Module
from drjit.jit.cuda.emulator.errors import (
    LaunchError,
    MemoryLimitExceeded,
    Misaligned,
    OutOfBounds,
    PTXSyntaxError,
    TrapExecuted,
    UnknownInstruction,
    UseAfterRelease,
)

AT = "    mad.wide.u32 %rd{k}, %i, {size}, %a{k};\n"


def at(k: int, size: int) -> str:
    """The address of the thread's element of an array, in a register %rd."""
    return AT.format(k=k, size=size)


# ---- loads and stores

LOADS = [
    ("u8", "u1", "u4", "%r1"), ("s8", "i1", "i4", "%r1"), ("b8", "u1", "u4", "%r1"),
    ("u16", "u2", "u4", "%r1"), ("s16", "i2", "i4", "%r1"), ("u32", "u4", "u4", "%r1"),
    ("s32", "i4", "i8", "%rd9"), ("b32", "u4", "u8", "%rd9"), ("u64", "u8", "u8", "%rd9"),
    ("f32", "f4", "f4", "%f1"), ("f64", "f8", "f8", "%d1"), ("f16", "f2", "f2", "%h1"),
    ("s8", "i1", "i2", "%h1"), ("u8", "u1", "u2", "%h1"), ("s16", "i2", "i8", "%rd9"),
]  # fmt: skip
SPACES = [
    ".global", "", ".global.nc", ".volatile.global", ".relaxed.sys.global", ".acquire.gpu.global",
    ".global.ca", ".global.L1::evict_last", ".weak.global",
]  # fmt: skip


@pytest.mark.parametrize("kind,dtype,wide,register", LOADS)
@pytest.mark.parametrize("space", SPACES)
def test_loads_extend_to_the_register(kind, dtype, wide, register, space):
    if kind == "f16":
        kind = "b16"
    x = np.random.default_rng(1).integers(0, 256, 37 * np.dtype(dtype).itemsize, "u1").view(dtype)
    y = np.zeros(37, wide)
    size, wide_size = x.itemsize, y.itemsize
    body = f"""
    setp.ge.u32 %p1, %i, 37;
    @%p1 bra $End;
    {at(0, size)}{at(1, wide_size)}
    ld{space}.{kind} {register}, [%rd0];
    st.global.b{wide_size * 8} [%rd1], {register};
$End:"""
    run(body, x, y, block=64)
    np.testing.assert_array_equal(y, x.astype(wide))


@pytest.mark.parametrize("kind,count", [("b8", 2), ("b8", 4), ("b16", 2), ("u16", 4), ("f32", 2),
                                        ("b32", 4), ("b64", 2), ("f64", 2)])  # fmt: skip
@pytest.mark.parametrize("guard", ["", "@%p1 ", "@!%p1 "])
def test_vectors(kind, count, guard):
    bits = int(kind[1:])
    register = {8: "%h", 16: "%h", 32: "%f", 64: "%rd1"}[bits]
    names = "{" + ", ".join(f"{register}{k}" for k in range(1, count + 1)) + "}"
    x = np.random.default_rng(2).integers(0, 100, (40, count)).astype(f"u{bits // 8}")
    y = np.full_like(x, 7)
    clear = "".join(
        f"mov.b{max(bits, 16)} {register}{k}, {'0f00000000' if register == '%f' else 3};\n"
        for k in range(1, count + 1)
    )
    body = f"""
    setp.lt.u32 %p2, %i, 40;
    @!%p2 bra $End;
    and.b32 %r1, %i, 1;
    setp.eq.u32 %p1, %r1, 0;
    {clear}
    {at(0, count * bits // 8)}{at(1, count * bits // 8)}
    {guard}ld.global.v{count}.{kind} {names}, [%rd0];
    st.global.v{count}.{kind} [%rd1], {names};
$End:"""
    run(body, x, y, block=64)
    chosen = np.ones(40, bool) if not guard else np.arange(40) % 2 == ("!" in guard)
    unread = np.zeros_like(x) if register == "%f" else np.full_like(x, 3)
    np.testing.assert_array_equal(y, np.where(chosen[:, None], x, unread))
    z = np.full_like(x, 7)
    body = body.replace(guard + "ld", "ld").replace("    st.", f"    {guard}st.")
    run(body, x, z, block=64)
    np.testing.assert_array_equal(z, np.where(chosen[:, None], x, 7))


def test_stores_truncate():
    x = np.zeros((32, 8), "u1")
    body = (
        at(0, 8)
        + """
    mov.b64 %rd1, 0x1122334455667788;
    st.global.b64 [%rd0], 0;
    st.global.u8 [%rd0], %rd1;
    st.global.u16 [%rd0+2], %rd1;
    mov.u32 %r1, 0xaabbccdd;
    st.global.b8 [%rd0+1], %r1;
    st.global.b32 [%rd0+4], %rd1;"""
    )
    run(body, x)
    assert x[3].tolist() == [0x88, 0xDD, 0x88, 0x77, 0x88, 0x77, 0x66, 0x55]


def test_eight_words_at_a_time():
    x, y = np.arange(256, dtype="u4"), np.zeros(256, "u4")
    names = "{" + ", ".join(f"%r{k}" for k in range(8)) + "}"
    body = f"{at(0, 32)}{at(1, 32)} ld.global.v8.b32 {names}, [%rd0];"
    run(body + f"st.global.v8.b32 [%rd1], {names};", x, y, target="sm_100")
    np.testing.assert_array_equal(x, y)


def test_one_address_for_all_threads():
    x, y = np.array([5], "u4"), np.zeros(64, "u4")
    run("ld.global.u32 %r1, [%a0]; add.u32 %r1, %r1, %i;" + at(1, 4) + "st.global.u32 [%rd1], %r1;",
        x, y, block=64)  # fmt: skip
    np.testing.assert_array_equal(y, 5 + np.arange(64))
    # Of several threads that write to one address, the last one prevails.
    run("st.global.u32 [%a0], %i;", x, block=64)
    assert x[0] == 63
    run("st.global.v2.u32 [%a0], {%i, %t};", z := np.zeros(2, "u4"), block=64)
    assert z.tolist() == [63, 63]


def test_parameters_of_all_types():
    text = (
        HEAD.format(target="sm_90")
        + """
.visible .entry k(.param .u8 a, .param .align 8 .b8 block[24], .param .f32 f, .param .s16 h,
                  .param .u64 .ptr .global .align 4 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>; .reg .f64 %d<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u8 %r1, [a];
    st.global.u32 [%rd1], %r1;
    ld.param.s16 %r2, [h];
    st.global.s32 [%rd1+4], %r2;
    ld.param.f32 %f1, [f];
    st.global.f32 [%rd1+8], %f1;
    ld.param.v2.u32 {%r3, %r4}, [block+8];
    st.global.v2.u32 [%rd1+16], {%r3, %r4};
    mov.b64 %rd2, block;
    mov.u32 %r5, %tid.x;
    mul.wide.u32 %rd3, %r5, 8;
    add.u64 %rd2, %rd2, %rd3;
    ld.param.u64 %rd4, [%rd2];
    add.u64 %rd5, %rd1, %rd3;
    st.global.u64 [%rd5+24], %rd4;
    cvta.param.u64 %rd6, %rd2;
    ld.u64 %rd7, [%rd6];
    st.global.u64 [%rd5+48], %rd7;
    ret;
}
"""
    )
    memory = Memory()
    entry = Module(text, memory).entries["k"]
    assert entry.parameter_bytes == 48
    out = memory.allocate(80)
    data = struct.pack("<B7xQQQfhxxQ", 200, 1, 2, 3, 1.5, -7, out)
    entry.launch(1, 3, data)
    view = memory.view(out, 72)
    assert view[:8].view("i4").tolist() == [200, -7]
    assert view[8:12].view("f4")[0] == 1.5
    assert view[16:72].view("u8").tolist() == [2, 1, 2, 3, 1, 2, 3]
    with pytest.raises(LaunchError, match="48 bytes of parameters, but 40 are given"):
        entry.launch(1, 3, data[:40])
    with pytest.raises(OutOfBounds, match="the parameters of k"):
        entry.launch(1, 9, data)


def test_variables_and_their_values():
    before = """
.global .align 4 .b8 bytes[8] = {1, 2, 0xff};
.const .align 4 .f32 numbers[3] = {1.5, 0f40000000, -2.0};
.global .u32 counter;
.global .s16 table[2][2] = {{1, -2}, {3, 4}};
.global .align 8 .u64 pointers[2] = {generic(counter), table+4};
.visible .const .align 8 .f64 pi = 0d400921FB54442D18;
"""
    body = """
    mov.u64 %rd1, numbers;
    mad.wide.u32 %rd1, %t, 4, %rd1;
    ld.const.f32 %f1, [%rd1];
    mad.wide.u32 %rd2, %t, 4, %a0;
    st.global.f32 [%rd2], %f1;
    ld.global.u64 %rd3, [pointers];
    atom.global.add.u32 %r1, [%rd3], 1;
    ld.global.u64 %rd3, [pointers+8];
    ld.global.s16 %r2, [%rd3+2];
    st.global.s32 [%a0+12], %r2;
    ld.const.f64 %d1, [pi];
    st.global.f64 [%a0+16], %d1;
    ld.global.u8 %r3, [bytes+2];
    st.global.u32 [%a0+24], %r3;
    ld.const.f32 %f2, [numbers+8];
    st.global.f32 [%a0+28], %f2;
"""
    out = np.zeros(8, "u4")
    result = run(body, out, before=before, block=3)
    assert out[:3].view("f4").tolist() == [1.5, 2.0, -2.0]
    assert out[3] == 4 and out[4:6].view("f8")[0] == np.pi and out[6] == 255
    assert out[7:].view("f4")[0] == -2
    address = result.module.addresses["counter"]
    assert result.memory.view(address, 4).view("u4")[0] == 3


def test_local_memory_is_of_a_thread():
    body = """
    .local .align 8 .b8 stack[16];
    mov.u64 %rd1, stack;
    cvta.local.u64 %rd2, %rd1;
    st.local.u32 [%rd1], %i;
    st.local.v2.u32 [stack+8], {%i, 7};
    ld.u32 %r1, [%rd2];
    add.u32 %r1, %r1, 100;
    st.u32 [%rd2+4], %r1;
    ld.local.v2.u32 {%r2, %r3}, [stack];
    ld.v2.u32 {%r4, %r5}, [%rd2+8];
    mad.wide.u32 %rd3, %i, 16, %a0;
    st.global.v4.u32 [%rd3], {%r2, %r3, %r4, %r5};
    cvta.to.local.u64 %rd4, %rd2;
    ld.local.u32 %r1, [%rd4+12];
    st.global.u32 [%rd3+12], %r1;"""
    out = np.zeros((96, 4), "u4")
    run(body, out, grid=2, block=48)
    i = np.arange(96)
    np.testing.assert_array_equal(out, np.stack([i, i + 100, i, np.full(96, 7)], 1))
    with pytest.raises(OutOfBounds, match="16 bytes of a thread"):
        run(".local .b8 s[16]; mul.lo.u32 %r1, %t, 4; cvt.u64.u32 %rd1, %r1; mov.b64 %rd2, s;"
            "add.u64 %rd1, %rd1, %rd2; st.local.u32 [%rd1], %t;", block=5)  # fmt: skip


def test_addresses_without_a_space():
    """A generic access may go to global, shared and local memory, in one instruction."""
    before = ".shared .align 4 .b8 s[128];\n"
    body = """
    .local .align 4 .b8 l[4];
    mov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %t;
    cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd1, %rd1;
    mov.b64 %rd2, l; add.u32 %r2, %t, 1000; st.local.u32 [l], %r2; cvta.local.u64 %rd2, %rd2;
    mad.wide.u32 %rd3, %t, 4, %a0;
    rem.u32 %r3, %t, 3;
    setp.eq.u32 %p1, %r3, 1; setp.eq.u32 %p2, %r3, 2;
    selp.b64 %rd4, %rd1, %rd2, %p1; selp.b64 %rd4, %rd3, %rd4, %p2;
    ld.u32 %r4, [%rd4];
    add.u32 %r4, %r4, 5;
    st.u32 [%rd4], %r4;
    atom.add.u32 %r5, [%rd4], 1;
    ld.volatile.u32 %r6, [%rd4];
    mad.wide.u32 %rd5, %t, 12, %a1;
    st.global.u32 [%rd5], %r4; st.global.u32 [%rd5+4], %r5; st.global.u32 [%rd5+8], %r6;"""
    x, out = np.arange(32, dtype="u4") + 500, np.zeros((32, 3), "u4")
    run(body, x, out, before=before)
    t = np.arange(32)
    want = np.choose(t % 3, [t + 1000, t, t + 500]) + 5
    np.testing.assert_array_equal(out, np.stack([want, want, want + 1], 1))
    np.testing.assert_array_equal(x, np.where(t % 3 == 2, t + 506, t + 500))


# ---- atomic operations

KINDS = {
    "u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8", "f32": "f4", "f64": "f8", "b32": "u4",
    "b64": "u8", "b16": "u2",
}  # fmt: skip
ATOMICS = [
    *[("add", k) for k in ("u32", "s32", "u64", "f32", "f64")],
    *[(o, k) for o in ("min", "max") for k in ("u32", "s32", "u64", "s64")],
    *[(o, k) for o in ("and", "or", "xor") for k in ("b32", "b64")],
    *[("exch", k) for k in ("b32", "b64")],
    *[("cas", k) for k in ("b32", "b64", "b16")],
]  # fmt: skip


def apply(operation, old, v, w):
    """The definitions of the PTX ISA."""
    return {
        "add": lambda: old + v, "min": lambda: min(old, v), "max": lambda: max(old, v),
        "and": lambda: old & v, "or": lambda: old | v, "xor": lambda: old ^ v,
        "exch": lambda: v, "cas": lambda: w if old == v else old,
    }[operation]()  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize("targets", [1, 5, 96])
@pytest.mark.parametrize("operation,kind", ATOMICS)
def test_atomic(operation, kind, targets, space):
    rng = np.random.default_rng(3)
    dtype = np.dtype(KINDS[kind])
    bits = dtype.itemsize * 8
    n = 96
    if dtype.kind == "f":
        values, initial = (rng.standard_normal(k).astype(dtype) for k in (n, targets))
    elif operation == "cas":
        values, initial = (rng.integers(0, 4, k).astype(dtype) for k in (n, targets))
    else:
        info = np.iinfo(dtype)
        values, initial = (rng.integers(info.min, info.max, k, dtype) for k in (n, targets))
    swaps = rng.integers(0, 4, n).astype("u8").astype(dtype)
    index = rng.integers(0, targets, n).astype("u4")
    name = {16: "%h", 32: "%f" if kind == "f32" else "%r1", 64: "%d" if kind == "f64" else "%rd1"}
    x, y, d = (f"{name[bits]}{k}" for k in (2, 3, 4))
    shared = ".shared" if space != "global" else ".global"
    size = dtype.itemsize
    third = f", {y}" if operation == "cas" else ""
    dot = f".{space}" if space else ""
    scope = ".relaxed.gpu" if targets == 5 else ""
    body = f"""
    {at(1, size)}{at(2, size)}{at(3, 4)}{at(4, size)}
    ld.global.b{bits} {x}, [%rd1]; ld.global.b{bits} {y}, [%rd2]; ld.global.u32 %r9, [%rd3];
    mov.u64 %rd20, %a0;
    setp.lt.u32 %p1, %t, {targets};
    mov.u64 %rd21, s;
    @%p1 mad.wide.u32 %rd22, %t, {size}, %a0;
    @%p1 mad.wide.u32 %rd23, %t, {size}, %rd21;
    @%p1 ld.global.b{bits} {d}, [%rd22];
    @%p1 st.shared.b{bits} [%rd23], {d};
    bar.sync 0;
    mov.u64 %rd24, {"s" if shared == ".shared" else "%a0"};
    {"cvta.shared.u64 %rd24, %rd24;" if space == "" else ""}
    mad.wide.u32 %rd20, %r9, {size}, %rd24;
    atom{scope}{dot}.{operation}.{kind} {d}, [%rd20], {x}{third};
    st.global.b{bits} [%rd4], {d};
    bar.sync 0;
    @%p1 ld{shared}.b{bits} {d}, [{"%rd23" if shared == ".shared" else "%rd22"}];
    @%p1 st.global.b{bits} [%rd22], {d};"""
    before = f".shared .align 8 .b8 s[{targets * size}];\n"
    memory, old = initial.copy(), np.zeros(n, dtype)
    run(body, memory, values, swaps, index, old, block=96, before=before)
    want, seen = initial.copy(), np.zeros(n, dtype)
    with np.errstate(over="ignore"):
        for k in range(n):
            seen[k] = want[index[k]]
            want[index[k]] = apply(operation, want[index[k]], values[k], swaps[k])
    np.testing.assert_array_equal(old, seen)
    np.testing.assert_array_equal(memory, want)
    if operation not in ("exch", "cas"):
        memory = initial.copy()
        run(re.sub(r"atom(.*?) \S+, \[", r"red\1 [", body), memory, values, swaps, index, old,
            block=96, before=before)  # fmt: skip
        np.testing.assert_array_equal(memory, want)


@pytest.mark.parametrize("space", [".global", ".shared", ".global generic", ".shared generic"])
@pytest.mark.parametrize("form", ["red.{space}add.f32 [%rd20], %f1;",
                                  "atom.{space}add.f32 %f2, [%rd20], %f1;"])  # fmt: skip
def test_sums_of_subnormal_numbers(space, form):
    """PTX ISA: atom.add.f32 on global memory flushes subnormal inputs and results to zero of the
    same sign, and on shared memory it does not."""
    least = np.float32(2.0**-126)
    x = np.zeros(96, "f4")
    x[:8] = 1e-40, -1e-40, least, -least * 1.5, least, least / 2, 1, -1e-39
    index = np.full(96, 5, "u4")
    index[:8] = 0, 1, 2, 2, 3, 3, 4, 4
    initial = np.array([1e-39, -0.0, 0, 0, 0, 0], "f4")
    here, generic = space.split(" ")[0], "generic" in space
    sums = initial.copy()
    body = f"""
    {at(1, 4)}{at(2, 4)}
    ld.global.f32 %f1, [%rd1]; ld.global.u32 %r9, [%rd2];
    setp.lt.u32 %p1, %t, 6;
    mov.u64 %rd21, s;
    @%p1 mad.wide.u32 %rd22, %t, 4, %a0;
    @%p1 mad.wide.u32 %rd23, %t, 4, %rd21;
    @%p1 ld.global.f32 %f3, [%rd22];
    @%p1 st.shared.f32 [%rd23], %f3;
    bar.sync 0;
    mov.u64 %rd24, {"s" if here == ".shared" else "%a0"};
    {"cvta.shared.u64 %rd24, %rd24;" if generic and here == ".shared" else ""}
    mad.wide.u32 %rd20, %r9, 4, %rd24;
    {form.format(space="" if generic else here[1:] + ".")}
    bar.sync 0;
    @%p1 ld{here}.f32 %f3, [{"%rd23" if here == ".shared" else "%rd22"}];
    @%p1 st.global.f32 [%rd22], %f3;"""
    run(body, sums, x, index, block=96, before=".shared .align 8 .b8 s[24];\n")
    if here == ".global":
        want = np.array([0, -0.0, -0.0, least, 1, 0], "f4")
    else:
        want = initial.copy()
        for k in range(96):
            want[index[k]] += x[k]
    np.testing.assert_array_equal(sums.view("u4"), want.view("u4"))


def test_atomic_vectors():
    x = np.random.default_rng(5).integers(0, 9, (64, 4)).astype("f4")
    out = np.zeros((2, 4), "f4")
    body = (
        at(1, 16)
        + """
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    and.b32 %r1, %i, 1; mad.wide.u32 %rd2, %r1, 16, %a0;
    red.global.v4.f32.add [%rd2], {%f1, %f2, %f3, %f4};"""
    )
    run(body, out, x, block=64)
    np.testing.assert_array_equal(out, [x[0::2].sum(0), x[1::2].sum(0)])
    old = np.zeros((64, 2), "f4")
    body = at(1, 8) + "atom.global.v2.f32.add {%f1, %f2}, [%a0], {0f3F800000, 0f40000000};"
    run(body + "st.global.v2.f32 [%rd1], {%f1, %f2};", np.zeros(2, "f4"), old, block=64)
    np.testing.assert_array_equal(old, np.arange(64)[:, None] * [1, 2])


def test_guarded_atomics():
    x, old = np.zeros(1, "u4"), np.full(64, 99, "u4")
    body = (
        at(1, 4)
        + """
    and.b32 %r1, %i, 1; setp.eq.u32 %p1, %r1, 1; mov.u32 %r2, 77;
    @%p1 atom.global.add.u32 %r2, [%a0], 10;
    @!%p1 red.global.add.u32 [%a0], 1;
    st.global.u32 [%rd1], %r2;"""
    )
    run(body, x, old, block=64)
    np.testing.assert_array_equal(old, np.where(np.arange(64) % 2, np.arange(64) // 2 * 10, 77))
    assert x[0] == 32 * 10 + 32


# ---- faults

FAULTS = [
    ("ld.global.u32 %r1, [%rd0+4];", OutOfBounds,
     "out of bounds: read of 4 bytes at .*: 4 bytes beyond the end of 'a0' \\(128 bytes at", 31),
    ("st.global.u32 [%rd0+-4], %t;", OutOfBounds,
     "out of bounds: write of 4 bytes at .*: 4 bytes before the beginning of 'a0'", 0),
    ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0];", Misaligned,
     "misaligned read of 16 bytes at .*: not a multiple of 16", 1),
    ("st.global.u16 [%rd0+1], %h1;", Misaligned, "misaligned write of 2 bytes", 0),
    ("mov.u64 %rd9, 0; ld.global.f64 %d1, [%rd9];", OutOfBounds,
     "read of 8 bytes at 0x0: far from any", 0),
    ("atom.global.add.u32 %r1, [%rd0+12], 1;", OutOfBounds, "atomic access of 4 bytes", 29),
    ("setp.gt.u32 %p1, %t, 30; @%p1 ld.global.u32 %r1, [%rd0+4];", OutOfBounds, "beyond", 31),
    ("setp.gt.u32 %p1, %t, 30; @%p1 red.global.add.u32 [%rd0+4], 1;", OutOfBounds, "beyond", 31),
    ("setp.gt.u32 %p1, %t, 30; @!%p1 bra $E; st.global.u32 [%rd0+4], %r1; $E:", OutOfBounds,
     "beyond", 31),
    ("mov.u64 %rd5, 0x7fffffffffffffff; ld.global.u8 %r1, [%rd5];", OutOfBounds, "far from", 0),
    ("setp.eq.u32 %p1, %t, 9; selp.b64 %rd6, -8, %rd0, %p1; ld.global.u32 %r1, [%rd6];",
     OutOfBounds, "at 0xfffffffffffffff8: far from any allocation", 9),
    ("setp.eq.u32 %p1, %t, 3; @%p1 trap;", TrapExecuted, "the kernel executed trap", 3),
    ("shl.b32 %r1, %t, 3; mov.u32 %r2, s; st.shared.u32 [%r1], %t;", OutOfBounds,
     "offset 0x80 of shared memory: 4 bytes beyond the end of the 128 bytes of a block", 16),
    ("or.b32 %r1, %t, 64; mov.u32 %r2, s; ld.shared.u16 %r2, [%r1];", Misaligned,
     "of shared memory: not a", 1),
    ("mov.u32 %r1, -4; st.shared.u32 [%r1], %t;", OutOfBounds, "before the beginning of the", 0),
]  # fmt: skip


@pytest.mark.parametrize("body,kind,message,lane", FAULTS)
def test_faults_say_what_and_where(body, kind, message, lane):
    x = np.zeros(32, "u4")
    with pytest.raises(kind, match=message) as caught:
        run(at(0, 4) + "    " + body, x, before=".shared .b8 s[128];\n")
    error = caught.value
    assert isinstance(error, EmulatorError)
    assert error.kernel == "k" and error.block == (0, 0, 0)
    assert error.thread == (lane, 0, 0) and error.lane == lane
    text = str(error)
    assert f"line {error.line}: " in text and error.instruction in text
    instruction = error.instruction.split(" ", 2)
    assert instruction[0] in body or instruction[1] in body
    assert f"thread ({lane}, 0, 0), warp 0, lane {lane}" in text
    if kind is not TrapExecuted:
        assert error.registers and all(name in text for name in error.registers)
        if "%rd0" in error.registers and "+" in body:
            assert error.registers["%rd0"].startswith("0x")


def test_faults_name_blocks_of_three_dimensions():
    body = """
    mov.u32 %r1, %ctaid.y; mov.u32 %r2, %tid.z;
    setp.eq.u32 %p1, %r1, 2; setp.eq.u32 %p2, %r2, 1; and.pred %p1, %p1, %p2;
    mov.u32 %r3, %ctaid.x; setp.eq.u32 %p2, %r3, 1; and.pred %p1, %p1, %p2;
    mov.u32 %r4, %tid.y; setp.eq.u32 %p2, %r4, 1; and.pred %p1, %p1, %p2;
    mov.u64 %rd9, 0;
    @%p1 ld.global.u32 %r9, [%rd9];"""
    with pytest.raises(OutOfBounds) as caught:
        run(body, grid=(2, 3, 2), block=(3, 2, 2))
    assert caught.value.block == (1, 2, 0) and caught.value.thread == (0, 1, 1)
    assert caught.value.lane == 9


def test_several_allocations_are_searched():
    """Addresses of one instruction in several allocations, and one that is in none."""
    memory = Memory()
    arrays = [memory.allocate(16, f"x{k}") for k in range(5)]
    for k, address in enumerate(arrays):
        memory.view(address, 16).view("u4")[:] = k
    table = memory.allocate(40, "table")
    memory.view(table, 40).view("u8")[:] = arrays
    out = memory.allocate(20, "out")
    body = """
    mad.wide.u32 %rd1, %t, 8, %a0; ld.global.u64 %rd2, [%rd1]; ld.global.u32 %r1, [%rd2+12];
    mad.wide.u32 %rd3, %t, 4, %a1; st.global.u32 [%rd3], %r1;"""
    parameters = pack([np.uint64(table), np.uint64(out)])
    text = kernel(body, [np.zeros(1)] * 2)
    entry = (module := Module(text, memory)).entries["k"]
    entry.launch(1, 5, parameters)
    assert memory.view(out, 20).view("u4").tolist() == [0, 1, 2, 3, 4]
    memory.release(arrays[3])
    with pytest.raises(
        UseAfterRelease, match=r"12 bytes into 'x3' .* which has been released"
    ) as e:
        entry.launch(1, 5, parameters)
    assert e.value.lane == 3
    del module


def test_fresh_memory_is_not_zero():
    memory = Memory()
    a = memory.allocate(8)
    assert memory.view(a, 8).tolist() == [0xCB] * 8
    out = np.zeros(32, "u4")
    run("mov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; ld.shared.u32 %r2, [%r1];" + at(0, 4)
        + "st.global.u32 [%rd0], %r2;", out, before=".shared .b8 s[128];\n")  # fmt: skip
    assert (out == 0xCBCBCBCB).all()


def test_memory_has_a_limit_and_counts():
    memory = Memory(limit=100)
    a = memory.allocate(60, "x")
    assert a % 256 == 0 and memory.used == 60
    with pytest.raises(
        MemoryLimitExceeded, match="out of memory: 50 bytes asked for, 60 of 100 in use"
    ):
        memory.allocate(50)
    memory.release(a)
    assert memory.used == 0
    memory.release(memory.allocate(100))
    with pytest.raises(EmulatorError, match="is not the address of a live allocation"):
        memory.release(a)
    with pytest.raises(UseAfterRelease):
        memory.view(a, 4)
    with pytest.raises(OutOfBounds):
        memory.view(memory.allocate(10), 11)


def test_host_memory_can_be_adopted():
    memory = Memory(limit=0)
    x = np.arange(64, dtype="u4")
    memory.adopt(x.ctypes.data, x.nbytes, x)
    assert memory.used == 0
    with pytest.raises(EmulatorError, match="overlap 'host memory'"):
        memory.adopt(x.ctypes.data + 16, 16, x)
    text = kernel(at(0, 4) + "st.global.u32 [%rd0], 7;", [x])
    (module := Module(text, memory)).entries["k"].launch(2, 32, pack([np.uint64(x.ctypes.data)]))
    assert (x == 7).all()
    memory.release(x.ctypes.data)
    with pytest.raises(OutOfBounds):
        module.entries["k"].launch(2, 32, pack([np.uint64(x.ctypes.data)]))


@pytest.mark.parametrize("grid,block,shared,message", [
    (0, 32, 0, "the grid has an impossible size: 0"), (1, (1, 1, 1, 1), 0, "block has an imposs"),
    (1, 2000, 0, "cannot have .2000, 1, 1. threads: at most 1024"),
    ((1, 70000), 1, 0, "the grid has an impossible size"), (1, 32, 1 << 20, "of shared memory"),
])  # fmt: skip
def test_impossible_launches(grid, block, shared, message):
    with pytest.raises(LaunchError, match=message):
        run("", grid=grid, block=block, shared=shared)


def test_required_sizes():
    text = HEAD.format(target="sm_90") + ".visible .entry k() .{} {{ ret; }}\n"
    memory = Memory()
    module = Module(text.format("reqntid 64, 1, 1"), memory)
    module.entries["k"].launch(1, 64, b"")
    with pytest.raises(LaunchError, match=r"needs blocks of .64, 1, 1., not .32, 1, 1."):
        module.entries["k"].launch(1, 32, b"")
    module = Module(text.format("maxntid 64, 2, 1"), memory)
    module.entries["k"].launch(1, 128, b"")
    with pytest.raises(LaunchError, match="at most 128"):
        module.entries["k"].launch(1, 129, b"")


@pytest.mark.parametrize("body,kind,message", [
    ("frobnicate.u32 %r1, %r2;", UnknownInstruction, "unknown instruction frobnicate.u32"),
    ("add.u33 %r1, %r2, %r3;", UnknownInstruction, "unknown variant of an instruction: add.u33"),
    ("add.u32 %q1, %r2, %r3;", PTXSyntaxError, "the register %q1 is not declared"),
    ("ld.global.u32 %r1, [nowhere];", UnknownInstruction, "nowhere is not declared"),
    ("bra $Nowhere;", UnknownInstruction, "the label \\$Nowhere does not exist"),
    ("call nothing, ();", UnknownInstruction, "the function nothing has no code"),
    ("add.u32 %r1, %r2, 0z;", PTXSyntaxError, "0z is not a number"),
])  # fmt: skip
def test_texts_that_are_not_understood(body, kind, message):
    with pytest.raises(kind, match=message) as caught:
        run(body)
    assert caught.value.kernel == "k" and body.split(";")[0] in str(caught.value)
    assert body.split(";")[0] in caught.value.instruction


def test_syntax_errors_name_the_line():
    with pytest.raises(PTXSyntaxError, match="line 5 is not understood: bra"):
        Module(".version 8.0\n.target sm_90\n.address_size 64\n.entry k()\n{ bra ", Memory())
    with pytest.raises(PTXSyntaxError, match="line 3 is not understood: nonsense"):
        Module(".version 8.0\n\nnonsense here\n", Memory())


def test_modules_do_not_keep_each_other_alive():
    """The same text loaded twice has two sets of variables."""
    text = (
        HEAD.format(target="sm_90")
        + """
.global .u32 x;
.entry k() { .reg .b32 %r<2>; atom.global.add.u32 %r1, [x], 1; ret; }
"""
    )
    memory = Memory()
    first, second = Module(text, memory), Module(text, memory)
    first.entries["k"].launch(1, 3, b"")
    second.entries["k"].launch(1, 5, b"")
    values = [memory.view(m.addresses["x"], 4).view("u4")[0] for m in (first, second)]
    assert values == [3, 5]

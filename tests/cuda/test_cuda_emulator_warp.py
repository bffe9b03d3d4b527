"""Warps, shared memory, barriers and matrices of the PTX emulator."""

import re
from itertools import pairwise

import numpy as np
import pytest
from ptx_cases import run

from drjit.jit.cuda.emulator.errors import (
    DivergentCollective,
    Misaligned,
    OutOfBounds,
    Race,
)

OUT = "\n    mad.wide.u32 %rd30, %i, 4, %a0; st.global.b32 [%rd30], {};"
FULL = 0xFFFFFFFF
T = np.arange(32)


# ---- shuffles


def shuffled(mode, lane, b, c):
    """The pseudo code of the PTX ISA: source lane, and whether it is within bounds."""
    bval, cval, mask = b & 31, c & 31, (c >> 8) & 31
    highest = (lane & mask) | (cval & ~mask)
    lowest = lane & mask
    if mode == "up":
        j = lane - bval
        p = j >= highest
    elif mode == "down":
        j = lane + bval
        p = j <= highest
    elif mode == "bfly":
        j = lane ^ bval
        p = j <= highest
    else:
        j = lowest | (bval & ~mask)
        p = j <= highest
    return (j if p else lane), p


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("uniform", [True, False])
def test_shuffles(mode, uniform):
    for c in (0, 31, 0x1F00, 0x1F, 0x181F, 0x1807, 0x1C03, 0x100F, 0x0F):
        for b in (0, 1, 5, 16, 31):
            # Differing lane by lane: the offset, plus a number that does not change it.
            amount = f"{b}" if uniform else "%r5"
            body = f"""
            mad.lo.u32 %r5, %i, 32, {b}; add.u32 %r1, %i, 1000;
            shfl.sync.{mode}.b32 %r2|%p1, %r1, {amount}, {c}, -1;
            selp.u32 %r3, 1, 0, %p1;
            mad.wide.u32 %rd1, %i, 8, %a0; st.global.v2.u32 [%rd1], {{%r2, %r3}};"""
            out = np.zeros((64, 2), "u4")
            run(body, out, block=64)
            want = [shuffled(mode, k % 32, b, c) for k in range(64)]
            assert out[:, 0].tolist() == [k // 32 * 32 + j + 1000 for k, (j, _) in enumerate(want)]
            assert out[:, 1].tolist() == [int(p) for _, p in want]


def test_shuffles_of_numbers_and_without_a_predicate():
    x = np.linspace(0, 1, 64, dtype="f4")
    out = np.zeros(64, "f4")
    body = "mad.wide.u32 %rd1, %i, 4, %a1; ld.global.f32 %f1, [%rd1]; add.f32 %f1, %f1, %f1;"
    run(body + "shfl.sync.bfly.b32 %f2, %f1, 1, 31, 0xffffffff;" + OUT.format("%f2"), out, x,
        block=64)  # fmt: skip
    np.testing.assert_array_equal(out, 2 * x.reshape(-1, 2)[:, ::-1].reshape(-1))


SUM = "".join(
    f"shfl.sync.bfly.b32 %r2, %r1, {k}, 31, {{m}}; add.u32 %r1, %r1, %r2;\n"
    for k in (16, 8, 4, 2, 1)
)


@pytest.mark.parametrize("block", [32, 96, 128])
def test_butterfly_sum(block):
    out = np.zeros(2 * block, "u4")
    run("mov.u32 %r1, %i;" + SUM.format(m=-1) + OUT.format("%r1"), out, grid=2, block=block)
    want = np.repeat(np.arange(2 * block).reshape(-1, 32).sum(1), 32)
    np.testing.assert_array_equal(out, want)


def test_parts_of_a_warp():
    """Both halves of a warp, in different branches, each with its own mask."""
    body = """
    mov.u32 %r1, %t; setp.lt.u32 %p1, %t, 16; @%p1 bra $Low;
    shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff0000; vote.sync.ballot.b32 %r3, %p1, 0xffff0000;
    bra $End;
$Low:
    shfl.sync.bfly.b32 %r2, %r1, 2, 31, 0xffff; vote.sync.ballot.b32 %r3, %p1, 0xffff;
$End:
    mad.wide.u32 %rd1, %i, 8, %a0; st.global.v2.u32 [%rd1], {%r2, %r3};"""
    out = np.zeros((32, 2), "u4")
    run(body, out)
    np.testing.assert_array_equal(out[:, 0], np.where(T < 16, T ^ 2, T ^ 1))
    np.testing.assert_array_equal(out[:, 1], np.where(T < 16, 0xFFFF, 0))


def test_groups_within_one_instruction():
    """Masks that differ by lane: each group has its own result."""
    body = """
    and.b32 %r1, %t, 3;
    mov.u32 %r2, 0x11111111; shl.b32 %r2, %r2, %r1;
    setp.gt.u32 %p1, %t, 15;
    vote.sync.ballot.b32 %r4, %p1, %r2;
    vote.sync.any.pred %p2, %p1, %r2;
    setp.eq.u32 %p3, %r1, 2;
    vote.sync.all.pred %p4, %p3, %r2;
    vote.sync.uni.pred %p5, %p3, %r2;
    selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 2, 0, %p4; selp.u32 %r7, 4, 0, %p5;
    or.b32 %r5, %r5, %r6; or.b32 %r5, %r5, %r7;
    mad.wide.u32 %rd1, %i, 8, %a0; st.global.v2.u32 [%rd1], {%r4, %r5};"""
    out = np.zeros((32, 2), "u4")
    run(body, out)
    groups = [sum(1 << j for j in range(32) if j % 4 == k % 4) for k in range(32)]
    assert out[:, 0].tolist() == [g & 0xFFFF0000 for g in groups]
    assert out[:, 1].tolist() == [1 + 2 * (k % 4 == 2) + 4 for k in range(32)]


def test_votes():
    body = """
    setp.gt.u32 %p1, %t, 40; setp.lt.u32 %p2, %t, 100;
    vote.sync.all.pred %p3, %p2, -1; vote.sync.any.pred %p4, %p1, -1;
    vote.sync.uni.pred %p5, %p1, -1; vote.sync.ballot.b32 %r1, %p1, -1;
    vote.sync.any.pred %p6, !%p2, -1; vote.sync.ballot.b32 %r2, !%p1, -1;
    selp.u32 %r3, 1, 0, %p3; selp.u32 %r4, 2, 0, %p4; selp.u32 %r5, 4, 0, %p5;
    selp.u32 %r6, 8, 0, %p6;
    or.b32 %r3, %r3, %r4; or.b32 %r5, %r5, %r6; or.b32 %r3, %r3, %r5; not.b32 %r2, %r2;
    mad.wide.u32 %rd1, %i, 12, %a0;
    st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2; st.global.u32 [%rd1+8], %r3;"""
    out = np.zeros((96, 3), "u4")
    run(body, out, block=96)
    masks = np.repeat([0, FULL << 9 & FULL, FULL], 32)
    np.testing.assert_array_equal(out[:, 0], masks)
    np.testing.assert_array_equal(out[:, 1], masks)
    np.testing.assert_array_equal(out[:, 2], np.repeat([1 + 4, 1 + 2, 1 + 2 + 4], 32))


# ---- instructions that not all threads reach

COLLECTIVES = [
    "shfl.sync.bfly.b32 %r2, %t, 1, 31, -1;", "vote.sync.any.pred %p2, %p1, -1;",
    "bar.warp.sync -1;",
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r4, %r5}, {%r6, %r7}, {%r8}, {%r9, %r10};",
]  # fmt: skip


@pytest.mark.parametrize("instruction", COLLECTIVES)
def test_divergent_collectives_are_noticed(instruction):
    """Seven lanes wait in one branch, the others in another: for each other."""
    body = f"""
    setp.lt.u32 %p1, %t, 7; @%p1 bra $A;
    {instruction} bra $End;
$A: {instruction}
$End:"""
    with pytest.raises(DivergentCollective, match="divergent collective: threads wait for") as e:
        run(body)
    assert e.value.line and re.search(r"thread .* at line \d+; thread .* at line \d+", str(e.value))
    assert e.value.instruction.startswith((instruction[:8], "$A: " + instruction[:8]))
    run(f"setp.lt.u32 %p1, %t, 7; @%p1 bra $A; add.u32 %r1, %r1, 1; $A: {instruction}")


def test_reading_from_a_lane_that_does_not_take_part():
    body = "setp.lt.u32 %p1, %t, 7; @%p1 bra $End; shfl.sync.idx.b32 %r2, %t, {}, 31, {}; $End:"
    with pytest.raises(DivergentCollective, match="lane 7 reads from lane 0, which does not take"):
        run(body.format(0, "-1"))  # the others are finished
    with pytest.raises(DivergentCollective, match="lane 8 reads from lane 9, which does not take"):
        run(
            body.format(9, "0xfffffdff")
            .replace("7;", "8;")
            .replace("shfl", "setp.eq.u32 %p2, %t, 9; @%p2 bra $End; shfl")
        )
    with pytest.raises(DivergentCollective, match="lane 31 executes the instruction, but its mask"):
        run("shfl.sync.idx.b32 %r2, %t, 0, 31, 0x7fffffff;")


def test_whole_warps_are_needed_for_matrices():
    body = "setp.gt.u32 %p1, %t, 29; @%p1 exit;" + COLLECTIVES[-1]
    with pytest.raises(DivergentCollective, match="whole warp is needed, but lanes 30-31 do not"):
        run(body)
    with pytest.raises(DivergentCollective, match="lanes 20-31 do not take part"):
        run(COLLECTIVES[-1], block=20)


# ---- shared memory and barriers

REVERSE = """
    mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %i;
    {barrier}
    mov.u32 %r4, %ntid.x; sub.u32 %r5, %r4, %t; sub.u32 %r5, %r5, 1; mad.lo.u32 %r6, %r5, 4, %r1;
    ld.shared.u32 %r7, [%r6];"""
SHARED = ".shared .align 16 .b8 s[4096];\n"


@pytest.mark.parametrize("grid,block", [(1, 64), (3, 96), (40, 1024), (5, 40)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_block_shares_memory(grid, block, dynamic):
    out = np.zeros(grid * block, "u4")
    before = ".extern .shared .align 16 .b8 s[];\n" if dynamic else SHARED
    body = REVERSE.format(barrier="bar.sync 0;") + OUT.format("%r7")
    result = run(body, out, grid=grid, block=block, before=before, shared=4096 * dynamic)
    want = np.arange(grid * block).reshape(grid, block)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(out, want)
    assert result.module.entries["k"].shared_bytes == (0 if dynamic else 4096)


def test_static_and_dynamic_shared_memory():
    before = """
.shared .align 4 .b8 one[12];
.shared .align 8 .f64 two[2];
.extern .shared .align 16 .b8 rest[];
.shared .b8 unused[64];
"""
    body = """
    .shared .align 4 .u32 inner[3];
    mov.u32 %r1, one; mov.u32 %r2, two; mov.u32 %r3, rest; mov.u32 %r4, inner;
    mad.wide.u32 %rd1, %i, 16, %a0; st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
    st.shared.f64 [two+8], 0d3FF0000000000000;"""
    out = np.zeros((1, 4), "u4")
    result = run(body, out, block=1, before=before, shared=16)
    one, two, rest, inner = out[0].tolist()
    assert two % 8 == 0 and rest % 16 == 0
    ranges = sorted([(one, 12), (two, 16), (inner, 12), (rest, 16)])
    assert all(a + n <= b for (a, n), (b, _) in pairwise(ranges))
    assert ranges[-1][0] == rest == result.module.entries["k"].shared_bytes


def test_missing_barriers_are_races():
    for barrier in ("", "bar.warp.sync -1;"):
        with pytest.raises(Race) as e:
            run(REVERSE.format(barrier=barrier), block=64, before=SHARED)
        text = str(e.value)
        assert (
            "race in shared memory: reads a word that thread (63, 0, 0) of block (0, 0, 0) write"
            in text
        )
        assert re.search(r"writes at line \d+ \(.*st.shared.u32 \[%r2\], %i;\)", text)
        assert e.value.thread == (0, 0, 0) and e.value.registers["%r6"] == "252"
    with pytest.raises(Race):
        run(REVERSE.format(barrier=""), block=32, before=SHARED)
    run(REVERSE.format(barrier="bar.warp.sync -1;"), block=32, before=SHARED)


RACES = [
    # a write after other threads have read: of one warp, of all of them
    ("ld.shared.u32 %r9, [s]; setp.eq.u32 %p1, %t, {0}; @%p1 st.shared.u32 [s], 1;", True),
    ("ld.shared.u32 %r9, [s]; bar.sync 0; setp.eq.u32 %p1, %t, {0}; @%p1 st.shared.u32 [s], 1;",
     False),
    # several threads write to one word: what remains is not defined, unless it is the same
    ("st.shared.u32 [s], %t;", True),
    ("st.shared.u32 [s], 7;", False),
    # neighbouring bytes are different words
    ("mov.u32 %r1, s; add.u32 %r1, %r1, %t; st.shared.u8 [%r1], %t;", False),
    ("mov.u32 %r1, s; shr.u32 %r2, %t, 1; add.u32 %r1, %r1, %r2; st.shared.u8 [%r1], %t;", True),
    ("mov.u32 %r1, s; shl.b32 %r2, %t, 1; add.u32 %r1, %r1, %r2; st.shared.u16 [%r1], %t;"
     "st.shared.u8 [%r1+1], 0; bar.sync 0; ld.shared.u8 %r3, [s];", False),
    # atomic operations do not race with each other, but with others
    ("atom.shared.add.u32 %r1, [s], 1; atom.shared.add.u32 %r1, [s], 1;", False),
    ("atom.shared.add.u32 %r1, [s], 1; ld.shared.u32 %r2, [s];", True),
    ("red.shared.add.u32 [s], 1; bar.sync 0; ld.shared.u32 %r2, [s];", False),
    ("ld.shared.u32 %r2, [s]; red.shared.add.u32 [s], 1;", True),
    ("setp.eq.u32 %p1, %t, {0}; @%p1 st.shared.u32 [s], 0; red.shared.add.u32 [s], 1;", True),
    ("setp.eq.u32 %p1, %t, {0}; @%p1 st.shared.u32 [s], 0; bar.sync 0; red.shared.add.u32 [s], 1;",
     False),
    # a thread's own accesses are in order
    ("mov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %t;"
     "ld.shared.u32 %r2, [%r1]; st.shared.u32 [%r1], 9; red.shared.add.u32 [%r1], 1;"
     "ld.shared.u32 %r3, [%r1];", False),
    # wide accesses cover several words
    ("mov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1; st.shared.v4.u32 [%r1], {{%t, %t, %t, %t}};"
     "bar.sync 0; st.shared.v2.u32 [%r1+8], {{0, 0}}; ld.shared.u64 %rd1, [%r1];", False),
    ("mov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1; st.shared.v4.u32 [%r1], {{%t, %t, %t, %t}};"
     "xor.b32 %r1, %r1, 16; ld.shared.u64 %rd1, [%r1+8];", True),
    # strong reads and writes are for other threads to see
    ("ld.volatile.shared.u32 %r2, [s]; atom.shared.add.u32 %r1, [s], 1;", False),
    ("setp.eq.u32 %p1, %t, {0}; @%p1 st.relaxed.cta.shared.u32 [s], 7;"
     "ld.relaxed.cta.shared.u32 %r2, [s];", False),
]  # fmt: skip


@pytest.mark.parametrize("who", [0, 31, 40])
@pytest.mark.parametrize("body,races", RACES)
def test_races(body, races, who):
    text = "mov.u32 %r30, s; " + body.format(who)
    if races:
        with pytest.raises(Race, match="race in shared memory"):
            run(text, block=64, before=SHARED)
        # Blocks do not share memory, and one thread has no race with itself.
        run(text, grid=8, block=1, before=SHARED)
    else:
        run(text, grid=2, block=64, before=SHARED)


def test_bar_warp_sync_orders_a_warp_only():
    body = """
    mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t;
    bar.warp.sync -1;
    xor.b32 %r3, %t, {}; mad.lo.u32 %r4, %r3, 4, %r1; ld.shared.u32 %r5, [%r4];"""
    out = np.zeros(64, "u4")
    run(body.format(5) + OUT.format("%r5"), out, block=64, before=SHARED)
    np.testing.assert_array_equal(out, np.arange(64) ^ 5)
    with pytest.raises(Race):
        run(body.format(32), block=64, before=SHARED)


def test_earlier_readers_are_not_forgotten():
    """A reader of another warp still races after threads of the own warp have read."""
    body = """
    setp.lt.u32 %p1, %t, 32; @!%p1 bra $Second;
    ld.shared.u32 %r1, [s]; bra $End;
$Second:
    ld.shared.u32 %r1, [s]; bar.warp.sync -1; setp.eq.u32 %p2, %t, 40; @%p2 st.shared.u32 [s], 1;
$End:"""
    with pytest.raises(Race):
        run(body, block=64, before=SHARED)
    run(body.replace("ld.shared.u32 %r1, [s]; bra", "bra"), block=64, before=SHARED)


CONFLICTS = [
    (1, "u32", 0), (2, "u32", 1), (4, "u32", 3), (8, "u32", 7), (32, "u32", 31), (33, "u32", 0),
    (0, "u32", 0), (3, "u32", 0), (2, "u64", 0), (4, "u64", 2), (4, "v4.u32", 0),
]  # fmt: skip


@pytest.mark.parametrize("stride,kind,expected", CONFLICTS)
def test_bank_conflicts(stride, kind, expected):
    """How often an access of a warp is repeated, for each line."""
    names = {"u32": "%r5", "u64": "%rd5", "v4.u32": "{%r5, %r6, %r7, %r8}"}[kind]
    body = f"""
    mov.u32 %r1, s; mad.lo.u32 %r2, %t, {4 * stride}, %r1;
    ld.shared.{kind} {names}, [%r2];"""
    before = ".shared .align 16 .b8 s[8192];\n"
    report = run(body, before=before, grid=2).report
    found = report.bank_conflicts
    assert sum(found.values()) == 2 * expected
    assert len(found) == bool(expected)


def test_barriers_in_loops_that_differ_by_block():
    body = """
    mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], 0; mov.u32 %r3, 0;
    xor.b32 %r7, %t, 33; mad.lo.u32 %r8, %r7, 4, %r1;
$Loop:
    setp.ge.u32 %p1, %r3, %b; @%p1 bra $Done;
    bar.sync 0;
    ld.shared.u32 %r4, [%r8];
    bar.sync 0;
    add.u32 %r4, %r4, 1; st.shared.u32 [%r2], %r4;
    add.u32 %r3, %r3, 1; bra $Loop;
$Done:
    bar.sync 0; ld.shared.u32 %r5, [%r8];""" + OUT.format("%r5")
    out = np.zeros(64 * 7, "u4")
    run(body, out, grid=7, block=64, before=SHARED)
    np.testing.assert_array_equal(out, np.repeat(np.arange(7), 64))
    with pytest.raises(Race):
        run(body.replace("ld.shared.u32 %r4, [%r8];\n    bar.sync 0;", "ld.shared.u32 %r4, [%r8];"),
            out, grid=7, block=64, before=SHARED)  # fmt: skip


# ---- asynchronous copies

COPY = """
    mov.u32 %r1, s; mad.lo.u32 %r2, %t, {size}, %r1; mad.wide.u32 %rd1, %i, {size}, %a1;
    cp.async.{cache}.shared.global [%r2], [%rd1], {size}{more};
    {wait}
    ld.shared.u32 %r5, [%r2];"""


@pytest.mark.parametrize("size,cache", [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")])
def test_asynchronous_copies(size, cache):
    x = np.arange(64 * size // 4, dtype="u4")
    out = np.zeros(64, "u4")
    want = x[:: size // 4]
    waits = ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"]
    for wait in waits:
        body = COPY.format(size=size, cache=cache, more="", wait=wait) + OUT.format("%r5")
        run(body, out, x, block=64, before=SHARED)
        np.testing.assert_array_equal(out, want)
    # Fewer bytes than the whole, the others become 0.
    more = ", %r9" if cache == "cg" else ", 0"
    body = "and.b32 %r9, %t, 1; shl.b32 %r9, %r9, 4;" + COPY.format(
        size=size, cache=cache, more=more, wait=waits[0])  # fmt: skip
    run(body + OUT.format("%r5"), out, x, block=64, before=SHARED)
    given = np.arange(64) % 2 == 1 if cache == "cg" else np.zeros(64, bool)
    np.testing.assert_array_equal(out, np.where(given, want, 0))


def test_copies_arrive_when_they_are_waited_for():
    x = np.arange(128, dtype="u4")
    for wait in ("", "cp.async.commit_group;", "cp.async.commit_group; cp.async.wait_group 1;",
                 "bar.sync 0;", "cp.async.wait_group 0;"):  # fmt: skip
        with pytest.raises(Race, match=r"target of an asynchronous copy .cp.async at line") as e:
            run(COPY.format(size=4, cache="ca", more="", wait=wait), x[:64], x, block=64,
                before=SHARED)  # fmt: skip
        assert "ld.shared" in e.value.instruction
    two = """
    mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; mad.wide.u32 %rd1, %i, 4, %a1;
    cp.async.ca.shared.global [%r2], [%rd1], 4; cp.async.commit_group;
    cp.async.ca.shared.global [%r2+256], [%rd1+256], 4; cp.async.commit_group;
    cp.async.wait_group 1; ld.shared.u32 %r5, [%r2];
    cp.async.wait_group 0; ld.shared.u32 %r6, [%r2+256]; add.u32 %r5, %r5, %r6;"""
    out = np.zeros(64, "u4")
    run(two + OUT.format("%r5"), out, x, block=64, before=SHARED)
    np.testing.assert_array_equal(out, x[:64] + x[64:])
    with pytest.raises(Race):
        run(two.replace("wait_group 0", "wait_group 1"), out, x, block=64, before=SHARED)
    # Others need a barrier as well.
    other = two + "xor.b32 %r7, %r2, 128; {} ld.shared.u32 %r8, [%r7];" + OUT.format("%r8")
    run(other.format("bar.sync 0;"), out, x, block=64, before=SHARED)
    np.testing.assert_array_equal(out, x[:64] ^ 32)
    with pytest.raises(Race):
        run(other.format(""), out, x, block=64, before=SHARED)


def test_faults_of_asynchronous_copies():
    x = np.arange(64, dtype="u4")
    body = COPY.format(size=16, cache="cg", more="", wait="cp.async.wait_all;")
    with pytest.raises(OutOfBounds, match="asynchronous read of 1 bytes"):
        run(body, x, x[:60], block=16, before=SHARED)
    with pytest.raises(OutOfBounds, match="asynchronous write of 16 bytes"):
        run(body, x, x, block=16, before=".shared .align 16 .b8 s[64];\n")
    with pytest.raises(Misaligned, match="misaligned asynchronous write of 16 bytes"):
        run(body.replace("[%r2],", "[%r2+4],"), x, x, block=16, before=SHARED)
    with pytest.raises(Misaligned, match="misaligned asynchronous read of 16 bytes"):
        run(body.replace("[%rd1],", "[%rd1+4],"), x, np.zeros(99, "u4"), block=16, before=SHARED)


# ---- matrices


def fragments(kind, shape, part):
    """Row and column of element i of lane l, as the PTX ISA tells: a list per lane."""
    m, k = shape
    del m
    g, t = T >> 2, T & 3
    if part == "c":
        return [[(g[lane] + 8 * (i >> 1), 2 * t[lane] + (i & 1)) for i in range(4)] for lane in T]
    if kind == "tf32":
        if part == "a":
            n = 2 if k == 4 else 4
            return [[(g[x] + 8 * (i & 1), t[x] + 4 * (i >> 1)) for i in range(n)] for x in T]
        return [[(t[x] + 4 * i, g[x]) for i in range(k // 4)] for x in T]
    if part == "a":
        if k == 8:
            return [[(g[x] + 8 * (i >> 1), 2 * t[x] + (i & 1)) for i in range(4)] for x in T]
        return [[(g[x] + (0 if i < 2 or 4 <= i < 6 else 8), 2 * t[x] + (i & 1) + 8 * (i >= 4))
                 for i in range(8)] for x in T]  # fmt: skip
    return [[(2 * t[x] + (i & 1) + 8 * (i >> 1), g[x]) for i in range(k // 4)] for x in T]


def encode(matrix, kind, places):
    """The registers of 32 lanes: words with one or two elements."""
    rows = []
    for lane in T:
        elements = np.array([matrix[p] for p in places[lane]], "f4")
        if kind == "f16":
            rows.append(elements.astype("f2").view("u4"))
        else:
            rows.append(elements.view("u4"))
    return np.array(rows)


PRODUCTS = [
    ("f16", 16, "f32"), ("f16", 16, "f16"), ("f16", 8, "f32"), ("f16", 8, "f16"),
    ("tf32", 8, "f32"), ("tf32", 4, "f32"),
]  # fmt: skip


def product(kind, k, result, change=lambda text: text, scale=1.0):
    """Runs an mma for random matrices; the result and the reference in float64."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(-16, 17, (16, k)) / 8, rng.integers(-16, 17, (k, 8)) / 8
    c = rng.integers(-16, 17, (16, 8)) * scale
    words = [encode(m, e, fragments(kind, (16, k), p))
             for m, e, p in ((a, kind, "a"), (b, kind, "b"), (c, result, "c"))]  # fmt: skip
    na, nb, nc = (w.shape[1] for w in words)
    regs = [[f"%r{k}" for k in range(s, s + n)] for s, n in ((0, na), (4, nb), (8, nc), (16, nc))]
    loads = "".join(
        f"ld.global.u32 {r}, [%rd{j}+{4 * i}];\n"
        for j, (group, w) in enumerate(zip(regs[:3], words, strict=True))
        for i, r in enumerate(group)
    )
    if result == "f32":
        loads += "".join(f"mov.b32 %f{i}, %r{8 + i};\n" for i in range(4))
        regs[2], regs[3] = [f"%f{i}" for i in range(4)], [f"%f{i + 4}" for i in range(4)]
    d, x, y, z = ("{" + ", ".join(regs[j]) + "}" for j in (3, 0, 1, 2))
    types = f"{result}.{kind}.{kind}.{result}"
    body = "".join(f"mad.wide.u32 %rd{j}, %t, {4 * w.shape[1]}, %a{j};\n"
                   for j, w in enumerate(words))  # fmt: skip
    body += f"mad.wide.u32 %rd3, %i, {4 * nc}, %a3;\n" + loads
    body += change(f"mma.sync.aligned.m16n8k{k}.row.col.{types} {d}, {x}, {y}, {z};\n")
    body += "".join(f"st.global.b32 [%rd3+{4 * i}], {r};\n" for i, r in enumerate(regs[3]))
    out = np.zeros((2, 32, nc), "u4")
    run(body, *words, out, grid=2)
    found = np.zeros((2, 16, 8))
    for w in range(2):
        values = out[w].view("f2" if result == "f16" else "f4")
        for lane in T:
            for i, p in enumerate(fragments(kind, (16, k), "c")[lane]):
                found[w][p] = values[lane, i]
    return found, a @ b + c


@pytest.mark.parametrize("kind,k,result", PRODUCTS)
def test_matrix_products(kind, k, result):
    found, want = product(kind, k, result)
    np.testing.assert_array_equal(found, np.stack([want, want]))


@pytest.mark.parametrize("kind,k,result", PRODUCTS)
def test_swapped_operands_give_other_products(kind, k, result):
    def swap(text):
        groups = re.findall(r"\{([^}]*)\}", text)
        registers = groups[1].split(", ")
        registers[0], registers[1] = registers[1], registers[0]
        return text.replace(groups[1], ", ".join(registers))

    found, want = product(kind, k, result, swap)
    assert (found[0] != want).any()


def test_tf32_is_what_the_upper_19_bits_of_a_word_hold():
    def changed(bits):
        return product("tf32", 8, "f32", lambda text: f"or.b32 %r0, %r0, {bits};\n{text}")

    found, want = changed(0x1FFF)
    np.testing.assert_array_equal(found[0], want)
    found, want = changed(0x2000)
    assert (found[0] != want).any()


def test_products_are_rounded_once():
    """1 + 2**-30 is lost where sums are rounded one after the other."""
    found, want = product("f16", 16, "f32", scale=2.0**24)
    np.testing.assert_array_equal(found[0], want.astype("f4"))
    assert (want.astype("f4") != want).any()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stride", [16, 80])
def test_matrices_are_loaded(count, transposed, stride):
    x = np.random.default_rng(3).integers(0, 1 << 16, (count, 8, 8)).astype("u2")
    shared = np.zeros((count * 8, stride // 2), "u2")
    shared[:, :8] = x.reshape(-1, 8)
    names = "{" + ", ".join(f"%r{10 + k}" for k in range(count)) + "}"
    trans = ".trans" if transposed else ""
    words = shared.size // 2
    body = f"""
    mov.u32 %r1, s; mov.u32 %r2, %t;
$Fill:
    setp.ge.u32 %p1, %r2, {words}; @%p1 bra $Filled;
    mad.wide.u32 %rd1, %r2, 4, %a0; ld.global.u32 %r3, [%rd1];
    mad.lo.u32 %r4, %r2, 4, %r1; st.shared.u32 [%r4], %r3;
    add.u32 %r2, %r2, 64; bra $Fill;
$Filled:
    bar.sync 0;
    and.b32 %r6, %t, {8 * count - 1}; mad.lo.u32 %r5, %r6, {stride}, %r1;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {names}, [%r5];
    mad.wide.u32 %rd2, %i, {4 * count}, %a1;
    """ + "".join(f"st.global.u32 [%rd2+{4 * k}], %r{10 + k};\n" for k in range(count))
    out = np.zeros((2, 32, count), "u4")
    before = f".shared .align 16 .b8 s[{shared.nbytes}];\n"
    report = run(body, shared, out, block=64, before=before).report
    for k in range(count):
        matrix = x[k].T if transposed else x[k]
        want = matrix[T[:, None] >> 2, 2 * (T[:, None] & 3) + np.arange(2)]
        np.testing.assert_array_equal(out[:, :, k].copy().view("u2").reshape(2, 32, 2)[0], want)
        np.testing.assert_array_equal(out[0, :, k], out[1, :, k])
    # Rows of 16 bytes next to each other, or 80 apart, are in different banks.
    assert not any("matrix" in str(line) for line in report.bank_conflicts)


def test_matrices_of_conflicting_rows():
    body = """
    mov.u32 %r1, s; and.b32 %r2, %t, 7; mad.lo.u32 %r1, %r2, 128, %r1;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];"""
    report = run(body, before=SHARED).report
    assert sum(report.bank_conflicts.values()) == 7
    with pytest.raises(Misaligned, match="of 16 bytes at offset 0x8 of shared memory"):
        run(body.replace("[%r1]", "[%r1+8]"), before=SHARED)
    with pytest.raises(Race):
        run(body.replace("ldmatrix", "st.shared.u32 [%r1], %t; ldmatrix").replace("128,", "16,")
            .replace("%t, 7", "%t, 31"), before=SHARED)  # fmt: skip

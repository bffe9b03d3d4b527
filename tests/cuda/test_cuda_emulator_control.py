"""Control flow of the PTX emulator: divergence, loops, calls, waiting, and stepping."""

import numpy as np
import pytest
from ptx_cases import HEAD, kernel, pack, run

from drjit.jit.cuda.emulator import Memory, Module
from drjit.jit.cuda.emulator.errors import (
    Deadlock,
    DivergentCollective,
    InvalidTarget,
    OutOfBounds,
    UnknownInstruction,
)

OUT = "\n    mad.wide.u32 %rd30, %i, 4, %a0; st.global.u32 [%rd30], {};"


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n = n * 3 + 1 if n % 2 else n // 2
        steps += 1
    return steps


COLLATZ = """
    add.u32 %r1, %i, 1; mov.u32 %r2, 0;
$Loop:
    setp.le.u32 %p1, %r1, 1;
    @%p1 bra $Done;
    and.b32 %r3, %r1, 1;
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra $Even;
    mad.lo.u32 %r1, %r1, 3, 1;
    bra.uni $Next;
$Even:
    shr.u32 %r1, %r1, 1;
$Next:
    add.u32 %r2, %r2, 1;
    bra $Loop;
$Done:"""


@pytest.mark.parametrize("grid,block", [(1, 1), (1, 33), (4, 96), (3, 1000), (700, 64)])
def test_loops_of_different_lengths(grid, block):
    out = np.zeros(grid * block, "u4")
    run(COLLATZ + OUT.format("%r2"), out, grid=grid, block=block)
    assert out.tolist() == [collatz(k + 1) for k in range(len(out))]


def test_threads_meet_again_after_a_branch():
    """The block that comes first in the text runs next, so that nobody runs ahead."""
    body = """
    and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0;
    @%p1 bra $Even;
    activemask.b32 %r2; bra $Join;
$Even:
    activemask.b32 %r2;
$Join:
    activemask.b32 %r3;
    add.u32 %r4, %r2, 0; mad.wide.u32 %rd1, %i, 8, %a0; st.global.v2.u32 [%rd1], {%r2, %r3};"""
    out = np.zeros((64, 2), "u4")
    report = run(body, out, block=64).report
    np.testing.assert_array_equal(out[0::2, 0], 0x55555555)
    np.testing.assert_array_equal(out[1::2, 0], 0xAAAAAAAA)
    np.testing.assert_array_equal(out[:, 1], 0xFFFFFFFF)
    assert report.divergent_branches == 2


def test_threads_meet_again_after_a_loop():
    body = COLLATZ + "\n    activemask.b32 %r4;" + OUT.format("%r4")
    out = np.zeros(64, "u4")
    run(body, out, block=64)
    np.testing.assert_array_equal(out, 0xFFFFFFFF)


def test_exits_of_some_threads():
    body = """
    setp.gt.u32 %p1, %t, 40; @%p1 exit;
    and.b32 %r1, %t, 3; setp.eq.u32 %p2, %r1, 3; @%p2 ret;
    activemask.b32 %r2;""" + OUT.format("%r2")
    out = np.zeros(64, "u4")
    report = run(body, out, block=64).report
    t = np.arange(64)
    lives = (t <= 40) & (t % 4 != 3)
    masks = [sum(1 << k for k in range(32) if lives[w * 32 + k]) for w in range(2)]
    np.testing.assert_array_equal(out, np.where(lives, np.repeat(masks, 32), 0))
    assert report.divergent_branches == 3


def test_guards_of_all_kinds():
    """A predicate before instructions that compute, convert, move, call, and trap."""
    before = """
.func (.param .b32 result) twice(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
"""
    body = """
    and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 1; mov.u32 %r2, 5; mov.u32 %r3, %t;
    @%p1 add.u32 %r2, %r2, %t;
    @!%p1 mul.lo.u32 %r2, %r2, %t;
    @%p1 mov.u32 %r3, 9;
    cvt.rn.f32.u32 %f1, %t;
    @%p1 mov.f32 %f1, 0f3FC00000;
    @%p1 setp.eq.u32 %p2, %t, 3;
    @!%p1 setp.eq.u32 %p2, %t, 4;
    selp.u32 %r4, 1, 0, %p2;
    { .param .b32 a; .param .b32 r; st.param.b32 [a], %r3;
    @%p1 call (r), twice, (a);
    ld.param.b32 %r5, [r]; }
    @!%p1 mov.u32 %r5, 0;
    setp.gt.u32 %p3, %t, 500; @%p3 trap;
    mad.wide.u32 %rd1, %i, 20, %a0;
    st.global.u32 [%rd1], %r2; st.global.u32 [%rd1+4], %r3; st.global.f32 [%rd1+8], %f1;
    st.global.u32 [%rd1+12], %r4; st.global.u32 [%rd1+16], %r5;"""
    out = np.zeros((64, 5), "u4")
    run(body, out, block=64, before=before)
    t = np.arange(64, dtype="u4")
    odd = t % 2 == 1
    np.testing.assert_array_equal(out[:, 0], np.where(odd, 5 + t, 5 * t))
    np.testing.assert_array_equal(out[:, 1], np.where(odd, 9, t))
    np.testing.assert_array_equal(out[:, 2].copy().view("f4"), np.where(odd, 1.5, t))
    np.testing.assert_array_equal(out[:, 3], (t == 3) | (t == 4))
    np.testing.assert_array_equal(out[:, 4], np.where(odd, 18, 0))


def test_jump_tables():
    body = """
    rem.u32 %r1, %t, 4;
$Table: .branchtargets $A, $B, $C, $B;
    brx.idx %r1, $Table;
$A: mov.u32 %r2, 10; bra $End;
$B: mov.u32 %r2, 20; bra $End;
$C: mov.u32 %r2, 30;
$End:""" + OUT.format("%r2")
    out = np.zeros(64, "u4")
    run(body, out, block=64)
    np.testing.assert_array_equal(out, np.tile([10, 20, 30, 20], 16))
    run(body.replace("%t, 4", "%t, 1"), out, block=64)
    np.testing.assert_array_equal(out, 10)
    with pytest.raises(InvalidTarget, match="the index 4 of a jump is beyond its 4 targets"):
        run(body.replace("%t, 4", "%t, 6"), out, block=64)


FUNCTIONS = """
.func (.param .b32 result) inner(.param .b32 x);
.func (.param .align 8 .b8 result[16]) outer(.param .b32 x, .param .align 8 .b8 block[16])
{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; .reg .f64 %d<3>;
    ld.param.b32 %r1, [x];
    ld.param.b64 %rd1, [block+8];
    mov.u32 %r2, 0;
    setp.gt.u32 %p1, %r1, 7;
    @%p1 bra $Skip;
    {
    .param .b32 a;
    .param .b32 r;
    st.param.b32 [a], %r1;
    call.uni (r), inner, (a);
    ld.param.b32 %r2, [r];
    }
$Skip:
    cvt.u64.u32 %rd2, %r2;
    add.u64 %rd3, %rd1, %rd2;
    st.param.b64 [result], %rd3;
    ld.param.f64 %d1, [block];
    st.param.f64 [result+8], %d1;
    ret;
}
.func (.param .b32 result) inner(.param .b32 x)
{
    .reg .b32 %r<9>; .reg .pred %p<3>;
    ld.param.b32 %r1, [x];
    setp.lt.u32 %p1, %r1, 3;
    @%p1 bra $Small;
    mul.lo.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
$Small:
    st.param.b32 [result], 1000;
    ret;
}
"""


def test_calls_return_to_where_they_came_from():
    body = """
    mov.f64 %d1, 0d4008000000000000; cvt.u64.u32 %rd1, %i;
    {
    .param .b32 a; .param .align 8 .b8 b[16]; .param .align 8 .b8 r[16];
    st.param.b32 [a], %t; st.param.f64 [b], %d1; st.param.b64 [b+8], %rd1;
    call.uni (r), outer, (a, b);
    ld.param.b64 %rd2, [r]; ld.param.f64 %d2, [r+8];
    }
    {
    .param .b32 a; .param .b32 r;
    st.param.b32 [a], 5;
    call.uni (r), inner, (a);
    ld.param.b32 %r3, [r];
    }
    cvt.rzi.u32.f64 %r4, %d2; cvt.u32.u64 %r2, %rd2;
    mad.wide.u32 %rd5, %i, 12, %a0;
    st.global.u32 [%rd5], %r2; st.global.u32 [%rd5+4], %r3; st.global.u32 [%rd5+8], %r4;"""
    out = np.zeros((40, 3), "u4")
    run(body, out, grid=2, block=20, before=FUNCTIONS)
    t, i = np.tile(np.arange(20), 2), np.arange(40)
    want = i + np.where(t > 7, 0, np.where(t < 3, 1000, t * t))
    np.testing.assert_array_equal(out, np.stack([want, np.full(40, 25), np.full(40, 3)], 1))


@pytest.mark.parametrize("space", ["local", "param"])
def test_addresses_of_parameters_of_functions(space):
    before = """
.func (.param .b32 result) pick(.param .align 4 .b8 block[16], .param .b32 k)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    mov.b64 %rd1, block;
    ld.param.b32 %r1, [k];
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    ld.local.b32 %r2, [%rd2];
    st.param.b32 [result], %r2;
    ret;
}
"""
    body = """
    { .param .align 4 .b8 b[16]; .param .b32 k; .param .b32 r;
    add.u32 %r1, %t, 1; add.u32 %r2, %t, 2; add.u32 %r3, %t, 3; and.b32 %r4, %t, 3;
    st.param.v4.b32 [b], {%t, %r1, %r2, %r3}; st.param.b32 [k], %r4;
    call.uni (r), pick, (b, k);
    ld.param.b32 %r5, [r]; }""" + OUT.format("%r5")
    out = np.zeros(32, "u4")
    run(body, out, before=before.replace("ld.local", f"ld.{space}"))
    t = np.arange(32)
    np.testing.assert_array_equal(out, t + t % 4)


def test_recursion_is_refused():
    before = ".func f() { call.uni f, (); ret; }\n"
    with pytest.raises(UnknownInstruction, match="f calls itself, which is not supported"):
        run("call.uni f, ();", before=before)


SPECIAL = {
    "%tid.x": lambda p: p["tid"] % 5, "%tid.y": lambda p: p["tid"] // 5 % 3,
    "%tid.z": lambda p: p["tid"] // 15, "%ntid.x": lambda p: 5, "%ntid.y": lambda p: 3,
    "%ntid.z": lambda p: 4, "%ctaid.x": lambda p: p["block"] % 2,
    "%ctaid.y": lambda p: p["block"] // 2 % 3, "%ctaid.z": lambda p: p["block"] // 6,
    "%nctaid.x": lambda p: 2, "%nctaid.y": lambda p: 3, "%nctaid.z": lambda p: 2,
    "%laneid": lambda p: p["tid"] % 32, "%lanemask_eq": lambda p: 1 << p["tid"] % 32,
    "%lanemask_lt": lambda p: (1 << p["tid"] % 32) - 1,
    "%lanemask_le": lambda p: (2 << p["tid"] % 32) - 1,
    "%lanemask_gt": lambda p: 0xFFFFFFFF & ~((2 << p["tid"] % 32) - 1),
    "%lanemask_ge": lambda p: 0xFFFFFFFF & ~((1 << p["tid"] % 32) - 1),
}  # fmt: skip


def test_special_registers():
    names = list(SPECIAL)
    body = """
    mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mad.lo.u32 %r1, %r1, 5, %t;
    mad.lo.u32 %r1, %r2, 15, %r1;
    mov.u32 %r3, %ctaid.y; mov.u32 %r4, %ctaid.z; mad.lo.u32 %r3, %r3, 2, %b;
    mad.lo.u32 %r3, %r4, 6, %r3;
    mad.lo.u32 %r1, %r3, 60, %r1;
    """ + f"mad.wide.u32 %rd1, %r1, {4 * len(names)}, %a0;\n" + "".join(
        f"    mov.u32 %r5, {name}; st.global.u32 [%rd1+{4 * k}], %r5;\n"
        for k, name in enumerate(names))  # fmt: skip
    out = np.zeros((12 * 60, len(names)), "u4")
    run(body, out, grid=(2, 3, 2), block=(5, 3, 4))
    places = [{"tid": k % 60, "block": k // 60} for k in range(720)]
    for k, (name, f) in enumerate(SPECIAL.items()):
        assert out[:, k].tolist() == [f(p) for p in places], name


def test_scopes_hide_names():
    body = """
    mov.u32 %r1, 1;
    { .reg .b32 x; .reg .pred q; add.u32 x, %r1, %t; setp.gt.u32 q, x, 5; @q bra Inner;
      mov.u32 x, 0;
    Inner: add.u32 %r2, x, 0; }
    { .reg .b64 x; cvt.u64.u32 x, %r2; { .reg .b32 x; mov.u32 x, 7; add.u32 %r3, x, 0; }
      cvt.u32.u64 %r4, x;
      setp.gt.u32 %p1, %t, 3; @%p1 bra Inner; add.u32 %r4, %r4, 50;
    Inner: add.u32 %r2, %r4, %r3; }""" + OUT.format("%r2")
    out = np.zeros(16, "u4")
    run(body, out, block=16)
    t = np.arange(16)
    np.testing.assert_array_equal(out, np.where(t + 1 > 5, t + 1, 0) + 7 + np.where(t > 3, 0, 50))


# ---- waiting for other threads


LOOK_BACK = """
    // A block waits until its predecessor has published its sum.
    mov.u32 %r1, 1;
    setp.eq.u32 %p1, %b, 0; @%p1 bra $Publish;
    sub.u32 %r2, %b, 1; mad.wide.u32 %rd1, %r2, 4, %a0;
$Wait:
    ld.acquire.gpu.global.u32 %r3, [%rd1];
    setp.eq.u32 %p2, %r3, 0; @%p2 bra $Wait;
    add.u32 %r1, %r3, 1;
$Publish:
    mad.wide.u32 %rd2, %b, 4, %a0;
    setp.ne.u32 %p3, %t, 0; @%p3 bra $End;
    st.release.gpu.global.u32 [%rd2], %r1;
$End:"""


@pytest.mark.parametrize("grid,block", [(9, 32), (300, 1), (50, 64), (70, 1024)])
def test_blocks_wait_for_earlier_blocks(grid, block):
    """Also for blocks of another chunk."""
    flags = np.zeros(grid, "u4")
    run(LOOK_BACK, flags, grid=grid, block=block)
    np.testing.assert_array_equal(flags, np.arange(grid) + 1)


def test_blocks_wait_for_later_blocks():
    body = LOOK_BACK.replace("setp.eq.u32 %p1, %b, 0;", "setp.eq.u32 %p1, %b, 69;").replace(
        "sub.u32 %r2, %b, 1;", "add.u32 %r2, %b, 1;")  # fmt: skip
    flags = np.zeros(70, "u4")
    run(body, flags, grid=70, block=1024)
    np.testing.assert_array_equal(flags, 70 - np.arange(70))


LOCK = """
$Try:
    atom.global.cas.b32 %r1, [%a0], 0, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $Try;
    ld.volatile.global.u32 %r2, [%a0+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%a0+4], %r2;
    membar.gl;
    atom.global.exch.b32 %r1, [%a0], 0;"""


@pytest.mark.parametrize("grid,block", [(1, 32), (5, 64)])
def test_threads_of_a_warp_share_a_lock(grid, block):
    """Where independent threads make progress, one that holds a lock gets to release it."""
    x = np.zeros(2, "u4")
    run(LOCK, x, grid=grid, block=block)
    assert x.tolist() == [0, grid * block]


@pytest.mark.parametrize("grid", [1, 70])
def test_waiting_forever_is_noticed(grid):
    body = """
$Wait:
    ld.acquire.gpu.global.u32 %r3, [%a0];
    setp.eq.u32 %p2, %r3, 0; @%p2 bra $Wait;"""
    with pytest.raises(
        Deadlock, match=r"threads wait in loops for .*: thread .0, 0, 0. of block .0"
    ):
        run(body, np.zeros(1, "u4"), grid=grid, block=1024)
    with pytest.raises(Deadlock, match="wait in loops"):  # with two groups, and a lock
        run("setp.lt.u32 %p3, %t, 9; @%p3 bra $W2;" + body + "$W2:"
            + LOCK.replace("exch.b32 %r1, [%a0], 0", "exch.b32 %r1, [%a0], 1"),
            np.zeros(2, "u4"), grid=grid, block=64)  # fmt: skip


def test_long_loops_are_no_deadlock():
    body = """
    mov.u32 %r1, 0; mov.u32 %r2, 0;
$Loop: mad.lo.u32 %r2, %r1, %r2, %r1; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 60000; @%p1 bra $Loop;""" + OUT.format("%r2")
    out = np.zeros(1, "u4")
    run(body, out, block=1)
    want = 0
    for k in range(60000):
        want = (k * want + k) & 0xFFFFFFFF
    assert out[0] == want


def test_barriers_that_some_never_reach():
    body = """
    setp.lt.u32 %p1, %t, 32; @%p1 bra $Other;
    bar.sync 0; bra $End;
$Other:
    barrier.sync 1;
$End:"""
    with pytest.raises(Deadlock, match="deadlock: threads wait for each other: thread") as caught:
        run(body, block=64)
    text = str(caught.value)
    assert text.count(" at line ") == 2 and "and 31 more" in text
    body = "setp.lt.u32 %p1, %t, 32; @%p1 bra $End; bar.sync 0; $End:"
    run(body, block=64)  # threads that are finished are not waited for


def test_barrier_of_a_divergent_warp():
    body = """
    setp.lt.u32 %p1, %t, 16; @%p1 bra $Other;
    bar.sync 0; bra $End;
$Other:
    bar.sync 0;
$End:"""
    with pytest.raises(DivergentCollective, match="threads of one warp wait at different barriers"):
        run(body, block=32)
    run(body.replace("bar.sync", "barrier.sync"), block=32)


# ---- the report, and stepping


def test_the_report_counts_instructions_of_warps():
    report = run("add.u32 %r1, %t, 1; add.u32 %r1, %r1, 1;", grid=3, block=40).report
    assert report.instructions == (4 + 2 + 1) * 6
    body = "setp.lt.u32 %p1, %t, 7; @%p1 bra $A; add.u32 %r1, %t, 1; $A: add.u32 %r1, %t, 1;"
    report = run(body, block=64).report
    assert report.divergent_branches == 1
    assert report.instructions == (4 + 2 + 1 + 1 + 1) * 2


def test_source_is_python_with_the_text():
    x = np.zeros(32, "u4")
    module = run(COLLATZ + OUT.format("%r2"), x).module
    source = module.entries["k"].source
    compile(source, "<source>", "exec")
    assert "mad.lo.u32 %r1, %r1, 3, 1;" in source and "r1 = r1 * u32_3 + u32_1" in source
    assert "# $Even" in source


def test_steps_of_a_warp():
    memory = Memory()
    out = memory.allocate(64 * 4)
    text = kernel(COLLATZ + OUT.format("%r2"), [np.zeros(1)])
    entry = (module := Module(text, memory)).entries["k"]
    steps = list(entry.trace(2, 32, pack([np.uint64(out)]), warp=1))
    assert memory.view(out, 256).view("u4").tolist() == [collatz(k + 1) for k in range(64)]
    first = next(s for s in steps if s.text.startswith("add.u32 %r1, %i, 1"))
    assert first.lanes == list(range(32))
    np.testing.assert_array_equal(first.registers["%r1"], np.arange(33, 65))
    np.testing.assert_array_equal(first.registers["%i"], np.arange(32, 64))
    triple = [s for s in steps if s.text.startswith("mad.lo.u32 %r1")]
    assert len(triple[0].lanes) == 16 and triple[0].registers["%r1"][0] == 33 * 3 + 1
    printed = str(first)
    assert printed.startswith(f"{first.line}: add.u32 %r1, %i, 1;") and "%r1 = [33 34" in printed
    assert sum("$" in s.text for s in steps) > 0
    del module


def test_faults_while_stepping():
    memory = Memory()
    text = kernel("ld.global.u32 %r1, [%a0];", [np.uint64(0)])
    module = Module(text, memory)
    with pytest.raises(OutOfBounds, match=r"nothing is allocated|far from"):
        list(module.entries["k"].trace(1, 32, pack([np.uint64(0)])))
    assert memory.used == 0


def test_texts_for_other_targets_and_with_debugging():
    text = (
        HEAD.format(target="sm_90, debug")
        + """
.file 1 "a.c"
.visible .entry k(.param .u64 p)
.maxntid 64
.minnctapersm 2
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    .loc 1 3 5
    ld.param.u64 %rd1, [p]; /* a
    comment */ mov.u32 %r1, 7; // another; one
    .loc 1 4 5, function_name $L__info_string0, inlined_at 1 3 5
    .pragma "nounroll";
    st.global.u32 [%rd1], %r1;
    ret;
}
.section .debug_str { $L__info_string0: .b8 1, 2, 3 }
"""
    )
    memory = Memory()
    out = memory.allocate(4)
    module = Module(text.encode() + b"\x00", memory)
    module.entries["k"].launch(1, 1, pack([np.uint64(out)]))
    assert memory.view(out, 4).view("u4")[0] == 7

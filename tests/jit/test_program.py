"""Programs and their text: what `check` rejects, how each operation reads, and debug mode."""

import io
import linecache
import pdb
import re
import sys
import traceback

import numpy as np
import pytest
from helpers import DEVICE, ELEMENTWISE, opaque, results

from drjit.jit import flags
from drjit.jit.cpu import variants
from drjit.jit.flags import JitFlag
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import label, op
from drjit.jit.ir import node as ir
from drjit.jit.ir.node import Node
from drjit.jit.ir.op import ReduceMode
from drjit.jit.run import pending, schedule
from drjit.jit.text import program, source
from drjit.jit.text.program import Instr, Output, Program
from drjit.jit.trace import access
from drjit.jit.trace.access import Access

pytestmark = pytest.mark.usefixtures("computing_nodes")


def lines(*roots: Node) -> list[str]:
    """The statements of the one kernel for some nodes."""
    ((_, found),) = schedule.preview(list(roots))
    head, *body = found.splitlines()
    assert head == "def kernel(i, p):"
    return [line.strip() for line in body]


@pytest.mark.processor
def test_large_work_does_not_wait_for_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of the library take NumPy far longer than an addition does."""
    monkeypatch.setattr(variants, "pinned", "auto")
    x = opaque(dt.f32, [1, 2])
    for f, size, expected in (
        (op.abs, 3, True), (op.abs, 1_000_000, True), (op.sin, 3, True), (op.sin, 1_000_000, False),
    ):  # fmt: skip
        ((found, _),) = schedule.preview([ir.apply(f, ir.apply(op.mul, x, x))])
        monkeypatch.setattr(found, "estimated_seconds", 0.0)
        monkeypatch.setattr(found, "interpreted_seconds", 0.0)
        monkeypatch.setattr(found.entry, "kernel", 0)
        monkeypatch.setattr(found, "cached", False)
        assert variants.prefers_numpy(found, size) is expected, (f, size)


# Well-formed programs

X = Instr(op.buffer, dt.f32, (), False, 1)
Y = Instr(op.buffer, dt.i32, (), False, 2)
STORE = Output("store", dt.f32, 0, 3)


def made(*instrs: Instr, outputs: tuple[Output, ...] = (STORE,), words: int = 4) -> Program:
    return Program(instrs, outputs, (dt.f32, dt.i32), (), 0, (), words)


def test_check_accepts_a_well_formed_program() -> None:
    program.check(made(X, Y, Instr(op.add, dt.f32, (0, 0)), Instr(op.cast, dt.i8, (0,))))


@pytest.mark.parametrize(
    ("malformed", "message"),
    [
        (made(Instr(op.neg, dt.f32, (0,)), X), "instruction 0 (neg): an operand comes later"),
        (made(X, Instr(op.neg, dt.f32, (2,)), X), "instruction 1 (neg): an operand comes later"),
        (made(X, Instr(op.neg, dt.f32, (-1,))), "instruction 1 (neg): an operand comes later"),
        (made(X, Y, Instr(op.add, dt.f32, (0, 1))), "instruction 2 (add): operand types"),
        (made(X, Instr(op.add, dt.f64, (0, 0))), "do not give float64"),
        (made(X, Instr(op.lt, dt.f32, (0, 0))), "do not give float32"),
        (made(X, Y, Instr(op.fma, dt.f32, (0, 0, 1))), "instruction 2 (fma): operand types"),
        (
            made(X, Y, Instr(op.lt, dt.mask, (0, 0)), Instr(op.select, dt.f32, (2, 0, 1))),
            "instruction 3 (select): operand types",
        ),
        (made(Instr(op.literal, dt.f32, (), None, 4)), "parameter 4 is outside of the block"),
        (made(Instr(op.literal, dt.f32, (), None, -1)), "parameter -1 is outside of the block"),
        (made(X, Y, Instr(op.gather, dt.f32, (0, 1, 1))), "the last operand is not a mask"),
        (made(X, outputs=(Output("store", dt.f32, 1, 3),)), "refers to nothing"),
        (made(X, outputs=(Output("store", dt.f32, -1, 3),)), "refers to nothing"),
        (made(X, outputs=(Output("store", dt.f32, 0, 9),)), "refers to nothing"),
    ],
)
def test_check_rejects(malformed: Program, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        program.check(malformed)


# Rendering


@pytest.mark.parametrize(
    "name", [n for n in ELEMENTWISE if op.TABLE[n].kind not in ("cast", "bitcast")]
)
def test_element_wise_operations_read_as_in_the_table(name: str) -> None:
    row = op.TABLE[name]
    t = dt.f32 if "f" in row.domain else dt.u32 if "i" in row.domain else dt.mask
    operands = [opaque(t, [k, 1]) for k in range(row.arity)]
    if row is op.select:
        operands[1:] = [opaque(dt.f32, [k, 1]) for k in range(2)]
    result = ir.apply(row, *operands)
    names = [f"x{k}" for k in range(row.arity)]
    if row.kind == "infix":
        want = f"x0 {row.text} x1"
    elif row.kind == "prefix":
        want = f"{row.text}x0"
    else:
        want = f"{row.text}({', '.join(names)})"
    loads = [f"{x} = load({n.dtype.code}, p[{k + 1}], i)" for k, (x, n) in
             enumerate(zip(names, operands, strict=True))]  # fmt: skip
    store = f"store({result.dtype.code}, p[{row.arity + 1}], i, v0)"
    assert lines(result) == [*loads, f"v0 = {want}", store]


def test_rows_have_no_words_that_nobody_reads() -> None:
    facts = [word for row in op._ROWS.strip().splitlines() for word in row.split()[6:]]
    assert {word.partition("=")[0] for word in facts} <= vars(op.add).keys()


@pytest.mark.parametrize("t", dt.ALL, ids=str)
@pytest.mark.parametrize("reduction", op.REDUCTIONS)
def test_identities_change_nothing(reduction: str, t: dt.DType) -> None:
    o = op.REDUCTIONS[reduction]
    if not o.accepts(t):
        return
    start, change_nothing = op.starting_value(reduction, t), op.neutral(reduction, t)
    assert t.scalar(start) == t.scalar(change_nothing)
    ends = np.array([0, 1], t.numpy)
    if t.is_int:
        info = np.iinfo(t.numpy)
        ends = np.array([info.min, info.max, 5], t.numpy)
    if t.is_float:
        ends = np.array([-np.inf, -0.0, 0.0, 1.5, np.inf], t.numpy)
    for x in ends:
        found = ir.evaluate_literal(o, t, (ir.literal(t, x), ir.literal(t, change_nothing)))
        assert found == x and np.signbit(found) == np.signbit(x), (x, found)


def test_conversions() -> None:
    x = opaque(dt.f32, [1, 2])
    assert "v0 = i8(x0)" in lines(ir.cast(dt.i8, x))
    assert "v0 = mask(x0)" in lines(ir.cast(dt.mask, x))
    assert "v0 = bitcast(u32, x0)" in lines(ir.bitcast(dt.u32, x))


def test_inputs_literals_and_lanes() -> None:
    u, c = opaque(dt.f64, [1]), ir.literal(dt.f64, 2.5)
    lanes = ir.cast(dt.f64, ir.lane(3))
    assert lines(ir.apply(op.fma, lanes, u, c)) == [
        "v0 = lane(i)",
        "v1 = f64(v0)",
        "x0 = broadcast(f64, p[1])",
        "c0 = literal(f64, p[2])",
        "v2 = fma(v1, x0, c0)",
        "store(f64, p[3], i, v2)",
    ]


def test_gathers() -> None:
    source_, index = opaque(dt.f32, range(6)), opaque(dt.u32, [0, 1])
    active = [
        "x0 = load(u32, p[1], i)",
        "v1 = in_bounds(p[0], 0, x0, p[3], v0)",
    ]
    text = lines(access.gather(source_, Access(index)))
    assert [line for line in text if line in active] == active
    # What is only gathered from is not loaded.
    assert text[-2:] == ["v2 = gather(f32, p[2], x0, v1)", "store(f32, p[4], i, v2)"]
    assert not any("load(f32" in line for line in text)
    text = lines(*access.gather_packet(source_, Access(index, packet=3)))
    assert text[-4:] == [
        "v2_0, v2_1, v2_2 = gather_packet(f32, p[2], x0, v1, 3)",
        "store(f32, p[4], i, v2_0)",
        "store(f32, p[5], i, v2_1)",
        "store(f32, p[6], i, v2_2)",
    ]
    w, at = opaque(dt.f32, [0.5, 2.0]), Access(index, what="here", packet=3, inside=True)
    text = lines(*access.gather_weighted(source_, [at, at], [w, w]))
    assert "v1_0, v1_1, v1_2 = gather_weighted(f32, p[1], v0, 3, x1, x2, x1, x2)" in text
    with flags.scoped_set_flag(JitFlag.BoundsChecks, False):
        assert not any("in_bounds" in k for k in lines(access.gather(source_, Access(index))))


@pytest.mark.parametrize(
    ("kind", "count", "how", "want"),
    [
        (None, 1, {}, "scatter(f32, p[5], x1, x0, v1)"),
        (None, 2, {"packet": 2}, "scatter_packet(f32, p[5], x0, v1, x1, x2)"),
        (
            None,
            1,
            {"reduce": "max", "mode": ReduceMode.Direct},
            "scatter_reduce(f32, 'max', 'direct', p[5], x1, x0, v1)",
        ),
        (
            None,
            1,
            {"reduce": "add", "mode": ReduceMode.Expand},
            "scatter_reduce_expand(f32, 'add', p[5], p[6], p[7], x1, x0, v1)",
        ),
        (op.scatter_inc, 0, {}, "v2 = scatter_inc(f32, p[5], x0, v1)"),
        (op.scatter_exch, 1, {}, "v2 = scatter_exch(f32, p[5], x1, x0, v1)"),
        (op.scatter_cas, 2, {}, "v2 = scatter_cas(f32, p[5], x1, x2, x0, v1)"),
    ],
)
def test_scatters(kind: op.Op | None, count: int, how: dict, want: str) -> None:
    schedule.evaluate([])
    values = [opaque(dt.f32, [1, 2]) for _ in range(2)]
    index = opaque(dt.u32, [0, 1])
    target = access.WriteTarget(opaque(dt.f32, range(4)))
    after = access.scatter(target, values[:count], Access(index, what="s", **how), kind)
    # Both values are inputs, so that the numbers of words are the same in all cases.
    ((_, found),) = schedule.preview([ir.apply(op.add, *values)])
    pending.effects.clear()
    assert after is not None
    assert f"    {want}\n" in found


def test_reductions() -> None:
    x = opaque(dt.i32, range(4))
    total = access.reduce_all("add", x)
    assert lines(total) == ["x0 = load(i32, p[1], i)", "reduce(i32, 'add', p[2], p[3], i, x0)"]
    y = ir.apply(op.neg, x)
    assert lines(y, access.reduce_all("min", y))[1:] == [
        "v0 = -x0",
        "store(i32, p[2], i, v0)",
        "reduce(i32, 'min', p[3], p[4], i, v0)",
    ]


def test_every_kind_of_operation_can_be_rendered() -> None:
    # No statement of their own, or several.
    unrendered = {"copy", "component", "splat", "reduce", "after"}
    unrendered |= {"state", "loop", "branch", "result"}
    assert {row.kind for row in op.TABLE.values()} - unrendered == set(source.RENDER)


def test_words_of_the_parameter_block(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[Program] = []
    for_program = DEVICE.kernel
    monkeypatch.setattr(
        type(DEVICE), "kernel", lambda _, text, p: programs.append(p) or for_program(text, p)
    )
    x, index = opaque(dt.f32, range(4)), opaque(dt.u32, [0, 1])
    y = ir.apply(op.mul, access.gather(x, Access(index)), ir.literal(dt.f32, 3))
    schedule.preview([y, access.reduce_all("add", y)])
    (p,) = programs
    assert p.inputs == (dt.u32, dt.f32)
    assert p.literals == (dt.f32,)
    assert p.checks == 1
    # The record, inputs, the literal, the size for the check, the output, partial sums and the sum.
    assert p.words == 1 + 2 + 1 + 1 + 1 + 2
    assert p.work.cost == sum(i.op.cost for i in p.instrs) + 2
    program.check(p)


# Comments


def test_labels_are_names_and_comments() -> None:
    x = opaque(dt.f32, [1, 2])
    for name in ("square\nand # more", "another"):
        y = ir.apply(op.mul, x, x)
        label.labels[y] = name
        as_name = "_".join(re.findall(r"\w+", name))
        assert f"{as_name} = x0 * x0  # [{' '.join(name.split())}]" in lines(y)
        # Comments stay with their nodes; others of the same structure have none.
        assert "v0 = x0 * x0" in lines(ir.apply(op.mul, x, x))


def test_debug_mode_shows_the_lines_that_traced_a_program() -> None:
    with flags.scoped_set_flag(JitFlag.Debug):
        x = opaque(dt.f32, [1, 2])
        y = ir.apply(op.mul, x, x)  # the square
        line = sys._getframe().f_lineno - 1
        text = lines(y)
    comment = f"# test_program.py:{line}  y = ir.apply(op.mul, x, x)  # the square"
    assert f"v0 = x0 * x0  {' '.join(comment.split())}" in [
        re.sub(r"  # .*", lambda m: "  " + " ".join(m[0].split()), line) for line in text
    ]


# Traps


def divided(x: list[float], y: list[float]) -> Node:
    return ir.apply(op.div, opaque(dt.f32, x), opaque(dt.f32, y))


def trapped(n: Node, *traps: JitFlag) -> list[float]:
    before = flags.current
    try:
        for trap in (JitFlag.Debug, *traps):
            flags.set_flag(trap, True)
        schedule.evaluate([n], DEVICE)
    finally:
        for trap in (JitFlag.Debug, *traps):
            flags.set_flag(trap, bool(before & trap))
    DEVICE.sync()
    return results([n])[0].tolist()


def test_trap_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "pinned", "auto")
    n = divided([1, 0, 1], [1, 0, 0])
    with pytest.raises(FloatingPointError) as caught:
        trapped(n, JitFlag.TrapNaN)
    assert str(caught.value) == "nan in lane 1: v0 = x0 / x1   (operands: 0.0, 0.0)"
    # The node is as it was, and the other trap finds the infinity.
    with pytest.raises(FloatingPointError, match="inf in lane 2: v0 = x0 / x1 "):
        trapped(n, JitFlag.TrapInf)
    assert trapped(n)[::2] == [1, float("inf")]


def test_traps_pass_over_what_comes_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "pinned", "auto")
    n = ir.apply(op.add, opaque(dt.f32, [float("nan"), float("inf")]), opaque(dt.f32, [1, 1]))
    result = trapped(n, JitFlag.TrapNaN, JitFlag.TrapInf)
    assert result[0] != result[0] and result[1] == float("inf")


def test_traps_need_debug_mode(tier: str) -> None:
    with flags.scoped_set_flag(JitFlag.TrapNaN):
        n = divided([0], [0])
        (found,) = results([n])
        DEVICE.sync()
    assert np.isnan(found[0])


def test_debug_mode_steps_through_kernels_that_are_compiled_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(variants, "pinned", "compiled")
    schedule.evaluate([divided([1, 2], [1, 2])])
    monkeypatch.setattr(variants, "pinned", "auto")
    n = divided([0, 2], [0, 2])
    with pytest.raises(FloatingPointError, match="nan in lane 0"):
        trapped(n, JitFlag.TrapNaN)


# Debuggers


def test_tracebacks_show_the_line_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "pinned", "auto")
    n = divided([0], [0])
    try:
        trapped(n, JitFlag.TrapNaN)
    except FloatingPointError as error:
        frames = traceback.extract_tb(error.__traceback__)
    (frame,) = [f for f in frames if f.filename.startswith("<drjit kernel ")]
    assert frame.name == "kernel"
    assert frame.line == "v0 = x0 / x1"
    linecache.checkcache()
    assert linecache.getline(frame.filename, 1) == "def kernel(i, p):\n"


def test_kernels_can_be_stepped_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a debugger does: it follows line events and looks at names."""
    monkeypatch.setattr(variants, "pinned", "auto")
    seen: list[tuple[str, list[str]]] = []

    def follow(frame, event: str, argument: object):
        code = frame.f_code
        if code.co_name == "kernel" and event == "line":
            text = linecache.getline(code.co_filename, frame.f_lineno).strip()
            seen.append((text, sorted(frame.f_locals)))
        return follow

    n = ir.apply(op.add, divided([6, 8], [2, 2]), ir.literal(dt.f32, 1))
    before = sys.gettrace()
    sys.settrace(follow)
    try:
        result = trapped(n)
    finally:
        sys.settrace(before)
    assert result == [4, 5]
    assert [text for text, _ in seen] == [
        "x0 = load(f32, p[1], i)",
        "x1 = load(f32, p[2], i)",
        "v0 = x0 / x1",
        "c0 = literal(f32, p[3])",
        "v1 = v0 + c0",
        "store(f32, p[4], i, v1)",
    ]
    assert seen[-1][1] == ["c0", "i", "p", "v0", "v1", "x0", "x1"]


def test_a_breakpoint_in_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The debugger stops in the kernel, not in what runs it: at its first line, or from Python 3.13
    on, at the call that starts it."""
    monkeypatch.setattr(variants, "pinned", "auto")
    commands = io.StringIO("until 3\nuntil 6\np v0\nlist\ncontinue\n")
    shown = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=shown, nosigint=True, readrc=False)
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
    before = sys.gettrace()
    try:
        assert trapped(divided([6, 8], [2, 2]), JitFlag.Breakpoint) == [3, 4]
    finally:
        sys.settrace(before)
    assert "-> x0 = load(f32, p[1], i)" in shown.getvalue()
    assert "array([3., 4.], dtype=float32)" in shown.getvalue()
    assert "def kernel(i, p):" in shown.getvalue()


def test_debug_mode_checks_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr(program, "check", checked.append)
    schedule.evaluate([divided([1], [3])])
    assert not checked
    assert trapped(divided([1], [3])) == [np.float32(1 / 3)]
    assert len(checked) == 1

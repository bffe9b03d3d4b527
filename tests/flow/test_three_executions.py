"""One kernel text, executed in every way there is: as Python (on NumPy, and on single numbers),
through our front end, compiled by Numba, and exported as scalar code.

Every operation is defined by IEEE 754 or by integers, the library's functions are kernel text, and
no target contracts products and sums: so results agree bit for bit (any NaN equals any NaN).
Reductions of floats add whole numbers, whose sums are exact in any order. On a GPU, all this needs
`JitFlag.FastMath` off. Also: what tracing folds equals what a kernel computes.
"""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import DEVICE, ELEMENTWISE, differing, opaque, results
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit import llvm
from drjit.jit import flags
from drjit.jit.cpu import variants
from drjit.jit.flags import JitFlag
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node as ir
from drjit.jit.ir import op
from drjit.jit.ir.dtype import DType
from drjit.jit.ir.node import Node
from drjit.jit.run import cache
from drjit.jit.target import library
from drjit.jit.trace import access
from drjit.jit.trace.access import Access

packets = pytest.importorskip("drjit.jit.target.packets", reason="the third execution needs Numba")

pytestmark = pytest.mark.usefixtures("computing_nodes")

DEBUG, NUMBA = int(JitFlag.Debug), int(JitFlag.NumbaCompiler)
CALLS = [name for name in ELEMENTWISE if op.TABLE[name].kind not in ("cast", "bitcast")]
LIBRARY = [name for name in CALLS if name in library.names]
PLAIN = [name for name in CALLS if name not in library.names]
NUMBERS = [t for t in dt.ALL if t.is_arithmetic]
CLASSES: dict[DType, Any] = {
    cls(0)._node.dtype: cls
    for cls in (
        llvm.Bool, llvm.Int8, llvm.UInt8, llvm.Int, llvm.UInt, llvm.Int64, llvm.UInt64,
        llvm.Float16, llvm.Float, llvm.Float64,
    )
}  # fmt: skip
REDUCTIONS = ("add", "mul", "min", "max", "and", "or")


def kind(t: DType) -> str:
    return "b" if t.is_mask else "f" if t.is_float else "i"


def edges(t: DType) -> np.ndarray:
    """Values of a type at which something may go wrong."""
    if t.is_mask:
        return np.array([False, True])
    if t.is_int:
        low, high = int(np.iinfo(t.numpy).min), int(np.iinfo(t.numpy).max)
        near = [0, 1, 2, 3, 7, t.bits - 1, t.bits, t.bits + 1, -1, -2, -7, 1 << 24, (1 << 53) + 1]
        near += [low, low + 1, high, high - 1, high // 2, high // 2 + 1, (1 << 60) + (1 << 36) + 1]
        return np.array([e for e in near if low <= e <= high], t.numpy)
    info = np.finfo(t.numpy)
    near = [0.0, 0.5, 1, 1.5, 2.5, 3, 100.7, np.inf, info.max, info.tiny, info.eps]
    near += [info.smallest_subnormal, 127.5, 255.4, 32767.6, 65519.0, 2.0**31, 2.0**32, 2.0**63]
    near += [2.0**64, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-24 + 2.0**-50, 1e-8, 1e5]
    with np.errstate(over="ignore"):
        return np.array([*near, *[-e for e in near], np.nan], np.float64).astype(t.numpy)


def sample(t: DType, size: int, rng: np.random.Generator) -> np.ndarray:
    """Edge values and random ones, half and half."""
    known = rng.choice(edges(t), size)
    if t.is_mask:
        return known
    if t.is_int:
        info = np.iinfo(t.numpy)
        spread = rng.integers(info.min, info.max, size, t.numpy, endpoint=True)
    else:
        spread = (rng.standard_normal(size) * 10).astype(t.numpy)
    return np.where(rng.random(size) < 0.5, known, spread)


def agree(executions: dict[str, list[np.ndarray]], names: list[str]) -> None:
    """Raises unless all executions gave the same bits as the one on NumPy."""
    want = executions["numpy"]
    for execution, got in executions.items():
        for name, a, b in zip(names, got, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            wrong = differing(a, b)
            assert not wrong.size, (
                f"{name} differs between {execution} and numpy in lanes {wrong[:5]}: "
                f"{a[wrong[:5]]}, not {b[wrong[:5]]}"
            )


def execute(build: Callable[[], dict[str, Node]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces and evaluates a program once for each execution, and compares. On a GPU, there are
    two: debug mode is that on NumPy."""
    found = {}
    names: list[str] = []
    for execution in ("numpy", "compiled", "numba", "python")[: 4 if DEVICE.on_host else 2]:
        with monkeypatch.context() as patch:
            if not DEVICE.on_host:
                exact = flags.current & ~JitFlag.FastMath
                patch.setattr(flags, "current", exact | DEBUG * (execution == "numpy"))
            elif execution in variants.INTERPRETED:
                patch.setattr(variants, "pinned", execution)
            else:
                patch.setattr(variants, "pinned", "compiled")
                flag = NUMBA * (execution == "numba")
                patch.setattr(flags, "current", flags.current & ~NUMBA | flag)
                dr.flush_kernel_cache()
            outputs = build()
            found[execution] = results(list(outputs.values()))
            names = list(outputs)
    agree(found, names)


def applied(names: list[str], t: DType, operands: list[Node]) -> dict[str, Node]:
    """All operations of those names that accept a type."""
    outputs = {}
    for name in names:
        row = op.TABLE[name]
        if row is op.select:
            outputs[name] = ir.apply(row, ir.apply(op.lt, *operands[:2]), *operands[:2])
        elif kind(t) in row.domain:
            outputs[name] = ir.apply(row, *operands[: row.arity])
    return outputs


def triples(t: DType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns every pair of edge values, and a third one shifted against them."""
    x = edges(t)
    a, b = np.repeat(x, x.size), np.tile(x, x.size)
    return a, b, np.roll(np.concatenate([a[::2], b[1::2]]), 7)[: a.size]


def array_of(n: Node) -> Any:
    """Returns a node as an array."""
    made = CLASSES[n.dtype]()
    made._node = n
    return made


@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_every_operation_on_edge_values(t: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through all operations but those of the library."""
    values = triples(t)

    def build() -> dict[str, Node]:
        return applied(PLAIN, t, [opaque(t, v) for v in values])

    execute(build, monkeypatch)


@pytest.mark.processor
@pytest.mark.parametrize("which", [PLAIN, pytest.param(LIBRARY, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("t", [t for t in CLASSES if t.is_arithmetic], ids=str)
def test_every_operation_in_exported_files(t: DType, which: list[str], tmp_path: Path) -> None:
    """The last execution: files of scalar code, which Numba compiles."""
    if which is LIBRARY and not t.is_float:
        pytest.skip("the library has none for integers")
    a, b, c = triples(t)
    names: list[str] = []

    def every(*operands: Any) -> list[Any]:
        outputs = applied(which, t, [x._node for x in operands])
        names[:] = outputs
        return [array_of(n) for n in outputs.values()]

    with dr.scoped_set_flag(JitFlag.FastMath, False):  # each operation is rounded
        path = dr.export(every, *map(CLASSES[t], (a, b, c)), path=tmp_path / "every.py")
        expected = [v.numpy() for v in every(*map(CLASSES[t], (a, b, c)))]
    found = runpy.run_path(str(path))["every"](a, b, c)
    agree({"numpy": expected, "exported": found}, names)


def test_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    results_of = {}

    def build() -> dict[str, Node]:
        x, y = opaque(dt.mask, a), opaque(dt.mask, b)
        names = ("and_", "or_", "xor", "eq", "ne")
        outputs = {name: ir.apply(op.TABLE[name], x, y) for name in names}
        outputs["not_"] = ir.apply(op.not_, x)
        outputs["select"] = ir.apply(op.select, x, y, ir.apply(op.not_, y))
        results_of.update(outputs)
        return outputs

    execute(build, monkeypatch)
    assert results([results_of["xor"]])[0].tolist() == [False, True, True, False]


@pytest.mark.parametrize("t", dt.ALL, ids=str)
def test_conversions(t: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a type to each, out-of-range values and halfway cases included."""

    def build() -> dict[str, Node]:
        x = opaque(t, edges(t))
        outputs = {to.name: ir.cast(to, x) for to in dt.ALL}
        if not t.is_mask:
            same = [to for to in dt.ALL if to.itemsize == t.itemsize and not to.is_mask]
            bits = ir.apply(op.select, ir.apply(op.eq, x, x), x, ir.literal(t, 0))
            outputs |= {f"bitcast {to}": ir.bitcast(to, bits) for to in same}
        return outputs

    execute(build, monkeypatch)


@pytest.mark.parametrize("t", [dt.f16, dt.f32, dt.f64], ids=str)
def test_library_functions(t: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([edges(t), (rng.standard_normal(200) * 20).astype(t.numpy)])
    y = rng.permutation(x)

    def build() -> dict[str, Node]:
        return applied(LIBRARY, t, [opaque(t, x), opaque(t, y)])

    execute(build, monkeypatch)


# Random programs. An instruction is a few numbers that choose an operation and its operands among
# the values so far, so that every list of them is a program.

# Shrinking would compile thousands of kernels: a failing program is shown as found.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]

instructions = st.lists(st.tuples(*[st.integers(0, 999)] * 5), min_size=4, max_size=24)


class Program:
    """The values that instructions compute from given inputs, by type."""

    def __init__(self, inputs: list[Node], types: list[DType]) -> None:
        self.types = types
        self.size = max(n.size for n in inputs)
        self.values: dict[DType, list[Node]] = {t: [] for t in types}
        self.values.setdefault(dt.mask, [])
        self.values.setdefault(dt.u32, []).append(ir.lane(self.size))
        for n in inputs:
            self.values[n.dtype].append(n)
        self.outputs: list[Node] = []

    def run(self, program: list[tuple]) -> dict[str, Node]:
        for which, type_index, *operands in program:
            t = self.types[type_index % len(self.types)]
            made = self.step(which, t, operands)
            self.values[made.dtype].append(made)
            self.outputs.append(made)
        # Some values stay inside of the kernel.
        chosen = self.outputs[::-2][:8]
        return {f"{n} (output {k})": n for k, n in enumerate(chosen)}

    def value(self, t: DType, index: int) -> Node:
        return self.values[t][index % len(self.values[t])]

    def step(self, which: int, t: DType, operands: list[int]) -> Node:
        a, b, c = (self.value(t, k) for k in operands)
        special = which % 8
        if special == 0:
            return ir.cast(self.types[operands[1] % len(self.types)], a)
        if special == 1:
            return self.gather(a, *operands)
        if special == 2:
            return self.reduction(a, operands[1])
        if special == 3:
            return ir.apply(op.select, self.mask(a, b, operands[1]), b, c)
        if special == 4 and t.is_int:
            to = [u for u in self.types if u.itemsize == t.itemsize and u.is_arithmetic]
            return ir.bitcast(to[operands[2] % len(to)], a)
        rows = [op.TABLE[name] for name in CALLS if kind(t) in op.TABLE[name].domain]
        rows = [row for row in rows if row is not op.select]
        row = rows[which // 8 % len(rows)]
        return ir.apply(row, *(a, b, c)[: row.arity])

    def mask(self, a: Node, b: Node, which: int) -> Node:
        return ir.apply((op.eq, op.ne)[which % 2], a, b)

    def gather(self, a: Node, i: int, m: int, _: int) -> Node:
        index = self.value(dt.u32, i)
        index = ir.apply(op.remainder, index, ir.literal(dt.u32, a.size))
        return access.gather(a, Access(index, self.value(dt.mask, m)))

    def reduction(self, a: Node, which: int) -> Node:
        """Whole numbers where the order of additions would matter, which stay exact."""
        t = a.dtype
        if t.is_mask:
            return access.reduce_all(("and", "or")[which % 2], a)
        if t.is_int:
            return access.reduce_all(REDUCTIONS[which % 6], a)
        small = ir.apply(op.lt, ir.apply(op.abs, a), ir.literal(t, 500))
        whole = ir.apply(op.add, ir.apply(op.trunc, a), ir.literal(t, 0))
        whole = ir.apply(op.select, small, whole, ir.literal(t, 1))
        return access.reduce_all(("add", "min", "max")[which % 3], whole)


def check_program(program: list[tuple], seed: int, size: int, patch: pytest.MonkeyPatch) -> None:
    def build() -> dict[str, Node]:
        rng = np.random.default_rng(seed)
        types = list(dt.ALL)
        inputs = [opaque(t, sample(t, size, rng)) for t in types for _ in range(2)]
        inputs += [opaque(t, sample(t, 1, rng)) for t in types]
        inputs += [ir.literal(t, sample(t, 1, rng).item()) for t in types]
        return Program(inputs, types).run(program)

    execute(build, patch)


SIZES = st.sampled_from([1, 2, 7, 16, 37, 100])
SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=40, phases=PHASES)
@given(instructions, SEEDS, SIZES)
def test_random_programs(monkeypatch, program: list[tuple], seed: int, size: int) -> None:
    check_program(program, seed, size, monkeypatch)


@pytest.mark.sweep
@settings(max_examples=200, phases=PHASES)
@given(instructions, SEEDS, SIZES)
def test_many_random_programs(monkeypatch, program: list[tuple], seed: int, size: int) -> None:
    check_program(program, seed, size, monkeypatch)


# Folding: a program of literals is computed while it is traced.


def check_folding(program: list[tuple], seed: int) -> None:
    def build(literals: bool) -> list[Node]:
        rng = np.random.default_rng(seed)
        drawn = [(t, sample(t, 1, rng)) for t in dt.ALL for _ in range(4)]
        inputs = [ir.literal(t, v.item()) if literals else opaque(t, v) for t, v in drawn]
        return list(Program(inputs, list(dt.ALL)).run(program).values())

    folded, computed = build(True), build(False)
    assert all(n.is_literal for n in folded)
    agree(
        {"numpy": results(folded), "a kernel": results(computed)},
        [repr(n) for n in folded],
    )


@settings(max_examples=60, phases=PHASES)
@given(instructions, SEEDS)
def test_folded_values_are_those_of_kernels(tier: str, program: list[tuple], seed: int) -> None:
    check_folding(program, seed)


@pytest.mark.sweep
@settings(max_examples=1000, phases=PHASES)
@given(instructions, SEEDS)
def test_many_folded_programs(tier: str, program: list[tuple], seed: int) -> None:
    check_folding(program, seed)


def test_literals_hold_values_of_their_type() -> None:
    for t, value, want in (
        (dt.f32, 0.1, float(np.float32(0.1))),
        (dt.f16, 0.1, float(np.float16(0.1))),
        (dt.f64, 0.1, 0.1),
        (dt.f32, 1e39, float("inf")),
        (dt.f16, -65520, float("-inf")),
        (dt.f64, -(10**400), float("-inf")),
        (dt.i8, 200, -56),
        (dt.u8, -1, 255),
        (dt.u64, -1, 2**64 - 1),
        (dt.i32, 1e10, 2**31 - 1),
        (dt.u16, -3.5, 0),
        (dt.i64, float("nan"), 0),
        (dt.mask, 2, True),
    ):
        assert ir.literal(t, value).data == want, (t, value)


@pytest.mark.parametrize("t", dt.ALL, ids=str)
def test_folded_conversions(tier: str, t: DType) -> None:
    values = edges(t)
    x = opaque(t, values)
    outputs = [ir.cast(to, x) for to in dt.ALL]
    for to, got in zip(dt.ALL, results(outputs), strict=True):
        folded = [ir.cast(to, ir.literal(t, v.item())) for v in values]
        assert all(n.is_literal for n in folded)
        want = np.array([n.data for n in folded], to.numpy)
        wrong = differing(got, want)
        assert not wrong.size, f"{t} {values[wrong]} to {to}: {got[wrong]}, not {want[wrong]}"


@pytest.mark.parametrize("t", [t for t in dt.ALL if t.is_arithmetic], ids=str)
def test_identities_hold_for_every_value(tier: str, t: DType) -> None:
    """Operations with a literal give the same whether the literal is known while tracing or not."""
    values = edges(t)
    constants = [0, 1, -1, -0.0] if t.is_float else [0, 1, -1]
    x = opaque(t, values)
    names = [n for n in PLAIN if op.TABLE[n].arity == 2 and kind(t) in op.TABLE[n].domain]
    known, unknown, what = [], [], []
    for name in names:
        for value in constants:
            c = ir.literal(t, value)
            hidden = opaque(t, np.full(1, c.data, t.numpy))
            for flip in (False, True):
                for nodes, n in ((known, c), (unknown, hidden)):
                    operands = (n, x) if flip else (x, n)
                    nodes.append(ir.apply(op.TABLE[name], *operands))
                what.append(f"{name} with {value}, flipped: {flip}")
    agree({"numpy": results(known), "hidden": results(unknown)}, what)


@pytest.mark.processor
def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """An execution with one wrong bit is noticed."""
    translate = packets.body

    def disturbed(t: Any, definition: Any) -> None:
        translate(t, definition)
        t.f.lines = [line.replace("= add <", "= sub <") for line in t.f.lines]

    def build() -> dict[str, Node]:
        x = opaque(dt.i32, np.arange(3))
        return {"sum": ir.apply(op.add, x, x)}

    monkeypatch.setattr(cache, "folder", lambda: None)
    execute(build, monkeypatch)
    monkeypatch.setattr(packets, "body", disturbed)
    with pytest.raises(AssertionError, match="sum differs between numba and numpy in lanes"):
        execute(build, monkeypatch)

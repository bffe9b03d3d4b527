"""Lanes in reports: values, statement by statement, are those that NumPy computes for all lanes."""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_namespace import registered

import drjit as dr
from drjit import nn
from drjit.__main__ import main
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.target import numpy as target
from drjit.llvm import ad as llvm
from drjit.llvm.ad import Array2f, Bool, Float, Float16, Int64, UInt, UInt64
from drjit.reporting import lanes, report

EFFECTS = ("store", "stream", "store_vector", "reduce", "outer", "accumulate")


def traced(text: str, p: list, size: int) -> dict[tuple, list]:
    """The values that a text assigns to names on NumPy, for all lanes, found by a trace function:
    by line, the rounds of the loops around it, and name."""
    file, found, counts = "<traced>", defaultdict(list), []
    loops = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.While)]
    assigned = {
        n.lineno: [e.id for t in n.targets for e in ast.walk(t) if isinstance(e, ast.Name)]
        for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.Assign)
    }

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        before: list[int] = frame.f_locals.get("before") or state.setdefault(id(frame), [0])
        if before[0] in assigned and event in ("line", "return"):
            for name in assigned[before[0]]:
                rounds = tuple(n for _, n in counts)
                found[before[0], rounds, name].append(frame.f_locals[name])
        line = frame.f_lineno
        if event == "line":
            if frame.f_code.co_name == "kernel":
                while counts and not counts[-1][0].lineno <= line <= counts[-1][0].end_lineno:
                    counts.pop()
                for w in loops:
                    if w.lineno == line and counts and counts[-1][0] is w:
                        counts[-1] = w, counts[-1][1] + 1
                    elif w.lineno == line:
                        counts.append((w, 0))
            before[0] = line
        else:
            before[0] = 0
        return trace

    state: dict[int, list[int]] = {}
    names = dict(target.namespace) | dict.fromkeys(EFFECTS, lambda *_: None)
    exec(compile(text, file, "exec"), names)
    function = names["kernel"]
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        with np.errstate(all="ignore"):
            function(target.LaneRange(0, size), p)
    finally:
        sys.settrace(previous)
    return found


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """What NumPy computes for all lanes of the launches that are recorded."""
    found: dict[Any, Any] = {}
    original = lanes._Launch.__init__

    def init(self: Any, text: Any, size: int, operands: Any) -> None:
        original(self, text, size, operands)
        kernel = text.kernel
        effects = iter(operands[3])
        p = [x.copy() if isinstance(x, np.ndarray) else x for x in self.p]
        p[0] = np.zeros(6, np.int64)
        first = 1 + len(operands[0]) + len(operands[1]) + len(operands[2])
        k = first
        for e in effects:
            n = e.size * e.dtype.count
            p[k] = kernel.device.download(e.buffer, e.dtype, n).copy()
            k += 3 if e.mode == "expand" else 1
        found[kernel.text] = traced(kernel.text, p, size), size

    monkeypatch.setattr(lanes._Launch, "__init__", init)
    return found


def same(shown: Any, value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.ndim:
        return shown == f"[{', '.join(str(v) for v in value[:8])}" + (
            "]" if len(value) <= 8 else f", .. {len(value)} features]"
        )
    if value.dtype.kind == "b":
        return shown == str(bool(value))
    if value.dtype.kind in "iu":
        return int(shown) == int(value) and (isinstance(shown, str) == (abs(int(value)) >= 2**53))
    with np.errstate(all="ignore"):
        return np.array_equal(value.dtype.type(shown), value, equal_nan=True)


def check(r: Any, expected: dict) -> list[dict]:
    data = r.data()
    assert not data["program"]["notes"], data["program"]["notes"]
    assert data["lanes"]
    for record in data["lanes"]:
        text = data["kernels"][record["kernel"]]["text"]
        found, size = expected["\n".join(text) + "\n"]
        assert record["size"] == size
        seen: Counter = Counter()
        shown = 0
        for line, rounds, name, values, active in record["steps"]:
            assert len(values) == len(active) == len(record["lanes"]) and any(active)
            if not name:
                continue
            key = line, tuple(rounds), name
            everywhere = found[key][seen[key]]
            seen[key] += 1
            array = np.asarray(everywhere)
            shape = (*array.shape[:-1], size) if array.ndim == 2 else (size,)
            array = np.broadcast_to(array, shape)
            for value, on, lane in zip(values, active, record["lanes"], strict=True):
                if on:
                    assert same(value, array[..., lane]), (text[line - 1], lane)
                    shown += 1
        assert shown
    return data["lanes"]


def random_program(rng: np.random.Generator) -> Any:
    x = Float(rng.normal(size=200).astype(np.float32))
    n = UInt(rng.integers(0, 1000, 200))
    floats, ints = [x, Float(2.5)], [n, UInt(3)]
    big = UInt64(rng.integers(0, 2**64, 200, dtype=np.uint64))
    half = Float16(rng.normal(size=200).astype(np.float16))
    of_floats: list[Callable] = [
        lambda a, b, i: a + b, lambda a, b, i: a * b, lambda a, b, i: a / b,
        lambda a, b, i: dr.sqrt(a), lambda a, b, i: dr.sin(a), lambda a, b, i: dr.log(a),
        lambda a, b, i: dr.select(a > b, a, b), lambda a, b, i: dr.fma(a, b, a),
        lambda a, b, i: dr.gather(Float, x, i % 200), lambda a, b, i: Float(half) * a,
        lambda a, b, i: dr.exp(a), lambda a, b, i: Float(i), lambda a, b, i: dr.minimum(a, b),
    ]  # fmt: skip
    of_ints: list[Callable] = [
        lambda a, i, j: i + j, lambda a, i, j: i * j, lambda a, i, j: i // (j + 1),
        lambda a, i, j: i % (j + 1), lambda a, i, j: i ^ j, lambda a, i, j: i << (j & 7),
        lambda a, i, j: dr.popcnt(i), lambda a, i, j: UInt(a), lambda a, i, j: dr.mul_hi(i, j),
        lambda a, i, j: UInt(big >> 40),
    ]  # fmt: skip
    for _ in range(30):
        a, b = (floats[k] for k in rng.integers(0, len(floats), 2))
        i, j = (ints[k] for k in rng.integers(0, len(ints), 2))
        floats.append(of_floats[rng.integers(len(of_floats))](a, b, i))
        ints.append(of_ints[rng.integers(len(of_ints))](a, i, j))
    return floats[-4:], ints[-4:], half * half, big * 3 + UInt64(ints[-1]), floats[-1] > floats[-2]


@pytest.mark.parametrize("seed", range(8))
def test_programs(seed: int, expected: dict) -> None:
    with dr.report(lanes=[0, 5, 17, 199]) as r:
        dr.eval(random_program(np.random.default_rng(seed)))
    check(r, expected)


@dr.syntax
def collatz(n: UInt, table: Float) -> tuple[UInt, Float]:
    steps, total = UInt(0), Float(0)
    while n != 1:
        k = UInt(0)
        while k < n % 4:
            total += dr.gather(Float, table, (n + k) % 10)
            k += 1
        if (n & 1) == 0:
            n = n // 2
        else:
            n = n * 3 + 1
            total = total * 0.5
        steps += 1
    return steps, total


def test_loops_and_branches(expected: dict) -> None:
    table = dr.linspace(Float, 0, 1, 10)
    dr.eval(table)
    with dr.report(lanes=[0, 2, 26, 39]) as r:
        dr.eval(collatz(dr.arange(UInt, 40) + 1, table))
    (record,) = check(r, expected)
    rounds = [tuple(step[1]) for step in record["steps"]]
    assert max(rounds)[0] == 110  # those of 27
    assert any(len(one) == 2 for one in rounds)
    first = [step for step in record["steps"] if step[1] and step[1][0] == 0]
    later = [step for step in record["steps"] if step[1] and step[1][0] == 50]
    assert any(step[4] == [0, 1, 1, 1] for step in first)  # lane 0 is done
    assert {tuple(step[4]) for step in later} <= {(0, 0, 1, 0)}


def test_calls(expected: dict) -> None:
    def one(x: Float) -> Float:
        for _ in range(20):
            x = dr.fma(x, x, -0.5)
        return x

    def other(x: Float) -> Float:
        return dr.sqrt(x)

    x = dr.linspace(Float, 0, 1, 30)
    index = dr.arange(UInt, 30) % 3
    dr.eval(x, index)
    with dr.report(lanes=[3, 4, 5]) as r:
        y = dr.switch(index, [one, other, one], x)
        dr.eval(y + dr.switch(index, [other, one, one], x + 1))
    check(r, expected)


def test_local_memory_and_halves(expected: dict) -> None:
    with dr.report(lanes=[1, 6]) as r:
        memory = dr.alloc_local(Float16, 4, dr.zeros(Float16, 1))
        x = Float16(dr.arange(UInt, 7))
        i = dr.arange(UInt, 7) % 4
        memory.write(x * 3, i)
        memory.write(x + 1, (i + 1) % 4)
        dr.eval(memory.read(i) + memory.read((i + 2) % 4))
    check(r, expected)


def test_vectors(expected: dict) -> None:
    network = nn.Sequential(nn.Linear(-1, 16), nn.ReLU(), nn.Linear(-1, 3))
    network = network.alloc(llvm.TensorXf16, 2, rng=dr.rng(seed=0))
    network = nn.pack(network, layout="training")
    x, y = Float16(dr.linspace(Float, 0, 1, 40)), Float16(dr.linspace(Float, 1, 0, 40))
    dr.eval(x, y, network)
    dr.enable_grad(x)
    with dr.report(lanes=[0, 33]) as r:
        out = [*network(nn.CoopVec(x, y))]
        dr.eval(out)
        dr.backward(dr.square(out[0]))
    records = check(r, expected)
    assert any(str(v)[0] == "[" for step in records[-1]["steps"] for v in step[3])


def test_scatters_change_nothing(expected: dict) -> None:
    results = []
    for given in (None, [0, 3], [0]):
        memory, count = dr.zeros(Float, 8), dr.zeros(UInt, 4)
        dr.eval(memory, count)
        x = dr.arange(UInt, 100)
        with dr.report(lanes=given) as r:
            dr.scatter_add(memory, Float(x) * 0.5, x % 8)
            slot = dr.scatter_inc(count, x % 4)
            dr.scatter(memory, Float(slot), 7, x == 99)
            total = dr.sum(Float(x) + 1)
            dr.eval(memory, count, slot, total)
        results.append([memory.numpy(), count.numpy(), slot.numpy(), total.numpy()])
        if given:
            records = check(r, expected)
            text = r.data()["kernels"][records[0]["kernel"]]["text"]
            old = [s for s in records[0]["steps"] if "scatter_inc" in text[s[0] - 1]]
            assert [s[3] for s in old] == [[0 for _ in given]]
    for found in results[1:]:
        for a, b in zip(results[0], found, strict=True):
            assert np.array_equal(a, b)


def test_old_values_are_those_of_all_lanes(expected: dict) -> None:
    count = dr.zeros(UInt, 1)
    dr.eval(count)
    with dr.report(lanes=[5, 9]) as r:
        dr.eval(dr.scatter_inc(count, dr.zeros(UInt, 20)) + 1)
    records = check(r, expected)
    assert [6, 10] in [s[3] for s in records[0]["steps"]]


def test_choices() -> None:
    x = dr.arange(Float, 100)
    dr.eval(x)
    with dr.report(lanes=dr.arange(Float, 100) > 40) as r:
        dr.eval(x + 1)
    (record,) = r.data()["lanes"]
    assert record["lanes"] == [*range(41, 100)] and record["chosen"] == "by mask"
    with dr.report(lanes=np.arange(100) % 2 == 1) as r:
        dr.eval(x + 1)
    assert r.data()["lanes"][0]["lanes"] == [*range(1, 100, 2)]
    with dr.report(lanes=[7], launch=2) as r:
        for k in range(4):
            dr.eval(x * dr.opaque(Float, k + 10))
            dr.eval(dr.opaque(Float, k, 3) + 0.5)  # which has no lane 7
    (record,) = r.data()["lanes"]
    assert (record["launch"], record["size"]) == (2, 100)
    assert record["steps"][-1][2:4] == ["", [84.0]]


@pytest.mark.parametrize("given", ["inf", [], [-1], [0.5], [[1], [2]], [*range(65)], None])
def test_wrong_choices(given: Any) -> None:
    if given is None:
        assert dr.report(lanes=None)
        return
    with pytest.raises(ValueError, match=r"dr.report\(lanes=...\): expected"):
        dr.report(lanes=given)


def nan_programs() -> Iterator[tuple[str, Callable, int, str]]:
    """Programs with a NaN in a lane, and the statement that makes it."""
    yield "stored", lambda x: dr.sqrt(x + 3) + 1, 0, "sqrt"
    yield "summed", lambda x: dr.sum(dr.log(60 - x)), 66, "log"
    yield "divided", lambda x: (x - 20) / (x - 20), 25, "/"

    def scattered(x: Float) -> Float:
        memory = dr.zeros(Float, 10)
        dr.scatter_add(memory, dr.sqrt(60 - x), UInt(x + 5) % 10)
        return memory

    yield "scattered", scattered, 66, "sqrt"

    def packets(x: Float) -> Array2f:
        memory = dr.zeros(Array2f, 10)
        dr.scatter_add(memory, Array2f(x, dr.sqrt(60 - x)), UInt(x + 5) % 10)
        return memory

    yield "scattered as packets", packets, 66, "sqrt"

    def gathered(x: Float) -> Float:
        return dr.gather(Float, Float(1, 2, np.nan, 3), UInt(x + 5) % 4) * 2

    yield "gathered", gathered, 2, "gather"

    @dr.syntax
    def loop(x: Float) -> Float:
        k, s = UInt(0), Float(x)
        while k < 20:
            if k == 13:
                s = s - dr.sqrt(s - 80)
            s += 1
            k += 1
        return s

    yield "in a loop", loop, 0, "sqrt"


@pytest.mark.parametrize(("name", "function", "lane", "made"), [*nan_programs()])
def test_first_nan(name: str, function: Callable, lane: int, made: str) -> None:
    x = dr.arange(Float, 100) - 5
    dr.eval(x)
    with dr.report(lanes="nan") as r:
        dr.eval(x * 2)
        dr.eval(function(x))
        dr.eval(function(x) * 3)
    data = r.data()
    (record,) = data["lanes"]
    assert record["lanes"] == [lane] and record["chosen"] == "first NaN"
    (origin,) = record["origins"]
    text = data["kernels"][record["kernel"]]["text"]
    line, _, _, values, active = record["steps"][origin["step"]]
    assert made in text[line - 1] and values == ["nan"] and active == [1]
    assert origin["chain"][0] == origin["step"]
    assert origin["chain"] == sorted(origin["chain"], reverse=True)
    end = text[record["steps"][origin["chain"][-1]][0] - 1]
    assert any(word in end for word in ("load(", "gather(", "lane(", "literal("))


def test_no_nan() -> None:
    with dr.report(lanes="nan") as r:
        dr.eval(dr.arange(Float, 100) + 1)
    assert r.data()["lanes"] == []


def test_zero_is_to_blame() -> None:
    x = dr.arange(Float, 5)
    y = dr.opaque(Float, 1e30, 5)
    dr.eval(x, y)
    with dr.report(lanes=[0, 1]) as r:
        z = dr.abs(x)
        dr.eval(y / z)
    (record,) = r.data()["lanes"]
    (origin,) = record["origins"]
    text = r.data()["kernels"][record["kernel"]]["text"]
    way = [text[record["steps"][k][0] - 1].strip() for k in origin["chain"]]
    assert origin["lane"] == 0 and "/" in way[0] and "abs" in way[1] and "load" in way[2]


def test_too_many_steps() -> None:
    @dr.syntax
    def loop(n: UInt, x: Float) -> Float:
        while n > 0:
            x = dr.select(n == 3, dr.sqrt(-1 - dr.abs(x)), x + 1)
            n -= 1
        return x

    for given in ([0], "nan"):
        with dr.report(lanes=given) as r:
            dr.eval(loop(dr.opaque(UInt, 10000, 4), Float(0)))
        data = r.data()
        (record,) = data["lanes"]
        assert len(record["steps"]) <= lanes.MOST_STEPS
        assert any("are left out" in note for note in data["program"]["notes"])
        for origin in record["origins"]:
            assert all(0 <= k < len(record["steps"]) for k in origin["chain"])
    (origin,) = record["origins"]
    assert record["steps"][origin["step"]][1] == [9997]


def test_frozen_functions_and_own_kernels(expected: dict) -> None:
    @dr.freeze
    def frozen(x: Float) -> Float:
        return dr.sin(x) + 1

    @dr.kernel
    def own(i, x, y):  # type: ignore[no-untyped-def]
        v = load(f32, x, i)  # type: ignore # noqa: F821
        store(f32, y, i, v * v + 1)  # type: ignore # noqa: F821

    x = dr.arange(Float, 10)
    dr.eval(x)
    frozen(x)
    with dr.report(lanes=[2]) as r:
        dr.eval(frozen(x + 1))
        own(x)
    records = check(r, expected)
    assert [record["steps"][-1][3][0] for record in records][-1] == 5.0


def test_errors_stay_those_of_the_program() -> None:
    x = dr.arange(Float, 10)
    dr.eval(x)
    with (
        dr.report(lanes=[9]) as r,
        dr.scoped_set_flag(dr.JitFlag.Debug),
        pytest.raises(IndexError, match="index 10"),
    ):
        print(dr.gather(Float, x, dr.arange(UInt, 10) * 2))
    (record, *_) = [one for one in r.data()["lanes"] if one["size"] == 10][-1:]
    assert record["steps"][-1][3] == [0.0]


def test_masks_are_shown() -> None:
    with dr.report(lanes=[0, 1]) as r:
        dr.eval((dr.arange(UInt, 3) == 1) & Bool(True), Int64(dr.arange(UInt, 3)) - (1 << 60))
    values = [step[3] for record in r.data()["lanes"] for step in record["steps"]]
    assert ["False", "True"] in values and [str(-(1 << 60)), str(1 - (1 << 60))] in values


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    saved = []
    monkeypatch.setattr(report.Report, "save", lambda r, path: saved.append(r.data()))
    monkeypatch.setattr(sys, "path", [*sys.path])
    program = tmp_path / "program.py"
    program.write_text(
        "import drjit as dr\nx = dr.arange(dr.llvm.Float, 9) - 2\ndr.eval(dr.sqrt(x))\n"
    )
    for option, found in (("2,0", [0, 2]), ("nan", [0])):
        monkeypatch.setattr(sys, "argv", [])
        assert main(["report", "--lanes", option, str(program)]) == 0
        assert [record["lanes"] for record in saved[-1]["lanes"]] == [found]
    with pytest.raises(SystemExit):
        main(["report", "--lanes", "a,b", str(program)])
    assert (
        "expected nan, or up to 64 lane numbers such as 0,5,9, not 'a,b'" in capsys.readouterr().err
    )


def test_an_emulated_gpu() -> None:
    with registered(Cuda(EmulatedDriver())):
        x = dr.arange(dr.cuda.Float, 40) - 3
        memory = dr.zeros(dr.cuda.Float, 3)
        dr.eval(x, memory)
        with dr.report(lanes=[0, 7]) as r:
            dr.scatter_add(memory, x, dr.cuda.UInt(x + 3) % 3)
            dr.eval(dr.sqrt(x), memory)
        with dr.report(lanes="nan") as first:
            y = dr.sqrt(x * 2)
            dr.eval(y)
        total = memory.numpy().tolist()
    (record,) = r.data()["lanes"]
    assert ["nan", 2.0] in [step[3] for step in record["steps"]]
    assert total == [sum(range(-3 + k, 37, 3)) for k in range(3)]
    (record,) = first.data()["lanes"]
    assert record["lanes"] == [0] and len(record["origins"]) == 1


def test_functions_of_numba(expected: dict) -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def root(x: float) -> float:
        return x**0.5 if x >= 0 else -1.0

    function = dr.wrap("drjit", "numba")(root)
    x = dr.linspace(llvm.Float64, -1, 2, 10)
    dr.eval(x)
    with dr.report(lanes=[0, 9]) as r:
        dr.eval(function(x) + 1)
    (record,) = check(r, expected)
    assert record["steps"][-1][3] == [0.0, 1 + 2**0.5]


def test_a_nan_inside_of_a_function() -> None:
    def long(x: Float) -> Float:
        for _ in range(20):
            x = dr.fma(x, 0.5, -0.25)
        return dr.sqrt(x)

    x = dr.linspace(Float, 4, -4, 9)
    index = dr.arange(UInt, 9) % 2
    dr.eval(x, index)
    with dr.report(lanes="nan") as r:
        functions = [long, lambda x: x + 1]
        dr.eval(dr.switch(index, functions, x) + dr.switch(1 - index, functions, x))
    (record,) = r.data()["lanes"]
    (origin,) = record["origins"]
    text = r.data()["kernels"][record["kernel"]]["text"]
    way = [text[record["steps"][k][0] - 1].strip() for k in origin["chain"]]
    assert "sqrt(" in way[0] and "fma(" in way[1] and "load(" in way[-1]

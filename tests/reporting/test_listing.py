"""Listings: what became of each statement of a kernel, in LLVM IR and assembly."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

import drjit as dr
from drjit import nn
from drjit.jit.cuda import assembler
from drjit.jit.device import devices
from drjit.jit.run import cache
from drjit.jit.target import simd
from drjit.jit.target.packet_width import packet_lanes
from drjit.jit.target.simd import kernel as translation
from drjit.jit.target.simd import llvm
from drjit.llvm.ad import ArrayXf, Float, Float16, Float64, TensorXf16, UInt, UInt64
from drjit.opt import Adam
from drjit.reporting import debug_lines, listing, machine
from drjit.reporting.report import Report

COMMENT = "#" if listing.processor.architecture() == "x86-64" else "//"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what costs most is listed."""
    monkeypatch.setattr(listing, "MOST_SECONDS", 1e9)


def elementwise() -> object:
    x = dr.linspace(Float, 0.1, 1, 1000)
    return dr.sin(x) * dr.exp(x) + dr.fma(x, x, dr.sqrt(x)), dr.sum(x * x), dr.max(x)


def wide() -> object:
    x, k = dr.linspace(Float64, 0.1, 1, 1000), dr.arange(UInt64, 1000)
    return dr.log(x) + dr.lgamma(x), k * 12345 // 7 + dr.popcnt(k), Float16(Float(x)) + 1


@dr.syntax
def loop() -> Any:
    i, s = dr.arange(UInt, 1000) % 30, dr.zeros(Float, 1000)
    while i > 0:
        if i % 3 == 0:
            s += dr.sin(Float(i) * s + 1)
        i -= 1
    return s, dr.sum(s)


def memory() -> object:
    i, x = dr.arange(UInt, 1000), dr.linspace(Float, 0, 1, 1000)
    target = dr.zeros(Float, 100)
    dr.scatter_add(target, dr.gather(Float, x, i * 7 % 1000), i % 100)
    packet = dr.gather(dr.llvm.ad.Array4f, x, i % 250)
    direct = dr.zeros(Float64, 10)
    dr.scatter_add(direct, Float64(x), i % 10, mode=dr.ReduceMode.Direct)
    counts = dr.zeros(UInt, 10)
    old = dr.scatter_inc(counts, i % 10)
    return target, direct, packet, old, counts, dr.cumsum(x), dr.block_sum(x, 10)


def network() -> object:
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(-1, 2))
    net = nn.pack(net.alloc(TensorXf16, 4), layout="training")
    optimizer = Adam(lr=1e-3)
    optimizer.update(net)
    net.update(optimizer)
    x = nn.CoopVec([Float16(dr.linspace(Float, 0, 1, 500)) for _ in range(4)])
    dr.backward(dr.mean(dr.square(ArrayXf([Float(v) for v in net(x)])), axis=None))
    optimizer.step()
    return dict(optimizer)


def long() -> object:
    x = y = dr.linspace(Float, 0, 1, 1000)
    for k in range(700):
        y = dr.select(y > k, y * x, y + dr.abs(x - k))
    return y


PROGRAMS = [elementwise, wide, loop, memory, network, long]


def met(r: Report) -> dict[str, Any]:
    """The kernels of a report by name, before it has their listings."""
    assert r._writer is not None
    return {k.kernel.name: k.kernel for k in r._writer.met}


def kernels_of(program: Callable[[], object]) -> list:
    """The kernels that a program needs."""
    dr.kernel_history_clear()
    with dr.report() as r:
        dr.eval(program())
    names = met(r)
    found = [k for d in devices() for k in d.kernels() if k.name in names]
    assert found
    return found


def statements(text: str) -> set[int]:
    """The lines of the statements that may have instructions: literals are often parts of others,
    and a head has none."""
    lines = enumerate(text.rstrip("\n").split("\n"), 1)
    return {n for n, line in lines if not re.search(r"= literal\(|^def |^$|\breturn$", line)}


def check_lines(text: str, found: listing.Listing) -> None:
    """Nearly every statement has instructions, and nearly every instruction of the loop over
    packets a statement."""
    rows = [row for row in found.rows if row.is_instruction]
    lines = text.rstrip("\n").split("\n")
    has = {row.line for row in rows} | {
        n for n, _ in listing.absorbed(lines, {r.line for r in rows})
    }
    expected = statements(text)
    assert len(expected & has) >= 0.95 * len(expected), expected - has
    inner = [row for row in rows if row.depth]
    assert sum(row.line > 0 for row in inner) >= 0.95 * len(inner)
    assert {row.line for row in rows} <= {0, *range(1, len(lines) + 1)}


@pytest.mark.parametrize("program", PROGRAMS)
def test_locations_change_no_instruction(program: Callable) -> None:
    for k in kernels_of(program):
        lanes = packet_lanes(k.text)
        for contract, level in ((False, None), (True, None), (False, 0)):
            plain = translation.module_text(k.text, "kernel", lanes, contract)
            code = llvm.object_code(plain.ir, *plain.options, level, as_text=True).decode()
            before = [row.text for row in listing.assembly(code, COMMENT)]
            found = listing.compiled(k.text, "kernel", lanes, contract, level)
            assert [row.text for row in found.rows] == before
            check_lines(k.text, found)


def test_tags_change_no_line() -> None:
    for k in kernels_of(memory):
        plain = translation.module_text(k.text, "kernel", 16, True)
        tagged = translation.module_text(k.text, "kernel", 16, True, debug_lines.tagging())
        assert tagged.ir != plain.ir
        assert debug_lines.untagged(tagged.ir) == plain.ir


def test_nothing_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    k = next(k for k in kernels_of(loop) if "while" in k.text)
    machine.limits()  # whose kernels are in the cache
    before, put, kept = simd.assembly(k.text), cache.put, []

    def keep(key: str, *entry: Any) -> None:  # other threads may have something to keep
        if get_ident() == own:
            kept.append(key)
        put(key, *entry)

    own = get_ident()
    monkeypatch.setattr(cache, "put", keep)
    listing.of_processor(k)
    assert simd.assembly(k.text) == before
    assert not kept


def test_instructions_and_their_statements() -> None:
    text = (
        "def kernel(i, p):\n    x = load(f32, p[1], i)\n    v0 = sqrt(x)\n    v1 = sin(v0)\n"
        "    v2 = v0 * v1\n    v3 = v1 / v2\n    store(f32, p[2], i, v3)\n"
    )
    found = listing.compiled(text, "kernel", packet_lanes(text))
    by_line: dict[int, str] = {}
    for row in found.rows:
        by_line[row.line] = by_line.get(row.line, "") + row.text
    assert "sqrt" in by_line[3] and "div" in by_line[6]
    assert sum(row.line == 4 for row in found.rows) > 20  # the inlined sine
    ir = {line: text for text, line in found.ir}
    assert "fdiv" in ir[6] and "store" in ir[7]
    assert not any("!" in text for text, _ in found.ir)
    assert found.ir[-1] == ("}", 0)


@pytest.mark.parametrize(
    "example",
    [
        "neural_field --iterations 3",
        "path_tracing --size 16 --samples 32",
        "sphere_tracing --size 32",
    ],
)
def test_examples(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *arguments = example.split()
    monkeypatch.delitem(sys.modules, f"drjit_examples.{name}", raising=False)
    monkeypatch.setattr(sys, "argv", [name, *arguments, "--output", str(tmp_path / "out.png")])
    with dr.report() as r:
        runpy.run_module(f"drjit_examples.{name}", run_name="__main__")
    kernels = met(r)
    entries = sorted(r.data()["kernels"], key=lambda e: -e["seconds"])
    listed = [e for e in entries if e["asm"]]
    assert listed[:3] == entries[:3]
    for entry in listed[:8]:
        assert len(entry["asm"]) == len(entry["asm_lines"])
        assert len(entry["ir"]) == len(entry["ir_lines"])
        has = {*entry["asm_lines"], *[line for line, _ in entry["absorbed"]]}
        expected = statements("\n".join(entry["text"]))
        assert len(expected & has) >= 0.95 * len(expected)
        check_lines(kernels[entry["name"]].text, listing.of_processor(kernels[entry["name"]]))


def test_words(tier: str) -> None:
    x = dr.opaque(Float, 2, 100_000)
    with dr.report() as r:
        dr.eval(dr.gather(Float, x, dr.arange(UInt, 100_000) // 2) + loop()[0][0])
    for entry in r.data()["kernels"]:
        said = " ".join(entry["words"])
        assert ("It ran as Python" in said) is (entry["tier"] != "compiled")
        assert "lanes a packet" in said and "instructions in loops" in said
        assert ("gather" in said) is any("gather(" in line for line in entry["text"])
        assert (
            entry["bound"] in ("memory", "arithmetic", "launch", "latency") or not entry["seconds"]
        )


def test_spills_are_counted() -> None:
    def lines(names: range) -> list[str]:
        return [f"    v{k} = load(f64, p[{k + 1}], i)" for k in names]

    many = range(50)
    text = ["def kernel(i, p):", *lines(many), *[f"    w{k} = sin(v{k})" for k in many]]
    text += [f"    store(f64, p[{k + 60}], i, w{k})" for k in reversed(many)]
    found = listing.compiled("\n".join(text) + "\n", "kernel", 16)
    said = listing._about_spills([row for row in found.rows if row.depth])
    assert said and re.match(r"\d+ values? spilled to the stack and \d+ reloads? in loops", said[0])


def test_statements_without_instructions() -> None:
    text = ["def kernel(i, p):", "    a = x * x", "    b = a", "    c = b + x", "    d = x - x"]
    assert listing.absorbed(text, {4}) == [[2, 4], [3, 4]]


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    with dr.report() as r:
        for k in range(3):
            dr.eval(dr.opaque(Float, 1, 10) * dr.opaque(Float, 1, 10) ** (k + 2))
    monkeypatch.setattr(listing, "MOST_KERNELS", 1)
    data = r.data()
    assert sum(bool(entry["asm"]) for entry in data["kernels"]) == 1
    assert any("no listing" in note for note in data["program"]["notes"])
    assert r.data() is data
    with dr.report() as r:
        dr.eval(dr.opaque(Float, 1, 10) + 1)
    monkeypatch.setattr(listing, "MOST_SECONDS", -1)
    assert not any(entry["asm"] for entry in r.data()["kernels"])
    with dr.report() as r:
        dr.eval(dr.opaque(Float, 1, 10) + 1)
    monkeypatch.setattr(listing, "MOST_SECONDS", 1e9)
    monkeypatch.setattr(listing, "MOST_BYTES", 10)
    (entry,) = [e for e in r.data()["kernels"] if e["launches"]][:1]
    assert not entry["asm"] and "too long" in entry["words"][-1]


_SASS = """\t.target\tsm_90
.text.k1:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "kernel", line 3
        /*0010*/              @!P0 LDG.E.128 R8, desc[UR4][R2.64] ;
.L_x_1:
\t//## File "kernel", line 4
        /*0020*/                   STL.64 [R1], R8 ;
        /*0030*/                   BRA `(.L_x_1) ;
$k1$other_1:
        /*0040*/                   RET.REL.NODEC R2 `(k1) ;
        /*0050*/                   NOP;
        /*0060*/                   NOP ;
"""


def test_lines_of_sass() -> None:
    rows = listing.sass(_SASS)
    assert [row.line for row in rows] == [3, 3, 0, 4, 4, 0, 0, 0]
    assert [row.text for row in rows if not row.is_instruction] == [".L_x_1:", "$k1$other_1:"]
    assert [row.remark for row in rows if row.remark] == ["Spill"]
    words = listing._about_sass(rows)
    assert words == [
        "The machine code has 5 instructions, with registers up to R8.",
        "1 of its 1 loads and stores is of 16 bytes.",
        "1 value spilled to memory and 0 reloads: more values are in use than there are registers.",
    ]


_ON_GPU = """
import json
import drjit as dr
from drjit.cuda.ad import Float
with dr.report() as r:
    x = dr.linspace(Float, 0, 1, 100)
    dr.eval(dr.sin(x) / (x + 2))
print(json.dumps([e for e in r.data()["kernels"] if any("sin(" in line for line in e["text"])]))
"""


def test_ptx() -> None:
    environment = {**os.environ, "DRJIT_CUDA": "emulated"}
    command = [sys.executable, "-c", _ON_GPU]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)
    assert entry["asm_kind"] == "PTX" and entry["share"] == 0 and entry["operations"] > 1000
    (division,) = [n for n, line in enumerate(entry["text"], 1) if " / " in line]
    rows = zip(entry["asm"], entry["asm_lines"], strict=True)
    assert any("div.rn.f32" in row for row, line in rows if line == division)
    has = {*entry["asm_lines"], *[line for line, _ in entry["absorbed"]]}
    assert statements("\n".join(entry["text"])) <= has
    if not (assembler.tools() and [*assembler.programs("nvdisasm")]):
        assert not entry["sass"]
        return
    rows = [*zip(entry["sass"], entry["sass_lines"], strict=True)]
    assert any("MUFU.RCP" in row for row, line in rows if line == division)
    assert {line for _, line in rows} <= {0, *range(1, len(entry["text"]) + 1)}
    assert any("with registers up to" in word for word in entry["words"])

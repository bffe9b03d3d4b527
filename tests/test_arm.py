"""Kernels assemble for ARM, and the hot loops stay in the registers of NEON; nothing runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import drjit as dr
from drjit.jit import processor
from drjit.jit.run import cache
from drjit.jit.target import library, simd
from drjit.jit.target.simd import llvm
from drjit.jit.target.simd.ir import Machine
from drjit.jit.target.simd.kernel import module_text
from drjit.llvm import Float, UInt

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
MACHINES = {
    "neon": ("aarch64-unknown-linux-gnu", "generic", "+neon"),
    "apple": ("arm64-apple-macosx", "apple-m1", ""),
}

machines = pytest.mark.parametrize("machine", MACHINES)


@pytest.fixture(autouse=True)
def neon(monkeypatch):
    llvm.binding.initialize_all_targets()
    llvm.binding.initialize_all_asmprinters()
    monkeypatch.setattr(processor, "register_bytes", lambda: 16)
    monkeypatch.setattr(llvm, "host", lambda: Machine(16, has_gathers=False))


def lowered(text, machine):
    """Returns the machine code of a kernel's text as assembly text; it is also assembled."""
    triple, cpu, features = MACHINES[machine]
    target = llvm.binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic"
    )
    made = module_text(text, "kernel", simd.packet_lanes(text), True, library)
    ir = f'target triple = "{triple}"\n{made.ir}'
    module = llvm.binding.parse_assembly(ir, llvm.binding.create_context())
    manager, builder = llvm._passes(made.parted, False)
    manager.run(module, builder)
    assert target.emit_object(module)
    return target.emit_assembly(module)


def kernel_of(assembly):
    """Returns the instructions of the kernel itself, without those of its functions."""
    body = re.split(r"^_?kernel:", assembly, flags=re.M)[1]
    body = re.split(r"\.cfi_endproc", body)[0]
    return [line for line in body.split("\n") if re.match(r"\t[a-z]", line)]


def spills(instructions):
    """Returns the stores and loads of vector registers to and from the stack."""
    return [x for x in instructions if re.match(r"\t(?:st|ld)(?:r|p|ur)\tq\d+.*\[(?:sp|x29)", x)]


def axpy():
    x, y = dr.arange(Float, 100), dr.arange(Float, 100) + 1
    dr.eval(x, y)
    return dr.opaque(Float, 3) * x + y


def exponentials():
    x = dr.arange(Float, 100) + 1
    dr.eval(x)
    return dr.exp(x) * dr.log(x)


@dr.syntax
def mandelbrot():
    x = dr.arange(Float, 100) / 50
    dr.eval(x)
    real, imaginary, n = Float(0), Float(0), UInt(0)
    while (real * real + imaginary * imaginary < 4) & (n < 100):
        real, imaginary = real * real - imaginary * imaginary + x, 2 * real * imaginary + x
        n += 1
    return n


def matmul(rows):
    operands = "p[1], p[2], p[3], i, p[4], p[5], False, False"
    return f"def kernel(i, p):\n    matmul(f32, {rows}, 64, 256, {operands})\n"


@machines
@pytest.mark.parametrize(
    ("program", "instructions", "most"),
    [(axpy, 40, 0), (mandelbrot, 160, 0), (exponentials, 640, 60)],
)
def test_loops_stay_in_registers(program, instructions, most, machine):
    code = kernel_of(lowered(dr.kernel_source(program()), machine))
    assert len(code) <= instructions
    assert len(spills(code)) <= most
    assert any(re.search(r"\tf\w+\.4s\t|\tf\w+\tv\d+\.4s", x) for x in code)


@machines
@pytest.mark.parametrize(("rows", "products"), [(8, 24), (4, 16), (1, 8)])
def test_the_tile_of_a_product_stays_in_registers(rows, products, machine):
    code = lowered(matmul(rows), machine).split("\n")
    blocks = re.split(r"\n(?=[.L_]\w*BB)", "\n".join(code))
    inner = [b for b in blocks if len(re.findall(r"\tfmla", b)) == products]
    assert inner and not any(spills(b.split("\n")) for b in inner)


@pytest.mark.sweep
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_kernels_of_programs(path, tmp_path, monkeypatch):
    variables = {"DRJIT_CACHE_DIR": str(tmp_path), "DRJIT_TIER": "compiled"}  # read by the import
    environment = os.environ | variables
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    entries = [cache.get(file.stem) for file in tmp_path.rglob("*.kernel")]
    # Others are functions of the launcher.
    texts = [entry.text for entry in entries if entry and "def kernel(i, p)" in entry.text]
    assert texts
    for text in texts:
        for machine in MACHINES:
            assert kernel_of(lowered(text, machine))

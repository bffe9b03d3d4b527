"""Kernels assemble for ARM, macOS and Windows, and hot loops stay in the registers of NEON; nothing
runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import uniform
from lowering import ARM, MACHINES, both, lowered

import drjit as dr
from drjit import nn
from drjit.jit.run import cache
from drjit.jit.target.simd import llvm
from drjit.llvm import Float, UInt, ad
from drjit.llvm.ad import TensorXf

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.py"))

machines = pytest.mark.parametrize("machine", ARM)


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


def total():
    x, y = dr.arange(Float, 100), dr.arange(Float, 100) + 1
    dr.eval(x, y)
    return dr.sum(x * y)


def layer():
    """A layer with gradients: a product, its adjoint, and a sum of outer products."""
    weights = TensorXf(uniform((32, 32))), TensorXf(uniform(32))
    A, b = nn.pack(*weights, layout="training")
    dr.enable_grad(A.buffer)
    x = dr.arange(ad.Float, 100)
    dr.enable_grad(x)
    y = nn.matvec(A, nn.CoopVec([x] * 32), b)
    dr.backward(dr.dot(y, y))
    source = dr.kernel_source(A.buffer.grad, x.grad)
    return next(text for text in re.split(r"\n(?=def kernel)", source) if "outer(" in text)


@machines
@pytest.mark.parametrize(
    ("program", "instructions", "most"),
    [(axpy, 40, 0), (mandelbrot, 160, 0), (exponentials, 640, 60), (total, 100, 8)],
)
def test_loops_stay_in_registers(program, instructions, most, machine):
    code = kernel_of(lowered(dr.kernel_source(program()), machine))
    assert len(code) <= instructions
    assert len(spills(code)) <= most
    assert any(re.search(r"\tf\w+\.4s\t|\tf\w+\tv\d+\.4s", x) for x in code)


def inner_loops(assembly):
    """Returns the instructions of blocks that jump to their own beginning."""
    found = []
    for block in re.split(r"\n(?=[.L_]\w*BB\w+:)", assembly):
        label = re.match(r"[.L_]\w*BB\w+(?=:)", block)
        code = [line for line in block.split("\n") if re.match(r"\t[a-z]", line)]
        if label and any(re.search(rf"\tc?b\S*\t.*{re.escape(label[0])}$", x) for x in code):
            found.append(code)
    return found


def products(instructions):
    return sum(x.startswith("\tfmla") for x in instructions)


@machines
@pytest.mark.parametrize(("rows", "count"), [(8, 24), (4, 16), (1, 8)])
def test_the_tile_of_a_product_stays_in_registers(rows, count, machine):
    inner = [code for code in inner_loops(lowered(matmul(rows), machine)) if products(code)]
    assert inner
    for code in inner:
        assert products(code) == count and not spills(code)
        assert len(code) <= count + rows + 10  # loads, of which a pair is one, and the loop


@machines
def test_products_in_each_lane_stay_in_registers(machine):
    inner = [code for code in inner_loops(lowered(layer(), machine)) if products(code) > 8]
    assert len(inner) >= 3
    for code in inner:
        assert not spills(code)
        assert len(code) <= 1.75 * products(code)


def test_a_register_that_apple_reserves_is_not_used():
    for program in (axpy, mandelbrot, exponentials):
        assert not re.search(r"\b[wx]18\b", lowered(dr.kernel_source(program()), "apple"))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("program", [axpy, total, exponentials, layer])
def test_other_systems_objects_can_be_linked(program, machine):
    """LLVM's linker lays out their formats here, too. Their symbols are those that it looks for,
    and nothing is missing, but for the function of Windows that extends the stack."""
    if machine == "neon" and not sys.platform.startswith("linux"):
        pytest.skip("no such linker")
    text = program()
    code, assembly = both(text if program is layer else dr.kernel_source(text), machine)
    prefix = "_" if "apple" in machine else ""
    names = [f"{prefix}kernel"] + [f"{prefix}kernel_finish"] * (program in (total, layer))
    assert re.findall(r"\.globl\s+(_?kernel\w*)", assembly) == names  # on Windows, also constants
    if "__chkstk" in assembly:
        assert machine == "windows"
        return
    library, addresses = llvm.link(code, names)
    assert len(set(addresses)) == len(names) and library


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
        for machine in ARM:
            assert kernel_of(lowered(text, machine))

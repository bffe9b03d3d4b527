"""What docs/gpu.md says of a network is what its kernel does: program, text, excerpts of PTX."""

import re
from pathlib import Path

import pytest
from cuda_namespace import registered

import drjit as dr
from drjit import nn
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.target import cuda

pytest.importorskip("llvmlite")

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
SECTION = "How a network's products become `mma`"
REGISTER = re.compile(r"%(?:rs|rd|r|p)\d+")


def instructions(ptx):
    """The instructions of a text, without comments and labels."""
    text = re.sub(r"//[^\n]*|\$\w+:", "", ptx)
    return [" ".join(part.split()) for part in text.split(";") if part.strip()]


def renamed(some):
    """Instructions with registers numbered in the order in which they occur."""
    names = {}
    return [REGISTER.sub(lambda m: names.setdefault(m[0], f"%{len(names)}"), x) for x in some]


def contains(code, some):
    return any(
        renamed(code[k : k + len(some)]) == renamed(some) for k in range(len(code) - len(some) + 1)
    )


def test_products_of_a_network():
    section = PAGE.read_text().split(f"## {SECTION}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.M | re.S)
    program, text = [block for language, block in blocks if language]
    excerpts = [instructions(block) for _, block in blocks if "%r" in block]
    assert len(excerpts) == 4 and max(len(e) for e in excerpts) > 8
    with registered(Cuda(EmulatedDriver())) as gpu:
        names = {"dr": dr, "nn": nn}
        names |= {name: getattr(dr.cuda.ad, name) for name in ("Float16", "TensorXf16")}
        exec(program, names)
        (kernel,) = [k for k in gpu.kernels() if "matvec(" in k.text]
    assert kernel.text.strip() == text.strip()
    code = instructions(cuda.compile(text, "k", kernel.words, False, (9, 0)).code)
    for excerpt in excerpts:
        assert contains(code, excerpt), "\n".join(excerpt)
    # The test can fail: another order is not found.
    assert not contains(code, excerpts[0][::-1])

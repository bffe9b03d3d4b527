"""Kernel texts compile verbatim with Numba: the same bits as on the direct route."""

import ctypes
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from drjit.jit import processor
from drjit.jit.cpu.variants import key_of
from drjit.jit.flags import JitFlag
from drjit.jit.target import image, simd
from drjit.jit.target.simd.kernel import module_text

packets = pytest.importorskip("drjit.jit.target.packets", reason="needs Numba")


COLLATZ = """def kernel(i, p):
    n = load(u32, p[1], i)
    k = u32(0)
    m = n > 1
    while any_lane(m):
        odd = (n & 1) == 1
        if any_lane(odd):
            n = select(m & odd, n * 3 + 1, n)
        n = select(m & ~odd, shr(n, u32(1)), n)
        k = select(m, k + 1, k)
        m = m & (n > 1)
    s, c = sincos(f32(k))
    store(u32, p[2], i, k)
    store(f32, p[3], i, s + c)
"""
VECTORS = """def kernel(i, p):
    x = load(f16, p[1], i)
    v = splat(f16, 8, x)
    y = matvec(f16, p[2], p[3], 8, 8, 8, False, v)
    k = u32(0)
    m = x > 0
    while any_lane(m):
        y, v = v * x, y
        k = k + 1
        m = m & (k < 3)
    z = maximum(y + v, 0)
    scatter_reduce(u32, 'add', 'direct', p[4], k, k, active(i))
    reduce(f16, 'add', p[5], p[6], i, total(z))
"""
SORT = """def kernel(i, p):
    x0 = load(u64, p[1], i)
    x1 = load(u32, p[5], i)
    radix_move(p[2], i, x0, p[3], p[4], x0, p[6], x1)
"""


def test_numba_reads_loops_and_branches() -> None:
    n = np.arange(1, 101, dtype=np.uint32)
    found = []
    for translate in (None, packets.body):
        module = module_text(COLLATZ, "k", 16, False, translate)
        code = simd.llvm.object_code(module.ir, module.uncombined, True)
        loaded = image.Loaded(code, "k", module.has_finish)
        steps, waves = np.zeros(112, np.uint32), np.zeros(112, np.float32)
        padded = np.ones(112, np.uint32)
        padded[:100] = n
        words = np.array([0, padded.ctypes.data, steps.ctypes.data, waves.ctypes.data])
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)(loaded.kernel)
        run(words.ctypes.data, 0, 100, 0, 0)
        found.append((steps[:100].tolist(), waves[:100].tobytes()))
    assert found[0] == found[1]
    assert found[0][0][26] == 111  # the steps of 27


@pytest.mark.parametrize(("text", "tolerance"), [(COLLATZ, 0), (SORT, 0), (VECTORS, 0.02)])
def test_the_machine_code_is_as_long(text: str, tolerance: float) -> None:
    """It is the same, but for the order of instructions in some kernels with vectors."""
    direct, by_numba = (
        [s for s in simd.assembly(text, by_numba=route).split("\n") if s.startswith("\t")]
        for route in (False, True)
    )
    assert abs(len(by_numba) - len(direct)) <= tolerance * len(direct)
    assert direct == by_numba or tolerance


def test_the_flag_chooses_and_numba_stays_out_otherwise() -> None:
    program = """
import sys
import drjit as dr
from drjit.llvm import Float
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
print(dr.sqrt(dr.arange(Float, 4)) + 1)
assert "numba" not in sys.modules
dr.set_flag(dr.JitFlag.NumbaCompiler, True)
print(dr.sqrt(dr.arange(Float, 4)) + 2)
assert "numba" in sys.modules
"""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "DRJIT_TIER": "compiled", "DRJIT_COMPILER": "direct", "DRJIT_CACHE_DIR": folder
        }  # fmt: skip
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.stdout == "[1, 2, 2.41421, 2.73205]\n[2, 3, 3.41421, 3.73205]\n", done.stderr
        # What is in the cache needs no compiler.
        command[2] = program.replace('assert "numba" in', 'assert "numba" not in')
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.stdout.endswith("[2, 3, 3.41421, 3.73205]\n"), done.stderr


def test_another_version_of_numba_compiles_anew(monkeypatch: pytest.MonkeyPatch):
    def keys() -> list[str]:
        return [key_of("", options, 8) for options in (0, int(JitFlag.NumbaCompiler))]

    direct, by_numba = keys()
    versions = {"numba": "version 1", "llvmlite": processor.version_file("llvmlite")}
    assert "version" in processor.version_file("numba") and all(versions.values())
    monkeypatch.setattr(processor, "version_file", versions.__getitem__)
    other = keys()
    assert other[0] == direct and other[1] not in (direct, by_numba)


def test_an_invalid_text_is_an_error_with_its_line():
    text = "def kernel(i, p):\n    x = load(f32, p[1], i)\n    y = lane(i)\n    z = x + y"
    with pytest.raises(simd.KernelError, match=r"^line 4: z = x \+ y: .*f32 and u32"):
        simd.compile(text, "k", by_numba=True)
    with pytest.raises(simd.KernelError, match="LLVM rejects the translation"):
        simd.compile(text, "k", by_numba=False)


def test_an_unknown_compiler_is_an_error():
    command = [sys.executable, "-c", "import drjit"]
    done = subprocess.run(
        command, env=os.environ | {"DRJIT_COMPILER": "gcc"}, capture_output=True, text=True
    )
    assert "DRJIT_COMPILER='gcc': expected one of direct, numba" in done.stderr

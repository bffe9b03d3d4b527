"""Kernel texts compile verbatim with Numba: the same bits as on the direct route."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import differing, opaque, results
from test_three_executions import NUMBERS, PLAIN, applied, edges

import drjit as dr
from drjit.jit import flags
from drjit.jit.flags import JitFlag
from drjit.jit.ir.dtype import DType
from drjit.jit.target import simd

packets = pytest.importorskip("drjit.jit.target.packets", reason="needs Numba")


def on_both(build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces and evaluates a program on both routes, and compares."""
    found, outputs, compiled = [], {}, []
    monkeypatch.setattr("drjit.jit.cpu.kernel.tier", "compiled")
    plain = packets.body
    monkeypatch.setattr(packets, "body", lambda t, d: compiled.append(d) or plain(t, d))
    for route in (0, JitFlag.NumbaCompiler):
        monkeypatch.setattr(flags, "current", int(JitFlag.Default) | route)
        dr.flush_kernel_cache()
        outputs = build()
        found.append(results(list(outputs.values())))
        assert bool(compiled) == bool(route)
    for name, a, b in zip(outputs, *found, strict=True):
        wrong = differing(a, b)
        assert not wrong.size, f"{name} differs in lanes {wrong[:5]}"


@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_every_operation_on_edge_values(t: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    x = edges(t)
    a, b = np.repeat(x, x.size), np.tile(x, x.size)
    c = np.roll(np.concatenate([a[::2], b[1::2]]), 7)[: a.size]
    on_both(lambda: applied(PLAIN, t, [opaque(t, v) for v in (a, b, c)]), monkeypatch)


def test_an_invalid_text_is_an_error_with_its_line():
    text = "def kernel(i, p):\n    x = load(f32, p[1], i)\n    y = lane(i)\n    z = x + y"
    for by_numba in (False, True):
        with pytest.raises(simd.KernelError, match=r"^line 4: z = x \+ y: .*f32, u32"):
            simd.compile(text, "k", by_numba=by_numba)


def test_an_unknown_compiler_is_an_error():
    command = [sys.executable, "-c", "import drjit"]
    done = subprocess.run(
        command, env=os.environ | {"DRJIT_COMPILER": "gcc"}, capture_output=True, text=True
    )
    assert "DRJIT_COMPILER='gcc': expected one of direct, numba" in done.stderr

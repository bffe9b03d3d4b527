"""Kernels on single numbers: what a new process runs on few lanes. `test_three_executions.py`
compares all element-wise operations, and random programs, with the other executions."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import differing

import drjit as dr
from drjit.jit.cpu import kernel, variants
from drjit.jit.run import launch, schedule
from drjit.jit.target import python
from drjit.llvm import Bool, Float, Float16, Float64, Int, UInt

pytestmark = pytest.mark.processor

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Float, [INF, -INF, 1]),
        (Float, [INF, 1, 2]),
        (Float, [-0.0, -0.0]),
        (Float, [1, -0.0, -1]),
        (Float, [NAN, 3, 2]),
        (Float, [NAN, NAN]),
        (Float, [3e38, 3e38, 1]),
        (Float64, [1e308, 1e308, 1]),
        (Float64, [1, 1e-20, -1]),
        (Float16, [65504, 65504]),
        (Float16, [2048, 1, 1]),
        (Int, [2**31 - 1, 2**31 - 1, -5]),
        (UInt, [2**32 - 1, 3]),
    ],
    ids=str,
)
def test_reductions_of_special_values(monkeypatch, kind, values):
    def reduced(tier):
        monkeypatch.setattr(variants, "pinned", tier)
        x = kind(values)
        found = [f(x) for f in (dr.sum, dr.prod, dr.min, dr.max)]
        dr.eval(found)
        return [f.numpy() for f in found]

    for a, b in zip(reduced("python"), reduced("compiled"), strict=True):
        assert a.dtype == b.dtype and not differing(a, b).size, (a, b)


def test_masks_are_reduced(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "python")
    m = Float(1, 2, 3) > Float(2, 2, 1)
    assert (dr.any(m)[0], dr.all(m)[0], dr.count(m)[0]) == (True, False, 1)


@pytest.mark.parametrize("tier", ["python", "compiled"])
def test_an_index_out_of_bounds(monkeypatch, tier):
    monkeypatch.setattr(variants, "pinned", tier)
    x, index = Float(1, 2, 3), UInt(2, 7, 9, 1)
    y = dr.gather(Float, x, index, Bool(True, False, True, True))
    with pytest.raises(launch.OutOfBoundsError, match=r"index 9 .* size 3 \(lane 2;"):
        y.numpy()
    assert y.numpy().tolist() == [3, 0, 0, 2]


def test_other_texts_run_on_numpy(monkeypatch):
    """Those that write to given memory, or whose bits Python's numbers would not keep."""
    monkeypatch.setattr(variants, "pinned", "python")
    schedule.forget_kernels()
    kernel.forget()
    total = dr.zeros(UInt, 3)
    dr.scatter_add(total, UInt(1, 2), UInt([0, 2]))
    assert total.numpy().tolist() == [1, 0, 2]
    signalling = 0x7F800001
    kept = dr.reinterpret_array(Float, UInt(signalling, 1) + 0)
    assert kept.numpy().view(np.uint32)[0] == signalling
    written = [k for k in kernel.kernels() if "scatter" in k.text or "bitcast(f" in k.text]
    assert written and not any(python.handles(k.text) for k in written)


FEW = """
import sys
import drjit as dr
from drjit.jit.cpu import kernel, variants
from drjit.llvm import Float

x, tiers = Float(1, 2, 3), []
for _ in range(1000):
    x = x * 0.5 + 1
    dr.eval(x)
    tiers.append(kernel.kernels()[0].tier)
print(x, tiers[0], tiers[-1], tiers == sorted(tiers, reverse=True), "numpy" in sys.modules)
"""


LOOPS = """
import sys
import drjit as dr
from drjit.jit.cpu import kernel, variants
from drjit.llvm import UInt

@dr.syntax
def collatz(x, limit):
    steps = UInt(0)
    while (x != 1) & (steps < limit):
        x = dr.select(x % 2 == 0, x // 2, 3 * x + 1)
        steps += 1
    return steps

@dr.syntax
def sums(n):
    total, k = UInt(0), UInt(0)
    while k < n:
        total += k * k
        k += 1
    return total

print(collatz(UInt(1, 6, 7), 500), sums(UInt(3, 300000)))
print([k.tier for k in kernel.kernels() if k.loops], "numpy" in sys.modules)
"""


def test_short_loops_need_no_compiler(tmp_path):
    """Those that go on for long are stopped, compiled, and begin anew."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), DRJIT_TIER="auto")
    env["DRJIT_CACHE_DIR"] = str(tmp_path)
    path = tmp_path / "loops.py"
    path.write_text(LOOPS)
    done = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True)
    total = sum(k * k for k in range(300000)) % 2**32
    expected = f"[0, 8, 16] [5, {total}]\n['python', 'compiled'] False\n"
    assert (done.stdout, done.stderr) == (expected, "")


def test_few_lanes_are_compiled_once_that_pays_off(tmp_path):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), DRJIT_TIER="auto")
    env["DRJIT_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", FEW], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[2, 2, 2] python compiled True False\n", "")

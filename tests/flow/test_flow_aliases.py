"""Random programs in which names share arrays, lists and objects, compared with the model that
`alias_programs` describes: symbolic and evaluated, as statements and as calls."""

import linecache
from dataclasses import dataclass

import alias_programs
import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array2f64 as Array2f
from drjit.llvm.ad import Bool, UInt
from drjit.llvm.ad import Float64 as Float
from drjit.llvm.ad import TensorXf64 as TensorXf

X, Y, TABLE = [1.0, 2.0, 3.0], [0.5, -1.0, 4.0], [1.0, 2.0, 3.0, 4.0]
KINDS = {
    "loops": ("loop",),
    "branches": ("branch",),
    "calls": ("call", "func"),
    "all": ("loop", "branch", "loop", "branch", "call", "func"),
}
MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


@dataclass
class P:
    a: Float
    v: Array2f


def arrays(value):
    """What a result consists of, in the order of the model."""
    if isinstance(value, (list, tuple)):
        return [a for v in value for a in arrays(v)]
    if isinstance(value, dict):
        return arrays(list(value.values()))
    if isinstance(value, P):
        return arrays([value.a, value.v])
    if isinstance(value, Array2f):
        return [value.x, value.y]
    return [value.array if isinstance(value, TensorXf) else value]


def load(text, mode):
    """The function whose source is a text."""
    name = f"<program {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"__name__": __name__, "dr": dr, "P": P, "mode": mode}
    names |= {"Float": Float, "UInt": UInt, "Bool": Bool, "Array2f": Array2f, "TensorXf": TensorXf}
    exec(compile(text, name, "exec"), names)
    return names["program"]


def run(text, mode, x, y, table):
    flags = ("SymbolicLoops", "SymbolicConditionals", "SymbolicCalls")
    before = {flag: dr.flag(flag) for flag in (getattr(dr.JitFlag, f) for f in flags)}
    try:
        for flag in before:
            dr.set_flag(flag, mode == "symbolic")
        return arrays(load(text, mode)(x, y, table))
    finally:
        for flag, value in before.items():
            dr.set_flag(flag, value)


def program(seed, style, kinds, mode, smooth=False):
    """The source of a program, that for the model, and what the model gives, if that is finite."""
    make = alias_programs.source
    text = make(seed, style, KINDS[kinds], smooth)
    model = make(seed, "model", KINDS[kinds], smooth) if style == "syntax" else text
    try:
        want = alias_programs.expected(model, X, Y, TABLE, mode == "symbolic")
    except alias_programs.Unspecified:
        return None
    if any(not np.all(np.abs(v.astype(float)) < 1e8) for v in want):
        return None
    return text, model, want


def check(seed, style, kinds, mode):
    found = program(seed, style, kinds, mode)
    if found is None:
        return
    text, _, want = found
    got = run(text, mode, Float(X), Float(Y), Float(TABLE))
    assert len(got) == len(want)
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.broadcast_arrays(a.numpy(), b)
        np.testing.assert_allclose(
            a.astype(float), b.astype(float), 1e-9, 1e-9, err_msg=f"array {k} of\n{text}"
        )


def check_gradients(seed, style, kinds, mode):
    """Of a weighted sum of all results, by complex steps of the model."""
    found = program(seed, style, kinds, mode, smooth=True)
    if found is None:
        return
    text, model, want = found
    parts = [k for k, v in enumerate(want) if v.dtype == float]
    weights = [np.cos(np.arange(want[k].size) + k) for k in parts]
    step, expected = 1e-20, []
    for lane in range(6):
        inputs = np.array([X, Y], complex)
        inputs.flat[lane] += 1j * step
        moved = alias_programs.expected(model, *inputs, TABLE, mode == "symbolic")
        rows = zip(weights, [moved[k] for k in parts], strict=True)
        expected.append(sum(np.sum(w * np.imag(v)) / step for w, v in rows))

    def total():
        x, y = Float(X), Float(Y)
        dr.enable_grad(x, y)
        got = run(text, mode, x * 1, y * 1, Float(TABLE))
        return x, y, sum(dr.sum(got[k] * Float(w)) for k, w in zip(parts, weights, strict=True))

    x, y, result = total()
    dr.backward(result)
    reverse = np.concatenate([np.broadcast_to(v.grad.numpy(), 3) for v in (x, y)])
    x, y, result = total()
    dr.forward(y)
    forward = result.grad.numpy()
    size = 1 + np.abs(expected).max()
    np.testing.assert_allclose(reverse / size, np.array(expected) / size, 0, 1e-8, err_msg=text)
    np.testing.assert_allclose(forward / size, sum(expected[3:]) / size, 0, 1e-8, err_msg=text)


# Without compiling, a program takes a few milliseconds.
@MODES
@pytest.mark.parametrize("style", ["calls", "syntax"])
@pytest.mark.parametrize("kinds", ["loops", "branches", "calls", "all"])
def test_some_programs(kinds, style, mode, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    for seed in range(8):
        check(seed, style, kinds, mode)


@MODES
def test_some_compiled_programs(mode, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    for seed in range(100, 103):
        check(seed, "calls", "all", mode)


@MODES
@pytest.mark.parametrize("kinds", ["loops", "branches", "all"])
def test_some_gradients(kinds, mode, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    for seed in range(3):
        check_gradients(seed, "calls", kinds, mode)


@pytest.mark.sweep
@MODES
@pytest.mark.parametrize("style", ["calls", "syntax"])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(0, 1000, 20))
def test_sweep(tier, seed, kinds, style, mode):
    for k in range(seed, seed + 20):
        check(k, style, kinds, mode)


@pytest.mark.sweep
@MODES
@pytest.mark.parametrize("style", ["calls", "syntax"])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_sweep_of_gradients(tier, seed, kinds, style, mode):
    for k in range(seed, seed + 10):
        check_gradients(k, style, kinds, mode)

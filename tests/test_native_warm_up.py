"""Native code comes to processes that trace or launch much, and not where it is switched off."""

import math
import os
import subprocess
import sys

import pytest

import drjit as dr
from drjit.jit.cpu import background, kernel, warm_up
from drjit.jit.native import functions
from drjit.jit.run import cache
from drjit.llvm import Float

pytestmark = pytest.mark.skipif(not warm_up.places(), reason="other layout of objects")


@pytest.fixture
def asked(monkeypatch):
    """What the disk cache and the compiler are asked for, in a process without native code."""
    monkeypatch.setattr(kernel, "tier", "compiled")
    for name in ("perform", "repeat", "collect_nodes"):
        monkeypatch.setattr(functions, name, None)
    for name, value in {"_installed": False, "_asked": False, "_coming": None}.items():
        monkeypatch.setattr(warm_up, name, value)
    seen = []
    monkeypatch.setattr(warm_up, "install", lambda found: seen.append(found.keys()))
    return seen


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("how", ["nodes", "launches"])
def test_it_comes_once_a_process_does_much(stored, how, asked, monkeypatch):
    places = warm_up.places
    queries = []

    def query(compiles=True):
        queries.append(compiles)
        return places() if stored or compiles else {}

    monkeypatch.setattr(warm_up, "places", query)
    x = Float(1, 2, 3)
    dr.eval(x)
    start = (x + 1)._node.serial
    for name in ("COMPILED", "FIRST"):
        monkeypatch.setattr(warm_up, name, 1000)
    monkeypatch.setattr(functions, "FIRST", 10)
    monkeypatch.setattr(functions, "milestone", start + 1000)
    before = start + 1000
    for k in range(1000):
        y = x * 3 + k
        if how == "nodes":
            for _ in range(600):
                y = y * x
        dr.eval(y)
        background.finish()
        if not queries:
            assert functions.milestone < before + 1 and not asked
            before = functions.milestone
        if asked:
            break
    assert k < (10 if how == "nodes" else 120)
    assert len(asked) == 1 and asked[0] == places().keys()
    assert queries == ([False] if stored else [False, True])
    assert functions.milestone == math.inf


def test_what_pays_sooner(asked, monkeypatch):
    monkeypatch.setattr(warm_up, "places", lambda compiles=True: {})
    assert 0 < warm_up.advance(100) - 100 <= warm_up.FIRST
    monkeypatch.setattr(warm_up, "_asked", False)
    monkeypatch.setattr(kernel, "tier", "numpy")
    assert warm_up.advance(100) == math.inf


PROGRAM = """
import drjit as dr
from drjit.jit.native import functions
from drjit.llvm.ad import Float

x = Float(1, 2, 3)
dr.enable_grad(x)
functions.milestone -= functions.FIRST
f = dr.freeze(lambda x: dr.sin(x) * 2)
for k in range(300):
    dr.backward(dr.sum(dr.sin(x) * k))
    y = f(dr.detach(x)) - k
    dr.eval(x.grad, y)
print(x.grad, y)
print([name for name in dir(functions) if getattr(functions, name) is None])
"""


def run(text, switch):
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DRJIT_NATIVE": switch},
        capture_output=True,
        text=True,
    )


def test_it_can_be_switched_off():
    cache.write_pending()
    native, off = run(PROGRAM, "on"), run(PROGRAM, "off")
    assert native.stderr == off.stderr == ""
    native, off = native.stdout.splitlines(), off.stdout.splitlines()
    assert native[0] == off[0] and native[1] == "[]"
    names = "collect_nodes", "collect_variables", "cut", "forget", "perform", "plans", "remake"
    assert off[1] == repr(sorted([*names, "repeat"]))


def test_other_values_of_the_switch():
    done = run("import drjit", "no")
    assert "DRJIT_NATIVE='no': expected 'on' or 'off'" in done.stderr

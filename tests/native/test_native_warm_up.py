"""Native code comes to processes that trace or launch much, and not where it is switched off."""

import math
import os
import subprocess
import sys
from importlib import import_module

import pytest

import drjit as dr
from drjit.jit import substitutes
from drjit.jit.cpu import background, variants, warm_up
from drjit.llvm import Float

ROOMS = [import_module(name) for name in substitutes.modules]
pytestmark = pytest.mark.skipif(not any(map(warm_up.places, ROOMS)), reason="other layout")


@pytest.fixture
def installed(monkeypatch):
    """The rooms that get native code, in a process that has none."""
    monkeypatch.setattr(variants, "pinned", "compiled")
    for name in ("perform", "repeat", "collect_nodes"):
        monkeypatch.setattr(substitutes, name, None)
    monkeypatch.setattr(warm_up, "_due", dict(substitutes.modules))
    monkeypatch.setattr(warm_up, "_tasks", {})
    seen = []
    for room in ROOMS:
        monkeypatch.setattr(room, "install", lambda found, room=room: seen.append((room, found)))
    return seen


@pytest.mark.parametrize("stored", [2, 1, 0])
@pytest.mark.parametrize("how", ["nodes", "launches"])
def test_it_comes_once_a_process_does_much(stored, how, installed, monkeypatch):
    places, queries = warm_up.places, []

    def query(room, compiles=True):
        queries.append((room, compiles))
        return places(room) if compiles or room in ROOMS[:stored] else {}

    monkeypatch.setattr(warm_up, "places", query)
    x = Float(1, 2, 3)
    dr.eval(x)
    start = (x + 1)._node.serial
    for name, nodes in ("COMPILED", 1000), ("FIRST", 1000), ("AGAIN", 10):
        monkeypatch.setattr(warm_up, name, nodes)
    before = start + 1000
    monkeypatch.setattr(warm_up, "_due", dict.fromkeys(substitutes.modules, before))
    monkeypatch.setattr(substitutes, "milestone", before)
    for k in range(1000):
        y = x * 3 + k
        if how == "nodes":
            for _ in range(600):
                y = y * x
        dr.eval(y)
        background.finish()
        if not queries:
            assert substitutes.milestone < before + 1 and not installed
            before = substitutes.milestone
        if len(installed) == len(ROOMS):
            break
    assert k < (10 if how == "nodes" else 120)
    assert {room for room, _ in installed} == {*ROOMS}
    assert all(found.keys() == places(room).keys() for room, found in installed)
    expected = [(room, False) for room in ROOMS] + [(room, True) for room in ROOMS[stored:]]
    assert sorted(queries, key=repr) == sorted(expected, key=repr)
    assert substitutes.milestone == math.inf


def test_where_nothing_is_compiled(installed, monkeypatch):
    monkeypatch.setattr(variants, "pinned", "numpy")
    assert warm_up.advance(100) == math.inf and not installed


PROGRAM = """
import drjit as dr
from drjit.jit import substitutes
from drjit.llvm.ad import Float

x = Float(1, 2, 3)
dr.enable_grad(x)
substitutes.modules = dict.fromkeys(substitutes.modules, 0)
substitutes.milestone -= substitutes.FIRST
f = dr.freeze(lambda x: dr.sin(x) * 2)
for k in range(300):
    dr.backward(dr.sum(dr.sin(x) * k))
    y = f(dr.detach(x)) - k
    dr.eval(x.grad, y)
print(x.grad, y)
print([name for name in dir(substitutes) if getattr(substitutes, name) is None])
"""


COMPILED = """
from drjit.jit.cpu import warm_up
from importlib import import_module
from drjit.jit import substitutes
print([len(warm_up.places(import_module(name))) for name in substitutes.modules])
"""


def run(text, switch):
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DRJIT_NATIVE": switch},
        capture_output=True,
        text=True,
    )


def test_it_can_be_switched_off():
    assert run(COMPILED, "on").stderr == ""  # other tests may have emptied the cache
    native, off = run(PROGRAM, "on"), run(PROGRAM, "off")
    assert native.stderr == off.stderr == ""
    native, off = native.stdout.splitlines(), off.stdout.splitlines()
    assert native[0] == off[0] and native[1] == "[]"
    names = "collect_nodes", "collect_variables", "cut", "forget", "perform", "plans", "remake"
    assert off[1] == repr(sorted([*names, "repeat"]))


def test_other_values_of_the_switch():
    done = run("import drjit", "no")
    assert "DRJIT_NATIVE='no': expected 'on' or 'off'" in done.stderr

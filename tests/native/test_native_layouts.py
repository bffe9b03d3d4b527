"""Native code reads objects of Python where each version has their fields: programs come to use it
on every version, and do without it where the fields are elsewhere."""

import sys
from importlib import import_module
from types import SimpleNamespace

import nursery
import pytest

from drjit.jit import substitutes
from drjit.jit.cpu import warm_up
from drjit.jit.native import loader, objects

PROGRAM = """
import drjit as dr
from drjit.array import native_operators
from drjit.jit.cpu import background, kernel, memory, variants
from drjit.jit import substitutes
from drjit.jit.native import objects
from drjit.llvm.ad import Float

variants.pinned = "compiled"
x, y = Float(1, 2, 3), Float(0)
for _ in range(4):
    for _ in range(2048):  # small programs, which are evaluated by one call in the end
        y = y * 0.5 + x
        dr.eval(y)
    for _ in range(20):  # long ones, which are not
        for _ in range(1000):
            y = y * 0.5 + x
        dr.eval(y)
    background.finish()
print(y)
print(any(r.launches for k in kernel.kernels() for r in k.records))
print(native_operators._installed is not None, substitutes.collect_nodes is not None)
print(type(Float.__mul__).__name__, type(memory.Buffer.__del__).__name__)
"""


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="about objects of CPython")
@pytest.mark.skipif(objects.is_free_threaded(), reason="not supported")
@pytest.mark.skipif(substitutes.SWITCH == "off", reason="switched off")
def test_long_programs_come_to_use_native_code():
    done = nursery.run(PROGRAM)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[2, 4, 6]", "True", "True True", "wrapper_descriptor wrapper_descriptor",
    ]  # fmt: skip


def forget_and(patch, memory_of):
    """Has objects looked at anew."""
    patch.setattr(objects, "_attributes", {})
    patch.setattr(objects, "memory_of", memory_of)


def shifted(address):
    """Reads the word behind another."""
    return objects._word.from_address(address + 8).value


OTHERS = {
    "no CPython": lambda patch: patch.setattr(sys, "implementation", SimpleNamespace(name="pypy")),
    "no GIL": lambda patch: patch.setattr(sys, "version", "3.14.0 free-threading build"),
    "fields elsewhere": lambda patch: patch.setattr(objects, "word_at", shifted),
    "slots elsewhere": lambda patch: forget_and(patch, lambda made: [0] * 8),
}


@pytest.mark.parametrize("name", substitutes.modules)
def test_rooms_name_the_objects_that_their_code_knows(name, monkeypatch):
    room, used, attributes = import_module(name), set(), objects.attributes
    monkeypatch.setattr(objects, "attributes", lambda kind: used.add(kind) or attributes(kind))
    loader.compiled(room.MODULES, room.exported(), 0, room.definitions())
    assert used == {*room.OBJECTS}


@pytest.mark.parametrize("other", OTHERS)
def test_there_is_no_native_code_for_other_layouts(other, monkeypatch):
    rooms = [import_module(name) for name in substitutes.modules]
    with monkeypatch.context() as patch:
        OTHERS[other](patch)
        assert not any(objects.are_known(room.OBJECTS) for room in rooms)
        assert not any(map(warm_up.places, rooms))


@pytest.mark.parametrize("change", [
    "objects.are_known = lambda kinds: False",
    "objects.memory_of = lambda made: [0] * 8",
])  # fmt: skip
def test_programs_do_without(change):
    text = PROGRAM.replace("variants.pinned =", f"{change}\nvariants.pinned =")
    done = nursery.run(text)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[2, 4, 6]", "False", "False False", "function function",
    ]  # fmt: skip

"""Modules and classes contain what tests/data/module_contents.txt lists; see the script
tests/data/module_contents.py, which writes it.
"""

import importlib
import subprocess
import sys
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import drjit as dr

LINES = [
    line.split(": ", 1)
    for line in (Path(__file__).parents[1] / "data" / "module_contents.txt")
    .read_text()
    .splitlines()
    if not line.startswith("#")
]


def named(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, rest = path.partition(".")
        return reduce(getattr, rest.split("."), importlib.import_module(module))


@pytest.mark.parametrize("owners, members", LINES, ids=[line[0][:60] for line in LINES])
def test_names_are_there(owners: str, members: str):
    for owner in map(named, owners.split(" ")):
        wanted = {name for name in members.split(" ") if name}
        # What only annotations contain is there, but is no completion.
        missing = wanted - set(dir(owner))
        assert {type(getattr(owner, name)).__module__ for name in missing} <= {"typing"}
        for name in wanted:
            getattr(owner, name, None)
        if isinstance(owner, ModuleType):
            assert all(hasattr(owner, name) for name in wanted)


def test_a_walk_over_a_module_finds_the_types():
    """`vars`, not only `dir`, and before anything has been used."""
    program = """
import drjit as dr
for module in (dr.scalar, dr.llvm, dr.llvm.ad, dr.cuda.ad, dr.auto, dr.auto.ad):
    found = [v for v in vars(module).values() if isinstance(v, type)]
    print(module.__name__, len([v for v in found if issubclass(v, dr.ArrayBase)]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert " ".join(done.stdout.split()) == (
        "drjit.scalar 136 drjit.llvm 149 drjit.llvm.ad 149 drjit.cuda.ad 149 drjit.auto 149 "
        "drjit.auto.ad 149"
    ), done.stderr


def test_importing_builds_no_class():
    program = "import drjit; from drjit.array import table; print(len(table._classes))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["0"], done.stderr


def test_star_imports_types():
    names: dict[str, Any] = {}
    exec("from drjit.auto.ad import *", names)
    assert names["Float"] is dr.llvm.ad.Float and names["TensorXf"] is dr.llvm.ad.TensorXf
    assert not [name for name in names if name.startswith("_") and name != "__builtins__"]


def test_types_of_the_chosen_backend_change_with_it():
    try:
        assert vars(dr.auto)["Array3f"] is dr.llvm.Array3f
        dr.set_backend("scalar")
        assert dr.auto.Array3f is vars(dr.auto)["Array3f"] is dr.scalar.Array3f
        assert dr.auto.ad.Array3f is dr.scalar.Array3f and dr.auto.Float is float
    finally:
        dr.set_backend("llvm")
    assert dr.auto.ad.Array3f is dr.llvm.ad.Array3f


def test_descriptors_are_texts():
    meta = dr.llvm.ad.Array3f.__meta__
    assert isinstance(meta, str)
    assert " ".join(meta.split()) == (
        "ArrayMeta[ type=float32, backend=llvm, is_jit=1, is_vector=1, is_diff=1, shape=(3, *) ]"
    )


def test_annotations():
    import typing

    def f(x: dr.AnyArray, *args: "dr.Local[dr.llvm.Float]") -> dr.ArrayBase[int, str]: ...

    hints = typing.get_type_hints(f)
    assert repr(hints["x"]) == f"drjit.ArrayBase[{', '.join(['typing.Any'] * 7)}]"
    assert repr(hints["args"]) == "drjit.Local[drjit.llvm.Float]"
    assert repr(hints["return"]) == "drjit.ArrayBase[int, str]"
    assert typing.get_origin(dr.AnyArray) is dr.ArrayBase
    assert repr(dr.llvm.Array3f | None) == "drjit.llvm.Array3f | None"
    assert [repr(v) for v in (dr.ArrayT, dr.T, dr.Ts)] == ["~ArrayT", "~T", "Ts"]
    assert dr.Dynamic == dr.size_v(dr.llvm.Float) == -1


def test_graphics_need_cuda():
    for call in (dr.cuda.GLInterop.from_buffer, dr.cuda.green_context, dr.cuda.register_gl_texture):
        with pytest.raises(RuntimeError, match="CUDA backend is not available"):
            call(1)

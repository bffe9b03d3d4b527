"""How the public names present themselves: enumerations, base classes, kinds of errors, texts that
a user sees at the prompt.
"""

import ast
import importlib
import pickle
import pydoc
import re
from pathlib import Path

import pytest

import drjit as dr
from drjit import _names
from drjit.jit.cpu import variants
from drjit.llvm import Array2f, Array3f, Complex2f, Float, Int, Matrix3f, TensorXf, UInt

ENUMERATIONS = [
    dr.ADFlag, dr.ADMode, dr.JitBackend, dr.JitFlag, dr.KernelType, dr.LogLevel, dr.ReduceMode,
    dr.ReduceOp, dr.VarState, dr.VarType,
]  # fmt: skip


@pytest.mark.parametrize("enumeration", ENUMERATIONS)
def test_enumerations_show_by_name_and_belong_to_the_package(enumeration):
    assert enumeration.__module__ == "drjit"
    for member in enumeration:
        shown = f"{enumeration.__name__}.{member.name}"
        assert repr(member) == str(member) == f"{member}" == shown
        assert pickle.loads(pickle.dumps(member)) is member


def test_flags_combine_as_numbers():
    assert dr.JitFlag.Debug | dr.JitFlag.KernelHistory == 1 | 32768
    assert f"{dr.JitFlag.Debug:>14}" == " JitFlag.Debug"


def test_the_base_class_belongs_to_the_package():
    assert repr(dr.ArrayBase) == "<class 'drjit.ArrayBase'>"
    assert Float.__mro__ == (Float, dr.ArrayBase, object)


@pytest.mark.parametrize("array", [Float(1), Matrix3f(1), Complex2f(1), TensorXf([1])])
def test_a_missing_component_is_either_error(array):
    for kind in (AttributeError, RuntimeError):
        with pytest.raises(kind, match="does not have a 'x' component"):
            _ = array.x
    assert not hasattr(array, "x")


def test_a_component_beyond_the_size_cannot_be_assigned():
    a = Array3f(1, 2, 3)
    with pytest.raises(RuntimeError, match="does not have a 'w' component"):
        a.w = 1
    assert repr(a) == "[[1, 2, 3]]"


@pytest.mark.parametrize(
    "operation",
    [
        lambda: Int(1) / 2,
        lambda: Float(1) // 2,
        lambda: Float(1) & Float(1),
        lambda: Float(1) + "x",
        lambda: Array3f(1) + Array2f(1),
        lambda: Array3f(1) / Complex2f(1),
        lambda: Matrix3f(1) @ Array2f(1),
        lambda: dr.maximum(Array3f(1), Array2f(1)),
    ],
)
def test_operands_that_do_not_fit_are_either_error(operation):
    for kind in (TypeError, RuntimeError):
        with pytest.raises(kind):
            operation()


def test_trees_of_different_structure_are_either_error():
    for kind in (TypeError, RuntimeError):
        with pytest.raises(kind, match="different keys"):
            dr.select(Float(1) > 0, {"a": Float(1)}, {"b": Float(2)})


def test_a_label_is_a_string():
    a = Float(1, 2) + 1
    with pytest.raises(TypeError, match="expected a string"):
        a.label = 5
    a.label = "speed"
    assert a.label == "speed"


def test_no_type_and_no_shape():
    assert dr.expr_t() is None
    with pytest.raises(TypeError):
        dr.shape(None)
    with pytest.raises(TypeError):
        dr.shape({"a": 1})


def test_a_sum_over_everything_counts_narrow_arrays_once():
    assert repr(dr.sum([Float(1, 2), 3], axis=None)) == "[6]"
    assert repr(dr.sum([[Float(1, 2)], Array2f([1, 2], 3)], axis=None)) == "[12]"


def test_the_gather_of_a_tree_broadcasts_narrow_leaves():
    tree = {"a": Float(1, 2, 3), "b": Array2f(5, [6, 7, 8]), "c": 4}
    found = dr.gather(dict, tree, UInt(2, 0))
    assert repr(found) == "{'a': [3, 1], 'b': [[5, 8],\n [5, 6]], 'c': 4}"
    assert list(dr.gather(dict, {"a": Float(1)}, UInt(1))["a"]) == [1]


def test_history_has_the_time_of_making_the_text(monkeypatch):
    def program():
        x = dr.arange(UInt, 77)  # in this way in no other test, so that the text is a new one
        return dr.brev(dr.popcnt(x) - dr.tzcnt(x) * dr.lzcnt(x)) ^ dr.mul_hi(x, x)

    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for tier in ("numpy", "compiled"):  # which is the first launch of compiled code
            monkeypatch.setattr(variants, "pinned", tier)
            dr.eval(program())
        first, second = dr.kernel_history()
    assert first["size"] == second["size"] == 77 and first["hash"] == second["hash"]
    assert first["codegen_time"] > 0 == second["codegen_time"]
    assert first["backend_time"] == 0 < second["backend_time"]


def test_help_is_readable():
    text = pydoc.plain(pydoc.render_doc(dr.gather))
    assert re.search(r"^gather\(\s*dtype", text, re.MULTILINE)  # one line, or one for each argument
    overview = pydoc.plain(pydoc.render_doc(dr))
    for name in ("gather(", "class VarState", "VERSION\n    " + dr.__version__):
        assert name in overview


def test_completion_offers_public_names_only():
    names = dir(dr)
    variables = set(dr.__all__) - set(names)
    # Which stay where programs written for the reference look for them.
    assert {"ArrayT", "CallablePT", "T", "Ts"} <= variables and "AnyArray" not in variables
    assert all(type(getattr(dr, name)).__module__ == "typing" for name in variables)
    assert {"x", "numpy", "shape"} <= set(dir(Array3f(1)))


def test_classes_say_what_they_contain():
    contents = {
        dr.llvm.ad.Float: "One-dimensional array: float32 numbers, with derivatives.",
        dr.llvm.ad.UInt: "One-dimensional array: uint32 numbers.",
        dr.llvm.ad.Bool: "One-dimensional array: truth values.",
        dr.scalar.Array3f: "Vector of 3 components: float32 numbers of Python.",
    }
    for cls, text in contents.items():
        assert (cls.__doc__ or "").startswith(text)


def test_names_are_where_they_are_looked_for():
    """What type checkers read agrees with the table that Python uses, and that with the modules."""
    stub = (Path(dr.__file__).parent / "__init__.pyi").read_text()
    found = {}
    for s in ast.parse(stub).body:
        if isinstance(s, ast.ImportFrom) and s.module is not None:
            found[s.names[0].asname] = (s.module, s.names[0].name)
    for name, module in _names.MODULES.items():
        assert found.pop(name) == (module, name)
        assert getattr(dr, name) is getattr(importlib.import_module(f"drjit.{module}"), name)
    for name, (module, there) in found.items():  # which the package imports at once
        assert vars(dr)[name] is getattr(importlib.import_module(f"drjit.{module}"), there)

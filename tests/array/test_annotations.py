"""From Python 3.14 on, annotations are evaluated when somebody asks for them: they may name what is
defined later, or imported for type checkers alone."""

import inspect
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pytest

import drjit as dr
from drjit.array.pytree import struct_fields
from drjit.llvm.ad import Array3f, Float, Int

if TYPE_CHECKING:
    from decimal import Decimal as Later

if sys.version_info < (3, 14):
    pytest.skip("annotations are evaluated at once", allow_module_level=True)


def test_transformed_functions():
    @dr.syntax
    def power(x: Float, n: Later) -> Later:
        i: Later = Int(0)

        def twice(v: Later) -> Later:
            return v * 2

        while i < n:
            i += 1
            x: Later = twice(x)
        return x

    class Scale:
        factor = 3

        @dr.syntax
        def power(self, x: Later, n: Scale) -> Scale:  # noqa: F821
            i = Int(0)
            while i < n:
                i += 1
                x = x * self.factor
            return x

    assert list(power(Float(1, 2), 3)) == [8, 16]
    assert list(Scale().power(Float(1, 2), 2)) == [9, 18]
    assert list(inspect.get_annotations(Scale.power, format=3)) == ["x", "n", "return"]


@dataclass
class Tree:
    value: Float
    position: Array3f
    parts: list[Tree] = field(default_factory=list)  # noqa: F821


@dataclass
class Known:
    value: Float
    other: Later = None


class Plain:
    DRJIT_STRUCT: ClassVar = {"a": Float, "b": Int}
    a: Later
    b: Later


def test_data_classes():
    assert struct_fields(Tree) == {"value": Float, "position": Array3f, "parts": list[Tree]}
    tree = Tree(Float(1, 2), Array3f(1), [Tree(Float(5), Array3f(2))])
    assert dr.width(tree) == 2 and list(dr.detach(tree).parts[0].value) == [5]
    double = dr.freeze(lambda k: Known(k.value * 2, k.other + 1))
    for k in range(3):
        found = double(Known(Float(k, 2), Float(3)))
        assert (list(found.value), list(found.other)) == ([2 * k, 4], [4])
    assert struct_fields(Known)["value"] is Float
    with pytest.raises(TypeError, match=r"'dtype' must be a type, not .*Later"):
        dr.zeros(Known, 3)
    assert dr.width(dr.zeros(Plain, 3)) == 3 and type(dr.zeros(Plain).b) is Int


def test_functions_whose_parameters_are_read(tmp_path):
    def added(first: Later, second: Later) -> Later:
        return first + second

    path = dr.export(added, Float(1, 2), Float(3, 4), path=tmp_path / "added.py")
    assert "def added(first, second" in path.read_text()
    assert dr.wrap("numba", "drjit")(added)(1.0, 2.0) == 3

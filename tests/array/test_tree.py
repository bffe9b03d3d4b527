"""Values that loops, branches and calls take apart: their parts, names, order, and what is put
together again.
"""

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from drjit.array.pytree import role
from drjit.array.tree import ARRAY, OTHER, Tree, differs, keys_and_parts, set_contents
from drjit.llvm.ad import Array3f, Float, TensorXf
from drjit.scalar import Array3f as ScalarArray3f

Pair = namedtuple("Pair", "first second")


@dataclass
class Base:
    x: Float
    name: str = "base"


@dataclass
class Derived(Base):
    y: Float = field(default_factory=lambda: Float(2))


class Undecorated(Base):
    pass


class Table:
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"x": Float}

    def __init__(self):
        self.x = Float(1)


class Plain:
    pass


VALUES = {
    "array": (Float(1, 2), ["v"]),
    "nested": (Array3f(1, 2, 3), ["v[0]", "v[1]", "v[2]"]),
    "tensor": (TensorXf([[1, 2], [3, 4]]), ["v"]),
    "containers": (
        [Float(1), (Float(2), {"k": Float(3), 4: "text"})],
        ["v[0]", "v[1][0]", "v[1][1]['k']"],
    ),
    "named": (Pair(Float(1), 5), ["v.first"]),
    "structures": (
        [Base(Float(1)), Derived(Float(1)), Table()],
        ["v[0].x", "v[1].x", "v[1].y", "v[2].x"],
    ),
    "inherited fields": (Undecorated(Float(3)), ["v.x"]),
    "others": ([1, None, Plain, ScalarArray3f(1, 2, 3), {}, ()], []),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_parts(name):
    value, paths = VALUES[name]
    tree = Tree((value,))
    labels = tree.labels(["v"])
    assert [p for p, n in zip(labels, tree.counts, strict=True) if n == ARRAY] == paths
    assert len(tree.leaves) == len(paths)
    assert [tree.objects[k] for k in tree.parts] == [
        v for v in tree.objects if role(type(v)) not in ("leaf", "vector", "other")
    ]
    assert tree.others == [k for k, n in enumerate(tree.counts) if n == OTHER]


@pytest.mark.parametrize("name", VALUES)
def test_put_together(name):
    value, paths = VALUES[name]
    tree = Tree((value, 7))
    leaves = [Float(k, 1, 1) for k in range(len(paths))]
    made, number = tree.reassemble(leaves)
    again = Tree((made,))
    assert number == 7
    assert type(made) is type(value)
    assert [a is b for a, b in zip(again.leaves, leaves, strict=True)] == [True] * len(paths)
    assert again.classes == tree.classes[:-1]
    filled = tree.without_arrays().with_contents([(a._node, None) for a in leaves])
    for a, b in zip(Tree(filled).leaves, leaves, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_put_together_keeps_what_is_made():
    value = {"a": [Float(1), 2], "b": 3}
    tree = Tree((value,))
    (made,) = tree.reassemble([Float(5)], lambda k, values: (tree.classes[k].__name__, values))
    assert made[0] == "dict" and made[1][0][0] == "list" and made[1][1] == 3


def test_order():
    before, after = (
        Tree(({"a": Float(1), "b": [Float(2)]},)),
        Tree(({"b": [Float(4)], "a": Float(3)},)),
    )
    assert not before.has_structure_of(after)
    found = after.ordered([j for _, j in before.paired(after)])
    assert [a[0] for a in found.leaves] == [3, 4]
    assert before.classes == found.classes and before.counts == found.counts


def test_new_fields_of_a_table():
    class Growing:
        DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"x": Float}

        def __init__(self):
            self.x, self.y = Float(1), Float(2)

    value = Growing()
    assert len(Tree((value,)).leaves) == 1
    Growing.DRJIT_STRUCT = {"x": Float, "y": Float}
    assert len(Tree((value,)).leaves) == 2


def test_class_becomes_a_structure():
    class Late:
        def __init__(self):
            self.x = Float(1)

    value = Late()
    assert role(Late) == "other"
    Late.DRJIT_STRUCT = {"x": Float}
    assert role(Late) == "struct" and len(Tree((value,)).leaves) == 1


@pytest.mark.parametrize(
    "value", [[Float(1)], {"a": Float(1)}, Base(Float(1)), Array3f(1), TensorXf([1, 2])]
)
def test_contents(value):
    keys, before = keys_and_parts(value, role(type(value)))
    assert not differs(value, keys, before)
    other = [Float(9)] * len(before)
    if isinstance(value, Base):
        other = [Float(9), "other"]
    set_contents(value, keys, other)
    assert differs(value, keys, before)
    set_contents(value, keys, before)
    assert not differs(value, keys, before)
    assert all(
        a is b for a, b in zip(keys_and_parts(value, role(type(value)))[1], before, strict=True)
    )


def test_without_end():
    value: list = [Float(1)]
    value.append(value)
    with pytest.raises(RecursionError, match="nested too deeply, or contain themselves"):
        Tree((value,))

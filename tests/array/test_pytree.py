"""Trees of values: their leaves, functions mapped over them, and errors about their structure."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any, ClassVar, get_type_hints

import pytest

import drjit as dr
from drjit.array import pytree
from drjit.llvm import Array3f, Float, Int, TensorXf

Pair = namedtuple("Pair", "first second")


class Ray:
    DRJIT_STRUCT: ClassVar = {"o": Array3f, "t": Float}

    def __init__(self) -> None:
        self.o, self.t = Array3f(), Float()


@dataclasses.dataclass(frozen=True)
class Hit:
    distance: Float
    shape: "Int"
    rest: Any = None


def ray(o: object, t: object) -> Ray:
    made = Ray()
    made.o, made.t = o, t
    return made


TREE = [1, (2, {"k": Hit(3, [4], None)}), Pair(5, ray(6, 7)), "text"]


def test_leaves_in_order_with_the_way_to_them() -> None:
    assert list(pytree.walk(TREE)) == [
        ("[0]", 1),
        ("[1][0]", 2),
        ("[1][1]['k'].distance", 3),
        ("[1][1]['k'].shape[0]", 4),
        ("[1][1]['k'].rest", None),
        ("[2].first", 5),
        ("[2].second.o", 6),
        ("[2].second.t", 7),
        ("[3]", "text"),
    ]
    assert pytree.leaves(5) == [5]
    assert pytree.leaves([]) == []


def test_mapping_keeps_every_kind_of_container() -> None:
    made = pytree.map_tree(lambda v: [v], TREE)
    assert made[0] == [1]
    assert type(made[1]) is tuple and type(made[1][1]["k"]) is Hit
    assert made[1][1]["k"] == Hit([3], [[4]], [None])
    assert type(made[2]) is Pair and type(made[2].second) is Ray
    assert (made[2].second.o, made[2].second.t) == ([6], [7])
    assert made[3] == ["text"]
    ordered = OrderedDict(b=1, a=2)
    assert pytree.map_tree(lambda v: -v, ordered) == OrderedDict(b=-1, a=-2)
    assert type(pytree.map_tree(lambda v: -v, ordered)) is OrderedDict


class Both(Pair):
    def __new__(cls, both: Any) -> Any:
        return super().__new__(cls, both, both)


class Named(dict):
    def __init__(self, name: str) -> None:
        super().__init__(value=Float(1))
        self.name = name


class Stack(list):
    def __init__(self, size: int) -> None:
        super().__init__([Float(0)] * size)


class Twice(tuple):
    def __new__(cls, value: Any) -> Any:
        return super().__new__(cls, (value, value))


@pytest.mark.parametrize(
    "made", [defaultdict(list, value=Float(1)), Named("x"), Stack(2), Twice(Float(1))], ids=repr
)
def test_containers_with_a_constructor_of_their_own_are_objects(made: Any) -> None:
    assert pytree.leaves([made]) == [made]
    assert dr.detach([made])[0] is made
    assert dr.copy({"k": made})["k"] is made
    assert dr.while_loop((made, Int(0)), lambda _, i: i < 3, lambda t, i: (t, i + 1))[0] is made
    assert dr.freeze(lambda t, x: (t, x + 1))(made, Float(1, 2))[1].numpy().tolist() == [2, 3]


def test_named_tuples_with_a_constructor_of_their_own() -> None:
    assert pytree.map_tree(lambda v: v + 1, Both(2)) == (3, 3)
    assert type(pytree.map_tree(lambda v: v, Both(2))) is Both


def test_mapping_over_several_trees() -> None:
    assert pytree.map_tree(lambda a, b: a - b, {"x": 5, "y": [6]}, {"y": [1], "x": 2}) == {
        "x": 3,
        "y": [5],
    }


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([1, 2], [1], r"dr\.select\(\): .*lengths: 2 and 1"),
        ([1], (1,), "differ: list and tuple"),
        ([1], [[1]], r"differ at \[0\]: int and list"),
        ([[1]], [1], r"differ at \[0\]: list and int"),
        ({"a": [{"b": 1}]}, {"a": [{"c": 1}]}, r"at \['a'\]\[0\] .*\['b'\] and \['c'\]"),
        (Hit(1, 2), ray(1, 2), "differ: Hit and Ray"),
        (ray(1, [1]), ray(1, [1, 2]), r"at \.t have different lengths: 1 and 2"),
    ],
)
def test_structures_must_match(a: object, b: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        pytree.map_tree(lambda x, y: x, a, b, what="dr.select")


def test_fields_of_structures() -> None:
    assert pytree.struct_fields(Ray) == {"o": Array3f, "t": Float}
    assert pytree.struct_fields(Hit) == {"distance": Float, "shape": Int, "rest": Any}
    assert pytree.struct_fields(Pair) is None and pytree.struct_fields(int) is None
    assert [*map(pytree.role, (Ray, Hit, list))] == ["struct", "struct", "sequence"]
    assert not pytree.is_container(Ray) and pytree.is_container(Ray())


def test_a_data_class_is_made_without_its_constructor() -> None:
    @dataclasses.dataclass
    class Checked:
        x: int

        def __post_init__(self) -> None:
            if not isinstance(self.x, int):
                raise TypeError

    assert pytree.map_tree(str, Checked(3)).x == "3"


def test_a_structure_needs_a_constructor_without_arguments() -> None:
    class Bad:
        DRJIT_STRUCT: ClassVar = {"x": Float}

        def __init__(self, x: object) -> None:
            self.x = x

    with pytest.raises(TypeError, match=r"Bad: .*without arguments"):
        pytree.map_tree(str, Bad(3))


def test_arrays_among_the_leaves() -> None:
    a, b, t = Float(1, 2), Array3f(1, 2, 3), TensorXf([[1, 2]])
    tree = {"a": a, "rest": [b, 5, "x", None, ray(a, t)]}
    found = pytree.arrays(tree)
    assert [id(v) for v in found] == [id(a), id(b), id(a), id(t)]
    flat = pytree.leaf_arrays(tree)
    assert [id(v) for v in flat] == [id(v) for v in (a, b.x, b.y, b.z, a, t.array)]


def test_annotations_of_a_data_class_are_resolved_once(monkeypatch):
    calls = []

    def counted(cls):
        calls.append(cls)
        return get_type_hints(cls)

    @dataclasses.dataclass
    class Two:
        x: Float
        y: Float

    monkeypatch.setattr(pytree, "get_type_hints", counted)
    pair = Two(Float(1), Float(2))
    for _ in range(3):
        pair = dr.while_loop((pair,), lambda p: p.x < 3, lambda p: (Two(p.x + 1, p.y),))[0]
        assert list(dr.zeros(Two).x + pair.y) == [2]
        assert pytree.struct_fields(Two) == {"x": Float, "y": Float}
    assert calls == [Two]


def test_a_class_may_become_a_structure():
    class Plain:
        pass

    assert pytree.role(Plain) == "other"
    Plain.DRJIT_STRUCT = {"x": Float}
    assert pytree.role(Plain) == "struct"


def test_a_structure_that_needs_arguments_cannot_be_made():
    class Pair:
        DRJIT_STRUCT: ClassVar = {"x": Float}

        def __init__(self, x):
            self.x = x

    for error in (TypeError, RuntimeError):
        for f in (dr.detach, dr.copy, dr.grad, lambda p: dr.gather(Pair, p, 0)):
            with pytest.raises(error, match="must be constructible without arguments"):
                f(Pair(Float(1)))

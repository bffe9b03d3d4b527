"""The fast path of a frozen function: a generated Python function that compares the inputs of a
call with those of an earlier one. It checks only what could make their `InputLayout` differ, and
returns their values and objects in the same order.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from ...jit.ir.node import BUFFER, LITERAL, Node
from ...jit.run import schedule
from ..call.instance import InstanceArray
from .layout import DEEPEST, InputLayout, fields_of, kind_of, opened, reference_to

_FEW = 6  # objects that are compared with each other one by one

# How the parts of a container are read.
_PARTS: dict[str, Callable[[str, Any], str]] = {
    "nested": lambda name, keys: f"{name}._components",
    "tensor": lambda name, keys: f"({name}._array, )",
    "sequence": lambda name, keys: name,
    "dict": lambda name, keys: f"{name}.values()",
    "struct": lambda name, keys: f"({''.join([f'getattr({name}, {k!r}, None), ' for k in keys])})",
    "object": lambda name, keys: f"vars({name}).values()",
    "method": lambda name, keys: f"({name}.__func__, {name}.__self__)",
    "partial": lambda name, keys: f"({name}.func, {name}.args, {name}.keywords)",
}


class MatchedInputs:
    """Inputs that were found to match; stands for their `InputLayout`."""

    __slots__ = ("_places", "nodes", "objects")

    def __init__(self, nodes: list[Any], objects: list[Any], places: list[list]) -> None:
        self.nodes, self.objects, self._places = nodes, objects, places

    @property
    def holders(self) -> list[list[tuple[Any, str]]]:
        """The objects and attributes that hold each value."""
        return [[(self.objects[k], name) for k, name in places] for places in self._places]


Check = Callable[[Sequence[Any], Sequence[Any]], MatchedInputs | tuple[Any] | None]


def fast_path(
    layout: InputLayout,
    inputs: Sequence[Any],
    implicit: Sequence[Any],
    changing: set[int],
    replay: Callable | None,
) -> Check | None:
    """Returns a function that returns `MatchedInputs` for inputs equal to those that led to a
    layout, as far as its key tells, and None for others (or for inputs that it does not know).
    Literals with the numbers `changing` may have any value. Returns None if inputs are of a kind
    that is compared in other ways.

    With `replay`, which writes statements (see `codegen.replay_writer`), the function also performs
    the call, and returns a tuple with its result; `MatchedInputs` if that was not possible.
    """
    writer = _Writer(changing)
    try:
        writer.values("inputs", inputs)
        writer.values("implicit", implicit)
    except _UnknownKind:
        return None
    check = writer.function(None)
    found = check(inputs, implicit)
    if found is None or not _are_same(found.nodes, layout.nodes):
        return None
    if not _are_same(found.objects, layout.objects):
        return None
    return check if replay is None else writer.function(replay)


def _are_same(values: Sequence[Any], others: Sequence[Any]) -> bool:
    return [*map(id, values)] == [*map(id, others)]


def _evaluated(nodes: list[Node]) -> bool:
    """Evaluates nodes; returns False if some are literals."""
    if any(n.op is LITERAL for n in nodes):
        return False
    schedule.evaluate(nodes)
    return True


def _distinct(names: Sequence[str]) -> list[str]:
    """Returns the statements that return if two variables are the same object."""
    if len(names) < 2:
        return []
    if len(names) <= _FEW:
        same = " or ".join([f"{a} is {b}" for a, b in combinations(names, 2)])
    else:
        same = f"len({{{', '.join([f'id({n})' for n in names])}}}) != {len(names)}"
    return [f"if {same}: return None"]


class _UnknownKind(Exception):
    """The inputs contain something that only `InputLayout` can compare."""


class _Writer:
    """Writes the statements that follow `InputLayout` through the inputs. Objects are called `o0`,
    `o1` and so on, and values `v0`, `v1`."""

    def __init__(self, changing: set[int]) -> None:
        self.changing = changing
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "BUFFER": BUFFER,
            "LITERAL": LITERAL,
            "MatchedInputs": MatchedInputs,
        }
        self.names["evaluated"] = _evaluated
        self.objects: dict[int, int] = {}
        self.nodes: dict[int, int] = {}
        self.places: list[list[tuple[int, str]]] = []
        self.parts = self.depth = 0
        self.classes: dict[type, list[int]] = {}  # the objects of each
        self.own: dict[int, int] = {}  # the values of arrays with data

    def name_of(self, value: Any) -> str:
        """Returns a name for a value that exists now."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def unless(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def values(self, text: str, found: Sequence[Any], counted: bool = False) -> None:
        """Takes the parts of a sequence apart, and goes through them; `counted` says that there are
        as many."""
        if not counted:
            self.unless(f"len({text}) == {len(found)}")
        names = [f"p{self.parts + k}" for k in range(len(found))]
        self.parts += len(found)
        if names:
            self.lines.append(f"{', '.join(names)}, = {text}")
        for name, value in zip(names, found, strict=True):
            self.value(name, value)

    def value(self, name: str, value: Any) -> None:
        cls = type(value)
        kind = kind_of(cls)
        if value is None or cls is bool:
            self.unless(f"{name} is {value}")
        elif kind == "constant":
            self.unless(self.equals(name, value))
        elif kind == "number":
            if not value or value != value:  # the sign of a zero matters
                raise _UnknownKind
            self.unless(self.equals(name, value))
        elif kind == "hashed":
            self.identity(name, value)
        elif kind in ("leaf", "other") or kind in _PARTS:
            self.object(name, value, kind)
        else:
            raise _UnknownKind

    def equals(self, name: str, value: Any) -> str:
        """Returns the condition that a variable has the type and value of a constant."""
        known, cls = self.name_of(value), self.name_of(type(value))
        return f"{name} is {known} or (type({name}) is {cls} and {name} == {known})"

    def identity(self, name: str, value: Any) -> None:
        """Checks that an object is the same one, which is not kept alive where possible."""
        known = reference_to(value)
        called = "" if known is value else "()"
        self.unless(f"{self.name_of(known)}{called} is {name}")

    def object(self, name: str, value: Any, kind: str) -> None:
        if id(value) in self.objects:
            self.unless(f"{name} is o{self.objects[id(value)]}")
            return
        number = self.objects[id(value)] = len(self.objects)
        self.lines.append(f"o{number} = {name}")
        self.unless(f"type({name}) is {self.name_of(type(value))}")
        self.classes.setdefault(type(value), []).append(number)
        if kind == "leaf":
            self.leaf(number, value)
            return
        if kind == "object" and (
            self.depth >= DEEPEST or type(getattr(value, "__dict__", None)) is not dict
        ):
            kind = "other"
        if kind == "other":
            self.identity(name, value)
            return
        if isinstance(value, InstanceArray):
            raise _UnknownKind
        keys, parts = opened(value, kind)
        if kind == "struct":
            fields = len(fields_of(type(value)))
            attributes = getattr(value, "__dict__", None)
            if attributes is not None:
                self.unless(f"tuple(vars({name})) == {self.name_of(tuple(attributes))}")
            self.parts_of(name, kind, keys[:fields], parts[:fields])
            keys, parts = keys[fields:], parts[fields:]
            if not parts:
                return
        elif kind == "dict":
            self.unless(f"tuple({name}) == {self.name_of(keys)}")
        elif kind == "tensor":
            self.unless(f"{name}._shape == {self.name_of(keys)}")
        elif kind == "object":
            if type(value).__hash__ is not None:
                self.identity(name, value)
            self.unless(f"tuple(vars({name})) == {self.name_of(keys)}")
        deeper = kind == "object" or kind == "struct"
        self.depth += deeper
        self.parts_of(name, kind, keys, parts)
        self.depth -= deeper

    def parts_of(self, name: str, kind: str, keys: Any, parts: Sequence[Any]) -> None:
        """Goes through the parts of an object."""
        if parts:
            self.values(_PARTS[kind](name, keys), parts, kind != "sequence" and kind != "nested")
        else:
            self.unless(f"not {_PARTS[kind](name, keys)}")

    def leaf(self, number: int, a: Any) -> None:
        self.node(f"o{number}._node", a._node, number, "_node")
        if a._node.op is not LITERAL:
            self.own[number] = self.nodes[id(a._node)]
        v = a._var
        self.lines.append(f"var = o{number}._var")
        if v is None:
            self.unless("var is None")
            return
        if id(v) in self.objects:
            self.unless(f"var is o{self.objects[id(v)]}")
            return
        number = self.objects[id(v)] = len(self.objects)
        self.classes.setdefault(type(v), []).append(number)
        self.lines.append(f"o{number} = var")
        self.unless("var is not None")
        self.unless(f"var.rule is {'' if v.rule is None else 'not '}None")
        if v.grad is None:
            self.unless("var.grad is None")
        else:
            self.unless("var.grad is not None")
            self.node("var.grad", v.grad, number, "grad")

    def node(self, text: str, n: Node, holder: int, attribute: str) -> None:
        literal = n.op is LITERAL
        if not literal and id(n) in self.nodes:
            before = self.nodes[id(n)]
            self.unless(f"{text} is v{before}")
            self.places[before].append((holder, attribute))
            return
        number = len(self.places)
        self.places.append([(holder, attribute)])
        self.lines.append(f"v{number} = {text}")
        self.unless(f"v{number}.size == {n.size}")
        if literal:
            self.unless(f"v{number}.op is LITERAL")
            if number not in self.changing:
                self.unless(f"repr(v{number}.data) == {repr(n.data)!r}")
        else:
            self.nodes[id(n)] = number

    def function(self, replay: Callable | None) -> Callable:
        """Returns the function, which performs the call by the statements of `replay`."""
        nodes = ", ".join([f"v{k}" for k in range(len(self.places))])
        data = [f"v{k}" for k in self.nodes.values()]
        objects = ", ".join([f"o{k}" for k in range(len(self.objects))])
        lines = [*self.lines, *_distinct(data)]
        for numbers in self.classes.values():
            # Arrays are different ones if their values are.
            alone = [k in self.own and len(self.places[self.own[k]]) == 1 for k in numbers]
            names = [f"o{k}" for k, apart in zip(numbers, alone, strict=True) if not apart]
            lines += _distinct(names)
        self.names["places"] = self.places
        if data:
            # A literal in place of data would not become data.
            there = " and ".join([f"{v}.op is BUFFER" for v in data])
            wait = f"not ({there}) and not evaluated([{', '.join(data)}])"
            lines.append(f"if {wait}: return None")
        match = f"return MatchedInputs([{nodes}], [{objects}], places)"
        lines += [match] if replay is None else replay(self.name_of, match)
        body = "\n    ".join(lines)
        exec(f"def check(inputs, implicit):\n    {body}\n", self.names)
        return self.names["check"]

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
from .layout import DEEPEST, InputLayout, fields_of, keys_and_parts, kind_of, reference_to

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
    writer = _Writer(layout, changing)
    try:
        writer.values("inputs", inputs)
        writer.values("implicit", implicit)
    except (_UnknownKind, KeyError):  # what is another object each time has no number
        return None
    check = writer.function(None)
    if check(inputs, implicit) is None:
        return None
    return check if replay is None else writer.function(replay)


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
    """Writes the statements that follow an `InputLayout` through the inputs. By their numbers in
    it, objects are called `o0`, `o1` and so on, and values `v0`, `v1`."""

    def __init__(self, layout: InputLayout, changing: set[int]) -> None:
        self.layout, self.changing = layout, {f"v{k}" for k in changing}
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "BUFFER": BUFFER, "LITERAL": LITERAL, "MatchedInputs": MatchedInputs,
            "evaluated": _evaluated,
        }  # fmt: skip
        self.numbers = {id(o): k for k, o in enumerate(layout.objects)}
        rows = enumerate(layout.holders)
        self.value_names = {(id(o), name): f"v{k}" for k, row in rows for o, name in row}
        self.assigned: set[str] = set()
        self.parts = self.depth = 0

    def name_of(self, value: Any) -> str:
        """Returns a name for a value that exists now."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def unless(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def is_new(self, name: str, text: str) -> bool:
        """Gives an object or value its name when it is met first, or tests that it is the same;
        returns whether it is met first."""
        if name in self.assigned:
            self.unless(f"{text} is {name}")
            return False
        self.assigned.add(name)
        self.lines.append(f"{name} = {text}")
        return True

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
        own = f"o{self.numbers[id(value)]}"
        if not self.is_new(own, name):
            return
        self.unless(f"type({name}) is {self.name_of(type(value))}")
        if kind == "leaf":
            self.leaf(own, value)
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
        keys, parts = keys_and_parts(value, kind)
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

    def leaf(self, name: str, a: Any) -> None:
        self.node(name, a, "_node")
        v = a._var
        self.lines.append(f"var = {name}._var")
        if v is None:
            self.unless("var is None")
            return
        own = f"o{self.numbers[id(v)]}"
        if not self.is_new(own, "var"):
            return
        self.unless("var is not None")
        self.unless(f"var.rule is {'' if v.rule is None else 'not '}None")
        if v.grad is None:
            self.unless("var.grad is None")
        else:
            self.unless("var.grad is not None")
            self.node(own, v, "grad")

    def node(self, name: str, holder: Any, attribute: str) -> None:
        n: Node = getattr(holder, attribute)
        own = self.value_names[id(holder), attribute]
        if not self.is_new(own, f"{name}.{attribute}"):
            return
        self.unless(f"{own}.size == {n.size}")
        if n.op is LITERAL:
            self.unless(f"{own}.op is LITERAL")
            if own not in self.changing:
                self.unless(f"repr({own}.data) == {repr(n.data)!r}")

    def function(self, replay: Callable | None) -> Callable:
        """Returns the function, which performs the call by the statements of `replay`."""
        layout, classes = self.layout, dict[type, list[str]]()
        nodes = [f"v{k}" for k in range(len(layout.nodes))]
        objects = [f"o{k}" for k in range(len(layout.objects))]
        rows = [*zip(nodes, layout.nodes, layout.holders, strict=True)]
        data = [name for name, n, _ in rows if n.op is not LITERAL]
        # Arrays with different values are different arrays.
        apart = {id(held[0][0]) for _, n, held in rows if n.op is not LITERAL and len(held) == 1}
        for name, o in zip(objects, layout.objects, strict=True):
            if id(o) not in apart:
                classes.setdefault(type(o), []).append(name)
        lines = [*self.lines, *_distinct(data)]
        for names in classes.values():
            lines += _distinct(names)
        self.names["places"] = [
            [(self.numbers[id(o)], name) for o, name in held] for held in layout.holders
        ]
        if data:
            # A literal in place of data would not become data.
            there = " and ".join([f"{v}.op is BUFFER" for v in data])
            wait = f"not ({there}) and not evaluated([{', '.join(data)}])"
            lines.append(f"if {wait}: return None")
        match = f"return MatchedInputs([{', '.join(nodes)}], [{', '.join(objects)}], places)"
        lines += [match] if replay is None else replay(self.name_of, match)
        body = "\n    ".join(lines)
        exec(f"def check(inputs, implicit):\n    {body}\n", self.names)
        return self.names["check"]

"""What a recording of a frozen function looks like from C: the fields of a structure for its
arguments, results and changes, named after the places of arrays in them.

The key of a recording (`freeze/layout.py`) determines the objects among the inputs, and is read
here as it was written.
"""

import inspect
import keyword
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...function.signature import signature
from ...jit.ir.dtype import DType
from ...jit.run.freeze import Literal, ValueNumber
from ...jit.tuples import NamedTuple
from ..freeze import layout, result
from ..freeze.layout import fields_of, kind_of

_TYPES = {
    "mask": "unsigned char", "i8": "signed char", "u8": "unsigned char", "i16": "short",
    "u16": "unsigned short", "i32": "int", "u32": "unsigned int", "i64": "long long",
    "u64": "unsigned long long", "f16": "unsigned short", "f32": "float", "f64": "double",
}  # fmt: skip
_NOTES = {"mask": "0 or 1", "f16": "the bits of halves"}
_AXES = "xyzw"


class CannotExport(Exception):
    """Something that an object file cannot have, in the user's terms."""


class Item:
    """An object among the inputs: a container with `parts`, or an array with the number of its
    `value`, None if it is a literal, and its derivative `variable`; or such a variable, whose value
    is the gradient."""

    def __init__(self, name: str, cls: Any = None) -> None:
        self.name, self.cls = name, cls
        self.keys: Any = None
        self.parts: list[Any] = []
        self.value: int | None = None
        self.variable: Item | None = None
        self.dtype: Any = None


class Value(NamedTuple):
    """A value among the inputs: its element type, which of the sizes it has (-1: none, -2: one),
    and whether it is part of the program."""

    name: str
    dtype: DType
    size: int
    is_literal: bool


class Field(NamedTuple):
    """An array of the structure."""

    name: str
    dtype: DType


class Inputs:
    """The objects and values of a key. Those from `own_objects` and `own_values` on are no
    arguments, but what the function reads besides. `shapes` has the trailing axes of tensors."""

    def __init__(self, key: Sequence[Any], names: Sequence[str]) -> None:
        self._key, self._at = key, 1
        self.objects: list[Item] = []
        self.values: list[Value] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name in names:
            self._one(name)
        self.own_objects, self.own_values = len(self.objects), len(self.values)
        while isinstance(self._key[self._at], type):
            self._one("captured")
        self.flags: int = self._key[self._at]  # under which the function was recorded

    def _next(self) -> Any:
        self._at += 1
        return self._key[self._at - 1]

    def _known(self) -> Item | None:
        """Returns the object that the key refers to, if it occurs again."""
        if self._key[self._at] is not ...:
            return None
        self._next()
        return self.objects[self._next()]

    def _one(self, name: str) -> Item | None:
        cls = self._next()
        kind = kind_of(cls)
        if kind == "constant" or kind in layout._BY_VALUE:
            self._next()
            return None
        if kind == "slice":
            for _ in range(3):
                self._one(name)
            return None
        known = self._known()
        if known is not None:
            return known
        item = Item(name, cls)
        self.objects.append(item)
        if kind == "leaf":
            self._leaf(item)
        elif kind == "other" or kind == "vector":
            self._next()
        else:
            self._container(item, kind)
        return item

    def _leaf(self, item: Item) -> None:
        item.dtype = item.cls._dtype
        self._value(item)
        state = self._known() or self._next()
        if isinstance(state, Item):
            item.variable = state
        elif state is not None:
            item.variable = variable = Item(f"{item.name}_grad")
            variable.dtype = item.dtype
            self.objects.append(variable)
            if self._key[self._at] is None:
                self._next()
            else:
                self._value(variable)

    def _value(self, item: Item) -> None:
        number = self._next()
        is_literal = number == -1
        if is_literal or number == len(self.values):
            number = None if is_literal else number
            self.values.append(Value(item.name, item.dtype, self._next(), is_literal))
        item.value = number

    def _container(self, item: Item, kind: str) -> None:
        keys = self._next()
        more: list[Any] = []
        if kind == "struct":
            item.keys = names = fields_of(item.cls)
            item.parts = [self._one(f"{item.name}_{k}") for k in names]
            more = [*keys]
            if hasattr(item.cls, "instances"):
                raise CannotExport("an array of instances among the inputs")
        elif kind == "tensor":
            self.shapes[item.name] = keys[2:]
            item.parts = [self._one(item.name)]
        elif kind == "object" and not isinstance(keys, tuple | int):
            return  # compared by identity
        else:
            item.keys = keys if isinstance(keys, tuple) else None
            count = len(keys) if isinstance(keys, tuple) else keys
            if kind == "object":
                self._next()
            names = labels(item.cls, item.keys, count)
            item.parts = [self._one(f"{item.name}{label}") for label in names]
        item.parts += [self._one(f"{item.name}_{k}") for k in more]


def labels(cls: Any, keys: Any, count: int) -> list[str]:
    """Returns what is appended to the name of a container for each of its parts."""
    kind = kind_of(cls)
    if kind == "tensor":
        return [""]
    if kind == "nested" and count <= len(_AXES):
        return [f"_{axis}" for axis in _AXES[:count]]
    return [f"_{k}" for k in (range(count) if keys is None or kind == "nested" else keys)]


class Outcome:
    """What a recording leaves behind, as names, values and element types: `results`, and `changes`
    of arguments."""

    def __init__(self, inputs: Inputs, outcome: result.CallOutcome) -> None:
        self._inputs, self._outcome = inputs, outcome
        self._now = {inputs.objects[k].name: value for k, value, _ in outcome.arrays}
        self.results = [*self._parts(outcome.result, "result")]
        changed = [k for k, *_ in (*outcome.arrays, *outcome.gradients, *outcome.contents)]
        if any(k >= inputs.own_objects for k in changed):
            raise CannotExport("changes of arrays that are not among its arguments")
        contents = [*self._contents()]
        self.changes = [*self._arrays({name for name, *_ in contents}), *contents]

    def _arrays(self, replaced: set[str]) -> Iterator[tuple[str, Any, DType]]:
        """Changes of arrays and gradients, except gradients of arrays that are `replaced`, as those
        of an optimizer are."""
        objects, o = self._inputs.objects, self._outcome
        for k, value, variable in o.arrays:
            item = objects[k]
            if value != item.value or isinstance(value, Literal):
                yield item.name, value, item.dtype
            if variable is not None and variable >= len(objects):
                replaced = {*replaced, item.name}
                row: Any = o.created[variable - len(objects)]
                if row.gradient is not None and not _is_zero(row.gradient):
                    yield f"{item.name}_grad", row.gradient, item.dtype
        gone = {f"{name}_grad" for name in replaced}
        for k, value in o.gradients:
            is_needed = objects[k].value is not None or not _is_zero(value)
            if value is not None and objects[k].name not in gone and is_needed:
                yield objects[k].name, value, objects[k].dtype

    def _contents(self) -> Iterator[tuple[str, Any, DType]]:
        """New parts of containers."""
        objects = self._inputs.objects
        for k, keys, parts in self._outcome.contents:
            item = objects[k]
            known = labels(item.cls, item.keys, len(item.parts))
            before = dict(zip(known, item.parts, strict=False))
            for label, part in zip(labels(item.cls, keys, len(parts)), parts, strict=True):
                same = type(part) is ValueNumber and part < len(objects)
                if not (same and before.get(label) is objects[part]):
                    yield from self._parts(part, f"{item.name}{label}")

    def _parts(self, part: Any, name: str) -> Iterator[tuple[str, Any, DType]]:
        """The arrays in a new object, or in one of the inputs."""
        objects = self._inputs.objects
        if isinstance(part, Item):
            if part.dtype is None:
                names = labels(part.cls, part.keys, len(part.parts))
                for label, p in zip(names, part.parts, strict=False):
                    yield from self._parts(p, name + label)
            else:
                value = self._now.get(part.name, part.value)
                if value is None:
                    raise CannotExport("literals among its arguments that it returns")
                yield name, value, part.dtype
        elif type(part) is not ValueNumber:
            return  # a constant
        elif part < len(objects):
            yield from self._parts(objects[part], name)
        else:
            row: Any = self._outcome.created[part - len(objects)]
            if isinstance(row, result.Array):
                yield name, row.value, row.cls._dtype
            elif isinstance(row, result.Container):
                names = labels(row.cls, row.keys, len(row.parts))
                for label, p in zip(names, row.parts, strict=True):
                    yield from self._parts(p, name + label)


def _is_zero(gradient: Any) -> bool:
    """Returns whether a gradient is that of something that has none."""
    return isinstance(gradient, Literal) and not gradient.value


def parameters(function: Any, count: int, what: str) -> tuple[str, ...]:
    """Returns names for the arguments of a function."""
    try:
        found = signature(function).parameters.values()
    except (TypeError, ValueError):
        found = ()
    by_position = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [p.name for p in found if p.kind in by_position][:count]
    names += [f"argument{k}" for k in range(len(names), count)]
    if len(set(names)) < len(names):
        raise TypeError(f"{what}: cannot name the arguments")
    return tuple(names)


def identifier(name: str, taken: set[str]) -> str:
    """Returns a name as one of C's, other than those that are taken, to which it is added."""
    words = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    words = re.sub(r"_+", "_", words) or "value"
    made, k = words if not words[0].isdigit() else f"_{words}", 1
    while made in taken or made in KEYWORDS:
        k += 1
        made = f"{words}_{k}"
    taken.add(made)
    return made


KEYWORDS = frozenset(
    [
        *keyword.kwlist,
        "auto", "bool", "case", "catch", "char", "const", "default", "delete", "do", "double",
        "enum", "extern", "false", "float", "goto", "inline", "int", "long", "main", "mutable",
        "namespace",
        "new", "operator", "private", "protected", "public", "register", "short", "signed",
        "sizeof", "static", "struct", "switch", "template", "this", "threads", "throw", "true",
        "typedef", "union", "unsigned", "using", "virtual", "void", "volatile", "xor",
    ]
)  # fmt: skip

_HEADER = os.path.join(os.path.dirname(__file__), "header.h")


def declaration(f: Any) -> str:
    """Returns the structure of a function (`object.Function`) and its prototype."""
    rows = [("size_t threads;", "")]
    for field in f.fields:
        t = field.dtype.code
        const = "" if field.name in f.changed else "const "
        note = _NOTES.get(t, "")
        shape = f.shapes.get(field.name)
        if shape:
            note = f"{note}, shape ({', '.join(['n', *map(str, shape)])})".strip(", ")
        sizes = f.size_fields(field.name)
        if not sizes:
            note = f"{note}, one entry".strip(", ")
        line = f"{const}{_TYPES[t]} *{field.name}; " + "".join([f"size_t {s}; " for s in sizes])
        rows.append((line.strip(), note))
    lines = [f"    {line}" + (f" /* {note} */" if note else "") for line, note in rows]
    structure = "\n".join(
        [f"typedef struct {f.name}_arguments {{", *lines, f"}} {f.name}_arguments;"]
    )
    return f"{structure}\n\n/* {f.title} */\nint {f.name}({f.name}_arguments *arguments);\n"


def header(functions: Sequence[Any], name: str, title: str, target: str, file: str) -> str:
    """Returns the text of the header."""
    guard = f"{name.upper()}_H"
    texts = "\n".join(map(declaration, functions))
    with open(_HEADER, encoding="utf-8") as template:
        text = template.read()
    return text.format(
        title=title, target=target, file=file, name=name, guard=guard, functions=texts
    )

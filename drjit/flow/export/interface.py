"""What a recording of a frozen function looks like from C: the fields of a structure for its
arguments, results and changes, named after the places of arrays in them.

The key of a recording (`freeze/layout.py`) determines the objects among the inputs, and is read
here as it was written.
"""

import inspect
import keyword
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
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
    """An object: a container with `parts`, or an array with the number of its `value`, None if it
    is a literal among the inputs; or a derivative variable of one, whose value is the gradient."""

    def __init__(self, name: str, cls: Any, dtype: DType | None = None) -> None:
        self.name, self.cls, self.dtype = name, cls, dtype
        self.keys: Any = None
        self.parts: Sequence[Any] = ()
        self.value: Any = None

    @property
    def labels(self) -> list[str]:
        """What is appended to its name for each of its parts."""
        return labels(self.cls, self.keys, len(self.parts))


class Value(NamedTuple):
    """A value among the inputs: its element type, which of the sizes it has (-1: none, -2: one),
    and whether it is part of the program."""

    name: str
    dtype: DType
    size: int
    is_literal: bool


class Inputs:
    """The objects and values of a key. Those from `own_objects` and `own_values` on are no
    arguments, but what the function reads besides. `arguments` are values that calls are given,
    `shapes` has the trailing axes of tensors. Names are those of places, such as `x['a']`: no two
    of them are the same, as they might be in C."""

    def __init__(self, key: Sequence[Any], names: Sequence[str]) -> None:
        self._rest = [*reversed(key[1:])]
        self._next = self._rest.pop
        self.objects: list[Item] = []
        self.values: list[Value] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name in names:
            self._one(name)
        self.own_objects, self.own_values = len(self.objects), len(self.values)
        self.arguments = [v for v in self.values if not v.is_literal]
        while isinstance(self._rest[-1], type):
            self._one(".captured")
        self.flags: int = self._next()  # under which the function was recorded

    def _one(self, name: str) -> Item | None:
        """Reads what the key says of an object. Returns nothing for constants."""
        cls = self._next()
        kind = kind_of(cls)
        if kind == "constant" or kind in layout._BY_VALUE:
            self._next()
            return None
        if kind == "slice":
            for end in ("start", "stop", "step"):
                self._one(f"{name}.{end}")
            return None
        if self._rest[-1] is ...:  # one that occurs again
            self._next()
            return self.objects[self._next()]
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
        state = self._next()
        if state is ...:  # a variable that is also another array's
            self._next()
        elif state is not None:
            variable = Item(f"{item.name}.grad", None, item.dtype)
            self.objects.append(variable)
            self._value(variable)

    def _value(self, item: Any) -> None:
        """Reads the value of an array, or a gradient, which may be None."""
        number = self._next()
        if number == -1 or number == len(self.values):
            self.values.append(Value(item.name, item.dtype, self._next(), number == -1))
        item.value = None if number == -1 else number

    def _container(self, item: Item, kind: str) -> None:
        keys = self._next()
        more: Any = ()
        if kind == "struct":
            item.keys, more = fields_of(item.cls), keys
            if hasattr(item.cls, "instances"):
                raise CannotExport("an array of instances among the inputs")
        elif kind == "tensor":
            self.shapes[item.name] = keys[2:]
        elif kind == "object" and not isinstance(keys, tuple | int):
            return  # compared by identity
        else:
            item.keys = keys if isinstance(keys, tuple) else None
            if kind == "object":
                self._next()
        count = keys if isinstance(keys, int) else len(item.keys or ())
        names = [*labels(item.cls, item.keys, count), *[f"[{k!r}]" for k in more]]
        item.parts = [self._one(f"{item.name}{label}") for label in names]


def labels(cls: Any, keys: Any, count: int) -> list[str]:
    """Returns what is appended to the name of a container for each of its parts."""
    kind = kind_of(cls)
    if kind == "tensor":
        return [""]
    if kind == "nested":
        keys = _AXES[:count] if count <= len(_AXES) else None
    return [f"[{k!r}]" for k in (range(count) if keys is None else keys)]


class Outcome:
    """What a recording leaves behind, as names, values and element types: `results`, and in `rows`
    these and changes of arguments."""

    def __init__(self, inputs: Inputs, outcome: result.CallOutcome) -> None:
        self._inputs, self._outcome = inputs, outcome
        self._objects = [*inputs.objects, *map(_created, outcome.created)]
        self._now = {inputs.objects[k]: value for k, value, _ in outcome.arrays}
        self.results = [*self._parts(outcome.result, ".result")]
        changed = [k for k, *_ in (*outcome.arrays, *outcome.gradients, *outcome.contents)]
        if any(k >= inputs.own_objects for k in changed):
            raise CannotExport("changes of arrays that are not among its arguments")
        contents = [*self._contents()]
        changes = [*self._arrays({name for name, *_ in contents}), *contents]
        self.rows = [*self.results, *changes]

    def _arrays(self, replaced: set[str]) -> Iterator[tuple[str, Any, Any]]:
        """Changes of arrays and gradients, except gradients of arrays that are `replaced`, as those
        of an optimizer are."""
        for k, value, variable in self._outcome.arrays:
            item = self._objects[k]
            if value != item.value or isinstance(value, Literal):
                yield item.name, value, item.dtype
            if variable is not None and variable >= len(self._inputs.objects):
                replaced = {*replaced, item.name}
                gradient = self._objects[variable].value
                if gradient is not None and not _is_zero(gradient):
                    yield f"{item.name}.grad", gradient, item.dtype
        gone = {f"{name}.grad" for name in replaced}
        for k, value in self._outcome.gradients:
            item = self._objects[k]
            is_needed = item.value is not None or not _is_zero(value)
            if value is not None and item.name not in gone and is_needed:
                yield item.name, value, item.dtype

    def _contents(self) -> Iterator[tuple[str, Any, Any]]:
        """New parts of containers."""
        for k, keys, parts in self._outcome.contents:
            item = self._objects[k]
            before = dict(zip(item.labels, item.parts, strict=False))
            for label, part in zip(labels(item.cls, keys, len(parts)), parts, strict=True):
                if type(part) is ValueNumber and before.get(label) is not self._objects[part]:
                    yield from self._parts(part, f"{item.name}{label}")

    def _parts(self, part: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
        """The arrays in an object, which has a number if it is not one of the inputs' parts; there
        are none in constants."""
        item = self._objects[part] if type(part) is ValueNumber else part
        if not isinstance(item, Item):
            return
        for label, p in zip(item.labels, item.parts, strict=False):
            yield from self._parts(p, name + label)
        if item.dtype is not None:
            value = self._now.get(item, item.value)
            if value is None:
                raise CannotExport("literals among its arguments that it returns")
            yield name, value, item.dtype


def _created(row: Any) -> Item:
    """Returns an object that a call has created, like one of the inputs."""
    item = Item("", None)
    if isinstance(row, result.Array):
        item.cls, item.dtype, item.value = row.cls, row.cls._dtype, row.value
    elif isinstance(row, result.Container):
        item.cls, item.keys, item.parts = row
    else:
        item.value = row.gradient
    return item


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
    """Returns a name as one of C's, other than those that are taken, to which it is added.

    >>> identifier("state['layers'][0].grad", set()), identifier("x", {"x"})
    ('state_layers_0_grad', 'x_2')
    """
    words = re.sub(r"[\W_]+", "_", name, flags=re.ASCII).strip("_") or "value"
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
        "namespace", "new", "operator", "private", "protected", "public", "register", "short",
        "signed", "sizeof", "static", "struct", "switch", "template", "this", "threads", "throw",
        "true", "typedef", "union", "unsigned", "using", "virtual", "void", "volatile", "xor",
    ]
)  # fmt: skip


class Field(NamedTuple):
    """An array of the structure of a function: the word at which it begins, and the fields that say
    how many entries it has: none if that is one, the size, or for results the capacity and the
    size. `shape` has the trailing axes of a tensor."""

    name: str
    dtype: DType
    place: int
    sizes: tuple[str, ...]
    shape: tuple[int, ...]
    is_changed: bool

    @property
    def address(self) -> str:
        """The variable with its address."""
        return f"x{self.place}"

    @property
    def entries(self) -> str:
        """The field behind its address: how many entries there are, or may be."""
        return f"word(a + {8 * (self.place + 1)})"


def declaration(f: Any) -> str:
    """Returns the structure of a function (`object.Function`) and its prototype."""
    lines = ["    size_t threads;"]
    for field in f.fields.values():
        t = field.dtype.code
        notes = [_NOTES[t]] if t in _NOTES else []
        if field.shape:
            notes.append(f"shape ({', '.join(['n', *map(str, field.shape)])})")
        if not field.sizes:
            notes.append("one entry")
        const = "" if field.is_changed else "const "
        sizes = "".join([f" size_t {s};" for s in field.sizes])
        note = f" /* {', '.join(notes)} */" if notes else ""
        lines.append(f"    {const}{_TYPES[t]} *{field.name};{sizes}{note}")
    structure = "\n".join(
        [f"typedef struct {f.name}_arguments {{", *lines, f"}} {f.name}_arguments;"]
    )
    return f"{structure}\n\n/* {f.title} */\nint {f.name}({f.name}_arguments *arguments);\n"


def header(functions: Sequence[Any], name: str, title: str, target: str, file: str) -> str:
    """Returns the text of the header."""
    text = Path(__file__).with_name("header.h").read_text(encoding="utf-8")
    return text.format(
        title=title, target=target, file=file, name=name, guard=f"{name.upper()}_H",
        functions="\n".join(map(declaration, functions)),
    )  # fmt: skip

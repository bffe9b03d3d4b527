"""Random programs in which several names hold the same array, list or object, and a model that says
what they compute.

A program is the source of a function. It is straight-line code with loops, branches and calls,
nested, over floats, nested arrays, lists, dictionaries, objects and tensors that share arrays, and
tables that it gathers from and scatters to. The model carries it out with NumPy, for all lanes at
once: loops step by step, branches and calls one function after the other. Its `while_loop`,
`if_stmt` and `switch` are the rules about the identity of objects, in as few lines as possible.
"""

import random
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

LANES = 3
ENTRIES = 4  # of a table

# ---- Programs

FLOATS = ["a", "b", "c"]
VECTORS = ["v", "w"]
LISTS = ["l", "m"]
OBJECTS = ["p", "q"]
NAMES = [*FLOATS, *VECTORS, *LISTS, *OBJECTS, "d", "g", "h", "k", "t", "u", "x", "y"]
TABLES = ["r", "t"]
_FIELDS = ["p.a", "q.a", "p.v.x", "q.v.y", "v.x", "v.y", "w.x", "w.y", "l[0]", "l[1]", "m[0]"]
_FIELDS += ["m[1]", 'd["k"]', 'd["l"][0]']


class Writer:
    """Writes one program. `style` says whether loops and branches are statements ("syntax") or
    calls ("calls"); what the model of the former reads are calls that return all of their variables
    ("model"). `kinds` are the kinds of blocks that there are."""

    def __init__(self, seed: int, style: str, kinds: tuple[str, ...], smooth: bool = False):
        self.rng = random.Random(seed)
        self.style, self.kinds, self.smooth = style, kinds, smooth
        self.count = self.in_call = 0
        self.pools = [
            pool
            for pool in (FLOATS, VECTORS, LISTS, OBJECTS, ["d"], ["g", "h"], ["u"], ["k"])
            if pool is FLOATS or self.rng.random() < 0.45
        ]
        self.known = {n for pool in self.pools for n in pool} | {"x", "y"}
        self.places = [f for f in _FIELDS if f[0] in self.known]
        self.scatters = self.rng.random() < 0.35

    def program(self) -> str:
        pick = self.rng.choice
        lines = [f"a = {pick(['x', 'x', 'x + y'])}", f"b = {pick(['a', 'a', 'y', 'Float(a)'])}"]
        lines += [f"c = {pick(['a', 'b', 'Float(b)', 'a * 0.5', 'Float(2)'])}"]
        made = {
            "v": ["v = Array2f(a, b)"],
            "w": ["w = v", "w = Array2f(v)", "w = Array2f(b, b)"],
            "l": ["l = [a, b]", "l = [a, a]", "l = [a, c]"],
            "m": ["m = l", "m = [l[0], c]", "m = [c, l[1]]"],
            "p": ["p = P(a, Array2f(a, b))", "p = P(c, Array2f(y, y))"],
            "q": ["q = p", "q = P(p.a, p.v)", "q = P(b, p.v)"],
            "d": ['d = {"k": c, "l": [a, b]}', 'd = {"k": a, "l": [b, a]}'],
            "g": ["g = TensorXf(a, (3,))", "g = TensorXf(x * 1, (3,))"],
            "h": ["h = g", "h = TensorXf(g)", "h = TensorXf(g.array, (3,))"],
            "u": ["u = UInt(1, 2, 5)"],
            "k": ["k = Bool(True, False, True)"],
        }
        lines += [pick(made[n]) for pool in self.pools[1:] for n in pool]
        lines += ["r = Float(t)"]
        for _ in range(self.rng.randint(0, 2)):
            lines += self.simple()
        for _ in range(self.rng.randint(1, 2)):
            lines += self.block(0)
            for _ in range(self.rng.randint(0, 2)):
                lines += self.simple()
        if self.rng.random() < 0.6:
            lines += [f"{n} += {2**k}" for k, n in enumerate(["a", "b", "c", *self.places])]
        names = sorted(self.known | {"r", "t"})
        lines += [f"return {', '.join(names)}"]
        head = "@dr.syntax(recursive=True)\n" if self.style == "syntax" else ""
        return f"{head}def program(x, y, t):\n" + _indented(lines)

    # ---- Expressions

    def value(self, depth: int = 0) -> str:
        """A float array."""
        pick = self.rng.choice
        kind = self.rng.random()
        if kind < 0.5 or depth == 2:
            return pick([*FLOATS, "x", "y", *self.places, *self.places])
        one = self.value(depth + 1)
        if kind < 0.65:
            return f"({one} + {self.value(depth + 1)} * 0.5)"
        if kind < 0.75:
            return f"dr.sin({one} * {self.value(depth + 1)})"
        if kind < 0.85 or "k" not in self.known:
            return f"({one} - {pick([1, 2.5])})"
        return f"dr.select(k, {one}, {self.value(depth + 1)})"

    def number(self) -> str:
        """An expression that makes a new array."""
        pick = self.rng.choice
        choices = [f"{self.value()} + {pick([1, 3])}", f"Float({pick([2, 5])})"]
        choices += [f"{self.value()} * 0.5", f"-{self.value()}"]
        if self.scatters:
            choices += [f"dr.gather(Float, r, UInt({2 if self.in_call else '3, 1, 0'}))"]
        return pick(choices)

    def test(self) -> str:
        """A mask that holds in some lanes."""
        choices = ["x > 1.5"]
        if not self.smooth:
            choices += [f"(x + {self.value()} > 0.25)", f"(y - {self.value()} < 2)"]
        if not self.in_call:
            choices += ["Bool(True, False, True)", "Bool(False, True, True)"]
        if "k" in self.known:
            choices += ["k", "k", "k & (x > 1.5)"]
        return self.rng.choice(choices)

    # ---- Statements

    def simple(self) -> list[str]:
        """A statement without blocks; several lines if these belong together."""
        pick = self.rng.choice
        pool = pick([FLOATS, FLOATS, *self.pools])
        n, other = pick(pool), pick(pool)
        number, value = self.number(), self.value()
        if self.scatters and self.rng.random() < 0.2:
            index = "UInt(1)" if self.in_call else pick(["UInt(0, 2, 2)", "UInt(1, 2, 3)"])
            mask = pick(["", f", {self.test()}"])
            return [f"dr.scatter_add(t, {value}, {index}{mask})"]
        if pool is FLOATS:
            return pick(
                [
                    [f"{n} = {pick([*FLOATS, *self.places])}"],
                    [f"{n} = {number}"],
                    [f"{n} += {value}"],
                    [f"{n} += 1"],
                    [f"{n} -= {value}"],
                    [f"{n} *= 0.5"],
                    [f"{n}, {other} = {other}, {n}"],
                    [f"{n}, {other} = {other}, {number}"],
                    [f"{n}[{self.test()}] = {value} + 0.25"],  # never what is there
                ]
            )
        if pool is VECTORS:
            return pick(
                [
                    [f"{n} = {other}"],
                    [f"{n} = {other} + {value}"],
                    [f"{n} += {value}"],
                    [f"{n} += {other}"],
                    [f"{n}.x = {value}"],
                    [f"{n}.y += {value}"],
                    [f"{n}.yx = {other}.xy"],
                    [f"{n}[1] = {value}"],
                    [f"{n}.x = {other}.y"],
                    [f"{n}, {other} = {other}, {n}"],
                    [f"{n} = Array2f({pick(FLOATS)}, {pick(FLOATS)})"],
                    [f"{n}[{self.test()}] = {other} + 0.25"],
                ]
            )
        if pool is LISTS:
            return pick(
                [
                    [f"{n} = {other}"],
                    [f"{n} = [{pick(FLOATS)}, {value}]"],
                    [f"{n}[0] = {value}"],
                    [f"{n}[0] = {number}"],
                    [f"{n}[1] += {value}"],
                    [f"{n}[0], {n}[1] = {n}[1], {n}[0]"],
                    [f"{n}, {other} = {other}, {n}"],
                    [f"{n}[0] = {other}[1]"],
                ]
            )
        if pool is OBJECTS:
            return pick(
                [
                    [f"{n} = {other}"],
                    [f"{n}.a = {value}"],
                    [f"{n}.a = {number}"],
                    [f"{n}.a += {value}"],
                    [f"{n}.v.x += {value}"],
                    [f"{n}.v.y = {value}"],
                    [f"{n}.v = {other}.v"],
                    [f"{n}.v = {other}.v + 1"],
                    [f"{n}.v += {value}"],
                    [f"{n}, {other} = {other}, {n}"],
                    [f"{n} = P({pick(FLOATS)}, {other}.v)"],
                ]
            )
        if pool[0] == "d":
            return pick(
                [
                    [f'd["k"] = {number}'],
                    [f'd["k"] += {value}'],
                    [f'd["l"] = [{value}, {pick(FLOATS)}]'],
                    [f'd["l"][0] = {value}'],
                    [f'd["l"][1] += {value}'],
                    ['d["k"] = d["l"][0]'],
                ]
            )
        if pool[0] == "g":
            return pick(
                [
                    [f"{n} = {other}"],
                    [f"{n} += 1"],
                    [f"{n} += {other}"],
                    [f"{n} = {other} * 0.5"],
                    [f"{n}, {other} = {other}, {n}"],
                    [f"c = {n}.array"],
                    [f"{n} = {other} + 1"],
                ]
            )
        if pool[0] == "u":
            return pick([["u |= 4"], ["u += 1"], ["u = u & 3"], ["u <<= UInt(1)"], ["u ^= u >> 1"]])
        return pick([["k |= x > 1.5"], ["k = ~k"], ["k &= y < 2"]])

    def body(self, depth: int) -> list[str]:
        lines = []
        for _ in range(self.rng.randint(1, 3)):
            lines += self.simple()
        if depth < 2 and self.rng.random() < 0.3:
            lines += self.block(depth + 1)
            lines += self.simple()
        return lines

    def block(self, depth: int) -> list[str]:
        self.count += 1
        kind, number = self.rng.choice(self.kinds), self.count
        return {"loop": self.loop, "branch": self.branch, "call": self.call, "func": self.func}[
            kind
        ](number, depth)

    def loop(self, number: int, depth: int) -> list[str]:
        i = f"i{number}"
        bound = "2" if self.in_call else self.rng.choice(["UInt(1, 2, 3)", "UInt(2, 0, 1)", "2"])
        step = self.rng.choice([f"{i} += 1", f"{i} = {i} + 1"])
        lines = [f"{i} = UInt(x * 0)" if self.in_call else f"{i} = UInt(0, 0, 0)"]
        inner = self.body(depth)
        inner.insert(self.rng.randint(0, 1) * len(inner), step)
        if self.style == "syntax":
            return [*lines, f"while {i} < {bound}:", *_nested(inner)]
        state = self.names(inner, [i])
        return [
            *lines,
            f"def test{number}({state}):",
            f"    return {i} < {bound}",
            f"def body{number}({state}):",
            *_nested([*inner, f"return ({state},)"]),
            f"{state}, = dr.while_loop(({state},), test{number}, body{number}, mode=mode)",
        ]

    def branch(self, number: int, depth: int) -> list[str]:
        test, yes = self.test(), self.body(depth)
        no = self.body(depth) if self.rng.random() < 0.6 else []
        draw = self.rng.random
        state = self.names([*yes, *no], [])
        names = state.split(", ")
        # Some changes are dropped, as their arrays are no results.
        shown = [n for n in names if draw() < 0.9] or names
        result = ", ".join(shown)
        if self.style == "syntax":
            return [f"if {test}:", *_nested(yes), *(["else:", *_nested(no)] if no else [])]
        kept = []
        if self.style == "model":
            result, kept = f"{state}, kept{number}", [f"kept{number} = ({state},)"]
        return [
            f"def yes{number}({state}):",
            *_nested([*kept, *yes, f"return ({result},)"]),
            f"def no{number}({state}):",
            *_nested([*kept, *no, f"return ({result},)"]),
            f"{result}, = dr.if_stmt(({state},), {test}, yes{number}, no{number}, mode=mode)",
        ]

    def call(self, number: int, depth: int) -> list[str]:
        index = self.rng.choice(["UInt(0, 1, 0)", "UInt(1, 1, 0)"])
        if self.in_call:
            index = "dr.select(x > 1.5, UInt(1), UInt(0))"
        self.in_call += 1
        bodies = [self.body(depth), self.body(depth)]
        self.in_call -= 1
        state = self.names([*bodies[0], *bodies[1]], ["a", "x"])
        lines = []
        for k, inner in enumerate(bodies):
            lines += [f"def f{number}_{k}({state}):", *_nested([*inner, f"return ({state},)"])]
        functions = f"[f{number}_0, f{number}_1]"
        return [*lines, f"{state}, = dr.switch({index}, {functions}, {state})"]

    def func(self, number: int, depth: int) -> list[str]:
        self.in_call += 1
        inner = self.body(depth)
        self.in_call -= 1
        state = self.names(inner, ["a", "x"])
        return [
            "@dr.func",
            f"def f{number}({state}):",
            *_nested([*inner, f"return ({state},)"]),
            f"{state}, = f{number}({state})",
        ]

    def names(self, lines: list[str], more: list[str]) -> str:
        """The variables that lines refer to."""
        found = set(re.findall(r"(?<![.\w\"])([a-z]\d*)\b(?!\")", "\n".join(lines)))
        found &= (set(NAMES) - {"t", "r"}) | {f"i{k}" for k in range(99)}
        own = {m for line in lines for m in re.findall(r"^ *(i\d+) = UInt", line)}
        return ", ".join(sorted((found - own) | set(more)))


def _nested(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _indented(lines: list[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def source(seed: int, style: str, kinds: tuple[str, ...], smooth: bool = False) -> str:
    """A program."""
    return Writer(seed, style, kinds, smooth).program()


# ---- The model


class Cell:
    """An array: an object whose values, one for each lane, may change."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    @property
    def array(self) -> "Cell":
        return self

    def __setitem__(self, mask: "Cell", value: Any) -> None:
        if _entries(value) is not self.value:
            self.value = np.where(mask.value, _entries(value), self.value)


def _entries(value: Any) -> Any:
    return value.value if isinstance(value, Cell) else value


def _all_lanes(value: Any) -> Any:
    """The entries of all lanes: the very array that a cell has, if it has all."""
    entries = np.asarray(_entries(value))
    return entries if entries.size == LANES else np.array(np.broadcast_to(entries, LANES))


class Tensor:
    """A tensor: an object that holds an array."""

    def __init__(self, array: Any, shape: Any = None) -> None:
        self.array = Cell(array.array.value)


class Vector:
    """A nested array: it consists of two arrays, which it keeps when it changes in place."""

    def __init__(self, *values: Any) -> None:
        parts = values if len(values) == 2 else _two(values[0])
        self.c = [Cell(_all_lanes(v)) for v in parts]

    def _get(self, k: int) -> Cell:
        return self.c[k]

    def _set(self, k: int, value: Any) -> None:
        self.c[k].value = _all_lanes(value)

    x = property(lambda self: self._get(0), lambda self, v: self._set(0, v))
    y = property(lambda self: self._get(1), lambda self, v: self._set(1, v))
    xy = property(lambda self: Vector(self))
    yx = property(lambda self: None, lambda self, v: (self._set(1, v.c[0]), self._set(0, v.c[1])))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, int):
            self._set(key, value)
            return
        for mine, other in zip(self.c, _two(value), strict=True):
            mine[key] = Cell(_entries(other))


def _two(value: Any) -> list[Any]:
    return list(value.c) if isinstance(value, Vector) else [value, value]


def _operator(name: str, f: Any) -> None:
    def lift(change: bool, swapped: bool = False) -> Any:
        def apply(self: Any, other: Any = 0) -> Any:
            if isinstance(self, Vector):
                values = [f(a.value, _entries(b)) for a, b in zip(self.c, _two(other), strict=True)]
                target = self if change else Vector(0, 0)
                for cell, value in zip(target.c, values, strict=True):
                    cell.value = value
                return target
            if isinstance(other, Vector):
                return Vector(self, self)._by(name, other)
            mine, theirs = self.array.value, _entries(getattr(other, "array", other))
            value = f(theirs, mine) if swapped else f(mine, theirs)
            if not change:
                return Tensor(Cell(value), True) if isinstance(self, Tensor) else Cell(value)
            kind = np.result_type(self.array.value, value) if value.dtype == complex else mine.dtype
            self.array.value = value.astype(kind)
            return self

        return apply

    for cls in (Cell, Vector, Tensor):
        setattr(cls, f"__{name}__", lift(False))
        setattr(cls, f"__r{name}__", lift(False, True))
        setattr(cls, f"__i{name}__", lift(True))


def _by(self: Vector, name: str, other: Vector) -> Any:
    return getattr(self, f"__{name}__")(other)


Vector._by = _by  # type: ignore[attr-defined]

for _name, _f in {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
    "gt": lambda a, b: np.real(a) > np.real(b),
    "lt": lambda a, b: np.real(a) < np.real(b),
}.items():
    _operator(_name, _f)
Cell.__neg__ = lambda self: Cell(-self.value)  # type: ignore[attr-defined]
Cell.__invert__ = lambda self: Cell(~self.value)  # type: ignore[attr-defined]


@dataclass
class Pair:
    """An object with attributes."""

    a: Any
    v: Any


class Unspecified(Exception):
    """The program has no result that is specified: a loop that no lane enters."""


def _children(value: Any) -> list[Any] | None:
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, Vector):
        return list(value.c)
    if isinstance(value, Tensor):
        return [value.array]
    return [value.a, value.v] if isinstance(value, Pair) else None


def _made(like: Any, children: list[Any]) -> Any:
    """A new container of the same kind."""
    if isinstance(like, dict):
        return dict(zip(like, children, strict=True))
    made = like.__class__.__new__(like.__class__, *([children] if type(like) is tuple else []))
    if type(like) is not tuple:
        _set_children(made, children)
    return made


def _set_children(container: Any, children: list[Any]) -> None:
    if isinstance(container, list):
        container[:] = children
    elif isinstance(container, dict):
        container.update(zip(list(container), children, strict=True))
    elif isinstance(container, Vector):
        container.c = list(children)
    elif isinstance(container, Tensor):
        (container.array,) = children
    elif isinstance(container, Pair):
        container.a, container.v = children


def _objects(value: Any) -> list[Any]:
    """The objects of a tree, containers before what they hold."""
    found = [value]
    for v in _children(value) or ():
        found += _objects(v)
    return found


def _height(value: Any) -> int:
    return 1 + max(map(_height, _children(value) or ()), default=0)


class Frozen:
    """What a tree is at a moment: its objects, what they consist of, and their values."""

    def __init__(self, value: Any) -> None:
        self.original = value
        self.value = value.value if isinstance(value, Cell) else None
        self.children = [Frozen(v) for v in _children(value) or ()]

    def put_back(self) -> None:
        if self.children:
            _set_children(self.original, [v.original for v in self.children])
            for v in self.children:
                v.put_back()
        elif isinstance(self.original, Cell):
            self.original.value = self.value


def _merged(first: Frozen, second: Frozen, mask: Any) -> Any:
    """A tree that is the first one in the lanes of the mask, else the second one: the objects where
    both have the same, new ones elsewhere."""
    like, same = first.original, first.original is second.original
    if isinstance(like, Cell):
        if same and first.value is second.value:
            like.value = first.value
            return like
        made = like if same else Cell(0)
        made.value = np.where(mask, first.value, second.value)
        return made
    pairs = zip(first.children, second.children, strict=True)
    children = [_merged(a, b, mask) for a, b in pairs]
    if not same or type(like) is tuple:
        return _made(like, children)
    _set_children(like, children)
    return like


class Copies:
    """A copy of the state of a loop, in which every place has an object of its own; `apart` says
    whether it also has an array of its own, so that to give a place the array of another one is a
    change, even if both had the same one before the loop."""

    def __init__(self, state: tuple, apart: bool) -> None:
        self.apart = apart
        self.originals: dict[int, Any] = {}
        self.start: dict[Any, Any] = {}
        self.given: dict[int, Any] = {}
        self.before: dict[int, Any] = {}
        self.state = self._copy(state)

    def _copy(self, value: Any) -> Any:
        if isinstance(value, Cell):
            made = Cell(np.array(value.value) if self.apart else value.value)
            self.start[id(made)], self.given[id(made)] = made.value, value.value
        else:
            made = _made(value, [self._copy(v) for v in _children(value) or ()])
            self.given[id(made)], self.before[id(made)] = _children(made), _children(value)
        self.originals[id(made)] = value
        self.start[id(made), 1] = made  # alive
        return made

    def _unchanged(self, value: Any) -> bool:
        return all(
            self.start.get(id(v)) is v.value
            if isinstance(v, Cell)
            else all(a is b for a, b in zip(_children(v), self.given.get(id(v), ()), strict=False))
            for v in _objects(value)
        )

    def returned(self, value: Any) -> Any:
        """The original of a copy, with the final values; what is no copy is what it is."""
        original = self.originals.get(id(value), value)
        if original is value and isinstance(value, Cell):
            return value
        if isinstance(value, (Cell, Vector, Tensor)) and original is not value:
            if self._unchanged(value):
                cells = [c for c in _objects(original) if isinstance(c, Cell)]
                others = [c for c in _objects(value) if isinstance(c, Cell)]
                pairs = zip(cells, others, strict=True)
                same = all(a.value is self.given[id(b)] for a, b in pairs)
                return original if same else value
            if isinstance(value, Cell):
                original.value = value.value
                return original
        children = [self.returned(v) for v in _children(value) or ()]
        if isinstance(value, tuple):
            return tuple(children)
        if original is value or not self._unchanged(value):
            _set_children(original, children)
        elif any(v is not old for v, old in zip(children, self.before[id(value)], strict=True)):
            return _made(value, children)  # somebody else has given the original another value
        return original


class Model:
    """The functions of the library that programs use, by the rules about the identity of
    objects. Symbolic loops compute with variables of their own."""

    def __init__(self, symbolic: bool) -> None:
        self.symbolic = symbolic
        self.masks = [np.ones(LANES, bool)]

    sin = staticmethod(lambda a: Cell(np.sin(a.value)))
    syntax = staticmethod(lambda recursive: lambda f: f)

    @staticmethod
    def select(mask: Cell, a: Cell, b: Cell) -> Cell:
        return Cell(np.where(mask.value, _entries(a), _entries(b)))

    @staticmethod
    def gather(_: Any, source: Cell, index: Cell) -> Cell:
        return Cell(source.value[index.value])

    def scatter_add(self, target: Cell, value: Any, index: Cell, mask: Any = True) -> None:
        lanes = self.masks[-1] & _entries(mask)
        target.value = target.value.astype(np.result_type(target.value, _entries(value)))
        np.add.at(target.value, index.value[lanes], np.broadcast_to(_entries(value), LANES)[lanes])

    def while_loop(self, state: tuple, test: Any, body: Any, mode: Any = None) -> tuple:
        """Every place of the state has an object of its own. The original of one gets the final
        value if the body gives that object at its place."""
        copies = Copies(state, self.symbolic)
        now = copies.state
        active = self.masks[-1] & test(*now).value
        if not active.any():
            raise Unspecified
        while active.any():
            before = Frozen(now)
            self.masks.append(active)
            now = _merged(Frozen(body(*now)), before, active)
            self.masks.pop()
            active = active & test(*now).value
        return tuple([copies.returned(v) for v in now])

    def if_stmt(self, args: tuple, mask: Cell, yes: Any, no: Any, mode: Any = None) -> Any:
        """The functions see the objects themselves. What they return stays one object if it is the
        same one in both. What a function changes in place and returns is changed in its lanes; what
        it does not return is as before."""
        found = {id(v): v for v in _objects(args)[1:]}.values()
        arguments = sorted(found, key=lambda v: -_height(v))  # what consists of others comes first
        before = [Frozen(v) for v in arguments]
        yes_lanes, outcomes = mask.value, []
        for f, lanes in ((yes, yes_lanes), (no, ~yes_lanes)):
            self.masks.append(self.masks[-1] & lanes)
            result = f(*args)
            self.masks.pop()
            returned = {id(v) for v in _objects(result)}
            left = [Frozen(v.original) if id(v.original) in returned else v for v in before]
            outcomes.append((Frozen(result), left))
            for v in before:
                v.put_back()
        (first, of_first), (second, of_second) = outcomes
        for a, b in zip(of_first, of_second, strict=True):
            _merged(a, b, yes_lanes)
        return _merged(first, second, yes_lanes)

    def switch(self, index: Cell, functions: list, *args: Any) -> Any:
        """Functions get copies of the arguments, and give copies."""
        results = []
        for k, f in enumerate(functions):
            self.masks.append(self.masks[-1] & (index.value == k))
            results.append(_copied(f(*[_copied(v) for v in args])))
            self.masks.pop()
        for k, other in enumerate(results[1:], 1):
            for a, b in zip(_objects(results[0]), _objects(other), strict=True):
                if isinstance(a, Cell):
                    a.value = np.where(index.value == k, b.value, a.value)
        return results[0]

    def func(self, f: Any) -> Any:
        return lambda *args: self.switch(Cell([0] * LANES), [f], *args)


def _copied(value: Any) -> Any:
    """A copy of a tree, where every place has an object of its own."""
    if isinstance(value, Cell):
        return Cell(value.value)
    return _made(value, [_copied(v) for v in _children(value) or ()])


def flat(value: Any) -> list[Any]:
    """The arrays that a result of a program consists of, each for all lanes."""
    return [c.value for c in _objects(value) if isinstance(c, Cell)]


def expected(text: str, x: Any, y: Any, t: Any, symbolic: bool) -> list[Any]:
    """What the arrays are that a program returns.

    Raises:
        Unspecified: the rules do not say.
    """
    model = Model(symbolic)

    def lanes(dtype: Any) -> Any:
        def made(*v: Any) -> Cell:
            value = np.asarray(_entries(v[0]) if len(v) == 1 else v)
            kind = dtype
            if value.dtype == complex:  # for derivatives
                value, kind = (value, complex) if dtype is float else (value.real, dtype)
            return Cell(np.array(np.broadcast_to(value, max(LANES, len(v))), kind))

        return made

    def copied(*v: Any) -> Cell:
        if len(v) == 1 and isinstance(v[0], Cell):
            return Cell(v[0].value)
        return lanes(float)(*v)

    names = {"dr": model, "P": Pair, "Array2f": Vector, "TensorXf": Tensor, "Float": copied}
    names |= {"UInt": lanes(np.uint32), "Bool": lanes(bool), "mode": None}
    exec(text, names)
    return flat(names["program"](Cell(x), Cell(y), Cell(t)))

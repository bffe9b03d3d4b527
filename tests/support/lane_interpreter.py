"""The definition of what loops, branches and calls compute and differentiate: every active lane
executes a statement once, by itself, on numbers. A value of size 1 has one gradient for all lanes,
to which each of them adds.

A program is a tree of the tuples below. `Lanes` executes it lane by lane on Python's floats, each
of which knows what it was computed from; `traced` executes it with Dr.Jit. Both return the final
values of the variables, what was written to memory, and the gradients of the leaves.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import drjit as dr
from drjit import nn

# Expressions are nested tuples: ("leaf", name), ("name", name), ("const", number), ("add", a, b),
# ("sub", a, b), ("mul", a, b), ("where", condition, a, b), ("gather", index), ("net", layers,
# feature, a, b), ("fixed", a), which has no derivative, and the integer "lane" as a float.
# Conditions: ("below", number) of the lane, ("positive", a), ("flag", value) of size 1, and
# ("both", a, b). Indices: ("at", number), ("lane", step).


class Assign(NamedTuple):
    name: str
    value: tuple


class Backward(NamedTuple):
    """Propagates a gradient, 1 or that given, from a value to the leaves."""

    value: tuple
    seed: tuple | None = None


class Accumulate(NamedTuple):
    """Adds to the gradient of a leaf."""

    leaf: str
    value: tuple


class Inner(NamedTuple):
    """Assigns the derivative of `function`, an expression in the name "z", with respect to that,
    found by a traversal in the given direction."""

    name: str
    value: tuple
    function: tuple
    forward: bool


class Scatter(NamedTuple):
    """Adds to an entry of the memory."""

    value: tuple
    index: tuple


class Own(NamedTuple):
    """Adds to an entry of new memory, and propagates the gradient of that."""

    value: tuple
    index: tuple
    size: int


class If(NamedTuple):
    condition: tuple
    first: tuple
    second: tuple
    passes: bool  # leaves are arguments rather than captured


class While(NamedTuple):
    """Runs the body once in the first lane, twice in the second, up to a number of times."""

    times: int
    body: tuple
    passes: bool


class Switch(NamedTuple):
    index: tuple
    bodies: tuple


class Program(NamedTuple):
    lanes: int
    body: tuple
    start: dict[str, float | tuple[float, ...]]  # of variables: one number, or one for each lane


LEAVES = {"s": 1.5, "r": -0.5, "v": (0.5, -1.0, 2.0, 1.0)}
TABLE = (1.0, -2.0, 0.5)
MATRIX, BIAS = ((1.0, 0.5), (-0.5, 1.0)), (0.25, -0.5)
MEMORY = 4
_BLOCKS = {"first", "second", "body"}


def assigned(body: tuple) -> Iterator[str]:
    """Yields the names that statements assign."""
    for s in body:
        if isinstance(s, (Assign, Inner)):
            yield s.name
        elif isinstance(s, If):
            yield from assigned(s.first + s.second)
        elif isinstance(s, While):
            yield from assigned(s.body)
        elif isinstance(s, Switch):
            yield from assigned(sum(s.bodies, ()))


# ---- Lane by lane


class Number:
    """A float, and its partial derivatives with respect to other numbers."""

    def __init__(self, value: float, *parts: tuple["Number", float]) -> None:
        self.value, self.parts, self.grad = value, parts, 0.0

    def pull(self, g: float) -> None:
        """Adds a gradient to those of all numbers that this one was computed from."""
        self.grad += g
        for number, factor in self.parts:
            number.pull(g * factor)

    def push(self, source: "Number") -> float:
        """Returns the derivative with respect to a number."""
        return float(self is source) + sum(f * n.push(source) for n, f in self.parts)


class Lanes:
    """The interpreter: leaves, memory and results of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.leaves: dict[str, list[Number]] = {}
        for name, v in LEAVES.items():
            values = v[: program.lanes] if isinstance(v, tuple) else [v]
            self.leaves[name] = [*map(Number, values)]
        self.table = [*map(Number, TABLE)]
        self.matrix = [[*map(Number, row)] for row in MATRIX]
        self.bias = [*map(Number, BIAS)]
        self.memory: list[list[Number]] = [[] for _ in range(MEMORY)]
        self.finals: list[dict[str, Number]] = []
        for lane in range(program.lanes):
            names = {}
            for name, v in program.start.items():
                names[name] = Number(v[lane] if isinstance(v, tuple) else v)
            self.run(program.body, lane, names)
            self.finals.append(names)

    def run(self, body: tuple, lane: int, names: dict[str, Number]) -> None:
        for s in body:
            if isinstance(s, Assign):
                names[s.name] = self.value(s.value, lane, names)
            elif isinstance(s, Backward):
                seed = 1.0 if s.seed is None else self.value(s.seed, lane, names).value
                self.value(s.value, lane, names).pull(seed)
            elif isinstance(s, Accumulate):
                leaf = self.leaves[s.leaf]
                leaf[lane if len(leaf) > 1 else 0].grad += self.value(s.value, lane, names).value
            elif isinstance(s, Inner):
                z = Number(self.value(s.value, lane, names).value)
                y = self.value(s.function, lane, names | {"z": z})
                if s.forward:
                    names[s.name] = Number(y.push(z))
                else:
                    y.pull(1.0)
                    names[s.name] = Number(z.grad)
            elif isinstance(s, Scatter):
                place = self.index(s.index, lane, MEMORY)
                self.memory[place].append(self.value(s.value, lane, names))
            elif isinstance(s, Own):
                self.value(s.value, lane, names).pull(1.0)
            elif isinstance(s, If):
                chosen = s.first if self.holds(s.condition, lane, names) else s.second
                self.inside(chosen, lane, names)
            elif isinstance(s, While):
                for _ in range(min(lane + 1, s.times)):
                    self.inside(s.body, lane, names)
            else:
                self.inside(s.bodies[self.index(s.index, lane, len(s.bodies))], lane, names)

    def inside(self, body: tuple, lane: int, names: dict[str, Number]) -> None:
        """Executes a body, after which only the names that were there before remain."""
        inner = dict(names)
        self.run(body, lane, inner)
        names.update({name: inner[name] for name in names})

    def index(self, index: tuple, lane: int, size: int) -> int:
        kind, step = index
        return (lane * step if kind == "lane" else step) % size

    def holds(self, condition: tuple, lane: int, names: dict[str, Number]) -> bool:
        kind, *parts = condition
        if kind == "below":
            return lane < parts[0]
        if kind == "both":
            return all(self.holds(c, lane, names) for c in parts)
        return parts[0] if kind == "flag" else self.value(parts[0], lane, names).value > 0

    def value(self, e: tuple, lane: int, names: dict[str, Number]) -> Number:
        kind, *parts = e
        if kind == "leaf":
            leaf = self.leaves[parts[0]]
            return leaf[lane if len(leaf) > 1 else 0]
        if kind == "name":
            return names[parts[0]]
        if kind == "const":
            return Number(parts[0])
        if kind == "lane":
            return Number(float(lane))
        if kind == "gather":
            return self.table[self.index(parts[0], lane, len(TABLE))]
        if kind == "where":
            return self.value(parts[2 - self.holds(parts[0], lane, names)], lane, names)
        if kind == "net":
            layers, feature, *parts = parts
            x = [self.value(p, lane, names) for p in parts]
            for _ in range(layers):
                x = [self.product(row, x, b) for row, b in zip(self.matrix, self.bias, strict=True)]
            return x[feature]
        a, *rest = [self.value(p, lane, names) for p in parts]
        if kind == "fixed":
            return Number(a.value)
        (b,) = rest
        if kind == "mul":
            return Number(a.value * b.value, (a, b.value), (b, a.value))
        sign = 1.0 if kind == "add" else -1.0
        return Number(a.value + sign * b.value, (a, 1.0), (b, sign))

    @staticmethod
    def product(row: list[Number], x: list[Number], b: Number) -> Number:
        """Returns an entry of the product of the matrix and a vector, plus the bias."""
        value, parts = b.value, [(b, 1.0)]
        for a, n in zip(row, x, strict=True):
            value += a.value * n.value
            parts += [(a, n.value), (n, a.value)]
        return Number(value, *parts)

    def results(self) -> dict[str, list[float]]:
        """Propagates gradients of everything that the program has computed, entry `k` with the
        factor `k + 1`, and returns values and gradients."""
        found: dict[str, list[float]] = {}
        for name in self.program.start:
            found[name] = [names[name].value for names in self.finals]
            for k, names in enumerate(self.finals):
                names[name].pull(k + 1.0)
        found["memory"] = [sum(n.value for n in entry) for entry in self.memory]
        for k, entry in enumerate(self.memory):
            for n in entry:
                n.pull(k + 1.0)
        for name, leaf in self.leaves.items():
            found[f"gradient of {name}"] = [n.grad for n in leaf]
        found["gradient of table"] = [n.grad for n in self.table]
        weights = [*self.matrix[0], *self.matrix[1], *self.bias]
        found["gradient of weights"] = [n.grad for n in weights]
        return found


# ---- Traced


class Traced:
    """Executes a program with Dr.Jit, on the types of a namespace."""

    def __init__(self, program: Program, types: Any, mode: str, half: bool, **options: Any) -> None:
        F, self.types, self.mode, self.options = types.Float, types, mode, options
        self.program = program
        self.leaves = {
            name: F(v[: program.lanes]) if isinstance(v, tuple) else dr.opaque(F, v)
            for name, v in LEAVES.items()
        }
        self.table = F(TABLE)
        self.feature = types.Float16 if half else F
        tensor = types.TensorXf16 if half else types.TensorXf
        self.A, self.b = nn.pack(tensor([*map(list, MATRIX)]), tensor(BIAS), layout="training")
        dr.enable_grad(self.leaves, self.table, self.A.buffer)
        self.memory = dr.zeros(F, MEMORY)
        self.depth = 0  # of the bodies being executed
        self.names: dict[str, Any] = {}
        for name, v in program.start.items():
            self.names[name] = F(v[: program.lanes]) if isinstance(v, tuple) else F(v)
        self.lane = dr.arange(types.UInt32, program.lanes)
        dr.eval(self.lane, self.leaves)

    def results(self) -> dict[str, list[float]]:
        """As `Lanes.results`."""
        F, count, names = self.types.Float, self.program.lanes, dict(self.names)
        names |= {"lane": self.lane} | {f"leaf {k}": v for k, v in self.leaves.items()}
        self.run(self.program.body, names)
        found = {}
        for name in self.program.start:
            value = names[name] + dr.zeros(F, count)
            found[name] = [*map(float, value)]
            dr.backward(
                value * (dr.arange(F, count) + 1), dr.ADFlag.ClearVertices | dr.ADFlag.AllowNoGrad
            )
        found["memory"] = [*map(float, self.memory)]
        dr.backward(
            self.memory * (dr.arange(F, MEMORY) + 1), dr.ADFlag.Default | dr.ADFlag.AllowNoGrad
        )
        for name, leaf in self.leaves.items():
            found[f"gradient of {name}"] = [*map(float, leaf.grad)]
        found["gradient of table"] = [*map(float, self.table.grad)]
        found["gradient of weights"] = [*map(float, self.A.buffer.grad)]
        return found

    def run(self, body: tuple, names: dict[str, Any]) -> None:
        F = self.types.Float
        for s in body:
            # What was computed from names is propagated again later.
            fresh = not isinstance(s, (Backward, Own)) or "name" not in repr(s.value)
            flags = dr.ADFlag.Default if fresh else dr.ADFlag.ClearVertices
            flags |= dr.ADFlag.AllowNoGrad
            if isinstance(s, Assign):
                names[s.name] = self.value(s.value, names)
            elif isinstance(s, Backward):
                y = self.value(s.value, names)
                if s.seed is None:
                    dr.backward(y, flags)
                else:
                    dr.set_grad(y, dr.detach(self.value(s.seed, names)))
                    dr.enqueue(dr.ADMode.Backward, y)
                    dr.traverse(dr.ADMode.Backward, flags)
            elif isinstance(s, Accumulate):
                dr.accum_grad(names[f"leaf {s.leaf}"], dr.detach(self.value(s.value, names)))
            elif isinstance(s, Inner):
                z = dr.detach(self.value(s.value, names))
                dr.enable_grad(z)
                y = self.value(s.function, names | {"z": z})
                if s.forward:
                    dr.forward(z, flags)
                    names[s.name] = dr.detach(dr.grad(y))
                else:
                    dr.backward(y, flags)
                    names[s.name] = dr.detach(dr.grad(z))
            elif isinstance(s, Scatter):
                dr.scatter_add(
                    self.memory, self.value(s.value, names), self.index(s.index, names, MEMORY)
                )
            elif isinstance(s, Own):
                memory = dr.zeros(F, s.size)
                dr.scatter_add(
                    memory, self.value(s.value, names), self.index(s.index, names, s.size)
                )
                dr.backward(memory, flags)
            elif isinstance(s, If):
                condition = self.condition(s.condition, names)
                if not self.depth and len(condition) == 1:  # for each of the lanes
                    condition = dr.opaque(self.types.Bool, condition[0], self.program.lanes)
                passed, changed = self.passed(s.first + s.second, names, s.passes)
                first, second = (
                    self.function(b, names, passed, changed) for b in (s.first, s.second)
                )
                args = tuple([names[n] for n in passed])
                found = dr.if_stmt(args, condition, first, second, mode=self.mode)
                names.update(zip(changed, found, strict=False))
            elif isinstance(s, While):
                self.loop(s, names)
            else:
                self.switch(s, names)

    def inside(self, body: tuple, names: dict[str, Any]) -> None:
        """Executes the body of a loop, branch or call."""
        self.depth += 1
        self.run(body, names)
        self.depth -= 1

    def passed(self, body: tuple, names: dict[str, Any], leaves: bool) -> tuple[list, list]:
        """Returns the names of what a body is given, and of what it changes."""
        changed = sorted({*assigned(body)} & names.keys())
        others = [n for n in names if n.startswith(("leaf", "lane"))] if leaves else []
        return changed + others, changed

    def function(self, body: tuple, names: dict[str, Any], passed: list, changed: list) -> Any:
        def run(*args: Any) -> tuple:
            inner = names | dict(zip(passed, args, strict=True))
            self.inside(body, inner)
            return *[inner[n] for n in changed], self.types.UInt32(0)

        return run

    def loop(self, s: While, names: dict[str, Any]) -> None:
        passed, changed = self.passed(s.body, names, s.passes or self.options.get("compress"))
        rest = passed[len(changed) :]
        if self.options.get("compress"):
            passed = changed + [n for n in names if n not in changed]
            rest = passed[len(changed) :]

        def body(i: Any, end: Any, *args: Any) -> tuple:
            inner = names | dict(zip(passed, args, strict=True))
            self.inside(s.body, inner)
            return i + 1, end, *[inner[n] for n in changed], *args[len(changed) :]

        U = self.types.UInt32
        state = U(0), dr.minimum(names["lane"] + 1, s.times), *[names[n] for n in passed]
        options = self.options if self.mode == "evaluated" else {}
        _, _, *found = dr.while_loop(
            state, lambda i, end, *_: i < end, body, mode=self.mode, **options
        )
        names.update(zip(changed + rest, found, strict=True))

    def switch(self, s: Switch, names: dict[str, Any]) -> None:
        # A call in evaluated mode is given the entries of its lanes, of arguments only.
        passed, changed = [*names], sorted({*assigned(sum(s.bodies, ()))} & names.keys())
        targets = [self.function(b, names, passed, changed) for b in s.bodies]
        index = self.index(s.index, names, len(targets))
        found = dr.switch(index, targets, *[names[n] for n in passed], mode=self.mode)
        names.update(zip(changed, found, strict=False))

    def index(self, index: tuple, names: dict[str, Any], size: int) -> Any:
        kind, step = index
        return names["lane"] * step % size if kind == "lane" else self.types.UInt32(step % size)

    def condition(self, condition: tuple, names: dict[str, Any]) -> Any:
        kind, *parts = condition
        if kind == "below":
            return names["lane"] < parts[0]
        if kind == "both":
            first, second = (self.condition(c, names) for c in parts)
            return first & second
        if kind == "flag":
            return dr.opaque(self.types.Bool, parts[0])
        # The body of a condition that is a constant is executed once, whatever its size.
        zero = dr.opaque(self.types.Float, 0)
        return dr.detach(self.value(parts[0], names)) + zero > 0

    def value(self, e: tuple, names: dict[str, Any]) -> Any:
        kind, *parts = e
        F = self.types.Float
        if kind == "leaf":
            return names[f"leaf {parts[0]}"]
        if kind == "name":
            return names[parts[0]]
        if kind == "const":
            return F(parts[0])
        if kind == "lane":
            return F(names["lane"])
        if kind == "gather":
            return dr.gather(F, self.table, self.index(parts[0], names, len(TABLE)))
        if kind == "where":
            values = [self.value(p, names) for p in parts[1:]]
            return dr.select(self.condition(parts[0], names), *values)
        if kind == "net":
            layers, feature, *parts = parts
            x = nn.CoopVec(*[self.feature(self.value(p, names)) for p in parts])
            for _ in range(layers):
                x = nn.matvec(self.A, x, self.b)
            return F([*x][feature])
        a, *rest = [self.value(p, names) for p in parts]
        if kind == "fixed":
            return dr.detach(a)
        (b,) = rest
        return a * b if kind == "mul" else a + b if kind == "add" else a - b

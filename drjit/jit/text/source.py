"""Renders a program as kernel text: one statement per operation, with stable names: `x` for inputs,
`c` for literals, `v` for values.
"""

from collections.abc import Callable, Iterable, Sequence

from ..ir import op
from . import bodies
from .program import Branch, Case, Instr, Loop, Program, SharedFunction, effect_words, operands


def _call(name: str, args: list[str]) -> str:
    return f"{name}({', '.join(args)})"


def _elementwise_call(i: Instr, a: list[str]) -> str:
    # A constant that the code depends on (a shift count, a divisor) is part of the text.
    if i.data is not None:
        a = [*a, str(i.data)]
    return f"{i.op.text}({', '.join(a)})"


def _load(i: Instr, a: list[str]) -> str:
    how, code = "broadcast" if i.data else "load", i.dtype.code
    if i.dtype.is_vector:
        how, code = f"{how}_vector", f"{i.dtype.element.code}, {i.dtype.count}"
    return f"{how}({code}, p[{i.param}])" if i.data else f"{how}({code}, p[{i.param}], i)"


def _in_bounds(i: Instr, a: list[str]) -> str:
    return f"in_bounds(p[0], {i.data}, {a[0]}, p[{i.param}], {a[1]})"


def _scatter(i: Instr, a: list[str]) -> str:
    _, reduce, mode = i.data
    words = [f"p[{i.param + k}]" for k in range(effect_words(mode))]
    if i.op in (op.scatter_packet, op.scatter_reduce_packet):
        a = [*a[-2:], *a[:-2]]
    if i.op is op.scatter_reduce and mode == "expand":
        return _call("scatter_reduce_expand", [i.dtype.code, repr(reduce), *words, *a])
    how = {op.scatter_reduce: [repr(reduce), repr(mode)], op.scatter_reduce_packet: [repr(reduce)]}
    return _call(i.op.name, [i.dtype.code, *how.get(i.op, ()), *words, *a])


def _vector(i: Instr, a: list[str]) -> str:
    code, count = i.dtype.element.code, i.dtype.count
    if i.data:  # some features are equal
        a = [a[k] for k in i.data]
    if len(a) < count:
        return f"splat({code}, {count}, {a[0]})"
    return _call("vector", [code, *a])


def _put(i: Instr, a: list[str]) -> str:
    if i.data is not None:  # the same feature in all lanes
        a = [a[0], str(i.data), *a[1:]]
    return _call("put", a)


def _matvec(i: Instr, a: list[str]) -> str:
    buffer, first, x, *bias = a
    shape = [str(n) for n in i.data]
    return _call("matvec", [i.dtype.element.code, buffer, first, *shape, x, *bias])


def _sum_of_vectors(i: Instr, a: list[str]) -> str:
    target = [f"p[{i.param + k}]" for k in range(effect_words("expand"))]
    shape = [str(n) for n in i.data[3:]] if i.op is op.outer else []
    return _call(i.op.name, [i.dtype.code, *target, a[0], *shape, *a[1:]])


_SCATTERS = (
    "scatter", "scatter_packet", "scatter_reduce", "scatter_reduce_packet", "scatter_inc",
    "scatter_exch", "scatter_cas",
)  # fmt: skip
RENDER: dict[str, Callable[[Instr, list[str]], str]] = {
    "prefix": lambda i, a: f"{i.op.text}{a[0]}",
    "infix": lambda i, a: f"{a[0]} {i.op.text} {a[1]}",
    "call": _elementwise_call,
    "cast": lambda i, a: f"{i.dtype.element.code}({a[0]})",
    "bitcast": lambda i, a: f"bitcast({i.dtype.code}, {a[0]})",
    "literal": lambda i, a: f"literal({i.dtype.element.code}, p[{i.param}])",
    "buffer": _load,
    "lane": lambda i, a: "lane(i)",
    "active": lambda i, a: "active(i)",
    "in_bounds": _in_bounds,
    "gather": lambda i, a: _call("gather", [i.dtype.code, *a]),
    "packet": lambda i, a: _call("gather_packet", [i.dtype.code, *a, str(i.data)]),
    "weighted": lambda i, a: _call("gather_weighted", [i.dtype.code, *a[:2], str(i.data), *a[2:]]),
    **dict.fromkeys(_SCATTERS, _scatter),
    "foreign": lambda i, a: _call(i.data.name, a),
    "vector": _vector,
    "feature": lambda i, a: f"feature({a[0]}, {i.data})",
    "total": lambda i, a: f"total({a[0]})",
    "take": lambda i, a: _call("take", a),
    "put": _put,
    "matvec": _matvec,
    "outer": _sum_of_vectors,
    "accumulate": _sum_of_vectors,
}


Scopes = dict[str, dict[str, str]]
"""For each function of a text, which of its names the program has others for."""


def render(program: Program) -> str:
    """Returns the kernel text of a program. Statements have the labels as comments, which may
    change what is a statement of its own."""
    return rendered(program)[0]


def rendered(
    program: Program, notes: Sequence[str] = (), everywhere: bool = False
) -> tuple[str, Scopes]:
    """Returns the kernel text of a program, whose statements have the `notes` on their
    instructions, or else the labels, as comments, and with `everywhere` also the lines of stores,
    loops and branches; and which names the notes have for values."""
    writer = _SourceWriter(program, notes, everywhere)
    writer.statements(program.body, 1)
    names, lines = writer.names, writer.lines
    for o in program.outputs:
        value, code = names[o.value], o.dtype.code
        if o.kind == "store" and o.dtype.is_vector:
            if writer.is_uniform(o.value):
                value, whole = writer.fresh(), writer.whole(o.value)
                lines.append(f"    {value} = {whole}")
            code = f"{o.dtype.element.code}, {o.dtype.count}"
            text = f"store_vector({code}, p[{o.param}], i, {value})"
        elif o.kind == "store":
            how = "stream" if program.streams else "store"
            text = f"{how}({code}, p[{o.param}], i, {value})"
        elif o.kind == "reduce":
            words = f"p[{o.param}], p[{o.param + 1}]"
            reduction = program.instrs[o.value].data
            text = f"reduce({code}, {reduction!r}, {words}, i, {value})"
        else:
            continue
        lines.append(f"    {text}{writer.comment(o.value) if writer.has_notes else ''}")
    text = "\n".join(["def kernel(i, p):", *lines, *writer.functions.values()]) + "\n"
    return text, {"kernel": writer.scope(writer.named), **writer.scopes}


class _SourceWriter:
    """The lines of a kernel text so far, and the names of instruction values."""

    def __init__(
        self, program: Program, notes: Sequence[str] = (), everywhere: bool = False
    ) -> None:
        self.program, self.instrs = program, program.instrs
        self.has_notes = everywhere  # also on lines that compute no value
        self.notes = notes or [i.label for i in program.instrs]
        # What the program calls values, and that by function.
        self.named = {k: name for k, n in enumerate(self.notes) if (name := getattr(n, "name", ""))}
        self.scopes: Scopes = {}
        self.names: list[str] = [""] * len(program.instrs)
        self.lines: list[str] = []
        self.has_vectors = any(t.is_vector for t in {i.dtype for i in program.instrs})
        self.read_values = _read_values(program)
        self.values = 0
        self.updated = _updated(program) if self.has_vectors else {}
        self.renamed: set[int] = set()
        self.repeated = bodies.repeated(program)
        self.functions: dict[str, str] = {}  # keyed by the text after the name
        # Functions shared by calls: the name, the required values, and the returned ones.
        self.written: dict[SharedFunction, tuple[str, bodies.Used, list[int]]] = {}
        self.lanes = -1  # the mask of the lanes that execute the current code
        self.states = {s for i in program.instrs if type(i.data) is Loop for s in i.data.states}
        # The first bounds check of the current function, passed by its calls.
        self.check: Instr | None = None

    def comment(self, number: int) -> str:
        """Returns the comment on the statement of an instruction."""
        note = self.notes[number]
        return f"  # {note}" if note else ""

    def scope(self, numbers: Iterable[int]) -> dict[str, str]:
        """Returns what the program calls the names of some instructions in the current function."""
        found: dict[str, str] = {}
        for k in numbers:
            if k in self.named and self.names[k]:
                found.setdefault(self.names[k], self.named[k])
        return found

    def mark(self, begin: int, number: int) -> None:
        """Adds the note on a loop or branch to its own lines, which come from `begin` on."""
        lines = self.lines
        for k in range(begin, len(lines) if self.has_notes else begin):
            if "  # " not in lines[k]:
                lines[k] += self.comment(number)

    def fresh(self) -> str:
        """Returns a new name for a value."""
        self.values += 1
        return f"v{self.values - 1}"

    def statements(self, numbers: Sequence[int], depth: int) -> None:
        """Writes instructions at an indentation depth."""
        names, lines, instrs = self.names, self.lines, self.instrs
        indent = "    " * depth
        pairs = _sines_and_cosines(self.program, numbers)
        done: set[int] = set()
        for number in numbers:
            i = instrs[number]
            if number in pairs:
                other = pairs[number]
                done.add(other)
                both = names[number], names[other] = self.fresh(), self.fresh()
                sine, cosine = both if i.op is op.sin else both[::-1]
                text = f"{indent}{sine}, {cosine} = sincos({names[i.args[0]]})"
                lines.append(text + self.comment(number))
            elif i.op.block:
                begin = len(lines)
                if type(i.data) is Loop:
                    self.loop(i.data, depth)
                else:
                    self.branch(i.data, depth)
                self.mark(begin, number)
            elif not i.op.elementwise:
                self.statement(number, indent)
            elif number not in done:
                name = self.fresh()
                text = f"{indent}{name} = {RENDER[i.op.kind](i, [names[a] for a in i.args])}"
                names[number] = name
                lines.append(text + self.comment(number))

    def statement(self, number: int, indent: str) -> None:
        """Writes an instruction that is not element-wise, if it needs a statement."""
        names, i = self.names, self.instrs[number]
        o, kind, args = i.op, i.op.kind, [names[a] for a in i.args]
        comment = self.comment(number)
        if kind == "literal":
            names[number] = f"c{i.param - 1 - len(self.program.inputs)}"
            if number in self.read_values:  # not just a position
                self.lines.append(f"{indent}{names[number]} = {RENDER[kind](i, args)}{comment}")
            return
        if kind in ("copy", "reduce", "splat", "component", "feature"):
            if kind == "component" and self.instrs[i.args[0]].op.several:
                names[number] = f"{args[0]}_{i.data}"
                return
            if kind != "feature" or self.is_uniform(i.args[0]):
                names[number] = args[0]
                return
        if kind == "buffer":
            names[number] = f"x{i.param - 1}"
        elif o.returns_old or not o.effect:
            names[number] = self.fresh()
        if kind == "buffer" and number not in self.read_values:
            return  # only gathered from
        for k in o.words:
            if k < len(args):
                args[k] = f"p[{self.instrs[i.args[k]].param}]"
        if o.whole:
            for k, a in enumerate(i.args):
                if self.is_uniform(a):
                    args[k], text = self.fresh(), self.whole(a)
                    self.lines.append(f"{indent}{args[k]} = {text}")
        text = RENDER[kind](i, args)
        if o is op.in_bounds and self.check is not None:
            site, word = i.data - self.check.data, i.param - self.check.param
            text = f"in_bounds(p[0], s + {site}, {args[0]}, p[n + {word}], {args[1]})"
        if o.several:
            count = len(i.data.returned) if o is op.foreign else i.data
            text = ", ".join(f"{names[number]}_{j}" for j in range(count)) + f" = {text}"
        elif o.returns_old or not o.effect:
            text = f"{names[number]} = {text}"
        self.lines.append(f"{indent}{text}{comment}")

    def is_uniform(self, number: int) -> bool:
        """Returns whether a value is a vector represented by the one scalar that all its features
        equal."""
        i = self.instrs[number]
        return (
            i.dtype.is_vector and i.op.kind in ("literal", "splat") and number not in self.renamed
        )

    def whole(self, number: int) -> str:
        """Returns the text of a value in a place that requires an actual vector."""
        t, name = self.instrs[number].dtype, self.names[number]
        return f"splat({t.element.code}, {t.count}, {name})" if self.is_uniform(number) else name

    def loop(self, loop: Loop, depth: int) -> None:
        """Writes a loop: lanes that are done keep their state."""
        names, lines = self.names, self.lines
        indent, inner = "    " * depth, "    " * (depth + 1)
        for state, first in zip(loop.states, loop.starts, strict=True):
            name = names[state] = self.fresh()
            lines.append(f"{indent}{name} = {self.whole(first)}")
        live = names[loop.live] = self.fresh()
        lines.append(f"{indent}{live} = {names[loop.active]}")
        self.statements(loop.test, depth)
        lines.append(f"{indent}{live} = {live} & {names[loop.condition]}")
        lines.append(f"{indent}while any_lane({live}):")
        around, self.lanes = self.lanes, loop.live
        self.statements(loop.body, depth + 1)
        self.lanes = around
        changed = [names[s] for s in loop.states]
        values = [
            names[r] if s in self.updated else f"select({live}, {names[r]}, {names[s]})"
            for s, r in zip(loop.states, loop.results, strict=True)
        ]
        # A result that is another loop variable must be read before that variable changes.
        crossed = [k for k, r in enumerate(loop.results) if r in loop.states]
        if crossed:
            both = [", ".join([part[k] for k in crossed]) for part in (changed, values)]
            lines.append(f"{inner}{both[0]} = {both[1]}")
        for k, (name, value) in enumerate(zip(changed, values, strict=True)):
            if k not in crossed:
                lines.append(f"{inner}{name} = {value}")
        self.statements(loop.test, depth + 1)
        lines.append(f"{inner}{live} = {live} & {names[loop.condition]}")
        lines.append(f"{inner}{live} = going(p[0], {live})")

    def function(self, case: Case) -> tuple[str, bodies.Used, list[int]]:
        """Returns the name of the function for the body of a case, which is written on first use,
        what it needs, and the values that it returns."""
        names, instrs = self.names, self.instrs
        used = bodies.used(self.program, case)
        own, wanted = ((), case.results) if case.function is None else case.function
        around = {number: names[number] for number in (*used.inside, *used.leaves, *used.outside)}
        before = self.lines, self.values, self.check, self.lanes
        self.lines, self.values, self.check, self.lanes = [], 0, used.check, -1
        parameters = [", s: int, n: int"] if used.check is not None else []
        for k, number in enumerate((*own, *used.outside)):
            names[number] = f"a{k}"
            parameters.append(f", a{k}: {instrs[number].dtype.code}")
        self.statements(used.leaves, 1)
        self.statements(case.body, 1)
        results = list(dict.fromkeys([r for r in wanted if r in used.inside]))
        if results:
            self.lines.append(f"    return {', '.join([names[r] for r in results])}")
        text = "\n".join([f"(i, p{''.join(parameters)}):", *self.lines])
        scope = self.scope((*own, *used.outside, *used.inside)) if self.named else {}
        self.lines, self.values, self.check, self.lanes = before
        for number, name in around.items():
            names[number] = name
        if text not in self.functions:
            self.functions[text] = f"def body{len(self.functions)}{text}"
        name = self.functions[text].partition("(")[0].removeprefix("def ")
        self.scopes.setdefault(name, scope)
        return name, used, results

    def call(self, case: Case) -> str:
        """Returns the call of the function for the body of a case."""
        names, check = self.names, self.check
        if case.function is None:
            name, used, results = self.function(case)
        else:
            if case.function not in self.written:
                self.written[case.function] = self.function(case)
            name, used, results = self.written[case.function]
        first: list[str] = []
        if used.check is not None and check is None:
            first = [str(used.check.data), str(used.check.param)]
        elif used.check is not None and check is not None:
            first = [f"s + {used.check.data - check.data}", f"n + {used.check.param - check.param}"]
        arguments = [names[number] for number in (*case.arguments, *used.outside)]
        call = _call(name, ["i", "p", *first, *arguments])
        for r in results:
            names[r] = self.fresh()
        targets = ", ".join([names[r] for r in results])
        return f"{targets} = {call}" if results else call

    def body(self, case: Case, depth: int) -> None:
        """Writes the body of a case, or a call of it."""
        names, function = self.names, case.function
        if case in self.repeated or (function is not None and self.is_function(case)):
            self.lines.append(f"{'    ' * depth}{self.call(case)}")
            return
        if function is not None:
            for number, argument in zip(function.parameters, case.arguments, strict=True):
                names[number] = names[argument]
        around, self.lanes = self.lanes, case.mask
        self.statements(case.body, depth)
        self.lanes = around

    def is_function(self, case: Case) -> bool:
        """Returns whether a body shared by calls becomes a function."""
        return len(case.body) >= bodies.SHORTEST and not self.has_vectors

    def unconditional(self, case: Case, results: Sequence[int], depth: int) -> None:
        """Writes the body of a case whose lanes are those that execute the enclosing code."""
        names = self.names
        self.body(case, depth)
        for number, result in zip(results, case.results, strict=True):
            names[number] = names[result]
            if result in self.states:  # the state will change
                names[number] = self.fresh()
                self.lines.append(f"{'    ' * depth}{names[number]} = {names[result]}")

    def branch(self, branch: Branch, depth: int) -> None:
        """Writes the cases of a branch, each skipped if none of its lanes is active."""
        names, lines = self.names, self.lines
        if len(branch.cases) == 1 and not self.has_vectors:
            mask = branch.cases[0].mask
            if mask == self.lanes or self.instrs[mask].op is op.active:
                self.unconditional(branch.cases[0], branch.results, depth)
                return
        indent, inner = "    " * depth, "    " * (depth + 1)
        renamed: dict[int, str] = {}
        for number in branch.results:
            t = self.instrs[number].dtype
            name = names[number] = self.fresh()
            first = f"{t.element.code}(0)"
            if number in self.updated:
                start = self.updated[number]
                first = self.whole(start)
                renamed.setdefault(start, name)
            elif t.is_vector:
                first = f"splat({t.element.code}, {t.count}, {first})"
            lines.append(f"{indent}{name} = {first}")
        around, renamed_around = {number: names[number] for number in renamed}, self.renamed
        for number, name in renamed.items():
            names[number] = name
        self.renamed = self.renamed | renamed.keys()
        own = [renamed.get(self.updated.get(r, -1)) == names[r] for r in branch.results]
        for case in branch.cases:
            mask = names[case.mask]
            lines.append(f"{indent}if any_lane({mask}):")
            before = len(lines)
            self.body(case, depth + 1)
            rows = sorted(zip(own, branch.results, case.results, strict=True))
            for is_own, number, result in rows:  # others may equal a former value of one of its own
                name, value = names[number], names[result]
                if not is_own:
                    lines.append(f"{inner}{name} = select({mask}, {value}, {name})")
                elif value != name:
                    lines.append(f"{inner}{name} = {value}")
            if len(lines) == before:
                lines.pop()
        self.renamed = renamed_around
        for number, name in around.items():
            names[number] = name


def _updated(program: Program) -> dict[int, int]:
    """Returns the loop states and branch results that are a vector with some features replaced in
    active lanes, mapped to that vector: these need no select over lanes.

    The cases of a branch have disjoint lanes.
    """
    instrs = program.instrs
    found: dict[int, int] = {}
    block: dict[int, int] = {}  # block of a state or result

    def origin(number: int, body: frozenset[int]) -> int:
        """Returns the vector from which a chain of replacements in a body starts."""
        while True:
            if number in body and instrs[number].op is op.put:
                number = instrs[number].args[0]
            elif block.get(number) in body and number in found:
                number = found[number]
            else:
                return number

    for k, i in enumerate(instrs):
        if type(i.data) is Loop:
            loop, body = i.data, frozenset(i.data.body)
            block |= dict.fromkeys(loop.states, k)
            for state, start, result in zip(loop.states, loop.starts, loop.results, strict=True):
                if instrs[state].dtype.is_vector and origin(result, body) == state:
                    found[state] = start
        elif type(i.data) is Branch:
            branch, bodies = i.data, [frozenset(c.body) for c in i.data.cases]
            block |= dict.fromkeys(branch.results, k)
            for result, values in zip(
                branch.results, zip(*[c.results for c in branch.cases], strict=True), strict=True
            ):
                if instrs[result].dtype.is_vector:
                    starts = {origin(v, body) for v, body in zip(values, bodies, strict=True)}
                    start = starts.pop()
                    inside = any(start in body or block.get(start) in body for body in bodies)
                    if not starts and not inside:
                        found[result] = start
    return found


_CIRCULAR = frozenset((op.sin, op.cos))


def _sines_and_cosines(program: Program, numbers: Sequence[int]) -> dict[int, int]:
    """Finds a sine and a cosine of the same value among some instructions: a single call computes
    both. Returns the first of the two, mapped to the other.

    Instructions with a label keep their own statement, for the comment and for debuggers.
    """
    first: dict[int, int] = {}
    pairs: dict[int, int] = {}
    instrs = program.instrs
    for number in numbers:
        i = instrs[number]
        if i.op in _CIRCULAR and not i.label:
            before = first.setdefault(i.args[0], number)
            if instrs[before].op is not i.op:
                pairs[before] = number
    return pairs


def _read_values(program: Program) -> set[int]:
    """Returns the instructions whose values are read, rather than their words of the parameter
    block."""
    used = {o.value for o in program.outputs}
    for i in program.instrs:
        used.update(operands(i))
    return used

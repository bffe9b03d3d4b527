"""Kernel texts as functions of an exported file: one for the lanes of a chunk, which Numba
compiles, and one that runs it on all chunks in threads. Numba's own parallel loops would take
another second per kernel to compile, and its default threads abort when two threads of a program
use them.

Sums over lanes, and updates of the same entries by several lanes (`expand`), are computed for each
chunk, and the chunks are then combined in order: results do not depend on the number of threads.
Kernels with other atomic operations run lane by lane.
"""

# Statements have the forms of the language, so that syntax trees are not examined further.
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false

import ast
import re
from typing import Any, NamedTuple

from ...ir.dtype import BY_CODE
from ...parsing import syntax_tree
from .. import library
from ..language import assigned, target_names
from .expressions import FLOATS, CannotExport, has_cases, value_type
from .groups import Group, MaskedBlock, TileNames, TileStatement, names_in_arrays, render
from .lane_writer import LaneWriter, is_idle
from .module import ExportedModule, assignment
from .statements import ON_LANES, ONCE, VECTORS, Fold, ignored_constant, neutral_constant

CHUNKS = 16
_ARRAY = re.compile(r".*_|(p|sum|size)\d+|error|sizes")


class KernelFunction(NamedTuple):
    """A kernel in an exported file: its name, the words that are its parameters after the number of
    lanes, whether it notes indices out of bounds, and its `matrices`: for each, the words of its
    memory and of its first entry, and the number of entries from there to its end."""

    name: str
    words: tuple[int, ...]
    checks: bool
    matrices: tuple[tuple[int, int, int], ...]


class KernelWriter(LaneWriter):
    """Writes the functions of one kernel text."""

    loops = 0

    # ---- The whole

    def write(self) -> KernelFunction:
        """Adds the functions to the module."""
        for s in self.kernel.body:
            self.tile_statement(s)
        names = names_in_arrays(self.parts)
        names = {n for n in names if n not in self.constant_names}
        tiled = len(self.parts) > 1 or bool(names) or bool(self.vectors)
        tiled = tiled or any(self.is_float_sum(r) for r in self.reductions)
        tiled = tiled or any(g.cases for g in self.parts if isinstance(g, Group))
        words = [k for k in self.words if k not in self.scratch and not self.is_check(k)]
        parameters = [f"p{k}" for k in words]
        if self.has_checks:
            parameters = ["error", "sizes", *parameters]
        lines = [
            f"@{self.module.use('compiled')}",
            f"def {self.name}_lanes({', '.join(['begin', 'end', *parameters])}):",
        ]
        lines += [f"    {line}" for line in self.uniform]
        for r in self.reductions:
            start = "0.0" if self.is_float_sum(r) else neutral_constant(r)
            lines.append(f"    total{r.word} = {start}")
            if self.is_float_sum(r):
                lines.append(f"    sum{r.word} = {self.module.use('tile')}({value_type(r.code)})")
        if tiled:
            lines += self.tiles(names)
        else:
            lines.append("    for i in range(begin, end):")
            (group,) = self.parts or [Group()]
            lines += [f"        {line}" for line in group.lines] or ["        pass"]
        if self.reductions:
            lines.append(f"    return {', '.join(f'total{r.word}' for r in self.reductions)}")
        self.module.kernels.append("\n".join(lines))
        self.module.kernels.append(self.driver(parameters))
        matrices = tuple(dict.fromkeys(self.matrices))
        return KernelFunction(self.name, tuple(words), self.has_checks, matrices)

    def tiles(self, names: set[str]) -> list[str]:
        """Returns the loop over the tiles of a chunk."""
        lines = []
        masks = {n for n in names if self.scope.codes.get(n) == "mask"}
        for n in sorted(names - self.uniform_vectors):
            if n in self.vectors:
                code, count = self.vectors[n]
                lines.append(f"    {n}_ = np.zeros(({count}, TILE), {value_type(code)})")
            else:
                number = "u8" if n in masks else value_type(self.scope.codes[n])
                lines.append(f"    {n}_ = {self.module.use('tile')}({number})")
        lines += [
            "    for base in range(begin, end, u64(TILE)):",
            "        m = i64(min(u64(TILE), end - base))",
        ]
        known = TileNames(names, masks, self.vectors, self.uniform_vectors, self.repeat)
        lines += render(self.parts, known, "        ")
        for r in self.reductions:
            if self.is_float_sum(r):
                helper = self.module.use("sum_of")
                lines.append(f"        total{r.word} += {helper}(sum{r.word}, m)")
        return lines

    def repeat(self, loop: list[str]) -> list[str]:
        """Adds the function of a loop with rare cases, and returns its calls."""
        names = {n.id for n in ast.walk(syntax_tree("\n".join(loop))) if isinstance(n, ast.Name)}
        outer = {"base", "m"} | self.constant_names
        parameters = sorted(n for n in names if n in outer or _ARRAY.fullmatch(n))
        name = f"{self.name}_loop{self.loops}"
        self.loops += 1
        head = f"def {name}({', '.join(['full', *parameters])}):"
        body = [f"    {line}" for line in ("rare = False", *loop, "return rare")]
        self.module.kernels.append("\n".join([f"@{self.module.use('inlined')}", head, *body]))
        rest = "".join([f", {n}" for n in parameters])
        return [f"if {name}(False{rest}):", f"    {name}(True{rest})"]

    def driver(self, parameters: list[str]) -> str:
        """Returns the function that runs all chunks, ordinary Python."""
        self.module.host("spans", "in_parallel")
        many = CHUNKS if not self.sequential else 1
        lines = [f"def {self.name}({', '.join(['n', *parameters])}):"]
        add = lines.append
        add(f"    chunks = spans(n, {many})")
        for k, c in self.copies.items():
            acc = BY_CODE[c.code].accumulator.code
            start = ignored_constant(c.op, acc)
            add(f"    copies{k} = np.full((len(chunks), p{k}.size), {start}, {value_type(acc)})")
        given = ", ".join([*_chunked(parameters, self.copies)])
        found = "found = " if self.reductions else ""
        where = "for t, (begin, end) in enumerate(chunks)" if self.copies else (
            "for begin, end in chunks"
        )  # fmt: skip
        add(f"    {found}in_parallel({self.name}_lanes, [(begin, end, {given}) {where}])")
        for k, r in enumerate(self.reductions):
            self.module.host("FOLDS", "joined")
            column = "found" if len(self.reductions) == 1 else f"[row[{k}] for row in found]"
            half = ".view(f16)" if r.code == "f16" else ""
            add(f"    p{r.word}{half}[0] = joined({r.op!r}, {column})")
        for k, c in self.copies.items():
            self.module.host("FOLDS")
            p = f"p{k}.view(f16)" if c.code == "f16" else f"p{k}"
            add(f"    total = FOLDS[{c.op!r}].reduce(copies{k}, axis=0)")
            add(f"    {p}[...] = FOLDS[{c.op!r}]({p}, total)")
        return "\n".join(lines)

    # ---- Statements of a tile

    def group(self, count: int = 0, *, cases: bool = False, once: bool = False) -> Group:
        """Returns the open group of statements, or a new one."""
        parts = self.open[-1]
        last = parts[-1] if parts else None
        if not isinstance(last, Group) or not last.accepts(count, cases, once):
            last = Group(count)
            parts.append(last)
            self.last_comment = ""
        last.cases, last.once = last.cases or cases, last.once or once
        return last

    def restrictions(self, s: Any) -> dict[str, bool]:
        """Returns whether a statement has rare cases, and whether it may run only once."""
        calls = {n.func.id for n in ast.walk(s) if isinstance(n, ast.Call)}
        once = isinstance(s, ast.While | ast.If) or bool(calls & (ONCE | self.bodies.keys()))
        if "reduce" in calls:  # a sum of floating-point numbers waits in an array
            once = once and not (s.value.args[1].value == "add" and s.value.args[0].id in FLOATS)
        if isinstance(s, ast.Assign):  # the state of a loop
            once = once or any(n in self.scope.codes or n in self.vectors for n in target_names(s))
        called = calls & library.names
        cases = "in_bounds" in calls or any(map(_has_cases, called))
        return {"once": once, "cases": not once and cases}

    def names_in(self, node: ast.AST) -> list[str]:
        """Returns the names of values in a statement or expression."""
        found = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        return [n for n in found if n in self.scope.codes or n in self.vectors]

    def feature_count(self, e: Any) -> int:
        """Returns the number of features of an element-wise expression; 0 if it is a scalar."""
        name = e.func.id if isinstance(e, ast.Call) else ""
        if name == "splat":
            return e.args[1].value
        if name in ON_LANES or name in self.bodies:
            return 0
        names = [n.id for n in ast.walk(e) if isinstance(n, ast.Name)]
        return next((self.vectors[n][1] for n in names if n in self.vectors), 0)

    def tile_statement(self, s: Any) -> None:
        """Adds a statement of the kernel."""
        if is_idle(s):
            return
        if isinstance(s, ast.While | ast.If):
            if self.has_vectors(s.body) or self.runs_on_tiles(s.body):
                self.block(s)
                return
        elif isinstance(s, ast.Assign) and isinstance(
            s.value, ast.Call | ast.Name | ast.BinOp | ast.UnaryOp | ast.Compare
        ):
            call = s.value.func.id if isinstance(s.value, ast.Call) else ""
            if call == "matvec":
                self.whole(s, self.matvec(s))
                return
            if call in ("literal", "broadcast"):
                self.uniform.append(assignment(self.scope, s))
                self.constant_names.add(s.targets[0].id)
                return
            if call == "vector" and self.is_uniform_vector(s):
                self.uniform_vector(s)
                return
            count = self.feature_count(s.value)
            if count:
                self.elementwise(s, count)
                return
        elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            name = s.value.func.id
            if name in ("outer", "accumulate"):
                self.whole(s, self.sum_of_vectors(name, s.value.args))
                return
        kind = self.restrictions(s)
        group = self.group(**kind)
        self.scope.cases = kind["cases"]
        before = set(self.scope.codes) | set(self.vectors)
        group.read(self.names_in(s) if not isinstance(s, ast.Assign) else self.names_in(s.value))
        if isinstance(s, ast.While | ast.If):
            group.read([n for n in assigned(s.body) if n in before])
        group.lines += self.lines([s])
        if isinstance(s, ast.Assign):
            group.write(target_names(s))
        elif isinstance(s, ast.While | ast.If):
            group.write(assigned(s.body))

    def is_uniform_vector(self, s: Any) -> bool:
        """Whether the features are constants, and all that uses the vector is element-wise."""
        features = s.value.args[1:]
        return target_names(s)[0] not in self.whole_names and all(
            isinstance(e, ast.Name) and e.id in self.constant_names for e in features
        )

    def uniform_vector(self, s: Any) -> None:
        """Adds a vector of constants, which is made once."""
        args, (name,) = s.value.args, target_names(s)
        code = args[0].id
        features = ", ".join([e.id for e in args[1:]])
        self.uniform.append(f"{name}_ = np.array([{features}], {value_type(code)})")
        self.vectors[name] = code, len(args) - 1
        self.uniform_vectors.add(name)

    def has_vectors(self, body: list[Any]) -> bool:
        """Whether statements operate on vectors other than by reading single features."""
        names = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
        return not names.isdisjoint(self.vectors.keys() | VECTORS)

    def runs_on_tiles(self, body: list[Any]) -> bool:
        """Whether statements run for all lanes of a tile at once, which LLVM then vectorizes,
        including gathers. It does not vectorize scatters, and calls would be wasted on too many
        inactive lanes."""
        calls = {n.func.id for s in body for n in ast.walk(s) if isinstance(n, ast.Call)}
        return not calls & (ONCE | self.bodies.keys())

    def block(self, s: Any) -> None:
        mask = s.test.args[0].id
        word = "while" if isinstance(s, ast.While) else "if"
        block = MaskedBlock(f"{word} {self.module.use('any_lane')}({mask}_, m):", mask)
        self.open[-1].append(block)
        self.open.append(block.parts)
        for inner in s.body:
            self.tile_statement(inner)
        self.open.pop()

    def whole(self, s: Any, text: tuple[list[str], list[str]]) -> None:
        """Adds a statement on a whole tile: its lines, and the names that they read."""
        lines, reads = text
        lines = self.comment(s) + lines
        self.open[-1].append(TileStatement(lines, tuple(reads)))

    def elementwise(self, s: Any, count: int) -> None:
        kind = self.restrictions(s)
        group = self.group(count, **kind)
        target = s.targets[0]
        if not isinstance(target, ast.Name):
            raise CannotExport("several results of a vector")
        group.read(n for n in self.names_in(s.value))
        codes = dict(self.scope.codes)
        scope = self.new_scope(codes)
        scope.cases = kind["cases"]
        codes.update({n: code for n, (code, _) in self.vectors.items()})
        value = s.value
        if isinstance(value, ast.Call) and value.func.id == "splat":
            element = value.args[0].id
            found = scope.typed(scope.expr(value.args[2]), element)
        else:
            found = scope.expr(value)
        group.lines += [*self.comment(s), *scope.pending(), f"{target.id} = {found.text}"]
        self.vectors[target.id] = found.code, count
        group.write([target.id])

    def uniform_size(self, at: str) -> str:
        """Returns the name of the size that indices are compared with."""
        line = f"size{at} = sizes[{at}]"
        if line not in self.uniform:
            self.uniform.append(line)
        return f"size{at}"

    def note_matrix(self, memory: Any, first: Any, extent: int) -> None:
        """Notes a matrix, or another range of memory: see `KernelFunction`."""
        self.matrices.append((self.number(memory), self.number(first), extent))

    def matvec(self, s: Any) -> tuple[list[str], list[str]]:
        """The product of a matrix with the vectors of a tile."""
        args = s.value.args
        code, name = args[0].id, s.targets[0].id
        rows, columns, stride = (a.value for a in args[3:6])
        transposed = args[6].value
        x = args[7].id
        count = columns if transposed else rows
        self.vectors[name] = code, count
        helper = self.module.use("transposed_matvec" if transposed else "matvec")
        a, first = self.word(args[1]), self.word(args[2])
        self.note_matrix(args[1], args[2], (rows - 1) * stride + columns)
        lines = [f"{helper}({a}, {first}, {rows}, {columns}, {stride}, {x}_, {name}_)"]
        if len(args) > 8:
            bias = f"{self.word(args[8])}, {self.word(args[9])}"
            self.note_matrix(args[8], args[9], count)
            lines.append(f"{self.module.use('add_bias')}({name}_, {count}, {bias})")
        if code == "f16":
            lines.append(f"{self.module.use('round_to_half')}({name}_, {count})")
        return lines, [x, name]

    def sum_of_vectors(self, name: str, args: list[Any]) -> tuple[list[str], list[str]]:
        """`outer` and `accumulate`."""
        code, k = args[0].id, self.number(args[1])
        self.note_copies("add", code, k, args)
        helper, first = self.module.use(name), self.word(args[4])
        if name == "outer":
            rows, columns, stride = (a.value for a in args[5:8])
            self.note_matrix(args[1], args[4], (rows - 1) * stride + columns)
            y, x, mask = (a.id for a in args[8:11])
            text = f"{helper}(p{k}, {first}, {rows}, {columns}, {stride}, {y}_, {x}_, {mask}_, m)"
            return [text], [y, x, mask]
        y, mask = args[5].id, args[6].id
        rows = self.vectors[y][1]
        self.note_matrix(args[1], args[4], rows)
        return [f"{helper}(p{k}, {first}, {rows}, {y}_, {mask}_, m)"], [y, mask]


def _has_cases(name: str) -> bool:
    return any(has_cases(f"{name}_{code}") for code in ("f32", "f64"))


def _chunked(parameters: list[str], copies: dict[int, Fold]) -> list[str]:
    """Returns what a chunk receives: its own copies in place of targets."""
    return [
        f"copies{p[1:]}[t]" if p[1:].isdecimal() and int(p[1:]) in copies else p for p in parameters
    ]


def kernel(
    module: ExportedModule, name: str, text: str, first_check: int, checks: int
) -> KernelFunction:
    """Adds a kernel text to a module under a name; the words from `first_check` on are the sizes of
    `checks` bounds checks.

    Raises:
        CannotExport: it has a statement without a scalar form.
    """
    return KernelWriter(module, name, text, first_check, checks).write()

"""Kernel texts as functions of an exported file: one for the lanes of a chunk, which Numba
compiles, and one that runs it on all chunks in threads. Numba's own parallel loops would
take another second to compile for each kernel, and its default threads abort when two threads of a
program use them.

Sums over lanes and updates of the same entries by several lanes (`expand`) are made for each chunk,
and the chunks are then joined in order: results do not depend on the number of threads. Kernels
with other atomic operations run lane by lane.
"""

# Statements have the forms of the language, so that syntax trees are not examined further.
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false

import ast
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...ir.dtype import BY_CODE
from ..simd.parse import functions
from .expressions import FLOATS, CannotExport, Scope, Value, computed
from .groups import Block, Group, Whole, render, shared
from .module import Module, assignment
from .statements import (
    EFFECTS,
    MEMORY,
    ON_LANES,
    SEVERAL,
    VECTORS,
    WHOLE,
    Fold,
    identity,
    start_of,
)

CHUNKS = 16
_WORD = re.compile(r"\bp\[(\d+)\]")
_COMMENT = re.compile(r"  # (.*)$")


class Function(NamedTuple):
    """A kernel in an exported file: its name, its parameters after the number of lanes, and whether
    it notes indices that are out of bounds."""

    name: str
    words: tuple[int, ...]
    checks: bool


class Writer:
    """Writes the functions of one kernel text."""

    def __init__(self, module: Module, name: str, text: str, first_check: int) -> None:
        self.module, self.name, self.first_check = module, name, first_check
        definitions = {s.name: s for s in functions(text)}
        self.kernel = definitions.pop("kernel")
        self.bodies = definitions
        self.comments = {
            number: found[1]
            for number, line in enumerate(text.splitlines(), 1)
            if (found := _COMMENT.search(line))
        }
        self.has_checks = "in_bounds(" in text
        self.words = sorted({int(k) for k in _WORD.findall(text)} - {0})
        self.vectors: dict[str, tuple[str, int]] = {}
        self.uniform: list[str] = []
        self.constant_names: set[str] = set()
        self.uniform_vectors: set[str] = set()
        self.whole_names = {
            a.id
            for n in ast.walk(self.kernel)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in WHOLE
            for a in n.args
            if isinstance(a, ast.Name)
        }
        self.reductions: list[Fold] = []
        self.copies: dict[int, Fold] = {}
        self.scratch: set[int] = set()
        self.sequential = False
        self.parts: list[Any] = []
        self.open: list[list[Any]] = [self.parts]
        self.scope = self.new_scope({})
        self.body_results: dict[str, tuple[str, ...]] = {}
        self.last_comment = ""
        self.atomic_codes: dict[int, str] = {}

    # ---- The whole

    def write(self) -> Function:
        """Adds the functions to the module."""
        for s in self.kernel.body:
            self.tile_statement(s)
        names = shared(self.parts)
        names = {n for n in names if n not in self.constant_names}
        tiled = len(self.parts) > 1 or bool(names) or bool(self.vectors)
        tiled = tiled or any(self.sums(r) for r in self.reductions)
        words = [k for k in self.words if k not in self.scratch and not self.is_check(k)]
        parameters = [f"p{k}" for k in words]
        if self.has_checks:
            parameters = ["error", "sizes", *parameters]
        lines = [
            '@njit(error_model="numpy", nogil=True, cache=True)',
            f"def {self.name}_lanes({', '.join(['begin', 'end', *parameters])}):",
        ]
        lines += [f"    {line}" for line in self.uniform]
        for r in self.reductions:
            start = "0.0" if self.sums(r) else start_of(r)
            lines.append(f"    total{r.word} = {start}")
            if self.sums(r):
                lines.append(f"    sum{r.word} = np.empty(TILE, {computed(r.code)})")
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
        return Function(self.name, tuple(words), self.has_checks)

    def is_check(self, word: int) -> bool:
        """Whether a word is the size of a bounds check."""
        return self.first_check <= word < self.first_check + self.checks

    checks = 0

    def sums(self, r: Fold) -> bool:
        """Whether a reduction is a sum of floating-point numbers, made in double precision."""
        return r.op == "add" and r.code in FLOATS

    def tiles(self, names: set[str]) -> list[str]:
        """Returns the loop over the tiles of a chunk."""
        lines = []
        for n in sorted(names - self.uniform_vectors):
            if n in self.vectors:
                code, count = self.vectors[n]
                lines.append(f"    {n}_ = np.zeros(({count}, TILE), {computed(code)})")
            else:
                lines.append(f"    {n}_ = np.empty(TILE, {computed(self.scope.codes[n])})")
        lines += [
            "    for base in range(begin, end, u64(TILE)):",
            "        m = i64(min(u64(TILE), end - base))",
        ]
        lines += render(self.parts, names, self.vectors, self.uniform_vectors, "        ")
        for r in self.reductions:
            if self.sums(r):
                helper = self.module.use("sum_of")
                lines.append(f"        total{r.word} += {helper}(sum{r.word}, m)")
        return lines

    def driver(self, parameters: list[str]) -> str:
        """Returns the function that runs all chunks, ordinary Python."""
        self.module.host("spans", "in_parallel")
        many = CHUNKS if not self.sequential else 1
        lines = [f"def {self.name}({', '.join(['n', *parameters])}):"]
        add = lines.append
        add(f"    chunks = spans(n, {many})")
        for k, c in self.copies.items():
            acc = BY_CODE[c.code].accumulator.code
            start = identity(c.op, acc)
            add(f"    copies{k} = np.full((len(chunks), p{k}.size), {start}, {computed(acc)})")
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

    def group(self, count: int = 0) -> Group:
        """Returns the open group of statements, or a new one."""
        parts = self.open[-1]
        if parts and isinstance(parts[-1], Group) and parts[-1].count == count:
            return parts[-1]
        parts.append(Group(count))
        self.last_comment = ""
        return parts[-1]

    def names_in(self, node: ast.AST) -> list[str]:
        """Returns the names of values in a statement or expression."""
        found = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        return [n for n in found if n in self.scope.codes or n in self.vectors]

    def features(self, e: Any) -> int:
        """Returns the number of features of an element-wise expression; 0 if it is a scalar."""
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
            name = e.func.id
            if name == "splat":
                return e.args[1].value
            if name in ON_LANES or name in self.bodies:
                return 0
        for n in ast.walk(e):
            if isinstance(n, ast.Name) and n.id in self.vectors:
                return self.vectors[n.id][1]
        return 0

    def tile_statement(self, s: Any) -> None:
        """Adds a statement of the kernel."""
        if isinstance(s, ast.While | ast.If):
            if self.has_vectors(s.body):
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
            count = self.features(s.value)
            if count:
                self.elementwise(s, count)
                return
        elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            name = s.value.func.id
            if name in ("outer", "accumulate"):
                self.whole(s, self.sum_of_vectors(name, s.value.args))
                return
        group = self.group()
        before = set(self.scope.codes) | set(self.vectors)
        group.read(self.names_in(s) if not isinstance(s, ast.Assign) else self.names_in(s.value))
        if isinstance(s, ast.While | ast.If):
            group.read([n for n in _assigned(s.body) if n in before])
        group.lines += self.lines([s])
        if isinstance(s, ast.Assign):
            group.write(_targets(s))
        elif isinstance(s, ast.While | ast.If):
            group.write(_assigned(s.body))

    def is_uniform_vector(self, s: Any) -> bool:
        """Whether the features are constants, and all that uses the vector is element-wise."""
        features = s.value.args[1:]
        return _targets(s)[0] not in self.whole_names and all(
            isinstance(e, ast.Name) and e.id in self.constant_names for e in features
        )

    def uniform_vector(self, s: Any) -> None:
        """Adds a vector of constants, which is made once."""
        args, (name,) = s.value.args, _targets(s)
        code = args[0].id
        features = ", ".join([e.id for e in args[1:]])
        self.uniform.append(f"{name}_ = np.array([{features}], {computed(code)})")
        self.vectors[name] = code, len(args) - 1
        self.uniform_vectors.add(name)

    def has_vectors(self, body: list[Any]) -> bool:
        """Whether statements operate on vectors other than by reading single features."""
        for s in body:
            for n in ast.walk(s):
                if isinstance(n, ast.Name) and n.id in self.vectors:
                    return True
                if (
                    isinstance(n, ast.Call)
                    and isinstance(n.func, ast.Name)
                    and n.func.id in VECTORS
                ):
                    return True
        return False

    def block(self, s: Any) -> None:
        mask = s.test.args[0].id
        word = "while" if isinstance(s, ast.While) else "if"
        made = Block(f"{word} {self.module.use('any_lane')}({mask}_, m):", mask)
        self.open[-1].append(made)
        self.open.append(made.parts)
        for inner in s.body:
            self.tile_statement(inner)
        self.open.pop()

    def whole(self, s: Any, made: tuple[list[str], list[str]]) -> None:
        """Adds a statement on a whole tile."""
        lines, reads = made
        lines = self.comment(s) + lines
        self.open[-1].append(Whole(lines, tuple(reads)))

    def elementwise(self, s: Any, count: int) -> None:
        group = self.group(count)
        target = s.targets[0]
        if not isinstance(target, ast.Name):
            raise CannotExport("several results of a vector")
        group.read(n for n in self.names_in(s.value))
        codes = dict(self.scope.codes)
        scope = self.new_scope(codes)
        codes.update({n: code for n, (code, _) in self.vectors.items()})
        value = s.value
        if isinstance(value, ast.Call) and value.func.id == "splat":
            element = value.args[0].id
            found = scope.typed(scope.expr(value.args[2]), element)
        else:
            found = scope.expr(value)
        group.lines += [*self.comment(s), f"{target.id} = {found.text}"]
        self.vectors[target.id] = found.code, count
        group.write([target.id])

    def matvec(self, s: Any) -> tuple[list[str], list[str]]:
        """The product of a matrix with the vectors of a tile."""
        args = s.value.args
        code, name = args[0].id, s.targets[0].id
        rows, columns, stride = (a.value for a in args[3:6])
        transposed = args[6].value
        x = args[7].id
        made = columns if transposed else rows
        self.vectors[name] = code, made
        helper = self.module.use("transposed_matvec" if transposed else "matvec")
        a, first = self.word(args[1]), self.word(args[2])
        lines = [f"{helper}({a}, {first}, {rows}, {columns}, {stride}, {x}_, {name}_)"]
        if len(args) > 8:
            bias = f"{self.word(args[8])}, {self.word(args[9])}"
            lines.append(f"{self.module.use('add_bias')}({name}_, {made}, {bias})")
        if code == "f16":
            lines.append(f"{self.module.use('round_to_half')}({name}_, {made})")
        return lines, [x, name]

    def sum_of_vectors(self, name: str, args: list[Any]) -> tuple[list[str], list[str]]:
        """`outer` and `accumulate`."""
        code, k = args[0].id, self.number(args[1])
        self.private("add", code, k, args)
        helper, first = self.module.use(name), self.word(args[4])
        if name == "outer":
            rows, columns, stride = (a.value for a in args[5:8])
            y, x, mask = (a.id for a in args[8:11])
            text = f"{helper}(p{k}, {first}, {rows}, {columns}, {stride}, {y}_, {x}_, {mask}_, m)"
            return [text], [y, x, mask]
        y, mask = args[5].id, args[6].id
        rows = self.vectors[y][1]
        return [f"{helper}(p{k}, {first}, {rows}, {y}_, {mask}_, m)"], [y, mask]

    def private(self, op: str, code: str, k: int, args: Sequence[Any]) -> None:
        """Notes a target with private copies, whose words come second to fourth."""
        self.copies[k] = Fold(op, code, k)
        words = [self.number(a) for a in args if _is_word(a)]
        at = words.index(k)
        self.scratch.update(words[at + 1 : at + 3])

    # ---- Statements of a lane

    def comment(self, s: Any) -> list[str]:
        """Returns the comment of a statement, unless it is that of the previous one."""
        found = self.comments.get(s.lineno)
        if not found or found == self.last_comment:
            return []
        self.last_comment = found
        return [f"# {found}"]

    def lines(self, statements: list[Any]) -> list[str]:
        """Returns the text of statements for one lane."""
        found: list[str] = []
        for s in statements:
            found += self.comment(s)
            if isinstance(s, ast.While | ast.If):
                test = self.scope.expr(s.test.args[0]).text
                word = "while" if isinstance(s, ast.While) else "if"
                found.append(f"{word} {test}:")
                found += [f"    {line}" for line in self.lines(s.body)]
            elif isinstance(s, ast.Return):
                parts = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
                values = [self.scope.expr(e) for e in parts]
                self.returned = tuple([v.code for v in values])
                found.append(f"return {', '.join([v.text for v in values])}")
            elif isinstance(s, ast.Assign):
                found += self.assigned(s)
            elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
                found += self.effect(s.value.func.id, s.value.args)
            elif not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):
                raise CannotExport(ast.unparse(s))
        return found

    def assigned(self, s: Any) -> list[str]:
        """Returns the text of an assignment."""
        if isinstance(s.value, ast.Call):
            name = s.value.func.id
            if name in SEVERAL:
                return SEVERAL[name](self, _targets(s), s.value.args)
        if isinstance(s.value, ast.Tuple):
            values = [self.scope.expr(e) for e in s.value.elts]
            self.scope.codes.update(zip(_targets(s), [v.code for v in values], strict=True))
            return [f"{', '.join(_targets(s))} = {', '.join([v.text for v in values])}"]
        return [assignment(self.scope, s)]

    def number(self, e: Any) -> int:
        """The number of a word."""
        return e.slice.value

    def word(self, e: Any) -> str:
        """The parameter of a word."""
        return f"p{self.number(e)}"

    def new_scope(self, codes: dict[str, str]) -> Scope:
        """Returns a scope for expressions of the kernel."""
        scope = Scope(self.module, codes)
        scope.own = {
            name: (lambda args, rule=rule, scope=scope: rule(self, scope, args))
            for name, rule in MEMORY.items()
        }
        for name in self.bodies:
            scope.own[name] = lambda args, name=name, scope=scope: self.call(name, scope, args)
        return scope

    def element(self, code: str, array: str, at: str) -> str:
        """Returns the value of an element in memory."""
        text = f"{array}[{at}]"
        return f"{self.module.use('from_half')}({text})" if code == "f16" else text

    def put(self, code: str, array: str, at: str, value: Value) -> str:
        """Returns the assignment of an element in memory."""
        text = self.scope.typed(value, code).text
        if code == "f16" and not self.is_private(array):
            text = f"{self.module.use('to_half')}({text})"
        return f"{array}[{at}] = {text}"

    def is_private(self, array: str) -> bool:
        """Whether a parameter is a private copy, whose halves are single-precision numbers."""
        return array[1:].isdecimal() and int(array[1:]) in self.copies

    # ---- Functions shared by branches

    def call(self, name: str, scope: Scope, args: list[Any]) -> Value:
        """Calls a body of the text."""
        definition = self.bodies[name]
        own = [a.arg for a in definition.args.args[2:]]
        values = [
            Value("i64", ast.unparse(a), True) if n in ("s", "n") and annotated(d) == "int"
            else scope.expr(a)
            for n, d, a in zip(own, definition.args.args[2:], args[2:], strict=True)
        ]  # fmt: skip
        if name not in self.body_results:
            self.body_results[name] = self.body(definition)
        results = self.body_results[name]
        words = self.parameters()
        texts = ", ".join(["i", *words, *[v.text for v in values]])
        text = f"{self.name}_{name}({texts})"
        if len(results) == 1:
            return Value(results[0], text, True)
        return Value("", text, True, several=results)

    def parameters(self) -> list[str]:
        """Returns what all functions of the kernel take of the parameter block."""
        words = [k for k in self.words if not self.is_check(k)]
        return (["error", "sizes"] if self.has_checks else []) + [f"p{k}" for k in words]

    def body(self, definition: ast.FunctionDef) -> tuple[str, ...]:
        """Writes a body of the text; returns its result types."""
        before = self.scope, self.last_comment
        parameters = definition.args.args[2:]
        codes = {a.arg: annotated(a) for a in parameters}
        self.scope = self.new_scope({n: c for n, c in codes.items() if c != "int"})
        self.returned: tuple[str, ...] = ()
        self.last_comment = ""
        lines = self.lines(definition.body)
        self.scope, self.last_comment = before
        names = ", ".join(["i", *self.parameters(), *codes])
        text = "\n".join([f"    {line}" for line in lines])
        head = f'@njit(error_model="numpy")\ndef {self.name}_{definition.name}({names}):'
        self.module.kernels.append(f"{head}\n{text}")
        return self.returned

    # ---- Effects

    def effect(self, name: str, args: list[Any]) -> list[str]:
        """Returns the text of a call for its effect."""
        rule = EFFECTS.get(name)
        if rule is None:
            results = self.scope.own[name](args) if name in self.bodies else None
            if results is None:
                raise CannotExport(f"{name}() has no scalar form")
            return [results.text]
        return rule(self, args)


def _chunked(parameters: list[str], copies: dict[int, Fold]) -> list[str]:
    """Returns what a chunk receives: its own copies in place of targets."""
    return [
        f"copies{p[1:]}[t]" if p[1:].isdecimal() and int(p[1:]) in copies else p for p in parameters
    ]


def annotated(a: ast.arg) -> str:
    return a.annotation.id


def _is_word(e: Any) -> bool:
    return isinstance(e, ast.Subscript)


def _targets(s: Any) -> list[str]:
    t = s.targets[0]
    return [n.id for n in t.elts] if isinstance(t, ast.Tuple) else [t.id]


def _assigned(body: list[Any]) -> list[str]:
    return [n for s in body for a in ast.walk(s) if isinstance(a, ast.Assign) for n in _targets(a)]


def kernel(module: Module, name: str, text: str, first_check: int, checks: int) -> Function:
    """Adds a kernel text to a module under a name; the words from `first_check` on are the sizes of
    `checks` bounds checks.

    Raises:
        CannotExport: it has a statement without a scalar form.
    """
    writer = Writer(module, name, text, first_check)
    writer.checks = checks
    return writer.write()

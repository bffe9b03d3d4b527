"""Functions generated from the rules of element-wise operations, which run for every edge of a
traversal on plain nodes.

A rule is evaluated in an algebra of source text (`_Text`), which turns it into statements that
create its nodes directly, without calls. They are valid for gradients that are full: nodes of the
size of the result that are neither literals nor splats, and hence do not simplify. Other gradients
are left to the rule itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ..jit.ir import node, op
from ..jit.ir.dtype import f32
from ..jit.ir.node import LITERAL, SPLAT, Node, serials
from ..jit.ir.op import Op, special_numbers
from ..jit.run import bytecode
from ..jit.tuples import NamedTuple
from .algebra import PLAIN, guard
from .rules import Algebra, Rule, pass_through


class _Term(NamedTuple):
    """A name in generated code. A node may be `full`, like the gradient. Other nodes are literals,
    or have the size of another one, exactly if the node named `root` is or has; None for numbers,
    literals with a known `value`. `made_by` is the operation of a node, if known."""

    name: str
    root: str | None
    full: bool = False
    value: float | None = None
    made_by: Op | None = None


class _Text(Algebra):
    """The algebra of source text. Operations append statements to `lines`."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.factors: dict[str, tuple] = {}  # of products: their number of lines, and the names
        self.names = names
        self._count = 0

    def number(self, like: _Term, value: float) -> _Term:
        name = self._name()
        self.lines.append(f"{name} = constants[dtype, {value!r}]")
        return _Term(name, None, value=value)

    def __call__(self, op_: Op, *terms: _Term) -> _Term:
        name = self._name()
        self.names[f"op_{op_.name}"] = op_
        full = any(t.full for t in terms)
        roots = [*{t.root: None for t in terms if not t.full and t.root is not None}]
        self.names[f"special_{op_.name}"] = special_numbers(op_, f32)
        tests = _simplifications(op_, terms, full)
        call = f"{name} = combine(op_{op_.name}, ({''.join([f'{t.name}, ' for t in terms])}))"
        if tests is None or (not full and len(roots) != 1):
            self.lines.append(call)
            return _Term(name, name)
        if not full:
            tests = [f"{roots[0]}.op is literal", *tests]
        made = _creation(
            name,
            f"op_{op_.name}",
            "dtype.mask_type" if op_.result == "mask" else "dtype",
            "size" if full else f"{roots[0]}.size",
            [t.name for t in terms],
        )
        if tests:
            made = [
                f"if {' or '.join(dict.fromkeys(tests))}:",
                *_indented([call]),
                "else:",
                *_indented(made),
            ]
        self.lines += made
        if op_ is op.mul and full:
            self.factors[name] = len(made), *[t.name for t in terms]
        root = None if full else roots[0]
        return _Term(name, root, full, made_by=None if tests else op_)

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"


def _simplifications(op_: Op, terms: tuple[_Term, ...], full: bool) -> list[str] | None:
    """Returns the conditions under which an operation on operands that are not all literals may
    simplify, or None if it always may. If one of them is `full`, only some literals have this
    effect."""
    if op_ is op.select:
        mask, a, b = terms
        tests = [] if mask.root is None else [f"{mask.root}.op is literal"]
        if a.value is None and b.value is None:
            tests.append(f"{a.name} is {b.name}")
        return tests
    special = special_numbers(op_, f32)
    operands = terms if op_.commutative else terms[1:]
    if any(t.value in special for t in operands if t.value is not None):
        return None
    tests = []
    if full and any(n is not None for n in special):
        tests = [
            f"{t.root}.op is literal and {t.name}.data in special_{op_.name}"
            for t in operands
            if t.root is not None
        ]
    if op_.involution and terms[0].made_by in (None, op_):
        tests.append(f"{terms[0].name}.op is op_{op_.name}")
    return tests


def _creation(name: str, op_: str, dtype: str, size: str, deps: Sequence[str]) -> list[str]:
    """Returns the statements that create a node."""
    return [
        f"{name} = Node()",
        f"{name}.op = {op_}",
        f"{name}.dtype = {dtype}",
        f"{name}.size = {size}",
        f"{name}.deps = ({', '.join(deps)},)",
        f"{name}.data = {name}.mark = None",
        f"{name}.serial = next(serials)",
    ]


def _indented(lines: Iterable[str]) -> list[str]:
    return ["    " + line for line in lines]


def _added(text: _Text, product: str, target: str) -> list[str]:
    """Returns statements that add a full contribution, computed by those of the `text`, to the
    gradient of a variable; a product is added by a fused multiplication."""
    count, *factors = text.factors.get(product, (0,))
    start = len(text.lines) - count
    last = text.lines[start:]
    op_, deps = ("op_fma", [*factors, "before"]) if count else ("op_add", ["before", product])
    return [
        *text.lines[:start],
        f"before = {target}.grad",
        f"if before is None and {target}.size == size:",
        *_indented([*last, f"{target}.grad = {product}"]),
        f"elif {target}.size != size:",
        *_indented([*last, f"sink.accumulate({target}, {product}, size)"]),
        "elif (o := before.op) is literal or o is splat:",
        *_indented([*last, f"{target}.grad = add(before, {product})"]),
        "else:",
        *_indented(_creation("total", op_, "dtype", "size", deps)),
        f"    {target}.grad = total",
    ]


def _passing(rule: Rule, inputs: list[str], masked: bool, names: dict[str, Any]) -> list[str]:
    """Returns the statements that pass a full gradient `g` on; if it is `masked`, it may be 0 in
    some lanes, and so may those further along."""
    guarded = rule.guarded or (masked and rule.product)
    lines = []
    for i, added in _contributions(rule, inputs, "g", "", guarded, names):
        if masked:
            added.append(f"sink.masked.add(d{i})")
        lines += [f"if d{i} is not None:", *_indented(added)]
    return lines


def _contributions(
    rule: Rule, inputs: list[str], g: str, target: str, guarded: bool, names: dict[str, Any]
) -> Iterator[tuple[int, list[str]]]:
    """Yields operands, and the statements that add the product of their derivative with a full
    gradient to the gradient of a `target`, by default that of the operand."""
    values = [_Term(name, name) for name in ("y", *inputs)]
    for i, derivative in enumerate(rule.partials):
        if derivative is None:
            continue
        text = _Text(names)
        product = derivative(text, _Term(g, None, full=True), *values).name
        if guarded and derivative is not pass_through:
            selected = _creation("c", "op_select", "dtype", "size", ["where", "zero", product])
            text.lines += [f"where, zero = guard({g})", *selected]
            product = "c"
        yield i, _added(text, product, target or f"d{i}")


def _names() -> dict[str, Any]:
    """Returns what generated code refers to."""
    return {
        "Node": Node, "add": PLAIN.add, "combine": node.combine, "constants": node.CONSTANTS,
        "literal": LITERAL, "op_add": op.add, "op_fma": op.fma, "op_select": op.select,
        "serials": serials, "splat": SPLAT,
        "__name__": __name__,  # its frames are of the package, where users are told of lines
    }  # fmt: skip


def _compiled(parameters: str, body: list[str], names: dict[str, Any]) -> Any:
    """Compiles a function with some statements, which refer to `names`."""
    exec(bytecode.compiled("\n".join([f"def run({parameters}):", *_indented(body)])), names)
    return names["run"]


def _opening(rule: Rule) -> tuple[list[str], list[str]]:
    """Returns the names of the inputs of a variable `v`, and the statements that read what its
    `rule` needs: operands `d0`, ..., inputs `x0`, ... and the result `y`."""
    count = len(rule.partials)
    inputs = [f"x{k}" for k in range(count)] if rule.keeps_inputs else []
    return inputs, [
        "dtype, size = v.dtype, v.size",
        f"{''.join([f'd{i}, ' for i in range(count)])}= v.deps",
        *[f"{', '.join(inputs)}, = v.inputs"][: len(inputs)],
        *["y = v.result"][: rule.keeps_result],
    ]


def tangent(rule: Rule) -> Any:
    """Returns the function `(v, members, sink)` that sums the tangents of a variable `v` over its
    operands among the members of a traversal."""
    names = _names() | {"guard": partial(guard, PLAIN)}
    inputs, body = _opening(rule)
    for i, lines in _contributions(rule, inputs, "t", "v", rule.guarded, names):
        body += [
            f"if d{i} is not None and (t := d{i}.grad) is not None and d{i} in members:",
            "    if t.size == size and (o := t.op) is not literal and o is not splat:",
            *_indented(_indented(lines)),
            "    else:",
            f"        sink.push(v, {i})",
        ]
    return _compiled("v, members, sink", body, names)


def direct(rule: Rule) -> Any:
    """Returns the function `(v, g, sink, guard, masked)` that passes a full gradient of a variable
    `v` on to its operands."""
    names = _names()
    inputs, body = _opening(rule)
    lines = _passing(rule, inputs, True, names)
    if not rule.masks:
        plain = _passing(rule, inputs, False, names)
        lines = ["if masked:", *_indented(lines), "else:", *_indented(plain)]
    return _compiled("v, g, sink, guard, masked", [*body, *lines], names)

"""Functions generated from the rules of element-wise operations, which run for every edge of a
traversal on plain nodes.

A rule is evaluated in an algebra of source text (`_Text`), which turns it into statements that
create its nodes directly, without calls. They are valid for gradients that are full: nodes of the
size of the result that are neither literals nor splats, and hence do not simplify. Other gradients
are left to the rule itself.
"""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

from ..jit.ir import node, op
from ..jit.ir.dtype import f32
from ..jit.ir.node import LITERAL, SPLAT, Node, serials
from ..jit.ir.op import Op, special_numbers
from ..jit.run import bytecode
from ..jit.tuples import NamedTuple
from .algebra import PLAIN, Guards, guard
from .graph import as_value
from .rules import RULES, Algebra, Rule, same


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


class _Function:
    """A function generated for a rule, of a variable `v` with the operands `d0`, ..., the inputs
    `x0`, ... and the result `y`."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.count = len(rule.partials)
        self.inputs = [f"x{k}" for k in range(self.count)] if rule.keeps_inputs else []
        self.names: dict[str, Any] = {
            "Node": Node, "add": PLAIN.add, "combine": node.combine, "constants": node.CONSTANTS,
            "guard": partial(guard, PLAIN), "literal": LITERAL, "op_add": op.add, "op_fma": op.fma,
            "op_select": op.select, "serials": serials, "splat": SPLAT,
        }  # fmt: skip

    def opening(self) -> list[str]:
        """Returns the statements that assign operands, inputs and result."""
        lines = [f"{''.join([f'd{i}, ' for i in range(self.count)])}= v.deps"]
        if self.inputs:
            lines.append(f"{', '.join(self.inputs)}, = v.inputs")
        if self.rule.keeps_result:
            lines.append("y = v.result")
        return lines

    def compiled(self, parameters: str, body: list[str]) -> Any:
        """Compiles the function with the given statements."""
        return _compiled(parameters, [*self.opening(), *body], self.names)

    def operands(self) -> list[int]:
        """Returns the numbers of the operands that receive gradients."""
        return [i for i, p in enumerate(self.rule.partials) if p is not None]

    def contribution(self, i: int, g: str, guarded: bool) -> "_Contribution":
        """Returns the contribution of a full gradient, where `dtype` and `size` are known."""
        text = _Text(self.names)
        values = [_Term(name, name) for name in ("y", *self.inputs)]
        derivative: Any = self.rule.partials[i]
        product = derivative(text, _Term(g, None, full=True), *values).name
        if derivative is same or not guarded:
            return _Contribution(text.lines, product, text.factors.get(product, ()))
        selected = _creation("c", "op_select", "dtype", "size", ["where", "zero", product])
        return _Contribution([*text.lines, f"where, zero = guard({g})", *selected], "c")


class _Contribution(NamedTuple):
    """Statements that compute a full contribution to a gradient, and its name. If the last of them
    multiplies, `factors` are their number and the names of the factors."""

    lines: list[str]
    name: str
    factors: tuple = ()

    def added(self, target: str, otherwise: str = "") -> list[str]:
        """Returns statements that add it to the gradient of a variable; a product is added by a
        fused multiplication. If the variable is one entry of several, the statement `otherwise`
        adds it."""
        count, *factors = self.factors or (0,)
        start = len(self.lines) - count
        product = self.lines[start:]
        op_, deps = ("op_fma", [*factors, "before"]) if count else ("op_add", ["before", self.name])
        single = []
        if otherwise:
            single = [f"elif {target}.size != size:", *_indented([*product, otherwise])]
        return [
            *self.lines[:start],
            f"before = {target}.grad",
            f"if before is None{otherwise and f' and {target}.size == size'}:",
            *_indented([*product, f"{target}.grad = {self.name}"]),
            *single,
            "elif (o := before.op) is literal or o is splat:",
            *_indented([*product, f"{target}.grad = add(before, {self.name})"]),
            "else:",
            *_indented(_creation("total", op_, "dtype", "size", deps)),
            f"    {target}.grad = total",
        ]


def _compiled(parameters: str, body: list[str], names: dict[str, Any]) -> Any:
    """Compiles a function with some statements, which refer to `names`."""
    text = "\n".join([f"def run({parameters}):", *_indented(body)])
    names["__name__"] = __name__  # its frames are of the package, where users are told of lines
    exec(bytecode.compiled(text), names)
    return names["run"]


def _passing(f: _Function, masked: bool) -> list[str]:
    """Returns the statements that pass a full gradient `g` on; if it is `masked`, it may be 0 in
    some lanes, and so may those further along."""
    guarded = f.rule.guarded or (masked and f.rule.product)
    lines = []
    for i in f.operands():
        c = f.contribution(i, "g", guarded)
        added = c.added(f"d{i}", f"sink.accumulate(d{i}, {c.name}, size)")
        if masked:
            added.append(f"sink.masked.add(d{i})")
        lines += [f"if d{i} is not None:", *_indented(added)]
    return lines


def _backward(rule: Rule) -> Any:
    """Returns the function `(v, g, sink, guard, masked)` that passes a full gradient on."""
    f = _Function(rule)
    lines = _passing(f, True)
    if not rule.masks:
        lines = ["if masked:", *_indented(lines), "else:", *_indented(_passing(f, False))]
    return f.compiled("v, g, sink, guard, masked", ["dtype, size = v.dtype, v.size", *lines])


_INLINE = "mul", "add", "fma", "sub", "sin"
"""The operations whose rules are part of `sweep`, which saves a call for each."""


@cache
def sweep() -> Any:
    """Returns the function `(variables, sink)` that visits variables, last one first: what
    `GradientSink.visit` does for each. It runs for every edge, so it passes on full gradients
    itself."""
    names: dict[str, Any] = {"as_value": as_value, "Guards": Guards}
    cases = [
        "elif masked and v in masked and rule.direct is not None:",
        "    rule.direct(v, g, sink, guard, True)",
    ]
    for rule in [RULES[op.TABLE[name]] for name in _INLINE]:
        f = _Function(rule)
        body = [*f.opening(), "dtype = v.dtype", *_passing(f, rule.masks)]
        cases += [f"elif rule is {rule.name}_rule:", *_indented(body)]
        names |= {f"{rule.name}_rule": rule, **f.names}
    visit = [
        "rule, g, size = v.rule, v.grad, v.size",
        "if rule is None:",
        "    continue",
        "if g is None or g.size != size or (o := g.op) is literal or o is splat:",
        "    general(v, rule)",
        "    continue",
        *cases,
        "elif (run := rule.direct) is not None:",
        "    run(v, g, sink, guard, False)",
        "elif rule.elementwise or rule.keeps_gradient:",
        "    general(v, rule)",
        "    continue",
        "else:",
        "    sink.var = v",
        "    sink.masking = rule.masks or v in masked",
        "    rule.backward(v, as_value((g, v.grad_var)), sink)",
        "    sink.masking = False",
        "if clears:",
        "    v.grad = v.grad_var = None",
        "else:",
        "    sink.clear(v, rule)",
    ]
    body = [
        "masked, general, clears, v = sink.masked, sink.visit, sink.clears, None",
        "guard = Guards()",
        "try:",
        "    for v in reversed(variables):",
        *_indented(_indented(visit)),
        "except BaseException:",
        "    sink.var = v",
        "    raise",
    ]
    return _compiled("variables, sink", body, names)


def _forward(rule: Rule) -> Any:
    """Returns the function `(v, members, sink)` that sums the tangents of a variable over the
    operands among the members of a traversal."""
    f = _Function(rule)
    lines = ["dtype, size = v.dtype, v.size"]
    for i in f.operands():
        c = f.contribution(i, "t", rule.guarded)
        lines += [
            f"if d{i} is not None and (t := d{i}.grad) is not None and d{i} in members:",
            "    if t.size == size and (o := t.op) is not literal and o is not splat:",
            *_indented(_indented(c.added("v"))),
            "    else:",
            f"        sink.push(v, {i})",
        ]
    return f.compiled("v, members, sink", lines)


Rule.compilers.update(direct=_backward, tangent=_forward)

"""The identities in the table of operations hold in all ways in which a node is made: by
`node.combine`, by operators in Python and in native code, and by generated rules of derivatives."""

import itertools
from typing import Any

import pytest

from drjit.ad import generated
from drjit.array import inline, native_operators, table
from drjit.array.leaf import wrap
from drjit.jit.cpu import warm_up
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node, op

CLASSES = {cls._dtype: cls for cls in (table.build("llvm", n) for n in table.LEAF_NAME.values())}
ROWS = [
    (o, t)
    for o in op.TABLE.values()
    for t in CLASSES
    if o.accepts(t) and (o in node.SIMPLIFY or o in node.WITH_LITERAL)
]
VALUES = [0, 1, -1, 2]
of_rows = pytest.mark.parametrize("o, t", ROWS, ids=lambda row: row.name)


@pytest.fixture(params=["native", "python"])
def way(request, monkeypatch):
    if native_operators._installed is None and (places := warm_up.places(native_operators)):
        native_operators.install(places)
    monkeypatch.setattr(native_operators._operators, "off", request.param == "python")


def described(n, nodes):
    """What a node computes from some nodes."""
    if n in nodes:
        return nodes.index(n)
    return n.op, n.dtype, n.size, [described(d, nodes) for d in n.deps], repr(n.data)


def literals(t):
    values = [*VALUES, -0.0, 2.5] if t.is_float else VALUES
    return [node.literal(t, v, size) for v in values for size in (1, 3)]


def computed(t):
    return [node.make(op.lane, t, size) for size in (1, 3)]


def simplified(o, nodes):
    return described(node.combine(o, tuple(nodes)), nodes)


def recorded(o, *args):
    nodes = [a._node for a in args if hasattr(a, "_node")]
    return described(inline.RECORDED[o](*args)._node, nodes)


@of_rows
def test_the_table(o, t):
    x = node.make(op.lane, t, 3)
    for number, kept in ((o.neutral, True), (o.absorbing, False)):
        if number is not None and (kept or not t.is_float):
            c = node.literal(t, number)
            for nodes in ((x, c), (c, x))[: 1 + o.commutative]:
                found = node.combine(o, nodes)
                assert found is x if kept else (found.op, found.data) == (node.LITERAL, c.data)
    one = node.make(op.lane, t, 1)
    if o.idempotent:
        mask = [node.make(op.lane, dt.mask, 3)] if o is op.select else []
        assert node.combine(o, (*mask, x, x)) is x
        assert node.combine(o, (*mask, one, one)).size == (3 if mask else 1)


@of_rows
def test_operators(o, t, way):
    types = [dt.mask, t, t] if o.result == "second" else [t] * o.arity
    choices: list[Any] = [[*literals(t), *computed(t)] for t in types]
    if o.arity > 1:
        choices[-1].append(None)  # the same as the one before
    for nodes in itertools.product(*choices):
        nodes = [n or nodes[-2] for n in nodes]
        arrays = [wrap(CLASSES[n.dtype], n) for n in nodes]
        assert recorded(o, *arrays) == simplified(o, nodes), nodes


@of_rows
def test_operators_on_numbers(o, t, way):
    if o.arity != 2 or t.is_mask:
        return
    for n in computed(t):
        x = wrap(CLASSES[t], n)
        for value in (*VALUES, *[-0.0, 2.5] * t.is_float, *[t.high] * t.is_int):
            if t.is_float or t.low <= value <= t.high:
                number = node.literal(t, value)
                for args, nodes in ((x, value), (n, number)), ((value, x), (number, n)):
                    assert recorded(o, *args) == described(node.combine(o, nodes), [n]), args


@pytest.mark.parametrize("o, t", [r for r in ROWS if r[0].arity == 1], ids=lambda row: row.name)
def test_operators_applied_twice(o, t, way):
    for n in computed(t):
        x = inline.RECORDED[o](wrap(CLASSES[t], n))
        assert inline.RECORDED[o](x)._node is n is node.combine(o, (x._node,))


@pytest.mark.parametrize("t", [dt.f16, dt.f32, dt.f64], ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "neg", "select"])
def test_generated_rules(name, t):
    o, Term = op.TABLE[name], generated._Term
    g, m, x = Term("g", None, full=True), Term("m", "m"), Term("x", "x")
    first: list[Any] = [m] if name == "select" else []
    choices: list[Any] = [g, x, *VALUES]
    full, masks = node.make(op.lane, t, 3), [*literals(dt.mask), *computed(dt.mask)]
    for chosen in itertools.product(choices, repeat=min(o.arity, 2)):
        if not {g, x} & {*chosen}:
            continue
        names = generated._names()
        text = generated._Text(names)
        terms = [*first, *[c if type(c) is Term else text.number(x, c) for c in chosen]]
        result = text(o, *terms).name
        run = generated._compiled("g, x, m, dtype, size", [*text.lines, f"return {result}"], names)
        for n in [*literals(t), *computed(t), full, node.make(op.neg, t, 3, (full,))]:
            for mask in masks if first else masks[-1:]:
                values: dict[Any, Any] = {g: full, m: mask, x: n}
                nodes = [values.get(c) or node.literal(t, c) for c in (*first, *chosen)]
                wanted = described(node.combine(o, tuple(nodes)), [full, n, mask])
                assert described(run(full, n, mask, t, 3), [full, n, mask]) == wanted

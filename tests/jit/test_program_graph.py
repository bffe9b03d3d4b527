"""Native code goes through the nodes of large programs. It finds what Python finds, and programs
that differ are different ones for both."""

import math
import threading

import numpy as np
import pytest
from helpers import growth

import drjit as dr
import drjit.nn as nn
from drjit.jit import substitutes
from drjit.jit.cpu import plans, warm_up
from drjit.jit.device import current
from drjit.jit.run import schedule
from drjit.jit.text import structure
from drjit.llvm import Array3f, Bool, Float, Float64, Int, UInt, UInt64
from drjit.llvm.ad import Float as ADFloat

pytestmark = pytest.mark.skipif(not warm_up.places(plans), reason="other layout of objects")


@pytest.fixture(autouse=True)
def native(monkeypatch):
    known = plans.KnownPrograms(warm_up.places(plans))
    monkeypatch.setattr(substitutes, "collect_nodes", known.collect_nodes)
    monkeypatch.setattr(substitutes, "remake", known.remake)
    schedule.forget_kernels()


def chain(x, y):
    for k in range(50):
        x = dr.fma(x, 1 + k % 7, dr.sin(y)) - 0.5
    return x


def special(x, y):
    i = dr.arange(UInt, 6) % 3
    total = dr.zeros(Float, 3)
    dr.scatter_add(total, x, i)
    found = dr.gather(Float, x, i) + dr.sum(y)
    return Array3f(found, dr.select(found > 1, Float(UInt(found)), y), dr.lerp(x, y, 0.5))


def loop(x, y):
    return dr.while_loop((x, y, UInt(0)), lambda a, b, i: i < 3, lambda a, b, i: (b, a * 2, i + 1))


def leaves(value):
    if isinstance(value, Float | Float64 | Int | UInt | UInt64 | Bool):
        return [value]
    return [leaf for part in value for leaf in leaves(part)]


def facts(roots):
    graph = structure.ProgramGraph(roots)
    ids = [n.id for n in graph.order]
    parts = graph.order, graph.inputs, graph.literals, graph.noted, graph.checks
    return graph.key(current()), graph.devices(), graph.open, ids, *parts


def inside(x, y):
    x = dr.clip(x, 0, 2**40)
    return dr.while_loop(
        (x, UInt64(1) << 3),
        lambda a, i: i < 80,
        lambda a, i: (dr.gather(Float, y, UInt(i) % 6), i + 9),
    )


def vectors(x, y):
    v = nn.CoopVec(x, y, 1) * 2 + x
    return list(dr.maximum(v, 0.5))


@pytest.mark.parametrize("program", [chain, special, loop, inside, vectors])
def test_both_find_the_same(program):
    x, y = Float(1, 2, 3, 4, 5, 6), dr.opaque(Float, 0.5, 6)
    roots = [v._node for v in leaves(program(x, y))]
    collect, words = substitutes.collect_nodes, []
    substitutes.collect_nodes = lambda *lists: words.append(collect(*lists)) or words[-1]
    native, substitutes.collect_nodes = facts(roots), None
    assert None not in words and facts(roots) == native


@pytest.mark.parametrize("program", [chain, special, loop])
def test_results(program):
    values = []
    for k in range(3):
        x, y = Float(1, 2, 3, 4, 5, 6 + k), dr.opaque(Float, 0.5, 6)
        made = program(x, y)
        dr.eval(made)
        values.append([v.numpy() for v in leaves(made)])
    substitutes.collect_nodes = None
    for k in range(3):
        x, y = Float(1, 2, 3, 4, 5, 6 + k), dr.opaque(Float, 0.5, 6)
        for found, v in zip(values[k], leaves(program(x, y)), strict=True):
            assert found.tolist() == v.numpy().tolist()


x, i, w = Float(1, 2), Int(3, 4), UInt64(5, 6)
DIFFERENT = [
    (x + 1 + 2, x + 1 + 1),
    (x * 0.0, x * 0.0 + x),
    (x * 0.0 + x * -0.0, x * 0.0 + x * 0.0),
    (i << 1, i << 2),
    (i << 1, i >> 1),
    (Float64(x), Float(i)),
    (Float(i), Float(w)),
    (w + (1 << 63), w * (1 << 63)),
    (x + x, x + Float(3, 4)),
    (x + Float(3, 4), x + Float(3)),
    (dr.gather(Float, x, UInt(i)), dr.gather(Float, x, UInt(i), Bool(True, False))),
    (dr.arange(Int, 2), dr.arange(Int, 2) + i),
]


@pytest.mark.parametrize("pair", DIFFERENT)
def test_other_programs_have_other_keys(pair):
    for _ in range(2):
        graphs = [structure.ProgramGraph([v._node]) for v in (*pair, pair[0])]
        a, b, again = [graph.key(current()) for graph in graphs]
        assert a != b and again == a
        substitutes.collect_nodes = None


@pytest.mark.parametrize("number", [math.inf, -math.inf, 0.0, -0.0, math.nan, 1e-45])
def test_numbers(number):
    for scale in (number, 2.0):
        value = Float(1, 2) * 3 * scale + scale
        expected = np.array([3, 6], np.float32) * np.float32(scale) + np.float32(scale)
        np.testing.assert_array_equal(value.numpy(), expected)


def test_a_number_that_another_one_equalled():
    for a, b in ((2.5, 2.5), (2.5, 3.5), (4.5, 4.5)):
        value = chain(Float(1, 2) * a, dr.opaque(Float, 0, 2) + b)
        substitutes.collect_nodes, saved = None, substitutes.collect_nodes
        expected = chain(Float(1, 2) * a, dr.opaque(Float, 0, 2) + b).numpy()
        substitutes.collect_nodes = saved
        assert value.numpy().tolist() == expected.tolist()


def test_long_programs_and_gradients():
    p = ADFloat(0.5, 0.25)
    dr.enable_grad(p)
    for _ in range(3):
        y = p
        for k in range(2000):
            y = y * 0.999 + 0.001 * (k % 3)
        dr.backward(dr.sum(y))
        assert p.grad.numpy() == pytest.approx([0.999**2000] * 2, rel=1e-4)
        dr.clear_grad(p)


def test_nothing_is_kept():
    x, y = Float(1, 2, 3), dr.opaque(Float, 0.5, 3)

    def run():
        for _ in range(100):
            dr.eval(chain(x, y), special(Float(range(6)), y[0]))

    assert growth(run) < 20


def test_threads():
    errors = []

    def work(k):
        try:
            for _ in range(30):
                v = chain(Float(k, k + 1), dr.opaque(Float, 0.5, 2))
                assert v.numpy().tolist() == expected[k]
        except BaseException as e:
            errors.append(e)

    substitutes.collect_nodes, saved = None, substitutes.collect_nodes
    expected = [chain(Float(k, k + 1), dr.opaque(Float, 0.5, 2)).numpy().tolist() for k in range(4)]
    substitutes.collect_nodes = saved
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_nodes_of_templates(monkeypatch):
    def numbers():
        rng = dr.rng(seed=7)
        return [rng.normal(Float, 5), rng.random(Array3f, (3, 4)), rng.random(Float64, 1)]

    found = numbers()
    assert growth(lambda: [numbers() for _ in range(20)] and None) < 10
    monkeypatch.setattr(substitutes, "remake", None)
    for a, b in zip(found, numbers(), strict=True):
        assert a.numpy().tolist() == b.numpy().tolist()

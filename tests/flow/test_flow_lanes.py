"""Values and gradients of loops, branches and calls against an interpreter that executes programs
lane by lane: values of size 1 beside lanes, in every construct that differentiates inside of
others."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_interpreter import (
    Accumulate,
    Assign,
    Backward,
    If,
    Inner,
    Lanes,
    Own,
    Program,
    Scatter,
    Switch,
    Traced,
    While,
)  # fmt: skip

import drjit as dr
import drjit.llvm.ad as types
from drjit import nn

NUMBERS = st.sampled_from([0.5, 1.5, -1.0, 2.0])
LEAF = st.sampled_from("srv").map(lambda name: ("leaf", name))
INDEX = st.tuples(st.sampled_from(["at", "lane"]), st.integers(1, 3))


@st.composite
def expressions(draw, names, depth=2, net=True):
    """Expressions in leaves and names."""
    kinds = ["leaf", "leaf", "const", "lane", "gather"] + ["name"] * 2 * bool(names)
    if depth:
        kinds += ["add", "sub", "mul", "mul", "where", "fixed"] + ["net"] * net
    kind = draw(st.sampled_from(kinds))
    inner = expressions(names, depth - 1, False)
    if kind == "leaf":
        return draw(LEAF)
    if kind == "const":
        return kind, draw(NUMBERS)
    if kind == "lane":
        return (kind,)
    if kind == "name":
        return kind, draw(st.sampled_from(names))
    if kind == "gather":
        return kind, draw(INDEX)
    if kind == "fixed":
        return kind, draw(inner)
    if kind == "where":
        return kind, draw(conditions(names, 0)), draw(inner), draw(inner)
    if kind == "net":
        return kind, draw(st.integers(1, 2)), draw(st.integers(0, 1)), draw(inner), draw(inner)
    return kind, draw(inner), draw(inner)


def computed(*args):
    """Expressions that are more than a leaf or a name, which may be from outside: a statement
    replaces the gradients of such, once for all lanes."""
    return expressions(*args).filter(lambda e: e[0] not in ("leaf", "name", "where"))


@st.composite
def conditions(draw, names, depth=1):
    kind = draw(st.sampled_from(["below", "below", "positive", "flag"] + ["both"] * depth))
    if kind == "below":
        return kind, draw(st.integers(0, 3))
    if kind == "flag":
        return kind, draw(st.booleans())
    if kind == "positive":
        return kind, draw(expressions(names, 1, False))
    return kind, draw(conditions(names, 0)), draw(conditions(names, 0))


@st.composite
def statements(draw, names, depth, deep):
    """Statements that see the given names; what they differentiate depends on leaves alone unless
    it may be `deep`."""
    kinds = ["assign", "backward", "backward", "seed", "accumulate", "inner", "scatter", "own"]
    kinds += ["if", "while", "switch"] * 2 * bool(depth)
    if depth == 2:  # around loops, branches and calls, what has size 1 is executed only once
        kinds = ["assign", "if", "while", "switch"]
    kind, value = draw(st.sampled_from(kinds)), expressions(names)
    if kind == "assign":
        return Assign(draw(st.sampled_from(["a", "b", "c"])), draw(value))
    if kind in ("backward", "seed"):
        seed = draw(expressions(names, 1)) if kind == "seed" else None
        return Backward(draw(computed(names if deep else [])), seed)
    if kind == "accumulate":
        return Accumulate(draw(st.sampled_from("sr")), draw(expressions(names, 1)))
    if kind == "inner":
        function = draw(computed(["z"], 2, False))
        return Inner(draw(st.sampled_from("ac")), draw(value), function, draw(st.booleans()))
    if kind == "scatter":
        return Scatter(draw(value), draw(INDEX))
    if kind == "own":
        return Own(draw(expressions(names if deep else [])), draw(INDEX), draw(st.integers(1, 4)))
    body = bodies(names, depth - 1, deep)
    if kind == "if":
        condition = draw(conditions(names))
        if depth == 2:
            condition = "both", ("below", draw(st.integers(1, 4))), condition
        return If(condition, draw(body), draw(body), draw(st.booleans()))
    if kind == "while":
        return While(draw(st.integers(1, 3)), draw(body), draw(st.booleans()))
    return Switch(draw(INDEX), tuple(draw(st.lists(body, min_size=1, max_size=3))))


@st.composite
def bodies(draw, names, depth, deep, least=0):
    body, names = [], [*names]
    for _ in range(draw(st.integers(least, 2))):
        s = draw(statements(names, depth, deep))
        body.append(s)
        if isinstance(s, (Assign, Inner)) and s.name not in names:
            names.append(s.name)
    return tuple(body)


@st.composite
def programs(draw, deep=False):
    start = {"a": draw(NUMBERS), "b": draw(st.sampled_from([0.5, (1.0, -0.5, 0.5, 2.0)]))}
    return Program(draw(st.sampled_from([1, 3, 3, 4])), draw(bodies(["a", "b"], 2, deep, 1)), start)


def compare(program, mode, half=False, **options):
    found = Traced(program, types, mode, half, **options).results()
    for name, expected in Lanes(program).results().items():
        rtol = 2e-2 if half else 1e-4
        assert found[name] == pytest.approx(expected, rel=rtol, abs=rtol), name


MODES = ["symbolic", "evaluated"]


@pytest.mark.parametrize("mode", MODES)
@given(program=programs())
@settings(max_examples=30)
def test_programs(program, mode, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    compare(program, mode)


@given(program=programs(deep=True))
@settings(max_examples=30)
def test_bodies_propagate_to_those_around_them(program, monkeypatch):
    """In evaluated mode: symbolic bodies do not."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    compare(program, "evaluated")


@given(program=programs())
@settings(max_examples=10)
def test_programs_that_drop_lanes(program, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    compare(program, "evaluated", compress=True)


@pytest.mark.sweep
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@settings(max_examples=1000)
def test_many_programs(data, mode, half, deep, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    compare(data.draw(programs(deep and mode == "evaluated")), mode, half)


@pytest.mark.parametrize("mode", MODES)
@given(program=programs())
@settings(max_examples=3)
def test_compiled_programs(program, mode, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    compare(program, mode)


# ---- What single statements give, in closed form


def run(kind, mode, active, body, args=()):
    """Runs a body once in the first `active` of four lanes."""
    U = types.UInt32

    def other(*_):
        return U(0)

    def once(*given):
        body(*given)
        return U(0)

    lane = dr.arange(U, 4)
    if kind == "if":
        dr.if_stmt(args, lane < active, once, other, mode=mode)
    elif kind == "switch":
        dr.switch(dr.minimum(lane // active, 1), [once, other], *args, mode=mode)
    else:

        def step(i, *given):
            body(*given)
            return i + 1, *given

        state = dr.minimum(lane // active, 1), *args
        dr.while_loop(state, lambda i, *_: i < 1, step, mode=mode)


CONSTRUCTS = pytest.mark.parametrize("kind", ["if", "switch", "while"])


def tracked(*values):
    x = types.Float(*values)
    dr.enable_grad(x)
    return x


@CONSTRUCTS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    "layers, expected", [(1, [0.5, 0.25, 0, 0, 1, 0]), (2, [6.5, 8.75, 1, 0.5, 2, 2])]
)
def test_networks_of_single_values(kind, mode, half, layers, expected):
    """A matrix receives the gradient of each active lane once."""
    F, tensor = (types.Float16, types.TensorXf16) if half else (types.Float, types.TensorXf)
    A, b = nn.pack(tensor([[1, 2], [3, 4]]), tensor([5, 6]), layout="training")
    dr.enable_grad(A.buffer)

    def body():
        x = nn.CoopVec(F(0.5), F(0.25))
        for _ in range(layers):
            x = nn.matvec(A, x, b)
        dr.backward(next(iter(x)))

    run(kind, mode, 3, body)
    assert list(A.buffer.grad) == [3 * g for g in expected]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("same", [False, True])
def test_calls_with_a_constant_index(mode, index, same):
    """A function that is not called leaves the gradients of the one that is."""
    x = tracked(2)
    factors = [3, 3] if same else [3, 4]
    targets = [lambda k=k: dr.backward(x * k) or types.UInt32(0) for k in factors]
    dr.switch(types.UInt32(index), targets, mode=mode)
    assert list(x.grad) == [factors[index]]


def _one(x, scatter=dr.scatter_add, size=3, at=0):
    memory = dr.zeros(types.Float, size)
    scatter(memory, x * x, types.UInt32(at))
    dr.backward(memory)


_entry = partial(_one, size=1)
_replaced = partial(_one, scatter=dr.scatter, at=2)


def _two(x):
    memory = dr.zeros(types.Float, 3)
    dr.scatter_add(memory, x * x, types.UInt32(0))
    dr.scatter_add(memory, x * x * x, types.UInt32(1))
    assert dr.grad_enabled(memory)
    dr.backward(memory)


def _weighted(x):
    memory = dr.zeros(types.Float, 3)
    dr.scatter_add(memory, x * x, types.UInt32(1))
    dr.set_grad(memory, types.Float(5, 6, 7))
    dr.enqueue(dr.ADMode.Backward, memory)
    dr.traverse(dr.ADMode.Backward)


def _nested(x):
    memory = dr.zeros(types.Float, 3)

    def add():
        dr.scatter_add(memory, x * x, types.UInt32(0))
        return types.UInt32(0)

    dr.if_stmt((), x > 0, add, lambda: types.UInt32(0))
    dr.backward(memory)


@CONSTRUCTS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "body, expected",
    [(_one, 4), (_entry, 4), (_two, 16), (_weighted, 24), (_replaced, 4), (_nested, 4)],
)
def test_memory_that_a_body_makes(kind, mode, body, expected):
    """Its gradient reaches what each active lane has written."""
    x = tracked(2)
    run(kind, mode, 3, lambda: body(x))
    assert list(x.grad) == [3 * expected]
    x = tracked(2, 2, 2, 2)
    run(kind, mode, 3, body, (x,))
    assert list(x.grad) == [expected] * 3 + [0]


def test_a_gradient_of_overwritten_memory_is_refused():
    x = tracked(2)

    def body():
        memory = dr.zeros(types.Float, 3)
        dr.scatter(memory, x, types.UInt32(0))
        dr.scatter_add(memory, x * x, types.UInt32(0))
        dr.backward(memory)

    with pytest.raises(RuntimeError, match=r"not by dr\.scatter_add alone"):
        run("if", "symbolic", 3, body)


@CONSTRUCTS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("before", [0, 5])
def test_arguments_that_are_reached_several_times(kind, mode, times, before):
    x = tracked(2, 3, 4, 5)
    x.grad = before

    def body(x):
        for _ in range(times):
            dr.backward(x * 2)

    run(kind, mode, 3, body, (x,))
    assert list(x.grad) == [before + 2 * times] * 3 + [before]


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_a_body_assigns_to_arguments(mode):
    """They count in the lanes that execute it."""
    x = tracked(2, 3, 4, 5)
    x.grad = 5

    def assign(x):
        dr.set_grad(x, 3)
        dr.backward(x * 2)

    run("if", mode, 3, assign, (x,))
    assert list(x.grad) == [5, 5, 5, 5]
    x = tracked(2, 3, 4, 5)

    def add(x):
        dr.accum_grad(x, 3)
        dr.backward(x * 2)

    for kind in ("if", "switch"):
        dr.clear_grad(x)
        run(kind, mode, 3, add, (x,))
        assert list(x.grad) == [5, 5, 5, 0]


@CONSTRUCTS
@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_lanes_add_to_a_single_value(kind, mode):
    x = tracked(2)
    run(kind, mode, 3, lambda: dr.accum_grad(x, 0.5))
    assert list(x.grad) == [1.5]


@CONSTRUCTS
@pytest.mark.parametrize("mode", MODES)
def test_a_derivative_within_a_lane(kind, mode):
    """A value of size 1 that a body makes has a gradient in each lane."""
    x, found = tracked(2), dr.zeros(types.Float, 4)

    def body(lane):
        z = types.Float(3)
        dr.enable_grad(z)
        dr.backward(z * z * x)
        dr.scatter(found, dr.detach(z.grad), lane)

    run(kind, mode, 3, body, (dr.arange(types.UInt32, 4),))
    assert list(found) == [12, 12, 12, 0]
    assert list(x.grad) == [27]


@CONSTRUCTS
@pytest.mark.parametrize("inner", ["if", "switch"])
def test_a_single_value_of_the_body_around(kind, inner):
    """Of three lanes, two propagate a gradient to what all three have computed."""
    x = tracked(2)

    def body(lane):
        y = x * x

        def propagate(*_):
            dr.backward(y * y, dr.ADFlag.ClearVertices)
            return types.UInt32(0)

        others = lambda *_: types.UInt32(0)  # noqa: E731
        if inner == "if":
            dr.if_stmt((), lane < 2, propagate, others, mode="evaluated")
        else:
            dr.switch(lane // 2, [propagate, others], lane, mode="evaluated")

    run(kind, "evaluated", 3, body, (dr.arange(types.UInt32, 4),))
    assert list(x.grad) == [2 * 4 * 8]


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_no_lane_makes(mode):
    """Its functions combine arguments with arrays of size 1."""
    x = dr.opaque(types.Float, 3)

    def call(v):
        return dr.switch(types.UInt32(0), [lambda v: v * x + types.Float(2)], v, mode=mode)

    v = types.Float(1, 2)
    found = dr.if_stmt((v,), dr.opaque(types.Bool, False, 2), call, lambda v: v, mode=mode)
    assert list(found) == [1, 2]


@CONSTRUCTS
@pytest.mark.parametrize("size", [3, 4])
def test_a_sum_that_lanes_share(kind, size):
    """Each active lane adds to all entries."""
    x = tracked(*range(size))
    run(kind, "evaluated", 3, lambda: dr.backward(dr.dot(x, x) * types.Float(2)))
    assert list(x.grad) == [12 * k for k in range(size)]
    with pytest.raises(RuntimeError, match="the gradient of a reduction to one entry"):
        run(kind, "symbolic", 3, lambda: dr.backward(dr.dot(x, x) * types.Float(2)))

"""Derivatives of loops and branches, in both directions, against finite differences."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from directional import check
from helpers import launched
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.jit.cpu import variants
from drjit.jit.ir import node
from drjit.jit.target import numpy as numpy_target
from drjit.llvm.ad import PCG32, Array2f64, Bool, Float, TensorXf64, UInt
from drjit.llvm.ad import Float64 as F

MODES = ("evaluated", "symbolic")
COUNTS = UInt(0, 1, 3, 7, 2)
X = F(0.7, 1.3, 0.6, 1.1, 0.9)
Y = F(1.2, 0.4, 1.8, 0.8, 1.5)
ONE = F(0.8)
TABLE = F(0.7, 1.3, 0.6, 1.1, 0.9, 1.4, 0.5, 1.2)


def loop(mode, cond, body, *state, **kwargs):
    return dr.while_loop(state, cond, body, mode=mode, **kwargs)


def times(mode, body, *state, **kwargs):
    """The state after as many iterations as `COUNTS` says; the body gets the number of one."""
    step = lambda i, *s: (i + 1, *body(i, *s))  # noqa: E731
    return loop(mode, lambda i, *_: i < COUNTS, step, UInt(0), *state, **kwargs)[1:]


@dataclass
class Particle:
    p: Array2f64
    hits: UInt


def structure(mode, x):
    def body(i, s):
        s.p += Array2f64(s.p.y, 0.1) * x
        s.hits += 1
        return (s,)

    s = times(mode, body, Particle(Array2f64(x, 1), UInt(0)))[0]
    return s.p.x * s.p.y


def vector(mode, x):
    a = times(mode, lambda i, a: (Array2f64(a.y, dr.sin(a.x) + a.y),), Array2f64(x, x * 2))[0]
    return dr.dot(a, a)


def tensor(mode, x):
    return times(mode, lambda i, t: (t * t * 0.5 + 0.1,), TensorXf64(x, (5, 1)))[0].array


def nested(mode, x, **kwargs):
    def body(i, y):
        z = loop(
            mode, lambda j, z: j < i, lambda j, z: (j + 1, z * x + 0.1), UInt(0), F(1), **kwargs
        )[1]
        return (y + z * y,)

    return times(mode, body, F(1), **kwargs)[0]


def nested_state(mode, x):
    """All variables are part of the state of both loops, as `@dr.syntax` has it."""

    def inner(i, y, x):
        _, y, _, _ = loop(
            mode,
            lambda j, y, i, x: j < i,
            lambda j, y, i, x: (j + 1, y + dr.sin(x * F(j + i)), i, x),
            UInt(0), y, i, x,
        )  # fmt: skip
        return y * x, x

    return times(mode, inner, F(1), x)[0]


def branch_in_loop(mode, x):
    def body(i, y):
        even = (i & 1) == 0
        return (
            dr.if_stmt(
                (i, y), even, lambda i, y: y * x, lambda i, y: y + dr.sin(x * F(i)), mode=mode
            ),
        )

    return times(mode, body, F(1))[0]


def sum_with_branch(mode, x):
    def body(i, y):
        odd = (i & 1) == 1
        return (
            dr.if_stmt((i, y), odd, lambda i, y: y + dr.sin(x * F(i)), lambda i, y: y, mode=mode),
        )

    return times(mode, body, F(1), max_iterations=-1)[0]


def loop_in_branch(mode, x):
    return dr.if_stmt((x,), COUNTS < 3, lambda x: nested(mode, x), lambda x: x * x, mode=mode)


def call_in_loop(mode, x):
    functions = [lambda y, x: y * x, lambda y, x: dr.sin(y), lambda y, x: y + x * x]
    return times(mode, lambda i, y: (dr.switch(i % 3, functions, y, x, mode=mode),), F(1))[0]


def loop_in_call(mode, x):
    functions = [lambda x: x * 2, lambda x: nested(mode, x), lambda x: x * x]
    return dr.switch(COUNTS % 3, functions, x, mode=mode) if mode == "symbolic" else dr.select(
        COUNTS % 3 == 0, x * 2, dr.select(COUNTS % 3 == 1, nested(mode, x), x * x)
    )  # fmt: skip


def newton(mode, x):
    def body(y, going):
        new = 0.5 * (y + x / y)
        return new, dr.abs(new - y) > 1e-12

    return loop(mode, lambda y, going: going, body, x * 0 + 1, Bool(True))[0]


def random_walk(mode, x):
    return times(mode, lambda i, y, r: (y * x + r.next_float64(), r), F(1), PCG32(5))[0]


def wide_gather(mode, x):
    body = lambda i, y: (y * dr.norm(dr.gather(Array2f64, x, i % 4)),)  # noqa: E731
    return times(mode, body, F(1))[0]


# name -> function of the mode and the arguments that follow
CASES = {
    "product": (lambda m, x: times(m, lambda i, y: (y * x,), F(1))[0], X),
    "product, state": (lambda m, x: times(m, lambda i, y, x: (y * x, x), F(1), x)[0], X),
    "product, one": (lambda m, x: times(m, lambda i, y: (y * x,), F(1))[0], ONE),
    "initial": (lambda m, x, y: times(m, lambda i, y: (dr.sin(y * x) + y,), y)[0], X, Y),
    "initial, one": (lambda m, x, y: times(m, lambda i, y: (dr.sin(y * x * x) + y,), y)[0], ONE, Y),
    "all state, one": (
        lambda m, x, y: times(m, lambda i, y, x: (dr.sin(y * x * x) + y, x), y, x)[0], ONE, Y,
    ),
    "sum": (lambda m, x: times(m, lambda i, y: (y + dr.sin(x * x * F(i)),), F(0))[0], X),
    "sum, one": (lambda m, x: times(m, lambda i, y: (y + dr.sin(x * x * F(i)),), F(0))[0], ONE),
    "sum, state": (
        lambda m, x, y: times(
            m, lambda i, y, x: (y - dr.sin(x * F(i)), x), y, x, max_iterations=-1
        )[0], X, Y,
    ),
    "sum, state, one": (
        lambda m, x, y: times(
            m, lambda i, y, x: (dr.fma(x, F(i), y), x), y, x, max_iterations=-1
        )[0], ONE, Y,
    ),
    "sums": (
        lambda m, x, y: (lambda a, b: a * b)(
            *times(m, lambda i, a, b: (x * x + a, b + x * y), F(0), F(1), max_iterations=-1)
        ), X, Y,
    ),
    "sum until": (
        lambda m, x: loop(m, lambda s: s < 5, lambda s: (s + x * x,), F(0), max_iterations=-1)[0],
        X,
    ),
    "bounded": (
        lambda m, x: times(m, lambda i, y: (y * x + 1,), F(1), max_iterations=10)[0], X,
    ),
    "bounded by too little": (
        lambda m, x: times(m, lambda i, y: (y * x + 1,), F(1), max_iterations=3)[0], X,
    ),
    "swap": (
        lambda m, x, y: (lambda a, b: a + 2 * b)(*times(m, lambda i, a, b: (b, a), x, y)), X, Y,
    ),
    "forgets": (
        lambda m, x, y: (lambda a, b: a + 2 * b)(*times(m, lambda i, a, b: (F(1), a * b), x, y)),
        X, Y,
    ),
    "unchanged": (lambda m, x: times(m, lambda i, y, x: (y * 2, x), F(1), x)[1] * x, X),
    "unused": (lambda m, x: times(m, lambda i, y, z: (y * x, z + 1), F(1), F(0))[1] * x, X),
    "condition": (lambda m, x: loop(m, lambda x: x < 20, lambda x: (x * x + 1,), x)[0], X),
    "several": (
        lambda m, x, y: (lambda a, b, c: a * b + c)(
            *times(m, lambda i, a, b, c: (a * 0.5 + dr.sin(b), b + 0.1 * a, c + a), x, y, F(0))
        ), X, Y,
    ),
    "gather": (lambda m, t: times(m, lambda i, y: (y * dr.gather(F, t, i),), F(1))[0], TABLE),
    "gather, state": (
        lambda m, t: times(m, lambda i, y, t: (y * dr.gather(F, t, i), t), F(1), t)[0], TABLE,
    ),
    "gather, sum": (
        lambda m, t: times(m, lambda i, y: (y + dr.square(dr.gather(F, t, i)),), F(1))[0], TABLE,
    ),
    "gather, own": (
        lambda m, x: times(m, lambda i, y, x: (y * dr.gather(F, x, i % 5) + x, x), F(1), x)[0], X,
    ),
    "gather of vectors": (wide_gather, TABLE),
    "structure": (structure, X),
    "vector": (vector, X),
    "tensor": (tensor, X),
    "nested": (nested, X),
    "nested, one": (nested, ONE),
    "nested, bounded": (lambda m, x: nested(m, x, max_iterations=8), X),
    "nested, state": (nested_state, X),
    "nested, state, one": (nested_state, ONE),
    "branch in loop": (branch_in_loop, X),
    "branch in loop, one": (branch_in_loop, ONE),
    "branch in sum": (sum_with_branch, X),
    "loop in branch": (loop_in_branch, X),
    "call in loop": (call_in_loop, X),
    "loop in call": (loop_in_call, X),
    "newton": (newton, X),
    "random walk": (random_walk, X),
    "reduction behind": (
        lambda m, x: dr.sum(times(m, lambda i, y: (y * x,), F(1))[0]) * x, X,
    ),
    "branch": (
        lambda m, x, y: dr.if_stmt(
            (x, y), x > 1, lambda x, y: dr.sin(x) * y, lambda x, y: x * x - y, mode=m
        ), X, Y,
    ),
    "branch, captured": (
        lambda m, x: dr.if_stmt((), x > 1, lambda: dr.sin(x), lambda: x * x, mode=m), X,
    ),
    "branch, one": (
        lambda m, x: dr.if_stmt((x,), X > 1, lambda x: dr.sin(x), lambda x: x * x, mode=m), ONE,
    ),
    "branch, same": (
        lambda m, x: dr.if_stmt((x,), X > 1, lambda x: (x, x * 2), lambda x: (x, F(1)), mode=m), X,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mode", "target"),
    [
        *((name, "symbolic", "numpy") for name in CASES),
        # The evaluated mode runs kernels without loops, which other tests compile.
        *(
            pytest.param(name, "evaluated", "numpy", marks=[pytest.mark.sweep] * (k % 2))
            for k, name in enumerate(CASES)
        ),
        *(
            pytest.param(name, "symbolic", "compiled", marks=[pytest.mark.sweep] * (k % 2))
            for k, name in enumerate(CASES)
        ),
    ],
)
def test_derivatives(name, mode, target, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", target)
    function, *args = CASES[name]
    together = target == "compiled"  # what propagates is the same for all targets
    check(lambda *a: function(mode, *a), *args, together=together)


@pytest.mark.parametrize("compress", [False, True])
def test_compressed_loops(compress, tier):
    def f(x):
        return loop(
            "evaluated",
            lambda i, n, y, x: i < n,
            lambda i, n, y, x: (i + 1, n, y * x + 1, x),
            UInt(0), COUNTS, F(1), x,
            compress=compress,
        )[2]  # fmt: skip

    assert dr.check_grad(f, X)


@pytest.mark.parametrize("mode", MODES)
def test_infinite_derivatives_of_lanes_that_do_not_take_part(mode, tier):
    x = F(0, 4, 9)
    dr.enable_grad(x)
    y = dr.if_stmt((x,), x > 0, lambda x: dr.sqrt(x), lambda x: x * 3, mode=mode)
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), [3, 1 / 4, 1 / 6])
    x = F(0, 4)
    dr.enable_grad(x)
    y = loop(
        mode, lambda i, y: (i < 1) & (x > 0), lambda i, y: (i + 1, y + dr.sqrt(x)), UInt(0), x * 2
    )[1]
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), [2, 2.25])


@pytest.mark.parametrize("mode", MODES)
def test_results_that_do_not_depend_on_inputs_have_no_gradient(mode):
    x = F(1, 2)
    dr.enable_grad(x)
    _, t, y = loop(
        mode,
        lambda i, t, y: i < 3,
        lambda i, t, y: (i + 1, t + 0.5, y * x),
        UInt(0), F(0), F(1),
    )  # fmt: skip
    assert dr.grad_enabled(y)
    if mode == "symbolic":
        assert not dr.grad_enabled(t)
    with dr.suspend_grad():
        y = loop(mode, lambda i, y: i < 3, lambda i, y: (i + 1, y * x), UInt(0), F(1))[1]
    assert not dr.grad_enabled(y)


def test_sums_need_no_storage(monkeypatch):
    def stored(*_):
        raise AssertionError("a sum was stored")

    monkeypatch.setattr("drjit.flow.loop.gradient.trajectory", stored)
    for limit in (-1, None, 2000):
        x = F(0.5, 0.7)
        dr.enable_grad(x)
        y = loop(
            "symbolic",
            lambda i, y, x: i < 1000,
            lambda i, y, x: (i + 1, y + x * F(i), x),
            UInt(0), F(0), x,
            max_iterations=limit,
        )[1]  # fmt: skip
        dr.backward(y)
        np.testing.assert_allclose(x.grad.numpy(), 499500.0)


def test_what_is_no_sum_is_refused():
    x = F(0.5, 0.7)
    dr.enable_grad(x)
    y = dr.while_loop(
        (UInt(0), x), lambda i, y: i < 3, lambda i, y: (i + 1, y * x), ("i", "total"),
        max_iterations=-1,
    )[1]  # fmt: skip
    with pytest.raises(RuntimeError, match=r"max_iterations=-1.*variable 'total' is not such"):
        dr.backward(y)


@pytest.mark.parametrize(
    "body, count, expected",
    [
        (lambda y, x: y * x, 2, [2 + 2 * 3]),
        (lambda y, x: y * x, 3, [2 + 2 * 3 + 2 * 9]),
        (lambda y, x: y * x + dr.sin(x), 2, [2 + np.cos(3) + 2 * 3 + np.sin(3) + np.cos(3)]),
        (lambda y, x: y * y * x, 2, [4 + 12 * 12]),
        (lambda y, x: dr.detach(y) * x, 2, [2 + 2 * 3]),
    ],
)
@pytest.mark.parametrize("captured", [True, False])
def test_what_is_taken_for_a_sum(body, count, expected, captured, capfd):
    """With max_iterations=-1, gradients are sums over iterations in which the state is constant."""
    x = F(3)
    dr.enable_grad(x)
    if captured:
        state, own = (UInt(0), F(2)), lambda i, y: (i + 1, body(y, x))
    else:
        state, own = (UInt(0), F(2), x), lambda i, y, x: (i + 1, body(y, x), x)
    y = dr.while_loop(state, lambda i, *_: i < count, own, max_iterations=-1)[1]
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), expected)
    assert "max_iterations=-1" in capfd.readouterr().err


def test_bodies_that_refer_to_what_is_differentiable_are_known():
    """They are traced again where that is found, and only once in later calls."""
    traces = []
    x = F(0.5, 2)
    dr.enable_grad(x)

    def body(i, y):
        traces.append(1)
        return i + 1, y * x

    for count in (2, 1, 1):
        del traces[:]
        dr.clear_grad(x)
        y = dr.while_loop((UInt(0), F(1, 1)), lambda i, y: i < 3, body, mode="symbolic")[1]
        assert len(traces) == count
        dr.backward(y)
        assert list(x.grad) == [0.75, 12]


@pytest.mark.parametrize("limit", [1, 300, 1 << 30])
def test_storage_is_limited(limit, monkeypatch, tier):
    """With less memory, iterations are computed again from those that are stored."""
    monkeypatch.setattr("drjit.flow.loop.gradient.MEMORY", limit)
    n = UInt(0, 1, 10, 17)
    f = lambda x: loop(  # noqa: E731
        "symbolic", lambda i, y, n: i < n, lambda i, y, n: (i + 1, dr.sin(y * x) + 0.5, n),
        UInt(0), F(1), n,
    )[1]  # fmt: skip
    assert dr.check_grad(f, F(0.7, 1.3, 0.6, 1.1))


@pytest.mark.parametrize("mode", MODES)
def test_arrays_that_change_after_the_loop(mode):
    """Captured arrays count with the values that they had when the loop ran."""
    x, w = F(2, 3), F(5, 7)
    dr.enable_grad(x)
    y = loop(mode, lambda i, y: i < 2, lambda i, y: (i + 1, y * x * w), UInt(0), F(1))[1]
    w *= 100
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), [2 * 2 * 25, 2 * 3 * 49])


def test_gradients_within_a_body(tier):
    """The body of a symbolic loop may differentiate what it computes itself."""

    def body(i, total, x):
        z = dr.detach(x)
        dr.enable_grad(z)
        term = dr.sin(z * Float(i))
        dr.backward(term)
        return i + 1, total + z.grad, x

    x = Float(0.5, 0.7)
    for mode in MODES:
        total = loop(mode, lambda i, *_: i < 3, body, UInt(0), Float(0), x)[1]
        k = np.arange(3)[:, None]
        expected = (k * np.cos(k * np.array([0.5, 0.7]))).sum(axis=0)
        np.testing.assert_allclose(total.numpy(), expected, rtol=1e-5)


def test_gradients_that_leave_a_body():
    x = F(0.5, 0.7)
    dr.enable_grad(x)

    def body(i):
        dr.backward(x * F(i))
        return (i + 1,)

    for mode in ("symbolic", "evaluated"):
        x.grad = 0
        loop(mode, lambda i: i < 3, body, UInt(0, 0))
        np.testing.assert_array_equal(x.grad.numpy(), [3, 3])


class Fails(dr.CustomOp):
    def eval(self, x):
        return x + 0

    def backward(self):
        raise ValueError("later")


def test_tangents_that_the_loop_itself_gives():
    """It cannot compute their tangents at the same time."""
    x = F(0.5, 1, 2)
    dr.enable_grad(x)
    step = lambda i, y: (i + 1, y * x)  # noqa: E731
    y = dr.while_loop((UInt(0), F(x)), lambda i, _: i < UInt(1, 2, 3), step)[1]
    dr.set_grad(x, dr.detach(y))
    dr.forward_to(y)
    assert list(y) == [0.25, 1, 16]
    assert list(y.grad) == [0.25 * 1, 1 * 3, 16 * 32]


def test_failed_derivatives_leave_the_loop_usable():
    def body(i, y):
        return i + 1, dr.custom(Fails, y * x)

    x = F(0.5, 0.7)
    dr.enable_grad(x)
    y = loop("symbolic", lambda i, y: i < 3, body, UInt(0), F(1))[1]
    for _ in range(2):
        with pytest.raises(ValueError, match="later"):
            dr.backward(y, flags=dr.ADFlag.ClearVertices)
    z = loop("symbolic", lambda i, y: i < 3, lambda i, y: (i + 1, y * x), UInt(0), F(1))[1]
    dr.backward(z)
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.array([0.5, 0.7]) ** 2)


def test_bodies_add_to_the_gradients_so_far():
    """A gradient in memory is continued there, unless somebody else holds it; if a derivative
    fails, it is as it was."""
    table, x = F(1, 2, 3), F(0.5, -0.7, 1.5)
    dr.enable_grad(table, x)
    place = UInt(2, 0, 2)

    def lookup(x, op, start=lambda x: x):
        then = lambda x: op(start(x) * dr.gather(F, table, place))  # noqa: E731
        return dr.if_stmt((x,), x > 0, then, lambda x: x)

    dr.backward(lookup(x, lambda y: y))
    dr.eval(table.grad)
    np.testing.assert_allclose(table.grad.numpy(), [0, 0, 2])
    held = table.grad
    dr.backward(lookup(x, lambda y: y * 2))
    np.testing.assert_allclose(table.grad.numpy(), [0, 0, 6])
    np.testing.assert_allclose(held.numpy(), [0, 0, 2])
    del held
    fails = lambda y: dr.custom(Fails, y)  # noqa: E731
    for y in (lookup(x, fails), lookup(x, lambda y: y, fails)):  # before and after the gather
        with pytest.raises(ValueError, match="later"):
            dr.backward(y)
        np.testing.assert_allclose(table.grad.numpy(), [0, 0, 6])
    y = lookup(x, lambda y: y)
    dr.eval(y, table.grad)
    assert len(launched(lambda: (dr.backward(y), table.grad), dr.KernelType.JIT)) == 1
    np.testing.assert_allclose(table.grad.numpy(), [0, 0, 8])
    with dr.suspend_grad(table):
        dr.backward(lookup(x, lambda y: y))
    np.testing.assert_allclose(table.grad.numpy(), [0, 0, 8])
    dr.backward(lookup(x, lambda y: y * dr.gather(F, table, place)))  # several times
    np.testing.assert_allclose(table.grad.numpy(), [0, 0, 8 + 2 * 3 * 2])
    np.testing.assert_allclose(x.grad.numpy(), [3 + 6 + 3 + 3 + 9, 5, 24])


EXPRESSIONS = st.sampled_from(
    ["x * y", "dr.sin(x)", "x + y * 0.5", "y - x * 0.3", "dr.fma(x, y, w)", "w", "x * w + 0.1",
     "dr.exp(-x * x)", "dr.gather(Float64, table, UInt(k) % 3) * x"]
)  # fmt: skip
CONDITIONS = st.sampled_from(["x > y", "k % 2 == 0", "x * w < 0.4", "n > k"])


@st.composite
def statements(draw, depth):
    """The lines of a block on the numbers `x`, `y` and `w`, of which it may not change the last."""
    lines = []
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["=", "+=", "if", "while"])) if depth else "="
        target = draw(st.sampled_from(["x", "y"]))
        if kind in ("=", "+="):
            lines.append(f"{target} {kind} {draw(EXPRESSIONS)}")
        elif kind == "if":
            lines.append(f"if {draw(CONDITIONS)}:")
            lines += ["    " + s for s in draw(statements(depth - 1))]
            lines.append("else:")
            lines += ["    " + s for s in draw(statements(depth - 1))]
        else:
            lines += [f"k{depth} = n * 0", f"while k{depth} < n:"]
            lines += ["    " + s for s in draw(statements(depth - 1))]
            lines += [f"    k{depth} += 1", "    k += 1"]
    return lines


@settings(max_examples=20)
@given(statements(3))
def test_random_programs(tmp_path_factory, lines):
    """Both modes have the same derivatives, with variables that are captured and that are not."""
    body = "\n".join("    " + s for s in lines)
    text = (
        "import drjit as dr\nfrom drjit.llvm.ad import Float64, UInt\n\n"
        f"def f(n, x, y, w, table):\n    k = n * 0\n{body}\n    return x * 2 + y\n"
    )
    file = tmp_path_factory.mktemp("programs") / f"program_{abs(hash(text))}.py"
    file.write_text(text)
    names = {"__name__": file.stem}
    exec(compile(text, file, "exec"), names)
    f = dr.syntax(names["f"])
    found = []
    for symbolic in (False, True):
        with (
            dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic),
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic),
        ):
            inputs = F(0.7, 1.3, 0.2), F(0.4, -0.6, 1.1), F(0.9), F(1.2, 0.8, -0.5)
            dr.enable_grad(inputs)
            # Statements such as `x += 1` change the arrays that the function gets.
            y = f(UInt(0, 1, 3), *[v * 1 for v in inputs])
            weighted = y * F(1, -2, 0.5)
            if not dr.grad_enabled(weighted):
                found.append([y.numpy()])
                continue
            dr.backward(weighted, flags=dr.ADFlag.ClearVertices)
            backward = [v.grad for v in inputs]
            dr.clear_grad(inputs)
            for v in inputs:
                v.grad = 1
            dr.forward_to(y)
            results = [dr.detach(y), *backward, y.grad]
            dr.eval(results)
            found.append([v.numpy() for v in results])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=text)


def test_functions_run_once():
    """Derivatives come from what was recorded; what is captured may change meanwhile."""
    calls = []

    def body(i, x, a):
        calls.append("body")

        def yes(x):
            calls.append("yes")
            return dr.sin(x) * a[0]

        def no(x):
            calls.append("no")
            return x * a[0]

        x = dr.if_stmt((x,), x > 0.5, yes, no)
        return (
            i + 1,
            dr.switch(i % 2, [lambda x: calls.append("f") or x * x, lambda x: x + 1], x),
            a,
        )

    for k in range(3):
        calls.clear()
        x, a = F(0.3, 0.8, 1.4), [F(2)]
        dr.enable_grad(x, *a)
        y = dr.while_loop((UInt(0), x, a), lambda i, *_: i < 3, body)[1]
        found = [*calls]
        known = a[0]
        a[0] = F(7)
        dr.backward(y, flags=dr.ADFlag.ClearVertices)
        expected = x.grad.numpy(), known.grad.numpy()
        dr.clear_grad((x, known))
        dr.backward(y, flags=dr.ADFlag.ClearVertices)  # what was recorded is still there
        np.testing.assert_array_equal(x.grad.numpy(), expected[0])
        dr.clear_grad((x, known, y))
        dr.set_grad(x, 1)
        dr.forward_to(y)
        np.testing.assert_allclose(dr.grad(y).numpy(), expected[0])
        assert calls == found
        # To know that derivatives are needed may take a second tracing, the first time.
        assert sorted(calls) == ["body", "f", "no", "yes"] * 1 or k == 0


def test_derivatives_of_branches_within_branches_are_made_once():
    """What lies around a branch costs the same, however long its functions are."""

    def nodes(depth, count):
        def f(y, x):
            for _ in range(count):
                y = dr.sin(y) * x
            return y

        for k in range(depth):
            f = partial(lambda f, k, y, x: dr.if_stmt((y, x), y > k, f, lambda y, x: y), f, k)
        x = Float(1.5, 2.5, 3.5)
        dr.enable_grad(x)
        y = f(x + 1, x)
        before = node.next_serial()
        dr.backward(y)
        return node.next_serial() - before

    short, long = ([nodes(d, n) for d in (1, 2, 3)] for n in (20, 60))
    assert long[1] - long[0] == short[1] - short[0]
    assert long[2] - long[1] == short[2] - short[1]


class Squared(dr.CustomOp):
    """The square, with a value that it keeps."""

    def eval(self, x):
        self.x = x
        return x * x

    def forward(self):
        self.set_grad_out(2 * self.x * self.grad_in("x"))

    def backward(self):
        self.set_grad_in("x", 2 * self.x * self.grad_out())

    def name(self):
        return "squared"


WITHIN = {
    "loop": lambda x, y: loop(None, lambda x, y: x < 2, lambda x, y: (x * 1.5 + y, y), x, y),
    "custom operation": lambda x, y: (dr.custom(Squared, x * y) + x, y),
    "call": lambda x, y: dr.switch(
        UInt(0, 1, 0, 1, 1), [lambda x, y: (x * y, dr.sin(x)), lambda x, y: (dr.exp(y), x)], x, y
    ),
    "gather": lambda x, y: (x * dr.gather(F, TABLE, UInt(y)), y * y),
}


@pytest.mark.parametrize("inner", WITHIN)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.compiled_every(4)
def test_whatever_lies_within_branches(inner, depth, tier):
    def f(x, y):
        def nested(k, x, y):
            x, y = x * y, y + 0.1 * x
            if k == 0:
                return WITHIN[inner](x, y)
            found = dr.if_stmt(
                (x, y), y > 0.5 + 0.1 * k, partial(nested, k - 1), lambda x, y: (dr.sin(x), x * y)
            )
            return found[0] * y, found[1] + x

        return nested(depth, x, y)

    check(f, X, Y)


@pytest.mark.processor
@pytest.mark.parametrize("n", [1, 2, 7, 64, 300])
def test_an_inner_loop_is_recomputed_from_checkpoints(n, monkeypatch):
    """In few steps: a lane that went back to the beginning each time would take n * n / 2."""
    monkeypatch.setattr(variants, "pinned", "numpy")
    dr.flush_kernel_cache()
    steps = []
    cbrt = numpy_target.namespace["cbrt"]
    monkeypatch.setitem(numpy_target.namespace, "cbrt", lambda x: steps.append(1) or cbrt(x))

    def inner(x):
        body = lambda i, x: (i + 1, dr.cbrt(x) + 0.75)  # noqa: E731
        return loop("symbolic", lambda i, x: i < n, body, UInt(0), x)[1]

    x = F(ONE)
    dr.enable_grad(x)
    once = lambda i, x: (i + 1, inner(x))  # noqa: E731
    y = loop("symbolic", lambda i, x: i < 1, once, UInt(0), x, max_iterations=1)[1]
    dr.backward(y)
    dr.eval(x.grad)
    dr.flush_kernel_cache()
    assert len(steps) <= 2 * n + n * np.log2(n) / 2
    value, slope = 0.8, 1.0
    for _ in range(n):
        root = np.cbrt(value)
        value, slope = root + 0.75, slope / (3 * root * root)
    np.testing.assert_allclose(x.grad, slope, rtol=1e-12)

"""How many kernels the steps of programs take, and of how many operations: the same in each step,
and one for what belongs together."""

import contextlib
import importlib.util
import io
import itertools
from pathlib import Path

import pytest
from helpers import watch_launches

import drjit as dr
from drjit.jit.cpu import kernel, variants
from drjit.llvm.ad import Array3f, Float, UInt
from drjit.opt import SGD, Adam, RMSProp


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[kernel.CpuKernel]:
    """The kernels that run, in order; on NumPy, as nothing depends on how."""
    monkeypatch.setattr(variants, "pinned", "numpy")
    return watch_launches(monkeypatch, lambda found, size: found)


def loops(launches: list[kernel.CpuKernel]) -> list[int]:
    """The numbers of operations of the kernels with loops."""
    return [k.operations for k in launches if k.loops]


# Results of a loop


def test_gradients_of_a_loop_that_are_read_one_by_one(launches: list) -> None:
    a, b, x = Float(0.5), Float(0.25), dr.arange(Float, 20)
    dr.make_opaque(a, b, x)
    dr.enable_grad(a, b)
    state = (UInt(0), Float(x))
    test = lambda i, y: i < 3  # noqa: E731
    y = dr.while_loop(state, test, lambda i, y: (i + 1, a * y + b), max_iterations=3)[1]
    dr.backward(dr.sum(y))
    launches.clear()
    assert dr.allclose(a.grad, 3 * 0.25 * 190 + 2 * 0.5 * 0.25 * 20 + 0.25 * 20)
    assert dr.allclose(b.grad, 20 * (1 + 0.5 + 0.25))
    assert len(loops(launches)) == 1


def test_results_of_a_loop_that_are_evaluated_one_by_one(launches: list) -> None:
    x = dr.arange(Float, 20)
    dr.make_opaque(x)
    state = (UInt(0), Float(x), Float(x), Float(1))
    test = lambda i, *_: i < 3  # noqa: E731
    body = lambda i, y, z, w: (i + 1, y + 1, z * y, w * 2)  # noqa: E731
    y, z = dr.while_loop(state, test, body)[1:3]
    total = dr.sum(z)
    launches.clear()
    dr.eval(total)
    z = z + y
    assert list(y) == [k + 3 for k in range(20)]
    assert list(z) == [k * k * (k + 1) * (k + 2) + k + 3 for k in range(20)]
    assert len(loops(launches)) == 2  # the product was not held, but its sum
    assert [o.kind for k in launches if k.loops for o in k.program.outputs] == [
        "reduce",
        "store",
        "store",
    ]


def test_tangents_that_are_scattered_are_one_kernel(launches: list) -> None:
    shift = Float(0.5)
    dr.enable_grad(shift)
    image = [dr.zeros(Float, 4) for _ in range(3)]
    for k, channel in enumerate(image):
        value = (dr.arange(Float, 20) + shift) * (k + 1)
        dr.scatter_add(channel, value, dr.arange(UInt, 20) // 5)
    dr.forward(shift)
    launches.clear()
    assert [list(c.grad) for c in image] == [[5] * 4, [10] * 4, [15] * 4]
    sizes = [k for k in launches if k.program.effects]
    assert len(sizes) == 1


# What does not change, and what nobody needs


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_containers_of_unchanged_arrays_are_the_same_objects(mode: str) -> None:
    x, y = Float(1, 2), Float(3, 4)
    kept, changed, nested = (x, Float(3)), (x, y), [x, (y, {"a": (x,)})]
    inner = nested[1]
    state = (UInt(0), kept, changed, nested)

    def body(i: UInt, kept: tuple, changed: tuple, nested: list) -> tuple:
        return i + 1, kept, (changed[0], changed[1] + 1), nested

    _, a, b, c = dr.while_loop(state, lambda i, *_: i < 3, body, mode=mode)
    assert a is kept and c is nested and c[1] is inner
    assert b is not changed and b[0] is x and list(b[1]) == [6, 7] and list(y) == [3, 4]


def test_constants_stay_constants_in_loops_and_branches() -> None:
    lane = dr.arange(UInt, 3)

    def body(i: UInt, x: Float, y: Float, z: Float) -> tuple:
        return i + 1, Float(5), y * x, Float(-0.0)

    def run() -> tuple:
        state = (UInt(lane), Float(5), Float(1), Float(0))
        return dr.while_loop(state, lambda i, *_: i < 2, body)

    _, x, y, z = run()
    assert x.state is dr.VarState.Literal and list(x) == [5]
    assert y.state is dr.VarState.Unevaluated and list(y) == [25, 5, 1]
    assert [str(v) for v in z] == ["-0.0", "-0.0", "0.0"]
    with dr.scoped_set_flag(dr.JitFlag.OptimizeLoops, False):
        assert run()[1].state is dr.VarState.Unevaluated
    a, b = dr.if_stmt((), lane > 1, lambda: (Float(5), Float(1)), lambda: (Float(5), Float(2)))
    assert a.state is dr.VarState.Literal and list(b) == [2, 2, 1]
    targets = [lambda active: Float(5), lambda active: Float(5)]
    found = dr.switch(lane & 1, targets, active=lane < 1)
    assert list(found) == [5, 0, 0]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_loop_that_no_lane_enters_gives_its_state(mode: str) -> None:
    x, steps = Float(1, 2), []
    dr.enable_grad(x)
    state = (x, [UInt(7)])

    def body(x: Float, i: list) -> tuple:
        steps.append(1)
        return x + 1, [i[0] + 1]

    found = dr.while_loop(state, lambda *_: dr.llvm.ad.Bool(False), body, mode=mode)
    assert found[0] is x and found[1] is state[1] and not steps
    assert x.state is dr.VarState.Evaluated and dr.grad_enabled(x)


@pytest.mark.parametrize("call", ["switch", "if_stmt", "loop"])
def test_arguments_that_no_result_needs_are_not_computed(launches: list, call: str) -> None:
    """Not even where they are gathered, with checks of their bounds."""
    x, table, index = dr.arange(Float, 6), dr.arange(Float, 9) + 1, dr.arange(UInt, 6)
    dr.make_opaque(x, table, index)

    def run() -> tuple:
        heavy = dr.gather(Float, table, index)
        for _ in range(20):
            heavy = dr.sin(heavy)
        bodies = [lambda u, v: (u + 1, v * 2), lambda u, v: (u + 2, v * 3)]
        if call == "switch":
            return dr.switch(index & 1, bodies, x, heavy)
        if call == "if_stmt":
            return dr.if_stmt((x, heavy), (index & 1) == 0, *bodies)
        state = (UInt(index & 1), Float(x) + 2, heavy)
        step = lambda i, u, v: (i + 1, u - 1, v * 2)  # noqa: E731
        return dr.while_loop(state, lambda i, *_: i < 2, step)[1:]

    expected = [x[k] + (k % 2 + 1 if call != "loop" else k % 2) for k in range(6)]
    launches.clear()
    (found, _) = run()
    del _
    assert list(found) == expected
    assert "sin" not in launches[-1].text and len(launches[-1].program.inputs) == 2
    (_, found) = run()
    del _
    values = dr.gather(Float, table, index)
    for _ in range(20):
        values = dr.sin(values)
    factors = [(2, 3), (4, 2)][call == "loop"]
    assert dr.allclose(found, [values[k] * factors[k % 2] for k in range(6)])


# How often bodies are traced


def power(x: Float, a: Float, steps: list, square: bool = True) -> Float:
    """Iterates `a y**2` or `a + y` three times, and counts how often the body is traced."""

    def body(i: UInt, y: Float) -> tuple:
        steps.append(1)
        return i + 1, a * y * y if square else a + y

    state = (UInt(0), Float(x))
    return dr.while_loop(state, lambda i, y: i < 3, body, max_iterations=3)[1]


def test_derivatives_do_not_trace_a_body_again(launches: list) -> None:
    counts = []
    for _ in range(3):
        x, a, steps = dr.arange(Float, 5) / 4, Float(1.5), []
        dr.enable_grad(a)
        dr.backward(power(x, a, steps))
        assert dr.allclose(a.grad, dr.sum(7 * 1.5**6 * x**8))
        counts.append(len(steps))
    assert counts[1:] == [1, 1]  # at first, that derivatives are needed may turn out too late
    steps = []
    assert dr.allclose(power(x, dr.detach(a), steps), 1.5**7 * x**8)
    assert len(steps) == 1


@pytest.mark.parametrize("first", [True, False])
def test_a_body_that_needs_other_variables_than_before(launches: list, first: bool) -> None:
    for square in (first, not first, first):
        x, a = dr.arange(Float, 5) / 4, Float(1.5)
        dr.make_opaque(x)
        dr.enable_grad(x, a)
        y = power(x, a, [], square)
        dr.backward(y)
        expected = (dr.sum(7 * 1.5**6 * x**8), 8 * 1.5**7 * x**7) if square else (15, Float(1))
        assert dr.allclose(a.grad, expected[0]) and dr.allclose(x.grad, expected[1])


def test_a_body_that_is_differentiable_no_longer(launches: list) -> None:
    target = dr.zeros(Float, 5)

    def run(a: Float) -> Float:
        def body(i: UInt, y: Float) -> tuple:
            dr.scatter_add(target, y, dr.arange(UInt, 5))
            return i + 1, y * a

        return dr.while_loop((UInt(0), Float(1)), lambda i, y: i < 3, body)[1]

    a = Float(2)
    dr.enable_grad(a)
    assert dr.grad_enabled(run(a)) and dr.grad_enabled(target)
    dr.disable_grad(target)
    assert not dr.grad_enabled(run(Float(2))) and not dr.grad_enabled(target)
    assert list(target) == [14] * 5


# Optimizers


@pytest.mark.parametrize("make", [SGD, Adam, RMSProp])
def test_all_steps_of_an_optimizer_are_one_kernel(launches: list, make: type) -> None:
    optimizer = make(lr=0.05)
    optimizer["a"], optimizer["b"] = Float(1, 2), Array3f(1, 2, 3)
    target = Float(3, 4)
    dr.make_opaque(target)
    steps = []
    for _ in range(4):
        launches.clear()
        loss = dr.mean(dr.square(optimizer["a"] - target) * dr.squared_norm(optimizer["b"]))
        dr.backward(loss)
        optimizer.step()
        dr.eval(optimizer["a"], optimizer["b"], loss)
        steps.append({k.text for k in launches if k.operations > 3})
    assert steps[1:] == [steps[0]] * 3


# A program


def test_epochs_of_a_path_tracer(launches: list) -> None:
    """The numbers of the reference: 1604 and 3950 operations for the picture and its derivatives in
    reverse mode, 4024 for those in forward mode, in new kernels for each epoch."""
    path = Path(__file__).parents[1] / "programs" / "path_tracer.py"
    spec = importlib.util.spec_from_file_location("path_tracer", path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    with contextlib.redirect_stdout(io.StringIO()):
        program.main(resolution=2, samples=1, epochs=1)
        first = {k.text: k.operations for k in launches if k.loops}
        texts = {k.text for k in launches}
        launches.clear()
        program.main(resolution=2, samples=1, epochs=3)
    assert {k.text for k in launches if k.loops} == {*first}
    assert len({k.text for k in launches} - texts) <= 3  # what is printed
    assert len(loops(launches)) == 1 + 3 * 3
    picture, *others = sorted(first.values())
    assert picture < 1604 and len(others) == 3
    assert others[-1] < 4024 and sum(others[:-1]) < 1604 + 3950


# Numbers that change


def test_numbers_that_are_0_now_and_then_make_few_kernels(launches: list) -> None:
    x = dr.arange(Float, 4)
    dr.make_opaque(x)
    for a, b, c, d in itertools.product((0, 0.5), repeat=4):
        dr.eval(dr.select(x > a, x * x + b, c) + dr.sqrt(x + d))
    assert len({k.name for k in launches}) <= 5


def test_where_a_gradient_is_0_is_asked_once() -> None:
    x, y = dr.arange(Float, 4), dr.arange(Float, 4) + 1
    dr.enable_grad(x, y)
    z = x / y
    dr.set_grad(z, Float(0, 1, 2, 3))
    dr.enqueue(dr.ADMode.Backward, z)
    dr.traverse(dr.ADMode.Backward)
    of_x, of_y = x.grad._node.deps, y.grad._node.deps
    assert of_x[:2] == of_y[:2] and of_x[1].is_literal

"""`dr.switch` against a loop over lanes, in all modes, on both tiers, with derivatives in both
directions."""

import gc
import weakref

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import (
    PCG32,
    Array2f,
    Array3f64,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    TensorXf,
    UInt,
    UInt8,
    UInt64,
)

pytestmark = pytest.mark.usefixtures("tier")
SIZES = [0, 1, 15, 17, 1000]
MODES = ["symbolic", "evaluated"]
both = pytest.mark.parametrize("mode", MODES)


def indices(n, count, seed=0):
    return np.random.default_rng(seed).integers(0, count, n).astype(np.uint32)


def values(n, seed=1):
    return np.random.default_rng(seed).uniform(0.5, 2, n)


@both
@pytest.mark.parametrize("n", SIZES)
def test_every_lane_calls_its_function(mode, n):
    index, x, y = indices(n, 3), values(n), values(n, 2)
    targets = [
        lambda x, y: (x + y, UInt(x)),
        lambda x, y: (dr.sqrt(x), UInt(y * 3)),
        lambda x, y: (Float64(7), UInt(2)),
    ]
    a, b = dr.switch(UInt(index), targets, Float64(x), y=Float64(y), mode=mode)
    rows = [(x + y, x.astype(int)), (np.sqrt(x), (y * 3).astype(int)), (x * 0 + 7, x * 0 + 2)]
    np.testing.assert_allclose(a.numpy(), np.choose(index, [r[0] for r in rows]))
    np.testing.assert_array_equal(b.numpy(), np.choose(index, [r[1] for r in rows]))


@both
@pytest.mark.parametrize(
    "cls", [Bool, UInt8, Int, UInt64, Float16, Float64, Array2f, ArrayXf, TensorXf]
)
def test_types_of_arguments_and_results(mode, cls):
    x = {
        Array2f: lambda: Array2f([1, 2, 3], [4, 5, 6]),
        ArrayXf: lambda: ArrayXf([[1, 2, 3], [4, 5, 6]]),
        Bool: lambda: Bool(True, False, True),
    }.get(cls, lambda: cls([1, 2, 3]))()
    zero = dr.zeros_like(x)
    result = (
        dr.switch(UInt(0, 1, 0), [lambda x: x, lambda x: x & x ^ x], x, mode=mode)
        if (cls is Bool)
        else dr.switch(UInt(0, 1, 0), [lambda x: x + x, lambda x: x], x, mode=mode)
    )
    assert type(result) is cls
    keep = Bool(True, False, True)
    expected = (
        x & keep if cls is Bool else x + (zero if cls is TensorXf else dr.select(keep, x, zero))
    )
    if cls is TensorXf:
        expected = TensorXf([2, 2, 6])
    assert dr.all(result == expected, axis=None)


@both
def test_trees(mode):
    def first(tree, **more):
        return {"a": [tree["p"].x, (tree["q"],)], "b": None, "c": more["k"]}

    def second(tree, **more):
        return {"a": [tree["p"].y, (tree["q"] * 2,)], "b": None, "c": more["k"]}

    tree = {"p": Array2f([1, 2], [3, 4]), "q": Float(5), "text": "unused"}
    found = dr.switch(UInt(0, 1), [first, second], tree, k="same", mode=mode)
    assert found == {"a": [found["a"][0], (found["a"][1][0],)], "b": None, "c": "same"}
    np.testing.assert_array_equal(found["a"][0].numpy(), [1, 4])
    np.testing.assert_array_equal(found["a"][1][0].numpy(), [5, 10])


@both
def test_order_of_keys(mode):
    targets = [lambda x: {"a": x, "b": x * 10}, lambda x: {"b": x * 1000, "a": x * 100}]
    found = dr.switch(UInt(0, 1, 0), targets, Float(1, 2, 3), mode=mode)
    np.testing.assert_array_equal(found["a"].numpy(), [1, 200, 3])
    np.testing.assert_array_equal(found["b"].numpy(), [10, 2000, 30])


@both
@pytest.mark.parametrize("keyword", [False, True])
def test_mask(mode, keyword):
    seen = []

    def target(x, active):
        seen.append(active)
        return x + 1, active

    mask = Bool(True, False, True)
    arguments = ([], {"active": mask}) if keyword else ([mask], {})
    x, on = dr.switch(
        UInt(0, 1, 1), [target, target], Float(1, 2, 3), *arguments[0], **arguments[1], mode=mode
    )
    np.testing.assert_array_equal(x.numpy(), [2, 0, 4])
    np.testing.assert_array_equal(on.numpy(), [True, False, True])
    assert all(type(m) is Bool for m in seen)
    x, on = dr.switch(UInt(0, 1, 1), [target, target], Float(1, 2, 3), False, mode=mode)
    np.testing.assert_array_equal(x.numpy(), [0, 0, 0])
    assert on is True  # what functions see


@both
def test_other_masks_are_ordinary_arguments(mode):
    mask = Bool(True, False, True)
    targets = [lambda m, x: dr.select(m, x, 0)] * 2
    np.testing.assert_array_equal(
        dr.switch(UInt(0, 1, 0), targets, mask, Float(1, 2, 3), mode=mode).numpy(), [1, 0, 3]
    )
    np.testing.assert_array_equal(
        dr.switch(UInt(0, 1, 0), targets, m=mask, x=Float(1, 2, 3), mode=mode).numpy(), [1, 0, 3]
    )


@both
def test_index_out_of_bounds(mode):
    with pytest.raises(IndexError, match=r"dr\.switch\(\): index 5 is out of bounds"):
        dr.eval(dr.switch(UInt(0, 5, 1), [lambda x: x, lambda x: -x], Float(1, 2, 3), mode=mode))
        dr.sync_thread()
    with dr.scoped_set_flag(dr.JitFlag.BoundsChecks, False):
        found = dr.switch(UInt(0, 5, 1), [lambda x: x, lambda x: -x], Float(1, 2, 3), mode=mode)
        np.testing.assert_array_equal(found.numpy(), [1, 0, -3])


def test_index_that_is_a_number():
    targets = [lambda x: x + 1, lambda x: x * 2]
    assert dr.switch(1, targets, Float(3))[0] == 6
    assert dr.switch(-1, targets, 3) == 6
    assert dr.switch(0, [lambda x, active: active], 3, active=True) is True
    assert dr.switch(0, [lambda x, m: x], 3, False) is None
    with pytest.raises(
        RuntimeError, match="index 2 is out of bounds: it must be strictly smaller than"
    ):
        dr.switch(2, targets, Float(3))
    with pytest.raises(RuntimeError, match="must be a bool"):
        dr.switch(0, [lambda x, m: x], Float(1, 2), Bool(True, False))
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as caught:
        dr.switch(0, [lambda x: x // 0], 3)
    assert isinstance(caught.value.__context__, ZeroDivisionError)


@both
def test_scatters_happen_in_the_lanes_of_a_function(mode):
    n = 17
    index, active = indices(n, 2), indices(n, 2, 5).astype(bool)
    target, total, ticks = dr.zeros(Float, n), dr.zeros(UInt), dr.zeros(UInt)

    def first(x, at, active):
        dr.scatter(target, x, at)
        dr.scatter_add(total, UInt(1), UInt(0))

    def second(x, at, active):
        dr.scatter(target, -x, at, at != 3)
        dr.scatter_add(ticks, UInt(1), at * 0)

    x = values(n)
    dr.switch(UInt(index), [first, second], Float(x), dr.arange(UInt, n), Bool(active), mode=mode)
    expected = np.where(active, np.where(index == 0, x, -x), 0)
    if index[3] == 1:
        expected[3] = 0
    np.testing.assert_allclose(target.numpy(), expected, rtol=1e-6)
    assert total[0] == np.sum(active & (index == 0))
    assert ticks[0] == np.sum(active & (index == 1))


@both
def test_arguments_are_copies(mode):
    x, items = Float(1, 2), [Float(3, 4)]

    def target(x, items):
        x += 10
        items[0] *= 2
        items.append(5)
        return x

    found = dr.switch(UInt(0, 1), [target, target], x, items, mode=mode)
    np.testing.assert_array_equal(found.numpy(), [11, 12])
    np.testing.assert_array_equal(x.numpy(), [1, 2])
    assert len(items) == 1
    np.testing.assert_array_equal(items[0].numpy(), [3, 4])


@both
def test_random_numbers(mode):
    generator = PCG32(5)

    def once(g):
        return g.next_float32(), g

    def twice(g):
        g.next_float32()
        return g.next_float32(), g

    index = UInt(0, 1, 0, 1, 1)
    found, after = dr.switch(index, [once, twice], generator, mode=mode)
    a, b = (reference := PCG32(5)).next_float32(), reference.next_float32()
    np.testing.assert_array_equal(found.numpy(), dr.select(index == 0, a, b).numpy())
    np.testing.assert_array_equal(generator.state.numpy(), PCG32(5).state.numpy())
    expected = [(once, twice)[i] for i in index]
    for k, f in enumerate(expected):
        g = PCG32(5)
        assert f(g)[1].state[k] == after.state[k]


@both
def test_nesting(mode):
    def inner(x, k):
        return dr.switch(k % 2, [lambda x: x + 1, lambda x: x * 10], x, mode=mode)

    index, k = indices(17, 3), indices(17, 4, 3)
    x = values(17)
    targets = [lambda x, k: inner(x, k), lambda x, k: -inner(-x, k + 1), lambda x, k: x]
    found = dr.switch(UInt(index), targets, Float64(x), UInt(k), mode=mode)
    tens = [x + 1, x * 10]
    rows = [np.choose(k % 2, tens), np.choose((k + 1) % 2, [x - 1, x * 10]), x]
    np.testing.assert_allclose(found.numpy(), np.choose(index, rows))


@both
def test_uniform_index_and_results(mode):
    np.testing.assert_array_equal(
        dr.switch(UInt(1), [lambda x: x, lambda x: -x], Float(1, 2), mode=mode).numpy(), [-1, -2]
    )
    np.testing.assert_array_equal(
        dr.switch(UInt(0, 1), [lambda: Float(1), lambda: Float(2)], mode=mode).numpy(), [1, 2]
    )
    assert dr.switch(UInt(0, 1), [lambda: 3, lambda: 3], mode=mode) == 3
    assert dr.switch(UInt(0, 1), [lambda: None, lambda: None], mode=mode) is None


def test_one_kernel_in_symbolic_mode_and_constants_do_not_recompile():
    def call(c):
        return dr.switch(UInt(0, 1, 1), [lambda x: x + c, lambda x: x * c], Float(1, 2, 3))

    dr.eval(call(1.5))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        result = call(2.5)
        dr.eval(result)
        history = dr.kernel_history([dr.KernelType.JIT])
    assert len(history) == 1 and history[0]["cache_hit"]
    np.testing.assert_array_equal(result.numpy(), [3.5, 5, 7.5])


def test_flag_and_mode():
    calls = []

    def target(x):
        calls.append(len(x))
        return x

    dr.switch(UInt(0, 0, 0), [target, target], Float(1, 2, 3))
    assert len(calls) == 2  # traced, both
    calls.clear()
    with dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, False):
        dr.switch(UInt(0, 0, 0), [target, target], Float(1, 2, 3))
    assert calls == [3]  # called where it is needed


@both
def test_evaluation_within_functions(mode):
    def target(x):
        return Float(float(x[0])) + x

    if mode == "evaluated":
        found = dr.switch(UInt(0, 1, 0), [target] * 2, Float(1, 2, 3), mode=mode)
        np.testing.assert_array_equal(found.numpy(), [2, 4, 4])
    else:
        with pytest.raises(RuntimeError, match="mode='evaluated'"):
            dr.switch(UInt(0, 1, 0), [target] * 2, Float(1, 2, 3), mode=mode)


# Errors


@both
@pytest.mark.parametrize(
    ("results", "message"),
    [
        ((lambda x: x, lambda x: UInt(x)), r"inconsistent types for field 'result'.*UInt.*Float"),
        ((lambda x: x, lambda x: None), "inconsistent types for field 'result'"),
        ((lambda x: (x, x), lambda x: (x,)), r"inconsistent sizes for field 'result' \(1 and 2\)"),
        ((lambda x: (x, x), lambda x: [x, x]), "list and tuple"),
        ((lambda x: {"a": x}, lambda x: {"b": x}), "keys for field 'result'"),
        ((lambda x: {"a": [x, 1]}, lambda x: {"a": [x, 2]}), r"'result\['a'\]\[1\]', which is 1"),
        ((lambda x: ArrayXf([x]), lambda x: ArrayXf([x, x])), r"field \'result\' \(2 and 1\)"),
    ],
)
def test_results_that_do_not_go_together(mode, results, message):
    with pytest.raises(TypeError, match=message):
        dr.switch(UInt(0, 1), list(results), Float(1, 2), mode=mode)
    still_works(mode)


@both
def test_what_a_function_raises(mode):
    target = dr.zeros(Float, 2)

    def fine(x):
        dr.scatter(target, x, UInt(0))
        return x

    def fails(x):
        dr.scatter(target, x, UInt(1))
        raise KeyError("missing")

    with pytest.raises(RuntimeError, match=r"targets\[1\].*fails.*KeyError") as caught:
        dr.switch(UInt(0, 1), [fine, fails], Float(1, 2), mode=mode, label="shading")
    assert "dr.switch(shading)" in str(caught.value)
    assert isinstance(caught.value.__context__, KeyError)
    if mode == "symbolic":  # nothing has happened
        np.testing.assert_array_equal(target.numpy(), [0, 0])
    still_works(mode)


def still_works(mode):
    found = dr.switch(UInt(0, 1), [lambda x: x, lambda x: -x], Float(1, 2), mode=mode)
    np.testing.assert_array_equal(found.numpy(), [1, -2])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((Int(0, 1), [abs]), RuntimeError, "'index' is of type drjit.llvm.ad.Int"),
        ((Float(0, 1), [abs]), RuntimeError, "'index'"),
        ((True, [abs]), RuntimeError, "'index' is of type bool"),
        (("0", [abs]), RuntimeError, "'index' is of type str"),
        ((UInt(0, 1), []), RuntimeError, "'targets' is empty"),
        ((UInt(0, 1), [1]), TypeError, r"targets\[0\] is 1"),
        ((UInt(0, 1), abs), TypeError, "sequence of functions"),
        ((UInt(0, 1), {0: abs}), TypeError, "sequence of functions"),
        ((UInt(0, 1), [abs], Float(1, 2, 3)), RuntimeError, "incompatible sizes"),
        ((UInt(0, 1), [abs], Float(1), Bool([True] * 3)), RuntimeError, "incompatible sizes"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        dr.switch(*arguments)


def test_wrong_options():
    with pytest.raises(RuntimeError, match="'mode' is 'scalar'"):
        dr.switch(UInt(0), [abs], Float(1), mode="scalar")
    with pytest.raises(RuntimeError, match="'label' is of type int"):
        dr.switch(UInt(0), [abs], Float(1), label=3)


@both
def test_wrong_size_of_a_result(mode):
    with pytest.raises(RuntimeError, match="size"):
        dr.switch(UInt(0, 1), [lambda x: Float(1, 2, 3), lambda x: x], Float(1, 2), mode=mode)
    still_works(mode)


# Derivatives


class Program:
    """A call whose results depend on arguments, on captured numbers, and on captured arrays that
    functions gather from."""

    def __init__(self, n, mode, nested=False):
        self.index, self.mode, self.nested = UInt(indices(n, 4)), mode, nested
        self.place = UInt(indices(n, 5, 7))
        self.x = Float64(values(n))
        self.inputs = [self.x, Float64(1.5), Float64(values(5, 9)), Float64(0.75)]

    def __call__(self, x, c, table, d):
        def first(x, place):
            return x * x * c, dr.sin(x)

        def second(x, place):
            found = dr.gather(Float64, table, place)
            return found * x, found * found + d

        def third(x, place):
            if self.nested:
                targets = [
                    lambda x, place: x * c,
                    lambda x, place: dr.exp(x * dr.gather(Float64, table, place)),
                ]
                return dr.switch(place % 2, targets, x, place, mode=self.mode), c * c * d
            return dr.exp(x), c * c * d

        def fourth(x, place):
            p = dr.gather(Array3f64, dr.detach(table), UInt(0)) + dr.gather(
                Array3f64, table, UInt(0)
            )
            return dr.sum(p) * dr.detach(x), Float64(2)

        args = (x, self.place)
        return dr.switch(self.index, [first, second, third, fourth], *args, mode=self.mode)


@both
@pytest.mark.parametrize("n", [1, 15, 17, 1000])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.compiled_every(3)
def test_forward_derivatives(mode, n, nested):
    program = Program(n, mode, nested)
    for k, x in enumerate(program.inputs):
        direction = Float64(values(len(x), 20 + k))
        inputs = [Float64(v) for v in program.inputs]
        dr.enable_grad(*inputs)
        results = program(*inputs)
        dr.set_grad(inputs[k], direction)
        dr.forward_to(*results)
        dr.eval([a.grad for a in results])
        expected = forward_expected(program, k, direction)
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b, rtol=1e-5, atol=1e-7)


def forward_expected(program, k, direction):
    """Finite differences of a program in which what it detaches stays."""
    h = 1e-6
    steps = []
    for sign in (1, -1):
        inputs = [Float64(v) for v in program.inputs]
        inputs[k] = inputs[k] + sign * h * direction
        steps.append([a.numpy() for a in frozen(program, inputs)])
    return [(a - b) / (2 * h) for a, b in zip(*steps, strict=True)]


def frozen(program, inputs):
    """The program by NumPy, lane by lane; what it detaches has the original values."""
    index, place = program.index.numpy(), program.place.numpy()
    x, c, table, d = [v.numpy() for v in inputs]
    x0, _, table0, _ = [v.numpy() for v in program.inputs]
    n = len(index)
    a, b = np.zeros(n), np.zeros(n)
    for k in range(n):
        t = table[place[k]]
        if index[k] == 0:
            a[k], b[k] = x[k] * x[k] * c[0], np.sin(x[k])
        elif index[k] == 1:
            a[k], b[k] = t * x[k], t * t + d[0]
        elif index[k] == 2:
            b[k] = c[0] * c[0] * d[0]
            inner = x[k] * c[0] if place[k] % 2 == 0 else np.exp(x[k] * t)
            a[k] = inner if program.nested else np.exp(x[k])
        else:
            a[k], b[k] = (table[:3].sum() + table0[:3].sum()) * x0[k], 2
    return Float64(a), Float64(b)


@both
@pytest.mark.parametrize("n", [1, 15, 17, 1000])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.compiled_every(3)
def test_reverse_derivatives(mode, n, nested):
    """The gradient along a direction is the weighted sum of the derivatives along it."""
    program = Program(n, mode, nested)
    inputs = [Float64(v) for v in program.inputs]
    dr.enable_grad(*inputs)
    a, b = program(*inputs)
    primal = frozen(program, program.inputs)
    np.testing.assert_allclose(dr.detach(a).numpy(), primal[0].numpy())
    np.testing.assert_allclose(dr.detach(b).numpy(), primal[1].numpy())
    weights = [Float64(values(n, 30)), Float64(values(n, 31))]
    dr.backward(a * weights[0] + b * weights[1])
    for k, x in enumerate(inputs):
        direction = Float64(values(len(x), 40 + k))
        expected = forward_expected(program, k, direction)
        total = sum(np.sum(w.numpy() * e) for w, e in zip(weights, expected, strict=True))
        found = np.sum(x.grad.numpy() * direction.numpy())
        np.testing.assert_allclose(found, total, rtol=1e-5, atol=1e-6)


@both
def test_which_results_have_derivatives(mode):
    x, c = Float(1, 2), Float(3)
    dr.enable_grad(x, c)

    def target(x):
        assert dr.grad_enabled(x)
        return x * 2, dr.detach(x), UInt(x), Float(1)

    found = dr.switch(UInt(0, 1), [target, target], x, mode=mode)
    assert [dr.grad_enabled(v) for v in found] == [True, False, False, False]
    with dr.suspend_grad():
        found = dr.switch(UInt(0, 1), [lambda x: x * c] * 2, dr.detach(x), mode=mode)
        assert not dr.grad_enabled(found)
    assert dr.grad_enabled(dr.switch(UInt(0, 1), [lambda: c * 2, lambda: Float(1)], mode=mode))


@both
def test_masked_lanes_have_no_gradient(mode):
    x, c = Float(1, 0, 3), Float(2)
    dr.enable_grad(x, c)
    targets = [lambda x, m: c / x, lambda x, m: c * x]
    found = dr.switch(UInt(0, 0, 1), targets, x, Bool(True, False, True), mode=mode)
    dr.backward(found)
    np.testing.assert_array_equal(x.grad.numpy(), [-2, 0, 2])
    np.testing.assert_array_equal(c.grad.numpy(), [4])


@both
def test_one_argument_twice_and_captured_as_well(mode):
    x = Float(2, 3)
    dr.enable_grad(x)
    y = dr.sum(x)
    found = dr.switch(UInt(0, 1), [lambda a, b: a * b, lambda a, b: a + b * y], x, x, mode=mode)
    dr.backward(found)
    # Lane 0: x0^2. Lane 1: x1 + x1 * (x0 + x1).
    np.testing.assert_allclose(x.grad.numpy(), [4 + 3, 1 + 5 + 3])


@both
def test_array_that_is_gathered_from_and_used_as_it_is(mode):
    c, x = Float(3), Float(1, 2, 3)
    dr.enable_grad(c)
    targets = [lambda x, k: c * x + dr.gather(Float, c, k), lambda x, k: dr.gather(Float, c, k) * x]
    dr.backward(dr.switch(UInt(0, 1, 0), targets, x, UInt(0, 0, 0), mode=mode))
    np.testing.assert_array_equal(c.grad.numpy(), [1 + 1 + 2 + 3 + 1])


@both
def test_functions_that_call_themselves_without_end(mode):
    def endless(x):
        return dr.switch(UInt(0, 0), [endless], x, mode=mode)

    with pytest.raises(RecursionError, match=r"endless.* calls itself without end"):
        endless(Float(1, 2))
    still_works(mode)


@both
def test_side_effects_happen_once_with_derivatives(mode):
    x, count = Float(1, 2, 3), dr.zeros(UInt)
    dr.enable_grad(x)

    def target(x):
        dr.scatter_add(count, UInt(1), UInt(0))
        return x * x

    y = dr.switch(UInt(0, 1, 0), [target, target], x, mode=mode)
    dr.backward(y)
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4, 6])
    assert count[0] == 3


def test_attribute_that_has_changed():
    class Scene:
        light = Float(2)

    dr.enable_grad(Scene.light)
    functions = [lambda x: x * Scene.light, lambda x: x]
    y = dr.switch(UInt(0, 1), functions, Float(1, 2), mode="symbolic")
    light = Scene.light
    Scene.light = Scene.light + 1
    dr.backward(y)
    assert list(light.grad) == [1]


@both
def test_derivatives_that_were_suspended(mode):
    """What is tracked is decided by the call, not by the traversal."""
    x, c = Float(1, 2), Float(3)
    dr.enable_grad(x, c)
    with dr.suspend_grad(c):
        y = dr.switch(UInt(0, 1), [lambda x: x * c, lambda x: x * x], x, mode=mode)
    with dr.suspend_grad(x):
        z = dr.switch(UInt(0, 1), [lambda x: x * c, lambda x: x * x], x, mode=mode)
    dr.backward(y + z)
    np.testing.assert_array_equal(x.grad.numpy(), [3, 4])
    np.testing.assert_array_equal(c.grad.numpy(), [1])


@pytest.mark.parametrize("kind", ["switch", "if", "loop"])
def test_derivatives_that_were_resumed(kind):
    x, c = Float(1, 2), Float(3)
    dr.enable_grad(x, c)
    with dr.suspend_grad(), dr.resume_grad(x):
        match kind:
            case "switch":
                y = dr.switch(UInt(0, 1), [lambda x: x * c, lambda x: x * x], x)
            case "if":
                y = dr.if_stmt((x,), x < 1.5, lambda x: x * c, lambda x: x * x)
            case _:
                y = dr.while_loop(
                    (UInt(0), x),
                    lambda k, x: k < 1,
                    lambda k, x: (k + 1, dr.select(x < 2, x * c, x * x)),
                )[1]
    dr.backward(y, dr.ADFlag.ClearNone)
    np.testing.assert_array_equal(x.grad.numpy(), [3, 4])
    np.testing.assert_array_equal(c.grad.numpy(), [0])
    dr.clear_grad((x, y))
    dr.forward(x)
    np.testing.assert_array_equal(y.grad.numpy(), [3, 4])


@both
def test_lanes_that_do_not_take_part(mode):
    count = dr.zeros(UInt)

    def target(x, active):
        dr.scatter_add(count, UInt(1), UInt(0))
        return x

    x = Float(1, 2, 3)
    found = dr.switch(UInt(9, 1, 0), [target] * 2, x, Bool(False, True, True), mode=mode)
    np.testing.assert_array_equal(found.numpy(), [0, 2, 3])
    assert count[0] == 2
    found = dr.switch(UInt(9, 1, 0), [target] * 2, x, Bool(False), mode=mode)
    np.testing.assert_array_equal(found.numpy(), [0, 0, 0])
    assert count[0] == 2
    found = dr.switch(UInt(0), [target], Float(1), Bool(False), mode=mode)
    np.testing.assert_array_equal(found.numpy(), [0])
    assert count[0] == 2


def test_gather_from_what_was_computed_within_is_refused():
    table = Float(1, 2, 3)
    dr.enable_grad(table)
    y = dr.switch(
        UInt(0, 1), [lambda k: dr.gather(Float, table * 2, k)] * 2, UInt(2, 0), mode="symbolic"
    )
    np.testing.assert_array_equal(dr.detach(y).numpy(), [6, 2])
    with pytest.raises(RuntimeError, match="Compute it before"):
        dr.backward(y)


@both
@pytest.mark.parametrize("around", ["nothing", "loop", "branch", "call"])
def test_traversals_within_functions(mode, around):
    """Gradients that a function propagates reach what is outside: one number, one that was computed
    from it, an array from which it gathers, and one with an entry for each lane."""
    c, table = Float64(3), Float64(10, 20, 30)
    dr.enable_grad(c, table)
    c.grad = 1000
    double = c * 2

    def propagate(x, k):
        dr.backward(x * double * dr.gather(Float64, table, k) + c)
        return x

    def call(x, k):
        return dr.switch(k % 2, [propagate, lambda x, k: x + 1], x, k, mode=mode)

    x, k = Float64(1, 2, 3), UInt(0, 1, 2)
    lanes = [(1, 0), (3, 2)]  # x and k where the gradient is propagated
    if around == "loop":
        dr.while_loop((k, x), lambda k, x: k < 3, lambda k, x: (k + 1, call(x, k)), mode=mode)
        lanes = [(1, 0), (2, 2), (3, 2), (3, 2)]
    elif around == "branch":
        dr.if_stmt((x, k), x < 10, call, lambda x, k: x, mode=mode)
    elif around == "call":
        dr.switch(UInt(0, 0, 1), [call, call], x, k, mode=mode)
    else:
        call(x, k)
    entries = np.zeros(3)
    total = 1000
    for x, k in lanes:
        entries[k] += x * 6
        total += 2 * x * table[k] + 1
    np.testing.assert_allclose(c.grad.numpy(), [total])
    np.testing.assert_allclose(table.grad.numpy(), entries)


def test_traversal_to_a_value_of_the_body_around_is_refused():
    c = Float(3)
    dr.enable_grad(c)

    def around(x):
        y = x * c

        def propagate(x):
            dr.backward(x * y)
            return x

        return dr.switch(UInt(x) % 2, [propagate, propagate], x, mode="symbolic")

    with pytest.raises(RuntimeError, match="in the body that computes the value"):
        dr.switch(UInt(0, 1), [around, around], Float(1, 2), mode="symbolic")
    still_works("symbolic")


def test_traversal_to_an_array_of_all_lanes():
    c = Float(1, 2, 3)
    dr.enable_grad(c)

    def propagate(x):
        dr.backward(x * c)
        return x

    dr.switch(UInt(0, 1, 0), [propagate, lambda x: x], Float(4, 5, 6), mode="symbolic")
    np.testing.assert_array_equal(c.grad.numpy(), [4, 0, 6])


def test_traversals_happen_once_with_derivatives():
    """A call that is differentiated is traced again, but what it propagated itself stays."""
    x, c = Float(1, 2, 3), Float(3)
    dr.enable_grad(x, c)

    def propagate(x):
        dr.backward(dr.detach(x) * c)
        return x * x * c

    y = dr.switch(UInt(0, 1, 0), [propagate, lambda x: x], x, mode="symbolic")
    np.testing.assert_array_equal(c.grad.numpy(), [4])
    dr.backward(y)
    np.testing.assert_array_equal(c.grad.numpy(), [14])
    np.testing.assert_array_equal(x.grad.numpy(), [6, 1, 18])


@both
def test_methods(mode):
    class Scale:
        def __init__(self, factor):
            self.factor = Float(factor)
            dr.enable_grad(self.factor)

        def __call__(self, x):
            return x * self.factor

    scales = [Scale(2), Scale(3)]
    y = dr.switch(UInt(0, 1, 0), scales, Float(1, 2, 3), mode=mode)
    dr.backward(y)
    assert [s.factor.grad[0] for s in scales] == [4, 2]


@both
def test_custom_operation_within(mode):
    class Square(dr.CustomOp):
        def eval(self, x, c):
            self.x, self.c = x, c
            return c * x * x

        def forward(self):
            self.set_grad_out(
                2 * self.c * self.x * self.grad_in("x") + self.x * self.x * self.grad_in("c")
            )

        def backward(self):
            self.set_grad_in("x", 2 * self.c * self.x * self.grad_out())
            self.set_grad_in("c", self.x * self.x * self.grad_out())

    x, c = Float(1, 2, 3), Float(2)
    dr.enable_grad(x, c)
    y = dr.switch(UInt(0, 1, 0), [lambda x: dr.custom(Square, x, c), lambda x: x], x, mode=mode)
    dr.backward(y)
    np.testing.assert_array_equal(x.grad.numpy(), [4, 1, 12])
    np.testing.assert_array_equal(c.grad.numpy(), [10])


@both
def test_nothing_is_kept_alive(mode):
    class Watched:
        pass

    def call():
        x, watched = Float(1, 2, 3), Watched()
        dr.enable_grad(x)

        def target(x, watched=watched):
            return dr.sin(x)

        y = dr.switch(UInt(0, 1, 0), [target, target], x, mode=mode)
        return weakref.ref(watched), weakref.ref(x._var), y

    gc.disable()
    try:
        watched, variable, y = call()
        dr.backward(y)
        del y
        assert watched() is None and variable() is None
    finally:
        gc.enable()


# Mode of the call, mode of what is around it or inside; evaluation within a recording is an error.
MODE_PAIRS = [
    (mode, other, inside)
    for mode in MODES
    for other in MODES
    for inside in (False, True)
    if mode == other or (mode if inside else other) == "evaluated"
]


@pytest.mark.parametrize(("mode", "around", "inside"), MODE_PAIRS)
@pytest.mark.parametrize("kind", ["loop", "branch"])
def test_with_other_control_flow(mode, around, kind, inside):
    """A call within a loop or branch, or the other way round, with derivatives."""
    x, c = Float64(0.5, 1, 2, 3), Float64(1.5)
    dr.enable_grad(x, c)

    def flow(x, f):
        if kind == "branch":
            return dr.if_stmt((x,), x > 0.75, f, lambda x: x * x * c, mode=around)
        state = (UInt(0, 0, 0, 0) if dr.width(x) == 4 else UInt(x) * 0, x)
        return dr.while_loop(
            state, lambda i, x: i < 3, lambda i, x: (i + 1, f(x)), mode=around, max_iterations=3
        )[1]

    def call(x, f):
        return dr.switch(UInt(x) % 2, [lambda x: x * c, f], x, mode=mode)

    if inside:
        y = call(x, lambda x: flow(x, lambda x: dr.sin(x) + c))
    else:
        y = flow(x, lambda x: call(x, lambda x: dr.sin(x) + c))
    dr.backward(y)
    expected, gradient, total = zip(
        *[lane_of(v, kind, inside) for v in [0.5, 1, 2, 3]], strict=True
    )
    np.testing.assert_allclose(dr.detach(y).numpy(), expected)
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-6)
    np.testing.assert_allclose(c.grad.numpy(), [sum(total)], rtol=1e-6)


def lane_of(x, kind, inside):
    """The value of that program in one lane, and its derivatives."""

    def flow(x, c, f):
        if kind == "branch":
            return f(x, c) if x.real > 0.75 else x * x * c
        for _ in range(3):
            x = f(x, c)
        return x

    def call(x, c, f):
        return x * c if int(x.real) % 2 == 0 else f(x, c)

    def leaf(x, c):
        return np.sin(x) + c

    def program(x, c):
        if inside:
            return call(x, c, lambda x, c: flow(x, c, leaf))
        return flow(x, c, lambda x, c: call(x, c, leaf))

    h = 1e-100  # derivatives by a complex step
    return (
        program(x, 1.5),
        program(x + 1j * h, 1.5).imag / h,
        program(x, 1.5 + 1j * h).imag / h,
    )


def test_cooperative_vectors_within():
    from drjit import nn
    from drjit.llvm.ad import TensorXf16

    found = []
    for mode in MODES:
        w = TensorXf16(np.arange(6).reshape(3, 2) / 4)
        matrix, bias = nn.pack(w, TensorXf16(np.ones(3)), layout="training")
        x, y = Float16(np.arange(5) / 2), Float16(np.arange(5) / 4)
        dr.enable_grad(matrix.buffer, x)

        def first(x, y, matrix=matrix, bias=bias):
            return sum(dr.square(Float(v)) for v in nn.matvec(matrix, nn.CoopVec(x, y), bias))

        result = dr.switch(UInt(0, 1, 0, 1, 0), [first, lambda x, y: Float(x * y)], x, y, mode=mode)
        dr.backward(result)
        found.append([a.numpy() for a in (dr.detach(result), x.grad, matrix.buffer.grad)])
    a, b, c = (v[::2] for v in (np.arange(5) / 2, np.arange(5) / 4, np.zeros(5)))
    outputs = [a * w0 + b * w1 + 1 for w0, w1 in np.arange(6).reshape(3, 2) / 4]
    np.testing.assert_allclose(found[0][0][::2], c + sum(o * o for o in outputs), rtol=2e-3)
    for symbolic, evaluated in zip(*found, strict=True):
        np.testing.assert_allclose(symbolic, evaluated, rtol=2e-3)
    assert np.all(found[0][2] != 0)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_result_that_is_zero_everywhere_stays_a_constant(mode):
    index, mask = UInt(0, 1, 0), Bool(True, True, False)

    def first(x, active):
        return Float(0), UInt(0), Float(0), Float(-0.0), x

    def second(x, active):
        return Float(0), UInt(0), Float(1), Float(-0.0), x + 1

    def call():
        return dr.switch(index, [first, second], dr.opaque(Float, 1, 3), active=mask, mode=mode)

    found = call()
    states = [v.state is dr.VarState.Literal for v in found]
    assert states == [True, True, False, False, False]
    assert [list(v) for v in found[:2]] == [[0, 0, 0]] * 2
    assert list(found[4]) == [1, 2, 0]
    with dr.scoped_set_flag(dr.JitFlag.OptimizeCalls, False):
        assert (call()[0].state is dr.VarState.Literal) == (mode == "evaluated")

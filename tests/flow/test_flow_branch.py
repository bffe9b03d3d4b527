"""`dr.if_stmt` in all modes: against Python's own `if` on every lane, and what it refuses."""

import gc
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.flow.region import state as region_state
from drjit.llvm import Array2f, Bool, Float, Float64, Int, TensorXb, TensorXf, UInt, ad

MODES = ("evaluated", "symbolic")
SIZES = (0, 1, 15, 17)


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.mark.parametrize("size", [n for n in SIZES if n])
def test_matches_python_on_every_lane(size, mode, tier):
    x = np.linspace(-2, 3, size)
    y = dr.if_stmt(
        (Float64(x), Float64(x[::-1].copy())),
        Float64(x) > 0.5,
        lambda a, b: (dr.sqrt(a) * b, Int(a) + 1),
        lambda a, b: (a - b, Int(b)),
        mode=mode,
    )
    pairs = list(zip(x.tolist(), x[::-1].tolist(), strict=True))
    expected = [(np.sqrt(a) * b, int(a) + 1) if a > 0.5 else (a - b, int(b)) for a, b in pairs]
    np.testing.assert_allclose(y[0].numpy(), [e[0] for e in expected], rtol=1e-12)
    np.testing.assert_array_equal(y[1].numpy(), [e[1] for e in expected])


@pytest.mark.parametrize(
    "condition", [Bool(), dr.zeros(Bool, 0), dr.opaque(Bool, True, 0), Float64() < 3]
)
def test_empty_conditions_are_refused(condition, mode):
    for args in (), (Float64(1),), (Float64(),):
        with pytest.raises(RuntimeError, match="'cond' cannot be empty"):
            dr.if_stmt(args, condition, lambda *_: Int(1), lambda *_: Int(2), mode=mode)


def test_empty_arguments_of_a_constant_condition_are_refused():
    with pytest.raises(RuntimeError, match=r"'args\[0\]' of type .* is uninitialized"):
        dr.if_stmt((Float64(),), Bool(True), lambda x: x, lambda x: x)


def test_python_and_constant_conditions_choose_a_function():
    assert dr.if_stmt((1,), True, lambda x: x + 1, lambda x: x - 1) == 2
    assert dr.if_stmt((1,), False, lambda x: x + 1, lambda x: x - 1) == 0
    assert dr.if_stmt((1,), Bool(True), lambda x: x + 1, lambda x: 1 / 0) == 2
    assert dr.if_stmt((1,), Bool(False), lambda x: 1 / 0, lambda x: x - 1) == 0
    found = dr.if_stmt((Int(5),), Int(3) < 4, lambda x: x + 1, lambda x: x - 1, mode="scalar")
    assert list(found) == [6]


def test_the_default_mode_follows_the_flag():
    def f(x):
        return x + int(bool(dr.all(x > 0)))

    x = Int(1, 2)
    with pytest.raises(RuntimeError, match="symbolic"):
        dr.if_stmt((x,), x > 1, f, lambda x: x)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False):
        assert list(dr.if_stmt((x,), x > 1, f, lambda x: x)) == [1, 3]


def test_branches_in_branches(mode, tier):
    def inner(x):
        return dr.if_stmt((x,), x & 1 == 1, lambda x: x * 10, lambda x: x + 100, mode=mode)

    x = dr.arange(UInt, 17)
    found = dr.if_stmt((x,), x > 7, inner, lambda x: inner(x) + 1, mode=mode)
    expected = [(k * 10 if k & 1 else k + 100) + (k <= 7) for k in range(17)]
    np.testing.assert_array_equal(found.numpy(), expected)


def test_one_entry_meets_many(mode, tier):
    x = Float(1, 2, 3)
    found = dr.if_stmt((Float(5),), x > 1.5, lambda a: a, lambda a: Float(7), mode=mode)
    np.testing.assert_array_equal(found.numpy(), [7, 5, 5])
    once = dr.opaque(Bool, True)
    np.testing.assert_array_equal(
        dr.if_stmt((x,), once, lambda x: x + 1, lambda x: x, mode=mode).numpy(), [2, 3, 4]
    )


def test_tensors_as_conditions(mode, tier):
    x = TensorXf([1, 2, 3, 4], (2, 2))
    found = dr.if_stmt(
        (x,), TensorXb([True, False, False, True], (2, 2)), lambda x: x, lambda x: -x, mode=mode
    )
    np.testing.assert_array_equal(found.numpy(), [[1, -2], [-3, 4]])


@dataclass
class Hit:
    p: Array2f
    t: Float
    material: str


def test_trees(mode, tier):
    hit = Hit(Array2f([1, 2, 3], 0), Float(1), "glass")

    def near(hit, more):
        return Hit(hit.p + 1, hit.t * 2, hit.material), {"n": more["n"], "k": [more["k"][0] + 1]}

    found, more = dr.if_stmt(
        (hit, {"k": [UInt(1)], "n": None}),
        hit.p.x > 1.5,
        near,
        lambda hit, more: (hit, {"k": more["k"], "n": None}),
        mode=mode,
    )
    np.testing.assert_array_equal(found.p.numpy(), [[1, 3, 4], [0, 1, 1]])
    np.testing.assert_array_equal(found.t.numpy(), [1, 2, 2])
    assert found.material == "glass" and more["n"] is None
    np.testing.assert_array_equal(more["k"][0].numpy(), [1, 2, 2])
    np.testing.assert_array_equal(hit.p.x.numpy(), [1, 2, 3])


def test_keys_are_matched_by_name(mode):
    found = dr.if_stmt(
        (UInt(0, 1),),
        Bool(True, False),
        lambda i: {"a": i + 1, "b": i + 10},
        lambda i: {"b": i + 20, "a": i + 2},
        mode=mode,
    )
    assert list(found["a"]) == [1, 3] and list(found["b"]) == [10, 21]


def test_arrays_changed_in_place(mode, tier):
    x, inside = Float(1, 2, 3), [Float(5, 5, 5)]

    def change(x, inside):
        x += 10
        inside[0] *= 2
        return x, inside

    found, list_ = dr.if_stmt((x, inside), x > 1.5, change, lambda x, inside: (x, inside),
                              mode=mode)  # fmt: skip
    assert found is x and list_ is inside
    np.testing.assert_array_equal(x.numpy(), [1, 12, 13])
    np.testing.assert_array_equal(inside[0].numpy(), [5, 10, 10])


def test_arguments_that_both_leave_alone(mode):
    table = Float(1, 2, 3, 4, 5, 6, 7)
    found = dr.if_stmt(
        (UInt(0, 1), table), Bool(True, False),
        lambda i, t: (dr.gather(Float, t, i + 4), t), lambda i, t: (Float(i), t), mode=mode,
    )  # fmt: skip
    assert list(found[0]) == [5, 1]
    assert found[1] is table


@pytest.mark.parametrize("sides", ["true", "false", "both"])
@pytest.mark.parametrize("captured", [True, False])
def test_only_the_lanes_of_a_branch_scatter(captured, sides, mode, tier):
    counts = dr.zeros(UInt, 4)
    x = UInt(0, 1, 2, 3)

    def add(k, counts):
        dr.scatter_add(counts, UInt(k), x)
        return counts

    def nothing(k, counts):
        return counts

    def run(c):
        return dr.if_stmt(
            (c,) if not captured else (),
            x < 2,
            lambda *a: (add if sides != "false" else nothing)(1, a[0] if a else counts),
            lambda *a: (add if sides != "true" else nothing)(10, a[0] if a else counts),
            mode=mode,
        )

    found = run(counts)
    expected = [(sides != "false") * 1] * 2 + [(sides != "true") * 10] * 2
    np.testing.assert_array_equal(counts.numpy(), expected)
    np.testing.assert_array_equal(found.numpy(), expected)
    run(counts)
    np.testing.assert_array_equal(counts.numpy(), 2 * np.array(expected))


WRONG = {
    "type of state variable 'rv' changed from 'drjit.llvm.UInt' to 'drjit.llvm.Float'": (
        lambda i: i, lambda i: Float(i),
    ),
    r"changed from 'int' to 'drjit.llvm.UInt', .* Start with an array: UInt\(1\)": (
        lambda i: 1, lambda i: i,
    ),
    r"non-array state variable 'rv' of type 'int' changed from '1' to '2'.*Int\(2\)": (
        lambda i: 1, lambda i: 2,
    ),
    r"type of state variable 'rv\[1\]' changed from 'NoneType' to 'drjit.llvm.UInt'": (
        lambda i: (i, None), lambda i: (i, i),
    ),
    "size of state variable 'rv' of type 'tuple' changed from 1 to 2": (
        lambda i: (i,), lambda i: (i, i),
    ),
    "keys of state variable 'rv'": (lambda i: {"a": i}, lambda i: {"b": i}),
    "incompatible sizes: the results 'rv' have 3 and 3 entries, and 'cond' has 2": (
        lambda i: Float(1, 2, 3), lambda i: Float(1, 2, 4),
    ),
    "variable 'rv' of type 'drjit.llvm.Float' is uninitialized": (
        lambda i: Float(), lambda i: Float(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_functions_that_do_not_match(message, mode):
    with pytest.raises(RuntimeError, match=message):
        dr.if_stmt((UInt(0, 1),), Bool(True, False), *WRONG[message], mode=mode)


def test_names_of_results(mode):
    with pytest.raises(RuntimeError, match=r"variable 'y\[0\]' changed from"):
        dr.if_stmt(
            (UInt(0, 1),), Bool(True, False), lambda i: (i, [i]), lambda i: (i, [Int(i)]),
            rv_labels=("x", "y"), mode=mode,
        )  # fmt: skip
    for labels, f in ((("x",), lambda i: i), (("x",), lambda i: (i, i))):
        with pytest.raises(RuntimeError, match="names for"):
            dr.if_stmt((UInt(0, 1),), Bool(True, False), f, f, rv_labels=labels, mode=mode)


def test_arguments(mode):
    same = lambda x: x  # noqa: E731
    yes = Bool(True, False)
    for cond in ([True], UInt(0, 1), Array2f(1) > 0, None):
        with pytest.raises(RuntimeError, match="'cond' is of type"):
            dr.if_stmt((1,), cond, same, same, mode=mode)
    with pytest.raises(RuntimeError, match="'cond' is of type bool"):
        dr.if_stmt((1,), True, same, same, mode=mode)
    with pytest.raises(TypeError, match="'args' must be a tuple, not list"):
        dr.if_stmt([1], yes, same, same, mode=mode)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"1 variables \('args'\) and 2 labels"):
        dr.if_stmt((1,), yes, same, same, arg_labels=("a", "b"), mode=mode)
    with pytest.raises(RuntimeError, match=r"'args\[0\]' of type '.*Float' is uninitialized"):
        dr.if_stmt((Float(),), yes, same, same, mode=mode)
    with pytest.raises(RuntimeError, match="invalid 'mode' argument"):
        dr.if_stmt((1,), yes, same, same, mode="fast")
    with pytest.raises(RuntimeError, match=r"dr.if_stmt\('shade'\)"):
        dr.if_stmt((1,), 5, same, same, label="shade")


class Problem(Exception):
    pass


@pytest.mark.parametrize("side", [0, 1])
def test_an_exception_leaves_everything_as_it_was(side, mode):
    def body(x, tree):
        x += 1
        tree.append(1)
        dr.scatter_add(target, UInt(1), UInt(0))
        raise Problem

    functions = [lambda x, tree: x, lambda x, tree: x]
    functions[side] = body
    x, tree, target = Float(1, 2), [Float(3)], dr.zeros(UInt, 1)
    with pytest.raises(Problem) as error:
        dr.if_stmt((x, tree), x > 1, *functions, mode=mode)
    assert error.traceback[-1].name == "body"
    assert list(x) == [1, 2] and len(tree) == 1
    if mode == "symbolic":
        assert list(target) == [0]
    np.testing.assert_array_equal((x + 1).numpy(), [2, 3])


# ---- Derivatives


def expensive(x):
    for _ in range(5):
        x = dr.sin(x) * dr.exp(-x)
    return x


@pytest.mark.parametrize("direction", ["primal", "forward", "backward"])
def test_kernels_skip_a_side_that_no_lane_needs_with_derivatives(direction):
    x = ad.Float(1, 2, 3)
    dr.enable_grad(x)
    y = dr.if_stmt((x,), x > 2.5, expensive, lambda x: x)
    if direction == "forward":
        dr.forward(x)
        y = y.grad
    elif direction == "backward":
        dr.backward(y)
        y = x.grad
    outside = [line for line in dr.kernel_source(y).splitlines() if line.startswith("    v")]
    assert not any("exp(" in line for line in outside)
    assert any("exp(" in line for line in dr.kernel_source(y).splitlines())


def test_what_is_not_finite_on_the_other_side_never_reaches_a_gradient(tier):
    x, scale = ad.Float(0, 4, -1, 9), ad.Float(2)
    dr.enable_grad(x, scale)
    y = dr.if_stmt(
        (x,), x > 0, lambda x: dr.log(x) * dr.rsqrt(x) / scale, lambda x: x * scale, mode="symbolic"
    )
    dr.set_grad(scale, 1)  # which does not take part
    dr.forward(x, dr.ADFlag.ClearNone)
    v = np.array([4, 9.0])
    slope = (1 - np.log(v) / 2) / v**1.5 / 2
    np.testing.assert_allclose(y.grad.numpy()[[0, 2]], [2, 2])
    np.testing.assert_allclose(y.grad.numpy()[[1, 3]], slope, rtol=1e-5)
    dr.clear_grad([x, y, scale])
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), [2, slope[0], 2, slope[1]], rtol=1e-5)
    np.testing.assert_allclose(scale.grad.numpy(), -1 - (np.log(v) / v**0.5).sum() / 4, rtol=1e-5)


def test_each_function_is_called_once():
    calls = []

    def function(k):
        def run(x):
            calls.append(k)
            return x * x * (k + 1)

        return run

    x = ad.Float(1, 2)
    dr.enable_grad(x)
    y = dr.if_stmt((x,), x > 1, function(0), function(1), mode="symbolic")
    assert calls == [0, 1]
    dr.backward(y)
    assert calls == [0, 1]
    assert list(x.grad) == [4, 4]


def test_results_that_are_not_differentiable_on_one_side(mode, tier):
    x = ad.Float64(1, 2, 3)
    dr.enable_grad(x)
    y, z = dr.if_stmt(
        (x,), x > 1.5, lambda x: (dr.detach(x), x), lambda x: (x, dr.detach(x * x)), mode=mode
    )
    dr.backward(y + 10 * z)
    assert list(y) == [1, 2, 3] and list(z) == [1, 2, 3]
    assert list(x.grad) == [1, 10, 10]


def test_arrays_that_change_before_they_are_differentiated():
    x, factor = ad.Float(1, 2, 3), ad.Float(1, 2, 3)
    dr.enable_grad(x)
    y = dr.if_stmt((x,), x > 1.5, lambda x: x * factor, lambda x: x, mode="symbolic")
    factor += 10
    dr.backward(y)
    assert list(x.grad) == [1, 2, 3]


def test_vectors_have_derivatives(mode, tier):
    import drjit.nn as nn

    def f(x):
        v = nn.CoopVec(x, x * x)
        a, b = dr.if_stmt((v,), x > 1, lambda v: v * v, lambda v: v * 3 + 1, mode=mode)
        return a * 2 + b

    assert dr.check_grad(f, ad.Float64(0.3, 1.2, 1.7), tol=1e-6)


def test_second_derivatives(mode, tier):
    x, y = ad.Float64(0.5, 2, 3), ad.Float64(1.5)

    def f(x):
        return dr.if_stmt((x,), x > 1, lambda x: x * x * x * y, lambda x: dr.sin(x) * y, mode=mode)

    dr.enable_grad(x)
    dr.backward(f(x), dr.ADFlag.Default | dr.ADFlag.KeepGraph)
    g = x.grad
    dr.clear_grad(x)
    dr.backward(g)
    np.testing.assert_allclose(g.numpy(), [np.cos(0.5) * 1.5, 18, 40.5])
    np.testing.assert_allclose(x.grad.numpy(), [-np.sin(0.5) * 1.5, 18, 27])


def test_gradients_that_functions_propagate_themselves(tier):
    x = ad.Float(1, 2, 3)
    dr.enable_grad(x)

    def yes(v):
        dr.backward(x * x)
        return v * x

    y = dr.if_stmt((ad.Float(1, 1, 1),), x > 1.5, yes, lambda v: v, mode="symbolic")
    assert list(x.grad) == [0, 4, 6]
    dr.backward(y)
    assert list(x.grad) == [0, 5, 7]


# ---- What functions write to, and what must not leave them


@pytest.mark.parametrize("side", [0, 1])
def test_results_that_wait_for_scatters(side, mode):
    written, other = dr.zeros(Float, 3), Float(10, 20, 30)
    dr.scatter(written, Float(1, 2, 3), UInt(0, 1, 2))
    results = [lambda: written, lambda: other]
    found = dr.if_stmt((), UInt(0, 1, 2) < 1, *results[:: -1 if side else 1], mode=mode)
    assert list(found) == ([10, 2, 3] if side else [1, 20, 30])
    assert list(written) == [1, 2, 3]


@pytest.mark.parametrize("side", [0, 1])
def test_a_target_as_the_result_of_one_function(side, mode):
    target, lane = dr.zeros(Float, 3), UInt(0, 1, 2)

    def write():
        dr.scatter(target, Float(1), lane)
        return target

    functions = [write, lambda: Float(10, 20, 30)]
    with pytest.raises(RuntimeError, match="'rv' is in one function an array that it has written"):
        dr.if_stmt((), lane < 1, *functions[:: -1 if side else 1], mode=mode)


def test_arguments_of_another_size_only_change_by_scatters():
    def change(x, table):
        table += 1
        return x

    x, table = Float(1, 2, 3), Float(1, 2)
    with pytest.raises(RuntimeError, match=r"argument 'args\[1\]' changes, but it has 2 entries"):
        dr.if_stmt((x, table), x > 1, change, lambda x, table: x, mode="symbolic")
    assert list(table) == [1, 2]


def test_arguments_are_written_in_place():
    x, table = Float(1, 2, 3), dr.opaque(Float, 0, 100)
    before = table._node.data

    def write(x, table):
        dr.scatter_add(table, x, UInt(x))
        return x

    dr.if_stmt((x, table), x > 1, write, lambda x, table: x, mode="symbolic")
    dr.eval(table)
    assert table._node.data is before
    np.testing.assert_array_equal(table.numpy()[:5], [0, 0, 2, 3, 0])


@pytest.mark.parametrize("first", ["the value", "the counter", "another result"])
def test_old_values_of_atomic_operations_do_not_leave_a_function(first, tier):
    counter, lane, kept = dr.zeros(UInt, 1), UInt(0, 1, 2), []

    def count():
        kept.append(dr.scatter_inc(counter, UInt(0)))
        return lane

    y = dr.if_stmt((), lane < 2, count, lambda: lane * 2, mode="symbolic")
    if first != "the value":
        dr.eval(counter if first == "the counter" else y)
    for value in (kept[0], kept[0] + 1):
        with pytest.raises(RuntimeError, match="of a symbolic loop, branch or call"):
            dr.eval(value)
    assert list(y) == [0, 1, 4]
    assert counter[0] == 2


def failing(error):
    def body(*args):
        raise error

    return body


class Unusual(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")
        self.a = a


STATEMENTS = {
    "branch": lambda f, m: dr.if_stmt((), Bool(True, False), f, f, mode=m),
    "branch of one": lambda f, m: dr.if_stmt((), True, f, f),
    "loop": lambda f, m: dr.while_loop((UInt(0, 1),), lambda i: i < 2, f, mode=m),
    "condition": lambda f, m: dr.while_loop((UInt(0, 1),), f, lambda i: (i,), mode=m),
    "ordinary loop": lambda f, m: dr.while_loop((0,), lambda i: i < 2, f),
    "call": lambda f, m: dr.switch(UInt(0, 1), [f, f], mode=m),
    "call of one": lambda f, m: dr.switch(0, [f]),
}


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("no"), KeyError("k"), RuntimeError("no"), AssertionError(), Unusual(1, 2),
        UnicodeDecodeError("utf-8", b"a", 0, 1, "bad"), OSError(2, "gone"),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_what_a_function_raises_is_a_runtime_error_as_well(statement, error, mode):
    with pytest.raises(RuntimeError) as raised:
        statement(failing(error), mode)
    found = raised.value
    assert isinstance(found, type(error)) and type(found).__name__ == type(error).__name__
    assert found.__context__ is error and found.args == error.args
    assert "encountered an exception (see above)" in str(found) and str(error) in str(found)
    assert getattr(found, "a", None) == getattr(error, "a", None)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_what_ends_the_program_is_no_runtime_error(mode):
    for error in (KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)) as raised:
            dr.if_stmt((), Bool(True, False), failing(error), failing(error), mode=mode)
        assert raised.value is error


FLAGS = {
    "if": dr.JitFlag.SymbolicConditionals,
    "loop": dr.JitFlag.SymbolicLoops,
    "call": dr.JitFlag.SymbolicCalls,
}
INNER = {
    "if": lambda x, m: dr.if_stmt((x,), x > 1, lambda x: x + 10, lambda x: x - 1, mode=m),
    "loop": lambda x, m: dr.while_loop((x,), lambda x: x < 7, lambda x: (x + 2,), mode=m)[0],
    "call": lambda x, m: dr.switch(UInt(x) & 1, [lambda x: x + 100, lambda x: x], x, mode=m),
}
AROUND = {
    "if": lambda f, x: dr.if_stmt((x,), x < 5, f, lambda x: f(x) + 1),
    "loop": lambda f, x: dr.while_loop(
        (UInt(0), x), lambda i, _: i < 1, lambda i, x: (i + 1, f(x))
    )[1],
    "call": lambda f, x: dr.switch(UInt(0, 0, 1), [f, f], x),
}  # fmt: skip


@pytest.mark.parametrize("outer", AROUND)
@pytest.mark.parametrize("inner", FLAGS)
def test_within_a_recording_the_mode_is_symbolic(inner, outer, capfd):
    flag = FLAGS[inner]

    def forced(x):
        with dr.scoped_set_flag(flag, False):
            return INNER[inner](x, None)

    def evaluated(x):
        return INNER[inner](x, "evaluated")

    x = Float(0, 3, 8)
    expected = AROUND[outer](lambda x: INNER[inner](x, None), x)
    assert list(AROUND[outer](forced, x)) == list(expected)
    text = capfd.readouterr().err
    assert "forcing conditional statement to symbolic" in text and f"{flag}" in text
    if inner != "if":
        with pytest.raises(RuntimeError, match=r"in \*evaluated mode\*"):
            AROUND[outer](evaluated, x)
    else:
        assert list(AROUND[outer](evaluated, x)) == list(expected)


def test_equal_literals_of_a_branch_are_read_once():
    def body(x, i):
        x = dr.if_stmt((x,), x > 4, lambda x: x * 20 + Float(20), lambda x: x - 1)
        return x, i + 1

    x, _ = dr.while_loop((Float(3, 5), UInt(0)), lambda x, i: i < 2, body)
    text = dr.kernel_source(x)
    literals = [line.strip() for line in text.splitlines() if "= literal(" in line]
    assert len(literals) == len(set(literals)), text
    np.testing.assert_array_equal(x, [1, 2420])


def test_recorded_code_knows_that_it_is(mode):
    symbolic = mode == "symbolic"

    def scope(*_):
        return Float(dr.flag(dr.JitFlag.SymbolicScope))

    assert dr.all(dr.if_stmt((), Bool(True, False), scope, scope, mode=mode) == symbolic)
    assert dr.all(dr.switch(UInt(0, 1), [scope, scope], mode=mode) == symbolic)
    found = dr.while_loop(
        (UInt(0), Float(5)), lambda i, x: i < 1, lambda i, x: (i + 1, scope()), mode=mode
    )
    assert list(found[1]) == [symbolic]
    assert not dr.flag(dr.JitFlag.SymbolicScope)


# ---- Arguments that are read like tables


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("second", ["reads", "adds", "assigns", "scatters", "nothing"])
def test_tables_are_known_from_earlier_traces(second, loop):
    """A function that gathers from an argument is traced again where that is found, and only once
    in later calls; what it does to the argument may be different then."""
    now, traces = "reads", []

    def body(i, x, y):
        traces.append(now)
        if now == "reads":
            y = dr.gather(Float, x, 2 - i)
        elif now == "adds":
            x += 10
        elif now == "assigns":
            x = Float(5)
        elif now == "scatters":
            dr.scatter(x, Float(7), 2 - i)
        return i + 1, x, y

    def run(mode):
        state = UInt(0, 1, 2), Float(1, 2, 3), Float(0)
        if loop:
            found = dr.while_loop(state, lambda i, x, y: i < 2, body, mode=mode)
        else:
            found = dr.if_stmt(state, state[0] < 2, body, lambda *same: same, mode=mode)
        return [list(a) for a in (*found, state[1])]

    first = run("evaluated")
    assert run("symbolic") == first
    del traces[:]
    assert run("symbolic") == first and len(traces) == 1
    now = second
    assert run("symbolic") == run("evaluated")
    now = "reads"
    assert run("symbolic") == first


def test_what_is_known_of_a_function_goes_with_its_code() -> None:
    """It is the same for equal code, of which a program may compile any number of copies."""

    def made(step: int) -> Any:
        space: dict[str, Any] = {}
        exec(f"def body(x): return (x + {step},)", space)
        return space["body"]

    first, before = made(1), len(region_state._by_identity)
    region_state.profile_of(first).tables.add(0)
    assert region_state.profile_of(made(1)).tables == {0}
    assert region_state.profile_of(made(2)).tables == set()
    assert region_state.profile_of(print).tables == set()  # has no code of its own
    del first
    gc.collect()
    assert len(region_state._by_identity) == before


@pytest.mark.parametrize("kind", [Float, Array2f])
def test_attributes_of_other_objects_do_not_change_in_a_branch(kind: Any, mode: str) -> None:
    class Holder:
        pass

    holder = Holder()
    holder.number, holder.array = 3, kind(4)  # type: ignore[attr-defined]
    array = holder.array  # type: ignore[attr-defined]

    def reads(h: Any, x: Any) -> Any:
        return h, x + h.array * h.number

    def changes(h: Any, x: Any) -> Any:
        h.array += 1
        return h, x

    def assigns(h: Any, x: Any) -> Any:
        h.array = kind(7)
        return h, x

    mask, x = Bool(True, False), kind(Float(1, 2))
    _, found = dr.if_stmt((holder, x), mask, reads, lambda *same: same, mode=mode)
    assert dr.all(found == kind(Float(13, 2)), axis=None)
    for function in changes, assigns:
        for pair in (function, reads), (reads, function):
            with pytest.raises(RuntimeError, match=r"attribute 'array' of variable .* changes"):
                dr.if_stmt((holder, x), mask, *pair, mode=mode)
            assert holder.array is array and dr.all(array == 4, axis=None)  # type: ignore[attr-defined]


@pytest.mark.parametrize("loop", [False, True])
def test_attributes_of_other_objects_may_be_written_to_by_scatters(loop: bool, mode: str) -> None:
    class Holder:
        pass

    holder: Any = Holder()
    holder.counts = dr.zeros(UInt, 3)

    def body(h: Any, i: Any) -> Any:
        dr.scatter_add(h.counts, UInt(1), i)
        dr.eval(h.counts)
        return h, i + 1

    if loop:
        dr.while_loop((holder, UInt(0, 1)), lambda h, i: i < 3, body, mode=mode)
        assert list(holder.counts) == [1, 2, 2]
    else:
        dr.if_stmt((holder, UInt(0, 1)), Bool(False, True), body, lambda *same: same, mode=mode)
        assert list(holder.counts) == [0, 1, 0]


def test_lanes_of_no_branch_around_have_no_derivative(tier: str) -> None:
    """A symbolic branch within an evaluated one, of which the mask is over when it is
    differentiated."""
    x = ad.Float(0, 0, 4, 4)
    dr.enable_grad(x)

    def outer(x: Any) -> Any:
        return dr.if_stmt((x,), x < 9, dr.sqrt, lambda x: x, mode="symbolic")

    y = dr.if_stmt((x,), Bool(False, False, True, True), outer, lambda x: x * 3, mode="evaluated")
    dr.backward(y)
    assert list(x.grad) == [3, 3, 0.25, 0.25]


@dr.syntax
def assigns_a_component(x: Float, on: Bool) -> Float:
    a = Array2f(x, 5)
    if on:
        a.x = x * 2
    return a.x


@dr.syntax
def assigns_an_entry(x: Float, on: Bool) -> Float:
    a = [x + 0, x]
    if on:
        a[0] = x * 2
    return a[0]


@dr.syntax
def changes_in_place(x: Float, on: Bool) -> Float:
    a = Array2f(x, 5)
    if on:
        a.x += x
        a += 0
    return a.x


@pytest.mark.parametrize("f", [assigns_a_component, assigns_an_entry, changes_in_place])
def test_without_else_the_other_lanes_keep_what_they_have(f: Any, mode: str) -> None:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, mode == "symbolic"):
        found = f(Float(1, 2, 3), Bool(True, False, True))
    np.testing.assert_array_equal(found.numpy(), [2, 2, 6])


def test_equal_constants_of_both_functions_stay_one_in_both_modes():
    for mode in ("symbolic", "evaluated"):
        for size in (1, 3):
            found, other = dr.if_stmt(
                (UInt(1, 2, 3),),
                UInt(1, 2, 3) > 1,
                lambda x, n=size: (dr.full(UInt, 7, n), x + 1),
                lambda x, n=size: (dr.full(UInt, 7, n), x),
                mode=mode,
            )
            assert found.state is dr.VarState.Literal
            assert list(found) == [7] * size and list(other) == [1, 3, 4]

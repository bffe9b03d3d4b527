"""`dr.if_stmt` in all modes: against Python's own `if` on every lane, and what it refuses."""

from dataclasses import dataclass

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array2f, Bool, Float, Float64, Int, TensorXb, TensorXf, UInt

MODES = ("evaluated", "symbolic")
SIZES = (0, 1, 15, 17)


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.mark.parametrize("size", SIZES)
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

    def run(c):
        return dr.if_stmt(
            (c,) if not captured else (),
            x < 2,
            lambda *a: add(1 if sides != "false" else 0, a[0] if a else counts),
            lambda *a: add(10 if sides != "true" else 0, a[0] if a else counts),
            mode=mode,
        )

    found = run(counts)
    expected = [(sides != "false") * 1] * 2 + [(sides != "true") * 10] * 2
    np.testing.assert_array_equal(counts.numpy(), expected)
    np.testing.assert_array_equal(found.numpy(), expected)
    run(counts)
    np.testing.assert_array_equal(counts.numpy(), 2 * np.array(expected))


WRONG = {
    "type of variable 'rv' changed from drjit.llvm.UInt to drjit.llvm.Float": (
        lambda i: i, lambda i: Float(i),
    ),
    r"changed from int to drjit.llvm.UInt. Start with an array: UInt\(1\)": (
        lambda i: 1, lambda i: i,
    ),
    r"'rv' of type int, which is no array, changed from 1 to 2.*Int\(2\)": (
        lambda i: 1, lambda i: 2,
    ),
    r"type of variable 'rv\[1\]' changed from NoneType to drjit.llvm.UInt": (
        lambda i: (i, None), lambda i: (i, i),
    ),
    "length of variable 'rv' of type tuple changed from 1 to 2": (
        lambda i: (i,), lambda i: (i, i),
    ),
    "keys of variable 'rv'": (lambda i: {"a": i}, lambda i: {"b": i}),
    "results 'rv' have 3 and 3 entries, which does not fit 'cond' with 2": (
        lambda i: Float(1, 2, 3), lambda i: Float(1, 2, 4),
    ),
    "variable 'rv' of type drjit.llvm.Float is uninitialized": (
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
    with pytest.raises(RuntimeError, match=r"'args\[0\]' of type .*Float is uninitialized"):
        dr.if_stmt((Float(),), yes, same, same, mode=mode)
    with pytest.raises(RuntimeError, match="'mode' must be"):
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

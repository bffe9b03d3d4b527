"""Recordings that serve for many sizes, literals that become data, and arguments of `freeze`."""

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float, TensorXf, UInt
from drjit.opt import SGD, Adam, AdamW, GradScaler, Muon, RMSProp

pytestmark = pytest.mark.usefixtures("tier")


def data(n: int) -> Float:
    return Float(np.random.default_rng(n).normal(size=n).astype(np.float32))


def rows(n: int, columns: int = 3) -> TensorXf:
    return TensorXf(data(n * columns), (n, columns))


# Sizes are asked for of what has the same size in all calls.
SAME: dict[str, tuple[Callable, Callable]] = {
    "width": (
        lambda x, y: dr.arange(UInt, dr.width(x)) % dr.width(y),
        lambda n: (data(n), data(3)),
    ),
    "a decision": (
        lambda x, y: x * 2 if dr.width(y) > 2 else x,
        lambda n: (data(n), data(3)),
    ),
    "length": (lambda x, y: x * len(y), lambda n: (data(n), data(3))),
    "shape": (lambda t: t.array * dr.shape(t)[1], lambda n: (rows(n),)),
    "attribute": (lambda t: t.array * (t.shape[1] + 1), lambda n: (rows(n),)),
    "unpacked": (lambda t: (lambda n, m: t.array * (m**2))(*t.shape), lambda n: (rows(n),)),
    "slice": (lambda t: t.array * float(t.shape[1:][0]), lambda n: (rows(n),)),
    "range": (
        lambda t: [t.array * k for k in range(t.shape[1])],
        lambda n: (rows(n),),
    ),
    "slices": (lambda x, y: (x, y[1:]), lambda n: (data(n), data(3))),
    "columns": (lambda t: t[:, 1:].array, lambda n: (rows(n),)),
}


def values(tree: Any) -> Any:
    if isinstance(tree, (list, tuple)):
        return [values(v) for v in tree]
    return tree.numpy().tolist()


@pytest.mark.parametrize("name", SAME)
def test_a_size_that_stays_the_same_ties_no_recording_to_the_others(name: str):
    f, inputs = SAME[name]
    frozen = dr.freeze(f)
    for n in (5, 6, 7, 9, 200):
        assert values(frozen(*inputs(n))) == values(f(*inputs(n)))
    assert (frozen.n_recordings, frozen.n_cached_recordings) == (1, 1)


def test_the_place_within_a_line_does_not_tie_recordings():
    again = itertools.cycle((True, False))
    f = lambda t: (t[:, 1:] if next(again) else t[:, 1:]).array  # noqa: E731, RUF034
    frozen = dr.freeze(f)
    for n in (5, 6, 7, 9):
        assert values(frozen(rows(n))) == values(rows(n)[:, 1:].array)
    assert (frozen.n_recordings, frozen.n_cached_recordings) == (1, 1)


def test_a_size_that_changes_and_decides_something_ties_the_recording():
    programs: dict[str, Callable] = {
        "length": lambda x, y: x * len(x),
        "both": lambda x, y: x * 2 if dr.width(x) > dr.width(y) else x,
        "swapped": lambda x, y: (x * 2 if dr.width(x) > 5 else x, y * 3 if len(y) > 5 else y),
        "smaller": lambda x, y: dr.arange(UInt, dr.width(x) - 1),
        "least": lambda x, y: x * min(dr.width(y), dr.width(x)),
        "in order": lambda x, y: x * sorted([dr.width(x), dr.width(y)])[0],
        "product": lambda x, y: x * (dr.width(y) * dr.width(x)),
    }
    for name, f in programs.items():
        frozen = dr.freeze(f)
        for n, m in ((5, 3), (6, 3), (2, 3), (3, 5), (5, 6), (6, 5), (4, 9), (9, 4), (7, 8)):
            assert values(frozen(data(n), data(m))) == values(f(data(n), data(m))), (name, n, m)


def test_of_recordings_for_one_size_the_last_ones_are_kept():
    frozen = dr.freeze(lambda x: x * len(x), warn_after=-1)
    for n in range(2, 42):
        assert values(frozen(data(n))) == values(data(n) * n)
    assert (frozen.n_recordings, frozen.n_cached_recordings) == (40, 16)
    for n in (41, 30, 41, 26):
        frozen(data(n))
    assert frozen.n_recordings == 40
    assert values(frozen(data(25))) == values(data(25) * 25)
    assert (frozen.n_recordings, frozen.n_cached_recordings) == (41, 16)


def test_a_third_size_asks_again_where_it_was_the_same_twice():
    def f(x, y):
        return x * 2 if dr.width(y) > 4 else x

    frozen = dr.freeze(f)
    for n, m in ((5, 3), (6, 3), (7, 3), (8, 6), (9, 6), (10, 6), (11, 3)):
        assert values(frozen(data(n), data(m))) == values(f(data(n), data(m)))
    assert frozen.n_recordings == 2


@pytest.mark.parametrize("length", [2, 3, 4])
def test_parts_of_any_number_have_one_recording(length: int):
    def f(x):
        return dr.block_sum(x, length)

    for sizes in (
        (5, 7, 11, 13, 17),
        range(length, 25),
        (5, 17, 5, 17),
        (16, 8, 24, 7),
        (8, 12, 9, 13),
    ):
        frozen = dr.freeze(f)
        for n in (*sizes, 60, 61, 62, 63):
            expected = np.add.reduceat(data(n).numpy(), np.arange(0, n, length))
            np.testing.assert_allclose(frozen(data(n)).numpy(), expected, rtol=1e-5, atol=1e-6)
        assert frozen.n_cached_recordings == 1, sizes


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("sizes", [(6, 9, 12, 7, 8, 10, 13, 15), (9, 3, 6, 4, 5, 7, 12), (3, 4, 9)])
def test_runs_in_reverse_are_right_for_sizes_with_and_without_a_rest(sizes: tuple, order: int):
    def gradient(x):
        dr.enable_grad(x)
        dr.backward(dr.block_prefix_sum(x, 3) * dr.detach(x))
        return dr.grad(x)

    for f in (
        gradient,
        lambda x: dr.block_prefix_sum(x, 3, reverse=True),
        lambda x: dr.cumsum(x, reverse=True),
        lambda x: dr.cumsum(TensorXf(x), reverse=True).array,
    ):
        frozen = dr.freeze(f)
        for n in sizes[::order]:
            np.testing.assert_allclose(frozen(data(n)).numpy(), f(data(n)).numpy(), rtol=1e-5)


# ---- Literals


def test_a_literal_that_changes_costs_one_more_recording():
    frozen = dr.freeze(lambda x, y: x * y)
    counts = []
    for value in (1, 2, 1, 3, 1, 1, 2):
        assert values(frozen(data(3), Float(value))) == values(data(3) * value)
        counts.append((frozen.n_recordings, frozen.n_cached_recordings))
    assert counts == [(1, 1)] + [(2, 2)] * 6
    frozen(data(3), dr.opaque(Float, 5))
    assert frozen.n_recordings == 2


factor = Float(3)


@pytest.mark.parametrize("automatic", [True, False])
def test_literals_of_the_surroundings_are_as_those_of_arguments(automatic: bool):
    global factor
    factor = Float(3)
    other = Float(3)
    outside = dr.freeze(lambda x: x * factor, auto_opaque=automatic)
    inside = dr.freeze(lambda x, y: x * y, auto_opaque=automatic)
    for value in (3, 3, 4, 4, 5):
        if value != 3:
            factor, other = Float(value), Float(value)
        expected = values(data(3) * value)
        assert values(outside(data(3))) == values(inside(data(3), other)) == expected
    assert outside.n_recordings == inside.n_recordings == (2 if automatic else 1)


# ---- Optimizers


@pytest.mark.parametrize(
    ("cls", "options", "recordings"),
    [
        (SGD, {}, 1),
        (SGD, {"momentum": 0.5, "nesterov": True}, 1),
        (RMSProp, {}, 1),
        (Muon, {}, 1),
        (Adam, {}, 2),
        (AdamW, {"uniform": True}, 2),
    ],
)
def test_a_frozen_step_is_recorded_as_often_as_its_state_changes_in_kind(cls, options, recordings):
    def step(opt):
        dr.backward(dr.sum(opt["x"] * opt["x"] + opt["y"] * opt["y"], axis=None))
        opt.step()

    def made():
        return cls(0.1, {k: TensorXf([[1, 2], [3, 4]]) for k in "xy"}, **options)

    frozen = dr.freeze(step)
    ours, theirs = made(), made()
    for _ in range(5):
        frozen(ours)
        step(theirs)
        for key in ours:
            np.testing.assert_array_equal(ours[key].numpy(), theirs[key].numpy())
    assert frozen.n_recordings == recordings


def test_a_frozen_step_with_a_scaler_is_recorded_twice():
    def step(opt, scaler):
        dr.backward(scaler.scale(dr.sum(opt["x"] * opt["x"])))
        scaler.step(opt)

    opt, scaler, frozen = Adam(0.1, {"x": Float(1, 2)}), GradScaler(), dr.freeze(step)
    for _ in range(5):
        frozen(opt, scaler)
    assert frozen.n_recordings == 2 and opt.state["x"][3][0] == 5


# ---- Arguments


def test_without_room_nothing_is_recorded():
    calls = []

    @dr.freeze(limit=0)
    def f(x):
        calls.append(1)
        return x + 1

    for n in range(1, 4):
        assert values(f(data(3))) == values(data(3) + 1)
        assert (len(calls), f.n_recordings, f.n_cached_recordings) == (n, 0, 0)


@pytest.mark.processor
def test_the_backend_has_to_be_there_and_that_of_the_inputs():
    def f(x):
        return x + 1

    assert values(dr.freeze(f, backend=dr.JitBackend.LLVM)(data(3))) == values(data(3) + 1)
    other = dr.freeze(f, backend=dr.JitBackend.CUDA)
    with pytest.raises(RuntimeError, match=r"freeze\(.*f\): backend mismatch, .* llvm, but .*CUDA"):
        other(data(3))
    with pytest.raises(RuntimeError, match=r"the backend JitBackend\.CUDA is not available"):
        other(3)
    assert other.n_recordings == 0


def test_an_exception_of_the_function_is_also_a_runtime_error():
    @dr.freeze
    def f(x):
        raise KeyError("nothing")

    for error in (RuntimeError, KeyError):
        with pytest.raises(error, match=r"dr\.freeze\(.*f\): .*KeyError: 'nothing'") as raised:
            f(data(3))
        assert type(raised.value.__context__) is KeyError


def test_what_cannot_be_made_again_is_an_error_of_both_kinds():
    class Made:
        DRJIT_STRUCT: ClassVar = {"x": Float}

        def __init__(self, x):
            self.x = x

    for error in (RuntimeError, TypeError):
        with pytest.raises(error, match="must be constructible without arguments"):
            dr.freeze(lambda x: Made(x))(data(3))

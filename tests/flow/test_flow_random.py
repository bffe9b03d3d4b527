"""Generators of random numbers in loops: every iteration gets numbers of its own, or an error."""

import pytest

import drjit as dr
from drjit.llvm import Bool, Float, UInt, UInt64


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_generator_is_a_variable_of_a_loop(mode):
    def body(i, rng, target):
        dr.scatter(target, rng.random(Float, 1), i)
        return i + 1, rng, target

    rng, target = dr.rng(seed=UInt64(0)), dr.zeros(Float, 4)
    _, rng, target = dr.while_loop((UInt(0), rng, target), lambda i, *_: i < 4, body, mode=mode)
    expected = dr.rng(seed=UInt64(0))
    assert list(target) == [expected.random(Float, 1)[0] for _ in range(4)]
    assert rng.random(Float, 1)[0] == expected.random(Float, 1)[0]


@pytest.mark.parametrize("place", ["body", "branch", "call"])
def test_a_number_as_seed_is_refused_in_symbolic_loops(place):
    rng = dr.rng(seed=0)

    def draw():
        return rng.random(Float, 1)

    draws = {
        "body": draw,
        "branch": lambda: dr.if_stmt((), Bool(True, False), draw, draw),
        "call": lambda: dr.switch(UInt(0, 1), [draw, draw]),
    }

    def run(mode):
        return dr.while_loop(
            (UInt(0, 0), Float(0)),
            lambda i, _: i < 3,
            lambda i, x: (i + 1, x + draws[place]()),
            mode=mode,
        )

    with pytest.raises(RuntimeError, match="initialize the Generator with a seed"):
        run("symbolic")
    assert dr.all(run("evaluated")[1] > 0)
    assert not dr.allclose(draw(), draw())

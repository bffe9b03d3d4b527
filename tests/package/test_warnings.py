"""Warnings appear once for each line of the user's, and name it."""

import warnings

import pytest

import drjit as dr
from drjit.hashgrid import HashGridEncoding
from drjit.llvm import Float, ad


def caught(function, action: str = "default") -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        function()
    assert all(w.filename == __file__ for w in found)
    return found


def line(function, offset: int) -> int:
    return function.__code__.co_firstlineno + offset


class Forgetful(dr.CustomOp):
    def eval(self, x):
        return x * 2

    def backward(self):
        pass


def test_a_custom_operation_without_gradient():
    def propagate():
        for _ in range(3):
            x = ad.Float(1, 2)
            dr.enable_grad(x)
            dr.backward(dr.custom(Forgetful, x))

    (warning,) = caught(propagate)
    assert warning.lineno == line(propagate, 4) and "did not call set_grad_in()" in str(
        warning.message
    )
    assert len(caught(propagate, "always")) == 3
    assert len(caught(propagate)) == 1  # filters have changed, as with every catch_warnings


@pytest.mark.usefixtures("computing_nodes")
def test_printing_of_more_lanes_than_there_is_room_for():
    def show(limit=3):
        for count in (100, 200, 300):
            dr.print("{}", dr.arange(Float, count) + 1, mode="symbolic", limit=limit)
            dr.eval(dr.arange(Float, count) * 2)
        dr.print("{}", dr.arange(Float, 50), mode="symbolic", limit=limit)
        dr.eval(dr.arange(Float, 50) * 2)

    found = caught(show)
    assert [w.lineno for w in found] == [line(show, 2), line(show, 4)]
    assert "3 of 100 available outputs" in str(found[0].message)
    assert len(caught(show, "always")) == 4


def test_the_number_of_features_of_an_encoding():
    def make():
        for count in (1, 3, 1):
            HashGridEncoding(ad.Float16, 2, n_features_per_level=count, hashmap_size=2**10 * 3)

    (warning,) = caught(make)
    assert warning.lineno == line(make, 2)


def test_a_function_that_cannot_be_frozen(capsys):
    bound = Float(1)

    def binds(x):
        nonlocal bound
        bound = x * 2 + bound
        return x + 1

    first, second = dr.freeze(binds), dr.freeze(binds)
    for k in range(3):
        first(Float(k, 2))
        second(Float(k, 2))
    first(Float(1, 2))
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3 and all("is traced in every call: it binds a variable" in s for s in told)


def test_a_branch_that_becomes_symbolic(capsys):
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False):

        def inside(x):
            return dr.if_stmt((x,), x > 1, lambda x: x * 2, lambda x: x)

        for _ in range(3):
            dr.eval(dr.while_loop((Float(0, 3),), lambda x: x < 5, lambda x: (inside(x) + 1,)))
    # In each call, in which it is traced once.
    assert capsys.readouterr().err.count("forcing conditional statement to symbolic mode") == 3

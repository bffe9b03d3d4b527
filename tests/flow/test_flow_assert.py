"""Assertions and printing in loops, branches and calls: recorded ones report when the kernel has
run, evaluated ones see the lanes that execute the code."""

import contextlib
import io

import pytest

import drjit as dr
from drjit.llvm import Array2f, Bool, Float, UInt

pytestmark = pytest.mark.usefixtures("debug")

CHECKS = {
    "assert_true": lambda x, n: dr.assert_true(x < n, "large: {x}", x=x),
    "assert_false": lambda x, n: dr.assert_false(x >= n, "large: {x}", x=x),
    "assert_equal": lambda x, n: dr.assert_equal(x, dr.select(x < n, x, -1), "large: {}", x),
    "nested": lambda x, n: dr.assert_true(Array2f(x, 0) < n, "large: {}", x),
}


def loop(check, mode):
    def body(i, x):
        check(x)
        return i + 1, x + 1

    found = dr.while_loop((UInt(0, 0), Float(0, 1)), lambda i, x: i < 3, body, mode=mode)
    dr.eval(found)
    dr.sync_thread()
    return found[1]


def branch(check, mode):
    found = dr.if_stmt(
        (Float(3, 0, 9),),
        Bool(True, True, False),
        lambda x: check(x) or x + 0,
        lambda x: x,
        mode=mode,
    )
    dr.eval(found)
    return found


def call(check, mode):
    functions = [lambda x: check(x) or x + 0, lambda x: x]
    found = dr.switch(UInt(0, 0, 1), functions, Float(3, 0, 9), mode=mode)
    dr.eval(found)
    return found


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("flow", [loop, branch, call])
def test_assertions(check, flow, capfd, tier):
    expected = {loop: [3, 4], branch: [3, 0, 9], call: [3, 0, 9]}[flow]
    for mode in ("symbolic", "evaluated"):
        assert list(flow(lambda x: check(x, 4), mode)) == expected
    assert not capfd.readouterr().err
    assert list(flow(lambda x: check(x, 3), "symbolic")) == expected
    text = capfd.readouterr().err
    assert "Assertion failure: large: [3]\n  at " in text and "test_flow_assert.py" in text
    with pytest.raises(AssertionError, match=r"Assertion failure: large: \[3\]") as raised:
        flow(lambda x: check(x, 3), "evaluated")
    assert isinstance(raised.value, RuntimeError)
    assert type(raised.value.__context__) is AssertionError


def test_without_debug_mode_nothing_is_recorded(capfd):
    with dr.scoped_set_flag(dr.JitFlag.Debug, False):
        loop(lambda x: CHECKS["assert_true"](x, 0), "symbolic")
    assert not capfd.readouterr().err


@pytest.mark.parametrize("mode", ["auto", "evaluate"])
def test_printing_in_evaluated_code(mode):
    file = io.StringIO()

    def show(x):
        dr.print("{}", x, mode=mode, file=file)
        dr.print("masked {}", x, active=x > 2, mode=mode, file=file)

    def texts():
        found = file.getvalue().splitlines()
        file.truncate(file.seek(0))
        return found

    loop(lambda x: show(x) if True else None, "evaluated")
    assert texts() == ["[0, 1]", "[1, 2]", "[2, 3]", "masked [3]"]
    dr.while_loop(
        (UInt(0, 2),), lambda i: i < 3, lambda i: show(Float(i)) or (i + 1,), mode="evaluated"
    )
    assert texts() == ["[0, 2]", "[1, 3]", "[2, 3]"]
    branch(show, "evaluated")
    assert texts() == ["[3, 0, 9]", "masked [3]"]
    dr.if_stmt(
        (Float(1),), Bool(False, False), lambda x: show(x) or x, lambda x: x, mode="evaluated"
    )
    assert texts() == ["[1]"]


@pytest.mark.parametrize("mode", ["auto", "evaluate", "symbolic"])
@pytest.mark.parametrize("active", [True, Bool(True), Bool(True, False, True), False])
def test_lanes_that_evaluated_code_prints(mode, active):
    """Without a mask, all of them, unless a kernel prints them."""
    file = io.StringIO()
    masked = active is not True or mode == "symbolic"

    def show(name, x):
        dr.print(name + " {}", x, active=active, mode=mode, file=file)
        return x

    def texts():
        dr.sync_thread()
        found = file.getvalue().splitlines()
        file.truncate(file.seek(0))
        return found if active is not False else [*found, "nothing"]

    def body(i):
        i = dr.if_stmt(
            (i,), i < 3, lambda i: show("small", i), lambda i: show("large", i), mode="evaluated"
        )
        return (show("loop", i) + 1,)

    dr.eval(dr.while_loop((UInt(2, 3, 4),), lambda i: i < 4, body, mode="evaluated"))
    if active is False:
        expected = ["nothing"]
    elif not masked:
        expected = ["small [2, 3, 4]", "large [2, 3, 4]", "loop [2, 3, 4]"]
        expected += ["small [3, 4, 4]", "large [3, 4, 4]", "loop [3, 4, 4]"]
    elif isinstance(active, Bool) and len(active) == 3:
        expected = ["small [2]", "loop [2]", "large [3]", "loop [3]"]
    else:
        expected = ["small [2]", "large [3]", "loop [2, 3]", "large [3]", "loop [3]"]
    assert texts() == expected


def test_prints_of_evaluated_code_are_shortened():
    file = io.StringIO()

    def body(i):
        dr.print("{}", i, limit=3, file=file)
        dr.print("{}", i, active=i < 6, limit=3, file=file)
        return (i + 1,)

    dr.while_loop((dr.arange(UInt, 8),), lambda i: i < 1, body, mode="evaluated")
    assert file.getvalue() == dr.format("{}\n[0]\n", dr.arange(UInt, 8), limit=3)


def test_a_call_for_no_lanes_prints_nothing():
    file = io.StringIO()
    show = lambda x: dr.print("{}", x, file=file) or x  # noqa: E731
    dr.switch(UInt(), [show, show], Float(), mode="evaluated")
    assert not file.getvalue()


def test_recorded_text_goes_to_the_output_of_the_time_of_the_call():
    found = io.StringIO()
    with contextlib.redirect_stdout(found):
        y = dr.if_stmt(
            (Float(3, 0),), Bool(True, False), lambda x: dr.print("{}", x) or x, lambda x: x
        )
    dr.eval(y)
    dr.sync_thread()
    assert found.getvalue() == "[3]\n"

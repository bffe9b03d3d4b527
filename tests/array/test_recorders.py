"""Functions with parts in place of calls, such as those that record operations, do what their texts
say."""

from pathlib import Path

import pytest
from helpers import outcome

import drjit as dr
from drjit.array import recorders
from drjit.jit.ir import op as ops
from drjit.jit.run.bytecode import expanded, part
from drjit.llvm import ad


class Settings:
    def __init__(self, double):
        self.double, self.factor = double, 2
        self.calls = []


@part
def scaled(these, x, factor):
    """A docstring is no statement."""
    y = x * factor
    if these.double:
        y = y * 2
    these.calls.append(factor)
    count = len(these.calls)
    return y, count


@part
def answer(these, x):
    try:
        if x > 100:
            return "many"
    finally:
        these.calls.append(x)
    return x + 1


def example(these):
    def run(a):
        if a < 0:
            a, _ = scaled(these, -a, 10)
        b, total = scaled(these, a + 1, these.factor)
        return answer(these, b + total)

    return run


@pytest.mark.parametrize("double", [False, True])
def test_parts_stand_in_place_of_their_calls(double):
    made = expanded(example, double=double)
    assert made.__code__.co_names == ("calls", "factor")
    ours, theirs = Settings(double), Settings(None)
    run, same = example(ours), made(theirs)
    for a in (3, -7, 0):
        assert run(a) == same(a)
    assert ours.calls == theirs.calls
    assert same.__code__.co_varnames == ("a", "b", "total")


def test_errors_have_the_lines_of_the_parts():
    settings = Settings(False)
    settings.factor = None
    with pytest.raises(TypeError, match="unsupported operand") as error:
        expanded(example, double=False)(settings)(3)
    lines = Path(__file__).read_text().splitlines()
    assert lines[error.traceback[-1].lineno].strip() == "y = x * factor"


FORMS = [
    *[(recorders.unary, o, 1) for o in (ops.neg, ops.abs, ops.sin)],
    *[(recorders.array_first, o, 2) for o in (ops.add, ops.mul, ops.div, ops.lt, ops.minimum)],
    *[(recorders.number_first, o, 2) for o in (ops.sub, ops.mul, ops.div)],
    (recorders.ternary, ops.fma, 3), (recorders.select, ops.select, 3),
]  # fmt: skip


@pytest.mark.parametrize("cls", [ad.Float, dr.llvm.Float, ad.Int])
@pytest.mark.parametrize(("form", "o", "arity"), FORMS)
def test_recorders_do_what_their_text_says(form, o, arity, cls):
    if not o.accepts(cls._dtype):
        return
    result = cls.Mask if o.result == "mask" else cls
    arguments = o, cls, result, lambda *given: ("general", len(given))
    found = recorders.recorder(form, *arguments)
    wanted = form(recorders.Operation(*arguments))
    arrays = [cls(range(1, 5)), cls(range(1, 5)) + 1, cls(4), cls(0), cls(), cls(range(3))]
    if cls is ad.Float:
        dr.enable_grad(arrays[0])
    values = [*arrays, 2, 2.5, -1.0, 0, 1, True, 1e300, "no"]
    first = (
        [cls.Mask(True, False, True, True), cls.Mask(True)] if form is recorders.select else arrays
    )
    for a in [*first, *([2, "no"] if arity == 3 else [])]:
        for b in values if arity > 1 else [None]:
            for c in values if arity > 2 else [None]:
                given = (a, b, c)[:arity]
                assert outcome(found, *given) == outcome(wanted, *given), given

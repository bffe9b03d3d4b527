"""Why kernels were compiled: each cause, in the words of the report."""

import warnings
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

import drjit as dr
from drjit.jit.cpu import background, kernel
from drjit.jit.run import cache, recompiled
from drjit.llvm.ad import Float, Float64, UInt
from drjit.reporting import why

X = dr.opaque(Float, 2.5, 100)
Y = dr.opaque(Float, 3.5, 100)
OPAQUE = "use dr.opaque(UInt, n)"
SYNTAX = (
    "make it a `while` loop in a function with @dr.syntax, which is traced once for all numbers"
)
FACTOR = 1.0


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of other tests would be the nearest ones."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    dr.flush_kernel_cache()


def report(*programs: Callable[[], Any]) -> tuple[dict, str]:
    with dr.report() as r:
        for program in programs:
            dr.eval(program())
    return r.data(), r.why()


def last(*programs: Callable[[], Any]) -> list[tuple[str, str, str]]:
    """The reasons for the last kernel: texts, the lines that they name, and what can be done."""
    data, _ = report(*programs)
    row = data["why"][-1]
    assert row["kernel"] >= 0
    found = []
    for reason in row["reasons"]:
        path, line, _ = data["places"][reason["place"]]
        found.append(
            (reason["text"], path and data["files"][path][line - 1].strip(), reason["fix"])
        )
    return found


def power(x: Float, n: int) -> Float:
    return x**n


def rounds(x: Float, n: int) -> Float:
    for k in range(n):
        x = dr.sin(x) + k
    return x


def terms(x: Float, n: int) -> Float:
    return sum([dr.sin(x * (k + 2.5)) for k in range(n)], Float(0))


def shifted(x: Float, n: int) -> UInt:
    return UInt(x) << n


def layers(x: Float, config: Any) -> Float:
    for _ in range(config.layers):
        x = dr.cos(x)
    return x


def scaled(x: Float) -> Float:
    return dr.sin(x) * FACTOR


def mode(x: Float, how: str) -> Float:
    if how == "linear":
        return x + 1
    return dr.sin(x) + 1


def int_text(name: str, new: int, old: int) -> str:
    return f"`{name}` is a Python int that became part of the code: {new} was {old}"


def test_the_first_kernel() -> None:
    data, text = report(lambda: dr.sin(X) * 1.5)
    (row,) = data["why"]
    assert row["nearest"] == -1 and row["place"] > 0
    assert row["reasons"] == [{"text": "new: nothing like it ran before", "place": 0, "fix": ""}]
    assert text.endswith("\n  new: nothing like it ran before")
    assert report(lambda: dr.sin(X) * 1.5)[1] == "no new kernels"


def test_exponents() -> None:
    found = last(lambda: power(X, 3), lambda: power(X, 5))
    assert found == [(int_text("n", 5, 3), "return x**n", OPAQUE)]


def test_loops_of_python() -> None:
    found = last(lambda: rounds(X, 3), lambda: rounds(X, 4))
    assert found == [(int_text("n", 4, 3), "x = dr.sin(x) + k", SYNTAX)]
    dr.flush_kernel_cache()
    _, text = report(lambda: rounds(X, 4), lambda: rounds(X, 6))
    line = text.splitlines()[-1]
    assert line.startswith(f"  {int_text('n', 6, 4)} (test_why.py:") and line.endswith(
        "; " + SYNTAX
    )


def test_comprehensions() -> None:
    found = last(lambda: terms(X, 3), lambda: terms(X, 5))
    line = "return sum([dr.sin(x * (k + 2.5)) for k in range(n)], Float(0))"
    assert found == [(int_text("n", 5, 3), line, SYNTAX)]


def test_numbers_in_the_code() -> None:
    found = last(lambda: shifted(X, 3), lambda: shifted(X, 5))
    assert found == [(int_text("n", 5, 3), "return UInt(x) << n", OPAQUE)]


def test_attributes() -> None:
    found = last(*[lambda n=n: layers(X, SimpleNamespace(layers=n)) for n in (2, 4)])
    assert found == [(int_text("config.layers", 4, 2), "x = dr.cos(x)", SYNTAX)]


def test_numbers_that_simplify(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(factor: float) -> Float:
        monkeypatch.setitem(globals(), "FACTOR", factor)
        return scaled(X)

    found = last(lambda: program(2.5), lambda: program(1.0))
    text = "`FACTOR` is a Python float that became part of the code: 1.0 was 2.5"
    assert found == [(text, "return dr.sin(x) * FACTOR", "use dr.opaque(Float, FACTOR)")]


def test_strings() -> None:
    found = last(lambda: mode(X, "linear"), lambda: mode(X, "sine"))
    text = "`how` is a Python string that became part of the code: 'sine' was 'linear'"
    assert found[0][0] == text or found[0][0] == "a new operation: `sin`"


def test_values_that_change_nothing_are_not_named() -> None:
    def step(x: Float, n: int, k: float) -> Float:
        for _ in range(n):
            x = dr.sin(x) * k
        return x

    found = last(lambda: step(X, 2, 0.5), lambda: step(X, 3, 0.25))
    assert found[0][0] == int_text("n", 3, 2) or len(found) == 1


def test_operations() -> None:
    def program(f: Callable) -> Float:
        return f(X) + 1

    found = last(lambda: program(dr.exp), lambda: program(dr.log))
    assert found == [("another operation: `log`, was `exp`", "return f(X) + 1", "")]
    found = last(lambda: dr.sin(X) + Y * Y, lambda: dr.sin(X) + Y * Y + 3)
    assert [text for text, *_ in found] == [
        "a line was traced into 5 operations, 4 before (more often: addition)"
    ]


def test_types() -> None:
    x = dr.opaque(Float64, 3, 100)
    found = last(lambda: dr.tan(X) * 2, lambda: dr.tan(x) * 2)
    assert [text for text, *_ in found] == ["a type: f64 was f32"]


def test_operands() -> None:
    found = last(lambda: dr.sin(X) * X, lambda: dr.sin(X) * Y)
    assert found == [("2 inputs, 1 before: some operands were the same one", "", "")]
    one = dr.opaque(Float, 3.5)
    found = last(lambda: dr.sin(X * Y), lambda: dr.sin(X * one))
    assert found == [("a size that mattered: an input has one entry now", "", "")]
    found = last(lambda: dr.cos(X * 2.5), lambda: dr.cos(X * one))
    assert found == [("a number is an input now, as dr.opaque() makes it", "", "")]


def test_flags() -> None:
    def fast(on: bool) -> Float:
        with dr.scoped_set_flag(dr.JitFlag.FastMath, on):
            y = dr.sin(X + Y) * 1.5 + (X if on else Y)
            dr.eval(y)
        return y

    found = last(lambda: fast(False), lambda: fast(True))
    assert found[0] == ("JitFlag.FastMath is on, was off", "", "")


def test_gradients_of_more_inputs() -> None:
    def program(both: bool) -> list[Float]:
        x, y = Float(X), Float(Y)
        dr.enable_grad(x, *[y] * both)
        dr.backward(dr.sum(dr.sin(x * y)))
        return [x.grad, *[y.grad] * both]

    found = last(lambda: program(False), lambda: program(True))
    assert "gradients of 2 inputs, 1 before" in [text for text, *_ in found]


def test_frozen_functions() -> None:
    @dr.freeze
    def step(x: Float, n: int) -> Float:
        return dr.sin(x) * n

    name = f"{test_frozen_functions.__name__}.<locals>.step"
    found = last(lambda: step(X, 3), lambda: step(X, 1))
    text = "an argument is 1, 3 before, and each number is recorded for itself"
    assert found[0][0] == f"dr.freeze({name}) is recorded again: {text}"


def test_kernels_that_existed_before() -> None:
    dr.eval(rounds(X, 3))
    data, _ = report(lambda: rounds(X, 4))
    (row,) = data["why"]
    assert row["nearest"] == -1  # it was not launched meanwhile, so it has no entry
    texts = [reason["text"] for reason in row["reasons"]]
    assert texts == ["the same operations, more often: `sin`, addition"]


def test_many_kernels_take_little_time() -> None:
    with dr.report() as r:
        for n in range(10):
            for m in range(20):
                dr.eval(rounds(layers(X, SimpleNamespace(layers=m)), n))
    recorded = len(r.data()["why"])
    assert recorded == 199  # all but the one that computes nothing


# ---- Compilations


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is compiled, whatever earlier processes have left."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    monkeypatch.setattr(cache, "get", lambda key: None)
    recompiled._lines.clear()


def test_a_kernel_that_ran_as_python(compiling: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as m:
        m.setattr("drjit.jit.cpu.variants.pinned", "numpy")
        dr.eval(rounds(X, 3))
    ((text, *_),) = last(lambda: rounds(X, 3))
    assert text == (
        "it is not new: it has so much to do that compiling it pays, or was about to be compiled"
    )


def test_an_optimized_variant(compiling: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no compilation of anything else, and the report says so."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "auto")
    monkeypatch.setattr("drjit.jit.cpu.variants.prefers_numpy", lambda kernel, lanes: False)
    monkeypatch.setattr("drjit.jit.cpu.variants.prefers_python", lambda kernel, lanes: False)

    def program() -> Float:
        y = rounds(X, 5)
        dr.eval(y)
        dr.sync_thread()
        (own,) = [k for k in kernel.kernels() if k.launches]
        own.submit_optimized()
        background.finish()
        return y

    found = [text for text, *_ in last(program)]
    assert found == ["new: nothing like it ran before", why._TWICE]


def test_a_line_that_compiles_again_and_again(compiling: None) -> None:
    with pytest.warns(RuntimeWarning) as found:
        for n in range(1, 14):
            dr.eval(rounds(X, n))
    (warning,) = found
    text = "this line has compiled 10 kernels: `n` became part of their code, where {} was {} the "
    assert str(warning.message) in {
        f"{text.format(k + 1, k)}last time; {SYNTAX}, or, where it is the size of an array, "
        "have few sizes."
        for k in range(9, 12)
    }
    assert warning.filename == __file__


def test_lines_that_compute_different_things(compiling: None) -> None:
    functions = [dr.sin, dr.cos, dr.tan, dr.exp, dr.log, dr.sqrt, dr.sinh, dr.cosh, dr.tanh]
    functions += [dr.asin, dr.acos, dr.atan]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k, f in enumerate(functions):
            dr.eval(f(X) + k)
        for k in range(12):  # the same kernel
            dr.eval(X * 1.25 + k * 0.3)


class Strange:
    """An object that has no plain attributes."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("not to be asked")


def test_values_are_noted_without_a_trace() -> None:
    """What `locals()` has returned stays as it is, no array is kept, no code of objects runs."""

    def program(n: int) -> Float:
        strange, kind = Strange(), TypeVar("kind")
        large = X * n
        dr.eval(large)
        mine = locals()  # the dictionary that a frame keeps, before Python 3.13
        dr.eval(dr.sin(X) * n + 1)
        assert mine["n"] == n and mine["large"] is large
        assert mine["strange"] is strange and mine["kind"] is kind
        return large

    def forgets(n: int) -> Float:
        large = Y * n
        dr.eval(large)
        node = weakref.ref(large._node)
        dr.eval(dr.cos(Y) * n + 2)
        del large
        assert node() is None
        return Y

    report(lambda: program(2), lambda: forgets(3))
    program(4)
    forgets(5)

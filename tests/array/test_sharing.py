"""Functions that a program calls again and again are scheduled, written and compiled once."""

import gc
import random
import threading

import numpy as np
import pytest
from helpers import formula, plain_formula

import drjit as dr
from drjit.jit import flags
from drjit.jit.text import bodies, source, structure
from drjit.jit.trace import sharing
from drjit.llvm import Float as Plain
from drjit.llvm.ad import Bool, Float, Float64, UInt32


@pytest.fixture(autouse=True)
def shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SHORTEST", 3)
    monkeypatch.setattr(sharing, "SHORTEST", 3)


def ramp(n: int = 17) -> np.ndarray:
    return np.linspace(-1, 2, n, dtype=np.float32)


def test_the_work_behind_a_call_does_not_grow_with_the_length_of_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python runs at every call; nodes, statements and functions are those of one."""
    calls, written, numbered = [], [], []
    function, number = source._SourceWriter.function, structure.assign_numbers

    def counted(self, case):
        written.append(case)
        return function(self, case)

    def counted_nodes(nodes, *more):
        numbered.append(len(nodes))
        return number(nodes, *more)

    monkeypatch.setattr(source._SourceWriter, "function", counted)
    monkeypatch.setattr(structure, "assign_numbers", counted_nodes)

    @dr.func
    def call(x):
        calls.append(x)
        for _ in range(20):
            x = formula(x)
        return x * 1e-6

    def nodes_of(times: int) -> int:
        numbered.clear(), written.clear()
        y = Float(ramp())
        for _ in range(times):
            y = call(y)
        text = dr.kernel_source(y)
        assert len(written) == (times > 1) and text.count("def body") == (times > 1)
        assert text.count("sqrt") == 20
        return max(numbered)

    once, twice, ten = nodes_of(1), nodes_of(2), nodes_of(10)
    assert len(calls) == 13
    assert twice - once <= 4 and ten - twice <= 8 * 4


@pytest.mark.parametrize("n", [0, 1, 15, 17, 1000])
def test_calls_of_calls(tier: str, n: int) -> None:
    call = dr.func(formula)
    x = Float(ramp(n))
    y, z = call(call(x)), call(x + 1)
    dr.eval(y, z)
    np.testing.assert_allclose(y.numpy(), plain_formula(plain_formula(ramp(n))), rtol=1e-5)
    np.testing.assert_allclose(z.numpy(), plain_formula(ramp(n) + np.float32(1)), rtol=1e-5)


def test_constants_that_differ_are_arguments(tier: str) -> None:
    call = dr.func(formula)

    def steps(numbers):
        y, want = Plain(ramp()), ramp()
        for k in numbers:
            y, want = call(y, k), plain_formula(want, np.float32(k))
        return y, want

    for numbers in ((0.5, 0.5, 0.5), (0.25, 0.5, 0.75), (0.1, 0.1, 0.1), (0.0, -0.0, 0.0)):
        y, want = steps(numbers)
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
    y, _ = steps((0.3, 0.2, 0.4))
    text = dr.kernel_source(y)
    assert text.count("sqrt") == 1 and "a1: f32" in text


def test_constants_that_differed_once_stay_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_varying", {})  # other tests have functions that look the same
    call = dr.func(lambda x, a, b: dr.fma(x, a, dr.abs(x - b)) * 0.5 + dr.sqrt(dr.abs(x)))

    def text(rows):
        y = Plain(ramp())
        for a, b in rows:
            y = call(y, a, b)
        return dr.kernel_source(y)

    # The first two have bodies of their own: constants differ, first one, then both. All three
    # look alike to the text, which makes functions of them.
    first = text([(0.25, 0.5), (0.75, 0.5), (0.75, 0.125), (0.3, 0.2), (0.9, 0.7), (0.4, 0.7)])
    assert first.count("sqrt") == first.count("def body") == 3
    again = text([(0.1, 0.4), (0.8, 0.4), (0.8, 0.9)])
    assert again.count("sqrt") == again.count("def body") == 1


def test_constants_that_change_need_no_other_kernels(tier: str) -> None:
    """Whichever of them are equal by chance."""

    @dr.func
    def call(x, k):
        return dr.tan(formula(formula(x, k), 0.125)) * k

    choose = random.Random(1)
    dr.sync_thread()
    texts = []
    for _ in range(40):
        y = want = ramp()
        y = Plain(y)
        for _ in range(5):
            k = choose.choice((0.25, 0.75))
            y = call(y, k)
            want = np.tan(plain_formula(plain_formula(want, np.float32(k)), np.float32(0.125)))
            want = want * np.float32(k)
        texts.append(dr.kernel_source(y))
        np.testing.assert_allclose(y.numpy(), want, rtol=2e-2)
    assert len(set(texts)) <= 8
    assert len(set(texts[10:])) <= 3


def test_what_functions_take_from_outside(tier: str) -> None:
    """Arrays that are computed, or evaluated, or literals, before or within the call."""
    held = {}

    @dr.func
    def call(x):
        return dr.fma(x, held["a"], dr.abs(x - held["b"])) * (held["a"] + 1) + x

    x = Plain(ramp())
    y, want = x, ramp()
    many = dr.opaque(Plain, 5.0, 17)
    for k, (a, b) in enumerate(
        [(x * 2, many), (x * 3, many), (many, x), (Plain(2), x), (Plain(3), x), (x, x)]
    ):
        held |= {"a": a, "b": b}
        y = call(y) * 0.25
        a, b = (v.numpy() if len(v) > 1 else v.numpy()[0] for v in (a, b))
        want = ((want * a + np.abs(want - b)) * (a + np.float32(1)) + want) * np.float32(0.25)
        if k % 2:
            np.testing.assert_allclose(y.numpy(), want, rtol=2e-5)


def test_gathers_share_what_reads_the_same_array(tier: str) -> None:
    first, second = Plain(1, 2, 3, 4), Plain(10, 20, 30, 40)

    def calls(x, k, *tables):
        for table in tables:
            x = dr.func(lambda x, k, t=(table,): lookup(x, k, t[0]))(x, k)
        return x

    def lookup(x, k, table):
        return dr.gather(Plain, table, k) * x + dr.gather(Plain, first, k) * 2

    x, k = Plain(ramp()), dr.arange(dr.llvm.UInt, 17) % 3
    y, z = calls(x, k, first, first, first), calls(x, k, second, first)
    assert dr.kernel_source(y).count("gather(") == 2 < dr.kernel_source(z).count("gather(")
    number, want = np.arange(17) % 3, ramp()
    a, b = first.numpy()[number], second.numpy()[number]
    for _ in range(3):
        want = a * want + a * 2
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(z.numpy(), a * (b * ramp() + a * 2) + a * 2, rtol=1e-5)
    beyond = calls(calls(x, k, first), k + 2, first)
    with pytest.raises(IndexError, match="index 4 is out of bounds for an array of size 4"):
        beyond.numpy()
    dr.sync_thread()


def test_calls_within_loops_and_branches(tier: str) -> None:
    """The lanes that call it are those of the loop or branch."""
    outer = dr.func(lambda x: call(call(x)) + call(x))

    @dr.func
    def call(x):
        i, y = dr.while_loop((UInt32(0), x), lambda i, y: y > 1, lambda i, y: (i + 1, y * 0.5))
        return dr.select(y > 0.75, y + i, formula(y))

    def plain(x):
        y, i = x.copy(), np.zeros(len(x))
        while (y > 1).any():
            i, y = i + (y > 1), np.where(y > 1, y * np.float32(0.5), y)
        return np.where(y > 0.75, y + i, plain_formula(y)).astype(np.float32)

    def body(i, x):
        x = dr.if_stmt((x,), x > 1, lambda x: call(x) - call(x * 2), lambda x: call(call(x)))
        return i + 1, outer(x) * 0.25

    x = Float(ramp() * 8)
    _, first = dr.while_loop((UInt32(0), x), lambda i, x: i < 2, body)
    _, second = dr.while_loop((UInt32(0), x + 1), lambda i, x: i < 3, body)
    dr.eval(first, second)
    for y, start, rounds in ((first, ramp() * 8, 2), (second, ramp() * 8 + 1, 3)):
        want = start.astype(np.float32)
        for _ in range(rounds):
            yes, no = plain(want) - plain(want * 2), plain(plain(want))
            want = np.where(want > 1, yes, no)
            want = (plain(plain(want)) + plain(want)) * np.float32(0.25)
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-4)


def test_nothing_leaves_a_body_that_calls_in_several_places_share(tier: str) -> None:
    """Though it depends neither on the loop around it nor on what one of the calls gets."""
    same = Float(ramp() * 2)

    @dr.func
    def call(y, x):
        def body(i, y):
            yes, no = lambda y, x: y * 0.5 + formula(x), lambda y, _: y * y
            return i + 1, dr.if_stmt((y, x), y > 0, yes, no)

        return dr.while_loop((UInt32(0), y), lambda i, _: i < 2, body)[1]

    def rounds(count, y):
        step = lambda i, y: (i + 1, call(y, same))  # noqa: E731
        return dr.while_loop((UInt32(0), y), lambda i, _: i < count, step)[1]

    x = Float(ramp())
    y = dr.if_stmt((x,), x > 0.5, lambda y: rounds(3, y), lambda y: rounds(1, y))
    once = want = ramp()
    for k in range(6):
        want = np.where(want > 0, want * 0.5 + plain_formula(ramp() * 2), want * want)
        once = want if k == 1 else once
    np.testing.assert_allclose(y.numpy(), np.where(ramp() > 0.5, want, once), rtol=1e-4)


def test_results_that_swap_the_state_of_a_loop(tier: str) -> None:
    swap = dr.func(lambda a, b: (b, a, formula(a)))

    def body(i, a, b, s):
        b, a, t = swap(*swap(b, a)[:2])
        a, b, u = swap(a, b)
        return i + 1, a, b, s + t - u

    start = UInt32(0), Float(ramp()), Float(ramp() + 1), Float(0)
    _, a, b, s = dr.while_loop(start, lambda i, *_: i < 3, body)
    want_a, want_b = ramp(), ramp() + np.float32(1)
    want = np.zeros(17, np.float32)
    for _ in range(3):
        t = plain_formula(want_a)
        u = plain_formula(want_a)
        want = want + t - u
        want_a, want_b = want_b, want_a
    dr.eval(a, b, s)
    np.testing.assert_array_equal(a.numpy(), want_a)
    np.testing.assert_array_equal(b.numpy(), want_b)


def test_one_call_that_swaps_the_state_of_a_loop(tier: str) -> None:
    for swap in (dr.func(lambda a, b: (b, a)), dr.func(lambda a, b: (b, a, formula(a)))):
        start = UInt32(0), Float(ramp()), Float(ramp() + 1)
        _, a, b = dr.while_loop(
            start, lambda i, *_: i < 3, lambda i, a, b, swap=swap: (i + 1, *swap(a, b)[:2])
        )
        dr.eval(a, b)
        np.testing.assert_array_equal(a.numpy(), ramp() + 1)
        np.testing.assert_array_equal(b.numpy(), ramp())


def test_what_does_not_change_in_loops_of_two_branches(tier: str) -> None:
    """It stays in the function, as no place outside of the loops is in both branches."""
    x = Float(ramp())
    y = x * 2
    call = dr.func(lambda s: formula(x) * 0.5 + dr.abs(y) + s * 0.125)

    def loop(s, rounds):
        return dr.while_loop(
            (UInt32(0), s), lambda i, s: i < rounds, lambda i, s: (i + 1, call(s))
        )[1]

    first = dr.if_stmt((x,), x > 0, lambda s: loop(s, 2), lambda s: s)
    second = dr.if_stmt((x,), x > 1, lambda s: loop(s, 3), lambda s: s)
    dr.eval(first, second)
    for found, limit, rounds in ((first, 0, 2), (second, 1, 3)):
        want = ramp()
        for _ in range(rounds):
            want = plain_formula(ramp()) * 0.5 + np.abs(ramp() * 2) + want * 0.125
        np.testing.assert_allclose(found.numpy(), np.where(ramp() > limit, want, ramp()), rtol=1e-5)


def test_a_call_without_those_before_it(tier: str) -> None:
    """Whose arguments are younger than the body, which an earlier call has recorded."""
    call = dr.func(formula)
    x = Float(ramp())
    pending = call(x)
    later = [call(Float(ramp() * k) + k) for k in (2, 3, 4)]
    total = later[0] + call(later[1] * later[2])
    want = [plain_formula(ramp() * k + np.float32(k)) for k in (2, 3, 4)]
    np.testing.assert_allclose(later[1].numpy(), want[1], rtol=1e-5)
    np.testing.assert_allclose(total.numpy(), want[0] + plain_formula(want[1] * want[2]), rtol=1e-5)
    np.testing.assert_allclose(pending.numpy(), plain_formula(ramp()), rtol=1e-5)


@pytest.mark.parametrize("forward", [False, True])
def test_derivatives(tier: str, forward: bool) -> None:
    scale = Float64(0.75)
    call = dr.func(lambda x: formula(x) * scale)
    x = dr.linspace(Float64, 0.5, 2, 17)
    dr.enable_grad(x, scale)
    y = call(call(call(x)))
    if forward:
        dr.forward(x)
        found = dr.grad(y).numpy()
    else:
        dr.backward(dr.sum(y))
        found = dr.grad(x).numpy()

    def plain(x: np.ndarray, s: float = 0.75) -> np.ndarray:
        return plain_formula(plain_formula(plain_formula(x) * s) * s) * s

    at, h = np.linspace(0.5, 2, 17), 1e-6
    np.testing.assert_allclose(found, (plain(at + h) - plain(at - h)) / (2 * h), rtol=1e-6)
    if not forward:
        slope = (plain(at, 0.75 + h) - plain(at, 0.75 - h)).sum() / (2 * h)
        np.testing.assert_allclose(dr.grad(scale).numpy(), slope, rtol=1e-6)


def test_derivatives_share_as_well() -> None:
    @dr.func
    def call(x):
        for _ in range(6):
            x = dr.sin(x) * 0.9 + x * 0.1
        return x

    def lines(times: int) -> int:
        x = dr.opaque(Float, 0.5, 17)
        dr.enable_grad(x)
        y = x
        for _ in range(times):
            y = call(y)
        dr.backward(y)
        return dr.kernel_source(dr.grad(x)).count("\n")

    few, many = lines(3), lines(12)
    assert many - few < 9 * 12


def test_what_one_call_needs_of_the_results(tier: str) -> None:
    """The first result only, the second, none; arguments of results that nobody needs are not
    computed."""

    @dr.func
    def call(x, y):
        return formula(x), formula(y) + 1

    x = Float(ramp())
    unneeded = dr.tan(x)
    a, _ = call(x, unneeded)
    b, _ = call(a, unneeded)
    assert "tan(" not in dr.kernel_source(b)
    _, c = call(unneeded, b)
    want = plain_formula(plain_formula(plain_formula(ramp()))) + 1
    np.testing.assert_allclose(c.numpy(), want, rtol=1e-5)


def test_effects_happen_at_every_call(tier: str) -> None:
    target = dr.zeros(Plain, 4)

    @dr.func
    def call(x, k):
        dr.scatter_add(target, formula(x), k)
        return formula(x)

    x, k = Plain(ramp()), dr.arange(dr.llvm.UInt, 17) % 4
    y = call(call(x, k), k)
    want = np.zeros(4)
    first, second = (
        plain_formula(ramp()),
        plain_formula(plain_formula(ramp())),
    )
    np.add.at(want, np.arange(17) % 4, first.astype(np.float64) + second)
    np.testing.assert_allclose(target.numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(y.numpy(), second, rtol=1e-5)


def test_other_sizes_types_and_masks(tier: str) -> None:
    call = dr.func(lambda x, active=True: formula(x))
    x, wide, double = Float(ramp()), Float(ramp(33)), Float64(ramp())
    mask = Bool(ramp() > 0)
    found = [call(call(v)) for v in (x, wide, double)] + [call(call(x, mask), ~mask), call(x, mask)]
    dr.eval(found)
    masked = np.where(ramp() > 0, plain_formula(ramp()), 0)
    twice = np.where(ramp() > 0, 0, plain_formula(masked))
    wants = [plain_formula(plain_formula(v)) for v in (ramp(), ramp(33), ramp().astype(float))]
    for y, want in zip(found, [*wants, twice, masked], strict=True):
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)


def test_nothing_is_kept_alive() -> None:
    call = dr.func(formula)
    gc.collect()
    before = len(sharing._bodies)
    y = call(call(Float(ramp())))
    assert len(sharing._bodies) == before + 1
    gc.disable()
    try:
        dr.eval(y)
        assert len(sharing._bodies) == before
    finally:
        gc.enable()


def test_a_function_that_fails_leaves_others_alone(tier: str) -> None:
    number = 0

    @dr.func
    def call(x):
        nonlocal number
        number += 1
        y = formula(x)
        if number == 2:
            raise ValueError("the second call")
        return y

    x = Float(ramp())
    y = call(x)
    with pytest.raises(ValueError, match="the second call"):
        call(y)
    np.testing.assert_allclose(call(y).numpy(), plain_formula(plain_formula(ramp())), rtol=1e-5)


def test_a_value_that_leaves_a_function_is_an_error() -> None:
    kept = []

    @dr.func
    def call(x):
        kept.append(formula(x))
        return kept[-1] * 2

    y = call(call(Float(ramp())))
    for v in kept:
        with pytest.raises(RuntimeError, match="symbolic"):
            (v + y).numpy()


def test_the_backend_is_that_of_calls_before() -> None:
    call = dr.func(formula)
    with pytest.raises(RuntimeError, match="could not detect the backend from the input arg"):
        call(1.0)
    assert len(call(Float(ramp()))) == 17
    assert type(call(Plain(ramp()))) is Plain
    three, added = Float(3), dr.func(lambda x: three + x)
    assert list(added(Float(1))) == list(added(1)) == [4]
    given = dr.func(backend=dr.JitBackend.LLVM)(lambda x: dr.arange(Float, 3) + x)
    assert list(given(1)) == [1, 2, 3]


def test_debug_mode_and_threads(tier: str) -> None:
    call = dr.func(formula)
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        y = call(call(Float(ramp())))
        np.testing.assert_allclose(y.numpy(), plain_formula(plain_formula(ramp())), rtol=1e-5)
    assert not flags.current & 1
    found: list = [None] * 4

    def run(k: int) -> None:
        y = Float(ramp() + k)
        for _ in range(4):
            y = call(y) * 0.5
        found[k] = y.numpy()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        want = ramp() + np.float32(k)
        for _ in range(4):
            want = plain_formula(want) * np.float32(0.5)
        np.testing.assert_allclose(found[k], want, rtol=1e-5)


@pytest.mark.parametrize("stored", [1 << 30, 64])
def test_calls_in_loops_that_are_computed_again(stored, monkeypatch):
    """Reverse passes compute iterations again within loops of their own, also those of inner
    loops, where the calls of a function share its body as they did before."""
    monkeypatch.setattr("drjit.flow.loop.gradient.MEMORY", stored)
    c = Float64(1.1)

    def plain(x, k):
        for _ in range(6):
            x = dr.sin(x * k) * c + x * 0.3
        return x

    def derivatives(f):
        def inner(j, x):
            return j + 1, f(x, 0.3) + f(x, 0.7) * 0.1

        def outer(i, x):
            x = dr.while_loop((UInt32(0), x), lambda j, _: j < 2, inner)[1]
            return i + 1, x + f(x, 0.2)

        x = Float64(0.3, 0.4, 1.2)
        dr.enable_grad(x, c)
        dr.clear_grad(c)
        y = dr.while_loop((UInt32(0), x), lambda i, _: i < UInt32(2), outer)[1]
        dr.backward(y, flags=dr.ADFlag.ClearVertices)
        found = [y.numpy(), x.grad.numpy(), c.grad.numpy()]
        dr.clear_grad((x, y))
        dr.set_grad((x, c), (1, 0.5))
        dr.forward_to(y)
        return [*found, y.grad.numpy()]

    for a, b in zip(derivatives(plain), derivatives(dr.func(plain)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)

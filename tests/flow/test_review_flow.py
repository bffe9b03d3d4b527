"""Control flow that goes wrong, or shares arrays with the code around it: what fails leaves nothing
behind, and arrays that others refer to keep their values."""

from dataclasses import dataclass

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float, UInt
from drjit.llvm.ad import PCG32, Array2f
from drjit.llvm.ad import Float as ADFloat


def works():
    """Whether side effects still happen."""
    buffer = dr.zeros(UInt, 3)
    dr.scatter_add(buffer, UInt(1), UInt(0, 1, 1))
    return buffer == [1, 2, 0]


def escaped():
    """A value from the body of a loop, and the result of the loop."""
    found = []

    def body(i):
        found.append(i * 2)
        return (i + 1,)

    (result,) = dr.while_loop((UInt(0, 1, 2),), lambda i: i < 5, body)
    return found[0], result


def scattered(value, _result):
    buffer = dr.zeros(UInt, 10)
    dr.scatter(buffer, UInt(1), value)
    return buffer


def counted(value, result):
    return dr.scatter_inc(dr.zeros(UInt, 20), value, result < 100)


def added(value, result):
    buffer = dr.zeros(UInt, 20)
    dr.scatter_add(buffer, result, value)
    return buffer


def in_another_loop(value, result):
    buffer = dr.zeros(UInt, 20)

    def body(i):
        dr.scatter_add(buffer, value, i)
        return (i + 1,)

    return dr.while_loop((result,), lambda i: i < 9, body)[0] + buffer[0]


@pytest.mark.parametrize("use", [scattered, counted, added, in_another_loop])
def test_what_depends_on_an_escaped_value_is_dropped(tier, use):
    value, result = escaped()
    with pytest.raises(RuntimeError, match="symbolic loop"):
        dr.eval(use(value, result))
    assert dr.all(works())


def test_targets_of_dropped_side_effects_keep_what_they_held(tier):
    value, _ = escaped()
    buffer = dr.zeros(UInt, 8)
    dr.scatter_add(buffer, UInt(1), UInt(0, 1, 1))
    dr.scatter_add(buffer, UInt(1), value)
    dr.scatter_add(buffer, UInt(10), UInt(2, 1, 3))
    with pytest.raises(RuntimeError, match="symbolic loop"):
        dr.eval(buffer)
    assert dr.all(buffer == [1, 12, 10, 10, 0, 0, 0, 0])


@pytest.mark.parametrize("call", ["switch", "if_stmt"])
def test_side_effects_of_all_bodies_are_undone(tier, call):
    buffer = dr.zeros(UInt, 8)
    dr.scatter_add(buffer, UInt(3), UInt(2))

    def first(x):
        dr.scatter_add(buffer, UInt(1), x)
        return x

    def second(x):
        dr.scatter_add(buffer, UInt(1), x)
        raise ValueError("no")

    x = UInt(1, 2, 3)
    with pytest.raises((RuntimeError, ValueError), match="no"):
        if call == "switch":
            dr.switch(UInt(0, 1, 0), [first, second], x)
        else:
            dr.if_stmt((x,), x > 1, first, second)
    dr.scatter_add(buffer, UInt(5), UInt(4))
    assert dr.all(buffer == [0, 0, 3, 0, 5, 0, 0, 0])
    assert dr.all(works())


def test_a_failed_body_leaves_the_effects_of_blocks_in_it_undone(tier):
    buffer = dr.zeros(UInt, 8)
    dr.scatter_add(buffer, UInt(3), UInt(2))

    def inner(j):
        dr.scatter_add(buffer, UInt(1), j)
        return (j + 1,)

    def outer(i):
        dr.while_loop((UInt(0, 1, 2),), lambda j: j < 3, inner)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        dr.while_loop((UInt(0, 1, 2),), lambda i: i < 3, outer)
    dr.scatter_add(buffer, UInt(5), UInt(4))
    assert dr.all(buffer == [0, 0, 3, 0, 5, 0, 0, 0])


# ---- Arrays that the state shares with others

SHARED = ADFloat(0.5, 1.5, 2)
EXPECTED = [0.9375, 2.8125, 3.75]  # x -> x / 2 + x0, three times


class Owner:
    """No PyTree."""

    def __init__(self):
        self.x = ADFloat(SHARED)

    @dr.syntax
    def run(self):
        y = self.x
        i = UInt(0)
        while i < 3:
            y = y * 0.5 + self.x
            i += 1
        return y


@dr.syntax
def of_module():
    y = SHARED
    i = UInt(0)
    while i < 3:
        y = y * 0.5 + SHARED
        i += 1
    return y


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_body_sees_captured_arrays_as_they_were(tier, mode):
    def run(x):
        body = lambda s, i: (s * 0.5 + x, i + 1)  # noqa: E731
        return dr.while_loop((x, UInt(0)), lambda s, i: i < 3, body, mode=mode)[0]

    x = ADFloat(SHARED)
    assert dr.all(run(x) == EXPECTED) and dr.all(x == SHARED)
    v = Array2f([0.5, 1.5], 1)
    assert dr.all(run(v) == Array2f([0.9375, 2.8125], 1.875), axis=None)


def test_attributes_and_globals_are_not_the_state(tier):
    owner = Owner()
    assert dr.all(owner.run() == EXPECTED) and dr.all(owner.x == SHARED)
    assert dr.all(of_module() == EXPECTED) and dr.all(SHARED == [0.5, 1.5, 2])


def test_gradients_of_captured_initial_values(tier):
    def run(x):
        body = lambda s, i: (s * s * 0.25 + x, i + 1)  # noqa: E731
        return dr.while_loop((x, UInt(0)), lambda s, i: i < 3, body)[0]

    for f in (run, lambda x: dr.if_stmt((x,), x > 0, run, lambda x: x)):
        x = ADFloat(0.5, 1.5, 2)
        dr.enable_grad(x)
        dr.backward(f(x))
        s, d = np.array([0.5, 1.5, 2]), np.ones(3)
        for _ in range(3):
            s, d = s * s * 0.25 + np.array([0.5, 1.5, 2]), 0.5 * s * d + 1
        assert np.allclose(dr.grad(x).numpy(), d)


@dataclass
class Ray:
    o: Array2f
    t: ADFloat


def test_objects_stay_what_they_are():
    rng = PCG32(3)
    ray, values, table = Ray(Array2f(0, 1), ADFloat(0, 1, 2)), [ADFloat(1)], dr.arange(ADFloat, 9)

    def body(ray, values, table, rng, i):
        ray.o += ray.t
        values[0] += rng.next_float32() * 0
        dr.scatter_add(table, ADFloat(1), i)
        return ray, values, table, rng, i + 1

    state = (ray, values, table, rng, UInt(0, 1, 2))
    out = dr.while_loop(state, lambda ray, values, table, rng, i: i < 3, body)
    assert out[0] is ray and out[1] is values and out[2] is table and out[3] is rng
    assert dr.all(ray.o == Array2f([0, 2, 2], [1, 3, 3]), axis=None)
    assert dr.all(table == [1, 3, 5, 3, 4, 5, 6, 7, 8])


# ---- Names in transformed functions


class Steps:
    size = 3

    @dr.syntax
    def run(self, x):
        while x < 10:
            x = Steps.double(x) + Steps.size
        return x

    @staticmethod
    def double(x):
        return x * 2


@dr.syntax
def repeated(x, depth):
    i = UInt(0)
    while i < 2:
        x = (repeated(x, depth - 1) if depth > 0 else x) + 1
        i += 1
    return x


def test_functions_name_themselves_and_their_class():
    assert dr.all(Steps().run(Float(1, 2)) == [13, 17])
    assert dr.all(repeated(Float(1, 2), 2) == [15, 16])


# ---- The number of lanes where the condition has one


@dr.syntax
def look_up(x, table, counts):
    i = UInt(0)
    while i < 3:
        if x > 1:
            x = x * 0.5 + dr.gather(ADFloat, table, i)
        else:
            dr.scatter_add(counts, UInt(1), i)
        i += 1
    return x


@pytest.mark.parametrize("tracked", [False, True])
def test_the_lanes_are_those_of_what_changes(tier, tracked):
    x, table, counts = ADFloat(0.5, 1.5, 2.5), dr.arange(ADFloat, 100), dr.zeros(UInt, 6)
    if tracked:
        dr.enable_grad(x)
    y = look_up(x, table, counts)
    assert dr.all(y == [0.5, 0.75, 2.8125])
    assert dr.all(counts == [1, 2, 2, 0, 0, 0])
    if tracked:
        dr.backward(y)
        assert dr.all(dr.grad(x) == [1, 0.5, 0.125])


@dr.syntax
def one_of(x, buffer, first):
    if x > 1:
        x = x + 1
        if first:
            dr.scatter_add(buffer, UInt(1), UInt(0))
    else:
        if not first:
            dr.scatter_add(buffer, UInt(1), UInt(0))
        x = x - 1
    return x


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("first", [False, True])
def test_either_branch_may_have_side_effects(tier, size, first):
    buffer = dr.zeros(UInt, size)
    assert dr.all(one_of(Float(0.5, 1.5, 2.5), buffer, first) == [-0.5, 2.5, 3.5])
    assert buffer[0] == (2 if first else 1) and dr.sum(buffer) == buffer[0]


# ---- Side effects of bodies that are traced again for derivatives


def nested(a, c, buffer, kinds):
    """A loop or call in a loop, both with side effects."""

    def count(x):
        dr.scatter_add(buffer, UInt(1), UInt(dr.clip(dr.floor(x * 2 + 4), 0, 7)))

    def once(a, c):
        count(c)
        return a * c * 0.9, c

    def loop(a, c):
        def inner(m, a, c):
            return m + 1, *once(a, c)

        return dr.while_loop((UInt(0), a, c), lambda m, a, c: (m < 2) & (c < 2), inner)[1:]

    calls = {
        "loop": loop,
        "branch": lambda a, c: dr.if_stmt((a, c), a > 0.3, loop, once),
        "switch": lambda a, c: dr.switch(UInt(0, 1, 0), [loop, once], a, c),
    }

    def outer(n, a, c):
        count(a)
        return n + 1, *calls[kinds](a, c)

    return dr.while_loop((UInt(0), a, c), lambda n, a, c: (n < 3) & (a < 2.8), outer)[1:]


@pytest.mark.parametrize("kind", ["loop", "branch", "switch"])
@pytest.mark.parametrize("forward", [False, True])
def test_side_effects_happen_once(tier, kind, forward):
    def run(tracked):
        buffer = dr.zeros(UInt, 8)
        a, c = ADFloat(0.1, 0.5, 0.7), ADFloat(0.2, -0.5, 0.9)
        if tracked:
            dr.enable_grad(a, c)
        x, y = nested(a, c, buffer, kind)
        if tracked and forward:
            dr.forward(a)
            dr.eval(dr.grad(x))
        elif tracked:
            dr.backward(x + y)
            dr.eval(dr.grad(a))
        return buffer

    plain = run(False)
    assert dr.sum(plain) > 9 and dr.all(run(True) == plain)


@pytest.mark.parametrize("used", [False, True])
def test_old_values_of_atomics_are_not_made_again(used):
    counter, queue = dr.zeros(UInt, 1), dr.zeros(UInt, 8)

    def body(x, i):
        k = dr.scatter_inc(counter, UInt(0))
        dr.scatter(queue, i + 1, k)
        return x * x + (ADFloat(k) * x if used else 0), i + 1

    x = ADFloat(1, 2, 3)
    dr.enable_grad(x)
    y = dr.while_loop((x, UInt(0)), lambda x, i: i < 2, body)[0]
    dr.eval(y)
    if used:
        with pytest.raises(RuntimeError, match="scatter_inc"):
            dr.backward(y)
    else:
        dr.backward(y)
        assert np.allclose(dr.grad(x).numpy(), [4, 32, 108])
    assert counter[0] == 6 and dr.sum(queue) == 9


def test_loops_that_drop_lanes_in_each_other(tier):
    def run(**how):
        mode = how["mode"]

        def halved(m, c):
            return m + 1, dr.if_stmt((c,), c > 1, lambda c: c * 0.5, lambda c: c + 0.1, mode=mode)

        def outer(n, a, c):
            c = dr.while_loop((UInt(0), c), lambda m, c: (m < 3) & (c < 0.9), halved, **how)[1]
            return n + 1, a + c, c

        c = dr.linspace(Float, 0, 4, 17)
        test = lambda n, a, c: (n < 3) & (a < 4.1)  # noqa: E731
        return dr.while_loop((UInt(0), c * 1.1, c), test, outer, **how)[1:]

    a, c = run(mode="symbolic")
    for compress in (False, True):
        a2, c2 = run(mode="evaluated", compress=compress)
        assert dr.allclose(a, a2) and dr.allclose(c, c2)

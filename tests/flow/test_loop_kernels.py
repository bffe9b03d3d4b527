"""Kernels of loops in evaluated mode: iterations share them, in the loop and in its derivatives,
however many there are."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import entries, launched

import drjit as dr
from drjit import ADFlag
from drjit.llvm.ad import Array3f64, Float64, UInt32

pytestmark = pytest.mark.usefixtures("tier")

N = 17


def counts(run: Callable[[], Any]) -> tuple[int, int, int]:
    """Numbers of launches, of different kernels, and of operations in the largest one."""
    found = launched(run)
    largest = max(k.get("operation_count", 0) for k in found)
    return len(found), len({k["hash"] for k in found}), largest


def start() -> tuple[Float64, Float64, Float64]:
    """Initial values, and two captured arrays: of one entry, and of one for each lane."""
    y, a, b = dr.linspace(Float64, 0, 1, N), Float64(0.7), dr.linspace(Float64, -1, 1, N)
    dr.make_opaque(y, a, b)
    return y, a, b


def run_loop(steps: int, y: Float64, a: Float64, b: Float64, table: Any = None) -> Float64:
    def body(i: UInt32, y: Float64) -> tuple:
        z = dr.sin(y * a) + b * b
        if table is not None:
            z += dr.gather(Float64, table, i % 3) * y
        return i + 1, z * 0.5

    limit = UInt32(np.arange(N) % 3 + steps - 2)
    return dr.while_loop((UInt32(0), Float64(y)), lambda i, y: i < limit, body, mode="evaluated")[1]


def gradients(steps: int) -> list[np.ndarray]:
    """Finite differences of the sum of the results."""

    def value(y, a, b, table):
        y, limit = y.copy(), np.arange(N) % 3 + steps - 2
        for i in range(steps):
            y = np.where(i < limit, (np.sin(y * a) + b * b + table[i % 3] * y) * 0.5, y)
        return y.sum()

    args = [np.array(v) for v in start()] + [np.array([0.1, 0.2, 0.3])]
    found, h = [], 1e-6
    for k, arg in enumerate(args):
        slope = np.zeros(arg.size)
        for j in range(arg.size):
            ends = []
            for sign in (1, -1):
                moved = [v.copy() for v in args]
                moved[k][j] += sign * h
                ends.append(value(*moved))
            slope[j] = (ends[0] - ends[1]) / (2 * h)
        found.append(slope)
    return found


@pytest.mark.parametrize("way", ["backward", "backward_to", "steps"])
def test_iterations_share_the_kernels_of_their_derivatives(way: str) -> None:
    seen = []
    for steps in (5, 25):
        inputs = [*start(), Float64(0.1, 0.2, 0.3)]
        dr.enable_grad(inputs)
        y = dr.sum(run_loop(steps, *inputs))

        def back(y: Float64 = y, inputs: list = inputs) -> Any:
            if way == "backward_to":
                dr.set_grad(y, 1)
                return dr.backward_to(inputs)
            if way == "steps":
                dr.set_grad(y, 1)
                dr.enqueue(dr.ADMode.Backward, y)
                dr.traverse(dr.ADMode.Backward, ADFlag.ClearNone)
            else:
                dr.backward(y)
            return [v.grad for v in inputs]

        seen.append(counts(back))
        for v, want in zip(inputs, gradients(steps), strict=True):
            np.testing.assert_allclose(v.grad.numpy(), want, rtol=1e-6, atol=1e-9)
    (few, kinds, largest), (many, same_kinds, same) = seen
    assert kinds == same_kinds and largest == same
    assert (many - few) % 20 == 0 and many - few <= 80


def test_iterations_share_the_kernels_of_tangents() -> None:
    seen = []
    for steps in (5, 25):
        y, a, b = start()
        dr.enable_grad(y, a)
        dr.set_grad(y, 1)
        dr.set_grad(a, 0.5)
        result = run_loop(steps, y, a, b, Float64(0.1, 0.2, 0.3))
        seen.append(counts(lambda r=result: dr.forward_to(r)))
        slopes = gradients(steps)
        want = slopes[0].sum() + 0.5 * slopes[1].sum()
        np.testing.assert_allclose(result.grad.numpy().sum(), want, rtol=1e-6)
    (few, kinds, largest), (many, same_kinds, same) = seen
    assert kinds == same_kinds and largest == same and many - few == 20


def test_iterations_share_the_kernels_of_second_derivatives() -> None:
    seen = []
    for steps in (5, 15):
        y, a, b = start()
        dr.enable_grad(a)
        result = dr.sum(run_loop(steps, y, a, b))
        dr.backward(result, flags=ADFlag.ClearInterior | ADFlag.KeepGraph)
        slope = a.grad
        dr.clear_grad(a)
        seen.append(counts(lambda s=slope, a=a: (dr.backward(s), a.grad)[1]))

        def derivative(at: float, steps: int = steps) -> float:
            y, _, b = start()
            a = Float64(at)
            dr.enable_grad(a)
            dr.backward(dr.sum(run_loop(steps, y, a, b)))
            return a.grad[0]

        want = (derivative(0.7 + 1e-5) - derivative(0.7 - 1e-5)) / 2e-5
        np.testing.assert_allclose(a.grad[0], want, rtol=1e-6)
    (_, kinds, largest), (_, same_kinds, same) = seen
    assert kinds == same_kinds and largest == same


def test_what_goes_before_and_after_a_loop_has_kernels_of_its_own() -> None:
    """The kernels of the iterations are those of another program with the same loop."""
    known: set[str] = set()
    for scale in (lambda y: y * y, lambda y: dr.exp(y) * y):
        y, a, b = start()
        dr.enable_grad(y, a)
        result = dr.sum(scale(run_loop(10, scale(y), a, b)))
        found = launched(lambda r=result, y=y, a=a: (dr.backward(r), y.grad, a.grad)[1:])
        iterations = {k["hash"] for k in found if "cos" in k["source"]}
        assert iterations and (not known or iterations == known)
        known = iterations


def test_gradients_of_an_iteration_are_freed_with_it() -> None:
    """Memory grows by the state that an iteration starts from, and not again in the traversal."""
    n = 1 << 14

    def more(steps: int) -> int:
        """How much more memory the derivative takes than the loop."""
        x = dr.linspace(Float64, 0, 1, n)
        dr.enable_grad(x)
        state = UInt32(0), Array3f64(x, x * 0.5, 1)
        _, y = dr.while_loop(
            state,
            lambda i, y: i < steps,
            lambda i, y: (i + 1, dr.normalize(y + dr.cross(y, Array3f64(0.1, x, 0.3)))),
            mode="evaluated",
        )
        used = []
        for run in (lambda: dr.eval(y), lambda: dr.backward(dr.sum(dr.sum(y)))):
            dr.sync_thread()
            dr.detail.malloc_clear_statistics()
            run()
            dr.sync_thread()
            used.append(dr.detail.malloc_watermark(dr.JitBackend.LLVM))
        return used[1] - used[0]

    gc.collect()  # else what other tests have left goes at some time
    assert more(24) == more(4)


def test_variables_that_a_loop_does_not_change_keep_their_place_in_the_graph() -> None:
    x = dr.linspace(Float64, 0, 1, N)
    dr.enable_grad(x)
    state = UInt32(0), x, Float64(1)
    number = x.index_ad
    _, same, y = dr.while_loop(
        state,
        lambda i, x, y: i < 4,
        lambda i, x, y: (i + 1, x, y * x),
        mode="evaluated",
    )
    assert same is x and x.index_ad == number
    dr.backward(dr.sum(y))
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.linspace(0, 1, N) ** 3)


def test_traversals_within_iterations_end_with_them() -> None:
    """Gradients that iterations propagate themselves, through evaluated loops inside of them."""
    x, w = dr.linspace(Float64, 0, 1, N), Float64(0.5)
    dr.enable_grad(x, w)

    def outer(i: UInt32, s: Float64) -> tuple:
        inner = lambda j, y: (j + 1, dr.sin(y) * w)  # noqa: E731
        y = dr.while_loop((UInt32(0), x + i), lambda j, y: j < 3, inner, mode="evaluated")[1]
        dr.backward(y)
        return i + 1, s + dr.detach(y)

    limit = UInt32(np.arange(N) % 3)
    dr.while_loop((UInt32(0), Float64(0)), lambda i, s: i < limit, outer, mode="evaluated")

    def value(x, w):
        total = np.zeros(N)
        for i in range(2):
            y = x + i
            for _ in range(3):
                y = np.sin(y) * w
            total = total + np.where(i < np.arange(N) % 3, y, 0)
        return total

    at, h = np.linspace(0, 1, N), 1e-6
    np.testing.assert_allclose(
        x.grad.numpy(), (value(at + h, 0.5) - value(at - h, 0.5)) / 2e-6, rtol=1e-6, atol=1e-9
    )
    slope = (value(at, 0.5 + h) - value(at, 0.5 - h)).sum() / 2e-6
    np.testing.assert_allclose(w.grad[0], slope, rtol=1e-6)


# Local memory


def sort(count: int, n: int, compress: bool = False) -> list[Float64]:
    """Local memory whose entries are sorted by exchanges of neighbours, as many as each lane has
    entries out of order."""
    memory = dr.alloc_local(Float64, count)
    for k in range(count):
        memory[k] = dr.cos(dr.arange(Float64, n) * (k + 1))

    def body(memory: dr.Local, j: UInt32, left: UInt32) -> tuple:
        a, b = memory[j], memory[j + 1]
        swap = a > b
        memory.write(b, j, swap)
        memory.write(a, j + 1, swap)
        j = (j + 1) % (count - 1)
        return memory, j, dr.select(swap, count - 1, left - 1)

    state = memory, dr.zeros(UInt32, n), dr.full(UInt32, count - 1, n)
    dr.make_opaque(state[1:])
    memory = dr.while_loop(
        state, lambda memory, j, left: left > 0, body, mode="evaluated", compress=compress
    )[0]
    return [memory[k] for k in range(count)]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("count", "n"), [(2, 1), (3, 15), (5, 17), (9, 64), (20, 65)])
def test_local_memory_in_a_loop(count: int, n: int, compress: bool) -> None:
    want = np.sort(np.cos(np.arange(n) * np.arange(1, count + 1)[:, None]), axis=0)
    found = np.array(entries(sort(count, n, compress))) * np.ones(n)
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-15)


def test_local_memory_is_one_array_however_many_entries_it_has() -> None:
    seen = []
    for count in (5, 40):
        found = launched(lambda count=count: sort(count, N)[0])
        iterations = [k for k in found if "take(" in k["source"]]
        assert len(iterations) > 2
        inputs = {(k["input_count"], k["output_count"], k["operation_count"]) for k in iterations}
        # Neither is the memory of each lane selected where the loop goes on: writes are masked.
        assert all(k["source"].count("select(") <= 4 for k in iterations)
        seen.append(inputs)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("n", [1, 17, 65])
def test_derivatives_of_local_memory_in_a_loop(n: int) -> None:
    def run(x: Any, steps: int, mode: str) -> Any:
        memory = dr.alloc_local(Float64, 6, Float64(x))

        def body(memory: dr.Local, i: UInt32) -> tuple:
            memory[i % 6] = memory[(i * 5 + 1) % 6] * dr.sin(memory[i % 3] + i)
            return memory, i + 1

        limit = UInt32(np.arange(n) % 3 + steps - 2)
        state = memory, UInt32(0)
        found = dr.while_loop(state, lambda _, i: i < limit, body, mode=mode, max_iterations=steps)
        return sum([found[0][k] * (k + 1) for k in range(6)], Float64(0))

    seen = []
    for steps in (5, 15):
        x = dr.linspace(Float64, 0.5, 1, n) if n > 1 else Float64(0.5)
        slopes = []
        for mode in ("evaluated", "symbolic"):
            dr.enable_grad(x)
            y = run(x, steps, mode)
            found = launched(lambda y=y, x=x: (dr.backward(y), x.grad)[1])
            slopes.append(x.grad.numpy())
            dr.disable_grad(x)
            if mode == "evaluated":
                seen.append(len({k["hash"] for k in found}))
        np.testing.assert_allclose(*slopes, rtol=1e-9)
        h = 1e-6
        ends = [run(x + s * h, steps, "evaluated").numpy() for s in (1, -1)]
        want = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(slopes[0], want, rtol=1e-5, atol=1e-8)
        dr.enable_grad(x)
        dr.set_grad(x, 1)
        forward = dr.forward_to(run(x, steps, "evaluated"))
        np.testing.assert_allclose(forward.numpy(), want, rtol=1e-5, atol=1e-8)
    assert seen[0] == seen[1]


# Targets of scatters


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_target_of_another_size_than_the_lanes_is_not_copied(mode: str, reads: bool) -> None:
    """Unless somebody else holds it."""

    def body(i: UInt32, target: Float64, table: Float64) -> tuple:
        value = dr.gather(Float64, table, i % 7) if reads else Float64(i)
        dr.scatter_add(target, value, i % 5)
        return i + 1, target, table

    for shared in (False, True):
        target, table = dr.arange(Float64, 100) + 1, dr.arange(Float64, 7) * 10
        dr.eval(target, table)
        owner = Float64(target) if shared else None

        def run(target: Float64 = target, table: Float64 = table) -> Any:
            state = dr.arange(UInt32, 8), target, table
            found = dr.while_loop(state, lambda i, *_: i < 12, body, mode=mode)
            assert found[1] is target and found[2] is table
            return found

        sizes = [k["size"] for k in launched(run)]
        assert sizes.count(100) == shared and 7 not in sizes
        want = np.arange(100.0) + 1
        for lane in range(8):
            for k in range(lane, 12):
                want[k % 5] += k % 7 * 10 if reads else k
        np.testing.assert_array_equal(target.numpy(), want)
        if owner is not None:
            np.testing.assert_array_equal(owner.numpy(), np.arange(100.0) + 1)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("wrong", ["raises", "rebinds", "in place", "later"])
def test_a_loop_that_fails_leaves_targets_alone(wrong: str, mode: str, shared: bool) -> None:
    target = dr.arange(Float64, 100) + 1
    dr.eval(target)
    owner = Float64(target) if shared else None

    def body(i: Any, target: Float64) -> tuple:
        dr.scatter_add(target, Float64(10), i % 5)
        dr.scatter_add(target, Float64(1), i % 5)
        if wrong == "raises":
            raise ValueError("no")
        if wrong == "rebinds":
            target = target * 2
        elif wrong == "in place":
            target *= 2
        else:
            i = Float64(i)
        return i + 1, target

    with pytest.raises((RuntimeError, ValueError)) as failed:
        dr.while_loop((dr.arange(UInt32, 8), target), lambda i, _: i < 12, body, mode=mode)
    assert failed.value.__traceback__ is not None  # whose frames hold what the body has made
    for array in (target, owner):
        if array is not None:
            np.testing.assert_array_equal(array.numpy(), np.arange(100.0) + 1)
    dr.scatter_add(target, Float64(1), UInt32(0))
    assert target[0] == 2 and (owner is None or owner[0] == 1)

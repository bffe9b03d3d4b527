"""What an object computes when it is made, such as the levels of a texture or packed matrices, can
be differentiated any number of times, in both directions, as if it were computed in each use.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
import drjit.nn as nn
from drjit import ADFlag
from drjit.ad import precomputed
from drjit.jit import locks
from drjit.llvm import ad
from drjit.llvm.ad import Array2f, Array2f64, Float, Float16, Float64, TensorXf, TensorXf64, UInt

LINEAR, LAPLACIAN = dr.MipFilter.Linear, dr.MipBasis.Laplacian


def random(cls: Any, *shape: int) -> Any:
    values = np.random.default_rng(sum(shape)).uniform(-1, 1, shape)
    return cls(values.astype(np.float64 if "64" in cls.__name__ else np.float32))


class Kind(NamedTuple):
    """An object made of `inputs`, on which what `use` returns depends linearly."""

    inputs: Callable[[], list]
    make: Callable[..., Any]
    use: Callable[[Any], Any]


def texture(suffix: str, dims: int, look_up: str, dtype: str = "", **modes: Any) -> Kind:
    """A look-up in a texture; `dtype` is that of the tensor if it is not the texture's."""
    cls = getattr(ad, f"Texture{dims}{suffix}")
    tensor = getattr(ad, f"TensorX{dtype or suffix}")
    pos = [Float64(0.31), Float64(0.62), Float64(0.17)][:dims]
    pos = getattr(ad, f"Array{dims}f64")(*pos)

    def use(made: Any) -> Any:
        extra = {"eval_lod": (1.3,), "eval_filtered": (pos * 0.5, pos * 0.25)}.get(look_up, ())
        found = getattr(made, look_up)(pos, *extra)
        found = found[1] if look_up == "eval_fetch" else found
        return found[0] + 3 * found[1]

    def make(given: Any) -> Any:
        return cls(given, **modes)

    return Kind(lambda: [random(tensor, *[7, 5, 6][:dims], 2)], make, use)


def packed(*shapes: tuple[int, ...]) -> Kind:
    def use(views: Any) -> Any:
        first, *rest = views if isinstance(views, tuple) else (views,)
        y = nn.matvec(first, nn.CoopVec(Float(1), Float(2)), *rest)
        return dr.sum([v * (k + 1) for k, v in enumerate(y)])

    inputs = [TensorXf if len(shape) == 2 else Float for shape in shapes]
    return Kind(
        lambda: [random(cls, *shape) for cls, shape in zip(inputs, shapes, strict=True)],
        lambda *given: nn.pack(*given, layout="training"),
        use,
    )


def network() -> Kind:
    def make(weights: Any, bias: Any) -> Any:
        net = nn.Sequential(nn.Linear(2, 3)).alloc(TensorXf)
        net.layers[0].weights, net.layers[0].bias = weights, bias
        return nn.pack(net, layout="training")

    def use(net: Any) -> Any:
        return dr.sum(list(net(nn.CoopVec(Float(1), Float(2)))))

    return Kind(lambda: [random(TensorXf, 3, 2), random(TensorXf, 3, 1)], make, use)


def hash_encoding(cls: Any, stored: Any, given: Any) -> Kind:
    def make(values: Any) -> Any:
        made = cls(stored, 2, n_levels=2, base_resolution=4)
        made.set_params(values)
        return made

    def use(made: Any) -> Any:
        found = made([Float(0.3), Float(0.4)])
        return Float(found[0]) + Float(found[3])

    n = cls(stored, 2, n_levels=2, base_resolution=4).n_params
    return Kind(lambda: [random(given, n)], make, use)


def module() -> Kind:
    def make(weights: Any) -> Any:
        net = nn.Linear(2, 3, bias=False).alloc(TensorXf)
        net.weights = weights
        return net

    def use(net: Any) -> Any:
        return dr.sum(net(TensorXf([[1], [2]])).array)

    return Kind(lambda: [random(TensorXf, 3, 2)], make, use)


LOOK_UPS = ["eval", "eval_cubic", "eval_fetch", "eval_lod", "eval_filtered"]
KINDS = {
    **{
        f"{look_up}{dims}": texture("f64", dims, look_up, mip_filter=LINEAR)
        for look_up in LOOK_UPS
        for dims in (1, 2, 3)
        if dims == 2 or look_up == "eval_lod"
    },
    **{
        f"{name} {look_up}": texture("f64", 2, look_up, mip_filter=LINEAR, **modes)
        for look_up in ("eval", "eval_lod")
        for name, modes in {
            "laplacian": {"mip_basis": LAPLACIAN},
            "mirror": {"mip_basis": LAPLACIAN, "wrap_mode": dr.WrapMode.Mirror},
            "nearest": {"filter_mode": dr.FilterMode.Nearest},
        }.items()
    },
    "single": texture("f", 2, "eval_lod", mip_filter=dr.MipFilter.Nearest),
    "half": texture("f16", 2, "eval_lod", mip_filter=LINEAR),
    "anisotropic": texture("f64", 2, "eval_filtered", mip_filter=LINEAR, max_aniso=4),
    "no levels": texture("f64", 2, "eval"),
    "rounded": texture("f16", 2, "eval", "f64"),
    "rounded levels": texture("f", 2, "eval_lod", "f64", mip_filter=LINEAR),
    "rounded laplacian": texture("f", 2, "eval_lod", "f64", mip_filter=LINEAR, mip_basis=LAPLACIAN),
    "matrix": packed((3, 2)),
    "matrix and bias": packed((3, 2), (3,)),
    "packed network": network(),
    "module": module(),
    "hash grid": hash_encoding(dr.hashgrid.HashGridEncoding, Float, Float),
    "hash grid of halves": hash_encoding(dr.hashgrid.HashGridEncoding, Float16, Float),
    "permutohedral": hash_encoding(dr.hashgrid.PermutoEncoding, Float16, Float64),
}
TOLERANCE = {"rtol": 4e-3, "atol": 4e-3}
EXACT = {"rtol": 1e-5, "atol": 1e-6}

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
some = pytest.mark.parametrize(
    "kind",
    [
        KINDS[name]
        for name in ("eval_lod2", "laplacian eval_lod", "rounded levels", "matrix and bias")
    ],
    ids=["texture", "laplacian", "rounded", "packed"],
)


def gradients(arrays: list) -> list[np.ndarray]:
    return [dr.grad(a).numpy() for a in arrays]


def once(kind: Kind, inputs: list) -> list[np.ndarray]:
    """Returns the gradients of one use of a new object."""
    copies = [type(a)(a.numpy()) for a in inputs]
    dr.enable_grad(copies)
    dr.backward(kind.use(kind.make(*copies)))
    return gradients(copies)


def agrees(found: list, expected: list, factor: float = 1) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, factor * b, **EXACT)


def of(kind: Kind) -> tuple[list, Any, list[np.ndarray]]:
    inputs = kind.inputs()
    expected = once(kind, inputs)
    dr.enable_grad(inputs)
    return inputs, kind.make(*inputs), expected


@kinds
def test_every_use_gives_the_inputs_its_gradient(kind):
    inputs, made, expected = of(kind)
    difference = kind.use(kind.make(*[dr.detach(a) * 2 for a in inputs])) - kind.use(made)
    slope = sum(float((a.numpy() * g).sum()) for a, g in zip(inputs, expected, strict=True))
    np.testing.assert_allclose(difference.numpy(), slope, **TOLERANCE)
    for k in (1, 2, 3):
        dr.backward(kind.use(made))
        agrees(gradients(inputs), expected, k)
    dr.clear_grad(inputs)
    dr.backward(kind.use(made))
    agrees(gradients(inputs), expected)


@kinds
@pytest.mark.every(3)
def test_tangents_reach_every_use(kind):
    inputs, made, expected = of(kind)
    for factor in (1, 3):
        y = kind.use(made)
        for a in inputs:
            dr.set_grad(a, dr.detach(a) * factor)
        dr.forward_from(inputs)
        slope = sum(float((a.numpy() * g).sum()) for a, g in zip(inputs, expected, strict=True))
        np.testing.assert_allclose(y.grad.numpy(), factor * slope, **TOLERANCE)


@some
@pytest.mark.parametrize(
    "flags",
    [
        ADFlag.ClearNone, ADFlag.ClearEdges, ADFlag.ClearInterior, ADFlag.ClearInput,
        ADFlag.ClearEdges | ADFlag.ClearInterior, ADFlag.ClearVertices, ADFlag.Default,
        ADFlag.Default | ADFlag.KeepGraph,
    ],
)  # fmt: skip
def test_flags_do_not_count_anything_twice(kind, flags):
    inputs, made, expected = of(kind)
    for k in (1, 2, 3):
        dr.backward(kind.use(made), flags)
        agrees(gradients(inputs), expected, k)
    dr.clear_grad(inputs)
    for factor in (1, 3):
        y = kind.use(made)
        for a in inputs:
            dr.set_grad(a, dr.detach(a) * factor)
        dr.forward_from(inputs, flags)
        slope = sum(float((a.numpy() * g).sum()) for a, g in zip(inputs, expected, strict=True))
        np.testing.assert_allclose(y.grad.numpy(), factor * slope, **TOLERANCE)


@some
def test_uses_wait_for_each_others_traversals(kind):
    inputs, made, expected = of(kind)
    first, second = kind.use(made), kind.use(made)
    dr.backward(first)
    agrees(gradients(inputs), expected)
    dr.backward(second)
    agrees(gradients(inputs), expected, 2)
    third, fourth = kind.use(made), kind.use(made)
    dr.backward(third + 2 * fourth)
    agrees(gradients(inputs), expected, 5)


@some
def test_scopes_that_name_the_inputs_hold_for_what_was_made_of_them(kind):
    inputs, made, expected = of(kind)
    with dr.suspend_grad(*inputs):
        assert not dr.grad_enabled(kind.use(made))
    with dr.suspend_grad(), dr.resume_grad(*inputs):
        dr.backward(kind.use(made))
    agrees(gradients(inputs), expected)
    with dr.suspend_grad():
        suspended = kind.make(*inputs)
    assert not dr.grad_enabled(kind.use(suspended))
    for k in (2, 3):
        with dr.isolate_grad():
            dr.backward(kind.use(made))
            agrees(gradients(inputs), expected, k - 1)
        agrees(gradients(inputs), expected, k)


@some
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_uses_in_loops_and_branches(kind, mode):
    inputs, made, expected = of(kind)
    for k in (1, 2):

        def more(i, y):
            return i < 3

        def step(i, y):
            return i + 1, y + kind.use(made)

        y = kind.use(made) * 0
        _, y = dr.while_loop((UInt(0), y), more, step, mode=mode, max_iterations=3)
        dr.backward(y)
        agrees(gradients(inputs), expected, 3 * k)
    found = dr.if_stmt(
        (), dr.opaque(ad.Bool, True), lambda: kind.use(made), lambda: y * 0, mode=mode
    )
    dr.backward(found)
    agrees(gradients(inputs), expected, 7)


@some
def test_uses_in_a_frozen_function(kind):
    inputs, made, expected = of(kind)

    @dr.freeze
    def backward(made, x):
        dr.backward(kind.use(made) * x)

    for k in range(1, 6):
        backward(made, dr.opaque(Float, k))
        agrees(gradients(inputs), expected, k * (k + 1) / 2)


@some
def test_partial_traversals(kind):
    inputs, made, expected = of(kind)
    for _ in (1, 2):
        y = kind.use(made)
        dr.set_grad(y, 1)
        found = dr.backward_to(inputs[0])
        agrees([found.numpy()], expected[:1])
        dr.clear_grad(inputs)
        y = kind.use(made)
        dr.set_grad(inputs[0], dr.detach(inputs[0]))
        slope = float((inputs[0].numpy() * expected[0]).sum())
        np.testing.assert_allclose(dr.forward_to(y).numpy(), slope, **TOLERANCE)
        dr.clear_grad(inputs)


@pytest.mark.parametrize("basis", dr.MipBasis)
def test_new_contents_count_from_then_on(basis):
    """Changes of the tensor, of the texture, and steps of an optimizer."""
    pos = Array2f64(Float64(0.3, 0.6), Float64(0.4, 0.2))
    first = random(TensorXf64, 6, 5, 2)
    dr.enable_grad(first)
    made = ad.Texture2f64(first, mip_filter=LINEAR, mip_basis=basis)

    def of_fresh(values):
        fresh = TensorXf64(values)
        dr.enable_grad(fresh)
        new = ad.Texture2f64(fresh, mip_filter=LINEAR, mip_basis=basis)
        y = dr.sum(new.eval_lod(pos, 1.4) ** 2, axis=None)
        dr.backward(y)
        return y.numpy(), fresh.grad.numpy()

    def check(tensor):
        for _ in range(2):
            dr.clear_grad(tensor)
            y = dr.sum(made.eval_lod(pos, 1.4) ** 2, axis=None)
            dr.backward(y)
            expected = of_fresh(tensor.numpy())
            np.testing.assert_allclose(y.numpy(), expected[0], rtol=1e-10)
            np.testing.assert_allclose(tensor.grad.numpy(), expected[1], rtol=1e-9, atol=1e-12)

    check(first)
    second = random(TensorXf64, 4, 4, 2)
    dr.enable_grad(second)
    made.set_tensor(second)
    check(second)
    third = random(Float64, 32)
    dr.enable_grad(third)
    made.set_value(third)
    dr.backward(made.eval(pos)[0])
    dr.backward(made.eval(pos)[0])
    np.testing.assert_allclose(dr.sum(third.grad).numpy(), 4, rtol=1e-12)
    optimizer = dr.opt.SGD(lr=0.1, params={"t": dr.detach(second)})
    for _ in range(3):
        made.set_tensor(optimizer["t"])
        check(optimizer["t"])
        optimizer.step()


def test_an_array_changed_in_place_counts_after_the_update():
    made = ad.Texture1f64(random(TensorXf64, 8, 1), mip_filter=LINEAR)
    for _ in range(3):
        dr.enable_grad(made.tensor())
        made.update_inplace()
        for k in (1, 2):
            dr.backward(made.eval_lod(ad.Array1f64(0.3), 1.5)[0])
            np.testing.assert_allclose(dr.sum(made.tensor().grad, axis=None).numpy(), k)
        dr.disable_grad(made.tensor())
        made.tensor()[0] = 2.5


def test_coefficients_of_levels_are_parameters_as_often_as_wanted():
    made = ad.Texture2f64(random(TensorXf64, 8, 8, 1), mip_filter=LINEAR, mip_basis=LAPLACIAN)
    parts = [made.tensor(k) for k in range(made.mip_levels())]
    dr.enable_grad(parts)
    for k, part in enumerate(parts):
        made.set_tensor(k, part, rebuild=False)
    made.update_inplace()
    pos = Array2f64(0.3, 0.4)
    for k in (1, 2, 3):
        dr.backward(made.eval(pos)[0])
        for part in parts:
            np.testing.assert_allclose(dr.sum(part.grad, axis=None).numpy(), k, rtol=1e-12)


def test_coarser_levels_are_differentiable_as_often_as_wanted():
    tensor = random(TensorXf, 4, 4, 1)
    dr.enable_grad(tensor)
    made = ad.Texture2f(tensor, mip_filter=LINEAR)
    for k in (1, 2):
        dr.backward(dr.sum(made.tensor(1), axis=None))
        np.testing.assert_allclose(tensor.grad.numpy(), k / 4)
    tensor.grad = dr.full(TensorXf, 1, (4, 4, 1))
    for _ in range(2):
        dr.forward_from(tensor, ADFlag.ClearEdges)
        np.testing.assert_allclose(made.tensor(1).grad.numpy(), 1)


@some
def test_second_derivatives(kind):
    """Of the square of a use: a gradient whose slope along that of the use is constant."""
    inputs, made, expected = of(kind)
    value = float(kind.use(made).numpy()[0])
    squared = sum(float((g**2).sum()) for g in expected)
    for _ in range(2):
        y = kind.use(made)
        dr.backward(y * y, ADFlag.Default | ADFlag.KeepGraph)
        agrees(gradients(inputs), expected, 2 * value)
        slopes = [dr.grad(a) * type(a)(g) for a, g in zip(inputs, expected, strict=True)]
        dr.clear_grad(inputs)
        dr.backward(dr.sum([dr.sum(slope, axis=None) for slope in slopes]))
        agrees(gradients(inputs), expected, 2 * squared)
        dr.clear_grad(inputs)


def test_two_objects_of_one_input_and_inputs_that_were_computed():
    x = random(TensorXf, 4, 4, 1)
    dr.enable_grad(x)
    tensor = x * 3
    one, other = [ad.Texture2f(tensor, mip_filter=LINEAR) for _ in range(2)]
    pos = Array2f(0.3, 0.4)
    dr.backward(one.eval(pos)[0] + other.eval_lod(pos, 1)[0])
    np.testing.assert_allclose(dr.sum(x.grad, axis=None).numpy(), 6, rtol=1e-6)


def test_a_traversal_continues_outside_of_a_scope_where_the_arrays_are():
    """Not on the device that is the default one."""
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    y = dr.gather(Float, x, UInt(2, 1))
    with dr.isolate_grad():
        with dr.isolate_grad():
            dr.backward(y * 2)
        assert list(x.grad) == [0, 0, 0]
    assert list(x.grad) == [0, 2, 2]


@pytest.fixture
def switching():
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*work: Callable[[], Any]) -> list[Any]:
    """Calls functions in threads that begin together, and returns their results."""
    start = threading.Barrier(len(work))

    def call(f: Callable[[], Any]) -> Any:
        start.wait(30)
        return f()

    with ThreadPoolExecutor(len(work)) as threads:
        return [t.result(120) for t in [threads.submit(call, f) for f in work]]


THREADS, TIMES = 4, 24


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.every(3)
def test_threads_differentiate_uses_of_one_object_at_once(kind, switching):
    inputs, made, expected = of(kind)

    factors = [1, 2, 4, 8] * (TIMES // 4)  # which halves are multiplied by without rounding

    def differentiate() -> None:
        for k, factor in enumerate(factors):
            dr.backward(kind.use(made) * factor)
            if k % 5 == 0:
                dr.eval([dr.grad(a) for a in inputs])

    at_once(*[differentiate] * THREADS)
    tolerance = {"rtol": 0.05} if "16" in type(inputs[0]).__name__ else EXACT  # of sums of halves
    for g, one in zip(gradients(inputs), expected, strict=True):
        np.testing.assert_allclose(g, THREADS * sum(factors) * one, **tolerance)


@some
def test_a_finalizer_differentiates_a_use_in_the_middle_of_a_derivative(kind, monkeypatch):
    inputs, made, expected = of(kind)
    visit, finalizers = precomputed.visit, [lambda: dr.backward(kind.use(made) * 2)]

    def interrupted(*arguments: Any) -> None:
        while finalizers:
            finalizers.pop()()
        visit(*arguments)

    monkeypatch.setattr(precomputed, "visit", interrupted)
    dr.backward(kind.use(made))
    agrees(gradients(inputs), expected, 3)


def test_threads_start_from_what_one_object_has_computed(switching):
    tensor = random(TensorXf64, 4, 4, 1)
    dr.enable_grad(tensor)
    made = ad.Texture2f64(tensor, mip_filter=LINEAR)

    def differentiate() -> None:
        for _ in range(TIMES):
            dr.backward(made.tensor(1))

    at_once(*[differentiate] * THREADS)
    np.testing.assert_allclose(tensor.grad.numpy(), THREADS * TIMES / 4)


def test_threads_add_to_the_gradient_of_one_input_at_once(switching):
    x, one = Float64(3, 4), Float64(1, 2)
    dr.enable_grad(x)

    def differentiate() -> None:
        for _ in range(4 * TIMES):
            dr.backward(x * one)

    def add() -> None:
        for _ in range(4 * TIMES):
            dr.accum_grad(x, one)

    at_once(differentiate, add, differentiate, add)
    assert list(x.grad) == [16 * TIMES, 32 * TIMES]


class _Waiting(dr.CustomOp):
    """Its derivative waits for that of another thread."""

    def eval(self, x: Any, wait: Callable[[], object]) -> Any:
        self.wait = wait
        return x * 1

    def backward(self) -> None:
        self.wait()
        self.set_grad_in("x", self.grad_out())


def test_the_derivative_of_a_custom_operation_may_wait_for_another_thread():
    x, other = Float64(3), threading.Barrier(2)
    dr.enable_grad(x)

    def differentiate() -> None:
        dr.backward(2 * dr.custom(_Waiting, x, lambda: other.wait(20)))

    at_once(differentiate, differentiate)
    assert list(x.grad) == [4]


class _Shown(dr.CustomOp):
    """Its derivative tells whether other threads can evaluate meanwhile."""

    def eval(self, x: Any, say: Callable[[bool], None]) -> Any:
        self.say = say
        return x * 1

    def backward(self) -> None:
        other = threading.Thread(target=lambda: dr.eval(Float(1, 2) + 1), daemon=True)
        other.start()
        other.join(0.2 if locks.times_held() else 30)
        self.say(not other.is_alive())
        self.set_grad_in("x", self.grad_out())


def test_a_traversal_keeps_the_lock_that_an_evaluation_holds():
    """Finalizers differentiate in the middle of one."""
    x, free = Float64(3), []
    dr.enable_grad(x)
    dr.backward(dr.custom(_Shown, x, free.append))
    with locks.lock:
        dr.backward(dr.custom(_Shown, x, free.append))
        assert locks.times_held() == 1
    dr.backward(dr.custom(_Shown, dr.custom(_Shown, x, free.append), free.append))
    assert free == [True, False, True, True] and not locks.times_held()
    assert list(x.grad) == [3]


class _Failing(dr.CustomOp):
    def eval(self, x: Any) -> Any:
        return x * 1

    def backward(self) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_derivative_leaves_the_lock_free():
    x = Float64(3)
    dr.enable_grad(x)
    with pytest.raises(KeyboardInterrupt):
        dr.backward(dr.custom(_Failing, x))
    assert not locks.times_held()
    dr.backward(x * 2)
    assert list(x.grad) == [2]

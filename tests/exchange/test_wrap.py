"""Functions that cross the border to PyTorch and JAX, and their derivatives."""

import gc
import importlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.auto.ad import (
    Array3f,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    TensorXf,
    TensorXf16,
    TensorXf64,
)

# PyTorch uses what it has deprecated itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="JAX is not installed")


@pytest.fixture(params=["torch", "jax"])
def framework(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def numbers(framework: Any) -> Any:
    """The namespace of a framework's array functions."""
    return framework.numpy if framework.__name__ == "jax" else framework


def same(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    found = found.detach() if hasattr(found, "detach") else found
    np.testing.assert_allclose(np.asarray(found), expected, tolerance, tolerance)


@dataclass
class Ray:
    origin: Any
    time: Any


# ---- Dr.Jit outside


def test_a_foreign_function_on_drjit_arrays(framework: Any, tier: str) -> None:
    xp = numbers(framework)

    @dr.wrap(source="drjit", target=framework)
    def f(x, y, *, scale):
        """Documented."""
        return xp.sin(x) * y * scale

    x, y = Float(1, 2, 3), Float(4)
    dr.enable_grad(x, y)
    for _ in range(2):
        z = f(x, y=y, scale=2)
        assert type(z) is TensorXf
        same(z, 8 * np.sin([1, 2, 3]))
        dr.backward(z)
        same(x.grad, 8 * np.cos([1, 2, 3]))
        same(y.grad, [2 * np.sin([1, 2, 3]).sum()])
        dr.clear_grad([x, y])
    z = f(x, y, scale=2)
    dr.forward(x)
    same(z.grad, 8 * np.cos([1, 2, 3]))
    assert f.__name__ == "f" and f.__doc__ == "Documented."


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_trees_go_in_and_out_of_a_foreign_function(framework: Any, mode: str) -> None:
    @dr.wrap("drjit", framework.__name__)
    def f(ray, options):
        (power,) = options["power"]
        return {"p": [ray.origin**power, ray.time], "ray": Ray(ray.origin * ray.time, None)}

    ray = Ray(Array3f([1, 2], 3, 4), Float(2, 3))
    dr.enable_grad(ray)
    found = f(ray, {"power": (3,)})
    same(found["p"][0], [[1, 8], [27, 27], [64, 64]])
    same(found["p"][1], [2, 3])
    same(found["ray"].origin, [[2, 6], [6, 9], [8, 12]])
    assert found["ray"].time is None
    if mode == "backward":
        dr.backward(found)
        same(ray.origin.x.grad, [3 + 2, 12 + 3])
        same(ray.origin.y.grad, [2 * 27 + 5])  # the one entry was broadcast
        same(ray.time.grad, [1 + 8, 1 + 9])
    else:
        dr.forward(ray.time)
        same(found["p"][0].grad, np.zeros((3, 2)))
        same(found["p"][1].grad, [1, 1])
        same(found["ray"].origin.grad, [[1, 2], [3, 3], [4, 4]])


def test_what_has_no_gradient_passes_a_foreign_function(framework: Any) -> None:
    @dr.wrap("drjit", framework)
    def f(x, index, mask, text):
        assert text == "text" and "int32" in str(index.dtype) and "bool" in str(mask.dtype)
        return x[index] * mask, index + 1, mask, x.shape[0], text

    x = Float(1, 2, 3)
    index, mask = Int(2, 2, 0), dr.auto.ad.Bool(True, False, True)
    dr.enable_grad(x)
    y, following, same_mask, size, text = f(x, index, mask, "text")
    assert [type(v).__name__ for v in (y, following, same_mask)] == [
        "TensorXf", "TensorXi", "TensorXb"
    ]  # fmt: skip
    assert (size, text) == (3, "text")
    same(following, [3, 3, 1])
    same(same_mask, [1, 0, 1])
    dr.backward(y)
    same(x.grad, [1, 0, 1])
    dr.enable_grad(x)
    y, *_ = f(x, index, mask, "text")
    dr.forward(x)
    same(y.grad, [1, 0, 1])


def test_without_gradients_nothing_is_recorded_for_a_foreign_function(framework: Any) -> None:
    f = dr.wrap("drjit", framework)(lambda x: x * 2)
    for x in (Float(1, 2), dr.llvm.Float(1, 2), dr.scalar.ArrayXf(1, 2)):
        y = f(x)
        assert not dr.grad_enabled(y)
        same(y, [2, 4])
    x = Float(1, 2)
    dr.enable_grad(x)
    with dr.suspend_grad():
        assert not dr.grad_enabled(f(x))
    assert not dr.grad_enabled(f(dr.detach(x)))
    assert f(3) == 6


def test_part_of_the_arguments_of_a_foreign_function_has_gradients(framework: Any) -> None:
    f = dr.wrap("drjit", framework)(lambda x, y: (x * y, y * 2, y.sum()))
    x, y = TensorXf([[1, 2], [3, 4]]), TensorXf([[5, 6]])
    dr.enable_grad(y)
    product, twice, total = f(x, y)
    dr.backward([product, twice, total])
    same(y.grad, [[4 + 3, 6 + 3]])
    assert total.shape == () and not dr.grad_enabled(x)


@pytest.mark.parametrize(("cls", "eps"), [(Float16, 2e-3), (Float, 1e-6), (Float64, 1e-14)])
def test_precision_is_that_of_the_arguments(torch: Any, cls: Any, eps: float) -> None:
    f = dr.wrap("drjit", "torch")(lambda x: torch.exp(x))
    x = cls(0.5, 1)
    dr.enable_grad(x)
    y = f(x)
    assert type(y) is dr.tensor_t(cls)
    dr.backward(y)
    same(y, np.exp([0.5, 1]), eps)
    same(x.grad, np.exp([0.5, 1]), eps)


def test_a_chain_through_both_frameworks(framework: Any) -> None:
    xp = numbers(framework)
    inner = dr.wrap(framework, "drjit")(lambda x: dr.tanh(x) * 2)
    f = dr.wrap("drjit", framework)(lambda x: xp.exp(inner(x)))
    x = Float(0.1, 0.2, 0.3)
    dr.enable_grad(x)
    y = dr.sum(f(x * 3).array ** 2)
    dr.backward(y)
    t = np.tanh(3 * np.array([0.1, 0.2, 0.3]))
    same(x.grad, 12 * np.exp(4 * t) * (1 - t * t), 1e-5)


def test_gradients_against_finite_differences(framework: Any) -> None:
    xp = numbers(framework)
    f = dr.wrap("drjit", framework)(lambda x: xp.cos(x[0] * x[1]) + x[2] ** 2)
    assert dr.check_grad(f, Array3f([0.5, 1], [2, 0.1], 3))
    f = dr.wrap(framework, "drjit")(lambda x: dr.cos(x.array[0] * x.array[1]))
    g = dr.wrap("drjit", framework)(lambda x: f(x) * 2)
    if framework.__name__ == "torch":
        assert dr.check_grad(g, Float(0.5, 2))


def test_parameters_of_a_network_get_gradients_from_drjit(torch: Any) -> None:
    network = torch.nn.Linear(2, 1)
    call = dr.wrap("drjit", "torch")(lambda x: network(x))
    x = TensorXf([[1, 2], [3, 4], [5, 6]])
    dr.enable_grad(x)
    dr.backward(call(x))
    same(network.weight.grad, [[9, 12]])
    same(network.bias.grad, [3])
    same(x.grad, np.tile(network.weight.detach().numpy(), (3, 1)))


def test_several_traversals_of_one_foreign_call(torch: Any) -> None:
    f = dr.wrap("drjit", "torch")(lambda x: (x**2, x**3, x))
    x = Float(3)
    dr.enable_grad(x)
    square, cube, itself = f(x)
    keep = dr.ADFlag.ClearVertices
    for output, expected in ((square, 6), (cube, 27), (itself, 1), (square, 6)):
        dr.backward(output, flags=keep)
        same(x.grad, [expected])
        dr.clear_grad(x)
    dr.forward(x, flags=keep)
    same([square.grad.array[0], cube.grad.array[0], itself.grad.array[0]], [6, 27, 1])


def test_memory_is_shared_with_a_foreign_function(torch: Any) -> None:
    seen = []
    x = dr.arange(Float, 5000) + 1
    dr.wrap("drjit", "torch")(seen.append)(x)
    assert seen[0].data_ptr() == x.numpy().ctypes.data


def test_graphs_of_both_frameworks_are_freed_without_cycles(torch: Any) -> None:
    seen = []

    class Marker:
        pass

    def f(x, marker):
        seen.append(weakref.ref(marker if isinstance(x, dr.ArrayBase) else x))
        return x * 2

    gc.disable()
    try:
        x = Float(1, 2)
        dr.enable_grad(x)
        y = dr.wrap("drjit", "torch")(f)(x, None)
        t = torch.ones(3, requires_grad=True)
        z = dr.wrap("torch", "drjit")(f)(t, Marker())
        assert all(r() is not None for r in seen)
        dr.backward(y)
        z.sum().backward()
        del y, z
        assert [r() for r in seen] == [None, None]
    finally:
        gc.enable()


def test_errors_of_a_foreign_function_pass(framework: Any) -> None:
    @dr.wrap("drjit", framework)
    def f(x):
        raise KeyError("mine")

    x = Float(1, 2)
    dr.enable_grad(x)
    with pytest.raises(KeyError, match="mine"):
        f(x)
    with pytest.raises(TypeError, match=r"returned a numpy.ndarray at \['a'\].*expected"):
        dr.wrap("drjit", framework)(lambda x: {"a": np.ones(2)})(x)


# ---- PyTorch outside


def test_a_drjit_function_in_pytorch(torch: Any, tier: str) -> None:
    @dr.wrap(source="torch", target="drjit")
    def f(x, *, y):
        assert type(x) is type(y) is TensorXf
        return dr.sin(x) * y

    x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    y = torch.tensor([[4.0], [5.0]], requires_grad=True)
    s, c = np.sin([1, 2, 3]), np.cos([1, 2, 3])
    for _ in range(2):
        z = f(x, y=y)
        same(z, [4 * s, 5 * s])
        z.sum().backward()
        same(x.grad, [9 * c])
        same(y.grad, [[s.sum()], [s.sum()]])
        x.grad = y.grad = None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_precision_is_that_of_the_tensors(torch: Any, dtype: str) -> None:
    expected = {"float16": TensorXf16, "float32": TensorXf, "float64": TensorXf64}[dtype]

    @dr.wrap("torch", dr)
    def f(x):
        assert type(x) is expected
        return dr.exp(x)

    x = torch.tensor([0.5, 1], dtype=getattr(torch, dtype), requires_grad=True)
    y = f(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == x.dtype
    eps = 4 * torch.finfo(x.dtype).eps
    same(y.double(), np.exp([0.5, 1]), eps)
    same(x.grad.double(), np.exp([0.5, 1]), eps)


def test_pytorch_checks_both_modes(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(lambda x, y: (dr.exp(x) * y, dr.sum(x * x * y)))
    x, y = (torch.rand(3, dtype=torch.float64).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(f, (x, y), check_forward_ad=True)


def test_trees_go_in_and_out_of_pytorch(torch: Any) -> None:
    @dr.wrap("torch", "drjit")
    def f(ray, scale):
        p = Array3f(ray["ray"].origin) * scale
        return [Ray(p, dr.norm(p)), (ray["index"] + 1, p.x > 2, None, "text", 5)]

    origin = torch.tensor([[1.0, 2], [2, 3], [2, 6]], requires_grad=True)
    index = torch.tensor([1, 2], dtype=torch.int32)
    (ray, rest) = f({"ray": Ray(origin, None), "index": index}, 2)
    assert isinstance(ray, Ray) and ray.origin.shape == (3, 2)
    same(ray.time, [6, 14])
    assert rest[0].dtype == torch.int32 and rest[0].tolist() == [2, 3]
    assert rest[1].tolist() == [False, True] and rest[2:] == (None, "text", 5)
    assert not rest[0].requires_grad
    (ray.time.sum() + ray.origin[0].sum()).backward()
    same(origin.grad, np.array([[1, 2], [2, 3], [2, 6]]) * 2 / [3, 7] + [[2, 2], [0, 0], [0, 0]])


def test_complex_arrays_are_two_components(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(lambda re, im: dr.square(Complex2f(re.array, im.array)))
    re = torch.tensor([1.0, 2], requires_grad=True)
    z = f(re, torch.tensor([3.0, 4]))
    same(z, [[-8, -12], [6, 16]])
    z[1].sum().backward()
    same(re.grad, [6, 8])


def test_without_gradients_nothing_is_recorded_for_pytorch(torch: Any) -> None:
    @dr.wrap("torch", "drjit")
    def f(x, y):
        assert dr.grad_enabled(x) == tracked and not dr.grad_enabled(y)
        return x * y

    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    tracked = True
    assert f(x, y).requires_grad
    tracked = False
    with torch.no_grad():
        assert not f(x, y).requires_grad
    assert not f(x.detach(), y).requires_grad


def test_an_argument_that_is_returned_has_a_gradient(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(lambda x: (x, x, x * 3))
    x = torch.tensor([1.0, 2], requires_grad=True)
    a, b, c = f(x)
    (a.sum() + 10 * b.sum() + 100 * c.sum()).backward()
    same(x.grad, [311, 311])


def test_gradients_in_pytorch_have_memory_of_their_own(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(lambda x, y: x + y)
    x, y = (torch.ones(5000, requires_grad=True) for _ in range(2))
    f(x, y).sum().backward()
    x.grad.mul_(0)
    same(y.grad, np.ones(5000))


def test_results_in_pytorch_can_be_changed_in_place(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(dr.exp)
    x = torch.ones(5000, requires_grad=True)
    f(x).mul_(2).sum().backward()
    same(x.grad, np.full(5000, 2 * np.e))


def test_arguments_changed_in_place_are_noticed(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(dr.sin)
    x = torch.ones(5, requires_grad=True)
    y = f(x)
    with torch.no_grad():
        x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_graph_in_pytorch_is_traversed_once_unless_kept(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(dr.sin)
    x = torch.zeros(2, requires_grad=True)
    y = f(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    same(x.grad, [2, 2])
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_function_transforms_of_pytorch(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(lambda x: dr.square(x) * 3)
    x = torch.tensor([1.0, 2])
    same(torch.func.grad(lambda x: f(x).sum())(x), [6, 12])
    values, tangents = torch.func.jvp(f, (x,), (torch.tensor([1.0, 10]),))
    same(values, [3, 12])
    same(tangents, [6, 120])


def test_what_pytorch_cannot_do(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(dr.sin)
    with pytest.raises(TypeError, match=r"torch\.func\.vmap"):
        torch.func.vmap(f)(torch.ones(3, 2))
    with pytest.raises(TypeError, match=r"sparse.*no equivalent in Dr"):
        f(torch.eye(2).to_sparse())


def test_scopes_of_drjit_do_not_change_what_pytorch_tracks(torch: Any) -> None:
    weight = Float(3)
    dr.enable_grad(weight)
    f = dr.wrap("torch", "drjit")(lambda x: dr.square(x) * weight)
    for scope in (dr.suspend_grad, dr.isolate_grad):
        x = torch.tensor([1.0, 2], requires_grad=True)
        with scope():
            y = f(x).sum()
        y.backward()
        same(x.grad, [6, 12])
        y = f(x).sum()
        with scope():
            y.backward()
        same(x.grad, [12, 24])
    # Without gradients where it was suspended
    same(weight.grad, [5 * 3])


def test_second_derivatives_are_refused(torch: Any) -> None:
    x = Float(2)
    dr.enable_grad(x)
    y = dr.wrap("drjit", "torch")(torch.sin)(x)
    with pytest.raises(RuntimeError, match=r"custom\(<sin>\): ADFlag.KeepGraph"):
        dr.backward(y, flags=dr.ADFlag.Default | dr.ADFlag.KeepGraph)
    f = dr.wrap("torch", "drjit")(dr.sin)
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="only first derivatives"):
        g.sum().backward()


def test_odd_tensors(torch: Any) -> None:
    f = dr.wrap("torch", "drjit")(lambda x: x * 2)
    x = torch.arange(6.0, requires_grad=True)
    view = x.reshape(2, 3).T[:, ::2]
    f(view).sum().backward()
    same(f(view), 2 * np.arange(6).reshape(2, 3).T[:, ::2])
    same(x.grad, [2, 2, 2, 0, 0, 0])
    empty = torch.ones((0, 3), requires_grad=True)
    f(empty).sum().backward()
    assert f(empty).shape == empty.grad.shape == (0, 3)
    scalar = torch.tensor(3.0, requires_grad=True)
    f(scalar).backward()
    assert f(scalar).shape == () and scalar.grad.item() == 2
    for value in (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.complex64)):
        with pytest.raises(TypeError, match="no equivalent in Dr"):
            f(value)
    with pytest.raises(TypeError, match=r"device 'meta'; move it with \.cpu\(\)"):
        f(torch.ones(2, device="meta"))


def test_errors_in_pytorch(torch: Any) -> None:
    @dr.wrap("torch", "drjit")
    def f(x):
        raise KeyError("mine")

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        f(x)
    for result in (np.ones(2), torch.ones(2)):
        with pytest.raises(TypeError, match=r"g\(\) returned a .* expected Dr.Jit arrays"):

            def g(x, result=result):
                return [x, result]

            dr.wrap("torch", "drjit")(g)(x)


def test_conversion_drops_derivatives(torch: Any) -> None:
    x = torch.tensor([1.0, 2], requires_grad=True)
    for cls in (Float, TensorXf):
        with pytest.warns(RuntimeWarning, match="a tensor that requires gradients"):
            made = cls(x)
        assert not dr.grad_enabled(made)
        same(made, [1, 2])
    y = Float(1, 2)
    dr.enable_grad(y)
    assert not y.torch().requires_grad
    frozen = np.ones(5000, np.float32)
    frozen.flags.writeable = False
    TensorXf(frozen).torch().add_(1)
    same(frozen, np.ones(5000))


# ---- JAX outside


@pytest.mark.parametrize("compiled", [False, True])
def test_a_drjit_function_in_jax(jax: Any, compiled: bool) -> None:
    @dr.wrap(source="jax", target="drjit")
    def f(x, *, tree):
        return {"z": dr.sin(x) * tree["y"][0], "i": tree["i"] + 1, "none": None}

    x, y, i = (jax.numpy.array(v) for v in ([[1.0, 2, 3]], [[4.0], [5]], [1, 2]))

    def loss(x, y, i):
        found = f(x, tree={"y": [y], "i": i})
        assert found["none"] is None
        return found["z"].sum(), found["i"]

    value_and_grad = jax.value_and_grad(loss, (0, 1), has_aux=True)
    if compiled:
        value_and_grad = jax.jit(value_and_grad)
    s, c = np.sin([1, 2, 3]), np.cos([1, 2, 3])
    for _ in range(2):
        (value, following), (dx, dy) = value_and_grad(x, y, i)
        same(value, 9 * s.sum())
        assert following.tolist() == [2, 3]
        same(dx, [9 * c])
        same(dy, [[s.sum()], [s.sum()]])
    same(f(x, tree={"y": [y], "i": i})["z"], [4 * s, 5 * s])


def test_jax_uses_drjit_functions_in_loops(jax: Any) -> None:
    f = dr.wrap("jax", "drjit")(lambda x: x * 2 + 1)
    repeated = jax.jit(lambda x: jax.lax.fori_loop(0, 5, lambda _, a: f(a), x))
    same(repeated(jax.numpy.zeros(1000)), np.full(1000, 31))


def test_drjit_functions_are_mapped_by_jax(jax: Any) -> None:
    f = dr.wrap("jax", "drjit")(lambda x: x * dr.sum(x))
    same(jax.vmap(f)(jax.numpy.array([[1.0, 2], [3, 4]])), [[3, 6], [21, 28]])


def test_what_jax_cannot_do(jax: Any) -> None:
    f = dr.wrap("jax", "drjit")(lambda x: [x, 1.5])
    x = jax.numpy.ones(2)
    assert f(x)[1] == 1.5
    with pytest.raises(TypeError, match=r"returned the number 1\.5"):
        jax.jit(f)(x)
    positive = dr.wrap("jax", "drjit")(lambda x: dr.compress(x.array > 0))
    assert positive(x).tolist() == [0, 1]
    with pytest.raises(TypeError, match="empty array for arguments that are 0"):
        jax.jit(positive)(x)
    others = dr.wrap("jax", "drjit")(lambda x: dr.compress(x.array <= 0))
    with pytest.raises(Exception, match=r"shape \(0,\), but of shape \(2,\)"):
        jax.jit(others)(x).block_until_ready()
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(dr.wrap("jax", "drjit")(dr.sin), (x,), (x,))
    with pytest.raises(TypeError, match="jax_enable_x64"):
        dr.wrap("drjit", "jax")(lambda x: x)(Float64(1))
    with pytest.raises(TypeError, match="no equivalent in Dr"):
        f(jax.numpy.ones(2, "bfloat16"))


# ---- Arguments of the decorator


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("numpy", "drjit", "unknown 'source' 'numpy'; expected one of 'drjit', 'torch', 'jax'"),
        ("drjit", np, "unknown 'target' <module 'numpy'"),
        ("drjit", 3, "unknown 'target' 3"),
        ("torch", "jax", "'source' or 'target' must be 'drjit'"),
    ],
)
def test_unknown_frameworks(source: Any, target: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dr.wrap(source, target)


def test_both_sides_may_be_drjit() -> None:
    def f(x: Any) -> Any:
        return x

    assert dr.wrap("drjit", dr)(f) is f


@pytest.mark.parametrize(("name", "title"), [("torch", "PyTorch"), ("jax", "JAX")])
def test_a_missing_framework_can_be_installed(
    name: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(wanted: str, load: Callable = importlib.import_module) -> ModuleType:
        if wanted == name:
            raise ImportError(wanted)
        return load(wanted)

    monkeypatch.setattr("drjit.function.exchange.bridge.importlib.import_module", refuse)
    monkeypatch.setattr("drjit.function.exchange.wrap._framework", lambda n: found[n]())
    found = importlib.import_module("drjit.function.exchange.wrap")._FRAMEWORKS
    message = f"{title} is not installed.*install {name}"
    with pytest.raises(ModuleNotFoundError, match=message):
        dr.wrap(name, "drjit")
    wrapped = dr.wrap("drjit", name)(lambda x: x)  # it may never be called
    for kind in (ModuleNotFoundError, RuntimeError):
        with pytest.raises(kind, match=message):
            wrapped(1)


def test_names() -> None:
    interop = importlib.import_module("drjit.interop")
    assert interop.wrap is dr.wrap is dr.wrap_ad

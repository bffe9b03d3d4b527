"""The optimizer L-BFGS: minima of known functions, its state, and what is raised."""

import pickle

import numpy as np
import pytest
import scipy.optimize

import drjit as dr
from drjit import nn
from drjit.llvm import ad
from drjit.llvm.ad import Array2f64, Float, Float16, Float64, TensorXf, TensorXf64, UInt
from drjit.opt import LBFGS, GradScaler


def rosenbrock(x):
    i = dr.arange(UInt, len(x) - 1)
    a, b = dr.gather(type(x), x, i), dr.gather(type(x), x, i + 1)
    return dr.sum(100 * dr.square(b - a * a) + dr.square(1 - a))


def closure(opt, f):
    """The function that a step takes, which counts its calls."""

    def evaluated():
        evaluated.calls += 1
        loss = f(opt)
        dr.backward(loss)
        return loss

    evaluated.calls = 0
    return evaluated


@pytest.mark.parametrize(("cls", "tolerance"), [(Float64, 1e-9), (Float, 1e-7)])
def test_it_needs_about_as_many_evaluations_as_scipy(cls, tolerance):
    start = np.full(10, -1.2)
    wanted = scipy.optimize.minimize(
        scipy.optimize.rosen, start, jac=scipy.optimize.rosen_der, method="L-BFGS-B"
    )
    opt = LBFGS(params={"x": cls(start)}, max_iter=200)
    f = closure(opt, lambda opt: rosenbrock(opt["x"]))
    assert opt.step(f) < tolerance
    assert f.calls < 1.5 * wanted.nfev
    np.testing.assert_allclose(opt["x"], 1, atol=1e-3)


def test_several_steps_continue_where_one_ends():
    opt = LBFGS(params={"x": Float64(np.full(10, -1.2))})
    f = closure(opt, lambda opt: rosenbrock(opt["x"]))
    losses = [opt.step(f) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 1e-8 and f.calls < 130
    assert np.isclose(losses[-1], float(rosenbrock(opt["x"])))


def test_parameters_of_several_types_are_minimized_together():
    target = np.random.default_rng(0).normal(size=(2, 3))
    start = {"a": Float16(1, 2), "b": Array2f64([1, 2, 3], 4), "c": TensorXf(target)}
    opt = LBFGS(params=start, max_iter=60)

    def loss(opt):
        a, b, c = ad.Float(opt["a"]), opt["b"], opt["c"]
        total = dr.sum(dr.square(a - Float(3, -1)) * Float(1, 20))
        total += dr.sum(dr.squared_norm(b * 3 - 2 * dr.sum(a)))
        return total + dr.sum(dr.square(c * 2 - dr.sum(dr.detach(c) * 0) - TensorXf(target))).array

    assert opt.step(closure(opt, loss)) < 1e-3
    assert type(opt["a"]) is Float16 and type(opt["b"]) is Array2f64
    np.testing.assert_allclose(opt["a"], [3, -1], atol=1e-2)
    np.testing.assert_allclose(np.array(opt["b"]), 4 / 3, atol=1e-2)
    np.testing.assert_allclose(np.array(opt["c"]), target / 2, atol=1e-2)


def test_half_precision_without_promotion():
    opt = LBFGS(params={"x": Float16(3, -2)}, promote_fp16=False)
    assert opt.step(closure(opt, lambda opt: dr.sum(dr.square(ad.Float(opt["x"]) - 1)))) < 1e-4
    assert type(opt.state["x"][0]) is Float16


def test_a_network_is_fitted():
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).alloc(TensorXf)
    x = dr.reshape(dr.linspace(TensorXf, -1, 1, 64), (1, 64))
    opt = LBFGS(params=net, max_iter=60)

    @dr.freeze
    def evaluated(net, x):
        loss = dr.mean(dr.square(net(x) - dr.sin(5 * x)))
        dr.backward(loss)
        return loss

    def step():
        net.update(opt)
        return evaluated(net, x)

    assert opt.step(step) < 0.02


def test_steps_without_a_line_search_have_the_length_of_the_rate():
    opt = LBFGS(0.5, {"x": Float64(4)}, line_search=None, max_iter=1)
    f = closure(opt, lambda opt: dr.square(opt["x"]) / 8)  # the gradient is 1 at first
    assert opt.step(f) == 3.5**2 / 8 and opt["x"][0] == 3.5
    opt.step(f)
    assert opt["x"][0] == 1.75  # half a step of Newton's method
    opt.set_learning_rate(1.0)
    opt.step(f)
    assert abs(opt["x"][0]) < 1e-15


def test_steps_end_early():
    for options in ({"tolerance_grad": 1e9}, {"tolerance_change": 1e9}):
        opt = LBFGS(params={"x": Float64(4)}, **options)
        f = closure(opt, lambda opt: dr.square(opt["x"]) / 8)
        opt.step(f)
        assert f.calls <= 2 + ("tolerance_change" in options)
    opt = LBFGS(params={"x": Float64(0)})  # which is the minimum
    f = closure(opt, lambda opt: dr.square(opt["x"]))
    assert opt.step(f) == 0 and f.calls == 1


def test_losses_that_are_not_finite_are_avoided():
    opt = LBFGS(5.0, {"x": Float64(0.1, 3)})
    opt.step(closure(opt, lambda opt: dr.sum(opt["x"] - dr.log(opt["x"]))))
    np.testing.assert_allclose(opt["x"], 1, atol=1e-5)


@pytest.mark.parametrize("way", ["state_dict", "numpy", "pickle"])
def test_saved_states_continue_alike(way):
    def run(opt, steps):
        f = closure(opt, lambda opt: rosenbrock(opt["x"]) + rosenbrock(opt["y"].array))
        return [opt.step(f) for _ in range(steps)]

    start = {"x": Float64(-1, 2, 0.5), "y": TensorXf64([0.3, -0.2])}
    opt = LBFGS(params=start, max_iter=3, history_size=4)
    run(opt, 2)
    if way == "pickle":
        other = pickle.loads(pickle.dumps(opt))
    else:
        saved = opt.state_dict()
        assert {"x.steps", "y.displacements[3]", "x.gradient_changes[0]"} <= saved.keys()
        if way == "numpy":
            saved = {name: np.array(value) for name, value in saved.items()}
        other = LBFGS(0.3, start, max_iter=3, history_size=4)
        other.load_state_dict(saved)
    np.testing.assert_allclose(run(opt, 3), run(other, 3), 1e-9)


def test_reset_forgets_steps():
    opt = LBFGS(params={"x": Float64(-1, 2), "y": Float64(1, 2)}, max_iter=4)
    f = closure(opt, lambda opt: rosenbrock(opt["x"]) + rosenbrock(opt["y"]))
    opt.step(f)
    opt.reset("x")
    count, displacements, _ = opt.state["x"][3]
    assert count == 0 and not np.array(displacements).any()
    assert opt.state["y"][3][0] == 4
    for _ in range(14):
        last = opt.step(f)
    assert last < 1e-10
    opt.reset()
    opt["x"] = Float64(5, 5, 5)  # another size
    for _ in range(15):
        last = opt.step(f)
    assert last < 1e-10


def test_gradients_from_before_do_not_count():
    opt = LBFGS(params={"x": Float64(4)}, line_search=None, max_iter=1)
    dr.backward(100 * opt["x"])
    opt.step(closure(opt, lambda opt: dr.square(opt["x"]) / 16))  # the gradient is 0.5
    assert opt["x"][0] == 3.5
    assert opt["x"].grad[0] == 0


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda o: LBFGS(max_iter=0), RuntimeError, "'max_iter' must be >= 1, not 0"),
        (lambda o: LBFGS(history_size=0), RuntimeError, "'history_size' must be >= 1, not 0"),
        (lambda o: LBFGS(tolerance_grad=-1), RuntimeError, "'tolerance_grad' must be >= 0"),
        (lambda o: LBFGS(line_search="x"), RuntimeError, "must be 'strong_wolfe' or None, not 'x'"),
        (lambda o: o.step(3), TypeError, "expected a function, not int"),
        (lambda o: o.step(lambda: None), TypeError, "the loss must be one number, not NoneType"),
        (lambda o: o.step(lambda: o["x"] + Float(0, 1)), TypeError, "the loss must be one number"),
        (lambda o: o.step(lambda: o["x"] * 2), RuntimeError, "the function left no gradients"),
        (lambda o: GradScaler().step(o), TypeError, "unexpected keyword argument"),
    ],
)
def test_mistakes_are_explained(call, kind, message):
    with pytest.raises(kind, match=message):
        call(LBFGS(params={"x": Float(1)}))


def test_a_rate_of_its_own_is_rejected():
    opt = LBFGS(params={"x": Float(1)})
    opt.set_learning_rate(x=0.5)
    with pytest.raises(RuntimeError, match="learning rates of single parameters are not supported"):
        opt.step(closure(opt, lambda opt: opt["x"] * opt["x"]))


def test_its_options_are_shown():
    assert "history_size = 10,\n  tolerance_grad = 1e-07" in repr(LBFGS())

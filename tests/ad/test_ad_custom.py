"""Operations that define their own derivatives."""

import contextlib
import gc

import numpy as np
import pytest
from helpers import tracked

import drjit as dr
from drjit import ADMode
from drjit.llvm.ad import Array3f, Float, Float64, UInt


class Normalize(dr.CustomOp):
    def name(self):
        return "normalize"

    def eval(self, value):
        self.value = value
        self.inv_norm = dr.rcp(dr.norm(value))
        return value * self.inv_norm

    def forward(self):
        grad_in = self.grad_in("value")
        grad_out = grad_in * self.inv_norm
        grad_out -= self.value * (dr.dot(self.value, grad_out) * dr.square(self.inv_norm))
        self.set_grad_out(grad_out)

    def backward(self):
        grad_out = self.grad_out()
        grad_in = grad_out * self.inv_norm
        grad_in -= self.value * (dr.dot(self.value, grad_in) * dr.square(self.inv_norm))
        self.set_grad_in("value", grad_in)


class Scale(dr.CustomOp):
    """Records what its callbacks see."""

    def eval(self, value, factor=2, *, offset=0):
        assert not dr.grad_enabled(value)
        self.factor = factor
        return value * factor + offset

    def forward(self):
        self.set_grad_out(self.grad_in("value") * self.factor)

    def backward(self):
        self.set_grad_in("value", self.grad_out() * self.factor)


class Tree(dr.CustomOp):
    def eval(self, values, pair):
        self.values, self.pair = values, pair
        return {"sum": values["a"] + pair[1], "rest": (values["a"] * pair[1], UInt(1), "text")}

    def forward(self):
        a, b = self.grad_in("values")["a"], self.grad_in("pair")[1]
        product = a * self.pair[1] + self.values["a"] * b
        self.set_grad_out({"sum": a + b, "rest": (product, 0, None)})

    def backward(self):
        g = self.grad_out()
        g, h = g["sum"], g["rest"][0]
        self.set_grad_in("values", {"a": g + h * self.pair[1]})
        self.set_grad_in("pair", [0, g + h * self.values["a"]])


def test_example_of_the_manual():
    def reference(v):
        return v * dr.rcp(dr.norm(v))

    for mode in ("forward", "backward"):
        found = []
        for f in (reference, lambda v: dr.custom(Normalize, v)):
            v = Array3f([1, 2], [3, -1], 0.5)
            dr.enable_grad(v)
            y = f(v)
            if mode == "backward":
                y.grad = Array3f(1, 2, 3)
                dr.backward_from(y)
                found.append(np.array(v.grad))
            else:
                v.grad = Array3f(1, 2, 3)
                dr.forward_from(v)
                found.append(np.array(y.grad))
        np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_names_and_keywords():
    x = tracked(1, 2)
    y = dr.custom(Scale, x, factor=5)
    assert list(y) == [5, 10]
    dr.backward(y)
    assert list(x.grad) == [5, 5]
    x = tracked(1, 2)
    y = dr.custom(Scale, offset=1, value=x)
    assert list(y) == [3, 5]
    dr.forward(x)
    assert list(y.grad) == [2, 2]


def test_more_arguments():
    class Rest(dr.CustomOp):
        def eval(self, *args, **kwargs):
            return args[0] + args[1] * kwargs["k"]

        def backward(self):
            assert len(self.grad_in("args")) == 2
            self.set_grad_in("args", (self.grad_out(), self.grad_out() * 2))
            self.set_grad_in("k", self.grad_out() * 3)

    a, b, k = tracked(1), tracked(2), tracked(3)
    dr.backward(dr.custom(Rest, a, b, k=k))
    assert (list(a.grad), list(b.grad), list(k.grad)) == ([1], [2], [3])


def test_arguments_behind_stars():
    class Rest(dr.CustomOp):
        def eval(self, scale, *rest, offset=0, **names):
            return scale * (rest[0] + rest[1]) + names["p"] * names["q"] + offset

        def forward(self):
            assert [list(g) for g in self.grad_in("rest")] == [[2], [3]]
            assert {k: list(g) for k, g in self.grad_in("names").items()} == {"p": [4], "q": [5]}
            assert [list(self.grad_in(n)) for n in ("scale", 0, 1, "p", "q")] == [
                [1], [2], [3], [4], [5],
            ]  # fmt: skip
            for wrong in (2, -1, "r", None):
                with pytest.raises(RuntimeError, match="could not find an input argument"):
                    self.grad_in(wrong)
            self.set_grad_out(self.grad_in("scale"))

        def backward(self):
            g = self.grad_out()
            self.set_grad_in("rest", [g, 2 * g])
            self.set_grad_in(1, 10 * g)
            self.set_grad_in("names", {"p": 3 * g, "q": 4 * g})
            self.set_grad_in("q", 100 * g)
            with pytest.raises(TypeError, match="structure"):
                self.set_grad_in("names", {"p": g})

    values = [tracked(k) for k in range(1, 6)]
    scale, a, b, p, q = values
    y = dr.custom(Rest, scale, a, b, p=p, q=q)
    for k, v in enumerate(values, 1):
        v.grad = k
    assert list(dr.forward_to(y, flags=dr.ADFlag.ClearNone)) == [1]
    dr.clear_grad((y, values))
    dr.backward(y)
    assert [v.grad[0] for v in values] == [0, 1, 12, 3, 104]


class Product(dr.CustomOp):
    """A product that notes which of its factors are tracked when its callbacks run."""

    seen = ()

    def eval(self, x, y):
        self.x, self.y = x, y
        return x * y

    def _look(self):
        new = Float(1)
        dr.enable_grad(new)
        Product.seen = [dr.grad_enabled(v) for v in (*Product.factors, new)]

    def forward(self):
        self._look()
        self.set_grad_out(self.grad_in("x") * self.y + self.grad_in("y") * self.x)

    def backward(self):
        self._look()
        self.set_grad_in("x", self.grad_out() * self.y)
        self.set_grad_in("y", self.grad_out() * self.x)


@pytest.mark.parametrize("mode", ["forward", "backward"])
@pytest.mark.parametrize(
    "scopes, on",
    [
        (lambda x, y: [], (True, True)),
        (lambda x, y: [dr.suspend_grad(y)], (True, False)),
        (lambda x, y: [dr.suspend_grad(), dr.resume_grad(x)], (True, False)),
        (lambda x, y: [dr.suspend_grad(x, y), dr.resume_grad(y)], (False, True)),
        (lambda x, y: [dr.suspend_grad(y), dr.resume_grad()], (True, True)),
        (lambda x, y: [dr.suspend_grad(y), dr.isolate_grad()], (True, False)),
    ],
)
def test_callbacks_see_the_suspensions_of_their_call(mode, scopes, on):
    x, y = Product.factors = tracked(3), tracked(5)
    with contextlib.ExitStack() as stack:
        for scope in scopes(x, y):
            stack.enter_context(scope)
        z = dr.custom(Product, x, y)
    if mode == "forward":
        x.grad, y.grad = 1, 10
        dr.enqueue(dr.ADMode.Forward, x, y)
        dr.traverse(dr.ADMode.Forward)
        assert list(z.grad) == [5 * on[0] + 30 * on[1]]
    else:
        dr.backward(z)
        assert (list(x.grad), list(y.grad)) == ([5 * on[0]], [3 * on[1]])
    assert Product.seen == [*on, True]


@pytest.mark.parametrize("suspended", [True, False])
def test_hidden_inputs_may_be_suspended(suspended):
    hidden = tracked(5)

    class Hidden(dr.CustomOp):
        def eval(self, x):
            self.add_input(hidden)
            self.x = x
            return x * dr.detach(hidden)

        def backward(self):
            self.set_grad_in("x", self.grad_out() * dr.detach(hidden))
            dr.accum_grad(hidden, self.grad_out() * self.x)

    x = tracked(3)
    with dr.suspend_grad(hidden, when=suspended):
        z = dr.custom(Hidden, x)
    dr.backward(z)
    assert (list(x.grad), list(hidden.grad)) == ([5], [0 if suspended else 3])


def test_trees():
    a, b = tracked(2), tracked(3)
    y = dr.custom(Tree, {"a": a}, [1, b])
    assert type(y["rest"]) is tuple and y["rest"][2] == "text"
    dr.backward(y["rest"][0])
    assert (list(a.grad), list(b.grad)) == ([3], [2])
    a, b = tracked(2), tracked(3)
    y = dr.custom(Tree, {"a": a}, [1, b])
    dr.forward(a)
    assert (list(y["sum"].grad), list(y["rest"][0].grad)) == ([1], [3])


def test_without_derivatives():
    y = dr.custom(Scale, Float(1))
    assert type(y) is Float and not dr.grad_enabled(y)
    assert type(dr.custom(Scale, dr.llvm.Float(1))) is dr.llvm.Float
    assert dr.custom(Scale, 5) == 10
    x = tracked(1)
    with dr.suspend_grad():
        assert not dr.grad_enabled(dr.custom(Scale, x))


def test_chains():
    x = tracked(3)
    y = dr.custom(Scale, dr.custom(Scale, x * 2) * 3)
    dr.backward(y * y)
    assert list(x.grad) == [2 * 72 * 24]


def test_differentiation_within_callbacks():
    class Square(dr.CustomOp):
        def eval(self, x):
            self.x = x
            return x * x

        def backward(self):
            x = Float(self.x)
            dr.enable_grad(x)
            y = x * x
            dr.set_grad(y, self.grad_out())
            dr.enqueue(ADMode.Backward, y)
            dr.traverse(ADMode.Backward)
            self.set_grad_in("x", x.grad)

        def forward(self):
            x = Float(self.x)
            dr.enable_grad(x)
            y = dr.custom(Scale, x) * x * 0.5
            dr.set_grad(x, self.grad_in("x"))
            self.set_grad_out(dr.forward_to(y))

    x = tracked(3)
    dr.backward(dr.custom(Square, x * 2) * 3)
    assert list(x.grad) == [72]
    x = tracked(3)
    y = dr.custom(Square, x * 2) * 3
    dr.forward(x)
    assert list(y.grad) == [72]


def test_result_is_an_argument():
    class Identity(dr.CustomOp):
        def eval(self, x):
            return x

        def backward(self):
            self.set_grad_in("x", self.grad_out() * 7)

    x = tracked(1)
    y = dr.custom(Identity, x)
    dr.backward(y)
    assert list(x.grad) == [7]


def test_hidden_inputs():
    z = tracked(3)

    class Hidden(dr.CustomOp):
        def eval(self, x):
            self.add_input(z)
            self.x = x
            return x * dr.detach(z)

        def backward(self):
            dr.accum_grad(z, self.grad_out() * self.x)
            self.set_grad_in("x", self.grad_out() * dr.detach(z))

    x = tracked(2)
    dr.backward(dr.custom(Hidden, x))
    assert (list(x.grad), list(z.grad)) == ([3], [2])
    y = dr.custom(Hidden, Float(5))
    assert dr.grad_enabled(y)
    dr.backward(y)
    assert list(z.grad) == [7]


def test_hidden_outputs():
    out = tracked(0)

    class Hidden(dr.CustomOp):
        def eval(self, x):
            self.add_output(out)
            return x * 2

        def backward(self):
            self.set_grad_in("x", self.grad_out() * 2 + dr.grad(out) * 10)

        def forward(self):
            self.set_grad_out(self.grad_in("x") * 2)
            dr.accum_grad(out, self.grad_in("x") * 10)

    x = tracked(1)
    y = dr.custom(Hidden, x)
    dr.backward(y + out)
    assert list(x.grad) == [12]
    out = tracked(0)
    x = tracked(1)
    dr.custom(Hidden, x)
    z = out * 3
    dr.forward(x)
    assert list(z.grad) == [30]
    out = x * 2
    with pytest.raises(RuntimeError, match="add_output"):
        dr.custom(Hidden, x)


def test_wrong_operations():
    x = tracked(1, 2)
    for wrong in (5, int, Scale()):
        with pytest.raises(TypeError, match=r"subclass of dr.CustomOp"):
            dr.custom(wrong, x)
    for kind in (TypeError, RuntimeError):
        with pytest.raises(kind, match=r"Scale.*'value'"):
            dr.custom(Scale)

    class Empty(dr.CustomOp):
        pass

    class Failing(dr.CustomOp):
        def eval(self, x):
            raise ValueError("oops")

    with pytest.raises(RuntimeError, match=r"Empty.*not implemented"):
        dr.custom(Empty, x)
    with pytest.raises(RuntimeError, match=r"Failing.*ValueError: oops"):
        dr.custom(Failing, x)


def backward(callback):
    class Wrong(dr.CustomOp):
        def eval(self, x):
            return x * 2

    if callback is not None:
        Wrong.backward = callback
    x = tracked(1, 2)
    dr.backward(dr.custom(Wrong, x))
    return x


def test_wrong_callbacks():
    with pytest.raises(RuntimeError, match=r"Wrong.backward\(\): not implemented"):
        backward(None)
    with pytest.raises(RuntimeError, match="input argument named 'y'"):
        backward(lambda self: self.set_grad_in("y", 1))
    with pytest.raises(RuntimeError, match="input argument named 0"):
        backward(lambda self: self.grad_in(0))
    with pytest.raises(RuntimeError, match=r"size 3 .* size 2"):
        backward(lambda self: self.set_grad_in("x", Float(1, 2, 3)))


def test_forgotten_gradients():
    with pytest.warns(RuntimeWarning, match="set_grad_in"):
        x = backward(lambda self: None)
    assert list(x.grad) == [0, 0]


def test_several_uses_of_the_result():
    x = tracked(1, 2, cls=Float64)
    y = dr.custom(Scale, x)
    dr.backward(dr.sum(y * y) + dr.sum(y))
    assert list(x.grad) == [2 * (2 * 2 + 1), 2 * (2 * 4 + 1)]


class TwoMultiples(dr.CustomOp):
    def eval(self, x):
        return 2 * x, 3 * x

    def forward(self):
        self.set_grad_out((2 * self.grad_in("x"), 3 * self.grad_in("x")))

    def backward(self):
        a, b = self.grad_out()
        self.set_grad_in("x", 2 * a + 3 * b)


def test_a_traversal_may_come_after_one_that_has_freed_the_operation():
    x = Float(1, 2)
    dr.enable_grad(x)
    a, b = dr.custom(TwoMultiples, x)
    dr.backward(a)
    dr.backward(b)
    assert list(x.grad) == [2, 2]
    dr.forward(x)
    assert list(b.grad) == [0, 0]

    y = Float(0.5, 2)
    dr.enable_grad(y)
    _, a, b = dr.while_loop(
        (UInt(0), Float(1), Float(1)), lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a * y, b + y)
    )
    dr.backward(a)
    dr.backward(b)
    assert list(y.grad) == [0.75, 12]


def test_isolation():
    x = tracked(1)
    with dr.isolate_grad():
        dr.backward(dr.custom(Scale, x * 1))
    y = x * 5
    with dr.isolate_grad():
        dr.backward(dr.custom(Scale, y))
        assert list(y.grad) == [2]
    assert list(x.grad) == [12]


def test_no_cycles():
    x = tracked(1)
    for _ in range(2):  # at first, Python itself leaves some behind
        gc.collect()
        y = dr.custom(Normalize, Array3f(x, 2, 3))
        dr.backward(y)
        del y
        y = dr.custom(Normalize, Array3f(x, 2, 3))
        del y
        found = gc.collect()
    assert found == 0


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_garbage_collector_is_as_before_when_a_traversal_ends(enabled, fails):
    class Triple(dr.CustomOp):
        def eval(self, x):
            return x * 3

        def backward(self):
            if fails:
                raise ValueError("no gradient")
            self.set_grad_in("x", self.grad_out() * 3)

    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        x = Float(1, 2)
        dr.enable_grad(x)
        y = dr.custom(Triple, x)
        with pytest.raises(Exception, match="no gradient") if fails else contextlib.nullcontext():
            dr.backward(y)
        assert gc.isenabled() is enabled
        assert fails or list(x.grad) == [3, 3]
    finally:
        (gc.enable if was else gc.disable)()

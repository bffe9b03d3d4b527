"""The test of derivatives."""

import pytest

import drjit as dr
from drjit.llvm.ad import Array2f64, Array3f64, Float, Float16, Float64, UInt


class Wrong(dr.CustomOp):
    factors = (2, 2)

    def eval(self, x):
        return x * 2

    def forward(self):
        self.set_grad_out(self.grad_in("x") * self.factors[0])

    def backward(self):
        self.set_grad_in("x", self.grad_out() * self.factors[1])


def test_right_derivatives():
    assert dr.check_grad(lambda x: dr.sin(x), Float64(1, 2))
    assert dr.check_grad(lambda x: dr.sin(x), Float(1, 2))
    assert dr.check_grad(lambda x: x * x, Float16(1, 2))
    assert dr.check_grad(lambda v, k: {"a": v.x * v.y, "b": [k, v]}, Array2f64([1, 2], 3), UInt(1))
    assert dr.check_grad(lambda x: x * 0 + 1, Float64(1))
    assert dr.check_grad(lambda x: Float64(3), Float64(1))


@pytest.mark.parametrize("mode, factors", [("forward", (3, 2)), ("reverse", (2, 3))])
def test_wrong_derivatives(capsys, mode, factors):
    class Op(Wrong):
        pass

    Op.factors = factors
    assert not dr.check_grad(lambda x, y: y + dr.custom(Op, dr.sin(x)), Float64(0, 1), Float64(1))
    text = capsys.readouterr().out
    assert f"in {mode} mode" in text and "entry 0 of array 0" in text
    assert "'sin' recorded at" in text and "test_check_grad.py" in text
    assert not dr.check_grad(lambda x: dr.custom(Op, x), Float64(1), verbose=False)
    assert capsys.readouterr().out == ""


def test_values_that_are_not_finite():
    assert not dr.check_grad(dr.sqrt, Float64(0), verbose=False)


def test_tolerances():
    f = lambda x: dr.replace_grad(x, x * 1.01)  # noqa: E731
    assert not dr.check_grad(f, Float64(1), verbose=False)
    assert dr.check_grad(f, Float64(1), tol=0.1)
    assert dr.check_grad(lambda x: x * x, Float64(1), eps=1e-3, tol=1e-9)


def test_nothing_to_differentiate():
    for args in ((), (1,), (UInt(1),), (dr.llvm.Float(1),)):
        with pytest.raises(TypeError, match="differentiable"):
            dr.check_grad(lambda *a: a, *args)


def test_arguments_stay_what_they_are():
    x = Float64(1, 2)
    dr.enable_grad(x)
    x.grad = 3
    assert dr.check_grad(lambda a: a * a, x)
    assert list(x.grad) == [3, 3]


def test_one_kernel_computes_all_results():
    x, y = Array3f64([0.3, -1.1], [0.8, 0.5], [-0.4, 1.7]), Float64(0.2, 0.7)
    dr.kernel_history_clear()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        assert dr.check_grad(lambda x, y: [x * y, dr.sin(x) + y], x, y)
    # Two per entry for the differences, one for the reverse mode, one per entry for the forward.
    assert len(dr.kernel_history([dr.KernelType.JIT])) == 2 * 8 + 1 + 8

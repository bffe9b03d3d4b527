"""Adam and AdamW: steps from running averages of the gradient and of its square."""

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any

from ..array.base import ArrayBase
from ..function import evaluation
from ..function.arithmetic import fma, lerp, maximum, sqr, sqrt
from ..function.parts import related
from ..function.reduce import max as largest
from ..jit import dtype as dt
from .optimizer import Optimizer
from .parameter import Change, Job, option, scaled_rate
from .rmsprop import check_epsilon, check_fraction, normalized


class Adam(Optimizer):
    """Adam, from Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015).

    Step t averages the gradient g and its square, m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g²,
    and sets x ← x - lrₜ·m / (√v + ε). As at the end of section 2 of the paper, the learning rate
    lrₜ = lr·√(1 - β₂ᵗ) / (1 - β₁ᵗ) corrects the bias of averages that start at zero. Up to
    ε = 1e-6, the divisor is √(v + ε²).

    Arguments:
        amsgrad: divide by the largest v so far; see Reddi et al., "On the Convergence of Adam and
            Beyond" (2018).
        uniform: divide all entries of a parameter by the root of their largest v, which keeps the
            direction of m. This suits vertex positions; see Nicolet et al., "Large Steps in Inverse
            Rendering of Geometry" (2021). Of nested arrays, it is the largest among the
            outermost components of each entry. It has no effect along with `amsgrad`.

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `beta_1` or `beta_2` is outside of [0, 1), or `epsilon` is negative.

    >>> from drjit.opt import Adam
    >>> opt = Adam(lr=0.1, params={"x": Float(1, 2, 3)})
    >>> dr.backward(dr.sum(dr.square(opt["x"])))
    >>> opt.step()
    >>> dr.allclose(opt["x"], Float(0.9, 1.9, 2.9))[0]
    True
    """

    __module__ = "drjit.opt"

    # The last number of steps that was an array, and its correction.
    _corrected: tuple[Any, Any] = (None, None)

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        mask_updates: bool = False,
        promote_fp16: bool = True,
        uniform: bool = False,
        amsgrad: bool = False,
    ) -> None:
        check_fraction(type(self).__name__, "beta_1", beta_1)
        check_fraction(type(self).__name__, "beta_2", beta_2)
        check_epsilon(type(self).__name__, epsilon)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.uniform = uniform
        self.amsgrad = amsgrad
        self.kept = ("first_moment", "second_moment")
        if amsgrad:
            self.kept += ("largest_second_moment",)
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _change(self, job: Job) -> Change:
        first = [
            lerp(g, m, self.beta_1)
            for g, m in zip(job.gradient, job.moments["first_moment"], strict=True)
        ]
        second = [
            lerp(sqr(g), v, self.beta_2)
            for g, v in zip(job.gradient, job.moments["second_moment"], strict=True)
        ]
        moments = {"first_moment": first, "second_moment": second}
        divisors = second
        if self.amsgrad:
            so_far = job.moments["largest_second_moment"]
            divisors = [maximum(v, w) for v, w in zip(second, so_far, strict=True)]
            moments["largest_second_moment"] = divisors
        elif self.uniform:
            divisors = _largest(second, job)

        correction = self._correction(job.steps)
        new = []
        for x, m, v in zip(job.x, first, divisors, strict=True):
            rate = scaled_rate(job.rate, -correction, x)
            new.append(fma(normalized(m, v, self.epsilon), rate, self._decayed(x, job.rate)))
        return new, moments

    def _correction(self, steps: Any) -> Any:
        """The factor of the learning rate in a step. If the number of steps is an array, the factor
        is computed once for all parameters that share it."""
        if isinstance(steps, int):
            return math.sqrt(1 - self.beta_2**steps) / (1 - self.beta_1**steps)
        known, correction = self._corrected
        if known is not steps:
            t = related(type(steps), dtype=dt.f64)(steps)
            correction = sqrt(1 - self.beta_2**t) / (1 - self.beta_1**t)
            evaluation.eval(correction)
            self._corrected = steps, correction
        return correction

    def _decayed(self, x: Any, rate: Any) -> Any:
        """The parameter that the step starts from."""
        return x

    def _options(self) -> str:
        return (
            f",\n  beta = ({option(self.beta_1)}, {option(self.beta_2)}),"
            f"\n  epsilon = {option(self.epsilon)}"
        )


class AdamW(Adam):
    """Adam with decoupled weight decay, from Loshchilov and Hutter, "Decoupled Weight Decay
    Regularization" (2019): a step also multiplies parameters by 1 - lr·λ, with λ = `weight_decay`.

    See `Adam` and `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `weight_decay` is negative, or another argument is out of its range.

    >>> from drjit.opt import AdamW
    >>> opt = AdamW(lr=0.5, params={"x": Float(1)}, weight_decay=0.5)
    >>> opt.step()
    >>> opt["x"]
    [0.75]
    """

    __module__ = "drjit.opt"

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        mask_updates: bool = False,
        promote_fp16: bool = True,
        uniform: bool = False,
        amsgrad: bool = False,
    ) -> None:
        check_decay("AdamW", weight_decay)
        self.weight_decay = weight_decay
        super().__init__(
            lr,
            params,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            mask_updates=mask_updates,
            promote_fp16=promote_fp16,
            uniform=uniform,
            amsgrad=amsgrad,
        )

    def _decayed(self, x: Any, rate: Any) -> Any:
        return decayed(x, rate, self.weight_decay)

    def _options(self) -> str:
        return f"{super()._options()},\n  weight_decay = {option(self.weight_decay)}"


def decayed(x: Any, rate: Any, weight_decay: float) -> Any:
    """A parameter with a part, the learning rate times the weight decay, taken away."""
    return fma(x, scaled_rate(rate, -weight_decay, x), x) if weight_decay else x


def check_decay(optimizer: str, value: float) -> None:
    if not value >= 0:
        raise RuntimeError(f"dr.opt.{optimizer}(): 'weight_decay' must be >= 0, not {value}")


def _largest(leaves: list[Any], job: Job) -> list[Any]:
    """The maximum over the outermost axis: over all entries of a flat array or tensor, over
    corresponding components of a nested array."""
    if not job.nested:
        return [largest(v) for v in leaves]
    step = len(leaves) // job.shape[0]
    across = [reduce(maximum, leaves[k::step]) for k in range(step)] * job.shape[0]
    # A component that all entries share remains one number.
    return [v if len(v) == len(a) else largest(v) for v, a in zip(across, leaves, strict=True)]

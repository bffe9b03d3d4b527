"""Adam and AdamW: steps from running averages of the gradient and its square."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from ..array.base import ArrayBase
from ..array.pytree import leaf_arrays
from ..function import evaluation
from ..function.conversion import flat_class, related
from ..function.data.reduce import max as over_axis
from ..function.math.arithmetic import fma, lerp, maximum, select, sqr, sqrt
from ..jit.ir import dtype as dt
from ..jit.run.freeze import active as active_recorder
from .optimizer import Optimizer
from .parameter import RateCache, blank, check_fraction, check_not_negative, option, with_leaves
from .rmsprop import normalized


class Adam(Optimizer[tuple[Any, Any, Any, Any]]):
    """Adam, from Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015).

    Step t averages the gradient g and its square, m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g²,
    and sets x ← x - lrₜ·m / (√v + ε). As at the end of section 2 of the paper, the learning rate
    lrₜ = lr·√(1 - β₂ᵗ) / (1 - β₁ᵗ) corrects the bias of averages that start at zero. For ε up to
    1e-6, the divisor is √(v + ε²).

    Arguments:
        amsgrad: divide by the largest v so far, following Reddi et al., "On the Convergence of Adam
            and Beyond" (2018).
        uniform: divide all entries of a parameter by the root of their largest v, which preserves
            the direction of m. This suits vertex positions; see Nicolet et al., "Large Steps in
            Inverse Rendering of Geometry" (2021). For nested arrays, the maximum is taken over the
            outermost components, separately for each entry. Ignored if `amsgrad` is set.

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `beta_1` or `beta_2` is outside [0, 1), or `epsilon` is negative.

    >>> from drjit.opt import Adam
    >>> opt = Adam(lr=0.1, params={"x": Float(1, 2, 3)})
    >>> dr.backward(dr.sum(dr.square(opt["x"])))
    >>> opt.step()
    >>> dr.allclose(opt["x"], Float(0.9, 1.9, 2.9))[0]
    True
    """

    saved: ClassVar = {
        "[0]": "steps",
        "[1]": "first_moment",
        "[2]": "second_moment",
        "[3]": "largest_second_moment",
    }
    weight_decay: float = 0

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
        check_not_negative(type(self).__name__, "epsilon", epsilon)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.uniform = uniform
        self.amsgrad = amsgrad
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        steps = flat_class(type(value), dt.u32)(0)
        largest = blank(value) if self.amsgrad else None
        self.state[key] = value, promoted, None, (steps, blank(value), blank(value), largest)

    def _step(
        self, cache: RateCache, value: Any, grad: Any, lr: Any, extra: tuple, /
    ) -> tuple[Any, tuple]:
        steps, m, v, largest = extra
        steps, correction = self._counted(cache, steps)
        m = lerp(grad, m, self.beta_1)
        v = divisor = lerp(sqr(grad), v, self.beta_2)
        if self.amsgrad:
            divisor = largest = maximum(v, largest)
        elif self.uniform:
            divisor = _uniform(v)
        rate = cache.product(flat_class(type(value)), lr, -1, correction)
        start = decayed(cache, value, lr, self.weight_decay)
        return fma(normalized(m, divisor, self.epsilon), rate, start), (steps, m, v, largest)

    def _select(self, mask: Any, extra: tuple, new_extra: tuple, /) -> tuple:
        """A step counts even where it changes nothing."""
        pairs = zip(extra[1:], new_extra[1:], strict=True)
        return new_extra[0], *[b if b is None else select(mask, a, b) for a, b in pairs]

    def _counted(self, cache: RateCache, steps: Any) -> tuple[Any, Any]:
        """Returns the step count after this step and the step's learning rate factor; parameters
        with equal step counts share them."""
        key = "steps", steps._node.data if steps._node.is_literal else steps._node
        if key not in cache:
            after = steps + 1
            if active_recorder() is not None and after._node.is_literal:
                evaluation.make_opaque(after)  # data, so that the step can be replayed
            double = related(type(steps), dtype=dt.f64)
            if after._node.is_literal:
                t = after._node.data
                correction = double(math.sqrt(1 - self.beta_2**t) / (1 - self.beta_1**t))
            else:
                t = double(after)
                correction = sqrt(1 - self.beta_2**t) / (1 - self.beta_1**t)
                evaluation.eval(after, correction)  # one kernel for both
            cache[key] = after, correction
        return cache[key]

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
        RuntimeError: `weight_decay` is negative, or another argument is out of range.

    >>> from drjit.opt import AdamW
    >>> opt = AdamW(lr=0.5, params={"x": Float(1)}, weight_decay=0.5)
    >>> opt.step()
    >>> opt["x"]
    [0.75]
    """

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
        check_not_negative("AdamW", "weight_decay", weight_decay)
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

    def _options(self) -> str:
        return f"{super()._options()},\n  weight_decay = {option(self.weight_decay)}"


def decayed(cache: RateCache, x: Any, lr: Any, weight_decay: float) -> Any:
    """Applies weight decay: subtracts `lr * weight_decay` times the parameter."""
    return fma(x, cache.product(flat_class(type(x)), lr, -weight_decay), x) if weight_decay else x


def _uniform(v: Any) -> Any:
    """Returns the maximum over the outermost axis: over all entries of a flat array or tensor, or
    over corresponding components of a nested array."""
    if v._kind == "leaf":
        return over_axis(v)
    largest = leaf_arrays(over_axis(v, axis=0))
    pairs = [pair for c in v._components for pair in zip(largest, leaf_arrays(c), strict=True)]
    # A component shared by all entries remains a single number.
    leaves = [a if len(a) == len(b) else over_axis(a) for a, b in pairs]
    return with_leaves(type(v), v, leaves)

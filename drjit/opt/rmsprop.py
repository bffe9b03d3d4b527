"""RMSProp: gradients relative to a running average of their magnitude."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ..array.base import ArrayBase
from ..function.conversion import flat_class
from ..function.math.arithmetic import fma, lerp, sqr
from ..function.math.transcendental import sqrt
from .optimizer import Optimizer
from .parameter import RateCache, blank, check_fraction, check_not_negative, option


class RMSProp(Optimizer[Any]):
    """RMSProp: x ← x - lr·g / (√v + ε), where v ← α·v + (1 - α)·g² averages the squared gradient g.

    The method is described in lecture 6e of Hinton, Srivastava and Swersky, "Neural Networks for
    Machine Learning" (2012). For ε up to 1e-6, the divisor is √(v + ε²).

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `alpha` is outside [0, 1), or `epsilon` is negative.

    >>> from drjit.opt import RMSProp
    >>> opt = RMSProp(lr=0.1, params={"x": Float(1)}, alpha=0.75)
    >>> dr.backward(opt["x"] * 8)
    >>> opt.step()
    >>> opt["x"]
    [0.8]
    """

    saved: ClassVar = {"": "second_moment"}

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        alpha: float = 0.99,
        epsilon: float = 1e-8,
        mask_updates: bool = False,
        promote_fp16: bool = True,
    ) -> None:
        check_fraction("RMSProp", "alpha", alpha)
        check_not_negative("RMSProp", "epsilon", epsilon)
        self.alpha = alpha
        self.epsilon = epsilon
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        self.state[key] = value, promoted, None, blank(value)

    def _step(self, cache: RateCache, value: Any, grad: Any, lr: Any, v: Any, /) -> tuple[Any, Any]:
        v = lerp(sqr(grad), v, self.alpha)
        direction = normalized(grad, v, self.epsilon)
        return fma(direction, cache.product(flat_class(type(value)), lr, -1), value), v

    def _options(self) -> str:
        return f",\n  alpha = {option(self.alpha)},\n  epsilon = {option(self.epsilon)}"


def normalized(g: Any, v: Any, epsilon: float) -> Any:
    """Returns `g` divided by the root of its second moment `v`, made safe by `epsilon`.

    An epsilon that only prevents a division by zero is moved under the root.
    """
    if epsilon > 1e-6:
        return g / (sqrt(v) + epsilon)
    smallest = _SMALLEST[v._dtype.name]
    return g / sqrt(v + max(epsilon * epsilon, smallest))


# Positive numbers that are not lost in the addition.
_SMALLEST = {"float16": 2.0**-24, "float32": 2.0**-126, "float64": 2.0**-1022}

"""Stochastic gradient descent with optional momentum."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ..array.base import ArrayBase
from ..function.conversion import flat_class
from ..function.math.arithmetic import fma
from .optimizer import Optimizer
from .parameter import RateCache, blank, check_not_negative, option


class SGD(Optimizer[Any]):
    """Stochastic gradient descent, x ← x - lr·g with the gradient g.

    With a momentum µ, it accumulates v ← µ·v + g and subtracts lr·v instead; with `nesterov`, it
    subtracts lr·(g + µ·v): Nesterov's accelerated gradient, as in Sutskever et al., "On the
    importance of initialization and momentum in deep learning" (2013), with the learning rate
    factored out of v.

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: the momentum is negative, or zero while `nesterov` is set.

    >>> from drjit.opt import SGD
    >>> opt = SGD(lr=0.5, params={"x": Float(1)}, momentum=0.5)
    >>> for i in range(2):
    ...     dr.backward(opt["x"] * 2)
    ...     opt.step()
    >>> opt["x"]
    [-1.5]
    """

    saved: ClassVar = {"": "velocity"}

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        mask_updates: bool = False,
        promote_fp16: bool = True,
    ) -> None:
        check_not_negative("SGD", "momentum", momentum)
        if nesterov and momentum == 0:
            raise RuntimeError("dr.opt.SGD(): 'nesterov' needs a momentum > 0")
        self.momentum = momentum
        self.nesterov = nesterov
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        self.state[key] = value, promoted, None, blank(value) if self.momentum else None

    def _step(
        self, cache: RateCache, value: Any, grad: Any, lr: Any, velocity: Any, /
    ) -> tuple[Any, Any]:
        direction = grad
        if self.momentum:
            velocity = direction = fma(velocity, self.momentum, grad)
            if self.nesterov:
                direction = fma(velocity, self.momentum, grad)
        return fma(direction, cache.product(flat_class(type(value)), lr, -1), value), velocity

    def _options(self) -> str:
        return f",\n  momentum = {option(self.momentum)}\n  nesterov = {self.nesterov}"

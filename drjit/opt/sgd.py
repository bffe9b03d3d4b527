"""Stochastic gradient descent, with momentum if wanted."""

from collections.abc import Mapping
from typing import Any

from ..array.base import ArrayBase
from ..function.arithmetic import fma
from .optimizer import Optimizer
from .parameter import Change, Job, option, scaled_rate


class SGD(Optimizer):
    """Stochastic gradient descent, x ← x - lr·g with the gradient g.

    With a momentum µ it accumulates v ← µ·v + g and subtracts lr·v instead, and with `nesterov`
    lr·(g + µ·v): Nesterov's accelerated gradient, as in Sutskever et al., "On the importance of
    initialization and momentum in deep learning" (2013), with the learning rate taken out of v.

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

    __module__ = "drjit.opt"

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
        if not momentum >= 0:
            raise RuntimeError(f"dr.opt.SGD(): 'momentum' must be >= 0, not {momentum}")
        if nesterov and momentum == 0:
            raise RuntimeError("dr.opt.SGD(): 'nesterov' needs a momentum > 0")
        self.momentum = momentum
        self.nesterov = nesterov
        self.kept = ("velocity",) if momentum else ()
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _change(self, job: Job) -> Change:
        direction = job.gradient
        moments: dict[str, list[Any]] = {}
        if self.momentum:
            mu = self.momentum
            pairs = zip(job.moments["velocity"], job.gradient, strict=True)
            velocity = direction = [fma(v, mu, g) for v, g in pairs]
            if self.nesterov:
                pairs = zip(velocity, job.gradient, strict=True)
                direction = [fma(v, mu, g) for v, g in pairs]
            moments["velocity"] = velocity
        x = [fma(d, scaled_rate(job.rate, -1, x), x) for d, x in zip(direction, job.x, strict=True)]
        return x, moments

    def _options(self) -> str:
        return f",\n  momentum = {option(self.momentum)}\n  nesterov = {self.nesterov}"

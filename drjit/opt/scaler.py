"""Gradient scaling, which compensates for the small range of half precision."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from ..array.base import ArrayBase, type_label
from ..array.pytree import leaf_arrays
from ..function import evaluation
from ..function.ad import grad as derivatives
from ..function.conversion import flat_class, related
from ..function.data import create
from ..function.data.reduce import all as all_of
from ..function.math.arithmetic import isfinite, select
from ..jit.ir import dtype as dt
from ..jit.lazy import np
from ..jit.run import launch
from .optimizer import Optimizer

T = TypeVar("T", bound=Any)


class GradScaler:
    """Scales a loss so that half-precision gradients neither vanish nor overflow, and adapts the
    factor: mixed-precision training as in Micikevicius et al., "Mixed Precision Training" (2018).

    `step` divides the gradients by the factor again. If one of them is infinite or NaN, it leaves
    the parameters unchanged and multiplies the factor by `backoff_factor`. After `growth_interval`
    consecutive steps without that, every further one multiplies it by `growth_factor`. All of this
    is part of the computation: the host does not wait for it, unless `debug` requests a message
    about every change.

    Attributes:
        scale_factor: the factor, a number before the first step, afterwards an array.
        it: the number of consecutive steps with finite gradients.

    Raises:
        RuntimeError: `init_scale` is not positive, `growth_factor` less than one, or
            `backoff_factor` not less than one.

    >>> from drjit.opt import GradScaler, SGD
    >>> opt = SGD(lr=0.5, params={"x": Float(1)})
    >>> scaler = GradScaler(init_scale=1024)
    >>> for factor in (1, dr.inf):
    ...     loss = opt["x"] * factor
    ...     dr.backward(scaler.scale(loss))
    ...     scaler.step(opt)
    ...     print(opt["x"], scaler.scale_factor)
    [0.5] [1024]
    [0.5] [512]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {
        "scale_factor": float | ArrayBase,
        "it": int | ArrayBase,
    }

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        debug: bool = False,
    ) -> None:
        for name, value, fits, needed in (
            ("init_scale", init_scale, init_scale > 0, "> 0"),
            ("growth_factor", growth_factor, growth_factor >= 1, ">= 1"),
            ("backoff_factor", backoff_factor, 0 < backoff_factor < 1, "in (0, 1)"),
        ):
            if not fits:
                raise RuntimeError(f"dr.opt.GradScaler(): {name!r} must be {needed}, not {value}")
        self.scale_factor: Any = float(init_scale)
        self.it: Any = 0
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.debug = debug

    def scale(self, arg: T, /) -> T:
        """Returns the argument, a loss, times the factor."""
        return arg * self.scale_factor

    def unscale(self, arg: T, /) -> T:
        """Returns the argument divided by the factor."""
        return arg / self.scale_factor

    def step(self, opt: Optimizer[Any], **kwargs: Any) -> None:
        """Performs a step of an optimizer with the gradients of a loss scaled by `scale`, and
        adapts the factor. The step has no effect if a gradient is infinite or NaN.

        Further arguments are passed to `Optimizer.step`.

        Raises:
            TypeError: `opt` is not an optimizer, or the arguments contain `grad_scale` or `active`,
                which the scaler sets itself.
        """
        if not isinstance(opt, Optimizer):
            raise TypeError(
                f"dr.opt.GradScaler.step(): expected an optimizer, not {type_label(type(opt))}"
            )
        own = sorted({"grad_scale", "active"} & kwargs.keys())
        if own:
            raise TypeError(
                f"dr.opt.GradScaler.step(): the scaler itself determines {' and '.join(own)}"
            )
        values = list(opt.values())
        if not values:
            return
        # Data from the first step on, so that all steps run the same program.
        cls = flat_class(type(values[0]), dt.f32)
        if not isinstance(self.scale_factor, ArrayBase):
            self.scale_factor = create.opaque(cls, self.scale_factor)
        if not isinstance(self.it, ArrayBase):
            self.it = create.opaque(related(cls, dtype=dt.i32), self.it)
        scale, it = self.scale_factor, self.it

        finite: Any = None
        for gradient in leaf_arrays(derivatives.grad(values)):
            here = all_of(isfinite(gradient))
            finite = here if finite is None else finite & type(finite)(here)
        grown = select(it >= self.growth_interval, scale * self.growth_factor, scale)
        new_scale = select(finite, grown, scale * self.backoff_factor)
        new_it = select(finite, it + 1, 0)
        launch.changing(self)
        evaluation.schedule(new_scale, new_it)
        opt.step(grad_scale=1 / scale, active=finite, **kwargs)
        self.scale_factor, self.it = new_scale, new_it
        evaluation.eval(new_scale, new_it)
        if self.debug and new_scale[0] > scale[0]:
            print(f"GradScaler: increasing step size scale to {new_scale}")
        elif self.debug and new_scale[0] < scale[0]:
            print(f"GradScaler: detected overflow/NaN, reducing step size scale to {new_scale}")

    def state_dict(self) -> dict[str, Any]:
        """Returns the factor and the number of consecutive steps with finite gradients, both as
        zero-dimensional NumPy arrays.

        >>> from drjit.opt import GradScaler
        >>> saved = GradScaler(1024).state_dict()
        >>> {name: float(value) for name, value in saved.items()}
        {'scale_factor': 1024.0, 'it': 0.0}
        """
        return {
            name: np.array(value[0] if isinstance(value, ArrayBase) else value)
            for name, value in (("scale_factor", self.scale_factor), ("it", self.it))
        }

    def load_state_dict(self, saved: Mapping[str, Any], /) -> None:
        """Restores the result of `state_dict`.

        Raises:
            KeyError: entries are missing, or unknown.
        """
        expected = {"scale_factor", "it"}
        if saved.keys() != expected:
            raise KeyError(
                f"dr.opt.GradScaler.load_state_dict(): expected the entries 'scale_factor' and "
                f"'it', got {sorted(saved)}"
            )
        self.scale_factor = float(np.asarray(saved["scale_factor"]).item())
        self.it = int(np.asarray(saved["it"]).item())

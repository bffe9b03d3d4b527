"""The quasi-Newton method L-BFGS, whose steps evaluate a loss several times."""

import math
from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any, ClassVar, Literal

from ..array.base import ArrayBase, type_label
from ..array.pytree import leaf_arrays, walk
from ..function import evaluation
from ..function.ad import propagate
from ..function.ad.grad import clear_grad, detach
from ..function.conversion import flat_class
from ..function.data.reduce import max as largest
from ..function.data.reduce import sum as total
from ..function.math.arithmetic import abs, fma, maximum, minimum, select, sign
from ..jit.ir import dtype as dt
from ..jit.tuples import NamedTuple
from .optimizer import Optimizer, blank, entries, tracked

_WHAT = "dr.opt.LBFGS.step()"
_DECREASE, _CURVATURE = 1e-4, 0.9
_TRIALS, _GROWTH = 12, 4.0


class _Point(NamedTuple):
    """A trial: how far it is along the direction, and there the loss, its slope along the
    direction, and the gradients."""

    t: float
    loss: float
    slope: float
    gradients: list


class LBFGS(Optimizer[tuple[int, tuple, tuple]]):
    """L-BFGS, which approximates Newton's method from the last `history_size` steps and changes of
    the gradient (Nocedal and Wright, "Numerical Optimization", algorithm 7.4). It suits smooth
    losses without noise, which it minimizes in far fewer evaluations than gradient descent.

    `step` takes a function that computes the loss from the parameters in the optimizer, propagates
    gradients, and returns the loss. It makes up to `max_iter` iterations, each of which looks for a
    place along the direction where the strong Wolfe conditions hold (section 3.5 there, with cubic
    interpolation), at first at `lr` times the step of Newton's method. With
    `line_search=None`, it goes there without looking.

    Iterations end early if no entry of the gradient exceeds `tolerance_grad`, or if neither the
    loss nor any parameter changes by more than `tolerance_change`.

    Losses are read by the host, so a step cannot be part of a frozen function; the function that it
    takes may be frozen. All parameters have the same learning rate, and masks do not exist. See
    `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `max_iter` or `history_size` is less than 1, a tolerance is negative, or
            `line_search` is something else.

    >>> from drjit.opt import LBFGS
    >>> opt = LBFGS(params={"x": Float(-1.2, 1)})
    >>> def closure():
    ...     a, b = dr.gather(Float, opt["x"], 0), dr.gather(Float, opt["x"], 1)
    ...     loss = 100 * dr.square(b - a * a) + dr.square(1 - a)
    ...     dr.backward(loss)
    ...     return loss
    >>> for i in range(3):
    ...     loss = opt.step(closure)
    >>> loss < 1e-6, dr.allclose(opt["x"], 1, atol=1e-3)
    (True, [True])
    """

    _settings: ClassVar = (
        ",\n  max_iter = {0.max_iter},\n  history_size = {0.history_size},"
        "\n  tolerance_grad = {0.tolerance_grad:g},\n  tolerance_change = {0.tolerance_change:g},"
        "\n  line_search = {0.line_search!r}"
    )

    def __init__(
        self,
        lr: float = 1.0,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        max_iter: int = 20,
        history_size: int = 10,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        line_search: Literal["strong_wolfe"] | None = "strong_wolfe",
        promote_fp16: bool = True,
    ) -> None:
        self._check_not_negative(tolerance_grad=tolerance_grad, tolerance_change=tolerance_change)
        for name, number in (("max_iter", max_iter), ("history_size", history_size)):
            if not number >= 1:
                raise RuntimeError(f"dr.opt.LBFGS(): {name!r} must be >= 1, not {number}")
        if line_search not in ("strong_wolfe", None):
            raise RuntimeError(
                f"dr.opt.LBFGS(): 'line_search' must be 'strong_wolfe' or None, not {line_search!r}"
            )
        self.max_iter, self.history_size = max_iter, history_size
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.line_search = line_search
        super().__init__(lr, params, promote_fp16=promote_fp16)

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        none = tuple([blank(value) for _ in range(self.history_size)])
        self.state[key] = value, promoted, None, (0, none, none)

    def _named(self, extra: tuple[int, tuple, tuple]) -> list[tuple[str | None, Any]]:
        names = ("steps", "displacements", "gradient_changes")
        return [(names[int(path[1])] + path[3:], part) for path, part in walk(extra)]

    def step(self, closure: Callable[[], Any], /) -> float:  # type: ignore[override]
        """Moves the parameters to where the loss is smaller, and returns the loss there.

        `closure` takes no arguments. It reads parameters from the optimizer, as in `opt["x"]`,
        because they are others in each evaluation, calls `dr.backward` on the loss, and returns it.

        Raises:
            TypeError: `closure` is no function, or its result is not a single number.
            RuntimeError: it leaves no gradients, or a parameter has a learning rate of its own.
        """
        if not callable(closure):
            raise TypeError(f"{_WHAT}: expected a function, not {type_label(closure)}")
        rate = float(self.lr[0] if isinstance(self.lr, ArrayBase) else self.lr)
        if any(lr is not None for _, _, lr, _ in self.state.values()):
            raise RuntimeError(f"{_WHAT}: learning rates of single parameters are not supported")
        loss, gradients = self._evaluated(closure)
        here = _Point(0.0, float(loss), 0.0, gradients)
        for _ in range(self.max_iter):
            start, direction = [*map(entries, self.values())], self._direction(here.gradients)
            size, steepest = _largest(direction), _largest(here.gradients)
            slope = _dot(here.gradients, direction)
            evaluation.eval(direction, size, steepest, slope)
            if not float(steepest) > self.tolerance_grad:
                break
            here = here._replace(t=0.0, slope=float(slope))

            def at(t: float, start: Any = start, direction: Any = direction) -> _Point:
                self._move(start, t, direction)
                loss, gradients = self._evaluated(closure)
                slope = _dot(gradients, direction)
                evaluation.eval(loss, gradients, slope)
                return _Point(t, float(loss), float(slope), gradients)

            found = at(rate) if self.line_search is None else _searched(at, here, rate)
            self._move(start, found.t, direction)
            if found.slope - here.slope > -1e-10 * here.slope:
                self._remember(found, here, direction)
            distance, change = found.t * float(size), found.loss - here.loss
            here = found
            if distance <= self.tolerance_change or not abs(change) > self.tolerance_change:
                break
        return here.loss

    def _evaluated(self, closure: Callable[[], Any]) -> tuple[Any, list]:
        """Returns the loss for the current parameters, and the gradients."""
        values = [*self.values()]
        clear_grad(values)
        loss = closure()
        found = leaf_arrays(loss)
        if len(found) != 1 or len(found[0]) != 1:
            raise TypeError(f"{_WHAT}: the loss must be one number, not {type_label(loss)}")
        if all(a._var.grad is None for a in leaf_arrays(values)):
            raise RuntimeError(
                f"{_WHAT}: the function left no gradients. It has to read the parameters from the "
                "optimizer, as in opt[name], and to call dr.backward(loss)"
            )
        gradients = [entries(value.grad) for value in values]
        clear_grad(values)
        return detach(found[0]), gradients

    def _move(self, start: list, t: float, direction: list) -> None:
        """Sets the parameters to those at the start plus `t` times the direction."""
        with propagate.resumed():
            for key, x, d in zip(self.state, start, direction, strict=True):
                value, promoted, lr, extra = self.state[key]
                self.state[key] = tracked(value, fma(d, t, x)), promoted, lr, extra
        evaluation.eval([*self.values()])

    def _remember(self, found: _Point, before: _Point, direction: list) -> None:
        """Adds a step and its change of the gradient to the history."""
        changes = zip(direction, found.gradients, before.gradients, strict=True)
        for key, (d, new, old) in zip(self.state, changes, strict=True):
            value, promoted, lr, (count, steps, differences) = self.state[key]
            history = (*steps[1:], d * found.t), (*differences[1:], new - old)
            self.state[key] = value, promoted, lr, (count + 1, *history)
        evaluation.eval(self.state)

    def _direction(self, gradients: list) -> list:
        """Returns minus the product of the gradient with the approximate inverse of the Hessian, by
        the two-loop recursion."""
        extras = [extra for *_, extra in self.state.values()]
        known = min(self.history_size, max(count for count, *_ in extras))
        q, pairs, scale = gradients, [], None
        for k in range(1, known + 1):  # the last step first
            s, y = ([h[-k] for h in kind] for kind in zip(*[e[1:] for e in extras], strict=True))
            product = _dot(s, y)
            if scale is None:
                scale = select(product > 0, product / _dot(y, y), 1)
            rho = select(product > 0, 1 / product, 0)  # one part of the history may be reset
            alpha = rho * _dot(s, q)
            q = _plus(q, -alpha, y)
            pairs.append((s, y, rho, alpha))
        if scale is None:
            scale = minimum(1, 1 / _dot(gradients, [*map(sign, gradients)]))
        q = [x * flat_class(type(x))(scale) for x in q]
        for s, y, rho, alpha in reversed(pairs):
            q = _plus(q, alpha - rho * _dot(y, q), s)
        return [-x for x in q]


# Sums over all parameters, in at least single precision


def _wide(arrays: list) -> list:
    """Returns one-dimensional arrays of the same type with the entries of several arrays."""
    found = leaf_arrays(arrays)
    wide = dt.f64 if any(a._dtype is dt.f64 for a in found) else dt.f32
    return [flat_class(type(a), wide)(a) for a in found]


def _dot(a: list, b: list) -> Any:
    return reduce(add, [total(x * y) for x, y in zip(_wide(a), _wide(b), strict=True)])


def _largest(arrays: list) -> Any:
    """Returns the largest absolute entry."""
    return reduce(maximum, [largest(abs(a)) for a in _wide(arrays)])


def _plus(a: list, factor: Any, b: list) -> list:
    return [fma(y, flat_class(type(x))(factor), x) for x, y in zip(a, b, strict=True)]


# The line search


def _searched(at: Callable[[float], _Point], start: _Point, t: float) -> _Point:
    """Returns a place where the strong Wolfe conditions hold, or the best one found. There is one
    between `low`, where the loss decreases steeply, and `high`, where it has not decreased enough
    or increases steeply."""
    low, high = start, None
    for _ in range(_TRIALS):
        here = at(t)
        low_enough = here.loss <= start.loss + _DECREASE * t * start.slope  # and finite
        if low_enough and abs(here.slope) <= -_CURVATURE * start.slope:
            return here
        if low_enough and here.slope < 0:
            low = here
        else:
            high = here
        t = _between(low, high) if high else _GROWTH * t
    return low


def _between(low: _Point, high: _Point) -> float:
    """Returns where the cubic through two points with these slopes is lowest (Nocedal and Wright,
    equation 3.59), but not close to an end; the middle if there is no such place."""
    length = high.t - low.t
    first = low.slope + high.slope - 3 * (high.loss - low.loss) / length
    square = first * first - low.slope * high.slope
    place = 0.5
    if 0 <= square < math.inf:
        second = math.sqrt(square)
        place = 1 - (high.slope + second - first) / (high.slope - low.slope + 2 * second)
    return low.t + length * min(max(place, 0.1), 0.9)

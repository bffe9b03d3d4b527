"""Derivative rules: how the gradient of a result becomes a gradient of each operand, for every
differentiable op.

The rule of an element-wise op is written once, as the product of a gradient with the partial
derivative. It serves both directions, because such a product is its own transpose. Rules are
evaluated in an algebra: on nodes for first derivatives, or on recorded values for higher ones. Ops
that move entries between lanes are in `memory_rules.py`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from ..jit.ir import op


def _named(op_: op.Op) -> Callable[..., Any]:
    return lambda self, *values: self(op_, *values)


class Algebra:
    """What a rule computes in: `o(op.sin, x)` is an operation on values, and the most common ones
    have names; `o.number(x, value)` is a constant of the type of a value."""

    add, sub, mul, div = map(_named, (op.add, op.sub, op.mul, op.div))
    neg, select = map(_named, (op.neg, op.select))


class Rule:
    """The derivative rule of an element-wise op.

    `partials[i](o, g, y, *x)` returns the gradient `g` times the derivative of the result `y` with
    respect to operand `x[i]`, in the algebra `o`. `keeps_inputs` and `keeps_result` state which
    primal values this needs.

    The derivative of a `guarded` op may be infinite at ordinary values. An op that `masks` passes
    no gradient on in some lanes. Primal values may be arbitrary there, so the `product` of the
    gradient with a derivative must be guarded as well.

    The two partial derivatives of a `symmetric` op are equal if its operands are.

    If only nodes are computed (see `algebra`), `direct(v, g, sink, guard, masked)` passes the
    gradient of a variable on, and `tangent(v, members, sink)` is a step of a forward traversal.
    They are compiled on first use (see `generated`).
    """

    compilers: ClassVar[dict[str, Callable[["Rule"], Callable]]] = {}

    elementwise = True
    always = lasts = keeps_gradient = False

    def __init__(
        self, op_: op.Op, keeps: str, partials: tuple[Callable | None, ...], name: str = ""
    ) -> None:
        self.name, self.partials = name or op_.name, partials
        self.keeps_inputs = "x" in keeps
        self.keeps_result = "y" in keeps
        self.guarded, self.masks, self.symmetric = op_.guarded, op_.masks, op_.symmetric
        self.product = not op_.linear and not op_.masks
        self.direct: Callable = partial(self._compile, "direct")
        self.tangent: Callable = partial(self._compile, "tangent")

    def _compile(self, name: str, *args: Any) -> None:
        made = self.compilers[name](self)
        setattr(self, name, made)
        made(*args)

    def visit_primals(self, v: Any, add: Callable[[Any], Any]) -> None:
        """Calls `add` with each primal value that derivatives need."""
        values = (*v.inputs, v.result)
        y, *inputs = [frozenset((n,)) for n in (v.result, *v.inputs)]
        found = frozenset()
        for d, derivative in zip(v.deps, self.partials, strict=True):
            if d is not None and derivative is not None:
                found |= derivative(_PRIMAL_SETS, frozenset(), y, *inputs)
        for n in values:
            if n in found:
                add(n)


class _PrimalSets(Algebra):
    """The algebra of sets of primal values: determines which ones a computation reads."""

    def __call__(self, op_: op.Op, *values: frozenset) -> frozenset:
        return frozenset().union(*values)

    def number(self, like: frozenset, value: float) -> frozenset:
        return frozenset()


_PRIMAL_SETS = _PrimalSets()


def _row(keeps: str, *partials: Callable | None) -> tuple[str, tuple[Callable | None, ...]]:
    return keeps, partials


def pass_through(o: Any, g: Any, *_: Any) -> Any:
    """The partial derivative 1."""
    return g


def _one_over_sqrt(o: Any, g: Any, s: Any) -> Any:
    return o.div(g, o(op.sqrt, s))


def _abs(o: Any, g: Any, y: Any, x: Any) -> Any:
    zero = o.number(x, 0)
    return o.select(o(op.gt, x, zero), g, o.select(o(op.lt, x, zero), o.neg(g), o.number(g, 0)))


def _extremum(better: op.Op) -> tuple[Callable, Callable]:
    """The first operand receives the gradient where it is better."""
    return (
        lambda o, g, y, a, b: o.select(o(better, a, b), g, o.number(g, 0)),
        lambda o, g, y, a, b: o.select(o(better, a, b), o.number(g, 0), g),
    )


def _pow_base(o: Any, g: Any, y: Any, x: Any, e: Any) -> Any:
    # e * x^(e-1), and 0 for e = 0, where x^(e-1) may be infinite.
    slope = o.mul(e, o(op.pow, x, o.sub(e, o.number(e, 1))))
    return o.mul(g, o.select(o(op.eq, e, o.number(e, 0)), o.number(e, 0), slope))


def _pow_exponent(o: Any, g: Any, y: Any, x: Any, e: Any) -> Any:
    # y * log(x), and 0 where y = 0, because x^e is constantly 0 near x = 0, e > 0.
    zero = o.number(y, 0)
    return o.mul(g, o.select(o(op.eq, y, zero), zero, o.mul(y, o(op.log, x))))


def _atan2_y(o: Any, g: Any, r: Any, y: Any, x: Any) -> Any:
    return o.div(o.mul(g, x), o(op.fma, x, x, o.mul(y, y)))


def _atan2_x(o: Any, g: Any, r: Any, y: Any, x: Any) -> Any:
    return o.neg(o.div(o.mul(g, y), o(op.fma, x, x, o.mul(y, y))))


def _digamma(o: Any, x: Any) -> Any:
    """The derivative of lgamma: reflection, recurrence up to 6, and the asymptotic series
    (Abramowitz & Stegun 6.3.7, 6.3.5, 6.3.18)."""
    half = o.number(x, 0.5)
    small = o(op.lt, x, half)
    z = o.select(small, o.sub(o.number(x, 1), x), x)
    total = o.number(x, 0)
    for _ in range(7):
        near = o(op.lt, z, o.number(z, 7))
        total = o.sub(total, o.select(near, o.div(o.number(z, 1), z), o.number(z, 0)))
        z = o.select(near, o.add(z, o.number(z, 1)), z)
    w = o.div(o.number(z, 1), o.mul(z, z))
    series = o.number(z, -691 / 32760)
    for c in (1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = o(op.fma, series, w, o.number(z, c))
    value = o.sub(o(op.log, z), o.div(half, z))
    value = o.add(o.sub(value, o.mul(series, w)), total)
    pi_x = o.mul(x, o.number(x, math.pi))
    turned = o.div(o.mul(o.number(x, math.pi), o(op.cos, pi_x)), o(op.sin, pi_x))
    return o.select(small, o.sub(value, turned), value)


def _asin(o: Any, g: Any, y: Any, x: Any) -> Any:
    return _one_over_sqrt(o, g, o(op.fma, o.neg(x), x, o.number(x, 1)))


def _erf(sign: int, factor: float) -> Callable:
    def partial(o: Any, g: Any, y: Any, x: Any) -> Any:
        at = x if sign < 0 else y
        square = o.mul(at, at)
        e = o(op.exp, o.neg(square) if sign < 0 else square)
        return o.mul(g, o.mul(e, o.number(g, factor)))

    return partial


_ROWS: dict[str, tuple[str, tuple[Callable | None, ...]]] = {
    "neg": _row("", lambda o, g, y, *_: o.neg(g)),
    "copy": _row("", pass_through),
    "add": _row("", pass_through, pass_through),
    "sub": _row("", pass_through, lambda o, g, y, *_: o.neg(g)),
    "mul": _row("x", lambda o, g, y, a, b: o.mul(g, b), lambda o, g, y, a, b: o.mul(g, a)),
    "div": _row(
        "xy",
        lambda o, g, y, a, b: o.div(g, b),
        lambda o, g, y, a, b: o.neg(o.mul(y, o.div(g, b))),
    ),
    "fma": _row(
        "x",
        lambda o, g, y, a, b, c: o.mul(g, b),
        lambda o, g, y, a, b, c: o.mul(g, a),
        pass_through,
    ),
    "select": _row(
        "x",
        None,
        lambda o, g, y, m, a, b: o.select(m, g, o.number(g, 0)),
        lambda o, g, y, m, a, b: o.select(m, o.number(g, 0), g),
    ),
    "minimum": _row("x", *_extremum(op.le)),
    "maximum": _row("x", *_extremum(op.gt)),
    "abs": _row("x", _abs),
    "sqrt": _row("y", lambda o, g, y, *_: o.div(o.mul(g, o.number(g, 0.5)), y)),
    "sin": _row("x", lambda o, g, y, x: o.mul(g, o(op.cos, x))),
    "cos": _row("x", lambda o, g, y, x: o.neg(o.mul(g, o(op.sin, x)))),
    "tan": _row("y", lambda o, g, y, *_: o(op.fma, g, o.mul(y, y), g)),
    "asin": _row("x", _asin),
    "acos": _row("x", lambda o, *rest: o.neg(_asin(o, *rest))),
    "atan": _row("x", lambda o, g, y, x: o.div(g, o(op.fma, x, x, o.number(x, 1)))),
    "atan2": _row("x", _atan2_y, _atan2_x),
    "sinh": _row("x", lambda o, g, y, x: o.mul(g, o(op.cosh, x))),
    "cosh": _row("x", lambda o, g, y, x: o.mul(g, o(op.sinh, x))),
    "tanh": _row("y", lambda o, g, y, *_: o(op.fma, o.neg(g), o.mul(y, y), g)),
    "asinh": _row("x", lambda o, g, y, x: _one_over_sqrt(o, g, o(op.fma, x, x, o.number(x, 1)))),
    "acosh": _row("x", lambda o, g, y, x: _one_over_sqrt(o, g, o(op.fma, x, x, o.number(x, -1)))),
    "atanh": _row("x", lambda o, g, y, x: o.div(g, o(op.fma, o.neg(x), x, o.number(x, 1)))),
    "exp": _row("y", lambda o, g, y, *_: o.mul(g, y)),
    "exp2": _row("y", lambda o, g, y, *_: o.mul(g, o.mul(y, o.number(g, math.log(2))))),
    "expm1": _row("y", lambda o, g, y, *_: o(op.fma, g, y, g)),
    "log": _row("x", lambda o, g, y, x: o.div(g, x)),
    "log2": _row("x", lambda o, g, y, x: o.div(o.mul(g, o.number(g, 1 / math.log(2))), x)),
    "log1p": _row("x", lambda o, g, y, x: o.div(g, o.add(x, o.number(x, 1)))),
    "cbrt": _row("y", lambda o, g, y, *_: o.div(o.mul(g, o.number(g, 1 / 3)), o.mul(y, y))),
    "erf": _row("x", _erf(-1, 2 / math.sqrt(math.pi))),
    "erfinv": _row("xy", _erf(1, math.sqrt(math.pi) / 2)),
    "lgamma": _row("x", lambda o, g, y, x: o.mul(g, _digamma(o, x))),
    "pow": _row("xy", _pow_base, _pow_exponent),
}

# Ops without a rule have a derivative that is zero wherever it exists, or none at all: their
# results count as constants.
RULES: dict[op.Op, Rule] = {(o := op.TABLE[name]): Rule(o, *row) for name, row in _ROWS.items()}

"""Derivatives of every element-wise operation, with respect to every operand, in both modes."""

import itertools

import numpy as np
import pytest
from helpers import ELEMENTWISE

import drjit as dr
from drjit.ad import graph
from drjit.ad.algebra import Guards
from drjit.ad.rules import RULES
from drjit.ad.sink import GradientSink
from drjit.array import leaf
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node, op
from drjit.llvm.ad import Bool, Float, Float16, Float64

# Points of each operand at which the operation is smooth.
POINTS = {
    "div": ([1.5, -2, 0.3], [0.7, 3, -1.1]),
    "sqrt": ([0.1, 1, 7],),
    "asin": ([-0.9, 0.1, 0.8],),
    "acos": ([-0.9, 0.1, 0.8],),
    "acosh": ([1.1, 2, 9],),
    "atanh": ([-0.9, 0.1, 0.8],),
    "log": ([0.1, 1, 7],),
    "log1p": ([-0.9, 0.1, 7],),
    "log2": ([0.1, 1, 7],),
    "cbrt": ([-3, 0.2, 5],),
    "erfinv": ([-0.9, 0.1, 0.8],),
    "lgamma": ([0.2, 1.7, 9.5, -1.3],),
    "pow": ([0.5, 1.7, 2.3], [2.5, -1.5, 0.3]),
    "select": ([True, False, True], [1, 2, 3], [4, 5, 6]),
    "minimum": ([1, 5, -2], [2, 3, -4]),
    "maximum": ([1, 5, -2], [2, 3, -4]),
    "abs": ([-2, 0.5, 3],),
}
ORDINARY = ([0.3, -1.2, 2.1], [1.1, 0.4, -0.7], [0.9, -2.5, 1.6])
SMALL_STEP = {"lgamma": 1e-4}

CASES = [
    (op_, k)
    for op_, rule in RULES.items()
    for k in range(len(rule.partials))
    if rule.partials[k] is not None
]


def points(op_, cls=Float64):
    found = POINTS.get(op_.name, ORDINARY[: op_.arity])
    return [Bool(p) if isinstance(p[0], bool) else cls([float(v) for v in p]) for p in found]


def gradient(op_, operands, k, mode, seed=None):
    operands = [type(a)(a) for a in operands]
    x = operands[k]
    dr.enable_grad(x)
    y = leaf.apply(op_, *operands)
    if mode == "backward":
        y.grad = 1 if seed is None else seed
        dr.backward_from(y)
        return x.grad.numpy().astype(np.float64)
    x.grad = 1 if seed is None else seed
    dr.forward_from(x)
    return y.grad.numpy().astype(np.float64)


def difference(op_, operands, k):
    h = SMALL_STEP.get(op_.name, 1e-6)
    ends = []
    for step in (h, -h):
        moved = list(operands)
        moved[k] = operands[k] + step
        ends.append(leaf.apply(op_, *moved).numpy())
    return (ends[0] - ends[1]) / (2 * h)


@pytest.mark.parametrize("mode", ["forward", "backward"])
@pytest.mark.parametrize("op_, k", CASES, ids=lambda v: str(v))
@pytest.mark.compiled_every(5)
def test_gradients_are_those_of_central_differences(tier, op_, k, mode):
    operands = points(op_)
    found = gradient(op_, operands, k, mode)
    np.testing.assert_allclose(found, difference(op_, operands, k), rtol=2e-7, atol=2e-8)


@pytest.mark.parametrize("cls, tolerance", [(Float, 2e-5), (Float16, 2e-2)])
@pytest.mark.parametrize("op_, k", CASES, ids=lambda v: str(v))
def test_narrow_types_agree_with_float64(op_, k, cls, tolerance):
    narrow = points(op_, cls)
    wide = [a if type(a) is Bool else Float64(a) for a in narrow]
    for mode in ("forward", "backward"):
        found = gradient(op_, narrow, k, mode)
        expected = gradient(op_, wide, k, mode)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_every_differentiable_operation_has_a_rule():
    constant = {
        "not_", "and_", "or_", "xor", "eq", "ne", "lt", "le", "gt", "ge", "shl", "shr", "quotient",
        "remainder", "mul_hi", "floor", "ceil", "trunc", "round", "popcnt", "lzcnt", "tzcnt",
        "brev", "bitcast", "cast",
    }  # fmt: skip
    named = {op_.name for op_ in RULES}
    assert named.isdisjoint(constant)
    assert set(ELEMENTWISE) <= named | constant


inf, nan = np.inf, np.nan


def tracked(*values, cls=Float64):
    x = cls(*[float(v) for v in values])
    dr.enable_grad(x)
    return x


def slope(f, *values):
    x = tracked(*values)
    dr.backward(f(x))
    return x.grad.numpy()


AWKWARD = [
    ("abs at 0", dr.abs, [0], [0]),
    ("sqrt at 0", dr.sqrt, [0], [inf]),
    ("log at 0", dr.log, [0], [inf]),
    ("reciprocal at 0", dr.rcp, [0], [-inf]),
    ("cbrt at 0", dr.cbrt, [0], [inf]),
    ("asin at 1", dr.asin, [1], [inf]),
    ("acos at 1", dr.acos, [1], [-inf]),
    ("safe_sqrt", dr.safe_sqrt, [-1, 0, 4], [0, 0, 0.25]),
    ("safe_asin", dr.safe_asin, [-1, 1, 2, 0], [0, 0, 0, 1]),
    ("safe_acos", dr.safe_acos, [-1, 1, 2, 0], [0, 0, 0, -1]),
    ("hypot at 0", lambda x: dr.hypot(x, Float64(0)), [0, 3], [0, 1]),
    ("minimum at ties", lambda x: dr.minimum(x, 1), [0, 1, 2], [1, 1, 0]),
    ("maximum at ties", lambda x: dr.maximum(x, 1), [0, 1, 2], [0, 0, 1]),
    ("clip at its bounds", lambda x: dr.clip(x, 0, 1), [-1, 0, 0.5, 1, 2], [0, 0, 1, 1, 0]),
    ("minimum of itself", lambda x: dr.minimum(x, x), [2], [1]),
    ("all smallest entries", dr.min, [1, 1, 2], [1, 1, 0]),
    ("all largest entries", dr.max, [1, 2, 2], [0, 1, 1]),
    ("product without zeros", dr.prod, [1, 2, 3], [6, 3, 2]),
    ("product with a zero", dr.prod, [2, 0, 3], [0, 6, 0]),
    ("product with two zeros", dr.prod, [2, 0, 0], [0, 0, 0]),
    ("power 0", lambda x: dr.power(x, Float64(0)), [0, 2], [0, 0]),
    ("power 1 at 0", lambda x: dr.power(x, Float64(1)), [0], [1]),
    ("power 2 of negative numbers", lambda x: dr.power(x, Float64(2)), [-3, 0], [-6, 0]),
    ("exponent over base 0", lambda x: dr.power(Float64(0), x), [2], [0]),
    ("masked square root", lambda x: dr.select(x > 0, dr.sqrt(x), 0), [0, 4], [0, 0.25]),
    ("masked product", lambda x: dr.select(x > 0, dr.log(x) * dr.rcp(x), 0), [0, 1], [0, 1]),
    ("multiplied by 0", lambda x: dr.sqrt(x) * 0, [0], [0]),
    ("masked overflow", lambda x: dr.select(x < 9, dr.exp(x), 0), [0, 1e9], [1, 0]),
    ("masked nan", lambda x: dr.select(dr.isnan(x), 0, dr.sin(x)), [0, nan, inf], [1, 0, nan]),
    ("mulsign", lambda x: dr.mulsign(x, -1), [2], [-1]),
    ("copysign", lambda x: dr.copysign(x, -1), [2, -2], [-1, 1]),
    ("copysign at 0", lambda x: dr.copysign(x, -1), [0.0, -0.0], [-1, 1]),
    ("copysign of 0", lambda x: dr.copysign(x, Float64(0.0, -0.0)), [0.0, 0.0], [1, -1]),
    ("sqrt at inf", dr.sqrt, [inf], [0]),
    ("atan at inf", dr.atan, [inf], [0]),
    ("tanh at inf", dr.tanh, [inf], [0]),
]  # fmt: skip


@pytest.mark.parametrize("name, f, values, expected", AWKWARD, ids=[c[0] for c in AWKWARD])
def test_awkward_points(tier, name, f, values, expected):
    np.testing.assert_array_equal(slope(f, *values), np.array(expected, float))


@pytest.mark.parametrize("cls", [Float16, Float, Float64])
def test_hypot_at_subnormal_numbers(tier, cls):
    """Where the reciprocal of an argument overflows."""
    info = np.finfo(cls().numpy().dtype)
    some = [float(info.smallest_subnormal) * k for k in (0, 1, 2, 100, -700)]
    some += [float(info.smallest_normal) * k for k in (0.25, 1, -3)]
    a, b = np.array([(a, b) for a in some for b in some if a or b]).T
    x, y = cls(a), cls(b)
    dr.enable_grad(x, y)
    z = dr.hypot(x, y)
    unit = float(info.smallest_subnormal)
    a, b = a / unit, b / unit
    length = np.hypot(a, b)
    np.testing.assert_allclose(z.numpy() / unit, length, 2 * info.eps, 1)
    near = {"rtol": 4 * info.eps, "atol": 2 * info.eps}
    for way, partial in ((x, a / length), (y, b / length)):
        way.grad = 1
        dr.forward_from(way, dr.ADFlag.ClearInterior)
        np.testing.assert_allclose(z.grad.numpy(), partial, **near)
        dr.clear_grad((way, z))
    dr.backward(z)
    np.testing.assert_allclose(x.grad.numpy(), a / length, **near)
    np.testing.assert_allclose(y.grad.numpy(), b / length, **near)


def test_a_tangent_of_0_stays_0_where_a_derivative_is_infinite(tier):
    for values in ((0, 4), (0,)):
        x = tracked(*values)
        y = dr.sqrt(x) * 3
        dr.set_grad(x, 0)
        dr.enqueue(dr.ADMode.Forward, x)
        dr.traverse(dr.ADMode.Forward)
        assert list(y.grad) == [0] * len(values)


def test_masked_lanes_have_no_tangent(tier):
    x = tracked(0, 4)
    y = dr.select(x > 0, dr.sqrt(x), 0)
    dr.forward(x)
    assert list(y.grad) == [0, 0.25]


@pytest.mark.parametrize(
    "f, values",
    [
        (lambda x: dr.lerp(x, x * x, 0.25), [0.4, 2]),
        (dr.rsqrt, [0.4, 2]),
        (lambda x: dr.sincos(x)[0] * dr.sincos(x)[1], [0.4, 2]),
        (lambda x: dr.sincosh(x)[0] * dr.sincosh(x)[1], [0.4, 2]),
        (lambda x: dr.hypot(x, 3), [0.4, 2]),
        (lambda x: x**3 + x**-2 + x**0.7, [0.4, 2]),
        (lambda x: 2 - 3 / x + (-x) * abs(x - 1), [0.4, 2]),
        (lambda x: dr.norm(dr.llvm.ad.Array3f64(x, 2 * x, x * x)), [0.4, 2]),
        (lambda x: dr.fma(x, x, x), [0.4, 2]),
    ],
)
def test_functions_made_of_operations(f, values):
    h = 1e-6
    plus, minus = [f(Float64(values) + s).numpy() for s in (h, -h)]
    np.testing.assert_allclose(slope(f, *values), (plus - minus) / (2 * h), rtol=1e-7)


@pytest.mark.parametrize("source", [Float16, Float, Float64])
@pytest.mark.parametrize("target", [Float16, Float, Float64])
def test_casts_between_precisions(tier, source, target):
    x = source(1, 2)
    dr.enable_grad(x)
    y = target(x) * 3
    dr.backward(y)
    assert type(x.grad) is source
    assert list(x.grad) == [3, 3]
    x = source(1, 2)
    dr.enable_grad(x)
    y = target(x) * 3
    dr.forward(x)
    assert type(y.grad) is target
    assert list(y.grad) == [3, 3]


@pytest.mark.parametrize("f", [dr.floor, dr.ceil, dr.round, dr.trunc, dr.sign, dr.isnan])
def test_constant_functions_have_no_derivative(f):
    assert not dr.grad_enabled(f(tracked(0.5)))


@pytest.mark.parametrize("cls", [dr.llvm.ad.UInt, dr.llvm.ad.Int, Bool])
def test_integers_and_masks_carry_no_derivative(cls):
    assert not dr.grad_enabled(cls(tracked(1)))
    assert not dr.grad_enabled(tracked(1) > 0)
    x = cls(1)
    dr.enable_grad(x)
    assert not dr.grad_enabled(x)


def test_complex_numbers_and_matrices():
    z = dr.llvm.ad.Complex2f64(1, 2)
    dr.enable_grad(z)
    dr.backward(dr.exp(z))
    # The gradient of u + v is that of u minus i times that of v.
    expected = np.conj(np.exp(1 + 2j)) * (1 + 1j)
    np.testing.assert_allclose(z.grad.numpy(), [expected], rtol=1e-12)
    m = dr.llvm.ad.Matrix2f64(1, 2, 3, 4)
    dr.enable_grad(m)
    dr.backward(m @ m)
    np.testing.assert_allclose(np.array(m.grad)[..., 0], [[7, 11], [9, 13]])


def ones(kind):
    return {"literal": Float64(1), "data": dr.opaque(Float64, 1, 3), "number": 1}[kind]


@pytest.mark.parametrize("first", ["literal", "data", "number"])
@pytest.mark.parametrize("second", ["literal", "data", "number"])
def test_equal_operands_of_extrema(first, second, tier):
    """The first one has the gradient of a minimum, the second one that of a maximum."""
    for f, winner in ((dr.minimum, 0), (dr.maximum, 1)):
        operands = [ones(first), ones(second)]
        arrays = [v for v in operands if not isinstance(v, int)]
        if not arrays:
            continue
        dr.enable_grad(*arrays)
        result = f(*operands)
        dr.backward(result, dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)
        for k, v in enumerate(operands):
            if not isinstance(v, int):
                total = dr.sum(v.grad)[0]
                assert total == (len(result) if k == winner else 0)


@pytest.mark.parametrize("op_", RULES, ids=lambda o: o.name)
def test_derivatives_need_the_values_that_a_rule_reads(op_):
    """Whatever operands are differentiable: other values are not touched."""
    rule = RULES[op_]
    count = len(rule.partials)
    for tracked in range(1, 1 << count):
        v = graph.new_slot(value())
        v.rule = rule
        v.deps = tuple(
            [graph.new_slot(value()) if tracked >> k & 1 else None for k in range(count)]
        )
        types = [dt.mask if op_ is op.select and k == 0 else dt.f32 for k in range(count)]
        inputs = tuple(map(value, types)) if rule.keeps_inputs else ()
        v.inputs, v.result = inputs, value() if rule.keeps_result else None
        read = []
        rule.visit_primals(v, read.append)
        v.inputs = tuple([n if n in read else None for n in inputs])
        v.result = v.result if v.result in read else None
        for masked in (False, True):
            rule.direct(v, value(), GradientSink(False, None), Guards(), masked)
        for k, d in enumerate(v.deps):
            if d is not None:
                d.grad = value()
                GradientSink(False, None).push(v, k)


@pytest.mark.parametrize("mode", [dr.ADMode.Backward, dr.ADMode.Forward])
@pytest.mark.parametrize("op_", [o for o in RULES if o is not op.copy], ids=lambda o: o.name)
def test_generated_code_agrees_with_the_rule(op_, mode, monkeypatch):
    """The latter computes gradients if the graph is kept. Operands are several entries, a single
    one, or a constant, and the last two may be the same."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    columns = points(op_)
    several = itertools.product(("several", "constant"), repeat=op_.arity)
    for kinds in (*several, ("single", "several", "several")[: op_.arity]):
        operands = [of_kind(kind, c) for kind, c in zip(kinds, columns, strict=True)]
        for given in (operands, [*operands[:-1], operands[max(op_.arity - 2, op_.arity == 3)]]):
            found, expected = [slopes(op_, given, mode, keep) for keep in (False, True)]
            for k, pair in enumerate(zip(found, expected, strict=True)):
                # Sums are rounded differently.
                np.testing.assert_allclose(*pair, 1e-14, 1e-15, err_msg=f"{kinds}, {k}")


def of_kind(kind, entries):
    found = entries if kind == "several" else type(entries)(entries[0])
    if kind != "constant":
        dr.make_opaque(found)
    return found


def slopes(op_, operands, mode, keep):
    """The gradients of all operands, or that of the result, from seeds in memory."""
    copies = {id(a): type(a)(a) for a in operands}
    dr.enable_grad(*copies.values())
    y = leaf.apply(op_, *[copies[id(a)] for a in operands])
    inputs = [a for a in copies.values() if type(a) is Float64]
    for a in [y] if mode == dr.ADMode.Backward else inputs:
        a.grad = 0.7 - dr.opaque(Float64, 1, len(y)) * dr.arange(Float64, len(y))
    dr.enqueue(mode, *([y] if mode == dr.ADMode.Backward else inputs))
    dr.traverse(mode, dr.ADFlag.ClearNone | dr.ADFlag.KeepGraph if keep else dr.ADFlag.ClearNone)
    return [a.grad.numpy() for a in (inputs if mode == dr.ADMode.Backward else [y])]


def value(dtype=dt.f32):
    return node.make(op.copy, dtype, 4, (node.literal(dtype, 1, 4),))

"""Hyperbolic functions and their inverses."""

from ..numpy.elementwise import abs, any_lane, bitcast, f32, f64, fma, i32, i64
from ..numpy.elementwise import maximum, minimum, select, shl, sqrt, u32, u64
from .exponential import log_f64


def sinh_f32(x):
    """The hyperbolic sine."""
    a = minimum(90.0, abs(x))
    # e^a / 2
    t = fma(a, 1.4426950408889634, 12582912.0)
    n = t - 12582912.0
    r = fma(n, 1.90465421e-9, fma(n, -0.693147182, a))
    p = fma(r, 0.0013846973, 0.008369989)
    p = fma(fma(fma(p, r, 0.04166801), r, 0.16666509), r, 0.49999994)
    p = fma(fma(p, r, 1.0), r, 1.0)
    e = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t) - 1, 23))
    y = e - 0.25 / e
    z = a * a
    q = fma(fma(z, 0.00020373381, 0.008330271), z, 0.16666716)
    y = select(a < 1.0, fma(a * z, q, a), select(a > 89.415985, INF, y))
    return bitcast(f32, bitcast(u32, y) | (bitcast(u32, x) & 0x80000000))


def cosh_f32(x):
    """The hyperbolic cosine."""
    a = minimum(90.0, abs(x))
    t = fma(a, 1.4426950408889634, 12582912.0)
    n = t - 12582912.0
    r = fma(n, 1.90465421e-9, fma(n, -0.693147182, a))
    p = fma(r, 0.0013846973, 0.008369989)
    p = fma(fma(fma(p, r, 0.04166801), r, 0.16666509), r, 0.49999994)
    p = fma(fma(p, r, 1.0), r, 1.0)
    e = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t) - 1, 23))
    return select(a > 89.415985, INF, e + 0.25 / e)


def tanh_f32(x):
    """The hyperbolic tangent."""
    a = minimum(9.2, abs(x))
    z = a * a
    q = fma(fma(z, 0.016437933, -0.052672077), z, 0.1332073)
    small = fma(a * z, fma(q, z, -0.33332947), a)
    # 1 - 2 e / (1 + e) with e = exp(-2 a): what it needs is less than full precision
    t = fma(a, -2.8853900817779268, 12582912.0)
    y = fma(t - 12582912.0, 0.346573591, a)
    p = fma(fma(fma(y, -0.27070388, 0.67133707), y, -1.333245), y, 1.9999385)
    p = fma(fma(p, y, -2.0000002), y, 1.0000001)
    e = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t), 23))
    r = select(a < 0.55, small, fma(e / (1.0 + e), -2.0, 1.0))
    return bitcast(f32, bitcast(u32, r) | (bitcast(u32, x) & 0x80000000))


def asinh_f32(x):
    """The inverse of the hyperbolic sine."""
    a = f64(abs(x))
    y = log_f64(a + sqrt(fma(a, a, 1.0)))
    y = f32(select(a < 1e-3, fma(a * a * a, -0.16666666666666666, a), y))
    return bitcast(f32, bitcast(u32, y) | (bitcast(u32, x) & 0x80000000))


def acosh_f32(x):
    """The inverse of the hyperbolic cosine; NaN below 1."""
    y = f64(x)
    return f32(log_f64(y + sqrt(fma(y, y, -1.0))))


def atanh_f32(x):
    """The inverse of the hyperbolic tangent; NaN beyond 1."""
    a = f64(abs(x))
    y = 0.5 * log_f64((1.0 + a) / (1.0 - a))
    y = f32(select(a < 1e-3, fma(a * a * a, 0.3333333333333333, a), y))
    return bitcast(f32, bitcast(u32, y) | (bitcast(u32, x) & 0x80000000))


INF = float("inf")

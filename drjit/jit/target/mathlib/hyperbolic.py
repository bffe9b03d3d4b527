"""Hyperbolic functions and their inverses."""

from ..numpy.elementwise import abs, any_lane, bitcast, f32, f64, fma, i32, i64
from ..numpy.elementwise import maximum, minimum, select, shl, sqrt, u32, u64


def tanh_f32(x):
    """The hyperbolic tangent."""
    # u / (2 - u) with u = 1 - exp(-2 |x|) = (1 - 2^n) + 2^n (1 - exp(-2 y)): no cancellation
    a = minimum(9.2, abs(x))
    t = fma(a, -2.8853900817779268, 12582912.0)
    n = t - 12582912.0
    y = fma(n, -9.52327105e-10, fma(n, 0.346573591, a))
    p = fma(fma(y, -0.088585354, 0.26776695), y, -0.66668344)
    p = fma(fma(fma(p, y, 1.3333228), y, -1.9999999), y, 2.0) * y
    scale = bitcast(f32, shl(bitcast(i32, t), 23) + 0x3F800000)
    u = fma(scale, p, 1.0 - scale)
    r = u / (2.0 - u)
    return bitcast(f32, bitcast(u32, r) | (bitcast(u32, x) & 0x80000000))

"""Hyperbolic functions and their inverses."""

# pyright: reportUndefinedVariable=false


def _half_exponential_f32(x):
    """`e^x / 2` for `x >= 0`. The exponent bias is part of the rounding constant."""
    t, p = _exponential_f32(x, 12583037.0)
    return (p + p) * bitcast(f32, shl(bitcast(i32, t), 23))


def sinh_f32(x):
    """The hyperbolic sine."""
    a = minimum(90.0, abs(x))
    e = _half_exponential_f32(a)
    y = e - 0.25 / e
    z = a * a
    q = fma(fma(z, 0.00020373381, 0.008330271), z, 0.16666716)
    y = select(a < 1.0, fma(a * z, q, a), select(a > 89.415985, INF, y))
    return _with_sign_f32(y, x)


def cosh_f32(x):
    """The hyperbolic cosine."""
    a = minimum(90.0, abs(x))
    e = _half_exponential_f32(a)
    return select(a > 89.415985, INF, e + 0.25 / e)


def tanh_f32(x):
    """The hyperbolic tangent."""
    a = minimum(9.2, abs(x))
    z = a * a
    q = fma(fma(z, 0.016437933, -0.052672077), z, 0.1332073)
    small = fma(a * z, fma(q, z, -0.33332947), a)
    # 1 - 2 e / (1 + e) with e = exp(-2 a). The exponent bias is part of the rounding constant.
    t = fma(a, -2.8853900817779268, 12583039.0)
    y = fma(t - 12583039.0, 0.346573591, a)
    p = polynomial(y, TANH_f32)
    e = p * bitcast(f32, shl(bitcast(i32, t), 23))
    r = select(a < 0.55, small, fma(e / (1.0 + e), -2.0, 1.0))
    return _with_sign_f32(r, x)


def asinh_f32(x):
    """The inverse hyperbolic sine."""
    a = f64(abs(x))
    y = log_f64(a + sqrt(fma(a, a, 1.0)))
    y = f32(select(a < 1e-3, fma(a * a * a, -0.16666666666666666, a), y))
    return _with_sign_f32(y, x)


def acosh_f32(x):
    """The inverse hyperbolic cosine; NaN below 1."""
    y = f64(x)
    return f32(log_f64(y + sqrt(select(y < 1.0, NAN, fma(y, y, -1.0)))))


def atanh_f32(x):
    """The inverse hyperbolic tangent; NaN beyond 1."""
    a = f64(abs(x))
    y = 0.5 * log_f64((1.0 + a) / (1.0 - a))
    y = f32(select(a < 1e-3, fma(a * a * a, 0.3333333333333333, a), y))
    return _with_sign_f32(y, x)


def _half_exponential_f64(x):
    """`e^x / 2` for `x >= 0`. The exponent bias is part of the rounding constant."""
    t, p = _exponential_f64(x, 6755399441056765.0)
    return (p + p) * bitcast(f64, shl(bitcast(i64, t), 52))


def sinh_f64(x):
    """The hyperbolic sine."""
    a = minimum(711.0, abs(x))
    e = _half_exponential_f64(a)
    y = e - 0.25 / e
    z = a * a
    q = polynomial(z, SINH_f64)
    y = select(a < 1.0, fma(a * z, q, a), select(a > 710.4758600739439, INF, y))
    return _with_sign_f64(y, x)


def cosh_f64(x):
    """The hyperbolic cosine."""
    a = minimum(711.0, abs(x))
    e = _half_exponential_f64(a)
    return select(a > 710.4758600739439, INF, e + 0.25 / e)


def tanh_f64(x):
    """The hyperbolic tangent."""
    a = minimum(20.0, abs(x))
    z = a * a
    q = polynomial(z, TANH_f64)
    small = fma(a * z, q, a)
    # 1 - 2 e / (1 + e) with e = exp(-2 a)
    e = exp_f64(-2.0 * a)
    r = select(a < 0.55, small, fma(e / (1.0 + e), -2.0, 1.0))
    return _with_sign_f64(r, x)


def asinh_f64(x):
    """The inverse hyperbolic sine."""
    a = abs(x)
    # log(a + sqrt(a^2 + 1)) = log(1 + (a + a^2 / (1 + sqrt(a^2 + 1)))); log(2 a) if a is large
    large = a > 1e9
    z = select(large, 0.0, a * a)
    w = z / (1.0 + sqrt(z + 1.0))
    u = select(large, a - 1.0, a + w)
    y = log1p_sum_f64(u, select(large, 0.0, select(a > w, (a - u) + w, (w - u) + a)))
    y = select(large, y + 0.6931471805599453, y)
    return _with_sign_f64(y, x)


def acosh_f64(x):
    """The inverse hyperbolic cosine; NaN below 1."""
    large = x > 1e9
    # log(1 + (t + sqrt(2 t + t^2))) with t = x - 1; each step keeps its rounding error
    t = select(large, 1.0, x - 1.0)
    z = t * t
    v = fma(t, 2.0, z)
    v_low = fma(t, 2.0, -v) + z
    v_low = select(t < 2.0, v_low, (z - v) + 2.0 * t) + fma(t, t, -z)
    s = sqrt(v)
    s_low = select(v > 0.0, 0.5 * (fma(-s, s, v) + v_low) / s, 0.0)
    u = s + t
    y = log1p_sum_f64(select(large, x - 1.0, u), select(large, 0.0, ((s - u) + t) + s_low))
    y = select(large, y + 0.6931471805599453, y)
    return select(x < 1.0, NAN, y)


def atanh_f64(x):
    """The inverse hyperbolic tangent; NaN beyond 1."""
    a = abs(x)
    # log((1 + a) / (1 - a)) = log(1 + 2 a / (1 - a))
    d = 1.0 - a
    q = (a + a) / d
    low = (fma(-q, d, a + a) - q * ((1.0 - d) - a)) / d
    y = 0.5 * log1p_sum_f64(q, select(q < 1e16, low, 0.0))
    y = select(a > 1.0, NAN, y)
    return _with_sign_f64(y, x)


# fmt: off
# Coefficients of polynomials, highest power first
TANH_f32 = (0.0887268, -0.26787558, 0.6666862, -1.33332, 1.9999998, -2.0, 1.0)
SINH_f64 = (
    7.758747739782063e-13, 1.6057259832474184e-10, 2.5052123135453414e-08, 2.755731915708329e-06,
    0.00019841269841431824, 0.008333333333333148, 0.16666666666666669,
)
TANH_f64 = (
    -1.9493460121264428e-05, 8.331450698549617e-05, -0.00023338026268524527, 0.0005884440042414119,
    -0.0014555427392617187, 0.003592092016289005, -0.008863232600379686, 0.021869488385820323,
    -0.053968253963760794, 0.13333333333326625, -0.333333333333333,
)
# fmt: on

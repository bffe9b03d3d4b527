"""Functions on GPUs where `JitFlag.FastMath` allows the approximations of the machine: `ex2`, `rcp`
and its like are instructions of PTX, with the errors that the PTX ISA guarantees.

Functions of halves compute in single precision, far more precisely than a half needs, and are
rounded once. Where the guarantee is not enough for 2 ulp of single precision, there is no function
here, and the polynomials serve: `ex2` may be off by 2.5 ulp, by 4.5 where the result is just below
a power of two; `lg2` by 4 ulp where its result is near 1/2, and by more below; `sin` by 11 ulp.
"""

# pyright: reportUndefinedVariable=false


def approximate_tanh_f32(x):
    """The hyperbolic tangent."""
    a = abs(x)
    z = a * a
    small = fma(a * z, polynomial(z, TANH_NEAR_f32), a)
    # 1 - 2 / (1 + e^2a): the larger a, the less the errors of the exponential matter.
    r = fma(rcp_ftz(ex2_ftz(a * 2.8853900817779268) + 1.0), -2.0, 1.0)
    return _with_sign_f32(select(a < 1.15, small, r), x)


def _approximate_reciprocal_f32(x):
    """The reciprocal, which the caller corrects."""
    return rcp_ftz(x)


def approximate_half_exp_f32(x):
    """`e^x`."""
    return ex2_ftz(x * 1.4426950408889634)


def approximate_half_exp2_f32(x):
    """`2^x`."""
    return ex2_ftz(x)


def approximate_half_log_f32(x):
    """The natural logarithm."""
    return select(x == 1.0, 0.0, lg2_ftz(x) * 0.6931471805599453)


def approximate_half_log2_f32(x):
    """The logarithm to base 2."""
    return select(x == 1.0, 0.0, lg2_ftz(x))


def approximate_half_pow_f32(x, y):
    """`x^y`."""
    f = x - 1.0
    # An absolute error of the logarithm, times a large y, is too much near 1.
    near = f * polynomial(f, LOG2_NEAR_f32)
    p = ex2_ftz(y * select(abs(f) < 0.0625, near, lg2_ftz(x)))
    special = ~((x > 0.0) & (x < INF) & (abs(y) < INF))
    if any_lane(special):
        p = select(special, pow_f32(x, y), p)
    return p


def approximate_half_tanh_f32(x):
    """The hyperbolic tangent."""
    return tanh_approx(x)


def _half_sine_f32(x, n, sign):
    """The sine of `x - n pi` with a sign, where n may be an integer and a half."""
    r = fma(n, PI_B, fma(n, PI_A, x))
    # The error of the instruction is absolute.
    y = select(abs(r) < 0.015625, r, sin_ftz(r))
    return bitcast(f32, bitcast(u32, y) ^ shl(sign, 31))


def approximate_half_sin_f32(x):
    """The sine."""
    t = fma(x, 0.3183098861837907, 12582912.0)
    return _half_sine_f32(x, t - 12582912.0, bitcast(u32, t))


def approximate_half_cos_f32(x):
    """The cosine."""
    # -sin(x - pi/2)
    t = fma(x, 0.3183098861837907, -0.5) + 12582912.0
    return _half_sine_f32(x, (t - 12582912.0) + 0.5, ~bitcast(u32, t))


def approximate_half_sincos_f32(x):
    """Sine and cosine."""
    return approximate_half_sin_f32(x), approximate_half_cos_f32(x)


# fmt: off
# Coefficients of polynomials, highest power first
LOG2_NEAR_f32 = (-0.3618042469024658, 0.48202839493751526, -0.7213464975357056, 1.4426945447921753)
TANH_NEAR_f32 = (
    -0.00024418847169727087, 0.0018782509723678231, -0.007332663983106613, 0.021048927679657936,
    -0.05372197553515434, 0.13329733908176422, -0.33333152532577515,
)
# fmt: on

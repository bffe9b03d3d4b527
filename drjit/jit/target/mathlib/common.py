"""Functions and numbers used by several modules of the library."""

# pyright: reportUndefinedVariable=false


def polynomial(x, coefficients):
    """Evaluates a polynomial by Horner's rule, with the coefficient of the highest power first: a
    statement of the language, which compiled targets translate directly to multiply-adds.
    """
    first, second, *others = coefficients
    total = fma(x, first, second)
    for c in others:
        total = fma(total, x, c)
    return total


def _reciprocal_f32(x):
    """The reciprocal; where the error is corrected, an approximation serves as well."""
    return 1.0 / x


def _with_sign_f32(y, x):
    """`y >= 0` with the sign of x."""
    return bitcast(f32, bitcast(u32, y) | (bitcast(u32, x) & 0x80000000))


def _with_sign_f64(y, x):
    """`y >= 0` with the sign of x."""
    return bitcast(f64, bitcast(u64, y) | (bitcast(u64, x) & 0x8000000000000000))


INF = float("inf")
NAN = float("nan")

"""Conversions between element types: numeric conversion `T(x)` and reinterpretation `bitcast(T,
x)`.
"""

from .ir import BITS, FLOATS, MEMORY, SIGNED, Function

# Bits of precision: an integer bound is exact in a float if it has no more.
_PRECISION = {"f32": 24, "f64": 53}


def convert(f: Function, to: str, code: str, x: str) -> str:
    """`T(x)`: float to integer truncates and saturates, with NaN becoming 0; to mask is `x != 0`;
    mask to number is 0 or 1.
    """
    if to == code:
        return x
    target, source = f.vector[to], f.vector[code]
    if code == "f16":
        x, code = f.op(f"fpext {source} {x} to {f.vector['f32']}"), "f32"
        if to == "f32":
            return x
        source = f.vector["f32"]
    if to == "mask":
        zero = "zeroinitializer"
        return f.op(f"{'fcmp une' if code in FLOATS else 'icmp ne'} {source} {x}, {zero}")
    if code == "mask":
        if to in FLOATS:
            one, zero = f.constant(to, 1), "zeroinitializer"
            return f.op(f"select {source} {x}, {target} {one}, {target} {zero}")
        return f.op(f"zext {source} {x} to {target}")
    if to in FLOATS and code in FLOATS:
        if to == "f16" and code == "f64":
            x, source = _to_odd(f, x), f.vector["f32"]
        op = "fpext" if BITS[to] > BITS[code] else "fptrunc"
        return f.op(f"{op} {source} {x} to {target}")
    if to in FLOATS:
        op = "sitofp" if code in SIGNED else "uitofp"
        if to == "f16":
            # Integers in the range of f16 are exact in f32, so this rounds once.
            x = f.op(f"{op} {source} {x} to {f.vector['f32']}")
            return f.op(f"fptrunc {f.vector['f32']} {x} to {target}")
        return f.op(f"{op} {source} {x} to {target}")
    if code in FLOATS:
        return _to_integer(f, to, code, x)
    if BITS[to] == BITS[code]:
        return x
    op = "trunc" if BITS[to] < BITS[code] else "sext" if code in SIGNED else "zext"
    return f.op(f"{op} {source} {x} to {target}")


def _to_integer(f: Function, to: str, code: str, x: str) -> str:
    source, mask = f.vector[code], f.vector["mask"]
    signed, bits = to in SIGNED, BITS[to]
    low = -(1 << bits - 1) if signed else 0
    high = (1 << bits - 1) - 1 if signed else (1 << bits) - 1
    # 8- and 16-bit results are clamped to their own range and converted as 32-bit integers.
    wide = to if bits >= 32 else "i32"
    unordered = f.op(f"fcmp uno {source} {x}, zeroinitializer") if signed else None
    above = f.op(f"fcmp ogt {source} {x}, {f.constant(code, low)}")
    y = f.op(f"select {mask} {above}, {source} {x}, {source} {f.constant(code, low)}")
    exact = bits - signed <= _PRECISION[code]
    if exact:
        below = f.op(f"fcmp olt {source} {y}, {f.constant(code, high)}")
        y = f.op(f"select {mask} {below}, {source} {y}, {source} {f.constant(code, high)}")
    op = "fptosi" if wide in SIGNED else "fptoui"
    result = f.op(f"{op} {source} {y} to {f.vector[wide]}")
    if not exact:
        beyond = f.op(f"fcmp oge {source} {x}, {f.constant(code, high + 1)}")
        most, vector = f.constant(to, high), f.vector[to]
        result = f.op(f"select {mask} {beyond}, {vector} {most}, {vector} {result}")
    if wide != to:
        result = f.op(f"trunc {f.vector[wide]} {result} to {f.vector[to]}")
    if unordered:
        vector = f.vector[to]
        return f.op(f"select {mask} {unordered}, {vector} zeroinitializer, {vector} {result}")
    return result


def _to_odd(f: Function, x: str) -> str:
    """`f64` to `f32`, rounded to odd, so that rounding once more to `f16` gives the correctly
    rounded result.
    """
    double, single, word, mask = (f.vector[t] for t in ("f64", "f32", "u32", "mask"))
    near = f.op(f"fptrunc {double} {x} to {single}")
    back = f.op(f"fpext {single} {near} to {double}")
    inexact = f.op(f"fcmp one {double} {back}, {x}")
    suffix = f.types.suffix["f64"]
    size, back_size = (f.op(f"call {double} @llvm.fabs.{suffix}({double} {v})") for v in (x, back))
    away = f.op(f"fcmp ogt {double} {back_size}, {size}")
    bits = f.op(f"bitcast {single} {near} to {word}")
    step = f.op(f"sext {mask} {away} to {word}")
    odd = f.op(f"or {word} {f.op(f'add {word} {bits}, {step}')}, splat (i32 1)")
    odd = f.op(f"select {mask} {inexact}, {word} {odd}, {word} {bits}")
    return f.op(f"bitcast {word} {odd} to {single}")


def reinterpret(f: Function, to: str, code: str, x: str) -> str:
    """Reinterprets the bits as another type of the same size."""
    if f.vector[to] == f.vector[code]:
        return x
    return f.op(f"bitcast {f.vector[code]} {x} to {f.vector[to]}")


def to_memory(f: Function, code: str, x: str) -> str:
    """Converts a vector to its representation in memory."""
    if code != "mask":
        return x
    return f.op(f"zext {f.vector['mask']} {x} to {f.types.memory['mask']}")


def from_memory(f: Function, code: str, x: str) -> str:
    """Converts a vector from its representation in memory."""
    if code != "mask":
        return x
    return f.op(f"icmp ne <{f.lanes} x {MEMORY['mask']}> {x}, zeroinitializer")

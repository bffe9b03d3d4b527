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
        if to == "f32" and code == "u64" and _lacks_64_bit_conversions(f):
            # To f64 without rounding, so that the second step rounds once.
            x = f.op(f"uitofp {source} {_wide_to_odd(f, x)} to {f.vector['f64']}")
            return f.op(f"fptrunc {f.vector['f64']} {x} to {target}")
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
    if bits == 64 and _lacks_64_bit_conversions(f):
        result = _by_halves(f, code, y)
    else:
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


def _lacks_64_bit_conversions(f: Function) -> bool:
    """Returns whether LLVM would convert between floats and 64-bit integers lane by lane: AVX2 has
    no instructions for that."""
    return f.machine.register_bytes == 32 and f.lanes > 1


def _by_halves(f: Function, code: str, x: str) -> str:
    """Converts floats in the range of 64-bit integers: floats of 2**52 and above have integers as
    their lowest bits, which are those of the upper and of the lower half of the result."""
    double, word, suffix = f.vector["f64"], f.vector["u64"], f.types.suffix["f64"]
    if code == "f32":
        x = f.op(f"fpext {f.vector['f32']} {x} to {double}")
    unit, half = f.constant("f64", 1.5 * 2**52), f.constant("u64", 32)
    x = f.op(f"call {double} @llvm.trunc.{suffix}({double} {x})")
    upper = f.op(f"fmul {double} {x}, {f.constant('f64', 2.0**-32)}")
    upper = f.op(f"call {double} @llvm.floor.{suffix}({double} {upper})")
    scale = f.constant("f64", -(2.0**32))
    operands = f"{double} {upper}, {double} {scale}, {double} {x}"
    lower = f.op(f"call {double} @llvm.fma.{suffix}({operands})")
    parts = []
    for part in (upper, lower):
        shifted = f.op(f"fadd {double} {part}, {unit}")
        parts.append(f.op(f"bitcast {double} {shifted} to {word}"))
    upper = f.op(f"shl {word} {parts[0]}, {half}")
    lower = f.op(f"and {word} {parts[1]}, {f.constant('u64', 0xFFFFFFFF)}")
    return f.op(f"or {word} {upper}, {lower}")


def _wide_to_odd(f: Function, x: str) -> str:
    """Rounds 64-bit integers of more than 53 bits to odd multiples of 2**11 unless they are
    multiples of it, which f64 represents."""
    word = f.vector["u64"]
    large = f.op(f"icmp ugt {word} {x}, {f.constant('u64', (1 << 53) - 1)}")
    return f.select("u64", large, _sticky(f, x, 11), x)


def _sticky(f: Function, x: str, bits: int) -> str:
    """Clears the lowest bits of 64-bit words; the one above becomes 1 if any of them was."""
    word, mask = f.vector["u64"], (1 << bits) - 1
    low = f.op(f"and {word} {x}, {f.constant('u64', mask)}")
    carry = f.op(f"add {word} {low}, {f.constant('u64', mask)}")
    either = f.op(f"or {word} {x}, {carry}")
    return f.op(f"and {word} {either}, {f.constant('u64', ~mask & (1 << 64) - 1)}")


def _to_odd(f: Function, x: str) -> str:
    """`f64` to `f32`, rounded to odd, so that rounding once more to `f16` gives the correctly
    rounded result. Where `f32` has fewer than its 24 bits, `f16` is zero or infinite.
    """
    double, word = f.vector["f64"], f.vector["u64"]
    bits = _sticky(f, f.op(f"bitcast {double} {x} to {word}"), 29)
    odd = f.op(f"bitcast {word} {bits} to {double}")
    return f.op(f"fptrunc {double} {odd} to {f.vector['f32']}")


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


def first_element(f: Function, code: str, x: str) -> str:
    """Returns the element of the first lane in its representation in memory."""
    return f.op(f"extractelement {f.types.memory[code]} {to_memory(f, code, x)}, i32 0")


def from_memory(f: Function, code: str, x: str) -> str:
    """Converts a vector from its representation in memory."""
    if code != "mask":
        return x
    return f.op(f"icmp ne <{f.lanes} x {MEMORY['mask']}> {x}, zeroinitializer")

"""Operations on two features at a time, as the registers of a vector hold them.

A pair of halves is one register of the GPU, which has instructions for both at once. A feature that
is a mask has 16 bits, which are all equal: so a pair of masks selects among pairs of halves by
logical operations.
"""

from collections.abc import Callable

from ..simd import elementwise
from ..simd.conversion import convert
from ..simd.ir import BITS, BYTES, SCALAR, constant
from .function import GpuFunction

ELEMENT = SCALAR | {"mask": "i16"}
SIZE = BYTES | {"mask": 2}

# Comparisons of pairs of halves that return 16 bits each; `neu` is true for NaN.
_SETS = {"eq": "eq", "ne": "neu", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}

_EXTREMA = {"minimum": "lt", "maximum": "gt"}


def kind(code: str) -> str:
    """Returns the type of a register."""
    return f"<2 x {ELEMENT[code]}>"


def bits_of(f: GpuFunction, m: str) -> str:
    """Returns a pair of masks as `i1`."""
    return m if m.startswith("splat (i1") else f.op(f"icmp ne <2 x i16> {m}, zeroinitializer")


def of_bits(f: GpuFunction, m: str) -> str:
    """Returns a pair of masks for two `i1`."""
    return f.op(f"sext <2 x i1> {m} to <2 x i16>")


def number(code: str, x: float) -> str:
    """Returns a number as both features."""
    if code == "mask":
        return f"splat (i16 {-bool(x)})"
    return f"splat ({SCALAR[code]} {constant(code, x)})"


def row(name: str, code: str, contract: bool) -> tuple[str, Callable[..., str]]:
    """Returns the type of an operation's result and its emitter."""
    result, emit = elementwise.row(name, code, 2, contract)
    if code == "mask":
        code, emit = "u16", elementwise.row(name, "u16", 2, contract).emit
    elif code == "f16" and name in _SETS:
        return result, lambda f, x, y: _set(f, _SETS[name], x, y)
    elif code == "f16" and name in _EXTREMA:
        relation = _EXTREMA[name]
        return result, lambda f, x, y: select(f, code, _set(f, relation, x, y), x, y)

    def one(f: GpuFunction, *operands: str) -> str:
        with f.pairs():
            x = emit(f, code, *operands)
            return of_bits(f, x) if name in _SETS else x

    return result, one


def _set(f: GpuFunction, relation: str, x: str, y: str) -> str:
    word = f.op(
        f'call i32 asm "set.{relation}.u32.f16x2 $0, $1, $2;", "=r,r,r"'
        f"(<2 x half> {x}, <2 x half> {y})"
    )
    return f.op(f"bitcast i32 {word} to <2 x i16>")


def select(f: GpuFunction, code: str, m: str, x: str, y: str) -> str:
    """Returns `x` where the masks are true, and `y` elsewhere."""
    of = kind(code)
    if SIZE[code] != 2:
        return f.op(f"select <2 x i1> {bits_of(f, m)}, {of} {x}, {of} {y}")
    m, x = as_word(f, "mask", m), as_word(f, code, x)
    chosen = f.op(f"and i32 {x}, {m}")
    if y != "zeroinitializer":
        y = as_word(f, code, y)
        other = f.op(f"and i32 {y}, {f.op(f'xor i32 {m}, -1')}")
        chosen = f.op(f"or i32 {chosen}, {other}")
    return of_word(f, code, chosen)


def as_word(f: GpuFunction, code: str, x: str) -> str:
    """Returns a pair of elements with 16 bits as an `i32`."""
    return f.op(f"bitcast {kind(code)} {x} to i32")


def of_word(f: GpuFunction, code: str, x: str) -> str:
    """Returns the pair of elements with 16 bits in an `i32`."""
    return f.op(f"bitcast i32 {x} to {kind(code)}")


def disguised(f: GpuFunction, code: str, x: str) -> str:
    """Returns a pair of elements as one that no compiler takes for it: they do not know that the
    address of the error record is even."""
    odd = f.once("%odd.64", f"and i64 {f.word(0)}, 1")
    odd = f.once("%odd", f"trunc i64 {odd} to i32")
    number, changed = words(code), "poison"
    whole = to_words(f, code, x)
    for k in range(number):
        one = f.op(f"extractelement <{number} x i32> {whole}, i32 {k}")
        one = f.op(f'call i32 asm "xor.b32 $0, $1, $2;", "=r,r,r"(i32 {one}, i32 {odd})')
        changed = f.op(f"insertelement <{number} x i32> {changed}, i32 {one}, i32 {k}")
    return from_words(f, code, changed)


def converted(f: GpuFunction, to: str, code: str, x: str) -> str:
    """Returns `T(x)`."""
    if code == "mask":
        x = bits_of(f, x)
    with f.pairs():
        x = convert(f, to, code, x)
    return of_bits(f, x) if to == "mask" else x


def twice(f: GpuFunction, code: str, x: str) -> str:
    """Returns a scalar, a packet of one, as both features; computed where the scalar is."""
    if x == "zeroinitializer" or x.startswith("splat ("):
        return x if code != "mask" else f"splat (i16 {'-1' if 'true' in x else '0'})"
    both = "<2 x i32> zeroinitializer"
    if x in f.head:
        if code == "mask":
            x = f.once(f"{x}.wide", f"sext <1 x i1> {x} to <1 x i16>")
        kind = f"<1 x {ELEMENT[code]}>"
        return f.once(f"{x}.twice", f"shufflevector {kind} {x}, {kind} poison, {both}")
    if code == "mask":
        x = f.op(f"sext <1 x i1> {x} to <1 x i16>")
    kind = f"<1 x {ELEMENT[code]}>"
    return f.op(f"shufflevector {kind} {x}, {kind} poison, {both}")


def pair(f: GpuFunction, code: str, x: str, y: str) -> str:
    """Returns two scalars, packets of one, as neighbouring features."""
    if code == "mask":
        x, y = [f.op(f"sext <1 x i1> {v} to <1 x i16>") for v in (x, y)]
    one = f"<1 x {ELEMENT[code]}>"
    return f.op(f"shufflevector {one} {x}, {one} {y}, <2 x i32> <i32 0, i32 1>")


def part(f: GpuFunction, code: str, x: str, k: int) -> str:
    """Returns the first or second feature, as a packet of one."""
    of = kind(code)
    x = f.op(f"shufflevector {of} {x}, {of} poison, <1 x i32> <i32 {k}>")
    return f.op(f"icmp ne <1 x i16> {x}, zeroinitializer") if code == "mask" else x


def replaced(f: GpuFunction, code: str, x: str, k: int, y: str) -> str:
    """Returns a pair with another first or second feature, given as a packet of one."""
    if code == "mask":
        y = f.op(f"sext <1 x i1> {y} to <1 x i16>")
    one = f.op(f"extractelement <1 x {ELEMENT[code]}> {y}, i32 0")
    return f.op(f"insertelement {kind(code)} {x}, {ELEMENT[code]} {one}, i32 {k}")


def words(code: str) -> int:
    """Returns the number of 32-bit words in which a pair is kept in shared memory."""
    return max(2 * SIZE[code], 4) // 4


def to_words(f: GpuFunction, code: str, x: str) -> str:
    """Returns a pair as `<n x i32>`, its contents in shared memory."""
    n = words(code)
    if BITS[code] == 8:
        return f.op(f"bitcast <2 x i16> {f.op(f'zext <2 x i8> {x} to <2 x i16>')} to <1 x i32>")
    return f.op(f"bitcast {kind(code)} {x} to <{n} x i32>")


def from_words(f: GpuFunction, code: str, x: str) -> str:
    """Returns the pair that `<n x i32>` is the contents of."""
    n = words(code)
    if BITS[code] == 8:
        return f.op(f"trunc <2 x i16> {f.op(f'bitcast <1 x i32> {x} to <2 x i16>')} to <2 x i8>")
    return f.op(f"bitcast <{n} x i32> {x} to {kind(code)}")

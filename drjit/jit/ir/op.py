"""The op table: the single declaration of every operation of a traced program.

A row states every fact about an operation: operands, types, cost, notation in kernel text and in
Python, effect on memory. Targets and differentiation add one rule per operation, and nothing else.
"""

import builtins
import enum
import operator
from collections.abc import Callable
from functools import cache
from math import inf, nan
from typing import Any

from ..enumeration import Named
from .dtype import DType


class ReduceOp(Named, enum.Enum):
    """The operation of a reduction or scatter-reduction."""

    __hash__ = object.__hash__  # that of enumerations takes a call of a Python function
    Identity = 0
    Add = 1
    Mul = 2
    Min = 3
    Max = 4
    And = 5
    Or = 6


class ReduceMode(Named, enum.Enum):
    """How a scatter-reduction, or the adjoint of a gather, is carried out."""

    Auto = 0
    Direct = 1
    Local = 2
    NoConflicts = 3
    Expand = 4
    Permute = 5


class Op:
    """A row of the table.

    `result` is `same` (the type of the first operand), `mask`, `second` (the type of the second
    operand) or `static` (stated where the node is made). `domain` lists the kinds that the first
    operand may have: `b`ool, `i`nteger, `f`loat. `cost` estimates the operation's cost in
    elementary instructions; it guides the choice of variant and block size.

    `kind` and `text` define the notation in kernel text: a `prefix` or `infix` operator, a `call`,
    or a special form named after the operation. Conversions and operations of the first three kinds
    are `elementwise`.

    The remaining fields apply to some operations only. For element-wise operations:

    - `method` and `symbol`: the Python operator (`__add__`) and its notation;
    - `library`: the module of `mathlib` that defines it as kernel text;
    - `fused`: NumPy has to emulate fused multiply-adds for it, as for library functions;
    - `exact`: the `f32` result for `f16` operands needs no rounding;
    - `in_code`: a constant count or divisor becomes part of the code, which is then much shorter;
      the node then has a single operand and stores the number as its data;
    - `reduction` and `start`: the name of the corresponding reduction, and its result for an empty
      array if that is not the neutral number;
    - `linear`: the operands' gradients equal the result's, up to sign;
    - `guarded`, `masks`, `symmetric`: see `Rule` in the derivatives;
    - the algebraic identities in the second table below.

    For other operations:

    - `effect`: it writes to memory; with `returns_old` it returns what was there before, with
      `accumulates` the order of updates is free;
    - `block`: it has bodies;
    - `reads`: the operands that are read as memory, as a slice;
    - `words`: the operands that appear in the text as words of the parameter block;
    - `several`: it has several results; its data is their number, or lists them as `returned`;
    - `whole`: it consumes whole vectors;
    - `waits`: it may have to wait for other operations, or they for it.

    `code` is for native code: the position in the table, and what `structure` adds to it, in whose
    keys an operation is a `word`.
    """

    __slots__ = ("__dict__", "__weakref__", "code")

    code: int
    word: int

    def __init__(
        self, name: str, arity: str, result: str, domain: str, form: str, cost: str, *facts: str
    ) -> None:
        self.name, self.arity, self.result, self.domain = name, int(arity), result, domain
        self.cost = int(cost)
        self.kind, self.text = form, name
        if form == "own":
            self.kind = name
        elif form != "call":
            self.kind, self.text = ("prefix", "infix")[self.arity - 1], form
        self.elementwise = self.kind in ("prefix", "infix", "call", "cast", "bitcast")
        fields: dict[str, str] = {}
        for fact in facts:
            word, _, fields[word] = fact.partition("=")
        has, get = fields.__contains__, fields.get
        self.method, self.symbol = get("method", ""), get("symbol", self.text)
        self.library, self.fused = get("library", ""), has("fused") or has("library")
        self.neutral, self.absorbing = _number(get("neutral")), _number(get("absorbing"))
        self.commutative, self.idempotent = has("commutative"), has("idempotent")
        self.involution = has("involution")
        self.exact, self.in_code = has("exact"), has("in_code")
        self.reduction = get("reduction", "")
        self.start = _number(get("start", get("neutral")))
        self.linear, self.symmetric = has("linear"), has("symmetric")
        self.guarded, self.masks = has("guarded"), has("masks")
        self.effect, self.accumulates = has("effect"), has("accumulates")
        self.returns_old = has("returns_old")
        self.block, self.several, self.whole = has("block"), has("several"), has("whole")
        reads = get("reads")
        self.reads = slice(*[int(k) if k else None for k in reads.split(":")]) if reads else None
        self.words = tuple([int(n) for n in get("words", "").split(",") if n])
        self.waits = has("waits") or self.effect or self.reads is not None

    def accepts(self, dtype: DType) -> bool:
        """Returns whether the operation is defined for an element type."""
        return self.result == "second" or dtype.kind in self.domain

    @property
    def python(self) -> Callable[..., Any]:
        """Returns the function that computes it on Python numbers, if Python has such an operator
        or reduction."""
        if self.method:
            return getattr(operator, f"__{self.method}__")
        return getattr(builtins, self.reduction)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return (TABLE.__getitem__, (self.name,))


def _number(text: str | None) -> Any:
    if text is None:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)


# Name, operands, result, domain, form, cost, further fields.
_ROWS = """
neg                   1 same   if   -      1  method=neg exact linear
not_                  1 same   bi   ~      1  method=invert
add                   2 same   if   +      1  method=add linear reduction=add start=0
sub                   2 same   if   -      1  method=sub linear
mul                   2 same   if   *      1  method=mul symmetric reduction=mul
div                   2 same   f    /      4  method=truediv guarded
and_                  2 same   bi   &      1  method=and reduction=and
or_                   2 same   bi   |      1  method=or reduction=or
xor                   2 same   bi   ^      1  method=xor
eq                    2 mask   bif  ==     1  method=eq
ne                    2 mask   bif  !=     1  method=ne
lt                    2 mask   if   <      1  method=lt
le                    2 mask   if   <=     1  method=le
gt                    2 mask   if   >      1  method=gt
ge                    2 mask   if   >=     1  method=ge
shl                   2 same   i    call   2  method=lshift symbol=<< in_code
shr                   2 same   i    call   2  method=rshift symbol=>> in_code
quotient              2 same   i    call   8  method=floordiv symbol=// in_code
remainder             2 same   i    call   8  method=mod symbol=% in_code
mul_hi                2 same   i    call   2
minimum               2 same   if   call   1  exact masks reduction=min start=inf
maximum               2 same   if   call   1  exact masks reduction=max start=-inf
fma                   3 same   f    call   1  fused symmetric
select                3 second b    call   1  masks
abs                   1 same   if   call   1  method=abs exact masks
sqrt                  1 same   f    call   4  guarded
floor                 1 same   f    call   1  exact
ceil                  1 same   f    call   1  exact
trunc                 1 same   f    call   1  exact
round                 1 same   f    call   1  exact
popcnt                1 same   i    call   1
lzcnt                 1 same   i    call   1
tzcnt                 1 same   i    call   1
brev                  1 same   i    call   4
sin                   1 same   f    call  16  library=trig
cos                   1 same   f    call  16  library=trig
tan                   1 same   f    call  24  library=trig guarded
asin                  1 same   f    call  20  library=inverse_trig guarded
acos                  1 same   f    call  20  library=inverse_trig guarded
atan                  1 same   f    call  20  library=inverse_trig
atan2                 2 same   f    call  24  library=inverse_trig guarded
sinh                  1 same   f    call  24  library=hyperbolic
cosh                  1 same   f    call  24  library=hyperbolic
tanh                  1 same   f    call  24  library=hyperbolic
asinh                 1 same   f    call  32  library=hyperbolic
acosh                 1 same   f    call  32  library=hyperbolic guarded
atanh                 1 same   f    call  24  library=hyperbolic guarded
exp                   1 same   f    call  14  library=exponential
exp2                  1 same   f    call  12  library=exponential
expm1                 1 same   f    call  16  library=exponential
log                   1 same   f    call  18  library=exponential guarded
log2                  1 same   f    call  18  library=exponential guarded
log1p                 1 same   f    call  22  library=exponential guarded
cbrt                  1 same   f    call  20  library=exponential guarded
erf                   1 same   f    call  24  library=special
erfinv                1 same   f    call  32  library=special guarded
lgamma                1 same   f    call  60  library=special guarded
pow                   2 same   f    call  36  library=exponential guarded
cast                  1 static bif  own    1
bitcast               1 static bif  own    0
copy                  1 same   bif  own    1  linear
literal               0 static -    own    0
buffer                0 static -    own    1
lane                  0 static -    own    1
active                0 static -    own    1
in_bounds             2 mask   i    own    2
gather                3 static -    own    8  reads=:1 words=0
packet                3 static -    own   16  reads=:1 words=0 several
weighted              4 static f    own   48  reads=:1 words=0 several fused
foreign               1 static bif  own   64  several
component             1 same   bif  own    0  waits
scatter               3 static -    own   16  effect
scatter_packet        3 static -    own   16  effect
scatter_reduce        3 static -    own   32  effect accumulates
scatter_reduce_packet 3 static -    own   32  effect accumulates
scatter_inc           2 static -    own   32  effect returns_old
scatter_exch          3 static -    own   32  effect returns_old
scatter_cas           4 static -    own   32  effect returns_old
vector                1 static bif  own    1
splat                 1 static bif  own    0
feature               1 static bif  own    0
total                 1 static f    own    1  whole
take                  3 static bif  own    8  whole
put                   4 static bif  own    8  whole
matvec                3 static f    own    1  reads=:4:3 words=0,1,3,4 whole
outer                 3 static f    own    1  effect accumulates words=0 whole
accumulate            2 static f    own    1  effect accumulates words=0 whole
reduce                1 static -    own    2  waits
after                 1 static -    own    0  waits
state                 0 static -    own    0
loop                  0 static -    own    0  block waits
branch                0 static -    own    0  block
result                1 static -    own    0  waits
"""

# The algebraic identities by which operations are simplified. Each holds for all values, which is
# why many are missing: x*0 and x-x may be NaN, and x+0 turns -0 into 0.
#
# - `neutral`: the number that, as the second operand, leaves the first one unchanged;
# - `absorbing`: the number that, as the second operand, is the result; floats have none;
# - `commutative`: so does either number as the first operand;
# - `idempotent`: if both operands, or values of a select, are the same, they are the result;
# - `involution`: the operation is its own inverse.
_IDENTITIES = """
neg       involution
not_      involution
add       neutral=-0.0 commutative
sub       neutral=0
mul       neutral=1 absorbing=0 commutative
div       neutral=1
and_      neutral=-1 absorbing=0 commutative idempotent
or_       neutral=0 absorbing=-1 commutative idempotent
xor       neutral=0 commutative
shl       neutral=0
shr       neutral=0
quotient  neutral=1
select    idempotent
"""

_identities = {row.split()[0]: row.split()[1:] for row in _IDENTITIES.strip().splitlines()}
TABLE: dict[str, Op] = {}
for _row in _ROWS.strip().splitlines():
    _name, *_facts = _row.split()
    TABLE[_name] = Op(_name, *_facts, *_identities.get(_name, ()))
globals().update(TABLE)  # op.add is TABLE["add"]

_OPERATORS = [o for o in TABLE.values() if o.method]
COMPARISONS = tuple([o for o in _OPERATORS if o.result == "mask"])
ARITHMETIC = tuple([o for o in _OPERATORS if o.arity == 2 and o.result == "same"])
UNARY = tuple([o for o in _OPERATORS if o.arity == 1])
REDUCTIONS = {o.reduction: o for o in TABLE.values() if o.reduction}


def _as_number(value: Any, dtype: DType) -> Any:
    """Returns a number of the tables as a value of the type; -1 has all bits set."""
    if dtype.is_mask:
        return bool(value)
    if dtype.is_float:
        return value
    if value in (inf, -inf):
        return dtype.high if value == inf else dtype.low
    return int(value) if dtype.is_signed else int(value) % (dtype.high + 1)


@cache
def special_numbers(op_: Op, dtype: DType) -> tuple[Any, Any]:
    """Returns the neutral and the absorbing number of an operation on a type; None for none."""
    neutral, absorbing = op_.neutral, None if dtype.is_float else op_.absorbing
    return (
        None if neutral is None else _as_number(neutral, dtype),
        None if absorbing is None else _as_number(absorbing, dtype),
    )


def starting_value(reduction: str, dtype: DType) -> float:
    """Returns the reduction of an empty array, as a value of the type."""
    return _as_number(REDUCTIONS[reduction].start, dtype)


def neutral(reduction: str, dtype: DType) -> float:
    """Returns the value that leaves any number unchanged when combined with it; for sums of floats
    that is -0.0."""
    o = REDUCTIONS[reduction]
    return _as_number(o.start if o.neutral is None else o.neutral, dtype)


def ignored(reduction: str, dtype: DType) -> float:
    """Returns the value that leaves any element of memory, even NaN, unchanged when combined into
    it."""
    return nan if reduction in ("min", "max") and dtype.is_float else neutral(reduction, dtype)


def __getattr__(name: str) -> Op:
    raise AttributeError(f"there is no operation named {name!r}")

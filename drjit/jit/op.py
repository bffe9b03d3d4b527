"""The op table: the single declaration of every operation of a traced program.

A row says how many operands an op takes, which element types it accepts, what type it gives, and
how it reads in kernel text. The targets (NumPy, SIMD, CUDA) and differentiation hold one dict each
with the same keys.
"""

import enum

from .named import Named


class ReduceOp(Named, enum.Enum):
    """Operation of a reduction or of a scatter-reduction."""

    Identity = 0
    Add = 1
    Mul = 2
    Min = 3
    Max = 4
    And = 5
    Or = 6


class ReduceMode(Named, enum.Enum):
    """How a scatter-reduction or a gather's adjoint is carried out."""

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
    operand may have: `b`ool, `i`nteger, `f`loat. `text` is the infix symbol or function name.
    `cost` estimates the operation's price in elementary instructions, for the choice of the tier
    and of the block size. A `plain` one computes each lane from the same lane of its operands.
    """

    __slots__ = ("arity", "cost", "domain", "kind", "name", "plain", "result", "text")

    def __init__(self, name, arity, result, domain, text, cost, kind):
        self.name, self.arity, self.result, self.domain = name, arity, result, domain
        self.text, self.cost, self.kind = text, cost, kind
        self.plain = kind in ("prefix", "infix", "call", "cast", "bitcast")

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return (TABLE.__getitem__, (self.name,))


# kind: how the op reads in kernel text. 'prefix' and 'infix' operators, 'call', and the special
# forms that source.py knows.
_ROWS = """
neg         1 same   if   -           1  prefix
not_        1 same   bi   ~           1  prefix
add         2 same   if   +           1  infix
sub         2 same   if   -           1  infix
mul         2 same   if   *           1  infix
div         2 same   f    /           4  infix
and_        2 same   bi   &           1  infix
or_         2 same   bi   |           1  infix
xor         2 same   bi   ^           1  infix
eq          2 mask   bif  ==          1  infix
ne          2 mask   bif  !=          1  infix
lt          2 mask   if   <           1  infix
le          2 mask   if   <=          1  infix
gt          2 mask   if   >           1  infix
ge          2 mask   if   >=          1  infix
shl         2 same   i    shl         2  call
shr         2 same   i    shr         2  call
quotient    2 same   i    quotient    8  call
remainder   2 same   i    remainder   8  call
mul_hi      2 same   i    mul_hi      2  call
minimum     2 same   if   minimum     1  call
maximum     2 same   if   maximum     1  call
fma         3 same   f    fma         1  call
select      3 second b    select      1  call
abs         1 same   if   abs         1  call
sqrt        1 same   f    sqrt        4  call
floor       1 same   f    floor       1  call
ceil        1 same   f    ceil        1  call
trunc       1 same   f    trunc       1  call
round       1 same   f    round       1  call
popcnt      1 same   i    popcnt      1  call
lzcnt       1 same   i    lzcnt       1  call
tzcnt       1 same   i    tzcnt       1  call
brev        1 same   i    brev        4  call
sin         1 same   f    sin        16  call
cos         1 same   f    cos        16  call
tan         1 same   f    tan        24  call
asin        1 same   f    asin       20  call
acos        1 same   f    acos       20  call
atan        1 same   f    atan       20  call
atan2       2 same   f    atan2      24  call
sinh        1 same   f    sinh       24  call
cosh        1 same   f    cosh       24  call
tanh        1 same   f    tanh       24  call
asinh       1 same   f    asinh      32  call
acosh       1 same   f    acosh      32  call
atanh       1 same   f    atanh      24  call
exp         1 same   f    exp        14  call
exp2        1 same   f    exp2       12  call
log         1 same   f    log        18  call
log2        1 same   f    log2       18  call
cbrt        1 same   f    cbrt       20  call
erf         1 same   f    erf        24  call
erfinv      1 same   f    erfinv     32  call
lgamma      1 same   f    lgamma     60  call
pow         2 same   f    pow        36  call
cast        1 static bif  cast        1  cast
bitcast     1 static bif  bitcast     0  bitcast
copy        1 same   bif  copy        1  copy
literal     0 static -    literal     0  literal
buffer      0 static -    load        1  load
lane        0 static -    lane        1  lane
active      0 static -    active      1  active
in_bounds   2 mask   i    in_bounds   2  in_bounds
gather      3 static -    gather      8  gather
packet      3 static -    packet     16  packet
weighted    4 static f    packet     48  weighted
component   1 same   bif  component   0  component
scatter     3 static -    scatter    16  scatter
scatter_packet 3 static - scatter    16  scatter_packet
scatter_reduce 3 static - scatter    32  scatter_reduce
scatter_reduce_packet 3 static - scatter 32 scatter_reduce_packet
scatter_inc 2 static -    scatter    32  scatter_inc
scatter_exch 3 static -   scatter    32  scatter_exch
scatter_cas 4 static -    scatter    32  scatter_cas
vector      1 static bif  vector      1  vector
splat       1 static bif  splat       0  splat
feature     1 static bif  feature     0  feature
total       1 static f    total       1  total
take        3 static bif  take        8  take
put         4 static bif  put         8  put
matvec      3 static f    matvec      1  matvec
outer       3 static f    scatter     1  outer
accumulate  2 static f    scatter     1  accumulate
reduce      1 static -    reduce      2  reduce
after       1 static -    after       0  after
state       0 static -    state       0  state
loop        0 static -    loop        0  loop
branch      0 static -    branch      0  branch
result      1 static -    result      0  result
"""

TABLE: dict[str, Op] = {}
for _row in _ROWS.strip().splitlines():
    _name, _arity, _result, _domain, _text, _cost, _kind = _row.split()
    TABLE[_name] = Op(_name, int(_arity), _result, _domain, _text, int(_cost), _kind)

ELEMENTWISE = tuple(name for name, row in TABLE.items() if row.plain)

# What NumPy computes by emulating fused multiply-adds: these, and the functions of the library.
FUSED = frozenset((
    "fma", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "exp", "exp2", "log", "log2", "cbrt", "erf", "erfinv", "lgamma", "pow",
    "weighted",
))  # fmt: skip

globals().update(TABLE)  # op.add is TABLE["add"]


def __getattr__(name: str) -> Op:
    raise AttributeError(f"there is no operation named {name!r}")

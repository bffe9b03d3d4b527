"""Reductions of runs of consecutive elements, one run per lane."""

from collections.abc import Sequence

from ...tuples import NamedTuple
from .arguments import statement
from .atomic import combine
from .compensated_sum import SHORT, add_long, is_long
from .conversion import convert
from .ir import BYTES, MEMORY, Function, Operand
from .loops import address, choose, each_lane, least, loop
from .memory import element_address, safe_index
from .reduction import accumulator, horizontal, neutral_number, without_nan
from .translate import Translator


@statement("type reduction pointer index index mask")
def block_reduce(
    t: Translator, code: str, op: str, base: str, index: Operand, length: Operand, mask: str
) -> Operand:
    """`block_reduce(T, 'add', p[k], x, n, m)`: runs of up to a vector are processed together,
    longer ones one after the other.
    """
    f = t.f
    count = f.op(f"extractelement {f.vector[length[0]]} {length[1]}, i32 0")
    if length[0] == "u32":
        count = f.op(f"zext i32 {count} to i64")
    # A mask is processed as the byte that represents it in memory.
    element = "u8" if code == "mask" else code
    runs = _Runs(f, op, element, accumulator(element), base, index, count, mask)
    vector = [f.vector[runs.acc]]

    def longer() -> Sequence[str]:
        if not is_long(op, runs.acc):
            return [_long_runs(runs)]
        few = f.op(f"icmp ule i64 {count}, {SHORT * f.lanes}")
        both = [lambda c=c: [_long_runs(runs, compensates=c)] for c in (False, True)]
        return choose(f, few, *both, kinds=vector)

    fits = f.op(f"icmp ule i64 {count}, {f.lanes}")
    (result,) = choose(f, fits, lambda: [_short_runs(runs)], longer, vector)
    return code, convert(f, code, runs.acc, f.select(runs.acc, mask, result))


class _Runs(NamedTuple):
    """Runs of equal length: the reduction, the types of elements and accumulators, where each
    lane's run begins, and the lanes that have one.
    """

    f: Function
    op: str
    code: str
    acc: str
    base: str
    index: Operand
    count: str
    mask: str

    def neutral(self) -> str:
        return self.f.constant(self.acc, neutral_number(self.op, self.acc))

    def inside(self, count: str) -> str:
        """Returns the lanes of a vector whose number is below a count."""
        f = self.f
        few = f.splat("u32", f.op(f"trunc i64 {count} to i32"))
        return f.op(f"icmp ult {f.vector['u32']} <{f.types.iota}>, {few}")

    def part(self, place: str, inside: str = "") -> str:
        """Returns the elements of a vector, with the neutral number in place of those that are not
        inside the run.

        Every buffer may be read for a whole packet beyond its end.
        """
        f = self.f
        x = f.op(f"load {f.vector[self.code]}, ptr {place}, align {BYTES[self.code]}")
        x = convert(f, self.acc, self.code, x)
        return f.select(self.acc, inside, x, self.neutral()) if inside else x


def _short_runs(r: _Runs) -> str:
    """Loads one vector per run. Pairs of vectors are combined until a single one holds one total
    per lane.
    """
    f, lanes, vector = r.f, r.f.lanes, r.f.vector[r.acc]
    kind, start = safe_index(f, r.index, r.mask)
    inside = r.inside(r.count)
    parts = []
    for k in range(lanes):
        first = f.op(f"extractelement {f.vector[kind]} {start}, i32 {k}")
        place = element_address(f, MEMORY[r.code], r.base, kind, first)
        parts.append(without_nan(f, r.op, r.acc, r.part(place, inside)))
    while len(parts) > 1:
        joined = []
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            x, y = (f.shuffle(vector, a, b, range(odd, 2 * lanes, 2)) for odd in (0, 1))
            joined.append(combine(f, r.op, r.acc, x, y))
        parts = joined
    return parts[0]


def _long_runs(r: _Runs, *, compensates: bool = False) -> str:
    """Processes whole vectors of a run, then a last one, padded with the neutral number beyond the
    end of the run."""
    f, lanes, vector = r.f, r.f.lanes, r.f.vector[r.acc]
    rest = f.op(f"urem i64 {r.count}, {lanes}")
    whole = f.op(f"sub i64 {r.count}, {rest}")
    inside = r.inside(rest)
    with each_lane(f, r.mask, [r.index], r.acc) as ((at,), result):
        run = element_address(f, MEMORY[r.code], r.base, r.index[0], at)

        def vectors(first: str, end: str) -> str:
            with loop(f, first, end, lanes, [(vector, r.neutral())]) as (j, total):
                total[0] = combine(f, r.op, r.acc, r.part(address(f, r.code, run, j)), total[0])
            return total[0]

        last = r.part(address(f, r.code, run, whole), inside)
        if compensates:
            with loop(f, 0, whole, SHORT * lanes, [(vector, r.neutral())] * 2) as (first, long):
                end = least(f, f.op(f"add i64 {first}, {SHORT * lanes}"), whole)
                long[:] = add_long(f, vector, long, vectors(first, end))
            total, _ = add_long(f, vector, long, last)
        else:
            total = combine(f, r.op, r.acc, last, vectors("0", whole))
        result.append(horizontal(f, r.op, r.acc, total))
    return result[0]

"""Shared bodies of branches: a body that occurs several times in a program, because a function is
called repeatedly, becomes a single function in the kernel text.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ..ir.op import in_bounds
from ..tuples import NamedTuple
from .program import Branch, Case, Instr, Loop, Program, operands

# Minimum number of instructions for a body to become a function.
SHORTEST = 16
# Instructions repeated inside a function rather than passed as arguments: they are free.
_LEAVES = frozenset(("literal", "lane", "active"))


class Used(NamedTuple):
    """The instructions `inside` a body, and what it needs from outside, in order of use: `leaves`,
    which it repeats, and values from `outside`, which are passed as arguments. Also its first
    bounds `check`."""

    inside: set[int]
    leaves: list[int]
    outside: list[int]
    check: Instr | None


def repeated(program: Program) -> frozenset[Case]:
    """Returns the cases of branches whose bodies seem to occur several times."""
    cases = [c for i in program.instrs if type(i.data) is Branch for c in i.data.cases]
    if len(cases) < 2 or any(t.is_vector for t in {i.dtype for i in program.instrs}):
        return frozenset()
    lengths = [len(case.body) if case.function is None else 0 for case in cases]
    same = Counter(lengths)
    fingerprints = [
        _fingerprint(program, case) if length and same[length] > 1 else (0, 0)
        for case, length in zip(cases, lengths, strict=True)
    ]
    number = Counter(fingerprints)
    return frozenset(
        [c for c, key in zip(cases, fingerprints, strict=True) if number[key] > 1 and key[0] > 0]
    )


def _fingerprint(program: Program, case: Case) -> tuple[int, int]:
    """Returns the length of a body, and a number that is equal for equal bodies; zeros if it is
    short."""
    instrs = [program.instrs[n] for n in _instructions(program, case.body)]
    if len(instrs) < SHORTEST:
        return 0, 0
    return len(instrs), hash(tuple([(i.op.name, i.dtype.code, len(i.args)) for i in instrs]))


def _instructions(program: Program, body: Sequence[int]) -> Iterator[int]:
    """Yields the instructions of a body, including nested bodies."""
    for number in body:
        yield number
        data = program.instrs[number].data
        if type(data) is Loop:
            yield from _instructions(program, data.test)
            yield from _instructions(program, data.body)
        elif type(data) is Branch:
            for case in data.cases:
                yield from _instructions(program, case.body)


def used(program: Program, case: Case) -> Used:
    """Returns what a body computes and needs, except words of the parameter block, which are
    accessible inside."""
    inside: set[int] = set(case.function.parameters) if case.function else set()
    needed: dict[int, None] = {}
    check: Instr | None = None
    for number in _instructions(program, case.body):
        i = program.instrs[number]
        inside.add(number)
        if i.op is in_bounds and check is None and case.function is None:
            check = i
        needed.update(dict.fromkeys(operands(i)))
        if type(i.data) is Loop:
            inside.update((*i.data.states, i.data.live))
        elif type(i.data) is Branch:
            inside.update(i.data.results)
            for inner in i.data.cases:
                if inner.function is not None:
                    inside.update(inner.function.parameters)
    outer = [number for number in needed if number not in inside]
    leaves = [number for number in outer if program.instrs[number].op.kind in _LEAVES]
    passed = [number for number in outer if program.instrs[number].op.kind not in _LEAVES]
    return Used(inside, leaves, passed, check)

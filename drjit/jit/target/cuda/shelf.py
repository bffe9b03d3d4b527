"""Vectors that wait in shared memory, in kernels that have more of them than registers hold.

Backpropagation needs the inputs of layers and the results of activations again. A thread stores
some registers of the vectors that were computed first, which are needed last, in places of its own,
so that no thread waits for another. Groups of four registers of all threads of a block lie side by
side."""

from collections.abc import Iterator, Sequence
from typing import Any

from . import fragments, pairs
from .values import GpuPointer


def fill(t: Any, kept: Sequence[Any]) -> None:
    """Before an operation of the warp or the block: stores registers that are needed later, unless
    there are few of them; not those of its operands, `kept`. Registers that are stored already are
    dropped."""
    sources: dict[Any, None] = {}
    for name, (_, v) in t.f.variables.items():
        if hasattr(v, "forms") and t.plan.last.get(name, 0) > t.reached:
            for source in _sources(v):
                sources[source] = None
    for v in [v for v in sources if v.shelf]:
        for k in v.shelf:
            v.forms[v.form][4 * k : 4 * k + 4] = [""] * len(v.forms[v.form][4 * k : 4 * k + 4])
    surplus = (
        sum(len(v.forms[v.form]) * pairs.words(v.code) for v in sources) - t.plan.kept_registers
    )
    for v in sources:
        surplus -= 4 * pairs.words(v.code) * len(v.shelf)
    for v in sources:
        if v in kept or pairs.SIZE[v.code] not in (2, 4) or "" in v.forms[v.form]:
            continue
        for k in range(len(v.forms[v.form]) // 4):
            if surplus <= 0 or not _store(t, v, k):
                return
            surplus -= 4 * pairs.words(v.code)


def _sources(v: Any) -> Iterator[Any]:
    """Yields the vectors from which the registers of a vector that are not kept are computed."""
    if v.op is None or not (v.op.short or v.op.is_splat or not any(v.forms[v.form])):
        yield v
    elif not v.op.is_splat:
        for x in v.op.operands:
            if hasattr(x, "forms"):
                yield from _sources(x)


def _place(t: Any, begin: int, words: int) -> list[GpuPointer]:
    c = t.c
    base = c.once("shelf", lambda: c.dynamic() + (c.tid << 4))
    return [(base + (begin + 16 * c.f.threads * k)).of("u32") for k in range(words)]


def _store(t: Any, v: Any, k: int) -> bool:
    """Stores four registers; returns whether there was room."""
    f, words, found = t.f, pairs.words(v.code), v.forms[v.form]
    begin = t.plan.reserve(16 * f.threads * words)
    if begin < 0:
        return False
    parts = [fragments.words_of(t.c, v.code, x) for x in found[4 * k : 4 * k + 4]]
    each = 4 // words
    for j, place in enumerate(_place(t, begin, words)):
        place.store(t.c.joined(parts[each * j : each * (j + 1)]), volatile=True)
    v.shelf[k] = begin
    found[4 * k : 4 * k + 4] = [""] * 4
    return True


def fetch(t: Any, v: Any, k: int) -> None:
    """Loads four registers."""
    words = pairs.words(v.code)
    each = 4 // words
    for j, place in enumerate(_place(t, v.shelf[k], words)):
        x = place.load(4, volatile=True)
        for e in range(each):
            one = t.c.part(x, words * e, words)
            t.fill(v, v.form, 4 * k + each * j + e, pairs.from_words(t.f, v.code, one.name))

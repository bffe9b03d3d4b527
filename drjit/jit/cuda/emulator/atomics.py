"""Atomic operations on many addresses at once, as if one thread came after the other.

The order is that of the threads. It matters for floating-point sums and for the old values that
threads see; on a device, it is any.
"""

from typing import Any

import numpy as np

from .memory import Flat

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": None,
    "cas": None,
}


def update(
    memory: Flat, index: np.ndarray, operation: str, values: tuple[np.ndarray, ...], returns: bool
) -> tuple[Any, bool]:
    """Applies an operation to `memory[index]`; the old values, and whether anything changed."""
    ufunc = _UFUNCS[operation]
    if not returns and operation not in ("exch", "cas"):
        memory.update(ufunc, index, values[0])
        return None, True
    exchanges = operation == "exch"
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    _, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
    old = np.empty(len(index), values[0].dtype)
    if operation == "cas":
        return _compare_and_swap(memory, ordered, order, starts, counts, values, old)
    changed = False
    if len(starts) < counts.max():  # one accumulation for each address
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            lanes = order[start : start + count]
            at = index[lanes[:1]]
            chain = np.concatenate((memory[at], values[0][lanes]))
            chain = chain if exchanges else ufunc.accumulate(chain)
            old[lanes] = chain[:-1]
            memory[at] = chain[-1:]
            changed |= bool(chain[0] != chain[-1])
        return old, changed
    rank = np.arange(len(index)) - np.repeat(starts, counts)
    by_rank = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    begin = 0
    for end in ends:
        lanes = order[by_rank[begin:end]]
        begin, at = end, index[lanes]
        old[lanes] = before = memory[at]
        after = values[0][lanes]
        memory[at] = after = after if exchanges else ufunc(before, after)
        changed |= bool(np.count_nonzero(before != after))
    return old, changed


def _compare_and_swap(
    memory: Flat, index: np.ndarray, order: np.ndarray, starts: np.ndarray, counts: np.ndarray,
    values: tuple[np.ndarray, ...], old: np.ndarray,
) -> tuple[np.ndarray, bool]:  # fmt: skip
    """One step for each thread that succeeds; between them, all threads see the same value."""
    expected, new = values[0][order], values[1][order]
    n = len(order)
    positions = np.arange(n)
    segment = np.repeat(np.arange(len(starts)), counts)
    current = memory[index[starts]]
    initial = current.copy()
    begin = starts.copy()
    seen = np.empty_like(expected)
    while True:
        left = positions >= begin[segment]
        if not np.count_nonzero(left):
            break
        value = current[segment]
        match = np.where(left & (expected == value), positions, n)
        first = np.minimum.reduceat(match, starts)
        reached = left & (positions <= first[segment])
        seen[reached] = value[reached]
        succeeds = first < n
        current[succeeds] = new[first[succeeds]]
        begin = first + 1
    old[order] = seen
    memory[index[starts]] = current
    return old, bool(np.count_nonzero(current != initial))

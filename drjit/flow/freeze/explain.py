"""Why a frozen function has to be recorded once more, for reports."""

from ...jit import flags
from .recordings import Family, Structure


def reason(
    what: str,
    structures: dict[tuple, Structure],
    family: Family,
    sizes: tuple[int, ...],
    count: int,
) -> str:
    """Returns what differs from earlier calls of the function `what`, recorded `count` times, in
    one for which its `family` has no recording."""
    if not count:
        return f"{what} is recorded for the first time"
    again = f"{what} is recorded again: "
    if len(family):
        before = [*family.recorded, *[g.recording.sizes for g in family.general]][-1]
        return f"{again}its arrays have {_list(sizes)} entries, {_list(before)} before"
    key, found = next((k, s) for k, s in structures.items() if family in s.families.values())
    values = next(v for v, f in found.families.items() if f is family)
    for others, f in found.families.items():
        if len(f):
            pairs = [f"{v} was {w}" for v, w in zip(values, others, strict=False) if v != w]
            return f"{again}numbers in its arguments differ: {', '.join(pairs)}"
    known = [k for k, s in structures.items() if any(map(len, s.families.values()))]
    if not known:
        return f"{again}earlier recordings were dropped"
    return again + min([differences(key, k) for k in known], key=len)[0]


def differences(key: tuple, other: tuple) -> list[str]:
    """Returns in which entries two keys differ."""
    found: list[str] = []
    for k, (v, w) in enumerate(zip(key, other, strict=False)):
        if v is w or v == w:
            continue
        if len(key) != len(other) and found:  # nothing corresponds from here on
            return found + [""] * max(len(key), len(other))
        before = key[k - 1] if k else None
        if isinstance(v, type) and isinstance(w, type):
            names = [v.__name__, w.__name__]
            if names[0] == names[1]:
                names = [f"{cls.__module__}.{cls.__name__}" for cls in (v, w)]
            found.append(f"an argument is of type {names[0]}, {names[1]} before")
        elif before in (bool, int, str, float) and key[k - 1] is other[k - 1]:
            found.append(f"an argument is {v}, {w} before, and each number is recorded for itself")
        elif v in (None, True, False) and w in (None, True, False):
            found.append("derivatives are tracked for other arguments")
        elif k == len(key) - 1 and type(v) is type(w) is int:
            names = [
                str(f.name) for f in flags.JitFlag if int(f).bit_count() == 1 and int(f) & (v ^ w)
            ]
            found.append(f"flags have changed: {', '.join(names)}")
        elif -1 in (v, w):
            found.append("a number in its arguments has changed, and is data from now on")
        else:
            found.append("its arguments differ: other objects, or arrays that are the same ones")
    return found or ["its arguments differ"]


def _list(sizes: tuple[int, ...]) -> str:
    return " and ".join(map(str, sizes))

"""Kernels that one line of the user's has compiled again and again: texts are compared without the
names of values, and the plain numbers of the program are looked up, one of which often explains
what differs. Compiling takes milliseconds, so all this costs little.
"""

import re
import sys
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .. import log
from ..ir.location import user_location
from ..tuples import NamedTuple

MOST = 10
"""Compilations of a line after which it is warned of."""
KEPT = 256  # lines that are counted
_NAME = re.compile(r"\b[vxc]\d+\b")
NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)\b")
_PLAIN = {int, float, bool, str}
_TYPED = ("<stdin>", "<string>")  # what has the same lines again and again
_OPAQUE = (type, ModuleType, FunctionType)
_MOST_TEXT = 40  # characters of a string that may matter
_FUNCTION = 0x1  # flag of code whose `f_locals` is a copy of what it has (or a view, since 3.13)
_ALONE = 3  # references to that if none is the program's: of the frame, a variable, an argument


def shapes(text: str) -> list[str]:
    """Returns the statements of a kernel text without the numbers of values and parameters."""
    return [*map(_shape, text.rstrip("\n").split("\n")[1:])]


@lru_cache(1 << 12)
def _shape(line: str) -> str:
    return _NAME.sub("v", re.sub(r"\bp\[\d+\]", "p", line.partition("  # ")[0]))


@lru_cache(1 << 12)
def without_numbers(shape: str) -> str:
    """Returns a statement without its numbers."""
    return NUMBER.sub("#", shape)


def _is_plain(value: Any) -> bool:
    """Returns whether a value is a number, a short string, or a tuple of these."""
    cls = type(value)
    if cls is tuple:
        return len(value) <= 4 and all(type(v) in _PLAIN for v in value)
    return cls in _PLAIN and (cls is not str or len(value) <= _MOST_TEXT)


@lru_cache(1 << 10)
def _has_attributes(cls: type) -> bool:
    """Returns whether objects of a class may have plain attributes."""
    return bool(cls.__dictoffset__) and not issubclass(cls, _OPAQUE)


def _attributes(value: Any) -> dict[str, Any]:
    """Returns the plain attributes of an object, without running code of its class."""
    try:
        fields = object.__getattribute__(value, "__dict__")
    except Exception:  # such as a type variable, or a property
        return {}
    return fields if type(fields) is dict else {}


@lru_cache(1 << 12)
def _outer_names(code: CodeType) -> list[str]:
    """Returns the names in a function that it does not assign."""
    own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    return [name for name in code.co_names if name not in own]


def plain_values(frame: Any) -> dict[str, Any]:
    """Returns the plain values that the code of a frame may use: variables, and attributes of
    objects in variables."""
    code, local, outside = frame.f_code, frame.f_locals, frame.f_globals
    names = _outer_names(code)
    found: dict[str, Any] = {}
    scopes = [(outside, [n for n in names if n in outside])]
    if local is not outside:
        scopes.append((local, [*local]))
    for scope, keys in scopes:
        for name in keys:
            value = scope.get(name)
            cls = type(value)
            if cls in _PLAIN or cls is tuple:
                if _is_plain(value):
                    found[name] = value
            elif _has_attributes(cls):
                fields = _attributes(value)
                for field in names:
                    if field in fields and _is_plain(fields[field]):
                        found[f"{name}.{field}"] = fields[field]
    del scopes, scope, outside
    # Python would keep a copy, and with it arrays, until the function returns. What `locals()` has
    # returned to the program, or a debugger holds, is the same dictionary.
    if type(local) is dict and code.co_flags & _FUNCTION and sys.getrefcount(local) <= _ALONE:
        local.clear()
    return found


def user_frames(depth: int = 1, most: int = 2) -> list[Any]:
    """Returns the innermost frames outside this package, up to a number of functions: code such as
    that of comprehensions comes with the code around it."""
    frame, found = sys._getframe(depth), []
    while frame is not None and most and len(found) < 4:
        name = frame.f_globals.get("__name__", "")
        if name[:6] != "drjit." and name != "drjit":
            found.append(frame)
            code_name = frame.f_code.co_name
            if code_name == "<module>":
                break
            most -= code_name[0] != "<"
        frame = frame.f_back
    return found


class _Compiled(NamedTuple):
    """A compilation: the plain values that the program had, the numbers in the text, and the number
    of its statements."""

    values: dict[str, Any]
    numbers: set[str]
    statements: int


_lines: dict[tuple, dict[frozenset[str], list[_Compiled]]] = {}
"""For lines, and those that called them: by the kinds of statements, what has been compiled."""


def count(text: str) -> None:
    """Notes that the program has a kernel compiled. It is warned of a line that has compiled `MOST`
    kernels with the same kinds of statements, if a number of the program explains these: it was
    another one each time, and appears in the text, or says how often a part of it is repeated. So
    not of lines that just compute different things."""
    frames = user_frames(2)
    if not frames or frames[0].f_code.co_filename in _TYPED:
        return
    key = tuple([(f.f_code, f.f_lasti) for f in frames])
    if key not in _lines and len(_lines) >= KEPT:
        del _lines[next(iter(_lines))]
    values: dict[str, Any] = {}
    for frame in reversed(frames):
        values |= plain_values(frame)
    found = shapes(text)
    kind = frozenset(map(without_numbers, found))
    numbers = {number for s in found for number in NUMBER.findall(s)}
    seen = _lines.setdefault(key, {}).setdefault(kind, [])
    seen.append(_Compiled(values, numbers, len(found)))
    del seen[:-MOST]
    if len(seen) == MOST and (name := _explanation(seen)):
        last, before = seen[-1].values[name], seen[-2].values[name]
        how = advice(name, last, seen[-1].statements != seen[-2].statements)
        seen.clear()
        log.warn(
            f"this line has compiled {MOST} kernels: `{name}` became part of their code, where "
            f"{last!r} was {before!r} the last time; {how}, or, where it is the size of an array, "
            "have few sizes.",
            user_location(2),
        )


def _explanation(seen: list[_Compiled]) -> str:
    """Returns the name of the number that explains why kernels differ."""
    for name in seen[-1].values:
        values: list[Any] = [c.values.get(name) for c in seen]
        if not all(type(v) in (int, float) for v in values) or len({*values}) < len(values):
            continue
        if all(repr(abs(v)) in c.numbers for v, c in zip(values, seen, strict=True)):
            return name
        n, m = values[1] - values[0], seen[1].statements - seen[0].statements
        pairs = zip(values, seen, strict=True)
        if m and all(
            (v - values[0]) * m == (c.statements - seen[0].statements) * n for v, c in pairs
        ):
            return name
    return ""


def advice(name: str, value: Any, unrolled: bool = False) -> str:
    """Returns what to do about a value that becomes part of the code."""
    if unrolled:
        return (
            "make it a `while` loop in a function with @dr.syntax, which is traced once for all "
            "numbers"
        )
    if type(value) in (int, float):
        kind = "Float" if type(value) is float else "UInt" if value >= 0 else "Int"
        return f"use dr.opaque({kind}, {name})"
    return "each value has kernels of its own"

"""Debug mode: kernels run on NumPy as ordinary Python that a debugger can step through, and every
operation knows the line that traced it.

The text is registered with `linecache`, so tracebacks and pdb show it. A loop that reaches
`loop_limit` iterations is considered infinite. `JitFlag.Breakpoint` stops at the beginning of every
kernel; `JitFlag.TrapNaN` and `JitFlag.TrapInf` stop at the first operation that produces a NaN or
an infinity from operands that contain none.
"""

import linecache
import os
import re
import sys
from typing import Any

from . import flags
from .flags import JitFlag
from .lazy import np

loop_limit = int(os.environ.get("DRJIT_LOOP_LIMIT", "100000"))
"""Number of iterations after which a loop is an error in debug mode; 0 means no limit."""

_ASSIGNMENT = re.compile(r"^    (\w+) = ([^#]*)")
_OPERAND = re.compile(r"(?<!')\b(?!(?:i|p|True|False|mask|[fiu]\d+)\b)[A-Za-z_]\w*\b(?![('])")


def run(text: str, name: str, p: list, size: int) -> None:
    """Runs a kernel's text under a file name that debuggers can resolve.

    Raises:
        FloatingPointError: a trap is set and an operation produced a NaN or an infinity.
    """
    filename = f"<drjit kernel {name}>"
    if flags.current & JitFlag.Breakpoint:
        text = text.replace("\n", "\n    breakpoint()\n", 1)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    from .target import numpy as numpy_target

    names: dict[str, Any] = dict(numpy_target.namespace)
    names["any_lane"] = _limited_any_lane(text.splitlines())
    traps = flags.current & (JitFlag.TrapNaN | JitFlag.TrapInf)
    if traps:
        names["trap"] = Trap(traps, text.splitlines())
        text = _with_traps(text)
    exec(compile(text, filename, "exec"), names)
    # Drop the name: it would form a reference cycle between the function and its globals.
    numpy_target.run(names.pop("kernel"), p, size)


def _limited_any_lane(lines: list[str]) -> Any:
    """Returns a version of `any_lane`, the test at the head of loops, that counts iterations.

    Raises:
        RuntimeError: a loop has reached `loop_limit` iterations.
    """
    rounds: dict[int, int] = {}

    def any_lane(m: Any) -> bool:
        if not np.any(m):
            return False
        line = sys._getframe(1).f_lineno
        rounds[line] = rounds.get(line, 0) + 1
        if loop_limit and rounds[line] > loop_limit and "while" in lines[line - 1]:
            lanes = np.flatnonzero(np.atleast_1d(m))
            above = [text for text in lines[: line - 1] if "#" in text]  # its condition is last
            where = f" at {above[-1].partition('#')[2].strip()}" if above else ""
            raise RuntimeError(
                f"the loop{where} has run {loop_limit} rounds, and {len(lanes)} of {np.size(m)} "
                f"lanes are still in it, such as lane {lanes[0]}: {lines[line - 1].strip()}\n"
                "(DRJIT_LOOP_LIMIT sets the limit, which holds in debug mode only.)"
            )
        return True

    return any_lane


def _with_traps(text: str) -> str:
    """Adds a check after every assignment, on the same line so that line numbers do not change."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        assignment = _ASSIGNMENT.match(line)
        if (
            assignment
            and "load(" not in line
            and "literal(" not in line
            and "broadcast(" not in line
        ):
            operands = sorted(set(_OPERAND.findall(assignment[2])))
            code, _, comment = line.partition("#")
            call = f"trap({number}, {assignment[1]}, {', '.join(operands)})"
            lines[number] = f"{code.rstrip()}; {call}" + (f"  #{comment}" if comment else "")
    return "\n".join(lines) + "\n"


class Trap:
    """Stops at a value that is not finite although its operands are."""

    def __init__(self, traps: int, lines: list[str]) -> None:
        self.traps, self.lines = traps, lines

    def __call__(self, line: int, value: Any, *operands: Any) -> None:
        if getattr(value, "dtype", None) is None or value.dtype.kind != "f":
            return
        for bit, test, what in (
            (JitFlag.TrapNaN, np.isnan, "nan"),
            (JitFlag.TrapInf, np.isinf, "inf"),
        ):
            bad = test(value)
            if not (self.traps & bit and np.any(bad)):
                continue
            for o in operands:
                if getattr(o, "dtype", None) is not None and o.dtype.kind == "f":
                    bad = bad & np.isfinite(o)
            if np.any(bad):
                lane = int(np.argmax(bad))
                inputs = ", ".join(
                    str(np.broadcast_to(o, np.shape(bad) or (1,)).flat[lane]) for o in operands
                )
                raise FloatingPointError(
                    f"{what} in lane {lane}: {self.lines[line].strip()}   (operands: {inputs})"
                )

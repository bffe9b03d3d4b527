"""Conditions and modes of loops and branches."""

from typing import Any

from ...array.base import ArrayBase, type_label
from ...jit import flags, log
from ...jit.flags import JitFlag
from ...jit.trace import record

MODES = (None, "scalar", "symbolic", "evaluated")


def check_mode(mode: Any, what: str) -> None:
    """Raises a RuntimeError if there is no such mode."""
    if mode not in MODES:
        raise RuntimeError(
            f"{what}: invalid 'mode' argument: it must be None, 'scalar', 'symbolic' or "
            f"'evaluated', not {mode!r}"
        )


def chosen_mode(mode: str | None, flag: JitFlag, what: str) -> str:
    """Returns the mode of a statement that is not scalar: the given one, or the one selected by a
    flag; within a recording, it is symbolic."""
    if mode is None and flags.current & flag:
        return "symbolic"
    if mode is None and record.recording():
        log.log(
            log.LogLevel.Warn,
            f"{what}: forcing conditional statement to symbolic mode, although {flag} is off, "
            "since it is part of another symbolic operation",
        )
        return "symbolic"
    return mode or "evaluated"


def mask_of(test: Any, what: str, noun: str) -> Any:
    """Returns a condition as a one-dimensional mask.

    Raises:
        RuntimeError: it is not a mask.
    """
    if isinstance(test, ArrayBase) and test.__meta__.is_jit and test._dtype.is_mask:
        if test._kind == "leaf":
            return test
        if test._kind == "tensor":
            return test._array
    raise RuntimeError(
        f"{what}: {noun} is of type {type_label(test)}. Expected a traced Boolean array of one "
        "dimension such as drjit.auto.Bool, a Boolean tensor, or a Python bool."
    )

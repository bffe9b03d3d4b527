"""Names in generated code: functions of `numeric`, `integer` and `convert`, and types."""

import keyword
import re
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator import convert, integer, numeric

SCOPE: dict[str, Any] = {
    name: value
    for module in (integer, numeric, convert)
    for name, value in vars(module).items()
    if not name.startswith("_")
}
SCOPE |= {
    "np": np,
    "false": np.zeros(1, bool),
}

# Names of registers that would hide something: those above, the parameters of a block, constants
# such as `u32_7`, and what passes between functions.
_RESERVED = set(keyword.kwlist) | set(SCOPE) | {"R", "m", "place", "back", "caller", "print"}
_PATTERN = re.compile(r"(?:[uif]\d+|pred|argument\d+|result\d+)_|_|\d")


def python_name(name: str) -> str:
    """The name of a register as an identifier."""
    text = name.lstrip("%").replace("$", "_").replace(".", "_")
    return f"{text}_" if text in _RESERVED else f"r_{text}" if _PATTERN.match(text) else text

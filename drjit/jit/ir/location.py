"""Locations in the user's program: a code object and a line, cheap to capture and formatted only
when shown.
"""

import sys

Location = tuple  # (code object, line number), or () if unknown


def user_location() -> Location:
    """Returns the innermost stack frame outside this package."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name[:6] != "drjit." and name != "drjit":
            return (frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return ()


def describe(location: Location) -> str:
    """Formats a location for messages: `file.py:12 in function`."""
    if not location:
        return "an unknown line"
    code, line = location
    where = f"{code.co_filename}:{line}"
    return where if code.co_name == "<module>" else f"{where} in {code.co_name}"

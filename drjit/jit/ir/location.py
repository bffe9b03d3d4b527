"""Locations in the user's program: a code object and the offset of an instruction in it. Python
takes long to find the line of an instruction in a large function, so that is left to `line_of`.
"""

import sys

Location = tuple  # (code, offset of an instruction), (code, None, line), or () if unknown


def user_location(depth: int = 1) -> Location:
    """Returns the location of the innermost stack frame outside this package; `depth` is the number
    of frames that are known to be inside, counting that of this function."""
    try:
        frame = sys._getframe(depth)
    except ValueError:  # called by something that is not Python
        return ()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name[:6] != "drjit." and name != "drjit":
            return (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return ()


def line_of(location: Location) -> int:
    """Returns the number of the line; 0 if it is unknown."""
    if len(location) != 2:
        return location[2] if location else 0
    code, offset = location
    return next((n or 0 for start, end, n in code.co_lines() if start <= offset < end), 0)


def describe(location: Location) -> str:
    """Formats a location for messages: `file.py:12 in function`."""
    if not location:
        return "an unknown line"
    code = location[0]
    where = f"{code.co_filename}:{line_of(location)}"
    return where if code.co_name == "<module>" else f"{where} in {code.co_name}"

"""Where the texts of `kernel` are from: strings, and functions with an available source."""

import inspect
import linecache
import textwrap
from types import FunctionType, SimpleNamespace
from typing import Any
from zlib import crc32

from ...jit.text.user.reading import Source


def of_text(text: str) -> Source:
    """Returns the source of a text without a file."""
    lines = textwrap.dedent(text).strip("\n").split("\n")
    file = f"<kernel text {crc32(text.encode()):08x}>"
    linecache.cache[file] = (len(text), None, [f"{line}\n" for line in lines], file)
    title = next((v[4:].partition("(")[0] for v in lines if v.startswith("def ")), "kernel")
    code = SimpleNamespace(co_filename=file, co_name=title)
    return Source(title, file, 0, lines, 0, code, _unknown)


def _unknown(name: str) -> Any:
    raise KeyError(name)


def of_function(function: FunctionType) -> Source:
    """Returns the source of a function.

    Raises:
        TypeError: it is not available.
    """
    code = function.__code__
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise TypeError(
            f"dr.kernel: the source of {function.__name__}() is not available; pass the text as a "
            "string: dr.kernel('def kernel(i, p): ...')"
        ) from None
    start = next((k for k, v in enumerate(lines) if v.lstrip().startswith("def ")), None)
    if start is None:
        raise TypeError(f"dr.kernel: {function.__name__} is not a function defined by def")
    indent = len(lines[start]) - len(lines[start].lstrip())
    own = textwrap.dedent("".join(lines[start:])).rstrip("\n").split("\n")

    def constant(name: str) -> Any:
        if name in code.co_freevars and function.__closure__ is not None:
            try:
                return function.__closure__[code.co_freevars.index(name)].cell_contents
            except ValueError:
                raise KeyError(name) from None
        return function.__globals__[name]

    above = first - 1 + start
    return Source(function.__name__, code.co_filename, above, own, indent, code, constant)

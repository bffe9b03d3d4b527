"""Access to the math library: as syntax trees, which the compiled targets translate, and as
functions for the targets that Python runs.

A function such as `sin_f32` is defined in one of the modules of `mathlib`. It may use numbers and
tables that modules define by plain assignments, and other functions of the library. Files are
parsed on first use.
"""

import contextlib
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..ir.op import TABLE

if TYPE_CHECKING:
    import ast

# The module of mathlib that defines each function.
MODULES = {o.name: o.library for o in TABLE.values() if o.library} | {"sincos": "trig"}

names = frozenset(MODULES)
"""The names of the functions that kernels may call."""

_FOLDER = os.path.join(os.path.dirname(__file__), "mathlib")


class Table(tuple):
    """A tuple of numbers of the element type `code`, with which its name in the library ends."""

    code: str


def load(language: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the functions of the library, which compute with the names in `language`."""
    from . import mathlib

    scope = {**language, "__name__": mathlib.__name__}
    for module in _FILES:
        name = f"{mathlib.__name__}.{module}"
        specs: Any = (finder.find_spec(name, mathlib.__path__) for finder in sys.meta_path)
        spec = next(filter(None, specs))  # `importlib.util` does the same, but takes long to import
        exec(spec.loader.get_code(spec.name), scope)
    for name, value in scope.items():
        if type(value) is tuple:
            scope[name] = numbers = Table(value)
            numbers.code = name.rpartition("_")[2]
    return scope


_functions: dict[str, "ast.FunctionDef"] = {}
_constants: dict[str, "ast.expr"] = {}
_FILES = ("common", *dict.fromkeys(MODULES.values()), "approximate")
_unread = [*_FILES]


def _look_up(name: str, known: dict[str, Any]) -> Any:
    """Returns a definition, reading modules until it is known: that of a public function first.
    Raises KeyError if there is none."""
    base = name.rpartition("_")[0]
    first = MODULES.get(base, base.partition("_")[0])
    while name not in known and (left := _unread[:]):
        _read(first if first in left else left[0])
    return known[name]


def prepare(text: str) -> None:
    """Reads the files if a kernel's text calls functions of the library, before another thread
    compiles it: only the program's own threads build syntax trees (see `parsing`)."""
    if _unread and any(f"{name}(" in text for name in MODULES):
        definitions()


def definitions() -> dict[str, "ast.FunctionDef"]:
    """Returns the definitions of all functions, including those that only others call."""
    while left := _unread[:]:
        _read(left[0])
    return _functions


def _read(module: str) -> None:
    """Reads a file. Two threads may do so at once; both then use the definitions of the first."""
    import ast  # not for kernels from the disk cache

    from ..parsing import syntax_tree

    with open(os.path.join(_FOLDER, f"{module}.py"), encoding="utf-8") as file:
        tree = syntax_tree(file.read())
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            _functions.setdefault(statement.name, statement)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            _constants.setdefault(statement.targets[0].id, statement.value)
    with contextlib.suppress(ValueError):
        _unread.remove(module)


def function(name: str, code: str) -> "ast.FunctionDef":
    """Returns the definition of a library function for an element type.

    Raises KeyError if there is none.

    >>> function("sin", "f32").name
    'sin_f32'
    """
    return _look_up(f"{name}_{code}", _functions)


@cache
def constant(name: str) -> float | int:
    """Returns the number that a module assigns to a name; raises KeyError if there is none."""
    import ast

    return eval(compile(ast.Expression(_look_up(name, _constants)), name, "eval"))


@cache
def table(name: str) -> tuple:
    """Returns the numbers that a module assigns to a name; raises KeyError if there is none."""
    import ast

    return ast.literal_eval(_look_up(name, _constants))

"""Access to the math library as source code: the compiled targets translate its syntax trees.

A function such as `sin_f32` is defined in one of the modules of `mathlib`. It may use numbers and
tables that its module defines by plain assignments, and other functions of the library. Files are
parsed on first use.
"""

import ast
import os
from functools import cache

from ..ir.op import TABLE
from ..parsing import syntax_tree

# The module of mathlib that defines each function.
MODULES = {o.name: o.library for o in TABLE.values() if o.library} | {"sincos": "trig"}

names = frozenset(MODULES)
"""The names of the functions that kernels may call."""

_FOLDER = os.path.join(os.path.dirname(__file__), "mathlib")


@cache
def _definitions() -> tuple[dict[str, ast.FunctionDef], dict[str, ast.expr]]:
    functions, constants = {}, {}
    for module in ("common", *dict.fromkeys(MODULES.values())):
        with open(os.path.join(_FOLDER, f"{module}.py"), encoding="utf-8") as file:
            tree = syntax_tree(file.read())
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                functions[statement.name] = statement
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                constants[statement.targets[0].id] = statement.value
    return functions, constants


def function(name: str, code: str) -> ast.FunctionDef:
    """Returns the definition of a library function for an element type.

    Raises KeyError if there is none.

    >>> function("sin", "f32").name
    'sin_f32'
    """
    return _definitions()[0][f"{name}_{code}"]


@cache
def constant(name: str) -> float | int:
    """Returns the number that a module assigns to a name; raises KeyError if there is none."""
    return eval(compile(ast.Expression(_definitions()[1][name]), name, "eval"))


@cache
def table(name: str) -> tuple:
    """Returns the numbers that a module assigns to a name; raises KeyError if there is none."""
    return ast.literal_eval(_definitions()[1][name])

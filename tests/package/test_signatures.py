"""Functions, classes and methods take their arguments under the names, in the order, and with the
defaults of the interface, as tests/data/signatures.txt states them.
"""

import ast
import inspect
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import drjit as dr

ENTRIES = [
    line
    for line in (Path(__file__).parents[1] / "data" / "signatures.txt").read_text().splitlines()
    if not line.startswith("#")
]
LINES = [line for line in ENTRIES if "(" in line]


def named(line: str) -> Any:
    """What a line is about."""
    return reduce(getattr, line.partition("(")[0].split("."), dr)


def arguments(line: str) -> ast.arguments:
    function = ast.parse(f"def f({line.partition('(')[2]}: pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args


@pytest.mark.parametrize("line", ENTRIES)
def test_names_exist(line: str):
    assert callable(named(line)) or "(" not in line


@pytest.mark.parametrize("line", LINES)
def test_calls_of_the_interface_are_accepted(line: str):
    """All arguments by position, and by name where they have one."""
    given = arguments(line)
    signature = inspect.signature(named(line))
    first = [a.arg for a in given.posonlyargs]
    by_name = [a.arg for a in given.args]
    only_named = {a.arg: None for a in given.kwonlyargs}
    signature.bind(*first, *by_name, **only_named)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    if not takes_any:
        signature.bind(*first, **dict.fromkeys(by_name), **only_named)


@pytest.mark.parametrize("line", LINES)
def test_defaults_are_those_of_the_interface(line: str):
    given = arguments(line)
    parameters = inspect.signature(named(line)).parameters
    names = [a.arg for a in given.posonlyargs + given.args]
    defaults = dict(zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True))
    defaults |= {
        a.arg: d for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None
    }
    for name, default in defaults.items():
        if name in parameters:
            expected = ast.unparse(default).replace("dr.", "").replace("[]", "()")
            found = parameters[name].default
            assert expected == ("..." if found is ... else repr(found)), name


def test_the_list_is_complete():
    assert len(LINES) > 350

"""Functions take their arguments under the names, in the order, and with the defaults of the
interface, as tests/data/signatures.txt states them.
"""

import ast
import inspect
from pathlib import Path

import pytest

import drjit as dr

LINES = [
    line
    for line in (Path(__file__).parent / "data" / "signatures.txt").read_text().splitlines()
    if not line.startswith("#")
]


def arguments(line: str) -> ast.arguments:
    function = ast.parse(f"def {line}: pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args


def shown(value: object) -> str:
    return "..." if value is ... else str(list(value)) if value == () else repr(value)


@pytest.mark.parametrize("line", LINES)
def test_calls_of_the_interface_are_accepted(line: str):
    """All arguments by position, and by name where they have one."""
    given = arguments(line)
    signature = inspect.signature(getattr(dr, line.partition("(")[0]))
    first = [a.arg for a in given.posonlyargs]
    named = [a.arg for a in given.args]
    only_named = {a.arg: None for a in given.kwonlyargs}
    signature.bind(*first, *named, **only_named)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    if not takes_any:
        signature.bind(*first, **dict.fromkeys(named), **only_named)


@pytest.mark.parametrize("line", LINES)
def test_defaults_are_those_of_the_interface(line: str):
    given = arguments(line)
    parameters = inspect.signature(getattr(dr, line.partition("(")[0])).parameters
    names = [a.arg for a in given.posonlyargs + given.args]
    defaults = dict(zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True))
    defaults |= {
        a.arg: d for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None
    }
    for name, default in defaults.items():
        if name in parameters:
            found = parameters[name].default
            assert shown(found) == ast.unparse(default).replace("dr.", ""), name


def test_the_list_is_complete():
    assert len(LINES) > 250

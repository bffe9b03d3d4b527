"""The tables of docs/differences.md tell the truth about this package."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr

PAGE = Path(__file__).parents[1] / "docs" / "differences.md"
ROWS = re.findall(r"^\| `(.+?)` \| .+ \| `(.+)` \|$", PAGE.read_text(), re.M)


def tracked(x: Any) -> Any:
    dr.enable_grad(x)
    return x


def d(f: Callable, x: Any) -> Any:
    """The gradient of `x` after a reverse traversal."""
    dr.backward(f(tracked(x)))
    return x.grad


@pytest.mark.parametrize("expression, expected", ROWS, ids=[row[0] for row in ROWS])
def test_expression_gives_what_the_page_says(expression: str, expected: str):
    names = {name: getattr(dr.llvm, name) for name in dir(dr.llvm) if name[0].isupper()}
    names |= {"dr": dr, "np": np, "ad": dr.llvm.ad, "tracked": tracked, "d": d}
    level = dr.log_level()
    try:
        found = repr(eval(expression, names))
    except Exception as error:
        found = error
    finally:
        dr.set_log_level(level)
    if isinstance(found, Exception):
        assert expected in [cls.__name__ for cls in type(found).__mro__], repr(found)
    else:
        assert re.sub(r",\s+", ", ", found) == expected


def test_the_page_lists_cases():
    assert len(ROWS) > 50

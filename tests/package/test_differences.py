"""The tables of docs/differences.md tell the truth about this package."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import named

import drjit as dr
from drjit import hashgrid, nn, opt

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
ROWS = re.findall(r"^\| `(.+?)` \| .+ \| `(.+)` \|$", PAGE.read_text(), re.M)


def tracked(x: Any) -> Any:
    dr.enable_grad(x)
    return x


def d(f: Callable, x: Any) -> Any:
    """The gradient of `x` after a reverse traversal."""
    dr.backward(f(tracked(x)))
    return x.grad


def linear(inputs: int, outputs: int) -> nn.Module:
    return nn.Linear(inputs, outputs).alloc(dr.llvm.TensorXf)


def stepped(
    o: opt.Optimizer,
    scope: AbstractContextManager | None = None,
    gradient: float = 1,
    **kwargs: Any,
) -> Any:
    """The parameter `x` after a step."""
    dr.set_grad(o["x"], gradient)
    with scope or nullcontext():
        o.step(**kwargs)
    return o["x"]


def features(cls: Any, dtype: type, position: list[float], **kwargs: Any) -> Any:
    """The features at a position, of an encoding with known parameters."""
    e = cls(dtype, len(position), n_levels=1, n_features_per_level=1, **kwargs)
    e.set_params(dtype(np.arange(e.n_params) * 37 % 101))
    return e([dtype(x) for x in position])


def frozen(f: Callable, *calls: Any) -> list[Any]:
    """The results of the calls of a frozen function."""
    f = dr.freeze(f)
    return [f(*c) if isinstance(c, tuple) else f(c) for c in calls]


HELPERS = {f.__name__: f for f in (tracked, d, linear, stepped, features, frozen)}


@pytest.mark.filterwarnings("ignore:.*number of features per level:RuntimeWarning")
@pytest.mark.parametrize("expression, expected", ROWS, ids=[row[0] for row in ROWS])
def test_expression_gives_what_the_page_says(expression: str, expected: str):
    names = {name: getattr(dr.llvm, name) for name in dir(dr.llvm) if name[0].isupper()}
    names |= {"dr": dr, "np": np, "ad": dr.llvm.ad, "nn": nn, "opt": opt, "hashgrid": hashgrid}
    names |= HELPERS
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
        assert re.sub(r",\s+", ", ", found) == named(expected)


def test_the_page_lists_cases():
    assert len(ROWS) > 130

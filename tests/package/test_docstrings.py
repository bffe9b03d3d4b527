"""The `>>>` examples of all docstrings do what they say.

An example has `dr`, `np`, the names of its own module, the types of `drjit.auto.ad`, and that
module as `ad` at hand.
"""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import named

import drjit as dr
from drjit import nn

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Their classes have the docstrings of those in drjit.llvm.ad.
ALIKE = ("drjit.llvm", "drjit.cuda", "drjit.cuda.ad", "drjit.auto", "drjit.auto.ad")


def modules() -> Iterator[ModuleType]:
    yield dr
    for info in pkgutil.walk_packages(dr.__path__, "drjit."):
        # The CUDA target imports numba.cuda, which only exists where a GPU is meant to be used;
        # the modules of PyTorch have a test of their own.
        elsewhere = info.name in (*ALIKE, "drjit.interop.torch", "drjit.nn.torch_modules")
        if not elsewhere and not info.name.startswith("drjit.jit.target.cuda"):
            yield importlib.import_module(info.name)


class Finder(doctest.DocTestFinder):
    """Goes through an object once: classes share most of their methods."""

    def __init__(self):
        super().__init__()
        self.visited: dict = {}

    def _find(self, tests, obj, name, module, source_lines, globs, seen):
        if id(obj) not in self.visited:
            self.visited[id(obj)] = obj
            super()._find(tests, obj, name, module, source_lines, globs, {})


def examples() -> list[doctest.DocTest]:
    """Every example once. Public functions that are made at run time have no source file of their
    own and are found through the public names of `drjit`, and methods of classes that present
    themselves as part of another module through these classes."""
    finder = Finder()
    tests = [test for module in modules() for test in finder.find(module)]
    finder = Finder()  # which goes through members that present themselves as others' as well
    for value in [v for module in modules() for v in vars(module).values()]:
        if isinstance(value, type) and value.__module__.startswith("drjit"):
            tests += finder.find(value, f"{value.__module__}.{value.__name__}", module=False)
    for name in dir(dr):
        value = getattr(dr, name)
        if callable(value):
            tests += finder.find(value, f"drjit.{name}", module=False)
    first: dict = {}
    for test in tests:
        if test.examples:
            first.setdefault((test.docstring, test.lineno), test)
    return list(first.values())


def parameter(test: doctest.DocTest) -> Any:
    # Functions of single numbers for Numba run on the processor.
    marks = [pytest.mark.processor] * test.name.endswith(".wrap")
    return pytest.param(test, id=test.name, marks=marks)


@pytest.mark.parametrize("test", [*map(parameter, examples())])
def test_example(test: doctest.DocTest):
    types = importlib.import_module("drjit.auto.ad")
    names = {name: getattr(types, name) for name in dir(types) if not name.startswith("_")}
    given = {"dr": dr, "np": np, "nn": nn, "ad": types, "__name__": "__main__"}
    test.globs = names | test.globs | given
    for example in test.examples:
        example.want = named(example.want)
    report: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)

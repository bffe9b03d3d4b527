"""Runs the `>>>` examples of pages and docstrings while the site is built: one that prints
something else than shown is a warning. `tests/package/test_docs.py` runs those of pages, by the
same functions.
"""

import doctest
import importlib
import importlib.util
import re
import textwrap
from typing import Any

import numpy as np

import drjit as dr
from drjit import nn

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^( *)```python\n( *>>> .*?)^\1```$", re.M | re.S)
NAMES = ("Array3f", "Float", "TensorXf", "UInt32")
"""The types that examples of pages need not import."""


def sections(page: str) -> list[tuple[str, str]]:
    """Titles, and the examples beneath them, which share their names, as one text."""
    found = []
    for section in re.split(r"^## ", page, flags=re.M):
        examples = [textwrap.dedent(block[1]) for block in BLOCK.findall(section)]
        if examples:
            found.append((section.splitlines()[0], "\n".join(examples)))
    return found


def frameworks(examples: str) -> list[str]:
    """Which of the packages that need not be installed the examples import."""
    return [name for name in ("torch", "jax") if f"import {name}" in examples]


def failures(examples: str, title: str, names: dict[str, Any] | None = None) -> str:
    """Runs examples and returns what went wrong, or an empty text."""
    if names is None:
        names = {"dr": dr} | {name: getattr(dr.auto.ad, name) for name in NAMES}
    test = doctest.DocTestParser().get_doctest(examples, names, title, None, 0)
    lines: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=lines.append)
    return "".join(lines) if outcome.failed else ""


def of_docstring(value: Any) -> dict[str, Any]:
    """The names that examples of a docstring know, as for `tests/package/test_docstrings.py`."""
    ad = dr.auto.ad
    types = {name: getattr(ad, name) for name in dir(ad) if not name.startswith("_")}
    given = {"dr": dr, "np": np, "nn": nn, "ad": ad, "__name__": "__main__"}
    module = getattr(value, "__module__", None) or ""
    own = vars(importlib.import_module(module)) if module.startswith("drjit.") else {}
    return types | dict(own) | given


def setup(app: Any) -> dict[str, bool]:
    from sphinx.util import logging

    logger = logging.getLogger(__name__)

    def page(app: Any, document: str, source: list[str]) -> None:
        for title, examples in sections(source[0]):
            installed = all(importlib.util.find_spec(name) for name in frameworks(examples))
            if installed and (wrong := failures(examples, title)):
                logger.warning("an example fails:\n%s", wrong, location=document)

    def docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]):
        text = "\n".join(lines)
        if ">>> " in text and (wrong := failures(text, name, of_docstring(value))):
            logger.warning("an example fails:\n%s", wrong, location=name)

    app.connect("source-read", page)
    # Before sections of docstrings become markup.
    app.connect("autodoc-process-docstring", docstring, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

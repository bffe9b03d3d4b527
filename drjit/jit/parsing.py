"""Syntax trees of texts, made by threads at the same time.

CPython (3.11, and some later versions) counts in one place, for all threads, how deep the tree is
that it builds, and raises SystemError if another tree was built meanwhile. That happens if the
garbage collector calls a destructor in between: Python code, during which another thread may run.
"""

import ast

from . import collector


def syntax_tree(text: str, file: str = "<unknown>") -> ast.Module:
    """Returns the syntax tree of a text, with the collector paused.

    Raises SyntaxError, which names the file, if the text is not Python.

    >>> ast.unparse(syntax_tree("x  =  1"))
    'x = 1'
    """
    with collector.paused():
        return ast.parse(text, file)

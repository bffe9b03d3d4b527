"""Parsing of Python text, safe in several threads at once.

CPython (3.11, and some later versions) keeps one count of nesting levels for all threads while it
builds a syntax tree, and raises SystemError if another tree was built in the meantime. That happens
if the garbage collector calls a destructor in between: Python code, during which another thread may
run.
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

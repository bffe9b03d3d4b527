"""Syntax trees of texts, made by threads at the same time.

CPython (3.11, and some later versions) counts in one place, for all threads, how deep the tree is
that it builds, and raises SystemError if another tree was built meanwhile. That happens if the
garbage collector calls a destructor in between: Python code, during which another thread may run.
"""

import ast
import gc
import threading

_lock = threading.RLock()
_inside = 0  # threads that make trees
_collects = False  # whether the collector was on before the first of them


def syntax_tree(text: str, file: str = "<unknown>") -> ast.Module:
    """Returns the syntax tree of a text, with the collector off.

    Raises SyntaxError, which names the file, if the text is not Python.

    >>> ast.unparse(syntax_tree("x  =  1"))
    'x = 1'
    """
    global _inside, _collects
    with _lock:
        if not _inside:
            _collects = gc.isenabled()
        gc.disable()
        _inside += 1
    try:
        return ast.parse(text, file)
    finally:
        with _lock:
            _inside -= 1
            if _collects and not _inside:
                gc.enable()

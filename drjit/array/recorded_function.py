"""Functions composed of many operations on one-dimensional arrays, such as a matrix inverse: their
trace is recorded once and repeated for other arrays.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..jit import flags
from ..jit.ir.node import Node
from ..jit.trace.template import Template
from .base import ArrayBase
from .leaf import wrap

Function = Callable[..., Sequence[Any]]


def repeated(function: Function, arrays: Sequence[Any], *args: Any) -> Sequence[Any]:
    """Evaluates `function(arrays, *args)`, which takes arrays or numbers of one class and returns
    some. It must only do arithmetic and not look at their contents, and `args` must be hashable.
    """
    cls = type(arrays[0])
    if not flags.current & 1 and issubclass(cls, ArrayBase) and cls._kind == "leaf":
        for a in arrays:
            if type(a) is not cls or a._var is not None:
                break
        else:
            template, classes = _template(function, cls, len(arrays), args)
            nodes = template((), [a._node for a in arrays])
            if nodes is not None:
                return [*map(wrap, classes, nodes)]
    return function(arrays, *args)


@lru_cache(maxsize=256)
def _template(function: Function, cls: Any, count: int, args: tuple) -> tuple[Template, list[Any]]:
    """Returns the template of a function, and the classes of its results."""
    classes: list[Any] = []

    def trace(_: list[Node], lanes: list[Node]) -> list[Node]:
        found = function([wrap(cls, n) for n in lanes], *args)
        classes.extend(map(type, found))
        return [a._node for a in found]

    return Template(trace, (), [cls._dtype] * count), classes

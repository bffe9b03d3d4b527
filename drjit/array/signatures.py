"""Decorators that state for type checkers how the type of a function's result follows from those of
its arguments, where its own annotations cannot: `signatures.pyi` has their protocols. At run time,
they return the function itself.
"""

from typing import Any


def _stated(function: Any) -> Any:
    return function


def __getattr__(name: str) -> Any:
    if name[:1] == "_":
        raise AttributeError(name)
    return _stated

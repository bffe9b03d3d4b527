"""Stand-ins for variables without a value, which a loop or branch may assign."""

from collections.abc import Callable
from typing import Any, NoReturn


class UndefinedError(NameError, RuntimeError):
    """A variable has a value on only some of the paths that lanes take together."""


class Undefined:
    """A variable without a value. Every use raises what Python would raise."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __repr__(self) -> str:
        return f"<undefined variable {object.__getattribute__(self, '_name')!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined)

    __hash__ = None  # type: ignore[assignment]


def _use(self: Undefined, *_: Any) -> NoReturn:
    name = object.__getattribute__(self, "_name")
    raise UnboundLocalError(
        f"cannot access local variable '{name}' where it is not associated with a value"
    )


_OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift", "lt", "le", "gt", "ge", "neg", "pos", "invert", "bool", "len", "iter",
    "getitem", "setitem", "call", "int", "float", "index",
]  # fmt: skip
for _name in _OPERATORS:
    for _form in (_name, "r" + _name, "i" + _name):
        setattr(Undefined, f"__{_form}__", _use)
Undefined.__getattr__ = _use  # type: ignore[attr-defined]


def value(read: Callable[[], Any], name: str) -> Any:
    """Returns the result of `read`, the value of a variable of that name, or a stand-in if it has
    none."""
    try:
        return read()
    except NameError:
        return Undefined(name)


def is_undefined(found: Any) -> bool:
    """Returns whether a variable has no value."""
    return type(found) is Undefined

"""Named tuples like those of the module `typing`. Their classes are created in a quarter of the
time: a small program imports fifty of them.

`typing` checks the annotations, and compiles a constructor for each class. Here, constructors with
the same number of fields share their code, except for the names.
"""

import sys
from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

_UNEXPECTED = TypeError if sys.version_info >= (3, 13) else ValueError


class _Base(tuple):
    """What all named tuples have in common."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    _field_defaults: dict[str, Any] = {}  # noqa: RUF012

    @classmethod
    def _make(cls, iterable: Iterable) -> Any:
        """Makes a tuple from a sequence of values."""
        values = tuple.__new__(cls, iterable)
        if len(values) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(values)}")
        return values

    def _replace(self, /, **values: Any) -> Any:
        """Returns a copy with other values of some fields."""
        copy = self._make(map(values.pop, self._fields, self))
        if values:
            raise _UNEXPECTED(f"Got unexpected field names: {list(values)!r}")
        return copy

    __replace__ = _replace  # what `copy.replace` calls, from Python 3.13 on

    def _asdict(self) -> dict[str, Any]:
        """Returns the values by name."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        fields = [f"{name}={v!r}" for name, v in zip(self._fields, self, strict=True)]
        return f"{type(self).__name__}({', '.join(fields)})"

    def __getnewargs__(self) -> tuple:
        return tuple(self)


@cache
def _constructor(count: int) -> CodeType:
    """Returns the code of the constructor of tuples with `count` fields."""
    names = "".join([f"_{k}, " for k in range(count)])
    return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__


class _Type(type):
    """The class of `NamedTuple`, whose subclasses have the class `type`."""

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, members)
        annotations = members.get("__annotations__", {})
        fields = tuple(annotations)
        defaults = {field: members.pop(field) for field in fields if field in members}
        code = _constructor(len(fields)).replace(
            co_varnames=("_cls", *fields), co_name="__new__", co_qualname=f"{name}.__new__"
        )
        space = {"_new": tuple.__new__, "__name__": f"namedtuple_{name}", "__builtins__": {}}
        new = FunctionType(code, space, "__new__", tuple(defaults.values()))
        new.__annotations__ = annotations
        own: dict[str, Any] = {
            "__slots__": (),
            "__doc__": f"{name}({', '.join(fields)})",
            "__match_args__": fields,
            "__new__": new,
            "_fields": fields,
            "_field_defaults": defaults,
        }
        for k, field in enumerate(fields):
            own[field] = _tuplegetter(k, f"Alias for field number {k}")
        return type(name, (_Base,), own | members)


# From Python 3.14 on, annotations are functions of a class.
if TYPE_CHECKING or sys.version_info >= (3, 14):
    from typing import NamedTuple
else:

    class NamedTuple(metaclass=_Type):
        """A tuple whose items have names: those of the annotations of a subclass."""

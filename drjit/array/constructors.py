"""Constructors of classes: one-dimensional traced arrays, and vectors of these, from arrays of the
same types and from numbers. All other arguments are left to `construct.init`, which defines the
results.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from ..ad.graph import visible
from ..jit.ir import node
from .construct import EXACT, init
from .inline import own_code
from .leaf import cast, copies, new


def add(cls: Any) -> None:
    """Gives a class a constructor of its own, if it is one of those."""
    if not cls._usable or cls._namespace == "scalar":
        return
    if cls._kind == "leaf":
        made = _of_leaf(cls)
    elif cls._size and cls.Value is cls._leaf:
        made = _of_vector(cls)
    else:
        return
    cls.__init__ = own_code(made, "__init__", cls)
    cls.__init__.__doc__ = init.__doc__


def _of_leaf(cls: Any) -> Callable[..., None]:
    diff, backend, dtype = cls._diff, cls._backend, cls._dtype
    literal = node.literals(dtype)

    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) == 1 and not kwargs and type(self) is cls:
            arg = args[0]
            kind = type(arg)
            if kind is cls:
                self._node = arg._node
                if diff:
                    v = arg._var
                    self._var = v if v is None else visible(v)
                return
            if kind is float or (kind is int and -EXACT <= arg <= EXACT):
                n = literal(arg)
                if n is not None:
                    self._node = n
                    if diff:
                        self._var = None
                    return
            elif getattr(kind, "_kind", "") == "leaf" and arg._backend is backend:
                if arg._var is None:
                    self._node = node.cast(dtype, arg._node)
                    if diff:
                        self._var = None
                    return
                made = cast(cls, arg)
                self._node = made._node
                if diff:
                    self._var = made._var
                return
        init(self, *args, **kwargs)

    return constructor


def _of_vector(cls: Any) -> Callable[..., None]:
    leaf, size, diff, backend = cls._leaf, cls._size, cls._diff, cls._backend
    literal = node.literals(cls._dtype)
    is_filled, dims = cls.__meta__.kind == "vector", cls.__meta__.dims  # filled with one number
    filled = copies(leaf, size)

    def components(args: Iterable[Any]) -> list[Any] | None:
        found = []
        for arg in args:
            kind = type(arg)
            c = new(leaf)
            if kind is leaf:
                c._node = arg._node
                if diff:
                    v = arg._var
                    c._var = v if v is None else visible(v)
            elif kind is float or (kind is int and -EXACT <= arg <= EXACT):
                c._node = n = literal(arg)
                if n is None:
                    return None
                if diff:
                    c._var = None
            elif getattr(kind, "_kind", "") == "leaf" and arg._backend is backend:
                c = cast(leaf, arg)
            else:
                return None
            found.append(c)
        return found

    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        entries: Iterable[Any] = args
        count = len(args)
        if count == 1:
            arg = args[0]
            kind = type(arg)
            if kind is cls:
                entries = arg._components
                count = len(arg._components)
            elif not is_filled:
                pass
            elif kind is leaf:
                entries, count = repeat(arg, size), size
            elif kind is float or (kind is int and -EXACT <= arg <= EXACT):
                n = literal(arg)
                if n is not None and not kwargs:
                    self._components = filled(n)
                    return
            elif getattr(kind, "_kind", "") == "nested":
                meta = arg.__meta__
                if meta.kind == "vector" and meta.dims == dims:
                    entries, count = arg._components, len(arg._components)
        if count == size and not kwargs:
            made = components(entries)
            if made is not None:
                self._components = made
                return
        init(self, *args, **kwargs)

    return constructor

"""Arrays of references to Python objects. Referenced objects are registered by number for each
class, so that method calls can become part of a kernel.
"""

import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from typing import Any, ClassVar

from ...array import leaf, table
from ...array.base import ArrayBase, IncompatibleError, type_label
from ...jit.backend import JitBackend
from ...jit.ir import dtype as dt

_types: "weakref.WeakSet[type[InstanceArray]]" = weakref.WeakSet()


def clear_registry() -> None:
    """Unregisters all objects that arrays of instances refer to; the references then become null
    pointers. Their numbers are not used again, because arrays may still contain them.

    >>> dr.detail.clear_registry()
    """
    for cls in list(_types):
        cls._objects.clear()
        cls._numbers_by_id.clear()


class InstanceArray:
    """Base class of the types that `instance_t` creates: arrays of references to Python objects.
    Each is a PyTree whose only array holds the numbers of the objects.

    The objects are kept alive until `unregister` or `dr.detail.clear_registry` is called. A
    reference to none, or to an unregistered object, is a null pointer, for which `dr.dispatch`
    returns zeros.
    """

    __module__ = "drjit"

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {}
    domain: ClassVar[type]
    _backend: ClassVar[JitBackend]  # that of the numbers
    _objects: ClassVar[dict[int, Any]]  # the registered ones by number, from 1 on
    _numbers_by_id: ClassVar[dict[int, int]]
    _counter: ClassVar[Iterator[int]]
    index: Any

    def __init__(self, value: Any = ()) -> None:
        """Creates references to one object or to each of a sequence of objects (None for null
        pointers), or copies those of another array of this type.

        Raises:
            TypeError: an object is not an instance of this type's class.
        """
        cls = self.DRJIT_STRUCT["index"]
        if isinstance(value, type(self)):
            self.index = cls(value.index)
        elif value is None or isinstance(value, self.domain):
            self.index = leaf.literal(cls, self.register(value))
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for v in value:
                self._check(v)  # check all of them before one is registered
            self.index = cls([self.register(v) for v in value])
        else:
            self._check(value)

    @classmethod
    def _check(cls, instance: Any) -> None:
        if instance is not None and not isinstance(instance, cls.domain):
            raise TypeError(
                f"{cls.__name__}: expected objects of class {cls.domain.__qualname__} or None, not "
                f"{type_label(instance)}"
            )

    @classmethod
    def register(cls, instance: Any) -> int:
        """Returns the number of an object, or 0 for None, registering it if necessary.

        Raises:
            TypeError: the object is not an instance of this type's class.
        """
        cls._check(instance)
        if instance is None:
            return 0
        number = cls._numbers_by_id.get(id(instance))
        if number is None:
            number = cls._numbers_by_id[id(instance)] = next(cls._counter)
            cls._objects[number] = instance
        return number

    @classmethod
    def unregister(cls, instance: Any) -> None:
        """Unregisters an object: references to it become null pointers.

        Raises:
            RuntimeError: the object is not registered.
        """
        number = cls._numbers_by_id.pop(id(instance), None)
        if number is None:
            raise RuntimeError(f"{cls.__name__}.unregister(): {instance!r} is not registered")
        del cls._objects[number]

    @classmethod
    def instances(cls) -> dict[int, Any]:
        """Returns the registered objects by number."""
        return dict(cls._objects)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, k: int) -> Any:
        """Returns the object that entry `k` refers to, or None."""
        return self._objects.get(self.index[k])

    def __iter__(self) -> Iterator[Any]:
        return iter([self._objects.get(number) for number in self.index])

    def __eq__(self, other: Any) -> Any:
        """Returns where two arrays refer to the same object, or where this one refers to a given
        object or (None) to none."""
        return self.index == self._numbers(other)

    def __ne__(self, other: Any) -> Any:
        return self.index != self._numbers(other)

    __hash__ = None  # type: ignore[assignment]

    def _numbers(self, other: Any) -> Any:
        if isinstance(other, type(self)):
            return other.index
        if isinstance(other, InstanceArray):
            raise IncompatibleError(
                f"cannot compare references of type {type(self).__name__} and "
                f"{type(other).__name__}"
            )
        return self.register(other)

    def __repr__(self) -> str:
        return repr(list(self))


@cache
def instance_t(dtype: type, domain: type) -> type[InstanceArray]:
    """Returns the type of arrays of references to Python objects of class `domain` (or subclasses),
    on the backend of an array type. Each entry is a number by which `dr.dispatch` finds the object.

    Raises:
        TypeError: `dtype` is not a traced array type, or `domain` is not a class.

    >>> from drjit.llvm import Float, UInt
    >>> class Shape:
    ...     def __init__(self, size):
    ...         self.size = size
    >>> ShapePtr = dr.instance_t(Float, Shape)
    >>> p = ShapePtr([Shape(2), None, Shape(3)])
    >>> dr.dispatch(p, lambda shape, x: x * shape.size, Float(10, 20, 30))
    [20, 0, 90]
    """
    is_array = isinstance(dtype, type) and issubclass(dtype, ArrayBase)
    if not is_array or not dtype.__meta__.is_jit:
        raise TypeError(
            f"dr.instance_t(): 'dtype' is {dtype!r}; expected a traced array type such as "
            "drjit.llvm.Float"
        )
    if not isinstance(domain, type):
        raise TypeError(f"dr.instance_t(): 'domain' is {domain!r}; expected a class")
    index = table.find(dtype._namespace, "leaf", dt.u32)
    members = {
        "DRJIT_STRUCT": {"index": index},
        "__doc__": InstanceArray.__doc__,
        "__module__": domain.__module__,
        "domain": domain,
        "_backend": index._backend,
        "_objects": {},
        "_numbers_by_id": {},
        "_counter": count(1),
    }
    made = type(f"{domain.__name__}Ptr", (InstanceArray,), members)
    _types.add(made)
    return made

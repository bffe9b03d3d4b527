"""`Module`, the base of all layers: a mapping from dotted names to parameters.

A module finds its parameters by walking its fields, so that it keeps no list of them. Where weights
were packed, the fields hold views of one buffer, and the mapping shows that buffer as one entry.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from numbers import Number
from typing import Any, NamedTuple, Self

from ..array.base import ArrayBase, type_label
from ..array.pytree import field_names
from ..function.create import full
from ..function.memory import gather
from ..function.traits import is_float_v, is_tensor_v, shape
from ..random import Generator
from ..random import rng as make_rng
from .matrix import MatrixView

PACKED_KEY = "weights"
_PLAIN = (int, float, str, type, type(None))
_DEFAULT_SEED = 0x100000000  # of the initial weights where no generator is given


class Slot(NamedTuple):
    """A place that holds a parameter."""

    get: Callable[[], Any]
    put: Callable[[Any], None]


class Module(MutableMapping[str, ArrayBase]):
    """Base of all layers and networks: a callable, and a mapping from names to parameters.

    A subclass lists its fields in `DRJIT_STRUCT`, or is a data class, implements `__call__`, and
    `_alloc` where it has parameters or changes the number of features. The name of a parameter is
    the way to it, with dots: `layers.0.weights`. A field `prefix` that is not empty precedes all
    names of the module that is used as a mapping.

    >>> from drjit.llvm import TensorXf
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).alloc(TensorXf, 2)
    >>> list(net)
    ['layers.0.weights', 'layers.0.bias']
    >>> net["layers.0.bias"] = 1
    >>> net["layers.0.bias"]
    [1, 1, 1]
    """

    __module__ = "drjit.nn"

    # A module is an object with a state: two are equal if they are the same.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, arg: Any, /) -> Any:
        """The module's output for a tensor of shape (features, N), or for a cooperative vector."""
        raise NotImplementedError(f"{module_name(self)}: the class implements no __call__()")

    def alloc(self, dtype: type, size: int = -1, rng: Generator | None = None) -> Self:
        """A copy of the network with initial parameters of a tensor type.

        `size` is the number of input features; from it follow the sizes that were declared as -1.
        Weights are drawn from `rng`; without one, every call gives the same numbers.

        Raises:
            TypeError: `dtype` is no tensor type of floating point numbers, `rng` no generator.
            RuntimeError: a layer's size is -1 and does not follow from `size`.
            ValueError: the sizes of two layers, or of a layer and the input, differ.
        """
        where = f"{module_name(self)}.alloc()"
        if not (isinstance(dtype, type) and is_tensor_v(dtype) and is_float_v(dtype)):
            label = type_label(dtype) if isinstance(dtype, type) else repr(dtype)
            raise TypeError(
                f"{where}: a Linear layer requires a Tensor type of floating point numbers such as "
                f"TensorXf or TensorXf16, got {label}"
            )
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{where}: size must be an int, got {size!r}")
        if rng is None:
            rng = make_rng(seed=_DEFAULT_SEED)
        elif not isinstance(rng, Generator):
            raise TypeError(
                f"{where}: rng must be a generator as dr.rng() makes one, got {type_label(rng)}"
            )
        return self._alloc(dtype, size, rng)[0]

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        """The module with parameters for inputs of `size` features, -1 if that is unknown, and the
        number of its output features. The default is a layer without parameters that keeps it."""
        return self, size

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __getitem__(self, key: str, /) -> ArrayBase:
        return self._slot(key).get()

    def __setitem__(self, key: str, value: Any, /) -> None:
        slot = self._slot(key)
        slot.put(_fitted(module_name(self), key, slot.get(), value))

    def __delitem__(self, key: str, /) -> None:
        raise TypeError(f"{module_name(self)}: the parameter {key!r} cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots())

    def __len__(self) -> int:
        return len(self._slots())

    def __contains__(self, key: object, /) -> bool:
        return key in self._slots()

    def update(self, other: Any = (), /, **kwargs: Any) -> None:
        """Assigns the parameters that a mapping (an optimizer, another module) or pairs of names
        and values contain; the others keep their values. A module with a prefix passes over names
        that do not begin with it, which belong to others that share the optimizer. Values are
        converted to the type of the parameter. Nothing is assigned if any value does not fit.

        Raises:
            KeyError: a name is none of the module's, or no name begins with its prefix.
            ValueError: a shape differs from that of the parameter.
            TypeError: a value cannot be converted.
        """
        given = _given(other, f"{module_name(self)}.update()") | kwargs
        own, slots = self._own(given), self._slots()
        unknown = [key for key in own if key not in slots]
        if unknown or (given and not own):
            raise KeyError(
                f"{module_name(self)}.update(): no parameter {_listed(unknown or given)}; "
                f"there is {_listed(slots)}"
            )
        fitted = {
            key: _fitted(f"{module_name(self)}.update()", key, slots[key].get(), value)
            for key, value in own.items()
        }
        for key, value in fitted.items():
            slots[key].put(value)

    def _own(self, given: dict[str, Any]) -> dict[str, Any]:
        prefix = getattr(self, "prefix", "")
        if not prefix:
            return given
        return {key: value for key, value in given.items() if str(key).startswith(f"{prefix}.")}

    def _slot(self, key: str) -> Slot:
        slots = self._slots()
        if key not in slots:
            raise KeyError(f"{module_name(self)}: no parameter {key!r}; there is {_listed(slots)}")
        return slots[key]

    def _slots(self) -> dict[str, Slot]:
        prefix = getattr(self, "prefix", "")
        path = (prefix,) if prefix else ()
        slots: dict[str, Slot] = {}
        views: list[MatrixView] = []
        for names, slot in _walk(path, lambda: self, lambda _: None):
            value = slot.get()
            if isinstance(value, MatrixView):
                views.append(value)
            else:
                slots[".".join(names)] = slot
        if views:
            buffers = list({id(view.buffer): view.buffer for view in views}.values())
            slots[".".join((*path, PACKED_KEY))] = Slot(
                lambda: buffers[0], partial(_overwrite, buffers)
            )
        return slots


def _walk(
    path: tuple[str, ...], get: Callable[[], Any], put: Callable[[Any], None]
) -> Iterator[tuple[tuple[str, ...], Slot]]:
    """The places of arrays and views in a module, and the names on the way to them."""
    value = get()
    if isinstance(value, (ArrayBase, MatrixView)):
        yield path, Slot(get, put)
        return
    places: list[tuple[Any, Any, Slot]]
    if isinstance(value, Module):
        names = field_names(type(value)) or ()
        places = [
            (n, getattr(value, n), Slot(partial(getattr, value, n), partial(setattr, value, n)))
            for n in names
        ]
    elif isinstance(value, tuple):
        places = [
            (i, v, Slot(partial(_item, get, i), partial(_replace, get, put, i)))
            for i, v in enumerate(value)
        ]
    elif isinstance(value, (list, dict)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        places = [
            (k, v, Slot(partial(value.__getitem__, k), partial(value.__setitem__, k)))
            for k, v in items
        ]
    else:
        return
    for name, child, slot in places:
        if not isinstance(child, _PLAIN):
            yield from _walk((*path, str(name)), *slot)


def _item(get: Callable[[], Any], i: int) -> Any:
    return get()[i]


def _replace(get: Callable[[], Any], put: Callable[[Any], None], i: int, new: Any) -> None:
    old = get()
    make = getattr(type(old), "_make", type(old))
    put(make((*old[:i], new, *old[i + 1 :])))


def _overwrite(buffers: list[Any], value: Any) -> None:
    # In place, as the views refer to the buffer; not by a scatter, as all of it is replaced.
    for buffer in buffers:
        buffer._assign(value)


def _given(other: Any, where: str) -> dict[str, Any]:
    if isinstance(other, Mapping) or hasattr(other, "keys"):
        return {key: other[key] for key in other.keys()}  # noqa: SIM118
    try:
        return dict(other)
    except (TypeError, ValueError):
        raise TypeError(
            f"{where}: expected a mapping, such as an optimizer or a module, or pairs of names and "
            f"values, got {type_label(type(other))}"
        ) from None


def _fitted(where: str, key: str, target: Any, value: Any) -> Any:
    """A value converted to the type of the parameter that it replaces."""
    kind = type(target)
    if isinstance(value, Number):
        return full(kind, value, shape(target))
    if type(value) is kind and shape(value) == shape(target):
        return value
    try:
        if isinstance(value, ArrayBase):
            # A tensor is flat when it goes into an array, and its shape was its own.
            found = shape(value)
            flat = is_tensor_v(value) and not is_tensor_v(kind)
            if found == shape(target):
                return kind(value.array if flat else value)
        else:
            new = kind(value)
            found = shape(new)
            if found == shape(target):
                return new
    except TypeError as error:
        raise TypeError(
            f"{where}: the parameter {key!r} of type {type_label(kind)} cannot be assigned a value "
            f"of type {type_label(type(value))} ({error})"
        ) from None
    raise ValueError(
        f"{where}: the parameter {key!r} has shape {shape(target)}, the value has shape {found}"
    )


def entry(value: Any) -> Any:
    """A parameter that is one number, which is read from the buffer where it was packed."""
    if isinstance(value, MatrixView):
        return gather(type(value.buffer), value.buffer, value.offset)
    return value


def _listed(keys: Iterable[Any]) -> str:
    """Some keys for a message."""
    names = [repr(key) for key in keys]
    more = f" and {len(names) - 6} more" if len(names) > 7 else ""
    return (", ".join(names[:6] if more else names) or "none") + more


def module_name(module: Module) -> str:
    cls = type(module)
    return f"{cls.__module__}.{cls.__qualname__}"

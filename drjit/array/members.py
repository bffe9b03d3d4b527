"""Properties and protocols of all arrays: components, length, iteration, conversion to Python
values, labels, copies, exchange with other libraries.

Importing this module adds them to `ArrayBase`.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any, NoReturn

from ..ad import graph as derivatives
from ..jit import frames
from ..jit.ir import label as labels
from ..jit.ir.node import AFTER, BUFFER, LITERAL
from ..jit.ir.scope import recording
from ..jit.run import freeze_size
from ..jit.text.structure import is_open
from . import index, interop, leaf, show, table, tensor
from .base import ArrayBase, ComponentError, type_label
from .construct import init
from .meta import VarState
from .operators import filled
from .pytree import leaf_arrays
from .special import of_components

_STATES = {LITERAL: VarState.Literal, BUFFER: VarState.Evaluated, AFTER: VarState.Dirty}


def components(self: Any) -> list:
    """The components of a nested array, or the storage of a tensor."""
    return [self._array] if self._kind == "tensor" else self._components


def state(self: Any) -> VarState:
    """The state of evaluation, which is literal, unevaluated, evaluated, with pending side effects
    (dirty), symbolic (in the body of a loop, branch or call being recorded), or mixed.
    """
    if self._kind == "leaf":
        n = self._node
        if n.size == 0:
            return VarState.Invalid
        known = _STATES.get(n.op)
        if known is None and recording() and is_open(n):
            return VarState.Symbolic
        return known or VarState.Unevaluated
    if self._namespace == "scalar":
        return VarState.Invalid
    found = {c.state for c in components(self)}
    if not found:
        return VarState.Invalid
    return found.pop() if len(found) == 1 else VarState.Mixed


def ndim(self: Any) -> int:
    """The number of dimensions, including lanes."""
    if self._kind == "tensor":
        return len(self._shape)
    return len(self.__meta__.dims) + self.__meta__.is_jit


def shape(self: Any) -> tuple[int, ...]:
    """The sizes of all dimensions, lanes last.

    Raises:
        RuntimeError: components differ in size.
    """
    found = show.shape_of(self)
    if found is None:
        raise show.ragged(self, f"{type_label(self)}.shape")
    return freeze_size.shape(found)


def array(self: Any) -> Any:
    """The plain array, which is that of the entries of a tensor, an `Array33f` of a `Matrix3f`,
    and otherwise the array itself.
    """
    if self._kind == "tensor":
        return self._array
    if type(self) is self.Array:
        return self
    return self.Array(self)


def item(self: Any) -> Any:
    """Returns the only entry of an array or tensor as a Python number.

    Raises:
        RuntimeError: the array has components, or does not have exactly one entry.
    """
    flat = self._array if self._kind == "tensor" else self
    if is_single(self):
        if flat._kind == "nested":
            return flat._components[0]
        return flat._node.data if flat._node.op is LITERAL else leaf.entries(flat)[0]
    raise RuntimeError(
        f"{type_label(self)}.item(): can only convert arrays of length 1 to Python scalars, the "
        f"shape is {self.shape}"
    )


def is_single(a: Any) -> bool:
    """Returns whether an array or tensor is one number."""
    flat = a._array if a._kind == "tensor" else a
    if flat._kind == "leaf":
        return flat._node.size == 1
    return len(flat._components) == 1 and not isinstance(flat._components[0], ArrayBase)


def length(self: Any) -> int:
    kind = self._kind
    if kind == "leaf":
        return freeze_size.length(self._node.size)
    if kind == "tensor":
        return freeze_size.length(self._shape[0] if self._shape else 0)
    return len(self._components)


def iterate(self: Any) -> Iterator[Any]:
    """Yields the entries as Python numbers, the components, or the slices of a tensor."""
    kind = self._kind
    if kind == "leaf":
        yield from [*leaf.entries(self)]
    elif kind == "nested":
        yield from list(self._components)
    else:
        for i in range(length(self)):
            yield self[i]


def delete(self: Any, key: Any) -> NoReturn:
    """Entries cannot be removed.

    Raises:
        TypeError: always.
    """
    raise TypeError(f"{type_label(self)}: entries and components cannot be deleted")


def contains(self: Any, value: Any) -> bool:
    for entry in self:
        equal = entry == value
        if any(_entries(equal)) if isinstance(equal, ArrayBase) else equal:
            return True
    return False


def _entries(a: Any) -> list:
    if a._kind == "leaf":
        return [*leaf.entries(a)]
    return [v for c in components(a) for v in (_entries(c) if isinstance(c, ArrayBase) else [c])]


def truth(self: Any) -> bool:
    """Returns the value of a mask with a single entry.

    Raises:
        TypeError: the array is not a mask.
        RuntimeError: the array does not have exactly one entry.
    """
    what = f"{type_label(self)}.__bool__(): implicit conversion to 'bool'"
    if not self._dtype.is_mask:
        raise TypeError(
            f"{what} is only supported for scalar mask arrays. Compare first, such as in "
            "`if (x > 0):`, or use dr.any() and dr.all()."
        )
    flat = self._array if self._kind == "tensor" else self
    if is_single(self):
        return bool(item(flat))
    unit, count = ("dimension", n) if (n := ndim(flat)) > 1 else ("element", len(flat))
    raise RuntimeError(
        f"{what} requires an array with at most 1 {unit} (this one has {count} {unit}s). Use "
        "dr.any() or dr.all(), or @dr.syntax for a condition on every entry."
    )


# Components by name


def _absent(name: str) -> property:
    def absent(self: Any, *_: Any) -> NoReturn:
        raise index.no_component(self, name)

    return property(absent, absent, doc=f"The component {name}.")


def _real_or_imaginary(name: str) -> property:
    """Returns the property `real` or `imag` of arrays that have no such component."""

    def get(self: Any) -> Any:
        if self.__meta__.kind == "quaternion":
            return index.swizzled(self, (0, 1, 2))
        return self if name == "real" else filled(self, 0)

    def put(self: Any, value: Any) -> None:
        raise ComponentError(
            f"type '{type_label(self)}' is not complex-valued, cannot assign to '{name}'."
        )

    return property(get, put, doc=f"The component {name}.")


def _component(name: str, position: int) -> property:
    return property(
        lambda self: self._components[position],
        lambda self, value: index.setitem(self, position, value),
        doc=f"The component {name}.",
    )


_COMPONENTS = {name: _component(name, i) for i, name in enumerate("xyzw")}
_PARTS = {
    "complex": {"real": _component("real", 0), "imag": _component("imag", 1)},
    "quaternion": {"real": _component("real", 3)},
}


def transposed(self: Any) -> Any:
    """The transpose of a matrix, a square array, or a two-dimensional tensor."""
    if self._kind == "tensor" and len(self._shape) != 2:
        raise TypeError(
            f"{type_label(self)}.T: for 2-D tensors, the shape is {self._shape}; .mT swaps the "
            "last two axes of several, dr.transpose() any"
        )
    return matrix_transposed(self)


def matrix_transposed(self: Any) -> Any:
    """The transpose of a matrix, a square array, or the last two axes of a tensor."""
    if self._kind == "tensor":
        ndim = len(self._shape)
        if ndim < 2:
            raise TypeError(
                f"{type_label(self)}.mT: needs at least 2 dimensions, the shape is {self._shape}"
            )
        return tensor.transposed(self, (*range(ndim - 2), ndim - 1, ndim - 2))
    dims = self.__meta__.dims
    if self._kind != "nested" or len(dims) < 2 or dims[0] != dims[1]:
        raise TypeError(f"{type_label(self)}: only matrices and square arrays have a transpose")
    cls = type(self)
    columns = zip(*[row._components for row in self._components], strict=True)
    return of_components(cls, [cls.Value(*column) for column in columns])


def _html(self: Any) -> str | None:
    """What notebooks show."""
    from .html import array_html

    return array_html(self)


# Identity and labels


def get_label(self: Any) -> str | None:
    """A name shown in kernel text and graphs; None if there is none."""
    arrays = leaf_arrays(self)
    return labels.labels.get(arrays[0]._node) if arrays else None


def set_label(self: Any, name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{type_label(self)}.label: expected a string, got {type_label(name)}")
    if self._kind == "leaf":
        labels.labels[self._node] = name
        if self._var is not None:
            derivatives.labels[self._var] = name
        return
    if self._kind == "tensor":
        return set_label(self._array, name)
    parts = self._components
    names = "xyzw" if len(parts) <= 4 and self.__meta__.kind != "matrix" else range(len(parts))
    for part, c in zip(names, parts, strict=False):
        if isinstance(c, ArrayBase):
            set_label(c, f"{name}_{part}")


def value_number(self: Any) -> int:
    """A number that identifies the traced value of a one-dimensional array; 0 for others."""
    return leaf.number_of_node(self._node) if self._kind == "leaf" else 0


def derivative_number(self: Any) -> int:
    """A number that identifies the variable in the derivative graph; 0 without one."""
    return leaf.number_of_var(self._var)


@cache
def _swizzle(name: str) -> property:
    positions = index.positions(name)
    return property(
        frames.guard(lambda self: index.swizzled(self, positions)),
        frames.guard(lambda self, value: index.setattr_swizzle(self, name, value)),
        doc=f"The components {name}.",
    )


# One property per name of up to four letters: a __setattr__ would slow down every operation. Longer
# names are read by __getattr__. One-dimensional arrays lack that, too: the interpreter reads
# attributes of classes without __getattr__ several times as fast.
@cache
def _swizzles(size: int) -> dict[str, property]:
    """Returns the properties of arrays with that many components. They are created for the first
    such class, as many programs have none with four."""
    letters = "xyzw"[:size]
    names = ["".join(p) for n in range(2, 5) for p in product(letters, repeat=n)]
    return {name: _swizzle(name) for name in names}


def add_swizzles(cls: Any) -> None:
    """Adds properties that name several components to a vector class: `v.xy = v.yx`."""
    if cls._kind != "leaf":
        cls.__getattr__ = get_attribute
    meta = cls.__meta__
    for name, component in _PARTS.get(meta.kind, {}).items():
        setattr(cls, name, component)
    if meta.kind in ("vector", "quaternion"):
        for name in "xyzw"[: cls._size or 0]:
            setattr(cls, name, _COMPONENTS[name])
        if cls._size in (2, 3, 4):
            for name, swizzle in _swizzles(cls._size).items():
                setattr(cls, name, swizzle)


def init_subclass(cls: Any) -> None:
    """Prepares a program's subclass of a class of the table."""
    if "__meta__" not in vars(cls):
        cls.__getattr__ = get_attribute


_CONTENTS = frozenset(("_node", "_var", "_components", "_array", "_shape"))


@frames.guard
def get_attribute(self: Any, name: str) -> Any:
    """Reads several components at once: `v.xxyy`."""
    if name in _CONTENTS:
        raise RuntimeError(
            f"{type_label(self)}: this array was never initialized. A derived class calls "
            "super().__init__() before it uses the array."
        )
    if name[:1] == "_":
        raise index.no_attribute(self, name)
    return index.getattr_swizzle(self, name)


def _detached_copy(a: Any) -> Any:
    """Implements Python's module `copy`: the same values without derivatives."""
    made = type(a)(a)
    if made._diff:
        for part in leaf_arrays(made):
            part._var = None
    return made


# Arrays of one entry as numbers of Python: conversion, rounding, formatting. An addition: the
# reference has none of these methods.

_INSTEAD = (
    "Use x[i] for an entry, dr.sum(), dr.mean() and the like for one number, and .numpy() for all "
    "of them."
)


def _entry(a: Any, method: str, instead: str = _INSTEAD) -> Any:
    """Returns the only entry of an array, for a method.

    Raises:
        TypeError: it has another number of entries, or components.
    """
    if not is_single(a):
        but = f"the shape of this one is {a.shape}. {instead}"
        if math.prod(a.shape) == 1:
            but = "this one has a component. Use x[0]."
        raise TypeError(
            f"{type_label(a)}.{method}(): only an array of one entry is a number, and {but}"
        )
    return item(a)


def _converted(method: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: convert(_entry(self, method))


def _rounded(self: Any, ndigits: int | None = None) -> Any:
    return round(_entry(self, "__round__", "Use dr.round()."), ndigits)


def _format(self: Any, spec: str) -> str:
    if not spec:
        return str(self)
    instead = f"Use '.numpy()', dr.format(), or a list of parts such as f'{{x[0]:{spec}}}'."
    return format(_entry(self, "__format__", instead), spec)


def _complex(self: Any) -> complex:
    if self.__meta__.kind == "complex":
        return complex(float(self.real), float(self.imag))
    return complex(_entry(self, "__complex__"))


def _add_index(cls: Any) -> None:
    """Lets arrays of integers be indices of Python's sequences and bounds of `range`."""
    if cls._usable and cls._dtype.is_int and cls._kind != "nested":
        cls.__index__ = frames.guard(_converted("__index__", int))


_MEMBERS: dict[str, Any] = {
    "__init__": init,
    "__meta__": "ArrayMeta[invalid]",
    "__len__": length,
    "__iter__": iterate,
    "__contains__": contains,
    "__bool__": truth,
    "__repr__": lambda self: show.array_repr(self),
    "_repr_html_": lambda self: _html(self),
    "__getitem__": index.getitem,
    "__setitem__": index.setitem,
    "__delitem__": delete,
    "__init_subclass__": classmethod(init_subclass),
    "__copy__": lambda self: _detached_copy(self),
    "__deepcopy__": lambda self, memo: _detached_copy(self),
    "__array__": interop.to_array,
    "__dlpack__": interop.dlpack,
    "__dlpack_device__": interop.dlpack_device,
    "__getstate__": interop.get_state,
    "__setstate__": interop.set_state,
    "numpy": interop.to_numpy,
    "to_numpy": interop.to_numpy,
    "torch": interop.to_torch,
    "jax": interop.to_jax,
    "memview": interop.to_memoryview,
    "item": item,
    "state": property(state),
    "ndim": property(ndim),
    "shape": property(shape),
    "array": property(array),
    "label": property(get_label, set_label),
    "index": property(value_number),
    "index_ad": property(derivative_number),
    "T": property(transposed),
    "mT": property(matrix_transposed),
    "__float__": _converted("__float__", float),
    "__int__": _converted("__int__", int),
    "__trunc__": _converted("__trunc__", math.trunc),
    "__floor__": _converted("__floor__", math.floor),
    "__ceil__": _converted("__ceil__", math.ceil),
    "__round__": _rounded,
    "__format__": _format,
    "__complex__": _complex,
}
_MEMBERS |= {name: _absent(name) for name in "xyzw"}
_MEMBERS |= {name: _real_or_imaginary(name) for name in ("real", "imag")}
for _name, _member in _MEMBERS.items():
    setattr(ArrayBase, _name, _member)
table.finishers += (add_swizzles, _add_index)

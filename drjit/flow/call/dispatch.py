"""Method calls on arrays of references to Python objects, and reordering of lanes."""

from functools import partial
from typing import Any, TypeVar

from ...array.base import ArrayBase, IncompatibleError, type_label
from ...array.tree import traced
from ...function.evaluation import copy
from ...function.signature import CallableSelfPT
from ...jit.ir import dtype as dt
from .instance import InstanceArray
from .switch import Callee, check_mode, run, split_mask

T = TypeVar("T")


def dispatch(
    inst: "InstanceArray",
    target: CallableSelfPT[Any, ..., T],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> T:
    """Calls `target(instance, *args, **kwargs)`, where `inst` may refer to a different object in
    every lane (see `instance_t`); null pointers return zeros. Everything else is as in `switch`.

    In symbolic mode, `target` is traced once for every registered object, whether or not any lane
    refers to it. Data members that are arrays have gradients.

    Raises:
        RuntimeError: no object is registered, or as for `switch`.
        TypeError: `inst` is not an array of references, `target` is not callable, or as for
            `switch`.

    >>> from drjit.llvm import Float, UInt
    >>> class Circle:
    ...     def __init__(self, radius):
    ...         self.radius = Float(radius)
    ...     def area(self, scale):
    ...         return scale * self.radius * self.radius
    >>> p = dr.instance_t(Float, Circle)([Circle(1), Circle(2), None])
    >>> dr.dispatch(p, Circle.area, Float(1, 2, 3))
    [1, 8, 0]
    """
    what = f"dr.dispatch({label})" if isinstance(label, str) else "dr.dispatch()"
    symbolic = check_mode(what, mode, label)
    if not isinstance(inst, InstanceArray):
        error = IncompatibleError if isinstance(inst, ArrayBase) else TypeError
        raise error(
            f"{what}: 'inst' is of type {type_label(inst)}; expected an array of references to "
            "Python objects (dr.instance_t)"
        )
    if not callable(target):
        raise TypeError(f"{what}: 'target' is {target!r}, which cannot be called")
    objects = inst.instances()
    if not objects:
        raise RuntimeError(
            f"{what}: no object of class {inst.domain.__qualname__} is registered, so that the "
            "type of the result is not known"
        )
    functions = [Callee(k, partial(target, o), target, o) for k, o in objects.items()]
    active, args, kwargs = split_mask(what, inst.index, args, kwargs)
    return run(what, symbolic, functions, inst.index, active, args, kwargs)


def reorder_threads(key: ArrayBase, num_bits: int, value: T) -> T:
    """Returns a copy of the value, a PyTree with at least one array. It marks a place where capable
    hardware should reorder lanes, so that neighbours call the same functions; CPUs cannot.

    `key` is a 32-bit unsigned integer array, of which only the lowest `num_bits` bits are used.

    Raises:
        RuntimeError: the key has another type, or there is no array in `value`.

    >>> from drjit.llvm import Float, UInt
    >>> dr.reorder_threads(UInt(1, 0), 1, Float(3, 4))
    [3, 4]
    """
    if not isinstance(key, ArrayBase):
        raise TypeError(
            f"dr.reorder_threads(): 'key' is of type {type_label(key)}; expected a traced array"
        )
    if key._kind != "leaf" or key._dtype is not dt.u32:
        raise RuntimeError(
            f"dr.reorder_threads(): 'key' is of type {type_label(key)}; expected a traced 32-bit "
            "unsigned integer array such as drjit.llvm.UInt"
        )
    if not traced(value):
        raise RuntimeError(
            f"dr.reorder_threads(): 'value' of type {type_label(value)} contains no traced array"
        )
    return copy(value)

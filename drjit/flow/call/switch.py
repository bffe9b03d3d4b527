"""Calls of one of several functions, selected lane by lane: `switch`, `dispatch` and `func`.

In symbolic mode every function is traced once and becomes a block of the kernel that runs where
some lane needs it. In evaluated mode lanes are grouped by function, and every function is called
for its group. Derivatives of symbolic calls are in `gradient`.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from itertools import repeat
from operator import and_
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ...ad import graph
from ...ad.bodies import OuterGradients, body_scope
from ...array import leaf, leaf_access, table
from ...array.base import ArrayBase, IncompatibleError, listed, type_label
from ...array.pytree import leaf_arrays
from ...array.tree import Tree, traced_arrays
from ...function.ad.propagate import isolate_grad
from ...function.conversion import mask_leaf
from ...function.evaluation import copy
from ...function.signature import CallablePT, CallableSelfPT
from ...jit import flags
from ...jit.backend import JitBackend
from ...jit.ir import dtype as dt
from ...jit.ir import node, op, scope
from ...jit.ir.node import LITERAL, Node
from ...jit.run.launch import OutOfBoundsError
from ...jit.trace import record
from ...jit.trace.access import Access
from ...jit.tuples import NamedTuple
from ..region import merging
from ..region.messages import failed, matched
from ..region.state import chosen_mode, copied
from .gradient import RecordedCall
from .instance import InstanceArray

if TYPE_CHECKING:
    from ...array.kinds import Index

T = TypeVar("T")


class Callee(NamedTuple):
    """One of the functions of a call: the number by which lanes select it, and what to call. In
    messages, it is `target`, which is called for the object `owner` if there is one."""

    number: int
    run: Callable[..., Any]
    target: Callable[..., Any]
    owner: object = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        title = getattr(self.target, "__qualname__", type(self.target).__qualname__)
        if self.owner is None:
            return f"targets[{self.number}] ({title})"
        return f"{title} of {type(self.owner).__name__} object {self.number}"


class FunctionCall(NamedTuple):
    """A call after validation: the functions, the number that selects one for each lane, the active
    lanes, the tree of positional and named arguments, and the number of lanes."""

    what: str
    functions: list[Callee]
    chosen: Node
    active: Node
    arguments: Tree
    size: int

    def mask(self, function: Callee) -> Node:
        """Returns the mask of the lanes that call a function."""
        number = node.literal(self.chosen.dtype, function.number)
        chosen = node.combine(op.eq, (self.chosen, number))
        return node.combine(op.and_, (chosen, self.active))


def switch(
    index: "Index",
    targets: Sequence[CallablePT[..., T]],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> T:
    """Calls `targets[index](*args, **kwargs)`, where every lane may have a different index, and
    returns the results of the functions: arrays, or PyTrees of them, with the same types for all.

    `index` is a 32-bit unsigned integer array, or an integer for a plain call. A mask as the last
    positional argument, or named `active`, selects the active lanes; the others, and those whose
    index is out of bounds, get zeros. Functions receive copies of the arguments. `mode` is
    `symbolic` (the default, see `JitFlag.SymbolicCalls`) or `evaluated`.

    Raises:
        IndexError: an index is out of bounds (raised at the next synchronization).
        RuntimeError: the index, the mode or the sizes of arguments are invalid, or a function
            failed; `__context__` has the reason, and the error is also of its type.
        TypeError: the results of functions differ in structure or type.

    >>> from drjit.llvm import Float, UInt
    >>> dr.switch(UInt(0, 1, 0), [lambda x: x + 1, lambda x: x * 10], Float(1, 2, 3))
    [2, 20, 4]
    """
    what = f"dr.switch({label})" if isinstance(label, str) else "dr.switch()"
    symbolic = check_mode(what, mode, label)
    if type(targets) is not list and (
        isinstance(targets, dict) or not isinstance(targets, Sequence)
    ):
        raise TypeError(f"{what}: 'targets' must be a sequence of functions, not {targets!r}")
    for k, f in enumerate(targets):
        if not callable(f):
            raise TypeError(f"{what}: targets[{k}] is {f!r}, which cannot be called")
    if type(index) is int:
        return _plain(what, index, targets, args, kwargs)
    if not isinstance(index, ArrayBase) or index._kind != "leaf" or index._dtype is not dt.u32:
        raise RuntimeError(
            f"{what}: 'index' is of type {type_label(index)}; expected a traced one-dimensional "
            "32-bit unsigned integer array such as drjit.llvm.UInt, or an int"
        )
    if not targets:
        raise RuntimeError(f"{what}: 'targets' is empty")
    functions = [Callee(k, f, f) for k, f in enumerate(targets)]
    active, args, kwargs = split_mask(what, index, args, kwargs)
    chosen, inside = leaf_access.bounded(index, active, len(targets), what)
    return run(what, symbolic, functions, chosen, inside, args, kwargs)


def check_mode(what: str, mode: Any, label: Any) -> bool:
    """Returns whether a call is symbolic, according to its mode or the flags.

    Raises:
        RuntimeError: the mode or the label is invalid.
    """
    if mode not in (None, "symbolic", "evaluated"):
        raise RuntimeError(f"{what}: 'mode' is {mode!r}; expected 'symbolic', 'evaluated' or None")
    if label is not None and not isinstance(label, str):
        raise RuntimeError(f"{what}: 'label' is of type {type_label(label)}; expected a string")
    if mode is None:
        return chosen_mode(None, flags.JitFlag.SymbolicCalls, what) == "symbolic"
    if mode == "evaluated" and record.recording():
        raise RuntimeError(
            f"{what}: cannot perform a call in *evaluated mode* while a loop, branch or another "
            "call is recorded, as values are known only when its kernel runs. Leave "
            "mode='evaluated' out, or use it for what is around as well."
        )
    return mode == "symbolic"


def _plain(
    what: str, index: int, targets: Sequence[Callable[..., Any]], args: tuple, kwargs: dict
) -> Any:
    """Calls one function for all lanes."""
    mask = kwargs.get("active", args[-1] if args else None)
    if isinstance(mask, ArrayBase) and mask._dtype.is_mask:
        raise RuntimeError(
            f"{what}: the mask is of type {type_label(mask)}; it must be a bool if the index is "
            "one integer for all lanes"
        )
    if mask is False:
        return None
    try:
        target = targets[index]
    except IndexError as error:
        raise OutOfBoundsError(
            f"{what}: the index {index} is out of bounds: it must be strictly smaller than the "
            f"number of functions, {len(targets)} (where functions are counted from 1: "
            f"out-of-bounds callable ID {index + 1} (must be < {len(targets) + 1}).)"
        ) from error
    return _guarded(what, Callee(index, target, target), args, kwargs)


def _guarded(what: str, function: Callee, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Returns the result of a function; an exception that it raises becomes the cause of a
    `RuntimeError` that names it."""
    try:
        return function.run(*args, **kwargs)
    except scope.StateAccessError:  # the enclosing statement will record it again
        raise
    except Exception as error:
        # As text: ctypes replaces errors that occur while it converts arguments.
        if isinstance(error, RecursionError) or "RecursionError" in str(error):
            raise RecursionError(f"{what}: {function.name} calls itself without end") from None
        raise failed(f"{what}: {function.name}", error) from error


def split_mask(what: str, index: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """Returns the mask of the active lanes; functions receive one that is always true."""
    mask = kwargs.get("active", args[-1] if args else None)
    if mask is None or not _is_mask(mask):
        return mask_leaf(True, type(index), what), args, kwargs
    active = mask_leaf(mask, type(index), what)
    inner = leaf.literal(type(mask), True) if isinstance(mask, ArrayBase) else True
    if "active" in kwargs:
        return active, args, kwargs | {"active": inner}
    return active, (*args[:-1], inner), kwargs


def _is_mask(value: Any) -> bool:
    if isinstance(value, ArrayBase):
        return value._kind == "leaf" and value._dtype.is_mask
    return isinstance(value, bool)


def run(
    what: str,
    symbolic: bool,
    functions: list[Callee],
    chosen: Any,
    active: Any,
    args: tuple,
    kwargs: dict[str, Any],
) -> Any:
    """Calls for every active lane the function with the number `chosen` in that lane."""
    arguments = Tree((args, kwargs))
    if merging.has_vectors(arguments):
        functions = [f._replace(run=merging.taking_features(f.run)) for f in functions]
        arguments = Tree((merging.to_features(args), merging.to_features(kwargs)))
    nodes = [chosen._node, active._node, *[a._node for a in arguments.leaves]]
    if not symbolic and scope.active() is not scope.ACTIVE:
        nodes.append(scope.active())  # each of whose lanes makes the call
    sizes = dict.fromkeys([n.size for n in nodes])
    given = {a._node.size for a in arguments.leaves}
    uncalled = chosen._node.size == 0 and 1 in given and not scope.nothing_runs()
    if len(sizes.keys() - {1}) > 1 or uncalled:
        raise RuntimeError(
            f"{what}: some of the call arguments have incompatible sizes (encountered arrays of "
            f"length {listed(sizes)})"
        )
    size = node.broadcast_size(tuple(nodes), what)
    call = FunctionCall(what, functions, chosen._node, active._node, arguments, size)
    with scope.using(chosen._device):
        if symbolic:
            no_lanes = node.literal(dt.u32, 0, 0)
            with scope.running(no_lanes, 0) if size == 0 else nullcontext():
                return _symbolic(call)
        with isolate_grad():  # gradients propagated by functions continue once all were called
            return _evaluated(call, type(chosen))


def _result(
    call: FunctionCall, function: Callee, args: tuple, kwargs: dict, count: int | None
) -> Tree:
    """Returns the result of a function that is called for `count` lanes, or any number."""
    result = _guarded(call.what, function, args, kwargs)
    tree = Tree((result,))
    if merging.has_vectors(tree):
        tree = Tree((merging.to_features(result),))
    for a in tree.leaves:
        if a._node.size != 1 and a._node.size != count and count is not None:
            raise _misfit(call, function, a._node.size, count) from _mixture(a, count)
    return tree


def _symbolic(call: FunctionCall) -> Any:
    """Records every function; see the module docstring."""
    masks = [call.mask(f) for f in call.functions]
    # Constants stay constants, so that functions are simplified for them.
    passed = [k for k, a in enumerate(call.arguments.leaves) if a._node.op is not LITERAL]
    recorded = RecordedCall(call.what, leaf.values(call.arguments.leaves), passed, masks)
    given = (
        call.arguments.without_arrays().with_contents
    )  # positional and named arguments of functions
    results: list[Tree] = []
    zeros: list[bool] = []  # the results that are a constant 0 for every function, as for no one
    outer_gradients = OuterGradients(atomic=True)
    size = None if call.size == 1 else call.size

    def trace(function: Callee, names: list[Node]) -> list[Node]:
        with body_scope(outer_gradients) as inner:
            arguments = recorded.begin(names, inner)
            args, kwargs = given(arguments)
            result = _result(call, function, args, kwargs, size)
            if results:
                result = matched(call.what, results[0], result)
            else:
                results.append(result.without_arrays())
            found = leaf.values(result.leaves)
            zeros[:] = map(and_, zeros or repeat(True), map(_is_zero, found))
            recorded.note(names, arguments, found, inner)  # type: ignore[arg-type]
            return [v.node for v in found]

    bodies = [partial(trace, f) for f in call.functions]
    nodes = record.branches(masks, bodies, recorded.nodes, call.what)
    outer_gradients.finish()
    if flags.current & flags.JitFlag.OptimizeCalls and any(zeros):
        pairs = zip(nodes, zeros, strict=True)
        nodes = [node.literal(n.dtype, 0, n.size) if zero else n for n, zero in pairs]
    return merging.to_vectors(results[0].with_contents(recorded.attach(nodes))[0], results[0])


def _is_zero(v: graph.Value) -> bool:
    return v.var is None and v.node.op is LITERAL and repr(v.node.data) in ("0", "0.0", "False")


def _evaluated(call: FunctionCall, index_class: Any) -> Any:
    """Calls every function that some lane needs on the lanes that need it."""
    mask_class = index_class.Mask
    first: Tree | None = None  # the first result, with which others are compared
    merged: list[Any] = []
    waiting = len(call.functions)
    for function in call.functions:
        mask = call.mask(function)
        around = scope.active()
        if around is not scope.ACTIVE:  # which has no value outside a kernel
            mask = node.apply(op.and_, mask, around)
        mask = node.resize(mask, call.size)
        lanes = leaf_access.compress(leaf.wrap(mask_class, mask), index_class)
        count = lanes._node.size
        waiting -= 1
        if count == 0 and (waiting or first):
            continue  # if no function was called, call the last one for its types
        with scope.running(lanes._node, call.size), merging.masked(_every(count), other=True):
            with scope.unmasked():
                arrays = _grouped(call, lanes)
            # Gradients propagated by the function reach the entries of its lanes here, and go on
            # once it has been called: it may propagate others.
            with isolate_grad(), graph.watching(_gathered_variables(call, arrays)):
                args, kwargs = call.arguments.reassemble(arrays)
                result = _result(call, function, args, kwargs, count)
        if first:
            result = matched(call.what, first, result)
        else:
            first = result.without_arrays()
            merged = [leaf.literal(type(a), 0, call.size) for a in result.leaves]
        with scope.unmasked():
            _merge(merged, result.leaves, lanes, call.size)
    assert first is not None
    return merging.to_vectors(first.reassemble(merged)[0], first)


def _every(count: int) -> Node:
    """Returns the mask of the lanes of a group: a value of size 1 stands for all of them."""
    if count < 2:
        return scope.ACTIVE if count else node.literal(dt.mask, False, 0)
    return node.make(op.lt, dt.mask, count, (node.lane(count), node.literal(dt.u32, count)))


def _grouped(call: FunctionCall, lanes: Any) -> list[Any]:
    """Returns the arguments with the entries of the given lanes; arrays of one entry are
    broadcast."""
    arrays = call.arguments.leaves
    if lanes._node.size == call.size:
        return [copied(a) for a in arrays]
    at = Access(lanes._node, what="dr.switch", inside=True)
    return [copied(a) if a._node.size == 1 else leaf_access.gather(a, at) for a in arrays]


def _gathered_variables(call: FunctionCall, arrays: list[Any]) -> list[graph.Var]:
    """Returns the variables of those arguments that are entries of arrays of all lanes."""
    pairs = zip(arrays, call.arguments.leaves, strict=True)
    return [a._var for a, whole in pairs if a._var is not None and a._var is not whole._var]


def _misfit(call: FunctionCall, function: Callee, size: int, count: int) -> RuntimeError:
    """Returns the error for a result of a function that was called for `count` lanes."""
    if size == 0:
        return RuntimeError(
            f"{call.what}: field 'result' is uninitialized: {function.name} gave an empty array"
        )
    return RuntimeError(
        f"{call.what}: {function.name} gave an array of size {size}; it was called for {count} "
        "lanes and must give one entry for each, or one for all. It may come from an operation "
        "that mixes symbolic values with arrays of another size."
    )


def _mixture(a: Any, count: int) -> RuntimeError | None:
    """Returns the reason why a differentiable result has another size than there are lanes."""
    if a._var is None:
        return None
    return RuntimeError(
        "You performed a differentiable operation that mixes symbolic and non-symbolic variables: "
        f"an array of size {a._node.size}, which a function uses but does not get as an argument, "
        f"within a call for {count} lanes. Such an array can be accessed by dr.gather() there."
    )


def _merge(merged: list[Any], result: list[Any], lanes: Any, size: int) -> None:
    """Scatters the results of a group to its lanes."""
    count = lanes._node.size
    at = Access(lanes._node, what="dr.switch")
    for target, value in zip(merged, result, strict=True):
        if count == size:
            target._assign(leaf.resize(value, size))
        elif count and not merging.same_constant(leaf.value(target), leaf.value(value)):
            leaf_access.scatter(target, [leaf.resize(value, count)], at)


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
    if not traced_arrays(value):
        raise RuntimeError(
            f"dr.reorder_threads(): 'value' of type {type_label(value)} contains no traced array"
        )
    return copy(value)


F = TypeVar("F", bound=Callable)


@overload
def func(f: None = None, *, backend: JitBackend | None = None) -> Callable[[F], F]: ...


@overload
def func(f: F, *, backend: JitBackend | None = None) -> F: ...


def func(f: Any = None, *, backend: JitBackend | None = None) -> Any:
    """Decorator of functions that are called like those of `dr.switch`: the body is traced with
    symbolic arguments and becomes a block of the kernel, which is skipped if no lane is active.

    The Python code runs at every call. Calls with the same trace share one body, which is compiled
    once. `backend` is required if no argument of the first call is a traced array.

    Raises:
        RuntimeError: there is neither a traced array nor a `backend`, or the function fails;
            `__context__` has the reason.

    >>> @dr.func
    ... def plus_one(x):
    ...     return x + 1
    >>> plus_one(Float(1, 2))
    [2, 3]
    """
    if f is not None and not callable(f):
        raise TypeError(f"dr.func(): expected a function, got {type_label(f)}")

    def decorator(f: Callable) -> Callable:
        given = known = None
        if backend is not None and backend is not JitBackend.Invalid:
            given = backend.name.lower()

        @wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal known
            namespace = known = given or _namespace((args, kwargs)) or known
            if namespace is None:
                raise RuntimeError(
                    "dr.func(): could not detect the backend from the input arguments: no argument "
                    "is a traced array, which would say where the function runs. Give the "
                    "decorator the backend: @dr.func(backend=dr.JitBackend.LLVM)"
                )
            number = leaf.literal(table.find(namespace, "leaf", dt.u32), 0)
            return switch(number, [f], *args, **kwargs)

        return call

    return decorator if f is None else decorator(f)


def _namespace(arguments: Any) -> str | None:
    """Returns the namespace of the function's number, given the arguments."""
    return next((a._namespace for a in leaf_arrays(arguments) if a.__meta__.is_jit), None)

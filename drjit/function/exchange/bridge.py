"""The common part of calls between frameworks: arrays are extracted from PyTrees of arguments and
replaced by another framework's arrays, and a Dr.Jit function is evaluated and differentiated for a
caller that knows only the data of arrays: NumPy arrays or, where both frameworks share the memory
of a GPU, arrays of either framework there.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, repeat
from typing import Any

from ...ad.graph import ADFlag, ADMode, GradScope, scope, within
from ...array import interop, pytree, table
from ...array.base import type_label
from ...array.show import is_array
from ...jit.backend import JitBackend
from ...jit.device import Device, find, unavailable_reason
from ...jit.ir import dtype as dt
from ...jit.lazy import np
from ..ad.custom import CustomOp, custom
from ..ad.grad import accum_grad, clear_grad, enable_grad, grad, grad_enabled, variables
from ..ad.propagate import propagate
from ..data.create import zeros
from ..data.shape import concat
from ..evaluation import eval as evaluate
from ..evaluation import separate

Join = Callable[[Sequence[Any]], Any]
Data = Any
"""The entries of an array: a NumPy array, or an array in the memory of a GPU."""


class CompletedCall:
    """A completed call of another framework's function: the data of its results, and `join`, which
    puts arrays in their places. `backward` and `forward` differentiate it.
    """

    name: str
    framework: "Framework"
    values: list[Data]
    join: Join

    # The gradients of the tracked arguments from those of the results, and the tangents of the
    # results from those of the tracked arguments.
    backward: Callable[[list[Data]], list[Data]]
    forward: Callable[[list[Data]], list[Data]]


class MissingFrameworkError(ModuleNotFoundError, RuntimeError):
    """A framework is not installed. Also a `RuntimeError`, which is what calls of wrapped functions
    raise."""


def imported(name: str, title: str) -> Any:
    """Returns the module of a framework."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingFrameworkError(
            f"dr.wrap(): {title} is not installed. Install it with `pip install {name}`."
        ) from None


class Framework:
    """An array framework that functions can be exchanged with."""

    name: str
    title: str
    call: Callable[..., CompletedCall]  # calls a function of the framework
    is_array: Callable[[Any], bool]  # whether a value is an array of the framework
    expose: Callable[[Callable], Callable]  # a Dr.Jit function as a function of the framework

    def __init__(self) -> None:
        self.module = imported(self.name, self.title)

    def shares(self, device: Device) -> bool:
        """Returns whether the framework takes arrays in the memory of a GPU as they are."""
        return False

    def entries(self, x: Any) -> Data:
        """Returns the entries of a Dr.Jit array, in memory of its GPU if the framework shares that,
        with the axes that `numpy()` gives, and complex numbers as two components."""
        device = interop.off_host_device(x)
        if device is None or not self.shares(device):
            return interop.components(x)
        if x.__meta__.kind != "complex":
            return x
        size = max(len(x.real), len(x.imag))
        both = concat([zeros(type(x.real), size) + part for part in (x.real, x.imag)])
        return table.related(type(x), kind="tensor")(both, shape=(2, size))


def split(tree: Any, chosen: Callable[[Any], bool]) -> tuple[list[Any], Join]:
    """Returns the chosen leaves of a PyTree, and a function that puts others in their place."""
    result = [v for v in pytree.leaves(tree) if chosen(v)]

    def join(values: Sequence[Any]) -> Any:
        following = iter(values)
        return pytree.map_tree(lambda v: next(following) if chosen(v) else v, tree, what="dr.wrap")

    return result, join


def map_structure(
    structure: Any,
    leaf: Callable[[Any], Any],
    node: Callable[[Any, tuple], Any] = lambda cls, parts: (cls, parts),
) -> Any:
    """Returns a structure, nested pairs of a class and its parts, with other leaves; or what `node`
    makes of classes and parts."""
    if type(structure) is not tuple:
        return leaf(structure)
    cls, parts = structure
    return node(cls, tuple([map_structure(s, leaf, node) for s in parts]))


def interleave(
    flags: Iterable[bool], values: Iterable[Any], others: Iterable[Any] = ()
) -> list[Any]:
    """Returns values in the positions where flags are set, and others (None if there are none) in
    between."""
    following, rest = iter(values), chain(others, repeat(None))
    return [next(following) if on else next(rest) for on in flags]


def check_results(function: Callable, result: Any, expected: Callable, name: str) -> None:
    """Rejects arrays that do not belong to the framework that a function was declared to use.

    Raises:
        TypeError: there is one.
    """
    for path, v in pytree.walk(result):
        if not expected(v) and (is_array(v) or interop.is_foreign_array(v)):
            at = f" at {path}" if path else ""
            raise TypeError(
                f"dr.wrap(): {label(function)}() returned a {type_label(v)}{at}, of which no "
                f"derivatives are known; expected {name}"
            )


def label(function: Callable) -> str:
    """Returns the name of a function in messages."""
    return getattr(function, "__name__", type(function).__name__)


def tensor(namespace: str, data: Data, framework: str) -> Any:
    """Returns a Dr.Jit tensor with the entries of an array.

    Raises:
        TypeError: there is no tensor of this element type, or no backend for where it is.
    """
    if not isinstance(data, np.ndarray):
        return _on_gpu(data, framework)
    try:
        cls = table.find(namespace, "tensor", dt.types_by_numpy()[data.dtype])
    except (KeyError, RuntimeError):  # no such element type, or no tensors of it
        hint = " Split it into real and imaginary part." if data.dtype.kind == "c" else ""
        raise TypeError(
            f"dr.wrap(): a {framework} array of type {data.dtype} has no equivalent in Dr.Jit."
            + hint
        ) from None
    return interop.build(cls, data)


def _on_gpu(data: Any, framework: str) -> Any:
    """Returns a Dr.Jit tensor with the entries of an array in the memory of a GPU."""
    device = find(JitBackend.CUDA)
    if device is None:
        raise TypeError(
            f"dr.wrap(): a {framework} array is on a GPU, and the CUDA backend is not available: "
            f"{unavailable_reason(JitBackend.CUDA)} Move it to the processor first."
        )
    found = device.import_array(data, "dr.wrap()")
    try:
        leaf_class = found and table.find("cuda.ad", "leaf", found.dtype)
        table.find("cuda.ad", "tensor", found.dtype)  # pyright: ignore[reportOptionalMemberAccess]
    except (KeyError, RuntimeError, AttributeError):
        raise TypeError(
            f"dr.wrap(): a {framework} array of type {data.dtype} on a GPU has no equivalent in "
            "Dr.Jit."
        ) from None
    return interop.to_tensor(leaf_class, found)  # pyright: ignore[reportArgumentType]


def _built(cls: Any, data: Data) -> Any:
    """Returns an array of a class from entries with the axes of `Framework.entries`."""
    if isinstance(data, np.ndarray):
        return interop.build(cls, data)
    if is_array(data) and type(data) is cls:
        return data
    if cls.__meta__.kind != "complex":
        return interop.from_object(cls, data)
    rows = interop.from_object(table.related(cls, kind="tensor"), data)
    return cls(*[rows[k].array for k in range(2)])


class Evaluation:
    """A completed call of a Dr.Jit function: the data of its results, and derivatives. What is on
    a GPU stays there; for tensors of the processor, results come back to it.

    Gradients are computed by traversals that keep the graph, so there can be several.
    """

    def __init__(
        self, function: Callable, join: Join, data: list, tracked: list[bool], framework: Framework
    ) -> None:
        self.framework = framework
        self.on_gpu = [
            not isinstance(d, np.ndarray) for d, t in zip(data, tracked, strict=True) if t
        ]
        self.stays = not all(isinstance(d, np.ndarray) for d in data)
        namespace = table.auto_namespace()
        namespace = "llvm.ad" if namespace == "scalar" else f"{namespace}.ad"
        inputs = [tensor(namespace, d, framework.title) for d in data]
        self.inputs = [*compress(inputs, tracked)]
        # The caller's framework decides what is tracked, not an enclosing scope.
        outer = scope()
        with within(GradScope()):
            enable_grad(self.inputs)
            serials = frozenset([v.serial for v in variables(self.inputs)])
        with within(outer.switched(True, serials) if outer else GradScope()):
            args, kwargs = join(inputs)
            result = function(*args, **kwargs)
        check_results(function, result, is_array, "Dr.Jit arrays")
        self.outputs, self.join = split(result, is_array)
        if self.inputs:
            # An argument that is returned needs a gradient separate from the result's.
            with within(GradScope()):
                self.outputs = [separate(x) for x in self.outputs]
        evaluate(self.outputs)

    def values(self) -> list[Data]:
        """Returns the results."""
        return [self._entries(x, self.stays) for x in self.outputs]

    def _entries(self, x: Any, on_gpu: bool) -> Data:
        return self.framework.entries(x) if on_gpu else interop.components(x)

    def differentiable(self) -> list[bool]:
        """Returns which results have derivatives."""
        return [x._dtype.is_float and x.__meta__.is_jit for x in self.outputs]

    def backward(self, gradients: Sequence[Data | None]) -> list[Data]:
        """Returns gradients of the tracked arguments, given gradients of the results; None means
        zero."""
        found = self._traverse(ADMode.Backward, self.outputs, gradients, self.inputs)
        return [self._entries(g, where) for g, where in zip(found, self.on_gpu, strict=True)]

    def forward(self, tangents: Sequence[Data | None]) -> list[Data]:
        """Returns tangents of the results, given tangents of the tracked arguments; None means
        zero."""
        found = self._traverse(ADMode.Forward, self.inputs, tangents, self.outputs)
        return [self._entries(t, self.stays) for t in found]

    def _traverse(
        self, mode: ADMode, starts: list, gradients: Sequence[Any], ends: list
    ) -> list[Any]:
        with within(GradScope()):
            clear_grad((self.inputs, self.outputs))
            for x, g in zip(starts, gradients, strict=True):
                if g is not None and grad_enabled(x):
                    accum_grad(x, _built(type(x), g))
            propagate(mode, starts, ADFlag.ClearVertices)
            result = grad(ends)
            clear_grad((self.inputs, self.outputs))
        evaluate(result)
        return result


class _Foreign(CustomOp):
    """A call of another framework in the derivative graph."""

    def name(self) -> str:
        return self.call.name

    def eval(self, call: CompletedCall, arrays: list, results: list) -> list:
        self.call = call
        return results

    def backward(self) -> None:
        found = self.call.backward([self.call.framework.entries(g) for g in self.grad_out()])
        self.set_grad_in("arrays", _like(self._inputs["arrays"], found))

    def forward(self) -> None:
        given = [self.call.framework.entries(g) for g in self.grad_in("arrays")]
        self.set_grad_out(_like(self._output, self.call.forward(given)))


def _like(arrays: list, data: list[Data]) -> list[Any]:
    """Converts data to arrays of the classes of others."""
    return [_built(type(x), d) for x, d in zip(arrays, data, strict=True)]


def adopt(function: Callable, framework: Framework, args: tuple, kwargs: dict) -> Any:
    """Calls a function of another framework with Dr.Jit arrays."""
    arrays, join = split((args, kwargs), is_array)
    evaluate(arrays)
    tracked = [x._dtype.is_float and grad_enabled(x) for x in arrays]
    call = framework.call(framework, function, join, arrays, tracked)
    namespaces = {x._namespace for x in arrays} or {table.auto_namespace()}
    backend = next((n.removesuffix(".ad") for n in sorted(namespaces) if n != "scalar"), "scalar")
    namespace = backend if backend == "scalar" else f"{backend}.ad"
    results = [tensor(namespace, v, framework.title) for v in call.values]
    call.name, call.values, call.framework = label(function), [], framework
    inputs = [*compress(arrays, tracked)]
    return call.join(custom(_Foreign, call, inputs, results) if inputs else results)

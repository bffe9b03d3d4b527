"""`wrap` with the target Numba: functions of numbers become operations of traced programs, for each
lane."""

import inspect
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

from ...ad.graph import Var, as_value
from ...array import leaf, pytree, table
from ...array.base import ArrayBase, type_label
from ...jit import progress
from ...jit.ir import dtype as dt
from ...jit.ir.node import Node, cast, literal
from ...jit.trace.record import foreign_call
from ..ad.custom import ValueOp, attach, weighted_sum
from .bridge import imported, interleave, label, map_structure

_NUMBERS = {bool: dt.mask, int: dt.i64, float: dt.f64}


def adopt(function: Any, derivative: Any) -> Callable:
    """Returns a function of Numba as a function of arrays; see `wrap`."""
    made = _NumbaFunction(_dispatcher(function), derivative and _dispatcher(derivative))

    @wraps(made.function.py_func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return made(args, kwargs)

    return wrapped


def _dispatcher(function: Any) -> Any:
    """Returns a function as one that Numba compiles."""
    return function if hasattr(function, "py_func") else imported("numba", "Numba").njit(function)


class _Arguments:
    """The numbers and arrays among the arguments of a call, and their structure.

    Tensors have a common shape. Numbers of Python take the precision of the arrays.
    """

    def __init__(self, args: Sequence[Any], title: str) -> None:
        self.title = title
        self.leaves: list[Any] = []
        self.shape: tuple[int, ...] | None = None
        self.structure = tuple([self._add(a, f"argument {k}") for k, a in enumerate(args)])
        arrays = [a for a in self.leaves if _is_array(a)]
        floats = [a._dtype for a in arrays if a._dtype.is_float]
        self.precision = max(floats, key=lambda t: t.bits, default=None)
        spaces = sorted({a._namespace for a in arrays})
        self.namespace = next((s for s in spaces if s.endswith(".ad")), spaces[0] if spaces else "")

    def _add(self, value: Any, path: str) -> Any:
        """Adds the contents of a value and returns its structure, with indices into `leaves` in
        place of types."""
        role = pytree.role(type(value))
        if role == "leaf" or type(value) in _NUMBERS:
            self.leaves.append(value)
            return len(self.leaves) - 1
        if role == "tensor":
            if self.shape not in (None, value.shape):
                raise RuntimeError(
                    f"dr.wrap(): the arguments of {self.title}() include tensors of the shapes "
                    f"{self.shape} and {value.shape}, which must be equal"
                )
            self.shape = value.shape
            return self._add(value.array, path)
        if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:  # a number of NumPy
            return self._add(value.item(), path)
        if type(value) is complex:
            return complex, (self._add(value.real, path), self._add(value.imag, path))
        cls: Any = tuple
        if role == "nested" or isinstance(value, ArrayBase):
            parts = [*value._components]
            cls = complex if value.__meta__.kind == "complex" else tuple
        elif role in pytree.CONTAINERS:
            names, parts = pytree.keys_and_parts(value, role)
            if names is not None:
                cls = _record(type(value).__name__, tuple(map(str, names)))
            elif hasattr(value, "_fields"):
                cls = type(value)
        else:
            raise TypeError(
                f"dr.wrap(): {path} of {self.title}() is a {type_label(value)}; expected numbers, "
                "Dr.Jit arrays, or PyTrees of them. A function of Numba can also use constants "
                "and NumPy arrays that are defined outside of it."
            )
        return cls, tuple([self._add(p, f"{path}[{k}]") for k, p in enumerate(parts)])

    def code(self, place: int) -> str:
        """Returns the code of the type that a number is passed as."""
        return _passed(self._dtype(place)).code

    def _dtype(self, place: int) -> dt.DType:
        value = self.leaves[place]
        if _is_array(value):
            return value._dtype
        t = _NUMBERS[type(value)]
        return self.precision if t.is_float and self.precision else t

    def nodes(self) -> list[Node]:
        """Returns the values that are passed."""
        result = []
        for k, value in enumerate(self.leaves):
            t = self._dtype(k)
            n = value._node if _is_array(value) else literal(t, value)
            result.append(cast(_passed(t), n))
        return result

    def key(self) -> tuple:
        """Returns the structure with codes of types."""
        return tuple([map_structure(s, self.code) for s in self.structure])

    def plain(self) -> list[Any]:
        """Returns the arguments if there are no arrays among them."""
        return [map_structure(s, self.leaves.__getitem__, _instance) for s in self.structure]


class _NumbaFunction:
    """A function of Numba and the one for its derivatives, compiled once for each combination
    of argument types."""

    def __init__(self, function: Any, derivative: Any) -> None:
        self.function, self.derivative = function, derivative
        self.title = label(function)
        self._signature = inspect.signature(function.py_func)
        if any(p.kind is p.KEYWORD_ONLY for p in self._signature.parameters.values()):
            raise TypeError(f"dr.wrap(): {self.title}(): Numba has no keyword-only arguments")
        self._compiled: dict[tuple, Any] = {}

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        if kwargs or len(args) < len(self._signature.parameters):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        given = _Arguments(args, self.title)
        if not given.namespace:
            return self.function(*given.plain())
        compiled = self._for(self.function, given)
        nodes = given.nodes()
        results = foreign_call(compiled.function, nodes)
        half = given.precision is dt.f16
        results = [cast(dt.f16, n) if half and n.dtype is dt.f32 else n for n in results]
        following = iter(zip(results, self._variables(given, nodes, results), strict=True))

        def array(_: str) -> Any:
            n, v = next(following)
            result = leaf.from_value(table.find(given.namespace, "leaf", n.dtype), as_value((n, v)))
            if given.shape is None:
                return result
            return table.find(given.namespace, "tensor", result._dtype)(result, given.shape)

        def node(cls: Any, parts: tuple) -> Any:
            if cls is complex and given.shape is None:
                return table.find(given.namespace, "complex", parts[0]._dtype, (2,))(*parts)
            return cls(*parts) if hasattr(cls, "_fields") else parts

        return map_structure(compiled.result, array, node)

    def _for(self, function: Any, given: _Arguments) -> Any:
        precision = _passed(given.precision).code if given.precision else ""
        key = function, given.key(), precision
        result = self._compiled.get(key)
        if result is None:
            from .numba_compile import compiled

            name = getattr(function, "__name__", "a function")
            with progress.Task(f"compiling {name}() with Numba"):
                result = self._compiled[key] = compiled(*key)
        if given.namespace.startswith("cuda"):
            _check_gpu(function, result.function)
        return result

    def _variables(
        self, given: _Arguments, nodes: list[Node], results: list[Node]
    ) -> list[Var | None]:
        """Records the call for derivatives; returns the variables of the results."""
        places = [k for k, a in enumerate(given.leaves) if _is_array(a) and a._var is not None]
        rows = [k for k, n in enumerate(results) if n.dtype.is_float]
        if not places or not rows:
            return [None] * len(results)
        partials: list[list[Node]] | None = None
        if self.derivative is not None:
            flat = foreign_call(self._derivative_for(given, len(results)).function, nodes)
            count = len(nodes)
            partials = [[flat[r * count + k] for k in places] for r in rows]
        arguments = [given.leaves[k]._var for k in places]
        operation = _Derivatives(self.title, partials)
        variables = attach(operation, [results[r] for r in rows], arguments)
        return interleave([n.dtype.is_float for n in results], variables)

    def _derivative_for(self, given: _Arguments, results: int) -> Any:
        compiled = self._for(self.derivative, given)
        arguments, found = len(given.leaves), len(compiled.function.results)
        if found != results * arguments:
            rows = f" for each of {results} results" if results > 1 else ""
            raise TypeError(
                f"dr.wrap(): {label(self.derivative)}() returns {found} numbers; expected the "
                f"partial derivatives of {self.title}() by {arguments} arguments{rows}"
            )
        return compiled


@cache
def _check_gpu(function: Any, compiled: Any) -> None:
    """Raises a TypeError if GPUs cannot run a function."""
    from ...jit.target.cuda.foreign import lacking

    if (what := lacking(compiled)) is not None:
        code = function.py_func.__code__
        raise TypeError(
            f"dr.wrap(): {label(function)}() ({code.co_filename}:{code.co_firstlineno}) needs "
            f"{what}, which kernels on GPUs do not have. They have arithmetic, constants, NumPy "
            "arrays that are defined outside, and the functions of Dr.Jit that are in the module "
            "math, too. Change the function, or call it with arrays of drjit.llvm."
        )


class _Derivatives(ValueOp):
    """A call in the graph of derivatives: the partial derivatives of each result by each argument,
    None if they are unknown."""

    def __init__(self, title: str, partials: list[list[Node]] | None) -> None:
        self.title, self.partials = title, partials

    def name(self) -> str:
        return self.title

    def _rows(self) -> list[list[Node]]:
        if self.partials is None:
            raise RuntimeError(
                f"dr.wrap(): the derivatives of {self.title}() are unknown. Pass a function of "
                "Numba that returns the partial derivatives: dr.wrap('drjit', 'numba', "
                "derivative=...), or detach the arguments."
            )
        return self.partials

    def forward(self) -> None:
        tangents = self.gradients(self.arguments)
        pairs = zip(self._rows(), self.results, strict=True)
        self.accumulate(self.results, [weighted_sum(row, tangents, v.dtype) for row, v in pairs])

    def backward(self) -> None:
        gradients = self.gradients(self.results)
        pairs = zip(zip(*self._rows(), strict=True), self.arguments, strict=True)
        self.accumulate(
            self.arguments, [weighted_sum(column, gradients, v.dtype) for column, v in pairs]
        )


def _is_array(value: Any) -> bool:
    return type(value) not in _NUMBERS


def _passed(dtype: dt.DType) -> dt.DType:
    """Returns the type in which numbers are passed: Numba has no half precision on processors."""
    return dt.f32 if dtype is dt.f16 else dtype


@cache
def _record(name: str, fields: tuple[str, ...]) -> type:
    """Returns a type that Numba knows, with the fields of a structure or the keys of a
    dictionary."""
    try:
        return namedtuple(name, fields)
    except ValueError as error:
        raise TypeError(f"dr.wrap(): a {name} cannot be passed to Numba: {error}") from None


def _instance(cls: Any, parts: tuple) -> Any:
    return parts if cls is tuple else cls(*parts)

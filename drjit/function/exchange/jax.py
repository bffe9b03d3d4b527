"""JAX as a framework to exchange functions with; see `wrap`.

A JAX function is differentiated by `jax.vjp` and `jax.jvp`. A Dr.Jit function runs immediately if
JAX passes values. Within `jax.grad`, `jax.jit` and `jax.vmap`, it is a callback on the host with a
`jax.custom_vjp`, whose gradient evaluates the function again.
"""

from collections.abc import Callable
from functools import wraps
from itertools import compress
from operator import not_
from typing import Any

from ...array import interop
from ...jit.lazy import np
from .bridge import (
    CompletedCall,
    Evaluation,
    Framework,
    Join,
    check_results,
    interleave,
    label,
    split,
)


class Jax(Framework):
    """JAX."""

    name, title = "jax", "JAX"

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.module.Array)

    def is_float(self, value: Any) -> bool:
        """Returns whether an array has a floating point type."""
        return np.dtype(value.dtype).kind == "f"

    def array(self, data: np.ndarray) -> Any:
        """Returns a JAX array with the contents of an array.

        Raises:
            TypeError: the element type is not enabled in JAX.
        """
        if data.dtype.itemsize == 8 and not self.module.config.jax_enable_x64:
            raise TypeError(
                f"dr.wrap(): JAX would reduce arrays of type {data.dtype} to 32 bits. Switch 64 "
                "bits on by jax.config.update('jax_enable_x64', True)."
            )
        return self.module.numpy.asarray(data)

    def expose(self, function: Callable) -> Callable:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            arrays, join = split((args, kwargs), self.is_array)
            if any(isinstance(a, self.module.core.Tracer) for a in arrays):
                return _traced(self, function, join, arrays)
            data = [np.asarray(a) for a in arrays]
            found = Evaluation(function, join, data, [False] * len(data), self)
            return found.join([self.array(v) for v in found.values()])

        return wrapped


def _traced(jax: Jax, function: Callable, join: Join, arrays: list) -> Any:
    """Calls a Dr.Jit function with arrays whose values JAX does not know yet."""
    floats = [jax.is_float(a) for a in arrays]
    none = [False] * len(arrays)
    # Dr.Jit traces as well: results have shapes before they have values.
    trial = Evaluation(function, join, [np.zeros(a.shape, a.dtype) for a in arrays], none, jax)
    numbers = split(trial.join(trial.outputs), lambda v: isinstance(v, int | float))[0]
    if numbers:
        raise TypeError(
            f"dr.wrap(): {label(function)}() returned the number {numbers[0]!r}, which JAX's "
            "transformations cannot follow; return an array"
        )
    if any(v.size == 0 for v in trial.values()) and all(a.size for a in arrays):
        # JAX would not even call it
        raise TypeError(
            f"dr.wrap(): {label(function)}() returned an empty array for arguments that are 0; "
            "JAX's transformations need shapes that do not depend on values"
        )
    shape_of = jax.module.ShapeDtypeStruct
    shapes = [shape_of(v.shape, v.dtype) for v in trial.values()]
    differentiable = trial.differentiable()

    def primal(*data: Any) -> list[np.ndarray]:
        result = Evaluation(function, join, [np.asarray(d) for d in data], none, jax).values()
        for v, shape in zip(result, shapes, strict=True):
            if v.shape != shape.shape:
                raise TypeError(
                    f"dr.wrap(): {label(function)}() returned an array of shape {v.shape}, but of "
                    f"shape {shape.shape} for arguments that are 0; JAX's transformations need "
                    "shapes that do not depend on values"
                )
        return result

    def gradient(data: Any, gradients: Any) -> list[np.ndarray]:
        found = Evaluation(function, join, [np.asarray(d) for d in data], floats, jax)
        return found.backward(interleave(differentiable, map(np.asarray, gradients)))

    callback = jax.module.pure_callback

    @jax.module.custom_vjp
    def call(*xs: Any) -> Any:
        return callback(primal, shapes, *xs, vmap_method="sequential")

    def first(*xs: Any) -> Any:
        return call(*xs), xs

    def second(xs: Any, gradients: Any) -> Any:
        known = [*compress(gradients, differentiable)]
        wanted = [shape_of(x.shape, x.dtype) for x in compress(xs, floats)]
        found = callback(gradient, wanted, xs, known, vmap_method="sequential")
        zero = jax.module.dtypes.float0
        others = (np.zeros(x.shape, zero) for x, on in zip(xs, floats, strict=True) if not on)
        return tuple(interleave(floats, found, others))

    call.defvjp(first, second)
    return trial.join(call(*arrays))


class _JaxCall(CompletedCall):
    """A call of a JAX function from Dr.Jit."""

    def __init__(
        self, jax: Jax, function: Callable, join: Join, arrays: list, tracked: list[bool]
    ) -> None:
        self.jax = jax
        given = [jax.array(interop.components(x)) for x in arrays]
        self.inputs = [*compress(given, tracked)]
        fixed = [x for x, on in zip(given, tracked, strict=True) if not on]
        self.pullback: Any = None
        self.floats: list[bool] = []

        def pure(inputs: list) -> tuple[list, list]:
            args, kwargs = join(interleave(tracked, inputs, fixed))
            result = function(*args, **kwargs)
            check_results(function, result, jax.is_array, "JAX arrays")
            found, self.join = split(result, jax.is_array)
            self.floats = [jax.is_float(x) for x in found]
            return [*compress(found, self.floats)], [*compress(found, map(not_, self.floats))]

        self.pure = pure
        if self.inputs:
            results, self.pullback, others = jax.module.vjp(pure, self.inputs, has_aux=True)
        else:
            results, others = pure([])
        self.values = [np.asarray(v) for v in interleave(self.floats, results, others)]
        self.shapes = [(v.shape, v.dtype) for v in self.values]

    def backward(self, gradients: list[np.ndarray]) -> list[np.ndarray]:
        known = [self.jax.array(g) for g in compress(gradients, self.floats)]
        return [np.asarray(g) for g in self.pullback(known)[0]]

    def forward(self, tangents: list[np.ndarray]) -> list[np.ndarray]:
        known = [self.jax.array(t) for t in tangents]
        _, found, _ = self.jax.module.jvp(self.pure, (self.inputs,), (known,), has_aux=True)
        others = (np.zeros(*s) for s, f in zip(self.shapes, self.floats, strict=True) if not f)
        return interleave(self.floats, map(np.asarray, found), others)


Jax.call = _JaxCall

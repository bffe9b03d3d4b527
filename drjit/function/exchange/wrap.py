"""`wrap`: functions of one framework as functions of another, with derivatives."""

from collections.abc import Callable
from functools import cache, wraps
from types import ModuleType
from typing import Any

from ...array import signatures
from . import numba_function
from .bridge import Framework, adopt, imported
from .jax import Jax
from .torch import Torch

_FRAMEWORKS: dict[str, type[Framework]] = {"torch": Torch, "jax": Jax}


@cache
def _framework(name: str) -> Framework:
    return _FRAMEWORKS[name]()


def _known(framework: Any, argument: str) -> str:
    name = framework.__name__ if isinstance(framework, ModuleType) else framework
    if name not in ("drjit", "numba") and name not in _FRAMEWORKS:
        names = ", ".join(repr(n) for n in ("drjit", *_FRAMEWORKS, "numba"))
        raise ValueError(f"dr.wrap(): unknown '{argument}' {framework!r}; expected one of {names}")
    return name


@signatures.wrapping
def wrap(
    source: str | ModuleType, target: str | ModuleType, *, derivative: Callable | None = None
) -> Callable[[Callable], Callable]:
    """Returns a decorator that makes a function written for the framework `target` callable from
    code of the framework `source`, with derivatives that propagate through both.

    Frameworks are `"drjit"`, `"torch"` and `"jax"`, or their modules. One of the two must be
    Dr.Jit. Arrays anywhere in PyTrees of arguments and results are converted on the way, and share
    memory where possible: arrays of other frameworks become tensors of `drjit.auto.ad`, and Dr.Jit
    arrays get the shape that `.numpy()` has, with complex numbers as two components. PyTorch
    tensors on a GPU become tensors of `drjit.cuda.ad` without copies, and arrays of `drjit.cuda`
    tensors there. Everything else passes unchanged. The function must be pure and must not change
    its arguments in place.

    PyTorch supports both modes of differentiation, but only first derivatives. Results of a Dr.Jit
    function within JAX have gradients, but no tangents. In `jax.jit`, the function runs as a
    callback on the host, and is called once more, with zeros, to find the shapes of its results.

    The framework `"numba"` stands for functions of numbers that Numba compiles. As `target`, such
    a function (decorated with `numba.njit`) becomes an operation of traced programs: kernels
    contain its machine code and call it for each active lane, in loops, branches and calls as
    well. Arguments and results are numbers, arrays, or PyTrees of these: nested arrays, lists and
    tuples arrive as tuples, dictionaries and structures as named tuples. Types of results are those
    that Numba infers, but floating-point results have the precision of the most precise
    floating-point argument. An exception is raised where the results are read, with the lane and
    the line. `derivative` is a function that Numba compiles for the same arguments. It returns a
    partial derivative for each number among the arguments (those by integers are ignored), or, if
    there are several results, a tuple of them for each result. Without one, the results cannot be
    differentiated.

    As `source`, the framework `"numba"` makes a Dr.Jit function of numbers (arrays with one entry,
    `Float64`, or `Float` if Numba passes `float32`) one that compiled code of Numba calls as a
    native function, also from several threads. Its `value_and_grad` returns the value and a tuple
    of the partial derivatives. Both take NumPy arrays as well, as a universal function does (it
    has one, `.ufunc`). `.ctypes` and `.address` are C functions on `double`, for
    `scipy.LowLevelCallable`. The function must be a single kernel; arrays that it refers to are
    constants. It is traced when it is first used.

    >>> import numba
    >>> @numba.njit
    ... def slope(x, n):
    ...     return n * x ** (n - 1), 0.0
    >>> @dr.wrap(source="drjit", target="numba", derivative=slope)
    ... @numba.njit
    ... def power(x, n):
    ...     result = 1.0
    ...     for _ in range(n):
    ...         result *= x
    ...     return result
    >>> x = ad.Float(1, 2, 3)
    >>> dr.enable_grad(x)
    >>> y = power(x, 3)
    >>> dr.backward(y)
    >>> y, x.grad
    ([1, 8, 27], [3, 12, 27])

    >>> @dr.wrap(source="numba", target="drjit")
    ... def parabola(x):
    ...     return x * x - 2
    >>> @numba.njit
    ... def newton(x):
    ...     for _ in range(9):
    ...         y, (slope,) = parabola.value_and_grad(x)
    ...         x -= y / slope
    ...     return x
    >>> newton(1.0)
    1.4142135623730951


    Raises:
        ValueError: a framework is unknown, or neither is Dr.Jit, or `derivative` is given but
            `target` is not Numba.
        ModuleNotFoundError: the framework is not installed; for a function written for that
            framework, raised when it is called.
        TypeError: when called, an array has no equivalent on the other side, or the function
            returns arrays of another framework.
    """
    outside, inside = _known(source, "source"), _known(target, "target")
    if "drjit" not in (outside, inside):
        raise ValueError("dr.wrap(): 'source' or 'target' must be 'drjit'")
    if derivative is not None and inside != "numba":
        raise ValueError("dr.wrap(): 'derivative' belongs to functions with the target 'numba'")
    if outside == inside:
        return lambda function: function
    if inside == "numba":
        return lambda function: numba_function.adopt(function, derivative)
    if outside == "numba":
        imported("numba", "Numba")
        from .numba_extension import expose

        return expose
    if inside == "drjit":
        return _framework(outside).expose

    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return adopt(function, _framework(inside), args, kwargs)

        return wrapped

    return decorate


wrap_ad = wrap
"""An older name of `wrap`."""

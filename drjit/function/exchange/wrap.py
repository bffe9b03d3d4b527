"""`wrap`: functions of one framework as functions of another, with derivatives."""

from collections.abc import Callable
from functools import cache, wraps
from types import ModuleType
from typing import Any

from .bridge import Framework, adopt, module_name
from .jax import Jax
from .torch import Torch

_FRAMEWORKS: dict[str, type[Framework]] = {"torch": Torch, "jax": Jax}


@cache
def _framework(name: str) -> Framework:
    return _FRAMEWORKS[name]()


def _known(framework: Any, argument: str) -> str:
    name = module_name(framework)
    if name != "drjit" and name not in _FRAMEWORKS:
        names = ", ".join(repr(n) for n in ("drjit", *_FRAMEWORKS))
        raise ValueError(f"dr.wrap(): unknown '{argument}' {framework!r}; expected one of {names}")
    return name


def wrap(source: str | ModuleType, target: str | ModuleType) -> Callable[[Callable], Callable]:
    """Returns a decorator that makes a function written for the framework `target` callable from
    code of the framework `source`, with derivatives that propagate through both.

    Frameworks are `"drjit"`, `"torch"` and `"jax"`, or their modules. One of the two must be
    Dr.Jit. Arrays anywhere in PyTrees of arguments and results are converted on the way, and share
    memory where possible: arrays of other frameworks become tensors of `drjit.auto.ad`, and Dr.Jit
    arrays get the shape that `.numpy()` has, with complex numbers as two components. Everything
    else passes unchanged. The function must be pure and must not change its arguments in place.

    PyTorch supports both modes of differentiation, but only first derivatives. Results of a Dr.Jit
    function within JAX have gradients, but no tangents. In `jax.jit`, the function runs as a
    callback on the host, and is called once more, with zeros, to find the shapes of its results.

    Raises:
        ValueError: a framework is unknown, or neither is Dr.Jit.
        ModuleNotFoundError: the framework is not installed; for a function written for that
            framework, raised when it is called.
        TypeError: when called, an array has no equivalent on the other side, or the function
            returns arrays of another framework.
    """
    outside, inside = _known(source, "source"), _known(target, "target")
    if "drjit" not in (outside, inside):
        raise ValueError("dr.wrap(): 'source' or 'target' must be 'drjit'")
    if outside == inside:
        return lambda function: function
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

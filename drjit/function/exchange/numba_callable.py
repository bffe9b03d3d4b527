"""`wrap` with the source Numba: compiled code calls Dr.Jit functions of numbers."""

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any

from ...array.show import is_array
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType
from ...jit.lazy import np
from ..signature import signature
from .bridge import label
from .numba_function import module
from .numba_native import Native


class NumbaCallable:
    """A Dr.Jit function of numbers that compiled code of Numba calls; see `wrap`.

    It is called with numbers, or, like a universal function of NumPy, with arrays. Its
    `value_and_grad` returns the value and a tuple of the partial derivatives. `address` and
    `ctypes` are a C function on `double`, for callbacks such as `scipy.LowLevelCallable`, and
    `ufunc` is a universal function.
    """

    def __init__(self, function: Callable, gradient: bool = False) -> None:
        self.function, self.gradient = function, gradient
        update_wrapper(self, function)
        self.count = len(signature(function).parameters)
        self._natives: dict[DType, Native] = {}

    def __repr__(self) -> str:
        return f"<{label(self.function)}{'.value_and_grad' * self.gradient} for Numba>"

    def native(self, dtype: DType = dt.f64) -> Native:
        """Returns the machine code for an element type, which is made on first use."""
        found = self._natives.get(dtype)
        if found is None:  # two threads may make it at once, and both use the first one
            made = Native(self.function, self.count, dtype, self.gradient)
            found = self._natives.setdefault(dtype, made)
        return found

    def __call__(self, *args: Any) -> Any:
        if any(is_array(a) for a in args) and not self.gradient:
            return self.function(*args)
        if len(args) != self.count:
            raise TypeError(f"{label(self.function)}() takes {self.count} numbers, not {len(args)}")
        if all(np.ndim(a) == 0 for a in args):
            value, *partials = self.native()(*args)
            return (value, tuple(partials)) if self.gradient else value
        found = self.ufunc(*args)
        return (found[0], found[1:]) if self.gradient else found

    @cached_property
    def value_and_grad(self) -> "NumbaCallable":
        """The same function, with the value and a tuple of the partial derivatives as results."""
        if self.gradient:
            raise AttributeError("value_and_grad")
        return NumbaCallable(self.function, True)

    @property
    def address(self) -> int:
        """The address of a C function that takes and returns `double`, as long as this object
        lives: NaN where the function fails."""
        return self.native().address

    @property
    def ctypes(self) -> Any:
        """The same as a function of `ctypes`, which keeps the machine code alive."""
        made = self.native().ctypes
        made.owner = self
        return made

    @cached_property
    def ufunc(self) -> Any:
        """A universal function of NumPy, for `float32` and `float64`."""
        numba: Any = module()
        inputs = [f"x{k}" for k in range(self.count)]
        names: dict[str, Any] = {"function": self}
        if not self.gradient:
            exec(f"def loop({', '.join(inputs)}): return function({', '.join(inputs)})", names)
            types = [t(*[t] * self.count) for t in (numba.float32, numba.float64)]
            return numba.vectorize(types)(names["loop"])
        outputs = [f"y{k}" for k in range(self.count + 1)]
        lines = [f"def loop({', '.join(inputs + outputs)}):"]
        lines.append(f"    y0[0], partials = function({', '.join(inputs)})")
        lines += [f"    y{k + 1}[0] = partials[{k}]" for k in range(self.count)]
        exec("\n".join(lines), names)
        types = [
            numba.void(*[t] * self.count, *[t[:]] * len(outputs))
            for t in (numba.float32, numba.float64)
        ]
        layout = f"{','.join(['()'] * self.count)}->{','.join(['()'] * len(outputs))}"
        return numba.guvectorize(types, layout)(names["loop"])

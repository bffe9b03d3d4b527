"""PyTorch as a framework to exchange functions with; see `wrap`.

A Dr.Jit function becomes a `torch.autograd.Function`. A PyTorch function is recorded in PyTorch's
own graph, which is kept as long as the Dr.Jit result; its tangents are derivatives of gradients.
"""

from collections.abc import Callable
from functools import wraps
from itertools import compress
from typing import Any

from ...jit.device import Device
from ...jit.lazy import np
from .bridge import (
    CompletedCall,
    Data,
    Evaluation,
    Framework,
    Join,
    check_results,
    interleave,
    split,
)

_CUDA = 2  # according to DLPack


class Torch(Framework):
    """PyTorch."""

    name, title = "torch", "PyTorch"

    def __init__(self) -> None:
        super().__init__()
        self.function = _autograd_function(self)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.module.Tensor)

    def shares(self, device: Device) -> bool:
        return device.dlpack_device[0] == _CUDA

    def data(self, value: Any) -> Data:
        """Returns the contents of a tensor: a NumPy array, or the tensor if it is on a GPU.

        Raises:
            TypeError: it is elsewhere, or NumPy lacks its element type or layout, or it
                represents several tensors within `torch.func.vmap`.
        """
        if value.device.type not in ("cpu", "cuda"):
            raise TypeError(
                f"dr.wrap(): a tensor is on the device '{value.device}'; move it with .cpu()"
            )
        try:
            result = value.detach().resolve_neg().resolve_conj()
            if value.device.type == "cpu":
                return result.numpy()
            if result.is_complex():
                raise TypeError("split it into real and imaginary part")
            if result.layout is not self.module.strided:
                raise TypeError("make it dense with .to_dense()")
            return result
        except RuntimeError:
            raise TypeError(
                "dr.wrap(): a PyTorch tensor has no values yet; Dr.Jit functions cannot be called "
                "within torch.func.vmap"
            ) from None
        except TypeError as error:
            raise TypeError(
                f"dr.wrap(): a PyTorch tensor of type {value.dtype} and layout {value.layout} has "
                f"no equivalent in Dr.Jit ({error})"
            ) from None

    def array(self, data: Data, copy: bool = False) -> Any:
        """Returns a tensor with the contents of an array, either sharing its memory or as a
        copy."""
        if not isinstance(data, np.ndarray):
            shared = data if self.is_array(data) else self.module.from_dlpack(data)
            return shared.clone() if copy else shared
        return self.module.from_numpy(data.copy() if copy or not data.flags.writeable else data)

    def tracks(self, value: Any) -> bool:
        """Returns whether PyTorch tracks derivatives with respect to a tensor, in either mode."""
        if not value.is_floating_point():
            return False
        forward_ad = self.module.autograd.forward_ad
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(value).tangent is not None:
            return True
        return value.requires_grad and self.module.is_grad_enabled()

    def expose(self, function: Callable) -> Callable:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            tensors, join = split((args, kwargs), self.is_array)
            call = _DrJitCall(self, function, join, [self.tracks(t) for t in tensors])
            if any(call.tracked):
                results = self.function.apply(call, *tensors)
            else:
                results = call.run(tensors)
            return call.join(results)

        return wrapped


class _DrJitCall:
    """A call of a Dr.Jit function from PyTorch."""

    def __init__(self, torch: Torch, function: Callable, join: Join, tracked: list[bool]) -> None:
        self.torch, self.function, self.arguments = torch, function, join
        self.tracked = tracked
        self.evaluation: Any = None
        self.join: Any = None

    def run(self, tensors: Any) -> tuple[Any, ...]:
        """Returns the results. In-place changes to them must not affect what derivatives need."""
        data = [self.torch.data(t) for t in tensors]
        found = Evaluation(self.function, self.arguments, data, self.tracked, self.torch)
        self.join = found.join
        copies = any(self.tracked)
        if copies:
            self.evaluation = found
        return tuple([self.torch.array(v, copies) for v in found.values()])

    def backward(self, gradients: Any) -> list[Any]:
        """Returns gradients of all tensors, None where they are not tracked."""
        known = [None if g is None else self.torch.data(g) for g in gradients]
        found = self.evaluation.backward(known)
        # A gradient has its own memory: PyTorch code changes gradients in place.
        return interleave(self.tracked, [self.torch.array(g, True) for g in found])

    def forward(self, tangents: Any) -> tuple[Any, ...]:
        """Returns tangents of all results, None where there can be none."""
        given = compress(tangents, self.tracked)
        found = self.evaluation.forward([None if t is None else self.torch.data(t) for t in given])
        floats = self.evaluation.differentiable()
        return tuple(
            interleave(floats, [self.torch.array(t, True) for t in compress(found, floats)])
        )


def _autograd_function(framework: Torch) -> Any:
    torch = framework.module

    class DrJitDerivative(torch.autograd.Function):
        """A derivative of a Dr.Jit function, which cannot itself be differentiated. It takes the
        function's arguments so that PyTorch sees the dependence on them."""

        @staticmethod
        def forward(derivative: Callable, n: int, *tensors: Any) -> tuple[Any, ...]:
            return tuple(derivative(tensors[n:]))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            raise RuntimeError(
                "dr.wrap(): a Dr.Jit function has only first derivatives within PyTorch"
            )

        jvp = backward

    class DrJitFunction(torch.autograd.Function):
        """A Dr.Jit function in PyTorch's graph."""

        @staticmethod
        def forward(call: _DrJitCall, *tensors: Any) -> tuple[Any, ...]:
            return call.run(tensors)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
            ctx.call = call = inputs[0]
            ctx.set_materialize_grads(False)
            # Dr.Jit arrays share the tensors' memory. PyTorch detects if it is changed in the
            # meantime.
            ctx.save_for_backward(*inputs[1:])
            ctx.save_for_forward(*inputs[1:])
            floats = call.evaluation.differentiable()
            ctx.mark_non_differentiable(*[t for t, f in zip(output, floats, strict=True) if not f])

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            tensors = ctx.saved_tensors
            found = DrJitDerivative.apply(ctx.call.backward, len(tensors), *tensors, *gradients)
            return None, *found

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> tuple[Any, ...]:
            tensors = ctx.saved_tensors
            return DrJitDerivative.apply(ctx.call.forward, len(tensors), *tensors, *tangents)

    return DrJitFunction


class _TorchCall(CompletedCall):
    """A call of a PyTorch function from Dr.Jit."""

    def __init__(
        self, torch: Torch, function: Callable, join: Join, arrays: list, tracked: list[bool]
    ) -> None:
        self.torch = torch
        tensors = [torch.array(torch.entries(x)) for x in arrays]
        self.inputs = [*compress(tensors, tracked)]
        for t in self.inputs:
            t.requires_grad_()
        with torch.module.set_grad_enabled(bool(self.inputs)):
            args, kwargs = join(tensors)
            result = function(*args, **kwargs)
        check_results(function, result, torch.is_array, "PyTorch tensors")
        self.results, self.join = split(result, torch.is_array)
        self.values = [torch.data(t) for t in self.results]

    def backward(self, gradients: list[Data]) -> list[Data]:
        known = [
            (t, self.torch.array(g, True))
            for t, g in zip(self.results, gradients, strict=True)
            if t.requires_grad
        ]
        if known:
            # Unlike `torch.autograd.grad`, this reaches parameters that the function uses.
            self.torch.module.autograd.backward(*zip(*known, strict=True), retain_graph=True)
        result = [self._data(t.grad, t) for t in self.inputs]
        for t in self.inputs:
            t.grad = None
        return result

    def forward(self, tangents: list[Data]) -> list[Data]:
        torch = self.torch.module
        results = [t for t in self.results if t.requires_grad]
        # Gradients are linear in the gradients of the results. The derivative of this map,
        # transposed again, maps tangents to tangents.
        seeds = [torch.zeros_like(t, requires_grad=True) for t in results]
        found: Any = [None] * len(results)
        if results:
            with torch.enable_grad():
                gradients = torch.autograd.grad(
                    results, self.inputs, seeds, create_graph=True, allow_unused=True
                )
            known = [
                (g, self.torch.array(t, True))
                for g, t in zip(gradients, tangents, strict=True)
                if g is not None and g.requires_grad
            ]
            if known:
                found = torch.autograd.grad(
                    *[[k[0] for k in known], seeds, [k[1] for k in known]],
                    retain_graph=True,
                    allow_unused=True,
                )
        flags = [t.requires_grad for t in self.results]
        return [
            self._data(t, v) for t, v in zip(interleave(flags, found), self.results, strict=True)
        ]

    def _data(self, gradient: Any, value: Any) -> Data:
        if gradient is None:
            gradient = self.torch.module.zeros_like(value)
        return self.torch.data(gradient)


Torch.call = _TorchCall

"""Hash grids and small fused networks as modules of PyTorch, described by the configurations of
tiny-cuda-nn. `drjit.interop.torch` has them; beside a file of that name, tools would take it for
PyTorch.

PyTorch is imported with this module. All modules call one operator of `torch.library`, of which
`torch.compile` knows shapes and derivatives. Tensors and Dr.Jit arrays share their memory in both
directions; on a GPU, streams wait for each other as for other conversions.
"""

from typing import Any

try:
    import torch  # pyright: ignore[reportMissingImports]
    from torch import Tensor  # pyright: ignore[reportMissingImports]
except ImportError:
    raise ModuleNotFoundError(
        "drjit.interop.torch: PyTorch is not installed. Install it with `pip install torch`."
    ) from None

from . import configured

_BACKENDS = {"cpu": "llvm", "cuda": "cuda"}
_NAMES = {torch.float16: "float16", torch.float32: "float32", torch.float64: "float64"}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}
_HOST = ("llvm", "float32")  # for what the model of any device and type has


def _name(dtype: torch.dtype, what: str) -> str:
    """Returns the name of a type."""
    if dtype not in _NAMES:
        raise TypeError(f"{what} torch.float16, float32 or float64, not {dtype}")
    return _NAMES[dtype]


def _model(x: Tensor, params: Tensor, description: str) -> configured.Model:
    """Returns the model for where tensors are."""
    if x.device != params.device:
        raise ValueError(
            f"drjit.interop.torch: the input is on the device '{x.device}', the parameters are on "
            f"'{params.device}'"
        )
    if x.device.type not in _BACKENDS:
        raise TypeError(
            f"drjit.interop.torch: a tensor is on the device '{x.device}'; 'cpu' and 'cuda' are "
            "supported"
        )
    dtype = _name(params.dtype, "drjit.interop.torch: parameters are of type")
    return configured.model(description, _BACKENDS[x.device.type], dtype)


def _shared(cls: Any, tensor: Tensor) -> Any:
    """Returns an array of a class that has the memory of a tensor."""
    return cls(tensor.detach().contiguous())


@torch.library.custom_op("drjit::evaluate", mutates_args=())
def _evaluate(x: Tensor, params: Tensor, description: str) -> Tensor:
    model = _model(x, params, description)
    if not x.shape[0]:
        return _like(x, params, description)
    return model.forward(_shared(model.position, x), _shared(model.params, params)).torch()


@_evaluate.register_fake
def _like(x: Tensor, params: Tensor, description: str) -> Tensor:
    model = configured.model(description, *_HOST)
    return x.new_empty((x.shape[0], model.n_outputs), dtype=_TYPES[model.dtype])


@torch.library.custom_op("drjit::differentiate", mutates_args=())
def _differentiate(
    gradient: Tensor, x: Tensor, params: Tensor, description: str, of_x: bool, of_params: bool
) -> tuple[Tensor, Tensor]:
    """Returns gradients of positions and parameters; empty ones where none is asked for."""
    model = _model(x, params, description)
    if not x.shape[0]:
        return _no_gradients(gradient, x, params, description, of_x, of_params)
    found = model.backward(
        _shared(model.result, gradient), _shared(model.position, x), _shared(model.params, params),
        of_x, of_params,
    )  # fmt: skip
    of_position, of_parameters = [x.new_empty(0) if g is None else g.torch() for g in found]
    return of_position, of_parameters


@_differentiate.register_fake
def _no_gradients(
    gradient: Tensor, x: Tensor, params: Tensor, description: str, of_x: bool, of_params: bool
) -> tuple[Tensor, Tensor]:
    of_position = torch.zeros_like(x) if of_x else x.new_empty(0)
    return of_position, torch.zeros_like(params) if of_params else x.new_empty(0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.description = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, params = ctx.saved_tensors
    of_x, of_params, _ = ctx.needs_input_grad
    found = _differentiate(gradient, x, params, ctx.description, of_x, of_params)
    return found[0] if of_x else None, found[1] if of_params else None, None


def _twice(*_: Any) -> Any:
    raise RuntimeError(
        "drjit.interop.torch: the modules have first derivatives only; their gradients cannot be "
        "differentiated"
    )


_evaluate.register_autograd(_backward, setup_context=_save)
_differentiate.register_autograd(_twice)


class _Module(torch.nn.Module):
    """What the modules have in common: all parameters in one tensor, `params`."""

    def __init__(
        self,
        n_input_dims: int,
        n_output_dims: int | None,
        encoding_config: dict[str, Any] | None,
        network_config: dict[str, Any] | None,
        seed: int = 1337,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        dtype = torch.float32 if dtype is None else dtype
        name = _name(dtype, f"{type(self).__name__}(): 'dtype' must be")
        self.n_input_dims, self.seed, self.dtype = n_input_dims, seed, dtype
        self._position = torch.float64 if dtype is torch.float64 else torch.float32
        self._description = configured.described(
            n_input_dims, n_output_dims, encoding_config, network_config, name
        )
        model = configured.model(self._description, *_HOST)
        self.n_output_dims = model.n_outputs
        generator = torch.Generator().manual_seed(seed)
        params = torch.zeros(model.n_params, dtype=self._position)
        for first, end, bound in model.spans:
            params[first:end].uniform_(-bound, bound, generator=generator)
        self.params = torch.nn.Parameter(params)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.n_input_dims:
            raise ValueError(
                f"{type(self).__name__}: expected positions of shape (N, {self.n_input_dims}), got "
                f"{tuple(x.shape)}"
            )
        if not x.is_floating_point():
            raise TypeError(
                f"{type(self).__name__}: expected positions of a floating-point type, got {x.dtype}"
            )
        # PyTorch takes the tangents of an operator without a rule for zero.
        forward_ad = torch.autograd.forward_ad
        if forward_ad._current_level >= 0 and any(
            forward_ad.unpack_dual(t).tangent is not None for t in (x, self.params)
        ):
            raise NotImplementedError(
                f"{type(self).__name__}: there are derivatives in reverse mode only"
            )
        return _evaluate(x.to(self._position), self.params, self._description)

    def extra_repr(self) -> str:
        return (
            f"n_input_dims={self.n_input_dims}, n_output_dims={self.n_output_dims}, "
            f"seed={self.seed}, dtype={self.dtype}"
        )


class Encoding(_Module):
    """An encoding: features of shape (N, n_output_dims) of positions of shape (N, n_input_dims).

    `encoding_config` is a configuration of tiny-cuda-nn; docs/pytorch.md lists what there is.
    `dtype` is the type of the results, float32 by default. Parameters are the single tensor
    `params`, in single precision unless `dtype` is float64; `seed` determines their initial values.

    Raises:
        ValueError: the configuration has a component, setting or size that is not supported; in
            calls, the positions have another shape.
        TypeError: a setting is of another type; in calls, the positions are integers.

    >>> import torch
    >>> encoding = Encoding(2, {"otype": "Frequency", "n_frequencies": 4})
    >>> encoding.n_output_dims, encoding(torch.rand(5, 2)).shape
    (16, torch.Size([5, 16]))
    """

    def __init__(
        self,
        n_input_dims: int,
        encoding_config: dict[str, Any],
        seed: int = 1337,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n_input_dims, None, encoding_config, None, seed, dtype)


class Network(_Module):
    """A network without biases, from features of shape (N, n_input_dims) to (N, n_output_dims).

    `network_config` is a configuration of tiny-cuda-nn; for the other arguments, the attributes and
    what is raised, see `Encoding`. With `dtype=torch.float16`, matrices and activations are in half
    precision, and products are summed in single precision.

    >>> import torch
    >>> config = {"otype": "FullyFusedMLP", "n_neurons": 16, "n_hidden_layers": 1}
    >>> network = Network(4, 2, config)
    >>> network(torch.zeros(3, 4)).shape, network.params.shape
    (torch.Size([3, 2]), torch.Size([96]))
    """

    def __init__(
        self,
        n_input_dims: int,
        n_output_dims: int,
        network_config: dict[str, Any],
        seed: int = 1337,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n_input_dims, n_output_dims, None, network_config, seed, dtype)


class NetworkWithInputEncoding(_Module):
    """An encoding followed by a network, in a single kernel: see `Encoding` and `Network`. The
    parameters are those of the encoding, and then the matrices, row by row.

    >>> import torch
    >>> model = NetworkWithInputEncoding(
    ...     2, 3,
    ...     {"otype": "HashGrid", "n_levels": 4, "log2_hashmap_size": 10},
    ...     {"otype": "FullyFusedMLP", "n_neurons": 16, "n_hidden_layers": 2},
    ... )
    >>> model(torch.rand(5, 2)).shape
    torch.Size([5, 3])
    """

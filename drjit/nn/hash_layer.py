"""The layer that embeds a hash encoding in a network."""

from typing import Any, Self, overload

from ..array.base import type_label
from ..function.inspect.traits import is_tensor_v, tensor_t
from ..hashgrid import HashEncoding
from ..random import Generator
from .coopvec import CoopVec
from .module import Module


class HashEncodingLayer(Module):
    """A layer that maps a position to its features in a hash encoding.

    The layer refers to the encoding, whose parameters do not become part of the network: they are
    not entries of the mapping, `nn.pack` does not move them, and they must be added to the
    optimizer separately.

    Raises:
        TypeError: `encoding` is not a hash encoding.

    >>> from drjit import nn
    >>> from drjit.llvm import Float, TensorXf
    >>> enc = nn.HashGridEncoding(Float, 2, n_levels=4)
    >>> net = nn.Sequential(nn.HashEncodingLayer(enc), nn.Linear(-1, 3)).alloc(TensorXf, 2)
    >>> list(net), net.layers[1]
    (['layers.1.weights', 'layers.1.bias'], Linear(in_features=8, out_features=3))
    """

    def __init__(self, encoding: HashEncoding) -> None:
        if not isinstance(encoding, HashEncoding):
            raise TypeError(
                "drjit.nn.HashEncodingLayer(): expected a hash encoding such as "
                f"nn.HashGridEncoding(), got {type_label(encoding)}"
            )
        self.encoding = encoding

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        if size not in (-1, self.encoding.dimension):
            raise ValueError(
                f"drjit.nn.HashEncodingLayer: the encoding has dimension "
                f"{self.encoding.dimension}, but the input has {size} features"
            )
        return type(self)(self.encoding), self.encoding.n_output_features

    @overload
    def __call__(self, arg: CoopVec[Any], /) -> CoopVec[Any]: ...

    @overload
    def __call__(self, arg: Any, /) -> Any: ...

    def __call__(self, arg: Any, /) -> Any:
        """Returns the features at a position: a tensor of shape (n_output_features, N) for a tensor
        of shape (dimension, N), and otherwise a cooperative vector. The features have the type of
        the encoding's parameters.
        """
        features = self.encoding(arg)
        return tensor_t(type(features))(features) if is_tensor_v(arg) else CoopVec(features)

    @property
    def data(self) -> Any:
        """The parameters of the encoding."""
        return self.encoding.params

    def __repr__(self) -> str:
        return repr(self.encoding)

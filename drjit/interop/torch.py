"""Hash grids and small fused networks as modules of PyTorch, which this module imports."""

from ..nn.torch_modules import Encoding, Network, NetworkWithInputEncoding

__all__ = ["Encoding", "Network", "NetworkWithInputEncoding"]

for _value in (Encoding, Network, NetworkWithInputEncoding):
    _value.__module__ = __name__

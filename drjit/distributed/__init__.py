"""Programs that run in several processes, on one machine or many; see docs/distributed.md.

Every process runs the same program and calls the same operations in the same order. Engines are
`torch.distributed` and `mpi4py`; neither is imported before `init`.
"""

from .collective import (
    all_gather,
    all_reduce,
    barrier,
    broadcast,
    init,
    rank,
    reduce_scatter,
    world_size,
)
from .engine import DistributedError
from .optimizer import DataParallel

__all__ = [
    "DataParallel",
    "DistributedError",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "init",
    "rank",
    "reduce_scatter",
    "world_size",
]

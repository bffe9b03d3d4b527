"""Programs that run in several processes, on one machine or many; see docs/distributed.md.

Every process runs the same program and calls the same operations in the same order. Engines are
`torch.distributed` and `mpi4py`; neither is imported before `init`.
"""

from types import ModuleType as _ModuleType

from .collective import all_gather as all_gather
from .collective import all_reduce as all_reduce
from .collective import barrier as barrier
from .collective import broadcast as broadcast
from .collective import init as init
from .collective import rank as rank
from .collective import reduce_scatter as reduce_scatter
from .collective import world_size as world_size
from .engine import DistributedError as DistributedError
from .optimizer import DataParallel as DataParallel

__all__ = sorted(  # all of the above
    name
    for name, value in globals().items()
    if name[0] != "_" and not isinstance(value, _ModuleType)
)

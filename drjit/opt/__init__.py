"""Gradient-based optimizers: mappings from names to differentiable parameters, whose `step()` moves
every parameter along its gradient. Also the gradient scaler for mixed-precision training.
"""

from types import ModuleType as _ModuleType

from ..array.annotations import ArrayOrFloat as LearningRate
from ..array.annotations import Extra as Extra
from .lbfgs import LBFGS as LBFGS
from .methods import SGD as SGD
from .methods import Adam as Adam
from .methods import AdamW as AdamW
from .methods import Muon as Muon
from .methods import RMSProp as RMSProp
from .optimizer import Optimizer as Optimizer
from .optimizer import RateCache as _LRCache  # the name in annotations of `_step`
from .scaler import GradScaler as GradScaler

__all__ = sorted(  # all of the above
    name
    for name, value in globals().items()
    if name[0] != "_" and not isinstance(value, _ModuleType)
)

for _value in [globals()[_name] for _name in __all__]:
    if isinstance(_value, type) and _value.__module__.startswith(__name__):
        _value.__module__ = __name__

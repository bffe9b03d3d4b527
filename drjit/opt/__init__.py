"""Gradient-based optimizers: mappings from names to differentiable parameters, whose `step()` moves
every parameter along its gradient, and the gradient scaler for training in mixed precision.
"""

from ..array.annotations import ArrayOrFloat as LearningRate
from ..array.annotations import Extra
from .adam import Adam, AdamW
from .muon import Muon
from .optimizer import Optimizer
from .parameter import RateCache as _LRCache  # noqa: F401  as annotations of `_step` name it
from .rmsprop import RMSProp
from .scaler import GradScaler
from .sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Extra",
    "GradScaler",
    "LearningRate",
    "Muon",
    "Optimizer",
    "RMSProp",
]

for _value in [globals()[_name] for _name in __all__]:
    if isinstance(_value, type) and _value.__module__.startswith(__name__):
        _value.__module__ = __name__

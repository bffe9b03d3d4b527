"""Neural networks: cooperative vectors, matrix views, and modules built from them."""

from types import ModuleType as _ModuleType

from .. import hashgrid as hashgrid
from ..array.annotations import T
from ..array.base import ArrayBase as _ArrayBase
from ..hashgrid import HashGridEncoding, PermutoEncoding
from .coopvec import CoopVec, cast
from .encode import SinEncode, TriEncode
from .hash_layer import HashEncodingLayer
from .layers import (
    GELU,
    Cast,
    Exp,
    Exp2,
    LeakyReLU,
    Linear,
    ReLU,
    ScaleAdd,
    Sequential,
    Sigmoid,
    SiLU,
    Softplus,
    Tanh,
)
from .matrix import MatrixView, matvec, unpack, view
from .module import Module
from .packed import pack
from .save import load, save

TensorOrViewOrNone = _ArrayBase | MatrixView | None

__all__ = sorted(  # all of the above
    name
    for name, value in globals().items()
    if name[0] != "_" and (value is hashgrid or not isinstance(value, _ModuleType))
)

for _value in [globals()[_name] for _name in __all__]:
    if isinstance(_value, type) and _value.__module__.startswith(__name__):
        _value.__module__ = __name__

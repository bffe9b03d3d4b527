"""Cooperative vectors, matrix views, and neural network modules built from them."""

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

__all__ = [
    "GELU",
    "Cast",
    "CoopVec",
    "Exp",
    "Exp2",
    "HashEncodingLayer",
    "HashGridEncoding",
    "LeakyReLU",
    "Linear",
    "MatrixView",
    "Module",
    "PermutoEncoding",
    "ReLU",
    "ScaleAdd",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SinEncode",
    "Softplus",
    "T",
    "Tanh",
    "TensorOrViewOrNone",
    "TriEncode",
    "cast",
    "load",
    "matvec",
    "pack",
    "save",
    "unpack",
    "view",
]

for _value in [globals()[_name] for _name in __all__]:
    if isinstance(_value, type) and _value.__module__.startswith(__name__):
        _value.__module__ = __name__

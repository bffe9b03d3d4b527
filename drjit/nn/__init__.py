"""Neural networks: cooperative vectors, matrix views, and modules built from them."""

from types import ModuleType as _ModuleType

from .. import hashgrid as hashgrid
from ..array.annotations import T as T
from ..array.base import ArrayBase as _ArrayBase
from ..hashgrid import HashGridEncoding as HashGridEncoding
from ..hashgrid import PermutoEncoding as PermutoEncoding
from .coopvec import CoopVec as CoopVec
from .coopvec import cast as cast
from .encode import HashEncodingLayer as HashEncodingLayer
from .encode import SinEncode as SinEncode
from .encode import TriEncode as TriEncode
from .layers import GELU as GELU
from .layers import Cast as Cast
from .layers import Exp as Exp
from .layers import Exp2 as Exp2
from .layers import LeakyReLU as LeakyReLU
from .layers import Linear as Linear
from .layers import ReLU as ReLU
from .layers import ScaleAdd as ScaleAdd
from .layers import Sequential as Sequential
from .layers import Sigmoid as Sigmoid
from .layers import SiLU as SiLU
from .layers import Softplus as Softplus
from .layers import Tanh as Tanh
from .matrix import MatrixView as MatrixView
from .matrix import matvec as matvec
from .matrix import unpack as unpack
from .matrix import view as view
from .module import Module as Module
from .module import load as load
from .module import pack as pack
from .module import save as save
from .regularization import Dropout as Dropout
from .regularization import LayerNorm as LayerNorm

TensorOrViewOrNone = _ArrayBase | MatrixView | None

__all__ = sorted(  # all of the above
    name
    for name, value in globals().items()
    if name[0] != "_" and (value is hashgrid or not isinstance(value, _ModuleType))
)

for _value in [globals()[_name] for _name in __all__]:
    if isinstance(_value, type) and _value.__module__.startswith(__name__):
        _value.__module__ = __name__

"""Type variables and aliases for annotations in user programs."""

from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, TypeVarTuple

from .base import ArrayBase

if TYPE_CHECKING:
    AnyArray: TypeAlias = ArrayBase
else:
    # The type parameters: the class, what converts to it, the components, what converts to
    # components, the results of reductions, the plain array, and the mask.
    AnyArray = GenericAlias(ArrayBase, (Any,) * 7)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ArrayT = TypeVar("ArrayT", bound=ArrayBase)
SelfT = TypeVar("SelfT")
SelfCpT = TypeVar("SelfCpT")
ValT = TypeVar("ValT")
ValCpT = TypeVar("ValCpT")
RedT = TypeVar("RedT")
PlainT = TypeVar("PlainT")
MaskT = TypeVar("MaskT")
Extra = TypeVar("Extra")  # an optimizer's state for a parameter

Shape: TypeAlias = int | tuple[int, ...]
ArrayOrFloat: TypeAlias = float | ArrayBase
ArrayOrInt: TypeAlias = int | ArrayBase

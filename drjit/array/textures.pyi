"""Textures and what they return, as type checkers see them."""

# pyright: reportIncompatibleMethodOverride=false

from collections.abc import Sequence
from typing import Any, Generic, SupportsIndex, overload

from ..texture.sampling import FilterMode, MipBasis, MipFilter, WrapMode
from ..texture.texture import Texture
from .base import ArrayBase
from .kinds import (
    Active,
    Convertible,
    E,
    Entries,
    Floats,
    I,
    Leaf,
    P,
    R,
    Sequences,
    T,
    Untyped,
    Vector,
    WithMatrix,
)
from .swizzles import Swizzles4

class Channels(  # type: ignore[misc]
    Vector[Any, Any, E, E], Floats[Any, Any], Swizzles4[E, Any, Any, Any], Generic[E], Any
):
    """The channels of a texture at a position. Their number decides on the type, so that this can
    be taken for any vector."""

class Textures(Texture, Generic[T, E, I]):
    """Textures with tensors, entries and numbers of texels of certain types."""

    @overload
    def __init__(
        self,
        shape: Sequence[SupportsIndex],
        channels: SupportsIndex,
        use_accel: bool = True,
        filter_mode: FilterMode | int = ...,
        wrap_mode: WrapMode | int = ...,
        writable: bool = False,
        srgb: bool = False,
        mip_filter: MipFilter | int = ...,
        max_aniso: int = 1,
        mip_basis: MipBasis | int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        tensor: Convertible,
        use_accel: bool = True,
        migrate: bool = True,
        filter_mode: FilterMode | int = ...,
        wrap_mode: WrapMode | int = ...,
        srgb: bool = False,
        mip_filter: MipFilter | int = ...,
        max_aniso: int = 1,
        mip_basis: MipBasis | int = ...,
    ) -> None: ...
    def tensor(self, level: int = 0) -> T: ...
    def value(self) -> E: ...
    def wrap(self, pos: Convertible) -> I: ...
    def write(
        self, pos: Convertible, value: Sequences | ArrayBase, active: Active = True
    ) -> None: ...
    @overload
    def eval(self, pos: Entries[R], active: Active | None = True) -> Channels[R]: ...
    @overload
    def eval(self, pos: Sequences | Untyped, active: Active | None = True) -> Channels[Any]: ...
    eval_cubic_helper = eval
    @overload
    def eval_fetch(
        self, pos: Entries[R], active: Active | None = True
    ) -> tuple[Channels[R], ...]: ...
    @overload
    def eval_fetch(
        self, pos: Sequences | Untyped, active: Active | None = True
    ) -> tuple[Channels[Any], ...]: ...
    @overload
    def eval_cubic(
        self, pos: Entries[R], active: Active | None = True, force_nonaccel: bool = False
    ) -> Channels[R]: ...
    @overload
    def eval_cubic(
        self, pos: Sequences | Untyped, active: Active | None = True, force_nonaccel: bool = False
    ) -> Channels[Any]: ...
    @overload
    def eval_lod(
        self, pos: Entries[R], lod: Convertible, active: Active | None = True
    ) -> Channels[R]: ...
    @overload
    def eval_lod(
        self, pos: Sequences | Untyped, lod: Convertible, active: Active | None = True
    ) -> Channels[Any]: ...
    @overload
    def eval_filtered(
        self, pos: Entries[R], ddx: Convertible, ddy: Convertible, active: Active | None = True
    ) -> Channels[R]: ...
    @overload
    def eval_filtered(
        self,
        pos: Sequences | Untyped,
        ddx: Convertible,
        ddy: Convertible,
        active: Active | None = True,
    ) -> Channels[Any]: ...
    @overload
    def eval_cubic_grad(
        self, pos: P, active: Active | None = True
    ) -> tuple[Channels[Any], list[P]]: ...
    @overload
    def eval_cubic_grad(
        self, pos: Sequences | Leaf[Any, Any, Any] | Untyped, active: Active | None = True
    ) -> tuple[Channels[Any], list[Any]]: ...
    @overload
    def eval_cubic_hessian(
        self, pos: WithMatrix[R], active: Active | None = True
    ) -> tuple[Channels[Any], list[Any], list[R]]: ...
    @overload
    def eval_cubic_hessian(
        self, pos: Convertible, active: Active | None = True
    ) -> tuple[Channels[Any], list[Any], list[Any]]: ...

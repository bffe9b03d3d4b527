"""Textures: the enumerations for look-ups. The classes, such as `Texture2f`, are members of the
namespaces."""

from . import texture as texture
from .sampling import FilterMode, MipBasis, MipFilter, WrapMode

__all__ = ["FilterMode", "MipBasis", "MipFilter", "WrapMode"]

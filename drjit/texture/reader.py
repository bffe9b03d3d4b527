"""Texel access for look-ups: gathers of records of channels, or Python numbers in
`drjit.scalar`.
"""

from typing import Any

from ..ad import packet_rules
from ..array import leaf, leaf_access, table
from ..array.base import ArrayBase
from ..function.conversion import mask_leaf
from ..jit.ir import dtype as dt
from ..jit.ir.dtype import DType
from ..jit.lazy import np
from ..jit.trace.access import Access
from .filters import Channels, convert, weighted_sum
from .texels import Texels


class TexelReader:
    """Reads texels as floating point numbers where a mask is true, and 0 elsewhere.

    Raises:
        TypeError: the mask is not a mask.
        RuntimeError: the texture has no texels.
    """

    active: Any  # a mask, or a bool in `drjit.scalar`

    def __init__(self, texture: Texels, dtype: DType, active: Any, method: str) -> None:
        namespace = texture._namespace
        self.texture, self.dtype, self.what = texture, dtype, texture._name(method)
        if 0 in texture.shape:
            raise RuntimeError(f"{self.what}: the texture of shape {texture.shape} is empty")
        self.number = table.find(namespace, "leaf", dtype)
        self.count, self.source = texture.channel_count(), texture._texels
        self.traced = namespace != "scalar"
        active = True if active is None else active
        if self.traced:
            if isinstance(active, ArrayBase) and active._namespace != namespace:
                active = table.find(namespace, "leaf", dt.mask)(active)
            active = mask_leaf(active, type(self.source), self.what.removesuffix("()"))
            self.index = table.find(namespace, "leaf", dt.u32)
            # Wrapped positions are always in bounds, unless the tensor's shape was changed in the
            # meantime.
            self.in_bounds = len(self.source) == texture._length() < 1 << 31
        elif not isinstance(active, (bool, np.bool_)):
            raise TypeError(f"{self.what}: 'active' must be a bool, not {active!r}")
        self.active = active

    def texel(self, number: Any) -> Channels:
        """Returns the channels of a texel, given its number."""
        values = [convert(self.number, v) for v in self._stored(number)]
        if self.texture._dtype is not dt.u8:
            return values
        decoded = self.texture._decoded
        return [decoded(v * (1.0 / 255.0), channel) for channel, v in enumerate(values)]

    def _stored(self, number: Any) -> Channels:
        count = self.count
        if not self.traced:
            found = self.source._components[number * count : (number + 1) * count]
            return found if self.active else [0] * count
        return leaf_access.gather_packet(self.source, self._record(number))

    def _record(self, number: Any) -> Access:
        index = leaf.cast(self.index, number)._node
        return Access(index, self.active._node, self.what, self.count, self.in_bounds)

    def mixed(self, numbers: list[Any], weights: list[Any]) -> Channels:
        """Returns the weighted sum of some texels, as a single operation where that exists."""
        fused = self.traced and self.in_bounds and self.texture._dtype is self.dtype
        if fused and len(numbers) > 1:
            taps = [self._record(number) for number in numbers]
            found = leaf_access.gather_weighted(self.source, taps, weights)
            if found is not None:
                return found
        if self.traced and self.texture._dtype is not dt.u8:
            cls = self.number
            places = (
                (self._record(n), w._node if type(w) is cls and w._var is None else None)
                for n, w in zip(numbers, weights, strict=True)
            )
            sums = packet_rules.mixture(leaf.value(self.source), self.dtype, places)
            if sums is not None:
                return [leaf.from_value(cls, v) for v in sums]
        return weighted_sum(self.texel, numbers, weights)

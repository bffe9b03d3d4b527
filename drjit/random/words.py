"""Machine words of a namespace: the few conversions that random number generators need, for traced
arrays and, in `drjit.scalar`, for Python integers.
"""

from collections.abc import Callable
from functools import cache, partial
from operator import attrgetter
from typing import Any

from ..array import leaf, table
from ..array.base import ArrayBase
from ..function.evaluation import copy, make_opaque
from ..function.math import arithmetic
from ..function.math import transcendental as math
from ..function.math.constants import sqrt_two, two_pi
from ..jit.ir import dtype as dt
from ..jit.ir import node, op
from ..jit.lazy import np
from ..jit.run import launch

_BITS = {32: 0xFFFFFFFF, 64: 0xFFFFFFFFFFFFFFFF}


class Words:
    """The types and conversions of one namespace.

    Words are unsigned integers. Traced arithmetic wraps around by itself; `low32` and `low64` make
    Python integers wrap in the same way.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.traced = namespace != "scalar"
        find = partial(table.find, namespace, "leaf")
        self.Bool, self.UInt, self.UInt64 = find(dt.mask), find(dt.u32), find(dt.u64)
        self.Int64, self.Float, self.Float64 = find(dt.i64), find(dt.f32), find(dt.f64)

    def word(self, dtype: dt.DType, value: Any, what: str) -> Any:
        """Converts an argument to a word of the namespace; an array becomes a new object.

        Raises:
            TypeError: it is not an integer, or out of range.
        """
        cls = table.find(self.namespace, "leaf", dtype)
        if isinstance(value, ArrayBase) and self.traced:
            if value._kind == "tensor":
                value = value._array
            if value._kind == "leaf" and not value._dtype.is_mask:
                return copy(value) if type(value) is cls else cls(value)
        elif isinstance(value, (list, tuple, range, np.ndarray)) and self.traced:
            return cls(value)
        elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if not dtype.low <= value <= dtype.high:
                raise TypeError(f"{what}: {value} is not in the range of {dtype.name}")
            return cls(int(value))
        raise TypeError(
            f"{what}: expected an integer or {cls.__module__}.{cls.__name__}, "
            f"not {type(value).__name__}"
        )

    def mask(self, value: Any, what: str) -> Any:
        """Checks a mask argument: True, or a mask of the namespace.

        Raises:
            TypeError: it is neither a bool nor a mask.
        """
        if value is True:
            return True
        if isinstance(value, ArrayBase) and value._kind == "leaf" and value._dtype.is_mask:
            return value if type(value) is self.Bool else self.Bool(value)
        if isinstance(value, (bool, np.bool_)):
            return self.Bool(bool(value))
        if isinstance(value, (list, tuple, np.ndarray)) and self.traced:
            return self.Bool(value)
        raise TypeError(f"{what}: the mask is of type {type(value).__name__}; expected a bool or "
                        f"{self.Bool.__module__}.{self.Bool.__name__}")  # fmt: skip

    def low32(self, x: Any) -> Any:
        """Returns the lower 32 bits of a word as a 32-bit word."""
        return leaf.cast(self.UInt, x) if self.traced else x & _BITS[32]

    def low64(self, x: Any) -> Any:
        """Wraps a 64-bit sum or product."""
        return x if self.traced else x & _BITS[64]

    def wide(self, x: Any) -> Any:
        """Returns a 32-bit word as a 64-bit word."""
        return leaf.cast(self.UInt64, x) if self.traced else x

    def constant(self, value: int) -> Any:
        """Returns a 64-bit constant below 2**32."""
        if not self.traced:
            return value
        # The conversion tells the compiler that short multiplications suffice.
        number = node.literal(dt.u32, value)
        return leaf.wrap(self.UInt64, node.make(op.cast, dt.u64, 1, (number,)))

    def product(self, x: Any, factor: Any) -> Any:
        """Returns the 64-bit product of the lower half of a 64-bit word and a constant."""
        return (self.wide(self.low32(x)) if self.traced else x & _BITS[32]) * factor

    def signed(self, x: Any) -> Any:
        """Returns a 64-bit word as a signed number."""
        return leaf.cast(self.Int64, x) if self.traced else x - (x >> 63 << 64)

    def select(self, mask: Any, x: Any, y: Any) -> Any:
        """Returns `x` where the mask is true, and `y` elsewhere."""
        return x if mask is True else arithmetic.select(mask, x, y)

    def rounded(self, dtype: dt.DType, x: Any) -> Any:
        """Converts a floating point value to another type."""
        if self.traced:
            return leaf.cast(table.find(self.namespace, "leaf", dtype), x)
        return node.normalize(dtype, x)

    def unit32(self, word: Any) -> Any:
        """Returns a float32 in [0, 1) from the upper 23 bits of a 32-bit word."""
        bits = word >> 9
        return (leaf.cast(self.Float, bits) if self.traced else bits) * 2.0**-23

    def unit64(self, word: Any) -> Any:
        """Returns a float64 in [0, 1) from the upper 52 bits of a 64-bit word."""
        if not self.traced:
            return (word >> 12) * 2.0**-52
        # Assemble the bits of a number in [1, 2): few machines convert 64-bit integers quickly.
        return leaf.bitcast(self.Float64, word >> 12 | 0x3FF0000000000000) - 1.0

    def unit64_from32(self, word: Any) -> Any:
        """Returns a float64 in [0, 1) from all bits of a 32-bit word."""
        return (leaf.cast(self.Float64, word) if self.traced else word) * 2.0**-32

    def quantile(self, uniform: Any, dtype: dt.DType) -> Any:
        """Maps a uniform variate to a standard normal one by inverting the distribution
        function."""
        return self.rounded(dtype, sqrt_two * math.erfinv(2.0 * uniform - 1.0))

    def normal_pair(self, radius: Any, angle: Any) -> tuple[Any, Any]:
        """Maps two uniform variates to two independent standard normal ones (Box and Muller
        1958)."""
        length = math.sqrt(-2.0 * math.log(1.0 - radius))
        sine, cosine = math.sincos(two_pi * angle)
        return length * cosine, length * sine


def state_property(name: str, doc: str, convert: Callable[[Any, Any], Any]) -> Any:
    """Returns a property for a part of a generator's state, which converts what is assigned."""

    def assign(self: Any, value: Any) -> None:
        launch.changing(self)
        setattr(self, f"_{name}", convert(self, value))

    return property(attrgetter(f"_{name}"), assign, doc=doc)


words = cache(Words)
"""The words of a namespace."""


def data(cls: Any, value: int) -> Any:
    """Returns a number as data that is not part of programs."""
    return leaf.from_numbers(cls, [value])


def state_word(w: Words, dtype: dt.DType, value: Any, opaque: bool) -> Any:
    """Returns a state as a word of a namespace, as data if it should be opaque."""
    if not w.traced:
        if not isinstance(value, ArrayBase):
            return value
        if len(value) != 1:
            raise RuntimeError("Generator: drjit.scalar takes one seed, not an array of them")
        return int(value[0])
    cls = table.find(w.namespace, "leaf", dtype)
    if not isinstance(value, ArrayBase):
        return data(cls, value) if opaque else leaf.literal(cls, value)
    if type(value) is not cls:
        value = cls(value)
    if opaque and value._node.op is not node.BUFFER:
        make_opaque(value)
    return value

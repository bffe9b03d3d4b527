"""The contents of a texture: its texels, the coarser levels derived from them, and its modes."""

import operator
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any, ClassVar

from ..array import leaf, table
from ..array.base import ArrayBase
from ..array.precomputed import converted, precomputed
from ..function.conversion import flat_class, lanes, pick
from ..function.data.create import zeros
from ..function.data.shape import concat
from ..function.math.arithmetic import floor, minimum, select
from ..function.math.color import linear_to_srgb, srgb_to_linear
from ..jit.ir import dtype as dt
from ..jit.run import launch
from .sampling import FilterMode, MipBasis, MipFilter, WrapMode, mode_of, wrapped

Shape = tuple[int, ...]


def shapes(shape: Shape) -> list[Shape]:
    """Returns the shapes of all levels, with channels: sizes are halved and rounded down until one
    texel is left."""
    found = [shape]
    while max(shape[:-1]) > 1:
        shape = (*[max(n // 2, 1) for n in shape[:-1]], shape[-1])
        found.append(shape)
    return found


def _cast(cls: Any, values: Any) -> Any:
    """Converts entries to the type of a flat array."""
    return leaf.cast(cls, values) if cls.__meta__.is_jit else cls(values.tolist())


def _picked(values: Any, index: Any) -> Any:
    return pick(values, index, "Texture")


def halved(values: Any, shape: Shape) -> Any:
    """Returns the next coarser level. Each texel averages the texels of the finer level that it
    covers: two along each axis, or three if their number is odd, of which the outer ones are
    covered in part."""
    for axis in range(len(shape) - 1):
        n = shape[axis]
        if n == 1:
            continue
        m, inner = n // 2, prod(shape[axis + 1 :])
        shape = (*shape[:axis], m, *shape[axis + 1 :])
        number = lanes(type(values), prod(shape))
        row = number // inner
        place, rest = row % m, number % inner
        first = (row // m * n + place * 2) * inner + rest
        near, far = _picked(values, first), _picked(values, first + inner)
        if n == 2 * m:
            values = (near + far) * 0.5
        else:
            at, last = _cast(type(values), place), _picked(values, first + 2 * inner)
            values = (near * (m - at) + far * m + last * (at + 1)) * (1 / n)
    return values


def doubled(values: Any, coarse: Shape, fine: Shape, mode: WrapMode) -> Any:
    """Returns a level at the resolution of the next finer one, interpolated between texel
    centres."""
    shape = coarse
    for axis in range(len(shape) - 1):
        n, m = fine[axis], shape[axis]
        if n == m:
            continue
        inner = prod(shape[axis + 1 :])
        shape = (*shape[:axis], n, *shape[axis + 1 :])
        number = lanes(type(values), prod(shape))
        row = number // inner
        # The place (i + 0.5) m/n - 0.5, in integers: derivatives need weights in other kernels than
        # indices, where a floating point number might be rounded to the other side of a texel.
        place = (row % n * 2 + 1) * m + n
        after = place // (2 * n)  # one more than the texel before the place
        weight = leaf.cast(type(values), place - after * (2 * n)) * (1 / (2 * n))
        before, rest = row // n * m, number % inner
        signed = leaf.cast(flat_class(type(after), dt.i32), after) - 1
        two = [leaf.cast(type(after), p) for p in wrapped(mode, signed, m, 2)]
        ends = [_picked(values, (before + p) * inner + rest) for p in two]
        values = ends[0] + (ends[1] - ends[0]) * weight
    return values


def averaged(finest: Any, all_shapes: Sequence[Shape]) -> list[Any]:
    """Returns all levels, each averaged from the previous one."""
    levels = [finest]
    for shape in all_shapes[:-1]:
        levels.append(halved(levels[-1], shape))
    return levels


def decomposed(levels: list[Any], all_shapes: Sequence[Shape], mode: WrapMode) -> list[Any]:
    """Returns the difference of each level to the next coarser one."""
    return [
        fine - doubled(coarse, all_shapes[k + 1], all_shapes[k], mode)
        for k, (fine, coarse) in enumerate(pairwise(levels))
    ] + levels[-1:]


def summed(parts: list[Any], all_shapes: Sequence[Shape], mode: WrapMode) -> list[Any]:
    """Returns all levels, given their differences: the inverse of `decomposed`."""
    found = parts[-1:]
    for k in range(len(parts) - 2, -1, -1):
        found.append(parts[k] + doubled(found[-1], all_shapes[k + 1], all_shapes[k], mode))
    return found[::-1]


LARGEST_ANISOTROPY = 16


class Texels:
    """The contents of a texture. Look-ups read `_texels`, the array of the texels of all levels,
    one level after the other.
    """

    IsTexture = True
    __slots__ = ("__weakref__", "_aniso", "_basis", "_coarser", "_filter", "_mip", "_srgb",
                 "_starts", "_tensor", "_texels", "_use_accel", "_wrap",
                 "_writable")  # fmt: skip
    _traversed: ClassVar[tuple[str, ...]] = (
        "_tensor", "_coarser", "_texels", "_starts", "_filter", "_wrap", "_srgb", "_mip", "_aniso",
        "_basis",
    )  # fmt: skip
    """The fields that frozen functions traverse."""
    _dims: ClassVar[int]
    _dtype: ClassVar[dt.DType]
    _namespace: ClassVar[str]
    _tensor_class: ClassVar[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        by_shape = "shape" in kwargs or "channels" in kwargs or (
            len(args) > 1 and not isinstance(args[1], bool)
        )  # fmt: skip
        (self._init_shape if by_shape else self._init_tensor)(*args, **kwargs)

    def _init_shape(
        self,
        shape: Any,
        channels: int,
        use_accel: bool = True,
        filter_mode: Any = FilterMode.Linear,
        wrap_mode: Any = WrapMode.Clamp,
        writable: bool = False,
        *more: Any,
        **options: Any,
    ) -> None:
        self._configure(use_accel, filter_mode, wrap_mode, *more, writable=writable, **options)
        what = self._name()
        try:
            sizes = [operator.index(s) for s in shape]
            channels = operator.index(channels)
        except TypeError:
            raise TypeError(
                f"{what}: expected a sequence of {self._dims} sizes and a number of channels, got "
                f"{shape!r} and {channels!r}"
            ) from None
        if len(sizes) != self._dims or min(sizes) < 0:
            raise TypeError(f"{what}: expected {self._dims} sizes, none negative, got {shape!r}")
        self._check_channels(channels, what)
        self._set(zeros(self._tensor_class, (*sizes, channels)))

    def _init_tensor(
        self, tensor: Any, use_accel: bool = True, migrate: bool = True, *more: Any, **options: Any
    ) -> None:
        self._configure(use_accel, *more, **options)
        self._take(tensor, self._name())

    def _configure(
        self,
        use_accel: bool,
        filter_mode: Any = FilterMode.Linear,
        wrap_mode: Any = WrapMode.Clamp,
        srgb: bool = False,
        mip_filter: Any = MipFilter.Disabled,
        max_aniso: int = 1,
        mip_basis: Any = MipBasis.Standard,
        writable: bool = False,
    ) -> None:
        what = self._name()
        self._filter = mode_of(FilterMode, filter_mode, what)
        self._wrap = mode_of(WrapMode, wrap_mode, what)
        self._mip = mode_of(MipFilter, mip_filter, what)
        self._basis = mode_of(MipBasis, mip_basis, what)
        self._use_accel, self._writable, self._srgb = bool(use_accel), bool(writable), bool(srgb)
        self._coarser: list[Any] = []  # tensors of the levels after the first
        self._starts: Any = None  # start of each level in the common array
        if self._srgb and self._dtype is not dt.u8:
            raise RuntimeError(f"{what}: 'srgb' is for textures of 8-bit integers")
        if type(max_aniso) is not int or not 1 <= max_aniso <= LARGEST_ANISOTROPY:
            raise RuntimeError(
                f"{what}: 'max_aniso' must be an integer from 1 to {LARGEST_ANISOTROPY}, not "
                f"{max_aniso!r}"
            )
        self._aniso = max_aniso
        mapped = self._mip is not MipFilter.Disabled
        if writable and mapped:
            raise RuntimeError(f"{what}: a MIP-mapped texture cannot be writable")
        fits = mapped and self._dtype.is_float and self._namespace != "scalar"
        if self._basis is MipBasis.Laplacian and not fits:
            raise RuntimeError(
                f"{what}: MipBasis.Laplacian is for MIP-mapped textures of floating point texels, "
                "outside of drjit.scalar"
            )

    def _name(self, method: str = "") -> str:
        return f"{type(self).__name__}.{method}()" if method else f"{type(self).__name__}()"

    def _check_channels(self, channels: int, what: str) -> None:
        if channels < 1:
            raise RuntimeError(f"{what}: a texture must have at least 1 channel")

    def _set(self, tensor: Any) -> None:
        launch.changing(self)
        self._tensor = tensor
        if self._basis is MipBasis.Laplacian:
            self._decompose()
        self._refresh()

    def _refresh(self) -> None:
        """Prepares the contents of the tensor for look-ups, which see changes that a user makes to
        the tensor only after `update_inplace`.
        """
        launch.changing(self)
        array = self._tensor._array
        pyramid = self._mip is not MipFilter.Disabled and prod(self.shape) > 0
        self._texels = self._pyramid() if pyramid else type(array)(array)

    # Contents

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the texel tensor: sizes, slowest first, then channels."""
        return self._tensor._shape

    def channel_count(self) -> int:
        """The number of channels."""
        return self._tensor._shape[-1]

    def value(self) -> Any:
        """The texels as a one-dimensional array."""
        return self.tensor()._array

    def tensor(self, level: int | None = None) -> Any:
        """Returns the texels as a tensor; call `update_inplace` after changing it.

        For a MIP-mapped texture, `level` selects a level. With `MipBasis.Laplacian`, that tensor
        holds the level's difference to the next coarser one, while the texels are what look-ups
        read: a copy, which `set_tensor` can replace.

        Raises:
            IndexError: there is no such level.
        """
        if level is None and self._basis is MipBasis.Laplacian and self._coarser:
            return self._tensor_class(self._texels[: prod(self.shape)], self.shape)
        return self._level(level or 0, self._name("tensor"))

    def _level(self, level: int, what: str) -> Any:
        """Returns the tensor of a level."""
        if not 0 <= level < self.mip_levels():
            raise IndexError(
                f"{what}: level {level} is out of bounds, the texture has {self.mip_levels()}"
            )
        return self._coarser[level - 1] if level else self._tensor

    def set_value(self, value: Any, migrate: bool = False) -> None:
        """Replaces the texels by the entries of a one-dimensional array.

        Raises:
            RuntimeError: the number of entries differs.
        """
        array = converted(self._tensor_class.Array, value)
        if len(array) != prod(self.shape):
            raise RuntimeError(
                f"{self._name('set_value')}: the array has {len(array)} entries, the texture of "
                f"shape {self.shape} has {prod(self.shape)}"
            )
        self._set(self._tensor_class(array, shape=self.shape))

    def set_tensor(
        self, tensor: Any, value: Any = None, rebuild: bool = True, migrate: bool = False
    ) -> None:
        """Replaces the texels by those of a tensor, which also determines the sizes and channels of
        the texture.

        `set_tensor(level, value, rebuild=True)` replaces a level's difference to the next coarser
        one in a texture with `MipBasis.Laplacian`; without `rebuild`, look-ups see it only after
        `update_inplace`.

        Raises:
            RuntimeError: the tensor has the wrong number of dimensions, has no channels, or differs
                from the level in shape.
            IndexError: there is no such level.
        """
        what = self._name("set_tensor")
        if type(tensor) is int and value is not None:
            self._set_level(tensor, value, rebuild, what)
        else:  # `value` is the argument 'migrate'
            self._take(tensor, what)

    def _set_level(self, level: int, value: Any, rebuild: bool, what: str) -> None:
        """Replaces the coefficients of a level."""
        before = self._level(level, what)
        if level and self._basis is not MipBasis.Laplacian:
            raise RuntimeError(
                f"{what}: levels after the first follow from it, unless the texture has "
                "MipBasis.Laplacian"
            )
        made = self._tensor_class(converted(self._tensor_class, value))
        if made._shape != before._shape:
            raise RuntimeError(
                f"{what}: level {level} has shape {before._shape}, not {made._shape}"
            )
        if level:
            self._coarser[level - 1] = made
        else:
            self._tensor = made
        if rebuild:
            self._refresh()

    def _take(self, tensor: Any, what: str) -> None:
        cls = self._tensor_class
        made = converted(cls, tensor)
        if len(made._shape) != self._dims + 1:
            raise RuntimeError(
                f"{what}: the tensor must have {self._dims + 1} dimensions (sizes and "
                f"channels), its shape is {made._shape}"
            )
        self._check_channels(made._shape[-1], what)
        self._set(cls(made))

    def set_value_with_event(self, value: Any, event: Any, migrate: bool = False) -> None:
        """Like `set_value`; records the event afterwards."""
        self.set_value(value, migrate)
        event.record()

    def update_inplace(self, migrate: bool = False) -> None:
        """Applies changes made to the array `value` or the tensor returned by `tensor`.

        Raises:
            RuntimeError: the tensor no longer has the form of a texture.
        """
        if len(self._tensor._shape) != self._dims + 1:
            raise RuntimeError(
                f"{self._name('update_inplace')}: the tensor's shape became {self._tensor._shape}"
            )
        self._refresh()

    # Modes

    def filter_mode(self) -> FilterMode:
        """How a value between texels is computed."""
        return self._filter

    def wrap_mode(self) -> WrapMode:
        """The values beyond the boundary."""
        return self._wrap

    def use_accel(self) -> bool:
        """Whether texture units were requested."""
        return self._use_accel

    def srgb(self) -> bool:
        """Whether 8-bit texels are decoded from sRGB."""
        return self._srgb

    def writable(self) -> bool:
        """Whether kernels may write texels."""
        return self._writable

    def mip_filter(self) -> MipFilter:
        """How levels are chosen."""
        return self._mip

    def mip_basis(self) -> MipBasis:
        """What is stored for each level."""
        return self._basis

    def max_aniso(self) -> int:
        """The maximum number of look-ups along the longer axis of a footprint."""
        return self._aniso

    def mip_levels(self) -> int:
        """The number of levels: 1 without a pyramid."""
        return 1 + len(self._coarser)

    # Exchange with graphics systems, which requires texture units

    def migrated(self) -> bool:
        """Whether the texels are stored only by texture units: always False."""
        return False

    def map(self) -> None:
        """Prepares a texture of a graphics system for use; does nothing for others."""

    def unmap(self) -> None:
        """Undoes `map`."""

    def native_handle(self, sub_index: int = 0) -> int:
        """Returns the handle of a texture unit's texture: 0, because there is none."""
        return 0

    @classmethod
    def from_native_handle(cls, handle: int, *args: Any, **kwargs: Any) -> Any:
        """Wraps a texture of a graphics system.

        Raises:
            RuntimeError: there are no texture units.
        """
        raise RuntimeError(
            f"{cls.__name__}.from_native_handle() needs a backend with texture units"
        )

    # Levels

    def _decompose(self) -> None:
        """Takes the tensor as the image and stores the differences between its levels."""
        all_shapes, cls = shapes(self._tensor._shape), self._tensor_class

        def parts(image: Any) -> list[Any]:
            levels = averaged(self._computed(image), all_shapes)
            found = decomposed(levels, all_shapes, self._wrap)
            return [leaf.cast(cls.Array, part) for part in found]

        arrays = precomputed(parts, self._tensor._array)
        tensors = [cls(a, s) for a, s in zip(arrays, all_shapes, strict=True)]
        self._tensor, self._coarser = tensors[0], tensors[1:]

    def _pyramid(self) -> Any:
        """Returns the array of the texels of all levels."""
        array = self._tensor._array
        all_shapes = shapes(self._tensor._shape)
        sizes = [prod(s) // s[-1] for s in all_shapes]
        starts = [*accumulate(sizes[:-1], initial=0)]
        scalar = self._namespace == "scalar"
        if scalar:
            self._starts = starts
        else:
            self._starts = leaf.from_numbers(table.find(self._namespace, "leaf", dt.i32), starts)
        if self._basis is MipBasis.Laplacian:

            def summed_up(*parts: Any) -> list[Any]:
                given = [self._computed(part) for part in parts]
                found = summed(given, all_shapes, self._wrap)
                return [_joined([leaf.cast(type(array), level) for level in found])]

            return precomputed(summed_up, *[t._array for t in (self._tensor, *self._coarser)])[0]

        def levels(finest: Any) -> list[Any]:
            coarser = averaged(self._linear_light(finest), all_shapes)[1:]
            found = [self._stored(level, finest) for level in coarser]
            return [_joined([finest, *found]), *found]

        made, cls = levels(array) if scalar else precomputed(levels, array), self._tensor_class
        self._coarser = [cls(v, s) for v, s in zip(made[1:], all_shapes[1:], strict=True)]
        return made[0]

    def _length(self) -> int:
        """Returns the number of entries of all levels."""
        return prod(self.shape) + sum([prod(t._shape) for t in self._coarser])

    def _sizes(self) -> tuple[int, ...]:
        """Returns the numbers of texels in x, y and z."""
        return self._tensor._shape[-2::-1]

    def _decoded(self, value: Any, channel: int) -> Any:
        return srgb_to_linear(value, False) if self._srgb and channel % 4 != 3 else value

    def _encoded(self, value: Any, channel: int) -> Any:
        """Converts a value to its stored form; for 8-bit texels, the nearest of 256 steps from 0 to
        1."""
        if self._dtype is not dt.u8:
            return value
        single = table.find(self._namespace, "leaf", dt.f32)
        if not isinstance(value, ArrayBase):
            value = float(value) if self._namespace == "scalar" else single(value)
        elif not value._dtype.is_float:
            value = single(value)
        # A comparison with NaN is false.
        value = select(value > 0, minimum(value, 1), 0)
        if self._srgb and channel % 4 != 3:
            value = linear_to_srgb(value)
        value = floor(value * 255 + 0.5)
        return int(value) if isinstance(value, float) else value

    def _computed(self, array: Any) -> Any:
        """Converts texels to the precision in which levels are computed."""
        wide = flat_class(type(array), dt.f64 if self._dtype is dt.f64 else dt.f32)
        return leaf.cast(wide, array) if self._namespace != "scalar" else wide(array)

    def _linear_light(self, array: Any) -> Any:
        """Converts texels to numbers that can be averaged."""
        values = self._computed(array)
        if self._dtype is dt.u8:
            values = self._colors(srgb_to_linear, values * (1.0 / 255.0))
        return values

    def _stored(self, values: Any, like: Any) -> Any:
        """The inverse of `_linear_light`."""
        if self._dtype is dt.u8:
            values = floor(self._colors(linear_to_srgb, values) * 255.0 + 0.5)
        return leaf.cast(type(like), values) if self._namespace != "scalar" else type(like)(values)

    def _colors(self, curve: Any, values: Any) -> Any:
        """Applies a curve of sRGB to all channels but every fourth one, which is not a colour."""
        if not self._srgb:
            return values
        channel = lanes(type(values), len(values)) % self.channel_count()
        is_alpha = _cast(flat_class(type(values), dt.mask), channel % 4 == 3)
        return select(is_alpha, values, curve(values))


def _joined(levels: list[Any]) -> Any:
    """Returns the array of the texels of all levels."""
    return concat(levels) if len(levels) > 1 else type(levels[0])(levels[0])

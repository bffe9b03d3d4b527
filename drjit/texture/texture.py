"""Textures: grids of one to three dimensions with any number of channels, looked up between their
texels. A look-up is made of traced operations and becomes part of the kernel that uses it.
"""

import operator
from collections.abc import Callable
from copy import copy
from functools import cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..array import leaf, leaf_access, table
from ..array.base import ArrayBase, type_label
from ..array.meta import DYNAMIC
from ..function.arithmetic import floor, minimum, select
from ..function.color import linear_to_srgb, srgb_to_linear
from ..function.create import zeros
from ..function.memory import scatter
from ..function.parts import assemble, mask_leaf
from ..jit import dtype as dt
from ..jit.dtype import DType
from ..jit.node import Node
from ..jit.template import Template, repeatable
from .filters import (
    Channels,
    Taps,
    cells,
    combinations,
    convert,
    derivatives,
    lerp_weights,
    spline_weights,
    weighted_sum,
)
from .mip import Mipmapped
from .modes import FilterMode, MipBasis, MipFilter, WrapMode, mode_of
from .wrap import wrapped


class Texture(Mipmapped):
    """A grid of texels of one to three dimensions.

    `Texture2f(shape, channels)` makes one of zeros, `shape` being (height, width);
    `Texture2f(tensor)` one with the contents of a tensor of shape (height, width, channels). The
    texels fill the unit square: that of number `i` out of `n` is centred at `(i + 0.5) / n`.
    Positions are given as (x, y), so that their order is the reverse of `shape`. The precision of a
    look-up is that of its position. 8-bit texels stand for numbers from 0 to 1; with `srgb` they
    are decoded to linear intensities, but for every fourth channel, and `write` encodes them.

    With a `mip_filter`, a texture has coarser levels, halved down to one texel, which `eval_lod`
    and `eval_filtered` choose from; the latter looks up at most `max_aniso` times along a
    footprint. Levels are the means of the finer ones, in linear light for sRGB; with
    `MipBasis.Laplacian` what is stored, and can be optimized, is what each level adds to the next
    coarser one.

    `use_accel` and `migrate` are accepted for programs that are written for texture units.

    Raises:
        RuntimeError: the tensor has the wrong number of dimensions or no channels, or `srgb` is set
            for a texture that is not of 8 bits, or `max_aniso` is not from 1 to 16.
        TypeError: an argument has the wrong type.

    >>> from drjit.llvm import Texture1f, TensorXf, Array1f, Float
    >>> t = Texture1f(TensorXf([[1], [3], [5], [7]]))
    >>> t.eval(Array1f(Float(0, 0.3, 0.5)))
    [[1],
     [2.4],
     [4]]
    """

    IsTexture = True
    __slots__ = ("__weakref__", "_filter", "_srgb", "_templates", "_tensor", "_texels",
                 "_use_accel", "_wrap", "_writable")  # fmt: skip
    _traversed: ClassVar[tuple[str, ...]] = (
        "_tensor", "_coarser", "_texels", "_starts", "_filter", "_wrap", "_srgb", "_mip", "_aniso",
        "_basis",
    )  # fmt: skip
    """What frozen functions look at."""
    _dims: ClassVar[int]
    _dtype: ClassVar[DType]
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
        srgb: bool = False,
        mip_filter: Any = MipFilter.Disabled,
        max_aniso: int = 1,
        mip_basis: Any = MipBasis.Standard,
    ) -> None:
        self._set_modes(filter_mode, wrap_mode, use_accel, srgb)
        self._writable = bool(writable)
        self._set_mip(mip_filter, max_aniso, mip_basis, self._writable)
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
        self._set(zeros(self._tensor_class, (*sizes, self._checked_channels(channels, what))))

    def _init_tensor(
        self,
        tensor: Any,
        use_accel: bool = True,
        migrate: bool = True,
        filter_mode: Any = FilterMode.Linear,
        wrap_mode: Any = WrapMode.Clamp,
        srgb: bool = False,
        mip_filter: Any = MipFilter.Disabled,
        max_aniso: int = 1,
        mip_basis: Any = MipBasis.Standard,
    ) -> None:
        del migrate
        self._set_modes(filter_mode, wrap_mode, use_accel, srgb)
        self._writable = False
        self._set_mip(mip_filter, max_aniso, mip_basis, False)
        self._take(tensor, self._name())

    def _set_modes(self, filter_mode: Any, wrap_mode: Any, use_accel: bool, srgb: bool) -> None:
        self._filter = mode_of(FilterMode, filter_mode, self._name())
        self._wrap = mode_of(WrapMode, wrap_mode, self._name())
        self._use_accel, self._srgb = bool(use_accel), bool(srgb)
        # By the class of positions and the shape; False where there can be none.
        self._templates: dict[tuple[type, tuple[int, ...]], Any] = {}
        if self._srgb and self._dtype is not dt.u8:
            raise RuntimeError(f"{self._name()}: 'srgb' is for textures of 8-bit integers")

    def _name(self, method: str = "") -> str:
        return f"{type(self).__name__}.{method}()" if method else f"{type(self).__name__}()"

    def _checked_channels(self, channels: int, what: str) -> int:
        if channels < 1:
            raise RuntimeError(f"{what}: a texture must have at least 1 channel")
        return channels

    def _set(self, tensor: Any) -> None:
        self._tensor = tensor
        if self._basis is MipBasis.Laplacian:
            self._decompose()
        self._refresh()

    def _refresh(self) -> None:
        """Takes the contents of the tensor for look-ups: what a user does to the tensor shows after
        `update_inplace` only.
        """
        array = self._tensor._array
        pyramid = self._mip is not MipFilter.Disabled and prod(self.shape) > 0
        self._texels = self._pyramid() if pyramid else type(array)(array)

    # Contents

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor of texels: sizes, slowest first, and channels."""
        return self._tensor._shape

    def channel_count(self) -> int:
        """The number of channels."""
        return self._tensor._shape[-1]

    def value(self) -> Any:
        """The texels as a one-dimensional array."""
        return self._tensor._array

    def tensor(self, level: int = 0) -> Any:
        """The texels as a tensor; after changes to it call `update_inplace`.

        For a MIP-mapped texture, those of a level: with `MipBasis.Laplacian`, what the level adds
        to the next coarser one.

        Raises:
            IndexError: there is no such level.
        """
        return self._level(level, self._name("tensor"))

    def set_value(self, value: Any, migrate: bool = False) -> None:
        """Replaces the texels by those of a one-dimensional array.

        Raises:
            RuntimeError: the number of entries differs.
        """
        del migrate
        cls = self._tensor_class.Array
        array = value if type(value) is cls else cls(value)
        if len(array) != prod(self.shape):
            raise RuntimeError(
                f"{self._name('set_value')}: the array has {len(array)} entries, the texture of "
                f"shape {self.shape} has {prod(self.shape)}"
            )
        self._set(self._tensor_class(array, shape=self.shape))

    def set_tensor(
        self, tensor: Any, value: Any = None, rebuild: bool = True, migrate: bool = False
    ) -> None:
        """Replaces the texels by those of a tensor, whose sizes and channels become those of the
        texture.

        `set_tensor(level, value, rebuild=True)` replaces what one level of a texture with
        `MipBasis.Laplacian` adds to the next coarser one; without `rebuild`, look-ups see it after
        `update_inplace`.

        Raises:
            RuntimeError: the tensor has the wrong number of dimensions, no channels, or not the
                shape of the level.
            IndexError: there is no such level.
        """
        del migrate
        what = self._name("set_tensor")
        if type(tensor) is int and value is not None:
            self._set_level(tensor, value, rebuild, what)
        else:  # `value` was 'migrate'
            self._take(tensor, what)

    def _take(self, tensor: Any, what: str) -> None:
        cls = self._tensor_class
        made = tensor if type(tensor) is cls else cls(tensor)
        if len(made._shape) != self._dims + 1:
            raise RuntimeError(
                f"{what}: the tensor must have {self._dims + 1} dimensions (sizes and "
                f"channels), its shape is {made._shape}"
            )
        self._checked_channels(made._shape[-1], what)
        self._set(cls(made))

    def set_value_with_event(self, value: Any, event: Any, migrate: bool = False) -> None:
        """`set_value`, after which the event is recorded."""
        self.set_value(value, migrate)
        event.record()

    def update_inplace(self, migrate: bool = False) -> None:
        """Takes over changes that were made to the array or tensor of `value` or `tensor`.

        Raises:
            RuntimeError: the tensor is no longer one of a texture.
        """
        del migrate
        if len(self._tensor._shape) != self._dims + 1:
            raise RuntimeError(
                f"{self._name('update_inplace')}: the tensor's shape became {self._tensor._shape}"
            )
        self._refresh()

    def filter_mode(self) -> FilterMode:
        """How a value between texels is found."""
        return self._filter

    def wrap_mode(self) -> WrapMode:
        """What lies beyond the boundary."""
        return self._wrap

    def use_accel(self) -> bool:
        """Whether texture units were asked for."""
        return self._use_accel

    def srgb(self) -> bool:
        """Whether 8-bit texels are decoded from sRGB."""
        return self._srgb

    def writable(self) -> bool:
        """Whether kernels may write texels."""
        return self._writable

    def migrated(self) -> bool:
        """Whether the texels are kept by texture units only: never."""
        return False

    # Exchange with graphics systems, which needs texture units

    def map(self) -> None:
        """Prepares a texture of a graphics system for use; nothing to do for others."""

    def unmap(self) -> None:
        """Ends what `map` began."""

    def native_handle(self, sub_index: int = 0) -> int:
        """The handle of a texture unit's texture: 0, there is none."""
        return 0

    @classmethod
    def from_native_handle(cls, handle: int, *args: Any, **kwargs: Any) -> Any:
        """Wraps the texture of a graphics system.

        Raises:
            RuntimeError: there are no texture units here.
        """
        raise RuntimeError(
            f"{cls.__name__}.from_native_handle() needs a backend with texture units"
        )

    def write(self, pos: Any, value: Any, active: Any = True) -> None:
        """Writes texels at integer positions inside the texture: one array per channel.

        8-bit texels take numbers from 0 to 1 (what lies outside is limited, NaN becomes 0), which
        are encoded as those that look-ups decode.

        Raises:
            RuntimeError: the texture was not made with `writable`, or the channels differ.
        """
        what = self._name("write")
        if not self._writable:
            raise RuntimeError(f"{what}: the texture was not created with writable=True")
        if len(value) != self.channel_count():
            raise RuntimeError(
                f"{what}: {len(value)} values for the {self.channel_count()} channels"
            )
        where, _ = self._components(pos, what, dt.u32)
        taps = [Taps([p], []) for p in where]
        number, _ = next(cells(taps, self._sizes()))
        array, count = self._tensor._array, self.channel_count()
        active = True if active is None else active
        encoded = [self._encoded(v, channel) for channel, v in enumerate(value)]
        for channel, v in enumerate(encoded):
            scatter(array, v, number * count + channel, active)
        self._refresh()

    # Look-ups

    def wrap(self, pos: Any) -> Any:
        """Integer positions, brought into the texture by the wrap mode.

        Raises:
            TypeError: the position has the wrong number of components.
        """
        where, _ = self._components(pos, self._name("wrap"), dt.i32)
        found = [wrapped(self._wrap, p, n)[0] for p, n in zip(where, self._sizes(), strict=True)]
        cls = table.find(self._namespace, "vector", dt.i32, (self._dims,))
        return assemble(cls, found, (self._dims,))

    def eval(self, pos: Any, active: Any = True) -> Any:
        """The value at a position, by the filter mode; 0 where `active` is false. Up to 4 channels
        make an `Array1f` to `Array4f`, more an `ArrayXf`.

        Raises:
            TypeError: the position has the wrong number of components, or the mask is no mask.
        """
        if active is True and repeatable():
            known = self._repeated(pos)
            if known is not None:
                return known
        where, dtype = self._components(pos, self._name("eval"))
        return self._vector(dtype, self._sample(where, dtype, active))

    def _sample(self, where: list[Any], dtype: DType, active: Any) -> Channels:
        taps = self._nearest(where) if self._filter is FilterMode.Nearest else self._linear(where)
        return self._summed(taps, dtype, active, "eval")

    def _summed(self, taps: list[Taps], dtype: DType, active: Any, method: str) -> Channels:
        """The sum of the texels that a filter reads, with their weights."""
        return self._mixed(*combinations(taps, self._sizes()), dtype, active, method)

    def _mixed(
        self, numbers: list[Any], weights: list[Any], dtype: DType, active: Any, method: str
    ) -> Channels:
        """The sum of some texels with weights."""
        fetch = self._fetcher(dtype, active, method)
        fused = None
        if self._namespace != "scalar" and self._dtype is dtype:
            source, count, mask, unsigned, inside = self._records(active, self._name(method))

            def at_once(numbers: list[Any], weights: list[Any]) -> Channels | None:
                if not inside:
                    return None
                indices = [leaf.cast(unsigned, number) for number in numbers]
                what = self._name(method)
                return leaf_access.gather_weighted(source, indices, weights, mask, count, what)

            fused = at_once
        return weighted_sum(fetch, numbers, weights, fused)

    def _repeated(self, pos: Any) -> Any:
        """`eval` with the nodes of the first time, for a position that is an array; None where
        there is more to it.
        """
        key = type(pos), self._tensor._shape
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = self._template(type(pos))
        texels = self._texels
        if not template or texels._a is not None:
            return None
        for p in pos._c:
            if p._a is not None:
                return None
        nodes = template((texels._n,), [p._n for p in pos._c])
        if nodes is None:
            return None
        entry = type(pos).Value
        return self._vector(entry._dtype, [leaf.wrap(entry, n) for n in nodes])

    def _template(self, cls: Any) -> Any:
        """A template of `eval` for positions of a class; False if they would be converted."""
        dtype, size = getattr(cls, "_dtype", None), self._length()
        if self._namespace == "scalar" or not size or dtype is None or not dtype.is_float:
            return False
        vector = table.find(self._namespace, "vector", dtype, (self._dims,))
        if cls is not vector:
            return False
        image = copy(self)

        def trace(sources: list[Node], lanes: list[Node]) -> list[Node]:
            image._texels = leaf.wrap(type(self._texels), sources[0])
            where = [leaf.wrap(vector.Value, n) for n in lanes]
            return [v._n for v in image._sample(where, dtype, True)]

        return Template(trace, [(self._dtype, size)], [dtype] * self._dims)

    def eval_fetch(self, pos: Any, active: Any = True) -> tuple[Any, ...]:
        """The 2, 4 or 8 texels that linear interpolation at a position combines, x varying fastest.

        Raises:
            TypeError: see `eval`.
        """
        where, dtype = self._components(pos, self._name("eval_fetch"))
        fetch = self._fetcher(dtype, active, "eval_fetch")
        found = cells(self._linear(where), self._sizes())
        return tuple([self._vector(dtype, fetch(number)) for number, _ in found])

    def eval_cubic(self, pos: Any, active: Any = True, force_nonaccel: bool = False) -> Any:
        """The cubic B-spline with the texels as coefficients (it is smooth, and does not pass
        through them) at a position.

        Raises:
            TypeError: see `eval`.
        """
        del force_nonaccel
        where, dtype = self._components(pos, self._name("eval_cubic"))
        return self._vector(dtype, self._summed(self._cubic(where, 0), dtype, active, "eval_cubic"))

    def eval_cubic_helper(self, pos: Any, active: Any = True) -> Any:
        """The same as `eval_cubic`."""
        return self.eval_cubic(pos, active)

    def eval_cubic_grad(self, pos: Any, active: Any = True) -> tuple[Any, list[Any]]:
        """The cubic B-spline at a position, and for each channel its gradient.

        Raises:
            TypeError: see `eval`.
        """
        value, gradients, _ = self._differentiated(pos, active, 1, "eval_cubic_grad")
        return value, gradients

    def eval_cubic_hessian(self, pos: Any, active: Any = True) -> tuple[Any, list[Any], list[Any]]:
        """The cubic B-spline at a position, and for each channel its gradient and its matrix of
        second derivatives (an `Array1f` in one dimension).

        Raises:
            TypeError: see `eval`.
        """
        return self._differentiated(pos, active, 2, "eval_cubic_hessian")

    def _differentiated(self, pos: Any, active: Any, order: int, method: str) -> tuple:
        where, dtype = self._components(pos, self._name(method))
        fetch = self._fetcher(dtype, active, method)
        sizes, n = self._sizes(), self._dims
        found = derivatives(fetch, self._cubic(where, order), sizes, order)
        unit = np.eye(n, dtype=int)

        def channel(orders: Any, c: int) -> Any:
            value = found[tuple(orders.tolist())][c]
            return value * prod([float(s) ** int(o) for s, o in zip(sizes, orders, strict=True)])

        vector = table.find(self._namespace, "vector", dtype, (n,))
        square = table.find(self._namespace, "matrix", dtype, (n, n)) if n > 1 else vector
        gradients, hessians = [], []
        for c in range(self.channel_count()):
            gradients.append(assemble(vector, [channel(unit[k], c) for k in range(n)], (n,)))
            if order > 1:
                second = [channel(unit[k] + unit[m], c) for k in range(n) for m in range(n)]
                hessians.append(assemble(square, second, (n, n) if n > 1 else (1,)))
        return self._vector(dtype, found[(0,) * n]), gradients, hessians

    def _length(self) -> int:
        """The entries of all levels."""
        return prod(self.shape) + sum([prod(t._shape) for t in self._coarser])

    def _sizes(self) -> list[int]:
        """The numbers of texels in x, y and z."""
        return list(self._tensor._shape[-2::-1])

    def _components(self, pos: Any, what: str, dtype: DType | None = None) -> tuple[list, DType]:
        """The components of a position, and the element type, which is that of the position, or
        float32 if it is not floating point; or the one that is given.

        Raises:
            TypeError: there are not as many as the texture has dimensions.
        """
        n = self._dims
        if dtype is None:
            dtype = _float_type(pos)
        if isinstance(pos, ArrayBase) and pos._kind == "nested":
            count = len(pos._c)
        else:
            count = len(pos) if isinstance(pos, (list, tuple)) else n
        if count != n or (isinstance(pos, ArrayBase) and len(pos.__meta__.dims) > 1):
            raise TypeError(
                f"{what}: the position is of type {type_label(pos)} and has {count} components, "
                f"the texture has {n} dimension{'s' * (n > 1)}"
            )
        vector = table.find(self._namespace, "vector", dtype, (n,))
        converted: Any = pos if type(pos) is vector else vector(pos)
        return converted._c, dtype

    def _fetcher(self, dtype: DType, active: Any, method: str) -> Any:
        """A function that gives the channels of a texel, by its number, in a floating point type.

        Raises:
            TypeError: the mask is no mask.
            RuntimeError: the texture has no texels.
        """
        if 0 in self.shape:
            raise RuntimeError(f"{self._name(method)}: the texture of shape {self.shape} is empty")
        result = table.find(self._namespace, "leaf", dtype)
        read = self._reader(active, self._name(method))
        if self._dtype is not dt.u8:
            return lambda number: [convert(result, v) for v in read(number)]
        return lambda number: [
            self._decoded(convert(result, v) * (1.0 / 255.0), channel)
            for channel, v in enumerate(read(number))
        ]

    def _reader(self, active: Any, what: str) -> Callable[[Any], Channels]:
        """A function that gives the channels of a texel as they are stored."""
        source, count = self._texels, self.channel_count()
        if self._namespace == "scalar":
            active = True if active is None else active
            if not isinstance(active, (bool, np.bool_)):
                raise TypeError(f"{what}: 'active' must be a bool, not {active!r}")
            nothing = [0] * count
            return lambda number: (
                source._c[number * count : (number + 1) * count] if active else nothing
            )
        source, count, mask, unsigned, inside = self._records(active, what)

        def read(number: Any) -> Channels:
            index = leaf.cast(unsigned, number)
            if count == 1:
                return [leaf_access.gather(source, index, mask, what, inside)]
            return leaf_access.gather_packet(source, index, mask, count, what, inside)

        return read

    def _records(self, active: Any, what: str) -> tuple[Any, int, Any, Any, bool]:
        """The texels as records of so many channels, the mask, the type of indices, and whether
        these cannot be out of bounds."""
        source = self._texels
        active = True if active is None else active
        if isinstance(active, ArrayBase) and active._namespace != self._namespace:
            active = table.find(self._namespace, "leaf", dt.mask)(active)
        mask = mask_leaf(active, type(source), what.removesuffix("()"))
        unsigned = table.find(self._namespace, "leaf", dt.u32)
        # Wrapped positions are those of texels, unless the tensor was given another shape since.
        inside = len(source) == self._length() < 1 << 31
        return source, self.channel_count(), mask, unsigned, inside

    def _decoded(self, value: Any, channel: int) -> Any:
        return srgb_to_linear(value, False) if self._srgb and channel % 4 != 3 else value

    def _encoded(self, value: Any, channel: int) -> Any:
        """A value as it is stored: for 8-bit texels, the nearest of 256 steps from 0 to 1."""
        if self._dtype is not dt.u8:
            return value
        single = table.find(self._namespace, "leaf", dt.f32)
        if not isinstance(value, ArrayBase):
            value = float(value) if self._namespace == "scalar" else single(value)
        elif not value._dtype.is_float:
            value = single(value)
        # A comparison with NaN does not hold.
        value = select(value > 0, minimum(value, 1), 0)
        if self._srgb and channel % 4 != 3:
            value = linear_to_srgb(value)
        value = floor(value * 255 + 0.5)
        return int(value) if isinstance(value, float) else value

    def _nearest(self, where: list[Any]) -> list[Taps]:
        found = []
        for p, n in zip(where, self._sizes(), strict=True):
            found.append(Taps(wrapped(self._wrap, self._integer(floor(p * n)), n), [[1.0]]))
        return found

    def _linear(self, where: list[Any]) -> list[Taps]:
        found = []
        for p, n in zip(where, self._sizes(), strict=True):
            first, rest = self._split(p, n)
            found.append(Taps(wrapped(self._wrap, first, n, 2), lerp_weights(rest)))
        return found

    def _cubic(self, where: list[Any], order: int) -> list[Taps]:
        found = []
        for p, n in zip(where, self._sizes(), strict=True):
            first, rest = self._split(p, n)
            positions = wrapped(self._wrap, first - 1, n, 4)
            found.append(Taps(positions, spline_weights(rest, order)))
        return found

    def _split(self, p: Any, n: int) -> tuple[Any, Any]:
        """The texel whose centre precedes a position, and the fraction of the way to the next."""
        scaled = p * n - 0.5
        whole = floor(scaled)
        return self._integer(whole), scaled - whole

    def _integer(self, value: Any) -> Any:
        if isinstance(value, ArrayBase):
            return leaf.cast(table.find(self._namespace, "leaf", dt.i32), value)
        # Any number serves for a NaN or an infinity: the weights carry it on.
        return int(value) if abs(value) < 1 << 31 else 0

    def _vector(self, dtype: DType, channels: Channels) -> Any:
        n = len(channels)
        cls = table.find(self._namespace, "vector", dtype, (n if n <= 4 else DYNAMIC,))
        return assemble(cls, channels, (n,))


def _float_type(pos: Any) -> DType:
    """The element type of the look-ups at a position."""
    if isinstance(pos, (list, tuple)):
        kinds = {_float_type(p) for p in pos if isinstance(p, ArrayBase)}
        return max(kinds, key=lambda d: d.itemsize) if kinds else dt.f32
    floating = isinstance(pos, ArrayBase) and pos._dtype.is_float
    return pos._dtype if floating else dt.f32


@cache
def texture_class(namespace: str, dims: int, suffix: str) -> type:
    """The texture class of a namespace, number of dimensions, and element type."""
    dtype = ELEMENTS[suffix]
    members = {
        "__module__": f"drjit.{namespace}",
        "__doc__": Texture.__doc__,
        "__slots__": (),
        "_dims": dims,
        "_dtype": dtype,
        "_namespace": namespace,
        "_tensor_class": table.find(namespace, "tensor", dtype),
    }
    return type(f"Texture{dims}{suffix}", (Texture,), members)


ELEMENTS = {"f16": dt.f16, "f": dt.f32, "f64": dt.f64, "f8u": dt.u8}
for _dims in (1, 2, 3):
    for _suffix in ELEMENTS:
        table.extras[f"Texture{_dims}{_suffix}"] = lambda namespace, d=_dims, s=_suffix: (
            texture_class(namespace, d, s)
        )

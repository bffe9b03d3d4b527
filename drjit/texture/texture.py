"""Texture look-ups: grids of one to three dimensions with any number of channels, interpolated
between texels. A look-up consists of traced operations and becomes part of the kernel that uses it.
The levels of a MIP-mapped texture lie one after the other in one array, so that look-ups whose
level varies between lanes are also a single kernel.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

from ..ad import packet_rules
from ..array import leaf, leaf_access, table
from ..array.base import ArrayBase, type_label
from ..array.meta import DYNAMIC
from ..array.special import traced_once
from ..function.ad.grad import detach
from ..function.conversion import assemble, flat_class, mask_leaf, pick
from ..function.data.memory import scatter
from ..function.math.arithmetic import floor, maximum, minimum, select
from ..jit.ir import dtype as dt
from ..jit.lazy import np
from ..jit.trace.access import Access
from . import sampling
from .sampling import Channels, FilterMode, MipFilter, Taps, WrapMode
from .texels import Texels


class TexelReader:
    """Reads texels as floating point numbers where a mask is true, and 0 elsewhere.

    Raises:
        TypeError: the mask is not a mask.
        RuntimeError: the texture has no texels.
    """

    active: Any  # a mask, or a bool in `drjit.scalar`

    def __init__(self, texture: Texels, dtype: dt.DType, active: Any, method: str) -> None:
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
        values = [sampling.convert(self.number, v) for v in self._stored(number)]
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

    def weighted_sum(self, numbers: list[Any], weights: list[Any]) -> Channels:
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
            sums = packet_rules.weighted_sum(leaf.value(self.source), self.dtype, places)
            if sums is not None:
                return [leaf.from_value(cls, v) for v in sums]
        return sampling.weighted_sum(self.texel, numbers, weights)


class Texture(Texels):
    """A grid of texels of one to three dimensions.

    `Texture2f(shape, channels)` creates a texture of zeros, where `shape` is (height, width);
    `Texture2f(tensor)` takes its contents from a tensor of shape (height, width, channels). The
    texels fill the unit square: texel `i` of `n` is centred at `(i + 0.5) / n`. Positions are given
    as (x, y), so their order is the reverse of `shape`. The precision of a look-up is that of its
    position. 8-bit texels represent numbers from 0 to 1; with `srgb`, look-ups decode them to
    linear intensities, except for every fourth channel, and `write` encodes them.

    With a `mip_filter`, a texture has coarser levels, halved down to one texel, from which
    `eval_lod` and `eval_filtered` choose; the latter takes up to `max_aniso` samples along a
    footprint. A level averages the next finer one, in linear light for sRGB. With
    `MipBasis.Laplacian`, the stored values, which can be optimized, are each level's differences to
    the next coarser one.

    `use_accel` and `migrate` are accepted for compatibility with programs written for texture
    units.

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

    __slots__ = ()

    def write(self, pos: Any, value: Any, active: Any = True) -> None:
        """Writes texels at integer positions inside the texture: one array per channel.

        8-bit texels take numbers from 0 to 1, which are encoded such that look-ups decode them.
        Numbers outside this range are clamped, and NaN becomes 0.

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
        number, _ = next(sampling.cells(taps, self._sizes()))
        array, count = self._tensor._array, self.channel_count()
        active = True if active is None else active
        encoded = [self._encoded(v, channel) for channel, v in enumerate(value)]
        for channel, v in enumerate(encoded):
            scatter(array, v, number * count + channel, active)
        self._refresh()

    # Look-ups

    def wrap(self, pos: Any) -> Any:
        """Maps integer positions into the texture according to the wrap mode.

        Raises:
            TypeError: the position has the wrong number of components.
        """
        where, _ = self._components(pos, self._name("wrap"), dt.i32)
        found = [
            sampling.wrapped(self._wrap, p, n)[0] for p, n in zip(where, self._sizes(), strict=True)
        ]
        cls = table.find(self._namespace, "vector", dt.i32, (self._dims,))
        return assemble(cls, found, (self._dims,))

    def eval(self, pos: Any, active: Any = True) -> Any:
        """Returns the value at a position, interpolated according to the filter mode; 0 where
        `active` is false. Up to 4 channels are returned as an `Array1f` to `Array4f`, more as an
        `ArrayXf`.

        Raises:
            TypeError: the position has the wrong number of components, or the mask is not a mask.
        """
        where, dtype = self._components(pos, self._name("eval"))
        return self._vector(dtype, self._filtered(where, self._tap_count(), dtype, active, "eval"))

    def _tap_count(self) -> int:
        return 1 if self._filter is FilterMode.Nearest else 2

    def _filtered(
        self, where: list[Any], count: int, dtype: dt.DType, active: Any, method: str
    ) -> Channels:
        """Returns the weighted sum of the texels that a filter reads, `count` in each dimension."""
        found = [*traced_once(_texels_read, where, self._sizes(), self._wrap, count)]
        n = count**self._dims
        numbers, weights = found[:n], found[n:] or [1.0]
        return TexelReader(self, dtype, active, method).weighted_sum(numbers, weights)

    def eval_fetch(self, pos: Any, active: Any = True) -> tuple[Any, ...]:
        """Returns the 2, 4 or 8 texels that linear interpolation at a position combines, with x
        varying fastest.

        Raises:
            TypeError: see `eval`.
        """
        where, dtype = self._components(pos, self._name("eval_fetch"))
        texel = TexelReader(self, dtype, active, "eval_fetch").texel
        sizes = self._sizes()
        found = sampling.cells(_taps(where, sizes, self._wrap, 2), sizes)
        return tuple([self._vector(dtype, texel(number)) for number, _ in found])

    def eval_cubic(self, pos: Any, active: Any = True, force_nonaccel: bool = False) -> Any:
        """Returns the value at a position of the cubic B-spline that has the texels as
        coefficients. It is smooth and does not interpolate the texels.

        Raises:
            TypeError: see `eval`.
        """
        where, dtype = self._components(pos, self._name("eval_cubic"))
        return self._vector(dtype, self._filtered(where, 4, dtype, active, "eval_cubic"))

    def eval_cubic_helper(self, pos: Any, active: Any = True) -> Any:
        """Same as `eval_cubic`."""
        return self.eval_cubic(pos, active)

    def eval_cubic_grad(self, pos: Any, active: Any = True) -> tuple[Any, list[Any]]:
        """Returns the cubic B-spline at a position and its gradient for each channel.

        Raises:
            TypeError: see `eval`.
        """
        value, gradients, _ = self._differentiated(pos, active, 1, "eval_cubic_grad")
        return value, gradients

    def eval_cubic_hessian(self, pos: Any, active: Any = True) -> tuple[Any, list[Any], list[Any]]:
        """Returns the cubic B-spline at a position, and for each channel its gradient and its
        matrix of second derivatives (an `Array1f` in one dimension).

        Raises:
            TypeError: see `eval`.
        """
        return self._differentiated(pos, active, 2, "eval_cubic_hessian")

    def _differentiated(self, pos: Any, active: Any, order: int, method: str) -> tuple:
        where, dtype = self._components(pos, self._name(method))
        sizes, n = self._sizes(), self._dims
        texel = TexelReader(self, dtype, active, method).texel
        found = sampling.derivatives(texel, _taps(where, sizes, self._wrap, 4, order), sizes, order)

        def channel(c: int, *axes: int) -> Any:
            orders = tuple([axes.count(k) for k in range(n)])
            return found[orders][c] * prod([float(sizes[k]) for k in axes])

        vector = table.find(self._namespace, "vector", dtype, (n,))
        square = table.find(self._namespace, "matrix", dtype, (n, n)) if n > 1 else vector
        gradients, hessians = [], []
        for c in range(self.channel_count()):
            gradients.append(assemble(vector, [channel(c, k) for k in range(n)], (n,)))
            if order > 1:
                second = [channel(c, k, m) for k in range(n) for m in range(n)]
                hessians.append(assemble(square, second, (n, n) if n > 1 else (1,)))
        return self._vector(dtype, found[(0,) * n]), gradients, hessians

    # Look-ups in levels

    def eval_lod(self, pos: Any, lod: Any, active: Any = True) -> Any:
        """Returns the value at a position in level `lod`, where 0 is the finest: interpolated
        between two levels with `MipFilter.Linear`, from the nearest with `MipFilter.Nearest`. `lod`
        is clamped to the existing levels and is not differentiated. Without a pyramid, this is
        `eval`.

        Raises:
            TypeError: see `eval`.
        """
        if self._mip is MipFilter.Disabled:
            return self.eval(pos, active)
        where, dtype = self._components(pos, self._name("eval_lod"))
        level = self._number(lod, dtype)
        return self._vector(dtype, self._at_level(where, level, dtype, active, "eval_lod"))

    def eval_filtered(self, pos: Any, ddx: Any, ddy: Any, active: Any = True) -> Any:
        """Returns the value that a pixel sees at a position whose derivatives along the two screen
        axes are `ddx` and `ddy`. The shorter axis of the pixel's footprint determines the level,
        and up to `max_aniso` samples along the longer axis are averaged. `ddx` and `ddy` are not
        differentiated. Without a pyramid, this is `eval`.

        Source: Direct3D 11.3 functional specification, section 7.18.11.

        Raises:
            TypeError: see `eval`.
        """
        if self._mip is MipFilter.Disabled:
            return self.eval(pos, active)
        what = self._name("eval_filtered")
        where, dtype = self._components(pos, what)
        axes = [[self._number(v, dtype) for v in self._components(d, what)[0]] for d in (ddx, ddy)]
        lod, taps, axis = sampling.footprint(axes[0], axes[1], self._sizes(), self._aniso)
        if self._aniso == 1:
            return self._vector(dtype, self._at_level(where, lod, dtype, active, "eval_filtered"))
        spacing = 1.0 / taps

        def more(k: Any, *total: Any) -> Any:
            return k < taps

        def add(k: Any, *total: Any) -> tuple:
            along = (k + 0.5) * spacing - 0.5
            at = [p + along * a for p, a in zip(where, axis, strict=True)]
            found = self._at_level(at, lod, dtype, active, "eval_filtered")
            return (k + 1.0, *[t + v * spacing for t, v in zip(total, found, strict=True)])

        nothing = lod * 0.0
        state = (nothing, *[nothing + 0.0 for _ in range(self.channel_count())])
        limit = None if self._namespace == "scalar" else -1
        from ..flow.loop.while_loop import while_loop  # which most programs do not need

        _, *total = while_loop(state, more, add, max_iterations=limit)
        return self._vector(dtype, total)

    def _number(self, value: Any, dtype: dt.DType) -> Any:
        """Returns a detached number in the type of a look-up."""
        value = detach(value, preserve_type=True)
        return table.find(self._namespace, "leaf", dtype)(value)

    def _at_level(
        self, where: list[Any], lod: Any, dtype: dt.DType, active: Any, method: str
    ) -> Channels:
        """Returns the value at positions in a level, which may lie between two levels."""
        last = float(self.mip_levels() - 1)
        lod = maximum(minimum(lod, last), 0.0)
        if self._mip is MipFilter.Nearest:
            numbers, weights = self._within(where, _integer(floor(lod + 0.5)))
        else:
            whole = floor(lod)
            first, part = _integer(whole), lod - whole
            following = minimum(first + 1, int(last))
            numbers, fine = self._within(where, first)
            others, coarse = self._within(where, following)
            numbers = [*numbers, *others]
            weights = [w * (1.0 - part) for w in fine] + [w * part for w in coarse]
        return TexelReader(self, dtype, active, method).weighted_sum(numbers, weights)

    def _within(self, where: list[Any], level: Any) -> tuple[list[Any], list[Any]]:
        """Returns the numbers of the texels that a look-up in a level reads, and their weights."""
        taps, sizes, count = [], [], self._tap_count()
        for p, finest in zip(where, self._sizes(), strict=True):
            size = maximum(finest >> level, 1)
            sizes.append(size)
            p = _folded(self._wrap, p)
            scaled = p * (leaf.cast(type(p), size) if isinstance(p, ArrayBase) else float(size))
            first, rest = _split(scaled, count)
            positions = [
                _nearby_texel(self._wrap, first + k if k else first, size) for k in range(count)
            ]
            taps.append(Taps(positions, _weights(rest)))
        numbers, weights = sampling.texels_and_weights(taps, sizes)
        if isinstance(level, ArrayBase):
            start = pick(self._starts, leaf.cast(flat_class(type(level), dt.u32), level), "Texture")
        else:
            start = self._starts[level]
        return [start + number for number in numbers], weights

    # Positions

    def _components(self, pos: Any, what: str, dtype: dt.DType | None = None) -> tuple:
        """Returns the components of a position and the element type of the look-up: the given one,
        or else that of the position, or float32 if the position is not floating point.

        Raises:
            TypeError: their number differs from the texture's number of dimensions.
        """
        n = self._dims
        if dtype is None:
            dtype = _float_type(pos)
        if isinstance(pos, ArrayBase) and pos._kind == "nested":
            count = len(pos._components)
        else:
            count = len(pos) if isinstance(pos, (list, tuple)) else n
        if count != n or (isinstance(pos, ArrayBase) and len(pos.__meta__.dims) > 1):
            raise TypeError(
                f"{what}: the position is of type {type_label(pos)} and has {count} components, "
                f"the texture has {n} dimension{'s' * (n > 1)}"
            )
        vector = table.find(self._namespace, "vector", dtype, (n,))
        converted: Any = pos if type(pos) is vector else vector(pos)
        return converted._components, dtype

    def _vector(self, dtype: dt.DType, channels: Channels) -> Any:
        n = len(channels)
        cls = table.find(self._namespace, "vector", dtype, (n if n <= 4 else DYNAMIC,))
        return assemble(cls, channels, (n,))


def _texels_read(where: list[Any], sizes: Sequence[int], wrap: WrapMode, count: int) -> list[Any]:
    """Returns the numbers of the texels that a filter reads, followed by their weights unless there
    is only one texel."""
    numbers, weights = sampling.texels_and_weights(_taps(where, sizes, wrap, count), sizes)
    return numbers if count == 1 else numbers + weights


def _taps(
    where: list[Any], sizes: Sequence[int], wrap: WrapMode, count: int, order: int = 0
) -> list[Taps]:
    """Returns the texels that a filter reads along each dimension: the nearest one, the two of
    linear interpolation, or the four of the cubic B-spline, with derivatives up to `order`.
    """
    found = []
    for p, n in zip(where, sizes, strict=True):
        first, rest = _split(p * n, count)
        if count == 4:
            first = first - 1
        weights = sampling.spline_weights(rest, order) if count == 4 else _weights(rest)
        found.append(Taps(sampling.wrapped(wrap, first, n, count), weights))
    return found


def _split(scaled: Any, count: int) -> tuple[Any, Any]:
    """Returns the texel whose centre precedes a position, and the fraction of the way to the next
    one; for a single tap, the nearest texel."""
    if count == 1:
        return _integer(floor(scaled)), None
    scaled = scaled - 0.5
    whole = floor(scaled)
    return _integer(whole), scaled - whole


def _integer(value: Any) -> Any:
    if isinstance(value, ArrayBase):
        return leaf.cast(flat_class(type(value), dt.i32), value)
    # Any number serves for a NaN or infinity, because the weights propagate it.
    return int(value) if abs(value) < 1 << 31 else 0


def _weights(rest: Any) -> list[list[Any]]:
    """Returns the weights of the nearest texel, or of two neighbours at a fraction of the way
    between them."""
    return [[1.0]] if rest is None else [[1.0 - rest, rest]]


def _folded(mode: WrapMode, p: Any) -> Any:
    """Maps a position into the texture before its size is known."""
    if mode is WrapMode.Repeat:
        return p - floor(p)
    if mode is WrapMode.Mirror:
        p = p - 2.0 * floor(p * 0.5)
        return select(p > 1.0, 2.0 - p, p)
    return p


def _nearby_texel(mode: WrapMode, i: Any, size: Any) -> Any:
    """Returns the number of a texel next to a position in the texture."""
    if mode is WrapMode.Repeat:
        i = select(i < 0, i + size, i)
        i = select(i >= size, i - size, i)
    return sampling.clamped(i, size)


def _float_type(pos: Any) -> dt.DType:
    """Returns the element type of look-ups at a position."""
    if isinstance(pos, (list, tuple)):
        kinds = {_float_type(p) for p in pos if isinstance(p, ArrayBase)}
        return max(kinds, key=lambda d: d.itemsize) if kinds else dt.f32
    floating = isinstance(pos, ArrayBase) and pos._dtype.is_float
    return pos._dtype if floating else dt.f32


def _members(namespace: str, dims: int, dtype: dt.DType) -> dict[str, Any]:
    tensors = table.find(namespace, "tensor", dtype)
    return {
        "_dims": dims, "_dtype": dtype, "_namespace": namespace, "_tensor_class": tensors,
    }  # fmt: skip


for _dims, (_suffix, _dtype) in product(
    (1, 2, 3), {"f16": dt.f16, "f": dt.f32, "f64": dt.f64, "f8u": dt.u8}.items()
):
    table.derive(f"Texture{_dims}{_suffix}", Texture, partial(_members, dims=_dims, dtype=_dtype))

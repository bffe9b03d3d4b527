"""Look-ups of MIP-mapped textures, whose levels lie one behind the other in one array: a look-up
reads from levels that differ from lane to lane, and stays one kernel."""

from math import prod
from typing import Any, ClassVar

import numpy as np

from ..array import leaf, table
from ..array.base import ArrayBase
from ..flow.loop import while_loop
from ..function.arithmetic import floor, maximum, minimum, select
from ..function.color import linear_to_srgb, srgb_to_linear
from ..function.grad import detach
from ..function.parts import flat_class, pick
from ..function.shape import concat
from ..jit import dtype as dt
from ..jit.dtype import DType
from .filters import Channels, Taps, combinations, lerp_weights
from .footprint import footprint
from .modes import FilterMode, MipBasis, MipFilter, WrapMode, mode_of
from .pyramid import averaged, decomposed, shapes, summed

LARGEST_ANISOTROPY = 16


class Mipmapped:
    """What textures do with their levels."""

    __slots__ = ("_aniso", "_basis", "_coarser", "_mip", "_starts")
    _dtype: ClassVar[DType]
    _namespace: ClassVar[str]
    _tensor_class: ClassVar[Any]
    _tensor: Any
    _wrap: WrapMode
    _filter: FilterMode
    _srgb: bool
    # Of the texture itself:
    channel_count: Any
    eval: Any
    _components: Any
    _integer: Any
    _mixed: Any
    _sizes: Any
    _vector: Any

    def _set_mip(self, mip_filter: Any, max_aniso: Any, mip_basis: Any, writable: bool) -> None:
        what = self._name()
        self._mip = mode_of(MipFilter, mip_filter, what)
        self._basis = mode_of(MipBasis, mip_basis, what)
        if type(max_aniso) is not int or not 1 <= max_aniso <= LARGEST_ANISOTROPY:
            raise RuntimeError(
                f"{what}: 'max_aniso' must be an integer from 1 to {LARGEST_ANISOTROPY}, not "
                f"{max_aniso!r}"
            )
        self._aniso = max_aniso
        self._coarser: list[Any] = []  # tensors of the levels after the first
        self._starts: Any = None  # of the levels in the array of all of them
        if writable and self._mip is not MipFilter.Disabled:
            raise RuntimeError(f"{what}: a MIP-mapped texture cannot be writable")
        if self._basis is MipBasis.Laplacian and (
            self._mip is MipFilter.Disabled
            or not self._dtype.is_float
            or self._namespace == "scalar"
        ):
            raise RuntimeError(
                f"{what}: MipBasis.Laplacian is for MIP-mapped textures of floating point texels, "
                "outside of drjit.scalar"
            )

    def _name(self, method: str = "") -> str:
        raise NotImplementedError

    # Levels

    def mip_filter(self) -> MipFilter:
        """How levels are chosen."""
        return self._mip

    def mip_basis(self) -> MipBasis:
        """What is stored for each level."""
        return self._basis

    def max_aniso(self) -> int:
        """The largest number of look-ups along the longer axis of a footprint."""
        return self._aniso

    def mip_levels(self) -> int:
        """The number of levels: 1 without a pyramid."""
        return 1 + len(self._coarser)

    def _level(self, level: int, what: str) -> Any:
        """The tensor of a level."""
        if not 0 <= level < self.mip_levels():
            raise IndexError(
                f"{what}: level {level} is out of bounds, the texture has {self.mip_levels()}"
            )
        return self._coarser[level - 1] if level else self._tensor

    def _set_level(self, level: int, value: Any, rebuild: bool, what: str) -> None:
        """Replaces the coefficients of a level."""
        before = self._level(level, what)
        if level and self._basis is not MipBasis.Laplacian:
            raise RuntimeError(
                f"{what}: levels after the first follow from it, unless the texture has "
                "MipBasis.Laplacian"
            )
        cls = self._tensor_class
        made = cls(value)
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

    def _refresh(self) -> None:
        raise NotImplementedError

    def _decompose(self) -> None:
        """Takes the tensor as the image, and stores what its levels add to each other."""
        all_shapes = shapes(self._tensor._shape)
        levels = averaged(self._computed(self._tensor._array), all_shapes)
        parts = decomposed(levels, all_shapes, self._wrap)
        cls = self._tensor_class
        tensors = [cls(leaf.cast(cls.Array, p), s) for p, s in zip(parts, all_shapes, strict=True)]
        self._tensor, self._coarser = tensors[0], tensors[1:]

    def _pyramid(self) -> Any:
        """The array of the texels of all levels."""
        array = self._tensor._array
        all_shapes = shapes(self._tensor._shape)
        sizes = [prod(s) // s[-1] for s in all_shapes]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        if self._namespace == "scalar":
            self._starts = starts.tolist()
        else:
            integers = table.find(self._namespace, "leaf", dt.i32)
            self._starts = leaf.from_numpy(integers, starts.astype(np.int32), True)
        if self._basis is MipBasis.Laplacian:
            parts = [self._computed(t._array) for t in (self._tensor, *self._coarser)]
            levels = [leaf.cast(type(array), v) for v in summed(parts, all_shapes, self._wrap)]
        else:
            coarser = averaged(self._linear_light(array), all_shapes)[1:]
            levels = [array, *[self._stored(v, array) for v in coarser]]
            cls = self._tensor_class
            self._coarser = [cls(v, s) for v, s in zip(levels[1:], all_shapes[1:], strict=True)]
        return _joined(levels)

    def _computed(self, array: Any) -> Any:
        """Texels in the precision that levels are computed in."""
        if self._namespace == "scalar":
            values = np.array(list(array), dtype=self._dtype.numpy)
            return values.astype(np.float64 if self._dtype is dt.f64 else np.float32)
        wide = dt.f64 if self._dtype is dt.f64 else dt.f32
        return leaf.cast(flat_class(type(array), wide), array)

    def _linear_light(self, array: Any) -> Any:
        """Texels as numbers that can be averaged."""
        values = self._computed(array)
        if self._dtype is not dt.u8:
            return values
        values = values * (1.0 / 255.0)
        if not self._srgb:
            return values
        linear = _light(srgb_to_linear, values)
        return _where(self._is_alpha(values), values, linear)

    def _stored(self, values: Any, like: Any) -> Any:
        """The opposite of `_linear_light`."""
        if self._dtype is dt.u8:
            if self._srgb:
                coded = _light(linear_to_srgb, values)
                values = _where(self._is_alpha(values), values, coded)
            scaled = values * 255.0 + 0.5
            values = np.floor(scaled) if isinstance(scaled, np.ndarray) else floor(scaled)
        if isinstance(values, np.ndarray):
            return type(like)(values.astype(self._dtype.numpy))
        return leaf.cast(type(like), values)

    def _is_alpha(self, values: Any) -> Any:
        """Whether entries belong to every fourth channel, which has no colour."""
        count = self._tensor._shape[-1]
        if isinstance(values, np.ndarray):
            return np.arange(values.size) % count % 4 == 3
        return leaf.lane(flat_class(type(values), dt.u32), len(values)) % count % 4 == 3

    # Look-ups

    def eval_lod(self, pos: Any, lod: Any, active: Any = True) -> Any:
        """The value at a position in the level `lod`, 0 being the finest: between two levels with
        `MipFilter.Linear`, in the nearest with `MipFilter.Nearest`. `lod` is limited to the levels
        that there are, and has no derivative. Without a pyramid, this is `eval`.

        Raises:
            TypeError: see `eval`.
        """
        if self._mip is MipFilter.Disabled:
            return self.eval(pos, active)
        where, dtype = self._components(pos, self._name("eval_lod"))
        level = self._number(lod, dtype)
        return self._vector(dtype, self._at_level(where, level, dtype, active, "eval_lod"))

    def eval_filtered(self, pos: Any, ddx: Any, ddy: Any, active: Any = True) -> Any:
        """The value that a pixel sees at a position, whose derivatives along the two axes of the
        screen are `ddx` and `ddy`: the level is that of the shorter axis of its footprint, and at
        most `max_aniso` look-ups along the longer axis are averaged. `ddx` and `ddy` have no
        derivative. Without a pyramid, this is `eval`.

        Source: Direct3D 11.3 functional specification, section 7.18.11.

        Raises:
            TypeError: see `eval`.
        """
        if self._mip is MipFilter.Disabled:
            return self.eval(pos, active)
        what = self._name("eval_filtered")
        where, dtype = self._components(pos, what)
        axes = [[self._number(v, dtype) for v in self._components(d, what)[0]] for d in (ddx, ddy)]
        lod, taps, axis = footprint(axes[0], axes[1], self._sizes(), self._aniso)
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
        _, *total = while_loop(state, more, add, max_iterations=limit)
        return self._vector(dtype, total)

    def _number(self, value: Any, dtype: DType) -> Any:
        """A number without derivative in the type of a look-up."""
        value = detach(value, preserve_type=True)
        return table.find(self._namespace, "leaf", dtype)(value)

    def _at_level(
        self, where: list[Any], lod: Any, dtype: DType, active: Any, method: str
    ) -> Channels:
        """The value at positions in a level, which may lie between two."""
        last = float(self.mip_levels() - 1)
        lod = maximum(minimum(lod, last), 0.0)
        if self._mip is MipFilter.Nearest:
            numbers, weights = self._within(where, self._integer(floor(lod + 0.5)))
        else:
            whole = floor(lod)
            first, part = self._integer(whole), lod - whole
            following = minimum(first + 1, int(last))
            numbers, fine = self._within(where, first)
            others, coarse = self._within(where, following)
            numbers = [*numbers, *others]
            weights = [w * (1.0 - part) for w in fine] + [w * part for w in coarse]
        return self._mixed(numbers, weights, dtype, active, method)

    def _within(self, where: list[Any], level: Any) -> tuple[list[Any], list[Any]]:
        """The numbers of the texels that a look-up in a level reads, and their weights."""
        taps, sizes = [], []
        for p, finest in zip(where, self._sizes(), strict=True):
            size = maximum(finest >> level, 1)
            sizes.append(size)
            p = _folded(self._wrap, p)
            scaled = p * (leaf.cast(type(p), size) if isinstance(p, ArrayBase) else float(size))
            if self._filter is FilterMode.Nearest:
                found = [(self._integer(floor(scaled)), 1.0)]
            else:
                scaled = scaled - 0.5
                whole = floor(scaled)
                first = self._integer(whole)
                ends = (first, first + 1)
                found = list(zip(ends, lerp_weights(scaled - whole)[0], strict=True))
            positions = [_inside(self._wrap, i, size) for i, _ in found]
            taps.append(Taps(positions, [[w for _, w in found]]))
        numbers, weights = combinations(taps, sizes)
        if isinstance(level, ArrayBase):
            start = pick(self._starts, leaf.cast(flat_class(type(level), dt.u32), level), "Texture")
        else:
            start = self._starts[level]
        return [start + number for number in numbers], weights


def _folded(mode: WrapMode, p: Any) -> Any:
    """A position brought into the texture, before its size is known."""
    if mode is WrapMode.Repeat:
        return p - floor(p)
    if mode is WrapMode.Mirror:
        p = p - 2.0 * floor(p * 0.5)
        return select(p > 1.0, 2.0 - p, p)
    return p


def _inside(mode: WrapMode, i: Any, size: Any) -> Any:
    """The number of a texel next to a position in the texture."""
    if mode is WrapMode.Repeat:
        i = select(i < 0, i + size, i)
        i = select(i >= size, i - size, i)
    return maximum(minimum(i, size - 1), 0)


def _where(condition: Any, yes: Any, no: Any) -> Any:
    return (
        np.where(condition, yes, no) if isinstance(yes, np.ndarray) else select(condition, yes, no)
    )


def _light(curve: Any, values: Any) -> Any:
    return np.vectorize(curve)(values) if isinstance(values, np.ndarray) else curve(values)


def _joined(arrays: list[Any]) -> Any:
    """Arrays one behind the other."""
    return concat(arrays) if len(arrays) > 1 else type(arrays[0])(arrays[0])

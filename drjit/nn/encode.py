"""Layers that encode positions: by periodic functions of increasing frequency, which turn a few
coordinates into many features, so that small networks learn details; and by hash encodings.
"""

from functools import lru_cache
from math import pi
from typing import Any, ClassVar, Self, TypeVar, overload

from ..ad.graph import Value, visible
from ..ad.vector import pack, unpack
from ..array.base import type_label
from ..function.conversion import is_real
from ..function.data.layout import reshape
from ..function.inspect import traits
from ..function.math.arithmetic import abs, fma, round
from ..function.math.transcendental import sin
from ..hashgrid import HashEncoding
from ..jit.ir.dtype import DType
from ..jit.ir.node import Node, literal
from ..jit.lazy import np
from ..jit.trace.feature_vectors import vector
from ..random import Generator
from .coopvec import CoopVec, cast, wrap
from .module import Module

T = TypeVar("T", bound=Any)


class Encoding(Module):
    """Base class of `SinEncode` and `TriEncode`. Each coordinate x and octave o has the phase `2**o
    * x + o * shift`, to which a sine-like and a cosine-like wave of period 1 are applied.
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"octaves": int, "shift": float, "channels": int}

    def __init__(self, octaves: int = 0, shift: float = 0) -> None:
        name = type(self).__name__
        if not isinstance(octaves, int) or isinstance(octaves, bool) or octaves < 0:
            raise ValueError(f"drjit.nn.{name}(): octaves must be an int >= 0, got {octaves!r}")
        if not is_real(shift):
            raise TypeError(f"drjit.nn.{name}(): shift must be a number, got {type_label(shift)}")
        self.octaves, self.shift, self.channels = octaves, shift, -1

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        made = type(self)(self.octaves, self.shift)
        made.channels = size
        return made, -1 if size < 0 else self.features(size)

    def features(self, channels: int) -> int:
        """Returns the number of features for a number of coordinates."""
        return channels * self.octaves * 2

    def __call__(self, arg: T, /) -> T:
        channels = self._channels(arg)
        if self.channels not in (-1, channels):
            raise ValueError(
                f"drjit.nn.{self!r}: expected {self.channels} coordinates, got {channels}"
            )
        if not self.octaves:
            raise ValueError(f"drjit.nn.{self!r}: an encoding of no octaves has no features")
        # Half precision has too few digits for phases.
        kind: Any = arg.type if isinstance(arg, CoopVec) else type(arg)
        convert: Any = cast if isinstance(arg, CoopVec) else lambda values, cls: cls(values)
        if traits.is_half_v(kind):
            return convert(self._encode(convert(arg, traits.float32_array_t(kind))), kind)
        return self._encode(arg)

    def _channels(self, arg: Any) -> int:
        if isinstance(arg, CoopVec):
            return len(arg)
        if not traits.is_tensor_v(arg) or not traits.is_float_v(arg):
            raise TypeError(
                f"drjit.nn.{self!r}: expected a tensor of floating point numbers of shape "
                f"(coordinates, N) or a cooperative vector, got {type_label(arg)}"
            )
        shape = traits.shape(arg)
        if len(shape) != 2:
            raise ValueError(
                f"drjit.nn.{self!r}: expected a tensor of shape (coordinates, N), got {shape}"
            )
        return len(arg)

    def _encode(self, arg: Any) -> Any:
        channels = len(arg)
        if isinstance(arg, CoopVec):
            waves = 2 * self.octaves
            constants = _constants(
                arg._dtype, channels, self.octaves, float(self.shift), self.quarters
            )
            parts = [x for x in unpack(Value(arg._node, visible(arg._var))) for _ in range(waves)]
            x = wrap(arg.type, pack(parts))
            return self._wave(x, *[wrap(arg.type, Value(n)) for n in constants])
        kind, n = type(arg), traits.shape(arg)[1]
        scale, shift = _octaves(self.octaves, self.shift)
        column = (1, self.octaves, 1, 1)
        wave = self._wave(
            reshape(arg, (channels, 1, 1, n)),
            reshape(kind(np.array(scale)), column),
            reshape(kind(np.array(shift)), column),
            reshape(kind(np.array(self.quarters)), (1, 1, 2, 1)),
        )
        return reshape(wave, (self.features(channels), n))

    quarters: ClassVar[tuple[float, float]]  # phase offsets of the sine and the cosine

    def _wave(self, x: Any, scale: Any, shift: Any, quarter: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(octaves={self.octaves}, shift={self.shift}, "
            f"in_channels={self.channels}, out_features={self.features(self.channels)})"
        )


def _octaves(octaves: int, shift: float) -> tuple[list[float], list[float]]:
    """Returns the frequency and the shift of each octave."""
    return [2.0**o for o in range(octaves)], [shift * o + 0.0 for o in range(octaves)]


@lru_cache(64)
def _constants(
    dtype: DType, channels: int, octaves: int, shift: float, quarters: tuple[float, float]
) -> tuple[Node, Node, Node]:
    """Returns frequencies, shifts and phase offsets of all features as vectors; equal ones share a
    literal."""
    scales, shifts = _octaves(octaves, shift)

    def vector_of(numbers: list[float]) -> Node:
        literals = {v: literal(dtype, v) for v in dict.fromkeys(numbers)}
        return vector([literals[v] for v in numbers])

    return (
        vector_of([v for v in scales for _ in range(2)] * channels),
        vector_of([v for v in shifts for _ in range(2)] * channels),
        vector_of([*quarters] * (channels * octaves)),
    )


class TriEncode(Encoding):
    """Triangle waves of coordinates, a cheap replacement for sines (Müller et al., "Real-time
    Neural Radiance Caching for Path Tracing", 2021, section 3.2).

    Each of the `octaves` frequencies 1, 2, 4, ... yields two features, `1 - 4 |p - round(p)|` for p
    = phase - 1/4 and for p = phase, where `phase = 2**o * x + o * shift` in octave o. Features are
    ordered by coordinate, octave, and kind.

    Raises:
        ValueError: `octaves` is negative or not an integer.
        TypeError: `shift` is not a number.

    >>> from drjit.llvm import TensorXf
    >>> nn.TriEncode(2)(TensorXf([[0, 0.125]]))
    [[0, 0.5],
     [1, 0.5],
     [0, 1],
     [1, 0]]
    """

    quarters = (0.25, 0.0)

    def _wave(self, x: Any, scale: Any, shift: Any, quarter: Any) -> Any:
        phase = fma(x, scale, shift) - quarter
        return fma(abs(phase - round(phase)), -4, 1)


class SinEncode(Encoding):
    """Sines and cosines of coordinates (Mildenhall et al., "NeRF: Representing Scenes as Neural
    Radiance Fields for View Synthesis", 2020, section 5.1).

    Each of the `octaves` frequencies 1, 2, 4, ... yields two features, `sin(2 pi phase)` and `cos(2
    pi phase)`, where `phase = 2**o * x + o * shift` in octave o. Features are ordered by
    coordinate, octave, and kind. All octaves are accurate to a few units in the last place.

    Raises:
        ValueError: `octaves` is negative or not an integer.
        TypeError: `shift` is not a number.

    >>> from drjit.llvm import TensorXf
    >>> nn.SinEncode(1)(TensorXf([[0, 1 / 12]]))
    [[0, 0.5],
     [1, 0.866025]]
    """

    quarters = (0.0, 0.25)

    def _wave(self, x: Any, scale: Any, shift: Any, quarter: Any) -> Any:
        # Remove whole periods first, which is exact, so that the sum keeps its digits.
        phase = x * scale
        phase = (phase - round(phase)) + (shift + quarter)
        return sin((phase - round(phase)) * (2 * pi))


class HashEncodingLayer(Module):
    """A layer that maps a position to its features in a hash encoding.

    The layer refers to the encoding, whose parameters do not become part of the network: they are
    not entries of the mapping, `nn.pack` does not move them, and they must be added to the
    optimizer separately.

    Raises:
        TypeError: `encoding` is not a hash encoding.

    >>> from drjit import nn
    >>> from drjit.llvm import Float, TensorXf
    >>> enc = nn.HashGridEncoding(Float, 2, n_levels=4)
    >>> net = nn.Sequential(nn.HashEncodingLayer(enc), nn.Linear(-1, 3)).alloc(TensorXf, 2)
    >>> list(net), net.layers[1]
    (['layers.1.weights', 'layers.1.bias'], Linear(in_features=8, out_features=3))
    """

    def __init__(self, encoding: HashEncoding) -> None:
        if not isinstance(encoding, HashEncoding):
            raise TypeError(
                "drjit.nn.HashEncodingLayer(): expected a hash encoding such as "
                f"nn.HashGridEncoding(), got {type_label(encoding)}"
            )
        self.encoding = encoding

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        if size not in (-1, self.encoding.dimension):
            raise ValueError(
                f"drjit.nn.HashEncodingLayer: the encoding has dimension "
                f"{self.encoding.dimension}, but the input has {size} features"
            )
        return type(self)(self.encoding), self.encoding.n_output_features

    @overload
    def __call__(self, arg: CoopVec[Any], /) -> CoopVec[Any]: ...

    @overload
    def __call__(self, arg: Any, /) -> Any: ...

    def __call__(self, arg: Any, /) -> Any:
        """Returns the features at a position: a tensor of shape (n_output_features, N) for a tensor
        of shape (dimension, N), and otherwise a cooperative vector. The features have the type of
        the encoding's parameters.
        """
        features = self.encoding(arg)
        kind: Any = traits.tensor_t(type(features)) if traits.is_tensor_v(arg) else CoopVec
        return kind(features)

    @property
    def data(self) -> Any:
        """The parameters of the encoding."""
        return self.encoding.params

    def __repr__(self) -> str:
        return repr(self.encoding)

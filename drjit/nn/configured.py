"""Encodings and small networks described by the configurations of tiny-cuda-nn, as functions of
arrays: `Model` evaluates and differentiates one in a kernel each, which is traced once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, partial
from importlib import import_module
from itertools import islice, pairwise
from math import pi, sqrt
from typing import Any, NamedTuple

from .. import nn
from ..flow.freeze.frozen import freeze
from ..function.ad.grad import accum_grad, detach, enable_grad, grad
from ..function.ad.propagate import ADMode, propagate
from ..function.conversion import is_real
from ..function.data.create import arange, empty
from ..function.data.memory import gather, scatter
from ..function.evaluation import eval as evaluate
from ..function.inspect.traits import float32_array_t, tensor_t, uint32_array_t
from ..function.math.arithmetic import abs, clip, fma, round
from ..function.math.transcendental import exp, exp2, log2, sin, sincos
from ..function.math.transcendental import sqrt as square_root
from ..function.math.vector import sh_eval
from ..hashgrid import HashGridEncoding, Level, Vertex, div_round_up, linear, next_multiple

INITIAL = 1e-4
"""The bound of the initial parameters of grids."""


class Span(NamedTuple):
    """Parameters that are initialized uniformly between -bound and bound."""

    first: int
    end: int
    bound: float


def _end(spans: list[Span]) -> int:
    """Returns where further parameters begin."""
    return spans[-1].end if spans else 0


class Encoder(NamedTuple):
    """What makes features of the components of a position; it is given all parameters as well."""

    n_outputs: int
    encode: Callable[[list[Any], Any], list[Any]]


# ---- What is in a configuration


def _one_of(value: Any, names: Sequence[str], what: str) -> str:
    """Returns the name that a text stands for; upper and lower case are the same."""
    for name in names:
        if isinstance(value, str) and value.lower() == name.lower():
            return name
    raise ValueError(f"{what} {value!r} is not supported; there are {', '.join(names)}")


def _settings(config: dict[str, Any], defaults: dict[str, Any], what: str) -> dict[str, Any]:
    """Returns the settings of a component, those not given by default. A tuple as the default has
    the names that are possible, the first of which is the default.

    Raises:
        ValueError: there is no such setting, or its value is out of range.
        TypeError: its value is of another type.
    """
    found = {k: v[0] if isinstance(v, tuple) else v for k, v in defaults.items()}
    for key, value in config.items():
        if key in ("otype", "n_dims_to_encode"):
            continue
        if key not in defaults:
            known = ", ".join(map(repr, defaults)) or "none"
            raise ValueError(f"{what}: the setting {key!r} is not supported; there are {known}")
        default = defaults[key]
        if isinstance(default, tuple):
            value = _one_of(value, default, f"{what}: {key}")
        elif isinstance(default, int):
            value = _count(value, f"{what}: {key!r}", int(key != "n_hidden_layers"))
        elif not is_real(value):
            raise TypeError(f"{what}: {key!r} must be a number, got {value!r}")
        found[key] = value
    return found


def _count(value: Any, what: str, low: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, got {value!r}")
    if value < low:
        raise ValueError(f"{what} must be at least {low}, got {value}")
    return value


# ---- Encodings without parameters: functions of the components of a position


def _phases(position: list[Any], octaves: int) -> list[Any]:
    """Returns how many of the periods of length `2 / 2**octave` are in each component, without
    whole ones, which is exact."""
    periods = (x * 2.0 ** (octave - 1) for x in position for octave in range(octaves))
    return [p - round(p) for p in periods]


def _identity(position: list[Any], scale: float, offset: float) -> list[Any]:
    return [fma(x, scale, offset) for x in position]


def _frequency(position: list[Any], n_frequencies: int) -> list[Any]:
    phases = _phases(position, n_frequencies)
    return [wave for phase in phases for wave in sincos(2 * pi * phase)]


def _triangle_wave(position: list[Any], n_frequencies: int) -> list[Any]:
    return [1 - 4 * abs(phase) for phase in _phases(position, n_frequencies)]


def _one_blob(position: list[Any], n_bins: int) -> list[Any]:
    """Integrates the kernel `15/16 (1 - u**2)**2` of radius `1 / n_bins` around x over each bin."""
    found = []
    for x in position:
        below = []
        for k in range(n_bins + 1):
            u = clip(k - x * n_bins, -1, 1)
            square = u * u
            below.append(u * fma(square, fma(square, 3 / 16, -5 / 8), 15 / 16))
        found += [upper - lower for lower, upper in pairwise(below)]
    return found


def _spherical_harmonics(position: list[Any], degree: int) -> list[Any]:
    if len(position) != 3:
        raise ValueError(f"SphericalHarmonics: a direction has 3 components, got {len(position)}")
    direction: Any = [fma(x, 2.0, -1.0) for x in position]
    return sh_eval(direction, degree - 1)


_FUNCTIONS: dict[str, tuple[Callable[..., list[Any]], dict[str, Any]]] = {
    "Identity": (_identity, {"scale": 1.0, "offset": 0.0}),
    "Frequency": (_frequency, {"n_frequencies": 12}),
    "TriangleWave": (_triangle_wave, {"n_frequencies": 12}),
    "OneBlob": (_one_blob, {"n_bins": 16}),
    "SphericalHarmonics": (_spherical_harmonics, {"degree": 4}),
}
"""The functions, and their settings."""


# ---- Grids


class Grid(HashGridEncoding):
    """A grid whose parameters are those from `first` on in an array that has others as well."""

    def __init__(self, dtype: Any, dimension: int, first: int, settings: dict[str, Any]) -> None:
        choices = "type", "interpolation", "log2_hashmap_size"
        self._kind, self._interpolation, log2_size = map(settings.pop, choices)
        width, base = settings["n_features_per_level"], settings["base_resolution"]
        self._first = div_round_up(first, width)
        size = 1 << 31  # enough for all vertices
        if self._kind == "Hash":
            size = 1 << log2_size
        elif self._kind == "Tiled":
            size = base**dimension
        super().__init__(dtype, dimension, hashmap_size=next_multiple(size, width), **settings)

    def _draw(self, rng: Any) -> None:
        pass  # `params` come with each call

    def _made_levels(self) -> list[Level]:
        hashed = self._kind == "Hash"
        return [
            level._replace(hashed=level.hashed and hashed, offset=level.offset + self._first)
            for level in super()._made_levels()
        ]

    def _vertices(self, level: Level, cell: list[Any], fraction: list[Any]) -> Iterator[Vertex]:
        if self._interpolation == "Nearest":
            number = self.hash(cell) if level.hashed else linear(cell, self._strides(level))
            return iter([(number, type(fraction[0])(1))])
        if self._interpolation == "Smoothstep":
            fraction = [t * t * (3 - 2 * t) for t in fraction]
        return super()._vertices(level, cell, fraction)

    def encode(self, position: list[Any], params: Any) -> list[Any]:
        grid = copy(self)
        grid.data = params
        return [*grid(position)]


_GRID = {
    "type": ("Hash", "Dense", "Tiled"),
    "n_levels": 16,
    "n_features_per_level": 2,
    "log2_hashmap_size": 19,
    "base_resolution": 16,
    "per_level_scale": 2.0,
    "interpolation": ("Linear", "Nearest", "Smoothstep"),
}
_GRIDS = {"Grid": "Hash", "HashGrid": "Hash", "DenseGrid": "Dense", "TiledGrid": "Tiled"}
_OTYPES = (*_GRIDS, *_FUNCTIONS, "Composite")


def _encoder(config: Any, n_inputs: int, dtype: Any, spans: list[Span]) -> Encoder:
    """Returns the encoder of a configuration, and adds its parameters to `spans`."""
    if not isinstance(config, dict):
        raise TypeError(f"the configuration of an encoding is a dictionary, not {config!r}")
    name = _one_of(config.get("otype"), _OTYPES, "the encoding")
    if name == "Composite":
        return _composite(config, n_inputs, dtype, spans)
    if name in _FUNCTIONS:
        function, defaults = _FUNCTIONS[name]
        encode = partial(function, **_settings(config, defaults, name))
        return Encoder(len(encode([0.0] * n_inputs)), lambda position, _: encode(position))
    settings = _settings({"type": _GRIDS[name], **config}, _GRID, name)
    width = settings["n_features_per_level"]
    if width not in (1, 2, 4, 8):
        raise ValueError(f"{name}: 'n_features_per_level' must be 1, 2, 4 or 8, got {width}")
    grid = Grid(dtype, n_inputs, _end(spans), settings)
    spans.append(Span(grid._first * width, grid.n_params, INITIAL))
    return Encoder(grid.n_output_features, grid.encode)


def _composite(config: dict[str, Any], n_inputs: int, dtype: Any, spans: list[Span]) -> Encoder:
    """Returns the encoder that gives the features of several, of consecutive components each."""
    nested = config.get("nested")
    _settings({k: v for k, v in config.items() if k != "nested"}, {}, "Composite")
    if not isinstance(nested, (list, tuple)) or not nested:
        raise TypeError("Composite: 'nested' must be a list of encodings")
    counts = [c.get("n_dims_to_encode") if isinstance(c, dict) else None for c in nested]
    given = [_count(n, "Composite: 'n_dims_to_encode'") for n in counts if n is not None]
    rest = n_inputs - sum(given)
    if len(counts) - len(given) > 1 or (rest < 1 if None in counts else rest):
        raise ValueError(
            f"Composite: the encodings are for {sum(given)} components and {counts.count(None)} of "
            f"them for the rest, but there are {n_inputs} components"
        )
    counts = [rest if count is None else count for count in counts]
    pairs = [*zip(nested, counts, strict=True)]
    parts = [_encoder(inner, count, dtype, spans) for inner, count in pairs]

    def encode(position: list[Any], params: Any) -> list[Any]:
        left = iter(position)
        pairs = [(part, [*islice(left, n)]) for part, n in zip(parts, counts, strict=True)]
        return [f for part, components in pairs for f in part.encode(components, params)]

    return Encoder(sum(part.n_outputs for part in parts), encode)


# ---- Networks


def _squareplus(v: Any) -> Any:
    if v.type._dtype.name == "float16":  # whose squares overflow soon
        return nn.cast(_squareplus(nn.cast(v, float32_array_t(v.type))), v.type)
    return 0.5 * (v + square_root(fma(v, v, 0.04)))


def _softplus(v: Any) -> Any:
    size = abs(v)
    tail = log2(1 + exp2(size * (-10 / _LOG_TWO)))
    return fma(tail, _LOG_TWO / 10, 0.5 * (v + size))


_LOG_TWO = 0.6931471805599453
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "ReLU": nn.ReLU(),
    "None": lambda v: v,
    "LeakyReLU": nn.LeakyReLU(0.01),
    "Exponential": exp,
    "Sine": sin,
    "Sigmoid": nn.Sigmoid(),
    "Squareplus": _squareplus,
    "Softplus": _softplus,
    "Tanh": nn.Tanh(),
}
_NONE = ("None", *[name for name in _ACTIVATIONS if name != "None"])
_NETWORK = {
    "activation": tuple(_ACTIVATIONS),
    "output_activation": _NONE,
    "n_neurons": 128,
    "n_hidden_layers": 5,
}


class _Network:
    """Matrices in an array of parameters, each followed by an activation; adds these parameters to
    `spans`."""

    def __init__(self, config: Any, n_inputs: int, n_outputs: int, spans: list[Span]) -> None:
        if not isinstance(config, dict):
            raise TypeError(f"the configuration of a network is a dictionary, not {config!r}")
        name = _one_of(config.get("otype"), ("FullyFusedMLP", "CutlassMLP"), "the network")
        settings = _settings(config, _NETWORK, name)
        sizes = [n_inputs, *[settings["n_neurons"]] * settings["n_hidden_layers"], n_outputs]
        self.shapes = [*zip(sizes[1:], sizes[:-1], strict=True)]
        self.activations = [_ACTIVATIONS[settings["activation"]]] * (len(self.shapes) - 1)
        self.activations.append(_ACTIVATIONS[settings["output_activation"]])
        for rows, columns in self.shapes:  # initialized as by Glorot and Bengio, 2010
            first, bound = _end(spans), sqrt(6 / (rows + columns))
            spans.append(Span(first, first + rows * columns, bound))
        self.spans = spans[-len(self.shapes) :]

    def matrices(self, params: Any, dtype: Any) -> list[nn.MatrixView]:
        """Returns views of the matrices, of the given type. They are read from memory, so entries
        of another type are converted by a kernel of their own."""
        shift = 0
        if type(params) is not dtype:
            shift = self.spans[0].first
            where = arange(uint32_array_t(type(params)), self.spans[-1].end - shift)
            params = dtype(gather(type(params), params, where + shift))
            evaluate(params)
        whole = nn.MatrixView().changed(buffer=params, dtype=params._dtype.var_type)
        return [
            whole.changed(shape=shape, stride=shape[1], offset=first - shift, size=end - first)
            for (first, end, _), shape in zip(self.spans, self.shapes, strict=True)
        ]

    def outputs(self, features: list[Any], matrices: list[nn.MatrixView], dtype: Any) -> list[Any]:
        v: Any = nn.cast(nn.CoopVec(*features), dtype)
        for matrix, activation in zip(matrices, self.activations, strict=True):
            v = activation(matrix @ v)
        return [*v]


# ---- Both


def described(n_inputs: int, n_outputs: int | None, encoding: Any, network: Any, dtype: str) -> str:
    """Returns a text that stands for a model: what `model` takes."""
    _count(n_inputs, "'n_input_dims'")
    if network is not None:
        _count(n_outputs, "'n_output_dims'")
    return json.dumps([n_inputs, n_outputs, encoding, network, dtype], default=_plain)


def _plain(value: Any) -> Any:
    """Returns what stands for a value of a configuration in its description."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "item"):  # a number of NumPy, say
        return value.item()
    raise TypeError(f"a configuration has numbers, texts, lists and dictionaries, not {value!r}")


@cache
def model(description: str, backend: str, params: str) -> "Model":
    """Returns the model of a description for arrays of a backend (`llvm` or `cuda`), with
    parameters of a type such as `float32`."""
    n_inputs, n_outputs, encoding, network, dtype = json.loads(description)
    ad = import_module(f"drjit.{backend}.ad")
    return Model(n_inputs, n_outputs, encoding, network, dtype, ad, params)


_SUFFIXES = {"float16": "16", "float32": "", "float64": "64"}


class Model:
    """An encoding, a network, or both in one.

    Positions are in double precision if that is the type of the model, otherwise in single
    precision; so are features. The matrices and activations of a network are of the type of the
    model. Parameters of any type are converted.
    """

    def __init__(
        self, n_inputs: int, n_outputs: int | None, encoding: Any, network: Any, dtype: str,
        ad: Any, params: str,
    ) -> None:  # fmt: skip
        self.dtype = dtype  # of the results
        suffix, wide = _SUFFIXES[dtype], "64" if dtype == "float64" else ""
        features, activations = getattr(ad, f"Float{wide}"), getattr(ad, f"Float{suffix}")
        self.params = getattr(ad, f"Float{_SUFFIXES[params]}")
        self.position, self.result = (getattr(ad, f"TensorXf{s}") for s in (wide, suffix))
        self.spans: list[Span] = []
        encoder = Encoder(n_inputs, lambda position, _: position)
        if encoding is not None:
            encoder = _encoder(encoding, n_inputs, self.params, self.spans)
        self.n_outputs = encoder.n_outputs
        layers: Any = None
        if network is not None:
            self.n_outputs = n_outputs or 0
            layers = _Network(network, encoder.n_outputs, self.n_outputs, self.spans)
        # Entries of grids are read several at a time, which takes a multiple of their number.
        self.n_params = next_multiple(_end(self.spans), 8)

        def outputs(position: list[Any], params: Any) -> list[Any]:
            # Matrices first: their derivatives are then last, and need the sums of the kernel that
            # also computes those of grids.
            matrices = layers and layers.matrices(params, activations)
            found = [features(f) for f in encoder.encode(position, params)]
            return layers.outputs(found, matrices, activations) if layers else found

        rows = getattr(ad, f"ArrayXf{suffix}")
        self.forward, self.backward = _frozen(outputs, getattr(ad, f"ArrayXf{wide}"), rows)


def _frozen(
    outputs: Callable[..., list[Any]], columns: Any, rows: Any
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns the functions that compute outputs and gradients. `columns` and `rows` are the
    classes of positions and of outputs; both are in memory position by position."""
    unsigned = uint32_array_t(columns.Value)

    def read(cls: Any, tensor: Any) -> Any:
        n, count = tensor.shape
        return gather(cls, tensor.array, arange(unsigned, n), shape=(count, n))

    def written(values: Any, n: Any) -> Any:
        shape = n, len(values)
        result = empty(type(values).Value, shape[1] * n)
        scatter(result, values, arange(unsigned, n))
        return tensor_t(type(values))(result, shape)

    @freeze
    def forward(x: Any, params: Any) -> Any:
        return written(rows(outputs([*read(columns, x)], params)), x.shape[0])

    @freeze
    def backward(gradient: Any, x: Any, params: Any, of_x: bool, of_params: bool) -> Any:
        position, params = [*read(columns, x)], detach(params)
        enable_grad(position if of_x else None, params if of_params else None)
        y = rows(outputs(position, params))
        accum_grad(y, read(rows, gradient))
        propagate(ADMode.Backward, y)
        of_position = written(columns(grad(position)), x.shape[0]) if of_x else None
        return of_position, grad(params) if of_params else None

    return forward, backward

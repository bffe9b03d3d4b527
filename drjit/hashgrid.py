"""Multiresolution hash encodings: trainable features at the vertices of grids of increasing
resolution, looked up and interpolated at positions of any dimension.

`HashEncoding` has the levels and their feature tables, the parameters, and the weighted sum over
the vertices around a position, which its subclasses define.
"""

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

from .ad import packet_rules
from .array import leaf, leaf_access, signatures, table
from .array.base import ArrayBase, type_label
from .array.meta import DYNAMIC
from .array.precomputed import converted
from .function.ad.grad import detach, grad_enabled, replace_grad
from .function.conversion import assemble, integer, is_array_class, is_real, mask_leaf
from .function.evaluation import eval as evaluate
from .function.inspect.traits import is_integral_v, leaf_t
from .function.math.arithmetic import floor, fma, select
from .function.math.transcendental import cos
from .jit import log
from .jit.cpu.runtime import thread_count
from .jit.ir import dtype as dt
from .jit.ir.op import ReduceMode
from .jit.lazy import np
from .jit.trace.access import Access
from .jit.tuples import NamedTuple
from .random import Generator
from .random import rng as make_rng

__all__ = [
    "HashEncoding", "HashGridEncoding", "PermutoEncoding", "cosine_ramp", "div_round_up",
    "next_multiple",
]  # fmt: skip


def div_round_up(num: int, divisor: int) -> int:
    """Returns the quotient of two integers, rounded up.

    >>> dr.hashgrid.div_round_up(9, 8)
    2
    """
    return -(-num // divisor)


def next_multiple(num: int, multiple: int) -> int:
    """Returns the smallest multiple of `multiple` that is at least `num`.

    >>> dr.hashgrid.next_multiple(9, 8)
    16
    """
    return div_round_up(num, multiple) * multiple


# Resolutions use exp2 and log2 of the Cephes library (S. L. Moshier, 1989), which round the same
# way on every machine. Where a resolution is an integer, the last bit decides whether a table has
# one more row, and hence how parameters stored in files are interpreted.
_EXP_P = (1.51390680115615096133e3, 2.02020656693165307700e1, 2.30933477057345225087e-2)
_EXP_Q = (4.36821166879210612817e3, 2.33184211722314911771e2, 1.0)
_LOG_P = (
    7.70838733755885391666e0, 1.79368678507819816313e1, 1.44989225341610930846e1,
    4.70579119878881725854e0, 4.97494994976747001425e-1, 1.01875663804580931796e-4,
)  # fmt: skip
_LOG_Q = (
    2.31251620126765340583e1, 7.11544750618563894466e1, 8.29875266912776603211e1,
    4.52279145837532221105e1, 1.12873587189167450590e1, 1.0,
)  # fmt: skip


def exp2(x: float) -> float:
    """Returns `2**x`, using a rational function of the distance to the nearest integer."""
    whole = math.floor(x + 0.5)
    x -= whole
    p, q = x * _polynomial(x * x, _EXP_P), _polynomial(x * x, _EXP_Q)
    return math.ldexp(1.0 + 2.0 * (p / (q - p)), whole)


def log2(x: float) -> float:
    """Returns the base-2 logarithm of a positive number, using a rational function of x - 1 for x
    between sqrt(1/2) and sqrt(2)."""
    x, exponent = math.frexp(x)
    if x < math.sqrt(0.5):
        x, exponent = 2 * x, exponent - 1
    x -= 1
    tail = x * x * x * (_polynomial(x, _LOG_P) / _polynomial(x, _LOG_Q))
    return _fma(x + _fma(x * x, -0.5, tail), 1 / math.log(2), exponent)


def _polynomial(x: float, coefficients: Sequence[float]) -> float:
    """Evaluates a polynomial, with the constant coefficient first, by Estrin's scheme."""
    while len(coefficients) > 1:
        pairs = zip_longest(coefficients[::2], coefficients[1::2], fillvalue=0.0)
        coefficients = [_fma(b, x, a) for a, b in pairs]
        x *= x
    return coefficients[0]


def _fma(a: float, b: float, c: float) -> float:
    """Returns `a * b + c`, rounded once, as the quotient of two integers is."""
    (p, s), (q, t), (r, u) = (float(v).as_integer_ratio() for v in (a, b, c))
    return (p * q * u + r * s * t) / (s * t * u)


class Level(NamedTuple):
    """A level. A position times `scale` (plus an offset) counts cells along each dimension. The
    table has `size` entries, starting at `offset`; it is `hashed` if it is too small for all
    vertices.
    """

    scale: float
    resolution: int
    hashed: bool
    offset: int
    size: int


if TYPE_CHECKING:
    from .array.kinds import Active, Convertible

# Upper bound on the memory, in bytes, for the private gradient copies of all threads together.
_COPIES = 1 << 28

# A vertex: its entry number in the level's table, before wrapping, and its weight.
Vertex = tuple[Any, Any]


@signatures.elementary
def cosine_ramp(x: Any) -> Any:
    """Returns a smooth ramp from 0 at `x = 0` to 1 at `x = 1`: `(1 - cos(pi x)) / 2`.

    >>> from drjit.llvm import Float
    >>> dr.hashgrid.cosine_ramp(Float(0, 0.25, 1))
    [0, 0.146447, 1]
    """
    return 0.5 - 0.5 * cos(math.pi * x)


def _setting(name: str, doc: str) -> Any:
    """Creates a read-only property for a constructor argument."""
    return property(operator.attrgetter(f"_{name}"), doc=doc)


class HashEncoding:
    """The base class of `HashGridEncoding` and `PermutoEncoding`.

    Level `l` has a resolution of about `base_resolution * per_level_scale**l` vertices along each
    dimension, with `n_features_per_level` parameters each. A level with more than `hashmap_size`
    vertices shares that many table entries among them. The parameters have the floating point type
    `dtype`. They are initialized with uniform numbers in [-init_scale, init_scale), drawn from
    `rng` or from `dr.rng()`.

    Positions should lie in [0, 1]; beyond that range, entries repeat. With `align_corners`, the
    outermost vertices lie at 0 and 1, and otherwise half a cell further out; `torchngp_compat` of a
    `HashGridEncoding` disables it. With `smooth_weight_gradients`, each weight `w` is
    differentiated as if it were `w + smooth_weight_lambda * cosine_ramp(w)`; its value does not
    change.

    Raises:
        TypeError: `dtype` is not a floating-point array type, or a count is not an integer.
        ValueError: a size is not positive, `hashmap_size` is not a multiple of
            `n_features_per_level`, or the tables are too large to be indexed.
    """

    DRJIT_STRUCT: ClassVar[dict] = {"data": ArrayBase}

    data: Any
    _name: ClassVar[str] = "HashEncoding"
    _repr_fields: ClassVar[tuple[str, ...]] = (
        "dtype", "dimension", "hashmap_size", "n_levels", "n_features_per_level",
        "base_resolution", "per_level_scale", "align_corners", "torchngp_compat",
        "smooth_weight_gradients", "smooth_weight_lambda",
    )  # fmt: skip

    def __init__(
        self,
        dtype: type[ArrayBase],
        dimension: int,
        *,
        n_levels: int = 16,
        n_features_per_level: int = 2,
        hashmap_size: int = 524288,
        base_resolution: int = 16,
        per_level_scale: float = 2,
        align_corners: bool = False,
        torchngp_compat: bool = False,
        smooth_weight_gradients: bool = False,
        smooth_weight_lambda: float = 1.0,
        init_scale: float = 0.0001,
        rng: Any = None,
    ) -> None:
        self._dtype = self._parameter_class(dtype)
        self._dimension = self._count("dimension", dimension)
        self._n_levels = self._count("n_levels", n_levels)
        self._n_features_per_level = self._count("n_features_per_level", n_features_per_level)
        if self._n_features_per_level % 2:
            log.warn(
                f"{self._what()}: The number of features per level should be a multiple of 2, but "
                f"it was {n_features_per_level}. Two of them are read together."
            )
        self._hashmap_size = self._count("hashmap_size", hashmap_size)
        self._base_resolution = self._count("base_resolution", base_resolution)
        self._per_level_scale = self._scale(per_level_scale)
        if rng is not None and not isinstance(rng, Generator):
            raise TypeError(
                f"{self._what()}: 'rng' must be a generator as dr.rng() makes one, not {rng!r}"
            )
        if self._hashmap_size % self._n_features_per_level:
            raise self._invalid(
                "hashmap_size",
                hashmap_size,
                f"must be a multiple of n_features_per_level={n_features_per_level}, such as "
                f"{next_multiple(hashmap_size, n_features_per_level)}",
            )
        self._align_corners = align_corners
        self._torchngp_compat = torchngp_compat
        self._smooth_weight_gradients = smooth_weight_gradients
        self._smooth_weight_lambda = smooth_weight_lambda
        self._init_scale = init_scale
        self._levels = self._made_levels()
        last = self._levels[-1]
        self._n_entries = last.offset + last.size
        if self.n_params >= 1 << 31:
            raise ValueError(
                f"{self._what()}: {self.n_params} parameters are too many, the limit is 2**31 - 1"
            )
        self._draw(rng)

    def _draw(self, rng: Any) -> None:
        """Initializes the parameters."""
        random = (make_rng() if rng is None else rng).random(self._dtype, self.n_params)
        self.data = random * (2 * self._init_scale)
        # One kernel per operation: within a single kernel the two could be contracted to a fused
        # multiply-add, which would change the numbers.
        evaluate(self.data)
        self.data -= self._init_scale
        evaluate(self.data)

    def _parameter_class(self, dtype: Any) -> Any:
        cls = leaf_t(dtype) if is_array_class(dtype) else None
        if cls is None or not cls.__meta__.is_jit or not cls._dtype.is_float:
            raise TypeError(
                f"{self._what()}: 'dtype' must be a floating point array type of a JIT "
                f"backend, such as drjit.llvm.ad.Float16, not {dtype!r}"
            )
        return cls

    def _count(self, name: str, value: Any) -> int:
        value = integer(value, f"{self._what()}: {name!r} must be an integer, not")
        if value < 1:
            raise self._invalid(name, value, "must be positive")
        return value

    def _scale(self, value: float) -> float:
        if not is_real(value):
            raise TypeError(f"{self._what()}: 'per_level_scale' must be a number, not {value!r}")
        if not 0 < value < math.inf:
            raise self._invalid("per_level_scale", value, "must be positive and finite")
        return value

    def _what(self, method: str = "") -> str:
        """Returns the name of what the user called, for messages."""
        return f"{type(self).__name__}{'.' * bool(method)}{method}()"

    def _invalid(self, name: str, value: Any, why: str) -> ValueError:
        return ValueError(f"{self._what()}: {name}={value} {why}")

    def _made_levels(self) -> list[Level]:
        """Returns the levels, with consecutive tables. The number of entries of a table is a
        multiple of the number of features.

        Raises:
            ValueError: a resolution is too large.
        """
        found: list[Level] = []
        offset, log_scale = 0, log2(self._per_level_scale)
        for number in range(self._n_levels):
            if math.log2(self._base_resolution) + number * log_scale >= 31:
                raise ValueError(
                    f"{self._what()}: per_level_scale={self._per_level_scale} makes level {number} "
                    "too fine, resolutions must be below 2**31"
                )
            scale = self._base_resolution * exp2(number * log_scale) - 1
            resolution = math.ceil(scale) + 1
            vertices = resolution**self._dimension
            size = next_multiple(min(vertices, self._hashmap_size), self._n_features_per_level)
            hashed = vertices > self._hashmap_size
            found.append(Level(scale, resolution, hashed, offset, size))
            offset += size
        return found

    # Parameters

    @property
    def n_params(self) -> int:
        """The number of parameters of all levels."""
        return self._n_entries * self._n_features_per_level

    @property
    def params(self) -> Any:
        """The parameters, ordered by level and then by entry. Assigning an array replaces them like
        `set_params`; `params[:] = array` writes to the existing array.
        """
        return self.data

    @params.setter
    def params(self, values: Any) -> None:
        self.set_params(values)

    def set_params(self, values: "Convertible") -> None:
        """Replaces the parameters. Arrays of other floating point types are converted.

        Raises:
            TypeError: `values` is not a one-dimensional floating-point array.
            RuntimeError: the number of entries is wrong.
        """
        what = self._what("set_params")
        flat = flattened(values)
        fits = isinstance(flat, ArrayBase) and flat._kind == "leaf" and flat._dtype.is_float
        if not fits or flat.__meta__.backend != self._dtype.__meta__.backend:
            raise TypeError(
                f"{what}: expected an array of type {type_label(self._dtype)}, got "
                f"{type_label(values)}"
            )
        if len(flat) != self.n_params:
            raise RuntimeError(
                f"{what}: the encoding has {self.n_params} parameters, got {len(flat)}"
            )
        self.data = converted(self._dtype, flat)

    # Settings

    dtype = _setting("dtype", "The array type of the parameters and of the resulting features.")
    dimension = _setting("dimension", "The number of components of a position.")
    hashmap_size = _setting("hashmap_size", "The maximum number of entries in a level's table.")
    n_levels = _setting("n_levels", "The number of levels.")
    base_resolution = _setting(
        "base_resolution", "The number of vertices along each dimension of the coarsest level."
    )
    per_level_scale = _setting(
        "per_level_scale", "The ratio between the resolutions of successive levels."
    )
    n_features_per_level = _setting(
        "n_features_per_level", "The number of features that each level contributes."
    )
    align_corners = _setting("align_corners", "Whether the outermost vertices lie at 0 and 1.")
    torchngp_compat = _setting(
        "torchngp_compat",
        "Whether positions of a `HashGridEncoding` are scaled as in torch-ngp, regardless of "
        "`align_corners`.",
    )
    smooth_weight_gradients = _setting(
        "smooth_weight_gradients", "Whether the derivatives of weights are those of a smooth ramp."
    )
    smooth_weight_lambda = _setting(
        "smooth_weight_lambda", "The share of the smooth ramp in the derivatives of weights."
    )
    init_scale = _setting("init_scale", "The bound of the initial parameters.")

    @property
    def n_output_features(self) -> int:
        """The total number of features of all levels."""
        return self._n_levels * self._n_features_per_level

    def __repr__(self) -> str:
        lines = ",\n".join(f"    {name}={getattr(self, name)}" for name in self._repr_fields)
        return f"{self._name}(\n{lines}\n)"

    # Vertices

    def level_offset(self, level_i: int) -> int:
        """Returns the number of table entries before the given level; for `level_i = n_levels`, the
        total number of entries.

        Raises:
            IndexError: there is no such level.
        """
        if level_i == self._n_levels:
            return self._n_entries
        return self._level(level_i, "level_offset").offset

    def _level(self, number: int, method: str) -> Level:
        if not 0 <= number < self._n_levels:
            raise IndexError(
                f"{self._what(method)}: there is no level {number}, they are numbered "
                f"from 0 to {self._n_levels - 1}"
            )
        return self._levels[number]

    def hash(self, key: Iterable[Any]) -> Any:
        """Returns the hash of integer coordinates as 32-bit unsigned integers.

        Raises:
            NotImplementedError: this is the base class.
        """
        raise NotImplementedError("HashEncoding.hash(): a subclass has to implement this method")

    def indexing_function(self, key: Iterable[Any], level_i: int) -> Any:
        """Returns the number of the table entry, counted from the first level's first entry, for
        the vertex of level `level_i` with integer coordinates `key`.

        Raises:
            IndexError: there is no such level.
            RuntimeError: the number of coordinates differs from the number of dimensions.
        """
        level = self._level(level_i, "indexing_function")
        coordinates = self._coordinates(key, "indexing_function")
        if level.hashed:
            return self._entry(self.hash(coordinates), level)
        return self._entry(linear(coordinates, self._strides(level)), level)

    def _strides(self, level: Level) -> list[int]:
        """Returns the factor of each coordinate in the entry number of a level that is not
        hashed."""
        return [level.resolution**i & 0xFFFFFFFF for i in range(self._dimension)]

    @staticmethod
    def _entry(number: Any, level: Level) -> Any:
        return number % level.size + level.offset

    def _coordinates(self, key: Any, method: str) -> list[Any]:
        """Returns coordinates as a list of 32-bit unsigned arrays."""
        unsigned = table.related(self._dtype, dtype=dt.u32)
        parts = list(key)
        self._check_dimension(len(parts), method)
        for k in parts:
            if not is_integral_v(k):
                raise TypeError(
                    f"{self._what(method)}: coordinates must be integers, got {type_label(k)}"
                )
        # Negative coordinates wrap.
        return [unsigned(k & 0xFFFFFFFF if isinstance(k, int) else k) for k in parts]

    def _check_dimension(self, count: int, method: str) -> None:
        if count != self._dimension:
            raise RuntimeError(
                f"{self._what(method)}: got {count} component{'s' * (count != 1)}, but "
                f"the encoding has dimension {self._dimension}"
            )

    def _vertices(self, level: Level, cell: list[Any], fraction: list[Any]) -> Iterator[Vertex]:
        """Yields the vertices around a position, given by its cell and the offset within the
        cell."""
        raise NotImplementedError

    # Evaluation

    def _aligned(self) -> bool:
        return self._align_corners

    def __call__(self, p: Iterable[Any], active: "Active" = True) -> Any:
        """Returns the features at a position, which is a sequence of `dimension` arrays or numbers.
        The result is an array with `n_output_features` components, ordered by level, of the
        parameters' type. Lanes in which `active` is false have features 0.

        Weights and sums are computed in single precision, or in double precision if the position or
        the parameters are, and rounded once.

        Raises:
            RuntimeError: the number of components differs from the number of dimensions.
            TypeError: a component is not a number or array of numbers, or the mask is not a mask.
        """
        what = self._what()
        position = self._position(p)
        number = type(position[0])
        data = self.data
        if number._diff and not data._diff:
            data = table.related(type(data), namespace=number._namespace)(data)
        mask = mask_leaf(active, number, what[:-2])
        found: list[Any] = []
        for level in self._levels:
            found += self._features(level, position, data, mask, what)
        storage = type(data)
        features = [f if number is storage else leaf.cast(storage, f) for f in found]
        vector = table.find(storage._namespace, "vector", storage._dtype, (DYNAMIC,))
        return assemble(vector, features, (len(features),))

    def _position(self, p: Any) -> list[Any]:
        """Returns the components of a position in the type used for computations."""
        if isinstance(p, ArrayBase) and p.ndim == 1 and p.__meta__.is_jit:
            parts = [p]
        elif hasattr(p, "__iter__"):
            parts = list(p)
        else:
            raise TypeError(
                f"{self._what('__call__')}: a position is a sequence of arrays or numbers, "
                f"got {type_label(p)}"
            )
        self._check_dimension(len(parts), "__call__")
        for i, q in enumerate(parts):
            if isinstance(q, (ArrayBase, np.ndarray)) and q.ndim > 1:
                raise TypeError(
                    f"{self._what('__call__')}: component {i} of the position, of type "
                    f"{type_label(q)}, has {q.ndim} dimensions; it must be a number or have one"
                )
        parts = [flattened(q) for q in parts]
        arrays = [q for q in parts if isinstance(q, ArrayBase)]
        double = any(q._dtype is dt.f64 for q in (self.data, *arrays))
        namespace = next((q._namespace for q in arrays if q._diff), self._dtype._namespace)
        number = table.find(namespace, "leaf", dt.f64 if double else dt.f32)
        return [q if type(q) is number else number(q) for q in parts]

    def _features(
        self, level: Level, position: list[Any], data: Any, mask: Any, what: str
    ) -> Sequence[Any]:
        """Returns the features of one level."""
        aligned = self._aligned()
        scale, number, count = level.scale, type(position[0]), self._n_features_per_level
        signed, unsigned = table.related(number, dtype=dt.i32), table.related(number, dtype=dt.u32)
        cell, fraction = [], []
        for x in position:
            q = x * scale if aligned else fma(x, scale, 0.5)
            lower = floor(detach(q))
            cell.append(leaf.cast(unsigned, leaf.cast(signed, lower)))
            fraction.append(q - lower)
        # Gradients are accumulated in private copies, because each position contributes to many
        # entries, unless the copies would take too much memory.
        copies = 4 * self.n_params * thread_count()
        mode = ReduceMode.Expand if copies <= _COPIES else ReduceMode.Auto

        def at(vertex: Any) -> Access:
            # The remainder keeps entries inside of the table.
            index = self._entry(vertex, level)
            return Access(index._node, mask._node, what, count, True, mode)

        vertices = [*self._vertices(level, cell, fraction)]
        if all(w._var is None for _, w in vertices):
            places = ((at(vertex), weight._node) for vertex, weight in vertices)
            found = packet_rules.weighted_sum(leaf.value(data), number._dtype, places)
            if found is not None:
                return [leaf.from_value(number, v) for v in found]
        sums: list[Any] = []
        for vertex, weight in vertices:
            if self._smooth_weight_gradients and grad_enabled(weight):
                ramp = cosine_ramp(weight) * self._smooth_weight_lambda
                weight = replace_grad(weight, weight + ramp)
            values = leaf_access.gather_packet(data, at(vertex))
            values = [v if type(v) is number else leaf.cast(number, v) for v in values]
            pairs = zip(values, sums, strict=True)
            sums = [fma(weight, v, s) for v, s in pairs] if sums else [weight * v for v in values]
        return sums


def flattened(value: Any) -> Any:
    """Returns the array underlying a tensor; anything else is returned unchanged."""
    return value._array if isinstance(value, ArrayBase) and value._kind == "tensor" else value


def linear(coordinates: list[Any], factors: list[int]) -> Any:
    """Returns the sum of products modulo 2**32."""
    return reduce(operator.add, map(operator.mul, coordinates, factors))


# Vertices: the corners of grid cells, as in Instant NGP, and the corners of simplices, which have
# one more corner than there are dimensions.

# One factor per dimension (T. Müller et al., 2022, equation 4; further primes for more than 3
# dimensions).
_PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)


class HashGridEncoding(HashEncoding):
    """Features on a hierarchy of grids, stored in hash tables and interpolated linearly along each
    dimension (T. Müller, A. Evans, C. Schied, and A. Keller, "Instant neural graphics primitives
    with a multiresolution hash encoding", 2022). A look-up reads `2**dimension` entries per level.

    See `HashEncoding` for the arguments. Hashed levels support up to 7 dimensions; the constructor
    raises a ValueError if there are more.

    >>> from drjit.llvm import Array2f, Float
    >>> enc = HashGridEncoding(Float, 2, n_levels=1, base_resolution=4)
    >>> enc.params = dr.arange(Float, 32)
    >>> enc(Array2f([0, 0.5], 0.5))
    [[17, 18],
     [20, 21]]
    """

    _name = "HashGrid"

    def _made_levels(self) -> list[Level]:
        levels = super()._made_levels()
        if self._dimension > len(_PRIMES) and any(level.hashed for level in levels):
            raise ValueError(
                f"{self._what()}: with dimension={self._dimension} no level can be "
                f"hashed, only up to {len(_PRIMES)} dimensions can. Use PermutoEncoding, or a "
                "larger hashmap_size or fewer or coarser levels."
            )
        return levels

    def _aligned(self) -> bool:
        return self._align_corners and not self._torchngp_compat

    def hash(self, key: Iterable[Any]) -> Any:
        """Returns the hash of integer coordinates: each is multiplied by a large prime, and the
        products are combined by xor.

        Raises:
            IndexError: there are more than 7 coordinates.
        """
        parts = self._coordinates(key, "hash")
        if len(parts) > len(_PRIMES):
            raise IndexError(
                f"{self._what('hash')}: defined for up to {len(_PRIMES)} coordinates, got "
                f"{len(parts)}"
            )
        return reduce(operator.xor, map(operator.mul, parts, _PRIMES))

    def _vertices(self, level: Level, cell: list[Any], fraction: list[Any]) -> Iterator[Vertex]:
        factors = _PRIMES if level.hashed else self._strides(level)
        combine = operator.xor if level.hashed else operator.add
        numbers, weights = [], []
        for x, t, factor in zip(cell, fraction, factors, strict=False):
            lower = x * factor
            ends = lower, lower + factor
            shares = 1.0 - t, t
            if not numbers:
                numbers, weights = list(ends), list(shares)
                continue
            numbers = [combine(n, end) for end in ends for n in numbers]
            weights = [w * share for share in shares for w in weights]
        return zip(numbers, weights, strict=True)


_FACTOR = 2531011


class PermutoEncoding(HashEncoding):
    """Features on a hierarchy of grids, stored in hash tables. Each grid cell is divided into
    simplices, within which features are interpolated linearly, so a look-up reads only `dimension +
    1` entries per level (R. A. Rosu and S. Behnke, "PermutoSDF: Fast multi-view reconstruction with
    implicit surfaces using permutohedral lattices", 2023).

    To reach the simplex that contains a position, start at the cell's lower corner and step along
    the dimensions in descending order of the position's fractional parts (H. W. Kuhn, "Some
    combinatorial lemmas in topology", 1960). See `HashEncoding` for the arguments.

    >>> from drjit.llvm import Array2f, Float
    >>> enc = PermutoEncoding(Float, 2, n_levels=1, base_resolution=4)
    >>> enc.params = dr.arange(Float, 32)
    >>> enc(Array2f([0, 0.5], 0.5))
    [[17, 18],
     [20, 21]]
    """

    _name = "PermutoEncoding"
    _repr_fields = tuple(name for name in HashEncoding._repr_fields if name != "torchngp_compat")

    def hash(self, key: Iterable[Any]) -> Any:
        """Returns the hash of integer coordinates: the value of the polynomial with these
        coefficients."""
        return linear(self._coordinates(key, "hash"), self._powers())

    def _powers(self) -> list[int]:
        """Returns the factor of each coordinate in the hash."""
        return [pow(_FACTOR, self._dimension - i, 1 << 32) for i in range(self._dimension)]

    def _vertices(self, level: Level, cell: list[Any], fraction: list[Any]) -> Iterator[Vertex]:
        # Entry numbers are linear in the coordinates, hashed or not: a step along a dimension adds
        # that dimension's factor. Therefore the factors are sorted along with the fractional parts.
        factors = self._powers() if level.hashed else self._strides(level)
        number = linear(cell, factors)
        size = number._node.size
        steps: list[Any] = [leaf.literal(type(number), f, size) for f in factors]
        t = list(fraction)
        for end in range(len(t) - 1, 0, -1):
            for i in range(end):
                ordered = t[i] >= t[i + 1]
                t[i], t[i + 1] = select(ordered, t[i], t[i + 1]), select(ordered, t[i + 1], t[i])
                a, b = steps[i], steps[i + 1]
                steps[i], steps[i + 1] = select(ordered, a, b), select(ordered, b, a)
        yield number, 1.0 - t[0]
        for i, step in enumerate(steps):
            number = number + step
            yield number, t[i] - t[i + 1] if i + 1 < len(t) else t[i]

"""Random arrays and tensors of any type and shape: `Generator` and the function `rng`.

The stream of a seed is fixed. Call number `c` of a generator (counting from 0) uses for entry `i`
the Philox4x32 block with the counter (c, i, 0, 0), 7 rounds, and the seed as key. An entry of a
tensor or one-dimensional array is the last number of its block. The components of entry `i` of a
nested array are the numbers of its block from last to first; if a block has too few numbers, the
generator consumes further calls.
"""

import functools
import operator
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from ..array import leaf, table
from ..array.base import ArrayBase, type_label
from ..array.meta import DYNAMIC
from ..array.pytree import leaf_arrays
from ..function import conversion
from ..function.data.create import arange, shape_mismatch
from ..function.data.memory import gather
from ..function.data.reduce import any as any_of
from ..function.data.sorting import argsort
from ..function.evaluation import copy
from ..function.evaluation import eval as evaluate
from ..function.kernel_loop import kernel_loop
from ..function.math import arithmetic
from ..jit import flags
from ..jit.ir import dtype as dt
from ..jit.ir.node import Node
from ..jit.ir.scope import innermost, stack
from ..jit.run import launch
from ..jit.run.freeze import active as active_recorder
from ..jit.trace.template import Template, is_repeatable
from .philox import block, normals, units
from .words import Words, data, state_word, words

if TYPE_CHECKING:
    from ..array.kinds import HasMask, Sizes, ToUInt

T = TypeVar("T", bound=Any)
Numbers = TypeVar("Numbers")
ArrayT = TypeVar("ArrayT", bound=ArrayBase)

_ROUNDS = 7


class Generator:
    """The interface of random number generators; `dr.rng` creates one."""

    __module__ = "drjit.random"

    def random(self, dtype: type[T], shape: "Sizes") -> T:
        """Returns uniform numbers in [0, 1) as an array or tensor of a floating point type.
        Half-precision numbers are rounded from single precision, so 1 can occur.

        `shape` is the shape of the result. For nested arrays, lanes come last, as in (3, n) for
        `Array3f`.

        Raises:
            RuntimeError: `dtype` is not a floating point type, or does not match `shape`.
            TypeError: `shape` is not a tuple of non-negative integers.

        >>> from drjit.llvm import Float
        >>> dr.rng(seed=5).random(Float, 3)
        [0.0853155, 0.94187, 0.835392]
        """
        target = _Target(dtype, shape, "random")
        return target.build(self._draw(target, units))

    def uniform(
        self,
        dtype: type[T],
        shape: "Sizes",
        low: float | ArrayBase = 0.0,
        high: float | ArrayBase = 1.0,
    ) -> T:
        """Returns uniform numbers in [low, high); see `random`.

        >>> from drjit.llvm import Float
        >>> dr.rng(seed=5).uniform(Float, 3, 2, 4)
        [2.17063, 3.88374, 3.67078]
        """
        return self.random(dtype, shape) * (high - low) + low

    def integers(
        self,
        dtype: type[T],
        shape: "Sizes",
        low: float | ArrayBase = 0,
        high: float | ArrayBase | None = None,
        endpoint: bool = False,
    ) -> T:
        """Returns uniform 32-bit integers in [low, high), in [low, high] with `endpoint`, or in [0,
        low) if `high` is None.

        The method has no bias: D. Lemire, "Fast random integer generation in an interval", 2019.
        The bounds are numbers or arrays that broadcast to the result. Rejected words are redrawn by
        further calls of the generator. While a program is being recorded, they come from separate
        streams instead, and bounds that are arrays are not checked.

        Raises:
            RuntimeError: `dtype` is not a 32-bit integer type, or does not match `shape`.
            ValueError: the interval is empty or exceeds the range of the type.

        >>> from drjit.llvm import Int
        >>> dr.rng(seed=5).integers(Int, 6, -5, 5)
        [-5, 4, 3, -2, -5, 4]
        """
        target = _Target(dtype, shape, "integers", integer=True)
        if high is None:
            low, high = 0, low
        low, high = (v if isinstance(v, ArrayBase) else int(v) for v in (low, high))
        if isinstance(low, int) and isinstance(high, int):
            check_interval(target.dtype, low, high + bool(endpoint))
        return bounded(self, target, low, high, bool(endpoint))

    def normal(
        self,
        dtype: type[T],
        shape: "Sizes",
        loc: float | ArrayBase = 0.0,
        scale: float | ArrayBase = 1.0,
    ) -> T:
        """Returns normally distributed numbers with mean `loc` and standard deviation `scale`; see
        `random`.

        >>> from drjit.llvm import Float
        >>> dr.rng(seed=5).normal(Float, 3)
        [-0.422253, 0.978531, -1.08348]
        """
        target = _Target(dtype, shape, "normal")
        return target.build(self._draw(target, normals)) * scale + loc

    def clone(self) -> "Generator":
        """Returns an independent generator with the same state."""
        return self._draw()

    def _draw(self, *_: Any) -> Any:
        """Returns the numbers of a result: its components, or in `drjit.scalar` its entries."""
        raise NotImplementedError("Generator: use a subclass, such as dr.rng() creates")

    _stays_expression = _draw

    @overload
    def permutation(
        self, x: "type[HasMask[ToUInt[Numbers, Any, Any, Any, Any, Any]]]", n: int, /
    ) -> Numbers: ...
    @overload
    def permutation(self, x: ArrayT, /, axis: int = 0) -> ArrayT: ...
    def permutation(self, x: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Returns a random permutation.

        `permutation(dtype, n)` returns the integers below `n` in random order, as the 32-bit
        unsigned counterpart of `dtype`. `permutation(array)` permutes the entries of a
        one-dimensional array, and `permutation(tensor, axis=0)` the slices of a tensor along an
        axis. The order is determined by single-precision random numbers.

        Raises:
            RuntimeError: the arguments have none of these forms, or the axis does not exist.

        >>> from drjit.llvm import UInt
        >>> dr.rng(seed=5).permutation(UInt, 8)
        [4, 0, 3, 6, 2, 7, 5, 1]
        """
        what = "Generator.permutation()"
        if conversion.is_array_class(x):
            return self._order(x, _length(what, *args, **kwargs))
        if not isinstance(x, ArrayBase) or (x._kind == "nested" and x.__meta__.dims != (DYNAMIC,)):
            raise RuntimeError(
                f"{what}: the first argument must be an array type, a one-dimensional array, or a "
                f"tensor, not {type_label(x)}"
            )
        if x._kind != "tensor":
            conversion.normalized_axis(_axis(*args, **kwargs), 1, what)
            order = self._order(type(x), len(x))
            return gather(type(x), x, order) if len(x) > 1 else copy(x)
        axis = conversion.normalized_axis(_axis(*args, **kwargs), len(x._shape), what)
        order = self._order(type(x), x._shape[axis])
        selection = (slice(None),) * axis
        return x[(*selection, order)] if x._shape[axis] > 1 else copy(x)

    def _order(self, cls: Any, n: int) -> Any:
        """Returns a permutation of 0 ... n-1; draws no numbers if there is only one."""
        if n < 2:
            return arange(conversion.flat_class(cls, dt.u32), n)
        return argsort(self.random(conversion.flat_class(cls, dt.f32), n))


def _length(what: str, n: Any = None, /, **kwargs: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or kwargs:
        raise RuntimeError(f"{what}: expected a type and a number of entries")
    if n < 0:
        raise RuntimeError(f"{what}: 'n' must not be negative, got {n}")
    return n


def _axis(axis: int = 0) -> int:
    return operator.index(axis)


class Philox4x32Generator(Generator):
    """Generates random arrays with the counter-based generator Philox4x32; a PyTree of its seed and
    counter.

    The counter is data, not part of programs, so drawing repeatedly compiles only once. With
    `symbolic`, or while a program is being recorded, the counter stays an expression instead.

    Raises:
        TypeError: seed or counter is not an integer, or out of range.
    """

    __module__ = "drjit.random"
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"_seed": int | ArrayBase, "_counter": int | ArrayBase}
    # The node of a counter, and its value.
    _remembered: tuple[Node | None, int] = (None, 0)

    def __init__(
        self, seed: int | ArrayBase = 0, counter: int | ArrayBase = 0, symbolic: bool = False
    ) -> None:
        self._seed = _state(seed, 64, "seed")
        self._counter = _state(counter, 32, "counter")
        make = leaf.literal if symbolic else data
        given = [v for v in (self._seed, self._counter) if isinstance(v, ArrayBase)]
        if len(given) == 1:  # the other one becomes an array as well, for loops that draw numbers
            space = given[0]._namespace
            if given[0] is self._seed:
                self._counter = make(table.find(space, "leaf", dt.u32), self._counter)
            else:
                self._seed = make(table.find(space, "leaf", dt.u64), self._seed)
        self._symbolic = bool(symbolic)

    def __repr__(self) -> str:
        seed, counter = map(_format_state, (self._seed, self._counter))
        return f"Philox4x32Generator[seed={seed}, counter={counter}]"

    def __getstate__(self) -> dict[str, Any]:
        return {key: v for key, v in self.__dict__.items() if key != "_remembered"}

    def clone(self) -> "Philox4x32Generator":
        return type(self)(self._seed, self._counter, self._symbolic)

    def _draw(self, target: "_Target", make: Any) -> list[Any]:
        w = target.words
        seed = self._key(w)
        counter = self._counter = state_word(w, dt.u32, self._counter, not self._stays_literal())
        found, calls = self._numbers(target, make, seed, counter)
        self._end(w, counter, 1 if target.by_entry else calls)
        return found

    def _numbers(
        self, target: "_Target", make: Any, seed: Any, counter: Any, again: Any = None
    ) -> tuple[list[Any], int]:
        """Returns the numbers of a result and the number of calls used. A positive `again` selects
        a separate stream.
        """
        w = target.words
        zero = leaf.literal(w.UInt, 0) if w.traced else 0
        one_lane = None if target.by_entry else target.lanes()
        known = w.traced and again is None and is_repeatable()
        found: list[Any] = []
        calls = 0
        while len(found) < target.count:
            lanes = len(found) if one_lane is None else one_lane
            first = counter if target.by_entry or not calls else w.low32(counter + calls)
            where = [first, lanes, zero if again is None else again, zero]
            numbers = (_repeated if known else _block)(w, make, target.dtype, where, seed)
            found.extend(numbers[-1:] if target.single else reversed(numbers))
            calls += 1
        return found[: target.count], calls

    def _key(self, w: Words) -> Any:
        """Returns the seed as a word of the namespace; the generator keeps this form.

        Raises:
            RuntimeError: a symbolic loop would draw the same numbers in every iteration.
        """
        if w.traced and not isinstance(self._seed, ArrayBase) and any(s.repeats for s in stack()):
            raise RuntimeError(
                f"{type(self).__name__}: a generator whose seed is a Python number gives the same "
                "numbers in every iteration of a symbolic loop. To generate random numbers within "
                "a symbolic loop, you must initialize the Generator with a seed of the underlying "
                "JIT backend, e.g.: rng = dr.rng(seed=dr.cuda.UInt32(0)), and make it a variable "
                "of the loop."
            )
        self._seed = state_word(w, dt.u64, self._seed, not self._stays_literal())
        return self._seed

    def _end(self, w: Words, counter: Any, calls: int) -> None:
        """Advances the counter."""
        launch.changing(self)
        if not w.traced or self._stays_expression():
            self._counter = w.low32(counter + calls)
            return
        if counter._node.size == 1:
            # Data written by the host: no kernel is needed. The value is remembered, because
            # reading it would wait for all running kernels.
            known, value = self._remembered
            if counter._node is not known:
                value = leaf.entries(counter)[0]
            value = (value + calls) & 0xFFFFFFFF
            self._counter = data(w.UInt, value)
            self._remembered = self._counter._node, value
        else:
            self._counter = counter + calls
            evaluate(self._counter)

    def _stays_expression(self) -> bool:
        """Returns whether the state stays an expression."""
        return self._stays_literal() or active_recorder() is not None

    def _stays_literal(self) -> bool:
        """Returns whether a Python number in the state becomes a literal rather than data."""
        recording = flags.current & flags.JitFlag.SymbolicScope or innermost() is not None
        return self._symbolic or bool(recording)


def _block(w: Words, make: Any, dtype: dt.DType, counter: list[Any], seed: Any) -> list[Any]:
    """Returns the numbers that `make` forms from a block."""
    key = [w.low32(seed >> 32), w.low32(seed)]
    return make(w, block(w, counter, key, _ROUNDS), dtype)


def _repeated(w: Words, make: Any, dtype: dt.DType, counter: list[Any], seed: Any) -> list[Any]:
    """Like `_block`, but reuses the trace if seed and counter are data."""
    template, cls = _template(w, make, dtype)
    first, lanes, *_ = counter
    nodes = template((seed._node, first._node), (lanes._node,))
    if nodes is None:
        return _block(w, make, dtype, counter, seed)
    return [leaf.wrap(cls, n) for n in nodes]


@lru_cache(maxsize=64)
def _template(w: Words, make: Any, dtype: dt.DType) -> tuple[Template, Any]:
    """Returns the template of `_block` for a seed and counter that are data, and the class of the
    numbers."""
    kinds = []

    def trace(state: list[Node], lanes: list[Node]) -> list[Node]:
        seed, first = leaf.wrap(w.UInt64, state[0]), leaf.wrap(w.UInt, state[1])
        zero = leaf.literal(w.UInt, 0)
        counter = [first, leaf.wrap(w.UInt, lanes[0]), zero, zero]
        found = _block(w, make, dtype, counter, seed)
        kinds.append(type(found[0]))
        return [a._node for a in found]

    return Template(trace, [(dt.u64, 1), (dt.u32, 1)], [dt.u32]), kinds[0]


class _Target:
    """The array or tensor class to create, its shape, and how many numbers are needed."""

    def __init__(self, cls: Any, shape: Any, what: str, integer: bool = False) -> None:
        what = f"Generator.{what}()"
        self.plain = cls is (int if integer else float)
        if not self.plain and not conversion.is_array_class(cls):
            raise RuntimeError(f"{what}: 'dtype' must be an array type, not {cls!r}")
        self.dtype: dt.DType = (dt.i32 if integer else dt.f64) if self.plain else cls._dtype
        kinds = (dt.i32, dt.u32) if integer else (dt.f16, dt.f32, dt.f64)
        if self.dtype not in kinds:
            wanted = "32-bit integers" if integer else "floating point numbers"
            raise RuntimeError(f"{what}: 'dtype' must be a type of {wanted}, not {type_label(cls)}")
        sizes = conversion.size_tuple(shape, what.removesuffix("()"))
        self.shape = sizes if isinstance(sizes, tuple) else (sizes,)
        self.cls = cls
        self.words = words("scalar" if self.plain else cls._namespace)
        self.single = self.plain or cls._kind != "nested"
        traced, tensors = self.words.traced, not self.plain and cls._kind == "tensor"
        self.by_entry = tensors and not traced
        self.dims: tuple[int, ...] = ()
        self.size = prod(self.shape) if tensors else 1
        if not tensors and not self.plain:
            *dims, self.size = self.shape if traced and self.shape else (*self.shape, 1)
            self.dims = tuple(dims)
            if (traced and not self.shape) or not conversion.fits(cls.__meta__.dims, self.dims):
                raise shape_mismatch(cls, self.shape, what)
        self.count = self.size if self.by_entry else prod(self.dims)

    def lanes(self) -> Any:
        return leaf.lane(self.words.UInt, self.size) if self.words.traced else 0

    def build(self, numbers: list[Any]) -> Any:
        if self.plain or self.cls._kind == "leaf":
            return numbers[0]
        if self.cls._kind == "tensor":
            array = self.cls.Array(numbers) if self.by_entry else numbers[0]
            return conversion.tensor(self.cls, array, self.shape)
        return conversion.assemble(self.cls, numbers, self.dims)


def _state(value: Any, bits: int, name: str) -> Any:
    """Checks a seed or counter: an integer, or a traced array.

    Raises:
        TypeError: it is neither, or out of range.
    """
    if isinstance(value, ArrayBase):
        if value._kind != "leaf" or value._dtype.is_mask:
            raise TypeError(
                f"rng(): '{name}' must be an integer or a one-dimensional array of integers, not "
                f"{type_label(value)}"
            )
        # In a loop, the state must have the same types before and after.
        cls = table.find(value._namespace, "leaf", dt.u64 if bits == 64 else dt.u32)
        return copy(value) if type(value) is cls else cls(value)
    number = int(value)
    if not 0 <= number < 1 << bits:
        raise TypeError(f"rng(): '{name}' must be from 0 to 2**{bits} - 1, got {number}")
    return number


def _format_state(value: Any) -> str:
    return str(value[0]) if isinstance(value, ArrayBase) and len(value) == 1 else str(value)


def rng(
    seed: int | ArrayBase = 0, method: Literal["philox4x32"] = "philox4x32", symbolic: bool = False
) -> Generator:
    """Returns a generator of random arrays.

    Different seeds yield independent streams; `seed` is an integer or an unsigned 64-bit array. The
    only `method` is Philox4x32. With `symbolic`, seed and counter are part of the programs that use
    them, rather than data that these read.

    Raises:
        TypeError: the seed is not an integer, or out of range.
        RuntimeError: there is no such method.

    >>> from drjit.llvm import Array2f
    >>> dr.rng(seed=5).random(Array2f, (2, 3))
    [[0.0853155, 0.411792],
     [0.94187, 0.0567534],
     [0.835392, 0.26783]]
    """
    if method != "philox4x32":
        raise RuntimeError(f"rng(): 'method' must be 'philox4x32', not {method!r}")
    return Philox4x32Generator(seed, symbolic=symbolic)


# ---- Unbiased uniform integers in an interval, from random words


def check_interval(dtype: dt.DType, low: int, high: int) -> None:
    """Raises a ValueError if the interval [low, high) is empty or exceeds the type."""
    least = -(1 << 31) if dtype.is_signed else 0
    if low >= high:
        raise ValueError(f"Generator.integers(): the interval [{low}, {high}) is empty")
    if low < least or high > least + (1 << 32):
        raise ValueError(
            f"Generator.integers(): the interval [{low}, {high}) is not within the range of "
            f"{dtype.name}"
        )


def bounded(rng: Any, target: Any, low: Any, high: Any, closed: bool) -> Any:
    """Returns integers in an interval: the upper half of word * range; words whose lower half is
    below 2**32 mod range are rejected.
    """
    if not target.words.traced:
        return _bounded_plain(rng, target, low, high + closed)

    def draw() -> Any:
        return words_of.build(rng._draw(words_of, _words_of_block))

    words_of = type(target)(
        table.related(target.cls, dtype=dt.u32), target.shape, "integers", integer=True
    )
    cls = words_of.cls
    recorded = rng._stays_expression()
    if isinstance(low, int) and isinstance(high, int):
        size = high + closed - low
        threshold = (1 << 32) % size
        if size == 1 << 32:
            return _shifted(target, draw(), low)
        extent = cls(size)
    else:
        extent, threshold = _extent(cls, low, high, closed, not recorded)
    state = rng._seed, rng._counter
    word = draw()
    if not all(a._node.size for a in leaf_arrays(word)):  # nothing to be rejected
        return word if target.dtype is dt.u32 else target.cls(word)
    if isinstance(threshold, int) and threshold == 0:
        return _shifted(target, arithmetic.mul_hi(word, extent), low)
    if recorded:
        word = _redrawn(rng, words_of, state, word, extent, threshold)
        return _shifted(target, _upper(word, extent), low)
    while True:
        rejected = word * extent < threshold
        evaluate(word, rejected)
        if not any_of(rejected, axis=None):
            return _shifted(target, _upper(word, extent), low)
        word = arithmetic.select(rejected, draw(), word)


def _words_of_block(w: Words, words4: list[Any], dtype: dt.DType) -> list[Any]:
    return words4


def _redrawn(rng: Any, target: Any, state: tuple, word: Any, extent: Any, threshold: Any) -> Any:
    """Replaces rejected words in a loop within the program. Redraws for the call that began at
    `state` use streams that nothing else uses.
    """
    w = target.words
    seed, counter = state_word(w, dt.u64, state[0], False), state_word(w, dt.u32, state[1], False)
    shown = word * 0
    limits = list(zip(*(leaf_arrays(shown + v) for v in (extent, threshold)), strict=True))

    def rejected(numbers: Sequence[Any]) -> list[Any]:
        return [v * e < t for v, (e, t) in zip(numbers, limits, strict=True)]

    def cond(again: Any, *numbers: Any) -> Any:
        return functools.reduce(operator.or_, rejected(numbers))

    def body(again: Any, *numbers: Any) -> list[Any]:
        others, _ = rng._numbers(target, _words_of_block, seed, counter, again)
        rows = zip(rejected(numbers), others, numbers, strict=True)
        return [again + 1, *[arithmetic.select(*row) for row in rows]]

    found = kernel_loop([w.UInt(1), *leaf_arrays(word)], cond, body)
    return target.build(found[1:])


def _upper(word: Any, extent: Any) -> Any:
    """Returns the upper half of the product; the word itself if the range is 2**32, which is
    represented as 0."""
    return arithmetic.select(extent == 0, word, arithmetic.mul_hi(word, extent))


def _extent(cls: Any, low: Any, high: Any, closed: bool, check: bool) -> tuple[Any, Any]:
    """Returns the number of integers in each interval, modulo 2**32, and the rejection
    threshold."""
    if check and any_of(high < low if closed else high <= low, axis=None):
        raise ValueError("Generator.integers(): an interval is empty")
    extent = _bits(cls, high) - _bits(cls, low) + int(closed)
    divisor = arithmetic.maximum(extent, 1)
    return extent, arithmetic.select(extent == 0, 0, (0 - extent) % divisor)


def _bits(cls: Any, value: Any) -> Any:
    """Returns a bound as 32 bits."""
    return cls(value) if isinstance(value, ArrayBase) else cls(value & 0xFFFFFFFF)


def _shifted(target: Any, offset: Any, low: Any) -> Any:
    """Returns the result for the offset from the lower bound."""
    value = offset + _bits(type(offset), low)
    return value if target.dtype is dt.u32 else target.cls(value)


def _bounded_plain(rng: Any, target: Any, low: int, high: int) -> Any:
    size = high - low

    def rejected(word: int) -> bool:
        return word * size & 0xFFFFFFFF < (1 << 32) % size

    numbers = rng._draw(target, _words_of_block)
    while any(map(rejected, numbers)):
        again = rng._draw(target, _words_of_block)
        numbers = [b if rejected(a) else a for a, b in zip(numbers, again, strict=True)]
    return target.build([(v * size >> 32) + low for v in numbers])

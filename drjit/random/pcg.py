"""PCG32, a small and fast generator of pseudorandom numbers (M. E. O'Neill, "PCG: A family of
simple fast space-efficient statistically good algorithms for random number generation", 2014): a
64-bit linear congruential generator whose output is permuted to 32 bits.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from ..array import leaf, table
from ..array.base import ArrayBase
from ..function.conversion import is_array_class
from ..function.kernel_loop import kernel_loop
from ..jit.ir import dtype as dt
from ..jit.ir.dtype import DType
from .words import Words, words

MULTIPLIER = 0x5851F42D4C957F2D
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
INITIAL_STATE = 0x853C49E6748FEA9B
INITIAL_SEQUENCE = 0xDA3E39CB94B95BDB
_WORD = 1 << 64


class Generator:
    """A stream, or one per entry, of pseudorandom numbers by the PCG32 algorithm.

    `size` streams are seeded with `initstate + i` and `initseq + i`. A stream has a period of 2**64
    and is chosen by its odd increment `inc`. Every variate advances `state` by one step, 64-bit
    integers by two; methods `prev_...` go backwards and give the same numbers in reverse. Entries
    whose mask is false give a number, but do not advance.

    The object is a PyTree of `state` and `inc`. Where numbers are drawn again and again without
    being evaluated, evaluate the generator (`dr.eval(rng)`) to keep programs short.

    Raises:
        TypeError: arguments are not integers.

    >>> from drjit.llvm import PCG32
    >>> rng = PCG32(2)
    >>> rng.next_uint32()
    [465482994, 2293120725]
    >>> (rng + 10) - rng
    [10, 10]
    """

    _words: ClassVar[Words]
    DRJIT_STRUCT: ClassVar[dict[str, Any]]

    __slots__ = ("__weakref__", "_inc", "_state")

    def __init__(
        self,
        size: Any = 1,
        initstate: Any = INITIAL_STATE,
        initseq: Any = INITIAL_SEQUENCE,
    ) -> None:
        if isinstance(size, type(self)):
            self._state, self._inc = size._state, size._inc
            return
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise TypeError(f"PCG32(): 'size' must be a positive integer or a PCG32, not {size!r}")
        w = self._words
        state = w.word(dt.u64, initstate, "PCG32(): 'initstate'")
        sequence = w.word(dt.u64, initseq, "PCG32(): 'initseq'")
        if w.traced and size != 1:
            lane = leaf.lane(w.UInt64, size)
            state, sequence = state + lane, sequence + lane
        self.seed(state, sequence)

    def seed(self, initstate: Any = INITIAL_STATE, initseq: Any = INITIAL_SEQUENCE) -> None:
        """Starts again from an initial state and the number of a stream.

        Raises:
            TypeError: arguments are not integers.
        """
        w = self._words
        state = w.word(dt.u64, initstate, "PCG32.seed(): 'initstate'")
        sequence = w.word(dt.u64, initseq, "PCG32.seed(): 'initseq'")
        self._inc = w.low64(sequence << 1 | 1)
        self._state = self._following(w.low64(self._inc + state))

    @property
    def state(self) -> Any:
        """The state of the linear congruential generator, an unsigned 64-bit integer."""
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = self._words.word(dt.u64, value, "PCG32.state")

    @property
    def inc(self) -> Any:
        """The increment of the linear congruential generator, an odd 64-bit integer."""
        return self._inc

    @inc.setter
    def inc(self, value: Any) -> None:
        self._inc = self._words.word(dt.u64, value, "PCG32.inc")

    def _following(self, state: Any) -> Any:
        return self._words.low64(state * MULTIPLIER + self._inc)

    def _draw(self, mask: Any, back: bool) -> Any:
        """A 32-bit word; takes a step in either direction."""
        w, state = self._words, self._state
        if back:
            moved = state = w.low64((state - self._inc) * INVERSE)
        else:
            moved = self._following(state)
        if mask is True:
            self._state = moved
        else:
            self._state = w.select(mask, moved, self._state)
            state = self._state if back else state
        mixed = w.low32((state >> 18 ^ state) >> 27)
        turn = w.low32(state >> 59)
        return mixed >> turn | w.wrapped32(mixed << ((32 - turn) & 31))

    def _word32(self, mask: Any, back: bool, what: str) -> Any:
        return self._draw(self._words.mask(mask, f"PCG32.{what}()"), back)

    def _word64(self, mask: Any, back: bool, what: str) -> Any:
        w = self._words
        mask = w.mask(mask, f"PCG32.{what}()")
        first, second = w.wide(self._draw(mask, back)), w.wide(self._draw(mask, back))
        return second | first << 32 if back else first | second << 32

    def _unit(self, dtype: DType, mask: Any, back: bool, what: str) -> Any:
        w, word = self._words, self._word32(mask, back, what)
        if dtype is dt.f64:
            return w.unit64_from32(word)
        unit = w.unit32(word)
        return w.rounded(dt.f16, unit) if dtype is dt.f16 else unit

    def _normal(self, dtype: DType, mask: Any, back: bool, what: str) -> Any:
        wide = dt.f64 if dtype is dt.f64 else dt.f32
        return self._words.quantile(self._unit(wide, mask, back, what), dtype)

    def _float_type(self, dtype: Any, what: str) -> DType:
        """The element type that an argument `dtype` asks for.

        Raises:
            TypeError: it is not a type of floating-point numbers.
        """
        if not isinstance(dtype, type):
            raise TypeError(f"PCG32.{what}(): 'dtype' must be a type, not {dtype!r}")
        if dtype is float and not self._words.traced:
            return dt.f64
        cls: Any = dtype
        element = cls._dtype if is_array_class(cls) else None
        if element is not None and element.is_float and self._words.traced:
            return element
        raise TypeError(
            f"PCG32.{what}(): 'dtype' must be a floating point type of drjit."
            f"{self._words.namespace}, not {dtype.__name__}"
        )

    def _bounded(self, word: str, bits: int, bound: Any, mask: Any) -> Any:
        """A word below a bound. Words below `2**bits % bound` are rejected, so that an equal
        number of words yields each remainder.
        """
        w, what = self._words, f"{word}_bounded"
        if not isinstance(bound, int) or isinstance(bound, bool) or not 0 < bound < 1 << bits:
            raise TypeError(
                f"PCG32.{what}(): 'bound' must be an integer from 1 to 2**{bits} - 1, not {bound!r}"
            )
        mask = w.mask(mask, f"PCG32.{what}()")
        draw = getattr(self, word)
        threshold = (1 << bits) % bound
        value = draw(mask)
        if threshold:
            rejected = (value < threshold) if mask is True else (value < threshold) & mask
            value = self._redrawn(draw, value, rejected, threshold)
        value = value % bound
        return value if mask is True else w.select(mask, value, value ^ value)

    def _redrawn(self, draw: Callable, value: Any, rejected: Any, threshold: int) -> Any:
        """Words, those that are rejected drawn again until none is."""
        w = self._words
        if not w.traced:
            while rejected:
                value = draw(rejected)
                rejected = value < threshold
            return value
        before = self._state

        def body(rejected: Any, state: Any, value: Any) -> tuple[Any, ...]:
            self._state = state
            again = w.select(rejected, draw(rejected), value)
            return (again < threshold) & rejected, self._state, again

        try:
            _, state, value = kernel_loop((rejected, before, value), lambda r, *_: r, body)
        finally:
            self._state = before
        self._state = state
        return value

    def next_uint32_bounded(self, bound: int, mask: Any = True) -> Any:
        """A uniform 32-bit integer in [0, bound), without bias.

        Raises:
            TypeError: `bound` is not an integer from 1 to 2**32 - 1.
        """
        return self._bounded("next_uint32", 32, bound, mask)

    def next_uint64_bounded(self, bound: int, mask: Any = True) -> Any:
        """A uniform 64-bit integer in [0, bound), without bias.

        Raises:
            TypeError: `bound` is not an integer from 1 to 2**64 - 1.
        """
        return self._bounded("next_uint64", 64, bound, mask)

    def _moved(self, steps: Any) -> Any:
        made = type(self)(self)
        w = self._words
        if not isinstance(steps, ArrayBase):
            factor, offset = jump(int(steps) % _WORD)
            made._state = w.low64(self._state * factor + self._inc * offset)
            return made
        steps = leaf.cast(w.UInt64, steps)
        # The binary method, with both cases of every digit: a state that is n steps ahead is
        # state * factor + inc * offset.
        state, inc = self._state, self._inc
        for digit in range(64):
            factor, offset = jump(1 << digit)
            ahead = state * factor + inc * offset
            state = w.select((steps >> digit & 1) != 0, ahead, state)
        made._state = state
        return made

    def _steps(self, value: Any) -> Any:
        try:
            return self._words.word(dt.i64, value, "PCG32") if not _is_float(value) else None
        except TypeError:
            return None

    def __add__(self, steps: Any) -> Any:
        """The generator after a number of 32-bit draws, in logarithmic time."""
        if isinstance(steps, int):
            return self._moved(steps)
        taken = self._steps(steps)
        return NotImplemented if taken is None else self._moved(taken)

    def __sub__(self, other: Any) -> Any:
        """The generator before a number of 32-bit draws; or the number of draws that lead from
        another generator of the same stream to this one.
        """
        if isinstance(other, type(self)):
            return other._distance(self)
        if isinstance(other, int):
            return self._moved(-other)
        taken = self._steps(other)
        return NotImplemented if taken is None else self._moved(-taken)

    def __iadd__(self, steps: Any) -> Any:
        return self._assigned(self.__add__(steps))

    def __isub__(self, steps: Any) -> Any:
        if isinstance(steps, type(self)):
            return NotImplemented
        return self._assigned(self.__sub__(steps))

    def _assigned(self, moved: Any) -> Any:
        """This generator in the state of another one, if that is one."""
        if moved is NotImplemented:
            return moved
        self._state = moved._state
        return self

    def _distance(self, target: Any) -> Any:
        """Steps from this state to another one of the same stream. Bit k of a state has period
        2**(k+1), so that the lowest bits that differ say which powers of two to go.
        """
        w, state, goal = self._words, self._state, target._state
        zero = state ^ state
        steps = zero
        for digit in range(64):
            factor, offset = jump(1 << digit)
            differs = ((state ^ goal) >> digit & 1) != 0
            ahead = w.low64(state * factor + self._inc * offset)
            state = w.select(differs, ahead, state) if w.traced else ahead if differs else state
            bit = zero | 1 << digit
            steps = steps | (w.select(differs, bit, zero) if w.traced else bit * differs)
        return w.signed(steps)


def _is_float(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._dtype.is_float


@cache
def jump(steps: int) -> tuple[int, int]:
    """Factors `f` and `g` such that the state after a number of steps is `f * state + g * inc`
    (F. B. Brown, "Random number generation with arbitrary strides", 1994).
    """
    factor, offset = 1, 0
    power, total = MULTIPLIER, 1
    while steps:
        if steps & 1:
            factor, offset = factor * power % _WORD, (offset * power + total) % _WORD
        power, total = power * power % _WORD, (power + 1) * total % _WORD
        steps >>= 1
    return factor, offset


def _method(name: str, doc: str, draw: Callable[..., Any], typed: bool, *arguments: Any) -> Any:
    """A method that draws a variate, of a type that its caller names if it is `typed`; `arguments`
    are those of `draw`."""

    def of_type(self: Any, dtype: type, mask: Any = True) -> Any:
        return draw(self, self._float_type(dtype, name), mask, *arguments, name)

    def plain(self: Any, mask: Any = True, /) -> Any:
        return draw(self, *arguments[:-1], mask, arguments[-1], name)

    method: Any = of_type if typed else plain
    method.__name__, method.__qualname__, method.__doc__ = name, f"PCG32.{name}", doc
    return method


_PRECISION = {"16": (dt.f16, "half"), "32": (dt.f32, "single"), "64": (dt.f64, "double")}


_RAISES = """

        Raises:
            TypeError: `dtype` is no floating point type.
        """


def _methods() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for back in (False, True):
        word = "prev" if back else "next"
        way = "The previous" if back else "The next"
        for bits, draw in (("32", Generator._word32), ("64", Generator._word64)):
            name = f"{word}_uint{bits}"
            doc = f"{way} uniform {bits}-bit integer."
            found[name] = _method(name, doc, draw, False, back)
        for suffix, draw, law in (
            ("", Generator._unit, "uniform number in [0, 1)"),
            ("_normal", Generator._normal, "standard normal number"),
        ):
            name = f"{word}_float{suffix}"
            doc = f"{way} {law}, in the precision of `dtype`.{_RAISES}"
            found[name] = _method(name, doc, draw, True, back)
            for bits, (dtype, precision) in _PRECISION.items():
                name = f"{word}_float{bits}{suffix}"
                doc = f"{way} {law}, in {precision} precision."
                found[name] = _method(name, doc, draw, False, dtype, back)
    return found


for _name, _method in _methods().items():
    setattr(Generator, _name, _method)


def _members(namespace: str) -> dict[str, Any]:
    w = words(namespace)
    return {"_words": w, "DRJIT_STRUCT": {"state": w.UInt64, "inc": w.UInt64}}


table.derive("PCG32", Generator, _members)

"""Philox4x32, a counter-based generator of pseudorandom numbers (J. K. Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011): every block of four numbers is a function of a key and a
counter, so that entries are computed independently and in any order.
"""

from functools import partial
from typing import Any, ClassVar

from ..array import table
from ..function.conversion import nested
from ..jit.ir import dtype as dt
from ..jit.run import launch
from .words import Words, state_property, words

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
# The golden ratio and the square root of 3, minus one.
_WEYL = (0x9E3779B9, 0xBB67AE85)


def block(w: Words, counter: Any, key: Any, rounds: int) -> list[Any]:
    """Returns the four words of a block: four words of the counter, encrypted with two words of a
    key."""
    # Use 64-bit words whose upper halves are ignored: a round is then two products and a few bit
    # operations, and no instruction splits or joins halves.
    x0, x1, x2, x3 = (w.wide(x) for x in counter)
    k0, k1 = (w.wide(k) for k in key)
    # One object each, so that programs contain one constant.
    factor0, factor1 = (w.constant(m) for m in _MULTIPLIERS)
    step0, step1 = (w.constant(s) for s in _WEYL)
    for round_ in range(rounds):
        if round_:
            k0, k1 = k0 + step0, k1 + step1
        p0, p1 = w.product(x0, factor0), w.product(x2, factor1)
        x0, x1, x2, x3 = p1 >> 32 ^ x1 ^ k0, p1, p0 >> 32 ^ x3 ^ k1, p0
    return [w.low32(x) for x in (x0, x1, x2, x3)]


def units(w: Words, words4: list[Any], dtype: dt.DType) -> list[Any]:
    """Returns the uniform numbers in [0, 1) of a block: four, or two in double precision."""
    if dtype is dt.f64:
        return [w.unit64(v) for v in pairs(w, words4)]
    found = [w.unit32(v) for v in words4]
    return [w.rounded(dt.f16, v) for v in found] if dtype is dt.f16 else found


def pairs(w: Words, words4: list[Any]) -> list[Any]:
    """Returns the 64-bit words of a block."""
    a, b, c, d = (w.wide(v) for v in words4)
    return [a | b << 32, c | d << 32]


def normals(w: Words, words4: list[Any], dtype: dt.DType) -> list[Any]:
    """Returns the standard normal numbers of a block: four, or two in double precision."""
    if dtype is dt.f64:
        radius, angle = units(w, words4, dt.f64)
        return list(w.normal_pair(radius, angle))
    angle0, angle1, radius0, radius1 = units(w, words4, dt.f32)
    found = [*w.normal_pair(radius0, angle0), *w.normal_pair(radius1, angle1)]
    return [w.rounded(dt.f16, v) for v in found] if dtype is dt.f16 else found


class Philox:
    """Blocks of pseudorandom numbers by the Philox4x32 algorithm.

    The key is the 64-bit `seed`. The counter consists of `counter_0`, `counter_1`, `counter_2` and
    the number of blocks drawn so far. `iterations` is the number of rounds: 7 pass all statistical
    tests, 10 leave a safety margin. Entries whose mask is false return numbers but do not advance.
    The object is a PyTree.

    Raises:
        TypeError: arguments are not integers, or out of range.

    >>> from drjit.llvm import Philox4x32
    >>> rng = Philox4x32(seed=0, counter_0=0, iterations=10)
    >>> rng.next_uint32x4()
    [[1713891541, 3781805453, 3159862348, 2600524760]]
    """

    _words: ClassVar[Words]
    _types: ClassVar[dict[str, Any]]

    __slots__ = ("__weakref__", "_counter", "_iterations", "_seed")

    def __init__(
        self,
        seed: Any = 0,
        counter_0: Any = 0,
        counter_1: Any = 0,
        counter_2: Any = 0,
        iterations: int = 7,
    ) -> None:
        if isinstance(seed, type(self)):
            self._seed, self._counter = seed._seed, seed._counter
            self._iterations = seed._iterations
            return
        w = self._words
        seed = w.word(dt.u64, seed, "Philox4x32(): 'seed'")
        self._seed = nested(self._types["seed"], [w.low32(seed >> 32), w.low32(seed)])
        counters = (counter_0, counter_1, counter_2, 0)
        self._counter = nested(
            self._types["counter"],
            [w.word(dt.u32, c, f"Philox4x32(): 'counter_{i}'") for i, c in enumerate(counters)],
        )
        self._iterations = _rounds(iterations)

    seed = state_property(
        "seed", "The key, the upper and lower half of the seed.", lambda g, v: g._types["seed"](v)
    )
    counter = state_property(
        "counter", "The counter of the next block, four 32-bit integers.",
        lambda g, v: g._types["counter"](v),
    )  # fmt: skip
    iterations = state_property("iterations", "The number of rounds.", lambda g, v: _rounds(v))

    def _block(self, mask: Any, what: str) -> list[Any]:
        w = self._words
        launch.changing(self)
        mask = w.mask(mask, f"Philox4x32.{what}()")
        counter = self._counter._components
        found = block(w, counter, self._seed._components, self._iterations)
        following = w.low32(counter[3] + 1)
        advanced = [*counter[:3], w.select(mask, following, counter[3])]
        self._counter = nested(self._types["counter"], advanced)
        return found


def _rounds(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 64:
        raise TypeError(f"Philox4x32(): 'iterations' must be from 0 to 64, not {value!r}")
    return value


def _method(name: str, doc: str, result: str, make: Any) -> Any:
    def method(self: Any, mask: Any = True) -> Any:
        return nested(self._types[result], make(self._words, self._block(mask, name)))

    method.__name__, method.__qualname__, method.__doc__ = name, f"Philox4x32.{name}", doc
    return method


# name: what it returns, its class, the function from the words of a block
_METHODS: dict[str, tuple[str, str, Any]] = {
    "next_uint32x4": ("Returns four uniform 32-bit integers.", "uint32x4", lambda w, x: x),
    "next_uint64x2": ("Returns two uniform 64-bit integers.", "uint64x2", pairs),
}
_TYPES: dict[str, tuple[dt.DType, int]] = {
    "seed": (dt.u32, 2),
    "counter": (dt.u32, 4),
    "uint32x4": (dt.u32, 4),
    "uint64x2": (dt.u64, 2),
}
for _bits, _count, _dtype in ((16, 4, dt.f16), (32, 4, dt.f32), (64, 2, dt.f64)):
    _kind = f"float{_bits}x{_count}"
    _number = "four" if _count == 4 else "two"
    _TYPES[_kind] = (_dtype, _count)
    for _suffix, _law, _make in (
        ("", "uniform float{} numbers in [0, 1)", units),
        ("_normal", "standard normal float{} numbers", normals),
    ):
        _doc = f"Returns {_number} {_law.format(_bits)}."
        _METHODS[f"next_{_kind}{_suffix}"] = _doc, _kind, partial(_make, dtype=_dtype)
for _name, (_doc, _result, _make) in _METHODS.items():
    setattr(Philox, _name, _method(_name, _doc, _result, _make))


def _members(namespace: str) -> dict[str, Any]:
    types = {
        name: table.find(namespace, "vector", dtype, (count,))
        for name, (dtype, count) in _TYPES.items()
    }
    fields = {"seed": types["seed"], "counter": types["counter"], "iterations": int}
    return {"_words": words(namespace), "_types": types, "DRJIT_STRUCT": fields}


table.derive("Philox4x32", Philox, _members)

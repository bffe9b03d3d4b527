"""Plans: what evaluations launch, found again by their structure; and programs of earlier
processes, which the disk cache finds by their structure.

A plan is data: kernels, and which nodes each of them computes and takes, by position among all
nodes of an evaluation in traversal order. It serves every evaluation with its key (see
`structure.ProgramGraph`) whose nodes have the same sizes; a plan of a single launch serves any
number of lanes.

The disk cache has the text of a kernel, and what launches need to know about its program, which
then need not be built and rendered again: that takes longer than loading the machine code.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from .. import log
from ..device import Device, Kernel
from ..ir.node import Node
from ..target.foreign import ForeignFunction
from ..text import structure
from . import cache

try:
    from _pickle import dumps, loads  # `pickle` also imports the same in Python
except ImportError:
    from pickle import dumps, loads

MOST_SIZES = 8  # plans for the same structure
MOST_KEYS = 1 << 22  # size of all keys at which everything is forgotten


class Launch(NamedTuple):
    """A kernel to launch for a number of lanes: the nodes that it computes, and those that it takes
    (inputs, literals, checks), and effects, one for each buffer that it writes to."""

    kernel: Kernel
    lanes: int
    roots: Sequence[Node]
    inputs: Sequence[Node]
    literals: Sequence[Node]
    checks: Sequence[Node]
    targets: Sequence[Node]


class Plan:
    """The `launches` of an evaluation: kernels and numbers of lanes, with functions that take nodes
    from those in traversal order; and the `sizes` of nodes on which they depend, by position. The
    number of lanes is 0 if the plan serves any (`is_for_any_size`).

    A device that performs it in a way of its own keeps what it needs in `native`.
    """

    __slots__ = ("is_for_any_size", "launches", "native", "passed", "sizes")

    def __init__(self, launches: Sequence[tuple], sizes: Sequence[tuple[int, int]]) -> None:
        """The launches are those of `Launch`, with positions in place of nodes."""
        self.launches: list[tuple] = [(*v[:2], *map(taker, v[2:])) for v in launches]
        self.is_for_any_size = not launches[0][1]
        self.sizes = sizes
        self.native: dict[int, Any] = {}
        self.passed: Any = None  # the `KernelArguments` of a single launch

    def fits(self, order: Sequence[Node]) -> bool:
        """Returns whether the nodes of an evaluation with this structure have the sizes."""
        for k, size in self.sizes:  # noqa: SIM110 (`all` would start a generator)
            if order[k].size != size:
                return False
        return True


def taker(places: Sequence[int]) -> Callable[[Sequence[Node]], Sequence[Node]]:
    """Returns a function that takes the entries of a list at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    start = places[0] if places else 0
    return itemgetter(slice(start, start + len(places)))


_plans: dict[tuple, list[Plan]] = {}
"""The plans by key, the most recently used ones first."""
_entries = 0  # size of the keys


def find(key: tuple, order: Sequence[Node], for_any_size: bool) -> Plan | None:
    """Returns the plan of an evaluation, if there is one. `for_any_size` says that its results all
    have one size, and none waits for another."""
    plans = _plans.get(key)
    if plans is not None:
        for plan in plans:
            if plan.is_for_any_size is for_any_size and (not plan.sizes or plan.fits(order)):
                if plan is not plans[0]:
                    plans.remove(plan)
                    plans.insert(0, plan)
                return plan
    return None


def add(key: tuple, plan: Plan) -> None:
    """Keeps a plan."""
    plans = _plans.setdefault(key, [])
    plans.insert(0, plan)
    del plans[MOST_SIZES:]


def is_crowded(more: int) -> bool:
    """Counts further entries of keys; returns whether it is time to forget everything."""
    global _entries
    _entries += more
    return _entries > MOST_KEYS or structure.is_full()


def forget() -> None:
    """Forgets all plans."""
    global _entries
    _plans.clear()
    _entries = 0


# ---- Programs of earlier processes


def name_of(key: tuple, device: Device) -> str:
    """Returns the key in the disk cache of a program, given the key of its structure; nothing if
    other processes cannot have the same."""
    if not device.keeps_programs:
        return ""
    words = [part for part in key if type(part) is bytes]
    rows = [part for part in key if type(part) is not bytes]
    for part in rows:
        if type(part) is ForeignFunction:  # its name does not say what it computes
            return ""
    text = repr(rows)
    # Whatever prints as `<... at 0x...>` is an object of this process.
    return "" if "<" in text else cache.digest(text, *words, _text_facts(), machine=False)


@functools.cache
def _text_facts() -> str:
    """Returns what the text of a program depends on besides its structure, as a hash."""
    return cache.digest(sys.version, cache.compiler_files(), machine=False)


def load(name: str, device: Device) -> tuple[Kernel, structure.KernelArguments] | None:
    """Returns the kernel of a program and what it takes, if the disk cache has them."""
    entry = cache.get(name)
    if entry is None:
        return None
    try:
        program, work, passed, bytecode, variant = loads(entry.code)
        made: Any = device
        found = made.kernel(entry.text, program, work)
        found.bytecode, found.variant = found.bytecode or bytecode, found.variant or variant
    except Exception as error:  # a damaged entry is made again
        log.log(log.LogLevel.Warn, "cache entry %s cannot be used (%s)", name, error)
        return None
    return found, passed


def save(name: str, plan: Plan) -> None:
    """Adds the text and the program of a kernel that has been launched, and what that takes, to the
    disk cache."""
    made: Any = plan.launches[0][0]
    code = dumps((made.program, made.work, plan.passed, made.bytecode, made.variant), -1)
    cache.put(name, made.text, code, False)

"""How many lanes a packet of the SIMD target has: a matter of registers, latencies and caches.

The number is part of a kernel's key in the disk cache, so nothing else of that target need be
imported for it.
"""

import re

from .. import processor
from . import library

# The statements that create or consume vectors in a kernel's text.
VECTORS = (
    "= vector(", "= splat(", "= matvec(", "load_vector(", "broadcast_vector(", "store_vector(",
)  # fmt: skip
# Statements for which a lane is a task, with loops of its own.
TASKS = ("matmul(", "reduce_rows(")
# Lanes of a kernel with vectors: the rows of a few vectors fit into the L1 cache, and matrix
# products are as fast as with more lanes.
VECTOR_LANES = 16
# Bytes for the vectors of a packet: the capacity of the L2 cache or, if there are no products, of
# the L1 cache, since accesses to single entries then take most of the time.
VECTOR_BYTES, ENTRY_BYTES = 1 << 18, 1 << 15
# Minimum number of lanes in a packet.
FEWEST_LANES = 4
# The same for kernels without vectors, where operations of several registers must overlap.
FEWEST_OF_PACKETS = 8
# A kernel with a loop that is longer than this gets two vectors per packet: compile time over
# speed. Beyond the second limit, the values of an iteration leave no registers for a second vector.
LOOP_LINES = 120
LONG_LOOP_LINES = 1000
REGISTERS = 32  # of AVX-512
# A kernel with a reduction that is not longer than this gets two vectors per packet.
REDUCTION_LINES = 16
# A kernel with one library call per this many lines, or more, spends its time in these.
LINES_PER_CALL = 10
# Statements that update memory lane by lane. With AVX-512, a kernel with at least so many of them,
# and one per this many lines, takes up to half the time with packets of 8 lanes: those of 16 make
# as many stores as wait in the processor's queue.
UPDATES = (" scatter_reduce_packet(", " scatter_reduce_expand(")
FEWEST_UPDATES = 4
LINES_PER_UPDATE = 16
# Statements that compute with whole vectors.
PRODUCTS = (" matvec(", " outer(", " accumulate(", " total(")
_SIZES = r"= (?:splat|load_vector|broadcast_vector)\((\w+), (\d+),"
_WIDE_TYPES = [f"{sign}64{end}" for sign in "fiu" for end in "(,"]
_READS_OR_STORES = (
    " load(", "gather", "scatter", "reduce", "scan", "radix", "compress", "f64",
)  # fmt: skip
# The updates of a loop's state.
_STATE = r"(?: +(v\d+) = select\(v\d+, [vxc]\d+, \1\)\n)+"


def default_lanes() -> int:
    """Returns the default number of lanes per packet: 16 with AVX-512, otherwise 8, which are two
    of NEON's registers."""
    return _lanes_of(1)


def _lanes_of(registers: int) -> int:
    """Returns the number of lanes of a packet whose 32-bit values take `registers` registers."""
    return max(registers * processor.register_bytes() // 4, FEWEST_OF_PACKETS)


def packet_lanes(text: str) -> int:
    """Returns the number of lanes per packet for a kernel: four registers of 32-bit values for a
    small kernel with a loop (two before AVX-512, where masks take registers, too), for one that
    spends its time in library functions, and for one that computes everything it stores with
    integers. A short kernel with a reduction has two, whose sums need not wait for each other.
    A loop of arithmetic has one if its state would take more than half of the registers.

    Several independent vectors in flight hide the latency of dependent operations, such as those of
    a loop or a polynomial. In other large kernels, or with 64-bit types, they would not fit into
    the registers. A task is a packet with one lane.
    """
    if any(f"    {name}" in text for name in TASKS):
        return 1
    if any(name in text for name in VECTORS):
        if " take(" not in text and " put(" not in text:
            return VECTOR_LANES
        return _lanes_with_vectors(text)
    return _lanes(text)


def _lanes_with_vectors(text: str) -> int:
    """Returns the number of lanes of a kernel with indexed access to vectors: as many as without,
    if the vectors are small."""
    products = any(name in text for name in PRODUCTS)
    lanes, most = (VECTOR_LANES, VECTOR_BYTES) if products else (_lanes(text), ENTRY_BYTES)
    features = [
        int(count) * (2 if code.endswith("64") else 1) for code, count in re.findall(_SIZES, text)
    ]
    features += [line.count(",") for line in text.split("\n") if "= vector(" in line]
    size = 4 * sum(features)
    while size * lanes > most and lanes > FEWEST_LANES:
        lanes //= 2
    return lanes


def _lanes(text: str) -> int:
    lines = text.count("\n")
    if "    reduce(" in text and lines <= REDUCTION_LINES and "    while " not in text:
        return max(_lanes_of(2), _lanes_of_values(text, lines))
    return _lanes_of_values(text, lines)


def _lanes_of_values(text: str, lines: int) -> int:
    if "    while " in text:
        if lines > LONG_LOOP_LINES:
            return default_lanes()
        has_mask_registers = processor.register_bytes() == 64
        if has_mask_registers and _has_large_state(text):
            return default_lanes()
        is_short = lines <= LOOP_LINES and "f64" not in text
        return _lanes_of(4 if has_mask_registers and is_short else 2)
    if any(name in text for name in _WIDE_TYPES):
        accesses_memory = any(name in text for name in _READS_OR_STORES)
        return default_lanes() if accesses_memory else _lanes_of(4)
    updates = sum([text.count(name) for name in UPDATES])
    if updates >= FEWEST_UPDATES and lines <= LINES_PER_UPDATE * updates:
        return FEWEST_OF_PACKETS
    calls = _calls(text)
    dense = calls * LINES_PER_CALL >= lines and "gather" not in text and "scatter" not in text
    return _lanes_of(4) if dense else default_lanes()


def _calls(text: str) -> int:
    """Returns the number of calls of library functions."""
    names = [part.partition("(")[0] for part in text.split("= ")[1:]]
    return sum([name in library.names for name in names])


def _has_large_state(text: str) -> bool:
    """Returns whether two vectors of every state variable of a loop do not fit into the registers,
    and nothing but their number limits the loop, as look-ups and library functions would."""
    states = max([run.group().count("\n") for run in re.finditer(_STATE, text)], default=0)
    return states > REGISTERS // 2 and "gather" not in text and not _calls(text)

"""A chunk of threads, and their accesses to memory: that of the device, shared memory, of which
each block has a part, and local memory, of which each thread has a part.

A chunk of blocks runs at a time. A thread's place is its warp (counted through the chunk) times 32
plus its lane, so that warps are found even where blocks are not a multiple of 32 threads.

Generated code calls these methods with the register of a base address and an offset. Where all
threads use one address, address and result have one element.

Addresses of shared and local memory are offsets into the part of the block or thread; `cvta` turns
them into addresses that work without naming a space. All spaces are memory of this process: an
access is checked in its own space, and then made at its real address.

Asynchronous copies (`cp.async`) to shared memory arrive when their group is waited for, and not
earlier: until then, nobody may touch their target.
"""

import math
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import Fault, Misaligned, OutOfBounds, Race, TrapExecuted, coordinates, first
from .memory import POISON, flat, flat_index, new_bytes, update
from .race import RaceDetector, bank_conflicts

if TYPE_CHECKING:
    from .module import EmulatedLaunch

u8, u32, u64, i64 = np.uint8, np.uint32, np.uint64, np.int64
Shape = tuple[int, int, int]


class Window:
    """The memory of a space in which each `owner` ("block", "thread") has a part of `limit` bytes,
    which begin `stride` bytes after each other at the address `start`."""

    def __init__(self, owner: str, limit: int, stride: int, count: int):
        self.owner, self.limit, self.stride = owner, limit, stride
        self.bytes = new_bytes(stride * count, POISON)[: stride * count]
        self.start = self.bytes.ctypes.data

    def has(self, address: np.ndarray) -> np.ndarray:
        """Which of the addresses are in this space."""
        return (address >= u64(self.start)) & (address < u64(self.start + len(self.bytes)))


class AmongLanes:
    """A block of statements for some of the threads: a fault's position among these becomes that
    among all."""

    def __init__(self, lanes: np.ndarray):
        self.lanes = lanes

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, fault: Any, trace: Any) -> None:
        if isinstance(fault, Fault) and fault.lane is not None:
            fault.lane = int(self.lanes[fault.lane])


def with_offset(address: np.ndarray, offset: int) -> np.ndarray:
    """Addresses as uint64, plus an offset."""
    if address.dtype != u64:
        address = address.astype(u64)
    return address + u64(offset & 0xFFFFFFFFFFFFFFFF) if offset else address


def _is_same_in_warps(place: np.ndarray, at: np.ndarray) -> bool:
    """Returns whether all threads of each warp are there, and access the same bytes."""
    n = len(place)
    if n % 32 or place[0] & 31 or place[-1] - place[0] != n - 1:
        return False
    rows = at.reshape(-1, 32)
    return not np.count_nonzero(rows != rows[:, :1])


def _words(at: np.ndarray, size: int) -> np.ndarray:
    """The numbers of the words, of 4 bytes, in which aligned accesses lie."""
    words = at >> 2
    return words if size <= 4 else (words[:, None] + np.arange(size // 4)).reshape(-1)


def spread(a: np.ndarray, n: int) -> np.ndarray:
    """The values of `n` threads, from one for each or one for all. Not to be written to."""
    return a if a.shape == (n,) else np.broadcast_to(a, (n,))


class Threads:
    """The threads of a chunk: `blocks` blocks of a grid, from the number `first`."""

    def __init__(self, grid: Shape, block: Shape, first: int, blocks: int):
        self.grid, self.block = grid, block
        self.first, self.blocks_here = first, blocks
        self.threads = math.prod(block)
        self.warps_per_block = -(-self.threads // 32)
        # Each thread's number in its block, the number of the block in the grid, and the place.
        self.inner = np.tile(np.arange(self.threads), blocks)
        self.outer = np.repeat(np.arange(blocks), self.threads) + first
        self.all_places = (self.outer - first) * (self.warps_per_block * 32) + self.inner
        # Positions among all threads of those that execute now; None: all of them.
        self.here: np.ndarray | None = None

    def special(self, name: str) -> np.ndarray:
        """The value of a special register for all threads."""
        kind, _, axis = name[1:].partition(".")
        k = "xyz".find(axis) if axis else 0
        if kind in ("ntid", "nctaid"):
            return np.array([(self.block if kind == "ntid" else self.grid)[k]], u32)
        if kind in ("tid", "ctaid"):
            inside = kind == "tid"
            number, shape = (self.inner, self.block) if inside else (self.outer, self.grid)
            is_same = shape[k] == 1 or (not inside and self.blocks_here == 1)
            number = number[:1] if is_same else number
            return (number // math.prod(shape[:k]) % shape[k]).astype(u32)
        lane = (self.all_places & 31).astype(u32)
        if kind == "laneid":
            return lane
        bit = u32(1) << lane
        masks = {"eq": bit, "lt": bit - u32(1), "gt": ~(bit | (bit - u32(1)))}
        return {**masks, "le": ~masks["gt"], "ge": ~masks["lt"]}[kind.removeprefix("lanemask_")]

    def block_of(self, place: np.ndarray) -> Any:
        """The number of a place's block in this chunk; 0 if there is one block only."""
        if self.blocks_here == 1:
            return 0
        return (place >> 5) // self.warps_per_block

    def coordinates_of(self, place: int) -> tuple[int, int]:
        """The linear number of a place's block in the grid, and of its thread in the block."""
        size = self.warps_per_block * 32
        return self.first + place // size, place % size

    def name_of(self, place: int) -> str:
        """A thread, for messages."""
        block, thread = self.coordinates_of(place)
        return f"thread {coordinates(thread, self.block)} of block {coordinates(block, self.grid)}"


class Accesses(Threads):
    """A chunk of threads with memory. In shared memory, races are looked for, and bank conflicts
    counted if the launch has `conflicts`."""

    def __init__(self, launch: "EmulatedLaunch", first: int, blocks: int):
        super().__init__(launch.grid, launch.block, first, blocks)
        self.launch, self.memory, self.parameters = launch, launch.memory, launch.parameters
        self.parameters_address = np.array([self.parameters.ctypes.data], u64)
        layout = launch.code.layout
        shared = layout.shared_bytes + launch.shared
        local = -(-layout.local_bytes // 16) * 16
        self.windows = {
            "shared": Window("block", shared, -(-shared // 256) * 256, blocks),
            "local": Window("thread", local, local, len(self.all_places)),
        }
        self.shared = self.windows["shared"].bytes
        self.conflicts: dict[int, int] = {}
        self.detector: RaceDetector | None = None
        if shared:
            warps = blocks * self.warps_per_block
            this: Any = weakref.ref(self)  # which refers to the detector
            self.detector = RaceDetector(
                len(self.shared), launch.code.grain, blocks, warps,
                lambda place: this().name_of(place), launch.line_text,
            )  # fmt: skip
        self.copies: list[dict[str, Any]] = []
        self.awaited = np.zeros(len(self.shared) // 4, bool)
        # How many groups of copies threads have committed, by their place.
        self.committed = np.zeros(int(self.all_places[-1]) + 1, i64)

    def address(self, name: str) -> np.ndarray:
        """The address of a variable."""
        return np.array([self.launch.entry.addresses[name]], u64)

    def parameter(self, offset: int, dtype: Any) -> np.ndarray:
        """A parameter of the kernel."""
        return self.parameters[offset : offset + dtype().itemsize].view(dtype)

    # ---- where accesses go

    def _start(self, space: str, place: np.ndarray) -> Any:
        """Where the parts of threads begin in the array of their space."""
        number: Any = self.block_of(place)
        if space == "local" and self.warps_per_block * 32 == self.threads:
            number = place
        elif space == "local":
            number = number * self.threads + place % (self.warps_per_block * 32)
        return number * self.windows[space].stride

    def inside(
        self, space: str, place: np.ndarray, base: np.ndarray, offset: int, size: int, access: str
    ) -> np.ndarray:
        """Indices of bytes in the array of a space. Raises a `Fault` for those outside of the
        part of a block or thread."""
        window = self.windows[space]
        limit = window.limit
        signed = base.view(f"i{base.itemsize}").astype(i64)
        at = signed + i64(offset) if offset else signed
        outside = (at < 0) | (at > limit - size)
        if (lane := first(outside)) is not None:
            a = int(at[lane])
            beyond = (
                f"{a + size - limit} bytes beyond the end" if a >= 0 else "before the beginning"
            )
            raise Fault(
                OutOfBounds,
                f"out of bounds: {access} of {size} bytes at offset {a:#x} of {space} memory: "
                f"{beyond} of the {limit} bytes of a {window.owner}",
                lane,
            )
        if int(np.bitwise_or.reduce(at)) & (size - 1):
            lane = int(np.flatnonzero(at & (size - 1))[0])
            raise Fault(
                Misaligned,
                f"misaligned {access} of {size} bytes at offset {int(at[lane]):#x} of {space} "
                f"memory: not a multiple of {size}",
                lane,
            )
        return at + self._start(space, place)

    def resolve(
        self, access: str, size: int, base: np.ndarray, offset: int, space: str,
        place: np.ndarray | None, strong: bool, value: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """The real addresses of accesses ("read", "write", "atomic access") of `size` bytes to a
        space, or to whichever an address belongs to; `value` is what is written. Raises a `Fault`
        if one of them is wrong."""
        if space == "global" or place is None:
            address = with_offset(base, offset)
            self.memory.check(address, size, access)
            return address
        if space:
            at = self.inside(space, place, base, offset, size, access)
            if space == "shared" and self.detector is not None:
                self._note_shared(place, spread(at, len(place)), size, access, strong, value)
            return at.view(u64) + u64(self.windows[space].start)
        n = len(place)
        address = spread(with_offset(base, offset), n)
        there = {name: window.has(address) for name, window in self.windows.items()}
        there["global"] = ~(there["shared"] | there["local"])
        for name, mask in there.items():
            lanes = np.flatnonzero(mask)
            if not len(lanes):
                continue
            with AmongLanes(lanes):
                some, at = place[lanes], address[lanes]
                at = at if name == "global" else self.cvta_to(some, name, at)
                part = value if value is None or len(value) == 1 else value[lanes]
                self.resolve(access, size, at, 0, name, some, strong, part)
        return address

    # ---- loads, stores, and atomic operations

    def load(
        self, base: np.ndarray, offset: int, dtype: Any, count: int = 1, *, space: str = "global",
        place: np.ndarray | None = None, strong: bool = False,
    ) -> Any:  # fmt: skip
        """Elements at addresses; a tuple of `count` arrays of consecutive ones."""
        size = dtype().itemsize * count
        address = self.resolve("read", size, base, offset, space, place, strong)
        loaded = flat(dtype, count)[flat_index(address, size)]
        return loaded if count == 1 else tuple(np.ascontiguousarray(loaded.T))

    def store(
        self, base: np.ndarray, offset: int, values: Any, *, space: str = "global",
        place: np.ndarray | None = None, strong: bool = False,
    ) -> None:  # fmt: skip
        """Writes elements, or tuples of consecutive ones. Of several threads that write to one
        address, the last one prevails."""
        rows = values if type(values) is tuple else (values,)
        if any(r.dtype != rows[0].dtype for r in rows):  # registers, and a constant that is a float
            rows = tuple([r.view(f"u{r.itemsize}") for r in rows])
        size = rows[0].itemsize * len(rows)
        address = self.resolve("write", size, base, offset, space, place, strong, rows[0])
        self.memory.writes += 1
        stored = rows[0] if len(rows) == 1 else np.stack(np.broadcast_arrays(*rows), 1)
        index = flat_index(address, size)
        elements = flat(rows[0].dtype.type, len(rows))
        elements[index] = stored if len(index) > 1 else stored[-1:]

    def atomic(
        self, operation: str, base: np.ndarray, offset: int, values: tuple[np.ndarray, ...],
        returns: bool, *, space: str, place: np.ndarray,
    ) -> Any:  # fmt: skip
        """Reads, changes and writes, one thread after the other. The old values, if wanted. Sums in
        single precision flush subnormal numbers to zero, but for those in shared memory."""
        size = values[0].itemsize
        address = self.resolve("atomic access", size, base, offset, space, place, True)
        index = flat_index(spread(address, len(place)), size)
        values = tuple(spread(v, len(place)) for v in values)
        memory = flat(values[0].dtype.type)
        groups: list[tuple[str, Any]] = [(operation, slice(None))]
        if operation == "add" and memory is flat(np.float32):
            shared = spread(self.windows["shared"].has(address), len(place))
            groups = [("add", shared), ("add.ftz", ~shared)]
        old = np.empty(len(place), values[0].dtype)
        for how, lanes in groups:
            if len(some := index[lanes]):
                part = tuple(v[lanes] for v in values)
                before, changed = update(memory, some, how, part, returns)
                self.memory.writes += changed
                old[lanes] = before if returns else 0
        return old

    def trap(self, place: np.ndarray) -> None:
        raise Fault(TrapExecuted, "the kernel executed trap", 0)

    # ---- addresses without a space

    def cvta(self, place: np.ndarray, space: str, a: np.ndarray) -> np.ndarray:
        """An offset in shared or local memory as an address."""
        start = np.asarray(self._start(space, place) + self.windows[space].start)
        return with_offset(a, 0) + np.atleast_1d(start).astype(u64)

    def cvta_to(self, place: np.ndarray, space: str, a: np.ndarray) -> np.ndarray:
        """The opposite of `cvta`."""
        return a - self.cvta(place, space, np.zeros(1, u64))

    # ---- checks

    def line(self) -> int:
        """The line of generated code that is being executed."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_name[:6] != "block_":
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

    def _note_shared(
        self, place: np.ndarray, at: np.ndarray, size: int, access: str, strong: bool,
        value: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Checks accesses to shared memory for races, and counts their bank conflicts."""
        line, writes = self.line(), access != "read"
        if not writes and _is_same_in_warps(place, at):
            # Frequent in products of matrices: no bank conflicts, and two lanes stand for a warp.
            lanes = np.arange(len(place)).reshape(-1, 32)[:, :2].reshape(-1)
            with AmongLanes(lanes):
                self.check_races(place[lanes], at[lanes], size, writes, strong, value, line)
            return
        if self.launch.conflicts and access != "atomic access":
            self._count_of_lanes(place, at, size, line)
        self.check_races(place, at, size, writes, strong, value, line)

    def check_races(
        self, place: np.ndarray, at: np.ndarray, size: int, writes: bool, strong: bool,
        value: np.ndarray | None, line: int,
    ) -> None:  # fmt: skip
        """Checks an access to shared memory for races, and for copies that are under way."""
        if self.detector is not None:
            self._check_copies(at, size)
            block = self.block_of(place)
            self.detector.access(place, block, at, size, writes, strong, line, value)

    def _count_of_lanes(self, place: np.ndarray, at: np.ndarray, size: int, line: int) -> None:
        """Counts the bank conflicts of accesses, given by lane."""
        warps, row = np.unique(place >> 5, return_inverse=True)
        lanes = np.full((len(warps), 32), -1, i64)
        lanes[row, place & 31] = at >> 2
        first = lanes.max(1)
        lanes = np.where(lanes < 0, first[:, None], lanes)
        if size > 4:  # half a warp at a time, or a quarter
            lanes = (lanes[:, :, None] + np.arange(size // 4)).reshape(-1, 32)
        self.count_conflicts(lanes, line)

    def count_conflicts(self, words: np.ndarray, line: int) -> None:
        """Counts the bank conflicts of requests: see `bank_conflicts`."""
        if repeats := bank_conflicts(words):
            self.conflicts[line] = self.conflicts.get(line, 0) + repeats

    # ---- asynchronous copies

    def async_copy(
        self, place: np.ndarray, to: np.ndarray, offset: int, source: np.ndarray, more: int,
        size: int, read_size: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Begins to copy `size` bytes from global to shared memory. Of these, `read_size` bytes are
        read and the others become 0."""
        n = len(place)
        source = spread(with_offset(source, more), n)
        at = spread(self.inside("shared", place, to, offset, size, "asynchronous write"), n)
        count = spread(np.array([size]) if read_size is None else read_size, n)
        rows = np.zeros((n, size), u8)
        for width in np.unique(count).tolist():
            some = np.flatnonzero(count == width)
            here = source[some]
            with AmongLanes(some):
                if width:
                    self.memory.check(here, 1, "asynchronous read")
                    self.memory.check(here + u64(width - 1), 1, "asynchronous read")
                if width == size and (bad := first(here % u64(size) != 0)) is not None:
                    message = f"misaligned asynchronous read of {size} bytes"
                    raise Fault(Misaligned, message, bad)
            index = flat_index(here, 1)[:, None] + np.arange(width)
            rows[some[:, None], np.arange(width)] = flat(u8)[index]
        self.awaited[_words(at, size)] = True
        group = self.committed[place]
        self.copies.append(
            {
                "place": place,
                "at": at,
                "rows": rows,
                "group": group,
                "line": self.line(),
                "barrier": np.full(n, -1),
            }
        )

    def async_commit(self, place: np.ndarray) -> None:
        self.committed[place] += 1

    def async_wait(self, place: np.ndarray, pending: int) -> None:
        """All but the last `pending` groups of these threads arrive; -1: all there are."""
        groups = self.committed
        if pending < 0:
            groups[place] += 1
            pending = 0
        waiting = np.zeros(len(groups), bool)
        waiting[place] = True
        arrived, left = [], []
        for copy in self.copies:
            arrives = waiting[copy["place"]] & (copy["group"] < groups[copy["place"]] - pending)
            for parts, mask in ((arrived, arrives), (left, ~arrives)):
                if np.count_nonzero(mask):
                    parts.append({k: v if k == "line" else v[mask] for k, v in copy.items()})
        self.copies = []  # those that arrive do not wait for each other
        for copy in arrived:
            self._deliver(copy)
        self.copies = left
        for copy in left:  # which may have a target in common with one that has arrived
            self.awaited[_words(copy["at"], copy["rows"].shape[1])] = True

    def _deliver(self, copy: dict[str, Any]) -> None:
        at, rows = copy["at"], copy["rows"]
        self.shared[at[:, None] + np.arange(rows.shape[1])] = rows
        self.awaited[_words(at, rows.shape[1])] = False
        if self.detector is not None:
            size = max(rows.shape[1], self.detector.grain)
            self.check_races(copy["place"], at, size, True, False, None, copy["line"])

    def _check_copies(self, at: np.ndarray, size: int) -> None:
        """Raises a `Fault` if an access touches the target of a copy that has not arrived."""
        if not self.copies or not np.count_nonzero(self.awaited[_words(at, size)]):
            return
        for copy in self.copies:
            targets = np.sort(copy["at"])
            length = copy["rows"].shape[1]
            k = np.searchsorted(targets, at + size, "left") - 1
            hit = (k >= 0) & (targets[np.maximum(k, 0)] + length > at)
            if np.count_nonzero(hit):
                raise Fault(
                    Race,
                    "race in shared memory: an access to the target of an asynchronous copy "
                    f"(cp.async at line {self.launch.line_text(copy['line'])}) that has not been "
                    "waited for",
                    int(np.flatnonzero(hit)[0]),
                )

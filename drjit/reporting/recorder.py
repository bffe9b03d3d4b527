"""What is noted while a report records: events, launches, the user's lines, memory. It keeps
numbers, lines and kernels, never a buffer, and not more than a bounded number of each.

Times are seconds of `time.perf_counter` until `report` makes microseconds of them.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from ..jit import flags, locks
from ..jit.device import devices
from ..jit.ir import label
from ..jit.ir.location import user_location
from ..jit.ir.node import BUFFER, LITERAL, Node, next_serial
from ..jit.run import events, history
from ..jit.text import names, program, source, structure
from . import derivatives, why

MOST_EVENTS = 20_000
MOST_SAMPLES = 2_000
SETTLED = 3  # evaluations without a new kernel, after which lines are noted if there is time
_NODE_SECONDS = 8e-6  # that noting the line of a node takes
_FREE_SECONDS, _SHARE = 0.2, 0.03  # that it may take in all, and for each second
_TRIES = 3  # how often the lines of a kernel are looked for
_PENDING = 1 << 8  # launches whose times are not taken before there are so many
_MARK = "@"  # before the number of a place, in the comments of a text
_NOTABLE = 1e-4  # seconds for lanes, above which they are shown
_DETAIL = 2_000  # events of a kind in one thread that are told apart at least


class Event(NamedTuple):
    """Something that took time in a thread. `kernel` is the number of one that was met, or -1.
    `count` is how many it stands for, of which `busy` seconds are left where others came in
    between. What is kept are plain tuples of these, which Python's collector need not look at."""

    kind: str
    thread: int | str  # its identifier, or a name for what Python does not know as a thread
    start: float
    end: float
    place: int
    kernel: int = -1
    text: str = ""
    first: int = 0  # the serial numbers of nodes at both times, where known
    last: int = 0
    count: int = 1
    busy: float = 0.0


class Met:
    """A kernel that was launched or compiled meanwhile."""

    def __init__(self, kernel: Any, number: int) -> None:
        self.kernel, self.number = kernel, number
        self.text: list[str] = kernel.text.rstrip("\n").split("\n")
        self.whole = ""  # the operation that it belongs to, where no program made it
        self.sizes: Counter[int] = Counter()
        self.modes: Counter[str] = Counter()
        self.where: Counter[int] = Counter()  # the places of its launches
        self.launches = 0
        self.seconds = self.compile_seconds = 0.0
        self.tries = 0
        self.places: list[int] | None = None  # of the lines of its text
        self.names: dict[str, str] = {}
        self.at, self.flags = time.perf_counter(), flags.current
        self.values: dict[Any, dict[str, Any]] = {}  # what functions had when they traced it

    def learn(self, place: Any, roots: Sequence[Node], values: why.Values) -> None:
        """Finds out which line of the user's each line of the text is from, if that was noted for
        the nodes that led to it. The text is rendered again, and compared with what is known."""
        nodes, _ = structure.canonicalize(structure.ProgramGraph([*roots]), roots, again=True)
        values.collect(self.values, nodes)
        notes, marks = label.notes(nodes), {}
        # The place, the name, and what the text has for a comment in debug mode.
        rows: dict[str, tuple[int, str, str]] = {"": (0, "", "")}
        for n in nodes:
            location, note = label.place_of(n), notes.get(n, "")
            if location or note:
                marks[n] = str(len(rows))
                rows[marks[n]] = place(location), getattr(note, "name", ""), note
        if 2 * len(marks) < sum([n.op is not BUFFER and n.op is not LITERAL for n in nodes]):
            return
        built = program.build(nodes, [*roots], marks)
        found = [rows[i.label] for i in built.instrs]
        built = names.without_labels(built)._replace(streams=self.kernel.program.streams)
        if flags.current & flags.JitFlag.Debug:
            noted = [i._replace(label=row[2]) for i, row in zip(built.instrs, found, strict=True)]
            built = built._replace(instrs=tuple(noted))
        given = [label.Note(f"{_MARK}{number}", name) for number, name, _ in found]
        text, scopes = source.rendered(built, given, everywhere=True)
        shown = names.chosen(text, scopes)
        mine = [x.partition("  # ")[0] for x in self.text]
        for known in (text, names.renamed(text, shown)):
            lines = [x.partition("  # ") for x in known.split("\n")[:-1]]
            if [x[0] for x in lines] == mine:
                self.names = shown["kernel"]
                self.places = [int(x[2].removeprefix(_MARK) or 0) for x in lines]
                return


class Recorder(events.Sink):
    """Takes note of events from its creation until `finish`."""

    def __init__(self, gradients: bool = False) -> None:
        self.started, self.ended = time.perf_counter(), 0.0
        self.date = time.time()
        self.main = threading.get_ident()
        self.threads = {self.main: "main"}  # names, of which those that compile have none
        self.began_at = user_location()
        self.locations: list[tuple] = [()]
        self._places: dict[tuple, int] = {}
        self.kernels: dict[Any, Met] = {}
        self._numbers = count()
        self.events: list[tuple] = []
        self._raw: deque[tuple] = deque()  # threads append, and none is lost where it is emptied
        self._pending: deque[tuple] = deque()
        self._limit = _PENDING
        self._idle = (self.started, next_serial())  # since when the main thread traces
        self._inside: dict[int, int] = {}  # the places of what threads are doing, -1 for nothing
        self._quiet, self._new = 0, False
        self._noted, self._serial = 0, self._idle[1]  # nodes with lines, and the newest one
        self.memory: list[tuple[float, int]] = []
        self._interval, self._sampled = 1e-4, 0.0
        self.merged = self.lost = self.forks = self.unread = 0
        self.is_child = False
        self.before = {k: k.tier for d in devices() for k in d.kernels()}
        self.values = why.Values()
        self.recordings: list[tuple[float, str, int]] = []  # of frozen functions, and why
        self.derivatives = derivatives.Derivatives(gradients)
        self.lanes: Any = None  # a `lanes.LaneRecorder`

    # ---- What jit calls

    def begin(self) -> tuple[float, int, int, int]:
        outer, place = self._here()
        self._inside[threading.get_ident()] = place
        return time.perf_counter(), next_serial(), place, outer

    def end(self, kind: str, start: tuple[float, int, int, int], text: str = "") -> None:
        begun, first, place, outer = start
        now, last, me = time.perf_counter(), next_serial(), self._thread()
        self._inside[me] = outer
        self._add(kind, me, begun, now, place, text=text, first=first, last=last)
        if kind == "schedule":
            self.values.restart()
            if me == self.main:
                self._look(now, last)

    def made(self, kind: str, start: float, kernel: Any, text: str = "") -> None:
        known, now, (_, place) = self.met(kernel), time.perf_counter(), self._here()
        known.compile_seconds += now - start
        self._add(kind, self._thread(), start, now, place, known.number, text)

    def meet(self, kernel: Any, roots: Sequence[Node]) -> None:
        known = self.met(kernel)
        if known.places is None and known.tries < _TRIES:
            known.tries, self._new = known.tries + 1, True
            if kernel.program is not None and (label.noted or label.locations):
                try:
                    known.learn(self.place, roots, self.values)
                except Exception:  # a program must not fail because somebody looks at it
                    self.unread += 1

    def launching(self, kernel: Any, size: int, operands: Any) -> Any:
        if self.lanes is None:
            return None
        after = self._looking(self.lanes.launching, kernel, size, operands)
        return after and partial(self._looking, after)

    def _looking(self, look: Callable, *arguments: Any) -> Any:
        """Records lanes, and notes the time that this took, which is not the program's."""
        start = time.perf_counter()
        found = look(*arguments)
        now, (_, place) = time.perf_counter(), self._here()
        if now - start > _NOTABLE:
            self._add("lanes", self._thread(), start, now, place)
        return found

    def launched(self, launch: history.Launch) -> None:
        known, now = self.met(launch.kernel), time.perf_counter()
        _, place = self._here()
        known.launches += 1
        known.sizes[launch.size] += 1
        known.where[place] += 1
        if launch.mode != "Inactive":
            known.modes[launch.mode] += 1
        if launch.whole is not None:
            known.whole = launch.whole.kind
        self._pending.append((known, launch.time, place, self._thread(), now))
        if now - self._sampled > self._interval:
            self._sample(now)
        if len(self._pending) >= self._limit:
            self._settle(False)

    def frozen(self, text: str) -> None:
        self.recordings.append((time.perf_counter(), text, self.place(user_location(3))))

    def traversal(self, mode: str, variables: list[Any]) -> Any:
        _, place = self._here()
        try:
            return self.derivatives.traversal(mode, variables, place, self.place)
        except Exception:  # as above
            self.derivatives.left_out += 1
            return None

    def lose(self, kind: str, what: str = "") -> None:
        self.derivatives.lost(kind, what, self.place(user_location(3)))

    def _add(self, *event: Any, **more: Any) -> None:
        """Adds an `Event`, given its fields."""
        self._raw.append((*Event(*event, **more),))

    def _here(self) -> tuple[int, int]:
        """Returns the place of what this thread is doing, if that is known, and where it is."""
        outer = self._inside.get(threading.get_ident(), -1)
        return outer, self.place(user_location(3)) if outer < 0 else outer

    def _thread(self) -> int:
        """Returns the identifier of the calling thread, whose name is noted while it is alive."""
        me = threading.get_ident()
        if me not in self.threads:
            own = locks.is_own_thread()
            self.threads[me] = "" if own else threading.current_thread().name
        return me

    # ---- Places

    def place(self, location: tuple) -> int:
        """Returns the number of a location. Code is compared by its identity, which is quicker."""
        if not location:
            return 0
        key = id(location[0]), *location[1:]
        found = self._places.get(key)
        if found is None:
            found = self._places.setdefault(key, len(self.locations))
            if found == len(self.locations):
                self.locations.append(location)
        return found

    def met(self, kernel: Any) -> Met:
        known = self.kernels.get(kernel)
        return known or self.kernels.setdefault(kernel, Met(kernel, next(self._numbers)))

    def earlier(self) -> list[Met]:
        """Returns the kernels that there were when it began."""
        found = [self.kernels.get(k) or Met(k, -1) for k in self.before]
        for met in found:
            met.flags = -1
        return found

    def _look(self, now: float, serial: int) -> None:
        """Has lines noted as long as there are kernels whose lines are not known, and then as much
        as there is time for it: another kernel may follow."""
        self._quiet = 0 if self._new else self._quiet + 1
        self._new = False
        if flags.lines_are_noted:
            self._noted += serial - self._serial
        self._serial = serial
        seconds = _FREE_SECONDS + _SHARE * (now - self.started)
        is_cheap = self.lanes is not None or self._noted * _NODE_SECONDS < seconds
        if events.sink is self:
            flags.note_lines(is_cheap or self._quiet < SETTLED)

    # ---- Bounds

    def _sample(self, now: float) -> None:
        """Takes note of the memory in use, further and further apart."""
        self._sampled = now
        in_use = sum([d.memory_statistics()["in_use"] for d in devices()])
        self.memory.append((now, in_use))
        if len(self.memory) > MOST_SAMPLES:
            pairs = zip(self.memory[::2], self.memory[1::2], strict=False)
            self.memory = [max(pair, key=lambda row: row[1]) for pair in pairs]
            self._interval *= 2

    def _settle(self, final: bool) -> None:
        """Takes the times of launches that have ended, and makes room."""
        marks: dict[Any, tuple[Any, float]] = {}
        pending, kept = self._pending, []
        crowded = final or len(pending) > MOST_EVENTS
        while pending:
            known, at, place, thread, now = row = pending.popleft()
            if isinstance(at, float):  # ran as Python
                known.seconds += at
                self._add("kernel", thread, now - at, now, place, known.number)
            elif hasattr(at, "interval"):
                if crowded:
                    self._on_gpu(known, at, place, marks)
                else:
                    kept.append(row)
            elif at.end:
                known.seconds += at.last * 1e-9
                self._shares(known, at, place, thread)
            elif final:
                self.lost += 1
            else:
                kept.append(row)
                break
        pending.extendleft(reversed(kept))
        self._limit = 2 * len(pending) + _PENDING
        if final or len(self._raw) > 2 * MOST_EVENTS:
            self._trace()
            self._merge()

    def _shares(self, known: Met, at: Any, place: int, thread: int) -> None:
        """Adds what each thread did of a launch."""
        last = len(at.parts) - 1
        for k, part in enumerate(at.parts):
            if part.busy:
                who = thread if k == last else f"worker {k + 1}"
                begun, ended, busy = part.first * 1e-9, part.last * 1e-9, part.busy * 1e-9
                self._add("kernel", who, begun, ended, place, known.number, busy=busy)

    def _on_gpu(self, known: Met, at: Any, place: int, marks: dict[Any, tuple[Any, float]]) -> None:
        """Adds a launch whose times are events in the stream of a GPU. A `mark` there says how
        these are to be read."""
        device = known.kernel.device
        try:
            if device not in marks:
                mark = device.event()
                mark.record()
                while not mark.query():  # errors are left for who reads
                    time.sleep(1e-4)
                marks[device] = mark, time.perf_counter()
            start, end = at.interval(*marks[device])
        except RuntimeError:  # the device can no longer be used
            self.lost += 1
            return
        known.seconds += end - start
        self._add("kernel", device.backend.name, start, end, place, known.number)

    def _trace(self) -> None:
        """Adds what the main thread traced between its other events: where nodes were made."""
        since, serial = self._idle
        new = [self._raw.popleft() for _ in range(len(self._raw))]
        own = [e for row in new if (e := Event._make(row)).thread == self.main and e.first]
        for e in sorted(own, key=lambda e: e.start):
            made = e.first - serial - 1
            if e.start > since and made > 0:
                text = f"{made} operation{'s' * (made != 1)}"
                traced = Event("trace", self.main, since, e.start, e.place, text=text)
                self.events.append((*traced,))
            if e.end > since:
                since, serial = e.end, e.last
        self._idle = since, serial
        self.events += new

    def _merge(self) -> None:
        """Joins events of one kind, thread and kernel that follow each other closely, and more and
        more of them, until there are not too many."""
        before = len(self.events)
        if before <= MOST_EVENTS:
            return
        found = sorted(map(Event._make, self.events), key=lambda e: e.start)
        gap = (found[-1].end - found[0].start) / (4 * _DETAIL)
        for by_kernel in (True, True, True, False, False):
            if len(found) > MOST_EVENTS * 3 // 4:
                found = _joined(found, gap, by_kernel)
                gap *= 2
        self.events = [(*e,) for e in found]
        self.merged += before - len(found)

    # ---- The end

    def finish(self, wait: bool) -> None:
        """Takes what is left, after kernels have ended if there is time to `wait`."""
        if wait:
            for settle in locks.settle_hooks:  # as before a fork: errors are left for who reads
                settle()
        self.ended = time.perf_counter()
        self._sample(self.ended)
        self._settle(True)


def _joined(found: list[Event], gap: float, by_kernel: bool) -> list[Event]:
    """Joins events that are not further apart."""

    def row(e: Event) -> tuple:
        return e.kind, e.thread, e.kernel if by_kernel else -1

    joined: list[Event] = []
    for e in sorted(found, key=lambda e: (*map(str, row(e)), e.start)):
        last = joined[-1] if joined else e
        if last is e or row(last) != row(e) or e.start - last.end >= gap:
            joined.append(e)
            continue
        joined[-1] = last._replace(
            end=max(last.end, e.end), kernel=e.kernel if e.kernel == last.kernel else -1,
            count=last.count + e.count, busy=sum([x.busy or x.end - x.start for x in (last, e)]),
            text=last.text if last.text == e.text else "",
            place=last.place if last.place == e.place else 0,
        )  # fmt: skip
    return sorted(joined, key=lambda e: e.start)


def _after_fork(in_child: bool) -> None:
    """What a child does is no part of a report of its parent."""
    recorder = events.sink
    if isinstance(recorder, Recorder):
        recorder.forks += 1
        if in_child:
            recorder.is_child = True
            stop(recorder)


def start(gradients: bool = False) -> Recorder:
    """Begins to record, also the norms of `gradients`.

    Raises:
        RuntimeError: another report is being recorded.
    """
    from ..jit.ir.location import describe

    with locks.lock:
        if isinstance(other := events.sink, Recorder):
            where = describe(other.began_at)
            raise RuntimeError(f"dr.report(): a report is being recorded already ({where}).")
        events.sink = recorder = Recorder(gradients)
        flags.current |= flags.JitFlag.Record
        label.on_note = recorder.values.note
        flags.note_lines(True)
    return recorder


def stop(recorder: Recorder) -> None:
    """Ends that."""
    with locks.lock:
        if events.sink is recorder:
            events.sink = None
            flags.current &= ~flags.JitFlag.Record
            flags.note_lines(False)
            label.on_note = None


locks.resume_hooks.append(_after_fork)

"""What native code reads and writes: structures of its own, and Python's objects.

A structure is declared by its fields, each a word, or an array of words or structures. Of an object
with slots, only the attributes are declared: where the interpreter stores them is found by looking
at an object with known contents (`attributes`); if that is not possible, there is no native code.
"""

import ctypes
import functools
import math
import struct
import sys
import weakref
from array import array as words_of
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ..ir import dtype as dt
from ..ir import op, scope
from ..ir.node import BUFFER, LITERAL, serials
from ..ir.node import Node as _Node

T = TypeVar("T")
Word = Any

_word, _WORD = ctypes.c_int64, 8
_HEAD = object.__basicsize__
# The offsets in objects of their type, their length, the items of a list (an address) and of a
# tuple, the bits of a float, the data of bytes, the owner of a bound function, and the referent of
# a weak reference.
TYPE, SIZE, LIST, ITEMS = _HEAD - 8, _HEAD, _HEAD + 8, tuple.__basicsize__
NUMBER, CONTENTS, OWNER = float.__basicsize__ - 8, bytes.__basicsize__ - 1, _HEAD + 8
REFERENT = _HEAD
DIGIT = int.__basicsize__  # where the digits of a number begin
LARGEST_DIGIT = (1 << 30) - 1


class Array(Generic[T]):
    """An array in a structure; an index is taken modulo its length."""

    def __init__(self, kind: Any, length: int) -> None:
        self.kind, self.length = kind, length

    def __getitem__(self, index: int) -> T:
        raise NotImplementedError  # only native code does this


def words(length: int) -> Array[Word]:
    """Declares an array of words."""
    return Array(_word, length)


def array(kind: type[T], length: int) -> Array[T]:
    """Declares an array of structures."""
    return Array(kind, length)


class Structure:
    """The base class of structures, which only declare fields."""

    def __add__(self, nbytes: int) -> Any: ...  # only native code does this


class Object(Structure):
    """The base class of declarations of Python's objects."""


samples: dict[type, Callable[[], object]] = {}
"""Functions that create objects whose attributes native code knows, by their declaration; set by
the packages that define the classes."""

_attributes: dict[type, dict[str, int]] = {}


def is_structure(kind: type) -> bool:
    """Returns whether a class declares fields."""
    return issubclass(kind, Structure)


@functools.cache
def layout(kind: Any) -> Any:
    """Returns the ctypes structure that a class declares. Python can read and write its fields,
    except those inherited from the structure that it begins with."""
    (above,) = kind.__bases__
    fields = [] if above is Structure else [("_above", _word * (size_of(above) // _WORD))]
    fields += [(name, _declared(kind, name)) for name in kind.__annotations__]
    return type(kind.__name__, (ctypes.Structure,), {"_fields_": fields})


def _declared(kind: type, name: str) -> Any:
    """Returns the ctypes type of a field: a word if nothing else is declared."""
    field = vars(kind).get(name)
    if field is None:
        return _word
    return (field.kind if field.kind is _word else layout(field.kind)) * field.length


class Unknown(Exception):
    """The interpreter's objects are laid out in another way."""


def attributes(kind: type) -> dict[str, int]:
    """Returns the offsets, in bytes, of the attributes that a class declares in the objects that it
    stands for.

    Raises:
        Unknown: they are laid out in another way.
    """
    if kind not in _attributes:
        made: Any = samples[kind]()
        marks = {name: object() for name in kind.__annotations__}
        before = [(name, getattr(made, name, None)) for name in marks]
        for name, mark in marks.items():
            setattr(made, name, mark)
        words = memory_of(made)
        for name, value in before:
            setattr(made, name, value)
        if any(words.count(id(mark)) != 1 for mark in marks.values()):
            raise Unknown
        _attributes[kind] = {name: 8 * words.index(id(mark)) for name, mark in marks.items()}
    return _attributes[kind]


def offset(kind: type, field: str) -> int:
    """Returns the offset of a field in bytes."""
    return attributes(kind)[field] if issubclass(kind, Object) else _places(kind)[field]


@functools.cache
def _places(kind: type) -> dict[str, int]:
    """Returns the offsets of a structure's fields, and its size as that of the empty name."""
    (above,) = kind.__bases__
    places = {"": 0} if above is Structure else {**_places(above)}
    for name in kind.__annotations__:
        places[name] = places[""]
        places[""] += math.prod(array_size(kind, name)) if name in vars(kind) else _WORD
    return places


def entry(kind: type, field: str) -> type | None:
    """Returns the structure of an array's entries, or None for words."""
    declared = _array(kind, field).kind
    return None if declared is _word else declared


def array_size(kind: type, field: str) -> tuple[int, int]:
    """Returns the size in bytes of an entry of an array, and its length."""
    declared = _array(kind, field)
    of = declared.kind
    return _WORD if of is _word else size_of(of), declared.length


def _array(kind: type, field: str) -> Array:
    return getattr(kind, field)


def size_of(kind: type) -> int:
    """Returns the size of a structure in bytes."""
    return _places(kind)[""]


def memory_of(thing: Any) -> list[int]:
    """Returns the memory of an object, as words."""
    size = type(thing).__basicsize__ // 8 * 8
    return [*words_of("q", ctypes.string_at(id(thing), size))]


def word_at(address: int) -> int:
    """Returns a word in memory."""
    return _word.from_address(address).value


# ---- Python's objects


class Node(Object):
    op: Word
    dtype: Word
    size: Word
    deps: Word
    data: Word
    mark: Word
    id: Word
    serial: Word


class Op(Object):
    code: Word


class DType(Object):
    number: Word


class Effect(Object):
    buffer: Word
    dtype: Word
    mode: Word
    order: Word
    reduce: Word
    shape: Word
    size: Word


class BlockData(Object):
    counts: Word
    depth: Word
    shared: Word
    values: Word


class Buffer(Object):
    address: Word
    source: Word
    _block: Word


class Block(Object):
    address: Word
    capacity: Word
    free: Word
    ticket: Word


class Var(Object):
    rule: Word
    deps: Word
    dtype: Word
    size: Word
    inputs: Word
    result: Word
    data: Word
    grad: Word
    grad_var: Word
    mark: Word
    serial: Word


class GradScope(Object):
    all: Word
    tape: Word
    variables: Word


samples[Node] = _Node
samples[Op] = lambda: object.__new__(op.Op)
samples[DType] = lambda: object.__new__(dt.DType)
samples[BlockData] = lambda: object.__new__(scope.BlockData)


def are_known(kinds: Iterable[type]) -> bool:
    """Returns whether the interpreter's objects, and those that `kinds` declare, are laid out as
    native code expects."""
    if sys.implementation.name != "cpython" or is_free_threaded():
        return False
    try:
        for kind in kinds:
            attributes(kind)
    except Unknown:
        return False
    one, other = _Node(), _Node()
    pair, pairs, number = (one, other), [one, other], 1.25
    append, reference = pairs.append, weakref.ref(one)
    return (
        word_at(id(one) + TYPE) == id(_Node)
        and word_at(id(pair) + SIZE) == word_at(id(pairs) + SIZE) == 2
        and word_at(id(pair) + ITEMS + 8) == id(other)
        and word_at(id(append) + OWNER) == id(pairs)
        and word_at(id(reference) + REFERENT) == id(one)
        and word_at(word_at(id(pairs) + LIST) + 8) == id(other)
        and word_at(id(number) + NUMBER) == struct.unpack("<q", struct.pack("<d", number))[0]
        and all(word_at(id(n) + DIGIT) & LARGEST_DIGIT == n for n in (0, LARGEST_DIGIT))
    )


def is_free_threaded() -> bool:
    """Returns whether this Python is built to run without the GIL, even if it has one now."""
    return "free-threading" in sys.version


# ---- Python's functions and objects, at the beginning of the structures of code that uses them


_FUNCTIONS = {
    "integer": "PyLong_AsLongLong", "unsigned": "PyLong_AsUnsignedLongLongMask",
    "number": "PyLong_FromLongLong", "from_unsigned": "PyLong_FromUnsignedLong",
    "append": "PyList_Append", "bytes": "PyBytes_FromStringAndSize", "tuple": "PyTuple_New",
    "next": "PyIter_Next", "allocate": "PyType_GenericAlloc", "incref": "Py_IncRef",
    "decref": "Py_DecRef", "error": "PyErr_Occurred", "item": "PyObject_GetItem",
    "entries": "PyDict_Size", "call": "PyObject_Vectorcall", "truth": "PyBool_FromLong",
    "thread": "PyThread_get_thread_ident", "find": "PyDict_GetItemWithError",
    "members": "PySet_Size", "fetch": "PyErr_Fetch", "restore": "PyErr_Restore",
    "report": "PyErr_WriteUnraisable",
}  # fmt: skip
_OBJECTS = {
    "none": None, "float_type": float, "int_type": int, "bool_type": bool, "empty": (),
    "method_type": type([].append), "literal": LITERAL, "buffer": BUFFER, "node_type": _Node,
    "serials": serials, "zero": 0, "one": 1, "false": False,
}  # fmt: skip


class Api(Structure):
    """The addresses of these functions and objects, by name."""

    __annotations__ = dict.fromkeys((*_FUNCTIONS, *_OBJECTS), Word)

    def __getattr__(self, name: str) -> Word: ...


def fill(api: Any, **others: Any) -> None:
    """Writes the addresses of Python's functions and objects, and those of `others`, which must
    stay alive, to a structure that begins with an `Api`."""
    words = _api()
    ctypes.memmove(ctypes.addressof(api), words, ctypes.sizeof(words))
    for name, thing in others.items():
        setattr(api, name, id(thing))


@functools.cache
def _api() -> Any:
    """Returns the contents of an `Api`."""
    words = (_word * (size_of(Api) // _WORD))()
    for name, function in _FUNCTIONS.items():
        words[offset(Api, name) // _WORD] = address_of(getattr(ctypes.pythonapi, function))
    for name, thing in _OBJECTS.items():
        words[offset(Api, name) // _WORD] = id(thing)
    return words


def address_of(function: Any) -> int:
    """Returns the address of a C function."""
    return _word.from_buffer(function).value


# ---- The launcher

JOBS = 256  # jobs that can be in flight, a power of two
WAITERS = 32  # Python threads that can park in `wait_for`
WORKERS = 512


class Job(Structure):
    """A launch. `claim` holds the ticket (upper half) and the number of unclaimed blocks, `closed`
    the address of the entry of a kernel that is not compiled yet."""

    kernel: Word
    finish: Word
    params: Word
    size: Word
    block: Word
    blocks: Word
    threads: Word
    times: Word
    claim: Word
    done: Word
    closed: Word
    _pad: Array[Word] = words(5)


class Times(Structure):
    """The start and end of a launch, in nanoseconds of `time.perf_counter_ns`, and its duration;
    the total duration of all launches that share this record, and their number. `whole` is 0, or
    the address of another record in which they count as well, `shares` that of a `Share` for each
    worker and then one for the calling thread."""

    start: Word
    end: Word
    last: Word
    total: Word
    launches: Word
    whole: Word
    shares: Word


class Share(Structure):
    """What a thread did of a launch: when its first block began, when the last one ended, and how
    many nanoseconds the blocks took."""

    first: Word
    last: Word
    busy: Word


class JobEntry(Structure):
    """What `start` runs: the functions of a kernel, the address of its `Times`, the offset of its
    parameter block, and the number of lanes, 0 if `start` gets that as an argument."""

    kernel: Word
    finish: Word
    times: Word
    params: Word
    size: Word


class Seat(Structure):
    """Where a thread parks. `state` is nonzero while it may sleep: for waiters, their ticket."""

    lock: Word
    state: Word
    _pad: Array[Word] = words(6)


class Control(Structure):
    """The control block; fields that change often have cache lines of their own."""

    acquire: Word
    release: Word
    relax: Word
    clock: Word
    tick: Word
    spin: Word
    workers: Word
    submitted: Word
    stop: Word
    integer: Word
    truth: Word
    entered: Word
    left: Word
    started: Word
    _pad1: Array[Word] = words(1)
    completed: Word
    _pad2: Array[Word] = words(7)
    spinning: Word
    parked: Word
    waiting: Word
    _pad3: Array[Word] = words(5)
    jobs: Array[Job] = array(Job, JOBS)
    waiters: Array[Seat] = array(Seat, WAITERS)
    seats: Array[Seat] = array(Seat, WORKERS)


class Shared(Structure):
    """A launch of an exported function (drjit.jit.cpu.exported): `next` is the first block that
    no thread has taken, `entered` the number of threads so far. For the pool, `wanted` says how
    many more may join, `inside` how many have and are not done, and `link` is another launch."""

    kernel: Word
    params: Word
    size: Word
    block: Word
    blocks: Word
    copies: Word
    next: Word
    entered: Word
    wanted: Word
    inside: Word
    link: Word


class Cell(Structure):
    """A word."""

    word: Word


class Pool(Structure):
    """The threads of an object file: the process that has them, the launches that they may join,
    their number, how often they were asked to join, or -1 if they are to end, and their handles; a
    lock of the system, and conditions that there is `work`, and that it is `done`, which need up to
    64 bytes each."""

    process: Word
    launches: Word
    workers: Word
    asked: Word
    lock: Array[Word] = words(16)
    work: Array[Word] = words(16)
    done: Array[Word] = words(16)
    handles: Array[Word] = words(256)


# ---- Programs and plans (drjit.jit.cpu.plans, sequence)

VISITS, NOTES, KEY_WORDS, MOST_LITERALS = 1 << 16, 1 << 14, 1 << 16, 1 << 11
POSITIONS = 1 << 12
"""For positions of nodes below this, the Python numbers are created once."""
WORDS, OUTPUTS = 4096, 64  # of the key of a plan, and results of an evaluation that has one
SPARES = 16  # results of the largest plan that is found without Python


class NodeCell(Structure):
    """A node, the walk in which it was met, and in the lowest 20 bits its position or that of the
    first equal node."""

    object: Word
    state: Word


class Literal(Structure):
    """A literal's type and bits, its position, and the walk in which it was met."""

    dtype: Word
    bits: Word
    number: Word
    stamp: Word


class Note(Structure):
    """A node, or another object, and the list of a `ProgramGraph` to which it belongs."""

    list: Word
    thing: Word


INPUTS, LITERALS, NOTED, CHECKS, REGIONS, ROWS = range(1, 7)
"""The lists among the arguments of `structure.collect_nodes`."""


class Room(Structure):
    """Memory for a result: the list of free blocks, their size, and how many of that size the
    launches need."""

    pool: Word
    capacity: Word
    needed: Word
    _pad: Word


class Usage(Structure):
    """Bytes in use, and the most that there were."""

    in_use: Word
    peak: Word


class Result(Structure):
    """The type and the number of lanes of a result, as objects."""

    dtype: Word
    lanes: Word


class ScanHead(Api):
    """The part of the scratch memory `Scan` that Python reads and writes."""

    buffer_type: Word
    usage: Word
    positions: Word
    mark: Word
    stamp: Word
    visited: Word
    notes: Word
    length: Word
    literals_met: Word
    effects_met: Word
    open: Word
    hash: Word
    plan: Word
    failed: Word
    queued: Word
    spares_left: Word
    plans: Array[Word] = words(1024)
    order: Array[Word] = words(VISITS)
    key: Array[Word] = words(KEY_WORDS)


class Scan(ScanHead):
    """The scratch memory of this code."""

    spares: Array[Word] = words(2 * OUTPUTS)
    literals: Array[Literal] = array(Literal, 2 * MOST_LITERALS)
    cells: Array[NodeCell] = array(NodeCell, 2 * VISITS)
    noted: Array[Note] = array(Note, NOTES)


class Operand(Structure):
    """A word of a parameter block: its address, the position in bytes of the node that determines
    it, and how (`IS_INTEGER`, ...)."""

    place: Word
    position: Word
    kind: Word


IS_INTEGER, IS_SINGLE, IS_DOUBLE, IS_BUFFER, IS_CHECK, IS_TARGET, IS_SIZE = range(7)


class Step(Structure):
    """A launch: the `JobEntry` and the parameter block with its length in bytes, the number of
    lanes, whether there are bounds checks, and the number of results so far."""

    entry: Word
    block: Word
    length: Word
    size: Word
    checks: Word
    results: Word


class PlanRecord(Structure):
    """The launches of a plan. There are addresses of tables: `operands` that depend on nodes,
    `links` (operands that are results of earlier launches, by number), `steps` (launches, `count`
    of them), the `positions` of the `results` (their number) and their memory (`rooms`), and
    `made`, the `Result`s of a frozen function. `report` has the words for errors. `ways` says
    whether the calling thread may run the kernels (`IS_SMALL`), and whether they may be queued
    (`IS_QUEUED`). `done` and `finished` are the numbers of launches and results of the last time,
    and `launches` says how often the plan was performed."""

    operands: Word
    links: Word
    steps: Word
    count: Word
    results: Word
    positions: Word
    rooms: Word
    report: Word
    ways: Word
    done: Word
    finished: Word
    launches: Word
    made: Word


IS_SMALL, IS_QUEUED = 1, 2


class SizeOf(Structure):
    """The number of lanes that the node at a position has to have."""

    position: Word
    lanes: Word


class KnownPlan(Structure):
    """A plan that is found by the key of an evaluation, its hash and number of words, and by sizes;
    `next` is another plan with the same bucket."""

    next: Word
    hash: Word
    length: Word
    key: Word
    plan: Word
    sizes: Word
    count: Word


class Finalizer(Api):
    """What the destructor of buffers uses."""

    other: Word
    runtime: Word
    submitted: Word
    usage: Word


# ---- Operators (drjit.array.native_operators)


OTHERS = 32  # the position of the first in-place operator in `Operators.others`


class OperatorCell(Structure):
    """A class of arrays, and the address of its `OperatorRecord`s."""

    object: Word
    records: Word


class OperatorRecord(Structure):
    """What an operator does for arrays of a class: types and classes, the offsets of node and
    variable in their objects, tables of numbers that do not simplify the operation, functions of
    Python, and the rule of the derivative."""

    type: Word
    node: Word
    var: Word
    first: Word
    first_node: Word
    op: Word
    dtype: Word
    out: Word
    result: Word
    result_node: Word
    result_var: Word
    first_numbers: Word
    first_zero: Word
    numbers: Word
    zero: Word
    floats: Word
    in_code: Word
    fold: Word
    involution: Word
    idempotent: Word
    forward: Word
    backward: Word
    rule: Word
    keeps_inputs: Word
    keeps_result: Word


class Operators(Api):
    """The classes with native operators, by address, and Python's functions for all others; `off`
    is nonzero while Python's functions are to be called in any case."""

    var_type: Word
    inner_type: Word
    scopes: Word
    taped: Word
    off: Word
    cells: Array[OperatorCell] = array(OperatorCell, 512)
    others: Array[Word] = words(64)


def description(kinds: Iterable[type]) -> str:
    """Returns what native code that uses these declarations depends on besides its text."""
    found = [(kind.__name__, attributes(kind)) for kind in kinds]
    return repr((TYPE, SIZE, LIST, ITEMS, NUMBER, CONTENTS, OWNER, REFERENT, DIGIT, found))

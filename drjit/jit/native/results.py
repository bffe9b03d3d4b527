"""Memory for results, and the nodes that become buffers."""

from .language import Word, address, call, put, word
from .objects import LIST, OUTPUTS, SIZE, Block, Buffer, Node, Room, Scan, size_of
from .references import hold, replace

ROOM = size_of(Room)


def has_room(rooms: Word, count: Word) -> Word:
    """Whether the pools have memory for all results."""
    for k in range(count):
        room: Room = rooms + ROOM * k
        if word(room.pool + SIZE) < room.needed:
            return 0
    return 1


def prepare(s: Scan, count: Word) -> Word:
    """Makes new buffers without memory until there are `count`, perhaps one more: the garbage
    collector may run meanwhile, and in it code that evaluates. Returns 0 after an error."""
    if count > OUTPUTS:
        return 1
    while s.spares_left < count:
        x = call("i64(ptr, i64)", s.allocate, s.buffer_type, 0)
        if x == 0:
            return 0
        put(s.spares[s.spares_left], x)
        s.spares_left = s.spares_left + 1
    return 1


def taken(s: Scan, room: Room) -> Buffer:
    """Takes memory from a pool for one of the prepared buffers; returns the buffer."""
    pool = room.pool
    last = word(pool + SIZE) - 1
    put(pool + SIZE, last)
    block: Block = word(word(pool + LIST) + 8 * last)
    s.spares_left = s.spares_left - 1
    buffer: Buffer = word(s.spares[s.spares_left])
    buffer._block = block
    buffer.address = hold(s, block.address)
    buffer.source = hold(s, s.none)
    put(s.usage, word(s.usage) + room.capacity)
    return buffer


def finish_node(s: Scan, node: Node, buffer: Buffer) -> Word:
    """Turns a node into a buffer, given its data."""
    data = node.data
    node.data = buffer
    replace(s, address(node.op), s.buffer)
    call("void(ptr)", s.decref, data)


def drop_operands(s: Scan, node: Node) -> Word:
    """Drops the operands of a node that has become a buffer. Destructors may run."""
    if node.op == s.buffer and node.deps != s.empty:
        replace(s, address(node.deps), s.empty)

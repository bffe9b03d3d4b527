"""Operations in which lanes work together: prefix and block reductions, and compression of masks.
They read evaluated buffers, and are primitives of the device that holds these.
"""

from ..ir import dtype as dt
from ..ir.node import LITERAL, Node, buffer, lane, literal
from ..ir.op import identity
from ..run import schedule
from ..run.freeze import operation
from ..run.history import one_operation


@operation
@one_operation("BlockPrefixReduce", lambda reduce, a, *_: a.size)
def prefix(reduce: str, a: Node, exclusive: bool, block_size: int = 0) -> Node:
    """Returns the prefix reduction of all lanes, or within runs of `block_size` lanes."""
    n, t = a.size, a.dtype
    if n == 0:
        return literal(t, 0, 0)
    block_size = block_size or n
    if block_size == 1 or n == 1:
        return literal(t, identity(reduce, t), n) if exclusive else a
    source = schedule.materialize(a).data
    return buffer(t, n, source.device.prefix(reduce, t, n, source, exclusive, block_size))


def block_reduce(reduce: str, a: Node, block_size: int) -> Node:
    """Reduces each run of `block_size` lanes, which must divide the size."""
    return _block_reduce(reduce, a, block_size, a.size // block_size)


@operation
@one_operation("BlockReduce", lambda reduce, a, *_: a.size)
def _block_reduce(reduce: str, a: Node, block_size: int, count: int) -> Node:
    """Reduces `count` runs. A recording with this number is invalid for sizes that are not
    multiples."""
    t, n = a.dtype, a.size
    if block_size == 1 or n == 0:
        return a
    source = schedule.materialize(a).data
    return buffer(t, count, source.device.block_reduce(reduce, t, n, source, block_size))


@operation
@one_operation("BlockReduce", lambda reduce, a, *_: a.size)
def reduce_rows(reduce: str, a: Node, rows: int, columns: int) -> Node:
    """Reduces matrices of `rows` by `columns` lanes along their columns, with `columns` results for
    each.
    """
    t, n = a.dtype, a.size
    if rows == 1 or n == 0:
        return a
    source = schedule.materialize(a).data
    return buffer(t, n // rows, source.device.reduce_rows(reduce, t, n, source, rows, columns))


@operation(sized_by_data=True)
@one_operation("Compress", lambda mask: mask.size)
def compress(mask: Node) -> Node:
    """Returns the `u32` indices of the lanes where a mask is true.

    Waits for the mask, because the size of the result depends on it.
    """
    n = mask.size
    if mask.op is LITERAL:
        return lane(n) if mask.data else literal(dt.u32, 0, 0)
    if n == 0:
        return literal(dt.u32, 0, 0)
    source = schedule.materialize(mask).data
    found, size = source.device.compress(n, source)
    return buffer(dt.u32, size, found)

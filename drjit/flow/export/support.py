"""Functions that exported files may contain, for the part that runs on the host: what checks
arguments, and primitives on NumPy arrays.

This package reads the module as text and never imports it.
"""

import base64
import itertools
import math
import os
import zlib
from concurrent.futures import ThreadPoolExecutor

from ...jit.lazy import np

POOL = ThreadPoolExecutor(os.cpu_count())


def entries(value, dtype, name):
    """Returns an argument as a one-dimensional array."""
    found = value if isinstance(value, np.ndarray) else np.asarray(value, dtype)
    if found.dtype != dtype:
        if found.size and not np.can_cast(found.dtype, dtype, "same_kind"):
            raise TypeError(f"{name}: expected an array of {dtype.__name__}, got {found.dtype}")
        found = found.astype(dtype)
    if found.ndim > 1:
        raise ValueError(f"{name}: expected an array of one axis, got the shape {found.shape}")
    return np.ascontiguousarray(found.reshape(-1))


def shaped(value, shape, dtype, name, reason=""):
    """Returns the entries of an argument of a shape, in which one size may be None."""
    found = np.asarray(value)
    pairs = list(zip(found.shape, shape, strict=False))
    if len(found.shape) != len(shape) or any(m is not None and n != m for n, m in pairs):
        wanted = tuple("n" if m is None else m for m in shape)
        fixed = f" (the size {shape[0]} is fixed, because {reason})" if reason else ""
        raise ValueError(f"{name}: expected the shape {wanted}, got {found.shape}{fixed}")
    return entries(found.reshape(-1), dtype, name)


def field(value, name):
    """Returns an entry of a dictionary, or an attribute."""
    return value[name] if isinstance(value, dict) else getattr(value, name)


def sized(found, size, name, reason=""):
    """Checks the number of entries of an argument; `reason` says why it is fixed."""
    if found.size != size:
        fixed = f" (the size {size} is fixed, because {reason})" if reason else ""
        raise ValueError(f"{name}: expected {size} entries, got {found.size}{fixed}")


def holds(found, size, name):
    """Checks that the matrices and vectors that a kernel multiplies with are within an argument."""
    if found.size < size:
        raise ValueError(
            f"{name}: the matrices in it need {size} entries, got an array of {found.size}"
        )


def same(value, constant, name):
    """Checks an argument that was a Python number when the function was traced."""
    if value != constant:
        raise ValueError(f"{name}: the function was traced for {constant!r}, got {value!r}")


def check(error, sites):
    """Raises the error that a kernel has noted."""
    if error[0]:
        what, where, signed, packet = sites[error[1]]
        index, size = int(error[2]), int(error[3]) * packet
        if signed == 4 and index >= 1 << 31:
            index -= 1 << 32
        raise IndexError(
            f"{what}: index {index} is out of bounds for an array of size {size} "
            f"(lane {error[4]}; traced at {where})"
        )


def data(text, dtype):
    """Returns an array from compressed text."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype)


def stacked(parts):
    """Returns the components of an array as the first axes of one array."""
    rows = [stacked(p) if isinstance(p, list) else p for p in parts]
    return np.stack(np.broadcast_arrays(*rows))


FOLDS = {
    "add": np.add, "mul": np.multiply, "min": np.fmin, "max": np.fmax,
    "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip


def spans(n, most):
    """Returns where chunks of n lanes begin and end."""
    tiles, count = (n + 63) // 64, max(1, min(most, n // 2048))
    bounds = [min(n, tiles * t // count * 64) for t in range(count + 1)]
    return [(np.uint64(a), np.uint64(b)) for a, b in itertools.pairwise(bounds)]


def in_parallel(kernel, chunks):
    """Calls a kernel for the arguments of each chunk, in threads, and returns the results."""
    if len(chunks) == 1:
        return [kernel(*chunks[0])]
    return list(POOL.map(lambda given: kernel(*given), chunks))


def joined(op, found):
    """Returns the reduction of the results of chunks, in order."""
    if op == "add" and isinstance(found[0], float) and np.isfinite(found).all():
        return math.fsum(found)
    return FOLDS[op].reduce(np.array(found))


def accumulator(a):
    """Returns the type in which reductions of an array are made."""
    return np.float32 if a.dtype == np.float16 else a.dtype


def prefix(op, a, exclusive, run, start):
    """Returns running reductions within runs of some length, 0 for all entries."""
    rows = a.reshape(-1, run or max(a.size, 1)).astype(accumulator(a))
    found = FOLDS[op].accumulate(rows, axis=1, dtype=rows.dtype)
    if exclusive:
        first = np.full((len(rows), 1), start, rows.dtype)
        found = np.concatenate([first, found[:, :-1]], axis=1)
    return found.astype(a.dtype).ravel()


def block_reduce(op, a, run):
    """Returns the reduction of each run of entries."""
    return FOLDS[op].reduce(a.reshape(-1, run), axis=1, dtype=accumulator(a)).astype(a.dtype)


def reduce_rows(op, a, rows, columns, start):
    """Returns the reductions of matrices along their columns; of a matrix without rows `start`."""
    if rows == 0:
        return np.full(columns, start, a.dtype)
    source = np.ascontiguousarray(a.reshape(-1, rows, columns).swapaxes(1, 2))
    return FOLDS[op].reduce(source, axis=2, dtype=accumulator(a)).astype(a.dtype).ravel()


def sort(keys, payload):
    """Returns the keys in order, or the payload in that of the keys; equal keys keep theirs."""
    return (keys if payload is None else payload)[np.argsort(keys, kind="stable")]


def products(a, b, sizes, transposed, offsets):
    """Returns products of matrices that begin at offsets of two buffers."""
    m, n, k = sizes
    found = []
    for i, j in offsets:
        x, y = (v.astype(accumulator(v), copy=False) for v in (a[i : i + m * k], b[j : j + k * n]))
        x = x.reshape(k, m).T if transposed[0] else x.reshape(m, k)
        y = y.reshape(n, k).T if transposed[1] else y.reshape(k, n)
        found.append((x @ y).astype(a.dtype).ravel())
    return np.concatenate(found) if found else np.empty(0, a.dtype)

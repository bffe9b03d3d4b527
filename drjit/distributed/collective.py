"""Operations on arrays that all processes carry out together, with their derivatives."""

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..array import leaf, pytree, tree
from ..array.base import ArrayBase, type_label
from ..function import evaluation
from ..function.ad.custom import CustomOp, custom
from ..function.ad.grad import grad_enabled
from ..function.data import create
from ..jit.ir.op import ReduceOp
from .engine import ENGINES, Engine, detected

T = TypeVar("T")

_engine: Engine | None = None


def init(engine: str | None = None, *, world_size: int | None = None, timeout: float = 300) -> None:
    """Connects the processes of a program. The first operation does so as well, with defaults.

    Arguments:
        engine: `"torch"` or `"mpi4py"`; by default that of the program which started the process
            (`torchrun`, `mpiexec`). A process that was started by neither is alone.
        world_size: how many processes there must be.
        timeout: after how many seconds of waiting for others an operation fails.

    Raises:
        ModuleNotFoundError: the engine is not installed.
        ValueError: there is no such engine.
        RuntimeError: the number of processes is another, the program was not started by one of the
            engine's, or another engine is in use.
    """
    global _engine
    name = detected() if engine is None else engine
    if name is not None and name not in ENGINES:
        raise ValueError(
            f"drjit.distributed.init(): unknown engine {engine!r}; expected 'torch' or 'mpi4py'"
        )
    cls = Engine if name is None else ENGINES[name]
    if _engine is None:
        _engine = cls(timeout)
    elif engine is not None and type(_engine) is not cls:
        raise RuntimeError(
            f"drjit.distributed.init({engine!r}): the program already uses {_engine.title}"
        )
    if world_size is not None and world_size != _engine.size:
        raise RuntimeError(
            f"drjit.distributed.init(): expected {world_size} processes, but there are "
            f"{_engine.size} ({_engine.title}). Start the program by torchrun --nproc-per-node "
            f"{world_size} or mpiexec -n {world_size}."
        )


def current() -> Engine:
    """Returns the engine in use."""
    if _engine is None:
        init()
    assert _engine is not None
    return _engine


def rank() -> int:
    """Returns the number of this process, from 0."""
    return current().rank


def world_size() -> int:
    """Returns the number of processes."""
    return current().size


def barrier() -> None:
    """Waits until all processes have called it.

    Raises:
        DistributedError: another process has ended, or does not arrive in time.
    """
    evaluation.sync_thread()
    current().barrier()


def all_reduce(value: T, /, op: ReduceOp = ReduceOp.Add) -> T:
    """Returns the sum over all processes, or another reduction, entry by entry, of the arrays in a
    PyTree. The derivative of a sum is the sum of the derivatives.

    Raises:
        TypeError: there are no arrays, numbers among them, or the operation does not fit a type; or
            types and shapes differ between processes. The same for all operations below.
        RuntimeError: an array is differentiable, and the operation is not a sum.
        DistributedError: another process has ended, or does not arrive in time.

    >>> from drjit import distributed
    >>> distributed.all_reduce(Float(1, 2))  # in a program of one process
    [1, 2]
    """
    return _apply("all_reduce", value, op)


def broadcast(value: T, /, root: int = 0) -> T:
    """Returns the arrays that the process `root` has. Others pass arrays of the same types and
    shapes. The gradient of the root's arrays is the sum of the gradients of all processes.

    >>> from drjit import distributed
    >>> distributed.broadcast([Float(1, 2)])
    [[1, 2]]
    """
    if not 0 <= root < world_size():
        raise ValueError(
            f"drjit.distributed.broadcast(): there is no process {root} among {world_size()}"
        )
    return _apply("broadcast", value, root)


def all_gather(value: T, /) -> T:
    """Returns the arrays of all processes one after the other: along lanes or, for tensors, along
    the first axis. Gradients are added and return to where the entries came from
    (`reduce_scatter`).

    >>> from drjit import distributed
    >>> distributed.all_gather(Float(1, 2))
    [1, 2]
    """
    return _apply("all_gather", value, None)


def reduce_scatter(value: T, /, op: ReduceOp = ReduceOp.Add) -> T:
    """Returns a part of `all_reduce`: of n processes, process k gets the k-th of n equal parts of
    the lanes or, for tensors, of the first axis. The adjoint of a sum is `all_gather`.

    Raises:
        RuntimeError: the number of lanes is not a multiple of the number of processes.

    >>> from drjit import distributed
    >>> distributed.reduce_scatter(Float(1, 2))
    [1, 2]
    """
    return _apply("reduce_scatter", value, op)


_ADJOINT = {
    "all_reduce": "all_reduce",
    "broadcast": "reduce",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
}


class _Collective(CustomOp):
    def name(self) -> str:
        return f"drjit.distributed.{self.operation}"

    def eval(self, arrays: list, operation: str, option: Any) -> list:
        self.operation, self.option = operation, option
        self.input_sizes = [len(a) for a in arrays]
        found = run(operation, arrays, option)
        self.output_sizes = [len(a) for a in found]
        return found

    def forward(self) -> None:
        tangents = _full(self.grad_in("arrays"), self.input_sizes)
        self.set_grad_out(run(self.operation, tangents, self.option))

    def backward(self) -> None:
        option = self.option if self.operation == "broadcast" else ReduceOp.Add
        gradients = _full(self.grad_out(), self.output_sizes)
        found = run(_ADJOINT[self.operation], gradients, option)
        if self.operation == "broadcast" and rank() != option:
            found = [create.zeros(type(a), len(a)) for a in found]
        self.set_grad_in("arrays", found)


def _full(arrays: list, sizes: list[int]) -> list:
    return [leaf.resize(a, n) for a, n in zip(arrays, sizes, strict=True)]


def run(operation: str, arrays: list, option: Any) -> list:
    """Carries out an operation on one-dimensional arrays; all are on their way at the same time."""
    engine = current()
    evaluation.eval(arrays)
    waits: list[Callable[[], Any]] = []
    for a in arrays:
        if len(a) == 0:
            waits.append(lambda a=a: engine.data(a))
        elif operation == "reduce":  # to one process
            waits.append(engine.start(operation, engine.copy(engine.data(a)), option))
        elif operation in ("all_reduce", "reduce_scatter"):
            waits.append(engine.reduce(operation, engine.data(a), option))
        else:
            waits.append(engine.start(operation, engine.data(a), option))
    data = [wait() for wait in waits]
    return [engine.array(type(a), d) for a, d in zip(arrays, data, strict=True)]


def _apply(operation: str, value: Any, option: Any) -> Any:
    what = f"drjit.distributed.{operation}()"
    parts = tree.Tree((value,))
    _check(what, parts, option)
    engine = current()
    leaves, n = list(parts.leaves), engine.size
    if operation in ("all_gather", "reduce_scatter"):
        leaves = _even(value)
    check_agreement(what, parts, option)
    if n == 1:
        return parts.reassemble([type(a)(a) for a in leaves])[0]
    if operation == "reduce_scatter":
        shapes = [k[0] if k else 1 for k in _shapes(parts)] + [len(a) for a in leaves]
        for size in shapes:
            if size % n:
                raise RuntimeError(f"{what}: {size} entries cannot be divided among {n} processes")
    tracked = [grad_enabled(a) for a in leaves]
    if any(tracked) and isinstance(option, ReduceOp) and option is not ReduceOp.Add:
        raise RuntimeError(
            f"{what}: only sums are differentiable; detach the argument (ReduceOp.{option.name})"
        )
    plain = run(operation, [a for a, t in zip(leaves, tracked, strict=True) if not t], option)
    some: Any = [a for a, t in zip(leaves, tracked, strict=True) if t]
    if some:
        some = custom(_Collective, some, operation, option)
    first, second = iter(plain), iter(some)
    found = [next(second) if t else next(first) for t in tracked]

    def make(k: int, contents: list) -> Any:
        keys = parts.keys.get(k)
        cls: Any = parts.classes[k]
        if issubclass(cls, ArrayBase) and cls._kind == "tensor" and keys:
            factor = len(contents[0]), max(int(np.prod(keys[1:])), 1)
            keys = (factor[0] // factor[1], *keys[1:])
        return tree.rebuilt(cls, keys, contents)

    return parts.reassemble(found, make)[0]


def _shapes(parts: tree.Tree) -> list[tuple[int, ...]]:
    """Returns the shapes of tensors."""
    return [v._shape for v in parts.objects if isinstance(v, ArrayBase) and v._kind == "tensor"]


def _even(value: Any) -> list:
    """Returns the one-dimensional arrays, those of a nested array with the same number of lanes."""
    from ..function.conversion import even_leaves

    found: list[Any] = []
    for a in pytree.arrays(value):
        nested = a._kind == "nested"
        found += even_leaves(a, "drjit.distributed")[0] if nested else pytree.leaf_arrays(a)
    return found


def _check(what: str, parts: tree.Tree, option: Any) -> None:
    for k in parts.others:
        v = parts.objects[k]
        if isinstance(v, (int, float, complex, np.ndarray, np.generic, ArrayBase)):
            raise TypeError(
                f"{what}: a {type_label(v)} is not an array that processes can exchange; convert "
                "it, for example to drjit.auto.ad.Float"
            )
    if not parts.leaves:
        raise TypeError(f"{what}: there are no arrays in the argument")
    if not isinstance(option, ReduceOp):
        return
    bitwise = option in (ReduceOp.And, ReduceOp.Or)
    for a in parts.leaves:
        fits = not a._dtype.is_float if bitwise else not a._dtype.is_mask
        if not fits or option is ReduceOp.Identity:
            raise TypeError(f"{what}: ReduceOp.{option.name} does not apply to {type_label(a)}")


def check_agreement(what: str, parts: tree.Tree, option: Any) -> None:
    """Checks that all processes carry out the same operation on arguments of the same structure, by
    33 bytes from each. This happens at every call: a process that skipped the check because it has
    made the call before could not tell whether the others do the same.

    Raises:
        TypeError: they differ.
    """
    kinds = [
        f"{type_label(a)} of {len(a)} entries{', tracked' if grad_enabled(a) else ''}"
        for a in parts.leaves
    ]
    shapes = [f"a tensor of shape {k}" for k in _shapes(parts)]
    text = f"{what} of {'; '.join(shapes + kinds)} with {option}"
    check_same(current(), what, text)


def check_same(engine: Engine, what: str, text: str, note: int = 0) -> int:
    """Checks that all processes have the same text, by 33 bytes from each: a hash, and a `note`
    below 256. Returns the largest note.

    Raises:
        TypeError: they differ.
    """
    if engine.size == 1:
        return note
    own = np.frombuffer(hashlib.sha256(text.encode()).digest() + bytes([note]), np.uint8)
    found = _gathered(engine, own)
    if (found[:, :-1] != own[:-1]).any():
        data = np.frombuffer(text.encode()[:4096].ljust(4096), np.uint8)
        rows = _gathered(engine, data)
        texts = [bytes(row).decode(errors="replace").rstrip() for row in rows]
        other = next((k for k, t in enumerate(texts) if t != texts[0]), 0)
        raise TypeError(
            f"{what}: processes differ: process 0 has {texts[0]}, process {other} has "
            f"{texts[other]}"
        )
    return int(found[:, -1].max())


def _gathered(engine: Engine, data: np.ndarray) -> np.ndarray:
    found = engine.start("all_gather", engine.from_numpy(data), None)()
    return np.asarray(found).reshape(engine.size, -1)

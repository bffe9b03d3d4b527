"""Training in several processes, each with its own samples: an optimizer with averaged gradients,
which are exchanged while the reverse pass goes on. As soon as all gradients of a bucket have been
computed, a thread of its own sends them.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np

from ..ad import segments
from ..ad.graph import Var
from ..array import leaf
from ..array.base import type_label
from ..array.pytree import leaf_arrays
from ..function.ad import grad as derivatives
from ..function.inspect.traits import shape
from ..jit.cpu.device import CPU
from ..jit.cpu.runtime import Event
from ..jit.ir.node import Node
from ..jit.ir.op import ReduceOp
from ..jit.run import freeze, schedule
from ..opt.optimizer import Optimizer
from ..opt.scaler import GradScaler
from . import collective
from .engine import Engine

Job = Callable[[], Any]


class Sender:
    """Carries out jobs that communicate, in order: in a thread of its own if the engine permits
    that. After one that failed, others fail as well until `recover` is called."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._queue: SimpleQueue[tuple[Job, Future] | None] = SimpleQueue()
        self._failed: list[BaseException] = []
        self._last: Future | None = None
        if engine.threads:
            arguments = (self._queue, self._failed)
            threading.Thread(target=_work, args=arguments, name="drjit", daemon=True).start()
            weakref.finalize(self, self._queue.put, None)

    def send(self, job: Job, here: bool = False) -> Future:
        """Queues a job. One that the caller waits for is carried out at once and `here`, if none
        is under way."""
        future: Future = Future()
        idle = self._last is None or self._last.done()
        if self.engine.threads and not (here and idle):
            self._queue.put((job, future))
            self._last = future
        else:
            _carry_out(job, future, self._failed)
        return future

    def recover(self) -> None:
        """Permits jobs after one that failed."""
        self._failed.clear()


def _work(queue: SimpleQueue, failed: list[BaseException]) -> None:
    while (item := queue.get()) is not None:
        job, future = item
        _carry_out(job, future, failed)
        del item, job, future  # hold gradients


def _carry_out(job: Job, future: Future, failed: list[BaseException]) -> None:
    try:
        if failed:
            raise failed[0]
        future.set_result(job())
    except BaseException as error:
        failed[:] = [error]
        future.set_exception(error)


class Bucket:
    """Parameters whose gradients travel together. `sent` are the gradients that were sent, `future`
    is their average."""

    def __init__(self, parameters: list) -> None:
        self.parameters = parameters
        self.missing = {a._var for a in parameters}
        self.sent: list[Node | None] = []
        self.future: Future | None = None

    @property
    def is_current(self) -> bool:
        """Whether the gradients are those that were sent."""
        return all(a._var.grad is g for a, g in zip(self.parameters, self.sent, strict=True))


def _gradients(parameters: list) -> list:
    """Starts the computation of gradients, and returns them with an entry for each lane."""
    found = [leaf.resize(derivatives.grad(a), len(a)) for a in parameters]
    if found:
        schedule.evaluate([g._node for g in found], found[0]._device)
    return found


class GradientStep:
    """The gradients of a step: buckets in an order that is the same in all processes, of which the
    first `started` ones are under way. `early` is whether some process has sent gradients before
    it called `step`."""

    def __init__(self, parameters: Sequence[Any], order: Iterable[int], size: int) -> None:
        self.parameters = parameters
        self.variables = [a._var for a in parameters]
        self.buckets = [Bucket(found) for found in _grouped([parameters[k] for k in order], size)]
        self.started = 0
        self.early: Future | None = None
        self.completed: list[Var] = []

    def layout(self) -> str:
        kinds = [[f"{type_label(a)}[{len(a)}]" for a in b.parameters] for b in self.buckets]
        return f"gradients of {kinds}"


def _grouped(parameters: list, size: int) -> list[list]:
    """Groups parameters of the same type that follow each other, up to a number of bytes."""
    found: list[list] = []
    left = 0
    for a in parameters:
        left -= len(a) * a._dtype.numpy.itemsize
        if not found or type(found[-1][0]) is not type(a) or left < 0:
            found.append([])
            left = size - len(a) * a._dtype.numpy.itemsize
        found[-1].append(a)
    return found


class Averages:
    """Averages the gradients of an optimizer's parameters. With `overlap`, it observes reverse
    passes."""

    def __init__(self, parameters: Callable[[], list], bucket_bytes: int, overlap: bool) -> None:
        self._parameters, self._bytes = parameters, bucket_bytes
        self._sender = Sender(collective.current().separate_channel())
        self._step: GradientStep | None = None
        self._order: list[int] | None = None  # in which gradients became complete in process 0
        if overlap:
            segments.observe(self)

    def _current(self) -> GradientStep:
        parameters = self._parameters()
        if self._step is None or self._step.variables != [a._var for a in parameters]:
            if self._order is not None and len(self._order) != len(parameters):
                self._order = None
            # The last ones are commonly complete first.
            order = self._order or range(len(parameters) - 1, -1, -1)
            self._step = GradientStep(parameters, order, self._bytes)
        return self._step

    # ---- As an observer of reverse passes

    def variables(self) -> list[Var]:
        return self._current().variables

    def complete(self, found: Sequence[Var], rest: Sequence[Var]) -> None:
        step = self._current()
        step.completed += found
        for bucket in step.buckets:
            bucket.missing.difference_update(found)
        ready: list[Bucket] = []
        for bucket in step.buckets[step.started :]:
            if bucket.missing or not (rest or step.started):
                break
            if rest and not segments.is_separate(
                [a._var.grad for a in bucket.parameters if a._var.grad is not None], rest
            ):
                break
            ready.append(bucket)
        self._start(step, ready)

    def _start(self, step: GradientStep, buckets: list[Bucket], here: bool = False) -> None:
        """Sends the gradients of the next buckets, which are evaluated together."""
        _gradients([a for bucket in buckets for a in bucket.parameters])
        if buckets and step.early is None:
            # Checks that all processes send the same, and finds out whether one does so early.
            what, engine = "drjit.distributed.DataParallel.step()", self._sender.engine
            same = partial(collective.check_same, engine, what, step.layout(), not here)
            step.early = self._sender.send(same, here)
        for bucket in buckets:
            step.started += 1
            bucket.future = self._send(bucket, here)

    def _send(self, bucket: Bucket, here: bool) -> Future:
        gradients, engine = _gradients(bucket.parameters), self._sender.engine
        bucket.sent = [a._var.grad for a in bucket.parameters]
        if not all(g._device is CPU for g in gradients):  # waits for the device, in this thread
            data = [engine.data(g) for g in gradients]
            return self._sender.send(lambda: _average(engine, gradients, data), here)
        event = Event(False)
        event.record()

        def job() -> list:
            event.wait()
            data = [engine.from_numpy(_finished(g._node)) for g in gradients]
            return _average(engine, gradients, data)

        return self._sender.send(job, here)

    # ---- At the end

    def finish(self) -> None:
        """Replaces the gradients by their averages."""
        step = self._current()
        try:
            self._start(step, step.buckets[step.started :], here=True)
            if step.early is not None and step.early.result():
                self._send_again(step)
            self._share_order(step)
            for bucket in step.buckets:
                assert bucket.future is not None
                for a, g in zip(bucket.parameters, bucket.future.result(), strict=True):
                    derivatives.set_grad(a, g)
        finally:
            self._step = None
            self._sender.recover()

    def _send_again(self, step: GradientStep) -> None:
        """Sends gradients that some process has accumulated or changed after they were sent."""
        own = np.array([not b.is_current for b in step.buckets], np.uint8)
        old = self._exchanged("all_reduce", own, ReduceOp.Max)
        for bucket, is_old in zip(step.buckets, old, strict=True):
            if is_old:
                bucket.future = self._send(bucket, here=True)

    def _share_order(self, step: GradientStep) -> None:
        """Finds out, once, in which order gradients are complete."""
        if self._order is not None:
            return
        numbers = {v: k for k, v in enumerate(step.variables)}
        rest = [k for v, k in reversed(numbers.items()) if v not in step.completed]
        own = np.array([*dict.fromkeys(numbers[v] for v in step.completed), *rest], np.int64)
        self._order = self._exchanged("broadcast", own, 0).tolist()

    def _exchanged(self, operation: str, own: np.ndarray, option: Any) -> np.ndarray:
        """Returns the result of an operation on numbers of all processes."""
        engine = self._sender.engine
        start = engine.reduce if operation == "all_reduce" else engine.start
        job = self._sender.send(lambda: start(operation, engine.from_numpy(own), option)(), True)
        return np.asarray(job.result())


def _finished(n: Node) -> np.ndarray:
    """Returns the entries of a node whose job is done, without waiting for others."""
    if n.is_literal:
        return np.full(n.size, n.data, n.dtype.numpy)
    return CPU.download(n.data, n.dtype, n.size)


def _average(engine: Engine, gradients: list, data: list) -> list:
    """Returns averages of gradients, whose entries are given as data of the engine."""
    whole = data[0] if len(data) == 1 else engine.joined(data)
    found, at = engine.reduce("all_reduce", whole, ReduceOp.Add)() / engine.size, 0
    averages = []
    for g in gradients:
        averages.append(engine.array(type(g), found[at : at + len(g)]))
        at += len(g)
    return averages


class DataParallel(MutableMapping[str, Any]):
    """An optimizer whose steps use the average of the gradients of all processes.

    Gradients travel in buckets. As soon as those of a bucket are computed, a thread of its own
    exchanges them, while the reverse pass goes on. All processes begin with the parameters of
    process 0. If the loss is the mean over a process's samples, and all processes have equally
    many, the average is the gradient of the mean over all samples.

    Arguments:
        optimizer: the optimizer, of which all processes have the same parameters.
        bucket_bytes: the size of a bucket.
        overlap: whether to exchange gradients before `step`. Those of a bucket that are accumulated
            over several reverse passes, or changed before `step`, travel again.

    Raises:
        TypeError: types, shapes or names of parameters differ between processes.

    >>> from drjit import distributed
    >>> opt = distributed.DataParallel(dr.opt.SGD(0.25, {"x": Float(1, 2)}))
    >>> dr.backward(dr.sum(dr.square(opt["x"])))
    >>> opt.step()
    >>> opt["x"]
    [0.5, 1]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"optimizer": Optimizer}
    # No attribute that a frozen function takes for an input: how far exchanges are changes nothing.
    __slots__ = ("__dict__", "__weakref__", "_averages")

    def __init__(
        self, optimizer: Optimizer, *, bucket_bytes: int = 1 << 22, overlap: bool = True
    ) -> None:
        self.optimizer = optimizer
        self.bucket_bytes = bucket_bytes
        self._averages: Averages | None = None
        if collective.world_size() == 1:
            return
        what = "drjit.distributed.DataParallel()"
        kinds = [f"{k!r}: {type_label(v)} of shape {shape(v)}" for k, v in optimizer.items()]
        text = f"the parameters {', '.join(kinds)}"
        collective.check_same(collective.current(), what, text)
        values = derivatives.detach({k: optimizer[k] for k in optimizer})
        for key, value in collective.broadcast(values).items() if values else ():
            optimizer[key] = type(optimizer[key])(value)

        def parameters() -> list:
            return [a for v in optimizer.values() for a in leaf_arrays(v)]

        self._averages = Averages(parameters, bucket_bytes, overlap)

    def __getitem__(self, key: str) -> Any:
        return self.optimizer[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.optimizer[key] = value

    def __delitem__(self, key: str) -> None:
        del self.optimizer[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.optimizer)

    def __len__(self) -> int:
        return len(self.optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the optimizer."""
        return self.optimizer.state_dict()

    def load_state_dict(self, saved: Mapping[str, Any], /) -> None:
        """Restores the state of the optimizer, in all processes."""
        self.optimizer.load_state_dict(saved)

    def step(self, *, scaler: GradScaler | None = None, **arguments: Any) -> None:
        """Averages the gradients, and performs a step of the optimizer, by the gradient scaler if
        there is one. Arguments are those of the optimizer's `step`."""
        self.average()
        if scaler is None:
            self.optimizer.step(**arguments)
        else:
            scaler.step(self.optimizer, **arguments)

    def average(self) -> None:
        """Replaces the gradients by their averages over all processes.

        Raises:
            TypeError: parameters differ between processes.
            RuntimeError: it is called by a frozen function.
            DistributedError: another process has ended, or does not arrive in time.
        """
        if self._averages is not None:
            if freeze.active() is not None:
                raise RuntimeError(
                    "drjit.distributed.DataParallel: a frozen function cannot exchange gradients "
                    "with other processes. Compute them in the function, and call step() after it."
                )
            self._averages.finish()

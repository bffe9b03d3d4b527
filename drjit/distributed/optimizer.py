"""Training in several processes, each with its own samples: averaged gradients."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from ..array import leaf
from ..array.pytree import leaf_arrays
from ..function import evaluation
from ..function.ad import grad as derivatives
from ..jit.ir.op import ReduceOp
from ..opt.optimizer import Optimizer
from ..opt.scaler import GradScaler
from . import collective


class DataParallel(MutableMapping[str, Any]):
    """An optimizer whose steps use the average of the gradients of all processes.

    Gradients travel in buckets: while one is on its way, the next is filled. Parameters with which
    processes begin are those of process 0. A loss that is the mean over a process's samples, of
    which all have equally many, has the gradient of the mean over all samples.

    Arguments:
        optimizer: the optimizer, of which all processes have the same parameters.
        bucket_bytes: the size of a bucket.

    >>> from drjit import distributed
    >>> opt = distributed.DataParallel(dr.opt.SGD(0.25, {"x": Float(1, 2)}))
    >>> dr.backward(dr.sum(dr.square(opt["x"])))
    >>> opt.step()
    >>> opt["x"]
    [0.5, 1]
    """

    def __init__(self, optimizer: Optimizer, *, bucket_bytes: int = 1 << 22) -> None:
        self.optimizer = optimizer
        self.bucket_bytes = bucket_bytes
        if collective.world_size() > 1:
            values = derivatives.detach({k: optimizer[k] for k in optimizer})
            for key, value in collective.broadcast(values).items():
                optimizer[key] = type(optimizer[key])(value)

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
            DistributedError: another process has ended, or does not arrive in time.
        """
        engine = collective.current()
        if engine.size == 1:
            return
        parameters = [a for v in self.optimizer.values() for a in leaf_arrays(v)]
        gradients = [leaf.resize(derivatives.grad(a), len(a)) for a in parameters]
        collective.agree("drjit.distributed.DataParallel.step()", collective.Tree(gradients), None)
        evaluation.eval(gradients)
        # The last are computed first.
        started = []
        for bucket in self._buckets(gradients[::-1]):
            data = np.concatenate([np.asarray(g.numpy()) for g in bucket])
            whole = leaf.from_numpy(type(bucket[0]), data)
            started.append((bucket, engine.reduce("all_reduce", engine.data(whole), ReduceOp.Add)))
        found: list[Any] = []
        for bucket, wait in started:
            data, at = np.asarray(wait()), 0
            for g in bucket:
                part = data[at : at + len(g)]
                at += len(g)
                found.append(leaf.from_numpy(type(g), part / part.dtype.type(engine.size)))
        for a, g in zip(parameters, found[::-1], strict=True):
            derivatives.set_grad(a, g)

    def _buckets(self, gradients: list) -> list[list]:
        """Groups gradients of the same type that follow each other."""
        found: list[list] = []
        size = 0
        for g in gradients:
            bytes_ = len(g) * g._dtype.numpy.itemsize
            if not found or type(found[-1][0]) is not type(g) or size + bytes_ > self.bucket_bytes:
                found.append([])
                size = 0
            found[-1].append(g)
            size += bytes_
        return found

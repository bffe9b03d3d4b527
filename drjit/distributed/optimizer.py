"""Training in several processes, each with its own samples: averaged gradients."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, ClassVar

from ..array.base import type_label
from ..array.pytree import leaf_arrays
from ..function.ad import grad as derivatives
from ..function.inspect.traits import shape
from ..jit.run import freeze
from ..opt.optimizer import Optimizer
from ..opt.scaler import GradScaler
from . import collective
from .buckets import Averages


class DataParallel(MutableMapping[str, Any]):
    """An optimizer whose steps use the average of the gradients of all processes.

    Gradients travel in buckets. As soon as those of a bucket are computed, a thread of its own
    exchanges them, while the reverse pass goes on. Parameters with which processes begin are those
    of process 0. A loss that is the mean over a process's samples, of which all have equally many,
    has the gradient of the mean over all samples.

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

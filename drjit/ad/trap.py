"""Debug traps for derivatives: reverse and forward passes stop at the first one that is not
finite."""

from ..jit import flags
from ..jit.flags import JitFlag
from ..jit.ir.node import LITERAL, Node
from ..jit.lazy import np
from ..jit.run import launch, schedule
from ..jit.trace import feature_vectors as vector
from .graph import Var, title, where

_TRAPS = int(JitFlag.TrapNaN | JitFlag.TrapInf)


def check(v: Var | None, contribution: Node) -> None:
    """Evaluates a contribution to a gradient, computed by the rule of `v`.

    Raises:
        FloatingPointError: it contains a NaN or an infinity, and the corresponding trap is set.
    """
    if v is None or v.rule is None:
        return
    before = flags.current
    flags.current &= ~_TRAPS  # of the kernels, which know less about the origin
    try:
        values = _entries(contribution)
    finally:
        flags.current = before
    for bit, test, what in (
        (JitFlag.TrapNaN, np.isnan, "nan"),
        (JitFlag.TrapInf, np.isinf, "inf"),
    ):
        bad = test(values) if before & bit else np.zeros(1, bool)
        if bad.any():
            lane = int(np.argmax(bad))
            raise FloatingPointError(
                f"the derivative of '{title(v)}'{where(v)} is {what} in lane {lane}"
            )


def _entries(n: Node) -> np.ndarray:
    if n.op is LITERAL:
        return np.full(1, n.data, n.dtype.numpy)
    if n.dtype.is_vector:
        features = [vector.feature(n, k) for k in range(n.dtype.count)]
        return np.maximum.reduce(np.broadcast_arrays(*[np.abs(_entries(f)) for f in features]))
    schedule.evaluate([n])
    return launch.to_numpy(n.dtype, n.size, n.data)

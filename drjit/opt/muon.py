"""Muon: momentum whose matrix is orthogonalized before every step."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Any, ClassVar

from ..array.base import ArrayBase, type_label
from ..function.conversion import tensor, tensor_class
from ..function.data.layout import reshape
from ..function.data.reduce import sum as total
from ..function.data.reorder import swapaxes
from ..function.data.shape import concat
from ..function.inspect import traits
from ..function.math.arithmetic import fma, sqr
from ..function.math.matmul import matmul
from ..function.math.transcendental import sqrt as root
from .adam import decayed
from .optimizer import Optimizer
from .parameter import RateCache, StepInputs, blank, check_fraction, check_not_negative, option

# Coefficients of the polynomial a·x + b·x³ + c·x⁵ that a Newton-Schulz iteration applies to
# singular values.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(Optimizer[tuple[Any, tuple[int, ...]]]):
    """Muon, for matrices only: tensors of two dimensions.

    The method is described in Jordan et al., "Muon: An optimizer for hidden layers in neural
    networks" (2024). A momentum µ accumulates v ← µ·v + g. The matrix u = v, or u = g + µ·v with
    `nesterov`, is divided by its Frobenius norm and goes through `ns_steps` Newton-Schulz
    iterations, which bring all of its singular values close to one. With r rows and c columns, the
    step is x ← (1 - lr·λ)·x - lr·√max(1, r/c)·u, where λ is `weight_decay`.

    The constructor and `update` pick the matrices from a mapping, such as a neural network, and
    ignore everything else: biases, for example, need a second optimizer.

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: an assigned parameter is not a matrix, the momentum is outside [0, 1), or
            `ns_steps` or `weight_decay` is negative.

    >>> from drjit.opt import Muon
    >>> opt = Muon(lr=0.5, params={"A": TensorXf([[4.0, 0.0], [0.0, 4.0]])})
    >>> dr.backward(dr.sum(dr.square(opt["A"])))
    >>> opt.step()
    >>> dr.allclose(opt["A"], [[3.5, 0], [0, 3.5]], atol=0.2)
    True

    To optimize all parameters of a network, use two optimizers:

    >>> from drjit.opt import AdamW
    >>> net = {"weights": TensorXf([[1, 2], [3, 4]]), "bias": TensorXf([0, 0])}
    >>> muon = Muon(lr=0.02, params=net)
    >>> adam = AdamW(lr=1e-3, params={k: v for k, v in net.items() if k not in muon})
    >>> list(muon), list(adam)
    (['weights'], ['bias'])
    """

    saved: ClassVar = {"[0]": "velocity"}

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
        weight_decay: float = 0.0,
        mask_updates: bool = False,
        promote_fp16: bool = True,
    ) -> None:
        check_fraction("Muon", "momentum", momentum)
        check_not_negative("Muon", "weight_decay", weight_decay)
        check_not_negative("Muon", "ns_steps", ns_steps)
        self.momentum = momentum
        self.nesterov = nesterov
        self.ns_steps = ns_steps
        self.weight_decay = weight_decay
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _filter(self, params: Mapping[str, ArrayBase], /) -> Mapping[str, ArrayBase]:
        return {
            name: value
            for name, value in params.items()
            if not isinstance(value, ArrayBase) or len(traits.shape(value)) == 2
        }

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        shape = traits.shape(value)
        if value._kind != "tensor" or len(shape) != 2:
            raise RuntimeError(
                f"dr.opt.Muon.__setitem__(): parameter {key!r} must be a tensor of two "
                f"dimensions, not {type_label(type(value))} of shape {shape}. Use another "
                "optimizer for it."
            )
        self.state[key] = value, promoted, None, (blank(value), shape)

    def _steps(self, cache: RateCache, jobs: Sequence[StepInputs]) -> Iterable[tuple[Any, Any]]:
        velocities, directions = [], []
        for _, g, _, (v, _) in jobs:
            v = fma(v, self.momentum, g)
            velocities.append(v)
            directions.append(fma(v, self.momentum, g) if self.nesterov else v)
        directions = orthogonalized(directions, [job.extra[1] for job in jobs], self.ns_steps)
        for (x, _, lr, (_, shape)), u, v in zip(jobs, directions, velocities, strict=True):
            rate = cache.product(type(x), lr, -sqrt(max(1, shape[0] / shape[1])))
            yield fma(u, rate, decayed(cache, x, lr, self.weight_decay)), (v, shape)

    def _options(self) -> str:
        return (
            f",\n  momentum = {option(self.momentum)},\n  nesterov = {self.nesterov},"
            f"\n  ns_steps = {self.ns_steps},\n  weight_decay = {option(self.weight_decay)}"
        )


def orthogonalized(
    matrices: Sequence[Any], shapes: Sequence[tuple[int, ...]], iterations: int
) -> list[Any]:
    """Returns matrices with their singular values moved close to one; input and output are flat, in
    row-major order.

    A Newton-Schulz iteration maps X to a·X + b·(XXᵀ)X + c·(XXᵀ)²X. It converges if singular values
    are at most one, hence the division by the norm. Matrices with the same shape, or with
    transposed shapes, are processed together.
    """
    groups: dict[Any, list[int]] = {}
    for k, (matrix, shape) in enumerate(zip(matrices, shapes, strict=True)):
        groups.setdefault((type(matrix), min(shape), max(shape)), []).append(k)
    found: list[Any] = [None] * len(matrices)
    for (cls, rows, columns), members in groups.items():
        # The products are smaller for wide matrices than for tall ones.
        wide = [_transposed(matrices[k], shapes[k], shapes[k][0] > rows) for k in members]
        x = tensor(tensor_class(cls), concat(wide), (len(wide), rows, columns))
        norm = root(total(reshape(sqr(x), (len(wide), -1)), axis=1))
        x = _newton_schulz(x / reshape(norm + 1e-7, (-1, 1, 1)), iterations)
        for i, k in enumerate(members):
            found[k] = _transposed(x[i].array, (rows, columns), shapes[k][0] > rows)
    return found


def _newton_schulz(x: Any, iterations: int) -> Any:
    a, b, c = _COEFFICIENTS
    for _ in range(iterations):
        gram = matmul(x, x, Bt=True)
        cubic = matmul(gram, x)
        x = fma(matmul(gram, cubic), c, fma(cubic, b, x * a))
    return x


def _transposed(matrix: Any, shape: tuple[int, ...], needed: bool) -> Any:
    """Returns the entries of a matrix in column-major order, if needed."""
    if not needed:
        return matrix
    return swapaxes(tensor(tensor_class(type(matrix)), matrix, shape), 0, 1).array

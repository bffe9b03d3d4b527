"""Optimization methods: gradient descent with momentum, RMSProp, Adam, and Muon."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypedDict, Unpack

from ..array.base import ArrayBase, type_label
from ..array.pytree import leaf_arrays
from ..function import evaluation
from ..function.conversion import flat_class, related, tensor, tensor_class
from ..function.data.layout import reshape
from ..function.data.reduce import max as over_axis
from ..function.data.reduce import sum as total
from ..function.data.reorder import swapaxes
from ..function.data.shape import concat
from ..function.inspect import traits
from ..function.math.arithmetic import fma, lerp, maximum, select, sqr
from ..function.math.matmul import matmul
from ..function.math.transcendental import sqrt
from ..jit.ir import dtype as dt
from ..jit.run.freeze import active as active_recorder
from .optimizer import Optimizer, RateCache, StepInputs, blank, with_leaves


class SGD(Optimizer[Any]):
    """Stochastic gradient descent, x ← x - lr·g with the gradient g.

    With a momentum µ, it accumulates v ← µ·v + g and subtracts lr·v instead; with `nesterov`, it
    subtracts lr·(g + µ·v): Nesterov's accelerated gradient, as in Sutskever et al., "On the
    importance of initialization and momentum in deep learning" (2013), with the learning rate
    factored out of v.

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: the momentum is negative, or zero while `nesterov` is set.

    >>> from drjit.opt import SGD
    >>> opt = SGD(lr=0.5, params={"x": Float(1)}, momentum=0.5)
    >>> for i in range(2):
    ...     dr.backward(opt["x"] * 2)
    ...     opt.step()
    >>> opt["x"]
    [-1.5]
    """

    saved: ClassVar = {"": "velocity"}
    _settings: ClassVar = ",\n  momentum = {0.momentum:g}\n  nesterov = {0.nesterov}"

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        mask_updates: bool = False,
        promote_fp16: bool = True,
    ) -> None:
        self._check_not_negative(momentum=momentum)
        if nesterov and momentum == 0:
            raise RuntimeError("dr.opt.SGD(): 'nesterov' needs a momentum > 0")
        self.momentum, self.nesterov = momentum, nesterov
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        self.state[key] = value, promoted, None, blank(value) if self.momentum else None

    def _step(
        self, cache: RateCache, value: Any, grad: Any, lr: Any, velocity: Any, /
    ) -> tuple[Any, Any]:
        direction = grad
        if self.momentum:
            velocity = direction = fma(velocity, self.momentum, grad)
            if self.nesterov:
                direction = fma(velocity, self.momentum, grad)
        return fma(direction, cache.product(flat_class(type(value)), lr, -1), value), velocity


class RMSProp(Optimizer[Any]):
    """RMSProp: x ← x - lr·g / (√v + ε), where v ← α·v + (1 - α)·g² averages the squared gradient g.

    The method is described in lecture 6e of Hinton, Srivastava and Swersky, "Neural Networks for
    Machine Learning" (2012). For ε up to 1e-6, the divisor is √(v + ε²).

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `alpha` is outside [0, 1), or `epsilon` is negative.

    >>> from drjit.opt import RMSProp
    >>> opt = RMSProp(lr=0.1, params={"x": Float(1)}, alpha=0.75)
    >>> dr.backward(opt["x"] * 8)
    >>> opt.step()
    >>> opt["x"]
    [0.8]
    """

    saved: ClassVar = {"": "second_moment"}
    _settings: ClassVar = ",\n  alpha = {0.alpha:g},\n  epsilon = {0.epsilon:g}"

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        alpha: float = 0.99,
        epsilon: float = 1e-8,
        mask_updates: bool = False,
        promote_fp16: bool = True,
    ) -> None:
        self._check_fractions(alpha=alpha)
        self._check_not_negative(epsilon=epsilon)
        self.alpha, self.epsilon = alpha, epsilon
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        self.state[key] = value, promoted, None, blank(value)

    def _step(self, cache: RateCache, value: Any, grad: Any, lr: Any, v: Any, /) -> tuple[Any, Any]:
        v = lerp(sqr(grad), v, self.alpha)
        direction = normalized(grad, v, self.epsilon)
        return fma(direction, cache.product(flat_class(type(value)), lr, -1), value), v


def normalized(g: Any, v: Any, epsilon: float) -> Any:
    """Returns `g` divided by the root of its second moment `v`, made safe by `epsilon`.

    An epsilon that only prevents a division by zero is moved under the root.
    """
    if epsilon > 1e-6:
        return g / (sqrt(v) + epsilon)
    smallest = _SMALLEST[v._dtype.name]
    return g / sqrt(v + max(epsilon * epsilon, smallest))


# Positive numbers that are not lost in the addition.
_SMALLEST = {"float16": 2.0**-24, "float32": 2.0**-126, "float64": 2.0**-1022}


class Adam(Optimizer[tuple[Any, Any, Any, Any]]):
    """Adam, from Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015).

    Step t averages the gradient g and its square, m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g²,
    and sets x ← x - lrₜ·m / (√v + ε). As at the end of section 2 of the paper, the learning rate
    lrₜ = lr·√(1 - β₂ᵗ) / (1 - β₁ᵗ) corrects the bias of averages that start at zero. For ε up to
    1e-6, the divisor is √(v + ε²).

    Arguments:
        amsgrad: divide by the largest v so far, following Reddi et al., "On the Convergence of Adam
            and Beyond" (2018).
        uniform: divide all entries of a parameter by the root of their largest v, which preserves
            the direction of m. This suits vertex positions; see Nicolet et al., "Large Steps in
            Inverse Rendering of Geometry" (2021). For nested arrays, the maximum is taken over the
            outermost components, separately for each entry. Ignored if `amsgrad` is set.

    See `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `beta_1` or `beta_2` is outside [0, 1), or `epsilon` is negative.

    >>> from drjit.opt import Adam
    >>> opt = Adam(lr=0.1, params={"x": Float(1, 2, 3)})
    >>> dr.backward(dr.sum(dr.square(opt["x"])))
    >>> opt.step()
    >>> dr.allclose(opt["x"], Float(0.9, 1.9, 2.9))[0]
    True
    """

    saved: ClassVar = {
        "[0]": "steps",
        "[1]": "first_moment",
        "[2]": "second_moment",
        "[3]": "largest_second_moment",
    }
    _settings: ClassVar = ",\n  beta = ({0.beta_1:g}, {0.beta_2:g}),\n  epsilon = {0.epsilon:g}"
    weight_decay: float = 0

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        mask_updates: bool = False,
        promote_fp16: bool = True,
        uniform: bool = False,
        amsgrad: bool = False,
    ) -> None:
        self._check_fractions(beta_1=beta_1, beta_2=beta_2)
        self._check_not_negative(epsilon=epsilon)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.uniform, self.amsgrad = uniform, amsgrad
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        steps = flat_class(type(value), dt.u32)(0)
        largest = blank(value) if self.amsgrad else None
        self.state[key] = value, promoted, None, (steps, blank(value), blank(value), largest)

    def _step(
        self, cache: RateCache, value: Any, grad: Any, lr: Any, extra: tuple, /
    ) -> tuple[Any, tuple]:
        steps, m, v, largest = extra
        steps, correction = self._counted(cache, steps)
        m = lerp(grad, m, self.beta_1)
        v = divisor = lerp(sqr(grad), v, self.beta_2)
        if self.amsgrad:
            divisor = largest = maximum(v, largest)
        elif self.uniform:
            divisor = _uniform(v)
        rate = cache.product(flat_class(type(value)), lr, -1, correction)
        start = decayed(cache, value, lr, self.weight_decay)
        return fma(normalized(m, divisor, self.epsilon), rate, start), (steps, m, v, largest)

    def _select(self, mask: Any, extra: tuple, new_extra: tuple, /) -> tuple:
        """A step counts even where it changes nothing."""
        pairs = zip(extra[1:], new_extra[1:], strict=True)
        return new_extra[0], *[b if b is None else select(mask, a, b) for a, b in pairs]

    def _counted(self, cache: RateCache, steps: Any) -> tuple[Any, Any]:
        """Returns the step count after this step and the step's learning rate factor; parameters
        with equal step counts share them."""
        key = "steps", steps._node.data if steps._node.is_literal else steps._node
        if key not in cache:
            after = steps + 1
            if active_recorder() is not None and after._node.is_literal:
                evaluation.make_opaque(after)  # data, so that the step can be replayed
            double = related(type(steps), dtype=dt.f64)
            if after._node.is_literal:
                t = after._node.data
                correction = double(math.sqrt(1 - self.beta_2**t) / (1 - self.beta_1**t))
            else:
                t = double(after)
                correction = sqrt(1 - self.beta_2**t) / (1 - self.beta_1**t)
                evaluation.eval(after, correction)  # one kernel for both
            cache[key] = after, correction
        return cache[key]


class _AdamOptions(TypedDict, total=False):
    beta_1: float
    beta_2: float
    epsilon: float
    mask_updates: bool
    promote_fp16: bool
    uniform: bool
    amsgrad: bool


class AdamW(Adam):
    """Adam with decoupled weight decay, from Loshchilov and Hutter, "Decoupled Weight Decay
    Regularization" (2019): a step also multiplies parameters by 1 - lr·λ, with λ = `weight_decay`.

    See `Adam` and `Optimizer` for the other arguments.

    Raises:
        RuntimeError: `weight_decay` is negative, or another argument is out of range.

    >>> from drjit.opt import AdamW
    >>> opt = AdamW(lr=0.5, params={"x": Float(1)}, weight_decay=0.5)
    >>> dr.backward(opt["x"] * 0)
    >>> opt.step()
    >>> opt["x"]
    [0.75]
    """

    _settings: ClassVar = Adam._settings + ",\n  weight_decay = {0.weight_decay:g}"

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        weight_decay: float = 0.01,
        **options: Unpack[_AdamOptions],
    ) -> None:
        self._check_not_negative(weight_decay=weight_decay)
        self.weight_decay = weight_decay
        super().__init__(lr, params, **options)


def decayed(cache: RateCache, x: Any, lr: Any, weight_decay: float) -> Any:
    """Applies weight decay: subtracts `lr * weight_decay` times the parameter."""
    return fma(x, cache.product(flat_class(type(x)), lr, -weight_decay), x) if weight_decay else x


def _uniform(v: Any) -> Any:
    """Returns the maximum over the outermost axis: over all entries of a flat array or tensor, or
    over corresponding components of a nested array."""
    if v._kind == "leaf":
        return over_axis(v)
    largest = leaf_arrays(over_axis(v, axis=0))
    pairs = [pair for c in v._components for pair in zip(largest, leaf_arrays(c), strict=True)]
    # A component shared by all entries remains a single number.
    leaves = [a if len(a) == len(b) else over_axis(a) for a, b in pairs]
    return with_leaves(type(v), v, leaves)


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
    _settings: ClassVar = (
        ",\n  momentum = {0.momentum:g},\n  nesterov = {0.nesterov},\n  ns_steps = {0.ns_steps},"
        "\n  weight_decay = {0.weight_decay:g}"
    )

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
        self._check_fractions(momentum=momentum)
        self._check_not_negative(weight_decay=weight_decay, ns_steps=ns_steps)
        self.momentum, self.nesterov = momentum, nesterov
        self.ns_steps, self.weight_decay = ns_steps, weight_decay
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
            rate = cache.product(type(x), lr, -math.sqrt(max(1, shape[0] / shape[1])))
            yield fma(u, rate, decayed(cache, x, lr, self.weight_decay)), (v, shape)


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
        norm = sqrt(total(reshape(sqr(x), (len(wide), -1)), axis=1))
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

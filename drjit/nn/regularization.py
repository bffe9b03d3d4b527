"""Layers that keep training stable: normalization of features, and random omission of some."""

from typing import Any, ClassVar, Self, TypeVar

from ..array.base import ArrayBase, type_label
from ..array.meta import DYNAMIC
from ..function.conversion import flat_class, related, with_dtype
from ..function.data.create import opaque
from ..function.data.reduce import sum as total
from ..function.inspect.traits import is_float_v, is_tensor_v, shape
from ..function.math.arithmetic import fma, rsqrt, select
from ..jit.ir import dtype as dt
from ..random import Generator, rng
from .coopvec import CoopVec, cast
from .matrix import MatrixView
from .module import Module, check_sizes, entry, found_size, uninitialized

T = TypeVar("T", bound=Any)


class LayerNorm(Module):
    """Shifts and scales the features of each lane to mean 0 and variance 1, then multiplies each by
    a weight and adds a bias, both of which are parameters (Ba, Kiros and Hinton, "Layer
    Normalization", 2016): `(x - mean) / sqrt(variance + eps) * weights + bias`.

    Features are the rows of a tensor of shape (features, N). A number of -1 is inferred from the
    input. Without `elementwise_affine`, there are no parameters; without `bias`, weights only.
    `float16` is computed in `float32`.

    Raises:
        ValueError: `features` is neither positive nor -1.
        TypeError: it is no int.

    >>> from drjit.llvm import TensorXf
    >>> norm = nn.LayerNorm().alloc(TensorXf, 2)
    >>> norm(TensorXf([[1, 5], [3, 5]]))
    [[-0.999995, 0],
     [0.999995, 0]]
    >>> list(norm)
    ['weights', 'bias']
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {
        "config": tuple[int, float, bool, bool],
        "weights": ArrayBase | MatrixView | None,
        "bias": ArrayBase | MatrixView | None,
    }
    torch_names = {"weights": "weight"}  # noqa: RUF012
    torch_vectors = ("weights", "bias")

    def __init__(
        self,
        features: int = -1,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        check_sizes("LayerNorm", features=features)
        affine = bool(elementwise_affine)
        self.config = features, float(eps), affine, affine and bool(bias)
        self.weights: ArrayBase | MatrixView | None = None
        self.bias: ArrayBase | MatrixView | None = None

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        features, eps, affine, has_bias = self.config
        is_known = affine or size != -1
        n = found_size(self, features, size, "features") if is_known else features
        made = type(self)(n, eps, affine, has_bias)
        if affine:
            made.weights = opaque(dtype, 1, n)
        if has_bias:
            made.bias = opaque(dtype, 0, n)
        return made, n

    def __call__(self, arg: T, /) -> T:
        n = _features(self, arg)
        features, eps, affine, _ = self.config
        if features not in (-1, n):
            raise ValueError(
                f"drjit.nn.{self!r}: the layer has {features} features, but the input has {n}"
            )
        if affine and self.weights is None:
            raise uninitialized(self)
        kind = arg.type if isinstance(arg, CoopVec) else type(arg)
        x = _converted(arg, with_dtype(kind, dt.f32) if kind._dtype is dt.f16 else kind)

        along = {} if isinstance(x, CoopVec) else {"axis": max(x.ndim - 2, 0), "keepdims": True}
        x = x - total(x, **along) * (1 / n)
        x = x * rsqrt(fma(total(x * x, **along), 1 / n, eps))
        if self.weights is not None:
            x = x * self._vector(self.weights, x)
        if self.bias is not None:
            x = x + self._vector(self.bias, x)
        return _converted(x, kind)

    def _vector(self, parameter: Any, like: Any) -> Any:
        """Returns a parameter for each feature of a value."""
        if isinstance(like, CoopVec) != isinstance(parameter, MatrixView):
            raise RuntimeError(
                f"drjit.nn.{self!r}: cooperative vectors need packed parameters, 'net = drjit.nn."
                "pack(net)', and tensors those from before packing"
            )
        if isinstance(parameter, MatrixView):
            entries = [entry(parameter, k) for k in range(parameter.shape[0])]
            return cast(CoopVec(entries), like.type)
        column = (len(parameter), 1) if len(shape(like)) > 1 else (len(parameter),)
        return type(like)(type(parameter)(parameter.array, column))

    def __repr__(self) -> str:
        features, eps, affine, bias = self.config
        text = ", bias=False" if affine and not bias else ""
        text = text if affine else ", elementwise_affine=False"
        return f"{type(self).__name__}({features}, eps={eps:g}{text})"


class Dropout(Module):
    """Replaces each feature by 0 with probability `p`, and divides the others by 1 - p, so that the
    mean is preserved (Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
    Overfitting", 2014). Every call draws anew.

    Applies while `training` is set, as it is at first: `net.eval()` clears it in all layers of a
    network, which then return their inputs, and `net.train()` sets it again. The numbers are
    determined by `seed`, by default one that `alloc` draws for each layer, and begin anew in a copy
    such as `pack` makes. The layer cannot be part of the body of a symbolic loop.

    Raises:
        ValueError: `p` is not in [0, 1].

    >>> from drjit.llvm import TensorXf
    >>> drop = nn.Dropout(0.5, seed=1)
    >>> drop(TensorXf([1, 2, 3, 4])), drop(TensorXf([1, 2, 3, 4]))
    ([0, 4, 0, 0], [2, 0, 6, 0])
    >>> drop.eval()(TensorXf([1, 2, 3, 4]))
    [1, 2, 3, 4]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"p": float, "training": bool, "seed": int | None}
    _rng: Generator | None = None

    def __init__(self, p: float = 0.5, seed: int | None = None) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"drjit.nn.Dropout(): p must be in [0, 1], got {p!r}")
        self.p, self.seed, self.training = float(p), seed, True

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        seed = self.seed
        if seed is None:
            seed = int(rng.integers(flat_class(dtype, dt.u32), 1, high=1 << 31)[0])
        made = type(self)(self.p, seed)
        made.training = self.training
        return made, size

    def __call__(self, arg: T, /) -> T:
        n = _features(self, arg)
        if not self.training or self.p == 0:
            return arg
        if self._rng is None:
            self._rng = rng(self.seed or 0)
        kept = 1 - self.p
        scale = 1 / kept if kept else 0.0
        if not isinstance(arg, CoopVec):
            numbers = self._rng.random(with_dtype(type(arg), dt.f32), shape(arg))
            return select(numbers < kept, arg * scale, 0)
        cls = related(flat_class(arg.type, dt.f32), kind="vector", dims=(DYNAMIC,))
        numbers = self._rng.random(cls, (n, arg._node.size))
        return select(CoopVec(numbers) < kept, arg * scale, 0)

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"{type(self).__name__}(p={self.p:g}{seed})"


def _features(layer: Module, arg: Any) -> int:
    """Returns the number of features of an input."""
    if isinstance(arg, CoopVec):
        return len(arg)
    if not is_tensor_v(arg) or not is_float_v(arg):
        raise TypeError(
            f"drjit.nn.{layer!r}: expected a tensor of floating point numbers of shape (features, "
            f"N) or a cooperative vector, got {type_label(arg)}"
        )
    sizes = shape(arg)
    if not sizes:
        raise ValueError(f"drjit.nn.{layer!r}: the input is a tensor without dimensions")
    return sizes[0] if len(sizes) == 1 else sizes[-2]


def _converted(x: Any, kind: Any) -> Any:
    return cast(x, kind) if isinstance(x, CoopVec) else kind(x)

"""Layers: affine maps, activations, conversions, and sequences of layers.

Each layer takes a tensor of shape (features, N) or a cooperative vector and returns a value of the
same kind.
"""

from math import log, pi, sqrt
from textwrap import indent
from typing import Any, ClassVar, Self, TypeVar, overload

from ..array.base import ArrayBase, type_label
from ..function.data.create import zeros
from ..function.evaluation import make_opaque
from ..function.inspect.traits import float32_array_t, is_tensor_v, shape, tensor_t
from ..function.math.arithmetic import abs, fma, maximum, select
from ..function.math.transcendental import exp, exp2, log2, tanh
from ..jit.flags import JitFlag, flag
from ..random import Generator
from .coopvec import CoopVec, cast
from .matrix import MatrixView, matvec
from .module import Module, check_sizes, entry, found_size, uninitialized

T = TypeVar("T", bound=Any)


class Sequential(Module):
    """A network that applies its layers one after the other.

    `prefix` is prepended to the names of its parameters, so that several networks can share an
    optimizer.

    Raises:
        TypeError: a layer is not a module, or `prefix` is not a string.

    >>> from drjit.llvm import TensorXf
    >>> net = nn.Sequential(nn.Linear(-1, 3), nn.ReLU(), prefix="mlp")
    >>> net.alloc(TensorXf, 2)
    Sequential(
      Linear(in_features=2, out_features=3),
      ReLU()
    )
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"layers": tuple, "prefix": str}
    torch_names = {"layers": ""}  # noqa: RUF012

    def __init__(self, *args: Module, prefix: str = "") -> None:
        for i, layer in enumerate(args):
            if not isinstance(layer, Module):
                raise TypeError(
                    f"drjit.nn.Sequential(): argument {i} must be a module such as nn.Linear(), "
                    f"got {type_label(layer)}"
                )
        if not isinstance(prefix, str):
            raise TypeError(f"drjit.nn.Sequential(): prefix must be a string, got {prefix!r}")
        self.layers = args
        self.prefix = prefix

    @overload
    def __call__(self, arg: CoopVec[Any], /) -> CoopVec[Any]: ...

    @overload
    def __call__(self, arg: Any, /) -> Any: ...

    def __call__(self, arg: Any, /) -> Any:
        for layer in self.layers:
            arg = layer(arg)
        return arg

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        layers = []
        for layer in self.layers:
            made, size = layer._alloc(dtype, size, rng)
            layers.append(made)
        return type(self)(*layers, prefix=self.prefix), size

    def __repr__(self) -> str:
        text = ",\n".join(map(repr, self.layers)) + "\n" if self.layers else ""
        return f"{type(self).__name__}(\n{indent(text, '  ')})"


class Linear(Module):
    """An affine layer, `weights @ x + bias`; linear without the bias.

    A size of -1 is inferred from the input: `in_features` is the number of input features, and
    `out_features` equals `in_features`. Weights are initialized uniformly between
    -1/sqrt(out_features) and 1/sqrt(out_features), the bias with 0.

    >>> nn.Linear(2, -1, bias=False)
    Linear(in_features=2, out_features=-1, bias=False)
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {
        "config": tuple[int, int, bool],
        "weights": ArrayBase | MatrixView | None,
        "bias": ArrayBase | MatrixView | None,
    }
    torch_names = {"weights": "weight"}  # noqa: RUF012

    def __init__(self, in_features: int = -1, out_features: int = -1, bias: Any = True) -> None:
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.config = (in_features, out_features, bool(bias))
        self.weights: ArrayBase | MatrixView | None = None
        self.bias: ArrayBase | MatrixView | None = None

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        declared, rows, has_bias = self.config
        columns = found_size(self, declared, size, "input features")
        if rows == -1:
            rows = columns
        made = type(self)(columns, rows, has_bias)
        bound = 1 / sqrt(rows)
        # Drawn in single precision, so that all precisions use the same numbers.
        drawn = rng.random(float32_array_t(dtype), (rows, columns))
        made.weights = dtype(fma(drawn, 2 * bound, -bound))
        if not flag(JitFlag.SymbolicScope):
            make_opaque(made.weights)  # one short kernel serves all layers
        if has_bias:
            made.bias = zeros(dtype, rows)
            make_opaque(made.bias)  # a literal would lead to a different kernel once it is trained
        return made, rows

    def __call__(self, arg: T, /) -> T:
        weights, bias = self.weights, self.bias
        if weights is None:
            raise uninitialized(self)
        if not isinstance(arg, CoopVec):
            return self._with_tensor(arg, weights, bias)
        if not isinstance(weights, MatrixView):
            raise RuntimeError(
                f"drjit.nn.{self!r}: cooperative-vector evaluation requires packed weights. Pack "
                "them with 'net = drjit.nn.pack(net, layout=...)'."
            )
        if type(weights.buffer)._dtype is not arg._type._dtype:
            self._check_type(type(weights.buffer), arg._type, "cooperative vector")
        if arg._node.dtype.count != self.config[0]:
            self._check_features(len(arg))
        return matvec(weights, arg, bias)  # type: ignore[arg-type]

    def _with_tensor(self, arg: Any, weights: Any, bias: Any) -> Any:
        if isinstance(weights, MatrixView):
            raise RuntimeError(
                f"drjit.nn.{self!r}: the weights are packed, for cooperative vectors. Pass "
                "'nn.CoopVec(x)', or evaluate the network from before drjit.nn.pack() for a tensor."
            )
        if not is_tensor_v(arg):
            raise TypeError(
                f"drjit.nn.{self!r}: expected a tensor of shape ({self.config[0]}, N) or a "
                f"cooperative vector, got {type_label(arg)}"
            )
        self._check_type(type(weights), type(arg), "input")
        sizes = shape(arg)
        if not sizes:
            raise ValueError(f"drjit.nn.{self!r}: the input is a tensor without dimensions")
        self._check_features(sizes[0] if len(sizes) == 1 else sizes[-2], sizes)
        result = weights @ arg
        if bias is None:
            return result
        return result + (bias if len(sizes) == 1 else type(bias)(bias.array, (len(bias), 1)))

    def _check_type(self, weights: Any, found: Any, role: str) -> None:
        if weights._dtype is not found._dtype:
            raise TypeError(
                f"drjit.nn.{self!r}: the weights are of type {type_label(weights)}, the {role} of "
                f"type {type_label(found)}. Convert it by a layer 'nn.Cast({weights.__name__})' "
                "before this one."
            )

    def _check_features(self, found: int, sizes: tuple[int, ...] | None = None) -> None:
        if found != self.config[0]:
            given = f"input, of shape {sizes}," if sizes else "input"
            raise ValueError(
                f"drjit.nn.{self!r}: the layer has {self.config[0]} input features, but the "
                f"{given} has {found}"
            )

    def __repr__(self) -> str:
        columns, rows, bias = self.config
        text = "" if bias else ", bias=False"
        return f"{type(self).__name__}(in_features={columns}, out_features={rows}{text})"


class Activation(Module):
    """Base class of layers without parameters."""

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {}


class ReLU(Activation):
    """The maximum of x and 0.

    >>> from drjit.llvm import TensorXf
    >>> nn.ReLU()(TensorXf([-2, 3]))
    [0, 3]
    """

    def __call__(self, arg: T, /) -> T:
        return maximum(arg, 0)  # type: ignore[return-value]


class LeakyReLU(Module):
    """x where it is positive, `negative_slope * x` elsewhere. If the slope is an array, it is a
    parameter.

    >>> from drjit.llvm import TensorXf
    >>> nn.LeakyReLU(0.1)(TensorXf([-2, 3]))
    [-0.2, 3]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"negative_slope": float | ArrayBase}

    def __init__(self, negative_slope: float | ArrayBase = 0.01) -> None:
        self.negative_slope = negative_slope

    def __call__(self, arg: T, /) -> T:
        # A factor, so that the derivative is just one more product.
        one = arg._with_number(1.0) if isinstance(arg, CoopVec) else type(arg)(1)
        return arg * select(arg > 0, one, entry(self.negative_slope))


class Exp2(Activation):
    """2 to the power of x."""

    def __call__(self, arg: T, /) -> T:
        return exp2(arg)  # type: ignore[return-value]


class Exp(Activation):
    """e to the power of x."""

    def __call__(self, arg: T, /) -> T:
        return exp(arg)  # type: ignore[return-value]


class Tanh(Activation):
    """The hyperbolic tangent of x."""

    def __call__(self, arg: T, /) -> T:
        return tanh(arg)  # type: ignore[return-value]


class Sigmoid(Activation):
    """The logistic function 1 / (1 + exp(-x)), computed as (1 + tanh(x / 2)) / 2 so that neither it
    nor its derivatives overflow.

    >>> from drjit.llvm import TensorXf
    >>> nn.Sigmoid()(TensorXf([-1000, 0, 1]))
    [0, 0.5, 0.731059]
    """

    def __call__(self, arg: T, /) -> T:
        return _sigmoid(arg)


class SiLU(Activation):
    """x times the logistic function of x (Elfwing et al., "Sigmoid-Weighted Linear Units for Neural
    Network Function Approximation in Reinforcement Learning", 2018).

    >>> from drjit.llvm import TensorXf
    >>> nn.SiLU()(TensorXf([-1, 0, 1]))
    [-0.268941, 0, 0.731059]
    """

    def __call__(self, arg: T, /) -> T:
        return arg * _sigmoid(arg)


class GELU(Activation):
    """x times the probability that a standard normal variable is less than x, in the tanh
    approximation (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2).

    >>> from drjit.llvm import TensorXf
    >>> nn.GELU()(TensorXf([-1, 0, 1]))
    [-0.158808, 0, 0.841192]
    """

    def __call__(self, arg: T, /) -> T:
        scale = sqrt(2 / pi)
        half = 0.5 * arg
        return fma(half, tanh(arg * fma(arg * arg, 0.044715 * scale, scale)), half)  # type: ignore[return-value]


class Softplus(Activation):
    """log(1 + exp(x)), without overflow.

    >>> from drjit.llvm import TensorXf
    >>> nn.Softplus()(TensorXf([-1, 0, 1000]))
    [0.313262, 0.693147, 1000]
    """

    def __call__(self, arg: T, /) -> T:
        # (x + |x|) / 2 rather than max(x, 0): its derivative at 0 is right for any derivative of
        # |x|.
        size = abs(arg)
        tail = log2(1 + exp2(size * (-1 / log(2))))
        return fma(tail, log(2), 0.5 * (arg + size))  # type: ignore[return-value]


class ScaleAdd(Module):
    """`x * scale + offset`. A scale or offset that is an array is a parameter.

    >>> from drjit.llvm import TensorXf
    >>> nn.ScaleAdd(2, 1)(TensorXf([-2, 3]))
    [-3, 7]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {
        "scale": float | int | ArrayBase | None,
        "offset": float | int | ArrayBase | None,
    }

    def __init__(
        self,
        scale: float | int | ArrayBase | None = None,
        offset: float | int | ArrayBase | None = None,
    ) -> None:
        self.scale = scale
        self.offset = offset

    def __call__(self, arg: T, /) -> T:
        if self.scale is None or self.offset is None:
            raise RuntimeError("drjit.nn.ScaleAdd(): both a scale and an offset are needed")
        return fma(arg, entry(self.scale), entry(self.offset))


class Cast(Module):
    """Converts to the precision of an array or tensor type.

    Raises:
        TypeError: `dtype` is not an array type.

    >>> from drjit.llvm import Float16, TensorXf
    >>> nn.Cast(Float16)
    Cast(dtype=Float16)
    >>> type(nn.Cast(Float16)(TensorXf([1, 2])))
    <class 'drjit.llvm.TensorXf16'>
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"dtype": type[ArrayBase] | None}

    def __init__(self, dtype: type[ArrayBase] | None = None) -> None:
        if dtype is not None and tensor_t(dtype) is None:
            raise TypeError(
                f"drjit.nn.Cast(): dtype must be an array type such as Float16, got {dtype!r}"
            )
        self.dtype = dtype

    @overload
    def __call__(self, arg: CoopVec[Any], /) -> CoopVec[Any]: ...

    @overload
    def __call__(self, arg: Any, /) -> Any: ...

    def __call__(self, arg: Any, /) -> Any:
        if self.dtype is None:
            raise TypeError("drjit.nn.Cast(): the layer was made without a type to convert to")
        if isinstance(arg, CoopVec):
            return cast(arg, self.dtype)
        return tensor_t(self.dtype)(arg)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dtype={getattr(self.dtype, '__name__', None)})"


def _sigmoid(arg: Any) -> Any:
    return fma(tanh(0.5 * arg), 0.5, 0.5)

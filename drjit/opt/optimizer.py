"""The common part of all optimizers: the mapping of parameters, learning rates, steps and saved
states. A subclass defines the initial state of a parameter (`_reset`) and how one step changes it
(`_step`).
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from math import prod
from typing import Any, ClassVar, Generic, overload

from ..ad.graph import new_input
from ..array import leaf
from ..array.annotations import ArrayOrFloat as LearningRate
from ..array.annotations import Extra
from ..array.base import ArrayBase, IncompatibleError, type_label
from ..array.pytree import leaf_arrays, map_tree, walk
from ..function import evaluation
from ..function.ad import grad as derivatives
from ..function.ad import propagate
from ..function.conversion import converted, is_real, map_leaves, related
from ..function.data import create
from ..function.inspect import traits
from ..function.math import arithmetic
from ..jit import log
from ..jit.ir import dtype as dt
from ..jit.lazy import np
from ..jit.run.freeze import active as active_recorder
from ..jit.tuples import NamedTuple

State = tuple[Any, bool, LearningRate | None, Extra]
"""A differentiable parameter (in single precision if promoted from half precision), whether it is
promoted, its individual learning rate, and the optimizer's state."""


class StepInputs(NamedTuple):
    """The inputs of a parameter's step: entries and gradients, detached and in the form of
    `entries`, the learning rate, and the optimizer's state."""

    value: Any
    grad: Any
    lr: Any
    extra: Any


class RateCache(dict):
    """Caches products of learning rates and factors for all parameters of a step."""

    def product(self, tp: type, *args: LearningRate) -> Any:
        """Returns the product of numbers and arrays as an array of type `tp`."""
        # An array must outlive its id in the key.
        key = (tp, *[id(a) if isinstance(a, ArrayBase) else a for a in args])
        if key not in self:
            product = tp(prod([a for a in args if not isinstance(a, ArrayBase)]))
            for a in args:
                if isinstance(a, ArrayBase):
                    product = product * tp(a)
            self[key] = product, args
        return self[key][0]


class Optimizer(MutableMapping[str, Any], Generic[Extra]):
    """A mapping from names to the parameters being optimized. It holds the current values: reading
    one returns a differentiable array, and `step` moves all of them along their gradients.

    Every parameter is a Dr.Jit array, nested array or tensor of a differentiable floating point
    type. Each entry is optimized individually; the real and imaginary parts of a complex number
    count as two entries.

    Arguments common to all optimizers:
        lr: the learning rate, a number or an array. It may change from step to step without
            recompilation.
        params: initial parameters.
        mask_updates: do not change entries whose gradient is zero, nor their state. This suits
            parameters that are only partly used in each step.
        promote_fp16: optimize half-precision parameters in single precision, so that small updates
            are not lost to rounding. Reading the parameter rounds it.

    Raises:
        TypeError: a learning rate or a parameter is of another type.
        RuntimeError: a parameter has no entries.

    >>> from drjit.opt import SGD
    >>> opt = SGD(lr=0.25, params={"x": Float(1, 2)})
    >>> for i in range(2):
    ...     dr.backward(dr.sum(dr.square(opt["x"])))
    ...     opt.step()
    >>> opt["x"]
    [0.25, 0.5]

    **Custom optimizers** derive from this class. `state` maps each name to a tuple: the
    differentiable value, whether it is promoted, its individual learning rate or None, and the
    optimizer's state for it (`extra`). A subclass defines

    - `_reset(key, value, promoted)`, which sets `state[key]` for a parameter that is new, has
      changed its shape, or is reset, and
    - `_step(cache, value, grad, lr, extra)`, which returns the new value and the new state. Value
      and gradient are detached; tensors are passed as flat arrays, and complex numbers, quaternions
      and matrices as nested arrays. `cache.product(type, lr, ...)` multiplies learning rates and
      factors once for all parameters of a step.

    It may override `_select(mask, extra, new_extra)`, which merges the old and new state, given a
    mask of the entries that a step does not change, and `_filter(params)`, which selects from the
    parameters passed to the constructor and to `update`.

    >>> class SignDescent(dr.opt.Optimizer):
    ...     def _reset(self, key, value, promoted):
    ...         self.state[key] = value, promoted, None, None
    ...     def _step(self, cache, value, grad, lr, extra):
    ...         return value - dr.sign(grad) * cache.product(type(value), lr), extra
    >>> opt = SignDescent(0.5, {"x": Float(1, -2)})
    >>> dr.backward(dr.sum(dr.square(opt["x"])))
    >>> opt.step()
    >>> opt["x"]
    [0.5, -1.5]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"lr": float | ArrayBase, "state": dict}

    saved: ClassVar[dict[str, str]] = {}
    """The names under which `state_dict` saves the parts of `extra`, keyed by their path, such as
    `[0]`. Without this table, all parts are saved."""

    _settings: ClassVar[str] = ""
    """The part of `repr` after the learning rates, a format of the optimizer."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(
        self,
        lr: LearningRate,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        mask_updates: bool = False,
        promote_fp16: bool = True,
    ) -> None:
        self.lr: Any = None if lr is None else self._factor(lr, "__init__")
        self.mask_updates = mask_updates
        self.promote_fp16 = promote_fp16
        self.state: dict[str, State[Extra]] = {}
        if params is not None:
            self.update(params)

    def _check_fractions(self, **values: float) -> None:
        for name, value in values.items():
            if not 0 <= value < 1:
                what = f"dr.opt.{type(self).__name__}(): {name!r}"
                raise RuntimeError(f"{what} must be in [0, 1), not {value}")

    def _check_not_negative(self, **values: float) -> None:
        for name, value in values.items():
            if not value >= 0:
                what = f"dr.opt.{type(self).__name__}(): {name!r}"
                raise RuntimeError(f"{what} must be >= 0, not {value}")

    # ---- Interface of subclasses

    def _filter(self, params: Mapping[str, ArrayBase], /) -> Mapping[str, ArrayBase]:
        """Returns the given parameters that the optimizer accepts."""
        return params

    def _reset(self, key: str, value: Any, promoted: bool, /) -> None:
        """Initializes the state of a parameter."""
        raise NotImplementedError(
            f"{type(self).__name__}._reset({key!r}, ...): missing implementation. It must set "
            "self.state[key] = value, promoted, None, extra."
        )

    def _step(
        self, cache: RateCache, value: Any, grad: Any, lr: Any, extra: Extra, /
    ) -> tuple[Any, Extra]:
        """Returns the value and the state of a parameter after a step."""
        raise NotImplementedError(
            f"{type(self).__name__}._step(): missing implementation. It must return the new value "
            "and the new state of a parameter."
        )

    def _steps(self, cache: RateCache, jobs: Sequence[StepInputs]) -> Iterable[tuple[Any, Extra]]:
        """Performs a step of all parameters."""
        return [self._step(cache, *job) for job in jobs]  # type: ignore[arg-type]

    def _select(self, mask: Any, extra: Extra, new_extra: Extra, /) -> Extra:
        """Returns the state of a parameter that stays unchanged where `mask` is true."""

        def selected(old: Any, new: Any) -> Any:
            return arithmetic.select(mask, old, new) if isinstance(new, ArrayBase) else new

        return map_tree(selected, extra, new_extra, what=f"{type(self).__name__}._select")

    # ---- The mapping

    def __contains__(self, key: object, /) -> bool:
        return key in self.state

    def __getitem__(self, key: str, /) -> Any:
        """Returns a parameter: the array whose gradient the next step uses, or for a promoted
        parameter a new half-precision array that depends on it.

        Raises:
            KeyError: there is no such parameter.
        """
        value, promoted, _, _ = self._parameter(key)
        return related(type(value), dtype=dt.f16)(value) if promoted else value

    def __setitem__(self, key: str, value: ArrayBase, /) -> None:
        """Adds a parameter or assigns a new value. The parameter does not depend on the computation
        that produced the value.

        An assignment that keeps the shape also keeps the state (moments, step count and the
        parameter's learning rate); otherwise the state is reset.

        Raises:
            TypeError: the value is not an array or tensor of a differentiable floating point type.
            RuntimeError: it is empty.
        """
        what = f"dr.opt.{type(self).__name__}.__setitem__()"
        cls = type(value)
        if not isinstance(value, ArrayBase) or not value._diff or not cls._dtype.is_float:
            raise TypeError(
                f'{what}: cannot register parameter "{key}" of type "{cls.__name__}" (a '
                f"{type_label(cls)}). It must be an array or tensor of a differentiable floating "
                "point type, such as drjit.auto.ad.Float. Of a list, a tuple or another structure, "
                "assign every array under a name of its own."
            )
        shape = traits.shape(value)
        if prod(shape) == 0:
            raise RuntimeError(f'{what}: parameter "{key}" is empty! Its shape is {shape}.')

        promoted = self.promote_fp16 and cls._dtype is dt.f16
        if promoted:
            value = related(cls, dtype=dt.f32)(value)
        with propagate.resumed():
            value = tracked(value, entries(value))
        # Data from the beginning, so that the first step runs the same program as all others.
        evaluation.make_opaque(value)
        if key in self.state:
            old, _, lr, extra = self.state[key]
            if layout(old) == layout(value):
                before, now = entries_class(type(old)), entries_class(type(value))
                if before is not now:
                    extra = map_tree(lambda v: now(v) if type(v) is before else v, extra)
                self.state[key] = value, promoted, lr, extra
                return
        self._reset(key, value, promoted)

    def __delitem__(self, key: str, /) -> None:
        self._parameter(key)
        del self.state[key]

    def _parameter(self, key: str) -> State[Extra]:
        found = self.state.get(key)
        if found is None:
            names = ", ".join(map(repr, self.state)) or "none"
            raise KeyError(f"dr.opt.{type(self).__name__}: no parameter {key!r}; there is {names}")
        return found

    def __len__(self) -> int:
        return len(self.state)

    def __iter__(self) -> Iterator[str]:
        return iter(self.state)

    def keys(self) -> Iterator[str]:  # type: ignore[override]
        """Returns the names of the parameters, in the order in which they were added."""
        return iter(self.state)

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Returns the arrays being optimized; for a promoted parameter, the single-precision
        one."""
        return (value for value, *_ in self.state.values())

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """Returns the arrays being optimized, as in `values`, with their names."""
        return ((key, value) for key, (value, *_) in self.state.items())

    def update(self, params: Mapping[str, ArrayBase] | None = None, **args: ArrayBase) -> None:  # type: ignore[override]
        """Adds or assigns parameters, given by a mapping, such as a neural network, or as keyword
        arguments.

        Raises:
            TypeError: `params` is not a mapping.
        """
        if params is not None and not hasattr(params, "items"):
            raise TypeError(
                f"dr.opt.{type(self).__name__}.update(): 'params' must be a mapping from names to "
                f"arrays, not {type_label(type(params))}"
            )
        for given in (params, args):
            if given:
                for key, value in self._filter(given).items():
                    self[key] = value

    def reset(self, key: str | None = None) -> None:
        """Resets the state (moments, step count, individual learning rate) of one parameter, or of
        all. Values do not change.

        Raises:
            KeyError: there is no such parameter.
        """
        for name in list(self.state) if key is None else (key,):
            value, promoted, _, _ = self._parameter(name)
            self._reset(name, value, promoted)

    # ---- Learning rates

    @overload
    def learning_rate(self, key: None = None) -> LearningRate: ...

    @overload
    def learning_rate(self, key: str) -> LearningRate | None: ...

    def learning_rate(self, key: str | None = None) -> LearningRate | None:
        """Returns the learning rate of a parameter, or None if it has no individual one. Without a
        name, returns the default learning rate.

        Raises:
            KeyError: there is no such parameter.
        """
        return self.lr if key is None else self._parameter(key)[2]

    def set_learning_rate(
        self,
        value: float | ArrayBase | Mapping[str, float | ArrayBase | None] | None = None,
        /,
        **kwargs: float | ArrayBase | None,
    ) -> None:
        """Sets the default learning rate, and individual ones by a mapping from parameter names to
        rates or by keyword arguments. None makes a parameter use the default again.

        An array may hold one learning rate per entry of a flat array or tensor.

        Raises:
            KeyError: there is no such parameter.
            TypeError: a learning rate is neither a number nor a flat floating point array.

        >>> from drjit.opt import Adam
        >>> opt = Adam(1e-3, {"x": Float(1), "y": Float(2)})
        >>> opt.set_learning_rate(1e-2, y=0.5)
        >>> opt.learning_rate(), opt.learning_rate("x"), opt.learning_rate("y")
        (0.01, None, 0.5)
        """
        single: dict[str, Any] = {}
        if isinstance(value, Mapping):
            single.update(value)
            value = None
        single.update(kwargs)
        what = "set_learning_rate"
        general = self.lr if value is None else self._factor(value, what)
        rates = {k: None if r is None else self._factor(r, what) for k, r in single.items()}
        for key in rates:
            self._parameter(key)
        for key, rate in rates.items():
            value, promoted, _, extra = self.state[key]
            self.state[key] = value, promoted, rate, extra
        self.lr = general

    def _factor(self, value: Any, method: str, role: str = "a learning rate") -> LearningRate:
        """Checks a number, or an array of numbers for the entries of a parameter."""
        if is_real(value):
            return float(value)
        if isinstance(value, ArrayBase) and value._kind == "leaf" and value._dtype.is_float:
            return value
        raise IncompatibleError(
            f"dr.opt.{type(self).__name__}.{method}(): {role} must be a number or a flat array of "
            f"floating point type, not {type_label(type(value))}"
        )

    # ---- Steps

    def step(
        self,
        *,
        eval: bool = True,
        grad_scale: float | ArrayBase | None = None,
        active: bool | ArrayBase | None = None,
    ) -> None:
        """Moves every parameter along its gradient, then clears the gradients. A parameter without
        a gradient counts as having gradient zero.

        Arguments:
            eval: evaluate all parameters and states together. Otherwise they remain unevaluated and
                become part of the caller's kernel.
            grad_scale: a factor applied to all gradients, a number or an array.
            active: a mask; where it is false, parameters and their moments do not change. The step
                still counts.

        Raises:
            TypeError: `grad_scale` or `active` is of another type.
            RuntimeError: the size of `active`, `grad_scale` or a learning rate does not match a
                parameter. In this case, no parameter changes.
        """
        cache = RateCache()
        # In a frozen function, parameters that it received keep gradients, which the kernel of the
        # step computes anyway.
        gradients = []
        if eval and active_recorder() is not None:
            gradients = [derivatives.grad(value) for value, *_ in self.state.values()]
        with propagate.resumed():
            jobs = [self._job(key, grad_scale) for key in self.state]
            if jobs and not any(_has_gradient(value) for value, *_ in self.state.values()):
                log.warn(
                    f"dr.opt.{type(self).__name__}.step() without gradients: no parameter has one, "
                    "so all count as zero. Call dr.backward(loss) before, on a loss that is "
                    "computed from the parameters that the optimizer has, such as opt['x']"
                )
            state: dict[str, State[Extra]] = {}
            for key, job, (x, extra) in zip(
                self.state, jobs, self._steps(cache, jobs), strict=True
            ):
                value, promoted, lr, _ = self.state[key]
                mask = self._unchanged(key, job, active)
                if mask is not None:
                    x = arithmetic.select(mask, job.value, x)
                    extra = self._select(mask, job.extra, extra)
                state[key] = tracked(value, x), promoted, lr, extra
            self.state.update(state)
        if eval:
            evaluation.eval(state, gradients)

    def _job(self, key: str, grad_scale: Any) -> StepInputs:
        value, _, lr, extra = self.state[key]
        x, grad = entries(value), entries(value.grad)
        if grad_scale is not None:
            grad = self._scaled(grad, grad_scale, key)
        rate = self.lr if lr is None else lr
        if isinstance(rate, ArrayBase):
            self._check_size(rate, x, key, "the learning rate")
        return StepInputs(x, grad, rate, extra)

    def _scaled(self, gradient: Any, scale: Any, name: str) -> Any:
        scale = self._factor(scale, "step", "'grad_scale'")
        if isinstance(scale, float):
            return gradient * scale
        self._check_size(scale, gradient, name, "'grad_scale'")
        cls = type(gradient)
        if cls._dtype is dt.f16:  # its range is too small for the factors used here
            single = related(cls, dtype=dt.f32)
            return cls(single(gradient) * related(type(scale), dtype=dt.f32)(scale))
        return gradient * related(type(scale), dtype=cls._dtype)(scale)

    def _unchanged(self, key: str, job: StepInputs, active: Any) -> Any:
        """Returns a mask of the entries that stay unchanged, or None if all of them change."""
        mask = None
        if isinstance(active, (bool, np.bool_)):
            mask = None if active else type(leaf_arrays(job.value)[0]).Mask(True)
        elif active is not None:
            is_array = isinstance(active, ArrayBase)
            if not is_array or active._kind != "leaf" or not active._dtype.is_mask:
                raise IncompatibleError(
                    f"dr.opt.{type(self).__name__}.step(): 'active' must be a bool or a flat mask, "
                    f"not {type_label(type(active))}"
                )
            self._check_size(active, job.value, key, "'active'")
            mask = ~active
        if self.mask_updates:
            untouched = job.grad == 0
            return untouched if mask is None else untouched | mask
        return mask

    def _check_size(self, given: Any, x: Any, name: str, role: str) -> None:
        for component in leaf_arrays(x):
            if len(given) not in (1, len(component)):
                raise RuntimeError(
                    f"dr.opt.{type(self).__name__}.step(): {role} has {len(given)} entries, but "
                    f"parameter {name!r} has {len(component)}"
                )

    # ---- Saving

    def state_dict(self) -> dict[str, Any]:
        """Returns a mapping from names to arrays that can be saved, and from which
        `load_state_dict` restores exactly the current state of the optimizer.

        The learning rate is stored as `"lr"`. A parameter, say `"x"`, has its value in `"x.value"`,
        its individual learning rate, if any, in `"x.lr"`, and further state under names such as
        `"x.first_moment"`; Adam stores the step count in `"x.steps"`. Custom optimizers save all
        arrays and numbers in their state, as in `"x.extra[0]"`. Numbers are stored as
        zero-dimensional NumPy arrays. Options of the optimizer, such as decay rates, are not
        included.

        >>> from drjit.opt import Adam
        >>> list(Adam(1e-3, {"x": Float(1)}).state_dict())
        ['lr', 'x.value', 'x.steps', 'x.first_moment', 'x.second_moment']
        """
        found: dict[str, Any] = {"lr": stored_rate(self.lr)}
        for key, (value, _, lr, extra) in self.state.items():
            found[f"{key}.value"] = derivatives.detach(value, False)
            if lr is not None:
                found[f"{key}.lr"] = stored_rate(lr)
            for name, part in self._named(extra):
                if name is not None:
                    found[f"{key}.{name}"] = stored(part, value)
        return found

    def _named(self, extra: Extra) -> list[tuple[str | None, Any]]:
        """Returns the parts of a parameter's state with the names under which they are saved."""
        return [
            (self.saved.get(path) if self.saved else f"extra{path}", part)
            if isinstance(part, ArrayBase | int | float)
            else (None, part)
            for path, part in walk(extra)
        ]

    def load_state_dict(self, saved: Mapping[str, Any], /) -> None:
        """Restores the result of `state_dict`, or NumPy arrays with its contents. The optimizer
        must be of the same kind and have the same parameters.

        Raises:
            KeyError: entries are missing, or do not belong to a parameter.
            TypeError: an entry has the wrong element type.
            ValueError: an entry has the wrong shape. In all these cases, nothing changes.
        """
        what = f"dr.opt.{type(self).__name__}.load_state_dict()"
        required = {"lr"}
        for key, (_, _, _, extra) in self.state.items():
            names = [name for name, _ in self._named(extra) if name is not None]
            required |= {f"{key}.{name}" for name in ("value", *names)}
        missing = required - saved.keys()
        surplus = saved.keys() - required - {f"{key}.lr" for key in self.state}
        if missing or surplus:
            lists = (("missing", missing), ("unknown", surplus))
            text = "; ".join(f"{kind}: {', '.join(sorted(keys))}" for kind, keys in lists if keys)
            raise KeyError(f"{what}: the entries do not fit the optimizer's parameters ({text})")

        state: dict[str, State[Extra]] = {}
        for key, (old, promoted, _, extra) in self.state.items():
            value = restored(saved[f"{key}.value"], old, f"{what}: '{key}.value'")
            following = iter([name for name, _ in self._named(extra)])

            def part(v: Any, key: str = key, names: Any = following, old: Any = old) -> Any:
                name = next(names)
                full = f"{key}.{name}"
                if name is None:
                    return v
                return loaded(saved[full], v, old, f"{what}: '{full}'")

            extra = map_tree(part, extra)
            rate = loaded_rate(saved.get(f"{key}.lr"), old)
            if rate is not None:
                rate = self._factor(rate, "load_state_dict")
            with propagate.resumed():
                value = tracked(old, entries(value))
            evaluation.make_opaque(value)
            state[key] = value, promoted, rate, extra
        some = next(iter(self.values()), None)
        lr = loaded_rate(saved["lr"], some)
        self.lr = None if lr is None else self._factor(lr, "load_state_dict")
        self.state.update(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores an optimizer that was pickled, which arrays are without derivatives."""
        self.__dict__.update(state)
        with propagate.resumed():
            for key, (value, promoted, lr, extra) in self.state.items():
                if not derivatives.grad_enabled(value):
                    value = tracked(value, entries(value))
                self.state[key] = value, promoted, lr, extra

    # ---- Text

    def __repr__(self) -> str:
        rates = {"default": self.lr}
        rates |= {key: lr for key, (_, _, lr, _) in self.state.items() if lr is not None}
        count = sum(prod(traits.shape(value)) for value in self.values())
        return (
            f"{type(self).__name__}[\n"
            f"  parameters = {list(self.state)},\n"
            f"  total_count = {count},\n"
            f"  lr = {rates}{self._settings.format(self)}\n]"
        )


# ---- Parameters: how they are created, laid out and saved


def _has_gradient(value: Any) -> bool:
    return any(a._var is not None and a._var.grad is not None for a in leaf_arrays(value))


def entries_class(cls: type) -> Any:
    """Returns the class of a parameter's entries in a step: the flat array of a tensor, and the
    nested array for complex numbers, quaternions and matrices."""
    return related(cls, kind="leaf", dims=()) if cls._kind == "tensor" else traits.array_t(cls)  # type: ignore[attr-defined]


def entries(value: Any) -> Any:
    """Returns the detached entries of a parameter."""
    flat = value._array if value._kind == "tensor" else value
    return with_leaves(type(flat).Array, flat, detached_leaves(flat))


def detached_leaves(value: Any) -> list[Any]:
    return [leaf.wrap(type(a), a._node) for a in leaf_arrays(value)]


def with_leaves(cls: Any, like: Any, leaves: Iterable[Any]) -> Any:
    """Returns an array of class `cls` with the structure of `like` and the given components."""
    following = iter(leaves)
    return converted(like, cls, lambda *_: next(following))


def blank(value: Any) -> Any:
    """Returns evaluated zeros for the entries of a parameter."""
    zeros = map_leaves(entries(value), create.zeros_like)
    evaluation.make_opaque(zeros)
    return zeros


def layout(value: Any) -> tuple:
    """Returns the properties that an assignment must preserve for the state to be kept."""
    return traits.shape(value), [len(a) for a in leaf_arrays(value)]


def like(value: Any, x: Any) -> Any:
    """Returns the given entries in the shape of a parameter."""
    return with_leaves(type(value), value, leaf_arrays(x))


def tracked(value: Any, x: Any) -> Any:
    """Returns a new differentiable parameter like `value`, with the given entries. Called within
    `propagate.resumed`."""
    leaves = detached_leaves(x)
    for a in leaves:
        a._var = new_input(a._node)
    return with_leaves(type(value), value, leaves)


def stored_rate(rate: Any) -> Any:
    return derivatives.detach(rate, False) if isinstance(rate, ArrayBase) else np.array(rate)


def loaded_rate(saved: Any, parameter: Any) -> Any:
    """Returns a saved learning rate; an array is converted to the parameter's kind."""
    if saved is None or isinstance(saved, ArrayBase):
        return saved
    host = np.asarray(saved)
    if host.ndim == 0 or parameter is None:
        return host.item()
    return type(leaf_arrays(parameter)[0])(host)


def is_like(part: Any, value: Any) -> bool:
    """Returns whether a part of the state has one entry per entry of the parameter."""
    return type(part) is entries_class(type(value)) and (
        [len(a) for a in leaf_arrays(part)] == [len(a) for a in leaf_arrays(value)]
    )


def stored(part: Any, value: Any) -> Any:
    """Converts a part of a parameter's state to the form in which it is saved."""
    if not isinstance(part, ArrayBase):
        return np.array(part)
    if is_like(part, value):
        return like(derivatives.detach(value, False), part)
    return np.array(part[0]) if part._kind == "leaf" and len(part) == 1 else part


def loaded(saved: Any, part: Any, value: Any, what: str) -> Any:
    """Converts the result of `stored` back to the kind of another part."""
    if not isinstance(part, ArrayBase):
        return type(part)(np.asarray(saved).item())
    if is_like(part, value):
        part = entries(restored(saved, like(derivatives.detach(value, False), part), what))
        evaluation.make_opaque(part)
        return part
    host = np.asarray(saved)
    return type(part)(host.item() if host.ndim == 0 else host)


def restored(saved: Any, value: Any, what: str) -> Any:
    """Converts a saved array to one like `value`."""
    given = np.asarray(saved)
    expected = np.asarray(derivatives.detach(value, False))
    if given.shape != expected.shape:
        raise ValueError(f"{what} has the shape {given.shape}, the optimizer's {expected.shape}")
    if given.dtype != expected.dtype:
        raise TypeError(f"{what} has the element type {given.dtype}, expected {expected.dtype}")
    # A component shared by all entries is saved once per entry.
    made = type(value)(given)
    if value._kind == "tensor":
        return made
    pairs = zip(leaf_arrays(made), leaf_arrays(value), strict=True)
    leaves = [a if len(a) == len(b) else type(a)(a[0]) for a, b in pairs]
    return with_leaves(type(made), made, leaves)

"""What all optimizers share: the mapping of parameters, learning rates, steps and saved states. A
subclass names the arrays that it keeps for a parameter and says how one step changes them.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from math import prod
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ..array.base import ArrayBase, type_label
from ..array.pytree import leaf_arrays
from ..function import create, evaluation, scopes, traits
from ..function import grad as derivatives
from ..function.parts import related
from ..jit import dtype as dt
from ..jit.freeze import active as active_recorder
from .parameter import (
    Change,
    Job,
    Leaves,
    Parameter,
    Rate,
    host_number,
    layout,
    leaves,
    like,
    loaded_rate,
    restored,
    selected,
    stored_rate,
    tracked,
)


class Optimizer(MutableMapping[str, ArrayBase]):
    """A mapping from names to the parameters that are optimized. It holds the current values; to
    read one gives a differentiable array, and `step` moves all of them along their gradients.

    Every parameter is a Dr.Jit array, nested array or tensor of a differentiable floating point
    type. It is optimized by its entries; real and imaginary parts of complex numbers count as two.

    Arguments of all optimizers:
        lr: the learning rate, a number or an array. It may change from step to step, which causes
            no compilation.
        params: initial parameters.
        mask_updates: leave entries whose gradient is zero, and what is remembered about them, as
            they are. This suits parameters of which a step only uses a part.
        promote_fp16: optimize parameters of half precision in single precision, so that small
            updates are not lost to rounding. Reading the parameter rounds it.

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
    """

    __module__ = "drjit.opt"

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"lr": float | ArrayBase, "state": dict}

    kept: tuple[str, ...] = ()
    """Names of the arrays, zeros at first, that are kept for every parameter."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(
        self,
        lr: float | ArrayBase,
        params: Mapping[str, ArrayBase] | None = None,
        *,
        mask_updates: bool = False,
        promote_fp16: bool = True,
    ) -> None:
        self.lr: Rate = self._checked_rate(lr, "__init__")
        self.mask_updates = mask_updates
        self.promote_fp16 = promote_fp16
        self.state: dict[str, Parameter] = {}
        if params is not None:
            self.update(params)

    @abstractmethod
    def _change(self, job: Job) -> Change:
        """One step of one parameter."""

    def _changes(self, jobs: Sequence[Job]) -> Iterable[Change]:
        """One step of all parameters."""
        return map(self._change, jobs)

    def _check_parameter(self, name: str, value: Any) -> None:
        """Raises if the optimizer has no use for a parameter, for example because of its shape."""

    # ---- The mapping

    def __contains__(self, key: object, /) -> bool:
        return key in self.state

    def __getitem__(self, key: str, /) -> Any:
        """A parameter: the very array that the next step takes the gradient of, or for a promoted
        one a new array of half precision that depends on it.

        Raises:
            KeyError: there is no such parameter.
        """
        parameter = self._parameter(key)
        value = parameter.value
        return value if type(value) is parameter.kind else parameter.kind(value)

    def __setitem__(self, key: str, value: ArrayBase, /) -> None:
        """Adds a parameter or assigns a new value. The parameter does not depend on what the value
        was computed from.

        An assignment that keeps the shape also keeps the state (moments, the number of steps and
        the parameter's learning rate); any other one starts anew.

        Raises:
            TypeError: the value is no array or tensor of a differentiable floating point type.
            RuntimeError: it is empty.
        """
        what = f"dr.opt.{type(self).__name__}.__setitem__()"
        cls = type(value)
        if not isinstance(value, ArrayBase) or not value._diff or not cls._dtype.is_float:
            raise TypeError(
                f"{what}: parameter {key!r} is of type {type_label(cls)}, but must be an array or "
                "tensor of a differentiable floating point type, such as drjit.auto.ad.Float. Of a "
                "list, a tuple or another structure, assign every array under a name of its own."
            )
        shape = traits.shape(value)
        if prod(shape) == 0:
            raise RuntimeError(f"{what}: parameter {key!r} is empty (its shape is {shape})")
        self._check_parameter(key, value)

        kind = cls
        if self.promote_fp16 and cls._dtype is dt.f16:
            value = related(cls, dtype=dt.f32)(value)
        made = Parameter(tracked(value, leaves(value)), kind)
        old = self.state.get(key)
        if old is not None and layout(old.value) == layout(made.value):
            made.lr, made.steps = old.lr, old.steps
            made.moments = {
                name: [type(x)(m) for x, m in zip(leaves(made.value), moment, strict=True)]
                for name, moment in old.moments.items()
            }
        else:
            made.moments = self._blank(made.value)
        # Data from the start on, so that the first step runs the same program as all others.
        evaluation.make_opaque(*made.arrays())
        self.state[key] = made

    def __delitem__(self, key: str, /) -> None:
        self._parameter(key)
        del self.state[key]

    def _parameter(self, key: str) -> Parameter:
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
        """The names of the parameters, in the order in which they were added."""
        return iter(self.state)

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """The arrays that are optimized: of a promoted parameter, the one of single precision."""
        return (parameter.value for parameter in self.state.values())

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """The arrays that are optimized, as those of `values`, with their names."""
        return ((key, parameter.value) for key, parameter in self.state.items())

    def update(self, params: Mapping[str, ArrayBase] | None = None, **args: ArrayBase) -> None:  # type: ignore[override]
        """Adds or assigns parameters, those of a mapping, such as a neural network, and those given
        by name.

        Raises:
            TypeError: `params` is no mapping.
        """
        if params is not None and not hasattr(params, "items"):
            raise TypeError(
                f"dr.opt.{type(self).__name__}.update(): 'params' must be a mapping from names to "
                f"arrays, not {type_label(type(params))}"
            )
        for key, value in (*(params.items() if params is not None else ()), *args.items()):
            self[key] = value

    def reset(self, key: str | None = None) -> None:
        """Forgets the state (moments, the number of steps, the learning rate of its own) of one
        parameter, or of all. Values remain.

        Raises:
            KeyError: there is no such parameter.
        """
        for parameter in self.state.values() if key is None else (self._parameter(key),):
            parameter.lr, parameter.steps = None, 0
            parameter.moments = self._blank(parameter.value)
            evaluation.make_opaque(*parameter.arrays())

    def _blank(self, value: Any) -> dict[str, Leaves]:
        return {name: [create.zeros_like(x) for x in leaves(value)] for name in self.kept}

    # ---- Learning rates

    def learning_rate(self, key: str | None = None) -> Any:
        """The learning rate of a parameter, None if it has none of its own; without a name, the one
        of all others.

        Raises:
            KeyError: there is no such parameter.
        """
        return self.lr if key is None else self._parameter(key).lr

    def set_learning_rate(
        self,
        value: float | ArrayBase | Mapping[str, float | ArrayBase | None] | None = None,
        /,
        **kwargs: float | ArrayBase | None,
    ) -> None:
        """Sets the learning rate, and those of single parameters: in a mapping from names to
        learning rates, or by name. None gives a parameter the general one again.

        An array may have one learning rate per entry of a flat array or tensor.

        Raises:
            KeyError: there is no such parameter.
            TypeError: a learning rate is neither a number nor a flat array of floating point type.

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
        general = self.lr if value is None else self._checked_rate(value, what)
        rates = {k: None if r is None else self._checked_rate(r, what) for k, r in single.items()}
        for parameter, rate in [(self._parameter(key), rate) for key, rate in rates.items()]:
            parameter.lr = rate
        self.lr = general

    def _checked_rate(self, rate: Any, method: str) -> Rate:
        if isinstance(rate, ArrayBase):
            if rate._kind == "leaf" and rate._dtype.is_float:
                return rate
        elif isinstance(rate, Real):
            return float(rate)
        raise TypeError(
            f"dr.opt.{type(self).__name__}.{method}(): a learning rate must be a number or a flat "
            f"array of floating point type, not {type_label(type(rate))}"
        )

    # ---- Steps

    def step(
        self,
        *,
        eval: bool = True,
        grad_scale: float | ArrayBase | None = None,
        active: Any = None,
    ) -> None:
        """Moves every parameter along its gradient, which is zero where there is none. Afterwards
        gradients are zero.

        Arguments:
            eval: compute parameters and states, all together. Otherwise they remain expressions,
                to be computed with the caller's own work.
            grad_scale: a factor for all gradients, a number or an array.
            active: a mask; where it is false, parameters and their moments remain. A step is
                counted nevertheless.

        Raises:
            TypeError: `grad_scale` or `active` is of another type.
            RuntimeError: the size of `active`, `grad_scale` or a learning rate does not fit a
                parameter. No parameter has changed then.
        """
        if active_recorder() is not None:
            self._count_in_arrays()
        counts: dict[Any, Any] = {}
        with scopes.resume_grad():
            jobs = [self._job(name, p, grad_scale, counts) for name, p in self.state.items()]
            changes = [
                self._masked(job, change, active)
                for job, change in zip(jobs, self._changes(jobs), strict=True)
            ]
            for parameter, job, (x, moments) in zip(
                self.state.values(), jobs, changes, strict=True
            ):
                parameter.value = tracked(parameter.value, x)
                parameter.moments, parameter.steps = moments, job.steps
        if eval:
            evaluation.eval(*(a for p in self.state.values() for a in p.arrays()))

    def _count_in_arrays(self) -> None:
        """Makes the numbers of steps data, so that a recorded step can be repeated."""
        counts: dict[int, Any] = {}
        for parameter in self.state.values():
            if isinstance(parameter.steps, int):
                before = parameter.steps
                if before not in counts:
                    kind = related(type(leaves(parameter.value)[0]), dtype=dt.u32)
                    counts[before] = create.opaque(kind, before)
                parameter.steps = counts[before]

    def _job(self, name: str, parameter: Parameter, grad_scale: Any, counts: dict[Any, Any]) -> Job:
        """`counts` has the numbers of steps of parameters before this one, by what they were
        before: parameters that share an array go on sharing one."""
        value = parameter.value
        x = leaves(value)
        gradient = leaf_arrays(derivatives.grad(value, False))
        if grad_scale is not None:
            gradient = [self._scaled(g, grad_scale, name) for g in gradient]
        rate = self.lr if parameter.lr is None else parameter.lr
        if isinstance(rate, ArrayBase):
            for a in x:
                self._check_size(rate, a, name, "the learning rate")
        shape, nested = traits.shape(value), value._kind == "nested"
        before = parameter.steps
        key = before if isinstance(before, int) else id(before)
        if key not in counts:
            counts[key] = before + 1
        return Job(name, shape, nested, x, gradient, rate, counts[key], parameter.moments)

    def _scaled(self, gradient: Any, scale: Any, name: str) -> Any:
        if isinstance(scale, Real):
            return gradient * float(scale)
        if not isinstance(scale, ArrayBase) or scale._kind != "leaf" or not scale._dtype.is_float:
            raise TypeError(
                f"dr.opt.{type(self).__name__}.step(): 'grad_scale' must be a number or a flat "
                f"array of floating point type, not {type_label(type(scale))}"
            )
        self._check_size(scale, gradient, name, "'grad_scale'")
        cls = type(gradient)
        if cls._dtype is dt.f16:  # its range is too small for the factors in use
            single = related(cls, dtype=dt.f32)
            return cls(single(gradient) * single(scale))
        return gradient * cls(scale)

    def _masked(self, job: Job, change: Change, active: Any) -> Change:
        if active is None or active is True or active is np.True_:
            masks = [None] * len(job.x)
        else:
            masks = [self._mask(active, x, job.name) for x in job.x]
        if self.mask_updates:
            touched = [g != 0 for g in job.gradient]
            masks = [t if m is None else t & m for t, m in zip(touched, masks, strict=True)]
        elif masks[0] is None:
            return change
        x, moments = change
        return selected(masks, x, job.x), {
            name: selected(masks, moment, job.moments[name]) for name, moment in moments.items()
        }

    def _mask(self, active: Any, x: Any, name: str) -> Any:
        cls = type(x).Mask
        if isinstance(active, bool | np.bool_):
            return cls(bool(active))
        if not isinstance(active, ArrayBase) or active._kind != "leaf" or not active._dtype.is_mask:
            raise TypeError(
                f"dr.opt.{type(self).__name__}.step(): 'active' must be a bool or a flat mask, not "
                f"{type_label(type(active))}"
            )
        self._check_size(active, x, name, "'active'")
        return cls(active)

    def _check_size(self, given: Any, x: Any, name: str, role: str) -> None:
        if len(given) not in (1, len(x)):
            raise RuntimeError(
                f"dr.opt.{type(self).__name__}.step(): {role} has {len(given)} entries, but "
                f"parameter {name!r} has {len(x)}"
            )

    # ---- Saving

    def state_dict(self) -> dict[str, Any]:
        """Everything that a later `load_state_dict` needs to go on exactly where this optimizer is:
        a mapping from names to arrays, which can be saved.

        It has the learning rate as `"lr"`, and of every parameter, such as `"x"`, the value as
        `"x.value"`, the number of steps as `"x.steps"`, the learning rate of its own, if there is
        one, as `"x.lr"`, and moments, such as `"x.first_moment"`. Numbers are NumPy arrays without
        dimensions. Options of the optimizer, such as decay rates, are not part of it.

        >>> from drjit.opt import Adam
        >>> list(Adam(1e-3, {"x": Float(1)}).state_dict())
        ['lr', 'x.value', 'x.steps', 'x.first_moment', 'x.second_moment']
        """
        saved: dict[str, Any] = {"lr": stored_rate(self.lr)}
        for name, parameter in self.state.items():
            saved[f"{name}.value"] = derivatives.detach(parameter.value, False)
            saved[f"{name}.steps"] = np.array(host_number(parameter.steps))
            if parameter.lr is not None:
                saved[f"{name}.lr"] = stored_rate(parameter.lr)
            for kind, moment in parameter.moments.items():
                saved[f"{name}.{kind}"] = like(saved[f"{name}.value"], moment)
        return saved

    def load_state_dict(self, saved: Mapping[str, Any], /) -> None:
        """Restores what `state_dict` returned, or NumPy arrays with its contents. The optimizer
        must be of the same kind and have the same parameters.

        Raises:
            KeyError: entries are missing, or belong to no parameter.
            TypeError: an entry has another element type.
            ValueError: an entry has another shape. In all these cases nothing changes.
        """
        what = f"dr.opt.{type(self).__name__}.load_state_dict()"
        required = {"lr"}
        for name in self.state:
            required |= {f"{name}.{kind}" for kind in ("value", "steps", *self.kept)}
        missing = required - saved.keys()
        surplus = saved.keys() - required - {f"{name}.lr" for name in self.state}
        if missing or surplus:
            lists = (("missing", missing), ("unknown", surplus))
            text = "; ".join(f"{kind}: {', '.join(sorted(keys))}" for kind, keys in lists if keys)
            raise KeyError(f"{what}: the entries do not fit the optimizer's parameters ({text})")

        loaded: dict[str, Parameter] = {}
        rates = {name: loaded_rate(saved.get(f"{name}.lr"), p) for name, p in self.state.items()}
        for name, old in self.state.items():
            value, *moments = (
                restored(saved[f"{name}.{kind}"], old.value, f"{what}: '{name}.{kind}'")
                for kind in ("value", *self.kept)
            )
            loaded[name] = Parameter(
                tracked(old.value, value),
                old.kind,
                None if rates[name] is None else self._checked_rate(rates[name], "load_state_dict"),
                int(np.asarray(saved[f"{name}.steps"]).item()),
                dict(zip(self.kept, moments, strict=True)),
            )
        some = next(iter(self.state.values()), None)
        lr = self._checked_rate(loaded_rate(saved["lr"], some), "load_state_dict")
        for parameter in loaded.values():
            evaluation.make_opaque(*parameter.arrays())
        self.lr, self.state = lr, loaded

    # ---- Text

    def __repr__(self) -> str:
        rates = {"default": self.lr}
        rates |= {key: p.lr for key, p in self.state.items() if p.lr is not None}
        count = sum(prod(traits.shape(p.value)) for p in self.state.values())
        return (
            f"{type(self).__name__}[\n"
            f"  parameters = {list(self.state)},\n"
            f"  total_count = {count},\n"
            f"  lr = {rates}{self._options()}\n]"
        )

    def _options(self) -> str:
        """What `repr` says after the learning rates."""
        return ""

"""The types with derivatives of the backend that `drjit.set_backend` chose; those without where
there are none, in `drjit.scalar`.
"""

from typing import Any

from ..array import table

_chosen = "llvm"


def current() -> str:
    """The namespace that `drjit.auto` stands for."""
    return _chosen


def choose(namespace: str) -> None:
    """Sets the namespace that `drjit.auto` stands for."""
    global _chosen
    _chosen = namespace


def _differentiable() -> str:
    return _chosen if _chosen == "scalar" else f"{_chosen}.ad"


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    return table.attribute(_differentiable(), name)


def __dir__() -> list[str]:
    return table.names(_differentiable())

"""Pseudorandom numbers: `rng` and the generators that it creates. The classes `PCG32` and
`Philox4x32` are members of namespaces such as `drjit.llvm`.
"""

from ..array.annotations import ArrayOrFloat, ArrayOrInt, ArrayT, Shape
from .generator import Generator, Philox4x32Generator, rng

__all__ = [
    "ArrayOrFloat", "ArrayOrInt", "ArrayT", "Generator", "Philox4x32Generator", "Shape", "rng",
]  # fmt: skip

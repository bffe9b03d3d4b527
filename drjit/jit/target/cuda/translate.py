"""Translators of the kernel language for one thread."""

import ast
from functools import cached_property
from typing import Any

from ..simd import elementwise
from ..simd.translate import ACTIVE, Translator
from .calls import CALLS
from .values import GpuCode


class OneThread:
    """What differs from processors: the part of a translator for one thread."""

    calls = CALLS
    row_of = staticmethod(elementwise.row)  # LLVM fuses products with sums
    f: Any

    @cached_property
    def c(self) -> GpuCode:
        """What makes values."""
        this: Any = self
        return GpuCode(self.f, this.module)

    @cached_property
    def private(self) -> dict:
        """The targets with memory of the block (see `drjit.jit.target.cuda.atomic`)."""
        return {}

    def active(self) -> str:
        """Returns the mask of the lanes below the end of the range."""
        this: Any = self
        if this.module.lanes > 1:
            this.needs_active = True
            return ACTIVE
        return "%active" if self.f.warps else "splat (i1 true)"

    def pointer(self, e: ast.expr) -> str:
        """The address that an argument `p[k]` holds."""
        this: Any = self
        k = this.parameter(e)
        return self.f.pointer_here(k) if this.has_many_words else self.f.pointer(k)


class GpuTranslator(OneThread, Translator):
    """Translates the statements of one function."""

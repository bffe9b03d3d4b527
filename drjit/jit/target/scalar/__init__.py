"""Kernel text as scalar Python that Numba compiles: functions of ordinary loops over lanes, for
files that do without this package.

`Module` collects the functions of a file; `kernel.kernel` adds one for a kernel text.
"""

from .module import Module

__all__ = ["Module"]

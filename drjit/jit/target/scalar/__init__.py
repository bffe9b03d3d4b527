"""Kernel text as scalar Python that Numba compiles: functions of ordinary loops over lanes, for
files that do without this package.

`ExportedModule` collects the functions of a file; `kernel.kernel` adds one for a kernel text.
"""

from .module import ExportedModule

__all__ = ["ExportedModule"]

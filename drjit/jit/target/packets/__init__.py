"""The kernel language as an extension of Numba: texts compile verbatim, in explicit SIMD.

`operations` has the types of packets of lanes, masks, vectors of features, words and parameter
blocks, and makes every name of the language known to Numba's lowering, with the front end of the
SIMD target as the one rule for each. `text` turns a text into Numba's representation of a function
with its types, `lowering` lets Numba translate that to LLVM IR. The loop over packets around it,
the machine code and its launch are those of the SIMD target.

Importing this module imports numba.
"""

from .lowering import body

__all__ = ["body"]

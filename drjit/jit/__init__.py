"""The tracing compiler: turns traced values into kernels and runs them. It depends on NumPy and
llvmlite, but on no other part of drjit.
"""

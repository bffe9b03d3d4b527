"""The tracing compiler: turns traced values into kernels and runs them. It depends on NumPy and
llvmlite, and on nothing else in drjit.
"""

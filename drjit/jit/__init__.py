"""The tracing compiler: from traced values to kernels that run. Leans on NumPy and llvmlite, on
nothing else of drjit.
"""

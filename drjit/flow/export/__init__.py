"""Export: a function as a file of Python that needs NumPy and Numba only."""

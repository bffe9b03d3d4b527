"""Targets: each executes kernel text, whose rules are in `language`.

`numpy` and `python` have CPython run it, on arrays and on single numbers. `simd` compiles it for
the processor and `cuda` for GPUs, both also by way of Numba (`packets`); `scalar` writes it as
Python code for Numba in exported files. They share the functions of `mathlib`.
"""

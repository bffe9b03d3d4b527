"""Targets: each executes kernel text.

`numpy` executes it directly, `simd` compiles it for the CPU; they share the functions of `mathlib`.
"""

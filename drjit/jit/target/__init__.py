"""Targets: each executes kernel text.

`numpy` runs it as it stands, `simd` compiles it for the CPU; they share the functions of `mathlib`.
"""

"""Kernels of the primitives of a GPU that are not made from programs: each is a named tuple of what
distinguishes it from others, which writes the body of its entry (`emit`).
"""

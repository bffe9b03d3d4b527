"""Automatic differentiation of traced values: a graph that mirrors the traced one, rules per op,
and traversals in both directions. It knows nodes, but no array class."""

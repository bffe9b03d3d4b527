"""Differentiation of traced values: a graph that mirrors the traced one, rules per op, and
traversals in both directions. Knows nodes, no array class."""

"""Automatic differentiation: gradients, traversals, custom operations, scopes, and a gradient
check."""

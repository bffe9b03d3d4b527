"""Derivatives: gradients, traversals, custom operations, scopes, and a test of derivatives."""

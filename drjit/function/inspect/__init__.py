"""Inspection of values, types and kernels: printing, assertions, graphs, lists and profiles."""

"""Kernel texts that users write."""

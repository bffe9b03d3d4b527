"""The public functions, by theme."""

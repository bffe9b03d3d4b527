"""The public functions, grouped by topic."""

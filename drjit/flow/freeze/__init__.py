"""Frozen functions: launches are recorded once and repeated for other inputs."""

"""Frozen functions: what was launched once is launched again for other inputs."""

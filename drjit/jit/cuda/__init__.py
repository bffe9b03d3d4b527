"""NVIDIA GPUs as a device: the driver, memory, order of launches, and compilation of PTX."""

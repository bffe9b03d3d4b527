"""The processor as a device: memory, worker threads, the two tiers that run kernels, primitives."""

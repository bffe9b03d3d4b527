"""The processor as a device: memory, worker threads, kernels and their variants, primitives."""

"""Operations that run as separate launches: scans, reductions, compression, sorting, and matrix
products."""

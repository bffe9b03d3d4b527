"""What is launched by itself: scans, reductions, compression, sorting, and products of matrices."""

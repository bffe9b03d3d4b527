"""Creation, layout and movement of data: shapes, memory, reductions, scans, sorting."""

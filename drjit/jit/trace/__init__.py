"""Recording of programs: memory accesses, loops, branches and calls, and the reuse of recorded
code."""

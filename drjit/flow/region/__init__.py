"""The common part of loops, branches and calls: their state, the recordings of their bodies, and
their outcomes."""

"""The common part of loops, branches and calls: their functions and state, the arrays that their
functions capture, the recordings of bodies, and code that runs for some lanes only."""

"""What loops, branches and calls share: their state, what their bodies record, and what they leave
behind."""

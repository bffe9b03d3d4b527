"""How programs are recorded: accesses to memory, loops, branches and calls, and recorded code that
is used again."""

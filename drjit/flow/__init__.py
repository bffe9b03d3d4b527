"""Control flow: loops and branches of array programs, and the decorator that creates them from
Python statements."""

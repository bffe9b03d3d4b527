"""Control flow: loops and branches of array programs, and the decorator that makes them from Python
statements."""

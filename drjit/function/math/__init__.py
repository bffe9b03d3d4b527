"""Functions of numbers, element by element, and of small vectors and matrices."""

"""Code generation: from nodes to the text of a kernel."""

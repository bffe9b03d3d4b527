"""From nodes to the text of a kernel."""

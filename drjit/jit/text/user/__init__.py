"""Kernel texts that users write: read, checked, and brought into the form that launches take."""

"""Loops: symbolic and evaluated, and their derivatives."""

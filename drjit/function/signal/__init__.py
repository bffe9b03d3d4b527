"""Resampling and convolution."""

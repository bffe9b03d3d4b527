"""Multiresolution hash encodings: trainable features at the vertices of grids of increasing
resolution, looked up and interpolated at positions of any dimension.
"""

from .encoding import HashEncoding, cosine_ramp, div_round_up, next_multiple
from .lattices import HashGridEncoding, PermutoEncoding

__all__ = [
    "HashEncoding", "HashGridEncoding", "PermutoEncoding", "cosine_ramp", "div_round_up",
    "next_multiple",
]  # fmt: skip

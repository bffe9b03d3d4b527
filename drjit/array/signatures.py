"""Decorators that state for type checkers how the type of a function's result follows from those of
its arguments, where its own annotations cannot: `signatures.pyi` has their protocols. At run time,
they return the function itself.
"""

from typing import Any


def _stated(function: Any) -> Any:
    return function


stepped = angle = deviation = folding = reduction = logical = counted = elementary = numeric = (
    rounded
) = integral = _stated
extremum = binary = binary_float = hypotenuse = _stated
clipped = clamped = fused = interpolated = selected = _stated
tested = both = real_part = imaginary_part = modulus = _stated
product = cross_product = matrix_product = matrix_scalar = diagonal = _stated
derivative = index_of = sorted_index = from_mask = middle = flattened = _stated
component_type = leaf_type = mask_type = plain_type = joint_type = _stated
int32_type = uint32_type = int64_type = uint64_type = _stated
float16_type = float32_type = float64_type = int8_type = uint8_type = _stated
wrapping = freezing = looping = branching = _stated
int_type = uint_type = float_type = tensor_type = matrix_type = _stated
tracked_type = detached_type = replaced_type = closeness = stacking = _stated
stacking_along = search = sliced = wide_product = direction = _stated
from_angles = from_matrix = to_angles = rotation = interpolation = _stated
factors = decomposition = composition = harmonics = width = _stated
exchange = migration = line_integral = sampled_integral = reduction_by = _stated
grid = reshaped = ranged = evaluated = gradients_of = loading = drawn = _stated
compiling = upsampling = _stated

"""Arrays whose kernels run on an NVIDIA GPU. `drjit.cuda.ad` holds their differentiable
counterparts.
"""

from ..array import table as _table
from . import ad as ad
from .graphics import (  # noqa: F401
    GLInterop,
    green_context,
    map_graphics_resource_array,
    map_graphics_resource_ptr,
    memcpy_2d_to_array_async,
    register_gl_buffer,
    register_gl_texture,
    unmap_graphics_resource,
    unregister_cuda_resource,
)

__getattr__, __dir__ = _table.serve(__name__)

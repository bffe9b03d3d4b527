"""Where the public names of the package are defined. A module is imported when one of its names
is first used, so that `import drjit` stays fast.
"""

_NAMES = {
    "array.annotations": "AnyArray ArrayT MaskT PlainT RedT SelfCpT SelfT T Ts ValCpT ValT",
    "flow.call.branch": "if_stmt",
    "flow.call.instance": "InstanceArray instance_t",
    "flow.call.switch": "dispatch func reorder_threads switch",
    "flow.export.export": "export",
    "flow.freeze.frozen": "freeze",
    "flow.loop.while_loop": "while_loop",
    "flow.region.local": "Local alloc_local",
    "flow.syntax.decorator": "hint syntax",
    "function.ad.check_grad": "check_grad",
    "function.ad.custom": "CustomOp custom",
    "function.ad.decompositions": "cholesky eigh solve svd",
    "function.ad.grad": (
        "accum_grad clear_grad detach disable_grad enable_grad grad grad_enabled relative_grad "
        "replace_grad set_grad set_grad_enabled"
    ),
    "function.ad.jacobian": "hessian jacobian",
    "function.ad.propagate": (
        "ADFlag ADMode backward backward_from backward_to enqueue forward forward_from forward_to "
        "isolate_grad resume_grad suspend_grad traverse"
    ),
    "function.data.create": (
        "arange empty empty_like full identity linspace ones ones_like opaque opaque_width zeros "
        "zeros_like"
    ),
    "function.data.layout": "binary_search compress ravel reinterpret_array reshape slice unravel",
    "function.data.memory": (
        "gather scatter scatter_add scatter_cas scatter_exch scatter_inc scatter_reduce"
    ),
    "function.data.reduce": (
        "all all_nested any any_nested count max max_nested mean min min_nested none none_nested "
        "prod prod_nested reduce std sum sum_nested var"
    ),
    "function.data.reorder": (
        "expand_dims moveaxis slice_index squeeze swapaxes take take_interp transpose"
    ),
    "function.data.scan": (
        "block_prefix_reduce block_prefix_sum block_reduce block_sum cumsum prefix_reduce "
        "prefix_sum"
    ),
    "function.data.shape": (
        "array_split column_stack concat dstack hstack meshgrid repeat reverse row_stack split "
        "stack tile vstack"
    ),
    "function.data.sorting": "argmax argmin argsort median sort unique",
    "function.evaluation": "copy eval flush_thread make_opaque schedule sync_thread",
    "function.exchange.migrate": "migrate",
    "function.exchange.save": "load save",
    "function.exchange.text_kernel": "kernel",
    "function.exchange.wrap": "wrap wrap_ad",
    "function.inspect.asserts": "allclose assert_allclose assert_equal assert_false assert_true",
    "function.inspect.backend": (
        "expand_threshold flush_malloc_cache get_cmake_dir has_backend set_expand_threshold"
    ),
    "function.inspect.format": "format print",
    "function.inspect.kernels": (
        "KernelRecordingMode KernelType flush_kernel_cache kernel_history kernel_history_clear "
        "kernel_source kernels"
    ),
    "function.inspect.picture": "picture",
    "function.inspect.profiling": "profile_enable profile_mark profile_range",
    "function.inspect.traits": (
        "array_t backend_v depth_v detached_t diff_array_t expr_t float16_array_t float32_array_t "
        "float64_array_t float_array_t int32_array_t int64_array_t int8_array_t int_array_t "
        "is_arithmetic_v is_array_v is_complex_v is_diff_v is_dynamic_v is_float_v is_half_v "
        "is_integral_v is_jit_v is_mask_v is_matrix_v is_quaternion_v is_signed_v is_special_v "
        "is_struct_v is_tensor_v is_unsigned_v is_vector_v itemsize_v leaf_t mask_t matrix_t "
        "reinterpret_array_t replace_shape_t replace_type_t scalar_t set_backend shape size_v "
        "tensor_t type_v uint32_array_t uint64_array_t uint8_array_t uint_array_t value_t width"
    ),
    "function.inspect.whos": "graphviz graphviz_ad set_label whos whos_ad",
    "function.math.arithmetic": (
        "abs brev ceil clamp clip copysign deg2rad floor fma fmax fmin hypot isfinite isinf isnan "
        "lerp log2i lzcnt maximum minimum mul_hi mul_wide mulsign popcnt power rad2deg rcp round "
        "rsqrt safe_acos safe_asin safe_sqrt select sign sqr square step trunc tzcnt"
    ),
    "function.math.color": (
        "linear_srgb_to_oklab linear_to_srgb oklab_to_linear_srgb srgb_to_linear"
    ),
    "function.math.complex": "arg conj imag real",
    "function.math.constants": (
        "e epsilon four_pi inf inv_four_pi inv_log_two inv_pi inv_sqrt_four_pi inv_sqrt_pi "
        "inv_sqrt_two inv_sqrt_two_pi inv_two_pi largest log_two nan newaxis one_minus_epsilon pi "
        "recip_overflow smallest sqrt_four_pi sqrt_pi sqrt_two sqrt_two_pi two_pi"
    ),
    "function.math.einsum": "einsum",
    "function.math.interpolate": "interp",
    "function.math.linalg": (
        "det diag euler_to_quat frob inverse matrix_to_quat polar_decomp quat_apply quat_to_euler "
        "quat_to_matrix rotate slerp trace transform_compose transform_decompose"
    ),
    "function.math.matmul": "matmul",
    "function.math.softmax": "log_softmax logsumexp softmax",
    "function.math.transcendental": (
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfinv exp exp2 expm1 lgamma log "
        "log1p log2 sin sincos sincosh sinh sqrt tan tanh"
    ),
    "function.math.vector": (
        "abs_dot cross dot norm normalize sh_eval sphdir squared_norm unit_angle"
    ),
    "function.signal.resample": "convolve resample upsample",
    "function.signature": "CallablePT CallableSelfPT CustomOpT",
    "jit.cpu.runtime": "set_thread_count thread_count",
    "random": "rng",
    "reporting.report": "report",
    "texture": "FilterMode MipBasis MipFilter WrapMode",
}
MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of each public function or class that `drjit` does not import by itself."""

TYPES = {
    "Event": "function.inspect.backend",
    "PCG32": "random.pcg",
    "Philox4x32": "random.philox",
    **{
        f"Texture{dims}{suffix}": "texture.texture"
        for dims in (1, 2, 3)
        for suffix in ("f16", "f", "f64", "f8u")
    },
}
"""The same for types of the namespaces, such as `drjit.llvm.PCG32`, beyond the table of arrays."""

OPERATIONS = {
    "complex": ("function.math.complex",),
    "quaternion": ("function.math.quaternion",),
    "matrix": ("function.math.matmul",),
    "tensor": ("function.math.matmul",),
}
"""Modules that define operators of kinds of arrays: imported with the first class of that kind."""

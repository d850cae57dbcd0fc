"""Types of the Python package that its functions do not say themselves: the tables of tools/stubs.py."""

# The modules that have stubs, and where else their functions come from; or names that are not in `__all__`.
STUBS = {
    "tensor": ("shoal.reductions",), "": (), "pool": (), "random": (), "autograd": (), "custom": ("joints",), "amp": (),
    "files": (), "func": (), "functional": ("shoal.losses", "shoal.windows"), "linalg": (),
    "special": ("shoal.methods",), "signal": (), "debug": (), "array_api": ("__array_api_version__", "__array_namespace_info__"), "nn.module": (), "nn.init": (),
    "nn.rnn": (), "nn.utils": (), "nn.layers": (), "nn.functions": (), "nn.containers": (),
    "nn.convolutions": (), "nn.norms": (), "nn.recurrent": (), "nn.transformer": (), "nn": (),
    "optim.optimizer": (), "optim.more": (), "optim.lr_scheduler": (), "optim": (), "utils.data": (),
    "utils": (),
}
# Modules whose own annotations are all there is to say.
INLINE = ("dtypes", "errors", "words")
# Names for what many parameters take, defined in tensor.pyi.
ALIASES = {
    "_Named": "class _Named(Protocol):\n    @property\n    def name(self) -> str: ...\n",
    "_Array": "class _Array(Protocol):\n    def __array__(self, /) -> Any: ...\n",
    "_Shape": "int | Sequence[int]",
    "_Axes": "int | Sequence[int] | None",
    "_F": "= TypeVar('_F', bound=Callable[..., Any])",
    "_DType": "dtype | str | type[Any] | _Named",
    "_Device": "device | str | int",
    "_Operand": "Tensor | float | Sequence[Any] | _Array",
}
# What a parameter takes, by its name.
PARAMETERS = {
    "_Axes": "axis dim axes dims",
    "_DType": "dtype dst_type",
    "_Device": "device",
    "_Operand": "other x1 x2 data obj x y yes no end exponent condition fill_value test_elements",
    "Tensor": """input target weights query logits labels updates source update src mask tgt memory positions
        A B LU pivots input1 input2 log_probs anchor positive negative attn_mask src_mask tgt_mask memory_mask
        src_key_padding_mask tgt_key_padding_mask memory_key_padding_mask key_padding_mask weight bias
        pos_weight per_sample_weights offsets running_mean running_var indices mat mat1 mat2 vec vec1 vec2
        batch1 batch2 tensor1 tensor2 out grid theta""",
    "Shape": "",
    "_Shape": """shape size sizes low high interior normalized_shape kernel_size stride padding dilation
        output_size output_padding unflattened_size shifts slice_sizes""",
    "int": """n m k diagonal offset axis1 axis2 axis0 dim0 dim1 dim2 start_dim end_dim chunks copies length
        num_samples exponent_bits mantissa_bits workers threads timeout_ms in_features out_features
        num_embeddings embedding_dim in_channels out_channels groups num_heads embed_dim num_classes step_size
        total_steps T_max warmup_steps last_epoch num_layers num_workers prefetch_factor batch_size seed
        input_size hidden_size num_groups num_channels num_features d_model nhead dim_feedforward padding_idx
        ignore_index blank kdim vdim proj_size in1_features in2_features spare limit window_length""",
    "float": "eps lr p momentum weight_decay rho gamma max_norm clip_value label_smoothing",
    "bool": """keepdim keepdims unbiased align_corners recompute_scale_factor size_average reduce retain_graph
        shuffle is_causal foreach mmap""",
    "str": "path equation op name kind",
    "Session": "session in_session",
    "Generator": "generator",
}
PARAMETER = {name: kind for kind, names in PARAMETERS.items() for name in names.split()}
PARAMETER["Adafactor.eps"] = "tuple[float | None, float]"
VARIADIC = {"shape": "_Shape", "tensors": "Any"}
# What a function returns, by its name, and the type of an attribute.
RETURNS = {
    "tuple[Tensor, ...]": """split chunk unbind broadcast_tensors meshgrid tensor_split hsplit vsplit dsplit
        unsafe_split unsafe_chunk split_with_sizes unsafe_split_with_sizes""",
    "tuple[Tensor, Tensor]": "frexp var_mean std_mean slogdet",
    "Sorted": "sort topk kthvalue mode cummax cummin",
    "bool": """__bool__ __contains__ allclose equal is_floating_point is_complex is_nonzero is_same_size is_tensor
        is_grad_enabled requires_grad is_leaf retains_grad is_cuda is_cpu is_sparse is_quantized is_meta
        is_contiguous is_pinned is_signed is_inference is_shared is_set_to is_enabled can_cast is_available""",
    "int": """__len__ __hash__ __int__ __index__ dim numel initial_seed ndim itemsize nbytes nelement
        element_size storage_offset get_num_threads ndimension get_device data_ptr output_nr""",
    "float": "__float__ get_scale",
    "str": "__repr__ __format__ explain extra_repr describe",
    "Any": "numpy __array__ __dlpack__ tolist item __getattr__ load tree type unique unique_consecutive histogram",
    "Count": "size",
    "Size": "shape broadcast_shapes",
    "dtype": "dtype promote_types result_type get_default_dtype",
    "device": "device",
    "Tensor | None": "grad",
    "Iterator[Tensor]": "__iter__",
    "Iterator[Parameter]": "parameters",
    "Iterator[tuple[str, Parameter]]": "named_parameters",
    "Iterator[Tensor] ": "buffers",
    "Iterator[tuple[str, Tensor]]": "named_buffers",
    "tuple[int, int]": "__dlpack_device__ get_state get_rng_state next",
    "tuple[int, ...]": "stride",
    "str | None": "current_signal current_backward_signal",
    "list[str]": "get_signal_stack",
    "list[int]": "compute_slots",
    "dict[str, Signal]": "described",
    "list[tuple[int, str, tuple[int, ...], tuple[int, ...], str, str]]": "tape",
    "list[tuple[str, str, str]]": "operations",
    "Session": "session connect init",
    "Pool": "status",
    "Counts": "counts",
    "Generator": "manual_seed",
    "dict[str, Any]": "state_dict",
    "None": "start close sync enter exit clear",
    "tuple[Any, ...]": "__reduce__",
}
RETURN = {name: kind.strip() for kind, names in RETURNS.items() for name in names.split()}
FUNCTIONS_GIVE = {name: "Tensor" for name in (
    "", "random", "functional", "linalg", "special", "array_api", "nn.init")}
MEMBERS = {}
# Functions of which the result's type depends on what they are given: (parameters, result).
_MODE = [("function: None = None", "_Mode"), ("function: _F", "_F")]
OVERLOADS = {"no_grad": _MODE, "enable_grad": _MODE, "inference_mode": _MODE}

# Members that are not what their base classes have them be: a comparison gives a tensor, not a bool.
OVERRIDES = ("Tensor.__eq__", "Tensor.__ne__", "LBFGS.step")
BASES = {}
VALUES = {"checkpoint": "Any", "backends": "Any", "cuda": "Any", "newaxis": "None", "joints": "Any"}

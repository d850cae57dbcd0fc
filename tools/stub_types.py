"""Types of the Python package that its functions do not say themselves: the tables of tools/stubs.py."""

# The modules that have stubs, and where else their functions come from; or names that are not in `__all__`.
STUBS = {
    "tensor": (), "": (), "pool": (), "random": (), "autograd": (), "custom": ("joints",), "amp": (),
    "distributions.constraints": (), "distributions.distribution": (), "distributions.continuous": (),
    "distributions.discrete": (), "distributions.gammas": (), "distributions.multivariate": (), "distributions.transforms": (),
    "distributions.transformed": (), "distributions.kl": (), "distributions": (),
    "files": (), "func": (), "kernels": (), "functional": ("shoal.fractional", "shoal.losses", "shoal.windows"), "linalg": (),
    "special": ("shoal.methods",), "signal": (), "stablehlo": (), "debug": (), "array_api": ("__array_api_version__", "__array_namespace_info__"), "nn.module": (), "nn.init": (),
    "nn.rnn": (), "nn.utils": (), "nn.layers": (), "nn.lazy": (), "nn.functions": (), "nn.adaptive": (), "nn.containers": (),
    "nn.convolutions": (), "nn.norms": (), "nn.recurrent": (), "nn.transformer": (), "nn": (),
    "optim.optimizer": (), "optim.more": (), "optim.lr_scheduler": (), "optim.swa_utils": (), "optim": (), "utils.data": (),
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
# What a parameter takes, by its name; FUNCTION.NAME or CLASS.NAME where that differs.
PARAMETERS = {
    "_Axes": "axis dim axes dims",
    "_DType": "dtype dst_type type1 type2 from_ to set_default_dtype.d",
    "_Device": "device",
    "_Operand": """other x1 x2 data x y yes no end exponent condition fill_value test_elements value values
        boundaries prepend append min max a_min a_max posinf neginf initial where Dataset.value""",
    "Tensor": """input target weights query logits labels updates update mask tgt memory positions
        A B LU pivots input1 input2 log_probs anchor positive negative attn_mask src_mask tgt_mask memory_mask
        src_key_padding_mask tgt_key_padding_mask memory_key_padding_mask key_padding_mask weight bias
        pos_weight per_sample_weights offsets running_mean running_var mat mat1 mat2 vec vec1 vec2
        batch1 batch2 tensor1 tensor2 out grid theta src source attention.key attention.value
        scaled_dot_product_attention.key scaled_dot_product_attention.value MultiheadAttention.key
        MultiheadAttention.value sorter dot.tensor vdot.tensor""",
    "_Shape": """shape size sizes low high interior normalized_shape kernel_size stride padding dilation
        output_size output_padding unflattened_size shifts slice_sizes split.size unsafe_split.size""",
    "int": """n m k diagonal offset axis1 axis2 axis0 dim0 dim1 dim2 start_dim end_dim chunks copies length
        num_samples exponent_bits mantissa_bits workers threads timeout_ms in_features out_features
        num_embeddings embedding_dim in_channels out_channels groups num_heads embed_dim num_classes step_size
        total_steps T_max warmup_steps last_epoch num_layers num_workers prefetch_factor batch_size seed
        input_size hidden_size num_groups num_channels num_features d_model nhead dim_feedforward padding_idx
        ignore_index blank kdim vdim proj_size in1_features in2_features spare limit window_length
        randint.low randint.high randint_like.low randint_like.high count steps T_0 T_mult patience cooldown
        total_iters epochs steps_per_epoch growth_interval minlength bins decimals upscale_factor downscale_factor max_iter max_eval
        history_size r max_norm_steps precision edgeitems linewidth n_power_iterations chunk_size
        mode_threads num_parameters""",
    "float": """eps lr p momentum weight_decay rho gamma max_norm clip_value label_smoothing maxnorm new_scale
        base_lr max_lr alpha.scale sparsity ddof correction layer_norm.correction min_lr power gain""",
    "float | Tensor": "alpha beta normal.mean normal.std",
    "float | str | None": "norm.p dist.p",
    "bool": """keepdim keepdims unbiased align_corners recompute_scale_factor size_average reduce retain_graph
        shuffle is_causal foreach mmap enabled sci_mode cache_enabled""",
    "str": """path equation op name kind scatter.reduce scatter_reduce.reduce scatter_.reduce
        scatter_reduce_.reduce get_buffer.target get_parameter.target get_submodule.target rounding_mode profile
        address Session.hub Session.backend init.backend side line_search_fn hub backend""",
    "str | PathLike[str]": "save.path load.path save.f load.f File.path",
    "float | Tensor | None": "interpolate.scale_factor scale posinf neginf",
    "int | Sequence[int]": """movedim.source movedim.destination moveaxis.source moveaxis.destination
        random_split.lengths_ parts tensor_split.indices_or_sections split_size split_sizes
        split_size_or_sections""",
    "int | Sequence[int] | Tensor": "index_select.index repeats starts take.index",
    "Tensor | Sequence[int]": "input_lengths target_lengths targets",
    "Tensor | Sequence[Any]": "gather.index scatter.index indices",
    "int ": "select.index select_scatter.index narrow.start narrow_copy.start",
    "float ": "arange.start arange.end arange.step range.start range.end range.step linspace.start linspace.end "
        "logspace.start logspace.end arange.stop linspace.stop step heaviside.x q_",
    "Session": "session in_session",
    "Generator": "generator",
    "Sequence[Tensor]": "cat.tensors concat.tensors concatenate.tensors stack.tensors hstack.tensors "
        "vstack.tensors dstack.tensors column_stack.tensors row_stack.tensors sequences",
    "tuple[float, float]": "betas etas step_sizes",
    "tuple[float | None, float]": "Adafactor.eps",
    "Iterable[Tensor | dict[str, Any]]": "params",
    "Tensor | Iterable[Tensor]": "clip_grad_norm_.parameters clip_grad_value_.parameters",
    "Iterable[Tensor]": "parameters_to_vector.parameters vector_to_parameters.parameters",
    "Optimizer": "optimizer",
    "Sequence[LRScheduler]": "schedulers",
    "Sequence[int]": "milestones",
    "Callable[[int], float] | Sequence[Callable[[int], float]]": "lr_lambda",
    "Callable[..., Any]": "func function fn hook distance_function",
    "Callable[..., Any] | None": "collate_fn worker_init_fn scale_fn Optimizer.closure",
    "Callable[[], Any]": "LBFGS.closure",
    "Callable[[], Any] | None": "step.closure",
    "Module": "module encoder_layer decoder_layer register_module.module",
    "Module | None": "register_module.module add_module.module TransformerEncoder.norm TransformerDecoder.norm",
    "Mapping[str, Any]": "load_state_dict.state_dict load_state_dict.state",
    "Tensor | None": "register_buffer.tensor register_parameter.parameter register_parameter.param h0",
    "int | tuple[int, ...]": "argnums",
    "Tensor | Sequence[Tensor] | None": "grad_outputs grad_tensors backward.inputs",
    "Tensor | Sequence[Tensor]": "grad.outputs grad.inputs backward.tensors",
    "Tensor  | None": "backward.gradient",
    "str | Callable[[Tensor], Tensor]": "activation",
    "dict[str, Any] | None": "kwargs",
    "Dataset": "DataLoader.dataset Subset.dataset random_split.dataset",
    "Sequence[int] | Sequence[float]": "random_split.lengths",
    "Sized": "SequentialSampler.data_source RandomSampler.data_source",
    "Sequence[int] ": "Subset.indices SubsetRandomSampler.indices",
    "Iterable[Dataset]": "datasets",
    "Iterable[int]": "BatchSampler.sampler",
    "Iterable[Any] | None": "DataLoader.sampler DataLoader.batch_sampler",
    "Iterable[Module] | None": "ModuleList.modules",
    "Mapping[str, Module] | None": "ModuleDict.modules",
    "Iterable[Module]": "extend.modules",
    "Any": """key index Dataset.index condition_ data_source tensor target_ indices_ seed_ weight_norm.dim
        index_put.values index_put_.values ParameterList.values ParameterList.value ParameterDict.parameters
        register_hook.hook_ __setattr__.value Counts.value map_location pickle_module _weight
        StackDataset.x Signal.value save.value save.obj scatter.value index_fill.value""",
}
PARAMETER = {name: kind.strip() for kind, names in PARAMETERS.items() for name in names.split()}
VARIADIC = {"shape": "_Shape", "axes": "int | Sequence[int]", "counts": "int | Sequence[int]",
            "tensors": "Tensor | Sequence[Tensor]", "Sequential.modules": "Any", "save_for_backward.tensors": "Any",
            "TensorDataset.tensors": "Tensor", "datasets": "Dataset", "shapes": "int | Sequence[int]"}
# What a function returns, by its name, and the type of an attribute; CLASS.NAME or MODULE.NAME where that differs.
RETURNS = {
    "tuple[Tensor, ...]": """split chunk unbind broadcast_tensors meshgrid tensor_split hsplit vsplit dsplit
        array_api.nonzero unstack unsafe_split unsafe_chunk split_with_sizes unsafe_split_with_sizes autograd.grad rows
        Context.saved_tensors TensorDataset.__getitem__ TensorDataset.tensors""",
    "tuple[Tensor, Tensor]": "frexp var_mean std_mean slogdet",
    "Sorted": "sort topk",
    "Extreme": "kthvalue mode cummax cummin",
    "MinMax": "aminmax",
    "bool": """__bool__ __contains__ allclose equal is_floating_point is_complex is_nonzero is_same_size is_tensor
        is_grad_enabled requires_grad is_leaf retains_grad is_cuda is_cpu is_sparse is_quantized is_meta
        is_contiguous is_pinned is_signed is_inference is_shared is_set_to is_enabled can_cast is_available
        training is_better isdtype""",
    "int": """__len__ __hash__ __int__ __index__ Tensor.dim numel initial_seed ndim itemsize nbytes nelement
        element_size storage_offset get_num_threads ndimension get_device data_ptr output_nr LRScheduler.last_epoch
        randbits_ Generator.seed num_samples DataLoader.num_workers""",
    "float": "__float__ get_scale calculate_gain",
    "str": "__repr__ __format__ explain extra_repr describe name File.digest File.meta",
    "list[str]": "get_signal_stack __dir__ Keys.missing_keys Keys.unexpected_keys",
    "Any": """numpy __array__ __dlpack__ tolist item __getattr__ load tree type unique unique_consecutive
        histogram svd __call__ max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d nonzero stride __array_ufunc__
        __array_namespace_info__ atleast_1d atleast_2d atleast_3d forward cast_type cast""",
    "Count": "size",
    "Size": "shape broadcast_shapes",
    "dtype": "dtype promote_types result_type get_default_dtype",
    "device": "device",
    "Tensor | None": "Gradients.grad",
    "Tensor": "array_api.sort data File.load File.__getitem__ get_buffer tensor from_numpy full parameters_to_vector clip_grad_norm_ like",
    "GradFn | None": "grad_fn",
    "Handle": """register_hook register_forward_hook register_forward_pre_hook register_full_backward_hook
        register_backward_hook register_post_accumulate_grad_hook""",
    "Iterator[Tensor]": "Tensor.__iter__ buffers",
    "Iterator[Parameter]": "parameters",
    "Iterator[tuple[str, Parameter]]": "named_parameters",
    "Iterator[tuple[str, Tensor]]": "named_buffers",
    "Iterator[Module]": "modules children ModuleList.__iter__ Sequential.__iter__",
    "Iterator[tuple[str, Module]]": "named_modules named_children",
    "Module": "get_submodule weight_norm remove_weight_norm spectral_norm remove_spectral_norm skip_init",
    "Parameter": "get_parameter",
    "Keys": "Module.load_state_dict",
    "Self": "Module.bfloat16 Module.cuda Module.double Module.eval Module.float Module.half Module.to "
        "Module.to_empty Module.train Module.type Module.cpu",
    "Iterator[Any]": "__iter__",
    "Iterator[int]": """Sampler.__iter__ SequentialSampler.__iter__ RandomSampler.__iter__ SubsetRandomSampler.__iter__
        WeightedRandomSampler.__iter__""",
    "tuple[int, int]": "__dlpack_device__ get_state get_rng_state next",
    "ModuleType": "__array_namespace__ checked",
    "list[Tensor]": "broadcast_arrays array_api.meshgrid",
    "QR": "linalg.qr",
    "UniqueAll": "unique_all",
    "UniqueCounts": "unique_counts",
    "UniqueInverse": "unique_inverse",
    "CholeskyEx": "cholesky_ex",
    "InvEx": "inv_ex",
    "LSTSQ": "linalg.lstsq",
    "LU": "linalg.lu",
    "LUFactor": "linalg.lu_factor",
    "SVD": "linalg.svd",
    "SLogDet": "linalg.slogdet",
    "Eigh": "linalg.eigh",
    "AbstractContextManager[None]": "signal.context",
    "str | None": "current_signal current_backward_signal",
    "list[int]": "compute_slots cumulative_sizes find_slots",
    "list[float]": "get_last_lr get_lr base_lrs min_lrs weigh_slots",
    "dict[str, Signal]": "described",
    "list[tuple[int, str, tuple[int, ...], tuple[int, ...], str, str]]": "tape",
    "list[tuple[str, str, str]]": "operations",
    "list[dict[str, Any]]": "param_groups",
    "dict[Tensor, Any]": "Optimizer.state",
    "Session": "session connect init",
    "Pool": "status",
    "Counts": "counts",
    "Generator": "manual_seed",
    "dict[str, Any]": "state_dict defaults File.metadata",
    "list[tuple[str, tuple[int, ...], str, str]]": "File.tensors",
    "Optimizer": "LRScheduler.optimizer",
    "list[Subset]": "random_split",
    "WorkerInfo | None": "get_worker_info",
    "Dataset": "DataLoader.dataset Subset.dataset WorkerInfo.dataset",
    "Recording": "record",
    "Callable[..., Any]": "func.grad grad_and_value jacrev jacfwd hessian vmap DataLoader.collate_fn",
    "tuple[Any, Callable[..., tuple[Any, ...]]]": "vjp",
    "None": "start close sync enter exit clear ",
    "tuple[Any, ...]": "__reduce__",
    "bool ": "gradgradcheck",
}
RETURN = {name: kind.strip() for kind, names in RETURNS.items() for name in names.split()}
FUNCTIONS_GIVE = {name: "Tensor" for name in (
    "", "random", "functional", "linalg", "special", "array_api", "nn.init")}
# Functions of which the result's type depends on what they are given: (parameters, result).
_MODE = [("function: None = None", "_Mode"), ("function: _F", "_F")]
_EXTREME = [("self; dim: Tensor | Sequence[int] | None = None; keepdim: bool = False", "Tensor"),
            ("self; dim: int; keepdim: bool = False", "Extreme"),
            ("self; *; axis: _Axes; keepdims: bool = False; out: Tensor | None = None; "
             "initial: _Operand | None = None; where: _Operand | None = None", "Tensor"),
            ("self; *; other: _Operand | None = None", "Tensor")]
_MEDIAN = [("self; dim: None = None; keepdim: bool = False", "Tensor"),
           ("self; dim: int; keepdim: bool = False", "Extreme")]
_BOTH = [*_MEDIAN, ("self; *; axis: _Axes; keepdims: bool = False", "Tensor")]
OVERLOADS = {"max": _EXTREME, "min": _EXTREME, "median": _BOTH, "nanmedian": _MEDIAN,
             "no_grad": _MODE, "enable_grad": _MODE, "inference_mode": _MODE}
# Members that are not what their base classes have them be: a comparison gives a tensor, not a bool.
OVERRIDES = ("Tensor.__eq__", "Tensor.__ne__", "LBFGS.step")
BASES = {}
VALUES = {"checkpoint": "Any", "backends": "Any", "cuda": "Any", "version": "Any", "newaxis": "None", "joints": "Any"}

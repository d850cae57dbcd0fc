"""The modules and functions of torch.nn that Shoal shares, and how each is compared: see shared_names.py.

MODULES: arguments | inputs, several separated by ";". FUNCTIONS: calls, `F` being nn.functional. Inputs are
written as X(shape), uniformly distributed numbers that gradients are wanted of; P: positive ones; K(n, shape):
integers below n; B(shape): bools; S: signs.
"""
_ACTIVATIONS = """ReLU() ReLU6() Sigmoid() Tanh() Tanhshrink() LogSigmoid() Softsign() Hardsigmoid() Hardswish()
    SELU() SiLU() Mish() GELU() GELU('tanh') ELU() ELU(0.5) CELU(2.0) LeakyReLU(0.2) Hardshrink(0.3)
    Softshrink(0.3) Threshold(0.1,20) Softplus(2,1) Hardtanh(-2,2) RReLU(0.1,0.3) Softmax(1) LogSoftmax(-1)
    Softmin(dim=1) GLU(1) PReLU() PReLU(4)"""
_LOSSES = {
    "MSELoss": "X(3, 4), X(3, 4)", "L1Loss": "X(3, 4), X(3, 4)", "SmoothL1Loss": "X(3, 4), X(3, 4)",
    "HuberLoss": "X(3, 4), X(3, 4)", "BCEWithLogitsLoss": "X(3, 4), P(3, 4)", "BCELoss": "P(3, 4) / 4, P(3, 4) / 4",
    "KLDivLoss": "X(3, 4), P(3, 4)", "CrossEntropyLoss": "X(5, 4), K(4, 5)", "NLLLoss": "X(5, 4), K(4, 5)",
    "PoissonNLLLoss": "X(3, 4), P(3, 4)", "GaussianNLLLoss": "X(3, 4), X(3, 4), P(3, 4)",
    "HingeEmbeddingLoss": "X(3, 4), S(3, 4)", "SoftMarginLoss": "X(3, 4), S(3, 4)",
    "MarginRankingLoss": "X(5), X(5), S(5)", "CosineEmbeddingLoss": "X(5, 4), X(5, 4), S(5)",
    "TripletMarginLoss": "X(5, 4), X(5, 4), X(5, 4)", "TripletMarginWithDistanceLoss": "X(5, 4), X(5, 4), X(5, 4)",
    "MultiMarginLoss": "X(5, 4), K(4, 5)", "MultiLabelMarginLoss": "X(2, 4), L(2, 4)",
    "MultiLabelSoftMarginLoss": "X(3, 4), P(3, 4)", "NLLLoss2d": "X(2, 4, 3, 3), K(4, 2, 3, 3)"}
MODULES = {
    "Identity": "| X(2, 3)", "Linear": "4, 3 | X(2, 4); 4, 3, bias=False | X(2, 5, 4); 4, 3 | X(4)",
    "Bilinear": "4, 3, 5 | X(2, 4), X(2, 3)",
    "Embedding": "7, 3 | K(7, 2, 4); 7, 3, padding_idx=1 | K(7, 5)",
    "EmbeddingBag": "7, 3 | K(7, 2, 4); 7, 3, mode='sum' | K(7, 2, 4); 7, 3, mode='max' | K(7, 2, 4)",
    "LayerNorm": "4 | X(2, 3, 4); (3, 4), eps=1e-3 | X(2, 3, 4); 4, elementwise_affine=False | X(2, 4)",
    "GroupNorm": "2, 4 | X(2, 4, 3, 3); 4, 4, affine=False | X(2, 4)",
    "LocalResponseNorm": "2 | X(2, 4, 3, 3); 3, alpha=0.1, beta=0.5, k=2.0 | X(2, 5, 3, 3)",
    "Flatten": "| X(2, 3, 4); 0, 1 | X(2, 3, 4)", "Unflatten": "1, (2, 3) | X(2, 6)",
    "CosineSimilarity": "| X(3, 4), X(3, 4); dim=0 | X(3, 4), X(3, 4)",
    "PairwiseDistance": "| X(3, 4), X(3, 4); p=1.0, keepdim=True | X(3, 4), X(3, 4)",
    "PixelShuffle": "2 | X(2, 8, 3, 3)", "PixelUnshuffle": "2 | X(2, 2, 4, 6)", "ChannelShuffle": "2 | X(2, 4, 3, 3).detach()",
    "Softmax2d": "| X(2, 3, 4, 4)", "Fold": "(4, 5), (2, 3), stride=1 | X(2, 12, 9)",
    "Unfold": "(2, 3) | X(2, 2, 4, 5); 2, dilation=2, padding=1, stride=2 | X(2, 2, 6, 6)",
    "Upsample": """scale_factor=2 | X(1, 2, 3, 3); size=(5, 7), mode='bilinear' | X(1, 2, 3, 4);
        scale_factor=2, mode='bilinear', align_corners=True | X(1, 2, 3, 4); size=7, mode='linear' | X(1, 2, 3);
        scale_factor=2, mode='bicubic' | X(1, 2, 4, 4); scale_factor=(2, 1, 3), mode='trilinear' | X(1, 1, 2, 3, 2)""",
    "UpsamplingNearest2d": "scale_factor=2 | X(1, 2, 3, 3)", "UpsamplingBilinear2d": "size=(4, 5) | X(1, 2, 3, 3)",
    "MultiheadAttention": "8, 2 | X(3, 2, 8), X(4, 2, 8), X(4, 2, 8); 8, 2, batch_first=True | X(2, 3, 8), X(2, 4, 8), X(2, 4, 8)",
    "TransformerEncoderLayer": "8, 2, 16, 0.0 | X(3, 2, 8); 8, 2, 16, 0.0, 'gelu', norm_first=True | X(3, 2, 8)",
    "TransformerDecoderLayer": "8, 2, 16, 0.0 | X(3, 2, 8), X(4, 2, 8)",
    "Transformer": "8, 2, 1, 1, 16, 0.0 | X(3, 2, 8), X(4, 2, 8)",
    "RNN": "3, 5 | X(4, 2, 3); 3, 5, 2, nonlinearity='relu', batch_first=True | X(2, 4, 3); 3, 5, bidirectional=True | X(4, 2, 3)",
    "LSTM": "3, 5 | X(4, 2, 3); 3, 5, 2, bidirectional=True | X(4, 2, 3); 3, 5, proj_size=2 | X(4, 2, 3); 3, 5 | X(4, 3)",
    "GRU": "3, 5 | X(4, 2, 3); 3, 5, 2, bias=False, bidirectional=True | X(4, 2, 3)",
    "RNNCell": "3, 5 | X(2, 3); 3, 5, nonlinearity='relu' | X(2, 3), X(2, 5)", "GRUCell": "3, 5 | X(2, 3); 3, 5 | X(3)",
    "LSTMCell": "3, 5 | X(2, 3)", "Dropout": "0.0 | X(3, 4)", "Dropout1d": "0.0 | X(2, 3, 4)", "AlphaDropout": "0.0 | X(3, 4)",
    "Dropout2d": "0.0 | X(2, 3, 4, 4)", "Dropout3d": "0.0 | X(2, 3, 4, 4, 2)", "FeatureAlphaDropout": "0.0 | X(2, 3, 4)",
    "CTCLoss": "| T(6, 2, 4), K1(4, 2, 3), M(6, 6), M(3, 2); reduction='sum', blank=0 | T(6, 2, 4), K1(4, 2, 3), M(6, 5), M(2, 3)",
    "SyncBatchNorm": "",
}
for _n, _shape in ((1, "7"), (2, "7, 6"), (3, "5, 6, 4")):
    _x = f"X(2, 4, {_shape})"
    MODULES |= {
        f"Conv{_n}d": f"""4, 6, 3 | {_x}; 4, 6, 3, 2, 1, bias=False | {_x}; 4, 4, 2, padding='same', groups=2 | {_x};
            4, 2, 3, dilation=2, padding=2, padding_mode='circular' | {_x}; 4, 2, 3 | X(4, {_shape})""",
        f"ConvTranspose{_n}d": f"4, 6, 3 | {_x}; 4, 6, 3, 2, 1, 1, groups=2 | {_x}; 4, 2, 2, 3, bias=False, dilation=2 | {_x}",
        f"MaxPool{_n}d": f"2 | {_x}; 3, 2, 1 | {_x}; 2, 2, ceil_mode=True | {_x}; 2, 1, dilation=2 | {_x}; 2, return_indices=True | {_x}",
        f"AvgPool{_n}d": f"2 | {_x}; 3, 2, 1 | {_x}; 3, 2, 1, count_include_pad=False | {_x}; 2, 2, ceil_mode=True | {_x}",
        f"AdaptiveAvgPool{_n}d": f"3 | {_x}; 1 | {_x}; 2 | {_x}", f"AdaptiveMaxPool{_n}d": f"3 | {_x}; 2, return_indices=True | {_x}",
        f"BatchNorm{_n}d": f"4 | {_x}; 4, 1e-3, 0.2, False | {_x}; 4, momentum=None | {_x}; 4, track_running_stats=False | {_x}",
        f"InstanceNorm{_n}d": f"4 | {_x}; 4, affine=True | {_x}; 4, track_running_stats=True | {_x}",
        f"ConstantPad{_n}d": f"1, 2.5 | {_x}", f"ReflectionPad{_n}d": f"1 | {_x}", f"ReplicationPad{_n}d": f"2 | {_x}",
        f"MaxUnpool{_n}d": ""}
    if _n < 3:
        MODULES[f"LPPool{_n}d"] = f"2, 2 | {_x}; 3, 3, 2 | P(2, 4, {_shape})"
_S = "_random_samples=(P(2, 4, {}) / 3.1).detach()"
for _n, _shape in ((2, "7, 6"), (3, "6, 7, 8")):
    _s, _x = f"_random_samples=U(2, 4, {_n})", f"X(2, 4, {_shape})"
    MODULES[f"FractionalMaxPool{_n}d"] = f"2, output_size=3, {_s} | {_x}; 3, output_ratio=0.5, return_indices=True, {_s} | {_x}; " \
        f"2, 1, {_s} | {_x}"
MODULES["AdaptiveLogSoftmaxWithLoss"] = "16, 12, [4, 8] | X(5, 16), K(12, 5); 16, 12, [4], 2.0, True | X(5, 16), K(12, 5); " \
    "16, 12, [2, 5, 9], div_value=2.0 | X(16), M(7).squeeze()"
MODULES["ZeroPad2d"] = "(1, 2, 0, 1) | X(2, 4, 5, 5)"
for _call in _ACTIVATIONS.split():
    _name, _, _args = _call.partition("(")
    MODULES[_name] = "; ".join(filter(None, (MODULES.get(_name), f"{_args[:-1]} | X(3, 4)")))
for _name, _tensors in _LOSSES.items():
    MODULES[_name] = "; ".join(f"reduction='{how}' | {_tensors}" for how in ("mean", "sum", "none"))
MODULES["CrossEntropyLoss"] += "; label_smoothing=0.1 | X(5, 4), K(4, 5); ignore_index=1 | X(5, 4), K(4, 5) ; | X(2, 4, 3), K(4, 2, 3)"
MODULES["SmoothL1Loss"] += "; beta=0.5 | X(3, 4), X(3, 4)"
MODULES["KLDivLoss"] += "; reduction='batchmean' | X(3, 4), P(3, 4); log_target=True | X(3, 4), X(3, 4)"
MODULES["PoissonNLLLoss"] += "; log_input=False, full=True | P(3, 4), P(3, 4)"
# Containers and bases, compared in nn_test.py and by the programs.
ELSEWHERE = """Module ModuleDict ModuleList Parameter ParameterDict ParameterList Sequential TransformerEncoder
    TransformerDecoder MaxUnpool1d MaxUnpool2d MaxUnpool3d SyncBatchNorm UninitializedParameter"""
for _n, _s in ((1, "X(2, 4, 7)"), (2, "X(2, 4, 6, 7)"), (3, "X(2, 4, 5, 6, 5)")):
    MODULES |= {f"Lazy{kind}{_n}d": f"{args} | {_s}" for kind, args in (
        ("Conv", "6, 3, padding=1, groups=2"), ("ConvTranspose", "6, 3, 2"), ("BatchNorm", "eps=1e-3"),
        ("InstanceNorm", "affine=True"))}
MODULES["LazyLinear"] = "3 | X(2, 4); 3, bias=False | X(2, 5, 4)"
MODULES_OUT_OF_SCOPE = {
    "buffers take their shape at the first call, too": "UninitializedBuffer",
    "a tensor lies on many devices as it is": "DataParallel",
    "bases that nobody makes": "Container RNNBase RNNCellBase CrossMapLRN2d",
}

# Of torch.nn.functional, torch.optim and torch.linalg.
OTHERS_OUT_OF_SCOPE = {
    "torch's names for a function with return_indices=True, and for parts of its modules": """*_with_indices
        multi_head_attention_forward native_channel_shuffle conv_tbc""",
    "torch's own machinery": """assert_int_or_pair boolean_dispatch handle_torch_function has_torch_function*
        common_notes sys torch Tensor""",
    "sparse tensors": "SparseAdam", "complex numbers": "eig eigvals",
    "steps of LAPACK's, in place of which linalg.lu, linalg.qr and linalg.solve are called": """householder_product
        ldl_factor ldl_factor_ex ldl_solve lu_factor_ex solve_ex""",
}

_X4 = "X(3, 4)"
FUNCTIONS = {
    **{n: f"F.{n}({_X4}); F.{n}(input={_X4})" for n in """relu relu6 elu selu celu gelu silu mish sigmoid tanh
        softplus logsigmoid softsign hardtanh hardsigmoid hardswish hardshrink softshrink tanhshrink
        leaky_relu rrelu""".split()},
    **{n: f"F.{n}({_X4}, 1); F.{n}({_X4}, dim=0)" for n in "softmax log_softmax softmin normalize".split()},
    **{f"{n}_": f"W({_X4}.detach(), '{n}')" for n in
       "relu elu selu celu leaky_relu hardtanh rrelu".split()},
    **{n: "; ".join(f"F.{n}({t}, reduction='{r}')" for r in ("mean", "sum", "none")) for n, t in {
        "mse_loss": "X(3, 4), X(3, 4)", "l1_loss": "X(3, 4), X(3, 4)", "smooth_l1_loss": "X(3, 4), X(3, 4)",
        "huber_loss": "X(3, 4), X(3, 4)", "binary_cross_entropy": "P(3, 4) / 4, P(3, 4) / 4",
        "binary_cross_entropy_with_logits": "X(3, 4), P(3, 4)", "cross_entropy": "X(5, 4), K(4, 5), P(4).detach()",
        "nll_loss": "X(5, 4), K(4, 5), P(4).detach()", "kl_div": "X(3, 4), P(3, 4)", "poisson_nll_loss": "X(3, 4), P(3, 4)",
        "gaussian_nll_loss": "X(3, 4), X(3, 4), P(3, 4)", "hinge_embedding_loss": "X(3, 4), S(3, 4), 0.5",
        "soft_margin_loss": "X(3, 4), S(3, 4)", "margin_ranking_loss": "X(5), X(5), S(5), 0.5",
        "cosine_embedding_loss": "X(5, 4), X(5, 4), S(5), 0.2", "triplet_margin_loss": "X(5, 4), X(5, 4), X(5, 4), 0.5, 2, 1e-6, True",
        "triplet_margin_with_distance_loss": "X(5, 4), X(5, 4), X(5, 4)", "multi_margin_loss": "X(5, 4), K(4, 5), 2, 0.5",
        "multilabel_margin_loss": "X(2, 4), L(2, 4)", "multilabel_soft_margin_loss": "X(3, 4), P(3, 4), P(4)",
        "ctc_loss": "T(6, 2, 4), K1(4, 2, 3), M(6, 6), M(3, 2)"}.items()},
    "glu": "F.glu(X(3, 4)); F.glu(X(4, 3), dim=0)",
    "threshold": f"F.threshold({_X4}, 0.1, 5.0)", "threshold_": f"W({_X4}.detach(), 'threshold', 0.1, 5.0)",
    "prelu": f"F.prelu({_X4}, P(4))", "linear": "F.linear(X(2, 4), X(3, 4), X(3)); F.linear(X(2, 4), X(3, 4))",
    "bilinear": "F.bilinear(X(2, 4), X(2, 3), X(5, 4, 3), X(5))", "one_hot": "F.one_hot(K(4, 5)); F.one_hot(K(4, 5), 6)",
    "embedding": "F.embedding(K(7, 2, 3), X(7, 4)); F.embedding(K(7, 5), X(7, 4), 1)",
    "embedding_bag": "F.embedding_bag(K(7, 6), X(7, 4), M(0, 2), mode='sum'); F.embedding_bag(K(7, 2, 3), X(7, 4))",
    "layer_norm": "F.layer_norm(X(2, 3, 4), (4,), X(4), X(4), 1e-3)", "group_norm": "F.group_norm(X(2, 4, 3), 2, X(4), X(4))",
    "batch_norm": "F.batch_norm(X(5, 4), X(4).detach(), P(4).detach(), X(4), X(4)); F.batch_norm(X(5, 4), None, None, training=True)",
    "instance_norm": "F.instance_norm(X(2, 4, 5)); F.instance_norm(X(2, 4, 5), weight=X(4), bias=X(4))",
    "local_response_norm": "F.local_response_norm(X(2, 4, 3), 2)", "cosine_similarity": "F.cosine_similarity(X(3, 4), X(3, 4)); F.cosine_similarity(X(3, 4), X(3, 4), 0)",
    "pairwise_distance": "F.pairwise_distance(X(3, 4), X(3, 4)); F.pairwise_distance(X(3, 4), X(3, 4), 1.0, keepdim=True)",
    "pdist": "F.pdist(X(4, 3)); F.pdist(X(4, 3), 1.0)",
    "pad": """F.pad(X(2, 3), (1, 2)); F.pad(X(2, 3, 4), (1, 0, 2, 1), value=1.5); F.pad(X(1, 2, 4), (2, 1), 'reflect');
        F.pad(X(1, 2, 4), (2, 1), mode='replicate'); F.pad(X(1, 2, 4), (2, 1), 'circular'); F.pad(X(4, 4), (-1, 1))""",
    "unfold": "F.unfold(X(2, 2, 4, 5), 2, padding=1)", "fold": "F.fold(X(2, 8, 6), (3, 4), 2)",
    "pixel_shuffle": "F.pixel_shuffle(X(2, 8, 3, 3), 2)", "pixel_unshuffle": "F.pixel_unshuffle(X(2, 2, 4, 6), 2)",
    "channel_shuffle": "F.channel_shuffle(X(2, 4, 3, 3).detach(), 2)",
    "fractional_max_pool2d": f"F.fractional_max_pool2d(X(2, 4, 7, 6), 2, output_size=(3, 4), {_S.format(2)})",
    "fractional_max_pool3d": f"F.fractional_max_pool3d(X(2, 4, 5, 6, 5), (1, 2, 2), (3, 4, 3), {_S.format(3)})",
    "interpolate": "F.interpolate(X(1, 2, 4, 4), size=3); F.interpolate(X(1, 2, 4, 6), scale_factor=0.5, mode='area'); F.interpolate(X(1, 2, 4), 7, mode='nearest-exact')",
    "upsample": "F.upsample(X(1, 2, 3, 3), scale_factor=2)", "upsample_nearest": "F.upsample_nearest(X(1, 2, 3, 3), scale_factor=2)",
    "upsample_bilinear": "F.upsample_bilinear(X(1, 2, 3, 3), (4, 5))",
    "affine_grid": "F.affine_grid(X(2, 2, 3), (2, 1, 3, 4), align_corners=False); F.affine_grid(X(2, 2, 3), (2, 1, 3, 4), True)",
    "grid_sample": """F.grid_sample(X(2, 3, 4, 5), X(2, 3, 3, 2) / 2, align_corners=False);
        F.grid_sample(X(2, 3, 4, 5), X(2, 3, 3, 2) / 2, 'nearest', 'border', True);
        F.grid_sample(X(2, 3, 4, 5), X(2, 3, 3, 2), padding_mode='reflection', align_corners=True)""",
    **{f"conv{n}d": f"F.conv{n}d(X(2, 4, {s}), X(6, 4, {k}), X(6), 2, 1); F.conv{n}d(X(2, 4, {s}), X(6, 2, {k}), groups=2, padding='valid')"
       for n, s, k in ((1, "7", "3"), (2, "7, 6", "3, 2"), (3, "5, 6, 4", "3, 2, 2"))},
    **{f"conv_transpose{n}d": f"F.conv_transpose{n}d(X(2, 4, {s}), X(4, 3, {k}), X(3), 2, 1, 1); F.conv_transpose{n}d(X(2, 4, {s}), X(4, 3, {k}), groups=2)"
       for n, s, k in ((1, "5", "3"), (2, "5, 4", "3, 2"), (3, "3, 4, 3", "3, 2, 2"))},
    **{f"{kind}_pool{n}d": f"F.{kind}_pool{n}d(X(2, 3, {s}), 2); F.{kind}_pool{n}d(X(2, 3, {s}), 3, 2, 1); F.{kind}_pool{n}d(X(3, {s}), 3, 2, ceil_mode=True)"
       for kind in ("max", "avg") for n, s in ((1, "7"), (2, "7, 6"), (3, "5, 6, 4"))},
    **{f"adaptive_{kind}_pool{n}d": f"F.adaptive_{kind}_pool{n}d(X(2, 3, {s}), 3); F.adaptive_{kind}_pool{n}d(X(2, 3, {s}), 1)"
       for kind in ("max", "avg") for n, s in ((1, "7"), (2, "7, 6"), (3, "5, 6, 4"))},
    **{f"lp_pool{n}d": f"F.lp_pool{n}d(P(2, 3, {s}), 2, 2); F.lp_pool{n}d(P(2, 3, {s}), 3.0, 3, 2)" for n, s in ((1, "7"), (2, "7, 6"))},
    **{f"max_unpool{n}d": f"F.max_unpool{n}d(*F.max_pool{n}d(X(2, 3, {s}), 2, return_indices=True), 2)"
       for n, s in ((1, "8"), (2, "6, 8"), (3, "4, 6, 4"))},
    **{n: f"F.{n}(X(2, 3, 4), 0.0); F.{n}(X(2, 3, 4), training=False)" for n in "dropout dropout1d alpha_dropout feature_alpha_dropout".split()},
    "dropout2d": "F.dropout2d(X(2, 3, 4, 4), 0.0)", "dropout3d": "F.dropout3d(X(2, 3, 4, 4, 2), 0.0)",
    "gumbel_softmax": "F.gumbel_softmax(X(3, 4), hard=True).sum(-1)",
}

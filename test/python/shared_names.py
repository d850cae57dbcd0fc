"""The names that Shoal shares with torch, and the calls that are compared: the one table of both.

A row is a name and expressions, separated by ";". In them `t` is torch or shoal, the other letters are
inputs (`INPUTS`). `{}` stands for the name. What torch has and Shoal has not is in OUT_OF_SCOPE, with the
reason. tools may make the documents' table "torch name -> Shoal" from here.
"""

# Families: names, and the calls that each is compared by.
UNARY = "{d}.{}(); t.{}({d}); t.{}(input={d}); z.{}(); i.{}(); e.{}(); s.{}()"
IN_PLACE = "W(x.clone(), '{}'); W(e.clone(), '{}')"
BINARY = "x.{}(y); x.{}(other=y); t.{}(x, y); t.{}(input=x, other=y); x.{}(v); x.{}(e4); h.{}(h); i.{}(k)"
FAMILIES = [
    ("""x.{}(0, g, y[:2], "prod"); t.{}(x, 0, g, y[:2], "amax"); x.{}(dim=1, index=f3 % 4, source=y[:, :3], reduce="mean");
        x.{}(0, g, y[:2], "amin", include_self=False)""", "index_reduce"),
    ("W(x.clone(), '{}', 0, g, y[:2], 'prod')", "index_reduce_"),
    (UNARY.replace("{d}", "x"), """abs absolute arctan atan asinh arcsinh ceil cos deg2rad erf erfc exp exp2
        expm1 floor frac fix trunc neg negative positive rad2deg round relu sgn sigmoid sign sin sinc sinh
        cosh square tan tanh isfinite isinf isnan isposinf isneginf isreal signbit logical_not nan_to_num i0"""),
    (UNARY.replace("{d}", "p"), "log log10 log1p log2 sqrt rsqrt reciprocal lgamma digamma"),
    (UNARY.replace("{d}", "u"), "asin arcsin acos arccos atanh arctanh erfinv logit"),
    (UNARY.replace("{d}", "(p + 1)"), "acosh arccosh"),
    (IN_PLACE, """abs_ absolute_ arctan_ atan_ asinh_ arcsinh_ ceil_ cos_ deg2rad_ erf_ erfc_ exp_ exp2_ expm1_
        floor_ frac_ fix_ trunc_ neg_ negative_ rad2deg_ round_ relu_ sgn_ sigmoid_ sign_ sin_ sinc_ sinh_
        cosh_ square_ tan_ tanh_ logical_not_ nan_to_num_ i0_ log_ log10_ log1p_ log2_ sqrt_ rsqrt_
        reciprocal_ lgamma_ digamma_ asin_ arcsin_ acos_ arccos_ atanh_ arctanh_ erfinv_ logit_ acosh_
        arccosh_ zero_"""),
    (BINARY, """add sub subtract mul multiply div divide true_divide floor_divide fmod remainder maximum
        minimum fmax fmin eq ne not_equal lt less le less_equal gt greater ge greater_equal atan2 arctan2
        hypot logaddexp logaddexp2 copysign nextafter heaviside logical_and logical_or logical_xor xlogy
        isclose"""),
    ("p.{}(y); t.{}(p, 2); t.{}(p, exponent=y); p.{}(0.5); x.{}(3); i.{}(2); t.{}(2.0, y); e.{}(2); e.{}(0)",
     "pow float_power"),
    ("p.{}(p + y.abs()); p.{}(e4); t.{}(p, y.abs()); t.{}(input=x, other=p); p.{}(other=x)", "igamma igammac"),
    ("W(p.clone(), '{}', y.abs())", "igamma_ igammac_"),
    ("i.{}(k); t.{}(i, k); t.{}(input=i, other=k)", """bitwise_and bitwise_or bitwise_xor gcd lcm"""),
    ("k.{}(k % 4); t.{}(k, 2)", "bitwise_left_shift bitwise_right_shift"),
    ("i.{}(); t.{}(i); b.{}()", "bitwise_not"),
    ("W(x.clone(), '{}', y)", """add_ sub_ subtract_ mul_ multiply_ div_ divide_ true_divide_ floor_divide_
        fmod_ remainder_ eq_ ne_ not_equal_ lt_ less_ le_ less_equal_ gt_ greater_ ge_ greater_equal_ atan2_
        arctan2_ hypot_ copysign_ nextafter_ heaviside_ logical_and_ logical_or_ logical_xor_ xlogy_ pow_"""),
    ("W(x.double(), '{}', y.double())", "float_power_"),
    ("W(i.clone(), '{}', k)", "bitwise_and_ bitwise_or_ bitwise_xor_ gcd_ lcm_"),
    ("W(k.clone(), '{}', k % 4)", "bitwise_left_shift_ bitwise_right_shift_ __ilshift__ __irshift__"),
    ("W(i.clone(), '{}')", "bitwise_not_"),
    # Reductions.
    ("""x.{}(); x.{}(1); x.{}(-1, True); x.{}(dim=0, keepdim=True); t.{}(x); t.{}(x, 1); t.{}(input=x, dim=(0, 1));
        i.{}(); i.{}(0); h.{}(1); n.{}(); n.{}(1); b.{}(); z.{}(0); z.{}(); s.{}(0)""", "sum nansum"),
    ("x.{}(); x.{}(1); x.{}(-1, True); x.{}(dim=0, keepdim=True); t.{}(x, 1); h.{}(1); n.{}(1)", "mean nanmean"),
    ("x.{}(); x.{}(1); x.{}(dim=0, keepdim=True); t.{}(x, 1, True); i.{}(0); h.{}(1); n.{}(1); b.{}(0)", "prod"),
    ("""x.{}(); x.{}(1); x.{}(1, True); x.{}(dim=-1, keepdim=True); t.{}(x); t.{}(x, 1); t.{}(input=x, dim=0);
        h.{}(1); h.{}(0); i.{}(); i.{}(1); n.{}(1); n.{}(); x.{}(y); t.{}(x, y); s.{}(); s.{}(0); b.{}(1)""",
     "max min"),
    ("x.{}(1); x.{}(dim=0, keepdim=True); x.{}((0, 1)); t.{}(x, 1); h.{}(1); n.{}(1)", "amax amin"),
    ("x.{}(); x.{}(dim=1, keepdim=True); t.{}(x); h.{}(dim=0)", "aminmax"),
    ("x.{}(); x.{}(1); x.{}(dim=1, keepdim=True); t.{}(x, 0); n.{}(1); i.{}(1); s.{}()", "argmax argmin"),
    ("h.{}(); h.{}(1); h.{}(dim=1, keepdim=True); t.{}(b); t.{}(b, 1); b.{}(0); z.{}(); z.{}(0); i.{}(1)",
     "all any"),
    ("h.{}(); h.{}(1); t.{}(h, dim=(0, 1)); b.{}()", "count_nonzero"),
    ("""x.{}(); x.{}(1); x.{}(False); x.{}(1, False); x.{}(1, True, True); x.{}(dim=0, unbiased=False);
        x.{}(dim=(0, 1)); t.{}(x); t.{}(x, 1, keepdim=True); t.{}(input=x, dim=0); h.{}(1); n.{}(); s.{}()""",
     "std var"),
    ("t.{}(x); t.{}(x, 1); t.{}(x, 1, False); t.{}(x, dim=0, unbiased=False, keepdim=True)", "std_mean var_mean"),
    ("""x.{}(); x.{}(1); x.{}(dim=0, keepdim=True); t.{}(x); t.{}(x, 1); h.{}(1); h.{}(); n.{}(1); n.{}();
        i.{}(); i.{}(0); s.{}()""", "median nanmedian"),
    ("h.{}(); h.{}(0); h.{}(dim=1, keepdim=True); t.{}(i); i.{}(1); s.{}()", "mode"),
    ("x.{}(2); x.{}(1, 0); x.{}(k=2, dim=1, keepdim=True); t.{}(x, 3).values; t.{}(h, 2, 0).values", "kthvalue"),
    ("x.{}(1); x.{}(dim=(0, 1), keepdim=True); t.{}(x, 0); e.{}(0); t.{}(x * 300, 1)", "logsumexp"),
    ("x.{}(); x.{}(1); x.{}(2, 1); x.{}(p=3, dim=1, keepdim=True); t.{}(x, float('inf')); x.{}(0, 1); t.{}(x, 'fro')",
     "norm"),
    ("x.{}(y); x.{}(y, 1); t.{}(x, y, p=3)", "dist"),
    ("x.{}(2, 0, 1.5); t.{}(x, p=1, dim=1, maxnorm=2.0)", "renorm"),
    ("W(x.clone(), '{}', 2, 0, 1.5)", "renorm_"),
    ("x.{}(1); x.{}(dim=0); t.{}(x, 1); i.{}(1); b.{}(0); h.{}(0); z.{}(0); s.{}(0)", "cumsum cumprod"),
    ("W(x.clone(), '{}', 1); W(x.clone(), '{}', dim=0)", "cumsum_ cumprod_"),
    ("x.{}(1); x.{}(dim=0); t.{}(x, 1); h.{}(1); i.{}(0); n.{}(1).values; s.{}(0)", "cummax cummin"),
    ("x.{}(1); t.{}(x, dim=0)", "logcumsumexp"),
    ("x.{}(); x.{}(0); x.{}(1, True); x.{}(dim=0, descending=True); t.{}(x); i.{}().values; s.{}()", "sort"),
    ("x.{}(); x.{}(0); x.{}(1, True); x.{}(dim=0, descending=True); t.{}(x, 0)", "argsort"),
    ("x.{}(); t.{}(h)", "msort"),
    ("x.{}(2); x.{}(2, 0); x.{}(2, 1, False); x.{}(k=1, dim=0, largest=False); t.{}(x, 3)", "topk"),
    ("x.{}(0.3); x.{}(0.5, 1); x.{}(q=v4, dim=0, keepdim=True); t.{}(x, 0.25, dim=1); n.{}(0.5, 1)",
     "quantile nanquantile"),
    # Other shapes.
    ("x.{}(4, 3); x.{}(-1); x.{}((2, 6)); x.{}(2, -1, 3); z.{}(4, 0)", "reshape view"),
    ("x.{}(m43); x.{}(other=m43)", "reshape_as view_as"),
    ("B.{}(); B.{}(1); B.{}(0, 1); B.{}(start_dim=1); t.{}(B, 1); s.{}()", "flatten"),
    ("x.{}(); t.{}(x)", "ravel t"),
    ("B.{}(2, (2, 2)); B.{}(-1, (2, -1)); B.{}(dim=2, sizes=(2, 2))", "unflatten"),
    ("B.{}(0, 2); B.{}(-1, 0); t.{}(B, 1, 2)", "transpose swapaxes swapdims"),
    ("B.{}(2, 0, 1); B.{}((1, 0, 2)); B.{}(dims=(0, 2, 1)); t.{}(B, (2, 1, 0))", "permute"),
    ("B.{}(0, 2); B.{}((0, 1), (1, 2)); t.{}(B, -1, 0); B.{}(source=0, destination=1)", "movedim moveaxis"),
    ("o.{}(); o.{}(0); o.{}(1); o.{}(dim=-1); t.{}(o, 1)", "squeeze"),
    ("x.{}(0); x.{}(-1); x.{}(dim=1); t.{}(x, 2)", "unsqueeze"),
    ("W(o.clone(), '{}'); W(o.clone(), '{}', 0)", "squeeze_"),
    ("W(x.clone(), '{}', 1)", "unsqueeze_"),
    ("W(x.clone(), '{}', 0, 1)", "transpose_ swapaxes_ swapdims_"),
    ("W(x.clone(), '{}')", "t_"),
    ("v.{}(3, 4); o.{}(5, 3, 2, -1); v.{}((2, 4))", "expand"),
    ("v.{}(x)", "expand_as"),
    ("v.{}((3, 4)); t.{}(v, (2, 4))", "broadcast_to"),
    ("x.{}(2, 1); x.{}((2, 3)); x.{}(2, 1, 2)", "repeat"),
    ("x.{}(2); x.{}((2, 3)); x.{}(dims=(2, 1, 2)); t.{}(x, (2,))", "tile"),
    ("x.{}(2); x.{}(3, 1); x.{}(repeats=2, dim=0); t.{}(x, 2, dim=1); x.{}(r3, 0)", "repeat_interleave"),
    ("x.{}(0); x.{}(0, 1); x.{}((1,)); x.{}(dims=(0, 1)); t.{}(x, (1,)); t.{}(x, dims=[0])", "flip"),
    ("x.{}(); t.{}(x)", "fliplr flipud"),
    ("x.{}(); x.{}(2, (0, 1)); x.{}(3); t.{}(x, k=-1, dims=[0, 1])", "rot90"),
    ("x.{}(1); x.{}(1, 0); x.{}((1, -2), (0, 1)); x.{}(shifts=2, dims=1); t.{}(x, 3, 1)", "roll"),
    ("x.{}(1, 1, 2); x.{}(dim=0, start=-2, length=1); t.{}(x, 0, 1, 2)", "narrow narrow_copy"),
    ("x.{}(0, 1); x.{}(dim=1, index=-1); t.{}(x, 0, -2)", "select"),
    ("B.{}(2, 2); B.{}(1); B.{}(split_size=2, dim=1); B.{}([1, 2], 1); t.{}(B, 3, 2)", "split"),
    ("B.{}([1, 2], 1); B.{}(split_sizes=[1, 3], dim=2)", "split_with_sizes"),
    ("B.{}(2, 2); t.{}(B, 1)", "unsafe_split"),
    ("B.{}([1, 2], 1)", "unsafe_split_with_sizes"),
    ("B.{}(2, 2); B.{}(3, dim=1); B.{}(chunks=2); t.{}(B, 2, 1)", "chunk unsafe_chunk"),
    ("B.{}(3, 2); B.{}((1, 2), dim=2); t.{}(B, 2)", "tensor_split"),
    ("B.{}(3); t.{}(B, [1])", "hsplit"), ("B.{}(2); t.{}(B, [1])", "vsplit"), ("B.{}(2)", "dsplit"),
    ("x.{}(); x.{}(1); t.{}(x, dim=0)", "unbind"),
    ("x.{}(1, 2, 1); x.{}(dimension=1, size=3, step=2)", "unfold"),
    ("x.{}(); x.{}(1); B.{}(0, 1, 2); B.{}(offset=-1, dim1=0, dim2=2); t.{}(x, 1)", "diagonal"),
    ("x.{}(); x.{}(1); v.{}(); v.{}(-1); t.{}(v, diagonal=2)", "diag"),
    ("v.{}(); x.{}(1); x.{}(offset=-1, dim1=0, dim2=2); t.{}(v)", "diag_embed"),
    ("v.{}(); x.{}(1); t.{}(v, -1)", "diagflat"),
    ("x.{}(); x.{}(1); B.{}(diagonal=-1); t.{}(x, 1)", "tril triu"),
    ("W(x.clone(), '{}'); W(x.clone(), '{}', 1)", "tril_ triu_"),
    ("q.{}(); t.{}(q)", "trace"),
    ("q.{}(); B.{}()", "adjoint"),
    ("x.{}(1, 4); x.{}((3, 1)); x.{}(3, 4)", "sum_to_size"),
    ("x.{}((2, 2), (1, 2)); x.{}((2, 3), (4, 1), 1)", "as_strided"),
    # Picking and putting.
    ("x.{}(f3); t.{}(x, f3)", "take"),
    ("x.{}(j, 0); t.{}(x, j, dim=0); x.{}(f3)", "take_along_dim"),
    ("x.{}(0, g); x.{}(dim=1, index=g); t.{}(x, 0, g)", "index_select"),
    ("x.{}(0, j); x.{}(dim=0, index=j); t.{}(x, 0, j); t.{}(x, 1, j[:, :2])", "gather"),
    ("x.{}(0, j, y); x.{}(0, j, 2.0); x.{}(dim=0, index=j, src=y); x.{}(0, j, y, reduce='add'); t.{}(x, 0, j, 1.5)",
     "scatter"),
    ("W(x.clone(), '{}', 0, j, y); W(x.clone(), '{}', 0, j, 2.0)", "scatter_"),
    ("x.{}(0, j, y); x.{}(dim=0, index=j, src=y); t.{}(x, 0, j, y)", "scatter_add"),
    ("W(x.clone(), '{}', 0, j, y)", "scatter_add_"),
    ("""x.{}(0, j, y, 'sum'); x.{}(0, j, y, 'prod'); x.{}(0, j, y, 'mean'); x.{}(0, j, y, reduce='amax');
        t.{}(x, 0, j, y, 'amin', include_self=False); x.{}(0, j, y, 'mean', include_self=False)""", "scatter_reduce"),
    ("W(x.clone(), '{}', 0, j, y, 'sum')", "scatter_reduce_"),
    ("x.{}(0, g, y[:2]); x.{}(dim=0, index=g, source=y[:2], alpha=2); t.{}(x, 0, g, y[:2])", "index_add"),
    ("x.{}(0, g, y[:2]); t.{}(x, 0, g, y[:2])", "index_copy"),
    ("x.{}(0, g, 5.0); x.{}(dim=1, index=g, value=-1.0); t.{}(x, 0, g, 2.0)", "index_fill"),
    ("x.{}((g, g), v2); x.{}((g,), v, accumulate=True); t.{}(x, (g,), v)", "index_put"),
    ("W(x.clone(), '{}', 0, g, y[:2])", "index_add_ index_copy_"), ("W(x.clone(), '{}', 0, g, 5.0)", "index_fill_"),
    ("W(x.clone(), '{}', (g, g), v2)", "index_put_"),
    ("x.{}(x > 0, 9.0); x.{}(mask=b4, value=1.0); t.{}(x, x > 0, -1.0)", "masked_fill"),
    ("W(x.clone(), '{}', x > 0, 9.0)", "masked_fill_"),
    ("x.{}(x > 0, y); t.{}(x, x < 0, y)", "masked_scatter"), ("W(x.clone(), '{}', x > 0, y)", "masked_scatter_"),
    ("x.{}(x > 0); t.{}(x, b4)", "masked_select"),
    ("x.{}(f3, v3); x.{}(f3, v3, accumulate=True)", "put"), ("W(x.clone(), '{}', f3, v3)", "put_"),
    ("x.{}(v, 0, 1); t.{}(x, v, dim=0, index=-1)", "select_scatter"),
    ("x.{}(y[1:], 0, 1); t.{}(x, y[:, ::2], dim=1, step=2)", "slice_scatter"),
    ("x.{}(v3); t.{}(x, v3, 1)", "diagonal_scatter"),
    ("h.{}(); t.{}(h); s.{}()", "nonzero argwhere"),
    ("x.{}(x > 0, y); t.{}(x > 0, x, y); t.{}(x > 0); t.{}(x > 0, 1.0, y)", "where"),
    ("W(x.clone(), '{}', y); W(x.clone(), '{}', v)", "copy_"), ("W(x.clone(), '{}', 3.5)", "fill_"),
    ("W(q.clone(), '{}', 7.0)", "fill_diagonal_"),
    # Products.
    ("x.{}(m); t.{}(x, m); B.{}(C); v.{}(v); x.{}(v); B.{}(v)", "matmul"),
    ("x.{}(m); x.{}(mat2=m); t.{}(x, m)", "mm"), ("B.{}(C); B.{}(mat2=C); t.{}(B, C)", "bmm"),
    ("x.{}(v); x.{}(vec=v); t.{}(x, v)", "mv"), ("v.{}(v); t.{}(v, v)", "dot vdot"),
    ("x.{}(y); v.{}(v); t.{}(x, y)", "inner"), ("v.{}(v3); t.{}(v, v3)", "outer ger"),
    ("x.{}(y[:2]); t.{}(v, v3)", "kron"),
    ("w35.{}(x, m); w35.{}(x, m, beta=0.5, alpha=2); t.{}(w35, mat1=x, mat2=m)", "addmm"),
    ("v3.{}(x, v); t.{}(v3, x, v, beta=2, alpha=3)", "addmv"),
    ("x.{}(v3, v); t.{}(x, v3, v, alpha=2)", "addr"),
    ("D.{}(B, C); D.{}(B, C, beta=2, alpha=0.5); t.{}(D, batch1=B, batch2=C)", "baddbmm"),
    ("w35.{}(B, C); t.{}(w35, B, C, beta=2)", "addbmm"),
    ("W(w35.clone(), '{}', x, m)", "addmm_"), ("W(v3.clone(), '{}', x, v)", "addmv_"),
    ("W(D.clone(), '{}', B, C)", "baddbmm_"), ("W(w35.clone(), '{}', B, C)", "addbmm_"),
    ("x.{}(y, v + 3); t.{}(x, p, p, value=2); x.{}(tensor1=y, tensor2=p)", "addcmul addcdiv"),
    ("W(x.clone(), '{}', y, p)", "addcmul_ addcdiv_"),
    ("x.{}(y, 0.3); x.{}(end=y, weight=p); t.{}(x, y, 0.5)", "lerp"), ("W(x.clone(), '{}', y, 0.3)", "lerp_"),
    ("m43.{}(m43, 1); t.{}(m43, m43.flip(1), dim=1)", "cross"),
    ("q.{}(3); q.{}(0); t.{}(q, 2); (q + 4 * t.eye(4)).{}(-1)", "matrix_power"),
    ("x.{}(); x.{}(2); x.{}(dim=0); t.{}(x, n=1, dim=0, prepend=v.unsqueeze(0)); h.{}()", "diff"),
    ("x.{}(); v.{}(); t.{}(x)", "cov corrcoef"),
    # Factorisations.
    ("q.{}(); t.{}(q)", "det inverse pinverse slogdet matrix_exp"), ("(q @ q.T + t.eye(4)).{}()", "logdet cholesky"),
    ("q.{}()[1]; x.{}()[1]", "svd"), ("abs(q.{}()[1])", "qr"),
    # Bounds, tests, values.
    ("x.{}(-1, 1); x.{}(min=0); x.{}(max=0.5); t.{}(x, min=y); e.{}(-1, 1); i.{}(0, 2); t.{}(x, y, p)", "clamp clip"),
    ("x.{}(0); t.{}(x, min=0.5)", "clamp_min"), ("x.{}(0); t.{}(x, max=0.5)", "clamp_max"),
    ("W(x.clone(), '{}', -1, 1)", "clamp_ clip_"), ("W(x.clone(), '{}', 0)", "clamp_min_ clamp_max_"),
    ("x.{}(x); t.{}(x, y); t.{}(x, x.clone())", "equal allclose"),
    ("x.{}(1); t.{}(x, -1); x.{}(dim=0); x.{}(1, dtype=t.float64); e4.{}(0)", "softmax log_softmax"),
    ("h.{}(); h.{}(return_inverse=True, return_counts=True); t.{}(i, return_counts=True)", "unique"),
    ("h.{}(); t.{}(h.flatten(), return_counts=True)", "unique_consecutive"),
    ("c.{}(); c.{}(minlength=9); t.{}(c, weights=v5); c.{}(v5)", "bincount"),
    ("x.{}(5, -3, 3); x.{}(bins=4); t.{}(x, 4, min=-1, max=1)", "histc"),
    ("x.{}(4); t.{}(x, 5, range=(-1., 1.5)); t.{}(x, v.sort().values, weight=p, density=True)", "histogram"),
    ("t.{}(m43, [2, 3, 2]); t.{}(m43, [2, 3, 2], range=[-1., 1., -2., 2., -3., 3.], density=True); "
     "t.{}(m43[:, :2], (v3.sort().values, v.sort().values), weight=v)", "histogramdd"),
    ("t.{}(x); t.{}(x, spacing=0.5, dim=1); t.{}(x, dim=(0, 1), edge_order=2); t.{}(x, spacing=[1., 2.]); "
     "t.{}(x, spacing=(v3.sort().values, v.sort().values), edge_order=2); t.{}(x, dim=-1, edge_order=2)", "gradient"),
    ("t.{}(x, x); t.{}(x, dx=0.5, dim=0); t.{}(x)", "trapz"),
    ("t.{}(5); t.{}(8, False); t.{}(7, True, 8.5); t.{}(1); t.{}(0); t.{}(4, beta=30., dtype=t.float64)", "kaiser_window"),
    ("t.{}(x, 2.5); t.{}(i, 3)", "fill"), ("t.{}(x.clone())", "detach_"),
    ("t.{}(v.sort().values, x); t.{}(v.sort().values, x, right=True); t.{}(v.sort().values, 0.5)", "searchsorted"),
    ("t.{}(x, v.sort().values); t.{}(x, v.sort().values, right=True)", "bucketize"),
    ("t.{}(h, h[:1]); t.{}(i, k, invert=True)", "isin"),
    ("p.{}(1); t.{}(1, p); p.{}(2)", "polygamma") , ("(p + 2).{}(2); t.{}(p + 2, p=3)", "mvlgamma"),
    ("x.{}(i); t.{}(x, i)", "ldexp"), ("W(x.clone(), '{}', i)", "ldexp_"), ("p.{}(); t.{}(x)", "frexp"),
    ("x.{}(0.5); x.{}(lambd=1.0)", "hardshrink"), ("x.{}(v1)", "prelu"),
    ("W(p + 2, '{}', 2)", "mvlgamma_"), ("W(p.clone(), '{}', 1)", "polygamma_"),
    # Types, and what a tensor says of itself.
    ("x.{}(); i.{}(); b.{}()", "float double half short int long bool char bfloat16"),
    ("p.{}(); i.{}(); b.{}()", "byte"),
    ("x.{}(t.float64); x.{}(i); x.{}('cpu'); x.{}(dtype=t.int32); x.{}('cpu', t.float64); x.{}(t.device('cpu'))", "to"),
    ("x.{}(); x.{}(t.float64)", "type"), ("x.{}(i)", "type_as"),
    ("x.{}()", """clone detach contiguous cpu dim ndimension nelement element_size is_contiguous
        is_floating_point is_complex is_signed tolist is_pinned resolve_conj resolve_neg conj is_conj is_neg
        is_shared is_inference storage_offset get_device numel conj_physical"""),
    ("s.{}(); (x[0, 0] * 0).{}()", "is_nonzero item"), ("x.{}(y); x.{}(v)", "is_same_size is_set_to"),
    ("x.{}(); x.{}(0); x.{}(-1)", "size stride"), ("x.t().{}(); B[:, 1].{}(); x[::2].{}()", "stride"),
    ("x.{}", """T mT H mH shape ndim is_leaf requires_grad is_cuda is_sparse is_quantized is_meta is_mkldnn
        is_mps is_xpu is_cpu real output_nr grad grad_fn retains_grad itemsize_"""),
    ("x.{}; i.{}", "dtype"), ("x.{}.type in ('cpu', 'pool')", "device"),
    ("x.{}(2, 3); x.{}((2,)); x.{}((2,), dtype=t.int64)", "new_zeros new_ones"), ("x.{}((2, 3), 1.5)", "new_full"),
    ("x.{}([1, 2])", "new_tensor"), ("x.{}(2, 3).shape", "new_empty"), ("x.{}(2).shape", "new"),
    # In place, of random numbers: the shape; their distribution is tested in surface_test.py.
    ("x.clone().{}().shape", "uniform_ normal_ random_ bernoulli_ exponential_ cauchy_ log_normal_"),
    ("x.clone().{}(0.3).shape", "geometric_"), ("u.abs().{}().shape", "bernoulli"), ("p.{}(2).shape", "multinomial"),
    # Gradients.
    ("R(x, lambda a: (a * a).sum().{}())", "backward"), ("R(x, lambda a: a.{}(lambda g: g * 2) and (a * a).sum().backward())", "register_hook"),
    ("R(x, lambda a: (a * 2).{}())", "retain_grad"), ("x.clone().{}().requires_grad", "requires_grad_"),
    ("(x.clone().requires_grad_() * 2).{}().requires_grad", "detach_"), ("x.clone().{}", "data"),
    ("len(x); x.{}(0)", "__getitem__"), ("W(x.clone(), '{}', lambda a: a * 2)", "apply_"),
    ("W(x.clone(), '{}', y, lambda a, b: a * b)", "map_"),
    ("x.{}() is x", "share_memory_ pin_memory_") ,
    # Operators.
    ("x.{}(y); x.{}(2); i.{}(k)", """__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __mod__
        __floordiv__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__"""),
    ("W(x.clone(), '{}', y)", "__iadd__ __isub__ __imul__ __itruediv__ __imod__ __ifloordiv__ __ipow__"),
    ("i.{}(k)", "__and__ __or__ __xor__"), ("W(i.clone(), '{}', k)", "__iand__ __ior__ __ixor__"),
]

# Of torch's Tensor: what is not here, and why.
OUT_OF_SCOPE = {
    "complex numbers": "angle cdouble cfloat chalf imag conj_physical_ eig stft istft",
    "sparse tensors": """ccol_indices coalesce col_indices crow_indices dense_dim indices is_coalesced
        is_sparse_csr row_indices smm sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ sspaddmm
        to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values
        resize_as_sparse_""",
    "quantised tensors": """dequantize int_repr q_per_channel_axis q_per_channel_scales
        q_per_channel_zero_points q_scale q_zero_point qscheme""",
    "named axes": "align_as align_to has_names name names refine_names rename rename_",
    "memory and other devices: a tensor lies in a pool": """data_ptr storage storage_type set_ resize resize_
        resize_as resize_as_ as_strided_ as_strided_scatter new_empty_strided record_stream to_mkldnn ipu xpu
        is_ipu is_ort is_vulkan is_distributed is_nested to_padded_tensor volatile map2_ reinforce
        as_subclass""",
    "removed from torch since, or replaced by torch.linalg": "lstsq lu lu_solve solve symeig geqrf orgqr ormqr",
}
# The functions of torch itself that are not here, as patterns.
FUNCTIONS_OUT_OF_SCOPE = {
    "complex numbers, and transforms that give them": """complex polar angle imag view_as_complex* view_as_real* stft
        istft eig conj_physical_""",
    "sparse tensors": "sparse_* *_indices_copy values_copy *smm sspaddmm hspmm spmm resize_as_sparse_ saddmm",
    "quantised tensors": """quantize_* quantized_* q_* int_repr dequantize fake_quantize_* fbgemm_* fused_moving_avg*
        choose_qparams_optimized""",
    "one library's kernels, which torch calls itself": """cudnn_* miopen_* mkldnn_* native_* batch_norm_* conv_tbc
        convolution affine_grid_generator grid_sampler* constant_pad_nd embedding_renorm_ norm_except_dim
        max_pool1d_with_indices feature_dropout* gru gru_cell lstm lstm_cell rnn_* frobenius_norm nuclear_norm
        alpha_dropout_ dropout_ feature_alpha_dropout_ segment_reduce""",
    "copies of views, made for compilers": "*_copy",
    "torch's script compiler and its types": """Callable Set Union align_tensors candidate classproperty
        import_ir_module* merge_type_from_type_comment parse_* unify_type_list typename obj fork wait
        get_file_path read_vitals set_vital vitals_enabled compiled_with_cxx11_abi""",
    "switches of torch's own threads and modes": """are_deterministic_algorithms_enabled autocast_*_nesting
        clear_autocast_cache get_autocast_* get_deterministic_debug_mode get_float32_matmul_precision
        get_num_interop_threads init_num_threads is_anomaly_* is_autocast_c* is_deterministic_algorithms_*
        is_inference_mode_enabled is_warn_always_enabled prepare_multiprocessing_environment set_anomaly_enabled
        set_autocast_* set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision
        set_flush_denormal set_num_interop_threads set_warn_always""",
    "memory and other devices: a tensor lies in a pool": """as_strided_* empty_strided empty_quantized from_file
        is_distributed is_storage is_vulkan_available resize_as_ to_dlpack""",
    "removed from torch since, or replaced by torch.linalg": "lstsq lu lu_unpack solve symeig geqrf orgqr ormqr",
}

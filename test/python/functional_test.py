"""shoal.functional against PyTorch: values and gradients, of float32 and float64."""
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peer import numpy_of, torch, torch_of

import shoal
import shoal.functional as F

T = torch.nn.functional
RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape)


def both(ours, theirs, *arrays, dtype="float64", tolerance=None, gradients=True):
    """The same call on the same arrays: values, and gradients with respect to all floating ones."""
    tolerance = tolerance or (2e-5 if dtype == "float32" else 1e-9)
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]
    xs = [shoal.tensor(a) for a in arrays]
    ts = [torch_of(a, gradients and a.dtype.kind == "f") for a in arrays]
    for x, a in zip(xs, arrays):
        if gradients and a.dtype.kind == "f":
            x.requires_grad_()
    got, want = ours(*xs), theirs(*ts)
    want_array = numpy_of(want)
    assert got.shape == tuple(want.shape) and got.dtype == str(want.dtype)[6:]
    np.testing.assert_allclose(got.numpy(), want_array, rtol=tolerance, atol=tolerance)
    if not gradients or want_array.dtype.kind != "f":
        return
    seed = normal(*want_array.shape).astype(dtype)
    got.backward(shoal.tensor(seed))
    want.backward(torch_of(seed))
    for x, t, a in zip(xs, ts, arrays):
        if a.dtype.kind == "f" and t.grad is not None:
            np.testing.assert_allclose(x.grad.numpy(), numpy_of(t.grad), rtol=5 * tolerance,
                                       atol=5 * tolerance)


ACTIVATIONS = {
    "relu": {}, "relu6": {}, "leaky_relu": {"negative_slope": 0.1}, "elu": {"alpha": 1.3}, "selu": {},
    "celu": {"alpha": 0.7}, "gelu": {}, "silu": {}, "mish": {}, "sigmoid": {}, "tanh": {},
    "softplus": {"beta": 1.5}, "logsigmoid": {}, "softsign": {}, "hardtanh": {"min_val": -0.5},
    "hardsigmoid": {}, "hardswish": {}, "softmax": {"dim": 1}, "log_softmax": {"dim": 0},
    "softmin": {"dim": -1}, "glu": {"dim": 1}, "normalize": {"dim": 0},
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name, dtype):
    keywords = ACTIVATIONS[name]
    theirs = {"logsigmoid": T.logsigmoid, "sigmoid": torch.sigmoid, "tanh": torch.tanh}.get(
        name, getattr(T, name, None))
    both(lambda x: getattr(F, name)(x, **keywords), lambda t: theirs(t, **keywords),
         3 * normal(4, 6, 2), dtype=dtype,
         # torch has 1/6 and the like as float32 there
         tolerance=1e-7 if dtype == "float64" and name in ("celu", "hardsigmoid") else None)


def test_gelu_by_tanh():
    both(lambda x: F.gelu(x, "tanh"),
         lambda t: 0.5 * t * (1 + torch.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t ** 3))),
         normal(50))


@pytest.mark.parametrize("x", [0.0, 1e-30, 80.0, -80.0, 1e4, -1e4])
def test_activations_far_out(x):
    a = np.array([x], "float32")
    for name in ("softplus", "logsigmoid", "mish", "silu", "sigmoid", "tanh", "gelu"):
        theirs = getattr(T, name)
        both(getattr(F, name), theirs, a, dtype="float32", tolerance=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layers(dtype):
    def check(ours, theirs, *arrays, **more):
        both(ours, theirs, *arrays, dtype=dtype, **more)
    check(F.linear, T.linear, normal(3, 5, 4), normal(6, 4), normal(6))
    check(F.linear, T.linear, normal(4), normal(6, 4))
    check(F.prelu, T.prelu, normal(3, 5, 2), normal(5))
    index = RNG.integers(0, 7, (3, 4))
    check(F.embedding, T.embedding, index, normal(7, 5))
    check(lambda i, w: F.embedding(i, w, padding_idx=2),
          lambda i, w: T.embedding(i, w, padding_idx=2), index, normal(7, 5))
    check(lambda x, w, b: F.layer_norm(x, (3, 5), w, b), lambda x, w, b: T.layer_norm(x, (3, 5), w, b),
          normal(4, 3, 5), normal(3, 5), normal(3, 5))
    check(lambda x: F.layer_norm(x, 5), lambda x: T.layer_norm(x, (5,)), normal(4, 3, 5))
    check(lambda x, w: F.rms_norm(x, 5, w, 1e-6),
          lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w,
          normal(4, 5), normal(5))
    check(lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
          lambda x, w, b: T.batch_norm(x, None, None, w, b, True), normal(6, 3, 4), normal(3),
          normal(3))
    check(F.cosine_similarity, T.cosine_similarity, normal(4, 6), normal(4, 6))
    check(F.pairwise_distance, T.pairwise_distance, normal(4, 6), normal(4, 6))
    assert (F.one_hot(shoal.tensor(index)).numpy() ==
            numpy_of(T.one_hot(torch_of(index)))).all()


@pytest.mark.parametrize("mode,pad", [("constant", (1, 2)), ("constant", (1, -1, 2, 0)),
                                      ("reflect", (2, 1, 1, 2)), ("replicate", (3, 1)),
                                      ("circular", (2, 3))])
def test_pad(mode, pad):
    shape = (2, 3, 4, 5) if len(pad) == 4 else (2, 3, 5)
    both(lambda x: F.pad(x, pad, mode), lambda t: T.pad(t, pad, mode), normal(*shape))


# ---- attention ----

def attention(q, k, v, mask=None, causal=False, scale=None):
    """The formula; Debian's PyTorch has another signature."""
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("s,t", [(5, 5), (3, 7)])
def test_attention(dtype, s, t):
    q, k, v = normal(2, 3, s, 4), normal(2, 3, t, 4), normal(2, 3, t, 6)
    seen = RNG.random((s, t)) < 0.7
    seen[:, 0] = True
    one = F.scaled_dot_product_attention
    for keywords, mask in (({}, None), ({"is_causal": True}, None), ({"scale": 0.3}, None),
                           ({}, seen), ({}, normal(s, t)), ({}, normal(2, 1, s, t)),
                           ({}, np.broadcast_to(seen, (2, 1, s, t)))):
        theirs = {k.replace("is_", ""): v for k, v in keywords.items()}
        if mask is None:
            both(lambda *a: one(*a, **keywords), lambda *a: attention(*a, **theirs), q, k, v,
                 dtype=dtype)
        else:
            both(lambda *a: one(*a, **keywords), lambda *a: attention(*a, **theirs), q, k, v, mask,
                 dtype=dtype)
    both(one, attention, q[0, 0], k[0, 0], v[0, 0], dtype=dtype)
    with pytest.raises(shoal.InvalidError, match="give attn_mask or is_causal"):
        one(*map(shoal.tensor, (q, k, v)), attn_mask=shoal.tensor(seen), is_causal=True)


# ---- images ----

@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_conv2d(data):
    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))
    kernel, stride, dilation, padding = pair(1, 3), pair(1, 3), pair(1, 2), pair(0, 2)
    groups, extra = data.draw(st.integers(1, 3)), pair(0, 4)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    size = [max(1, r - 2 * p) + e for r, p, e in zip(reach, padding, extra)]
    x = normal(data.draw(st.integers(1, 2)), 2 * groups, *size)
    w, b = normal(3 * groups, 2, *kernel), normal(3 * groups)
    both(lambda *a: F.conv2d(*a, stride, padding, dilation, groups),
         lambda *a: T.conv2d(*a, stride, padding, dilation, groups), x, w, b)


def test_conv2d_otherwise():
    x, w = normal(2, 3, 7, 8), normal(4, 3, 3, 2)
    both(lambda *a: F.conv2d(*a, padding="same"), lambda *a: T.conv2d(*a, padding="same"), x, normal(4, 3, 3, 5))
    both(lambda *a: F.conv2d(*a, padding=1), lambda *a: T.conv2d(*a, padding=1), x, w,
         dtype="float32")
    both(lambda *a: F.conv2d(*a), lambda *a: T.conv2d(*a), x[0], w)
    both(lambda *a: F.conv1d(*a, stride=2, padding=1),
         lambda *a: T.conv1d(*a, stride=2, padding=1), x[0], normal(4, 7, 3))
    both(lambda *a: F.conv1d(*a, stride=(2,), padding=(1,), dilation=(2,)),
         lambda *a: T.conv1d(*a, stride=(2,), padding=(1,), dilation=(2,)), x[0], normal(4, 7, 3))
    with pytest.raises(shoal.InvalidError, match="conv2d: float64.* has 3 channels; the weight"):
        F.conv2d(shoal.tensor(x), shoal.tensor(normal(4, 2, 3, 3)))
    with pytest.raises(shoal.InvalidError, match="window of .9, 2. does not lie on"):
        F.conv2d(shoal.tensor(x), shoal.tensor(normal(4, 3, 9, 2)))


def test_pools():
    x = normal(2, 3, 9, 8)
    for args in ((2,), ((3, 2), (2, 1)), (3, 2, 1)):
        both(lambda a: F.max_pool2d(a, *args), lambda a: T.max_pool2d(a, *args), x)
        both(lambda a: F.avg_pool2d(a, *args), lambda a: T.avg_pool2d(a, *args), x)
    both(lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False),
         lambda a: T.avg_pool2d(a, 3, 2, 1, count_include_pad=False), x)
    both(lambda a: F.max_pool2d(a, 2, dilation=3), lambda a: T.max_pool2d(a, 2, dilation=3), x)
    both(lambda a: F.adaptive_avg_pool2d(a, (3, 1)), lambda a: T.adaptive_avg_pool2d(a, (3, 1)), x)


# ---- losses ----

REDUCTIONS = ["none", "sum", "mean"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses(reduction, dtype):
    def check(name, *arrays, **keywords):
        both(lambda *a: getattr(F, name)(*a, reduction=reduction, **keywords),
             lambda *a: getattr(T, name)(*a, reduction=reduction, **keywords), *arrays, dtype=dtype)
    x, y = normal(4, 5), normal(4, 5)
    sides = np.where(normal(4, 5) > 0, 1.0, -1.0)
    check("mse_loss", x, y)
    check("l1_loss", x, y)
    check("smooth_l1_loss", x, y, beta=0.5)
    check("huber_loss", x, y, delta=0.5)
    p, q = RNG.uniform(0.01, 0.99, (2, 4, 5))
    check("binary_cross_entropy", p, (q > 0.5).astype(float))
    check("binary_cross_entropy_with_logits", 3 * x, q, pos_weight=None)
    both(lambda a, b, w, s: F.binary_cross_entropy_with_logits(a, b, w, reduction=reduction, pos_weight=s),
         lambda a, b, w, s: T.binary_cross_entropy_with_logits(
             a, b, w, reduction=reduction, pos_weight=s), 30 * x, q, p, np.exp(normal(5)),
         dtype=dtype, gradients=False)
    logs = np.log(p / p.sum(1, keepdims=True))
    shares = q / q.sum(1, keepdims=True)
    shares[0, 0] = 0
    both(lambda a, b: F.kl_div(a, b.detach(), reduction=reduction),
         lambda a, b: T.kl_div(a, b.detach(), reduction=reduction), logs, shares, dtype=dtype)
    check("kl_div", logs, np.log(q), log_target=True)
    for name, *arrays in (("hinge_embedding_loss", x), ("soft_margin_loss", x),
                          ("margin_ranking_loss", x, y)):
        both(lambda *a: getattr(F, name)(*a[:-1], a[-1].detach(), reduction=reduction),
             lambda *a: getattr(T, name)(*a[:-1], a[-1].detach(), reduction=reduction), *arrays, sides,
             dtype=dtype)
    check("triplet_margin_loss", x, y, normal(4, 5))
    check("poisson_nll_loss", x, np.abs(y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(6, 5), (3, 5, 4), (5,)])
def test_cross_entropy(reduction, dtype, shape):
    logits = 3 * normal(*shape)
    axis = 0 if len(shape) == 1 else 1
    labels = RNG.integers(0, 5, shape[:axis] + shape[axis + 1:])
    weight = np.exp(normal(5))
    missing = labels.copy()
    if missing.ndim:
        missing.flat[:2] = -100
    for target in (labels, missing):
        for w in (None, weight):
            for smoothing in (0.0, 0.1):
                args = (logits, target) if w is None else (logits, target, w)
                both(lambda x, t, w=None: F.cross_entropy(
                         x, t, None if w is None else w.detach(), reduction=reduction,
                         label_smoothing=smoothing),
                     lambda x, t, w=None: T.cross_entropy(
                         x, t, None if w is None else w.detach(), reduction=reduction,
                         label_smoothing=smoothing), *args, dtype=dtype)
    shares = np.exp(normal(*shape))
    shares /= shares.sum(axis, keepdims=True)
    both(lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1),
         lambda x, t: T.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1), logits, shares,
         dtype=dtype)
    both(lambda x, t, w: F.nll_loss(x.log_softmax(axis), t, w.detach(), ignore_index=3, reduction=reduction),
         lambda x, t, w: T.nll_loss(x.log_softmax(axis), t, w.detach(), ignore_index=3,
                                    reduction=reduction), logits, labels, weight, dtype=dtype)


def test_errors_of_losses():
    x = shoal.zeros(4, 5)
    with pytest.raises(shoal.InvalidError, match="reduction 'average' is none of none, sum, mean"):
        F.mse_loss(x, x, reduction="average")
    with pytest.raises(shoal.InvalidError, match=r"binary_cross_entropy: float32\[4, 5\] and target float32\[4\]"):
        F.binary_cross_entropy(x, x[:, 0])
    with pytest.warns(UserWarning, match=r"mse_loss: float32\[4, 5\] and target float32\[4, 1\] differ in shape"):
        assert F.mse_loss(x, x[:, :1]).item() == 0
    with pytest.raises(shoal.InvalidError, match=r"labels int64\[5\] do not go with the input"):
        F.cross_entropy(x, shoal.arange(5))
    with pytest.raises(shoal.InvalidError, match=r"linear: the last axis of float32\[4, 5\]"):
        F.linear(x, shoal.zeros(3, 4))


# ---- dropout ----

def test_dropout():
    shoal.manual_seed(0)
    x = shoal.ones(200, 100).requires_grad_()
    y = F.dropout(x, 0.3)
    values = y.numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.7)}
    assert abs((values == 0).mean() - 0.3) < 0.01
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), values)
    assert (F.dropout(x, 0.3).numpy() != values).any()
    assert F.dropout(x, 0.3, training=False) is x and F.dropout(x, 1.0).sum().item() == 0
    shoal.manual_seed(0)
    np.testing.assert_array_equal(F.dropout(x, 0.3).numpy(), values)
    with pytest.raises(shoal.InvalidError, match="dropout: p is 1.5"):
        F.dropout(x, 1.5)


def test_the_same_numbers_on_any_number_of_workers():
    def drawn(workers):
        shoal.init(workers=workers, threads=1)
        shoal.manual_seed(3)
        x = shoal.ones(37, 11).place(axis=0)
        made = [(F.dropout(x * 2, 0.4)).numpy(), shoal.randn(41, 3).place(axis=0).numpy(),
                shoal.randperm(50).numpy(), shoal.randint(0, 9, (23,)).place(axis=0).numpy(),
                shoal.bernoulli(x * 0.5).numpy()]
        shoal.disconnect()
        return made
    one = drawn(1)
    for workers in (2, 3):
        for a, b in zip(one, drawn(workers)):
            np.testing.assert_array_equal(a, b)


def test_binomial():
    shoal.manual_seed(5)
    count = shoal.tensor(np.repeat(np.float32([0, 1, 40]), 4000).reshape(3, 4000))
    prob = shoal.tensor(np.float32([[0.3], [0.7], [0.25]]))
    drawn = shoal.binomial(count, prob).numpy()
    assert drawn.dtype == np.float32 and (drawn == drawn.round()).all() and (drawn <= count.numpy()).all()
    assert not drawn[0].any()
    # Five standard deviations of the mean, and of the variance nearly so.
    np.testing.assert_allclose(drawn.mean(1)[1:], [0.7, 10.0], atol=5 * (7.5 / 4000) ** 0.5)
    np.testing.assert_allclose(drawn.var(1)[1:], [0.21, 7.5], rtol=0.12)
    with pytest.raises(shoal.ShoalError, match="binomial: a count is negative"):
        shoal.binomial(shoal.tensor([-1.0]), shoal.tensor([0.5])).tolist()


def test_labels_that_are_no_class():
    logits = shoal.tensor(np.zeros((2, 3), "float32"))
    for call in (logits.cross_entropy, lambda y: shoal.functional.cross_entropy(logits, y)):
        with pytest.raises(shoal.OutOfRangeError, match="index 3 is out of range: it must be from 0 to 2"):
            call(shoal.tensor([0, 3]))
        labels = shoal.tensor([0, 2]) + 1  # nobody knows these here
        with pytest.raises(shoal.OutOfRangeError):
            call(labels).item()


@pytest.mark.parametrize("shape,pad,mode,why", [
    ((5,), (1, 1), "reflect", "has 1 axes"), ((3, 4), (1, 1, 1, 1), "reflect", "has 2 axes"),
    ((2, 3, 4), (4, 0), "reflect", "4 reflected elements of an axis of length 4"),
    ((2, 3, 4), (5, 0), "circular", "5 elements around an axis of length 4")])
def test_padding_that_torch_refuses(shape, pad, mode, why):
    with pytest.raises(RuntimeError if len(shape) == 3 else NotImplementedError):
        torch.nn.functional.pad(torch.zeros(shape), pad, mode)
    with pytest.raises(shoal.ShoalError, match=why):
        shoal.functional.pad(shoal.tensor(np.zeros(shape, "float32")), pad, mode)

"""Losses, as functions. Part of `shoal.functional`.

`reduction` is "none", "sum" or "mean"; torch's old words `size_average` and `reduce` are taken and say the same.
"""
import math

from .amp import wide
from .creation import arange, cat, full, stack, where
from .indexing import in_range, lacks, required
from .words import check_tensor, invalid, is_floating


def _reduced(loss, reduction, what, weight=None):
    """weight: what a mean divides by the sum of; None: the number of losses."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction != "mean":
        raise invalid(f"{what}: reduction '{reduction}' is none of none, sum, mean")
    return loss.mean() if weight is None else loss.sum() / weight.sum()


def _worded(reduction, size_average, reduce):
    """The reduction that torch's old words say, if they are given."""
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def _same_shape(input, target, what):
    if input.shape != target.shape:
        raise invalid(f"{what}: {input._text()} and target {target._text()} differ in shape")


def _fit(input, labels, axis, what):
    if labels.shape != input.shape[:axis] + input.shape[axis + 1:]:
        raise invalid(f"{what}: labels {labels._text()} do not go with the input {input._text()}, whose classes are "
                      f"axis {axis}")


def _both(input, target, what):
    """Both at their common shape; that they differ is rarely meant."""
    if input.shape == target.shape:
        return input, target
    import warnings
    warnings.warn(f"{what}: {input._text()} and target {target._text()} differ in shape and are broadcast, "
                  "which is rarely meant", stacklevel=3)
    return input, target


@wide
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                  reduction="mean", label_smoothing=0.0):
    """-log_softmax of logits (N, C, …) at the target: integers (N, …), or probabilities (N, C, …).

    weight: one per class. ignore_index: the label that counts for nothing. label_smoothing: what
    share of each target is distributed uniformly over the classes.
    """
    reduction = _worded(reduction, size_average, reduce)
    check_tensor(input, "cross_entropy")
    check_tensor(target, "cross_entropy", "the target")
    axis = _class_axis(input, weight, "cross_entropy")
    if not 0 <= label_smoothing <= 1:
        raise invalid(f"cross_entropy: label_smoothing is {label_smoothing}; it must lie between 0 and 1")
    if is_floating(target.dtype):
        _same_shape(input, target, "cross_entropy")
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing, axis)
    _fit(input, target, axis, "cross_entropy")
    if weight is None and not label_smoothing:
        all_count = reduction != "mean" or lacks(target, ignore_index)
        loss = input.cross_entropy(target, axis, ignore_index, "none")
        counted = None if all_count else (target != ignore_index).astype(input.dtype)
        return _reduced(loss, reduction, "cross_entropy", counted)
    logs = input.log_softmax(axis)
    hard = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return hard
    kept = target != ignore_index
    if weight is None:
        spread, counted = -logs.sum(axis), kept.astype(input.dtype)
    else:
        spread = -(logs * _per_class(weight, input.ndim, axis)).sum(axis)
        counted = where(kept, weight.take(where(kept, target, 0), 0), 0)
    soft = _reduced(where(kept, spread, 0), reduction, "cross_entropy", counted)
    share = label_smoothing / input.shape[axis]
    return hard * (1 - label_smoothing) + soft * share


def _class_axis(input, weight, what):
    """The axis of the classes; a weight must have one number for each."""
    if not input.ndim:
        raise invalid(f"{what}: {input._text()} has no axis of classes")
    axis = 0 if input.ndim == 1 else 1
    if weight is not None and tuple(weight.shape) != (input.shape[axis],):
        raise invalid(f"{what}: weight {weight._text()} for {input.shape[axis]} classes, axis {axis} of "
                      f"{input._text()}")
    return axis


def _per_class(weight, rank, axis):
    return weight.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))


def _soft_cross_entropy(input, target, weight, reduction, label_smoothing, axis):
    logs = input.log_softmax(axis)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
    if weight is not None:
        logs = logs * _per_class(weight, input.ndim, axis)
    return _reduced(-(logs * target).sum(axis), reduction, "cross_entropy")


@wide
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
             reduction="mean"):
    """-x at integer targets, x being logarithms of probabilities (N, C, …); as cross_entropy."""
    reduction = _worded(reduction, size_average, reduce)
    check_tensor(input, "nll_loss")
    check_tensor(target, "nll_loss", "the target")
    axis = _class_axis(input, weight, "nll_loss")
    _fit(input, target, axis, "nll_loss")
    kept = target != ignore_index
    at = where(kept, in_range(target, 0, input.shape[axis], ignore_index), 0)
    loss = -input._along(at.unsqueeze(axis), axis).squeeze(axis)
    weights = kept.astype(input.dtype)
    if weight is not None:
        weights = where(kept, weight.take(at, 0), 0)
    return _reduced(where(kept, loss * weights, 0), reduction, "nll_loss", weights)


@wide
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """(x - target)^2"""
    reduction = _worded(reduction, size_average, reduce)
    input, target = _both(input, target, "mse_loss")
    apart = input - target
    return _reduced(apart * apart, reduction, "mse_loss")


@wide
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """|x - target|"""
    reduction = _worded(reduction, size_average, reduce)
    input, target = _both(input, target, "l1_loss")
    return _reduced(abs(input - target), reduction, "l1_loss")


@wide
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """d^2 / (2 beta) where d = |x - target| is below beta, else d - beta / 2."""
    reduction = _worded(reduction, size_average, reduce)
    input, target = _both(input, target, "smooth_l1_loss")
    if not beta >= 0:
        raise invalid(f"smooth_l1_loss: beta is {beta}; it must not be negative")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    d = abs(input - target)
    near = where(d < beta, d, 0)  # infinite ones have no square
    return _reduced(where(d < beta, near * near * (0.5 / beta), d - 0.5 * beta), reduction,
                    "smooth_l1_loss")


@wide
def huber_loss(input, target, reduction="mean", delta=1.0):
    """d^2 / 2 where d = |x - target| is below delta, else delta (d - delta / 2)."""
    if not delta > 0:
        raise invalid(f"huber_loss: delta is {delta}; it must be above 0")
    input, target = _both(input, target, "huber_loss")
    d = abs(input - target)
    near = where(d < delta, d, 0)  # infinite ones have no square
    return _reduced(where(d < delta, near * near * 0.5, (d - 0.5 * delta) * delta), reduction,
                    "huber_loss")


@wide
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(target log x + (1 - target) log(1 - x)); logarithms count as -100 at least, as in torch.

    Inputs outside of 0 to 1 are an error, of what derives from them. The gradient, (x - target) / (x (1 - x)), is
    torch's also where x is 0 or 1: the divisor counts as 1e-12 at least.
    """
    reduction = _worded(reduction, size_average, reduce)
    _same_shape(input, target, "binary_cross_entropy")
    input = required(input, (input >= 0) & (input <= 1),
                     "binary_cross_entropy: all elements of input should be between 0 and 1")
    within, end = input * (1 - input) > 1e-12, input._detach()
    x = where(within, input, 0.5)
    ends = target * end.log().clamp(min=-100) + (1 - target) * (-end).log1p().clamp(min=-100)
    loss = -where(within, target * x.log() + (1 - target) * (-x).log1p(), ends + (input - end) * (target - end) * 1e12)
    return _reduced(loss if weight is None else loss * weight, reduction, "binary_cross_entropy")


@wide
def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None,
                                     reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(x), exact for large |x|."""
    reduction = _worded(reduction, size_average, reduce)
    _same_shape(input, target, "binary_cross_entropy_with_logits")
    tail = (-abs(input)).exp().log1p() + (-input).maximum(0)  # -log sigmoid(x)
    factor = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input + factor * tail
    return _reduced(loss if weight is None else loss * weight, reduction,
                    "binary_cross_entropy_with_logits")


@wide
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target (log target - x), x being logarithms; reduction "batchmean" divides by the first axis."""
    reduction = _worded(reduction, size_average, reduce)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = target.xlogy(target) - target * input
    if reduction == "batchmean":
        return loss.sum() / float(input.shape[0])
    return _reduced(loss, reduction, "kl_div")


@wide
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where the target is 1, max(0, margin - x) where it is -1."""
    reduction = _worded(reduction, size_average, reduce)
    loss = where(target != 1, (margin - input).clamp(min=0), 0) + where(target != -1, input, 0)
    return _reduced(loss, reduction,
                    "hinge_embedding_loss")


@wide
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + e^(-target x))"""
    reduction = _worded(reduction, size_average, reduce)
    return _reduced((-input * target).logaddexp(0), reduction, "soft_margin_loss")


@wide
def margin_ranking_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None,
                        reduction="mean"):
    """max(0, margin - target (x1 - x2))"""
    reduction = _worded(reduction, size_average, reduce)
    return _reduced((margin - target * (input1 - input2)).clamp(min=0), reduction, "margin_ranking_loss")


@wide
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False,
                        size_average=None, reduce=None, reduction="mean"):
    """max(0, margin + |anchor - positive| - |anchor - negative|); swap: with |positive - negative| where that
    is less."""
    from .functional import pairwise_distance
    reduction = _worded(reduction, size_average, reduce)

    def distance(a, b):
        return pairwise_distance(a, b, p, eps)
    return triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=distance,
                                             margin=margin, swap=swap, reduction=reduction)


@wide
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0,
                                      swap=False, reduction="mean"):
    """triplet_margin_loss with a distance of one's own."""
    from .functional import pairwise_distance
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _reduced((near - far + margin).clamp(min=0), reduction, "triplet_margin_loss")


@wide
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    """e^x - target x, x being logarithms; with log_input=False x - target log(x + eps). full: with
    Stirling's terms of the target's factorial."""
    reduction = _worded(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        some = where(target > 1, target, 1)
        rest = some * some.log() - some + 0.5 * (2 * math.pi * some).log()
        loss = loss + where(target > 1, rest, 0)
    return _reduced(loss, reduction, "poisson_nll_loss")


@wide
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log var + (x - target)^2 / var) / 2; full: with log(2 pi) / 2."""
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.shape[:-1] + (1,) != tuple(var.shape):
            raise invalid(f"gaussian_nll_loss: var {var._text()} does not go with {input._text()}")
    var = required(var, var >= 0, "gaussian_nll_loss: a variance is negative")
    var = var + (var.clamp(min=eps) - var)._detach()
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, "gaussian_nll_loss")


@wide
def cosine_embedding_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None,
                          reduction="mean"):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    reduction = _worded(reduction, size_average, reduce)
    if target.ndim > 1 or target.ndim and input1.ndim < 2:
        raise invalid(f"cosine_embedding_loss: target {target._text()} for {input1._text()}: one number per row is "
                      "needed")
    eps = 1e-12
    along = (input1 * input2).sum(-1)
    cosine = along / (((input1 * input1).sum(-1) + eps) * ((input2 * input2).sum(-1) + eps)).sqrt()
    loss = where(target == 1, 1 - cosine, where(target == -1, (cosine - margin).clamp(min=0), 0))
    return _reduced(loss, reduction, "cosine_embedding_loss")


@wide
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None,
                      reduction="mean"):
    """The mean over the other classes of max(0, margin - x[target] + x)^p."""
    reduction = _worded(reduction, size_average, reduce)
    if p not in (1, 2):
        raise invalid(f"multi_margin_loss: p is {p}; 1 and 2 are possible")
    x = input.unsqueeze(0) if input.ndim == 1 else input
    labels = target.reshape(-1)
    if labels.shape[0] != x.shape[0]:
        raise invalid(f"multi_margin_loss: target {target._text()} for {input._text()}: one label per row is needed")
    own = x.take_along(labels.unsqueeze(1), 1)
    each = (margin - own + x).relu()
    each = each if p == 1 else each * each
    if weight is not None:
        each = each * weight.take(labels, 0).unsqueeze(1)
    other = arange(x.shape[1]).unsqueeze(0) != labels.unsqueeze(1)
    loss = where(other, each, 0).sum(1) / float(x.shape[1])
    return _reduced(loss.squeeze(0) if input.ndim == 1 else loss, reduction, "multi_margin_loss")


@wide
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of max(0, 1 - x[label] + x[other]); labels stand before the first -1."""
    reduction = _worded(reduction, size_average, reduce)
    _same_shape(input, target, "multilabel_margin_loss")
    x, labels = (t.unsqueeze(0) if t.ndim == 1 else t for t in (input, target))
    n = x.shape[1]
    counted = (labels < 0).cumsum(1) == 0
    safe = where(counted, labels, 0)
    is_label = (arange(n).reshape(1, 1, n) == safe.unsqueeze(-1)) & counted.unsqueeze(-1)
    other = ~is_label.any(1)
    apart = (1 - x.take_along(safe, 1).unsqueeze(2) + x.unsqueeze(1)).relu()
    loss = where(counted.unsqueeze(2) & other.unsqueeze(1), apart, 0).sum((1, 2)) / float(n)
    return _reduced(loss.squeeze(0) if input.ndim == 1 else loss, reduction, "multilabel_margin_loss")


@wide
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None,
                                reduction="mean"):
    """The mean over classes of binary_cross_entropy_with_logits."""
    reduction = _worded(reduction, size_average, reduce)
    loss = binary_cross_entropy_with_logits(input, target, reduction="none")
    loss = loss if weight is None else loss * weight
    return _reduced(loss.mean(-1), reduction, "multilabel_soft_margin_loss")


@wide
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
             zero_infinity=False):
    """Connectionist temporal classification (Graves et al., 2006): -log of the probability of the targets
    over all alignments.

    log_probs: (T, N, C) or (T, C). targets: (N, S), or all one after another. Lengths: one per row, lists
    or tensors.
    """
    one = log_probs.ndim == 2
    logs = log_probs.unsqueeze(1) if one else log_probs
    t_most, n, _ = logs.shape
    own = [int(v) for v in (input_lengths.reshape(-1).tolist() if hasattr(input_lengths, "tolist")
                            else [input_lengths] if isinstance(input_lengths, int) else input_lengths)]
    its = [int(v) for v in (target_lengths.reshape(-1).tolist() if hasattr(target_lengths, "tolist")
                            else [target_lengths] if isinstance(target_lengths, int) else target_lengths)]
    if not 0 <= blank < log_probs.shape[-1]:
        raise invalid(f"ctc_loss: blank is {blank}; there are {log_probs.shape[-1]} labels")
    if len(own) != n or len(its) != n or not all(0 <= v <= t_most for v in own):
        raise invalid(f"ctc_loss: input_lengths {own} and target_lengths {its} for {n} rows of {t_most} steps")
    s_most = max([1, *its])
    if targets.ndim == 1 and not one:
        rows, at = [], 0
        for length in its:
            rows.append(targets[at:at + length].pad((0,), (s_most - length,), blank))
            at += length
        targets = stack(rows)
    elif targets.ndim == 1:
        targets = targets.unsqueeze(0)
    targets = targets[:, :s_most]
    width = 2 * s_most + 1
    blanks = full((n, s_most, 1), blank, "int64")
    labels = cat([blanks, targets.long().unsqueeze(2)], 2).reshape(n, 2 * s_most)
    labels = cat([labels, full((n, 1), blank, "int64")], 1)
    skips = cat([full((n, 2), False, "bool"), (labels[:, 2:] != labels[:, :-2]) & (labels[:, 2:] != blank)], 1)
    low = -1e30 if logs.dtype != "float16" else -6e4
    step = logs._along(labels.unsqueeze(0).broadcast_to(t_most, n, width), 2)
    first = arange(width).unsqueeze(0) < 2
    alpha = where(first, step[0], low)
    own_lengths = log_probs.session.tensor(own, "int64").unsqueeze(1)

    def joined(*terms):
        top = terms[0]
        for term in terms[1:]:
            top = top.maximum(term)
        top = top._detach()
        total = sum((term - top).exp() for term in terms[1:]) + (terms[0] - top).exp()
        return total.log() + top
    for t in range(1, t_most):
        by_one = alpha.pad((0, 1), (0, -1), low)
        by_two = where(skips, alpha.pad((0, 2), (0, -2), low), low)
        moved = joined(alpha, by_one, by_two) + step[t]
        alpha = where(own_lengths > t, moved.clamp(min=low), alpha)
    ends = log_probs.session.tensor([[2 * length, max(2 * length - 1, 0)] for length in its], "int64")
    last = alpha._along(ends, 1)
    single = log_probs.session.tensor([length == 0 for length in its], "bool")
    loss = -where(single, last[:, 0], joined(last[:, 0], last[:, 1]))
    lost = loss > -low / 2
    loss = where(lost, loss.session.tensor(0.0 if zero_infinity else math.inf, loss.dtype), loss)
    if reduction == "mean":
        sizes = log_probs.session.tensor([max(1, v) for v in its], loss.dtype)
        return (loss / sizes).mean()
    return _reduced(loss.squeeze(0) if one else loss, reduction, "ctc_loss")

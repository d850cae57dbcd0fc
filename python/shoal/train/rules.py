"""The rules of training: rates, AdamW as the graph takes its numbers, the outer step, and who takes how many steps."""
import math

import numpy as np

from .. import _shoal
from ..errors import InvalidError

SCHEDULES = ("constant", "cosine", "linear")
NORM_GUARD = 1e-6  # beside a norm that is divided by, as torch.nn.utils.clip_grad_norm_ has it


def rate(experiment, step):
    """The inner learning rate of a step, counted from 0 over the whole run.

    It rises in a line over `warmup_steps`, and then stays, or falls to `min_lr_ratio` of itself at the end: along half
    a cosine, or a line.
    """
    peak, warmup = experiment.learning_rate, experiment.warmup_steps
    schedule, least = experiment.schedule, experiment.min_lr_ratio
    if schedule not in SCHEDULES:
        raise InvalidError(f"schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    total = experiment.tau * experiment.outer_loop_steps
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    left = (1 + math.cos(math.pi * done)) / 2 if schedule == "cosine" else 1 - done
    return peak * (least + (1 - least) * left)


def rates(experiment, first, span, steps):
    """The rates of `steps` steps of an island that fill `span` steps of the run, from `first` on."""
    return [rate(experiment, first + i * span / steps) for i in range(steps)]


def adam_numbers(experiment, taken, lrs):
    """What `adamw` takes at each step, float32 [steps, 8]: after `taken` steps, with these rates. A ninth number where the weight of
    the variance is below 1."""
    beta1, beta2 = experiment.betas
    rows = [(1 - lr * experiment.weight_decay, beta1, 1 - beta1, beta2, 1 - beta2, 1 / math.sqrt(1 - beta2 ** step),
             experiment.eps, lr / (1 - beta1 ** step), 1 / (1 - beta1 ** step)) for step, lr in enumerate(lrs, taken + 1)]
    numbers = np.array(rows, np.float32).reshape(len(lrs), 9)
    return numbers if experiment.variance_weight < 1 else numbers[:, :8]


def constant(session, value, dtype="float32"):
    """A number that is part of the program."""
    data = np.asarray(value, dtype)
    return _shoal.apply(session, "constant", (), {"value": data.tobytes(), "shape": data.shape, "dtype": dtype}, 1)[0]


def clipped(gradients, most):
    """Records gradients that together have at most this norm; 0: as they are."""
    if not most:
        return gradients
    inside = gradients[0].session
    total = None
    for gradient in gradients:
        square = (gradient * gradient).sum()
        total = square if total is None else total + square
    factor = constant(inside, most) / (total.sqrt() + constant(inside, NORM_GUARD))
    factor = factor.minimum(constant(inside, 1.0))
    return [gradient * factor for gradient in gradients]


def adamw(parameters, gradients, means, squares, numbers, variance_weight=1.0):
    """Records a step: (parameters, means, squares), lists of float32.

    AdamW (Loshchilov and Hutter, 2019) divides by the root of the gradient's mean square v, which is the square of its mean m and its
    variance v - m^2. Batches that are n times as large have 1/n of the variance; so has what n islands average. With a weight w
    of 1/n the step is the one that AdamW takes of such batches, estimated from one island's own:

        p' = keep p - lr m / (sqrt(v - (1 - w) max(v - m^2, 0)) + epsilon)      m and v without their bias towards 0

    A weight of 1 is AdamW. No step is longer than AdamW's longest: the root is at least |m|, or that of v.
    """
    rows = list(zip(parameters, gradients, means, squares))
    if variance_weight == 1:
        made = [_shoal.apply(p.session, "adam", (p, g, m, v, numbers), {}, 3) for p, g, m, v in rows]
    else:
        numbers = [numbers[i] for i in range(9)]
        weights = [constant(numbers[0].session, weight) for weight in (variance_weight, 1 - variance_weight)]
        made = [_weighted(p, g, m, v, numbers, weights) for p, g, m, v in rows]
    return tuple([row[i] for row in made] for i in range(3))


def _weighted(p, g, m, v, numbers, weights):
    keep, beta1, rest1, beta2, rest2, root, epsilon, rate, unbias = numbers
    m, v = m * beta1 + g * rest1, v * beta2 + g * g * rest2
    mean, square = m * unbias, v * (root * root)
    # The same as in `adamw`, without a difference: that would be 0 where the weight is tiny, and NaN where v is infinite.
    square = square * weights[0] + (mean * mean).minimum(square) * weights[1]
    return p * keep - m * rate / (square.sqrt() + epsilon), m, v


def farthest(experiment, islands, most, tau):
    """How far AdamW can move a number in the steps of a round at all, from parameters of at most this size: what is said to have
    moved farther is no gradient. tau: steps of a round, the longest that still counts. Infinite where the betas allow any step.

    By Cauchy and Schwarz |m| / sqrt(v) has a bound, whatever the gradients are, if beta1^2 < beta2: 7.3 for the usual betas. It is
    above 1, and therefore that of any `variance_weight`. An
    island takes the steps of all islands at most; 4 is for rounds of more islands before, and for what compression kept. With overlap, a part alpha
    of the way stays each time.
    """
    (beta1, beta2), decay = experiment.betas, experiment.weight_decay
    if beta1 ** 2 >= beta2 or experiment.learning_rate * decay > 1:
        return math.inf
    ratio, t = beta1 ** 2 / beta2, np.append(np.arange(1.0, 4096), math.inf)
    step = np.max((1 - beta1) / (1 - beta1 ** t) * np.sqrt((1 - beta2 ** t) / (1 - beta2) * (1 - ratio ** t) / (1 - ratio)))
    path = 4.0 * experiment.learning_rate * tau * islands / (1 - experiment.alpha if experiment.overlap else 1)
    return path * (step + decay * (most + path * step)) + 1e-6 * tau * islands * most


class Outer:
    """The outer step, of float32 vectors: v = momentum v + g; theta -= rate (g + momentum v)."""

    def __init__(self, rate, momentum, size):
        self.rate, self.momentum = np.float32(rate), np.float32(momentum)
        self.velocity = np.zeros(size, np.float32)

    def step(self, theta, gradient, part=slice(None)):
        """Changes theta[part] and the velocity there, in place; gradient: of that part."""
        velocity = self.velocity[part]
        velocity *= self.momentum
        velocity += gradient
        theta[part] -= self.rate * (gradient + self.momentum * velocity)


def average(gradients, weights):
    """The mean of vectors, weighted: float32 sums in the order of the list."""
    total, out = float(sum(weights)), None
    for gradient, weight in zip(gradients, weights):
        scaled = gradient * np.float32(weight / total)
        out = scaled if out is None else np.add(out, scaled, out=out)
    return out


def shares(total, speeds):
    """`total` steps divided in proportion to speeds, at least 1 each: whole numbers whose sum is the total.

    None among the speeds counts as the mean of the others. The largest remainders are rounded up, the first
    of equal ones. InvalidError if there are fewer steps than speeds.
    """
    n = len(speeds)
    if total < n:
        raise InvalidError(f"{total} steps for {n} islands; each takes at least one")
    known = [speed for speed in speeds if speed]
    usual = sum(known) / len(known) if known else 1.0
    speeds = [speed or usual for speed in speeds]
    exact = [total * speed / sum(speeds) for speed in speeds]
    counts = [max(1, int(share)) for share in exact]
    while sum(counts) < total:
        counts[max(range(n), key=lambda i: (exact[i] - counts[i], -i))] += 1
    while sum(counts) > total:
        counts[min((i for i in range(n) if counts[i] > 1), key=lambda i: (exact[i] - counts[i], i))] -= 1
    return counts

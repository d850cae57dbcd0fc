"""Averages of a model's weights over the course of training, under the names of torch.optim.swa_utils."""
import copy
import math

from .. import tensor
from ..autograd import no_grad
from ..nn.module import Module
from ..nn.norms import _BatchNorm
from ..words import invalid
from .lr_scheduler import LRScheduler, _groups_of, _per_group


def get_swa_avg_fn():
    """avg_fn(average, value, n): the mean of n + 1 values, the average being that of n."""
    def averaged(average, value, n):
        return average + (value - average) / (n + 1)
    return averaged


def get_ema_avg_fn(decay=0.999):
    """avg_fn(average, value, n): the exponential moving average, decay * average + (1 - decay) * value."""
    if not 0 <= decay <= 1:
        raise invalid(f"get_ema_avg_fn: decay {decay} is not from 0 to 1")

    def averaged(average, value, n):
        return decay * average + (1 - decay) * value
    return averaged


def _multi(function):
    """multi_avg_fn of an avg_fn."""
    @no_grad
    def update(averages, values, n):
        for average, value in zip(averages, values):
            average.copy_(function(average, value, n).to(average.dtype))
    return update


def get_swa_multi_avg_fn():
    """multi_avg_fn(averages, values, n) of `get_swa_avg_fn`, which changes lists of averages in place."""
    return _multi(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay=0.999):
    """multi_avg_fn(averages, values, n) of `get_ema_avg_fn`, which changes lists of averages in place."""
    return _multi(get_ema_avg_fn(decay))


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that `update_parameters` was given.

    avg_fn(average, value, n) gives the next average from that of n models, by default their mean; multi_avg_fn
    changes lists of them in place. use_buffers: buffers are averaged, too; else they are those of the last model.
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise invalid("AveragedModel: avg_fn and multi_avg_fn are given; one is possible")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype="int64"))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """What the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """Takes the parameters of a model into the averages; the first ones are copied."""
        averages, values = list(self.module.parameters()), list(model.parameters())
        buffers = list(self.module.buffers()), list(model.buffers())
        if self.use_buffers:
            averages, values, buffers = averages + buffers[0], values + buffers[1], ((), ())
        n = int(self.n_averaged)
        with no_grad():
            values = [value.detach().to(average.device) for average, value in zip(averages, values)]
            if not n:
                for average, value in zip(averages, values):
                    average.copy_(value)
            else:
                self._average(averages, values, n)
            for mine, its in zip(*buffers):
                mine.copy_(its)
            self.n_averaged += 1

    def _average(self, averages, values, n):
        update = self.multi_avg_fn or _multi(self.avg_fn or get_swa_avg_fn())
        update([a.detach() for a in averages], values, n)


@no_grad
def update_bn(loader, model, device=None):
    """Computes the running statistics of a model's batch norms anew, from one pass over a loader's data.

    Of batches that are tuples or lists the first part is the input.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    kept, training = [m.momentum for m in norms], model.training
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # the mean of all batches
    for batch in loader:
        x = batch[0] if isinstance(batch, (tuple, list)) else batch
        model(x if device is None else x.to(device))
    for m, momentum in zip(norms, kept):
        m.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From each group's learning rate to swa_lr (a number, or one per group) in anneal_epochs steps, by a cosine
    ("cos") or a line ("linear"); then constant."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        if anneal_strategy not in ("cos", "linear"):
            raise invalid(f"SWALR: anneal_strategy {anneal_strategy!r}; it is 'cos' or 'linear'")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise invalid(f"SWALR: anneal_epochs must be a number of steps, 0 or more, not {anneal_epochs!r}")
        for group, rate in zip(_groups_of(optimizer, "SWALR"), _per_group(swa_lr, optimizer, "SWALR", "swa_lr")):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self):
        """The groups' next learning rates, from those that they have now."""
        step = self.last_epoch if self.anneal_epochs else max(1, self.last_epoch)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, to = group["lr"], group["swa_lr"]
            start = to if before == 1 else (lr - before * to) / (1 - before)
            rates.append(to * now + start * (1 - now))
        return rates

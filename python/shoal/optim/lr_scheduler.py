"""Schedules of the learning rate: `step()` after each epoch, or after each step of the optimizer."""
import math
from bisect import bisect_right
from collections import Counter

from ..recording import fresh
from ..words import check_integer, check_number, invalid


def _groups_of(optimizer, what):
    """The groups of an optimizer; TypeError when it is none."""
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(f"{what}: a {type(optimizer).__name__} is no optimizer")
    return optimizer.param_groups


def _per_group(value, optimizer, what, name):
    """A setting that is given once, or as a list with one per group, as such a list."""
    groups = len(_groups_of(optimizer, what))
    found = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(found) != groups:
        raise invalid(f"{what}: {len(found)} values of {name} for {groups} groups of parameters")
    return found


def _check_at_least_1(what, **counts):
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise invalid(f"{what}: {name} is {count!r}; it must be an integer, 1 at least")


def _check_share(what, **shares):
    for name, share in shares.items():
        check_number(share, what, name)
        if not 0 <= share <= 1:
            raise invalid(f"{what}: {name} is {share}; it must lie between 0 and 1")


class LRScheduler:
    """Sets each group's "lr" by its "initial_lr" and the number of steps taken, `last_epoch`."""

    chains = False  # whether it scales a learning rate that something else has set: as torch's of its name

    def __init__(self, optimizer, last_epoch=-1, verbose=False):
        _groups_of(optimizer, type(self).__name__)
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise invalid(f"{type(self).__name__}: to go on at {last_epoch} the groups must "
                              "have 'initial_lr'; load the optimizer's state first")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def get_lr(self):
        """The groups' learning rates at `last_epoch`."""
        return [self._next(i, base) for i, base in enumerate(self.base_lrs)]

    def rate(self, base, group, epoch):
        """The learning rate of a group (its number) after `epoch` steps, from its initial one, `base`: what a schedule
        of one's own gives, unless it has `get_lr`."""
        raise NotImplementedError(f"{type(self).__name__} has neither rate nor get_lr")

    def _next(self, i, base):
        rate, now = self.rate(base, i, self.last_epoch), self.optimizer.param_groups[i]["lr"]
        before = self._before(i, base) if self.chains else now
        least = getattr(self, "eta_min", 0.0)
        return rate if before in (now, least) else least + (now - least) * (rate - least) / (before - least)

    def _before(self, i, base):
        """A group's learning rate one step before, if nothing but this schedule changes it."""
        return self.rate(base, i, self.last_epoch - 1) if self.last_epoch else base

    def get_last_lr(self):
        """The groups' learning rates as this schedule set them last."""
        return list(self._last_lr)

    def step(self, epoch=None):
        """One more step; or to the state after `epoch` steps."""
        if epoch is not None:
            self._restart(epoch)
        fresh(self._advance)

    def _restart(self, epoch):
        """The next step leads to the state after `epoch` steps, whatever the learning rates are now."""
        self.last_epoch = epoch
        for i, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs)):
            group["lr"] = self._before(i, base) if self.chains else group["lr"]
        self.last_epoch = epoch - 1

    def _advance(self):
        self.last_epoch += 1
        self._last_lr = self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, self._last_lr):
            group["lr"] = lr
        return ()

    def state_dict(self):
        """For `shoal.save`: the settings, but for functions, and how many steps were taken."""
        return _state_of(self)

    def load_state_dict(self, state):
        """Goes on from what `state_dict` gave. The learning rates themselves are the optimizer's state."""
        _take_state(self, state)


_LRScheduler = LRScheduler  # its name in torch before 2.0, which schedules of one's own are still derived from


def _plain(value):
    return value is None or isinstance(value, (bool, int, float, str)) or \
        isinstance(value, (list, tuple)) and all(map(_plain, value))


def _state_of(schedule):
    return {name: list(value) if isinstance(value, list) else value
            for name, value in vars(schedule).items() if _plain(value)}


def _take_state(schedule, state):
    if not isinstance(state, dict):
        raise TypeError(f"load_state_dict of {type(schedule).__name__}: a {type(state).__name__}; it must be a dict")
    for name, value in state.items():
        if not hasattr(schedule, name):  # torch's schedules have more
            continue
        if name == "milestones" and isinstance(value, dict):  # as in torch: how often each occurs
            value = sorted(Counter(value).elements())
        setattr(schedule, name, list(value) if isinstance(value, list) else value)


class StepLR(LRScheduler):
    """Multiplies the learning rate by gamma every step_size steps."""

    chains = True

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1, verbose=False):
        if isinstance(step_size, float) and step_size.is_integer():  # 1.0, as torch's tutorial of transformers has it
            step_size = int(step_size)
        check_integer(step_size, "StepLR", "step_size")
        _check_at_least_1("StepLR", step_size=step_size)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        return base * self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplies the learning rate by gamma at each milestone, a number of steps."""

    chains = True

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1, verbose=False):
        if not hasattr(milestones, "__iter__"):
            raise TypeError(f"MultiStepLR: milestones is {milestones!r}; it must be a list of integers")
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        return base * self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(LRScheduler):
    """Multiplies the learning rate by gamma at each step."""

    chains = True

    def __init__(self, optimizer, gamma, last_epoch=-1, verbose=False):
        check_number(gamma, "ExponentialLR", "gamma")
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        return base * self.gamma ** epoch


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to eta_min in T_max steps (Loshchilov and Hutter, 2017)."""

    chains = True

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1, verbose=False):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(
            math.pi * epoch / self.T_max)) / 2


class ConstantLR(LRScheduler):
    """The initial learning rate times a factor for total_iters steps, then the initial one."""

    chains = True

    def __init__(self, optimizer, factor=1 / 3, total_iters=5, last_epoch=-1, verbose=False):
        _check_share("ConstantLR", factor=factor)
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        return base * (self.factor if epoch < self.total_iters else 1)


class PolynomialLR(LRScheduler):
    """The initial learning rate times (1 - steps / total_iters)^power: 0 after total_iters steps."""

    chains = True

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1, verbose=False):
        check_number(total_iters, "PolynomialLR", "total_iters")
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        return base * (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to eta_min in T_0 steps, again and again, each T_mult times longer
    (Loshchilov and Hutter, 2017)."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1, verbose=False):
        _check_at_least_1("CosineAnnealingWarmRestarts", T_0=T_0, T_mult=T_mult)
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def step(self, epoch=None):
        """One more step; or to the state after `epoch` steps."""
        if epoch is not None and epoch < 0:
            raise invalid(f"CosineAnnealingWarmRestarts: step {epoch}; it must not be negative")
        super().step(epoch)

    def rate(self, base, group, epoch):
        length = self.T_0
        while epoch >= length:
            epoch -= length
            length *= self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / length)) / 2


class MultiplicativeLR(LRScheduler):
    """Multiplies the learning rate at each step by what a function makes of the number of steps; one function, or one per
    group."""

    chains = True

    def __init__(self, optimizer, lr_lambda, last_epoch=-1, verbose=False):
        self.lr_lambdas = _per_group(lr_lambda, optimizer, "MultiplicativeLR", "lr_lambda")
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        for n in range(1, epoch + 1):
            base *= self.lr_lambdas[group](n)
        return base


class CyclicLR(LRScheduler):
    """Up from base_lr to max_lr in step_size_up steps and down again in step_size_down, over and over (Smith, 2017).

    mode: "triangular", "triangular2" (half as high each time), "exp_range" (times gamma per step).
    """

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None,
                 mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle", cycle_momentum=True,
                 base_momentum=0.8, max_momentum=0.9, last_epoch=-1, verbose=False):
        self.lows = _per_group(base_lr, optimizer, "CyclicLR", "base_lr")
        self.highs = _per_group(max_lr, optimizer, "CyclicLR", "max_lr")
        self.up, self.down = float(step_size_up), float(step_size_down or step_size_up)
        self.scale_fn, self.scale_mode = scale_fn, scale_mode
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise invalid(f"CyclicLR: mode '{mode}' is none of triangular, triangular2, exp_range; or give scale_fn")
        if scale_fn is None:
            self.scale_fn, self.scale_mode = {
                "triangular": (lambda x: 1.0, "cycle"), "triangular2": (lambda x: 1 / 2 ** (x - 1), "cycle"),
                "exp_range": (lambda x: gamma ** x, "iterations")}[mode]
        self.momenta = (base_momentum, max_momentum) if cycle_momentum else None
        if cycle_momentum and "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise invalid("CyclicLR: the optimizer has no momentum to cycle; pass cycle_momentum=False")
        for group, low in zip(optimizer.param_groups, self.lows):
            group["lr"] = low
            group["initial_lr"] = low
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch):
        total = self.up + self.down
        cycle = math.floor(1 + epoch / total)
        x = 1 + epoch / total - cycle
        ratio = self.up / total
        height = x / ratio if x <= ratio else (x - 1) / (ratio - 1)
        return height * self.scale_fn(cycle if self.scale_mode == "cycle" else epoch)

    def rate(self, base, group, epoch):
        return self.lows[group] + (self.highs[group] - self.lows[group]) * self._height(epoch)

    def _advance(self):
        super()._advance()
        if self.momenta is not None:
            low, high = self.momenta
            momentum = high - (high - low) * self._height(self.last_epoch)
            for group in self.optimizer.param_groups:
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return ()


class ReduceLROnPlateau:
    """Multiplies the learning rate by a factor when a measure has not become better for `patience` steps: call
    `step(measure)`. min_lr: the least rate; cooldown: steps after a change that do not count."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel",
                 cooldown=0, min_lr=0.0, eps=1e-8, verbose=False):
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise invalid(f"ReduceLROnPlateau: mode '{mode}' with threshold_mode '{threshold_mode}'")
        if factor >= 1:
            raise invalid(f"ReduceLROnPlateau: the factor {factor} is not below 1")
        self.min_lrs = _per_group(min_lr, optimizer, "ReduceLROnPlateau", "min_lr")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def is_better(self, a, best):
        """Whether a measure is better than the best by the threshold."""
        share = self.threshold if self.mode == "max" else -self.threshold
        bound = best * (1 + share) if self.threshold_mode == "rel" else best + share
        return a > bound if self.mode == "max" else a < bound

    def step(self, metrics, epoch=None):
        """One more step, with the measure after it: a number, or a tensor, which is read."""
        now = float(metrics)
        self.last_epoch += 1
        if self.is_better(now, self.best):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                new = max(group["lr"] * self.factor, least)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self):
        """The groups' learning rates now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        """For `shoal.save`: the settings, and how the measure went."""
        return _state_of(self)

    def load_state_dict(self, state_dict):
        """Goes on from what `state_dict` gave."""
        _take_state(self, state_dict)


def _check_optimizers(schedules, optimizer, what):
    for i, schedule in enumerate(schedules):
        if schedule.optimizer is not optimizer:
            raise invalid(f"{what}: schedule {i} is of another optimizer")


class ChainedScheduler:
    """Several schedules, each on what the one before gives."""

    def __init__(self, schedulers, optimizer=None):
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise invalid("ChainedScheduler: there are no schedules")
        self.optimizer = self._schedulers[0].optimizer
        _check_optimizers(self._schedulers, self.optimizer, "ChainedScheduler")

    def step(self):
        """One more step of all."""
        for s in self._schedulers:
            s.step()

    def get_last_lr(self):
        """The groups' learning rates now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        """For `shoal.save`."""
        return {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict):
        """Goes on from what `state_dict` gave."""
        for scheduler, own in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(own)


class LinearLR(LRScheduler):
    """The initial learning rate times a factor that goes from start_factor to end_factor in total_iters steps: a
    warm-up."""

    chains = True

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5,
                 last_epoch=-1, verbose=False):
        _check_share("LinearLR", start_factor=start_factor, end_factor=end_factor)
        if not start_factor:
            raise invalid("LinearLR: start_factor is 0, from which no factor leads on; it must be above 0")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        share = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class LambdaLR(LRScheduler):
    """The initial learning rate times what a function makes of the number of steps; one function, or one per group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1, verbose=False):
        self.lr_lambdas = _per_group(lr_lambda, optimizer, "LambdaLR", "lr_lambda")
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        return base * self.lr_lambdas[group](epoch)


class WarmupCosineLR(LRScheduler):
    """A linear warm-up over warmup_steps, then half a cosine down to eta_min at total_steps."""

    def __init__(self, optimizer, warmup_steps, total_steps, eta_min=0.0, last_epoch=-1, verbose=False):
        if not 0 <= warmup_steps < total_steps:
            raise invalid(f"WarmupCosineLR: a warm-up of {warmup_steps} of {total_steps} steps")
        self.warmup_steps, self.total_steps, self.eta_min = warmup_steps, total_steps, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base, group, epoch):
        if epoch < self.warmup_steps:
            return base * (epoch + 1) / self.warmup_steps
        share = min(1.0, (epoch - self.warmup_steps) / (self.total_steps - self.warmup_steps))
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * share)) / 2


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to that over final_div_factor (Smith, 2018).

    The steps are total_steps, or epochs times steps_per_epoch; pct_start: what share of them goes up. three_phase:
    down to where it began first, as slowly as up. Momentum, or the first beta, goes the other way.
    """

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95,
                 div_factor=25.0, final_div_factor=1e4, three_phase=False, last_epoch=-1, verbose=False):
        if anneal_strategy not in ("cos", "linear"):
            raise invalid(f"OneCycleLR: anneal_strategy '{anneal_strategy}' is neither cos nor "
                          "linear")
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise invalid("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        _check_at_least_1("OneCycleLR", **({"epochs": epochs, "steps_per_epoch": steps_per_epoch} if total_steps is None
                                           else {"total_steps": total_steps}))
        _check_share("OneCycleLR", pct_start=pct_start)
        self.max_lrs = _per_group(max_lr, optimizer, "OneCycleLR", "max_lr")
        self.total_steps = epochs * steps_per_epoch if total_steps is None else total_steps
        self.strategy, self.three_phase = anneal_strategy, three_phase
        up = float(pct_start * self.total_steps)
        self.ends = [up - 1, 2 * up - 2, self.total_steps - 1] if three_phase else [up - 1, self.total_steps - 1]
        self.momenta = (max_momentum, base_momentum) if cycle_momentum else None
        self.final = final_div_factor
        for group, most in zip(optimizer.param_groups, self.max_lrs):
            group["initial_lr"] = most / div_factor
        super().__init__(optimizer, last_epoch)

    def _between(self, start, end, share):
        if self.strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def _at(self, epoch, low, high, last):
        values = [low, high, low, last] if self.three_phase else [low, high, last]
        phase = next((i for i, end in enumerate(self.ends) if epoch <= end), len(self.ends) - 1)
        start = self.ends[phase - 1] if phase else 0
        length = self.ends[phase] - start
        return self._between(values[phase], values[phase + 1], (epoch - start) / length if length else 1)

    def rate(self, base, group, epoch):
        if epoch > self.total_steps:  # torch takes one step more than there are
            raise invalid(f"OneCycleLR: step {epoch} of a schedule that has {self.total_steps}; give it more total_steps")
        return self._at(epoch, base, self.max_lrs[group], base / self.final)

    def _advance(self):
        super()._advance()
        if self.momenta is None:
            return ()
        momentum = self._at(self.last_epoch, *self.momenta, self.momenta[0])
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            elif "momentum" in group:
                group["momentum"] = momentum
        return ()


class SequentialLR:
    """Schedules one after another; each begins at a milestone."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1, verbose=False):
        self.optimizer, self.schedulers = optimizer, list(schedulers)
        self.milestones, self.last_epoch = list(milestones), 0
        if len(self.schedulers) != len(self.milestones) + 1:
            raise invalid(f"SequentialLR: {len(self.schedulers)} schedules and {len(self.milestones)} milestones, where "
                          "one ends and the next begins: one milestone less than schedules is needed")
        _check_optimizers(self.schedulers, optimizer, "SequentialLR")
        for scheduler in self.schedulers:
            scheduler.last_epoch -= 1
        self.schedulers[0].step(self.schedulers[0].last_epoch + 1)

    def step(self):
        """One more step."""
        fresh(self._advance)

    def _advance(self):
        self.last_epoch += 1
        at = bisect_right(self.milestones, self.last_epoch)
        scheduler = self.schedulers[at]
        if at and self.milestones[at - 1] == self.last_epoch:
            scheduler._restart(0)
        return scheduler._advance()

    def get_last_lr(self):
        """The groups' learning rates now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        """For `shoal.save`."""
        return {**_state_of(self), "_schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state):
        """Goes on from what `state_dict` gave."""
        self.last_epoch = state["last_epoch"]
        for scheduler, own in zip(self.schedulers, state["_schedulers"]):
            scheduler.load_state_dict(own)

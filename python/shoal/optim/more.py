"""More optimizers: Adagrad, Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop, Lion, Adafactor, LBFGS."""
import math

from .. import _shoal
from ..autograd import enable_grad, no_grad
from ..nn.module import replace
from ..words import check_number, invalid
from .optimizer import Optimizer, _check, _check_betas


def _zeros(p):
    return p.session.full(p.shape, 0, p.dtype)


class _Counted(Optimizer):
    """An optimizer that counts the steps of each parameter; `_factors` gives the numbers of one."""

    _states = ()

    def _begin(self, p, group):
        return {name: _zeros(p) for name in self._states}

    def _count(self, params):
        for p, group in params:
            state = self.state[p]
            if not state:
                state.update(step=0, **self._begin(p, group))
            state["step"] = int(state["step"]) + 1
        return ()

    def _moments(self, p, grad, state, group, numbers, shares, decay):
        """Parameter and gradient after weight decay, and Adam's means of the gradient and of its square."""
        if group["decoupled_weight_decay"]:
            p = p * decay
        else:
            grad = self._decayed(p, grad, group, numbers)
        one, rest1, two, rest2 = shares
        mean = state["exp_avg"] * one + grad * rest1
        square = state["exp_avg_sq"] * two + grad * grad * rest2
        self._keep(state, "exp_avg", mean)
        self._keep(state, "exp_avg_sq", square)
        return p, grad, mean, square

    def _numbers(self, p, group, state, numbers):
        made = numbers.like(p, group, state["step"], lambda: self._factors(group, state))
        return made.astype(p.dtype).unbind()

    def _decayed(self, p, grad, group, numbers):
        return grad + p * numbers.settings(p, group)("weight_decay") if group["weight_decay"] else grad


class Adagrad(_Counted):
    """Steps along the gradient over the root of the sum of its squares (Duchi et al., 2011)."""

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0,
                 eps=1e-10, foreach=None, *, maximize=False, **switches):
        _check("Adagrad", lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps,
               initial_accumulator_value=initial_accumulator_value)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps, "maximize": maximize,
            "initial_accumulator_value": initial_accumulator_value}, switches)

    def _begin(self, p, group):
        return {"sum": p.session.full(p.shape, group["initial_accumulator_value"], p.dtype)}

    def _factors(self, group, state):
        return group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"]), group["eps"]

    def _stepped(self, p, grad, state, group, numbers):
        rate, eps = self._numbers(p, group, state, numbers)
        grad = self._decayed(p, grad, group, numbers)
        total = state["sum"] + grad * grad
        self._keep(state, "sum", total)
        return p - grad / (total.sqrt() + eps) * rate


class Adadelta(_Counted):
    """Steps as large as the last ones were, over the size of gradients (Zeiler, 2012)."""

    _states = ("square_avg", "acc_delta")

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, foreach=None, *, maximize=False,
                 **switches):
        _check("Adadelta", lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        if rho > 1:
            raise invalid(f"Adadelta: rho is {rho}; it lies between 0 and 1")
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize}, switches)

    def _factors(self, group, state):
        return group["lr"], group["rho"], 1 - group["rho"], group["eps"]

    def _stepped(self, p, grad, state, group, numbers):
        rate, rho, rest, eps = self._numbers(p, group, state, numbers)
        grad = self._decayed(p, grad, group, numbers)
        square = state["square_avg"] * rho + grad * grad * rest
        move = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
        self._keep(state, "acc_delta", state["acc_delta"] * rho + move * move * rest)
        self._keep(state, "square_avg", square)
        return p - move * rate


class Adamax(_Counted):
    """Adam with the largest absolute gradient, which decays, in the place of the mean square (Kingma and Ba, 2015)."""

    _states = ("exp_avg", "exp_inf")

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, foreach=None, *,
                 maximize=False, **switches):
        _check("Adamax", lr=lr, eps=eps, weight_decay=weight_decay)
        _check_betas("Adamax", betas)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize}, switches)

    def _factors(self, group, state):
        one, two = group["betas"]
        return group["lr"] / (1 - one ** state["step"]), one, 1 - one, two, group["eps"]

    def _stepped(self, p, grad, state, group, numbers):
        rate, one, rest, two, eps = self._numbers(p, group, state, numbers)
        grad = self._decayed(p, grad, group, numbers)
        mean = state["exp_avg"] * one + grad * rest
        most = (state["exp_inf"] * two).maximum(abs(grad) + eps)
        self._keep(state, "exp_avg", mean)
        self._keep(state, "exp_inf", most)
        return p - mean / most * rate


class NAdam(_Counted):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    _states = ("exp_avg", "exp_avg_sq")

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, maximize=False, **switches):
        _check("NAdam", lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        _check_betas("NAdam", betas)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize}, switches)

    def _count(self, params):
        super()._count(params)
        for p, group in params:
            state, one = self.state[p], group["betas"][0]
            now, following = (one * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
                              for t in (state["step"], state["step"] + 1))
            product = float(state.get("mu_product", 1.0)) * now
            state["mu_product"], state["mus"] = product, (now, following)
        return ()

    def _factors(self, group, state):
        (one, two), (now, following) = group["betas"], state["mus"]
        product, lr = state["mu_product"], group["lr"]
        return (one, 1 - one, two, 1 - two, 1 / (1 - two ** state["step"]), group["eps"],
                lr * (1 - now) / (1 - product), lr * following / (1 - product * following),
                1 - lr * group["weight_decay"])

    def _stepped(self, p, grad, state, group, numbers):
        *shares, wide, eps, of_grad, of_mean, decay = self._numbers(p, group, state, numbers)
        p, grad, mean, square = self._moments(p, grad, state, group, numbers, shares, decay)
        root = (square * wide).sqrt() + eps
        return p - grad / root * of_grad - mean / root * of_mean


class RAdam(_Counted):
    """Adam whose first steps, while the variance is not known, are plain ones (Liu et al., 2020)."""

    _states = ("exp_avg", "exp_avg_sq")

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                 decoupled_weight_decay=False, *, maximize=False, **switches):
        _check("RAdam", lr=lr, eps=eps, weight_decay=weight_decay)
        _check_betas("RAdam", betas)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize}, switches)

    def _factors(self, group, state):
        (one, two), t = group["betas"], state["step"]
        most = 2 / (1 - two) - 1
        length = most - 2 * t * two ** t / (1 - two ** t)
        plain, rate = 1.0, group["lr"] / (1 - one ** t)
        if length > 5:
            plain = 0.0
            rate *= math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
                              * (1 - two ** t))
        return (one, 1 - one, two, 1 - two, group["eps"], rate, plain, 1 - plain,
                1 - group["lr"] * group["weight_decay"])

    def _stepped(self, p, grad, state, group, numbers):
        *shares, eps, rate, plain, adapted, decay = self._numbers(p, group, state, numbers)
        p, grad, mean, square = self._moments(p, grad, state, group, numbers, shares, decay)
        root = square.sqrt() + eps
        return p - mean * rate * (adapted / root + plain)


class ASGD(_Counted):
    """SGD that averages the parameters, "ax" of their state (Polyak and Juditsky, 1992)."""

    _states = ("ax",)

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0, foreach=None, *,
                 maximize=False, **switches):
        _check("ASGD", lr=lr, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0,
                                  "weight_decay": weight_decay, "maximize": maximize}, switches)

    def _factors(self, group, state):
        t, lr = state["step"], group["lr"]
        eta = lr if t == 1 else lr / (1 + group["lambd"] * lr * (t - 1)) ** group["alpha"]
        return eta, 1 - group["lambd"] * eta, 1 / max(1, t - 1 - group["t0"])

    def _stepped(self, p, grad, state, group, numbers):
        eta, shrink, share = self._numbers(p, group, state, numbers)
        grad = self._decayed(p, grad, group, numbers)
        new = p * shrink - grad * eta
        self._keep(state, "ax", state["ax"] + (new - state["ax"]) * share)
        return new


class Rprop(_Counted):
    """Steps of the gradient's sign, longer while it stays and shorter when it turns (Riedmiller, 1993)."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), foreach=None, *,
                 maximize=False, **switches):
        _check("Rprop", lr=lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise invalid(f"Rprop: etas are {tuple(etas)}; the first lies between 0 and 1, the second above 1")
        super().__init__(params, {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes),
                                  "maximize": maximize}, switches)

    def _begin(self, p, group):
        return {"prev": _zeros(p), "step_size": p.session.full(p.shape, group["lr"], p.dtype)}

    def _factors(self, group, state):
        return (*group["etas"], *group["step_sizes"])

    def _stepped(self, p, grad, state, group, numbers):
        less, more, least, most = self._numbers(p, group, state, numbers)
        turn = grad * state["prev"]
        factor = _shoal.select(turn > 0, more, _shoal.select(turn < 0, less, turn * 0 + 1))
        size = (state["step_size"] * factor).clamp(least, most)
        grad = _shoal.select(turn < 0, grad * 0, grad)
        self._keep(state, "step_size", size)
        self._keep(state, "prev", grad)
        return p - grad.sign() * size


class Lion(_Counted):
    """Steps of the sign of a moving average of gradients (Chen et al., 2023)."""

    _states = ("exp_avg",)

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, maximize=False, **switches):
        _check("Lion", lr=lr, weight_decay=weight_decay)
        _check_betas("Lion", betas)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "weight_decay": weight_decay,
                                  "maximize": maximize}, switches)

    def _factors(self, group, state):
        one, two = group["betas"]
        return group["lr"], one, 1 - one, two, 1 - two, 1 - group["lr"] * group["weight_decay"]

    def _stepped(self, p, grad, state, group, numbers):
        rate, one, rest1, two, rest2, decay = self._numbers(p, group, state, numbers)
        mean = state["exp_avg"]
        move = (mean * one + grad * rest1).sign()
        self._keep(state, "exp_avg", mean * two + grad * rest2)
        return p * decay - move * rate


class Adafactor(_Counted):
    """Adam whose averages of squared gradients are kept, of matrices, as those of rows and of columns (Shazeer and Stern,
    2018)."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
                 foreach=None, maximize=False):
        least, clip = eps
        _check("Adafactor", lr=lr, weight_decay=weight_decay, **{"eps[0]": least or 0, "eps[1]": clip})
        check_number(beta2_decay, "Adafactor", "beta2_decay")
        check_number(d, "Adafactor", "d")
        if beta2_decay > 0 or d < 1:
            raise invalid(f"Adafactor: beta2_decay is {beta2_decay}, d {d}; the first is 0 at most, the second 1 at least")
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": tuple(eps), "d": d,
                                  "weight_decay": weight_decay, "maximize": maximize})

    def _begin(self, p, group):
        if p.ndim < 2:
            return {"variance": _zeros(p)}
        return {"row_var": p.session.full((*p.shape[:-1], 1), 0, p.dtype),
                "col_var": p.session.full((*p.shape[:-2], 1, p.shape[-1]), 0, p.dtype)}

    def _factors(self, group, state):
        t = state["step"]
        share = t ** group["beta2_decay"]
        return (1 - share, share, min(group["lr"], 1 / math.sqrt(t)),
                1 - group["lr"] * group["weight_decay"], group["eps"][1], group["d"])

    def _stepped(self, p, grad, state, group, numbers):
        from ..dtypes import finfo
        kept, share, rate, decay, least, most = self._numbers(p, group, state, numbers)
        tiny = group["eps"][0] or finfo(p.dtype).eps
        rate = rate * (p.norm() / math.sqrt(p.numel())).maximum(least)
        if p.ndim < 2:
            variance = state["variance"] * kept + grad * grad * share
            self._keep(state, "variance", variance)
            update = grad * variance.clamp(min=tiny * tiny).rsqrt()
        else:
            rows = state["row_var"] * kept + (grad * grad).mean(-1, True) * share
            columns = state["col_var"] * kept + (grad * grad).mean(-2, True) * share
            self._keep(state, "row_var", rows)
            self._keep(state, "col_var", columns)
            variance = rows @ columns / rows.mean(-2, True).clamp(min=tiny)
            update = grad * variance.clamp(min=tiny * tiny).rsqrt()
        size = update.norm() / (most * math.sqrt(update.numel()))
        return p * decay - update * (rate / size.clamp(min=1.0))


class LBFGS(Optimizer):
    """Limited-memory BFGS (Nocedal, 1980): `step` takes a closure that computes loss and gradients anew.

    Reads the loss and some products in each iteration. line_search_fn: None or "strong_wolfe".
    """

    def __init__(self, params, lr=1.0, max_iter=20, max_eval=None, tolerance_grad=1e-7,
                 tolerance_change=1e-9, history_size=100, line_search_fn=None):
        _check("LBFGS", lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise invalid(f"LBFGS: line_search_fn '{line_search_fn}' is neither None nor strong_wolfe")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_eval or max_iter * 5 // 4,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) > 1:
            raise invalid("LBFGS: takes one group of parameters")

    def _flat(self, of):
        from ..creation import cat
        return cat([of(p).reshape(-1) for p in self.param_groups[0]["params"]])

    def _gradient(self):
        return self._flat(lambda p: _zeros(p) if p.grad is None else p.grad._detach())

    def _place(self, x):
        at = 0
        for p in self.param_groups[0]["params"]:
            replace(p, x[at:at + p.numel()].reshape(p.shape)._detach())
            at += p.numel()

    def step(self, closure):
        """Up to max_iter iterations; the loss at the beginning."""
        group = self.param_groups[0]
        state = self.state[group["params"][0]]
        evaluations = 0

        def at(x):
            nonlocal evaluations
            evaluations += 1
            self._place(x)
            with enable_grad():
                loss = closure()
            return float(loss), self._gradient()
        with enable_grad():
            first = closure()
        evaluations += 1
        with no_grad():
            loss, grad = float(first), self._gradient()
            if float(abs(grad).max()) <= group["tolerance_grad"]:
                return first
            x = self._flat(lambda p: p._detach())
            pairs, scale = state.get("pairs", []), state.get("scale", 1.0)
            direction, t, last = state.get("d"), state.get("t"), state.get("prev")
            done = 0
            while done < group["max_iter"]:
                done += 1
                state["n_iter"] = state.get("n_iter", 0) + 1
                if state["n_iter"] == 1:
                    direction, pairs, scale = -grad, [], 1.0
                else:
                    y, s = grad - last, direction * t
                    curved = float(y @ s)
                    if curved > 1e-10:
                        pairs = [*pairs, (y, s, 1 / curved)][-group["history_size"]:]
                        scale = curved / float(y @ y)
                    direction = self._direction(grad, pairs, scale)
                last = grad
                before = loss
                t = min(1.0, 1.0 / float(abs(grad).sum())) * group["lr"] if state["n_iter"] == 1 else group["lr"]
                slope = float(grad @ direction)
                if slope > -group["tolerance_change"]:
                    break
                if group["line_search_fn"] == "strong_wolfe":
                    loss, grad, t = _wolfe(lambda a: at(x + direction * a), t, direction, loss, grad, slope,
                                           group["tolerance_change"])
                    x = x + direction * t
                    self._place(x)
                else:
                    x = x + direction * t
                    if done != group["max_iter"]:
                        loss, grad = at(x)
                    else:
                        self._place(x)
                if evaluations >= group["max_eval"] or \
                        float(abs(grad).max()) <= group["tolerance_grad"] or \
                        float(abs(direction * t).max()) <= group["tolerance_change"] or \
                        abs(loss - before) < group["tolerance_change"]:
                    break
            state.update(pairs=pairs, scale=scale, d=direction, t=t, prev=last)
        return first

    @staticmethod
    def _direction(grad, pairs, scale):
        q, shares = -grad, []
        for y, s, r in reversed(pairs):
            share = float(s @ q) * r
            shares.append(share)
            q = q - y * share
        q = q * scale
        for (y, s, r), share in zip(pairs, reversed(shares)):
            q = q + s * (share - float(y @ q) * r)
        return q


def _between(x1, f1, g1, x2, f2, g2, low=None, high=None):
    """Where the cubic through two points with slopes has its least."""
    low, high = (min(x1, x2), max(x1, x2)) if low is None else (low, high)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


def _wolfe(at, t, direction, f, g, slope, least, c1=1e-4, c2=0.9, most=25):
    """(loss, gradient, step) where the loss has fallen enough and its slope is small (Nocedal and Wright)."""
    size = float(abs(direction).max())
    f0, slope0 = f, slope
    f_new, g_new = at(t)
    slope_new = float(g_new @ direction)
    before, count, done = (0.0, f, g, slope), 0, False
    while count < most:
        if f_new > f0 + c1 * t * slope0 or (count > 1 and f_new >= before[1]) or slope_new >= 0 or \
                abs(slope_new) <= -c2 * slope0:
            done = abs(slope_new) <= -c2 * slope0 and f_new <= f0 + c1 * t * slope0 and \
                not (count > 1 and f_new >= before[1])
            break
        low, high = t + 0.01 * (t - before[0]), t * 10
        here = (t, f_new, g_new, slope_new)
        t = _between(before[0], before[1], before[3], t, f_new, slope_new, low, high)
        before = here
        f_new, g_new = at(t)
        slope_new = float(g_new @ direction)
        count += 1
    if done:
        return f_new, g_new, t
    ends = [before, (t, f_new, g_new, slope_new)] if count < most else [(0.0, f, g, slope),
                                                                      (t, f_new, g_new, slope_new)]
    slow, best = False, 0 if ends[0][1] <= ends[1][1] else 1
    while not done and count < most:
        a, b = ends
        if abs(b[0] - a[0]) * size < least:
            break
        t = _between(a[0], a[1], a[3], b[0], b[1], b[3])
        low, high = min(a[0], b[0]), max(a[0], b[0])
        edge = 0.1 * (high - low)
        if min(high - t, t - low) < edge:
            if slow or t >= high or t <= low:
                t = high - edge if abs(t - high) < abs(t - low) else low + edge
                slow = False
            else:
                slow = True
        else:
            slow = False
        f_new, g_new = at(t)
        slope_new = float(g_new @ direction)
        count += 1
        new = (t, f_new, g_new, slope_new)
        if f_new > f0 + c1 * t * slope0 or f_new >= ends[best][1]:
            ends[1 - best] = new
            best = 0 if ends[0][1] <= ends[1][1] else 1
        else:
            if abs(slope_new) <= -c2 * slope0:
                done = True
            elif slope_new * (ends[1 - best][0] - ends[best][0]) >= 0:
                ends[1 - best] = ends[best]
            ends[best] = new
    return ends[best][1], ends[best][2], ends[best][0]

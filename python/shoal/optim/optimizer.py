"""Optimizers. A step is recorded operations; learning rate, step count and the other numbers are scalar
inputs of its program, so that each step replays the same one. Nothing is read."""
import math
from collections import defaultdict

from .. import _shoal
from ..autograd import enable_grad, no_grad
from ..nn.module import clear_grad, replace
from ..recording import fresh, guard, restructured
from ..tensor import Tensor, from_data
from ..words import check_number, invalid, torch_words


class Numbers:
    """Numbers of one step as tensors, each made once for all parameters of a group that are alike."""

    def __init__(self):
        self._made = {}

    def like(self, tensor, group, name, number):
        """number(), one or a tuple, of the tensor's element type; of a half, tuples are float32.

        name: what tells it from the group's other numbers; hashable.
        """
        session, dtype = tensor.session, tensor.dtype
        key = (id(group), name, dtype, id(session))
        found = self._made.get(key)
        if found is not None:
            return found

        def make():
            value = number()
            wide = isinstance(value, tuple) and dtype != "float64"
            return (from_data(session, value, "float32" if wide else dtype),)
        found, = fresh(make)
        self._made[key] = found
        return found

    def settings(self, tensor, group):
        """A function from the name of a setting, and what is to be done to it, to the number."""
        def number(name, change=float):
            return self.like(tensor, group, (name, change), lambda: change(group[name]))
        return number


def _rest(share):
    return 1 - share


def _structure(optimizer, params):
    """What decides which operations a step consists of."""
    state = optimizer.state
    return ([[bool(value) for value in group.values()] for group in optimizer.param_groups],
            [id(state.get(p)) for p, _ in params])


class Optimizer:
    """Parameters in groups, each group with settings of its own, and a state per parameter.

    params: parameters, or dicts {"params": parameters, "lr": …} with settings that differ.
    """

    def __init__(self, params, defaults, switches=None):
        # foreach, fused, capturable, differentiable: ways in which torch computes the same.
        unknown = set(switches or ()) - {"foreach", "fused", "capturable", "differentiable"}
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument '{min(unknown)}'")
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__}: the parameters come as a list, not as one tensor: [{params._text()}]")
        if not hasattr(params, "__iter__"):
            raise TypeError(f"{type(self).__name__}: the parameters are a {type(params).__name__}; they come as a list, "
                            "of parameters or of groups")
        groups = [params] if isinstance(params, dict) else list(params)
        if not groups:
            raise invalid(f"{type(self).__name__}: there are no parameters")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    @torch_words(param_group="group")
    def add_param_group(self, group):
        """One more group: a dict with "params" and settings."""
        if not isinstance(group, dict):
            raise TypeError(f"{type(self).__name__}: a group is a dict, not a {type(group).__name__}")
        if "params" not in group:
            raise KeyError(f"{type(self).__name__}: a group needs 'params', its parameters; it has {sorted(group)}")
        params = group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError(f"{type(self).__name__}: the parameters are a set, whose order is another in every run; "
                            "give a list")
        params = [params] if isinstance(params, Tensor) else list(params)
        seen = {id(p) for other in self.param_groups for p in other["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"{type(self).__name__}: a {type(p).__name__} is no parameter")
            if not p.is_leaf:
                raise invalid(f"{type(self).__name__}: {p._text()} is the result of an operation, whose gradient is not "
                              "kept; give the parameters that it was made of")
            if id(p) in seen:
                raise invalid(f"{type(self).__name__}: a parameter is given twice")
            seen.add(id(p))
        self.param_groups.append({"params": params} | self.defaults | group | {"params": params})
        restructured()

    def zero_grad(self, set_to_none=True):
        """No parameter has a gradient any more."""
        for group in self.param_groups:
            for p in group["params"]:
                clear_grad(p, set_to_none)

    def step(self, closure=None):
        """One step along the gradients; closure, if given, computes the loss and them anew."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        params, grads = [], []
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is not None:
                    params.append((p, group))
                    grads.append(grad)
        numbers = Numbers()
        with no_grad():
            fresh(lambda: self._count(params))
            for (p, group), grad in zip(params, grads):
                grad = grad._detach()
                if group.get("maximize"):
                    grad = -grad
                p._rebind(self._stepped(p._detach(), grad, self.state[p], group, numbers))
        guard(lambda: _structure(self, params))
        if params:
            params[-1][0].start()  # the program of a step ends here
        return loss

    def _count(self, params):
        """Notes that one step more is taken of these parameters."""
        return ()

    def _stepped(self, p, grad, state, group, numbers):
        raise NotImplementedError

    def _keep(self, state, name, value):
        """The state's tensor of a name takes a value."""
        if name in state:
            replace(state[name], value)
        else:
            state[name] = value._detach()

    # ---- state ----

    def state_dict(self):
        """State and settings, parameters as numbers: for `shoal.save`."""
        order = {id(p): i for i, p in enumerate(
            p for group in self.param_groups for p in group["params"])}
        return {
            "state": {order[id(p)]: {k: v._detach() if isinstance(v, Tensor) else v for k, v in own.items()}
                      for p, own in self.state.items() if own},
            "param_groups": [{**group, "params": [order[id(p)] for p in group["params"]]}
                             for group in self.param_groups]}

    def load_state_dict(self, state_dict):
        """Goes on from what `state_dict` gave, for parameters in the same order."""
        state = state_dict
        if not isinstance(state, dict):
            raise TypeError(f"load_state_dict of {type(self).__name__}: a {type(state).__name__}; it must be a dict")
        if not {"state", "param_groups"} <= state.keys():
            raise KeyError(f"load_state_dict of {type(self).__name__}: 'state' and 'param_groups' are needed; there are "
                           f"{sorted(map(str, state))}")
        groups = state["param_groups"]
        mine, its = ([len(g["params"]) for g in gs] for gs in (self.param_groups, groups))
        if mine != its:
            raise invalid(f"load_state_dict of {type(self).__name__}: groups of {its} parameters "
                          f"there, of {mine} here")
        params = [p for group in self.param_groups for p in group["params"]]
        for group, other in zip(self.param_groups, groups):
            group.update({k: tuple(v) if isinstance(v, list) else v
                          for k, v in other.items() if k != "params"})
        restructured()
        self.state.clear()
        for i, own in state["state"].items():
            self.state[params[int(i)]] = {k: self._taken(k, v) for k, v in own.items()}

    def _taken(self, name, value):
        """A part of a state that is loaded: numbers as Python's, tensors as their own."""
        if not isinstance(value, Tensor):
            return value
        return int(value.item()) if name == "step" else value._detach()

    def __repr__(self):
        text = f"{type(self).__name__} (\n"
        for i, group in enumerate(self.param_groups):
            text += f"Parameter Group {i}\n"
            text += "".join(f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params")
        return text + ")"


def _check(what, **values):
    for name, value in values.items():
        check_number(value, what, name)
        if not value >= 0:
            raise invalid(f"{what}: {name} is {value}; it must not be negative")


def _check_betas(what, betas):
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise TypeError(f"{what}: betas are {betas!r}; two numbers are needed")
    _check(what, **{f"betas[{i}]": beta for i, beta in enumerate(betas)})
    if not all(beta < 1 for beta in betas):
        raise invalid(f"{what}: betas are {betas}; each lies in [0, 1)")


class SGD(Optimizer):
    """p - lr g, g being the gradient; with momentum p - lr b, where b = momentum b + (1 - dampening) g, or with nesterov
    p - lr (g + momentum b)."""

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0,
                 nesterov=False, *, maximize=False, **switches):
        _check("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening):
            raise invalid("SGD: nesterov needs momentum and no dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize}, switches)

    def _stepped(self, p, grad, state, group, numbers):
        number = numbers.settings(p, group)
        if group["weight_decay"]:
            grad = grad + p * number("weight_decay")
        if group["momentum"]:
            before = state.get("momentum_buffer")
            if before is None:
                made = grad
            elif group["dampening"]:
                made = before * number("momentum") + grad * number("dampening", _rest)
            else:
                made = before * number("momentum") + grad
            self._keep(state, "momentum_buffer", made)
            grad = grad + made * number("momentum") if group["nesterov"] else made
        return p - grad * number("lr")


class Adam(Optimizer):
    """p - lr m / (sqrt(v) + eps): m and v are moving averages of the gradient and of its square, betas their decays,
    corrected for their start at 0 (Kingma and Ba, 2015)."""

    decoupled = False  # whether weight decay leaves the means alone

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                 amsgrad=False, *, maximize=False, **switches):
        _check(type(self).__name__, lr=lr, eps=eps, weight_decay=weight_decay)
        _check_betas(type(self).__name__, betas)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize}, switches)

    def _count(self, params):
        for p, group in params:
            state = self.state[p]
            if not state:
                zero = p.session.full(p.shape, 0, p.dtype)
                state.update(step=0, exp_avg=zero, exp_avg_sq=zero._detach())
                if group["amsgrad"]:
                    state["max_exp_avg_sq"] = zero._detach()
            state["step"] = int(state["step"]) + 1
        return ()

    def _settings(self, group, state):
        """What the operation takes of the settings, at a parameter's step."""
        (beta1, beta2), step = group["betas"], state["step"]
        return (1 - group["lr"] * group["weight_decay"] if self.decoupled else 1.0, beta1, 1 - beta1,
                beta2, 1 - beta2, 1 / math.sqrt(1 - beta2 ** step), group["eps"],
                group["lr"] / (1 - beta1 ** step))

    def _stepped(self, p, grad, state, group, numbers):
        if group["weight_decay"] and not self.decoupled:
            grad = grad + p * numbers.settings(p, group)("weight_decay")
        settings = numbers.like(p, group, state["step"], lambda: self._settings(group, state))
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if group["amsgrad"] else [])
        mean, square, *largest = [state[name] for name in names]
        new, *means = _shoal.apply(p.session, "adam", (p, grad, mean, square, settings, *largest), {},
                                   1 + len(names))
        for name, value in zip(names, means):
            state[name]._rebind(value)
        return new


class AdamW(Adam):
    """Adam whose weight decay does not enter the moving averages (Loshchilov and Hutter, 2019)."""

    decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2,
                 amsgrad=False, *, maximize=False, **switches):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **switches)


class RMSprop(Optimizer):
    """p - lr g / (sqrt(v) + eps): v is a moving average, of decay alpha, of the squared gradient (Hinton, 2012)."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False,
                 *, maximize=False, **switches):
        _check("RMSprop", lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "momentum": momentum,
                                  "weight_decay": weight_decay, "centered": centered,
                                  "maximize": maximize}, switches)

    def _stepped(self, p, grad, state, group, numbers):
        number = numbers.settings(p, group)
        if group["weight_decay"]:
            grad = grad + p * number("weight_decay")
        square = grad * grad * number("alpha", _rest)
        if "square_avg" in state:
            square = state["square_avg"] * number("alpha") + square
        self._keep(state, "square_avg", square)
        if group["centered"]:
            mean = grad * number("alpha", _rest)
            if "grad_avg" in state:
                mean = state["grad_avg"] * number("alpha") + mean
            self._keep(state, "grad_avg", mean)
            square = square - mean * mean
        move = grad / (square.sqrt() + number("eps"))
        if group["momentum"]:
            if "momentum_buffer" in state:
                move = state["momentum_buffer"] * number("momentum") + move
            self._keep(state, "momentum_buffer", move)
        return p - move * number("lr")

"""Mixed precision: `autocast` and `GradScaler`.

Within `autocast` products, convolutions and linear layers take their operands as bfloat16 (or float16), and
losses theirs as float32; all else stays as it is.
"""
import functools
import threading


class _Local(threading.local):
    dtype = None  # that products of this thread are to take


_local = _Local()


def cast_type():
    """The element type that products are to take, or None."""
    return _local.dtype


class autocast:
    """A context, or a decorator: products of float32 tensors are computed in `dtype`, by default bfloat16, or
    float16 where the device type is "cuda", as in torch."""

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None):
        from .words import dtype_name
        name = dtype_name(dtype or ("float16" if device_type == "cuda" else "bfloat16"))
        if name not in ("bfloat16", "float16", "float32"):
            from .words import invalid
            raise invalid(f"autocast: {name} is neither bfloat16 nor float16")
        self._to, self._was = name if enabled and name != "float32" else None, []

    def __enter__(self):
        self._was.append(cast_type())
        _local.dtype = self._to
        return self

    def __exit__(self, *error):
        _local.dtype = self._was.pop()
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **keywords):
            with self:
                return function(*args, **keywords)
        return inside


def cast(*tensors):
    """float32 tensors as the type of the context around; without one as they are."""
    to = cast_type()
    if to is None:
        return tensors
    return tuple(t.astype(to) if t is not None and t.dtype == "float32" else t for t in tensors)


def is_autocast_enabled(device_type=None):
    """Whether this thread is within `autocast`."""
    return cast_type() is not None


def wide(function):
    """A function that within `autocast` takes its floating operands as float32, as losses do."""
    @functools.wraps(function)
    def inside(*args, **keywords):
        to = cast_type()
        if to is None:
            return function(*args, **keywords)

        def wider(value):
            return value.astype("float32") if hasattr(value, "session") and value.dtype == to else value
        return function(*map(wider, args), **{k: wider(v) for k, v in keywords.items()})
    return inside


class GradScaler:
    """Scales a loss so that small gradients survive float16, and skips steps whose gradients overflow."""

    def __init__(self, device="cpu", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True):
        self._scale, self._growth, self._backoff = float(init_scale), growth_factor, backoff_factor
        self._interval, self._enabled, self._good = growth_interval, enabled, 0
        self._found, self._unscaled = {}, set()

    def scale(self, outputs):
        """The loss times the scale."""
        return outputs * self._scale if self._enabled else outputs

    def unscale_(self, optimizer):
        """In place: the gradients of an optimizer's parameters over the scale."""
        if not self._enabled or id(optimizer) in self._unscaled:
            return
        finite = None
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = p.grad._detach() * (1 / self._scale)
                    all_finite = p.grad.isfinite().all()
                    finite = all_finite if finite is None else finite & all_finite
        self._found[id(optimizer)] = finite is not None and not bool(finite)
        self._unscaled.add(id(optimizer))

    def step(self, optimizer, *args, **keywords):
        """The optimizer's step, unless a gradient is not finite."""
        self.unscale_(optimizer)
        if self._found.get(id(optimizer)):
            return None
        return optimizer.step(*args, **keywords)

    def update(self, new_scale=None):
        """The scale for the next step: less after an overflow, more after many steps without."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif any(self._found.values()):
            self._scale, self._good = self._scale * self._backoff, 0
        else:
            self._good += 1
            if self._good == self._interval:
                self._scale, self._good = self._scale * self._growth, 0
        self._found.clear()
        self._unscaled.clear()

    def get_scale(self):
        """The scale."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self):
        """Whether it does anything."""
        return self._enabled

    def state_dict(self):
        """For `shoal.save`."""
        return {"scale": self._scale, "growth_factor": self._growth, "backoff_factor": self._backoff,
                "growth_interval": self._interval, "_growth_tracker": self._good}

    def load_state_dict(self, state):
        """Goes on from what `state_dict` gave."""
        self._scale, self._growth = state["scale"], state["growth_factor"]
        self._backoff, self._interval = state["backoff_factor"], state["growth_interval"]
        self._good = state["_growth_tracker"]

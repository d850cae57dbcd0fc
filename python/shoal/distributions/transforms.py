"""Invertible functions with known determinants of their Jacobians, which distributions are transformed by."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from ..creation import as_tensor, broadcast_shapes, cat, stack, zeros, zeros_like
from ..dtypes import Size, finfo
from ..functional import softplus
from ..tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import inner, rightmost_sum

_Shape = Sequence[int]


class Transform:
    """A function of tensors. A subclass has `_call`, `_inverse` and, if it is bijective, `log_abs_det_jacobian`.

    cache_size 1: the last operand and result are kept, so that the inverse of a result is the operand itself.
    """

    bijective = False
    _sign: Any = 1
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size is {cache_size}; it must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = None, None

    @property
    def sign(self) -> Any:
        """1 where it ascends, -1 where it descends: a number or a tensor."""
        return self._sign

    @property
    def event_dim(self) -> int:
        """How many of the last axes it takes as one."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("ask domain.event_dim or codomain.event_dim: the two differ")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same function with a cache, or without."""
        if cache_size == self._cache_size:
            return self
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        Transform.__init__(made, cache_size)
        return made

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size and x is self._cached[0]:
            known: Tensor = self._cached[1]
            return known
        y = self._call(x)
        self._cached = (x, y) if self._cache_size else (None, None)
        return y

    def _undone(self, y: Tensor) -> Tensor:
        if self._cache_size and y is self._cached[1]:
            known: Tensor = self._cached[0]
            return known
        x = self._inverse(y)
        self._cached = (x, y) if self._cache_size else (None, None)
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute determinant of dy / dx."""
        raise NotImplementedError(f"{type(self).__name__} has no determinant: it is not bijective")

    def forward_shape(self, shape: _Shape) -> Size:
        """The shape of the result of an operand."""
        return Size(shape)

    def inverse_shape(self, shape: _Shape) -> Size:
        """The shape of the operand of a result."""
        return Size(shape)

    def _key(self) -> Any:
        """What tells two of a kind apart."""
        return ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        mine, its = self._key(), other._key()  # type: ignore[attr-defined]
        return len(mine) == len(its) and all(
            bool((a == b).all()) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)
            for a, b in zip(mine, its))

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """The inverse of another."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._of = transform
        self.domain, self.codomain = transform.codomain, transform.domain
        self.bijective, self._sign = transform.bijective, transform.sign

    @property
    def inv(self) -> Transform:
        """What it is the inverse of."""
        return self._of

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same function with a cache, or without."""
        return _Inverse(self._of.with_cache(cache_size))

    def __call__(self, x: Tensor) -> Tensor:
        return self._of._undone(x)

    def _undone(self, y: Tensor) -> Tensor:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute determinant of dy / dx."""
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: _Shape) -> Size:
        """The shape of the result of an operand."""
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: _Shape) -> Size:
        """The shape of the operand of a result."""
        return self._of.forward_shape(shape)

    def _key(self) -> Any:
        return (self._of,)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of})"


class ComposeTransform(Transform):
    """Several, one after another."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        self.bijective = all(part.bijective for part in self.parts)
        self._sign = math.prod(part.sign for part in self.parts) if all(
            isinstance(part.sign, int) for part in self.parts) else self._signs()
        if self.parts:
            self.domain = self._widest(self.parts[0].domain, False)
            self.codomain = self._widest(self.parts[-1].codomain, True)

    def _signs(self) -> Any:
        made: Any = 1
        for part in self.parts:
            made = made * part.sign
        return made

    def _widest(self, end: Constraint, forward: bool) -> Constraint:
        """The constraint at an end, with as many axes as any of the parts takes as one."""
        parts = self.parts if forward else self.parts[::-1]
        sides = [(p.domain.event_dim, p.codomain.event_dim) if forward else (p.codomain.event_dim, p.domain.event_dim)
                 for p in parts]
        events = sides[0][0]
        for near, far in sides:
            events = max(events + far - near, far)
        return constraints.independent(end, events - end.event_dim) if events > end.event_dim else end

    @property
    def inv(self) -> Transform:
        """The inverse: of each, in reverse order."""
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same function with a cache, or without."""
        return self if cache_size == self._cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _undone(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._undone(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute determinant of dy / dx."""
        if not self.parts:
            return zeros_like(x)
        events, total = self.domain.event_dim, None
        for i, part in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else part(x)
            term = rightmost_sum(part.log_abs_det_jacobian(x, after), events - part.domain.event_dim)
            total = term if total is None else total + term
            events += part.codomain.event_dim - part.domain.event_dim
            x = after
        assert total is not None
        return total

    def forward_shape(self, shape: _Shape) -> Size:
        """The shape of the result of an operand."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: _Shape) -> Size:
        """The shape of the operand of a result."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return Size(shape)

    def _key(self) -> Any:
        return self.parts

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


class IndependentTransform(Transform):
    """Another, whose last axes count as one event: the logarithms of its determinants are added."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective, self._sign = base_transform.bijective, base_transform.sign
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    def _call(self, x: Tensor) -> Tensor:
        return self._fits(self.base_transform, x, self.domain)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._fits(self.base_transform._undone, y, self.codomain)

    @staticmethod
    def _fits(function: Any, x: Tensor, side: Constraint) -> Tensor:
        if x.ndim < side.event_dim:
            raise ValueError(f"IndependentTransform: {x.ndim} axes; {side.event_dim} are needed")
        made: Tensor = function(x)
        return made

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute determinant of dy / dx."""
        return rightmost_sum(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: _Shape) -> Size:
        """The shape of the result of an operand."""
        return Size(self.base_transform.forward_shape(shape))

    def inverse_shape(self, shape: _Shape) -> Size:
        """The shape of the operand of a result."""
        return Size(self.base_transform.inverse_shape(shape))

    def _key(self) -> Any:
        return self.base_transform, self.reinterpreted_batch_ndims

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The last axes in another shape."""

    bijective = True

    def __init__(self, in_shape: _Shape, out_shape: _Shape, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(f"ReshapeTransform: {list(in_shape)} and {list(out_shape)} have different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0"""
        return zeros(x.shape[:x.ndim - len(self.in_shape)], dtype=x.dtype)

    @staticmethod
    def _changed(shape: _Shape, old: Size, new: Size) -> Size:
        cut = len(shape) - len(old)
        if cut < 0 or tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"ReshapeTransform: the last axes of {list(shape)} are not {list(old)}")
        return Size((*shape[:cut], *new))

    def forward_shape(self, shape: _Shape) -> Size:
        """The shape of the result of an operand."""
        return self._changed(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: _Shape) -> Size:
        """The shape of the operand of a result."""
        return self._changed(shape, self.out_shape, self.in_shape)

    def _key(self) -> Any:
        return self.in_shape, self.out_shape


class ExpTransform(Transform):
    """e^x"""

    bijective = True
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x"""
        return x


class _Parametric(Transform):
    """One with parameters, tensors or numbers, with which shapes broadcast."""

    bijective = True

    def _key(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def forward_shape(self, shape: _Shape) -> Size:
        """The shape of the result of an operand."""
        return Size(broadcast_shapes(tuple(shape), *(tuple(getattr(p, "shape", ())) for p in self._key())))

    inverse_shape = forward_shape


class PowerTransform(_Parametric):
    """x^exponent, of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent: Tensor = exponent if isinstance(exponent, Tensor) else as_tensor(float(exponent))

    def _key(self) -> tuple[Any, ...]:
        return (self.exponent,)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent x^(exponent - 1)|"""
        return (self.exponent * y / x).abs().log()


class AffineTransform(_Parametric):
    """loc + scale x; event_dim: how many of the last axes count as one event."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._events = loc, scale, event_dim
        self.domain = self.codomain = constraints.independent(constraints.real, event_dim) if event_dim else constraints.real

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _key(self) -> tuple[Any, ...]:
        return self.loc, self.scale

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|"""
        size = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(abs(self.scale))
        return rightmost_sum(zeros_like(x) + size, self._events)


class SigmoidTransform(Transform):
    """1 / (1 + e^-x)"""

    bijective = True
    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return inner(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = inner(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(y (1 - y))"""
        made: Tensor = -softplus(-x) - softplus(x)
        return made


class SoftplusTransform(Transform):
    """log(1 + e^x)"""

    bijective = True
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        made: Tensor = softplus(x)
        return made

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log sigmoid(x)"""
        made: Tensor = -softplus(-x)
        return made


class TanhTransform(Transform):
    """tanh(x)"""

    bijective = True
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 - tanh(x)^2)"""
        made: Tensor = 2 * (math.log(2) - x - softplus(-2 * x))
        return made


class AbsTransform(Transform):
    """|x|; its inverse gives the positive number."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(Transform):
    """softmax; its inverse gives logarithms."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: _Shape) -> Size:
        """The same shape, of one axis at least."""
        if not len(shape):
            raise ValueError("SoftmaxTransform: an axis is needed")
        return Size(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """n numbers as n + 1 parts above 0 of sum 1: each takes its sigmoid, moved, of what is left."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    @staticmethod
    def _moved(x: Tensor, sign: int) -> Tensor:
        """With all of x 0 the parts are equal."""
        from ..creation import arange
        made: Tensor = x + sign * arange(x.shape[-1], 0, -1, dtype=x.dtype).log()
        return made

    def _call(self, x: Tensor) -> Tensor:
        z = inner(self._moved(x, -1).sigmoid())
        left = (1 - z).cumprod(-1)
        one = zeros((*x.shape[:-1], 1), dtype=x.dtype) + 1
        return cat([z, one], -1) * cat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        shown = y[..., :-1]
        left = (1 - shown.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return self._moved(shown.log() - left.log(), 1)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the determinant."""
        moved = self._moved(x, -1)
        made: Tensor = (-softplus(-moved) - moved + y[..., :-1].log()).sum(-1)
        return made

    def forward_shape(self, shape: _Shape) -> Size:
        """One element more along the last axis."""
        if not len(shape):
            raise ValueError("StickBreakingTransform: an axis is needed")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: _Shape) -> Size:
        """One element less along the last axis."""
        if not len(shape):
            raise ValueError("StickBreakingTransform: an axis is needed")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """A square matrix as a lower triangular one whose diagonal is e to the power of the matrix's."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class StackTransform(Transform):
    """One for each index of an axis."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim
        self.bijective = all(t.bijective for t in tseq)

    def _each(self, function: Literal["__call__", "_undone"], x: Tensor) -> Tensor:
        if x.shape[self.dim] != len(self.transforms):
            raise ValueError(f"StackTransform: {len(self.transforms)} transforms along axis {self.dim} of {list(x.shape)}")
        made: Tensor = stack([getattr(t, function)(x.select(self.dim, i)) for i, t in enumerate(self.transforms)], self.dim)
        return made

    def _call(self, x: Tensor) -> Tensor:
        return self._each("__call__", x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._each("_undone", y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithms of the determinants of each."""
        made: Tensor = stack([t.log_abs_det_jacobian(x.select(self.dim, i), y.select(self.dim, i))
                              for i, t in enumerate(self.transforms)], self.dim)
        return made

    def _key(self) -> Any:
        return *self.transforms, self.dim


identity_transform: Transform = ComposeTransform([])

__all__ = ["AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "IndependentTransform",
           "LowerCholeskyTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
           "identity_transform"]

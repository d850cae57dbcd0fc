"""What parameters of distributions must be, and where draws lie: as torch.distributions.constraints."""
from __future__ import annotations

import math
from typing import Any

from ..dtypes import finfo
from ..tensor import Tensor


class Constraint:
    """A set of values. `check` tells which are in it; `words` is how messages call it."""

    is_discrete = False
    event_dim = 0
    _words = "a value of the set"

    @property
    def words(self) -> str:
        """How messages call it."""
        return self._words

    def check(self, value: Tensor) -> Tensor:
        """A bool for each event, the last `event_dim` axes."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    _words = "what other parameters say"

    def check(self, value: Tensor) -> Tensor:
        """An error: what is fine depends on other parameters."""
        raise ValueError("a dependent constraint cannot be checked by itself")


def is_dependent(constraint: Constraint) -> bool:
    """Whether a constraint depends on other parameters, so that it cannot be checked."""
    return isinstance(constraint, _Dependent)


class _Between(Constraint):
    """Numbers within bounds, each of which may be missing, be itself inside, or not."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    _open = _open_above = False

    @staticmethod
    def _text(bound: Any, name: str) -> str:
        return f"{bound:g}" if isinstance(bound, (int, float)) else name

    @property
    def words(self) -> str:
        """How messages call it."""
        low, high = self._text(self.lower_bound, "low"), self._text(self.upper_bound, "high")
        kind = "an integer, " if self.is_discrete else ""
        if self.upper_bound is None:
            return kind + (f"above {low}" if self._open else f"{low} or more")
        if self.lower_bound is None:
            return kind + (f"below {high}" if self._open_above else f"{high} or less")
        return (f"an integer from {low} to {high}" if self.is_discrete else f"from {low} to {high}") + (
            ", exclusively" if self._open_above else "")

    def check(self, value: Tensor) -> Tensor:
        """A bool for each number."""
        fine = value == value
        if self.is_discrete:
            fine = value == (value.floor() if isinstance(value, Tensor) else math.floor(value))
        if self.lower_bound is not None:
            fine = fine & (value > self.lower_bound if self._open else value >= self.lower_bound)
        if self.upper_bound is not None:
            fine = fine & (value < self.upper_bound if self._open_above else value <= self.upper_bound)
        return fine

    def __repr__(self) -> str:
        named = (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound))
        return type(self).__name__[1:] + "(" + ", ".join(f"{n}={b}" for n, b in named if b is not None) + ")"


class _Interval(_Between):
    pass


class _HalfOpenInterval(_Between):
    _open_above = True


class _GreaterThanEq(_Between):
    pass


class _GreaterThan(_Between):
    _open = True


class _LessThan(_Between):
    _open_above = True

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)


class _IntegerInterval(_Between):
    is_discrete = True


class _IntegerGreaterThan(_Between):
    is_discrete = True


class _Real(Constraint):
    _words = "a number"

    def check(self, value: Tensor) -> Tensor:
        """False for NaN."""
        return value == value


class _Boolean(Constraint):
    is_discrete = True
    _words = "0 or 1"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each number."""
        return (value == 0) | (value == 1)


class _Vector(Constraint):
    event_dim = 1


class _OneHot(_Vector):
    is_discrete = True
    _words = "a single 1 among zeros"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each vector."""
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(_Vector):
    _words = "0 or more, and their sum 1"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each vector."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Weights(_Vector):
    """What becomes a simplex when it is divided by its sum."""

    _words = "0 or more, and some of them above 0"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each vector."""
        return (value >= 0).all(-1) & (value.sum(-1) > 0)


class _Multinomial(_Vector):
    is_discrete = True

    def __init__(self, upper_bound: int) -> None:
        self.upper_bound = upper_bound
        self._words = f"0 or more, and their sum at most {upper_bound}"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each vector."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Square(Constraint):
    event_dim = 2
    _words = "square"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each matrix."""
        from ..creation import full
        made: Tensor = full(value.shape[:-2], value.shape[-2] == value.shape[-1])
        return made


class _Symmetric(_Square):
    _words = "symmetric"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each matrix."""
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return ((value - value.mT).abs() <= 1e-6 + 1e-5 * value.abs()).all(-1).all(-1)


class _PositiveDefinite(_Symmetric):
    _words = "symmetric and positive definite"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each matrix."""
        fine = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return fine
        from ..linalg import eigvalsh
        return fine & self._fits(eigvalsh(value)).all(-1)

    def _fits(self, values: Tensor) -> Tensor:
        return values > 0


class _PositiveSemidefinite(_PositiveDefinite):
    _words = "symmetric and positive semidefinite"

    def _fits(self, values: Tensor) -> Tensor:
        return values >= 0


class _LowerTriangular(_Square):
    _words = "lower triangular"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each matrix."""
        return (value == value.tril()).all(-1).all(-1)


class _LowerCholesky(_LowerTriangular):
    _words = "lower triangular, with a diagonal above 0"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each matrix."""
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    _words = "lower triangular, with a diagonal above 0 and rows of length 1"

    def check(self, value: Tensor) -> Tensor:
        """A bool for each matrix."""
        eps = finfo(value.dtype).eps
        return super().check(value) & (((value * value).sum(-1).sqrt() - 1).abs() <= 10 * eps * value.shape[-1]).all(-1)


class _IndependentConstraint(Constraint):
    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims
        self._words = base_constraint.words

    def check(self, value: Tensor) -> Tensor:
        """A bool for each event."""
        fine = self.base_constraint.check(value)
        if fine.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(f"a value of {value.ndim} axes; {self.event_dim} are needed")
        for _ in range(self.reinterpreted_batch_ndims):
            fine = fine.all(-1)
        return fine

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint}, {self.reinterpreted_batch_ndims})"


dependent: Constraint = _Dependent()
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
simplex: Constraint = _Simplex()
weights: Constraint = _Weights()
real: Constraint = _Real()
nonnegative_integer: Constraint = _IntegerGreaterThan(0)
positive_integer: Constraint = _IntegerGreaterThan(1)
positive: Constraint = _GreaterThan(0)
nonnegative: Constraint = _GreaterThanEq(0)
unit_interval: Constraint = _Interval(0, 1)
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_definite: Constraint = _PositiveDefinite()
positive_semidefinite: Constraint = _PositiveSemidefinite()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
independent = _IndependentConstraint
real_vector: Constraint = independent(real, 1)
integer_interval, interval, half_open_interval = _IntegerInterval, _Interval, _HalfOpenInterval
greater_than, greater_than_eq, less_than, multinomial = _GreaterThan, _GreaterThanEq, _LessThan, _Multinomial

__all__ = ["Constraint", "boolean", "corr_cholesky", "dependent", "greater_than", "greater_than_eq",
           "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than",
           "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
           "positive", "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
           "simplex", "square", "symmetric", "unit_interval", "weights"]

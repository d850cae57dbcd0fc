"""Types of `shoal.distributions.constraints`. Written by tools/stubs.py."""
from typing import Any
from ..tensor import Tensor

class Constraint:
    def __repr__(self) -> str: ...
    def check(self, value: Tensor) -> Tensor: ...
    event_dim: int
    is_discrete: bool
    @property
    def words(self) -> str: ...


class _Between(Constraint):
    lower_bound: Any
    upper_bound: Any
    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None: ...
    def __repr__(self) -> str: ...
    def check(self, value: Tensor) -> Tensor: ...
    @property
    def words(self) -> str: ...


class _IndependentConstraint(Constraint):
    base_constraint: Any
    reinterpreted_batch_ndims: Any
    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None: ...
    def __repr__(self) -> str: ...
    def check(self, value: Tensor) -> Tensor: ...


class _Vector(Constraint):
    event_dim: int


class _GreaterThan(_Between):
    ...


class _GreaterThanEq(_Between):
    ...


class _HalfOpenInterval(_Between):
    ...


class _IntegerInterval(_Between):
    is_discrete: bool


class _Interval(_Between):
    ...


class _LessThan(_Between):
    def __init__(self, upper_bound: Any) -> None: ...


class _Multinomial(_Vector):
    upper_bound: Any
    def __init__(self, upper_bound: int) -> None: ...
    def check(self, value: Tensor) -> Tensor: ...
    is_discrete: bool

boolean: Constraint
corr_cholesky: Constraint
dependent: Constraint
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
half_open_interval = _HalfOpenInterval
independent = _IndependentConstraint
integer_interval = _IntegerInterval
interval = _Interval
def is_dependent(constraint: Constraint) -> bool: ...
less_than = _LessThan
lower_cholesky: Constraint
lower_triangular: Constraint
multinomial = _Multinomial
nonnegative: Constraint
nonnegative_integer: Constraint
one_hot: Constraint
positive: Constraint
positive_definite: Constraint
positive_integer: Constraint
positive_semidefinite: Constraint
real: Constraint
real_vector: Constraint
simplex: Constraint
square: Constraint
symmetric: Constraint
unit_interval: Constraint
weights: Constraint

__all__ = [
    "Constraint", "boolean", "corr_cholesky", "dependent", "greater_than", "greater_than_eq",
    "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
    "positive", "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "symmetric", "unit_interval", "weights"
]

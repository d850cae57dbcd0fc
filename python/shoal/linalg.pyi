"""Types of `shoal.linalg`. Written by tools/stubs.py."""
from typing import Any, NamedTuple
from .errors import InvalidError
from .linalg import CholeskyEx, Eigh, InvEx, LSTSQ, LU, LUFactor, QR, SLogDet, SVD
from .tensor import Tensor, _Axes, _DType, _Operand

class linalg_cholesky_ex(NamedTuple):
    L: Tensor
    info: Tensor


class linalg_eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_inv_ex(NamedTuple):
    inverse: Tensor
    info: Tensor


class linalg_lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class linalg_lu(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


class linalg_lu_factor(NamedTuple):
    LU: Tensor
    pivots: Tensor


class linalg_qr(NamedTuple):
    Q: Tensor
    R: Tensor


class linalg_slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class linalg_svd(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class LinAlgError(InvalidError):
    ...

CholeskyEx = linalg_cholesky_ex
Eigh = linalg_eigh
InvEx = linalg_inv_ex
LSTSQ = linalg_lstsq
LU = linalg_lu
LUFactor = linalg_lu_factor
QR = linalg_qr
SLogDet = linalg_slogdet
SVD = linalg_svd
def chain_matmul(*matrices: Any) -> Tensor: ...
def cholesky(A: _Operand, *, upper: bool = False, input: Tensor | None = None) -> Tensor: ...
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx: ...
def cond(A: Tensor, p: float | None = None, *, input: Tensor | None = None) -> Tensor: ...
def cross(input: _Operand, other: _Operand, *, dim: _Axes = -1, axis: _Axes | None = None) -> Tensor: ...
def det(A: _Operand, *, input: Tensor | None = None) -> Tensor: ...
def diagonal(
    A: _Operand, *, offset: int = 0, dim1: int = -2, dim2: int = -1, axis1: int | None = None,
    axis2: int | None = None
) -> Tensor: ...
def eigh(A: Tensor, UPLO: str = 'L', *, input: Tensor | None = None) -> Eigh: ...
def eigvalsh(A: Tensor, UPLO: str = 'L', *, input: Tensor | None = None) -> Tensor: ...
def inv(A: Tensor, *, input: Tensor | None = None) -> Tensor: ...
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx: ...
def inverse(A: _Operand, *, input: Tensor | None = None) -> Tensor: ...
def lstsq(A: Tensor, B: Tensor, rcond: Any = None, *, driver: Any = None) -> LSTSQ: ...
def lu(A: Tensor, *, pivot: bool = True) -> LU: ...
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor: ...
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor) -> Tensor: ...
def matmul(input: _Operand, other: _Operand) -> Tensor: ...
def matrix_exp(A: _Operand, *, input: Tensor | None = None) -> Tensor: ...
def matrix_norm(
    A: Tensor, ord: str = 'fro', dim: _Axes = ..., keepdim: bool = False, *, dtype: _DType | None = None,
    input: Tensor | None = None, axis: _Axes | None = None, keepdims: bool | None = None
) -> Tensor: ...
def matrix_power(A: _Operand, n: int, *, input: Tensor | None = None) -> Tensor: ...
def matrix_rank(
    A: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False, tol: Any = None,
    input: Tensor | None = None
) -> Tensor: ...
def multi_dot(tensors: Any) -> Tensor: ...
def norm(
    A: _Operand, ord: Any = None, dim: _Axes | None = None, keepdim: bool = False, *,
    dtype: _DType | None = None, input: Tensor | None = None, axis: _Axes | None = None,
    keepdims: bool | None = None
) -> Tensor: ...
def pinv(
    A: Tensor, rcond: Any = None, *, rtol: Any = None, atol: Any = None, hermitian: bool = False,
    input: Tensor | None = None
) -> Tensor: ...
def qr(A: _Operand, mode: str = 'reduced', *, input: Tensor | None = None) -> QR: ...
def slogdet(A: _Operand, *, input: Tensor | None = None) -> SLogDet: ...
def solve(
    A: Tensor, B: Tensor, *, left: bool = True, input: Tensor | None = None,
    other: _Operand | None = None
) -> Tensor: ...
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: Any, left: bool = True, unitriangular: bool = False,
    input: Tensor | None = None
) -> Tensor: ...
def svd(A: _Operand, full_matrices: bool = True, *, input: Tensor | None = None) -> SVD: ...
def svdvals(A: Tensor, *, input: Tensor | None = None) -> Tensor: ...
def tensorinv(A: Tensor, ind: Any = 2) -> Tensor: ...
def tensorsolve(A: Tensor, B: Tensor, dims: _Axes | None = None) -> Tensor: ...
def vander(x: _Operand, *, n: int | None = None, N: Any = None) -> Tensor: ...
def vecdot(x: _Operand, y: _Operand, *, dim: _Axes = -1, axis: _Axes | None = None) -> Tensor: ...
def vector_norm(
    x: _Operand, ord: Any = 2, dim: _Axes | None = None, keepdim: bool = False, *,
    dtype: _DType | None = None, input: Tensor | None = None, axis: _Axes | None = None,
    keepdims: bool | None = None
) -> Tensor: ...

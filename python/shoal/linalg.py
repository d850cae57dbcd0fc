"""Linear algebra: factorisations, inverses, solutions, norms, as torch.linalg.

Factorisations are LAPACK's, as NumPy has opened it, in this process: the matrix is read, its factors are new
tensors. Matrices are the last two axes; float32 and float64. Gradients pass through all of them, and
through their gradients again.
"""
import functools
import math

from . import _shoal
from .creation import eye
from .custom import Function
from .errors import InvalidError
from .return_types import named
from .words import axis_of, check_integer, check_number, check_tensor, invalid, tensors_of, torch_words


def _named(name, function, fields):
    return named(name, fields, f"What `{function}` returns.", __name__, f"linalg_{function}")


SLogDet = _named("SLogDet", "slogdet", "sign logabsdet")
QR = _named("QR", "qr", "Q R")
Eigh = _named("Eigh", "eigh", "eigenvalues eigenvectors")
SVD = _named("SVD", "svd", "U S Vh")
LSTSQ = _named("LSTSQ", "lstsq", "solution residuals rank singular_values")
LU = _named("LU", "lu", "P L U")
LUFactor = _named("LUFactor", "lu_factor", "LU pivots")
CholeskyEx = _named("CholeskyEx", "cholesky_ex", "L info")
InvEx = _named("InvEx", "inv_ex", "inverse info")
_TriangularSolve = named("_TriangularSolve", "solution cloned_coefficient", "What `shoal.triangular_solve` returns.",
                         __name__, "triangular_solve")
_Factors = named("_Factors", "U S V", "What `shoal.svd` returns.", __name__, "svd")


class LinAlgError(InvalidError):
    """A matrix has not what was asked for: it is singular, or not positive definite."""


def _checked(A, what, square=True):
    check_tensor(A, what)
    if A.ndim < 2 or (square and A.shape[-1] != A.shape[-2]):
        raise invalid(f"{what}: {A._text()}; {'square matrices are' if square else 'a matrix is'} needed")
    if A.dtype not in ("float32", "float64"):
        raise invalid(f"{what}: {A._text()}; float32 or float64 is needed")
    return A


def _read(what, call, *tensors):
    """What a function of NumPy makes of tensors' values, as tensors."""
    import numpy
    try:
        made = call(numpy, *(t._detach().numpy() for t in tensors))
    except numpy.linalg.LinAlgError as error:
        raise LinAlgError(f"{what}: {tensors[0]._text()}: {error}") from None
    like = tensors[0]
    many = isinstance(made, tuple)
    made = tuple(like.session.tensor(numpy.asarray(a, like.dtype.name)) for a in (made if many else (made,)))
    return made if many else made[0]


def _eye(x):
    return eye(x.shape[-1], dtype=x.dtype)


def _symmetric(x):
    return (x + x.mT) * 0.5


# ---- factorisations ----

class _Cholesky(Function):
    @staticmethod
    def forward(ctx, A):
        L = _read("cholesky", lambda np, a: np.linalg.cholesky(np.tril(a) + np.tril(a, -1).swapaxes(-1, -2)), A)
        ctx.A = A
        return L

    @staticmethod
    def backward(ctx, g):
        L = cholesky(ctx.A)
        inner = (L.mT @ g).tril()
        inner = inner - 0.5 * inner.diagonal(0, -2, -1).diag_embed()
        half = solve_triangular(L.mT, inner, upper=True)
        return _symmetric(solve_triangular(L.mT, half.mT, upper=True).mT)


@torch_words(input="A")
def cholesky(A, *, upper=False):
    """L, lower triangular, L L^T = A; upper: L^T. LinAlgError where A is not symmetric positive definite."""
    L = _Cholesky.apply(_checked(A, "cholesky"))
    return L.mT if upper else L


def cholesky_ex(A, *, upper=False, check_errors=False):
    """(cholesky, 0); (zeros, 1) where the matrix is not positive definite."""
    try:
        return CholeskyEx(cholesky(A, upper=upper), A.session.full(A.shape[:-2], 0, "int32"))
    except LinAlgError:
        if check_errors:
            raise
        return CholeskyEx(A * 0, A.session.full(A.shape[:-2], 1, "int32"))


def _factored(what, ctx, A, how):
    """What NumPy's function of that name makes of A; ctx keeps A and how it was asked."""
    ctx.A, ctx.how = A, how
    return _read(what, lambda np, a: tuple(getattr(np.linalg, what)(a, how)), A)


class _Qr(Function):
    forward = functools.partial(_factored, "qr")

    @staticmethod
    def backward(ctx, gq, gr):
        m, n = ctx.A.shape[-2:]
        if ctx.how != "reduced" and m > n:
            raise invalid("qr: gradients are those of mode 'reduced'")
        Q, R = qr(ctx.A)
        if m < n:  # R = [X Y]: A's first m columns are Q X, the others Q Y
            X, g_y = R[..., :m], gr[..., m:]
            gq = gq + ctx.A[..., m:] @ g_y.mT
            first = _qr_gradient(Q, X, gq, gr[..., :m])
            return _cat([first, Q @ g_y]), None
        return _qr_gradient(Q, R, gq, gr), None


def _cat(parts):
    from .creation import cat
    return cat(parts, -1)


def _qr_gradient(Q, R, gq, gr):
    inner = R @ gr.mT - gq.mT @ Q
    low = inner.tril(-1)
    inner = low + low.mT + inner.diagonal(0, -2, -1).diag_embed()
    return solve_triangular(R, (gq + Q @ inner).mT, upper=True).mT


@torch_words(input="A")
def qr(A, mode="reduced"):
    """(Q, R): A = Q R, Q with orthonormal columns and R upper triangular; mode "reduced", "complete" or
    "r" (Q is empty)."""
    if mode not in ("reduced", "complete", "r"):
        raise invalid(f"qr: mode '{mode}' is none of reduced, complete, r")
    _checked(A, "qr", False)
    if mode == "r":
        return QR(A.session.full((0,), 0, A.dtype), qr(A).R)
    return QR(*_Qr.apply(A, mode))


class _Eigh(Function):
    forward = functools.partial(_factored, "eigh")

    @staticmethod
    def backward(ctx, gw, gv):
        w, V = eigh(ctx.A, ctx.how)
        apart = w.unsqueeze(-2) - w.unsqueeze(-1)
        apart = _shoal.select(_eye(ctx.A).bool(), apart * 0 + math.inf, apart)
        inner = (V.mT @ gv) / apart + gw.diag_embed()
        return _symmetric(V @ inner @ V.mT), None


@torch_words(input="A")
def eigh(A, UPLO="L"):
    """(eigenvalues, ascending; eigenvectors, columns) of symmetric matrices, of which one triangle is read: the lower
    one, or with UPLO "U" the upper one."""
    if UPLO not in ("L", "U", "l", "u"):
        raise invalid(f"eigh: UPLO is {UPLO!r}; it must be 'L' or 'U'")
    return Eigh(*_Eigh.apply(_checked(A, "eigh"), UPLO))


@torch_words(input="A")
def eigvalsh(A, UPLO="L"):
    """The eigenvalues, ascending, of symmetric matrices."""
    return eigh(A, UPLO).eigenvalues


class _Svd(Function):
    forward = functools.partial(_factored, "svd")

    @staticmethod
    def backward(ctx, gu, gs, gvh):
        U, S, Vh = svd(ctx.A, False)
        k = S.shape[-1]
        gu, gv, V = gu[..., :k], gvh[..., :k, :].mT, Vh.mT
        square = S * S
        apart = square.unsqueeze(-2) - square.unsqueeze(-1)
        same = eye(k, dtype=S.dtype).bool()
        apart = _shoal.select(same, apart * 0 + 1, apart)
        left, right = U.mT @ gu, V.mT @ gv
        inner = ((left - left.mT) / apart) * S.unsqueeze(-2) + S.unsqueeze(-1) * ((right - right.mT) / apart)
        inner = inner + gs.diag_embed()
        made = U @ inner @ Vh
        if ctx.A.shape[-2] > k:
            over = gu / S.unsqueeze(-2)
            made = made + (over - U @ (U.mT @ over)) @ Vh
        if ctx.A.shape[-1] > k:
            over = gv / S.unsqueeze(-2)
            made = made + U @ (over - V @ (V.mT @ over)).mT
        return made, None


@torch_words(input="A")
def svd(A, full_matrices=True):
    """(U, S, Vh): A = U diag(S) Vh, the singular values descending."""
    return SVD(*_Svd.apply(_checked(A, "svd", False), bool(full_matrices)))


@torch_words(input="A")
def svdvals(A):
    """The singular values, descending."""
    return svd(A, False).S


def lu_factor(A, *, pivot=True):
    """(LU, pivots): both factors in one matrix, and with which row each was exchanged, from 1 on."""
    import numpy
    P, L, U = lu(A)
    n, m = A.shape[-2:]
    k = min(n, m)
    rows = numpy.argmax(P._detach().numpy(), -2)  # row i of the product is A's row rows[i]
    pivots = numpy.zeros(A.shape[:-2] + (k,), "int32")
    for at in numpy.ndindex(*A.shape[:-2]):
        order = list(range(n))
        for i in range(k):
            j = order.index(rows[at][i])
            order[i], order[j] = order[j], order[i]
            pivots[at + (i,)] = j + 1
    low = L.tril(-1).pad((0,) * A.ndim, (0,) * (A.ndim - 1) + (m - k,))
    high = U.pad((0,) * A.ndim, (0,) * (A.ndim - 2) + (n - k, 0))
    return LUFactor(low + high, A.session.tensor(pivots))


class _Lu(Function):
    @staticmethod
    def forward(ctx, A):
        ctx.A = A
        P, L, U = _read("lu", _eliminated, A)
        ctx.P = P
        ctx.mark_non_differentiable(P)
        return P, L, U

    @staticmethod
    def backward(ctx, _, gl, gu):
        if ctx.A.shape[-1] != ctx.A.shape[-2]:
            raise invalid("lu: gradients are those of square matrices")
        _, L, U = lu(ctx.A)
        inner = (L.mT @ gl).tril(-1) + (gu @ U.mT).triu()
        inner = solve_triangular(L.mT, inner, upper=True)
        return ctx.P @ solve_triangular(U, inner.mT, upper=True).mT


def _eliminated(np, a):
    """Gaussian elimination with partial pivots, a column at a time over all matrices."""
    n, m = a.shape[-2:]
    k = min(n, m)
    rest = a.astype("float64").reshape(-1, n, m).copy()
    orders = np.tile(np.arange(n), (len(rest), 1))
    every = np.arange(len(rest))
    low = np.zeros((len(rest), n, k))
    for i in range(k):
        at = i + abs(rest[:, i:, i]).argmax(1)
        for block in (rest, low):
            block[every, i], block[every, at] = block[every, at].copy(), block[every, i].copy()
        orders[every, i], orders[every, at] = orders[every, at].copy(), orders[every, i].copy()
        pivot = rest[:, i:i + 1, i]
        factor = rest[:, i + 1:, i] / np.where(pivot == 0, 1, pivot)
        low[:, i, i] = 1
        low[:, i + 1:, i] = factor
        rest[:, i + 1:] -= factor[:, :, None] * rest[:, i:i + 1]
    P = np.zeros((len(rest), n, n))
    P[every[:, None], orders, np.arange(n)] = 1
    shape = a.shape[:-2]
    return P.reshape(shape + (n, n)), low.reshape(shape + (n, k)), np.triu(rest[:, :k]).reshape(shape + (k, m))


def lu(A, *, pivot=True):
    """(P, L, U): A = P L U, by exchanging rows."""
    return LU(*_Lu.apply(_checked(A, "lu", False)))


def lu_solve(LU, pivots, B):
    """X with A X = B, from `lu_factor` of A."""
    if pivots.dtype != "int32":
        raise invalid(f"lu_solve: the pivots are {pivots._text()}; they must be int32, as lu_factor gives them")
    rows = pivots._detach().numpy()
    if rows.ndim > 1:
        raise invalid("lu_solve: of one matrix; solve takes many")
    order = list(range(LU.shape[-1]))
    for i, j in enumerate(rows):
        order[i], order[j - 1] = order[j - 1], order[i]
    x = solve_triangular(LU, B[order], upper=False, unitriangular=True)
    return solve_triangular(LU, x, upper=True)


# ---- solutions and inverses ----

def _check_sides(A, B, what):
    check_tensor(B, what, "the right side")
    if A.dtype != B.dtype:
        raise invalid(f"{what}: {A._text()} and {B._text()}; both must be of one element type")


def _check_rows(A, B, what):
    _check_sides(A, B, what)
    if B.ndim < 2 or B.shape[-2] != A.shape[-1]:
        raise invalid(f"{what}: {A._text()} and {B._text()}; the right side must be matrices of {A.shape[-1]} rows")


class _Solve(Function):
    @staticmethod
    def forward(ctx, A, B):
        ctx.A, ctx.B = A, B
        return _read("solve", lambda np, a, b: np.linalg.solve(a, b), A, B)

    @staticmethod
    def backward(ctx, g):
        X = _Solve.apply(ctx.A, ctx.B)
        gb = _Solve.apply(ctx.A.mT, g)
        return _fitted(-(gb @ X.mT), ctx.A), _fitted(gb, ctx.B)


def _fitted(g, x):
    """A gradient added up over the axes that x was broadcast along."""
    extra = g.ndim - x.ndim
    axes = tuple(range(extra)) + tuple(a + extra for a, n in enumerate(x.shape)
                                       if n == 1 and g.shape[a + extra] != 1)
    return (g.sum(axes) if axes else g).reshape(x.shape)


@torch_words(input="A", other="B")
def solve(A, B, *, left=True):
    """X with A X = B; B is a matrix or a vector; left=False: X A = B. Raises LinAlgError where A is
    singular."""
    _checked(A, "solve")
    _check_sides(A, B, "solve")
    if not left:
        return solve(A.mT, B.mT).mT
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    if B.shape[-1 if vector else -2:][:1] != A.shape[-1:]:
        raise invalid(f"solve: {A._text()} and {B._text()}; B must have {A.shape[-1]} rows")
    made = _Solve.apply(A, B.unsqueeze(-1) if vector else B)
    return made.squeeze(-1) if vector else made


class _Triangular(Function):
    @staticmethod
    def forward(ctx, A, B, upper, unit):
        ctx.A, ctx.B, ctx.how = A, B, (upper, unit)

        def call(np, a, b):
            a = np.triu(a) if upper else np.tril(a)
            if unit:
                a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
            return np.linalg.solve(a, b)
        return _read("solve_triangular", call, A, B)

    @staticmethod
    def backward(ctx, g):
        upper, unit = ctx.how
        X = _Triangular.apply(ctx.A, ctx.B, upper, unit)
        gb = _Triangular.apply(ctx.A.mT, g, not upper, unit)
        ga = -(gb @ X.mT)
        ga = ga.triu(int(unit)) if upper else ga.tril(-int(unit))
        return _fitted(ga, ctx.A), _fitted(gb, ctx.B), None, None


@torch_words(input="A")
def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X with A X = B, of which one triangle of A is read; unitriangular: its diagonal counts as ones."""
    _checked(A, "solve_triangular")
    if not left:
        return solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
    _check_rows(A, B, "solve_triangular")
    return _Triangular.apply(A, B, bool(upper), bool(unitriangular))


@torch_words(input="A")
def inv(A):
    """The inverse. Raises LinAlgError where a matrix is singular."""
    _checked(A, "inv")
    try:
        return _Solve.apply(A, _eye(A).broadcast_to(A.shape))
    except LinAlgError:
        raise LinAlgError(f"inv: {A._text()}: a matrix is singular") from None


inverse = inv


def inv_ex(A, *, check_errors=False):
    """(inverse, 0); (zeros, 1) where a matrix is singular."""
    try:
        return InvEx(inv(A), A.session.full(A.shape[:-2], 0, "int32"))
    except LinAlgError:
        if check_errors:
            raise
        return InvEx(A * 0, A.session.full(A.shape[:-2], 1, "int32"))


@torch_words(input="A")
def pinv(A, rcond=None, *, rtol=None, atol=None, hermitian=False):
    """The pseudo-inverse (Moore and Penrose); singular values up to rtol times the largest count as 0."""
    U, S, Vh = svd(A, False)
    used = _above(A, S, rcond if rtol is None else rtol, atol)
    inner = _shoal.select(used, 1 / _shoal.select(used, S, S * 0 + 1), S * 0)
    return Vh.mT @ (inner.unsqueeze(-1) * U.mT)


def _above(A, S, rtol, atol):
    from .dtypes import finfo
    if rtol is None:
        rtol = max(A.shape[-2:]) * finfo(A.dtype).eps if not atol else 0.0
    limit = S._detach().amax(-1, True) * rtol
    if atol is not None:
        limit = limit.maximum(atol)
    return S > limit


def lstsq(A, B, rcond=None, *, driver=None):
    """(solution, residuals, rank, singular_values): X of least |A X - B|, of these the shortest."""
    _checked(A, "lstsq", False)
    _check_sides(A, B, "lstsq")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise invalid(f"lstsq: driver {driver!r} is none of gels, gelsy, gelsd, gelss")
    vector = B.ndim == A.ndim - 1
    columns = B.unsqueeze(-1) if vector else B
    U, S, Vh = svd(A, False)
    used = _above(A, S, rcond, None)
    inner = _shoal.select(used, 1 / _shoal.select(used, S, S * 0 + 1), S * 0)
    X = Vh.mT @ (inner.unsqueeze(-1) * (U.mT @ columns))
    left = columns - A @ X
    rank = used.sum(-1)
    full = A.shape[-2] > A.shape[-1] and bool((rank == A.shape[-1]).all())
    residuals = (left * left).sum(-2) if full else A.session.full((0,), 0, A.dtype)
    return LSTSQ(X.squeeze(-1) if vector else X, residuals, rank, S)


@torch_words(input="A")
def matrix_rank(A, *, atol=None, rtol=None, hermitian=False, tol=None):
    """How many singular values are above rtol times the largest."""
    S = svdvals(A._detach())
    return _above(A, S, rtol, tol if atol is None else atol).sum(-1)


def _cholesky(A, upper=False):
    return cholesky(A, upper=upper)


def _cholesky_inverse(L, upper=False):
    return _cholesky_solve(_eye(L), L, upper)


def _cholesky_solve(B, L, upper=False):
    _check_rows(_checked(L, "cholesky_solve"), B, "cholesky_solve")
    L = L.mT if upper else L
    return solve_triangular(L.mT, solve_triangular(L, B, upper=False), upper=True)


def _triangular_solve(B, A, upper=True, transpose=False, unitriangular=False):
    _check_rows(_checked(A, "triangular_solve"), B, "triangular_solve")
    read, upper = (A.mT, not upper) if transpose else (A, upper)
    return _TriangularSolve(solve_triangular(read, B, upper=upper, unitriangular=unitriangular), A.clone())


def _svd(A, some=True, compute_uv=True):
    U, S, Vh = svd(A, not some)
    return _Factors(U, S, Vh.mT)


def _qr(A, some=True):
    return qr(A, "reduced" if some else "complete")


# ---- determinants, norms, powers ----

class _SlogDet(Function):
    @staticmethod
    def forward(ctx, A):
        sign, size = _read("slogdet", lambda np, a: tuple(np.linalg.slogdet(a)), A)
        ctx.A = A
        ctx.mark_non_differentiable(sign)
        return sign, size

    @staticmethod
    def backward(ctx, _, g):
        return g.unsqueeze(-1).unsqueeze(-1) * inv(ctx.A).mT


@torch_words(input="A")
def slogdet(A):
    """(sign, natural logarithm of the absolute value) of the determinant."""
    return SLogDet(*_SlogDet.apply(_checked(A, "slogdet")))


class _Det(Function):
    @staticmethod
    def forward(ctx, A):
        ctx.A = A
        return _read("det", lambda np, a: np.linalg.det(a), A)

    @staticmethod
    def backward(ctx, g):
        # The cofactors, from the singular values, of which some may be 0.
        U, S, Vh = svd(ctx.A)
        n = S.shape[-1]
        others = S.unsqueeze(-2).broadcast_to(S.shape + (n,))
        others = _shoal.select(eye(n, dtype=S.dtype).bool(), others * 0 + 1, others).prod(-1)
        turn = (det(U._detach()) * det(Vh._detach())).round()
        return (g * turn).unsqueeze(-1).unsqueeze(-1) * (U @ (others.unsqueeze(-1) * Vh))


@torch_words(input="A")
def det(A):
    """The determinant."""
    return _Det.apply(_checked(A, "det"))


def _positive(dim, ndim, what):
    return tuple(axis_of(a, ndim, what) for a in ((dim,) if isinstance(dim, int) else dim))


@torch_words(input="x", axis="dim", keepdims="keepdim")
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The ord-norm of all elements, or along axes; ord: a number, which may be infinite."""
    check_tensor(x, "vector_norm")
    check_number(ord, "vector_norm", "ord")
    return x.norm(ord, dim, keepdim, dtype=dtype)


@torch_words(input="A", axis="dim", keepdims="keepdim")
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """A norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2, -2."""
    check_tensor(A, "matrix_norm")
    A = A if dtype is None else A.astype(dtype)
    if isinstance(dim, int) or len(dim) != 2:
        raise invalid(f"matrix_norm: axes {dim} of {A._text()}; two are needed")
    rows, columns = _positive(dim, A.ndim, "matrix_norm")
    if ord == "fro":
        return A.norm(2, (rows, columns), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        total = abs(A).sum(summed, True)
        made = total.amax(kept, True) if ord > 0 else total.amin(kept, True)
        return made if keepdim else made.squeeze((rows, columns))
    if ord not in (2, -2, "nuc"):
        raise invalid(f"matrix_norm: ord {ord!r} is none of fro, nuc, inf, -inf, 1, -1, 2, -2")
    S = svdvals(A.movedim((rows, columns), (-2, -1)))
    made = S.sum(-1) if ord == "nuc" else S.amax(-1) if ord == 2 else S.amin(-1)
    if not keepdim:
        return made
    for a in sorted((rows, columns)):
        made = made.unsqueeze(a)
    return made


@torch_words(input="A", axis="dim", keepdims="keepdim")
def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """`vector_norm`, or with two axes (or a matrix and an ord) `matrix_norm`."""
    check_tensor(A, "norm")
    if dim is None and ord is not None and A.ndim > 2:
        raise invalid(f"norm: {A._text()} is neither a vector nor a matrix: with ord {ord!r} give dim, one axis or two")
    if dim is None and ord is not None and A.ndim == 2:
        dim = (0, 1)
    if ord in ("fro", "nuc") or isinstance(dim, (tuple, list)) and len(dim) == 2 and ord is not None:
        dim = range(A.ndim) if dim is None else dim
        return matrix_norm(A, ord, dim, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@torch_words(input="A")
def cond(A, p=None):
    """The condition number: the p-norm of A times that of its inverse; p None: 2, by the singular values."""
    if p in (None, 2, -2):
        S = svdvals(A)
        return S.amin(-1) / S.amax(-1) if p == -2 else S.amax(-1) / S.amin(-1)
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


@torch_words(input="A")
def matrix_power(A, n):
    """A square matrix times itself, n times; n may be negative."""
    check_tensor(A, "matrix_power")
    check_integer(n, "matrix_power", "n")
    return A.matrix_power(n)


@torch_words(input="A")
def matrix_exp(A):
    """e to the power of square matrices, by the Taylor series of a small part, squared again and again."""
    _checked(A, "matrix_exp")
    size = float(matrix_norm(A._detach(), 1).amax().item()) if A.numel() else 0.0
    squared = max(0, math.ceil(math.log2(size)) + 3) if size > 0 else 0
    small = A * 2.0 ** -squared
    made = term = _eye(A).broadcast_to(A.shape) * 1.0
    for k in range(1, 13 if A.dtype == "float32" else 19):
        term = term @ small * (1.0 / k)
        made = made + term
    for _ in range(squared):
        made = made @ made
    return made


# ---- products ----

def matmul(input, other):
    """The product of matrices, as `shoal.matmul`."""
    return input @ other


@torch_words(axis="dim")
def cross(input, other, *, dim=-1):
    """The cross product of vectors of three along an axis."""
    check_tensor(input, "cross")
    check_tensor(other, "cross", "the second factor")
    if input.dtype != other.dtype:
        raise invalid(f"cross: {input._text()} and {other._text()}; both must be of one element type")
    return input.cross(other, dim)


@torch_words(axis="dim")
def vecdot(x, y, *, dim=-1):
    """The sums of products along an axis."""
    check_tensor(x, "vecdot")
    check_tensor(y, "vecdot", "the second factor")
    if x.dtype != y.dtype:
        raise invalid(f"vecdot: {x._text()} and {y._text()}; both must be of one element type")
    return (x * y).sum(dim)


@torch_words(axis1="dim1", axis2="dim2")
def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


def multi_dot(tensors):
    """The product of several matrices, in the order that takes the fewest multiplications; the first and
    the last may be vectors."""
    tensors = tensors_of(tensors, "multi_dot")
    if len(tensors) < 2:
        raise invalid(f"multi_dot: {len(tensors)} tensors; at least two are needed")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    for i, t in enumerate(tensors):
        if t.ndim != 2 and not (t.ndim == 1 and i in (0, len(tensors) - 1)):
            raise invalid(f"multi_dot: tensor {i} is {t._text()}; matrices are needed, or vectors at the ends")
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(1)
    n = len(tensors)
    sizes = [t.shape[0] for t in tensors] + [tensors[-1].shape[1]]
    best = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                             for k in range(i, j))

    def product(i, j):
        return tensors[i] if i == j else product(i, best[i, j][1]) @ product(best[i, j][1] + 1, j)
    made = product(0, n - 1) if n > 1 else tensors[0].clone()
    made = made.squeeze(0) if first else made
    return made.squeeze(-1) if last else made


def chain_matmul(*matrices):
    """`multi_dot` of its arguments; of a single matrix a copy."""
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(matrices)


def tensorsolve(A, B, dims=None):
    """X with tensordot(A, X, X.ndim) = B."""
    if dims is not None:
        order = [a for a in range(A.ndim) if a not in _positive(dims, A.ndim, "tensorsolve")]
        A = A.permute(*order, *_positive(dims, A.ndim, "tensorsolve"))
    shape = A.shape[B.ndim:]
    n = math.prod(shape)
    return solve(A.reshape(B.numel(), n), B.reshape(-1)).reshape(shape)


def tensorinv(A, ind=2):
    """The inverse of A as a map from its last axes to its first `ind`."""
    shape = A.shape[ind:] + A.shape[:ind]
    return inv(A.reshape(math.prod(A.shape[:ind]), -1)).reshape(shape)


@torch_words(N="n")
def vander(x, *, n=None):
    """Rows of the ascending powers of each element."""
    from .creation import vander as powers
    if not x.ndim:
        raise invalid(f"vander: {x._text()} has no axis")
    return powers(x, n, True)


"""Products of matrices and vectors, and what is made of neighbours: differences, areas, covariances."""
import math

from . import _shoal
from .amp import cast
from .indexing import required
from .views import owned
from .words import axis_of, check_tensor, invalid, torch_words


def _cat(tensors, axis):
    return _shoal.apply(tensors[0].session, "concatenate", tensors, {"dimension": axis}, 1)[0]


class Products:
    """What `Tensor` has from here."""

    __slots__ = ()

    def matmul(self, other):
        """NumPy's matmul: the last axis of this against the last but one of `other`."""
        return self @ other

    @torch_words(mat2="other")
    def mm(self, other):
        """The product of two matrices: (N, M) by (M, P) gives (N, P)."""
        return self._ranked("mm", other, 2, 2)

    @torch_words(mat2="other")
    def bmm(self, other):
        """The products of the matrices of two batches: (B, N, M) by (B, M, P) gives (B, N, P)."""
        check_tensor(other, "bmm", "the second factor")
        if other.ndim == 3 == self.ndim and self.shape[0] != other.shape[0]:
            raise invalid(f"bmm: {self._text()} and {other._text()} differ in the number of matrices")
        return self._ranked("bmm", other, 3, 3)

    @torch_words(vec="vector")
    def mv(self, vector):
        """A matrix by a vector: (N, M) by (M) gives (N)."""
        return self._ranked("mv", vector, 2, 1)

    @torch_words(tensor="other")
    def dot(self, other):
        """The sum of the products of two vectors."""
        return self._ranked("dot", other, 1, 1)

    @torch_words(tensor="other")
    def vdot(self, other):
        """`dot`."""
        return self._ranked("vdot", other, 1, 1)

    def _ranked(self, name, other, mine, its):
        check_tensor(other, name, "the second factor")
        if (self.ndim, other.ndim) != (mine, its):
            raise invalid(f"{name}: {self._text()} and {other._text()}; {mine} and {its} axes are "
                          "needed (matmul takes any)")
        return self @ other

    def inner(self, other):
        """The sums of products along the last axes of both."""
        if not self.ndim or not other.ndim:
            return self * other
        return self.tensordot(other, ([-1], [-1]))

    @torch_words(vec2="other")
    def outer(self, other):
        """The products of all elements of a vector with all of another: (N) and (M) give (N, M)."""
        if self.ndim != 1 or other.ndim != 1:
            raise invalid(f"outer: {self._text()} and {other._text()}; vectors are needed")
        return self.unsqueeze(1) * other.unsqueeze(0)

    ger = outer

    def kron(self, other):
        """The Kronecker product: each element times the whole of the other."""
        check_tensor(other, "kron")
        rank = max(self.ndim, other.ndim)
        a, b = (t.reshape((1,) * (rank - t.ndim) + t.shape) for t in (self, other))
        shape = tuple(n * m for n, m in zip(a.shape, b.shape))
        a = a.reshape(tuple(n for m in a.shape for n in (m, 1)))
        b = b.reshape(tuple(n for m in b.shape for n in (1, m)))
        return (a * b).reshape(shape)

    def tensordot(self, other, dims=2):
        """Sums of products over axes: the last `dims` of this with the first of the other, or two lists of axes."""
        if hasattr(dims, "tolist"):
            dims = dims.tolist()
        if isinstance(dims, int):
            if dims < 0:
                raise invalid(f"tensordot: dims is {dims}; it must not be negative")
            dims = (list(range(self.ndim - dims, self.ndim)), list(range(dims)))
        mine, its = ([axis_of(a, t.ndim, "tensordot") for a in ((axes,) if isinstance(axes, int) else axes)]
                     for axes, t in zip(dims, (self, other)))
        if [self.shape[a] for a in mine] != [other.shape[a] for a in its]:
            raise invalid(f"tensordot: axes {mine} of {self._text()} and {its} of {other._text()} differ in "
                          "length")
        a, b = self._alike(other)
        return _shoal.apply(self.session, "dot_general", (a, b), {
            "lhs_batching_dimensions": [], "rhs_batching_dimensions": [],
            "lhs_contracting_dimensions": mine, "rhs_contracting_dimensions": its}, 1)[0]

    def _plus(self, product, beta, alpha):
        product = product if alpha == 1 else product * alpha
        if beta == 0:
            return product.broadcast_to(product.shape)
        self, = cast(self)  # as the product's operands were
        return (self if beta == 1 else self * beta) + product

    @torch_words(mat1="a", mat2="b")
    def addmm(self, a, b, beta=1, alpha=1):
        """beta x + alpha a @ b."""
        return self._plus(a @ b, beta, alpha)

    @torch_words(mat="a", vec="b")
    def addmv(self, a, b, beta=1, alpha=1):
        """beta x + alpha a @ b, of a matrix and a vector."""
        return self._plus(a @ b, beta, alpha)

    @torch_words(vec1="a", vec2="b")
    def addr(self, a, b, beta=1, alpha=1):
        """beta x + alpha times the outer product of two vectors."""
        return self._plus(a.outer(b), beta, alpha)

    @torch_words(batch1="a", batch2="b")
    def baddbmm(self, a, b, beta=1, alpha=1):
        """beta x + alpha a @ b, of batches of matrices: a (B, N, M), b (B, M, P), x broadcast to (B, N, P)."""
        return self._plus(a @ b, beta, alpha)

    @torch_words(batch1="a", batch2="b")
    def addbmm(self, a, b, beta=1, alpha=1):
        """beta x + alpha times the sum over a batch of the products of its matrices: a (B, N, M), b (B, M, P), x
        broadcast to (N, P)."""
        return self._plus((a @ b).sum(0), beta, alpha)

    @torch_words
    def cross(self, other, axis=None):
        """The cross product of vectors of three along an axis (None: the first of length 3)."""
        if axis is None:
            axis = next((a for a, n in enumerate(self.shape) if n == 3), -1)
        check_tensor(other, "cross", "the second factor")
        x, y = self._alike(other)
        shape = (x * y).shape
        axis = axis_of(axis, len(shape), "cross")
        if shape[axis] != 3:
            raise invalid(f"cross: axis {axis} of {x._text()} is not of length 3")
        (a, b, c), (d, e, f) = (t.broadcast_to(shape).unbind(axis) for t in (x, y))
        parts = [b * f - c * e, c * d - a * f, a * e - b * d]
        return _cat([p.unsqueeze(axis) for p in parts], axis)

    @owned
    def matrix_power(self, n):
        """A square matrix times itself, n times; n may be negative."""
        if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
            raise invalid(f"matrix_power: {self._text()} is not square")
        if n < 0:
            return self.inverse().matrix_power(-n)
        made, power = None, self
        while n:
            if n & 1:
                made = power if made is None else made @ power
            n >>= 1
            power = power @ power if n else power
        return self * 0 + self._one() if made is None else made

    def _one(self):
        """The identity of this matrix's size."""
        from .creation import eye
        return eye(self.shape[-1], dtype=self.dtype)

    # ---- neighbours ----

    @torch_words
    def diff(self, n=1, axis=-1, prepend=None, append=None):
        """Differences of neighbours along an axis, n times."""
        axis = axis_of(axis, self.ndim, "diff")
        x = _cat([t for t in (prepend, self, append) if t is not None], axis)
        for _ in range(n):
            count = max(x.shape[axis] - 1, 0)
            later, earlier = x.narrow(axis, min(1, x.shape[axis]), count), x.narrow(axis, 0, count)
            x = later ^ earlier if x.dtype == "bool" else later - earlier
        return x

    @torch_words
    def trapezoid(self, x=None, *, dx=1.0, axis=-1):
        """The area under a curve along an axis, by trapezoids; x: where the points lie."""
        return self._trapezoids(x, dx, axis).sum(axis)

    @torch_words
    def cumulative_trapezoid(self, x=None, *, dx=1.0, axis=-1):
        """The areas under a curve up to each point but the first."""
        return self._trapezoids(x, dx, axis).cumsum(axis)

    def _trapezoids(self, x, dx, axis):
        axis = axis_of(axis, self.ndim, "trapezoid")
        n = self.shape[axis] - 1
        middle = (self.narrow(axis, 1, n) + self.narrow(axis, 0, n)) * 0.5
        if x is None:
            return middle * dx
        if x.ndim == 1:
            x = x.reshape((-1,) + (1,) * (self.ndim - axis - 1))
            return middle * (x.narrow(0, 1, n) - x.narrow(0, 0, n))
        return middle * (x.narrow(axis, 1, n) - x.narrow(axis, 0, n))

    def cov(self, *, correction=1, fweights=None, aweights=None):
        """The covariances of variables, one row each, over observations, the columns."""
        if self.ndim > 2:
            raise invalid(f"cov: {self._text()} is neither a vector nor a matrix")
        if fweights is not None:
            fweights = required(fweights, fweights >= 0, "cov: a weight of fweights is negative")
        x = self._floating() if self.ndim > 1 else self._floating().reshape(1, -1)
        weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
        if weights is None:
            count = x.shape[1]
            moved = x - x.mean(1, True)
            made = moved @ moved.mT / float(max(0, count - correction))
        else:
            weights = weights.astype(x.dtype)
            total = weights.sum()
            moved = x - (x * weights).sum(1, True) / total
            less = correction if aweights is None else \
                correction * (weights * aweights.astype(x.dtype)).sum() / total
            made = (moved * weights) @ moved.mT / (total - less)
        return made if self.ndim > 1 else made.reshape(())

    def corrcoef(self):
        """The correlations of variables, one row each, over observations, the columns."""
        made = self.cov()
        if not made.ndim:
            return made / made
        size = made.diagonal().sqrt()
        return (made / size.unsqueeze(0) / size.unsqueeze(1)).clamp(-1, 1)

    @torch_words(dim1="axis1", dim2="axis2")
    def diag_embed(self, offset=0, axis1=-2, axis2=-1):
        """Matrices with the last axis on their diagonals."""
        n = self.shape[-1] + abs(offset)
        flat = self.reshape(-1, self.shape[-1])
        line = flat.pad((0, offset if offset >= 0 else -offset * n), (0, 0), 0, (0, n))
        line = line.pad((0, 0), (0, n * n - line.shape[1])) if self.shape[-1] else \
            self.session.full((flat.shape[0], n * n), 0, self.dtype)
        made = line.reshape(*self.shape[:-1], n, n)
        return made.movedim((-2, -1), (axis1, axis2))

    def diagflat(self, offset=0):
        """A matrix with all elements on a diagonal."""
        return self.ravel().diag(offset)

    def cdist(self, other, p=2.0):
        """The p-norm of the difference of each row with each of the other's rows."""
        if not p >= 0:
            raise invalid(f"cdist: p is {p}; it must not be negative")
        check_tensor(other, "cdist", "the second input")
        apart = self.unsqueeze(-2) - other.unsqueeze(-3)
        if p == math.inf:
            return abs(apart).amax(-1)
        return apart.norm(p, -1)

    def logdet(self):
        """The logarithm of the determinant; NaN where that is negative."""
        from .linalg import slogdet
        sign, size = slogdet(self)
        return _shoal.select(sign < 0, size._coerce(math.nan), size)


def _linalg(name, of=None):
    def method(self, *args, **keywords):
        from . import linalg
        return getattr(linalg, of or name)(self, *args, **keywords)
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"See `shoal.linalg.{of or name}`."
    return method


for _name, _of in {"det": None, "slogdet": None, "inverse": "inv", "pinverse": "pinv", "svd": "_svd",
                   "qr": "_qr", "cholesky": "_cholesky", "cholesky_inverse": "_cholesky_inverse",
                   "cholesky_solve": "_cholesky_solve", "triangular_solve": "_triangular_solve",
                   "matrix_exp": None}.items():
    setattr(Products, _name, _linalg(_name, _of))

NAMES = """mm bmm mv dot vdot inner outer ger kron tensordot addmm addmv addr baddbmm addbmm cross matrix_power
    diff trapezoid cumulative_trapezoid cov corrcoef diag_embed diagflat cdist logdet det slogdet inverse
    pinverse svd qr cholesky cholesky_inverse cholesky_solve triangular_solve matrix_exp""".split()

"""Functions of each element beyond the table's operations, written in those: trigonometry, special
functions, what torch and NumPy know of single numbers.

Integers and bool count as float32 where the result is no integer, as in torch.
"""
import functools
import math

from . import _shoal
from .dtypes import DTYPES
from .words import dtype_name, invalid, is_floating

_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)
# Of the asymptotic series of digamma: -B(2k) / (2k).
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
# Of the inverse of the error function (Giles, 2012), near 0 and at the ends.
_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
         -0.00417768164, 0.246640727, 1.50140941)
_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
        0.00943887047, 1.00167406, 2.83297682)


def polynomial(x, coefficients):
    """The value at x, the coefficient of the highest power first."""
    total = x * 0 + coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def _rounded_once(method):
    """Has a method work on floating types, small ones as float32, so that they are rounded once, at the end."""
    @functools.wraps(method)
    def either(self, *args):
        x = self._floating()
        return method(x._wide(), *args).astype(x.dtype)
    return either


def _off_whole(x):
    """How far it is from the nearest integer; a zero keeps its sign."""
    return _shoal.select(x == 0, x, x - x._detach().round())


def _asinh_near(x, square):
    """asinh of what is neither negative nor large, whose square is given."""
    return (x + square / (1 + (1 + square).sqrt())).log1p()


class Elementwise:
    """What `Tensor` has from here."""

    __slots__ = ()

    # ---- angles ----

    def asin(self):
        """The angle whose sine is x."""
        x = self._floating()
        return x.arctan2((1 - x).sqrt() * (1 + x).sqrt())

    def acos(self):
        """The angle whose cosine is x."""
        x = self._floating()
        return ((1 - x).sqrt() * (1 + x).sqrt()).arctan2(x)

    def atan(self):
        """The angle whose tangent is x."""
        return self._floating().arctan2(1)

    @_rounded_once
    def sinh(self):
        """The hyperbolic sine."""
        up, down = (self * 0.5).exp(), (self * -0.5).exp()  # whose squares may overflow
        grown = _shoal.select(abs(self) < 1, self, self._coerce(0)).expm1()
        return _shoal.select(abs(self) < 1, (grown + grown / (grown + 1)) * 0.5, up * 0.5 * up - down * 0.5 * down)

    @_rounded_once
    def cosh(self):
        """The hyperbolic cosine."""
        up, down = (self * 0.5).exp(), (self * -0.5).exp()
        return up * 0.5 * up + down * 0.5 * down

    @_rounded_once
    def asinh(self):
        """The inverse of sinh."""
        size = abs(self)
        usual = size.clamp(max=1e10)  # whose square is finite
        far = size.clamp(min=1).log() + math.log(2)
        made = _shoal.select(size > 1e10, far, _asinh_near(usual, usual * usual))
        # Near 0 the first two terms of the series, for the gradient: that of a sign is 0 there.
        near = _shoal.select(size < 1e-4, self, self._detach() * 0)
        return _shoal.select(size < 1e-4, near * (1 - near * near / 6), made.copysign(self))

    @_rounded_once
    def acosh(self):
        """The inverse of cosh, not negative."""
        far = self > 1e10
        half = (_shoal.select(far, self._coerce(1.5), self) - 1) * 0.5
        return _shoal.select(far, self.log() + math.log(2), _asinh_near(half.sqrt(), half) * 2)

    def atanh(self):
        """The inverse of tanh."""
        x = self._floating()
        return (x.log1p() - (-x).log1p()) * 0.5

    arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh

    def deg2rad(self):
        """Degrees as radians."""
        return self._floating() * (math.pi / 180)

    def rad2deg(self):
        """Radians as degrees."""
        return self._floating() * (180 / math.pi)

    def sinc(self):
        """sin(pi x) / (pi x); 1 at 0."""
        x = self._floating() * math.pi
        some = x != 0
        inner = _shoal.select(some, x, x * 0 + 1)
        return _shoal.select(some, inner.sin() / inner, x * 0 + 1)

    def hypot(self, other):
        """sqrt(x^2 + y^2)"""
        x, y = self._floating_pair(other)
        a, b = abs(x), abs(y)
        most = a.maximum(b)
        scale = _shoal.select((most > 0) & most.isfinite(), most, most._coerce(1))._detach()
        made = ((a / scale).square() + (b / scale).square()).sqrt() * scale
        return _shoal.select((a == math.inf) | (b == math.inf), made._coerce(math.inf), made)

    # ---- logarithms and powers ----

    @_rounded_once
    def log2(self):
        """The logarithm to base 2."""
        from .derived import logarithm
        return logarithm(self, 2)

    @_rounded_once
    def log10(self):
        """The logarithm to base 10."""
        from .derived import logarithm
        return logarithm(self, 10)

    @_rounded_once
    def exp2(self):
        """2 to the power x; that of integers is exact."""
        from .derived import exp2
        return exp2(self)

    def square(self):
        """x x; that of bool is int64."""
        x = self.astype("int64") if self.dtype == "bool" else self
        return x * x

    def reciprocal(self):
        """1 / x."""
        return 1 / self

    def float_power(self, exponent):
        """x to a power, as float64."""
        other = exponent.astype("float64") if hasattr(exponent, "session") else float(exponent)
        return self.astype("float64") ** other

    def logaddexp(self, other):
        """log(e^x + e^y), where e^x itself may overflow."""
        x, y = self._floating_pair(other)
        top = x.maximum(y)
        apart = _shoal.select(x == y, x * 0, -abs(x - y))
        apart = _shoal.select((x == y) & x.isinf(), x.isinf().astype(x.dtype) * 0, apart)
        return top + apart.exp().log1p()

    def logaddexp2(self, other):
        """log2(2^x + 2^y), where 2^x itself may overflow."""
        x, y = self._floating_pair(other)
        return (x * math.log(2)).logaddexp(y * math.log(2)) * (1 / math.log(2))

    def xlogy(self, other):
        """x log y; 0 where x is 0, and NaN where y is."""
        x, y = self._floating_pair(other)
        # Above 0 the product is 0 by itself, and has the gradient log y.
        nothing = (x == 0) & ((y <= 0) | (y == math.inf))
        return _shoal.select(nothing, x * 0, x * _shoal.select(nothing, y._coerce(1.0), y).log())

    def logit(self, eps=None):
        """log(x / (1 - x)); eps: x is moved into [eps, 1 - eps] first."""
        x = self._floating() if eps is None else self._floating().clamp(eps, 1 - eps)
        x = x * _shoal.select((x < 0) | (x > 1), x._coerce(math.nan), x._coerce(1.0))
        return x.log() - (-x).log1p()

    def ldexp(self, other):
        """x 2^y"""
        return self * self._coerce(other, "ldexp")._floating().exp2()

    def frexp(self):
        """(mantissa, exponent): x = mantissa 2^exponent, the mantissa in [0.5, 1)."""
        x = self._floating()
        size = abs(x)
        some = (size > 0) & size.isfinite()
        inner = _shoal.select(some, size, size * 0 + 1)
        exponent = _shoal.select(some, inner.log2().floor() + 1, size * 0)
        share = x * (-exponent).exp2()
        up, down = abs(share) >= 1, some & (abs(share) < 0.5)
        exponent = exponent + up.astype(x.dtype) - down.astype(x.dtype)
        exponent = _shoal.select(some, exponent, size * 0)
        mantissa = _shoal.select(up, share * 0.5, _shoal.select(down, share * 2, share))
        return _shoal.select(some, mantissa, x), exponent.astype("int32")

    # ---- special functions ----

    @_rounded_once
    def erfc(self):
        """1 - erf(x)"""
        from .derived import erfc
        return erfc(self)

    @_rounded_once
    def erfinv(self):
        """The inverse of the error function."""
        inside = abs(self) < 1
        x = _shoal.select(inside, self, self._coerce(0))
        w = -((1 - x) * (1 + x)).log()
        made = _shoal.select(w < 5, polynomial(w - 2.5, _NEAR), polynomial(w.clamp(min=5).sqrt() - 3, _FAR)) * x
        for _ in range(2 if x.dtype == "float64" else 1):  # Newton
            off = (made.erf() - x) / ((-made * made).exp() * (2 / math.sqrt(math.pi)))
            made = made - _shoal.select(off.isfinite(), off, off._coerce(0))
        # At the ends value and gradient are infinite, beyond them NaN.
        beyond = _shoal.select(abs(self) == 1, self._coerce(math.inf), self._coerce(math.nan))
        return _shoal.select(inside, made, self * _shoal.select(inside, self._coerce(1), beyond))

    @_rounded_once
    def lgamma(self):
        """The logarithm of the absolute value of the gamma function (Lanczos, 1964)."""
        x = _shoal.select(self.isinf(), self._coerce(1), self)
        low = x < 0.5
        z = _shoal.select(low, 1 - x, x) - 1
        total = z * 0 + 0.99999999999980993
        for i, c in enumerate(_LANCZOS):
            total = total + c / (z + (i + 1))
        t = z + 7.5
        above = (z + 0.5) * t.log() - t + total.log() + 0.5 * math.log(2 * math.pi)
        sine = (_shoal.select(low, _off_whole(x), x * 0 + 0.5) * math.pi).sin()
        sine = sine * _shoal.select(sine.signbit(), sine._coerce(-1), sine._coerce(1))  # |sine| has no gradient at 0
        made = _shoal.select(low, math.log(math.pi) - sine.log() - above, above)
        made = made - _shoal.select((x == 1) | (x == 2), made, made._coerce(0))._detach()
        return _shoal.select(self.isinf(), self * self, made)

    def igamma(self, other):
        """The lower regularised incomplete gamma function of a, this tensor, and x = other; gradients with respect to
        x. NaN where one is negative."""
        from .gamma import incomplete
        return incomplete(self, other, False)

    def igammac(self, other):
        """The upper one: 1 - igamma, without its loss of digits."""
        from .gamma import incomplete
        return incomplete(self, other, True)

    def digamma(self):
        """The derivative of lgamma."""
        return self.polygamma(0)

    def polygamma(self, n):
        """The n-th derivative of digamma."""
        if n < 0:
            raise invalid(f"polygamma: n is {n}; it must not be negative")
        return self._polygamma(n)

    @_rounded_once
    def _polygamma(self, n):
        low = self <= 0
        whole = low & (self == self.floor())
        z = _shoal.select(low, 1 - _shoal.select(whole, self._coerce(-0.5), self), self)
        total = 0.0
        for _ in range(8):  # up to where the series holds
            total = total + (-1 / z if n == 0 else (-1) ** (n + 1) * math.factorial(n) * (1 / z) ** (n + 1))
            z = z + 1
        far = 1 / z  # of which infinity is made 0 before it is raised to a power
        if n == 0:
            total = total + z.log() - 0.5 * far + polynomial(far * far, _DIGAMMA[::-1]) * far * far
        else:
            tail = math.factorial(n - 1) * far ** n + math.factorial(n) * 0.5 * far ** (n + 1)
            for k, c in enumerate(_DIGAMMA, 1):
                bernoulli = -c * 2 * k
                tail = tail + bernoulli * math.factorial(2 * k + n - 1) / math.factorial(2 * k) * far ** (2 * k + n)
            total = total + (-1) ** (n + 1) * tail
        # The reflection formula: the n-th derivative of the cotangent is a polynomial of it.
        near = _off_whole(self)
        angle = _shoal.select(low & ~whole, near, self._coerce(0.25)) * math.pi
        powers = [0.0, 1.0]  # the lowest first
        for _ in range(n):
            slopes = [-math.pi * k * c for k, c in enumerate(powers)][1:]
            powers = [a + b for a, b in zip([*slopes, 0.0, 0.0], [0.0, 0.0, *slopes])]
        mirrored = (-1) ** n * total - math.pi * polynomial(1 / angle.tan(), powers[::-1])
        made = _shoal.select(low, mirrored, total)
        pole = _shoal.select(whole, near, self._coerce(1))  # what is added at poles, where all else is finite
        poles = (-1) ** (n + 1) * math.factorial(n) * (1 / (pole if n == 0 else pole + 0.0)) ** (n + 1)
        if n == 0:
            poles = poles * _shoal.select(self < 0, self._coerce(math.nan), self._coerce(1))
        return _shoal.select(whole, poles, made)

    def mvlgamma(self, p):
        """The logarithm of the multivariate gamma function of dimension p."""
        if p < 1:
            raise invalid(f"mvlgamma: p is {p}; it must be at least 1")
        total = self.lgamma()
        for j in range(1, p):
            total = total + (self - j / 2).lgamma()
        return total + p * (p - 1) / 4 * math.log(math.pi)

    def i0(self):
        """The modified Bessel function of the first kind, of order 0."""
        from .derived import i0
        return i0(self._floating())

    # ---- signs, parts and limits ----

    def _in_steps(self, made):
        """`made`, which changes with x in steps alone: a gradient that passes through it is 0, as in torch, and not missing."""
        return _shoal.select(self.session.full((), False, "bool"), self, made) if self.requires_grad else made

    def trunc(self):
        """The integer part, rounded towards 0; integers stay."""
        if not is_floating(self.dtype):
            return self.clone()
        return _shoal.select(self < 0, self.ceil(), self.floor())

    fix = trunc

    def frac(self):
        """What `trunc` takes off."""
        return self - self.trunc()

    def round(self, decimals=0):
        """The nearest integer, halves to even; decimals: the places after the point that are kept."""
        if not is_floating(self.dtype):
            return self.clone()
        if decimals == 0:
            return self._in_steps(self._unary("round_nearest_even"))
        scale = 10.0 ** abs(decimals)
        scaled = self * scale if decimals > 0 else self / scale
        return scaled.round() / scale if decimals > 0 else scaled.round() * scale

    def ceil(self):
        """The least integer that is not less, in the element type; integers stay."""
        return self._in_steps(self._unary("ceil")) if is_floating(self.dtype) else self.clone()

    def floor(self):
        """The greatest integer that is not greater, in the element type; integers stay."""
        return self._in_steps(self._unary("floor")) if is_floating(self.dtype) else self.clone()

    def sign(self):
        """-1, 0 or 1; 0 for NaN, as in torch."""
        if self.dtype == "bool":
            return self.clone()
        if self.dtype.startswith("u"):
            return (self != 0).astype(self.dtype)
        made = self._unary("sign")
        return self._in_steps(_shoal.select(self == self, made, made._coerce(0).astype(self.dtype))) \
            if is_floating(self.dtype) else made

    def sgn(self):
        """`sign`."""
        return self.sign()

    def signbit(self):
        """Whether the sign is minus, also of zeros and NaN."""
        if not is_floating(self.dtype):
            return self < 0 if not self.dtype.startswith("u") and self.dtype != "bool" else \
                self.session.full(self.shape, False, "bool")
        bits = f"int{8 * self.dtype.itemsize}"
        return self._detach().bitcast(bits) < 0

    def copysign(self, other):
        """The size of x with the sign of y."""
        x, y = self._floating_pair(other)
        if x.requires_grad:  # 0 has no gradient
            x = _shoal.select(x == 0, x._detach(), x)
        return _shoal.select(y.signbit() == x.signbit(), x, -x)

    def positive(self):
        """Itself."""
        return self

    def heaviside(self, values):
        """0 where x is negative, 1 where it is positive, else the value."""
        x, v = self._pair(values)
        steps = _shoal.select((x == 0).broadcast_to(_together(x, v)), v.broadcast_to(_together(x, v)),
                              (x > 0).astype(x.dtype).broadcast_to(_together(x, v)))
        return _shoal.select((x == x).broadcast_to(steps.shape), steps, x.broadcast_to(steps.shape))

    def nan_to_num(self, nan=0.0, posinf=None, neginf=None):
        """NaN and infinities as numbers: by default 0, the largest and the smallest of the type."""
        if not is_floating(self.dtype):
            return self.clone()
        from .dtypes import finfo
        limits = finfo(self.dtype)
        nan = 0.0 if nan is None else nan
        made = _shoal.select(self == self, self, self._coerce(nan))
        made = _shoal.select(made == math.inf, self._coerce(limits.max if posinf is None else posinf), made)
        return _shoal.select(made == -math.inf, self._coerce(limits.min if neginf is None else neginf), made)

    def fmax(self, other):
        """The larger; the other one where one is NaN. Of equal ones the gradient is x's."""
        x, y = self._pair(other)
        shape = _together(x, y)
        x, y = x.broadcast_to(shape), y.broadcast_to(shape)
        return _shoal.select((x >= y) | (y != y), x, y)

    def fmin(self, other):
        """The smaller; the other one where one is NaN. Of equal ones the gradient is x's."""
        x, y = self._pair(other)
        shape = _together(x, y)
        x, y = x.broadcast_to(shape), y.broadcast_to(shape)
        return _shoal.select((x <= y) | (y != y), x, y)

    def nextafter(self, other):
        """The next number of the type from x towards y."""
        x, y = self._floating_pair(other)
        shape = _together(x, y)
        x, y = x.broadcast_to(shape), y.broadcast_to(shape)
        kind = f"int{8 * x.dtype.itemsize}"
        bits = x.bitcast(kind)
        least = x._coerce(1).astype(kind).bitcast(x.dtype)
        away = (y > x) == (x > 0)
        moved = (bits + _shoal.select(away, bits * 0 + 1, bits * 0 - 1)).bitcast(x.dtype)
        from_zero = least.broadcast_to(shape).copysign(y)
        made = _shoal.select(x == y, y, _shoal.select(x == 0, from_zero, moved))
        return _shoal.select((x == x) & (y == y), made, x + y)

    # ---- tests ----

    def isnan(self):
        """Whether an element is NaN."""
        return self != self

    def isinf(self):
        """Whether an element is infinite."""
        if not is_floating(self.dtype):
            return self.session.full(self.shape, False, "bool")
        return abs(self) == math.inf

    def isposinf(self):
        """Whether an element is plus infinity."""
        return self == math.inf if is_floating(self.dtype) else self.isinf()

    def isneginf(self):
        """Whether an element is minus infinity."""
        return self == -math.inf if is_floating(self.dtype) else self.isinf()

    def isfinite(self):
        """Whether an element is neither infinite nor NaN."""
        if not is_floating(self.dtype):
            return self.session.full(self.shape, True, "bool")
        return self._unary("is_finite")

    def isreal(self):
        """True: there are no complex numbers."""
        return self.session.full(self.shape, True, "bool")

    # ---- integers ----

    def gcd(self, other):
        """The greatest common divisor of integers."""
        x, y = self._integers(other, "gcd")
        shape = _together(x, y)
        x, y = abs(x.broadcast_to(shape)), abs(y.broadcast_to(shape))
        # Of two 64-bit numbers Euclid needs at most 93 steps (consecutive Fibonacci numbers).
        for _ in range(math.ceil(1.4405 * 8 * DTYPES[dtype_name(x.dtype)].itemsize) + 1):
            rest = x.fmod(_shoal.select(y == 0, y + 1, y))
            x, y = _shoal.select(y == 0, x, y), _shoal.select(y == 0, y, rest)
        return x

    def lcm(self, other):
        """The least common multiple of integers."""
        x, y = self._integers(other, "lcm")
        divisor = x.gcd(y)
        made = abs(x // _shoal.select(divisor == 0, divisor + 1, divisor) * y)
        return made

    def bitwise_not(self):
        """Each bit inverted; logical for bool."""
        return ~self

    def bitwise_and(self, other):
        """Bits set in both."""
        return self & other

    def bitwise_or(self, other):
        """Bits set in either."""
        return self | other

    def bitwise_xor(self, other):
        """Bits set in just one."""
        return self ^ other

    def bitwise_left_shift(self, other):
        """x 2^y"""
        return self << other

    def bitwise_right_shift(self, other):
        """Bits moved right, the sign kept: x / 2^y, rounded down."""
        return self >> other

    def _unary(self, op):
        return _shoal.unary(UNARY[op], self)

    def _pair(self, other):
        """This and another operand, both of the element type they become together."""
        return self._alike(self._coerce(other, "an operand"))

    def _floating_pair(self, other):
        """`_pair`, of floating types."""
        x, y = self._pair(other)
        return x._floating(), y._floating()

    def _integers(self, other, what):
        """`_pair`, of integers."""
        x, y = self._pair(other)
        if is_floating(x.dtype):
            raise invalid(f"{what}: works on integers, not on {x._text()}")
        return x, y


def _together(x, y):
    """The shape that two broadcast to."""
    from .indexing import _common_shape
    try:
        return _common_shape([x.shape, y.shape])
    except IndexError:
        raise invalid(f"{x._text()} and {y._text()} do not broadcast") from None


_, _, (UNARY, _) = _shoal.names()
UNARY = {name: number for number, name in enumerate(UNARY)}

# Names with a function in `shoal` and a method that works in place.
NAMES = """asin acos atan sinh cosh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh deg2rad
    rad2deg sinc hypot log2 log10 exp2 square reciprocal logaddexp logaddexp2 xlogy logit ldexp erfc erfinv
    lgamma digamma igamma igammac mvlgamma i0 trunc fix frac round ceil floor sign sgn copysign heaviside nan_to_num fmax
    fmin nextafter gcd lcm bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift
    bitwise_right_shift float_power""".split()
MORE = """frexp signbit positive isnan isinf isposinf isneginf isfinite isreal""".split()

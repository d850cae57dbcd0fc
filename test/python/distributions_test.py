"""shoal.distributions against torch.distributions: densities, entropies, moments, quantiles, divergences, gradients,
shapes and transforms; draws against SciPy's distributions."""
import itertools
import math

import numpy as np
import pytest
from peer import numpy_of, torch, torch_of
from scipy import stats

import shoal
from shoal import distributions as D

RNG = np.random.default_rng(5)
A, B = RNG.uniform(0.2, 2, (3, 4)), RNG.uniform(0.3, 1.5, (3, 4))
P = RNG.uniform(0.05, 0.95, (3, 4))
SQUARE = RNG.standard_normal((4, 4))
COVARIANCE = SQUARE @ SQUARE.T + np.eye(4)
WHOLE = RNG.integers(0, 2, (3, 4)).astype(float)
COUNTS = RNG.integers(0, 5, (3, 4)).astype(float)
CLASSES = RNG.integers(0, 4, 3)
VECTORS = np.eye(4)[CLASSES]
SHARES = A / A.sum(-1, keepdims=True)
TRIL = np.linalg.cholesky(COVARIANCE)
# name: (how one is made of arrays, arrays, other arrays, values)
KINDS = {
    "Normal": (lambda d, a, b: d.Normal(a, b), (A, B), (B, A), A - 1),
    "LogNormal": (lambda d, a, b: d.LogNormal(a, b), (A, B), (B, A), A),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), (A, B), (B, A), A - 1),
    "Cauchy": (lambda d, a, b: d.Cauchy(a, b), (A, B), (B, A), A - 1),
    "Gumbel": (lambda d, a, b: d.Gumbel(a, b), (A, B), (B, A), A - 1),
    "HalfNormal": (lambda d, a: d.HalfNormal(a), (A,), (B,), B),
    "HalfCauchy": (lambda d, a: d.HalfCauchy(a), (A,), (B,), B),
    "StudentT": (lambda d, a, b: d.StudentT(a * 3, b, a), (A, B), (B, A), A - 1),
    "VonMises": (lambda d, a, b: d.VonMises(a, b * 4), (A, B), (B, A), A - 1),
    "Uniform": (lambda d, a, b: d.Uniform(a, a + b), (A, B), (A - 0.1, B + 0.2), A + B / 2),
    "Exponential": (lambda d, a: d.Exponential(a), (A,), (B,), A),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), (A, B), (B, A), A),
    "Chi2": (lambda d, a: d.Chi2(a), (A,), (B,), A),
    "Beta": (lambda d, a, b: d.Beta(a, b), (A + 1, B + 1), (B, A), P),
    "Dirichlet": (lambda d, a: d.Dirichlet(a), (A + 1,), (B,), SHARES),
    "Pareto": (lambda d, a, b: d.Pareto(a, b + 2), (A, B), (A / 2, A), A + B),
    "Weibull": (lambda d, a, b: d.Weibull(a, b + 1), (A, B), (B, A), A),
    "Poisson": (lambda d, a: d.Poisson(a), (A,), (B,), COUNTS),
    "Bernoulli": (lambda d, a: d.Bernoulli(a), (P,), (P[::-1].copy(),), WHOLE),
    "Bernoulli by logits": (lambda d, a: d.Bernoulli(logits=a), (A - 1,), (B - 1,), WHOLE),
    "Geometric": (lambda d, a: d.Geometric(a), (P,), (P[::-1].copy(),), COUNTS),
    "Binomial": (lambda d, a: d.Binomial(5, a), (P,), (P[::-1].copy(),), COUNTS),
    "Binomial by logits": (lambda d, a: d.Binomial(7, logits=a), (A - 1,), (B - 1,), COUNTS),
    "NegativeBinomial": (lambda d, a, b: d.NegativeBinomial(b, a), (P, B), (P, A), COUNTS),
    "Categorical": (lambda d, a: d.Categorical(a), (A,), (B,), CLASSES),
    "Categorical by logits": (lambda d, a: d.Categorical(logits=a), (A,), (B,), CLASSES),
    "OneHotCategorical": (lambda d, a: d.OneHotCategorical(a), (A,), (B,), VECTORS),
    "OneHotCategoricalStraightThrough": (lambda d, a: d.OneHotCategoricalStraightThrough(logits=a), (A,), (B,), VECTORS),
    "Multinomial": (lambda d, a: d.Multinomial(20, a), (A,), (B,), COUNTS),
    "MultivariateNormal": (lambda d, a, b: d.MultivariateNormal(a, b), (A, COVARIANCE), (B, COVARIANCE * 2), A - 1),
    "MultivariateNormal by its precision": (lambda d, a, b: d.MultivariateNormal(a, precision_matrix=b), (A, COVARIANCE),
                                            (B, COVARIANCE * 2), A - 1),
    "MultivariateNormal by its factor": (lambda d, a, b: d.MultivariateNormal(a, scale_tril=b), (A, TRIL),
                                         (B, TRIL * 1.5), A - 1),
    "Independent": (lambda d, a, b: d.Independent(d.Normal(a, b), 1), (A, B), (B, A), A - 1),
    "MixtureSameFamily": (lambda d, a, b: d.MixtureSameFamily(d.Categorical(a), d.Normal(a, b)), (A, B), (B, A), A[:, 0]),
    "MixtureSameFamily of vectors": (lambda d, a, b: d.MixtureSameFamily(
        d.Categorical(a[0, :3]), d.Independent(d.Normal(a, b), 1)), (A, B), (B, A), A[0]),
    "Affine": (lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), [d.AffineTransform(1.0, -2.0), d.ExpTransform()]),
               (A, B), (B, A), A),
    "Logistic": (lambda d, a, b: d.TransformedDistribution(d.Uniform(a * 0, b * 0 + 1), [
        d.SigmoidTransform().inv, d.AffineTransform(a, b)]), (A, B), (B, A), A),
    "Tanh": (lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), d.TanhTransform()), (A, B), (B, A), P - 0.5),
    "Power": (lambda d, a, b: d.TransformedDistribution(d.Exponential(a), d.PowerTransform(b)), (A, B), (B, A), A),
    "Breaking": (lambda d, a, b: d.TransformedDistribution(d.Normal(a[:, 1:], b[:, 1:]), d.StickBreakingTransform()),
                 (A, B), (B, A), SHARES),
}
NO_MOMENTS = {"Affine", "Logistic", "Tanh", "Power", "Breaking", "Categorical", "Categorical by logits"}
PARTS = ("log_prob", "cdf", "icdf", "entropy", "mean", "variance", "stddev", "mode", "kl_divergence", "enumerate_support")


def part_of(d, name, p, q, value):
    if name in ("log_prob", "cdf"):
        return getattr(p, name)(value)
    if name == "icdf":
        return p.icdf(value * 0 + 0.3)
    if name == "kl_divergence":
        return d.kl_divergence(p, q)
    found = getattr(p, name)
    return found() if callable(found) else found


def outcome(d, tensor, name, make, arrays, others, values):
    """A part, and its gradients; None where there is none."""
    leaves = [tensor(a).requires_grad_() for a in arrays]
    p, q = make(d, *leaves), make(d, *map(tensor, others))
    try:
        made = part_of(d, name, p, q, tensor(values))
    except NotImplementedError:
        return None
    if made.requires_grad:
        made.sum().backward()
    return [made.detach()] + [leaf.detach() * 0 if leaf.grad is None else leaf.grad for leaf in leaves]


@pytest.mark.parametrize("kind", KINDS)
def test_like_torch(kind):
    make, arrays, others, values = KINDS[kind]
    shared = 0
    for name in PARTS:
        if kind in NO_MOMENTS and name in ("mean", "variance", "stddev", "mode"):
            continue  # categories have NaN; others have none
        want = outcome(torch.distributions, torch_of, name, make, arrays, others, values)
        if want is None:
            continue
        got = outcome(D, shoal.tensor, name, make, arrays, others, values)
        assert got is not None, f"{name} is missing"
        shared += 1
        # torch's Bessel functions are approximations, and it moves probabilities off 0 and 1.
        bound = 1e-6 if kind == "VonMises" else 1e-6 if name == "entropy" and kind == "Multinomial" else \
            1e-8
        for w, g in zip(want, got, strict=True):
            np.testing.assert_allclose(g.numpy(), numpy_of(w), rtol=bound, atol=bound, err_msg=f"{kind} {name}")
    assert shared >= (2 if kind in NO_MOMENTS else 4), shared


@pytest.mark.parametrize("kind", KINDS)
def test_shapes(kind):
    make, arrays, _, _ = KINDS[kind]
    theirs = make(torch.distributions, *map(torch_of, arrays))
    ours = make(D, *map(shoal.tensor, arrays))
    for p, q in ((ours, theirs), (ours.expand((2, *ours.batch_shape)), theirs.expand((2, *theirs.batch_shape)))):
        assert tuple(p.batch_shape) == tuple(q.batch_shape) and tuple(p.event_shape) == tuple(q.event_shape)
        for shape in ((), (5,), (2, 3)):
            drawn = p.sample(shape)
            assert tuple(drawn.shape) == tuple(q.sample(shape).shape) and not drawn.requires_grad
            assert drawn.dtype.name == str(q.sample(shape).dtype)[6:]
            assert tuple(p.log_prob(drawn).shape) == tuple(q.log_prob(q.sample(shape)).shape)
        assert bool(p.support.check(drawn).all())
        assert p.has_rsample == q.has_rsample
        assert (p.support.event_dim, p.support.is_discrete) == (q.support.event_dim, q.support.is_discrete)
        if p.has_rsample:
            assert tuple(p.rsample((2,)).shape) == tuple(q.rsample((2,)).shape)
        else:
            with pytest.raises(NotImplementedError):
                p.rsample()


# One of each kind with numbers, and SciPy's.
CONTINUOUS = {
    "Normal": (D.Normal(1.0, 2.0), stats.norm(1, 2)), "LogNormal": (D.LogNormal(0.3, 0.7), stats.lognorm(0.7, 0, math.exp(0.3))),
    "Laplace": (D.Laplace(1.0, 2.0), stats.laplace(1, 2)), "Cauchy": (D.Cauchy(1.0, 2.0), stats.cauchy(1, 2)),
    "Gumbel": (D.Gumbel(1.0, 2.0), stats.gumbel_r(1, 2)), "HalfNormal": (D.HalfNormal(2.0), stats.halfnorm(0, 2)),
    "HalfCauchy": (D.HalfCauchy(2.0), stats.halfcauchy(0, 2)), "StudentT": (D.StudentT(3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "VonMises": (D.VonMises(0.5, 2.0), stats.vonmises(2, 0.5)), "uniform angles": (D.VonMises(0.0, 1e-6), stats.vonmises(1e-6)),
    "Uniform": (D.Uniform(1.0, 3.0), stats.uniform(1, 2)), "Exponential": (D.Exponential(2.0), stats.expon(0, 0.5)),
    "Gamma": (D.Gamma(2.5, 2.0), stats.gamma(2.5, 0, 0.5)), "small Gamma": (D.Gamma(0.1, 1.0), stats.gamma(0.1)),
    "large Gamma": (D.Gamma(300.0, 1.0), stats.gamma(300)), "Chi2": (D.Chi2(3.0), stats.chi2(3)),
    "Beta": (D.Beta(2.0, 0.5), stats.beta(2, 0.5)), "Pareto": (D.Pareto(2.0, 3.0), stats.pareto(3, 0, 2)),
    "Weibull": (D.Weibull(2.0, 1.5), stats.weibull_min(1.5, 0, 2)),
    "Logistic": (D.TransformedDistribution(D.Uniform(0.0, 1.0), [D.SigmoidTransform().inv, D.AffineTransform(1.0, 2.0)]),
                 stats.logistic(1, 2)),
}
DISCRETE = {
    "Bernoulli": (D.Bernoulli(0.3), stats.bernoulli(0.3)), "Geometric": (D.Geometric(0.2), stats.geom(0.2, -1)),
    "Poisson": (D.Poisson(4.0), stats.poisson(4)), "large Poisson": (D.Poisson(35.0), stats.poisson(35)),
    "Binomial": (D.Binomial(9, 0.7), stats.binom(9, 0.7)), "large Binomial": (D.Binomial(200, 0.4), stats.binom(200, 0.4)),
    "NegativeBinomial": (D.NegativeBinomial(3.0, 0.4), stats.nbinom(3, 0.6)),
    "Categorical": (D.Categorical(shoal.tensor([1.0, 2.0, 3.0])), stats.rv_discrete(values=([0, 1, 2], [1 / 6, 2 / 6, 3 / 6]))),
}


@pytest.mark.parametrize("kind", CONTINUOUS)
def test_draws(kind):
    """By Kolmogorov and Smirnov: the probability of draws that are farther off."""
    p, known = CONTINUOUS[kind]
    shoal.manual_seed(3)
    assert stats.kstest(p.sample((20_000,)).numpy(), known.cdf).pvalue > 1e-3


@pytest.mark.parametrize("kind", DISCRETE)
def test_draws_of_integers(kind):
    p, known = DISCRETE[kind]
    shoal.manual_seed(3)
    drawn, n = p.sample((20_000,)).numpy(), 20_000
    low, high = (int(known.ppf(q)) for q in (1e-3, 1 - 1e-3))
    places = np.arange(low, max(high, low + 1) + 1)
    found = [(drawn <= places[0]).sum(), *((drawn == k).sum() for k in places[1:-1]), (drawn >= places[-1]).sum()]
    shares = [known.cdf(places[0]), *known.pmf(places[1:-1]), 1 - known.cdf(places[-1] - 1)]
    assert stats.chisquare(found, np.array(shares) * n, sum_check=False).pvalue > 1e-3


def test_the_distribution_function_of_gamma():
    x = np.linspace(0.01, 9, 50)
    np.testing.assert_allclose(D.Gamma(shoal.tensor(2.5), 2.0).cdf(shoal.tensor(x)).numpy(), stats.gamma(2.5, 0, 0.5).cdf(x), 1e-6)


def test_draws_of_vectors():
    """Means and covariances."""
    shoal.manual_seed(3)
    for p in (D.Dirichlet(shoal.tensor([0.5, 1.0, 3.0])), D.MultivariateNormal(shoal.tensor(A[0]), shoal.tensor(COVARIANCE)),
              D.Multinomial(10, shoal.tensor([0.2, 0.3, 0.5])), D.OneHotCategorical(shoal.tensor([0.2, 0.3, 0.5])),
              D.MixtureSameFamily(D.Categorical(shoal.tensor([0.3, 0.7])), D.Independent(D.Normal(
                  shoal.tensor([[0.0, 1], [5, 2]]), 1.0), 1))):
        drawn = p.sample((20_000,)).numpy().astype(float)
        error = p.stddev.numpy() / np.sqrt(20_000)
        assert (abs(drawn.mean(0) - p.mean.numpy()) < 5 * error).all()
        np.testing.assert_allclose(drawn.var(0), p.variance.numpy(), rtol=0.06)
        if hasattr(p, "covariance_matrix"):
            np.testing.assert_allclose(np.cov(drawn.T), p.covariance_matrix.numpy(), atol=0.25)


def test_draws_depend_on_the_seed():
    for p, _ in (*CONTINUOUS.values(), *DISCRETE.values()):
        shoal.manual_seed(9)
        first = p.sample((3,)).tolist()
        assert p.sample((3,)).tolist() != first or p.has_enumerate_support
        shoal.manual_seed(9)
        assert p.sample((3,)).tolist() == first


def test_implicit_gradients():
    """What a gamma draw becomes as its parameter moves, where the probability of less stays the same: by differences of
    SciPy's quantiles, and as torch's."""
    from scipy import special

    from shoal.draws import _gamma_slope
    a = np.array([0.1, 0.5, 0.9, 1, 1.5, 3, 10, 50, 99, 101, 300, 5000])
    for share in (1e-4, 0.05, 0.3, 0.5, 0.8, 0.99, 1 - 1e-6):
        x, step = special.gammaincinv(a, share), a * 1e-5
        want = (special.gammaincinv(a + step, share) - special.gammaincinv(a - step, share)) / (2 * step)
        got = _gamma_slope(shoal.tensor(a), shoal.tensor(x)).numpy()
        np.testing.assert_allclose(got, want, 1e-5)
        if share < 0.9:
            np.testing.assert_allclose(got, numpy_of(torch._standard_gamma_grad(torch_of(a), torch_of(x))), 1e-3)


def test_gradients_through_draws():
    """Of means of functions of draws, which are known."""
    shoal.manual_seed(1)
    loc, scale = shoal.tensor(2.0, requires_grad=True), shoal.tensor(3.0, requires_grad=True)
    drawn = D.Normal(loc, scale).rsample((1000,))
    drawn.mean().backward()
    assert loc.grad.item() == pytest.approx(1)
    assert scale.grad.item() == pytest.approx((drawn.mean().item() - 2) / 3, abs=1e-5)
    assert not D.Normal(loc, scale).sample().requires_grad
    for make, numbers in ((D.Gamma, (2.5, 2.0)), (D.Beta, (2.0, 3.0)), (D.Chi2, (3.0,)), (D.Gumbel, (1.0, 2.0)),
                          (D.LogNormal, (0.1, 0.4)), (D.HalfNormal, (2.0,)), (D.Weibull, (2.0, 3.0)),
                          (D.Exponential, (2.0,)), (D.Uniform, (1.0, 3.0)), (D.Laplace, (1.0, 2.0))):
        leaves = [shoal.tensor(number, dtype="float64", requires_grad=True) for number in numbers]
        make(*leaves).rsample((20_000,)).mean().backward()
        drawn = [leaf.grad.item() for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        (make(*leaves).mean + sum(leaf * 0 for leaf in leaves)).backward()
        np.testing.assert_allclose(drawn, [leaf.grad.item() for leaf in leaves], atol=0.06, err_msg=make.__name__)
    a = shoal.tensor([0.5, 1.0, 3.0], requires_grad=True)
    D.Dirichlet(a).rsample((20_000,)).mean(0)[0].backward()
    np.testing.assert_allclose(a.grad.numpy(), [4 / 4.5 ** 2, -0.5 / 4.5 ** 2, -0.5 / 4.5 ** 2], atol=0.02)
    p = shoal.tensor([0.2, 0.8], requires_grad=True)
    (D.OneHotCategoricalStraightThrough(p).rsample() * shoal.tensor([1.0, 3.0])).sum().backward()
    np.testing.assert_allclose(p.grad.numpy(), [-1.6, 0.4], atol=1e-6)


def test_divergences_of_two_kinds():
    """Every pair that torch has a rule for, and its value, among these."""
    makers = {"Normal": (0.4, 1.3), "Laplace": (0.4, 1.3), "Gumbel": (0.4, 1.3), "Exponential": (1.3,), "Gamma": (1.7, 1.3),
              "Chi2": (1.7,), "Beta": (1.7, 1.3), "Uniform": (0.2, 0.9), "Pareto": (0.1, 2.7), "Poisson": (1.3,),
              "Bernoulli": (0.4,), "Binomial": (3, 0.4), "Geometric": (0.4,), "Cauchy": (0.4, 1.3), "HalfNormal": (1.3,),
              "LogNormal": (0.4, 1.3), "StudentT": (3.0,)}
    rules = 0
    for first, second in itertools.product(makers, repeat=2):
        p, q = ([getattr(d, name)(*map(lambda n, t=t: t(np.array(float(n))), makers[name])) for name in (first, second)]
                for d, t in ((torch.distributions, torch_of), (D, shoal.tensor)))
        try:
            want = torch.distributions.kl_divergence(*p).item()
        except NotImplementedError:
            with pytest.raises(NotImplementedError, match="kl_divergence"):
                D.kl_divergence(*q)
            continue
        rules += 1
        assert D.kl_divergence(*q).item() == pytest.approx(want, rel=1e-9, abs=1e-12), (first, second)
    assert rules >= 60, rules

    class Mine(D.Normal):
        pass

    @D.register_kl(Mine, D.Laplace)
    def mine(p, q):
        return p.loc * 0 + 7

    assert D.kl_divergence(Mine(0.0, 1.0), D.Laplace(0.0, 1.0)).item() == 7
    assert D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)).item() == 0


TRANSFORMS = {
    "Exp": (lambda d, lib: d.ExpTransform(), A), "Affine": (lambda d, lib: d.AffineTransform(1.0, -3.0), A),
    "Affine of vectors": (lambda d, lib: d.AffineTransform(1.0, 2.0, event_dim=1), A),
    "Power": (lambda d, lib: d.PowerTransform(2.0), A), "Sigmoid": (lambda d, lib: d.SigmoidTransform(), A),
    "Tanh": (lambda d, lib: d.TanhTransform(), A), "Softplus": (lambda d, lib: d.SoftplusTransform(), A),
    "StickBreaking": (lambda d, lib: d.StickBreakingTransform(), A - 1),
    "Compose": (lambda d, lib: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0.5, 2.0)]), A),
    "Compose with vectors": (lambda d, lib: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.StickBreakingTransform()]), A),
    "Independent": (lambda d, lib: d.IndependentTransform(d.ExpTransform(), 1), A),
    "Reshape": (lambda d, lib: d.ReshapeTransform((4,), (2, 2)), A),
    "inverse": (lambda d, lib: d.ExpTransform().inv, A),
    "Stack": (lambda d, lib: d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.ExpTransform()], 0), A),
    "Softmax": (lambda d, lib: d.SoftmaxTransform(), A), "Abs": (lambda d, lib: d.AbsTransform(), A - 1),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    make, x = TRANSFORMS[name]
    got = []
    for d, tensor, lib in ((torch.distributions, torch_of, torch), (D, shoal.tensor, shoal)):
        t = make(d, lib)
        leaf = tensor(x).requires_grad_()
        y = t(leaf)
        parts = [y, t.inv(y)] + ([t.log_abs_det_jacobian(leaf, y)] if t.bijective else [])
        sum(p.sum() for p in parts).backward()
        shapes = tuple(t.forward_shape(x.shape)), tuple(t.inverse_shape(tuple(y.shape))), t.bijective, \
            t.domain.event_dim, t.codomain.event_dim
        got.append((shapes, [p.detach() for p in parts] + [leaf.grad]))
    assert t == make(D, shoal) and t.inv.inv == t and not t == D.IndependentTransform(D.AbsTransform(), 0)
    assert got[0][0] == got[1][0]
    for want, mine in zip(got[0][1], got[1][1], strict=True):
        np.testing.assert_allclose(mine.numpy(), numpy_of(want), 1e-9, 1e-9)


def test_caches_and_others():
    t, x = D.TanhTransform(cache_size=1), shoal.tensor([50.0])
    assert t.inv(t(x)).item() == 50 and math.isinf(D.TanhTransform().inv(t(x)).item())
    with pytest.raises(ValueError, match="cache_size is 2"):
        D.ExpTransform(2)
    with pytest.raises(ValueError, match="have different numbers"):
        D.transforms.ReshapeTransform((2,), (3,))
    made = D.transforms.LowerCholeskyTransform()(shoal.tensor(SQUARE))
    assert bool(D.constraints.lower_cholesky.check(made))
    with pytest.raises(ValueError, match="they must be a Transform"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), "exp")
    assert repr(D.ExpTransform().inv) == repr(torch.distributions.ExpTransform().inv)


def test_constraints():
    values = np.array([-1.0, 0, 0.5, 1, 2, np.nan])
    for name in ("boolean", "nonnegative_integer", "positive_integer", "real", "positive", "unit_interval"):
        theirs, ours = (getattr(d.constraints, name) for d in (torch.distributions, D))
        assert ours.check(shoal.tensor(values)).tolist() == theirs.check(torch_of(values)).tolist(), name
    for name, bounds in (("interval", (0.0, 1.0)), ("half_open_interval", (0.0, 1.0)), ("integer_interval", (0, 1)),
                         ("greater_than", (0.5,)), ("greater_than_eq", (0.5,)), ("less_than", (0.5,))):
        theirs, ours = (getattr(d.constraints, name)(*bounds) for d in (torch.distributions, D))
        assert ours.check(shoal.tensor(values)).tolist() == theirs.check(torch_of(values)).tolist(), name
        assert repr(ours) == repr(theirs)
    for value in (SQUARE, COVARIANCE, -COVARIANCE, TRIL, VECTORS, SHARES, np.eye(3)):
        for name in ("one_hot", "simplex", "symmetric", "square", "positive_definite", "lower_cholesky", "lower_triangular",
                     "positive_semidefinite", "corr_cholesky", "real_vector"):
            theirs, ours = (getattr(d.constraints, name) for d in (torch.distributions, D))
            if value.shape[0] == value.shape[1] or theirs.event_dim < 2:
                assert ours.check(shoal.tensor(value)).tolist() == theirs.check(torch_of(value)).tolist(), name
    assert D.constraints.is_dependent(D.constraints.dependent)


def test_shown_and_wrong():
    assert repr(D.Normal(0.0, 1.0)) == repr(torch.distributions.Normal(0.0, 1.0))
    assert repr(D.Categorical(shoal.ones(3))) == "Categorical(probs: shoal.Size([3]))"
    with pytest.raises(ValueError, match="give probs or logits"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="give one of covariance_matrix"):
        D.MultivariateNormal(shoal.zeros(2))
    with pytest.raises(NotImplementedError, match="no rule for Laplace and Cauchy"):
        D.kl_divergence(D.Laplace(0, 1), D.Cauchy(0, 1))
    with pytest.raises(NotImplementedError, match="use sample"):
        D.Bernoulli(0.5).rsample()
    for wrong in (lambda: D.Gamma(-1.0, 1.0), lambda: D.Beta(1.0, 0.0), lambda: D.StudentT(0.0), lambda: D.Chi2(-1.0),
                  lambda: D.Dirichlet(shoal.tensor(1.0)), lambda: D.Binomial(-1, 0.5), lambda: D.Binomial(2.5, 0.5),
                  lambda: D.NegativeBinomial(2, 1.0), lambda: D.Geometric(0.0), lambda: D.VonMises(0.0, -1.0),
                  lambda: D.HalfNormal(0.0), lambda: D.Weibull(1.0, 0.0), lambda: D.Pareto(0.0, 1.0),
                  lambda: D.Normal(0.0, 1.0).log_prob(3), lambda: D.Dirichlet(shoal.ones(3)).log_prob(shoal.ones(2) / 2)):
        with pytest.raises(ValueError, match="must be|needs|must have"):
            wrong()
    with pytest.raises(ValueError, match="along its last axis"):
        D.MixtureSameFamily(D.Categorical(shoal.ones(3)), D.Normal(shoal.ones(2), 1.0))
    D.Distribution.set_default_validate_args(False)
    try:
        assert math.isnan(D.Normal(0.0, -1.0).log_prob(shoal.tensor(0.0)).item())
        assert D.Pareto(-1.0, 1.0).mode.item() == D.Weibull(-1.0, 1.0).scale.item() == -1
    finally:
        D.Distribution.set_default_validate_args(True)


def test_values_outside_of_the_support():
    """An error of what derives from the density; none where nothing is to be looked for."""
    wrong = shoal.tensor([0.5, -1.0])
    for made, what in ((D.Exponential, "Exponential: the value must be 0 or more"),
                       (D.Poisson, "Poisson: the value must be an integer, 0 or more"),
                       (lambda p, **words: D.Bernoulli(p / 2, **words), "Bernoulli: the value must be 0 or 1"),
                       (lambda p, **words: D.Beta(p, p, **words), "Beta: the value must be from 0 to 1"),
                       (lambda p, **words: D.LogNormal(p, p, **words), "LogNormal: the value must be above 0"),
                       (lambda p, **words: D.Uniform(0.0, p, **words), "Uniform: the value must be from low to high")):
        found = made(1.0).log_prob(wrong)
        with pytest.raises(ValueError, match=what):
            found.tolist()
        assert len(made(1.0, validate_args=False).log_prob(wrong).tolist()) == 2
    assert D.Uniform(0.0, 1.0).log_prob(shoal.tensor([0.0, 1.0])).tolist() == [0.0, -float("inf")]


def test_a_matrix_that_is_no_covariance():
    loc, tall = shoal.tensor([0.0, 0.0]), shoal.tensor([[1.0, 2.0], [0.0, 1.0]])
    for words, what in (({"covariance_matrix": tall}, "the matrix must be symmetric"),
                        ({"precision_matrix": tall}, "the matrix must be symmetric"),
                        ({"scale_tril": tall}, "scale_tril must be lower triangular, with a diagonal above 0"),
                        ({"scale_tril": shoal.tensor([[-1.0, 0.0], [0.0, -1.0]])}, "scale_tril must be lower triangular, with a diagonal above 0")):
        with pytest.raises(ValueError, match=f"MultivariateNormal: {what}"):
            D.MultivariateNormal(loc, **words).sample().tolist()


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_draws_of_small_types(dtype):
    """Draws are finite and lie where logarithms of their densities are: of numbers with more digits than the type has."""
    shoal.manual_seed(2)
    for kind, numbers in {"Normal": (0.0, 1.0), "Laplace": (0.0, 1.0), "Gumbel": (0.0, 1.0), "LogNormal": (0.0, 1.0),
                          "HalfNormal": (1.0,), "Exponential": (1.0,), "Gamma": (0.5, 1.0), "Beta": (0.5, 0.5), "Chi2": (1.0,),
                          "StudentT": (3.0,), "Pareto": (1.0, 2.0), "Weibull": (1.0, 2.0), "Geometric": (0.3,)}.items():
        p = getattr(D, kind)(*(shoal.tensor(number, dtype=dtype) for number in numbers))
        drawn = p.sample((50_000,))
        assert drawn.dtype == dtype
        assert bool(drawn.isfinite().all()) and bool(p.log_prob(drawn).isfinite().all()), kind
    for chance, values in ((0.0, (0.0, 1.0)), (1.0, (1.0, 0.0))):
        p = D.Bernoulli(shoal.tensor(chance, dtype=dtype))
        likely, other = (p.log_prob(shoal.tensor(v, dtype=dtype)).item() for v in values)
        assert -0.01 < likely <= 0 and -10 < other < -4 and 0 <= p.entropy().item() < 0.01


def test_categories_that_are_ruled_out():
    """As a policy masks actions: logits of -infinity."""
    logits = np.array([[-np.inf, 0.5, 3], [2, -np.inf, 2], [-np.inf, -np.inf, 1]])
    got = []
    for d, tensor in ((torch.distributions, torch_of), (D, shoal.tensor)):
        leaf = tensor(logits).requires_grad_()
        p = d.Categorical(logits=leaf)
        made = p.entropy() + p.log_prob(tensor(np.array([2, 0, 2])))
        made.sum().backward()
        got.append((made.detach(), leaf.grad, d.kl_divergence(p, d.Categorical(logits=tensor(np.zeros((3, 3))))).detach()))
    for want, mine in zip(*got):
        np.testing.assert_allclose(mine.numpy(), numpy_of(want), 1e-9, 1e-12)
    assert D.Categorical(shoal.zeros(0, 3)).sample((2,)).shape == (2, 0)


def test_counts_diverge_as_often_as_they_are_drawn():
    p, q = shoal.tensor([0.2, 0.3, 0.5]), shoal.tensor([0.5, 0.3, 0.2])
    one = D.kl_divergence(D.Categorical(p), D.Categorical(q)).item()
    assert D.kl_divergence(D.Multinomial(3, p), D.Multinomial(3, q)).item() == pytest.approx(3 * one)
    for other in (D.Multinomial(4, q), D.Categorical(q), D.OneHotCategorical(q)):
        with pytest.raises(NotImplementedError, match="kl_divergence"):
            D.kl_divergence(D.Multinomial(3, p), other)


def test_infinite_values():
    assert D.Pareto(1.0, 2.0).log_prob(shoal.tensor(math.inf)).item() == -math.inf
    assert D.transforms.AffineTransform(1.0, 2.0).log_abs_det_jacobian(
        shoal.tensor([math.inf]), shoal.tensor([math.inf])).item() == pytest.approx(math.log(2))


def test_shapes_of_samples():
    for p in (D.Normal(0.0, 1.0), D.Categorical(shoal.ones(3)), D.Multinomial(2, shoal.ones(3)), D.Dirichlet(shoal.ones(3)),
              D.LogNormal(0.0, 1.0)):
        with pytest.raises(TypeError, match=r"sample_shape is 5; it must be a tuple of integers, such as \(3,\)"):
            p.sample(5)
        assert p.sample([5]).shape[0] == 5

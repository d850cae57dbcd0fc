"""shoal.distributions against torch.distributions: densities, entropies, divergences, gradients and moments."""
import numpy as np
import pytest
from peer import numpy_of, torch, torch_of

import shoal
from shoal import distributions as D

RNG = np.random.default_rng(5)
A, B = RNG.uniform(0.2, 2, (3, 4)), RNG.uniform(0.3, 1.5, (3, 4))
P = RNG.uniform(0.05, 0.95, (3, 4))
SQUARE = RNG.standard_normal((4, 4))
COVARIANCE = SQUARE @ SQUARE.T + np.eye(4)
WHOLE = RNG.integers(0, 2, (3, 4)).astype(float)
CLASSES = RNG.integers(0, 4, 3)
# name: (how one is made of two arrays, arrays, other arrays, values)
KINDS = {
    "Normal": (lambda d, a, b: d.Normal(a, b), (A, B), (B, A), A - 1),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), (A, B), (B, A), A - 1),
    "Uniform": (lambda d, a, b: d.Uniform(a, a + b), (A, B), (A - 0.1, B + 0.2), A + B / 2),
    "Exponential": (lambda d, a: d.Exponential(a), (A,), (B,), A),
    "Poisson": (lambda d, a: d.Poisson(a), (A,), (B,), WHOLE + 2),
    "Bernoulli": (lambda d, a: d.Bernoulli(a), (P,), (P[::-1].copy(),), WHOLE),
    "Bernoulli by logits": (lambda d, a: d.Bernoulli(logits=a), (A - 1,), (B - 1,), WHOLE),
    "Categorical": (lambda d, a: d.Categorical(a), (A,), (B,), CLASSES),
    "Categorical by logits": (lambda d, a: d.Categorical(logits=a), (A,), (B,), CLASSES),
    "MultivariateNormal": (lambda d, a, b: d.MultivariateNormal(a, b), (A, COVARIANCE), (B, COVARIANCE * 2), A - 1),
    "MultivariateNormal by its factor": (
        lambda d, a, b: d.MultivariateNormal(a, scale_tril=b), (A, np.linalg.cholesky(COVARIANCE)),
        (B, np.linalg.cholesky(COVARIANCE * 2)), A - 1),
    "Independent": (lambda d, a, b: d.Independent(d.Normal(a, b), 1), (A, B), (B, A), A - 1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_like_torch(kind):
    make, arrays, others, values = KINDS[kind]
    theirs, ours = (torch.distributions, torch_of), (D, shoal.tensor)
    found = []
    for d, tensor in (theirs, ours):
        leaves = [tensor(a).requires_grad_() for a in arrays]
        p, q = make(d, *leaves), make(d, *map(tensor, others))
        results = [p.log_prob(tensor(values)), d.kl_divergence(p, q)]
        if "Poisson" not in kind:
            results.append(p.entropy())
        if "Categorical" not in kind:
            results += [p.mean, p.variance, p.stddev]
        assert tuple(p.sample((5, 2)).shape) == (5, 2, *p.batch_shape, *p.event_shape)
        sum(r.sum() for r in results).backward()
        found.append(([tuple(p.batch_shape), tuple(p.event_shape), p.has_rsample],
                      [r.detach() for r in results] + [leaf.grad for leaf in leaves]))
    assert found[0][0] == found[1][0]
    for want, got in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(got.numpy(), numpy_of(want), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [k for k in KINDS if "Categorical" not in k])
def test_draws(kind):
    make, arrays, _, _ = KINDS[kind]
    shoal.manual_seed(3)
    p = make(D, *map(shoal.tensor, arrays))
    drawn = p.sample((20_000,)).numpy()
    error = p.stddev.numpy() / np.sqrt(20_000)
    assert (abs(drawn.mean(0) - p.mean.numpy()) < 5 * error).all()
    np.testing.assert_allclose(drawn.var(0), p.variance.numpy(), rtol=0.12)


def test_draws_of_categories():
    shoal.manual_seed(3)
    drawn = D.Categorical(shoal.tensor(A)).sample((20_000,)).numpy()
    shares = np.stack([(drawn == k).mean(0) for k in range(4)], -1)
    np.testing.assert_allclose(shares, A / A.sum(-1, keepdims=True), atol=0.02)


def test_gradients_through_draws():
    shoal.manual_seed(1)
    loc, scale = shoal.tensor(2.0, requires_grad=True), shoal.tensor(3.0, requires_grad=True)
    drawn = D.Normal(loc, scale).rsample((1000,))
    drawn.mean().backward()
    assert loc.grad.item() == pytest.approx(1)
    assert scale.grad.item() == pytest.approx((drawn.mean().item() - 2) / 3, abs=1e-5)
    assert not D.Normal(loc, scale).sample().requires_grad


def test_shown_and_wrong():
    assert repr(D.Normal(0.0, 1.0)) == repr(torch.distributions.Normal(0.0, 1.0))
    assert repr(D.Categorical(shoal.ones(3))) == "Categorical(probs: shoal.Size([3]))"
    with pytest.raises(ValueError, match="give probs or logits"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="give one of covariance_matrix"):
        D.MultivariateNormal(shoal.zeros(2))
    with pytest.raises(NotImplementedError, match="no rule for Normal and Laplace"):
        D.kl_divergence(D.Normal(0, 1), D.Laplace(0, 1))
    with pytest.raises(NotImplementedError, match="use sample"):
        D.Bernoulli(0.5).rsample()


def test_values_outside_of_the_support():
    """An error of what derives from the density; none where nothing is to be looked for."""
    wrong = shoal.tensor([0.5, -1.0])
    for made, what in ((D.Exponential, "Exponential: the value must be 0 or more"),
                       (D.Poisson, "Poisson: the value must be an integer, 0 or more"),
                       (lambda p, **words: D.Bernoulli(p / 2, **words), "Bernoulli: the value must be 0 or 1"),
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

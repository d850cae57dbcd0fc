"""Random numbers of more elements than are made at a time, whole and in parts: those of Philox4x32-10 (Salmon et al.,
2011), computed by NumPy."""
import numpy as np
import pytest

import shoal


@pytest.fixture(params=(1, 3), autouse=True)
def workers(request):
    before = shoal.pool._default
    shoal.pool._default = shoal.Session(hub="embedded", workers=request.param, threads=2)
    yield
    shoal.pool._default.close()
    shoal.pool._default = before


def philox(seed, stream, blocks):
    """The four words of blocks 0, 1, …"""
    low, high, block = np.uint64(seed % 2 ** 32), np.uint64(seed >> 32), np.arange(blocks, dtype=np.uint64)
    half, mask = np.uint64(32), np.uint64(2 ** 32 - 1)
    w = [block & mask, block >> half, block * 0 + np.uint64(stream % 2 ** 32), block * 0 + np.uint64(stream >> 32)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * w[0], np.uint64(0xCD9E8D57) * w[2]
        w = [(b >> half) ^ w[1] ^ low, b & mask, (a >> half) ^ w[3] ^ high, a & mask]
        low, high = (low + np.uint64(0x9E3779B9)) & mask, (high + np.uint64(0xBB67AE85)) & mask
    return np.stack(w, 1)


SEED, STREAM = 2 ** 40 + 12345, 2 ** 33 + 7


@pytest.mark.parametrize("shape", ((1031,), (3, 1031), (1031, 3), (7, 5, 301), (2, 1), (0, 4)))
@pytest.mark.parametrize("axis", (None, 0, -1))
def test_numbers(shape, axis):
    count = int(np.prod(shape))
    words = philox(SEED, STREAM, count // 2 + 1)
    longs = (words[:, ::2] << np.uint64(32) | words[:, 1::2]) >> np.uint64(11)
    size = np.sqrt(-2 * np.log((longs[:, 0] + 1) * 2.0 ** -53))
    angle = 2 * np.pi * (longs[:, 1] * 2.0 ** -53)
    normal = np.stack([size * np.cos(angle), size * np.sin(angle)], 1).ravel()[:count].reshape(shape)
    for dtype, digits in (("float16", 11), ("float32", 24), ("float64", 53)):
        if digits == 53:
            want = longs.ravel()[:count] * 2.0 ** -53
        else:
            want = (words.ravel()[:count] >> np.uint64(32 - digits)) * 2.0 ** -digits
        made = [make(*shape, dtype=dtype, seed=SEED, stream=STREAM) for make in (shoal.rand, shoal.randn)]
        if axis is not None:
            made = [tensor.place(axis=axis % len(shape)) for tensor in made]
        np.testing.assert_array_equal(made[0].numpy(), want.reshape(shape))
        np.testing.assert_allclose(made[1].numpy(), normal.astype(dtype), rtol=2.0 ** -digits * 8, atol=2.0 ** -digits)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
def test_what_is_drawn_has_more_digits_than_its_type(dtype):
    """Frequencies and ranges of what few bits cannot decide or be transformed to."""
    shoal.manual_seed(1)
    kind, n = getattr(shoal, dtype), 200_000
    drawn = shoal.multinomial(shoal.ones(5000).to(kind), 100_000, True).numpy()
    assert len(np.unique(drawn)) == 5000 and abs(drawn.mean() - 2499.5) < 5 * 1443 / 100_000 ** 0.5
    first = shoal.multinomial(shoal.ones(4000, 10).to(kind), 3).numpy()
    assert np.abs(np.bincount(first[:, 0], minlength=10) - 400).max() < 5 * 19
    assert all(len(set(row)) == 3 for row in first.tolist())
    p = shoal.full((n,), 0.001).to(kind)
    for made in (shoal.bernoulli(p), shoal.distributions.Bernoulli(p).sample(), shoal.zeros(n).to(kind).bernoulli_(0.001),
                 (shoal.nn.functional.dropout(p + 1, 0.001) == 0).float(),
                 (shoal.nn.functional.alpha_dropout(p * 0 + 1, 0.001, True) < 0).float()):
        assert abs(made.float().mean().item() - 0.001) < 5 * (0.001 / n) ** 0.5
    x = shoal.empty(n, dtype=kind)
    assert 10.5 < x.exponential_().max().item() and x.min().item() >= 0
    assert 150 < x.geometric_(0.05).max().item() and x.min().item() == 1
    assert bool(shoal.nn.functional.gumbel_softmax(shoal.zeros(n, 4).to(kind)).isfinite().all())
    shoal.nn.init.trunc_normal_(x)
    assert len(np.unique(x.float().numpy())) > (1000 if dtype == "bfloat16" else 5000)

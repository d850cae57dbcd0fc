"""Sums of float16 and bfloat16 are rounded once, at the end: what is in between may be larger than the type
holds, or have more digits. Against float64."""
import numpy as np
import peer
import pytest

import shoal

torch = peer.torch
LINES = ["x.mean()", "x.mean(0)", "x.mean((0, 1))", "x.nanmean()", "x.std()", "x.var(1)", "t.var_mean(x)[1]", "x.norm()",
         "x.norm(dim=0)", "x.norm(p=3)", "x.sum(1)", "x.cumsum(1)[..., -1]", "x.logsumexp((0, 1))",
         "t.linalg.norm(x)", "t.dist(x, x * 0)", "F.mse_loss(x, x * 0)", "F.l1_loss(x, x * 0)", "F.avg_pool1d(x, 100)",
         "F.adaptive_avg_pool1d(x, 1)", "F.adaptive_avg_pool1d(x, 3)", "F.normalize(x, dim=0)",
         "F.cosine_similarity(x, x, dim=0)", "F.layer_norm(x, (400,))", "F.group_norm(x[None], 1)"]


@pytest.fixture(scope="module", params=[1, 3], ids=["1 worker", "3 workers"])
def pool(request):
    was = shoal.pool._default
    shoal.pool._default = shoal.Session(hub="embedded", workers=request.param, threads=request.param)
    yield
    shoal.pool._default = was


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("line", LINES)
def test_rounded_once(pool, line, dtype):
    array = (np.random.default_rng(1).standard_normal((300, 400)) + 3).astype(np.float32)
    x, y = shoal.tensor(array).to(dtype), peer.torch_of(array).to(getattr(torch, dtype)).double()
    made = eval(line, {"x": x, "t": shoal, "F": shoal.nn.functional})
    must = peer.numpy_of(eval(line, {"x": y, "t": torch, "F": torch.nn.functional}))
    assert made.dtype == dtype
    size = np.abs(must).max()
    np.testing.assert_allclose(made.float().numpy(), must, rtol=2e-3 if dtype == "float16" else 1.6e-2, atol=1e-2 * size)

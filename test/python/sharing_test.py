"""Which results share elements with their operand: those that do in PyTorch, also where there is nothing to
do. Either side is changed in place, and the other looked at."""
import numpy as np
import peer
import pytest

import shoal

torch = peer.torch
SHAPES = [(2, 3), (1, 3), (3, 1), (1, 1), (4,), (1,), (2, 1, 3), ()]
LINES = """
t.roll(x, 2, 0); t.roll(x, 0, 0); t.roll(x, 3, -1); t.roll(x, 0); t.rot90(x, 0); t.rot90(x, 2); x.tril(5); x.triu(-5)
x.flip(()); x.flip((0,)); x.repeat(1); x.repeat(1, 1); x.repeat(2, 1); x.tile((1,)); x.tile((1, 1)); t.diff(x, 0)
x.repeat_interleave(1); x.repeat_interleave(1, 0); x.repeat_interleave(2, 0); x.repeat_interleave(2)
t.cat([x]); t.cat([x, x[:0]], 0); t.stack([x]); t.hstack([x]); t.vstack([x]); t.column_stack([x]); t.block_diag(x)
F.pad(x, [0, 0]); F.pad(x, [0, -1]); x.sum(()); x.sum(0); x.sum(-1, keepdim=True); x.amax(()); x.amin(-1)
x.amax(0, keepdim=True); x.max(0)[0]; x.prod(0); x.mean(0); x.median(0)[0]; t.aminmax(x)[0]; x.mode(0)[0]
x.cumsum(0); x.cumprod(0); x.cummax(0)[0]; x.logcumsumexp(0); x.sort(0)[0]; t.msort(x); x.topk(1, 0)[0]; t.unique(x)
x.index_select(0, i); x[i]; x[x == x]; x.masked_select(x == x); x.take(i); x.gather(0, z); x[[0]]; x.index_put((i,), x[0])
x + 0; x * 1; x / 1; x ** 1; +x; x.abs(); x.floor(); x.round(); x.relu(); x.clamp(-100, 100); x.nan_to_num()
x.contiguous(); x.clone(); x.detach(); x.to(t.float32); x.float(); x.double(); x.type(t.float32); x.cpu(); x.data
x.expand_as(x); x.reshape(x.shape); x.reshape(-1); x.view(-1); x.flatten(); x.ravel(); x.squeeze(); x.unsqueeze(0)
x.T; x.mT; x.t(); x.permute(*range(x.ndim)); x.movedim(0, 0); x.swapaxes(0, 0); x.unflatten(0, (1, -1))
x.diagonal(); t.diag(x); t.diag_embed(x); x.narrow(0, 0, 1); x.select(0, 0); x.unbind(0)[0]; x.split(1)[0]
x.chunk(1)[0]; t.tensor_split(x, 1)[0]; x.unfold(0, 1, 1); x.unfold(-1, 2, 2); x.unfold(0, 1, 2); x.unfold(0, 2, 3)[0]
t.atleast_2d(x); t.broadcast_tensors(x, x)[0]; t.where(x == x, x, x); t.maximum(x, x); t.lerp(x, x, 0.5)
t.einsum('...->...', x); t.einsum('ij->ji', x); t.einsum('ii->i', x); t.narrow_copy(x, 0, 0, 1); t.trace(x)
t.select_scatter(x, x[0], 0, 0); t.slice_scatter(x, x, 0); t.masked_fill(x, x != x, 0); t.index_fill(x, 0, i, 2)
F.dropout(x, 0.0); F.dropout(x, 0.5, training=False); F.linear(x, e); F.embedding(i, x); F.hardtanh(x); x @ e
F.pixel_shuffle(x[None, None], 1); F.pixel_unshuffle(x[None, None], 1); F.channel_shuffle(x[None, None], 1)
F.interpolate(x[None, None], scale_factor=1); F.max_pool1d(x[None], 1); t.nn.Identity()(x); t.nn.Flatten(0)(x)
t.linalg.matrix_power(x, 1); t.chain_matmul(x); t.asarray(x); t.as_tensor(x); x[...]; x[:]; x[0]; x[None]; x[0:1]
x[:, 0]; x[::2]; x[-1:]; x[()]; x.expand(0, *x.shape); x[0:1].expand(0, *x.shape[1:])
"""


def changed(t, make, line, shape, first):
    """What the other side holds after one was filled; None where there is no such result."""
    k = shape[-1] if shape else 1
    x = make(np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape))
    names = {"t": t, "F": t.nn.functional, "x": x, "i": make(np.array([0])),
             "z": make(np.zeros(shape, np.int64)), "e": make(np.eye(k, dtype=np.float32))}
    try:
        made = eval(line, names)
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError, shoal.ShoalError):
        return None
    fills, seen = (made, x) if first else (x, made)
    fills.fill_(77)
    return seen.detach().numpy() if t is shoal else peer.numpy_of(seen)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sharing(shape):
    compared, wrong = 0, []
    for line in (piece.strip() for row in LINES.strip().split("\n") for piece in row.split("; ")):
        for first in (True, False):
            must = changed(torch, peer.torch_of, line, shape, first)
            if must is None:
                continue
            found = changed(shoal, shoal.tensor, line, shape, first)
            if found is None and not shape:
                continue  # the package has less than PyTorch for tensors without axes
            compared += 1
            if found is None or found.shape != must.shape or not np.allclose(found, must, 1e-4):
                wrong.append((line, "result filled" if first else "operand filled", found, must))
    assert not wrong
    assert compared > 60


@pytest.mark.parametrize("line", ["x.topk(2, 0)[0]", "x.topk(1, 1)[1]",
                                  "x.topk(2, 0, largest=False)[0]", "x.kthvalue(2, 1)[0]",
                                  "x.kthvalue(1, 0, keepdim=True)[0]", "x.sort(0)[0]", "x.sum(1)", "x[:, i]", "t.cat([x, x], 1)",
                                  "t.stack([x, x], 1)"])
def test_results_are_dense(line):
    """What a function makes lies as in PyTorch: a reshape of it is a view, to which others may write."""
    seen = []
    for t, make in ((torch, peer.torch_of), (shoal, shoal.tensor)):
        x = make(np.arange(60, dtype=np.float32).reshape(3, 4, 5) % 7)
        y = eval(line, {"t": t, "x": x, "i": make(np.array([2, 0]))})
        y.reshape(-1).fill_(77)
        seen.append(peer.numpy_of(y) if t is torch else y.numpy())
    np.testing.assert_array_equal(seen[1], seen[0])

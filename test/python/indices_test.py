"""An index out of range is an error, as in torch: at the call where indices are known there, else where something
that derives from them is read, with the line of the program. Never another element."""
import numpy as np
import pytest
from peer import torch

import shoal

# Each takes a module, a table of 3 rows, and rows to pick, of which one may be wrong.
READS = {
    "key": lambda t, x, i: x[i],
    "two": lambda t, x, i: x[i, i * 0],
    "gather": lambda t, x, i: x.gather(0, i.reshape(-1, 1)),
    "index_select": lambda t, x, i: t.index_select(x, 0, i),
    "take": lambda t, x, i: t.take(x, i * 2),
    "take_along_dim": lambda t, x, i: t.take_along_dim(x, i.reshape(-1, 1), 0),
    "embedding": lambda t, x, i: t.nn.functional.embedding(i, x),
    "embedding_bag": lambda t, x, i: t.nn.functional.embedding_bag(i.reshape(1, -1), x),
    "cross_entropy": lambda t, x, i: t.nn.functional.cross_entropy(x.T[:1].repeat(i.shape[0], 1), i),
    "smoothed": lambda t, x, i: t.nn.functional.cross_entropy(x.T[:1].repeat(i.shape[0], 1), i, label_smoothing=0.1),
    "nll_loss": lambda t, x, i: t.nn.functional.nll_loss(x.T[:1].repeat(i.shape[0], 1), i),
}
WRITES = {
    "set": lambda t, x, i: put(x, i, 5.0),
    "scatter": lambda t, x, i: x.scatter(0, i.reshape(-1, 1), 5.0),
    "scatter_add": lambda t, x, i: x.scatter_add(0, i.reshape(-1, 1), t.ones(i.shape[0], 1)),
    "index_add": lambda t, x, i: x.index_add(0, i, t.ones(i.shape[0], 2)),
    "index_copy": lambda t, x, i: x.index_copy(0, i, t.ones(i.shape[0], 2)),
    "index_fill": lambda t, x, i: x.index_fill(0, i, 5.0),
}
AT_THE_CALL = {"key", "two", "index_select", "embedding", "cross_entropy", "smoothed", "nll_loss", "set", "index_add",
               "index_copy", "index_fill"}
FROM_THE_END = {"key", "two", "take", "set", "index_fill"}


def put(x, i, value):
    x = x.clone()
    x[i] = value
    return x


@pytest.fixture(scope="module", params=[1, 2])
def pool(request):
    shoal.init(workers=request.param)
    yield shoal
    shoal.disconnect()


def table(t):
    return t.arange(6.0).reshape(3, 2)


def known(t, rows):
    return t.tensor(rows)


def computed(t, rows):
    return t.tensor(rows) * 2 - t.tensor(rows)


@pytest.mark.parametrize("make", [known, computed])
@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_out_of_range(pool, name, make):
    use = (READS | WRITES)[name]
    for rows in ([0, 3, 1], [2, -4]):
        with pytest.raises((IndexError, RuntimeError)):
            use(torch, table(torch), make(torch, rows))
        if make is known:
            with pytest.raises(IndexError, match="out of range"):
                made = use(pool, table(pool), make(pool, rows))
                assert name not in AT_THE_CALL
                made.tolist()
        else:
            made = use(pool, table(pool), make(pool, rows))
            with pytest.raises(IndexError, match=r"indices_test\.py:\d+: index -?\d+ is out of range: it must be from"):
                made.tolist()
    for rows in ([0, 2, 1], [-1, -3]) if name in FROM_THE_END else ([0, 2, 1],):
        want = use(torch, table(torch), make(torch, rows))
        np.testing.assert_allclose(use(pool, table(pool), make(pool, rows)).numpy(), want.tolist(), rtol=1e-6)


def test_what_is_known_changes_with_the_tensor(pool):
    rows = pool.tensor([0, 1])
    rows[1] = 7
    made = table(pool)[rows]
    with pytest.raises(IndexError, match="index 7"):
        made.tolist()
    rows = pool.tensor([0, 7])
    rows.clamp_(max=2)
    assert table(pool)[rows].tolist() == [[0, 1], [4, 5]]


def test_a_function_that_is_replayed_checks_each_time(pool):
    x = table(pool)

    @pool.compile(replay=True)
    def row(i):
        return pool.nn.functional.embedding(i, x).sum()
    assert [row(pool.tensor([k])).item() for k in (0, 1, 2, 1)] == [1, 5, 9, 5]
    wrong = row(pool.tensor([3]))
    with pytest.raises(IndexError, match="index 3"):
        wrong.item()


def test_the_label_that_counts_for_nothing(pool):
    logits, labels = pool.zeros(2, 3), [1, -100]
    for loss in (pool.nn.functional.cross_entropy(logits, pool.tensor(labels)),
                 pool.nn.functional.nll_loss(logits.log_softmax(1), pool.tensor(labels))):
        assert loss.item() == pytest.approx(np.log(3))


def test_gradients_pass(pool):
    x = table(pool).requires_grad_()
    x[computed(pool, [0, 2, 2])].sum().backward()
    assert x.grad.tolist() == [[1, 1], [0, 0], [2, 2]]


EMPTY = {
    "key": (lambda t, x, i: x[i], (0,)),
    "rows": (lambda t, x, i: x[i], (0, 3)),
    "columns": (lambda t, x, i: x[:, i], (3, 0)),
    "both": (lambda t, x, i: x[i, i], (0, 0)),
    "mask": (lambda t, x, i: x[x > 0], (0,)),
    "index_select": (lambda t, x, i: t.index_select(x, 0, i), (0, 2)),
    "take": (lambda t, x, i: t.take(x, i), (0,)),
    "embedding": (lambda t, x, i: t.nn.functional.embedding(i, x), (0, 2)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_of_what_has_no_elements(pool, name):
    function, shape = EMPTY[name]
    want = function(torch, torch.zeros(shape), torch.zeros(0).to(torch.int64))
    x = shoal.zeros(shape).requires_grad_()
    got = function(shoal, x, shoal.zeros(0, dtype=shoal.int64))
    assert got.numpy().shape == tuple(want.shape)
    got.sum().backward()
    assert x.grad.numpy().shape == shape


@pytest.mark.parametrize("name", [name for name in EMPTY if name != "mask"])
def test_something_of_what_has_no_elements(pool, name):
    function, shape = EMPTY[name]
    for index in (shoal.tensor([0]), shoal.ones(1, dtype=shoal.int64) * 2):
        with pytest.raises(IndexError, match=r"index \d is out of range: there are no elements"):
            function(shoal, shoal.zeros(shape), index).numpy()


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_every_integer_type(pool, kind):
    most = 2 ** 63 if kind == "uint64" else 100
    for rows, fits in (([0, 2], True), ([0, most], False)):
        at = pool.tensor(np.array(rows, kind)) + pool.zeros(2, dtype=kind)
        if fits:
            assert table(pool)[at].tolist() == [[0, 1], [4, 5]]
        else:
            with pytest.raises(IndexError):
                table(pool)[at].tolist()


def test_narrow_keys_of_a_long_axis(pool):
    x = np.arange(300, dtype=np.float32)
    for dtype in ("int8", "int16"):
        key = np.array([1, -1, -100, 127], dtype)
        assert pool.tensor(x)[pool.tensor(key)].tolist() == x[key].tolist()

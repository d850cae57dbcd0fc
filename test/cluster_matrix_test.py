"""python/compat/cluster_matrix: distributed matrices by its names, compared with NumPy, and what is wrong of arguments and
files. Programs of the document are run by cluster_matrix_blocks_test.py, text commands by cluster_gateway_test.py."""
import contextlib
import importlib.util
import itertools
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import warnings

import cluster as processes
import cluster_matrix as package
import numpy as np
import pytest
import shoal
from cluster_matrix import arguments, cluster_matrix, cluster_zmq, config, files, operations, pool
from hypothesis import given, settings, strategies as st
from trust_test import await_true

ADDRESSES = [f"192.168.2.{100 + i}" for i in range(12)]
TORCH_PATH = pathlib.Path(os.environ["SHOAL"]).resolve().parents[1] / "torch-path"
HAS_TORCH = importlib.util.find_spec("torch") is not None
pytestmark = pytest.mark.filterwarnings("ignore:no worker is called")
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture(scope="module", autouse=True)
def slots():
    """A pool of twelve devices in this process."""
    for name in [*config._NAMES, *config._NEEDLESS]:
        os.environ.pop(name, None)
    shoal.init(workers=12, threads=1)
    yield
    shoal.disconnect()


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "_assigned", {})


def array(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def numbers(result):
    """A result as float64, whichever library it is of."""
    if HAS_TORCH and type(result).__module__ == "torch":
        return result.double().numpy()
    return np.asarray(result).astype(np.float64)


def near(result, expected, dtype="float32", sums=None):
    sums = np.abs(expected).max() if sums is None else sums
    assert np.shape(result) == expected.shape
    assert np.abs(numbers(result) - expected).max() <= TOLERANCE[dtype] * max(sums, 1e-30)


# ---- products ----

@st.composite
def products(draw):
    n = draw(st.integers(1, 12))
    cut = sorted(draw(st.lists(st.integers(0, 20), min_size=n - 1, max_size=n - 1)))
    shares = [(b - a) / 20 for a, b in zip([0, *cut], [*cut, 20])]
    length = st.integers(1, 33)
    return {"n": n, "shares": shares, "m": draw(length), "k": draw(length), "columns": draw(length),
            "op": draw(st.sampled_from(["mul", "mul", "add", "sub"])), "turns": draw(st.tuples(st.booleans(), st.booleans())),
            "batch": draw(st.sampled_from([(), (), (3,), (2, 3)])), "split": draw(st.tuples(st.booleans(), st.booleans())),
            "dims": draw(st.tuples(st.integers(0, 3), st.integers(0, 3))), "back": draw(st.booleans()),
            "labels": draw(st.sampled_from([("", ""), ("", ""), ("a", "b")])),
            "dtypes": draw(st.tuples(*[st.sampled_from(list(TOLERANCE))] * 2)),
            "backends": draw(st.lists(st.sampled_from(["llama", "torch", "opencl"]), min_size=n, max_size=n)),
            "same": draw(st.booleans()), "seed": draw(st.integers(0, 1 << 20))}


@settings(max_examples=300, deadline=None)
@given(products())
def test_results_are_the_mathematical_ones(case):
    """1 to 12 nodes (also one address for all), any shares, both operands split along any axis or whole, both systems,
    transposes, 2 to 4 axes, mixed types and backends, sent back or left and used again."""
    m, k, n = case["m"], case["k"], case["columns"]
    shapes = [(m, k), (k, n)] if case["op"] == "mul" else [(m, k), (m, k)]
    shapes = [case["batch"] + (shape[::-1] if turn else shape) for shape, turn in zip(shapes, case["turns"])]
    nodes = [ADDRESSES[0]] * case["n"] if case["same"] else ADDRESSES[:case["n"]]
    plain, made = [], []
    for i in range(2):
        tensor = shoal.from_numpy(array(shapes[i], case["seed"] + i)).astype(case["dtypes"][i])
        plain.append(tensor.astype("float64").numpy())
        made.append(cluster_matrix(tensor, nodes, case["shares"], case["backends"], split_matrix=case["split"][i],
                                   dim=case["dims"][i] % len(shapes[i]), matrix_labeling=case["labels"][i]))
        if case["split"][i]:
            assert sum(s[made[i].dim] for s in made[i].shard_shapes) == shapes[i][made[i].dim]
    left, right = (x.swapaxes(-1, -2) if turn else x for x, turn in zip(plain, case["turns"]))
    expected = {"mul": np.matmul, "add": np.add, "sub": np.subtract}[case["op"]](left, right)
    sums = np.matmul(np.abs(left), np.abs(right)).max() if case["op"] == "mul" else np.abs(left).max() + np.abs(right).max()
    result = made[0].cluster_operation(made[1], *case["turns"], case["back"], case["op"])
    kind = min(case["dtypes"], key=operations._RANKS.index)
    if case["back"] or case["n"] == 1:
        near(result, expected, kind, sums)
        return
    assert result.dtype == kind and result.OG_matrix_shape == list(expected.shape)
    near(result.compute(), expected, kind, sums)
    near(np.concatenate([t.astype("float32").numpy() for t in result.node_matrices], result.dim), expected, kind, sums)
    again = result.cluster_shard_operation(result, TransposeB=True, send_back_result=True)
    near(again, expected @ expected.swapaxes(-1, -2), kind, 4 * (np.abs(expected) @ np.abs(expected).swapaxes(-1, -2)).max())


def test_shares_are_obeyed_to_the_row():
    matrix = cluster_matrix(array((1000, 7)), ADDRESSES[:3], [0.29, 0.42, 0.29], split_matrix=True)
    assert [s[0] for s in matrix.shard_shapes] == [290, 420, 290]
    assert "rows 0..290..710..1000 on 0,1,2" in matrix.tensor.explain()
    assert [t.shape[0] for t in matrix.node_matrices] == [290, 420, 290]
    odd = cluster_matrix(array((10, 7)), ADDRESSES[:3], [1 / 3] * 3, split_matrix=True)
    assert [s[0] for s in odd.shard_shapes] == [3, 3, 4]
    product = odd.cluster_operation(array((7, 5)), send_back=False)
    assert "0..3..6..10 on 0,1,2" in product.tensor.explain()
    columns = cluster_matrix(array((10, 8)), ADDRESSES[:2], [0.25, 0.75], split_matrix=True, dim=1)
    assert [s[1] for s in columns.shard_shapes] == [2, 6]


def test_an_address_that_stands_several_times_is_several_devices():
    with pytest.warns(UserWarning, match="no worker is called 192.168.2.100: .* the 12 devices of the pool in their order"):
        matrix = cluster_matrix(array((10, 7)), [ADDRESSES[0]] * 3, [0.2, 0.3, 0.5], split_matrix=True)
    assert len(set(matrix.slots)) == 3 and matrix.llama_socket_pool == {ADDRESSES[0]: matrix.slots}
    many = cluster_matrix(array((60, 7)), [f"10.0.0.{i}" for i in range(30)], split_matrix=True)
    assert set(many.slots) == set(range(12)) and sum(many.node_percentages) == pytest.approx(1)
    near(many.cluster_operation(array((7, 4), 1)), array((60, 7)).astype(float) @ array((7, 4), 1))


def test_nodes_are_workers_where_they_are_called_so(monkeypatch):
    name = shoal.status().slots[0].worker
    monkeypatch.setenv("CLUSTER_MATRIX_NODES", f"192.168.2.100={name}, 192.168.2.101={name}/cpu")
    assert cluster_matrix(array((4, 4)), ["192.168.2.101", "192.168.2.100"], [0.5, 0.5]).slots == [0, 1]
    with pytest.raises(ValueError, match="node 203.0.113.9: no worker of the pool is called so; it has"):
        cluster_matrix(array((4, 4)), ["203.0.113.9"], [1.0])
    monkeypatch.setenv("CLUSTER_MATRIX_NODES", "192.168.2.100")
    with pytest.raises(ValueError, match="'192.168.2.100' is not ADDRESS=WORKER"):
        cluster_matrix(array((4, 4)), ["192.168.2.100"], [1.0])


def test_all_orders_of_arguments():
    lists = (ADDRESSES[:2], [0.5, 0.5], [True, False], ["llama", "torch"])
    a = array((4, 4))
    for order in itertools.permutations(lists):
        made = cluster_matrix(a, *order, True, 1, "name")
        assert (made.node_IP_list, made.node_percentages, made.CPU_GPU_select_list, made.back_end_select_list) == lists
        assert made.split_matrix and made.dim == 1 and made.matrix_name == "name"
    zmq = cluster_zmq(ADDRESSES[:3])
    assert zmq.default_node_percentages == [0.34, 0.33, 0.33]
    made = cluster_matrix(a, zmq, None, [False] * 3, [0.5, 0.25, 0.25], ["llama"] * 3, False, 0, "x", "b", [2, "save"])
    assert made.node_IP_list == zmq.node_IP_list and made.matrix_labeling == "b"
    assert cluster_matrix(a, cluster_zmq_object=zmq).node_percentages == [0.34, 0.33, 0.33]
    assert len(cluster_matrix(a).slots) == 12
    for wrong, message in [
            ((lists[0], [1.0]), "node_IP_list has 2, node_percentages has 1"),
            ((lists[0], [0.5, 0.3]), r"sum to 0.8, not 1; correct them, or give normalise=True"),
            ((lists[0], [1.5, -0.5]), "none may be negative"),
            ((lists[0], [0.5, float("nan")]), "none may be negative"),
            ((lists[0], ["llama", "vulkan"]), "node_IP_list is given twice"),
            ((lists[0], [0.5, "x"]), "a list holds addresses, shares, backends"), ((3.5,), "what is 3.5"),
            ((True, 7), "has no axis 7")]:
        with pytest.raises((ValueError, TypeError), match=message):
            cluster_matrix(a, *wrong)
    with pytest.raises(TypeError, match="no argument 'nodes'; there are matrix_file_path, cluster_zmq_object"):
        cluster_matrix(a, nodes=[])
    with pytest.warns(UserWarning, match="sum to 0.95 and are scaled"):
        assert sum(cluster_matrix(a, lists[0], [0.5, 0.45], normalise=True).node_percentages) == pytest.approx(1)
    with pytest.raises(ValueError, match=r"Matrix dimension mismatch: mul: float32\[4, 4\] and float32\[3, 4\]"):
        made.cluster_operation(array((3, 4)))
    with pytest.raises(TypeError, match="no argument 'transpose_b'"):
        made.cluster_operation(made, transpose_b=True)
    with pytest.raises(ValueError, match="no operation 'div'; there are mul, add, sub"):
        made.cluster_operation(made, operation="div")


# ---- other operations ----

def by_hand(x, op):
    gate = 1 / (1 + np.exp(-x))
    wide = np.exp(x - x.max(-1, keepdims=True))
    return {"soft_max": wide / wide.sum(-1, keepdims=True), "silu": x * gate,
            "gelu": x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
            "gelu_quick": x / (1 + np.exp(-1.702 * x)), "gelu_erf": x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
            "rms_norm": x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6)}[op]


@pytest.mark.parametrize("op", operations.UNARY)
def test_unary(op):
    x = array((9, 14))
    for dim, turn in itertools.product((0, 1), (False, True)):
        made = cluster_matrix(x, ADDRESSES[:3], [0.5, 0.25, 0.25], split_matrix=True, dim=dim)
        near(made.ggml_cluster_single_matrix_operation(turn, op, True), by_hand((x.T if turn else x).astype(float), op))
    left = made.ggml_cluster_single_matrix_operation(operation=op)
    near(left.compute(), by_hand(x.astype(float), op))


def test_attention_by_heads():
    q, k, v = (array(shape, i) for i, shape in enumerate([(2, 6, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)]))
    mask = array((5, 7), 3)
    wide_k, wide_v = (x.astype(float).repeat(2, 1) for x in (k, v))

    def by_numpy(scale, cap=0.0, more=0.0):
        scores = q.astype(float) @ wide_k.swapaxes(-1, -2) * scale
        scores = np.tanh(scores / cap) * cap if cap else scores
        return by_hand(scores + more, "soft_max") @ wide_v
    made = [cluster_matrix(x, ADDRESSES[:3], [0.5, 0.3, 0.2], split_matrix=True, dim=1) for x in (q, k, v)]
    flat = made[0].cluster_flash_attn(*made[1:], send_back_result=True)
    near(flat, by_numpy(8 ** -0.5).reshape(60, 8))
    left = made[0].cluster_flash_attn(*made[1:], extra_param_value=[0.5, 0.0, 3.0], mask=mask)
    near(left.compute(), by_numpy(0.5, 3.0, mask))
    slopes = 2.0 ** -np.array([2, 4, 6, 8, 1, 3])  # of 6 heads with a bias of 8: 4 of 4, then 2 of 8
    near(made[0].cluster_flash_attn(k, v, extra_param_value=[0, 8.0, 0], mask=mask, send_back=True),
         by_numpy(8 ** -0.5, more=mask * slopes.reshape(1, 6, 1, 1)).reshape(60, 8))
    near(made[0].cluster_flash_attn(cluster_matrixK=made[1], cluster_matrixV=v, extra_param_value=0.25, send_back=True),
         by_numpy(0.25).reshape(60, 8))
    turned = cluster_matrix(k.swapaxes(-1, -2).copy(), ADDRESSES[:1], [1.0])
    near(made[0].cluster_flash_attn(turned, v, False, True, send_back=True), by_numpy(8 ** -0.5).reshape(60, 8))
    with pytest.raises(ValueError, match=r"queries \[2, 6, 5, 8\], keys \[2, 3, 7, 8\], values \[1, 6, 5, 8\]"):
        made[0].cluster_flash_attn(made[1], q[:1])


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_rope(kind):
    x = array((2, 3, 5, 8)).astype(np.float64)
    rates = 500.0 ** (-2 * np.arange(3) / 6)
    angles = (np.arange(5)[:, None] + 4) * rates * 0.5
    head = x[..., :6].astype(complex)
    pairs = head[..., ::2] + 1j * head[..., 1::2] if kind == 0 else head[..., :3] + 1j * head[..., 3:]
    pairs = pairs * np.exp(1j * angles)
    expected = x.copy()
    if kind == 0:
        expected[..., 0:6:2], expected[..., 1:6:2] = pairs.real, pairs.imag
    else:
        expected[..., :3], expected[..., 3:6] = pairs.real, pairs.imag
    made = cluster_matrix(x.astype(np.float32), ADDRESSES[:3], [0.5, 0.3, 0.2], split_matrix=True, dim=1)
    near(made.cluster_rope_operation(rope_type=kind, exter_parmiters=[6, 500.0, 4, 0.5], send_back=True), expected)
    with pytest.raises(ValueError, match="no type 3"):
        made.cluster_rope_operation(rope_type=3)


def test_reshape_and_repeat():
    x = array((20, 16))
    made = cluster_matrix(x, ADDRESSES[:3], [0.5, 0.45, 0.05], split_matrix=True)
    near(made.cluster_reshape_operation([10, 4, 2, 4], input_shape=[20, 16], send_back_result=True), x.reshape(10, 4, 2, 4))
    near(made.cluster_repeat_operation([2, 3, 1, 1], Transpose=False, send_back_result=True), np.tile(x, (3, 2)))
    left = made.cluster_reshape_operation(output_dims=[40, 8])
    near(left.send_back(), x.reshape(40, 8))
    for call, message in [(lambda: made.cluster_reshape_operation([10, 4]), "has 320 elements, .* would have 40"),
                          (lambda: made.cluster_reshape_operation([40, 8], [8, 40]), "not .8, 40."),
                          (lambda: made.cluster_repeat_operation([0, 1, 1, 1]), "each at least 1")]:
        with pytest.raises(ValueError, match=message):
            call()


# ---- files ----

@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (4, 1, 3, 5), (0, 5)])
def test_bin_files(dtype, shape, tmp_path):
    tensor = shoal.from_numpy(array(shape)).astype(dtype)
    for version in (1, 2):
        data = files.encode(tensor, version)
        first = {"float32": 4 if version == 1 else -1, "float16": -2, "bfloat16": -3}[dtype]
        assert struct.unpack_from("<5i", data) == (first, *(1,) * (4 - len(shape)), *shape)
        assert len(data) == 20 + math.prod(shape) * (4 if dtype == "float32" else 2)
        files.write_whole(tmp_path, "m.bin", data)
        for back in (files.tensor("m.bin"), files.tensor_of(data, "m", shoal.session())):
            assert back.dtype == dtype and tuple(back.shape) == shape
            assert back.astype("float32").numpy().tobytes() == tensor.astype("float32").numpy().tobytes()
    assert np.shape(package.convert_bin_matrix_to_pt("m.bin")) == (math.prod(shape[:-1]), 5)


def test_version_1_of_fewer_axes(tmp_path):
    x = array((2, 3, 4))
    (tmp_path / "three.bin").write_bytes(struct.pack("<4i", 3, 2, 3, 4) + x.tobytes())
    (tmp_path / "two.bin").write_bytes(struct.pack("<3i", 2, 6, 4) + x.tobytes())
    near(files.result(files.tensor("three.bin")), x.astype(float))
    near(files.result(files.tensor("two.bin")), x.reshape(6, 4).astype(float))


def test_what_may_be_given_for_a_matrix(tmp_path):
    x = array((4, 3))
    shoal.save({"layers": {"weight": shoal.from_numpy(x)}, "bias": shoal.ones(3)}, "model.pt")
    shoal.save({"only": shoal.from_numpy(x)}, "one.pt")
    shoal.save(shoal.from_numpy(x), "m.npy")
    for given_ in ("model.pt:layers.weight", "one.pt", "one.pt:only", "m.npy", tmp_path / "m.npy", x, x.tolist(),
                   shoal.from_numpy(x)):
        near(cluster_matrix(given_, ADDRESSES[:2], [0.5, 0.5]).compute(), x.astype(float))
    assert cluster_matrix("model.pt:layers.weight").matrix_name == "model_layers.weight"
    for given_, message in [("model.pt", "holds 2 tensors; name one, as 'model.pt:KEY': layers.weight, bias"),
                            ("model.pt:x", "none called 'x'"), ("none.pt", "none.pt: there is no such file"),
                            ("m.npy:x:y", "there is no such file"), (np.ones(3), r"has the shape \[3\]"), (["a"], "no matrix")]:
        with pytest.raises((ValueError, FileNotFoundError, TypeError), match=message):
            cluster_matrix(given_)
    (tmp_path / "bad.bin").write_bytes(files.encode(shoal.ones(3, 3))[:-1])
    with pytest.raises(ValueError, match="bad.bin is damaged"):
        cluster_matrix("bad.bin")


def test_shards_in_files(tmp_path, monkeypatch):
    """Names and sizes as in the document, in the folders that variables say; read again, also by the C reader."""
    for name in ("LOCAL_RAM_FOLDER", "LOCAL_DISK_FOLDER"):
        monkeypatch.setenv(name, str(tmp_path / name))
    x = array((4096, 16))
    made = cluster_matrix(x, ADDRESSES[:3], [1021 / 4096, 1025 / 4096, 2050 / 4096], split_matrix=True,
                          matrix_name="layers_4_mlp_down_proj_weight", auto_set_up=[1, "save"])
    paths = [f"{tmp_path}/{folder}/layers_4_mlp_down_proj_weight_shard_{i}.bin"
             for folder in ("LOCAL_DISK_FOLDER", "LOCAL_RAM_FOLDER") for i in range(3)]
    assert made.matrix_file_paths_list == paths
    assert [os.path.getsize(p) - 20 for p in paths] == [rows * 16 * 4 for rows in (1021, 1025, 2050)] * 2
    assert os.stat(tmp_path / "LOCAL_RAM_FOLDER").st_mode & 0o777 == 0o700
    near(np.concatenate([shoal.load(p).numpy() for p in paths[:3]]), x.astype(float))
    again = cluster_matrix("nowhere.pt", ADDRESSES[:2], [0.5, 0.5], matrix_name=made.matrix_name, auto_set_up=[1, "load"],
                           split_matrix=True)
    near(again.compute(), x.astype(float))
    near(made.load_cluster_matrix_shards().compute(), x.astype(float))
    result = made.cluster_operation(array((16, 8)), send_back=False)
    assert result.matrix_name == "layers_4_mlp_down_proj_weightxmatrix"
    assert os.path.basename(result.save_distribute_matrix_shards_bin()[0]) == \
        "layers_4_mlp_down_proj_weightxmatrix_shard_0.bin"
    whole = cluster_matrix(x, ADDRESSES[:2], [0.5, 0.5], matrix_name="whole")
    assert [os.path.basename(p) for p in whole.save_distribute_full_matrix_bin()] == ["whole.bin"] * 2
    near(whole.load_cluster_matrix_A_grid().compute(), x.astype(float))
    # Both forms of one name: each is read by who asks for it, and shards along the axis on which they fit.
    cluster_matrix(x * 2, ADDRESSES[:2], [0.25, 0.75], matrix_name="whole", auto_set_up=[1, "save"], split_matrix=True, dim=1)
    near(whole.load_cluster_matrix().compute(), x.astype(float))
    near(cluster_matrix(None, matrix_name="whole", auto_set_up=[1, "load"], split_matrix=True).compute(), 2 * x.astype(float))
    files.write_whole(tmp_path / "LOCAL_DISK_FOLDER", "whole_shard_1.bin", files.encode(shoal.ones(3, 3)))
    with pytest.raises(ValueError, match="shapes .* do not fit each other; write them again"):
        cluster_matrix(None, matrix_name="whole", auto_set_up=[1, "load"], split_matrix=True)
    assert whole.save_matrix_binary(x[:2], "part.bin").endswith("LOCAL_RAM_FOLDER/part.bin")
    for name in ("../out.bin", "/etc/out.bin", ".hidden", "a/b.bin", "", "a" * 300, "a\0b"):
        with pytest.raises(ValueError, match="no name of a matrix|letters, digits"):
            whole.save_matrix_binary(x, name)
    with pytest.raises(TypeError, match="a NoneType is no matrix"):
        whole.cluster_operation()
    with pytest.raises(FileNotFoundError, match="gone.bin: there is no such file"):
        cluster_matrix("x.pt", matrix_name="gone", auto_set_up=[1, "load"])
    moved = whole.parallel_interface_file_transfer(paths[0], ADDRESSES[1])
    assert moved == {ADDRESSES[1]: 1021 * 16 * 4}


def test_comparing(capsys):
    x = array((3, 3))
    assert package.check_combined_result_values(x, x + 1e-6) and not package.check_combined_result_values(x, x + 1)
    assert not package.check_combined_result_values(x, x[:2])
    told = capsys.readouterr().out
    assert "as expected within 0.001: the largest difference is" in told and "NOT as expected" in told
    assert "the shapes differ: [3, 3] expected, [2, 3] there" in told


# ---- a pool of processes ----

@contextlib.contextmanager
def pool_of(workers):
    """A hub and workers as processes, and the session with them, in the place of this module's pool."""
    before, shoal.pool._default = shoal.pool._default, None
    made = processes.Pool(workers)
    try:
        yield made
    finally:
        made.close()
        shoal.pool._default = before


def test_workers_hold_what_their_percentages_say(monkeypatch):
    """Three workers that addresses are mapped to: each holds its rows, and a chain of products stays with them."""
    with pool_of(3) as mine:
        monkeypatch.setenv("CLUSTER_MATRIX_NODES", "192.168.2.100=w3,192.168.2.101=w1,192.168.2.102=w2")
        nodes, shares = [f"192.168.2.{i}" for i in (100, 101, 102)], [0.5, 0.3, 0.2]
        a, b = array((1000, 200)), array((200, 200), 1)
        left = cluster_matrix(a, nodes, shares, split_matrix=True)
        right = cluster_matrix(b, nodes, shares)
        names = {s.slot: s.worker for s in shoal.status().slots}
        assert [names[s] for s in left.slots] == ["w3", "w1", "w2"]
        chain, expected = left, a.astype(float)
        for _ in range(4):
            chain, expected = chain.cluster_operation(right, send_back=False), expected @ b
        assert [s[0] for s in chain.shard_shapes] == [500, 300, 200]
        text = chain.tensor.explain()
        assert f"rows 0..500..800..1000 on {','.join(map(str, left.slots))}" in text
        between = [line for line in text.splitlines() if re.match(r"w\d/cpu +to w\d/cpu", line)]
        assert between == [], text  # of the products nothing moves between workers
        near(chain.compute(), expected)
        mine.add("192.168.2.103")  # a worker that is called as its address needs no map
        mine.await_workers(4)
        names = {s.worker: s.slot for s in shoal.status().slots}
        assert cluster_matrix(a, ["192.168.2.103", "192.168.2.101"], [0.5, 0.5]).slots == [names["192.168.2.103"], names["w1"]]
        with pytest.raises(ValueError, match="node 192.168.2.9: .* is called so; it has 192.168.2.103, w1, w2, w3"):
            cluster_matrix(a, ["192.168.2.9"], [1.0])


def test_backends_are_mixed_in_one_product(monkeypatch):
    """A worker of PyTorch and one of Shoal's own kernels: each node is the device that its backend asks for."""
    if not any(TORCH_PATH.glob("torch")) and not HAS_TORCH:
        pytest.skip("there is no torch: tools/install.sh test")
    with pool_of(1) as mine:
        for name, value in {"SHOAL_BACKEND": "torch", "SHOAL_PYTHON": sys.executable,
                            "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{TORCH_PATH}"}.items():
            monkeypatch.setenv(name, value)
        mine.add("w2")
        mine.await_workers(2)
        names = {s.slot: (s.worker, s.backend) for s in shoal.status().slots}
        a, b = array((30, 20)), array((20, 10), 1)
        made = cluster_matrix(a, ADDRESSES[:2], [0.4, 0.6], ["torch", "llama"], [False, False], split_matrix=True)
        assert [names[s] for s in made.slots] == [("w2", "torch"), ("w1", "cpu")]
        near(made.cluster_operation(b), a.astype(float) @ b)
        await_true(lambda: all(s.nodes > 0 for s in shoal.status().slots if s.compute), 60, shoal.status)


# ---- the rest ----

def test_variables(monkeypatch, capsys):
    monkeypatch.setenv("OPEN_CLUSTER_MATRIX_SHARD_DIRECTORY", "kept")
    monkeypatch.setenv("HEAD_NODE_IP_ETH", "192.168.2.7")
    monkeypatch.setenv("GGML_CTX_MEM_MB", "512")
    package.print_settings()
    told = capsys.readouterr().out
    assert "OPEN_CLUSTER_MATRIX_SHARD_DIRECTORY=kept  (environment) where shards are kept" in told
    assert "LOCAL_RAM_FOLDER=/dev/shm/matrix_shards/  (default)" in told
    assert "HEAD_NODE_IP_ETH=192.168.2.7  (environment)" in told and "GGML_CTX_MEM_MB=512  (environment) no effect" in told
    monkeypatch.setenv("HEAD_NODE_IP", "192.168.2.8")
    assert config.value("HEAD_NODE_IP_ETH") == "192.168.2.8"
    monkeypatch.setenv("HEAD_NODE_PULL_PORT_C", "70000")
    with pytest.raises(ValueError, match="HEAD_NODE_PULL_PORT_C=70000: a port is a number from 1 to 65535"):
        config.port("HEAD_NODE_PULL_PORT_C")
    for kind in ("MATRIX_LOADING", "GPU_SELECTION"):
        monkeypatch.setenv(f"DEBUG_{kind}", "1")
    shoal.save(shoal.ones(2, 2), "m.npy")
    cluster_matrix("m.npy", ["192.168.2.50"], [1.0])
    told = capsys.readouterr().err
    assert "cluster_matrix: m.npy: float32[2, 2]\n" in told and "cluster_matrix: node 192.168.2.50: slot 0, " in told


def test_torch_tensors_where_there_is_torch():
    code = """
import torch, numpy as np
from cluster_matrix import cluster_matrix
a = torch.randn(5, 4)
for kind in (torch.float32, torch.float16, torch.bfloat16):
    made = cluster_matrix(a.to(kind), ["h1", "h2"], [0.5, 0.5]).cluster_operation(a.to(kind), False, True, True)
    assert isinstance(made, torch.Tensor) and made.dtype == kind
    assert torch.allclose(made.float(), (a @ a.T), atol=0.1)
print("torch", flush=True)
"""
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(TORCH_PATH)])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
                          timeout=120)
    if "No module named 'torch'" in done.stderr:
        pytest.skip("there is no torch: tools/install.sh test")
    assert done.stdout == "torch\n", done.stderr


def test_cluster_object():
    """As the document's attention calls it."""
    from cluster_matrix_v1 import cluster_matrix as of_the_public_code
    assert of_the_public_code is cluster_matrix
    q, k, v = (array((6, 4), i) for i in range(3))
    scores = package.cluster.distributed_matmul(q, k.T)
    near(package.cluster.distributed_matmul(scores, v), q.astype(float) @ k.T @ v)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert arguments.shares([0.5, 0.5]) == [0.5, 0.5]

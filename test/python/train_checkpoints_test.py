"""Checkpoints of `shoal train`: whole or not there, whatever happens: kill -9, lost bytes, flipped bits, a full disk."""
import json
import os
import random
import resource
import signal
import struct
import threading
import time
import zlib

import numpy as np
import pytest
from safetensors.numpy import load_file

import shoal
from shoal.train import checkpoint
from shoal.train.checkpoint import Checkpoints

RNG = np.random.default_rng(3)


def some_arrays(step, size=1000):
    return {"theta.w": np.full((size, 3), step, np.float32), "theta.b": np.arange(7, dtype=np.int64) + step,
            "scalar": np.float64(step), "none": np.empty((0, 4), np.float32), "mask": np.arange(5) % 2 == 0,
            "half": np.arange(6, dtype=np.float16).reshape(2, 3)}


def same(got, want):
    return got.keys() == want.keys() and all(
        got[name].dtype == np.asarray(want[name]).dtype and np.array_equal(got[name], want[name]) for name in want)


def test_what_is_written_is_read(tmp_path):
    made = Checkpoints(tmp_path / "c", keep=2)
    assert made.latest() is None
    state = {"round": 3, "data": {"next": 12, "returned": [[1, 2]]}, "text": "a \"b\" é \u2028", "loss": float("nan")}
    for step in (1, 2, 3):
        made.save(step, some_arrays(step), state | {"step": step})
    made.close()
    step, arrays, told = Checkpoints(tmp_path / "c").latest()
    assert step == 3 and same(arrays, some_arrays(3)) and told["text"] == state["text"] and told["step"] == 3
    assert np.isnan(told["loss"]) and arrays["theta.w"].flags.writeable
    assert sorted(os.listdir(tmp_path / "c")) == [f"step-{n:012}.safetensors" for n in (2, 3)]
    # Others read it, too.
    assert same(load_file(made.path(3)), some_arrays(3))
    assert np.array_equal(shoal.File(made.path(3))["theta.b"].numpy(), np.arange(7) + 3)


def test_bfloat16(tmp_path):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    made = Checkpoints(tmp_path)
    made.save(1, {"x": np.arange(9).astype(bfloat16)}, {})
    made.close()
    assert same(made.latest()[1], {"x": np.arange(9).astype(bfloat16)})


def test_which_ones_are_kept(tmp_path):
    made = Checkpoints(tmp_path, keep=2, keep_every=5)
    for step in range(1, 14):
        made.save(step, {"x": np.zeros(1)}, {})
    made.close()
    assert sorted(made.steps()) == [5, 10, 12, 13]


def test_what_is_saved_may_change_at_once(tmp_path):
    made = Checkpoints(tmp_path)
    array = np.zeros(1 << 20)
    made.save(1, {"x": array}, {})
    array += 1
    made.close()
    assert not made.latest()[1]["x"].any()


def test_at_most_one_waits(tmp_path, monkeypatch):
    gate, written = threading.Event(), []

    def slow(path, step, arrays, text):
        gate.wait(20)
        written.append(step)
    monkeypatch.setattr(checkpoint, "write", slow)
    made = Checkpoints(tmp_path)
    made.save(1, {}, {})
    made.save(2, {}, {})
    third = threading.Thread(target=made.save, args=(3, {}, {}))
    third.start()
    third.join(0.2)
    assert third.is_alive() and not written  # one is being written, one waits
    gate.set()
    third.join(20)
    made.close()
    assert written == [1, 2, 3]


def test_damage_is_told_and_the_one_before_is_used(tmp_path):
    made = Checkpoints(tmp_path)
    for step in (1, 2):
        made.save(step, some_arrays(step, 20), {"step": step})
    made.close()
    with open(made.path(2), "rb") as file:
        whole = file.read()
    told = []
    reader = Checkpoints(tmp_path, say=told.append)
    for at in range(0, len(whole), 97):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:]):
            with open(made.path(2), "wb") as file:
                file.write(data)
            step, arrays, state = reader.latest()
            assert (step, state) == (1, {"step": 1}) and same(arrays, some_arrays(1, 20)), at
            assert told and "step-000000000002.safetensors: the checkpoint is damaged: " in told.pop(), at
            assert not told
    with open(made.path(2), "wb") as file:
        file.write(whole + b"x")
    assert reader.latest()[0] == 1 and "there is more behind its end" in told.pop()
    with open(made.path(2), "wb") as file:
        file.write(whole)
    assert reader.latest()[0] == 2


@pytest.mark.parametrize("data", [b"", b"x", b"\xff" * 8, b"\0" * 8, b"\2\0\0\0\0\0\0\0{}", b"\2\0\0\0\0\0\0\0[]",
                                  b"\x12\0\0\0\0\0\0\0" + b'{"__metadata__":1}'])
def test_what_is_no_checkpoint(tmp_path, data):
    path = tmp_path / "step-000000000001.safetensors"
    path.write_bytes(data)
    told = []
    with pytest.raises(shoal.FormatError, match="checkpoint_dir .*: none of its checkpoints can be used; remove them to begin anew"):
        Checkpoints(tmp_path, say=told.append).latest()
    assert len(told) == 1 and "damaged" in told[0]


def signed(rows, sums, data=b"", state="{}"):
    """A checkpoint as an enemy writes it: all checksums are right."""
    facts = {"state": state, "crc32": json.dumps(sums), "header_crc32": checkpoint._OPEN}
    header = json.dumps({"__metadata__": facts} | rows).encode()
    start = struct.pack("<Q", len(header))
    return start + header.replace(b"00000000", f"{zlib.crc32(start + header):08x}".encode()) + data


@pytest.mark.parametrize("row", [{}, [], {"dtype": "F32", "shape": [1]}, {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
                                 {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}, {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]},
                                 {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}, {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
                                 {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 1 << 62]}, {"dtype": [], "shape": [1], "data_offsets": [0, 4]},
                                 {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}, {"dtype": "F32", "shape": [1], "data_offsets": ["a", "b"]},
                                 {"dtype": "F32", "shape": [1.0], "data_offsets": [0.0, 4.0]}])
def test_what_an_enemy_has_written(tmp_path, row):
    path = tmp_path / "step-000000000001.safetensors"
    good = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    path.write_bytes(signed({"x": good}, {"x": zlib.crc32(bytes(4))}, bytes(4)))
    assert checkpoint.read(path)[0]["x"] == 0
    for sums in ({"x": zlib.crc32(bytes(4))}, {}, []):
        for one in (row, good) if sums in ({}, []) else (row,):
            path.write_bytes(signed({"x": one}, sums, bytes(4)))
            with pytest.raises(shoal.FormatError, match="the checkpoint is damaged: "):
                checkpoint.read(path)


def test_a_folder_is_one_trainings(tmp_path):
    """Two at once would remove and replace each other's; one that begins anew beside an older one would lose what it writes."""
    made = Checkpoints(tmp_path)
    made.begin()
    with pytest.raises(shoal.InvalidError, match="another training that runs has its checkpoints there; name another folder"):
        Checkpoints(tmp_path)
    made.save(7, {"x": np.zeros(1)}, {})
    made.close()
    again = Checkpoints(tmp_path)
    with pytest.raises(shoal.InvalidError, match="there is a training of 7 rounds; --resume goes on with it; to begin anew, name another "
                                                 "folder, or remove its checkpoints"):
        again.begin()
    assert again.latest()[0] == 7


def forked(work):
    """The process of a function."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    return child


def test_kill_9_at_any_moment(tmp_path):
    """Fifty times: what is there afterwards is whole, nothing that was there is lost, and no draft stays."""
    choose = random.Random(5)
    first = 0
    arrays = {"x": RNG.standard_normal(20_000)}

    def save_on():
        made = Checkpoints(tmp_path, keep=2)
        for step in range(first + 1, first + 10_000):
            made.save(step, {"x": arrays["x"] + step}, {"step": step})
    progressed = 0
    for _ in range(50):
        child = forked(save_on)
        time.sleep(choose.uniform(0.002, 0.04))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told = []
        reader = Checkpoints(tmp_path, keep=2, say=told.append)
        found = reader.latest()
        reader.close()
        assert not told, told
        if found is not None:
            step, got, state = found
            assert step == state["step"] >= first and np.array_equal(got["x"], arrays["x"] + step)
            progressed += step > first
            first = step
        assert all(name.endswith(".safetensors") for name in os.listdir(tmp_path))
    assert progressed > 5  # a busy disk writes few


def test_no_room_on_the_disk(tmp_path):
    made = Checkpoints(tmp_path)
    made.save(1, some_arrays(1), {})
    made.close()

    def fill():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        child = Checkpoints(tmp_path)
        child.save(2, some_arrays(2), {})
        try:
            child.close()
        except shoal.IOFailedError as error:
            message = str(error)
            code = 0 if message == (f"{child.path(2)}: the checkpoint cannot be written: File too large; the last good one stays. "
                                    "Make room, or name another checkpoint_dir") else 3
            child.save(3, {"x": np.zeros(1)}, {})  # it has been told, and goes on
            child.close()
            os._exit(code)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(forked(fill), 0)[1]) == 0
    assert sorted(os.listdir(tmp_path)) == ["step-000000000001.safetensors", "step-000000000003.safetensors"]
    assert same(Checkpoints(tmp_path).latest()[1], {"x": np.zeros(1)})


def test_errors(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(shoal.IOFailedError, match="checkpoint_dir .*file: .*name a folder that can be written"):
        Checkpoints(tmp_path / "file")
    monkeypatch.setattr(os, "access", lambda path, how: False)
    with pytest.raises(shoal.IOFailedError, match="checkpoint_dir .*: it cannot be written; name a folder that can be"):
        Checkpoints(tmp_path)
    monkeypatch.undo()
    made = Checkpoints(tmp_path / "c")
    with pytest.raises(shoal.InvalidError, match="'x' is complex128, which a .safetensors cannot hold"):
        made.save(1, {"x": np.zeros(1, complex)}, {})
    os.rmdir(tmp_path / "c")
    made.save(1, {"x": np.zeros(1)}, {})
    with pytest.raises(shoal.IOFailedError, match="step-000000000001.safetensors: the checkpoint cannot be written"):
        made.close()
    made.close()

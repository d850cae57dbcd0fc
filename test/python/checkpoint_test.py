"""torch's checkpoints: read and written both ways, and hostile ones, which execute nothing and end in time.

MUTATED=n: how many mutated files are read.
"""
import collections
import io
import os
import pickle
import random
import zipfile

import numpy as np
import pytest
from peer import numpy_of, torch

import shoal

COUNT = int(os.environ.get("MUTATED", "5000"))
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def equal(got, want):
    assert isinstance(got, shoal.Tensor) and tuple(got.shape) == tuple(want.shape)
    assert got.dtype.name == str(want.dtype)[6:] and got.requires_grad == want.requires_grad
    if got.dtype == "bfloat16":
        got, want = got.float(), want.float()
    np.testing.assert_array_equal(got.detach().numpy(), numpy_of(want))


def theirs():
    """What a training run with torch would save."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                              torch.nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    net(torch.randn(2, 1, 4, 4)).sum().backward()
    optimizer.step()
    wide = torch.arange(24.0).reshape(4, 6)
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7, "loss": 0.25,
            "note": "größer", "big": 2 ** 70, "less": -300, "none": None, "flags": [True, False, (1, 2.5)],
            "raw": b"\x00\xff", "shape": torch.Size([2, 3]), "strided": wide.t()[1:, ::2],
            "expanded": torch.ones(1, 3).expand(4, 3), "scalar": torch.tensor(5), "empty": torch.zeros(0, 3),
            "wants": torch.ones(2, requires_grad=True), "parameter": torch.nn.Parameter(torch.ones(2)),
            "kind": torch.float16, **{name: torch.tensor([0, 1, 1]).to(getattr(torch, name)) for name in DTYPES}}


@pytest.mark.parametrize("zipped", [True, False])
def test_theirs_is_read(tmp_path, zipped):
    state = theirs()
    torch.save(state, tmp_path / "net.pt", _use_new_zipfile_serialization=zipped)
    found = shoal.load(tmp_path / "net.pt", map_location="cpu", weights_only=True)
    assert list(found) == list(state) and type(found["model"]) is collections.OrderedDict
    for name, want in state.items():
        if isinstance(want, torch.Tensor):
            equal(found[name], want)
    for name, want in state["model"].items():
        equal(found["model"][name], want)
    assert isinstance(found["parameter"], shoal.nn.Parameter)
    for name in ("epoch", "loss", "note", "big", "less", "none", "flags", "raw"):
        assert found[name] == state[name] and type(found[name]) is type(state[name]), name
    assert found["shape"] == (2, 3) and found["kind"] is shoal.float16
    net = shoal.nn.Sequential(shoal.nn.Conv2d(1, 4, 3), shoal.nn.BatchNorm2d(4), shoal.nn.Flatten(),
                              shoal.nn.Linear(16, 3))
    optimizer = shoal.optim.Adam(net.parameters(), lr=1.0)
    net.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.01 and optimizer.state[net[0].weight]["step"] == 1
    with open(tmp_path / "net.pt", "rb") as file:
        assert list(shoal.load(file)) == list(state)


def test_ours_is_read_by_torch(tmp_path):
    values = {name: np.arange(6).reshape(2, 3).astype("float32") for name in DTYPES}
    state = {"tensors": {n: shoal.tensor(a).astype(n) for n, a in values.items()}, "epoch": 3, "big": 2 ** 70,
             "less": -5, "rate": 0.5, "text": "größer", "raw": b"\x00\xff", "list": [1, (2, None, True)],
             "ordered": collections.OrderedDict(a=shoal.zeros(0, 2)), 5: shoal.tensor(1.5).double(),
             "parameter": shoal.nn.Parameter(shoal.ones(2)), "kind": shoal.int64,
             "wants": shoal.ones(2, requires_grad=True)}
    shoal.save(state, tmp_path / "net.pth")
    found = torch.load(tmp_path / "net.pth")
    assert list(found) == list(state)
    for name in DTYPES:
        equal(state["tensors"][name], found["tensors"][name])
    equal(state[5], found[5])
    equal(state["wants"], found["wants"])
    assert isinstance(found["parameter"], torch.nn.Parameter) and found["kind"] is torch.int64
    for name in ("epoch", "big", "less", "rate", "text", "raw", "list"):
        assert found[name] == state[name]
    again = shoal.load(tmp_path / "net.pth")
    assert list(again) == list(state)
    buffer = io.BytesIO()
    shoal.save(state["tensors"], buffer)
    buffer.seek(0)
    assert list(torch.load(buffer)) == DTYPES
    with pytest.raises(shoal.InvalidError, match="save: a.0 is of uint16, which torch's checkpoints have not"):
        shoal.save({"a": [shoal.zeros(2, dtype="uint16")]}, tmp_path / "x.pt")
    with pytest.raises(shoal.InvalidError, match="save: net is a Linear; .*of a module its state_dict"):
        shoal.save({"net": shoal.nn.Linear(2, 2)}, tmp_path / "x.pt")
    assert not (tmp_path / "x.pt").exists()


class Trap:
    """What a pickle does when something looks at it too closely."""

    def __init__(self, what, *args):
        self.what = what, args

    def __reduce__(self):
        return self.what


def packed(code, **entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", code)
        archive.writestr("a/version", "3\n")
        for name, data in entries.items():
            archive.writestr(f"a/{name}", data)
    buffer.seek(0)
    return buffer


def old(code, names=pickle.dumps([], 2), rest=b"", version=1001, little=True):
    """A file from before torch 1.6."""
    parts = (0x1950a86a20f9469cfc6c, version, {"little_endian": little})
    return io.BytesIO(b"".join(pickle.dumps(part, 2) for part in parts) + code + names + rest)


def test_nothing_is_executed(tmp_path):
    sign = tmp_path / "executed"
    for trap in (Trap(os.system, f"touch {sign}"), Trap(open, str(sign), "w"), Trap(eval, "1/0"),
                 Trap(getattr, "a", "upper"), Trap(__import__, "os")):
        for protocol in range(2, 5):
            for value in (trap, {"a": [trap]}):
                with pytest.raises(shoal.FormatError, match="it holds an object of .*not data alone"):
                    shoal.load(packed(pickle.dumps(value, protocol)))
                with pytest.raises(shoal.FormatError, match="it holds an object of .*not data alone"):
                    shoal.load(old(pickle.dumps(trap, protocol)))
    for zipped in (True, False):
        torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(shoal.FormatError, match="torch.nn.modules.linear.Linear|no data needs"):
            shoal.load(tmp_path / "module.pt")
    assert not sign.exists()


def test_wrong_files():
    with pytest.raises(shoal.FormatError, match="it has no data.pkl"):
        with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
            archive.writestr("x", "y")
        buffer.seek(0)
        shoal.load(buffer)
    with zipfile.ZipFile(buffer := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"N." + bytes(1 << 20))
    with pytest.raises(shoal.FormatError, match="compressed or encrypted"):
        shoal.load(buffer)
    with pytest.raises(shoal.FormatError, match="byte order"):
        shoal.load(packed(b"N.", byteorder="big"))
    for code, text in ((b"", "cut off"), (b"(", "cut off"), (b".", "malformed"), (b"X\xff\xff\xff\x7f.", "cut off"),
                       (b"\x8a\xff" + bytes(255) + b".", "an integer of 255 bytes"), (b"h\x05.", "malformed"),
                       (b"}}Ns.", "is the key of a dict"), (b"]q\x00h\x00a.", None)):
        if text is None:
            shoal.load(packed(code))  # a list that holds itself is only a list
        else:
            with pytest.raises(shoal.FormatError, match=text):
                shoal.load(packed(code))
    for file, text in ((old(b"N.", version=7), "unknown version"), (old(b"N.", little=False), "byte order"),
                       (old(b""), "malformed|cut off"), (old(b"N.", pickle.dumps(["5"], 2)), "'5' is not as the data"),
                       (io.BytesIO(b"\x80\x02\x8a\x0a"), "cut off")):
        with pytest.raises(shoal.FormatError, match=text):
            shoal.load(file)
    state = io.BytesIO()
    torch.save({"a": torch.ones(3)}, state, _use_new_zipfile_serialization=False)
    whole = state.getvalue()
    for at in range(len(whole)):
        with pytest.raises(shoal.FormatError):
            shoal.load(io.BytesIO(whole[:at]))
    for wrong in (whole.replace(b"K\x03N", b"K\x04N"), whole.replace(b"K\x03N", b"J\xff\xff\xff\xffN")):
        assert wrong != whole
        with pytest.raises(shoal.FormatError, match="storage"):
            shoal.load(io.BytesIO(wrong))
    state = io.BytesIO()
    torch.save({"a": torch.ones(3)}, state)
    code = zipfile.ZipFile(state).read("archive/data.pkl")
    grown = code.replace(b"K\x03\x85", b"M\xff\xff\x85")
    assert grown != code
    with pytest.raises(shoal.FormatError, match=r"shape \[65535\] does not lie in its storage of 3 elements"):
        shoal.load(packed(grown, **{"data/0": np.ones(3, "float32").tobytes()}))


def test_mutated_files():
    """Each ends with data or with one clear error."""
    rng = random.Random(5)
    sources, aged = [], []
    for state in (theirs(), {"a": torch.arange(6.0), "b": [1, "x", {"c": None}]}):
        buffer = io.BytesIO()
        torch.save(state, buffer)
        sources.append(buffer.getvalue())
        buffer = io.BytesIO()
        torch.save(state, buffer, _use_new_zipfile_serialization=False)
        aged.append(buffer.getvalue())
    buffer = io.BytesIO()
    shoal.save({"a": shoal.arange(6), "b": (1, 2.5)}, buffer)
    sources.append(buffer.getvalue())
    small = [s for s in sources if len(s) < 4000]
    codes = [(zipfile.ZipFile(io.BytesIO(s)), s) for s in sources]
    programs = [(next(z.read(n) for n in z.namelist() if n.endswith("data.pkl")),
                 {n.partition("/")[2]: z.read(n) for n in z.namelist() if "/data/" in n}) for z, _ in codes]
    refused = read = 0
    for turn in range(COUNT):
        if turn % 3 == 2:  # of before torch 1.6
            data = bytearray(rng.choice(aged))
        elif turn % 2:  # a whole file, which the archive's checksums mostly refuse
            data = bytearray(rng.choice(small if turn % 4 == 1 else sources))
        else:  # the program alone, in a sound archive
            code, entries = rng.choice(programs)
            data = bytearray(code)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 2:
                del data[at:at + rng.randint(1, 40)]
            else:
                data[at:at] = data[at:at + rng.randint(1, 40)]
            if not data:
                data = bytearray(b".")
        file = io.BytesIO(bytes(data)) if turn % 2 or turn % 3 == 2 else packed(bytes(data), **entries)
        try:
            shoal.load(file)
            read += 1
        except shoal.FormatError:
            refused += 1
    print(f"{COUNT} mutated files: {read} read, {refused} refused")
    assert refused > COUNT // 4


def test_batch_norms_of_old_states():
    """They were saved without `num_batches_tracked`; torch takes them."""
    m = shoal.nn.Sequential(shoal.nn.Linear(2, 3), shoal.nn.BatchNorm1d(3))
    state = {name: value for name, value in m.state_dict().items() if not name.endswith("tracked")}
    state["1.running_mean"] = shoal.ones(3)
    keys = m.load_state_dict(dict(state))
    assert not keys.missing_keys and m[1].running_mean.tolist() == [1, 1, 1]
    del state["1.running_mean"]
    with pytest.raises(RuntimeError, match="missing: 1.running_mean"):
        m.load_state_dict(dict(state))

"""torch's checkpoints (.pt, .pth), read without executing anything, and written so that torch reads them.

Such a file is a zip archive of uncompressed entries: `data.pkl`, and the bytes of each storage. `data.pkl` is
in Python's pickle format, a little language whose usual interpreter calls what the file names. The one
here knows the operations that data needs, and calls nothing: of names it accepts the few below, which
stand for element types, tensors, and plain containers.

Before torch 1.6 a file was five such programs in a row (a number that marks the format, its version, facts about the
machine, the data, the names of the storages) and then, for each name, a length and the bytes. `OldReader` reads these.
"""
import io
import math
import os
import struct
import zipfile
from collections import OrderedDict

from .errors import FormatError, InvalidError
from .tensor import Tensor

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin")
_STORAGES = {"FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
             "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
             "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool"}
_NAMES = {dtype: name for name, dtype in _STORAGES.items()}
_DTYPES = {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
_PLAIN = (str, int, float, bool, bytes, type(None))
_MOST = 1 << 20  # elements that a tensor may have beyond those of its storage (expanded ones)


class _Mark:
    """Where a group begins on the stack."""


class _Name:
    """A global of the file: never looked up."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


class _Storage:
    """Where the bytes of a tensor lie."""

    __slots__ = ("dtype", "key", "count")

    def __init__(self, dtype, key, count):
        self.dtype, self.key, self.count = dtype, key, count


_OLD_MARK = 0x1950a86a20f9469cfc6c


def is_checkpoint(start):
    """Whether the first four bytes of a file are those of a zip archive, or of a checkpoint older than torch 1.6."""
    return start[:4] == b"PK\x03\x04" or start[:1] == b"\x80" and start[2:4] == b"\x8a\x0a"


# ---- reading ----

class Reader:
    """One file being read."""

    def __init__(self, file, path, session, place):
        self.path, self.session, self.place = path, session, place
        self.surveying = False
        try:
            self.zip = zipfile.ZipFile(file)
            entries = self.zip.infolist()
            pickles = [e for e in entries if e.filename.endswith("data.pkl") and e.filename.count("/") <= 1]
        except _BROKEN as error:
            raise self.wrong(f"the archive is malformed: {error}") from None
        if len(pickles) != 1:
            raise self.wrong("no checkpoint of torch: it has no data.pkl")
        self.folder = pickles[0].filename[:-len("data.pkl")]
        self.entries = {e.filename: e for e in entries}
        if self.folder + "byteorder" in self.entries and self.bytes("byteorder") != b"little":
            raise self.wrong("its numbers are not in this machine's byte order")
        self.code = self.bytes("data.pkl")
        self.at, self.stack, self.memo = 0, [], {}
        self.storages = {}

    def wrong(self, what):
        """The error of a file that is not as it has to be."""
        return FormatError(f"{self.path}: {what}")

    def bytes(self, name):
        """An entry of the archive, which must not be compressed."""
        entry = self.entries.get(self.folder + name)
        if entry is None:
            raise self.wrong(f"the entry '{self.folder}{name}' is missing")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise self.wrong(f"the entry '{entry.filename}' is compressed or encrypted")
        try:
            return self.zip.read(entry)
        except _BROKEN as error:
            raise self.wrong(f"the entry '{entry.filename}' is malformed: {error}") from None

    def foreign(self, name):
        """The error of a file that holds more than data."""
        return self.wrong(f"it holds an object of {name.text.replace(' ', '.')}, not data alone; save a "
                          "state_dict() instead of the object")

    # ---- the language ----

    def take(self, n):
        """The next n bytes of the program."""
        if n < 0 or n > len(self.code) - self.at:
            raise self.wrong("data.pkl is cut off")
        self.at += n
        return self.code[self.at - n:self.at]

    def number(self, form):
        """The next number, as `struct` writes it."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def line(self):
        """The next text up to the end of its line."""
        end = self.code.find(b"\n", self.at, self.at + 4096)
        if end < 0:
            raise self.wrong("data.pkl is malformed")
        return self.text(self.take(end + 1 - self.at)[:-1])

    def text(self, data):
        """Bytes as a text."""
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.wrong("data.pkl has a malformed text") from None

    def pop(self):
        """What lies on top."""
        if not self.stack or self.stack[-1] is _Mark:
            raise self.wrong("data.pkl is malformed")
        return self.stack.pop()

    def top(self, kind):
        """What lies on top, and stays there."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise self.wrong("data.pkl is malformed")
        return self.stack[-1]

    def group(self):
        """What lies above the last mark."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _Mark:
                items = self.stack[i + 1:]
                del self.stack[i:]
                return items
        raise self.wrong("data.pkl is malformed")

    def key(self, value):
        """A value as the key of a dict."""
        if isinstance(value, _PLAIN) or type(value) is tuple and all(isinstance(v, _PLAIN) for v in value):
            return value
        raise self.wrong(f"a {type(value).__name__} is the key of a dict")

    def run(self):
        """What the program leaves."""
        while True:
            code = self.take(1)
            if code == b".":
                return self._plain(self.pop())
            step = _CODES.get(code)
            if step is None:
                raise self.wrong(f"data.pkl has the operation {code!r}, which no data needs")
            step(self)

    def _plain(self, value):
        if isinstance(value, (_Name, _Storage)):
            raise self.wrong("data.pkl is malformed")
        return value

    def push(self, value):
        """Puts a value on top."""
        self.stack.append(value)

    def fetch(self, number):
        """A value that was noted."""
        if number not in self.memo:
            raise self.wrong("data.pkl is malformed")
        self.push(self.memo[number])

    def note(self, number):
        """Notes what lies on top."""
        if not self.stack or self.stack[-1] is _Mark:
            raise self.wrong("data.pkl is malformed")
        self.memo[number] = self.stack[-1]

    def long(self, n):
        """An integer of n bytes."""
        if n > 16:
            raise self.wrong(f"an integer of {n} bytes")
        self.push(int.from_bytes(self.take(n), "little", signed=True))

    def put(self, pairs):
        """Pairs into the dict on top."""
        target = self.stack[-1] if self.stack else None
        if type(target) not in (dict, OrderedDict) or len(pairs) % 2:
            raise self.wrong("data.pkl is malformed")
        for k, v in zip(pairs[::2], pairs[1::2]):
            target[self.key(k)] = self._plain(v)

    def call(self):
        """What a name stands for, with its arguments."""
        args, name = self.pop(), self.pop()
        if type(args) is not tuple or type(name) is not _Name:
            raise self.wrong("data.pkl is malformed")
        made = _MEANINGS.get(name.text)
        if made is None:
            raise self.foreign(name)
        try:
            self.push(made(self, *args))
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, (FormatError, InvalidError)):
                raise
            raise self.wrong(f"{name.text.replace(' ', '.')}: {error}") from None

    def persistent(self):
        """A storage, from ("storage", type, key, place, number of elements)."""
        told = self.pop()
        if type(told) is tuple and len(told) == 4 and told[0] == "module" and type(told[1]) is _Name:
            raise self.foreign(told[1])  # old files carry the source of classes
        if type(told) is tuple and len(told) == 6 and told[5] is None:
            told = told[:5]  # old files say here of what other storage this one is a part
        if type(told) is not tuple or len(told) != 5 or told[0] != "storage" or \
                type(told[1]) is not _Name or type(told[2]) is not str or type(told[4]) is not int:
            raise self.wrong("data.pkl names a storage in a form that is not known")
        module, _, kind = told[1].text.partition(" ")
        if kind not in _STORAGES and (module, kind) != ("torch.storage", "UntypedStorage"):
            raise self.wrong(f"a storage of {kind}: no such element type here")
        self.push(self.stored(_Storage(_STORAGES.get(kind, "uint8"), told[2], told[4])))

    def stored(self, storage):
        """A storage that the program names."""
        return storage

    def build(self):
        """A state for an object: those that are known need none."""
        self.pop()

    # ---- tensors ----

    def tensor(self, storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
        """A tensor that shows a storage by strides."""
        import numpy
        if type(storage) is not _Storage:
            raise self.wrong("a tensor without a storage")
        if self.surveying:
            return None
        data = self.storages.get(storage.key)
        if data is None:
            data = self.storages[storage.key] = self.bytes("data/" + storage.key)
        for n in (offset, *size, *stride):
            if type(n) is not int or n < 0 or n >= 1 << 48:
                raise self.wrong(f"a tensor of the shape {size!r} with strides {stride!r} from {offset!r} on")
        if len(size) != len(stride) or len(size) > 8:
            raise self.wrong(f"a tensor of the shape {size!r} with strides {stride!r}")
        kind = "uint16" if storage.dtype == "bfloat16" else storage.dtype
        item = numpy.dtype(kind).itemsize
        count = math.prod(size)
        last = offset + sum((n - 1) * s for n, s in zip(size, stride)) if count else 0
        if (count and last >= len(data) // item) or storage.count != len(data) // item:
            raise self.wrong(f"a tensor of the shape {list(size)} does not lie in its storage of "
                             f"{len(data) // item} elements")
        if count > 64 * (len(data) // item) + _MOST:
            raise self.wrong(f"a tensor of the shape {list(size)} from a storage of {len(data) // item} elements")
        flat = numpy.frombuffer(data, kind, len(data) // item)
        shown = numpy.lib.stride_tricks.as_strided(flat[offset:] if count else flat[:0], size,
                                                   [s * item for s in stride])
        made = self.session._from_bytes(numpy.ascontiguousarray(shown).tobytes(), storage.dtype, size)
        if self.place is not None:
            made = made.to(self.place)
        return made.requires_grad_() if requires_grad is True and made.dtype.is_floating_point else made

    def parameter(self, data, requires_grad=True, hooks=None, state=None):
        """A parameter."""
        from .nn.module import Parameter
        if self.surveying:
            return None
        if not isinstance(data, Tensor):
            raise self.wrong("a parameter without a tensor")
        return Parameter(data, requires_grad is True and data.dtype.is_floating_point)


class OldReader(Reader):
    """A file from before torch 1.6. Its storages come after the program, so that this is run twice: first to learn
    which there are and of what type, then to make the tensors."""

    def __init__(self, file, path, session, place):
        self.path, self.session, self.place = path, session, place
        self.code, self.folder = file.read(), ""
        self.at, self.surveying, self.found = 0, False, {}
        if self.program() != _OLD_MARK or self.program() != 1001:
            raise self.wrong("no checkpoint of torch, or of an unknown version")
        facts = self.program()
        if type(facts) is not dict or facts.get("little_endian") is not True:
            raise self.wrong("its numbers are not in this machine's byte order")
        begin, self.surveying = self.at, True
        self.program()
        self.surveying, self.parts = False, {}
        names = self.program()
        for name in names if type(names) is list else ():
            storage = self.found.get(name) if type(name) is str else None
            if storage is None or name in self.parts or self.number("q") != storage.count:
                raise self.wrong(f"the storage {name!r} is not as the data says")
            self.parts["data/" + name] = self.take(storage.count * _bytes_of(storage.dtype))
        self.at = begin

    def program(self):
        """What the next program leaves."""
        self.stack, self.memo, self.storages = [], {}, {}
        return Reader.run(self)

    run = program

    def stored(self, storage):
        if storage.count < 0 or self.found.setdefault(storage.key, storage).dtype != storage.dtype:
            raise self.wrong(f"the storage '{storage.key}' has two types")
        return storage

    def bytes(self, name):
        if name not in self.parts:
            raise self.wrong(f"the storage '{name}' is missing")
        return self.parts[name]


def _bytes_of(dtype):
    """The bytes of an element."""
    from .dtypes import DTYPES
    return DTYPES[dtype].itemsize


def _ordered(reader, items=()):
    made = OrderedDict()
    for pair in items:
        if type(pair) not in (tuple, list) or len(pair) != 2:
            raise reader.wrong("data.pkl is malformed")
        made[reader.key(pair[0])] = reader._plain(pair[1])
    return made


def _encoded(reader, text, coding):
    if type(text) is not str or coding != "latin1":
        raise reader.wrong("data.pkl is malformed")
    return text.encode("latin1")


def _size(reader, lengths=()):
    from .dtypes import Size
    return Size(n for n in lengths if type(n) is int)


def _set_of(reader, items=()):
    return {reader.key(i) for i in items}


def _device(reader, kind="cpu", index=None):
    from .dtypes import device
    return device(str(kind), index if type(index) is int else None)


# What is accepted of names, and what each makes of its arguments.
_MEANINGS = {
    "torch._utils _rebuild_tensor_v2": Reader.tensor,
    "torch._utils _rebuild_parameter": Reader.parameter,
    "torch._utils _rebuild_parameter_with_state": Reader.parameter,
    "collections OrderedDict": _ordered,
    "_codecs encode": _encoded,
    "torch Size": _size,
    "torch device": _device,
    "builtins set": _set_of, "__builtin__ set": _set_of,
}


def _named(reader, module, name):
    if module == "torch" and name in _DTYPES:
        from .dtypes import DTYPES
        return DTYPES[name]
    return _Name(f"{module} {name}")


def _stack_global(r):
    name, module = r.pop(), r.pop()
    if type(name) is not str or type(module) is not str:
        raise r.wrong("data.pkl is malformed")
    r.push(_named(r, module, name))


def _tuple(r, n):
    items = [r.pop() for _ in range(n)]
    r.push(tuple(reversed(items)))


def _extend(r):
    items = r.group()
    r.top(list).extend(r._plain(i) for i in items)


def _append(r):
    item = r._plain(r.pop())
    r.top(list).append(item)


def _setitem(r):
    value, key = r.pop(), r.pop()
    r.put([key, value])


_CODES = {
    b"\x80": lambda r: r.take(1), b"\x95": lambda r: r.take(8), b"(": lambda r: r.push(_Mark),
    b"}": lambda r: r.push({}), b"]": lambda r: r.push([]), b")": lambda r: r.push(()),
    b"N": lambda r: r.push(None), b"\x88": lambda r: r.push(True), b"\x89": lambda r: r.push(False),
    b"J": lambda r: r.push(r.number("i")), b"K": lambda r: r.push(r.number("B")),
    b"M": lambda r: r.push(r.number("H")), b"G": lambda r: r.push(struct.unpack(">d", r.take(8))[0]),
    b"\x8a": lambda r: r.long(r.number("B")), b"\x8b": lambda r: r.long(r.number("I")),
    b"X": lambda r: r.push(r.text(r.take(r.number("I")))),
    b"\x8c": lambda r: r.push(r.text(r.take(r.number("B")))),
    b"\x8d": lambda r: r.push(r.text(r.take(r.number("Q")))),
    b"C": lambda r: r.push(r.take(r.number("B"))), b"B": lambda r: r.push(r.take(r.number("I"))),
    b"q": lambda r: r.note(r.number("B")), b"r": lambda r: r.note(r.number("I")),
    b"\x94": lambda r: r.note(len(r.memo)),
    b"h": lambda r: r.fetch(r.number("B")), b"j": lambda r: r.fetch(r.number("I")),
    b"t": lambda r: r.push(tuple(r.group())), b"l": lambda r: r.push(r.group()),
    b"\x85": lambda r: _tuple(r, 1), b"\x86": lambda r: _tuple(r, 2), b"\x87": lambda r: _tuple(r, 3),
    b"a": _append, b"e": _extend, b"s": _setitem, b"u": lambda r: r.put(r.group()),
    b"c": lambda r: r.push(_named(r, r.line(), r.line())), b"\x93": _stack_global,
    b"R": Reader.call, b"b": Reader.build, b"Q": Reader.persistent, b"0": Reader.pop,
}
_BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError, KeyError,
           IndexError, struct.error, OverflowError, MemoryError)


def read(file, path, session, place=None):
    """The data of a checkpoint, an open file. Raises FormatError where it is malformed or not data alone."""
    start = file.read(4)
    file.seek(-len(start), 1)
    return (OldReader if is_checkpoint(start) and start[:1] == b"\x80" else Reader)(file, path, session, place).run()


# ---- writing ----

class _Writer:
    """One checkpoint being written."""

    def __init__(self, archive, folder):
        self.zip, self.folder, self.code = archive, folder, io.BytesIO()
        self.count = 0

    def add(self, *parts):
        for part in parts:
            self.code.write(part)

    def entry(self, name):
        """An entry whose bytes begin at a multiple of 64, as torch's do, so that they can be used where they lie."""
        entry = zipfile.ZipInfo(name)
        begin = self.zip.start_dir + 30 + len(name.encode()) + 4
        entry.extra = struct.pack("<HH", 0x4246, -begin % 64) + bytes(-begin % 64)
        return entry

    def text(self, value):
        data = value.encode("utf-8", "surrogatepass")
        self.add(b"X", struct.pack("<I", len(data)), data)

    def integer(self, value):
        if 0 <= value < 256:
            self.add(b"K", struct.pack("<B", value))
        elif -2 ** 31 <= value < 2 ** 31:
            self.add(b"J", struct.pack("<i", value))
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(data) > 16:
                raise InvalidError(f"save: the integer {value} has more than 16 bytes")
            self.add(b"\x8a", struct.pack("<B", len(data)), data)

    def value(self, value, name, above=()):
        """One value; name: where it stands, for messages."""
        if id(value) in above or len(above) > 500:
            raise InvalidError(f"save: {name or 'the value'} holds itself, or lies over 500 levels deep")
        inner = (*above, id(value))
        if value is None or value is True or value is False:
            self.add({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif isinstance(value, Tensor):
            self.tensor(value, name)
        elif hasattr(value, "is_floating_point") and isinstance(value, str):
            self.add(b"ctorch\n" + value.name.encode() + b"\n")
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, int):
            self.integer(int(value))
        elif isinstance(value, float):
            self.add(b"G", struct.pack(">d", value))
        elif isinstance(value, bytes):
            self.add(b"c_codecs\nencode\n(")
            self.text(value.decode("latin1"))
            self.text("latin1")
            self.add(b"tR")
        elif isinstance(value, dict):
            self.add(b"ccollections\nOrderedDict\n)R" if isinstance(value, OrderedDict) else b"}", b"(")
            for k, v in value.items():
                if not isinstance(k, _PLAIN):
                    raise InvalidError(f"save: the key {k!r} is no text, number or bytes")
                self.value(k, name, inner)
                self.value(v, f"{name}.{k}" if name else str(k), inner)
            self.add(b"u")
        elif isinstance(value, (list, tuple)):
            self.add(b"](" if isinstance(value, list) else b"(")
            for i, item in enumerate(value):
                self.value(item, f"{name}.{i}" if name else str(i), inner)
            self.add(b"e" if isinstance(value, list) else b"t")
        elif hasattr(value, "item") and getattr(value, "shape", None) == ():
            self.value(value.item(), name, inner)  # NumPy's numbers
        else:
            raise InvalidError(f"save: {name or 'the value'} is a {type(value).__name__}; dicts, lists, "
                               "numbers, strings and tensors can be saved (of a module its state_dict())")

    def tensor(self, value, name):
        from .nn.module import Parameter
        from .views import dense
        dtype = value.dtype.name
        if dtype not in _NAMES:
            raise InvalidError(f"save: {name or 'the value'} is of {dtype}, which torch's checkpoints have not; "
                               "name the file .safetensors")
        key = str(self.count)
        self.count += 1
        data = bytearray(value.nbytes)
        value._detach()._read(data)
        self.zip.writestr(self.entry(f"{self.folder}/data/{key}"), bytes(data))
        parameter = isinstance(value, Parameter)
        if parameter:
            self.add(b"ctorch._utils\n_rebuild_parameter\n(")
        self.add(b"ctorch._utils\n_rebuild_tensor_v2\n((")
        self.text("storage")
        self.add(b"ctorch\n" + _NAMES[dtype].encode() + b"\n")
        self.text(key)
        self.text("cpu")
        self.integer(value.numel())
        self.add(b"tQ")
        self.integer(0)
        for numbers in (value.shape, dense(value.shape)):
            self.add(b"(")
            for n in numbers:
                self.integer(n)
            self.add(b"t")
        wants = value.requires_grad and value.is_leaf
        self.add(b"\x88" if wants and not parameter else b"\x89", b"ccollections\nOrderedDict\n)RtR")
        if parameter:
            self.add(b"\x88" if wants else b"\x89", b"ccollections\nOrderedDict\n)RtR")


def write(value, file, folder="archive"):
    """Writes data as a checkpoint to an open file."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        writer = _Writer(archive, folder)
        writer.add(b"\x80\x02")
        writer.value(value, "")
        writer.add(b".")
        archive.writestr(f"{folder}/data.pkl", writer.code.getvalue())
        archive.writestr(f"{folder}/byteorder", b"little")
        archive.writestr(f"{folder}/version", b"3\n")


def folder_of(path):
    """The folder within the archive, named as torch names it."""
    return os.path.splitext(os.path.basename(path))[0] or "archive"

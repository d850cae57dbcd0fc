"""The text commands of Cluster Matrix: what a line says. Nothing is looked up, opened or run here.

A line is words with spaces between, after `server_command=` where it comes from a front end. Fields `join=`, `shards=` and
`job=` may follow any command that sends back: they say what the number send_back has no room for.
"""
import functools
import math
import re
from dataclasses import dataclass, field

from . import operations

PREFIX = "server_command="
MOST_BYTES, MOST_WORDS, MOST_SHARDS = 4096, 64, 4096
_LOADS = ("load_matrix_shard_object_list", "load_matrix_shard_object_list_VRAM")
_FIELDS = {"join": re.compile(r"rows|columns|grid|[0-3]"), "shards": re.compile(r"[1-9][0-9]{0,3}"),
           "job": re.compile(r"[A-Za-z0-9_-]{1,64}"), "backend": re.compile(r"llama|torch|opencl"),
           "mask": re.compile(r"\S{1,250}")}
_ACKS = {"transformerOp": "ACK_transformerOp_complete", "send_back": "ACK_send_back_complete",
         "load": "ACK_load_matrix_shard_object_list_complete"}


class Refused(ValueError):
    """A line, a message or a file that is not accepted, and why."""


@dataclass
class Command:
    """A line's meaning. operands: (name, whether it is transposed) of each; send_back: the number as it came, of which
    `join` ("rows", "columns", "grid" or an axis, counted from the last: -1) and `shards` are made."""
    kind: str
    operation: str = ""
    operands: list = field(default_factory=list)
    gpu: bool = False
    device: int = 0
    send_back: int = 0
    dims: int = 2
    shard: int | None = None
    parameters: list = field(default_factory=list)
    backend: str = "llama"
    mask: str | None = None
    join: object = None
    shards: int = 0
    job: str = ""

    @property
    def ack(self):
        """What is acknowledged when it has been done."""
        return _ACKS.get(self.kind, "ACK_matrixOp_complete")


class _Words:
    """The words of a line, taken one after the other."""

    def __init__(self, words):
        self.words, self.at = words, 0

    def take(self, what):
        if self.at == len(self.words):
            raise Refused(f"the line ends before {what}")
        self.at += 1
        return self.words[self.at - 1]

    def left(self):
        return len(self.words) - self.at

    def truth(self, what):
        word = self.take(what).lower()
        if word not in ("true", "false", "1", "0"):
            raise Refused(f"{what} is '{word}': true or false")
        return word in ("true", "1")

    def whole(self, what, least, most):
        return _whole(self.take(what), what, least, most)

    def matrix(self):
        return self.take("a matrix"), self.truth("whether it is transposed")


def _whole(word, what, least, most):
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", word) or not least <= int(word) <= most:
        raise Refused(f"{what} is '{word}': a number from {least} to {most}")
    return int(word)


def _real(word, what):
    try:
        made = float(word) if re.fullmatch(r"[0-9.eE+-]{1,32}", word) else math.nan
    except ValueError:
        made = math.nan
    if not math.isfinite(made):
        raise Refused(f"{what} is '{word}', no number")
    return made


@functools.lru_cache(256)  # programs say the same again and again
def parse(line):
    """The `Command` of a line, not to be changed. Raises Refused."""
    if len(line) > MOST_BYTES:
        raise Refused(f"a line of {len(line)} bytes; at most {MOST_BYTES}")
    if not line.isascii() or not line.isprintable():
        raise Refused("a line is printable ASCII")
    words = line.removeprefix(PREFIX).split()
    if not words or len(words) > MOST_WORDS:
        raise Refused(f"a line of {len(words)} words; 1 to {MOST_WORDS}")
    if words[0] in _LOADS:  # names, which may hold any of the signs of fields
        if len(words) < 2:
            raise Refused(f"{words[0]}: which files?")
        return Command("load", operands=[(word, False) for word in words[1:]])
    rule = _RULES.get(words[0])
    if rule is None:
        raise Refused(f"unknown command '{words[0][:40]}'; there are {', '.join([*_RULES, *_LOADS])}")
    given = [word for word in words[1:] if word.partition("=")[0] not in _FIELDS or "=" not in word]
    command = Command(words[0])
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if sign and name in _FIELDS:
            if not _FIELDS[name].fullmatch(value):
                raise Refused(f"the field '{word[:80]}' is malformed")
            setattr(command, name, int(value) if name == "shards" else value)
    rest = _Words(given)
    rule(command, rest)
    if rest.left():
        raise Refused(f"{rest.left()} words too many, from '{rest.take('')[:40]}' on")
    _joining(command)
    return command


def _device(c, w):
    c.gpu, c.device = w.truth("whether a GPU is used"), w.whole("the number of the GPU", -1, 1023)
    c.send_back = w.whole("send_back", -99999, 99999)


def _shard(c, w):
    if w.left():
        c.shard = w.whole("the number of the shard", 0, MOST_SHARDS - 1)


def _operation(c, w, known):
    c.operation = w.take("the operation")
    if c.operation not in known:
        raise Refused(f"no operation '{c.operation[:40]}'; there are {', '.join(known)}")


def _computing(c, w):
    known = operations.UNARY
    if c.kind != "transformerOp":
        c.backend, c.kind, known = c.kind, "binary", operations.BINARY
    c.operands = [w.matrix() for _ in range(1 + (c.kind == "binary"))]
    _device(c, w)
    _operation(c, w, known)
    c.dims = w.whole("the number of axes", 2, 4)
    _shard(c, w)


def _attention(c, w):
    c.operands = [w.matrix(), w.matrix(), w.matrix()]
    _device(c, w)
    _operation(c, w, ("flash_attn_ext",))
    c.dims = 4
    if w.left() >= 3:
        c.parameters = [_real(w.take(what), what) for what in ("scale", "max_bias", "softcap")]
    _shard(c, w)


def _rope(c, w):
    c.operands = [w.matrix()]
    _device(c, w)
    _operation(c, w, ("rope",))
    c.dims, c.parameters = 4, [w.whole("the type", 0, 2)]
    _shard(c, w)
    if w.left():
        c.parameters += [_real(word, "a parameter") for word in w.take("parameters").split(",")]


def _shaping(c, w):
    c.operands = [w.matrix()]
    _device(c, w)
    c.operation, c.dims = c.kind, 4
    c.parameters = [_whole(word, "a length", 1, 1 << 29) for word in w.take("lengths").split(",")]
    if len(c.parameters) > 4:
        raise Refused(f"{len(c.parameters)} lengths; at most 4")
    _shard(c, w)


def _sending(c, w):
    c.operands = [(w.take("a matrix"), False)]
    _shard(c, w)
    c.send_back = w.whole("send_back", -99999, 99999)


_RULES = {"llama": _computing, "torch": _computing, "opencl": _computing, "transformerOp": _computing, "flash_attn": _attention,
          "rope": _rope, "reshape": _shaping, "repeat": _shaping, "send_back": _sending}


def _joining(command):
    """`join` and `shards` of a send_back number, unless fields say them."""
    join, shards = joining(command.send_back, command.dims)
    if command.join is not None:
        if not command.shards:
            raise Refused("join= needs shards=, of how many")
        join = command.join if command.join.isalpha() else int(command.join) - command.dims
        if isinstance(join, int) and join >= 0:
            raise Refused(f"join={command.join}: the matrix has {command.dims} axes")
    command.join, command.shards = join, command.shards or shards
    if command.shards > MOST_SHARDS:
        raise Refused(f"{command.shards} shards; at most {MOST_SHARDS}")
    if command.join == "grid" and command.shards % 2:
        raise Refused(f"a grid has two rows, which {command.shards} shards do not make")


def joining(number, dims):
    """(how, of how many) of a send_back number: 0: kept; axis · 10 + shards: joined along that axis; negative: a grid of two
    rows, or rows if it is odd. Raises Refused."""
    if number <= 0:
        return ("rows" if number % 2 else "grid") if number else None, -number
    axis = number // 10
    if not number % 10:
        raise Refused(f"send_back {number}: its last digit, how many shards there are, is 0; for more than 9 of them write "
                      "join= and shards=")
    if axis >= max(dims, 4 if axis > 1 else 2):
        raise Refused(f"send_back {number}: there is no axis {axis}")
    return axis - (dims if axis < dims else 4), number % 10

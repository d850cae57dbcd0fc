"""A node for programs that speak Cluster Matrix's text commands over ZeroMQ: they are computed by Shoal.

Off unless asked for, on this machine alone unless allowed, in one folder, and nothing is ever run: see `commands` for what
is understood. What is not is logged, and answered at once with a message `ERROR=...` where acknowledgements go.
"""
import math
import re
import sys
import time

import shoal

from . import commands, config, files, operations, pool
from .commands import Refused
from .store import Joins, Store

_SHARD = re.compile(r"(.+?)_shards?_([0-9]{1,4})")
_SENT = re.compile(r"sent_back=([^|]{1,120})\|(.+)")
REASONS = (shoal.ShoalError, ValueError, OSError, MemoryError)  # why a message may not be done


def split_name(name):
    """("layer", 3) of "layer_shard_3.bin"; ("layer", None) of "layer.bin"."""
    stem = name.removesuffix(".bin")
    found = _SHARD.fullmatch(stem)
    return (found[1], int(found[2])) if found else (stem, None)


class Node:
    """What a gateway does, without its sockets. reply(parts): sends to the front end; head(parts): sends to the head's
    gateway, None where this is the head."""

    def __init__(self, store, reply, head=None, log=None, session=None, legacy_transpose=False):
        self.store, self.reply, self.head, self.legacy = store, reply, head, legacy_transpose
        self.session = session or pool.session()
        self.joins, self.halves = Joins(store.space), {}
        self.say = log or (lambda text: print(f"gateway: {text}", file=sys.stderr, flush=True))
        self.gpus = [s.slot for s in self.session.status().slots if s.compute and s.backend in pool.GPUS]

    def message(self, parts):
        """Handles one message: a command, or a name and bytes. The name of what was received, else None."""
        try:
            if len(parts) == 1:
                self.command(parts[0])
            elif len(parts) == 2:
                return self.received(parts[0], parts[1])
            else:
                raise Refused(f"a message of {len(parts)} parts; 1 or 2")
        except REASONS as error:
            self.refuse(error)
        return None

    def refuse(self, error):
        """Says why something was not done, to the log and to the front end."""
        text = re.sub(r"[^ -~]", "?", str(error))[:500]
        self.say(f"refused: {text}")
        self.reply([f"ERROR={text}".encode()])

    def tick(self):
        """What is to be done now and then."""
        for line in self.joins.expired():
            self.refuse(line)

    # ---- commands ----

    def command(self, data):
        """Does what a line says, and acknowledges it. Raises Refused, or what Shoal raises."""
        if len(data) > commands.MOST_BYTES:
            raise Refused(f"a line of {len(data)} bytes; at most {commands.MOST_BYTES}")
        try:
            line = bytes(data).decode("ascii")
        except UnicodeDecodeError:
            raise Refused("a line is printable ASCII") from None
        config.tell("ZMQ_MESSAGES", f"command: {line!r}")
        command = commands.parse(line)
        if command.kind == "load":
            for text, _ in command.operands:
                name = self.store.name(text)
                self.tensor(self.store.read(name), name)
        else:
            self.run(command)
        self.reply([command.ack.encode()])

    def tensor(self, data, name):
        """The tensor of a matrix's bytes. Raises Refused also where it has no elements, which any length could hide."""
        made = files.tensor_of(data, name, self.session)
        if 0 in made.shape:
            raise Refused(f"{name}: it has no elements")
        return made

    def matrix(self, text):
        """(name without shard, number of the shard or None, bytes) of what a line calls a matrix."""
        name = self.store.name(text)
        return *split_name(name), self.store.read(name)

    def run(self, command):
        """Computes and keeps a result, and sends it back if the line wants that."""
        names, shards, data = zip(*[self.matrix(text) for text, _ in command.operands])
        number = next((n for n in (command.shard, *shards) if n is not None), None)
        if command.kind == "send_back":
            self.tensor(data[0], names[0])
            self.send_back(names[0], number, command, data[0])
            return
        tensors = [self.tensor(d, n) for n, d in zip(names, data)]
        mask = self.tensor(self.matrix(command.mask)[2], command.mask) if command.mask else None
        base = "x".join(names) if command.kind == "binary" else f"{names[0]}_{command.operation or command.kind}"
        base = files.result_name(base)
        made = self.computed(command, tensors, mask)
        self.store.write(f"{base}.bin" if number is None else f"{base}_shard_{number}.bin", made)
        self.send_back(base, number, command, made)

    def computed(self, command, tensors, mask):
        """The bytes of the result, from the GPU that the line names where there is one; from the processor if that
        fails."""
        def made(slot=None):
            tensor = self.result_of(command, tensors, mask)
            if tensor.nbytes > self.store.limit:
                raise Refused(f"the result would have {tensor.nbytes} bytes; at most {self.store.limit}")
            return files.encode(tensor if slot is None else tensor.place(slots=[slot]))
        slot = self.gpus[command.device] if command.gpu and 0 <= command.device < len(self.gpus) else None
        try:
            return made(slot)
        except shoal.ShoalError as error:
            if slot is None:
                raise
            self.say(f"slot {slot} failed, and the processor computes it again: {error}")
            return made()

    def result_of(self, command, tensors, mask):
        """The result, still to be computed."""
        turns = [turn for _, turn in command.operands]
        if command.kind == "binary":
            if self.legacy and command.backend == "llama":
                turns[1] = not turns[1]
            made = operations.binary(*tensors, command.operation, *turns)
            most = max(t.nbytes // math.prod(t.shape[:-2]) for t in tensors) * math.prod(made.shape[:-2])
            if most > self.store.limit:
                raise Refused(f"the operands would have {most} bytes where they are repeated; at most {self.store.limit}")
            return made
        turned = [operations.turned(t, turn) for t, turn in zip(tensors, turns)]
        if command.kind == "transformerOp":
            return operations.unary(turned[0], command.operation)
        if command.kind == "rope":
            return operations.rope(turned[0], command.parameters[0], command.parameters[1:])
        if command.kind == "flash_attn":
            q, k, v = (t.shape for t in turned)
            need = 4 * math.prod(q[:-2]) * k[-2] * max(q[-2], k[-1], v[-1])
            if need > self.store.limit:
                raise Refused(f"the scores would have {need} bytes; at most {self.store.limit}")
            return operations.attention(*turned, *command.parameters, mask=mask)
        return getattr(operations, command.kind)(turned[0], command.parameters)  # reshape or repeat

    # ---- results ----

    def send_back(self, base, number, command, data):
        """Sends a result, or its shard, to who joins them; not if send_back is 0."""
        if not command.shards:
            return
        if self.head is None:
            self.join(base, command.job, command.join, command.shards, number or 0, data)
            return
        self.head([f"sent_back={command.join},{command.shards},{command.job}|{base}_shard_{number or 0}.bin".encode(), data])

    def join(self, base, job, how, shards, number, data):
        """Takes a shard, and sends the whole to the front end once all are there."""
        parts = self.joins.add(base, job, how, shards, number, data)
        if parts is None:
            return
        tensors = [files.tensor_of(part, base, self.session) for part in parts]
        if how == "grid":
            half = shards // 2
            made = shoal.cat([shoal.cat(tensors[:half], -1), shoal.cat(tensors[half:], -1)], -2)
        else:
            axis = {"rows": -2, "columns": -1}.get(how, how)
            axes = max(-axis, *(t.ndim for t in tensors))
            made = shoal.cat([t.reshape(*(1,) * (axes - t.ndim), *t.shape) for t in tensors], axis)
        self.store.write(f"{base}.bin", files.encode(made))
        # Front ends of the public code read no other version here.
        self.reply([f"BIN_COMBINED={base}".encode(), files.encode(made, version=2)])
        self.reply([b"ACK_combined_matrix_saved"])

    # ---- what arrives ----

    def received(self, name, data):
        """Keeps a matrix that was sent; its name. Raises Refused."""
        if len(name) > 400 or len(data) > self.store.limit:
            raise Refused(f"a matrix of {len(data)} bytes under a name of {len(name)}; at most {self.store.limit} and 400")
        try:
            name = bytes(name).decode("ascii").removeprefix("VRAM|")
        except UnicodeDecodeError:
            raise Refused("a name is ASCII") from None
        config.tell("ZMQ_MESSAGES", f"{name!r}: {len(data)} bytes")
        sent = _SENT.fullmatch(name)
        if sent:
            self.shard_arrived(sent[1], self.store.name(sent[2]), data)
            return sent[2]
        if name.startswith("P_SEND_"):
            name = self.store.name(name.removeprefix("P_SEND_"))
            data = self.both_halves(name, data)
            if data is None:
                return None
        name = self.store.name(name)
        self.tensor(data, name)
        self.store.write(name, data)
        return name

    def shard_arrived(self, told, name, data):
        """A shard from a worker's gateway: `told` is a send_back number, or "join,shards,job"."""
        (base, number), job = split_name(name), ""
        axes = self.tensor(data, name).ndim
        if re.fullmatch(r"-?[0-9]{1,6}", told):
            how, shards = commands.joining(int(told), axes)
        else:
            found = re.fullmatch(r"(rows|columns|grid|-[1-4]),([1-9][0-9]{0,3}),([A-Za-z0-9_-]{0,64})", told)
            if found is None:
                raise Refused(f"sent_back={told[:80]} is malformed")
            how, shards, job = found[1] if found[1].isalpha() else int(found[1]), int(found[2]), found[3]
        if not shards or how == "grid" and shards % 2:
            raise Refused(f"sent_back={told[:80]}: nothing to be joined")
        self.join(base, job, how, shards, number or 0, bytes(data))

    def both_halves(self, name, data):
        """A file that comes in two messages, in any order: the whole with the second, else None."""
        if name not in self.halves:
            if len(self.halves) >= Joins.MOST or sum(map(len, self.halves.values())) + len(data) > self.store.space:
                self.halves.clear()
                raise Refused(f"{name}: too many halves of files wait for their others; all are forgotten")
            self.halves[name] = bytes(data)
            return None
        other = self.halves.pop(name)
        try:
            files.decode(other + bytes(data), name)
            return other + bytes(data)
        except ValueError:
            return bytes(data) + other


class Gateway:
    """A `Node` at its sockets: commands and matrices arrive at `pull`, names of what was received leave at `push`,
    acknowledgements and results go to `front_end`, shards to `head` (None: this is the head); all are "host:port".

    Raises ImportError without pyzmq, and ValueError for addresses outside of this machine unless `unencrypted`.
    """

    def __init__(self, pull, push, front_end, head=None, folder=None, limit=1 << 30, space=4 << 30, unencrypted=False,
                 legacy_transpose=False):
        for address in filter(None, (pull, push, front_end, head)):
            config.checked_address(address.rpartition(":")[0].strip("[]"), unencrypted)
        import zmq
        self.zmq, self.context, self.stopped, self.lost = zmq, zmq.Context(), False, False
        try:
            self.store = Store(folder or config.value("REMOTE_RAM_FOLDER"), limit, space)
            self.pull, self.push = self.socket(zmq.PULL, limit), self.socket(zmq.PUSH, limit)
            for socket, address in (self.pull, pull), (self.push, push):
                try:
                    socket.bind(f"tcp://{address}")
                except zmq.ZMQError as error:
                    raise OSError(f"cannot listen at {address}: {error}") from None
            self.front = self.socket(zmq.PUSH, limit)
            self.front.connect(f"tcp://{front_end}")
            self.ahead = self.socket(zmq.PUSH, limit) if head else None
            if head:
                self.ahead.connect(f"tcp://{head}")
            self.node = Node(self.store, self.reply, self.send_ahead if head else None, legacy_transpose=legacy_transpose)
        except BaseException:
            self.context.destroy(linger=0)
            raise

    def socket(self, kind, limit):
        """A socket that takes no larger messages, and few at a time."""
        made = self.context.socket(kind)
        made.setsockopt(self.zmq.MAXMSGSIZE, limit + 64)
        made.setsockopt(self.zmq.RCVHWM, 4)
        made.setsockopt(self.zmq.SNDHWM, 64)
        made.setsockopt(self.zmq.LINGER, 200)
        return made

    def reply(self, parts):
        """To the front end, as far as one listens."""
        try:
            self.front.send_multipart(parts, self.zmq.NOBLOCK)
            self.lost = False
        except self.zmq.Again:
            if not self.lost:
                self.node.say("no front end takes answers; they are dropped")
            self.lost = True

    def send_ahead(self, parts):
        """To the head's gateway. Raises Refused when it takes nothing."""
        try:
            self.ahead.send_multipart(parts, self.zmq.NOBLOCK)
        except self.zmq.Again:
            raise Refused("the head's gateway takes nothing; the shard is not sent") from None

    def run(self):
        """Serves until `stop`, one message after the other, in the order in which they come."""
        poller = self.zmq.Poller()
        poller.register(self.pull, self.zmq.POLLIN)
        due = time.monotonic() + 1
        while not self.stopped:
            if poller.poll(200):
                self.serve(self.pull.recv_multipart())
            if time.monotonic() > due:
                self.node.tick()
                due = time.monotonic() + 1

    def serve(self, parts):
        """Handles one message; no fault of this program's own leaves one unanswered, or ends the gateway."""
        try:
            name = self.node.message(parts)
            if name is not None:
                self.push.send_string(name, self.zmq.NOBLOCK)
        except self.zmq.Again:
            pass  # nobody wants to know what was received
        except Exception as error:
            self.node.refuse(f"an internal error: {error!r}")

    def stop(self):
        """Makes `run` return; from any thread."""
        self.stopped = True

    def close(self):
        """Closes all. After `run`."""
        self.context.destroy(linger=200)
        self.store.close()

"""A TCP proxy that does to a connection what bad networks do."""
import random
import socket
import threading
import time


class Proxy:
    """A TCP proxy with faults: each may be set at any time, for all connections.

    drop: what comes is thrown away · delay: seconds · rate: bytes per second · flip: one bit of every
    chunk is turned over · cut(): ends all connections. seen: a list to which each direction of each connection is
    added, as ("near" or "far", its chunks), near being who connects; None."""

    def __init__(self, target):
        self.target, self.drop, self.delay, self.rate, self.flip = target, False, 0, 0, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets, self.open, self.seen = [], True, None
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while self.open:
            try:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for end in (near, far):  # a line does not wait for more
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    def pump(self, one, other):
        free = 0.0  # when the line has carried all that came so far
        chunks = []
        if self.seen is not None:
            self.seen.append(("near" if one.getsockname()[1] == self.port else "far", chunks))
        try:
            while data := one.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                if self.rate:
                    free = max(free, time.monotonic() - 0.001) + len(data) / self.rate
                    time.sleep(max(0, free - time.monotonic()))
                if self.flip:
                    at = random.randrange(len(data))
                    data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1:]
                if self.seen is not None:
                    chunks.append(data)
                if not self.drop:
                    other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            end.close()

    def cut(self):
        for end in self.sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.sockets.clear()

    def close(self):
        self.open = False
        self.cut()
        self.listener.close()

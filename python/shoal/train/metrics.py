"""Metrics of a training over HTTP, as Prometheus reads them: text of its format 0.0.4, at /metrics, on this machine's loopback."""
import http.server
import re
import threading

from ..errors import InvalidError, IOFailedError

DEFAULT = "127.0.0.1:7481"


def _of(name, kind, meaning, read):
    return f"shoal_train_{name}", kind, meaning, read


# Of the training: name, type, meaning, and how it is read from a Summary; None: not known yet.
_TRAINING = (
    _of("rounds_total", "counter", "Rounds that have ended", lambda s: s.round),
    _of("tokens_total", "counter", "Tokens trained on since the start of this process", lambda s: s.tokens),
    _of("received_bytes_total", "counter", "Bytes that workers sent back", lambda s: s.bytes_up),
    _of("sent_bytes_total", "counter", "Bytes that were sent to workers", lambda s: s.bytes_down),
    _of("lost_total", "counter", "Workers that were lost", lambda s: s.lost),
    _of("joined_total", "counter", "Workers that joined while it ran", lambda s: s.joined),
    _of("loss", "gauge", "Loss of the last round", lambda s: s.loss),
    _of("epoch", "gauge", "Passes over the data", lambda s: s.epoch),
    _of("learning_rate", "gauge", "Inner learning rate", lambda s: s.learning_rate),
    _of("round_seconds", "gauge", "Time of a round, smoothed", lambda s: s.round_seconds),
    _of("computing_ratio", "gauge", "Part of the last round's time in which workers computed", lambda s: s.computing),
    _of("tokens_per_second", "gauge", "Tokens of the last round by its time", lambda s: s.tokens_per_second),
    _of("seconds_left", "gauge", "Time until the end as it looks now", lambda s: s.left()),
    _of("checkpoint_round", "gauge", "Round of the last checkpoint", lambda s: s.checkpoint),
)
# Of each island.
_ISLANDS = (
    _of("island_up", "gauge", "Whether the island takes part", lambda row: int(row.get("state") != "lost")),
    _of("island_steps", "gauge", "Inner steps in the last round", lambda row: row.get("steps")),
    _of("island_loss", "gauge", "Loss of the last round", lambda row: row.get("loss")),
    _of("island_tokens_per_second", "gauge", "Speed in the last round", lambda row: row.get("tokens_per_second")),
)


def _escaped(text):
    return str(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def render(summary):
    """The page of a `Summary`."""
    lines = []
    for name, kind, meaning, read in _TRAINING:
        value = read(summary)
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        lines += [] if value is None else [f"{name} {float(value):.10g}"]
    for name, kind, meaning, read in _ISLANDS:
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        for island, row in sorted(summary.islands.items(), key=lambda item: str(item[0])):
            value = read(row)
            labels = f'island="{_escaped(island)}",worker="{_escaped(row.get("worker", ""))}"'
            lines += [] if value is None else [f"{name}{{{labels}}} {float(value):.10g}"]
    return "\n".join(lines) + "\n"


def read_address(text):
    """(host, port) of "PORT" or "127.0.0.1:PORT". InvalidError for anything else: the page is for this machine."""
    match = re.fullmatch(r"(?:(127(?:\.\d{1,3}){3}|localhost):)?(\d{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise InvalidError(f"--metrics '{text}': must be PORT or 127.0.0.1:PORT; other machines reach it through an SSH tunnel")
    return match[1] or "127.0.0.1", int(match[2])


class Server:
    """Serves the metrics of a Monitor until `close`; `address` is where."""

    def __init__(self, monitor, address):
        class Handler(http.server.BaseHTTPRequestHandler):
            """Answers GET /metrics."""
            timeout = 5

            def do_GET(self):
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404)
                    return
                with monitor.lock:
                    body = render(monitor.summary).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format, *args):
                pass
        host, port = read_address(address)
        try:
            self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise IOFailedError(f"--metrics {host}:{port}: {error.strerror}; name another port") from None
        self._server.daemon_threads = True
        self.address = "{}:{}".format(*self._server.server_address[:2])
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def close(self):
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()

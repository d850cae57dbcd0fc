"""Hubs and workers as they are left running: in the background, watched, and by what lies in deploy/.

The variable SHOAL names the command (default: build/cmd/shoal). Every test has folders of its own.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from exposition import Malformed, parse
from home import SHOAL, alive, home, until  # noqa: F401 (a fixture)

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warn|info|debug) \S+: .")


# ---- in the background ----

def test_daemons_start_work_and_end(home):
    out = home.shoal("hub", "--daemon")
    hub = home.pid("hub")
    assert out.splitlines() == [
        "hub: listening at shm:hub",
        f"hub: running in the background as process {hub}; stop it with: shoal stop hub",
        f"hub: its log is {home.logs}/hub.log"]
    out = home.shoal("worker", "--name", "left", "--threads", "1", "--daemon")
    left = home.pid("worker-left")
    assert "worker: left joined shm:hub" in out and f"process {left};" in out
    assert [slot["pid"] for slot in home.status()["slots"]] == [left]
    for file in (home.runtime / "hub.pid", home.logs / "hub.log"):
        assert file.stat().st_mode & 0o777 == 0o600
    # They belong to no terminal, and keep nothing of their parent's.
    for pid in hub, left:
        assert os.getsid(pid) == pid
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
        assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (1, 2)} == \
            {str(home.logs / ("hub.log" if pid == hub else "worker-left.log"))}
    assert home.shoal("stop", "--all").splitlines() == ["worker-left: ended", "hub: ended"]
    assert not alive(hub) and not alive(left)
    assert list(home.runtime.glob("*.pid")) == []
    for name, lines in ("hub", ["listening at shm:hub", "left joined", "ends, as it was asked to"]), \
            ("worker-left", ["joined shm:hub", "ends, as it was asked to"]):
        log = home.log(name)
        assert all(STAMP.match(line) for line in log.splitlines()), log
        at = [log.index(line) for line in lines]
        assert at == sorted(at)


def test_errors_are_told_before_the_parent_returns(home):
    message = home.shoal("worker", "--daemon", code=1)
    assert message == ("shoal: no hub answers at shm:hub: start one with `shoal hub`, or check the "
                       "address\n")
    assert re.fullmatch(r"\S+Z error worker: no hub answers at shm:hub: .*\n", home.log("worker"))
    assert not (home.runtime / "worker.pid").exists()
    home.shoal("hub", "--daemon")
    pid = home.pid("hub")
    # The same again, and another daemon at the same address.
    assert home.shoal("hub", "--daemon", code=1) == (
        f"shoal: hub is already running, as process {pid}; stop it with 'shoal stop hub', or give this "
        "one another name: --daemon=NAME\n")
    message = home.shoal("hub", "--daemon=other", code=1)
    assert message.startswith("shoal: shm:hub: ") and message.count("\n") == 1
    assert home.pid("hub") == pid and alive(pid)
    assert not (home.runtime / "hub-other.pid").exists()
    # A bad option is a usage error, as in the foreground.
    assert home.shoal("hub", "--daemon=a/b", code=2) == (
        "shoal: --daemon 'a/b': the name must have 1 to 63 letters, digits, and after the first "
        "also '.', '_', '-'\n")


def test_several_daemons_have_names(home):
    home.shoal("hub", "--daemon")
    home.shoal("hub", "--daemon=blue", "--address", "shm:blue")
    home.shoal("worker", "--daemon=b1", "--hub", "shm:blue", "--threads", "1")
    error = home.shoal("stop", "hub", "red", code=1)
    assert error == ("shoal: 'red' does not run in the background here; what runs: worker-b1, hub, "
                     "hub-blue\n")
    assert alive(home.pid("hub"))
    assert home.shoal("stop", "hub") == "hub: ended\n"
    assert home.shoal("stop", "--all") == "worker-b1: ended\nhub-blue: ended\n"
    assert home.shoal("stop", "--all") == "nothing runs in the background\n"


def test_pid_files_of_the_dead_do_not_count(home):
    home.shoal("hub", "--daemon")
    pid = home.pid("hub")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    # The number may be another process's by now, which must not be harmed.
    (home.runtime / "hub.pid").write_text(f"{os.getpid()}\n")
    assert home.shoal("stop", "--all") == "nothing runs in the background\n"
    home.shoal("hub", "--daemon")
    assert home.pid("hub") != pid


def test_a_stopped_daemon_is_named(home):
    home.shoal("hub", "--daemon")
    pid = home.pid("hub")
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    message = home.shoal("stop", "hub", code=1)
    assert 14 < time.monotonic() - started < 60
    assert message == (f"shoal: hub, process {pid}, did not stop within 15 s; 'kill -9 {pid}' "
                       "forces it\n")
    os.kill(pid, signal.SIGCONT)
    until(lambda: not alive(pid))


def test_sighup_opens_the_log_anew(home):
    home.shoal("hub", "--daemon")
    pid = home.pid("hub")
    old = home.logs / "hub.log.1"
    (home.logs / "hub.log").rename(old)
    os.kill(pid, signal.SIGHUP)
    until((home.logs / "hub.log").exists)
    home.shoal("status")
    until(lambda: "joined" in home.log("hub"))
    assert "listening" in old.read_text() and "joined" not in old.read_text()
    # Where it cannot be opened the old one is kept, and says so.
    (home.logs / "hub.log").rename(home.logs / "hub.log.2")
    (home.logs / "hub.log").mkdir()
    os.kill(pid, signal.SIGHUP)
    until(lambda: "cannot be reopened" in (home.logs / "hub.log.2").read_text())
    (home.logs / "hub.log").rmdir()
    assert alive(pid)


def test_sighup_in_the_middle_of_work(home, tmp_path):
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((300, 300)).astype(np.float32) for _ in range(2))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    home.shoal("hub", "--daemon")
    home.shoal("worker", "--daemon", "--threads", "1", "--log", "debug")
    work = subprocess.Popen([SHOAL, "matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o",
                             tmp_path / "c.npy", "--panel", "7", "--quiet"],
                            env=home.environment | {"SHOAL_HUB": "shm:hub"})
    for _ in range(200):
        for name in "hub", "worker":
            os.kill(home.pid(name), signal.SIGHUP)
        time.sleep(0.002)
    assert work.wait(60) == 0
    assert np.allclose(np.load(tmp_path / "c.npy"), a @ b, atol=1e-3)


def test_a_worker_in_the_background_may_end_with_its_hub(home):
    home.shoal("hub", "--daemon")
    home.shoal("worker", "--daemon", "--threads", "1", "--once")
    worker = home.pid("worker")
    os.kill(home.pid("hub"), signal.SIGKILL)
    until(lambda: not alive(worker))
    assert not (home.runtime / "worker.pid").exists()
    last = home.log("worker").splitlines()[-1]
    assert STAMP.match(last) and " error worker: " in last


# ---- log levels ----

def test_log_levels(home):
    def started(*args, **variables):
        home.shoal("hub", "--daemon", *args, **variables)
        home.shoal("status")
        home.shoal("stop", "--all")
        log = home.log("hub")
        (home.logs / "hub.log").unlink()
        assert all(STAMP.match(line) for line in log.splitlines()), log
        return log

    assert " info hub: listening at shm:hub" in started()  # a daemon's own default
    assert started("--log", "warn") == ""
    assert started("--log", "error") == ""
    assert " info hub: " in started("--log", "debug")
    assert started(SHOAL_LOG="warn") == ""
    assert " info hub: " in started("--log", "info", SHOAL_LOG="warn")
    assert re.search(r" warn log: SHOAL_LOG is 'loud', not error, warn, info or debug: taken as warn",
                     started(SHOAL_LOG="loud"))


@pytest.mark.parametrize("command", ["hub", "worker", "stop", "join", "invite", "peers", "revoke",
                                     "status", "backends", "doctor", "matmul", "explain", "nearest"])
def test_every_command_takes_a_log_level(home, command):
    assert "--log=LEVEL" in home.shoal(command, "--help")
    assert home.shoal(command, "--log", "loud", code=2) == \
        "shoal: --log 'loud': must be error, warn, info or debug\n"


# ---- metrics ----

def get(url, method="GET"):
    """(status, headers, body) of a request."""
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def start_with_metrics(home, at="127.0.0.1:0"):
    out = home.shoal("hub", "--daemon", f"--metrics={at}")
    return re.search(r"hub: metrics at (http://\S+/metrics)\n", out)[1]


def scrape(url):
    status, headers, body = get(url)
    assert status == 200, body
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(body)


def value(metrics, name, **labels):
    """The one sample of a metric that has these labels."""
    found = [number for pairs, number in metrics[name][2].items()
             if labels.items() <= dict(pairs).items()]
    assert len(found) == 1, (name, labels, metrics[name])
    return found[0]


def test_metrics_are_what_status_tells(home, tmp_path):
    url = start_with_metrics(home)
    assert url.startswith("http://127.0.0.1:")
    empty = scrape(url)
    assert value(empty, "shoal_workers") == value(empty, "shoal_slots") == 0
    for name in "left", "right":
        home.shoal("worker", "--daemon", "--name", name, "--threads", "1", "--memory", "1G")
    np.save(tmp_path / "a.npy", np.ones((400, 300), np.float32))
    np.save(tmp_path / "b.npy", np.ones((300, 200), np.float32))
    home.shoal("matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy",
               "--share", "70,30", SHOAL_HUB="shm:hub")
    until(lambda: value(scrape(url), "shoal_sessions") == value(scrape(url), "shoal_values") == 0)  # the client has left
    metrics, status = scrape(url), home.status()
    again = scrape(url)
    assert value(metrics, "shoal_build_info", version=status["version"]) == 1
    assert value(metrics, "shoal_epoch") == status["epoch"]
    assert value(metrics, "shoal_values") == status["values"]
    assert value(metrics, "shoal_value_bytes") == status["bytes"]
    assert value(metrics, "shoal_instances_total") == status["instances"] > 0
    assert value(metrics, "shoal_workers") == value(metrics, "shoal_slots") == 2
    # The sessions of status and of the metrics are the only ones.
    assert value(metrics, "shoal_sessions") == status["sessions"] - 2 == 0
    assert value(metrics, "shoal_uptime_seconds") <= status["uptime_seconds"] <= \
        value(again, "shoal_uptime_seconds")
    assert len(status["slots"]) == 2
    for slot in status["slots"]:
        labels = {"slot": str(slot["slot"]), "worker": slot["worker"]}
        assert value(metrics, "shoal_device_info", **labels, host=slot["host"],
                     backend=slot["backend"], device=slot["device"]) == 1
        for name, key in ("memory_bytes", "memory"), ("value_bytes", "bytes"), \
                ("instances_total", "instances"), ("nodes_total", "nodes"), \
                ("sent_bytes_total", "sent_bytes"), ("received_bytes_total", "received_bytes"):
            assert value(metrics, f"shoal_device_{name}", **labels) == slot[key], name
        assert value(metrics, "shoal_device_busy_seconds_total", **labels) == \
            pytest.approx(slot["busy_seconds"], rel=1e-9)
        assert slot["busy_seconds"] > 0 and slot["nodes"] > 0
    left, right = status["slots"]
    # Its rows of A and all of B came, its rows of C went.
    assert left["received_bytes"] >= 4 * (280 * 300 + 300 * 200)
    assert right["received_bytes"] >= 4 * (120 * 300 + 300 * 200)
    assert left["sent_bytes"] == 4 * 280 * 200 and right["sent_bytes"] == 4 * 120 * 200


@pytest.mark.skipif("PYTHONPATH" not in os.environ, reason="the Python package is not built")
def test_metrics_count_clients_and_values(home):
    url = start_with_metrics(home)
    home.shoal("worker", "--daemon", "--name", "w", "--threads", "1")
    client = subprocess.Popen(
        [sys.executable, "-c", "import numpy, shoal; shoal.connect('shm:hub')\n"
         "x = shoal.from_numpy(numpy.ones((512, 1024), numpy.float32)).place(axis=0)\n"
         "print(x.numpy().sum(), flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=home.environment)
    assert client.stdout.readline() == "524288.0\n"
    metrics = scrape(url)
    assert value(metrics, "shoal_sessions") == 1 and value(metrics, "shoal_values") >= 1
    assert value(metrics, "shoal_value_bytes") >= 512 * 1024 * 4
    # The reader has it a moment before the hub hears that the program is through.
    until(lambda: value(scrape(url), "shoal_device_value_bytes", worker="w") == 512 * 1024 * 4)
    client.communicate("\n", 20)
    until(lambda: value(scrape(url), "shoal_sessions") == 0)
    assert value(scrape(url), "shoal_value_bytes") == 0


def test_metrics_answer_nothing_else(home):
    url = start_with_metrics(home)
    status, headers, body = get(url, "HEAD")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 100
    assert get(url + "/x")[0] == get(url.replace("/metrics", "/"))[0] == 404
    for method in "POST", "PUT", "DELETE":
        status, headers, _ = get(url, method)
        assert status == 405 and headers["Allow"] == "GET, HEAD"
    # What is no HTTP, and connections that say nothing, do no harm.
    port = int(re.search(r":(\d+)/", url)[1])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    for junk in b"\0" * 100, b"GET " + b"x" * 100000, b"\xff\xfe\r\n\r\n":
        with socket.create_connection(("127.0.0.1", port), timeout=20) as one:
            try:
                one.sendall(junk)
                one.shutdown(socket.SHUT_WR)
                while one.recv(4096):
                    pass
            except OSError:
                pass
    scrape(url)
    for one in silent:
        one.close()


def test_metrics_are_off_unless_asked_and_local_unless_told(home):
    assert "metrics" not in home.shoal("hub", "--daemon")
    assert listening(home.pid("hub")) == set()
    home.shoal("stop", "--all")
    url = start_with_metrics(home)
    port = int(re.search(r":(\d+)/", url)[1])
    pid = home.pid("hub")
    assert listening(pid) == {("0100007F", port)}
    # The port is taken: the hub says so and does not start.
    message = home.shoal("hub", "--daemon=two", "--address", "shm:two",
                         f"--metrics=127.0.0.1:{port}", code=1)
    assert message == f"shoal: serving metrics at 127.0.0.1:{port}: Address already in use\n"
    home.shoal("stop", "--all")
    assert listening(pid) == set()
    out = home.shoal("hub", "--daemon", "--metrics=0.0.0.0:0")
    assert "hub: the metrics are not encrypted, and open to anyone who can reach that address\n" in out


def listening(pid):
    """(address, port) of the TCP sockets that a process listens at, of IPv4."""
    try:
        inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except FileNotFoundError:
        return set()
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {(row[1].split(":")[0], int(row[1].split(":")[1], 16)) for row in rows
            if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


@pytest.mark.parametrize("text", ["7480", ":7480", "localhost:7480", "127.0.0.1", "127.0.0.1:",
                                  "127.0.0.1:65536", "127.0.0.1:-1", "::1:80", "[::1]", "a" * 300])
def test_bad_metrics_addresses(home, text):
    assert home.shoal("hub", f"--metrics={text}", code=2) == (
        f"shoal: --metrics '{text}': must be ADDRESS:PORT in numbers, as 127.0.0.1:7480 or "
        "[::1]:0\n")


@pytest.mark.parametrize("text", [
    b"a 1", b"a 1\n", b"# HELP a b\na 1\n", b"# HELP a b\n# TYPE a gauge\na 1 \n",
    b"# HELP a b\n# TYPE a gauge\na{x=\"\\t\"} 1\n", b"# HELP a b\n# TYPE a gauge\nb 1\n",
    b"# HELP a b\n# TYPE a counter\na 1\n", b"# HELP a b\n# TYPE a gauge\na 1\na 2\n",
    b"# HELP a b\n# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n", b"# HELP a b\n# TYPE a float\na 1\n"])
def test_the_checker_finds_what_is_wrong(text):
    with pytest.raises(Malformed):
        parse(text)


def test_the_checker_reads_what_is_right():
    assert parse(b'# HELP a b c\n# TYPE a gauge\na{x="1\\n\\"\\\\",y=""} 1.5\na 2\n') == {
        "a": ("gauge", "b c", {(("x", '1\n"\\'), ("y", "")): 1.5, (): 2.0})}

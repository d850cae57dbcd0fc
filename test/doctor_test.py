"""`shoal doctor` on the network: each trouble is made for real, and its fix is named.

Everything is on loopback or on Unix sockets.
"""
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import termios

import pytest

from home import SHOAL, Home, home  # noqa: F401 (a fixture)


def finding(home, what, *args, code=1, **variables):
    """What doctor finds: (state, detail, advice)."""
    done = subprocess.run([SHOAL, "doctor", "--json", *map(str, args)], capture_output=True,
                          text=True, timeout=60, env=home.environment | variables)
    assert done.returncode == code, done.stdout + done.stderr
    report = json.loads(done.stdout)
    rows = [row for row in report["findings"] if row["what"] == what]
    assert len(rows) == 1, report
    assert (report["troubles"] > 0) == (code == 1)
    return rows[0]["state"], rows[0]["detail"], rows[0]["advice"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_no_hub_here(home):
    state, detail, advice = finding(home, "hub", code=0)
    assert state == "none" and "shm:hub" in detail
    assert advice.endswith("to pool processes: shoal hub --daemon --address shm:hub")
    state, _, advice = finding(home, "hub", "--hub", "shm:blue")
    assert state == "trouble"
    assert advice == "no process serves it; start it: shoal hub --daemon --address shm:blue"
    # The advice is good: what it says makes the trouble go.
    home.shoal(*advice.rpartition("shoal ")[2].split())
    state, _, advice = finding(home, "hub", "--hub", "shm:blue", code=0)
    assert (state, advice) == ("note", "start a worker: shoal worker --daemon")
    home.shoal("worker", "--daemon", "--hub", "shm:blue", "--threads", "1")
    state, detail, advice = finding(home, "hub", "--hub", "shm:blue", code=0)
    assert state == "ok" and "1 worker" in detail and advice is None


def test_a_login_that_looks_elsewhere(home):
    name = f"shm:doctor-{os.getpid()}"
    elsewhere = dict(home.environment)
    del elsewhere["XDG_RUNTIME_DIR"]
    if os.path.isdir(f"/run/user/{os.getuid()}/shoal"):
        pytest.skip("the test's hub would be in the user's own runtime folder")
    hub = subprocess.Popen([SHOAL, "hub", "--address", name], env=elsewhere, text=True,
                           stdout=subprocess.PIPE)
    try:
        assert "listening" in hub.stdout.readline()
        _, _, advice = finding(home, "hub", "--hub", name)
        assert advice == (f"a hub of yours listens in /tmp/shoal-{os.getuid()}, and this login looks "
                          "elsewhere: unset XDG_RUNTIME_DIR, or start the hub anew")
    finally:
        hub.terminate()
        hub.communicate(timeout=60)


def test_a_stopped_hub(home):
    home.shoal("hub", "--daemon")
    pid = home.pid("hub")
    os.kill(pid, signal.SIGSTOP)
    try:
        state, _, advice = finding(home, "hub", "--hub", "shm:hub")
        assert state == "trouble" and "T is stopped: kill -CONT PID" in advice
    finally:
        os.kill(pid, signal.SIGCONT)


def test_an_address_that_is_none(home):
    state, detail, advice = finding(home, "hub", "--hub", "carrier-pigeon")
    assert state == "trouble" and "carrier-pigeon" in detail
    assert advice == "give an address like shm:hub, or the one the hub printed"


@pytest.fixture
def guest():
    """A user elsewhere, who has joined a hub of `home`'s only if the test makes it so."""
    folder = subprocess.check_output(["mktemp", "-d", "/tmp/shoal-XXXXXX"], text=True).strip()
    yield Home(pathlib.Path(folder))
    subprocess.run(["rm", "-rf", folder], check=True)


def listen(home):
    """(address, token) of a hub that lets others in."""
    out = home.shoal("hub", "--daemon", "--listen", "127.0.0.1:0")
    return re.search(r"(tcp://127\.0\.0\.1:\d+)", out)[1], home.shoal("invite").strip()


def test_who_has_not_joined(home, guest):
    address, token = listen(home)
    state, _, advice = finding(guest, "hub", "--hub", address)
    assert state == "trouble"
    assert "'shoal invite' prints a token; here, run 'shoal join'" in advice
    guest.shoal("join", token)
    assert finding(guest, "hub", "--hub", address, code=0)[0] == "note"
    # The hub is gone: the port refuses.
    home.shoal("stop", "--all")
    state, detail, advice = finding(guest, "hub", "--hub", address)
    port = address.rpartition(":")[2]
    assert state == "trouble" and f"127.0.0.1 port {port}: Connection refused" in detail
    assert advice == (f"that machine answers, but no process listens at port {port}: start the hub "
                      f"there with 'shoal hub --listen 127.0.0.1:{port}', or check the port")


def test_what_listens_is_no_hub(home, guest):
    address, token = listen(home)
    guest.shoal("join", token)
    home.shoal("stop", "--all")
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))):
        state, _, advice = finding(guest, "hub", "--hub", address)
    assert state == "trouble" and advice.startswith("something listens there, but does not answer as that hub: ")


def test_a_name_that_is_not_known(home, guest):
    address, token = listen(home)
    guest.shoal("join", token)
    # The key is known by its addresses; a name of the reserved domain `invalid` is nobody's.
    (hubs := guest.folder / ".config/shoal/hubs").write_text(
        hubs.read_text().replace("127.0.0.1", "hub.invalid"))
    state, detail, advice = finding(guest, "hub", "--hub", address.replace("127.0.0.1",
                                                                           "hub.invalid"))
    assert state == "trouble" and "hub.invalid port" in detail
    assert "/etc/hosts" in advice


def test_where_a_hub_could_listen(home):
    port = free_port()
    assert finding(home, "listen", "--listen", f"127.0.0.1:{port}", code=0) == \
        ("ok", f"127.0.0.1:{port}: free", None)
    with socket.create_server(("127.0.0.1", port)):
        state, detail, advice = finding(home, "listen", "--listen", f"127.0.0.1:{port}")
    assert state == "trouble"
    assert re.fullmatch(rf"127\.0\.0\.1:{port} is in use by process {os.getpid()} \(.*\)", detail)
    assert f"end process {os.getpid()} (" in advice and f"sport = :{port}'" in advice
    state, detail, advice = finding(home, "listen", "--listen", f"192.0.2.77:{port}")
    assert state == "trouble" and "Cannot assign requested address" in detail
    assert advice.startswith("this machine has: ")
    for text in "7400", "127.0.0.1", "127.0.0.1:99999", ":7400", "::1:7400":
        state, detail, advice = finding(home, "listen", "--listen", text)
        assert (state, detail) == ("trouble", f"'{text}' is no HOST:PORT")
        assert advice == "name an interface and a port, as 192.168.1.5:7400"


def test_clock_and_addresses_are_shown(home):
    state, detail, _ = finding(home, "clock", code=0)
    assert state == "ok" and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", detail)
    assert finding(home, "network", code=0)[0] in ("ok", "none")


@pytest.mark.parametrize("columns", [80, 60])
def test_lines_fit_into_the_terminal(home, columns):
    home.shoal("doctor")  # the first time it makes folders
    piped = home.shoal("doctor")
    shown, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    done = subprocess.run([SHOAL, "doctor"], stdout=terminal, timeout=60, env=home.environment)
    os.close(terminal)
    with open(shown, "rb", closefd=True) as file:
        text = b"".join(iter(lambda: _part(file.fileno()), b"")).decode()
    assert done.returncode == 0
    assert max(map(len, text.splitlines())) <= columns
    assert re.sub(r"(clock +ok).*", r"\1", text).split() == re.sub(r"(clock +ok).*", r"\1", piped).split()


def _part(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""

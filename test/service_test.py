"""What lies in deploy/: units of systemd and the container. BUILD is the build folder."""
import os
import pathlib
import re
import shutil
import socket
import subprocess

import pytest

from home import ROOT, SHOAL, home  # noqa: F401 (a fixture)

BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
UNITS = ["shoal-hub.service", "shoal-worker.service", "shoal-worker@.service"]


def settings(unit):
    """{section: {name: [values]}} of a unit."""
    found, section = {}, None
    for line in (BUILD / "deploy" / unit).read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_units(tmp_path):
    # Verified as they are, but for the command, which need not be installed here.
    for unit in UNITS:
        text = (BUILD / "deploy" / unit).read_text()
        (tmp_path / unit).write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={SHOAL}", text,
                                            flags=re.M))
    paths = [str(tmp_path / unit.replace("@.", "@gpu.")) for unit in UNITS]
    (tmp_path / "shoal-worker@gpu.service").symlink_to("shoal-worker@.service")
    checked = [subprocess.run(["systemd-analyze", "verify", "--user", "--man=no", *words],
                              capture_output=True, text=True, timeout=60,
                              env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)})
               for words in (paths, [str(tmp_path / "bad.service")])]
    if "Failed to initialize manager" in checked[0].stderr:
        pytest.skip(checked[0].stderr.strip())
    assert (checked[0].returncode, checked[0].stdout, checked[0].stderr) == (0, "", "")
    # And it would say so if one were bad.
    (tmp_path / "bad.service").write_text("[Service]\nExecStart=/no/such\nRestrt=no\n")
    bad = subprocess.run(["systemd-analyze", "verify", "--user", "--man=no",
                          str(tmp_path / "bad.service")], capture_output=True, text=True, timeout=60,
                         env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert "Restrt" in bad.stderr


@pytest.mark.parametrize("unit", UNITS)
def test_units_start_what_there_is(home, unit):
    service = settings(unit)["Service"]
    path, command, *options = service["ExecStart"][0].split()
    assert path.startswith("/") and path.endswith("/bin/shoal")
    known = home.shoal(command, "--help")
    for word in options:
        if word.startswith("--"):
            assert re.search(rf"{word}\b", known), word
    assert service["Type"] == ["notify"]


def test_services_tell_systemd_when_they_are_ready(home):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(home.folder / "notify"))
        told.settimeout(60)
        for name, words in (home.folder / "notify", ["hub"]), \
                (home.folder / "notify", ["worker", "--threads", "1"]):
            process = subprocess.Popen([SHOAL, *words], stdout=subprocess.DEVNULL,
                                       env=home.environment | {"NOTIFY_SOCKET": str(name)})
            home.processes.append(process)
            assert told.recv(100) == b"READY=1"
            assert process.poll() is None
        assert len(home.status()["slots"]) == 1
    # A name in no folder, as systemd may give; and one where nobody listens does no harm.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"\0shoal-test-{os.getpid()}")
        told.settimeout(60)
        home.shoal("hub", "--daemon=two", "--address", "shm:two",
                   NOTIFY_SOCKET=f"@shoal-test-{os.getpid()}")
        assert told.recv(100) == b"READY=1"
    home.shoal("hub", "--daemon=three", "--address", "shm:three", NOTIFY_SOCKET="/no/such/socket")


def runtime_packages():
    text = (ROOT / "deploy/Dockerfile").read_text().rpartition("FROM ")[2]
    return set(re.search(r"--no-install-recommends \\\n(.*?)\\\n", text, re.S)[1].split())


@pytest.mark.skipif(shutil.which("dpkg-query") is None or
                    "bookworm" not in pathlib.Path("/etc/os-release").read_text(),
                    reason="names of Debian 12's packages cannot be checked here")
def test_the_image_has_the_libraries_that_are_linked():
    """Of what the command and the library name themselves (not what those need in turn)."""
    needed = set()
    for file in SHOAL, str(BUILD / "libshoal.so.0"):
        out = subprocess.check_output(["objdump", "-p", file], text=True)
        needed |= set(re.findall(r"NEEDED\s+(\S+)", out))
    owners = {}
    for library in needed - {"libshoal.so.0"}:
        done = subprocess.run(["dpkg-query", "-S", f"*/{library}"], capture_output=True, text=True)
        owners[library] = {line.split(":")[0] for line in done.stdout.splitlines()}
    there = runtime_packages() | {"libc6"}
    assert {name: packages for name, packages in owners.items() if not packages & there} == {}
    # What is opened at run time.


@pytest.mark.skipif(shutil.which("docker") is None or
                    subprocess.run(["docker", "info"], capture_output=True).returncode != 0,
                    reason="no Docker that this user may use")
def test_the_image_is_built_and_runs():
    subprocess.run(["docker", "build", "-t", "shoal-test", "-f", "deploy/Dockerfile", "."], cwd=ROOT,
                   check=True, timeout=900)
    out = subprocess.check_output(["docker", "run", "--rm", "shoal-test", "doctor"], text=True)
    assert re.search(r"backend cpu\s+ok", out)

"""Workers inside control groups, as containers and services are: they lend what the group may have, not what the machine has."""
import json
import os
import subprocess
from pathlib import Path

import pytest

from cluster import SHOAL, Pool

MIB = 1 << 20
ROOT = Path("/sys/fs/cgroup")


@pytest.fixture
def group():
    """Files to write limits to, by what they limit, and those that take a process in."""
    old = (ROOT / "cpu").is_dir()
    folders = {kind: ROOT / (kind if old else "") / f"shoal-test-{os.getpid()}" for kind in ("cpu", "memory")}
    try:
        for folder in folders.values():
            folder.mkdir(exist_ok=not old)
        if old:
            (folders["cpu"] / "cpu.cfs_quota_us").write_text("50000")
            (folders["memory"] / "memory.limit_in_bytes").write_text(str(400 * MIB))
        else:
            (folders["cpu"] / "cpu.max").write_text("50000 100000")
            (folders["memory"] / "memory.max").write_text(str(400 * MIB))
    except OSError as error:
        for folder in folders.values():
            if folder.is_dir():
                folder.rmdir()
        pytest.skip(f"no control group can be made here ({error}): run as root outside of a container")
    yield [folder / "cgroup.procs" for folder in set(folders.values())]
    for folder in set(folders.values()):
        folder.rmdir()


def test_a_worker_lends_what_its_group_has(group):
    pool = Pool(workers=1)
    join = "".join(f"echo $$ > {path}; " for path in group) + 'exec "$@"'
    try:
        pool.processes.append(pool.start(join, "sh", SHOAL, "worker", "--once", "--hub", pool.address, "--name", "small",
                                         command=("sh", "-c")))
        pool.await_workers(2)
        told = json.loads(subprocess.check_output([SHOAL, "status", "--hub", pool.address, "--json"]))
        slots = {slot["worker"]: slot for slot in told["slots"]}
        assert slots["small"]["threads"] == 1
        assert slots["small"]["memory"] == 300 * MIB < slots["w1"]["memory"]  # three quarters, as of a machine
    finally:
        pool.close()

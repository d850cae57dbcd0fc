"""Workers inside control groups, as containers and services are: they lend what the group may have, not what the machine has."""
import contextlib
import json
import subprocess

import groups
import pytest

from cluster import SHOAL, Pool

MIB = 1 << 20


@pytest.fixture
def group():
    with contextlib.ExitStack() as stack:
        try:
            files = stack.enter_context(groups.limited((50_000, 100_000), 400 * MIB))
        except OSError as error:
            pytest.skip(f"no control group can be made here ({error}): run as root outside of a container")
        yield files


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

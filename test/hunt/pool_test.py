"""The hunt in pools of processes, left alone and with workers killed beside it.

SHOAL_HUNT: how many programs (150); SHOAL_HUNT_SEED: which (0). With SHOAL_TRANSPORT=zmq links are encrypted.
"""
import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from cluster import Pool  # noqa: E402 (it is in the folder above)

HUNT = os.environ["HUNT"]
COUNT = int(os.environ.get("SHOAL_HUNT", "150"))
SEED = int(os.environ.get("SHOAL_HUNT_SEED", "0"))


def begin(pool, seed, count):
    return subprocess.Popen(
        [HUNT, "pool", "--seed", str(seed), "--count", str(count), "--failures", "3"],
        env=os.environ | {"SHOAL_HUB": pool.address}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("workers", [1, 3, 5])
def test_a_pool_of_processes(workers):
    pool = Pool(workers)
    said, _ = (process := begin(pool, SEED + 1000 * workers, COUNT)).communicate()
    print(said)
    pool.close()
    assert process.returncode == 0, said


def test_workers_that_are_killed():
    """Three workers, of which one dies now and then; another comes in its place."""
    pool, kills, rng = Pool(3), 0, random.Random(SEED + 1)
    process = begin(pool, SEED + 90000, 3 * COUNT)
    while process.poll() is None:
        time.sleep(rng.uniform(0.2, 1.5))
        victim = pool.processes.pop(rng.randrange(1, len(pool.processes)))
        victim.kill()
        victim.wait()
        victim.stdout.close()
        victim.log.close()
        kills += 1
        pool.add(f"n{kills}")
    said = process.stdout.read()
    process.stdout.close()
    print(f"{kills} kills\n{said}")
    pool.close()
    assert process.returncode == 0, said
    assert kills > 0

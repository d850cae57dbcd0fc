"""Control groups of the kernel, of version 1 or 2, with limits, for tests and benchmarks."""
import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def limited(cpu, memory=None):
    """A group: the files that take a process in by its number. cpu: microseconds of a core, and of how many; memory: bytes.
    Who is in it at the end goes on outside. OSError where none can be made."""
    old = (ROOT / "cpu").is_dir()
    limits = {"cpu": {"cpu.cfs_period_us": cpu[1], "cpu.cfs_quota_us": cpu[0]} if old else {"cpu.max": f"{cpu[0]} {cpu[1]}"}}
    if memory is not None:
        limits["memory"] = {"memory.limit_in_bytes" if old else "memory.max": memory}
    folders = {kind: ROOT / (kind if old else "") / f"shoal-{os.getpid()}" for kind in limits}
    made = set(folders.values())
    try:
        for folder in made:
            folder.mkdir()
        for kind, files in limits.items():
            for name, value in files.items():
                (folders[kind] / name).write_text(str(value), encoding="ascii")
        yield [folder / "cgroup.procs" for folder in made]
    finally:
        for folder in filter(Path.is_dir, made):
            for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
                (folder.parent / "cgroup.procs").write_text(pid, encoding="ascii")
            folder.rmdir()

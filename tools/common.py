"""What the checks share: the project's files, and how they report."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(os.environ.get("SHOAL_CHECK_ROOT", Path(__file__).resolve().parent.parent))


def files(*suffixes, under=""):
    """Paths, relative to the root, of the project's own files with one of these suffixes."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listing.returncode == 0:
        names = {name for name in listing.stdout.decode().split("\0") if name}
    else:  # a copy without its history
        names = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()}
        names = {name for name in names if not name.startswith(("build", "."))}
    return sorted(Path(name) for name in names
                  if name.endswith(suffixes) and name.startswith(under) and (ROOT / name).is_file())


def text(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def report(what, problems, looked_at):
    """Prints the problems, one a line; the result is the exit code."""
    for problem in problems:
        print(problem)
    if not looked_at:
        problems = [f"{what}: found nothing to look at"]
        print(problems[0])
    print(f"{what}: {looked_at} looked at, {len(problems)} wrong")
    return 1 if problems else 0


def run_all(jobs):
    """Runs commands on all cores; yields (key, CompletedProcess) in the order given."""
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [(key, pool.submit(subprocess.run, command, capture_output=True, text=True,
                                     check=False)) for key, command in jobs]
        for key, future in futures:
            yield key, future.result()


if __name__ == "__main__":
    sys.exit("this file is for the other tools")

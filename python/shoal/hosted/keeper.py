"""The keeper of artifacts: a process of the hub's own user, beside the hub, which gives workers those that are kept here and, if
it is to, compiles what they ask for. It is `shoal compile --serve`, which `shoal hub --artifacts` starts.

What is asked comes from members that may mean harm. A question is words and a text. The words are looked up, never passed on;
the text is read by Shoal, and compiled only if it is, letter by letter, what Shoal itself would write of it: so iree-compile is
given no module that somebody wrote by hand. It runs as a process of its own, in a folder of its own, with limits of time and
memory. Users have turns.
"""
from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from . import artifacts
from .. import _shoal
from ..errors import DeniedError, FormatError, InvalidError, LostError, NotFoundError, ShoalError

if TYPE_CHECKING:
    from typing import Any

    from .artifacts import Artifact, Recipe

SECONDS = 120                # for one artifact, of the processor's time as of the clock's;
_MEMORY = 8 << 30            # bytes of addresses of iree-compile,
_MOST_ARTIFACT = 256 << 20   # of what it writes,
_MOST_KEPT = 8 << 30         # and of all that is kept, until somebody makes room
_MOST_FAILURES = 1024        # that are remembered
# Limits are set by the process itself, before it is iree-compile: this one has threads.
_LIMITED = f"""if True:
    import ctypes, os, resource, signal, sys
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # it ends with the keeper
    for what, most in ((resource.RLIMIT_AS, {_MEMORY}), (resource.RLIMIT_CPU, {SECONDS}), (resource.RLIMIT_FSIZE, {_MOST_ARTIFACT}),
                       (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))
    os.nice(10)
    os.execv(sys.argv[1], sys.argv[1:])"""


class Question(NamedTuple):
    """As a worker asked it: nobody has looked into the words."""

    token: int
    made_of: str
    target: bytes
    device: bytes
    compiler: bytes
    text: bytes | None
    user: int


class Keeper:
    """Answers the hub's workers until the hub is gone. compiles: also by making what is not there."""

    def __init__(self, hub: str | None, compiles: bool) -> None:
        self.compiler = _version() if compiles else None
        self._own = artifacts.key()[0].hex()
        self._failed: collections.OrderedDict[str, str] = collections.OrderedDict()
        self._waiting: collections.OrderedDict[int, collections.deque[Question]] = collections.OrderedDict()  # by user, whose turn is next first
        self._changed = threading.Condition()
        folder = artifacts.folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._keeper: Any = _shoal.keeper_open(hub, folder)
        if compiles:
            threading.Thread(target=self._compile_all, daemon=True).start()

    def run(self) -> None:
        """Raises LostError when the hub is gone."""
        while True:
            asked = _shoal.keeper_next(self._keeper, 1000)
            if asked is not None:
                token, made_of, *rest = asked
                self._take(Question(token, made_of.decode(), *rest))

    def _take(self, asked: Question) -> None:
        if (found := artifacts.find(asked.made_of, [self._own])) is not None:
            self._give(asked, found)
            return
        try:
            self._wanted(asked)
        except (ShoalError, ValueError) as error:
            self._refuse(asked, error)
            return
        if asked.text is None:
            _shoal.keeper_refuse(self._keeper, asked.token, "", False, True)
            return
        with self._changed:
            self._waiting.setdefault(asked.user, collections.deque()).append(asked)
            self._changed.notify()

    def _wanted(self, asked: Question) -> tuple[str, str]:
        """(target, device) of what would be made of a question; FormatError if that has failed."""
        if (before := self._failed.get(asked.made_of)) is not None:
            raise FormatError(before)
        if self.compiler is None:
            raise NotFoundError("the hub has no such artifact, and makes none (shoal hub --artifacts compile)")
        if asked.compiler.decode("ascii", "replace") != self.compiler:
            raise NotFoundError(f"the hub has iree-base-compiler {self.compiler}: install an iree-base-runtime of that version")
        target, device = asked.target.decode("ascii"), asked.device.decode("ascii")
        if target not in artifacts.TARGETS:
            raise InvalidError("the hub makes artifacts for no such target")
        if not (artifacts.check_features(device) if target == "llvm-cpu" else device == (artifacts.TARGETS[target].usual or "")):
            raise InvalidError("the hub makes artifacts for no such device")
        return target, device

    def _give(self, asked: Question, found: Artifact) -> None:
        assert found.path is not None
        try:
            _shoal.keeper_give(self._keeper, asked.token, found.path, artifacts.note_of(found.path))
        except (ShoalError, OSError) as error:
            self._refuse(asked, error)

    def _refuse(self, asked: Question, why: Exception) -> None:
        with contextlib.suppress(ShoalError):  # the hub is gone: `run` says so
            _shoal.keeper_refuse(self._keeper, asked.token, str(why), False, False)

    # ---- compiling: a thread of its own ----

    def _compile_all(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                user, line = self._waiting.popitem(last=False)
                asked = line.popleft()
                if line:
                    self._waiting[user] = line  # behind all others
            self._compile(asked)

    def _compile(self, asked: Question) -> None:
        try:
            found = artifacts.find(asked.made_of, [self._own]) or self._made(asked)
        except Exception as error:  # whatever a question leads to, the next one is answered
            self._refuse(asked, error)
            return
        self._give(asked, found)

    def _made(self, asked: Question) -> Artifact:
        assert asked.text is not None and self.compiler is not None
        target, device = self._wanted(asked)
        text = asked.text.decode()
        if _shoal.Module(text, None, None).text() != text:
            raise DeniedError("the hub compiles nothing but what Shoal writes")
        wanted = artifacts.Recipe(text, target, device or None, self.compiler)
        if wanted.made_of != asked.made_of:
            raise DeniedError("the digest is of something else")
        if _bytes_of(artifacts.folder()) > _MOST_KEPT:
            raise NotFoundError(f"the hub's folder of artifacts has more than {_MOST_KEPT >> 30} GiB")
        began = time.monotonic()
        try:
            data = compile_apart(wanted)
        except FormatError as error:  # it would end so again
            self._failed[wanted.made_of] = str(error)
            if len(self._failed) > _MOST_FAILURES:
                self._failed.popitem(last=False)
            raise
        made = artifacts.keep(wanted, data)
        if made.path is None:
            raise NotFoundError("the hub cannot write into its folder of artifacts")
        print(f"keeper: compiled {wanted.made_of} for {target}{f':{device}' if device else ''} in {time.monotonic() - began:.1f} s",
              file=sys.stderr, flush=True)
        return made


def compile_apart(wanted: Recipe) -> bytes:
    """What iree-compile makes, within limits; FormatError with what it says."""
    from iree.compiler.tools.binaries import find_tool
    with tempfile.TemporaryDirectory(prefix="shoal-keeper-") as folder:
        command = [sys.executable, "-I", "-c", _LIMITED, find_tool("iree-compile"), "-", "-o=made.vmfb", "--iree-input-type=stablehlo",
                   "--iree-vm-bytecode-module-output-format=flatbuffer-binary", f"--iree-hal-target-backends={artifacts.TARGETS[wanted.target].backend}",
                   "--mlir-print-op-on-diagnostic=false", f"--iree-llvmcpu-embedded-linker-path={find_tool('iree-lld')}", *wanted.flags]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "TMPDIR": folder}
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder, env=environment,
                              start_new_session=True) as process:
            try:
                said = process.communicate(wanted.text.encode(), SECONDS)[1]
            except subprocess.TimeoutExpired:
                raise FormatError(f"iree-compile was stopped after {SECONDS} s") from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with what it has started
        path = pathlib.Path(folder, "made.vmfb")
        if process.returncode < 0:
            raise FormatError(f"iree-compile was ended by signal {-process.returncode}")
        if process.returncode or not path.is_file():
            raise artifacts.failure(wanted, said[:1 << 16].decode("utf-8", "replace"))
        return path.read_bytes()


def _bytes_of(folder: pathlib.Path) -> int:
    """Of all files in it, while others write there, too."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _version() -> str:
    from importlib.metadata import version
    artifacts.iree_compiler()
    return version("iree-base-compiler")


def serve(hub: str | None, compiles: bool) -> None:
    """Keeps artifacts for a hub, until it is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the folder of what is being compiled goes, too
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    keeper = Keeper(hub, compiles)
    print(f"keeper: gives artifacts of {artifacts.folder()}, signed by {keeper._own}"
          + (f", and compiles by iree-compile {keeper.compiler}" if keeper.compiler else ""), file=sys.stderr, flush=True)
    try:
        keeper.run()
    except LostError as error:
        print(f"keeper: ends: {error}", file=sys.stderr, flush=True)

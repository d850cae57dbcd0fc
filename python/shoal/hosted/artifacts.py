"""Artifacts: what iree-compile makes of StableHLO for one kind of hardware. Each is kept on disk under the digest of all that it
was made of, beside a note that is signed by a user's key for artifacts; one whose note is not right is never used.

    made = artifacts.build(shoal.stablehlo.load("model.mlir").text(), "cuda", "sm_89")
    made.path, made.new

`main` is the command `shoal compile`. How they come from the hub to its workers: shipped.py and keeper.py.
"""
from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import fcntl
import hashlib
import json
import os
import pathlib
import signal
import sys
import time
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from .. import _shoal
from ..errors import DeniedError, FormatError, InvalidError, NotFoundError, ShoalError
from ..files import _cache_folder, _whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from types import ModuleType
    from typing import Any


@dataclass(frozen=True)
class Target:
    """A kind of hardware: what iree-compile calls it, its option for the model of the device, and which that is."""

    backend: str
    option: str | None = None
    usual: str | None = None
    example: str = ""


TARGETS: dict[str, Target] = {
    "llvm-cpu": Target("llvm-cpu", "--iree-llvmcpu-target-cpu=", "host", "znver4"),
    "cuda": Target("cuda", "--iree-cuda-target=", "sm_80", "sm_89"),
    "rocm": Target("rocm", "--iree-rocm-target=", "gfx942", "gfx1100"),
    "vulkan": Target("vulkan-spirv", "--iree-vulkan-target=", None, "rdna3"),
    "metal": Target("metal-spirv"),
}
_SYNONYMS = {"cpu": "llvm-cpu", "hip": "rocm", "vulkan-spirv": "vulkan", "metal-spirv": "metal"}
# What code for a processor may use, by the names of LLVM, and the kernel's word for it: all that compiled programs gain from.
_FEATURES = {
    "x86_64": {"sse3": "pni", "ssse3": "ssse3", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "popcnt": "popcnt", "avx": "avx", "f16c": "f16c",
               "fma": "fma", "avx2": "avx2", "bmi": "bmi1", "bmi2": "bmi2", "lzcnt": "abm", "avxvnni": "avx_vnni", "avx512f": "avx512f",
               "avx512cd": "avx512cd", "avx512bw": "avx512bw", "avx512dq": "avx512dq", "avx512vl": "avx512vl", "avx512vnni": "avx512_vnni",
               "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16"},
    "aarch64": {"dotprod": "asimddp", "fullfp16": "asimdhp", "i8mm": "i8mm", "bf16": "bf16"},
}
# Numbers stay of the type that they are; and the compiler compiles, and runs nothing of the program.
_FLAGS = ("--iree-input-demote-f64-to-f32=false", "--iree-input-demote-i64-to-i32=false", "--iree-opt-level=O3", "--iree-opt-const-eval=false")
MOST_NOTE = 1 << 16
_LONGEST = 3600  # seconds that another process may compile while this one waits
_NOTE = ("made_of", "target", "device", "model", "compiler", "digest", "bytes", "signer")
_SIGNED = b"shoal artifact 1\n"


@dataclass(frozen=True)
class Artifact:
    """`data`: the module for IREE's runtime. `path`: where it is kept; None: it could not be. `new`: it was compiled just now."""

    data: bytes
    path: pathlib.Path | None
    new: bool
    note: dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """All that an artifact is made of, so that any compiler of that version anywhere makes the same. device: None: none is named;
    of a processor its kind and what its code may use, x86_64+avx+avx2, or a name that iree-compile knows."""

    text: str
    target: str
    device: str | None
    compiler: str

    @cached_property
    def flags(self) -> list[str]:
        """The options of iree-compile."""
        kind, _, features = (self.device or "").partition("+")
        if self.target == "llvm-cpu" and kind in _FEATURES:
            return [f"--iree-llvmcpu-target-triple={kind}-unknown-linux-gnu", "--iree-llvmcpu-target-cpu=generic",
                    *([f"--iree-llvmcpu-target-cpu-features=+{features.replace('+', ',+')}"] if features else []), *_FLAGS]
        option = TARGETS[self.target].option
        return [*([option + self.device] if option and self.device else []), *_FLAGS]

    @cached_property
    def made_of(self) -> str:
        """The digest of it."""
        all_of_it = (self.compiler, TARGETS[self.target].backend, *self.flags, self.text)
        return hashlib.blake2b("\n".join(all_of_it).encode(), digest_size=32).hexdigest()


def recipe(text: str, target: str, device: str | None, compiler: str) -> Recipe:
    """What an artifact of a program is made of, for a version of the compiler. The lines of programs in which operations were
    written are no part of it. Raises InvalidError for words that name no hardware."""
    kind, name = _target(target)
    device = device or kind.usual
    if device and not kind.option:
        raise InvalidError(f"{name}: '{device}': there are no models of such devices to choose from; leave it out")
    if name == "llvm-cpu" and device == "host":
        device = processor()
    if name == "llvm-cpu":
        check_features(device or "")
    with contextlib.suppress(ShoalError):  # what Shoal does not read is iree-compile's to judge
        text = _shoal.Module(text, None, None).text()
    return Recipe(text, name, device, compiler)


@cache
def processor() -> str:
    """This processor: its kind, and those of `_FEATURES` that it has: x86_64+sse3+avx."""
    kind = os.uname().machine
    if kind not in _FEATURES:
        raise NotFoundError(f"processors of kind {kind} are not known; there are {', '.join(_FEATURES)}")
    has: set[str] = set()
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                has = set(line.partition(":")[2].split())
                break
    return "+".join([kind, *(name for name, word in _FEATURES[kind].items() if word in has)])


def check_features(device: str) -> bool:
    """Whether a device is a processor by its kind and features, each of which exists and has its place; InvalidError where it is
    nearly so."""
    kind, *features = device.split("+")
    if kind not in _FEATURES:
        if features:
            raise InvalidError(f"'{device}': processors of kind {kind} are not known; there are {', '.join(_FEATURES)}")
        return False
    for name in features:
        if name not in _FEATURES[kind]:
            raise InvalidError(f"'{device}': {kind} has no '{name}'; there are {', '.join(_FEATURES[kind])}")
    if features != [name for name in _FEATURES[kind] if name in features]:
        raise InvalidError(f"'{device}': each is named once, in this order: {', '.join(_FEATURES[kind])}")
    return True


# ---- compiling ----

def build(text: str, target: str, device: str | None = None, model: str = "") -> Artifact:
    """The artifact of a program in StableHLO's text for a kind of hardware: the one that is kept, or a new one.

    target: one of `TARGETS`. device: its model, such as sm_89, gfx942 or, of llvm-cpu, znver4; None: the usual one. model: the
    name of the program, for people. Raises NotFoundError without iree-compile, or where it has no such target; InvalidError for
    other words, FormatError with what iree-compile says.
    """
    from importlib.metadata import version
    compiler = iree_compiler()
    wanted = recipe(text, target, device, version("iree-base-compiler"))
    if (found := find(wanted.made_of, [key()[0].hex()])) is not None:
        return found
    backend = TARGETS[wanted.target].backend
    if backend not in compiler.query_available_targets():
        raise NotFoundError(f"iree-compile {wanted.compiler} has no target {backend}; it has "
                            f"{', '.join(sorted(compiler.query_available_targets()))}: install an iree-base-compiler that has it")
    with _alone(wanted.made_of):
        if (found := find(wanted.made_of, [key()[0].hex()])) is not None:
            return found
        try:
            made: bytes = compiler.compile_str(wanted.text, target_backends=[backend], input_type="stablehlo", extra_args=wanted.flags)
        except compiler.CompilerToolError as error:
            raise failure(wanted, str(error).partition("Diagnostics:")[2]) from error
        return keep(wanted, made, model)


@contextlib.contextmanager
def _alone(made_of: str) -> Iterator[None]:
    """While no other process of this user compiles this artifact: waits for it, but not for ever. The lock of one that dies is free.
    Where there can be no lock, there is none: then both compile, and the files of one of them are kept."""
    path, end = folder() / f"{made_of}.lock", time.monotonic() + _LONGEST
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while time.monotonic() < end:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                if _taken(handle, path):
                    stack.callback(os.close, handle)
                    stack.callback(path.unlink, missing_ok=True)  # before it is let go of
                    break
                os.close(handle)
                time.sleep(0.05)
        yield


def _taken(handle: int, path: pathlib.Path) -> bool:
    """Locks a file, unless another process has. Who had it before may have removed it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False


def failure(wanted: Recipe, said: str) -> FormatError:
    """What iree-compile has said, as an exception."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((line for line in lines if "error:" in line), lines[0] if lines else "it failed")
    device = f" ({wanted.device}, if it knows that)" if wanted.device else ""
    return FormatError(f"iree-compile {wanted.compiler} for {wanted.target}{device}: {first}")


def keep(wanted: Recipe, made: bytes, model: str = "") -> Artifact:
    """Keeps what was compiled, signed by this user."""
    note = {"made_of": wanted.made_of, "target": wanted.target, "device": wanted.device or "", "compiler": wanted.compiler, "model": model}
    path = place(wanted.made_of)
    try:
        write(path, made, note)
    except (ShoalError, OSError):  # a full disk is no failure: it is made again the next time
        return Artifact(made, None, True, note)
    return Artifact(made, path, True, note)


def find(made_of: str, signers: Collection[str]) -> Artifact | None:
    """The one that is kept, if one of these has signed it."""
    path = place(made_of)
    with contextlib.suppress(ShoalError, OSError):
        data, note = check(path, signers)
        if note["made_of"] == made_of:
            return Artifact(data, path, False, note)
    return None


def place(made_of: str) -> pathlib.Path:
    """Where the artifact with this digest is kept."""
    return folder() / f"{made_of}.vmfb"


def folder() -> pathlib.Path:
    """Where artifacts are kept."""
    return _cache_folder("iree")


def _target(word: str) -> tuple[Target, str]:
    name = _SYNONYMS.get(word, word)
    if name not in TARGETS:
        raise InvalidError(f"'{word}' is no target; there are {', '.join(TARGETS)}")
    return TARGETS[name], name


def iree_compiler() -> ModuleType:
    try:
        import iree.compiler
    except ImportError as error:
        raise NotFoundError(f"iree-compile is not here ({error}): pip install iree-base-compiler, for the Python that SHOAL_PYTHON "
                            "names") from error
    return iree.compiler


# ---- files: the artifact, and beside it NAME.sig, a note in JSON with its signature ----

def write(path: pathlib.Path, data: bytes, note: dict[str, Any]) -> None:
    """Writes an artifact and its note, signed by this user's key."""
    public, secret = key()
    note = {**note, "digest": hashlib.blake2b(data, digest_size=32).hexdigest(), "bytes": len(data), "signer": public.hex()}
    signature = ctypes.create_string_buffer(64)
    message = _message(note)
    _sodium().crypto_sign_detached(signature, None, message, ctypes.c_ulonglong(len(message)), secret)
    keep_as_signed(path, data, json.dumps({**note, "signature": signature.raw.hex()}).encode())


def keep_as_signed(path: pathlib.Path, data: bytes, note: bytes) -> None:
    """Writes an artifact and its note as they are."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for to, content in ((path, data), (_beside(path), note)):
        with _whole(to) as file:
            file.write(content)


def check(path: str | os.PathLike[str], signers: Collection[str] | None = None) -> tuple[bytes, dict[str, Any]]:
    """(the artifact, its note), both just as they were signed; DeniedError else.

    signers: the public keys, in hexadecimal, of those of whom one has to have signed it; None: this user.
    """
    path = pathlib.Path(path)
    data = path.read_bytes()
    return data, verify(path, data, note_of(path), signers or [key()[0].hex()])


def note_of(path: pathlib.Path) -> bytes:
    """The note of an artifact as it lies beside it; DeniedError where there is none."""
    try:
        with _beside(path).open("rb") as file:
            return file.read(MOST_NOTE)
    except FileNotFoundError:
        raise DeniedError(f"{path}: is not signed: there is no {_beside(path).name} beside it") from None


def verify(path: pathlib.Path, data: bytes, written: bytes, signers: Collection[str]) -> dict[str, Any]:
    """The note of an artifact, once both are as one of these has signed them; DeniedError else. path: for people."""
    try:
        note = json.loads(written)
        signature, by = bytes.fromhex(note.pop("signature")), note["signer"]
        digest, size, public = note["digest"], note["bytes"], bytes.fromhex(by)
        if missing := set(_NOTE) - set(note):
            raise KeyError(missing)
        if len(public) != 32 or by != public.hex():  # it is told to people
            raise ValueError(by)
        message = _message(note)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DeniedError(f"{_beside(path)}: is no note of an artifact") from None
    if by not in (trusted := [one.lower() for one in signers]):
        raise DeniedError(f"{path}: is signed by {by}, not by {' or '.join(trusted)}")
    if len(signature) != 64 or _sodium().crypto_sign_verify_detached(
            signature, message, ctypes.c_ulonglong(len(message)), public):
        raise DeniedError(f"{_beside(path)}: the signature is not that of {by}")
    if len(data) != size or hashlib.blake2b(data, digest_size=32).hexdigest() != digest:
        raise DeniedError(f"{path}: is not the artifact that was signed")
    return note


def kept() -> list[tuple[pathlib.Path, dict[str, Any]]]:
    """The artifacts that are kept and rightly signed, the latest first."""
    found = []
    for path in folder().glob("*.vmfb"):
        with contextlib.suppress(ShoalError, OSError):
            found.append((path.stat().st_mtime, path, check(path)[1]))
    return [(path, note) for _, path, note in sorted(found, key=lambda row: -row[0])]


def _beside(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + ".sig")


def _message(note: dict[str, Any]) -> bytes:
    return _SIGNED + json.dumps(note, sort_keys=True).encode()


# ---- keys ----

@cache
def _sodium() -> Any:
    """libsodium, which the library itself needs; a wheel has it in a folder of its own."""
    own = pathlib.Path(__file__).resolve().parent.parent.parent / "shoal.libs"
    names = [ctypes.util.find_library("sodium"), "libsodium.so.23", *map(str, own.glob("libsodium*"))]
    for name in filter(None, names):
        with contextlib.suppress(OSError):
            sodium = ctypes.CDLL(name)
            if sodium.sodium_init() >= 0:
                return sodium
    raise NotFoundError("artifacts are signed by libsodium, which is not here: apt install libsodium23")


def key() -> tuple[bytes, bytes]:
    """(public, secret) key for artifacts (Ed25519), of this user on this machine; made when there is none."""
    base = pathlib.Path(os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config", "shoal")
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = base / "artifacts"
    if not path.exists():
        draft = base / f"artifacts.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="ascii") as file:
            file.write(f"secret {os.urandom(32).hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was faster: its key counts
            os.link(draft, path)
        draft.unlink()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="ascii", errors="replace") as file:
        about, words = os.fstat(file.fileno()), file.read(200).split()
    if about.st_uid != os.geteuid() or about.st_mode & 0o77:
        raise DeniedError(f"{path} is open to others (mode {about.st_mode & 0o777:03o}): chmod 600 it")
    try:
        seed = bytes.fromhex(words[1]) if len(words) == 2 and words[0] == "secret" else b""
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise FormatError(f"{path} holds no key: remove it, then a new one is made")
    public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
    _sodium().crypto_sign_seed_keypair(public, secret, seed)
    return public.raw, secret.raw


# ---- the command ----

class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InvalidError(f"compile: {message}")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _Arguments(prog="shoal compile", add_help=False, allow_abbrev=False)
    parser.add_argument("model", nargs="?")
    for names, more in ((("--target",), {"action": "append"}), (("--target-cpu",), {}), (("--amd-target",), {}),
                        (("--output", "-o"), {}), (("--force", "-f"), {"action": "store_true"}), (("--function",), {}),
                        (("--list",), {"action": "store_true"}), (("--check",), {"action": "store_true"}), (("--signer",), {}),
                        (("--serve",), {"choices": ("kept", "compile")}), (("--hub", "-H"), {}), (("--json",), {"action": "store_true"})):
        parser.add_argument(*names, **more)  # type: ignore[arg-type]
    told = parser.parse_args(words)
    if told.list and (told.model or told.check):
        raise InvalidError("compile: --list stands alone")
    if told.serve and (told.model or told.check or told.list):
        raise InvalidError("compile: --serve stands alone, with --hub")
    if told.hub and not told.serve:
        raise InvalidError("compile: --hub says which hub --serve is for")
    if not told.list and not told.serve and not told.model:
        raise InvalidError("compile needs a model: compile MODEL.mlir --target llvm-cpu")
    if told.signer and not told.check:
        raise InvalidError("compile: --signer says who has to have signed what --check looks at")
    return told


def _wanted(told: argparse.Namespace) -> list[tuple[str, str | None]]:
    """(target, device) of each --target KIND[:DEVICE], and of the options that name a device alone."""
    targets = [tuple(word.split(":", 1)) if ":" in word else (word, None) for word in told.target or []]
    for name, device, option in (("llvm-cpu", told.target_cpu, "--target-cpu"), ("rocm", told.amd_target, "--amd-target")):
        if not device:
            continue
        if not any(_target(kind)[1] == name for kind, _ in targets):
            targets.append((name, None))
        if any(_target(kind)[1] == name and given for kind, given in targets):
            raise InvalidError(f"compile: {option} and --target {name}: both name a device; give one")
        targets = [(kind, device if _target(kind)[1] == name else given) for kind, given in targets]
    targets = targets or [("llvm-cpu", None)]
    if told.output and len(targets) > 1:
        raise InvalidError(f"compile: --output: one file for {len(targets)} targets; name one target, or leave the artifacts where "
                           "they are kept")
    return [(_target(kind)[1], device) for kind, device in targets]


def _row(path: pathlib.Path, note: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"file": str(path), **{name: note[name] for name in _NOTE if name != "made_of"}, **more}


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        device = f" ({row['device']})" if row["device"] else ""
        state = "" if "new" not in row else ", compiled" if row["new"] else ", kept"
        print(f"{row['file']}: {row['model'] or 'a program'} for {row['target']}{device}, {row['bytes']} B{state}")


def _compile(told: argparse.Namespace) -> list[dict[str, Any]]:
    from ..stablehlo import load
    wanted = _wanted(told)
    if told.output and os.path.exists(told.output) and not told.force:
        raise InvalidError(f"{told.output}: is there already; --force overwrites it")
    folder = pathlib.Path(told.output or ".").parent
    if not folder.is_dir():
        raise NotFoundError(f"{told.output}: there is no folder {folder}; make it, or name another")
    try:
        text = load(pathlib.Path(told.model), told.function).text()
    except ShoalError as error:
        raise type(error)(f"{told.model}: {error}") from error
    name, rows = os.path.basename(told.model), []
    for kind, device in wanted:
        made = build(text, kind, device, name)
        path = pathlib.Path(told.output) if told.output else made.path or place(made.note["made_of"])
        if told.output or not made.path:  # also: now the reason why it could not be kept
            write(path, made.data, made.note)
        rows.append(_row(path, check(path)[1], new=made.new))
    return rows


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    try:
        told = _parse(sys.argv[1:] if words is None else words)
        if told.serve:
            from .keeper import serve
            serve(told.hub or os.environ.get("SHOAL_HUB") or None, told.serve == "compile")
            return 0
        if told.list:
            rows = [_row(path, note) for path, note in kept()]
        elif told.check:
            rows = [_row(pathlib.Path(told.model), check(told.model, [told.signer] if told.signer else None)[1])]
        else:
            rows = _compile(told)
        _print(rows, told.json)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    except InvalidError as error:
        print(f"shoal: {error}", file=sys.stderr)
        return 2
    except (ShoalError, OSError) as error:
        named = isinstance(error, OSError) and error.filename
        print(f"shoal: {error.filename}: {error.strerror}" if named else f"shoal: {error}", file=sys.stderr)
        return 1
    return 0

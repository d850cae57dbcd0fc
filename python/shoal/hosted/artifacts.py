"""Artifacts: what iree-compile makes of StableHLO for one kind of hardware. Each is kept on disk under the digest of all that it
was made of, beside a note that is signed by this user's key for artifacts; one whose note is not right is never used.

    made = artifacts.build(shoal.stablehlo.load("model.mlir").text(), "cuda", "sm_89")
    made.path, made.new

`main` is the command `shoal compile`.
"""
from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import hashlib
import json
import os
import pathlib
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ..errors import DeniedError, FormatError, InvalidError, NotFoundError, ShoalError
from ..files import _cache_folder, _whole

if TYPE_CHECKING:
    from collections.abc import Sequence
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
# Numbers stay of the type that they are.
_FLAGS = ("--iree-input-demote-f64-to-f32=false", "--iree-input-demote-i64-to-i32=false", "--iree-opt-level=O3")
_MOST_NOTE = 1 << 16
_NOTE = ("made_of", "target", "device", "model", "compiler", "digest", "bytes", "signer")
_SIGNED = b"shoal artifact 1\n"


@dataclass(frozen=True)
class Artifact:
    """`data`: the module for IREE's runtime. `path`: where it is kept; None: it could not be. `new`: it was compiled just now."""

    data: bytes
    path: pathlib.Path | None
    new: bool
    note: dict[str, Any]


# ---- compiling ----

def build(text: str, target: str, device: str | None = None, model: str = "") -> Artifact:
    """The artifact of a program in StableHLO's text for a kind of hardware: the one that is kept, or a new one.

    target: one of `TARGETS`. device: its model, such as sm_89, gfx942 or, of llvm-cpu, znver4; None: the usual one. model: the
    name of the program, for people. Raises NotFoundError without iree-compile, or where it has no such target; InvalidError for
    other words, FormatError with what iree-compile says.
    """
    from importlib.metadata import version
    kind, name = _target(target)
    compiler = _compiler()
    device = device or kind.usual
    if device and not kind.option:
        raise InvalidError(f"{name}: '{device}': there are no models of such devices to choose from; leave it out")
    flags = [*([kind.option + device] if kind.option and device else []), *_FLAGS]
    wanted = (version("iree-base-compiler"), kind.backend, *flags, _processor() if device == "host" else "", text)
    digest = hashlib.blake2b("\n".join(wanted).encode(), digest_size=32).hexdigest()
    path = folder() / f"{digest}.vmfb"
    with contextlib.suppress(ShoalError, OSError):
        data, note = check(path)
        if note["made_of"] == digest:
            return Artifact(data, path, False, note)
    if kind.backend not in compiler.query_available_targets():
        raise NotFoundError(f"iree-compile {wanted[0]} has no target {kind.backend}; it has "
                            f"{', '.join(sorted(compiler.query_available_targets()))}: install an iree-base-compiler that has it")
    try:
        made: bytes = compiler.compile_str(text, target_backends=[kind.backend], input_type="stablehlo", extra_args=flags)
    except compiler.CompilerToolError as error:
        said = [line.strip() for line in str(error).partition("Diagnostics:")[2].splitlines() if line.strip()]
        first = next((line for line in said if "error:" in line), said[0] if said else "it failed")
        raise FormatError(f"iree-compile {wanted[0]} for {name}{f' ({device}, if it knows that)' if device else ''}: {first}") from error
    note = {"made_of": digest, "target": name, "device": device or "", "compiler": wanted[0], "model": model}
    try:
        write(path, made, note)
    except (ShoalError, OSError):  # a full disk is no failure: it is made again the next time
        return Artifact(made, None, True, note)
    return Artifact(made, path, True, note)


def folder() -> pathlib.Path:
    """Where artifacts are kept."""
    return _cache_folder("iree")


def _target(word: str) -> tuple[Target, str]:
    name = _SYNONYMS.get(word, word)
    if name not in TARGETS:
        raise InvalidError(f"'{word}' is no target; there are {', '.join(TARGETS)}")
    return TARGETS[name], name


def _compiler() -> ModuleType:
    try:
        import iree.compiler
    except ImportError as error:
        raise NotFoundError(f"iree-compile is not here ({error}): pip install iree-base-compiler, for the Python that SHOAL_PYTHON "
                            "names") from error
    return iree.compiler


@cache
def _processor() -> str:
    """What the code for this processor depends on."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return os.uname().machine


# ---- files: the artifact, and beside it NAME.sig, a note in JSON with its signature ----

def write(path: pathlib.Path, data: bytes, note: dict[str, Any]) -> None:
    """Writes an artifact and its note, signed by this user's key."""
    public, secret = key()
    note = {**note, "digest": hashlib.blake2b(data, digest_size=32).hexdigest(), "bytes": len(data), "signer": public.hex()}
    signature = ctypes.create_string_buffer(64)
    message = _message(note)
    _sodium().crypto_sign_detached(signature, None, message, ctypes.c_ulonglong(len(message)), secret)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for to, content in ((path, data), (_beside(path), json.dumps({**note, "signature": signature.raw.hex()}).encode())):
        with _whole(to) as file:
            file.write(content)


def check(path: str | os.PathLike[str], signer: str | None = None) -> tuple[bytes, dict[str, Any]]:
    """(the artifact, its note), both just as they were signed; DeniedError else.

    signer: the public key, in hexadecimal, of who has to have signed it; None: this user.
    """
    path = pathlib.Path(path)
    data = path.read_bytes()
    try:
        with _beside(path).open("rb") as file:
            note = json.loads(file.read(_MOST_NOTE))
        signature, by = bytes.fromhex(note.pop("signature")), note["signer"]
        digest, public = note["digest"], bytes.fromhex(by)
        if missing := set(_NOTE) - set(note):
            raise KeyError(missing)
    except FileNotFoundError:
        raise DeniedError(f"{path}: is not signed: there is no {_beside(path).name} beside it") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DeniedError(f"{_beside(path)}: is no note of an artifact") from None
    trusted = (signer or key()[0].hex()).lower()
    if by != trusted:
        raise DeniedError(f"{path}: is signed by {by}, not by {trusted}")
    message = _message(note)
    if len(signature) != 64 or len(public) != 32 or _sodium().crypto_sign_verify_detached(
            signature, message, ctypes.c_ulonglong(len(message)), public):
        raise DeniedError(f"{_beside(path)}: the signature is not that of {by}")
    if hashlib.blake2b(data, digest_size=32).hexdigest() != digest:
        raise DeniedError(f"{path}: is not the artifact that was signed")
    return data, note


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
                        (("--json",), {"action": "store_true"})):
        parser.add_argument(*names, **more)  # type: ignore[arg-type]
    told = parser.parse_args(words)
    if told.list and (told.model or told.check):
        raise InvalidError("compile: --list stands alone")
    if not told.list and not told.model:
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
    text = load(pathlib.Path(told.model), told.function).text()
    name, rows = os.path.basename(told.model), []
    for kind, device in wanted:
        made = build(text, kind, device, name)
        path = pathlib.Path(told.output) if told.output else made.path or folder() / f"{made.note['made_of']}.vmfb"
        if told.output or not made.path:  # also: now the reason why it could not be kept
            write(path, made.data, made.note)
        rows.append(_row(path, check(path)[1], new=made.new))
    return rows


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    try:
        told = _parse(sys.argv[1:] if words is None else words)
        if told.list:
            rows = [_row(path, note) for path, note in kept()]
        elif told.check:
            rows = [_row(pathlib.Path(told.model), check(told.model, told.signer)[1])]
        else:
            rows = _compile(told)
        _print(rows, told.json)
    except InvalidError as error:
        print(f"shoal: {error}", file=sys.stderr)
        return 2
    except (ShoalError, OSError) as error:
        print(f"shoal: {error}", file=sys.stderr)
        return 1
    return 0

"""The one folder in which a gateway reads and writes, and results that arrive in parts."""
import os
import stat
import time

from . import files
from .commands import Refused


class Store:
    """Files of a folder, by name. Nothing outside of it is reached: a name holds no folder, and links are not followed.

    limit: most bytes of a file; space: most bytes of all, where each counts for EACH more.
    """

    EACH = 4096

    def __init__(self, folder, limit, space):
        self.given, self.limit, self.space = os.path.abspath(folder), limit, space
        os.makedirs(self.given, mode=0o700, exist_ok=True)
        self.folder = os.path.realpath(self.given)
        self.handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        about = os.fstat(self.handle)
        if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.close(self.handle)
            raise ValueError(f"{folder}: others may write there; name a folder that is this user's alone")
        self.count()

    def count(self):
        """Looks how much the folder holds."""
        self.sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in os.scandir(self.handle)}
        self.held = sum(self.sizes.values()) + self.EACH * len(self.sizes)

    def others(self, name):
        """Bytes of all files but one."""
        return self.held - (self.sizes[name] + self.EACH if name in self.sizes else 0)

    def close(self):
        """Closes the folder."""
        os.close(self.handle)

    def name(self, text):
        """A file's name of what a message calls it: the name itself, or with this folder's path. Raises Refused."""
        folder, _, name = text.rpartition("/")
        if folder and folder.rstrip("/") not in (self.given, self.folder):
            raise Refused(f"'{text[:120]}' is not in the data folder")
        try:
            return files.checked_name(name)
        except ValueError as error:
            raise Refused(str(error)) from None

    def read(self, name):
        """The bytes of a file. Raises Refused."""
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.handle)
        except OSError as error:
            raise Refused(f"{name}: {'there is no such matrix' if error.errno == 2 else 'no plain file'}") from None
        with open(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise Refused(f"{name}: no plain file")
            if about.st_size > self.limit:
                raise Refused(f"{name}: {about.st_size} bytes; at most {self.limit}")
            return file.read(about.st_size)  # as much memory is taken as is asked for

    def write(self, name, data):
        """Writes a file, whole or not at all. Raises Refused."""
        if len(data) > self.limit:
            raise Refused(f"{name}: {len(data)} bytes; at most {self.limit}")
        if self.others(name) + len(data) + self.EACH > self.space:
            self.count()  # somebody may have removed some
        if self.others(name) + len(data) + self.EACH > self.space:
            raise Refused(f"{name}: {len(data)} bytes, and the data folder holds {self.others(name)} of {self.space} already; "
                          "remove what is no longer needed")
        try:
            files.write_whole(self.folder, name, data)
        except OSError as error:
            raise Refused(f"{name}: {error.strerror}") from None
        self.held = self.others(name) + len(data) + self.EACH
        self.sizes[name] = len(data)


class Joins:
    """Results whose shards arrive one by one. Few at a time, of limited size, for a limited time."""

    MOST, SECONDS = 64, 120

    def __init__(self, space):
        self.space, self.waiting = space, {}

    def add(self, base, job, how, shards, number, data):
        """Takes a shard; the bytes of all, in the order of their numbers, once they are there, else None.

        A number that is there already begins the result anew. Raises Refused.
        """
        if not 0 <= number < shards:
            raise Refused(f"{base}: shard {number} of {shards}")
        key = (base, job)
        known = self.waiting.get(key)
        if known is None or known["kind"] != (how, shards) or number in known["parts"]:
            if known is None and len(self.waiting) >= self.MOST:
                raise Refused(f"{base}: {self.MOST} results wait for shards already")
            known = self.waiting[key] = {"kind": (how, shards), "parts": {}, "since": time.monotonic()}
        held = sum(len(part) for row in self.waiting.values() for part in row["parts"].values())
        if held + len(data) > self.space:
            raise Refused(f"{base}: {held} bytes of shards wait already; at most {self.space}")
        known["parts"][number] = data
        if len(known["parts"]) < shards:
            return None
        del self.waiting[key]
        return [known["parts"][i] for i in range(shards)]

    def expired(self):
        """What has waited too long, which is forgotten: a line about each."""
        now, lines = time.monotonic(), []
        for key, row in list(self.waiting.items()):
            if now - row["since"] > self.SECONDS:
                missing = [i for i in range(row["kind"][1]) if i not in row["parts"]]
                lines.append(f"{key[0]}: given up after {self.SECONDS} s without its shards "
                             + ", ".join(map(str, missing[:16])))
                del self.waiting[key]
        return lines

"""What can go wrong: one exception class per status of the C library, in one table."""


class ShoalError(Exception):
    """The base of all errors of this package."""


class InvalidError(ShoalError, ValueError, RuntimeError):
    """An argument has a wrong value, shape or type: NumPy raises ValueError, torch RuntimeError."""


class AxisError(InvalidError, IndexError):
    """There is no such axis."""


class OutOfRangeError(InvalidError, IndexError):
    """An index is out of range: found when the program runs, raised where a value is read."""


class UnsupportedError(ShoalError, NotImplementedError):
    """Valid, but not available here."""


class OutOfMemoryError(ShoalError, MemoryError, RuntimeError):
    """Not enough memory, here or on a worker."""


class NotFoundError(ShoalError, FileNotFoundError):
    """No such file, tensor, backend or pool."""


class FormatError(ShoalError, ValueError):
    """A malformed file or message."""


class IOFailedError(ShoalError, OSError):
    """The operating system refused a read, write or connection."""


class DeadlineError(ShoalError, TimeoutError):
    """A deadline passed."""


class LostError(ShoalError, ConnectionError):
    """A peer died or cannot be reached."""


class ClosedError(ShoalError, ConnectionError):
    """The session is closed."""


class VersionError(ShoalError, ConnectionError):
    """The peer speaks another version."""


class DeniedError(ShoalError, PermissionError):
    """Not allowed."""


class BusyError(ShoalError, OSError):
    """The address or resource is in use."""


class InternalError(ShoalError, RuntimeError):
    """A defect in Shoal."""


CLASSES = {
    "OK": ShoalError,
    "INVALID": InvalidError,
    "UNSUPPORTED": UnsupportedError,
    "NO_MEMORY": OutOfMemoryError,
    "NOT_FOUND": NotFoundError,
    "FORMAT": FormatError,
    "IO": IOFailedError,
    "TIMEOUT": DeadlineError,
    "LOST": LostError,
    "CLOSED": ClosedError,
    "VERSION": VersionError,
    "DENIED": DeniedError,
    "BUSY": BusyError,
    "INTERRUPTED": ShoalError,
    "INTERNAL": InternalError,
    "RANGE": OutOfRangeError,
}

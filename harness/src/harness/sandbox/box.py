"""What the processes around a box share: its specification, their messages, and how it can fail.

A box has walls, limits and content. Messages go over a SEQPACKET socket, one JSON object each,
with descriptors.
"""

import contextlib
import json
import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

WALLS = ("namespaces", "image", "uid", "seccomp", "landlock", "memory", "pids", "freezer")

# The account of a submission's processes where the supervisor is root; it owns nothing.
WORKER_UID = 64001
SCRATCH = "/scratch"
SUBMISSION = "/submission"

_WALLS_OF_LEVELS = {
    "strong": {"namespaces", "uid", "seccomp", "memory", "pids", "freezer"},
    "medium": {"namespaces", "seccomp"},
    "weak": {"uid", "landlock", "seccomp"},
    "none": set[str](),
}
_WALLS_WITHOUT = {
    "strong": (),
    # The uid stays, because a worker that is root can write to /proc/sys.
    "medium": ("memory", "pids", "freezer"),
    "weak": ("namespaces", "image"),
    "none": ("namespaces", "image", "uid", "seccomp", "landlock"),
}

# The limits of a message.
_BYTES_MAX = 128 * 1024
_DESCRIPTORS_MAX = 64
_TEXT_CHARS_MAX = 2000
# If the other end closed with a message of ours unread, the first receive reports that, once; its
# own last messages can still be read.
_TRIES = 2


def isolation_level(walls: Collection[str]) -> str:
    """Return the level of isolation that these walls make.

    >>> (isolation_level(WALLS), isolation_level(("namespaces", "seccomp")),
    ...     isolation_level(("seccomp",)))
    ('strong', 'medium', 'none')
    """
    return next(level for level, needed in _WALLS_OF_LEVELS.items() if needed <= set(walls))


def walls_at_level(level: str, walls: Collection[str]) -> tuple[str, ...]:
    """Return the walls that remain if no more than a level is wanted.

    >>> walls_at_level("weak", WALLS)
    ('uid', 'seccomp', 'landlock', 'memory', 'pids', 'freezer')
    >>> [isolation_level(walls_at_level(level, WALLS)) for level in ("medium", "none")]
    ['medium', 'none']
    """
    return tuple(wall for wall in walls if wall not in _WALLS_WITHOUT[level])


@dataclass(frozen=True)
class Limits:
    """What a box may use of the machine; processes include threads, files are open ones.

    Without a GPU, whose driver reserves more than a machine has, the address space of a process is
    limited to `address_space_factor` times its memory, because page tables take 1/512 of what is
    mapped. `cpu_weight` is the box's share of a busy core; the default of others is 100.
    """

    memory_bytes: int = 1024**3
    processes_max: int = 64
    files_max: int = 256
    file_bytes_max: int = 64 * 1024**2
    scratch_bytes: int = 64 * 1024**2
    cpu_s: int = 60
    address_space_factor: int = 64
    cpu_weight: int = 100


@dataclass(frozen=True)
class BoxSpec:
    """One box. A wall that is not in `walls` is not built.

    `submission` is a folder of this machine, shown read-only, and `main` the file in it that is
    run, in one process for each of `ranks`. `devices` are shown as devices and `read_only` as they
    are, at their own paths. `scratch` is a folder of this machine for the worker where there are no
    namespaces; it is given to the worker and emptied at the end. `cores` are the only cores that
    the box may use; if empty, it may use all.
    """

    walls: tuple[str, ...]
    limits: Limits
    submission: str
    main: str
    environment: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    ranks: int = 1
    scratch: str = ""
    cores: tuple[int, ...] = ()

    @property
    def has_namespaces(self) -> bool:
        """Whether the box has its own file system and process numbers."""
        return "namespaces" in self.walls

    @property
    def home(self) -> str:
        """Where the worker lives and may write, as it sees it."""
        return SCRATCH if self.has_namespaces else self.scratch

    @property
    def path(self) -> str:
        """The submitted file, as the worker sees it."""
        folder = SUBMISSION if self.has_namespaces else self.submission
        return f"{folder}/{self.main}"


def spec_to_json(spec: BoxSpec) -> str:
    """Return a spec as one line."""
    return json.dumps(asdict(spec))


def spec_from_json(text: str) -> BoxSpec:
    """Return the spec from a line of `spec_to_json`."""
    body: dict[str, Any] = json.loads(text)
    body["limits"] = Limits(**body["limits"])
    for name in ("walls", "devices", "read_only", "cores"):
        body[name] = tuple(body[name])
    return BoxSpec(**body)


class SandboxFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A box could not be built, frozen or emptied: the machine's fault, never a submission's."""


class StopTimeout(SandboxFault):
    """A box did not freeze in time: its own fault, unless an empty box is as slow."""


def make_channel() -> tuple[socket.socket, socket.socket]:
    """Return two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_message(
    to: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()
) -> None:
    """Send one message. Raises OSError if the other end is closed."""
    socket.send_fds(to, [json.dumps(message).encode()], descriptors, socket.MSG_NOSIGNAL)


def receive_message(source: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors; None when the other end is closed."""
    for _ in range(_TRIES):
        with contextlib.suppress(ConnectionError):
            data, descriptors, _, _ = socket.recv_fds(source, _BYTES_MAX, _DESCRIPTORS_MAX)
            return (json.loads(data), descriptors) if data else None
    return None


def describe_error(error: BaseException) -> str:
    """Return an error as one line that fits a message."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        text = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    return text[:_TEXT_CHARS_MAX]


def close_descriptors(descriptors: Sequence[int]) -> None:
    """Close descriptors that came with an unwanted message."""
    for descriptor in descriptors:
        os.close(descriptor)

"""What a box is to be: its walls, its limits and what lies inside."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

WALLS = ("namespaces", "uid", "seccomp", "landlock", "memory", "pids", "freezer")
LEVELS = ("none", "weak", "medium", "strong")

# Where the supervisor is root: an account that owns nothing, for whatever a submission starts.
WORKER_UID = 64001
SCRATCH = "/scratch"
SUBMISSION = "/submission"

_STRONG = frozenset({"namespaces", "uid", "seccomp", "memory", "pids", "freezer"})
_MEDIUM = frozenset({"namespaces", "seccomp"})
_WEAK = frozenset({"uid", "landlock", "seccomp"})

_GROUPS = ("memory", "pids", "freezer")
_LOST = {
    "strong": (),
    # The uid stays, for a worker that is root can write to /proc/sys.
    "medium": _GROUPS,
    "weak": ("namespaces",),
    "none": ("namespaces", "uid", "seccomp", "landlock"),
}


def level_of(walls: Collection[str]) -> str:
    """The level of isolation that these walls make.

    >>> level_of(WALLS), level_of(("namespaces", "seccomp")), level_of(("seccomp",))
    ('strong', 'medium', 'none')
    """
    for level, needed in (("strong", _STRONG), ("medium", _MEDIUM), ("weak", _WEAK)):
        if needed <= set(walls):
            return level
    return "none"


def walls_at(level: str, walls: Collection[str]) -> tuple[str, ...]:
    """Of these walls, those that remain where no more than a level is wanted.

    >>> walls_at("weak", WALLS)
    ('uid', 'seccomp', 'landlock', 'memory', 'pids', 'freezer')
    >>> level_of(walls_at("medium", WALLS)), level_of(walls_at("none", WALLS))
    ('medium', 'none')
    """
    return tuple(wall for wall in walls if wall not in _LOST[level])


@dataclass(frozen=True)
class Limits:
    """What a box may use of the machine; the processes include its threads, the files are open.

    Without a GPU, whose driver reserves more than a machine has, the addresses of a process are
    limited to `address_space_factor` times its memory: page tables take a 512th of what is mapped.
    `cpu_weight` is the box's share of a busy core, where others have 100.
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
class Spec:
    """One box. A wall that is not in `walls` is not built.

    `submission` is a folder of this machine, shown read-only, and `main` the file in it that is
    run, in a process for each of `ranks`. `devices` are shown as devices and `read_only` as they
    are, at their own paths. `scratch` is a folder of this machine to live in where there are no
    namespaces; it is given to the worker and emptied at the end. `cores` are the only ones that the
    box may use, or none if it may use all.
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
        """Whether the box has a file system and process numbers of its own."""
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


def to_json(spec: Spec) -> str:
    """A spec as one line."""
    return json.dumps(asdict(spec))


def from_json(text: str) -> Spec:
    """The spec in a line that to_json made."""
    body: dict[str, Any] = json.loads(text)
    body["limits"] = Limits(**body["limits"])
    for name in ("walls", "devices", "read_only", "cores"):
        body[name] = tuple(body[name])
    return Spec(**body)

"""What facts are made of: blobs, cases, what a machine lacks, and the closed vocabularies."""

import msgspec

MODES = ("test", "benchmark", "profile", "ranked")
# Two submissions timed in alternation: a mode of jobs, which no participant asks for.
DUEL = "duel"
# What agents took before they said so.
FIRST_MODES = ("test", "benchmark", "ranked")
# Who comes first in a queue; an operator may order them otherwise.
CLASSES = ("canary", "contest", "practice", "rejudge")
# From the least to the most.
LEVELS = ("none", "weak", "medium", "strong")
TIERS = ("G1", "G2", "G3", "G0", "C1", "C2")
# By which name an agent's details and a run's environment tell the digest of the harness code.
HARNESS_CODE = "harness_code"


def is_at_least(level: str, level_min: str) -> bool:
    """Whether a machine isolates as much as is demanded; a level we do not know isolates nothing.

    >>> is_at_least("strong", "medium"), is_at_least("weak", "medium"), is_at_least("", "none")
    (True, False, True)
    """
    known = level if level in LEVELS else "none"
    return LEVELS.index(known) >= LEVELS.index(level_min)


class Blob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Bytes kept once, named by their SHA-256 in hex."""

    digest: str
    bytes: int
    media: str = "application/octet-stream"


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One wrong element of a public case, told as text."""

    index: str
    got: str
    expected: str


class CaseResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one case of a run ended; times are of one call, in microseconds.

    `process_us` is the value of each fresh process; `error` is the standard error of ln(time_us)
    and `freedom` its degrees of freedom; `null_us` are p10, median and p90 of empty calls.
    """

    name: str
    stage: str
    verdict: str
    message: str = ""
    is_hidden: bool = False
    time_us: float | None = None
    interval_us: tuple[float, float] | None = None
    samples: int = 0
    process_us: list[float] = []
    error: float | None = None
    freedom: int = 0
    null_us: list[float] = []
    grade: str = ""
    statistics: dict[str, float] = {}
    dropped: int = 0
    wrong: int = 0
    mismatches: list[Mismatch] = []


class StageResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one stage of a run ended, and how many cases it had."""

    stage: str
    verdict: str
    took_s: float
    cases: int


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a run made, such as a profile or what a tool said."""

    name: str
    media: str
    blob: Blob


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A wall that a machine cannot build, why not, and how to mend it."""

    wall: str
    reason: str
    mend: str


class Requires(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine must have for a job: GPUs and the memory of each, toolchains, a level.

    `sandbox_memory_mib` is what it must be able to give the submission of its own memory.
    """

    count: int = 1
    memory_mib: int = 0
    toolchains: list[str] = []
    level: str = ""
    sandbox_memory_mib: int = 0


class RejudgeItem(msgspec.Struct, frozen=True, kw_only=True):
    """A submission that is to run again."""

    submission: str
    account: str
    gpu: str
    source: Blob
    name: str


class DuelSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two submissions of a duel."""

    submission: str
    number: int
    account: str
    source: Blob
    name: str


class DuelResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run found of two submissions: `winner` is A, the source, B, its rival, or `equal`.

    It is "" where the side `failed` did not pass. `ratio` is the time of A over that of B, with
    its 95 % interval, from so many `pairs` of blocks.
    """

    winner: str
    failed: str = ""
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    pairs: int = 0


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What the platform runs itself beside a problem's submissions.

    No `gpus` are all of the problem's; `toolchains` is what a machine must have to compile it.
    """

    name: str
    file: str
    source: Blob
    note: str = ""
    gpus: list[str] = []
    toolchains: list[str] = []


class Milestone(msgspec.Struct, frozen=True, kw_only=True):
    """What is reached once a metric compares so with a value; "" for `gpu` is each GPU type.

    Units of `value`: seconds for `score`, else none.
    """

    id: str
    title: str
    metric: str
    op: str
    value: float
    gpu: str = ""


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """The least that a call of a timed case does, and the time that no call can be under.

    `floors_us` are by GPU type, "" for any that is not named. Units: `bytes` moved, `flops`
    operations of `dtype`, microseconds.
    """

    case: str
    bytes: float = 0.0
    flops: float = 0.0
    dtype: str = ""
    floors_us: dict[str, float] = {}

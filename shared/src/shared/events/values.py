"""The base of all facts, and the values in them: blobs, cases, and the closed vocabularies."""

from typing import ClassVar

import msgspec

from harness.vocabulary import LEVELS
from shared.run_values import Mismatch


# A fact has no cycles; the garbage collector need not scan the thousands of a replay.
class Fact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The data of an event; its class name is the event's type.

    With `is_operator_act` only operators cause them, with the platform's token or their own, and
    services.
    """

    aggregate: ClassVar[str] = ""
    publisher: ClassVar[str] = ""
    is_terminal: ClassVar[bool] = False
    is_operator_act: ClassVar[bool] = False
    version: ClassVar[int] = 1


class OperatorAct(Fact, frozen=True, kw_only=True):
    """An act of an operator, who gives a reason."""

    is_operator_act: ClassVar[bool] = True
    reason: str


# What a submission came through, if an operator repeated another one.
VIA_OPERATOR = "operator"
# In the order of a queue.
CLASSES = ("canary", "contest", "check", "practice", "evaluation", "rejudge")
# The key of the harness code's digest in an agent's details and a run's environment.
HARNESS_CODE = "harness_code"
# The key in an agent's details that says that it leaves after one job.
EPHEMERAL = "leaves_after_one_job"
# An agent takes at most so many runs at once.
SLOTS_MAX = 64
# The owner of an agent that a launcher enrols.
LAUNCHER = "launcher"
LAUNCHER_ACTOR = "service:launcher"


def is_at_least(level: str, level_min: str) -> bool:
    """Return whether a level isolates as much as required; an unknown level isolates nothing.

    >>> is_at_least("strong", "medium"), is_at_least("weak", "medium"), is_at_least("", "none")
    (True, False, True)
    """
    known = level if level in LEVELS else "none"
    return LEVELS.index(known) >= LEVELS.index(level_min)


class Blob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Bytes stored once, named by their SHA-256 in hex."""

    digest: str
    bytes: int
    media: str = "application/octet-stream"


class CaseResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of one case of a run; times are of one call, in microseconds.

    `process_us` has the value of each fresh process; `error` is the standard error of ln(time_us)
    and `freedom` its degrees of freedom; `null_us` are p10, median and p90 of empty calls.
    `time_us` is the measured ratio to the yardstick multiplied by `yardstick_us`, the yardstick's
    own time; None if the case was timed alone, by a problem's own program. `weight` is that of a
    timed case in the score.
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
    yardstick_us: float | None = None
    weight: float = 1.0


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a run created, such as a profile or a tool's output."""

    name: str
    media: str
    blob: Blob


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A wall that a host cannot build, the reason, and how to fix it."""

    wall: str
    reason: str
    fix: str


class RejudgeItem(msgspec.Struct, frozen=True, kw_only=True):
    """A submission to run again."""

    submission: str
    account: str
    gpu: str
    source: Blob
    name: str


class DuelSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two submissions of a duel; `normal_digest` is as in SubmissionReceived."""

    submission: str
    number: int
    account: str
    source: Blob
    name: str
    normal_digest: str = ""

    @property
    def pooling_digest(self) -> str:
        """What equal sources have in common."""
        return self.normal_digest or self.source.digest


class RestatedScore(msgspec.Struct, frozen=True, kw_only=True):
    """The score of an earlier run in units of the frozen times of its yardstick.

    `yardstick_us` is the score that the yardstick itself would have.
    """

    submission: str
    run: str
    score_us: float
    yardstick_us: float
    interval_us: tuple[float, float]
    process_us: list[float]
    error: float | None
    freedom: int
    delta: float


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What the platform runs itself beside a problem's submissions.

    Empty `gpus` means all of the problem's; `toolchains` lists what an agent needs to compile it.
    """

    name: str
    file: str
    source: Blob
    note: str = ""
    gpus: list[str] = []
    toolchains: list[str] = []


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """The minimum work of a call of a timed case, and the time that no call can be under.

    `floors_us` are by GPU type, "" for all other types. Units: `bytes` moved, `flops` operations of
    `dtype`, microseconds. `weight` is that of the case in the score.
    """

    case: str
    bytes: float = 0.0
    flops: float = 0.0
    dtype: str = ""
    floors_us: dict[str, float] = {}
    weight: float = 1.0


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Items of an evaluation that one run takes: `count` of them, from the item `first` on."""

    evaluation: str
    first: int
    count: int


class ChunkVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of the items that a run of a chunk ended, in order, from the item `first` on."""

    first: int
    verdicts: list[str]


class ChunkResult(msgspec.Struct, frozen=True, kw_only=True):
    """Items of an evaluation that ended with signed verdicts, in order, from `first` on.

    `results` has a line of JSON for each of them (`shared.evaluations`). `harness` is the digest of
    the harness code, and `device_s` is for how long the run held its device.
    """

    evaluation: str
    first: int
    verdicts: list[str]
    results: Blob
    harness: str
    device_s: float


class CachedVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of an equal source under the same conditions: the line `line` of `results`."""

    verdict: str
    results: Blob
    line: int

"""Submissions as the bot knows them: what is submitted, sent, tracked and shown."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from discord_edge.platform_api import DiscordUser
from discord_edge.wording import CONTENT_MAX, escaped, split_gpus
from harness.vocabulary import STAGES
from shared.api.queues import Pool, Queue
from shared.api.submissions import FullSubmission, Progress, SubmissionRequest
from shared.errors import Refused
from shared.presentation.report_parts import list_launchers, queue_text, run_progress
from shared.presentation.units import seconds_text
from shared.problems.submission_file import SUFFIXES, read_directives
from shared.run_values import StageResult

# The most that ingest accepts for any problem; ingest itself enforces each problem's own limit.
SOURCE_BYTES_MAX = 4 * 1024 * 1024
FILE_NAME_LENGTH_MAX = 100
STAGES_MAX = 12
GOOD_MARK, RUNNING_MARK, BAD_MARK = "✅", "⏳", "❌"
_TEXTS: Mapping[str, str] = {
    "SubmissionReceived": "queued",
    "JobRequeued": "queued again",
    "JobExpired": "its agent was lost",
    "RunStarted": "running",
}


def check_attachment(name: str, size: int) -> None:
    """Raise `Refused` for a file that cannot be submitted, before it is downloaded.

    >>> check_attachment("kernel.py", 100)
    """
    if size > SOURCE_BYTES_MAX:
        reason = f"the file has {size:,} bytes; the limit is {SOURCE_BYTES_MAX:,}"
        raise Refused("source_too_large", reason, "script")
    reason = "" if size else "the file is empty"
    if len(name) > FILE_NAME_LENGTH_MAX:
        reason = f"the file name has {len(name)} characters; the limit is {FILE_NAME_LENGTH_MAX}"
    if not name.endswith(tuple(SUFFIXES.values())):
        reason = f"the file name must end in one of {', '.join(SUFFIXES.values())}"
    if reason:
        raise Refused("bad_file", reason, "script")


def check_more_attachments(sizes: Sequence[int]) -> None:
    """Raise `Refused` for files of these sizes, before they are downloaded.

    >>> check_more_attachments([100, 200])
    """
    total = sum(sizes)
    if total > SOURCE_BYTES_MAX:
        reason = f"the files have {total:,} bytes together; the limit is {SOURCE_BYTES_MAX:,}"
        raise Refused("source_too_large", reason, "script")


def explain_runner(refused: Refused, runner: str, pools: Sequence[Pool]) -> Refused:
    """Say which runners there are instead of an unknown one; other refusals stay as they are.

    >>> explain_runner(Refused("unknown_runner", "there is none"), "modal", []).reason
    'there is no runner `modal` here. No agent is online either: ask an admin of this server'
    """
    launchers = [launcher for launcher, _ in list_launchers(pools)]
    if runner in [launcher.name for launcher in launchers]:
        return refused
    gpus = [pool.gpu for pool in pools if pool.agents_online]
    reason = f"there is no runner `{escaped(runner, 64)}` here."
    if launchers:
        names = ", ".join(f"`{launcher.name}`" for launcher in launchers)
        reason += f" As `runner`, `/leaderboard submit ranked` takes {names}."
    if gpus:
        reason += (
            f" Without one, `/leaderboard submit ranked` runs your file on {', '.join(gpus)},"
            " which has agents online"
        )
    elif not launchers:
        reason += " No agent is online either: ask an admin of this server"
    return Refused(refused.code, reason.removesuffix("."), "runner")


def decode_source(source: bytes) -> str:
    """Decode a file as text. Raises `Refused` `not_utf8`."""
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        reason = f"the file is not UTF-8 text: byte {error.start} cannot be decoded"
        raise Refused("not_utf8", reason, "script") from error


def choose_leaderboard(option: str | None, source: bytes) -> str | None:
    """Return the leaderboard named by the option or by the file; None if neither names one.

    >>> choose_leaderboard(None, b"#!POPCORN leaderboard sort\\n"), choose_leaderboard("sort", b"")
    ('sort', 'sort')

    Raises `Refused` if they name different ones.
    """
    directive = read_directives(decode_source(source)).leaderboard
    slug = option.strip().lower() if option else None
    if slug and directive and slug != directive.lower():
        reason = f"the file says `{directive}`, but you chose `{slug}`: change one of them"
        raise Refused("leaderboard_differs", reason, "leaderboard_name")
    return slug or (directive.lower() if directive else None)


def choose_gpus(
    option: str | None, source: bytes, slug: str, gpus: Sequence[str]
) -> tuple[str, ...]:
    """Return the GPU types to run on, spelled as the leaderboard does; empty to ask the user.

    >>> choose_gpus("cpu", b"", "sort", ["CPU", "H100"])
    ('CPU',)
    >>> choose_gpus(None, b"", "sort", ["CPU", "H100"])
    ()

    Raises `Refused` `unknown_gpu`.
    """
    directive = " ".join(read_directives(decode_source(source)).gpus)
    choice = split_gpus(option or "", gpus) or split_gpus(directive, gpus)
    if not choice:
        return tuple(gpus) if len(gpus) == 1 else ()
    if unknown := [gpu for gpu in choice if gpu not in gpus]:
        accepted = ", ".join(gpus) or "no GPU type"
        raise Refused("unknown_gpu", f"`{slug}` takes {accepted}, not `{unknown[0][:30]}`", "gpu")
    return choice


@dataclass(frozen=True)
class TrackedSubmission:
    """A submission that the bot reports on: its owner, its thread and its messages.

    `thread`, `status` and `report` are ids, None until they exist. `first` is the first number of
    the same command, whose submissions share a thread. `case` is the only requested case, counted
    from 1; 0 means all. `runner` is the launcher that was requested, "" for any agent.
    """

    number: int
    person: str
    channel: str
    problem: str
    gpu: str
    mode: str
    first: int = 0
    thread: str | None = None
    status: str | None = None
    report: str | None = None
    case: int = 0
    runner: str = ""


@dataclass(frozen=True)
class PendingSubmission:
    """A submission request whose answer is not stored yet, with its idempotency key."""

    key: str
    user: DiscordUser
    channel: str
    request: SubmissionRequest


@dataclass(frozen=True)
class Status:
    """The status of a submission, with lines about its finished stages."""

    number: int
    problem: str
    mode: str
    gpu: str
    finished_stages: tuple[str, ...] = ()
    now: str = "received"
    place: int = 0
    is_cancelling: bool = False
    is_over: bool = False
    is_good: bool = True

    @property
    def text(self) -> str:
        """The text of the status message."""
        head = f"**#{self.number}** {escaped(self.problem)} · {self.mode} · {escaped(self.gpu)}"
        return "\n".join((head, *self.finished_stages[-STAGES_MAX:], self._last))[:CONTENT_MAX]

    @property
    def line(self) -> str:
        """The status in one line.

        >>> Status(7, "sort", "test", "CPU", now="queued: place 2").line
        '**#7** CPU: ⏳ queued: place 2'
        """
        return f"**#{self.number}** {escaped(self.gpu, 40)}: {self._last}"

    @property
    def _last(self) -> str:
        if not self.is_over:
            return f"{RUNNING_MARK} {'being cancelled; ' if self.is_cancelling else ''}{self.now}"
        return f"{GOOD_MARK if self.is_good else BAD_MARK} {self.now}"


def first_status(submission: TrackedSubmission | FullSubmission) -> Status:
    """Return the status of a submission of which nothing is known yet."""
    return Status(submission.number, submission.problem, submission.mode, submission.gpu)


def evolve(status: Status, kind: str, data: Mapping[str, Any]) -> Status:
    """Apply one event or notice of the stream to a status; unknown kinds change nothing."""
    place = max(status.place, int(data.get("id") or 0))
    if kind == "SubmissionCancelRequested":
        return replace(status, place=place, is_cancelling=True)
    if data.get("is_over"):
        return replace(status, place=place, now="finished; the report follows")
    # Progress notices and the end of a run contain the finished stages.
    stages: list[StageResult] = []
    with contextlib.suppress(msgspec.ValidationError):
        stages = msgspec.convert(data.get("stages", ()), list[StageResult])
    lines = tuple(map(_stage_line, stages)) or status.finished_stages
    return replace(
        status, place=place, finished_stages=lines, now=_current_text(status, kind, data)
    )


def _stage_line(stage: StageResult) -> str:
    symbol = GOOD_MARK if stage.verdict == "passed" else BAD_MARK
    known = STAGES.get(stage.stage)
    title = known.title if known else escaped(stage.stage, 40)
    return f"{symbol} {title} finished in {seconds_text(stage.took_s)}"


def _current_text(status: Status, kind: str, data: Mapping[str, Any]) -> str:
    if kind == "JobAssigned":
        agent = escaped(str(data.get("agent") or ""), 60)
        return f"assigned to agent {agent}" if agent else "assigned to an agent"
    if kind == "RunCompleted":
        return f"verdict: {escaped(str(data.get('verdict') or ''), 60)}"
    with contextlib.suppress(msgspec.ValidationError):
        if kind == "queue":
            return escaped(queue_text(msgspec.convert(data, Queue)).whole)
        if kind == "progress":
            return escaped(run_progress(msgspec.convert(data, Progress)).sentence)
    return _TEXTS.get(kind, status.now)

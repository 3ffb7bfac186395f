"""Read access: the only place where reads are filtered by reader."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import Depends, Request

from harness.vocabulary import STAGES
from ranker.archive.postgres import ArchiveReader
from ranker.domain.score import add_interval
from ranker.domain.yardsticks import show_cases
from ranker.retrieval.index import TextIndex
from ranker.retrieval.labels import SourceLabels
from ranker.retrieval.postgres import TextStore
from ranker.service.decisions import Reads
from ranker.service.progress import Live, ProjectionProgress
from ranker.service.rating import RatingReads
from shared.api.submissions import FullSubmission, Progress, SubmissionPage, SubmissionSummary
from shared.blobs import BlobStore
from shared.clock import now
from shared.contests.definition import Contest
from shared.errors import Refused, unknown_submission
from shared.health import ScrubState
from shared.lifecycle import STREAMS_MAX
from shared.reader import READER_HEADER, Reader, decode_reader
from shared.run_values import StageResult

AFTER_CLOSE, ALWAYS = "after_close", "always"


class SourceRelease(NamedTuple):
    """What decides who reads a source besides its owner and staff."""

    policy: str | None
    deadline_at: datetime | None
    is_withdrawn: bool | None
    is_consented: bool | None


def find_hidden_reason(source: SourceRelease, at: datetime) -> str | None:
    """Return why a source is not public at an instant and when it will be; None if it is.

    Unknown values hide the source.

    >>> find_hidden_reason(SourceRelease("owner", None, False, True), datetime(2026, 1, 1))
    'this leaderboard shows sources to their owners alone'
    """
    if source.is_withdrawn is not False:
        return "it was taken off its leaderboard"
    if not source.is_consented:
        return "its owner does not accept, or took back, what its leaderboard asks for"
    return _find_policy_reason(source.policy, source.deadline_at, at)


def _find_policy_reason(
    policy: str | None, deadline_at: datetime | None, at: datetime
) -> str | None:
    if policy == ALWAYS:
        return None
    if policy != AFTER_CLOSE:
        return "this leaderboard shows sources to their owners alone"
    if deadline_at is None:
        return "everybody sees it once the leaderboard's deadline is over, and it has none yet"
    if deadline_at > at:
        return f"everybody sees it from {_minute_text(deadline_at)} on, after the deadline"
    return None


def policy_text(policy: str, deadline_at: datetime | None) -> str:
    """The policy in words for participants.

    >>> policy_text("always", None)
    'a source is seen by all at once, if it is ranked'
    """
    if policy == ALWAYS:
        return "a source is seen by all at once, if it is ranked"
    if policy != AFTER_CLOSE:
        return "a source is seen by its owner alone"
    if deadline_at is None:
        return "a source is seen by its owner alone, until there is a deadline and it is over"
    return f"a source is seen by its owner until {_minute_text(deadline_at)}, then by all"


def _minute_text(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M UTC}"


CLOSED = "closed"
RANKED = "ranked"
# The public name of hidden cases.
HIDDEN = "hidden"
TIME = "time"
# A real run has fewer; a hostile agent may claim more.
STAGES_MAX = 16
Row = dict[str, Any]

RANKING = (
    *("status", "is_eligible", "code", "gpu", "rank", "best_rank", "is_tied", "tied_with"),
    *("score_us", "run_us", "pooled_over", "interval_us", "best_number", "delta_to_best"),
    *("delta_to_next", "problem_version", "decided_at"),
)
# Fields of a timed case that are public if the submission is on a leaderboard.
TIMED = (
    *("name", "stage", "verdict", "time_us", "interval_us", "roofline", "vs_baseline"),
    *("yardstick_us", "speedup", "speedup_interval", "weight"),
)
# Fields of a leaderboard's rows that are not public.
PRIVATE = ("name", "reason", "note", "tag")


def read_reader(request: Request) -> Reader:
    """The reader of a request as ingest names it; without that, an anonymous reader."""
    return decode_reader(request.headers.get(READER_HEADER))


CurrentReader = Annotated[Reader, Depends(read_reader)]


@dataclass(frozen=True)
class ReadSources:
    """What the routes read from; `log_end` returns the sequence of the newest event.

    Only the archive has past leaderboards, old events, operators' acts and seals. `seal_key` is the
    public key of the seals in base64, None if nothing is sealed. `scrub` returns the state of the
    comparison of the log with the archive. `device_prices` are those of an hour, by GPU type.
    `releases` is the folder of the kernel archive.
    `texts` stores what a search compares, and the labels of sources.
    """

    reads: Reads
    progress: ProjectionProgress
    live: Live
    log_end: Callable[[], Awaitable[int]]
    blobs: BlobStore
    archive: ArchiveReader | None = None
    texts: TextStore | None = None
    seal_key: str | None = None
    scrub: Callable[[], ScrubState] = ScrubState
    streams_max: int = STREAMS_MAX
    device_prices: Mapping[str, float] = field(default_factory=dict)
    releases: Path | None = None

    @cached_property
    def index(self) -> TextIndex | None:
        """What reads and compares sources, the same for all routes; None without `texts`."""
        return None if self.texts is None else TextIndex(self.reads, self.blobs, self.texts)

    @cached_property
    def labels(self) -> SourceLabels | None:
        """The labels of the advisory screen, the same for all routes; None without `texts`."""
        return None if self.texts is None else SourceLabels(self.reads, self.blobs, self.texts)

    @cached_property
    def rating(self) -> RatingReads:
        """The rating of participants, the same for all routes."""
        return RatingReads(self.reads)

    def view(self, reader: Reader) -> "ReaderView":
        """The read models as a reader may see them."""
        return ReaderView(self.reads, reader)

    def require_archive(self) -> ArchiveReader:
        """The archive. Raises Refused `not_supported` if there is none."""
        if self.archive is None:
            raise Refused("not_supported", "not supported: this ranker has no archive")
        return self.archive

    async def wait_until_folded(self, number: int) -> None:
        """Wait until the read models have folded everything up to a number. Raises Failed."""
        await self.progress.wait_until_folded(number, self.log_end)


@dataclass(frozen=True)
class ReaderView:
    """The read models as one reader may see them."""

    reads: Reads
    reader: Reader

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """Run a statement, which may depend on the reader, and return its rows. Raises Failed."""
        reader_values: dict[str, object] = {
            "reader": self.reader.account,
            "is_staff": self.reader.is_staff,
            "members_of": self.reader.boards,
            "limited_to": self.reader.problems,
            "author_of": self.reader.owned,
            # A token that is limited to some problems does not act as an organiser.
            "organiser": None if self.reader.problems else self.reader.account,
            "at": now(),
        }
        return await self.reads.rows(statement, **reader_values | values)

    def sees_board(self, slug: str, visibility: str) -> bool:
        """Whether the reader can see a leaderboard."""
        return visibility != CLOSED or self.reader.is_staff or slug in self.reader.boards

    def owns(self, row: Mapping[str, Any]) -> bool:
        """Whether the reader may see everything about a submission."""
        if row.get("baseline"):
            return self.authors(row["problem"])
        limits = self.reader.problems
        is_theirs = row["participant_id"] == self.reader.account
        return self.reader.is_staff or (is_theirs and (not limits or row["problem"] in limits))

    def authors(self, slug: str) -> bool:
        """Whether the reader may see what a problem's author sees."""
        return self.reader.is_staff or slug in self.reader.owned

    def organises(self, contest: Contest) -> bool:
        """Whether the reader may see what the organisers of a contest see."""
        is_organiser = self.reader.account in contest.organisers and not self.reader.problems
        return self.reader.is_staff or is_organiser

    def sees(self, row: Mapping[str, Any]) -> bool:
        """Whether the reader can see a submission; baselines are for their author and staff."""
        if row["baseline"]:
            return self.authors(row["problem"])
        if not self.sees_board(row["problem"], row["visibility"]):
            return False
        return self.owns(row) or (row["mode"] == RANKED and not row["are_ranks_hidden"])

    def source_hidden(self, row: Mapping[str, Any], at: datetime) -> str | None:
        """Why the reader may not read a submission's source and when they may; None if they may."""
        if self.owns(row):
            return None
        if row["mode"] != RANKED:
            return "only sources of ranked submissions are shown"
        if row["are_sources_hidden"]:
            return "the contest of this problem hides sources in this phase"
        source = SourceRelease(
            policy=row["source_visible"],
            deadline_at=row["board_deadline_at"],
            is_withdrawn=row["is_withdrawn"],
            is_consented=row["is_consented"],
        )
        return find_hidden_reason(source, at)

    async def add_embargo(self, row: Row) -> Row:
        """A submission with what its contest hides from the reader. Raises Failed."""
        if not row["contest"]:
            return row | {"are_ranks_hidden": False, "are_sources_hidden": False}
        (embargo,) = await self.rows("embargo", problem=row["problem"])
        return row | embargo

    async def submission(self, number: int) -> Row:
        """A submission that the reader can see, unfiltered. Raises Refused or Failed."""
        rows = await self.rows("submission", number=number, at=now())
        row = await self.add_embargo(rows[0]) if rows else None
        if row is None or not self.sees(row):
            raise unknown_submission(number)
        return prepare_row(row)

    async def own(self, number: int) -> Row:
        """A submission of which the reader may see everything. Raises Refused or Failed."""
        row = await self.submission(number)
        if not self.owns(row):
            raise Refused(
                "no_access", f"submission {number} belongs to another participant", "number"
            )
        return row

    def page(self, submission: Row) -> SubmissionPage:
        """A submission's page: everything for those who own it, else its public part."""
        if self.owns(submission):
            return msgspec.convert(submission, FullSubmission)
        ranking, timeline = submission["ranking"], submission["timeline"]
        is_ranked = ranking is not None and ranking["status"] == "ranked"
        public = submission | {
            "name": "",
            "ranking": ranking and {name: ranking[name] for name in RANKING},
            "timeline": [line | {"note": "", "actor": ""} for line in timeline],
            "cases": timed_cases(submission["cases"]) if is_ranked else [],
            "files": [],
            "queue": None,
            "composition": public_composition(submission["composition"]),
        }
        return msgspec.convert(public, SubmissionSummary)

    def line(self, row: Row) -> Row:
        """The parts of a submission in a list that the reader may see."""
        if self.owns(row):
            return row
        return row | {name: "" if name == "name" else None for name in PRIVATE if name in row}


def require_staff(reader: Reader) -> None:
    """Check that the reader is staff. Raises Refused."""
    if reader.is_staff:
        return
    if reader.account is None:
        raise Refused("missing_credential", "this needs an operator's token", "authorization")
    raise Refused("scope_missing", "this is for operators: it needs an admin scope")


def prepare_row(row: Row) -> Row:
    """A stored submission with the interval and speed-up of its score, its cases in its unit."""
    return add_interval(row) | {"cases": show_cases(row["cases"], row["fixed_us"])}


def timed_cases(cases: list[Row]) -> list[Row]:
    """The public times of a submission's cases.

    >>> timed_cases([{"name": "n=7", "stage": "time", "is_hidden": False, "time_us": 2.0,
    ...     "samples": 9}])
    [{'name': 'n=7', 'stage': 'time', 'time_us': 2.0, 'is_hidden': False}]
    """
    timed = (case for case in cases if case["stage"] == TIME and case.get("time_us") is not None)
    return [
        {name: case[name] for name in TIMED if name in case} | {"is_hidden": False}
        for case in timed
        if not case.get("is_hidden")
    ]


def safe_progress(progress: Row | None) -> Progress | None:
    """The public part of a run's progress, without the name of a hidden case; None if malformed.

    >>> safe_progress({"stage": "hidden_check", "case": "n=7", "done": 1, "total": 3})
    Progress(stage='hidden_check', case='hidden', done=1, total=3, stages=[])
    """
    if progress is None:
        return None
    stage = STAGES.get(str(progress.get("stage")))
    case = HIDDEN if stage is not None and stage.is_hidden else progress.get("case")
    public = progress | {"case": case, "stages": _parse_stages(progress.get("stages"))}
    try:
        return msgspec.convert(public, Progress)
    except msgspec.ValidationError:
        return None


def public_composition(composition: Row | None) -> Row | None:
    """What everybody may see of a composition: the shares.

    >>> public_composition({"shares": {"torch": 1.0}, "doubts": ["line 3: getattr"]})
    {'shares': {'torch': 1.0}}
    """
    return composition and {"shares": composition.get("shares", {})}


def _parse_stages(reported: object) -> list[StageResult]:
    """The finished stages that an agent reports; none if they are malformed."""
    try:
        return msgspec.convert(reported, list[StageResult])[:STAGES_MAX]
    except msgspec.ValidationError:
        return []


def safe_case(case: Row) -> Row:
    """The public part of a case; of a hidden one only stage and verdict.

    >>> safe_case({"name": "n=7", "stage": "check", "verdict": "passed", "is_hidden": True})
    {'name': 'hidden', 'stage': 'check', 'verdict': 'passed', 'is_hidden': True}
    """
    if not case.get("is_hidden"):
        return case
    fields = {name: case[name] for name in ("stage", "verdict")}
    return {"name": HIDDEN, **fields, "is_hidden": True}

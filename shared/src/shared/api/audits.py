"""Audits: what is audited, and the report, which `server audit` shows."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from shared.api.contest_standings import DivisionStanding, StandingRound
from shared.api.fields import ApiModel
from shared.api.rating import RatedParticipant


class AuditScope(msgspec.Struct, frozen=True, kw_only=True):
    """The log now or up to a moment, and the public keys of seals that are known."""

    as_of: datetime | None = None
    as_of_seq: int | None = None
    keys: Sequence[str] = ()


class AuditRequest(AuditScope, frozen=True):
    """The leaderboard of a problem, by default of its newest version."""

    problem: str
    gpu: str
    version: int | None = None


class ContestAuditRequest(AuditScope, frozen=True):
    """The standing of a contest after a round, by default the newest that began."""

    contest: str
    round: StandingRound | None = None


class RatingAuditRequest(AuditScope, frozen=True):
    """The rating over all problems."""


class CausingEvent(msgspec.Struct, frozen=True, order=True):
    """An event that a row depends on."""

    seq: int
    type: str
    at: datetime
    actor: str
    sentence: str


class LeaderboardRow(ApiModel, frozen=True, kw_only=True):
    """An entry with its place, as derived from the log; an audit adds the events that made it.

    `pooled_over` has the numbers of the submissions in its score. `source` is the digest of its
    source's normal form, or of its bytes if it has none. A noisy entry may have a `best_rank`.
    """

    rank: int
    is_tied: bool
    account: str
    submission: str
    number: int
    source: str
    pooled_over: tuple[int, ...]
    score_us: float
    error: float | None
    freedom: int
    delta: float
    received_at: datetime
    duel: str = ""
    best_rank: int | None = None
    confirmation: str = ""
    because: list[CausingEvent] = []


class Finding(msgspec.Struct, frozen=True, order=True):
    """What is wrong, and the first sequence where it shows."""

    seq: int
    what: str


class AuditedLeaderboard(ApiModel, frozen=True, kw_only=True):
    """The leaderboard of an audit."""

    problem: str
    number: int
    gpu: str


class LogReport(ApiModel, frozen=True, kw_only=True):
    """What every audit reports of the log; `seq` is the last event that was folded.

    `key_changes` are changes of the seals' key that are signed with a known key. The `ignored`
    events are forged or refused: no reader uses them, so they do no harm. `differences` are those
    from what readers saw at event `live_seq`.
    """

    is_clean: bool
    as_of: datetime | None
    seq: int
    events: int
    chain: str
    seals: int
    keys: list[str]
    findings: list[Finding]
    ignored: list[Finding]
    live_seq: int | None
    differences: list[str]
    key_changes: list[Finding] = []


class AuditReport(LogReport, frozen=True, kw_only=True):
    """The audit of a leaderboard."""

    board: AuditedLeaderboard
    verified_runs: int
    rows: list[LeaderboardRow]


class AuditedPlace(ApiModel, frozen=True, kw_only=True):
    """A place in results, and the events that say how the contestant's runs did on other agents."""

    contestant: str
    division: str
    place: int
    points: float
    repetitions: list[CausingEvent] = []


class AuditedResults(ApiModel, frozen=True, kw_only=True):
    """The newest results of a contest in the log, and the events that made them.

    `confirmed_seq` is null while they are provisional.
    """

    proposed_seq: int
    confirmed_seq: int | None
    places: list[AuditedPlace]


class ContestAuditReport(LogReport, frozen=True, kw_only=True):
    """The audit of a contest.

    The standing is the one that organisers see, whatever the phase hides. The runs behind it are
    checked by an audit of each problem's leaderboard.
    """

    contest: str
    title: str
    version: int
    round: StandingRound
    divisions: list[DivisionStanding]
    results: AuditedResults | None = None


class RatingAuditReport(LogReport, frozen=True, kw_only=True):
    """The audit of the rating, without the names of participants.

    The runs behind it are checked by an audit of each problem's leaderboard.
    """

    at: datetime
    ratings: list[RatedParticipant]

"""Facts of accounts, their quotas, and of what was decided about submissions."""

from datetime import datetime
from typing import ClassVar

from shared.events.fact import Fact
from shared.events.values import Blob


class AccountBanned(Fact, frozen=True, kw_only=True):
    """A participant may not submit, and stands on no leaderboard, until then or for ever."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    reason: str
    until_at: datetime | None = None


class AccountUnbanned(Fact, frozen=True, kw_only=True):
    """A ban is over."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    reason: str


class BanAppealFiled(Fact, frozen=True, kw_only=True):
    """A participant who is banned asks to look again at that."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    text: Blob


class BanAppealDecided(Fact, frozen=True, kw_only=True):
    """Somebody looked again at a ban; with an accepted appeal comes AccountUnbanned."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    is_accepted: bool
    reason: str


class ConsentGiven(Fact, frozen=True, kw_only=True):
    """A participant accepted the text under which a problem takes submissions in, by its digest.

    `number` is the version that they read it in; it is good for every version with that text.
    """

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    problem: str
    number: int
    digest: str


class ConsentWithdrawn(Fact, frozen=True, kw_only=True):
    """A participant takes back what they accepted of a problem: nothing more is published by it."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    problem: str
    digest: str


class QuotaTaken(Fact, frozen=True, kw_only=True):
    """A submission took of an account's quota; stored in one batch with it."""

    aggregate: ClassVar[str] = "quota"
    publisher: ClassVar[str] = "ingest"

    submission: str
    bucket: str
    cost: int
    window_until_at: datetime


class QuotaReturned(Fact, frozen=True, kw_only=True):
    """A submission gave back what it had taken."""

    aggregate: ClassVar[str] = "quota"
    publisher: ClassVar[str] = "scheduler"

    submission: str
    bucket: str
    cost: int
    reason: str


class QuotaLimitSet(Fact, frozen=True, kw_only=True):
    """An account, or everybody by the account `default`, has a limit for a bucket."""

    aggregate: ClassVar[str] = "quota"
    publisher: ClassVar[str] = "ingest"

    bucket: str
    limit: int
    window_s: float
    reason: str


class SubmissionHeld(Fact, frozen=True, kw_only=True):
    """A submission is kept off its leaderboard until somebody looked."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    rule: str
    reason: str
    evidence: Blob | None = None


class SubmissionReleased(Fact, frozen=True, kw_only=True):
    """A held submission may be ranked."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    reason: str


class SubmissionDisqualified(Fact, frozen=True, kw_only=True):
    """A submission is off its leaderboard."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    rule: str
    reason: str
    evidence: Blob | None = None


class SubmissionRestored(Fact, frozen=True, kw_only=True):
    """A disqualified submission may be ranked again."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    reason: str


class AppealFiled(Fact, frozen=True, kw_only=True):
    """A participant asks to look again at what was decided."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    text: Blob


class AppealDecided(Fact, frozen=True, kw_only=True):
    """Somebody looked again; an accepted appeal restores the submission."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    is_accepted: bool
    reason: str

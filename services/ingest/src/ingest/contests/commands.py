"""What organisers, participants and moderators ask for in a contest; times are those of events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from shared.contests.definition import Contest, ContestPlace, ReviewItem


@dataclass(frozen=True)
class PublishContest:
    """Publish a definition: the first version, or an update of an existing contest."""

    contest: Contest
    is_update: bool
    reason: str
    at: datetime


@dataclass(frozen=True)
class IssueContestInvite:
    """Let so many people register with a code."""

    code_hash: str
    people_max: int
    expires_at: datetime | None


@dataclass(frozen=True)
class Register:
    """Take part; `terms_digest` is that of the terms that the participant read."""

    account: str
    division: str
    terms_digest: str
    declaration: Mapping[str, str]
    code_hash: str
    at: datetime


@dataclass(frozen=True)
class WithdrawRegistration:
    """Take part no longer."""

    account: str
    at: datetime


@dataclass(frozen=True)
class CreateTeam:
    """Form a team with a new id and a code for others."""

    account: str
    team: str
    name: str
    code_hash: str
    at: datetime


@dataclass(frozen=True)
class JoinTeam:
    """Join the team with a code."""

    account: str
    code_hash: str
    at: datetime


@dataclass(frozen=True)
class LeaveTeam:
    """Leave one's team; a captain may also remove a `member`."""

    account: str
    member: str
    at: datetime


@dataclass(frozen=True)
class ChangeTeamCode:
    """Replace the code of the team of which the account is the captain."""

    account: str
    code_hash: str


@dataclass(frozen=True)
class ChangeCaptain:
    """Make a member the captain in the place of the account."""

    account: str
    captain: str


@dataclass(frozen=True)
class Declare:
    """Choose a division and declare what it demands, for oneself or, as captain, for the team."""

    account: str
    division: str
    declaration: Mapping[str, str]
    at: datetime


@dataclass(frozen=True)
class Moderate:
    """Question or accept a declaration, disqualify or restore; `subject` is a person or a team."""

    act: str
    subject: str
    reason: str


@dataclass(frozen=True)
class AdmitFinalists:
    """Admit these contestants to the finals, from the standing of the qualifier at an event."""

    contestants: tuple[str, ...]
    as_of_seq: int
    reason: str
    at: datetime


@dataclass(frozen=True)
class ProposeResults:
    """Announce the provisional results, from the standing at an event."""

    places: tuple[ContestPlace, ...]
    as_of_seq: int
    at: datetime


@dataclass(frozen=True)
class ReviewWinner:
    """Decide an item of the check list of a winner; refusals call them by `name`."""

    contestant: str
    item: ReviewItem
    is_passed: bool
    note: str
    name: str = ""


@dataclass(frozen=True)
class ConfirmResults:
    """Make the provisional results final.

    `outdated` says why they are not those of the standing any more, "" if they are. Refusals call
    contestants by their `names`.
    """

    at: datetime
    outdated: str = ""
    names: Mapping[str, str | None] = field(default_factory=dict)


ContestCommand: TypeAlias = (
    PublishContest
    | IssueContestInvite
    | Register
    | WithdrawRegistration
    | CreateTeam
    | JoinTeam
    | LeaveTeam
    | ChangeTeamCode
    | ChangeCaptain
    | Declare
    | Moderate
    | AdmitFinalists
    | ProposeResults
    | ReviewWinner
    | ConfirmResults
)

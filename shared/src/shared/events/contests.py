"""Facts about contests: their definitions, contestants, teams, declarations and results.

A *contestant* is a person or a team; its id is that of the account or of the team. A team's name
is public and stays in the log; names of people do not occur.
"""

from datetime import datetime
from typing import ClassVar, TypeAlias

from shared.contests.definition import Contest, ContestPlace, MovedTime, ReviewItem
from shared.events.values import Fact


class ContestEvent(Fact, frozen=True, kw_only=True):
    """An event of a contest."""

    aggregate: ClassVar[str] = "contest"
    publisher: ClassVar[str] = "ingest"


class ContestPublished(ContestEvent, frozen=True, kw_only=True):
    """A version of a contest's definition; `number` 1 is the first.

    `moved` are the instants that it moves, which are announced with the `reason`.
    """

    number: int
    contest: Contest
    moved: list[MovedTime] = []
    reason: str = ""


class ContestInviteIssued(ContestEvent, frozen=True, kw_only=True):
    """With this code people may register for a contest that is by invitation, so many of them."""

    code_hash: str
    people_max: int
    expires_at: datetime | None = None


class ContestRegistered(ContestEvent, frozen=True, kw_only=True):
    """A person takes part and accepted the terms with this digest.

    `declaration` has what the division demands, such as the `model`. `code_hash` is of the invite.
    """

    account: str
    division: str
    terms_digest: str
    declaration: dict[str, str] = {}
    code_hash: str = ""


class ContestRegistrationWithdrawn(ContestEvent, frozen=True, kw_only=True):
    """A person no longer takes part; they also leave their team."""

    account: str


class ContestTeamCreated(ContestEvent, frozen=True, kw_only=True):
    """A person formed a team, of which they are the captain; others join with a code."""

    team: str
    name: str
    captain: str
    code_hash: str


class ContestTeamCodeChanged(ContestEvent, frozen=True, kw_only=True):
    """A team has a new code; the old one is void."""

    team: str
    code_hash: str


class ContestTeamJoined(ContestEvent, frozen=True, kw_only=True):
    """A person became a member of a team."""

    team: str
    account: str


class ContestTeamLeft(ContestEvent, frozen=True, kw_only=True):
    """A person is no longer a member of a team; without members it no longer exists."""

    team: str
    account: str


class ContestCaptainChanged(ContestEvent, frozen=True, kw_only=True):
    """Another member is the captain of a team."""

    team: str
    captain: str


class ContestDeclared(ContestEvent, frozen=True, kw_only=True):
    """A contestant chose a division and declared what it demands, which replaces what was said."""

    contestant: str
    division: str
    declaration: dict[str, str]


class ContestDeclarationQuestioned(ContestEvent, frozen=True, kw_only=True):
    """An organiser or a moderator doubts a declaration, until it is changed or accepted."""

    contestant: str
    reason: str


class ContestDeclarationAccepted(ContestEvent, frozen=True, kw_only=True):
    """A questioned declaration holds."""

    contestant: str
    reason: str


class ContestDisqualified(ContestEvent, frozen=True, kw_only=True):
    """A person or a team is out of the contest.

    `subject` is an account or a team. A disqualified member takes no further part; the rest of
    their team stays.
    """

    subject: str
    reason: str


class ContestRestored(ContestEvent, frozen=True, kw_only=True):
    """A disqualification no longer holds."""

    subject: str
    reason: str


class ContestFinalistsAdmitted(ContestEvent, frozen=True, kw_only=True):
    """These contestants may take part in the finals; a later event replaces the list.

    `as_of_seq` is the event up to which the standing of the qualifier was derived.
    """

    contestants: list[str]
    as_of_seq: int
    reason: str = ""


class ContestResultsProposed(ContestEvent, frozen=True, kw_only=True):
    """The provisional results, as of an event, with the end of appeals. Replaces earlier ones."""

    places: list[ContestPlace]
    as_of_seq: int
    appeals_until_at: datetime | None = None


class ContestReviewed(ContestEvent, frozen=True, kw_only=True):
    """An item of the check list of a winner was decided; a later event replaces it."""

    contestant: str
    item: ReviewItem
    is_passed: bool
    note: str = ""


class ContestResultsConfirmed(ContestEvent, frozen=True, kw_only=True):
    """The results are final."""

    places: list[ContestPlace]
    as_of_seq: int


ContestFact: TypeAlias = (
    ContestPublished
    | ContestInviteIssued
    | ContestRegistered
    | ContestRegistrationWithdrawn
    | ContestTeamCreated
    | ContestTeamCodeChanged
    | ContestTeamJoined
    | ContestTeamLeft
    | ContestCaptainChanged
    | ContestDeclared
    | ContestDeclarationQuestioned
    | ContestDeclarationAccepted
    | ContestDisqualified
    | ContestRestored
    | ContestFinalistsAdmitted
    | ContestResultsProposed
    | ContestReviewed
    | ContestResultsConfirmed
)

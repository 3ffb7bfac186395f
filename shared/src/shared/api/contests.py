"""Contests: their definitions, contestants and codes. Standings are in `contest_standings`."""

from typing import Annotated

from msgspec import Meta

from shared.api.fields import ApiModel, Digest, Timestamp
from shared.contests.definition import Contest, MovedTime, PhaseKind

Phase = Annotated[PhaseKind | None, Meta(description="The current phase, null between phases.")]


class ContestMember(ApiModel, frozen=True, kw_only=True):
    """A participant, by account and name; null for an erased name."""

    participant_id: str
    participant: str | None


class Contestant(ApiModel, frozen=True, kw_only=True):
    """A person or a team that takes part; a team has a captain.

    `declaration`, `doubt` and `disqualified`, the reasons, are for the contestant, organisers and
    moderators; for others they are null.
    """

    contestant: str
    name: Annotated[str | None, Meta(description="Of the team or the person.")]
    is_team: bool
    captain: Annotated[str | None, Meta(description="The account of a team's captain.")]
    members: list[ContestMember]
    division: str
    is_disqualified: bool
    declaration: dict[str, str] | None
    doubt: str | None
    disqualified: str | None


class Contestants(ApiModel, frozen=True, kw_only=True):
    """The contestants of a contest, by name."""

    items: list[Contestant]


class ContestSummary(ApiModel, frozen=True, kw_only=True):
    """A contest in a list: its phase now, and what comes next."""

    slug: str
    title: str
    phase: Phase
    phase_ends_at: Timestamp | None
    next_phase: PhaseKind | None
    next_phase_at: Timestamp | None
    people_count: Annotated[int, Meta(description="How many people are registered.")]
    problems: list[str]


class Contests(ApiModel, frozen=True, kw_only=True):
    """All contests, those that started last first."""

    items: list[ContestSummary]


class ContestDetails(ApiModel, frozen=True, kw_only=True):
    """A contest: its definition, its phase now, and the part that the caller takes in it.

    Phases include their start and exclude their end.
    """

    contest: Contest
    number: Annotated[int, Meta(description="The version of the definition.")]
    terms_digest: Digest
    organisers: list[ContestMember]
    phase: Phase
    phase_ends_at: Timestamp | None
    next_phase: PhaseKind | None
    next_phase_at: Timestamp | None
    is_registration_open: bool
    people_count: int
    contestants_count: int
    is_organiser: bool
    own: Annotated[Contestant | None, Meta(description="Null for who is not registered.")]
    accepted_terms: Annotated[
        Digest | None, Meta(description="Of the terms that the caller accepted.")
    ]


class PublishedContest(ApiModel, frozen=True, kw_only=True):
    """The version of a contest that a file became; `is_new` is false if it changed nothing."""

    slug: str
    number: int
    is_new: bool
    moved: list[MovedTime]


class ContestCode(ApiModel, frozen=True, kw_only=True):
    """A code, and the team that it is for; "" for the contest itself. A new one can be made."""

    code: str
    team: str

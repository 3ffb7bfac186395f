"""What the routes of leaderboards and their invites answer; the OpenAPI document shows it."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.answers import AtText, Visibility


class Codes(TypedDict):
    """Invites that were just made, and to what."""

    leaderboards: list[str]
    codes: list[str]


class Invite(TypedDict):
    """An invite, and who used it."""

    code: str
    participant_id: str | None
    name: str | None
    claimed_at: AtText | None
    created_at: AtText
    expires_at: AtText | None


class Invites(TypedDict):
    """The invites to a leaderboard that are not revoked."""

    items: list[Invite]


class Uninvited(TypedDict):
    """An invite that makes nobody a member any more."""

    code: str
    was_claimed: bool


class Joined(TypedDict):
    """Of which leaderboards one is a member now."""

    status: Literal["ok"]
    leaderboards: list[str]


class Settings(TypedDict):
    """What a leaderboard is set to; the last six are facts of its newest version."""

    slug: str
    title: str
    number: Annotated[int, Field(description="The newest version.")]
    visibility: Visibility
    deadline_at: AtText | None
    is_archived: bool
    gpus: Annotated[list[str], Field(description="On which submissions are taken in.")]
    gpus_closed: Annotated[list[str], Field(description="On which they were; entries stay.")]
    quotas: Annotated[list[str], Field(description="What everybody may send, as ranked=10/day.")]
    ranking_by: str
    source_visible: Annotated[str, Field(description="owner, after_close or always.")]
    publish: Annotated[str, Field(description="never, after_close or always.")]
    licence: Annotated[dict[str, str], Field(description="Of problem and submissions, as SPDX.")]
    consent: Annotated[str, Field(description="The file one accepts before one submits, or none.")]

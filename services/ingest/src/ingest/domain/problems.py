"""Problems: which versions there are, who sees them, and until when they take submissions in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from msgspec import structs

from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    Fact,
    LeaderboardArchived,
    LeaderboardChanged,
    ProblemPublished,
)

PUBLIC = "public"
# What the routes of the public API begin with: a leaderboard of that name could not be reached.
RESERVED = frozenset(
    (
        *("admin", "api", "auth", "docs", "gpus", "health", "healthz", "jobs", "leaderboards"),
        *("metrics", "profile", "readyz", "runner_queue", "static", "submission"),
        *("submission_count", "submissions", "user", "v1"),
    )
)


@dataclass(frozen=True)
class Problem:
    """A problem as its history tells it; `published` is the newest version, None before any.

    `digests` has that of every version, by number.
    """

    published: ProblemPublished | None = None
    digests: Mapping[int, str] = field(default_factory=dict)
    visibility: str = PUBLIC
    deadline_at: datetime | None = None
    is_archived: bool = False


@dataclass(frozen=True)
class Publish:
    """The files of a problem, compiled; its number is given by the decision.

    `visibility` is for who sees it from then on; None leaves that as it is. What is to be its
    author's by being published is to be the first version.
    """

    version: ProblemPublished
    visibility: str | None = None
    reason: str = "published so"
    is_first: bool = False


@dataclass(frozen=True)
class Change:
    """Let others see a leaderboard, or until another time; None leaves either as it is.

    `has_deadline` false means none, true means `deadline_at`. With `is_no_sooner` the deadline may
    be put off alone.
    """

    reason: str
    visibility: str | None = None
    has_deadline: bool | None = None
    deadline_at: datetime | None = None
    is_no_sooner: bool = False


@dataclass(frozen=True)
class Archive:
    """Take nothing in any more."""

    reason: str


ProblemCommand = Publish | Change | Archive


def decide(command: ProblemCommand, state: Problem) -> Sequence[Fact]:
    """What is decided; nothing if it is so already. Errors: Refused for what is not there."""
    match command:
        case Publish():
            if command.is_first and state.published is not None:
                what = "somebody published a problem of this name just now: take another"
                raise Refused("wrong_state", what, "slug")
            change = Change(command.reason, command.visibility)
            return (*_version(command.version, state), *_change(change, state))
        case Change():
            return _change(command, state)
    return () if state.is_archived else (LeaderboardArchived(reason=command.reason),)


def _version(version: ProblemPublished, state: Problem) -> Sequence[Fact]:
    """A new version if the digest differs from the newest one, else nothing."""
    newest = state.published
    if newest is not None and newest.digest == version.digest:
        return ()
    return (structs.replace(version, number=newest.number + 1 if newest else 1),)


def _change(command: Change, state: Problem) -> Sequence[Fact]:
    after = _changed(state, command)
    if (after.visibility, after.deadline_at) == (state.visibility, state.deadline_at):
        return ()
    if command.is_no_sooner and _is_sooner(after.deadline_at, state.deadline_at):
        what = "a deadline that comes sooner opens what others sent in: an operator moves it so"
        raise Refused("scope_missing", f"{what} (scope admin:problems)", "deadline_at")
    return (
        LeaderboardChanged(
            visibility=command.visibility,
            has_deadline=command.has_deadline,
            deadline_at=command.deadline_at,
            reason=command.reason,
        ),
    )


def _is_sooner(after: datetime | None, before: datetime | None) -> bool:
    return after is not None and (before is None or after < before)


def _changed(state: Problem, change: Change | LeaderboardChanged) -> Problem:
    if change.visibility is not None:
        state = replace(state, visibility=change.visibility)
    if change.has_deadline is not None:
        state = replace(state, deadline_at=change.deadline_at if change.has_deadline else None)
    return state


def evolve(state: Problem, fact: Fact) -> Problem:
    """What a problem is after one more event."""
    match fact:
        case ProblemPublished():
            digests = {**state.digests, fact.number: fact.digest}
            return replace(state, published=fact, digests=digests)
        case LeaderboardChanged():
            return _changed(state, fact)
        case LeaderboardArchived():
            return replace(state, is_archived=True)
    return state


problems = Decider[ProblemCommand, Problem, Fact](Problem(), decide, evolve)


def check_slug(slug: str) -> None:
    """Refuse a name that is a route's. Errors: Refused `bad_problem`."""
    if slug in RESERVED:
        what = f"the slug {slug!r} is reserved: the API has routes of that name; take another"
        raise Refused("bad_problem", what, "slug")


def known(slug: str, state: Problem) -> ProblemPublished:
    """The newest version of a problem. Errors: Refused `unknown_leaderboard`."""
    if state.published is None:
        raise unknown(slug)
    return state.published


def unknown(slug: str) -> Refused:
    """What is said of a leaderboard that is not there, or not for who asks."""
    what = f"there is no leaderboard {slug!r}; GET /v1/problems lists them"
    return Refused("unknown_leaderboard", what, "problem")


def lateness(slug: str, state: Problem, at: datetime) -> Refused | None:
    """What is said of a submission that comes too late, with the instant; None if it does not."""
    if state.is_archived:
        return Refused("deadline_passed", f"{slug} is archived: it takes nothing in", "problem")
    if state.deadline_at is not None and at >= state.deadline_at:
        what = f"the deadline of {slug} was {state.deadline_at.isoformat()}"
        return Refused("deadline_passed", what, "problem")
    return None

"""Leaderboards as the log tells: their owner, who can see them, and their deadline."""

from dataclasses import dataclass, field
from datetime import datetime

from shared.event_log import RecordedEvent
from shared.events import LeaderboardArchived, LeaderboardChanged, ProblemPublished
from shared.subjects import last_token

ACCOUNT_ACTOR_PREFIX = "account:"
Leaderboards = dict[str, "Leaderboard"]


@dataclass
class Leaderboard:
    """A problem's leaderboards: who can see them, their owner, their deadline, and their contests.

    `contests` are those that it ever belonged to.
    """

    owner: str | None = None
    is_published: bool = False
    is_closed: bool = False
    is_archived: bool = False
    deadline_at: datetime | None = None
    contests: list[str] = field(default_factory=list)


def fold_leaderboard(boards: Leaderboards, event: RecordedEvent) -> None:
    """Fold an event of a problem into the leaderboards, by slug; other events change nothing."""
    leaderboard = boards.setdefault(last_token(event.envelope.aggregate), Leaderboard())
    match event.fact:
        case ProblemPublished():
            actor = event.envelope.actor
            if not leaderboard.is_published and actor.startswith(ACCOUNT_ACTOR_PREFIX):
                leaderboard.owner = actor.removeprefix(ACCOUNT_ACTOR_PREFIX)
            leaderboard.is_published = True
        case LeaderboardChanged() as fact:
            if fact.visibility is not None:
                # Anything not known to be public is closed.
                leaderboard.is_closed = fact.visibility != "public"
            if fact.has_deadline is not None:
                leaderboard.deadline_at = fact.deadline_at if fact.has_deadline else None
            if fact.contest and fact.contest not in leaderboard.contests:
                leaderboard.contests.append(fact.contest)
        case LeaderboardArchived():
            leaderboard.is_archived = True

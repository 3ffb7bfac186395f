"""What the log says of a leaderboard: whose it is, who sees it, and until when it is open."""

from dataclasses import dataclass
from datetime import datetime

from shared.event_log import Recorded
from shared.events import LeaderboardArchived, LeaderboardChanged, ProblemPublished
from shared.subjects import last_token

ACTOR = "account:"
Boards = dict[str, "Leaderboard"]


@dataclass
class Leaderboard:
    """A problem's leaderboards: who sees them, whose they are, and until when they are open."""

    owner: str | None = None
    is_published: bool = False
    is_closed: bool = False
    is_archived: bool = False
    deadline_at: datetime | None = None


def fold_leaderboard(boards: Boards, event: Recorded) -> None:
    """Fold an event of a problem into the leaderboards, by slug; others change nothing."""
    found = boards.setdefault(last_token(event.envelope.agg), Leaderboard())
    match event.fact:
        case ProblemPublished():
            actor = event.envelope.actor
            if not found.is_published and actor.startswith(ACTOR):
                found.owner = actor.removeprefix(ACTOR)
            found.is_published = True
        case LeaderboardChanged() as fact:
            if fact.visibility is not None:
                # What is not known to be public is closed.
                found.is_closed = fact.visibility != "public"
            if fact.has_deadline is not None:
                found.deadline_at = fact.deadline_at if fact.has_deadline else None
        case LeaderboardArchived():
            found.is_archived = True

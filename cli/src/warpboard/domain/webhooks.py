"""Webhooks: answers about what is told to addresses of one's own, and how they read."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

import msgspec

from warpboard.domain.tables import Table
from warpboard.domain.units import NOTHING, one_line, when

KINDS = (
    *("submission.ended", "submission.ranked", "submission.held", "entry.overtaken"),
    *("problem.opened", "problem.deadline_moved", "problem.closed", "problem.version_published"),
    "rejudge.applied",
)
# Without being told which: what one waits for.
KINDS_USUAL = ("submission.ended", "submission.held", "entry.overtaken")
ALL = "all"


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook; one that is off has a notice that says why."""

    id: str
    url: str
    events: list[str]
    problems: list[str] = []
    state: str = "on"
    notice: str | None = None
    created_at: datetime | None = None


class Made(Webhook, frozen=True, kw_only=True):
    """A webhook that was just made, with its secret for this once."""

    secret: str


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """One's webhooks."""

    items: list[Webhook]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one event."""

    number: int
    event_id: str
    type: str
    state: str
    tries: int = 0
    status: int | None = None
    error: str | None = None
    created_at: datetime | None = None
    next_at: datetime | None = None


class Deliveries(msgspec.Struct, frozen=True, kw_only=True):
    """What a webhook was told; the cursor leads to what was before."""

    items: list[Delivery]
    next_cursor: str | None = None


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A test that is on its way."""

    id: str
    event_id: str


def about(found: Webhook, zone: tzinfo | None = None) -> Iterator[str]:
    """A webhook, whole."""
    yield f"webhook {found.id}, {found.state}, since {when(found.created_at, zone)}"
    yield f"leads to {one_line(found.url, 2048)}"
    yield f"is told of {', '.join(found.events)}"
    yield "of " + (", ".join(found.problems) or "every leaderboard that you see")
    if found.notice is not None:
        yield f"off: {one_line(found.notice, 500)}"


def webhooks(found: Sequence[Webhook], zone: tzinfo | None = None) -> Table:
    """One's webhooks."""
    rows = [
        (
            one.id,
            one.state,
            one_line(one.url, 60),
            " ".join(one.events),
            " ".join(one.problems) or ALL,
            when(one.created_at, zone),
        )
        for one in found
    ]
    return Table("webhooks", ("id", "state", "url", "events", "problems", "created"), rows)


def deliveries(found: Sequence[Delivery], zone: tzinfo | None = None) -> Table:
    """What a webhook was told, newest first."""
    rows = [
        (
            str(one.number),
            one.type,
            one.state,
            str(one.tries),
            str(one.status or NOTHING),
            one_line(one.error or "", 60) or NOTHING,
            when(one.created_at, zone),
            when(one.next_at, zone),
        )
        for one in found
    ]
    columns = ("number", "event", "state", "tries", "status", "error", "created", "next try")
    return Table("deliveries", columns, rows)

"""What a leaderboard is set to, as its author and participants read it."""

from collections.abc import Iterator
from datetime import datetime, tzinfo

import msgspec

from warpboard.domain.deadlines import both
from warpboard.domain.statements import RANKED_BY
from warpboard.domain.units import NOTHING, one_line

SEEN = {
    "owner": "by their owners alone",
    "after_close": "by their owners, and by all once the deadline is over",
    "always": "by all, at once",
}
PASSED_ON = {
    "never": "never",
    "after_close": "once the deadline is over",
    "always": "at any time",
}


class BoardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a leaderboard is set to."""

    slug: str
    title: str = ""
    number: int = 1
    visibility: str = "public"
    deadline_at: datetime | None = None
    is_archived: bool = False
    gpus: list[str] = []
    gpus_closed: list[str] = []
    quotas: list[str] = []
    ranking_by: str = ""
    source_visible: str = ""
    publish: str = ""
    licence: dict[str, str] = {}
    consent: str = ""


def lines(found: BoardSettings, zone: tzinfo | None = None) -> Iterator[str]:
    """All of it, a line each; instants in UTC and in the given zone, by default this machine's."""
    yield f"{found.slug}, version {found.number}: {one_line(found.title, 100)}"
    yield f"seen by {'everybody' if found.visibility == 'public' else 'who was invited'}"
    yield _until(found, zone)
    closed = ", ".join(found.gpus_closed)
    rest = f"; {closed} no more, whose entries stay" if closed else ""
    yield f"GPU types: {', '.join(found.gpus) or NOTHING}{rest}"
    yield f"quotas of each participant: {', '.join(found.quotas) or 'none'}"
    yield f"ranked by {RANKED_BY.get(found.ranking_by, NOTHING)}"
    yield f"sources are seen {SEEN.get(found.source_visible, NOTHING)}"
    yield f"submissions are published {PASSED_ON.get(found.publish, NOTHING)}"
    for what, name in found.licence.items():
        yield f"licence of {one_line(what, 20)}: {one_line(name, 200)}"
    if found.consent:
        yield f"consent: {one_line(found.consent, 100)}, accepted before one submits"


def _until(found: BoardSettings, zone: tzinfo | None) -> str:
    if found.is_archived:
        return "archived: it takes nothing in any more"
    if found.deadline_at is None:
        return "takes submissions in without a deadline"
    return f"takes submissions in until {both(found.deadline_at, zone)}"

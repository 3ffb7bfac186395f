"""Show the settings of a leaderboard."""

from collections.abc import Iterator
from datetime import tzinfo

from shared.api.leaderboards import LeaderboardSettings
from shared.presentation.units import NO_VALUE, one_line
from shared.ranking_rules import RANKING_TEXTS
from warpboard.domain.exit_codes import OK
from warpboard.service.ports import Api, Screen
from warpboard.service.problems import local_instant_text

SOURCE_VISIBILITY = {
    "owner": "by their owners alone",
    "after_close": "by their owners, and by all once the deadline is over",
    "always": "by all, at once",
}
PUBLICATION = {
    "never": "never",
    "after_close": "once the deadline is over",
    "always": "at any time",
}


async def show_settings(api: Api, screen: Screen, slug: str, *, as_json: bool) -> int:
    """Show all settings of a leaderboard. Raises Refused and Failed."""
    answer = await api.get(LeaderboardSettings, "leaderboards", slug)
    if as_json:
        screen.json(answer.document)
        return OK
    for line in settings_lines(answer.value):
        screen.say(line)
    return OK


def settings_lines(settings: LeaderboardSettings, zone: tzinfo | None = None) -> Iterator[str]:
    """Describe all settings, one line each; `zone` defaults to this machine's."""
    yield f"{settings.slug}, version {settings.problem_version}: {one_line(settings.title, 100)}"
    yield f"seen by {'everybody' if settings.visibility == 'public' else 'who was invited'}"
    yield _deadline_line(settings, zone)
    closed = ", ".join(settings.gpus_closed)
    closed_note = f"; {closed} no more, whose entries stay" if closed else ""
    yield f"GPU types: {', '.join(settings.gpus) or NO_VALUE}{closed_note}"
    yield f"quotas of each participant: {', '.join(settings.quotas) or 'none'}"
    yield f"ranked by {RANKING_TEXTS.get(settings.ranking_by, NO_VALUE)}"
    yield f"sources are seen {SOURCE_VISIBILITY.get(settings.source_visible, NO_VALUE)}"
    yield f"submissions are published {PUBLICATION.get(settings.publish, NO_VALUE)}"
    for subject, name in settings.licence.items():
        yield f"licence of {one_line(subject, 20)}: {one_line(name, 200)}"
    if settings.consent:
        yield f"consent: {one_line(settings.consent, 100)}, accepted before one submits"


def _deadline_line(settings: LeaderboardSettings, zone: tzinfo | None) -> str:
    if settings.is_archived:
        return "archived: it takes nothing in any more"
    if settings.deadline_at is None:
        return "takes submissions in without a deadline"
    return f"takes submissions in until {local_instant_text(settings.deadline_at, zone)}"

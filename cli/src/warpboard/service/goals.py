"""Baselines run once more and how they stand; milestones that were reached."""

from dataclasses import dataclass

from warpboard.domain import tables
from warpboard.domain.answers import Leaderboard, read
from warpboard.domain.goals import BaselineRuns, OwnMilestones, standing_lines
from warpboard.domain.outcome import OK
from warpboard.domain.units import count_text
from warpboard.service.ports import Api, Screen
from warpboard.service.reading import Which, gpus, show


@dataclass(frozen=True)
class Again:
    """Whose baselines run once more, and why."""

    slugs: tuple[str, ...]
    reason: str
    as_json: bool


async def run(api: Api, screen: Screen, asked: Again) -> int:
    """Run the baselines of problems once more. Errors: Refused for one without any; Failed."""
    said = {"reason": asked.reason}
    answers = [
        await api.act("POST", "admin", "problems", slug, "baselines", said=said)
        for slug in asked.slugs
    ]
    if asked.as_json:
        screen.json({"problems": answers})
        return OK
    for answer in answers:
        found = read(answer, BaselineRuns)
        new = [f"{one.name} on {one.gpu}" for one in found.items if one.is_new]
        waiting = len(found.items) - len(new)
        told = f"{', '.join(new)} will run" if new else "none is new"
        left = f"; {count_text(waiting, 'run')} waited already" if waiting else ""
        screen.say(f"{found.slug}: {told}{left}")
    return OK


async def stand(api: Api, screen: Screen, slug: str, *, as_json: bool) -> int:
    """How a problem's baselines stand on each GPU type."""
    answers = [await api.get("leaderboards", slug, gpu) for gpu in await gpus(api, Which(slug))]
    if as_json:
        told = [{"gpu": one["gpu"], "baselines": one.get("baselines", [])} for one in answers]
        screen.json({"leaderboards": told})
        return OK
    boards = [read(answer, Leaderboard) for answer in answers]
    lines = [line for board in boards for line in standing_lines(board.gpu, board.baselines)]
    for line in lines or [f"{slug} has no baselines"]:
        screen.say(line)
    return OK


async def milestones(api: Api, screen: Screen, *, as_json: bool) -> int:
    """What one reached, newest first."""
    answer = await api.get("me", "milestones")
    found = read(answer, OwnMilestones).items
    return show(screen, answer, tables.own_milestones(found), as_json=as_json)

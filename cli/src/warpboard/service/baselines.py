"""Run baselines again, and show their state and the milestones that were reached."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from shared.api.baselines import Baseline, Baselines, OwnMilestone, OwnMilestones
from shared.api.leaderboards import Leaderboard
from shared.presentation.units import count_text, instant_text, one_line, time_text
from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.service.answers import show_answer
from warpboard.service.leaderboards import LeaderboardQuery, resolve_gpus
from warpboard.service.ports import Api, Screen


@dataclass(frozen=True)
class BaselineRunOptions:
    """Which problems' baselines to run again, and why."""

    slugs: tuple[str, ...]
    reason: str
    as_json: bool


async def run_baselines(api: Api, screen: Screen, options: BaselineRunOptions) -> int:
    """Run the baselines of problems again. Raises Refused for a problem without any, and Failed."""
    body = {"reason": options.reason}
    answers = [
        await api.act(Baselines, "POST", "admin", "problems", slug, "baselines", body=body)
        for slug in options.slugs
    ]
    if options.as_json:
        screen.json({"problems": [answer.document for answer in answers]})
        return OK
    for answer in answers:
        runs = answer.value
        new = [f"{run.name} on {run.gpu}" for run in runs.items if run.is_new]
        waiting = len(runs.items) - len(new)
        new_note = f"{', '.join(new)} will run" if new else "none is new"
        waiting_note = f"; {count_text(waiting, 'run')} waited already" if waiting else ""
        screen.say(f"{runs.slug}: {new_note}{waiting_note}")
    return OK


async def list_baselines(api: Api, screen: Screen, slug: str, *, as_json: bool) -> int:
    """Show the state of a problem's baselines on each GPU type."""
    answers = [
        await api.get(Leaderboard, "leaderboards", slug, gpu)
        for gpu in await resolve_gpus(api, LeaderboardQuery(slug))
    ]
    if as_json:
        documents = [
            {"gpu": answer.value.gpu, "baselines": answer.document["baselines"]}
            for answer in answers
        ]
        screen.json({"leaderboards": documents})
        return OK
    boards = [answer.value for answer in answers]
    lines = [line for board in boards for line in baseline_lines(board.gpu, board.baselines)]
    for line in lines or [f"{slug} has no baselines"]:
        screen.say(line)
    return OK


async def milestones(api: Api, screen: Screen, *, as_json: bool) -> int:
    """Show the milestones that the caller reached, newest first."""
    answer = await api.get(OwnMilestones, "me", "milestones")
    reached = answer.value.items
    return show_answer(screen, answer, own_milestone_table(reached), as_json=as_json)


def baseline_lines(gpu: str, baselines: Sequence[Baseline]) -> list[str]:
    """Describe the state of each baseline of a problem on a GPU type."""
    return [f"{gpu}: {baseline.name} {_state_text(baseline)}" for baseline in baselines]


def _state_text(baseline: Baseline) -> str:
    if baseline.state == "measured":
        return f"took {time_text(baseline.score_us)}, measured {instant_text(baseline.measured_at)}"
    if baseline.state == "failed":
        return f"failed: {baseline.reason or 'its author knows why'}"
    if baseline.state == "waiting":
        return "waits for an agent that is free"
    return "was not run: no agent took it in a day; run it again once there is one"


def own_milestone_table(reached: Sequence[OwnMilestone], zone: tzinfo | None = None) -> Table:
    """List the caller's milestones, newest first."""
    rows = [
        (
            milestone.problem,
            milestone.gpu,
            one_line(milestone.title, 60),
            str(milestone.problem_version),
            str(milestone.number),
            instant_text(milestone.reached_at, zone),
        )
        for milestone in reached
    ]
    columns = ("problem", "GPU type", "milestone", "version", "number", "when")
    return Table("milestones", columns, rows)

"""Commands for baselines, which the platform runs itself, and for milestones."""

from collections.abc import Sequence
from datetime import tzinfo

import click

from shared.api.baselines import Baseline, Baselines, OwnMilestone, OwnMilestones
from shared.api.leaderboards import Leaderboard
from shared.presentation.units import count_text, instant_text, one_line, time_text
from warpboard.domain.tables import Table
from warpboard.service.answers import resolve_gpus
from warpboard.service.context import AppContext
from warpboard.service.ports import Api
from warpboard.terminal import options
from warpboard.terminal.command_types import api_command


@api_command(
    'problem baseline run matmul softmax --reason "driver 580 on all H200"',
    parameters=(
        click.argument("problems", type=options.SLUG, nargs=-1, required=True),
        options.REASON,
    ),
    access=options.operator_options,
)
async def run_baselines(context: AppContext, api: Api, problems: Sequence[str], reason: str) -> int:
    """Run the baselines of PROBLEMS again.

    They run behind all other jobs, for example after a driver update.
    """
    body = {"reason": reason}
    answers = [
        await api.act(Baselines, "POST", "admin", "problems", slug, "baselines", body=body)
        for slug in problems
    ]
    return context.show(
        {"problems": [answer.document for answer in answers]},
        [_runs_line(answer.value) for answer in answers],
    )


def _runs_line(runs: Baselines) -> str:
    new = [f"{run.name} on {run.gpu}" for run in runs.items if run.is_new]
    waiting = len(runs.items) - len(new)
    new_note = f"{', '.join(new)} will run" if new else "none is new"
    waiting_note = f"; {count_text(waiting, 'run')} waited already" if waiting else ""
    return f"{runs.slug}: {new_note}{waiting_note}"


@api_command(
    "problem baseline list matmul", parameters=(options.PROBLEM,), access=options.viewer_options
)
async def list_baselines(context: AppContext, api: Api, slug: str) -> int:
    """List a PROBLEM's baselines and their state.

    Its author and operators see why one failed.
    """
    answers = [
        await api.get(Leaderboard, "leaderboards", slug, gpu)
        for gpu in await resolve_gpus(api, slug)
    ]
    boards = [answer.value for answer in answers]
    lines = [
        f"{board.gpu}: {baseline.name} {_state_text(baseline)}"
        for board in boards
        for baseline in board.baselines
    ]
    documents = [
        {"gpu": answer.value.gpu, "baselines": answer.document["baselines"]} for answer in answers
    ]
    return context.show({"leaderboards": documents}, lines or [f"{slug} has no baselines"])


def _state_text(baseline: Baseline) -> str:
    if baseline.state == "measured":
        return f"took {time_text(baseline.score_us)}, measured {instant_text(baseline.measured_at)}"
    if baseline.state == "failed":
        return f"failed: {baseline.reason or 'its author knows why'}"
    if baseline.state == "waiting":
        return "waits for an agent that is free"
    return "was not run: no agent took it in a day; run it again once there is one"


@api_command("leaderboard milestones", access=options.viewer_options)
async def milestones(context: AppContext, api: Api) -> int:
    """List the milestones that you reached.

    The newest is first.
    """
    answer = await api.get(OwnMilestones, "me", "milestones")
    return context.show(answer.document, [own_milestone_table(answer.value.items)])


def own_milestone_table(reached: Sequence[OwnMilestone], zone: tzinfo | None = None) -> Table:
    """List the caller's milestones, newest first."""
    rows = [
        (
            milestone.problem,
            milestone.gpu,
            one_line(milestone.title, 60),
            str(milestone.problem_version),
            str(milestone.number),
            instant_text(milestone.at, zone),
        )
        for milestone in reached
    ]
    columns = ("problem", "GPU type", "milestone", "version", "number", "when")
    return Table("milestones", columns, rows)

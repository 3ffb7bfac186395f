"""Commands that run again what ran before: rejudges of submissions, and baselines."""

from collections.abc import Iterator, Sequence

import click
from click import IntRange

from shared.api.cases import Baseline, Baselines
from shared.api.leaderboards import Leaderboard
from shared.api.moderation import (
    FullRejudge,
    ItemSide,
    Preview,
    Rejudge,
    Rejudges,
    RequestedRejudge,
)
from shared.presentation.units import NO_VALUE, count_text, instant_text, one_line, time_text
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import Table, make_table
from warpboard.service.answers import resolve_gpus
from warpboard.service.publication import rejudge_started_lines
from warpboard.terminal import options
from warpboard.terminal.options import api_command


@api_command(
    'problem rejudge start matmul --reason "version 2 checks odd sizes"',
    parameters=(
        click.argument("problem", type=options.SLUG),
        click.option("--gpu", metavar="TYPE", help="Only this GPU type."),
        click.option(
            "--select",
            type=click.Choice(["best", "all"]),
            default="best",
            show_default=True,
            help="The entries of the leaderboard, or every ranked submission.",
        ),
        click.option("--from-version", type=IntRange(min=1), help="Default: the newest but one."),
        click.option("--to-version", type=IntRange(min=1), help="Default: the newest."),
        options.REASON,
    ),
    access=options.OPERATOR,
)
async def start_rejudge(context: AppContext, api: Api, **body: object) -> int:
    """Rejudge submissions to a PROBLEM.

    Nothing counts until it is applied.
    """
    answer = await api.act(RequestedRejudge, "POST", "admin", "rejudges", body=body)
    return context.show(answer.document, rejudge_started_lines(answer.value))


@api_command("problem rejudge list", parameters=(options.WIDE,), access=options.OPERATOR)
async def list_rejudges(context: AppContext, api: Api) -> int:
    """List the rejudges, newest first."""
    answer = await api.get(Rejudges, "rejudges")
    rows = [
        {
            "rejudge": rejudge.id,
            "problem": rejudge.problem,
            "versions": f"{rejudge.from_version} to {rejudge.to_version}",
            "judged": f"{rejudge.judged} of {rejudge.count}",
            "state": rejudge.state,
            "changed": rejudge.changed_count,
            "actor": rejudge.actor,
            "when": rejudge.requested_at,
            "reason": one_line(rejudge.reason, 60),
        }
        for rejudge in answer.value.items
    ]
    table = make_table("rejudges", rows, extra=("actor", "when", "changed", "versions"))
    return context.show(answer.document, [table])


@api_command(
    "problem rejudge show 01HZX3", parameters=(options.ID, options.WIDE), access=options.OPERATOR
)
async def show_rejudge(context: AppContext, api: Api, id_: str) -> int:
    """Show rejudge ID and what it would change.

    The changes are listed by submission.
    """
    answer = await api.get(FullRejudge, "rejudges", id_)
    rejudge = answer.value
    tables = list(preview_tables(rejudge.preview)) if rejudge.preview else []
    return context.show(answer.document, [*tables, *rejudge_lines(rejudge)])


def rejudge_lines(rejudge: Rejudge) -> Iterator[str]:
    """Describe a rejudge without its preview, and what to do next."""
    versions = f"from version {rejudge.from_version} to {rejudge.to_version}"
    yield f"rejudge {rejudge.id}: {rejudge.problem} {versions}, {rejudge.select}"
    yield f"asked by {rejudge.actor}: {one_line(rejudge.reason)}"
    progress = f"{rejudge.judged} of {count_text(rejudge.count, 'submission')} judged"
    yield f"state {rejudge.state}: {progress}"
    if rejudge.end_actor:
        yield f"ended by {rejudge.end_actor}: {one_line(rejudge.end_reason or NO_VALUE)}"
    if rejudge.state == "previewed":
        yield f"nothing counts yet: warpboard problem rejudge apply {rejudge.id}, or discard"


def preview_tables(preview: Preview) -> Iterator[Table]:
    """List what a rejudge changes, changed submissions first, and whose rank changes."""
    items = sorted(preview.items, key=lambda item: (not item.changed, item.gpu, item.number))
    rows = []
    for change in items:
        old, new = _result_cells(change.old), _result_cells(change.new)
        pairs = {
            name: old[name] if old[name] == new[name] else f"{old[name]} → {new[name]}"
            for name in old
        }
        mark = "changes" if change.changed else ""
        rows.append({"number": change.number, "GPU type": change.gpu, **pairs, "": mark})
    count = count_text(len(items), "submission")
    yield make_table(f"preview: {preview.changed_count} of {count} change", rows)
    if preview.moves:
        moves = [
            {
                "GPU type": move.gpu,
                "account": move.participant_id,
                "place": f"{move.old_rank or NO_VALUE} → {move.new_rank or NO_VALUE}",
            }
            for move in preview.moves
        ]
        yield make_table("moves", moves)


def _result_cells(side: ItemSide) -> dict[str, str]:
    return {
        "verdict": side.verdict or NO_VALUE,
        "eligible": {True: "yes", False: f"no ({side.code})", None: NO_VALUE}[side.is_eligible],
        "score": time_text(side.score_us),
        "place": NO_VALUE if side.rank is None else str(side.rank),
    }


@api_command(
    'problem baseline run matmul softmax --reason "driver 580 on all H200"',
    parameters=(
        click.argument("problems", type=options.SLUG, nargs=-1, required=True),
        options.REASON,
    ),
    access=options.OPERATOR,
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


@api_command("problem baseline list matmul", parameters=(options.PROBLEM,), access=options.VIEWER)
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
